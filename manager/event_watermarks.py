"""Watermarks that events make: after each of them, every so many, or as the source puts them in.

The plan of a batch's arrivals goes in, in order; out comes, for every event, what the watermark was before it. What
depends on the events alone is so decided in one place, wherever batches end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from manager.watermark import WatermarkState
from policies.idleness import estimated, idle_end
from policies.marks import NONE, MarkState, advance
from windowing.rules import Over
from windowing.settings import WindowSettings
from windowing.timestamps import FOREVER

if TYPE_CHECKING:
    from numpy.typing import NDArray

_PARTITION = "\t"
"""Between an input and the value of its partition, in the name of a source of marks."""


@dataclass(frozen=True)
class Arrivals:
    """The events of a batch in order of arrival; arrays of equal length."""

    times: NDArray[np.int64]
    inputs: NDArray[np.int8]
    """The place of each event's input stream."""
    counts: NDArray[np.bool_]
    """Which of them the watermark sees."""
    given: NDArray[np.int64] | None = None
    """Watermarks put in by the source; NONE where the row is an event."""
    partitions: Sequence[str] | None = None
    """The partition of each event."""


@dataclass(frozen=True)
class Marks:
    """What was known before each event, and after it."""

    own: NDArray[np.int64]
    """The mark of its own input or partition before it."""
    bolt: NDArray[np.int64]
    """The watermark before it."""
    own_after: NDArray[np.int64]
    bolt_after: NDArray[np.int64]


