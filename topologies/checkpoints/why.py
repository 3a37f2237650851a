"""``windbolt.why``: asks a checkpoint why a window has not fired."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa

from manager.storage.checkpoint import read_manifest
from manager.storage.manifest import BoltState, Manifest
from manager.storage.segment_files import FileSegments
from manager.storage.segments import SegmentStore
from manager.watermarks import source_in_words
from policies.assigners import AlignedWindows
from topologies.checkpoints.blocking_inputs import (
    BlockingInput,
    BlockingInputs,
    Question,
    RegularEvents,
    WaitingEvents,
    WhyAnswer,
    WhyReason,
    events_in_words,
    events_of_key,
    own_marks_of,
    regular_events,
    waiting_events,
)
from topologies.checkpoints.paired_checkpoint import START, PairedCheckpoint
from topologies.checkpoints.state_tables import tables_of_state, window_table
from topologies.checkpoints.stored_tasks import has_key, key_columns, key_texts, names_in_table, readers_of
from topologies.checkpoints.topology_fit import checkpoint_at, require_rules, rules_of, the_only_bolt
from topologies.engine.event_times import as_moment
from topologies.graph.bolt_rules import BoltRules
from topologies.run.summary import short_duration
from windowing.calls import checked
from windowing.durations import Duration
from windowing.errors import ConfigError
from windowing.timestamps import from_datetime, show

# Why a window has not fired: the reason, and sentences that explain it.


class Explanation:
    """Answers a question from the last manifest, and from earlier ones for durations."""

    def __init__(
        self,
        question: Question,
        all_rules: Mapping[str, BoltRules],
        manifests: Sequence[Manifest],
        store: SegmentStore,
        first_output: int | None,
    ) -> None:
        """``all_rules``: of all bolts, because a bolt before may block this one."""
        self.question, self.rules, self.manifests = question, all_rules[question.bolt], manifests
        self.manifest, self.first_output, self.store = manifests[-1], first_output, store
        self.state: BoltState = self.manifest.bolts[question.bolt]
        self.blocking = BlockingInputs(all_rules, manifests)
        self.regular = self.rules.regular_windows(self.state.anchor)
        """Its windows of time that begin at regular times; None for other windows."""

    def answer_without_windows(self) -> WhyAnswer:
        """Returns the answer for a bolt without windows."""
        words = f"{self.question.bolt!r} has no windows: it is called for an event in the batch with which that comes."
        return self.answer(WhyReason.NOTHING, words)

    def answer_after_end(self) -> WhyAnswer:
        """Returns the answer for a bolt whose streams have ended."""
        pending = sum(self.state.pending)
        if pending:
            return self.answer(
                WhyReason.ENDED,
                f"The streams have ended, and at the end of the last run nothing fired for {events_in_words(pending)} "
                f"that {'is' if pending == 1 else 'are'} in no window yet: {self.rules.windows}. What comes in a "
                "later run joins them.",
            )
        return self.answer(
            WhyReason.ENDED,
            "The streams have ended: at the end of the last run all windows that held events fired. What comes in "
            "a later run opens new ones.",
        )

    def waiting_windows(self, most: int) -> list[tuple[int, int]]:
        """Returns the ends of windows that hold events and have not fired, with their numbers of events so far. Only
        for windows that begin at regular times; at most ``most`` windows."""
        evaluated = None if self.rules.per_key else self.evaluated_until  # each key has a time of its own
        return [] if self.regular is None else self._stored_events(self.regular).ends(evaluated, most)

    def _stored_events(self, windows: AlignedWindows) -> RegularEvents:
        """Returns the stored events, of the question's key if it has one."""
        return regular_events(self.state, self.store, self.rules, windows, self.question.key)

    # -- windows that begin at regular times

    def answer_for_regular_windows(self, windows: AlignedWindows) -> WhyAnswer:
        """Returns the answer for windows of time that end at regular intervals."""
        end, events = self.question.window, self._waiting_ends(windows)
        if end is None:
            unfired = events.next_end(self.fired_until)
            end = events.next_end(self.evaluated_until) if unfired is None else unfired
            if end is None:
                return self.answer(WhyReason.NOTHING, "No event waits for a window: all have been in one, or in none.")
        elif windows.first_end is not None and end < windows.first_end:
            return self.answer(
                WhyReason.NO_SUCH_WINDOW,
                f"No window of {self.question.bolt!r} ends at {show(end)}: the first one ends at "
                f"{show(windows.first_end)}, since none begins before the anchor.",
            )
        elif windows.next_ends(np.array([end - 1])) != end:
            return self.answer_between_ends(
                end, windows.offset.micros if windows.first_end is None else windows.first_end
            )
        waiting = events.within(end)
        answer = self._answer_for_window(end, waiting)
        if not waiting and self.rules.fires_once and answer.reason is not WhyReason.OVER:
            waiting = self._stored_events(windows).within(end)
            answer = self.answer_closed_early(end, waiting) if waiting else answer
        return replace(answer, window_end=end, waiting=waiting)

    def _waiting_ends(self, windows: AlignedWindows) -> RegularEvents | OpenEnds:
        """Returns the ends of windows that may still fire: events of a window that a firing has closed may be kept for
        other windows."""
        if not self.rules.fires_once:
            return self._stored_events(windows)
        ends = Counter[int]()
        for each in windows_still_open(self.state, self.rules, self.store, self.manifest.clock, self.question.key):
            assert each.end is not None
            ends[each.end] += each.events
        return OpenEnds(ends)

    def answer_between_ends(self, end: int, offset: int) -> WhyAnswer:
        """Returns the answer for a time at which no window ends. ``offset``: some end of a window in microseconds."""
        slide = self.rules.slide
        assert slide is not None
        before = (end - offset) // slide * slide + offset
        return self.answer(
            WhyReason.NO_SUCH_WINDOW,
            f"No window of {self.question.bolt!r} ends at {show(end)}: the nearest end at {show(before)} and "
            f"{show(before + slide)}.",
        )

    def answer_suppressed(self, end: int) -> WhyAnswer:
        return self.answer(
            WhyReason.SUPPRESSED,
            f"The window that ends at {show(end)} is suppressed: the run has its first output at "
            f"{show(self.first_output or 0)}.",
        )

    def _answer_for_window(self, end: int, waiting: int) -> WhyAnswer:
        if self.first_output is not None and end < self.first_output:
            return self.answer_suppressed(end)
        if not self.rules.event_time:
            return self.answer_by_clock(end, waiting)
        if self.evaluated_until is not None and end <= self.evaluated_until:
            return self.answer_over(end, waiting)
        if self.fired_until is not None and end <= self.fired_until:
            return self.answer_stays_open(end, waiting)
        return self._answer_waiting(end, waiting)

    @property
    def evaluated_until(self) -> int | None:
        """Windows that end up to this time have been evaluated, because of the watermark or an idle timeout."""
        if not self.rules.event_time:
            clock = self.manifest.clock
            return None if clock is None else clock - self.rules.past_end
        watermark, idle_closed_until = self.state.watermark.current, self.state.watermark.idle_closed_until
        by_watermark = [] if watermark is None else [watermark - self.rules.past_end]
        return max([*by_watermark, *([] if idle_closed_until is None else [idle_closed_until])], default=None)

    @property
    def fired_until(self) -> int | None:
        """Windows that end up to this time have fired at their end, if they held events; some may fire again."""
        current, first, evaluated_until = self.state.watermark.current, self.rules.first_past_end, self.evaluated_until
        return (
            evaluated_until
            if current is None or first is None
            else max(current - first, current - first if evaluated_until is None else evaluated_until)
        )

    def answer_over(self, end: int, waiting: int) -> WhyAnswer:
        counts, watermark = self.state.accounts, self.state.watermark.current
        if not self.rules.event_time:
            past, reached_time = "the clock is past it, at", self.manifest.clock
        elif watermark is None or watermark - self.rules.past_end < end:
            timeout = "" if self.rules.idle_timeout is None else "the idle timeout or "
            past, reached_time = (
                f"{timeout}the end of the streams has closed it, up to",
                self.state.watermark.idle_closed_until,
            )
        else:
            past, reached_time = "the watermark is past it, at", watermark
        assert reached_time is not None
        if waiting:
            return self.answer(
                WhyReason.FIRED,
                f"The window that ends at {show(end)} has fired: {past} {show(reached_time)}; {waiting:,} of its "
                f"events {'is' if waiting == 1 else 'are'} still kept.",
            )
        late = (
            f"Events for it that came later are in an account: of the bolt's events {counts['late']} are late, "
            f"{counts['dropped']} dropped, {counts['purged']} purged, {counts['invalid']} invalid. Late streams and "
            "error streams have them, with the reason."
        )
        return self.answer(
            WhyReason.OVER,
            f"The time of the window that ends at {show(end)} is over: {past} {show(reached_time)}. If it held events, "
            "it has fired; if it held none, there was nothing to fire. A checkpoint does not keep which: look at the "
            "output.",
            late if self.rules.event_time else "What comes now is in later windows.",
        )

    def _answer_waiting(self, end: int, waiting: int) -> WhyAnswer:
        what = f"The window that ends at {show(end)} "
        if not waiting and self.question.window is not None:
            empty = "." if self.rules.empty_windows else ", and a window without events does not fire."
            return self.answer_for_watermark(end, f"{what}holds no event so far{self.for_key}{empty}", WhyReason.EMPTY)
        return self.answer_for_watermark(end, f"{what}holds {events_in_words(waiting)}{self.for_key}, and waits.")

    def answer_for_watermark(self, end: int, head: str, reason: WhyReason | None = None) -> WhyAnswer:
        """Returns the answer for a window that waits for the watermark; ``reason``: another reason besides."""
        needed = self.needed(end)
        holders = self.blocking.holders_of(self.question.bolt)
        reason = self._reason(needed, holders) if reason is None else reason
        if reason is WhyReason.TICK:
            head = head.replace(", and waits.", ", and is almost due.")
        answer = self.answer(reason, head, *self._watermark_in_words(needed, reason, end))
        return replace(answer, needed=needed, holders=holders)

    def needed(self, end: int) -> int:
        """Returns the watermark at which the window with this end fires for the first time."""
        first = self.rules.first_past_end
        return end + (self.rules.past_end if first is None else first)

    def answer_stays_open(self, end: int, waiting: int) -> WhyAnswer:
        needed, held = end + self.rules.past_end, f"{events_in_words(waiting)}{self.for_key}"
        least = "events" if self.rules.least_at_end == 1 else f"{self.rules.least_at_end} events"
        again = "once it holds as many" if self.rules.fires_once else "again for those"
        return self.answer(
            WhyReason.FIRED,
            f"The watermark has reached the end of the window at {show(end)}, so it has fired if it held {least} then. "
            f"It holds {held} now.",
            f"It stays open for late events until the watermark reaches {show(needed)}, and fires {again}; the "
            f"watermark is at {self._shown_watermark}.",
        )

    def answer_closed_early(self, end: int, kept: int) -> WhyAnswer:
        """Returns the answer for a window that a firing has closed."""
        held = f"{events_in_words(kept)}{self.for_key} {'is' if kept == 1 else 'are'}"
        return self.answer(
            WhyReason.FIRED,
            f"The window that ends at {show(end)} has fired, and that has closed it. It does not fire again: {held} "
            "still kept.",
        )

    def _reason(self, needed: int, holders: Sequence[BlockingInput]) -> WhyReason:
        marks = own_marks_of(self.rules, self.state).values()
        if self.state.watermark.current is None and all(holder.watermark is None for holder in holders):
            return WhyReason.NO_WATERMARK
        enough = [mark is not None and mark >= needed for mark in marks]
        return WhyReason.TICK if (any(enough) if self.rules.greatest else all(enough)) else WhyReason.WATERMARK

    def _watermark_in_words(self, needed: int, reason: WhyReason, end: int) -> Iterator[str]:
        current = self.state.watermark.current
        if current is None:
            yield f"It fires when the watermark reaches {show(needed)}; there is no watermark yet."
        else:
            yield (
                f"It fires when the watermark reaches {show(needed)}; the watermark is at {show(current)}, "
                f"{short_duration(needed - current)} before that."
            )
        if reason is WhyReason.TICK:
            every = f"every {Duration(self.rules.tick)}" if self.rules.tick else "with each batch"
            yield f"The inputs are far enough: the next tick moves the watermark there ({every})."
            return
        yield from self.blocking_in_words(end, needed)

    def blocking_in_words(self, end: int | None, needed: int | None) -> Iterator[str]:
        decides = (
            "here the input that is furthest ahead decides it."
            if self.rules.greatest
            else ("the input that is furthest behind holds it back.")
        )
        yield f"The watermark is the time up to which all events are taken to have come; {decides}"
        yield from self.blocking.sentences(self.question.bolt, end, needed)

    # -- other windows

    def answer_by_clock(self, end: int, waiting: int) -> WhyAnswer:
        last = "no time" if self.manifest.clock is None else show(self.manifest.clock)
        if self.evaluated_until is not None and end <= self.evaluated_until:
            return self.answer_over(end, waiting)
        return self.answer(
            WhyReason.CLOCK if waiting or self.question.window is None else WhyReason.EMPTY,
            f"The window that ends at {show(end)} holds {events_in_words(waiting)}{self.for_key}. It follows the "
            f"clock, and fires in the first batch after its end; the last batch was at {last}.",
            "Without a run there are no batches: start one, with --every.",
        )

    # -- words

    def answer(self, reason: WhyReason, *sentences: str) -> WhyAnswer:
        return WhyAnswer(
            bolt=self.question.bolt,
            reason=reason,
            sentences=sentences,
            key=self.question.key,
            clock=self.manifest.clock,
            watermark=self.state.watermark.current if self.rules.event_time else None,
            idle=tuple(map(source_in_words, self.state.watermark.sources.idle)),
            pending=sum(self.state.pending),
        )

    @property
    def for_key(self) -> str:
        return "" if self.question.key is None else f" of {self.question.key!r}"

    @property
    def _shown_watermark(self) -> str:
        current = self.state.watermark.current
        return "the clock" if current is None else show(current)


