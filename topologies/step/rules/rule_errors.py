"""Errors of rules."""

from __future__ import annotations

from windowing.errors import WindboltError


def shown(value: object, longest: int = 80) -> str:
    """A value that a rule gave, as shown in errors; its own code may fail, and a number may have too many digits."""
    try:
        return repr(value)[:longest]
    except Exception:
        return f"a {type(value).__name__} that cannot be shown"


class RuleError(WindboltError):
    """A rule failed, took too long, or returned something invalid; it is attributed to the events it was called with.

    Its text is one line: the rule, the line in its file, and what happened.
    """

    def __init__(self, what: str, *, why: str = "", do: str = "", brief: str = "") -> None:
        """``brief``: the error without the text of an exception and what that quotes; "" for the name of the class."""
        super().__init__(what, why=why, do=do)
        self.brief = brief or type(self).__name__
