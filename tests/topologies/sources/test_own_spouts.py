"""Spouts that users write: each row is in exactly one batch, whatever crashes, also where the source forgets."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from manager.storage import files
from servers.s3 import ENVIRONMENT, S3
from topologies.checkpoints import savepoint
from topologies.checkpoints.file_journal import FileJournal
from topologies.checkpoints.going_back import go_back
from topologies.checkpoints.inspect_spouts import inspect_spouts
from topologies.checkpoints.paired_checkpoint import PairedCheckpoint
from topologies.checkpoints.pulled_files import FOLDER, PulledFiles
from topologies.checkpoints.savepoint import take_savepoint
from topologies.engine import pulling
from topologies.engine.micro_batch import MicroBatch
from topologies.graph.describing import spout_in_words
from topologies.io.pulled import PulledSpout, in_their_zone
from topologies.testing.driver import TopologyDriver
from windbolt import RunOptions, Topology, TopologyBuilder, run_local, sinks, spouts
from windowing import PartitionedSpout, Spout, SpoutError, TupleWindow, WindowedBolt, seconds
from windowing.errors import BoltError, CheckpointError, WindboltError
from windowing.schema import DEFAULT_STREAM, parse_schema, tables

BEGIN = datetime(2024, 1, 1, tzinfo=UTC)
ROWS = 40
LENGTH = 4


class Queue:
    """A source that forgets what has been acknowledged."""

    def __init__(self, rows: int = ROWS) -> None:
        self.rows = dict(enumerate((BEGIN + timedelta(seconds=number), number) for number in range(rows)))
        self.events: list[str] = []

    @property
    def called(self) -> list[str]:
        return [event.partition(" ")[0] for event in self.events]


class Numbers(Spout):
    schema = "ts timestamp, n long"
    rows_per_batch = 5

    def __init__(self, queue: Queue) -> None:
        self.queue = queue

    def open(self) -> None:
        self.queue.events.append("open")

    def read(self, offset: Any, limit: int) -> Any:
        self.queue.events.append(f"read {offset} {limit}")
        start = 0 if offset is None else offset["next"]
        rows = [self.queue.rows[number] for number in range(start, start + min(limit, 3)) if number in self.queue.rows]
        return (rows, {"next": start + len(rows)}) if rows else None

    def acknowledge(self, offset: Any) -> None:
        self.queue.events.append(f"acknowledge {offset['next']}")
        self.queue.rows = {number: row for number, row in self.queue.rows.items() if number >= offset["next"]}

    def close(self) -> None:
        self.queue.events.append("close")


class Ids(WindowedBolt):
    outputs = "first long, numbers string"

    def execute(self, window: TupleWindow) -> Any:
        numbers = window.column("n").tolist()
        return numbers[0], " ".join(map(str, numbers))


def topology(spout: Any, out: Path | None = None) -> tuple[Topology, Any]:
    builder = TopologyBuilder("numbers")
    builder.set_spout("numbers", spout)
    bolt = Ids().with_tumbling_window(seconds(LENGTH)).with_timestamp_field("ts").with_lag(seconds(1))
    builder.set_bolt("ids", bolt).global_grouping("numbers")
    sink = sinks.memory() if out is None else sinks.files(str(out), "jsonl")
    builder.set_sink("out", sink).from_("ids")
    return builder.build(), sink


def rows_in(folder: Path) -> list[str]:
    files = sorted(name for name in os.listdir(folder) if not name.startswith("."))
    return sorted(line for name in files for line in (folder / name).read_text().splitlines())


@pytest.fixture(scope="module")
def right(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    out = tmp_path_factory.mktemp("right")
    built, _ = topology(Numbers(Queue()), out)
    run_local(built)
    return rows_in(out)


def test_every_row_is_in_the_windows_that_the_same_rows_in_memory_have(right: list[str], tmp_path: Path) -> None:
    rows = [(BEGIN + timedelta(seconds=number), number) for number in range(ROWS)]
    built, _ = topology(spouts.memory(Numbers.schema, rows), tmp_path)
    run_local(built)
    assert rows_in(tmp_path) == right
    assert sum(line.count(" ") + 1 for line in right if "numbers" in line) >= ROWS / LENGTH


def test_it_is_opened_read_and_closed_once_a_run(tmp_path: Path) -> None:
    queue = Queue(12)
    built, _ = topology(Numbers(queue))
    assert queue.events == []
    summary = run_local(built)
    assert (summary.rows, summary.batches) == (12, 4)  # the last one closes the windows
    assert queue.events == [
        "open", "read None 5", "read {'next': 3} 2", "read {'next': 5} 5", "read {'next': 8} 2", "read {'next': 10} 5",
        "read {'next': 12} 3", "read {'next': 12} 5", "close",
    ]  # fmt: skip
    queue = Queue(7)
    run_local(topology(Numbers(queue))[0], RunOptions(str(tmp_path / "ck")))
    assert [event for event in queue.events if not event.startswith("read")] == [
        "open", "acknowledge 5", "acknowledge 7", "close",
    ]  # fmt: skip


def failing(attribute: str, owner: type, number: int, *, after: bool) -> Callable[[pytest.MonkeyPatch], None]:
    """Let a method fail at a call, before or after it has done its work."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        method, calls = getattr(owner, attribute), iter(range(1_000))

        def call(*given: Any, **named: Any) -> Any:
            last = next(calls) == number
            if last and not after:
                raise KeyboardInterrupt
            answer = method(*given, **named)
            if last:
                raise KeyboardInterrupt
            return answer

        monkeypatch.setattr(owner, attribute, call)

    return patch


