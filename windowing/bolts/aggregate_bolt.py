"""Ready bolts for the common cases: aggregates of windows by key, and the rows of windows in order of a column."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

import numpy as np
import pyarrow as pa

from windowing.aggregates.accumulators import Accumulator, EventColumns, State, can_be_ranked, has_order, order_numbers
from windowing.aggregates.declared import Aggregate, RowWindows, with_nulls
from windowing.aggregates.groups import Groups, Keys, can_be_compared
from windowing.bolts.windowed_bolt import BatchWindowedBolt, NumberedRows
from windowing.calls import checked_value
from windowing.columns import stable_order
from windowing.conversion import REFUSED, convert_values
from windowing.durations import Duration, Time, as_duration
from windowing.errors import ConfigError, combine_errors, did_you_mean_column
from windowing.reprs import one_line
from windowing.schema import DEFAULT_STREAM, TIMESTAMP, value_type
from windowing.settings.panes import RETRACT
from windowing.window import WindowBatch, in_one_piece

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class BoundAggregates:
    """The aggregates of an AggregateBolt with the types of their columns, for code that folds events and makes result
    rows."""

    by: tuple[str, ...]
    """The columns of the key."""
    aggregates: tuple[tuple[str, Aggregate], ...]
    schema: pa.Schema
    """The columns of the result."""
    fill: Mapping[str, pa.Scalar] = field(default_factory=dict)
    """The values of aggregates for windows without events, by column, if they differ from ``value_when_empty``."""

    @cached_property
    def accumulators(self) -> tuple[Accumulator, ...]:
        """The accumulators of all aggregates, each once."""
        return tuple(dict.fromkeys(each for _, aggregate in self.aggregates for each in aggregate.accumulators))

    def result(self, keys: Sequence[pa.Array], states: Sequence[State], windows: RowWindows) -> pa.Table:
        """Returns the result rows, from the key columns and from the state of each accumulator."""
        state_index = {each: at for at, each in enumerate(self.accumulators)}
        columns = [
            aggregate.finish([states[state_index[each]] for each in aggregate.accumulators], windows)
            for _, aggregate in self.aggregates
        ]
        return self._table([*keys, *columns])

    def empty_rows(self, keys: Sequence[pa.Array], windows: RowWindows) -> pa.Table:
        """Returns the result rows of windows without events, from the key columns."""
        columns = [self._empty_column(name, aggregate, windows) for name, aggregate in self.aggregates]
        return self._table([*keys, *columns])

    def _empty_column(self, name: str, aggregate: Aggregate, windows: RowWindows) -> pa.Array:
        if name in self.fill:
            return pa.repeat(self.fill[name], len(windows.events))
        if not aggregate.accumulators:  # it depends on the window alone
            return aggregate.finish((), windows)
        return pa.array([aggregate.value_when_empty] * len(windows.events), aggregate.result)

    def _table(self, columns: Sequence[pa.Array]) -> pa.Table:
        """Returns the columns as a table of the result schema; casts those of another type."""
        return pa.Table.from_arrays(
            [column if column.type == declared.type else column.cast(declared.type)
             for column, declared in zip(columns, self.schema, strict=True)],
            schema=self.schema,
        )  # fmt: skip


# The rows of an AggregateBolt for windows without events.


def rows_of_empty_windows(
    aggregates: BoundAggregates, key: tuple[str, ...], windows: WindowBatch
) -> NumberedRows | None:
    """Returns the rows of the windows without events in a batch; None if each window has events. ``key``: the columns
    of the windows' keys."""
    index = np.flatnonzero(np.diff(windows.offsets) == 0)
    if not len(index):
        return None
    keys = [windows[window].key for window in index.tolist()]
    values = {name: [each[at] if len(key) > 1 else each for each in keys] for at, name in enumerate(key)}
    columns = [pa.array(values[name], aggregates.schema.field(name).type) for name in aggregates.by]
    row_windows = RowWindows(np.zeros(len(index), np.int64), windows.window_starts[index], windows.window_ends[index])
    return aggregates.empty_rows(columns, row_windows), index


def merge_rows(first: NumberedRows | None, second: NumberedRows | None) -> NumberedRows | None:
    """Merge two sets of rows in order of their windows; None stands for no rows."""
    if first is None or second is None:
        return second if first is None else first
    index = np.concatenate([first[1], second[1]])
    order = stable_order(index)
    return pa.concat_tables([first[0], second[0]]).take(pa.array(order)), index[order]


