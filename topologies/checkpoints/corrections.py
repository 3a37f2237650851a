"""Edits to stored events that a user gives: computed, with all other changes rejected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from topologies.checkpoints.state_tables import event_table, own_columns
from topologies.checkpoints.stored_tasks import TaskReader
from topologies.io.spout_columns import given_table, is_data_frame
from windowing.conversion import REFUSED, converted
from windowing.errors import DataError, did_you_mean_column
from windowing.schema import value_type

if TYPE_CHECKING:
    from numpy.typing import NDArray


# Values that a user gives for stored ones: which differ, and the column with them, in its stored type.


@dataclass(frozen=True)
class GivenValues:
    """The values of one column for some stored rows, in their order."""

    values: pa.Array
    """The values in the type in which they are stored; for a dictionary, the type of its values."""
    differ: NDArray[np.bool_]
    """True for values that differ from the stored ones."""


class NoSuchValue(Exception):
    """A value that the type of its column cannot hold; ``place`` is its place among the given values."""

    def __init__(self, place: int) -> None:
        super().__init__()
        self.place = place


def compare_given(stored: pa.Array, given: pa.Array, *, null_is_nan: bool) -> GivenValues:
    """Compares values with the stored ones. NoSuchValue for one that the type cannot hold exactly.

    Libraries change types: whole numbers with nulls become floats, times nanoseconds. If the stored value, converted to
    the given type, equals the given value, it is unchanged, to the last digit. ``null_is_nan``: a null also stands for
    a stored NaN.
    """
    stored, given = without_dictionary(stored), without_dictionary(given)
    differ = ~_same(_loosely(stored, given.type), given)
    if null_is_nan and pa.types.is_floating(stored.type):
        differ &= ~(np.asarray(pc.fill_null(pc.is_nan(stored), fill_value=False)) & np.asarray(given.is_null()))
    changed = _exactly(given, np.flatnonzero(differ), stored.type)
    places = np.arange(len(stored))
    places[differ] = len(stored) + np.arange(len(changed))
    values = pa.concat_arrays([stored, changed]).take(pa.array(places))
    return GivenValues(values, ~_same(stored, values))


def without_dictionary(column: pa.Array) -> pa.Array:
    """Returns the values themselves, where they are stored as places in a dictionary."""
    kind = value_type(column.type)
    return column if kind == column.type else column.cast(kind)


def as_stored(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Returns values as they are stored."""
    if not pa.types.is_dictionary(kind):
        return values
    found = values.dictionary_encode()
    indices = found.indices.cast(kind.index_type)
    return pa.DictionaryArray.from_arrays(indices, found.dictionary.cast(kind.value_type), ordered=kind.ordered)


