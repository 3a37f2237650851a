"""The keys of a task whose windows fire without events too (decision 46)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from manager.keyed.empty_windows import EmptyWindows
from manager.keyed.known_keys import KnownKeys
from manager.storage.segments.ref import Ref
from manager.storage.segments.segments import SegmentStore, SegmentWriter
from manager.storage.task_state import AssignedState
from policies.assigners import GridWindows
from policies.marks import NONE
from topologies.engine.work.items import FireItem
from topologies.graph.key_codes import KeyCodes
from topologies.graph.nodes.listed_rows import ListedRows
from topologies.graph.nodes.windowed import WindowedNode
from windowing.data.schema import value_type
from windowing.time.durations import Duration
from windowing.time.timestamps import FOREVER

if TYPE_CHECKING:
    from numpy.typing import NDArray


class TaskKnownKeys:
    """The known keys of a task, and up to when their windows without events are due."""

    def __init__(
        self,
        until: Duration,
        node: WindowedNode,
        before: AssignedState,
        item: FireItem,
        store: SegmentStore,
        codes: KeyCodes,
    ) -> None:
        """``until``: how long after the last window with events a key is known."""
        self._until, self._node, self._end, self._stored = until, node, item.end, before.known
        self._known = (
            KnownKeys.none(_key_columns(node)) if before.known is None else KnownKeys(store.read(before.known))
        )
        self._listed: NDArray[np.int64] | None = None
        if node.listed is not None:
            self._add_listed(node.listed[item.task], codes)

    def _add_listed(self, rows: ListedRows, codes: KeyCodes) -> None:
        """Those of the listed keys that are not known are known from a moment on."""
        self._listed = codes.of_rows(rows.table, rows.hashes, [self.table])
        new = self._known.unknown(self._listed)
        self._known.add(self._listed[new], rows.table.take(pa.array(new)), rows.since)

    @property
    def table(self) -> pa.Table:
        """The known keys, with their codes."""
        return self._known.table()

    def __len__(self) -> int:
        """Number of known keys."""
        return len(self._known)

    def empty_windows(self, upto: int | None) -> EmptyWindows:
        """The windows without events of one evaluation, that end up to this frontier (microseconds)."""
        (grid,) = self._node.assigners
        assert isinstance(grid, GridWindows)
        limit = self._due_at_the_end(grid) if upto == FOREVER else NONE if upto is None else upto
        return EmptyWindows(grid, self._until.micros, self._known, limit, self._listed)

    def write(self, writer: SegmentWriter, *, evaluated: bool) -> Ref | None:
        """Write the keys; those that no evaluation has changed stay where they are."""
        if not evaluated:
            return self._stored
        return writer.add(self._known.table()) if len(self._known) else None

    def _due_at_the_end(self, grid: GridWindows) -> int:
        """Up to where windows without events are due at the end of the streams, in microseconds: as far as the
        watermark has closed windows, and those in which the latest event of the bolt may be."""
        end, until = self._end, NONE
        if self._node.event_time and end.watermark is not None:
            until = int(self._node.closes_until(np.array([end.watermark]))[0])
        if end.latest == NONE:
            return until
        assert grid.last_end is not None
        return max(until, int(grid.last_end(np.array([end.latest]), None)[0]))


def _key_columns(node: WindowedNode) -> pa.Schema:
    columns = [node.schema.field(name) for name in node.bolt.settings.key]
    return pa.schema([(column.name, value_type(column.type)) for column in columns])
