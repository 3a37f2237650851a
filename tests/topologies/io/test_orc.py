"""ORC files: what is read is what was written, and a time that Arrow cannot read is refused, never another one."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pytest
from pyarrow import orc

from tests.topologies.io.test_partition_columns import read
from topologies.io.formats import FileSplit, file_format, infer_schema
from topologies.io.formats import columnar as reader
from topologies.io.paths import locate
from windbolt import spouts
from windowing.errors import DataError
from windowing.schema import format_schema, parse_schema

UTC = dt.UTC
MOMENT = dt.datetime(2024, 5, 1, 6, 0, 0, 123_456, tzinfo=UTC)
VALUES: dict[str, list[Any]] = {
    "a string": ["x", "", "é\0", None],
    "b binary": [b"\xff", b"", None, b"x"],
    "c boolean": [True, False, None, True],
    "d tinyint": [-128, 127, None, 0],
    "e smallint": [-(2**15), 2**15 - 1, None, 0],
    "f int": [-(2**31), 2**31 - 1, None, 0],
    "g long": [-(2**63), 2**63 - 1, None, 0],
    "h float": [1.5, float("inf"), None, -0.0],
    "i double": [0.1, float("-inf"), None, 5e-324],
    "j date": [dt.date(1, 1, 1), dt.date(9999, 12, 31), None, dt.date(1970, 1, 1)],
    "k timestamp": [MOMENT, dt.datetime(1678, 1, 1, tzinfo=UTC), None, dt.datetime(2262, 1, 1, tzinfo=UTC)],
    "l decimal(38, 3)": [Decimal("-12345678901234567890123456789012345.678"), Decimal("0.001"), None, Decimal(0)],
    "m array<long>": [[1, None], [], None, [2]],
    "n map<string, double>": [[("a", 1.5)], [], None, [("b", None)]],
    "o struct<p: string, q: array<date>>": [
        {"p": "x", "q": [dt.date(1, 1, 1)]},
        {"p": None, "q": None},
        None,
        {"p": "", "q": []},
    ],
}


WRAPS = reader._arrow_wraps_times()
"""True with a version of Arrow whose times of ORC are not read."""
REFUSES_TIMES = "would change those of some years"


def rows_of(path: Path, schema: str | pa.Schema, **asked: Any) -> tuple[list[Any], list[int], list[Any]]:
    filesystem, inside, _ = locate(str(path))
    rows, numbers, bad = list[Any](), list[int](), list[Any]()
    for table, places, wrong in file_format("orc").read(filesystem, FileSplit(inside), parse_schema(schema), **asked):
        rows += table.to_pylist()
        numbers += places.tolist()
        bad += wrong.rows.to_pylist()
    return rows, numbers, bad


def written(path: Path, columns: dict[str, Any], **options: Any) -> Path:
    orc.write_table(pa.table(columns), str(path), **options)
    return path


def test_values_of_all_types_are_read_as_they_were_written(tmp_path: Path) -> None:
    given = {name: values for name, values in VALUES.items() if not (WRAPS and "timestamp" in name)}
    schema = parse_schema(", ".join(given))
    columns = {
        name.split(" ")[0]: pa.array(values, schema.field(number).type)
        for number, (name, values) in enumerate(given.items())
    }
    path = written(tmp_path / "a.orc", columns)
    expected = [dict(zip(columns, row, strict=True)) for row in zip(*given.values(), strict=True)]
    assert rows_of(path, schema) == (expected, [0, 1, 2, 3], [])
    assert format_schema(infer_schema(pafs.LocalFileSystem(), str(path))) == format_schema(schema)
    assert rows_of(path, "g long, a string")[0] == [{"g": row["g"], "a": row["a"]} for row in expected]
    assert rows_of(path, "a string, z int", optional=["z"])[0] == [{"a": row["a"], "z": None} for row in expected]
    with pytest.raises(DataError, match=r"has no column 'z'. its columns are 'a', 'b'"):
        rows_of(path, "a string, z int")
    with pytest.raises(DataError, match="'g' is int64, declared as string"):
        rows_of(path, "g string")
    rows, numbers, bad = rows_of(path, "g int")
    assert (rows, numbers, [row["row"] for row in bad]) == ([{"g": None}, {"g": 0}], [2, 3], [0, 1])


def test_a_dot_in_a_name_is_no_path(tmp_path: Path) -> None:
    path = written(tmp_path / "a.orc", {"a.b": [1], "a": [{"b": 2}], "é": [3]})
    assert rows_of(path, "`a.b` long, `é` long")[0] == [{"a.b": 1, "é": 3}]


def test_rows_are_numbered_over_stripes(tmp_path: Path) -> None:
    ids = list(range(200_000))
    path = written(
        tmp_path / "a.orc", {"id": ids, "s": [str(each) for each in ids]}, stripe_size=1 << 16, batch_size=1000
    )
    assert orc.ORCFile(path).nstripes > 2
    rows, numbers, bad = rows_of(path, "id long")
    assert [row["id"] for row in rows] == numbers == ids
    assert bad == []


@pytest.mark.parametrize("year", [1, 1600, 2300, 9999])
def test_a_time_that_arrow_cannot_read_is_refused(tmp_path: Path, year: int) -> None:
    moments = pa.array([MOMENT, dt.datetime(year, 12, 31, tzinfo=UTC)], pa.timestamp("us", "UTC"))
    path = written(tmp_path / "a.orc", {"id": [1, 2], "t": moments, "s": pa.array([{"t": each} for each in moments])})
    for schema in ("id long, t timestamp", "s struct<t: timestamp>"):
        with pytest.raises(DataError, match=REFUSES_TIMES if WRAPS else "before 1677 or after 2262.*as Parquet"):
            rows_of(path, schema)
    assert rows_of(path, "id long")[0] == [{"id": 1}, {"id": 2}]


def test_a_version_of_arrow_that_would_wrap_times_reads_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "a.orc", {"id": [1], "t": pa.array([MOMENT])})
    monkeypatch.setattr(reader, "_arrow_wraps_times", lambda: True)
    with pytest.raises(DataError, match=REFUSES_TIMES):
        rows_of(path, "t timestamp")
    assert rows_of(path, "id long")[0] == [{"id": 1}]


def test_a_file_cut_anywhere_is_refused_and_named(tmp_path: Path) -> None:
    path = written(tmp_path / "a.orc", {"id": list(range(1000)), "s": ["x"] * 1000})
    data = path.read_bytes()
    for cut in (0, 3, 10, len(data) // 2, len(data) - 20, len(data) - 1):
        path.write_bytes(data[:cut])
        with pytest.raises(DataError, match=r"a\.orc"):
            rows_of(path, "id long")


def test_a_spout_reads_orc_with_inferred_columns_and_zones(tmp_path: Path) -> None:
    (tmp_path / "dt=2024-05-01").mkdir()
    naive = pa.array([MOMENT.replace(hour=6, microsecond=0, tzinfo=None)], pa.timestamp("us"))
    written(tmp_path / "dt=2024-05-01/a.orc", {"id": [1], "t": naive})
    spout = spouts.files(f"{tmp_path}/*/*.orc", partition_columns="dt date", timezone="Europe/Berlin")
    moment = dt.datetime(2024, 5, 1, 4, tzinfo=UTC)
    rows, bad = read(spout)
    if WRAPS:
        assert rows == []
        assert REFUSES_TIMES in bad[0][1]
    else:
        assert (rows, bad) == ([{"id": 1, "t": moment, "dt": dt.date(2024, 5, 1)}], [])
