"""The watermark of a bolt, the minimum over its inputs of the latest time seen minus the lag, and the order in
which events arrive.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from policies.watermarks import NONE, MarkState
from windowing.durations import Duration
from windowing.timestamps import FOREVER

if TYPE_CHECKING:
    from numpy.typing import NDArray


# The watermark of a bolt: the minimum over its input streams of the latest time seen, minus the lag.


@dataclass
class SourcesState:
    """The state of a watermark that follows events: its inputs and their partitions; times in microseconds."""

    marks: dict[str, MarkState] = field(default_factory=dict)
    """The mark of each input, or partition of an input."""
    imported: dict[str, int] = field(default_factory=dict)
    """Per input that imports the marks of another: its mark so far."""
    idle: list[str] = field(default_factory=list)
    """Inputs or partitions excluded because they are idle."""
    seen_at: dict[str, int] = field(default_factory=dict)
    """Per input or partition: the clock when it last delivered."""
    started: int | None = None
    """The clock of the first batch."""
    heard_at: int | None = None
    """The clock of the last batch that brought events."""
    arrived: int | None = None
    """The latest arrival time."""
    arrived_at: int | None = None
    """The clock of the batch with that arrival."""


@dataclass
class WatermarkState:
    """The state of a bolt's watermark; times in microseconds."""

    latest: dict[str, int] = field(default_factory=dict)
    """Per stream that has delivered: the latest time seen, or the watermark promised by the bolt it comes from."""
    current: int | None = None
    """The last watermark emitted, which holds until the next; None before the first."""
    skew: dict[str, int] = field(default_factory=dict)
    """Per stream from another bolt whose events get another time here: the largest difference by which that time is
    earlier than the one they came with."""
    ticked_at: int | None = None
    """The clock of the last tick."""
    forced: int | None = None
    """End of the last window that the idle timeout closed."""
    sources: SourcesState = field(default_factory=SourcesState)
    """The marks of its sources, where it follows events (``manager.event_watermarks``)."""

    def observe(self, stream: str, latest: int) -> None:
        """Record the latest time that some events of a stream have shown, in microseconds."""
        self.latest[stream] = max(latest, self.latest.get(stream, latest))

    def may_tick(self, clock: int, interval: Duration) -> bool:
        """True if the watermark interval has passed on the clock (microseconds) since the last tick."""
        return self.ticked_at is None or clock - self.ticked_at >= interval.micros

    def to_json(self) -> dict[str, Any]:
        """Returns plain JSON values, without those that are empty."""
        marks = {name: dict(vars(mark)) for name, mark in self.sources.marks.items()}  # asdict costs ten times as much
        return {**_given(vars(self)), "sources": _given({**vars(self.sources), "marks": marks})}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Makes the state from the values of ``to_json``."""
        sources = dict(values["sources"])
        marks = {name: MarkState(**mark) for name, mark in sources.pop("marks", {}).items()}
        return cls(**{**values, "sources": SourcesState(marks, **sources)})


class WaterMarkEventGenerator:
    """Computes the watermark of a bolt from the times its streams have delivered (ST-13 to ST-15).

    It is None before every stream has delivered, and never decreases; a tick without an increase emits nothing. Before
    the first watermark no event is late, so times before 1970 are valid.

    Each bolt whose watermark is made at ticks has one, on the driver (``topologies.engine.ticking``). The
    times come from the bolt's tasks, whose ``WindowManager`` yields the windows that the watermark makes due.
    """

    def __init__(
        self,
        streams: Sequence[str] = ("default",),
        lag: Duration = Duration(0),
        interval: Duration = Duration(0),
        *,
        state: WatermarkState | None = None,
    ) -> None:
        """``streams`` are the names of the input streams, ``lag`` is subtracted from the latest time, ``interval`` is
        the minimum time between two ticks on the clock. ``state`` is that of an earlier generator; None
        starts over.
        """
        self.streams, self.lag, self.interval = tuple(streams), lag, interval
        self.state = state or WatermarkState()

    @property
    def watermark(self) -> int | None:
        """The last watermark emitted, in microseconds; None before the first."""
        return self.state.current

    def observe(self, latest: Mapping[str, int]) -> None:
        """Record the latest times seen, per stream, in microseconds. Raises KeyError for an unknown stream.

        The engine, which hears of the events of a batch before it has a generator, tells the state of it.
        """
        for stream, moment in latest.items():
            if stream not in self.streams:
                raise KeyError(f"no input stream {stream!r}; the watermark follows {', '.join(self.streams)}")
            self.state.observe(stream, moment)

    def compute(self) -> int | None:
        """Returns the watermark in microseconds that the streams allow now; None while one of them has delivered
        nothing."""
        if not self.streams or any(stream not in self.state.latest for stream in self.streams):
            return None
        return min(self.state.latest[stream] for stream in self.streams) - self.lag.micros

    def tick(self, clock: int | None = None) -> int | None:
        """Emit the watermark in microseconds if it has increased; None if it has not, or if the watermark interval has
        not passed on the clock."""
        if clock is not None and not self.state.may_tick(clock, self.interval):
            return None
        self.state.ticked_at = clock
        allowed = self.compute()
        if allowed is None or (self.state.current is not None and allowed <= self.state.current):
            return None
        self.state.current = allowed
        return allowed


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    given = {name: value for name, value in values.items() if value not in (None, {}, [])}
    return {name: value.copy() if isinstance(value, dict | list) else value for name, value in given.items()}


# The events of a batch in order of arrival, with the columns that watermarks are computed from.


_PARTITION = "\t"
"""Separates an input from the value of its partition in the name of a source of marks."""


def source_of(stream: str, partition: str | None) -> str:
    """Returns the name of a source of marks: an input, or a partition of one."""
    return stream if partition is None else f"{stream}{_PARTITION}{partition}"


def input_of(source: str) -> str:
    """Returns the input stream of a source of marks, which is an input or a partition of one."""
    return source.split(_PARTITION, 1)[0]


@dataclass(frozen=True)
class ArrivalTimes:
    """The events of a batch in order of arrival; arrays of equal length."""

    times: NDArray[np.int64]
    inputs: NDArray[np.int8]
    """Per event, the index of its input stream."""
    advancing: NDArray[np.bool_]
    """True for events that advance the watermark."""
    given: NDArray[np.int64] | None = None
    """Watermarks inserted by the source, in microseconds; NONE where the row is an event."""
    partitions: NDArray[np.int64] | None = None
    """Per event, the index of its partition in ``names``; -1 where it has none."""
    names: Sequence[str] = ()
    heard: NDArray[np.bool_] | None = None
    """True for events that make their partition known; events turned away as early, late or invalid do not (AZ-4)."""
    arrived: NDArray[np.int64] | None = None
    """Arrival time of each event in microseconds, NONE where unknown; only where the watermark follows the arrivals
    (AZ-5)."""

    def __len__(self) -> int:
        return len(self.times)

    def by_source(self, streams: Sequence[str], whole: Sequence[bool]) -> Iterator[tuple[str, NDArray[np.int64]]]:
        """Yields the sources of these events, and the indices of the events of each. ``whole``: per stream, whether its
        partitions have no marks of their own."""
        for code, stream in enumerate(streams):
            places = np.arange(len(self)) if len(streams) == 1 else np.flatnonzero(self.inputs == code)
            if not len(places):
                continue
            if self.partitions is None or whole[code]:
                yield stream, places
                continue
            codes = self.partitions[places]
            order = np.argsort(codes, kind="stable")
            edges = np.searchsorted(codes[order], np.arange(-1, len(self.names) + 1))
            for index, name in enumerate((None, *self.names)):
                of_source = places[order[edges[index] : edges[index + 1]]]
                if len(of_source):
                    yield source_of(stream, name), of_source

    def joins(self, places: NDArray[np.int64]) -> int:
        """Returns the index of the first of these events that makes its source known; the number of events if none
        does."""
        if self.heard is None:
            return int(places[0])
        heard = places[self.heard[places]]
        return int(heard[0]) if len(heard) else len(self)

    def floor(self, late: int, before: int | None) -> NDArray[np.int64] | None:
        """Returns, after each event, the lower bound that the arrivals so far give for every silent source (AZ-5); None
        where there is none.

        It is the latest arrival minus the late tolerance ``late``; ``before`` is the latest arrival of earlier batches.
        Where the events of a batch are not in order of arrival, it is no more than the arrivals still to come in the
        batch allow; in order, it is the same wherever batches end.
        """
        if self.arrived is None or not len(self):
            return None
        latest = np.maximum(np.maximum.accumulate(self.arrived), NONE if before is None else before)
        coming = np.where(self.arrived > NONE, self.arrived, FOREVER)
        least = np.minimum.accumulate(coming[::-1])[::-1]
        latest[:-1] = np.minimum(latest[:-1], least[1:])
        return np.where(self.arrived > NONE, latest - late, NONE)  # unreadable arrivals give no bound


@dataclass(frozen=True)
class MarksAround:
    """The marks and watermarks in microseconds before and after each event."""

    own: NDArray[np.int64]
    """The mark of its own input or partition before the event."""
    bolt: NDArray[np.int64]
    """The watermark before the event."""
    own_after: NDArray[np.int64]
    bolt_after: NDArray[np.int64]

    @classmethod
    def none_yet(cls, events: int) -> MarksAround:
        """Returns empty columns for this number of events."""
        return cls(*(np.full(events, NONE, np.int64) for _ in range(4)))
