"""Times that Parquet holds as INT96: Spark's own until version 4, Impala's and Hive's."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

from topologies.io.formats import FileSplit, file_format
from windowing.errors import DataError
from windowing.schema import parse_schema

TIMES = [
    dt.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=dt.UTC),
    dt.datetime(2262, 4, 12, tzinfo=dt.UTC),
    dt.datetime(1700, 1, 1, tzinfo=dt.UTC),  # pyarrow 21 writes times of day before 1970 wrongly
    dt.datetime(1, 1, 1, tzinfo=dt.UTC),
    dt.datetime(2024, 5, 1, 6, 0, 0, 123456, tzinfo=dt.UTC),
    None,
]


def test_times_of_all_years_are_read_as_they_are(tmp_path: Path) -> None:
    written = pa.table({"t": pa.array(TIMES, pa.timestamp("us", "UTC")), "n": range(len(TIMES))})
    pq.write_table(written, tmp_path / "a.parquet", use_deprecated_int96_timestamps=True, row_group_size=2)
    split = FileSplit(str(tmp_path / "a.parquet"))
    chunks = list(file_format("parquet").read(pafs.LocalFileSystem(), split, parse_schema("n long, t timestamp")))
    read = [row["t"] for table, _, _ in chunks for row in table.to_pylist()]
    assert read == TIMES
    assert not any(len(bad) for _, _, bad in chunks)


def test_a_time_in_a_list_that_wraps_is_an_error_of_the_file(tmp_path: Path) -> None:
    far = pa.array([0, 2**64 // 1000 + 1_714_543_200_000], pa.int64()).view(pa.timestamp("ms"))
    table = pa.table({"l": pa.ListArray.from_arrays([0, 1, 2], far)})
    pq.write_table(table, tmp_path / "a.parquet", use_deprecated_int96_timestamps=True)
    split = FileSplit(str(tmp_path / "a.parquet"))
    with pytest.raises(DataError, match="294,000"):
        list(file_format("parquet").read(pafs.LocalFileSystem(), split, parse_schema("l array<timestamp>")))


def test_a_time_beyond_64_bits_of_microseconds_is_a_bad_row(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    some = pa.table(
        {
            "t": pa.array(
                [dt.datetime(2024, 5, 1, tzinfo=dt.UTC), dt.datetime(2024, 5, 2, tzinfo=dt.UTC)],
                pa.timestamp("us", "UTC"),
            )
        }
    )
    options = {"use_dictionary": False, "compression": "none", "write_statistics": False}
    pq.write_table(some, path, use_deprecated_int96_timestamps=True, **options)
    data, day = path.read_bytes(), (dt.date(2024, 5, 2) - dt.date(1970, 1, 1)).days + 2_440_588
    stored = day.to_bytes(4, "little")
    assert data.count(stored) == 1
    for far in (day + 213_503_982, -(2**31), 2**31 - 1):  # the first wraps to the year 2024 in 64 bits
        path.write_bytes(data.replace(stored, (far % 2**32).to_bytes(4, "little")))
        (chunk,) = file_format("parquet").read(
            pafs.LocalFileSystem(), FileSplit(str(path)), parse_schema("t timestamp")
        )
        assert [row["t"].day for row in chunk[0].to_pylist()] == [1]
        assert chunk[2].rows.column("row").to_pylist() == [1]
