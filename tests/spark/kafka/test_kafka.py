"""Kafka at both ends: every record is read once, none is lost when a run dies, and repeats can be told."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from servers.kafka import ID, Kafka, Record
from tests.helpers.examples import sampled
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
from tests.spark.shop import Spans, at
from tests.spark.tools import at_phase, run, run_until
from topologies.io.sinks import MemorySink
from topologies.spark import classic_session as session
from topologies.spark.workers.pool import TASKS
from topologies.topology import Topology
from windbolt import TopologyBuilder, sinks, spouts
from windowing import BatchBolt, presets
from windowing.errors import ConfigError, DataError, EnvironmentMissing, UnreachableError
from windowing.schema import EmittedRows
from windowing.settings.rules import Arrival

pytestmark = pytest.mark.usefixtures("spark")
BATCHES = -(-ORDERS // PER_BATCH)
IMPATIENT = {"kafka.default.api.timeout.ms": 1500, "kafka.request.timeout.ms": 1000}


# --- from topic to topic ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def orders(kafka: Kafka) -> tuple[str, list[tuple[str, float, float]]]:
    """A topic of orders, and what it holds."""
    topic = kafka.topic("orders", PARTITIONS)
    return topic, some_orders(kafka, topic)


def a_shop(kafka: Kafka, orders: str) -> tuple[str, str, Callable[[], Topology]]:
    out, copies = kafka.topic("revenue"), kafka.topic("copies", PARTITIONS)
    return out, copies, lambda: shop(kafka, orders, out, copies)


Written = tuple[list[dict[str, Any]], dict[str, bytes | None]]


def written(kafka: Kafka, out: str, copies: str) -> Written:
    """What two topics hold once repeats are dropped: in words, and by id."""
    revenue, copied = once(kafka.records(out)), once(kafka.records(copies))
    return said(revenue), {record.id: record.value for record in [*revenue, *copied]}


@pytest.fixture(scope="module")
def undisturbed(
    spark: SparkSession, kafka: Kafka, orders: tuple[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> Written:
    """What comes out where nothing happens."""
    topic, there = orders
    out, copies, topology = a_shop(kafka, topic)
    summary = run(topology(), tmp_path_factory.mktemp("undisturbed") / "checkpoint")
    assert (summary.rows, summary.batches) == (ORDERS, BATCHES + 1)
    found = written(kafka, out, copies)
    assert len(found[1]) == len(kafka.records(out, copies))
    assert found[0] == expected_revenue(there)
    return found


def test_records_have_keys_headers_and_ids(kafka: Kafka, orders: tuple[str, Any], undisturbed: Written) -> None:
    rows, ids = undisturbed
    assert len(ids) == len(rows) + ORDERS
    windowed = [each for each in ids if re.fullmatch(r"shop/out/revenue\.[01]of2/\d+/\d+", each)]
    assert len(windowed) == len(rows)
    plain = [each.removeprefix("shop/copies/input/") for each in ids if each.startswith("shop/copies/input/")]
    assert sorted(plain) == sorted(f"{2 * batch}/{number}" for batch in range(BATCHES) for number in range(PER_BATCH))
    # In order of arrival: the first of the first batch is the first of the first partition.
    assert ids["shop/copies/input/0/0"] == f"a 0.0 {at(0)}".encode()
    assert ids[f"shop/copies/input/0/{PER_BATCH // 2}"] == f"c 1.0 {at(1)}".encode()


@pytest.fixture(scope="module")
def killed(kafka: Kafka, orders: tuple[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Future[Any]:
    """A run that is killed, in the background."""
    out, copies, topology = a_shop(kafka, orders[0])
    checkpoint = tmp_path_factory.mktemp("killed") / "checkpoint"
    script = [
        sys.executable,
        "-m",
        "tests.spark.kafka.dying_on_kafka",
        kafka.servers,
        orders[0],
        out,
        copies,
        str(checkpoint),
    ]

    def die() -> Any:
        done = subprocess.run(script, cwd=ROOT, env=_paths(), capture_output=True, text=True, timeout=600, check=False)
        return done, out, copies, topology, checkpoint

    return ThreadPoolExecutor(1).submit(die)


def _ended(program: str) -> subprocess.CompletedProcess[str]:
    """Runs a program in a process of its own."""
    command = [sys.executable, "-c", program]
    return subprocess.run(command, cwd=ROOT, env=_paths(), capture_output=True, text=True, timeout=300, check=False)


def _paths() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])}


def test_a_run_that_ends_anywhere_loses_nothing_and_repeats_only_what_can_be_told(
    kafka: Kafka, orders: tuple[str, Any], undisturbed: Written, killed: Future[Any], tmp_path: Path
) -> None:
    out, copies, topology = a_shop(kafka, orders[0])
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


def test_a_run_that_is_killed_goes_on(kafka: Kafka, undisturbed: Written, killed: Future[Any]) -> None:
    done, out, copies, topology, checkpoint = killed.result()
    assert done.returncode == -signal.SIGKILL, done.stderr
    before = len(kafka.records(copies))
    assert before == 2 * PER_BATCH
    run(topology(), checkpoint)
    assert written(kafka, out, copies) == undisturbed
    assert len(kafka.records(copies)) == ORDERS + PER_BATCH


# --- what is read -----------------------------------------------------------------------------------------------


def test_what_cannot_be_read_is_accounted_for_by_topic_partition_and_offset(kafka: Kafka, tmp_path: Path) -> None:
    topic = kafka.topic("mixed", 2)
    good = as_json("ann", 1, 1)
    kafka.produce(topic, [good, "{", None, "  ", '{"user": 3, "ts": 5}', good.replace(", ", ",\n")], 0, key="k")
    kafka.produce(topic, [good], 1, key=b"\xff")
    kafka.produce(topic, [b"\xff", good, '{"user": "eve"}'], 1)
    builder, out = TopologyBuilder("mixed"), {name: sinks.memory() for name in ("rows", "bad", "revenue", "errors")}
    builder.set_spout("in", spouts.kafka(kafka.servers, [topic], SCHEMA, metadata=True))
    bolt = Spans().with_tumbling_window("10s").with_timestamp_field("ts")
    builder.set_bolt("spans", bolt).global_grouping("in")
    builder.set_sink("rows", out["rows"]).from_("in")
    builder.set_sink("bad", out["bad"]).from_("in", "errors")
    builder.set_sink("errors", out["errors"]).from_("spans", "errors")
    builder.set_sink("out", out["revenue"]).from_("spans")
    last = run(builder.build(), tmp_path / "checkpoint").last
    assert last is not None
    found = {(row["_source"], row["_row"]): row["_reason"] for row in out["bad"].rows}
    first, second = f"topic {topic}, partition 0", f"topic {topic}, partition 1"
    assert list(found) == [(first, row) for row in (1, 2, 3, 4)] + [(second, 0), (second, 1)]
    assert "not valid JSON" in found[first, 1]
    assert found[first, 2] == "the value is null (a tombstone)"
    assert found[first, 3] == "the value is blank"
    assert found[first, 4].startswith("column 'user': 3 cannot be read as string")
    assert "kafka_key" in found[second, 0]
    assert "not valid UTF-8" in found[second, 0]
    assert "not valid UTF-8" in found[second, 1]
    assert [(row["kafka_partition"], row["kafka_offset"]) for row in out["rows"].rows] == [
        (0, 0),
        (0, 5),
        (1, 2),
        (1, 3),
    ]
    row = out["rows"].rows[0]
    assert (row["user"], row["ts"], row["kafka_topic"], row["kafka_key"]) == ("ann", at(1), topic, "k")
    assert abs(row["kafka_timestamp"] - datetime.now(UTC)) < timedelta(minutes=5)
    assert last.spouts["in"] == {"rows": 4, "invalid": 6, "unreadable_files": 0, "truncated": 0}
    accounts = last.bolts["spans"].accounts
    assert (accounts["received"], accounts["windowed"], accounts["invalid"]) == (10, 3, 7)  # and one without a time
    assert len(out["errors"].rows) == 7
    assert sum(row["events"] for row in out["revenue"].rows) == 3


class Relayed(BatchBolt):
    """To the topic that the value names, or else to the sink's."""

    outputs = "key binary, value string, topic string, partition int, headers array<struct<key: string, value: binary>>"

    def execute(self, batch: pa.Table) -> EmittedRows:
        names = [value if value and value.startswith("other") else None for value in batch["value"].to_pylist()]
        columns = [batch["key"], batch["value"], pa.array(names, pa.string())]
        columns += [pa.array([1] * len(names), pa.int32()), batch["headers"]]
        return pa.table(columns, names=["key", "value", "topic", "partition", "headers"])


