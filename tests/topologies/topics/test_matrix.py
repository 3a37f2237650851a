"""Values of all types, in all formats of topics, against Confluent's own serializers and deserializers."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from google.protobuf import descriptor_pb2, json_format
from hypothesis import given
from hypothesis import strategies as st

from servers.kafka import Registry, registry
from tests.helpers import topic_values
from tests.helpers.examples import examples
from tests.helpers.topic_values import COLUMNS, Row, comparable, context, records, table_of
from tests.topologies.io.test_types_and_formats import drawn as drawn_tables
from tests.topologies.io.test_types_and_formats import from_json, shown
from topologies.io import sinks, spouts
from topologies.io.topics.decode import decode
from topologies.io.topics.encode import encode
from windowing.schema import format_schema

FORMATS = ("avro", "protobuf", "json_schema")
AT = "kafka:9092"


@pytest.fixture(scope="module")
def shared() -> Iterator[Registry]:
    with registry() as one:
        yield one


def drawn(format: str) -> st.SearchStrategy[list[Row]]:
    """Protobuf has no lists and maps that are null."""
    return topic_values.rows(lists_may_be_null=format != "protobuf")


def _with_sorted_maps(rows: list[Row]) -> pa.Table:
    """The entries of Protobuf's maps have no order, so they are by their keys."""
    return table_of(
        [{**row, **{name: dict(sorted(row[name].items())) for name in ("counts", "codes")}} for row in rows]
    )


@pytest.mark.parametrize("format", FORMATS)
def test_rows_of_other_producers_are_read_as_they_were_written(format: str, shared: Registry) -> None:
    write = topic_values.producer(format, SchemaRegistryClient({"url": shared.url}))
    spout = spouts.kafka(AT, "orders", COLUMNS, format=format, registry=shared.url)  # type: ignore[arg-type]

    @examples(100, by_default=30, deadline=None)
    @given(drawn(format))
    def check(rows: list[Row]) -> None:
        values = [write(row, context(f"read-{format}")) for row in rows]
        found, offsets, bad = decode(spout.rows, records(values, first=7))
        assert bad.rows.to_pylist() == []
        assert offsets.tolist() == list(range(7, 7 + len(rows)))
        assert found.schema == COLUMNS
        assert comparable(found) == comparable(_with_sorted_maps(rows) if format == "protobuf" else table_of(rows))

    check()


@pytest.mark.parametrize("format", FORMATS)
def test_rows_of_a_sink_are_read_by_other_consumers_and_read_back(format: str, shared: Registry) -> None:
    topic = f"written-{format}"
    sink = sinks.kafka(AT, topic, format=format, registry=shared.url, message="shop.Total")  # type: ignore[arg-type]
    spout = spouts.kafka(AT, topic, COLUMNS, format=format, registry=shared.url)  # type: ignore[arg-type]
    client = SchemaRegistryClient({"url": shared.url})

    @examples(100, by_default=30, deadline=None)
    @given(drawn(format))
    def check(rows: list[Row]) -> None:
        table = table_of(rows)
        values = encode(sink.records, table).column("value").to_pylist()
        found, _, bad = decode(spout.rows, records(values))
        assert bad.rows.to_pylist() == []
        assert comparable(found) == comparable(_with_sorted_maps(rows) if format == "protobuf" else table)
        message: Any = None
        if format == "protobuf":
            (number,) = shared.subjects[f"{topic}-value"]
            text = base64.b64decode(shared.schemas[number - 1]["schema"])
            message = topic_values.message_class(descriptor_pb2.FileDescriptorProto.FromString(text), "shop.Total")
        read = topic_values.consumer(format, client, message)
        for row, value in zip(rows, values, strict=True):
            theirs = read(value, context(topic))
            if format == "avro":
                codes = None if row["codes"] is None else [{"key": k, "value": v} for k, v in row["codes"].items()]
                assert comparable([theirs]) == comparable([{**row, "codes": codes}])
            elif format == "json_schema":
                assert theirs["big"] == row["big"]
                assert theirs["name"] == row["name"]
                assert theirs["price"] is None if row["price"] is None else theirs["price"] == str(row["price"])
            else:
                plain = json_format.MessageToDict(theirs, preserving_proto_field_name=True)
                assert plain.get("big") == (None if row["big"] is None else str(row["big"]))
                assert plain.get("name") == row["name"]
                assert dict(theirs.counts) == row["counts"]
                assert theirs.at.ToDatetime(row["at"].tzinfo) == row["at"] if row["at"] else not theirs.HasField("at")

    check()


