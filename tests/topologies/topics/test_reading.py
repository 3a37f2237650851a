"""Topics as they really are: evolution, references, envelopes, keys, headers, tombstones, and what cannot be read."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from fastavro import parse_schema as parse_avro
from fastavro import schemaless_writer
from google.protobuf import descriptor_pb2, timestamp_pb2

from servers.kafka import Registry, registry
from tests.helpers import topic_values
from tests.helpers.topic_values import records
from topologies.io import spouts
from topologies.io.kafka import KafkaSpout
from topologies.io.topics.decode import decode
from topologies.io.topics.protobuf_shapes import indexes_in_bytes
from windowing.errors import ConfigError, UnreachableError

AT = "kafka:9092"
ORDER: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [{"name": "id", "type": "int"}, {"name": "user", "type": "string"}],
}


@pytest.fixture
def told() -> Iterator[Registry]:
    with registry() as one:
        yield one


def avro(schema: Any, value: Any, number: int | None = None, *references: Any) -> bytes:
    """A value by fastavro, with the frame of a schema's id."""
    named: dict[str, Any] = {}
    for reference in references:
        parse_avro(reference, named)
    stream = io.BytesIO()
    schemaless_writer(stream, parse_avro(schema, named), value)
    frame = b"" if number is None else b"\0" + number.to_bytes(4)
    return frame + stream.getvalue()


def read(spout: KafkaSpout, *values: bytes | None, keys: Any = ()) -> tuple[list[Any], list[Any]]:
    """The rows with their offsets, and the bad rows, in one list each."""
    rows, offsets, bad = decode(spout.rows, records(values, list(keys)))
    good = [(offset, *row.values()) for offset, row in zip(offsets.tolist(), rows.to_pylist(), strict=True)]
    return good, [tuple(row.values()) for row in bad.rows.to_pylist()]


def kafka(columns: str, **given: Any) -> KafkaSpout:
    return spouts.kafka(AT, "orders", columns, **given)


# Evolution, with the declared columns as the reader's schema.


def test_schemas_of_several_versions_are_read_in_order(told: Registry) -> None:
    newer = {**ORDER, "fields": [*ORDER["fields"], {"name": "currency", "type": "string", "default": "EUR"}]}
    wider = {**newer, "fields": [{"name": "id", "type": "long"}, *newer["fields"][2:]]}
    for schema in (ORDER, newer):
        told.register("orders-value", json.dumps(schema))
    told.levels["orders-value"] = "NONE"
    told.register("orders-value", json.dumps(wider))
    values = (
        avro(newer, {"id": 2, "user": "b", "currency": "USD"}, 2),
        avro(ORDER, {"id": 1, "user": "a"}, 1),
        avro(wider, {"id": 2**40, "currency": "CHF"}, 3),
        avro(ORDER, {"id": 4, "user": "d"}, 1),
    )
    good, bad = read(kafka("id long, user string, currency string", format="avro", registry=told.url), *values)
    assert bad == []
    assert good == [(0, 2, "b", "USD"), (1, 1, "a", None), (2, 2**40, None, "CHF"), (3, 4, "d", None)]


def test_a_schema_that_is_another_than_declared_makes_bad_rows_with_its_id(told: Registry) -> None:
    other = {**ORDER, "fields": [{"name": "id", "type": "boolean"}]}
    strange = {**ORDER, "fields": [{"name": "x", "type": "int"}]}
    for schema in (ORDER, other, strange, {"type": "long"}):
        told.register("any", json.dumps(schema), references=())
        told.levels["any"] = "NONE"
    values = (
        avro(ORDER, {"id": 1, "user": "a"}, 1),
        avro(other, {"id": True}, 2),
        avro(strange, {"x": 1}, 3),
        avro("long", 5, 4),
    )
    good, bad = read(kafka("id int, user string", format="avro", registry=told.url), *values)
    assert good == [(0, 1, "a")]
    assert [(row, reason) for row, reason, _ in bad] == [
        (1, "schema id 2 (shop.Order): id: it is boolean in the schema of the record, and declared as int"),
        (2, "schema id 3 (shop.Order): it has none of the columns id, user"),
        (3, "schema id 4 (long): its values are no records, and 2 columns are declared"),
    ]
    assert base64.b64decode(bad[0][2]) == values[1]


