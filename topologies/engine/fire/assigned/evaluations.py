"""Evaluations of a task's windows: from live events to windows, and what is known of the windows afterwards."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from manager.keyed.assigned import AssignedWindows, Span
from manager.keyed.held import GONE, SEEN, Held
from manager.keyed.last_fired import LastFired
from manager.keyed.pane_states import PaneDecisions, PaneStates
from manager.keyed.released import ReleasedEnds
from manager.keyed.shut_windows import ShutWindows
from manager.storage.segments.ref import Ref
from manager.storage.segments.segments import SegmentStore, SegmentWriter
from manager.storage.task_state import AssignedState
from policies.marks import NONE
from topologies.engine.fire.assigned.key_watermarks import KeyWatermarks
from topologies.engine.fire.assigned.task_known_keys import TaskKnownKeys
from topologies.engine.fire.assigned.task_panes import TaskPanes
from topologies.engine.work.items import FireItem
from topologies.graph.key_codes import KeyCodes
from topologies.graph.nodes.windowed import WindowedNode
from windowing.window import TupleWindow

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class EvaluationScope:
    """The events that one evaluation looks at, and the range of window ends that it looks for, in microseconds."""

    events: Held
    count: int
    """Number of events, from the first one on, that are looked at."""
    after: int
    upto: int | None
    last: LastFired | None
    """The last window of each key; None where the bolt does not ask for expired events."""

    @property
    def within_batch(self) -> bool:
        """Whether further events of the batch are added afterwards."""
        return self.count < len(self.events)


class Evaluations:
    """Evaluates the windows of a task, and keeps what is known of them from one evaluation to the next."""

    def __init__(
        self,
        item: FireItem,
        node: WindowedNode,
        before: AssignedState,
        store: SegmentStore,
        keys: KeyWatermarks | None,
        codes: KeyCodes,
    ) -> None:
        settings = node.bolt.settings
        self._node, self._task, self._keys = node, item.task, keys
        self._panes = None if settings.panes is None else TaskPanes(settings.panes, node, before, item.end, store)
        until = settings.empty_windows_until
        self._known = None if until is None else TaskKnownKeys(until, node, before, item, store, codes)
        self._released = ReleasedEnds.of(None if before.released is None else store.read(before.released))
        self.next_end = before.next_end
        """A time, in microseconds, before which no further window ends; None where none is open."""
        self.open_ends: tuple[int, ...] = tuple(before.open_ends)
        """The ends of the windows that hold events, where an idle timeout may close them."""
        self.last_end: int | None = None
        """The end of the last window that fired in this batch."""
        self.counts = {name: np.zeros(len(node.inputs), np.int64) for name in ("windowed", "unwindowed")}
        """Events that entered these accounts in this batch, by input."""

    @property
    def shut(self) -> ShutWindows | None:
        """The windows that a firing has closed before their end; None where none does."""
        return None if self._panes is None else self._panes.shut

    @property
    def open_panes(self) -> PaneStates | None:
        """The open windows as they are known after an evaluation; None where windows fire only once."""
        return None if self._panes is None else self._panes.states

    @property
    def known_keys(self) -> pa.Table | None:
        """The keys whose windows fire without events; None where there are none."""
        return None if self._known is None else self._known.table

    @property
    def needs_no_events(self) -> bool:
        """Whether windows may fire although there are no live events."""
        return self._known is not None and len(self._known) > 0

    def run(self, given: EvaluationScope, flags: NDArray[np.uint8]) -> Generator[TupleWindow, None, NDArray[np.uint8]]:
        """Yield the windows that are due; returns the flags (SEEN, GONE) of all events afterwards. ``flags`` are those
        before."""
        chosen = np.flatnonzero((flags[: given.count] & GONE) == 0)
        whole = len(chosen) == len(given.events)
        held = replace(given.events if whole else given.events.take(chosen), seen=(flags[chosen] & SEEN) != 0)
        windows = AssignedWindows(
            self._node.assigners, held, self._node.streams, keys=self._node.keys,
            task=self._task, released=self._released, last=None if given.last is None else (given.last, chosen),
        )  # fmt: skip
        span = self._span(windows, held, given)
        for window in self._due(windows, span, given):
            self.last_end = max(window.end_timestamp, NONE if self.last_end is None else self.last_end)
            yield window
        for name in self.counts:
            self.counts[name] += windows.accounts.by_stream(name)
        after = flags.copy()
        after[chosen] = windows.flags()
        return after

    def forget(self) -> None:
        """Called instead of an evaluation where there are no live events: no window is open."""
        self.next_end, self.open_ends, self._released = None, (), ReleasedEnds.of(None)
        if self._panes is not None:
            self._panes.forget()

    def expect(self, earliest: int) -> None:
        """Note an event that no evaluation has seen yet, by its time in microseconds: no window of it ends before."""
        self.next_end = earliest if self.next_end is None else min(earliest, self.next_end)

    def write_panes(self, writer: SegmentWriter) -> Ref | None:
        """Write the states of open windows; None where there are none."""
        return None if self._panes is None else self._panes.write(writer)

    def write_known(self, writer: SegmentWriter, *, evaluated: bool) -> Ref | None:
        """Write the known keys; None where there are none."""
        return None if self._known is None else self._known.write(writer, evaluated=evaluated)

    def write_released(self, writer: SegmentWriter) -> Ref | None:
        """Write the windows released exactly at the last limit; None where there are none."""
        return writer.add(self._released.table()) if len(self._released) else None

    def _span(self, windows: AssignedWindows, held: Held, given: EvaluationScope) -> Span:
        if self._keys is None:
            return Span(given.after, NONE if given.upto is None else given.upto)
        assert held.keys is not None
        return windows.span_of(*self._keys.span(held.keys, given.upto))

    def _due(self, windows: AssignedWindows, span: Span, given: EvaluationScope) -> Iterator[TupleWindow]:
        """Yield the due windows, then note when the next ones are."""
        empty = None if self._known is None else self._known.empty_windows(given.upto)
        decisions: PaneDecisions | None = None
        if empty is not None:
            yield from windows.windows_and_empty(span, empty)
        elif self._panes is not None:
            decisions = self._panes.decisions(given.upto, within_batch=given.within_batch)
            yield from windows.panes(span, decisions)
            self._panes.update(decisions)
        else:
            yield from windows.windows(span)
        ends = (windows.next_end(span), None if empty is None else empty.next_end())
        self.next_end = min((end for end in ends if end is not None), default=None)
        if self._node.bolt.settings.idle_timeout is not None:
            self.open_ends = tuple(windows.open_ends(span))
