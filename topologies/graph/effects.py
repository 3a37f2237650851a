"""Conditions under which settings have an effect. A setting that a user gives, and that has none, is refused.

The declaration of a setting (``WindowSettings``) names its conditions, which the table at the end defines. Settings of
a preset are not refused: a preset is the set of rules of a system, and not every kind of window uses each rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from policies.choose_policies import choose_assigners, choose_policies, closes_after_end
from windowing.durations import Count, Duration, Shift
from windowing.errors import ConfigError
from windowing.settings import DECLARED, SOURCE_ONLY
from windowing.settings.rules import Aligned, Bounds, DefaultTime, LateBy, Partition, WatermarkCombiner

if TYPE_CHECKING:
    from windowing.settings import WindowSettings
    from windowing.settings.declaration import Declaration


@dataclass(frozen=True)
class Situation:
    """Facts that decide whether a setting has an effect."""

    settings: WindowSettings
    event_time: bool
    input_count: int
    """Number of streams that the bolt reads."""
    source_has_partitions: bool = False
    """True if a source of one of the streams has partitions of its own, as Kafka has."""
    reads_outside_events: bool = True
    """True if one of the streams brings events from outside, rather than rows of windowed bolts."""

    @cached_property
    def shape(self) -> Any:
        """The policies that form and close the windows, as ``_policies_of`` returns them."""
        return _policies_of(self, self.settings)

    @property
    def has_partitions(self) -> bool:
        """True if an input has several partitions with a mark each."""
        partition = self.settings.watermark_partition
        return self.source_has_partitions if isinstance(partition, Partition) else partition is not None

    @property
    def combines_marks(self) -> bool:
        """True if the watermark combines more than one mark."""
        return self.input_count > 1 or self.has_partitions

    @property
    def takes_all_watermarks(self) -> bool:
        """True if the bolt makes no watermark of its own: the source or another input brings it."""
        rules = (self.settings.input_rules or {}).values()  # inputs with rules of their own (SI-17)
        intervals = {each.watermark_every for each in rules} or {self.settings.watermark_every}
        return intervals == {SOURCE_ONLY}

    @property
    def has_ctis(self) -> bool:
        """True for watermarks of StreamInsight: the data alone advances time, never the clock (SI-4)."""
        settings = self.settings
        are_given = settings.watermark_field is not None or settings.watermark_imports is not None
        return are_given or settings.default_time is DefaultTime.NONE or self.takes_all_watermarks


@dataclass(frozen=True)
class Need:
    """A condition without which a setting has no effect, and the text of the error."""

    is_met: Callable[[Situation], bool]
    without: str
    """Where the setting has no effect: ``on a bolt without event times``."""
    why: str
    do: str


def ineffective_settings(name: str, situation: Situation) -> Iterator[ConfigError]:
    """Yields an error for each call of the user on bolt ``name`` that has no effect."""
    settings, reported = situation.settings, set[str]()
    for call in dict.fromkeys(settings.forgotten):
        yield ConfigError(
            f"bolt {name!r}: {call} before with_time(...)",
            why="the preset sets every time rule, so it has replaced what was set before",
            do="call with_time first, and then whatever differs from the preset",
        )
    for rule, call in settings.asked:
        error = None if call in reported else ineffective_setting(name, situation, rule, call)
        if error is not None:
            reported.add(call)
            yield error


def all_ineffective(situation: Situation) -> frozenset[str]:
    """Returns the settings without effect on a bolt, of the user and of presets."""
    return frozenset(name for name, declared in DECLARED.items() if _first_unmet(declared, situation) is not None)


def ineffective_setting(bolt: str, situation: Situation, rule: str, call: str) -> ConfigError | None:
    """Returns the error for a setting of ``call`` that has no effect on a bolt; None if it has an effect."""
    if getattr(situation.settings, rule) is None:
        return None  # it takes back a setting of a preset
    unmet = _first_unmet(DECLARED[rule], situation)
    if unmet is None:
        return None
    return ConfigError(f"bolt {bolt!r}: {call} {unmet.without}", why=unmet.why, do=unmet.do)


def _first_unmet(declared: Declaration, situation: Situation) -> Need | None:
    """Returns the first condition of a setting that a bolt does not meet."""
    return next((NEEDS[name] for name in declared.needs if not NEEDS[name].is_met(situation)), None)


def _changes_windows(rule: str, *values: Any) -> Callable[[Situation], bool]:
    """Returns a function that is true if one of these values of a setting would change a bolt's windows, or when they
    close."""

    def has_effect(situation: Situation) -> bool:
        settings, shape = situation.settings, situation.shape
        other_shapes = (_policies_of(situation, settings.changed(**{rule: value})) for value in values)
        return shape is None or any(other is None or other != shape for other in other_shapes)

    return has_effect


def _policies_of(situation: Situation, settings: WindowSettings) -> Any:
    """Returns the policies that form and close a bolt's windows; None if they cannot be made, which another check
    reports."""
    if settings.key_trigger is not None:
        return ()
    try:
        assigners = choose_assigners(settings, event_time=situation.event_time)
        closing = closes_after_end(settings, event_time=situation.event_time)
        if assigners:
            return assigners, closing
        return choose_policies(settings, event_time=situation.event_time)
    except ConfigError:
        return None


def _has_lengths(situation: Situation) -> bool:
    settings = situation.settings
    lengths = [settings.length, *(kind.declared_length for kind in settings.kinds)]
    return settings.key_trigger is None and any(isinstance(each, Duration) for each in lengths)


def _may_stay_open(situation: Situation) -> bool:
    """True if events may be in no window at the end of the streams, because no later time lets their windows fire."""
    settings = situation.settings
    if not isinstance(settings.slide, Count) or settings.length is None or settings.kinds:
        return True
    if not situation.event_time:
        return False  # they fire as their events arrive
    fire_at_once = settings.watermark_every == Count(1) and settings.delay <= 0 and settings.watermark_field is None
    return not fire_at_once or situation.combines_marks or settings.watermark_per_key


def _may_open_behind(situation: Situation) -> bool:
    """True if an open window can start before the end of a closed window, which the next bolt has seen."""
    settings = situation.settings
    tumbling = settings.length == settings.slide and isinstance(settings.length, Duration) and not settings.kinds
    if not tumbling or settings.late_by is not LateBy.WINDOW:
        return True
    try:
        return bool(choose_assigners(settings, event_time=situation.event_time))
    except ConfigError:
        return True  # another check reports this


def shortest_slide(settings: WindowSettings) -> Duration | None:
    """Returns the least time between the ends of two successive windows; None if that depends on the events."""
    if settings.key_trigger is not None:
        return None
    match settings.kinds:
        case ():
            is_time = isinstance(settings.length, Duration) and isinstance(settings.slide, Duration)
            return settings.slide if is_time and isinstance(settings.slide, Duration) else None
        case (only,):
            return only.period
    return None


def _empty_window_fits(situation: Situation) -> bool:
    until, slide = situation.settings.empty_windows_until, shortest_slide(situation.settings)
    return until is None or slide is None or until >= slide


def _are_instants(settings: WindowSettings) -> bool:
    """True if every window is one instant, and closes once the watermark has passed it."""
    are_points = settings.lifetime is None and not settings.allowed_lateness.micros
    return are_points and bool(settings.kinds) and all(kind.between_edges for kind in settings.kinds)


EVENT_TIME = Need(
    lambda s: s.event_time,
    "on a bolt without event times",
    "an event whose time is that of its arrival is never late, and by the clock there is no watermark",
    "call with_timestamp_field or with_timestamp_extractor, or remove it",
)
FROM_OUTSIDE = Need(
    lambda s: s.reads_outside_events,
    "on a bolt that reads only other windowed bolts",
    "what comes from outside has an arrival; rows of windows have the watermark of their bolt, and are not late by it",
    "give it to the bolts that read the spouts, or remove it",
)
WITH_EVENTS = Need(
    lambda s: s.settings.watermark_every is not None,
    "where watermarks come at ticks",
    "only a watermark made at an event can be ahead of it",
    "remove it, or make one at every event: with_watermark(every=1)",
)
LEFT_OPEN = Need(
    _may_stay_open,
    "on windows that fire with their last event",
    "a full window has fired before the streams end, and an incomplete one does not fire in any case",
    "remove it",
)
NO_INSTANTS = Need(
    lambda s: not _are_instants(s.settings),
    "on snapshots of points, without allowed lateness",
    "such a window is one instant: when the watermark has passed it, all its events are late too",
    "remove it, or allow some lateness",
)
BY_WATERMARK = Need(
    lambda s: s.settings.late_by is LateBy.WATERMARK,
    "where events are late by their windows",
    "windows close by the watermark of the bolt, not by that of an input",
    "use with_lateness(by='watermark'), or remove it",
)
LATE_SESSIONS = Need(
    lambda s: s.settings.late_by is LateBy.WINDOW and any(kind.merges for kind in s.settings.kinds),
    "without sessions whose events are late by their windows",
    "it applies only to such sessions",
    "use sessions with with_lateness(by='window'), or remove it",
)
MAKES_MARKS = Need(
    lambda s: not s.takes_all_watermarks,
    "on a bolt whose watermarks come from the source or another input",
    "these are used unchanged, and the bolt makes none of its own",
    "remove it, or make watermarks as well: with_watermark(every=1)",
)
AT_TICKS = Need(
    lambda s: s.settings.watermark_every is None and not s.settings.watermark_per_key,
    "where watermarks come with events",
    "the interval is between ticks, and these watermarks do not wait for ticks",
    "remove it, or set how often they are made: with_watermark(every='5s')",
)
SEVERAL_MARKS = Need(
    lambda s: s.combines_marks,
    "on a bolt with one input, and without partitions",
    "there is one mark, which is the watermark",
    "remove it, or name the column of partitions: with_watermark(partition=...)",
)
PARTITIONED = Need(
    lambda s: s.has_partitions,
    "with SOURCE on inputs whose sources have no known partitions",
    "only topics of Kafka and a PartitionedSpout say which partitions they have",
    "name the column of partitions, or remove it",
)
LEAST = Need(
    lambda s: s.settings.watermark_combine is WatermarkCombiner.MIN,
    "with with_watermark(combine='max')",
    "the fastest input decides, so silent inputs do not matter",
    "leave one of the two out",
)
ONE_WATERMARK = Need(
    lambda s: not s.settings.watermark_per_key,
    "with a watermark for each key",
    "there is no watermark of the whole bolt to which it could apply",
    "leave one of the two out",
)
NO_CTIS = Need(
    lambda s: not s.has_ctis,
    "with StreamInsight's watermarks",
    "there only the data moves time, never the clock; a silent source sends a watermark",
    "remove it, or use another preset",
)
IMPORTS = Need(
    lambda s: bool(s.settings.watermark_imports),
    "without imports of watermarks",
    "no input takes another's",
    "give imports=, or remove it",
)
TOLERANCE = Need(
    lambda s: s.settings.arrival is not None and s.settings.arrival.late is not None,
    "without a late tolerance",
    "the watermark stays behind the estimated arrival by that tolerance",
    "give with_lateness(arrival=Arrival(late=...)), or remove it",
)
IDLE_TIMEOUT = Need(
    lambda s: s.settings.idle_timeout is not None,
    "without an idle timeout",
    "it says how the timeout is counted",
    "give idle_timeout=, or remove it",
)
BOUNDED_ARRIVAL = Need(
    lambda s: (
        s.settings.default_time is DefaultTime.ARRIVAL
        or (
            s.settings.arrival is not None
            and (s.settings.arrival.early is not None or s.settings.arrival.late is not None)
        )
    ),
    "without early= and late=",
    "nothing would be early or late by its arrival",
    "give Arrival(early=..., late=...), one or both",
)
LATE_PANES = Need(
    lambda s: s.event_time or s.settings.panes is None or s.settings.panes.late is None,
    "on a bolt without event times, to fire again for late events",
    "in processing time no event is late, so no window fires again",
    "call with_timestamp_field, or leave late= out",
)
NAMES_NO_TIME = Need(
    lambda s: not {"timestamp_field", "timestamp_extractor", "processing_time"} & s.settings.given,
    "on a bolt that names its time",
    "it sets the time for a bolt that names none",
    "remove it",
)
EDGES_MATTER = Need(
    _changes_windows("bounds", *Bounds),
    "on windows without edges to choose from",
    "they hold the same events either way",
    "remove it",
)
ON_A_GRID = Need(
    _changes_windows("offset", Shift(0), Shift(1)),
    "on windows that are not aligned to a slide",
    "an offset shifts windows whose ends are multiples of a slide: not sessions, snapshots, counts or calendars",
    "remove it, or use with_window or with_tumbling_window with durations",
)
ALIGNS = Need(
    _changes_windows("aligned", *Aligned),
    "on windows with both edges, or neither, at multiples of the slide",
    "starts and ends differ only where the length is not a multiple of the slide",
    "remove it",
)
CLOSES_LATER = Need(
    _changes_windows("closes_after_end", True, False),
    "on windows that do not hold their end, or close after it anyway",
    "they close at the same moment either way",
    "remove it",
)
HAS_LENGTHS = Need(_has_lengths, "on windows without a length in time", "only lengths in time are limited", "remove it")
HAS_STARTS = Need(
    lambda s: not isinstance(s.settings.length, Count),
    "on windows of a number of events",
    "these have no start in time",
    "remove it",
)
LASTS = Need(
    lambda s: not (_are_instants(s.settings) and s.settings.bounds is Bounds.END),
    "on snapshots of points",
    "such a window is one instant: its start is its end",
    "remove it",
)
HAS_GRID = Need(
    lambda s: shortest_slide(s.settings) is not None,
    "on windows whose ends depend on events, or of several kinds",
    "only of windows of one length and slide in time, or of the calendar, it is known which of them nothing fell into",
    "use with_window or with_tumbling_window with durations, or Calendar, or remove it",
)
ROOM_FOR_EMPTY = Need(
    _empty_window_fits,
    "with less than a slide",
    "the next window ends a slide after the last one that held an event",
    "make until= as long as the silence that you want to see, and a slide at least",
)
OPENS_BEHIND = Need(
    _may_open_behind,
    "on tumbling windows that tell the next bolt their end when they close",
    "the earliest open window starts where the last one ended, so both are the same time",
    "remove it",
)

NEEDS: dict[str, Need] = {
    "event time": EVENT_TIME,
    "no time of its own": NAMES_NO_TIME,
    # -- marks
    "marks made here": MAKES_MARKS,
    "watermarks at ticks": AT_TICKS,
    "watermarks with events": WITH_EVENTS,
    "partitions": PARTITIONED,
    "several marks": SEVERAL_MARKS,
    "the least mark": LEAST,
    "one watermark": ONE_WATERMARK,
    "imports": IMPORTS,
    "no CTIs": NO_CTIS,
    "idle timeout": IDLE_TIMEOUT,
    # -- lateness
    "events from outside": FROM_OUTSIDE,
    "late tolerance": TOLERANCE,
    "early or late by arrival": BOUNDED_ARRIVAL,
    "late by watermark": BY_WATERMARK,
    "no instants": NO_INSTANTS,
    "sessions that are late by window": LATE_SESSIONS,
    "late panes": LATE_PANES,
    # -- windows
    "edges": EDGES_MATTER,
    "edges off the grid": ALIGNS,
    "a grid": ON_A_GRID,
    "a held end": CLOSES_LATER,
    "windows on a grid": HAS_GRID,
    "room for an empty window": ROOM_FOR_EMPTY,
    "lengths": HAS_LENGTHS,
    "starts": HAS_STARTS,
    "windows that last": LASTS,
    "open windows behind closed ones": OPENS_BEHIND,
    "open windows at the end": LEFT_OPEN,
}
"""The conditions of settings, by the names in their declarations (``WindowSettings``). A setting without a condition
has an effect on every bolt, or other checks refuse it."""