def test_a_value_that_no_declared_type_has_is_a_bad_row(told: Registry) -> None:
    told.register("any", json.dumps({**ORDER, "fields": [{"name": "id", "type": "long"}]}))
    values = [avro({**ORDER, "fields": [{"name": "id", "type": "long"}]}, {"id": number}, 1) for number in (7, 2**40)]
    good, bad = read(kafka("id int", format="avro", registry=told.url), *values)
    assert good == [(0, 7)]
    ((offset, reason, _),) = bad
    assert (offset, reason) == (
        1,
        "schema id 1 (shop.Order): column 'id': 1099511627776 cannot be read as int without changing it",
    )


def test_damaged_values_are_bad_rows_whatever_they_are(told: Registry) -> None:
    told.register("any", json.dumps(ORDER))
    whole = avro(ORDER, {"id": 1, "user": "abc"}, 1)
    spout = kafka("id int, user string", format="avro", registry=told.url)
    damaged = [whole[:length] for length in range(len(whole))] + [
        whole + b"\0",
        b"\1" + whole[1:],
        whole[:-1] + b"\xff",
    ]
    good, bad = read(spout, whole, *damaged)
    assert good == [(0, 1, "abc")]
    assert [row for row, _, _ in bad] == list(range(1, len(damaged) + 1))
    assert bad[-1][1].startswith("schema id 1: UnicodeDecodeError") or "utf-8" in bad[-1][1]


def test_unions_are_read_where_a_column_can_have_them(told: Registry) -> None:
    schema = {
        "type": "record",
        "name": "U",
        "fields": [
            {"name": "number", "type": ["int", "null", "double"]},
            {"name": "text", "type": ["null", "string", "int"]},
        ],
    }
    told.register("any", json.dumps(schema))
    rows = [{"number": 1, "text": "a"}, {"number": 2.5, "text": None}, {"number": None, "text": 7}]
    values = [avro(schema, row, 1) for row in rows]
    good, bad = read(kafka("number double, text string", format="avro", registry=told.url), *values)
    assert good == [(0, 1.0, "a"), (1, 2.5, None)]
    assert [(row, reason) for row, reason, _ in bad] == [
        (2, "schema id 1 (U): column 'text': 7 (int) is of another type of the union than string")
    ]


# References.


def test_references_between_schemas_are_followed(told: Registry) -> None:
    user = {"type": "record", "name": "User", "namespace": "shop", "fields": [{"name": "name", "type": "string"}]}
    item = {"type": "record", "name": "Item", "namespace": "shop", "fields": [{"name": "of", "type": "shop.User"}]}
    order = {"type": "record", "name": "Order", "namespace": "shop", "fields": [{"name": "item", "type": "shop.Item"}]}
    told.register("user", json.dumps(user))
    to_user = {"name": "shop.User", "subject": "user", "version": 1}
    told.register("item", json.dumps(item), references=(to_user,))
    number = told.register(
        "order", json.dumps(order), references=({"name": "shop.Item", "subject": "item", "version": 1},)
    )
    value = avro(order, {"item": {"of": {"name": "ann"}}}, number, user, item)
    good, bad = read(kafka("item struct<of: struct<name: string>>", format="avro", registry=told.url), value)
    assert (good, bad) == ([(0, {"of": {"name": "ann"}})], [])


