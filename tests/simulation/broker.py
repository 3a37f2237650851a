"""A broker in memory: a topic of several partitions, whose records come to a run as Kafka's come through Spark."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from itertools import accumulate, chain
from typing import NamedTuple

import pyarrow as pa

from manager.storage.files import make_folder
from topologies.checkpoints.spark_checkpoint import SparkCheckpoint, delete_spark_file, write_spark_file
from topologies.engine.batch import Context, Executor
from topologies.engine.kafka_records import Records
from topologies.engine.merging import MergeInput, cut_into_ranges, write_parts
from topologies.engine.task_data import TaskOutput
from topologies.engine.tasks import ingest
from topologies.run.options import BATCHES_SPARK_KEEPS

TOPIC = "events"
Ends = dict[int, int]
"""By partition, the offset after the last record."""


class Range(NamedTuple):
    """The records of a partition that belong to a batch."""

    partition: int
    start: int
    stop: int


class Broker:
    """The records of a topic."""

    def __init__(self) -> None:
        self._records: dict[int, list[tuple[int, str]]] = {}

    def append(self, partition: int, lines: Iterable[str]) -> None:
        """Records with the time at which they were sent, in milliseconds; unreadable ones with that before them."""
        records = self._records.setdefault(partition, [])
        for line in lines:
            records.append((_sent(line, records[-1][0] if records else 0), line))

    @property
    def ends(self) -> Ends:
        """How far each partition goes."""
        return {partition: len(records) for partition, records in sorted(self._records.items())}

    def table(self, wanted: Range) -> pa.Table:
        """Records as Spark hands them over."""
        found = self._records[wanted.partition][wanted.start : wanted.stop]
        columns = {
            "topic": pa.array([TOPIC] * len(found), pa.string()),
            "partition": pa.array([wanted.partition] * len(found), pa.int32()),
            "offset": pa.array(range(wanted.start, wanted.stop), pa.int64()),
            "timestamp": pa.array([1_000 * sent for sent, _ in found], pa.int64()).cast(pa.timestamp("us", "UTC")),
            "value": pa.array([line.encode() for _, line in found], pa.binary()),
        }
        return pa.table(columns)

    def lines(self, ranges: Iterable[Range]) -> list[str]:
        """Those of a batch in the order in which they count: by time, the greatest so far in their partition."""
        found: list[tuple[int, int, int, str]] = []
        for partition, start, stop in ranges:
            records = self._records[partition][start:stop]
            times = accumulate((sent for sent, _ in records), max)
            lines = (line for _, line in records)
            found += [(sent, partition, at, line) for at, (sent, line) in enumerate(zip(times, lines, strict=True))]
        return [line for *_, line in sorted(found)]


def _sent(line: str, before: int) -> int:
    try:
        return int(json.loads(line)["at"])
    except ValueError:
        return before


class RecordJournal:
    """Spark's half of a checkpoint as Spark writes it for a topic: how far each batch goes, and which are done."""

    def __init__(self, half: SparkCheckpoint, *, heartbeats: bool) -> None:
        self._half, self._heartbeats = half, heartbeats
        self._planned, self._committed = max(half.offsets(), default=-1), max(half.commits(), default=-1)
        self.seen: dict[str, set[str]] = {}
        if half.query() is None:
            self._write("metadata", json.dumps({"id": "5f8a1d2e-0000-4000-8000-000000000001"}))

    @property
    def unfinished(self) -> int | None:
        """The batch that was planned and not committed."""
        return self._planned if self._planned > self._committed else None

    def ends(self, batch: int) -> Ends:
        """How far a batch goes."""
        if batch < 0:
            return {}
        found = json.loads(self._half.read(f"offsets/{batch}").split("\n")[2])
        return {int(partition): end for partition, end in found[TOPIC].items()}

    @property
    def reached(self) -> Ends:
        """How far the last batch goes."""
        return self.ends(self._planned)

    def ranges(self, batch: int) -> tuple[Range, ...]:
        """The records of a batch."""
        before = self.ends(batch - 1)
        found = (Range(partition, before.get(partition, 0), end) for partition, end in self.ends(batch).items())
        return tuple(each for each in found if each.start < each.stop)

    def plan(self, ends: Mapping[int, int], clock: int, *, heartbeat: bool) -> int:
        """Note how far the next batch goes, whose number this is."""
        number = self._planned + 1
        places = [json.dumps({TOPIC: {str(partition): end for partition, end in ends.items()}})]
        if self._heartbeats:
            places.append(json.dumps({"offset": number + 1, "timestamp": 1_000 * number}))
        about = {"batchWatermarkMs": 0, "batchTimestampMs": clock // 1000, "conf": {}}
        self._write(f"offsets/{number}", "\n".join(["v1", json.dumps(about), *places]))
        self._planned = number
        return number

    def commit(self, number: int) -> None:
        """Note that a batch is done, and delete what is too old to be gone back to."""
        if number > self._committed:
            self._write(f"commits/{number}", "\n".join(["v1", '{"nextBatchWatermarkMs":0}']))
            self._committed = number
        for folder, batches in (("offsets", self._half.offsets()), ("commits", self._half.commits())):
            for old in batches:
                if old < number - BATCHES_SPARK_KEEPS:
                    delete_spark_file(self._half.filesystem, f"{self._half.root}/{folder}/{old}")

    def _write(self, name: str, text: str) -> None:
        path = f"{self._half.root}/{name}"
        make_folder(self._half.filesystem, path.rsplit("/", 1)[0])
        write_spark_file(self._half.filesystem, path, text, with_checksum=True)


def ingested(
    broker: Broker, spout: str, ranges: Iterable[Range], executor: Executor, context: Context, slots: int
) -> list[TaskOutput]:
    """The records of a batch, ingested as on Spark (topologies/spark/source.py): several partitions are merged."""
    records = [Records(spout, [broker.table(each)]) for each in ranges]
    if len(records) < 2:
        return executor.map(ingest, records, context)
    parts: list[MergeInput] = list(chain(*executor.map(write_parts, records, context)))
    return executor.map(ingest, cut_into_ranges(parts, context.store, slots), context)


def limited(reached: Ends, there: Ends, share: float) -> Ends:
    """How far a batch goes that takes a share of what is new in each partition, and something of one at least."""
    ends = {at: reached.get(at, 0) + int(share * (end - reached.get(at, 0))) for at, end in there.items()}
    if ends == {at: reached.get(at, 0) for at in there}:
        for at, end in there.items():
            if end > ends[at]:
                ends[at] += 1
                break
    return ends
