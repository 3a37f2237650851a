"""One Spark session for all tests of the Spark runner."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.shop import write_orders
from tests.spark.tools import CONF
from topologies.spark.session import open_session


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session on two cores whose tasks may fail three times before their job does."""
    session, own = open_session("local[2,4]", CONF)
    yield session
    if own:
        session.stop()


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    """A folder with three files of orders; some are late, some have no time."""
    folder = tmp_path / "orders"
    write_orders(folder, range(3))
    return folder
