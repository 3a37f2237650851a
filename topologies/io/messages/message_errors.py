"""Errors of one message, each in one line that fits into a header of a dead letter."""

from __future__ import annotations

from windowing.errors import WindboltError

LONGEST_REASON = 300


class _OneLine(WindboltError):
    def __init__(self, reason: str) -> None:
        super().__init__(_one_line(reason))

    def __str__(self) -> str:
        return self.what

    def __reduce__(self) -> tuple[type[_OneLine], tuple[str]]:
        return type(self), (self.what,)


class Unreadable(_OneLine):
    """A message that cannot be read; ``str()`` is the reason, at most 300 characters without line breaks."""


class Unwritable(_OneLine):
    """An event that cannot be written in a format; ``str()`` is the reason, as above."""


def _one_line(reason: str) -> str:
    line = " ".join(reason.split()).encode("utf-8", "backslashreplace").decode("utf-8")
    return line if len(line) <= LONGEST_REASON else f"{line[: LONGEST_REASON - 3]}..."