def test_records_as_they_are_and_to_the_topic_of_each_row(kafka: Kafka, tmp_path: Path) -> None:
    topic, default, other = kafka.topic("raw", 2), kafka.topic("default", 2), kafka.topic("other", 2)
    moment = 1_714_564_801_500
    kafka.produce(topic, ["no", "no", "plain"], 0, key=b"\xfe", headers={"trace": b"\x01"}, timestamp=moment)
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
    # A new checkpoint sends the first records anew, as records of its own.
    run(builder.build(), tmp_path / "another")
    origins = Counter(record.origin for record in kafka.records(default, other))
    assert sorted(origins.values()) == [1, 3, 4]


def test_where_a_run_begins(kafka: Kafka, tmp_path: Path) -> None:
    topic = kafka.topic("begin", 2)
    for second in range(4):
        kafka.produce(topic, [str(second)], second % 2, timestamp=int(at(second).timestamp() * 1000))
    topology, out = reading(
        latest=spouts.kafka(kafka.servers, topic, starting="latest", value="text"),
        moment=spouts.kafka(kafka.servers, topic, starting=at(1.0005), value="text"),
        never=spouts.kafka(kafka.servers, topic, starting=at(100), value="text"),
        pattern=spouts.kafka(kafka.servers, pattern=f"{topic[:-2]}.*", value="text"),
    )
    run(topology, tmp_path / "checkpoint", keep_open=True)
    assert {name: [row["value"] for row in sink.rows] for name, sink in out.items() if "-" not in name} == {
        "latest": [], "moment": ["2", "3"], "never": [], "pattern": ["0", "1", "2", "3"]
    }  # fmt: skip


