"""The panes of a task's open windows, where windows fire more than once."""

from __future__ import annotations

from manager.keyed.pane_states import EvaluationTime, PaneDecisions, PaneStates
from manager.keyed.shut_windows import ShutWindows
from manager.storage.segments.ref import Ref
from manager.storage.segments.segments import SegmentStore, SegmentWriter
from manager.storage.task_state import AssignedState
from policies.marks import NONE
from topologies.engine.work.items import BatchEnd
from topologies.graph.nodes.windowed import WindowedNode
from windowing.settings.panes import Panes


class TaskPanes:
    """The states of a task's open windows, and the decisions about their firings."""

    def __init__(
        self, panes: Panes, node: WindowedNode, before: AssignedState, end: BatchEnd, store: SegmentStore
    ) -> None:
        self._panes, self._node, self._end = panes, node, end
        self._evaluations = before.evaluations
        self._states = PaneStates.of(None if before.panes is None else store.read(before.panes))

    @property
    def shut(self) -> ShutWindows | None:
        """The windows that a firing has closed before their end; None where none does."""
        return ShutWindows(self._states, self._node.assigners) if self._panes.closes else None

    @property
    def states(self) -> PaneStates:
        """The states of the windows that are open."""
        return self._states

    def decisions(self, upto: int | None, *, within_batch: bool) -> PaneDecisions:
        """The decisions of one evaluation, in which windows close that end up to this frontier (microseconds);
        ``within_batch``: before further events of the batch are added."""
        watermark = NONE if self._end.watermark is None else self._end.watermark
        closed_until = NONE if upto is None else upto
        ended_until = closed_until if within_batch else max(closed_until, self._ended_until(watermark))
        time = EvaluationTime(
            self._evaluations, self._end.clock, watermark, ended_until, closed_until, self._lateness(), within_batch
        )
        return PaneDecisions(self._panes, self._states, time)

    def update(self, decisions: PaneDecisions) -> None:
        """Take over the states of the windows after their evaluation."""
        self._states = decisions.states()

    def forget(self) -> None:
        """Called when no window is open any more."""
        self._states = PaneStates.of(None)

    def write(self, writer: SegmentWriter) -> Ref | None:
        """Write the states; None where no window is open."""
        return writer.add(self._states.table()) if len(self._states) else None

    def _lateness(self) -> int | None:
        """How long windows take late events, in microseconds; None where not only the watermark closes them."""
        settings = self._node.bolt.settings
        alone = self._node.event_time and settings.idle_timeout is None
        return settings.allowed_lateness.micros if alone else None

    def _ended_until(self, watermark: int) -> int:
        """The time up to which windows have ended, although late events may still be admitted to them."""
        if not self._node.event_time or watermark == NONE:
            return NONE
        return watermark - self._node.closes_after_end
