"""Closing: the frontier and the watermark of a bolt after its streams have ended."""

from __future__ import annotations

from manager.storage.manifest import BoltState
from topologies.graph.nodes.windowed import WindowedNode


def close(node: WindowedNode, bolt_state: BoltState) -> None:
    """Set the frontier of a bolt, after its streams have ended, to the end of its last window, so that a later run
    continues there."""
    if node.bolt.settings.key_trigger is not None:
        return  # its windows fired before their time; the frontier has not moved
    fired = [task.last_end for task in bolt_state.tasks]
    due = [node.due_at(reference) for reference in fired if reference is not None]
    known = [bolt_state.frontier, *bolt_state.watermark.latest.values(), *due]
    frontier = max((moment for moment in known if moment is not None), default=None)
    bolt_state.frontier = frontier
    if node.event_time:
        before = bolt_state.watermark.current
        bolt_state.watermark.current = frontier if before is None or frontier is None else max(before, frontier)
        if node.deferred and frontier is not None:
            bolt_state.watermark.forced = frontier
