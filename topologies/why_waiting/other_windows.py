"""Why windows that do not begin at regular times have not fired: sessions and others that events shape, windows of keys
with a watermark of their own, windows by the number of events, and those that a trigger fires."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from manager.storage.task_state import TriggeredState
from topologies.state_tables.key_table import policy_tables
from topologies.state_tables.selection import has_key
from topologies.state_tables.task_reader import TaskReader, key_columns
from topologies.why_waiting.explanation import Explanation
from topologies.why_waiting.open_windows import OpenWindow, windows_still_open
from topologies.why_waiting.question import events_in_words
from topologies.why_waiting.stored_events import WaitingEvents, waiting_events
from topologies.why_waiting.why_answer import WhyAnswer, WhyReason
from windowing.time.timestamps import from_datetime, show


class OtherWindows:
    """Answers a question about such windows, with the words that ``Explanation`` has for all."""

    def __init__(self, by: Explanation) -> None:
        self.by = by

    def of_open_windows(self) -> WhyAnswer:
        """Windows whose ends depend on their events, or that follow a watermark of their key."""
        asked, timing = self.by.question.window, self.by.timing
        found = windows_still_open(self.by.state, timing, self.by.store, self.by.manifest.clock, self.by.question.key)
        ends = sorted({window.end for window in found if window.end is not None})
        unfired = [end for end in ends if self.by.fired is None or timing.per_key or end > self.by.fired]
        end = next(iter(unfired or ends), None) if asked is None else asked
        if asked is not None and asked not in ends:
            if not timing.per_key and self.by.over is not None and asked <= self.by.over:
                return replace(self.by.over_window(asked, 0), window_end=asked, waiting=0)
            return self._no_open_window(asked, ends)
        chosen = [window for window in found if window.end == end]
        if not chosen:
            return self.of_counts()
        waiting = sum(window.events for window in chosen)
        if end is None:
            words = f"{_wait(waiting, self.by.for_key)}: {timing.windows}."
            return replace(self.by.told(WhyReason.COUNT, words, *self._by_number()), waiting=waiting)
        return replace(self._of_open_window(end, chosen, waiting), window_end=end, waiting=waiting)

    def _of_open_window(self, end: int, chosen: Sequence[OpenWindow], waiting: int) -> WhyAnswer:
        timing = self.by.timing
        if self.by.first_output is not None and end < self.by.first_output:
            return self.by.suppressed(end)
        if not timing.event_time:
            return self.by.by_clock(end, waiting)
        of = self.by.for_key if len(chosen) > 1 or chosen[0].key is None else f" of {chosen[0].key!r}"
        window = "The window that ends" if len(chosen) == 1 else f"{len(chosen):,} windows end"
        holds = "holds" if len(chosen) == 1 else ", which hold"
        if self.by.fired is not None and end <= self.by.fired and not timing.per_key:
            return self.by.stays_open(end, waiting)
        head = f"{window} at {show(end)} {holds} {events_in_words(waiting)}{of}, and wait".replace(" ,", ",")
        head += "s." if len(chosen) == 1 else "."
        about = [f"The windows of the bolt: {timing.windows}."]
        if timing.slide is None:
            about.append("Their ends depend on their events.")
        if any(window.firings for window in chosen):
            about.append("It has fired already, before its end or for late events.")
        if timing.per_key:
            moment = show(self.by.needed(end) + timing.delay)
            words = (
                f"Each key has a watermark of its own: it fires when an event of its key at {moment} or later comes."
            )
            return self.by.told(WhyReason.KEYS, head, words, *about)
        answer = self.by.of_watermark(end, head)
        return replace(answer, sentences=(answer.sentences[0], " ".join(about), *answer.sentences[1:]))

    def _no_open_window(self, asked: int, ends: Sequence[int]) -> WhyAnswer:
        shown = [show(end) for end in ends[:3]]
        words = (
            "none that holds events is open."
            if not ends
            else f"those that are open end at {', '.join(shown)}"
            + (f", and {len(ends) - 3:,} later." if len(ends) > 3 else ".")
        )
        return self.by.told(
            WhyReason.NO_SUCH_WINDOW,
            f"No open window of {self.by.question.bolt!r}{self.by.for_key} ends at {show(asked)}: {words}",
            f"Its windows: {self.by.timing.windows}.",
        )

    def of_trigger(self) -> WhyAnswer:
        found = windows_still_open(
            self.by.state, self.by.timing, self.by.store, self.by.manifest.clock, self.by.question.key
        )
        count, accounts = sum(window.events for window in found), self.by.state.accounts
        states = [task.windows for task in self.by.state.tasks if isinstance(task.windows, TriggeredState)]
        due = min((state.next_due for state in states if state.next_due is not None), default=None)
        told = [f"A trigger fires the window of each key: {self.by.timing.windows}."]
        if self.by.question.window is not None:
            told.append("Such windows have no end before they fire, so they cannot be asked for by their end.")
        begins = [window.start for window in found if window.start is not None]
        since = f", the first at {show(min(begins))}" if begins and self.by.question.key is not None else ""
        told.append(
            f"{_wait(count, self.by.for_key)}{since}; keys with an open window: "
            f"{sum(state.open_windows for state in states):,}."
        )
        if count and due is not None:
            told.append(f"By the clock the next window is due at {show(due)}, whichever key it is of.")
        elif count:
            told.append("No window is due by the clock: one fires by the events of its key.")
        if accounts["purged"]:
            told.append(f"Purged: {accounts['purged']:,}. Their windows were cleared without a call of the bolt.")
        return replace(self.by.told(WhyReason.TRIGGER if count else WhyReason.NOTHING, *told), waiting=count)

    def of_policies(self) -> WhyAnswer:
        """Windows that policies of the user's own decide about."""
        trigger, eviction = self.by.timing.policies
        waiting = waiting_events(self.by.state, self.by.timing, self.by.store, self.by.question.key)
        count = int(waiting.counts.sum())
        told = [f"{_wait(count, self.by.for_key)}: {self.by.timing.windows}."]
        if self.by.question.window is not None:
            told.append("Where such windows end is known when they fire, so they cannot be asked for by their end.")
        told += self._of_units(trigger, eviction)
        if not self.by.timing.event_time or not len(waiting.times):
            return replace(self.by.told(WhyReason.POLICY if count else WhyReason.NOTHING, *told), waiting=count)
        current = self.by.state.watermark.current
        behind = waiting.times if current is None else waiting.times[waiting.times > current]
        if len(behind):
            at = "there is no watermark yet" if current is None else f"the watermark is at {show(current)}"
            told.append(f"{trigger} has not been told of {events_in_words(len(behind))}: {at}.")
            told += self.by.what_holds(None, int(behind.min()))
        holders = self.by.holding.of(self.by.question.bolt) if len(behind) else ()
        return replace(self.by.told(WhyReason.POLICY, *told), waiting=count, holders=holders)

    def _of_units(self, trigger: str, eviction: str) -> Iterator[str]:
        """What the policies have been told, and their states: of a task, of the key that is asked for, or in all."""
        tasks = [
            TaskReader(self.by.state, number, self.by.store, self.by.timing)
            for number in range(len(self.by.state.tasks))
        ]
        names = key_columns(self.by.timing) if any(self.by.timing.keys) else ()
        table = policy_tables(tasks, pa.schema([(name, pa.null()) for name in names]))["policies"]
        if self.by.question.key is not None and names:
            shown = [name if name in table.column_names else f"key.{name}" for name in names]
            table = table.filter(pa.array(has_key(table, shown, self.by.question.key)))
        rows = table.to_pylist()
        events = sum(row["events"] for row in rows)
        if not rows or not events:
            yield f"{trigger} fires when its hooks say so: it has been told of no event{self.by.for_key} yet."
            return
        last = show(max(int(from_datetime(row["time"])) for row in rows if row["time"] is not None))
        of = self.by.for_key if len(rows) == 1 else f" of {len(rows):,} {'keys' if names else 'tasks'}"
        head = (
            f"{trigger} fires when its hooks say so: it has been told of {events_in_words(events)}{of}, last at {last}"
        )
        if len(rows) > 1:
            yield f"{head}. windbolt state shows the states of {trigger} and {eviction}, for each."
            return
        (row,) = rows
        yield f"{head}; its state is {row['trigger']}."
        fired = (
            "It has not fired yet" if row["fired"] is None else f"It last fired at {show(from_datetime(row['fired']))}"
        )
        moment = row["next_moment"]
        asked = "it has asked for no moment" if moment is None else f"its next moment is {show(from_datetime(moment))}"
        yield f"{fired}; since then {events_in_words(row['events_since'])}; {asked}."
        if row["eviction"] != "{}":
            yield f"The state of {eviction} is {row['eviction']}."

    def of_counts(self) -> WhyAnswer:
        """Windows that are of a number of events, or fire by one."""
        waiting = waiting_events(self.by.state, self.by.timing, self.by.store, self.by.question.key)
        if not len(waiting.times):
            return self.by.told(
                WhyReason.NOTHING, f"No event{self.by.for_key} waits for a window: {self.by.timing.windows}."
            )
        if self.by.timing.slide is not None and self.by.timing.length is None:
            return self._of_count_at_regular_times(self.by.timing.slide, waiting)
        count = int(waiting.counts.sum())
        words = f"{_wait(count, self.by.for_key)}: {self.by.timing.windows}."
        holders = self.by.holding.of(self.by.question.bolt) if self.by.timing.event_time else ()
        answer = self.by.told(WhyReason.COUNT, words, *self._by_number(waiting))
        return replace(answer, waiting=count, holders=holders)

    def _by_number(self, waiting: WaitingEvents | None = None) -> Iterator[str]:
        if len(self.by.state.tasks) > 1:
            yield f"Each of the {len(self.by.state.tasks)} tasks counts its own events."
        current = self.by.state.watermark.current
        if not self.by.timing.event_time or waiting is None:
            yield "They fire by the number of events: when enough have come."
            return
        behind = waiting.times if current is None else waiting.times[waiting.times > current - self.by.timing.past_end]
        yield "They fire by the number of events, and an event counts once the watermark has reached its time."
        if not len(behind):
            yield "The watermark has reached all that wait: the next window needs further events."
            return
        needed = int(behind.min()) + self.by.timing.past_end
        at = "there is no watermark yet" if current is None else f"the watermark is at {show(current)}"
        yield f"{len(behind):,} of them do not count yet: {at}, and the next one counts from {show(needed)} on."
        yield from self.by.what_holds(None, needed)

    def _of_count_at_regular_times(self, slide: int, waiting: WaitingEvents) -> WhyAnswer:
        asked = self.by.question.window
        offset = self.by.timing.offset
        if asked is not None and (asked - offset) % slide:
            return self.by.between(asked, offset)
        first = int(waiting.times.min())
        end = -((offset - first) // slide) * slide + offset if asked is None else asked
        if self.by.over is not None and end <= self.by.over:
            return replace(self.by.over_window(end, 0), window_end=end)
        count = int(waiting.counts[waiting.times <= end].sum())
        ends = ", and waits." if count else ", so it does not fire."
        brings = f"{events_in_words(count)}{self.by.for_key} that no window has had{ends}"
        head = f"The window that ends at {show(end)} brings {brings}"
        answer = (
            self.by.by_clock(end, count)
            if not self.by.timing.event_time
            else self.by.of_watermark(
                end, f"{head} Windows of the bolt: {self.by.timing.windows}.", None if count else WhyReason.EMPTY
            )
        )
        return replace(answer, window_end=end, waiting=count)

    def _nothing(self) -> WhyAnswer:
        return self.by.told(
            WhyReason.NOTHING, f"No event{self.by.for_key} waits for a window: {self.by.timing.windows}."
        )


def _wait(count: int, of: str) -> str:
    return f"{events_in_words(count)}{of} {'waits' if count == 1 else 'wait'}"
