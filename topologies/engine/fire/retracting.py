"""Retractions: a window that fires again emits the rows of its last firing once more, marked as retracted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from manager.keyed.pane_states import PaneStates
from topologies.graph.inner_columns import RETRACTED
from topologies.graph.nodes.windowed import WindowedNode
from windowing.data.returned_rows import Loose, from_rows
from windowing.settings.panes import RETRACT
from windowing.window import Ident, TupleWindow

if TYPE_CHECKING:
    from manager.storage.segments.ref import Ref
    from manager.storage.segments.segments import SegmentStore, SegmentWriter


Span = tuple[int, int]
"""Start and end of a window."""


class Retractions:
    """Remembers the rows that each open window of a task last emitted."""

    def __init__(self, node: WindowedNode, shown: Mapping[str, Ref], store: SegmentStore) -> None:
        """``shown`` are the rows of earlier batches, by output stream, as ``save`` wrote them."""
        self.schemas = node.bolt.output_schemas()
        self._merging = [assigner.merges for assigner in node.assigners]
        self._shown = defaultdict[tuple[int, int], dict[Span, dict[str, pa.Table]]](dict)
        """By kind and key, and by window: the rows that it emitted when it last fired, by output stream."""
        for stream, ref in shown.items():
            self._load(stream, store.read(ref))

    def rows(
        self, window: TupleWindow, emitted: Iterable[tuple[str, pa.Table | Loose]]
    ) -> Iterator[tuple[str, pa.Table]]:
        """Yield (stream, rows) of a firing: first the retracted rows, then the new rows of the window."""
        assert window.ident is not None
        kind, key, start, end = window.ident
        known = self._shown[kind, key]
        for superseded in self._superseded(kind, known, start, end):
            for stream, table in known.pop(superseded).items():
                yield stream, _marked(table, retract=True)
        emitted_now: dict[str, list[pa.Table]] = {}
        for stream, emission in emitted:
            table = from_rows(emission, self.schemas[stream]) if isinstance(emission, list) else emission
            emitted_now.setdefault(stream, []).append(table)
            yield stream, _marked(table, retract=False)
        if window.pane is not None and not window.pane.last and emitted_now:
            known[start, end] = {stream: pa.concat_tables(parts) for stream, parts in emitted_now.items()}

    def keep(self, windows: PaneStates) -> None:
        """Forget the rows of all but these windows, which are open after an evaluation.

        That is done before another window can come near one that has closed. Until then each window that has fired is
        an open one of its key, a part of one, or has been cut into several.
        """
        before, self._shown = self._shown, defaultdict(dict)
        keys = np.array(list({key for _, key in before}), np.int64)
        columns = np.stack([windows.kind, windows.key, windows.start, windows.end], axis=1)
        for kind, key, start, end in columns[np.isin(windows.key, keys)].tolist():
            if (kind, key) in before:
                known = before[kind, key]
                for span in self._superseded(kind, known, start, end):
                    self._shown[kind, key][span] = known[span]

    def save(self, writer: SegmentWriter) -> dict[str, Ref]:
        """Write the rows; return their references by output stream."""
        parts: dict[str, list[pa.Table]] = {}
        for (kind, key), windows in self._shown.items():
            for (start, end), rows in windows.items():
                for stream, table in rows.items():
                    parts.setdefault(stream, []).append(_with_ident(table, (kind, key, start, end)))
        return {stream: writer.add(pa.concat_tables(tables)) for stream, tables in parts.items()}

    def _superseded(self, kind: int, known: Mapping[Span, object], start: int, end: int) -> list[Span]:
        """Which of the windows of a key this one now is, holds, or is a part of."""
        if not self._merging[kind]:
            return [(start, end)] if (start, end) in known else []
        return [span for span in known if span[0] < end and start < span[1]]  # those of a key do not overlap otherwise

    def _load(self, stream: str, table: pa.Table) -> None:
        idents = np.stack([table.column(name).to_numpy() for name in RETRACTED], axis=1)
        rows = table.drop_columns(list(RETRACTED))
        steps = np.flatnonzero((idents[1:] != idents[:-1]).any(axis=1)) + 1
        for low, high in pairwise([0, *steps.tolist(), table.num_rows]):
            if low < high:
                kind, key, start, end = idents[low].tolist()
                self._shown[kind, key].setdefault((start, end), {})[stream] = rows.slice(low, high - low)


def _marked(table: pa.Table, *, retract: bool) -> pa.Table:
    return table.append_column(RETRACT, pa.array(np.full(table.num_rows, retract)))


def _with_ident(table: pa.Table, ident: Ident) -> pa.Table:
    for name, value in zip(RETRACTED, ident, strict=True):
        table = table.append_column(name, pa.array(np.full(table.num_rows, value, np.int64)))
    return table