# The open windows of a bolt, each with its end, its key and its events.


@dataclass(frozen=True)
class OpenWindow:
    """A window that holds events and has yet to fire for the last time; times in microseconds."""

    start: int | None
    end: int | None
    """None if its events decide when it fires."""
    events: int
    firings: int
    """Number of firings so far."""
    key: str | None
    """The values of its key with commas between them; None if windows hold events of all keys."""


@dataclass(frozen=True)
class OpenEnds:
    """The ends of windows that hold events and have yet to fire for the last time, with their numbers of events."""

    ends: Mapping[int, int]

    def within(self, end: int) -> int:
        """Returns the number of events in windows with this end."""
        return self.ends.get(end, 0)

    def next_end(self, over: int | None) -> int | None:
        """Returns the first end after ``over``; None without one."""
        return min((end for end in self.ends if over is None or end > over), default=None)


def windows_still_open(
    state: BoltState, rules: BoltRules, store: SegmentStore, clock: int | None, key: str | None
) -> list[OpenWindow]:
    """Returns the open windows of a bolt, or of one key, in the order of their ends; windows without an end come
    last."""
    names = list(key_columns(rules)) if any(rules.keys) else []
    table = window_table(readers_of(state, store, rules), clock, pa.schema([(name, pa.null()) for name in names]))
    names_in_rows = names_in_table(table, names)
    found = [
        OpenWindow(start, end, events, firings, window_key)
        for start, end, events, firings, window_key in zip(
            *(_column(table, name) for name in ("start", "end", "events", "firings")),
            _keys(table, names_in_rows),
            strict=True,
        )
        if key is None or window_key is None or window_key == key
    ]
    return sorted(found, key=lambda window: (window.end is None, window.end or 0))


