"""Columns from the names of folders, ``dt=2024-01-01/hour=06/``: typed, checked against the files, never guessed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

from topologies.checkpoints.inspect_spouts import inspect_spouts
from topologies.engine.source_splits import FileSource
from topologies.io import sinks, spouts
from topologies.io.file_spout import FileSpout
from topologies.io.formats import FileSplit, write_table
from topologies.io.spout_columns import folder_texts
from topologies.local import LocalRun
from topologies.topology import Topology
from windbolt import RunOptions, Summary, TopologyBuilder, run_local
from windowing import AggregateBolt, TupleWindow, WindowedBolt, aggregates
from windowing.errors import ConfigError

LOCAL = pafs.LocalFileSystem()
Row = dict[str, Any]


def put(folder: Path, name: str, *rows: Row) -> None:
    """A file of these rows, in the format of its name."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    kind = path.suffix.removeprefix(".")
    if kind == "jsonl":
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    elif kind == "csv":
        head = list(dict.fromkeys(name for row in rows for name in row))
        lines = [",".join(str(row.get(name, "")) for name in head) for row in rows]
        path.write_text("\n".join([",".join(head), *lines, ""]))
    else:
        write_table(LOCAL, str(path), pa.Table.from_pylist(list(rows)), kind)


def read(spout: FileSpout) -> tuple[list[Row], list[tuple[int | None, str]]]:
    """The rows that a run has of a spout, and the reasons for others."""
    builder, out, bad = TopologyBuilder("partitions"), sinks.memory(), sinks.memory()
    builder.set_spout("in", spout)
    builder.set_sink("out", out).from_("in")
    builder.set_sink("bad", bad).from_("in", stream="errors")
    run_local(builder.build())
    return out.rows, [(row["_row"], row["_reason"]) for row in bad.rows]


VALUES: dict[tuple[str, str], Any] = {
    ("date", "2024-01-31"): date(2024, 1, 31),
    ("date", "20240131"): date(2024, 1, 31),
    ("timestamp", "2024-01-31"): datetime(2024, 1, 31, tzinfo=UTC),
    ("timestamp", "20240131"): datetime(2024, 1, 31, tzinfo=UTC),
    ("timestamp", "2024-01-31T06%3A30%3A00"): datetime(2024, 1, 31, 6, 30, tzinfo=UTC),
    ("timestamp", "2024-01-31 06%3A30%3A00.5Z"): datetime(2024, 1, 31, 6, 30, 0, 500_000, tzinfo=UTC),
    ("int", "06"): 6,
    ("long", "-9223372036854775808"): -(2**63),
    ("string", "06"): "06",
    ("string", "a%2Fb%3Dc %C3%A9"): "a/b=c é",
    ("string", "100%"): "100%",
    ("string", "é=ü"): "é=ü",
    ("boolean", "true"): True,
    ("double", "1.5"): 1.5,
    ("decimal(4, 2)", "1.5"): Decimal("1.50"),
    **{(kind, "__HIVE_DEFAULT_PARTITION__"): None for kind in ("date", "int", "string", "timestamp")},
}


def test_values_have_the_declared_types(tmp_path: Path) -> None:
    for number, ((kind, text), value) in enumerate(VALUES.items()):
        put(tmp_path, f"{number}/p={text}/x.jsonl", {"id": 1}, {"id": 2})
        spout = spouts.files(tmp_path / str(number), "id long", format="jsonl", partition_columns=f"p {kind}")
        assert spout.outputs()["default"].names == ["id", "p"]
        assert read(spout) == ([{"id": 1, "p": value}, {"id": 2, "p": value}], []), (kind, text)


REFUSED = {
    ("date", "p=2024-02-30"): r"in the folder p=2024-02-30, which is no date\. dates and times are written",
    ("date", "p=1704067200000"): "which is no date",
    ("timestamp", "p=1704067200000"): "which is no timestamp",  # not a moment of milliseconds, nor of seconds
    ("int", "p=six"): r"which is no int\. partition_columns declare 'p' as int",
    ("int", "p=3000000000"): "which is no int",
    ("int", "p="): "it has no value; a folder of rows without one is called p=__HIVE_DEFAULT_PARTITION__",
    ("string", "p="): "which is no string",
    ("string", "p=%FF"): "percent signs is not UTF-8",
    ("int", "P=1"): r"is in no folder p=\.\.\.; did you mean 'P'\?.*the folders of the file are P=",
    ("int", "q=1"): "the folders of the file are q=",
    ("int", "."): "the folders of the file are none of the form name=value",
    ("int", "p=1/p=2"): "is in two folders of the column 'p'",
    ("int", "p=1/sub/q=2"): r"is in no folder p=\.\.\.",
}


