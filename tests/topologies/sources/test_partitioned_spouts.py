"""Spouts of partitions that users write: ranges are planned, tasks read them, and what crashes is read again."""

from __future__ import annotations

import copy
import json
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from servers.s3 import ENVIRONMENT, S3
from tests.helpers.examples import examples
from tests.topologies.sources.test_own_spouts import failing, rows_in
from topologies.checkpoints.file_journal import FileJournal
from topologies.checkpoints.going_back import go_back
from topologies.checkpoints.inspect_spouts import inspect_spouts
from topologies.checkpoints.paired_checkpoint import PairedCheckpoint
from topologies.checkpoints.pulled_files import FOLDER, PulledFiles
from topologies.checkpoints.savepoint import begin_with, take_savepoint
from topologies.engine import pulling
from topologies.engine.micro_batch import PHASES, MicroBatch
from topologies.graph.describing import spout_in_words
from topologies.testing.driver import TopologyDriver
from windbolt import RunOptions, Topology, TopologyBuilder, run_local, sinks
from windowing import SOURCE, PartitionedSpout, Spout, SpoutError, TupleWindow, WindowedBolt, seconds
from windowing.errors import CheckpointError, ConfigError, WindboltError

BEGIN = datetime(2024, 1, 1, tzinfo=UTC)
SIZES = {"a": 23, "b": 11, "ü\u3000c\xa0d": 17}
LENGTH = 4

OFFSETS: dict[str, Callable[[int], Any]] = {
    "numbers": lambda row: row,
    "huge numbers": lambda row: 10**40 + row,
    "texts": lambda row: f'"{row}\n\ud800é',
    "lists": lambda row: [row, None, {"at": [row]}],
    "fractions": lambda row: row + 0.5,
    "yes": lambda row: [bool(row % 2), row],
}


def row_of(partition: str, number: int) -> tuple[datetime, str, int]:
    return BEGIN + timedelta(seconds=number), partition, number


class Parts(PartitionedSpout):
    """Partitions of so many rows; offsets look as they are said to."""

    schema = "ts timestamp, partition string, n long"
    rows_per_batch = 9

    def __init__(self, sizes: dict[str, int] = SIZES, offsets: str = "numbers") -> None:
        self.sizes, self.offsets = dict(sizes), offsets
        self.calls: list[str] = []
        self.acknowledged: dict[str, Any] = {}

    def _row(self, offset: Any) -> int:
        """The row behind an offset."""
        write = OFFSETS[self.offsets]
        return 0 if offset is None else next(row for row in range(1_000) if write(row) == offset)

    def open(self) -> None:
        self.lock = threading.Lock()  # cannot be sent to tasks
        self.calls.append("open")

    def partitions(self) -> Any:
        return set(self.sizes)

    def end(self, partition: str, start: Any, limit: int) -> Any:
        with self.lock:
            row = self._row(start)
        end = min(row + limit, self.sizes[partition])
        return None if end == row else OFFSETS[self.offsets](end)

    def read(self, partition: str, start: Any, end: Any) -> Any:
        with self.lock:
            self.calls.append(f"read {partition} {self._row(start)} {self._row(end)}")
        return [row_of(partition, number) for number in range(self._row(start), self._row(end))]

    def acknowledge(self, offsets: Any) -> None:
        self.calls.append("acknowledge")
        self.acknowledged.update({partition: self._row(offset) for partition, offset in offsets.items()})

    def close(self) -> None:
        self.calls.append("close")


class OneByOne(Spout):
    """The same rows, as one partition."""

    schema = Parts.schema
    rows_per_batch = Parts.rows_per_batch

    def __init__(self, sizes: dict[str, int]) -> None:
        every = [row_of(partition, number) for partition, size in sizes.items() for number in range(size)]
        self.rows = sorted(every)

    def read(self, offset: Any, limit: int) -> Any:
        start = offset or 0
        rows = self.rows[start : start + limit]
        return (rows, start + len(rows)) if rows else None


class Ids(WindowedBolt):
    outputs = "until timestamp, ids string"

    def execute(self, window: TupleWindow) -> Any:
        ids = zip(window.column("partition").tolist(), window.column("n").tolist(), strict=True)
        return window.end, " ".join(sorted(f"{partition}{number}" for partition, number in ids))


