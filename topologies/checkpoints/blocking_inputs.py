"""The inputs that block a bolt's watermark, described in sentences, and the stored events that wait for it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa

from manager.storage.manifest import BoltState, Manifest
from manager.storage.segments import SegmentStore
from manager.watermarks import input_of, shown_partition, source_in_words
from policies.assigners import AlignedWindows
from policies.assigners.aligned import LiveEvents
from policies.watermarks import NONE, MarkState
from topologies.checkpoints.stored_tasks import evaluated_limit, has_key, readers_of
from topologies.graph.bolt_rules import BoltRules
from windowing.calls import checked
from windowing.durations import Duration
from windowing.reprs import one_line
from windowing.timestamps import FOREVER, show

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from policies.assigners.aligned import Limit


# A question about a window of a checkpoint.


@dataclass(frozen=True)
class Question:
    """Question about a window in a checkpoint."""

    bolt: str
    key: str | None
    window: int | None
    """The end of the window in microseconds; None: the next window."""


def events_in_words(count: int) -> str:
    """Returns a number of events: ``1 event``, ``2,000 events``."""
    return "1 event" if count == 1 else f"{count:,} events"


# The answer to why a window has not fired.


class WhyReason(StrEnum):
    """Reason why a window waits, or no longer waits."""

    NOT_STARTED = "no batch has been committed"
    ENDED = "the streams have ended"
    NOTHING = "no event waits"
    NO_WATERMARK = "an input has delivered nothing"
    WATERMARK = "the watermark has not reached it"
    TICK = "the next tick"
    CLOCK = "the clock has not reached it"
    COUNT = "it fires by the number of events"
    TRIGGER = "a trigger of keys fires it"
    POLICY = "a policy of the user's own fires it"
    KEYS = "each key has a watermark of its own"
    EMPTY = "no event is in it"
    SUPPRESSED = "it ends before the first output"
    FIRED = "it has fired"
    OVER = "its time is over"
    NO_SUCH_WINDOW = "no window ends there"


@dataclass(frozen=True)
class BlockingInput:
    """An input, or a partition of an input, that blocks the watermark."""

    input: str
    partition: str
    """Name of the partition; empty if partitions have no marks of their own."""
    watermark: int | None
    """The watermark that this input alone would allow, in microseconds; None if it has delivered nothing."""
    source: str
    """The key of its mark in the state: the input, and after a tab the partition."""
    since: int | None
    """The clock from which on it has not moved, in microseconds; None if the checkpoint does not tell."""
    since_exactly: bool
    """True if it last delivered at ``since``; False if it may have stopped earlier."""

    def to_json(self) -> dict[str, Any]:
        """Returns plain JSON values; times in ISO 8601."""
        return {
            "input": self.input,
            "partition": self.partition or None,
            "watermark": _iso_or_none(self.watermark),
            "since": _iso_or_none(self.since),
            "since_exactly": self.since_exactly,
        }


@dataclass(frozen=True, kw_only=True)
class WhyAnswer:
    """Why a window of a bolt has not fired; times in microseconds."""

    bolt: str
    reason: WhyReason
    sentences: tuple[str, ...]
    """The answer in words."""
    window_end: int | None = None
    key: str | None = None
    clock: int | None = None
    """Clock of the last batch."""
    watermark: int | None = None
    needed: int | None = None
    """The watermark at which the window fires."""
    holders: tuple[BlockingInput, ...] = ()
    """Inputs that block the watermark."""
    idle: tuple[str, ...] = ()
    """The inputs and partitions that do not block it, because they were silent for longer than their timeout."""
    waiting: int | None = None
    """Number of events in the window so far; None if the checkpoint does not tell."""
    pending: int = 0
    """Number of events of the bolt that are in no window yet."""

    def __repr__(self) -> str:
        return one_line(f"<WhyAnswer of {self.bolt!r}: {self.reason}>")

    def __str__(self) -> str:
        return "\n".join(
            textwrap.fill(sentence, 80, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
            for sentence in self.sentences
        )

    @checked
    def to_json(self) -> dict[str, Any]:
        """Returns plain JSON values; times in ISO 8601."""
        short = None if self.needed is None or self.watermark is None else max(self.needed - self.watermark, 0) / 1e6
        return {
            "bolt": self.bolt,
            "reason": self.reason.name.lower(),
            "words": list(self.sentences),
            "window_end": _iso_or_none(self.window_end),
            "key": self.key,
            "clock": _iso_or_none(self.clock),
            "watermark": _iso_or_none(self.watermark),
            "needed": _iso_or_none(self.needed),
            "short_seconds": short,
            "holders": [holder.to_json() for holder in self.holders],
            "idle": list(self.idle),
            "waiting": self.waiting,
            "pending": self.pending,
        }


def _iso_or_none(time: int | None) -> str | None:
    return None if time is None else show(time)


# The inputs that block a bolt's watermark: the mark of each input and partition, and since when it has not moved.


def marks_of(rules: BoltRules, state: BoltState) -> dict[str, int | None]:
    """Returns the watermark that each input or partition alone would allow, in microseconds. None if it has delivered
    too few events to move the watermark. Idle inputs are left out. If ticks move watermarks, it is the watermark of the
    next tick."""
    if rules.follows_events:
        marks: dict[str, int | None] = {
            source: _allowed(rules, source, mark)
            for source, mark in state.watermark.sources.marks.items()
            if source not in state.watermark.sources.idle
        }
        heard = {input_of(source) for source in (*marks, *state.watermark.sources.idle)}
        return marks | {name: None for name in rules.inputs if name not in heard}
    latest = state.watermark.latest
    return {name: latest[name] - rules.delay if name in latest else None for name in rules.inputs}


def _allowed(rules: BoltRules, source: str, state: MarkState) -> int | None:
    """Returns the watermark of a source at the next tick, in microseconds; None before its first mark."""
    name = input_of(source)
    moves, mark = rules.mark_rules[name], state.mark
    at_ticks = moves["count"] is None and moves["span"] is None
    if at_ticks and state.latest > NONE and name not in rules.imports:
        mark = max(NONE if rules.origins.get(name) else mark, state.latest - (moves["delay"] or 0))
    return None if mark <= NONE else mark


def own_marks_of(rules: BoltRules, state: BoltState) -> dict[str, int | None]:
    """Returns the marks of the inputs and partitions whose own events move the watermark, without inputs that import a
    watermark."""
    marks = marks_of(rules, state)
    return {source: mark for source, mark in marks.items() if input_of(source) not in rules.imports}


def blocking_inputs_of(bolt: str, rules: BoltRules, manifests: Sequence[Manifest]) -> list[BlockingInput]:
    """Returns the inputs that block the watermark: those that have delivered nothing; else those furthest behind, or
    furthest ahead if the watermark is the greatest mark. ``manifests``: the manifests, in order."""
    state = manifests[-1].bolts[bolt]
    marks = own_marks_of(rules, state)
    known_marks = [mark for mark in marks.values() if mark is not None]
    if rules.greatest and known_marks:
        blocking_mark: int | None = max(known_marks)
    else:
        blocking_mark = None if len(known_marks) < len(marks) else min(known_marks, default=None)
    return [
        BlockingInput(input_of(source), shown_partition(source), mark, source, *_since(bolt, rules, source, manifests))
        for source, mark in sorted(marks.items())
        if mark == blocking_mark
    ]


def _since(bolt: str, rules: BoltRules, source: str, manifests: Sequence[Manifest]) -> tuple[int | None, bool]:
    """Returns the clock from which on a source has not moved, and True if that is exact. Else it is the clock of the
    earliest kept batch with the same mark."""
    sources = manifests[-1].bolts[bolt].watermark.sources
    if source in sources.last_event_clocks:
        return sources.last_event_clocks[source], True
    mark, since = marks_of(rules, manifests[-1].bolts[bolt])[source], None
    for manifest in reversed(manifests):
        if bolt not in manifest.bolts or marks_of(rules, manifest.bolts[bolt]).get(source) != mark:
            break
        since = manifest.clock
    return since, False


# The effect of a bolt's idle rules on a waiting window.


def idle_rules(
    rules: BoltRules, state: BoltState, holders: Sequence[BlockingInput], end: int | None, needed: int | None
) -> Iterator[str]:
    """Yields a sentence for each idle rule. ``end``: end of the window; ``needed``: the watermark at which it fires."""
    sources = state.watermark.sources
    if rules.partition_idle_timeout is not None:
        for holder in holders:
            since = sources.started if holder.since is None else holder.since
            if since is not None and holder.input not in rules.origins:
                moment = show(since + rules.partition_idle_timeout)
                yield (
                    f"If {input_in_words(holder)} stays silent, it no longer holds the watermark from {moment} on "
                    f"(by the clock, idle for {Duration(rules.partition_idle_timeout)}), at the next batch then."
                )
    if rules.idle_timeout is not None and sources.last_event_clock is not None and end is not None:
        begins = max(end, sources.last_event_clock) if rules.idle_waits_for_end else sources.last_event_clock
        moment = show(max(begins + rules.idle_timeout, end))
        yield (
            f"If no input delivers anything, the idle timeout of {Duration(rules.idle_timeout)} closes the window at "
            f"{moment} by the clock, at the next batch then, provided that it holds events."
        )
    if rules.late_tolerance is not None and sources.latest_arrival is not None and needed is not None:
        assert sources.latest_arrival_clock is not None
        moment = show(needed + rules.late_tolerance - sources.latest_arrival + sources.latest_arrival_clock)
        yield f"The watermark follows the clock while nothing arrives: it is there at {moment}, at the next batch then."


def input_in_words(holder: BlockingInput) -> str:
    """Returns the name of an input, with its partition."""
    return f"input {holder.input!r}" + (f", partition {holder.partition!r}" if holder.partition else "")


# The inputs that block a bolt's watermark, in sentences: its own inputs and partitions, and those of the bolts before
# it.


@dataclass(frozen=True)
class BlockingInputs:
    """The bolts of a checkpoint: their rules, and their states after each kept batch."""

    all_rules: Mapping[str, BoltRules]
    manifests: Sequence[Manifest]

    def sentences(self, bolt: str, end: int | None, needed: int | None) -> Iterator[str]:
        """Yields sentences about the inputs that block a bolt's watermark, and about the effect of its idle rules.
        ``end``: the end of the waiting window; ``needed``: the watermark at which it fires."""
        rules, state, holders = self.all_rules[bolt], self._state(bolt), self.holders_of(bolt)
        lagging = [mark for mark in own_marks_of(rules, state).values() if mark is None or mark < (needed or mark)]
        for holder in holders:
            sentence = _holder_in_words(holder, rules, state)
            if needed is not None and _has_delivered(holder, state) and not rules.origins.get(holder.input):
                sentence += _what_moves(holder, rules, state, needed, alone=len(lagging) < 2)
            yield sentence
            yield from self._bolts_before_in_words(rules, holder)
        yield from map(_upper, _imports(rules))
        idle = state.watermark.sources.idle
        if idle:
            left_out = ", ".join(repr(source_in_words(name)) for name in idle)
            yield f"Idle, and therefore not waited for: {left_out}."
        if any(self._has_idle_rule(name) for name in self._upstream(bolt)):
            yield from idle_rules(rules, state, holders, end, needed)
        else:
            yield (
                "No rule of idleness is set: only later events move the watermark, or the end of the input, which "
                "closes all windows (a run without --keep-open and --every)."
            )

    def holders_of(self, bolt: str) -> tuple[BlockingInput, ...]:
        """Returns the inputs that block a bolt's watermark."""
        return tuple(blocking_inputs_of(bolt, self.all_rules[bolt], self.manifests))

    def _state(self, bolt: str) -> BoltState:
        return self.manifests[-1].bolts[bolt]

    def _bolts_before_in_words(self, rules: BoltRules, holder: BlockingInput) -> Iterator[str]:
        """Yields sentences about an input from other bolts: the bolt that is furthest behind, and the inputs that block
        it."""
        origins = [name for name in rules.origins.get(holder.input, ()) if name in self.all_rules]
        if not origins:
            return
        marks = {name: self._state(name).watermark.current for name in origins}
        name = min(origins, key=lambda each: (marks[each] is not None, marks[each] or 0))
        watermark, rules_before = marks[name], self.all_rules[name]
        yield (
            f"{_upper(input_in_words(holder))} is what bolt {name!r} emits, and time there follows the watermark of "
            f"{name!r}, which {'does not exist yet' if watermark is None else f'is at {show(watermark)}'}."
        )
        if not rules_before.event_time or rules_before.per_key:
            yield (
                f"Bolt {name!r} follows the clock: its watermark moves with each batch."
                if not rules_before.event_time
                else f"In bolt {name!r} each key has a watermark of its own, and the least of them counts here."
            )
            return
        holders = self.holders_of(name)
        for each in holders:
            yield f"For {name!r}: {_holder_in_words(each, rules_before, self._state(name))}"
            yield from self._bolts_before_in_words(rules_before, each)
        yield from (f"For {name!r}: {_upper(words)}" for words in _imports(rules_before))
        if self._has_idle_rule(name):
            yield from (
                f"For {name!r}: {words}" for words in idle_rules(rules_before, self._state(name), holders, None, None)
            )

    def _upstream(self, bolt: str) -> list[str]:
        """Returns a bolt and all bolts before it."""
        found = [bolt]
        for name in found:
            rules, takers = self.all_rules[name], self.all_rules[name].imports
            before = [origin for taker, bolts in rules.origins.items() if taker not in takers for origin in bolts]
            found += [origin for origin in before if origin in self.all_rules and origin not in found]
        return found

    def _has_idle_rule(self, bolt: str) -> bool:
        rules = self.all_rules[bolt]
        by_clock = (rules.partition_idle_timeout, rules.idle_timeout, rules.late_tolerance)
        return not rules.event_time or any(rule is not None for rule in by_clock)


