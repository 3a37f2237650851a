"""``windbolt.state.repair``: a savepoint in which stored events have other values, or are removed."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from manager.accounts import Accounts, AccountsError
from manager.keyed.fired_windows import PaneStates
from manager.keyed.retained_events import (
    ACCOUNTED,
    FINISHED,
    RetainedEvents,
    read_needed,
    read_retained,
    write_retained,
)
from manager.storage.manifest import BoltState, Manifest
from manager.storage.segment_files import FileSegments
from manager.storage.segments import KEY_COLUMN, Ref, Refs, SegmentStore, SegmentWriter
from manager.storage.task_state import FieldKind, QueueState, TaskState, WindowsState
from policies.assigners import SnapshotWindows
from policies.assigners.aligned import limit_at
from topologies.checkpoints.paired_checkpoint import PairedCheckpoint
from topologies.checkpoints.savepoint import Rewrite, StateChange, take_savepoint
from topologies.checkpoints.state_tables import bolts, event_table, own_columns, stored_columns
from topologies.checkpoints.stored_tasks import StoredQueue, TaskReader, evaluated_span, readers_of, windows_of
from topologies.checkpoints.topology_fit import checkpoint_at, require_rules, rules_of
from topologies.graph.bolt_rules import BoltRules
from topologies.io.spout_columns import as_arrow_table, is_data_frame
from windowing.calls import checked
from windowing.conversion import REFUSED, convert_column
from windowing.errors import ConfigError, DataError, did_you_mean_column
from windowing.events import Events, count_by_stream
from windowing.schema import value_type
from windowing.timestamps import FOREVER

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Users' values for stored events: the column in its stored type, and a mask of changed values.


@dataclass(frozen=True)
class GivenValues:
    """A user's values of one column for some stored rows, in their order."""

    values: pa.Array
    """The values in their stored type; for a dictionary, the type of its values."""
    differ: NDArray[np.bool_]
    """True for values that differ from the stored values."""


class NoSuchValue(Exception):
    """Raised for a value that the type of its column cannot hold; ``index``: its index among the user's values."""

    def __init__(self, index: int) -> None:
        super().__init__()
        self.index = index


def compare_given(stored: pa.Array, given: pa.Array, *, null_is_nan: bool) -> GivenValues:
    """Compares a user's values with the stored ones. Raises NoSuchValue for a value that the type cannot hold exactly.

    Libraries change types: whole numbers with nulls become floats, times nanoseconds. If the stored value, converted to
    the user's type, equals the user's value, it is unchanged, to the last digit. ``null_is_nan``: True if a null also
    stands for a stored NaN.
    """
    stored, given = without_dictionary(stored), without_dictionary(given)
    differ = ~_equal_rows(_cast_or_null(stored, given.type), given)
    if null_is_nan and pa.types.is_floating(stored.type):
        differ &= ~(np.asarray(pc.fill_null(pc.is_nan(stored), fill_value=False)) & np.asarray(given.is_null()))
    changed = _convert_exactly(given, np.flatnonzero(differ), stored.type)
    indices = np.arange(len(stored))
    indices[differ] = len(stored) + np.arange(len(changed))
    values = pa.concat_arrays([stored, changed]).take(pa.array(indices))
    return GivenValues(values, ~_equal_rows(stored, values))


def without_dictionary(column: pa.Array) -> pa.Array:
    """Returns plain values, if they are stored as indices into a dictionary."""
    kind = value_type(column.type)
    return column if kind == column.type else column.cast(kind)


