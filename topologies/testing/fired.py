"""The windows that a bolt was called with, and what it emitted for each, noted while a topology runs in a test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import pairwise
from types import MethodType
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from topologies.graph.nodes.windowed import WindowedNode
from windowing.bolts.batch_windowed_bolt import BatchWindowedBolt, numbered_rows
from windowing.bolts.ready.aggregate_bolt import AggregateBolt
from windowing.bolts.ready.bound_aggregates import BoundAggregates
from windowing.data.returned_rows import DEFAULT_STREAM, tables
from windowing.errors import ConfigError, SchemaError
from windowing.time.timestamps import FOREVER, show, show_end, to_datetime
from windowing.window import TupleWindow
from windowing.window_batch import WindowBatch

if TYPE_CHECKING:
    from windowing.aggregates.accumulators import State
    from windowing.aggregates.declared import Cells
    from windowing.bolts.windowed_bolt import WindowedBolt

NamedRows = list[dict[str, Any]]

_SHOWN = 3
"""Maximum number of rows of each stream in the repr of a window."""


@dataclass(frozen=True, repr=False)
class FiredWindow:
    """A window that has fired, and what the bolt emitted for it."""

    bolt: str
    """The name of the bolt."""
    start_timestamp: int | None
    """In microseconds, as those of ``TupleWindow``; None where the length is a count."""
    end_timestamp: int
    """In microseconds."""
    size: int
    """Number of its events."""
    emitted: dict[str, NamedRows]
    """What the bolt emitted for it, by stream."""
    called_with: TupleWindow | None = None
    """The window itself; None of an AggregateBolt that keeps partial results, and no events."""

    def __repr__(self) -> str:
        start = "" if self.start_timestamp is None else f"{show(self.start_timestamp)} .. "
        end = show_end(self.end_timestamp)
        emitted = {stream: rows for stream, rows in self.emitted.items() if rows}
        parts = [
            f"{'' if stream == DEFAULT_STREAM else f'{stream}: '}{', '.join(map(str, rows[:_SHOWN]))}"
            f"{f', and {len(rows) - _SHOWN} more' if len(rows) > _SHOWN else ''}"
            for stream, rows in emitted.items()
        ]
        said = f"emitted {'; '.join(parts) or 'nothing'}"
        return f"<FiredWindow of {self.bolt} {start}{end}: {_number(self.size, 'event')}, {said}>"

    @property
    def window(self) -> TupleWindow:
        """The window that the bolt was called with. ConfigError of an AggregateBolt that was called with none."""
        if self.called_with is None:
            raise ConfigError(
                f"the events of a window of {self.bolt!r} are not available",
                why="an AggregateBolt over aligned windows of time adds up events as they arrive, and keeps none",
                do="look at its rows, start, end and size",
            )
        return self.called_with

    @property
    def start(self) -> datetime | None:
        """The start in UTC; None where the length is a count."""
        return None if self.start_timestamp is None else to_datetime(self.start_timestamp)

    @property
    def end(self) -> datetime | None:
        """The end in UTC; None where the window has no end."""
        return None if self.end_timestamp == FOREVER else to_datetime(self.end_timestamp)

    @property
    def rows(self) -> NamedRows:
        """What the bolt emitted for it on its default stream."""
        return self.emitted.get(DEFAULT_STREAM, [])

    @property
    def events(self) -> NamedRows:
        """Its events, as dicts; ConfigError where the window keeps none."""
        return list(self.window.table.to_pylist())

    @property
    def new(self) -> NamedRows:
        """The events that were not in the window before."""
        return list(self.window.new.to_pylist())

    @property
    def expired(self) -> NamedRows:
        """The events that were only in the window before; ConfigError where the window does not know."""
        return list(self.window.expired.to_pylist())


@dataclass
class Notes:
    """The windows of each batch; those of a batch that runs again replace what was noted of it."""

    batch: int = -1
    fired: dict[int, list[FiredWindow]] = field(default_factory=dict)

    def begin(self, batch: int) -> None:
        """A batch begins, perhaps once more."""
        self.batch = batch
        self.fired[batch] = []

    def forget(self) -> None:
        """The batch has failed."""
        self.fired.pop(self.batch, None)

    def note(self, fired: FiredWindow) -> None:
        """Note a window of the batch."""
        self.fired[self.batch].append(fired)


def watched_node(node: WindowedNode, notes: Notes) -> WindowedNode:
    """The bolt as it is, except for noting its windows; whichever way these are made, they are made as in any run."""
    bolt, note = copy(node.bolt), notes.note
    if node.slicing is not None and isinstance(bolt, AggregateBolt):
        assert bolt.bound_aggregates is not None
        bolt.bound_aggregates = NotedAggregates.of(bolt.bound_aggregates, node.name, note)
    elif isinstance(bolt, BatchWindowedBolt) and type(bolt).execute is BatchWindowedBolt.execute:
        bolt.__dict__["execute_all"] = MethodType(_noted_all(node.name, note), bolt)
    else:
        # Bound to this copy, so that the copies that tasks make of it call themselves, and not this one.
        bolt.__dict__["execute"] = MethodType(_noted(node.name, note), bolt)
    return replace(node, bolt=bolt)


def _noted(name: str, note: Callable[[FiredWindow], None]) -> Callable[[WindowedBolt, TupleWindow], Any]:
    def execute(self: WindowedBolt, window: TupleWindow) -> Any:
        given = type(self).execute(self, window)
        given = list(given) if isinstance(given, Iterator) else given
        emitted: dict[str, NamedRows] = {}
        try:
            for stream, table in tables(given, self.output_schemas()):
                emitted.setdefault(stream, []).extend(table.to_pylist())
        except SchemaError:
            return given  # which the engine will say, with the place
        start, end = window.start_timestamp, window.end_timestamp
        note(FiredWindow(name, start, end, len(window), emitted, window))
        return given

    return execute


def _noted_all(name: str, note: Callable[[FiredWindow], None]) -> Callable[[BatchWindowedBolt, WindowBatch], Any]:
    def execute_all(self: BatchWindowedBolt, windows: WindowBatch) -> Any:
        given = type(self).execute_all(self, windows)
        try:
            emitted = numbered_rows(given, len(windows), self.output_schemas())
        except SchemaError:
            return given  # which the engine will say, with the place
        by_window: list[dict[str, list[dict[str, Any]]]] = [{DEFAULT_STREAM: []} for _ in windows]
        for stream, table, index in emitted:
            for row, number in zip(table.to_pylist(), index.tolist(), strict=True):
                by_window[number].setdefault(stream, []).append(row)
        for window, rows in zip(windows, by_window, strict=True):
            note(FiredWindow(name, window.start_timestamp, window.end_timestamp, len(window), rows, window))
        return given

    return execute_all


class NotedAggregates(BoundAggregates):
    """What an AggregateBolt computes, which also notes the windows that it was computed for."""

    @staticmethod
    def of(aggregates: BoundAggregates, name: str, note: Callable[[FiredWindow], None]) -> NotedAggregates:
        """The same aggregates, noted."""
        noted = NotedAggregates(aggregates.by, aggregates.aggregates, aggregates.schema)
        noted.__dict__.update(name=name, note=note)
        return noted

    def result(self, keys: Any, states: list[State], cells: Cells) -> pa.Table:  # type: ignore[override]
        """The rows of the result, which come window by window."""
        found = super().result(keys, states, cells)
        spans = np.stack([cells.starts, cells.ends], axis=1)
        edges = np.flatnonzero((spans[1:] != spans[:-1]).any(axis=1)) + 1
        bounds = [0, *edges.tolist(), len(spans)] if len(spans) else []
        for low, high in pairwise(bounds):
            rows = found.slice(low, high - low).to_pylist()
            start, end = spans[low].tolist()
            size = int(cells.events[low:high].sum())
            self.__dict__["note"](FiredWindow(self.__dict__["name"], start, end, size, {DEFAULT_STREAM: rows}))
        return found


def _number(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
