"""The Spark runner gives the rows of the local one, however the input is cut; errors come back as they are."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.helpers.examples import sampled
from tests.spark.shop import (
    SCHEMA,
    Best,
    Big,
    Counted,
    Revenue,
    Rounded,
    Spans,
    Taxed,
    shop_in_memory,
    write_orders,
)
from tests.spark.tools import at_phase, in_order, memory_rows, run, run_until
from topologies.io.sinks import MemorySink
from topologies.topology import Topology
from windbolt import RunOptions, TopologyBuilder, run_local, sinks, spouts
from windowing import TupleWindow, WindowedBolt, seconds
from windowing.errors import BoltError, ConfigError, DataError
from windowing.schema import EmittedRows

pytestmark = pytest.mark.usefixtures("spark")


def everything(orders: Path) -> tuple[Topology, dict[str, MemorySink]]:
    """A topology with every kind of bolt and grouping."""
    builder = TopologyBuilder("everything")
    builder.set_spout("orders", spouts.files(orders, SCHEMA, files_per_batch=2))
    builder.set_bolt("big", Big()).shuffle_grouping("orders")
    builder.set_bolt("taxed", Taxed()).shuffle_grouping("big")

    def timed(bolt: WindowedBolt) -> WindowedBolt:
        return bolt.with_timestamp_field("ts").with_lag("5s").with_late_tuple_stream("late")

    sliding = timed(Revenue().with_window(seconds(20), seconds(10)))
    builder.set_bolt("revenue", sliding, 3).fields_grouping("orders", "user")
    builder.set_bolt("rounded", Rounded()).shuffle_grouping("revenue")
    builder.set_bolt("best", Best().with_tumbling_window("30s")).global_grouping("rounded")
    builder.set_bolt("counted", timed(Counted().with_window(7, 3)), 2).shuffle_grouping("taxed")
    builder.set_bolt("gaps", timed(Spans().with_window("10s", "15s")), 2).fields_grouping("taxed", "user")
    builder.set_bolt("copies", timed(Counted().with_tumbling_window("20s")), 2).all_grouping("orders")
    builder.set_bolt("arrivals", Counted().with_tumbling_window(25), 2).fields_grouping("orders", "user")
    wide = timed(Counted().with_tumbling_window("1m"))
    builder.set_bolt("both", wide).global_grouping("orders").global_grouping("taxed")
    kept: dict[str, MemorySink] = {}
    bolts = ("revenue", "best", "counted", "gaps", "copies", "arrivals", "both")
    streams = [(name, "default") for name in bolts]
    streams += [("revenue", "late"), ("copies", "late"), ("counted", "late"), ("both", "errors")]
    for component, stream in streams:
        sink = kept[f"{component}-{stream}"] = sinks.memory()
        builder.set_sink(f"{component}-{stream}", sink).from_(component, stream)
    return builder.build(), kept


def test_rows_and_accounts_are_those_of_a_local_run(orders: Path, tmp_path: Path) -> None:
    topology, kept = everything(orders)
    there = run_local(topology)
    expected = memory_rows(kept)
    assert all(expected.values())

    topology, kept = everything(orders)
    here = run(topology, tmp_path / "checkpoint")
    assert memory_rows(kept) == expected
    assert here.last is not None
    assert there.last is not None
    assert here.last.bolts == there.last.bolts
    assert here.last.spouts == there.last.spouts
    assert (here.batches, here.rows) == (3, there.rows)


def test_the_cut_into_batches_does_not_show_where_nothing_is_late(orders: Path, tmp_path: Path) -> None:
    answers = []
    for files in (1, 2, None):
        topology, out = shop_in_memory(orders, lag=1000, files_per_batch=files)
        run(topology, tmp_path / f"checkpoint-{files}")
        answers.append(memory_rows(out))
        assert answers[-1]["revenue"]
        assert not answers[-1]["late"]
    assert answers[0] == answers[1] == answers[2]


def test_many_batches_and_their_compaction_do_not_show(tmp_path: Path) -> None:
    orders = tmp_path / "orders"
    write_orders(orders, range(10))
    topology, out = shop_in_memory(orders, lag=1000, length=600, best=False)
    run_local(topology)
    expected = memory_rows(out)
    topology, out = shop_in_memory(orders, lag=1000, length=600, best=False)
    run(topology, tmp_path / "checkpoint")
    assert memory_rows(out) == expected
    assert len(list((tmp_path / "checkpoint/windbolt/manifests").iterdir())) == 3  # as many as can be gone back to


class Fragile(WindowedBolt):
    outputs = "events long"
    mended = False

    def execute(self, window: TupleWindow) -> EmittedRows:
        if not self.mended and len(window) > 3:
            raise ValueError("more than three")  # the line that the error names
        return (len(window),)


def _fragile(mended: bool) -> tuple[Topology, MemorySink]:
    from tests.spark.shop import at

    bolt = Fragile().with_tumbling_window("10s").with_timestamp_field("ts")
    bolt.mended = mended
    batches = [[("a", 1.0, at(second)) for second in some] for some in ((1, 5, 12), (13, 14, 15), (31,))]
    builder, sink = TopologyBuilder("fragile"), sinks.memory()
    builder.set_spout("orders", spouts.memory(SCHEMA, *batches))
    builder.set_bolt("fragile", bolt, 2).fields_grouping("orders", "user")
    builder.set_sink("out", sink).from_("fragile")
    return builder.build(), sink


def test_an_error_in_a_bolt_says_where_and_the_batch_comes_again(tmp_path: Path) -> None:
    topology, sink = _fragile(mended=False)
    with pytest.raises(BoltError) as raised:
        run(topology, tmp_path / "checkpoint")
    text = str(raised.value)
    line = next(
        number for number, text in enumerate(Path(__file__).read_text().splitlines(), 1) if "the error names" in text
    )
    assert "bolt 'fragile' failed in task" in text
    assert "from 2024-05-01T12:00:10Z to 2024-05-01T12:00:20Z of 4 events, in batch 2" in text
    assert f"ValueError: more than three at {__file__}:{line}, in execute" in text
    assert [row["events"] for row in sink.rows] == [2]

    topology, sink = _fragile(mended=True)
    run(topology, tmp_path / "checkpoint")
    assert [row["events"] for row in sink.rows] == [4, 1]


def test_input_that_must_be_readable_stops_the_query(orders: Path, tmp_path: Path) -> None:
    builder = TopologyBuilder("strict", on_invalid="stop")
    builder.set_spout("orders", spouts.files(orders, SCHEMA))
    builder.set_bolt("c", Spans().with_tumbling_window("10s").with_timestamp_field("ts")).global_grouping("orders")
    with pytest.raises(DataError, match="timestamp is null"):
        run(builder.build(), tmp_path / "checkpoint")


def test_a_checkpoint_is_needed(orders: Path) -> None:
    from topologies.spark.running import run_on_spark

    topology, _ = shop_in_memory(orders)
    with pytest.raises(ConfigError, match="without a checkpoint"):
        run_on_spark(topology, RunOptions())


def test_the_session_of_another_thread_is_used_and_left_alone(
    spark: SparkSession, orders: Path, tmp_path: Path
) -> None:
    topology, out = shop_in_memory(orders)
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(run(topology, tmp_path / "checkpoint")))
    thread.start()
    thread.join(120)
    assert results[0].rows
    assert out["best"].rows
    assert spark.range(3).count() == 3


class Clock:
    """A clock that moves a second each time it is asked."""

    def __init__(self, start: int) -> None:
        self.now = start

    def __call__(self) -> int:
        self.now += 1
        return self.now * 1_000_000


def _by_arrival() -> tuple[Topology, MemorySink]:
    builder, sink = TopologyBuilder("arrivals"), sinks.memory()
    batches = [[("a", 1.0, None)] * size for size in (1, 2, 4, 8)]
    builder.set_spout("orders", spouts.memory(SCHEMA, *batches))
    builder.set_bolt("spans", Spans().with_tumbling_window("2s")).global_grouping("orders")
    builder.set_sink("out", sink).from_("spans")
    return builder.build(), sink


def _second(number: int) -> datetime:
    return datetime.fromtimestamp(number, UTC)


@pytest.mark.parametrize("phase", sampled(["commit", "ingest"], 2))
def test_a_batch_that_runs_again_has_its_first_clock(phase: str, tmp_path: Path) -> None:
    topology, sink = _by_arrival()
    run(topology, tmp_path / "whole", clock=Clock(100))
    assert [row["events"] for row in sink.rows] == [1 + 2, 4 + 8]

    topology, before = _by_arrival()
    run_until(topology, tmp_path / "checkpoint", at_phase(2, phase), clock=Clock(100))
    topology, after = _by_arrival()
    clocks = []
    run(topology, tmp_path / "checkpoint", clock=Clock(9000), on_report=lambda report: clocks.append(report.clock))
    assert clocks[:2] == [103_000_000, 9002_000_000]
    replaced = MemorySink({**before.batches, **after.batches})
    spans = [(row["events"], row["until"]) for row in replaced.rows]
    assert spans == [(1 + 2, _second(102)), (4, _second(104)), (8, _second(9002))]


def test_a_clock_that_goes_back_stands_still(tmp_path: Path) -> None:
    topology, sink = _by_arrival()
    clocks: list[int] = []
    times = iter([5, 3, 9, 8, 20])
    run(
        topology,
        tmp_path / "checkpoint",
        clock=lambda: next(times) * 1_000_000,
        on_report=lambda report: clocks.append(report.clock // 1_000_000),
    )
    assert clocks == [5, 5, 9, 9, 20]
    assert in_order(sink.rows)
