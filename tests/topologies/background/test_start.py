"""A topology that runs in the background: what can be asked of it meanwhile, and how it ends."""

from __future__ import annotations

import json
import os
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from topologies.background import KEPT_REPORTS
from topologies.io.sinks import MemorySink
from windbolt import (
    BoltError,
    CheckpointError,
    ConfigError,
    Run,
    RunPhase,
    Topology,
    TopologyBuilder,
    TopologyError,
    TupleWindow,
    WindowedBolt,
    runs,
    sinks,
    spouts,
    windowed,
)

SCHEMA = "user string, amount double, ts timestamp"


class Revenue(WindowedBolt):
    outputs = "user string, revenue double"

    def execute(self, window: TupleWindow) -> Any:
        for user, amounts in window.groups("user", "amount"):
            yield user, amounts.sum()


class Broken(WindowedBolt):
    outputs = "n long"

    def execute(self, window: TupleWindow) -> Any:
        raise ValueError("no such thing")


def write_orders(folder: Path, number: int, *seconds: int) -> None:
    folder.mkdir(exist_ok=True)
    rows = [{"user": "ada", "amount": 1.0, "ts": f"2024-01-01T06:00:{second:02d}Z"} for second in seconds]
    draft = folder / f".{number}.jsonl"
    draft.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    draft.rename(folder / f"{number}.jsonl")


def shop(folder: Path, bolt: WindowedBolt | None = None) -> tuple[Topology, MemorySink]:
    folder.mkdir(exist_ok=True)
    builder, sink = TopologyBuilder("shop"), sinks.memory()
    builder.set_spout("orders", spouts.files(folder, SCHEMA, format="jsonl", files_per_batch=1))
    revenue = (bolt or Revenue()).with_tumbling_window("10s").with_timestamp_field("ts")
    builder.set_bolt("revenue", revenue).fields_grouping("orders", "user")
    builder.set_sink("out", sink).from_("revenue")
    return builder.build(), sink


class Reached:
    """Waits until a run has committed so many batches."""

    def __init__(self) -> None:
        self.changed, self.batches = threading.Condition(), 0

    def __call__(self, report: object) -> None:
        with self.changed:
            self.batches += 1
            self.changed.notify_all()

    def wait_for(self, batches: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: self.batches >= batches, 60)


def test_a_run_is_looked_at_stopped_and_goes_on_later(tmp_path: Path) -> None:
    topology, sink = shop(tmp_path / "in")
    reached = Reached()
    run = topology.start(tmp_path / "ck", engine="local", every="5ms", on_report=reached)
    assert runs() == [run]
    assert not run.status.phase.over
    write_orders(tmp_path / "in", 0, 1, 12)
    reached.wait_for(1)
    status = run.status
    assert (status.phase, status.batches, status.rows, status.emitted) == (RunPhase.RUNNING, 1, 2, 1)
    assert status.watermarks == {"revenue": datetime(2024, 1, 1, 6, 0, 12, tzinfo=UTC)}
    assert status.inputs == {"revenue": {"orders": datetime(2024, 1, 1, 6, 0, 12, tzinfo=UTC)}}
    assert abs((datetime.now(UTC) - status.since).total_seconds()) < 60
    assert run.summary.batches == len(run.reports) == 1
    summary = run.stop()
    assert (summary.stopped, summary.rows) == (True, 2)
    assert run.status.phase is RunPhase.STOPPED
    assert (run.ended, runs()) == (True, [])
    assert run.stop() == run.wait() == summary
    assert sink.rows == [{"user": "ada", "revenue": 1.0}]

    write_orders(tmp_path / "in", 1, 14, 31)
    again = topology.start(tmp_path / "ck", engine="local")
    assert again.wait().rows == 2
    assert again.status.phase is RunPhase.FINISHED
    assert again.status.watermarks == {"revenue": datetime(2024, 1, 1, 6, 0, 40, tzinfo=UTC)}, "its last window's end"
    assert again.status.emitted == 2
    assert [row["revenue"] for row in sink.rows] == [1.0, 2.0, 1.0]


def test_a_status_says_which_input_holds_the_watermark_back() -> None:
    builder = TopologyBuilder("two")
    for name, minute in (("orders", 5), ("payments", 2)):
        rows = [("ada", 1.0, datetime(2024, 1, 1, 6, minute, tzinfo=UTC))]
        builder.set_spout(name, spouts.memory(SCHEMA, rows))
    bolt = Revenue().with_tumbling_window("10s").with_timestamp_field("ts").with_lag("1m")
    builder.set_bolt("revenue", bolt).global_grouping("orders").global_grouping("payments")
    builder.set_sink("out", sinks.discard()).from_("revenue")
    run = builder.build().start(engine="local", keep_open=True)
    run.wait()
    six = datetime(2024, 1, 1, 6, tzinfo=UTC)
    inputs = {"orders": six + timedelta(minutes=4), "payments": six + timedelta(minutes=1)}
    assert run.status.inputs == {"revenue": inputs}
    assert run.status.watermarks == {"revenue": min(inputs.values())}
    assert "payments" in run._repr_html_()


