"""How the watermark of a bolt advances at the end of a batch."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from manager.storage.manifest import BoltState
from manager.storage.segments.ref import Ref
from manager.storage.segments.segments import SegmentStore
from manager.watermarks.arrival_times import MarksAround
from manager.watermarks.event_watermarks import EventWatermarks
from manager.watermarks.watermark import WaterMarkEventGenerator
from policies.marks import MarkState
from topologies.engine.batch.context import Context
from topologies.engine.batch.plan import TimeAdvance
from topologies.engine.batch.progress import BatchProgress
from topologies.engine.rows.source_batch import partition_name
from topologies.engine.ticking.arrivals import read_arrivals
from topologies.engine.ticking.inherited import inherit_watermarks
from topologies.engine.work.input_progress import InputProgress
from topologies.graph.nodes.windowed import WindowedNode
from windowing.settings.rules import SOURCE


def move_watermark(
    progress: BatchProgress, node: WindowedNode, advance: TimeAdvance, store: SegmentStore
) -> Ref | None:
    """Advance the watermark of a bolt. Where it follows the events: the reference to the marks before each event, else
    None."""
    bolt_state, before = progress.state.bolts[node.name], progress.state.bolts[node.name].watermark.current
    inherit_watermarks(progress.context.topology, progress.state, node)
    marks = None
    if node.deferred:
        watermarks = EventWatermarks(
            node.streams, node.bolt.settings, bolt_state.watermark, [bool(origin) for origin in node.origins]
        )
        marks = _follow_events(watermarks, progress, node, advance, store)
        if node.sequenced:
            _raise_to_promises(node, bolt_state)
            open_ends = [end for windows in bolt_state.assigned for end in windows.open_ends]
            watermarks.move_time(advance.clock, tick=advance.tick, ends=open_ends)
    if advance.tick and not node.sequenced and not node.bolt.settings.watermark_per_key:
        _tick(node, bolt_state, advance)
    watermark = bolt_state.watermark.current
    if watermark is not None and watermark != before:
        progress.new_watermarks[node.name] = watermark
    return marks


def first_clock(seen: InputProgress, advance: TimeAdvance) -> int:
    """The clock in microseconds at the first event of a batch, or at its end where it has none."""
    return advance.clock if seen.first_clock is None else min(advance.clock, seen.first_clock)


def _tick(node: WindowedNode, bolt_state: BoltState, advance: TimeAdvance) -> None:
    """Compute the watermark from the latest times of the inputs (ST-15)."""
    interval = node.bolt.settings.watermark_interval
    WaterMarkEventGenerator(node.streams, node.lag, interval, state=bolt_state.watermark).tick(advance.clock)


def _follow_events(
    watermarks: EventWatermarks, progress: BatchProgress, node: WindowedNode, advance: TimeAdvance, store: SegmentStore
) -> Ref | None:
    """Advance the marks of inputs, partitions and keys by the events of the batch. Returns the marks before each event,
    where the watermark follows their order of arrival."""
    seen, marks = progress.seen(node.name), None
    if node.sequenced:
        watermarks.sources.add_partitions(_known_partitions(progress.context, node), first_clock(seen, advance))
    order = progress.deferred_of(node.name).order
    if order:
        assert seen.last_clock is not None
        around = watermarks.sequence(read_arrivals(store, order), seen.last_clock)
        marks = _write(store, progress.context, around)
    if seen.arrived is not None and seen.last_clock is not None:
        watermarks.arrived(seen.arrived, seen.last_clock)
    return marks


def _raise_to_promises(node: WindowedNode, bolt_state: BoltState) -> None:
    """Raise the mark of each input that comes from another windowed bolt to the watermark that it has from there."""
    for label, origins in zip(node.streams, node.origins, strict=True):
        promised = bolt_state.watermark.latest.get(label)
        if origins and promised is not None:
            mark = bolt_state.watermark.sources.marks.setdefault(label, MarkState())
            mark.mark = max(mark.mark, promised)


def _known_partitions(context: Context, node: WindowedNode) -> dict[str, list[str]]:
    """Per input of a bolt, the partitions that exist, as far as the source or the user names them."""
    settings, partitions = node.bolt.settings, dict[str, list[str]]()
    spouts = context.topology.spouts_before(node)
    for label, node_input, before, origins in zip(node.streams, node.inputs, spouts, node.origins, strict=True):
        if origins:
            continue  # it has the watermark of the bolt that it comes from
        if settings.watermark_partition is SOURCE:
            partitions[label] = [
                str(partition_name(spout, name)) for spout in before for name in context.partitions.get(spout, ())
            ]
        elif isinstance(settings.partitions, Mapping):
            partitions[label] = list(settings.partitions.get(label, ()))
        elif settings.watermark_partition in context.topology.columns_of(node_input.stream):
            partitions[label] = list(settings.partitions or ())
    return partitions


def _write(store: SegmentStore, context: Context, marks: MarksAround) -> Ref:
    """Write the marks before each event; with tracing, those after it too."""
    columns = {"own": marks.own, "bolt": marks.bolt}
    if context.traced:
        columns |= {"own_after": marks.own_after, "bolt_after": marks.bolt_after}
    with store.writer(context.key) as writer:
        return writer.add(pa.table(columns))
