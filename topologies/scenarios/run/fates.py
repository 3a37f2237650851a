"""What happened to an event, as pictures tell it: each fate has a shape, a colour, a word and a sentence."""

from __future__ import annotations

from enum import Enum

from topologies.scenarios.run.scenario_answer import Decided


class Fate(Enum):
    """What happened to an event; the value is its class in the style sheet."""

    WINDOWED = "windowed"
    ADJUSTED = "adjusted"
    PENDING = "pending"
    LATE = "late"
    DROPPED = "dropped"
    EARLY = "early"
    DUPLICATE = "duplicate"
    INVALID = "invalid"
    NOWHERE = "nowhere"
    WATERMARK = "punctuation"
    ELSEWHERE = "elsewhere"

    @property
    def is_unusual(self) -> bool:
        """Whether people want to be told why."""
        return self in (Fate.LATE, Fate.DROPPED, Fate.EARLY, Fate.INVALID, Fate.ADJUSTED)

    @property
    def word(self) -> str:
        """As the legend names it."""
        return _WORDS[self][0]

    @property
    def meaning(self) -> str:
        """As the legend explains it."""
        return _WORDS[self][1]


_WORDS = {
    Fate.WINDOWED: ("windowed", "it is in at least one window that fired"),
    Fate.ADJUSTED: ("adjusted", "it was given another time; the line begins at the time it came with"),
    Fate.PENDING: ("pending", "it waits for a window that has not fired yet"),
    Fate.LATE: ("late", "its time was over when it came; the line shows by how much"),
    Fate.DROPPED: ("dropped", "it was late, and the bolt is told to drop such events"),
    Fate.EARLY: ("early", "its time is too far ahead of its arrival"),
    Fate.DUPLICATE: ("duplicate", "a message with its id has been taken in already"),
    Fate.INVALID: ("invalid", "the bolt cannot use it, for example since it has no time"),
    Fate.NOWHERE: ("in no window", "it was taken in, and no window that fired holds it"),
    Fate.WATERMARK: ("a watermark", "no event: the source says how far time is"),
    Fate.ELSEWHERE: ("not for this bolt", "it does not come to this bolt"),
}

_BY_DECISION = {
    "late": Fate.LATE,
    "dropped_late": Fate.DROPPED,
    "dropped_out_of_order": Fate.DROPPED,
    "early": Fate.EARLY,
    "duplicate": Fate.DUPLICATE,
    "invalid": Fate.INVALID,
    "watermark": Fate.WATERMARK,
}


def fate_of(decided: Decided, *, windowed: bool, pending: bool, ids: bool) -> Fate:
    """What happened to an event that came to a bolt. ``ids``: whether windows say which events they hold."""
    decision = decided["decision"]
    if decision in _BY_DECISION:
        return _BY_DECISION[decision]
    if decision.startswith("adjusted") and (windowed or pending or not ids):
        return Fate.ADJUSTED
    if pending and not windowed:
        return Fate.PENDING
    return Fate.WINDOWED if windowed or not ids else Fate.NOWHERE
