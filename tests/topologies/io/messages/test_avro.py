"""Avro messages: which schema, that hostile bytes never reach the library, and that nothing unfit is written."""

from __future__ import annotations

import datetime as dt
import io
import json
import pickle
import tracemalloc
from decimal import Decimal
from typing import Any
from uuid import UUID

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.malformed import AVRO_SCHEMA, FORMATS, malformed
from tests.helpers.refusals import reason, unwritable
from topologies.io.messages import AvroMessages, AvroSchema, Unreadable
from windowing.errors import ConfigError

A = AvroSchema.parse('{"type":"record","name":"x.A","fields":[{"name":"a","type":"int"}]}')
B = AvroSchema.parse('{"type":"record","name":"x.B","fields":[{"name":"b","type":"int"}]}')
B_DEFAULT = AvroSchema.parse(B.text, default=True)
OTHER_A = AvroSchema.parse('{"type":"record","name":"y.A","fields":[{"name":"c","type":"int"}]}')


def record(*fields: Any, name: str = "R") -> AvroMessages:
    """Messages of a record with the fields a, b, ... of these types."""
    listed = [{"name": letter, "type": kind} for letter, kind in zip("abcdefghij", fields, strict=False)]
    return AvroMessages((AvroSchema.parse(json.dumps({"type": "record", "name": name, "fields": listed})),))


def named(name: str) -> dict[str, bytes]:
    return {"schemaName": name.encode()}


def test_without_a_header_the_default_is_taken_else_the_first() -> None:
    assert AvroMessages((A, B_DEFAULT)).read(b"\x02") == {"b": 1}
    assert AvroMessages((A, B)).read(b"\x02") == {"a": 1}


def test_a_header_names_the_schema_in_full_or_in_short() -> None:
    form = AvroMessages((A, B_DEFAULT))
    for name in ("x.A", "A"):
        assert form.read(b"\x02", named(name)) == {"a": 1}
        assert form.write({"a": 1}, named(name)) == b"\x02"
    assert form.read(b"\x02", {"other": b"x"}) == {"b": 1}


def test_an_unknown_or_ambiguous_name_is_told_with_the_known_names() -> None:
    form = AvroMessages((A, OTHER_A, B))
    for name in (b"A", b"x.C", b"", b"\xff", b"a" * 1000):
        with pytest.raises(Unreadable, match=r"may name x\.A, y\.A, x\.B"):
            form.read(b"\x02", {"schemaName": name})
    assert form.read(b"\x02", named("y.A")) == {"c": 1}
    assert form.read(b"\x02", named("B")) == {"b": 1}


@pytest.mark.parametrize("wrong", [(), (A, A), (B_DEFAULT, AvroSchema(A.name, A.text, default=True))])
def test_schemas_that_cannot_stand_together_are_told(wrong: tuple[AvroSchema, ...]) -> None:
    with pytest.raises(ConfigError):
        AvroMessages(wrong)


def field(kind: Any) -> str:
    return json.dumps({"type": "record", "name": "R", "fields": [{"name": "a", "type": kind}]})


