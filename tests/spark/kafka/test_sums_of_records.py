"""Sums that Java makes of the records of a topic are those that windbolt makes of the rows in Python (decision 141)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import Phase, assume, given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from servers.kafka import Kafka
from tests.helpers.examples import examples, sampled
from tests.spark.kafka.json_texts import SCHEMA, objects
from tests.spark.kafka.test_kafka import ANY_TIME
from tests.spark.shop import at
from tests.spark.test_frame_sums import in_order, rows_in_python, same, watched
from tests.spark.tools import at_phase, run, run_until
from topologies.graph.describing import topology_text
from topologies.io.sinks import MemorySink
from topologies.spark import frame_sums, kafka_client
from topologies.spark.workers.pool import TASKS
from topologies.topology import Topology
from windbolt import TopologyBuilder, sinks, spouts
from windowing import AggregateBolt, aggregates
from windowing.errors import BoltError, DataError
from windowing.schema import parse_schema

pytestmark = pytest.mark.usefixtures("spark")
MOMENT = 1_714_564_801_500


@pytest.fixture(params=["spark", pytest.param("pool", marks=pytest.mark.extended)])
def tasks(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[str]:
    """What runs the tasks: processes of the driver's, whose Java then reads Kafka itself, or Spark."""
    spark.conf.set(TASKS, request.param)
    yield request.param
    spark.conf.unset(TASKS)


def built(
    kafka: Kafka, topic: str, *, per_batch: int | None = None, by: str = "k", schema: str = SCHEMA, **more: Any
) -> tuple[Topology, dict[str, MemorySink]]:
    """Sums of a topic's objects, and the records that are none."""
    out = {"out": sinks.memory(), "bad": sinks.memory()}
    builder = TopologyBuilder("sums")
    builder.set_spout("events", spouts.kafka(kafka.servers, topic, schema, records_per_batch=per_batch, **more))
    made: dict[str, Any] = {"events": aggregates.count(), "start": aggregates.window_start()}
    for field in parse_schema(schema):
        name = field.name
        made[f"{name}_present"] = aggregates.count(name)
        if pa.types.is_integer(field.type) or pa.types.is_floating(field.type):
            made[f"{name}_sum"], made[f"{name}_least"] = aggregates.sum(name), aggregates.min(name)
    bolt = AggregateBolt(by=by, **made).with_window("10s", "5s").with_timestamp_field("ts").with_lag("3s")
    builder.set_bolt("sums", bolt, parallelism=2).fields_grouping("events", by)
    builder.set_sink("out", out["out"]).from_("sums")
    builder.set_sink("bad", out["bad"]).from_("events", "errors")
    return builder.build(), out


def answers(kafka: Kafka, topic: str, **asked: Any) -> tuple[list[dict[str, Any]], list[str], list[Any], str]:
    """The rows of a run, the records that were bad, the accounts of each batch, and the error that ended it, if one
    did: a sum may be too large."""
    found, error = list[Any](), ""
    topology, out = built(kafka, topic, **asked)
    with TemporaryDirectory() as folder:
        try:
            run(topology, Path(folder, "checkpoint"), on_report=found.append)
        except (DataError, BoltError) as failure:
            error = str(failure)
    rows = in_order([row | {"k": row.get(asked.get("by", "k"))} for row in out["out"].rows])
    bad = sorted(json.dumps(row, default=str, sort_keys=True) for row in out["bad"].rows)
    return rows, bad, [(report.bolts, report.spouts, report.rows) for report in found], error


def assert_same(found: Any, expected: Any) -> None:
    assert len(found[0]) == len(expected[0])
    for one, other in zip(found[0], expected[0], strict=True):
        assert one.keys() == other.keys()
        assert all(same(one[name], other[name]) for name in one), (one, other)
    assert found[1:] == expected[1:]


TIMES = [b'"2024-01-01T00:00:%02d.5Z"' % second for second in range(40)] + [
    b"1704067207000", b'"2024-01-01T01:00:20+01:00"', b'"2024-01-01T00:01:30Z"',
]  # fmt: skip


