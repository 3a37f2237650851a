"""What a checkpoint says when asked, held against what the interpreter has open then: ``windbolt why``, and accounts.

Compared after each batch: the accounts and the ids of what is pending; the window that ``why`` names, the number of
its events, its reason, the watermark that it needs, and the inputs that hold it; of all keys and of one, of the next
window and of one that is asked for. The open windows, and the watermarks, last ends and caches of keys, are compared
in every way of driving.

Not compared: the sentences, since when an input holds the watermark, what the rules of idleness will do (all three:
``tests/topologies/why_waiting``); between which ends a time without a window lies; of windows by a number of events
which end is next; answers after the end of the streams.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

from manager.storage.manifest import Manifest
from manager.storage.segments import SegmentStore
from tests.oracles.interpreter import panes
from tests.oracles.interpreter.values import FOREVER, Key, Window
from topologies.checkpoints.blocking_inputs import Question, WhyAnswer, WhyReason
from topologies.checkpoints.state_tables import event_table
from topologies.checkpoints.stored_tasks import TaskReader
from topologies.checkpoints.why import Explanation, answered
from topologies.graph.bolt_rules import BoltRules
from windowing.durations import Count
from windowing.settings.rules import WatermarkCombiner

if TYPE_CHECKING:
    from tests.oracles.interpreter.bolt import Bolt
    from topologies.graph.graph import WindowedNode


# ---- what the product says


@dataclass
class Said:
    """Answers of the product after a batch."""

    counts: dict[str, int]
    pending: list[str]
    answers: list[tuple[Question, WhyAnswer]]


def said(
    manifest: Manifest,
    store: SegmentStore,
    rules: dict[str, BoltRules],
    readers: list[TaskReader],
    bolt: WindowedNode,
    asked: Sequence[Question],
) -> Said:
    """Asks a checkpoint of a bolt, as ``windbolt why`` and ``windbolt state`` do."""
    state, mine = manifest.bolts[bolt.name], rules[bolt.name]
    rows = event_table(readers, mine.inputs, bolt.schema).to_pylist()
    answers = [(each, answered(Explanation(each, rules, [manifest], store, None))) for each in asked]
    return Said(
        state.accounts.totals(sum(state.pending)),
        sorted(row["id"] for row in rows if row["pending"] and not row["waits_for_start"]),
        answers,
    )


def questions(
    chance: Random, bolt: str, keys: Sequence[str], ends: Sequence[int], past: Sequence[int]
) -> Iterator[Question]:
    """The next window, of all keys and of one; one that is open, one that was, and one a microsecond beside it."""
    key = chance.choice([None, *keys])
    yield Question(bolt, None, None)
    if key is not None:
        yield Question(bolt, key, None)
    for end in [*chance.sample(list(ends), min(len(ends), 2)), *chance.sample(list(past), min(len(past), 1))]:
        yield Question(bolt, chance.choice([None, key]), end)
        yield Question(bolt, None, end + chance.choice([1, -1]))


# ---- what the interpreter knows


@dataclass
class Waiting:
    """An open window with events, as it is after a batch."""

    key: str | None
    end: int
    events: int
    ended: bool
    """Whether time has reached its end: if it fires again, then for late events."""
    needed: int
    """The watermark at which it fires at its end."""


@dataclass
class Known:
    """What can be told of a bolt after a batch."""

    closed: bool
    counts: dict[str, int]
    pending: list[tuple[str, str | None, int]]
    """Id, key and time."""
    halves: int
    """The end edges that wait for their starts."""
    gaps: list[str]
    open: list[Waiting]
    watermark: int | None
    over: int | None
    """What ends up to here has been looked at for the last time; None where nothing has, and by key."""
    marks: dict[tuple[str, str], int | None]
    """By input and partition, those that are idle left out: up to where they let the watermark go."""
    deciding: set[tuple[str, str]]
    """Those of them that make watermarks themselves."""


def known(bolt: Bolt) -> Known:
    """What can be told of it now (monitoring, "Why has this window not fired?")."""
    windows = [window for each in bolt.formed.values() for window in each.listed()]
    left_out = {*bolt.unwindowed(), *bolt.thrown_away(), *bolt.half}
    waits = [event for event in bolt.accepted if event not in bolt.windowed and event not in left_out]
    marks = dict(marks_of(bolt))
    imports = {} if bolt.rules.watermark_imports_beside else bolt.rules.watermark_imports or {}
    return Known(
        closed=bolt.closed or bolt.without_end,
        counts=bolt.counts(),
        pending=[(event.id, text_of(event.key), event.time) for event in waits],
        halves=len(bolt.half),
        gaps=[event.id for event in bolt.in_gaps()],
        open=[waiting(bolt, window) for window in windows],
        watermark=bolt.times.watermark() if bolt.event_time else None,
        over=over_until(bolt),
        marks=marks,
        deciding={place for place in marks if place[0] not in imports},
    )


def text_of(key: Key) -> str | None:
    """A key as one asks for it: values with commas between them."""
    return None if key is None else ",".join(map(str, key))


def waiting(bolt: Bolt, window: Window) -> Waiting:
    several = bolt.rules.panes is not None and not (bolt.rules.panes.early is None and bolt.rules.panes.late is None)
    lateness = 0 if several else bolt.rules.allowed_lateness.micros
    needed = window.end + lateness + int(bolt.waits if bolt.event_time else bolt.waits_for_clock)
    ended = several and panes.has_ended(bolt, window)
    return Waiting(text_of(window.key), window.end, len(window.events), ended, needed)


def over_until(bolt: Bolt) -> int | None:
    if bolt.times.per_key and bolt.event_time:
        return None
    if not bolt.event_time:
        return bolt.now - int(bolt.waits_for_clock)
    return bolt.closed_until()


def marks_of(bolt: Bolt) -> Iterator[tuple[tuple[str, str], int | None]]:
    times, rules = bolt.times, bolt.rules
    timeout = rules.partition_idle_timeout
    found = (
        {
            **{(stream, ""): mark for stream, mark in times.awaited.items()},
            **{
                (stream, (part or "").removeprefix("=").replace("None", "null")): mark
                for (stream, part), mark in times.marks.items()
            },
        }
        if not times.per_key
        else {}
    )
    for place, mark in found.items():
        if timeout is None or times.looked_at - mark.arrived < timeout.micros:
            marks = [] if mark.mark is None or (times.at_ticks and times.is_inner(place)) else [mark.mark]
            if times.at_ticks and mark.latest is not None and times.makes_marks(place):  # at the next tick
                marks.append(mark.latest - times.rules_of(place).delay)
            yield place, max(marks, default=None)


# ---- compared


def unlike_keys(rows: Sequence[dict[str, Any]], expected: Mapping[Key, dict[str, Any]] | None) -> Iterator[str]:
    """What a checkpoint has wrongly of keys; those that have nothing to wait for need not be there."""
    if expected is None:
        return
    for row in rows:
        known = expected.get(row["key"], {})
        wrong = [name for name, value in row.items() if name != "key" and value not in (None, known.get(name))]
        yield from (f"{name} of key {row['key']}: {row[name]}, expected {known.get(name)}" for name in wrong)
    caches = {row["key"] for row in rows if row["cache"] is not None}
    yield from (f"no cache of key {key}" for key, known in expected.items() if known.get("cache") and key not in caches)


def wrong(bolt: Bolt, state: Known, found: Said) -> Iterator[str]:
    """What was said wrongly after a batch."""
    mine = sorted(name for name, _, _ in state.pending)
    if mine != [name for name in found.pending if name not in state.gaps]:
        yield f"pending events {found.pending}, expected {mine}"
    told = sum(name in state.gaps for name in found.pending)
    counts = {**found.counts, "pending": found.counts["pending"] - told}
    counts["unwindowed"] += told
    differ = {name: (counts.get(name, 0), number) for name, number in state.counts.items() if number != counts[name]}
    if differ:
        yield f"accounts (found, expected): {differ}"
    if state.closed:
        return  # why: "ended"
    for question, answer in found.answers:
        yield from (f"{question}: {each}" for each in unlike(bolt, state, question, answer))


def unlike(bolt: Bolt, state: Known, question: Question, answer: WhyAnswer) -> Iterator[str]:
    """How an answer differs from what is known."""
    pending = len(state.pending) + state.halves
    if not pending <= answer.pending <= pending + len(state.gaps):
        yield f"pending {answer.pending}, expected {pending}"
    if bolt.counts_events or any(kind is None for kind in bolt.kinds):
        yield from unlike_counted(bolt, state, question, answer)
    else:
        yield from unlike_timed(bolt, state, question, answer)


def unlike_counted(bolt: Bolt, state: Known, question: Question, answer: WhyAnswer) -> Iterator[str]:
    """A window that has its last event waits with a part of them, and for the watermark to reach that event."""
    waits = [time for _, key, time in state.pending if question.key in (None, key)]
    if not isinstance(bolt.rules.slide, Count) or answer.reason in (WhyReason.NO_SUCH_WINDOW, WhyReason.OVER):
        return
    if answer.window_end is None:
        if not len(waits) <= (answer.waiting or 0) <= len(waits) + len(state.gaps):
            yield f"{answer.waiting} wait, expected {len(waits)}"
    elif answer.window_end not in waits or not answer.waiting:
        yield f"{answer.waiting} wait in {answer.window_end}, of {waits}"


def unlike_timed(bolt: Bolt, state: Known, question: Question, answer: WhyAnswer) -> Iterator[str]:
    of_key = [window for window in state.open if question.key in (None, window.key)]
    if question.window is None:
        ends = [window.end for window in of_key if not window.ended] or [window.end for window in of_key]
        end = min(ends, default=None)
    else:
        end = question.window
    if end is not None and end >= FOREVER:
        return
    chosen = [window for window in of_key if window.end == end]
    if not chosen:
        yield from unlike_none(bolt, state, question, answer)
        return
    if answer.window_end != end:
        yield f"window {answer.window_end}, expected {end}"
        return
    waits = sum(window.events for window in chosen)
    if answer.waiting != waits:
        yield f"{answer.waiting} wait in {end}, expected {waits}"
    reason = reason_of(bolt, state, chosen[0])
    if answer.reason is not reason:
        yield f"reason {answer.reason} of {end}, expected {reason}"
    elif reason in (WhyReason.NO_WATERMARK, WhyReason.WATERMARK, WhyReason.TICK):
        if answer.needed != chosen[0].needed:
            yield f"needs {answer.needed}, expected {chosen[0].needed}"
        held = {(each.input.removeprefix("events."), each.partition): each.watermark for each in answer.holders}
        expected = holders(bolt, state)
        if held != expected:
            yield f"held by {held}, expected {expected}"


def unlike_none(bolt: Bolt, state: Known, question: Question, answer: WhyAnswer) -> Iterator[str]:
    """No open window with events is asked for."""
    if question.window is None:
        expected = {WhyReason.NOTHING}
    elif state.over is not None and question.window <= state.over:
        expected = {WhyReason.OVER, WhyReason.FIRED, WhyReason.NO_SUCH_WINDOW}
    else:
        expected = {WhyReason.EMPTY, WhyReason.NO_SUCH_WINDOW, WhyReason.FIRED}
    if answer.reason not in expected:
        yield f"reason {answer.reason}, expected one of {sorted(expected)}"
    if answer.waiting and answer.reason is not WhyReason.FIRED:
        yield f"{answer.waiting} wait, expected none"


def reason_of(bolt: Bolt, state: Known, window: Waiting) -> WhyReason:
    if not bolt.event_time:
        return WhyReason.CLOCK
    if bolt.times.per_key:
        return WhyReason.KEYS
    if window.ended:
        return WhyReason.FIRED
    marks = [state.marks[place] for place in state.deciding]
    if state.watermark is None and all(mark is None for mark in holders(bolt, state).values()):
        return WhyReason.NO_WATERMARK
    enough = [mark is not None and mark >= window.needed for mark in marks]
    most = bolt.rules.watermark_combine is WatermarkCombiner.MAX
    return WhyReason.TICK if (any(enough) if most else all(enough)) else WhyReason.WATERMARK


def holders(bolt: Bolt, state: Known) -> dict[tuple[str, str], int | None]:
    """The inputs and partitions that decide where the watermark is."""
    marks = {place: mark for place, mark in state.marks.items() if place in state.deciding}
    told = [mark for mark in marks.values() if mark is not None]
    if bolt.rules.watermark_combine is WatermarkCombiner.MAX and told:
        least: Any = max(told)
    else:
        least = None if len(told) < len(marks) else min(told, default=None)
    return {place: mark for place, mark in marks.items() if mark == least}
