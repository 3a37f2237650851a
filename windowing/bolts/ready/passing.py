"""What bolts have in common that pass on some events of a stream and hold back others, by what passed before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa

from windowing.bolts.batch_windowed_bolt import AllRows, BatchWindowedBolt
from windowing.bolts.component import TaskContext
from windowing.bolts.ready.columns_by_name import check_columns, read_columns, read_name, wrong_groups
from windowing.bolts.ready.given_limits import read_length_of_time
from windowing.bolts.ready.unions import Union
from windowing.bolts.windowed_bolt import StatefulWindowedBolt
from windowing.data.order import group_numbers, stable_order
from windowing.data.returned_rows import DEFAULT_STREAM
from windowing.data.schema import value_type
from windowing.errors import ConfigError
from windowing.time.durations import Time
from windowing.window import whole
from windowing.window_batch import WindowBatch

if TYPE_CHECKING:
    from numpy.typing import NDArray

_PASSED, _TIME = "passed", "time"


class Passing(BatchWindowedBolt, StatefulWindowedBolt, Union):
    """A union that holds some events back: in order of time, then of arrival, once the watermark has passed them.

    Each task remembers the events that have passed and that others are compared with: their time, and ``compared``
    columns. What is held back is counted, and goes to the stream ``rest`` if there is one.
    """

    held_back = "held back"
    """What the events that are held back are called in the counters of a run."""
    state: dict[str, Any]

    def __init__(self, by: object, within: Time | None, rest: str | None, *, length: str = "within") -> None:
        name = type(self).__name__
        self.by = read_columns(name, "by", by)
        self.within = None if within is None else read_length_of_time(name, length, within)
        self.rest = None if rest is None else read_name(name, "rest", rest)
        if self.rest == DEFAULT_STREAM:
            raise ConfigError(
                f"{name}(rest={rest!r})",
                why="that is the stream of the events that pass",
                do="choose another name for the stream of the others",
            )
        self._counters: Counter[str] = Counter()

    @property
    def takes_retractions(self) -> bool:
        return False

    @property
    def groups_by(self) -> tuple[str, ...]:
        return self.by

    @property
    def remembered_columns(self) -> tuple[str, ...]:
        """The columns that are remembered of events that have passed; none before its inputs are known."""
        columns: tuple[str, ...] = self.__dict__.get("_compared", ())
        return columns

    def compared(self, schema: pa.Schema) -> tuple[str, ...]:
        """The columns that are remembered of an event that has passed: ``by``, and others."""
        raise NotImplementedError

    def passes(self, keys: Sequence[pa.Array], times: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which rows pass; ``keys`` are their ``compared`` columns. Those that have passed before come first, and
        pass again."""
        raise NotImplementedError

    def remembered(self, keys: Sequence[pa.Array], times: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of these rows, all of which have passed, later ones are to be compared with."""
        raise NotImplementedError

    def for_inputs(self, inputs: Mapping[str, pa.Schema]) -> Self:
        """The bolt with its columns; ConfigError where they cannot be."""
        bound = super().for_inputs(inputs)
        assert bound._schema is not None
        columns = self.compared(bound._schema)
        others = tuple(name for name in columns if name not in self.by)
        name = type(self).__name__
        check_columns(
            name, wrong_groups(name, "by", self.by, bound._schema), wrong_groups(name, "of", others, bound._schema)
        )
        kept = [pa.field(f"of {name}", value_type(bound._schema.field(name).type)) for name in columns]
        bound.__dict__["state_keys"] = {_PASSED: {name: f"of {name}" for name in self.by}}
        bound.__dict__["state_types"] = {_PASSED: pa.schema([pa.field(_TIME, pa.int64()), *kept])}
        bound.__dict__["_compared"] = columns
        return bound

    def output_schemas(self) -> dict[str, pa.Schema]:
        schemas = super().output_schemas()
        return schemas if self.rest is None else dict.fromkeys((*schemas, self.rest), schemas[DEFAULT_STREAM])

    @property
    def needed_until(self) -> int | None:
        times = self.state[_PASSED].column(_TIME)
        if self.within is None or not len(times):
            return None
        return int(times[-1].as_py()) + self.within.micros

    def prepare(self, context: TaskContext) -> None:
        self._counters = context.counters

    def execute_all(self, windows: WindowBatch) -> AllRows:
        """Called with moments in order; passes on the events of all of them, or not."""
        table, index = windows.table, windows.index
        if not len(index):
            return None
        passed = self._passed(table, windows.timestamps)
        self._counters[self.held_back] += len(passed) - int(np.count_nonzero(passed))
        chosen = {DEFAULT_STREAM: passed} if self.rest is None else {DEFAULT_STREAM: passed, self.rest: ~passed}
        return {stream: (table.filter(pa.array(which)), index[which]) for stream, which in chosen.items()}

    def _passed(self, table: pa.Table, times: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of these events pass; what has to be known of them later is kept."""
        before = self.state[_PASSED]
        columns = self.remembered_columns
        keys = [
            pa.concat_arrays([whole(before.column(f"of {name}")), _decoded(whole(table.column(name)))])
            for name in columns
        ]
        moments = np.concatenate([before.column(_TIME).to_numpy(), times])
        passed = self.passes(keys, moments)
        rows = np.flatnonzero(passed)
        if self.within is not None:  # others are too long ago to matter for what comes now or later
            rows = rows[moments[rows] + self.within.micros > times[-1]]
        kept = [key.take(pa.array(rows)) for key in keys]
        still = pa.array(self.remembered(kept, moments[rows]))
        state = pa.table([pa.array(moments[rows]), *kept], schema=before.schema)
        self.state[_PASSED] = state.filter(still)
        return passed[before.num_rows :]


def limited(groups: NDArray[np.int64], times: NDArray[np.int64], most: int, within: int | None) -> NDArray[np.bool_]:
    """Which rows pass if at most so many of a group may pass less than ``within`` microseconds after each other.

    ``groups`` are numbers, and rows are in order of time. None: at most so many of a group at all.
    """
    order = stable_order(groups)
    numbers = group_numbers(groups[order])
    begins = _begins(numbers)
    sizes = np.diff(begins, append=len(numbers))
    passed = np.arange(len(numbers)) - np.repeat(begins, sizes) < most
    if within is not None:
        crowded = sizes > most
        rows = np.flatnonzero(np.repeat(crowded, sizes))
        passed[rows] = False
        passed[rows[_chain(numbers[rows], times[order][rows], most, within)]] = True
    found = np.empty(len(passed), np.bool_)
    found[order] = passed
    return found


def _chain(numbers: NDArray[np.int64], times: NDArray[np.int64], most: int, within: int) -> list[int]:
    """The rows that pass, of rows in order of (group, time). Whether one does depends on those that passed before it,
    so these are followed one by one; those that do not pass are skipped."""
    count = len(numbers)
    follows = np.lexsort((np.repeat([1, 0], count), np.concatenate([times, times + within]), np.tile(numbers, 2)))
    events = follows < count
    free = np.empty(count, np.int64)
    free[follows[~events] - count] = np.cumsum(events)[~events]  # the first row so much later, or the next group
    after = free.tolist()
    bounds = [*_begins(numbers).tolist(), count]
    passed: list[int] = []
    for begin, stop in pairwise(bounds):
        own, place = [], begin
        while place < stop:
            own.append(place)
            place = place + 1 if len(own) < most else max(place + 1, after[own[-most]])
        passed += own
    return passed


def _begins(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where groups begin, of rows in order of their groups."""
    return np.flatnonzero(np.concatenate([[True], numbers[1:] != numbers[:-1]])[: len(numbers)])


def _decoded(column: pa.Array) -> pa.Array:
    return column.cast(value_type(column.type)) if pa.types.is_dictionary(column.type) else column
