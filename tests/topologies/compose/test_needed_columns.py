"""A run reads, carries and stores the columns that somebody asks for, and its answers are those of all columns."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from topologies.graph.declarations import with_needed_columns
from topologies.graph.describing import topology_text
from topologies.local import run_local
from topologies.testing.bolt_run import run_bolt
from topologies.topology import Topology
from windbolt import RunOptions, TopologyBuilder, sinks, spouts
from windowing import AggregateBolt, Session, TupleWindow, WindowedBolt, aggregates, seconds
from windowing.errors import TopologyError

COLUMNS = "ts timestamp, user string, amount double, fee double, note string, seen timestamp"
START = 1_700_000_000_000_000


class Highest(WindowedBolt):
    outputs = "user string, amount double"
    reads = "user, amount"

    def execute(self, window: TupleWindow) -> Any:
        best = window.table.slice(int(window.column("amount").argmax()), 1).to_pylist()[0]
        return best["user"], best["amount"]


class Notes(WindowedBolt):
    outputs = "note string"
    reads = ("note",)

    def execute(self, window: TupleWindow) -> Any:
        return [(row["note"],) for row in window.get()]


class Whole(WindowedBolt):
    outputs = COLUMNS

    def execute(self, window: TupleWindow) -> Any:
        return window.table


def table(rows: int, seed: int = 0, first: int = 0) -> pa.Table:
    random = np.random.default_rng(seed)
    times = START + (first + np.arange(rows)) * 300_000 + random.integers(0, 900_000, rows)
    moments = pa.array(times, pa.timestamp("us", "UTC"))
    return pa.table(
        {
            "ts": moments,
            "user": [f"u{code}" for code in random.integers(0, 4, rows)],
            "amount": random.random(rows).round(3),
            "fee": random.random(rows),
            "note": [f"note {row}" for row in range(rows)],
            "seen": moments,
        }
    )


def write(folder: Path, *tables: pa.Table, start: int = 0) -> Path:
    folder.mkdir(exist_ok=True)
    for number, each in enumerate(tables, start):
        pq.write_table(each, folder / f"{number}.parquet")
    return folder


def built(bolt: WindowedBolt, source: Any, *, late: bool = False, name: str = "t", out: Any = None) -> Topology:
    builder = TopologyBuilder(name)
    builder.set_spout("events", source)
    bolt = bolt if bolt.settings.kinds else bolt.with_tumbling_window(seconds(2))
    bolt = bolt.with_timestamp_field("ts").with_lag(seconds(1))
    if late:
        bolt = bolt.with_late_tuple_stream("late")
        builder.set_sink("lates", sinks.memory()).from_("bolt", "late")
    builder.set_bolt("bolt", bolt, parallelism=2).fields_grouping("events", "user")
    builder.set_sink("out", out or sinks.memory()).from_("bolt")
    return builder.build()


def needed(topology: Topology) -> tuple[list[str], list[str]]:
    """The columns that are read, and those that windows have."""
    run = with_needed_columns(topology)
    return run.spouts["events"].schema.names, run.windowed["bolt"].schema.names


def accounts(topology: Topology) -> dict[str, int]:
    """The accounts of the bolt after a run in this process."""
    last = run_local(topology).last
    assert last is not None
    return dict(last.bolts["bolt"].accounts)


SOURCE = spouts.memory(COLUMNS, [])
NAMES = [column.split()[0] for column in COLUMNS.split(", ")]


def test_what_is_asked_for_by_name_is_read_and_what_rules_name() -> None:
    assert needed(built(Highest(), SOURCE)) == (["ts", "user", "amount"], ["ts", "user", "amount"])
    assert needed(built(Notes(), SOURCE)) == (["ts", "user", "note"], ["ts", "user", "note"])
    key = Highest().with_window(Session("3s")).with_key("user", "note")
    assert needed(built(key, SOURCE))[1] == ["ts", "user", "amount", "note"]


def test_aggregates_that_are_added_up_as_events_come_say_what_they_read() -> None:
    total = AggregateBolt(by=["user"], total=aggregates.sum("fee"))
    assert needed(built(total, SOURCE)) == (["ts", "user", "fee"], ["ts", "user", "fee"])
    session = total.with_window(Session("3s")).with_key("user")
    assert needed(built(session, SOURCE)) == (["ts", "user", "fee"], ["ts", "user", "fee"])
    kept = total.with_window(Session("3s"), Session("4s")).with_key("user")  # whose events wait in the checkpoint
    assert needed(built(kept, SOURCE)) == (NAMES, NAMES)


def test_whoever_takes_whole_rows_gets_them() -> None:
    assert needed(built(Whole(), SOURCE)) == (NAMES, NAMES)
    total = AggregateBolt(by=["user"], total=aggregates.sum("fee"))
    assert needed(built(total, SOURCE, late=True)) == (NAMES, NAMES)
    for stream in ("", "events", "bolt"):
        builder = TopologyBuilder("t")
        builder.set_spout("events", SOURCE)
        bolt = total.with_tumbling_window(seconds(2)).with_timestamp_field("ts")
        builder.set_bolt("bolt", bolt).global_grouping("events")
        builder.set_sink("out", sinks.memory()).from_("bolt")
        assert needed(builder.build())[0] == ["ts", "user", "fee"]
        taken = builder.set_sink("more", sinks.memory())
        _ = taken.from_(stream, "errors") if stream else taken.from_("events")
        assert needed(builder.build())[0] == NAMES


def test_functions_of_the_user_may_ask_for_any_column() -> None:
    builder = TopologyBuilder("t")
    builder.set_spout("events", SOURCE)
    bolt = Highest().with_tumbling_window(seconds(2)).with_timestamp_extractor(lambda event: event["seen"])
    builder.set_bolt("bolt", bolt).global_grouping("events")
    builder.set_sink("out", sinks.memory()).from_("bolt")
    assert needed(builder.build()) == (NAMES, NAMES)


def test_a_bolt_that_only_counts_is_given_one_column() -> None:
    builder = TopologyBuilder("t")
    builder.set_spout("events", SOURCE)
    counting = AggregateBolt(n=aggregates.count()).with_tumbling_window(seconds(5)).with_time(processing=True)
    builder.set_bolt("bolt", counting).global_grouping("events")
    out = sinks.memory()
    builder.set_sink("out", out).from_("bolt")
    read, given_ = needed(builder.build())
    assert len(read) == len(given_) == 1


BOLTS: dict[str, WindowedBolt] = {
    "highest": Highest(),
    "notes": Notes(),
    "whole": Whole(),
    "aggregate": AggregateBolt(by=["user"], total=aggregates.sum("fee"), n=aggregates.count()),
    "sessions": Notes().with_window(Session("700ms")).with_key("user", "note"),
    "declared": type("Declared", (Whole,), {"reads": "*"})(),
}


@given(kind=st.sampled_from(list(BOLTS)), rows=st.integers(1, 60), seed=st.integers(0, 99), cut=st.integers(0, 3))
def test_answers_are_those_of_all_columns(kind: str, rows: int, seed: int, cut: int) -> None:
    events = table(rows, seed)
    cuts = [0, *sorted(np.random.default_rng(seed).integers(0, rows, cut).tolist()), rows]
    batches = [events.slice(low, high - low) for low, high in pairwise(cuts)]

    def rows_of(*, late: bool) -> tuple[list[Any], dict[str, int]]:
        out = sinks.memory()
        topology = built(BOLTS[kind], spouts.memory(COLUMNS, batches), late=late, out=out)
        return out.rows, accounts(topology)

    assert rows_of(late=False) == rows_of(late=True)  # whose late stream has whole rows


def test_a_checkpoint_goes_on_with_whoever_reads_more(tmp_path: Path) -> None:
    """Sums do not depend on the columns that are read: a late stream may come to a run, and go again."""
    folder = write(tmp_path / "in", table(40))
    total = AggregateBolt(by=["user"], total=aggregates.sum("fee"))

    def run(checkpoint: str, *, late: bool) -> list[Any]:
        out = sinks.files(str(tmp_path / f"out-{checkpoint}"), "parquet")
        source = spouts.files(f"{folder}/*.parquet", COLUMNS, files_per_batch=1)
        run_local(built(total, source, late=late, out=out), RunOptions(str(tmp_path / checkpoint), keep_open=True))
        return rows(tmp_path / f"out-{checkpoint}")

    assert run("a", late=False) == run("b", late=True) != []
    write(folder, table(40, 2, 40), start=1)
    assert run("a", late=True) == run("b", late=False)


def rows(folder: Path) -> list[Any]:
    files = sorted(folder.glob("*.parquet"))
    return sorted(tuple(row.values()) for path in files for row in pq.read_table(path).to_pylist())


def test_damage_of_a_column_that_nobody_asks_for_is_not_met(tmp_path: Path) -> None:
    """The pages of a column that is not read: a run without it is none the worse, and one with it counts a bad file."""
    folder = write(tmp_path / "in", table(40))
    path = folder / "0.parquet"
    column = next(
        column
        for place in range(6)
        if (column := pq.ParquetFile(path).metadata.row_group(0).column(place)).path_in_schema == "note"
    )
    content = bytearray(path.read_bytes())
    begin = column.dictionary_page_offset or column.data_page_offset
    content[begin : begin + column.total_compressed_size] = bytes(column.total_compressed_size)
    path.write_bytes(bytes(content))

    source = spouts.files(f"{folder}/*.parquet", COLUMNS)
    assert accounts(built(Highest(), source))["received"] == 40
    assert accounts(built(Whole(), source))["invalid"] == 1


def test_rows_that_cannot_be_read_are_the_same_ones(tmp_path: Path) -> None:
    """Columns whose values may be refused are read and checked, whoever asks for them."""
    events = table(10)
    wrong = events.set_column(3, "fee", pa.array([1.0, 1e300] * 5)).cast(
        pa.schema([*list(events.schema)[:3], ("fee", pa.float64()), *list(events.schema)[4:]])
    )
    folder = write(tmp_path / "in", wrong)
    declared = COLUMNS.replace("fee double", "fee float")
    assert accounts(built(Highest(), spouts.files(f"{folder}/*.parquet", declared)))["invalid"] == 5


class Reading(WindowedBolt):
    outputs = "names array<string>"
    reads = "amount, user"

    def execute(self, window: TupleWindow) -> Iterator[Any]:
        yield (window.table.column_names,)


def test_columns_that_a_bolt_declares_are_all_it_is_given_anywhere() -> None:
    topology = built(Reading(), SOURCE)
    assert topology.windowed["bolt"].schema.names == ["ts", "user", "amount"]
    assert needed(topology) == (["ts", "user", "amount"], ["ts", "user", "amount"])
    assert "  columns  ts timestamp, user string, amount double: those of reads" in topology_text(topology)
    assert "  columns  " not in topology_text(built(Whole(), SOURCE)).split("sink")[0]
    run = run_bolt(Reading().with_tumbling_window(2), table(2))
    assert [row["names"] for row in run.rows] == [["user", "amount"]]


@pytest.mark.parametrize(
    ("reads", "words"),
    [
        ("amuont", "reads 'amuont', and there is no such column"),
        (7, "Odd.reads = 7"),
        (["user", 3], "Odd.reads = "),
    ],
)
def test_columns_that_are_declared_wrongly(reads: Any, words: str) -> None:
    bolt = type("Odd", (Reading,), {"reads": reads})()
    with pytest.raises(TopologyError) as found:
        built(bolt, SOURCE)
    assert words in str(found.value)


def test_bolts_whose_columns_follow_from_their_input_declare_none() -> None:
    bolt = type("Totals", (AggregateBolt,), {"reads": "user"})(by=["user"], total=aggregates.sum("fee"))
    with pytest.raises(TopologyError, match="Totals has reads"):
        built(bolt, SOURCE)
