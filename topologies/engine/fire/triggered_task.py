"""One task whose windows are those of keys that a trigger fires: restored, fired, and saved."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from manager.keyed.held import Held
from manager.storage.segments.segments import SegmentWriter
from manager.storage.task_state import TriggeredState
from manager.triggered.triggered_windows import TriggeredWindows
from topologies.engine.admission.deciding import AdmissionContext
from topologies.engine.failures.user_code import bolt_failure
from topologies.engine.fire.admitting import Admitted
from topologies.engine.fire.held_events import TaskEvents, TaskKeys, no_events
from topologies.engine.fire.task_windows import Firing, TaskSnapshot
from topologies.engine.ingest.refusing import refuse_by_rule
from topologies.engine.ingest.router import Router
from topologies.engine.work.items import FireItem
from topologies.graph.nodes.windowed import WindowedNode
from windowing.time.timestamps import FOREVER

UNKNOWN = "unknown_trigger_status"
"""Counter of invalid answers of a trigger's rule, which fire and purge the window (UH-18)."""
FULL = "full"
"""Counter of windows that fired because they reached their capacity."""


class TriggeredTask:
    """The open windows of the keys of a task."""

    def __init__(self, item: FireItem, node: WindowedNode, router: Router) -> None:
        assert isinstance(item.state.windows, TriggeredState)
        self._item, self._node, self._router = item, node, router
        self._events = TaskEvents(router.context.store, item.state, len(node.inputs))
        self._keys = TaskKeys(router.context.store, item.state.windows, node)
        self._evaluated: tuple[Held, TriggeredWindows] | None = None
        """The events of this batch, old ones first, and their windows."""

    @property
    def admission_context(self) -> AdmissionContext:
        """Nothing: all events are admitted."""
        return AdmissionContext()

    def accept(self, admitted: Admitted) -> None:
        """Take the admitted events of the batch."""
        self._events.new = admitted.events

    def advance(self) -> Iterator[Firing]:
        """Yield the due windows and the forgotten keys in order."""
        node, old, trigger = self._node, self._events.old.live(), self._node.bolt.settings.key_trigger
        assert trigger is not None
        parts = [part for part in (old, self._events.new) if part is not None]
        events = self._keys.coded(Held.concat(parts or [no_events(node)]))
        windows = TriggeredWindows(
            trigger, events, 0 if old is None else len(old), self._keys.records, node.streams,
            key=node.bolt.settings.key, task=self._item.task, capacity=node.bolt.settings.capacity,
        )  # fmt: skip
        batch, task = self._router.context.batch, self._item.task
        with bolt_failure(node.name, batch, f"in task {task} in asking its trigger", task=task):
            yield from windows.windows(self._item.end.clock, close=self._item.frontiers.current == FOREVER)
        self._evaluated = events, windows
        if windows.refused:
            router = self._router
            refuse_by_rule(node, events, windows.refused, router.context.clock, router.ledger, router.emit)

    def snapshot(self, writer: SegmentWriter) -> TaskSnapshot:
        """The open windows: their events and the records of their keys."""
        assert self._evaluated is not None
        events, windows = self._evaluated
        flags = windows.flags()
        refs = self._events.write(writer, flags)
        keys, codes = self._keys.write(writer, events, flags)
        counted = {UNKNOWN: windows.unknown_answers, FULL: windows.full}
        return TaskSnapshot(
            TriggeredState(windows.next_due, windows.still_open, keys, codes),
            refs,
            self._events.accounted_by_stream(flags),
            {name: np.array(windows.accounts.by_stream(name)) for name in ("windowed", "purged")},
            {name: count for name, count in counted.items() if count},
        )
