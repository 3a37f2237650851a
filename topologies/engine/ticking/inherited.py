"""The watermark that an input has from the windowed bolts that its events come from."""

from __future__ import annotations

from manager.storage.manifest import BoltState, Manifest
from policies.marks import NONE
from policies.trigger import TimeTriggerPolicy
from topologies.engine.time.anchoring import anchored
from topologies.graph.nodes.windowed import WindowedNode
from topologies.graph.origins import Origin, shifted
from topologies.topology import Topology
from windowing.settings.rules import OutputTime


def inherit_watermarks(topology: Topology, state: Manifest, node: WindowedNode) -> None:
    """Set the latest time of each input that comes from another windowed bolt, from the watermark of that bolt.

    Such a stream promises that none of its events is from before the open windows of that bolt. Where this bolt gives
    the events another time, they may lie further behind than the time they came with (the start of a window rather than
    its end). The promise is then lowered by the largest difference seen, and there is none before the first event.
    """
    mark = state.bolts[node.name].watermark
    for label, origins, brings_time in zip(node.streams, node.origins, node.carries_time, strict=True):
        if not origins:
            continue
        promised = [_promised(topology, state, origin) for origin in origins]
        behind = 0 if brings_time else mark.skew.get(label)
        if behind is None or None in promised:
            mark.latest.pop(label, None)
        else:
            latest = min(promise for promise in promised if promise is not None) - max(behind, 0)
            mark.latest[label] = latest if node.takes_events_at_the_watermark else latest - 1


def _promised(topology: Topology, state: Manifest, origin: Origin) -> int | None:
    """The watermark that a stream inherits from one upstream bolt, shifted on the way (SI-25); None before the
    first."""
    promised = promise_of(topology.windowed[origin.bolt], state.bolts[origin.bolt])
    return None if promised is None else shifted(promised, origin.shift)


def promise_of(node: WindowedNode, bolt_state: BoltState) -> int | None:
    """A time, in microseconds, before which the bolt will emit nothing; None where it is not known yet."""
    if node.bolt.settings.watermark_per_key:
        floor = max((task.key_floor for task in bolt_state.tasks), default=NONE)
        frontier = max(floor, NONE if bolt_state.watermark.forced is None else bolt_state.watermark.forced)
    else:
        known = bolt_state.frontier if node.deferred else bolt_state.watermark.current
        frontier = NONE if known is None else known
    if frontier == NONE:
        return None
    settings = node.bolt.settings
    if (settings.output_watermark or settings.output_time) is not OutputTime.START:
        return frontier  # windows that have not fired yet end later, by a microsecond at least
    return _earliest_start(node, bolt_state, frontier)


def _earliest_start(node: WindowedNode, bolt_state: BoltState, frontier: int) -> int:
    """The start of the earliest window that is open or may yet open (SI-24).

    Unknown for sessions and snapshots that admit events behind the watermark (``LateBy.WINDOW``): a window that starts
    earlier because of such an event may be late for the next bolt.
    """
    known = [task.refs.earliest_live for task in bolt_state.tasks]
    held = min((time for time in known if time is not None), default=None)
    if node.assigners:
        return min(assigner.earliest_start(frontier, held) for assigner in anchored(node, bolt_state.anchor).assigners)
    reach, trigger = node.eviction.reach, node.trigger
    if reach is None:
        return frontier if held is None else min(frontier, held)
    if isinstance(trigger, TimeTriggerPolicy):
        return trigger.last_due(frontier) + trigger.slide.micros - reach.micros
    return frontier - reach.micros