def _loosely(stored: pa.Array, kind: pa.DataType) -> pa.Array:
    """Returns stored values in the type that a library uses for them; all null where there is no such conversion."""
    if stored.type == kind:
        return stored
    try:
        return stored.cast(kind, safe=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return pa.nulls(len(stored), kind)


def _exactly(given: pa.Array, places: NDArray[np.int64], kind: pa.DataType) -> pa.Array:
    chosen = given.take(pa.array(places))
    if chosen.type == kind:
        return chosen
    try:
        return _converted(chosen, kind)
    except REFUSED:
        for place in places.tolist():
            try:
                _converted(given.slice(place, 1), kind)
            except REFUSED:
                raise NoSuchValue(place) from None
        raise


def _converted(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Returns given values in their stored type; texts, as in JSON, are parsed."""
    return column.cast(kind) if pa.types.is_string(column.type) else converted(column, kind)


def _same(one: pa.Array, other: pa.Array) -> NDArray[np.bool_]:
    """Returns which values are the same: two nulls are, and two NaNs."""
    if pa.types.is_null(one.type):
        return np.ones(len(one), np.bool_)
    if pa.types.is_nested(one.type):
        return np.array([a == b for a, b in zip(one.to_pylist(), other.to_pylist(), strict=True)], np.bool_)
    same = pc.fill_null(pc.equal(one, other), fill_value=False)
    if pa.types.is_floating(one.type):
        same = pc.or_(same, pc.fill_null(pc.and_(pc.is_nan(one), pc.is_nan(other)), fill_value=False))
    found: NDArray[np.bool_] = np.asarray(pc.or_(same, pc.and_(one.is_null(), other.is_null())))
    return found


# Rows of ``state.read(...)["events"]`` that a user gives back, and the events that they stand for.


KNOWN_BY = ("task", "row", "input", "time")
"""Columns that each row needs: the first two identify the event, the others confirm that it is still the same."""
READ_AGAIN = "read the events again, of the last batch, and correct them anew"


@dataclass(frozen=True)
class GivenEvents:
    """Rows that a user gives back, in the order given."""

    bolt: str
    table: pa.Table
    tasks: NDArray[np.int64]
    rows: NDArray[np.int64]
    of_frame: bool
    """True if they come from a DataFrame, in which null and NaN are the same."""

    @staticmethod
    def of(bolt: str, given: Any) -> GivenEvents:
        """Makes the given rows; DataError where this is no table, or where it does not say for each row, and once,
        which event it is."""
        table = _as_table(bolt, given)
        missing = [name for name in KNOWN_BY if name not in table.column_names]
        if missing:
            raise DataError(
                f"the events for bolt {bolt!r} have no column {', '.join(map(repr, missing))}",
                why="by these it is known which stored event a row is, and that it still is the one that was read",
                do="give back rows of state.read(...)['events'], with these columns",
            )
        tasks, rows = (_numbers(bolt, table, name) for name in ("task", "row"))
        places, counts = np.unique(np.column_stack([tasks, rows]), axis=0, return_counts=True)
        if (counts > 1).any():
            task, row = places[int(np.argmax(counts > 1))].tolist()
            raise DataError(
                f"row {row} of task {task} of bolt {bolt!r} is given twice",
                why="each stored event can have one set of values",
                do="give each row once",
            )
        return GivenEvents(bolt, table, tasks, rows, is_data_frame(given))

    def of_task(self, task: int) -> GivenEvents:
        """Returns the given events of a task."""
        here = np.flatnonzero(self.tasks == task)
        return GivenEvents(self.bolt, self.table.take(pa.array(here)), self.tasks[here], self.rows[here], self.of_frame)

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
        table = given_table(given)
        if table is None and isinstance(given, list) and all(isinstance(row, dict) for row in given):
            table = _of_dicts(bolt, given)
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


def _of_dicts(bolt: str, given: list[dict[str, Any]]) -> pa.Table:
    names = list(given[0]) if given else list(KNOWN_BY)
    for row in given:
        if set(row) != set(names):
            odd = min(set(row) ^ set(names), key=str)
            raise DataError(
                f"of the events for bolt {bolt!r} some have {odd!r}, and some have not",
                why="a value that is missing may be one to be kept, or a null",
                do="give all rows the same columns, or call with each kind of row by itself",
            )
    return pa.table({name: pa.array([row[name] for row in given]) for name in names})


def _numbers(bolt: str, table: pa.Table, name: str) -> NDArray[np.int64]:
    column = table.column(name)
    try:
        numbers = column.cast(pa.int64())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise _unnumbered(bolt, name, str(error)) from error
    if numbers.null_count:
        raise _unnumbered(bolt, name, "there are nulls")
    found: NDArray[np.int64] = numbers.to_numpy().astype(np.int64)
    return found


def _unnumbered(bolt: str, name: str, why: str) -> DataError:
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
    """The columns, by their stored names, in which some row has a new value."""
    touched: NDArray[np.bool_]
    """True for rows with changed values."""
    kept: NDArray[np.bool_]
    """True for rows that are not taken out."""

    @property
    def changes_nothing(self) -> bool:
        """True if nothing is changed."""
        return bool(self.kept.all()) and not self.touched.any()


class TaskRows:
    """The stored rows of a task, with which a user's rows are compared."""

    def __init__(self, bolt: str, task: TaskReader, columns: pa.Schema) -> None:
        streams = task.bolt.accounts.streams
        self.bolt, self.task, self.streams = bolt, task, streams
        self.table = event_table([task], streams, columns)
        self._own = {name for rows in task.rows for name in own_columns(rows)}

    def corrected(self, given: GivenEvents | None, without: GivenEvents | None) -> TaskCorrection:
        """Returns the rows with the values given, without those that are taken out. DataError for changes that are not
        possible."""
        count = self.table.num_rows
        columns, touched, kept = dict[str, pa.Array](), np.zeros(count, np.bool_), np.ones(count, np.bool_)
        if without is not None:
            self._compared(without)
            kept[without.rows] = False
        for name, values in {} if given is None else self._compared(given).items():
            assert given is not None
            if values.differ.any():
                columns[self._stored_name(name)] = self._with(name, given.rows, values)
                touched[given.rows[values.differ]] = True
        return TaskCorrection(columns, touched & kept, kept)

    def _compared(self, given: GivenEvents) -> dict[str, GivenValues]:
        """Returns the user's columns. DataError where a row is another event than the stored one."""
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
            decisive = self._decides(name, given.rows)
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
            return compare_given(before, now, null_is_nan=given.of_frame)
        except NoSuchValue as error:
            row, value = int(given.rows[error.place]), now[error.place].as_py()
            raise DataError(
                f"row {row} of task {self.task.number} of bolt {self.bolt!r} cannot have {value!r:.60} in {name!r}",
                why=f"the column is {before.type}, which cannot hold it exactly",
                do="give a value of this type",
            ) from None

    def _decides(self, name: str, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Returns for which rows a column must not change: a column of windbolt's own, or one that decides where the
        event belongs."""
        if name in self._own:
            return np.ones(len(rows), np.bool_)
        stored, decisive = self._stored_name(name), self.task.rules.decisive
        by_input = {name: stored in columns for name, columns in zip(self.streams, decisive, strict=True)}
        if len(set(by_input.values())) == 1:
            return np.full(len(rows), next(iter(by_input.values())), np.bool_)
        inputs = self.table.column("input").take(pa.array(rows)).to_pylist()
        return np.array([by_input[each] for each in inputs], np.bool_)

    def _other_event(self, name: str, stored: pa.Table, given: GivenEvents, place: int) -> DataError:
        before, now = stored.column(name)[place].as_py(), given.table.column(name)[place].as_py()
        row, task = int(given.rows[place]), self.task.number
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
        """Returns the name under which the user's column is stored: in the table it has a prefix where windbolt has a
        column of that name."""
        bare = name.removeprefix("event.")
        return bare if bare in self._own else name

    def _with(self, name: str, rows: NDArray[np.int64], values: GivenValues) -> pa.Array:
        """Returns a whole column with the values given in these rows."""
        column = _one_array(self.table.column(name))
        places = np.arange(len(column))
        places[rows] = len(column) + np.arange(len(rows))
        before = column.cast(values.values.type) if column.type != values.values.type else column
        return as_stored(pa.concat_arrays([before, values.values]).take(pa.array(places)), column.type)


def parts_of(task: TaskReader) -> Sequence[slice]:
    """Returns the range of rows of each part of a task among all its rows."""
    edges = np.cumsum([0, *(len(rows) for rows in task.rows)]).tolist()
    return [slice(low, high) for low, high in pairwise(edges)]


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    found = column.combine_chunks()
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
