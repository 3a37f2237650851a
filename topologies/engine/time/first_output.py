"""The first output of a run: which input a run that starts at it reads, and which windows it suppresses (AZ-13)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from topologies.engine.time.read_times import read_times
from topologies.graph.nodes.windowed import WindowedNode
from topologies.graph.side_streams import ERRORS
from topologies.io.times import parse_time
from topologies.topology import Topology
from windowing.data.returned_rows import DEFAULT_STREAM
from windowing.errors import ConfigError, ScenarioError
from windowing.time.timestamps import from_column

if TYPE_CHECKING:
    from numpy.typing import NDArray


def as_moment(given: datetime | str) -> int:
    """A time given by a user, in microseconds since the epoch. Raises ConfigError, with the accepted forms, for
    anything else."""
    try:
        if isinstance(given, (datetime, str)):
            return parse_time(given)
    except ScenarioError:
        pass
    raise ConfigError(
        f"the first output {given!r} is not a time",
        why="it is a moment with a precision of microseconds",
        do="write it in ISO 8601, such as 2024-01-01T12:10:00Z (without a zone it is UTC), or give a datetime",
    ) from None


def read_from(topology: Topology, first_output: int) -> int | None:
    """Time in microseconds from which input is needed; None where all input is.

    It is the first output minus the longest window, minus how early an event may be, since it may have arrived that
    long before its time. A source that can seek to a time starts there.
    """
    needed = [_reach(topology.windowed[name]) for name in {name for name, _ in _first_inputs(topology)}]
    known = [reach for reach in needed if reach is not None]
    return None if len(known) < len(needed) else first_output - max(known, default=0)


@dataclass(frozen=True)
class FirstOutput:
    """The first output of a run; times in microseconds. It concerns the bolts that read spouts."""

    time: int
    """Windows that end before this time are not emitted."""
    read_from: int | None
    """Events from before this time are skipped; None where none is."""
    inputs: frozenset[tuple[str, int]]
    """The (bolt, input index) that spouts reach before any window."""

    @staticmethod
    def of(topology: Topology, time: int | None) -> FirstOutput | None:
        """The first output at ``time`` for this topology; None where ``time`` is None."""
        return None if time is None else FirstOutput(time, read_from(topology, time), _first_inputs(topology))

    @cached_property
    def _bolts(self) -> frozenset[str]:
        return frozenset(name for name, _ in self.inputs)

    def is_after(self, bolt: str, end: int) -> bool:
        """Whether a window of a bolt that ends at ``end`` (microseconds) is to be suppressed."""
        return end < self.time and bolt in self._bolts

    def older(self, node: WindowedNode, input_index: int, table: pa.Table, clock: int) -> NDArray[np.bool_]:
        """Which events are older than ``read_from``, by their arrival time where they have one, else by their event
        time.

        Events with unreadable times are not older: they are reported on admission.
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
            older &= (
                table.column(settings.watermark_field).is_null().to_numpy()
            )  # rows with a value are watermarks, not events
        return older

    def skips(self, topology: Topology, spout: str, shared: pa.Table, clock: int) -> bool:
        """True if all rows of a file are older than ``read_from``, by columns in which they are all alike.

        ``shared`` holds these, in one row. The bolts that read the spout then take their times from one of them, and
        nothing else reads it, nor its rows that cannot be read.
        """
        stream, errors = (spout, DEFAULT_STREAM), (spout, ERRORS)
        readers = topology.readers.get(stream, ())
        if not readers or topology.takers.get(stream) or topology.readers.get(errors) or topology.takers.get(errors):
            return False
        for name, input_index in readers:
            node = topology.windowed.get(name)
            if node is None or node.bolt.settings.timestamp_field not in shared.column_names:
                return False
            arrival, watermark = node.bolt.settings.arrival, node.bolt.settings.watermark_field
            if watermark is not None or (arrival is not None and arrival.field is not None):
                return False
            if not self.older(node, input_index, shared, clock).all():
                return False
        return True


def _first_inputs(topology: Topology) -> frozenset[tuple[str, int]]:
    reached: set[tuple[str, int]] = set()
    waiting = list(topology.spouts)
    while waiting:
        source = waiting.pop()
        for (name, _), readers in topology.readers.items():
            for bolt, input_index in readers if name == source else ():
                if bolt in topology.plain and (bolt, input_index) not in reached:
                    waiting.append(bolt)
                reached.add((bolt, input_index))
    return frozenset((bolt, input_index) for bolt, input_index in reached if bolt in topology.windowed)


def _reach(node: WindowedNode) -> int | None:
    """How long before an output of a bolt, in microseconds, its events may have arrived; None where that is
    unlimited."""
    settings = node.bolt.settings
    if settings.lifetime is not None:
        return None  # a lifetime that began long ago may reach into the window
    if node.by_policies:
        return None  # their state and the numbers of events go back to the first one
    early = settings.arrival.early if settings.arrival is not None and node.event_time else None
    if node.assigners:
        lengths = [assigner.looks_back for assigner in node.assigners]
    else:
        lengths = [None if node.eviction.reach is None else node.eviction.reach.micros]
    known = [length for length in lengths if length is not None]
    return None if len(known) < len(lengths) else max(known) + (0 if early is None else early.micros)
