"""The watermark of a bolt: the minimum over its inputs of the latest time seen minus the lag; the order in which events
arrive; and watermarks within a batch, made after every event or every n-th one, or inserted by the source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from policies.watermarks import NONE, MarkState, advance, estimated_arrival, idle_end
from windowing.durations import Duration
from windowing.settings import WindowSettings
from windowing.settings.rules import WatermarkCombiner
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
    """Per stream from another bolt whose events get another time here: the largest difference by which the new time is
    earlier."""
    ticked_at: int | None = None
    """The clock of the last tick."""
    forced: int | None = None
    """End of the last window that the idle timeout closed."""
    sources: SourcesState = field(default_factory=SourcesState)
    """The marks of its sources, if it follows events (``manager.watermarks``)."""

    def observe(self, stream: str, latest: int) -> None:
        """Record the latest time that some events of a stream have shown, in microseconds."""
        self.latest[stream] = max(latest, self.latest.get(stream, latest))

    def may_tick(self, clock: int, interval: Duration) -> bool:
        """True if the watermark interval has passed on the clock (microseconds) since the last tick."""
        return self.ticked_at is None or clock - self.ticked_at >= interval.micros

    def to_json(self) -> dict[str, Any]:
        """Returns plain JSON values, without empty ones."""
        marks = {name: dict(vars(mark)) for name, mark in self.sources.marks.items()}  # asdict costs ten times as much
        return {**_without_empty(vars(self)), "sources": _without_empty({**vars(self.sources), "marks": marks})}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Makes the state from the values of ``to_json``."""
        sources = dict(values["sources"])
        marks = {name: MarkState(**mark) for name, mark in sources.pop("marks", {}).items()}
        return cls(**{**values, "sources": SourcesState(marks, **sources)})


class WaterMarkEventGenerator:
    """Computes the watermark of a bolt from the times that its streams have delivered (ST-13 to ST-15).

    The watermark is None before every stream has delivered, and never decreases; a tick without an increase emits
    nothing. Before the first watermark no event is late, so times before 1970 are valid.

    Each bolt whose watermark is made at ticks has one generator, on the driver (``topologies.engine.ticking``). The
    times come from the bolt's tasks; the ``WindowManager`` of each task yields the windows that the watermark makes
    due.
    """

    def __init__(
        self,
        streams: Sequence[str] = ("default",),
        lag: Duration = Duration(0),
        interval: Duration = Duration(0),
        *,
        state: WatermarkState | None = None,
    ) -> None:
        """``streams``: the names of the input streams. ``lag`` is subtracted from the latest time. ``interval``: the
        minimum time between two ticks on the clock. ``state``: the state of an earlier generator; None starts over."""
        self.streams, self.lag, self.interval = tuple(streams), lag, interval
        self.state = state or WatermarkState()

    @property
    def watermark(self) -> int | None:
        """The last watermark emitted, in microseconds; None before the first."""
        return self.state.current

    def observe(self, latest: Mapping[str, int]) -> None:
        """Record the latest times seen, per stream, in microseconds. Raises KeyError for an unknown stream. The engine
        learns of the events of a batch before it has a generator, so it calls this method of the state."""
        for stream, moment in latest.items():
            if stream not in self.streams:
                raise KeyError(f"no input stream {stream!r}; the watermark follows {', '.join(self.streams)}")
            self.state.observe(stream, moment)

    def compute(self) -> int | None:
        """Returns the watermark in microseconds that the streams allow now; None if one of them has delivered
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


def _without_empty(values: Mapping[str, Any]) -> dict[str, Any]:
    given = {name: value for name, value in values.items() if value not in (None, {}, [])}
    return {name: value.copy() if isinstance(value, dict | list) else value for name, value in given.items()}


# The events of a batch in order of arrival, with the columns that watermarks are computed from.


_PARTITION = "\t"
"""Separates an input from the value of its partition in the name of a source of marks."""
NO_PARTITION = "\0"
"""Name of the partition of events that have none; users' names never contain this character."""


