"""The event queue of one bolt task: settled events in their final order, and events that wait to be settled."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa

from windowing.events import Events
from windowing.timestamps import FOREVER

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from windowing.window import Members


_PARTS = 4
"""Number of waiting parts that are never merged."""
_LARGE = 1 << 16
"""Number of events from which on parts are merged only where they overlap in time. Fewer events are merged completely,
so that windows have few chunks."""
_MOST_DIVIDED = 32
"""Greatest number of parts whose overlaps are computed; the number of slices grows with its square."""


class SettledEvents:
    """An immutable view of the settled events at one moment; windows can read it after the queue has changed."""

    __slots__ = ("_chunks", "_starts", "schema", "stream_names", "times")

    def __init__(
        self,
        chunks: list[Events],
        starts: list[int],
        times: NDArray[np.int64],
        schema: pa.Schema | None,
        stream_names: Sequence[str],
    ) -> None:
        self._chunks, self._starts, self.times = chunks, starts, times
        self.schema, self.stream_names = schema, stream_names

    @property
    def weighted(self) -> bool:
        """True if each row stands for several events."""
        return bool(self._chunks) and self._chunks[0].weights is not None

    def pieces(self, start: int, stop: int) -> list[Events]:
        """Returns the events from ``start`` to ``stop``, exclusive, as slices of chunks."""
        pieces = []
        index = bisect_right(self._starts, start) - 1
        while start < stop:
            chunk_start, chunk = self._starts[index], self._chunks[index]
            chunk_stop = min(stop, chunk_start + len(chunk))
            pieces.append(chunk.slice(start - chunk_start, chunk_stop - chunk_start))
            start, index = chunk_stop, index + 1
        return pieces

    def table(self, members: Members) -> pa.Table:
        """Returns the payload of these events."""
        if isinstance(members, range):
            payloads = [piece.payload for piece in self.pieces(members.start, members.stop)]
            return pa.Table.from_batches(payloads, self.schema)
        return self.table(range(len(self.times))).take(pa.array(members, pa.int64()))

    def timestamps(self, members: Members) -> NDArray[np.int64]:
        """Returns the times of these events in microseconds."""
        if isinstance(members, range):
            return self.times[members.start : members.stop]
        return self.times[members]

    def streams(self, members: Members) -> NDArray[np.int8]:
        """Returns the stream code of each of these events."""
        if not isinstance(members, range):
            return self.streams(range(len(self.times)))[members]
        codes = [
            np.zeros(len(piece), np.int8) if piece.streams is None else piece.streams
            for piece in self.pieces(members.start, members.stop)
        ]
        return np.concatenate(codes) if codes else np.zeros(0, np.int8)


class EventQueue:
    """The events of one task, in order of (time, arrival).

    Added events wait until no event can come before them; then they are settled. The order of settled events never
    changes, so the events of a window are a range of positions.
    """

    def __init__(self, stream_names: Sequence[str] = ("default",)) -> None:
        self.stream_names = tuple(stream_names)
        self.base = 0
        """Number of events that have been dropped from the head so far."""
        self._waiting: list[Events] = []
        self._chunks: list[Events] = []
        self._starts: list[int] = []  # absolute position of each chunk
        self._times = np.empty(1024, np.int64)
        self._head = self._tail = 0  # the settled times are _times[_head:_tail]
        self._schema: pa.Schema | None = None

    def __len__(self) -> int:
        return self.settled_count + self.waiting

    @property
    def settled_count(self) -> int:
        """Number of settled events."""
        return self._tail - self._head

    @property
    def waiting(self) -> int:
        """Number of events that are not settled yet."""
        return sum(map(len, self._waiting))

    @property
    def timestamps(self) -> NDArray[np.int64]:
        """The times of the settled events in microseconds, ascending; read-only, because users' policies get them."""
        times = self._times[self._head : self._tail]
        times.flags.writeable = False
        return times

    @property
    def waiting_events(self) -> list[Events]:
        """The events that are not settled yet, in parts; parts are in order of arrival, each is in order of time."""
        return list(self._waiting)

    def add(self, events: Events) -> None:
        """Add events, which arrived after all events in the queue."""
        self.restore([events])
        # Small parts are merged early, so that there are few parts; each event is merged only a few times.
        while len(self._waiting) > _PARTS and len(self._waiting[-2]) < 2 * len(self._waiting[-1]):
            self._waiting[-2:] = [Events.concat(self._waiting[-2:]).sorted()]

    def restore(self, parts: Sequence[Events]) -> None:
        """Add the events of an earlier queue, in parts in order of arrival."""
        for events in parts:
            if len(events):
                self._schema = self._schema or events.payload.schema
                self._waiting.append(events.sorted())

    def settle(self, frontier: int) -> int:
        """Settle all events up to the frontier (microseconds). Returns their number."""
        ready, waiting = [], []
        for events in self._waiting:
            times = events.timestamps
            count = len(times) if frontier == FOREVER else int(np.searchsorted(times, frontier, side="right"))
            if count:
                ready.append(events.slice(0, count))
            if count < len(times):
                waiting.append(events.slice(count, len(times)))
        self._waiting = waiting
        if not ready:
            return 0
        sorted_parts = _count_sorted_parts(ready)
        for events in [*ready[:sorted_parts], *_merge_parts(ready[sorted_parts:])]:
            self._append(events)
        return sum(map(len, ready))

    def settle_first(self, count: int) -> None:
        """Settle the first ``count`` events in order of (time, arrival)."""
        merged = Events.concat(self._waiting).sorted()
        self._append(merged.slice(0, count))
        self._waiting = [merged.slice(count, len(merged))] if len(merged) > count else []

    def drop(self, count: int) -> None:
        """Drop the first ``count`` events; the positions of the others decrease by ``count``."""
        self.base += count
        self._head += count
        dropped_chunks = bisect_right(self._starts, self.base) - 1
        if dropped_chunks > 0 and self._starts:
            del self._chunks[:dropped_chunks], self._starts[:dropped_chunks]
        if self._chunks and self.base >= self._starts[0] + len(self._chunks[0]):
            self._chunks.clear()
            self._starts.clear()

    def settled_view(self) -> SettledEvents:
        """Returns an immutable view of the settled events."""
        starts = [start - self.base for start in self._starts]
        return SettledEvents(list(self._chunks), starts, self.timestamps, self._schema, self.stream_names)

    def _append(self, events: Events) -> None:
        self._starts.append(self.base + self.settled_count)
        self._chunks.append(events)
        new_tail = self._tail + len(events)
        if new_tail > len(self._times):
            # The old buffer is not changed, because windows may still read it.
            times = np.empty(max(2 * (self.settled_count + len(events)), 1024), np.int64)
            times[: self.settled_count] = self.timestamps
            self._times, self._head, self._tail = times, 0, self.settled_count
            new_tail = self._tail + len(events)
        self._times[self._tail : new_tail] = events.timestamps
        self._tail = new_tail


