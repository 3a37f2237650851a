"""No value and no damage in a file ends the process that reads it, reads foreign memory, or takes more than it may."""

from __future__ import annotations

import gzip
import resource
import subprocess
import sys
from datetime import date
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import ipc

from tests.helpers.examples import sampled, share
from tests.helpers.input_fuzz import KINDS
from tests.helpers.places import ROOT
from topologies.io.formats import FileFormat, FileSplit, file_format
from topologies.step.read_bolt import LinesFormat
from windowing.conversion import plain_decimal
from windowing.errors import ConfigError, DataError
from windowing.schema import from_rows, parse_schema

FS = pafs.LocalFileSystem()


@pytest.mark.parametrize("kind", sampled(KINDS, 5))
def test_damage_and_odd_values_never_end_the_process(kind: str, tmp_path: Path) -> None:
    script = [
        sys.executable,
        "-X",
        "faulthandler",
        "-m",
        "tests.helpers.input_fuzz",
        kind,
        str(tmp_path),
        "0",
        str(share(150)),
    ]
    done = subprocess.run(script, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, f"seed {done.stdout.split()[-1:]}: {done.stderr[-2000:]}"


def read(path: Path, chosen: FileFormat, declared: str) -> tuple[list[object], list[dict[str, object]]]:
    rows: list[object] = []
    bad: list[dict[str, object]] = []
    for table, _, wrong in chosen.read(FS, FileSplit(str(path)), parse_schema(declared)):
        rows += table.column(0).to_pylist()
        bad += wrong.rows.to_pylist()
    return rows, bad


NUMBERS = ("1E-9999999", "0E-9999999", "1E-100", "1E9999999", "-1e-2147483649")


@pytest.mark.parametrize(
    "declared", sampled(["decimal(10,2)", "int", "double", "timestamp", "array<decimal(10,2)>"], 5)
)
def test_a_number_that_ended_the_process_is_a_row(declared: str, tmp_path: Path) -> None:
    code = (
        "import sys\nfrom pathlib import Path\nfrom tests.topologies.io.test_odd_input import outcomes\n"
        "print(*outcomes(Path(sys.argv[1]), sys.argv[2]))\n"
    )
    script = [sys.executable, "-c", code, str(tmp_path), declared]
    done = subprocess.run(script, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    # 0 is 0 however it is written; else there is no such number, except for a double that is as good as 0.
    kept = [number[0] == "0" or (declared == "double" and "-" in number[1:]) for number in NUMBERS]
    assert done.stdout.split() == [str(each) for each in kept for _ in ("jsonl", "csv")]


def outcomes(folder: Path, declared: str) -> list[bool]:
    """Of each of the numbers in JSON lines and in CSV, whether it can be read; all rows are there, good or bad."""
    found = []
    for number in NUMBERS:
        value = f"[{number}]" if declared.startswith("array") else number
        (folder / "x.jsonl").write_text(f'{{"n": {value}}}\n' * 40)
        (folder / "x.csv").write_text("n,m\n" + f'"{value}",1\n' * 40)
        for kind in ("jsonl", "csv"):
            rows, bad = read(folder / f"x.{kind}", file_format(kind), f"n {declared}")
            assert (len(rows), len(bad)) in ((40, 0), (0, 40))
            found.append(bool(rows))
    return found


@given(
    st.from_regex(r"[+-]?([0-9]{1,12}(\.[0-9]{0,12})?|\.[0-9]{1,12})([eE][+-]?[0-9]{1,2})?", fullmatch=True),
    st.integers(1, 38),
    st.integers(0, 38),
)
def test_text_is_a_decimal_exactly_or_none_at_all(text: str, precision: int, scale: int) -> None:
    scale = min(scale, precision)
    exact = Decimal(text)
    _, digits, exponent = exact.normalize().as_tuple()
    assert isinstance(exponent, int)
    fits = not exact or (-exponent <= scale and len(digits) + exponent <= precision - scale)
    if not fits:
        with pytest.raises(pa.ArrowInvalid):
            plain_decimal(text, precision, scale)
        return
    plain = plain_decimal(text, precision, scale)
    assert Decimal(plain) == exact
    assert "e" not in plain.lower()


def test_a_bolt_may_return_odd_decimals() -> None:
    schema = parse_schema("d decimal(10,2)")
    code = (
        "from decimal import Decimal\nfrom windowing.schema import from_rows\n"
        "from windowing.schema import parse_schema\n"
        "from windowing.errors import SchemaError\nschema = parse_schema('d decimal(10,2)')\n"
        "print(from_rows([(Decimal('0E-9999999'),)], schema).to_pylist())\n"
        "try:\n    from_rows([(Decimal('1E-9999999'),)], schema)\nexcept SchemaError as error:\n    print('refused')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["[{'d': Decimal('0.00')}]", "refused"], done.stderr
    assert from_rows([(Decimal("1.50"),), (None,)], schema).column(0).to_pylist() == [Decimal("1.50"), None]


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_days_that_no_calendar_has_are_bad_rows(kind: str, tmp_path: Path) -> None:
    days = pa.array([0, 2_932_896, 2_932_897, -719_162, -719_163, 2**31 - 1, None], pa.int32()).cast(pa.date32())
    listed = pa.ListArray.from_arrays(pa.array(range(8), pa.int32()), days)
    table = pa.table({"d": days, "n": range(7)})
    path = tmp_path / f"x.{kind}"
    for some in (table, table.set_column(0, "d", listed)):
        if kind == "parquet":
            pq.write_table(some, path)
        else:
            with ipc.new_file(str(path), some.schema) as writer:
                writer.write_table(some)
        nested = pa.types.is_nested(some.schema.field("d").type)
        rows, bad = read(path, file_format(kind), "d array<date>, n long" if nested else "d date, n long")
        kept = [date(1970, 1, 1), date(9999, 12, 31), date(1, 1, 1), None]
        assert rows == ([[day] for day in kept] if nested else kept)
        assert [row["row"] for row in bad] == [2, 4, 5]


def test_times_that_no_calendar_has_are_bad_rows(tmp_path: Path) -> None:
    last = 253_402_300_800_000_000
    times = pa.array([0, last - 1, last, 2**63 - 1, -(2**63)], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"t": times}), tmp_path / "x.parquet")
    rows, bad = read(tmp_path / "x.parquet", file_format("parquet"), "t timestamp")
    assert (len(rows), [row["row"] for row in bad]) == (2, [2, 3, 4])
    (tmp_path / "x.jsonl").write_text(f'{{"t": {last // 1000}}}\n{{"t": 0}}\n{{"t": "9999-12-31T23:59:59-01:00"}}\n')
    rows, bad = read(tmp_path / "x.jsonl", file_format("jsonl"), "t timestamp")
    assert (len(rows), [row["row"] for row in bad]) == (1, [0, 2])


@pytest.mark.parametrize("block_size", [7, 64, 1000, 1 << 20])
@pytest.mark.parametrize("ending", [b"\n", b"\r\n"])
@pytest.mark.parametrize("last", [b"", b'{"x":6}'])
def test_a_line_that_is_too_long_costs_its_row_however_the_file_is_cut(
    tmp_path: Path, block_size: int, ending: bytes, last: bytes
) -> None:
    lines = [b'{"x":0}', b'{"x":1,"y":"%s"}' % (b"y" * 200), b'{"x":2}', b"z" * 101, b"", b'{"x":3%s}' % (b" " * 93)]
    lines += [b'{"x":4%s}' % (b" " * 94), b'{"x":5}', b"w" * 5000, last]
    (tmp_path / "x.jsonl").write_bytes(ending.join(lines))
    rows, bad = read(tmp_path / "x.jsonl", file_format("jsonl", longest_row=100, block_size=block_size), "x long")
    assert rows == [0, 2, 3, 5, *([6] if last else [])]
    assert [row["row"] for row in bad] == [1, 3, 5, 7]
    assert all("more than 100 bytes" in str(row["reason"]) for row in bad)
    assert str(bad[0]["data"]).startswith('{"x":1,"y":"yyy')


@pytest.mark.parametrize("kind", sampled(["jsonl", "lines", "csv"], 3))
def test_a_huge_line_in_a_small_file_takes_little_memory(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"x.{kind}.gz"
    with gzip.open(path, "wb", compresslevel=1) as sink:
        sink.write(b'x,y\n"' if kind == "csv" else b'{"x": "')
        for _ in range(300):
            sink.write(b"y" * (1 << 20))
        sink.write(b'"}\n{"x": "z"}\n')
    code = (
        "import sys, resource\nfrom pathlib import Path\nfrom tests.topologies.io import test_odd_input as odd\n"
        "print(odd.huge(Path(sys.argv[1]), sys.argv[2]))\n"
    )
    script = [sys.executable, "-c", code, str(path), kind]
    done = subprocess.run(script, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    said, megabytes = done.stdout.split()
    assert said == ("refused" if kind == "csv" else "1,1")
    assert int(megabytes) < 250


def huge(path: Path, kind: str) -> str:
    """In a process of its own: what is read, and by how many megabytes the process grew for it."""
    chosen = LinesFormat() if kind == "lines" else file_format(kind)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        rows, bad = read(path, chosen, "x binary" if kind == "lines" else "x string")
        said = f"{len(rows)},{len(bad)}"
    except DataError:
        said = "refused"
    return f"{said} {(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10}"


def test_a_longest_row_is_some_bytes() -> None:
    with pytest.raises(ConfigError, match="longest_row"):
        file_format("jsonl", longest_row=0)
