"""A checkpoint that Spark has written is repaired, and each engine goes on from it as from one that was right."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.examples import sampled
from tests.topologies.repairs.test_repairing import AS_THEY_CAME, FIRST, SECOND, shop, write
from topologies.checkpoints.going_back import inspect
from topologies.checkpoints.paired_checkpoint import PairedCheckpoint
from topologies.run.options import RunOptions
from topologies.spark.running import run_on_spark
from windbolt import run_local, state

pytestmark = pytest.mark.usefixtures("spark")
ENGINES: dict[str, Callable[..., Any]] = {"spark": run_on_spark, "local": run_local}


def rows(sink: Any) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in sink.rows)


@pytest.mark.parametrize("engines", sampled([("spark", "spark"), ("spark", "local"), ("local", "spark")], 3))
def test_engines_go_on_from_what_was_repaired(engines: tuple[str, str], tmp_path: Path) -> None:
    before, after = engines
    write(tmp_path, "1.jsonl", FIRST)
    checkpoint, target = str(tmp_path / "ck"), str(tmp_path / "repaired")
    ENGINES[before](shop(tmp_path)[0], RunOptions(checkpoint, keep_open=True))
    found = state.read(checkpoint, "revenue").to_pandas("events")
    found.loc[found.price > 1000, "price"] /= 100
    state.repair(checkpoint, target, {"revenue": found}, without={"revenue": found[found.user == "test"]})
    assert inspect(PairedCheckpoint(target)).damage == []
    write(tmp_path, "2.jsonl", SECOND)
    topology, sink = shop(tmp_path)
    ENGINES[after](topology, RunOptions(target))
    assert rows(sink) == [("ann", 2, 72.0, 9_007_199_254_740_994), ("bob", 1, 8.0, 0), ("bob", 1, 64.0, 1)]
    topology, sink = shop(tmp_path)
    ENGINES[after](topology, RunOptions(checkpoint))
    assert rows(sink) == AS_THEY_CAME, "the checkpoint is as it was"
