"""The events on which a rule of a trigger failed: each is refused, and is in no window."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, Any

import numpy as np

from windowing.errors import WindboltError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LONGEST_REASON = 1_000
"""In characters."""


class Refusals:
    """Which events are refused, and why."""

    def __init__(self, count: int) -> None:
        """``count`` is the number of all events."""
        self.mask = np.zeros(count, np.bool_)
        self._reasons: dict[int, str] = {}

    def __len__(self) -> int:
        return len(self._reasons)

    def refuse(self, event: int, rule: Any, error: Exception) -> None:
        """Refuse an event because the rule raised this error."""
        self.mask[event] = True
        self._reasons[event] = _reason(rule, error).encode("utf-8", "backslashreplace").decode()[:_LONGEST_REASON]

    def by_place(self, places: NDArray[np.int64]) -> list[tuple[int, str]]:
        """(place, reason) of each refused event, in order; ``places`` has the place of every event."""
        return sorted((int(places[event]), reason) for event, reason in self._reasons.items())


def _reason(rule: Any, error: Exception) -> str:
    blame = getattr(rule, "blame", None)  # set by rules that know better where they are defined
    if isinstance(error, WindboltError):
        return str(error)
    if blame is not None:
        return str(blame(error))
    name = getattr(rule, "__qualname__", type(rule).__qualname__)
    line = traceback.extract_tb(error.__traceback__)[-1].lineno
    return f"rule {name}, line {line}: {type(error).__name__}: {_message(error)}"


def _message(error: Exception) -> str:
    try:
        return str(error)
    except Exception:
        return "(it cannot say why)"
