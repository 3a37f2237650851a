"""A sink in a topology."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from topologies.graph.streams import Stream

if TYPE_CHECKING:
    from topologies.io.sinks import Sink


@dataclass(frozen=True)
class SinkNode:
    """A sink under its name, and the streams it takes."""

    name: str
    sink: Sink
    streams: tuple[Stream, ...]
    schema: pa.Schema
