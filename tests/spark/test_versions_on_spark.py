"""A join with versions goes on on Spark with the versions that it has."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spark.tools import run
from tests.topologies.engine.test_versions import Shop, versions

pytestmark = pytest.mark.usefixtures("spark")


def test_versions_are_those_of_the_oracle_over_several_runs(tmp_path: Path) -> None:
    shop, rows = Shop(3, tmp_path), []
    for part in range(3):
        topology, sink = versions(tmp_path, "left", tasks=2)
        shop.deliver(part)
        run(topology, tmp_path / "ck", keep_open=part < 2)
        rows += [(row["id"], row["price"]) for row in sink.rows]
    assert sorted(rows, key=str) == shop.joined("left")
