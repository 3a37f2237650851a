"""Retractions: a window that fires again emits the rows of its last firing once more, marked as retracted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from topologies.graph.inner_columns import RETRACTED
from topologies.graph.nodes.windowed import WindowedNode
from windowing.data.returned_rows import Loose, from_rows
from windowing.settings.panes import RETRACT
from windowing.window import Ident, TupleWindow

if TYPE_CHECKING:
    from manager.storage.segments.ref import Ref
    from manager.storage.segments.segments import SegmentStore, SegmentWriter


@dataclass
class _Shown:
    """The rows that a window emitted when it last fired."""

    start: int
    end: int
    rows: dict[str, pa.Table]


class Retractions:
    """Remembers the rows that each open window of a task last emitted."""

    def __init__(self, node: WindowedNode, shown: Mapping[str, Ref], store: SegmentStore) -> None:
        """``shown`` are the rows of earlier batches, by output stream, as ``save`` wrote them."""
        self.schemas = node.bolt.output_schemas()
        self._shown: dict[tuple[int, int], list[_Shown]] = {}
        for stream, ref in shown.items():
            self._load(stream, store.read(ref))

    def rows(
        self, window: TupleWindow, emitted: Iterable[tuple[str, pa.Table | Loose]]
    ) -> Iterator[tuple[str, pa.Table]]:
        """Yield (stream, rows) of a firing: first the retracted rows, then the new rows of the window."""
        assert window.ident is not None
        kind, key, start, end = window.ident
        known = self._shown.setdefault((kind, key), [])
        superseded = [shown for shown in known if start <= shown.start and shown.end <= end]
        for shown in superseded:
            known.remove(shown)
            for stream, table in shown.rows.items():
                yield stream, _marked(table, retract=True)
        emitted_now: dict[str, list[pa.Table]] = {}
        for stream, emission in emitted:
            table = from_rows(emission, self.schemas[stream]) if isinstance(emission, list) else emission
            emitted_now.setdefault(stream, []).append(table)
            yield stream, _marked(table, retract=False)
        if window.pane is not None and not window.pane.last and emitted_now:
            known.append(_Shown(start, end, {stream: pa.concat_tables(parts) for stream, parts in emitted_now.items()}))

    def save(self, writer: SegmentWriter, closed_until: int) -> dict[str, Ref]:
        """Write the rows of windows that end after ``closed_until`` (microseconds); return their references by output
        stream."""
        parts: dict[str, list[pa.Table]] = {}
        for (kind, key), windows in self._shown.items():
            for shown in windows:
                if shown.end <= closed_until:
                    continue
                for stream, table in shown.rows.items():
                    parts.setdefault(stream, []).append(_with_ident(table, (kind, key, shown.start, shown.end)))
        return {stream: writer.add(pa.concat_tables(tables)) for stream, tables in parts.items()}

    def _load(self, stream: str, table: pa.Table) -> None:
        idents = np.stack([table.column(name).to_numpy() for name in RETRACTED], axis=1)
        rows = table.drop_columns(list(RETRACTED))
        steps = np.flatnonzero((idents[1:] != idents[:-1]).any(axis=1)) + 1
        edges = [0, *steps.tolist(), table.num_rows]
        for low, high in pairwise(edges):
            if low == high:
                continue
            kind, key, start, end = idents[low].tolist()
            known = self._shown.setdefault((kind, key), [])
            same = next((shown for shown in known if (shown.start, shown.end) == (start, end)), None)
            if same is None:
                same = _Shown(start, end, {})
                known.append(same)
            same.rows[stream] = rows.slice(low, high - low)


def _marked(table: pa.Table, *, retract: bool) -> pa.Table:
    return table.append_column(RETRACT, pa.array(np.full(table.num_rows, retract)))


def _with_ident(table: pa.Table, ident: Ident) -> pa.Table:
    for name, value in zip(RETRACTED, ident, strict=True):
        table = table.append_column(name, pa.array(np.full(table.num_rows, value, np.int64)))
    return table
