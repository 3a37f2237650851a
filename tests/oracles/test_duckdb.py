"""DuckDB as the oracle of joins, aggregates, sessions and calendars: windbolt answers to drawn events what it answers.

No event is late; they come in pieces, to several tasks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from math import isclose
from typing import Any
from zoneinfo import ZoneInfo

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.examples import examples
from windbolt import TopologyBuilder, run_local, sinks, spouts
from windowing import AggregateBolt, Calendar, Session, TemporalJoin, WindowJoin, millis, minutes, seconds
from windowing import aggregates as agg
from windowing.bolts.windowed_bolt import WindowedBolt

START = datetime(2024, 3, 1, tzinfo=UTC)  # where windows of 10 s begin
NEVER = 1_000_000
Row = dict[str, Any]


@pytest.fixture(scope="module")
def duck() -> Iterator[duckdb.DuckDBPyConnection]:
    with closing(duckdb.connect()) as connection:
        connection.execute("SET timezone = 'UTC'")
        yield connection


def answered(bolt: WindowedBolt, inputs: Mapping[str, tuple[str, list[Row]]], pieces: int, tasks: int) -> list[Row]:
    """The rows of a bolt over inputs that come in so many pieces, each with its schema."""
    builder, out = TopologyBuilder("asked"), sinks.memory()
    declared = builder.set_bolt("bolt", bolt, tasks)
    for name, (schema, rows) in inputs.items():
        builder.set_spout(name, spouts.memory(schema, *(rows[at::pieces] for at in range(pieces))))
        declared.fields_grouping(name, "key")
    builder.set_sink("out", out).from_("bolt")
    run_local(builder.build())
    return out.rows


# Joins


@st.composite
def events(draw: st.DrawFn, *, unique: bool = False) -> list[Row]:
    row = st.fixed_dictionaries(
        {
            "key": st.sampled_from(["x", "y", None]),
            "start": st.integers(0, 30),
            "length": st.sampled_from([None, 1, 5]),
        }
    )
    by = (lambda each: (each["key"], each["start"])) if unique else None
    drawn = draw(st.lists(row, max_size=12, unique_by=by))
    return [{"id": at, **each} for at, each in enumerate(drawn)]


def times_of(events: list[Row], *, until: bool) -> list[Row]:
    """The events as rows, with a column of their ends or without."""
    rows = []
    for each in events:
        row, end = {"id": each["id"], "key": each["key"], "ts": START + timedelta(seconds=each["start"])}, end_of(each)
        if until:
            row["until"] = None if end == NEVER else START + timedelta(seconds=end)
        rows.append(row)
    return rows


def end_of(event: Row) -> int:
    return NEVER if event["length"] is None else int(event["start"] + event["length"])


def joined(duck: duckdb.DuckDBPyConnection, tables: str, how: str) -> Counter[tuple[Any, ...]]:
    """Pairs of ids by SQL; ``tables`` are those of both sides and the condition between them."""
    ids = "l.id, NULL" if how in ("semi", "anti") else "l.id, r.id"
    left, right, condition = tables.split("; ")
    return Counter(duck.execute(f"SELECT {ids} FROM {left} l {how} JOIN {right} r ON {condition}").fetchall())


def pairs_of(rows: list[Row]) -> Counter[tuple[Any, ...]]:
    return Counter((row["id"], None) if "id" in row else (row["left_id"], row["right_id"]) for row in rows)


def loaded(duck: duckdb.DuckDBPyConnection, **tables: list[Row]) -> None:
    columns = {"id": pa.int64(), "key": pa.string(), "start": pa.int64(), "stop": pa.int64()}
    for name, given_events in tables.items():
        rows = [{**each, "stop": end_of(each)} for each in given_events]
        duck.register("given", pa.Table.from_pylist(rows, pa.schema(columns.items())))
        duck.execute(f"CREATE OR REPLACE TABLE {name}_events AS SELECT * FROM given")


HOW = ("inner", "left", "right", "full", "semi", "anti")


@examples(60, by_default=100)
@given(
    events(), events(), st.sampled_from(HOW), st.sampled_from([(5, 5), (10, 5)]), st.integers(1, 3), st.integers(1, 2)
)
def test_joins_by_window(
    duck: duckdb.DuckDBPyConnection, left: list[Row], right: list[Row], how: Any, window: tuple[int, int],
    pieces: int, tasks: int,
) -> None:  # fmt: skip
    length, slide = window
    bolt = WindowJoin("left", "right", on="key", how=how).with_window(seconds(length), seconds(slide))
    bolt = bolt.with_timestamp_field("ts").with_alignment(bounds="[start, end)").with_lag(minutes(1))
    inputs = {name: ("id long, key string, ts timestamp", times_of(each, until=False))
              for name, each in (("left", left), ("right", right))}  # fmt: skip
    rows = answered(bolt, inputs, pieces, tasks)
    loaded(duck, left=left, right=right)
    windows = "(SELECT * FROM {}_events, range(-10, 40, {}) w(since) WHERE start >= since AND start < since + {})"
    of_left, of_right = (windows.format(name, slide, length) for name in ("left", "right"))
    assert pairs_of(rows) == joined(duck, f"{of_left}; {of_right}; l.key = r.key AND l.since = r.since", how)


@examples(60, by_default=100)
@given(events(), events(), st.sampled_from(HOW), st.integers(1, 3), st.integers(1, 2))
def test_joins_by_lifetime(
    duck: duckdb.DuckDBPyConnection, left: list[Row], right: list[Row], how: Any, pieces: int, tasks: int
) -> None:
    bolt = TemporalJoin("left", "right", on="key", how=how).with_lifetime("until")
    bolt = bolt.with_timestamp_field("ts").with_lag(minutes(1))
    inputs = {name: ("id long, key string, ts timestamp, until timestamp", times_of(each, until=True))
              for name, each in (("left", left), ("right", right))}  # fmt: skip
    rows = answered(bolt, inputs, pieces, tasks)
    loaded(duck, left=left, right=right)
    condition = "l.key = r.key AND l.start < r.stop AND r.start < l.stop"
    assert pairs_of(rows) == joined(duck, f"left_events; right_events; {condition}", how)


@examples(60, by_default=100)
@given(
    events(),
    events(unique=True),
    st.sampled_from(["inner", "left", "semi", "anti"]),
    st.integers(1, 3),
    st.integers(1, 2),
)
def test_joins_with_versions(
    duck: duckdb.DuckDBPyConnection, left: list[Row], right: list[Row], how: Any, pieces: int, tasks: int
) -> None:
    bolt = TemporalJoin("left", "right", on="key", how=how, versions=True)
    bolt = bolt.with_timestamp_field("ts").with_lag(minutes(1))
    inputs = {name: ("id long, key string, ts timestamp", times_of(each, until=False))
              for name, each in (("left", left), ("right", right))}  # fmt: skip
    rows = answered(bolt, inputs, pieces, tasks)
    loaded(duck, left=left, right=right)
    versions = f"(SELECT *, lead(start, 1, {NEVER}) OVER (PARTITION BY key ORDER BY start) AS next FROM right_events)"
    condition = "l.key = r.key AND l.start >= r.start AND l.start < r.next"
    assert pairs_of(rows) == joined(duck, f"left_events; {versions}; {condition}", how)


# Aggregates

VALUES: dict[str, tuple[str, pa.DataType, st.SearchStrategy[Any]]] = {
    "whole": ("long", pa.int64(), st.integers(-(2**40), 2**40) | st.integers(-2, 2)),
    "small": ("int", pa.int32(), st.sampled_from([-(2**31), 2**31 - 1, 0, 1])),
    "real": ("double", pa.float64(), st.integers(-4000, 4000).map(lambda each: each / 4)),
    "money": ("decimal(18,4)", pa.decimal128(18, 4), st.decimals(-(10**13), 10**13, places=4)),
    "name": ("string", pa.string(), st.sampled_from(["", "a", "B", "b", "ä", "\U0001f600"])),
    "flag": ("boolean", pa.bool_(), st.booleans()),
    "day": ("date", pa.date32(), st.dates()),
    "moment": ("timestamp", pa.timestamp("us", "UTC"), st.integers(-(2**51), 2**52).map(
        lambda each: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=each))),
}  # fmt: skip
NUMBERS = ("whole", "small", "real", "money")
PICKED = "(list(id ORDER BY {}, ts) FILTER ({} NOTNULL))[1]"
ASKED: dict[str, tuple[Any, str]] = {
    "events": (agg.count(), "count(*)"),
    "corr": (agg.corr("small", "real"), "corr(small::double, real)"),
    "cov": (agg.covariance("small", "real"), "covar_samp(small::double, real)"),
    **{f"{column}_n": (agg.count(column), f"count({column})") for column in VALUES},
    **{f"{column}_different": (agg.distinct_count(column), f"count(DISTINCT {column})") for column in VALUES},
    **{f"{column}_min": (agg.min(column), f"min({column})") for column in VALUES},
    **{f"{column}_max": (agg.max(column), f"max({column})") for column in VALUES},
    **{f"{column}_first": (agg.first(column), f"arg_min_null({column}, ts)") for column in VALUES},
    **{f"{column}_last": (agg.last(column), f"arg_max_null({column}, ts)") for column in VALUES},
    **{f"{column}_most": (agg.max_by("id", by=column), PICKED.format(f"{column} DESC", column)) for column in VALUES},
    **{f"{column}_least": (agg.min_by("id", by=column), PICKED.format(column, column)) for column in VALUES},
    **{f"{column}_sum": (agg.sum(column), f"sum({column})") for column in NUMBERS},
    **{f"{column}_mean": (agg.mean(column), f"sum({column})::double / count({column})") for column in NUMBERS},
    **{f"{column}_variance": (agg.variance(column), f"var_samp({column}::double)") for column in ("small", "real")},
    **{f"{column}_std": (agg.std(column, ddof=0), f"stddev_pop({column}::double)") for column in ("small", "real")},
}  # fmt: skip


def equal(found: object, wanted: object) -> bool:
    if isinstance(found, float) and isinstance(wanted, (float, int, Decimal)):
        return isclose(found, wanted, rel_tol=1e-9, abs_tol=1e-9)
    if found is None and isinstance(wanted, float):
        return wanted != wanted  # where nothing varies there is no correlation: DuckDB says NaN
    return found == wanted


@st.composite
def measured(draw: st.DrawFn) -> list[Row]:
    moments = draw(st.lists(st.integers(0, 30_000), min_size=1, max_size=25, unique=True))
    columns = {name: st.none() | values for name, (_, _, values) in VALUES.items()}
    row = st.fixed_dictionaries({"key": st.sampled_from(["x", "y", None]), **columns})
    return [{"id": at, "ts": START + timedelta(milliseconds=each), **draw(row)} for at, each in enumerate(moments)]


@examples(60, by_default=100)
@given(measured(), st.sampled_from([(10, 10), (10, 5), (4, 2)]), st.integers(1, 3), st.integers(1, 2))
def test_aggregates(
    duck: duckdb.DuckDBPyConnection, rows: list[Row], window: tuple[int, int], pieces: int, tasks: int
) -> None:
    length, slide = window
    columns = {name: aggregate for name, (aggregate, _) in ASKED.items()}
    bolt = AggregateBolt("key", since=agg.window_start(), **columns).with_window(seconds(length), seconds(slide))
    bolt = bolt.with_timestamp_field("ts").with_alignment(bounds="[start, end)").with_lag(minutes(1))
    schema = "id long, ts timestamp, key string, " + ", ".join(
        f"{name} {kind}" for name, (kind, _, _) in VALUES.items()
    )
    found = {(row["key"], row["since"]): row for row in answered(bolt, {"in": (schema, rows)}, pieces, tasks)}

    fields = {"id": pa.int64(), "ts": pa.timestamp("us", "UTC"), "key": pa.string()}
    fields |= {name: kind for name, (_, kind, _) in VALUES.items()}
    duck.register("given", pa.Table.from_pylist(rows, pa.schema(fields.items())))
    asked = ", ".join(f"{sql} AS {name}" for name, (_, sql) in ASKED.items())
    answer = duck.execute(
        f"SELECT key, since, {asked} FROM given, range(-{length}, 31, {slide}) w(step), "
        f"LATERAL (SELECT TIMESTAMPTZ '{START.isoformat()}' + to_seconds(step) AS since) "
        f"WHERE ts >= since AND ts < since + INTERVAL {length} SECONDS GROUP BY key, since"
    ).fetchall()
    assert {(row[0], row[1].astimezone(UTC)) for row in answer} == set(found)
    for key, since, *wanted in answer:
        row = found[key, since.astimezone(UTC)]
        assert not {
            name: (row[name], each) for name, each in zip(ASKED, wanted, strict=True) if not equal(row[name], each)
        }


# Sessions


@examples(60, by_default=100)
@given(measured(), st.sampled_from([1000, 2500, 5000]), st.booleans(), st.integers(1, 3), st.integers(1, 2))
def test_sessions(
    duck: duckdb.DuckDBPyConnection, rows: list[Row], gap: int, touching: bool, pieces: int, tasks: int
) -> None:
    rows = [{**row, "ts": row["ts"].replace(microsecond=row["ts"].microsecond // 500_000 * 500_000)} for row in rows]
    bolt = AggregateBolt("key", n=agg.count(), since=agg.window_start(), until=agg.window_end()).with_key("key")
    bolt = bolt.with_window(Session(millis(gap), touching=touching)).with_timestamp_field("ts").with_lag(minutes(1))
    given_rows = [{"key": row["key"], "ts": row["ts"]} for row in rows]
    found = answered(bolt, {"in": ("key string, ts timestamp", given_rows)}, pieces, tasks)
    kinds = pa.schema([("key", pa.string()), ("ts", pa.timestamp("us", "UTC"))])
    duck.register("given", pa.Table.from_pylist(given_rows, kinds))
    lapse, apart = f"INTERVAL {gap} MILLISECONDS", ">" if touching else ">="
    answer = duck.execute(
        f"WITH opens AS (SELECT *, ts - lag(ts) OVER keys {apart} {lapse} AS opens FROM given "
        "WINDOW keys AS (PARTITION BY key ORDER BY ts)), "
        "numbered AS (SELECT *, sum(coalesce(opens, true)::int) OVER keys AS session FROM opens "
        "WINDOW keys AS (PARTITION BY key ORDER BY ts)) "
        f"SELECT key, count(*), min(ts), max(ts) + {lapse} FROM numbered GROUP BY key, session"
    ).fetchall()
    assert Counter((row["key"], row["n"], row["since"], row["until"]) for row in found) == Counter(
        (key, count, since.astimezone(UTC), until.astimezone(UTC)) for key, count, since, until in answer
    )


# Days, weeks, months, quarters and years of a zone

ZONES = [
    "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Sao_Paulo", "Asia/Kathmandu", "Pacific/Apia",
    "Africa/Cairo", "America/St_Johns", "Asia/Tehran", "Antarctica/Troll", "Europe/Dublin", "Africa/Casablanca",
]  # fmt: skip


@examples(60, by_default=100)
@given(
    st.sampled_from(ZONES), st.sampled_from(["day", "week", "month", "quarter", "year"]), st.integers(1985, 2030),
    st.lists(st.integers(0, 366 * 24 * 60), min_size=1, max_size=40), st.integers(1, 3),
)  # fmt: skip
def test_calendars(
    duck: duckdb.DuckDBPyConnection, zone: str, unit: Any, year: int, moments: list[int], pieces: int
) -> None:
    changes = [at for at in range(0, 366 * 24, 12) if _offset(zone, year, at) != _offset(zone, year, at + 12)]
    near = [at * 60 + each % 1440 for at in changes for each in moments[:5]]
    rows = [
        {"key": "", "ts": datetime(year, 1, 1, tzinfo=UTC) + timedelta(minutes=each)} for each in sorted(moments + near)
    ]
    bolt = AggregateBolt("key", n=agg.count(), since=agg.window_start()).with_window(Calendar(unit, zone))
    bolt = bolt.with_timestamp_field("ts").with_lag("400d")
    found = {row["since"]: row["n"] for row in answered(bolt, {"in": ("key string, ts timestamp", rows)}, pieces, 1)}
    duck.register(
        "given", pa.Table.from_pylist(rows, pa.schema([("key", pa.string()), ("ts", pa.timestamp("us", "UTC"))]))
    )
    duck.execute(f"SET timezone = '{zone}'")
    answer = duck.execute(f"SELECT date_trunc('{unit}', ts)::timestamptz, count(*) FROM given GROUP BY 1").fetchall()
    duck.execute("SET timezone = 'UTC'")
    assert found == {since.astimezone(UTC): count for since, count in answer}


def _offset(zone: str, year: int, hour: int) -> timedelta | None:
    return (datetime(year, 1, 1, tzinfo=UTC) + timedelta(hours=hour)).astimezone(ZoneInfo(zone)).utcoffset()
