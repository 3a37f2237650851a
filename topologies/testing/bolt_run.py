"""Runs one bolt in a test on some rows, or makes windows for calling a bolt."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from topologies.graph.builder import GraphBuilder
from topologies.graph.graph import ERRORS
from topologies.io import spouts
from topologies.testing.driver import LATE, FiredWindow, TopologyDriver
from topologies.testing.given_rows import GivenRows, Moment, as_table, columns_of, given_moment
from windowing.bolts.aggregate_bolt import AggregateBolt
from windowing.bolts.bolt import (
    BatchBolt,
    Bolt,
    Component,
    StatefulBolt,
    StatefulTaskBolt,
    TaskBolt,
    TaskContext,
    copy_bolt,
    own_initial_state,
)
from windowing.bolts.joins import Join
from windowing.bolts.passing import AlterLifetime
from windowing.bolts.read_code import rebind_to_copy
from windowing.bolts.windowed_bolt import WindowedBolt
from windowing.calls import checked_value
from windowing.columns import stable_order
from windowing.errors import ConfigError, SchemaError, did_you_mean
from windowing.schema import DEFAULT_STREAM, SchemaLike, parse_schema
from windowing.settings.panes import Pane
from windowing.settings.triggers import FiredBy
from windowing.timestamps import from_column, is_time, show
from windowing.window import Members, TupleWindow

if TYPE_CHECKING:
    from typing import TypeVar

    import pandas as pd
    from numpy.typing import NDArray


# Windows made by hand, for calling a bolt in a test.


if TYPE_CHECKING:
    AnyBolt = TypeVar("AnyBolt", bound=Component)


class HandmadeEvents:
    """Source of the events of a window made by hand."""

    def __init__(
        self, events: pa.Table, times: NDArray[np.int64], codes: NDArray[np.int8], stream_names: Sequence[str]
    ) -> None:
        self._events, self._times, self._codes, self.stream_names = events, times, codes, tuple(stream_names)

    def table(self, members: Members) -> pa.Table:
        """Returns the columns of these events."""
        return self._events.take(pa.array(members, pa.int64()))

    def timestamps(self, members: Members) -> NDArray[np.int64]:
        """Returns the times of these events in microseconds."""
        return self._times[np.asarray(members, np.int64)]

    def streams(self, members: Members) -> NDArray[np.int8]:
        """Returns the stream of each of these events, as an index of the names."""
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
    """Returns a window with these events, for ``bolt.execute(window)``.

    ``rows``: those of one input, called ``stream``; or a mapping for several inputs, ``{"orders": [...], "prices":
    [...]}``, each with its own ``schema`` if one is given. Without a schema the columns follow from the rows.

    ``timestamp_field``: the column with the times of the events, by which they are ordered (equal times stay in the
    given order); without it their time is the end of the window. ``end``: by default the time of the last event, or
    1970. ``new``: the indices, from 0, of the given rows that were not in the previous window; by default all.
    ``expired``: the rows that were only in the previous window; None if expired events are unknown. The other arguments
    are properties of the window.

    Raises ConfigError or SchemaError if rows, columns or times cannot be used.
    """
    for name, number in (("kind", kind), ("task", task)):
        if number is not None and number < 0:
            raise ConfigError(f"make_window({name}={number})", why="they are counted from 0", do="give 0 or more")
    inputs = inputs_of(rows, stream, schema)
    time_fields = () if timestamp_field is None else (timestamp_field,)
    tables = {
        name: as_table(f"input {name!r}", each, columns_of(name, inputs, each, schema, time_fields))
        for name, each in inputs.items()
    }
    events = concat_inputs(tables)
    codes = np.repeat(np.arange(len(tables)), [each.num_rows for each in tables.values()]).astype(np.int8)
    expired_table = None if expired is None else as_table("expired", expired, events.schema)
    all_events = events if expired_table is None else pa.concat_tables([events, expired_table])
    codes = np.concatenate([codes, np.zeros(all_events.num_rows - len(codes), np.int8)])
    count = events.num_rows
    given_times = None if timestamp_field is None else _times(timestamp_field, all_events, count)
    last_time = 0 if given_times is None or not count else int(given_times[:count].max())
    end_time = last_time if end is None else given_moment("end", end)
    times = np.full(all_events.num_rows, end_time) if given_times is None else given_times
    start_time = None if start is None else given_moment("start", start)
    if start_time is not None and start_time > end_time:
        raise ConfigError("the window's start is after its end", do="give a start before the end")
    order = stable_order(times[:count])
    new_index = np.empty(count, np.int64)
    new_index[order] = np.arange(count)
    new_order = np.concatenate([order, np.arange(count, all_events.num_rows)])
    return TupleWindow(
        HandmadeEvents(all_events.take(pa.array(new_order)), times[new_order], codes[new_order], list(tables)),
        range(count),
        np.sort(new_index[_new_rows(new, count)]),
        None if expired_table is None else range(count, all_events.num_rows),
        start_time,
        end_time,
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
    """Returns a copy of a bolt that is ready for calls: it knows its inputs' columns, has its initial state, and is
    prepared.

    ``schema``: the columns of its input, called ``"input"``, or of each input. Bolts that need the schema, such as
    AggregateBolt and AlterLifetime, raise ConfigError without it. ``name``: the bolt's name, passed to ``prepare``.
    """
    if schema is None and isinstance(bolt, AggregateBolt | AlterLifetime):
        raise ConfigError(
            f"prepared({type(bolt).__name__}) without a schema",
            why="the columns that it emits depend on the types of its input",
            do="declare the input: prepared(bolt, 'user string, amount double, ts timestamp')",
        )
    copied = copy_bolt(bolt)
    if schema is not None:
        inputs = schema if isinstance(schema, Mapping) else {"input": schema}
        copied = rebind_to_copy(
            copied.for_inputs({stream: parse_schema(each) for stream, each in inputs.items()}), copied
        )
    if isinstance(copied, StatefulTaskBolt):
        copied.state = own_initial_state(copied)
    copied.prepare(TaskContext(name, 0, 1))
    return copied


def inputs_of(rows: Any, stream: str, schema: object) -> Mapping[str, GivenRows]:
    """Returns the rows of each input. Raises ConfigError for rows in another form, and for a schema without an
    input."""
    inputs = _rows_by_input(rows, stream)
    if isinstance(schema, list | tuple):
        raise ConfigError(
            f"schema={schema!r:.60}",
            why="these are rows, and no columns",
            do="give the rows of several inputs in a mapping: {'orders': [...], 'prices': [...]}",
        )
    unknown = [name for name in schema if name not in inputs] if isinstance(schema, Mapping) else []
    if unknown:
        raise ConfigError(
            f"a schema for an input {unknown[0]!r}, which is not there",
            why=f"the inputs are {', '.join(inputs)}{did_you_mean(str(unknown[0]), inputs)}",
            do="correct the name",
        )
    return inputs


def concat_inputs(tables: Mapping[str, pa.Table]) -> pa.Table:
    """Returns the rows of all inputs, with the columns of all."""
    try:
        return pa.concat_tables(tables.values(), promote_options="default")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise SchemaError(
            f"the inputs {', '.join(tables)} have a column of different types",
            why=str(error),
            do="give it one type in all of them, or another name",
        ) from None


def _rows_by_input(rows: Any, stream: str) -> Mapping[str, GivenRows]:
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
    """Returns the times of all events; the first ``count`` must have one."""
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
    rows_without_time = [] if reasons is None else np.flatnonzero(reasons[:count] != "").tolist()
    if reasons is not None and rows_without_time:
        row = rows_without_time[0]
        raise ConfigError(
            f"row {row}: {reasons[row]}", why="an event without a time is in no window", do="give it a time"
        )
    return times


def _new_rows(new: Sequence[int] | None, count: int) -> NDArray[np.int64]:
    if new is None:
        return np.arange(count)
    indices = list(new)
    invalid = [index for index in indices if not isinstance(index, int | np.integer) or isinstance(index, bool)]
    if invalid or len(set(indices)) < len(indices):
        raise ConfigError(
            f"new={indices!r:.60}",
            why=f"{invalid[0]!r} is not the position of a row" if invalid else "a position is given twice",
            do="give the positions of the new rows, counted from 0: new=[2]",
        )
    new_rows = np.asarray(indices, np.int64)
    outside = [index for index in new_rows.tolist() if not 0 <= index < count]
    if outside:
        raise ConfigError(f"new names row {outside[0]}, and there are {count} rows", do="count rows from 0")
    return new_rows


# Runs one bolt in a test on some rows.


def bolt_name(inputs: Collection[str]) -> str:
    """Returns a name for the bolt that no input has."""
    name = "bolt"
    while name in inputs:
        name += "_"
    return name


@dataclass(frozen=True, repr=False)
class BoltRun:
    """Rows that a bolt emitted, and the windows in its calls."""

    rows: list[dict[str, Any]]
    """Rows that it emitted on its default stream."""
    streams: dict[str, list[dict[str, Any]]]
    """Rows that it emitted, by stream."""
    table: pa.Table
    """``rows`` as an Arrow table."""
    windows: list[FiredWindow] = field(default_factory=list)
    """The fired windows, in order, each with the rows that the bolt emitted for it; empty for a bolt without
    windows."""
    late: list[dict[str, Any]] = field(default_factory=list)
    """The late events, with ``_reason``, ``_watermark`` and further columns."""
    errors: list[dict[str, Any]] = field(default_factory=list)
    """Unusable events, with the reason in ``_reason``: events without a time, and events that the bolt refused."""
    accounts: dict[str, int] = field(default_factory=dict)
    """The accounts of its events: ``received`` is the sum of the others, except for ``adjusted`` and ``truncated``,
    which are separate counts."""
    counters: dict[str, int] = field(default_factory=dict)
    """Counters of the bolt's own code."""

    def __repr__(self) -> str:
        accounts = ", ".join(f"{number} {name}" for name, number in self.accounts.items() if number)
        return f"<BoltRun: {len(self.windows)} windows, {len(self.rows)} rows{f'; {accounts}' if accounts else ''}>"

    @checked_value
    def to_pandas(self) -> pd.DataFrame:
        """Returns the rows that it emitted on its default stream, as a DataFrame."""
        frame: pd.DataFrame = self.table.to_pandas()
        return frame


