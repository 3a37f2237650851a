"""Kinds of windows, and what of the other settings goes with them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from topologies.compose.checks.checked_bolt import CheckedBolt
from windowing.errors import ConfigError
from windowing.settings.bounds import Bounds
from windowing.settings.kinds import Session
from windowing.settings.rules import LateAction, LateBy, OutputTime
from windowing.time.durations import Duration

if TYPE_CHECKING:
    from windowing.settings import WindowSettings


def _leaves_out_its_end(settings: WindowSettings) -> bool:
    """Whether a window never holds an event of its end."""
    if settings.key_trigger is not None:
        return False
    if settings.kinds:
        # The times of what ready bolts emit at moments are theirs to choose.
        return all(kind.bounds(settings.bounds) is Bounds.START and not kind.of_moments for kind in settings.kinds)
    return settings.bounds is Bounds.START and isinstance(settings.slide, Duration)


def windows(bolt: CheckedBolt) -> Iterator[ConfigError]:
    """Kinds of windows that do not go with what else is set."""
    for check in _CHECKS:
        yield from check(bolt)


def _promised_ends(bolt: CheckedBolt) -> Iterator[ConfigError]:
    """Rows at the start of windows, and a watermark for the next bolt that is past it."""
    settings = bolt.settings
    ends_promised = settings.output_watermark is OutputTime.END
    if settings.output_time is OutputTime.START and ends_promised and bolt.event_time:
        yield bolt.fault(
            "emits rows at the start of windows, and promises the next bolt a watermark that follows their ends",
            "the rows would be late at the next bolt",
            "leave out output_watermark, or use with_time(output_time='window end')",
        )


def _last_microsecond(bolt: CheckedBolt) -> Iterator[ConfigError]:
    """Rows at the last microsecond of windows that end at it and hold it."""
    settings = bolt.settings
    if settings.output_time is OutputTime.LAST and bolt.event_time and not _leaves_out_its_end(settings):
        yield bolt.fault(
            "emits rows at the last microsecond before the end of windows that hold their end",
            "such a window ends with its end, which is the time that its rows have anyway",
            "use with_alignment(bounds='[start, end)'), or leave output_time='window last' out",
        )


def _starts_that_move(bolt: CheckedBolt) -> Iterator[ConfigError]:
    """Rows at the start of windows whose start late events move."""
    settings = bolt.settings
    by_start = settings.output_time is OutputTime.START and settings.late_by is LateBy.WINDOW and bolt.event_time
    if by_start and any(kind.merges or kind.between_edges for kind in settings.kinds):
        yield bolt.fault(
            "emits rows at the start of windows that late events can still extend backwards",
            "the next bolt could get no watermark, or the rows would be late there",
            "use with_time(output_time='window end'), or with_lateness(by='watermark')",
        )


def _gaps_of_events(bolt: CheckedBolt) -> Iterator[ConfigError]:
    """Several kinds of sessions, where each event has a gap of its own."""
    sessions = [kind for kind in bolt.settings.kinds if isinstance(kind, Session)]
    if len(sessions) > 1 and any(kind.gap_field is not None for kind in sessions):
        yield bolt.fault(
            "has several kinds of sessions with a gap_field",
            "each event has one gap, which all kinds would use",
            "give each kind a bolt of its own",
        )


def _adjusted_lifetimes(bolt: CheckedBolt) -> Iterator[ConfigError]:
    """Late events that last, and are moved past their end."""
    settings, arrival = bolt.settings, bolt.settings.arrival
    by_arrival = arrival is not None and arrival.late is not None and arrival.action is LateAction.ADJUST
    adjusts = settings.late_action is LateAction.ADJUST or by_arrival
    if settings.lifetime is not None and adjusts and bolt.event_time:
        yield bolt.fault(
            "has events that last, and adjusts late ones",
            "a lifetime would end before it begins",
            "use with_lateness(action='cut'), which lets late events begin later, or drop or divert them",
        )


def _too_long(bolt: CheckedBolt) -> Iterator[ConfigError]:
    """Windows longer than the system has that the preset stands for (AZ-19)."""
    settings, most = bolt.settings, bolt.settings.longest_window
    lengths = [settings.length, *(kind.declared_length for kind in settings.kinds)]
    for length in dict.fromkeys(each for each in lengths if isinstance(each, Duration)):
        if most is not None and length > most:
            yield bolt.fault(
                f"has windows of {length}",
                f"the longest window allowed here is {most}",
                "make them shorter, or lift the limit: with_alignment(longest_window=None)",
            )


def _each_kind(bolt: CheckedBolt) -> Iterator[ConfigError]:
    """What one kind of window asks of its events."""
    settings = bolt.settings
    for kind in settings.kinds:
        if settings.lifetime is not None and kind.of_points:
            yield bolt.fault(
                f"has events that last, and {type(kind).__name__} windows",
                "these windows need points in time",
                "leave with_lifetime out, or use snapshot, hopping or calendar windows",
            )
        if settings.lifetime is not None and kind.between_edges and settings.bounds is Bounds.END:
            yield bolt.fault(
                "has snapshots of events that last, with bounds (start, end]",
                "a lifetime holds its start and not its end",
                "use with_alignment(bounds='[start, end)')",
            )
        if isinstance(kind, Session) and kind.gap_field is not None and kind.max_duration is not None:
            yield bolt.fault(
                "has sessions with a gap for each event and a maximum duration",
                "there is no rule for where such a session would be cut",
                "leave one of the two out",
            )


def _anchor(bolt: CheckedBolt) -> Iterator[ConfigError]:
    """An anchor of windows that are not counted from one."""
    kinds = bolt.settings.kinds
    if bolt.settings.anchor is not None and kinds and not any(kind.takes_offset for kind in kinds):
        yield bolt.fault(
            "has an anchor, and no aligned windows", "only aligned windows are counted from an anchor", "remove it"
        )


_CHECKS = (
    _promised_ends, _last_microsecond, _starts_that_move, _gaps_of_events, _adjusted_lifetimes, _too_long,
    _each_kind, _anchor,
)  # fmt: skip
"""In the order in which their mistakes are reported."""
