"""Compacting: adjacent segments of a task are written as one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from manager.storage.segments.ref import Ref
from manager.storage.segments.segments import SegmentWriter
from topologies.engine.batch.context import Context
from topologies.engine.work.items import CompactItem


def compacted(item: CompactItem, context: Context, write: Callable[[SegmentWriter], Ref]) -> Ref:
    """Write what the segments held as a segment of its own, which has been compacted once more than any of them."""
    with context.store.writer(context.key) as writer:
        ref = write(writer)
    return replace(ref, level=1 + max(source.level for source in item.refs))
