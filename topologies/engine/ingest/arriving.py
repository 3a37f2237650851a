"""Prepares events for a bolt whose tasks admit them: their times and their order of arrival."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from manager.keyed.held import EDGE_COLUMN, END_COLUMN, GAP_COLUMN, KEY_COLUMN
from manager.storage.segments import STREAM_COLUMN, TIME_COLUMN, Ref, SegmentWriter
from manager.storage.taking import take_rows
from policies.admission import Decision, by_arrival, timely
from policies.marks import NONE
from topologies.engine.batch.plan import Origins
from topologies.engine.time.admission import conform_input, event_times
from topologies.graph.hashing import hash_rows
from topologies.graph.model import WindowedNode
from windowing.settings.rules import Partition
from windowing.time.timestamps import FOREVER, LATEST, from_column

if TYPE_CHECKING:
    from numpy.typing import NDArray

SEQ_COLUMN, ACTION_COLUMN, END_EDGE_COLUMN = "_seq", "_action", "_end_edge"
NO_PARTITION = "\0"
"""Name of the partition of events that have none; users' names never contain this character."""
SHAPES = ("point", "interval", "start_edge", "end_edge")


@dataclass
class Arriving:
    """The events that one task has read for one bolt, batch by batch, in order of arrival."""

    tables: list[pa.Table] = field(default_factory=list)
    tasks: list[NDArray[np.int64]] = field(default_factory=list)
    arrival_columns: list[dict[str, Any]] = field(default_factory=list)
    partitions: dict[str, int] = field(default_factory=dict)
    """The partitions of the events so far, and their codes."""
    count: int = 0
    """Number of events so far; an event's sequence number is its index among them."""


@dataclass(frozen=True)
class Timed:
    """What is known about rows before it is known which are late; one entry per row."""

    times: NDArray[np.int64]
    actions: NDArray[np.int8]
    reasons: NDArray[Any]
    """Why a row is invalid; "" where it is valid."""
    ends: NDArray[np.int64] | None
    end_edges: NDArray[np.bool_] | None
    started: NDArray[np.int64]
    """The start time of each event in microseconds, before any adjustment."""
    given: NDArray[np.int64] | None
    """The watermark in microseconds where the row is a watermark; NONE where it is an event."""
    gaps: NDArray[np.int64] | None
    arrived: int | None
    """The latest arrival time in microseconds; None where there is none."""
    arrivals: NDArray[np.int64] | None = None
    """When each row arrived, in microseconds; NONE where that is unreadable, and for watermarks."""

    def take(self, indices: NDArray[np.int64]) -> Timed:
        """The rows at these indices."""

        def pick(column: Any) -> Any:
            return None if column is None else column[indices]

        return Timed(
            self.times[indices], self.actions[indices], self.reasons[indices], pick(self.ends), pick(self.end_edges),
            self.started[indices], pick(self.given), pick(self.gaps), self.arrived, pick(self.arrivals),
        )  # fmt: skip


def timed(node: WindowedNode, input_index: int, table: pa.Table, times: NDArray[np.int64] | None, clock: int) -> Timed:
    """Give each row of an input its time and lifetime, and decide by its arrival time whether it is early or late.

    ``times`` are the event times in microseconds that the rows bring along; None where they bring none. ``clock`` is
    the clock at arrival.
    """
    settings, rows = node.bolt.settings, table.num_rows
    reasons: NDArray[Any] = np.full(rows, "", dtype=object)
    if not node.event_time:
        times = times if times is not None and node.clocked[input_index] else np.full(rows, clock, np.int64)
    elif not node.carries_time[input_index] or times is None:
        times, unreadable = event_times(node, table)
        reasons = reasons if unreadable is None else unreadable.astype(object)
    given = _given(settings.watermark_field, table, reasons) if node.event_time else None
    if given is not None:
        times = np.where(given > NONE, given, times)
    ends, end_edges = _lifetimes(node, table, times, reasons)
    gaps, started = _gaps(node, table, times, reasons), times
    actions = np.zeros(rows, np.int8)
    arrived, arrived_at = None, None
    if settings.arrival is not None and node.event_time:
        arrivals: NDArray[np.int64] | int = clock
        if settings.arrival.field is not None and settings.arrival.field in table.column_names:
            arrivals, unreadable_arrivals = from_column(table.column(settings.arrival.field))
            if unreadable_arrivals is not None:
                reported = (unreadable_arrivals != "") & (reasons == "")
                reasons[reported] = [f"arrival: {text}" for text in unreadable_arrivals[reported]]
        sound = reasons == ""
        if given is not None:
            sound = sound & (given == NONE)
        if sound.any():
            arrived = int(np.max(np.broadcast_to(arrivals, rows)[sound]))
        arrived_at = np.where(sound, arrivals, NONE)
        times, actions = by_arrival(times, arrivals, settings.arrival)
    if given is not None:
        actions[given > NONE] = Decision.WATERMARK
        reasons[given > NONE] = ""
    return Timed(times, actions, reasons, ends, end_edges, started, given, gaps, arrived, arrived_at)


