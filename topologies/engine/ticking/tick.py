"""One tick of a bolt: its watermark, its frontiers, and the tasks that may have windows due."""

from __future__ import annotations

from dataclasses import replace

from manager.storage.segments.segments import SegmentStore
from manager.storage.task_state import TaskState
from policies.marks import NONE
from topologies.engine.batch.plan import TimeAdvance
from topologies.engine.batch.progress import BatchProgress
from topologies.engine.ticking.due import has_work
from topologies.engine.ticking.frontiers import floor_of, frontiers_of
from topologies.engine.ticking.latest import latest_seen
from topologies.engine.ticking.watermarks import first_clock, move_watermark
from topologies.engine.time.anchoring import anchored
from topologies.engine.work.items import BatchEnd, FireItem, Frontiers, ToAdmit
from topologies.graph.nodes.windowed import WindowedNode
from windowing.settings.rules import START
from windowing.time.timestamps import FOREVER


def tick(progress: BatchProgress, node: WindowedNode, advance: TimeAdvance, store: SegmentStore) -> list[FireItem]:
    """Advance the time of a bolt at the end of a batch: its watermark and its frontier, and with the first event its
    anchor, all in the state that ``progress`` holds.

    Returns the work of its tasks that may have something to do.
    """
    progress.hand_on(node.name)
    bolt_state = progress.state.bolts[node.name]
    if node.deferred and node.bolt.settings.anchor == START and bolt_state.anchor is None:
        bolt_state.anchor = first_clock(progress.seen(node.name), advance)
    node = anchored(node, bolt_state.anchor)
    before, forced = bolt_state.watermark.current, bolt_state.watermark.forced
    marks = move_watermark(progress, node, advance, store) if node.event_time else None
    frontiers = frontiers_of(node, bolt_state, advance, progress.new_watermarks.get(node.name))
    sections, items = progress.deferred_of(node.name).by_task(), list[FireItem]()
    latest = NONE
    if frontiers.current == FOREVER and node.bolt.settings.empty_windows_until is not None:
        latest = latest_seen(node, bolt_state, sections.values(), advance.clock)
    end = BatchEnd(advance.clock, bolt_state.watermark.current, floor_of(node, bolt_state, advance.clock), latest)
    for number, state in enumerate(bolt_state.tasks):
        waiting = ToAdmit(
            sections.get(number),
            marks,
            watermark=NONE if before is None else before,
            closed_until=NONE if forced is None else forced,
        )
        due = has_work(node, state, waiting.sections, frontiers)
        if due or waiting.sections or _may_fire_otherwise(node, state, frontiers, end):
            evaluated = frontiers if due else Frontiers(frontiers.previous, None)
            items.append(
                FireItem(node.name, number, state, evaluated, admit=waiting, end=end, anchor=bolt_state.anchor)
            )
    reached = frontiers.current if frontiers.current != FOREVER else _at_the_end(progress, node, advance)
    if reached is not None:
        bolt_state.frontier = reached
    return items


def _at_the_end(progress: BatchProgress, node: WindowedNode, advance: TimeAdvance) -> int | None:
    """The frontier in event time that the watermark reaches when the streams end. Windows behind it are due for the
    bolts that read this one, whose own windows the end may not fire."""
    if not node.event_time:
        return None
    bolt_state = progress.state.bolts[node.name]
    still_open = replace(advance, close=False)
    return frontiers_of(node, bolt_state, still_open, progress.new_watermarks.get(node.name)).current


def _may_fire_otherwise(node: WindowedNode, task: TaskState, frontiers: Frontiers, end: BatchEnd) -> bool:
    """Whether a task that holds events may fire without reaching a frontier: by the watermarks of its keys, or a window
    early or once more."""
    settings = node.bolt.settings
    if not task.refs:
        return False
    if settings.watermark_per_key and end.floor > task.key_floor:
        return True
    if settings.panes is None:
        return False
    time_is_known = not node.event_time or end.watermark is not None or frontiers.current == FOREVER
    return settings.panes.uses_clock or time_is_known
