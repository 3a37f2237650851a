"""The times and lifetimes of rows that arrive at a windowed bolt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from numbers import Integral, Number
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from manager.remote import is_caused_by_event
from manager.storage.manifest import BoltState, Manifest
from manager.watermarks import input_of
from policies.watermarks import NONE, Decision, MarkState, decide_by_arrival
from topologies.graph.graph import ERRORS, Graph, WindowedNode
from windowing.columns import copy_column
from windowing.durations import Duration
from windowing.errors import ConfigError, ScenarioError
from windowing.events import Tuple
from windowing.reprs import repr_of
from windowing.schema import DEFAULT_STREAM
from windowing.settings import WindowSettings
from windowing.settings.kinds import Session, WindowKind
from windowing.settings.rules import START, Lifetime
from windowing.timestamps import (
    EARLIEST,
    FOREVER,
    LATEST,
    OPEN_END,
    finer_than_micros,
    from_column,
    from_datetime,
    is_time,
    parse_time,
    show,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray


# Reasons why rows are invalid, row by row.


Reasons: TypeAlias = "NDArray[Any] | None"
"""The reason for each invalid row, "" for valid rows; None if all rows are valid."""


def reasons_of(invalid: NDArray[np.bool_], texts: str | Sequence[str]) -> Reasons:
    """Returns reasons for the invalid rows: one text for all rows, or one for each."""
    if not invalid.any():
        return None
    reasons = np.full(len(invalid), "", dtype=object)
    reasons[invalid] = texts
    return reasons


def first_reasons(*all_reasons: Reasons) -> Reasons:
    """Returns, for each row, the first of several reasons."""
    result: Reasons = None
    for reasons in all_reasons:
        if reasons is not None:
            result = reasons.astype(object) if result is None else np.where(result == "", reasons, result)
    return result


# Times that are probably seconds since 1970, or days such as 20240101, but were read as milliseconds: ``check`` and
# runs warn of them.


_MILLISECOND = 1_000
_SECONDS = range(100_000_000 * _MILLISECOND, 4_200_000_000 * _MILLISECOND)
"""Event times in microseconds that are probably misread seconds: read as seconds, they would be in 1973 to 2103."""
_DIGITS = {8: "%Y%m%d", 10: "%Y%m%d%H", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}
"""Formats of times that are written with digits only, by the number of digits."""
_YEARS = range(1900, 2101)
"""Years in which a time written with digits is plausible."""


def misread_numbers(whose: str, node: WindowedNode | None, latest: int, *, column: str = "") -> ConfigError | None:
    """Returns a warning if the latest of several times is probably in seconds, or a day in digits, but was read as
    milliseconds.

    ``whose``: the owner of the times, with which the text begins. ``node``: the bolt with their field or extractor; or
    None, and ``column``: their column.
    """
    form = _digits_of(latest)
    if form is None and latest not in _SECONDS:
        return None
    field = column if node is None else node.bolt.settings.timestamp_field
    is_extracted = node is not None and node.bolt.settings.timestamp_extractor is not None
    what = "the times of its timestamp extractor" if is_extracted else f"the times in {field!r}"
    declared = (
        f"declare the column as timestamp, with times={{{field!r}: {form or 's'!r}}} where files or Kafka are read"
    )
    if form is not None:
        return ConfigError(
            f"{whose}: {what} are up to {show(latest)}",
            why=f"whole numbers are milliseconds since 1970, and {latest // _MILLISECOND} looks like a day, {form}",
            do="return a datetime" if is_extracted else f"{declared}, or write timestamps as ISO 8601",
        )
    return ConfigError(
        f"{whose}: {what} are before 1990, up to {show(latest)}",
        why="whole numbers are milliseconds since 1970, and these would be good times as seconds",
        do="return milliseconds, round(1000 * seconds), or a datetime"
        if is_extracted
        else f"{declared}; or multiply by 1000 in a bolt before, or write ISO 8601",
    )


def _digits_of(time: int) -> str | None:
    """Returns the form in which a time's milliseconds are a day, such as ``%Y%m%d`` for 20240101; None if there is
    none."""
    millis, rest = divmod(time, _MILLISECOND)
    text = str(millis)
    form = _DIGITS.get(len(text))
    if form is None or rest or int(text[:4]) not in _YEARS:
        return None
    try:
        moment = datetime.strptime(text, form).replace(tzinfo=UTC)
    except ValueError:
        return None
    return form if moment.strftime(form) == text else None  # strptime also accepts months of one digit


# Aligned windows that begin at the first clock of the run, once the clock is known.


def with_anchor(node: WindowedNode, anchor: int | None) -> WindowedNode:
    """Returns the bolt with its aligned windows starting at the anchor, in microseconds, if its settings require
    that."""
    if node.bolt.settings.anchor != START or anchor is None:
        return node
    offset = node.bolt.settings.offset.micros
    return replace(node, assigners=tuple(assigner.anchored(anchor, offset) for assigner in node.assigners))


# Promised watermarks: the inputs of a topology promise that no older events will come.


def promise(topology: Graph, state: Manifest, bolts: list[str], watermark: int) -> None:
    """Raises the watermark of the inputs of some bolts to ``watermark`` (microseconds); the next tick emits it.

    Inputs from other windowed bolts keep the watermark of those bolts.
    """
    for name in bolts:
        _promise(topology.windowed[name], state.bolts[name], watermark)


def can_promise(node: WindowedNode) -> bool:
    """True if a bolt has one watermark, which its inputs from spouts can advance."""
    settings = node.bolt.settings
    return node.event_time and not settings.watermark_per_key and not all(node.origins)


def _promise(node: WindowedNode, bolt_state: BoltState, watermark: int) -> None:
    mark = bolt_state.watermark
    own_inputs = [label for label, origins in zip(node.streams, node.origins, strict=True) if not origins]
    for label in own_inputs:
        mark.latest[label] = max(mark.latest.get(label, NONE), watermark + node.lag.micros)
        if node.follows_events and not any(input_of(source) == label for source in mark.sources.marks):
            mark.sources.marks[label] = MarkState()
    mark.ticked_at = None  # do not wait for the watermark interval
    for source, state in mark.sources.marks.items():
        if input_of(source) in own_inputs:
            state.mark = max(state.mark, watermark)


# Times of events, from the field or extractor of their bolt.


_TOO_FINE = "its time is finer than a microsecond, and on_truncation='error' cuts nothing"
_FINER = ("ns", "ps", "fs", "as")
"""NumPy's units finer than microseconds."""
_OUT_OF_RANGE = 1 << 62
"""A time in microseconds later than any event time: out of range, but within 64 bits."""


