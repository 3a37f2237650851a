"""Topics in Avro, Protobuf and JSON Schema on both engines: read and written with a registry; runs that die between."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient

from servers.kafka import Kafka, Registry, registry
from tests.helpers import topic_values
from tests.spark.engines import ENGINES
from tests.spark.kafka.kafka_shop import once
from tests.spark.tools import at_phase
from topologies.io.sinks import MemorySink
from topologies.io.topics.decode import decode
from topologies.topology import Topology
from windbolt import TopologyBuilder, sinks, spouts
from windowing import TupleWindow, WindowedBolt
from windowing.errors import ConfigError, UnreachableError
from windowing.schema import EmittedRows

pytestmark = pytest.mark.usefixtures("spark")
ROWS = 60
PER_BATCH = 20


class Totals(WindowedBolt):
    """How many of each second, and their sum."""

    outputs = "second timestamp, number long, total long, tags map<string, string>"

    def execute(self, window: TupleWindow) -> EmittedRows:
        whole = window.column("whole")
        return window.end, len(whole), int(whole.sum()), {"of": str(len(whole))}


@pytest.fixture
def told() -> Iterator[Registry]:
    with registry() as one:
        yield one


def rows() -> list[dict[str, Any]]:
    """Rows with a time each, ten in a second."""
    begin = datetime(2024, 5, 1, tzinfo=UTC)
    nothing: dict[str, Any] = dict.fromkeys(topic_values.COLUMNS.names)
    nothing |= {"numbers": [], "counts": {}, "codes": {}, "items": []}
    return [
        {**nothing, "whole": number, "name": f"n{number % 3}", "at": begin + timedelta(milliseconds=100 * number)}
        for number in range(ROWS)
    ]


def topology(
    kafka: Kafka, told: Registry, format: Any, orders: str, totals: str
) -> tuple[Topology, dict[str, MemorySink]]:
    """From a topic to another one, with the events and the bad rows beside it."""
    builder, out = TopologyBuilder("formats"), {"orders": sinks.memory(), "errors": sinks.memory()}
    spout = spouts.kafka(
        kafka.servers,
        orders,
        "whole long, name string, at timestamp",
        format=format,
        registry=told.url,
        key="long",
        key_columns="number long",
        tombstones="skip",
        metadata=["offset", "headers"],
        records_per_batch=PER_BATCH,
    )
    builder.set_spout("in", spout)
    builder.set_sink("orders", out["orders"]).from_("in")
    builder.set_sink("errors", out["errors"]).from_("in", "errors")
    bolt = Totals().with_tumbling_window("1s").with_timestamp_field("at")
    builder.set_bolt("totals", bolt).shuffle_grouping("in")
    sink = sinks.kafka(
        kafka.servers, totals, format=format, registry=told.url, key="number", headers="tags", message="shop.Total"
    )
    builder.set_sink("out", sink).from_("totals")
    return builder.build(), out


RUNS = [("spark", "spark"), ("local", "local"), ("local", "spark")]
"""On which engine a run begins, and on which it goes on."""
CASES = [("avro", 0), ("avro", 2), ("protobuf", 1), ("protobuf", 0), ("json_schema", 2)]
"""Which format in which of these runs: each engine reads the rows by the same code."""


@pytest.mark.parametrize(
    ("format", "begun", "finished"),
    [
        pytest.param(name, *RUNS[run], marks=pytest.mark.extended if at % 2 else ())
        for at, (name, run) in enumerate(CASES)
    ],
)
def test_topics_of_a_registry_are_read_and_written_as_if_no_run_had_died(
    format: Any, begun: str, finished: str, kafka: Kafka, told: Registry, tmp_path: Path
) -> None:
    of_test = f"{format.replace('_', '-')}-{begun}-{finished}"
    orders = kafka.topic(f"orders-{of_test}")
    totals = {name: kafka.topic(f"totals-{name}-{of_test}") for name in ("undisturbed", "died")}
    write = topic_values.producer(format, SchemaRegistryClient({"url": told.url}))
    for number, row in enumerate(rows()):
        key = number.to_bytes(8)
        kafka.produce(orders, [write(row, topic_values.context(orders))], key=key, headers=[("a", b"1")])
        if number % 10 == 5:
            kafka.produce(orders, [None], key=key)
        if number % 20 == 7:
            kafka.produce(orders, [b"\0\0\0\0\7abc" if format == "avro" else b"no frame"], key=key)
    read = {}
    for name, output in totals.items():
        built, out = topology(kafka, told, format, orders, output)
        if name == "died":
            for batch, phase in [(1, "fire"), (2, "commit")]:
                ENGINES[begun].run_until(built, tmp_path / name, at_phase(batch, phase))
        summary = ENGINES[finished].run(built, tmp_path / name)
        if name == "undisturbed":
            assert summary.last is not None
            assert summary.last.spouts["in"] == {
                "rows": ROWS,
                "invalid": 3,
                "unreadable_files": 0,
                "truncated": 0,
                "tombstones": 6,
            }
        written = once(kafka.records(output))
        kinds = "second timestamp, number long, total long"
        spout = spouts.kafka(kafka.servers, output, kinds, format=format, registry=told.url)
        found, _, bad = decode(spout.rows, topic_values.records([record.value for record in written]))
        assert len(bad) == 0
        assert [record.headers[:-1] for record in written] == [
            (("of", str(row["number"]).encode()),) for row in found.to_pylist()
        ]
        assert [record.key for record in written] == [row["number"].to_bytes(8) for row in found.to_pylist()]
        read[name] = (found.to_pylist(), out["orders"].rows, out["errors"].rows)
    results, events, errors = read["undisturbed"]
    assert [(row["number"], row["total"]) for row in results] == [
        (1, 0),
        *((10, sum(range(at - 9, at + 1))) for at in range(10, ROWS, 10)),
        (9, sum(range(ROWS - 9, ROWS))),
    ]
    assert [(row["whole"], row["number"], row["kafka_headers"]) for row in events] == [
        (number, number, [("a", b"1")]) for number in range(ROWS)
    ]
    assert len(errors) == 3
    said = "schema id 7" if format == "avro" else "it begins with the byte 110"
    assert all(said in row["_reason"] and orders in row["_source"] for row in errors)
    assert read["died"] == read["undisturbed"]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_batch_of_nothing_but_tombstones_counts_them(engine: str, kafka: Kafka, tmp_path: Path) -> None:
    topic = kafka.topic(f"tombstones-{engine}", 2)
    for partition in range(2):
        kafka.produce(topic, [None] * 3, partition=partition, key=b"k")
    builder, out = TopologyBuilder("tombstones"), sinks.memory()
    builder.set_spout("in", spouts.kafka(kafka.servers, topic, "id long", tombstones="skip"))
    builder.set_sink("out", out).from_("in")
    last = ENGINES[engine].run(builder.build(), tmp_path).last
    assert last is not None
    assert (out.rows, last.spouts["in"]["rows"], last.spouts["in"]["tombstones"]) == ([], 0, 6)


@pytest.mark.parametrize("engine", [*ENGINES, "local without a checkpoint"])
def test_what_a_registry_says_ends_a_run_before_the_first_batch(
    engine: str, kafka: Kafka, told: Registry, tmp_path: Path
) -> None:
    named = engine.replace(" ", "-")
    orders, totals = kafka.topic(f"refused-{named}"), kafka.topic(f"refused-totals-{named}")

    def run(built: Topology, checkpoint: Path) -> None:
        if engine in ENGINES:
            ENGINES[engine].run(built, checkpoint)
        else:
            ENGINES["local"].run(built, None)

    other = {"type": "record", "name": "Total", "fields": [{"name": "second", "type": "boolean"}]}
    told.register(f"{totals}-value", json.dumps(other))
    built, _ = topology(kafka, told, "avro", orders, totals)
    with pytest.raises(ConfigError, match="sink 'out': the registry refuses the schema of topic"):
        run(built, tmp_path / "refused")
    told.register(f"{orders}-value", json.dumps({**other, "fields": [{"name": "whole", "type": "boolean"}]}))
    with pytest.raises(ConfigError, match=r"spout 'in': the columns do not fit the latest schema .*whole: it is"):
        run(built, tmp_path / "unfit")
    told.failing = [401]
    with pytest.raises(UnreachableError, match=r"spout 'in': the registry .* refuses to answer"):
        run(built, tmp_path / "unauthorized")