def fill_values(fill: Mapping[str, Any], bound: Iterable[tuple[str, Aggregate]]) -> dict[str, pa.Scalar]:
    """Returns the values of ``with_empty_windows(fill=...)`` in the types of the aggregates; raises ConfigError for a
    value of another type."""
    values = {}
    for name, aggregate in bound:
        if name in fill:
            try:
                values[name] = convert_values([fill[name]], aggregate.result)[0]
            except REFUSED as error:
                raise ConfigError(
                    f"with_empty_windows(fill={{{name!r}: {fill[name]!r:.60}}})",
                    why=f"{name}={aggregate} is {aggregate.result}: {error}",
                    do="give a value of that type, or leave it out",
                ) from None
    return values


# Aggregates of windows by key.


class AggregateBolt(BatchWindowedBolt):
    """One row for each window and each key in it: ``AggregateBolt(by=["user"], n=count(), revenue=sum("amount"))``.

    ``by``: the columns of the key; by default those of ``with_key``. Without a key, or with ``by=()``, a window gives
    one row. All other arguments are aggregates of ``windowing.aggregates``, each named like its column in the result.
    Rows have the columns of the key, then those of the aggregates. The rows of a window are in order of the key, null
    last. Windows are configured as those of any bolt. With several tasks, group the input by fields among ``by``.

    Aligned windows of time are made of slices. Each event is added to the partial aggregate of its slice as it is read,
    and only partial aggregates are kept, so the state does not grow with the number of events. Sessions are made of
    partial aggregates too, of events that are sure to share a session. ``window.new`` and ``window.expired`` are not
    available, because single events are not kept.

    Raises ConfigError without aggregates, or if a column is named twice; mistakes that depend on the input are reported
    when the topology is built.
    """

    @checked_value
    def __init__(self, by: str | Iterable[str] | None = None, **aggregates: Aggregate) -> None:
        columns: Iterable[Any] = by if isinstance(by, Iterable) and not isinstance(by, str) else (by,)
        self._by = None if by is None else tuple(columns)
        self.aggregates = dict(aggregates)
        self.bound_aggregates: BoundAggregates | None = None
        """The aggregates with their types; known once the topology is built."""
        self.fill: Mapping[str, Any] = {}
        """The values of ``with_empty_windows(fill=...)``, by column."""
        problems = [*self._argument_errors(by)]
        if problems:
            raise combine_errors("AggregateBolt()", problems)
        self._check_names()

    def _repr_of_call(self) -> str:
        named = ", ".join(f"{name}={aggregate}" for name, aggregate in self.aggregates.items())
        return one_line(f"{type(self).__name__}({f'by={list(self.by)}, ' if self.by else ''}{named})", 100)

    @property
    def by(self) -> tuple[str, ...]:
        """The columns of the key of the result rows."""
        return self.settings.key if self._by is None else self._by

    def _argument_errors(self, by: object) -> Iterator[ConfigError]:
        """Yields an error for each invalid argument."""
        if not all(isinstance(name, str) and name for name in self.by):
            yield ConfigError(f"AggregateBolt(by={by!r:.60})", why="a key is made of columns", do="give their names")
        for name, aggregate in self.aggregates.items():
            if not isinstance(aggregate, Aggregate):
                yield ConfigError(
                    f"AggregateBolt({name}={aggregate!r:.60})",
                    why="that is not an aggregate",
                    do=f"use windbolt.aggregates, such as {name}=count()",
                )
        if not self.aggregates:
            yield ConfigError(
                "AggregateBolt without aggregates",
                why="it would emit keys only",
                do="name at least one output column and its aggregate, such as n=count()",
            )

    def _check_names(self) -> None:
        """Raise ConfigError if two columns of the result have one name."""
        repeated = [name for at, name in enumerate(self.by) if name in self.by[:at] or name in self.aggregates]
        if repeated:
            raise ConfigError(
                f"AggregateBolt with two columns {' and two '.join(map(repr, dict.fromkeys(repeated)))}",
                why="a column is known by its name",
                do="rename one",
            )

    @checked_value
    def with_empty_windows(
        self,
        *,
        until: Time,
        fill: Mapping[str, Any] | None = None,
        keys: Iterable[Any] | None = None,
        since: datetime | str | None = None,
    ) -> Self:
        """Emit a row for windows without events too; the key of windows (``with_key``) must have the columns of
        ``by``.

        In such a row counts are 0 and other aggregates null. ``fill``: other values, by the column of the aggregate,
        ``{"mean": 0.0}``. For the other arguments, and for which windows fire, see ``WindowedBolt.with_empty_windows``.

        Raises ConfigError if ``fill`` names no aggregate of the bolt.
        """
        unknown = [name for name in fill or {} if name not in self.aggregates]
        if unknown:
            raise ConfigError(
                f"with_empty_windows(fill={{{', '.join(f'{name!r}: ...' for name in unknown)}}})",
                why=f"the aggregates are {', '.join(self.aggregates)}",
                do="name some of these",
            )
        configured = super().with_empty_windows(until=until, keys=keys, since=since)
        configured.fill = dict(fill or {})
        return configured

    def _column_errors(self, schema: pa.Schema) -> Iterator[ConfigError]:
        """Yields an error for each column that does not exist, or has a type that does not fit."""
        for name in self.by:
            if name not in schema.names:
                yield ConfigError(
                    f"AggregateBolt by {name!r}, and there is no such column" + did_you_mean_column(name, schema.names),
                    why=f"the bolt reads {', '.join(schema.names)}",
                    do="name columns that it reads",
                )
            elif not has_order(value_type(schema.field(name).type)):
                yield ConfigError(
                    f"AggregateBolt by {name!r}, which is {value_type(schema.field(name).type)}",
                    why="keys are values that can be put in order",
                    do="cast it, or take a part of it as a column, in a bolt before",
                )
        for name, aggregate in self.aggregates.items():
            try:
                aggregate.with_types(name, schema)
            except ConfigError as error:
                yield error

    def for_inputs(self, inputs: Mapping[str, pa.Schema]) -> Self:
        """Returns the bolt with the types of its columns; raises ConfigError if a column does not fit."""
        self._check_names()
        schema = unified_schema(inputs)
        if schema is None:
            return self
        problems = list(self._column_errors(schema))
        if problems:
            raise combine_errors("AggregateBolt", problems)
        keys = [pa.field(name, value_type(schema.field(name).type)) for name in self.by]
        bound = tuple((name, aggregate.with_types(name, schema)) for name, aggregate in self.aggregates.items())
        columns = [pa.field(name, aggregate.result) for name, aggregate in bound]
        configured = copy(self)
        configured.bound_aggregates = BoundAggregates(
            self.by, bound, pa.schema([*keys, *columns]), fill_values(self.fill, bound)
        )
        return configured

    @property
    def groups_by(self) -> tuple[str, ...]:
        return self.by

    @property
    def takes_retractions(self) -> bool:
        """True if ``_retract`` is in the key, or a subclass makes the rows."""
        return RETRACT in self.by or not self.rows_are_declared

    @property
    def columns_read(self) -> frozenset[str]:
        """The columns of its key, and those of its aggregates; known once the topology is built."""
        aggregates = () if self.bound_aggregates is None else self.bound_aggregates.aggregates
        return frozenset((*self.by, *(field for _, aggregate in aggregates for field in aggregate.fields)))

    @property
    def rows_are_declared(self) -> bool:
        """True if the rows are those of the aggregates: neither a subclass nor a test replaces ``execute`` or
        ``execute_all``."""
        is_inherited = getattr(self.execute_all, "__func__", None) is AggregateBolt.execute_all
        return is_inherited and type(self).execute is AggregateBolt.execute

    def output_schemas(self) -> dict[str, pa.Schema]:
        """Returns the columns of the key and of the aggregates; nothing before the topology is built."""
        return {} if self.bound_aggregates is None else {DEFAULT_STREAM: self.bound_aggregates.schema}

    def execute_all(self, windows: WindowBatch) -> NumberedRows | None:
        """Called with many windows; aggregates the events of all of them in one pass."""
        rows = self._rows_of_events(windows)
        if self.settings.empty_windows_until is None:
            return rows
        assert self.bound_aggregates is not None
        return merge_rows(rows, rows_of_empty_windows(self.bound_aggregates, self.settings.key, windows))

    def _rows_of_events(self, windows: WindowBatch) -> NumberedRows | None:
        bound = self.bound_aggregates
        if bound is None:
            raise ConfigError(
                "an AggregateBolt outside a topology",
                why="the columns that it reads are not known",
                do="in a test, give it those: windbolt.testing.prepared(bolt, 'user string, amount double')",
            )
        if not len(windows.index):
            return None
        table = windows.table
        columns = {name: in_one_piece(column) for name, column in zip(table.column_names, table.columns, strict=True)}
        keys = Keys.of([pa.array(windows.index), *map(columns.__getitem__, self.by)], len(windows.index), ordered=True)
        groups = Groups(keys.codes, keys.size)
        events = EventColumns(columns, windows.timestamps)
        states = [each.fold(events, groups) for each in bound.accumulators]
        window_numbers, *key_columns = keys.columns(groups.present_codes)
        index = window_numbers.to_numpy()
        return bound.result(key_columns, states, _row_windows(windows, index, groups.counts)), index


