"""The marks of inputs, partitions and keys, and the watermark that follows them.

semantics, "The watermark", "Partitions" and "Idleness".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.oracles.interpreter.values import Key, least, most
from windowing.durations import Count, Duration
from windowing.settings import WindowSettings
from windowing.settings.rules import WatermarkCombiner

Where = Any
"""(stream, partition): the partition is None where there are none, or none is known yet; with a watermark for each key
the key."""


@dataclass
class Mark:
    """How far an input, a partition of one, or a key has come."""

    mark: int | None = None
    events: int = 0
    """Since the last mark was made."""
    since: int | None = None
    """The time of the event that made the last mark, or of the first one."""
    latest: int | None = None
    """For marks at ticks."""
    arrived: int = 0
    """The clock at the last event, or when it was first known."""

    def lift(self, to: int) -> None:
        """It never goes back."""
        self.mark = most(self.mark, to)


@dataclass
class Times:
    """The watermark of a bolt, or one for each key."""

    rules: WindowSettings
    streams: tuple[str, ...]
    clock: int
    of_inputs: Mapping[str, WindowSettings] = field(default_factory=dict)
    """The rules of inputs that have their own (SI-17)."""
    inner: frozenset[str] = frozenset()
    """The inputs that come from other windowed bolts."""
    has_partitions: bool = False
    """Whether each partition of an input has a mark."""
    marks: dict[Where, Mark] = field(default_factory=dict)
    watermarks: dict[Key, int] = field(default_factory=dict)
    floor: int | None = None
    """Where each key has a watermark of its own: the time before which nothing comes, of any key."""
    looked_at: int = 0
    """The clock by which inputs are silent: that of the last batch that is over."""
    latest_arrival: tuple[int, int] | None = None
    """The latest time of arrival, and the clock at the last event."""
    silent_until: int = 0
    """The latest arrival, as far as no earlier one is still to come in the batch."""
    last_tick: int | None = None

    def __post_init__(self) -> None:
        self.looked_at = self.clock
        if not self.per_key:
            self.marks = {(stream, None): Mark(arrived=self.clock) for stream in self.streams}

    @property
    def per_key(self) -> bool:
        return self.rules.watermark_per_key

    @property
    def at_ticks(self) -> bool:
        """ "It is computed": at ticks, or with events."""
        return self.rules.watermark_every is None

    def exist(self, stream: str, partitions: list[str]) -> None:
        """Partitions that exist hold the watermark before they deliver (AT-20, AZ-18)."""
        for name in partitions:
            self.marks.setdefault((stream, f"={name}"), Mark(arrived=self.clock))
            self.marks.pop((stream, None), None)

    def rules_of(self, where: Where) -> WindowSettings:
        return self.rules if self.per_key else self.of_inputs.get(where[0], self.rules)

    def is_inner(self, where: Where) -> bool:
        return not self.per_key and where[0] in self.inner

    def is_silent(self, where: Where) -> bool:
        """ "On one input or partition": it is left out of the watermark after its idle timeout; but a stream of a
        windowed bolt always has the watermark of that bolt."""
        timeout, mark = self.rules.partition_idle_timeout, self.marks[where]
        return timeout is not None and not self.is_inner(where) and self.looked_at - mark.arrived >= timeout.micros

    def makes_marks(self, where: Where) -> bool:
        """An input that imports makes none of its own, unless it is to do both (SI-16)."""
        imports = self.rules.watermark_imports or {}
        return self.per_key or where[0] not in imports or self.rules.watermark_imports_beside

    # ---- marks

    def of(self, where: Where) -> Mark:
        """The mark of an input, partition or key, which is known from now on."""
        if where not in self.marks and not self.per_key:
            self.marks.pop((where[0], None), None)
        return self.marks.setdefault(where, Mark())

    def before(self, where: Where) -> int | None:
        """How far an input or partition is before an event of it."""
        return self.marks[where].mark if where in self.marks else None

    def touch(self, where: Where) -> None:
        """An event that says nothing about time makes no partition known, and wakes none ("Partitions")."""
        if not self.has_partitions or (where in self.marks and not self.is_silent(where)):
            self.of(where).arrived = self.clock

    def sent(self, where: Where, time: int) -> None:
        """The source puts in a watermark (SI-4, SI-11)."""
        self.of(where).lift(time)
        self.of(where).arrived = self.clock

    def count(self, where: Where, time: int, *, is_end: bool) -> None:
        """An event: it makes a mark if it completes the number or the span (SI-5, SI-6), or at the next tick; an end
        edge makes none (SI-10)."""
        mark = self.of(where)
        mark.arrived = self.clock
        if is_end or self.is_inner(where):
            return  # "Behind other windowed bolts": it has the watermark of the bolt that it comes from
        mark.latest = most(mark.latest, time)
        mark.events += 1
        match self.rules_of(where).watermark_every:
            case None:
                return
            case Count() as every:
                made = mark.events >= every.value
            case Duration() as every:
                mark.since = time if mark.since is None else mark.since
                made = time - mark.since >= every.micros
        if made:
            mark.events, mark.since = 0, time
            if self.makes_marks(where):
                mark.lift(time - self.rules_of(where).delay)

    def promise(self, stream: str, to: int | None) -> None:
        """ "Behind other windowed bolts": nothing on this input will be from before this time."""
        if to is None:
            return
        mark = self.of((stream, None))
        mark.latest = to  # less than before, where rows have come whose own times are further behind
        if not self.at_ticks:
            mark.mark = to

    def tick(self) -> None:
        """ "It is the latest time, less the lag", at a tick; "Time": at most once per interval of the clock."""
        interval = self.rules.watermark_interval.micros
        if not self.at_ticks or (self.last_tick is not None and self.clock - self.last_tick < interval):
            return
        self.last_tick = self.clock
        for where, mark in self.marks.items():
            if mark.latest is not None and self.makes_marks(where):
                mark.mark = None if self.is_inner(where) else mark.mark
                mark.lift(mark.latest - self.rules_of(where).delay)

    # ---- arrivals

    @property
    def late_tolerance(self) -> int | None:
        """How far time stays behind arrivals; None where it does not follow them: no limit estimates nothing."""
        arrival = self.rules.arrival
        if arrival is None or arrival.late is None or not self.rules.estimate_arrival:
            return None
        return arrival.late.micros

    def pass_arrivals(self, where: Where) -> None:
        """Other partitions bring nothing from before the latest arrival, less the tolerance (AZ-5, "Partitions").

        Where arrivals of the batch go back: nothing from before those that are still to come in it (decision 25).
        """
        if self.late_tolerance is not None and not self.per_key and self.latest_arrival is not None:
            for of, mark in self.marks.items():
                if of not in (where, (where[0], None)):
                    mark.lift(self.silent_until - self.late_tolerance)

    def nothing_came(self) -> bool:
        """ "Idleness": a batch without input uses the estimated arrival, once the clock has moved (AZ-5, AZ-6)."""
        if self.late_tolerance is None or self.latest_arrival is None or self.clock <= self.latest_arrival[1]:
            return False
        arrival, clock = self.latest_arrival
        estimate = arrival + (self.clock - clock) - self.late_tolerance
        for key in list(self.marks) if self.per_key else [None]:
            self.lift(key, estimate)
        for mark in () if self.per_key else self.marks.values():
            mark.lift(estimate)
        return True

    def raise_keys(self) -> None:
        """No key has events from before the latest arrival, less the late tolerance (AZ-16, decision 16): at the end of
        every batch."""
        arrival = self.rules.arrival
        if self.per_key and arrival is not None and arrival.late is not None and self.latest_arrival is not None:
            arrived, clock = self.latest_arrival
            self.floor = most(self.floor, arrived + max(self.clock - clock, 0) - arrival.late.micros)

    # ---- the watermark

    def watermark(self, key: Key = None) -> int | None:
        return most(self.watermarks.get(key), self.floor) if self.per_key else self.watermarks.get(None)

    def lift(self, key: Key, to: int) -> None:
        """ "It goes back: never"."""
        self.watermarks[key] = max(to, self.watermarks.get(key, to))

    def follow(self, key: Key = None) -> None:
        """Take the watermark to where the marks are ("over several inputs", "over the partitions")."""
        if self.per_key:
            mark = self.before(key)
            if mark is not None:
                self.lift(key, mark)
            return
        for taker, giver in (self.rules.watermark_imports or {}).items():
            given = least(*(mark.mark for (stream, _), mark in self.marks.items() if stream == giver))
            if given is not None:
                self.of((taker, None)).lift(given)
        marks = [mark.mark for where, mark in self.marks.items() if not self.is_silent(where)]
        if self.rules.watermark_combine is WatermarkCombiner.MAX:
            found = most(*marks)
        else:
            found = None if None in marks else least(*marks)
        if found is not None:
            self.lift(None, found)
