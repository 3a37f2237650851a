"""Bolts without windows, which users subclass: they work on tuples, or on batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from windowing.bolts.component import Component
from windowing.data.returned_rows import EmittedRows

if TYPE_CHECKING:
    from windowing.data.tuples import Tuple


class Bolt(Component):
    """A bolt that works tuple by tuple: map, filter and flat-map."""

    time_shift: int = 0
    """Microseconds by which it moves the time of what passes through it, and the watermark with it (SI-25)."""
    refused_stream: str | None = None
    """An output stream for what it cannot read: counted as invalid at the windowed bolts that it feeds."""

    def execute(self, tuple: Tuple) -> EmittedRows:
        """Called for each event; what it returns, a row, several or None, is emitted with the time of that event."""
        raise NotImplementedError


class BatchBolt(Component):
    """A bolt that works on whole Arrow tables: map, filter and flat-map, fast.

    Where a table is cut is not the bolt's business: each row must be treated as if it were alone.
    """

    time_shift: int = 0
    """Microseconds by which it moves the time of what passes through it, and the watermark with it (SI-25)."""
    refused_stream: str | None = None
    """An output stream for what it cannot read: counted as invalid at the windowed bolts that it feeds."""

    def execute(self, batch: pa.Table) -> EmittedRows:
        """Called with events as they come, at least one; what it returns is emitted."""
        raise NotImplementedError
