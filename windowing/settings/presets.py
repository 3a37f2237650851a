"""Presets: all time settings of another system, for ``with_time(presets.azure())``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, TypeAlias

from windowing.calls import checked_value
from windowing.durations import Count, Duration, Time, as_duration, as_every
from windowing.errors import ConfigError, did_you_mean
from windowing.reprs import fields_repr
from windowing.settings import DECLARED, SOURCE_ONLY
from windowing.settings.rules import (
    SOURCE,
    Aligned,
    Arrival,
    Bounds,
    DefaultTime,
    IdleRule,
    IdleRuleName,
    LateAction,
    LateActionName,
    LateBy,
    OutputTime,
    one_of,
    read_flag,
)

# Tolerances and actions, as Azure Stream Analytics and windbolt write them.


LONGEST_LATENESS = Duration(1_814_399_000_000)
"""20 days, 23:59:59: Azure's longest late tolerance (AZ-10)."""

LONGEST_WINDOW = Duration(7 * 24 * 3_600_000_000)
"""7 days: Azure's longest window (AZ-19)."""

UNLIMITED = (-1, "-1")
"""Values that Azure uses for an unlimited late tolerance (AZ-10)."""

_TIME_SPAN = re.compile(r"(?:(\d+)\.)?(\d{1,2}):([0-5]\d):([0-5]\d)(?:\.(\d{1,6}))?")
_LATE_ACTIONS = {action.value: action for action in (LateAction.ADJUST, LateAction.DROP, LateAction.ERROR)}


def late_tolerance(value: Duration | timedelta | str | int | None) -> Duration | None:
    """Returns the time by which an event may arrive late (AZ-8, AZ-10); None for None and -1, which mean no limit.

    Raises ConfigError for a duration above 1,814,399 s, and for anything that is not a duration.
    """
    if value is None or (value in UNLIMITED and not isinstance(value, bool)):
        return None
    tolerance = time_span("late", value)
    if tolerance > LONGEST_LATENESS:
        raise ConfigError(
            f"a late tolerance of {tolerance}",
            why="Azure's is at most 20.23:59:59, 1,814,399 seconds, or -1 for no limit",
            do="make it shorter, or late=None for no limit",
        )
    return tolerance


def time_span(name: str, value: Duration | timedelta | str | int) -> Duration:
    """Convert a duration, also in Azure's form (``"00:05:00"``, ``"1.00:00:00"``).

    Raises ConfigError for anything else; ``name``: the name of the argument.
    """
    if isinstance(value, int):
        raise ConfigError(
            f"presets.azure({name}={value!r})",
            why="a bare number has no unit; only late=-1 means something by itself: no limit",
            do=f"write {name}='{abs(value)}s' or, as Azure does, {name}='00:05:00'",
        )
    match = _TIME_SPAN.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        return as_duration(value)
    days, hours, minutes, seconds, fraction = match.groups()
    if int(hours) > 23:
        raise ConfigError(
            f"presets.azure({name}={value!r})", why="a day has 24 hours", do="write days in front: '1.00:00:00'"
        )
    total_seconds = ((int(days or 0) * 24 + int(hours)) * 60 + int(minutes)) * 60 + int(seconds)
    return Duration(total_seconds * 1_000_000 + int((fraction or "").ljust(6, "0")))


AzureLateActionName: TypeAlias = Literal["adjust", "drop", "error", "Adjust", "Drop"]


def late_action(value: LateAction | str) -> LateAction:
    """Returns the action for late and disordered events (AZ-9): ``adjust`` or ``drop``, also in Azure's spelling.

    ``error``, which Azure does not have, stops the run. Raises ConfigError for the actions of other systems.
    """
    name = value.value if isinstance(value, LateAction) else value
    action = _LATE_ACTIONS.get(name.lower() if isinstance(name, str) else name)
    if action is None:
        raise ConfigError(
            f"presets.azure(action={name!r})",
            why="Azure adjusts the time of late and disordered events, or drops them",
            do="use 'adjust' or 'drop', or 'error' to stop the run; for another rule of one's own, call "
            "with_lateness(action=...) and with_lateness(arrival=Arrival(...)) after the preset",
        )
    return action


# Presets.


RULES = tuple(name for name, declared in DECLARED.items() if declared.preset)
"""The names of the settings that presets decide."""


