"""The task of a bolt whose windows are fired by a key trigger: admits events, fires due windows, keeps open windows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from manager.keyed.held import GONE, SEEN, Held
from manager.keyed.key_states import KeyStates
from manager.keyed.triggered import Forgotten, TriggeredWindows
from manager.storage.manifest import TaskState
from policies.marks import NONE
from topologies.engine.batch.plan import Context, FireItem
from topologies.engine.fire.deciding import let_in
from topologies.engine.fire.held_task import HeldTask
from topologies.graph.model import WindowedNode
from windowing.time.timestamps import FOREVER
from windowing.window import TupleWindow

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from topologies.engine.ingest.router import Router

KEY_RECORDS = "keys"
"""Name of the table, in a task's state, of the key records."""

UNKNOWN = "unknown_trigger_status"
"""Counter of invalid answers of a trigger's rule, which fire and purge the window (UH-18)."""
FULL = "full"
"""Counter of windows that fired because they reached their capacity."""


class TriggeredTask(HeldTask):
    """One evaluation of such a task, in one batch."""

    def __init__(self, item: FireItem, node: WindowedNode, router: Router, context: Context) -> None:
        super().__init__(node, item.state, context.store)
        self.item, self.router, self.context = item, router, context
        self.windowed = np.zeros(len(node.inputs), np.int64)
        self.purged = np.zeros(len(node.inputs), np.int64)
        admitted = let_in(item, node, router)
        self._new = None if admitted is None else admitted.events
        keys_table = item.state.tables.get(KEY_RECORDS)
        self._key_states = KeyStates(
            None if keys_table is None else context.store.read(keys_table), node.bolt.settings.key
        )
        self._next_due, self._open = item.state.next_end, item.state.open_windows
        self._events: Held | None = None
        self._counters: dict[str, int] = {}

    @property
    def _arrived(self) -> Held | None:
        return self._new

    @property
    def counts(self) -> dict[str, NDArray[np.int64]]:
        """Per account, the counts of events by input stream."""
        return {"windowed": self.windowed, "purged": self.purged}

    @property
    def over(self) -> int:
        """No limit: trigger-fired windows are never retracted."""
        return NONE

    def windows(self) -> Iterator[TupleWindow | Forgotten]:
        """Yield the due windows and the forgotten keys in order. Exhaust the iterator before calling ``finish``."""
        old = self._old.live()
        parts = [part for part in (old, self._new) if part is not None]
        events = self._events = Held.concat(parts) if parts else self._none()
        node, trigger = self.node, self.node.bolt.settings.key_trigger
        assert trigger is not None
        before = 0 if old is None else len(old)
        windows = TriggeredWindows(
            trigger, events, before, self._key_states, node.streams, key=node.bolt.settings.key, task=self.item.task,
            capacity=node.bolt.settings.capacity,
        )  # fmt: skip
        yield from windows.windows(self.item.clock, close=self.item.frontier == FOREVER)
        self._evaluated = True
        flags = windows.flags()
        self._seen, self._gone = (flags & SEEN) != 0, (flags & GONE) != 0
        self.windowed += windows.accounts.by_stream("windowed")
        self.purged += windows.accounts.by_stream("purged")
        self._next_due, self._open = windows.next_due, windows.still_open
        counted = {UNKNOWN: windows.unknown_answers, FULL: windows.full}
        self._counters = {name: count for name, count in counted.items() if count}
        if windows.refused:
            self.router.refuse_events(node, events, windows.refused)

    def finish(self) -> TaskState:
        """Write the events that are still needed; return the state of the task after the batch."""
        with self.context.store.writer(self.context.folder) as writer:
            refs = self._kept(writer, len(self.node.inputs))
            tables = dict(self.state.tables)
            if self._key_states.changed:
                tables.pop(KEY_RECORDS, None)
                table = self._key_states.table(None if self._events is None else self._events.payload)
                if table is not None:
                    tables[KEY_RECORDS] = writer.add(table)
        decided = self._decided(len(self.node.inputs))
        return replace(
            self.state.counted(self._counters), refs=refs, tables=tables, decided_by_stream=decided,
            next_end=self._next_due, open_windows=self._open,
        )  # fmt: skip

    def _none(self) -> Held:
        """An empty set of events with the columns of the bolt."""
        none = np.zeros(0, np.int64)
        streams = np.zeros(0, np.int8) if len(self.node.inputs) > 1 else None
        return Held(none, pa.Table.from_pylist([], schema=self.node.schema), streams, none)
