"""The rows of a window in order of a column: the rank of each, and the best of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from typing import TYPE_CHECKING, Literal, Self, get_args

import numpy as np
import pyarrow as pa

from windowing.aggregates.accumulators import can_be_ranked, ranks
from windowing.aggregates.declared import nulled
from windowing.aggregates.groups import Keys
from windowing.bolts.columns_by_name import (
    check_columns,
    read_columns,
    read_limit,
    read_name,
    taken_names,
    unified,
    wrong_groups,
)
from windowing.bolts.windowed_bolt import BatchWindowedBolt
from windowing.calls import checked_value
from windowing.errors import ConfigError
from windowing.schema import DEFAULT_STREAM, TIMESTAMP
from windowing.window import WindowBatch, whole

if TYPE_CHECKING:
    from numpy.typing import NDArray


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

    ConfigError for another ``method``, for an unknown column, and for a new name that is taken.
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
        """Returns the bolt with its columns; ConfigError where they cannot be."""
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

    ConfigError for an ``n`` that is not a whole number above 0, and for what ``Rank`` refuses.
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
