"""One Connect server for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from servers.connect import ConnectServer, connect_server


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectServer]:
    with connect_server(tmp_path_factory.mktemp("connect")) as started:
        yield started


@pytest.fixture(scope="package")
def session(server: ConnectServer) -> Iterator[object]:
    """A session of the user's."""
    from pyspark.sql.connect.session import SparkSession

    opened = SparkSession.builder.remote(server.address).create()
    yield opened
    opened.stop()
