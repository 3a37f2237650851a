"""Kafka in local runs, without Spark: every record is read once, and a run goes on wherever it ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from confluent_kafka.cimpl import NewPartitions

from servers.kafka import ID, TO_NEW_TOPICS, Kafka, Record, running_broker
from tests.helpers.places import ROOT
from tests.spark.kafka.kafka_shop import (
    ORDERS,
    PARTITIONS,
    PER_BATCH,
    SCHEMA,
    as_json,
    expected_revenue,
    once,
    reading,
    said,
    shop,
    some_orders,
)
from tests.spark.kafka.local_tools import read, run, run_until, values
from tests.spark.kafka.test_kafka import ANY_TIME, TIMES, Relayed
from tests.spark.shop import Spans, at
from tests.spark.tools import at_phase
from topologies.checkpoints.inspect_spouts import inspect_spouts
from topologies.checkpoints.paired_checkpoint import PairedCheckpoint
from topologies.checkpoints.savepoint import take_savepoint
from topologies.engine import librdkafka
from topologies.io.kafka import Undeliverable
from topologies.io.sinks import MemorySink
from topologies.local import LocalRun
from topologies.run.options import RunOptions
from topologies.topology import Topology
from windbolt import TopologyBuilder, sinks, spouts
from windowing import BatchBolt, presets
from windowing.errors import ConfigError, DataError, EnvironmentMissing, UnreachableError
from windowing.schema import EmittedRows
from windowing.settings.rules import SOURCE, Arrival

BATCHES = -(-ORDERS // PER_BATCH)
MOMENT = 1_714_564_801_500
LOSING = {"failOnDataLoss": False}
IMPATIENT = {
    "kafka.default.api.timeout.ms": 500,
    "kafka.request.timeout.ms": 1000,
    "kafkaConsumer.pollTimeoutMs": 1500,
    "kafka.delivery.timeout.ms": 1500,
}


# --- from topic to topic ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def orders(kafka: Kafka) -> tuple[str, list[tuple[str, float, float]]]:
    """A topic of orders, and what it holds."""
    topic = kafka.topic("orders", PARTITIONS)
    return topic, some_orders(kafka, topic)


def written(kafka: Kafka, out: str, copies: str) -> tuple[list[dict[str, Any]], dict[str, bytes | None]]:
    """What two topics hold once repeats are dropped: in words, and by id."""
    revenue, copied = once(kafka.records(out)), once(kafka.records(copies))
    return said(revenue), {record.id: record.value for record in [*revenue, *copied]}


@pytest.fixture(scope="module")
def undisturbed(kafka: Kafka, orders: tuple[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What comes out where nothing happens."""
    out, copies = kafka.topic("revenue"), kafka.topic("copies", PARTITIONS)
    summary = run(shop(kafka, orders[0], out, copies), tmp_path_factory.mktemp("undisturbed") / "checkpoint")
    assert (summary.rows, summary.batches) == (ORDERS, BATCHES + 1)
    found = written(kafka, out, copies)
    assert len(found[1]) == len(kafka.records(out, copies))
    assert found[0] == expected_revenue(orders[1])
    return found


@pytest.mark.parametrize("per_batch", [PER_BATCH, None])
def test_a_run_without_a_checkpoint_reads_all_that_is_there(
    kafka: Kafka, orders: tuple[str, Any], per_batch: int | None
) -> None:
    builder, out = TopologyBuilder("spans"), sinks.memory()
    builder.set_spout("orders", spouts.kafka(kafka.servers, orders[0], SCHEMA, records_per_batch=per_batch))
    builder.set_bolt("spans", Spans().with_tumbling_window("20s").with_timestamp_field("ts")).global_grouping("orders")
    builder.set_sink("out", out).from_("spans")
    summary = run(builder.build(), None)
    assert (summary.rows, summary.batches) == (ORDERS, (BATCHES if per_batch else 1) + 1)
    assert [row["events"] for row in out.rows] == [1, 20, 20, 20, 20, 20, 19]


def test_a_run_that_ends_anywhere_loses_nothing_and_repeats_only_what_can_be_told(
    kafka: Kafka, orders: tuple[str, Any], undisturbed: Any, tmp_path: Path
) -> None:
    out, copies = kafka.topic("revenue"), kafka.topic("copies", PARTITIONS)

    def topology() -> Topology:
        return shop(kafka, orders[0], out, copies)

    last = BATCHES - 1
    for batch, phase in [(1, "sinks"), (1, "commit"), (1, "commit"), (last, "commit"), (last + 1, "committed")]:
        run_until(topology(), tmp_path / "checkpoint", at_phase(batch, phase))
    closed = len(kafka.records(out))
    run_until(topology(), tmp_path / "checkpoint", at_phase(last + 1, "commit"))
    closing = len(kafka.records(out)) - closed
    run(topology(), tmp_path / "checkpoint")
    assert written(kafka, out, copies) == undisturbed
    # The second batch had been written twice before it was committed, the last one once, and the closing once.
    assert len(kafka.records(copies)) == ORDERS + 3 * PER_BATCH
    assert len(kafka.records(out)) - closed == 2 * closing > 0


