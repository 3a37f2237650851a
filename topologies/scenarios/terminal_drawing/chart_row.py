"""A row of the chart: what stands on the axis of a timeline, and the words beside it."""

from __future__ import annotations

from dataclasses import dataclass, field

from rich.text import Text

EXPIRED = "◇"
"""The symbol of an event that was in the window before this one; on a shared column it gives way to the others."""


@dataclass
class ChartRow:
    """A line of the chart: a label, what stands on the axis, and a note."""

    label: str
    note: Text = field(default_factory=Text)
    style: str = ""
    symbols: list[tuple[int, str, str]] = field(default_factory=list)
    """Time, symbol and style."""
    bar: tuple[int, int, str, str] | None = None
    """From, to, and the brackets (an empty one where the window has no such bound)."""
    upto: int | None = None
    """The watermark that this row brings."""
    kind: str = "step"

    def times(self) -> list[int]:
        """The times that the axis must reach."""
        ends = [] if self.bar is None else [self.bar[0], self.bar[1]]
        return [*(at for at, _, _ in self.symbols), *ends, *([] if self.upto is None else [self.upto])]
