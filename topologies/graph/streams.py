"""Streams between components, and how a bolt reads one."""

from __future__ import annotations

from dataclasses import dataclass

from topologies.graph.groupings import AllGrouping, Grouping
from windowing.data.returned_rows import DEFAULT_STREAM

Stream = tuple[str, str]
"""A component and one of its output streams."""

ID = "id"
"""Traces name events by this column, where their stream has it."""


def stream_label(stream: Stream) -> str:
    """How a stream is called by people, and by ``window.stream(...)``: the component alone for its default stream."""
    return stream[0] if stream[1] == DEFAULT_STREAM else f"{stream[0]}.{stream[1]}"


@dataclass(frozen=True)
class Input:
    """A stream that a bolt reads, and how its events are shared out to the tasks."""

    stream: Stream
    grouping: Grouping

    def copies(self, parallelism: int) -> int:
        """The number of tasks, of this many, that each of its events goes to."""
        return parallelism if isinstance(self.grouping, AllGrouping) else 1
