"""Options of CSV files: which there are where files are read and where they are written, and decimal commas."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from topologies.io.formats import FileSplit, file_format
from topologies.io.paths import locate
from windbolt import ConfigError, sinks, spouts
from windowing.schema import parse_schema


def read(tmp_path: Path, text: str, schema: str, **options: Any) -> tuple[list[dict[str, Any]], list[tuple[int, str]]]:
    (tmp_path / "a.csv").write_text(text, encoding="utf-8")
    filesystem, path, _ = locate(str(tmp_path / "a.csv"))
    chunks = list(file_format("csv", "reading", **options).read(filesystem, FileSplit(path), parse_schema(schema)))
    rows = [row for table, _, _ in chunks for row in table.to_pylist()]
    return rows, [(row["row"], row["data"]) for _, _, bad in chunks for row in bad.rows.to_pylist()]


def test_a_decimal_comma(tmp_path: Path) -> None:
    text = "name;d;e;n;t\na,b.c;1,5;-2,25;3,0;2024-01-01T00:00:00.5Z\nx;1e3;,5;7;1704088805000\n"
    schema = "name string, d double, e decimal(6, 2), n long, t timestamp"
    rows, bad = read(tmp_path, text, schema, delimiter=";", decimal_point=",")
    assert not bad
    assert [(row["name"], row["d"], row["e"], row["n"]) for row in rows] == [
        ("a,b.c", 1.5, Decimal("-2.25"), 3),
        ("x", 1000.0, Decimal("0.50"), 7),
    ]
    assert rows[0]["t"].microsecond == 500_000


@pytest.mark.parametrize("kind", ["double", "float", "decimal(20, 3)", "long", "int"])
@pytest.mark.parametrize("text", ["1.000", "1.234,5", "1.5", "1,2,3", "1 000"])
def test_what_might_be_a_thousand_is_bad(tmp_path: Path, kind: str, text: str) -> None:
    rows, bad = read(tmp_path, f"a;n\nx;{text}\n", f"a string, n {kind}", delimiter=";", decimal_point=",")
    assert rows == []
    assert [number for number, _ in bad] == [0]
    assert text in bad[0][1]


def test_a_decimal_comma_in_quotes(tmp_path: Path) -> None:
    assert read(tmp_path, 'a,n\nx,"1,5"\n', "a string, n double", decimal_point=",") == ([{"a": "x", "n": 1.5}], [])


def test_without_the_option_a_comma_is_no_point(tmp_path: Path) -> None:
    assert read(tmp_path, "n;m\n1,5;1.5\n", "n double, m double", delimiter=";")[0] == []


def test_infinity_and_null_stay_what_they_are(tmp_path: Path) -> None:
    rows, bad = read(tmp_path, "a;n\nx;inf\nx;\n", "a string, n double", delimiter=";", decimal_point=",")
    assert [row["n"] for row in rows] == [float("inf"), None]
    assert not bad


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: spouts.files("a.csv", "n long", decimal_point=";"), "use '.' or ','"),
        (lambda: spouts.files("a.csv", "n long", delimitter=";"), "did you mean 'delimiter'.*delimiter, quote"),
        (
            lambda: spouts.files("a.csv", "n long", x=1),
            "use delimiter, quote, escape, escape_unquoted, comment, skip_rows, encoding, null_values, block_size",
        ),
        (lambda: spouts.files("a.jsonl", "n long", x=1), r"use block_size, longest_row\.$"),
        (lambda: spouts.files("a.arrow", "n long", x=1), "there are no options"),
        (lambda: sinks.files("out", "parquet", use_threads=False), "there are no options"),
        (
            lambda: sinks.files("out", "csv", decimal_point=","),
            r"for writing.* use delimiter, quote, escape, encoding, escape_formulas\.$",
        ),
        (lambda: sinks.files("out", "jsonl", block_size=4096), "there are no options"),
    ],
)
def test_an_option_that_does_nothing_there_is_refused_with_those_that_do(make: Any, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        make()
