"""Ready bolts that pass events on: all of them, only some, or with changed times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windowing.aggregates.groups import Keys
from windowing.bolts.aggregate_bolt import (
    check_columns,
    column_errors,
    name_clashes,
    read_columns,
    read_length_of_time,
    read_limit,
    read_name,
    unified_schema,
)
from windowing.bolts.bolt import BatchBolt, TaskContext
from windowing.bolts.windowed_bolt import AllRows, BatchWindowedBolt, Operator, StatefulWindowedBolt
from windowing.calls import checked_value
from windowing.columns import group_numbers, stable_order
from windowing.durations import Time, as_duration, as_shift, seconds
from windowing.errors import ConfigError, did_you_mean_column
from windowing.schema import DEFAULT_STREAM, TIMESTAMP, EmittedRows, value_type
from windowing.settings import WindowSettings
from windowing.settings.kinds import Lull
from windowing.settings.rules import Bounds, OutputTime
from windowing.timestamps import OPEN_END, from_column, to_column
from windowing.window import TupleWindow, WindowBatch, in_one_piece

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Union(Operator):
    """Passes on the events of all its input streams, in order of time, their columns unchanged (SI-23).

    An event is emitted, with its own time, when the watermark has passed this time; the watermark is the least of the
    marks of all inputs. Events of equal time are in order of arrival. If a stream lacks a column of another stream, its
    events have nulls there.

        builder.set_bolt("all", Union().with_timestamp_field("ts")).global_grouping("web").global_grouping("shop")

    Raises ConfigError for ``with_lifetime``: events are emitted by their timestamps, however long they last.
    """

    _schema: pa.Schema | None = None

    @checked_value
    def __init__(self) -> None:
        """Take no arguments."""

    def for_inputs(self, inputs: Mapping[str, pa.Schema]) -> Self:
        """Returns the bolt with the columns of its inputs."""
        bound = copy(self)
        schema = unified_schema(inputs)
        bound._schema = next(iter(inputs.values())) if schema is None else schema
        return bound

    def output_schemas(self) -> dict[str, pa.Schema]:
        return {} if self._schema is None else {DEFAULT_STREAM: self._schema}

    def execute(self, window: TupleWindow) -> EmittedRows:
        return window.table

    def _with_settings(self, **changes: Any) -> Self:
        if changes.get("lifetime") is not None:
            raise ConfigError(
                f"{type(self).__name__} of events with lifetimes",
                why="it orders events by their starts and does not handle their ends",
                do="call with_lifetime on the bolt that reads its output",
            )
        return super()._with_settings(**changes)


# Bolts that pass on some events and hold back others, depending on the events that passed before.


_PASSED, _TIME = "passed", "time"


class EventFilter(BatchWindowedBolt, StatefulWindowedBolt, Union):
    """A union that holds some events back, depending on the events that passed before.

    Each task remembers events that have passed: their times, and the columns that later events are compared by. Events
    that are held back are counted, and go to the stream ``rest`` if it is named.
    """

    takes_retractions = False
    counter_name = "held back"
    """The name of the counter of events that are held back."""
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
    def groups_by(self) -> tuple[str, ...]:
        return self.by

    @property
    def remembered_columns(self) -> tuple[str, ...]:
        """The columns that are remembered of events that have passed; empty before the topology is built."""
        columns: tuple[str, ...] = self.__dict__.get("_remembered_columns", ())
        return columns

    def columns_to_remember(self, schema: pa.Schema) -> tuple[str, ...]:
        """Returns the columns to remember of an event that has passed: those of ``by``, and others."""
        raise NotImplementedError

    def passes(self, keys: Sequence[pa.Array], times: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Returns a mask of the rows that pass. Rows are in order of time; ``keys``: their remembered columns. The
        first rows are the remembered events, and these pass again."""
        raise NotImplementedError

    def is_remembered(self, keys: Sequence[pa.Array], times: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Returns a mask of the passed rows that later rows are compared with."""
        raise NotImplementedError

    def for_inputs(self, inputs: Mapping[str, pa.Schema]) -> Self:
        """Returns the bolt with its columns; raises ConfigError if a column does not fit."""
        bound = super().for_inputs(inputs)
        assert bound._schema is not None
        columns = self.columns_to_remember(bound._schema)
        compared = tuple(name for name in columns if name not in self.by)
        name = type(self).__name__
        check_columns(
            name, column_errors(name, "by", self.by, bound._schema), column_errors(name, "of", compared, bound._schema)
        )
        remembered_fields = [pa.field(f"of {name}", value_type(bound._schema.field(name).type)) for name in columns]
        bound.__dict__["state_keys"] = {_PASSED: {name: f"of {name}" for name in self.by}}
        bound.__dict__["state_types"] = {_PASSED: pa.schema([pa.field(_TIME, pa.int64()), *remembered_fields])}
        bound.__dict__["_remembered_columns"] = columns
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
        """Called with the events of many moments, in order of time; passes them on, or holds them back."""
        table, index = windows.table, windows.index
        if not len(index):
            return None
        passed = self._pass_and_remember(table, windows.timestamps)
        self._counters[self.counter_name] += len(passed) - int(np.count_nonzero(passed))
        masks = {DEFAULT_STREAM: passed} if self.rest is None else {DEFAULT_STREAM: passed, self.rest: ~passed}
        return {stream: (table.filter(pa.array(mask)), index[mask]) for stream, mask in masks.items()}

    def _pass_and_remember(self, table: pa.Table, times: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Returns a mask of the events that pass, and puts those that later calls need into the state."""
        earlier = self.state[_PASSED]
        columns = self.remembered_columns
        keys = [
            pa.concat_arrays([in_one_piece(earlier.column(f"of {name}")), _decode(in_one_piece(table.column(name)))])
            for name in columns
        ]
        moments = np.concatenate([earlier.column(_TIME).to_numpy(), times])
        passed = self.passes(keys, moments)
        rows = np.flatnonzero(passed)
        if self.within is not None:  # older events have no effect on later ones
            rows = rows[moments[rows] + self.within.micros > times[-1]]
        passed_keys = [key.take(pa.array(rows)) for key in keys]
        is_remembered = pa.array(self.is_remembered(passed_keys, moments[rows]))
        state = pa.table([pa.array(moments[rows]), *passed_keys], schema=earlier.schema)
        self.state[_PASSED] = state.filter(is_remembered)
        return passed[earlier.num_rows :]


def limit_rate(groups: NDArray[np.int64], times: NDArray[np.int64], most: int, within: int | None) -> NDArray[np.bool_]:
    """Returns a mask of the rows that pass: a row passes if fewer than ``most`` rows of its group have passed less than
    ``within`` microseconds before it.

    ``groups``: the number of the group of each row. ``times``: the times of the rows, ascending. ``within`` None: the
    first ``most`` rows of each group pass.
    """
    order = stable_order(groups)
    numbers = group_numbers(groups[order])
    starts = _group_starts(numbers)
    sizes = np.diff(starts, append=len(numbers))
    passed = np.arange(len(numbers)) - np.repeat(starts, sizes) < most
    if within is not None:
        is_over_limit = sizes > most
        rows = np.flatnonzero(np.repeat(is_over_limit, sizes))
        passed[rows] = False
        passed[rows[_passing_rows(numbers[rows], times[order][rows], most, within)]] = True
    mask = np.empty(len(passed), np.bool_)
    mask[order] = passed
    return mask


def _passing_rows(numbers: NDArray[np.int64], times: NDArray[np.int64], most: int, within: int) -> list[int]:
    """Returns the indices of the rows that pass, for ``limit_rate``; rows are in order of (group, time)."""
    count = len(numbers)
    merged_order = np.lexsort((np.repeat([1, 0], count), np.concatenate([times, times + within]), np.tile(numbers, 2)))
    is_event = merged_order < count
    free_from = np.empty(count, np.int64)
    free_from[merged_order[~is_event] - count] = np.cumsum(is_event)[
        ~is_event
    ]  # the first row so much later, or the next group
    next_free = free_from.tolist()
    group_bounds = [*_group_starts(numbers).tolist(), count]
    passed: list[int] = []
    for begin, stop in pairwise(group_bounds):
        passed_in_group, row = [], begin
        while row < stop:
            passed_in_group.append(row)
            row = row + 1 if len(passed_in_group) < most else max(row + 1, next_free[passed_in_group[-most]])
        passed += passed_in_group
    return passed


def _group_starts(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns the index of the first row of each group; ``numbers``: the group of each row, ascending."""
    return np.flatnonzero(np.concatenate([[True], numbers[1:] != numbers[:-1]])[: len(numbers)])


def _decode(column: pa.Array) -> pa.Array:
    return column.cast(value_type(column.type)) if pa.types.is_dictionary(column.type) else column


class Changes(EventFilter):
    """Passes on an event if it differs from the last event of its key that has passed; the first event of a key passes.

        builder.set_bolt("changed", Changes("user", of="level")).fields_grouping("levels", "user")

    ``by``: the columns of the key; without them all events have one key. ``of``: the columns that are compared; by
    default all columns that are not in ``by``. A null equals a null, NaN equals NaN, and 0.0 equals -0.0. ``within``:
    an unchanged event passes too if its time is ``within`` or more after that of the last event that passed; a key
    without events for that long is forgotten. Without ``within`` the last values of each key are kept forever.

    The events of all inputs are compared in order of time, then of arrival, when the watermark has passed them. Their
    columns and times do not change. Events that are held back are counted as ``unchanged`` in the counters of the run,
    and go to the output stream ``rest`` if it is named. With several tasks, group the inputs by fields among ``by``.

    Raises ConfigError for a ``within`` of zero, for an unknown column, for a column in both ``by`` and ``of``, and for
    a ``rest`` that cannot name a stream.
    """

    counter_name = "unchanged"

    @checked_value
    def __init__(
        self,
        by: str | Iterable[str] | None = (),
        *,
        of: str | Iterable[str] | None = None,
        within: Time | None = None,
        rest: str | None = None,
    ) -> None:
        super().__init__(by, within, rest)
        self.of = read_columns("Changes", "of", of)
        repeated = [name for name in self.of if name in self.by]
        if repeated or (of is not None and not self.of):
            raise ConfigError(
                f"Changes(by={list(self.by)}, of={of!r:.60})",
                why="within a key its columns never change" if repeated else "without columns nothing ever changes",
                do="name other columns, or leave of= out to compare all of them",
            )

    def columns_to_remember(self, schema: pa.Schema) -> tuple[str, ...]:
        compared = self.of or tuple(name for name in schema.names if name not in self.by)
        if not compared:
            raise ConfigError(
                f"Changes(by={list(self.by)}) of a stream that has no other columns",
                why="nothing but the key could change",
                do="leave a column out of by=",
            )
        return (*self.by, *compared)

    def passes(self, keys: Sequence[pa.Array], times: NDArray[np.int64]) -> NDArray[np.bool_]:
        groups, values = self._groups(keys, len(times)), Keys.of(keys[len(self.by) :], len(times)).codes
        order = stable_order(groups)
        differs = np.zeros(len(times), np.int64)
        differs[1:] = (np.diff(groups[order]) != 0) | (np.diff(values[order]) != 0)
        runs = np.empty(len(times), np.int64)
        runs[order] = np.cumsum(differs)
        return limit_rate(runs, times, 1, None if self.within is None else self.within.micros)

    def is_remembered(self, keys: Sequence[pa.Array], times: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Returns a mask of the last row of each key."""
        is_last = np.zeros(len(times), np.bool_)
        groups = self._groups(keys, len(times))
        is_last[len(times) - 1 - np.unique(groups[::-1], return_index=True)[1]] = True
        return is_last

    def _groups(self, keys: Sequence[pa.Array], rows: int) -> NDArray[np.int64]:
        return Keys.of(keys[: len(self.by)], rows).codes


class Deduplicate(EventFilter):
    """Passes on the first event with an id, and drops its repeats within a length of event time.

        Deduplicate("id", within="10m").with_timestamp_field("ts")

    ``by``: the columns of the id. An event with a null in one of them has no id, and passes. ``within``: events with
    the same id are repeats if they come less than ``within`` after an event that passed. A repeat does not prolong this
    time; an event exactly ``within`` later passes. The first event is the one with the earliest time on all inputs, or
    among equal times the first to arrive. So events are emitted when the watermark has passed them. Their columns and
    times do not change.

    Repeats are counted as ``repeats`` in the counters of the run, and go to the output stream ``rest`` if it is named.
    An id is forgotten when ``within`` is over; a task without further events forgets all its ids when it is over for
    all of them. With several tasks, group the inputs by fields among ``by``.

    Raises ConfigError without columns, for a ``within`` of zero, and for an invalid name of a column or stream.
    """

    counter_name = "repeats"

    @checked_value
    def __init__(self, by: str | Iterable[str], *, within: Time, rest: str | None = None) -> None:
        super().__init__(by, within, rest)
        if not self.by:
            raise ConfigError(
                f"Deduplicate(by={by!r})", why="repeats are events with equal ids", do="name the columns of the id"
            )
        if self.within is None:
            raise ConfigError(
                "Deduplicate(within=None)",
                why="to know repeats of any age, every id would have to be kept forever",
                do='give the time within which repeats come, such as within="1d"',
            )

    def columns_to_remember(self, schema: pa.Schema) -> tuple[str, ...]:
        return self.by

    def passes(self, keys: Sequence[pa.Array], times: NDArray[np.int64]) -> NDArray[np.bool_]:
        assert self.within is not None
        without_id = ~_have_id(keys, len(times))
        return limit_rate(Keys.of(keys, len(times)).codes, times, 1, self.within.micros) | without_id

    def is_remembered(self, keys: Sequence[pa.Array], times: NDArray[np.int64]) -> NDArray[np.bool_]:
        return _have_id(keys, len(times))


def _have_id(keys: Sequence[pa.Array], rows: int) -> NDArray[np.bool_]:
    """Returns a mask of the rows that have an id: no null in the columns ``keys``."""
    mask = np.ones(rows, np.bool_)
    for key in keys:
        if key.null_count:
            mask &= key.is_valid().to_numpy(zero_copy_only=False)
    return mask


class RateLimit(EventFilter):
    """Passes on at most ``n`` events of a key in any period of event time of the length ``per``.

        RateLimit(5, per="1m", by="user", rest="muted")

    ``by``: the columns of the key; without them all events share one limit. A null is a key like any other. An event
    passes if fewer than ``n`` events of its key have passed less than ``per`` before it. Events that do not pass do not
    count against the limit. The events of all inputs are counted in order of time, then of arrival, when the watermark
    has passed them. Their columns and times do not change.

    Events over the limit are counted as ``over the limit`` in the counters of the run, and go to the output stream
    ``rest`` if it is named. At most ``n`` times are kept for each key, no longer than ``per``. With several tasks,
    group the inputs by fields among ``by``.

    Raises ConfigError for an ``n`` that is not a whole number above 0, for a ``per`` of zero, for an unknown column,
    and for a ``rest`` that cannot name a stream.
    """

    counter_name = "over the limit"

    @checked_value
    def __init__(self, n: int, *, per: Time, by: str | Iterable[str] | None = (), rest: str | None = None) -> None:
        super().__init__(by, per, rest, length="per")
        self.n = read_limit("RateLimit", n, "events that may pass")
        if self.within is None:
            raise ConfigError(f"RateLimit({n}, per=None)", why="a rate is a number in a time", do='give per="1m"')

    def columns_to_remember(self, schema: pa.Schema) -> tuple[str, ...]:
        return self.by

    def passes(self, keys: Sequence[pa.Array], times: NDArray[np.int64]) -> NDArray[np.bool_]:
        assert self.within is not None
        return limit_rate(Keys.of(keys, len(times)).codes, times, self.n, self.within.micros)

    def is_remembered(self, keys: Sequence[pa.Array], times: NDArray[np.int64]) -> NDArray[np.bool_]:
        return np.ones(len(times), np.bool_)


# A bolt that reports that no event of a key has come for some time.


class Silence(BatchWindowedBolt, Operator):
    """Emits the last event of a key when no other event of the key has followed within ``after``, by event time.

        Silence("3m", by="symbol", end="silent_at").with_timestamp_field("ts")

    ``after``: the length of a silence, counted from an event of the key. An event exactly ``after`` later does not
    prevent the silence. ``by``: the columns of the key; without them all events have one key. A null is a key like any
    other. A key without any event is unknown, and has no silence.

    A row has the columns of the last event, and as its time the end of the silence, ``after`` later; ``end`` names a
    column for this time. The row is emitted when the watermark reaches this time, once for each silence. An event of
    the key on any input prevents the silence. Of several events of equal time the last to arrive is the last event.

    At the end of the streams no silence is reported, unless ``with_time(close_fires=True)`` reports one of every key.
    If all inputs may stop sending, set ``with_watermark(idle_timeout=)``, so that the clock advances the watermark.

    One event of each key is kept until it is emitted or followed by another event. In the accounts, emitted events are
    windowed, and events that others follow are unwindowed. With several tasks, group the inputs by fields among ``by``.

    Raises ConfigError for an ``after`` of zero, for lifetimes, for an unknown column, and for an ``end`` with the name
    of another column.
    """

    settings: WindowSettings = WindowSettings(
        kinds=(Lull(seconds(1)),), bounds=Bounds.START, output_time=OutputTime.END, close_fires=False
    )
    rows_are_of_events = True
    takes_retractions = False
    windows_in_words = "one at each event that no other follows in time"
    fixed_rules = (*Operator.fixed_rules, "close_fires")
    _schema: pa.Schema | None = None

    @checked_value
    def __init__(self, after: Time, *, by: str | Iterable[str] | None = (), end: str | None = None) -> None:
        self.after = read_length_of_time("Silence", "after", after)
        self.by = read_columns("Silence", "by", by)
        self.end = None if end is None else read_name("Silence", "end", end)
        self.settings = replace(self.settings, key=self.by, kinds=(Lull(self.after),))

    @property
    def groups_by(self) -> tuple[str, ...]:
        return self.by

    def for_inputs(self, inputs: Mapping[str, pa.Schema]) -> Self:
        """Returns the bolt with its columns; raises ConfigError if a column does not fit."""
        schema = unified_schema(inputs)
        if schema is None:
            return self
        added = [] if self.end is None else [self.end]
        check_columns(
            "Silence", column_errors("Silence", "by", self.by, schema), name_clashes("Silence", added, schema)
        )
        if self.end is not None:
            schema = schema.append(pa.field(self.end, TIMESTAMP))
        bound = copy(self)
        bound._schema = schema
        return bound

    def output_schemas(self) -> dict[str, pa.Schema]:
        return {} if self._schema is None else {DEFAULT_STREAM: self._schema}

    def execute_all(self, windows: WindowBatch) -> tuple[pa.Table, NDArray[np.int64]] | None:
        """Called with windows that hold the last event before a silence, and end with the silence."""
        table, index = windows.table, windows.index
        if not len(index):
            return None
        if self.end is not None:
            table = table.append_column(self.end, to_column(windows.window_ends[index]))
        return table, index

    def _with_settings(self, **changes: Any) -> Self:
        if changes.get("lifetime") is not None:
            raise ConfigError(
                "Silence of events with lifetimes",
                why="it counts from the time of an event, however long the event lasts",
                do="leave with_lifetime out",
            )
        return super()._with_settings(**changes)


# Bolts that move events in time, and the watermark with them, or change how long events last.


class ShiftTime(BatchBolt):
    """Moves the times of events and the watermark by a fixed duration (SI-25).

        builder.set_bolt("later", ShiftTime("5s")).shuffle_grouping("totals")

    Events have a time if they come from a windowed bolt. Behind a spout, where events have no time yet, only the
    columns ``fields`` are moved. These hold times: timestamps, or whole numbers of milliseconds. Other columns do not
    change.
    """

    @checked_value
    def __init__(self, by: Time, *, fields: str | Sequence[str] = ()) -> None:
        self.time_shift = as_shift(by).micros
        self._fields = (fields,) if isinstance(fields, str) else tuple(fields)
        self._schema: pa.Schema | None = None

    def for_inputs(self, inputs: Mapping[str, pa.Schema]) -> Self:
        """Returns the bolt with the columns of its inputs; raises ConfigError if ``fields`` are not times, or inputs
        have different columns."""
        bound = copy(self)
        bound._schema = _one_schema(inputs)
        check_columns("ShiftTime", *(_wrong_times(bound._schema, name, self.time_shift) for name in self._fields))
        return bound

    def output_schemas(self) -> dict[str, pa.Schema]:
        return {} if self._schema is None else {DEFAULT_STREAM: self._schema}

    def execute(self, batch: pa.Table) -> EmittedRows:
        for name in self._fields:
            batch = _set_column(batch, name, _move_times(batch.column(name), self.time_shift))
        return batch


class AlterLifetime(BatchBolt):
    """Changes how long events last: sets or moves their ends, and can shift their starts (SI-25).

    ``end``: the column that ``with_lifetime`` names. Give either ``duration`` or ``extend``. With ``duration`` an event
    ends this long after the time in the column ``start``, whatever its end was; the column ``end`` is added if it is
    missing. With ``extend`` the time in the column ``end`` is moved by this much; an event without an end (null,
    9999-12-31) stays without one.

    The end of a lifetime is exclusive: an event exactly a ``duration`` after the start of another does not overlap it.
    With ``inclusive=True`` lifetimes of a ``duration`` end a microsecond later, so that these events overlap.

    ``shift`` moves the starts of events: the times that they got from an earlier windowed bolt, the column ``start`` if
    it is named, and the watermark. A ``duration`` then counts from the new start.

        AlterLifetime("until", start="ts", duration="10s")
    """

    @checked_value
    def __init__(
        self,
        end: str,
        *,
        start: str | None = None,
        duration: Time | None = None,
        extend: Time | None = None,
        shift: Time = "0s",
        inclusive: bool = False,
    ) -> None:
        if (duration is None) == (extend is None):
            raise ConfigError(
                "AlterLifetime with "
                + ("neither a duration nor" if duration is None else "both a duration and")
                + " extend",
                why="exactly one of them sets the end",
                do="give duration= (from the start), or extend= (from the present end)",
            )
        if duration is not None and start is None:
            raise ConfigError("AlterLifetime(duration=...) without start=", do="name the column in which events begin")
        self.time_shift = as_shift(shift).micros
        self._end, self._start = end, start
        self._duration = None if duration is None else as_duration(duration).micros
        if self._duration == 0:
            raise ConfigError("a lifetime of zero", why="an event must last longer than that", do="make it longer")
        if inclusive and self._duration is None:
            raise ConfigError(
                "AlterLifetime(inclusive=True) without duration=",
                why="it says whether the end of a lifetime of that duration is inclusive",
                do="give duration=, or leave inclusive out",
            )
        self._inclusive_micros = int(inclusive)
        """Microseconds by which a lifetime is longer than the duration: 1 if inclusive, else 0."""
        self._extend = None if extend is None else as_shift(extend).micros
        self._schema: pa.Schema | None = None

    def for_inputs(self, inputs: Mapping[str, pa.Schema]) -> Self:
        """Returns the bolt with the columns of its inputs and the column of ends; raises ConfigError if a column does
        not hold times, or inputs have different columns."""
        schema = _one_schema(inputs)
        starts = () if self._start is None else _wrong_times(schema, self._start, self.time_shift)
        check_columns("AlterLifetime", starts, self._wrong_ends(schema))
        if self._end not in schema.names:
            schema = schema.append(pa.field(self._end, TIMESTAMP))
        bound = copy(self)
        bound._schema = schema
        return bound

    def _wrong_ends(self, schema: pa.Schema) -> Iterator[ConfigError]:
        """Yields an error if ends cannot be stored in the column ``end``; with a duration it may be missing."""
        if self._extend is not None:
            yield from _wrong_times(schema, self._end, self._extend)
            return
        if self._end not in schema.names:
            return
        wrong = [*_wrong_times(schema, self._end, 0)]
        yield from wrong
        kind = schema.field(self._end).type
        if not wrong and self._inclusive_micros and _unit(kind) > 1:
            yield ConfigError(
                f"AlterLifetime(inclusive=True) with ends in {self._end!r}, which is {kind}",
                why="lives that hold their ends last a microsecond longer, and the column has a coarser unit",
                do="name another column, which is added, or use a timestamp in us",
            )

    def output_schemas(self) -> dict[str, pa.Schema]:
        return {} if self._schema is None else {DEFAULT_STREAM: self._schema}

    def execute(self, batch: pa.Table) -> EmittedRows:
        assert self._schema is not None
        if self._start is not None and self.time_shift:
            batch = _set_column(batch, self._start, _move_times(batch.column(self._start), self.time_shift))
        if self._extend is not None:
            ends = batch.column(self._end)
            return _set_column(batch, self._end, _move_times(ends, self._extend, where=_has_end(ends)))
        assert self._start is not None
        assert self._duration is not None
        times, wrong = from_column(batch.column(self._start))
        ends = pa.array(times + self._duration + self._inclusive_micros, mask=None if wrong is None else wrong != "")
        return _set_column(batch, self._end, _to_type(ends, self._schema.field(self._end).type))


def _one_schema(inputs: Mapping[str, pa.Schema]) -> pa.Schema:
    """Returns the columns of all inputs; raises ConfigError if inputs have different columns."""
    schemas = list(inputs.values())
    if any(not schema.equals(schemas[0]) for schema in schemas):
        raise ConfigError(
            f"its inputs {', '.join(map(repr, inputs))} have different columns",
            why="it passes rows on unchanged, so all must have the same columns",
            do="give each stream a bolt of its own",
        )
    return schemas[0]


def _wrong_times(schema: pa.Schema, name: str, by: int) -> Iterator[ConfigError]:
    """Yields an error if times in a column cannot be shifted by ``by`` microseconds."""
    if name not in schema.names:
        yield ConfigError(
            f"there is no column {name!r} to shift{did_you_mean_column(name, schema.names)}",
            why=f"the columns are {', '.join(schema.names)}",
            do="name one of these",
        )
        return
    kind = schema.field(name).type
    if not pa.types.is_timestamp(kind) and not pa.types.is_integer(kind):
        yield ConfigError(
            f"column {name!r} is {kind}",
            why="times are timestamps, or whole numbers of milliseconds",
            do="name another column",
        )
    elif by % _unit(kind):
        yield ConfigError(
            f"column {name!r} is shifted by {by} microseconds",
            why=f"{kind} has a coarser unit",
            do="use a timestamp in us",
        )


def _unit(kind: pa.DataType) -> int:
    """Returns the unit of a column of times in microseconds; 1 for finer units."""
    if pa.types.is_timestamp(kind):
        return {"s": 1_000_000, "ms": 1_000}.get(kind.unit, 1)
    return 1_000


def _has_end(ends: pa.ChunkedArray) -> pa.ChunkedArray:
    """Returns a mask of the events that have an end; 9999-12-31 stands for no end."""
    open_end = pa.scalar(OPEN_END, pa.timestamp("us")) if pa.types.is_timestamp(ends.type) else OPEN_END // 1_000
    kind = pa.timestamp("us") if pa.types.is_timestamp(ends.type) else pa.int64()
    return pc.less(ends.cast(kind, safe=False), open_end)


def _move_times(column: pa.ChunkedArray, by: int, where: pa.ChunkedArray | None = None) -> pa.ChunkedArray:
    """Returns a column of times, moved by a number of microseconds; ``where``: a mask of the times to move (None:
    all)."""
    kind = column.type
    units = by * 1_000 if pa.types.is_timestamp(kind) and kind.unit == "ns" else by // _unit(kind)
    numbers = column.cast(pa.int64())
    moved_numbers = pc.add_checked(numbers, units if where is None else pc.if_else(where, units, 0))
    return moved_numbers.cast(kind)


def _to_type(micros: pa.Array, kind: pa.DataType) -> pa.Array:
    """Returns times in microseconds as a column of another type; Arrow raises an error if a time would be rounded."""
    times = micros.cast(pa.timestamp("us"))
    if pa.types.is_timestamp(kind):
        return times.cast(pa.timestamp(kind.unit)).cast(kind)
    return times.cast(pa.timestamp("ms")).cast(pa.int64()).cast(kind)


def _set_column(table: pa.Table, name: str, column: pa.Array | pa.ChunkedArray) -> pa.Table:
    if name not in table.column_names:
        return table.append_column(name, column)
    return table.set_column(table.column_names.index(name), pa.field(name, column.type), column)
