"""Records of a task about the events it handles: counts, latest times, traces, and messages about bad input."""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from manager.keyed.run_sums import FiredSums
from manager.slices import WindowResults
from manager.storage.segments import SegmentWriter
from topologies.engine.task_data import InputProgress, Recorded, RejectedEvent
from topologies.graph.graph import ID, Graph, WindowedNode, shift_time
from windowing.aggregates.accumulators import State
from windowing.errors import DataError
from windowing.settings.panes import Pane, Timing
from windowing.settings.triggers import CountTrigger, FiredBy, RuleTrigger
from windowing.timestamps import FOREVER
from windowing.window import TupleWindow

if TYPE_CHECKING:
    from numpy.typing import NDArray


# Samples of the trace contexts of events in fired windows, from a column named ``traceparent``.


TRACEPARENT = "traceparent"
"""Name of the column, like the header of W3C's Trace Context and the field of CloudEvents."""

MOST_CONTEXTS, MOST_ENDS = 5, 100
"""Limits for one task and batch: contexts for each end of windows, and sampled ends."""


class TraceContexts:
    """The samples of one bolt in one task."""

    def __init__(self) -> None:
        self.by_window_end: dict[int, tuple[str, ...]] = {}
        """The samples by the end of their windows, in microseconds."""

    def sample_window(self, window: TupleWindow) -> None:
        """Takes samples of a window, if it is the first with its end; reads only the sampled rows."""
        end = window.end_timestamp
        if end in self.by_window_end or len(self.by_window_end) >= MOST_ENDS or not len(window):
            return
        chosen = np.unique(np.linspace(0, len(window) - 1, MOST_CONTEXTS).astype(np.int64))
        members = np.asarray(window.members)[chosen]
        found = window.source.table(members).column(TRACEPARENT).to_pylist()
        self.by_window_end[end] = tuple(dict.fromkeys(filter(None, found)))


def carries_contexts(schema: pa.Schema) -> bool:
    """True if events with these columns may have trace contexts."""
    index = schema.get_field_index(TRACEPARENT)
    return index >= 0 and bool(pa.types.is_string(schema.field(index).type))


def merge_trace_samples(
    one: Mapping[int, Sequence[str]], other: Mapping[int, Sequence[str]]
) -> dict[int, tuple[str, ...]]:
    """Returns the combined samples of two sets of tasks."""
    return {
        end: tuple(dict.fromkeys([*one.get(end, ()), *other.get(end, ())]))[:MOST_CONTEXTS] for end in {**one, **other}
    }


# Traces of a run, by the ids of events: fired windows, decisions about events, and late events.


_IDS = pa.list_(pa.string())
TRACES = {
    "windows": pa.schema(
        [
            ("bolt", pa.string()),
            ("batch", pa.int64()),
            ("due", pa.int64()),
            ("by_clock", pa.bool_()),
            ("task", pa.int64()),
            ("start", pa.int64()),
            ("end", pa.int64()),
            ("events", _IDS),
            ("new", _IDS),
            ("expired", _IDS),
            ("key", pa.string()),
            ("kind", pa.int64()),
            ("pane", pa.string()),
            ("by", pa.string()),
        ]
    ),
    "late": pa.schema([("bolt", pa.string()), ("event", pa.string())]),
    "invalid": pa.schema([("bolt", pa.string()), ("row", pa.int64()), ("reason", pa.string())]),
    "refused": pa.schema([("bolt", pa.string()), ("event", pa.string()), ("reason", pa.string())]),
    "events": pa.schema(
        [
            ("bolt", pa.string()),
            ("seq", pa.int64()),
            ("event", pa.string()),
            ("time", pa.int64()),
            ("decision", pa.string()),
            ("watermark", pa.int64()),
            ("mark", pa.int64()),
        ]
    ),
    "decisions": pa.schema(
        [
            ("bolt", pa.string()),
            ("input", pa.string()),
            ("seq", pa.int64()),
            ("row", pa.int64()),
            ("event", pa.string()),
            ("time", pa.int64()),
            ("assigned", pa.int64()),
            ("decision", pa.string()),
            ("mark", pa.int64()),
            ("reason", pa.string()),
        ]
    ),
}


def event_ids(table: pa.Table) -> list[str | None]:
    """Returns the id of each event; None for events without an id, and for all events of a stream without an id
    column."""
    if ID not in table.column_names:
        return [None] * table.num_rows
    return [_id_or_none(name) for name in table.column(ID).to_pylist()]


def _id_or_none(name: object) -> str | None:
    return None if name is None else str(name)