def test_what_is_no_value_costs_the_file_and_says_why(tmp_path: Path) -> None:
    for number, ((kind, folder), reason) in enumerate(REFUSED.items()):
        put(tmp_path, f"{number}/{folder}/x.jsonl", {"id": 1})
        paths = f"{tmp_path}/{number}/**/*.jsonl"
        rows, bad = read(spouts.files(paths, "id long", partition_columns=f"p {kind}"))
        assert rows == [], folder
        ((row, why),) = bad
        assert row is None
        assert re.search(reason, why), why


def test_a_time_finer_than_microseconds_is_cut_in_each_row_or_costs_the_file(tmp_path: Path) -> None:
    put(tmp_path, "p=2024-01-31T06%3A30%3A00.000000001/x.jsonl", {"id": 1}, {"id": 2}, {"id": "?"})
    put(tmp_path, "p=2024-01-31T06%3A30%3A00.000001000/y.jsonl", {"id": 3})

    def accounts(**how: Any) -> dict[str, int]:
        builder = TopologyBuilder("partitions")
        spout = spouts.files(tmp_path, "id long", format="jsonl", partition_columns="p timestamp", **how)
        builder.set_spout("in", spout)
        bolt = AggregateBolt(n=aggregates.count()).with_tumbling_window("1h").with_timestamp_field("p")
        builder.set_bolt("n", bolt).global_grouping("in")
        builder.set_sink("out", sinks.discard()).from_("n")
        last = run_local(builder.build()).last
        assert last is not None
        of_bolt = {name: last.bolts["n"].accounts[name] for name in ("windowed", "invalid", "truncated")}
        return {**of_bolt, "of spout": last.spouts["in"]["truncated"]}

    assert accounts() == {"windowed": 3, "invalid": 1, "truncated": 2, "of spout": 2}
    assert accounts(on_truncation="error") == {"windowed": 1, "invalid": 1, "truncated": 0, "of spout": 0}
    spout = spouts.files(tmp_path, "id long", format="jsonl", partition_columns="p timestamp", on_truncation="error")
    ((_, reason),) = read(spout)[1]
    assert "in the folder p=2024-01-31T06%3A30%3A00.000000001, which is finer than a microsecond" in reason


def test_a_folder_above_a_project_or_between_does_not_count(tmp_path: Path) -> None:
    assert folder_texts("/home/hour=1/shop/events/dt=2/hour=3/x.jsonl") == {"dt": "2", "hour": "3"}
    assert folder_texts("s3://bucket/dt=2/eu/x.jsonl") == {"dt": "2"}
    assert folder_texts("/x.jsonl") == folder_texts("/.dt=1/x.jsonl") == {}


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet", "arrow"])
def test_a_file_that_has_the_column_too_has_to_say_the_same(tmp_path: Path, kind: str) -> None:
    """Where it says something else, nobody knows which is right: the row is bad, whoever asks for the column."""
    put(tmp_path, f"dt=2024-01-01/n=7/a.{kind}", {"id": 1}, {"id": 2})
    put(tmp_path, f"dt=2024-01-01/n=7/b.{kind}", {"id": 3, "n": 7}, {"id": 4, "n": 8}, {"id": 5, "n": 7})
    put(tmp_path, f"dt=2024-01-01/n=__HIVE_DEFAULT_PARTITION__/c.{kind}", {"id": 6, "n": 7}, {"id": 7})
    spout = spouts.files(tmp_path, "id long", format=kind, partition_columns="dt date, n int")  # type: ignore[arg-type]
    rows, bad = read(spout)
    assert {(row["id"], row["n"]) for row in rows} == {(1, 7), (2, 7), (3, 7), (5, 7), (7, None)}
    assert {row["dt"] for row in rows} == {date(2024, 1, 1)}
    reason = "is not what the folder of the file says, n="
    assert sorted(bad) == [
        (0, f"column 'n': 7 {reason}__HIVE_DEFAULT_PARTITION__"),
        (1, f"column 'n': 8 {reason}7"),
    ]
    builder, out = TopologyBuilder("counted"), sinks.memory()
    builder.set_spout("in", spout)
    builder.set_bolt("ids", Ids().with_tumbling_window(1)).global_grouping("in")
    builder.set_sink("out", out).from_("ids")
    summary = run_local(builder.build())
    assert sum(row["ids"].count(" ") + 1 for row in out.rows) == 5
    assert summary.this_run()["ids"].accounts["invalid"] == 2


