"""Topics as teams have them (schema files, versions of a schema, envelopes, keys, headers, tombstones, local times):
each record is in one batch on both engines, also where a run dies in the middle and the other engine goes on."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, timestamp_pb2

from servers.kafka import Kafka, Registry, registry
from tests.helpers import topic_values
from tests.helpers.examples import with_all
from tests.spark.engines import BEGUN_AND_FINISHED, ENGINES
from tests.spark.kafka.kafka_shop import reading
from tests.spark.tools import at_phase, in_order
from tests.topologies.topics.test_reading import CHANGES, ORDER, avro
from windbolt import spouts

pytestmark = pytest.mark.usefixtures("spark")


@dataclass
class Case:
    """The records of a topic, the spout that reads them one by one, and the rows."""

    values: Sequence[bytes | str | None]
    schema: str
    rows: list[dict[str, Any]]
    options: dict[str, Any] = field(default_factory=dict)
    keys: Sequence[bytes | None] = (None, None, None)
    more: dict[str, Any] = field(default_factory=dict)
    """What else each record has."""


NUMBERS: list[bytes | None] = [b'{"n": 0}', b'{"n": 1}', b'{"n": 2}']
N: list[dict[str, Any]] = [{"n": 0}, {"n": 1}, {"n": 2}]
USERS: list[dict[str, Any]] = [{"id": number, "user": user} for number, user in enumerate("abc")]
NEWER = {**ORDER, "fields": [*ORDER["fields"], {"name": "currency", "type": "string", "default": "EUR"}]}
SCALE = {"scale": "2"}
CONNECT = {
    "type": "struct",
    "fields": [
        {"field": "n", "type": "int64"},
        {"field": "at", "type": "int64", "name": "org.apache.kafka.connect.data.Timestamp"},
        {"field": "price", "type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": SCALE},
    ],
}  # fmt: skip


def keyed(form: str, column: str, *keys: tuple[bytes | None, Any], **more: Any) -> Case:
    """Numbers with the keys of a form, each with what it is."""
    rows = [
        {**row, **(read if isinstance(read, dict) else {"k": read})} for row, (_, read) in zip(N, keys, strict=True)
    ]
    return Case(NUMBERS, "n long", rows, {"key": form, "key_columns": column, **more}, [key for key, _ in keys])


def cases(told: Registry, folder: Path) -> dict[str, Case]:
    """The topics by name; schema files are in the folder, and schemas in the registry."""
    (folder / "order.avsc").write_text(json.dumps(ORDER), "utf-8")
    compiled, timestamp = descriptor_pb2.FileDescriptorSet(), timestamp_pb2.DESCRIPTOR
    compiled.file.add().ParseFromString(timestamp.serialized_pb)
    compiled.file.append(topic_values.PROTOBUF)
    (folder / "orders.desc").write_bytes(compiled.SerializeToString())
    first, second = (told.register("versions-value", json.dumps(schema)) for schema in (ORDER, NEWER))
    by_registry: dict[str, Any] = {"format": "avro", "registry": told.url}
    key_id = told.register("numbers-key", '"long"')
    number_id = told.register("numbers-value", json.dumps({**ORDER, "name": "Number", "fields": [ORDER["fields"][0]]}))
    in_json = told.register("json-value", topic_values.JSON, "JSON")
    return {
        "avro_file": Case(
            [avro(ORDER, row) for row in USERS],
            "user string, id long",
            USERS,
            {"format": "avro", "schema_file": folder / "order.avsc"},
        ),
        "protobuf_file": Case(
            [b"\x4a\x01a", b"\x4a\x01b", b""],
            "name string",
            [{"name": "a"}, {"name": "b"}, {"name": None}],
            {"format": "protobuf", "schema_file": folder / "orders.desc", "message": "shop.Order"},
        ),
        "versions": Case(
            [
                avro(NEWER, {**USERS[0], "currency": "USD"}, second),
                avro(ORDER, USERS[1], first),
                avro(NEWER, {**USERS[2], "currency": "CHF"}, second),
            ],
            "id long, user string, currency string",
            [{**user, "currency": currency} for user, currency in zip(USERS, ("USD", "none", "CHF"), strict=True)],
            {**by_registry, "defaults": {"currency": "none"}},
        ),
        "json_schema": Case(
            [b"\0" + in_json.to_bytes(4) + (value or b"") for value in NUMBERS],
            "n long",
            N,
            {"format": "json_schema", "registry": told.url},
        ),
        "connect": Case(
            [
                json.dumps({"schema": CONNECT, "payload": {"n": n, "at": 1000 * n, "price": price}}).encode()
                for n, price in enumerate(base64.b64encode(each).decode() for each in (b"\0", b"\x04\xd2", b"\xff"))
            ],
            "n long, at timestamp, price decimal(9, 2)",
            [
                {"n": n, "at": datetime.fromtimestamp(n, UTC), "price": Decimal(price)}
                for n, price in enumerate(("0.00", "12.34", "-0.01"))
            ],
            {"envelope": "connect"},
        ),
        "debezium": Case(
            [None if change is None else json.dumps(change).encode() for change in CHANGES[:4]],
            "id long, user string",
            [
                {"id": 1, "user": user, "debezium_op": op, "debezium_ts": datetime.fromtimestamp(at, UTC)}
                for user, op, at in (("a", "c", 5), ("b", "u", 6), ("b", "d", 7))
            ],
            {"envelope": "debezium", "metadata": ["debezium_op", "debezium_ts"]},
            keys=[b'{"id": 1}'] * 4,
        ),
        "text_keys": keyed("text", "k string", (b"a", "a"), ("ü".encode(), "ü"), (None, None)),
        "binary_keys": keyed("binary", "k binary", (b"\xff", b"\xff"), (b"", b""), (None, None)),
        "int_keys": keyed("int", "k int", ((-2).to_bytes(4, signed=True), -2), ((7).to_bytes(4), 7), (None, None)),
        "json_keys": keyed(
            "json",
            "k int, part string",
            (b'{"k": 5, "part": "x"}', {"k": 5, "part": "x"}),
            (b'{"part": "y"}', {"k": None, "part": "y"}),
            (None, {"k": None, "part": None}),
        ),
        "avro_keys": Case(
            [avro({**ORDER, "fields": [ORDER["fields"][0]]}, {"id": n}, number_id) for n in range(3)],
            "id int",
            [{"id": n, "number": 2**40 + n} for n in range(3)],
            {**by_registry, "key": "avro", "key_columns": "number long"},
            [avro("long", 2**40 + n, key_id) for n in range(3)],
        ),
        "headers": Case(
            NUMBERS,
            "n long",
            [{**row, "kafka_headers": [("a", b"1"), ("b", b"")]} for row in N],
            {"metadata": "headers"},
            more={"headers": [("a", b"1"), ("b", b"")]},
        ),
        "tombstones": Case(
            [b'{"n": 0}', None, b'{"n": 2}'],
            "n long",
            [{"n": 0, "k": "a"}, {"n": None, "k": "b"}, {"n": 2, "k": "c"}],
            {"tombstones": "rows", "key": "text", "key_columns": "k string"},
            [b"a", b"b", b"c"],
        ),
        "times": Case(
            [
                json.dumps({"ts": ts, "ms": 1_729_992_600_000.5, "day": "20241027", "text": "2024-10-27 03:30"})
                for ts in ("27/10/2024 01:30 AM", "27/10/2024 02:30 AM", "27/10/2024 03:30 AM")
            ],
            "ts timestamp, ms timestamp, day date, text timestamp",
            [
                {
                    "ts": ts,
                    "ms": datetime(2024, 10, 27, 1, 30, 0, 500, tzinfo=UTC),
                    "day": date(2024, 10, 27),
                    "text": datetime(2024, 10, 27, 2, 30, tzinfo=UTC),
                }
                for ts in (  # the second is the first of the hour that is there twice
                    datetime(2024, 10, 26, 23, 30, tzinfo=UTC),
                    datetime(2024, 10, 27, 0, 30, tzinfo=UTC),
                    datetime(2024, 10, 27, 2, 30, tzinfo=UTC),
                )
            ],
            {"timezone": "Europe/Berlin", "times": {"ts": "%d/%m/%Y %I:%M %p", "ms": "ms", "day": "%Y%m%d"}},
        ),
    }  # fmt: skip


@pytest.fixture(scope="module")
def told() -> Iterator[Registry]:
    with registry() as one:
        yield one


@pytest.fixture(scope="module")
def topics(kafka: Kafka, told: Registry, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, Case]]:
    """The cases, each with the topic that has its records."""
    found = {}
    for name, case in cases(told, tmp_path_factory.mktemp("schemas")).items():
        topic = kafka.topic(name.replace("_", "-"))
        for value, key in zip(case.values, case.keys, strict=True):
            kafka.produce(topic, [value], key=key, **case.more)
        found[name] = topic, case
    return found


@BEGUN_AND_FINISHED
def test_each_record_is_read_once_though_runs_die(
    begun: str, finished: str, kafka: Kafka, topics: dict[str, tuple[str, Case]], tmp_path: Path
) -> None:
    """On Spark a batch takes seconds for each topic, so that a quarter of these is read by default."""
    few = slice(None) if {begun, finished} == {"local"} or with_all() else slice(0, None, 4)
    found = {
        name: spouts.kafka(kafka.servers, topic, case.schema, records_per_batch=1, **case.options)
        for name, (topic, case) in [*topics.items()][few]
    }
    built, out = reading(**found)
    for batch, phase in ((1, "ingest"), (1, "commit"), (2, "sinks")):
        ENGINES[begun].run_until(built, tmp_path / "checkpoint", at_phase(batch, phase))
    ENGINES[finished].run(built, tmp_path / "checkpoint")
    for name in found:
        case = topics[name][1]
        assert out[f"{name}-errors"].rows == [], name
        assert in_order(out[name].rows) == in_order(case.rows), name
        assert len(out[name].batches) >= 3, name