def test_a_topic_of_several_types_is_a_union_of_references(told: Registry) -> None:
    left = {"type": "record", "name": "Left", "fields": [{"name": "id", "type": "int"}]}
    right = {
        "type": "record",
        "name": "Right",
        "fields": [{"name": "id", "type": "long"}, {"name": "x", "type": "int"}],
    }
    for schema in (left, right):
        told.register(schema["name"], json.dumps(schema))  # type: ignore[arg-type]
    to = [{"name": name, "subject": name, "version": 1} for name in ("Left", "Right")]
    number = told.register("orders-value", json.dumps(["Left", "Right"]), references=tuple(to))
    frame, of_left, of_right = b"\0" + number.to_bytes(4), b"\0", b"\2"
    values = [
        frame + of_right + avro(right, {"id": 1, "x": 5}),
        frame + of_left + avro(left, {"id": 2}),
        frame + of_right + avro(right, {"id": 3, "x": 6}),
        frame + b"\4",
    ]
    good, bad = read(kafka("id long, x int", format="avro", registry=told.url), *values)
    assert good == [(0, 1, 5), (1, 2, None), (2, 3, 6)]
    assert [(row, reason) for row, reason, _ in bad] == [(3, "schema id 3: 2 is not a branch of a union of 2")]


def test_protobuf_finds_a_message_by_its_indexes_and_imports(told: Registry) -> None:
    kinds = descriptor_pb2.FieldDescriptorProto
    money = descriptor_pb2.FileDescriptorProto(name="money.proto", package="shop", syntax="proto3")
    money.message_type.add(name="Money").field.add(name="cents", number=1, type=kinds.TYPE_INT64, label=1)
    orders = descriptor_pb2.FileDescriptorProto(name="orders.proto", package="shop", syntax="proto3")
    orders.dependency.append("money.proto")
    outer = orders.message_type.add(name="Outer")
    inner = outer.nested_type.add(name="Inner")
    inner.field.add(name="of", number=1, type=kinds.TYPE_MESSAGE, type_name=".shop.Money", label=1)
    inner.field.add(name="state", number=2, type=kinds.TYPE_ENUM, type_name=".shop.State", label=1)
    state = orders.enum_type.add(name="State")
    for number, name in enumerate(("NEW", "PAID")):
        state.value.add(name=name, number=number)
    told.register("money", base64.b64encode(money.SerializeToString()).decode(), "PROTOBUF")
    reference = {"name": "money.proto", "subject": "money", "version": 1}
    text = base64.b64encode(orders.SerializeToString()).decode()
    number = told.register("orders-value", text, "PROTOBUF", (reference,))
    frame = b"\0" + number.to_bytes(4)
    path = indexes_in_bytes([0, 0])
    spout = kafka("of struct<cents: long>, state string", format="protobuf", registry=told.url)
    good, bad = read(
        spout,
        frame + path + b"\x0a\x02\x08\x2a\x10\x01",  # of { cents: 42 } state: PAID
        frame + path,
        frame + path + b"\x10\x07",  # state: 7
        frame + indexes_in_bytes([3]),
        frame + b"\xff",
        frame + path + b"\x0a\x7f",
    )
    assert good == [(0, {"cents": 42}, "PAID"), (1, None, "NEW")]
    assert [(row, reason) for row, reason, _ in bad[:3]] == [
        (2, f"schema id {number} (shop.Outer.Inner): column 'state': 7 is no value of its enum"),
        (3, f"schema id {number}: its file has no message with the indexes [3]"),
        (4, f"schema id {number}: it ends within the indexes of its message's type"),
    ]
    assert bad[3][0] == 5


# Without a registry.


def test_a_schema_file_is_enough(tmp_path: Any) -> None:
    (tmp_path / "order.avsc").write_text(json.dumps(ORDER), "utf-8")
    spout = kafka("id long, user string", format="avro", schema_file=tmp_path / "order.avsc")
    good, bad = read(spout, avro(ORDER, {"id": 1, "user": "a"}), b"\x02")
    assert good == [(0, 1, "a")]
    assert [reason for _, reason, _ in bad] == ["user: the message ends within the value"]
    compiled = descriptor_pb2.FileDescriptorSet()
    timestamp: Any = timestamp_pb2.DESCRIPTOR
    compiled.file.add().ParseFromString(timestamp.serialized_pb)
    compiled.file.append(topic_values.PROTOBUF)
    (tmp_path / "orders.desc").write_bytes(compiled.SerializeToString())
    spout = kafka("name string", format="protobuf", schema_file=tmp_path / "orders.desc", message="shop.Order")
    assert read(spout, b"\x4a\x01x") == ([(0, "x")], [])


