"""A ready bolt for the common case: windows summed up by key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from datetime import datetime
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa

from windowing.aggregates.accumulators import Folded
from windowing.aggregates.declared import Aggregate, Cells
from windowing.aggregates.groups import Groups
from windowing.aggregates.key_numbers import Keys
from windowing.aggregates.ranked import has_order
from windowing.bolts.batch_windowed_bolt import BatchWindowedBolt, NumberedRows
from windowing.bolts.ready.bound_aggregates import BoundAggregates
from windowing.bolts.ready.columns_by_name import unified
from windowing.bolts.ready.empty_rows import filled, in_order, rows_of_nothing
from windowing.calls.checked import checked_value
from windowing.data.reprs import one_line
from windowing.data.returned_rows import DEFAULT_STREAM
from windowing.data.schema import value_type
from windowing.errors import ConfigError, together
from windowing.settings.panes import RETRACT
from windowing.suggestions import did_you_mean_column
from windowing.time.durations import Time
from windowing.window import whole
from windowing.window_batch import WindowBatch

if TYPE_CHECKING:
    from numpy.typing import NDArray


class AggregateBolt(BatchWindowedBolt):
    """One row for each window and each key in it: ``AggregateBolt(by=["user"], n=count(), revenue=sum("amount"))``.

    ``by``: the columns of the key; without them those of ``with_key``, and where there are none, or with ``by=()``, a
    window is one row. The rest are aggregates of ``windowing.aggregates`` by the name of their column. Columns come in
    this order; the rows of a window are in order of the key, null last. Windows are configured as those of any bolt.

    Aligned windows of time are made of slices: each event is added to the partial result of its slice as it is read,
    and only these are kept, so the state does not grow with the events. ``window.new`` and ``window.expired`` are not
    offered: what is new or has left is not known. With several tasks, group the input by fields among ``by``.

    ConfigError without aggregates, or where a column is named twice; what depends on the input is reported when the
    topology is built.
    """

    @checked_value
    def __init__(self, by: str | Iterable[str] | None = None, **aggregates: Aggregate) -> None:
        columns: Iterable[Any] = by if isinstance(by, Iterable) and not isinstance(by, str) else (by,)
        self._by = None if by is None else tuple(columns)
        self.aggregates = dict(aggregates)
        self.bound_aggregates: BoundAggregates | None = None
        """What it computes; known once the topology is built."""
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
        """An error for each argument that cannot be."""
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
        """ConfigError where two columns have one name."""
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
        """A window without events is a row too: of its key, which has to have the columns of ``by`` (``with_key``).

        Counts are then 0, and other aggregates null, as of values that are all null. ``fill``: other values for such
        rows, by the column of the aggregate, ``{"mean": 0.0}``. See ``WindowedBolt.with_empty_windows`` for which fire,
        and for ``keys`` and ``since``.

        ConfigError where ``fill`` names no aggregate of the bolt.
        """
        strange = [name for name in fill or {} if name not in self.aggregates]
        if strange:
            raise ConfigError(
                f"with_empty_windows(fill={{{', '.join(f'{name!r}: ...' for name in strange)}}})",
                why=f"the aggregates are {', '.join(self.aggregates)}",
                do="name some of these",
            )
        configured = super().with_empty_windows(until=until, keys=keys, since=since)
        configured.fill = dict(fill or {})
        return configured

    def _problems(self, schema: pa.Schema) -> Iterator[ConfigError]:
        """Columns that it names and that are not there, or of a type that does not fit: all of them."""
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
        """The bolt with its columns; ConfigError where they cannot be."""
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
        """Whether it tells them from other rows: by its key, or in a subclass that makes rows of its own."""
        return RETRACT in self.by or not self.is_as_declared

    @property
    def columns_read(self) -> frozenset[str]:
        """The columns of its key, and those of its aggregates; known once the topology is built."""
        aggregates = () if self.bound_aggregates is None else self.bound_aggregates.aggregates
        return frozenset((*self.by, *(field for _, aggregate in aggregates for field in aggregate.fields)))

    @property
    def is_as_declared(self) -> bool:
        """Whether its rows are those of its aggregates, and no subclass makes others."""
        cls = type(self)
        return cls.execute is AggregateBolt.execute and cls.execute_all is AggregateBolt.execute_all

    def output_schemas(self) -> dict[str, pa.Schema]:
        """The columns of the key, and those of the aggregates."""
        return {} if self.bound_aggregates is None else {DEFAULT_STREAM: self.bound_aggregates.schema}

    def execute_all(self, windows: WindowBatch) -> NumberedRows | None:
        """The rows of all windows, from all of their events, in one pass."""
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
