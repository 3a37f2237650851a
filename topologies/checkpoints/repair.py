"""``windbolt.state.repair``: a savepoint in which stored events have other values, or are left out."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from manager.accounts import Accounts, AccountsError
from manager.keyed.fired_windows import PaneStates
from manager.keyed.retained_events import GONE, SEEN, Held, read_held, read_needed, write_held
from manager.storage.manifest import BoltState, Manifest
from manager.storage.segment_files import FileSegments
from manager.storage.segments import KEY_COLUMN, Ref, Refs, SegmentStore, SegmentWriter
from manager.storage.task_state import FieldKind, QueueState, TaskState, WindowsState
from policies.assigners.aligned import limit_at
from topologies.checkpoints.corrections import GivenEvents, TaskCorrection, TaskRows, parts_of
from topologies.checkpoints.notes import checkpoint_at, known_rules, rules_of
from topologies.checkpoints.paired_checkpoint import PairedCheckpoint
from topologies.checkpoints.savepoint import Rewrite, StateChange, take_savepoint
from topologies.checkpoints.state_tables import bolts, stored_columns
from topologies.checkpoints.stored_tasks import StoredQueue, TaskReader, reached_span, readers_of, windows_of
from topologies.graph.bolt_rules import BoltRules
from windowing.calls import checked
from windowing.errors import ConfigError, DataError
from windowing.events import Events, count_by_stream

if TYPE_CHECKING:
    from numpy.typing import NDArray


# The events of a task that a window may still need, and which rows of the table of events they are.


def live_events_of(task: TaskReader) -> tuple[Held | None, NDArray[np.int64]]:
    """Those of a task that holds events; None where there are none. Ends that wait for starts are not among them."""
    parts, places, first = [], [np.zeros(0, np.int64)], 0
    for ref in task.state.refs:
        held, flags = read_needed(task.store, ref)
        live = np.flatnonzero((flags & GONE) == 0)
        if len(live):
            parts.append(held.take(live))
            places.append(first + live)
        first += len(held)
    return (task.coded(Held.concat(parts)) if parts else None), np.concatenate(places)


# Windows that have fired and may fire again, where their events are repaired.


_Span = tuple[int, int]
"""The start and the end of a window."""
_Of = tuple[int, int]
"""The kind of a window, and the code of its key."""


def with_repaired(task: TaskReader, live: Held, different: NDArray[np.bool_], gone: NDArray[np.bool_]) -> PaneStates:
    """The states of open windows; those that have fired and hold events that are different are to fire again, and one
    that has not fired and holds no event any more is forgotten.

    ``live`` are the events as they were, ``different`` and ``gone`` are masks over them."""
    panes = _fired_panes(task)
    touched, left = defaultdict[_Of, list[_Span]](list), defaultdict[_Of, list[_Span]](list)
    for of, span, members in _windows_with(task, live, different):
        touched[of].append(span)
        if not gone[members].all():
            left[of].append(span)
    merging = [each.merges for each in task.rules.formed_by(task.bolt.anchor)]
    repaired, kept = panes.repaired.copy(), np.ones(len(panes), np.bool_)
    for row, index in enumerate(panes.index.tolist()):
        of, span = (int(panes.kind[row]), int(panes.key[row])), (int(panes.start[row]), int(panes.end[row]))
        is_touched = any(_same(span, each, merging=merging[of[0]]) for each in touched[of])
        repaired[row] |= is_touched and index > 0
        kept[row] = index > 0 or not is_touched or span in left[of]
    return replace(panes, repaired=repaired).take(np.flatnonzero(kept))


def last_of_fired(task: TaskReader, live: Held, gone: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which of these events are in a window that has fired and, without those that are gone, would hold too few to fire
    again."""
    panes, last = _fired_panes(task), np.zeros(len(live), np.bool_)
    merging = [each.merges for each in task.rules.formed_by(task.bolt.anchor)]
    fired: dict[_Of, list[_Span]] = defaultdict(list)
    for row in np.flatnonzero(panes.index > 0).tolist():
        fired[int(panes.kind[row]), int(panes.key[row])].append((int(panes.start[row]), int(panes.end[row])))
    left: dict[_Of, list[_Span]] = defaultdict(list)
    still = live.take(np.flatnonzero(~gone))
    for of, span, members in _windows_with(task, still, np.ones(len(still), np.bool_)):
        if len(members) >= task.rules.least_at_end:
            left[of].append(span)
    for of, span, members in _windows_with(task, live, gone):
        shown = [each for each in fired[of] if _same(each, span, merging=merging[of[0]])]
        if any(not any(_same(each, other, merging=merging[of[0]]) for other in left[of]) for each in shown):
            last[members] = True
    return last