# Envelopes.


def test_kafka_connects_envelope_is_opened_by_its_schema() -> None:
    fields = [
        {"field": "id", "type": "int64"},
        {"field": "at", "type": "int64", "name": "org.apache.kafka.connect.data.Timestamp"},
        {"field": "micros", "type": "int64", "name": "io.debezium.time.MicroTimestamp"},
        {"field": "day", "type": "int32", "name": "io.debezium.time.Date"},
        {
            "field": "price",
            "type": "bytes",
            "name": "org.apache.kafka.connect.data.Decimal",
            "parameters": {"scale": "2"},
        },
        {"field": "raw", "type": "bytes"},
    ]
    payload = {
        "id": 1,
        "at": 1000,
        "micros": 1_500_000,
        "day": 1,
        "price": base64.b64encode(b"\x04\xd2").decode(),
        "raw": "AAE=",
    }
    schema = {"type": "struct", "fields": fields, "optional": False}
    spout = kafka(
        "id int, at timestamp, micros timestamp, day date, price decimal(9, 2), raw binary",
        envelope="connect",
        timezone="Europe/Paris",
    )
    rows, _, bad = decode(
        spout.rows,
        records(
            [
                json.dumps({"schema": schema, "payload": payload}).encode(),
                json.dumps({"schema": None, "payload": {"id": 2, "day": "2024-05-01"}}).encode(),
                json.dumps({"schema": schema, "payload": {**payload, "id": "x"}}).encode(),
                b'{"id": 3}',
                json.dumps({"schema": schema, "payload": None}).encode(),
            ]
        ),
    )
    first, second = (list(map(str, row.values())) for row in rows.to_pylist())
    assert first == [
        "1",
        "1970-01-01 00:00:01+00:00",
        "1970-01-01 00:00:00.500000+00:00".replace("00:00:00.5", "00:00:01.5").replace(
            "1970-01-01 00", "1969-12-31 23"
        ),
        "1970-01-02",
        "12.34",
        "b'\\x00\\x01'",
    ]
    assert second == ["2", "None", "None", "2024-05-01", "None", "None"]
    assert [(row, reason) for row, reason, _ in (tuple(each.values()) for each in bad.rows.to_pylist())] == [
        (2, "its schema: column 'id': 'x' (str) is not int64"),
        (3, "the object has no payload, which Kafka Connect's envelope has"),
        (4, "the value is null (a tombstone)"),
    ]


CHANGES: list[dict[str, Any] | None] = [
    {"op": "c", "before": None, "after": {"id": 1, "user": "a"}, "ts_ms": 5000, "source": {"x": 1}},
    {"op": "u", "before": {"id": 1, "user": "a"}, "after": {"id": 1, "user": "b"}, "ts_ms": 6000},
    {"op": "d", "before": {"id": 1, "user": "b"}, "after": None, "ts_ms": 7000},
    None,
    {"op": "t", "before": None, "after": None},
    {"id": 9},
]