PLACES = [
    (attribute, owner, number, after)
    for attribute, owner in (
        ("_write", PulledFiles), ("plan", FileJournal), ("commit", FileJournal), ("run", MicroBatch),
        ("acknowledge", Numbers), ("read", Numbers), ("acknowledge", PulledFiles),
    )
    for number in (0, 2)
    for after in (False, True)
]  # fmt: skip


@pytest.mark.parametrize(("attribute", "owner", "number", "after"), PLACES)
def test_a_run_that_ends_anywhere_goes_on_without_a_lost_or_a_doubled_row(
    attribute: str, owner: type, number: int, after: bool, right: list[str], tmp_path: Path
) -> None:
    queue, ended = Queue(), False
    with pytest.MonkeyPatch.context() as monkeypatch:
        failing(attribute, owner, number, after=after)(monkeypatch)
        try:
            run_local(topology(Numbers(queue), tmp_path / "out")[0], RunOptions(str(tmp_path / "ck"), keep_open=True))
        except KeyboardInterrupt:
            ended = True
    assert ended
    assert queue.called.count("open") == queue.called.count("close")
    run_local(topology(Numbers(queue), tmp_path / "out")[0], RunOptions(str(tmp_path / "ck")))
    assert rows_in(tmp_path / "out") == right
    assert not queue.rows


def parts(tmp_path: Path, queue: Queue) -> str:
    """A checkpoint on which a run was stopped after its fourth batch."""
    calls = iter(range(1, 1_000))
    stopped = RunOptions(
        str(tmp_path / "ck"), keep_open=True, on_report=lambda report: stopped.stop.set() if next(calls) == 4 else None
    )
    run_local(topology(Numbers(queue), tmp_path / "out")[0], stopped)
    assert ROWS > len(queue.rows) > 0
    return str(tmp_path / "ck")


def test_to_go_back_gives_the_same_batches_again_though_the_source_has_forgotten_them(
    right: list[str], tmp_path: Path
) -> None:
    queue = Queue()
    checkpoint = parts(tmp_path, queue)
    halves = PairedCheckpoint(checkpoint)
    kept = halves.documents.names("manifests")
    assert len(kept) > 1
    go_back(halves, kept[0])
    run_local(topology(Numbers(queue), tmp_path / "out")[0], RunOptions(checkpoint))
    assert rows_in(tmp_path / "out") == right