@pytest.mark.parametrize("format", ["avro", "json_schema"])
def test_a_map_may_have_any_keys(format: str, shared: Registry) -> None:
    columns = pa.schema([("a", pa.map_(pa.date32(), pa.list_(pa.map_(pa.string(), pa.float64()))))])
    table = pa.table({"a": pa.array([[(3, [[("x", 1.5), ("y", None)], None])], [], None], columns.field(0).type)})
    sink = sinks.kafka(AT, f"maps-{format}", format=format, registry=shared.url)  # type: ignore[arg-type]
    spout = spouts.kafka(AT, "maps", columns, format=format, registry=shared.url)  # type: ignore[arg-type]
    found, _, bad = decode(spout.rows, records(encode(sink.records, table).column("value").to_pylist()))
    assert bad.rows.to_pylist() == []
    assert found == table


def test_what_protobuf_does_not_have_is_said_before_the_first_batch(shared: Registry) -> None:
    sink = sinks.kafka(AT, "t", format="protobuf", registry=shared.url)
    with pytest.raises(ValueError, match="a list of lists or maps is nothing that it has"):
        sink.check_columns(pa.schema([("a", pa.list_(pa.list_(pa.int32())))]))
    with pytest.raises(ValueError, match="the keys of its maps are texts, whole numbers or booleans"):
        sink.check_columns(pa.schema([("a", pa.map_(pa.date32(), pa.int32()))]))


def test_json_is_written_as_it_is_read() -> None:
    sink = sinks.kafka(AT, "t", format="json", key="big")
    spout = spouts.kafka(AT, "t", COLUMNS, key="long", key_columns="number long")

    @examples(50, by_default=20, deadline=None)
    @given(drawn("json"))
    def check(rows: list[Row]) -> None:
        table = table_of(rows)
        made = encode(sink.records, table)
        assert all(json.loads(value) for value in made.column("value").to_pylist())
        found, _, bad = decode(spout.rows, records(made.column("value").to_pylist(), made.column("key").to_pylist()))
        assert bad.rows.to_pylist() == []
        assert comparable(found.select(COLUMNS.names)) == comparable(table)
        assert found.column("number") == table.column("big")
        assert format_schema(found.schema).endswith("number long")

    check()


# Columns of any types, one in the other.


def drawn_for_protobuf() -> st.SearchStrategy[pa.Table]:
    """Tables of the types that Protobuf has, without nulls in lists and maps, which it does not have."""
    return drawn_tables().map(_of_protobuf)


def _of_protobuf(table: pa.Table) -> pa.Table:
    kept = pa.schema([field for field in table.schema if _is_of_protobuf(field)])
    return pa.Table.from_pylist(rows_as(_without_nulls, table.select(kept.names)), kept)


Change = Callable[[Any, pa.DataType], Any]
"""A function of a value, whose parts have been changed already, and its type."""


def rows_as(change: Change, table: pa.Table) -> list[Row]:
    """The rows of a table, with each value changed."""
    return [
        {field.name: _changed(change, row[field.name], field.type) for field in table.schema}
        for row in table.to_pylist()
    ]


def _changed(change: Change, value: Any, kind: pa.DataType) -> Any:
    """A value whose parts have been changed, and then the value itself."""
    if value is not None and pa.types.is_struct(kind):
        value = {field.name: _changed(change, value[field.name], field.type) for field in kind}
    elif value is not None and pa.types.is_map(kind):
        value = [(key, _changed(change, item, kind.item_type)) for key, item in value]
    elif value is not None and pa.types.is_list(kind):
        value = [_changed(change, item, kind.value_type) for item in value]
    return change(value, kind)


def _is_of_protobuf(field: pa.Field) -> bool:
    try:
        sinks.kafka(AT, "t", format="protobuf", registry="http://registry:8081").check_columns(pa.schema([field]))
    except ValueError as error:
        return "cannot be a field of Protobuf" not in str(error)
    return True