NO_SCHEMAS = [
    "", "{", "null", '"string"', "[]", "{}", '{"type":"array","items":"int"}', '{"type":["null"]}',
    '{"type":{"type":"record"}}',
    '{"type":"record"}', '{"name":"A"}', '{"type":"record","name":"A","fields":1}',
    '{"type":"record","name":"A","fields":{"a":1}}',
    '{"type":"record","name":"A","fields":[1]}', '{"type":"record","name":"A","fields":[{"name":"a"}]}',
    '{"type":"record","name":"A","fields":[{"type":"int"}]}', '{"type":"record","name":1,"fields":[]}', "\ud800",
    "[" * 5000,
    '{"type":"record","name":"A","fields":[{"name":"a","type":"int"},{"name":"a","type":"int"}]}',
    '{"type":"fixed","name":"A"}', '{"type":"fixed","name":"A","size":-1}', '{"type":"fixed","name":"A","size":"1"}',
    '{"type":"enum","name":"A"}', '{"type":"enum","name":"A","symbols":[]}',
    '{"type":"enum","name":"A","symbols":["a","a"]}',
    field("no"), field(1), field(None), field({}), field({"type": {"type": "string"}}), field([]),
    field(["int", "int"]), field(["null", ["int"]]),
    field(["null", {"type": "array", "items": "int"}, {"type": "array", "items": "long"}]),
    field({"type": "array"}), field({"type": "map"}), field({"type": "array", "items": "null"}),
    field({"type": "bytes", "logicalType": "decimal", "precision": "x"}),
    field({"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}}),
    field({"type": "bytes", "logicalType": "decimal"}),
    field({"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 3}),
    field({"type": "array", "items": {"type": "record", "name": "E", "fields": [{"name": "n", "type": "null"}]}}),
    '{"type":"record","name":"A","fields":[{"name":"a","type":"int","default":"x"}]}',
]  # fmt: skip


@pytest.mark.parametrize("text", NO_SCHEMAS)
def test_what_is_no_schema_is_told_at_once(text: str) -> None:
    with pytest.raises(ConfigError):
        AvroSchema.parse(text)


def test_a_schema_bears_the_name_in_its_text() -> None:
    assert AvroSchema("x.A", A.text) == A
    assert AvroSchema.parse('{"type":"enum","name":"E","namespace":"n.m","symbols":["S"]}').name == "n.m.E"
    with pytest.raises(ConfigError, match=r"x\.A"):
        AvroSchema("A", A.text)
    assert pickle.loads(pickle.dumps(A)) == A


ALL = record(
    "string", "int", "long", "double", "bytes", ["null", "boolean"], {"type": "array", "items": "float"},
    {"type": "map", "values": ["null", "long", "string"]}, {"type": "enum", "name": "E", "symbols": ["X", "Y"]},
    {"type": "fixed", "name": "F", "size": 2},
)  # fmt: skip
EVENTS = st.fixed_dictionaries(
    {
        "a": st.text(),
        "b": st.integers(-(2**31), 2**31 - 1),
        "c": st.integers(-(2**63), 2**63 - 1),
        "d": st.floats(allow_nan=False),
        "e": st.binary(),
        "f": st.none() | st.booleans(),
        "g": st.lists(st.floats(width=32, allow_nan=False), max_size=100),
        "h": st.dictionaries(st.text(), st.none() | st.integers(-(2**63), 2**63 - 1) | st.text(), max_size=70),
        "i": st.sampled_from("XY"),
        "j": st.binary(min_size=2, max_size=2),
    }
)


@given(EVENTS)
def test_what_was_written_reads_back_the_same_and_is_as_the_library_writes_it(event: Any) -> None:
    message = ALL.write(event)
    assert ALL.read(message) == event
    alone = io.BytesIO()
    fastavro.schemaless_writer(alone, json.loads(ALL.schemas[0].text), event)
    assert message == alone.getvalue()


@given(EVENTS, st.data())
def test_a_message_that_is_cut_or_has_a_tail_is_unreadable(event: Any, data: st.DataObject) -> None:
    message = ALL.write(event)
    reason(ALL, message[: data.draw(st.integers(0, len(message) - 1))])
    assert "left over" in reason(ALL, message + data.draw(st.binary(min_size=1)))


WHOLE = {"a": "x", "b": 1, "c": 1, "d": 1.0, "e": b"", "f": None, "g": [1.0], "h": {"k": 1}, "i": "X", "j": b"ab"}


@pytest.mark.parametrize(
    ("place", "wrong"),
    [
        ("a", 1), ("a", None), ("a", b"x"), ("a", "\ud800"), ("b", "1"), ("b", 2**31), ("b", True), ("b", 1.0),
        ("c", 2**63), ("c", None), ("d", "x"), ("d", True), ("d", 2**53 + 1),
        ("d", 10**400), ("e", "x"), ("e", None), ("f", 1), ("g[1]", [1.0, "x"]), ("g[0]", [1e39]),
        ("g[0]", [2**24 + 1]), ("g", "x"), ("g", {}), ("h", []), ("h.k", {"k": 1.5}), ("h", {1: 1}),
        ("i", "Z"), ("i", 0), ("j", b"abc"), ("j", "ab"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_unwritable_and_told_where(place: str, wrong: Any) -> None:
    told = unwritable(ALL, WHOLE | {place[0]: wrong})
    assert told.startswith(f"not a value of R: {place}: ")


def test_missing_and_extra_fields_are_unwritable_by_name() -> None:
    assert "R: f: the field is missing" in unwritable(ALL, {key: value for key, value in WHOLE.items() if key != "f"})
    assert "'k'" in unwritable(ALL, WHOLE | {"k": 1})
    others: list[Any] = [None, [], "x", 1, {}]
    for wrong in others:
        unwritable(ALL, wrong)


def test_a_missing_field_has_the_default_of_its_schema() -> None:
    fields = [
        {"name": "a", "type": "int", "default": 7},
        {"name": "b", "type": ["null", "string"], "default": None},
        {"name": "c", "type": "bytes", "default": "\xff"},
        {"name": "d", "type": {"type": "array", "items": "int"}, "default": []},
    ]
    form = AvroMessages((AvroSchema.parse(json.dumps({"type": "record", "name": "D", "fields": fields})),))
    assert form.read(form.write({})) == {"a": 7, "b": None, "c": b"\xff", "d": []}
    assert "'x'" in unwritable(form, {"x": 1})


LOGICAL = [
    ({"type": "long", "logicalType": "timestamp-millis"}, dt.datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=dt.UTC)),
    ({"type": "long", "logicalType": "timestamp-micros"}, dt.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=dt.UTC)),
    ({"type": "long", "logicalType": "timestamp-micros"}, dt.datetime(1, 1, 1, tzinfo=dt.UTC)),
    ({"type": "long", "logicalType": "local-timestamp-millis"}, dt.datetime(2024, 2, 29, 1, 2, 3)),  # noqa: DTZ001
    ({"type": "long", "logicalType": "local-timestamp-micros"}, dt.datetime(2024, 2, 29, 1, 2, 3, 4)),  # noqa: DTZ001
    ({"type": "int", "logicalType": "date"}, dt.date(1, 1, 1)),
    ({"type": "int", "logicalType": "date"}, dt.date(9999, 12, 31)),
    ({"type": "int", "logicalType": "time-millis"}, dt.time(23, 59, 59, 999000)),
    ({"type": "long", "logicalType": "time-micros"}, dt.time(23, 59, 59, 999999)),
    ({"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}, Decimal("-999.99")),
    ({"type": "bytes", "logicalType": "decimal", "precision": 40, "scale": 0}, Decimal(10**39)),
    ({"type": "fixed", "name": "D", "size": 4, "logicalType": "decimal", "precision": 5, "scale": 2}, Decimal("-0.01")),
    ({"type": "string", "logicalType": "uuid"}, UUID(int=5)),
]


@pytest.mark.parametrize(("kind", "value"), LOGICAL)
def test_logical_types_go_both_ways(kind: Any, value: Any) -> None:
    for type_, event in (
        (kind, {"a": value}),
        (["null", kind], {"a": value}),
        ({"type": "array", "items": kind}, {"a": [value, value]}),
    ):
        form = record(type_)
        assert form.read(form.write(event)) == event


@pytest.mark.parametrize(("kind", "value"), LOGICAL)
@pytest.mark.parametrize(
    "wrong",
    [
        "x",
        1.5,
        None,
        True,
        2**63 - 1,
        -(2**63),
        Decimal("NaN"),
        Decimal("1E+9"),
        Decimal("0.001"),
        dt.timedelta(1),
        [],
        b"x" * 17,
    ],
)
def test_what_is_no_value_of_a_logical_type_is_unwritable(kind: Any, value: Any, wrong: Any) -> None:
    if (
        kind["logicalType"] == "decimal"
        and kind["precision"] == 40
        and type(wrong) in (int, Decimal)
        and wrong == int(wrong if wrong == wrong else 0)
    ):
        return
    assert "R: a: " in unwritable(record(kind), {"a": wrong})


def test_a_time_without_a_zone_is_utc_and_what_is_too_fine_is_cut_off() -> None:
    form = record({"type": "long", "logicalType": "timestamp-millis"})
    naive = dt.datetime(1969, 12, 31, 23, 59, 59, 999999)  # noqa: DTZ001
    assert form.read(form.write({"a": naive})) == {"a": dt.datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=dt.UTC)}
    assert form.write({"a": 1}) == b"\x02"


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ({"type": "long", "logicalType": "timestamp-millis"}, b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
        ({"type": "int", "logicalType": "date"}, b"\xfe\xff\xff\xff\x0f"),
        ({"type": "int", "logicalType": "time-millis"}, b"\x01"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2}, b"\x02\x64"),
        ({"type": "fixed", "name": "D", "size": 2, "logicalType": "decimal", "precision": 2}, b"\x00\x64"),
        ({"type": "string", "logicalType": "uuid"}, b"\x02x"),
    ],
)
def test_what_is_no_value_of_a_logical_type_is_unreadable(kind: Any, message: bytes) -> None:
    reason(record(kind), message)


INNER = {"type": "record", "name": "I", "fields": [{"name": "b", "type": "bytes", "default": "\xfe"}]}
MONEY = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
COINS = {"type": "fixed", "name": "F", "size": 2, "logicalType": "decimal", "precision": 3, "scale": 1}


@pytest.mark.parametrize(
    ("kind", "default", "value"),
    [
        (["bytes", "null"], "\xff", b"\xff"),
        (["bytes", "string"], "x", b"x"),
        (["string", "bytes"], "x", "x"),
        (["double", "int"], 1, 1.0),
        (["int", "double"], 1, 1),
        (["null", "string"], "x", "x"),
        ({"type": "array", "items": "bytes"}, ["\xff", ""], [b"\xff", b""]),
        ({"type": "map", "values": ["bytes", "string"]}, {"k": "\xff"}, {"k": b"\xff"}),
        (INNER, {"b": "\xff"}, {"b": b"\xff"}),
        (INNER, {}, {"b": b"\xfe"}),
        (["null", INNER], None, None),
        (MONEY, "\x01", Decimal("0.01")),
        ([MONEY, "null"], "\xff", Decimal("-0.01")),
        (COINS, "\x00\x0f", Decimal("1.5")),
        ({"type": "fixed", "name": "F", "size": 2}, "\xff\x00", b"\xff\x00"),
        ({"type": "long", "logicalType": "timestamp-millis"}, 0, dt.datetime(1970, 1, 1, tzinfo=dt.UTC)),
        ({"type": "enum", "name": "E", "symbols": ["X", "Y"]}, "Y", "Y"),
    ],
)
def test_every_legal_default_stands_in_for_its_field(kind: Any, default: Any, value: Any) -> None:
    fields = [{"name": "a", "type": kind, "default": default}]
    form = AvroMessages((AvroSchema.parse(json.dumps({"type": "record", "name": "R", "fields": fields})),))
    read = form.read(form.write({}) or b"")
    assert read == {"a": value}
    assert type(read["a"]) is type(value)


@pytest.mark.parametrize(
    ("kind", "default"), [("bytes", "\u0100"), (MONEY, "\x7f\xff"), ({"type": "string", "logicalType": "uuid"}, "")]
)
def test_a_default_that_is_no_value_is_unwritable_where_it_is_needed(kind: Any, default: str) -> None:
    fields = [{"name": "a", "type": kind, "default": default}, {"name": "b", "type": "int"}]
    form = AvroMessages((AvroSchema.parse(json.dumps({"type": "record", "name": "R", "fields": fields})),))
    assert unwritable(form, {"b": 1}).startswith("not a value of R: a: ")


def test_whole_numbers_are_whole_in_a_union_if_they_may() -> None:
    form = record(["float", "double", "long", "string"])
    for value in (2**60 + 1, 1.1, "x", 0):
        read = form.read(form.write({"a": value}))["a"]
        assert (read, type(read)) == (value, type(value))
    assert "fits none of" in unwritable(form, {"a": None})


def test_a_union_of_records_takes_the_first_that_fits() -> None:
    one = {"type": "record", "name": "One", "fields": [{"name": "x", "type": "int"}]}
    two = {
        "type": "record",
        "name": "Two",
        "fields": [{"name": "x", "type": "int"}, {"name": "y", "type": ["null", "One", "Two"]}],
    }
    form = record([one, two])
    for event in ({"a": {"x": 1}}, {"a": {"x": 1, "y": None}}, {"a": {"x": 1, "y": {"x": 2, "y": {"x": 3}}}}):
        assert form.read(form.write(event)) == event
    unwritable(form, {"a": {"x": 1, "y": None, "z": 1}})


TREE = AvroMessages((AvroSchema.parse('{"type":"record","name":"T","fields":[{"name":"l","type":["null","T"]}]}'),))


def tree(depth: int) -> dict[str, Any]:
    made: dict[str, Any] = {"l": None}
    for _ in range(depth - 1):
        made = {"l": made}
    return made


def test_the_limit_of_depth_holds_at_both_sides() -> None:
    assert TREE.read(b"\x02" * 199 + b"\0") == tree(200)
    assert TREE.write(tree(200)) == b"\x02" * 199 + b"\0"
    assert "nested too deep" in reason(TREE, b"\x02" * 200 + b"\0")
    assert "nested too deep" in unwritable(TREE, tree(201))
    for deep in (10**4, 10**6, 10**7):
        assert "nested too deep" in reason(TREE, b"\x02" * deep + b"\0")


def test_a_schema_that_is_in_itself_without_end_has_no_values() -> None:
    form = AvroMessages((AvroSchema.parse('{"type":"record","name":"T","fields":[{"name":"t","type":"T"}]}'),))
    assert "nested too deep" in reason(form, b"\0")


def test_types_may_be_in_one_another_under_their_names() -> None:
    text = """{"type":"record","name":"n.P","fields":[
      {"name":"e","type":{"type":"enum","name":"E","symbols":["X","Y"]}},
      {"name":"q","type":["null",{"type":"record","name":"Q","fields":[
        {"name":"p","type":{"type":"map","values":"P"}}, {"name":"e","type":"E"},
        {"name":"f","type":{"type":"fixed","name":"m.F","size":1}},
        {"name":"g","type":{"type":"array","items":"m.F"}}]}]}]}"""
    form = AvroMessages((AvroSchema.parse(text),))
    event = {"e": "Y", "q": {"p": {"k": {"e": "X", "q": None}}, "e": "X", "f": b"a", "g": [b"b", b"c"]}}
    assert form.read(form.write(event)) == event
    assert "q.p.k.e" in unwritable(form, {"e": "Y", "q": {"p": {"k": {"e": "Z"}}, "e": "X", "f": b"a", "g": []}})


def test_blocks_with_their_length_and_many_blocks_are_read() -> None:
    form = record({"type": "array", "items": "int"})
    assert form.read(b"\x03\x04\x02\x04" + b"\x02\x06" + b"\0") == {"a": [1, 2, 3]}
    reason(form, b"\x03\x02\x02\x04\0")


def test_every_change_of_a_byte_is_read_or_unreadable() -> None:
    form = AvroMessages((AvroSchema.parse(AVRO_SCHEMA),))
    good = form.write(
        {
            "id": "a",
            "n": 1,
            "kind": "NEW",
            "parent": None,
            "tags": ["x"],
            "counts": {"k": 1},
            "price": 1.0,
            "paid": True,
            "raw": b"",
            "at": dt.time(1),
            "end": "END",
        }
    )
    for at in range(len(good)):
        for byte in range(256):
            message = good[:at] + bytes([byte]) + good[at + 1 :]
            try:
                event = form.read(message)
            except Unreadable:
                continue
            assert form.read(form.write(event)) == event or event != event  # NaN


def test_lengths_that_are_said_to_follow_take_no_memory() -> None:
    form = FORMATS["avro"]
    messages = [message for _, message in malformed("avro") if len(message) < 1000]
    tracemalloc.start()
    try:
        for message in messages:
            reason(form, message)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("wrong", ["1E+999999", "0.1E-999999", "sNaN", "Infinity"])
def test_a_decimal_out_of_bounds_is_soon_unwritable(wrong: str) -> None:
    form = record({"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2})
    unwritable(form, {"a": Decimal(wrong)})
    assert form.read(form.write({"a": Decimal("0E+999999")})) == {"a": 0}


def test_a_record_without_bytes_cannot_be_a_message() -> None:
    assert "without any bytes" in unwritable(record(), {})
