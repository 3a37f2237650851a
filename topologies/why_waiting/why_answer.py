"""The answer to why a window has not fired."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from windowing.calls.checked import checked
from windowing.data.reprs import one_line
from windowing.time.timestamps import show


class WhyReason(StrEnum):
    """What a window waits for, or why it waits no more."""

    NOT_STARTED = "no batch has been committed"
    ENDED = "the streams have ended"
    NOTHING = "no event waits"
    NO_WATERMARK = "an input has delivered nothing"
    WATERMARK = "the watermark has not reached it"
    TICK = "the next tick"
    CLOCK = "the clock has not reached it"
    COUNT = "it fires by the number of events"
    TRIGGER = "a trigger of keys fires it"
    POLICY = "a policy of the user's own fires it"
    KEYS = "each key has a watermark of its own"
    EMPTY = "no event is in it"
    SUPPRESSED = "it ends before the first output"
    FIRED = "it has fired"
    OVER = "its time is over"
    NO_SUCH_WINDOW = "no window ends there"


@dataclass(frozen=True)
class Holder:
    """An input, or a partition of one, that holds the watermark."""

    input: str
    partition: str
    """Empty where partitions are not told apart."""
    watermark: int | None
    """The watermark that it would allow alone, in microseconds; None where it has delivered nothing."""
    source: str
    """The name under which its mark is kept: the input, and after a tab the partition."""
    since: int | None
    """The clock since which it has not moved, in microseconds; None where the checkpoint does not tell."""
    since_exactly: bool
    """Whether that is when it last delivered; else it stands since then at least."""

    def to_json(self) -> dict[str, Any]:
        """As plain JSON; times in ISO 8601."""
        return {
            "input": self.input,
            "partition": self.partition or None,
            "watermark": _shown(self.watermark),
            "since": _shown(self.since),
            "since_exactly": self.since_exactly,
        }


@dataclass(frozen=True, kw_only=True)
class WhyAnswer:
    """Why a window of a bolt has not fired; times in microseconds."""

    bolt: str
    reason: WhyReason
    sentences: tuple[str, ...]
    """The answer in words."""
    window_end: int | None = None
    key: str | None = None
    clock: int | None = None
    """That of the last batch."""
    watermark: int | None = None
    needed: int | None = None
    """The watermark at which the window fires."""
    holders: tuple[Holder, ...] = ()
    """What holds the watermark."""
    idle: tuple[str, ...] = ()
    """The inputs and partitions that do not hold it, because they have been silent for longer than their timeout."""
    waiting: int | None = None
    """Number of events that are in the window so far; None where the checkpoint does not tell."""
    pending: int = 0
    """Number of events of the bolt that are in no window yet."""

    def __repr__(self) -> str:
        return one_line(f"<WhyAnswer of {self.bolt!r}: {self.reason}>")

    def __str__(self) -> str:
        return "\n".join(
            textwrap.fill(sentence, 80, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
            for sentence in self.sentences
        )

    @checked
    def to_json(self) -> dict[str, Any]:
        """As plain JSON; times in ISO 8601."""
        short = None if self.needed is None or self.watermark is None else max(self.needed - self.watermark, 0) / 1e6
        return {
            "bolt": self.bolt,
            "reason": self.reason.name.lower(),
            "words": list(self.sentences),
            "window_end": _shown(self.window_end),
            "key": self.key,
            "clock": _shown(self.clock),
            "watermark": _shown(self.watermark),
            "needed": _shown(self.needed),
            "short_seconds": short,
            "holders": [holder.to_json() for holder in self.holders],
            "idle": list(self.idle),
            "waiting": self.waiting,
            "pending": self.pending,
        }


def _shown(time: int | None) -> str | None:
    return None if time is None else show(time)
