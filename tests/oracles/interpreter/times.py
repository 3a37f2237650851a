"""The marks of inputs, partitions and keys, and the watermark that follows them.

semantics, "The watermark", "Partitions" and "Idleness".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.oracles.interpreter.values import Key
from windowing.durations import Count, Duration
from windowing.settings import WindowSettings
from windowing.settings.rules import WatermarkCombiner

Where = Any
"""(stream, partition), or with a watermark for each key the key."""


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
        self.mark = to if self.mark is None else max(self.mark, to)


@dataclass
class Times:
    """The watermark of a bolt, or one for each key."""

    rules: WindowSettings
    streams: tuple[str, ...]
    began: int
    """The first clock."""
    of_inputs: Mapping[str, WindowSettings] = field(default_factory=dict)
    """The rules of inputs that have their own (SI-17)."""
    inner: frozenset[str] = frozenset()
    """The inputs that come from other windowed bolts."""
    marks: dict[Where, Mark] = field(default_factory=dict)
    awaited: dict[str, Mark] = field(init=False)
    """Inputs of which no partition is known."""
    watermarks: dict[Key, int] = field(default_factory=dict)
    has_partitions: bool = False
    """Whether each partition of an input has a mark."""
    clock: int = 0
    looked_at: int = 0
    """The clock by which inputs are silent: that of the last batch that is over."""
    latest_arrival: tuple[int, int] | None = None
    """The latest time of arrival, and the clock at the last event."""
    silent_until: int = 0
    """The latest arrival, as far as no earlier one is still to come in the batch."""

    def __post_init__(self) -> None:
        self.awaited = {stream: Mark(arrived=self.began) for stream in self.streams}

    @property
    def per_key(self) -> bool:
        return self.rules.watermark_per_key

    @property
    def at_ticks(self) -> bool:
        """ "It is computed": at ticks, or with events."""
        return self.rules.watermark_every is None

    @property
    def late_tolerance(self) -> int | None:
        """How far time stays behind arrivals; None where it does not follow them: no limit estimates nothing."""
        arrival = self.rules.arrival
        followed = self.rules.estimate_arrival and arrival is not None and arrival.late is not None
        return arrival.late.micros if followed else None  # type: ignore[union-attr]

    def exist(self, partitions: Any) -> None:
        """Partitions that exist hold the watermark before they deliver (AT-20, AZ-18)."""
        for stream in self.streams:
            names = partitions.get(stream, []) if isinstance(partitions, dict) else partitions or []
            for name in names:
                self.marks.setdefault((stream, f"={name}"), Mark(arrived=self.clock))
                self.awaited.pop(stream, None)

    def rules_of(self, where: Where) -> WindowSettings:
        return self.rules if self.per_key else self.of_inputs.get(where[0], self.rules)

    # ---- marks

    def of(self, where: Where) -> Mark:
        """The mark of an input, partition or key, which is known from now on."""
        if where not in self.marks and not self.per_key:
            awaited = self.awaited.pop(where[0], None)
            if awaited is not None and not self.has_partitions:
                self.marks[where] = awaited
        return self.marks.setdefault(where, Mark())

    def before(self, where: Where) -> int | None:
        """How far an input or partition is before an event of it."""
        if where in self.marks:
            return self.marks[where].mark
        return self.awaited[where[0]].mark if where[0] in self.awaited and not self.has_partitions else None

    def touch(self, where: Where) -> None:
        """An event that says nothing about time makes no partition known, and wakes none ("Partitions")."""
        if self.has_partitions and where not in self.marks:
            return
        mark, timeout = self.of(where), self.rules.partition_idle_timeout
        if not self.has_partitions or timeout is None or self.looked_at - mark.arrived < timeout.micros:
            mark.arrived = self.clock

    def sent(self, where: Where, time: int) -> None:
        """The source puts in a watermark (SI-4, SI-11)."""
        mark = self.of(where)
        mark.lift(time)
        mark.arrived = self.clock

    def count(self, where: Where, time: int, *, is_end: bool) -> None:
        """An event: it makes a mark if it completes the number or the span (SI-5, SI-6), or at the next tick; an end
        edge makes none (SI-10)."""
        mark = self.of(where)
        mark.arrived = self.clock
        if is_end or self.is_inner(where):
            return  # "Behind other windowed bolts": it has the watermark of the bolt that it comes from
        mark.latest = time if mark.latest is None else max(mark.latest, time)
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

    last_tick: int | None = None

    def is_due(self) -> bool:
        """guide, "Time": at most once per ``with_watermark_interval`` of the clock."""
        interval = self.rules.watermark_interval.micros
        if self.last_tick is not None and self.clock - self.last_tick < interval:
            return False
        self.last_tick = self.clock
        return True

    def tick(self) -> None:
        """ "It is the latest time, less the lag", at a tick."""
        if self.at_ticks:
            for where, mark in self.marks.items():
                if mark.latest is not None and self.makes_marks(where):
                    mark.mark = None if self.is_inner(where) else mark.mark
                    mark.lift(mark.latest - self.rules_of(where).delay)

    def is_inner(self, where: Where) -> bool:
        return not self.per_key and where[0] in self.inner

    def makes_marks(self, where: Where) -> bool:
        """An input that imports makes none of its own, unless it is to do both (SI-16)."""
        imports = self.rules.watermark_imports or {}
        return self.per_key or where[0] not in imports or self.rules.watermark_imports_beside

    def pass_arrivals(self, where: Where) -> None:
        """Other partitions bring nothing from before the latest arrival, less the tolerance (AZ-5, "Partitions").

        Where arrivals of the batch go back: nothing from before those that are still to come in it (decision 25).
        """
        if self.late_tolerance is None or self.per_key or self.latest_arrival is None:
            return
        floor = self.silent_until - self.late_tolerance
        for of, mark in self.marks.items():
            if of != where:
                mark.lift(floor)
        for stream, mark in self.awaited.items():
            if stream != where[0]:
                mark.lift(floor)

    def estimate(self) -> int | None:
        """When nothing comes: the estimated arrival, less the late tolerance (AZ-5, AZ-6)."""
        if self.late_tolerance is None or self.latest_arrival is None:
            return None
        arrival, clock = self.latest_arrival
        if self.clock <= clock:
            return None
        return arrival + (self.clock - clock) - self.late_tolerance

    # ---- the watermark

    floor: int | None = None
    """With a watermark for each key: the least of all keys."""

    def raise_keys(self) -> None:
        """No key has events from before the latest arrival, less the late tolerance (AZ-16, decision 16)."""
        arrival = self.rules.arrival
        if arrival is not None and arrival.late is not None and self.latest_arrival is not None:
            arrived, clock = self.latest_arrival
            estimated = arrived + max(self.clock - clock, 0) - arrival.late.micros
            self.floor = estimated if self.floor is None else max(self.floor, estimated)

    def watermark(self, key: Key = None) -> int | None:
        if not self.per_key:
            return self.watermarks.get(None)
        known = [each for each in (self.watermarks.get(key), self.floor) if each is not None]
        return max(known, default=None)

    def lift(self, key: Key, to: int) -> None:
        """ "It goes back: never"."""
        self.watermarks[key] = max(to, self.watermarks.get(key, to))

    def follow(self, key: Key = None) -> None:
        """Take the watermark to where the marks are ("over several inputs", "over the partitions")."""
        if self.per_key:
            if key in self.marks and self.marks[key].mark is not None:
                self.lift(key, self.marks[key].mark or 0)
            return
        for taker, giver in (self.rules.watermark_imports or {}).items():
            of_giver = [mark.mark for (stream, _), mark in self.marks.items() if stream == giver]
            of_giver += [mark.mark for stream, mark in self.awaited.items() if stream == giver]
            given = [mark for mark in of_giver if mark is not None]
            if given:
                self.of((taker, None)).lift(min(given))
        marks: list[int | None] = []
        timeout = self.rules.partition_idle_timeout
        for stream in self.streams:
            parts = [mark for (of, _), mark in self.marks.items() if of == stream]
            parts = parts or [self.awaited.get(stream, Mark(arrived=self.began))]
            if timeout is not None:
                parts = [mark for mark in parts if self.looked_at - mark.arrived < timeout.micros]
            marks += [mark.mark for mark in parts]
        known = [mark for mark in marks if mark is not None]
        if self.rules.watermark_combine is WatermarkCombiner.MAX:
            if known:
                self.lift(None, max(known))
        elif known and len(known) == len(marks):
            self.lift(None, min(known))
