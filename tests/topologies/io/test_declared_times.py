"""Times in formats and units that a spout declares: read exactly as Python's ``strptime`` and decimals say, or bad."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import ROUND_FLOOR, Decimal, localcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import feather

from tests.helpers.examples import examples
from topologies.checkpoints.inspect_spouts import inspect_spouts
from topologies.engine.kafka_records import Records
from topologies.io.file_spout import FileSpout, chunks_of
from topologies.io.formats import FileSplit
from topologies.io.formats.declared_times import form_of
from topologies.io.formats.json import parse_values
from topologies.io.formats.text_values import bad_mask, cut_mask
from topologies.io.topics.declared import RECORD
from windbolt import TopologyBuilder, run_local, sinks, spouts
from windowing import TupleWindow, WindowedBolt
from windowing.errors import ConfigError
from windowing.schema import TIMESTAMP, parse_schema

LOCAL = pafs.LocalFileSystem()
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FORMATS = (
    "%d/%m/%Y %I:%M %p", "%Y%m%d", "%Y%m%d%H%M%S", "%d.%m.%y", "%b %d, %Y %H:%M:%S", "%A, %d %B %Y", "%Y-%jT%H",
    "%Y-%m-%d %H:%M:%S.%f", "%d/%b/%Y:%H:%M:%S %z", "%m/%d/%Y %H:%M:%S%z", "%a %b %d %Y", "100%% %Y-%m-%d",
    "%H.%M %d-%m-%Y", "%I%p %y%j",
)  # fmt: skip


EARLY = datetime(1000, 1, 1)  # noqa: DTZ001 - drawn without a zone
LATE = datetime(9999, 12, 30)  # noqa: DTZ001


def parsed(
    form: str, texts: list[str | None], kind: pa.DataType = TIMESTAMP
) -> tuple[list[Any], list[bool], list[bool]]:
    values, flags = form_of(form).parse(pa.array(texts, pa.string()), kind)
    none = [False] * len(texts)
    cut = None if flags is None else cut_mask(flags)
    return (
        values.to_pylist(),
        none if flags is None else bad_mask(flags).tolist(),
        none if cut is None else cut.tolist(),
    )


def by_python(form: str, text: str) -> datetime | None:
    """The moment that ``strptime`` reads; None where it reads none, or guesses."""
    try:
        found = datetime.strptime(text.strip(), form)  # noqa: DTZ007 - the format may have an offset
        moment = (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    if "%j" in form and found.strftime("%j") not in text:  # the 366th day of a year without one
        return None
    weekdays = [found.strftime(name) for name in ("%a", "%A") if name in form]
    return moment if all(name.lower() in text.lower() for name in weekdays) else None


@st.composite
def written(draw: st.DrawFn) -> tuple[str, str]:
    """A format, and a text that is nearly written so."""
    form = draw(st.sampled_from(FORMATS))
    moment = draw(st.datetimes(EARLY, LATE))
    offset = draw(st.integers(-1439, 1439))
    text = moment.replace(tzinfo=(EPOCH.astimezone(_zone(offset))).tzinfo).strftime(form)
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(text)))
        some = draw(st.sampled_from(["", "0", "1", "3", "9", " ", "a", "-", "+", "Z", ":", "pm"]))
        text = text[:at] + some + text[at + draw(st.integers(0, 2)) :]
    return form, text


def _zone(minutes: int) -> Any:
    return timezone(timedelta(minutes=minutes))


@given(st.lists(written(), min_size=1, max_size=20))
@examples(300)
def test_what_is_read_is_what_python_reads_and_nothing_else(drawn: list[tuple[str, str]]) -> None:
    for form in {form for form, _ in drawn}:
        texts = [text for each, text in drawn if each == form]
        values, bad, _ = parsed(form, list(texts))
        for text, value, is_bad in zip(texts, values, bad, strict=True):
            expected = by_python(form, text)
            assert (value is None) == is_bad
            if value is not None:
                assert value == expected, (form, text)
            elif _digits_are_whole(form):
                assert expected is None, (form, text)


def _digits_are_whole(form: str) -> bool:
    """True for formats without numbers side by side, of which Python takes some that lack digits."""
    return form not in ("%Y%m%d", "%Y%m%d%H%M%S", "%I%p %y%j")


@given(st.sampled_from(FORMATS), st.lists(st.datetimes(EARLY, LATE), min_size=1))
@examples(100)
def test_what_python_writes_is_read(form: str, moments: list[datetime]) -> None:
    texts = [each.replace(tzinfo=UTC).strftime(form) for each in moments]
    values, bad, _ = parsed(form, list(texts))
    assert not any(bad)
    assert values == [by_python(form, text) for text in texts]


@given(
    st.sampled_from(["s", "ms", "us", "ns"]),
    st.lists(
        st.one_of(
            st.integers(-(10**20), 10**20).map(str),
            st.decimals(-(10**11), 10**11, allow_nan=False, places=9).map(str),
            st.floats(allow_infinity=False, allow_nan=False).map(repr),
            st.sampled_from(
                ["", "x", "1e5", "1E+2", ".5", "5.", "+7", " 7 ", "1_000", "0x10", "nan", "inf", "1e999", "-0"]
            ),
        ),
        min_size=1,
        max_size=20,
    ),
)
@examples(300)
def test_numbers_of_a_unit_are_exact(unit: str, texts: list[str]) -> None:
    values, bad, cut = parsed(unit, list(texts))
    for text, value, is_bad, was_cut in zip(texts, values, bad, cut, strict=True):
        micros = _micros(text, unit)
        assert (value is None) == is_bad
        if value is None:
            assert micros is None or not (-62135596800 * 10**6 <= micros < 253402300800 * 10**6), text
        else:
            assert micros is not None
            low = micros.to_integral_value(ROUND_FLOOR)
            assert value == EPOCH + timedelta(microseconds=int(low))
            assert was_cut == (low != micros)


def _micros(text: str, unit: str) -> Decimal | None:
    if not text.strip() or any(sign in text for sign in "_xnf"):
        return None
    with localcontext() as context:
        context.prec = 2000
        return Decimal(text.strip()) * Decimal({"s": "1e6", "ms": "1e3", "us": "1", "ns": "1e-3"}[unit])


def test_digits_beyond_the_microsecond_are_cut_and_days_are_days() -> None:
    values, bad, cut = parsed("%Y-%m-%d %H:%M:%S.%f", ["2024-01-01 00:00:00.123456789", "2024-01-01 00:00:00.5", None])
    assert [None if each is None else each.microsecond for each in values] == [123456, 500000, None]
    assert (bad, cut) == ([False] * 3, [True, False, False])
    assert parsed("%d/%m/%Y", ["29/02/2024", "29/02/2023", "31/02/2024"], pa.date32()) == (
        [date(2024, 2, 29), None, None],
        [False, True, True],
        [False] * 3,
    )


def test_local_times_are_of_the_zone_and_offsets_come_first() -> None:
    kind = pa.timestamp("us", "America/New_York")
    values, _, _ = parsed("%d/%m/%Y %H:%M", ["10/03/2024 02:30", "03/11/2024 01:30"], kind)
    assert [each.astimezone(UTC).isoformat()[:16] for each in values] == ["2024-03-10T07:30", "2024-11-03T05:30"]
    values, _, _ = parsed("%d/%m/%Y %H:%M%z", ["10/03/2024 02:30+0100"], kind)
    assert values[0].astimezone(UTC).isoformat()[:16] == "2024-03-10T01:30"


# A row of each format, of one schema: the same rows whatever they are stored in, and the same bad ones.

SCHEMA = "id long, ts timestamp, at timestamp, day date"
TIMES = {"ts": "%d/%m/%Y %I:%M %p", "at": "s", "day": "%Y%m%d"}
TEXTS = ["31/01/2024 12:05 AM", "31/02/2024 12:05 AM", "01/02/2024 01:05 PM", "2024-01-01T00:00:00Z", None]
ATS: list[Any] = [1704088805, 1704088805, 1704088805.25, 1704088805, None]
DAYS = ["20240229", "20240229", "20240301", "20240301", None]
GOOD = [
    {
        "id": 0,
        "ts": datetime(2024, 1, 31, 5, 5, tzinfo=UTC),
        "at": datetime(2024, 1, 1, 6, 0, 5, tzinfo=UTC),
        "day": date(2024, 2, 29),
    },
    {
        "id": 2,
        "ts": datetime(2024, 2, 1, 18, 5, tzinfo=UTC),
        "at": datetime(2024, 1, 1, 6, 0, 5, 250_000, tzinfo=UTC),
        "day": date(2024, 3, 1),
    },
    {"id": 4, "ts": None, "at": None, "day": None},
]
BAD = {
    1: "column 'ts': '31/02/2024 12:05 AM' is no timestamp: there is no such day",
    3: "column 'ts': '2024-01-01T00:00:00Z' is no timestamp: "
    "it is not written like '%d/%m/%Y %I:%M %p', as times= says",
}


def objects() -> list[dict[str, Any]]:
    return [
        {"id": number, "ts": ts, "at": at, "day": day}
        for number, (ts, at, day) in enumerate(zip(TEXTS, ATS, DAYS, strict=True))
    ]


def _csv(path: Path) -> None:
    cells = [",".join("" if value is None else str(value) for value in each.values()) for each in objects()]
    path.write_text("\n".join(["id,ts,at,day", *cells]))


def _jsonl(path: Path) -> None:
    path.write_text("".join(f"{json.dumps(each)}\n" for each in objects()))


def _table() -> pa.Table:
    return pa.table({"id": range(5), "ts": TEXTS, "at": pa.array(ATS, pa.float64()), "day": DAYS})


WRITERS: dict[str, Callable[[Path], Any]] = {
    "csv": _csv,
    "jsonl": _jsonl,
    "json": lambda path: path.write_text(json.dumps(objects(), indent=1)),
    "parquet": lambda path: pq.write_table(_table(), path),
    "arrow": lambda path: feather.write_feather(_table(), str(path)),
    "orc": lambda path: orc.write_table(_table(), str(path)),
}


def read(spout: FileSpout) -> tuple[list[dict[str, Any]], dict[int, str]]:
    rows, bad = list[dict[str, Any]](), dict[int, str]()
    for path in spout.files():
        for table, _, wrong in chunks_of(spout, LOCAL, FileSplit(path), spout.outputs()["default"]):
            rows += table.to_pylist()
            bad |= {row["row"]: row["reason"] for row in wrong.rows.to_pylist()}
    return rows, bad


@pytest.mark.parametrize("kind", WRITERS)
def test_each_format_of_files_reads_them_alike(tmp_path: Path, kind: str) -> None:
    WRITERS[kind](tmp_path / f"a.{kind}")
    spout = spouts.files(tmp_path / f"*.{kind}", SCHEMA, times=TIMES, timezone="America/New_York")
    assert read(spout) == (GOOD, BAD)


def test_values_of_kafka_are_read_alike() -> None:
    spout = spouts.kafka("h:1", "t", SCHEMA, times=TIMES, timezone="America/New_York")
    builder = TopologyBuilder("t")
    builder.set_spout("in", spout)
    builder.set_sink("out", sinks.memory()).from_("in")
    values = [json.dumps(each).encode() for each in objects()]
    number = len(values)
    record = pa.schema(
        [field for field in RECORD if field.name in ("topic", "partition", "offset", "timestamp", "value")]
    )
    table = pa.table([["t"] * number, [0] * number, range(number), [EPOCH] * number, values], schema=record)
    (batch,) = Records("in", [table]).read(builder.build())
    assert batch.table.to_pylist() == GOOD
    assert {row["row"]: row["reason"] for row in (batch.bad or RECORD.empty_table()).to_pylist()} == BAD


def test_the_ways_of_json_agree() -> None:
    """Rows that msgspec decodes, and those that Python reads because something else in them is odd."""
    schema, times = parse_schema("a timestamp, n long"), (("a", "ms"),)
    for value in (
        "1704088805000",
        '"1704088805000"',
        "1704088805.5",
        "null",
        '"\\u0031"',
        "true",
        '"x"',
        "[1]",
        "{}",
        "-1e3",
    ):
        plain, odd = f'{{"a": {value}, "n": 1}}', f'{{"a": {value}, "n": 1.0}}'
        found = [parse_values(pa.array([text.encode()]), schema, "cut", times) for text in (plain, odd)]
        assert found[0][0].to_pylist() == found[1][0].to_pylist(), value
        assert found[0][2].rows["reason"].to_pylist() == found[1][2].rows["reason"].to_pylist(), value


def test_a_decimal_comma_is_one_in_numbers_of_a_unit_too(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("ts;d\n1704088805,25;1,5\n")
    spout = spouts.files(tmp_path, "ts timestamp, d double", times={"ts": "s"}, delimiter=";", decimal_point=",")
    assert read(spout)[0] == [{"ts": datetime(2024, 1, 1, 6, 0, 5, 250_000, tzinfo=UTC), "d": 1.5}]


def test_folders_have_times_in_a_format(tmp_path: Path) -> None:
    for folder in ("dt=01-02-2024", "dt=31-02-2024"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.jsonl").write_text('{"id": 1}\n')
    spout = spouts.files(tmp_path, "id long", format="jsonl", partition_columns="dt date", times={"dt": "%d-%m-%Y"})
    assert spout.partition_of("/dt=01-02-2024/a.jsonl").values["dt"].to_pylist() == [date(2024, 2, 1)]
    builder, out = TopologyBuilder("t"), sinks.memory()
    builder.set_spout("in", spout)
    builder.set_bolt("ids", Ids().with_tumbling_window(1)).global_grouping("in")
    builder.set_sink("out", out).from_("ids")
    summary = run_local(builder.build())
    assert out.rows == [{"day": date(2024, 2, 1)}]
    assert summary.this_run()["ids"].accounts["invalid"] == 1


class Ids(WindowedBolt):
    outputs = "day date"

    def execute(self, window: TupleWindow) -> Any:
        return (window.get()[0]["dt"],)


MISTAKES: dict[str, Callable[[], Any]] = {
    "it has no year": lambda: spouts.files("a.csv", SCHEMA, times={"ts": "%H:%M"}),
    "%q is not known; there are %Y": lambda: spouts.files("a.csv", SCHEMA, times={"ts": "%Y%q"}),
    "needs %p": lambda: spouts.files("a.csv", SCHEMA, times={"ts": "%I:%M %d/%m/%Y"}),
    "has %Y and %y, of which": lambda: spouts.files("a.csv", SCHEMA, times={"ts": "%Y %y %j"}),
    "has %d and %d, of which": lambda: spouts.files("a.csv", SCHEMA, times={"ts": "%d.%m.%Y %d"}),
    "neither a format nor a unit": lambda: spouts.files("a.csv", SCHEMA, times={"ts": "seconds"}),
    "percent sign": lambda: spouts.files("a.csv", SCHEMA, times={"ts": "%d.%m.%Y %"}),
    "'day' is a date": lambda: spouts.files("a.csv", SCHEMA, times={"day": "s"}),
    "(?s)'day' is a date.*format of dates": lambda: spouts.files("a.csv", SCHEMA, times={"day": "%d.%m.%Y %H:%M"}),
    "'id' is no timestamp": lambda: spouts.files("a.csv", SCHEMA, times={"id": "s"}),
    "not a column.*did you mean 'ts'": lambda: spouts.files("a.csv", SCHEMA, times={"tss": "s"}),
    "a line, which has no times": lambda: spouts.files("a.txt", times={"line": "s"}),
    "without a schema": lambda: spouts.files("a.parquet", times={"ts": "s"}),
    "kafka.. with times=.* without a schema": lambda: spouts.kafka("h:1", "t", times={"ts": "s"}),
    "says of columns how": lambda: spouts.files("a.csv", SCHEMA, times={"ts": 1}),  # type: ignore[dict-item]
}


@pytest.mark.parametrize("problem", MISTAKES)
def test_what_is_no_form_of_times_is_refused_at_once(problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        MISTAKES[problem]()


def told(tmp_path: Path, text: str, schema: str, **options: Any) -> dict[str, str]:
    (tmp_path / "a.csv").write_text(text)
    builder = TopologyBuilder("t")
    builder.set_spout("in", spouts.files(tmp_path / "*.csv", schema, **options))
    builder.set_bolt("ids", Ids().with_tumbling_window(1).with_timestamp_field("ts")).global_grouping("in")
    builder.set_sink("out", sinks.memory()).from_("ids")
    return {word: fact for word, fact in inspect_spouts(builder.build())["in"].facts if word in ("ts", "at", "dt")}


def test_check_says_of_each_column_how_it_is_written_and_read(tmp_path: Path) -> None:
    rows = "ts,at,dt\n01/02/2024 06:00,1704088805,2024-01-01\n01/02/2024 07:00,,2024-01-02\n"
    assert told(tmp_path, rows, "ts timestamp, at timestamp, dt date", timezone="America/New_York",
                times={"ts": "%d/%m/%Y %H:%M", "at": "s"}) == {
        "ts": "2024-02-01T11:00:00Z to 2024-02-01T12:00:00Z; "
              "written like '01/02/2024 06:00', read as '%d/%m/%Y %H:%M', in America/New_York",
        "at": "2024-01-01T06:00:05Z to 2024-01-01T06:00:05Z; written like '1704088805', read as numbers of seconds",
        "dt": "2024-01-01 to 2024-01-02; written like '2024-01-01', as a day",
    }  # fmt: skip
    rows = "ts,at,dt\n1704088805000,2024-01-01 06:00,\n2024-01-02T06:00:00+01:00,2024-01-01 06:00,\n1704088805000,,\n"
    found = told(tmp_path, rows, "ts timestamp, at timestamp, dt date")
    assert found == {
        "ts": "2024-01-01T06:00:05Z to 2024-01-02T05:00:00Z; written 2 like '1704088805000', "
        "read as milliseconds since 1970; 1 like '2024-01-02T06:00:00+01:00', with its offset",
        "at": "2024-01-01T06:00:00Z to 2024-01-01T06:00:00Z; "
        "written like '2024-01-01 06:00', without an offset, in UTC",
        "dt": "no values",
    }


@pytest.mark.parametrize("times", [{}, {"ts": "%d/%m/%Y %H:%M"}])
def test_check_counts_times_beside_changes_of_the_clocks(tmp_path: Path, times: dict[str, str]) -> None:
    days = {"27/10/2024": ("01:59", "02:00", "02:59", "03:00"), "31/03/2024": ("01:59", "02:00", "03:00")}
    lines = [f"{day} {hour}" for day, hours in days.items() for hour in hours]
    if not times:
        lines = [f"{line[6:10]}-{line[3:5]}-{line[:2]}{line[10:]}" for line in lines] + ["2024-10-27T02:30:00+02:00"]
    (tmp_path / "b.csv").write_text("ts\n" + "".join(f"{line}\n" for line in lines))
    found = told(tmp_path, f"ts\n{lines[0]}\n", "ts timestamp", timezone="Europe/Berlin", times=times)
    ending = (
        "2 of an hour that is there twice, taken for the first; 1 of an hour that is skipped, counted from before it"
    )
    assert found["ts"].endswith(f"; {ending}")
    found = told(tmp_path, f"ts\n{lines[0]}\n", "ts timestamp", times=times)
    assert "hour that" not in found["ts"]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: spouts.files("in/*.csv", schema="ts timestamp", time_zone="UTC"), "'time_zone' .*mean 'timezone'"),
        (lambda: spouts.files("in/*.csv", schema="ts timestamp", time={"ts": "s"}), "'time' .*mean 'times'"),
        (lambda: spouts.files("in/*.csv", schema="ts timestamp", delimeter=";"), "'delimeter' .*mean 'delimiter'"),
        (lambda: spouts.files("in/*.csv", schema="ts timestamp", tz="UTC"), "'tz' .*the arguments are .*timezone"),
        (lambda: spouts.kafka("a:1", "t", schema="ts timestamp", time_zone="UTC"), "'time_zone'.*mean 'timezone'"),  # type: ignore[call-arg]
        (lambda: sinks.files("out", fmt="csv"), "'fmt' .*mean 'format'"),
        (lambda: sinks.files("out", format="csv", delimter=";"), "'delimter' .*mean 'delimiter'"),
    ],
)
def test_a_misspelt_argument_is_told_with_the_one_that_was_meant(make: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        make()
