"""Checks what the rules of key and time return."""

from __future__ import annotations

from typing import Any

from topologies.step.rules.rule_errors import RuleError, shown
from topologies.step.rules.targets import checked_text
from windowing.errors import ConfigError
from windowing.time.daytimes import DayTime, DayTimePattern


def as_key(returned: Any) -> str:
    """The key that a rule returned (UH-8): a text, possibly empty, or a whole number as text (42 is "42").

    Raises RuleError for anything else: without a key an event is in no window.
    """
    if type(returned) is str and returned.isascii():
        return returned
    if returned is None:
        raise RuleError("the key rule returned nothing", why="an event needs a key", do="return a text")
    return checked_text("the returned key", returned)


def as_time(returned: Any, pattern: DayTimePattern) -> DayTime:
    """The time of day that a rule returned (UH-23), as a text in the step's ``timePattern``. Raises RuleError for
    anything else."""
    try:
        return pattern.read(returned)
    except ConfigError as error:
        what = f"the time rule returned {shown(returned)}: {error.what}"
        raise RuleError(what, why=error.why, do=error.do) from error
