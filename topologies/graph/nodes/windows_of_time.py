"""Whether the windows of a queue hold events by their times alone."""

from __future__ import annotations

from policies.eviction import TimeEvictionPolicy
from policies.trigger import TimeTriggerPolicy
from topologies.graph.nodes.windowed import WindowedNode


def has_windows_of_time(node: WindowedNode) -> bool:
    """Whether both policies of a bolt are windbolt's own, and of time: each event is in the windows of its time,
    whatever other events there are."""
    ours = all(type(each).__module__.startswith("policies.") for each in (node.eviction, node.trigger))
    return ours and isinstance(node.eviction, TimeEvictionPolicy) and isinstance(node.trigger, TimeTriggerPolicy)
