"""All types of a schema in all formats: what others write is read as it was given, and others read what sinks write.

The judges are Python's own ``csv``, ``json``, ``decimal``, ``datetime`` and ``zoneinfo``. What a format cannot hold is
refused with its reason, never changed.
"""

from __future__ import annotations

import base64
import csv
import io
import json
import math
import re
import tempfile
from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from itertools import product
from pathlib import Path
from typing import Any, Literal, cast
from uuid import UUID
from zoneinfo import ZoneInfo

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.fs as pafs
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import feather

from tests.helpers import extremes
from tests.helpers.examples import examples
from topologies.io.formats import FileSplit, file_format
from topologies.io.formats.write_table import write_table
from windbolt import TopologyBuilder, run_local, sinks, spouts
from windowing.errors import DataError
from windowing.schema import parse_schema

FS = pafs.LocalFileSystem()
CONTEXT = Context(prec=80)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=8) | st.sampled_from(
    ["", " ", "null", "NULL", "NaN", '"', '""', "'", "\\", "\\n", "\n", "\r", "\r\n", ",", ";", "#", "=1+1", "\ufeff",
     "\x00", "\u2028", "😀", "e\u0301", "sep=;", "1", "true", "{}", "[]", "2024-01-01"]
)  # fmt: skip
SIMPLE: dict[str, st.SearchStrategy[Any]] = {
    "string": TEXTS,
    "binary": st.binary(max_size=6),
    "boolean": st.booleans(),
    "tinyint": st.integers(-(2**7), 2**7 - 1) | st.sampled_from([-(2**7), 2**7 - 1]),
    "smallint": st.integers(-(2**15), 2**15 - 1) | st.sampled_from([-(2**15), 2**15 - 1]),
    "int": st.integers(-(2**31), 2**31 - 1) | st.sampled_from([-(2**31), 2**31 - 1]),
    "long": st.integers(-(2**63), 2**63 - 1) | st.sampled_from([-(2**63), 2**63 - 1, 2**53 + 1]),
    "float": st.floats(width=32) | st.sampled_from([float(np.float32(3.4028235e38)), float(np.float32(1e-45)), -0.0]),
    "double": st.floats() | st.sampled_from([1.7976931348623157e308, 5e-324, -0.0, 0.1 + 0.2, 2.0**53 + 2]),
    "date": st.dates() | st.sampled_from([date.min, date.max, date(2000, 2, 29)]),
    "timestamp": st.datetimes(timezones=st.just(UTC))
    | st.sampled_from([datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)]),
    "decimal(38, 0)": st.integers(-(10**38) + 1, 10**38 - 1).map(Decimal),
    "decimal(38, 38)": st.integers(-(10**38) + 1, 10**38 - 1).map(lambda n: Decimal(n).scaleb(-38, CONTEXT)),
    "decimal(18, 6)": st.integers(-(10**18) + 1, 10**18 - 1).map(lambda n: Decimal(n).scaleb(-6)),
    "decimal(1, 1)": st.integers(-9, 9).map(lambda n: Decimal(n).scaleb(-1)),
}
KEYS = ("string", "int", "date", "boolean", "timestamp", "decimal(18, 6)", "binary")


@st.composite
def kinds(draw: st.DrawFn, depth: int = 2) -> tuple[str, st.SearchStrategy[Any]]:
    """A type and its values."""
    shape = draw(st.sampled_from(["simple"] * 4 + (["array", "map", "struct"] if depth else [])))
    if shape == "array":
        name, values = draw(kinds(depth - 1))
        return f"array<{name}>", st.lists(st.none() | values, max_size=3)
    if shape == "map":
        key = draw(st.sampled_from(KEYS))
        name, values = draw(kinds(depth - 1))
        return f"map<{key}, {name}>", st.lists(st.tuples(SIMPLE[key], st.none() | values), max_size=3, unique_by=_key)
    if shape == "struct":
        parts = {f"f{number}": draw(kinds(depth - 1)) for number in range(draw(st.integers(1, 2)))}
        declared = ", ".join(f"{name}: {kind}" for name, (kind, _) in parts.items())
        return f"struct<{declared}>", st.fixed_dictionaries(
            {name: st.none() | some for name, (_, some) in parts.items()}
        )
    name = draw(st.sampled_from(list(SIMPLE)))
    return name, SIMPLE[name]


def _key(pair: tuple[Any, Any]) -> Any:
    return pair[0]


@st.composite
def drawn(draw: st.DrawFn) -> pa.Table:
    """A few rows of a few columns, beside one that says which row it is."""
    columns = {f"c{number}": draw(kinds()) for number in range(draw(st.integers(1, 3)))}
    schema = parse_schema(", ".join(["id long", *(f"{name} {kind}" for name, (kind, _) in columns.items())]))
    rows = [
        {"id": number, **{name: draw(st.none() | values) for name, (_, values) in columns.items()}}
        for number in range(draw(st.integers(1, 4)))
    ]
    return pa.Table.from_pylist(rows * draw(st.sampled_from([1, 6])), schema)


