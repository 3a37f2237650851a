"""What can be told of a bolt after each batch, held against a checkpoint: ``windbolt state`` and ``windbolt why``.

Compared in every way of driving: the open windows, and the watermarks, last ends and caches of keys. Where it is asked
also the accounts, and the ids of what is pending; the window that ``why`` names, the number of its events, its reason,
the watermark that it needs, and the inputs that hold it; of all keys and of one, of the next window and of one that is
asked for.

Not compared: the sentences, since when an input holds the watermark, what the rules of idleness will do (all three:
``tests/topologies/why_waiting``); between which ends a time without a window lies; of windows by a number of events
which end is next; answers after the end of the streams.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

from tests.oracles.interpreter import panes
from tests.oracles.interpreter.kinds import Fixed
from tests.oracles.interpreter.own import Triggered
from tests.oracles.interpreter.values import FOREVER, Json, Key, Window, least, most
from topologies.checkpoints.blocking_inputs import Question, WhyAnswer, WhyReason
from windowing.durations import Count
from windowing.settings.rules import WatermarkCombiner

if TYPE_CHECKING:
    from tests.oracles.interpreter.bolt import Bolt

Place = tuple[str, str]
"""An input, and a partition of it; empty where there are none."""


@dataclass
class Said:
    """What a checkpoint says of a bolt after a batch."""

    keys: list[Json]
    open: list[Json] | None = None
    """The open windows, where they are asked for."""
    states: list[Json] | None = None
    """Those of a bolt without windows."""
    counts: dict[str, int] = field(default_factory=dict)
    pending: list[str] = field(default_factory=list)
    answers: list[tuple[Question, WhyAnswer]] | None = None
    """None where it is not asked; then the two before are not told either."""


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


@dataclass
class Waiting:
    """An open window with events."""

    shown: Json
    """As ``windbolt state`` lists it."""
    key: str | None
    end: int
    events: int
    ended: bool
    """Whether time has reached its end: if it fires again, then for late events."""
    needed: int
    """The watermark at which it fires at its end."""


@dataclass
class State:
    """What can be told of a bolt after a batch (monitoring, "Why has this window not fired?")."""

    bolt: Bolt
    """For its rules."""
    closed: bool
    without_end: bool
    """Whether an event is in windows without end, so that it is not said which of them are open."""
    counts: dict[str, int]
    pending: list[tuple[str, str | None, int]]
    """Id, key and time."""
    halves: int
    """The end edges that wait for their starts."""
    gaps: list[str]
    open: list[Waiting]
    keys: dict[Key, Json]
    """Their watermarks, the ends of their last windows with events, and the caches of the rules of their triggers."""
    watermark: int | None
    over: int | None
    """What ends up to here has been looked at for the last time; None where nothing has, and by key."""
    marks: dict[Place, int | None]
    """By input and partition, those that are idle left out: up to where they let the watermark go."""

    # ---- compared

    def unlike(self, said: Said, *, tasks_are_known: bool = True) -> Iterator[str]:
        """What was said wrongly."""
        by_count = None in self.bolt.kinds or self.bolt.rules.empty_windows_until is not None
        if said.open is not None and tasks_are_known and not by_count and not self.without_end:
            expected = sorted((window.shown for window in self.open), key=str)
            if said.open != expected:
                extra = [row for row in said.open if row not in expected]
                missing = [row for row in expected if row not in said.open]
                yield f"open: {extra} too many, {missing} missing"
        if not self.closed and not any(key and str(key[0]).startswith("task ") for key in self.keys):
            yield from self.unlike_keys(said.keys)
        if said.answers is None:
            return
        mine = sorted(name for name, _, _ in self.pending)
        if mine != [name for name in said.pending if name not in self.gaps]:
            yield f"pending events {said.pending}, expected {mine}"
        told = sum(name in self.gaps for name in said.pending)
        counts = {**said.counts, "pending": said.counts["pending"] - told}
        counts["unwindowed"] += told
        differ = {name: (counts.get(name, 0), number) for name, number in self.counts.items() if number != counts[name]}
        if differ:
            yield f"accounts (found, expected): {differ}"
        for question, answer in said.answers if not (self.closed or self.without_end) else ():  # why: "ended"
            yield from (f"{question}: {each}" for each in self.unlike_answer(question, answer))

    def unlike_keys(self, rows: list[Json]) -> Iterator[str]:
        """What is wrong of keys; those that have nothing to wait for need not be there."""
        for row in rows:
            known = self.keys.get(row["key"], {})
            wrong = [name for name, value in row.items() if name != "key" and value not in (None, known.get(name))]
            yield from (f"{name} of key {row['key']}: {row[name]}, expected {known.get(name)}" for name in wrong)
        caches = {row["key"] for row in rows if row["cache"] is not None}
        yield from (f"no cache of key {key}" for key, of in self.keys.items() if of.get("cache") and key not in caches)

    def unlike_answer(self, question: Question, answer: WhyAnswer) -> Iterator[str]:
        pending = len(self.pending) + self.halves
        if not pending <= answer.pending <= pending + len(self.gaps):
            yield f"pending {answer.pending}, expected {pending}"
        if None in self.bolt.kinds:
            yield from self.unlike_counted(question, answer)
        else:
            yield from self.unlike_timed(question, answer)

    def unlike_counted(self, question: Question, answer: WhyAnswer) -> Iterator[str]:
        """A window that has its last event waits with a part of them, and for the watermark to reach that event."""
        waits = [time for _, key, time in self.pending if question.key in (None, key)]
        if not isinstance(self.bolt.rules.slide, Count) or answer.reason in (WhyReason.NO_SUCH_WINDOW, WhyReason.OVER):
            return
        if answer.window_end is None:
            if not len(waits) <= (answer.waiting or 0) <= len(waits) + len(self.gaps):
                yield f"{answer.waiting} wait, expected {len(waits)}"
        elif answer.window_end not in waits or not answer.waiting:
            yield f"{answer.waiting} wait in {answer.window_end}, of {waits}"

    def unlike_timed(self, question: Question, answer: WhyAnswer) -> Iterator[str]:
        of_key = [window for window in self.open if question.key in (None, window.key)]
        ends = [window.end for window in of_key if not window.ended] or [window.end for window in of_key]
        end = min(ends, default=None) if question.window is None else question.window
        if end is not None and end >= FOREVER:
            return
        chosen = [window for window in of_key if window.end == end]
        if not chosen:
            yield from self.unlike_none(question, answer)
            return
        waits, reason = sum(window.events for window in chosen), self.reason_of(chosen[0])
        found = (answer.window_end, answer.waiting, answer.reason)
        if found != (end, waits, reason):
            yield f"(window, events, reason) {found}, expected {(end, waits, reason)}"
        elif reason in (WhyReason.NO_WATERMARK, WhyReason.WATERMARK, WhyReason.TICK):
            held = {(each.input.removeprefix("events."), each.partition): each.watermark for each in answer.holders}
            if (answer.needed, held) != (chosen[0].needed, self.holders):
                yield f"needs {answer.needed}, held by {held}, expected {chosen[0].needed}, {self.holders}"

    def unlike_none(self, question: Question, answer: WhyAnswer) -> Iterator[str]:
        """No open window with events is asked for."""
        if question.window is None:
            expected = {WhyReason.NOTHING}
        elif self.over is not None and question.window <= self.over:
            expected = {WhyReason.OVER, WhyReason.FIRED, WhyReason.NO_SUCH_WINDOW}
        else:
            expected = {WhyReason.EMPTY, WhyReason.NO_SUCH_WINDOW, WhyReason.FIRED}
        if answer.reason not in expected:
            yield f"reason {answer.reason}, expected one of {sorted(expected)}"
        if answer.waiting and answer.reason is not WhyReason.FIRED:
            yield f"{answer.waiting} wait, expected none"

    def reason_of(self, window: Waiting) -> WhyReason:
        if not self.bolt.event_time:
            return WhyReason.CLOCK
        if self.bolt.times.per_key:
            return WhyReason.KEYS
        if window.ended:
            return WhyReason.FIRED
        if self.watermark is None and all(mark is None for mark in self.holders.values()):
            return WhyReason.NO_WATERMARK
        enough = [mark is not None and mark >= window.needed for mark in self.deciding.values()]
        any_is_enough = self.bolt.rules.watermark_combine is WatermarkCombiner.MAX
        return WhyReason.TICK if (any(enough) if any_is_enough else all(enough)) else WhyReason.WATERMARK

    @property
    def deciding(self) -> dict[Place, int | None]:
        """The marks of inputs that make watermarks themselves."""
        rules = self.bolt.rules
        imports = {} if rules.watermark_imports_beside else rules.watermark_imports or {}
        return {place: mark for place, mark in self.marks.items() if place[0] not in imports}

    @property
    def holders(self) -> dict[Place, int | None]:
        """The inputs and partitions that decide where the watermark is."""
        marks = self.deciding.values()
        if self.bolt.rules.watermark_combine is WatermarkCombiner.MAX:
            held = most(*marks)
        else:
            held = None if None in marks else least(*marks)
        return {place: mark for place, mark in self.deciding.items() if mark == held}


# ---- what the interpreter knows


def state_of(bolt: Bolt) -> State:
    over = bolt.closed_until() if bolt.event_time else bolt.now - int(bolt.waits_for_clock)
    formed = bolt.formed.values()
    return State(
        bolt,
        closed=bolt.closed,
        without_end=any(isinstance(windows, Fixed) and windows.lasting for windows in formed),
        counts=bolt.counts(),
        pending=[
            (event.id, text_of(event.key), event.time) for event in bolt.fates()["pending"] if event not in bolt.half
        ],
        halves=len(bolt.half),
        gaps=[event.id for event in bolt.in_gaps()],
        open=[waiting(bolt, window) for windows in formed for window in windows.listed()],
        keys=known_of_keys(bolt),
        watermark=bolt.times.watermark() if bolt.event_time else None,
        over=None if bolt.times.per_key and bolt.event_time else over,
        marks=dict(marks_of(bolt)),
    )


def text_of(key: Key) -> str | None:
    """A key as one asks for it: values with commas between them."""
    return None if key is None else ",".join(map(str, key))


def waiting(bolt: Bolt, window: Window) -> Waiting:
    several = bolt.rules.panes is not None and not (bolt.rules.panes.early is None and bolt.rules.panes.late is None)
    lateness = 0 if several else bolt.rules.allowed_lateness.micros
    needed = window.end + lateness + int(bolt.waits if bolt.event_time else bolt.waits_for_clock)
    shown = {
        "key": [each for each in window.key or () if not str(each).startswith("task ")],
        "start": window.start,
        "end": window.end if window.end < FOREVER else None,
        "kind": window.place,
        "events": len(window.events),
        "firings": window.fired,
    }
    ended = several and panes.has_ended(bolt, window)
    return Waiting(shown, text_of(window.key), window.end, len(window.events), ended, needed)


def known_of_keys(bolt: Bolt) -> dict[Key, Json]:
    keys = [key for key in bolt.times.watermarks if bolt.times.per_key and key is not None]
    found: dict[Key, Json] = {key: {"watermark": bolt.times.watermark(key)} for key in keys}
    for key, end in bolt.last_ends.items():
        found.setdefault(key, {})["last_end"] = end
    for (key, _), windows in bolt.formed.items():
        if isinstance(windows, Triggered):
            found.setdefault(key, {})["cache"] = dict(windows.cache)
    return found


def marks_of(bolt: Bolt) -> Iterator[tuple[Place, int | None]]:
    times = bolt.times
    for place, mark in times.marks.items() if not times.per_key else ():
        if not times.is_silent(place):
            made = None if times.at_ticks and times.is_inner(place) else mark.mark
            if times.at_ticks and mark.latest is not None and times.makes_marks(place):  # at the next tick
                made = most(made, mark.latest - times.rules_of(place).delay)
            yield (place[0], (place[1] or "").removeprefix("=").replace("None", "null")), made
