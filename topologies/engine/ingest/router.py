"""Routes the rows that one task reads or emits: through plain bolts, to windowed bolts, into sinks."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from topologies.engine.batch.context import Context
from topologies.engine.ingest.call_plain_bolts import Failures, PlainBolts
from topologies.engine.ingest.error_rows import error_rows
from topologies.engine.ingest.refusing import count_refused, refuse_unreadable
from topologies.engine.ingest.staging import Staging
from topologies.engine.ingest.windowed_inputs import WindowedInputs
from topologies.engine.ledger.ledger import Ledger
from topologies.engine.rows.routed_rows import Rows
from topologies.engine.work.bolt_work import INPUT, WorkNotes
from topologies.engine.work.output import Output
from topologies.graph.nodes.plain import PlainNode
from topologies.graph.streams import Stream, stream_label


class Router:
    """Routes the rows that one task reads or emits to the bolts and sinks that read them."""

    def __init__(self, context: Context) -> None:
        self.context, self.topology = context, context.topology
        self.ledger = Ledger(context.topology, traced=context.traced, samples=context.samples_turned_away)
        self.work = WorkNotes()
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

    def finish(self, owner: str = INPUT, spouts: Mapping[str, Mapping[str, int]] | None = None) -> Output:
        """Write all routed rows and all records; return their references. ``owner``: the windowed bolt whose task this
        is, or the input. ``spouts`` are counts of rows by spout."""
        with self.context.store.writer(self.context.key) as writer:
            staged, recorded = self._staging.write(writer), self.ledger.write(writer)
        for bolt, work in self._staging.work.items():
            self.work.add(bolt, work)
        return Output(staged, recorded, spouts or {}, self.work.end(owner))

    def _run(self, node: PlainNode, input_index: int, rows: Rows) -> None:
        """Run a plain bolt on rows and route its output."""
        failures: Failures = []
        for stream, out in self.work.timed(node.name, self._plain.run(node, input_index, rows, failures)):
            if stream == node.bolt.refused_stream:
                count_refused(self.topology, node.name, out.table.num_rows, self.ledger)
            self.emit((node.name, stream), out)
        if failures:
            failed = rows.take(np.array([index for index, _ in failures], np.int64))
            label = rows.file or stream_label(node.inputs[input_index].stream)
            bad = error_rows(node.name, label, failed.table, failed.positions, [reason for _, reason in failures])
            refuse_unreadable(self.topology, node.name, bad, rows.clock, self.ledger, self.emit)
