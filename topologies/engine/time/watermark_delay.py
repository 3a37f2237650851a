"""The delay of a bolt's watermark behind the clock (AZ-23)."""

from __future__ import annotations

from manager.storage.manifest import BoltState
from policies.marks import NONE
from topologies.graph.nodes.windowed import WindowedNode
from windowing.time.timestamps import FOREVER


def watermark_delay(node: WindowedNode, bolt_state: BoltState, clock: int) -> int | None:
    """The clock minus the greatest watermark, in microseconds; None before the first watermark and in processing time.

    Negative where events are ahead of the clock.
    """
    marks = [bolt_state.watermark.current] if node.event_time else []
    settings = node.bolt.settings
    if node.event_time and settings.watermark_per_key:
        # The driver does not know the watermark of each key; the greatest is that of the latest event.
        latest = max(bolt_state.watermark.latest.values(), default=NONE)
        marks += [None if latest == NONE else latest - settings.delay, *(task.key_floor for task in bolt_state.tasks)]
    known = [mark for mark in marks if mark is not None and NONE < mark < FOREVER]
    return clock - max(known) if known else None