def topology(spout: Any, out: Path | None = None, **watermark: Any) -> tuple[Topology, Any]:
    builder = TopologyBuilder("parts")
    builder.set_spout("parts", spout)
    bolt = Ids().with_tumbling_window(seconds(LENGTH)).with_timestamp_field("ts")
    if isinstance(spout, PartitionedSpout):
        bolt = bolt.with_watermark(**(watermark or {"partition": SOURCE}))
    else:
        bolt = bolt.with_lag(seconds(1))  # rows of one time may be in two batches
    builder.set_bolt("ids", bolt).global_grouping("parts")
    sink = sinks.memory() if out is None else sinks.files(str(out), "jsonl")
    builder.set_sink("out", sink).from_("ids")
    return builder.build(), sink


def plain(spout: Any, out: Path) -> Topology:
    """Writes the rows as they come."""
    builder = TopologyBuilder("plain")
    builder.set_spout("parts", spout)
    builder.set_sink("out", sinks.files(str(out), "jsonl")).from_("parts")
    return builder.build()


def numbers_in(folder: Path) -> list[tuple[str, int]]:
    return sorted((row["partition"], row["n"]) for row in map(json.loads, rows_in(folder)))


def expected(sizes: dict[str, int]) -> list[tuple[str, int]]:
    return sorted((partition, number) for partition, size in sizes.items() for number in range(size))