def test_a_slow_partition_makes_nothing_late_and_arrival_is_the_record_s_time(kafka: Kafka, tmp_path: Path) -> None:
    topic = kafka.topic("uneven", 2)

    def write(partition: int, seconds: range, arrived: float) -> None:
        orders = [as_json("ann", 1, second) for second in seconds]
        kafka.produce(topic, orders, partition, timestamp=int(at(arrived).timestamp() * 1000))

    def topology() -> tuple[Topology, dict[str, MemorySink]]:
        builder, out = TopologyBuilder("uneven"), {name: sinks.memory() for name in ("out", "late")}
        spout = spouts.kafka(kafka.servers, topic, SCHEMA, metadata=["timestamp", "partition"])
        builder.set_spout("orders", spout)
        bolt = Spans().with_tumbling_window("10s").with_timestamp_field("ts").with_late_tuple_stream("late")
        bolt = bolt.with_watermark(partition="kafka_partition").with_lateness(
            arrival=Arrival("kafka_timestamp", early="30s")
        )
        builder.set_bolt("spans", bolt).global_grouping("orders")
        builder.set_sink("out", out["out"]).from_("spans")
        builder.set_sink("late", out["late"]).from_("spans", "late")
        return builder.build(), out

    write(0, range(1, 101), 100)
    write(1, range(1, 15), 100)
    built, out = topology()
    run(built, tmp_path / "checkpoint", keep_open=True)
    assert [(row["events"], row["until"]) for row in out["out"].rows] == [(20, at(10))]
    write(1, range(15, 101), 100)
    write(1, range(130, 132), 100)  # the second is 31 s ahead of its arrival
    built, out = topology()
    last = run(built, tmp_path / "checkpoint").last
    assert last is not None
    assert [row["events"] for row in out["out"].rows] == [20] * 9 + [1]
    assert [(row["ts"], row["_reason"]) for row in out["late"].rows] != []
    accounts = last.bolts["spans"].accounts
    assert (accounts["windowed"], accounts["late"], accounts["early"]) == (201, 0, 1)


