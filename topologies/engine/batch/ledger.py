"""What one task records about the events it handles: counts, latest times, traces, and some messages about bad
input."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from manager.storage.segments import SegmentWriter
from topologies.engine.batch.plan import Output
from topologies.engine.batch.trace import TRACES
from topologies.graph.model import Topology, WindowedNode
from windowing.errors import DataError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_COMPLAINTS = 5
"""Maximum number of unreadable rows shown in the log, per task and batch; all are on the error streams."""


class Ledger:
    """The records of one task in one batch."""

    def __init__(self, topology: Topology, *, traced: bool) -> None:
        self.traced = traced
        """Whether tracing is on."""
        self._stop_on_invalid = topology.stop_on_invalid
        self._counts: dict[str, dict[str, NDArray[np.int64]]] = {}
        self._latest: dict[str, dict[str, int]] = {}
        self._skew: dict[str, dict[str, int]] = {}
        self._last_clock: dict[str, int] = {}
        self._first_clock: dict[str, int] = {}
        self._arrivals: dict[str, int] = {}
        self._traces: dict[str, list[dict[str, Any]]] = {}
        self._complaints: list[str] = []

    def count(self, node: WindowedNode, input_index: int, account: str, rows: int) -> None:
        """Add a number of events of an input to an account."""
        self._counter(node, account)[input_index] += rows

    def count_chosen(
        self,
        node: WindowedNode,
        account: str,
        inputs: NDArray[np.int8] | int,
        chosen: NDArray[np.bool_],
        times: int = 1,
    ) -> None:
        """Add the chosen events to an account, each so many times; ``inputs`` is the input index of each event, or of
        all."""
        if not chosen.any():
            return
        if isinstance(inputs, int):
            self.count(node, inputs, account, int(np.count_nonzero(chosen)) * times)
        else:
            self._counter(node, account)[:] += times * np.bincount(inputs[chosen], minlength=len(node.inputs))

    def count_by_stream(self, node: WindowedNode, counts: Mapping[str, NDArray[np.int64]]) -> None:
        """Add counts, by input, to accounts."""
        for account, by_stream in counts.items():
            self._counter(node, account)[:] += by_stream

    def latest(self, node: WindowedNode, input_index: int, time: int) -> None:
        """Record the time, in microseconds, of an event of an input."""
        _raise(self._latest, node, input_index, time)

    def skew(self, node: WindowedNode, input_index: int, micros: int) -> None:
        """Record by how many microseconds an event's time here lies behind the time it came with."""
        _raise(self._skew, node, input_index, micros)

    def note_arrivals(self, node: WindowedNode, clock: int, arrived: int | None) -> None:
        """Record that events came at this clock, and the latest of their arrival times, None where they have none."""
        self._last_clock[node.name] = clock
        self._first_clock.setdefault(node.name, clock)
        if arrived is not None:
            self._arrivals[node.name] = max(arrived, self._arrivals.get(node.name, arrived))

    def trace(self, kind: str, row: dict[str, Any]) -> None:
        """Add a trace row, if tracing is on."""
        if self.traced:
            self._traces.setdefault(kind, []).append(row)

    def complain(self, component: str, source: str, reason: str) -> None:
        """Record a message about bad input. Raises DataError where the topology stops on invalid input."""
        text = f"{component}: {source}: {reason}"
        if self._stop_on_invalid:
            raise DataError(
                text,
                why="the topology stops on input that cannot be read (on_invalid='stop')",
                do="fix the input, or let it go to the error stream (on_invalid='divert')",
            )
        if len(self._complaints) < _COMPLAINTS:
            self._complaints.append(text)

    def write(self, output: Output, writer: SegmentWriter) -> None:
        """Move all records to the output of the task."""
        output.counts = {
            bolt: {account: counts.tolist() for account, counts in accounts.items()}
            for bolt, accounts in self._counts.items()
        }
        output.arrivals, output.last_clock, output.first_clock = self._arrivals, self._last_clock, self._first_clock
        output.latest, output.skew, output.complaints = self._latest, self._skew, self._complaints
        for name, rows in self._traces.items():
            output.traced.append((name, writer.add(pa.Table.from_pylist(rows, schema=TRACES[name]))))

    def _counter(self, node: WindowedNode, account: str) -> NDArray[np.int64]:
        """The counts of an account, one per input."""
        return self._counts.setdefault(node.name, {}).setdefault(account, np.zeros(len(node.inputs), np.int64))


def _raise(greatest: dict[str, dict[str, int]], node: WindowedNode, input_index: int, value: int) -> None:
    """Update the value of a stream to the greater of itself and the given one."""
    label, seen = node.streams[input_index], greatest.setdefault(node.name, {})
    seen[label] = max(value, seen.get(label, value))
