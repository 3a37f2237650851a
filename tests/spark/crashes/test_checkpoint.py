"""Runs on the checkpoint of an earlier run: they continue, or are refused with what to do."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.helpers.examples import sampled
from tests.spark.shop import SCHEMA, Revenue, Spans, at, shop_in_files, shop_in_memory, write_orders
from tests.spark.tools import at_phase, file_rows, memory_rows, published, run, run_until
from topologies.checkpoints import state_tables as state
from topologies.checkpoints.paired_checkpoint import PairedCheckpoint
from topologies.topology import Topology
from windbolt import TopologyBuilder, sinks, spouts
from windowing import TupleWindow, WindowedBolt
from windowing.errors import CheckpointError, SinkError
from windowing.schema import EmittedRows

pytestmark = pytest.mark.usefixtures("spark")


def test_a_run_in_two_parts_is_one_run(tmp_path: Path) -> None:
    orders, half = tmp_path / "orders", tmp_path / "half"
    write_orders(orders, range(4))
    write_orders(half, range(2))
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    run(shop_in_files(orders, whole), whole / "checkpoint")

    first = run(shop_in_files(half, parts), parts / "checkpoint", keep_open=True)
    write_orders(half, range(2, 4))
    second = run(shop_in_files(half, parts), parts / "checkpoint")
    assert (first.batches, second.batches) == (2, 3)
    for name in ("revenue", "late", "best"):
        assert file_rows(parts / name) == file_rows(whole / name) != []
        assert published(parts / name) == published(whole / name)


def _events(folder: Path) -> tuple[Topology, Any]:
    builder, sink = TopologyBuilder("events"), sinks.memory()
    builder.set_spout("orders", spouts.files(folder, SCHEMA, format="jsonl"))
    bolt = Spans().with_tumbling_window("10s").with_timestamp_field("ts").with_lag("5s")
    builder.set_bolt("spans", bolt).global_grouping("orders")
    builder.set_sink("out", sink).from_("spans")
    return builder.build(), sink


def _write(path: Path, *moments: float) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f'{{"user":"a","amount":1,"ts":"{at(moment).isoformat()}"}}\n' for moment in moments))


def test_after_the_end_what_is_later_goes_on_and_what_is_earlier_is_late(tmp_path: Path) -> None:
    _write(tmp_path / "orders/1.jsonl", 1, 2, 13)
    topology, sink = _events(tmp_path / "orders")
    run(topology, tmp_path / "checkpoint")
    assert [(row["events"], row["until"]) for row in sink.rows] == [(2, at(10)), (1, at(20))]

    _write(tmp_path / "orders/2.jsonl", 3, 14, 21, 22)
    topology, sink = _events(tmp_path / "orders")
    last = run(topology, tmp_path / "checkpoint").last
    assert [(row["events"], row["until"]) for row in sink.rows] == [(2, at(30))]
    assert last is not None
    accounts = last.bolts["spans"].accounts
    assert (accounts["received"], accounts["windowed"], accounts["late"], accounts["pending"]) == (7, 5, 2, 0)


def test_when_everything_is_done_a_run_does_nothing(orders: Path, tmp_path: Path) -> None:
    topology, _ = shop_in_memory(orders)
    run(topology, tmp_path / "checkpoint")
    for _ in range(2):
        topology, out = shop_in_memory(orders)
        summary = run(topology, tmp_path / "checkpoint")
        assert (summary.batches, summary.rows) == (0, 0)
        assert not any(memory_rows(out).values())


def test_a_run_over_nothing_can_be_followed_by_one_over_something(tmp_path: Path) -> None:
    (tmp_path / "orders").mkdir()
    run(_events(tmp_path / "orders")[0], tmp_path / "checkpoint")
    _write(tmp_path / "orders/1.jsonl", 1)
    topology, sink = _events(tmp_path / "orders")
    run(topology, tmp_path / "checkpoint")
    assert len(sink.rows) == 1


class Another(WindowedBolt):
    outputs = "n long"

    def execute(self, window: TupleWindow) -> EmittedRows:
        return (len(window),)


@pytest.fixture(scope="module")
def used(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint after some batches, beside its input."""
    folder = tmp_path_factory.mktemp("used")
    write_orders(folder / "orders", range(2))
    run(shop_in_memory(folder / "orders")[0], folder / "checkpoint", keep_open=True)
    return folder