def _without_nulls(value: Any, kind: pa.DataType) -> Any:
    if value is not None and pa.types.is_map(kind):
        return [(key, item) for key, item in value if item is not None]
    if value is not None and pa.types.is_list(kind):
        return [item for item in value if item is not None]
    return value


def as_protobuf_has_it(table: pa.Table) -> pa.Table:
    """A table with empty lists and maps for nulls, and the entries of maps by their keys."""
    return pa.Table.from_pylist(rows_as(_in_protobuf, table), table.schema)


def _in_protobuf(value: Any, kind: pa.DataType) -> Any:
    if pa.types.is_map(kind):
        return sorted(value or [])
    return value or [] if pa.types.is_list(kind) else value


def _in_avro(value: Any, kind: pa.DataType) -> Any:
    """A value as Confluent's deserializer gives it."""
    if value is None or not pa.types.is_map(kind):
        return value
    pairs = dict(value)
    return pairs if pa.types.is_string(kind.key_type) else [{"key": key, "value": pairs[key]} for key in pairs]


@pytest.mark.parametrize("format", ["json", *FORMATS])
def test_columns_of_any_types_are_read_as_they_were_written(format: str, shared: Registry) -> None:
    given_to: dict[str, Any] = {"format": format, **({} if format == "json" else {"registry": shared.url})}
    theirs = topic_values.consumer("avro", SchemaRegistryClient({"url": shared.url}))
    numbers = count()

    @examples(100, by_default=30, deadline=None)
    @given(drawn_for_protobuf() if format == "protobuf" else drawn_tables())
    def check(table: pa.Table) -> None:
        topic = f"drawn-{format}-{next(numbers)}"  # its schema is its own
        sink = sinks.kafka(AT, topic, **given_to)
        spout = spouts.kafka(AT, topic, table.schema, **given_to)
        sink.check_columns(table.schema)
        values = encode(sink.records, table).column("value").to_pylist()
        found, _, bad = decode(spout.rows, records(values))
        assert bad.rows.to_pylist() == []
        assert shown(found) == shown(as_protobuf_has_it(table) if format == "protobuf" else table)
        if format == "avro":
            assert shown([theirs(value, context(topic)) for value in values]) == shown(rows_as(_in_avro, table))
        elif format != "protobuf":
            frame = 5 if format == "json_schema" else 0
            lines = [json.loads(value[frame:], parse_float=str, parse_int=str) for value in values]
            kinds = {field.name: field.type for field in table.schema}
            assert shown([{name: from_json(line[name], kinds[name]) for name in kinds} for line in lines]) == shown(
                table
            )

    check()


@pytest.mark.parametrize("format", ["json", *FORMATS])
def test_keys_of_any_types_are_read_as_they_were_written(format: Any, shared: Registry) -> None:
    """A record of which all columns of the key are null has no key, and so nulls, also where Protobuf has lists."""
    given_to: dict[str, Any] = {"format": format, **({} if format == "json" else {"registry": shared.url})}
    numbers = count()

    @examples(50, by_default=15, deadline=None)
    @given(drawn_for_protobuf() if format == "protobuf" else drawn_tables())
    def check(table: pa.Table) -> None:
        topic, (_, *of_key) = f"drawn-keys-{format}-{next(numbers)}", table.schema
        if not of_key:
            return  # Protobuf has none of the columns
        sink = sinks.kafka(AT, topic, key=[field.name for field in of_key], key_format=format, **given_to)
        spout = spouts.kafka(AT, topic, "id long", key=format, key_columns=pa.schema(of_key), **given_to)
        sink.check_columns(table.schema)
        made = encode(sink.records, table)
        found, _, bad = decode(spout.rows, records(made.column("value").to_pylist(), made.column("key").to_pylist()))
        assert bad.rows.to_pylist() == []
        rows = table.to_pylist()
        if format == "protobuf":
            pairs = zip(rows, as_protobuf_has_it(table).to_pylist(), strict=True)
            rows = [read if any(had[field.name] is not None for field in of_key) else had for had, read in pairs]
        assert shown(found) == shown(rows)

    check()
