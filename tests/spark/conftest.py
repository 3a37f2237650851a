"""One Spark session for all tests of the Spark runner."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from xdist.scheduler import LoadScopeScheduling

from servers import java
from servers.java import jars
from servers.kafka import Kafka, broker
from tests.spark.shop import write_orders
from tests.spark.tools import CONF
from topologies.spark.classic_session import open_session

SHARING_A_SERVER = ("tests/spark/kafka/", "tests/spark/cluster/", "tests/spark/connect/", "tests/spark/hdfs/")
"""Folders whose tests share a broker, a cluster, a Connect server or an HDFS."""


java.use()


class ByServer(LoadScopeScheduling):  # type: ignore[misc]  # it has no type information
    """Gives all tests of a file, or of a folder with a server, to one process."""

    def _split_scope(self, nodeid: str) -> str:
        folders = (folder for folder in SHARING_A_SERVER if nodeid.startswith(folder))
        return next(folders, nodeid.partition("::")[0])


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling | None:
    return ByServer(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session on two cores whose tasks may fail three times before their job does; it has the Kafka connector."""
    connector = {"spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse"))}
    with suppress(OSError):  # no network: the tests that need Kafka will say so
        connector["spark.jars"] = ",".join(jars("connector"))
    session, own = open_session("local[2,4]", CONF | connector)
    yield session
    if own:
        session.stop()


@pytest.fixture(scope="session")
def kafka() -> Iterator[Kafka]:
    """A broker of this session's own."""
    with broker() as servers:
        client = Kafka(servers)
        yield client
        client.close()


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    """A folder with three files of orders; some are late, some have no time."""
    folder = tmp_path / "orders"
    write_orders(folder, range(3))
    return folder
