"""The families of windows that a task can have, and which one a bolt has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from manager.queue.queue_state import QueueState
from manager.storage.segments.ref import Ref
from manager.storage.segments.segments import SegmentStore
from manager.storage.task_state import AssignedState, PolicyState, TaskState, TriggeredState, WindowsState
from topologies.engine.batch.context import Context
from topologies.engine.fire.assigned.assigned_task import AssignedTask
from topologies.engine.fire.held_events import compact_held, pending_held
from topologies.engine.fire.policy_task import PolicyTask
from topologies.engine.fire.queue_task import (
    QueueTask,
    SlicesTask,
    compact_queue,
    compact_slices,
    pending_in_queue,
    pending_in_slices,
)
from topologies.engine.fire.task_windows import TaskWindows
from topologies.engine.fire.triggered_task import TriggeredTask
from topologies.engine.ingest.router import Router
from topologies.engine.work.items import CompactItem, FireItem
from topologies.graph.nodes.windowed import WindowedNode


@dataclass(frozen=True)
class WindowFamily:
    """One family of windows, and how its tasks work."""

    fresh: Callable[[], WindowsState]
    """The state before the first batch."""
    restore: Callable[[FireItem, WindowedNode, Router], TaskWindows]
    """The windows of a task in a batch."""
    compact: Callable[[CompactItem, WindowedNode, Context], Ref]
    """Merges adjacent segments of a task into one."""
    pending: Callable[[SegmentStore, WindowedNode, int, TaskState], Iterator[pa.Table]]
    """The events of a task that are in no window yet and may still be in one."""


QUEUE = WindowFamily(QueueState, QueueTask, compact_queue, pending_in_queue)
"""Runs of a queue of events."""
SLICES = WindowFamily(QueueState, SlicesTask, compact_slices, pending_in_slices)
"""Runs of a queue of partial sums."""
ASSIGNED = WindowFamily(AssignedState, AssignedTask, compact_held, pending_held)
"""Windows that assigners form of live events."""
TRIGGERED = WindowFamily(TriggeredState, TriggeredTask, compact_held, pending_held)
"""Windows of keys that a trigger fires."""

POLICIES = WindowFamily(PolicyState, PolicyTask, compact_held, pending_held)
"""Windows that policies of a user's own decide about, of tasks or of keys."""


def family_of(node: WindowedNode) -> WindowFamily:
    """The family of windows that a bolt has."""
    if node.assigners:
        return ASSIGNED
    if node.bolt.settings.key_trigger is not None:
        return TRIGGERED
    if node.by_policies:
        return POLICIES
    return QUEUE if node.slicing is None else SLICES
