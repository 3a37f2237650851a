"""How far the windows of a bolt may be evaluated."""

from __future__ import annotations

import numpy as np

from manager.storage.manifest import BoltState
from policies.idleness import estimated
from policies.marks import NONE
from policies.trigger import TimeTriggerPolicy
from topologies.engine.batch.plan import TimeAdvance
from topologies.engine.work.items import Frontiers
from topologies.graph.nodes.windowed import WindowedNode
from windowing.settings.rules import LateBy
from windowing.time.timestamps import FOREVER


def frontiers_of(
    node: WindowedNode, bolt_state: BoltState, advance: TimeAdvance, new_watermark: int | None
) -> Frontiers:
    """What a bolt evaluated last, and how far it may do so now; ``new_watermark`` is the watermark that this batch
    has emitted, None if it has emitted none. Nothing is evaluated behind the last evaluation."""
    previous = bolt_state.frontier
    if advance.close and node.bolt.settings.close_fires:
        current: int | None = FOREVER
    elif not node.event_time:
        current = _by_clock(node, advance.clock)
    else:
        current = _by_watermark(node, bolt_state) if node.deferred else new_watermark
    if current is not None and previous is not None and current < previous:
        current = None
    return Frontiers(previous, current)


def _by_clock(node: WindowedNode, clock: int) -> int | None:
    if node.assigners:
        return int(node.closes_until(np.array([clock]))[0])
    return clock


def _by_watermark(node: WindowedNode, bolt_state: BoltState) -> int | None:
    """The frontier in event time, in the terms of the policies: windows that end up to it are closed. None where no
    window can be due."""
    settings = node.bolt.settings
    if settings.watermark_per_key:
        return None
    watermark, forced = bolt_state.watermark.current, bolt_state.watermark.forced
    if watermark is None:
        return None
    if node.assigners:
        closed_until = int(node.closes_until(np.array([watermark]))[0])
        return closed_until if forced is None else max(closed_until, forced)
    frontier = watermark - settings.allowed_lateness.micros
    if forced is not None:
        frontier = max(frontier, node.due_at(forced))
    by_window = settings.late_by is LateBy.WINDOW or node.overtakes
    if by_window and isinstance(node.trigger, TimeTriggerPolicy):
        # Events that may still come belong to windows that end later: everything up to the last closed end is
        # settled.
        return node.due_at(node.trigger.last_due(frontier))
    return frontier


def floor_of(node: WindowedNode, bolt_state: BoltState, clock: int) -> int:
    """Lower bound on the event times still admitted, for every key: from the arrivals so far (AZ-16), or, behind
    windowed bolts alone, the time before which these emit nothing; NONE where there is none."""
    arrival, sources = node.bolt.settings.arrival, bolt_state.watermark.sources
    if not node.bolt.settings.watermark_per_key:
        return NONE
    if all(node.origins):
        return min(bolt_state.watermark.latest.get(stream, NONE) for stream in node.streams)
    if arrival is None or arrival.late is None or sources.arrived is None:
        return NONE
    assert sources.arrived_at is not None
    return estimated(sources.arrived, sources.arrived_at, max(clock, sources.arrived_at)) - arrival.late.micros
