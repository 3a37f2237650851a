"""Plain bolts, which run within the task that reads or emits their rows (decision 6), and unusable rows."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from manager.keyed.retained_events import RetainedEvents
from manager.remote import is_caused_by_event
from topologies.engine.admission import EmitRows
from topologies.engine.batch import Context
from topologies.engine.failures import bolt_failure, cause
from topologies.engine.ledger import Ledger, event_ids
from topologies.engine.task_data import Rows
from topologies.graph.graph import ERROR_SCHEMA, ERRORS, REASON, Graph, PlainNode, WindowedNode, stream_label
from topologies.io.formats.event_files import python_columns, row_as_json
from windowing.bolts.bolt import BatchBolt, Bolt, TaskContext
from windowing.columns import take_rows
from windowing.events import Tuple
from windowing.schema import tables

if TYPE_CHECKING:
    from numpy.typing import NDArray


# Rows of error streams: the unusable data, their position, and the reason.


def error_rows(
    component: str, label: str, rows: pa.Table, positions: NDArray[np.int64] | None, reasons: list[str]
) -> pa.Table:
    """Returns rows as rows of the error stream.

    ``label``: the name of the input stream. ``positions``: positions of the rows in their source; None if unknown.
    ``reasons``: one for each row.
    """
    wrong = python_columns(rows)
    return pa.table(
        [
            pa.array([component] * rows.num_rows, pa.string()),
            pa.array([label] * rows.num_rows, pa.string()),
            pa.nulls(rows.num_rows, pa.int64()) if positions is None else pa.array(positions),
            pa.array(reasons, pa.string()),
            pa.array([row_as_json(wrong, index) for index in range(rows.num_rows)], pa.string()),
        ],
        schema=ERROR_SCHEMA,
    )


def as_errors_of(component: str, rows: pa.Table) -> pa.Table:
    """Returns the error rows under the name of another component."""
    return rows.set_column(0, ERROR_SCHEMA.field(0), pa.array([component] * len(rows), pa.string()))


# UnusableEvents rows: they are counted as invalid and go to error streams, and the first is reported.


@dataclass(frozen=True)
class UnusableEvents:
    """One or more events of one input that cannot be used."""

    input_index: int
    rows: pa.Table
    positions: NDArray[np.int64] | None
    """Positions in the source; None if unknown."""
    reasons: list[str]
    """Reasons why each event cannot be used."""
    file: str = ""
    """The file of the positions, if there is one."""


def refuse(
    node: WindowedNode, unusable: UnusableEvents, clock: int, ledger: Ledger, emit: EmitRows, copies: int = 1
) -> None:
    """Counts the events as invalid and emits them on the error stream of the bolt, once for every copy.

    ``clock`` is in microseconds. Raises DataError if the topology stops on invalid input.
    """
    rows, positions, reasons = unusable.rows, unusable.positions, unusable.reasons
    label = unusable.file or node.streams[unusable.input_index]
    ledger.count(node, unusable.input_index, "invalid", rows.num_rows * copies)
    ledger.note_unreadable(node.name, label, reasons[0] if positions is None else f"row {positions[0]}: {reasons[0]}")
    bad = error_rows(node.name, label, rows, positions, reasons)
    for _ in range(copies):
        emit((node.name, ERRORS), Rows.without_source(bad, clock))


def refuse_by_rule(
    node: WindowedNode,
    events: RetainedEvents,
    refused: list[tuple[int, str]],
    clock: int,
    ledger: Ledger,
    emit: EmitRows,
) -> None:
    """Counts events on which a trigger's rule failed as invalid, and emits them on the refused stream or the error
    stream.

    ``refused``: (index, reason) of each.
    """
    indices = np.array([row for row, _ in refused], np.int64)
    inputs = np.zeros(len(events), np.int8) if events.streams is None else events.streams
    reasons, stream = [reason for _, reason in refused], node.bolt.settings.refused_stream
    _trace(node, take_rows(events.payload, indices), reasons, ledger)
    if stream is not None:
        ledger.count_chosen(node, "invalid", inputs, np.isin(np.arange(len(events)), indices))
        rows = take_rows(events.payload, indices).append_column(REASON, pa.array(reasons, pa.string()))
        ledger.note_unreadable(node.name, stream, reasons[0])
        emit((node.name, stream), Rows.without_source(rows, clock, events.times[indices]))
        return
    for input_index in np.unique(inputs[indices]).tolist():
        is_of_input = inputs[indices] == input_index
        input_reasons = [reason for reason, chosen in zip(reasons, is_of_input, strict=True) if chosen]
        unusable = UnusableEvents(input_index, take_rows(events.payload, indices[is_of_input]), None, input_reasons)
        refuse(node, unusable, clock, ledger, emit)


def refuse_end_edges(
    node: WindowedNode, rows: pa.Table, inputs: NDArray[np.int8], clock: int, ledger: Ledger, emit: EmitRows
) -> None:
    """Counts end edges that match no start as invalid, and emits them on the error stream."""
    reason = "the end of an edge, and no start edge with its start and key has come before that end"
    _trace(node, rows, [reason] * rows.num_rows, ledger)
    for input_index in np.unique(inputs).tolist():
        indices = np.flatnonzero(inputs == input_index)
        unusable = UnusableEvents(input_index, take_rows(rows, indices), indices, [reason] * len(indices))
        refuse(node, unusable, clock, ledger, emit)


def _trace(node: WindowedNode, rows: pa.Table, reasons: list[str], ledger: Ledger) -> None:
    """Traces admitted events that turned out to be invalid, if they have ids."""
    if ledger.tracing:
        for name, reason in zip(event_ids(rows), reasons, strict=False):
            ledger.trace("refused", {"bolt": node.name, "event": name, "reason": reason})


def refuse_unreadable(
    topology: Graph, component: str, bad: pa.Table, clock: int, ledger: Ledger, emit: EmitRows
) -> None:
    """Counts unreadable rows of a spout, or rows on which a plain bolt failed, as invalid at every bolt that they would
    have reached. Emits them on the error streams of the spout or bolt and of these bolts. ``bad``: its error rows."""
    if not len(bad):
        return
    ledger.note_unreadable(component, bad.column("_source")[0].as_py(), bad.column("_reason")[0].as_py())
    emit((component, ERRORS), Rows.without_source(bad, clock))
    for name, input_index in sorted(_inputs_reached(topology, component)):
        _count_received_and_invalid(topology, name, input_index, len(bad), ledger)
        if ledger.tracing and name in topology.windowed:
            for row in bad.filter(pc.is_valid(bad.column("_row"))).to_pylist():  # rows without a number are whole files
                ledger.trace("invalid", {"bolt": name, "row": row["_row"], "reason": row["_reason"]})
        emit((name, ERRORS), Rows.without_source(as_errors_of(name, bad), clock))


def count_refused(topology: Graph, component: str, rows: int, ledger: Ledger) -> None:
    """Counts rows that a plain bolt refused as invalid at every windowed bolt that they would have reached."""
    for name, input_index in _inputs_reached(topology, component):
        _count_received_and_invalid(topology, name, input_index, rows, ledger)


def _count_received_and_invalid(topology: Graph, name: str, input_index: int, rows: int, ledger: Ledger) -> None:
    """Counts rows as received and invalid at a bolt that they would have reached, if it is windowed."""
    node = topology.windowed.get(name)
    if node is not None:
        ledger.count(node, input_index, "received", rows * node.copies(input_index))
        ledger.count(node, input_index, "invalid", rows * node.copies(input_index))


def _inputs_reached(topology: Graph, component: str) -> set[tuple[str, int]]:
    """Returns the inputs (bolt, input index) that readable rows of a spout or plain bolt reach with no window
    between."""
    inputs: set[tuple[str, int]] = set()
    waiting = [component]
    while waiting:
        source = waiting.pop()
        plain = topology.plain.get(source)
        refused = (ERRORS, None if plain is None else plain.bolt.refused_stream)
        for (name, stream), readers in topology.readers.items():
            if name != source or stream in refused:
                continue
            for reader in readers:
                if reader not in inputs:
                    inputs.add(reader)
                    waiting.extend([reader[0]] if reader[0] in topology.plain else [])
    return inputs


# Runs plain bolts within the task that reads or emits their rows (decision 6).


_MOST_CALLS = 100
"""Most calls of a BatchBolt for one table in which rows with cut times and other rows alternate."""


Failures = list[tuple[int, str]]
"""Rows on which a bolt has failed, if its errors go to its error stream: index and reason."""


class PlainBolts:
    """The plain bolts of a task, each prepared on first use."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._prepared: dict[tuple[str, int], Bolt | BatchBolt] = {}

    def run(self, node: PlainNode, input_index: int, rows: Rows, failures: Failures) -> Iterator[tuple[str, Rows]]:
        """Yields (stream, rows) that a bolt emits for rows of one input; adds rows on which it fails to
        ``failures``."""
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
                emitted = _call_bolt(bolt, event, node, index, names, failures)
            for stream, table in emitted or ():
                collected = gathered.setdefault(stream, ([], []))
                collected[0].append(table)
                collected[1].extend([index] * table.num_rows)
        for stream, (tables_of_stream, indices) in gathered.items():
            sources = np.array(indices, np.int64)
            times_of_rows = (
                rows.times[sources] if rows.times is not None and (node.brings_time or node.brings_clock) else None
            )
            yield stream, rows.with_content(pa.concat_tables(tables_of_stream), times_of_rows, sources)

    def _batch_by_batch(
        self, node: PlainNode, bolt: BatchBolt, rows: Rows, failures: Failures
    ) -> Iterator[tuple[str, Rows]]:
        """Calls the bolt with all rows at once, or, if rows have times, with the rows of each time in turn, so that the
        output gets this time. Rows with cut times are passed in separate calls, so that their output is counted as cut
        too. If rows with and without cut times alternate too often, only the spout counts cut times (decision 99).

        The output has no partition, because the input row of each output row is unknown.
        """
        has_times = rows.times is not None and (node.brings_time or node.brings_clock)
        begins_call = np.zeros(max(rows.table.num_rows - 1, 0), np.bool_)  # rows where a new call begins
        if rows.times is not None and has_times:
            begins_call |= np.diff(rows.times) != 0
        is_cut = rows.truncated
        if is_cut is not None:
            edges = np.diff(is_cut)
            has_few_edges = np.count_nonzero(edges) <= _MOST_CALLS
            is_cut, begins_call = (is_cut, begins_call | edges) if has_few_edges else (None, begins_call)
        names = rows.table.column_names
        gathered: dict[str, tuple[list[pa.Table], list[int]]] = {}
        for start, stop in pairwise([0, *(np.flatnonzero(begins_call) + 1).tolist(), rows.table.num_rows]):
            with bolt_failure(node.name, self._context.batch, f"on rows {start} to {stop}", columns=names):
                emitted = _call_with_halves(bolt, rows.table, (start, stop), node, failures)
            for stream, table in emitted:
                collected = gathered.setdefault(stream, ([], []))
                collected[0].append(table)
                collected[1].append(start)
        for stream, (tables_of_stream, starts) in gathered.items():
            sizes = [table.num_rows for table in tables_of_stream]
            first_rows = np.repeat(np.array(starts, np.int64), sizes)  # for each output row, the first row of its call
            positions = rows.positions[first_rows] + np.concatenate([np.arange(size) for size in sizes])
            times = rows.times[first_rows] if rows.times is not None and has_times else None
            truncated = None if is_cut is None else is_cut[first_rows]
            out = pa.concat_tables(tables_of_stream)
            yield stream, Rows(out, times, positions, rows.clock, has_positions=False, truncated=truncated)

    def _bolt(self, node: PlainNode, task: int) -> Bolt | BatchBolt:
        if (node.name, task) not in self._prepared:
            bolt = deepcopy(node.bolt)
            with bolt_failure(node.name, self._context.batch, "in prepare"):
                bolt.prepare(TaskContext(node.name, task, node.parallelism, self._context.run))
            self._prepared[node.name, task] = bolt
        return self._prepared[node.name, task]