def note(
    arriving: Arriving,
    node: WindowedNode,
    input_index: int,
    table: pa.Table,
    timed_rows: Timed,
    tasks: Any,
    partition: str | Origins = "",
) -> None:
    """Add rows to ``arriving``.

    ``tasks`` is the task of each row; None sends every row to every task. ``partition`` is the source's partition of
    all rows, or of each, with its spout; "" where there is none.
    """
    rows, settings = table.num_rows, node.bolt.settings
    columns = conform_input(table, node.schema)
    numbers = np.arange(arriving.count, arriving.count + rows)
    arriving.count += rows
    inner: dict[str, Any] = {
        TIME_COLUMN: timed_rows.times,
        STREAM_COLUMN: np.full(rows, input_index, np.int8),
        SEQ_COLUMN: numbers,
        ACTION_COLUMN: timed_rows.actions,
    }
    if timed_rows.ends is not None:
        inner[END_COLUMN] = timed_rows.ends
    if timed_rows.end_edges is not None:
        inner[END_EDGE_COLUMN] = timed_rows.end_edges
        assert settings.lifetime is not None
        inner[EDGE_COLUMN] = _edges(columns, settings.lifetime.edge_key, timed_rows.started, input_index)
    if timed_rows.gaps is not None:
        inner[GAP_COLUMN] = timed_rows.gaps
    if settings.key:
        inner[KEY_COLUMN] = hash_rows(columns, settings.key).view(np.int64)
    for name, array in inner.items():
        columns = columns.append_column(name, pa.array(array))
    if tasks is None:
        for task in range(node.parallelism):
            arriving.tables.append(columns)
            arriving.tasks.append(np.full(rows, task, np.int64))
    else:
        arriving.tables.append(columns)
        arriving.tasks.append(tasks)
    if node.sequenced:
        codes = _partitions(arriving, settings.watermark_partition, table, partition)
        arriving.arrival_columns.append(_arrival_columns(node, timed_rows, inner[STREAM_COLUMN], codes))


def _arrival_columns(
    node: WindowedNode, timed_rows: Timed, inputs: NDArray[np.int8], partitions: NDArray[np.int32] | None
) -> dict[str, Any]:
    """The columns from which the watermark is computed, for rows in order of arrival."""
    settings, seen = node.bolt.settings, timely(timed_rows.actions)
    counts = seen if timed_rows.end_edges is None else seen & ~timed_rows.end_edges
    columns: dict[str, Any] = {"time": timed_rows.times, "input": inputs, "counts": counts}
    if settings.watermark_field is not None:
        columns["given"] = np.full(len(seen), NONE, np.int64) if timed_rows.given is None else timed_rows.given
    if partitions is not None:
        columns["partition"] = partitions
        columns["heard"] = seen | (timed_rows.actions == Decision.WATERMARK)
    if settings.estimate_arrival and (partitions is not None or len(node.inputs) > 1):
        columns["arrived"] = timed_rows.arrivals
    return columns