class ReadTimes(NamedTuple):
    """The times of rows, in microseconds."""

    times: NDArray[np.int64]
    reasons: Reasons
    """Reasons for rows without a time."""
    is_cut: NDArray[np.bool_] | None = None
    """True for times finer than microseconds; None if there were none."""


def read_times(node: WindowedNode, table: pa.Table) -> ReadTimes:
    """Returns the time of each row, from the bolt's field or extractor."""
    read = _times_of_field(node, table)
    if read.is_cut is not None and node.bolt.settings.extractor_on_truncation == "error":
        reasons = first_reasons(read.reasons, reasons_of(read.is_cut, _TOO_FINE))
        read = ReadTimes(np.where(read.is_cut, 0, read.times), reasons)
    return ReadTimes(*_within_range(node, read.times, read.reasons), read.is_cut)


def _times_of_column(column: pa.Array | pa.ChunkedArray) -> ReadTimes:
    return ReadTimes(*from_column(column), finer_than_micros(column))


def _times_of_field(node: WindowedNode, table: pa.Table) -> ReadTimes:
    settings = node.bolt.settings
    if settings.timestamp_field is not None:
        return _times_of_column(table.column(settings.timestamp_field))
    extractor = settings.timestamp_extractor
    assert extractor is not None
    if settings.extractor_on_columns:
        return _times_of_table(node, extractor, table)
    return _times_one_by_one(node, extractor, table)


