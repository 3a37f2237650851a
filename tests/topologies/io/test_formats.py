"""Event files: what is read is what was written, and what cannot be read is told, row by row."""

from __future__ import annotations

import datetime as dt
import gzip
import io
import json
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.ipc as ipc
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from tests.helpers.examples import examples, sampled
from tests.helpers.places import ROOT
from topologies.io.formats import (
    BadRows,
    CsvFormat,
    FileFormat,
    FileSplit,
    file_format,
    infer_schema,
    write_table,
)
from topologies.io.formats.json import JsonRows
from windbolt import spouts
from windowing.errors import ConfigError, DataError, MissingError, SchemaError
from windowing.schema import TIMESTAMP, parse_schema

UTC = dt.UTC
TEXT = ["csv", "jsonl"]
BINARY = ["parquet", "arrow"]


class Files:
    """A folder, written to and read from as the formats do."""

    def __init__(self, folder: Path) -> None:
        self.fs = pafs.LocalFileSystem()
        self.folder = folder

    def put(self, name: str, data: bytes) -> str:
        (self.folder / name).write_bytes(data)
        return str(self.folder / name)

    def table(self, table: pa.Table, kind: str, **options: Any) -> str:
        path = str(self.folder / f"table.{kind}")
        if kind == "parquet":
            pq.write_table(table, path, **options)
        elif kind == "stream":
            with pa.OSFile(path, "wb") as sink, ipc.new_stream(sink, table.schema) as stream:
                stream.write_table(table, **options)
        else:
            with pa.OSFile(path, "wb") as sink, ipc.new_file(sink, table.schema) as writer:
                writer.write_table(table, **options)
        return path

    def read(self, path: str, schema: str | pa.Schema, kind: str | FileFormat) -> tuple[pa.Table, list[int], list[Any]]:
        chosen = file_format(kind) if isinstance(kind, str) else kind
        declared = parse_schema(schema)
        tables, numbers, bad = [declared.empty_table()], [], []
        for split in chosen.split(self.fs, path, wanted=3):
            for table, places, wrong in chosen.read(self.fs, split, declared):
                assert table.schema == declared
                assert places.dtype == np.int64
                assert len(places) == table.num_rows
                table.validate(full=True)
                tables.append(table)
                numbers += places.tolist()
                bad += wrong.rows.to_pylist()
        return pa.concat_tables(tables), numbers, bad

    def csv(self, data: bytes, schema: str, **options: Any) -> tuple[list[Any], list[int], list[Any]]:
        table, numbers, bad = self.read(self.put("x.csv", data), schema, file_format("csv", **options))
        return table.to_pylist(), numbers, bad

    def jsonl(self, data: bytes, schema: str, **options: Any) -> tuple[list[Any], list[int], list[Any]]:
        table, numbers, bad = self.read(self.put("x.jsonl", data), schema, file_format("jsonl", **options))
        return table.to_pylist(), numbers, bad

    def one_column(self, kind: str, values: list[str], type_: str) -> tuple[list[Any], list[Any]]:
        """A column x of raw spellings, cells or JSON texts. In CSV a second one keeps the rows apart."""
        if kind == "csv":
            rows, _, bad = self.csv("".join(["x,y\n", *(f"{value},1\n" for value in values)]).encode(), f"x {type_}")
        else:
            rows, _, bad = self.jsonl("".join(f'{{"x":{value}}}\n' for value in values).encode(), f"x {type_}")
        return [row["x"] for row in rows], bad


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def column(values: pa.Array | pa.ChunkedArray) -> pa.Table:
    return pa.table({"x": values})


# columns, by name


@pytest.mark.parametrize("kind", [*BINARY, *TEXT])
def test_declared_columns_are_taken_by_name_in_declared_order_and_others_ignored(files: Files, kind: str) -> None:
    path = str(files.folder / "f")
    write_table(files.fs, path, pa.table({"a": [1, 2], "extra": ["x", "y"], "b": ["p", "q"]}), kind)
    table, numbers, bad = files.read(path, "b string, a long", kind)
    assert table.to_pydict() == {"b": ["p", "q"], "a": [1, 2]}
    assert (numbers, bad) == ([0, 1], [])


@pytest.mark.parametrize("kind", [*BINARY, "csv"])
def test_a_declared_column_that_is_absent_is_an_error_of_the_file(files: Files, kind: str) -> None:
    path = str(files.folder / "f")
    write_table(files.fs, path, pa.table({"a": [1]}), kind)
    with pytest.raises(DataError, match=r"has no column 'zz'.*columns are 'a'.*declare") as error:
        files.read(path, "a long, zz string", kind)
    assert path in str(error.value)


def test_a_name_that_no_json_line_gives_is_null(files: Files) -> None:
    assert files.jsonl(b'{"a":1}\n{}\n', "a long, b string")[0] == [
        {"a": 1, "b": None},
        {"a": None, "b": None},
    ]


@pytest.mark.parametrize("kind", BINARY)
def test_a_column_that_can_never_be_the_declared_type_is_an_error_of_the_file(files: Files, kind: str) -> None:
    path = files.table(pa.table({"x": [{"y": 1.0}], "n": [1.5]}), kind)
    with pytest.raises(DataError, match=r"'x' is struct.*declared as double") as error:
        files.read(path, "x double", kind)
    assert path in str(error.value)
    for impossible in ("n string", "n timestamp", "n boolean", "n decimal(10,2)", "n array<double>"):
        with pytest.raises(DataError, match="does not fit"):
            files.read(path, impossible, kind)


@pytest.mark.parametrize("kind", ["parquet", "arrow", "csv"])
def test_a_column_that_is_there_twice_is_refused_if_declared(files: Files, kind: str) -> None:
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2]), pa.array([3])], names=["a", "a", "b"])
    path = files.put("x.csv", b"a,a,b\n1,2,3\n") if kind == "csv" else files.table(twice, kind)
    with pytest.raises(DataError, match="'a' more than once"):
        files.read(path, "a long", kind)
    assert files.read(path, "b long", kind)[0].to_pydict() == {"b": [3]}


# files as a whole


@pytest.mark.parametrize("kind", BINARY)
def test_an_empty_binary_file_is_an_error_that_says_so(files: Files, kind: str) -> None:
    with pytest.raises(DataError, match="is empty"):
        files.read(files.put("f", b""), "a long", kind)


