"""The watermarks of a task's keys, where each key has one of its own (AZ-15)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from manager.keyed.substreams import Substreams
from manager.storage.segments.ref import Ref
from manager.storage.segments.segments import SegmentStore, SegmentWriter
from manager.storage.task_state import AssignedState
from policies.marks import NONE
from topologies.engine.admission.deciding import Marks
from topologies.graph.nodes.windowed import WindowedNode
from windowing.time.timestamps import FOREVER

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from policies.assigners.assigner import Limit


@dataclass(frozen=True)
class KeyWatermarks:
    """Advances the watermarks of keys, and tells up to when the windows of each key are due."""

    node: WindowedNode
    substreams: Substreams

    @staticmethod
    def restored(node: WindowedNode, state: AssignedState, store: SegmentStore) -> KeyWatermarks | None:
        """Those of a task's state; None where the bolt has one watermark for all keys."""
        settings = node.bolt.settings
        if not (settings.watermark_per_key and node.event_time):
            return None
        table = None if state.keys is None else store.read(state.keys)
        return KeyWatermarks(node, Substreams(table, settings.delay, NONE if state.floor is None else state.floor))

    @property
    def floor(self) -> int:
        """Lower bound on the watermarks of all keys, in microseconds."""
        return self.substreams.floor

    def advance(
        self, keys: NDArray[np.int64], times: NDArray[np.int64], advancing: NDArray[np.bool_], values: pa.Table
    ) -> Marks:
        """Called once with the events of a batch in order of arrival, as ``KeyMarks`` is."""
        own, after = self.substreams.advance(keys, times, advancing, values)
        own = np.maximum(own, self.substreams.floor)
        return Marks(own, own, after)

    def span(self, keys: NDArray[np.int64], upto: int | None) -> tuple[Limit, Limit]:
        """For each event, by the code of its key: the windows to evaluate end after the first time, and up to the
        second. ``upto`` is the current frontier."""
        previous, current = self.substreams.limits(keys)
        return self.node.closes_until(previous), FOREVER if upto == FOREVER else self.node.closes_until(current)

    def write(self, writer: SegmentWriter) -> Ref | None:
        """Write them; None where there is nothing to write."""
        table = self.substreams.table()
        return None if table is None else writer.add(table)
