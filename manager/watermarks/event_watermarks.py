"""Watermarks computed from events: after every event, after every n-th event, or as the source inserts them.

The input is the arrivals of a batch, in order; the output is the watermark before each of them. What depends on
the events alone is the same wherever batches end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from manager.watermarks.arrival_times import ArrivalTimes, MarksAround
from manager.watermarks.mark_sources import MarkSources
from manager.watermarks.sequenced_batch import SequencedBatch
from manager.watermarks.watermark import WatermarkState
from policies.idleness import estimated, idle_end
from policies.marks import NONE
from windowing.settings import WindowSettings

if TYPE_CHECKING:
    from numpy.typing import NDArray


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
        self.settings, self.state = settings, state
        self.sources = MarkSources(streams, settings, state.sources, from_bolts)
        """The inputs and partitions that the watermark follows."""

    def sequence(self, arrivals: ArrivalTimes, clock: int) -> MarksAround:
        """Process the events of a batch, the last of which came at this clock; returns the marks around each event."""
        sources = self.sources
        sources.state.heard_at = clock
        self._begin(clock)
        floor = self._floor(arrivals)
        if floor is not None:
            sources.add_missing_inputs()
        batch = SequencedBatch(sources, arrivals, clock, floor)
        for source, places in arrivals.by_source(sources.streams, sources.from_bolts):
            batch.take(source, places)
        after, marks = batch.after(), batch.marks
        sources.lift(batch.speaking, NONE if floor is None or not len(arrivals) else int(floor.max()))
        watermark = NONE if self.state.current is None else self.state.current
        np.maximum(after, watermark, out=after)
        np.maximum.accumulate(after, out=marks.bolt_after)
        marks.bolt[:1], marks.bolt[1:] = watermark, marks.bolt_after[:-1]
        if len(arrivals):
            self._emit(int(marks.bolt_after[-1]))
        return marks

    def arrived(self, latest: int, clock: int) -> None:
        """Record the latest arrival time of a batch, and the clock when the last of its events came."""
        noted = self.sources.state
        noted.arrived = latest if noted.arrived is None else max(noted.arrived, latest)
        noted.arrived_at = clock

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
        self._begin(clock)
        if tick:
            self._tick(clock)
        self.sources.find_idle(clock)
        self.sources.take_over({}, 1)
        self._emit(int(self.sources.watermarks(None, set(), 1)[0]))
        self._follow_the_clock(clock)
        self._close_idle_windows(clock, ends)

    def _begin(self, clock: int) -> None:
        if self.sources.state.started is None:
            self.sources.state.started = clock

    def _tick(self, clock: int) -> None:
        """Advance the mark of each source, where marks are made at ticks and the watermark interval has passed."""
        state, settings = self.state, self.settings
        if settings.watermark_every is None and state.may_tick(clock, settings.watermark_interval):
            state.ticked_at = clock
            for mark in self.sources.state.marks.values():
                if mark.latest > NONE:
                    mark.mark = max(mark.mark, mark.latest - settings.delay)

    def _follow_the_clock(self, clock: int) -> None:
        """Advance the watermark by the estimated arrival time since the last arrival (AZ-5)."""
        noted, late = self.sources.state, self._late_tolerance
        if late is None or noted.arrived is None:
            return
        assert noted.arrived_at is not None
        if clock > noted.arrived_at:
            reached = estimated(noted.arrived, noted.arrived_at, clock) - late
            self.sources.lift(set(), reached)
            self._emit(reached)

    def _close_idle_windows(self, clock: int, ends: Sequence[int]) -> None:
        """Advance the watermark to the end of the last window that the idle timeout closes (AT-17)."""
        settings, heard_at = self.settings, self.sources.state.heard_at
        if settings.idle_timeout is None or heard_at is None:
            return
        end = idle_end(settings.idle_rule, settings.idle_timeout.micros, clock, heard_at, ends)
        if end is not None and (self.state.forced is None or end > self.state.forced):
            self.state.forced = end
            self._emit(end)

    def _floor(self, arrivals: ArrivalTimes) -> NDArray[np.int64] | None:
        late = self._late_tolerance
        return None if late is None else arrivals.floor(late, self.sources.state.arrived)

    @property
    def _late_tolerance(self) -> int | None:
        """How far the watermark stays behind arrivals, in microseconds; None where it does not follow them."""
        late = self.settings.arrival.late if self.settings.arrival else None
        return late.micros if late is not None and self.settings.estimate_arrival else None

    def _emit(self, mark: int) -> None:
        if mark > NONE and (self.state.current is None or mark > self.state.current):
            self.state.current = mark