def _call_bolt(
    bolt: Bolt | BatchBolt, argument: Any, node: PlainNode, index: int | None, columns: list[str], failures: Failures
) -> list[tuple[str, pa.Table]] | None:
    """Returns the tables that a bolt emits for a tuple, or a table. Returns None if it fails and its errors go to its
    error stream.

    ``index``: of the row, for ``failures``; None for several rows.
    """
    if bolt.on_error == "stop":
        return list(tables(bolt.execute(argument), node.outputs))
    try:
        return list(tables(bolt.execute(argument), node.outputs))  # all or nothing, also for generators
    except Exception as error:
        if not is_caused_by_event(error):
            raise
        if index is not None:
            failures.append((index, cause(error, columns)))
        return None


def _call_with_halves(
    bolt: BatchBolt, table: pa.Table, rows: tuple[int, int], node: PlainNode, failures: Failures
) -> list[tuple[str, pa.Table]]:
    """Returns a BatchBolt's output without the failing rows, which are found by calls with halves of the rows."""
    start, stop = rows
    index = start if stop - start == 1 else None
    found = _call_bolt(bolt, table.slice(start, stop - start), node, index, table.column_names, failures)
    if found is not None or index is not None:
        return found or []
    middle = (start + stop) // 2
    halves = ((start, middle), (middle, stop))
    return [each for half in halves for each in _call_with_halves(bolt, table, half, node, failures)]
