"""What cannot be moved to other tasks is named, and nothing is written; a death leaves the old state or the new one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from manager.storage.checkpoint import FileCheckpoint
from topologies.checkpoints.going_back import go_back
from topologies.checkpoints.paired_checkpoint import PairedCheckpoint
from topologies.checkpoints.rescale import move_tasks
from topologies.checkpoints.topology_fit import stored_task_counts
from topologies.cli.app import app
from topologies.run.summary import Summary
from topologies.topology import Topology
from windbolt import RunOptions, TopologyBuilder, run_local, sinks, spouts
from windowing import AggregateBolt, StatefulBolt, StatefulWindowedBolt, Tuple, TupleWindow, WindowedBolt, aggregates
from windowing.errors import BoltError, CheckpointError, ConfigError
from windowing.schema import EmittedRows
from windowing.settings.kinds import Session

SCHEMA = "user string, amount long, ts timestamp"
HOUR = 3_600_000_000


class Rows(WindowedBolt):
    """The rows of a window."""

    outputs = "stop timestamp, rows long"

    def execute(self, window: TupleWindow) -> EmittedRows:
        """A row."""
        return window.end_timestamp, len(window)


class Gone(Rows):
    """What has left the window."""

    def execute(self, window: TupleWindow) -> EmittedRows:
        """A row."""
        return window.end_timestamp, len(window.expired)


class Undeclared(StatefulWindowedBolt, Rows):
    """A state of which nothing is said."""

    state_types = {"total": int}  # noqa: RUF012

    def execute(self, window: TupleWindow) -> EmittedRows:
        """A row."""
        self.state["total"] += len(window)
        return window.end_timestamp, self.state["total"]


class ByMethod(Undeclared):
    """The first task has the total."""

    def move_state(self, states: Any, task_of: Any, tasks: int) -> list[dict[str, Any]]:
        """The first task has the total."""
        total = sum(state["total"] for state in states)
        return [{"total": total if task == task_of("ann") else 0} for task in range(tasks)]


class Wrong(Undeclared):
    """A method that forgets tasks."""

    def move_state(self, states: Any, task_of: Any, tasks: int) -> list[dict[str, Any]]:
        """One state too few."""
        return [{"total": 0}] * (tasks - 1)


class Leaving(Undeclared):
    """A method that ends the process."""

    def move_state(self, states: Any, task_of: Any, tasks: int) -> list[dict[str, Any]]:
        """Never returns."""
        raise SystemExit(0)


class PassedOn(StatefulBolt):
    """Passes on what it is given, in the order in which it comes."""

    outputs = Rows.outputs

    def execute(self, tuple: Tuple) -> EmittedRows:
        """The same row."""
        return dict(tuple.values)


def tumbling(bolt: WindowedBolt) -> WindowedBolt:
    return bolt.with_tumbling_window("10m").with_timestamp_field("ts")


def build(folder: Path, bolt: WindowedBolt, tasks: int, grouping: str = "fields", after: str = "") -> Topology:
    builder = TopologyBuilder("shop")
    builder.set_spout("orders", spouts.files(str(folder / "in" / "*.jsonl"), SCHEMA, files_per_batch=1))
    declared = builder.set_bolt("b", bolt, tasks)
    match grouping:
        case "fields":
            declared.fields_grouping("orders", "user")
        case "shuffle":
            declared.shuffle_grouping("orders")
        case "all":
            declared.all_grouping("orders")
        case _:
            declared.global_grouping("orders")
    if after == "passed on":
        builder.set_bolt("passed", PassedOn()).global_grouping("b")
    if after:
        source = "passed" if after == "passed on" else "b"
        builder.set_bolt("after", Rows().with_tumbling_window("1h"), 2).shuffle_grouping(source)
        builder.set_sink("after-out", sinks.files(str(folder / "after"))).from_("after")
    builder.set_sink("out", sinks.files(str(folder / "out"))).from_("b")
    return builder.build()


def go(folder: Path, topology: Topology, **options: Any) -> Summary:
    return run_local(topology, RunOptions(str(folder / "ck"), clock=lambda: 10 * HOUR, **options))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    for number in range(4):
        more(tmp_path, number)
    return tmp_path


def more(folder: Path, number: int) -> None:
    rows = [
        {"user": user, "amount": 1, "ts": f"1970-01-01T0{number}:{minute:02d}:00Z"}
        for minute in range(0, 60, 7)
        for user in ("ann", "bob", "cid")
    ]
    (folder / "in" / f"{number}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def files_of(folder: Path) -> dict[str, bytes]:
    found = sorted(path for path in (folder / "ck").rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path): path.read_bytes() for path in found}


def move(folder: Path, tasks: int, topology: Topology | None = None) -> Any:
    halves = PairedCheckpoint(str(folder / "ck"))
    halves.lock.take()
    try:
        return move_tasks(halves, {"b": tasks}, topology)
    finally:
        halves.lock.release()


def idle(bolt: WindowedBolt) -> WindowedBolt:
    """Windows that assigners form."""
    return tumbling(bolt).with_watermark(idle_timeout="1m")


REFUSED = [
    (tumbling(Rows()), "shuffle", "", 2, 4, "it reads 'orders' by shuffle grouping"),
    (tumbling(Rows()), "all", "", 2, 4, "it reads 'orders' by all grouping"),
    (tumbling(Rows()), "fields", "then", 2, 4, "sent to 'after' by shuffle grouping"),
    (tumbling(Rows()), "fields", "passed on", 2, 4, "sent to 'after' by shuffle grouping"),
    (Rows().with_tumbling_window(5), "fields", "", 2, 4, "count, or choose among, all the events of a task"),
    (Rows().with_window("10m", 3).with_timestamp_field("ts"), "fields", "", 2, 4, "all the events of a task"),
    (Rows().with_window(Session("5m")).with_timestamp_field("ts"), "fields", "", 2, 4, "depend on all the events"),
    (tumbling(Undeclared()), "fields", "", 2, 4, "its state 'total' is not said to be kept by key"),
    (tumbling(Gone()), "fields", "", 2, 3, "it asks what has expired"),
    (tumbling(AggregateBolt(n=aggregates.count())), "global", "", 1, 3, ""),
    (tumbling(AggregateBolt(n=aggregates.count())), "fields", "", 1, 3, "it keeps sums by nothing, which do not tell"),
    (idle(AggregateBolt(n=aggregates.count())), "fields", "", 1, 3, "it keeps sums by nothing, which do not tell"),
]


@pytest.mark.parametrize(("bolt", "grouping", "after", "before", "now", "reason"), REFUSED)
def test_what_cannot_be_moved_is_named_and_nothing_is_written(
    folder: Path, bolt: WindowedBolt, grouping: str, after: str, before: int, now: int, reason: str
) -> None:
    go(folder, build(folder, bolt, before, grouping, after), keep_open=True)
    found = files_of(folder)
    if not reason:
        assert move(folder, now).tasks == {"b": (before, now)}
        return
    with pytest.raises(CheckpointError, match=reason) as refused:
        move(folder, now)
    assert "bolt 'b'" in str(refused.value)
    assert files_of(folder) == found


def test_whole_tasks_can_be_joined_where_they_cannot_be_divided(folder: Path) -> None:
    go(folder, build(folder, tumbling(Gone()), 4), keep_open=True)
    assert move(folder, 2).tasks == {"b": (4, 2)}


def test_a_bolt_that_is_not_there_and_numbers_out_of_range_are_refused(folder: Path) -> None:
    go(folder, build(folder, tumbling(Rows()), 2), keep_open=True)
    halves = PairedCheckpoint(str(folder / "ck"))
    with pytest.raises(ConfigError, match=r"no windowed bolt 'c'.*the checkpoint has b"):
        move_tasks(halves, {"c": 3})
    for number in (0, 10_001):
        with pytest.raises(ConfigError, match=f"cannot have {number} tasks"):
            move_tasks(halves, {"b": number})
    assert move_tasks(halves, {"b": 2}).tasks == {}


def test_a_bolt_with_a_method_needs_its_code_and_its_mistakes_change_nothing(folder: Path) -> None:
    topology = build(folder, tumbling(ByMethod()), 2)
    go(folder, topology, keep_open=True)
    found = files_of(folder)
    with pytest.raises(CheckpointError, match="cannot be moved without its code"):
        move(folder, 3)
    with pytest.raises(BoltError, match="failed in moving its state"):
        move(folder, 3, build(folder, tumbling(Wrong()), 2))
    with pytest.raises(BoltError, match=r"SystemExit: 0 at .*, in move_state"):
        move(folder, 3, build(folder, tumbling(Leaving()), 2))
    written = {path: data for path, data in files_of(folder).items() if path in found}
    assert written == found
    move(folder, 3, topology)
    more(folder, 4)
    assert go(folder, build(folder, tumbling(ByMethod()), 3)).batches


class Died(BaseException):
    """As a process dies."""


@pytest.mark.parametrize("where", ["before", "after"])
def test_a_death_leaves_the_old_state_or_the_new_one(folder: Path, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    go(folder, build(folder, tumbling(Rows()), 2), keep_open=True)
    whole = FileCheckpoint.replace

    def dying(self: FileCheckpoint, manifest: Any, notes: Any) -> None:
        if where == "after":
            whole(self, manifest, {})
        raise Died

    with monkeypatch.context() as patched:
        patched.setattr(FileCheckpoint, "replace", dying)
        with pytest.raises(Died):
            move(folder, 3)
    more(folder, 4)
    now, other = (2, 3) if where == "before" else (3, 2)
    with pytest.raises(CheckpointError, match=rf"parallelism was {now}, and is {other}"):
        go(folder, build(folder, tumbling(Rows()), other))
    summary = go(folder, build(folder, tumbling(Rows()), now))
    assert summary.last is not None
    accounts = summary.last.bolts["b"].accounts
    assert accounts["received"] == accounts["windowed"] == 135
    segments = list((folder / "ck/windbolt/segments").rglob("*.arrow"))
    kept = {name for key in FileCheckpoint(str(folder / "ck/windbolt")).batches() for name in
            FileCheckpoint(str(folder / "ck/windbolt")).manifest(key).segments()}  # fmt: skip
    assert {f"{path.parent.name}/{path.name}" for path in segments} == kept, "what nothing names is deleted"


def test_a_run_moves_the_state_only_where_it_may(folder: Path) -> None:
    go(folder, build(folder, tumbling(Rows()), 2), keep_open=True)
    with pytest.raises(CheckpointError, match="--allow-rescale"):
        go(folder, build(folder, tumbling(Rows()), 5))
    more(folder, 4)
    summary = go(folder, build(folder, tumbling(Rows()), 5), allow_rescale=True)
    assert summary.rescaled == {"b": (2, 5)}
    assert summary.to_json()["rescaled"] == {"b": [2, 5]}
    assert go(folder, build(folder, tumbling(Rows()), 5), allow_rescale=True).rescaled == {}


def test_a_run_that_may_move_the_state_still_refuses_other_changes(folder: Path) -> None:
    go(folder, build(folder, tumbling(Rows()), 2), keep_open=True)
    other = Rows().with_tumbling_window("20m").with_timestamp_field("ts")
    with pytest.raises(CheckpointError, match="window length was '10m', and is '20m'"):
        go(folder, build(folder, other, 5), allow_rescale=True)
    assert stored_task_counts(PairedCheckpoint(str(folder / "ck"))) == {"b": 2}


def test_going_back_to_a_batch_before_goes_back_to_its_tasks(folder: Path) -> None:
    go(folder, build(folder, tumbling(Rows()), 2), keep_open=True)
    move(folder, 3)
    halves = PairedCheckpoint(str(folder / "ck"))
    assert stored_task_counts(halves) == {"b": 3}
    go_back(halves, halves.documents.names("manifests")[-2])
    assert stored_task_counts(halves) == {"b": 2}
    summary = go(folder, build(folder, tumbling(Rows()), 2))
    assert summary.last is not None
    assert summary.last.bolts["b"].accounts["windowed"] == 108


def test_the_command_needs_no_code_and_says_what_it_has_done(folder: Path) -> None:
    go(folder, build(folder, tumbling(Rows()), 2), keep_open=True)
    done = CliRunner().invoke(app, ["rescale", str(folder / "ck"), "--parallelism", "b=4"])
    assert done.exit_code == 0, done.output
    assert "b: 2 tasks before, 4 now; 9 stored rows moved" in done.output
    again = CliRunner().invoke(app, ["rescale", str(folder / "ck"), "--parallelism", "b=4", "--json"])
    assert json.loads(again.output) == {"batch": "3", "bolts": {}}
    for given, words in {"b": "names a bolt and a number", "b=x": "names a bolt and a number"}.items():
        refused = CliRunner().invoke(app, ["rescale", str(folder / "ck"), "--parallelism", given])
        assert refused.exit_code == 2
        assert words in refused.output
    nowhere = CliRunner().invoke(app, ["rescale", str(folder / "nowhere"), "--parallelism", "b=3"])
    assert nowhere.exit_code == 2
    assert not (folder / "nowhere").exists()
