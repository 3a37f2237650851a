"""Which tasks the driver runs itself, since a job of Spark's would take longer than they do (decision 80)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from manager.storage.segments.file_segments import FileSegments
from manager.storage.segments.refs import Refs
from topologies.engine.batch.context import Context
from topologies.engine.tasks import compact, fire
from topologies.topology import Topology

MOST_BYTES, MOST_SECTIONS = 2**24, 64
"""What the tasks may read, all together: some milliseconds for one process, however large the cluster is."""


def is_near(function: Callable[[Any, Context], Any], items: Sequence[Any], context: Context) -> bool:
    """Whether the driver is to run all these tasks: they read little, from files, and call nobody's code but
    windbolt's.

    That is so of the sums of an AggregateBolt, and of sections that are made one. In a store of objects each section
    takes a request, and those of several tasks are better made at the same time.
    """
    in_files = isinstance(context.store, FileSegments) and not context.store.takes_requests
    if not in_files or function not in (fire, compact):
        return False
    bolts = {item.bolt for item in items}
    if function is fire:
        own = all(_sums(bolt, context.topology) for bolt in bolts)
        own = own and all(item.admit.sections is None for item in items)
        refs: list[Refs] = [item.state.refs for item in items]
    else:
        own = not any(_calls_users(bolt, context.topology) for bolt in bolts)
        refs = [item.refs for item in items]
    if not own or sum(map(len, refs)) > MOST_SECTIONS:
        return False
    return sum(ref.length for those in refs for ref in those) <= MOST_BYTES


def _sums(bolt: str, topology: Topology) -> bool:
    """Whether the tasks of a bolt join ready sums, and what they emit goes to no bolt within the task."""
    if topology.windowed[bolt].slicing is None:
        return False
    read = {each.stream[0] for node in topology.plain.values() for each in node.inputs}
    return bolt not in read and not _calls_users(bolt, topology)


def _calls_users(bolt: str, topology: Topology) -> bool:
    """Whether sums are made by functions of the user's."""
    aggregates = getattr(topology.windowed[bolt].bolt, "aggregates", {})
    return any(getattr(each, "functions", ()) for each in aggregates.values())