# --- what is missing --------------------------------------------------------------------------------------------


def test_missing_topics_and_brokers_are_told_soon_and_plainly(kafka: Kafka, tmp_path: Path) -> None:
    topic = kafka.topic("present")
    topology, _ = reading(records=spouts.kafka(kafka.servers, [topic, topic.upper()]))
    with pytest.raises(ConfigError, match=rf"there is no topic '{topic.upper()}' at 127"):
        run(topology, tmp_path / "one")
    nowhere = "127.0.0.1:1"
    topology, _ = reading(records=spouts.kafka(nowhere, topic, options=IMPATIENT))
    started = time.perf_counter()
    with pytest.raises(UnreachableError, match=r"spout 'records': Kafka at 127.0.0.1:1 does not answer"):
        run(topology, tmp_path / "two")
    builder = TopologyBuilder("nowhere")
    builder.set_spout("in", spouts.memory("value string", [("a",)]))
    builder.set_sink("out", sinks.kafka(nowhere, topic, options=IMPATIENT)).from_("in")
    with pytest.raises(UnreachableError, match=r"sink 'out': Kafka at 127.0.0.1:1 does not answer"):
        run(builder.build(), tmp_path / "three")
    assert time.perf_counter() - started < 20


def test_a_topic_of_a_sink_that_is_missing_is_told(kafka: Kafka, tmp_path: Path) -> None:
    builder = TopologyBuilder("missing")
    builder.set_spout("in", spouts.memory("value string", [("a",)]))
    builder.set_sink("out", sinks.kafka(kafka.servers, "nobody-made-it", topics=["nor-this"])).from_("in")
    builder.set_sink("more", sinks.kafka(kafka.servers, "nor-that")).from_("in")
    wanted = r"no topic 'nobody-made-it', 'nor-this' of sink 'out' at .*; nor 'nor-that' of sink 'more'"
    with pytest.raises(ConfigError, match=wanted):
        run(builder.build(), tmp_path / "checkpoint")
    builder = TopologyBuilder("unknown")
    builder.set_spout("in", spouts.memory("value string, topic string", [("a", "nobody-made-it")]))
    builder.set_sink("out", sinks.kafka(kafka.servers, options={"kafka.max.block.ms": 500})).from_("in")
    with pytest.raises(UnreachableError, match=r"sink 'out': .*nobody-made-it"):
        run(builder.build(), tmp_path / "unknown")
    builder = TopologyBuilder("nothing")
    builder.set_spout("in", spouts.memory("value string, topic string", [("a", None)]))
    builder.set_sink("out", sinks.kafka(kafka.servers)).from_("in")
    with pytest.raises(DataError, match=r"sink 'out': a row for Kafka has no topic"):
        run(builder.build(), tmp_path / "another")


def test_records_that_kafka_has_deleted_unread_end_the_run(kafka: Kafka, tmp_path: Path) -> None:
    topic = kafka.topic("short")
    kafka.produce(topic, ["1", "2"])
    topology, out = reading(records=spouts.kafka(kafka.servers, topic, value="text"))
    run(topology, tmp_path / "checkpoint", keep_open=True)
    kafka.produce(topic, ["3", "4", "5"])
    kafka.forget(topic, 0, 4)
    with pytest.raises(DataError, match="Kafka has deleted records before they were read") as lost:
        run(topology, tmp_path / "checkpoint", keep_open=True)
    assert "failOnDataLoss" in str(lost.value)
    options = {"failOnDataLoss": False}
    topology, out = reading(records=spouts.kafka(kafka.servers, topic, value="text", options=options))
    last = run(topology, tmp_path / "checkpoint", keep_open=True).last
    assert [row["value"] for row in out["records"].rows] == ["5"]
    assert last is not None
    assert last.complaints == [
        f"records: topic {topic}, partition 0: 2 records from offset 2 on were deleted before they were read"
    ]