def _fired_panes(task: TaskReader) -> PaneStates:
    return PaneStates.of(task.kept("panes"))


def _windows_with(
    task: TaskReader, live: Held, which: NDArray[np.bool_]
) -> Iterator[tuple[_Of, _Span, NDArray[np.int64]]]:
    """Yield the open windows that hold one of these events, with the indices of all of their events."""
    if not len(live):
        return
    windows = windows_of(task, live)
    for kind, piece in windows.open_windows(reached_span(task, live, windows)):
        if not len(piece):
            continue
        counts = np.add.reduceat(which[piece.members].astype(np.int64), piece.offsets[:-1])
        for index in np.flatnonzero(counts).tolist():
            members = piece.members[piece.offsets[index] : piece.offsets[index + 1]]
            key = 0 if live.keys is None else int(live.keys[members[0]])
            yield (kind, key), (int(piece.starts[index]), int(piece.ends[index])), members


def _same(one: _Span, other: _Span, *, merging: bool) -> bool:
    """True if a firing of one window supersedes that of the other: it is the same, or they merge and overlap."""
    return one == other or (merging and one[0] < other[1] and other[0] < one[1])


# Which stored events can be taken out: those without which all later windows are as if they had never come.


_LEAVE = "leave it in, and give it values that do no harm, such as nulls or zeros"


def check_taken_out(bolt: str, task: TaskReader, kept: NDArray[np.bool_]) -> None:
    """DataError that names the first event that cannot be taken out, and why."""
    if kept.all():
        return
    for wrong, why in _REASONS[task.state.windows.family](task, ~kept):
        if wrong.any():
            raise DataError(
                f"row {int(np.argmax(wrong))} of task {task.number} of bolt {bolt!r} cannot be taken out",
                why=why,
                do=_LEAVE,
            )


Reason = tuple["NDArray[np.bool_]", str]
"""Which rows cannot be taken out, and why."""


def _of_queue(task: TaskReader, out: NDArray[np.bool_]) -> Iterator[Reason]:
    if task.rules.by_place:
        settled = np.arange(len(out)) < task.state.windows_as(QueueState).settled_count
        yield out & settled, "its windows count, or choose among, all the events of a task, and time has reached it"


def _of_assigned(task: TaskReader, out: NDArray[np.bool_]) -> Iterator[Reason]:
    live, places = live_events_of(task)
    if live is None:
        return
    gone, nothing = out[places], np.zeros(len(out), np.bool_)

    def rows(which: NDArray[np.bool_]) -> NDArray[np.bool_]:
        found = nothing.copy()
        found[places[which]] = True
        return found

    seen = np.zeros(len(live), np.bool_) if live.seen is None else live.seen
    windows = windows_of(task, live)
    if task.state.windows.get("panes") is not None:
        why = "without it too few are left in a window that has fired and may fire again: what was shown could not be "
        why += "taken back"
        yield rows(gone & last_of_fired(task, live, gone)), why
    if task.rules.versions is not None and live.streams is not None:
        why = "it is a version of a join, and has ended the one before, which may be gone by now"
        yield rows(gone & (live.streams == task.rules.inputs.index(task.rules.versions))), why
    if not all(each.ends_by_time for each in windows.assigners):
        reached = live.times <= limit_at(reached_span(task, live, windows).upto, np.arange(len(live)))
        yield rows(gone & reached), "its windows count events, and time has reached it"
        return
    left = np.flatnonzero(~gone)
    lost, again = _members(task, live), _finished(task, live)
    lost[:, left] &= ~_members(task, live.take(left))
    again[:, left] &= ~_finished(task, live.take(left))
    merging = np.array([[each.merges] for each in windows.assigners])
    wrongs = {
        "a window has ended that has not fired, and row {} would be in none": lost & (merging | ~seen),
        "a window that has fired would have another end, and would hold row {} again": again,
    }
    for what, which in wrongs.items():  # seen: in a window of any kind; others are still to fire
        broken = which.any(axis=0) & ~gone
        if broken.any():
            one = int(np.argmax(broken))
            same = gone if live.keys is None else gone & (live.keys == live.keys[one])
            yield rows(same if same.any() else gone), f"without it {what.format(int(places[one]))}"