def _row_windows(windows: WindowBatch, index: NDArray[np.int64], counts: NDArray[np.int64]) -> RowWindows:
    has_start = np.array([window.start_timestamp is not None for window in windows], np.bool_)
    starts, ends = windows.window_starts[index], windows.window_ends[index]
    return RowWindows(counts, starts, ends, None if has_start.all() else has_start[index])


# The rows of a window in order of a column.


Method = Literal["row_number", "rank", "dense_rank"]


class Rank(BatchWindowedBolt):
    """Each row of a window, and its rank by a column: from 1, the greatest value first.

        Rank("price", by="item").with_tumbling_window("1h").with_timestamp_field("ts")

    ``order_by``: the column; its values are numbers, times, texts or others that have an order. ``descending=False``
    ranks the least value first. Null comes last either way, and NaN is greater than all numbers. ``by``: the columns of
    a key; rows are ranked among the rows of their key, or without ``by`` among all rows of the window.

    ``method`` decides the ranks of rows with equal values, as in SQL. With ``row_number`` each row has a different
    rank, in order of time, then of arrival. With ``rank`` they share a rank, and the following ranks are skipped: 1, 1,
    3. With ``dense_rank`` they share a rank, and no rank is skipped: 1, 1, 2.

    A row has the columns of the input and then the rank, a long in a column with the name ``column``. ``start`` and
    ``end`` name columns for the start and the end of the window. Rows keep the order of the window, by time and then by
    arrival. With several tasks, group the input by fields among ``by``. The events of a window are kept until it has
    passed; for long windows that overlap, ``top`` of an ``AggregateBolt`` keeps less.

    Raises ConfigError for an unknown ``method`` or column, and for a new column with the name of another column.
    """

    rows_are_of_events = True
    takes_retractions = False

    @checked_value
    def __init__(
        self,
        order_by: str,
        *,
        by: str | Iterable[str] | None = (),
        method: Method = "row_number",
        descending: bool = True,
        column: str = "rank",
        start: str | None = None,
        end: str | None = None,
    ) -> None:
        name = type(self).__name__
        self.order_by = read_name(name, "order_by", order_by)
        self.by = read_columns(name, "by", by)
        if method not in get_args(Method):
            raise ConfigError(
                f"{name}(method={method!r:.60})",
                why=f"that is none of {', '.join(get_args(Method))}",
                do="use 'row_number', which gives each row a number of its own",
            )
        if not isinstance(descending, bool):
            raise ConfigError(f"{name}(descending={descending!r:.60})", do="give True or False")
        self.method, self.descending = method, descending
        self.column = read_name(name, "column", column)
        edges = {"start": start, "end": end}
        self._edge_columns = {
            edge: read_name(name, edge, edge_column) for edge, edge_column in edges.items() if edge_column is not None
        }
        self._schema: pa.Schema | None = None

    @property
    def groups_by(self) -> tuple[str, ...]:
        return self.by

    def for_inputs(self, inputs: Mapping[str, pa.Schema]) -> Self:
        """Returns the bolt with the types of its columns; raises ConfigError if a column does not fit."""
        bolt, schema = type(self).__name__, unified_schema(inputs)
        if schema is None:
            return self
        added = [(self.column, pa.int64()), *((name, TIMESTAMP) for name in self._edge_columns.values())]
        check_columns(
            bolt,
            column_errors(bolt, "by", self.by, schema),
            column_errors(bolt, "order_by", (self.order_by,), schema, can_be_ranked),
            name_clashes(bolt, [name for name, _ in added], schema),
        )
        bound = copy(self)
        bound._schema = pa.schema([*schema, *(pa.field(name, kind) for name, kind in added)])
        return bound

    def output_schemas(self) -> dict[str, pa.Schema]:
        return {} if self._schema is None else {DEFAULT_STREAM: self._schema}

    def execute_all(self, windows: WindowBatch) -> tuple[pa.Table, NDArray[np.int64]] | None:
        """Called with many windows; ranks the rows of all of them in one pass."""
        if not len(windows.index):
            return None
        order, groups, values = self._sorted_rows(windows)
        row_ranks = np.empty(len(order), np.int64)
        row_ranks[order] = _ranks(self.method, groups[order], values[order])
        emitted = self._emitted_rows(order, row_ranks)
        table = windows.table.take(pa.array(emitted)).append_column(self.column, pa.array(row_ranks[emitted]))
        index = windows.index[emitted]
        for edge, name in self._edge_columns.items():
            is_unknown = np.array([getattr(window, edge) is None for window in windows])
            edge_times = windows.window_starts if edge == "start" else windows.window_ends
            times = with_nulls(edge_times[index], is_unknown[index], TIMESTAMP)
            table = table.append_column(name, times)
        return table, index

    def _sorted_rows(self, windows: WindowBatch) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Returns the indices of the rows group by group, the best row of each group first; and for each row the number
        of its group, and a number that is equal for equal values."""
        table = windows.table
        keys = [pa.array(windows.index), *(in_one_piece(table.column(name)) for name in self.by)]
        groups = Keys.of(keys, table.num_rows, ordered=True).codes
        values, is_known = order_numbers(in_one_piece(table.column(self.order_by)))
        if self.descending:
            values = ~values
        is_null = np.zeros(len(values), np.bool_) if is_known is None else ~is_known
        values = np.where(is_null, 0, values)
        order = np.lexsort((values, is_null, groups))
        value_numbers = np.zeros(len(order), np.int64)
        equals_previous = (values[order][1:] == values[order][:-1]) & (is_null[order][1:] == is_null[order][:-1])
        value_numbers[order[1:]] = np.cumsum(~equals_previous)
        return order, groups, value_numbers

    def _emitted_rows(self, order: NDArray[np.int64], row_ranks: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the indices of the rows to emit, in the order of the output."""
        return np.arange(len(order))