@pytest.mark.parametrize("action", ["divert", "drop"])
def test_a_run_says_how_many_events_were_late(action: Any) -> None:
    builder = TopologyBuilder("late")
    batches = [[("ada", 1.0, datetime(2024, 1, 1, 6, minute, tzinfo=UTC))] for minute in (5, 2, 6)]
    builder.set_spout("orders", spouts.memory(SCHEMA, *batches))
    bolt = Revenue().with_tumbling_window("10s").with_timestamp_field("ts").with_lateness(action=action)
    builder.set_bolt("revenue", bolt).global_grouping("orders")
    builder.set_sink("out", sinks.discard()).from_("revenue")
    run = builder.build().start(engine="local")
    run.wait()
    assert run.status.late == 1
    assert "2 rows emitted, 1 late event" in repr(run)
    assert "2 rows emitted, 1 late event" in str(run.status)


def test_a_run_says_that_there_are_complaints() -> None:
    builder = TopologyBuilder("early")
    builder.set_spout("orders", spouts.memory("user string, amount double, ts long", [("ada", 1.0, 1_704_088_805)]))
    bolt = Revenue().with_tumbling_window("10s").with_timestamp_field("ts")
    builder.set_bolt("revenue", bolt).global_grouping("orders")
    builder.set_sink("out", sinks.discard()).from_("revenue")
    run = builder.build().start(engine="local")
    run.wait()
    assert "1 row emitted, 1 complaint in run.summary.complaints>" in repr(run)
    assert "these would be good times as seconds" in run.summary.complaints[0]


def test_a_path_as_the_sink_of_one_bolt_is_answered_with_files(tmp_path: Path) -> None:
    bolt = Revenue().with_tumbling_window("10s").with_timestamp_field("ts")
    with pytest.raises(ConfigError, match=r"is a path(.|\n)*give sinks.files\(path\)"):
        windowed(object(), bolt, checkpoint=tmp_path / "ck", sink=str(tmp_path / "out"))
    with pytest.raises(ConfigError, match=r"give a sink such as sinks.files\(path\), a text or None"):
        windowed(object(), bolt, checkpoint=tmp_path / "ck", sink=tmp_path / "out")  # type: ignore[arg-type]
    builder = TopologyBuilder("shop")
    builder.set_spout("orders", spouts.memory("user string", [("ann",)]))
    builder.set_sink("out", tmp_path / "out").from_("orders")  # type: ignore[arg-type]
    with pytest.raises(TopologyError, match=r"give a sink such as sinks.files\(path\)"):
        builder.build()


def test_run_is_start_and_wait(tmp_path: Path) -> None:
    write_orders(tmp_path / "in", 0, 1, 12)
    topology, sink = shop(tmp_path / "in")
    summary = topology.run(engine="local")
    assert (summary.rows, summary.stopped, len(sink.rows)) == (2, False, 2)


def test_a_bolts_error_is_raised_by_whoever_waits_each_time_in_the_same_words(tmp_path: Path) -> None:
    write_orders(tmp_path / "in", 0, 1, 12)
    topology, _ = shop(tmp_path / "in", Broken())
    with pytest.raises(BoltError) as right:
        topology.run(engine="local")
    run = topology.start(tmp_path / "ck", engine="local")
    for ask in (run.wait, run.stop, run.wait):
        with pytest.raises(BoltError) as told:
            ask()
        assert str(told.value) == str(right.value)
        assert len(told.traceback) < 40, "the traceback does not grow"
    status = run.status
    assert status.phase is RunPhase.FAILED
    assert status.error == str(right.value)
    assert run.summary.batches == 0
    assert "no such thing" in str(status)


def test_a_run_in_the_background_keeps_its_checkpoint_and_says_who_has_it(tmp_path: Path) -> None:
    topology, _ = shop(tmp_path / "in")
    write_orders(tmp_path / "in", 0, 1)
    reached = Reached()
    with topology.start(tmp_path / "ck", engine="local", every="5ms", on_report=reached) as first:
        reached.wait_for(1)
        second = topology.start(tmp_path / "ck", engine="local", every="5ms")
        with pytest.raises(CheckpointError, match=rf"in use by process {os.getpid()}.*windbolt.runs\(\)"):
            second.wait()
        assert not first.ended
    assert first.status.phase is RunPhase.STOPPED
    assert topology.run(tmp_path / "ck", engine="local").rows == 0


def test_two_runs_in_one_process_do_not_disturb_each_other(tmp_path: Path) -> None:
    parts = []
    for name in ("one", "two"):
        folder = tmp_path / name
        topology, sink = shop(folder)
        reached = Reached()
        run = topology.start(tmp_path / f"{name}-ck", engine="local", every="5ms", on_report=reached)
        parts.append((folder, run, reached, sink))
    for number, second in enumerate((1, 12, 23, 34)):
        for folder, _, reached, _ in parts:
            write_orders(folder, number, second)
            reached.wait_for(number + 1)
    for _, run, _, sink in parts:
        assert run.stop().rows == 4
        assert [row["revenue"] for row in sink.rows] == [1.0, 1.0, 1.0]