DYING = """
import os, signal, sys
from tests.spark.kafka.kafka_shop import Kafka, shop
from topologies.local import LocalRun
from topologies.run.options import RunOptions
servers, orders, out, copies, checkpoint, phase = sys.argv[1:]
with LocalRun(shop(Kafka(servers), orders, out, copies), RunOptions(checkpoint)) as run:
    def hook(found):
        if found == phase and run.micro_batch.manifest.batch == 0:
            os.kill(os.getpid(), signal.SIGKILL)
    run.micro_batch.hook = hook
    run.run()
"""


@pytest.mark.parametrize("phase", ["ingest", "commit"])
def test_a_run_that_is_killed_goes_on(
    kafka: Kafka, orders: tuple[str, Any], undisturbed: Any, tmp_path: Path, phase: str
) -> None:
    out, copies = kafka.topic("revenue"), kafka.topic("copies", PARTITIONS)
    command = [sys.executable, "-c", DYING, kafka.servers, orders[0], out, copies, str(tmp_path / "ck"), phase]
    paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, check=False
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert len(kafka.records(copies)) == (1 if phase == "ingest" else 2) * PER_BATCH
    some_orders(kafka, orders[0], ())  # nothing new: the batch that was planned is read as it was
    run(shop(kafka, orders[0], out, copies), tmp_path / "ck")
    assert written(kafka, out, copies) == undisturbed


def test_a_batch_that_was_planned_reads_the_same_though_more_has_come(kafka: Kafka, tmp_path: Path) -> None:
    topic = kafka.topic("planned")
    kafka.produce(topic, ["1", "2"])
    spout = spouts.kafka(kafka.servers, topic, value="text")
    run_until(reading(records=spout)[0], tmp_path / "checkpoint", at_phase(0, "ingest"))
    kafka.produce(topic, ["3"])
    topology, out = reading(records=spout)
    run(topology, tmp_path / "checkpoint", keep_open=True)
    assert [[row["value"] for row in rows.to_pylist()] for rows in out["records"].batches.values()] == [
        ["1", "2"],
        ["3"],
    ]


# --- what is read -----------------------------------------------------------------------------------------------


def test_records_as_they_are_and_to_the_topic_of_each_row(kafka: Kafka, tmp_path: Path) -> None:
    topic, default, other = kafka.topic("raw", 2), kafka.topic("default", 2), kafka.topic("other", 2)
    kafka.produce(topic, ["no", "no", "plain"], 0, key=b"\xfe", headers={"trace": b"\x01"}, timestamp=MOMENT)
    kafka.produce(topic, [other, None, b"\xff"], 1)
    builder, rows, bad = TopologyBuilder("relay"), sinks.memory(), sinks.memory()
    builder.set_spout("in", spouts.kafka(kafka.servers, topic, value="text", starting={topic: {0: 2}}))
    builder.set_bolt("relayed", Relayed()).shuffle_grouping("in")
    builder.set_sink("rows", rows).from_("in")
    builder.set_sink("bad", bad).from_("in", "errors")
    builder.set_sink("out", sinks.kafka(kafka.servers, default)).from_("relayed")
    run(builder.build(), tmp_path / "checkpoint")
    assert rows.rows[0] == {
        "topic": topic, "partition": 0, "offset": 2, "timestamp": at(1.5), "key": b"\xfe", "value": "plain",
        "headers": [{"key": "trace", "value": b"\x01"}],
    }  # fmt: skip
    assert [(row["partition"], row["offset"], row["value"]) for row in rows.rows[1:]] == [(1, 0, other), (1, 1, None)]
    assert [(row["_source"], row["_row"]) for row in bad.rows] == [(f"topic {topic}, partition 1", 2)]
    found = sorted(kafka.records(default, other), key=lambda record: record.id)
    ids = [f"relay/{found[0].origin}/out/input/0/{number}".encode() for number in range(3)]
    assert found == [
        Record(default, 1, b"\xfe", b"plain", (("trace", b"\x01"), (ID, ids[0]))),
        Record(other, 1, None, other.encode(), ((ID, ids[1]),)),
        Record(default, 1, None, None, ((ID, ids[2]),)),
    ]
    # What comes between two runs is read by the second, and nothing again; where to start no longer counts.
    kafka.produce(topic, ["later"], 0)
    rows.batches.clear()
    summary = run(builder.build(), tmp_path / "checkpoint")
    assert (summary.rows, [row["value"] for row in rows.rows]) == (1, ["later"])


def test_where_a_run_begins(kafka: Kafka, tmp_path: Path) -> None:
    topic = kafka.topic("begin", 2)
    for second in range(4):
        kafka.produce(topic, [str(second)], second % 2, timestamp=int(at(second).timestamp() * 1000))
    topology, out = reading(
        latest=spouts.kafka(kafka.servers, topic, starting="latest", value="text"),
        moment=spouts.kafka(kafka.servers, topic, starting=at(1.0005), value="text"),
        never=spouts.kafka(kafka.servers, topic, starting=at(100), value="text"),
        offset=spouts.kafka(kafka.servers, topic, starting={topic: {1: 1}}, value="text"),
        pattern=spouts.kafka(kafka.servers, pattern=f"{topic[:-1]}[{topic[-1]}]", value="text"),
    )
    run(topology, tmp_path / "checkpoint", keep_open=True)
    assert {name: [row["value"] for row in sink.rows] for name, sink in out.items() if "-" not in name} == {
        "latest": [], "moment": ["2", "3"], "never": [], "offset": ["0", "2", "3"], "pattern": ["0", "1", "2", "3"]
    }  # fmt: skip
    wrong = spouts.kafka(kafka.servers, topic, starting={topic: {2: 0}})
    with pytest.raises(ConfigError, match=f"starting names partition {topic} 2, which does not exist"):
        run(reading(records=wrong)[0], None)


