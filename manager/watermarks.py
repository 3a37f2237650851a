"""The watermark of a bolt: made at ticks, after every event, after every n-th event, or inserted by the source."""

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

# Watermarks made at ticks: the minimum over the input streams of the latest time seen, minus the lag.


@dataclass
class SourcesState:
    """The state of the sources of a bolt's watermark, which are inputs or partitions of inputs; times in
    microseconds."""

    marks: dict[str, MarkState] = field(default_factory=dict)
    """The mark of each source."""
    imported: dict[str, int] = field(default_factory=dict)
    """The mark of each input that imports the marks of another input."""
    idle: list[str] = field(default_factory=list)
    """Sources that are excluded because they are idle."""
    last_event_clocks: dict[str, int] = field(default_factory=dict)
    """The clock at which each source last delivered."""
    started: int | None = None
    """The clock of the first batch."""
    last_event_clock: int | None = None
    """The clock of the last batch with events."""
    latest_arrival: int | None = None
    latest_arrival_clock: int | None = None
    """The clock of the batch of ``latest_arrival``."""


@dataclass
class WatermarkState:
    """The state of a bolt's watermark; times in microseconds."""

    latest: dict[str, int] = field(default_factory=dict)
    """The latest time of each stream that has delivered. For a stream of a windowed bolt, a time before which none of
    its further events can be: that bolt's watermark, less ``greatest_shift_back`` (``inherit_watermarks``)."""
    current: int | None = None
    """The last watermark emitted; None before the first."""
    greatest_shift_back: dict[str, int] = field(default_factory=dict)
    """For each stream of another bolt whose events get a new time here: the greatest difference by which a new time was
    earlier than the former one."""
    ticked_at: int | None = None
    """The clock of the last tick."""
    idle_closed_until: int | None = None
    """Time up to which windows have closed although the watermark is earlier: by the idle timeout, or at the end of the
    streams. None if only the watermark has closed windows."""
    sources: SourcesState = field(default_factory=SourcesState)
    """The marks of the sources, if the watermark is made from events."""

    def observe(self, stream: str, latest: int) -> None:
        """Record the latest time of some events of a stream, in microseconds."""
        self.latest[stream] = max(latest, self.latest.get(stream, latest))

    def may_tick(self, clock: int, interval: Duration) -> bool:
        """True if the watermark interval has passed on the clock (microseconds) since the last tick."""
        return self.ticked_at is None or clock - self.ticked_at >= interval.micros

    def to_json(self) -> dict[str, Any]:
        """Returns plain JSON values, without empty values."""
        marks = {name: dict(vars(mark)) for name, mark in self.sources.marks.items()}  # asdict costs ten times as much
        return {**_without_empty(vars(self)), "sources": _without_empty({**vars(self.sources), "marks": marks})}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Make the state from the values of ``to_json``."""
        sources = dict(values["sources"])
        marks = {name: MarkState(**mark) for name, mark in sources.pop("marks", {}).items()}
        return cls(**{**values, "sources": SourcesState(marks, **sources)})


class WaterMarkEventGenerator:
    """Computes the watermark of a bolt at ticks, from the times that its streams have delivered (ST-13 to ST-15).

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
        minimum time between two ticks. ``state``: the state of an earlier generator; None for a new state."""
        self.streams, self.lag, self.interval = tuple(streams), lag, interval
        self.state = state or WatermarkState()

    @property
    def watermark(self) -> int | None:
        """The last watermark emitted, in microseconds; None before the first."""
        return self.state.current

    def observe(self, latest: Mapping[str, int]) -> None:
        """Record the latest time of each stream, in microseconds. Raises KeyError for an unknown stream."""
        for stream, moment in latest.items():
            if stream not in self.streams:
                raise KeyError(f"no input stream {stream!r}; the watermark follows {', '.join(self.streams)}")
            self.state.observe(stream, moment)

    def compute(self) -> int | None:
        """Returns the watermark of the recorded times, in microseconds; None if a stream has delivered nothing."""
        if not self.streams or any(stream not in self.state.latest for stream in self.streams):
            return None
        return min(self.state.latest[stream] for stream in self.streams) - self.lag.micros

    def tick(self, clock: int | None = None) -> int | None:
        """Emit the watermark, in microseconds, if it has increased. Returns None if it has not increased, or if the
        watermark interval has not passed on the clock."""
        if clock is not None and not self.state.may_tick(clock, self.interval):
            return None
        self.state.ticked_at = clock
        watermark = self.compute()
        if watermark is None or (self.state.current is not None and watermark <= self.state.current):
            return None
        self.state.current = watermark
        return watermark


def _without_empty(values: Mapping[str, Any]) -> dict[str, Any]:
    filled = {name: value for name, value in values.items() if value not in (None, {}, [])}
    return {name: value.copy() if isinstance(value, dict | list) else value for name, value in filled.items()}


# The events of a batch in order of arrival: the input from which watermarks are computed.


_PARTITION = "\t"
"""Separates the input from the partition in the name of a source."""
NO_PARTITION = "\0"
"""Name of the partition of events without a partition; users' names never contain this character."""