def _column(table: pa.Table, name: str) -> list[int | None]:
    column = table.column(name)
    values: list[int | None] = (column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_pylist()
    return values


def _keys(table: pa.Table, names: Sequence[str]) -> list[str | None]:
    if not names:
        return [None] * table.num_rows
    texts = [[str(value) for value in table.column(name).to_pylist()] for name in names]
    return [",".join(values) for values in zip(*texts, strict=True)]


# Why windows without regular times have not fired: sessions and other windows that events shape, windows of keys with a
# watermark of their own, count windows, and windows of a trigger.


class OtherWindows:
    """Answers a question about windows without regular times, with the phrases of ``Explanation``."""

    def __init__(self, explanation: Explanation) -> None:
        self.explanation = explanation

    def answer_for_open_windows(self) -> WhyAnswer:
        """Returns the answer for windows whose ends depend on their events, or that follow a watermark of their key."""
        asked_end, rules = self.explanation.question.window, self.explanation.rules
        found = windows_still_open(
            self.explanation.state,
            rules,
            self.explanation.store,
            self.explanation.manifest.clock,
            self.explanation.question.key,
        )
        ends = sorted({window.end for window in found if window.end is not None})
        unfired = [
            end
            for end in ends
            if self.explanation.fired_until is None or rules.per_key or end > self.explanation.fired_until
        ]
        end = next(iter(unfired or ends), None) if asked_end is None else asked_end
        if asked_end is not None and asked_end not in ends:
            if (
                not rules.per_key
                and self.explanation.evaluated_until is not None
                and asked_end <= self.explanation.evaluated_until
            ):
                return replace(self.explanation.answer_over(asked_end, 0), window_end=asked_end, waiting=0)
            return self._no_open_window(asked_end, ends)
        windows = [window for window in found if window.end == end]
        if not windows and not all(each.ends_by_time for each in rules.assigners_from(self.explanation.state.anchor)):
            return self.answer_for_counts()
        if not windows:
            return self.explanation.answer(
                WhyReason.NOTHING, f"No event{self.explanation.for_key} waits for a window: {rules.windows}."
            )
        waiting = sum(window.events for window in windows)
        if end is None:
            words = f"{_wait(waiting, self.explanation.for_key)} for a window: {rules.windows}."
            return replace(self.explanation.answer(WhyReason.COUNT, words, *self._by_number()), waiting=waiting)
        return replace(self._answer_for_open_window(end, windows, waiting), window_end=end, waiting=waiting)

    def _answer_for_open_window(self, end: int, windows: Sequence[OpenWindow], waiting: int) -> WhyAnswer:
        rules = self.explanation.rules
        if self.explanation.first_output is not None and end < self.explanation.first_output:
            return self.explanation.answer_suppressed(end)
        if not rules.event_time:
            return self.explanation.answer_by_clock(end, waiting)
        of_key = self.explanation.for_key if len(windows) > 1 or windows[0].key is None else f" of {windows[0].key!r}"
        window = "The window that ends" if len(windows) == 1 else f"{len(windows):,} windows end"
        holds = "holds" if len(windows) == 1 else ", which hold"
        if self.explanation.fired_until is not None and end <= self.explanation.fired_until and not rules.per_key:
            return self.explanation.answer_stays_open(end, waiting)
        head = f"{window} at {show(end)} {holds} {events_in_words(waiting)}{of_key}, and wait".replace(" ,", ",")
        head += "s." if len(windows) == 1 else "."
        about = [f"The windows of the bolt: {rules.windows}."]
        if rules.slide is None:
            about.append("Their ends depend on their events.")
        if any(window.firings for window in windows):
            about.append("It has fired already, before its end or for late events.")
        if rules.per_key:
            moment = show(self.explanation.needed(end) + rules.delay)
            words = (
                f"Each key has a watermark of its own: it fires when an event of its key at {moment} or later comes."
            )
            return self.explanation.answer(WhyReason.KEYS, head, words, *about)
        answer = self.explanation.answer_for_watermark(end, head)
        return replace(answer, sentences=(answer.sentences[0], " ".join(about), *answer.sentences[1:]))

    def _waiting_events(self) -> WaitingEvents:
        """Returns the events that are in no window yet, of the question's key if it has one."""
        return waiting_events(
            self.explanation.state, self.explanation.rules, self.explanation.store, self.explanation.question.key
        )

    def _no_open_window(self, asked_end: int, ends: Sequence[int]) -> WhyAnswer:
        shown = [show(end) for end in ends[:3]]
        if ends:
            later = f", and {len(ends) - 3:,} later." if len(ends) > 3 else "."
            words = f"those that are open end at {', '.join(shown)}{later}"
        else:
            waiting = int(self._waiting_events().counts.sum())
            by_time = all(
                each.ends_by_time for each in self.explanation.rules.assigners_from(self.explanation.state.anchor)
            )
            waits = f"{_wait(waiting, self.explanation.for_key)} for windows that an event ends."
            words = waits if waiting and not by_time else "none that holds events is open."
        return self.explanation.answer(
            WhyReason.NO_SUCH_WINDOW,
            f"No open window of {self.explanation.question.bolt!r}{self.explanation.for_key} ends at "
            f"{show(asked_end)}: {words}",
            f"Its windows: {self.explanation.rules.windows}.",
        )

    def answer_for_trigger(self) -> WhyAnswer:
        found = windows_still_open(
            self.explanation.state,
            self.explanation.rules,
            self.explanation.store,
            self.explanation.manifest.clock,
            self.explanation.question.key,
        )
        count, accounts = sum(window.events for window in found), self.explanation.state.accounts
        tasks = self.explanation.state.tasks
        due = min((task.next_due for task in tasks if task.next_due is not None), default=None)
        sentences = [f"A trigger fires the window of each key: {self.explanation.rules.windows}."]
        if self.explanation.question.window is not None:
            sentences.append("Such windows have no end before they fire, so they cannot be asked for by their end.")
        begins = [window.start for window in found if window.start is not None]
        since = f", the first at {show(min(begins))}" if begins and self.explanation.question.key is not None else ""
        sentences.append(
            f"{_wait(count, self.explanation.for_key)}{since}; keys with an open window: "
            f"{sum(task.windows.get('open_windows') for task in tasks):,}."
        )
        if count and due is not None:
            sentences.append(f"By the clock the next window is due at {show(due)}, whichever key it is of.")
        elif count:
            sentences.append("No window is due by the clock: one fires by the events of its key.")
        if accounts["purged"]:
            sentences.append(f"Purged: {accounts['purged']:,}. Their windows were cleared without a call of the bolt.")
        return replace(
            self.explanation.answer(WhyReason.TRIGGER if count else WhyReason.NOTHING, *sentences), waiting=count
        )

    def answer_for_policies(self) -> WhyAnswer:
        """Returns the answer for windows of users' policies."""
        trigger = self.explanation.rules.policies[0]
        waiting = self._waiting_events()
        count = int(waiting.counts.sum())
        sentences = [f"{_wait(count, self.explanation.for_key)}: {self.explanation.rules.windows}."]
        if self.explanation.question.window is not None:
            sentences.append(
                "Where such windows end is known when they fire, so they cannot be asked for by their end."
            )
        units = self.units()
        sentences += self.units_in_words(units)
        if len(units) > 1:
            both = " and ".join(filter(None, self.explanation.rules.policies))
            keep = "keeps" if "" in self.explanation.rules.policies else "keep"
            sentences.append(f"windbolt state shows what {both} {keep} of each.")
        if not self.explanation.rules.event_time or not len(waiting.times):
            return replace(
                self.explanation.answer(WhyReason.POLICY if count else WhyReason.NOTHING, *sentences), waiting=count
            )
        current = self.explanation.state.watermark.current
        behind = waiting.times if current is None else waiting.times[waiting.times > current]
        if len(behind):
            at = "there is no watermark yet" if current is None else f"the watermark is at {show(current)}"
            waits = f"{trigger} has not been told of" if trigger else "No window can hold yet"
            sentences.append(f"{waits} {events_in_words(len(behind))}: {at}.")
            sentences += self.explanation.blocking_in_words(None, int(behind.min()))
        holders = self.explanation.blocking.holders_of(self.explanation.question.bolt) if len(behind) else ()
        return replace(self.explanation.answer(WhyReason.POLICY, *sentences), waiting=count, holders=holders)

    def units(self) -> list[dict[str, Any]]:
        """Returns the records of policies, for each task or key, or for the question's key.

        They are rows of the table ``policies`` of ``windbolt state``, with the ``key`` as text, "" without a key.
        """
        names = key_columns(self.explanation.rules) if any(self.explanation.rules.keys) else ()
        tasks = readers_of(self.explanation.state, self.explanation.store, self.explanation.rules)
        table = tables_of_state(tasks, pa.schema([(name, pa.null()) for name in names]), "units")["policies"]
        key_names = names_in_table(table, names)
        if self.explanation.question.key is not None and names:
            table = table.filter(pa.array(has_key(table, key_names, self.explanation.question.key)))
        texts = [key_texts(table.column(name)) for name in key_names]
        keys = (", ".join(column[number] for column in texts) for number in range(table.num_rows))
        return [{**row, "key": key} for row, key in zip(table.to_pylist(), keys, strict=True)]

    def units_in_words(self, units: Sequence[Mapping[str, Any]]) -> Iterator[str]:
        """Describes the events that the policies have tracked, and their states, for one or several tasks or keys."""
        trigger, eviction = self.explanation.rules.policies
        keyed = any(self.explanation.rules.keys)
        says = f"{trigger} fires when its hooks say so" if trigger else f"{eviction} says what a window holds"
        events = sum(row["events"] for row in units)
        if not events:
            yield f"{says}: it has been told of no event{self.explanation.for_key} yet."
            return
        last_words = show(max(int(from_datetime(row["time"])) for row in units if row["time"] is not None))
        whose = self.explanation.for_key if len(units) == 1 else f" of {len(units):,} {'keys' if keyed else 'tasks'}"
        ends = [from_datetime(row["forgotten_at"]) for row in units if row["forgotten_at"] is not None]
        if len(units) > 1:
            yield f"{says}. There have been {events_in_words(events)}{whose}, the last at {last_words}."
            if ends:
                yield f"At {show(min(ends))} the first of them is forgotten, if no event of it comes by then."
            return
        (row,) = units
        been = "has been" if events == 1 else "have been"
        beginning = f"{says}: it has been told of" if trigger else f"{says}. There {been}"
        state = f"; its state is {row['trigger']}" if trigger else ""
        yield f"{beginning} {events_in_words(events)}{whose}, the last at {last_words}{state}."
        fired = row["fired"]
        last_words = (
            "No window has fired yet" if fired is None else f"The last window ended at {show(from_datetime(fired))}"
        )
        moment = row["next_moment"]
        asked = "no moment is due" if moment is None else f"the next moment is {show(from_datetime(moment))}"
        yield f"{last_words}; since then {events_in_words(row['events_since'])}; {asked}."
        if eviction:
            so_far = events_in_words(row["eviction_events"])
            yield f"{eviction} is told when a window fires, so far of {so_far}; its state is {row['eviction']}."
        if ends:
            what = "the key" if keyed else "what is kept of the task"
            yield f"At {show(ends[0])} {what} is forgotten, if no event comes by then."

    def answer_for_counts(self) -> WhyAnswer:
        """Returns the answer for windows with a count as length or slide."""
        waiting = self._waiting_events()
        if not len(waiting.times):
            words = f"No event{self.explanation.for_key} waits for a window: {self.explanation.rules.windows}."
            return self.explanation.answer(WhyReason.NOTHING, words)
        if self.explanation.rules.slide is not None and self.explanation.rules.length is None:
            return self._answer_for_count_at_regular_times(self.explanation.rules.slide, waiting)
        count = int(waiting.counts.sum())
        words = f"{_wait(count, self.explanation.for_key)} for a window: {self.explanation.rules.windows}."
        holders = (
            self.explanation.blocking.holders_of(self.explanation.question.bolt)
            if self.explanation.rules.event_time
            else ()
        )
        answer = self.explanation.answer(WhyReason.COUNT, words, *self._by_number(waiting))
        return replace(answer, waiting=count, holders=holders)

    def _by_number(self, waiting: WaitingEvents | None = None) -> Iterator[str]:
        if len(self.explanation.state.tasks) > 1:
            yield f"Each of the {len(self.explanation.state.tasks)} tasks counts its own events."
        current = self.explanation.state.watermark.current
        if not self.explanation.rules.event_time or waiting is None:
            yield "They fire by the number of events: when enough have come."
            return
        behind = (
            waiting.times
            if current is None
            else waiting.times[waiting.times > current - self.explanation.rules.past_end]
        )
        yield "They fire by the number of events, and an event counts once the watermark has reached its time."
        if not len(behind):
            yield "The watermark has reached all that wait: the next window needs further events."
            return
        needed = int(behind.min()) + self.explanation.rules.past_end
        at = "there is no watermark yet" if current is None else f"the watermark is at {show(current)}"
        yield f"{len(behind):,} of them do not count yet: {at}, and the next one counts from {show(needed)} on."
        yield from self.explanation.blocking_in_words(None, needed)

    def _answer_for_count_at_regular_times(self, slide: int, waiting: WaitingEvents) -> WhyAnswer:
        asked_end = self.explanation.question.window
        offset = self.explanation.rules.offset
        if asked_end is not None and (asked_end - offset) % slide:
            return self.explanation.answer_between_ends(asked_end, offset)
        first = int(waiting.times.min())
        end = -((offset - first) // slide) * slide + offset if asked_end is None else asked_end
        if self.explanation.evaluated_until is not None and end <= self.explanation.evaluated_until:
            return replace(self.explanation.answer_over(end, 0), window_end=end)
        count = int(waiting.counts[waiting.times <= end].sum())
        ends = ", and waits." if count else ", so it does not fire."
        brings = f"{events_in_words(count)}{self.explanation.for_key} that no window has had{ends}"
        head = f"The window that ends at {show(end)} brings {brings}"
        answer = (
            self.explanation.answer_by_clock(end, count)
            if not self.explanation.rules.event_time
            else self.explanation.answer_for_watermark(
                end,
                f"{head} Windows of the bolt: {self.explanation.rules.windows}.",
                None if count else WhyReason.EMPTY,
            )
        )
        return replace(answer, window_end=end, waiting=count)


def _wait(count: int, of: str) -> str:
    return f"{events_in_words(count)}{of} {'waits' if count == 1 else 'wait'}"


# Answers why a window has not fired, by the kind of the bolt's windows.


def answer_question(explanation: Explanation) -> WhyAnswer:
    """Returns the answer to the question of an explanation."""
    if explanation.rules.by_event or explanation.manifest.closing:
        return explanation.answer_without_windows() if explanation.rules.by_event else explanation.answer_after_end()
    answer = _answer_by_kind(explanation)
    key = explanation.question.key
    if key is None or answer.waiting or keeps_of_key(explanation.state, explanation.rules, explanation.store, key):
        return answer
    unknown = f"Nothing is kept of {key!r}: no event of it has come, or no window needs those that came."
    return replace(answer, sentences=(*answer.sentences, unknown))


def keeps_of_key(state: BoltState, rules: BoltRules, store: SegmentStore, key: str) -> bool:
    """True if a bolt keeps something of a key: an event, a watermark, a timer, a state."""
    tasks = readers_of(state, store, rules)
    names = pa.schema([(name, pa.null()) for name in key_columns(rules)])
    tables = tables_of_state(tasks, names)
    tables_by_key = [tables[name] for name in ("keys", "policies") if name in tables]
    return any(has_key(table, names_in_table(table, names.names), key).any() for table in tables_by_key) or any(
        events_of_key(rows.payload, rows.streams, rules, key).any() for task in tasks for rows in task.rows
    )


def _answer_by_kind(explanation: Explanation) -> WhyAnswer:
    rules = explanation.rules
    if rules.policies:
        return OtherWindows(explanation).answer_for_policies()
    if rules.key_trigger is not None:
        return OtherWindows(explanation).answer_for_trigger()
    if explanation.regular is not None and not rules.per_key:
        return explanation.answer_for_regular_windows(explanation.regular)
    if rules.assigners:
        return OtherWindows(explanation).answer_for_open_windows()
    return OtherWindows(explanation).answer_for_counts()


# ``windbolt.why``: asks a checkpoint why a window has not fired.


_TIME_OF_DAY = re.compile(r"\d{1,2}:\d{2}(:\d{2}(\.\d{1,6})?)?")


@checked
def why(
    checkpoint: str | os.PathLike[str],
    bolt: str | None = None,
    *,
    key: str | None = None,
    window: datetime | str | None = None,
) -> WhyAnswer:
    """Explains why a window of a bolt has not fired, from the checkpoint alone; ``print(why("ck/", "revenue"))``.

    ``bolt``: its name; None if only one bolt has windows. ``window``: its end, a datetime or ISO 8601; ``"12:00"`` is
    that time (UTC) on the day of the last watermark; None: the next window with events. ``key``: only events of this
    key count; for several key columns, the values with commas between them.

    Changes nothing and disturbs no run: one may be in progress. Raises CheckpointError if there is no checkpoint, or
    one of an older format. Raises ConfigError for an unknown bolt or key, and if several bolts have windows and none is
    named.
    """
    halves = checkpoint_at(os.fspath(checkpoint))
    all_rules = require_rules(halves).bolts
    bolt = the_only_bolt(halves, all_rules, "--bolt {0}, or bolt={0!r} in Python") if bolt is None else bolt
    rules_of(all_rules, bolt, key)
    manifests = kept_manifests(halves)
    if not manifests or (manifests[-1].batch < 0 and not manifests[-1].spouts):
        return not_started(bolt, key)
    start = halves.documents.read(START) or {}
    question = Question(bolt, key, None if window is None else window_end_of(window, manifests[-1], bolt))
    store = FileSegments(f"{halves.documents.root}/segments", halves.uri)
    return answer_question(Explanation(question, all_rules, manifests, store, start.get("first_output")))


def not_started(bolt: str, key: str | None) -> WhyAnswer:
    """Returns the answer before the first batch."""
    words = "No batch has been committed yet: nothing has been read, or the first batch is not done."
    return WhyAnswer(bolt=bolt, reason=WhyReason.NOT_STARTED, sentences=(words,), key=key)


def kept_manifests(halves: PairedCheckpoint) -> list[Manifest]:
    """Returns the kept manifests; a run in progress may delete the first ones meanwhile."""
    names = halves.documents.names("manifests")
    return [
        read_manifest(halves.documents, name)
        for name in names
        if name == names[-1] or halves.documents.has(f"manifests/{name}")
    ]


def window_end_of(window: datetime | str, manifest: Manifest, bolt: str) -> int:
    """Returns a user's end of a window. A time of day is on the day of the watermark, or without a watermark, of the
    clock."""
    if isinstance(window, str) and _TIME_OF_DAY.fullmatch(window.strip()):
        near_time = manifest.bolts[bolt].watermark.current
        near_time = manifest.clock if near_time is None else near_time
        day = show(near_time or 0).partition("T")[0]
        window = f"{day}T{window.strip():0>5}Z"
    try:
        return as_moment(window)
    except ConfigError as error:
        raise ConfigError(
            f"the window {window!r} is not a time",
            why="a window is named by its end",
            do="write it in ISO 8601, such as 2024-01-01T12:00:00Z, or as a time of day (UTC) such as 12:00",
        ) from error
