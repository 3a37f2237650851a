"""Ready bolts for the common cases: windows summed up by key, and their rows in order of a column."""

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

from windowing.aggregates.accumulators import Accumulator, Folded, State, can_be_ranked, has_order, ranks
from windowing.aggregates.declared import Aggregate, Cells, nulled
from windowing.aggregates.groups import Groups, Keys, can_be_compared
from windowing.bolts.windowed_bolt import BatchWindowedBolt, NumberedRows
from windowing.calls import checked_value
from windowing.columns import stable_order
from windowing.conversion import REFUSED, of_values
from windowing.durations import Duration, Time, as_duration
from windowing.errors import ConfigError, did_you_mean_column, together
from windowing.reprs import one_line
from windowing.schema import DEFAULT_STREAM, TIMESTAMP, value_type
from windowing.settings.panes import RETRACT
from windowing.window import WindowBatch, whole

if TYPE_CHECKING:
    from numpy.typing import NDArray


# Aggregates that know the columns of their input, and with them the columns of the result.


@dataclass(frozen=True)
class BoundAggregates:
    """The aggregates of an AggregateBolt, bound to the columns of its input: of use to whoever folds events and joins
    the results."""

    by: tuple[str, ...]
    aggregates: tuple[tuple[str, Aggregate], ...]
    schema: pa.Schema
    """The columns of the result."""
    fill: Mapping[str, pa.Scalar] = field(default_factory=dict)
    """The values of aggregates for windows without events, by column, if they differ from ``of_nothing``."""

    @cached_property
    def accumulators(self) -> tuple[Accumulator, ...]:
        """Returns the accumulators of all aggregates, each once."""
        return tuple(dict.fromkeys(each for _, aggregate in self.aggregates for each in aggregate.accumulators))

    def result(self, keys: Sequence[pa.Array], states: Sequence[State], cells: Cells) -> pa.Table:
        """Returns the rows of the result: their keys, and the states of all accumulators."""
        place = {each: at for at, each in enumerate(self.accumulators)}
        columns = [
            aggregate.finish([states[place[each]] for each in aggregate.accumulators], cells)
            for _, aggregate in self.aggregates
        ]
        return self._table([*keys, *columns])

    def of_nothing(self, keys: Sequence[pa.Array], cells: Cells) -> pa.Table:
        """Returns the rows of windows without events: their keys, and the value of each aggregate without events."""
        columns = [self._of_nothing(name, aggregate, cells) for name, aggregate in self.aggregates]
        return self._table([*keys, *columns])

    def _of_nothing(self, name: str, aggregate: Aggregate, cells: Cells) -> pa.Array:
        if name in self.fill:
            return pa.repeat(self.fill[name], len(cells.events))
        if not aggregate.accumulators:  # the window alone tells it
            return aggregate.finish((), cells)
        return pa.array([aggregate.of_nothing] * len(cells.events), aggregate.result)

    def _table(self, columns: Sequence[pa.Array]) -> pa.Table:
        """Returns the columns of the result, as their types are declared."""
        return pa.Table.from_arrays(
            [column if column.type == declared.type else column.cast(declared.type)
             for column, declared in zip(columns, self.schema, strict=True)],
            schema=self.schema,
        )  # fmt: skip


# The rows of an AggregateBolt for windows without events.


def rows_of_nothing(bound: BoundAggregates, key: tuple[str, ...], windows: WindowBatch) -> NumberedRows | None:
    """Returns the rows of windows without events, each with the key of its window; None if there are none. ``key``: the
    columns of the key."""
    index = np.flatnonzero(np.diff(windows.offsets) == 0)
    if not len(index):
        return None
    keys = [windows[place].key for place in index.tolist()]
    values = {name: [each[at] if len(key) > 1 else each for each in keys] for at, name in enumerate(key)}
    columns = [pa.array(values[name], bound.schema.field(name).type) for name in bound.by]
    cells = Cells(np.zeros(len(index), np.int64), windows.window_starts[index], windows.window_ends[index])
    return bound.of_nothing(columns, cells), index