def test_batch_after_batch_is_read_without_gaps_or_repeats(kafka: Kafka, tmp_path: Path) -> None:
    topic = kafka.topic("batches", 2)
    for part in range(3):
        for partition in range(2):
            kafka.produce(topic, [f"{part} {number}" for number in range(57)], partition)
        rows = read(kafka, topic, tmp_path / "checkpoint", value="text", records_per_batch=10)
        assert sorted((row["partition"], row["offset"], row["value"]) for row in rows) == [
            (partition, 57 * part + number, f"{part} {number}") for partition in range(2) for number in range(57)
        ]


def test_uneven_partitions_are_held_back_and_read_whole(
    kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("topologies.engine.librdkafka._MOST_AHEAD", 10)
    monkeypatch.setattr("topologies.engine.librdkafka._PER_CALL", 50)
    topic = kafka.topic("uneven", 3)
    for partition, number in enumerate((3000, 40, 0)):
        kafka.produce(topic, [str(each) for each in range(number)], partition)
    rows = read(kafka, topic, tmp_path / "checkpoint", value="text", records_per_batch=100)
    assert sorted((row["partition"], row["offset"]) for row in rows) == [
        *((0, offset) for offset in range(3000)), *((1, offset) for offset in range(40))
    ]  # fmt: skip


class Slow:
    """A consumer that is asked late: it has all records by then, and the end behind them."""

    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._consumer, name)

    def consume(self, number: int, timeout: float) -> list[Any]:
        found: list[Any] = []
        while timeout and not any(message.error() for message in found):
            found += self._consumer.consume(1, 10)
        return found


