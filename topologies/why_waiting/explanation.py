"""Why a window has not fired: which reason it is, and the sentences that say so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from manager.storage.manifest import BoltState, Manifest
from manager.storage.segments.segments import SegmentStore
from policies.assigners import AlignedWindows
from topologies.checkpoints.notes.timing_note import BoltTiming
from topologies.run.readable import spoken
from topologies.why_waiting.held_watermark import marks_of
from topologies.why_waiting.holding import Holding
from topologies.why_waiting.question import Question, events_in_words
from topologies.why_waiting.stored_events import RegularEvents, regular_events
from topologies.why_waiting.why_answer import Holder, WhyAnswer, WhyReason
from windowing.time.durations import Duration
from windowing.time.timestamps import show


class Explanation:
    """Answers one question; looks at the last manifest, and at those before it for since when."""

    def __init__(
        self,
        question: Question,
        timings: Mapping[str, BoltTiming],
        kept: Sequence[Manifest],
        store: SegmentStore,
        first_output: int | None,
    ) -> None:
        """``timings`` of all bolts: what holds a bolt may be another one before it."""
        self.question, self.timing, self.kept = question, timings[question.bolt], kept
        self.manifest, self.first_output, self.store = kept[-1], first_output, store
        self.state: BoltState = self.manifest.bolts[question.bolt]
        self.holding = Holding(timings, kept)
        self.regular = self.timing.regular(self.state.anchor)
        """Its windows of time that begin at regular times; None for others."""

    def ended(self) -> WhyAnswer:
        """Of a bolt whose streams have ended."""
        pending = sum(self.state.pending)
        if pending:
            return self.told(
                WhyReason.ENDED,
                f"The streams have ended, and at the end of the last run nothing fired for {events_in_words(pending)} "
                f"that {'is' if pending == 1 else 'are'} in no window yet: {self.timing.windows}. What comes in a "
                "later run joins them.",
            )
        return self.told(
            WhyReason.ENDED,
            "The streams have ended: at the end of the last run all windows that held events fired. What comes in "
            "a later run opens new ones.",
        )

    def waiting_windows(self, most: int) -> list[tuple[int, int]]:
        """The ends of the windows that hold events and have not fired, with how many they hold so far; of windows that
        begin at regular times, and of ``most`` of them at most."""
        over = None if self.timing.per_key else self.over  # of each key something else is over, and not listed
        return [] if self.regular is None else self._events_of(self.regular).ends(over, most)

    def _events_of(self, windows: AlignedWindows) -> RegularEvents:
        """The events that are kept, of the key that is asked for."""
        return regular_events(self.state, self.store, self.timing, windows, self.question.key)

    # -- windows that begin at regular times

    def of_regular_windows(self, windows: AlignedWindows) -> WhyAnswer:
        """Of windows of time that end every so many microseconds."""
        end, events = self.question.window, self._events_of(windows)
        if end is None:
            unfired = events.next_end(self.fired)
            end = events.next_end(self.over) if unfired is None else unfired
            if end is None:
                return self.told(WhyReason.NOTHING, "No event waits for a window: all have been in one, or in none.")
        elif windows.earliest is not None and end < windows.earliest:
            return self.told(
                WhyReason.NO_SUCH_WINDOW,
                f"No window of {self.question.bolt!r} ends at {show(end)}: the first one ends at "
                f"{show(windows.earliest)}, since none begins before the anchor.",
            )
        elif windows.following(np.array([end - 1])) != end:
            return self.between(end, windows.offset.micros if windows.earliest is None else windows.earliest)
        waiting = events.within(end)
        answer = self._of_window(end, waiting)
        return replace(answer, window_end=end, waiting=waiting)

    def between(self, end: int, offset: int) -> WhyAnswer:
        """Of a time at which no window ends. ``offset``: some end of a window in microseconds."""
        slide = self.timing.slide
        assert slide is not None
        before = (end - offset) // slide * slide + offset
        return self.told(
            WhyReason.NO_SUCH_WINDOW,
            f"No window of {self.question.bolt!r} ends at {show(end)}: the nearest end at {show(before)} and "
            f"{show(before + slide)}.",
        )

    def suppressed(self, end: int) -> WhyAnswer:
        return self.told(
            WhyReason.SUPPRESSED,
            f"The window that ends at {show(end)} is suppressed: the run has its first output at "
            f"{show(self.first_output or 0)}.",
        )

    def _of_window(self, end: int, waiting: int) -> WhyAnswer:
        if self.first_output is not None and end < self.first_output:
            return self.suppressed(end)
        if not self.timing.event_time:
            return self.by_clock(end, waiting)
        if self.over is not None and end <= self.over:
            return self.over_window(end, waiting)
        if self.fired is not None and end <= self.fired:
            return self.stays_open(end, waiting)
        return self._waits(end, waiting)

    @property
    def over(self) -> int | None:
        """Windows that end up to here have been evaluated: by the watermark, or closed by the idle timeout."""
        if not self.timing.event_time:
            clock = self.manifest.clock
            return None if clock is None else clock - self.timing.past_end
        watermark, forced = self.state.watermark.current, self.state.watermark.forced
        reached = [] if watermark is None else [watermark - self.timing.past_end]
        return max([*reached, *([] if forced is None else [forced])], default=None)

    @property
    def fired(self) -> int | None:
        """Windows that end up to here have fired at their end, if they held events; some may fire again."""
        current, first, over = self.state.watermark.current, self.timing.first_past_end, self.over
        return (
            over
            if current is None or first is None
            else max(current - first, current - first if over is None else over)
        )

    def over_window(self, end: int, waiting: int) -> WhyAnswer:
        counts = self.state.accounts
        if waiting:
            return self.told(
                WhyReason.FIRED,
                f"The window that ends at {show(end)} has fired: the watermark is past it, and {waiting:,} of its "
                "events are still kept.",
            )
        return self.told(
            WhyReason.OVER,
            f"The time of the window that ends at {show(end)} is over: the watermark is past it, at "
            f"{self._shown_watermark}. If it held events, it has fired; if it held none, there was nothing to fire. A "
            "checkpoint does not keep which: look at the output.",
            f"Events for it that came later are in an account: of the bolt's events {counts['late']} are late, "
            f"{counts['dropped']} dropped, {counts['purged']} purged, {counts['invalid']} invalid. Late streams and "
            "error streams have them, with the reason.",
        )

    def _waits(self, end: int, waiting: int) -> WhyAnswer:
        what = f"The window that ends at {show(end)} "
        if not waiting and self.question.window is not None:
            empty = "." if self.timing.empty_windows else ", and a window without events does not fire."
            return self.of_watermark(end, f"{what}holds no event so far{self.for_key}{empty}", WhyReason.EMPTY)
        return self.of_watermark(end, f"{what}holds {events_in_words(waiting)}{self.for_key}, and waits.")

    def of_watermark(self, end: int, head: str, reason: WhyReason | None = None) -> WhyAnswer:
        """A window waits for the watermark; ``reason`` where there is another one beside that."""
        needed = self.needed(end)
        holders = self.holding.of(self.question.bolt)
        reason = self._reason(needed, holders) if reason is None else reason
        if reason is WhyReason.TICK:
            head = head.replace(", and waits.", ", and is almost due.")
        answer = self.told(reason, head, *self._about_watermark(needed, reason, end))
        return replace(answer, needed=needed, holders=holders)

    def needed(self, end: int) -> int:
        """The watermark at which the window that ends then fires, for the first time."""
        first = self.timing.first_past_end
        return end + (self.timing.past_end if first is None else first)

    def stays_open(self, end: int, waiting: int) -> WhyAnswer:
        needed, held = end + self.timing.past_end, f"{events_in_words(waiting)}{self.for_key}"
        fired = (
            f"The watermark has reached the end of the window at {show(end)}, so it has fired if it held events then."
        )
        if self.timing.fires_once:
            return self.told(
                WhyReason.FIRED, f"{fired} It does not fire again: {held} {'is' if waiting == 1 else 'are'} still kept."
            )
        return self.told(
            WhyReason.FIRED,
            f"{fired} It holds {held} now.",
            f"It stays open for late events until the watermark reaches {show(needed)}, and fires again for those; the "
            f"watermark is at {self._shown_watermark}.",
        )

    def _reason(self, needed: int, holders: Sequence[Holder]) -> WhyReason:
        marks = marks_of(self.timing, self.state).values()
        if self.state.watermark.current is None and all(holder.watermark is None for holder in holders):
            return WhyReason.NO_WATERMARK
        if all(mark is not None and mark >= needed for mark in marks):
            return WhyReason.TICK
        return WhyReason.WATERMARK

    def _about_watermark(self, needed: int, reason: WhyReason, end: int) -> Iterator[str]:
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
        yield from self.what_holds(end, needed)

    def what_holds(self, end: int | None, needed: int | None) -> Iterator[str]:
        decides = (
            "here the input that is furthest ahead decides it."
            if self.timing.greatest
            else ("the input that is furthest behind holds it back.")
        )
        yield f"The watermark is the time up to which all events are taken to have come; {decides}"
        yield from self.holding.sentences(self.question.bolt, end, needed)

    # -- other windows

    def by_clock(self, end: int, waiting: int) -> WhyAnswer:
        last = "no time" if self.manifest.clock is None else show(self.manifest.clock)
        if self.over is not None and end <= self.over:
            return self.over_window(end, waiting)
        return self.told(
            WhyReason.CLOCK if waiting or self.question.window is None else WhyReason.EMPTY,
            f"The window that ends at {show(end)} holds {events_in_words(waiting)}{self.for_key}. It follows the "
            f"clock, and fires in the first batch after its end; the last batch was at {last}.",
            "Without a run there are no batches: start one, with --every.",
        )

    # -- words

    def told(self, reason: WhyReason, *sentences: str) -> WhyAnswer:
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
    def for_key(self) -> str:
        return "" if self.question.key is None else f" of {self.question.key!r}"

    @property
    def _shown_watermark(self) -> str:
        current = self.state.watermark.current
        return "the clock" if current is None else show(current)
