"""Windows made by hand, to call a bolt with in a test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from topologies.testing.given_rows import GivenRows, Moment, as_table, columns_of, given_moment
from windowing.bolts.component import Component, TaskContext
from windowing.bolts.ready.aggregate_bolt import AggregateBolt
from windowing.bolts.ready.shifts import AlterLifetime
from windowing.bolts.windowed_bolt import StatefulWindowedBolt
from windowing.calls.checked import checked_value
from windowing.data.order import stable_order
from windowing.data.schema import SchemaLike, parse_schema
from windowing.errors import ConfigError, SchemaError
from windowing.settings.panes import Pane
from windowing.settings.triggers import FiredBy
from windowing.suggestions import did_you_mean
from windowing.time.timestamps import from_column, is_time
from windowing.window import Members, TupleWindow

if TYPE_CHECKING:
    from typing import TypeVar

    from numpy.typing import NDArray

    AnyBolt = TypeVar("AnyBolt", bound=Component)


class Handmade:
    """Where a window made by hand finds its events."""

    def __init__(
        self, events: pa.Table, times: NDArray[np.int64], codes: NDArray[np.int8], stream_names: Sequence[str]
    ) -> None:
        self._events, self._times, self._codes, self.stream_names = events, times, codes, tuple(stream_names)

    def table(self, members: Members) -> pa.Table:
        """The columns of these events."""
        return self._events.take(pa.array(members, pa.int64()))

    def timestamps(self, members: Members) -> NDArray[np.int64]:
        """The times of these events in microseconds."""
        return self._times[np.asarray(members, np.int64)]

    def streams(self, members: Members) -> NDArray[np.int8]:
        """The stream of each of these events, by its place among the names."""
        return self._codes[np.asarray(members, np.int64)]


@checked_value
def make_window(
    rows: GivenRows | Mapping[str, GivenRows],
    schema: SchemaLike | Mapping[str, SchemaLike] | None = None,
    *,
    start: Moment | None = None,
    end: Moment | None = None,
    timestamp_field: str | None = None,
    new: Sequence[int] | None = None,
    expired: GivenRows | None = (),
    key: Any = None,
    kind: int | None = None,
    pane: Pane | None = None,
    fired_by: FiredBy | None = None,
    task: int = 0,
    stream: str = "input",
) -> TupleWindow:
    """A window with these events, to call ``bolt.execute(window)`` with.

    ``rows`` are those of one input, called ``stream``; or a mapping with those of several, ``{"orders": [...],
    "prices": [...]}``, each with its own ``schema`` where that is given. Without a schema the rows say their columns.

    ``timestamp_field``: the column with the times of the events, by which they are put in order, those of equal time as
    they are given; without it their time is the end of the window. ``end``: by default the time of the last of them,
    or 1970. ``new``: the places of the rows that were not in the window before, from 0, as they are given (all of
    them); ``expired``: the rows that were only in that one, None where the window is not to know. The rest is what the
    window is to say of itself.

    ConfigError or SchemaError where rows, columns or times cannot be.
    """
    for name, number in (("kind", kind), ("task", task)):
        if number is not None and number < 0:
            raise ConfigError(f"make_window({name}={number})", why="they are counted from 0", do="give 0 or more")
    inputs = inputs_of(rows, stream, schema)
    times_of = () if timestamp_field is None else (timestamp_field,)
    tables = {
        name: as_table(f"input {name!r}", each, columns_of(name, inputs, each, schema, times_of))
        for name, each in inputs.items()
    }
    events = _together(tables)
    codes = np.repeat(np.arange(len(tables)), [each.num_rows for each in tables.values()]).astype(np.int8)
    left = None if expired is None else as_table("expired", expired, events.schema)
    both = events if left is None else pa.concat_tables([events, left])
    codes = np.concatenate([codes, np.zeros(both.num_rows - len(codes), np.int8)])
    count = events.num_rows
    given = None if timestamp_field is None else _times(timestamp_field, both, count)
    last = 0 if given is None or not count else int(given[:count].max())
    ends = last if end is None else given_moment("end", end)
    times = np.full(both.num_rows, ends) if given is None else given
    begins = None if start is None else given_moment("start", start)
    if begins is not None and begins > ends:
        raise ConfigError("the window's start is after its end", do="give a start before the end")
    order = stable_order(times[:count])
    place = np.empty(count, np.int64)
    place[order] = np.arange(count)
    arranged = np.concatenate([order, np.arange(count, both.num_rows)])
    return TupleWindow(
        Handmade(both.take(pa.array(arranged)), times[arranged], codes[arranged], list(tables)),
        range(count),
        np.sort(place[_places(new, count)]),
        None if left is None else range(count, both.num_rows),
        begins,
        ends,
        task,
        key=key,
        kind=kind,
        fired_by=fired_by,
        pane=pane,
    )


@checked_value
def prepared(
    bolt: AnyBolt, schema: SchemaLike | Mapping[str, SchemaLike] | None = None, *, name: str = "bolt"
) -> AnyBolt:
    """A copy of a bolt, ready to be called: it knows its inputs' columns, has its first state, and is prepared.

    ``schema``: the columns of its input, called ``"input"``, or of each of its inputs, for bolts that need to know, as
    an AggregateBolt and an AlterLifetime do: ConfigError without it. ``name``: the bolt's name, passed to
    ``prepare``.
    """
    if schema is None and isinstance(bolt, AggregateBolt | AlterLifetime):
        raise ConfigError(
            f"prepared({type(bolt).__name__}) without a schema",
            why="the columns that it emits depend on the types of its input",
            do="declare the input: prepared(bolt, 'user string, amount double, ts timestamp')",
        )
    ready = deepcopy(bolt)
    if schema is not None:
        inputs = schema if isinstance(schema, Mapping) else {"input": schema}
        ready = ready.for_inputs({stream: parse_schema(each) for stream, each in inputs.items()})
    if isinstance(ready, StatefulWindowedBolt):
        ready.state = ready.initial_state()
    ready.prepare(TaskContext(name, 0, 1))
    return ready


def inputs_of(rows: Any, stream: str, schema: object) -> Mapping[str, GivenRows]:
    """The rows of each input; ConfigError where that is not what is given, or a schema is that of no input."""
    inputs = _named(rows, stream)
    if isinstance(schema, list | tuple):
        raise ConfigError(
            f"schema={schema!r:.60}",
            why="these are rows, and no columns",
            do="give the rows of several inputs in a mapping: {'orders': [...], 'prices': [...]}",
        )
    strange = [name for name in schema if name not in inputs] if isinstance(schema, Mapping) else []
    if strange:
        raise ConfigError(
            f"a schema for an input {strange[0]!r}, which is not there",
            why=f"the inputs are {', '.join(inputs)}{did_you_mean(str(strange[0]), inputs)}",
            do="correct the name",
        )
    return inputs


def _together(tables: Mapping[str, pa.Table]) -> pa.Table:
    """The rows of all inputs, with the columns of all."""
    try:
        return pa.concat_tables(tables.values(), promote_options="default")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise SchemaError(
            f"the inputs {', '.join(tables)} have a column of different types",
            why=str(error),
            do="give it one type in all of them, or another name",
        ) from None


def _named(rows: Any, stream: str) -> Mapping[str, GivenRows]:
    if not isinstance(rows, Mapping):
        return {stream: rows}
    for name, each in rows.items():
        if isinstance(each, str | int | float | bool | datetime) or each is None:
            raise ConfigError(
                f"rows={dict(rows)!r:.60}: {each!r:.60} are not rows of an input {name!r}",
                why="a mapping gives the rows of several inputs by their names",
                do="put a single row into a list: [{...}]",
            )
    if not rows:
        raise ConfigError("an empty mapping of inputs", do="give the rows of each input by its name, or a list of rows")
    return rows


def _times(field: str, events: pa.Table, count: int) -> NDArray[np.int64]:
    """The times of all events; the first ``count`` must have one."""
    if field not in events.column_names:
        raise ConfigError(
            f"timestamp_field={field!r} is not a column",
            why=f"the columns are {', '.join(events.column_names)}",
            do="name one of them, or leave it out",
        )
    column = events.column(field)
    if not is_time(column.type):
        raise ConfigError(
            f"timestamp_field={field!r} is {column.type}",
            why="times are timestamps, dates, or whole numbers of milliseconds",
            do="name another column, or leave it out",
        )
    times, reasons = from_column(column)
    without = [] if reasons is None else np.flatnonzero(reasons[:count] != "").tolist()
    if reasons is not None and without:
        row = without[0]
        raise ConfigError(
            f"row {row}: {reasons[row]}", why="an event without a time is in no window", do="give it a time"
        )
    return times


def _places(new: Sequence[int] | None, count: int) -> NDArray[np.int64]:
    if new is None:
        return np.arange(count)
    given = list(new)
    strange = [place for place in given if not isinstance(place, int | np.integer) or isinstance(place, bool)]
    if strange or len(set(given)) < len(given):
        raise ConfigError(
            f"new={given!r:.60}",
            why=f"{strange[0]!r} is not the position of a row" if strange else "a position is given twice",
            do="give the positions of the new rows, counted from 0: new=[2]",
        )
    places = np.asarray(given, np.int64)
    outside = [place for place in places.tolist() if not 0 <= place < count]
    if outside:
        raise ConfigError(f"new names row {outside[0]}, and there are {count} rows", do="count rows from 0")
    return places
