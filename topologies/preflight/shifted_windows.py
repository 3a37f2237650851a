"""Chains in which the rows of a window come into the next window of the bolt behind it."""

from __future__ import annotations

from collections.abc import Iterator

from topologies.graph.nodes.windowed import WindowedNode
from topologies.topology import Topology
from windowing.settings.bounds import Bounds
from windowing.settings.rules import OutputTime
from windowing.time.durations import Duration


def shifted_chains(topology: Topology) -> Iterator[str]:
    """A sentence for each bolt with windows ``[start, end)`` that reads rows with the ends of such windows as times:
    each end is the start of the next window there."""
    for node in topology.windowed.values():
        if not (node.event_time and _has_regular_starts(node)):
            continue
        before = {
            origin.bolt
            for origins, carries in zip(node.origins, node.carries_time, strict=True)
            for origin in origins
            if carries and _has_its_end_as_time(topology.windowed[origin.bolt])
        }
        for name in sorted(before):
            yield (
                f"the rows of {name} have the time of the end of their window, which is in the next window of "
                f"{node.name}: with_time(output_time='window last') on {name} keeps them in theirs"
            )


def _has_its_end_as_time(node: WindowedNode) -> bool:
    return node.bolt.settings.output_time is OutputTime.END and _has_regular_starts(node)


def _has_regular_starts(node: WindowedNode) -> bool:
    """Whether its windows are ``[start, end)``, one after the other at regular times."""
    settings = node.bolt.settings
    if settings.key_trigger is not None or settings.bounds is not Bounds.START:
        return False
    if settings.kinds:
        return all(kind.edges_known for kind in settings.kinds)
    return isinstance(settings.length, Duration) and isinstance(settings.slide, Duration)
