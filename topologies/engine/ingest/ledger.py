"""What a task notes of the events that it meets: counts, latest times, traces, and some of what is wrong."""

from __future__ import annotations

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
    """The notes of one task in one batch."""

    def __init__(self, topology: Topology, *, traced: bool) -> None:
        self.traced = traced
        """Whether somebody watches the run."""
        self._stop_on_invalid = topology.stop_on_invalid
        self._counts: dict[str, dict[str, NDArray[np.int64]]] = {}
        self._latest: dict[str, dict[str, int]] = {}
        self._skew: dict[str, dict[str, int]] = {}
        self._heard: dict[str, int] = {}
        self._began: dict[str, int] = {}
        self._arrivals: dict[str, int] = {}
        self._traces: dict[str, list[dict[str, Any]]] = {}
        self._complaints: list[str] = []

    def count(self, node: WindowedNode, input_index: int, account: str, rows: int) -> None:
        """Put so many events of input ``at`` into an account."""
        self._counter(node, account)[input_index] += rows

    def count_chosen(
        self, node: WindowedNode, account: str, inputs: NDArray[np.int8], chosen: NDArray[np.bool_]
    ) -> None:
        """Put those of some events that are chosen into an account; ``inputs``: the input of each."""
        if chosen.any():
            self._counter(node, account)[:] += np.bincount(inputs[chosen], minlength=len(node.inputs))

    def latest(self, node: WindowedNode, input_index: int, time: int) -> None:
        """Input ``at`` has had an event of this time."""
        _raise(self._latest, node, input_index, time)

    def skew(self, node: WindowedNode, input_index: int, micros: int) -> None:
        """An event of input ``at`` was given a time so much behind the one it came with."""
        _raise(self._skew, node, input_index, micros)

    def heard(self, node: WindowedNode, clock: int, arrived: int | None) -> None:
        """Events have come, by this clock; the latest time of arrival among them, where they have any."""
        self._heard[node.name] = clock
        self._began.setdefault(node.name, clock)
        if arrived is not None:
            self._arrivals[node.name] = max(arrived, self._arrivals.get(node.name, arrived))

    def trace(self, kind: str, row: dict[str, Any]) -> None:
        """Note something for whoever watches the run, if somebody does."""
        if self.traced:
            self._traces.setdefault(kind, []).append(row)

    def complain(self, component: str, source: str, reason: str) -> None:
        """Something of the input is wrong; raises DataError where the topology stops on that."""
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
        """Hand all notes over."""
        output.counts = {
            bolt: {account: counts.tolist() for account, counts in accounts.items()}
            for bolt, accounts in self._counts.items()
        }
        output.arrivals, output.heard, output.began = self._arrivals, self._heard, self._began
        output.latest, output.skew, output.complaints = self._latest, self._skew, self._complaints
        for name, rows in self._traces.items():
            output.traced.append((name, writer.add(pa.Table.from_pylist(rows, schema=TRACES[name]))))

    def _counter(self, node: WindowedNode, account: str) -> NDArray[np.int64]:
        """The counts of an account, one for each input."""
        return self._counts.setdefault(node.name, {}).setdefault(account, np.zeros(len(node.inputs), np.int64))


def _raise(greatest: dict[str, dict[str, int]], node: WindowedNode, input_index: int, value: int) -> None:
    """Keep the greatest value of a stream."""
    label, seen = node.streams[input_index], greatest.setdefault(node.name, {})
    seen[label] = max(value, seen.get(label, value))
