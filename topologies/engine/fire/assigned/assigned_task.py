"""One task whose windows assigners form: restored, fired, and saved."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from manager.keyed.held import GONE, LAST, SEEN, Held
from manager.keyed.last_fired import LastFired
from manager.storage.segments.segments import SegmentWriter
from manager.storage.task_state import AssignedState
from policies.marks import NONE
from topologies.engine.admission.deciding import AdmissionContext
from topologies.engine.fire.admitting import Admitted
from topologies.engine.fire.assigned.evaluations import Evaluations, EvaluationScope
from topologies.engine.fire.assigned.key_watermarks import KeyWatermarks
from topologies.engine.fire.assigned.versions import end_versions
from topologies.engine.fire.assigned.waiting_edges import WaitingEdges
from topologies.engine.fire.held_events import TaskEvents, no_events
from topologies.engine.fire.task_windows import Firing, StillOpen, TaskSnapshot
from topologies.engine.ingest.router import Router
from topologies.engine.work.items import FireItem
from topologies.graph.key_codes import KeyCodes, key_rows
from topologies.graph.nodes.windowed import WindowedNode
from windowing.time.timestamps import FOREVER

if TYPE_CHECKING:
    from numpy.typing import NDArray


class AssignedTask:
    """The live events of a task and the windows that assigners form of them."""

    def __init__(self, item: FireItem, node: WindowedNode, router: Router) -> None:
        assert isinstance(item.state.windows, AssignedState)
        before, store = item.state.windows, router.context.store
        self._item, self._node, self._before = item, node, before
        self._events = TaskEvents(store, item.state, len(node.inputs))
        self._evaluate_before: tuple[tuple[int, int], ...] = ()
        """As in ``Admitted``."""
        self._edges = WaitingEdges(node, router, before.end_edges)
        self._keys = KeyWatermarks.restored(node, before, store)
        self._codes = KeyCodes.restored(node.keys, store, before.codes)
        self._evaluations = Evaluations(item, node, before, store, self._keys, self._codes)
        self._flags: NDArray[np.uint8] | None = None
        """The flags of each event after the evaluation, old ones first; None where there was none."""
        self._coded: NDArray[np.int64] | None = None
        """The codes of the keys of these events; None where they have no key."""
        self._listed = before.listed

    @property
    def admission_context(self) -> AdmissionContext:
        """The live events, for sessions and message ids, the watermarks of the keys, and what firings have closed."""
        key_marks = None if self._keys is None else self._keys.advance
        codes = self._code if any(self._node.keys) else None
        return AdmissionContext(self._live, key_marks, codes, shut=self._evaluations.shut)

    def accept(self, admitted: Admitted) -> None:
        """Take the admitted events of the batch."""
        versions, new = self._node.versions, admitted.events
        if versions is not None and new.streams is not None and (new.streams == versions).any():
            self._events.replace_all(end_versions(self._still_needed(), new, versions, self._codes))
        elif self._edges.concern(admitted):  # all events are then written again
            events = self._edges.match(self._still_needed(), admitted)
            self._events.replace_all(events if len(events) else None)
        else:
            self._events.new, self._evaluate_before = admitted.events, admitted.evaluate_before

    def advance(self) -> Iterator[Firing]:
        """Yield the due windows in order."""
        self._edges.expire(self._item.frontiers.current)
        if not self._may_be_due():
            if self._events.new is not None:
                self._evaluations.expect(int(self._events.new.times.min()))
            return
        self._listed = self._node.list_of_keys
        old = self._still_needed()
        parts = [part for part in (old, self._events.new) if part is not None]
        if self._evaluations.needs_no_events or any(part.has_live for part in parts):
            events = self._codes.apply(Held.concat(parts or [no_events(self._node)]), self._kept_by_key())
            self._flags = yield from self._evaluate(events, 0 if old is None else len(old))
        else:
            self._evaluations.forget()
            yield from self._still_open()
            self._raise_floor(self._item.end.floor)
        if self._keys is not None:
            self._keys.substreams.evaluated()

    def snapshot(self, writer: SegmentWriter) -> TaskSnapshot:
        """The live events, and what is known of their keys and windows."""
        before, evaluations = self._before, self._evaluations
        refs = self._events.write(writer, self._flags)
        keys = None if self._keys is None else self._keys.write(writer)
        edges = self._edges.write(writer)
        ends = (evaluations.next_end, None if edges is None else edges.earliest_end)
        windows = AssignedState(
            next_end=min((end for end in ends if end is not None), default=None),
            last_end=max((end for end in (before.last_end, evaluations.last_end) if end is not None), default=None),
            evaluations=before.evaluations + 1,
            floor=before.floor if self._keys is None else self._keys.floor,
            open_ends=evaluations.open_ends,
            waiting_by_stream=() if edges is None else edges.ref.by_stream,
            keys=keys,
            known=evaluations.write_known(writer, evaluated=self._flags is not None),
            listed=self._listed,
            panes=evaluations.write_panes(writer),
            released=evaluations.write_released(writer),
            end_edges=None if edges is None else edges.ref,
            codes=self._codes.write(writer, self._coded, self._flags, self._kept_by_key() if len(self._codes) else []),
        )
        accounted = self._events.accounted_by_stream(self._flags)
        return TaskSnapshot(windows, refs, accounted, evaluations.counts)

    def _code(self, arriving: Held) -> NDArray[np.int64]:
        """As in ``KeyCoder``."""
        old = self._events.old.live(*self._columns_of_keys)
        parts = [arriving] if old is None else [_of_keys(old, self._node), _of_keys(arriving, self._node)]
        keys = self._codes.apply(Held.concat(parts), self._kept_by_key()).keys
        assert keys is not None
        return keys[len(keys) - len(arriving) :]

    def _live(self, *columns: str) -> Held | None:
        """The live events of earlier batches, by the codes of their keys."""
        old = self._events.old.live(*dict.fromkeys([*columns, *self._columns_of_keys]) if columns else ())
        return None if old is None else self._codes.apply(old, self._kept_by_key())

    @property
    def _columns_of_keys(self) -> list[str]:
        return list(dict.fromkeys(name for names in self._node.keys for name in names))

    def _kept_by_key(self) -> list[pa.Table]:
        """What is kept of keys that may have no events: their codes and values."""
        marks = None if self._keys is None else self._keys.substreams.all()
        return [table for table in (marks, self._evaluations.known_keys) if table is not None]

    def _may_be_due(self) -> bool:
        """Whether a window may be due. If not, the events of earlier batches are not read."""
        frontier, new, settings = self._item.frontiers.current, self._events.new, self._node.bolt.settings
        if settings.panes is not None or settings.idle_timeout is not None or self._keys is not None:
            return True
        if frontier is None:
            return False
        if frontier == FOREVER or self._evaluate_before or self._listed != self._node.list_of_keys:
            return True
        next_end = self._evaluations.next_end
        return (next_end is not None and next_end <= frontier) or (new is not None and int(new.times.min()) <= frontier)

    def _still_needed(self) -> Held | None:
        return self._events.old.needed() if self._node.remembers else self._events.old.live()

    def _evaluate(self, events: Held, old: int) -> Generator[Firing, None, NDArray[np.uint8]]:
        """Yield the due windows of these events, the first ``old`` of which are of earlier batches; returns their
        flags."""
        frontiers, run = self._item.frontiers, self._evaluations.run
        self._coded = events.keys
        flags = events.flags() & np.uint8(SEEN | GONE)
        last = LastFired(events, self._node.streams) if self._node.remembers else None
        after: int = NONE if frontiers.previous is None else frontiers.previous
        for index, limit in self._evaluate_before:
            upto = max(after, limit)
            flags = yield from run(EvaluationScope(events, old + index, after, upto, last), flags)
            yield from self._still_open()
            after = upto
        self._raise_floor(self._item.end.floor)
        flags = yield from run(EvaluationScope(events, len(events), after, frontiers.current, last), flags)
        yield from self._still_open()
        if frontiers.current == FOREVER and self._evaluations.last_end is not None:
            self._raise_floor(self._evaluations.last_end)
        return flags if last is None else flags | (last.flags() * np.uint8(LAST))

    def _still_open(self) -> Iterator[StillOpen]:
        """Yield the windows that are still open, where their rows may be taken back."""
        if self._node.retracts and self._evaluations.open_panes is not None:
            yield StillOpen(self._evaluations.open_panes)

    def _raise_floor(self, floor: int) -> None:
        if self._keys is not None:
            self._keys.substreams.raise_floor(floor)


def _of_keys(held: Held, node: WindowedNode) -> Held:
    """Events with no more than their keys."""
    values = key_rows(held.payload, held.streams, node.keys)
    return Held(times=held.times, payload=values, keys=held.keys)