def as_stored(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Returns values in their stored form."""
    if not pa.types.is_dictionary(kind):
        return values
    found = values.dictionary_encode()
    indices = found.indices.cast(kind.index_type)
    return pa.DictionaryArray.from_arrays(indices, found.dictionary.cast(kind.value_type), ordered=kind.ordered)


def _cast_or_null(stored: pa.Array, kind: pa.DataType) -> pa.Array:
    """Returns stored values in the type that a library uses for them; all null if there is no such conversion."""
    if stored.type == kind:
        return stored
    try:
        return stored.cast(kind, safe=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return pa.nulls(len(stored), kind)


def _convert_exactly(given: pa.Array, indices: NDArray[np.int64], kind: pa.DataType) -> pa.Array:
    changed_values = given.take(pa.array(indices))
    if changed_values.type == kind:
        return changed_values
    try:
        return _convert(changed_values, kind)
    except REFUSED:
        for index in indices.tolist():
            try:
                _convert(given.slice(index, 1), kind)
            except REFUSED:
                raise NoSuchValue(index) from None
        raise


def _convert(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Returns a user's values in their stored type; texts, as in JSON, are parsed."""
    return column.cast(kind) if pa.types.is_string(column.type) else convert_column(column, kind)


def _equal_rows(one: pa.Array, other: pa.Array) -> NDArray[np.bool_]:
    """Returns a mask of equal values; two nulls are equal, and so are two NaNs."""
    if pa.types.is_null(one.type):
        return np.ones(len(one), np.bool_)
    if pa.types.is_nested(one.type):
        return np.array([a == b for a, b in zip(one.to_pylist(), other.to_pylist(), strict=True)], np.bool_)
    same = pc.fill_null(pc.equal(one, other), fill_value=False)
    if pa.types.is_floating(one.type):
        same = pc.or_(same, pc.fill_null(pc.and_(pc.is_nan(one), pc.is_nan(other)), fill_value=False))
    found: NDArray[np.bool_] = np.asarray(pc.or_(same, pc.and_(one.is_null(), other.is_null())))
    return found


# Rows of ``state.read(...)["events"]`` that a user passes back, and the events that they identify.


IDENTIFYING_COLUMNS = ("task", "row", "input", "time")
"""Columns that each row needs: the first two identify the event, the others confirm that it is unchanged."""
READ_AGAIN = "read the events again, of the last batch, and correct them anew"


@dataclass(frozen=True)
class GivenEvents:
    """Rows that a user passes back, in the user's order."""

    bolt: str
    table: pa.Table
    tasks: NDArray[np.int64]
    rows: NDArray[np.int64]
    from_data_frame: bool
    """True if they come from a DataFrame, in which null and NaN are the same."""

    @staticmethod
    def of(bolt: str, given: Any) -> GivenEvents:
        """Returns a user's rows. Raises DataError if they are not a table, or do not identify each event exactly
        once."""
        table = _as_table(bolt, given)
        missing = [name for name in IDENTIFYING_COLUMNS if name not in table.column_names]
        if missing:
            raise DataError(
                f"the events for bolt {bolt!r} have no column {', '.join(map(repr, missing))}",
                why="by these it is known which stored event a row is, and that it still is the one that was read",
                do="give back rows of state.read(...)['events'], with these columns",
            )
        tasks, rows = (_whole_numbers(bolt, table, name) for name in ("task", "row"))
        distinct, counts = np.unique(np.column_stack([tasks, rows]), axis=0, return_counts=True)
        if (counts > 1).any():
            task, row = distinct[int(np.argmax(counts > 1))].tolist()
            raise DataError(
                f"row {row} of task {task} of bolt {bolt!r} is given twice",
                why="each stored event can have one set of values",
                do="give each row once",
            )
        return GivenEvents(bolt, table, tasks, rows, is_data_frame(given))

    def of_task(self, task: int) -> GivenEvents:
        """Returns the user's rows for a task."""
        here = np.flatnonzero(self.tasks == task)
        return GivenEvents(
            self.bolt, self.table.take(pa.array(here)), self.tasks[here], self.rows[here], self.from_data_frame
        )

    def check_there(self, stored: Mapping[int, int]) -> None:
        """Raises DataError for a row that a task does not have; ``stored``: number of rows by task."""
        for task, row in zip(self.tasks.tolist(), self.rows.tolist(), strict=True):
            if not 0 <= row < stored.get(task, 0):
                raise DataError(
                    f"bolt {self.bolt!r} stores no row {row} of task {task}",
                    why=f"after the last batch that task has {stored.get(task, 0):,}, numbered from 0"
                    if task in stored
                    else f"it has {len(stored)} tasks, numbered from 0",
                    do=f"{READ_AGAIN}; an event that is new has to come through the input",
                )


def _as_table(bolt: str, given: Any) -> pa.Table:
    try:
        table = as_arrow_table(given)
        if table is None and isinstance(given, list) and all(isinstance(row, dict) for row in given):
            table = _table_of_dicts(bolt, given)
    except pa.ArrowException as error:
        raise DataError(
            f"the events for bolt {bolt!r} cannot be read",
            why=str(error),
            do="give columns of one type each, as state.read gives them",
        ) from error
    if table is None:
        raise DataError(
            f"the events for bolt {bolt!r} are {type(given).__name__} {given!r:.60}",
            why="rows are known by the names of their columns",
            do="give a pyarrow table, a DataFrame of pandas, or a list of dicts",
        )
    twice = sorted({name for name in table.column_names if table.column_names.count(name) > 1})
    if twice:
        raise DataError(
            f"the events for bolt {bolt!r} have the column {twice[0]!r} twice",
            why="columns are known by their names",
            do="leave one of them out",
        )
    return table.combine_chunks()


def _table_of_dicts(bolt: str, given: list[dict[str, Any]]) -> pa.Table:
    names = list(given[0]) if given else list(IDENTIFYING_COLUMNS)
    for row in given:
        if set(row) != set(names):
            column = min(set(row) ^ set(names), key=str)
            raise DataError(
                f"of the events for bolt {bolt!r} some have {column!r}, and some have not",
                why="a value that is missing may be one to be kept, or a null",
                do="give all rows the same columns, or call with each kind of row by itself",
            )
    return pa.table({name: pa.array([row[name] for row in given]) for name in names})


def _whole_numbers(bolt: str, table: pa.Table, name: str) -> NDArray[np.int64]:
    column = table.column(name)
    try:
        numbers = column.cast(pa.int64())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise _numbering_error(bolt, name, str(error)) from error
    if numbers.null_count:
        raise _numbering_error(bolt, name, "there are nulls")
    found: NDArray[np.int64] = numbers.to_numpy().astype(np.int64)
    return found


def _numbering_error(bolt: str, name: str, why: str) -> DataError:
    return DataError(
        f"the column {name!r} of the events for bolt {bolt!r} does not number each row",
        why=f"{why}; such a row is of no stored event",
        do="leave the column as it was read; an event that is new has to come through the input",
    )


# Computes the edits to the stored events of one task, and rejects all others.


_BY_INPUT = "leave it as it was; an event that belongs elsewhere has to come through the input: take this one out "
_BY_INPUT += "(without=), and send it again"


@dataclass(frozen=True)
class TaskCorrection:
    """The new rows of a task, in the order of the table of events."""

    columns: dict[str, pa.Array]
    """The columns, by stored name, in which a row has a new value."""
    touched: NDArray[np.bool_]
    """True for rows with changed values."""
    kept: NDArray[np.bool_]
    """True for rows that are kept."""

    @property
    def changes_nothing(self) -> bool:
        """True if nothing is changed."""
        return bool(self.kept.all()) and not self.touched.any()


class TaskRows:
    """The stored rows of a task, to be compared with a user's rows."""

    def __init__(self, bolt: str, task: TaskReader, columns: pa.Schema) -> None:
        streams = task.bolt.accounts.streams
        self.bolt, self.task, self.streams = bolt, task, streams
        self.table = event_table([task], streams, columns)
        self._own = {name for rows in task.rows for name in own_columns(rows)}

    def correct(self, given: GivenEvents | None, without: GivenEvents | None) -> TaskCorrection:
        """Returns the rows with the user's values, without the removed rows. Raises DataError for impossible
        changes."""
        count = self.table.num_rows
        columns, touched, kept = dict[str, pa.Array](), np.zeros(count, np.bool_), np.ones(count, np.bool_)
        if without is not None:
            self._compare(without)
            kept[without.rows] = False
        for name, values in {} if given is None else self._compare(given).items():
            assert given is not None
            if values.differ.any():
                columns[self._stored_name(name)] = self._column_with(name, given.rows, values)
                touched[given.rows[values.differ]] = True
        return TaskCorrection(columns, touched & kept, kept)

    def _compare(self, given: GivenEvents) -> dict[str, GivenValues]:
        """Returns the user's columns. Raises DataError if a row identifies another event than the stored one."""
        found = {}
        stored = self.table.take(pa.array(given.rows))
        for name in given.table.column_names:
            if name not in self.table.column_names:
                raise DataError(
                    f"the events of bolt {self.bolt!r} have no column {name!r}"
                    + did_you_mean_column(name, self.table.column_names),
                    why=f"they have {', '.join(self.table.column_names)}",
                    do="leave the column out, or give it the name of one of these",
                )
            values = self._values(name, stored, given)
            decisive = self._is_decisive(name, given.rows)
            wrong = values.differ & decisive
            if wrong.any():
                raise self._other_event(name, stored, given, int(np.argmax(wrong)))
            if name not in self._own:
                found[name] = values
        return found

    def _values(self, name: str, stored: pa.Table, given: GivenEvents) -> GivenValues:
        column = given.table.column(name)
        before, now = (_one_array(each) for each in (stored.column(name), column))
        try:
            return compare_given(before, now, null_is_nan=given.from_data_frame)
        except NoSuchValue as error:
            row, value = int(given.rows[error.index]), now[error.index].as_py()
            raise DataError(
                f"row {row} of task {self.task.number} of bolt {self.bolt!r} cannot have {value!r:.60} in {name!r}",
                why=f"the column is {before.type}, which cannot hold it exactly",
                do="give a value of this type",
            ) from None

    def _is_decisive(self, name: str, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Returns a mask of rows in which a column must not change: a column of windbolt's, or one that decides where
        the event belongs."""
        if name in self._own:
            return np.ones(len(rows), np.bool_)
        stored, decisive = self._stored_name(name), self.task.rules.decisive
        by_input = {name: stored in columns for name, columns in zip(self.streams, decisive, strict=True)}
        if len(set(by_input.values())) == 1:
            return np.full(len(rows), next(iter(by_input.values())), np.bool_)
        inputs = self.table.column("input").take(pa.array(rows)).to_pylist()
        return np.array([by_input[each] for each in inputs], np.bool_)

    def _other_event(self, name: str, stored: pa.Table, given: GivenEvents, index: int) -> DataError:
        before, now = stored.column(name)[index].as_py(), given.table.column(name)[index].as_py()
        row, task = int(given.rows[index]), self.task.number
        if name in self._own:
            why = f"{name} is windbolt's own: it says which event this is, or what has become of it"
            do = f"leave the column as it was read; if it was, a run has gone on since: {READ_AGAIN}"
        else:
            why, do = "that column decides where the event belongs, or when its windows fire", _BY_INPUT
        return DataError(
            f"row {row} of task {task} of bolt {self.bolt!r} has {now!s:.60} in {name!r}, and is stored with "
            f"{before!s:.60}",
            why=why,
            do=do,
        )

    def _stored_name(self, name: str) -> str:
        """Returns the stored name of a user's column: in the table it has a prefix if windbolt has a column of that
        name."""
        bare = name.removeprefix("event.")
        return bare if bare in self._own else name

    def _column_with(self, name: str, rows: NDArray[np.int64], values: GivenValues) -> pa.Array:
        """Returns the whole column, with the user's values in these rows."""
        column = _one_array(self.table.column(name))
        indices = np.arange(len(column))
        indices[rows] = len(column) + np.arange(len(rows))
        before = column.cast(values.values.type) if column.type != values.values.type else column
        return as_stored(pa.concat_arrays([before, values.values]).take(pa.array(indices)), column.type)


def parts_of(task: TaskReader) -> Sequence[slice]:
    """Returns, for each part of a task, the range of its rows among all rows."""
    edges = np.cumsum([0, *(len(rows) for rows in task.rows)]).tolist()
    return [slice(low, high) for low, high in pairwise(edges)]


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    found = column.combine_chunks()
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found


# The events of a task that a window may still need, and their rows in the table of events.


def live_events_of(task: TaskReader) -> tuple[RetainedEvents | None, NDArray[np.int64]]:
    """Returns the live events of a task, and the index of each among the stored rows; None without live events. End
    edges that wait for their starts are left out."""
    parts, stored_rows, first_row = [], [np.zeros(0, np.int64)], 0
    for ref in task.state.refs:
        events, flags = read_needed(task.store, ref)
        live = np.flatnonzero((flags & FINISHED) == 0)
        if len(live):
            parts.append(events.take(live))
            stored_rows.append(first_row + live)
        first_row += len(events)
    return (task.with_key_codes(RetainedEvents.concat(parts)) if parts else None), np.concatenate(stored_rows)


# Windows that have fired and may fire again, if their events are repaired.


_Span = tuple[int, int]
"""The start and the end of a window."""
_KindAndKey = tuple[int, int]
"""The kind of a window, and the code of its key."""


def panes_after_repair(
    task: TaskReader, live: RetainedEvents, different: NDArray[np.bool_], gone: NDArray[np.bool_]
) -> PaneStates:
    """Returns the states of open windows after a repair. Windows that have fired and hold changed events fire again. A
    window that has not fired and holds no event any more is forgotten.

    ``live``: the events before the repair; ``different`` and ``gone``: masks over them.
    """
    panes = _fired_panes(task)
    touched, remaining = defaultdict[_KindAndKey, list[_Span]](list), defaultdict[_KindAndKey, list[_Span]](list)
    for kind_and_key, span, members in _windows_with(task, live, different):
        touched[kind_and_key].append(span)
        if not gone[members].all():
            remaining[kind_and_key].append(span)
    merging = [each.merges for each in task.rules.assigners_from(task.bolt.anchor)]
    has_repairs, kept = panes.has_repairs.copy(), np.ones(len(panes), np.bool_)
    for row, firings in enumerate(panes.firings.tolist()):
        kind_and_key, span = (int(panes.kind[row]), int(panes.key[row])), (int(panes.start[row]), int(panes.end[row]))
        is_touched = any(_supersedes(span, each, merging=merging[kind_and_key[0]]) for each in touched[kind_and_key])
        has_repairs[row] |= is_touched and firings > 0
        kept[row] = firings > 0 or not is_touched or span in remaining[kind_and_key]
    return replace(panes, has_repairs=has_repairs).take(np.flatnonzero(kept))


def last_events_of_fired(task: TaskReader, live: RetainedEvents, gone: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Returns a mask of the events in fired windows, of those windows that would have too few events to fire again if
    the removed events were gone."""
    panes, is_last = _fired_panes(task), np.zeros(len(live), np.bool_)
    merging = [each.merges for each in task.rules.assigners_from(task.bolt.anchor)]
    fired: dict[_KindAndKey, list[_Span]] = defaultdict(list)
    for row in np.flatnonzero(panes.firings > 0).tolist():
        fired[int(panes.kind[row]), int(panes.key[row])].append((int(panes.start[row]), int(panes.end[row])))
    remaining: dict[_KindAndKey, list[_Span]] = defaultdict(list)
    remaining_events = live.take(np.flatnonzero(~gone))
    for kind_and_key, span, members in _windows_with(task, remaining_events, np.ones(len(remaining_events), np.bool_)):
        if len(members) >= task.rules.least_at_end:
            remaining[kind_and_key].append(span)
    for kind_and_key, span, members in _windows_with(task, live, gone):
        fired_before = [
            each for each in fired[kind_and_key] if _supersedes(each, span, merging=merging[kind_and_key[0]])
        ]
        if any(
            not any(_supersedes(each, other, merging=merging[kind_and_key[0]]) for other in remaining[kind_and_key])
            for each in fired_before
        ):
            is_last[members] = True
    return is_last


def _fired_panes(task: TaskReader) -> PaneStates:
    return PaneStates.of(task.stored_table("panes"))


def _windows_with(
    task: TaskReader, live: RetainedEvents, mask: NDArray[np.bool_]
) -> Iterator[tuple[_KindAndKey, _Span, NDArray[np.int64]]]:
    """Yields the open windows that hold one of these events, with the indices of all their events."""
    if not len(live):
        return
    windows = windows_of(task, live)
    for kind, formed in windows.open_windows(evaluated_span(task, live, windows)):
        if not len(formed):
            continue
        counts = np.add.reduceat(mask[formed.members].astype(np.int64), formed.offsets[:-1])
        for index in np.flatnonzero(counts).tolist():
            members = formed.members[formed.offsets[index] : formed.offsets[index + 1]]
            key = 0 if live.keys is None else int(live.keys[members[0]])
            yield (kind, key), (int(formed.starts[index]), int(formed.ends[index])), members


def _supersedes(one: _Span, other: _Span, *, merging: bool) -> bool:
    """True if a firing of one window replaces a firing of the other: both are the same window, or they merge and
    overlap."""
    return one == other or (merging and one[0] < other[1] and other[0] < one[1])


# Stored events that can be removed: without them, all later windows are as if the events had never come.


_LEAVE = "leave it in, and give it values that do no harm, such as nulls or zeros"


def check_removable(bolt: str, task: TaskReader, kept: NDArray[np.bool_]) -> None:
    """Raises DataError for the first event that cannot be removed, with the reason."""
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
"""Mask of rows that cannot be removed, and the reason."""


def _reasons_of_queue(task: TaskReader, removed: NDArray[np.bool_]) -> Iterator[Reason]:
    if task.rules.by_place:
        settled = np.arange(len(removed)) < task.state.windows_as(QueueState).settled_count
        yield removed & settled, "its windows count, or choose among, all the events of a task, and time has reached it"


def _reasons_of_assigned(task: TaskReader, removed: NDArray[np.bool_]) -> Iterator[Reason]:
    live, stored_rows = live_events_of(task)
    if live is None:
        return
    gone, nothing = removed[stored_rows], np.zeros(len(removed), np.bool_)

    def rows(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
        found = nothing.copy()
        found[stored_rows[mask]] = True
        return found

    accounted = np.zeros(len(live), np.bool_) if live.accounted is None else live.accounted
    windows = windows_of(task, live)
    if task.state.windows.get("panes") is not None:
        why = "without it too few are left in a window that has fired and may fire again: what was shown could not be "
        why += "taken back"
        yield rows(gone & last_events_of_fired(task, live, gone)), why
    if task.rules.versions is not None and live.streams is not None:
        why = "it is a version of a join, and has ended the one before, which may be gone by now"
        yield rows(gone & (live.streams == task.rules.inputs.index(task.rules.versions))), why
    if not all(each.ends_by_time for each in windows.assigners):
        is_evaluated = live.times <= limit_at(evaluated_span(task, live, windows).upto, np.arange(len(live)))
        yield rows(gone & is_evaluated), "its windows count events, and time has reached it"
        return
    remaining = np.flatnonzero(~gone)
    (starts, held_again), (starts_after, still_done) = (
        _starts_and_done(task, live),
        _starts_and_done(task, live.take(remaining)),
    )
    no_longer_open, begins_earlier = starts < FOREVER, np.zeros(starts.shape, np.bool_)
    no_longer_open[:, remaining] &= starts_after == FOREVER
    held_again[:, remaining] &= ~still_done
    between_edges = np.array([[isinstance(each, SnapshotWindows)] for each in windows.assigners])
    begins_earlier[:, remaining] = between_edges & (starts_after < starts[:, remaining])
    merging = np.array([[each.merges] for each in windows.assigners])
    consequences = {
        "a window has ended that has not fired, and row {} would be in none": no_longer_open & (merging | ~accounted),
        "a window that has fired would have another end, and would hold row {} again": held_again,
        "the window of row {} would begin before the end of one that has fired": begins_earlier,
    }
    for what, mask in consequences.items():  # accounted: in a window of any kind; others have yet to fire
        broken = mask.any(axis=0) & ~gone
        if broken.any():
            one = int(np.argmax(broken))
            same = gone if live.keys is None else gone & (live.keys == live.keys[one])
            yield rows(same if same.any() else gone), f"without it {what.format(int(stored_rows[one]))}"


def _starts_and_done(task: TaskReader, live: RetainedEvents) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Returns two arrays with a row for each kind of window: for each event the earliest start, in microseconds, of the
    windows with it that have yet to fire, FOREVER without such a window; and a mask of the events that no later window
    can hold."""
    windows = windows_of(task, live)
    span = evaluated_span(task, live, windows)
    starts = np.full((len(windows.assigners), len(live)), FOREVER)
    for kind, formed in windows.open_windows(span):
        np.minimum.at(starts[kind], formed.members, np.repeat(formed.starts, np.diff(formed.offsets)))
    return starts, np.stack([windows.finished(span.upto, kind) for kind in range(len(windows.assigners))])


def _reasons_of_policies(task: TaskReader, removed: NDArray[np.bool_]) -> Iterator[Reason]:
    seen_by_policies, (live, stored_rows) = np.zeros(len(removed), np.bool_), live_events_of(task)
    if live is not None and live.numbers is not None:
        seen_by_policies[stored_rows] = live.numbers >= 0
    yield seen_by_policies & removed, "a policy has been told of it, and may have made something of it"


def _reasons_of_known_keys(task: TaskReader, removed: NDArray[np.bool_]) -> Iterator[Reason]:
    wrong, records, (live, stored_rows) = (
        np.zeros(len(removed), np.bool_),
        task.stored_table("keys"),
        live_events_of(task),
    )
    if records is not None and live is not None:
        assert live.keys is not None
        wrong[stored_rows] = np.isin(live.keys, records.column(KEY_COLUMN).to_numpy())
    yield wrong & removed, "of its key a timer is kept, or what a rule has made of its events"


_REASONS = {
    "queue": _reasons_of_queue,
    "assigned": _reasons_of_assigned,
    "triggered": _reasons_of_known_keys,
    "policies": _reasons_of_policies,
    "stateful": _reasons_of_known_keys,
}
"""By family of windows: yields the reasons why rows of a task cannot be removed."""


# The state of a task after its stored events were changed or removed.


def rewrite_task(task: TaskReader, correction: TaskCorrection, writer: SegmentWriter) -> TaskState:
    """Writes the changed events of a task, and returns the state of the task with these events."""
    if not task.state.windows.in_queue():
        return _RetainedRewrite(task, correction, writer).write()
    queue = StoredQueue.of(task.state, task.store)
    assert queue is not None
    payload = _with_columns(pa.Table.from_batches([queue.events.payload]), correction.columns)
    (batch,) = payload.combine_chunks().to_batches()
    events = Events(queue.events.timestamps, batch, queue.events.streams)
    after = StoredQueue(events, queue.state).take(correction.kept)
    return after.write(writer, len(task.bolt.accounts.streams), task.state.bolt)


class _RetainedRewrite:
    """The events that a task holds, rewritten section by section; unchanged sections stay where they are."""

    def __init__(self, task: TaskReader, correction: TaskCorrection, writer: SegmentWriter) -> None:
        self.task, self.correction, self.writer = task, correction, writer
        self.streams = len(task.bolt.accounts.streams)
        self.accounted = np.array(task.state.accounted_by_stream or [0] * self.streams)

    def write(self) -> TaskState:
        """Returns the state with the rewritten events."""
        state, parts = self.task.state, iter(parts_of(self.task))
        refs = [self._section(ref, next(parts)) for ref in state.refs]
        windows = state.windows.with_rows(lambda ref: self._waiting_section(ref, next(parts)), FieldKind.EVENTS)
        if windows.get("panes") is not None:
            windows = self._with_panes(windows)
        if not self.correction.kept.all():
            windows = self._without_removed(windows)
        return TaskState(windows, Refs(ref for ref in refs if ref is not None), self.accounted.tolist(), state.bolt)

    def _section(self, ref: Ref, rows: slice) -> Ref | None:
        kept = self.correction.kept[rows]
        if kept.all() and not self.correction.touched[rows].any():
            return ref
        events, flags = read_needed(self.task.store, ref)
        gone = ~kept & ((flags & ACCOUNTED) != 0)
        self.accounted -= count_by_stream(
            None if events.streams is None else events.streams[gone], int(np.count_nonzero(gone)), self.streams
        )
        events = self._with_corrections(events, rows)
        return replace(write_retained(self.writer, events, self.streams), level=ref.level) if len(events) else None

    def _waiting_section(self, ref: Ref, rows: slice) -> Ref | None:
        if self.correction.kept[rows].all() and not self.correction.touched[rows].any():
            return ref
        events, flags = read_retained(self.task.store, ref)
        events = self._with_corrections(
            replace(events.take(np.flatnonzero((flags & FINISHED) == 0)), accounted=None), rows
        )
        return write_retained(self.writer, events, self.streams) if len(events) else None

    def _with_panes(self, windows: WindowsState) -> WindowsState:
        """Returns the state in which fired windows with changed events fire again."""
        live, stored_rows = live_events_of(self.task)
        if live is None:
            return windows
        gone = ~self.correction.kept[stored_rows]
        states = panes_after_repair(self.task, live, self.correction.touched[stored_rows] | gone, gone)
        return windows.with_values(panes=self.writer.add(states.table()))

    def _with_corrections(self, events: RetainedEvents, rows: slice) -> RetainedEvents:
        columns = {name: column[rows] for name, column in self.correction.columns.items()}
        events = replace(events, payload=_with_columns(events.payload, columns))
        return events.take(np.flatnonzero(self.correction.kept[rows]))

    def _without_removed(self, windows: WindowsState) -> WindowsState:
        """Returns the state without what followed from the removed events. A time at which a window of theirs was due
        may stay in it: the evaluation at that time then finds no window, and does nothing."""
        live, stored_rows = live_events_of(self.task)
        if live is not None:
            live = live.take(np.flatnonzero(self.correction.kept[stored_rows]))
        keys = np.zeros(0, np.int64) if live is None or live.keys is None else live.keys
        windows = windows.with_key_count(lambda: len(np.unique(keys)))
        return _assigned_without_removed(self.task, windows, live) if windows.family == "assigned" else windows


def _assigned_without_removed(task: TaskReader, windows: WindowsState, live: RetainedEvents | None) -> WindowsState:
    """Returns the state with new times at which the next window may end, and at which an idle timeout may close one."""
    ends, next_end = list[int](), windows.get("next_end")
    if live is not None and len(live):  # a session may end earlier; no window ends before its first event
        earliest = int(live.times.min())
        next_end = earliest if next_end is None else min(earliest, next_end)
    if live is not None and windows.get("open_ends"):
        formed = windows_of(task, live)
        ends = formed.open_ends(evaluated_span(task, live, formed))
    return windows.with_values(next_end=next_end, open_ends=tuple(ends))


def _with_columns(table: pa.Table, columns: Mapping[str, pa.Array]) -> pa.Table:
    for name, column in columns.items():
        place = table.column_names.index(name)
        table = table.set_column(place, table.schema.field(place), column)
    return table


# The repair of one bolt, which is validated completely before anything is written.


@dataclass(frozen=True)
class BoltRepair:
    """The changes to one bolt."""

    name: str
    state: BoltState
    corrections: tuple[tuple[TaskReader, TaskCorrection], ...]
    """Corrections of each task that has any."""

    @staticmethod
    def of(
        name: str,
        state: BoltState,
        rules: BoltRules,
        store: SegmentStore,
        columns: pa.Schema,
        given: tuple[GivenEvents | None, GivenEvents | None],
    ) -> BoltRepair:
        """``given``: the rows with new values, and the rows to remove. Raises DataError for impossible changes."""
        tasks = readers_of(state, store, rules)
        stored = {task.number: sum(map(len, task.rows)) for task in tasks}
        for each in given:
            if each is not None:
                each.check_there(stored)
        return BoltRepair(name, state, tuple(_corrections(name, tasks, columns, *given)))

    def write(self, writer: SegmentWriter) -> BoltState:
        """Writes the changes; returns the state of the bolt with them. Removed events that were in no window yet are
        purged."""
        tasks = list(self.state.tasks)
        for task, correction in self.corrections:
            tasks[task.number] = rewrite_task(task, correction, writer)
        accounts = Accounts(self.state.accounts.streams, self.state.accounts.to_json())
        after = replace(self.state, accounts=accounts, tasks=tasks)
        accounts.add("purged", [was - is_ for was, is_ in zip(self.state.pending, after.pending, strict=True)])
        self._check(after)
        return after

    def _check(self, after: BoltState) -> None:
        """Raises AccountsError if another event was lost, or an event is counted wrongly: a defect of windbolt."""
        after.accounts.check(after.pending, self.name)
        removed, waiting = 0, 0
        for task, correction in self.corrections:
            start = 0
            for rows in task.rows:
                gone = ~correction.kept[start : start + len(rows)]
                removed, waiting = removed + int(gone.sum()), waiting + int(rows.pending[gone].sum())
                start += len(rows)
        stored = [
            sum(task.refs.needed + sum(sum(ref.by_stream) for ref in task.waiting) for task in each.tasks)
            for each in (self.state, after)
        ]
        purged = sum(self.state.pending) - sum(after.pending)
        if stored[0] - stored[1] != removed or purged != waiting:
            raise AccountsError(
                f"bolt {self.name!r} would have {stored[1]:,} stored events, of {stored[0]:,} without {removed:,}, and "
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
        correction = TaskRows(name, task, columns).correct(*of_task)
        check_removable(name, task, correction.kept)
        if not correction.changes_nothing:
            yield task, correction


# ``windbolt.state.repair``: a savepoint in which stored events have other values, or are removed.


@checked
def repair(
    checkpoint: str | os.PathLike[str],
    destination: str | os.PathLike[str],
    events: Mapping[str, Any],
    *,
    without: Mapping[str, Any] | None = None,
) -> pa.Table:
    """Take a savepoint whose stored events have other values; ``state.repair("ck/", "new/", {"revenue": rows})``.

    ``events``: by bolt, rows of ``state.read(checkpoint, bolt)["events"]`` with new values: a pyarrow table, a
    DataFrame of pandas, or a list of dicts. Other events, and columns that the rows lack, do not change. ``without``:
    by bolt, the rows of events to remove; those that were in no window yet are ``purged`` in the accounts.

    The checkpoint does not change, and no run may use it. A run can continue from the destination, a folder or a store
    that must be empty. Returns the ``state.bolts`` table of the destination. If this call is interrupted, no run begins
    at the destination; another call starts over.

    Raises ConfigError for an unknown bolt, and for a bolt that keeps sums. Raises DataError for a row that is not
    stored, a change that would move an event elsewhere, a value that its column cannot hold, and an event that cannot
    be removed. Raises CheckpointError as for a savepoint. In all these cases nothing is written.
    """
    path, source = os.fspath(destination), checkpoint_at(os.fspath(checkpoint))
    repairing = _RepairRun(source, events, without or {})
    source.lock.share()
    try:
        take_savepoint(source, path, change=StateChange(repairing.prepare, repairing.names))
    finally:
        source.lock.release()
    return bolts(path)


class _RepairRun:
    """Repair of a checkpoint."""

    def __init__(self, source: PairedCheckpoint, events: Mapping[str, Any], without: Mapping[str, Any]) -> None:
        self.source, self.names = source, sorted({*events, *without})
        if not self.names:
            raise ConfigError(
                f"checkpoint {source.path!r} has nothing to be repaired",
                why="neither events with other values are given, nor any to be taken out",
                do="give some, by the name of their bolt; or take a plain savepoint: windbolt savepoint",
            )
        all_rules = require_rules(source).bolts
        self.rules = {name: rules_of(all_rules, name, None) for name in self.names}
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
        """Validates every repair."""
        store = FileSegments(f"{self.source.documents.root}/segments", self.source.uri)
        repairs = []
        for name in self.names:
            if name not in manifest.bolts:
                raise _without_events(self.source.path, name)
            columns, _ = stored_columns(self.rules[name])
            state = manifest.bolts[name]
            repairs.append(BoltRepair.of(name, state, self.rules[name], store, columns, self.given[name]))

        def rewrite(writer: SegmentWriter) -> Manifest:
            after = Manifest.from_values(manifest.to_values())
            after.bolts |= {each.name: each.write(writer) for each in repairs}
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