def _imports(rules: BoltRules) -> Iterator[str]:
    for taker, giver in rules.imports.items():
        yield f"input {taker!r} takes the watermarks of {giver!r}; its own events move nothing."


def _has_delivered(holder: BlockingInput, state: BoltState) -> bool:
    """True if events have come from an input, even too few for a watermark."""
    mark = state.watermark.sources.marks.get(holder.source)
    return holder.watermark is not None or (mark is not None and mark.latest > NONE)


def _holder_in_words(holder: BlockingInput, rules: BoltRules, state: BoltState) -> str:
    since = ""
    if holder.since is not None:
        words = "since its last event, by the clock at" if holder.since_exactly else "at least since"
        since = f", {words} {show(holder.since)}"
    name = input_in_words(holder)
    if holder.watermark is None and _has_delivered(holder, state):
        text = f"{name} holds it: what has come from there has not moved the watermark yet{since}."
    elif holder.watermark is None:
        text = f"{name} holds it: nothing has come from there{since}."
    elif rules.greatest:
        text = f"{name} is furthest ahead, at {show(holder.watermark)}{since}."
    else:
        text = f"{name} holds it, at {show(holder.watermark)}{since}."
    return _upper(text)


def _what_moves(holder: BlockingInput, rules: BoltRules, state: BoltState, needed: int, *, alone: bool) -> str:
    """Describes the event that would move the watermark to ``needed``. ``alone``: True if no other input is behind
    ``needed``."""
    moves, source = rules.mark_rules[holder.input], state.watermark.sources.marks.get(holder.source)
    count, span, needed_time = moves["count"], moves["span"], needed + (moves["delay"] or 0)
    if span is not None:
        if source is None or source.since is None:
            return ""
        needed_time = max(needed_time, source.since + span)
    unless = ", unless it is early or late by its arrival" if rules.by_arrival else ""
    other_inputs = "" if alone or rules.greatest else ", as at each input that is not as far"
    if count == 0:
        return (
            f" Only watermarks that the source sends move it: one at {show(needed)} or later is needed{other_inputs}."
        )
    missing = 1 if count is None or source is None else count - source.counted % count
    if missing > 1:
        return (
            f" One of {count} events there moves the watermark: {missing} more are needed{other_inputs}, the last of "
            f"them at {show(needed_time)} or later{unless}."
        )
    tick = rules.tick if count is None and span is None else 0
    if tick:
        unless += f"; the watermark follows with the next tick (every {Duration(tick)})"
    where = "there or at another input" if rules.greatest else "there"
    does = f"is needed{other_inputs}" if other_inputs else "would do"
    return f" An event {where} at {show(needed_time)} or later {does}{unless}."