def source_of(stream: str, partition: str | None) -> str:
    """Returns the name of a source of marks: an input, or a partition of one."""
    return stream if partition is None else f"{stream}{_PARTITION}{partition}"


def input_of(source: str) -> str:
    """Returns the input stream of a source of marks, which is an input or a partition of one."""
    return source.split(_PARTITION, 1)[0]


def partition_of(source: str) -> str:
    """Returns the partition of a source of marks under the name that users know; "" for an input as a whole.

    The name of a source's partition begins with its spout, which is left out where that is the input itself. ``null``
    stands for events without a partition; a partition that is called so, or has no name, is in quotes: ``'null'``.
    """
    stream, of_partition, partition = source.partition(_PARTITION)
    if not of_partition:
        return ""
    if partition == NO_PARTITION:
        return "null"
    name = partition.removeprefix(f"{stream}{_PARTITION}").replace("\t", "/")
    return f"'{name}'" if name in ("", "null") or name.startswith("'") else name


def in_words(source: str) -> str:
    """Returns a source of marks as texts name it: ``orders``, ``orders/3``."""
    return "/".join(name for name in (input_of(source), partition_of(source)) if name)


@dataclass(frozen=True)
class ArrivalTimes:
    """The events of a batch in order of arrival; arrays of equal length."""

    times: NDArray[np.int64]
    inputs: NDArray[np.int8]
    """Per event, the index of its input stream."""
    advancing: NDArray[np.bool_]
    """True for events that advance the watermark."""
    given: NDArray[np.int64] | None = None
    """Watermarks inserted by the source, in microseconds; NONE if the row is an event."""
    partitions: NDArray[np.int64] | None = None
    """Per event, the index of its partition in ``names``; -1 if it has none."""
    names: Sequence[str] = ()
    heard: NDArray[np.bool_] | None = None
    """True for events that make their partition known; events turned away as early, late or invalid do not (AZ-4)."""
    arrived: NDArray[np.int64] | None = None
    """Arrival time of each event in microseconds, NONE if unknown; only where the watermark follows the arrivals
    (AZ-5)."""

    def __len__(self) -> int:
        return len(self.times)

    def by_source(self, streams: Sequence[str], whole: Sequence[bool]) -> Iterator[tuple[str, NDArray[np.int64]]]:
        """Yields each source of these events, and the indices of its events. ``whole``: per stream, True if its
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
        """Returns the index of the first of these events that makes its source known; without one, the number of
        events."""
        if self.heard is None:
            return int(places[0])
        heard = places[self.heard[places]]
        return int(heard[0]) if len(heard) else len(self)

    def lower_bounds(self, late: int, before: int | None) -> NDArray[np.int64] | None:
        """Returns, after each event, the lower bound that the arrivals so far give for every silent source (AZ-5); None
        without a bound.

        The bound is the latest arrival minus the late tolerance ``late``; ``before`` is the latest arrival of earlier
        batches. In a batch that is not in order of arrival, the earliest arrival that is still to come replaces the
        latest one. In order, the bound is the same wherever batches end.
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

    of_source: NDArray[np.int64]
    """The mark of its own input or partition before the event."""
    of_bolt: NDArray[np.int64]
    """The watermark before the event."""
    of_source_after: NDArray[np.int64]
    of_bolt_after: NDArray[np.int64]

    @classmethod
    def none_yet(cls, events: int) -> MarksAround:
        """Returns empty columns for this number of events."""
        return cls(*(np.full(events, NONE, np.int64) for _ in range(4)))


# The sources of marks of one bolt: its inputs, or their partitions, each with a mark of its own.


