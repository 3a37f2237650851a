"""Input that lies in parts and arrives in one order: of records of partitions, and of rows of files."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manager.storage.checkpoint import MemoryCheckpoint
from policies.watermarks import NONE
from tests.helpers.examples import examples
from topologies.engine import merging
from topologies.engine.batch import BatchPlan, InProcessExecutor, TimeAdvance
from topologies.engine.micro_batch import MicroBatch
from topologies.engine.source_splits import file_splits
from topologies.engine.task_data import MergedSplits, RowPartitions, SourceBatch
from topologies.graph.describing import topology_text
from topologies.graph.graph import Graph
from topologies.io.formats.event_files import BAD_SCHEMA
from windbolt import RunOptions, TopologyBuilder, run_local, sinks, spouts
from windowing import AggregateBolt, BatchBolt, Bolt, TupleWindow, WindowedBolt
from windowing.aggregates import collect, first, last
from windowing.columns import merged_order
from windowing.durations import Count
from windowing.errors import TopologyError
from windowing.schema import parse_schema
from windowing.settings.presets import atlas

SCHEMA = "part int, place long, ts timestamp"
Json = dict[str, Any]
PARTITIONS = tuple(f"p/{part}" for part in range(4))


@dataclass(frozen=True)
class Row:
    """A row of a part; one without a time cannot be read."""

    part: int
    place: int
    key: int | None
    time: int | None


@dataclass(frozen=True)
class Lying:
    """Rows of one part, as a split of a source delivers them."""

    part: int
    rows: list[Row]
    cut: int
    named: bool = True
    """Whether the source says which partition it is."""

    def read(self, topology: Graph) -> Iterator[SourceBatch]:
        """The rows, so many at a time."""
        for at in range(0, len(self.rows), self.cut):
            found = delivered(self.rows[at : at + self.cut], f"part {self.part}", self.part)
            yield found if self.named else replace(found, partition="")


@dataclass(frozen=True)
class Whole:
    """Rows of all parts, in an order that is settled already."""

    rows: list[Row]

    def read(self, topology: Graph) -> Iterator[SourceBatch]:
        """The rows; what cannot be read source by source."""
        yield delivered([row for row in self.rows if row.time is not None], "", 0)
        for row in self.rows:
            if row.time is None:
                yield delivered([row], f"part {row.part}", row.part)


def delivered(rows: list[Row], source: str, turn: int) -> SourceBatch:
    good = [row for row in rows if row.time is not None]
    bad = [row for row in rows if row.time is None]
    table = pa.table(
        [[row.part for row in good], [row.place for row in good], [(row.time or 0) * 1_000_000 for row in good]],
        schema=parse_schema(SCHEMA),
    )
    unread = [[row.place for row in bad], ["no"] * len(bad), ["x"] * len(bad)]
    return SourceBatch(
        "in",
        "default",
        table,
        np.array([row.place for row in good], np.int64),
        pa.table(unread, schema=BAD_SCHEMA),
        source,
        shuffle_offset=turn if source else np.array([row.part for row in good], np.int64),
        merge_keys=np.array([NONE if row.key is None else row.key for row in good], np.int64),
        bad_merge_keys=np.array([NONE if row.key is None else row.key for row in bad], np.int64),
        partition=f"p/{turn}" if source else RowPartitions(PARTITIONS, np.array([row.part for row in good], np.int32)),
    )


def in_order(parts: list[list[Row]]) -> list[Row]:
    """The oracle: a plain sort by (the greatest key of the part so far, the part, the place)."""
    found = []
    for rows in parts:
        reached = NONE
        for row in rows:
            reached = max(reached, NONE if row.key is None else row.key)
            found.append((reached, row.part, row.place, row))
    return [row for *_, row in sorted(found, key=lambda each: each[:3])]


class Members(WindowedBolt):
    """The rows of each window, in order."""

    outputs = "task int, members string"

    def prepare(self, context: Any) -> None:
        self.task = context.task

    def execute(self, window: TupleWindow) -> Any:
        yield self.task, str([(row["part"], row["place"]) for row in window.table.to_pylist()])


class Twice(Bolt):
    """Each row, twice."""

    outputs = SCHEMA

    def execute(self, tuple_: Any) -> Any:
        row = (tuple_["part"], tuple_["place"], tuple_["ts"])
        return [row, row]


class Passed(BatchBolt):
    """The rows, as they came."""

    outputs = SCHEMA

    def execute(self, batch: pa.Table) -> Any:
        return batch


def watching() -> tuple[Graph, dict[str, Any]]:
    """All that sees an order of arrival, with a sink behind each."""
    builder = TopologyBuilder("watching")
    builder.set_spout("in", spouts.memory(SCHEMA))
    builder.set_bolt("twice", Twice()).shuffle_grouping("in")
    builder.set_bolt("passed", Passed()).shuffle_grouping("in")
    builder.set_bolt("counts", Members().with_tumbling_window(Count(3))).global_grouping("in")
    builder.set_bolt("slides", Members().with_window(Count(4), Count(2)), 2).shuffle_grouping("in")
    builder.set_bolt("behind", Members().with_tumbling_window(Count(3)), 2).shuffle_grouping("twice")
    storm = Members().with_tumbling_window("2s").with_timestamp_field("ts").with_late_tuple_stream("late")
    builder.set_bolt("storm", storm).global_grouping("in")
    each = Members().with_tumbling_window("2s").with_timestamp_field("ts").with_time(atlas("0s"))
    builder.set_bolt("atlas", each.with_late_tuple_stream("late"), 2).fields_grouping("in", "place")
    found = AggregateBolt("part", first=first("place"), last=last("place"), every=collect("place"))
    builder.set_bolt("sums", found.with_tumbling_window("2s").with_timestamp_field("ts"), 2).fields_grouping(
        "in", "part"
    )
    plain = AggregateBolt(first=first("place"), last=last("place"), every=collect("place"))
    builder.set_bolt("total", plain.with_tumbling_window("2s").with_timestamp_field("ts")).global_grouping("in")
    streams = [("in", "default"), ("in", "errors"), ("storm", "late"), ("atlas", "late")]
    bolts = ("passed", "counts", "slides", "behind", "storm", "atlas", "sums", "total")
    out = {}
    for name, stream in [*streams, *((bolt, "default") for bolt in bolts)]:
        out[f"{name}.{stream}"] = sinks.memory()
        builder.set_sink(f"{name}-{stream}", out[f"{name}.{stream}"]).from_(name, stream)
    return builder.build(), out


def answered(batches: list[list[Any]], slots: int, parts: int = 0) -> dict[str, list[Json]]:
    topology, out = watching()
    step = MicroBatch(topology, MemoryCheckpoint(), InProcessExecutor())
    for number, splits in enumerate(batches):
        step.run(BatchPlan(number, TimeAdvance(number), splits, slots=slots, partitions={"in": PARTITIONS[:parts]}))
    step.run(BatchPlan(len(batches) - 1, TimeAdvance(len(batches), close=True), closing=True))
    return {name: sink.rows for name, sink in out.items()}


@dataclass
class Case:
    """Batches of parts."""

    batches: list[list[list[Row]]]
    cut: int
    slots: int
    split: list[int] = field(default_factory=list)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    parts, batches = draw(st.integers(1, 4)), []
    places = [0] * parts
    for _ in range(draw(st.integers(1, 3))):
        batch = []
        for part in range(parts):
            rows = []
            for _ in range(draw(st.integers(0, 9))):
                key = draw(st.one_of(st.integers(-3, 12), st.none()))
                time = draw(st.one_of(st.integers(0, 12), st.integers(0, 12), st.none()))
                rows.append(Row(part, places[part], key, time))
                places[part] += draw(st.integers(1, 2))
            batch.append(rows)
        batches.append(batch)
    return Case(
        batches, draw(st.integers(1, 4)), draw(st.integers(1, 4)), draw(st.lists(st.integers(0, 9), max_size=2))
    )


@examples(60)
@given(cases())
def test_any_cut_into_parts_pieces_and_runs_gives_the_order_of_a_plain_sort(case: Case) -> None:
    parts = len(case.batches[0])
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(merging, "_LEAST_ROWS", 2)
        patched.setattr(merging, "_SECTION_ROWS", 3)
        found = answered([[MergedSplits(cut_up(case, batch))] for batch in case.batches], case.slots, parts)
    expected = answered([[Whole(in_order(batch))] for batch in case.batches], 1, parts)
    assert found == expected


def cut_up(case: Case, batch: list[list[Row]]) -> list[Lying]:
    """A split for each part, or several where one is split."""
    splits = []
    for part, rows in enumerate(batch):
        edges = sorted({0, len(rows), *(at for at in case.split if at < len(rows))})
        splits += [Lying(part, rows[low:high], case.cut) for low, high in pairwise(edges)]
    return splits


@given(st.lists(st.lists(st.integers(-4, 4).map(lambda key: key * 2**60)), min_size=1, max_size=5))
def test_the_order_of_keys_is_stable_however_far_they_are_apart(keys: list[list[int]]) -> None:
    parts = [np.maximum.accumulate(np.array(each, np.int64)) if each else np.zeros(0, np.int64) for each in keys]
    all_keys = np.concatenate(parts)
    order = merged_order(parts)
    assert (np.arange(len(all_keys)) if order is None else order).tolist() == sorted(
        range(len(all_keys)), key=lambda place: (all_keys[place], place)
    )


def test_two_ordered_parts_make_nothing_late() -> None:
    """Issue 10, A1: of two synchronous partitions of 1,000 records read one after the other, 995 were late."""
    parts = [[Row(part, place, place, place) for place in range(1000)] for part in range(2)]
    assert in_order(parts) == sorted((row for rows in parts for row in rows), key=lambda row: (row.place, row.part))
    lying = [Lying(part, rows, 100, named=False) for part, rows in enumerate(parts)]
    found = answered([[MergedSplits(lying)]], 2)
    assert found["atlas.late"] == []
    one_by_one = answered([lying], 2)
    assert len(one_by_one["atlas.late"]) > 900  # what is not merged is late: the test can see it


# --- files ------------------------------------------------------------------------------------------------------


def at(second: float) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=second)


def copying(spout: Any) -> tuple[Graph, Any, Any]:
    builder, rows, bad = TopologyBuilder("copying"), sinks.memory(), sinks.memory()
    builder.set_spout("in", spout)
    builder.set_sink("rows", rows).from_("in")
    builder.set_sink("bad", bad).from_("in", "errors")
    return builder.build(), rows, bad


def write_lines(folder: Path, *files: list[Any]) -> Path:
    """A file of JSON lines for each list, the first of them changed first."""
    folder.mkdir()
    for number, lines in enumerate(files):
        path = folder / f"{number}.jsonl"
        path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
        os.utime(path, (1_000_000_000 + number,) * 2)
    return folder


def test_files_of_a_batch_are_merged_and_rows_of_a_file_keep_their_order(tmp_path: Path) -> None:
    def row(name: str, at: int | None) -> Json:
        return {"name": name, "at": at}

    folder = write_lines(
        tmp_path / "in",
        [row("a", 10), row("b", 30), row("back", 5), row("null", None), "{", row("c", 50)],
        [row("d", 10), row("e", 20), row("f", 40), "[", row("g", 50)],
        [row("first", None), row("h", 45)],
    )
    topology, rows, bad = copying(spouts.files(folder / "*.jsonl", "name string, at long", merge_by="at"))
    run_local(topology)
    names = [row["name"] for row in rows.rows]
    assert names == ["first", "a", "d", "e", "b", "back", "null", "f", "h", "c", "g"]
    assert [(Path(row["_source"]).name, row["_row"]) for row in bad.rows] == [("0.jsonl", 4), ("1.jsonl", 3)]
    # Without the column: file after file; and merged is what is in one batch.
    topology, rows, bad = copying(spouts.files(folder / "*.jsonl", "name string, at long"))
    run_local(topology)
    assert [row["name"] for row in rows.rows][:4] == ["a", "b", "back", "null"]
    topology, rows, _ = copying(
        spouts.files(folder / "*.jsonl", "name string, at long", merge_by="at", files_per_batch=2)
    )
    run_local(topology)
    assert [row["name"] for row in rows.rows] == ["a", "d", "e", "b", "back", "null", "f", "c", "g", "first", "h"]


@pytest.mark.parametrize("kind", ["timestamp", "date", "int", "long"])
def test_a_column_of_times_or_numbers_merges_split_files_and_many_small_ones(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merging, "_LEAST_ROWS", 10)
    monkeypatch.setattr("topologies.engine.source_splits._MOST_SPLITS", 5)
    folder = tmp_path / "in"
    folder.mkdir()
    make = {"timestamp": at, "date": lambda day: at(86_400 * day).date()}.get(kind, lambda number: number)
    paths = []
    for number in range(7):
        values = [make(value) for value in range(number, 210, 7)]
        schema = parse_schema(f"at {kind}, number long")
        table = pa.table([values, list(range(number, 210, 7))], schema=schema)
        pq.write_table(table, folder / f"{number}.parquet", row_group_size=4)
        paths.append(str(folder / f"{number}.parquet"))
    topology, rows, _ = copying(spouts.files(folder / "*.parquet", f"at {kind}, number long", merge_by="at"))
    for wanted in (1, 4, 21):
        splits = file_splits(topology, [("in", path) for path in paths], wanted)
        step = MicroBatch(topology, MemoryCheckpoint(), InProcessExecutor())
        step.run(BatchPlan(0, TimeAdvance(0), splits, slots=3))
        assert [row["number"] for row in rows.rows] == list(range(210))


def test_a_file_that_cannot_be_read_is_one_bad_row_before_all_others(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(2):
        pq.write_table(pa.table({"at": pa.array([number, number + 2], pa.int64())}), folder / f"{number}.parquet")
    (folder / "2.parquet").write_bytes(b"PAR1 no")
    topology, rows, bad = copying(spouts.files(folder / "*.parquet", "at long", merge_by="at"))
    last = run_local(topology).last
    assert last is not None
    assert [row["at"] for row in rows.rows] == [0, 1, 2, 3]
    assert [(Path(row["_source"]).name, row["_row"]) for row in bad.rows] == [("2.parquet", None)]
    assert last.spouts["in"] == {"rows": 4, "invalid": 1, "unreadable_files": 1, "truncated": 0}


def test_counts_over_merged_files_hold_rows_that_follow_each_other(tmp_path: Path) -> None:
    folder = write_lines(tmp_path / "in", *([{"place": n, "part": n % 3} for n in range(k, 30, 3)] for k in range(3)))
    builder, out = TopologyBuilder("counting"), sinks.memory()
    builder.set_spout("in", spouts.files(folder / "*.jsonl", "place long, part int", merge_by="place"))
    builder.set_bolt("counts", Members().with_tumbling_window(Count(5))).global_grouping("in")
    builder.set_sink("out", out).from_("counts")
    run_local(builder.build(), RunOptions(clock=lambda: 0))
    members = [[place for _, place in eval(row["members"])] for row in out.rows]
    assert members == [list(range(at, at + 5)) for at in range(0, 30, 5)]


@pytest.mark.parametrize(
    ("column", "said"),
    [("name", "merge_by='name' is name string"), ("tme", "merge_by='tme' is not a column .* did you mean 'time'")],
)
def test_a_column_that_gives_no_order_is_refused_when_it_is_built(column: str, said: str) -> None:
    builder = TopologyBuilder("wrong")
    builder.set_spout("in", spouts.files("in/*.csv", "name string, time long", merge_by=column))
    builder.set_sink("out", sinks.memory()).from_("in")
    with pytest.raises(TopologyError, match=said):
        builder.build()


def test_merging_is_described() -> None:
    topology, _, _ = copying(spouts.files("in/*.csv", "name string, time long", merge_by="time"))
    assert "merged by time" in topology_text(topology)