def test_floats_that_are_equal_say_the_same(tmp_path: Path) -> None:
    values = {"0": "-0.0", "-0": "0.0", "NaN": '"nan"', "1.50": "1.5"}
    for folder, value in values.items():
        (tmp_path / f"x={folder}").mkdir()
        (tmp_path / f"x={folder}/a.jsonl").write_text(f'{{"x": {value}}}\n')
    for kind in ("double", "float"):
        spout = spouts.files(tmp_path, "id long", format="jsonl", partition_columns=f"x {kind}", defaults={"id": 0})
        rows, bad = read(spout)
        assert (len(rows), bad) == (4, [])


class Ids(WindowedBolt):
    outputs = "ids string"
    reads = ("id",)

    def execute(self, window: TupleWindow) -> Any:
        return (" ".join(str(event["id"]) for event in window.get()),)


def test_a_reason_shows_days_and_numbers_as_files_have_them(tmp_path: Path) -> None:
    table = pa.table({"dt": [date(2024, 1, 2)], "n": [Decimal("1.50")]})
    (tmp_path / "dt=2024-01-01/n=2").mkdir(parents=True)
    pq.write_table(table, tmp_path / "dt=2024-01-01/n=2/a.parquet")
    _, bad = read(spouts.files(tmp_path, "x long", format="parquet", partition_columns="dt date, n decimal(3, 2)",
                               defaults={"x": 0}))  # fmt: skip
    assert bad == [
        (
            0,
            "column 'dt': 2024-01-02 is not what the folder of the file says, dt=2024-01-01; "
            "column 'n': 1.50 is not what the folder of the file says, n=2",
        )
    ]


def test_files_at_two_depths(tmp_path: Path) -> None:
    put(tmp_path, "dt=2024-01-01/a.jsonl", {"id": 1}, {"id": 2, "hour": 9})
    put(tmp_path, "dt=2024-01-01/hour=6/b.jsonl", {"id": 3})
    declared: dict[str, Any] = {"format": "jsonl", "partition_columns": "dt date, hour int"}
    rows, bad = read(spouts.files(tmp_path, "id long", **declared))
    assert [row["id"] for row in rows] == [3]
    assert len(bad) == 1
    assert "is in no folder hour=" in bad[0][1]
    rows, bad = read(spouts.files(tmp_path, "id long", **declared, defaults={"hour": 0}))
    assert {(row["id"], row["hour"]) for row in rows} == {(1, 0), (2, 9), (3, 6)}
    assert not bad


def test_the_columns_of_files_may_be_inferred(tmp_path: Path) -> None:
    put(tmp_path, "dt=20240101/a.parquet", {"id": 1, "dt": "2024-01-01"}, {"id": 2, "dt": None})
    put(tmp_path, "dt=20240102/a.parquet", {"id": 3})
    rows, bad = read(spouts.files(tmp_path, format="parquet", partition_columns="dt date"))
    assert {(row["id"], row["dt"].day) for row in rows} == {(1, 1), (2, 1), (3, 2)}
    assert not bad