def write(arriving: Arriving, node: WindowedNode, writer: SegmentWriter) -> tuple[list[tuple[int, Ref]], Ref | None]:
    """Write the events: a section per task, and one section with the order of arrival of all events, None where the
    watermark does not follow the events."""
    table = pa.concat_tables(arriving.tables).combine_chunks()
    tasks = np.concatenate(arriving.tasks)
    sections: list[tuple[int, Ref]] = []
    if node.parallelism == 1:
        sections.append((0, _section(writer, table, len(node.inputs))))
    else:
        order = np.argsort(tasks, kind="stable")
        tasks = tasks[order]
        table = take_rows(table, order)
        edges = np.searchsorted(tasks, np.arange(node.parallelism + 1)).tolist()
        for task in range(node.parallelism):
            if edges[task + 1] > edges[task]:
                split = table.slice(edges[task], edges[task + 1] - edges[task])
                sections.append((task, _section(writer, split, len(node.inputs))))
    order_ref = None
    if arriving.arrival_columns:
        order_ref = writer.add(_arrival_table(arriving))
    return sections, order_ref


_NOTHING = {"partition": np.int32(-1), "heard": np.True_, "arrived": np.int64(NONE)}
"""Values for rows of a source without partitions, where other sources have some."""


def _arrival_table(arriving: Arriving) -> pa.Table:
    """The order of arrival of all events; the partition is null where an event has none."""
    names = dict.fromkeys(name for batch in arriving.arrival_columns for name in batch)
    columns = {
        name: np.concatenate(
            [batch.get(name, np.full(len(batch["time"]), _NOTHING.get(name))) for batch in arriving.arrival_columns]
        )
        for name in names
    }
    if "partition" in columns:
        codes = columns["partition"]
        indices = pa.array(codes, pa.int32(), mask=codes < 0)
        columns["partition"] = pa.DictionaryArray.from_arrays(indices, pa.array(list(arriving.partitions), pa.string()))
    return pa.table(columns)


def _partitions(
    arriving: Arriving, by: str | Partition | None, table: pa.Table, own: str | Origins
) -> NDArray[np.int32] | None:
    """The partition code of each row; None where the rows have no partition."""
    rows = table.num_rows
    if isinstance(by, Partition) and isinstance(own, Origins):
        present = np.unique(own.codes).tolist()
        codes_of = np.full(len(own.names), -1, np.int32)
        codes_of[present] = [_code(arriving, own.names[code]) if own.names[code] else -1 for code in present]
        return codes_of[own.codes]
    if isinstance(by, Partition):
        assert isinstance(own, str)
        return np.full(rows, _code(arriving, own), np.int32) if own else None
    if by is None:
        return None
    if by not in table.column_names:
        return np.full(rows, _code(arriving, NO_PARTITION), np.int32)
    column = table.column(by).combine_chunks()
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    # The last code stands for null, whose index is -1.
    values = [*column.dictionary.to_pylist(), None]
    codes = [_code(arriving, NO_PARTITION if value is None else str(value)) for value in values]
    indices = column.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    row_codes: NDArray[np.int32] = np.array(codes, np.int32)[indices]
    return row_codes


def _code(arriving: Arriving, name: str) -> int:
    return arriving.partitions.setdefault(name, len(arriving.partitions))


def _section(writer: SegmentWriter, table: pa.Table, streams: int) -> Ref:
    ref = writer.add(table)
    codes = table.column(STREAM_COLUMN).to_numpy()
    times = table.column(TIME_COLUMN).to_numpy()
    by_stream = tuple(int(count) for count in np.bincount(codes, minlength=streams))
    return replace(ref, earliest=int(times.min()), latest=int(times.max()), by_stream=by_stream)


def _given(name: str | None, table: pa.Table, reasons: NDArray[Any]) -> NDArray[np.int64] | None:
    """The watermarks that the source inserted, NONE for events; None where this input has no column for them or no
    watermark."""
    if name is None or name not in table.column_names:
        return None
    column = table.column(name)
    present = column.is_valid().to_numpy(zero_copy_only=False) if hasattr(column, "is_valid") else None
    assert present is not None
    if not present.any():
        return None
    values, wrong = from_column(column)
    given = np.where(present, values, NONE)
    if wrong is not None:
        bad = present & (wrong != "")
        given[bad] = NONE
        reasons[bad] = [f"watermark: {text}" for text in wrong[bad]]
    return given


