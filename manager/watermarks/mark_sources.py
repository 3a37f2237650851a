"""The sources of marks of one bolt: its inputs, or their partitions, each with a mark of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from manager.watermarks.arrival_times import ArrivalTimes, MarksAround, input_of, source_of
from manager.watermarks.watermark import SourcesState
from policies.marks import NONE, MarkState, advance
from windowing.settings import WindowSettings
from windowing.settings.rules import WatermarkCombiner
from windowing.time.timestamps import FOREVER

if TYPE_CHECKING:
    from numpy.typing import NDArray


class MarkSources:
    """Advances the marks of sources, and combines them; all state is in a SourcesState.

    A mark *along* a batch is an array: the mark of one source after each event of all sources; FOREVER where the source
    takes no part.
    """

    def __init__(
        self, streams: Sequence[str], settings: WindowSettings, state: SourcesState, from_bolts: Sequence[bool] = ()
    ) -> None:
        self.streams, self.settings, self.state = tuple(streams), settings, state
        self.from_bolts = tuple(from_bolts) or (False,) * len(self.streams)
        """Which inputs carry the watermark of an upstream bolt."""

    def index_of(self, source: str) -> int:
        """The index of a source's input."""
        return self.streams.index(input_of(source))

    def delivering(self) -> set[int]:
        """The indices of the inputs that have a source."""
        return {self.index_of(source) for source in self.state.marks}

    # -- which sources there are

    def add_partitions(self, partitions: Mapping[str, Iterable[str]], clock: int) -> None:
        """Register the existing partitions of each input, which hold back the watermark from now on (AT-20, AT-21)."""
        for stream, names in partitions.items():
            for name in names:
                source = source_of(stream, name)
                if source not in self.state.marks:
                    self.state.marks[source] = MarkState()
                    self.state.seen_at.setdefault(source, clock)

    def add_missing_inputs(self) -> None:
        """Add the inputs that have not delivered: the arrivals of others tell how far they are."""
        known = self.delivering()
        for index, stream in enumerate(self.streams):
            if index not in known and not self.from_bolts[index]:
                self.state.marks[stream] = MarkState()

    def find_idle(self, clock: int) -> None:
        """Exclude the sources that have been silent for the timeout (AT-20), including inputs that have never
        delivered."""
        timeout = self.settings.partition_idle_timeout
        if timeout is None:
            return
        assert self.state.started is not None
        known = self.delivering()
        names = {*self.state.marks, *(stream for index, stream in enumerate(self.streams) if index not in known)}
        # An input from another bolt is as far as that bolt says, even if it is silent.
        names = {name for name in names if not self.from_bolts[self.index_of(name)]}
        for source in sorted(names):
            since = self.state.seen_at.get(source, self.state.started)
            if clock - since >= timeout.micros and source not in self.state.idle:
                self.state.idle.append(source)

    # -- their marks

    def advance(
        self,
        source: str,
        places: NDArray[np.int64],
        arrivals: ArrivalTimes,
        marks: MarksAround,
        floor: NDArray[np.int64] | None,
    ) -> NDArray[np.int64]:
        """Advance the mark of one source along its events, whose own marks are filled in; returns it along the
        batch."""
        new = source not in self.state.marks
        state = self.state.marks.setdefault(source, MarkState())
        before = state.mark
        given = None if arrivals.given is None else arrivals.given[places]
        advancing = arrivals.advancing[places]
        from_bolt = self.from_bolts[self.index_of(source)]
        if from_bolt or not self._makes_marks(source):
            advancing = np.zeros(len(places), np.bool_)
        rules = self.settings.of_input(input_of(source))
        own_marks = advance(state, arrivals.times[places], advancing, given, rules.watermark_every, rules.delay)
        if floor is None or from_bolt:
            marks.own_after[places], marks.own[places] = own_marks, np.concatenate([[before], own_marks[:-1]])
            return np.repeat(np.concatenate([[before], own_marks]), np.diff(places, prepend=0, append=len(arrivals)))
        along = floor.copy()  # the floor moves it on while other sources deliver, and its own events do
        along[places] = own_marks
        if new:
            known = places[0] if source == input_of(source) else arrivals.joins(places)
            along[:known] = NONE  # the floor does not apply to an unknown source
        along[0] = max(int(along[0]), before)
        np.maximum.accumulate(along, out=along)
        state.mark = max(state.mark, int(along[-1]))
        marks.own_after[places] = along[places]
        marks.own[places] = np.where(places > 0, along[places - 1], before)
        return along

    def lift(self, speaking: set[str], floor: int) -> None:
        """Raise the marks of silent sources to the lower bound that the arrivals give (AZ-5)."""
        for source, mark in self.state.marks.items():
            if source not in speaking and not self.from_bolts[self.index_of(source)]:
                mark.mark = max(mark.mark, floor)

    def take_over(
        self,
        imported: dict[str, NDArray[np.int64]],
        events: int,
        filled: tuple[ArrivalTimes, MarksAround] | None = None,
        floor: NDArray[np.int64] | None = None,
    ) -> None:
        """An input that imports the marks of another gets the running maximum of both (SI-15, SI-16).

        ``imported``: the marks along a batch of so many events of those that deliver; those of the inputs that import
        are added. ``filled``: the events, and the marks around each, in which those of these inputs are replaced.
        ``floor``: the lower bound that the arrivals give, which silent inputs follow (AZ-5).
        """
        for taker, giver in (self.settings.watermark_imports or {}).items():
            given = self._along(imported, giver, events, floor)
            state = self.state.marks.setdefault(taker, MarkState())
            along = imported[taker] = np.maximum(self._along(imported, taker, events, floor), given)
            if filled is not None:
                arrivals, marks = filled
                before = np.concatenate([[self.state.imported.get(taker, NONE)], along[:-1]])[:events]
                of_taker = arrivals.inputs == self.streams.index(taker)
                marks.own[of_taker], marks.own_after[of_taker] = before[of_taker], along[of_taker]
            if events:
                state.mark = max(state.mark, int(along[-1]))
                self.state.imported[taker] = state.mark

    # -- the watermark of all of them

    def join(self, total: NDArray[np.int64] | None, along: NDArray[np.int64]) -> NDArray[np.int64]:
        """Combine the marks of two sources into their minimum or maximum."""
        if self.settings.watermark_combine is WatermarkCombiner.MAX:
            along = np.where(along == FOREVER, NONE, along)
            return along if total is None else np.maximum(total, along, out=total)
        return along if total is None else np.minimum(total, along, out=total)

    def watermarks(
        self, total: NDArray[np.int64] | None, speaking: set[str], events: int, floor: NDArray[np.int64] | None = None
    ) -> NDArray[np.int64]:
        """The watermark after each event, over the sources that delivered (combined in ``total``) and the silent
        ones."""
        silent = [source for source in self.state.marks if source not in speaking and source not in self.state.idle]
        over = self.settings.watermark_combine
        if over is WatermarkCombiner.MIN and self._waits({self.index_of(source) for source in (*silent, *speaking)}):
            return np.full(events, NONE, np.int64)
        for from_bolt in (False, True):
            marks = [
                self.state.marks[source].mark
                for source in silent
                if self.from_bolts[self.index_of(source)] is from_bolt
            ]
            if marks:
                mark = min(marks) if over is WatermarkCombiner.MIN else max(marks)
                along = np.full(events, mark, np.int64)
                total = self.join(total, along if floor is None or from_bolt else np.maximum(along, floor))
        if total is None:
            return np.full(events, NONE, np.int64)
        return np.where(total == FOREVER, NONE, total)

    def _waits(self, heard: set[int]) -> bool:
        """Whether an input is missing that is not excluded as idle, as a whole or one of its partitions."""
        idle = {input_of(source) for source in self.state.idle}
        return any(index not in heard and stream not in idle for index, stream in enumerate(self.streams))

    def _makes_marks(self, source: str) -> bool:
        """Whether events of a source make marks: those of an input that imports marks do not, unless beside them."""
        imports = self.settings.watermark_imports or {}
        return self.settings.watermark_imports_beside or input_of(source) not in imports

    def _along(
        self,
        imported: dict[str, NDArray[np.int64]],
        source: str,
        events: int,
        floor: NDArray[np.int64] | None,
    ) -> NDArray[np.int64]:
        if source in imported:
            return imported[source]
        along = np.full(events, self.state.marks.get(source, MarkState()).mark, np.int64)
        return along if floor is None or self.from_bolts[self.index_of(source)] else np.maximum(along, floor)
