"""What is recorded of each window that fires, for those who watch the run."""

from __future__ import annotations

from topologies.engine.batch.context import Context
from topologies.engine.ledger.ledger import Ledger
from topologies.engine.ledger.trace import window_row
from topologies.engine.ledger.trace_contexts import TraceContexts, carries_contexts
from topologies.graph.nodes.windowed import WindowedNode
from windowing.window import TupleWindow


class FiredWindows:
    """Records the windows that fire in one task and batch."""

    def __init__(self, node: WindowedNode, context: Context, ledger: Ledger) -> None:
        self._node, self._batch, self._ledger, self._traced = node, context.batch, ledger, context.traced
        self._ends: list[int] | None = [] if context.notes_window_ends else None
        sampled = context.samples_traces and carries_contexts(node.schema)
        self._contexts = TraceContexts() if sampled else None
        self.wanted = context.notes_window_ends or context.traced or sampled
        """Whether anything is to be recorded."""

    def note(self, window: TupleWindow) -> None:
        """Record a window."""
        if self._ends is not None:
            self._ends.append(window.end_timestamp)
        if self._contexts is not None:
            self._contexts.look_at(window)
        if self._traced:
            self._ledger.trace("windows", window_row(self._node, self._batch, window))

    def hand_over(self) -> None:
        """Hand the records to the ledger."""
        if self._ends:
            self._ledger.note_window_ends(self._node, self._ends)
        if self._contexts is not None:
            self._ledger.note_trace_contexts(self._node, self._contexts.of_ends)
