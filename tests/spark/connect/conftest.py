"""One Connect server for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql.connect.session import SparkSession

from servers.spark import ConnectServer, connect_server


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectServer]:
    with connect_server(tmp_path_factory.mktemp("connect")) as started:
        yield started
        session = SparkSession.getActiveSession()
        if session is not None:  # at the end of the process its client would wait for the server for ten minutes
            session.stop()


@pytest.fixture
def session(server: ConnectServer, monkeypatch: pytest.MonkeyPatch) -> object:
    """A session of the user's, which is the same for all tests; a classic one of other tests may be there too."""
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "")  # what PySpark sets is gone after the test
    return SparkSession.builder.remote(server.address).getOrCreate()
