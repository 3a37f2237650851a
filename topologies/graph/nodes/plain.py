"""A bolt without windows in a topology."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from topologies.graph.streams import Input

if TYPE_CHECKING:
    from windowing.bolts.plain_bolts import BatchBolt, Bolt


@dataclass(frozen=True)
class PlainNode:
    """A bolt without windows; it runs where its input is, in the same task."""

    name: str
    bolt: Bolt | BatchBolt
    parallelism: int
    inputs: tuple[Input, ...]
    outputs: Mapping[str, pa.Schema]
    carries_time: bool
    """Whether its events have event times and a watermark, from a windowed bolt before it."""
    shift: int = 0
    """Microseconds by which it moves these times (SI-25)."""
    clocked: bool = False
    """Whether some of its events come with a moment of the clock: that at which windows fired before it."""

    def copies(self, input_index: int) -> int:
        """The number of tasks that each event of an input goes to."""
        return self.inputs[input_index].copies(self.parallelism)