def due_at(node: WindowedNode, window: TupleWindow) -> int:
    """Returns the watermark (in processing time, the clock) from which a fired window was due, in microseconds. FOREVER
    for a window that fired only because its batch or the streams ended."""
    settings, pane = node.bolt.settings, window.pane
    if window.fired_by in (FiredBy.CLOSE, FiredBy.ARRIVAL) or (pane is not None and pane.timing is Timing.EARLY):
        return FOREVER
    if window.fired_by is not None and not node.by_policies:
        trigger = settings.key_trigger
        after_last = isinstance(trigger, CountTrigger | RuleTrigger) and not trigger.from_first
        return shift_time(window.end_timestamp, int(window.fired_by is FiredBy.TIMEOUT and after_last))
    waits = node.event_time and (pane is None or pane.last)
    allowed = settings.allowed_lateness.micros if waits else 0
    if node.by_policies:
        return node.due_at(window.end_timestamp)
    return shift_time(window.end_timestamp, allowed + (node.closes_after_end if node.without_queue else node.due_at(0)))


def window_row(node: WindowedNode, batch: int, window: TupleWindow) -> dict[str, Any]:
    """Returns the trace row of a window that has fired in a batch."""
    expired = event_ids(window.expired) if window.knows_expired else None
    return _window_row(node, batch, window, event_ids(window.table), event_ids(window.new), expired)


def fired_rows(node: WindowedNode, batch: int, fired: FiredSums) -> Iterator[dict[str, Any]]:
    """Yields trace rows of windows whose results are joined from rows of sums. Without ids their events are unknown."""
    assert fired.tuple_windows is not None
    if fired.sums.trace_index is None:
        yield from (_window_row(node, batch, window, None, None, None) for window in fired.tuple_windows)
        return
    for window, (state, new_flags) in zip(fired.tuple_windows, fired.traced_by_window(), strict=True):
        events_of_rows = list(_traced_events(state))
        new = [events for events, is_new in zip(events_of_rows, new_flags.tolist(), strict=True) if is_new]
        yield _window_row(node, batch, window, _ids_in_order(events_of_rows), _ids_in_order(new), None)


def _ids_in_order(events_of_rows: Sequence[Sequence[tuple[int, str | None]]]) -> list[str | None]:
    """Returns the ids of the events of rows, by time, then by arrival."""
    return [name for _, name in sorted(chain.from_iterable(events_of_rows), key=itemgetter(0))]


def _window_row(
    node: WindowedNode,
    batch: int,
    window: TupleWindow,
    events: list[str | None] | None,
    new: list[str | None] | None,
    expired: list[str | None] | None,
) -> dict[str, Any]:
    pane = window.pane
    return {
        "bolt": node.name,
        "batch": batch,
        "due": due_at(node, window),
        "by_clock": not node.event_time,
        "task": window.task,
        "start": window.start_timestamp,
        "end": window.end_timestamp,
        "events": events,
        "new": new,
        "expired": expired,
        "key": None if window.key is None else json.dumps(window.key, default=str),
        "kind": window.kind,
        "pane": None if pane is None else _pane_as_json(pane),
        "by": window.fired_by,
    }


def joined_rows(
    node: WindowedNode, batch: int, windows: Sequence[TupleWindow], joined: WindowResults
) -> Iterator[dict[str, Any]]:
    """Yields trace rows of windows that are joined from partial sums; their ``new`` and ``expired`` are unknown.

    Events of equal time and different keys are in order of the key. Without ids both events and their number are
    unknown.
    """
    events: dict[int, list[tuple[int, str | None]]] = {index: [] for index in np.unique(joined.windows).tolist()}
    for index, row_events in zip(joined.windows.tolist(), _traced_events(joined.traced_states), strict=False):
        events[index].extend(row_events)
    for index, row_events in events.items():
        window = windows[index]
        yield {
            "bolt": node.name, "batch": batch, "due": due_at(node, window), "by_clock": not node.event_time,
            "task": window.task, "start": window.start_timestamp, "end": window.end_timestamp,
            "events": [name for _, name in sorted(row_events, key=itemgetter(0))] if joined.traced_states else None,
            "new": None, "expired": None, "key": None, "kind": None, "pane": None, "by": None,
        }  # fmt: skip


def ids_of(trace_state: State) -> pa.Table:
    """Returns the ids of the events in folded rows, as the table of event ids; ``trace_state``: the tracing state of
    the rows."""
    ids = [name for row_events in _traced_events(trace_state) for _, name in row_events]
    return pa.table({ID: pa.array(ids, pa.string())})


def _traced_events(state: State | None) -> Iterator[list[tuple[int, str | None]]]:
    """Yields, for each row, (time, id) of its events, in order."""
    times, names = state or ([], [])
    for row_times, row_ids in zip(times, names, strict=True):
        yield list(zip(row_times.as_py(), map(_id_or_none, row_ids.as_py()), strict=True))


def _pane_as_json(pane: Pane) -> str:
    return json.dumps({"index": pane.index, "timing": pane.timing.value, "last": pane.last})


# The records of a task about the events it handles: counts, latest times, traces, and messages about bad input.


_MOST_MESSAGES = 5
"""Most unreadable rows in the log, for each task and batch; all of them are on the error streams."""
MOST_SAMPLES = 5
"""Most rejected events that are recorded, for each bolt, task and batch; the last are kept."""