def test_a_topic_that_was_made_anew_is_told_and_can_be_read_from_its_beginning(kafka: Kafka, tmp_path: Path) -> None:
    def values(**options: bool) -> tuple[list[str], list[str]]:
        topology, out = reading(records=spouts.kafka(kafka.servers, topic, value="text", options=options))
        summary = run(topology, tmp_path / "checkpoint", keep_open=True)
        return [row["value"] for row in out["records"].rows], summary.last.complaints if summary.last else []

    topic = kafka.topic("anew")
    kafka.produce(topic, ["old 0", "old 1"])
    assert values() == (["old 0", "old 1"], [])
    # More records than were read of the old one: by the offsets alone nobody could tell.
    kafka.make_anew(topic).produce(topic, ["new 0", "new 1", "new 2"])
    with pytest.raises(DataError, match=rf"topic '{topic}' is another one than .*'failOnDataLoss'"):
        values()
    told = f"records: topic {topic} was deleted and made anew, and is read from its beginning"
    assert values(failOnDataLoss=False) == (["new 0", "new 1", "new 2"], [told])
    assert values() == ([], [])


def test_a_topic_that_is_made_anew_while_it_is_read_ends_the_run_and_is_then_read_whole(
    kafka: Kafka, tmp_path: Path
) -> None:
    """By offsets nobody could tell: the run would go on behind the first record of the new topic, in silence."""

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
    with pytest.raises(DataError, match=rf"topic '{topic}' was deleted and made anew.*'failOnDataLoss': False") as told:
        run(built, tmp_path / "checkpoint", keep_open=True)
    assert "up to offset 1" in str(told.value)
    assert [row["value"] for row in out["records"].rows] == ["old 0"]
    built, out = topology(failOnDataLoss=False)
    summary = run(built, tmp_path / "checkpoint", keep_open=True)
    assert [row["value"] for row in out["records"].rows] == ["new 0", "new 1", "new 2"]
    assert summary.complaints == [
        f"records: topic {topic} was deleted and made anew, and is read from its beginning; up to 1 record of the old "
        "one that a batch was to read is lost"
    ]