class TopN(Rank):
    """The best rows of each window: those with the ``n`` greatest values of a column, and the rank of each.

        TopN(3, "price", by="item").with_tumbling_window("1h").with_timestamp_field("ts")

    ``by``: the columns of a key; the ``n`` best rows of each key are emitted. Among rows with equal values the first by
    time, then by arrival, is better, so there are never more than ``n`` rows. ``method="rank"`` also emits all rows
    whose value equals that of the last one, and ``method="dense_rank"`` all rows with one of the ``n`` best values.
    ``descending=False`` takes the least values as the best. A null is worse than every value. All else is as for
    ``Rank``, but the rows of a window are in order of (key, rank), a null key last.

    Raises ConfigError for an ``n`` that is not a whole number above 0, and where ``Rank`` raises it.
    """

    @checked_value
    def __init__(
        self,
        n: int,
        order_by: str,
        *,
        by: str | Iterable[str] | None = (),
        method: Method = "row_number",
        descending: bool = True,
        column: str = "rank",
        start: str | None = None,
        end: str | None = None,
    ) -> None:
        self.n = read_limit("TopN", n, "rows to keep")
        super().__init__(order_by, by=by, method=method, descending=descending, column=column, start=start, end=end)

    def _emitted_rows(self, order: NDArray[np.int64], row_ranks: NDArray[np.int64]) -> NDArray[np.int64]:
        return order[row_ranks[order] <= self.n]