CHANGED: dict[str, tuple[dict[str, Any], str]] = {
    "parallelism": ({"parallelism": 4}, "bolt 'revenue': parallelism was 3, and is 4"),
    "length": ({"length": 30}, "bolt 'revenue': window length was '20s', and is '30s'"),
    "grouping": ({"grouping": "amount"}, r"grouping of 'taxed' was 'fields\(user\)', and is 'fields\(amount\)'"),
    "a bolt is gone": ({"best": False}, "bolt 'best' is gone"),
    "type of a column": (
        {"schema": SCHEMA.replace("double", "float")},
        "spout 'orders': columns of 'default' was .*float",
    ),
}


@pytest.mark.parametrize("name", sampled(CHANGED, 5))
def test_a_changed_topology_is_refused(used: Path, name: str, tmp_path: Path) -> None:
    changed, said = CHANGED[name]
    shutil.copytree(used / "checkpoint", tmp_path / "checkpoint")
    topology, _ = shop_in_memory(used / "orders", **changed)
    with pytest.raises(CheckpointError, match=said) as raised:
        run(topology, tmp_path / "checkpoint")
    assert "start with a new checkpoint folder" in str(raised.value)


def test_a_spout_may_gain_columns(used: Path, tmp_path: Path) -> None:
    for name in ("as before", "with a note"):
        shutil.copytree(used / "checkpoint", tmp_path / name)
    before, as_before = shop_in_memory(used / "orders")
    run(before, tmp_path / "as before")
    with_note, out = shop_in_memory(used / "orders", schema=f"{SCHEMA}, note string")
    run(with_note, tmp_path / "with a note")
    assert memory_rows(out) == memory_rows(as_before)
    assert any(memory_rows(out).values())


class Currencies(WindowedBolt):
    """The currency of each event, where there is one."""

    outputs = "currencies string"

    def execute(self, window: TupleWindow) -> EmittedRows:
        return (", ".join(str(row.get("currency")) for row in window.table.to_pylist()),)


def test_stored_events_have_the_default_of_a_new_column(tmp_path: Path) -> None:
    def topology(columns: str = "", **defaults: str) -> tuple[Topology, Any]:
        builder, sink = TopologyBuilder("currencies"), sinks.memory()
        spout = spouts.files(tmp_path / "orders", f"{SCHEMA}{columns}", format="jsonl", defaults=defaults)
        builder.set_spout("orders", spout)
        bolt = Currencies().with_tumbling_window("10s").with_timestamp_field("ts").with_lag("5s")
        builder.set_bolt("currencies", bolt).global_grouping("orders")
        builder.set_sink("out", sink).from_("currencies")
        return builder.build(), sink

    def goes_on(default: str) -> list[str]:
        made, sink = topology(", currency string", currency=default)
        summary = run(made, tmp_path / "checkpoint", keep_open=True)
        told.append(summary.new_column_defaults)
        return [row["currencies"] for row in sink.rows]

    told: list[Any] = []
    _write(tmp_path / "orders/1.jsonl", 1, 2, 13)
    run(topology()[0], tmp_path / "checkpoint", keep_open=True)
    _write(tmp_path / "orders/2.jsonl", 9, 14)
    made, _ = topology(", currency string", currency="EUR")
    run_until(made, tmp_path / "checkpoint", at_phase(1, "commit"))
    _write(tmp_path / "orders/3.jsonl", 16)
    assert goes_on("CHF") == ["EUR, EUR, CHF"], "the run that died had given them its default"
    _write(tmp_path / "orders/4.jsonl", 31)
    assert goes_on("USD") == ["EUR, CHF, CHF"], "and they keep it"
    assert told == [{}, {}]


