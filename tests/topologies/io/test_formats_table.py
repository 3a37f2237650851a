"""The table of formats and options in docs/files.md: what it says is declared, and each cell does what it says."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

from tests import formats_table
from windbolt import TopologyBuilder, run_local, sinks, spouts
from windowing.errors import ConfigError

FS = pafs.LocalFileSystem()
FINE = "2024-01-01T00:00:00.000000001Z"


def test_the_table_is_up_to_date() -> None:
    written = formats_table.PAGE.read_text(encoding="utf-8")
    assert written == formats_table.page(), f"run: {formats_table.COMMAND}"


def write(path: Path, kind: str, columns: dict[str, list[Any]]) -> None:
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    match kind:
        case "csv":
            lines = [columns, *([("" if cell is None else cell) for cell in row.values()] for row in rows)]
            path.write_text("".join(",".join(map(str, line)) + "\n" for line in lines))
        case "jsonl":
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        case "json":
            path.write_text(json.dumps(rows))
        case "text":
            path.write_text("".join(f"{row['line']}\n" for row in rows))
        case "parquet":
            pq.write_table(pa.table(columns), path)
        case "arrow":
            feather.write_feather(pa.table(columns), str(path))
        case "orc":
            orc.write_table(pa.table(columns), str(path))


def read(folder: Path, kind: str, schema: str | None, **options: Any) -> tuple[list[dict[str, Any]], int]:
    """The rows that a run reads, and how many it cannot."""
    builder, out = TopologyBuilder("read"), sinks.memory()
    builder.set_spout("in", spouts.files(folder, schema, format=kind, **options))  # type: ignore[arg-type]
    builder.set_sink("out", out).from_("in")
    last = run_local(builder.build()).last
    assert last is not None
    return out.rows, last.spouts["in"]["invalid"]


def of_csv(data: bytes, schema: str, options: dict[str, Any], expected: Any) -> Callable[[Path, str], None]:
    def check(folder: Path, kind: str) -> None:
        (folder / "a.x").write_bytes(data)
        if kind == "text":
            assert read(folder, kind, None, **options)[0] == [{"line": "é"}, {"line": "1"}]
            return
        assert read(folder, kind, schema, **options) == (expected, 0)
        assert read(folder, kind, schema) != (expected, 0)

    return check


def _bounded(option: str) -> Callable[[Path, str], None]:
    def check(folder: Path, kind: str) -> None:
        write(folder / "a.x", kind, {"line": ["x" * 50, "y"]})
        schema = None if kind == "text" else "line string"
        assert read(folder, kind, schema, block_size=7) == ([{"line": "x" * 50}, {"line": "y"}], 0)
        if option == "longest_row":
            rows, invalid = read(folder, kind, schema, longest_row=40)
            assert invalid == 1
            assert rows == ([{"line": "y"}] if kind in ("jsonl", "text") else [])

    return check


def _timezone(folder: Path, kind: str) -> None:
    (folder / "at=2024-01-01T06:00").mkdir()
    write(folder / "at=2024-01-01T06:00/a.x", kind, {"line": ["x"]})
    schema = None if kind == "text" else "line string"
    rows, _ = read(folder, kind, schema, partition_columns="at timestamp", timezone="Europe/Berlin")
    assert rows[0]["at"] == datetime(2024, 1, 1, 5, tzinfo=UTC)
    if kind != "text":
        write(folder / "at=2024-01-01T06:00/a.x", kind, {"ts": ["2024-01-01T06:00"]})
        rows, _ = read(folder, kind, "ts timestamp", timezone="Europe/Berlin")
        assert rows[0]["ts"] == datetime(2024, 1, 1, 5, tzinfo=UTC)


def _partition_columns(folder: Path, kind: str) -> None:
    (folder / "dt=2024-01-02").mkdir()
    write(folder / "dt=2024-01-02/a.x", kind, {"line": ["x"]})
    schema = None if kind == "text" else "line string"
    rows, _ = read(folder, kind, schema, partition_columns="dt date")
    assert rows == [{"line": "x", "dt": date(2024, 1, 2)}]


def _metadata(folder: Path, kind: str) -> None:
    write(folder / "a.x", kind, {"line": ["x", "y"]})
    rows, _ = read(folder, kind, None if kind == "text" else "line string", metadata="row")
    assert rows == [{"line": "x", "file_row": 0}, {"line": "y", "file_row": 1}]


def _defaults(folder: Path, kind: str) -> None:
    (folder / "dt=__HIVE_DEFAULT_PARTITION__").mkdir()
    write(folder / "dt=__HIVE_DEFAULT_PARTITION__/a.x", kind, {"line": ["x"]})
    schema = None if kind == "text" else "line string"
    rows, _ = read(folder, kind, schema, partition_columns="dt int", defaults={"dt": 7})
    assert rows == [{"line": "x", "dt": 7}]


def _merge_by(folder: Path, kind: str) -> None:
    for name, days in (("a", [1, 3]), ("b", [2])):
        for day in days:
            (folder / f"day={day}").mkdir()
            write(folder / f"day={day}/{name}.x", kind, {"line": [str(day)]})
    schema = None if kind == "text" else "line string"
    rows, _ = read(folder, kind, schema, partition_columns="day int", merge_by="day")
    assert [row["day"] for row in rows] == [1, 2, 3]


def _on_truncation(folder: Path, kind: str) -> None:
    write(folder / "a.x", kind, {"ts": [FINE]})
    assert read(folder, kind, "ts timestamp") == ([{"ts": datetime(2024, 1, 1, tzinfo=UTC)}], 0)
    assert read(folder, kind, "ts timestamp", on_truncation="error") == ([], 1)


def _times(folder: Path, kind: str) -> None:
    write(folder / "a.x", kind, {"ts": ["31/01/2024", "31/02/2024"]})
    expected = ([{"ts": datetime(2024, 1, 31, tzinfo=UTC)}], 1)
    assert read(folder, kind, "ts timestamp", times={"ts": "%d/%m/%Y"}) == expected
    assert read(folder, kind, "ts timestamp") == ([], 2)


def _keep_line_ends(folder: Path, kind: str) -> None:
    (folder / "a.x").write_bytes(b"a\r\nb")
    assert read(folder, kind, None, keep_line_ends=True) == ([{"line": "a\r\n"}, {"line": "b"}], 0)


def _use_threads(folder: Path, kind: str) -> None:
    write(folder / "a.x", kind, {"a": [1, 2]})
    assert read(folder, kind, "a long", use_threads=True) == ([{"a": 1}, {"a": 2}], 0)


def _escape_unquoted(folder: Path, kind: str) -> None:
    (folder / "a.x").write_bytes(b'a,b\n\\n,"\\""\n')
    told = {"escape": "\\", "escape_unquoted": False}
    assert read(folder, kind, "a string, b string", **told) == ([{"a": "\\n", "b": '"'}], 0)
    assert read(folder, kind, "a string, b string", escape="\\") == ([{"a": "n", "b": '"'}], 0)


CASES: dict[str, Callable[[Path, str], None]] = {
    "timezone": _timezone,
    "partition_columns": _partition_columns,
    "metadata": _metadata,
    "defaults": _defaults,
    "merge_by": _merge_by,
    "on_truncation": _on_truncation,
    "times": _times,
    "block_size": _bounded("block_size"),
    "longest_row": _bounded("longest_row"),
    "keep_line_ends": _keep_line_ends,
    "use_threads": _use_threads,
    "encoding": of_csv("é\n1\n".encode("cp1252"), "`é` long", {"encoding": "cp1252"}, [{"é": 1}]),
    "delimiter": of_csv(b"a;b\n1;2\n", "a long, b long", {"delimiter": ";"}, [{"a": 1, "b": 2}]),
    "quote": of_csv(b"a,b\n'1,0',2\n", "a string, b long", {"quote": "'"}, [{"a": "1,0", "b": 2}]),
    "escape": of_csv(b'a,b\n"x\\"y",2\n', "a string, b long", {"escape": "\\"}, [{"a": 'x"y', "b": 2}]),
    "escape_unquoted": _escape_unquoted,
    "comment": of_csv(b"a,b\n#,2\n1,2\n", "a string, b long", {"comment": "#"}, [{"a": "1", "b": 2}]),
    "skip_rows": of_csv(b"made by hand\na\n1\n", "a long", {"skip_rows": 1}, [{"a": 1}]),
    "null_values": of_csv(b"a,b\n-,2\n", "a string, b long", {"null_values": ["-"]}, [{"a": None, "b": 2}]),
    "decimal_point": of_csv(b'a,b\n"1,5",2\n', "a double, b long", {"decimal_point": ","}, [{"a": 1.5, "b": 2}]),
}
WRITTEN: dict[str, tuple[Any, bytes]] = {
    "delimiter": (";", b'"a";"b"\n"=1,\'";1\n'),
    "quote": ("'", b"'a','b'\n'=1,''',1\n"),
    "escape": ("\\", b'"a","b"\n"=1,\'",1\n'),
    "encoding": ("utf-16-le", '"a","b"\n"=1,\'",1\n'.encode("utf-16-le")),
    "escape_formulas": (True, b'"a","b"\n"\'=1,\'",1\n'),
}
CELLS = [(option, kind) for option in formats_table.options() for kind in formats_table.FORMATS]


@pytest.mark.parametrize(("option", "kind"), [each for each in CELLS if "r" in formats_table.cell(*each)])
def test_an_option_is_read(tmp_path: Path, option: str, kind: str) -> None:
    CASES[option](tmp_path, kind)


@pytest.mark.parametrize(("option", "kind"), [each for each in CELLS if "w" in formats_table.cell(*each)])
def test_an_option_is_written(tmp_path: Path, option: str, kind: str) -> None:
    value, expected = WRITTEN[option]
    builder = TopologyBuilder("written")
    builder.set_spout("in", spouts.memory("a string, b long", [("=1,'", 1)]))
    builder.set_sink("out", sinks.files(tmp_path / "out", kind, **{option: value})).from_("in")  # type: ignore[arg-type]
    run_local(builder.build())
    (path,) = [each for each in (tmp_path / "out").iterdir() if each.name.endswith(kind)]
    assert path.read_bytes() == expected


@pytest.mark.parametrize(("option", "kind"), [each for each in CELLS if not formats_table.cell(*each)])
def test_an_option_that_a_format_does_not_have_is_refused(option: str, kind: str) -> None:
    given: dict[str, Any] = {option: {"times": {"a": "s"}, "on_truncation": "error"}.get(option, 1)}
    with pytest.raises(ConfigError):
        spouts.files("in", None if kind == "text" else "a timestamp", format=kind, **given)  # type: ignore[arg-type]
    with pytest.raises(ConfigError):
        sinks.files("out", kind, **given)  # type: ignore[arg-type]
