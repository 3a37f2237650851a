"""The limits of a bolt: the bytes of a window that it is called with, and the time of a call (operating)."""

from __future__ import annotations

from tests.oracles.interpreter.values import Event, Json

HANGS_AT = 6
"""A bolt with a limit of time waits for ever for an event with this value."""

TEXTS = ("id", "k", "q", "m", "p", "shape")
OTHERS = 7
"""The numbers and times among the columns of the events, eight bytes each."""


def breaks(limits: Json, content: list[Event]) -> bool | None:
    """True if a call with these events ends the run; None where that is not said: how many bytes columns have beside
    their values."""
    if limits.get("call_time") == "400ms" and any(event.fields.get("v") == HANGS_AT for event in content):
        return True
    allowed = limits.get("window_bytes")
    if allowed is None or not content:
        return False if allowed is None or allowed > ROOM else None
    texts = sum(len(str(event.fields.get(name) or "").encode()) for event in content for name in TEXTS)
    passed = sum(len(str(event.fields.get(name) or "").encode()) for event in content for name in TEXTS[:4])
    if passed + 16 * len(content) > allowed:  # in each stream there are four texts, a number and a time
        return True
    most = texts + 8 * (OTHERS + len(TEXTS)) * len(content) + ROOM
    return None if most > allowed else False


ROOM = 1000
"""More bytes than the columns of no event have."""
