"""Topics of several partitions are read as one that is in order: nothing is late that would not be late there.

On the local engine; one filling and the crashes on Spark too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest

from manager.storage.checkpoint import FileCheckpoint
from manager.storage.manifest import batch_key
from servers.kafka import Kafka
from tests.helpers.examples import sampled
from tests.spark.kafka.local_tools import run as run_here
from tests.spark.tools import at_phase, run, run_until
from topologies.io.sinks import MemorySink
from topologies.run.summary import Summary
from topologies.topology import Topology
from windbolt import TopologyBuilder, sinks, spouts
from windowing import AggregateBolt, Count, TupleWindow, WindowedBolt
from windowing.aggregates import collect, first, last
from windowing.settings.presets import atlas, azure

SCHEMA = "id long, ts timestamp"
_BASE = 1_700_000_000_000


@dataclass(frozen=True)
class Record:
    """A record as it is written: times in milliseconds."""

    partition: int
    made: int
    time: int


Filling = Callable[[int, Random], list[Record]]


def even(partitions: int, random: Random) -> list[Record]:
    """In step, and in order of time."""
    return [Record(partition, 100 * n, 100 * n) for n in range(60) for partition in range(partitions)]


def uneven(partitions: int, random: Random) -> list[Record]:
    """The last has most, the first has nothing; events are up to 4 s behind their records, and record times go back."""
    return [
        Record(partition, 100 * n + random.randrange(-300, 300), 100 * n - random.randrange(4_000))
        for partition in range(1, partitions)
        for n in range(0, 100, 3 * (partitions - partition))
    ]


def slow(partitions: int, random: Random) -> list[Record]:
    """One is 8 s behind the others, and begins last."""
    found = [Record(partition, 100 * n, 100 * n) for partition in range(partitions - 1) for n in range(120)]
    return [*found, *(Record(partitions - 1, 100 * n + 4_000, 100 * n - 4_000) for n in range(60))]


def as_merged(records: Iterable[Record]) -> list[Record]:
    """The oracle: a plain sort by the greatest record time so far of the partition, then by partition and offset."""
    reached: dict[int, int] = {}
    keyed = []
    for number, record in enumerate(records):
        reached[record.partition] = max(record.made, reached.get(record.partition, record.made))
        keyed.append((reached[record.partition], record.partition, number, record))
    return [record for *_, record in sorted(keyed, key=lambda each: each[:3])]


def write(kafka: Kafka, topic: str, records: list[Record], numbers: dict[Record, list[int]], *, ordered: bool) -> None:
    """Write records, each to its partition, or all to the first in the order in which they are given."""
    left = {record: list(found) for record, found in numbers.items()}
    values = [event(left[record].pop(0), record.time) for record in records]
    places = [0 if ordered else record.partition for record in records]
    kafka.produce_all(topic, zip(places, [_BASE + record.made for record in records], values, strict=True))


def event(number: int, milliseconds: int) -> str:
    """An event as JSON."""
    moment = datetime.fromtimestamp((_BASE + milliseconds) / 1000, UTC)
    return json.dumps({"id": number, "ts": moment.isoformat()})


class Members(WindowedBolt):
    """The events of each window, in order."""

    outputs = "until timestamp, ids array<long>"

    def execute(self, window: TupleWindow) -> Any:
        yield window.end, window.table.column("id").to_pylist()


class Numbers(WindowedBolt):
    """The same without the time, which in processing time is the clock."""

    outputs = "ids array<long>"

    def execute(self, window: TupleWindow) -> Any:
        yield (window.table.column("id").to_pylist(),)


def reading(kafka: Kafka, topic: str, per_batch: int | None) -> tuple[Topology, dict[str, MemorySink]]:
    """Every rule that the order of arrival decides for, side by side."""
    builder, out = TopologyBuilder("partitions"), {}
    metadata = ["partition", "timestamp"]
    builder.set_spout("in", spouts.kafka(kafka.servers, topic, SCHEMA, metadata=metadata, records_per_batch=per_batch))
    rules = {
        "storm": None,
        "atlas": atlas("0s"),
        "column": atlas("0s"),
        "drop": azure(late="1h", early=None, action="drop", arrival_field="kafka_timestamp"),
        "adjust": azure(late="1h", early=None, out_of_order="1s", arrival_field="kafka_timestamp"),
    }
    bolts: dict[str, WindowedBolt] = {}
    for name, preset in rules.items():
        bolt: WindowedBolt = Members().with_tumbling_window("5s").with_timestamp_field("ts")
        bolts[name] = bolt if preset is None else bolt.with_time(preset)
    bolts["column"] = bolts["column"].with_watermark(partition="kafka_partition")
    bolts["counts"] = Numbers().with_tumbling_window(Count(7))
    sums = AggregateBolt(first=first("id"), last=last("id"), every=collect("id"))
    bolts["sums"] = sums.with_tumbling_window("5s").with_timestamp_field("ts").with_lag("1h")
    for name, bolt in bolts.items():
        late = name in ("storm", "atlas", "column")
        builder.set_bolt(name, bolt.with_late_tuple_stream("late") if late else bolt).global_grouping("in")
        for stream in ("default", *(("late",) if late else ())):
            out[name if stream == "default" else f"{name} late"] = sink = sinks.memory()
            builder.set_sink(f"{name}-{stream}", sink).from_(name, stream)
    out["rows"] = sinks.memory()
    builder.set_sink("rows", out["rows"]).from_("in")
    return builder.build(), out


@dataclass
class Found:
    """What came out, and the accounts in the end."""

    rows: dict[str, list[dict[str, Any]]]
    accounts: dict[str, dict[str, int]]
    batches: int

    def ids(self, name: str) -> list[int]:
        return [row["id"] for row in self.rows[name]]

    def late(self, name: str) -> int:
        accounts = self.accounts[name]
        return sum(accounts[each] for each in ("late", "dropped", "out_of_order"))


def read(
    kafka: Kafka, topic: str, checkpoint: Path, per_batch: int | None, run: Callable[..., Summary] = run_here
) -> Found:
    topology, out = reading(kafka, topic, per_batch)
    summary = run(topology, checkpoint)
    assert summary.last is not None, summary
    assert sum(bolt.accounts["received"] for bolt in summary.last.bolts.values()), summary
    accounts = {name: dict(bolt.accounts) | dict(bolt.metrics) for name, bolt in summary.last.bolts.items()}
    return Found({name: sink.rows for name, sink in out.items()}, accounts, summary.batches)


def written(kafka: Kafka, partitions: int, filling: Filling) -> tuple[str, str, list[Record]]:
    """A topic of so many partitions, one with the same in one partition and in order, and that order."""
    records = filling(partitions, Random(partitions))
    merged = as_merged(records)
    numbers: dict[Record, list[int]] = {}
    for number, record in enumerate(merged):
        numbers.setdefault(record, []).append(number)
    several, one = kafka.topic(filling.__name__, partitions), kafka.topic("ordered")
    write(kafka, several, records, numbers, ordered=False)
    write(kafka, one, merged, numbers, ordered=True)
    return several, one, merged


@pytest.mark.parametrize("filling", sampled([slow, uneven, even], 3, lambda filling: filling.__name__))
@pytest.mark.parametrize("partitions", sampled([8, 2], 2))
def test_nothing_is_late_that_one_ordered_partition_would_not_make_late(
    kafka: Kafka, partitions: int, filling: Filling, tmp_path: Path
) -> None:
    as_one_in_order(kafka, partitions, filling, tmp_path, run_here)


@pytest.mark.extended
@pytest.mark.usefixtures("spark")
def test_nothing_is_on_spark_either(kafka: Kafka, tmp_path: Path) -> None:
    as_one_in_order(kafka, 8, uneven, tmp_path, run)


def as_one_in_order(kafka: Kafka, partitions: int, filling: Filling, folder: Path, run: Callable[..., Summary]) -> None:
    """Compare a topic of so many partitions with one in order, in one batch and in many."""
    several, one, merged = written(kafka, partitions, filling)
    expected = read(kafka, one, folder / "one", None)
    found = read(kafka, several, folder / "several", None, run)
    order = list(range(len(merged)))
    assert expected.ids("rows") == order
    # In one batch: the order of arrival, and all that follows from it.
    assert found.ids("rows") == order
    assert [row["ids"] for row in found.rows["counts"]] == [order[n : n + 7] for n in range(0, len(order) - 6, 7)]
    for name in ("counts", "storm", "storm late", "sums"):
        assert found.rows[name] == expected.rows[name]
    # In many batches: each in order, and no more is late.
    many = read(kafka, several, folder / "many", len(merged) // 7, run)
    assert many.batches >= 7
    counted = [number for row in many.rows["counts"] for number in row["ids"]]
    assert counted == many.ids("rows")[: len(order) // 7 * 7]
    assert sorted(many.ids("rows")) == order
    for outcome in (found, many):
        for name in ("atlas", "column"):
            assert set(outcome.ids(f"{name} late")) <= set(expected.ids(f"{name} late"))
        for name in ("drop", "adjust"):
            assert outcome.late(name) <= expected.late(name)
    if filling is even:
        assert [outcome.late(name) for outcome in (found, many) for name in outcome.accounts] == [0] * 14


@pytest.mark.extended
@pytest.mark.usefixtures("spark")
def test_a_crash_changes_nothing_of_the_order(kafka: Kafka, tmp_path: Path) -> None:
    several, _, merged = written(kafka, 4, uneven)
    per_batch = len(merged) // 4
    undisturbed = read(kafka, several, tmp_path / "undisturbed", per_batch)
    topology, out = reading(kafka, several, per_batch)
    for batch, phase in [(0, "fire"), (1, "commit"), (2, "sinks"), (3, "committed")]:
        run_until(topology, tmp_path / "checkpoint", at_phase(batch, phase))
    run(topology, tmp_path / "checkpoint")
    assert {name: sink.rows for name, sink in out.items()} == undisturbed.rows


@pytest.mark.usefixtures("spark")
def test_all_partitions_are_in_the_plan_of_a_batch(kafka: Kafka, tmp_path: Path) -> None:
    topic = kafka.topic("planned", 3)
    kafka.produce_all(topic, [(1, _BASE, event(0, 0))])
    topology, _ = reading(kafka, topic, None)
    run(topology, tmp_path / "checkpoint", keep_open=True)
    names = [f"{topic}/{number}" for number in range(3)]
    found, _ = FileCheckpoint(str(tmp_path / "checkpoint/windbolt")).plan(batch_key(0, False), {})
    assert found["partitions"] == {"in": names}