@st.composite
def topics(draw: st.DrawFn) -> dict[str, Any]:
    """Records of some partitions, with the timestamps of Kafka's, which are in disorder; and what is asked of them."""
    odd = draw(st.booleans())
    plain, other = objects(odd=False, required={"ts": TIMES}), objects(odd=True, required={"ts": TIMES})
    value = st.integers(0, 19).flatmap(lambda at: plain if at < 18 else other if at < 19 else st.none())
    moments = st.integers(0, 40_000).map(lambda later: MOMENT + later)
    moment = moments
    if odd and draw(st.booleans()):
        moment = st.integers(0, 9).flatmap(lambda at: moments if at < 8 else st.sampled_from([10**15, 10**16, 2**62]))
    record = st.tuples(moment, value if odd else plain)
    return {
        "odd": odd,
        "partitions": draw(st.lists(st.lists(record, max_size=20), min_size=2, max_size=4)),
        "per_batch": draw(st.sampled_from([7, 7, 30, None])),
        "by": draw(st.sampled_from(["k", "v", "d", "b", "day", "größe"])),
    }


@given(topics())
@examples(8, by_default=5, deadline=None, phases=[Phase.explicit, Phase.generate])  # to shrink a topic takes minutes
def test_rows_bad_records_and_accounts_are_those_of_the_rows_themselves(
    spark: SparkSession, kafka: Kafka, question: dict[str, Any]
) -> None:
    """Also where Java reads some batches and Python the others."""
    assume(len({value for partition in question["partitions"] for _, value in partition}) > 20)  # a run takes seconds
    topic = kafka.topic("drawn", len(question["partitions"]), **ANY_TIME)
    records = [(at, *record) for at, partition in enumerate(question["partitions"]) for record in partition]
    kafka.produce_all(topic, records)
    asked = {"per_batch": question["per_batch"], "by": question["by"]}
    with rows_in_python():
        expected = answers(kafka, topic, **asked)
    for tasks in ("pool", "spark"):
        spark.conf.set(TASKS, tasks)
        try:
            with watched() as added_up, patch.multiple(frame_sums, _SKIPPED_BATCHES=0, _SKIPPED_AFTER_FAILURE=0):
                assert_same(answers(kafka, topic, **asked), expected)
        finally:
            spark.conf.unset(TASKS)
        assert question["odd"] or all(added_up)


def order(number: int, key: str = "a", **more: Any) -> str:
    """An object of this second."""
    return json.dumps({"ts": at(number).isoformat(), "k": key, "v": number} | more)


def test_a_record_that_java_does_not_read_makes_its_batch_go_to_python(
    kafka: Kafka, tmp_path: Path, tasks: str
) -> None:
    """And the next fifty ones too: nobody reads twice in each."""
    topic = kafka.topic("odd")
    kafka.produce(topic, [order(0), order(1), order(2), "no JSON", order(4), order(5)])
    topology, out = built(kafka, topic, per_batch=2)
    with watched() as added_up:
        run(topology, tmp_path / "checkpoint")
    assert added_up == [True, False, False]
    assert [row["_data"] for row in out["bad"].rows] == ["no JSON"]
    assert sum(row["v_sum"] for row in out["out"].rows) == 2 * (0 + 1 + 2 + 4 + 5)


@pytest.mark.parametrize(("moment", "good"), [(10**15, True), pytest.param(10**18, False, marks=pytest.mark.extended)])
def test_a_record_whose_timestamp_python_has_not_is_read_unless_it_is_beyond_microseconds(
    kafka: Kafka, tasks: str, moment: int, good: bool
) -> None:
    """There the record is invalid, and the others of its batch are not. It is the first of its partition."""
    topic = kafka.topic("beyond", **ANY_TIME)
    kafka.produce(topic, [order(2)], timestamp=moment)
    kafka.produce(topic, [order(1)])
    with watched() as added_up:
        rows, bad, _, _ = answers(kafka, topic)
    assert added_up == [good]
    assert len(bad) == (not good)
    assert sum(row["v_sum"] for row in rows) == (6 if good else 2)