def _ranks(method: Method, groups: NDArray[np.int64], values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns the ranks, from 1, of rows that are in order of (group, value)."""
    rows = np.arange(len(groups))
    begins_group = np.ones(len(groups), np.bool_)
    begins_group[1:] = groups[1:] != groups[:-1]
    group_starts = np.maximum.accumulate(np.where(begins_group, rows, 0))
    if method == "row_number":
        return rows - group_starts + 1
    is_new_value = begins_group.copy()
    is_new_value[1:] |= values[1:] != values[:-1]
    if method == "rank":
        return np.maximum.accumulate(np.where(is_new_value, rows, 0)) - group_starts + 1
    distinct_counts: NDArray[np.int64] = np.cumsum(is_new_value, dtype=np.int64)
    dense_ranks: NDArray[np.int64] = distinct_counts - distinct_counts[group_starts] + 1
    return dense_ranks


# Columns that ready bolts take by name: read when a bolt is made, and checked when its inputs are known.


def read_name(bolt: str, argument: str, name: object) -> str:
    """Returns the name of a column; raises ConfigError for anything else."""
    if not isinstance(name, str) or not name:
        raise ConfigError(
            f"{bolt}({argument}={name!r:.60})", why="that is not the name of a column", do=f"write {argument}='name'"
        )
    return name


def read_columns(bolt: str, argument: str, names: object) -> tuple[str, ...]:
    """Returns the names of one column, several or none; raises ConfigError for anything else."""
    names_or_none = (names,) if isinstance(names, str) else () if names is None else names
    if not isinstance(names_or_none, Iterable):
        names_or_none = (None,)
    columns = tuple(names_or_none)
    if not all(isinstance(name, str) and name for name in columns) or len(set(columns)) < len(columns):
        raise ConfigError(
            f"{bolt}({argument}={names!r:.60})", why="these are columns, each named once", do="give their names"
        )
    return columns


def unified_schema(inputs: Mapping[str, pa.Schema]) -> pa.Schema | None:
    """Returns the columns of all inputs; None if a column has different types, which ``build()`` reports for any
    bolt."""
    try:
        return pa.unify_schemas(list(inputs.values()))
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return None


def check_columns(bolt: str, *problems: Iterable[ConfigError]) -> None:
    """Raise one ConfigError with all problems of a bolt's columns, if there are any."""
    errors = [*chain.from_iterable(problems)]
    if errors:
        raise combine_errors(bolt, errors)


def column_errors(
    bolt: str,
    argument: str,
    names: Sequence[str],
    schema: pa.Schema,
    fits: Callable[[pa.DataType], bool] = can_be_compared,
) -> Iterator[ConfigError]:
    """Yields an error for each column of an argument that the input does not have, or whose type does not fit."""
    for name in names:
        if name not in schema.names:
            yield ConfigError(
                f"{bolt}({argument}={name!r}), and there is no such column{did_you_mean_column(name, schema.names)}",
                why=f"the bolt reads {', '.join(schema.names)}",
                do="name columns that it reads",
            )
        elif not fits(schema.field(name).type):
            yield ConfigError(
                f"{bolt}({argument}={name!r}), which is {schema.field(name).type}",
                why="such values cannot be compared",
                do="cast it, or take a part of it as a column, in a bolt before",
            )


def name_clashes(bolt: str, names: Sequence[str], schema: pa.Schema) -> Iterator[ConfigError]:
    """Yields an error for each added column that has the name of an input column or of another added column."""
    repeated = [name for at, name in enumerate(names) if name in schema.names or name in names[:at]]
    for name in dict.fromkeys(repeated):
        yield ConfigError(
            f"{bolt} with two columns {name!r}",
            why=f"it adds {', '.join(names)} to {', '.join(schema.names)}",
            do="choose another name for the one that it adds",
        )


# Limits that ready bolts take as a number, or as a length of time.


def read_limit(bolt: str, limit: object, what: str) -> int:
    """Returns a whole number above 0; raises ConfigError for anything else. ``what``: the things that are counted."""
    if type(limit) is not int or limit < 1:
        raise ConfigError(f"{bolt}({limit!r:.60})", why=f"it is the number of {what}", do="give a whole number above 0")
    return limit


def read_length_of_time(bolt: str, argument: str, value: Time) -> Duration:
    """Returns a length of time above zero, the value of ``argument``; raises ConfigError for anything else."""
    try:
        length = as_duration(value)
    except ConfigError as error:
        raise ConfigError(f"{bolt}({argument}={value!r:.60}): {error.what}", why=error.why, do=error.do) from None
    if not length.micros:
        raise ConfigError(f"{bolt}({argument}={value!r})", why="the duration is zero", do="give one above zero")
    return length