@pytest.mark.parametrize("kind", TEXT)
@pytest.mark.parametrize("data", [b"", b"\xef\xbb\xbf", b"\n\n", b"\r\n"])
def test_an_empty_text_file_has_no_rows(files: Files, kind: str, data: bytes) -> None:
    assert files.read(files.put("f", data), "a long", kind)[1:] == ([], [])


@pytest.mark.parametrize("header", [b"a,b", b"a,b\n", b"a,b\r\n\r\n"])
def test_a_csv_of_a_header_alone_has_no_rows(files: Files, header: bytes) -> None:
    assert files.csv(header, "a long, b string") == ([], [], [])


@pytest.mark.parametrize("kind", [*BINARY, *TEXT])
def test_a_file_without_rows_is_fine(files: Files, kind: str) -> None:
    path = str(files.folder / "f")
    write_table(files.fs, path, parse_schema("a long, s string").empty_table(), kind)
    assert files.read(path, "a long, s string", kind)[0].num_rows == 0


@pytest.mark.parametrize("kind", ["parquet", "arrow", "stream"])
def test_a_file_cut_anywhere_is_refused_and_named(files: Files, kind: str) -> None:
    whole = Path(files.table(column(pa.array(range(3000))), kind)).read_bytes()
    for cut in (1, 5, 8, 9, 100, len(whole) // 2, len(whole) - 9, len(whole) - 8, len(whole) - 1):
        path = files.put("cut", whole[:cut])
        with pytest.raises(DataError) as error:
            files.read(path, "x long", "parquet" if kind == "parquet" else "arrow")
        assert path in str(error.value)


def test_a_saved_stream_is_read_if_it_was_closed(files: Files) -> None:
    path = files.table(column(pa.array(range(10))), "stream", max_chunksize=4)
    assert files.read(path, "x long", "arrow")[1] == list(range(10))


def test_a_changed_byte_in_a_parquet_page_with_checksum_is_refused(files: Files) -> None:
    path = str(files.folder / "f")
    write_table(files.fs, path, column(pa.array(np.random.default_rng(1).integers(0, 1 << 60, 2000))), "parquet")
    data = bytearray(Path(path).read_bytes())
    data[5000] ^= 1
    with pytest.raises(DataError):
        files.read(files.put("f", bytes(data)), "x long", "parquet")


@pytest.mark.parametrize("kind", [*BINARY, *TEXT])
def test_a_file_that_is_not_there_is_an_error_that_names_it(files: Files, kind: str) -> None:
    with pytest.raises(MissingError, match="gone"):
        files.read(str(files.folder / "gone"), "x long", kind)


@pytest.mark.parametrize(("kind", "data"), [("csv", b"a,b\n" + b"1,2\n" * 9999), ("jsonl", b'{"a":1,"b":2}\n' * 9999)])
def test_gzip_is_known_by_its_suffix_and_a_cut_one_is_refused(files: Files, kind: str, data: bytes) -> None:
    packed = gzip.compress(data)
    assert len(files.read(files.put(f"x.{kind}.gz", packed), "a long, b int", kind)[1]) == 9999
    assert (
        len(files.read(files.put(f"x.{kind}.gz", gzip.compress(data) + gzip.compress(b"")), "a long", kind)[1]) == 9999
    )
    for cut in (3, 12, len(packed) // 2, len(packed) - 9, len(packed) - 8, len(packed) - 1):
        with pytest.raises(DataError, match=r"x\."):
            files.read(files.put(f"x.{kind}.gz", packed[:cut]), "a long", kind)
    with pytest.raises(DataError):
        files.read(files.put(f"x.{kind}.gz", packed[:-8] + b"\0\0\0\0" + packed[-4:]), "a long", kind)


COMPRESSED = {"gz": "gzip", "bz2": "bz2", "lz4": "lz4", "zst": "zstd", "zstd": "zstd", "ZST": "zstd"}


@pytest.mark.parametrize(("end", "codec"), COMPRESSED.items())
def test_each_compression_is_known_by_its_suffix(files: Files, end: str, codec: str) -> None:
    """A file may be several compressed ones behind each other; a part of one is refused, and so is what is none."""
    packed = {}
    for kind, data in {"csv": b"a,b\n" + b"1,2\n" * 999, "jsonl": b'{"a":1}\n' * 999, "text": b"x\n" * 999}.items():
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, codec) as stream:
            stream.write(data)
        packed[kind] = sink.getvalue().to_pybytes()
        twice = packed[kind] * 2 if kind != "csv" else packed[kind]
        path = files.put(f"x.{kind}.{end}", twice)
        rows = files.read(path, "line string" if kind == "text" else "a long", kind)[1]
        assert len(rows) == (999 if kind == "csv" else 1998)
        for wrong in (packed[kind][:-1], packed[kind][: len(packed[kind]) // 2], packed[kind] + b"rest of it", data):
            with pytest.raises(DataError, match=r"x\."):
                files.read(files.put(f"x.{kind}.{end}", wrong), "line string" if kind == "text" else "a long", kind)
    assert spouts.files(f"in/*.jsonl.{end}", "a long").format.name == "jsonl"


@pytest.mark.parametrize("end", [".gz", ".bz2", ".lz4", ".zst"])
def test_a_compressed_file_without_a_byte_was_cut(files: Files, end: str) -> None:
    path = files.folder / f"f.csv{end}"
    path.write_bytes(b"")
    with pytest.raises(DataError, match="a compressed file has at least a header"):
        files.read(str(path), parse_schema("a long"), "csv")


def test_a_compression_that_is_not_read_is_said(files: Files) -> None:
    with pytest.raises(DataError, match=r"files in \.xz are not read\. compress it in another way: \.gz, \.bz2"):
        files.read(files.put("x.jsonl.xz", b"\xfd7zXZ"), "a long", "jsonl")
    for name in ("in/*.csv.zip", "in/*.jsonl.Z", "x.jsonl.br"):
        with pytest.raises(ConfigError, match="are not read"):
            spouts.files(name, "a long", format="jsonl")


# parts


def test_parquet_is_split_by_row_groups_and_rows_keep_their_places(files: Files) -> None:
    path = files.table(column(pa.array(range(1000))), "parquet", row_group_size=90)
    reader = file_format("parquet")
    assert [len(reader.split(files.fs, path, wanted)) for wanted in (0, 1, 5, 12, 50)] == [1, 1, 5, 12, 12]
    sizes = []
    found: list[int] = []
    for split in reader.split(files.fs, path, 5):
        chunks = list(reader.read(files.fs, pickle.loads(pickle.dumps(split)), parse_schema("x long")))
        sizes.append(sum(table.num_rows for table, _, _ in chunks))
        for table, numbers, _ in chunks:
            assert table.column("x").to_pylist() == numbers.tolist()
            found += numbers.tolist()
    assert found == list(range(1000))
    assert max(sizes) - min(sizes) <= 91


@pytest.mark.parametrize("kind", ["csv", "jsonl", "arrow"])
def test_other_formats_are_one_piece(files: Files, kind: str) -> None:
    assert file_format(kind).split(files.fs, "p", 8) == [FileSplit("p")]


def test_a_piece_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ConfigError):
        FileSplit("p", part=2, parts=2)


# types of Arrow columns


@pytest.mark.parametrize("kind", BINARY)
@pytest.mark.parametrize(
    ("values", "declared", "expected", "bad"),
    [
        (pa.array([3.0, 3.7, None, float("nan"), 1e30]), "int", [3, None], [1, 3, 4]),
        (pa.array([1, 300, -129, None, -128]), "tinyint", [1, None, -128], [1, 2]),
        (pa.array([1, 2**64 - 1], pa.uint64()), "long", [1], [1]),
        (
            pa.array([1, 2**53, 2**53 + 1, 2**53 + 2, 2**63 - 1, -(2**63)]),
            "double",
            [1, 2**53, 2**53 + 2, -(2**63)],
            [2, 4],
        ),
        (pa.array([0.5, 0.1, float("inf"), 1e300, None]), "float", [0.5, float("inf"), None], [1, 3]),
        (pa.array([1, 10**9, 123]), "decimal(5, 2)", [Decimal("1.00"), Decimal("123.00")], [1]),
        (pa.array([Decimal("1.50"), Decimal("1.55")]), "decimal(5, 1)", [Decimal("1.5")], [1]),
        (pa.array([Decimal("2.00"), Decimal("1.55")]), "int", [2], [1]),
        (pa.array(["1", "x", " 2 ", "3.0", None]), "long", [1, 2, 3, None], [1]),
        (pa.array(["a", "b", None, "a"]).dictionary_encode(), "string", ["a", "b", None, "a"], []),
        (pa.array([7, 7, None, 300]).dictionary_encode(), "tinyint", [7, 7, None], [3]),
        (pa.array(["a", None], pa.large_string()), "string", ["a", None], []),
        (pa.array(["a", None], pa.string_view()), "string", ["a", None], []),
        (pa.array([b"a", b"\xff", None]), "string", ["a", None], [1]),
        (pa.array([b"ab", b"cd"], pa.binary(2)), "binary", [b"ab", b"cd"], []),
        (pa.array([1, 2], pa.int32()), "long", [1, 2], []),
        (pa.nulls(2), "double", [None, None], []),
        (pa.array([[1], [300], None, [1, None]]), "array<tinyint>", [[1], None, [1, None]], [1]),
        (pa.array([{"a": 1, "b": 2}, None, {"a": 300, "b": 1}]), "struct<a: tinyint>", [{"a": 1}, None], [2]),
        (
            pa.array([[("k", 1)], [("l", 300)], None], pa.map_(pa.string(), pa.int64())),
            "map<string, tinyint>",
            [[("k", 1)], None],
            [1],
        ),
        (pa.array([dt.date(2024, 1, 2), None]), "timestamp", [dt.datetime(2024, 1, 2, tzinfo=UTC), None], []),
    ],
)
def test_a_value_that_cannot_be_the_declared_type_is_bad_and_all_others_are_kept(
    files: Files, kind: str, values: pa.Array, declared: str, expected: list[Any], bad: list[int]
) -> None:
    table, numbers, wrong = files.read(files.table(column(values), kind), f"x {declared}", kind)
    assert table.column("x").to_pylist() == expected
    assert [row["row"] for row in wrong] == bad
    assert sorted(numbers + bad) == list(range(len(values)))
    assert all("column 'x'" in row["reason"] and row["data"].startswith('{"x": ') for row in wrong)


@pytest.mark.parametrize("kind", BINARY)
def test_text_that_is_not_utf8_is_bad_though_the_file_calls_it_text(files: Files, kind: str) -> None:
    values = pa.array([b"good", b"\xff\xfe", None]).view(pa.string())
    table, numbers, bad = files.read(files.table(column(values), kind), "x string", kind)
    assert table.column("x").to_pylist() == ["good", None]
    assert numbers == [0, 2]
    assert [(row["row"], "not valid UTF-8" in row["reason"]) for row in bad] == [(1, True)]


def test_a_reason_names_the_column_the_value_and_the_type(files: Files) -> None:
    _, _, bad = files.read(files.table(column(pa.array([3.7])), "parquet"), "x int", "parquet")
    assert bad == [
        {
            "row": 0,
            "reason": "column 'x': 3.7 cannot be read as int without changing it",
            "data": '{"x": 3.7}',
        }
    ]


def test_a_row_that_is_bad_in_two_columns_says_both(files: Files) -> None:
    (bad,) = files.csv(b"a,b,c\nx,y,1\n", "a int, b double, c int")[2]
    assert "'a': 'x'" in bad["reason"]
    assert "'b': 'y'" in bad["reason"]
    assert "'c'" not in bad["reason"]


def test_columns_of_the_right_type_are_handed_on_as_they_are(files: Files) -> None:
    raw = pa.table({"k": pa.array([1, 2], pa.int32()), "ts": pa.array([1, 2], TIMESTAMP), "v": [0.5, 1.5]})
    path = files.table(raw, "arrow")
    reader = file_format("arrow")
    with pa.memory_map(path) as source:
        address = ipc.open_file(source).get_batch(0).column(2).buffers()[1].size
    ((table, _, _),) = reader.read(files.fs, FileSplit(path), raw.schema)
    assert table.column("v").chunk(0).buffers()[1].size == address
    assert table.equals(raw)


# timestamps


@pytest.mark.parametrize("kind", BINARY)
@pytest.mark.parametrize(
    ("values", "expected", "bad"),
    [
        (pa.array([1, -1, None], pa.timestamp("s")), [1_000_000, -1_000_000, None], []),
        (pa.array([1, -1], pa.timestamp("ms", "Europe/Berlin")), [1000, -1000], []),
        (pa.array([1, 2], pa.timestamp("us", "America/New_York")), [1, 2], []),
        (pa.array([1, 2], pa.timestamp("us")), [1, 2], []),
        (pa.array([1500, 999, -1, -1000, -1001, None], pa.timestamp("ns")), [1, 0, -1, -1, -2, None], []),
        (pa.array([5, 2**62, None], pa.timestamp("ms")), [5000, None], [1]),
        (pa.array([5, None, 2**62]), [5000, None], [2]),
        (pa.array(["1970-01-01", "nope", "1970-01-01T00:00:00.000001Z"]), [0, 1], [1]),
    ],
)
def test_arrow_times_of_any_unit_and_zone_become_utc_microseconds(
    files: Files, kind: str, values: pa.Array, expected: list[int | None], bad: list[int]
) -> None:
    table, _, wrong = files.read(files.table(column(values), kind), "x timestamp", kind)
    assert table.column("x").cast(pa.int64()).to_pylist() == expected
    assert [row["row"] for row in wrong] == bad


GOOD_TIMES = {
    "1970-01-01": 0,
    "1970-01-01 00:00": 0,
    "1970-01-01T00:00:01": 1_000_000,
    "1970-01-01T00:00:00.5": 500_000,
    "1970-01-01T00:00:00.000001Z": 1,
    "1970-01-01 00:00:00.0000019Z": 1,
    "1969-12-31T23:59:59.999999999": -1,
    "1970-01-01T02:00:00+02:00": 0,
    "1970-01-01T02:00:00.000000999+0200": 0,
    "1970-01-01 02:00:00+02": 0,
    "1969-12-31T22:30:00-01:30": 0,
    "  1970-01-01T00:00:00Z ": 0,
    "0001-01-01T00:00:00Z": -62135596800000000,
    "9999-12-31T23:59:59.999999Z": 253402300799999999,
}
BAD_TIMES = [
    "yesterday",
    "1970-02-30",
    "1970-01-01T25:00:00",
    "1970-01-01T00:00:00+99:00",
    "12.5",
    "70-1-1",
]
BAD_TIMES += ["99999999999999999999", "9223372036854775807", "1970-01-01T00:00:00.Z", "NaN"]


@pytest.mark.parametrize("kind", TEXT)
@pytest.mark.parametrize("order", [1, -1])
def test_iso_8601_and_milliseconds_may_stand_side_by_side(files: Files, kind: str, order: int) -> None:
    quote: Callable[[str], str] = json.dumps if kind == "jsonl" else str
    spelled = {
        **{quote(text): value for text, value in GOOD_TIMES.items()},
        "1500": 1_500_000,
        "-1": -1000,
        "1e3": 1_000_000,
    }
    pairs = list(spelled.items())[::order] * 5
    values, bad = files.one_column(kind, [text for text, _ in pairs], "timestamp")
    assert bad == []
    assert pa.array(values, TIMESTAMP).cast(pa.int64()).to_pylist() == [value for _, value in pairs]


@pytest.mark.parametrize("kind", TEXT)
def test_each_time_means_the_same_alone_as_among_others(files: Files, kind: str) -> None:
    quote: Callable[[str], str] = json.dumps if kind == "jsonl" else str
    for text, expected in GOOD_TIMES.items():
        values, bad = files.one_column(kind, [quote(text)] * 40, "timestamp")
        assert not bad
        assert set(pa.array(values, TIMESTAMP).cast(pa.int64()).to_pylist()) == {expected}


@pytest.mark.parametrize("kind", TEXT)
def test_what_is_no_time_is_bad_and_named(files: Files, kind: str) -> None:
    quote: Callable[[str], str] = json.dumps if kind == "jsonl" else str
    spelled = [quote(text) for text in BAD_TIMES]
    values, bad = files.one_column(kind, [*spelled, "0"], "timestamp")
    assert len(values) == 1
    assert [row["row"] for row in bad] == list(range(len(BAD_TIMES)))
    assert all(text in row["reason"] and "timestamp" in row["reason"] for text, row in zip(BAD_TIMES, bad, strict=True))


# values as text


@pytest.mark.parametrize("kind", TEXT)
@pytest.mark.parametrize("repeat", [1, 50])
@pytest.mark.parametrize(
    ("declared", "good", "bad"),
    [
        (
            "int",
            {"3": 3, "3.0": 3, "1e2": 100, "-0": 0, "2147483647": 2**31 - 1},
            ["3.7", "2147483648", "1e-1", "1e400"],
        ),
        ("long", {"9007199254740993": 2**53 + 1, "9007199254740993.0": 2**53 + 1}, ["9223372036854775808"]),
        ("double", {"3": 3.0, "0.1": 0.1, "1e300": 1e300, "-0.0": 0.0}, ["1e400", "-1.8e308"]),
        ("float", {"0.1": float(np.float32(0.1)), "16777216": 16777216.0}, ["1e39"]),
        ("boolean", {"true": True, "false": False}, ["5", "2.0"]),
        (
            "decimal(5, 2)",
            {"1.1": Decimal("1.10"), "1": Decimal(1), "1.100": Decimal("1.1")},
            ["1.105", "1000"],
        ),
    ],
)
def test_numbers_are_read_exactly_or_not_at_all(
    files: Files, kind: str, repeat: int, declared: str, good: dict[str, Any], bad: list[str]
) -> None:
    values, wrong = files.one_column(kind, [*good, *bad] * repeat, declared)
    assert values == list(good.values()) * repeat
    assert len(wrong) == len(bad) * repeat
    assert all(text in row["reason"] for text, row in zip(bad, wrong, strict=False))


@pytest.mark.parametrize("kind", TEXT)
def test_not_a_number_and_infinity_can_be_spelled(files: Files, kind: str) -> None:
    spelled = ["NaN", "Infinity", "-Infinity"]
    both = spelled if kind == "csv" else [*spelled, *(f'"{text}"' for text in spelled)]
    values, bad = files.one_column(kind, both * 20, "double")
    assert not bad
    assert [str(value) for value in values] == ["nan", "inf", "-inf"] * (len(both) // 3) * 20


@pytest.mark.parametrize("kind", ["long", "int", "tinyint", "timestamp"])
def test_a_json_number_that_is_only_nearly_whole_is_bad(files: Files, kind: str) -> None:
    """As a double each of them is 3, and Arrow reads whole numbers such as 3.0 as doubles."""
    nearly = ["3.0000000000000000001", "2.9999999999999999999", "30000000000000000001e-19", "0.30000000000000000001E1"]
    whole = ["3.00000000000000000000", "0.300000000000000000E1", "3.0", "30e-1"]
    values, bad = files.one_column("jsonl", ["1.0"] * 80 + nearly + whole, kind)
    assert values == values[:1] * 80 + values[-1:] * 4
    assert values[0] != values[-1]
    assert [number for number in nearly if any(number in str(each) for each in bad)] == nearly
    assert len(bad) == len(nearly)


@pytest.mark.parametrize(
    "spelled",
    ['"ab":', '"ab" : ', '"ab"  :\t\t ', '"\\u0061b":', '"a\\u0062":', '"\\u0061\\u0062"  :', '"text":"\\\\","ab":'],
)
def test_a_json_number_that_is_only_nearly_whole_is_bad_however_its_name_is_written(files: Files, spelled: str) -> None:
    lines = ['{"d":0.12345678901234567,"ab":3.0}'] * 80
    lines.insert(50, f'{{"d":3.0000000000000000001,{spelled}3.0000000000000000001}}')
    rows, numbers, bad = files.jsonl("\n".join(lines).encode(), "ab long, d double")
    assert [row["ab"] for row in rows] == [3] * 80
    assert 50 not in list(numbers)
    assert len(bad) == 1


def test_json_text_is_no_number_and_a_json_number_no_text(files: Files) -> None:
    values, bad = files.one_column("jsonl", ['"5"', "5", "true", "null", '{"a":1}', "[1]"], "string")
    assert values == ["5", None]
    assert len(bad) == 4
    assert files.one_column("jsonl", ["5", '"5"', '"x"', "true"], "int")[0] == [5, 5]
    assert files.one_column("jsonl", ["5", '"true"', "true"], "boolean")[0] == [True]
    assert files.one_column("jsonl", ["5", '"2024-01-01"'] * 40, "date")[0] == [dt.date(2024, 1, 1)] * 40


def test_binary_is_base64_in_text_files(files: Files) -> None:
    assert files.one_column("csv", ["/wA=", "?", ""], "binary")[0] == [b"\xff\0", None]
    assert files.one_column("jsonl", ['"/wA="', '"?"', '""', "5"] * 20, "binary")[0] == [b"\xff\0", b""] * 20


@pytest.mark.parametrize("kind", TEXT)
@pytest.mark.parametrize("declared", ["int", "double", "boolean", "date", "decimal(9, 2)", "timestamp"])
def test_a_values_fate_does_not_depend_on_its_neighbours(files: Files, kind: str, declared: str) -> None:
    quote: Callable[[str], str] = json.dumps if kind == "jsonl" else str
    spellings = [
        "1",
        "-1",
        "+1",
        " 1 ",
        "0x1F",
        "1.0",
        "1.",
        ".0",
        "1e2",
        "1.5e1",
        "15e-1",
        "nan",
        "-nan",
        "nan(1)",
    ]
    spellings += [
        "NaN",
        "iNF",
        "infinit",
        "true",
        "TRUE",
        " true",
        "yes",
        "2024-01-01",
        "2024-01-01 10:00",
        "e",
        ".",
    ]
    spellings += [
        "-0001-01-01",
        "2024-01-01T10Z",
        "2024-01-01Z",
        "\u00a01",
        "\v1",
        "1_0",
        "--1",
        "1e",
        "0x",
        "9" * 50,
    ]
    alone = {text: files.one_column(kind, [quote(text)] * 40, declared) for text in spellings}
    values, bad = files.one_column(kind, [quote(text) for text in spellings * 3], declared)
    assert [repr(value) for value in values] == [repr(alone[text][0][0]) for text in spellings * 3 if alone[text][0]]
    assert len(bad) == 3 * sum(bool(wrong) for _, wrong in alone.values())


# CSV


def test_csv_tells_nothing_from_empty_text(files: Files) -> None:
    rows, _, bad = files.csv(b'a,b,c\n,"",x\n"","",""\n5,,\n', "a int, b string, c string")
    assert bad == []
    assert [tuple(row.values()) for row in rows] == [(None, "", "x"), (None, "", ""), (5, None, None)]


def test_csv_spellings_of_null_and_delimiter_are_options(files: Files) -> None:
    rows, _, bad = files.csv(b'a;b\nNA;NA\n1;"NA"\n-;\n', "a int, b string", delimiter=";", null_values=["NA", "-"])
    assert bad == []
    assert [tuple(row.values()) for row in rows] == [(None, None), (1, "NA"), (None, None)]


@pytest.mark.parametrize(
    "data", [b"\xef\xbb\xbfa,b\n1,2\n3,4", b"a,b\r\n1,2\r\n\r\n3,4\r\n", b"\n\na,b\n\n1,2\n3,4\n\n"]
)
def test_csv_byte_order_mark_crlf_blank_lines_and_a_missing_last_line_end(files: Files, data: bytes) -> None:
    assert files.csv(data, "a int, b int") == ([{"a": 1, "b": 2}, {"a": 3, "b": 4}], [0, 1], [])


def test_csv_of_one_column_has_nulls_in_its_blank_lines(files: Files) -> None:
    assert [row["a"] for row in files.csv(b"a\n1\n\n2", "a int")[0]] == [1, None, 2]


def test_csv_quoted_values_hold_line_ends_delimiters_and_quotes(files: Files) -> None:
    rows, numbers, bad = files.csv(b'a,b\n"x\ny",1\n"p,""q""\r\n",2\nz,3\n', "a string, b int")
    assert [row["a"] for row in rows] == ["x\ny", 'p,"q"\r\n', "z"]
    assert (numbers, bad) == ([0, 1, 2], [])


def test_csv_rows_with_too_many_or_too_few_values_are_bad(files: Files) -> None:
    rows, numbers, bad = files.csv(b"a,b\n1,2\n3\n\n4,5,6\n7,8\n", "a int, b int")
    assert [row["a"] for row in rows] == [1, 7]
    assert numbers == [0, 3]
    assert [(row["row"], row["data"]) for row in bad] == [(1, "3"), (2, "4,5,6")]
    assert "1 values where the header has 2" in bad[0]["reason"]


def test_csv_rows_that_are_not_utf8_are_bad_even_if_they_are_also_too_long(files: Files) -> None:
    data = b"a,b\n\xc3\xa4,1\nx\xff,2\ny\xff,3,4\nz,\xf0\x28\n\xf0\x9f\x98\x80,5\n"
    rows, numbers, bad = files.csv(data, "a string, b int", block_size=1024)
    assert [row["a"] for row in rows] == ["ä", "😀"]
    assert numbers == [0, 4]
    assert [row["row"] for row in bad] == [1, 2, 3]
    assert "UTF-8" in bad[0]["reason"]
    assert "\\xff" in bad[0]["data"]


def test_csv_a_quote_that_is_never_closed_is_told(files: Files) -> None:
    rows, numbers, bad = files.csv(b'a,b\n1,x\n2,"open\n3,y\n', "a int, b string")
    assert (rows, numbers) == ([{"a": 1, "b": "x"}], [0])
    assert [(row["row"], "never closed" in row["reason"]) for row in bad] == [(1, True)]
    rows, numbers, bad = files.csv(b'a,b\n1,x\n"open\n3,y\n', "a int, b string")
    assert (numbers, [row["row"] for row in bad]) == ([0], [1])
    assert bad[0]["data"] == '"open\n3,y'


def test_csv_a_row_longer_than_the_longest_is_an_error_of_the_file(files: Files) -> None:
    with pytest.raises(DataError, match=r"more than 8,000 bytes.*begins with '1,xxx"):
        files.csv(b"a,b\n1," + b"x" * 9000 + b"\n", "a int, b string", block_size=1024, longest_row=8000)
    assert files.csv(b"a,b\n1," + b"x" * 9000 + b"\n", "a int, b string", block_size=1024)[1] == [0]


@pytest.mark.parametrize("block_size", [1024, 1 << 20])
def test_csv_rows_keep_their_places_over_many_blocks(files: Files, block_size: int) -> None:
    lines = [f"{at}" if at % 7 == 0 else f"x{at},1" if at % 11 == 0 else f'{at},"é\n"' for at in range(3000)]
    rows, numbers, bad = files.csv("\n".join(["a,b", *lines]).encode(), "a int", block_size=block_size)
    assert [row["a"] for row in rows] == numbers == [at for at in range(3000) if at % 7 and at % 11]
    assert sorted(numbers + [row["row"] for row in bad]) == list(range(3000))
    assert all(lines[row["row"]].split(",")[0] in row["data"] for row in bad)


# JSON lines


BROKEN_LINES = [
    b"null", b"5", b'"text"', b"[1]", b"[]", b"true", b"{", b"}", b"{}{}", b'{"a":1}{"a":2}', b'{"a":1} null',
    b'{"a":1}null{"a":2}', b'{"a":1,"a":2}', b'{"a":1,}', b"{'a':1}", b'{"a":01}', b'{"a":}', b'{"a":1}x',
    b'{"a":"\xff"}',     b'{"b\xff":1}', b'{"a":\r1} x', b"garbage", b"\x00", b'{"a":"\\ud800"}', b"[" * 5000,
    b"{" * 10, b'{"a":tru}',
]  # fmt: skip


def test_jsonl_lines_that_are_not_one_object_are_bad(files: Files) -> None:
    lines = [line for bad in BROKEN_LINES for line in (bad, *[b'{"a":7}'] * 40)]
    rows, numbers, bad = files.jsonl(b"\n".join(lines), "a long")
    assert [row["row"] for row in bad] == list(range(0, len(lines), 41))
    assert len(rows) == len(BROKEN_LINES) * 40
    assert sorted(numbers + [row["row"] for row in bad]) == list(range(len(lines)))


def test_jsonl_a_line_that_would_end_the_process_does_not(files: Files) -> None:
    script = (
        "import sys, pyarrow.fs as f; from topologies.io.formats import file_format, FileSplit;"
        "from windowing.schema import parse_schema;"
        "print(sum(len(b) for _, _, b in file_format('jsonl').read(f.LocalFileSystem(),"
        " FileSplit(sys.argv[1]), parse_schema('a long'))))"
    )
    path = files.put("null.jsonl", b"null\n" * 100)
    done = subprocess.run(
        [sys.executable, "-c", script, path],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert (done.returncode, done.stdout.strip()) == (0, "100")


def test_a_text_without_an_end_is_told_with_the_place_where_it_begins(files: Files) -> None:
    _, _, bad = files.jsonl(b'{"a": "x}\n', "a string")
    assert bad[0]["reason"] == "not valid JSON: Unterminated string at character 7"


def test_jsonl_an_object_over_several_lines_is_not_put_together(files: Files) -> None:
    rows, _, bad = files.jsonl(b'{"a":1}{"a":2}\n{"a":\n3}\n', "a long")
    assert rows == []
    assert [row["row"] for row in bad] == [0, 1, 2]


@pytest.mark.parametrize("ending", [b"", b"\n", b"\r\n"])
def test_jsonl_byte_order_mark_crlf_blank_lines_and_a_missing_last_line_end(files: Files, ending: bytes) -> None:
    data = b'\xef\xbb\xbf{"a":1}\r\n\r\n  \n{"a":2}' + ending
    assert files.jsonl(data, "a int") == ([{"a": 1}, {"a": 2}], [0, 1], [])


def test_jsonl_white_space_around_and_within_does_not_matter(files: Files) -> None:
    line = b'  { "a" : 1 , "s" : { "x" : "}" } }  '
    rows, _, bad = files.jsonl(b"\n".join([line] * 50), "a int, s struct<x: string>")
    assert (rows, bad) == ([{"a": 1, "s": {"x": "}"}}] * 50, [])


def test_jsonl_a_name_given_twice_is_bad_only_where_it_is_declared(files: Files) -> None:
    data = b'{"a":1,"z":1,"z":2}\n{"a":1,"a":1}\n'
    rows, _, bad = files.jsonl(data, "a int")
    assert rows == [{"a": 1}]
    assert "more than once" in bad[0]["reason"]


@pytest.mark.parametrize("block_size", [1, 100, 1 << 20])
def test_jsonl_may_be_cut_into_any_blocks(files: Files, block_size: int) -> None:
    lines = [json.dumps({"a": at, "s": "é" * (at % 5)}, ensure_ascii=False) if at % 9 else "?" for at in range(500)]
    rows, numbers, bad = files.jsonl("\n".join(lines).encode(), "a int, s string", block_size=block_size)
    assert [row["a"] for row in rows] == numbers == [at for at in range(500) if at % 9]
    assert [row["row"] for row in bad] == [at for at in range(500) if at % 9 == 0]


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=4)
    | st.sampled_from([3.0, 1e20]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abxyz"), inner, max_size=3),
    max_leaves=4,
)
json_lines = st.dictionaries(st.sampled_from(["a", "b", "t", "s", "l", "q"]), json_values, max_size=5).map(json.dumps)


@examples(150)
@given(st.lists(json_lines, min_size=1, max_size=8), st.sampled_from([1, 5]))
def test_jsonl_the_fast_and_the_slow_way_agree(lines: list[str], repeat: int) -> None:
    schema = parse_schema("a long, b double, t timestamp, s string, l array<int>, q struct<x: float, y: boolean>")
    rows = [line.encode() for line in lines * repeat * 8]
    numbers = np.arange(len(rows))
    fast, fast_numbers, fast_bad = JsonRows(rows, schema, numbers).chunk()
    slowly = JsonRows(rows, schema, numbers)
    slowly._decode = lambda: list(range(len(rows)))  # type: ignore[method-assign]
    slow, slow_numbers, slow_bad = slowly.chunk()
    assert fast_numbers.tolist() == slow_numbers.tolist()
    assert fast_bad.rows.equals(slow_bad.rows)
    assert str(fast.to_pylist()) == str(slow.to_pylist())


# a file in which much is wrong


def mixed_csv(line: int) -> bytes:
    return [b"not a number,a,1.5,2024-01-01", b"1,a,1.5", b"1,a,1.5,2024-01-01,more", b"1,a,wide,2024-01-01",
            b"1,a,1.5,someday", b"99999999999,a,1,0", b"1,\xff,1.5,0", b"3.7,a,1,0"][line % 8]  # fmt: skip


def mixed_jsonl(line: int) -> bytes:
    return [b'{"k":"no number","s":"a","v":1.5,"ts":0}', b"null", b'{"k":1', b'{"k":1,"s":5}',
            b'{"k":3.7}', b'{"k":99999999999}', b'{"s":"\xff"}',
            b'{"ts":"someday"}', b'{"v":1e999}', b'{"k":1}{"k":2}'][line % 10]  # fmt: skip


def good_csv(line: int) -> bytes:
    return f"{line},name {line},{line / 8},{'2024-01-01T00:00:00Z' if line % 3 else 1704067200000}".encode()


def good_jsonl(line: int) -> bytes:
    time = "2024-01-01 00:00:00" if line % 3 else 1704067200000
    return json.dumps({"k": line, "s": f"name {line}", "v": line / 8, "ts": time}).encode()


@pytest.mark.parametrize("kind", TEXT)
@pytest.mark.parametrize("block_size", sampled([2048, 4 << 20], 2))
def test_two_hundred_malformed_lines_cost_two_hundred_rows(files: Files, kind: str, block_size: int) -> None:
    total = 10_000
    wrong = set(np.random.default_rng(7).choice(total, 200, replace=False).tolist())
    make_bad, make_good = (mixed_csv, good_csv) if kind == "csv" else (mixed_jsonl, good_jsonl)
    lines = [make_bad(at) if at in wrong else make_good(at) for at in range(total)]
    head = [b"k,s,v,ts"] if kind == "csv" else []
    path = files.put(f"x.{kind}", b"\n".join([*head, *lines]))
    chosen = file_format(kind, block_size=block_size)
    table, numbers, bad = files.read(path, "k int, s string, v double, ts timestamp", chosen)
    assert table.num_rows + len(bad) == total
    assert {row["row"] for row in bad} == wrong
    assert all(row["reason"] and row["data"] for row in bad)
    assert table.column("k").to_pylist() == numbers == [at for at in range(total) if at not in wrong]
    assert table.column("s").to_pylist() == [f"name {at}" for at in numbers]
    assert table.column("v").to_pylist() == [at / 8 for at in numbers]
    assert set(table.column("ts").cast(pa.int64()).to_pylist()) == {1704067200000000}


def test_what_is_kept_of_a_bad_row_is_cut(files: Files) -> None:
    _, _, bad = files.jsonl(b'{"a":"' + b"x" * 50_000 + b'"}\n', "a int")
    assert len(bad[0]["data"]) == 10_000
    assert len(bad[0]["reason"]) < 400


# writing


COLUMNS: dict[str, tuple[str, st.SearchStrategy[Any]]] = {
    "s": ("string", st.text(st.characters(codec="utf-8"), max_size=6)),
    "i": ("int", st.integers(-(2**31), 2**31 - 1)),
    "l": ("long", st.integers(-(2**63), 2**63 - 1)),
    "d": ("double", st.floats()),
    "f": ("float", st.floats(width=32)),
    "b": ("boolean", st.booleans()),
    "t": ("timestamp", st.datetimes(timezones=st.just(UTC))),
    "n": ("decimal(12, 3)", st.decimals(-999999999, 999999999, places=3, allow_nan=False)),
    "x": ("binary", st.binary(max_size=5)),
    "day": ("date", st.dates()),
    "a": ("array<double>", st.lists(st.none() | st.floats(), max_size=3)),
    "m": (
        "map<string, date>",
        st.lists(st.tuples(st.text(st.characters(codec="utf-8"), max_size=2), st.dates()), max_size=3),
    ),
    "k": ("map<int, string>", st.lists(st.tuples(st.integers(0, 9), st.text("ab", max_size=2)), max_size=3)),
    "q": (
        "struct<p: string, b: binary>",
        st.fixed_dictionaries({"p": st.none() | st.text("a\"\n", max_size=3), "b": st.binary(max_size=2)}),
    ),
}  # fmt: skip


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    names = draw(st.lists(st.sampled_from(list(COLUMNS)), min_size=1, max_size=5, unique=True))
    schema = parse_schema(", ".join(f"{name} {COLUMNS[name][0]}" for name in names))
    row = st.fixed_dictionaries({name: st.none() | COLUMNS[name][1] for name in names})
    rows = draw(st.lists(row, max_size=6))
    return pa.Table.from_pylist(rows * draw(st.sampled_from([1, 9])), schema)


@pytest.mark.parametrize("kind", ["parquet", "arrow", "csv", "jsonl"])
@examples(120, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(table=tables())
def test_what_is_written_is_read_back_equal(files: Files, kind: str, table: pa.Table) -> None:
    path = str(files.folder / f"f.{kind}")
    write_table(files.fs, path, table, kind)
    back, numbers, bad = files.read(path, table.schema, kind)
    assert bad == []
    assert numbers == list(range(table.num_rows))
    assert list(map(repr, back.to_pylist())) == list(map(repr, table.to_pylist()))


@pytest.mark.parametrize("kind", TEXT)
def test_text_is_compressed_by_its_name_and_written_with_the_formats_options(files: Files, kind: str) -> None:
    table = pa.table({"a": [1, 2], "s": ["x;,", None]})
    path = str(files.folder / f"f.{kind}.gz")
    chosen = CsvFormat(delimiter=";") if kind == "csv" else file_format("json")
    write_table(files.fs, path, table, chosen)
    assert Path(path).read_bytes()[:2] == b"\x1f\x8b"
    assert files.read(path, table.schema, chosen)[0].equals(table)


def test_jsonl_is_written_as_people_expect_it(files: Files) -> None:
    path = str(files.folder / "f.jsonl")
    table = pa.table(
        {
            "t": pa.array([0], TIMESTAMP),
            "n": [Decimal("1.10")],
            "x": [b"\xff"],
            "d": [float("nan")],
            's"': ['a"b\\\n'],
            "k": pa.array(["u"]).dictionary_encode(),
            "z": pa.nulls(1),
        }
    )
    write_table(files.fs, path, table, "jsonl")
    assert json.loads(Path(path).read_text()) == {
        "t": "1970-01-01T00:00:00.000000Z",
        "n": "1.10",
        "x": "/w==",
        "d": "NaN",
        's"': 'a"b\\\n',
        "k": "u",
        "z": None,
    }


@pytest.mark.parametrize("kind", TEXT)
def test_times_that_text_cannot_hold_are_refused_when_written(files: Files, kind: str) -> None:
    with pytest.raises(SchemaError, match="cannot be written"):
        write_table(files.fs, str(files.folder / "f"), column(pa.array([2**62], TIMESTAMP)), kind)


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_values_in_a_column_that_text_cannot_hold_are_refused_when_written(files: Files, kind: str) -> None:
    at = pa.array([{"at": dt.time(12, 30)}], pa.struct([("at", pa.time64("us"))]))
    with pytest.raises(SchemaError, match="a time within a column cannot be written as text"):
        write_table(files.fs, str(files.folder / "f"), column(at), kind)


# names and options


def test_formats_are_chosen_by_name_and_can_travel() -> None:
    for name in ("parquet", "csv", "jsonl", "json", "arrow", "orc", "text"):
        chosen = file_format(name)
        assert pickle.loads(pickle.dumps(chosen)) == chosen
    assert repr(file_format("csv", delimiter=";")).startswith("CsvFormat(delimiter=';'")
    assert file_format("json") != file_format("jsonl")


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("orc", {"delimiter": ";"}),
        ("avro", {}),
        ("csv", {"delimeter": ";"}),
        ("arrow", {"delimiter": ";"}),
        ("csv", {"delimiter": ";;"}),
        ("csv", {"delimiter": '"'}),
        ("csv", {"null_values": "NA"}),
        ("csv", {"block_size": 0}),
        ("csv", {"quote": ""}),
        ("csv", {"escape": '"'}),
        ("csv", {"comment": "##"}),
        ("csv", {"skip_rows": -1}),
        ("csv", {"encoding": "klingon"}),
        ("csv", {"encoding": "base64"}),
        ("jsonl", {"block_size": 0}),
        ("text", {"block_size": 0}),
        ("text", {"longest_row": 0}),
        ("text", {"encoding": "klingon"}),
        ("text", {"keep_line_ends": "yes"}),
        ("text", {"delimiter": ";"}),
    ],
)
def test_unknown_formats_and_options_are_refused(name: str, options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        file_format(name, **options)


@pytest.mark.parametrize("kind", BINARY)
def test_the_columns_of_a_binary_file_can_be_asked_for(files: Files, kind: str) -> None:
    raw = pa.table(
        {
            "s": pa.array(["a"]).dictionary_encode(),
            "t": pa.array([1], pa.timestamp("ms")),
            "u": pa.array([1], pa.uint32()),
        }
    )
    path = files.table(raw, kind)
    schema = infer_schema(files.fs, path)
    assert schema == parse_schema("s string, t timestamp, u long")
    assert files.read(path, schema, kind)[0].num_rows == 1


def test_the_columns_of_a_text_file_must_be_declared(files: Files) -> None:
    with pytest.raises(ConfigError, match="must be declared"):
        infer_schema(files.fs, files.put("x.csv", b"a\n1\n"))


def test_bad_rows_have_their_columns_even_when_there_are_none() -> None:
    assert BadRows.of(()).rows.schema == pa.schema(
        [("row", pa.int64()), ("reason", pa.string()), ("data", pa.string())]
    )


def test_large_files_are_read_in_chunks(files: Files) -> None:
    big = io.BytesIO()
    big.write(b"a,b\n")
    big.write(b"123,4567\n" * 200_000)
    path = files.put("x.csv", big.getvalue())

    def sizes() -> Iterator[int]:
        for table, _, _ in file_format("csv", block_size=100_000).read(
            files.fs, FileSplit(path), parse_schema("a int")
        ):
            yield table.num_rows

    assert max(sizes()) < 20_000
