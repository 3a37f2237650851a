"""What is to be different among the stored events of one task, and that nothing else is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from topologies.repairs.given_events import READ_AGAIN, GivenEvents
from topologies.repairs.given_values import GivenValues, NoSuchValue, as_stored, compare_given
from topologies.state_tables.event_table import event_table, own_columns
from topologies.state_tables.task_reader import TaskReader
from windowing.errors import DataError
from windowing.suggestions import did_you_mean_column

if TYPE_CHECKING:
    from numpy.typing import NDArray

_BY_INPUT = "leave it as it was; an event that belongs elsewhere has to come through the input: take this one out "
_BY_INPUT += "(without=), and send it again"


@dataclass(frozen=True)
class TaskCorrection:
    """The stored rows of a task as they are to be, in the order of the table of events."""

    columns: dict[str, pa.Array]
    """The columns, by their stored names, in which some row has another value."""
    touched: NDArray[np.bool_]
    """Which rows have other values."""
    kept: NDArray[np.bool_]
    """Which rows are not taken out."""

    @property
    def changes_nothing(self) -> bool:
        """Whether all is as it was."""
        return bool(self.kept.all()) and not self.touched.any()


class TaskRows:
    """The stored rows of a task, to which a user's are compared."""

    def __init__(self, bolt: str, task: TaskReader, columns: pa.Schema) -> None:
        streams = task.bolt.accounts.streams
        self.bolt, self.task, self.streams = bolt, task, streams
        self.table = event_table([task], streams, columns)
        self._own = {name for rows in task.rows for name in own_columns(rows)}

    def corrected(self, given: GivenEvents | None, without: GivenEvents | None) -> TaskCorrection:
        """The rows with the values given, without those that are taken out. DataError for what cannot be different."""
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
        """The user's columns. DataError where a row is another event than the stored one."""
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
        """Of which rows a column must be what it was: windbolt's own, and those that decide where an event belongs."""
        if name in self._own:
            return np.ones(len(rows), np.bool_)
        stored, decisive = self._stored_name(name), self.task.timing.decisive
        assert decisive is not None
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
        """The name under which the user's column is stored: in the table one that is windbolt's too has a prefix."""
        bare = name.removeprefix("event.")
        return bare if bare in self._own else name

    def _with(self, name: str, rows: NDArray[np.int64], values: GivenValues) -> pa.Array:
        """A whole column with the values given in these rows."""
        column = _one_array(self.table.column(name))
        places = np.arange(len(column))
        places[rows] = len(column) + np.arange(len(rows))
        before = column.cast(values.values.type) if column.type != values.values.type else column
        return as_stored(pa.concat_arrays([before, values.values]).take(pa.array(places)), column.type)


def parts_of(task: TaskReader) -> Sequence[slice]:
    """Where the rows of each part of a task are among all of them."""
    edges = np.cumsum([0, *(len(rows) for rows in task.rows)]).tolist()
    return [slice(low, high) for low, high in pairwise(edges)]


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    found = column.combine_chunks()
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