class MarkSources:
    """Advances the marks of sources, and combines them; all state is in a SourcesState.

    A mark *along* a batch is an array: the mark of one source after each event of all sources; FOREVER if the source
    takes no part.
    """

    def __init__(
        self, streams: Sequence[str], settings: WindowSettings, state: SourcesState, from_bolts: Sequence[bool] = ()
    ) -> None:
        self.streams, self.settings, self.state = tuple(streams), settings, state
        self.from_bolts = tuple(from_bolts) or (False,) * len(self.streams)
        """True for each input that carries the watermark of an upstream bolt."""

    def index_of(self, source: str) -> int:
        """Returns the index of a source's input."""
        return self.streams.index(input_of(source))

    def delivering(self) -> set[int]:
        """Returns the indices of the inputs that have a source."""
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
        """Add the inputs that have not delivered: the arrivals of others show how far time is."""
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
        arrival_bounds: NDArray[np.int64] | None,
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
        if arrival_bounds is None or from_bolt:
            marks.of_source_after[places] = own_marks
            marks.of_source[places] = np.concatenate([[before], own_marks[:-1]])
            return np.repeat(np.concatenate([[before], own_marks]), np.diff(places, prepend=0, append=len(arrivals)))
        along = arrival_bounds.copy()  # the bound moves it on while other sources deliver, and its own events do
        along[places] = own_marks
        if new:
            known = places[0] if source == input_of(source) else arrivals.joins(places)
            along[:known] = NONE  # the bound does not apply to an unknown source
        along[0] = max(int(along[0]), before)
        np.maximum.accumulate(along, out=along)
        state.mark = max(state.mark, int(along[-1]))
        marks.of_source_after[places] = along[places]
        marks.of_source[places] = np.where(places > 0, along[places - 1], before)
        return along

    def lift(self, speaking: set[str], bound: int) -> None:
        """Raise the marks of silent sources to the lower bound that the arrivals give (AZ-5)."""
        for source, mark in self.state.marks.items():
            if source not in speaking and not self.from_bolts[self.index_of(source)]:
                mark.mark = max(mark.mark, bound)

    def take_over(
        self,
        imported: dict[str, NDArray[np.int64]],
        events: int,
        filled: tuple[ArrivalTimes, MarksAround] | None = None,
        arrival_bounds: NDArray[np.int64] | None = None,
    ) -> None:
        """Raises the marks of each input that imports marks of another input to the imported ones, if these are later
        (SI-15, SI-16).

        ``imported``: for each input that has events, its marks along a batch of ``events`` events; the marks of the
        importing inputs are added. ``filled``: the events, and the marks around each; the marks of the importing inputs
        are replaced in them. ``arrival_bounds``: the lower bounds by arrivals, which silent inputs follow (AZ-5).
        """
        for taker, giver in (self.settings.watermark_imports or {}).items():
            given = self._along(imported, giver, events, arrival_bounds)
            state = self.state.marks.setdefault(taker, MarkState())
            along = imported[taker] = np.maximum(self._along(imported, taker, events, arrival_bounds), given)
            if filled is not None:
                arrivals, marks = filled
                before = np.concatenate([[self.state.imported.get(taker, NONE)], along[:-1]])[:events]
                of_taker = arrivals.inputs == self.streams.index(taker)
                marks.of_source[of_taker], marks.of_source_after[of_taker] = before[of_taker], along[of_taker]
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
        self,
        total: NDArray[np.int64] | None,
        speaking: set[str],
        events: int,
        arrival_bounds: NDArray[np.int64] | None = None,
    ) -> NDArray[np.int64]:
        """Returns the watermark after each event, over the sources that delivered (combined in ``total``) and the
        silent ones."""
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
                total = self.join(total, _lifted(mark, events, None if from_bolt else arrival_bounds))
        if total is None:
            return np.full(events, NONE, np.int64)
        return np.where(total == FOREVER, NONE, total)

    def _waits(self, heard: set[int]) -> bool:
        """True if an input is missing, as a whole or in a partition, and is not excluded as idle."""
        idle = {input_of(source) for source in self.state.idle}
        return any(index not in heard and stream not in idle for index, stream in enumerate(self.streams))

    def _makes_marks(self, source: str) -> bool:
        """True if events of a source make marks. They do not if its input imports marks, unless
        ``watermark_imports_beside``."""
        imports = self.settings.watermark_imports or {}
        return self.settings.watermark_imports_beside or input_of(source) not in imports

    def _along(
        self,
        imported: dict[str, NDArray[np.int64]],
        source: str,
        events: int,
        arrival_bounds: NDArray[np.int64] | None,
    ) -> NDArray[np.int64]:
        if source in imported:
            return imported[source]
        mark = self.state.marks.get(source, MarkState()).mark
        return _lifted(mark, events, None if self.from_bolts[self.index_of(source)] else arrival_bounds)


