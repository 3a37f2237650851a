"""Windows of keys that a trigger fires, in one task."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from manager.keyed.held import GONE, SEEN, Held
from manager.keyed.key_states import KeyStates
from manager.storage.segments import SegmentWriter
from manager.storage.task_state import TriggeredState
from manager.triggered.windows import TriggeredWindows
from topologies.engine.admission.deciding import AdmissionContext
from topologies.engine.fire.admitting import Admitted
from topologies.engine.fire.held_task import HeldTask
from topologies.engine.fire.task_windows import Firing, TaskSnapshot
from topologies.engine.ingest.router import Router
from topologies.engine.work.items import FireItem
from topologies.graph.model import WindowedNode
from windowing.time.timestamps import FOREVER

UNKNOWN = "unknown_trigger_status"
"""Counter of invalid answers of a trigger's rule, which fire and purge the window (UH-18)."""
FULL = "full"
"""Counter of windows that fired because they reached their capacity."""


class TriggeredTask(HeldTask):
    """The open windows of the keys of a task."""

    def __init__(self, item: FireItem, node: WindowedNode, router: Router) -> None:
        super().__init__(item, node, router)
        assert isinstance(item.state.windows, TriggeredState)
        self._before = item.state.windows
        keys = self._before.keys
        self._key_states = KeyStates(None if keys is None else self.context.store.read(keys), node.bolt.settings.key)
        self._events: Held | None = None
        self._windows: TriggeredWindows | None = None

    @property
    def admission_context(self) -> AdmissionContext:
        """Nothing: all events are admitted."""
        return AdmissionContext()

    def accept(self, admitted: Admitted) -> None:
        """Take the admitted events of the batch."""
        self._new = admitted.events

    def advance(self) -> Iterator[Firing]:
        """Yield the due windows and the forgotten keys in order."""
        old = self._old.live()
        parts = [part for part in (old, self._new) if part is not None]
        events = self._events = Held.concat(parts) if parts else self._none()
        node, trigger = self.node, self.node.bolt.settings.key_trigger
        assert trigger is not None
        before = 0 if old is None else len(old)
        windows = self._windows = TriggeredWindows(
            trigger, events, before, self._key_states, node.streams, key=node.bolt.settings.key, task=self.item.task,
            capacity=node.bolt.settings.capacity,
        )  # fmt: skip
        yield from windows.windows(self.item.end.clock, close=self.item.frontiers.current == FOREVER)
        self._evaluated = True
        flags = windows.flags()
        self._been_in_window, self._unneeded = (flags & SEEN) != 0, (flags & GONE) != 0
        if windows.refused:
            self.router.refuse_events(node, events, windows.refused)

    def snapshot(self, writer: SegmentWriter) -> TaskSnapshot:
        """The open windows: their events and the records of their keys."""
        windows, keys = self._windows, self._before.keys
        assert windows is not None
        refs = self._write_needed(writer, len(self.node.inputs))
        if self._key_states.changed:
            table = self._key_states.table(None if self._events is None else self._events.payload)
            keys = None if table is None else writer.add(table)
        counted = {UNKNOWN: windows.unknown_answers, FULL: windows.full}
        return TaskSnapshot(
            TriggeredState(windows.next_due, windows.still_open, keys),
            refs,
            self._accounted(len(self.node.inputs)),
            {name: np.array(windows.accounts.by_stream(name)) for name in ("windowed", "purged")},
            {name: count for name, count in counted.items() if count},
        )

    def _none(self) -> Held:
        """An empty set of events with the columns of the bolt."""
        none = np.zeros(0, np.int64)
        streams = np.zeros(0, np.int8) if len(self.node.inputs) > 1 else None
        return Held(times=none, payload=self.node.schema.empty_table(), streams=streams, keys=none)
