"""Prepares events for a bolt whose tasks admit them: their times and their order of arrival."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from manager.keyed.held_segments import EDGE_COLUMN, END_COLUMN, GAP_COLUMN, KEY_COLUMN
from manager.storage.segments.event_segments import STREAM_COLUMN, TIME_COLUMN
from manager.storage.segments.ref import Ref
from manager.storage.segments.segments import SegmentWriter
from manager.storage.segments.take_rows import take_rows
from policies.admission import Decision, timely
from policies.marks import NONE
from topologies.engine.admission.late_rows import conform_input
from topologies.engine.rows.source_batch import RowPartitions
from topologies.engine.time.timed_rows import Timed
from topologies.engine.work.deferred_events import DeferredEvents
from topologies.engine.work.sections import Sections
from topologies.graph.fields_hash import hash_rows
from topologies.graph.inner_columns import DECISION_COLUMN, END_EDGE_COLUMN, SEQ_COLUMN
from topologies.graph.nodes.windowed import WindowedNode
from windowing.bolts.read_code import is_users_class
from windowing.settings.rules import Partition

if TYPE_CHECKING:
    from numpy.typing import NDArray

NO_PARTITION = "\0"
"""Name of the partition of events that have none; users' names never contain this character."""
_NOTHING = {"partition": np.int32(-1), "heard": np.True_, "arrived": np.int64(NONE)}
"""Values for rows of a source without partitions, where other sources have some."""


class Arriving:
    """The events that one task has read for one bolt, batch by batch, in order of arrival."""

    def __init__(self, node: WindowedNode) -> None:
        self._node = node
        self._tables: list[pa.Table] = []
        self._tasks: list[NDArray[np.int64]] = []
        self._arrivals: list[dict[str, Any]] = []
        """The columns from which the watermark is computed, where it follows the events."""
        self._partitions: dict[str, int] = {}
        """The partitions of the events so far, and their codes."""
        self.count = 0
        """Number of events so far; an event's sequence number is its index among them."""
        self.column_bytes: tuple[int, ...] = ()
        """See ``column_bytes``, once they are written."""

    def add(
        self,
        input_index: int,
        table: pa.Table,
        timed_rows: Timed,
        tasks: NDArray[np.int64] | None,
        partition: str | RowPartitions = "",
    ) -> None:
        """Add rows of an input.

        ``tasks`` is the task of each row; None sends every row to every task. ``partition`` is the source's partition
        of all rows, or of each, with its spout; "" where there is none.
        """
        node, rows, settings = self._node, table.num_rows, self._node.bolt.settings
        columns = conform_input(table, node.schema)
        numbers = np.arange(self.count, self.count + rows)
        self.count += rows
        inner: dict[str, Any] = {
            TIME_COLUMN: timed_rows.times,
            STREAM_COLUMN: np.full(rows, input_index, np.int8),
            SEQ_COLUMN: numbers,
            DECISION_COLUMN: timed_rows.codes,
        }
        if timed_rows.ends is not None:
            inner[END_COLUMN] = timed_rows.ends
        if timed_rows.end_edges is not None:
            inner[END_EDGE_COLUMN] = timed_rows.end_edges
            inner[EDGE_COLUMN] = timed_rows.started
        if timed_rows.gaps is not None:
            inner[GAP_COLUMN] = timed_rows.gaps
        if settings.key:
            inner[KEY_COLUMN] = hash_rows(columns, node.keys[input_index]).view(np.int64)
        for name, array in inner.items():
            columns = columns.append_column(name, pa.array(array))
        if tasks is None:
            for task in range(node.parallelism):
                self._tables.append(columns)
                self._tasks.append(np.full(rows, task, np.int64))
        else:
            self._tables.append(columns)
            self._tasks.append(tasks)
        if node.sequenced:
            codes = self._codes(settings.watermark_partition, table, partition)
            self._arrivals.append(_arrival_columns(node, timed_rows, inner[STREAM_COLUMN], codes))

    def write(self, writer: SegmentWriter) -> DeferredEvents:
        """Write the events: a section per task, and one section with the order of arrival of all events, where the
        watermark follows the events."""
        node = self._node
        table = pa.concat_tables(self._tables).combine_chunks()
        self.column_bytes = column_bytes(node, table.columns[: len(node.schema)])
        tasks = np.concatenate(self._tasks)
        sections: list[tuple[int, Ref]] = []
        if node.parallelism == 1:
            sections.append((0, _section(writer, table, len(node.inputs))))
        else:
            order = np.argsort(tasks, kind="stable")
            tasks = tasks[order]
            table = take_rows(table, order)
            edges = np.searchsorted(tasks, np.arange(node.parallelism + 1)).tolist()
            for task in range(node.parallelism):
                if edges[task + 1] > edges[task]:
                    split = table.slice(edges[task], edges[task + 1] - edges[task])
                    sections.append((task, _section(writer, split, len(node.inputs))))
        return DeferredEvents(
            [Sections.of(sections)], [0], [writer.add(self._order())] if self._arrivals else [], self.count
        )

    def _order(self) -> pa.Table:
        """The order of arrival of all events; the partition is null where an event has none."""
        names = dict.fromkeys(name for batch in self._arrivals for name in batch)
        columns = {
            name: np.concatenate(
                [batch.get(name, np.full(len(batch["time"]), _NOTHING.get(name))) for batch in self._arrivals]
            )
            for name in names
        }
        if "partition" in columns:
            codes = columns["partition"]
            indices = pa.array(codes, pa.int32(), mask=codes < 0)
            columns["partition"] = pa.DictionaryArray.from_arrays(
                indices, pa.array(list(self._partitions), pa.string())
            )
        return pa.table(columns)

    def _codes(self, by: str | Partition | None, table: pa.Table, own: str | RowPartitions) -> NDArray[np.int32] | None:
        """The partition code of each row; None where the rows have no partition."""
        rows = table.num_rows
        if isinstance(by, Partition) and isinstance(own, RowPartitions):
            present = np.unique(own.codes).tolist()
            codes_of = np.full(len(own.names), -1, np.int32)
            codes_of[present] = [self._code(own.names[code]) if own.names[code] else -1 for code in present]
            return codes_of[own.codes]
        if isinstance(by, Partition):
            assert isinstance(own, str)
            return np.full(rows, self._code(own), np.int32) if own else None
        if by is None:
            return None
        if by not in table.column_names:
            return np.full(rows, self._code(NO_PARTITION), np.int32)
        column = table.column(by).combine_chunks()
        if not pa.types.is_dictionary(column.type):
            column = column.dictionary_encode()
        # The last code stands for null, whose index is -1.
        values = [*column.dictionary.to_pylist(), None]
        codes = [self._code(NO_PARTITION if value is None else str(value)) for value in values]
        indices = column.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
        row_codes: NDArray[np.int32] = np.array(codes, np.int32)[indices]
        return row_codes

    def _code(self, name: str) -> int:
        """The code of a partition; a new one gets the next."""
        return self._partitions.setdefault(name, len(self._partitions))