def source_name(stream: str, partition: str | None) -> str:
    """Returns the name of a source: an input, or a partition of an input."""
    return stream if partition is None else f"{stream}{_PARTITION}{partition}"


def input_of(source: str) -> str:
    """Returns the input of a source."""
    return source.split(_PARTITION, 1)[0]


def shown_partition(source: str) -> str:
    """Returns the partition of a source under the name that users know; "" for a source without a partition.

    The name of a source's partition begins with its spout, which is left out if the spout is the input. ``null`` stands
    for events without a partition. The name of a partition that is itself called ``null``, or is empty, is in quotes:
    ``'null'``.
    """
    stream, separator, partition = source.partition(_PARTITION)
    if not separator:
        return ""
    if partition == NO_PARTITION:
        return "null"
    name = partition.removeprefix(f"{stream}{_PARTITION}").replace("\t", "/")
    return f"'{name}'" if name in ("", "null") or name.startswith("'") else name


def source_in_words(source: str) -> str:
    """Returns the name of a source for texts: ``orders``, ``orders/3``."""
    return "/".join(name for name in (input_of(source), shown_partition(source)) if name)


@dataclass(frozen=True)
class ArrivalTimes:
    """The events of a batch in order of arrival; arrays of equal length."""

    times: NDArray[np.int64]
    inputs: NDArray[np.int8]
    """The index of the input stream of each event."""
    advancing: NDArray[np.bool_]
    """True for events that advance the watermark."""
    inserted: NDArray[np.int64] | None = None
    """Watermarks inserted by the source, in microseconds; NONE if the row is an event."""
    partitions: NDArray[np.int64] | None = None
    """The index in ``names`` of the partition of each event; -1 if the event has no partition."""
    names: Sequence[str] = ()
    registers_partition: NDArray[np.bool_] | None = None
    """True for events that register their partition; early, late and invalid events do not (AZ-4)."""
    arrivals: NDArray[np.int64] | None = None
    """Arrival time of each event in microseconds, NONE if unknown. None if the watermark does not follow arrivals
    (AZ-5)."""

    def __len__(self) -> int:
        return len(self.times)

    def by_source(self, streams: Sequence[str], undivided: Sequence[bool]) -> Iterator[tuple[str, NDArray[np.int64]]]:
        """Yields each source and the indices of its events. ``undivided``: for each stream, True if the input is one
        source for all of its partitions."""
        for code, stream in enumerate(streams):
            indices = np.arange(len(self)) if len(streams) == 1 else np.flatnonzero(self.inputs == code)
            if not len(indices):
                continue
            if self.partitions is None or undivided[code]:
                yield stream, indices
                continue
            codes = self.partitions[indices]
            order = np.argsort(codes, kind="stable")
            edges = np.searchsorted(codes[order], np.arange(-1, len(self.names) + 1))
            for index, name in enumerate((None, *self.names)):
                source_indices = indices[order[edges[index] : edges[index + 1]]]
                if len(source_indices):
                    yield source_name(stream, name), source_indices

    def first_registering(self, indices: NDArray[np.int64]) -> int:
        """Returns the first of these indices whose event registers its source; the number of all events if there is
        none."""
        if self.registers_partition is None:
            return int(indices[0])
        registering = indices[self.registers_partition[indices]]
        return int(registering[0]) if len(registering) else len(self)

    def marks_by_arrival(self, late_tolerance: int, latest_before: int | None) -> NDArray[np.int64] | None:
        """Returns, after each event, the mark that a source has at least, even if it is silent (AZ-5); None if the
        watermark does not follow arrivals.

        It is an arrival time less ``late_tolerance``: of the latest arrival so far and the arrivals of later events of
        this batch, the earliest, because a source with a later event in this batch is not silent. ``latest_before``:
        the latest arrival of earlier batches. All times are in microseconds.
        """
        if self.arrivals is None or not len(self):
            return None
        latest = np.maximum(np.maximum.accumulate(self.arrivals), NONE if latest_before is None else latest_before)
        known_arrivals = np.where(self.arrivals > NONE, self.arrivals, FOREVER)
        lowest_later = np.minimum.accumulate(known_arrivals[::-1])[::-1]
        latest[:-1] = np.minimum(latest[:-1], lowest_later[1:])
        return np.where(self.arrivals > NONE, latest - late_tolerance, NONE)  # unreadable arrivals give no bound


