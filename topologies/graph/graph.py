"""The graph of a topology: its nodes, and who reads which stream."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from topologies.graph.nodes.plain import PlainNode
from topologies.graph.nodes.sink import SinkNode
from topologies.graph.nodes.spout import SpoutNode
from topologies.graph.nodes.windowed import WindowedNode
from topologies.graph.side_streams import ERRORS
from topologies.graph.streams import Stream
from windowing.bolts.plain_bolts import BatchBolt


@dataclass(frozen=True)
class Graph:
    """What a topology consists of. Immutable, and sent to the workers as it is."""

    name: str
    spouts: Mapping[str, SpoutNode]
    plain: Mapping[str, PlainNode]
    windowed: Mapping[str, WindowedNode]
    """In an order in which each comes after those it depends on."""
    sinks: Mapping[str, SinkNode]
    stop_on_invalid: bool = False
    readers: Mapping[Stream, tuple[tuple[str, int], ...]] = field(default_factory=dict)
    """Per stream: the bolts that read it, and which of their inputs it is."""
    takers: Mapping[Stream, tuple[str, ...]] = field(default_factory=dict)
    """Per stream: the sinks that take it."""

    def columns_of(self, stream: Stream) -> list[str]:
        """The names of the columns of a stream."""
        component, name = stream
        for parts in (self.spouts, self.plain, self.windowed):
            if component in parts:
                return list(parts[component].outputs[name].names)
        return []

    def spouts_before(self, node: WindowedNode) -> list[list[str]]:
        """Per input of a windowed bolt, the spouts whose events come to it one by one, through plain bolts alone.

        Which rows of a ``BatchBolt`` came of which is not known, so behind one there is nothing to tell partitions by.
        """
        return [sorted(self._spouts_of(each.stream)) for each in node.inputs]

    def _spouts_of(self, stream: Stream) -> set[str]:
        component, name = stream
        if name == ERRORS or component in self.windowed:
            return set()
        if component in self.spouts:
            return {component}
        node = self.plain.get(component)
        inputs = () if node is None or isinstance(node.bolt, BatchBolt) else node.inputs
        return {spout for each in inputs for spout in self._spouts_of(each.stream)}

    @property
    def levels(self) -> list[list[WindowedNode]]:
        """The windowed bolts, those that depend on no other first."""
        depth = 1 + max((node.level for node in self.windowed.values()), default=-1)
        return [[node for node in self.windowed.values() if node.level == level] for level in range(depth)]

    @property
    def needs_clock(self) -> bool:
        """Whether time must move on a quiet stream: a window follows the clock."""
        return any(node.follows_clock for node in self.windowed.values())

    @property
    def needs_heartbeat(self) -> bool:
        """Whether there are batches without input too: windows follow the clock, or a watermark waits for its
        interval."""
        waits = any(node.bolt.settings.watermark_interval.micros for node in self.windowed.values())
        return waits or self.needs_clock
