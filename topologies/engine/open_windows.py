"""How many windows of a bolt are open at most: known from what the manifest says of its tasks, without their events."""

from __future__ import annotations

import numpy as np

from manager.queue.queue_state import QueueState
from manager.storage.manifest import BoltState
from manager.storage.task_state import PolicyState, TaskState, TriggeredState
from policies.assigners import AlignedWindows
from policies.assigners.assigner import GridWindows
from policies.trigger import CountTriggerPolicy, TimeTriggerPolicy
from topologies.engine.time.anchoring import anchored
from topologies.graph.nodes.windowed import WindowedNode
from windowing.settings.bounds import Bounds


def open_windows(node: WindowedNode, state: BoltState) -> int | None:
    """Upper bound on the number of windows that hold events and would fire if the streams ended now.

    It is exact for the windows of key triggers. Otherwise each stored event may be in as many windows as its kind of
    window allows, and windows without a key are at most one for each end in time. None where the events would have to
    be read, as where they last, in windows on a grid; and where a policy of the user's decides.
    """
    found = [_of_task(node, state, task) for task in state.tasks]
    known = [count for count in found if count is not None]
    return sum(known) if len(known) == len(found) else None


def _of_task(node: WindowedNode, state: BoltState, task: TaskState) -> int | None:
    rows = task.refs.needed
    match task.windows:
        case PolicyState():
            return None
        case TriggeredState(open_windows=count):
            return count
        case QueueState() as queue:
            return _of_queue(node, state, task, queue, rows) if rows else 0
    return _assigned(node, state, task, rows) if rows else 0


def _of_queue(node: WindowedNode, state: BoltState, task: TaskState, queue: QueueState, rows: int) -> int | None:
    trigger, reach = node.trigger, node.eviction.reach
    unsettled = max(rows - queue.settled_count, 0)
    match trigger:
        case CountTriggerPolicy():
            return -(-unsettled // trigger.count.value)
        case TimeTriggerPolicy():
            slide = trigger.slide
            windows = AlignedWindows(slide, slide, trigger.bounds, trigger.offset)
            past_end = trigger.due_at(0)
            if reach is None:  # of a count of events: each brings one that was in no window
                return min(sum(task.pending(len(node.inputs))), _ends(windows, slide.micros, state, task, past_end))
            ends = _ends(windows, reach.micros, state, task, past_end)
            return min(-(-reach.micros // slide.micros) * rows, ends)
    return None


def _assigned(node: WindowedNode, state: BoltState, task: TaskState, rows: int) -> int | None:
    assigners = anchored(node, state.anchor).assigners
    if node.bolt.settings.lifetime is not None and any(isinstance(each, GridWindows) for each in assigners):
        return None
    most = 0
    for each in assigners:
        windows = each.windows_per_event * rows
        if isinstance(each, AlignedWindows) and not any(node.keys):
            windows = min(windows, _ends(each, each.length.micros, state, task, 0))
        most += windows
    return most


def _ends(windows: AlignedWindows, length: int, state: BoltState, task: TaskState, past_end: int) -> int:
    """The number of ends, that have not been passed, of windows of a length that may hold a live event of a task."""
    low, latest = task.refs.earliest_live, task.refs.latest_live
    if low is None or latest is None:
        return 0
    low -= windows.bounds is Bounds.END  # an event at an end is in the window that ends there
    if state.frontier is not None:
        low = max(low, state.frontier - past_end)
    first, beyond = windows.following(np.array([low, max(latest + length, low)])).tolist()
    return int((beyond - first) // windows.slide.micros)