@pytest.mark.parametrize("schemas", [False, True])
def test_debeziums_changes_are_rows_with_their_operation(schemas: bool) -> None:
    row = [{"field": "id", "type": "int64"}, {"field": "user", "type": "string"}]
    schema = {
        "type": "struct",
        "fields": [
            *({"field": name, "type": "struct", "fields": row} for name in ("before", "after")),
            {"field": "op", "type": "string"},
            {"field": "ts_ms", "type": "int64"},
        ],
    }
    spout = kafka("id long, user string", envelope="debezium", metadata=["debezium_op", "debezium_ts", "offset"])
    values = [
        None if change is None else json.dumps({"schema": schema, "payload": change} if schemas else change).encode()
        for change in CHANGES
    ]
    good, bad = read(spout, *values)
    assert [(*row[:4], row[4].timestamp(), row[5]) for row in good] == [
        (0, 1, "a", "c", 5.0, 0),
        (1, 1, "b", "u", 6.0, 1),
        (2, 1, "b", "d", 7.0, 2),
    ]
    assert [(row, reason.removeprefix("its schema: ")) for row, reason, _ in bad] == [
        (4, "a change with the op 't', and without a row 'after'"),
        (5, "it is no change of Debezium's: it has no op"),
    ]


def test_debeziums_changes_in_avro(told: Registry) -> None:
    value = {**ORDER, "name": "Value"}
    envelope = {
        "type": "record",
        "name": "Envelope",
        "namespace": "shop",
        "fields": [
            {"name": "before", "type": ["null", value]},
            {"name": "after", "type": ["null", "shop.Value"]},
            {"name": "op", "type": "string"},
            {"name": "ts_ms", "type": ["null", "long"]},
        ],
    }
    told.register("orders-value", json.dumps(envelope))
    values = [avro(envelope, {"ts_ms": None, **change}, 1) for change in CHANGES[:3] if change is not None]
    spout = kafka("id long, user string", format="avro", envelope="debezium", metadata="debezium_op", registry=told.url)
    assert read(spout, *values, None) == ([(0, 1, "a", "c"), (1, 1, "b", "u"), (2, 1, "b", "d")], [])


# Keys, headers and tombstones.


@pytest.mark.parametrize(
    ("form", "columns", "keys", "expected", "reason"),
    [
        ("text", "k string", [b"a", None, b"\xff"], ["a", None], "'k': b'\\xff' is not valid UTF-8"),
        ("int", "k long", [b"\xff\xff\xff\xfe", None, b"12345"], [-2, None], "the key has 5 bytes, and an int has 4"),
        ("long", "k long", [b"\0" * 7 + b"\7", None, b""], [7, None], "the key has 0 bytes, and a long has 8"),
        ("json", "k int", [b'{"k": 5}', None, b"{"], [5, None], "the key: not valid JSON"),
    ],
)
def test_keys_are_columns(form: str, columns: str, keys: list[Any], expected: list[Any], reason: str) -> None:
    good, bad = read(kafka("id int", key=form, key_columns=columns), *[b'{"id": 1}'] * 3, keys=keys)
    assert [row[2] for row in good] == expected
    ((offset, said, _),) = bad
    assert offset == 2
    assert reason in said


def test_keys_in_avro_and_headers_as_a_map(told: Registry) -> None:
    told.register("orders-key", '"long"')
    told.register("orders-value", json.dumps(ORDER))
    spout = kafka(
        "id int", format="avro", key="avro", key_columns="number long", registry=told.url, metadata="kafka_headers"
    )
    value = avro(ORDER, {"id": 1, "user": "a"}, 2)
    good, bad = read(spout, value, value, keys=[avro("long", 2**40, 1), None])
    assert (good, bad) == ([(0, 1, 2**40, [("a", b"1"), ("a", None)]), (1, 1, None, None)], [])


@pytest.mark.parametrize("format", ["json", "avro"])
def test_tombstones_are_invalid_rows_or_nothing(format: str, told: Registry) -> None:
    told.register("orders-value", json.dumps(ORDER))
    value = avro(ORDER, {"id": 1, "user": "a"}, 1) if format == "avro" else b'{"id": 1}'
    given = {"format": format, "key": "long", "key_columns": "number long"}
    given |= {"registry": told.url} if format == "avro" else {}
    key = (5).to_bytes(8)
    found = {}
    for tombstones in ("invalid", "rows", "skip"):
        found[tombstones] = read(kafka("id int", tombstones=tombstones, **given), value, None, value, keys=[key] * 3)
    row = [(0, 1, 5), (2, 1, 5)]
    assert found["invalid"] == (row, [(1, "the value is null (a tombstone)", "")])
    assert found["rows"] == ([row[0], (1, None, 5), row[1]], [])
    assert found["skip"] == (row, [])