def _lifted(mark: int, events: int, arrival_bounds: NDArray[np.int64] | None) -> NDArray[np.int64]:
    """Returns the mark of a silent source along a batch: the lower bound that the arrivals give moves it on, never
    back."""
    along = np.full(events, mark, np.int64)
    return along if arrival_bounds is None else np.maximum.accumulate(np.maximum(along, arrival_bounds))


# The watermark along one batch of events: the marks of each source, then of all sources together.


class WatermarkTrace:
    """The events of a batch, and the marks so far. Call ``take`` for each source, then ``after``."""

    def __init__(
        self, sources: MarkSources, arrivals: ArrivalTimes, clock: int, arrival_bounds: NDArray[np.int64] | None
    ) -> None:
        """``arrival_bounds``: after each event, the lower bound that the arrivals give for silent sources; or None."""
        self._sources, self._arrivals, self._clock, self._arrival_bounds = sources, arrivals, clock, arrival_bounds
        self.marks = MarksAround.none_yet(len(arrivals))
        """The marks around each event; the caller fills in the marks of the bolt."""
        self.speaking: set[str] = set()
        """The sources that have delivered."""
        self._idle, self._known = set(sources.state.idle), set(sources.state.marks)
        self._known_inputs = sources.delivering()
        self._first: dict[int, int] = {}
        """Per input that delivers: the index of the first event that makes one of its sources known."""
        self._new_partitions: dict[str, list[tuple[int, NDArray[np.int64]]]] = {}
        """For each input, its new partitions: the event that makes each known, and all of its events."""
        imports = sources.settings.watermark_imports or {}
        self._wanted = {*imports, *imports.values()}
        self._imported: dict[str, NDArray[np.int64]] = {}
        """The marks along the batch, for the inputs that import marks and their sources."""
        self._total: NDArray[np.int64] | None = None
        """The combined marks of all other inputs along the batch."""

    def take(self, source: str, places: NDArray[np.int64]) -> None:
        """Take the events of one source, which are at these indices."""
        sources, stream, joins = self._sources, input_of(source), self._arrivals.joins(places)
        left_out, new_partition = {source, stream} & self._idle, source != stream and source not in self._known
        if new_partition:
            self._new_partitions.setdefault(stream, []).append((joins, places))
            if joins == len(self._arrivals):
                return  # none of its events makes it known
        along = sources.advance(source, places, self._arrivals, self.marks, self._arrival_bounds)
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
        """Called once, when all is taken: returns the watermark that the sources allow after each event, whatever it
        was before."""
        sources, events = self._sources, len(self._arrivals)
        for stream in self._newly_partitioned():
            self._total = sources.join(self._total, self._awaited(stream))
            self.speaking.add(stream)
        sources.take_over(self._imported, events, (self._arrivals, self.marks), self._arrival_bounds)
        for source, along in self._imported.items():
            if source not in sources.state.idle:
                self._total = sources.join(self._total, along)
        after = sources.watermarks(self._total, self.speaking | set(self._imported), events, self._arrival_bounds)
        after[: self._waits_until()] = NONE
        return after

    def _waits_until(self) -> int:
        """Returns the index of the first event with a watermark: before it, an input that delivers in this batch was
        missing."""
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

    def _newly_partitioned(self) -> list[str]:
        """Returns the inputs that were awaited as a whole and of which a partition has now delivered."""
        marks = self._sources.state.marks.items()
        awaited = {stream for stream, mark in marks if not mark.counted and stream not in self.speaking}
        return [stream for stream in self._new_partitions if stream in awaited]

    def _awaited(self, stream: str) -> NDArray[np.int64]:
        """Returns the mark of an input before each event, until one of its partitions is known; from then on FOREVER,
        which holds nothing back."""
        state, new = self._sources.state, self._new_partitions[stream]
        mark, joins = state.marks[stream], min(join for join, _ in new)
        along = (
            np.full(len(self._arrivals), NONE, np.int64)
            if self._arrival_bounds is None
            else self._arrival_bounds.copy()
        )
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


