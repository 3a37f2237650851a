"""The events that a task holds until no window needs them, and what it keeps of their keys: read, written again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from manager.keyed.held import GONE, LAST, SEEN, Held, is_needed, live_rows, needed_rows
from manager.keyed.held_segments import flag, read_held, write_held
from manager.keyed.key_states import KeyStates
from manager.storage.segments.ref import Ref
from manager.storage.segments.segments import SegmentStore, SegmentWriter
from manager.storage.task_state import AssignedState, TaskState, TriggeredState
from topologies.engine.batch.context import Context
from topologies.engine.fire.compacting import compacted
from topologies.engine.work.items import CompactItem
from topologies.graph.key_codes import KeyCodes
from topologies.graph.nodes.windowed import WindowedNode
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


class TaskKeys:
    """What a task keeps of its keys apart from their events: their records, and the codes of keys that share a hash."""

    def __init__(self, store: SegmentStore, before: TriggeredState, node: WindowedNode) -> None:
        """``before`` is the state of the task's windows before the batch."""
        self._ref = before.keys
        self._tables = [] if before.keys is None else [store.read(before.keys)]
        self._codes = KeyCodes.restored(node.keys, store, before.codes)
        self.records = KeyStates(self._tables[0] if self._tables else None, node.bolt.settings.key)

    def coded(self, events: Held) -> Held:
        """These events, in order of arrival, with the codes of their keys."""
        return self._codes.apply(events, self._tables)

    def write(self, writer: SegmentWriter, events: Held, flags: NDArray[np.uint8]) -> tuple[Ref | None, Ref | None]:
        """Write the records, if they have changed, and the codes; ``events`` are those that ``coded`` returned."""
        if self.records.changed:
            table = self.records.table(events.payload)
            self._tables = [] if table is None else [table]
            self._ref = None if table is None else writer.add(table)
        return self._ref, self._codes.write(writer, events.keys, flags, self._tables)


class TaskEvents:
    """The events of a task that holds them until no window needs them: old ones, of earlier batches, and new ones.

    Flags are those of all events that are still needed, old ones first; None where nothing was evaluated, so that
    nothing has changed.
    """

    def __init__(self, store: SegmentStore, state: TaskState, streams: int) -> None:
        self.old = OldEvents(store, state.refs)
        self.new: Held | None = None
        """The events admitted in this batch; None where there are none."""
        self._store, self._state, self._streams = store, state, streams

    def replace_all(self, events: Held | None) -> None:
        """Take these events instead of all others; they are then written again."""
        self.old, self.new = OldEvents(self._store, ()), events

    def write(
        self, writer: SegmentWriter, flags: NDArray[np.uint8] | None, numbers: NDArray[np.int64] | None = None
    ) -> list[Ref]:
        """Write new and changed events; return the references to all events that are still needed. ``numbers`` are
        those of the events, as ``flags``, where policies of a user's own decide."""
        new, streams = self.new, self._streams
        if flags is None:
            written = [] if new is None or not len(new) else [write_held(writer, new.sorted(), streams)]
            return [*self.old.refs, *written]
        refs, offset = [], 0
        for ref, (stored, before), rows in zip(self.old.refs, self.old.parts, self.old.places, strict=True):
            here = slice(offset, offset + len(rows))
            held, changes = stored, False
            if numbers is not None:
                held = replace(stored, numbers=_put(stored, rows, numbers[here]))
                changes = stored.numbers is None or bool((stored.numbers[rows] != numbers[here]).any())
            left = self._rewritten(writer, ref, held, before, rows, flags[here], changes=changes)
            offset += len(rows)
            refs.extend([] if left is None else [left])
        if new is not None:
            needed = is_needed(flags[offset:])
            if numbers is not None:
                new = replace(new, numbers=numbers[offset:])
            if needed.any():
                refs.append(_write(writer, new, np.flatnonzero(needed), flags[offset:], streams))
        return refs

    def accounted_by_stream(self, flags: NDArray[np.uint8] | None) -> list[int]:
        """Per input, the number of needed events that have been in a window."""
        if flags is None:
            return self._state.accounted_by_stream
        which = ((flags & SEEN) != 0) & is_needed(flags)
        if self._streams == 1:
            return [int(np.count_nonzero(which))]
        old = zip(self.old.parts, self.old.places, strict=True)
        codes = [held.streams[places] for (held, _), places in old if held.streams is not None]
        if self.new is not None:
            assert self.new.streams is not None
            codes.append(self.new.streams)
        if not codes:
            return [0] * self._streams
        return [int(n) for n in count_by_stream(np.concatenate(codes)[which], 0, self._streams)]

    def _rewritten(
        self,
        writer: SegmentWriter,
        ref: Ref,
        held: Held,
        before: NDArray[np.uint8],
        rows: NDArray[np.int64],
        flags: NDArray[np.uint8],
        *,
        changes: bool,
    ) -> Ref | None:
        """The reference to the rows of a section that are still needed; None where none is. Rows are written again
        where fewer than half are left, else only the flags, if they or the numbers have changed (``changes``)."""
        needed = is_needed(flags)
        remaining = int(np.count_nonzero(needed))
        if not remaining:
            return None
        changed = before.copy()
        changed[rows] = flags
        if remaining < len(held) // 2:
            return replace(_write(writer, held, rows[needed], changed, self._streams), level=ref.level)
        return ref if not changes and (changed == before).all() else flag(writer, ref, changed, held, self._streams)


def _put(held: Held, rows: NDArray[np.int64], numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """The numbers of all rows of a section, with new ones for some."""
    put = np.full(len(held), -1, np.int64) if held.numbers is None else held.numbers.copy()
    put[rows] = numbers
    return put


def no_events(node: WindowedNode) -> Held:
    """An empty set of events with the columns of a bolt."""
    none = np.zeros(0, np.int64)
    streams = np.zeros(0, np.int8) if len(node.inputs) > 1 else None
    keys = none if node.bolt.settings.key or node.bolt.settings.key_trigger is not None else None
    return Held(times=none, payload=node.schema.empty_table(), streams=streams, keys=keys)


def _with(held: Held, columns: Sequence[str]) -> Held:
    return replace(held, payload=held.payload.select(list(columns))) if columns else held


def _write(writer: SegmentWriter, held: Held, rows: NDArray[np.int64], flags: NDArray[np.uint8], streams: int) -> Ref:
    """Write the events in these rows, in order of (key, time); ``flags`` are those of all events. They are taken once,
    in that order."""
    order = held.bare(rows).order()
    if order is not None:
        rows = rows[order]
    if order is not None or len(rows) < len(held):
        held = held.take(rows)
    flags = flags[rows]
    held = replace(held, seen=(flags & SEEN) != 0)
    if (flags & LAST).any():
        held = replace(held, last=(flags & LAST) != 0, gone=(flags & GONE) != 0)
    return write_held(writer, held, streams)


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