# The registry.


def test_a_schema_is_fetched_once_however_many_records_there_are(told: Registry) -> None:
    told.register("orders-value", json.dumps(ORDER))
    spout = kafka("id int", format="avro", registry=told.url)
    for _ in range(3):
        read(spout, *[avro(ORDER, {"id": 1, "user": "a"}, 1)] * 50)
    assert told.asked == {"GET /schemas/ids/1": 1}


def test_an_unknown_id_is_asked_for_once_in_a_batch_and_makes_bad_rows(told: Registry) -> None:
    spout = kafka("id int", format="avro", registry=told.url)
    good, bad = read(spout, *[b"\0\0\0\0\7abc"] * 3)
    assert good == []
    assert {reason.partition(" the registry")[0] for _, reason, _ in bad} == {"schema id 7:"}
    assert told.asked == {"GET /schemas/ids/7": 1}
    told.register("a", json.dumps(ORDER))
    for number in range(2, 8):
        told.register(f"s{number}", json.dumps({**ORDER, "doc": str(number)}))
    assert read(spout, avro(ORDER, {"id": 5, "user": "a"}, 7)) == ([(0, 5)], [])


def test_a_registry_that_fails_is_tried_again(told: Registry) -> None:
    told.register("orders-value", json.dumps(ORDER))
    spout = kafka("id int", format="avro", registry={"url": told.url, "retries.wait.ms": 1})
    told.failing = [500, 503]
    assert read(spout, avro(ORDER, {"id": 5, "user": "a"}, 1)) == ([(0, 5)], [])
    assert told.asked == {"GET /schemas/ids/1": 3}


def test_a_registry_that_stays_away_is_not_the_records_fault(told: Registry) -> None:
    told.register("orders-value", json.dumps(ORDER))
    spout = kafka("id int", format="avro", registry={"url": told.url, "retries.wait.ms": 1, "max.retries": 2})
    value = avro(ORDER, {"id": 5, "user": "a"}, 1)
    told.failing = [500] * 3
    with pytest.raises(UnreachableError, match=r"does not answer as it should\. it fails \(HTTP 500\)") as failed:
        read(spout, value)
    assert failed.value.transient
    assert read(spout, value) == ([(0, 5)], [])


def test_a_registry_that_is_not_there_or_too_slow(told: Registry) -> None:
    told.gate.clear()
    quick = {"retries.wait.ms": 1, "max.retries": 0, "timeout": 0.05}
    with pytest.raises(UnreachableError, match="does not answer"):
        read(kafka("id int", format="avro", registry={"url": told.url, **quick}), b"\0\0\0\0\1abc")
    told.gate.set()
    gone = {"url": "http://127.0.0.1:9", **quick}
    with pytest.raises(UnreachableError, match=r"the registry http://127\.0\.0\.1:9 does not answer"):
        read(kafka("id int", format="avro", registry=gone), b"\0\0\0\0\1abc")


def test_passwords_are_given_to_the_client_and_shown_nowhere() -> None:
    with registry(user="me:secret") as told:
        told.register("orders-value", json.dumps(ORDER))
        value = avro(ORDER, {"id": 5, "user": "a"}, 1)
        spout = kafka("id int", format="avro", registry={"url": told.url, "basic.auth.user.info": "me:secret"})
        assert read(spout, value) == ([(0, 5)], [])
        assert "secret" not in repr(spout)
        tokens: dict[str, Any] = {
            "bearer.auth.credentials.source": "CUSTOM",
            "bearer.auth.custom.provider.config": {"a": 1},
        }
        tokens |= {"bearer.auth.custom.provider.function": _fields}
        with pytest.raises(UnreachableError, match="refuses to answer"):
            read(kafka("id int", format="avro", registry={"url": told.url, **tokens}), value)
        inside = kafka("id int", format="avro", registry=told.url.replace("//", "//me:secret@"))
        assert read(inside, value) == ([(0, 5)], [])
        assert "secret" not in repr(inside)
        with pytest.raises(UnreachableError, match="refuses to answer") as refused:
            read(kafka("id int", format="avro", registry=told.url), value)
        assert not refused.value.transient