class EventWatermarks:
    """Moves the watermark of one bolt along its events and its clock; remembers everything in a WatermarkState."""

    def __init__(
        self,
        streams: Sequence[str],
        settings: WindowSettings,
        state: WatermarkState,
        carried: Sequence[bool] = (),
    ) -> None:
        self.streams, self.settings, self.state = tuple(streams), settings, state
        self.carried = tuple(carried) or (False,) * len(self.streams)
        """Which inputs carry the watermark of a bolt before this one."""

    def sequence(self, arrivals: Arrivals, clock: int) -> Marks:
        """Take in the events of a batch, the last of which came at this clock."""
        self.state.heard_at = clock
        if self.state.started is None:
            self.state.started = clock
        count = len(arrivals.times)
        marks = Marks(*(np.full(count, NONE, np.int64) for _ in range(4)))
        silent, known = set(self.state.idle), set(self.state.sources)
        heard = {self._input(source) for source in known}
        first: dict[int, int] = {}
        wanted = {*(self.settings.watermark_imports or {}), *(self.settings.watermark_imports or {}).values()}
        kept: dict[str, NDArray[np.int64]] = {}
        total: NDArray[np.int64] | None = None
        speaking: set[str] = set()
        for source, places in self._sources(arrivals):
            left_out = {source, self._stream(source)} & silent
            absent = bool(left_out) or (source not in known and arrivals.partitions is not None)
            along = self._advance(source, places, arrivals, marks, absent=absent)
            first[self._input(source)] = min(int(places[0]), first.get(self._input(source), count))
            speaking.add(source)
            self.state.seen_at[source] = clock
            if source in wanted:
                kept[source] = along
            else:
                total = self._join(total, along)
            self.state.idle = [name for name in self.state.idle if name not in left_out]
        total = self._import(arrivals, kept, marks, total, count)
        after = self._bolt(total, speaking | set(kept), count)
        for at, place in first.items():
            imports = self.streams[at] in (self.settings.watermark_imports or {})
            waits = at not in heard and not imports and self.streams[at] not in silent
            if waits and self.settings.watermark_over is Over.MIN:
                after[:place] = NONE
        emitted = NONE if self.state.emitted is None else self.state.emitted
        np.maximum(after, emitted, out=after)
        np.maximum.accumulate(after, out=marks.bolt_after)
        marks.bolt[:1], marks.bolt[1:] = emitted, marks.bolt_after[:-1]
        if count and marks.bolt_after[-1] > NONE:
            self.state.emitted = int(marks.bolt_after[-1])
        return marks

    def _advance(
        self, source: str, places: NDArray[np.int64], arrivals: Arrivals, marks: Marks, *, absent: bool
    ) -> NDArray[np.int64]:
        """Move the mark of one source along its events; its mark after each event of all sources."""
        state = self.state.sources.setdefault(source, MarkState())
        before = state.mark
        given = None if arrivals.given is None else arrivals.given[places]
        counts = arrivals.counts[places]
        if self.carried[self._input(source)] or not self._generates(source):
            counts = np.zeros(len(places), np.bool_)
        found = advance(
            state, arrivals.times[places], counts, given, self.settings.watermark_every, self.settings.delay
        )
        marks.own_after[places] = found
        marks.own[places] = np.concatenate([[before], found[:-1]])
        return self._along(len(arrivals.times), places, found, before, absent)

    def beat(
        self,
        clock: int,
        *,
        tick: bool = True,
        ends: Sequence[int] = (),
    ) -> None:
        """Take in what the clock says at the end of a batch.

        ``ends``: of the open windows that hold events, for the idle timeout.
        """
        state, settings = self.state, self.settings
        if state.started is None:
            state.started = clock
        waited = state.ticked_at is None or clock - state.ticked_at >= settings.watermark_interval.micros
        if settings.watermark_every is None and tick and waited:
            state.ticked_at = clock
            for mark in state.sources.values():
                if mark.latest > NONE:
                    mark.mark = max(mark.mark, mark.latest - settings.delay)
        self._find_idle(clock)
        self._import(None, {}, None, None, 1)
        self._emit(int(self._bolt(None, set(), 1)[0]))
        late = settings.arrival.late if settings.arrival else None
        if settings.estimate_arrival and late is not None and state.arrived is not None:
            assert state.arrived_at is not None
            if clock > state.arrived_at:  # nothing has come since
                self._emit(estimated(state.arrived, state.arrived_at, clock) - late.micros)
        if settings.idle_timeout is not None and state.heard_at is not None:
            end = idle_end(settings.idle_rule, settings.idle_timeout.micros, clock, state.heard_at, ends)
            if end is not None and (state.forced is None or end > state.forced):
                state.forced = end
                self._emit(end)

    def arrived(self, latest: int, clock: int) -> None:
        """Note the latest time of arrival of a batch, and the clock when the last of its events came."""
        state = self.state
        state.arrived = latest if state.arrived is None else max(state.arrived, latest)
        state.arrived_at = clock

    def _emit(self, mark: int) -> None:
        if mark > NONE and (self.state.emitted is None or mark > self.state.emitted):
            self.state.emitted = mark

    def _sources(self, arrivals: Arrivals) -> list[tuple[str, NDArray[np.int64]]]:
        """The sources that these events are from, and the places of the events of each."""
        found: list[tuple[str, NDArray[np.int64]]] = []
        for code, stream in enumerate(self.streams):
            if len(self.streams) == 1:
                places = np.arange(len(arrivals.times))
            else:
                places = np.flatnonzero(arrivals.inputs == code)
            if not len(places):
                continue
            if arrivals.partitions is None or self.carried[code]:
                found.append((stream, places))
                continue
            values = np.asarray(arrivals.partitions, dtype=object)[places].astype(str)
            names, codes = np.unique(values, return_inverse=True)
            order = np.argsort(codes, kind="stable")
            edges = np.searchsorted(codes[order], np.arange(len(names) + 1))
            for at, name in enumerate(names.tolist()):
                found.append((f"{stream}{_PARTITION}{name}", places[order[edges[at] : edges[at + 1]]]))
        return found

    def _generates(self, source: str) -> bool:
        imports = self.settings.watermark_imports or {}
        return self.settings.watermark_imports_beside or self._stream(source) not in imports

    @staticmethod
    def _stream(source: str) -> str:
        return source.split(_PARTITION, 1)[0]

    def _input(self, source: str) -> int:
        return self.streams.index(self._stream(source))

    @staticmethod
    def _along(
        count: int, places: NDArray[np.int64], marks: NDArray[np.int64], before: int, absent: bool
    ) -> NDArray[np.int64]:
        """The mark of a source after each event of all sources; an absent one takes no part until it speaks."""
        along = np.full(count, NONE, np.int64)
        along[places] = marks
        if before > NONE:
            along[0] = max(int(along[0]), before)
        np.maximum.accumulate(along, out=along)
        if absent:
            along[: places[0]] = FOREVER
        return along

    def _import(
        self,
        arrivals: Arrivals | None,
        kept: dict[str, NDArray[np.int64]],
        marks: Marks | None,
        total: NDArray[np.int64] | None,
        count: int,
    ) -> NDArray[np.int64] | None:
        """Inputs that take the marks of another: the running maximum of both (SI-15, SI-16); all are then joined."""
        for taker, giver in (self.settings.watermark_imports or {}).items():
            given = self._kept(kept, giver, count)
            held = self.state.sources.setdefault(taker, MarkState())
            kept[taker] = np.maximum(self._kept(kept, taker, count), given)
            if arrivals is not None and marks is not None:
                start = self.state.imported.get(taker, NONE)
                before = np.concatenate([[start], kept[taker][:-1]])[:count]
                mine = arrivals.inputs == self.streams.index(taker)
                marks.own[mine], marks.own_after[mine] = before[mine], kept[taker][mine]
            if count:
                held.mark = max(held.mark, int(kept[taker][-1]))
                self.state.imported[taker] = held.mark
        for source, along in kept.items():
            if source not in self.state.idle:
                total = self._join(total, along)
        return total

    def _kept(self, kept: dict[str, NDArray[np.int64]], source: str, count: int) -> NDArray[np.int64]:
        mark = self.state.sources.get(source, MarkState()).mark
        return kept[source] if source in kept else np.full(count, mark, np.int64)

    def _join(self, total: NDArray[np.int64] | None, along: NDArray[np.int64]) -> NDArray[np.int64]:
        """The least, or the greatest, of the marks of several sources; FOREVER is that of one that is left out."""
        if self.settings.watermark_over is Over.MAX:
            along = np.where(along == FOREVER, NONE, along)
            return along if total is None else np.maximum(total, along, out=total)
        return along if total is None else np.minimum(total, along, out=total)

    def _bolt(self, total: NDArray[np.int64] | None, speaking: set[str], count: int) -> NDArray[np.int64]:
        """The watermark after each event, over those that speak (joined already) and those that do not."""
        quiet = {
            source: mark.mark
            for source, mark in self.state.sources.items()
            if source not in speaking and source not in self.state.idle
        }
        heard = {self._input(source) for source in (*quiet, *speaking)}
        waiting = [stream for at, stream in enumerate(self.streams) if at not in heard and not self._gone_quiet(stream)]
        over = self.settings.watermark_over
        if (total is None and not quiet) or (over is Over.MIN and waiting):
            return np.full(count, NONE, np.int64)
        if quiet:
            mark = min(quiet.values()) if over is Over.MIN else max(quiet.values())
            total = self._join(total, np.full(count, mark, np.int64))
        assert total is not None
        return np.where(total == FOREVER, NONE, total)

    def _gone_quiet(self, stream: str) -> bool:
        """Whether every source of an input is left out for its silence, or it never spoke and its time is over."""
        return any(self._stream(source) == stream for source in self.state.idle)

    def _find_idle(self, clock: int) -> None:
        """Leave out what has been silent for the timeout (AT-20), an input that has never delivered too."""
        timeout = self.settings.partition_idle_timeout
        if timeout is None:
            return
        assert self.state.started is not None
        names = {*self.state.sources, *(stream for stream in self.streams if not self._delivers(stream))}
        # What comes from another bolt is as far as that bolt says, however quiet it is.
        names = {name for name in names if not self.carried[self._input(name)]}
        for source in sorted(names):
            since = self.state.seen_at.get(source, self.state.started)
            if clock - since >= timeout.micros and source not in self.state.idle:
                self.state.idle.append(source)

    def _delivers(self, stream: str) -> bool:
        return any(self._stream(source) == stream for source in self.state.sources)
