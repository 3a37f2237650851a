"""Segments, which are immutable files of Arrow streams, and references to their sections."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from itertools import chain, groupby, pairwise
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, overload

import numpy as np
import pyarrow as pa

from policies.watermarks import NONE
from windowing.events import Events

if TYPE_CHECKING:
    from numpy.typing import NDArray


# References to sections of segments.


class Flags(NamedTuple):
    """Reference to the section with the flags of rows."""

    segment: str
    offset: int
    length: int
    checksum: int
    needed: int
    """Number of rows that are still needed."""


@dataclass(frozen=True)
class Ref:
    """Reference to a section with rows of one task, with facts about the rows that need no reading."""

    segment: str
    offset: int
    length: int
    rows: int
    _: KW_ONLY
    start: int = 0
    """Index of the first row that may still be needed."""
    earliest_live: int | None = None
    """A lower bound on the times of the live rows, in microseconds; None if no row is live."""
    latest_live: int | None = None
    """The greatest time of the live rows, in microseconds; None if no row is live."""
    by_stream: tuple[int, ...] = ()
    """For each input stream, the number of events still needed."""
    level: int = 0
    """Number of compactions so far; from 1024 the rows are settled and in final order."""
    flags: Flags | None = None
    """Reference to the flags of the rows (``manager.keyed.retained_events``); None if all rows from ``start`` are
    needed."""
    checksum: int = 0
    """The CRC-32 of the section; 0 for a section in memory."""

    @property
    def needed(self) -> int:
        """Number of rows still needed: live rows, and rows that are not yet reported as expired."""
        return self.rows - self.start if self.flags is None else self.flags.needed

    def has_live_up_to(self, time: int) -> bool:
        """True if a live row is at or before this time (microseconds)."""
        return self.earliest_live is not None and self.earliest_live <= time

    def needed_up_to(self, time: int) -> int:
        """Returns ``needed`` if a live row may be at or before this time (microseconds); else 0."""
        return self.needed if self.has_live_up_to(time) else 0

    def segment_names(self) -> tuple[str, ...]:
        """Returns the name of the segment, and the name of the segment with the flags."""
        return (self.segment,) if self.flags is None else (self.segment, self.flags.segment)

    def has_live_after(self, time: int) -> bool:
        """True if a live row is after this time (microseconds)."""
        return self.latest_live is not None and self.latest_live > time

    def to_json(self) -> list[Any]:
        """Returns the reference as a list, for the manifest."""
        return [
            self.segment, self.offset, self.length, self.rows, self.start,
            self.earliest_live, self.latest_live, list(self.by_stream), self.level, self.flags and list(self.flags),
            self.checksum,
        ]  # fmt: skip

    @staticmethod
    def from_json(values: list[Any]) -> Ref:
        """Returns the reference from the list of ``to_json``."""
        segment, offset, length, rows, start, earliest, latest, by_stream, level, flags, checksum = values
        return Ref(
            segment,
            offset,
            length,
            rows,
            start=start,
            earliest_live=earliest,
            latest_live=latest,
            by_stream=tuple(by_stream),
            level=level,
            flags=None if flags is None else Flags(*flags),
            checksum=checksum,
        )

    def with_segments(self, names: Mapping[str, str]) -> Ref:
        """Returns the reference with renamed segments. ``names``: the new names by the old."""
        flags = self.flags and self.flags._replace(segment=names[self.flags.segment])
        return replace(self, segment=names[self.segment], flags=flags)

    def ref_of_flags(self) -> Ref | None:
        """Returns a reference to the flags of the rows; None without flags."""
        if self.flags is None:
            return None
        segment, offset, length, checksum, _ = self.flags
        return Ref(segment, offset, length, self.rows, checksum=checksum)

    def without_first(self, rows: int, events: Events, streams: int) -> Ref:
        """Returns the reference without the first ``rows`` needed rows. ``events``: the needed rows, at least the first
        ``rows``."""
        remaining = events.slice(rows, len(events))
        dropped = events.slice(0, rows).by_stream(streams)
        return replace(
            self,
            start=self.start + rows,
            earliest_live=int((remaining if len(remaining) else events).timestamps[0 if len(remaining) else -1]),
            by_stream=tuple(int(n) for n in np.array(self.by_stream) - dropped),
        )


# Segments: immutable files for state, log and exchange.
#
# A segment is a sequence of sections. A section is an Arrow IPC stream that begins at a multiple of 64 bytes. Its
# position, length and checksum are not in the file but in the references, which the manifest holds.


class SegmentWriter(Protocol):
    """Writes one segment, section by section."""

    def add(self, table: pa.Table) -> Ref: ...


class SegmentDraft(SegmentWriter, Protocol):
    """A segment being written: ``with store.writer(folder) as writer:``. If the block raises an error, the segment is
    deleted."""

    def __enter__(self) -> SegmentWriter: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class SegmentStore(Protocol):
    """Stores segments."""

    def writer(self, folder: str) -> SegmentDraft: ...
    def prefetch(self, refs: Iterable[Ref]) -> None: ...
    def read(self, ref: Ref) -> pa.Table: ...


# The references of one task, in order of arrival.


_LEAST_PACKED = 16
"""Least number of references for which columns are smaller and faster than single objects."""


class Refs(Sequence[Ref]):
    """References in order. Many references are stored as columns, from which totals are computed quickly; iteration
    yields single references."""

    __slots__ = ("_parts",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, refs: Iterable[Ref] = ()) -> None:
        self._parts: list[Ref | RefColumns] = list(refs)

    @staticmethod
    def packed(refs: Iterable[Ref]) -> Refs:
        """Returns references, with long runs of references without flags stored as columns."""
        found = Refs()
        for has_flags, run in groupby(refs, lambda ref: ref.flags is not None):
            run_refs = list(run)
            if has_flags or len(run_refs) < _LEAST_PACKED:
                found._parts.extend(run_refs)
            else:
                found._parts.append(RefColumns.of(run_refs))
        return found

    def __len__(self) -> int:
        return sum(1 if isinstance(part, Ref) else len(part) for part in self._parts)

    def __iter__(self) -> Iterator[Ref]:
        return chain.from_iterable((part,) if isinstance(part, Ref) else part for part in self._parts)

    @overload
    def __getitem__(self, index: int) -> Ref: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Ref]: ...
    def __getitem__(self, index: int | slice) -> Ref | Sequence[Ref]:
        return list(self)[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    def __repr__(self) -> str:
        return f"Refs({list(self)})"

    def append(self, ref: Ref) -> None:
        """Add a reference at the end."""
        self._parts.append(ref)

    def extend(self, columns: RefColumns) -> None:
        """Add the references of columns at the end."""
        self._parts.append(columns)

    def between(self, start: int, stop: int) -> Refs:
        """Returns the references from index ``start`` up to ``stop``."""
        refs, at = Refs(), 0
        for part in self._parts:
            count = 1 if isinstance(part, Ref) else len(part)
            low, high = max(start - at, 0), min(stop - at, count)
            if low < high:
                refs._parts.append(part if isinstance(part, Ref) else part.take(slice(low, high)))
            at += count
        return refs

    def replace(self, start: int, stop: int, ref: Ref) -> None:
        """Replace the references from index ``start`` up to ``stop`` by one reference."""
        before, after = self.between(0, start), self.between(stop, len(self))
        self._parts = [*before._parts, ref, *after._parts]

    @property
    def needed(self) -> int:
        """Number of rows still needed."""
        return sum(part.needed for part in self._parts)

    def needed_up_to(self, time: int) -> int:
        """Returns the number of needed rows of the references that may have a live row at or before this time
        (microseconds)."""
        return sum(part.needed_up_to(time) for part in self._parts)

    def by_stream(self, streams: int) -> list[int]:
        """Returns the number of rows still needed for each of the ``streams`` inputs."""
        counts = [part.by_stream for part in self._parts]
        return [sum(of_streams[code] for of_streams in counts) for code in range(streams)]

    @property
    def earliest_live(self) -> int | None:
        """A lower bound on the times of the live rows, in microseconds; None if no row is live."""
        times = (part.earliest_live for part in self._parts)
        return min((time for time in times if time is not None), default=None)

    @property
    def latest_live(self) -> int | None:
        """The greatest time of the live rows, in microseconds; None if no row is live."""
        times = (part.latest_live for part in self._parts)
        return max((time for time in times if time is not None), default=None)

    def segment_names(self) -> set[str]:
        """Returns the names of the segments with the rows and with the flags."""
        return set(chain.from_iterable(part.segment_names() for part in self._parts))

    def run_of_one_level(self, least: int) -> range | None:
        """Returns the first run of at least ``least`` adjacent references with equal levels; None without such a
        run."""
        if len(self) < least:
            return None
        levels = np.concatenate([[part.level] if isinstance(part, Ref) else part.levels for part in self._parts])
        edges = [0, *(np.flatnonzero(np.diff(levels)) + 1).tolist(), len(levels)]
        return next((range(start, stop) for start, stop in pairwise(edges) if stop - start >= least), None)


# References as columns. A batch with hundreds of tasks and hundreds of pieces of input has a reference for each pair.


_FIELDS = ("offset", "length", "rows", "start", "earliest_live", "latest_live", "level", "checksum")
_COLUMN_OF_FIELD = {name: column for column, name in enumerate(_FIELDS)}


@dataclass(frozen=True)
class RefColumns:
    """References without flags, in order. Totals are computed without an object per reference.

    The times of a reference without live rows are ``NONE``.
    """

    names: Sequence[str]
    """The names of segments, each once; some may be unused."""
    segments: NDArray[np.int64]
    """The index in ``names`` of the segment of each reference."""
    values: NDArray[np.int64]
    """Shape (references, 8 + inputs): the numeric fields of ``Ref``, and the number of rows still needed per input."""

    @staticmethod
    def of(refs: Sequence[Ref]) -> RefColumns:
        """Returns the columns of references without flags."""
        assert not any(ref.flags for ref in refs)
        segment_numbers = {name: number for number, name in enumerate(dict.fromkeys(ref.segment for ref in refs))}
        values = [
            [
                ref.offset,
                ref.length,
                ref.rows,
                ref.start,
                _time(ref.earliest_live),
                _time(ref.latest_live),
                ref.level,
                ref.checksum,
                *ref.by_stream,
            ]
            for ref in refs
        ]
        segments = np.array([segment_numbers[ref.segment] for ref in refs], np.int64)
        return RefColumns(tuple(segment_numbers), segments, np.array(values, np.int64))

    @staticmethod
    def concat(parts: Sequence[RefColumns]) -> RefColumns:
        """Returns the references of all parts, one part after another."""
        names = [name for part in parts for name in part.names]
        first_names = np.cumsum([0, *(len(part.names) for part in parts[:-1])])
        segments = [part.segments + first for part, first in zip(parts, first_names.tolist(), strict=True)]
        return RefColumns(tuple(names), np.concatenate(segments), np.concatenate([part.values for part in parts]))

    def __len__(self) -> int:
        return len(self.segments)

    def __iter__(self) -> Iterator[Ref]:
        for segment, values in zip(self.segments.tolist(), self.values.tolist(), strict=True):
            offset, length, rows, start, earliest, latest, level, checksum, *by_stream = values
            yield Ref(
                self.names[segment],
                offset,
                length,
                rows,
                start=start,
                earliest_live=None if earliest == NONE else earliest,
                latest_live=None if latest == NONE else latest,
                by_stream=tuple(by_stream),
                level=level,
                checksum=checksum,
            )

    def take(self, indices: NDArray[np.int64] | slice) -> RefColumns:
        """Returns the references at these indices."""
        return RefColumns(self.names, self.segments[indices], self.values[indices])

    @property
    def extents(self) -> NDArray[np.int64]:
        """Shape (references, 4): offset, length, number of rows and checksum of each section."""
        return self.values[:, [_COLUMN_OF_FIELD[name] for name in ("offset", "length", "rows", "checksum")]]

    def in_segments(self, names: Sequence[str], segments: NDArray[np.int64], offsets: NDArray[np.int64]) -> RefColumns:
        """Returns references to copies of the sections. ``segments``: the index in ``names`` of the segment of each
        copy. ``offsets``: the offset of each copy in bytes."""
        used_numbers, numbers = np.unique(segments, return_inverse=True)
        values = self.values.copy()
        values[:, _COLUMN_OF_FIELD["offset"]] = offsets
        return RefColumns([names[number] for number in used_numbers.tolist()], numbers, values)

    @property
    def levels(self) -> NDArray[np.int64]:
        """Number of compactions of each reference."""
        return self._column("level")

    @property
    def needed(self) -> int:
        """Number of rows still needed."""
        return int((self._column("rows") - self._column("start")).sum())

    def needed_up_to(self, time: int) -> int:
        """Returns the number of needed rows of the references that may have a live row at or before this time."""
        earliest = self._column("earliest_live")
        due = (earliest != NONE) & (earliest <= time)
        return int((self._column("rows") - self._column("start"))[due].sum())

    @property
    def by_stream(self) -> Sequence[int]:
        """Number of rows still needed per input."""
        return self.values[:, len(_FIELDS) :].sum(axis=0).tolist()  # type: ignore[no-any-return]

    @property
    def earliest_live(self) -> int | None:
        """A lower bound on the times of the live rows, in microseconds; None if no row is live."""
        live = self._times("earliest_live")
        return int(live.min()) if len(live) else None

    @property
    def latest_live(self) -> int | None:
        """The greatest time of the live rows, in microseconds; None if no row is live."""
        live = self._times("latest_live")
        return int(live.max()) if len(live) else None

    def segment_names(self) -> Iterable[str]:
        """Returns the names of the segments of the references, each once."""
        return (self.names[number] for number in np.unique(self.segments).tolist())

    def _times(self, name: str) -> NDArray[np.int64]:
        times = self._column(name)
        live: NDArray[np.int64] = times[times != NONE]
        return live

    def _column(self, name: str) -> NDArray[np.int64]:
        return self.values[:, _COLUMN_OF_FIELD[name]]


def _time(time: int | None) -> int:
    return NONE if time is None else time


# Events as a section of a segment: the columns of events and, with reserved names, times, streams and weights.


TIME_COLUMN = "_ts"
STREAM_COLUMN = "_stream_code"
KEY_COLUMN = "_key_hash"
CLOSED_COLUMN = "_closed_until"
CODE_COLUMN = "code"
WINDOW_KEY_COLUMN = "_window_key"
WEIGHT_COLUMN = "_weight_"
"""Prefix of the columns with the weights: the number of events of a row, one column per stream."""


def write_events(writer: SegmentWriter, events: Events, streams: int) -> Ref:
    """Write events, which are in order of time, as a section."""
    columns: dict[str, Any] = dict(zip(events.payload.schema.names, events.payload.columns, strict=True))
    columns[TIME_COLUMN] = pa.array(events.timestamps)
    if events.streams is not None:
        columns[STREAM_COLUMN] = pa.array(events.streams)
    if events.weights is not None:
        columns |= weight_columns(events.weights)
    ref = writer.add(pa.table(columns))
    by_stream = tuple(int(count) for count in events.by_stream(streams))
    earliest, latest = int(events.timestamps[0]), int(events.timestamps[-1])
    return replace(ref, earliest_live=earliest, latest_live=latest, by_stream=by_stream)


def read_events(store: SegmentStore, ref: Ref) -> Events:
    """Returns the events of a section that are still needed, in order of time."""
    table = store.read(ref)
    names = table.column_names
    internal = (TIME_COLUMN, STREAM_COLUMN)
    user_columns = [at for at, name in enumerate(names) if name not in internal and not name.startswith(WEIGHT_COLUMN)]
    payload = table.select(user_columns)
    batches = payload.to_batches()
    batch = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
    streams = table.column(STREAM_COLUMN).to_numpy() if STREAM_COLUMN in names else None
    return Events(table.column(TIME_COLUMN).to_numpy(), batch, streams, weights_of(table))


def weight_columns(weights: NDArray[np.int64]) -> dict[str, pa.Array]:
    """Returns the weights as columns by name. ``weights``: shape (rows, streams)."""
    return {f"{WEIGHT_COLUMN}{at}": pa.array(counts) for at, counts in enumerate(weights.T)}


def weights_of(table: pa.Table) -> NDArray[np.int64] | None:
    """Returns the weights of a table, of shape (rows, streams); None if each row is one event."""
    weight_names = [name for name in table.column_names if name.startswith(WEIGHT_COLUMN)]
    return np.column_stack([table.column(name).to_numpy() for name in weight_names]) if weight_names else None


def read_queue(store: SegmentStore, refs: Iterable[Ref]) -> Events | None:
    """Returns the events of a queue that are still needed, in order of (time, arrival); None without events."""
    parts = [read_events(store, ref) for ref in refs if ref.needed]
    return Events.concat(parts).sorted() if parts else None