def test_a_spout_that_became_a_dataframe_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    _write(tmp_path / "orders/1.jsonl", 1)
    run(_events(tmp_path / "orders")[0], tmp_path / "checkpoint")
    builder = TopologyBuilder("events")
    builder.set_spout("orders", spouts.stream(spark.readStream.schema(SCHEMA).json(str(tmp_path / "orders"))))
    bolt = Spans().with_tumbling_window("10s").with_timestamp_field("ts").with_lag("5s")
    builder.set_bolt("spans", bolt).global_grouping("orders")
    with pytest.raises(CheckpointError, match="kind was 'files', and is 'a streaming DataFrame'"):
        run(builder.build(), tmp_path / "checkpoint")


class Cheaper(Revenue):
    """Other code, with the same declarations."""

    def execute(self, window: TupleWindow) -> EmittedRows:
        yield from ((*row[:1], 0.0, *row[2:]) for row in super().execute(window))


def test_lag_code_and_sinks_may_change(used: Path, tmp_path: Path) -> None:
    shutil.copytree(used / "checkpoint", tmp_path / "checkpoint")
    topology, out = shop_in_memory(used / "orders", lag=1, revenue=Cheaper())
    summary = run(topology, tmp_path / "checkpoint")
    assert summary.batches == 1
    assert {row["revenue"] for row in out["revenue"].rows} == {0.0}


def _without(name: str) -> Callable[[Path, Path], None]:
    return lambda checkpoint, other: shutil.rmtree(checkpoint / name)


def _mixed(checkpoint: Path, other: Path) -> None:
    shutil.rmtree(checkpoint / "spark")
    shutil.copytree(other / "spark", checkpoint / "spark")


def _older(checkpoint: Path, other: Path) -> None:
    for name in ("commits", "offsets"):
        (checkpoint / "spark" / name / "1").unlink()
        (checkpoint / "spark" / name / ".1.crc").unlink(missing_ok=True)
        (checkpoint / "spark" / name / "0").unlink()
        (checkpoint / "spark" / name / ".0.crc").unlink(missing_ok=True)


def _damaged(checkpoint: Path, other: Path) -> None:
    max((checkpoint / "windbolt/manifests").iterdir()).write_text('{"format": 1, "ba')


DAMAGED: dict[str, tuple[Callable[[Path, Path], None], str]] = {
    "no spark": (_without("spark"), "Spark's half is missing"),
    "no windbolt": (_without("windbolt"), "the windbolt half is missing"),
    "no manifests": (_without("windbolt/manifests"), "the windbolt half holds no batch"),
    "mixed": (_mixed, "its halves belong to different queries"),
    "of two times": (_older, "its halves are not of the same time"),
    "unreadable": (_damaged, r"manifests/0000000001.json is damaged.* go back to batch 0, which is whole"),
}


@pytest.mark.parametrize("name", sampled(DAMAGED, 4, first=3))
def test_a_damaged_checkpoint_is_refused(used: Path, name: str, tmp_path: Path) -> None:
    damage, said = DAMAGED[name]
    shutil.copytree(used, tmp_path / "used")
    other = tmp_path / "other"
    if damage is _mixed:
        run(shop_in_memory(used / "orders")[0], other, keep_open=True)
    damage(tmp_path / "used/checkpoint", other)
    for _ in range(2):  # a refusal changes nothing
        with pytest.raises(CheckpointError, match=said) as raised:
            run(shop_in_memory(used / "orders")[0], tmp_path / "used/checkpoint")
        assert "start with a new checkpoint folder" in str(raised.value)