@dataclass(frozen=True)
class Preset:
    """A value for every time setting; the values that ``rules`` lacks are those of Storm."""

    name: str
    rules: Mapping[str, Any]
    asked: tuple[tuple[str, str], ...] = ()
    """The rules that the user has given by name, as (setting, call); see ``WindowSettings.asked``."""

    def __repr__(self) -> str:
        return fields_repr(self)

    def changes(self) -> dict[str, Any]:
        """Returns a value for each setting in ``RULES``: that of the preset, or else the default."""
        return {name: self.rules.get(name, DECLARED[name].default) for name in RULES}

    def but(self, **rules: Any) -> Preset:
        """Returns a copy of the preset with other values for some rules, which have the names of WindowSettings."""
        unknown = sorted(set(rules) - set(RULES))
        if unknown:
            first_unknown = unknown[0]
            raise ConfigError(
                f"a preset has no rule called {' or '.join(map(repr, unknown))}",
                why=f"its rules are {', '.join(RULES)}{did_you_mean(first_unknown, RULES)}",
                do="use one of these",
            )
        given_by_user = tuple((name, f"presets.{self.name}().but({name}=...)") for name in rules)
        with_changes = self.with_rules(**{name: DECLARED[name].read(value) for name, value in rules.items()})
        return Preset(self.name, with_changes.rules, with_changes.asked + given_by_user)

    def with_rules(self, **rules: Any) -> Preset:
        """Returns a copy of the preset with rules that a bolt requires; they do not count as given by the user."""
        still_asked = tuple(each for each in self.asked if each[0] not in rules)
        return Preset(self.name, {**self.rules, **rules}, still_asked)


@checked_value
def storm(lag: Time = "0s") -> Preset:
    """Apache Storm (ST-10 to ST-18): ``(start, end]``, watermarks at ticks, events behind the watermark are late."""
    span = as_duration(lag)
    return Preset("storm", {"lag": span}, (("lag", "presets.storm(lag=...)"),) if span.micros else ())


@checked_value
def atlas(
    allowed_lateness: Time | None = None,
    *,
    idle_timeout: Time | None = None,
    idle_rule: IdleRule | IdleRuleName = IdleRule.AFTER_WINDOW_END,
    partition_idle_timeout: Time | None = None,
) -> Preset:
    """MongoDB Atlas Stream Processing (AT-1 to AT-21).

    Bounds are ``[start, end)``. The watermark is the latest event time, updated at every event. A window closes when
    the watermark is ``allowed_lateness`` (by default 3 seconds, AT-14) past its end; later events for the window are
    late. If the source has partitions, the watermark is the least over these (AT-21); ``with_watermark(partition=...)``
    changes this. If a bolt names no source of time, the time of Kafka's records is used; for other inputs ``build()``
    reports an error (AT-10).
    """
    return Preset(
        "atlas",
        {
            "default_time": DefaultTime.RECORD,
            "bounds": Bounds.START,
            "aligned": Aligned.STARTS,
            "watermark_every": Count(1),
            "watermark_partition": SOURCE,
            "late_by": LateBy.WINDOW,
            "allowed_lateness": as_duration("3s" if allowed_lateness is None else allowed_lateness),
            "idle_timeout": None if idle_timeout is None else as_duration(idle_timeout),
            "idle_rule": one_of(IdleRule, idle_rule),
            "partition_idle_timeout": None if partition_idle_timeout is None else as_duration(partition_idle_timeout),
        },
        tuple(
            (name, f"presets.atlas({name}=...)")
            for name, argument in (
                ("allowed_lateness", allowed_lateness),
                ("idle_timeout", idle_timeout),
                ("idle_rule", None if one_of(IdleRule, idle_rule) is IdleRule.AFTER_WINDOW_END else idle_rule),
                ("partition_idle_timeout", partition_idle_timeout),
            )
            if argument is not None
        ),
    )


