"""One evaluation of key triggers: what it reads, and what it records."""

from __future__ import annotations

from dataclasses import dataclass

from manager.keyed.key_states import KeyStates
from manager.triggered.key_firings import KeyFirings
from manager.triggered.keyed_events import KeyedEvents
from manager.triggered.refusals import Refusals
from manager.triggered.remaining_capacity import Room
from windowing.time.timestamps import FOREVER


@dataclass(frozen=True)
class Evaluation:
    """The events and records of a task's keys at a clock; firings, refusals and records are updated in place."""

    arrivals: KeyedEvents
    room: Room
    key_states: KeyStates
    firings: KeyFirings
    refusals: Refusals
    now: int
    """The clock in microseconds."""
    closing: bool
    """Whether the streams end at that clock, and all windows still open then fire."""

    @property
    def until(self) -> int:
        """The clock up to which windows without a timer of their own are due."""
        return FOREVER if self.closing else self.now