def in_order(rows: NumberedRows | None, others: NumberedRows | None) -> NumberedRows | None:
    """Returns the rows of some windows and of others, in order of the windows."""
    if rows is None or others is None:
        return others if rows is None else rows
    index = np.concatenate([rows[1], others[1]])
    order = stable_order(index)
    return pa.concat_tables([rows[0], others[0]]).take(pa.array(order)), index[order]


def filled(fill: Mapping[str, Any], bound: Iterable[tuple[str, Aggregate]]) -> dict[str, pa.Scalar]:
    """Returns the values to fill in, in the types of the aggregates; raises ConfigError for a value that its aggregate
    cannot have."""
    found = {}
    for name, aggregate in bound:
        if name in fill:
            try:
                found[name] = of_values([fill[name]], aggregate.result)[0]
            except REFUSED as error:
                raise ConfigError(
                    f"with_empty_windows(fill={{{name!r}: {fill[name]!r:.60}}})",
                    why=f"{name}={aggregate} is {aggregate.result}: {error}",
                    do="give a value of that type, or leave it out",
                ) from None
    return found


# A ready bolt for the common case: windows summed up by key.


class AggregateBolt(BatchWindowedBolt):
    """One row for each window and each key in it: ``AggregateBolt(by=["user"], n=count(), revenue=sum("amount"))``.

    ``by``: the columns of the key; without them those of ``with_key``, and where there are none, or with ``by=()``, a
    window is one row. The rest are aggregates of ``windowing.aggregates`` by the name of their column. Columns come in
    this order; the rows of a window are in order of the key, null last. Windows are configured as those of any bolt.

    Aligned windows of time are made of slices: each event is added to the partial result of its slice as it is read,
    and only these are kept, so the state does not grow with the events. ``window.new`` and ``window.expired`` are not
    available, because the new and expired events are not known. Sessions are made of partial results likewise, of the
    events that are in one session whatever else comes. With several tasks, group the input by fields among ``by``.

    ConfigError without aggregates, or if a column is named twice; what depends on the input is reported when the
    topology is built.
    """

    @checked_value
    def __init__(self, by: str | Iterable[str] | None = None, **aggregates: Aggregate) -> None:
        columns: Iterable[Any] = by if isinstance(by, Iterable) and not isinstance(by, str) else (by,)
        self._by = None if by is None else tuple(columns)
        self.aggregates = dict(aggregates)
        self.bound_aggregates: BoundAggregates | None = None
        """The aggregates with their types; known once the topology is built."""
        self.fill: Mapping[str, Any] = {}
        """By column, the values of aggregates in the rows of windows without events, where others are wanted."""
        problems = [*self._strange(by)]
        if problems:
            raise together("AggregateBolt()", problems)
        self._check_names()

    def _repr_of_call(self) -> str:
        named = ", ".join(f"{name}={aggregate}" for name, aggregate in self.aggregates.items())
        return one_line(f"{type(self).__name__}({f'by={list(self.by)}, ' if self.by else ''}{named})", 100)

    @property
    def by(self) -> tuple[str, ...]:
        """The columns of the key of its rows."""
        return self.settings.key if self._by is None else self._by

    def _strange(self, by: object) -> Iterator[ConfigError]:
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
        """Raises ConfigError if two columns have one name."""
        twice = [name for at, name in enumerate(self.by) if name in self.by[:at] or name in self.aggregates]
        if twice:
            raise ConfigError(
                f"AggregateBolt with two columns {' and two '.join(map(repr, dict.fromkeys(twice)))}",
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
        """Makes a row of a window without events too, for its key, which must have the columns of ``by``
        (``with_key``).

        Counts are then 0, and other aggregates null, as of values that are all null. ``fill``: other values for such
        rows, by the column of the aggregate, ``{"mean": 0.0}``. See ``WindowedBolt.with_empty_windows`` for which fire,
        and for ``keys`` and ``since``.

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

    def _problems(self, schema: pa.Schema) -> Iterator[ConfigError]:
        """Yields all problems with columns: named ones that do not exist, and types that do not fit."""
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
                aggregate.bound(name, schema)
            except ConfigError as error:
                yield error

    def for_inputs(self, inputs: Mapping[str, pa.Schema]) -> Self:
        """Returns the bolt with its columns; raises ConfigError if they cannot be."""
        self._check_names()
        schema = unified(inputs)
        if schema is None:
            return self
        problems = list(self._problems(schema))
        if problems:
            raise together("AggregateBolt", problems)
        keys = [pa.field(name, value_type(schema.field(name).type)) for name in self.by]
        bound = tuple((name, aggregate.bound(name, schema)) for name, aggregate in self.aggregates.items())
        columns = [pa.field(name, aggregate.result) for name, aggregate in bound]
        configured = copy(self)
        configured.bound_aggregates = BoundAggregates(
            self.by, bound, pa.schema([*keys, *columns]), filled(self.fill, bound)
        )
        return configured

    @property
    def groups_by(self) -> tuple[str, ...]:
        return self.by

    @property
    def takes_retractions(self) -> bool:
        """True if it distinguishes retractions from other rows: by its key, or in a subclass that makes rows of its
        own."""
        return RETRACT in self.by or not self.is_as_declared

    @property
    def columns_read(self) -> frozenset[str]:
        """The columns of its key, and those of its aggregates; known once the topology is built."""
        aggregates = () if self.bound_aggregates is None else self.bound_aggregates.aggregates
        return frozenset((*self.by, *(field for _, aggregate in aggregates for field in aggregate.fields)))

    @property
    def is_as_declared(self) -> bool:
        """True if its rows are those of its aggregates: no subclass makes others, and no test that asks for the events
        of its windows watches it."""
        own = getattr(self.execute_all, "__func__", None) is AggregateBolt.execute_all
        return own and type(self).execute is AggregateBolt.execute

    def output_schemas(self) -> dict[str, pa.Schema]:
        """Returns the columns of the key, and those of the aggregates."""
        return {} if self.bound_aggregates is None else {DEFAULT_STREAM: self.bound_aggregates.schema}

    def execute_all(self, windows: WindowBatch) -> NumberedRows | None:
        """Returns the rows of all windows, from all of their events, in one pass."""
        rows = self._rows_of_events(windows)
        if self.settings.empty_windows_until is None:
            return rows
        assert self.bound_aggregates is not None
        return in_order(rows, rows_of_nothing(self.bound_aggregates, self.settings.key, windows))

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
        columns = {name: whole(column) for name, column in zip(table.column_names, table.columns, strict=True)}
        keys = Keys.of([pa.array(windows.index), *map(columns.__getitem__, self.by)], len(windows.index), ordered=True)
        groups = Groups(keys.codes, keys.size)
        events = Folded(columns, windows.timestamps)
        states = [each.fold(events, groups) for each in bound.accumulators]
        place, *found = keys.columns(groups.cells)
        index = place.to_numpy()
        return bound.result(found, states, _cells(windows, index, groups.counts)), index


def _cells(windows: WindowBatch, index: NDArray[np.int64], counts: NDArray[np.int64]) -> Cells:
    known = np.array([window.start_timestamp is not None for window in windows], np.bool_)
    return Cells(
        counts, windows.window_starts[index], windows.window_ends[index], None if known.all() else known[index]
    )


# The rows of a window in order of a column: the rank of each, and the best of them.


Method = Literal["row_number", "rank", "dense_rank"]


class Rank(BatchWindowedBolt):
    """Each row of a window, and its rank by a column: from 1, the greatest value first.

        Rank("price", by="item").with_tumbling_window("1h").with_timestamp_field("ts")

    ``order_by``: the column; its values are numbers, times, texts or others that have an order. ``descending=False``:
    the least value first. Null comes last either way, and NaN counts as greater than all numbers. ``by``: the columns
    within whose values rows are ranked; without them a window is ranked as a whole.

    ``method``, for rows with equal values, as SQL has it: ``row_number``, each has a number of its own, the first by
    time, then by arrival, before the others; ``rank``, they share a rank, and the ranks that it takes up are skipped:
    1, 1, 3; ``dense_rank``, they share a rank and none is skipped: 1, 1, 2.

    A row has the columns of the input and then the rank, a long that ``column`` names. ``start`` and ``end`` name
    columns for the start and the end of the window. Rows keep the order of the window, that of time and then of
    arrival. With several tasks, group the input by fields among ``by``. The events of a window are kept until it has
    passed; for long windows that overlap, ``top`` of an ``AggregateBolt`` keeps less.

    Raises ConfigError for another ``method``, for an unknown column, and for a new name that is taken.
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
        moments = {"start": start, "end": end}
        self._moments = {at: read_name(name, at, given) for at, given in moments.items() if given is not None}
        self._schema: pa.Schema | None = None

    @property
    def groups_by(self) -> tuple[str, ...]:
        return self.by

    def for_inputs(self, inputs: Mapping[str, pa.Schema]) -> Self:
        """Returns the bolt with its columns; raises ConfigError if they cannot be."""
        name, schema = type(self).__name__, unified(inputs)
        if schema is None:
            return self
        added = [(self.column, pa.int64()), *((given, TIMESTAMP) for given in self._moments.values())]
        check_columns(
            name,
            wrong_groups(name, "by", self.by, schema),
            wrong_groups(name, "order_by", (self.order_by,), schema, can_be_ranked),
            taken_names(name, [given for given, _ in added], schema),
        )
        bound = copy(self)
        bound._schema = pa.schema([*schema, *(pa.field(given, kind) for given, kind in added)])
        return bound

    def output_schemas(self) -> dict[str, pa.Schema]:
        return {} if self._schema is None else {DEFAULT_STREAM: self._schema}

    def execute_all(self, windows: WindowBatch) -> tuple[pa.Table, NDArray[np.int64]] | None:
        """Called with many windows; ranks the rows of all of them in one pass."""
        if not len(windows.index):
            return None
        order, groups, values = self._in_order(windows)
        numbers = np.empty(len(order), np.int64)
        numbers[order] = _numbered(self.method, groups[order], values[order])
        chosen = self._chosen(order, numbers)
        table = windows.table.take(pa.array(chosen)).append_column(self.column, pa.array(numbers[chosen]))
        index = windows.index[chosen]
        for moment, name in self._moments.items():
            unknown = np.array([getattr(window, moment) is None for window in windows])
            edges = windows.window_starts if moment == "start" else windows.window_ends
            times = nulled(edges[index], unknown[index], TIMESTAMP)
            table = table.append_column(name, times)
        return table, index

    def _in_order(self, windows: WindowBatch) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Returns the rows from the best of the first group to the worst of the last; the group and the value of each
        row."""
        table = windows.table
        keys = [pa.array(windows.index), *(whole(table.column(name)) for name in self.by)]
        groups = Keys.of(keys, table.num_rows, ordered=True).codes
        values, known = ranks(whole(table.column(self.order_by)))
        if self.descending:
            values = ~values
        unknown = np.zeros(len(values), np.bool_) if known is None else ~known
        values = np.where(unknown, 0, values)
        order = np.lexsort((values, unknown, groups))
        places = np.zeros(len(order), np.int64)  # equal where the values are, and null is not a value
        same = (values[order][1:] == values[order][:-1]) & (unknown[order][1:] == unknown[order][:-1])
        places[order[1:]] = np.cumsum(~same)
        return order, groups, places

    def _chosen(self, order: NDArray[np.int64], numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the rows that are emitted, in order."""
        return np.arange(len(order))


class TopN(Rank):
    """The best rows of each window: those with the ``n`` greatest values of a column, and the rank of each.

        TopN(3, "price", by="item").with_tumbling_window("1h").with_timestamp_field("ts")

    ``by``: the best rows for each value of these columns. Among rows with equal values those that come first by time,
    then by arrival, are better, so there are never more than ``n``; ``method="rank"`` takes all that equal the last
    one, ``method="dense_rank"`` all with one of the ``n`` best values. ``descending=False``: the least values. A null
    is worse than every value. All else is as for ``Rank``, but rows of a window come in order of (by, rank), null last.

    Raises ConfigError for an ``n`` that is not a whole number above 0, and for what ``Rank`` refuses.
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

    def _chosen(self, order: NDArray[np.int64], numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        return order[numbers[order] <= self.n]


def _numbered(method: Method, groups: NDArray[np.int64], values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns the ranks of rows that are in order of (group, value)."""
    rows = np.arange(len(groups))
    head = np.ones(len(groups), np.bool_)
    head[1:] = groups[1:] != groups[:-1]
    first = np.maximum.accumulate(np.where(head, rows, 0))
    if method == "row_number":
        return rows - first + 1
    fresh = head.copy()
    fresh[1:] |= values[1:] != values[:-1]
    if method == "rank":
        return np.maximum.accumulate(np.where(fresh, rows, 0)) - first + 1
    distinct: NDArray[np.int64] = np.cumsum(fresh, dtype=np.int64)
    found: NDArray[np.int64] = distinct - distinct[first] + 1
    return found


if TYPE_CHECKING:
    pass


# Columns that ready-made bolts take by name: read when a bolt is made, and checked when its inputs are known.


def read_name(bolt: str, argument: str, name: object) -> str:
    """Returns the name of a column; raises ConfigError for anything else."""
    if not isinstance(name, str) or not name:
        raise ConfigError(
            f"{bolt}({argument}={name!r:.60})", why="that is not the name of a column", do=f"write {argument}='name'"
        )
    return name


def read_columns(bolt: str, argument: str, names: object) -> tuple[str, ...]:
    """Returns the names of one column, of several, or of none; raises ConfigError for anything else."""
    given = (names,) if isinstance(names, str) else () if names is None else names
    if not isinstance(given, Iterable):
        given = (None,)
    listed = tuple(given)
    if not all(isinstance(name, str) and name for name in listed) or len(set(listed)) < len(listed):
        raise ConfigError(
            f"{bolt}({argument}={names!r:.60})", why="these are columns, each named once", do="give their names"
        )
    return listed


def unified(inputs: Mapping[str, pa.Schema]) -> pa.Schema | None:
    """Returns the columns of all inputs; None if types differ, which is a mistake of any bolt and reported as such."""
    try:
        return pa.unify_schemas(list(inputs.values()))
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return None


def check_columns(bolt: str, *problems: Iterable[ConfigError]) -> None:
    """Raises one ConfigError with all problems of a bolt's columns, if there are any."""
    found = [*chain.from_iterable(problems)]
    if found:
        raise together(bolt, found)


def wrong_groups(
    bolt: str,
    argument: str,
    names: Sequence[str],
    schema: pa.Schema,
    fits: Callable[[pa.DataType], bool] = can_be_compared,
) -> Iterator[ConfigError]:
    """Yields an error for each column that the input does not have, or whose values cannot be used."""
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


def taken_names(bolt: str, names: Sequence[str], schema: pa.Schema) -> Iterator[ConfigError]:
    """Yields an error for each column that the bolt adds and that is there already, or is added twice."""
    twice = [name for at, name in enumerate(names) if name in schema.names or name in names[:at]]
    for name in dict.fromkeys(twice):
        yield ConfigError(
            f"{bolt} with two columns {name!r}",
            why=f"it adds {', '.join(names)} to {', '.join(schema.names)}",
            do="choose another name for the one that it adds",
        )


# Limits that ready-made bolts take as a number, or as a length of time.


def read_limit(bolt: str, limit: object, what: str) -> int:
    """Reads a whole number above 0; raises ConfigError for anything else. ``what``: the things that it counts."""
    if type(limit) is not int or limit < 1:
        raise ConfigError(f"{bolt}({limit!r:.60})", why=f"it is the number of {what}", do="give a whole number above 0")
    return limit


def read_length_of_time(bolt: str, argument: str, given: Time) -> Duration:
    """Reads a length of time above zero; raises ConfigError for anything else that was given for ``argument``."""
    try:
        length = as_duration(given)
    except ConfigError as error:
        raise ConfigError(f"{bolt}({argument}={given!r:.60}): {error.what}", why=error.why, do=error.do) from None
    if not length.micros:
        raise ConfigError(f"{bolt}({argument}={given!r})", why="the duration is zero", do="give one above zero")
    return length
