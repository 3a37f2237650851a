"""Rows that cannot be used: they are counted as invalid, the first is complained about, all go to error streams."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from manager.keyed.held import Held
from manager.storage.segments.take_rows import take_rows
from topologies.engine.admission.recording import EmitRows
from topologies.engine.ingest.error_rows import error_rows, of_component
from topologies.engine.ledger.ledger import Ledger
from topologies.engine.ledger.trace import event_ids
from topologies.engine.rows.routed_rows import Rows
from topologies.graph.nodes.windowed import WindowedNode
from topologies.graph.side_streams import ERRORS, REASON
from topologies.topology import Topology

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Unusable:
    """Events of one input that cannot be used; at least one."""

    input_index: int
    rows: pa.Table
    positions: NDArray[np.int64] | None
    """Their positions in the source; None where they are no longer known."""
    reasons: list[str]
    """Why each cannot be used."""
    file: str = ""
    """The file that the positions are in, if they are in one."""


def refuse(node: WindowedNode, unusable: Unusable, clock: int, ledger: Ledger, emit: EmitRows, copies: int = 1) -> None:
    """Count the events as invalid and emit them on the error stream of the bolt, each once for every copy.

    ``clock`` is in microseconds. Raises DataError where the topology stops on invalid input.
    """
    rows, positions, reasons = unusable.rows, unusable.positions, unusable.reasons
    label = unusable.file or node.streams[unusable.input_index]
    ledger.count(node, unusable.input_index, "invalid", rows.num_rows * copies)
    ledger.complain(node.name, label, reasons[0] if positions is None else f"row {positions[0]}: {reasons[0]}")
    bad = error_rows(node.name, label, rows, positions, reasons)
    for _ in range(copies):
        emit((node.name, ERRORS), Rows.made(bad, clock))


def refuse_by_rule(
    node: WindowedNode, events: Held, refused: list[tuple[int, str]], clock: int, ledger: Ledger, emit: EmitRows
) -> None:
    """Count events on which a trigger's rule failed as invalid, and emit them on the refused or the error stream.

    ``refused`` has (index, reason) of each.
    """
    indices = np.array([row for row, _ in refused], np.int64)
    inputs = np.zeros(len(events), np.int8) if events.streams is None else events.streams
    reasons, stream = [reason for _, reason in refused], node.bolt.settings.refused_stream
    _trace(node, take_rows(events.payload, indices), reasons, ledger)
    if stream is not None:
        ledger.count_chosen(node, "invalid", inputs, np.isin(np.arange(len(events)), indices))
        rows = take_rows(events.payload, indices).append_column(REASON, pa.array(reasons, pa.string()))
        ledger.complain(node.name, stream, reasons[0])
        emit((node.name, stream), Rows.made(rows, clock, events.times[indices]))
        return
    for input_index in np.unique(inputs[indices]).tolist():
        of_input = inputs[indices] == input_index
        why = [reason for reason, chosen in zip(reasons, of_input, strict=True) if chosen]
        unusable = Unusable(input_index, take_rows(events.payload, indices[of_input]), None, why)
        refuse(node, unusable, clock, ledger, emit)


def refuse_end_edges(
    node: WindowedNode, rows: pa.Table, inputs: NDArray[np.int8], clock: int, ledger: Ledger, emit: EmitRows
) -> None:
    """Count end edges that match no start as invalid, and emit them on the error stream."""
    reason = "the end of an edge, and no start edge with its start and key has come before that end"
    _trace(node, rows, [reason] * rows.num_rows, ledger)
    for input_index in np.unique(inputs).tolist():
        indices = np.flatnonzero(inputs == input_index)
        unusable = Unusable(input_index, take_rows(rows, indices), indices, [reason] * len(indices))
        refuse(node, unusable, clock, ledger, emit)


def _trace(node: WindowedNode, rows: pa.Table, reasons: list[str], ledger: Ledger) -> None:
    """Trace events that were taken in, and then found to be invalid, where they have ids."""
    if ledger.traced:
        for name, reason in zip(event_ids(rows), reasons, strict=False):
            ledger.trace("refused", {"bolt": node.name, "event": name, "reason": reason})


def refuse_unreadable(
    topology: Topology, component: str, bad: pa.Table, clock: int, ledger: Ledger, emit: EmitRows
) -> None:
    """Count unreadable rows of a spout, or those on which a plain bolt failed, as invalid at every bolt that they would
    have reached, and emit them on the error streams, its own and those of the bolts. ``bad`` are its error rows."""
    if not len(bad):
        return
    ledger.complain(component, bad.column("_source")[0].as_py(), bad.column("_reason")[0].as_py())
    emit((component, ERRORS), Rows.made(bad, clock))
    for name, input_index in sorted(_reached(topology, component)):
        _count_missing(topology, name, input_index, len(bad), ledger)
        if ledger.traced and name in topology.windowed:
            for row in bad.filter(pc.is_valid(bad.column("_row"))).to_pylist():  # the others are whole files
                ledger.trace("invalid", {"bolt": name, "row": row["_row"], "reason": row["_reason"]})
        emit((name, ERRORS), Rows.made(of_component(name, bad), clock))


def count_refused(topology: Topology, component: str, rows: int, ledger: Ledger) -> None:
    """Count rows that a plain bolt refused as invalid at every windowed bolt that they would have reached."""
    for name, input_index in _reached(topology, component):
        _count_missing(topology, name, input_index, rows, ledger)


def _count_missing(topology: Topology, name: str, input_index: int, rows: int, ledger: Ledger) -> None:
    """Count rows as received and invalid at a bolt that they would have reached, if it is a windowed one."""
    node = topology.windowed.get(name)
    if node is not None:
        ledger.count(node, input_index, "received", rows * node.copies(input_index))
        ledger.count(node, input_index, "invalid", rows * node.copies(input_index))


def _reached(topology: Topology, component: str) -> set[tuple[str, int]]:
    """The (bolt, input index) that readable rows of a spout or plain bolt reach before any window."""
    reached: set[tuple[str, int]] = set()
    waiting = [component]
    while waiting:
        source = waiting.pop()
        plain = topology.plain.get(source)
        refused = (ERRORS, None if plain is None else plain.bolt.refused_stream)
        for (name, stream), readers in topology.readers.items():
            if name != source or stream in refused:
                continue
            for reader in readers:
                if reader not in reached:
                    reached.add(reader)
                    waiting.extend([reader[0]] if reader[0] in topology.plain else [])
    return reached