def _upper(text: str) -> str:
    return text[0].upper() + text[1:]


# The events that a checkpoint holds for a bolt: times and keys of events that windows still need.


@dataclass(frozen=True)
class WaitingEvents:
    """Events that are in no window yet, as columns; a row may be a partial sum of several events."""

    times: NDArray[np.int64]
    counts: NDArray[np.int64]
    """Number of events that each row stands for."""


@dataclass(frozen=True)
class RegularEvents:
    """Events in windows that begin at regular times; a row may be a partial sum of several events."""

    windows: AlignedWindows
    first_ends: NDArray[np.int64]
    """For each row, the end in microseconds of the first window that holds the row and was open at its arrival."""
    last_ends: NDArray[np.int64]
    """The end of the last window that holds it; before ``first_ends`` if no window holds it."""
    last_ends_at_close: NDArray[np.int64]
    """``last_ends`` at the end of the streams, when open-ended events last as long as the latest event of their key."""
    counts: NDArray[np.int64]
    """Number of events that each row stands for."""

    def within(self, end: int) -> int:
        """Returns the number of events in the window with this end."""
        return int(self.counts[(self.first_ends <= end) & (self.last_ends >= end)].sum())

    def ends(self, over: int | None, most: int) -> list[tuple[int, int]]:
        """Returns window ends after ``over``, with their numbers of events, for windows that hold events. Examines at
        most ``most`` windows, including empty ones."""
        first_ends = self._first_end_after(over)
        inside = first_ends <= self.last_ends_at_close
        if not inside.any():
            return []
        first_ends, last_ends, counts = first_ends[inside], self.last_ends_at_close[inside], self.counts[inside]
        slide, begin = self.windows.slide.micros, int(first_ends.min())
        found = np.arange(begin, min(int(last_ends.max()), begin + (most - 1) * slide) + 1, slide)
        counts_in_windows = _counted_before(first_ends, counts, found, side="right") - _counted_before(
            last_ends, counts, found, side="left"
        )
        return [(int(end), int(count)) for end, count in zip(found, counts_in_windows, strict=True) if count]

    def next_end(self, over: int | None) -> int | None:
        """Returns the end of the first window that holds an event and ends after ``over``; None without such a
        window."""
        first_ends = self._first_end_after(over)
        first_ends = first_ends[first_ends <= self.last_ends_at_close]
        return int(first_ends.min()) if len(first_ends) else None

    def _first_end_after(self, over: int | None) -> NDArray[np.int64]:
        return (
            self.first_ends if over is None else np.maximum(self.first_ends, self.windows.next_ends(np.array([over])))
        )