# Watermarks computed from events: after every event, after every n-th event, or as the source inserts them.
#
# The input is the arrivals of a batch, in order; the output is the watermark before each of them. What depends on the
# events alone is the same wherever batches end.


class EventWatermarks:
    """Advances the watermark of one bolt with its events and its clock; all state is in a WatermarkState."""

    def __init__(
        self,
        streams: Sequence[str],
        settings: WindowSettings,
        state: WatermarkState,
        from_bolts: Sequence[bool] = (),
    ) -> None:
        """``streams``: the names of the input streams. ``settings``: the settings of the bolt. ``state`` is updated in
        place. ``from_bolts``: an entry per stream; empty if no stream comes from a windowed bolt."""
        self.settings, self.state = settings, state
        self.sources = MarkSources(streams, settings, state.sources, from_bolts)
        """The inputs and partitions that the watermark follows."""

    def sequence(self, arrivals: ArrivalTimes, clock: int) -> MarksAround:
        """Process the events of a batch, the last of which came at this clock; returns the marks around each event."""
        sources = self.sources
        sources.state.heard_at = clock
        self._begin(clock)
        arrival_bounds = self._arrival_bounds(arrivals)
        if arrival_bounds is not None:
            sources.add_missing_inputs()
        batch = WatermarkTrace(sources, arrivals, clock, arrival_bounds)
        for source, places in arrivals.by_source(sources.streams, sources.from_bolts):
            batch.take(source, places)
        after, marks = batch.after(), batch.marks
        sources.lift(batch.speaking, NONE if arrival_bounds is None or not len(arrivals) else int(arrival_bounds.max()))
        watermark = NONE if self.state.current is None else self.state.current
        np.maximum(after, watermark, out=after)
        np.maximum.accumulate(after, out=marks.of_bolt_after)
        marks.of_bolt[:1], marks.of_bolt[1:] = watermark, marks.of_bolt_after[:-1]
        if len(arrivals):
            self._emit(int(marks.of_bolt_after[-1]))
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
            for source, mark in self.sources.state.marks.items():
                if mark.latest > NONE:
                    from_bolt = self.sources.from_bolts[self.sources.index_of(source)]
                    mark.mark = max(NONE if from_bolt else mark.mark, mark.latest - settings.delay)

    def _follow_the_clock(self, clock: int) -> None:
        """Advance the watermark by the estimated arrival time since the last arrival (AZ-5)."""
        noted, late = self.sources.state, self._late_tolerance
        if late is None or noted.arrived is None:
            return
        assert noted.arrived_at is not None
        if clock > noted.arrived_at:
            reached = estimated_arrival(noted.arrived, noted.arrived_at, clock) - late
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

    def _arrival_bounds(self, arrivals: ArrivalTimes) -> NDArray[np.int64] | None:
        late = self._late_tolerance
        return None if late is None else arrivals.lower_bounds(late, self.sources.state.arrived)

    @property
    def _late_tolerance(self) -> int | None:
        """Time that the watermark stays behind arrivals, in microseconds; None if it does not follow arrivals."""
        late = self.settings.arrival.late if self.settings.arrival else None
        return late.micros if late is not None and self.settings.estimate_arrival else None

    def _emit(self, mark: int) -> None:
        if mark > NONE and (self.state.current is None or mark > self.state.current):
            self.state.current = mark