def _times_of_table(node: WindowedNode, extractor: Any, table: pa.Table) -> ReadTimes:
    """Calls the extractor with the table. If the extractor fails, and errors go to the error stream, calls it again
    with each half of the table."""
    try:
        column = extractor(table)
        if not isinstance(column, (pa.Array, pa.ChunkedArray)):
            column = pa.array(column)
    except Exception as error:
        if node.bolt.settings.extractor_on_error != "errors" or not is_caused_by_event(error):
            raise
        if table.num_rows == 1:
            return ReadTimes(np.zeros(1, np.int64), np.array([_failure(error)], dtype=object))
        middle = table.num_rows // 2
        halves = [_times_of_table(node, extractor, half) for half in (table.slice(0, middle), table.slice(middle))]
        reasons = [np.full(len(times), "", dtype=object) if why is None else why for times, why, _ in halves]
        is_cut = [np.zeros(len(times), np.bool_) if fine is None else fine for times, _, fine in halves]
        return ReadTimes(
            np.concatenate([half.times for half in halves]), np.concatenate(reasons), np.concatenate(is_cut)
        )
    if not is_time(column.type):
        raise _wrong_type(node, f"a column of {column.type}")
    if len(column) != table.num_rows:
        raise ConfigError(
            f"the timestamp extractor of bolt {node.name!r} returned {len(column)} times for {table.num_rows} rows",
            do="return one time per row",
        )
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    return _times_of_column(pa.chunked_array(map(copy_column, chunks), column.type))


class _WrongType(ConfigError):
    """Raised if an extractor returns a value that is not a time."""


def _wrong_type(node: WindowedNode, returned: str) -> ConfigError:
    return _WrongType(
        f"the timestamp extractor of bolt {node.name!r} returned {returned}",
        why="event times are timestamps, dates, or whole numbers of milliseconds",
        do="return one of these; of seconds, round(1000 * seconds)",
    )


def _failure(error: Exception) -> str:
    return f"the timestamp extractor failed: {type(error).__name__}: {error}"


def valid_times(settings: WindowSettings) -> tuple[int, int]:
    """Returns the first and the last valid event time in microseconds. Windows around other times might exceed the
    years 1 to 9999."""
    margin = sum(extent.micros for extent in (settings.length, settings.slide) if isinstance(extent, Duration))
    margin = max([margin, *(kind.reach for kind in settings.kinds)])
    return EARLIEST + margin, LATEST - margin


def _within_range(node: WindowedNode, times: NDArray[np.int64], reasons: Reasons) -> tuple[NDArray[np.int64], Reasons]:
    """Returns times and reasons; a time is invalid if a window with it might exceed the years 1 to 9999."""
    first, last = valid_times(node.bolt.settings)
    outside = (times < first) | (times > last)
    if first == EARLIEST or not outside.any():
        return times, reasons
    beyond = reasons_of(outside, "timestamp so near to the year 1 or 9999 that its window would lie beyond")
    return np.where(outside, 0, times), first_reasons(reasons, beyond)


def _times_one_by_one(node: WindowedNode, extractor: Any, table: pa.Table) -> ReadTimes:
    """Calls the extractor for each row. A row on which it fails is invalid, with the exception as the reason."""
    stop = node.bolt.settings.extractor_on_error == "stop"
    values: list[int | None] = []
    failures: dict[int, str] = {}
    is_cut = np.zeros(table.num_rows, np.bool_)
    for index, row in enumerate(table.to_pylist()):
        value: int | None = None
        try:
            extracted = extractor(Tuple(row, 0, ""))
            if isinstance(extracted, pa.Scalar):
                extracted = extracted.as_py()
            if isinstance(extracted, datetime):
                if extracted == extracted:  # noqa: PLR0124 - pandas' NaT is a datetime unequal to itself
                    value = from_datetime(extracted)
                    is_cut[index] = bool(getattr(extracted, "nanosecond", 0))  # only pandas has it
            elif isinstance(extracted, np.datetime64):
                value, is_cut[index] = _micros_of_numpy(extracted)
            elif isinstance(extracted, bool | np.bool_) or (
                isinstance(extracted, Number) and not isinstance(extracted, Integral)
            ):  # as whole numbers, seconds with a fraction would be times of January 1970
                raise _wrong_type(node, f"{repr_of(extracted):.60}, which is {type(extracted).__name__}")
            elif extracted is not None:
                value = int(extracted) * 1_000
            values.append(None if value is None else max(min(value, _OUT_OF_RANGE), -_OUT_OF_RANGE))
        except _WrongType:
            raise
        except Exception as error:
            if stop or not is_caused_by_event(error):
                raise
            failures[index] = _failure(error)
            values.append(None)
    times, reasons = from_column(pa.array(values, pa.int64()).cast(pa.timestamp("us")))
    if failures:
        assert reasons is not None
        for index, failure in failures.items():
            reasons[index] = failure
    return ReadTimes(times, reasons, is_cut if is_cut.any() else None)


