"""Rows of ``state.read(...)["events"]`` that a user gives back: which events they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from topologies.io.given_tables import given_table, is_data_frame
from windowing.errors import DataError

if TYPE_CHECKING:
    from numpy.typing import NDArray

KNOWN_BY = ("task", "row", "input", "time")
"""The columns that each row needs: by the first two it is known which event it is, by the others that it still is."""
READ_AGAIN = "read the events again, of the last batch, and correct them anew"


@dataclass(frozen=True)
class GivenEvents:
    """Rows that a user gives back, in the order given."""

    bolt: str
    table: pa.Table
    tasks: NDArray[np.int64]
    rows: NDArray[np.int64]
    of_frame: bool
    """Whether they come of a DataFrame, in which a null and NaN are the same."""

    @staticmethod
    def of(bolt: str, given: Any) -> GivenEvents:
        """DataError where this is no table, or where it does not say, of each row and once, which event it is."""
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
        """Those of a task."""
        here = np.flatnonzero(self.tasks == task)
        return GivenEvents(self.bolt, self.table.take(pa.array(here)), self.tasks[here], self.rows[here], self.of_frame)

    def check_there(self, stored: Mapping[int, int]) -> None:
        """DataError for a row that a task does not have; ``stored``: by task, how many it has."""
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
