"""What a page shows of a windowed bolt: its time, its accounts and its open windows, from the state after a batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from manager.storage.manifest import BoltState, Manifest
from manager.storage.segments.segments import SegmentStore
from manager.storage.task_state import AssignedState, TriggeredState
from manager.watermarks.arrival_times import input_of
from policies.marks import NONE
from topologies.checkpoints.notes.timing_note import BoltTiming
from topologies.why_waiting.explanation import Explanation
from topologies.why_waiting.held_watermark import holders_of, marks_of
from topologies.why_waiting.question import Question
from windowing.time.timestamps import EARLIEST, LATEST

MOST_MARKS = 200
"""Of more inputs and partitions only those that are furthest behind are shown, and the number of the others."""
MOST_WINDOWS = 2_000
"""Number of windows that are looked at for those that are open."""
MOST_ROWS = 200_000
"""Of more events those in each open window are not counted: they would have to be read."""


def bolt_view(name: str, timing: BoltTiming, kept: Sequence[Manifest], since: Mapping[str, int]) -> dict[str, Any]:
    """A bolt as plain JSON; times in microseconds. ``kept``: the manifests, the last one last; ``since``: by input or
    partition, the clock since which it has not moved, where that is known."""
    state, clock = kept[-1].bolts[name], kept[-1].clock
    current = state.watermark.current if timing.event_time else None
    watermark = known(current)
    marks = _marks(name, timing, kept, since) if timing.event_time and not timing.per_key else []
    return {
        "windows": timing.windows,
        "event_time": timing.event_time,
        "per_key": timing.per_key,
        "key": timing.key,
        "watermark": watermark,
        "ended": kept[-1].closing and not sum(state.pending),
        "delay": None if watermark is None or clock is None else clock - watermark,
        "accounts": state.accounts.totals(sum(state.pending)),
        "streams": state.accounts.of_streams(state.pending),
        "fired": state.fired,
        "suppressed": state.suppressed,
        "emitted": state.emitted,
        "counters": state.counters,
        "length": timing.length,
        "marks": marks[:MOST_MARKS],
        "more_marks": max(len(marks) - MOST_MARKS, 0),
    }


def known(time: int | None) -> int | None:
    """A time that can be shown; None where there is none, or it is the end of time."""
    return None if time is None or not EARLIEST <= time <= LATEST else time


def _marks(name: str, timing: BoltTiming, kept: Sequence[Manifest], since: Mapping[str, int]) -> list[dict[str, Any]]:
    """The inputs and partitions: those that have delivered nothing, then those that are furthest behind; those that
    are idle last."""
    state = kept[-1].bolts[name]
    sources = state.watermark.sources
    holding = {(each.input, each.partition): each for each in holders_of(name, timing, kept)}
    idle = {source: sources.marks[source].mark for source in sources.idle if source in sources.marks}
    rows = []
    for source, mark in [*marks_of(timing, state).items(), *idle.items()]:
        stream = input_of(source)
        partition = source[len(stream) + 1 :]
        holder = holding.get((stream, partition))
        stands = sources.seen_at.get(source, since.get(source, None if holder is None else holder.since))
        rows.append(
            {
                "input": stream,
                "partition": partition,
                "at": known(None if mark is None or mark <= NONE else mark),
                "since": stands,
                "since_exactly": source in sources.seen_at,
                "idle": source in idle,
                "holds": holder is not None and source not in idle,
                "origins": timing.origins.get(stream, []),
            }
        )
    return sorted(rows, key=lambda row: (row["idle"], row["at"] is not None, row["at"] or 0))


def open_view(
    name: str, timing: BoltTiming, kept: Sequence[Manifest], store: SegmentStore, first_output: int | None
) -> dict[str, Any]:
    """The open windows of a bolt as plain JSON: ``windows`` are (end, events) of those that begin at regular times,
    None where they are not counted; ``waiting`` the windows of keys that a trigger fires; ``next`` when the next one is
    due, or the least end of those whose end depends on their events."""
    state = kept[-1].bolts[name]
    rows = sum(task.refs.needed for task in state.tasks)
    regular = timing.slide is not None and timing.length is not None and not timing.trigger
    seen: dict[str, Any] = {"windows": None, "past_end": timing.past_end, "rows": rows, **_other_windows(state)}
    if regular and not rows:
        seen["windows"] = []
    elif regular and rows <= MOST_ROWS:
        explained = Explanation(Question(name, None, None), {name: timing}, kept, store, first_output)
        seen["windows"] = explained.waiting_windows(MOST_WINDOWS)
    return seen


def _other_windows(state: BoltState) -> dict[str, Any]:
    triggered = [task.windows for task in state.tasks if type(task.windows) is TriggeredState]
    ends = [
        task.windows.next_end
        for task in state.tasks
        if isinstance(task.windows, AssignedState) and task.windows.next_end is not None
    ]
    due = [windows.next_due for windows in triggered if windows.next_due is not None]
    return {
        "waiting": sum(windows.open_windows for windows in triggered) if triggered else None,
        "next": known(min(due or ends, default=None)),
        "by_trigger": bool(triggered),
    }