class Ledger:
    """The records of one task in one batch."""

    def __init__(self, topology: Graph, *, tracing: bool, samples: bool = False) -> None:
        self.tracing = tracing
        """True if tracing is on."""
        self.samples = samples
        """True if rejected events are sampled."""
        self._rejected_events: dict[str, deque[RejectedEvent]] = {}
        self._stop_on_invalid = topology.stop_on_invalid
        self._counts: dict[str, dict[str, NDArray[np.int64]]] = {}
        self._inputs: dict[str, dict[str, InputProgress]] = {}
        self._traces: dict[str, list[dict[str, Any]]] = {}
        self._window_ends: dict[str, Counter[int]] = {}
        self._trace_contexts: dict[str, Mapping[int, Sequence[str]]] = {}
        self._complaints: list[str] = []

    def count(self, node: WindowedNode, input_index: int, account: str, rows: int) -> None:
        """Adds a number of events of an input to an account."""
        self._counts_by_input(node, account)[input_index] += rows

    def count_all(
        self, node: WindowedNode, account: str, inputs: NDArray[np.int8] | int, rows: int, copies: int = 1
    ) -> None:
        """Adds a number of events to an account, times ``copies``; ``inputs``: the input index of each event, or of
        all."""
        if not rows:
            return
        if isinstance(inputs, int):
            self.count(node, inputs, account, rows * copies)
        else:
            self._counts_by_input(node, account)[:] += copies * np.bincount(inputs, minlength=len(node.inputs))

    def count_chosen(
        self,
        node: WindowedNode,
        account: str,
        inputs: NDArray[np.int8] | int,
        chosen: NDArray[np.bool_],
        copies: int = 1,
    ) -> None:
        """Adds the chosen events to an account, times ``copies``; ``inputs``: the input index of each event, or of
        all."""
        if chosen.any():
            chosen_inputs = inputs if isinstance(inputs, int) else inputs[chosen]
            self.count_all(node, account, chosen_inputs, int(np.count_nonzero(chosen)), copies)

    def count_by_stream(self, node: WindowedNode, counts: Mapping[str, NDArray[np.int64]]) -> None:
        """Adds counts, by input, to accounts."""
        for account, by_stream in counts.items():
            self._counts_by_input(node, account)[:] += by_stream

    def note_progress(self, node: WindowedNode, input_index: int, progress: InputProgress) -> None:
        """Records how far the events of an input have advanced time."""
        inputs, stream = self._inputs.setdefault(node.name, {}), node.streams[input_index]
        inputs[stream] = progress.merge(inputs.get(stream, InputProgress()))

    def note_window_ends(self, node: WindowedNode, ends: Iterable[int]) -> None:
        """Records the ends, in microseconds, of fired windows."""
        self._window_ends.setdefault(node.name, Counter()).update(ends)

    def note_trace_contexts(self, node: WindowedNode, by_window_end: Mapping[int, Sequence[str]]) -> None:
        """Records samples of trace contexts, by the end of their windows in microseconds."""
        self._trace_contexts[node.name] = merge_trace_samples(self._trace_contexts.get(node.name, {}), by_window_end)

    def trace(self, kind: str, row: dict[str, Any]) -> None:
        """Adds a trace row, if tracing is on."""
        if self.tracing:
            self._traces.setdefault(kind, []).append(row)

    def sample(self, event: RejectedEvent) -> None:
        """Records a rejected event; only the last few are kept."""
        self._rejected_events.setdefault(event.bolt, deque(maxlen=MOST_SAMPLES)).append(event)

    def note_unreadable(self, component: str, source: str, reason: str) -> None:
        """Records a message about bad input. Raises DataError if the topology stops on invalid input."""
        text = f"{component}: {source}: {reason}"
        if self._stop_on_invalid:
            raise DataError(
                text,
                why="the topology stops on input that cannot be read (on_invalid='stop')",
                do="fix the input, or let it go to the error stream (on_invalid='divert')",
            )
        if len(self._complaints) < _MOST_MESSAGES:
            self._complaints.append(text)

    def write(self, writer: SegmentWriter) -> Recorded:
        """Writes the traces; returns all records."""
        return Recorded(
            counts={
                bolt: {account: counts.tolist() for account, counts in accounts.items()}
                for bolt, accounts in self._counts.items()
            },
            inputs=self._inputs,
            trace_refs=[
                (name, writer.add(pa.Table.from_pylist(rows, schema=TRACES[name])))
                for name, rows in self._traces.items()
            ],
            window_ends=self._window_ends,
            trace_contexts=self._trace_contexts,
            complaints=self._complaints,
            rejected_events=[event for events in self._rejected_events.values() for event in events],
        )

    def _counts_by_input(self, node: WindowedNode, account: str) -> NDArray[np.int64]:
        """Returns the counts of an account, one for each input."""
        return self._counts.setdefault(node.name, {}).setdefault(account, np.zeros(len(node.inputs), np.int64))