def _count_sorted_parts(parts: list[Events]) -> int:
    """Returns the number of leading sorted parts that do not overlap, in time, with any part after them."""
    first_times = np.array([events.timestamps[0] for events in parts])
    earliest_from = np.minimum.accumulate(first_times[::-1])[::-1]  # the earliest time in each part and those after it
    for index, events in enumerate(parts[:-1]):
        if events.timestamps[-1] > earliest_from[index + 1]:
            return index
    return len(parts)


def _merge_parts(parts: list[Events]) -> list[Events]:
    """Merge sorted parts that overlap in time; return a few chunks in order of (time, part).

    Successive files overlap by as much as their events are out of order. If less than half of the events are in
    overlaps, only these are copied and sorted.
    """
    total = sum(map(len, parts))
    if total >= _LARGE and len(parts) <= _MOST_DIVIDED:
        periods = [[events for events in period if len(events)] for period in _divide_at_overlaps(parts)]
        copied = sum(sum(map(len, period)) for period in periods if len(period) > 1)
        if 2 * copied <= total:
            return [Events.concat(period).sorted() for period in periods if period]
    return [Events.concat(parts).sorted()] if parts else []


def _divide_at_overlaps(parts: list[Events]) -> Iterator[list[Events]]:
    """Divide time into periods in which either one part or several parts have events. Yields the slices of all parts in
    each period."""
    starts = [(int(events.timestamps[0]), False) for events in parts]
    stops = [(int(events.timestamps[-1]), True) for events in parts]
    open_parts, positions = 0, [0] * len(parts)
    for time, is_stop in sorted([*starts, *stops]):
        were_open, open_parts = open_parts, open_parts + (-1 if is_stop else 1)
        if were_open == 1 or open_parts == 1 < were_open:  # a period ends here
            side: Literal["left", "right"] = "right" if is_stop else "left"
            ends = [int(np.searchsorted(events.timestamps, time, side=side)) for events in parts]
            yield [events.slice(low, high) for events, low, high in zip(parts, positions, ends, strict=True)]
            positions = ends
