"""One cluster for all tests of this folder, and the rows that they expect."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from servers.spark import Standalone, standalone
from tests.spark.cluster.playing import PROGRAM, app, prepared, rows


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with standalone(tmp_path_factory.mktemp("cluster"), program=PROGRAM) as started:
        prepared(started)
        yield started


@pytest.fixture(scope="package")
def expected(cluster: Standalone) -> dict[str, list[str]]:
    """The rows of a local run."""
    app(cluster, "expected", "local")
    return rows(cluster, "expected")