def _fields(given: Any) -> dict[str, str]:
    about = dict.fromkeys(("bearer.auth.logical.cluster", "bearer.auth.identity.pool.id"), "c")
    return {"bearer.auth.token": f"secret {given['a']}", **about}


# What is said where it is declared.


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"format": "avor"}, "did you mean 'avro'"),
        ({"registry": "http://r"}, "registry= with format='json'"),
        ({"format": "avro"}, "format='avro' without a schema"),
        ({"format": "avro", "registry": "registry:8081"}, "'registry:8081' is no schema registry"),
        ({"format": "avro", "registry": {"url": "http://r", "no.such": 1}}, "Unrecognized properties: no.such"),
        ({"format": "avro", "envelope": "connect", "registry": "http://r"}, "only in JSON"),
        ({"format": "protobuf", "schema_file": "a.proto", "message": "A"}, "has to be compiled"),
        ({"format": "avro", "schema_file": "/no/such.avsc"}, "cannot be read"),
        ({"key": "json"}, "key='json' without key_columns"),
        ({"key": "avro", "key_columns": "a int"}, "key='avro' without registry="),
        ({"key": "long", "key_columns": "a int, b int"}, "such a key is one long"),
        ({"key_columns": "id int"}, "declared for the values and for the keys"),
        ({"metadata": "debezium_op"}, "give envelope='debezium'"),
        ({"tombstones": "rows", "defaults": {"id": 1}}, "tombstones='rows' with defaults"),
        ({"envelope": "debesium"}, "did you mean 'debezium'"),
    ],
)
def test_what_cannot_be_is_said_where_it_is_declared(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        kafka("id int", **given).outputs()
    assert said in str(refused.value)


def test_a_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from topologies.io.topics import declared as module

    monkeypatch.setattr(module, "_is_installed", lambda name: name not in ("authlib", "google.protobuf"))
    with pytest.raises(ConfigError, match=r"needs the package 'authlib'.*pip install 'windbolt\[topics\]'"):
        kafka("id int", format="avro", registry="http://r")
    with pytest.raises(ConfigError, match=r"needs the package 'google'.*pip install 'windbolt\[topics\]'"):
        kafka("id int", format="protobuf", schema_file="a.desc", message="A")


def test_times_without_a_zone_are_of_the_declared_one(told: Registry) -> None:
    kind = {"type": "long", "logicalType": "local-timestamp-millis"}
    zoned = {"type": "long", "logicalType": "timestamp-millis"}
    schema = {"type": "record", "name": "T", "fields": [{"name": "a", "type": kind}, {"name": "b", "type": zoned}]}
    told.register("orders-value", json.dumps(schema))
    plain = {"type": "record", "name": "T", "fields": [{"name": name, "type": "long"} for name in "ab"]}
    value = avro(plain, {"a": 0, "b": 0}, 1)
    spout = kafka("a timestamp, b timestamp", format="avro", registry=told.url, timezone="Asia/Tokyo")
    rows, _, _ = decode(spout.rows, records([value]))
    assert [str(each) for each in rows.to_pylist()[0].values()] == [
        "1969-12-31 15:00:00+00:00",
        "1970-01-01 00:00:00+00:00",
    ]
    numbers, _ = read(kafka("a long, b long", format="avro", registry=told.url), value)
    assert numbers == [(0, 0, 0)]
    assert pa.types.is_timestamp(rows.schema.field("a").type)
