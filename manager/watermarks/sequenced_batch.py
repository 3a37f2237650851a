"""The watermark along one batch of events: the marks of each source, then of all sources together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from manager.watermarks.arrival_times import ArrivalTimes, MarksAround, input_of
from manager.watermarks.mark_sources import MarkSources
from policies.marks import NONE
from windowing.settings.rules import WatermarkCombiner
from windowing.time.timestamps import FOREVER

if TYPE_CHECKING:
    from numpy.typing import NDArray


class SequencedBatch:
    """The events of a batch, and the marks so far. Call ``take`` for each source, then ``after``."""

    def __init__(
        self, sources: MarkSources, arrivals: ArrivalTimes, clock: int, floor: NDArray[np.int64] | None
    ) -> None:
        """``floor`` is the lower bound of silent sources, after each event, that the arrivals give; None for none."""
        self._sources, self._arrivals, self._clock, self._floor = sources, arrivals, clock, floor
        self.marks = MarksAround.none_yet(len(arrivals))
        """The marks around each event; those of the bolt are filled in by the caller."""
        self.speaking: set[str] = set()
        """The sources that have delivered."""
        self._idle, self._known = set(sources.state.idle), set(sources.state.marks)
        self._known_inputs = sources.delivering()
        self._first: dict[int, int] = {}
        """Per input that delivers: the index of the first event that makes one of its sources known."""
        self._new_partitions: dict[str, list[tuple[int, NDArray[np.int64]]]] = {}
        """Per input: of each partition that was not known, the event that makes it known, and all of its events."""
        imports = sources.settings.watermark_imports or {}
        self._wanted = {*imports, *imports.values()}
        self._imported: dict[str, NDArray[np.int64]] = {}
        """Of the inputs that import marks, and those that they import: the marks along the batch."""
        self._total: NDArray[np.int64] | None = None
        """Those of all others, combined."""

    def take(self, source: str, places: NDArray[np.int64]) -> None:
        """Take the events of one source, which are at these places."""
        sources, stream, joins = self._sources, input_of(source), self._arrivals.joins(places)
        left_out, new_partition = {source, stream} & self._idle, source != stream and source not in self._known
        if new_partition:
            self._new_partitions.setdefault(stream, []).append((joins, places))
            if joins == len(self._arrivals):
                return  # none of its events makes it known
        along = sources.advance(source, places, self._arrivals, self.marks, self._floor)
        if left_out or new_partition:  # it takes no part until its first event
            along[:joins] = FOREVER
        index = sources.index_of(source)
        self._first[index] = min(joins, self._first.get(index, len(self._arrivals)))
        self.speaking.add(source)
        sources.state.seen_at[source] = self._clock
        if source in self._wanted:
            self._imported[source] = along
        else:
            self._total = sources.join(self._total, along)
        if joins < len(self._arrivals):
            sources.state.idle = [name for name in sources.state.idle if name not in left_out]

    def after(self) -> NDArray[np.int64]:
        """Called once, when all is taken: what the sources allow after each event, whatever the watermark was
        before."""
        sources, events = self._sources, len(self._arrivals)
        for stream in self._partitioned_by_now():
            self._total = sources.join(self._total, self._awaited(stream))
            self.speaking.add(stream)
        sources.take_over(self._imported, events, (self._arrivals, self.marks), self._floor)
        for source, along in self._imported.items():
            if source not in sources.state.idle:
                self._total = sources.join(self._total, along)
        after = sources.watermarks(self._total, self.speaking | set(self._imported), events, self._floor)
        after[: self._waits_until()] = NONE
        return after

    def _waits_until(self) -> int:
        """Index up to which there is no watermark because an input delivers for the first time only there."""
        sources = self._sources
        if sources.settings.watermark_combine is WatermarkCombiner.MAX:
            return 0
        excepted = {*(sources.settings.watermark_imports or {}), *self._idle}
        return max(
            (
                first
                for index, first in self._first.items()
                if index not in self._known_inputs and sources.streams[index] not in excepted
            ),
            default=0,
        )

    def _partitioned_by_now(self) -> list[str]:
        """The inputs that were awaited as a whole and of which a partition has now delivered."""
        marks = self._sources.state.marks.items()
        awaited = {stream for stream, mark in marks if not mark.counted and stream not in self.speaking}
        return [stream for stream in self._new_partitions if stream in awaited]

    def _awaited(self, stream: str) -> NDArray[np.int64]:
        """The mark of an input that was awaited as a whole, until the first of its partitions is known."""
        state, new = self._sources.state, self._new_partitions[stream]
        mark, joins = state.marks[stream], min(join for join, _ in new)
        along = np.full(len(self._arrivals), NONE, np.int64) if self._floor is None else self._floor.copy()
        for _, places in new:
            along[places] = NONE
        along[0] = max(int(along[0]), mark.mark)
        np.maximum.accumulate(along, out=along)
        if joins < len(self._arrivals):
            del state.marks[stream]
        else:
            mark.mark = max(mark.mark, int(along[-1]))
        along[0 if stream in state.idle else joins :] = FOREVER
        return along