def _micros_of_numpy(moment: np.datetime64) -> tuple[int | None, bool]:
    """Returns a NumPy time in microseconds (None for NaT), and True if it was finer. NumPy's own conversion to an
    integer would keep its unit."""
    if np.isnat(moment):
        return None, False
    micros = moment.astype("datetime64[us]")
    if np.datetime_data(moment.dtype)[0] in _FINER:
        return int(micros.astype(np.int64)), bool(micros != moment)
    if micros.astype(moment.dtype) != moment:  # so far away that NumPy has wrapped
        return _OUT_OF_RANGE, False
    return int(micros.astype(np.int64)), False


# Lifetimes of events, from the columns with their ends, and the kind of edge of each event.


_SHAPES = ("point", "interval", "start_edge", "end_edge")


def lifetimes(
    lifetime: Lifetime | None, table: pa.Table, times: NDArray[np.int64]
) -> tuple[NDArray[np.int64] | None, NDArray[np.bool_] | None, list[Reasons]]:
    """Returns the end of each event in microseconds, and a mask of end edges (SI-3); None if the bolt has no lifetimes.
    ``times``: the starts of the events."""
    if lifetime is None:
        return None, None, []
    rows = table.num_rows
    wrong: list[Reasons] = []
    ends, present = times + 1, np.zeros(rows, np.bool_)
    # Without the column events are points. A null in the column means an unknown end, and so does 9999-12-31: as a time
    # it would move the watermark of a later run there.
    has_ends = lifetime.end_field in table.column_names
    if has_ends:
        column = table.column(lifetime.end_field)
        present = np.asarray(column.is_valid().to_numpy())
        values, unreadable = from_column(column)
        if unreadable is not None:
            bad = present & (unreadable != "")
            wrong.append(reasons_of(bad, [f"end of its lifetime: {text}" for text in unreadable[bad]]))
        ends = np.where(present & (values < OPEN_END), values, FOREVER)
    edges = None
    if lifetime.shape_field is not None:
        edges = np.zeros(rows, np.bool_)
        shapes = np.full(rows, "interval" if has_ends else "point", dtype=object)
        if lifetime.shape_field in table.column_names:
            shapes = np.array(table.column(lifetime.shape_field).to_pylist(), dtype=object)
        unknown_shape = ~np.isin(shapes.astype(str), _SHAPES)
        reasons = [
            f"shape {shape!r} is none of point, interval, start_edge, end_edge" for shape in shapes[unknown_shape]
        ]
        wrong.append(reasons_of(unknown_shape, reasons))
        ends = np.where(shapes == "point", times + 1, ends)
        ends = np.where(shapes == "start_edge", FOREVER, ends)
        edges = np.asarray(shapes == "end_edge")
        unknown = np.isin(shapes.astype(str), ("interval", "end_edge")) & (ends == FOREVER)
        wrong.append(reasons_of(unknown, "it has no end"))
    wrong.append(reasons_of(ends <= times, "its lifetime ends before it begins, or as it begins"))
    return ends, edges, wrong


# Session gaps of events, if each event has its own.


