"""Routes the rows that one task reads or emits: through plain bolts, to windowed bolts, into sinks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from manager.keyed.held import Held
from manager.storage.taking import take_rows
from topologies.engine.batch.context import Context
from topologies.engine.ingest.error_rows import of_component
from topologies.engine.ingest.plain_bolts import PlainBolts
from topologies.engine.ingest.refusing import Unusable, refuse
from topologies.engine.ingest.staging import Staging
from topologies.engine.ingest.windowed_inputs import WindowedInputs
from topologies.engine.ledger.ledger import Ledger
from topologies.engine.rows.rows import Rows
from topologies.engine.work.output import Output
from topologies.graph.nodes.plain import PlainNode
from topologies.graph.nodes.windowed import WindowedNode
from topologies.graph.side_streams import ERRORS, REASON
from topologies.graph.streams import Stream

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Router:
    """Routes the rows that one task reads or emits to the bolts and sinks that read them."""

    def __init__(self, context: Context) -> None:
        self.context, self.topology = context, context.topology
        self.ledger = Ledger(context.topology, traced=context.traced)
        self._staging, self._plain = Staging(context), PlainBolts(context)
        self._windowed = WindowedInputs(context, self.ledger, self._staging)

    def emit(self, stream: Stream, rows: Rows) -> None:
        """Route rows of a stream to its sinks and bolts."""
        if not rows.table.num_rows:
            return
        for sink in self.topology.takers.get(stream, ()):
            self._staging.serve(sink, rows.table)
        for name, input_index in self.topology.readers.get(stream, ()):
            if name in self.topology.windowed:
                self._windowed.arrive(self.topology.windowed[name], input_index, rows, self.emit)
            else:
                self._run(self.topology.plain[name], input_index, rows)

    def finish(self, spouts: Mapping[str, Mapping[str, int]] | None = None) -> Output:
        """Write all routed rows and all records; return their references. ``spouts`` are counts of rows by spout."""
        with self.context.store.writer(self.context.key) as writer:
            return Output(self._staging.write(writer), self.ledger.write(writer), spouts or {})

    def refuse(self, component: str, bad: pa.Table, clock: int) -> None:
        """Count unreadable rows of a spout as invalid at every bolt that they would have reached, and emit them on the
        error streams, its own and those of the bolts. ``bad`` are its error rows."""
        if not len(bad):
            return
        self.ledger.complain(component, bad.column("_source")[0].as_py(), bad.column("_reason")[0].as_py())
        self._emit_errors(component, bad, clock)
        for name, input_index in sorted(self._reached(component)):
            self._count_unread(name, input_index, len(bad))
            if self.ledger.traced and name in self.topology.windowed:
                for row in bad.filter(pc.is_valid(bad.column("_row"))).to_pylist():  # the others are whole files
                    self.ledger.trace("invalid", {"bolt": name, "row": row["_row"], "reason": row["_reason"]})
            self._emit_errors(name, of_component(name, bad), clock)

    def refuse_events(self, node: WindowedNode, events: Held, refused: list[tuple[int, str]]) -> None:
        """Count events on which a trigger's rule failed as invalid, and emit them on the refused or the error stream.

        ``refused`` has (index, reason) of each.
        """
        indices = np.array([row for row, _ in refused], np.int64)
        inputs = np.zeros(len(events), np.int8) if events.streams is None else events.streams
        reasons, clock = [reason for _, reason in refused], self.context.clock
        stream = node.bolt.settings.refused_stream
        if stream is not None:
            self.ledger.count_chosen(node, "invalid", inputs, np.isin(np.arange(len(events)), indices))
            rows = take_rows(events.payload, indices).append_column(REASON, pa.array(reasons, pa.string()))
            self.ledger.complain(node.name, stream, reasons[0])
            self.emit((node.name, stream), Rows.made(rows, clock, events.times[indices]))
            return
        for input_index in np.unique(inputs[indices]).tolist():
            of_input = inputs[indices] == input_index
            why = [reason for reason, chosen in zip(reasons, of_input, strict=True) if chosen]
            unusable = Unusable(input_index, take_rows(events.payload, indices[of_input]), None, why)
            refuse(node, unusable, clock, self.ledger, self.emit)

    def refuse_edges(self, node: WindowedNode, rows: pa.Table, inputs: NDArray[np.int8]) -> None:
        """Count end edges that match no start as invalid, and emit them on the error stream."""
        reason = "the end of an edge, and no start edge with its start and key has come before that end (SI-3)"
        for input_index in np.unique(inputs).tolist():
            indices = np.flatnonzero(inputs == input_index)
            unusable = Unusable(input_index, take_rows(rows, indices), indices, [reason] * len(indices))
            refuse(node, unusable, self.context.clock, self.ledger, self.emit)

    def _run(self, node: PlainNode, input_index: int, rows: Rows) -> None:
        """Run a plain bolt on rows and route its output."""
        for stream, out in self._plain.run(node, input_index, rows):
            if stream == node.bolt.refused_stream:
                for name, reader_input in self._reached(node.name):
                    self._count_unread(name, reader_input, out.table.num_rows)
            self.emit((node.name, stream), out)

    def _count_unread(self, name: str, input_index: int, rows: int) -> None:
        """Count unreadable rows as received and invalid at a windowed bolt that they would have reached."""
        node = self.topology.windowed.get(name)
        if node is not None:
            self.ledger.count(node, input_index, "received", rows * node.copies(input_index))
            self.ledger.count(node, input_index, "invalid", rows * node.copies(input_index))

    def _emit_errors(self, component: str, bad: pa.Table, clock: int) -> None:
        self.emit((component, ERRORS), Rows.made(bad, clock))

    def _reached(self, component: str) -> set[tuple[str, int]]:
        """The (bolt, input index) that readable rows of a spout or plain bolt reach before any window."""
        reached: set[tuple[str, int]] = set()
        waiting = [component]
        while waiting:
            source = waiting.pop()
            plain = self.topology.plain.get(source)
            refused = (ERRORS, None if plain is None else plain.bolt.refused_stream)
            for (name, stream), readers in self.topology.readers.items():
                if name != source or stream in refused:
                    continue
                for reader in readers:
                    if reader not in reached:
                        reached.add(reader)
                        waiting.extend([reader[0]] if reader[0] in self.topology.plain else [])
        return reached
