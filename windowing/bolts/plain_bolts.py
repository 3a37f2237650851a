"""Bolts without windows, which users subclass: they work on tuples, or on batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from windowing.bolts.component import Component
from windowing.data.returned_rows import EmittedRows

if TYPE_CHECKING:
    from windowing.data.tuples import Tuple


class PlainBolt(Component):
    """A bolt without windows."""

    on_error: Literal["stop", "errors"] = "stop"
    """What happens where ``execute`` raises an exception for an event, or returns what was not declared.

    ``"stop"``: the run ends, and says where. ``"errors"``: the event goes to the stream ``errors`` of the bolt with the
    exception as its reason, nothing is emitted for it, and it is ``invalid`` at the windowed bolts that the bolt feeds;
    a BatchBolt is called again with fewer events, to find those that it fails on. What is not about the event ends the
    run in either case: what may pass (a connection that is lost), what the system says of files, networks and
    processes, a lack of memory, and a module or a name that there is not.
    """
    time_shift: int = 0
    """Microseconds by which it moves the time of what passes through it, and the watermark with it (SI-25)."""
    refused_stream: str | None = None
    """An output stream for what it cannot read: counted as invalid at the windowed bolts that it feeds."""


class Bolt(PlainBolt):
    """A bolt that works tuple by tuple: map, filter and flat-map."""

    def execute(self, tuple: Tuple) -> EmittedRows:
        """Called for each event; what it returns, a row, several or None, is emitted with the time of that event."""
        raise NotImplementedError


class BatchBolt(PlainBolt):
    """A bolt that works on whole Arrow tables: map, filter and flat-map, fast.

    Where a table is cut is not the bolt's business: each row must be treated as if it were alone.
    """

    def execute(self, batch: pa.Table) -> EmittedRows:
        """Called with events as they come, at least one; what it returns is emitted."""
        raise NotImplementedError