@checked_value
def run_bolt(
    bolt: Bolt | BatchBolt | StatefulBolt | WindowedBolt,
    rows: GivenRows | Mapping[str, GivenRows],
    schema: SchemaLike | Mapping[str, SchemaLike] | None = None,
    *,
    clock: Moment | Sequence[Moment] | None = None,
    rows_per_batch: int | None = None,
    keep_open: bool = False,
    stream: str = "input",
) -> BoltRun:
    """Runs a bolt on these rows, in memory, with the real engine. Returns its rows and the windows in its calls.

    ``rows``: those of one input, called ``stream``, or a mapping for several inputs, ``{"orders": [...], "prices":
    [...]}``. ``schema``: their columns, for each input if there are several. Without it the columns follow from the
    rows, and text in the bolt's time column is read as times.

    Time comes from the bolt's timestamp field. ``clock``: the time of the clock, or a list with a time for each row of
    a single input, whose rows then come one by one. Without it, the clock is the machine's (or freezegun's).

    All rows come in one micro-batch, so that none is late because of another, unless the bolt has watermarks at events
    (``with_watermark(every=1)``). With ``rows_per_batch=1`` the watermark moves after each row. Then the streams end,
    and open windows fire; with ``keep_open`` they stay open.

    Raises TopologyError if the bolt cannot run alone, SchemaError and ConfigError for unusable rows, columns or times,
    BoltError if the bolt raises.
    """
    if isinstance(bolt, type):
        raise ConfigError(
            f"run_bolt({bolt.__name__})", why="that is a class", do=f"give an instance: {bolt.__name__}()"
        )
    if not isinstance(bolt, Bolt | BatchBolt | TaskBolt):
        raise ConfigError(
            f"run_bolt({bolt!r:.60})",
            why="that is not a bolt",
            do="give a Bolt, BatchBolt, StatefulBolt or WindowedBolt",
        )
    if rows_per_batch is not None and (type(rows_per_batch) is not int or rows_per_batch < 1):
        raise ConfigError(f"rows_per_batch={rows_per_batch!r}", do="give a whole number above 0, or leave it out")
    inputs = inputs_of(rows, stream, schema)
    _check_inputs(bolt, inputs)
    time_fields = _time_fields(bolt)
    tables: dict[str, pa.Table] = {}
    for name, each in inputs.items():
        listed = each if _is_table(each) else _as_list(each)
        tables[name] = as_table(f"input {name!r}", listed, columns_of(name, inputs, listed, schema, time_fields))
    driver = _driver(bolt, tables)
    for batch, moment in _batches(tables, clock, rows_per_batch):
        driver.push_together(batch, clock=moment)
    if not keep_open:
        driver.close()
    return _result(driver, bolt)


