"""The events that a task holds: those of earlier batches, the state of each, and which are kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from manager.keyed.held import GONE, LAST, SEEN, Held, is_needed, live_rows, needed_rows
from manager.keyed.held_segments import flag, read_held, write_held
from manager.storage.ref import Ref
from manager.storage.segments import SegmentStore, SegmentWriter
from manager.storage.task_state import AssignedState, TaskState
from topologies.engine.batch.context import Context
from topologies.engine.fire.compacting import compacted
from topologies.engine.ingest.router import Router
from topologies.engine.work.items import CompactItem, FireItem
from topologies.graph.model import WindowedNode
from windowing.data.events import count_by_stream

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass
class OldEvents:
    """The events of earlier batches, read on demand."""

    store: SegmentStore
    refs: Sequence[Ref]

    @cached_property
    def parts(self) -> list[tuple[Held, NDArray[np.uint8]]]:
        """Per segment: all of its events, and the flags of each."""
        return [read_held(self.store, ref) for ref in self.refs]

    @cached_property
    def places(self) -> list[NDArray[np.int64]]:
        """Per segment: the indices of the events that are still needed."""
        return [np.flatnonzero(is_needed(flags)) for _, flags in self.parts]

    def needed(self) -> Held | None:
        """The live events, and those that have yet to be reported as expired; None where there are none."""
        parts = [needed_rows(held, flags) for held, flags in self.parts]
        parts = [held for held in parts if len(held)]
        return Held.concat(parts) if parts else None

    def live(self, *columns: str) -> Held | None:
        """The events that a window may still need, in order of arrival, with these columns of their payload (none:
        all); None where there are none."""
        parts = [live_rows(_with(held, columns), flags) for held, flags in self.parts]
        parts = [held for held in parts if len(held)]
        return Held.concat(parts) if parts else None


class HeldTask:
    """Base of tasks that hold events until no window needs them."""

    def __init__(self, item: FireItem, node: WindowedNode, router: Router) -> None:
        self.item, self.node, self.router, self.context = item, node, router, router.context
        self._old = OldEvents(router.context.store, item.state.refs)
        self._new: Held | None = None
        """The events admitted in this batch; None where there are none."""
        self._evaluated = False
        self._been_in_window: NDArray[np.bool_]
        """Per event, old ones first: whether it has been in a window."""
        self._unneeded: NDArray[np.bool_]
        """Per event: whether no window needs it any more."""
        self._in_last_window: NDArray[np.bool_] | None = None
        """Per event: whether it is in the window of its key that fired last; None where the bolt does not ask for
        expired events."""

    def _write_needed(self, writer: SegmentWriter, streams: int) -> list[Ref]:
        """Write new and changed events; return the references to all events that are still needed."""
        new = self._new
        if not self._evaluated:
            refs = list(self._old.refs)
            if new is not None and len(new):
                refs.append(write_held(writer, new.sorted(), streams))
            return refs
        refs, offset = [], 0
        all_flags = self._all_flags()
        for ref, (held, flags), rows in zip(self._old.refs, self._old.parts, self._old.places, strict=True):
            new_flags = all_flags[offset : offset + len(rows)]
            offset += len(rows)
            needed = is_needed(new_flags)
            remaining = int(np.count_nonzero(needed))
            if not remaining:
                continue
            if remaining < len(held) // 2:
                refs.append(
                    replace(_write(writer, held.take(rows[needed]), new_flags[needed], streams), level=ref.level)
                )
                continue
            changed = flags.copy()
            changed[rows] = new_flags
            refs.append(ref if (changed == flags).all() else flag(writer, ref, changed, held, streams))
        if new is not None:
            new_flags = all_flags[offset:]
            needed = is_needed(new_flags)
            if needed.any():
                refs.append(_write(writer, new.take(np.flatnonzero(needed)), new_flags[needed], streams))
        return refs

    def _all_flags(self) -> NDArray[np.uint8]:
        """The flags of each event, old ones first, as they are stored."""
        flags: NDArray[np.uint8] = self._been_in_window * np.uint8(SEEN) + self._unneeded * np.uint8(GONE)
        return flags if self._in_last_window is None else flags + self._in_last_window * np.uint8(LAST)

    def _accounted(self, streams: int) -> list[int]:
        """Per input, the number of kept events that have been in a window."""
        if not self._evaluated:
            return self.item.state.accounted_by_stream
        old = [held.streams[places] for (held, _), places in self._parts() if held.streams is not None]
        which = self._been_in_window & is_needed(self._all_flags())
        if streams == 1:
            return [int(np.count_nonzero(which))]
        if self._new is not None:
            assert self._new.streams is not None
            old.append(self._new.streams)
        if not old:
            return [0] * streams
        codes = np.concatenate(old)
        return [int(n) for n in count_by_stream(codes[which], 0, streams)]

    def _parts(self) -> list[tuple[tuple[Held, NDArray[np.uint8]], NDArray[np.int64]]]:
        return list(zip(self._old.parts, self._old.places, strict=True))


def _with(held: Held, columns: Sequence[str]) -> Held:
    return replace(held, payload=held.payload.select(list(columns))) if columns else held


def _write(writer: SegmentWriter, held: Held, flags: NDArray[np.uint8], streams: int) -> Ref:
    held = replace(held, seen=(flags & SEEN) != 0)
    if (flags & LAST).any():
        held = replace(held, last=(flags & LAST) != 0, gone=(flags & GONE) != 0)
    return write_held(writer, held.sorted(), streams)


def compact_held(item: CompactItem, node: WindowedNode, context: Context) -> Ref:
    """Merge adjacent segments of one task into one segment, without the events that are no longer needed."""
    held = Held.concat([needed_rows(*read_held(context.store, ref)) for ref in item.refs]).sorted()
    return compacted(item, context, lambda writer: write_held(writer, held, len(node.inputs)))


def pending_held(store: SegmentStore, node: WindowedNode, task: int, state: TaskState) -> Iterator[pa.Table]:
    """The events of a task that have been in no window and may still be in one."""
    for ref in state.refs:
        held, flags = read_held(store, ref)
        yield held.payload.take(pa.array(np.flatnonzero((flags & (GONE | SEEN)) == 0)))
    if isinstance(state.windows, AssignedState) and state.windows.end_edges is not None:
        yield read_held(store, state.windows.end_edges)[0].payload
