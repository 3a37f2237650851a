"""A run that is asked to stop does not close, whenever that is, with and without a checkpoint."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.scraping import free_port, health
from topologies.engine.report import BatchReport
from topologies.io.sinks import MemorySink
from topologies.run.summary import Summary
from windbolt import RunOptions, TopologyBuilder, run_local, sinks, spouts
from windowing import AggregateBolt
from windowing.aggregates import count

BOTH = pytest.mark.parametrize("checkpoint", [None, "ck"])


def run(folder: Path, checkpoint: str | None, batches: int, **options: Any) -> tuple[Summary, MemorySink]:
    """Orders in batches of one file, all in one window, which only the closing fires."""
    (folder / "in").mkdir(exist_ok=True)
    for number in range(batches):
        (folder / f"in/{number}.jsonl").write_text(f'{{"ts": {number + 1}}}\n')
    builder, sink = TopologyBuilder("orders"), sinks.memory()
    builder.set_spout("orders", spouts.files(str(folder / "in"), schema="ts long", format="jsonl", files_per_batch=1))
    bolt = AggregateBolt(n=count()).with_tumbling_window("1m").with_timestamp_field("ts")
    builder.set_bolt("counts", bolt).global_grouping("orders")
    builder.set_sink("out", sink).from_("counts")
    kept = None if checkpoint is None else str(folder / checkpoint)
    return run_local(builder.build(), RunOptions(kept, **options)), sink


@BOTH
@pytest.mark.parametrize("batches", [1, 2])
def test_a_run_that_is_stopped_in_its_last_batch_does_not_close(
    checkpoint: str | None, batches: int, tmp_path: Path
) -> None:
    stop = threading.Event()

    def on_report(report: BatchReport) -> None:
        if report.batch == batches - 1:
            stop.set()

    with free_port() as port:
        summary, sink = run(tmp_path, checkpoint, batches, stop=stop, on_report=on_report, serve_metrics=port)
        assert health(port)[1]["topologies"]["orders"]["state"] == "stopped"
    assert (summary.batches, summary.rows, summary.stopped, sink.rows) == (batches, batches, True, [])


@BOTH
def test_a_run_that_is_stopped_before_its_first_batch_does_nothing(checkpoint: str | None, tmp_path: Path) -> None:
    stop = threading.Event()
    stop.set()
    summary, sink = run(tmp_path, checkpoint, 1, stop=stop)
    assert (summary.batches, summary.stopped, sink.rows) == (0, True, [])


@BOTH
def test_a_stop_during_the_closing_comes_too_late(checkpoint: str | None, tmp_path: Path) -> None:
    stop = threading.Event()

    def on_report(report: BatchReport) -> None:
        if report.closing:
            stop.set()

    with free_port() as port:
        summary, sink = run(tmp_path, checkpoint, 1, stop=stop, on_report=on_report, serve_metrics=port)
        assert health(port)[1]["topologies"]["orders"]["state"] == "finished"
    assert (summary.batches, summary.stopped, sink.rows) == (2, False, [{"n": 1}])


@BOTH
def test_windows_that_are_to_stay_open_do(checkpoint: str | None, tmp_path: Path) -> None:
    summary, sink = run(tmp_path, checkpoint, 1, keep_open=True)
    assert (summary.batches, summary.stopped, sink.rows) == (1, False, [])