def _counted_before(
    ends: NDArray[np.int64], counts: NDArray[np.int64], moments: NDArray[np.int64], side: Literal["left", "right"]
) -> NDArray[np.int64]:
    """Returns the number of events that end before each moment; with ``side="right"``, also those that end at the
    moment."""
    order = np.argsort(ends, kind="stable")
    so_far = np.concatenate([[0], np.cumsum(counts[order])])
    found: NDArray[np.int64] = so_far[np.searchsorted(ends[order], moments, side=side)]
    return found


def regular_events(
    state: BoltState, store: SegmentStore, rules: BoltRules, windows: AlignedWindows, key: str | None
) -> RegularEvents:
    """Returns the events of a bolt, of all keys or of one. ``key``: the text of a key, with commas between several
    columns."""
    nothing = np.zeros(0, np.int64)
    parts = [(nothing, nothing, nothing, nothing)]
    for reader in readers_of(state, store, rules):
        if reader.state.windows.in_queue():
            for rows in reader.rows:
                live, counts = LiveEvents(rows.times), rows.counts
                if key is not None:
                    chosen = events_of_key(rows.payload, rows.streams, rules, key)
                    live, counts = LiveEvents(rows.times[chosen]), counts[chosen]
                parts.append((*_window_ends(windows, live, NONE), counts))
        elif reader.live is not None:
            retained = reader.live.sorted()
            if key is not None:
                retained = retained.take(np.flatnonzero(events_of_key(retained.payload, retained.streams, rules, key)))
            live = LiveEvents(retained.times, retained.keys, retained.ends, retained.closed_until)
            evaluated = evaluated_limit(reader, retained)
            counts = np.ones(len(retained), np.int64) if retained.weights is None else retained.weights.sum(axis=1)
            parts.append((*_window_ends(windows, live, evaluated), counts))
    return RegularEvents(windows, *map(np.concatenate, zip(*parts, strict=True)))