@pytest.fixture(scope="module")
def right(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What the windows of the same rows have that come as one partition, in order of time."""
    out = tmp_path_factory.mktemp("right")
    run_local(topology(OneByOne(SIZES), out)[0])
    return rows_in(out)


@pytest.mark.parametrize("offsets", OFFSETS)
def test_its_windows_are_those_of_one_partition_whatever_offsets_are(
    offsets: str, right: list[str], tmp_path: Path
) -> None:
    for place, options in (("a", RunOptions()), ("b", RunOptions(str(tmp_path / "ck")))):
        summary = run_local(topology(Parts(offsets=offsets), tmp_path / place)[0], options)
        assert summary.rows == sum(SIZES.values())
        assert rows_in(tmp_path / place) == right


def test_a_batch_takes_about_as_many_rows_as_it_may_and_shares_them_out(tmp_path: Path) -> None:
    spout = Parts({"a": 20, "b": 2, "c": 0})
    run_local(plain(spout, tmp_path))
    reads = [call for call in spout.calls if call.startswith("read")]
    assert reads[:4] == ["read a 0 4", "read b 0 2", "read a 4 13", "read a 13 20"]


def test_each_task_has_a_copy_that_is_opened_and_closed_and_so_has_the_run(tmp_path: Path) -> None:
    spout = Parts({"a": 5})
    run_local(plain(spout, tmp_path / "out"), RunOptions(str(tmp_path / "ck")))
    assert spout.calls == ["open", "open", "read a 0 5", "close", "acknowledge", "close"]
    assert not hasattr(spout, "lock")
    assert spout.acknowledged == {"a": 5}


def test_partitions_have_watermarks_of_their_own_and_one_without_rows_holds_it(tmp_path: Path) -> None:
    built, out = topology(Parts({"a": 9, "b": 0}))
    run_local(built, RunOptions(str(tmp_path / "ck"), keep_open=True))
    assert out.rows == []
    more, out = topology(Parts({"a": 9, "b": 6}))
    run_local(more, RunOptions(str(tmp_path / "ck"), keep_open=True))
    assert [row["ids"] for row in out.rows] == ["a0 b0", "a1 a2 a3 a4 b1 b2 b3 b4"]
    without, out = topology(Parts({"a": 9, "b": 0}), every=1)
    run_local(without, RunOptions(keep_open=True))
    assert len(out.rows) == 3


def test_a_silent_partition_is_left_out_after_a_time(tmp_path: Path) -> None:
    clock = iter(range(0, 10**12, 60_000_000))
    built, out = topology(Parts({"a": 27, "b": 0}), partition=SOURCE, partition_idle_timeout=seconds(1))
    options = RunOptions(str(tmp_path / "ck"), keep_open=True, clock=lambda: next(clock))
    run_local(built, options)
    assert [row["ids"] for row in out.rows][:2] == ["a0", "a1 a2 a3 a4"]


class Merged(Parts):
    merge_by = "ts"


def test_rows_of_a_batch_arrive_in_the_order_of_a_column(tmp_path: Path) -> None:
    for kind, order in ((Parts, "a0 a1 a2 b0 b1 b2"), (Merged, "a0 b0 a1 b1 a2 b2")):
        builder = TopologyBuilder("order")
        builder.set_spout("parts", kind({"a": 3, "b": 3}))
        out = sinks.memory()
        builder.set_sink("out", out).from_("parts")
        run_local(builder.build(), RunOptions(str(tmp_path / kind.__name__)))
        assert " ".join(f"{row['partition']}{row['n']}" for row in out.rows) == order
    assert spout_in_words(builder.build().spouts["parts"].spout) == (
        "Merged, with partitions, about 9 rows a batch, merged by ts"
    )


PLACES = [
    (attribute, owner, number, after)
    for attribute, owner in (
        ("_write", PulledFiles), ("plan", FileJournal), ("commit", FileJournal), ("run", MicroBatch),
        ("acknowledge", Parts), ("read", Parts), ("end", Parts), ("partitions", Parts), ("open", Parts),
        ("acknowledge", PulledFiles), ("_first_plan", None),
    )
    for number in (0, 3)
    for after in (False, True)
]  # fmt: skip


@pytest.mark.parametrize(("attribute", "owner", "number", "after"), PLACES)
def test_a_run_that_ends_anywhere_goes_on_without_a_lost_or_a_doubled_row(
    attribute: str, owner: type | None, number: int, after: bool, right: list[str], tmp_path: Path
) -> None:
    from topologies.checkpoints.checkpointed_run import CheckpointedRun

    spout = Parts()
    with pytest.MonkeyPatch.context() as monkeypatch:
        failing(attribute, owner or CheckpointedRun, number, after=after)(monkeypatch)
        with pytest.raises(KeyboardInterrupt):
            run_local(topology(spout, tmp_path / "out")[0], RunOptions(str(tmp_path / "ck"), keep_open=True))
    if attribute != "open":
        assert spout.calls.count("open") == spout.calls.count("close")
    run_local(topology(spout, tmp_path / "out")[0], RunOptions(str(tmp_path / "ck")))
    assert rows_in(tmp_path / "out") == right
    assert spout.acknowledged == SIZES


@pytest.mark.parametrize("phase", PHASES)
def test_a_crash_in_each_phase_of_a_batch_changes_nothing(phase: str, right: list[str], tmp_path: Path) -> None:
    class Ended(BaseException):
        pass

    seen = iter(range(1_000))

    def hook(now: str) -> None:
        if now == phase and next(seen) == 2:
            raise Ended

    run = MicroBatch.run

    def hooked(self: MicroBatch, *given: Any, **named: Any) -> Any:
        self.hook = hook
        return run(self, *given, **named)

    spout = Parts(offsets="texts")
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(MicroBatch, "run", hooked)
        with pytest.raises(Ended):
            run_local(topology(spout, tmp_path / "out")[0], RunOptions(str(tmp_path / "ck"), keep_open=True))
    run_local(topology(spout, tmp_path / "out")[0], RunOptions(str(tmp_path / "ck")))
    assert rows_in(tmp_path / "out") == right


Grown = dict[str, int]


@st.composite
def growths(draw: st.DrawFn) -> list[Grown]:
    """How many rows partitions have in one run after the other; some are added."""
    names = draw(st.lists(st.sampled_from(["a", "b", "c", "d e", "é"]), min_size=1, max_size=5, unique=True))
    sizes: Grown = {}
    runs = []
    for _ in range(draw(st.integers(1, 4))):
        known = draw(st.integers(len(sizes), len(names)))
        sizes = {name: sizes.get(name, 0) + draw(st.integers(0, 9)) for name in names[:known]}
        runs.append(sizes)
    return runs


@examples(40)
@given(
    growing=growths(),
    limit=st.integers(1, 12),
    offsets=st.sampled_from(sorted(OFFSETS)),
    crashes=st.lists(
        st.tuples(
            st.sampled_from(["_write", "plan", "commit", "run", "read", "end", "acknowledge"]),
            st.integers(0, 4),
            st.booleans(),
        ),
        max_size=4,
    ),
    merged=st.booleans(),
)
def test_drawn_partitions_limits_and_crashes_give_each_row_once(
    growing: list[Grown],
    limit: int,
    offsets: str,
    crashes: list[tuple[str, int, bool]],
    merged: bool,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    place = tmp_path_factory.mktemp("drawn")
    owners: dict[str, type] = {"_write": PulledFiles, "plan": FileJournal, "commit": FileJournal, "run": MicroBatch}
    waiting = iter(crashes)
    for sizes in growing:
        spout = (Merged if merged else Parts)(sizes, offsets)
        spout.rows_per_batch = limit  # type: ignore[misc]
        for crash in waiting:
            attribute, number, after = crash
            with pytest.MonkeyPatch.context() as monkeypatch, suppress(KeyboardInterrupt):
                failing(attribute, owners.get(attribute, Parts), number, after=after)(monkeypatch)
                run_local(plain(spout, place / "out"), RunOptions(str(place / "ck"), keep_open=True))
                break
        run_local(plain(spout, place / "out"), RunOptions(str(place / "ck"), keep_open=True))
        assert (numbers_in(place / "out") if sum(sizes.values()) else []) == expected(sizes)
    shutil.rmtree(place)


def begun(tmp_path: Path, spout: Parts) -> str:
    """A checkpoint on which a run was stopped after its third batch."""
    calls = iter(range(1, 1_000))
    stopped = RunOptions(
        str(tmp_path / "ck"), keep_open=True, on_report=lambda report: stopped.stop.set() if next(calls) == 3 else None
    )
    run_local(topology(spout, tmp_path / "out")[0], stopped)
    return str(tmp_path / "ck")


def test_to_go_back_reads_the_same_ranges_again(right: list[str], tmp_path: Path) -> None:
    spout = Parts()
    checkpoint = begun(tmp_path, spout)
    reads = [call for call in spout.calls if call.startswith("read")]
    halves = PairedCheckpoint(checkpoint)
    kept = halves.documents.names("manifests")
    go_back(halves, kept[0])
    spout.calls.clear()
    run_local(topology(spout, tmp_path / "out")[0], RunOptions(checkpoint))
    again = [call for call in spout.calls if call.startswith("read")]
    assert 0 < len(again) - len([call for call in again if call not in reads]) < len(reads)
    assert rows_in(tmp_path / "out") == right


def test_a_savepoint_and_a_checkpoint_that_was_moved_go_on(right: list[str], tmp_path: Path) -> None:
    checkpoint = begun(tmp_path, Parts())
    take_savepoint(PairedCheckpoint(checkpoint), str(tmp_path / "saved"))
    shutil.copytree(tmp_path / "out", tmp_path / "out2")
    shutil.move(checkpoint, tmp_path / "moved")
    for place, out in (("moved", "out"), ("saved", "out2")):
        run_local(topology(Parts(), tmp_path / out)[0], RunOptions(str(tmp_path / place)))
        assert rows_in(tmp_path / out) == right


def test_the_checkpoint_holds_ranges_and_no_rows(tmp_path: Path) -> None:
    run_local(topology(Parts({"a": 900}))[0], RunOptions(str(tmp_path), keep_batches=2))
    (folder,) = (tmp_path / FOLDER).iterdir()
    files = sorted(folder.iterdir())
    assert len(files) == 3
    with pa.ipc.open_file(files[-1]) as source:
        assert source.read_all().to_pylist() == [{"partition": "a", "start": "891", "end": "900"}]
    shutil.rmtree(folder)
    with pytest.raises(CheckpointError, match=r"spout 'parts' cannot go on: .* is gone"):
        run_local(topology(Parts())[0], RunOptions(str(tmp_path)))


def test_a_checkpoint_is_of_one_kind_of_spout(tmp_path: Path) -> None:
    run_local(plain(Parts(), tmp_path / "out"), RunOptions(str(tmp_path / "ck")))
    with pytest.raises(CheckpointError, match=r"kind was 'partitions', and is 'files'"):
        run_local(plain(OneByOne(SIZES), tmp_path / "out"), RunOptions(str(tmp_path / "ck")))


def test_a_service_takes_partitions_as_they_come(tmp_path: Path) -> None:
    spout, rows = Parts({"a": 2}), list[int]()

    def report(batch: Any) -> None:
        rows.append(batch.rows)
        spout.sizes.update({"a": 4, "b": 3})
        if sum(rows) == 7:
            options.stop.set()

    options = RunOptions(str(tmp_path / "ck"), every="1ms", on_report=report)
    run_local(topology(spout)[0], options)
    assert sum(rows) == 7


def test_a_thousand_partitions(tmp_path: Path) -> None:
    sizes = {f"p{number:04}": number % 3 for number in range(1_000)}
    spout = Parts(sizes)
    spout.rows_per_batch = 10_000  # type: ignore[misc]
    summary = run_local(plain(spout, tmp_path / "out"), RunOptions(str(tmp_path / "ck")))
    assert (summary.rows, summary.batches) == (sum(sizes.values()), 2)  # the last one closes what is open
    assert numbers_in(tmp_path / "out") == expected(sizes)


def test_a_test_pushes_through_it() -> None:
    spout = Parts()
    built, _ = topology(spout)
    driver = TopologyDriver(built)
    driver.push("parts", [row_of("a", 0), row_of("b", 4)])
    driver.close()
    assert [row["ids"] for row in driver.read("out")] == ["a0", "b4"]
    assert spout.calls == []


def test_begin_says_where_a_new_partition_begins(tmp_path: Path) -> None:
    class Late(Parts):
        def begin(self, partition: str) -> Any:
            self.calls.append(f"begin {partition}")
            return 7

    spout = Late({"a": 9})
    run_local(plain(spout, tmp_path / "out"), RunOptions(str(tmp_path / "ck")))
    spout.sizes = {"a": 10, "b": 8}
    run_local(plain(spout, tmp_path / "out"), RunOptions(str(tmp_path / "ck")))
    assert numbers_in(tmp_path / "out") == [("a", 7), ("a", 8), ("a", 9), ("b", 7)]
    assert [call for call in spout.calls if call.startswith("begin")] == ["begin a", "begin b"]


class Says(Parts):
    """Answers as a test says."""

    def __init__(self, sizes: dict[str, int] = {"a": 5}, **answers: Any) -> None:  # noqa: B006
        super().__init__(sizes)
        self.answers = answers

    def _said(self, method: str, *given: Any) -> Any:
        if method not in self.answers:
            return getattr(Parts, method)(self, *given)
        answer = self.answers[method]
        return answer(*given) if callable(answer) else answer

    def open(self) -> None:
        super().open()
        self._said("open") if "open" in self.answers else None

    def partitions(self) -> Any:
        return self._said("partitions")

    def begin(self, partition: str) -> Any:
        return self.answers["begin"](partition) if "begin" in self.answers else None

    def end(self, partition: str, start: Any, limit: int) -> Any:
        return self._said("end", partition, start, limit)

    def read(self, partition: str, start: Any, end: Any) -> Any:
        return self._said("read", partition, start, end)

    def acknowledge(self, offsets: Any) -> None:
        self._said("acknowledge", offsets)

    def close(self) -> None:
        super().close()
        self._said("close") if "close" in self.answers else None


def broken(*given: Any) -> Any:
    raise KeyError("price")


def endless(*given: Any) -> Iterator[Any]:
    yield row_of("a", 0)
    raise ZeroDivisionError("in a generator")


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ({"open": broken}, r"open\(\) failed. KeyError: 'price' at .*test_partitioned_spouts.py:\d+, in broken"),
        ({"partitions": broken}, r"partitions\(\) failed. KeyError: 'price' at .*, in broken"),
        ({"begin": broken}, r"begin\('a'\) failed. KeyError: 'price' at .*, in broken"),
        ({"end": broken}, r"end\('a', null, 9\) failed. KeyError: 'price' at .*, in broken"),
        ({"read": broken}, r"read\('a', null, 5\) failed. KeyError: 'price' at .*, in broken"),
        ({"read": endless}, r"read\('a', null, 5\) failed. ZeroDivisionError: in a generator at .*, in endless"),
        ({"acknowledge": broken}, r"acknowledge\(\{'a': 5\}\) failed. KeyError: 'price' at .*, in broken"),
        ({"close": broken}, r"close\(\) failed. KeyError: 'price' at .*, in broken"),
        ({"read": lambda *given: exit(0)}, r"read\('a', null, 5\) failed. SystemExit"),
        ({"partitions": None}, r"partitions\(\) returned NoneType None. it returns the names of all partitions"),
        ({"partitions": "a"}, r"partitions\(\) returned str 'a'. it returns the names"),
        ({"partitions": ["a", 1]}, r"partitions\(\) returned the name 1. it is a text"),
        ({"partitions": [["a"]]}, r"partitions\(\) returned the name \['a'\]"),
        ({"partitions": [""]}, r"partitions\(\) returned the name ''"),
        ({"partitions": ["a\ud800"]}, r"partitions\(\) returned the name 'a\\ud800'"),
        ({"partitions": ["a\u2028"]}, r"partitions\(\) returned the name 'a\\u2028'"),
        ({"partitions": ["a\tb"]}, r"partitions\(\) returned the name 'a\\tb'"),
        ({"partitions": ["b", "a", "b"]}, r"partitions\(\) returned 'b' twice"),
        ({"begin": lambda name: {1}}, r"begin\('a'\) returned the offset \{1\}. offsets are kept as JSON"),
        ({"end": lambda *given: {1, 2}}, r"end\('a', null, 9\) returned the offset \{1, 2\}. offsets are kept as JSON"),
        ({"end": float("nan")}, r"returned the offset nan"),
        ({"end": 10**5_000}, r"returned the offset .*offsets are kept as JSON"),
        ({"begin": lambda name: 5, "end": 4.5}, r"end\('a', 5, 9\) returned 4.5. that is before the offset"),
        ({"read": None}, r"read\('a', null, 5\) returned None. it returns the rows of the range"),
        ({"read": "text"}, r"read\('a', null, 5\) returned rows that are not of the columns"),
        ({"read": [(BEGIN, "a", "x")]}, r"rows that are not of the columns 'ts timestamp, partition .*'n'"),
        ({"read": [(BEGIN, 1)]}, r"rows that are not of the columns .*2 values, 3 were declared"),
    ],
)
def test_what_fails_is_told_with_the_users_line_and_nothing_is_lost(
    answers: dict[str, Any], words: str, tmp_path: Path
) -> None:
    with pytest.raises(SpoutError, match=f"(?s)spout 'parts': Says.*{words}") as failed:
        run_local(plain(Says(**answers), tmp_path / "out"), RunOptions(str(tmp_path / "ck")))
    assert failed.value.spout == "parts"
    if "begin" not in answers:
        run_local(plain(Says(), tmp_path / "out"), RunOptions(str(tmp_path / "ck")))
        assert numbers_in(tmp_path / "out") == expected({"a": 5})


class Counts(PartitionedSpout):
    """Moves its offsets on in place; each range fails once after that."""

    schema, rows_per_batch = "n long", 4

    def __init__(self) -> None:
        self.failed: set[int] = set()

    def partitions(self) -> Any:
        return ["a", "b"]

    def end(self, partition: str, start: Any, limit: int) -> Any:
        start = {"n": 0} if start is None else start
        start["n"] = min(start["n"] + limit, 9)
        return start

    def read(self, partition: str, start: Any, end: Any) -> Any:
        start, rows = {"n": 0} if start is None else start, []
        while start["n"] < end["n"]:
            rows.append((start["n"],))
            start["n"] += 1
        if end["n"] not in self.failed:
            self.failed.add(end["n"])
            raise ConnectionResetError("reset by peer")
        return rows

    def acknowledge(self, offsets: Any) -> None:
        for offset in offsets.values():
            offset["n"] = 9


@pytest.mark.parametrize("kept", [False, True])
def test_a_spout_may_change_the_offsets_that_it_is_given(
    kept: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(pulling, "PAUSES", (0, 0, 0))
    builder = TopologyBuilder("counts")
    builder.set_spout("counts", Counts())
    out = sinks.memory()
    builder.set_sink("out", out).from_("counts")
    run_local(builder.build(), RunOptions(str(tmp_path) if kept else None))
    assert sorted(row["n"] for row in out.rows) == sorted([*range(9)] * 2)


def test_a_partition_that_goes_away_is_told(tmp_path: Path) -> None:
    run_local(plain(Parts({"a": 5, "b": 5}), tmp_path / "out"), RunOptions(str(tmp_path / "ck")))
    with pytest.raises(SpoutError, match=r"partitions\(\) does not return 'b' any more. it was read up to 5"):
        run_local(plain(Parts({"a": 6}), tmp_path / "out"), RunOptions(str(tmp_path / "ck")))
    run_local(plain(Parts({"a": 6, "b": 5}), tmp_path / "out"), RunOptions(str(tmp_path / "ck")))
    assert numbers_in(tmp_path / "out") == expected({"a": 6, "b": 5})


def test_what_may_pass_is_tried_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(pulling, "PAUSES", (0, 0, 0))
    failures = dict.fromkeys(("open", "partitions", "begin", "end", "read"), 1)

    def flaky(method: str) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            if failures[method]:
                failures[method] -= 1
                raise ConnectionResetError("reset by peer")
            return {"open": None, "partitions": ["a"], "begin": 2}.get(method) or getattr(Parts, method)(spout, *given)

        return call

    spout = Says(**{method: flaky(method) for method in failures})  # type: ignore[arg-type]
    spout.lock = threading.Lock()
    monkeypatch.setitem(spout.answers, "open", lambda: flaky("open")() if failures["open"] else None)
    monkeypatch.setattr(copy, "copy", lambda each: each)
    run_local(plain(spout, tmp_path))
    assert numbers_in(tmp_path) == [("a", 2), ("a", 3), ("a", 4)]
    assert not any(failures.values())
    failures["read"] = 4
    with pytest.raises(SpoutError, match=r"ConnectionResetError: reset by peer at .*, in call") as failed:
        run_local(plain(spout, tmp_path / "other"))
    assert failed.value.transient


class NoColumns(Parts):
    schema = None  # type: ignore[assignment]


class NoLimit(Parts):
    rows_per_batch = 0


class Misspelt(Parts):
    merge_by = "time"


class Shorter(Parts):
    def read(self, partition: str, start: Any) -> Any:  # type: ignore[override]
        return []


class NoMethod(Parts):
    partitions = ["a"]  # type: ignore[assignment]  # noqa: RUF012


class MergedByText(Parts):
    merge_by = "partition"


SAME = Parts()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([NoColumns()], r"NoColumns declares no columns"),
        ([NoLimit()], r"NoLimit has rows_per_batch = 0"),
        ([Misspelt()], r"spout 'spout0'.*merge_by='time' is not a column of the rows: they have ts, "),
        ([Shorter()], r"Shorter.read at .*spouts.py:\d+ cannot be called as read\(partition, start, end\). too many "),
        ([NoMethod()], r"NoMethod.partitions cannot be called as partitions\(\). .* write def partitions\(self\)"),
        ([MergedByText()], r"merge_by='partition' is partition string"),
        ([Parts], r"that is a class. give Parts\(\)"),
        ([SAME, SAME], r"spouts 'spout0' and 'spout1' are the same Parts"),
    ],
)
def test_mistakes_are_found_before_a_run(given: list[Any], words: str) -> None:
    def build() -> None:
        builder = TopologyBuilder("t")
        for number, spout in enumerate(given):
            builder.set_spout(f"spout{number}", spout)
        builder.set_sink("out", sinks.memory()).from_("spout0")
        builder.build()

    with pytest.raises(WindboltError, match=words):
        build()


def test_to_look_at_it_reads_its_first_rows_and_acknowledges_nothing() -> None:
    spout = Parts({"a": 3, "b": 0})
    found = inspect_spouts(topology(spout)[0])["parts"]
    assert dict(found.facts)["partitions"] == "2"
    assert dict(found.facts)["read"] == "3 rows"
    assert [call.partition(" ")[0] for call in spout.calls] == ["open", "close", *["open", "read", "close"] * 2]
    many = Parts({f"p{number}": 1 for number in range(20)})
    assert dict(inspect_spouts(topology(many)[0])["parts"].facts)["read"] == "20 rows"
    assert many.calls.count("open") == many.calls.count("close") == 3
    assert dict(inspect_spouts(topology(Parts({}))[0])["parts"].facts)["read"] == "no rows"
    (problem,) = inspect_spouts(topology(Says(read=broken))[0])["parts"].problems
    assert "KeyError: 'price'" in str(problem)


def test_to_look_at_it_finds_that_it_cannot_be_read_again() -> None:
    calls = iter(range(1_000))
    spout = Says(read=lambda partition, start, end: [row_of(partition, next(calls))])
    (problem,) = inspect_spouts(topology(spout)[0])["parts"].problems
    assert "Says.read('a', null, 5) returned other rows when it was called again" in str(problem)


def test_rows_with_numbers_that_are_none_are_the_same_again() -> None:
    class NotNumbers(Parts):
        schema = "partition string, x double, more array<double>"

        def read(self, partition: str, start: Any, end: Any) -> Any:
            return [(partition, float("nan"), [float("nan"), 1.0])]

    builder = TopologyBuilder("t")
    builder.set_spout("parts", NotNumbers())
    builder.set_sink("out", sinks.memory()).from_("parts")
    found = inspect_spouts(builder.build())["parts"]
    assert (found.problems, dict(found.facts)["read"]) == ((), "3 rows")


def test_given_events_are_of_no_partition(tmp_path: Path) -> None:
    built, _ = topology(Parts())
    rows = [{"ts": BEGIN, "partition": "a", "n": 1}]
    with pytest.raises(ConfigError, match="its watermark follows the partitions of 'parts'"):
        begin_with(str(tmp_path / "ck"), built, {"parts": rows}, lambda: 0)


def test_a_checkpoint_in_a_store(
    empty_store: S3, right: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {**ENVIRONMENT, "AWS_ENDPOINT_URL": f"http://{empty_store.address}"}.items():
        monkeypatch.setenv(name, value)
    with pytest.MonkeyPatch.context() as patch:
        failing("run", MicroBatch, 2, after=False)(patch)
        with pytest.raises(KeyboardInterrupt):
            run_local(topology(Parts(), tmp_path / "out")[0], RunOptions("s3://bucket/ck"))
    run_local(topology(Parts(), tmp_path / "out")[0], RunOptions("s3://bucket/ck"))
    assert rows_in(tmp_path / "out") == right
    assert [os.path.dirname(name) for name in empty_store.names() if f"/{FOLDER}/" in name] == [
        f"ck/{FOLDER}/parts"
    ] * 4


def test_offsets_are_kept_where_the_number_of_tasks_changes(tmp_path: Path) -> None:
    def counting(parallelism: int) -> Topology:
        builder = TopologyBuilder("parts")
        builder.set_spout("parts", Parts())
        bolt = Ids().with_tumbling_window(seconds(LENGTH)).with_timestamp_field("ts").with_watermark(partition=SOURCE)
        builder.set_bolt("ids", bolt, parallelism).fields_grouping("parts", "partition")
        builder.set_sink("out", sinks.files(str(tmp_path / "out"), "jsonl")).from_("ids")
        return builder.build()

    calls = iter(range(1, 1_000))
    stopped = RunOptions(
        str(tmp_path / "ck"), keep_open=True, on_report=lambda report: stopped.stop.set() if next(calls) == 3 else None
    )
    first = run_local(counting(1), stopped)
    rest = run_local(counting(3), RunOptions(str(tmp_path / "ck"), allow_rescale=True))
    assert first.rows + rest.rows == sum(SIZES.values())
    ids = [name for line in rows_in(tmp_path / "out") for name in json.loads(line)["ids"].split(" ")]
    assert sorted(ids) == sorted(f"{partition}{n}" for partition, n in expected(SIZES))