def _check_inputs(bolt: Bolt | BatchBolt | StatefulBolt | WindowedBolt, inputs: Mapping[str, object]) -> None:
    """Raises ConfigError if a join gets rows of other inputs than the two that it names."""
    if isinstance(bolt, Join) and set(inputs) != {bolt.left, bolt.right}:
        others = f"inputs {', '.join(map(repr, inputs))}" if len(inputs) > 1 else f"one input, {next(iter(inputs))!r}"
        raise ConfigError(
            f"run_bolt with {others}",
            why=f"this {type(bolt).__name__} joins {bolt.left!r} and {bolt.right!r}",
            do=f"give the rows of both: run_bolt(bolt, {{{bolt.left!r}: [...], {bolt.right!r}: [...]}})",
        )


def _driver(bolt: Bolt | BatchBolt | StatefulBolt | WindowedBolt, tables: Mapping[str, pa.Table]) -> TopologyDriver:
    builder = GraphBuilder("test")
    declarer = builder.set_bolt(bolt_name(tables), bolt)
    for name, table in tables.items():
        builder.set_spout(name, spouts.memory(table.schema))
        declarer.global_grouping(name)
    return TopologyDriver(builder.build())


def _batches(
    tables: Mapping[str, pa.Table], clock: Moment | Sequence[Moment] | None, size: int | None
) -> list[tuple[dict[str, pa.Table], Moment | None]]:
    rows = max((table.num_rows for table in tables.values()), default=0)
    if isinstance(clock, Sequence) and not isinstance(clock, str):
        _check_clocks(clock, tables, rows, size)
        return [({name: table.slice(at, 1) for name, table in tables.items()}, clock[at]) for at in range(rows)]
    batch_size = size or max(rows, 1)
    return [
        ({name: table.slice(at, batch_size) for name, table in tables.items()}, clock)
        for at in range(0, rows, batch_size)
    ]