def test_a_session_without_the_connector_is_told(kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    topology, _ = reading(records=spouts.kafka(kafka.servers, "any"))
    monkeypatch.setattr(session, "_CLASS", "org.apache.spark.sql.kafka010.Absent")
    with pytest.raises(EnvironmentMissing, match=r"the Spark session has no Kafka connector.*--packages org.apache"):
        run(topology, tmp_path / "checkpoint")


@pytest.mark.extended
def test_a_connector_that_cannot_be_fetched_is_told_without_chatter(tmp_path: Path) -> None:
    (tmp_path / "ivysettings.xml").write_text(
        '<ivysettings><settings defaultResolver="gone"/><resolvers>'
        '<ibiblio name="gone" m2compatible="true" root="http://127.0.0.1:1/maven2"/></resolvers></ivysettings>'
    )
    program = f"""
from windbolt import RunOptions, TopologyBuilder, run_on_spark, sinks, spouts
from windowing.errors import EnvironmentMissing
builder = TopologyBuilder("any")
builder.set_spout("in", spouts.kafka("127.0.0.1:1", "any"))
builder.set_sink("out", sinks.memory()).from_("in")
conf = {{"spark.jars.ivySettings": {str(tmp_path / "ivysettings.xml")!r}, "spark.jars.ivy": {str(tmp_path)!r}}}
try:
    run_on_spark(builder.build(), RunOptions({str(tmp_path / "checkpoint")!r}), master="local[1]", conf=conf)
except EnvironmentMissing as error:
    print(error)
"""
    done = _ended(program)
    assert done.stdout.startswith(
        "Spark's Kafka connector cannot be downloaded: org.apache.spark:spark-sql-kafka-0-10_2.13:"
    )
    assert "spark.jars.repositories" in done.stdout
    assert done.stderr == ""


@pytest.mark.extended
def test_the_connector_is_had_without_any_settings() -> None:
    program = """
from topologies.spark.classic_session import check_session, open_session
session, _ = open_session("local[1]", {}, kafka=True)
check_session(session, kafka=True)
print("it is there")
"""
    done = _ended(program)
    assert "it is there" in done.stdout, done.stderr


# --- the time of records ----------------------------------------------------------------------------------------


@pytest.mark.feature("AT-10")
@pytest.mark.parametrize("schema", sampled(["v long", None], 2))
def test_atlas_goes_by_the_time_of_the_records(kafka: Kafka, tmp_path: Path, schema: str | None) -> None:
    topic = kafka.topic("stamped")
    for second in (1, 4, 6, 12):
        kafka.produce(topic, ['{"v": 1}'], timestamp=1_700_000_000_000 + second * 1000)
    builder, sink = TopologyBuilder("stamped"), sinks.memory()
    builder.set_spout("in", spouts.kafka(kafka.servers, topic, schema))
    builder.set_bolt("spans", Spans().with_time(presets.atlas("0s")).with_tumbling_window("5s")).global_grouping("in")
    builder.set_sink("out", sink).from_("spans")
    run(builder.build(), tmp_path / "checkpoint")
    ends = [datetime.fromtimestamp(1_700_000_000 + end, UTC) for end in (5, 10, 15)]
    assert sink.rows == [{"events": n, "until": end} for n, end in zip((2, 1, 1), ends, strict=True)]


ANY_TIME: dict[str, Any] = {
    name: str(2**63 - 1) for name in ("message_timestamp_before_max_ms", "message_timestamp_after_max_ms")
}
"""A topic that takes whatever timestamp a producer gives, as those of Kafka before 3.6 do."""
NOW = 1_714_564_801_500
TIMES = [NOW, NOW * 1_000_000, -1, NOW * 1000, NOW + 1]
"""Of records, in milliseconds: the second is in nanoseconds, the third says that there is none, the fourth is in
microseconds."""


@pytest.mark.parametrize("tasks", ["spark", "pool", pytest.param("mixed", marks=pytest.mark.extended)])
def test_a_record_whose_time_is_none_is_invalid_and_the_others_go_on(
    spark: SparkSession, kafka: Kafka, tmp_path: Path, tasks: str
) -> None:
    topic = kafka.topic("times", **ANY_TIME)
    kafka.produce_all(topic, [(0, time, '{"v": 1}') for time in TIMES])
    builder, out = TopologyBuilder("times"), {name: sinks.memory() for name in ("rows", "bad", "spans", "ticks")}
    builder.set_spout("in", spouts.kafka(kafka.servers, topic, "v long"))
    bolt = Spans().with_time(presets.atlas("0s")).with_tumbling_window("5s")
    builder.set_bolt("spans", bolt).global_grouping("in")
    builder.set_sink("rows", out["rows"]).from_("in")
    builder.set_sink("bad", out["bad"]).from_("in", "errors")
    builder.set_sink("out", out["spans"]).from_("spans")
    if tasks == "mixed":  # a job of Spark's reads both, and fails
        builder.set_spout("ticks", spouts.stream(ticks, "value long"))
        builder.set_sink("to-ticks", out["ticks"]).from_("ticks")
    spark.conf.set(TASKS, "pool" if tasks == "pool" else "spark")
    try:
        last = run(builder.build(), tmp_path / "checkpoint").last
    finally:
        spark.conf.unset(TASKS)
    assert [row["_row"] for row in out["bad"].rows] == [1, 3]
    assert str(TIMES[1]) in out["bad"].rows[0]["_reason"]
    assert [row["kafka_timestamp"] for row in out["rows"].rows] == [at(1.5), None, at(1.501)]
    assert [row["value"] for row in out["ticks"].rows] == ([0, 1] if tasks == "mixed" else [])
    assert last is not None
    accounts = last.bolts["spans"].accounts
    assert (accounts["received"], accounts["windowed"], accounts["invalid"]) == (5, 2, 3)
    assert [row["events"] for row in out["spans"].rows] == [2]


def ticks(spark: SparkSession) -> DataFrame:
    """Two numbers in a batch."""
    return spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 2).load()
