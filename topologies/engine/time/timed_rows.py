"""The times and lifetimes of rows that arrive at a windowed bolt, and what their arrival times say about them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from policies.admission import Decision, by_arrival
from policies.marks import NONE
from topologies.engine.time.lifetimes import lifetimes
from topologies.engine.time.read_times import Read, read_times
from topologies.engine.time.reasons import Reasons, first_reasons, reasons_of
from topologies.engine.time.session_gaps import session_gaps
from topologies.graph.nodes.windowed import WindowedNode
from windowing.time.timestamps import FOREVER, finer, from_column

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True)
class Timed:
    """What is known about rows before it is known which are late; one entry per row, times in microseconds."""

    times: NDArray[np.int64]
    codes: NDArray[np.int8]
    """The code of a ``Decision`` for each: by its arrival, or that it is invalid or a watermark."""
    reasons: Reasons
    started: NDArray[np.int64]
    """The start of each event, before any adjustment."""
    ends: NDArray[np.int64] | None = None
    """The end of the lifetime of each event; None where events have no lifetimes."""
    end_edges: NDArray[np.bool_] | None = None
    """Which events are end edges (SI-3)."""
    given: NDArray[np.int64] | None = None
    """The watermark where the row is a watermark; NONE where it is an event."""
    gaps: NDArray[np.int64] | None = None
    """The session gap of each event; None where all events share one gap."""
    arrived: int | None = None
    """The latest arrival time; None where there is none."""
    truncated: NDArray[np.bool_] | None = None
    """Of which rows a time was finer than microseconds, and was cut here; None where none was."""
    arrivals: NDArray[np.int64] | None = None
    """When each row arrived; NONE where that is unreadable, and for watermarks."""

    @property
    def invalid(self) -> NDArray[np.int64]:
        """The indices of the invalid rows."""
        return np.zeros(0, np.int64) if self.reasons is None else np.flatnonzero(self.reasons != "")


def timed(
    node: WindowedNode, input_index: int, table: pa.Table, brought: NDArray[np.int64] | None, clock: int
) -> Timed:
    """Give each row of an input its time and lifetime, and decide by its arrival time whether it is early or late.

    ``brought`` are the times that rows of another bolt bring along; None for those of a spout. ``clock`` is that of
    their arrival; both are in microseconds.
    """
    settings = node.bolt.settings
    times, wrong_times, cut = _times(node, input_index, table, brought, clock)
    given, wrong_given = _given(settings.watermark_field if node.event_time else None, table)
    if given is not None:
        times = np.where(given > NONE, given, times)
    ends, end_edges, wrong_ends = lifetimes(settings.lifetime, table, times)
    if ends is not None and settings.lifetime is not None and node.versions == input_index:
        ends = ends if settings.lifetime.end_field in table.column_names else np.full(len(times), FOREVER)
    gaps, wrong_gaps = session_gaps(settings.kinds, table, times)
    reasons = first_reasons(wrong_given, wrong_times, *wrong_ends, *wrong_gaps)
    started, codes = times, np.zeros(len(times), np.int8)
    arrived, arrived_at = None, None
    # Arrival is a matter of what comes from outside: rows of a windowed bolt have its watermark.
    if settings.arrival is not None and node.event_time and not node.origins[input_index]:
        arrivals, wrong_arrivals = _arrivals(settings.arrival.field, table, clock)
        reasons = first_reasons(reasons, wrong_arrivals)
        sound = np.ones(len(times), np.bool_) if reasons is None else reasons == ""
        if given is not None:
            sound = sound & (given == NONE)
        if sound.any():
            arrived = int(np.max(np.broadcast_to(arrivals, len(times))[sound]))
        arrived_at = np.where(sound, arrivals, NONE)
        times, codes = by_arrival(times, arrivals, settings.arrival)
    if given is not None:
        codes = np.where(given > NONE, np.int8(Decision.WATERMARK), codes)
        reasons = None if reasons is None else np.where(given > NONE, "", reasons)
    if reasons is not None:
        codes = np.where(reasons != "", np.int8(Decision.INVALID), codes)
    return Timed(
        times=times,
        codes=codes,
        reasons=reasons,
        started=started,
        ends=ends,
        end_edges=end_edges,
        given=given,
        gaps=gaps,
        arrived=arrived,
        arrivals=arrived_at,
        truncated=_truncated(node, table, cut),
    )


def _truncated(node: WindowedNode, table: pa.Table, cut: NDArray[np.bool_] | None) -> NDArray[np.bool_] | None:
    """Of which rows a time was cut: that of the event, or one of its other times in a column of nanoseconds."""
    settings = node.bolt.settings
    others = (
        settings.watermark_field,
        None if settings.arrival is None else settings.arrival.field,
        None if settings.lifetime is None else settings.lifetime.end_field,
    )
    for name in others:
        fine = finer(table.column(name)) if name is not None and name in table.column_names else None
        if fine is not None:
            cut = fine if cut is None else cut | fine
    return cut


def _times(
    node: WindowedNode, input_index: int, table: pa.Table, brought: NDArray[np.int64] | None, clock: int
) -> Read:
    """The time of each row: the one that it brings along, that of its field, or the clock."""
    if not node.event_time:
        kept = brought if node.clocked and node.clocked[input_index] else None
        return Read(np.full(table.num_rows, clock, np.int64) if kept is None else kept, None)
    if node.carries_time[input_index] and brought is not None:
        return Read(brought, None)
    return read_times(node, table)


def _arrivals(field: str | None, table: pa.Table, clock: int) -> tuple[NDArray[np.int64] | int, Reasons]:
    """The arrival time of each row, by its field or else the clock."""
    if field is None or field not in table.column_names:
        return clock, None
    arrivals, wrong = from_column(table.column(field))
    if wrong is None:
        return arrivals, None
    bad = wrong != ""
    return arrivals, reasons_of(bad, [f"arrival: {text}" for text in wrong[bad]])


def _given(name: str | None, table: pa.Table) -> tuple[NDArray[np.int64] | None, Reasons]:
    """The watermarks that the source inserted, NONE for events; None where this input has no column for them or no
    watermark."""
    if name is None or name not in table.column_names:
        return None, None
    column = table.column(name)
    present = column.is_valid().to_numpy()
    if not present.any():
        return None, None
    values, wrong = from_column(column)
    given = np.where(present, values, NONE)
    if wrong is None:
        return given, None
    bad = present & (wrong != "")
    return np.where(bad, NONE, given), reasons_of(bad, [f"watermark: {text}" for text in wrong[bad]])