def test_a_savepoint_and_a_checkpoint_that_was_moved_go_on(right: list[str], tmp_path: Path) -> None:
    queue = Queue()
    checkpoint = parts(tmp_path, queue)
    take_savepoint(PairedCheckpoint(checkpoint), str(tmp_path / "saved"))
    shutil.copytree(tmp_path / "out", tmp_path / "out2")
    other = Queue()
    other.rows = dict(queue.rows)
    shutil.move(checkpoint, tmp_path / "moved")
    for place, source, out in (("moved", queue, "out"), ("saved", other, "out2")):
        run_local(topology(Numbers(source), tmp_path / out)[0], RunOptions(str(tmp_path / place)))
        assert rows_in(tmp_path / out) == right


def test_a_savepoint_that_is_taken_once_more_has_no_rows_of_the_attempt_before(
    right: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of a later batch would be taken for rows that were read, and no batch has had."""
    saved, out, source = tmp_path / "saved", tmp_path / "out", Queue()
    run_local(topology(Numbers(Queue()))[0], RunOptions(str(tmp_path / "whole"), keep_open=True))
    with monkeypatch.context() as dying:
        dying.setattr(savepoint, "read_verified_manifest", _die)
        with pytest.raises(KeyboardInterrupt):
            take_savepoint(PairedCheckpoint(str(tmp_path / "whole")), str(saved))
    checkpoint = parts(tmp_path, source)
    take_savepoint(PairedCheckpoint(checkpoint), str(saved))
    assert sorted(os.listdir(saved / FOLDER / "numbers")) == sorted(os.listdir(Path(checkpoint) / FOLDER / "numbers"))
    run_local(topology(Numbers(source), out)[0], RunOptions(str(saved)))
    assert rows_in(out) == right


def _die(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_checkpoint_that_was_moved_with_a_batch_begun_goes_on(right: list[str], tmp_path: Path) -> None:
    queue = Queue()
    built, _ = topology(Numbers(queue), tmp_path / "out")
    with pytest.MonkeyPatch.context() as monkeypatch:
        failing("run", MicroBatch, 2, after=False)(monkeypatch)
        with pytest.raises(KeyboardInterrupt):
            run_local(built, RunOptions(str(tmp_path / "ck")))
    shutil.move(tmp_path / "ck", tmp_path / "ck [2] {a}")
    run_local(topology(Numbers(queue), tmp_path / "out")[0], RunOptions(str(tmp_path / "ck [2] {a}")))
    assert rows_in(tmp_path / "out") == right


def test_files_that_nobody_can_go_back_to_are_deleted(tmp_path: Path) -> None:
    run_local(topology(Numbers(Queue()))[0], RunOptions(str(tmp_path), keep_batches=2))
    assert sorted(os.listdir(tmp_path / FOLDER / "numbers")) == [f"{number:012d}.arrow" for number in (5, 6, 7)]
    assert (tmp_path / FOLDER / "numbers" / "000000000007.arrow").stat().st_mode & 0o777 == 0o600
    shutil.rmtree(tmp_path / FOLDER)
    with pytest.raises(CheckpointError, match=r"spout 'numbers' cannot go on: .*000000000007.arrow is gone"):
        run_local(topology(Numbers(Queue()))[0], RunOptions(str(tmp_path)))


def test_a_service_takes_what_comes(tmp_path: Path) -> None:
    """With ``every`` there is a batch at each trigger, and the source may have nothing."""
    queue, batches = Queue(3), list[int]()
    more = {number: row for number, row in Queue(9).rows.items() if number >= 3}

    def report(batch: Any) -> None:
        batches.append(batch.rows)
        queue.rows.update({number: row for number, row in more.items() if number < 3 * len(batches) + 3})
        if sum(batches) == 9:
            options.stop.set()

    options = RunOptions(str(tmp_path), every="1ms", on_report=report)
    run_local(topology(Numbers(queue))[0], options)
    assert [rows for rows in batches if rows] == [3, 3, 3]


class Answers(Spout):
    """Returns what it is given, once each."""

    schema = "ts timestamp, n long"

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)

    def read(self, offset: Any, limit: int) -> Any:
        answer = self.answers.pop(0) if self.answers else None
        return answer() if callable(answer) else answer


ROW = (BEGIN, 1)


@pytest.mark.parametrize(
    "rows",
    [
        [ROW],
        ROW,
        {"ts": BEGIN, "n": 1},
        [{"n": 1, "ts": BEGIN}],
        pa.table({"n": [1], "ts": [BEGIN]}),
        pd.DataFrame({"n": [1], "ts": [BEGIN]}),
    ],
    ids=["tuples", "a tuple", "a dict", "dicts", "a table", "a frame"],
)
def test_rows_are_what_bolts_return(rows: Any) -> None:
    assert run_local(topology(Answers((rows, 1), (rows, "b"), (rows, [1, {"a": None}])))[0]).rows == 3


class Local(Answers):
    schema = "ts timestamp, n long, more array<struct<at: timestamp>>"
    timezone = "Europe/Berlin"


class LocalParts(PartitionedSpout):
    """The same, as a partition."""

    schema, timezone = Local.schema, Local.timezone

    def __init__(self, rows: Any) -> None:
        self.rows = rows

    def partitions(self) -> Any:
        return ["a"]

    def end(self, partition: str, start: Any, limit: int) -> Any:
        return 1

    def read(self, partition: str, start: Any, end: Any) -> Any:
        return self.rows


def wall(*parts: int) -> datetime:
    """A time without a zone."""
    return datetime(*parts)  # type: ignore[arg-type]  # noqa: DTZ001


@pytest.mark.parametrize("kind", ["rows", "dicts", "table", "frame"])
@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (wall(2024, 7, 1, 12), datetime(2024, 7, 1, 10, tzinfo=UTC)),
        (datetime(2024, 7, 1, 12, tzinfo=UTC), datetime(2024, 7, 1, 12, tzinfo=UTC)),
        (wall(2024, 10, 27, 2, 30), datetime(2024, 10, 27, 0, 30, tzinfo=UTC)),  # is there twice: the first
        (wall(2024, 3, 31, 2, 30), datetime(2024, 3, 31, 1, 30, tzinfo=UTC)),  # is skipped: as 03:30
        (date(2024, 7, 1), datetime(2024, 6, 30, 22, tzinfo=UTC)),
        (None, None),
    ],
    ids=str,
)
def test_times_without_a_zone_are_of_the_spouts_zone(given: Any, wanted: Any, kind: str) -> None:
    row = {"ts": given, "n": 1, "more": [{"at": given}]}
    rows = {
        "rows": lambda: [tuple(row.values())],
        "dicts": lambda: [row],
        "table": lambda: pa.Table.from_pylist([row]),
        "frame": lambda: pa.Table.from_pylist([row]).to_pandas(),
    }[kind]()
    for spout in (Local((rows, 1)), LocalParts(rows)):
        builder, out = TopologyBuilder("times"), sinks.memory()
        builder.set_spout("in", spout)
        builder.set_sink("out", out).from_("in")
        run_local(builder.build())
        assert [(row["ts"], row["more"][0]["at"]) for row in out.rows] == [(wanted, wanted)]


class Zoned(Local):
    schema = "ts timestamp, n long, more map<string, timestamp>"


LATER = datetime(2024, 7, 1, 12, tzinfo=UTC)
BOTH = [wall(2024, 7, 1, 12), LATER]


@pytest.mark.parametrize(
    ("ts", "rows"),
    [
        ("timestamp", [(np.datetime64("2024-07-01T12:00"), 1), (np.datetime64("2024-07-01T14:00:00"), 2)]),
        ("timestamp", pa.table({"ts": pa.array([BOTH[0], wall(2024, 7, 1, 14)]).dictionary_encode(), "n": [1, 2]})),
        ("timestamp", pd.DataFrame({"ts": BOTH, "n": [1, 2]})),
        ("timestamp", pd.DataFrame([[LATER, 1], [BOTH[0], 2]])),
        ("array<timestamp>", [(BOTH, 1)]),
        ("array<timestamp>", [({*BOTH}, 1)]),
        ("array<timestamp>", [(np.array(BOTH), 1)]),
        ("array<timestamp>", pd.DataFrame({"ts": [BOTH], "n": [1]})),
        ("map<string, timestamp>", [({"a": BOTH[0], "b": BOTH[1]}, 1)]),
        ("map<string, timestamp>", [([("a", BOTH[0]), ["b", BOTH[1]]], 1)]),
    ],
    ids=[
        "numpy",
        "dictionary-encoded",
        "frame",
        "frame of both kinds",
        "list",
        "set",
        "array",
        "frame of lists",
        "dict",
        "pairs",
    ],
)
def test_times_without_a_zone_are_of_it_whatever_holds_them(ts: str, rows: Any) -> None:
    schema = parse_schema(f"ts {ts}, n long")
    ((_, found),) = tables(in_their_zone(rows, schema, "Europe/Berlin"), {DEFAULT_STREAM: schema})
    times = found.column("ts").to_pylist()
    if ts != "timestamp":
        times = [each[1] if isinstance(each, tuple) else each for each in times[0]]
    assert sorted(times) == [LATER.replace(hour=10), LATER]


class LocalDefault(Local):
    defaults = {"ts": BOTH[0], "more": [{"at": BOTH[0]}]}  # noqa: RUF012


class LocalPartsDefault(LocalParts):
    defaults = LocalDefault.defaults


def test_defaults_without_a_zone_are_of_the_spouts_zone(tmp_path: Path) -> None:
    rows = [{"n": 1}]
    given: list[Spout | PartitionedSpout] = [LocalDefault((rows, 1)), LocalPartsDefault(rows)]
    for number, spout in enumerate(given):
        builder, out = TopologyBuilder("times"), sinks.memory()
        builder.set_spout("in", spout)
        builder.set_sink("out", out).from_("in")
        run_local(builder.build(), RunOptions(str(tmp_path / str(number))))
        assert [(row["ts"], row["more"][0]["at"]) for row in out.rows] == [(LATER.replace(hour=10),) * 2]


def test_values_that_are_no_maps_are_refused_in_a_zone_as_without_one() -> None:
    for wrong in (5, [1], [("a", LATER, 1)]):
        with pytest.raises(SpoutError, match=r"rows that are not of the columns .*is not a (map|key and a value)"):
            run_local(topology(Zoned(([(BEGIN, 1, wrong)], 1)))[0])


def test_a_text_is_no_time_and_a_zone_exists() -> None:
    with pytest.raises(SpoutError, match=r"rows that are not of the columns .*'2024-01-01T05:00:00' is string"):
        run_local(topology(Answers(([("2024-01-01T05:00:00", 1)], 1)))[0])

    class Nowhere(Answers):
        timezone = "Europe/Brelin"

    with pytest.raises(WindboltError, match=r"Europe/Brelin"):
        topology(Nowhere())


class Filled(Answers):
    defaults = {"n": 7}  # noqa: RUF012


def test_columns_have_defaults() -> None:
    built, out = topology(Filled(([{"ts": BEGIN}, {"ts": BEGIN, "n": None}, ROW], 1)))
    run_local(built)
    assert [row["numbers"] for row in out.rows] == ["7 7 1"]


def broken() -> Any:
    raise KeyError("price")


def endless() -> Iterator[Any]:
    yield ROW
    raise ZeroDivisionError("in a generator")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (broken, r"read\(null, 100000\) failed. KeyError: 'price' at .*test_own_spouts.py:\d+, in broken"),
        (lambda: (endless(), 1), r"ZeroDivisionError: in a generator at .*test_own_spouts.py:\d+, in endless"),
        (lambda: exit(0), r"read\(null, 100000\) failed. SystemExit"),
        ([ROW], r"returned list .*it returns the next rows and the offset behind them, or None"),
        (([ROW], 1, 2), r"returned tuple"),
        (([ROW], {1, 2}), r"returned the offset \{1, 2\}. offsets are kept as JSON, and Object of type set"),
        (([ROW], float("nan")), r"returned the offset nan"),
        (([ROW], None), r"returned the offset None. that is the offset of the beginning"),
        (([(BEGIN, "x")], 1), r"rows that are not of the columns 'ts timestamp, n long'. .*'n'"),
        (([(BEGIN, 1, 2)], 1), r"rows that are not of the columns .*3 values, 2 were declared"),
        (("text", 1), r"rows that are not of the columns"),
    ],
)
def test_what_fails_is_told_with_the_users_line_and_nothing_is_committed(
    answer: Any, words: str, tmp_path: Path
) -> None:
    built, out = topology(Answers(answer, ([ROW], 1)))
    with pytest.raises(SpoutError, match=f"(?s)spout 'numbers': Answers.*{words}") as failed:
        run_local(built, RunOptions(str(tmp_path)))
    assert failed.value.spout == "numbers"
    run_local(built, RunOptions(str(tmp_path)))
    assert len(out.rows) == 1


class Names(Answers):
    def acknowledge(self, offset: Any) -> None:
        raise KeyError("gone")


def test_an_error_has_no_more_of_an_offset_than_one_reads_and_can_be_printed(tmp_path: Path) -> None:
    offset = [f"\ud800{number}" for number in range(1_000)]
    with pytest.raises(SpoutError, match=r"acknowledge\(.*\) failed. KeyError: 'gone' at .*, in acknowledge") as failed:
        run_local(topology(Names(([ROW], offset)))[0], RunOptions(str(tmp_path)))
    assert len(str(failed.value).encode()) < 500


class Flaky(Numbers):
    failures = 3

    def open(self) -> None:
        super().open()
        if self.queue.called.count("open") < 2:
            raise TimeoutError("no answer")

    def read(self, offset: Any, limit: int) -> Any:
        answer = super().read(offset, limit)
        if self.queue.called.count("read") <= self.failures:
            raise ConnectionResetError("reset by peer")
        return answer


def test_what_may_pass_is_tried_again(monkeypatch: pytest.MonkeyPatch, right: list[str], tmp_path: Path) -> None:
    monkeypatch.setattr(pulling, "PAUSES", (0, 0, 0, 0, 0))
    queue = Queue()
    run_local(topology(Flaky(queue), tmp_path)[0])
    assert rows_in(tmp_path) == right
    assert queue.events[:6] == ["open", "open", *["read None 5"] * 4]
    monkeypatch.setattr(pulling, "PAUSES", (0,))
    queue = Queue()
    with pytest.raises(SpoutError, match=r"ConnectionResetError: reset by peer at .*, in read") as failed:
        run_local(topology(Flaky(queue))[0])
    assert failed.value.transient
    assert queue.called.count("close") == 1


class Moving(Numbers):
    """Moves its offset on before it fails, once for each."""

    def read(self, offset: Any, limit: int) -> Any:
        moved = {"next": 0} if offset is None else offset
        start, moved["next"] = moved["next"], min(moved["next"] + 3, ROWS)
        if f"failed {start}" not in self.queue.events:
            self.queue.events.append(f"failed {start}")
            raise ConnectionResetError("reset by peer")
        return [self.queue.rows[number] for number in range(start, moved["next"])], moved


def test_a_spout_may_change_the_offset_that_it_is_given(
    monkeypatch: pytest.MonkeyPatch, right: list[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(pulling, "PAUSES", (0,))
    run_local(topology(Moving(Queue()), tmp_path)[0])
    assert rows_in(tmp_path) == right


class NoColumns(Spout):
    def read(self, offset: Any, limit: int) -> Any:
        return None


class NoLimit(Answers):
    rows_per_batch = 0


class NoSchema(Answers):
    schema = "ts timestamp, n lang"


class NoName(Answers):
    timezone = ZoneInfo("Europe/Berlin")  # type: ignore[assignment]


class Longer(Answers):
    def read(self, partition: str, start: Any, end: Any) -> Any:  # type: ignore[override]
        return None


class WrongDefault(Answers):
    defaults = {"m": 1}  # noqa: RUF012


SAME = Answers()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([NoColumns()], r"NoColumns declares no columns"),
        ([NoLimit()], r"NoLimit has rows_per_batch = 0"),
        ([NoName()], r"NoName has timezone = zoneinfo.ZoneInfo.* give a text, such as 'Europe/Berlin'"),
        (
            [Longer()],
            r"Longer.read at .*cannot be called as read\(offset, limit\).*write def read\(self, offset, limit\)",
        ),
        ([NoSchema()], r"spout 'spout0'.*lang"),
        ([WrongDefault()], r"spout 'spout0'.*defaults name 'm'"),
        ([Numbers], r"that is a class. give Numbers\(\)"),
        ([SAME, SAME], r"spouts 'spout0' and 'spout1' are the same Answers"),
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
    queue = Queue(12)
    built, _ = topology(Numbers(queue))
    found = inspect_spouts(built)["numbers"]
    assert dict(found.facts)["read"] == "12 rows"
    assert dict(found.facts)["ts"] == "2024-01-01T00:00:00Z to 2024-01-01T00:00:11Z"
    assert {*queue.called} == {"open", "read", "close"}
    (problem,) = inspect_spouts(topology(Answers(broken))[0])["numbers"].problems
    assert "KeyError: 'price'" in str(problem)
    assert spout_in_words(built.spouts["numbers"].spout) == "Numbers, about 5 rows a batch"


class Fails(Ids):
    def execute(self, window: TupleWindow) -> Any:
        raise ValueError("no")


def test_a_test_pushes_through_it() -> None:
    queue = Queue()
    driver = TopologyDriver(topology(Numbers(queue))[0])
    driver.push("numbers", [(BEGIN, 0), (BEGIN + timedelta(seconds=LENGTH + 1), 5)])
    driver.close()
    assert [row["numbers"] for row in driver.read("out")] == ["0", "5"]
    assert queue.events == []


def test_it_is_closed_after_a_run_that_fails_and_what_close_raises_is_told(tmp_path: Path) -> None:
    queue = Queue(12)
    builder = TopologyBuilder("t")
    builder.set_spout("numbers", Numbers(queue))
    builder.set_bolt("ids", Fails().with_tumbling_window(4).with_timestamp_field("ts")).global_grouping("numbers")
    for options in (RunOptions(), RunOptions(str(tmp_path))):
        with pytest.raises(BoltError):
            run_local(builder.build(), options)
        assert queue.events[-1] == "close"

    class Closing(Answers):
        def close(self) -> None:
            raise OSError(5, "cannot be closed")

    with pytest.raises(SpoutError, match=r"Closing.close\(\) failed. .*cannot be closed"):
        run_local(topology(Closing(([ROW], 1)))[0])


@pytest.mark.parametrize("kept", [False, True])
def test_what_close_raises_does_not_hide_why_a_run_failed(kept: bool, tmp_path: Path) -> None:
    def fails(*given: Any) -> Any:
        raise KeyError("in the call")

    def closes(self: Any) -> None:
        raise RuntimeError("in close")

    broken = {"read": fails, "close": closes}
    for spout in (type("Broken", (Answers,), broken)(), type("BrokenParts", (LocalParts,), broken)([])):
        builder = TopologyBuilder("t")
        builder.set_spout("in", spout)
        builder.set_sink("out", sinks.memory()).from_("in")
        with pytest.raises(SpoutError, match=r"read\(.*KeyError: 'in the call'"):
            run_local(builder.build(), RunOptions(str(tmp_path / type(spout).__name__) if kept else None))
    built, _ = topology(type("Broken", (Answers,), broken)())
    (problem,) = inspect_spouts(built)["numbers"].problems
    assert "in the call" in str(problem)


def test_a_file_is_there_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A draft that a run has left behind is no batch."""
    queue = Queue(12)
    move = files.move

    def ends(filesystem: Any, path: str, target: str) -> None:
        if target.endswith(".arrow"):
            raise TypeError(target)
        move(filesystem, path, target)

    monkeypatch.setattr(files, "move", ends)
    with pytest.raises(TypeError):
        run_local(topology(Numbers(queue))[0], RunOptions(str(tmp_path)))
    assert [name[0] for name in os.listdir(tmp_path / FOLDER / "numbers")] == ["."]
    monkeypatch.undo()
    assert run_local(topology(Numbers(queue))[0], RunOptions(str(tmp_path))).rows == 12


def test_a_checkpoint_in_a_store(
    empty_store: S3, right: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue, checkpoint = Queue(), "s3://bucket/ck"
    with pytest.raises(WindboltError, match="is named with options"):
        run_local(topology(Numbers(queue))[0], RunOptions(empty_store.uri("ck")))
    for name, value in {**ENVIRONMENT, "AWS_ENDPOINT_URL": f"http://{empty_store.address}"}.items():
        monkeypatch.setenv(name, value)
    with pytest.MonkeyPatch.context() as patch:
        failing("run", MicroBatch, 2, after=False)(patch)
        with pytest.raises(KeyboardInterrupt):
            run_local(topology(Numbers(queue), tmp_path / "out")[0], RunOptions(checkpoint))
    run_local(topology(Numbers(queue), tmp_path / "out")[0], RunOptions(checkpoint))
    assert rows_in(tmp_path / "out") == right
    kept = [name for name in empty_store.names() if f"/{FOLDER}/" in name]
    assert kept == [f"ck/{FOLDER}/numbers/{number:012d}.arrow" for number in (4, 5, 6, 7)]


@pytest.mark.parametrize("when", ["it pulls", "it begins"])
def test_the_run_that_had_a_checkpoint_in_a_store_reads_on_a_little(
    when: str, empty_store: S3, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run that has taken it over goes on behind these rows: it had pulled the same ones, or opened the source."""
    for name, value in {**ENVIRONMENT, "AWS_ENDPOINT_URL": f"http://{empty_store.address}"}.items():
        monkeypatch.setenv(name, value)
    built, out = topology(Numbers(Queue(5)))
    run_local(built, RunOptions("s3://bucket/ck", keep_open=True))
    write, new = PulledFiles._write, PulledFiles.new

    def another_has_written(self: PulledFiles, number: int, pulled: Any) -> bool:
        monkeypatch.setattr(PulledFiles, "_write", write)
        assert write(self, number, pulled)
        return write(self, number, pulled)

    def another_writes(self: PulledFiles, read: dict[str, int]) -> Any:
        monkeypatch.setattr(PulledFiles, "new", new)
        with pulling.Puller("numbers", PulledSpout(Numbers(Queue(13))), {"next": 5}) as puller:
            pulled = puller.pull()
        assert pulled is not None
        assert write(self, 1, pulled)
        return new(self, read)

    if when == "it pulls":
        monkeypatch.setattr(PulledFiles, "_write", another_has_written)
    else:
        monkeypatch.setattr(PulledFiles, "new", another_writes)
    built, more = topology(Numbers(Queue(13)))
    assert run_local(built, RunOptions("s3://bucket/ck")).rows == 8
    whole, every = topology(Numbers(Queue(13)))
    run_local(whole)
    assert [*out.rows, *more.rows] == every.rows


def test_two_runs_on_one_checkpoint_in_a_store_do_not_overwrite_each_others_rows(
    empty_store: S3, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {**ENVIRONMENT, "AWS_ENDPOINT_URL": f"http://{empty_store.address}"}.items():
        monkeypatch.setenv(name, value)
    write = PulledFiles._write

    def another_is_faster(self: PulledFiles, number: int, pulled: Any) -> bool:
        monkeypatch.setattr(PulledFiles, "_write", write)
        other = run_local(topology(Numbers(Queue(7)))[0], RunOptions("s3://bucket/ck"))
        assert other.rows == 7
        return write(self, number, pulled)

    monkeypatch.setattr(PulledFiles, "_write", another_is_faster)
    with pytest.raises(CheckpointError, match="has been taken over"):
        run_local(topology(Numbers(Queue()))[0], RunOptions("s3://bucket/ck"))
    assert len([name for name in empty_store.names() if f"/{FOLDER}/" in name]) == 2
