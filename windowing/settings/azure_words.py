"""How Azure Stream Analytics writes tolerances and actions, and windbolt's own way of writing them."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Literal, TypeAlias

from windowing.errors import ConfigError
from windowing.settings.rules import LateAction
from windowing.time.durations import Duration, as_duration

LONGEST_LATENESS = Duration(1_814_399_000_000)
"""20 days, 23:59:59: Azure's longest late tolerance (AZ-10)."""

LONGEST_WINDOW = Duration(7 * 24 * 3_600_000_000)
"""7 days: Azure's longest window (AZ-19)."""

UNLIMITED = (-1, "-1")
"""What Azure writes for no late tolerance at all (AZ-10)."""

_TIME_SPAN = re.compile(r"(?:(\d+)\.)?(\d{1,2}):([0-5]\d):([0-5]\d)(?:\.(\d{1,6}))?")
_LATE_ACTIONS = {action.value: action for action in (LateAction.ADJUST, LateAction.DROP, LateAction.ERROR)}


def late_tolerance(value: Duration | timedelta | str | int | None) -> Duration | None:
    """How late an event may arrive (AZ-8, AZ-10): a duration of at most 1,814,399 s; None and -1 are no limit.

    Raises ConfigError for a longer one, and for anything that is not a duration.
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
    """A duration as windbolt writes it (``"5m"``) or as Azure does (``"00:05:00"``, ``"1.00:00:00"``).

    Raises ConfigError, with the argument's name, for anything else.
    """
    if isinstance(value, int):
        raise ConfigError(
            f"presets.azure({name}={value!r})",
            why="a bare number has no unit; only late=-1 means something by itself: no limit",
            do=f"write {name}='{abs(value)}s' or, as Azure does, {name}='00:05:00'",
        )
    found = _TIME_SPAN.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is None:
        return as_duration(value)
    days, hours, minutes, seconds, fraction = found.groups()
    if int(hours) > 23:
        raise ConfigError(
            f"presets.azure({name}={value!r})", why="a day has 24 hours", do="write days in front: '1.00:00:00'"
        )
    whole = ((int(days or 0) * 24 + int(hours)) * 60 + int(minutes)) * 60 + int(seconds)
    return Duration(whole * 1_000_000 + int((fraction or "").ljust(6, "0")))


AzureLateActionName: TypeAlias = Literal["adjust", "drop", "error", "Adjust", "Drop"]


def late_action(value: LateAction | str) -> LateAction:
    """What happens to late and disordered events (AZ-9): ``adjust`` or ``drop``, or Azure's ``Adjust`` and ``Drop``.

    ``error``, which Azure does not have, stops the run. Raises ConfigError for the words of other systems.
    """
    said = value.value if isinstance(value, LateAction) else value
    action = _LATE_ACTIONS.get(said.lower() if isinstance(said, str) else said)
    if action is None:
        raise ConfigError(
            f"presets.azure(action={said!r})",
            why="Azure adjusts the time of late and disordered events, or drops them",
            do="use 'adjust' or 'drop', or 'error' to stop the run; for another rule of one's own, call "
            "with_lateness(action=...) and with_lateness(arrival=Arrival(...)) after the preset",
        )
    return action
