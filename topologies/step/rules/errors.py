"""What a rule did that it cannot do."""

from __future__ import annotations

from windowing.errors import WindboltError


class RuleError(WindboltError):
    """A rule that failed, took too long, or returned what it may not; the events it was called with are at fault.

    Its text is one line: which rule, the line in its file, and what happened.
    """

    def __init__(self, what: str, *, why: str = "", do: str = "", brief: str = "") -> None:
        """``brief``: the same without the text of an exception and what it quotes; "": the name of the class."""
        super().__init__(what, why=why, do=do)
        self.brief = brief or type(self).__name__
