"""Which tasks may have a window due at a frontier; the others are not fired."""

from __future__ import annotations

from manager.queue.queue_state import QueueState
from manager.storage.task_state import AssignedState, PolicyState, TaskState, TriggeredState, is_over
from policies.eviction import CountEvictionPolicy
from policies.protocol import EvictionPolicy
from policies.trigger import ColumnarTriggerPolicy, CountTriggerPolicy, TimeTriggerPolicy
from topologies.engine.work.deferred_events import DeferredSections
from topologies.engine.work.items import Frontiers
from topologies.graph.nodes.windowed import WindowedNode
from windowing.time.timestamps import FOREVER


def has_work(node: WindowedNode, task: TaskState, arrived: DeferredSections | None, frontiers: Frontiers) -> bool:
    """Whether a task may have something to do at the current frontier."""
    frontier = frontiers.current
    if frontier is None:
        return False
    if is_over(task.bolt.needed_until, frontier):
        return True
    match task.windows:
        case QueueState() as queue:
            ready = task.refs.needed_up_to(frontier)
            ready += arrived.refs.needed_up_to(frontier) if arrived is not None else 0
            return not _queue_is_idle(node, queue, ready, frontiers.previous, frontier)
        case AssignedState(next_end=due) | TriggeredState(next_due=due):
            waits = due is not None and due <= frontier
            if frontier == FOREVER and bool(task.refs):
                return True
            if frontier == FOREVER and isinstance(task.windows, PolicyState):
                return task.windows.keys is not None or arrived is not None  # policies are told of the end
            listed = isinstance(task.windows, AssignedState) and task.windows.listed != node.list_of_keys
            return arrived is not None or waits or listed  # of other keys than before some may have windows due


def _queue_is_idle(node: WindowedNode, queue: QueueState, ready: int, previous: int | None, frontier: int) -> bool:
    """Whether a queue certainly has nothing to do: no window is due and no account would change. False when in doubt.

    ``ready``: the rows that are needed in sections with a live row up to the frontier. ``previous`` and ``frontier``
    are the frontiers of the last evaluation and of this one, in microseconds.
    """
    seen = queue.settled_count
    if not ready:
        return True
    eviction, trigger = node.eviction, node.trigger
    crowded = isinstance(eviction, CountEvictionPolicy) and ready > eviction.length.value
    if crowded and isinstance(trigger, TimeTriggerPolicy):
        return False
    if node.eviction.reach is not None and isinstance(node.trigger, CountTriggerPolicy):
        return False
    if ready > seen and isinstance(node.trigger, CountTriggerPolicy) and _leaves_gaps(node.eviction, node.trigger):
        return False
    assert isinstance(trigger, ColumnarTriggerPolicy)
    return trigger.idle(previous, frontier, queue.base + seen, queue.base + ready)


def _leaves_gaps(eviction: EvictionPolicy, trigger: CountTriggerPolicy) -> bool:
    """Whether some events lie between windows, which is known as soon as they have their place in the order."""
    return isinstance(eviction, CountEvictionPolicy) and trigger.count.value > eviction.length.value
