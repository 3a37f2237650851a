"""Watermarks computed from events: after every event, after every n-th event, or as the source inserts them.

The input is the arrivals of a batch, in order; the output is the watermark before each of them. So what depends on the
events alone is decided in one place, wherever batches end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from manager.watermarks.watermark import WatermarkState
from policies.idleness import estimated, idle_end
from policies.marks import NONE, MarkState, advance
from windowing.settings import WindowSettings
from windowing.settings.rules import WatermarkCombiner
from windowing.time.timestamps import FOREVER

if TYPE_CHECKING:
    from numpy.typing import NDArray

_PARTITION = "\t"
"""Separates an input from the value of its partition in the name of a source of marks."""


def input_of(source: str) -> str:
    """The input stream of a source of marks, which is an input or a partition of one."""
    return source.split(_PARTITION, 1)[0]


@dataclass(frozen=True)
class Arrivals:
    """The events of a batch in order of arrival; arrays of equal length."""

    times: NDArray[np.int64]
    inputs: NDArray[np.int8]
    """Per event, the index of its input stream."""
    counts: NDArray[np.bool_]
    """Which events advance the watermark."""
    given: NDArray[np.int64] | None = None
    """Watermarks inserted by the source, in microseconds; NONE where the row is an event."""
    partitions: NDArray[np.int64] | None = None
    """Per event, the index of its partition in ``names``; -1 where it has none."""
    names: Sequence[str] = ()
    heard: NDArray[np.bool_] | None = None
    """Which events make their partition known: events turned away as early, late or invalid do not (AZ-4)."""
    arrived: NDArray[np.int64] | None = None
    """Arrival time of each event in microseconds, NONE where unknown; only where the watermark follows the arrivals
    (AZ-5)."""


@dataclass(frozen=True)
class MarksAround:
    """The marks and watermarks in microseconds before and after each event."""

    own: NDArray[np.int64]
    """The mark of its own input or partition before the event."""
    bolt: NDArray[np.int64]
    """The watermark before the event."""
    own_after: NDArray[np.int64]
    bolt_after: NDArray[np.int64]


class EventWatermarks:
    """Advances the watermark of one bolt with its events and its clock; all state is in a WatermarkState."""

    def __init__(
        self,
        streams: Sequence[str],
        settings: WindowSettings,
        state: WatermarkState,
        from_bolts: Sequence[bool] = (),
    ) -> None:
        """``streams`` are the names of the input streams, ``settings`` those of the bolt. ``state`` is updated in
        place. ``from_bolts`` has an entry per stream; empty: none comes from a windowed bolt.
        """
        self.streams, self.settings, self.state, self.sources = tuple(streams), settings, state, state.sources
        self.from_bolts = tuple(from_bolts) or (False,) * len(self.streams)
        """Which inputs carry the watermark of an upstream bolt."""

    def add_partitions(self, partitions: Mapping[str, Iterable[str]], clock: int) -> None:
        """Register the existing partitions of each input, which hold back the watermark from now on (AT-20, AT-21)."""
        for stream, names in partitions.items():
            for name in names:
                source = f"{stream}{_PARTITION}{name}"
                if source not in self.sources.marks:
                    self.sources.marks[source] = MarkState()
                    self.sources.seen_at.setdefault(source, clock)

    def sequence(self, arrivals: Arrivals, clock: int) -> MarksAround:
        """Process the events of a batch, the last of which came at this clock; returns the marks around each event."""
        self.sources.heard_at = clock
        if self.sources.started is None:
            self.sources.started = clock
        count = len(arrivals.times)
        marks = MarksAround(*(np.full(count, NONE, np.int64) for _ in range(4)))
        floor = self._floor(arrivals)
        if floor is not None:
            self._expect()
        silent, known = set(self.sources.idle), set(self.sources.marks)
        heard = {self._input(source) for source in known}
        first: dict[int, int] = {}
        wanted = {*(self.settings.watermark_imports or {}), *(self.settings.watermark_imports or {}).values()}
        imported: dict[str, NDArray[np.int64]] = {}
        total: NDArray[np.int64] | None = None
        speaking: set[str] = set()
        unknown: dict[str, list[tuple[int, NDArray[np.int64]]]] = {}
        for source, places in self._sources(arrivals):
            stream, joins = self._stream(source), self._joins(arrivals, places)
            left_out, new = {source, stream} & silent, source not in known
            if new and source != stream:
                unknown.setdefault(stream, []).append((joins, places))
                if joins == count:
                    continue  # none of its events makes it known
            along = self._advance(source, places, arrivals, marks, floor)
            if left_out or (new and source != stream):  # it takes no part until its first event
                along[:joins] = FOREVER
            first[self._input(source)] = min(joins, first.get(self._input(source), count))
            speaking.add(source)
            self.sources.seen_at[source] = clock
            if source in wanted:
                imported[source] = along
            else:
                total = self._join(total, along)
            if joins < count:
                self.sources.idle = [name for name in self.sources.idle if name not in left_out]
        for stream in self._expected(unknown, speaking):
            total = self._join(total, self._awaited_mark(stream, unknown[stream], floor, count))
            speaking.add(stream)
        total = self._import(arrivals, imported, marks, total, count)
        after = self._bolt(total, speaking | set(imported), count, floor)
        after[: self._waits_until(first, heard, silent)] = NONE
        self._lift(speaking, NONE if floor is None or not count else int(floor.max()))
        emitted = NONE if self.state.emitted is None else self.state.emitted
        np.maximum(after, emitted, out=after)
        np.maximum.accumulate(after, out=marks.bolt_after)
        marks.bolt[:1], marks.bolt[1:] = emitted, marks.bolt_after[:-1]
        if count and marks.bolt_after[-1] > NONE:
            self.state.emitted = int(marks.bolt_after[-1])
        return marks

    def _floor(self, arrivals: Arrivals) -> NDArray[np.int64] | None:
        """After each event: the lower bound that the arrivals so far give for every silent source (AZ-5); None where
        there is none.

        It is the latest arrival minus the late tolerance. Where the events of a batch are not in order of arrival, it
        is no more than the arrivals still to come in the batch allow; in order, it is the same wherever batches end.
        """
        arrived, late = arrivals.arrived, self.settings.arrival.late if self.settings.arrival else None
        if arrived is None or late is None or not self.settings.estimate_arrival or not len(arrived):
            return None
        before = NONE if self.sources.arrived is None else self.sources.arrived
        latest = np.maximum(np.maximum.accumulate(arrived), before)
        coming = np.where(arrived > NONE, arrived, FOREVER)
        least = np.minimum.accumulate(coming[::-1])[::-1]
        latest[:-1] = np.minimum(latest[:-1], least[1:])
        return np.where(arrived > NONE, latest - late.micros, NONE)  # unreadable arrivals give no bound

    def _waits_until(self, first: Mapping[int, int], heard: set[int], silent: set[str]) -> int:
        """Index up to which there is no watermark because an input delivers for the first time only there; ``first`` is
        the index of the first event per input."""
        if self.settings.watermark_combine is WatermarkCombiner.MAX:
            return 0
        imports = self.settings.watermark_imports or {}
        return max(
            (
                index
                for input_index, index in first.items()
                if input_index not in heard
                and self.streams[input_index] not in imports
                and self.streams[input_index] not in silent
            ),
            default=0,
        )

    def _expect(self) -> None:
        """Add the inputs that have not delivered as sources: the arrivals of others tell how far they are."""
        known = {self._input(source) for source in self.sources.marks}
        for input_index, stream in enumerate(self.streams):
            if input_index not in known and not self.from_bolts[input_index]:
                self.sources.marks[stream] = MarkState()

    def _expected(self, unknown: Iterable[str], speaking: set[str]) -> list[str]:
        """The inputs that were awaited as a whole and of which a partition has now delivered."""
        waited = {stream for stream, mark in self.sources.marks.items() if not mark.counted and stream not in speaking}
        return [stream for stream in unknown if stream in waited]

    def _awaited_mark(
        self,
        stream: str,
        heard: list[tuple[int, NDArray[np.int64]]],
        floor: NDArray[np.int64] | None,
        count: int,
    ) -> NDArray[np.int64]:
        """The mark of an input that was awaited as a whole, until the first of its partitions is known."""
        mark, joins = self.sources.marks[stream], min(join for join, _ in heard)
        along = np.full(count, NONE, np.int64) if floor is None else floor.copy()
        for _, places in heard:
            along[places] = NONE
        along[0] = max(int(along[0]), mark.mark)
        np.maximum.accumulate(along, out=along)
        if joins < count:
            del self.sources.marks[stream]
        else:
            mark.mark = max(mark.mark, int(along[-1]))
        along[0 if stream in self.sources.idle else joins :] = FOREVER
        return along

    @staticmethod
    def _joins(arrivals: Arrivals, places: NDArray[np.int64]) -> int:
        """Index of the first event that makes a source known; the number of events if none does."""
        if arrivals.heard is None:
            return int(places[0])
        heard = places[arrivals.heard[places]]
        return int(heard[0]) if len(heard) else len(arrivals.times)

    def _lift(self, speaking: set[str], floor: int) -> None:
        """Raise the marks of silent sources to the lower bound that the arrivals give (AZ-5)."""
        for source, mark in self.sources.marks.items():
            if source not in speaking and not self.from_bolts[self._input(source)]:
                mark.mark = max(mark.mark, floor)

    def _advance(
        self,
        source: str,
        places: NDArray[np.int64],
        arrivals: Arrivals,
        marks: MarksAround,
        floor: NDArray[np.int64] | None,
    ) -> NDArray[np.int64]:
        """Advance the mark of one source along its events; returns its mark after each event of all sources."""
        new = source not in self.sources.marks
        state = self.sources.marks.setdefault(source, MarkState())
        before = state.mark
        given = None if arrivals.given is None else arrivals.given[places]
        counts = arrivals.counts[places]
        from_bolt = self.from_bolts[self._input(source)]
        if from_bolt or not self._generates(source):
            counts = np.zeros(len(places), np.bool_)
        rules = self.settings.of_input(self._stream(source))
        own_marks = advance(state, arrivals.times[places], counts, given, rules.watermark_every, rules.delay)
        count = len(arrivals.times)
        if floor is None or from_bolt:
            marks.own_after[places], marks.own[places] = own_marks, np.concatenate([[before], own_marks[:-1]])
            return np.repeat(np.concatenate([[before], own_marks]), np.diff(places, prepend=0, append=count))
        marks_along = floor.copy()  # the floor moves it on while other sources deliver, and its own events do
        marks_along[places] = own_marks
        if new:
            marks_along[: places[0]] = NONE  # an unknown source is not moved on
        marks_along[0] = max(int(marks_along[0]), before)
        np.maximum.accumulate(marks_along, out=marks_along)
        state.mark = max(state.mark, int(marks_along[-1]))
        marks.own_after[places] = marks_along[places]
        marks.own[places] = np.where(places > 0, marks_along[places - 1], before)
        return marks_along

    def move_time(
        self,
        clock: int,
        *,
        tick: bool = True,
        ends: Sequence[int] = (),
    ) -> None:
        """Advance the watermark to the clock at the end of a batch.

        ``ends`` are the ends, in microseconds, of open windows that hold events, for the idle timeout.
        """
        state, sources, settings = self.state, self.sources, self.settings
        if sources.started is None:
            sources.started = clock
        waited = state.ticked_at is None or clock - state.ticked_at >= settings.watermark_interval.micros
        if settings.watermark_every is None and tick and waited:
            state.ticked_at = clock
            for mark in sources.marks.values():
                if mark.latest > NONE:
                    mark.mark = max(mark.mark, mark.latest - settings.delay)
        self._find_idle(clock)
        self._import(None, {}, None, None, 1)
        self._emit(int(self._bolt(None, set(), 1)[0]))
        late = settings.arrival.late if settings.arrival else None
        if settings.estimate_arrival and late is not None and sources.arrived is not None:
            assert sources.arrived_at is not None
            if clock > sources.arrived_at:  # no arrival since then
                reached = estimated(sources.arrived, sources.arrived_at, clock) - late.micros
                self._lift(set(), reached)
                self._emit(reached)
        if settings.idle_timeout is not None and sources.heard_at is not None:
            end = idle_end(settings.idle_rule, settings.idle_timeout.micros, clock, sources.heard_at, ends)
            if end is not None and (state.forced is None or end > state.forced):
                state.forced = end
                self._emit(end)

    def arrived(self, latest: int, clock: int) -> None:
        """Record the latest arrival time of a batch, and the clock when the last of its events came."""
        sources = self.sources
        sources.arrived = latest if sources.arrived is None else max(sources.arrived, latest)
        sources.arrived_at = clock

    def _emit(self, mark: int) -> None:
        if mark > NONE and (self.state.emitted is None or mark > self.state.emitted):
            self.state.emitted = mark

    def _sources(self, arrivals: Arrivals) -> list[tuple[str, NDArray[np.int64]]]:
        """The sources of these events, and the indices of the events of each."""
        sources: list[tuple[str, NDArray[np.int64]]] = []
        for code, stream in enumerate(self.streams):
            if len(self.streams) == 1:
                places = np.arange(len(arrivals.times))
            else:
                places = np.flatnonzero(arrivals.inputs == code)
            if not len(places):
                continue
            if arrivals.partitions is None or self.from_bolts[code]:
                sources.append((stream, places))
                continue
            codes = arrivals.partitions[places]
            order = np.argsort(codes, kind="stable")
            edges = np.searchsorted(codes[order], np.arange(-1, len(arrivals.names) + 1))
            for index, name in enumerate((None, *arrivals.names)):
                source_places = places[order[edges[index] : edges[index + 1]]]
                if len(source_places):
                    sources.append((stream if name is None else f"{stream}{_PARTITION}{name}", source_places))
        return sources

    def _generates(self, source: str) -> bool:
        imports = self.settings.watermark_imports or {}
        return self.settings.watermark_imports_beside or self._stream(source) not in imports

    @staticmethod
    def _stream(source: str) -> str:
        return input_of(source)

    def _input(self, source: str) -> int:
        return self.streams.index(self._stream(source))

    def _import(
        self,
        arrivals: Arrivals | None,
        imported: dict[str, NDArray[np.int64]],
        marks: MarksAround | None,
        total: NDArray[np.int64] | None,
        count: int,
    ) -> NDArray[np.int64] | None:
        """Apply imports: an input that imports the marks of another gets the running maximum of both (SI-15, SI-16).
        All are then combined."""
        for taker, giver in (self.settings.watermark_imports or {}).items():
            given = self._imported_marks(imported, giver, count)
            held = self.sources.marks.setdefault(taker, MarkState())
            imported[taker] = np.maximum(self._imported_marks(imported, taker, count), given)
            if arrivals is not None and marks is not None:
                start = self.sources.imported.get(taker, NONE)
                before = np.concatenate([[start], imported[taker][:-1]])[:count]
                of_taker = arrivals.inputs == self.streams.index(taker)
                marks.own[of_taker], marks.own_after[of_taker] = before[of_taker], imported[taker][of_taker]
            if count:
                held.mark = max(held.mark, int(imported[taker][-1]))
                self.sources.imported[taker] = held.mark
        for source, along in imported.items():
            if source not in self.sources.idle:
                total = self._join(total, along)
        return total

    def _imported_marks(self, imported: dict[str, NDArray[np.int64]], source: str, count: int) -> NDArray[np.int64]:
        mark = self.sources.marks.get(source, MarkState()).mark
        return imported[source] if source in imported else np.full(count, mark, np.int64)

    def _join(self, total: NDArray[np.int64] | None, along: NDArray[np.int64]) -> NDArray[np.int64]:
        """Combine the marks of two sources into their minimum or maximum; FOREVER marks a source that is excluded."""
        if self.settings.watermark_combine is WatermarkCombiner.MAX:
            along = np.where(along == FOREVER, NONE, along)
            return along if total is None else np.maximum(total, along, out=total)
        return along if total is None else np.minimum(total, along, out=total)

    def _bolt(
        self, total: NDArray[np.int64] | None, speaking: set[str], count: int, floor: NDArray[np.int64] | None = None
    ) -> NDArray[np.int64]:
        """The watermark after each event, over the sources that delivered (combined in ``total``) and the silent
        ones."""
        quiet = [source for source in self.sources.marks if source not in speaking and source not in self.sources.idle]
        heard = {self._input(source) for source in (*quiet, *speaking)}
        waiting = [
            stream
            for input_index, stream in enumerate(self.streams)
            if input_index not in heard and not self._gone_quiet(stream)
        ]
        over = self.settings.watermark_combine
        if over is WatermarkCombiner.MIN and waiting:
            return np.full(count, NONE, np.int64)
        for from_bolt in (False, True):
            marks = [
                self.sources.marks[source].mark for source in quiet if self.from_bolts[self._input(source)] is from_bolt
            ]
            if marks:
                mark = min(marks) if over is WatermarkCombiner.MIN else max(marks)
                along = np.full(count, mark, np.int64)
                total = self._join(total, along if floor is None or from_bolt else np.maximum(along, floor))
        if total is None:
            return np.full(count, NONE, np.int64)
        return np.where(total == FOREVER, NONE, total)

    def _gone_quiet(self, stream: str) -> bool:
        """Whether a source of an input, or the input itself, is excluded as idle."""
        return any(self._stream(source) == stream for source in self.sources.idle)

    def _find_idle(self, clock: int) -> None:
        """Exclude the sources that have been silent for the timeout (AT-20), including inputs that have never
        delivered."""
        timeout = self.settings.partition_idle_timeout
        if timeout is None:
            return
        assert self.sources.started is not None
        names = {*self.sources.marks, *(stream for stream in self.streams if not self._delivers(stream))}
        # An input from another bolt is as far as that bolt says, even if it is silent.
        names = {name for name in names if not self.from_bolts[self._input(name)]}
        for source in sorted(names):
            since = self.sources.seen_at.get(source, self.sources.started)
            if clock - since >= timeout.micros and source not in self.sources.idle:
                self.sources.idle.append(source)

    def _delivers(self, stream: str) -> bool:
        return any(self._stream(source) == stream for source in self.sources.marks)