def _window_ends(
    windows: AlignedWindows, live: LiveEvents, evaluated: Limit
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    first, last = windows.first_and_last_open_end(live, evaluated, 0)
    return first, last, windows.first_and_last_open_end(live, evaluated, FOREVER)[1]


def waiting_events(state: BoltState, rules: BoltRules, store: SegmentStore, key: str | None) -> WaitingEvents:
    """Returns the events that are in no window yet and may still be in one."""
    times, counts = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for reader in readers_of(state, store, rules):
        for rows in reader.rows:
            waits = rows.pending > 0
            if key is not None:
                waits &= events_of_key(rows.payload, rows.streams, rules, key)
            times.append(rows.times[waits])
            counts.append(rows.pending[waits])
    return WaitingEvents(np.concatenate(times), np.concatenate(counts))


def events_of_key(payload: pa.Table, streams: NDArray[np.int8] | None, rules: BoltRules, key: str) -> NDArray[np.bool_]:
    """Returns a mask of the events of a key, whose columns may have other names at each input."""
    keys = rules.columns_of_keys
    found = np.zeros(payload.num_rows, np.bool_)
    for number, names in enumerate(keys):
        if set(names) <= set(payload.column_names):
            has_the_key = has_key(payload, names, key)
            if streams is not None and len(keys) > 1:
                has_the_key &= streams == number
            found |= has_the_key
    return found