def _check_clocks(clock: Sequence[Moment], tables: Mapping[str, pa.Table], rows: int, size: int | None) -> None:
    if len(tables) > 1 or len(clock) != rows or size is not None:
        raise ConfigError(
            f"clock is a list of {len(clock)} times, and there are {rows} rows of {len(tables)} inputs",
            why="each row of the input arrives at its own time, in its own micro-batch",
            do="give a time for each row, without rows_per_batch; for several inputs use TopologyDriver",
        )
    moments = [given_moment("clock", each) for each in clock]
    for at, (before, after) in enumerate(pairwise(moments), 1):
        if after < before:
            raise ConfigError(
                f"clock[{at}]: the clock goes back, from {show(before)} to {show(after)}",
                why="time only moves forward",
                do="give the rows in the order in which they arrive",
            )


def _result(driver: TopologyDriver, bolt: Bolt | BatchBolt | StatefulBolt | WindowedBolt) -> BoltRun:
    parts = driver.topology
    node = next(iter(parts.windowed.values()), None) or next(iter(parts.plain.values()))
    errors = driver.read(f"{node.name}.{ERRORS}")
    streams = {
        name: driver.read(node.name if name == DEFAULT_STREAM else f"{node.name}.{name}")
        for name in node.outputs
        if name != ERRORS
    }
    table = driver.table(node.name) if DEFAULT_STREAM in node.outputs else pa.table({})
    rows = streams.get(DEFAULT_STREAM, [])
    if not isinstance(bolt, TaskBolt):
        return BoltRun(rows, streams, table, errors=errors)
    late = streams.get(parts.windowed[node.name].bolt.settings.late_stream or "", [])
    if bolt.settings.late_stream is None:
        streams.pop(parts.windowed[node.name].bolt.settings.late_stream or LATE, None)
    return BoltRun(
        rows,
        streams,
        table,
        windows=driver.windows(node.name),
        late=late,
        errors=errors,
        accounts=driver.accounts(node.name),
        counters=driver.counters(node.name),
    )


def _time_fields(bolt: Bolt | BatchBolt | StatefulBolt | WindowedBolt) -> set[str]:
    """Returns the columns from which the bolt takes times."""
    if not isinstance(bolt, TaskBolt):
        return set()
    settings = bolt.settings
    named = {
        settings.timestamp_field,
        settings.watermark_field,
        settings.lifetime.end_field if settings.lifetime else None,
        settings.arrival.field if settings.arrival else None,
    }
    return {name for name in named if name is not None}


def _is_table(rows: Any) -> bool:
    return isinstance(rows, pa.Table | pa.RecordBatch) or hasattr(rows, "iloc")


def _as_list(rows: Any) -> Any:
    """Returns rows in a form that can be read twice: first for their columns, then for their values."""
    return list(rows) if hasattr(rows, "__next__") else rows
