"""The table of formats and options of topics in docs/files.md: each option does in each format what it says."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

import pyarrow as pa
import pytest

from servers.kafka import Registry, registry
from tests import formats_table
from tests.helpers import topic_values
from topologies.io.topics.declared import REGISTERED, KeyForm
from topologies.io.topics.decode import decode
from topologies.io.topics.encode import encode, register_schemas
from windbolt import TopologyBuilder, sinks, spouts
from windowing.errors import ConfigError
from windowing.schema import parse_schema

AT = "kafka:9092"
FINE = "2024-01-01T00:00:00.0000001Z"
KEYS: dict[str, tuple[str, Any]] = {"int": ("k int", 7), "long": ("k long", 7), "binary": ("k binary", b"x")}


@dataclass
class Topic:
    """A format with its registry: rows are written by a sink, and read by a spout."""

    format: Any
    told: Registry
    folder: Path
    name: str = "topic"

    def registry(self, **given: Any) -> dict[str, Any]:
        named = {self.format, given.get("key"), given.get("key_format")} & REGISTERED
        return {"registry": self.told.url} if named and "schema_file" not in given else {}

    def write(self, schema: str, *rows: dict[str, Any], **given: Any) -> pa.Table:
        sink = sinks.kafka(AT, self.name, format=self.format, **self.registry(**given), **given)
        table = pa.Table.from_pylist(list(rows), parse_schema(schema))
        sink.check_columns(table.schema)
        assert sink.records is not None
        if sink.records.registry is not None:
            register_schemas(sink.records, table.schema)
        return encode(sink.records, table)

    def read(self, made: pa.Table, schema: str, **given: Any) -> tuple[list[dict[str, Any]], int]:
        """The rows, and how many records are bad."""
        builder = TopologyBuilder("read")
        spout = spouts.kafka(AT, self.name, schema, format=self.format, **self.registry(**given), **given)
        builder.set_spout("in", spout)
        builder.set_sink("out", sinks.memory()).from_("in")
        keys = made["key"].to_pylist() if "key" in made.column_names else []
        table, _, bad = decode(spout.rows, topic_values.records(made["value"].to_pylist(), keys))
        return builder.build().spouts["in"].defaults.filled(table).to_pylist(), len(bad)

    def framed(self, value: Any) -> pa.Table:
        """JSON as it is, in the frame of a registry where there is one."""
        frame = b"\0\0\0\0\1" if self.format == "json_schema" else b""
        return pa.table({"value": pa.array([frame + json.dumps(value).encode()], pa.binary())})


def _registry(topic: Topic) -> None:
    made = topic.write("a long", {"a": 5})
    assert made["value"][0].as_py()[:5] == b"\0\0\0\0\1"
    assert topic.read(made, "a long") == ([{"a": 5}], 0)


def _schema_file(topic: Topic) -> None:
    given = formats_table.topic_options(topic.folder)["schema_file="]
    made = topic.write("a long", {"a": 5}, **given)
    assert made["value"].to_pylist() == [b"\x0a"]
    assert topic.read(made, "a long", **given) == ([{"a": 5}], 0)


def _schema_file_and_message(topic: Topic) -> None:
    given = formats_table.topic_options(topic.folder)["schema_file=, message="]
    made = topic.write("a long", {"a": 5}, **given)
    assert made["value"].to_pylist() == [b"\x08\x05"]
    assert topic.read(made, "a long", **given) == ([{"a": 5}], 0)


def _latest(topic: Topic) -> None:
    with pytest.raises(ConfigError, match="the registry has no schema for the subject 'topic-value'"):
        topic.write("a long", {"a": 5}, schemas="latest")
    topic.write("a long, b string", {"a": 5, "b": None})
    made = topic.write("a long, b string", {"a": 5, "b": "x"}, schemas="latest")
    assert topic.told.asked["POST /subjects/topic-value/versions"] == 1
    assert topic.read(made, "b string, a long") == ([{"b": "x", "a": 5}], 0)


def _subject(topic: Topic) -> None:
    topic.write("a long", {"a": 5}, subject="record", message="shop.Total")
    assert topic.told.subjects == {"shop.Total": [1]}


def _timezone(topic: Topic) -> None:
    made = topic.write("ts string", {"ts": "2024-05-01T06:00"})
    assert topic.read(made, "ts timestamp", timezone="Europe/Paris")[0][0]["ts"] == datetime(2024, 5, 1, 4, tzinfo=UTC)
    assert topic.read(made, "ts timestamp")[0][0]["ts"] == datetime(2024, 5, 1, 6, tzinfo=UTC)


def _times(topic: Topic) -> None:
    made = topic.write("ts long", {"ts": 1_704_088_805})
    expected = datetime(2024, 1, 1, 6, 0, 5, tzinfo=UTC)
    assert topic.read(made, "ts timestamp", times={"ts": "s"}) == ([{"ts": expected}], 0)
    assert topic.read(made, "ts timestamp") != ([{"ts": expected}], 0)


def _on_truncation(topic: Topic) -> None:
    made = topic.write("ts string", {"ts": FINE})
    assert topic.read(made, "ts timestamp") == ([{"ts": datetime(2024, 1, 1, tzinfo=UTC)}], 0)
    assert topic.read(made, "ts timestamp", on_truncation="error") == ([], 1)


def _defaults(topic: Topic) -> None:
    made = topic.write("a long, b long", {"a": 5, "b": None})
    assert topic.read(made, "a long, b long, c long", defaults={"b": 1, "c": 2}) == ([{"a": 5, "b": 1, "c": 2}], 0)


def _metadata(topic: Topic) -> None:
    made = topic.write("a long", {"a": 5}, {"a": 6})
    rows, _ = topic.read(made, "a long", metadata=True)
    assert [(row["a"], row["kafka_topic"], row["kafka_offset"]) for row in rows] == [(5, "orders", 0), (6, "orders", 1)]


def _connect(topic: Topic) -> None:
    fields = [{"field": "a", "type": "int64", "name": "org.apache.kafka.connect.data.Timestamp"}]
    made = topic.framed({"schema": {"type": "struct", "fields": fields}, "payload": {"a": 5}})
    expected = [{"a": datetime(1970, 1, 1, microsecond=5000, tzinfo=UTC)}]
    assert topic.read(made, "a timestamp", envelope="connect") == (expected, 0)
    assert topic.read(made, "a timestamp") != (expected, 0)


def _debezium(topic: Topic) -> None:
    change = {"op": "c", "before": None, "after": {"a": 5}, "ts_ms": 7}
    if topic.format.startswith("json"):
        made = topic.framed(change)
    else:
        made = topic.write("op string, before struct<a: long>, after struct<a: long>, ts_ms long", change)
    rows, bad = topic.read(made, "a long", envelope="debezium", metadata=["debezium_op"])
    assert (rows, bad) == ([{"a": 5, "debezium_op": "c"}], 0)


def _tombstones(kind: str, expected: tuple[list[Any], int]) -> Callable[[Topic], None]:
    def check(topic: Topic) -> None:
        made = pa.concat_tables([topic.write("a long", {"a": 5}), pa.table({"value": pa.array([None], pa.binary())})])
        assert topic.read(made, "a long", tombstones=kind) == expected

    return check


def _written_tombstones(topic: Topic) -> None:
    rows = {"a": 5, "gone": False}, {"a": 6, "gone": True}
    made = topic.write("a long, gone boolean", *rows, key="a", tombstones="gone")
    assert topic.read(made.slice(0, 1), "a long") == ([{"a": 5}], 0)
    assert made["value"][1].as_py() is None
    assert made["key"][1].as_py() == (6).to_bytes(8)


def _headers(topic: Topic) -> None:
    made = topic.write("a long, tags map<string, string>", {"a": 5, "tags": [("x", "y")]}, headers="tags")
    assert made["headers"].to_pylist() == [[("x", "y")]]
    assert topic.read(made, "a long, tags string", defaults={"tags": "none"}) == ([{"a": 5, "tags": "none"}], 0)


def _keys(topic: Topic) -> None:
    for form in get_args(KeyForm):
        column, value = KEYS.get(form, ("k string", "x"))
        made = topic.write(f"a long, {column}", {"a": 5, "k": value}, key="k", key_format=form)
        declared = column.replace("k ", "key_field " if form in ("int", "long", "binary", "text") else "k ")
        name = declared.split()[0]
        rows, bad = topic.read(made, "a long", key=form, key_columns=declared)
        assert (rows, bad) == ([{"a": 5, name: value}], 0), form
        topic.name += "x"  # the keys of a topic have one schema


CASES: dict[str, Callable[[Topic], None]] = {
    "registry=": _registry,
    "schema_file=": _schema_file,
    "schema_file=, message=": _schema_file_and_message,
    'schemas="latest"': _latest,
    "subject=": _subject,
    "timezone=": _timezone,
    "times=": _times,
    "on_truncation=": _on_truncation,
    "defaults=": _defaults,
    "metadata=": _metadata,
    'envelope="connect"': _connect,
    'envelope="debezium"': _debezium,
    'tombstones="invalid"': _tombstones("invalid", ([{"a": 5}], 1)),
    'tombstones="rows"': _tombstones("rows", ([{"a": 5}, {"a": None}], 0)),
    'tombstones="skip"': _tombstones("skip", ([{"a": 5}], 0)),
    'tombstones="a column"': _written_tombstones,
    'headers="a column"': _headers,
    "key=, key_columns=": _keys,
    "key=, key_format=": _keys,
}


@pytest.fixture
def told() -> Iterator[Registry]:
    with registry() as one:
        yield one


CELLS = [(option, name) for option, name, cell in formats_table.topic_cells() if cell]
"""Where the table has a letter; where it has none, the declarations refuse the option, as the table asks them."""


@pytest.mark.parametrize(("option", "format"), CELLS)
def test_an_option_does_what_it_says(option: str, format: str, told: Registry, tmp_path: Path) -> None:
    CASES[option](Topic(format, told, tmp_path))


def test_each_option_has_a_format_and_a_test() -> None:
    assert {option for option, _ in CELLS} == CASES.keys()