def test_the_order_of_declaration_may_change(tmp_path: Path) -> None:
    def topology(names: list[str]) -> Topology:
        builder = TopologyBuilder("two")
        for name in names:
            builder.set_spout(name, spouts.files(tmp_path / name, SCHEMA, format="jsonl"))
        bolt = Spans().with_tumbling_window("10s").with_timestamp_field("ts")
        builder.set_bolt("spans", bolt).global_grouping("one").global_grouping("two")
        return builder.build()

    _write(tmp_path / "one/1.jsonl", 1)
    _write(tmp_path / "two/2.jsonl", 2)
    assert run(topology(["one", "two"]), tmp_path / "checkpoint").rows == 2
    assert run(topology(["two", "one"]), tmp_path / "checkpoint").rows == 0


def test_a_function_that_failed_is_called_again_with_the_same_batch(tmp_path: Path) -> None:
    calls: list[tuple[int, int]] = []

    def take(table: pa.Table, batch: int) -> None:
        calls.append((batch, table.num_rows))
        if len(calls) == 2:
            raise ValueError("the database is gone")

    def topology() -> Topology:
        builder = TopologyBuilder("function")
        builder.set_spout("orders", spouts.memory(SCHEMA, *[[("a", 1.0, at(1))] * size for size in (1, 2, 3)]))
        builder.set_sink("out", sinks.foreach_batch(take, frame="arrow")).from_("orders")
        return builder.build()

    with pytest.raises(SinkError, match="ValueError: the database is gone at "):
        run(topology(), tmp_path / "checkpoint")
    run(topology(), tmp_path / "checkpoint")
    assert calls == [(0, 1), (2, 2), (2, 2), (4, 3)]


def test_a_run_that_died_in_its_closing_tick_is_closed_before_it_goes_on(tmp_path: Path) -> None:
    _write(tmp_path / "orders/1.jsonl", 1, 12)
    run_until(_events(tmp_path / "orders")[0], tmp_path / "checkpoint", at_phase(1, "fire"))
    _write(tmp_path / "orders/2.jsonl", 13, 31)
    topology, sink = _events(tmp_path / "orders")
    run(topology, tmp_path / "checkpoint")
    assert [(row["events"], row["until"]) for row in sink.rows] == [(1, at(10)), (1, at(20)), (1, at(40))]


def test_a_checkpoint_belongs_to_one_run_at_a_time(orders: Path, tmp_path: Path) -> None:
    topology, _ = shop_in_memory(orders)
    first = PairedCheckpoint(str(tmp_path / "checkpoint"))
    first.lock.take()
    with pytest.raises(CheckpointError, match=r"is in use by process \d+"):
        run(topology, tmp_path / "checkpoint")
    first.lock.release()
    assert run(topology, tmp_path / "checkpoint").batches


def test_a_folder_that_cannot_be_made_is_told(orders: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    topology, _ = shop_in_memory(orders)
    with pytest.raises(CheckpointError, match="cannot be made or written to"):
        run(topology, tmp_path / "file" / "checkpoint")


def test_a_checkpoint_that_begins_with_events(tmp_path: Path) -> None:
    """A run on Spark goes on from what was given; and dies, and goes on, before its first batch is done."""
    given = [("a", 1.0, at(1)), ("a", 1.0, at(2)), ("a", 1.0, at(13))]
    _write(tmp_path / "orders/1.jsonl", 14, 3, 21)
    state.begin(tmp_path / "checkpoint", _events(tmp_path / "orders")[0], {"orders": given})
    run_until(_events(tmp_path / "orders")[0], tmp_path / "checkpoint", at_phase(0, "commit"))
    topology, sink = _events(tmp_path / "orders")
    last = run(topology, tmp_path / "checkpoint").last
    assert [(row["events"], row["until"]) for row in sink.rows] == [(2, at(10)), (2, at(20)), (1, at(30))]
    assert last is not None
    accounts = last.bolts["spans"].accounts
    assert (accounts["received"], accounts["late"]) == (6, 1), "the watermark was at 8 s, and 3 s is late"