@checked_value
def streaminsight(
    every: Count | int | Time | None = 1,
    delay: Time | None = None,
    *,
    policy: LateAction | LateActionName = LateAction.DROP,
    to_infinity: bool = False,
    imports: Mapping[str, str] | None = None,
    field: str | None = None,
) -> Preset:
    """StreamInsight's AdvanceTimeSettings (SI-4 to SI-16, SI-24).

    ``every``: the number of events, or length of application time, after which each input makes a mark (CTI). A mark is
    ``delay`` behind the event that completes the interval; a delay below zero puts it ahead of the event:
    ``delay="-1us"`` puts it just after the event (SI-9, SI-21). With ``every=None`` inputs make no marks: the source
    sends them in the column ``field``, or ``imports`` names the input that marks are taken from (SI-11).

    ``policy``: the action for late events, ``drop`` or ``adjust``; ``error`` stops the run (SI-14). ``to_infinity``:
    True if the end of the streams fires the open windows (SI-7). The bolt must name a source of time (SI-1). The next
    bolt's watermark follows the start of the earliest open window (SI-24).
    """
    if every is None and imports is None and field is None:
        raise ConfigError(
            "presets.streaminsight without any source of watermarks",
            why="they must be generated, imported, or sent by the source",
            do="give every=1, imports={'lookup': 'data'}, or field= with the column in which the source sends them",
        )
    if every is None and delay is not None:
        raise ConfigError(
            f"a delay of {delay} with every=None, which generates no watermarks",
            why="the delay is how far a generated watermark stays behind its event",
            do="leave delay out, or give every=",
        )
    action = one_of(LateAction, policy)
    behind, ahead = _behind_and_ahead("0s" if delay is None else delay)
    return Preset(
        "streaminsight",
        {
            "default_time": DefaultTime.NONE,
            "bounds": Bounds.START,
            "aligned": Aligned.STARTS,
            "watermark_every": SOURCE_ONLY if every is None else as_every(every),
            "watermark_field": field,
            "output_watermark": OutputTime.START,
            "lag": behind,
            "ahead": ahead,
            "late_per_input": True,
            "late_action": LateAction.CUT if action is LateAction.ADJUST else action,
            "watermark_imports": None if imports is None else dict(imports),
            "close_fires": read_flag("to_infinity", to_infinity),
        },
    )


@checked_value
def increasing_start_time() -> Preset:
    """StreamInsight's AdvanceTimeSettings.IncreasingStartTime (SI-9): no event is earlier than the one before it."""
    return streaminsight(1, "0s", to_infinity=True)


@checked_value
def strictly_increasing_start_time() -> Preset:
    """StreamInsight's AdvanceTimeSettings.StrictlyIncreasingStartTime (SI-9): each event is later than the last."""
    return streaminsight(1, "-1us", to_infinity=True)


@checked_value
def azure(
    *,
    late: Time | int | None = "5s",
    out_of_order: Time = "0s",
    early: Time | None = "5m",
    action: LateAction | AzureLateActionName = LateAction.ADJUST,
    arrival_field: str | None = None,
) -> Preset:
    """Azure Stream Analytics (AZ-1 to AZ-30): checks events for being early, then late, then out of order (AZ-14).

    Bounds are ``(start, end]``, and no window is longer than 7 days (AZ-19).

    ``early``: an event whose time is more than this after its arrival is turned away (AZ-12; in Azure always 5
    minutes); None: no limit. ``late``: an event that arrives more than this after its time is late (at most 1,814,399
    s, AZ-10); None or -1: no limit. ``out_of_order``: the watermark is this far behind the latest event, and an event
    behind the watermark is out of order. ``action``: ``"adjust"`` changes the time of late and disordered events,
    ``"drop"`` drops them, ``"error"`` stops the run. ``arrival_field``: the column with the time of arrival; by default
    arrival is the clock of the micro-batch.

    The watermark is computed at every event. When no event comes, it follows the estimated arrival, less ``late``
    (AZ-5). If a bolt names no source of time, arrival is its time, and these rules are off (AZ-1, AZ-7). Azure's own
    spellings are accepted: ``"Drop"``, ``"Adjust"``, ``"00:05:00"``.

    Raises ConfigError for durations beyond these limits, and for the actions of other systems.
    """
    tolerance, late_action_chosen = late_tolerance(late), late_action(action)
    ahead = None if early is None else time_span("early", early)
    return Preset(
        "azure",
        {
            "default_time": DefaultTime.ARRIVAL,
            "arrival": Arrival(arrival_field, ahead, tolerance, late_action_chosen),
            "aligned": Aligned.STARTS,
            "closes_after_end": True,
            "longest_window": LONGEST_WINDOW,
            "watermark_every": Count(1),
            "watermark_partition": SOURCE,
            "lag": time_span("out_of_order", out_of_order),
            "estimate_arrival": tolerance is not None,
            "late_per_input": True,
            "late_action": late_action_chosen,
        },
    )


def _behind_and_ahead(delay: Time) -> tuple[Duration, Duration]:
    """Returns the durations by which a watermark is behind and ahead of events; at least one of them is zero."""
    if isinstance(delay, timedelta) and delay < timedelta(0):
        return Duration(0), as_duration(-delay)
    if isinstance(delay, str) and delay.strip().startswith("-"):
        return Duration(0), as_duration(delay.strip()[1:])
    return as_duration(delay), Duration(0)
