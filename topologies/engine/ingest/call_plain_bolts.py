"""Runs plain bolts within the task that reads or emits their rows (decision 6)."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from manager.outside.transient import is_of_events
from topologies.engine.batch.context import Context
from topologies.engine.failures.user_code import bolt_failure, cause
from topologies.engine.rows.routed_rows import Rows
from topologies.graph.nodes.plain import PlainNode
from topologies.graph.streams import stream_label
from windowing.bolts.component import TaskContext
from windowing.bolts.plain_bolts import BatchBolt, Bolt
from windowing.data.returned_rows import tables
from windowing.data.tuples import Tuple

Failures = list[tuple[int, str]]
"""Rows on which a bolt has failed that sends such rows to its errors: their index, and the reason."""


class PlainBolts:
    """The plain bolts of one task, each prepared when first needed."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._prepared: dict[tuple[str, int], Bolt | BatchBolt] = {}

    def run(self, node: PlainNode, input_index: int, rows: Rows, failures: Failures) -> Iterator[tuple[str, Rows]]:
        """Yield (stream, rows) that a bolt emits for rows of one of its inputs; add those on which it fails."""
        for task in range(node.copies(input_index)):
            bolt = self._bolt(node, task)
            emitted = (
                self._tuple_by_tuple(node, bolt, input_index, rows, failures)
                if isinstance(bolt, Bolt)
                else self._batch_by_batch(node, bolt, rows, failures)
            )
            for stream, out in emitted:
                yield stream, out.shifted(node.shift) if node.shift else out

    def _tuple_by_tuple(
        self, node: PlainNode, bolt: Bolt, input_index: int, rows: Rows, failures: Failures
    ) -> Iterator[tuple[str, Rows]]:
        label = stream_label(node.inputs[input_index].stream)
        gathered: dict[str, tuple[list[pa.Table], list[int]]] = {}
        times = np.full(len(rows.positions), rows.clock) if rows.times is None else rows.times
        names = rows.table.column_names
        for index, row in enumerate(rows.table.to_pylist()):
            where = f"on row {rows.positions[index]} of {label!r}"
            event = Tuple(row, int(times[index]), label)
            with bolt_failure(node.name, self._context.batch, where, columns=names):
                emitted = _emitted(bolt, event, node, index, names, failures)
            for stream, table in emitted or ():
                collected = gathered.setdefault(stream, ([], []))
                collected[0].append(table)
                collected[1].extend([index] * table.num_rows)
        for stream, (tables_of_stream, indices) in gathered.items():
            sources = np.array(indices, np.int64)
            times_of_rows = (
                rows.times[sources] if rows.times is not None and (node.carries_time or node.clocked) else None
            )
            yield stream, rows.become(pa.concat_tables(tables_of_stream), times_of_rows, sources)

    def _batch_by_batch(
        self, node: PlainNode, bolt: BatchBolt, rows: Rows, failures: Failures
    ) -> Iterator[tuple[str, Rows]]:
        """Call the bolt with all rows, or, where rows have times, with the rows of one time after another, so that its
        output gets that time.

        The output has no partition, because it is unknown which input row each output row came from.
        """
        edges, has_times = [0, rows.table.num_rows], node.carries_time or node.clocked
        if rows.times is not None and has_times:
            edges = [0, *(np.flatnonzero(np.diff(rows.times)) + 1).tolist(), rows.table.num_rows]
        for start, stop in pairwise(edges):
            names = rows.table.column_names
            with bolt_failure(node.name, self._context.batch, f"on rows {start} to {stop}", columns=names):
                emitted = _of_batch(bolt, rows.table, (start, stop), node, failures)
            for stream, table in emitted:
                times = None
                if rows.times is not None and has_times:
                    times = np.full(table.num_rows, rows.times[start], np.int64)
                places = rows.positions[start] + np.arange(table.num_rows)
                yield stream, Rows(table, times, places, rows.clock, placed=False)

    def _bolt(self, node: PlainNode, task: int) -> Bolt | BatchBolt:
        if (node.name, task) not in self._prepared:
            bolt = deepcopy(node.bolt)
            with bolt_failure(node.name, self._context.batch, "in prepare"):
                bolt.prepare(TaskContext(node.name, task, node.parallelism, self._context.run))
            self._prepared[node.name, task] = bolt
        return self._prepared[node.name, task]


def _emitted(
    bolt: Bolt | BatchBolt, given: Any, node: PlainNode, index: int | None, columns: list[str], failures: Failures
) -> list[tuple[str, pa.Table]] | None:
    """What a bolt emits for a tuple, or a table; None where it fails, and its errors go to their stream.

    ``index``: of the row, which is then added to the failures; None for several rows.
    """
    if bolt.on_error == "stop":
        return list(tables(bolt.execute(given), node.outputs))
    try:
        return list(tables(bolt.execute(given), node.outputs))  # all or nothing, of generators as well
    except Exception as error:
        if not is_of_events(error):
            raise
        if index is not None:
            failures.append((index, cause(error, columns)))
        return None


def _of_batch(
    bolt: BatchBolt, table: pa.Table, rows: tuple[int, int], node: PlainNode, failures: Failures
) -> list[tuple[str, pa.Table]]:
    """What a BatchBolt emits for some rows, without those on which it fails: it is called again for each half."""
    start, stop = rows
    index = start if stop - start == 1 else None
    found = _emitted(bolt, table.slice(start, stop - start), node, index, table.column_names, failures)
    if found is not None or index is not None:
        return found or []
    middle = (start + stop) // 2
    halves = ((start, middle), (middle, stop))
    return [each for half in halves for each in _of_batch(bolt, table, half, node, failures)]