@dataclass(frozen=True)
class MarksAround:
    """The mark of the source and the watermark of the bolt, before and after each event, in microseconds."""

    source_mark_before: NDArray[np.int64]
    """The mark of the event's source before the event."""
    watermark_before: NDArray[np.int64]
    """The watermark before the event."""
    source_mark_after: NDArray[np.int64]
    watermark_after: NDArray[np.int64]

    @classmethod
    def none_yet(cls, events: int) -> MarksAround:
        """Returns arrays of NONE for this number of events."""
        return cls(*(np.full(events, NONE, np.int64) for _ in range(4)))


# The sources of one bolt's watermark: its inputs, or the partitions of inputs. Each source has a mark.


class MarkSources:
    """Advances the marks of a bolt's sources, and combines them into a watermark.

    The marks *along* a batch are an array with an entry for each event of the batch, of whatever source: the mark of
    one source after the event. The mark is FOREVER where the source does not hold back the watermark.
    """

    def __init__(
        self, streams: Sequence[str], settings: WindowSettings, state: SourcesState, from_bolts: Sequence[bool] = ()
    ) -> None:
        self.streams, self.settings, self.state = tuple(streams), settings, state
        self.from_bolts = tuple(from_bolts) or (False,) * len(self.streams)
        """True for each input that carries the watermark of an upstream bolt."""

    def input_index(self, source: str) -> int:
        """Returns the index of a source's input."""
        return self.streams.index(input_of(source))

    def inputs_with_sources(self) -> set[int]:
        """Returns the indices of the inputs that have a source."""
        return {self.input_index(source) for source in self.state.marks}

    # -- which sources there are

    def add_partitions(self, partitions: Mapping[str, Iterable[str]], clock: int) -> None:
        """Register the existing partitions of each input; from now on they hold back the watermark (AT-20, AT-21)."""
        for stream, names in partitions.items():
            for name in names:
                source = source_name(stream, name)
                if source not in self.state.marks:
                    self.state.marks[source] = MarkState()
                    self.state.last_event_clocks.setdefault(source, clock)

    def add_missing_inputs(self) -> None:
        """Register the inputs that have not delivered; arrivals of other inputs advance their marks."""
        with_sources = self.inputs_with_sources()
        for index, stream in enumerate(self.streams):
            if index not in with_sources and not self.from_bolts[index]:
                self.state.marks[stream] = MarkState()

    def exclude_idle(self, clock: int) -> None:
        """Exclude the sources that have been silent for the timeout (AT-20), and the inputs that have never delivered
        in this time."""
        timeout = self.settings.partition_idle_timeout
        if timeout is None:
            return
        assert self.state.started is not None
        with_sources = self.inputs_with_sources()
        names = {*self.state.marks, *(stream for index, stream in enumerate(self.streams) if index not in with_sources)}
        # A silent input from another bolt keeps the watermark of that bolt.
        names = {name for name in names if not self.from_bolts[self.input_index(name)]}
        for source in sorted(names):
            since = self.state.last_event_clocks.get(source, self.state.started)
            if clock - since >= timeout.micros and source not in self.state.idle:
                self.state.idle.append(source)

    # -- the marks of sources

    def advance(
        self,
        source: str,
        indices: NDArray[np.int64],
        arrivals: ArrivalTimes,
        marks: MarksAround,
        arrival_bounds: NDArray[np.int64] | None,
    ) -> NDArray[np.int64]:
        """Advance the mark of one source by its events, at the indices ``indices``, and fill in ``marks`` for these
        events. Returns the marks of the source along the batch."""
        is_new = source not in self.state.marks
        state = self.state.marks.setdefault(source, MarkState())
        mark_before = state.mark
        inserted = None if arrivals.inserted is None else arrivals.inserted[indices]
        advancing = arrivals.advancing[indices]
        from_bolt = self.from_bolts[self.input_index(source)]
        if from_bolt or not self._makes_marks(source):
            advancing = np.zeros(len(indices), np.bool_)
        rules = self.settings.of_input(input_of(source))
        own_marks = advance(state, arrivals.times[indices], advancing, inserted, rules.watermark_every, rules.delay)
        if arrival_bounds is None or from_bolt:
            marks.source_mark_after[indices] = own_marks
            marks.source_mark_before[indices] = np.concatenate([[mark_before], own_marks[:-1]])
            return np.repeat(
                np.concatenate([[mark_before], own_marks]), np.diff(indices, prepend=0, append=len(arrivals))
            )
        along = arrival_bounds.copy()  # between its own events, the bound raises the mark
        along[indices] = own_marks
        if is_new:
            registered = indices[0] if source == input_of(source) else arrivals.first_registering(indices)
            along[:registered] = NONE  # the bound does not apply to an unknown source
        along[0] = max(int(along[0]), mark_before)
        np.maximum.accumulate(along, out=along)
        state.mark = max(state.mark, int(along[-1]))
        marks.source_mark_after[indices] = along[indices]
        marks.source_mark_before[indices] = np.where(indices > 0, along[indices - 1], mark_before)
        return along

    def raise_marks(self, delivered: set[str], bound: int) -> None:
        """Raise the marks of silent sources to a lower bound from arrivals (AZ-5)."""
        for source, mark in self.state.marks.items():
            if source not in delivered and not self.from_bolts[self.input_index(source)]:
                mark.mark = max(mark.mark, bound)

    def import_marks(
        self,
        along_by_input: dict[str, NDArray[np.int64]],
        events: int,
        to_fill: tuple[ArrivalTimes, MarksAround] | None = None,
        arrival_bounds: NDArray[np.int64] | None = None,
    ) -> None:
        """For each input that imports the marks of another input: raise its marks to those (SI-15, SI-16).

        ``along_by_input``: the marks along a batch of ``events`` events, for inputs with events; the raised marks are
        added. ``to_fill``: the events and the marks around them, in which the raised marks are filled in.
        ``arrival_bounds``: the lower bounds for silent inputs (AZ-5).
        """
        for importing, exporting in (self.settings.watermark_imports or {}).items():
            exported = self._marks_along(along_by_input, exporting, events, arrival_bounds)
            state = self.state.marks.setdefault(importing, MarkState())
            along = along_by_input[importing] = np.maximum(
                self._marks_along(along_by_input, importing, events, arrival_bounds), exported
            )
            if to_fill is not None:
                arrivals, marks = to_fill
                before = np.concatenate([[self.state.imported.get(importing, NONE)], along[:-1]])[:events]
                is_of_importing = arrivals.inputs == self.streams.index(importing)
                marks.source_mark_before[is_of_importing], marks.source_mark_after[is_of_importing] = (
                    before[is_of_importing],
                    along[is_of_importing],
                )
            if events:
                state.mark = max(state.mark, int(along[-1]))
                self.state.imported[importing] = state.mark

    # -- the watermark

    def combine(self, total: NDArray[np.int64] | None, along: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the minimum or maximum, as the settings say, of combined marks and the marks of one more source."""
        if self.settings.watermark_combine is WatermarkCombiner.MAX:
            along = np.where(along == FOREVER, NONE, along)
            return along if total is None else np.maximum(total, along, out=total)
        return along if total is None else np.minimum(total, along, out=total)

    def watermarks(
        self,
        total: NDArray[np.int64] | None,
        delivered: set[str],
        events: int,
        arrival_bounds: NDArray[np.int64] | None = None,
    ) -> NDArray[np.int64]:
        """Returns the watermark after each event. ``total``: the combined marks of the sources ``delivered``, which
        delivered in the batch."""
        silent = [source for source in self.state.marks if source not in delivered and source not in self.state.idle]
        combiner = self.settings.watermark_combine
        if combiner is WatermarkCombiner.MIN and self._lacks_input(
            {self.input_index(source) for source in (*silent, *delivered)}
        ):
            return np.full(events, NONE, np.int64)
        for from_bolt in (False, True):
            marks = [
                self.state.marks[source].mark
                for source in silent
                if self.from_bolts[self.input_index(source)] is from_bolt
            ]
            if marks:
                mark = min(marks) if combiner is WatermarkCombiner.MIN else max(marks)
                total = self.combine(total, _raised_marks(mark, events, None if from_bolt else arrival_bounds))
        if total is None:
            return np.full(events, NONE, np.int64)
        return np.where(total == FOREVER, NONE, total)

    def _lacks_input(self, indices: set[int]) -> bool:
        """True if an input has no source among these indices and is not excluded as idle."""
        idle = {input_of(source) for source in self.state.idle}
        return any(index not in indices and stream not in idle for index, stream in enumerate(self.streams))

    def _makes_marks(self, source: str) -> bool:
        """True if the events of a source advance its mark: false if its input imports marks, unless
        ``watermark_imports_beside`` is set."""
        imports = self.settings.watermark_imports or {}
        return self.settings.watermark_imports_beside or input_of(source) not in imports

    def _marks_along(
        self,
        along_by_input: dict[str, NDArray[np.int64]],
        source: str,
        events: int,
        arrival_bounds: NDArray[np.int64] | None,
    ) -> NDArray[np.int64]:
        if source in along_by_input:
            return along_by_input[source]
        mark = self.state.marks.get(source, MarkState()).mark
        return _raised_marks(mark, events, None if self.from_bolts[self.input_index(source)] else arrival_bounds)


def _raised_marks(mark: int, events: int, arrival_bounds: NDArray[np.int64] | None) -> NDArray[np.int64]:
    """Returns the marks of a silent source along a batch: its mark, raised by lower bounds from arrivals."""
    along = np.full(events, mark, np.int64)
    return along if arrival_bounds is None else np.maximum.accumulate(np.maximum(along, arrival_bounds))


# The watermark along one batch: first the marks of each source, then their combination.


class BatchWatermarks:
    """Computes the watermark after each event of a batch. Call ``add_source`` for each source, then ``after`` once."""

    def __init__(
        self, sources: MarkSources, arrivals: ArrivalTimes, clock: int, arrival_bounds: NDArray[np.int64] | None
    ) -> None:
        """``arrival_bounds``: as returned by ``ArrivalTimes.lower_bounds``."""
        self._sources, self._arrivals, self._clock, self._arrival_bounds = sources, arrivals, clock, arrival_bounds
        self.marks = MarksAround.none_yet(len(arrivals))
        """The marks around each event; the caller fills in the watermarks of the bolt."""
        self.delivered: set[str] = set()
        """The sources that delivered in this batch."""
        self._idle_before, self._sources_before = set(sources.state.idle), set(sources.state.marks)
        self._inputs_before = sources.inputs_with_sources()
        self._first_registering: dict[int, int] = {}
        """For each input that delivers: the index of the first event that registers a source of the input."""
        self._new_partitions: dict[str, list[tuple[int, NDArray[np.int64]]]] = {}
        """For each input, its new partitions: the index of the registering event, and the indices of all events."""
        imports = sources.settings.watermark_imports or {}
        self._import_inputs = {*imports, *imports.values()}
        self._along_by_input: dict[str, NDArray[np.int64]] = {}
        """The marks along the batch of the inputs that import marks, and of the inputs whose marks are imported."""
        self._total: NDArray[np.int64] | None = None
        """The combined marks of all other inputs along the batch."""

    def add_source(self, source: str, indices: NDArray[np.int64]) -> None:
        """Process the events of one source, which have these indices."""
        sources, stream, registered = self._sources, input_of(source), self._arrivals.first_registering(indices)
        idle_names, new_partition = (
            {source, stream} & self._idle_before,
            source != stream and source not in self._sources_before,
        )
        if new_partition:
            self._new_partitions.setdefault(stream, []).append((registered, indices))
            if registered == len(self._arrivals):
                return  # no event registers the partition
        along = sources.advance(source, indices, self._arrivals, self.marks, self._arrival_bounds)
        if idle_names or new_partition:  # the source does not hold back the watermark before its first event
            along[:registered] = FOREVER
        index = sources.input_index(source)
        self._first_registering[index] = min(registered, self._first_registering.get(index, len(self._arrivals)))
        self.delivered.add(source)
        sources.state.last_event_clocks[source] = self._clock
        if source in self._import_inputs:
            self._along_by_input[source] = along
        else:
            self._total = sources.combine(self._total, along)
        if registered < len(self._arrivals):
            sources.state.idle = [name for name in sources.state.idle if name not in idle_names]

    def after(self) -> NDArray[np.int64]:
        """Returns the watermark of the sources after each event, which may be lower than the last watermark emitted;
        called once, after the last ``add_source``."""
        sources, events = self._sources, len(self._arrivals)
        for stream in self._partitioned_inputs():
            self._total = sources.combine(self._total, self._marks_until_partitioned(stream))
            self.delivered.add(stream)
        sources.import_marks(self._along_by_input, events, (self._arrivals, self.marks), self._arrival_bounds)
        for source, along in self._along_by_input.items():
            if source not in sources.state.idle:
                self._total = sources.combine(self._total, along)
        after = sources.watermarks(
            self._total, self.delivered | set(self._along_by_input), events, self._arrival_bounds
        )
        after[: self._first_with_all_inputs()] = NONE
        return after

    def _first_with_all_inputs(self) -> int:
        """Returns the index of the first event at which every input that delivers in this batch has delivered."""
        sources = self._sources
        if sources.settings.watermark_combine is WatermarkCombiner.MAX:
            return 0
        excepted = {*(sources.settings.watermark_imports or {}), *self._idle_before}
        return max(
            (
                first_index
                for index, first_index in self._first_registering.items()
                if index not in self._inputs_before and sources.streams[index] not in excepted
            ),
            default=0,
        )

    def _partitioned_inputs(self) -> list[str]:
        """Returns the inputs that were one source before this batch, and now are divided into partitions."""
        marks = self._sources.state.marks.items()
        awaited = {stream for stream, mark in marks if not mark.counted and stream not in self.delivered}
        return [stream for stream in self._new_partitions if stream in awaited]

    def _marks_until_partitioned(self, stream: str) -> NDArray[np.int64]:
        """Returns the marks along the batch of an input whose partitions are new: its mark until a partition is
        registered, then FOREVER."""
        state, new_partitions = self._sources.state, self._new_partitions[stream]
        mark, registered = state.marks[stream], min(first_index for first_index, _ in new_partitions)
        along = (
            np.full(len(self._arrivals), NONE, np.int64)
            if self._arrival_bounds is None
            else self._arrival_bounds.copy()
        )
        for _, indices in new_partitions:
            along[indices] = NONE
        along[0] = max(int(along[0]), mark.mark)
        np.maximum.accumulate(along, out=along)
        if registered < len(self._arrivals):
            del state.marks[stream]
        else:
            mark.mark = max(mark.mark, int(along[-1]))
        along[0 if stream in state.idle else registered :] = FOREVER
        return along


# Watermarks made from events: after every event, after every n-th event, or inserted by the source. Watermarks that
# depend on events alone do not depend on where batches end.


class EventWatermarks:
    """Advances the watermark of one bolt with its events and its clock, for the rules with which events move it.

    A watermark that only ticks make, as in Storm, is computed by ``WaterMarkEventGenerator``.
    """

    def __init__(
        self,
        streams: Sequence[str],
        settings: WindowSettings,
        state: WatermarkState,
        from_bolts: Sequence[bool] = (),
    ) -> None:
        """``streams``: the names of the input streams. ``settings``: the settings of the bolt. ``state`` is updated in
        place. ``from_bolts``: for each stream, True if it comes from a windowed bolt; empty for no such stream."""
        self.settings, self.state = settings, state
        self.sources = MarkSources(streams, settings, state.sources, from_bolts)
        """The sources of the watermark."""

    def advance_by_events(self, arrivals: ArrivalTimes, clock: int) -> MarksAround:
        """Process the events of a batch; return the marks around each event. ``clock``: the clock at the last event."""
        sources = self.sources
        sources.state.last_event_clock = clock
        self._record_start(clock)
        arrival_bounds = self._arrival_bounds(arrivals)
        if arrival_bounds is not None:
            sources.add_missing_inputs()
        batch = BatchWatermarks(sources, arrivals, clock, arrival_bounds)
        for source, indices in arrivals.by_source(sources.streams, sources.from_bolts):
            batch.add_source(source, indices)
        after, marks = batch.after(), batch.marks
        sources.raise_marks(
            batch.delivered, NONE if arrival_bounds is None or not len(arrivals) else int(arrival_bounds.max())
        )
        watermark = NONE if self.state.current is None else self.state.current
        np.maximum(after, watermark, out=after)
        np.maximum.accumulate(after, out=marks.watermark_after)
        marks.watermark_before[:1], marks.watermark_before[1:] = watermark, marks.watermark_after[:-1]
        if len(arrivals):
            self._emit(int(marks.watermark_after[-1]))
        return marks

    def record_arrival(self, latest: int, clock: int) -> None:
        """Record the latest arrival time of a batch, and the clock at its last event that has one."""
        sources = self.sources.state
        sources.latest_arrival = latest if sources.latest_arrival is None else max(sources.latest_arrival, latest)
        sources.latest_arrival_clock = clock

    def move_time(
        self,
        clock: int,
        *,
        tick: bool = True,
        ends: Sequence[int] = (),
    ) -> None:
        """Advance the watermark to the clock at the end of a batch.

        ``ends``: the ends in microseconds of windows with events, for the idle timeout.
        """
        self._record_start(clock)
        if tick:
            self._tick(clock)
        self.sources.exclude_idle(clock)
        self.sources.import_marks({}, 1)
        self._emit(int(self.sources.watermarks(None, set(), 1)[0]))
        self._advance_by_clock(clock)
        self._close_idle_windows(clock, ends)

    def _record_start(self, clock: int) -> None:
        if self.sources.state.started is None:
            self.sources.state.started = clock

    def _tick(self, clock: int) -> None:
        """Advance the mark of each source if marks are made at ticks and the watermark interval has passed."""
        state, settings = self.state, self.settings
        if settings.watermark_every is None and state.may_tick(clock, settings.watermark_interval):
            state.ticked_at = clock
            for source, mark in self.sources.state.marks.items():
                if mark.latest > NONE:
                    from_bolt = self.sources.from_bolts[self.sources.input_index(source)]
                    mark.mark = max(NONE if from_bolt else mark.mark, mark.latest - settings.delay)

    def _advance_by_clock(self, clock: int) -> None:
        """Advance the watermark by the arrival time that is estimated from the clock (AZ-5)."""
        sources, late_tolerance = self.sources.state, self._late_tolerance
        if late_tolerance is None or sources.latest_arrival is None:
            return
        assert sources.latest_arrival_clock is not None
        if clock > sources.latest_arrival_clock:
            reached = estimated_arrival(sources.latest_arrival, sources.latest_arrival_clock, clock) - late_tolerance
            self.sources.raise_marks(set(), reached)
            self._emit(reached)

    def _close_idle_windows(self, clock: int, ends: Sequence[int]) -> None:
        """Advance the watermark to the end of the last window that the idle timeout closes (AT-17)."""
        settings, last_event_clock = self.settings, self.sources.state.last_event_clock
        if settings.idle_timeout is None or last_event_clock is None:
            return
        end = idle_end(settings.idle_rule, settings.idle_timeout.micros, clock, last_event_clock, ends)
        if end is not None and (self.state.idle_closed_until is None or end > self.state.idle_closed_until):
            self.state.idle_closed_until = end
            self._emit(end)

    def _arrival_bounds(self, arrivals: ArrivalTimes) -> NDArray[np.int64] | None:
        late_tolerance = self._late_tolerance
        return (
            None
            if late_tolerance is None
            else arrivals.marks_by_arrival(late_tolerance, self.sources.state.latest_arrival)
        )

    @property
    def _late_tolerance(self) -> int | None:
        """Lag of the watermark behind arrivals, in microseconds; None if the watermark does not follow arrivals."""
        late = self.settings.arrival.late if self.settings.arrival else None
        return late.micros if late is not None and self.settings.estimate_arrival else None

    def _emit(self, mark: int) -> None:
        if mark > NONE and (self.state.current is None or mark > self.state.current):
            self.state.current = mark