def test_times_of_folders_are_of_the_zone_of_the_spout(tmp_path: Path) -> None:
    put(
        tmp_path,
        "at=2024-07-01T06%3A00/a.jsonl",
        {"id": 1, "at": "2024-07-01T10:00Z"},
        {"id": 2, "at": "2024-07-01T06:00"},
    )
    put(tmp_path, "at=2024-07-01T06%3A00/b.jsonl", {"id": 3, "at": "2024-07-01T06:00Z"})
    spout = spouts.files(
        tmp_path, "id long", format="jsonl", partition_columns="at timestamp", timezone="America/New_York"
    )
    rows, bad = read(spout)
    assert rows == [{"id": each, "at": datetime(2024, 7, 1, 10, tzinfo=UTC)} for each in (1, 2)]
    assert len(bad) == 1


MISTAKES: dict[str, Callable[[], Any]] = {
    "is no declaration.*partition_columns='dt string, hour string'": lambda: spouts.files(
        "in/*.jsonl", "dt date, hour int", partition_columns=("dt", "hour")
    ),
    "'dt' is in the schema, and in partition_columns": lambda: spouts.files(
        "in/*.jsonl", "dt date", partition_columns="dt date"
    ),
    "declared as array<int>": lambda: spouts.files("in/*.jsonl", "a int", partition_columns="b array<int>"),
    "declared as binary": lambda: spouts.files("in/*.jsonl", "a int", partition_columns="b binary"),
    "is no declaration.*partition_columns='day string'": lambda: spouts.files(
        "in/*.parquet", partition_columns=["day"]
    ),
    "is no declaration.*partition_columns='dt date, hour string'": lambda: spouts.files(
        "in/*.parquet",
        partition_columns=[("dt", "date"), "hour"],
    ),
    "declared as array<string>": lambda: spouts.files("in/*.orc", partition_columns="b array<string>"),
    "is not a type": lambda: spouts.files("in/*.jsonl", "a int", partition_columns="dt, hour"),
    "which is no int": lambda: spouts.files("in/*.jsonl", "a int", partition_columns="b int", defaults={"b": "x"}),
}


@pytest.mark.parametrize("problem", MISTAKES)
def test_what_cannot_be_declared_is_refused_at_once(problem: str) -> None:
    with pytest.raises(ConfigError, match=f"(?s){problem}"):
        MISTAKES[problem]()


class Events(WindowedBolt):
    outputs = "dt date, hour int, ids string"

    def execute(self, window: TupleWindow) -> Any:
        found = window.get()
        return found[0]["dt"], found[0]["hour"], " ".join(str(event["id"]) for event in found)


DAYS = {
    f"events/dt=2024-01-0{day}/hour={hour}/{at}.jsonl": {"id": 100 * day + 10 * hour + at, "ts": f"2024-01-0{day}"}
    for day in (1, 2, 3)
    for hour in (5, 6)
    for at in (1, 2)
}


def hourly(
    folder: Path, out: sinks.MemorySink | None = None, path: Sequence[str] = ("events",), **time: Any
) -> Topology:
    """What each day and hour has, with the day as the time and the hour as the key."""
    builder = TopologyBuilder("hourly")
    spout = spouts.files(
        [folder / each for each in path],
        "id long, ts timestamp",
        format="jsonl",
        partition_columns="dt date, hour int",
        files_per_batch=2,
    )
    builder.set_spout("in", spout)
    bolt = Events().with_tumbling_window("1d").with_timestamp_field(time.get("field", "dt")).with_key("hour")
    builder.set_bolt(
        "events", bolt.with_alignment(bounds="[start, end)").with_lag("10d"), parallelism=2
    ).fields_grouping("in", "hour")
    builder.set_sink("out", out or sinks.memory()).from_("events")
    if "bad" in time:
        builder.set_sink("bad", time["bad"]).from_("in", stream="errors")
    return builder.build()


def in_order(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (row["dt"], row["hour"]))


EXPECTED = [
    {"dt": date(2024, 1, day), "hour": hour, "ids": f"{100 * day + 10 * hour + 1} {100 * day + 10 * hour + 2}"}
    for day in (1, 2, 3)
    for hour in (5, 6)
]


class Crash(Exception):
    pass