def session_gaps(
    kinds: Sequence[WindowKind], table: pa.Table, times: NDArray[np.int64]
) -> tuple[NDArray[np.int64] | None, list[Reasons]]:
    """Returns the session gap of each event in microseconds; None if all events share one gap. ``kinds``: the windows
    of the bolt."""
    gap_kind = next((kind for kind in kinds if isinstance(kind, Session) and kind.gap_field is not None), None)
    if gap_kind is None or gap_kind.gap_field is None:
        return None, []
    name, default_gap = gap_kind.gap_field, gap_kind.gap.micros
    if name not in table.column_names:
        return np.full(table.num_rows, default_gap, np.int64), []
    column = table.column(name).combine_chunks()
    scale = 1 if pa.types.is_duration(column.type) else 1_000
    if pa.types.is_duration(column.type):
        values = column.cast(pa.duration("us"), safe=False).cast(pa.int64())
    else:
        values = column.cast(pa.int64(), safe=False)
    gaps = values.fill_null(default_gap if scale == 1 else -(-default_gap // scale)).to_numpy(zero_copy_only=False)
    short, long = gaps <= 0, gaps > (LATEST - times) // scale
    has_own_gap = ~(short | long | column.is_null().to_numpy(zero_copy_only=False))
    wrong = [
        reasons_of(short, "its session gap is not above zero"),
        reasons_of(long, "its session would end after the year 9999"),
    ]
    return np.asarray(np.where(has_own_gap, gaps * scale, default_gap), np.int64), wrong


# Times and lifetimes of rows that arrive at a windowed bolt, and decisions from their arrival times.


@dataclass(frozen=True, kw_only=True)
class TimedRows:
    """Facts about rows that are known before late events are: one entry per row, times in microseconds."""

    times: NDArray[np.int64]
    codes: NDArray[np.int8]
    """The ``Decision`` code of each row, from its arrival time; or the code of an invalid row or a watermark."""
    reasons: Reasons
    starts: NDArray[np.int64]
    """The start of each event, before adjustments."""
    ends: NDArray[np.int64] | None = None
    """The end of the lifetime of each event; None if events have no lifetimes."""
    end_edges: NDArray[np.bool_] | None = None
    """True for end edges (SI-3)."""
    watermarks: NDArray[np.int64] | None = None
    """The watermark, if the row is a watermark; NONE for an event."""
    gaps: NDArray[np.int64] | None = None
    """The session gap of each event; None if all events share one gap."""
    latest_arrival: int | None = None
    """The latest arrival time; None without arrival times."""
    truncated: NDArray[np.bool_] | None = None
    """True for rows with a time finer than microseconds, which was cut; None without such rows."""
    arrivals: NDArray[np.int64] | None = None
    """The arrival time of each row; NONE for unreadable arrival times and for watermarks."""

    @property
    def invalid(self) -> NDArray[np.int64]:
        """The indices of the invalid rows."""
        return np.zeros(0, np.int64) if self.reasons is None else np.flatnonzero(self.reasons != "")


def time_rows(
    node: WindowedNode, input_index: int, table: pa.Table, bolt_times: NDArray[np.int64] | None, clock: int
) -> TimedRows:
    """Gives each row of an input its time and lifetime, and decides by its arrival time whether it is early or late.

    ``bolt_times``: the times of rows from another bolt; None for rows of a spout. ``clock``: the clock at arrival. Both
    are in microseconds.
    """
    settings = node.bolt.settings
    times, wrong_times, is_cut = _times(node, input_index, table, bolt_times, clock)
    watermarks, wrong_watermarks = _inserted_watermarks(settings.watermark_field if node.event_time else None, table)
    if watermarks is not None:
        times = np.where(watermarks > NONE, watermarks, times)
    ends, end_edges, wrong_ends = lifetimes(settings.lifetime, table, times)
    if ends is not None and settings.lifetime is not None and node.versions_input == input_index:
        ends = ends if settings.lifetime.end_field in table.column_names else np.full(len(times), FOREVER)
    gaps, wrong_gaps = session_gaps(settings.kinds, table, times)
    reasons = first_reasons(wrong_watermarks, wrong_times, *wrong_ends, *wrong_gaps)
    starts, codes = times, np.zeros(len(times), np.int8)
    latest_arrival, event_arrivals = None, None
    # Only events from outside have an arrival: rows of a windowed bolt follow its watermark.
    if settings.arrival is not None and node.event_time and not node.origins[input_index]:
        arrivals, wrong_arrivals = _arrivals(settings.arrival.field, table, clock)
        reasons = first_reasons(reasons, wrong_arrivals)
        is_event = np.ones(len(times), np.bool_) if reasons is None else reasons == ""
        if watermarks is not None:
            is_event = is_event & (watermarks == NONE)
        if is_event.any():
            latest_arrival = int(np.max(np.broadcast_to(arrivals, len(times))[is_event]))
        event_arrivals = np.where(is_event, arrivals, NONE)
        times, codes = decide_by_arrival(times, arrivals, settings.arrival)
    if watermarks is not None:
        codes = np.where(watermarks > NONE, np.int8(Decision.WATERMARK), codes)
        reasons = None if reasons is None else np.where(watermarks > NONE, "", reasons)
    if reasons is not None:
        codes = np.where(reasons != "", np.int8(Decision.INVALID), codes)
    return TimedRows(
        times=times,
        codes=codes,
        reasons=reasons,
        starts=starts,
        ends=ends,
        end_edges=end_edges,
        watermarks=watermarks,
        gaps=gaps,
        latest_arrival=latest_arrival,
        arrivals=event_arrivals,
        truncated=_truncated(node, table, is_cut),
    )


def _truncated(node: WindowedNode, table: pa.Table, is_cut: NDArray[np.bool_] | None) -> NDArray[np.bool_] | None:
    """Returns a mask of rows with a time that was cut to microseconds: the event's time, or another time column of
    nanoseconds."""
    settings = node.bolt.settings
    others = (
        settings.watermark_field,
        None if settings.arrival is None else settings.arrival.field,
        None if settings.lifetime is None else settings.lifetime.end_field,
    )
    for name in others:
        fine = finer_than_micros(table.column(name)) if name is not None and name in table.column_names else None
        if fine is not None:
            is_cut = fine if is_cut is None else is_cut | fine
    return is_cut


def _times(
    node: WindowedNode, input_index: int, table: pa.Table, bolt_times: NDArray[np.int64] | None, clock: int
) -> ReadTimes:
    """Returns the time of each row: the time from the bolt before, the time in its field, or the clock."""
    if not node.event_time:
        clock_times = bolt_times if node.brings_clock and node.brings_clock[input_index] else None
        return ReadTimes(np.full(table.num_rows, clock, np.int64) if clock_times is None else clock_times, None)
    if node.brings_time[input_index] and bolt_times is not None:
        return ReadTimes(bolt_times, None)
    return read_times(node, table)


def _arrivals(field: str | None, table: pa.Table, clock: int) -> tuple[NDArray[np.int64] | int, Reasons]:
    """Returns the arrival time of each row, from its field or else the clock."""
    if field is None or field not in table.column_names:
        return clock, None
    arrivals, wrong = from_column(table.column(field))
    if wrong is None:
        return arrivals, None
    bad = wrong != ""
    return arrivals, reasons_of(bad, [f"arrival: {text}" for text in wrong[bad]])


def _inserted_watermarks(name: str | None, table: pa.Table) -> tuple[NDArray[np.int64] | None, Reasons]:
    """Returns the watermarks that the source inserted, NONE for events; None if this input has no such column, or no
    watermark."""
    if name is None or name not in table.column_names:
        return None, None
    column = table.column(name)
    present = column.is_valid().to_numpy()
    if not present.any():
        return None, None
    values, wrong = from_column(column)
    watermarks = np.where(present, values, NONE)
    if wrong is None:
        return watermarks, None
    bad = present & (wrong != "")
    return np.where(bad, NONE, watermarks), reasons_of(bad, [f"watermark: {text}" for text in wrong[bad]])


# The first output of a run: the input that it needs, and the windows that it suppresses (AZ-13).


def as_moment(user_time: datetime | str) -> int:
    """Returns a user's time in microseconds since the epoch. Raises ConfigError, with the accepted forms, for other
    values."""
    try:
        if isinstance(user_time, (datetime, str)):
            return parse_time(user_time)
    except ScenarioError:
        pass
    raise ConfigError(
        f"the first output {user_time!r} is not a time",
        why="it is a moment with a precision of microseconds",
        do="write it in ISO 8601, such as 2024-01-01T12:10:00Z (without a zone it is UTC), or give a datetime",
    ) from None


def read_from(topology: Graph, first_output: int) -> int | None:
    """Returns the time in microseconds from which input is needed; None if all input is needed.

    This is the first output minus the longest window, minus the time by which events may be early, since an event may
    have arrived that long before its time. A source that can seek to a time starts there.
    """
    needed = [_reach(topology.windowed[name]) for name in {name for name, _ in _first_inputs(topology)}]
    limited = [reach for reach in needed if reach is not None]
    return None if len(limited) < len(needed) else first_output - max(limited, default=0)


@dataclass(frozen=True)
class FirstOutput:
    """The first output of a run, for bolts that read spouts; times in microseconds."""

    time: int
    """Windows that end before this time are not emitted."""
    read_from: int | None
    """Events before this time are skipped; None skips nothing."""
    inputs: frozenset[tuple[str, int]]
    """The inputs (bolt, input index) that spouts reach without a window between."""

    @staticmethod
    def of(topology: Graph, time: int | None) -> FirstOutput | None:
        """Returns the first output at ``time`` for this topology; None if ``time`` is None."""
        return None if time is None else FirstOutput(time, read_from(topology, time), _first_inputs(topology))

    @cached_property
    def _bolts(self) -> frozenset[str]:
        return frozenset(name for name, _ in self.inputs)

    def is_after(self, bolt: str, end: int) -> bool:
        """True if a window of a bolt that ends at ``end`` (microseconds) must be suppressed."""
        return end < self.time and bolt in self._bolts

    def is_older(self, node: WindowedNode, input_index: int, table: pa.Table, clock: int) -> NDArray[np.bool_]:
        """Returns a mask of events older than ``read_from``, by arrival time if they have one, else by event time.

        Events with unreadable times count as new: admission reports them.
        """
        limit, settings = self.read_from, node.bolt.settings
        if limit is None or (node.name, input_index) not in self.inputs:
            return np.zeros(table.num_rows, np.bool_)
        if not node.event_time:
            return np.full(table.num_rows, clock < limit)
        field = None if settings.arrival is None else settings.arrival.field
        if field is not None and field in table.column_names:
            times, wrong = from_column(table.column(field))
        else:
            times, wrong, _ = read_times(node, table)
        older: NDArray[np.bool_] = times < limit
        if wrong is not None:
            older &= wrong == ""
        if settings.watermark_field is not None and settings.watermark_field in table.column_names:
            older &= table.column(settings.watermark_field).is_null().to_numpy()  # rows with a value are watermarks
        return older

    def skips_file(self, topology: Graph, spout: str, folder_columns: pa.Table, clock: int) -> bool:
        """True if all rows of a file are older than ``read_from``, judged by columns with one value in the whole file.

        ``folder_columns``: these columns, in one row. True only if the bolts that read the spout take their times from
        these columns, and nothing else reads the spout or its unreadable rows.
        """
        stream, errors = (spout, DEFAULT_STREAM), (spout, ERRORS)
        readers = topology.readers.get(stream, ())
        if (
            not readers
            or topology.sinks_reading.get(stream)
            or topology.readers.get(errors)
            or topology.sinks_reading.get(errors)
        ):
            return False
        for name, input_index in readers:
            node = topology.windowed.get(name)
            if node is None or node.bolt.settings.timestamp_field not in folder_columns.column_names:
                return False
            arrival, watermark = node.bolt.settings.arrival, node.bolt.settings.watermark_field
            if watermark is not None or (arrival is not None and arrival.field is not None):
                return False
            if not self.is_older(node, input_index, folder_columns, clock).all():
                return False
        return True


def _first_inputs(topology: Graph) -> frozenset[tuple[str, int]]:
    found: set[tuple[str, int]] = set()
    waiting = list(topology.spouts)
    while waiting:
        source = waiting.pop()
        for (name, _), readers in topology.readers.items():
            for bolt, input_index in readers if name == source else ():
                passes_on = bolt in topology.plain or topology.windowed[bolt].without_windows
                if passes_on and (bolt, input_index) not in found:
                    waiting.append(bolt)
                found.add((bolt, input_index))
    return frozenset((bolt, input_index) for bolt, input_index in found if bolt in topology.windowed)


def _reach(node: WindowedNode) -> int | None:
    """Returns how long before an output of a bolt its events may have arrived, in microseconds; None without a
    limit."""
    settings = node.bolt.settings
    if settings.lifetime is not None:
        return None  # an old event may last into the window
    if node.by_policies or node.without_windows:
        return None  # state and numbers of events count from the first event
    early = settings.arrival.early if settings.arrival is not None and node.event_time else None
    if node.assigners:
        lengths = [assigner.max_lookback for assigner in node.assigners]
    else:
        lengths = [None if node.eviction.reach is None else node.eviction.reach.micros]
    limited = [length for length in lengths if length is not None]
    return None if len(limited) < len(lengths) else max(limited) + (0 if early is None else early.micros)
