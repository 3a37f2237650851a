"""Rows as records of Kafka: topics, and one id each."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from topologies.engine.kafka_records import outgoing
from topologies.io.kafka import ID_HEADER
from windowing.errors import DataError
from windowing.schema import parse_schema

COLUMNS = parse_schema("value string, topic string, headers array<struct<key: string, value: binary>>")


def rows(*given: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist(list(given), schema=COLUMNS)


def test_a_record_has_one_id_even_if_it_had_one_before() -> None:
    before = [{"key": ID_HEADER, "value": b"of another"}, {"key": "a", "value": b"1"}]
    table = rows(
        {"value": "x", "headers": before},
        {"value": "y"},
        {"value": "z", "headers": [{"key": "b", "value": None}, {"key": ID_HEADER, "value": b"again"}]},
    )
    found = outgoing(table, "t", "name", 5).to_pylist()
    assert [row["headers"] for row in found] == [
        [{"key": "a", "value": b"1"}, {"key": ID_HEADER, "value": b"name/5"}],
        [{"key": ID_HEADER, "value": b"name/6"}],
        [{"key": "b", "value": None}, {"key": ID_HEADER, "value": b"name/7"}],
    ]


def test_rows_go_to_their_own_topic_or_that_of_the_sink() -> None:
    table = rows({"value": "x", "topic": "own"}, {"value": "y"})
    assert outgoing(table, "sink", "name", 0).column("topic").to_pylist() == ["own", "sink"]
    with pytest.raises(DataError, match="no topic"):
        outgoing(table, None, "name", 0)