def _members(task: TaskReader, live: Held) -> NDArray[np.bool_]:
    """By kind of window, which of these events are in one that is still to fire."""
    found = np.zeros((len(task.rules.assigners), len(live)), np.bool_)
    if len(live):
        windows = windows_of(task, live)
        for kind, piece in windows.open_windows(reached_span(task, live, windows)):
            found[kind, piece.members] = True
    return found


def _finished(task: TaskReader, live: Held) -> NDArray[np.bool_]:
    """By kind of window, which of these events are in none that is still to come."""
    windows = windows_of(task, live)
    upto = reached_span(task, live, windows).upto
    return np.stack([windows.finished(upto, kind) for kind in range(len(windows.assigners))])


def _of_told(task: TaskReader, out: NDArray[np.bool_]) -> Iterator[Reason]:
    told, (live, places) = np.zeros(len(out), np.bool_), live_events_of(task)
    if live is not None and live.numbers is not None:
        told[places] = live.numbers >= 0
    yield told & out, "a policy has been told of it, and may have made something of it"


def _of_known_keys(task: TaskReader, out: NDArray[np.bool_]) -> Iterator[Reason]:
    wrong, records, (live, places) = np.zeros(len(out), np.bool_), task.kept("keys"), live_events_of(task)
    if records is not None and live is not None:
        assert live.keys is not None
        wrong[places] = np.isin(live.keys, records.column(KEY_COLUMN).to_numpy())
    yield wrong & out, "of its key a timer is kept, or what a rule has made of its events"


_REASONS = {
    "queue": _of_queue,
    "assigned": _of_assigned,
    "triggered": _of_known_keys,
    "policies": _of_told,
    "events": _of_known_keys,
}
"""Yields the reasons why rows of a task cannot be taken out, by the family of its windows."""


# The state of a task whose stored events have other values, or are fewer.


def rewrite_task(task: TaskReader, correction: TaskCorrection, writer: SegmentWriter) -> TaskState:
    """Write the events of a task anew, as far as some are different; returns its state with them."""
    if not task.state.windows.in_queue():
        return _HeldRewrite(task, correction, writer).written()
    queue = StoredQueue.of(task.state, task.store)
    assert queue is not None
    payload = _with_columns(pa.Table.from_batches([queue.events.payload]), correction.columns)
    (batch,) = payload.combine_chunks().to_batches()
    events = Events(queue.events.timestamps, batch, queue.events.streams)
    after = StoredQueue(events, queue.state).take(correction.kept)
    return after.written(writer, len(task.bolt.accounts.streams), task.state.bolt)


class _HeldRewrite:
    """The events that a task holds, section by section; those in which nothing is different stay where they are."""

    def __init__(self, task: TaskReader, correction: TaskCorrection, writer: SegmentWriter) -> None:
        self.task, self.correction, self.writer = task, correction, writer
        self.streams = len(task.bolt.accounts.streams)
        self.accounted = np.array(task.state.accounted_by_stream or [0] * self.streams)

    def written(self) -> TaskState:
        """The state with them."""
        state, parts = self.task.state, iter(parts_of(self.task))
        refs = [self._section(ref, next(parts)) for ref in state.refs]
        windows = state.windows.with_rows(lambda ref: self._waiting(ref, next(parts)), FieldKind.EVENTS)
        if windows.get("panes") is not None:
            windows = self._with_panes(windows)
        if not self.correction.kept.all():
            windows = self._with_fewer(windows)
        return TaskState(windows, Refs(ref for ref in refs if ref is not None), self.accounted.tolist(), state.bolt)

    def _section(self, ref: Ref, rows: slice) -> Ref | None:
        kept = self.correction.kept[rows]
        if kept.all() and not self.correction.touched[rows].any():
            return ref
        held, flags = read_needed(self.task.store, ref)
        gone = ~kept & ((flags & SEEN) != 0)
        self.accounted -= count_by_stream(
            None if held.streams is None else held.streams[gone], int(np.count_nonzero(gone)), self.streams
        )
        held = self._different(held, rows)
        return replace(write_held(self.writer, held, self.streams), level=ref.level) if len(held) else None

    def _waiting(self, ref: Ref, rows: slice) -> Ref | None:
        if self.correction.kept[rows].all() and not self.correction.touched[rows].any():
            return ref
        held, flags = read_held(self.task.store, ref)
        held = self._different(replace(held.take(np.flatnonzero((flags & GONE) == 0)), seen=None), rows)
        return write_held(self.writer, held, self.streams) if len(held) else None

    def _with_panes(self, windows: WindowsState) -> WindowsState:
        """The windows that have fired and whose events are different are to fire again."""
        live, places = live_events_of(self.task)
        if live is None:
            return windows
        gone = ~self.correction.kept[places]
        states = with_repaired(self.task, live, self.correction.touched[places] | gone, gone)
        return windows.with_values(panes=self.writer.add(states.table()))

    def _different(self, held: Held, rows: slice) -> Held:
        columns = {name: column[rows] for name, column in self.correction.columns.items()}
        held = replace(held, payload=_with_columns(held.payload, columns))
        return held.take(np.flatnonzero(self.correction.kept[rows]))

    def _with_fewer(self, windows: WindowsState) -> WindowsState:
        """The state with what follows from its events. Windows may be looked at for one that is no more; nothing is due
        then."""
        live, places = live_events_of(self.task)
        if live is not None:
            live = live.take(np.flatnonzero(self.correction.kept[places]))
        keys = np.zeros(0, np.int64) if live is None or live.keys is None else live.keys
        windows = windows.with_keys(lambda: len(np.unique(keys)))
        return _assigned_with_fewer(self.task, windows, live) if windows.family == "assigned" else windows


