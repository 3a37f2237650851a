"""Which tasks the driver of a cluster runs itself: little of windbolt's own work, and nobody else's code."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

import pyarrow as pa
import pytest

from manager.storage.segment_files import FileSegments
from topologies.engine.batch import Context, InProcessExecutor
from topologies.engine.tasks import compact, fire, ingest
from topologies.spark import spark_tasks
from topologies.spark.spark_tasks import runs_in_driver
from windbolt import (
    AggregateBolt,
    BatchBolt,
    RunOptions,
    Topology,
    TopologyBuilder,
    WindowedBolt,
    aggregates,
    run_local,
    seconds,
    sinks,
    spouts,
)


class Same(BatchBolt):
    """Passes everything on."""

    outputs = "user string, n long"

    def execute(self, batch: pa.Table) -> pa.Table:
        return batch


class Count(WindowedBolt):
    outputs = "n long"

    def execute(self, window: Any) -> Any:
        return (len(window),)


SUMS = AggregateBolt(by=["user"], n=aggregates.count())
OWN = AggregateBolt(by=["user"], n=aggregates.combine("user", fold=len, merge=sum, state="long"))


def topology(folder: Path, bolt: WindowedBolt, *, behind: bool = False) -> Topology:
    builder = TopologyBuilder("near")
    builder.set_spout("in", spouts.files(f"{folder}/in/*.jsonl", "user string, ts timestamp", files_per_batch=1))
    configured = bolt.with_tumbling_window(seconds(10)).with_timestamp_field("ts")
    builder.set_bolt("bolt", configured, parallelism=2).fields_grouping("in", "user")
    if behind:
        builder.set_bolt("same", Same()).shuffle_grouping("bolt")
        builder.set_sink("after", sinks.discard()).from_("same")
    builder.set_sink("out", sinks.discard()).from_("bolt")
    return builder.build()


def asked(folder: Path, bolt: WindowedBolt, *, behind: bool = False, files: int = 3) -> dict[str, set[bool]]:
    """Whether the tasks of a run are near, by function."""
    (folder / "in").mkdir()
    for number in range(files):
        lines = [f'{{"user": "u{n}", "ts": "2024-01-01T00:{number:02d}:{n:02d}Z"}}' for n in range(60)]
        (folder / "in" / f"{number:02d}.jsonl").write_text("\n".join(lines))
    found: dict[str, set[bool]] = {}
    run_tasks = InProcessExecutor.map

    def noted(self: InProcessExecutor, function: Any, items: Any, context: Context) -> Any:
        if items:
            found.setdefault(function.__name__, set()).add(runs_in_driver(function, items, context))
        return run_tasks(self, function, items, context)

    with patch.object(InProcessExecutor, "map", noted):
        run_local(topology(folder, bolt, behind=behind), RunOptions(str(folder / "ck")))
    return found


def test_sums_are_joined_by_the_driver_and_input_is_not_read_by_it(tmp_path: Path) -> None:
    assert asked(tmp_path, SUMS) == {"ingest": {False}, "fire": {True}}


def test_sections_are_made_one_by_the_driver(tmp_path: Path) -> None:
    found = asked(tmp_path, Count().with_lag(seconds(3000)), files=20)
    assert found["compact"] == {True}
    assert found["fire"] == {False}


@pytest.mark.parametrize("bolt", [Count(), OWN], ids=["a bolt", "an aggregate of one's own"])
def test_users_code_is_run_by_executors(tmp_path: Path, bolt: WindowedBolt) -> None:
    assert asked(tmp_path, bolt)["fire"] == {False}


def test_sums_that_a_plain_bolt_reads_are_not_near(tmp_path: Path) -> None:
    """It would run in the same task."""
    assert asked(tmp_path, SUMS, behind=True)["fire"] == {False}


def test_much_state_is_not_near(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_tasks, "MOST_BYTES", 200)
    assert asked(tmp_path, SUMS)["fire"] == {False}


def test_many_sections_are_not_near(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_tasks, "MOST_SECTIONS", 1)
    assert asked(tmp_path, SUMS)["fire"] == {False}


@pytest.mark.parametrize("function", [fire, compact, ingest])
def test_state_in_a_store_is_not_near(function: Any) -> None:
    context = cast("Context", _Context(FileSegments("bucket/ck", "s3://bucket/ck")))
    assert not runs_in_driver(function, [], context)


class _Context:
    def __init__(self, store: FileSegments) -> None:
        self.store = store
