"""Limits of a bolt: bytes of a window and the time of a call; what exceeds one ends the run, and nothing is lost."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from windbolt import (
    AggregateBolt,
    BatchWindowedBolt,
    BoltError,
    ConfigError,
    RunOptions,
    TopologyBuilder,
    TopologyError,
    WindowedBolt,
    aggregates,
    run_local,
    seconds,
    sinks,
    spouts,
)

ROWS = [("ada", "x" * 100), ("bob", "y"), ("bob", "y"), ("ada", "x" * 100)]
SIZE = pa.table({"user": ["ada", "bob"], "text": ["x" * 100, "y"]}).nbytes


class Count(WindowedBolt):
    outputs = "n long"

    def execute(self, window: Any) -> Any:
        return (len(window),)


class Slow(Count):
    """Loops forever at a window with a text of ada's."""

    def execute(self, window: Any) -> Any:
        while "ada" in window.column("user"):
            pass
        return (len(window),)


class SlowBatches(BatchWindowedBolt):
    outputs = "n long"
    calls = 0

    def execute_all(self, windows: Any) -> Any:
        type(self).calls += 1
        while True:
            pass


class Caught(Count):
    """Passes over its own errors, as users' code does."""

    def execute(self, window: Any) -> Any:
        while True:
            try:
                while True:
                    pass
            except Exception:
                continue


def run(bolt: WindowedBolt, out: Path | None = None, options: RunOptions | None = None) -> Any:
    builder = TopologyBuilder("limited")
    builder.set_spout("texts", spouts.memory("user string, text string", ROWS))
    builder.set_bolt("bolt", bolt).global_grouping("texts")
    builder.set_sink("out", sinks.files(out, "jsonl") if out else sinks.discard()).from_("bolt")
    return run_local(builder.build(), options or RunOptions())


@pytest.mark.parametrize("configure", [lambda b: b.with_tumbling_window(2), lambda b: b.with_window(2, 2)])
def test_a_window_of_as_many_bytes_passes_and_one_of_more_does_not(configure: Callable[..., Any]) -> None:
    run(configure(Count().with_limits(window_bytes=SIZE)))
    with pytest.raises(BoltError) as caught:
        run(configure(Count().with_limits(window_bytes=SIZE - 1)))
    error = caught.value
    assert f"bolt 'bolt' was to be called with {SIZE} bytes in task 0 on the window" in error.what
    assert error.what.endswith("Z, in batch 0")
    assert error.why == f"with_limits(window_bytes={SIZE - 1}) allows no more"
    assert "raise the limit: batch 0 was not committed" in error.do
    assert (error.bolt, error.task, error.transient) == ("bolt", 0, False)


def test_windows_of_keys_and_those_that_are_given_all_at_once_are_measured_too() -> None:
    class Batches(BatchWindowedBolt):
        outputs = "n long"

        def execute_all(self, windows: Any) -> Any:
            raise AssertionError("it was called")

    keyed = Count().with_key("user").with_window(2, 2).with_limits(window_bytes=100)
    with pytest.raises(BoltError, match="on the window of 2 events"):
        run(keyed)
    with pytest.raises(BoltError, match="was to be called with"):
        run(Batches().with_tumbling_window(2).with_limits(window_bytes=10))


@pytest.mark.parametrize("bolt", [Slow(), Caught()])
def test_a_call_that_takes_longer_ends_the_run(bolt: WindowedBolt) -> None:
    started = time.monotonic()
    with pytest.raises(BoltError) as caught:
        run(bolt.with_tumbling_window(2).with_limits(call_time="200ms"))
    assert 0.2 <= time.monotonic() - started < 20
    error = caught.value
    assert error.what.startswith("bolt 'bolt' took more than 200ms in task 0 on the window")
    assert f"{Path(__file__).name}:" in error.why
    assert ", in execute" in error.why
    assert not error.transient


def test_a_call_for_many_windows_is_not_made_again_for_each() -> None:
    SlowBatches.calls = 0
    with pytest.raises(BoltError, match="took more than 100ms in task 0 on 2 windows"):
        run(SlowBatches().with_tumbling_window(2).with_limits(call_time="100ms"))
    assert SlowBatches.calls == 1


def test_each_call_has_the_time_for_itself() -> None:
    class Steady(Count):
        def execute(self, window: Any) -> Any:
            time.sleep(0.15)
            return (len(window),)

    run(Steady().with_tumbling_window(1).with_limits(call_time="400ms"))  # four calls


def test_a_bolt_that_runs_out_of_memory_on_a_window_is_told_of_the_limit() -> None:
    class Greedy(Count):
        def execute(self, window: Any) -> Any:
            raise MemoryError("cannot allocate 800 GiB")

    with pytest.raises(BoltError, match="cannot allocate 800 GiB") as caught:
        run(Greedy().with_tumbling_window(2))
    assert caught.value.do is not None
    assert "with_limits(window_bytes=) ends a run before that: batch 0 was not committed" in caught.value.do


def test_with_a_higher_limit_the_batch_comes_again(tmp_path: Path) -> None:
    options = RunOptions(str(tmp_path / "ck"))
    out = tmp_path / "out"
    with pytest.raises(BoltError):
        run(Count().with_tumbling_window(2).with_limits(window_bytes=10), out, options)
    assert not [*out.glob("*.jsonl")]
    run(Count().with_tumbling_window(2).with_limits(window_bytes=10_000), out, options)
    assert [line for file in out.glob("*.jsonl") for line in file.read_text().splitlines()] == ['{"n":2}'] * 2


@pytest.mark.parametrize("bad", [{"window_bytes": 0}, {"window_bytes": True}, {"call_time": "0s"}, {}])
def test_a_limit_that_is_none_is_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"with_limits\("):
        Count().with_limits(**bad)


def test_sums_have_no_windows_to_measure() -> None:
    builder = TopologyBuilder("sums")
    builder.set_spout("texts", spouts.memory("user string, ts timestamp", []))
    bolt = AggregateBolt(n=aggregates.count()).with_tumbling_window(seconds(1)).with_timestamp_field("ts")
    builder.set_bolt("bolt", bolt.with_limits(window_bytes=9)).global_grouping("texts")
    builder.set_sink("out", sinks.discard()).from_("bolt")
    with pytest.raises(TopologyError, match="with_limits on an AggregateBolt whose windows are sums"):
        builder.build()