def test_they_are_time_and_key_and_survive_crashes(tmp_path: Path) -> None:
    for name, row in DAYS.items():
        put(tmp_path, name, row)
    for number, phase in enumerate(("fire", "committed")):
        out, crashes = sinks.memory(), 0
        for at in range(2):  # each run dies once more, and the one after it goes on
            with LocalRun(hourly(tmp_path, out), RunOptions(str(tmp_path / f"ck{number}"))) as run:
                reached = iter(range(100))

                def crash(now: str, phase: str = phase, at: int = at, reached: Any = reached) -> None:
                    if now == phase and next(reached) == at:
                        raise Crash

                run.micro_batch.hook = crash
                try:
                    run.run()
                except Crash:
                    crashes += 1
        run_local(hourly(tmp_path, out), RunOptions(str(tmp_path / f"ck{number}")))
        assert (in_order(out.rows), crashes) == (EXPECTED, 2), phase


def test_files_that_a_first_output_does_not_need_are_not_opened(tmp_path: Path) -> None:
    """Their folders say so where they give the time; where a column of the file does, or somebody takes the rows that
    cannot be read, all are read."""
    for name, row in DAYS.items():
        put(tmp_path, name, row)
        if "dt=2024-01-01" in name:
            (tmp_path / name).write_text("[not a row\n")

    def run(*, checkpoint: bool, **time: Any) -> tuple[Summary, list[Row]]:
        out = sinks.memory()
        folder = str(tmp_path / f"ck{sorted(time)}") if checkpoint else None
        options = RunOptions(folder, first_output="2024-01-03T00:00:00Z")
        return run_local(hourly(tmp_path, out, **time), options), in_order(out.rows)

    for checkpoint in (True, False):
        summary, rows = run(checkpoint=checkpoint)
        assert rows == EXPECTED[2:]
        assert summary.this_run()["events"].accounts["invalid"] == 0
        summary, rows = run(checkpoint=checkpoint, field="ts")
        assert rows == EXPECTED[2:]
        assert summary.this_run()["events"].accounts["invalid"] == 4
        bad = sinks.memory()
        assert run(checkpoint=checkpoint, bad=bad)[1] == EXPECTED[2:]
        assert len(bad.rows) == 4


def test_a_pattern_is_a_filter(tmp_path: Path) -> None:
    for name, row in DAYS.items():
        put(tmp_path, name, row)
    out = sinks.memory()
    run_local(hourly(tmp_path, out, path=["events/dt=2024-01-0[23]/hour=6"]))
    assert in_order(out.rows) == [row for row in EXPECTED[2:] if row["hour"] == 6]


def test_a_copy_without_deadly_lines_has_the_folders_of_the_file(tmp_path: Path) -> None:
    put(tmp_path, "events/dt=2024-01-01/hour=5/1.jsonl", {"id": 1}, {"id": 2}, {"id": 3})
    (batch,) = FileSource("in", FileSplit(f"{tmp_path}/events/dt=2024-01-01/hour=5/1.jsonl"), lines=(1, 2)).read(
        hourly(tmp_path)
    )
    assert batch.table.select(["id", "dt", "hour"]).to_pylist() == [{"id": 2, "dt": date(2024, 1, 1), "hour": 5}]


def test_check_says_what_folders_are_read_and_which_are_not(tmp_path: Path) -> None:
    put(tmp_path, "events/dt=2024-01-01/hour=5/1.jsonl", {"id": 1, "ts": "2024-01-01"})

    def facts(**given: Any) -> Mapping[str, str]:
        builder = TopologyBuilder("facts")
        builder.set_spout("in", spouts.files(tmp_path / "events", "id long", format="jsonl", **given))
        builder.set_sink("out", sinks.memory()).from_("in")
        found = inspect_spouts(builder.build())["in"]
        assert not found.problems
        assert not found.warnings
        return {fact: "; ".join(text for each, text in found.facts if each == fact) for fact, _ in found.facts}

    assert facts()["folders"].endswith("partition_columns='dt string, hour string' does that")
    told = facts(partition_columns="dt date")
    assert told["folders"].startswith("dt=2024-01-01; not all")
    assert told["folders"].endswith("partition_columns='dt date, hour string' does that")
    assert json.loads(told["such as"]) == {"id": 1, "dt": "2024-01-01"}
    assert facts(partition_columns="dt date, hour int")["folders"] == "dt=2024-01-01, hour=5"