def test_who_waits_for_a_while_only_is_told_that_it_goes_on(tmp_path: Path) -> None:
    topology, _ = shop(tmp_path / "in")
    with topology.start(tmp_path / "ck", engine="local", every="5ms") as run:
        with pytest.raises(TimeoutError, match=r"has not ended within 0.01 s.*run.stop\(\)"):
            run.wait(0.01)
        assert not run.ended


def test_an_error_within_its_block_stops_a_run_and_is_the_one_that_is_told(tmp_path: Path) -> None:
    topology, _ = shop(tmp_path / "in")
    with (
        pytest.raises(RuntimeError, match="mine"),
        topology.start(tmp_path / "ck", engine="local", every="5ms") as run,
    ):
        raise RuntimeError("mine")
    assert run.status.phase is RunPhase.STOPPED


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"engine": "sparc"}, "engine='sparc'; did you mean 'spark'"),
        ({}, "a run on Spark without a checkpoint"),
        ({"engine": "local", "every": "1s"}, "a trigger interval and no checkpoint"),
        ({"engine": "local", "master": "local[2]", "conf": {}}, "master=, conf= with engine='local'"),
        ({"engine": "local", "every": 2}, "a bare number has no unit"),
        ({"engine": "local", "first_output": "soon"}, "soon"),
        ({"engine": "local", "keep_batches": 0}, "keep_batches is 0"),
        ({"engine": "local", "checkpoint": " "}, "is not a folder's name"),
    ],
)
@pytest.mark.parametrize("method", ["start", "run"])
def test_arguments_that_cannot_be_are_told_at_once(
    method: str, arguments: dict[str, Any], told: str, tmp_path: Path
) -> None:
    topology, _ = shop(tmp_path / "in")
    with pytest.raises(ConfigError) as error:
        getattr(topology, method)(**arguments)
    assert told in str(error.value)
    assert runs() == []


def test_a_status_does_not_change_and_may_be_asked_for_by_anyone_at_any_time(tmp_path: Path) -> None:
    for number in range(12):
        write_orders(tmp_path / "in", number, number)
    topology, sink = shop(tmp_path / "in")
    seen: list[Any] = []
    wrong: list[BaseException] = []

    def look(run: Run) -> None:
        try:
            while not run.end_within(0):
                seen.append((run.status, run.summary, run.to_pandas(), sink.to_pandas(), repr(run)))
        except BaseException as error:
            wrong.append(error)

    gate = threading.Event()

    def first_of_all(report: object) -> None:
        assert gate.wait(300)

    run = topology.start(tmp_path / "ck", engine="local", on_report=first_of_all)
    threads = [threading.Thread(target=look, args=(run,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    gate.set()
    run.wait()
    for thread in threads:
        thread.join(60)
    assert wrong == []
    assert seen
    for status, report, frame, _, _ in seen:
        assert status.batches <= report.batches <= len(frame) <= 13, "each was asked for after the one before"
    assert run.status.batches == 13


def test_a_run_keeps_the_latest_reports_and_makes_a_frame_of_them(tmp_path: Path) -> None:
    write_orders(tmp_path / "in", 0, 1, 12)
    write_orders(tmp_path / "in", 1, 3, 25)
    topology, _ = shop(tmp_path / "in")
    run = topology.start(tmp_path / "ck", engine="local")
    summary = run.wait()
    frame = run.to_pandas()
    assert list(frame["bolt"]) == ["revenue"] * 3
    assert list(frame["closing"]) == [False, False, True]
    assert list(frame["rows"]) == [2, 2, 0]
    assert list(frame["late"]) == [0, 1, 1]
    assert str(frame["watermark"].dtype) == "datetime64[us, UTC]"
    assert [moment.second for moment in frame["watermark"]] == [12, 25, 30]
    assert summary.to_pandas()[["windows", "emitted", "received", "late"]].to_numpy().tolist() == [[3, 3, 4, 1]]
    assert KEPT_REPORTS == 1_000


def test_a_frame_of_a_run_without_a_batch_or_without_windowed_bolts_is_one_too(tmp_path: Path) -> None:
    topology, sink = shop(tmp_path / "in")
    run = topology.start(tmp_path / "ck", engine="local", keep_open=True)
    run.wait()
    assert len(run.to_pandas()) == 0
    assert sink.to_pandas().empty
    builder = TopologyBuilder("plain")
    builder.set_spout("orders", spouts.memory(SCHEMA, [("ada", 1.0, datetime(2024, 1, 1, tzinfo=UTC))]))
    builder.set_sink("out", kept := sinks.memory()).from_("orders")
    plain = builder.build().start(engine="local")
    plain.wait()
    assert plain.to_pandas()[["batch", "rows"]].to_numpy().tolist() == [[0, 1], [0, 0]]
    assert kept.to_pandas()["user"].tolist() == ["ada"]