@pytest.mark.extended
def test_a_thread_adds_up_several_partitions(kafka: Kafka, tmp_path: Path, tasks: str) -> None:
    topic = kafka.topic("many", 7)
    for partition in range(7):
        kafka.produce(topic, [order(number, "ab"[number % 2]) for number in range(partition, 20, 7)], partition)
    topology, out = built(kafka, topic)
    with watched() as added_up:
        summary = run(topology, tmp_path / "checkpoint")
    assert all(added_up)
    assert summary.rows == 20
    assert sum(row["v_sum"] for row in out["out"].rows) == 2 * sum(range(20))


@pytest.mark.parametrize("phase", sampled(["sinks", "commit"], 2))
def test_a_run_that_ends_anywhere_has_each_record_in_its_sums_once(
    kafka: Kafka, tmp_path: Path, tasks: str, phase: str
) -> None:
    topic = kafka.topic("ends", 2)
    for partition in range(2):
        kafka.produce(topic, [order(number, "ab"[partition]) for number in range(30)], partition)
    topology, out = built(kafka, topic, per_batch=20)
    with watched() as added_up:
        run_until(topology, tmp_path / "checkpoint", at_phase(1, phase))
        run(topology, tmp_path / "checkpoint")
    assert added_up
    assert all(added_up)
    found = {(row["k"], row["start"]): row["v_sum"] for row in out["out"].rows}  # a sink in memory may have repeats
    assert found == {
        (key, at(start)): sum(range(max(start + 1, 0), min(start + 11, 30)))
        for key in "ab"
        for start in range(-10, 30, 5)
    }


@pytest.mark.extended
@pytest.mark.parametrize(
    ("limit", "value"), [("_MEMORY_DIVISOR", 1 << 24), ("_PATIENCE_MS", 0)], ids=["memory", "time"]
)
def test_records_that_the_driver_has_no_time_or_memory_to_add_up_are_read_anew(
    spark: SparkSession, kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, value: int
) -> None:
    spark.conf.set(TASKS, "pool")
    topic = kafka.topic("limits")
    kafka.produce(topic, [order(number) for number in range(4)])
    monkeypatch.setattr(kafka_client, limit, value)
    topology, out = built(kafka, topic)
    try:
        with watched() as added_up:
            run(topology, tmp_path / "checkpoint")
    finally:
        spark.conf.unset(TASKS)
    assert added_up == [False]
    assert sum(row["v_sum"] for row in out["out"].rows) == 2 * 6


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, "in Java where they are read"),
        ({"schema": "ts timestamp, k string, v float"}, "in Python: Java does not read v float in JSON"),
        ({"schema": "ts timestamp, k string, v array<long>"}, "in Python: Java does not read v array<long> in JSON"),
        ({"envelope": "debezium"}, "in Python: records of topic orders are no plain JSON"),
        ({"metadata": True}, "in Python: columns are from the keys or the metadata of records"),
        ({"key": "long", "key_columns": "number long"}, "in Python: columns are from the keys or the metadata"),
        ({"timezone": "Europe/Berlin"}, "in Python: how times are written is declared, or their zone"),
        ({"times": {"ts": "%d.%m.%Y %H:%M"}}, "in Python: how times are written is declared, or their zone"),
        ({"defaults": {"v": 1}}, "in Python: events has defaults for columns"),
    ],
)
def test_the_description_says_who_adds_up(more: dict[str, Any], said: str) -> None:
    class Nowhere:
        servers = "localhost:9092"

    nowhere: Any = Nowhere()
    text = topology_text(built(nowhere, "orders", **({"schema": "ts timestamp, k string, v long"} | more))[0])
    assert said in " ".join(text.split())


def test_what_is_no_json_at_all_says_nothing(kafka: Kafka) -> None:
    """Records as they are have no sums of columns to speak of."""
    builder = TopologyBuilder("records")
    builder.set_spout("events", spouts.kafka(kafka.servers, "orders"))
    bolt = AggregateBolt(by="topic", n=aggregates.count()).with_tumbling_window("10s").with_timestamp_field("timestamp")
    builder.set_bolt("sums", bolt).fields_grouping("events", "topic")
    builder.set_sink("out", sinks.memory()).from_("sums")
    assert "added up" not in topology_text(builder.build())
