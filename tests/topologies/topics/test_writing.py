"""What sinks write to topics: keys, tombstones, subjects, the latest schema, and a schema without a registry."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, timestamp_pb2

from servers.kafka import Registry, registry
from tests.helpers import topic_values
from tests.helpers.topic_values import records
from topologies.engine.kafka_records import outgoing
from topologies.io import sinks, spouts
from topologies.io.topics.decode import decode
from topologies.io.topics.encode import encode, register_schemas
from windowing.errors import ConfigError, DataError, UnreachableError
from windowing.schema import parse_schema

AT = "kafka:9092"
ROWS = pa.table(
    {
        "user": pa.array(["ann", None], pa.string()),
        "small": pa.array([-2, None], pa.int32()),
        "total": pa.array([5, 2**40], pa.int64()),
        "gone": pa.array([False, True]),
    }
)


@pytest.fixture
def told() -> Iterator[Registry]:
    with registry() as one:
        yield one


def write(rows: pa.Table = ROWS, **given: Any) -> list[tuple[Any, Any]]:
    """The keys and values of records."""
    sink = sinks.kafka(AT, "totals", **given)
    sink.check_columns(rows.schema)
    made = outgoing(encode(sink.records, rows), sink.topic, "name", 0)
    assert made.column("topic").to_pylist() == ["totals"] * len(rows)
    return list(zip(made.column("key").to_pylist(), made.column("value").to_pylist(), strict=True))


@pytest.mark.parametrize(
    ("key", "given", "expected"),
    [
        ("user", {}, [b"ann", None]),
        ("small", {}, [b"\xff\xff\xff\xfe", None]),
        ("total", {}, [b"\0\0\0\0\0\0\0\5", b"\0\0\1\0\0\0\0\0"]),
        ("small", {"key_format": "long"}, [b"\xff" * 7 + b"\xfe", None]),
        ("user", {"key_format": "json"}, [b'{"user":"ann"}', None]),
        (["user", "total"], {}, [b'{"user":"ann","total":5}', b'{"user":null,"total":1099511627776}']),
    ],
)
def test_keys_have_the_form_of_kafkas_serializers(key: Any, given: dict[str, Any], expected: list[Any]) -> None:
    assert [found for found, _ in write(format="json", key=key, **given)] == expected


def test_a_column_may_say_which_records_are_tombstones(told: Registry) -> None:
    found = write(format="json", key="total", tombstones="gone")
    assert [value for _, value in found] == [b'{"user":"ann","small":-2,"total":5}', None]
    found = write(format="avro", registry=told.url, key="total", tombstones="gone")
    assert found[1][1] is None
    names = [each["name"] for each in json.loads(told.schemas[0]["schema"])["fields"]]
    assert names == ["user", "small", "total"]


@pytest.mark.parametrize(
    ("format", "schema"),
    [
        ("avro", "a struct<b: struct<x: int>>, a_b struct<y: int>"),
        ("protobuf", "a_b map<string, int>, aB map<string, int>"),
        ("protobuf", "a struct<x: int>, A struct<y: int>"),
    ],
)
def test_names_that_would_be_the_same_in_a_schema_are_found_by_build(format: Any, schema: str, told: Registry) -> None:
    sink = sinks.kafka(AT, "totals", format=format, registry=told.url)
    with pytest.raises(ConfigError, match=f"make no schema of '{format}'.*(redefined|duplicate)"):
        sink.check_columns(parse_schema(schema))
    assert not told.asked


def test_a_tombstone_needs_no_value_that_the_schema_allows(tmp_path: Path) -> None:
    fields = [{"name": "user", "type": "string"}, {"name": "small", "type": "int"}, {"name": "total", "type": "long"}]
    file = tmp_path / "total.avsc"
    file.write_text(json.dumps({"type": "record", "name": "Total", "fields": fields}))
    given: dict[str, Any] = {"format": "avro", "schema_file": file, "key": "total"}
    rows = pa.concat_tables([ROWS.slice(1), ROWS, ROWS.slice(1)])
    assert [value for _, value in write(rows, **given, tombstones="gone")] == [None, b"\x06ann\x03\x0a", None, None]
    with pytest.raises(DataError, match="user: None is not text"):
        write(rows.drop_columns("gone"), **given)


@pytest.mark.parametrize("format", ["avro", "protobuf", "json_schema"])
def test_keys_have_a_subject_of_their_own(format: Any, told: Registry) -> None:
    ((key, value), _) = write(format=format, registry=told.url, key="small", key_format=format)
    assert set(told.subjects) == {"totals-value", "totals-key"}
    spout = spouts.kafka(
        AT, "totals", "total long", format=format, registry=told.url, key=format, key_columns="small int"
    )
    rows, _, bad = decode(spout.rows, records([value], [key]))
    assert (rows.to_pylist(), len(bad)) == ([{"total": 5, "small": -2}], 0)


@pytest.mark.parametrize(
    ("subject", "expected"),
    [("topic", "totals-value"), ("record", "shop.Total"), ("topic_record", "totals-shop.Total")],
)
def test_the_subject_is_that_of_its_strategy(subject: Any, expected: str, told: Registry) -> None:
    write(format="avro", registry=told.url, subject=subject, message="shop.Total")
    assert list(told.subjects) == [expected]


def test_a_column_added_at_the_end_is_a_compatible_change_and_another_type_is_not(told: Registry) -> None:
    write(format="avro", registry=told.url)
    more = ROWS.append_column("more", pa.array(["x", None]))
    write(more, format="avro", registry=told.url)
    assert told.subjects["totals-value"] == [1, 2]
    other = ROWS.set_column(1, "small", pa.array(["x", "y"]))
    with pytest.raises(ConfigError, match=r"the registry refuses the schema of topic 'totals'.*compatible change"):
        write(other, format="avro", registry=told.url)


def test_rows_are_written_by_the_latest_schema_where_that_is_asked_for(told: Registry) -> None:
    fields = [{"name": "total", "type": "long"}, {"name": "currency", "type": "string", "default": "EUR"}]
    schema = {"type": "record", "name": "T", "fields": fields}
    told.register("totals-value", json.dumps(schema))
    rows = ROWS.select(["total"])
    ((_, value), _) = write(rows, format="avro", registry=told.url, schemas="latest")
    assert value == b"\0\0\0\0\1\x0a\6EUR"
    with pytest.raises(ConfigError, match="has no field 'user', 'small', 'gone'"):
        write(format="avro", registry=told.url, schemas="latest")
    told.subjects.clear()
    with pytest.raises(ConfigError, match="the registry has no schema for the subject 'totals-value'"):
        write(rows, format="avro", registry=told.url, schemas="latest", message="other")
    assert told.asked["POST /subjects/totals-value/versions"] == 0


def test_a_row_that_a_given_schema_does_not_have_ends_the_batch(told: Registry) -> None:
    schema = {"type": "record", "name": "T", "fields": [{"name": "user", "type": "string"}]}
    told.register("totals-value", json.dumps(schema))
    with pytest.raises(DataError, match="user: None is not text"):
        write(ROWS.select(["user"]), format="avro", registry=told.url, schemas="latest")
    lists = pa.table({"a": pa.array([[1, None]], pa.list_(pa.int32()))})
    with pytest.raises(DataError, match="a: null in a list, which Protobuf does not have"):
        write(lists, format="protobuf", registry=told.url, message="L")


def test_values_without_a_registry_are_written_by_a_file(tmp_path: Any) -> None:
    fields = [{"name": "total", "type": "long"}]
    (tmp_path / "t.avsc").write_text(json.dumps({"type": "record", "name": "T", "fields": fields}), "utf-8")
    rows = ROWS.select(["total"])
    assert write(rows, format="avro", schema_file=tmp_path / "t.avsc")[0] == (None, b"\x0a")
    with pytest.raises(ConfigError, match="has no field 'user'"):
        write(format="avro", schema_file=tmp_path / "t.avsc")
    compiled = descriptor_pb2.FileDescriptorSet()
    time: Any = timestamp_pb2.DESCRIPTOR
    compiled.file.add().ParseFromString(time.serialized_pb)
    compiled.file.append(topic_values.PROTOBUF)
    (tmp_path / "o.desc").write_bytes(compiled.SerializeToString())
    names = pa.table({"name": ["x"]})
    found = write(names, format="protobuf", schema_file=tmp_path / "o.desc", message="shop.Order")
    assert found == [(None, b"\x4a\x01x")]


def test_a_schema_is_registered_once_and_a_registry_that_is_away_is_no_fault_of_the_rows(told: Registry) -> None:
    sink = sinks.kafka(AT, "totals", format="avro", registry={"url": told.url, "max.retries": 0})
    assert sink.records is not None
    told.failing = [500]
    with pytest.raises(UnreachableError, match=r"does not answer as it should\. it fails \(HTTP 500\)"):
        encode(sink.records, ROWS)
    register_schemas(sink.records, ROWS.schema)
    for _ in range(3):
        encode(sink.records, ROWS)
    assert told.asked == {"POST /subjects/totals-value/versions": 2}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"key": "user"}, "without a format"),
        ({"format": "avro"}, "format='avro' without a schema"),
        ({"format": "json", "registry": "http://r"}, "registry= with format='json'"),
        ({"format": "json", "schemas": "latest"}, "schemas= with format='json'"),
        ({"format": "json_schema"}, "format='json_schema' without registry="),
        ({"format": "json", "key_format": "long"}, "key_format='long' without key="),
        ({"format": "json", "tombstones": "gone"}, "tombstones='gone' without key="),
        ({"format": "json", "key": "users"}, "no column 'users'"),
        ({"format": "json", "key": "user", "tombstones": "total"}, "is no boolean"),
        ({"format": "json", "headers": "tags"}, "no column 'tags'"),
        ({"format": "json", "headers": "total"}, "headers='total' is no column of headers. these are array<struct<key"),
        ({"headers": "tags"}, "headers=...) without a format"),
        ({"format": "json", "key": "user", "key_format": "long"}, "such a key is one column of that type"),
        ({"format": "json", "key": "total", "key_format": "int"}, "such a key is one column of that type"),
        ({"format": "avro", "registry": "http://r", "message": "a b"}, "is no name of a type"),
        ({"format": "avro", "registry": "http://r", "subject": "topics"}, "did you mean 'topic'"),
    ],
)
def test_what_a_sink_cannot_be_is_said_before_the_run(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        write(**given)
    assert said in str(refused.value)


def test_a_name_that_avro_does_not_have_is_refused() -> None:
    with pytest.raises(ConfigError, match="column 'größe' cannot be a field of Avro"):
        write(pa.table({"größe": [1]}), format="avro", registry="http://127.0.0.1:9")


def test_a_format_needs_a_topic() -> None:
    with pytest.raises(ConfigError, match="without a topic"):
        sinks.kafka(AT, format="json")
