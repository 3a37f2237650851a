"""Samples of the trace contexts that the events of fired windows carry, in a column named ``traceparent``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from windowing.window import TupleWindow

TRACEPARENT = "traceparent"
"""The column: as W3C's Trace Context names the header, and CloudEvents the field."""

MOST_CONTEXTS, MOST_ENDS = 5, 100
"""Contexts of one end of windows; and ends that are looked at, in one task and batch."""


class TraceContexts:
    """The samples of one bolt in one task."""

    def __init__(self) -> None:
        self.of_ends: dict[int, tuple[str, ...]] = {}
        """By the end of windows, in microseconds."""

    def look_at(self, window: TupleWindow) -> None:
        """Take samples of a window, if it is the first one with its end; only the rows of the samples are read."""
        end = window.end_timestamp
        if end in self.of_ends or len(self.of_ends) >= MOST_ENDS or not len(window):
            return
        chosen = np.unique(np.linspace(0, len(window) - 1, MOST_CONTEXTS).astype(np.int64))
        members = np.asarray(window.members)[chosen]
        found = window.source.table(members).column(TRACEPARENT).to_pylist()
        self.of_ends[end] = tuple(dict.fromkeys(filter(None, found)))


def carries_contexts(schema: pa.Schema) -> bool:
    """Whether events of these columns may carry trace contexts."""
    index = schema.get_field_index(TRACEPARENT)
    return index >= 0 and bool(pa.types.is_string(schema.field(index).type))


def merged(one: Mapping[int, Sequence[str]], other: Mapping[int, Sequence[str]]) -> dict[int, tuple[str, ...]]:
    """The samples of several tasks."""
    return {
        end: tuple(dict.fromkeys([*one.get(end, ()), *other.get(end, ())]))[:MOST_CONTEXTS] for end in {**one, **other}
    }