# as others write and read


def as_json(value: Any, kind: pa.DataType) -> Any:
    """A value as a program that knows JSON would write it."""
    types = pa.types
    if value is None:
        return None
    if types.is_struct(kind):
        return {field.name: as_json(value[field.name], field.type) for field in kind}
    if types.is_map(kind):
        pairs = [(as_json(key, kind.key_type), as_json(item, kind.item_type)) for key, item in value]
        return dict(pairs) if types.is_string(kind.key_type) else [list(pair) for pair in pairs]
    if types.is_list(kind):
        return [as_json(each, kind.value_type) for each in value]
    if types.is_decimal(kind):
        return str(value)
    if types.is_binary(kind):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        return {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
    return value


def from_json(value: Any, kind: pa.DataType) -> Any:
    """What a program that knows JSON takes a value for; numbers are ``Decimal``, as they are written."""
    types = pa.types
    if value is None:
        return None
    if types.is_struct(kind):
        return {field.name: from_json(value[field.name], field.type) for field in kind}
    if types.is_map(kind):
        pairs = value.items() if isinstance(value, dict) else value
        return [(from_json(key, kind.key_type), from_json(item, kind.item_type)) for key, item in pairs]
    if types.is_list(kind):
        return [from_json(each, kind.value_type) for each in value]
    return from_text(value if isinstance(value, str | bool) else str(value), kind)


def from_text(text: Any, kind: pa.DataType) -> Any:
    types = pa.types
    if types.is_boolean(kind):
        return text if isinstance(text, bool) else {"true": True, "false": False}[text]
    if types.is_integer(kind):
        return int(text)
    if types.is_floating(kind):
        return float(np.float32(text)) if types.is_float32(kind) else float(text)
    if types.is_decimal(kind):
        return Decimal(text)
    if types.is_binary(kind):
        return base64.b64decode(text, validate=True)
    if types.is_timestamp(kind):
        return datetime.fromisoformat(text).astimezone(UTC) if not text.startswith("0001-01-01") else _early(text)
    return date.fromisoformat(text) if types.is_date(kind) else text


def _early(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def _csv_text(value: Any, kind: pa.DataType) -> str:
    if value is None:
        return ""
    if pa.types.is_nested(kind):
        return json.dumps(as_json(value, kind), ensure_ascii=False)
    if pa.types.is_boolean(kind):
        return "true" if value else "false"
    return str(as_json(value, kind))


def others_csv(table: pa.Table) -> bytes:
    """CSV as Python's writer has it, with quotes around all that is there: nothing is null."""
    out = io.StringIO(newline="")
    out.write(",".join(table.column_names) + "\r\n")
    for row in table.to_pylist():
        cells = [
            "" if row[field.name] is None else '"' + _csv_text(row[field.name], field.type).replace('"', '""') + '"'
            for field in table.schema
        ]
        out.write(",".join(cells) + "\r\n")
    return out.getvalue().encode()


def others_json(table: pa.Table) -> list[str]:
    return [
        json.dumps({field.name: as_json(row[field.name], field.type) for field in table.schema}, ensure_ascii=False)
        for row in table.to_pylist()
    ]


def write_as_others(path: Path, table: pa.Table) -> None:
    match path.suffix:
        case ".csv":
            path.write_bytes(others_csv(table))
        case ".jsonl":
            path.write_text("\n".join(others_json(table)), "utf-8", newline="")
        case ".json":
            path.write_text(f"[{','.join(others_json(table))}]", "utf-8", newline="")
        case ".parquet":
            pq.write_table(table, path)
        case ".arrow":
            feather.write_feather(table, str(path))
        case ".orc":
            orc.write_table(table, str(path))


def read(path: Path, schema: pa.Schema) -> tuple[list[str], list[Any]]:
    chunks = list(file_format(path.suffix[1:], "reading", block_size=97).read(FS, FileSplit(str(path)), schema)) if (
        path.suffix in (".csv", ".jsonl", ".json")
    ) else list(file_format(path.suffix[1:]).read(FS, FileSplit(str(path)), schema))  # fmt: skip
    rows = [row for table, _, _ in chunks for row in table.to_pylist()]
    return shown(rows), [row for _, _, bad in chunks for row in bad.rows.to_pylist()]


def shown(rows: pa.Table | list[Any]) -> list[str]:
    """Rows as texts, in which NaN is NaN and -0.0 is not 0.0."""
    rows = rows.to_pylist() if isinstance(rows, pa.Table) else rows
    utc = re.compile(r"zoneinfo.ZoneInfo\(key='UTC'\)|<UTC>")  # the second is that of Arrow 21
    return [utc.sub("datetime.timezone.utc", repr(row)) for row in rows]


@pytest.mark.parametrize("kind", ["csv", "jsonl", "json", "parquet", "arrow"])
@examples(100)
@given(table=drawn())
def test_what_others_write_is_read_as_it_was_given(kind: str, table: pa.Table) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"a.{kind}")
        write_as_others(path, table)
        assert read(path, table.schema) == (shown(table), [])


@examples(100)
@given(table=drawn())
def test_orc_is_read_as_it_was_given_or_refused(table: pa.Table) -> None:
    """Its times are nanoseconds to Arrow, and so of 1677 to 2262."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.orc")
        try:
            write_as_others(path, table)
        except (pa.ArrowException, NotImplementedError):
            return  # Arrow's writer does not know the type
        refused = ""
        found: Any = (shown(table), [])
        try:
            found = read(path, table.schema)
        except DataError as error:
            refused = str(error)
        assert found == (shown(table), [])
        of_old_arrow = "would change those of some years without a word"
        assert not refused or "holds a time before 1677 or after 2262" in refused or of_old_arrow in refused


@pytest.mark.parametrize("kind", ["csv", "jsonl", "json"])
@examples(100)
@given(table=drawn())
def test_what_is_written_is_what_others_read(kind: str, table: pa.Table) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"a.{kind}")
        write_table(FS, str(path), table, kind)
        text = path.read_bytes().decode()
        if kind == "csv":
            head, *lines = csv.reader(io.StringIO(text, newline=""), strict=True)
            assert head == table.column_names
            fields = list(table.schema)
            found = [
                {field.name: _cell(cell, field.type) for cell, field in zip(line, fields, strict=True)}
                for line in lines
            ]
            empty = {field.name: _cell("", field.type) for field in fields}  # which Python's reader takes for null too
            expected = [
                {name: empty[name] if value is None else value for name, value in row.items()}
                for row in table.to_pylist()
            ]
        else:
            lines = [json.loads(line, parse_float=str, parse_int=str) for line in text.split("\n")[:-1]]
            found = [{field.name: from_json(each[field.name], field.type) for field in table.schema} for each in lines]
            expected = table.to_pylist()
        assert shown(found) == shown(expected)


def _cell(text: str, kind: pa.DataType) -> Any:
    if pa.types.is_nested(kind):
        return None if text == "" else from_json(json.loads(text, parse_float=str, parse_int=str), kind)
    return None if text == "" and not _is_text(kind) else from_text(text, kind)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


@pytest.mark.parametrize("kind", ["csv", "jsonl", "json", "parquet", "arrow"])
@examples(10)
@given(table=drawn())
def test_a_run_reads_what_a_run_has_written(kind: str, table: pa.Table) -> None:
    form = cast('Literal["csv"]', kind)
    with tempfile.TemporaryDirectory() as folder:
        builder, out = TopologyBuilder("write"), sinks.memory()
        builder.set_spout("in", spouts.memory(table.schema, table))
        builder.set_sink("out", sinks.files(f"{folder}/out", form)).from_("in")
        run_local(builder.build())
        builder = TopologyBuilder("read")
        builder.set_spout("in", spouts.files(f"{folder}/out", table.schema, format=form))
        builder.set_sink("out", out).from_("in")
        run_local(builder.build())
        assert shown(out.rows) == shown(table)


@pytest.mark.parametrize("form", ["pandas.csv", "pandas.parquet", "pandas.arrow", "arrow.csv", "arrow.orc"])
def test_extremes_of_other_writers_are_read_as_they_were_given(form: str, tmp_path: Path) -> None:
    table = extremes.table(extremes.FLAT if form.endswith("csv") else extremes.WHOLE)
    if form == "arrow.orc":  # its times are of 1677 to 2262
        table = table.drop_columns(["at", "spans"])
    path = tmp_path / form
    frame, expected = table.to_pandas(types_mapper=pd.ArrowDtype), table.to_pylist()
    match form:
        case "pandas.csv":
            frame.to_csv(path, index=False, quoting=csv.QUOTE_ALL)
            expected[-1]["text"] = ""  # a null is in quotes too
        case "pandas.parquet":
            frame.to_parquet(path)
        case "pandas.arrow":
            frame.to_feather(path)
        case "arrow.csv":
            pacsv.write_csv(table, path)
        case "arrow.orc":
            orc.write_table(table, str(path))
    assert read(path, table.schema) == (shown(expected), [])


def test_what_duckdb_writes_as_logical_types_is_read(tmp_path: Path) -> None:
    """UUIDs, JSON, times of day: Arrow has types of its own for these, which a column cannot be declared as."""
    first, path = UUID("6ba7b810-9dad-11d1-80b4-00c04fd430c8"), tmp_path / "1.parquet"
    row = f"'{first}'::uuid AS id, '{{\"a\": 1}}'::json AS doc, TIME '23:59:59.5' AS at, ['{first}'::uuid, NULL] AS ids"
    with closing(duckdb.connect()) as connection:
        connection.execute(f"COPY (SELECT {row} UNION ALL SELECT NULL, NULL, NULL, NULL) TO '{path}' (FORMAT parquet)")
    texts = {"id": str(first), "doc": '{"a": 1}', "at": "23:59:59.500000", "ids": [str(first), None]}
    text = pa.string()
    as_text = pa.schema([("id", text), ("doc", text), ("at", text), ("ids", pa.list_(text))])
    assert read(path, as_text) == (shown([texts, dict.fromkeys(texts)]), [])
    as_bytes = pa.schema([("id", pa.binary()), ("ids", pa.list_(pa.binary()))])
    assert read(path, as_bytes) == (
        shown([{"id": first.bytes, "ids": [first.bytes, None]}, {"id": None, "ids": None}]), []
    )  # fmt: skip
    with pytest.raises(DataError, match=r"'id' is extension<arrow.uuid>, declared as long; 'at' is time64"):
        read(path, pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", "UTC"))]))


def test_other_logical_types_of_arrow(tmp_path: Path) -> None:
    table = pa.table({
        "flag": pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, None, 0], pa.int8())),
        "other": pa.ExtensionArray.from_storage(pa.opaque(pa.int64(), "day", "somebody"), pa.array([1, 2, 3])),
    })  # fmt: skip
    path = tmp_path / "1.arrow"
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    flags = [{"flag": each} for each in (True, None, False)]
    assert read(path, pa.schema([("flag", pa.bool_())])) == (shown(flags), [])
    with pytest.raises(DataError, match=r"arrow\.opaque"):  # nobody knows what its numbers mean
        read(path, pa.schema([("other", pa.int64())]))


def test_a_time_outside_a_day_is_bad(tmp_path: Path) -> None:
    """DuckDB has 24:00 as a time; Arrow's text of it says that it is out of range."""
    path, schema = tmp_path / "1.parquet", pa.schema([("at", pa.string())])
    with closing(duckdb.connect()) as connection:
        connection.execute(
            f"COPY (SELECT unnest([TIME '24:00:00', NULL, TIME '23:59:59']) AS at) TO '{path}' (FORMAT parquet)"
        )
    good, bad = read(path, schema)
    assert (good, len(bad)) == (shown([{"at": None}, {"at": "23:59:59.000000"}]), 1)
    assert "this time64[us] is no time of a day" in str(bad)


@pytest.mark.parametrize("kind", [pa.string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string()), pa.uuid()])
def test_runs_of_any_type_stand_beside_bad_rows(kind: pa.DataType, tmp_path: Path) -> None:
    """Arrow decodes runs of some types only, and takes no rows of any."""
    first, second = (str(UUID(int=number)) for number in (1, 2))
    if kind == pa.uuid():
        values = pa.ExtensionArray.from_storage(kind, pa.array([UUID(int=1).bytes, UUID(int=2).bytes], pa.binary(16)))
    else:
        values = pa.array([first, second], kind)
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 4], pa.int32()), values)
    table = pa.table({"id": runs, "n": [1.0, 1.0, 2.5, 3.0]}).slice(1)
    path = tmp_path / "1.arrow"
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    good, bad = read(path, pa.schema([("id", pa.string()), ("n", pa.int64())]))
    assert good == shown([{"id": first, "n": 1}, {"id": second, "n": 3}])
    assert [second in str(each) for each in bad] == [True]


def test_times_of_all_zones_are_those_of_zoneinfo(tmp_path: Path) -> None:
    """A local time beside each change of a zone's clocks, and its extremes."""
    for zone in ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "Pacific/Apia"):
        local = [
            datetime(year, month, day, hour, 30)  # noqa: DTZ001 - a local time
            for year, month, day, hour in product(
                (1890, 1975, 2011, 2024, 2100), (1, 3, 4, 10, 11, 12), (1, 6, 10, 30), (0, 2, 23)
            )
        ]
        (tmp_path / "a.csv").write_text("ts\n" + "".join(f"{each.isoformat()}\n" for each in local))
        builder, out = TopologyBuilder("zone"), sinks.memory()
        builder.set_spout("in", spouts.files(tmp_path / "a.csv", "ts timestamp", timezone=zone))
        builder.set_sink("out", out).from_("in")
        run_local(builder.build())
        expected = []
        for each in local:
            offset = each.replace(tzinfo=ZoneInfo(zone), fold=0).utcoffset()
            expected.append(each.replace(tzinfo=UTC) - (offset or timedelta()))
        assert [row["ts"] for row in out.rows] == expected
