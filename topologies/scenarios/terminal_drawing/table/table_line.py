"""A line of the table of arrivals."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain


@dataclass
class TableLine:
    """What a row says; times in microseconds, None where there is none."""

    event: str = ""
    stream: str = ""
    time: int | None = None
    clock: int | None = None
    arrival: int | None = None
    payload: dict[str, str] = field(default_factory=dict)
    """What else the event carries: its key, its device."""
    assigned: int | None = None
    watermark: int | None = None
    mark: int | None = None
    own: list[tuple[int, int]] = field(default_factory=list)
    """The windows that hold the event."""
    open: list[tuple[int, int]] = field(default_factory=list)
    """The windows that are open after it."""
    lateness: int | None = None
    """The watermark, less the allowed lateness."""
    decision: str = ""
    """What was decided about the event; the table spells it ``action``, as answers do."""

    @property
    def style(self) -> str:
        """Dim where no event came, bold where one was moved or turned away."""
        if not self.event:
            return "dim"
        return "" if self.decision in ("", "accepted") else "bold"

    def times(self) -> Iterator[int]:
        """All times of the row."""
        known = (self.time, self.clock, self.arrival, self.assigned, self.watermark, self.mark, self.lateness)
        yield from (at for at in known if at is not None)
        yield from chain.from_iterable([*self.own, *self.open])
