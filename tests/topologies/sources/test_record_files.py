"""Records in files as the driver's Java writes them; that it does is in tests/spark/kafka/test_kafka_ranges.py."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from policies.watermarks import NONE
from topologies.engine.kafka_records import RecordFile
from topologies.topology import Topology
from windbolt import TopologyBuilder, sinks, spouts

Header = tuple[str, bytes | None]
Row = tuple[int, int, bytes | None, bytes | None, list[Header]]
"""Offset, milliseconds, key, value, headers."""


PAIR = pa.struct([("key", pa.string()), ("value", pa.binary())])
COLUMNS = pa.schema(
    [
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("ms", "UTC")),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(PAIR)),
    ]
)


def write(path: Path, *parts: list[Row]) -> None:
    """Records as ``KafkaRanges.java`` writes them: a batch a part; no headers are null."""
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, COLUMNS) as stream:
        for rows in parts:
            *columns, headers = map(list, zip(*rows, strict=True))
            columns.append([[{"key": name, "value": text} for name, text in row] or None for row in headers])
            arrays = [pa.array(column, field.type) for column, field in zip(columns, COLUMNS, strict=True)]
            stream.write_batch(pa.record_batch(arrays, schema=COLUMNS))


def topology(**more: Any) -> Topology:
    builder = TopologyBuilder("records")
    builder.set_spout("in", spouts.kafka("localhost:9092", "orders", **more))
    builder.set_sink("out", sinks.discard()).from_("in")
    return builder.build()


ROWS: list[Row] = [
    (7, 1, b"k", "ä".encode(), [("x", b"1"), ("ü", None)]),
    (9, 2, None, None, []),
    (10, 3, b"", b"", [("x", b"")]),
]


def test_the_pieces_of_a_file_are_read_one_after_another(tmp_path: Path) -> None:
    path = tmp_path / "records"
    write(path, ROWS[:2], ROWS[2:])
    (batch,) = RecordFile("in", "orders", 3, str(path)).read(topology(value="text"))
    assert batch.table.to_pylist() == [
        {
            "topic": "orders",
            "partition": 3,
            "offset": offset,
            "timestamp": datetime.fromtimestamp(millis / 1e3, UTC),
            "key": key,
            "value": None if value is None else value.decode(),
            "headers": [{"key": name, "value": text} for name, text in headers] or None,
        }
        for offset, millis, key, value, headers in ROWS
    ]
    assert (batch.positions.tolist(), batch.partition, batch.shuffle_offset) == ([7, 9, 10], "orders/3", 3)


def test_a_file_without_records_has_no_rows(tmp_path: Path) -> None:
    path = tmp_path / "records"
    write(path)
    assert list(RecordFile("in", "orders", 0, str(path)).read(topology())) == []


def test_values_with_a_schema_are_read_and_bad_ones_have_their_offsets(tmp_path: Path) -> None:
    path = tmp_path / "records"
    rows: list[Row] = [(5, 0, None, b'{"a": 1}', []), (8, 0, None, b"{", []), (9, 0, None, b'{"a": 2}', [])]
    write(path, rows)
    (batch,) = RecordFile("in", "orders", 0, str(path)).read(topology(schema="a long"))
    assert (batch.table.to_pylist(), batch.positions.tolist()) == ([{"a": 1}, {"a": 2}], [5, 9])
    assert batch.bad is not None
    assert batch.bad.column("row").to_pylist() == [8]


NOW = 1_714_564_801_500
"""Milliseconds; a thousand times as many are in the year 56302, and a million times do not fit into microseconds."""


def test_a_record_whose_timestamp_does_not_fit_is_bad_and_those_around_it_are_read(tmp_path: Path) -> None:
    path = tmp_path / "records"
    times = [NOW, NOW * 1_000_000, -NOW * 1_000_000, NOW + 1]
    write(path, [(9 + at, time, None, b'{"a": 1}', []) for at, time in enumerate(times)])
    for more in ({"schema": "a long"}, {"schema": "a long", "metadata": "timestamp"}, {}):
        (batch,) = RecordFile("in", "orders", 3, str(path)).read(topology(**more))
        assert batch.positions.tolist() == [9, 12]
        assert batch.bad is not None
        bad = batch.bad.to_pylist()
        assert [(row["row"], str(time) in row["reason"]) for row, time in zip(bad, times[1:3], strict=True)] == [
            (10, True),
            (11, True),
        ]
        assert json.loads(bad[0]["data"])["value"] == '{"a": 1}'
        assert batch.merge_keys is not None
        assert batch.bad_merge_keys is not None
        assert (batch.merge_keys.tolist(), batch.bad_merge_keys.tolist()) == (
            [NOW * 1000, (NOW + 1) * 1000],
            [NONE, NONE],
        )


@pytest.mark.parametrize(
    "more",
    [{}, {"schema": "a long"}, {"schema": "a long", "metadata": True}, {"schema": "a long", "envelope": "debezium"}],
)
def test_where_no_timestamp_fits_all_records_are_bad(tmp_path: Path, more: dict[str, Any]) -> None:
    path = tmp_path / "records"
    rows: list[Row] = [(at, NOW * 1_000_000, None, b'{"a": 1}', []) for at in range(3)]
    write(path, rows[:2], rows[2:])
    (batch,) = RecordFile("in", "orders", 3, str(path)).read(topology(**more))
    assert (batch.table.num_rows, batch.tombstones) == (0, 0)
    assert batch.bad is not None
    assert batch.bad["row"].to_pylist() == [0, 1, 2]


def test_a_record_without_a_timestamp_has_null_and_one_of_another_age_is_bad_only_where_that_is_a_column(
    tmp_path: Path,
) -> None:
    path = tmp_path / "records"
    times = [-1, -2, NOW * 1000, NOW]
    write(path, [(at, time, None, b'{"a": 1}', []) for at, time in enumerate(times)])
    (batch,) = RecordFile("in", "orders", 3, str(path)).read(topology(schema="a long"))
    assert batch.positions.tolist() == [0, 1, 2, 3]
    assert batch.merge_keys is not None
    # What is no moment stays behind the record before it, and holds back none after it.
    assert batch.merge_keys.tolist() == [NONE, -2000, NONE, NOW * 1000]
    (batch,) = RecordFile("in", "orders", 3, str(path)).read(topology(schema="a long", metadata="timestamp"))
    times_read = batch.table["kafka_timestamp"].cast(pa.int64()).to_pylist()
    assert (batch.positions.tolist(), times_read) == ([0, 1, 3], [None, -2000, NOW * 1000])
    assert batch.bad is not None
    assert batch.bad["row"].to_pylist() == [2]