def test_the_end_of_a_partition_that_comes_with_its_last_records_loses_none(
    kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_client = librdkafka.make_client

    def slow(kind: str, *given: Any) -> Any:
        return Slow(make_client(kind, *given)) if kind == "Consumer" else make_client(kind, *given)

    monkeypatch.setattr(librdkafka, "make_client", slow)
    topic = kafka.topic("ended")
    kafka.produce(topic, ["1", "2", "3"])
    assert values(kafka, topic, tmp_path / "checkpoint") == ["1", "2", "3"]


def transactions(kafka: Kafka, topic: str, ends: list[str]) -> Producer:
    """Transactions of three records each, which end so; one that is open does not."""
    producer = Producer({**TO_NEW_TOPICS, "bootstrap.servers": kafka.servers, "transactional.id": topic})
    producer.init_transactions(30)
    for number, end in enumerate(ends):
        producer.begin_transaction()
        for each in range(3):
            producer.produce(topic, f"{end} {number} {each}", partition=0)
        producer.flush(30)
        if end != "open":
            producer.commit_transaction(30) if end == "commit" else producer.abort_transaction(30)
    return producer


@pytest.mark.parametrize("per_batch", [None, 3, 1])
def test_what_transactions_leave_out_is_left_out(kafka: Kafka, tmp_path: Path, per_batch: int | None) -> None:
    topic = kafka.topic("transactions")
    producer = transactions(kafka, topic, ["commit", "abort", "commit", "abort", "open"])
    expected = [f"commit {number} {each}" for number in (0, 2) for each in range(3)]
    more: dict[str, Any] = {"records_per_batch": per_batch}
    assert values(kafka, topic, tmp_path / "checkpoint", **more) == expected
    # What is behind an open transaction belongs to a later batch.
    kafka.produce(topic, ["plain"])
    assert values(kafka, topic, tmp_path / "checkpoint", **more) == []
    producer.commit_transaction(30)
    assert values(kafka, topic, tmp_path / "checkpoint", **more) == [*(f"open 4 {each}" for each in range(3)), "plain"]
    assert len(values(kafka, topic, None, isolation="read_uncommitted")) == 16


def test_a_moment_behind_an_open_transaction_is_where_that_begins(kafka: Kafka, tmp_path: Path) -> None:
    topic, moment = kafka.topic("moment"), datetime.now(UTC).replace(microsecond=0) + timedelta(minutes=10)
    kafka.produce(topic, ["plain"])
    producer = transactions(kafka, topic, ["open"])
    producer.produce(topic, "later", partition=0, timestamp=int(moment.timestamp() * 1000))
    producer.flush(30)
    assert values(kafka, topic, None, starting=moment, isolation="read_uncommitted") == ["later"]
    assert values(kafka, topic, tmp_path / "checkpoint", starting=moment) == []
    producer.commit_transaction(30)
    found = values(kafka, topic, tmp_path / "checkpoint", starting=moment)
    assert found == [*(f"open 0 {each}" for each in range(3)), "later"]


def test_what_cannot_be_read_is_accounted_for_by_topic_partition_and_offset(kafka: Kafka, tmp_path: Path) -> None:
    topic = kafka.topic("mixed", 2)
    good = as_json("ann", 1, 1)
    kafka.produce(topic, [good, "{", None, "  ", '{"user": 3, "ts": 5}'], 0, key="k")
    kafka.produce(topic, [good], 1, key=b"\xff")
    topology, out = reading(records=spouts.kafka(kafka.servers, [topic], SCHEMA, metadata=True))
    last = run(topology, tmp_path / "checkpoint").last
    found = {(row["_source"], row["_row"]): row["_reason"] for row in out["records-errors"].rows}
    first, second = f"topic {topic}, partition 0", f"topic {topic}, partition 1"
    assert list(found) == [*((first, row) for row in (1, 2, 3, 4)), (second, 0)]
    assert found[first, 2] == "the value is null (a tombstone)"
    assert "kafka_key" in found[second, 0]
    row = out["records"].rows[0]
    assert (row["user"], row["ts"], row["kafka_topic"], row["kafka_key"]) == ("ann", at(1), topic, "k")
    assert abs(row["kafka_timestamp"] - datetime.now(UTC)) < timedelta(minutes=5)
    assert last is not None
    assert last.spouts["records"] == {"rows": 1, "invalid": 5, "unreadable_files": 0, "truncated": 0}


def test_a_record_whose_time_is_none_is_invalid_and_the_others_go_on(kafka: Kafka, tmp_path: Path) -> None:
    topic = kafka.topic("times", **ANY_TIME)
    kafka.produce_all(topic, [(0, time, '{"v": 1}') for time in TIMES])
    builder, out = TopologyBuilder("times"), {name: sinks.memory() for name in ("rows", "bad", "spans")}
    builder.set_spout("in", spouts.kafka(kafka.servers, topic, "v long"))
    bolt = Spans().with_time(presets.atlas("0s")).with_tumbling_window("5s")
    builder.set_bolt("spans", bolt).global_grouping("in")
    builder.set_sink("rows", out["rows"]).from_("in")
    builder.set_sink("bad", out["bad"]).from_("in", "errors")
    builder.set_sink("out", out["spans"]).from_("spans")
    last = run(builder.build(), tmp_path / "checkpoint").last
    assert [row["_row"] for row in out["bad"].rows] == [1, 3]
    assert [row["kafka_timestamp"] for row in out["rows"].rows] == [at(1.5), None, at(1.501)]
    assert last is not None
    accounts = last.bolts["spans"].accounts
    assert (accounts["received"], accounts["windowed"], accounts["invalid"]) == (5, 2, 3)
    assert [row["events"] for row in out["spans"].rows] == [2]


@pytest.mark.parametrize("checkpoint", [True, False])
def test_a_slow_partition_makes_nothing_late_and_an_empty_one_holds_windows(
    kafka: Kafka, tmp_path: Path, *, checkpoint: bool
) -> None:
    topic = kafka.topic("uneven", 3)

    def write(partition: int, seconds: range) -> None:
        orders = [as_json("ann", 1, second) for second in seconds]
        kafka.produce(topic, orders, partition, timestamp=int(at(100).timestamp() * 1000))

    def topology() -> tuple[Topology, dict[str, MemorySink]]:
        builder, out = TopologyBuilder("uneven"), {name: sinks.memory() for name in ("out", "late")}
        builder.set_spout("orders", spouts.kafka(kafka.servers, topic, SCHEMA, metadata=["timestamp", "partition"]))
        bolt = Spans().with_tumbling_window("10s").with_timestamp_field("ts").with_late_tuple_stream("late")
        bolt = bolt.with_watermark(partition=SOURCE).with_lateness(arrival=Arrival("kafka_timestamp", early="30s"))
        builder.set_bolt("spans", bolt).global_grouping("orders")
        builder.set_sink("out", out["out"]).from_("spans")
        builder.set_sink("late", out["late"]).from_("spans", "late")
        return builder.build(), out

    path = tmp_path / "checkpoint" if checkpoint else None
    write(0, range(1, 101))
    write(1, range(1, 15))
    built, out = topology()
    run(built, path, keep_open=True)
    assert out["out"].rows == []  # the third partition has delivered nothing
    write(2, range(1, 15))
    built, out = topology()
    run(built, path, keep_open=True)
    assert [(row["events"], row["until"]) for row in out["out"].rows] == [(30, at(10))]
    assert out["late"].rows == []


@pytest.mark.extended
def test_what_compaction_has_removed_is_passed_over_also_at_the_end_of_what_was_planned(
    kafka: Kafka, tmp_path: Path
) -> None:
    soon: dict[str, Any] = {"segment_ms": "100", "min_cleanable_dirty_ratio": "0.001", "delete_retention_ms": "0"}
    topic = kafka.topic("compact", cleanup_policy="compact", **soon)
    for number in range(20):
        kafka.produce(topic, [str(number)], key=f"key-{number % 2}")
    topology, out = reading(records=spouts.kafka(kafka.servers, topic, value="text", records_per_batch=10))
    run_until(topology, tmp_path / "checkpoint", at_phase(0, "ingest"))
    for _ in range(200):  # Kafka compacts when it likes to, and never the segment that is written
        kafka.produce(topic, ["end"], key="end")
        if "0" not in values(kafka, topic, None):
            break
    run(topology, tmp_path / "checkpoint", keep_open=True)
    found = [row["value"] for row in out["records"].rows]
    assert found[:2] == ["18", "19"]
    assert set(found[2:]) == {"end"}


# --- topics that change -----------------------------------------------------------------------------------------


def test_a_partition_that_is_added_is_read_from_its_first_record(kafka: Kafka, tmp_path: Path) -> None:
    topic = kafka.topic("grows")
    kafka.produce(topic, ["1"])
    assert values(kafka, topic, tmp_path / "checkpoint") == ["1"]
    kafka.admin.create_partitions([NewPartitions(topic, 2)])[topic].result(30)
    kafka = Kafka(kafka.servers)  # whose producer knows of the new one
    kafka.produce(topic, ["2"], 1)
    assert values(kafka, topic, tmp_path / "checkpoint") == ["2"]
    kafka.produce(topic, ["3"], 1)
    assert values(kafka, topic, tmp_path / "checkpoint") == ["3"]


def test_a_pattern_matches_topics_that_are_made_later_and_says_which_are_gone(kafka: Kafka, tmp_path: Path) -> None:
    one = kafka.topic("kind-of")
    kafka.produce(one, ["1"])

    def found(**options: Any) -> tuple[list[str], list[str]]:
        topology, out = reading(records=spouts.kafka(kafka.servers, pattern="kind-of.*", value="text", options=options))
        summary = run(topology, tmp_path / "checkpoint", keep_open=True)
        return [row["value"] for row in out["records"].rows], summary.complaints

    assert found() == (["1"], [])
    two = kafka.topic("kind-of")
    kafka.produce(two, ["2"])
    assert found() == (["2"], [])
    kafka.admin.delete_topics([one])[one].result(30)
    with pytest.raises(DataError, match=f"Kafka has deleted records before they were read.*'{one}' has no partition 0"):
        found()
    kafka.produce(two, ["3"])
    gone = f"records: topic {one}, partition 0: deleted; what was not read of it is lost"
    assert found(failOnDataLoss=False) == (["3"], [gone])
    assert found() == ([], [])


def test_records_that_kafka_has_deleted_unread_end_the_run(kafka: Kafka, tmp_path: Path) -> None:
    topic = kafka.topic("short")
    kafka.produce(topic, ["1", "2"])
    assert values(kafka, topic, tmp_path / "checkpoint") == ["1", "2"]
    kafka.produce(topic, ["3", "4", "5"])
    kafka.forget(topic, 0, 4)
    with pytest.raises(DataError, match="Kafka has deleted records before they were read") as lost:
        values(kafka, topic, tmp_path / "checkpoint")
    assert "2 records from offset 2 on" in str(lost.value)
    assert "failOnDataLoss" in str(lost.value)
    # The batch that was planned is read, without them.
    topology, out = reading(records=spouts.kafka(kafka.servers, topic, value="text", options=LOSING))
    last = run(topology, tmp_path / "checkpoint", keep_open=True).last
    assert [row["value"] for row in out["records"].rows] == ["5"]
    assert last is not None
    assert last.complaints == [
        f"records: topic {topic}, partition 0: 2 records from offset 2 on were deleted before they were read"
    ]


def test_a_topic_that_was_made_anew_is_told_and_can_be_read_from_its_beginning(kafka: Kafka, tmp_path: Path) -> None:
    def found(**options: bool) -> tuple[list[str], list[str]]:
        topology, out = reading(records=spouts.kafka(kafka.servers, topic, value="text", options=options))
        summary = run(topology, tmp_path / "checkpoint", keep_open=True)
        return [row["value"] for row in out["records"].rows], summary.complaints

    topic = kafka.topic("anew")
    kafka.produce(topic, ["old 0", "old 1"])
    assert found() == (["old 0", "old 1"], [])
    # More records than were read of the old one: by the offsets alone nobody could tell.
    kafka.make_anew(topic).produce(topic, ["new 0", "new 1", "new 2"])
    with pytest.raises(DataError, match=rf"topic '{topic}' is another one than .*'failOnDataLoss'"):
        found()
    told = f"records: topic {topic} was deleted and made anew, and is read from its beginning"
    assert found(failOnDataLoss=False) == (["new 0", "new 1", "new 2"], [told])
    assert found() == ([], [])


def test_a_topic_that_is_made_anew_while_it_is_read_ends_the_run_and_is_then_read_whole(
    kafka: Kafka, tmp_path: Path
) -> None:
    def topology(**options: bool) -> tuple[Topology, dict[str, MemorySink]]:
        builder, out = TopologyBuilder("anew"), {"records": sinks.memory()}
        spout = spouts.kafka(kafka.servers, topic, value="text", options=options, records_per_batch=1)
        builder.set_spout("records", spout)
        builder.set_sink("to-records", out["records"]).from_("records")
        builder.set_sink("anew", sinks.foreach_batch(remake, frame="arrow")).from_("records")
        return builder.build(), out

    def remake(table: pa.Table, batch: int) -> None:
        if table["value"].to_pylist() == ["old 0"]:
            kafka.make_anew(topic).produce(topic, ["new 0", "new 1", "new 2"])

    topic = kafka.topic("anew_within")
    kafka.produce(topic, ["old 0", "old 1"])
    built, out = topology()
    with pytest.raises(DataError, match=rf"topic '{topic}' was deleted and made anew.*'failOnDataLoss': False"):
        run(built, tmp_path / "checkpoint", keep_open=True)
    assert [row["value"] for row in out["records"].rows] == ["old 0"]
    built, out = topology(failOnDataLoss=False)
    summary = run(built, tmp_path / "checkpoint", keep_open=True)
    assert [row["value"] for row in out["records"].rows] == ["new 0", "new 1", "new 2"]
    assert summary.complaints == [
        f"records: topic {topic} was deleted and made anew, and is read from its beginning; up to 1 record of the old "
        "one that a batch was to read is lost"
    ]


def test_an_end_that_was_planned_and_is_gone_is_told(kafka: Kafka, tmp_path: Path) -> None:
    """As after an election of a broker that had not all: of a batch that was planned some records are not there."""
    topic = kafka.topic("cut")
    kafka.produce(topic, ["1", "2"])
    run_until(
        reading(records=spouts.kafka(kafka.servers, topic, value="text"))[0],
        tmp_path / "checkpoint",
        at_phase(0, "ingest"),
    )
    planned = tmp_path / "checkpoint/spark/offsets/0"
    (planned.parent / ".0.crc").unlink()
    planned.write_text(planned.read_text("utf-8").replace('{"0":2}', '{"0":5}'), "utf-8")
    with pytest.raises(DataError, match=rf"partition 0 of topic '{topic}' was to be read up to 5, and ends at 2"):
        values(kafka, topic, tmp_path / "checkpoint")
    topology, out = reading(records=spouts.kafka(kafka.servers, topic, value="text", options=LOSING))
    with pytest.raises(DataError, match="ends before what was read"):
        values(kafka, topic, tmp_path / "checkpoint")
    last = run(topology, tmp_path / "checkpoint", keep_open=True)
    assert [row["value"] for row in out["records"].rows] == ["1", "2"]
    assert f"records: topic {topic}, partition 0: 3 records from offset 2 on were deleted before they were read" in (
        last.complaints
    )


# --- what is missing, and what is away --------------------------------------------------------------------------


def sent(kafka: str, columns: str, rows: list[tuple[Any, ...]], topic: str | None = None, **options: Any) -> Topology:
    """From memory to Kafka."""
    builder = TopologyBuilder("sent")
    builder.set_spout("in", spouts.memory(columns, rows))
    builder.set_sink("out", sinks.kafka(kafka, topic, options=options)).from_("in")
    return builder.build()


def test_missing_topics_and_brokers_are_told_soon_and_plainly(kafka: Kafka, tmp_path: Path) -> None:
    topic = kafka.topic("present")
    with pytest.raises(ConfigError, match=rf"there is no topic '{topic.upper()}' at 127.*{topic}"):
        run(reading(records=spouts.kafka(kafka.servers, [topic, topic.upper()]))[0], tmp_path / "one")
    nowhere = "127.0.0.1:1"
    with pytest.raises(
        UnreachableError, match=r"spout 'records': Kafka at 127.0.0.1:1 does not answer.*refused"
    ) as away:
        run(reading(records=spouts.kafka(nowhere, topic, options=IMPATIENT))[0], tmp_path / "two")
    assert away.value.transient
    with pytest.raises(UnreachableError, match=r"sink 'out': Kafka at 127.0.0.1:1 does not answer"):
        run(sent(nowhere, "value string", [("a",)], topic, **IMPATIENT), tmp_path / "three")


def test_a_record_that_cannot_be_sent_is_told_with_its_topic(kafka: Kafka, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no topic 'nobody-made-it' of sink 'out' at "):
        run(sent(kafka.servers, "value string", [("a",)], "nobody-made-it"), tmp_path / "one")
    columns, soon = "value string, topic string", {"kafka.max.block.ms": "500"}
    with pytest.raises(EnvironmentMissing, match=r"sink 'out': a topic of Kafka's is not there.*'nor-this'"):
        run(sent(kafka.servers, columns, [("a", "nor-this")], **soon), tmp_path / "two")
    with pytest.raises(DataError, match=r"sink 'out': a row for Kafka has no topic"):
        run(sent(kafka.servers, columns, [("a", None)]), tmp_path / "three")
    with pytest.raises(DataError, match=r"sink 'out': a row for Kafka names a partition that its topic does not have"):
        run(sent(kafka.servers, "value string, partition int", [("a", 7)], kafka.topic("narrow")), tmp_path / "six")
    small, large = kafka.topic("small", max_message_bytes="2000"), [("x" * 5_000,)]
    with pytest.raises(DataError, match=rf"sink 'out': a record is too large for Kafka.*'{small}'"):
        run(sent(kafka.servers, "value string", large, small), tmp_path / "four")
    with pytest.raises(DataError, match=r"sink 'out': a record is too large for Kafka"):
        run(sent(kafka.servers, "value string", large, small, **{"kafka.max.request.size": "1500"}), tmp_path / "five")
    # A batch that could not be sent runs again.
    kafka.admin.delete_topics([small])[small].result(30)
    topic = kafka.topic("fine")
    run(sent(kafka.servers, "value string", large, topic), tmp_path / "four")
    assert [len(record.value or b"") for record in kafka.records(topic)] == [5_000]


def test_rows_of_a_missing_topic_go_elsewhere_with_the_reason(kafka: Kafka, tmp_path: Path) -> None:
    there, letters = kafka.topic("there"), kafka.topic("letters")
    builder = TopologyBuilder("sent")
    columns = "value binary, topic string, key binary, headers array<struct<key: string, value: binary>>"
    builder.set_spout("in", spouts.memory(columns, [(b"a", there, None, None), (b"b", "nor-this", None, None)]))
    sink = replace(sinks.kafka(kafka.servers), undeliverable=Undeliverable(letters))
    builder.set_sink("out", sink).from_("in")
    run(builder.build(), tmp_path / "checkpoint")
    assert [record.value for record in kafka.records(there)] == [b"a"]
    (letter,) = kafka.records(letters)
    assert (letter.value, dict(letter.headers)["windbolt-topic"]) == (b"b", b"nor-this")
    narrow = replace(sinks.kafka(kafka.servers, topics=[there]), largest=2_000_000)
    builder = TopologyBuilder("narrow")
    builder.set_spout("in", spouts.memory("value string, topic string", [("a", there)]))
    builder.set_sink("out", narrow).from_("in")
    with pytest.raises(ConfigError, match=rf"topic '{there}' takes messages of 1,048,588 bytes"):
        run(builder.build(), tmp_path / "narrow")


def test_many_records_arrive_in_their_order(kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(librdkafka._OUR_PRODUCER, "queue.buffering.max.messages", 100)
    topic = kafka.topic("many")
    run(sent(kafka.servers, "value string", [(str(number),) for number in range(5_000)], topic), tmp_path / "ck")
    assert [record.value for record in kafka.records(topic)] == [str(number).encode() for number in range(5_000)]


@pytest.mark.parametrize("back", [True, pytest.param(False, marks=pytest.mark.extended)])
def test_a_broker_that_is_away_is_waited_for_and_then_told(tmp_path: Path, *, back: bool) -> None:
    with running_broker(["orders:2", "copies"]) as broker:
        kafka = Kafka(broker.address)
        for partition in range(2):
            kafka.produce("orders", [str(number) for number in range(20)], partition)

        seen: list[int] = []

        def away(table: pa.Table, batch: int) -> None:
            if batch == 2 and not seen:
                seen.append(batch)
                broker.stop()
                if back:
                    threading.Timer(1.5, broker.start).start()

        patient = {} if back else IMPATIENT
        builder = TopologyBuilder("away")
        spout = spouts.kafka(broker.address, "orders", value="text", records_per_batch=10, options=patient)
        builder.set_spout("in", spout)
        builder.set_bolt("copied", Relay()).shuffle_grouping("in")
        builder.set_sink("away", sinks.foreach_batch(away, frame="arrow")).from_("in")
        builder.set_sink("out", sinks.kafka(broker.address, "copies", options=patient)).from_("copied")
        if back:
            run(builder.build(), tmp_path / "checkpoint")
        else:
            with pytest.raises(UnreachableError) as gone:
                run(builder.build(), tmp_path / "checkpoint")
            assert gone.value.transient
            broker.start()
            run(builder.build(), tmp_path / "checkpoint")
        found = [(record.id, record.value) for record in Kafka(broker.address).records("copies")]
    assert len(dict(found)) == 40
    assert sorted(int(value or b"") for value in dict(found).values()) == sorted([*range(20), *range(20)])


class Relay(BatchBolt):
    """The values."""

    outputs = "value string"

    def execute(self, batch: pa.Table) -> EmittedRows:
        return batch.select(["value"])


def test_without_the_package_nothing_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    topology, _ = reading(records=spouts.kafka("127.0.0.1:1", "any"))
    with pytest.raises(EnvironmentMissing, match=r"spout 'records' reads it.*pip install 'windbolt\[kafka\]'"):
        run(topology, tmp_path / "checkpoint")
    with pytest.raises(EnvironmentMissing, match=r"sink 'out' writes it.*pip install 'windbolt\[kafka\]'"):
        run(sent("127.0.0.1:1", "value string", [("a",)], "any"), tmp_path / "checkpoint")
    assert not (tmp_path / "checkpoint").exists()


def test_options_that_it_cannot_follow_are_refused_without_their_values(tmp_path: Path) -> None:
    secret = {"kafka.sasl.jaas.config": 'x.PlainLoginModule required username="u" password="geheim" ;', "kafka.no": "1"}
    with pytest.raises(ConfigError, match=r"spout 'records': librdkafka does not take its options.*\"no\"") as refused:
        run(reading(records=spouts.kafka("127.0.0.1:1", "any", options=secret))[0], tmp_path / "checkpoint")
    assert "geheim" not in str(refused.value)
    stores = {"kafka.ssl.keystore.location": "/keys.jks", "kafka.ssl.keystore.password": "geheim"}
    with pytest.raises(ConfigError, match=r"sink 'out': option 'kafka.ssl.keystore.location' .*PKCS12") as refused:
        run(sent("127.0.0.1:1", "value string", [("a",)], "any", **stores), tmp_path / "checkpoint")
    assert "geheim" not in str(refused.value)

    contradicting = {"kafka.acks": "1", "kafka.enable.idempotence": True}
    with pytest.raises(ConfigError, match=r"sink 'out': librdkafka does not take its options.*`acks` must be"):
        run(sent("127.0.0.1:1", "value string", [("a",)], "any", **contradicting), tmp_path / "checkpoint")


def test_a_record_that_is_larger_than_a_request_may_fetch_is_read(kafka: Kafka, tmp_path: Path) -> None:
    topic = kafka.topic("larger")
    kafka.produce(topic, ["x" * 10_000, "y"])
    assert [len(each) for each in values(kafka, topic, None, options={"kafka.fetch.max.bytes": 1})] == [10_000, 1]


@pytest.mark.parametrize("options", [{"kafka.acks": 1}, {"kafka.acks": 0}, {"kafka.retries": 0}, {"kafka.acks": -1}])
def test_a_sink_that_waits_for_fewer_brokers_is_not_idempotent_as_with_java(
    options: dict[str, Any], kafka: Kafka, tmp_path: Path
) -> None:
    topic = kafka.topic("weaker")
    run(sent(kafka.servers, "value string", [("a",), ("b",)], topic, **options), tmp_path / "checkpoint")
    assert [record.value for record in kafka.records(topic)] == [b"a", b"b"]


# --- around a run -----------------------------------------------------------------------------------------------


def test_a_run_at_intervals_reads_what_comes_until_it_is_stopped(kafka: Kafka, tmp_path: Path) -> None:
    topic, stop = kafka.topic("live", 2), threading.Event()
    kafka.produce(topic, ["1"])
    builder, rows = TopologyBuilder("live"), sinks.memory()

    def more(table: pa.Table, batch: int) -> None:
        last = table["value"].to_pylist()[-1]
        if last == "3":
            stop.set()
        else:
            kafka.produce(topic, [str(int(last) + 1)], int(last) % 2)

    builder.set_spout("in", spouts.kafka(kafka.servers, topic, value="text"))
    builder.set_sink("rows", rows).from_("in")
    builder.set_sink("more", sinks.foreach_batch(more, frame="arrow")).from_("in")
    summary = run(builder.build(), tmp_path / "checkpoint", every="20ms", stop=stop)
    assert [row["value"] for row in rows.rows] == ["1", "2", "3"]
    assert summary.stopped


def test_its_first_records_are_looked_at(kafka: Kafka) -> None:
    topic = kafka.topic("looked", 2)
    kafka.produce(topic, [as_json("ann", 1, 1), "{"], 0)
    kafka.produce(topic, [as_json("bob", 1, 2)], 1)
    found = inspect_spouts(reading(records=spouts.kafka(kafka.servers, topic, SCHEMA))[0])["records"]
    assert dict(found.facts)["read"] == "3 rows"
    assert '"user": "ann"' in dict(found.facts)["such as"]
    assert ["not valid JSON" in str(warning) for warning in found.warnings] == [True]
    assert (found.warnings[0].do or "").startswith("correct the schema, or what is produced; a run counts")
    deleting = kafka.topic("looked-at-deletions")
    kafka.produce(deleting, [as_json("ann", 1, 1), None])
    found = inspect_spouts(reading(records=spouts.kafka(kafka.servers, deleting, SCHEMA))[0])["records"]
    assert (found.warnings[0].do or "").startswith('tombstones="skip" leaves out records without a value')
    missing = inspect_spouts(reading(records=spouts.kafka(kafka.servers, topic + "x", SCHEMA))[0])["records"]
    assert f"there is no topic '{topic}x'" in str(missing.problems[0])
    for option, value, why in [
        ("kafka.ssl.truststore.location", "/trust.jks", "JKS is a format of Java's"),
        ("kafka.ssl.protocol", "TLSv1.3", 'No such configuration property: "ssl.protocol"'),
    ]:
        found = inspect_spouts(reading(records=spouts.kafka(kafka.servers, topic, options={option: value}))[0])[
            "records"
        ]
        assert why in dict(found.facts)["read"]
        assert (found.problems, found.warnings) == ((), ())


def test_the_lag_is_what_no_batch_has_yet(kafka: Kafka, tmp_path: Path) -> None:
    topic = kafka.topic("lagging", 2)
    kafka.produce(topic, [str(number) for number in range(5)], 0)
    spout = spouts.kafka(kafka.servers, topic, records_per_batch=2)
    attempt = LocalRun(reading(records=spout)[0], RunOptions(str(tmp_path / "checkpoint"), keep_open=True))
    lags: list[dict[str, int]] = []

    def hook(phase: str) -> None:
        if phase == "ingest":
            lags.append({each.partition: each.behind for each in attempt._lag()})

    with attempt:
        attempt.micro_batch.hook = hook
        attempt.run()
    names = (f"{topic}/0", f"{topic}/1")
    assert lags == [dict(zip(names, (left, 0), strict=True)) for left in (3, 1, 0)]


def test_a_savepoint_goes_on(kafka: Kafka, tmp_path: Path) -> None:
    topic = kafka.topic("saved")
    kafka.produce(topic, ["1", "2"])
    assert values(kafka, topic, tmp_path / "checkpoint") == ["1", "2"]
    take_savepoint(PairedCheckpoint(str(tmp_path / "checkpoint")), str(tmp_path / "saved"))
    kafka.produce(topic, ["3"])
    assert values(kafka, topic, tmp_path / "saved") == ["3"]
    assert values(kafka, topic, tmp_path / "checkpoint") == ["3"]


def test_files_and_topics_are_read_side_by_side(kafka: Kafka, tmp_path: Path) -> None:
    topic = kafka.topic("beside")
    (tmp_path / "in").mkdir()
    for part in range(2):
        (tmp_path / f"in/{part}.jsonl").write_text(as_json("file", 1, 5 + part) + "\n")
        kafka.produce(topic, [as_json("kafka", 1, 1 + part)])

        builder, out = TopologyBuilder("beside"), sinks.memory()
        builder.set_spout("a-topic", spouts.kafka(kafka.servers, topic, SCHEMA))
        builder.set_spout("files", spouts.files(str(tmp_path / "in"), SCHEMA, format="jsonl"))
        bolt = Spans().with_tumbling_window("10s").with_timestamp_field("ts")
        builder.set_bolt("spans", bolt).global_grouping("files").global_grouping("a-topic")
        builder.set_sink("out", out).from_("spans")
        run(builder.build(), tmp_path / "checkpoint", keep_open=part == 0)
    assert [row["events"] for row in out.rows] == [4]
