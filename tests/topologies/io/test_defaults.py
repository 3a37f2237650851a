"""What defaults of columns may be, and which rows have them; whole topologies: tests/topologies/engine."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from topologies.graph.describing import to_json, topology_text
from topologies.io.spout_columns import Defaults
from windbolt import TopologyBuilder, run_local, sinks, spouts
from windowing.errors import ConfigError, TopologyError
from windowing.schema import parse_schema

MOMENT = datetime(2024, 1, 1, 6, tzinfo=UTC)
OF_TYPES: list[tuple[str | pa.DataType, Any]] = [
    ("string", "EUR"),
    ("string", ""),
    ("binary", b"\x00\xff"),
    ("boolean", False),
    ("tinyint", -128),
    ("long", 2**63 - 1),
    ("float", 0.1),
    ("double", 0),
    ("double", float("nan")),
    ("double", float("inf")),
    ("date", date(2024, 2, 29)),
    ("timestamp", MOMENT),
    ("decimal(9, 2)", Decimal("0.10")),
    ("array<long>", []),
    ("array<string>", ["a", None]),
    ("struct<a: long, b: array<double>>", {"a": 1, "b": [0.5]}),
    ("map<string, long>", {"a": 1}),
    ("map<string, long>", [("a", 1)]),
    (pa.large_string(), "EUR"),
    (pa.time64("us"), time(6)),
    (pa.timestamp("ms"), MOMENT.replace(tzinfo=None)),
    (pa.dictionary(pa.int8(), pa.string()), "EUR"),
    (pa.list_(pa.int64(), 2), [1, 2]),
]


def field(kind: str | pa.DataType) -> pa.Field:
    return parse_schema(f"c {kind}").field(0) if isinstance(kind, str) else pa.field("c", kind)


@pytest.mark.parametrize(("kind", "value"), OF_TYPES, ids=str)
def test_columns_of_all_types_may_have_one(kind: str | pa.DataType, value: Any) -> None:
    schema = pa.schema([field(kind)])
    defaults = pickle.loads(pickle.dumps(Defaults.of({"c": value}, schema)))
    there = defaults.columns["c"]
    mixed = pa.chunked_array([pa.nulls(2, there.type), there, pa.nulls(0, there.type), pa.nulls(1, there.type)])
    filled = defaults.filled(pa.table([mixed], schema=schema))
    assert filled.schema == schema
    assert str(filled.column("c").to_pylist()) == str(there.to_pylist() * 4)
    filled.validate(full=True)


def test_times_are_utc_without_a_zone() -> None:
    schema = parse_schema("ts timestamp")
    for moment in (MOMENT.replace(tzinfo=None), MOMENT.astimezone(timezone(timedelta(hours=2)))):
        assert Defaults.of({"ts": moment}, schema).columns["ts"].to_pylist() == [MOMENT]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("string", 1),
        ("string", b"EUR"),
        ("binary", "EUR"),
        ("boolean", 1),
        ("long", True),
        ("long", 0.5),
        ("long", "1"),
        ("tinyint", 128),
        ("double", True),
        ("double", "0"),
        ("float", 1e300),
        ("float", 1e-300),
        ("date", MOMENT),
        ("date", "2024-01-01"),
        ("timestamp", "2024-01-01T06:00:00Z"),
        ("timestamp", 0),
        ("timestamp", date(2024, 1, 1)),
        ("decimal(9, 2)", Decimal("0.001")),
        ("decimal(9, 2)", 0.255),
        ("array<long>", [0.5]),
        ("array<date>", [MOMENT]),
        ("array<long>", 1),
        ("struct<a: long>", {"b": 1}),
        ("map<string, long>", {"a": "b"}),
        (pa.timestamp("s", "UTC"), MOMENT + timedelta(milliseconds=1)),
    ],
    ids=str,
)
def test_a_value_that_the_column_cannot_have_as_it_is(kind: str | pa.DataType, value: Any) -> None:
    with pytest.raises(ConfigError, match=r"the default of column 'c' is .*, which is no") as refused:
        Defaults.of({"c": value}, pa.schema([field(kind)]))
    assert refused.value.why
    assert refused.value.do


def test_a_type_that_cannot_be_filled_is_refused() -> None:
    with pytest.raises(ConfigError, match="column 'c' cannot have a default"):
        Defaults.of({"c": "EUR"}, pa.schema([("c", pa.string_view())]))


DECLARING: dict[str, Callable[..., Any]] = {
    "files": lambda **given: spouts.files("in/*.jsonl", "user string, currency string", **given),
    "kafka": lambda **given: spouts.kafka("host:9092", "orders", "user string, currency string", **given),
    "stream": lambda **given: spouts.stream(len, "user string, currency string", **given),
    "memory": lambda **given: spouts.memory("user string, currency string", **given),
}
"""Every kind of spout."""


@pytest.mark.parametrize("kind", DECLARING)
@pytest.mark.parametrize(
    ("defaults", "said"),
    [
        ({"curency": "EUR"}, "'curency', and there is no such column; did you mean 'currency'?"),
        ({"currency": None}, "the default of column 'currency' is None"),
        ({"currency": 1}, "the default of column 'currency' is 1, which is no string"),
        (["currency"], "defaults"),
    ],
    ids=["unknown", "None", "another type", "no mapping"],
)
def test_mistakes_are_told_where_they_are_made(kind: str, defaults: Any, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        DECLARING[kind](defaults=defaults)
    assert said in str(refused.value)


@pytest.mark.parametrize("kind", DECLARING)
def test_a_spout_shows_them(kind: str) -> None:
    given = {"currency": "EUR"}
    spout = DECLARING[kind](defaults=given)
    assert "defaults={'currency': 'EUR'}" in repr(spout)
    assert "defaults" not in repr(DECLARING[kind]())
    builder = TopologyBuilder("shop")
    builder.set_spout("orders", spout)
    builder.set_sink("out", sinks.discard()).from_("orders")
    given["currency"] = "USD"  # what was declared stays
    topology = builder.build()
    assert "  default  'EUR' in currency, where a row has no value" in topology_text(topology)
    assert to_json(topology)["spouts"][0]["defaults"] == {"currency": "'EUR'"}


def test_columns_of_files_are_known_when_the_topology_is_built(tmp_path: Path) -> None:
    builder = TopologyBuilder("shop")
    with pa.OSFile(str(tmp_path / "1.arrow"), "wb") as sink, pa.ipc.new_file(sink, parse_schema("user string")):
        pass
    builder.set_spout("orders", spouts.files(tmp_path / "*.arrow", defaults={"currency": "EUR"}))
    builder.set_sink("out", sinks.discard()).from_("orders")
    with pytest.raises(TopologyError, match="spout 'orders': defaults name 'currency'"):
        builder.build()


def test_rows_are_not_merged_by_a_column_with_a_default() -> None:
    with pytest.raises(ConfigError, match="merge_by='number', and a default for 'number'"):
        spouts.files("in/*.jsonl", "number long", merge_by="number", defaults={"number": 0})


GIVEN: dict[str, Any] = {
    "dicts": [{"user": "a"}, {"user": "b", "currency": None}, {"user": "c", "currency": "CHF"}],
    "one after the other": ({"user": user} | more for user, more in [("a", {}), ("b", {}), ("c", {"currency": "CHF"})]),
    "tuples": [("a", None), ("b", None), ("c", "CHF")],
    "dicts and tables": [{"user": "a"}, pa.table({"user": ["b"]}), ("c", "CHF")],
    "a record batch": [pa.record_batch({"user": ["a", "b"]}), pd.DataFrame({"user": ["c"], "currency": ["CHF"]})],
    "a frame without the column": [pd.DataFrame({"user": ["a", "b"]}), {"user": "c", "currency": "CHF"}],
    "a frame without names": [pd.DataFrame([["a", None], ["b", None]]), ("c", "CHF")],
}


@pytest.mark.parametrize("form", GIVEN)
def test_rows_given_in_python_may_lack_the_column(form: str) -> None:
    spout = spouts.memory("user string, currency string", GIVEN[form], defaults={"currency": "EUR"})
    (table,) = spout.tables()
    rows = Defaults.of(spout.defaults, table.schema).filled(table).to_pylist()
    assert [tuple(row.values()) for row in rows] == [("a", "EUR"), ("b", "EUR"), ("c", "CHF")]


cells = st.one_of(st.none(), st.integers(-3, 3))


@given(st.lists(st.lists(cells, max_size=4), max_size=4), st.integers(-3, 3), st.sampled_from(["a", "b"]))
def test_rows_have_what_each_would_have_alone(chunks: list[list[int | None]], default: int, name: str) -> None:
    schema = parse_schema("a long")
    column = pa.chunked_array([pa.array(chunk, pa.int64()) for chunk in chunks], pa.int64())
    table = pa.table({name: column})
    filled = Defaults.of({"a": default}, schema).filled(table).column(name).to_pylist()
    given_ = [value for chunk in chunks for value in chunk]
    assert filled == ([default if value is None else value for value in given_] if name == "a" else given_)


@pytest.mark.parametrize(
    "ts", [parse_schema("ts timestamp").field(0).type, pa.timestamp("ms"), pa.timestamp("us", "Asia/Tokyo")]
)
def test_a_time_without_a_zone_is_of_the_spouts(ts: pa.DataType, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"n": 1}\n')
    schema = pa.schema([("ts", ts), ("n", pa.int64())])
    for wall, zone in ((datetime(2024, 7, 1, 12), "Europe/Berlin"), (MOMENT.replace(month=7, hour=10), None)):  # noqa: DTZ001
        builder, out = TopologyBuilder("times"), sinks.memory()
        files = spouts.files(str(tmp_path), schema, timezone=zone, defaults={"ts": wall})
        builder.set_spout("in", files)
        builder.set_sink("out", out).from_("in")
        run_local(builder.build())
        assert [row["ts"].astimezone(UTC).hour for row in out.rows] == [10]