def _assigned_with_fewer(task: TaskReader, windows: WindowsState, live: Held | None) -> WindowsState:
    """When the next window may end, and when an idle timeout may close one."""
    ends, next_end = list[int](), windows.get("next_end")
    if live is not None and len(live):  # a session may end before it did; no window ends before its first event
        earliest = int(live.times.min())
        next_end = earliest if next_end is None else min(earliest, next_end)
    if live is not None and windows.get("open_ends"):
        formed = windows_of(task, live)
        ends = formed.open_ends(reached_span(task, live, formed))
    return windows.with_values(next_end=next_end, open_ends=tuple(ends))


def _with_columns(table: pa.Table, columns: Mapping[str, pa.Array]) -> pa.Table:
    for name, column in columns.items():
        place = table.column_names.index(name)
        table = table.set_column(place, table.schema.field(place), column)
    return table


# The repair of one bolt: looked at whole before anything is written.


@dataclass(frozen=True)
class BoltRepair:
    """Changes to one bolt."""

    name: str
    state: BoltState
    corrections: tuple[tuple[TaskReader, TaskCorrection], ...]
    """Of each task in which something is."""

    @staticmethod
    def of(
        name: str,
        state: BoltState,
        rules: BoltRules,
        store: SegmentStore,
        columns: pa.Schema,
        given: tuple[GivenEvents | None, GivenEvents | None],
    ) -> BoltRepair:
        """``given``: the rows with their values, and those to be taken out. DataError for what cannot be."""
        tasks = readers_of(state, store, rules)
        stored = {task.number: sum(map(len, task.rows)) for task in tasks}
        for each in given:
            if each is not None:
                each.check_there(stored)
        return BoltRepair(name, state, tuple(_corrections(name, tasks, columns, *given)))

    def written(self, writer: SegmentWriter) -> BoltState:
        """Write what is different; returns the state of the bolt with it. What was in no window yet is purged."""
        tasks = list(self.state.tasks)
        for task, correction in self.corrections:
            tasks[task.number] = rewrite_task(task, correction, writer)
        accounts = Accounts(self.state.accounts.streams, self.state.accounts.to_json())
        after = replace(self.state, accounts=accounts, tasks=tasks)
        accounts.add("purged", [was - is_ for was, is_ in zip(self.state.pending, after.pending, strict=True)])
        self._check(after)
        return after

    def _check(self, after: BoltState) -> None:
        """Raise AccountsError where another event has been lost, or one is counted wrongly: a defect of windbolt."""
        after.accounts.check(after.pending, self.name)
        out, waiting = 0, 0
        for task, correction in self.corrections:
            first = 0
            for rows in task.rows:
                gone = ~correction.kept[first : first + len(rows)]
                out, waiting = out + int(gone.sum()), waiting + int(rows.pending[gone].sum())
                first += len(rows)
        stored = [
            sum(task.refs.needed + sum(sum(ref.by_stream) for ref in task.waiting) for task in each.tasks)
            for each in (self.state, after)
        ]
        purged = sum(self.state.pending) - sum(after.pending)
        if stored[0] - stored[1] != out or purged != waiting:
            raise AccountsError(
                f"bolt {self.name!r} would have {stored[1]:,} stored events, of {stored[0]:,} without {out:,}, and "
                f"{purged:,} purged, of {waiting:,} that were in no window",
                why="a repair leaves all other events as they are",
                do="this is a defect in windbolt: please report it; the checkpoint is as it was",
            )


