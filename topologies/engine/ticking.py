"""The driver's part in advancing a bolt's time: its watermark after a batch, and the tasks that have work to do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from manager.queue.queue_state import QueueState
from manager.storage.manifest import BoltState, Manifest
from manager.storage.segments import Ref, SegmentStore
from manager.storage.task_state import AssignedState, TaskState, TriggeredState
from manager.watermarks.event_watermarks import Arrivals, EventWatermarks, MarksAround
from manager.watermarks.watermark import WaterMarkEventGenerator
from policies.eviction import CountEvictionPolicy, EvictionPolicy
from policies.idleness import estimated
from policies.marks import NONE, MarkState
from policies.trigger import CountTriggerPolicy, TimeTriggerPolicy, is_idle
from topologies.engine.batch.input_progress import InputProgress
from topologies.engine.batch.plan import Arrived, Context, FireItem, TimeAdvance, partition_name
from topologies.engine.batch.progress import ArrivedEvents, BatchProgress
from topologies.engine.time.anchoring import anchored
from topologies.graph.model import Origin, Topology, WindowedNode, shifted
from windowing.settings.rules import SOURCE, START, LateBy, OutputTime
from windowing.time.timestamps import FOREVER

if TYPE_CHECKING:
    from numpy.typing import NDArray


def inherit_watermarks(topology: Topology, state: Manifest, node: WindowedNode, bolt: BoltState) -> None:
    """Set the latest time of each input that comes from another windowed bolt, from the watermark of that bolt.

    Such a stream promises that none of its events is from before the open windows of that bolt. Where this bolt gives
    the events another time, they may lie further behind than the time they came with (the start of a window rather than
    its end). The promise is then lowered by the largest difference seen, and there is none before the first event.
    """
    mark = bolt.watermark
    for label, origins, brings_time in zip(node.streams, node.origins, node.carries_time, strict=True):
        if not origins:
            continue
        promised = [_promised(topology, state, origin) for origin in origins]
        behind = 0 if brings_time else mark.skew.get(label)
        if behind is None or None in promised:
            mark.latest.pop(label, None)
        else:
            latest = min(promise for promise in promised if promise is not None) - max(behind, 0)
            mark.latest[label] = latest if node.takes_events_at_the_watermark else latest - 1


def ticked(node: WindowedNode, bolt: BoltState, advance: TimeAdvance) -> int | None:
    """The watermark that a tick emits, from the latest times of the inputs (ST-15); None where it emits none."""
    interval = node.bolt.settings.watermark_interval
    generator = WaterMarkEventGenerator(node.streams, node.lag, interval, state=bolt.watermark)
    return generator.tick(advance.clock) if advance.tick else None


def deferred_tick(
    progress: BatchProgress, node: WindowedNode, advance: TimeAdvance, store: SegmentStore
) -> Iterator[FireItem]:
    """Advance the time of a bolt whose tasks admit events themselves; yield the tasks that have events or windows
    due."""
    bolt, settings = progress.state.bolts[node.name], node.bolt.settings
    if settings.anchor == START and bolt.anchor is None:
        bolt.anchor = _first_clock(progress.seen(node.name), advance)
    node = anchored(node, bolt.anchor)
    arrived = progress.arrived.get(node.name, ArrivedEvents()).by_task
    before = NONE if bolt.watermark.emitted is None else bolt.watermark.emitted
    forced, marks = bolt.watermark.forced, None
    if node.event_time:
        marks = _move_watermark(progress, node, advance, store)
        if bolt.watermark.emitted is not None and bolt.watermark.emitted > before:
            progress.emitted[node.name] = bolt.watermark.emitted
    frontier = _frontier(node, bolt, advance)
    if advance.close and settings.close_fires:
        frontier = FOREVER
    floor = _floor(node, bolt, advance.clock)
    moved = frontier is not None and (bolt.frontier is None or frontier >= bolt.frontier)
    for number, task in enumerate(bolt.tasks):
        arrived_here = tuple(arrived.get(number, ()))
        due = moved and frontier is not None and has_work(node, task, arrived_here, bolt.frontier, frontier)
        per_key = settings.watermark_per_key and floor > task.key_floor and task.refs
        panes = settings.panes is not None and task.refs and (settings.panes.uses_clock or frontier is not None)
        if arrived_here or due or per_key or panes:
            yield FireItem(
                node.name,
                number,
                task,
                frontier if due else None,
                passed=bolt.frontier,
                arrived=arrived_here,
                marks=marks,
                watermark=before,
                forced=forced,
                floor=floor,
                anchor=bolt.anchor,
                clock=advance.clock,
                now=bolt.watermark.emitted,
            )
    if moved and frontier != FOREVER:
        bolt.frontier = frontier


def _queue_is_idle(
    node: WindowedNode, queue: QueueState, refs: Sequence[Ref], passed: int | None, frontier: int
) -> bool:
    """Whether a queue certainly has nothing to do: no window is due and no account would change. False when in doubt.

    ``passed`` and ``frontier`` are the frontiers of the last evaluation and of this one, in microseconds.
    """
    seen = queue.settled
    ready = sum(ref.alive for ref in refs if ref.earliest <= frontier)
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
    return is_idle(node.trigger, passed, frontier, queue.base + seen, queue.base + ready)


def _leaves_gaps(eviction: EvictionPolicy, trigger: CountTriggerPolicy) -> bool:
    """Whether some events lie between windows, which is known as soon as they have their place in the order."""
    return isinstance(eviction, CountEvictionPolicy) and trigger.count.value > eviction.length.value


def has_work(
    node: WindowedNode, task: TaskState, arrived: Sequence[Arrived], passed: int | None, frontier: int
) -> bool:
    """Whether a task may have something to do at the frontier."""
    match task.windows:
        case QueueState() as queue:
            refs = [*task.refs, *(segment.ref for segment in arrived)]
            return not _queue_is_idle(node, queue, refs, passed, frontier)
        case AssignedState(next_end=due) | TriggeredState(next_due=due):
            waits = due is not None and due <= frontier
            return bool(arrived) or waits or (frontier == FOREVER and bool(task.refs))


def _move_watermark(
    progress: BatchProgress, node: WindowedNode, advance: TimeAdvance, store: SegmentStore
) -> Ref | None:
    """Advance the watermark of a bolt. Where it follows the events: the reference to the marks before each event, else
    None."""
    bolt, settings = progress.state.bolts[node.name], node.bolt.settings
    inherit_watermarks(progress.context.topology, progress.state, node, bolt)
    seen = progress.seen(node.name)
    watermarks = EventWatermarks(node.streams, settings, bolt.watermark, [bool(origin) for origin in node.origins])
    marks = None
    if node.sequenced:
        known = _known_partitions(progress.context, node)
        watermarks.add_partitions(known, _first_clock(seen, advance))
    arrival_refs = progress.arrived.get(node.name, ArrivedEvents()).order
    if arrival_refs:
        arrivals = _arrivals(pa.concat_tables([store.read(ref) for ref in arrival_refs], promote_options="default"))
        assert seen.last_clock is not None
        marks = _write(store, progress.context, watermarks.sequence(arrivals, seen.last_clock))
    if seen.arrived is not None and seen.last_clock is not None:
        watermarks.arrived(seen.arrived, seen.last_clock)
    if settings.watermark_per_key:
        return None
    if not node.sequenced:
        ticked(node, bolt, advance)
        return None
    for label, origins in zip(node.streams, node.origins, strict=True):
        promised = bolt.watermark.latest.get(label)
        if origins and promised is not None:
            mark = bolt.watermark.sources.setdefault(label, MarkState())
            mark.mark = max(mark.mark, promised)
    open_ends = [end for windows in bolt.assigned for end in windows.open_ends]
    watermarks.move_time(advance.clock, tick=advance.tick, ends=open_ends)
    return marks


def _first_clock(seen: InputProgress, advance: TimeAdvance) -> int:
    """The clock in microseconds at the first event of a batch, or at its end where it has none."""
    return advance.clock if seen.first_clock is None else min(advance.clock, seen.first_clock)


def _arrivals(table: pa.Table) -> Arrivals:
    names = table.column_names

    def column(name: str) -> Any:
        return table.column(name).to_numpy()

    return Arrivals(
        column("time"),
        column("input"),
        column("counts"),
        column("given") if "given" in names else None,
        *_partitions(table.column("partition") if "partition" in names else None),
        table.column("heard").fill_null(True).to_numpy() if "heard" in names else None,
        table.column("arrived").fill_null(NONE).to_numpy() if "arrived" in names else None,
    )


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


def _partitions(column: pa.ChunkedArray | None) -> tuple[NDArray[np.int64] | None, tuple[str, ...]]:
    """The partition code of each event, -1 where it has none, and the partition name of each code."""
    if column is None:
        return None, ()
    whole = column.unify_dictionaries().combine_chunks()
    codes = whole.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    return codes, tuple(whole.dictionary.to_pylist())


def _write(store: SegmentStore, context: Context, marks: MarksAround) -> Ref:
    """Write the marks before each event; with tracing, those after it too."""
    columns = {"own": marks.own, "bolt": marks.bolt}
    if context.traced:
        columns |= {"own_after": marks.own_after, "bolt_after": marks.bolt_after}
    with store.writer(context.folder) as writer:
        return writer.add(pa.table(columns))


def _frontier(node: WindowedNode, bolt: BoltState, advance: TimeAdvance) -> int | None:
    """The frontier of a bolt, in the terms of its policies: windows that end up to it are closed. None where no window
    can be due."""
    settings = node.bolt.settings
    if not node.event_time:
        return _frontier_of_the_clock(node, advance.clock)
    if settings.watermark_per_key:
        return None
    emitted, forced = bolt.watermark.emitted, bolt.watermark.forced
    if emitted is None:
        return None
    if node.assigners:
        over = int(node.over(np.array([emitted]))[0])
        return over if forced is None else max(over, forced)
    frontier = emitted - settings.allowed_lateness.micros
    if forced is not None:
        frontier = max(frontier, node.trigger.over_at(forced))
    by_window = settings.late_by is LateBy.WINDOW or node.overtakes
    if by_window and isinstance(node.trigger, TimeTriggerPolicy):
        # Events that may still come belong to windows that end later: everything up to the last closed end is
        # settled.
        return node.trigger.over_at(node.trigger.last_due(frontier))
    return frontier


def _frontier_of_the_clock(node: WindowedNode, clock: int) -> int | None:
    if node.assigners:
        return int(node.over(np.array([clock]))[0])
    return clock if node.holds else node.trigger.frontier(clock, None)


def _floor(node: WindowedNode, bolt: BoltState, clock: int) -> int:
    """Lower bound on the event times still admitted, for every key, from the arrivals so far (AZ-16); NONE where there
    is none."""
    arrival, mark = node.bolt.settings.arrival, bolt.watermark
    if not node.bolt.settings.watermark_per_key or arrival is None or arrival.late is None or mark.arrived is None:
        return NONE
    assert mark.arrived_at is not None
    return estimated(mark.arrived, mark.arrived_at, max(clock, mark.arrived_at)) - arrival.late.micros


def _promised(topology: Topology, state: Manifest, origin: Origin) -> int | None:
    """The watermark that a stream inherits from one upstream bolt, shifted on the way (SI-25); None before the
    first."""
    promised = _promise(topology.windowed[origin.bolt], state.bolts[origin.bolt])
    return None if promised is None else shifted(promised, origin.shift)


def _promise(node: WindowedNode, bolt: BoltState) -> int | None:
    """A time, in microseconds, before which the bolt will emit nothing; None where it is not known yet."""
    if node.bolt.settings.watermark_per_key:
        floor = max((task.key_floor for task in bolt.tasks), default=NONE)
        reached = max(floor, NONE if bolt.watermark.forced is None else bolt.watermark.forced)
    else:
        known = bolt.frontier if node.deferred else bolt.watermark.emitted
        reached = NONE if known is None else known
    if reached == NONE:
        return None
    settings = node.bolt.settings
    if (settings.output_watermark or settings.output_time) is OutputTime.END:
        return reached
    return _earliest_start(node, bolt, reached)


def _earliest_start(node: WindowedNode, bolt: BoltState, reached: int) -> int:
    """The start of the earliest window that is open or may yet open (SI-24).

    Unknown for sessions and snapshots that admit events behind the watermark (``LateBy.WINDOW``): a window that starts
    earlier because of such an event may be late for the next bolt.
    """
    held = min((ref.earliest for task in bolt.tasks for ref in task.refs if ref.alive), default=None)
    if node.assigners:
        return min(assigner.earliest_start(reached, held) for assigner in anchored(node, bolt.anchor).assigners)
    reach, trigger = node.eviction.reach, node.trigger
    if reach is None:
        return reached if held is None else min(reached, held)
    if isinstance(trigger, TimeTriggerPolicy):
        return trigger.last_due(reached) + trigger.slide.micros - reach.micros
    return reached - reach.micros
