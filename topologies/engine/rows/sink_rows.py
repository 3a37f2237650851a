"""Rows for a sink that the driver serves, and the batch that they belong to."""

from __future__ import annotations

from dataclasses import dataclass

from manager.storage.segments.ref import Ref


@dataclass(frozen=True)
class SinkRows:
    """Rows for a sink, and what identifies them among all rows of the batch."""

    ref: Ref
    origin: str
    """The bolt and task that emitted them, such as ``revenue.2``; ``input`` for rows that came with the input."""
    first: int
    """Number of the first row among those of this origin, in order of arrival."""


@dataclass(frozen=True)
class SinkBatch:
    """The batch whose rows a sink receives."""

    topology: str
    origin: str
    """Id of the checkpoint: serial numbers start again with a new one."""
    key: str
    serial: int
    """The unique number of the batch (see ``BatchPlan.serial``)."""

    def record_name(self, sink: str, sink_rows: SinkRows) -> str:
        """Prefix of the ids of records, without their number; the same when the batch runs again."""
        return f"{self.topology}/{self.origin}/{sink}/{sink_rows.origin}/{self.serial}"