def _arrival_columns(
    node: WindowedNode, timed_rows: Timed, inputs: NDArray[np.int8], partitions: NDArray[np.int32] | None
) -> dict[str, Any]:
    """The columns from which the watermark is computed, for rows in order of arrival."""
    settings, seen = node.bolt.settings, timely(timed_rows.codes)
    advancing = seen if timed_rows.end_edges is None else seen & ~timed_rows.end_edges
    columns: dict[str, Any] = {"time": timed_rows.times, "input": inputs, "advancing": advancing}
    if settings.watermark_field is not None:
        columns["given"] = np.full(len(seen), NONE, np.int64) if timed_rows.given is None else timed_rows.given
    if partitions is not None:
        columns["partition"] = partitions
        columns["heard"] = seen | (timed_rows.codes == Decision.WATERMARK)
    if (
        settings.estimate_arrival
        and timed_rows.arrivals is not None
        and (partitions is not None or len(node.inputs) > 1)
    ):
        columns["arrived"] = timed_rows.arrivals
    return columns


def _section(writer: SegmentWriter, table: pa.Table, streams: int) -> Ref:
    ref = writer.add(table)
    codes = table.column(STREAM_COLUMN).to_numpy()
    times = table.column(TIME_COLUMN).to_numpy()
    by_stream = tuple(int(count) for count in np.bincount(codes, minlength=streams))
    return replace(ref, earliest_live=int(times.min()), latest_live=int(times.max()), by_stream=by_stream)


def column_bytes(node: WindowedNode, columns: Sequence[pa.Array | pa.ChunkedArray]) -> tuple[int, ...]:
    """Bytes of events by column of a bolt's windows; empty for a bolt of windbolt's own, which has no use for advice on
    columns: to count them takes some microseconds a column."""
    return tuple(column.nbytes for column in columns) if is_users_class(type(node.bolt)) else ()
