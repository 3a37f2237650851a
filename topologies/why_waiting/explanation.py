"""Why a window has not fired: which reason it is, and the sentences that say so."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from manager.storage.manifest import BoltState, Manifest
from manager.storage.segments.segments import SegmentStore
from manager.storage.task_state import AssignedState, TriggeredState
from topologies.checkpoints.notes.timing_note import BoltTiming
from topologies.run.readable import spoken
from topologies.why_waiting.held_watermark import holders_of, marks_of
from topologies.why_waiting.idle_rules import idle_rules, named
from topologies.why_waiting.stored_events import StoredEvents, stored_events
from topologies.why_waiting.why_answer import Holder, WhyAnswer, WhyReason
from windowing.time.durations import Duration
from windowing.time.timestamps import show


@dataclass(frozen=True)
class Question:
    """What is asked of a checkpoint."""

    bolt: str
    key: str | None
    window: int | None
    """The end of the window in microseconds; None: the next one."""


class Explanation:
    """Answers one question; looks at the last manifest, and at those before it for since when."""

    def __init__(
        self,
        question: Question,
        timing: BoltTiming,
        kept: Sequence[Manifest],
        store: SegmentStore,
        first_output: int | None,
    ) -> None:
        self.question, self.timing, self.kept = question, timing, kept
        self.manifest, self.first_output = kept[-1], first_output
        self.state: BoltState = self.manifest.bolts[question.bolt]
        self.stored: StoredEvents = stored_events(self.state, store, timing.key, question.key)
        offset = timing.offset if self.state.anchor is None else self.state.anchor + timing.offset
        self.offset = offset % timing.slide if timing.slide else offset

    def answer(self) -> WhyAnswer:
        """The answer."""
        timing = self.timing
        if self.manifest.closing:
            return self._told(
                WhyReason.ENDED,
                "The streams have ended: at the end of the last run all windows that held events fired. What comes in "
                "a later run opens new ones.",
            )
        if timing.trigger:
            return self._of_trigger()
        if timing.slide is None or timing.length is None:
            return self._of_other_windows()
        return self._of_regular_windows(timing.slide)

    def waiting_windows(self, most: int) -> list[tuple[int, int]]:
        """The ends of the windows that hold events and have not fired, with how many they hold so far; of windows that
        begin at regular times, and of ``most`` of them at most."""
        if self.timing.slide is None or self.timing.length is None:
            return []
        first = self.stored.next_end(self.timing, self.offset, self._over)
        return [] if first is None else self.stored.windows(self.timing, first, most)

    # -- windows that begin at regular times

    def _of_regular_windows(self, slide: int) -> WhyAnswer:
        end = self.question.window
        if end is None:
            end = self.stored.next_end(self.timing, self.offset, self._over)
            if end is None:
                return self._told(WhyReason.NOTHING, "No event waits for a window: all have been in one, or in none.")
        elif (end - self.offset) % slide:
            before = (end - self.offset) // slide * slide + self.offset
            return self._told(
                WhyReason.NO_SUCH_WINDOW,
                f"No window of {self.question.bolt!r} ends at {show(end)}: the nearest end at {show(before)} and "
                f"{show(before + slide)}.",
            )
        waiting = self.stored.within(self.timing, end)
        answer = self._of_window(end, waiting)
        return replace(answer, window_end=end, waiting=waiting)

    def _of_window(self, end: int, waiting: int) -> WhyAnswer:
        if self.first_output is not None and end < self.first_output:
            return self._told(
                WhyReason.SUPPRESSED,
                f"The window that ends at {show(end)} is suppressed: the run has its first output at "
                f"{show(self.first_output)}.",
            )
        if not self.timing.event_time:
            return self._by_clock(end, waiting)
        if self.timing.per_key:
            return self._of_keys(waiting)
        if self._over is not None and end <= self._over:
            return self._over_window(end, waiting)
        return self._waits(end, waiting)

    @property
    def _over(self) -> int | None:
        """Windows that end up to here have been evaluated: by the watermark, or closed by the idle timeout."""
        if not self.timing.event_time:
            clock = self.manifest.clock
            return None if clock is None else clock - self.timing.past_end
        watermark, forced = self.state.watermark.current, self.state.watermark.forced
        reached = [] if watermark is None else [watermark - self.timing.past_end]
        return max([*reached, *([] if forced is None else [forced])], default=None)

    def _over_window(self, end: int, waiting: int) -> WhyAnswer:
        counts = self.state.accounts
        if waiting:
            return self._told(
                WhyReason.FIRED,
                f"The window that ends at {show(end)} has fired: the watermark is past it, and {waiting:,} of its "
                "events are still kept.",
            )
        return self._told(
            WhyReason.OVER,
            f"The time of the window that ends at {show(end)} is over: the watermark is past it, at "
            f"{self._shown_watermark}. If it held events, it has fired; if it held none, there was nothing to fire. A "
            "checkpoint does not keep which: look at the output.",
            f"Events for it that came later are in an account: of the bolt's events {counts['late']} are late, "
            f"{counts['dropped']} dropped, {counts['purged']} purged, {counts['invalid']} invalid. Late streams and "
            "error streams have them, with the reason.",
        )

    def _waits(self, end: int, waiting: int) -> WhyAnswer:
        needed = end + self.timing.past_end
        holders = tuple(holders_of(self.question.bolt, self.timing, self.kept))
        marks = marks_of(self.timing, self.state)
        silent = [holder for holder in holders if holder.watermark is None]
        what = f"The window that ends at {show(end)} "
        if not waiting and self.question.window is not None:
            reason = WhyReason.EMPTY
            head = f"{what}holds no event so far{self._for_key}" + (
                "." if self.timing.empty_windows else ", and a window without events does not fire."
            )
        elif silent and len(silent) == len(holders) and self.state.watermark.current is None:
            reason, head = WhyReason.NO_WATERMARK, f"{what}holds {_events(waiting)}{self._for_key}, and waits."
        elif all(mark is not None and mark >= needed for mark in marks.values()):
            reason, head = WhyReason.TICK, f"{what}holds {_events(waiting)}{self._for_key}, and is almost due."
        else:
            reason, head = WhyReason.WATERMARK, f"{what}holds {_events(waiting)}{self._for_key}, and waits."
        answer = self._told(reason, head, *self._about_watermark(needed, holders, reason, end))
        return replace(answer, needed=needed, holders=holders)

    def _about_watermark(self, needed: int, holders: Sequence[Holder], reason: WhyReason, end: int) -> Iterator[str]:
        current = self.state.watermark.current
        if current is None:
            yield f"It fires when the watermark reaches {show(needed)}; there is no watermark yet."
        else:
            yield (
                f"It fires when the watermark reaches {show(needed)}; the watermark is at {show(current)}, "
                f"{spoken(needed - current)} before that."
            )
        if reason is WhyReason.TICK:
            every = f"every {Duration(self.timing.tick)}" if self.timing.tick else "with each batch"
            yield f"The inputs are far enough: the next tick moves the watermark there ({every})."
            return
        yield (
            "The watermark is the time up to which all events are taken to have come; the input that is furthest "
            "behind holds it back."
        )
        for holder in holders:
            yield self._about(holder, needed)
        if self.state.watermark.sources.idle:
            left_out = ", ".join(repr(name.replace("\t", "/")) for name in self.state.watermark.sources.idle)
            yield f"Idle, and therefore not waited for: {left_out}."
        yield from idle_rules(self.timing, self.state, holders, end, needed)

    def _about(self, holder: Holder, needed: int | None) -> str:
        since = ""
        if holder.since is not None:
            words = "since its last event, by the clock at" if holder.since_exactly else "at least since"
            since = f", {words} {show(holder.since)}"
        if holder.watermark is None:
            text = f"{named(holder)} holds it: nothing has come from there{since}."
        else:
            text = f"{named(holder)} holds it, at {show(holder.watermark)}{since}."
            if needed is not None:
                text += f" An event there at {show(needed + self.timing.delay)} or later would do."
        bolts = self.timing.origins.get(holder.input)
        if bolts:
            text += f" It comes from {', '.join(map(repr, bolts))}, whose watermark it has: ask why of that bolt."
        return text[0].upper() + text[1:]

    # -- other windows

    def _by_clock(self, end: int, waiting: int) -> WhyAnswer:
        last = "no time" if self.manifest.clock is None else show(self.manifest.clock)
        if self._over is not None and end <= self._over:
            return self._over_window(end, waiting)
        return self._told(
            WhyReason.CLOCK if waiting or self.question.window is None else WhyReason.EMPTY,
            f"The window that ends at {show(end)} holds {_events(waiting)}{self._for_key}. It follows the clock, and "
            f"fires in the first batch after its end; the last batch was at {last}.",
            "Without a run there are no batches: start one, with --every.",
        )

    def _of_keys(self, waiting: int) -> WhyAnswer:
        return self._told(
            WhyReason.KEYS,
            f"Each key has a watermark of its own: the window fires when its key's own events pass its end by "
            f"{Duration(self.timing.past_end + self.timing.delay)}. It holds {_events(waiting)}{self._for_key}.",
        )

    def _of_trigger(self) -> WhyAnswer:
        states = [task.windows for task in self.state.tasks if isinstance(task.windows, TriggeredState)]
        due = min((state.next_due for state in states if state.next_due is not None), default=None)
        count = len(self.stored.times)
        clock = f"The next one is due by the clock at {show(due)}." if due is not None else "None is due by the clock."
        open_windows = sum(state.open_windows for state in states)
        reason = WhyReason.TRIGGER if count or self.question.key is None else WhyReason.EMPTY
        return replace(
            self._told(
                reason if open_windows else WhyReason.NOTHING,
                f"A trigger fires the window of each key: {self.timing.windows}.",
                f"{_events(count)} {'wait' if count != 1 else 'waits'}{self._for_key}; keys with an open window: "
                f"{open_windows}. {clock}",
                f"{self.state.accounts['purged']} events were purged: their windows were cleared without a call.",
            ),
            waiting=count,
        )

    def _of_other_windows(self) -> WhyAnswer:
        count, timing = len(self.stored.times), self.timing
        ends = [
            task.windows.next_end
            for task in self.state.tasks
            if isinstance(task.windows, AssignedState) and task.windows.next_end is not None
        ]
        head = f"Its windows: {timing.windows}. {_events(count)} {'is' if count == 1 else 'are'} kept{self._for_key}."
        if not sum(self.state.pending):
            return self._told(WhyReason.NOTHING, head, "No event waits for a window.")
        if not ends or not timing.event_time:
            return self._told(WhyReason.COUNT, head, "They fire as events come, by their number.")
        end = min(ends)
        holders = tuple(holders_of(self.question.bolt, timing, self.kept))
        answer = self._told(
            WhyReason.BY_EVENTS,
            head,
            f"Where they end depends on their events. None that is open ends before {show(end)}: the watermark has to "
            f"come that far at least, and {self._is_at}. More of their ends a checkpoint does not keep.",
            *(self._about(holder, None) for holder in holders),
            *idle_rules(timing, self.state, holders, None, None),
        )
        return replace(answer, holders=holders, waiting=count)

    # -- words

    def _told(self, reason: WhyReason, *sentences: str) -> WhyAnswer:
        return WhyAnswer(
            bolt=self.question.bolt,
            reason=reason,
            sentences=sentences,
            key=self.question.key,
            clock=self.manifest.clock,
            watermark=self.state.watermark.current if self.timing.event_time else None,
            idle=tuple(name.replace("\t", "/") for name in self.state.watermark.sources.idle),
            pending=sum(self.state.pending),
        )

    @property
    def _for_key(self) -> str:
        return "" if self.question.key is None else f" of {self.question.key!r}"

    @property
    def _is_at(self) -> str:
        current = self.state.watermark.current
        return "there is none yet" if current is None else f"is at {show(current)}"

    @property
    def _shown_watermark(self) -> str:
        current = self.state.watermark.current
        return "the clock" if current is None else show(current)


def _events(count: int) -> str:
    return "1 event" if count == 1 else f"{count:,} events"
