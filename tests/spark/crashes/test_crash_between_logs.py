"""A run that dies between any two files that a batch leaves in the checkpoint: the batches to come are cut alike."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.fs as pafs
import pytest
from pyspark.sql import SparkSession

from manager.storage.checkpoint import FileCheckpoint
from manager.storage.manifest import batch_key
from tests.helpers.examples import sampled
from tests.spark.shop import Spans
from tests.spark.tools import Crash, at_phase, file_rows, published, run, run_until
from topologies.checkpoints.file_journal import FileLog
from topologies.checkpoints.spark_checkpoint import SourceLog, SparkCheckpoint
from topologies.io.file_spout import WatchedFiles
from topologies.spark.source import PlannedFiles, planned_files
from topologies.topology import Topology
from windbolt import TopologyBuilder, sinks, spouts

pytestmark = pytest.mark.usefixtures("spark")
FILES, LATER = 12, 3
"""Spark joins its log at each tenth entry."""
STREAMS = ("counted", "late")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two folders of files, each of which brings events that are late if it comes in a batch of its own."""
    root = tmp_path_factory.mktemp("between")
    for which in ("one", "two"):
        (root / which).mkdir()
        for number in range(FILES):
            times = [1_700_000_000_000 + 10_000 * number - 7_000 * back for back in range(4)]
            lines = [json.dumps({"user": f"{which}{at % 3}", "ts": time}) for at, time in enumerate(times)]
            path = root / which / f"{number:02}.jsonl"
            path.write_text("\n".join(lines))
            os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))
    return root


def topology(folders: Path, out: Path) -> Topology:
    """How many events each ten seconds have: a tick at the end of each batch, which is a file of each folder."""
    builder = TopologyBuilder("between")
    bolt = Spans().with_tumbling_window("10s").with_timestamp_field("ts").with_late_tuple_stream("late")
    counted = builder.set_bolt("counted", bolt)
    for which in ("one", "two"):
        source = spouts.files(folders / which / "*.jsonl", "user string, ts timestamp", files_per_batch=1)
        builder.set_spout(which, source)
        counted.fields_grouping(which, "user")
    builder.set_sink("out", sinks.files(out / "counted", "jsonl")).from_("counted")
    builder.set_sink("late", sinks.files(out / "late", "jsonl")).from_("counted", "late")
    return builder.build()


def output(out: Path) -> dict[str, Any]:
    return {name: (file_rows(out / name), published(out / name)) for name in STREAMS}


@pytest.fixture(scope="module")
def undisturbed(folders: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    out = tmp_path_factory.mktemp("whole")
    assert run(topology(folders, out), out / "checkpoint").batches == FILES + 1
    found = output(out)
    assert all(rows for rows, _ in found.values())
    return found


def remove(folder: Path, number: int) -> None:
    """Take the entry that Spark wrote last out of one of its logs, as if it had died before."""
    name = max(
        (each.name for each in folder.iterdir() if each.name[0] != "."), key=lambda each: int(each.split(".")[0])
    )
    assert int(name.split(".")[0]) >= number
    (folder / name).unlink()
    (folder / f".{name}.crc").unlink()


# name: which logs of Spark's are taken back, in which a batch was noted that had no plan yet
TAKEN_BACK: dict[str, tuple[str, ...]] = {
    "the files of one source and those of the other": ("offsets", "sources/1"),
    "the files of its sources and its offsets": ("offsets",),
    "its offsets and our plan": (),
}


def die_before_the_plan(place: Topology, checkpoint: Path, batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = FileCheckpoint.plan

    def planned(ours: FileCheckpoint, key: str, *rest: Any) -> Any:
        if key == batch_key(batch, False):
            raise Crash("before the plan")
        return plan(ours, key, *rest)

    with monkeypatch.context() as patched:
        patched.setattr(FileCheckpoint, "plan", planned)
        with pytest.raises(Crash):
            run(place, checkpoint)


@pytest.mark.parametrize("between", sampled(TAKEN_BACK, 3))
def test_a_batch_that_was_not_planned_is_cut_again_as_it_was(
    between: str, folders: Path, undisturbed: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = tmp_path / "checkpoint"
    for batch in (0, 3, 8, 9, 11):  # the third is the tenth entry of the log, since two were cut again before
        die_before_the_plan(topology(folders, tmp_path), checkpoint, batch, monkeypatch)
        for log in TAKEN_BACK[between]:
            remove(checkpoint / "spark" / log, batch)
    run(topology(folders, tmp_path), checkpoint)
    assert output(tmp_path) == undisturbed


def after_the_plan(batch: int) -> Callable[[Any, str], bool]:
    return at_phase(batch, "ingest")


def after_the_manifest(batch: int) -> Callable[[Any, str], bool]:
    return at_phase(batch + 1, "committed")


@pytest.mark.parametrize("moment", [after_the_plan, after_the_manifest])
def test_a_batch_that_was_planned_is_the_same_batch(
    moment: Callable[[int], Any], folders: Path, undisturbed: dict[str, Any], tmp_path: Path
) -> None:
    for batch in (0, 9):
        run_until(topology(folders, tmp_path), tmp_path / "checkpoint", moment(batch))
    run(topology(folders, tmp_path), tmp_path / "checkpoint")
    assert output(tmp_path) == undisturbed


def test_files_that_were_listed_and_kept_do_not_come_before_older_ones(
    spark: SparkSession, folders: Path, tmp_path: Path
) -> None:
    """A batch is cut from what is there, so that it does not matter whether a run has just begun."""
    (tmp_path / "in").mkdir()
    for number in range(1, 1 + FILES):
        (tmp_path / "in" / f"{number:02}").touch()
        os.utime(tmp_path / "in" / f"{number:02}", (1_700_000_000 + number,) * 2)
    log = SourceLog(pafs.LocalFileSystem(), str(tmp_path / "checkpoint"), ("in",))
    batches: list[list[str]] = []

    def note(_: Any, number: int) -> None:
        batches.append([os.path.basename(path) for _, path in log.files(number)])
        if number == 0:
            (tmp_path / "in" / "00").touch()
            os.utime(tmp_path / "in" / "00", (1_700_000_000,) * 2)

    spout = spouts.files(tmp_path / "in", "line string", format="jsonl", files_per_batch=5)
    half = SparkCheckpoint(pafs.LocalFileSystem(), str(tmp_path / "checkpoint"))
    planned = PlannedFiles(WatchedFiles("in", spout), lambda: FileLog(half, 0, None))
    writer = planned_files(spark, planned).writeStream.foreachBatch(note)
    query = (
        writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(processingTime="1 millisecond")
        .start()
    )
    query.processAllAvailable()
    query.stop()
    assert batches == [["01", "02", "03", "04", "05"], ["00", "06", "07", "08", "09"], ["10", "11", "12"]]
