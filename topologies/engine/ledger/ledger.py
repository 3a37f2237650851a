"""What one task records about the events it handles: counts, latest times, traces, and some messages about bad
input."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from manager.storage.segments.segments import SegmentWriter
from topologies.engine.ledger.trace import TRACES
from topologies.engine.ledger.trace_contexts import merged
from topologies.engine.work.input_progress import InputProgress
from topologies.engine.work.output import Recorded, TurnedAway
from topologies.graph.nodes.windowed import WindowedNode
from topologies.topology import Topology
from windowing.errors import DataError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_COMPLAINTS = 5
"""Maximum number of unreadable rows shown in the log, per task and batch; all are on the error streams."""
SAMPLED = 5
"""Maximum number of events not admitted that are recorded, per bolt, task and batch: the last ones."""


class Ledger:
    """The records of one task in one batch."""

    def __init__(self, topology: Topology, *, traced: bool, samples: bool = False) -> None:
        self.traced = traced
        """Whether tracing is on."""
        self.samples = samples
        """Whether events that are not admitted are sampled."""
        self._turned_away: dict[str, deque[TurnedAway]] = {}
        self._stop_on_invalid = topology.stop_on_invalid
        self._counts: dict[str, dict[str, NDArray[np.int64]]] = {}
        self._inputs: dict[str, dict[str, InputProgress]] = {}
        self._traces: dict[str, list[dict[str, Any]]] = {}
        self._window_ends: dict[str, Counter[int]] = {}
        self._trace_contexts: dict[str, Mapping[int, Sequence[str]]] = {}
        self._complaints: list[str] = []

    def count(self, node: WindowedNode, input_index: int, account: str, rows: int) -> None:
        """Add a number of events of an input to an account."""
        self._counter(node, account)[input_index] += rows

    def count_all(
        self, node: WindowedNode, account: str, inputs: NDArray[np.int8] | int, rows: int, times: int = 1
    ) -> None:
        """Add a number of events to an account, each so many times; ``inputs`` is the input index of each event, or of
        all."""
        if not rows:
            return
        if isinstance(inputs, int):
            self.count(node, inputs, account, rows * times)
        else:
            self._counter(node, account)[:] += times * np.bincount(inputs, minlength=len(node.inputs))

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
        if chosen.any():
            of_chosen = inputs if isinstance(inputs, int) else inputs[chosen]
            self.count_all(node, account, of_chosen, int(np.count_nonzero(chosen)), times)

    def count_by_stream(self, node: WindowedNode, counts: Mapping[str, NDArray[np.int64]]) -> None:
        """Add counts, by input, to accounts."""
        for account, by_stream in counts.items():
            self._counter(node, account)[:] += by_stream

    def see(self, node: WindowedNode, input_index: int, progress: InputProgress) -> None:
        """Record what events of an input have shown."""
        inputs, stream = self._inputs.setdefault(node.name, {}), node.streams[input_index]
        inputs[stream] = progress.merge(inputs.get(stream, InputProgress()))

    def note_window_ends(self, node: WindowedNode, ends: Iterable[int]) -> None:
        """Record the ends, in microseconds, of windows that have fired."""
        self._window_ends.setdefault(node.name, Counter()).update(ends)

    def note_trace_contexts(self, node: WindowedNode, of_ends: Mapping[int, Sequence[str]]) -> None:
        """Record samples of the trace contexts of events, by the end of their windows in microseconds."""
        self._trace_contexts[node.name] = merged(self._trace_contexts.get(node.name, {}), of_ends)

    def trace(self, kind: str, row: dict[str, Any]) -> None:
        """Add a trace row, if tracing is on."""
        if self.traced:
            self._traces.setdefault(kind, []).append(row)

    def sample(self, event: TurnedAway) -> None:
        """Record an event that was not admitted; of many only the last few."""
        self._turned_away.setdefault(event.bolt, deque(maxlen=SAMPLED)).append(event)

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

    def write(self, writer: SegmentWriter) -> Recorded:
        """Write the traces; return all records."""
        return Recorded(
            counts={
                bolt: {account: counts.tolist() for account, counts in accounts.items()}
                for bolt, accounts in self._counts.items()
            },
            inputs=self._inputs,
            traced=[
                (name, writer.add(pa.Table.from_pylist(rows, schema=TRACES[name])))
                for name, rows in self._traces.items()
            ],
            window_ends=self._window_ends,
            trace_contexts=self._trace_contexts,
            complaints=self._complaints,
            turned_away=[event for events in self._turned_away.values() for event in events],
        )

    def _counter(self, node: WindowedNode, account: str) -> NDArray[np.int64]:
        """The counts of an account, one per input."""
        return self._counts.setdefault(node.name, {}).setdefault(account, np.zeros(len(node.inputs), np.int64))
