"""The latest time that a bolt has seen."""

from __future__ import annotations

from collections.abc import Iterable

from manager.storage.manifest import BoltState
from policies.marks import NONE
from topologies.engine.work.deferred_events import DeferredSections
from topologies.graph.nodes.windowed import WindowedNode


def latest_seen(node: WindowedNode, bolt_state: BoltState, arrived: Iterable[DeferredSections], clock: int) -> int:
    """The latest event time so far in microseconds, whatever task has the event; the clock in processing time.

    NONE where there is no event. Of what came from other windowed bolts only live events count, and those that
    ``arrived`` in this batch: the others are behind the watermark. Of other inputs no event is later than ``latest``.
    """
    if not node.event_time:
        return clock
    own = [label for label, origins in zip(node.streams, node.origins, strict=True) if not origins]
    known = [bolt_state.watermark.latest[label] for label in own if label in bolt_state.watermark.latest]
    times = [task.refs.latest_live for task in bolt_state.tasks]
    times += [sections.refs.latest_live for sections in arrived]
    return max([*known, *(time for time in times if time is not None)], default=NONE)