def _corrections(
    name: str, tasks: list[TaskReader], columns: pa.Schema, given: GivenEvents | None, without: GivenEvents | None
) -> Iterator[tuple[TaskReader, TaskCorrection]]:
    for task in tasks:
        of_task = [None if each is None else each.of_task(task.number) for each in (given, without)]
        if not any(each is not None and len(each.rows) for each in of_task):
            continue
        correction = TaskRows(name, task, columns).corrected(*of_task)
        check_taken_out(name, task, correction.kept)
        if not correction.changes_nothing:
            yield task, correction


# ``windbolt.state.repair``: a savepoint in which stored events have other values, or are left out.


@checked
def repair(
    checkpoint: str | os.PathLike[str],
    destination: str | os.PathLike[str],
    events: Mapping[str, Any],
    *,
    without: Mapping[str, Any] | None = None,
) -> pa.Table:
    """Take a savepoint whose stored events have other values; ``state.repair("ck/", "new/", {"revenue": rows})``.

    ``events``: by bolt, rows of ``state.read(checkpoint, bolt)["events"]`` with the values that they are to have: a
    pyarrow table, a DataFrame of pandas, or a list of dicts. An event that is not among them stays as it is, and so
    does a column that they lack. ``without``: by bolt, the rows of events that are taken out; those that were in no
    window yet are ``purged`` in the accounts.

    The checkpoint stays as it is, and no run may be on it. A run goes on from the destination, a folder or a store that
    holds nothing yet. Returns the table of ``state.bolts`` of it. If this is interrupted, no run begins there, and to
    call it again starts over.

    ConfigError for a bolt that is not there, and for one that keeps sums; DataError for a row that is not stored, for
    one that would belong elsewhere, for a value that its column cannot hold, and for an event that cannot be taken out;
    CheckpointError as for a savepoint. Nothing is written then.
    """
    place, source = os.fspath(destination), checkpoint_at(os.fspath(checkpoint))
    repairing = _Repairing(source, events, without or {})
    source.lock.share()
    try:
        take_savepoint(source, place, change=StateChange(repairing.prepare, repairing.names))
    finally:
        source.lock.release()
    return bolts(place)


class _Repairing:
    """Repair of a checkpoint."""

    def __init__(self, source: PairedCheckpoint, events: Mapping[str, Any], without: Mapping[str, Any]) -> None:
        self.source, self.names = source, sorted({*events, *without})
        if not self.names:
            raise ConfigError(
                f"checkpoint {source.path!r} has nothing to be repaired",
                why="neither events with other values are given, nor any to be taken out",
                do="give some, by the name of their bolt; or take a plain savepoint: windbolt savepoint",
            )
        known = known_rules(source).bolts
        self.rules = {name: rules_of(known, name, None) for name in self.names}
        for name, rules in self.rules.items():
            _check_bolt(name, rules)
        self.given = {
            name: (
                GivenEvents.of(name, events[name]) if name in events else None,
                GivenEvents.of(name, without[name]) if name in without else None,
            )
            for name in self.names
        }

    def prepare(self, manifest: Manifest) -> Rewrite:
        """Look at all of it."""
        store = FileSegments(f"{self.source.files.root}/segments", self.source.uri)
        repairs = []
        for name in self.names:
            if name not in manifest.bolts:
                raise _without_events(self.source.path, name)
            columns, _ = stored_columns(self.rules[name])
            state = manifest.bolts[name]
            repairs.append(BoltRepair.of(name, state, self.rules[name], store, columns, self.given[name]))

        def rewrite(writer: SegmentWriter) -> Manifest:
            after = Manifest.from_values(manifest.to_values())
            after.bolts |= {each.name: each.written(writer) for each in repairs}
            return after

        return rewrite


def _check_bolt(name: str, rules: BoltRules) -> None:
    if rules.sums is not None:
        raise ConfigError(
            f"the events of bolt {name!r} cannot be repaired",
            why="it adds them up as they come, and keeps sums of several",
            do="give its events to a new checkpoint, from where you have them: windbolt.state.begin; or let the "
            "bolt start over: windbolt reset",
        )


def _without_events(path: str, name: str) -> ConfigError:
    return ConfigError(
        f"bolt {name!r} of checkpoint {path!r} has no events",
        why="it has been in no batch yet",
        do="leave it out",
    )
