"""Gives bolts of a checkpoint more or fewer tasks.

The state after the last batch is laid out again, and the manifest that names it replaces the one before in one step: a
process that dies earlier leaves the checkpoint as it was, and some files that the next run deletes. Where no lock keeps
runs off, the checkpoint is claimed first, and a run that has it stops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from manager.accounts import AccountsError
from manager.storage.checkpoint import FileCheckpoint
from manager.storage.files import during
from manager.storage.manifest import BoltState, Manifest, batch_key
from manager.storage.segments import SegmentStore, SegmentWriter
from manager.storage.task_state import TaskState
from topologies.checkpoints.moved_state import Route, TaskMove
from topologies.checkpoints.notes import known_rules, note_change
from topologies.checkpoints.paired_checkpoint import (
    START_OVER,
    TOPOLOGY,
    PairedCheckpoint,
    check_halves,
    check_unclaimed,
    claimed,
    naming_a_way_back,
    telling_who_took_over,
)
from topologies.checkpoints.topology_fit import check_fit, noted_tasks, wanted_tasks
from topologies.graph.bolt_rules import BoltRules, TopologyRules
from topologies.graph.graph import Graph
from topologies.run.attempts import Attempts
from windowing.bolts.bolt import StatefulTaskBolt
from windowing.errors import CheckpointError, ConfigError, did_you_mean

MOST_TASKS = 10_000
"""More tasks of a bolt are a mistake: each has an entry in every manifest."""


@dataclass
class Rescaled:
    """Result of rescaling."""

    batch: str
    """The key of the batch whose state was laid out again; empty where no batch has been committed yet."""
    tasks: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Per bolt that has been changed, how many tasks it had and has."""
    events: dict[str, int] = field(default_factory=dict)
    """Per such bolt, the stored events that were moved."""


def move_tasks(
    halves: PairedCheckpoint,
    wanted: Mapping[str, int],
    topology: Graph | None = None,
    attempts: Attempts | None = None,
) -> Rescaled:
    """Give bolts other numbers of tasks, after the last batch of a checkpoint; the caller has locked it.

    ``topology``: for bolts that move their state by a method; without one the note of the last run is enough for all
    others. ``attempts``: those of the run that does this. CheckpointError or ConfigError, naming all that cannot be,
    before anything is written.
    """
    move = _look(halves, wanted, topology, check_unclaimed)
    if not move.changed:
        return move.done
    checkpoint = claimed(halves, attempts or "windbolt rescale")
    with naming_a_way_back(halves), telling_who_took_over(checkpoint):
        if halves.uri is not None:
            move = _look(halves, wanted, topology, check_halves)
        with during("changing the number of tasks", "all of it has been done, or nothing; nothing is lost"):
            _move(halves, checkpoint, move, topology)
            halves.files.sync()
    tasks = (f"{name} has {now} in place of {before}" for name, (before, now) in move.done.tasks.items())
    note_change(halves.files, f"other numbers of tasks: {', '.join(tasks)}")
    return move.done


def rescale_for(
    halves: PairedCheckpoint, topology: Graph, attempts: Attempts | None = None
) -> dict[str, tuple[int, int]]:
    """Give the bolts of a checkpoint the numbers of tasks of a topology that is the same otherwise; returns, per bolt
    that has been changed, how many it had and has."""
    with naming_a_way_back(halves):
        wanted = wanted_tasks(halves, topology)
        if not wanted:
            return {}
        check_fit(halves, topology, allow_rescale=True)
    return move_tasks(halves, wanted, topology, attempts).tasks


@dataclass(frozen=True)
class _Move:
    """Planned move of stored state to other tasks."""

    manifest: Manifest | None
    changed: Mapping[str, int]
    ways: Mapping[str, BoltRules]
    done: Rescaled
    """Result that the move will have."""


def _look(
    halves: PairedCheckpoint,
    wanted: Mapping[str, int],
    topology: Graph | None,
    check: Callable[[PairedCheckpoint], Manifest | None],
) -> _Move:
    with naming_a_way_back(halves), during("looking at what is to be moved", "nothing was changed"):
        manifest, tasks = check(halves), noted_tasks(halves)
    check_numbers(tasks, wanted)
    changed = {name: number for name, number in wanted.items() if number != tasks[name]}
    done = Rescaled("" if manifest is None else batch_key(manifest.batch, manifest.closing))
    ways: Mapping[str, BoltRules] = {}
    if changed:
        ways = (known_rules(halves) if topology is None else TopologyRules.of(topology)).bolts
        check_movable(halves.path, tasks, changed, ways)
    done.tasks = {name: (tasks[name], number) for name, number in changed.items()}
    return _Move(manifest, changed, ways, done)


