"""The times and lifetimes of rows that arrive at a windowed bolt, and what their arrival times say about them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from policies.admission import Decision, by_arrival
from policies.marks import NONE
from topologies.engine.batch.rows import Rows
from topologies.engine.time.event_times import event_times
from topologies.graph.model import WindowedNode
from windowing.time.timestamps import FOREVER, LATEST, from_column

if TYPE_CHECKING:
    from numpy.typing import NDArray

SHAPES = ("point", "interval", "start_edge", "end_edge")


@dataclass(frozen=True)
class Timed:
    """What is known about rows before it is known which are late; one entry per row, times in microseconds."""

    times: NDArray[np.int64]
    actions: NDArray[np.int8]
    """A ``Decision`` for each: by its arrival, or that it is invalid or a watermark."""
    reasons: NDArray[Any] | None
    """Why a row is invalid, "" where it is valid; None where all are valid."""
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
    arrivals: NDArray[np.int64] | None = None
    """When each row arrived; NONE where that is unreadable, and for watermarks."""

    @property
    def invalid(self) -> NDArray[np.int64]:
        """The indices of the invalid rows."""
        return np.zeros(0, np.int64) if self.reasons is None else np.flatnonzero(self.reasons != "")


def timed(node: WindowedNode, input_index: int, rows: Rows) -> Timed:
    """Give each row of an input its time and lifetime, and decide by its arrival time whether it is early or late."""
    settings, table = node.bolt.settings, rows.table
    times, unreadable = _times(node, input_index, rows)
    given, wrong_given = _given(settings.watermark_field if node.event_time else None, table)
    if given is not None:
        times = np.where(given > NONE, given, times)
    ends, end_edges, wrong_ends = _lifetimes(node, table, times)
    gaps, wrong_gaps = _gaps(node, table, times)
    reasons = _first(wrong_given, unreadable, *wrong_ends, *wrong_gaps)
    started, actions = times, np.zeros(len(times), np.int8)
    arrived, arrived_at = None, None
    if settings.arrival is not None and node.event_time:
        arrivals, wrong_arrivals = _arrivals(settings.arrival.field, rows)
        reasons = _first(reasons, wrong_arrivals)
        sound = np.ones(len(times), np.bool_) if reasons is None else reasons == ""
        if given is not None:
            sound = sound & (given == NONE)
        if sound.any():
            arrived = int(np.max(np.broadcast_to(arrivals, len(times))[sound]))
        arrived_at = np.where(sound, arrivals, NONE)
        times, actions = by_arrival(times, arrivals, settings.arrival)
    if given is not None:
        actions = np.where(given > NONE, np.int8(Decision.WATERMARK), actions)
        reasons = None if reasons is None else np.where(given > NONE, "", reasons)
    if reasons is not None:
        actions = np.where(reasons != "", np.int8(Decision.INVALID), actions)
    return Timed(times, actions, reasons, started, ends, end_edges, given, gaps, arrived, arrived_at)


def _times(node: WindowedNode, input_index: int, rows: Rows) -> tuple[NDArray[np.int64], NDArray[Any] | None]:
    """The time of each row, and why a row has none: the time that it brings along, that of its field, or the clock."""
    if not node.event_time:
        brought = rows.times if node.clocked and node.clocked[input_index] else None
        return np.full(rows.table.num_rows, rows.clock, np.int64) if brought is None else brought, None
    if node.carries_time[input_index] and rows.times is not None:
        return rows.times, None
    return event_times(node, rows.table)


def _arrivals(field: str | None, rows: Rows) -> tuple[NDArray[np.int64] | int, NDArray[Any] | None]:
    """The arrival time of each row, by its field or else the clock; and why one is unreadable."""
    if field is None or field not in rows.table.column_names:
        return rows.clock, None
    arrivals, unreadable = from_column(rows.table.column(field))
    if unreadable is None:
        return arrivals, None
    wrong = unreadable != ""
    return arrivals, _because(wrong, [f"arrival: {text}" for text in unreadable[wrong]])


def _given(name: str | None, table: pa.Table) -> tuple[NDArray[np.int64] | None, NDArray[Any] | None]:
    """The watermarks that the source inserted, NONE for events, and why one is unreadable; None where this input has no
    column for them or no watermark."""
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
    return np.where(bad, NONE, given), _because(bad, [f"watermark: {text}" for text in wrong[bad]])


def _lifetimes(
    node: WindowedNode, table: pa.Table, times: NDArray[np.int64]
) -> tuple[NDArray[np.int64] | None, NDArray[np.bool_] | None, list[NDArray[Any] | None]]:
    """The end of each event in microseconds, which events are end edges (SI-3), and what is wrong with some; None where
    the bolt has no lifetimes."""
    lifetime = node.bolt.settings.lifetime
    if lifetime is None:
        return None, None, []
    rows = table.num_rows
    wrong: list[NDArray[Any] | None] = []
    ends, present = times + 1, np.zeros(rows, np.bool_)
    # Without the column events are points; with it, a null means that the end is not known yet.
    has_ends = lifetime.end_field in table.column_names
    if has_ends:
        column = table.column(lifetime.end_field)
        present = np.asarray(column.is_valid().to_numpy())
        values, unreadable = from_column(column)
        if unreadable is not None:
            bad = present & (unreadable != "")
            wrong.append(_because(bad, [f"end of its lifetime: {text}" for text in unreadable[bad]]))
        ends = np.where(present, values, FOREVER)
    edges = None
    if lifetime.shape_field is not None:
        edges = np.zeros(rows, np.bool_)
        shapes = np.full(rows, "interval" if has_ends else "point", dtype=object)
        if lifetime.shape_field in table.column_names:
            shapes = np.array(table.column(lifetime.shape_field).to_pylist(), dtype=object)
        strange = ~np.isin(shapes.astype(str), SHAPES)
        said = [f"shape {shape!r} is none of point, interval, start_edge, end_edge" for shape in shapes[strange]]
        wrong.append(_because(strange, said))
        ends = np.where(shapes == "point", times + 1, ends)
        ends = np.where(shapes == "start_edge", FOREVER, ends)
        edges = np.asarray(shapes == "end_edge")
        unknown = np.isin(shapes.astype(str), ("interval", "end_edge")) & ~present
        wrong.append(_because(unknown, "it has no end"))
    wrong.append(_because(ends <= times, "its lifetime ends before it begins, or as it begins"))
    return ends, edges, wrong


def _gaps(
    node: WindowedNode, table: pa.Table, times: NDArray[np.int64]
) -> tuple[NDArray[np.int64] | None, list[NDArray[Any] | None]]:
    """The session gap of each event in microseconds, and what is wrong with some; None where all events share one
    gap."""
    kinds = [kind for kind in node.bolt.settings.kinds if getattr(kind, "gap_field", None)]
    if not kinds:
        return None, []
    name, usual = kinds[0].gap_field, kinds[0].gap.micros  # type: ignore[union-attr]
    if name not in table.column_names:
        return np.full(table.num_rows, usual, np.int64), []
    column = table.column(name).combine_chunks()
    scale = 1 if pa.types.is_duration(column.type) else 1_000
    if pa.types.is_duration(column.type):
        values = column.cast(pa.duration("us"), safe=False).cast(pa.int64())
    else:
        values = column.cast(pa.int64(), safe=False)
    gaps = values.fill_null(usual if scale == 1 else -(-usual // scale)).to_numpy(zero_copy_only=False)
    short, long = gaps <= 0, gaps > (LATEST - times) // scale
    own = ~(short | long | column.is_null().to_numpy(zero_copy_only=False))
    wrong = [
        _because(short, "its session gap is not above zero"),
        _because(long, "its session would end after the year 9999"),
    ]
    return np.asarray(np.where(own, gaps * scale, usual), np.int64), wrong


def _because(wrong: NDArray[np.bool_], reasons: str | list[str]) -> NDArray[Any] | None:
    """A reason for each row that is wrong, "" for the others; None where none is."""
    if not wrong.any():
        return None
    said = np.full(len(wrong), "", dtype=object)
    said[wrong] = reasons
    return said


def _first(*reasons: NDArray[Any] | None) -> NDArray[Any] | None:
    """The first reason given for each row; None where none is given for any."""
    first: NDArray[Any] | None = None
    for given in reasons:
        if given is not None:
            first = given.astype(object) if first is None else np.where(first == "", given, first)
    return first
