"""One tick of a bolt: its watermark, its frontiers, and the tasks that may have windows due."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from manager.storage.manifest import BoltState, Manifest
from manager.storage.segments import Ref, SegmentStore
from manager.storage.task_state import TaskState, is_no_longer_needed
from manager.watermarks import ArrivalTimes, EventWatermarks, MarksAround, WaterMarkEventGenerator
from policies.storm import TimeTriggerPolicy
from policies.watermarks import NONE, MarkState, estimated_arrival
from topologies.engine.batch import BatchProgress, Context, TimeAdvance
from topologies.engine.event_times import with_anchor
from topologies.engine.fire.task_families import family_of
from topologies.engine.task_data import (
    BatchEnd,
    FireItem,
    Frontiers,
    InputProgress,
    Share,
    ToAdmit,
    UnadmittedSections,
    partition_name,
)
from topologies.graph.graph import Graph, Origin, WindowedNode, shift_time
from windowing.settings.rules import SOURCE, START, LateBy, OutputTime
from windowing.timestamps import FOREVER

if TYPE_CHECKING:
    from numpy.typing import NDArray


# The latest time that a bolt has seen.


def latest_seen(
    node: WindowedNode, bolt_state: BoltState, arrived_sections: Iterable[UnadmittedSections], clock: int
) -> int:
    """Returns the latest event time so far in microseconds, over all tasks; in processing time, the clock.

    NONE without events. ``latest`` of the bolt's ``WatermarkState`` has that of each spout's stream, and for a stream
    of a windowed bolt the time that this has reached. Only live events, and those of ``arrived_sections``, may be later
    than that.
    """
    if not node.event_time:
        return clock
    latest = bolt_state.watermark.latest
    latest_times = [latest[label] for label in node.streams if label in latest]
    times = [task.refs.latest_live for task in bolt_state.tasks]
    times += [sections.refs.latest_live for sections in arrived_sections]
    return max([*latest_times, *(time for time in times if time is not None)], default=NONE)


# The order in which the events of a batch arrived at a bolt, for watermarks that follow events.


def read_arrivals(store: SegmentStore, order: Sequence[Ref]) -> ArrivalTimes:
    """Returns the events of a batch in order of arrival, as the reading tasks have written it."""
    store.prefetch(order)
    table = pa.concat_tables([store.read(ref) for ref in order], promote_options="default")
    names = table.column_names

    def column(name: str) -> Any:
        return table.column(name).to_numpy()

    return ArrivalTimes(
        column("time"),
        column("input"),
        column("advancing"),
        column("inserted") if "inserted" in names else None,
        *_partitions(table.column("partition") if "partition" in names else None),
        table.column("registers_partition").fill_null(True).to_numpy() if "registers_partition" in names else None,
        table.column("arrival").fill_null(NONE).to_numpy() if "arrival" in names else None,
    )


def _partitions(column: pa.ChunkedArray | None) -> tuple[NDArray[np.int64] | None, tuple[str, ...]]:
    """Returns the partition code of each event, -1 without a partition, and the partition name of each code."""
    if column is None:
        return None, ()
    dictionary = column.unify_dictionaries().combine_chunks()
    codes = dictionary.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    return codes, tuple(dictionary.dictionary.to_pylist())


# The watermark that an input inherits from the windowed bolts behind it.


def inherit_watermarks(topology: Graph, state: Manifest, node: WindowedNode) -> None:
    """Sets the latest time of each input that comes from another windowed bolt, from that bolt's watermark.

    Such a stream promises that none of its events is before the open windows of its bolt. The reading bolt may give an
    event an earlier time, such as the start of a window instead of its end. Then the promise is lowered by the largest
    difference seen, and does not hold before the first event.
    """
    watermark_state = state.bolts[node.name].watermark
    for label, origins, brings_time in zip(node.streams, node.origins, node.brings_time, strict=True):
        if not origins:
            continue
        promised = [_inherited_promise(topology, state, origin) for origin in origins]
        behind = 0 if brings_time else watermark_state.greatest_shift_back.get(label)
        if behind is None or None in promised:
            watermark_state.latest.pop(label, None)
        else:
            latest = min(promise for promise in promised if promise is not None) - max(behind, 0)
            watermark_state.latest[label] = latest if node.takes_events_at_the_watermark else latest - 1


def _inherited_promise(topology: Graph, state: Manifest, origin: Origin) -> int | None:
    """Returns the watermark that a stream inherits from one upstream bolt, with the shift between them (SI-25); None
    before the first watermark."""
    promised = promise_of(topology.windowed[origin.bolt], state.bolts[origin.bolt])
    return None if promised is None else shift_time(promised, origin.shift)


def promise_of(node: WindowedNode, bolt_state: BoltState) -> int | None:
    """Returns a time, in microseconds, before which the bolt will emit nothing; None if unknown."""
    if node.bolt.settings.watermark_per_key:
        floor = max((task.key_floor for task in bolt_state.tasks), default=NONE)
        floor = floor if floor == NONE else int(node.closed_until_at(np.array([floor]))[0])
        frontier = max(
            floor, NONE if bolt_state.watermark.idle_closed_until is None else bolt_state.watermark.idle_closed_until
        )
    else:
        known = bolt_state.frontier if node.admitted_by_tasks else bolt_state.watermark.current
        by_time = not node.without_queue and isinstance(node.trigger, TimeTriggerPolicy)  # counts end with an event
        frontier = NONE if known is None else known - int(by_time and node.closes_after_end)
    if frontier == NONE:
        return None
    settings = node.bolt.settings
    if (settings.output_watermark or settings.output_time) is not OutputTime.START:
        return max(frontier, _closed_until(node, bolt_state))  # windows that have yet to fire end later
    return _earliest_start(node, bolt_state, frontier)


def _closed_until(node: WindowedNode, bolt_state: BoltState) -> int:
    """Returns the time up to which the watermark has closed windows. NONE for bolts whose frontier is this time; that
    of others may be earlier, the end of their last closed window (``_frontier_by_watermark``)."""
    current = bolt_state.watermark.current
    if not node.admitted_by_tasks or node.assigners or not node.event_time or current is None:
        return NONE
    return current - node.bolt.settings.allowed_lateness.micros - int(node.closes_after_end)


def _earliest_start(node: WindowedNode, bolt_state: BoltState, frontier: int) -> int:
    """Returns the start of the earliest window that is open or may yet open (SI-24).

    Unknown for sessions and snapshots that admit events behind the watermark (``LateBy.WINDOW``): such an event may
    make a window start earlier, which may then be late for the next bolt.
    """
    known = [task.refs.earliest_live for task in bolt_state.tasks]
    earliest_live = min((time for time in known if time is not None), default=None)
    if node.assigners:
        return min(
            assigner.earliest_start(frontier, earliest_live)
            for assigner in with_anchor(node, bolt_state.anchor).assigners
        )
    reach, trigger = node.eviction.reach, node.trigger
    if reach is None:
        return frontier if earliest_live is None else min(frontier, earliest_live)
    if isinstance(trigger, TimeTriggerPolicy):
        return trigger.last_due(frontier) + trigger.slide.micros - reach.micros
    return frontier - reach.micros


# How the watermark of a bolt advances at the end of a batch.


def move_watermark(
    progress: BatchProgress, node: WindowedNode, advance: TimeAdvance, store: SegmentStore
) -> Ref | None:
    """Advances the watermark of a bolt. Returns a reference to the marks before each event if the watermark follows
    events; else None."""
    bolt_state, before = progress.state.bolts[node.name], progress.state.bolts[node.name].watermark.current
    inherit_watermarks(progress.context.topology, progress.state, node)
    marks = None
    if node.admitted_by_tasks:
        watermarks = EventWatermarks(
            node.streams, node.bolt.settings, bolt_state.watermark, [bool(origin) for origin in node.origins]
        )
        marks = _follow_events(watermarks, progress, node, advance, store)
        if node.follows_events:
            _follow_promises(node, bolt_state)
            open_ends = [end for task in bolt_state.tasks for end in task.windows.get("open_ends", ())]
            watermarks.move_time(advance.clock, tick=advance.tick, ends=open_ends)
    if advance.tick and not node.follows_events and not node.bolt.settings.watermark_per_key:
        _tick(node, bolt_state, advance)
    watermark = bolt_state.watermark.current
    if watermark is not None and watermark != before:
        progress.new_watermarks[node.name] = watermark
    return marks


def first_clock(input_progress: InputProgress, advance: TimeAdvance) -> int:
    """Returns the clock in microseconds at the first event of a batch; without events, at its end."""
    return advance.clock if input_progress.first_clock is None else min(advance.clock, input_progress.first_clock)


def _tick(node: WindowedNode, bolt_state: BoltState, advance: TimeAdvance) -> None:
    """Computes the watermark from the latest times of the inputs (ST-15)."""
    interval = node.bolt.settings.watermark_interval
    WaterMarkEventGenerator(node.streams, node.lag, interval, state=bolt_state.watermark).tick(advance.clock)


def _follow_events(
    watermarks: EventWatermarks, progress: BatchProgress, node: WindowedNode, advance: TimeAdvance, store: SegmentStore
) -> Ref | None:
    """Advances the marks of inputs, partitions and keys by the events of the batch. Returns the marks before each
    event, if the watermark follows their order of arrival."""
    input_progress, marks = progress.progress_of(node.name), None
    if node.follows_events:
        watermarks.sources.add_partitions(
            _known_partitions(progress.context, node), first_clock(input_progress, advance)
        )
    order = progress.unadmitted_of(node.name).order
    if order:
        assert input_progress.last_clock is not None
        marks_around = watermarks.advance_by_events(read_arrivals(store, order), input_progress.last_clock)
        marks = _write_marks(store, progress.context, marks_around)
    if input_progress.latest_arrival is not None and input_progress.arrival_clock is not None:
        watermarks.record_arrival(input_progress.latest_arrival, input_progress.arrival_clock)
    return marks


def _follow_promises(node: WindowedNode, bolt_state: BoltState) -> None:
    """Sets the mark of each input that comes from another windowed bolt to that bolt's watermark.

    A bolt may give these rows new times. If one of this batch is set back further than any row before
    (``WatermarkState.greatest_shift_back``), the mark goes back by as much. With watermarks at ticks, the next tick
    takes the mark less the lag.
    """
    at_ticks = node.bolt.settings.watermark_every is None
    for label, origins in zip(node.streams, node.origins, strict=True):
        promised = bolt_state.watermark.latest.get(label)
        if origins and promised is not None:
            mark = bolt_state.watermark.sources.marks.setdefault(label, MarkState())
            if at_ticks:
                mark.latest = promised
            else:
                mark.mark = promised


def _known_partitions(context: Context, node: WindowedNode) -> dict[str, list[str]]:
    """Returns, for each input of a bolt, the existing partitions, as far as the source or the user names them."""
    settings, partitions = node.bolt.settings, dict[str, list[str]]()
    spouts = context.topology.spouts_before(node)
    for label, node_input, before, origins in zip(node.streams, node.inputs, spouts, node.origins, strict=True):
        if origins:
            continue  # it has the watermark of the bolt before
        if settings.watermark_partition is SOURCE:
            partitions[label] = [
                str(partition_name(spout, name)) for spout in before for name in context.partitions.get(spout, ())
            ]
        elif isinstance(settings.partitions, Mapping):
            partitions[label] = list(settings.partitions.get(label, ()))
        elif settings.watermark_partition in context.topology.columns_of(node_input.stream):
            partitions[label] = list(settings.partitions or ())
    return partitions


def _write_marks(store: SegmentStore, context: Context, marks: MarksAround) -> Ref:
    """Writes the marks before each event; with tracing, also the marks after each event."""
    columns = {"of_source": marks.source_mark_before, "of_bolt": marks.watermark_before}
    if context.tracing:
        columns |= {"of_source_after": marks.source_mark_after, "of_bolt_after": marks.watermark_after}
    with store.writer(context.key) as writer:
        return writer.add(pa.table(columns))


# The frontier up to which the windows of a bolt may be evaluated.


def frontiers_of(
    node: WindowedNode, bolt_state: BoltState, advance: TimeAdvance, new_watermark: int | None
) -> Frontiers:
    """Returns a bolt's frontiers: of its last evaluation, and of the one now possible, or None if none is.

    ``new_watermark``: emitted by this batch; None if it emitted none. A frontier never goes back.
    """
    previous = bolt_state.frontier
    if advance.close and node.bolt.settings.close_fires:
        current: int | None = FOREVER
    elif not node.event_time:
        current = _frontier_by_clock(node, advance.clock)
    else:
        current = _frontier_by_watermark(node, bolt_state) if node.admitted_by_tasks else new_watermark
    if current is not None and previous is not None and current < previous:
        current = None
    if (
        current == previous
        and node.event_time
        and not (node.without_queue or node.bolt.settings.watermark_moves_within_batch)
    ):
        current = None  # as in Storm, a tick that moves the watermark evaluates a queue
    return Frontiers(previous, current)


def _frontier_by_clock(node: WindowedNode, clock: int) -> int | None:
    if node.assigners:
        return int(node.closed_until_at(np.array([clock]))[0])
    return clock


def _frontier_by_watermark(node: WindowedNode, bolt_state: BoltState) -> int | None:
    """Returns the frontier in event time, as policies define it: windows that end up to it are closed. None if no
    window can be due."""
    settings = node.bolt.settings
    if settings.watermark_per_key:
        return None
    watermark, idle_closed_until = bolt_state.watermark.current, bolt_state.watermark.idle_closed_until
    if watermark is None:
        return None
    if node.assigners:
        closed_until = int(node.closed_until_at(np.array([watermark]))[0])
        return closed_until if idle_closed_until is None else max(closed_until, idle_closed_until)
    frontier = watermark - settings.allowed_lateness.micros
    if idle_closed_until is not None:
        frontier = max(frontier, node.due_at(idle_closed_until))
    by_window = settings.late_by is LateBy.WINDOW or node.admits_behind_watermark
    if by_window and isinstance(node.trigger, TimeTriggerPolicy):
        # Events that may still come belong to windows that end later: everything up to the last closed end is settled.
        return node.due_at(node.trigger.last_due(frontier))
    return frontier


def floor_of(node: WindowedNode, bolt_state: BoltState, clock: int) -> int:
    """Returns a lower bound on the event times still admitted, for every key. It follows from the arrivals so far
    (AZ-16) or, if all inputs are windowed bolts, from the time before which these emit nothing. NONE without a
    bound."""
    arrival, sources = node.bolt.settings.arrival, bolt_state.watermark.sources
    if not node.bolt.settings.watermark_per_key:
        return NONE
    if all(node.origins):
        return min(bolt_state.watermark.latest.get(stream, NONE) for stream in node.streams)
    if arrival is None or arrival.late is None or sources.latest_arrival is None:
        return NONE
    assert sources.latest_arrival_clock is not None
    return (
        estimated_arrival(
            sources.latest_arrival, sources.latest_arrival_clock, max(clock, sources.latest_arrival_clock)
        )
        - arrival.late.micros
    )


# Tells which tasks may have a window due at a frontier. Other tasks do not fire.


def has_work(node: WindowedNode, task: TaskState, arrived: UnadmittedSections | None, frontiers: Frontiers) -> bool:
    """True if a task may have work at the current frontier."""
    frontier = frontiers.current
    if frontier is None:
        return False
    if is_no_longer_needed(task.bolt.needed_until, frontier) or node.clock_is_due(frontiers.previous, frontier):
        return True
    return family_of(node).has_work(node, task, arrived, frontiers)


# One tick of a bolt: its watermark, its frontiers, and the tasks that may have windows due.


def tick(progress: BatchProgress, node: WindowedNode, advance: TimeAdvance, store: SegmentStore) -> list[FireItem]:
    """Advances the time of a bolt at the end of a batch: its watermark, its frontier and, with the first event, its
    anchor, all in the state of ``progress``.

    Returns the work items of its tasks that may have work.
    """
    progress.pass_to_tasks(node.name)
    bolt_state = progress.state.bolts[node.name]
    if node.admitted_by_tasks and node.bolt.settings.anchor == START and bolt_state.anchor is None:
        bolt_state.anchor = first_clock(progress.progress_of(node.name), advance)
    node = with_anchor(node, bolt_state.anchor)
    before, idle_closed_until = bolt_state.watermark.current, bolt_state.watermark.idle_closed_until
    marks = move_watermark(progress, node, advance, store) if node.event_time else None
    frontiers = frontiers_of(node, bolt_state, advance, progress.new_watermarks.get(node.name))
    sections, items = progress.unadmitted_of(node.name).by_task(), list[FireItem]()
    streams_end = frontiers.current == FOREVER
    latest = latest_seen(node, bolt_state, sections.values(), advance.clock) if streams_end else NONE
    new_frontier = _frontier_at_end(progress, node, advance) if streams_end else frontiers.current
    frontier_before_end = max(
        (each for each in (frontiers.previous, new_frontier) if each is not None), default=-FOREVER
    )
    floor = floor_of(node, bolt_state, advance.clock)
    end = BatchEnd(advance.clock, bolt_state.watermark.current, floor, latest, frontier_before_end)
    for number, state in enumerate(bolt_state.tasks):
        to_admit = ToAdmit(
            sections.get(number),
            marks,
            watermark=NONE if before is None else before,
            idle_closed_until=NONE if idle_closed_until is None else idle_closed_until,
        )
        due = has_work(node, state, to_admit.sections, frontiers)
        if due or to_admit.sections or _may_fire_otherwise(node, state, end):
            evaluated = frontiers if due else Frontiers(frontiers.previous, None)
            items.append(
                FireItem(node.name, number, state, evaluated, admit=to_admit, end=end, anchor=bolt_state.anchor)
            )
        elif end.floor > state.key_floor:  # even for a task that never had events
            bolt_state.tasks[number] = state.with_key_floor(end.floor)
    if new_frontier is not None:
        bolt_state.frontier = new_frontier
    return items


def _frontier_at_end(progress: BatchProgress, node: WindowedNode, advance: TimeAdvance) -> int | None:
    """Returns the frontier in event time that the watermark reaches when the streams end, before the end fires what is
    left. The bolts that read this one are told of it, because for them the end may not fire anything
    (``close_fires=False``)."""
    if not node.event_time:
        return None
    bolt_state = progress.state.bolts[node.name]
    advance_without_close = replace(advance, close=False)
    return frontiers_of(node, bolt_state, advance_without_close, progress.new_watermarks.get(node.name)).current


def _may_fire_otherwise(node: WindowedNode, task: TaskState, end: BatchEnd) -> bool:
    """True if a task that holds events may fire without reaching a frontier: by watermarks of its keys, or because a
    window fires early or again, by a trigger or after a repair."""
    settings = node.bolt.settings
    return bool(task.refs) and (
        settings.panes is not None or (settings.watermark_per_key and end.floor > task.key_floor)
    )


# Closing sets the frontier and the watermark of a bolt after its streams have ended.


def close(node: WindowedNode, bolt_state: BoltState) -> None:
    """Sets the frontier of a bolt whose streams have ended to the end of its last window, so that a later run continues
    there."""
    if node.bolt.settings.key_trigger is not None:
        return  # its windows fired early, so the frontier has not moved
    fired = [task.last_end for task in bolt_state.tasks]
    due = [node.due_at(reference) for reference in fired if reference is not None]
    known = [bolt_state.frontier, *bolt_state.watermark.latest.values(), *due]
    frontier = max((moment for moment in known if moment is not None), default=None)
    bolt_state.frontier = frontier
    if node.event_time:
        before = bolt_state.watermark.current
        bolt_state.watermark.current = frontier if before is None or frontier is None else max(before, frontier)
        if node.admitted_by_tasks and frontier is not None:
            bolt_state.watermark.idle_closed_until = frontier


# Shares independent windows of a task among workers that would otherwise be idle.


_LEAST_SHARED = 1_000
"""A task with fewer events is not shared: it is quick, and each share has to read all events of the task."""


def in_shares(topology: Graph, items: Sequence[FireItem], slots: int) -> list[FireItem]:
    """Returns the work items; an item of a bolt with independent windows is split into as many shares as there are
    slots for each item.

    The shares of a task follow one another, so their rows are in the order of the windows.
    """
    return [share for item in items for share in _shares(topology, item, max(1, slots // len(items)))]


def _shares(topology: Graph, item: FireItem, count: int) -> Iterator[FireItem]:
    can_share = item.frontiers.current is not None and topology.windowed[item.bolt].can_share_windows
    if not can_share or item.state.refs.needed < _LEAST_SHARED:
        yield item
        return
    for index in range(count):
        yield replace(item, share=Share(index, count))
