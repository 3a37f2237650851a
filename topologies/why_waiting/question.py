"""What is asked of a checkpoint about a window."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Question:
    """What is asked of a checkpoint."""

    bolt: str
    key: str | None
    window: int | None
    """The end of the window in microseconds; None: the next one."""


def events_in_words(count: int) -> str:
    """A number of events: ``1 event``, ``2,000 events``."""
    return "1 event" if count == 1 else f"{count:,} events"
