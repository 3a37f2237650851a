"""The watermark of a bolt: the minimum over its input streams of the latest time seen, minus the lag."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from policies.lateness import Lateness
from policies.marks import MarkState
from windowing.durations import Duration

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass
class WatermarkState:
    """What a generator remembers; times in microseconds."""

    latest: dict[str, int] = field(default_factory=dict)
    """Per stream that has delivered: the latest time seen, or the promise of the bolt it comes from."""
    emitted: int | None = None
    """The watermark emitted last."""
    skew: dict[str, int] = field(default_factory=dict)
    """Per stream from another bolt whose events are given another time here: how far that was behind at most."""
    ticked_at: int | None = None
    """The clock of the last tick."""

    # -- of watermarks that events make (manager.watermarks.event_watermarks)
    sources: dict[str, MarkState] = field(default_factory=dict)
    """Per input, or partition of an input: its mark."""
    imported: dict[str, int] = field(default_factory=dict)
    """Per input that takes the marks of another: what it has so far."""
    idle: list[str] = field(default_factory=list)
    """The inputs or partitions that are left out for their silence."""
    seen_at: dict[str, int] = field(default_factory=dict)
    """Per input or partition: the clock when it last delivered."""
    started: int | None = None
    """The clock of the first batch."""
    heard_at: int | None = None
    """The clock of the last batch that brought events."""
    arrived: int | None = None
    """The latest time of arrival."""
    arrived_at: int | None = None
    """The clock of the batch that brought it."""
    forced: int | None = None
    """The end of the last window that the idle timeout closed."""


class WaterMarkEventGenerator:
    """Computes the watermark of a bolt from what its streams have delivered (ST-13 to ST-15).

    None before every stream has delivered; never goes back; a tick that brings nothing larger emits nothing. There
    is no watermark before the first one, so times before 1970 are as good as any.
    """

    def __init__(
        self,
        streams: Sequence[str] = ("default",),
        lag: Duration = Duration(0),
        interval: Duration = Duration(0),
        *,
        lateness: Lateness | None = None,
        state: WatermarkState | None = None,
    ) -> None:
        self.streams, self.lag, self.interval = tuple(streams), lag, interval
        self.lateness = lateness or Lateness()
        self.state = state or WatermarkState()

    @property
    def watermark(self) -> int | None:
        """The watermark emitted last, in microseconds."""
        return self.state.emitted

    def track(self, timestamps: NDArray[np.int64], stream: str = "default") -> NDArray[np.bool_]:
        """Note the times (int64 microseconds) of events that a stream delivers; True for those that are late."""
        if len(timestamps):
            self.observe({stream: int(timestamps.max())})
        return self.lateness.late(timestamps, self.state.emitted)

    def observe(self, latest: Mapping[str, int]) -> None:
        """Note the latest time seen on each of some streams, in microseconds."""
        for stream, moment in latest.items():
            if stream not in self.streams:
                raise KeyError(f"no input stream {stream!r}; the watermark follows {', '.join(self.streams)}")
            self.state.latest[stream] = max(moment, self.state.latest.get(stream, moment))

    def compute(self) -> int | None:
        """The watermark that the streams allow now; None while one of them has delivered nothing."""
        if not self.streams or any(stream not in self.state.latest for stream in self.streams):
            return None
        return min(self.state.latest[stream] for stream in self.streams) - self.lag.micros

    def tick(self, clock: int | None = None) -> int | None:
        """Emit the watermark if it has grown; None if not, or if the interval has not passed on the clock."""
        if clock is not None and not self._interval_passed(clock):
            return None
        self.state.ticked_at = clock
        allowed = self.compute()
        if allowed is None or (self.state.emitted is not None and allowed <= self.state.emitted):
            return None
        self.state.emitted = allowed
        return allowed

    def _interval_passed(self, clock: int) -> bool:
        before = self.state.ticked_at
        return before is None or clock - before >= self.interval.micros