def _lifetimes(
    node: WindowedNode, table: pa.Table, times: NDArray[np.int64], reasons: NDArray[Any]
) -> tuple[NDArray[np.int64] | None, NDArray[np.bool_] | None]:
    """The end of each event in microseconds, and which events are end edges (SI-3); None where the bolt has no
    lifetimes."""
    lifetime = node.bolt.settings.lifetime
    if lifetime is None:
        return None, None
    rows = table.num_rows
    ends = times + 1
    present = np.zeros(rows, np.bool_)
    if lifetime.end_field in table.column_names:
        column = table.column(lifetime.end_field)
        present = np.asarray(column.is_valid().to_numpy(zero_copy_only=False))
        values, wrong = from_column(column)
        ends = np.where(present, values, ends)
        if wrong is not None:
            bad = present & (wrong != "") & (reasons == "")
            reasons[bad] = [f"end of its lifetime: {text}" for text in wrong[bad]]
    edges = None
    # Without the column events are points; with it, a null means that the end is not known yet.
    has_ends = lifetime.end_field in table.column_names
    shapes = np.full(rows, "interval" if has_ends else "point", dtype=object)
    if has_ends:
        ends = np.where(present, ends, FOREVER)
    if lifetime.shape_field is not None:
        edges = np.zeros(rows, np.bool_)
        if lifetime.shape_field in table.column_names:
            shapes = np.array(table.column(lifetime.shape_field).to_pylist(), dtype=object)
        strange = ~np.isin(shapes.astype(str), SHAPES) & (reasons == "")
        reasons[strange] = [
            f"shape {shape!r} is none of point, interval, start_edge, end_edge" for shape in shapes[strange]
        ]
        ends = np.where(shapes == "point", times + 1, ends)
        ends = np.where(shapes == "start_edge", FOREVER, ends)
        edges = np.asarray(shapes == "end_edge")
        unknown = np.isin(shapes.astype(str), ("interval", "end_edge")) & ~present & (reasons == "")
        reasons[unknown] = "it has no end"
    backwards = (ends <= times) & (reasons == "")
    reasons[backwards] = "its lifetime ends before it begins, or as it begins"
    return ends, edges


def _edges(table: pa.Table, key: tuple[str, ...], started: NDArray[np.int64], input_index: int) -> NDArray[np.int64]:
    """A hash that the start and the end of an edge share: of its start time, its input and its key."""
    starts = pa.table({"start": started, "input": np.full(len(started), input_index, np.int8)})
    hashes = hash_rows(starts, ("start", "input"))
    if key:
        hashes = hashes * np.uint64(0x9E3779B97F4A7C15) ^ hash_rows(table, key)
    return hashes.view(np.int64)


def _gaps(
    node: WindowedNode, table: pa.Table, times: NDArray[np.int64], reasons: NDArray[Any]
) -> NDArray[np.int64] | None:
    """The session gap of each event in microseconds; None where all events share one gap."""
    kinds = [kind for kind in node.bolt.settings.kinds if getattr(kind, "gap_field", None)]
    if not kinds:
        return None
    name, usual = kinds[0].gap_field, kinds[0].gap.micros  # type: ignore[union-attr]
    if name not in table.column_names:
        return np.full(table.num_rows, usual, np.int64)
    column = table.column(name).combine_chunks()
    scale = 1 if pa.types.is_duration(column.type) else 1_000
    if pa.types.is_duration(column.type):
        values = column.cast(pa.duration("us"), safe=False).cast(pa.int64())
    else:
        values = column.cast(pa.int64(), safe=False)
    gaps = values.fill_null(usual if scale == 1 else -(-usual // scale)).to_numpy(zero_copy_only=False)
    wrong = (gaps <= 0) & (reasons == "")
    reasons[wrong] = "its session gap is not above zero"
    beyond = (gaps > (LATEST - times) // scale) & (reasons == "")
    reasons[beyond] = "its session would end after the year 9999"
    gaps = np.where(
        wrong | beyond, usual, np.where(column.is_null().to_numpy(zero_copy_only=False), usual, gaps * scale)
    )
    return np.asarray(gaps, np.int64)
