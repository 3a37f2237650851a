"""Which rows of a long picture are drawn: its beginning and its end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

HEAD, TAIL = 80, 40
"""Maximum number of rows drawn of the beginning of a run, and of its end."""

DrawnRow = TypeVar("DrawnRow")


def elided(rows: Sequence[DrawnRow]) -> tuple[Sequence[DrawnRow], Sequence[DrawnRow], Sequence[DrawnRow]]:
    """The rows of the beginning, those that are left out, and those of the end, in order."""
    tail = max(len(rows) - TAIL, HEAD)
    return rows[:HEAD], rows[HEAD:tail], rows[tail:]