def check_numbers(tasks: Mapping[str, int], wanted: Mapping[str, int]) -> None:
    """Raise ConfigError for an unknown bolt, and for one that cannot have this number of tasks."""
    for name, number in wanted.items():
        if name not in tasks:
            raise ConfigError(
                f"there is no windowed bolt {name!r}{did_you_mean(name, tasks)}",
                why=f"the checkpoint has {', '.join(tasks) or 'none'}; others keep nothing, and may have any "
                "number of tasks",
                do="name one of these",
            )
        if not 1 <= number <= MOST_TASKS:
            raise ConfigError(
                f"bolt {name!r} cannot have {number} tasks",
                why=f"a bolt has from 1 to {MOST_TASKS:,}",
                do="give a number of tasks such as twice the number of cores",
            )


def check_movable(
    path: str, tasks: Mapping[str, int], changed: Mapping[str, int], ways: Mapping[str, BoltRules]
) -> None:
    """CheckpointError that names every bolt whose state cannot be moved, and why."""
    problems = []
    for name, number in changed.items():
        way = ways[name]
        reasons = [*way.fixed, *(way.whole if tasks[name] % number else [])]
        problems += [f"  - bolt {name!r}: {reason}" for reason in reasons]
    if problems:
        raise CheckpointError(
            f"checkpoint {path!r} cannot be given other numbers of tasks:\n" + "\n".join(problems),
            why="the output would differ from that of a run that always had this number of tasks",
            do=f"leave these bolts as they are, or {START_OVER}",
        )


def _move(halves: PairedCheckpoint, checkpoint: FileCheckpoint, move: _Move, topology: Graph | None) -> None:
    if move.changed:
        after = None if move.manifest is None else _rescaled(checkpoint, move.manifest, move, topology)
        checkpoint.replace(after, {TOPOLOGY: known_rules(halves).with_tasks(move.changed).to_json()})


def _rescaled(checkpoint: FileCheckpoint, before: Manifest, move: _Move, topology: Graph | None) -> Manifest:
    after = Manifest.from_values(before.to_values())
    for name, number in move.changed.items():
        bolt = None if topology is None else topology.windowed[name].bolt
        route = Route(name, move.ways[name], number)
        stateful = bolt if isinstance(bolt, StatefulTaskBolt) else None
        with checkpoint.segments.writer(checkpoint.folder(before)) as writer:
            state = moved_state(after.bolts[name], route, checkpoint.segments, writer, stateful)
        _check(name, before.bolts[name], state)
        after.bolts[name] = state
        move.done.events[name] = sum(task.refs.needed for task in state.tasks)
    return after


def moved_state(
    bolt: BoltState, route: Route, store: SegmentStore, writer: SegmentWriter, code: StatefulTaskBolt | None = None
) -> BoltState:
    """The state of a bolt as its tasks have it from now on. ``code``: the bolt, where it keeps a state of its own."""
    before = bolt.tasks
    if route.rules.in_one_task:  # its windows may count events: it stays as it is, and the others never had any
        fresh = [TaskState(type(before[0].windows)()) for _ in range(1, route.parallelism)]
        return replace(bolt, tasks=[before[0], *fresh])
    move = TaskMove(before, route, store, writer, code)
    tasks = move.tasks()
    bolt.accounts.add("unwindowed", move.unwindowed)
    return replace(bolt, tasks=tasks)


def _check(name: str, before: BoltState, after: BoltState) -> None:
    """Raise AccountsError where an event has been lost or doubled: a defect of windbolt."""
    after.accounts.check(after.pending, name)
    kept = [sum(counts) for counts in zip(*_needed(before), strict=True)]
    moved = [sum(counts) for counts in zip(*_needed(after), strict=True)]
    if kept != moved:
        raise AccountsError(
            f"bolt {name!r} had {kept} stored events, and would have {moved}",
            why="its tasks must keep what they kept before",
            do="this is a defect in windbolt: please report it; the checkpoint is as it was",
        )


def _needed(bolt: BoltState) -> Iterator[Sequence[int]]:
    yield [0] * len(bolt.accounts.streams)
    for task in bolt.tasks:
        yield from (ref.by_stream for ref in task.refs)
