"""Moments at which ready bolts are called: of joins by lifetime, unions, ``Deduplicate``, ``Silence`` and the like."""

from __future__ import annotations

from dataclasses import dataclass

from windowing.settings.bounds import Bounds
from windowing.settings.joins import How
from windowing.settings.kinds.window_kind import WindowKind
from windowing.time.durations import Duration

_ONSET = "each moment at which an event begins, with all that live then"
_ALONE = "each moment at which {} event ends that met no partner"
_MEETINGS: dict[How, str] = {
    "semi": "each moment at which a left event meets its first partner",
    "anti": _ALONE.format("a left"),
    "left": f"{_ONSET}; {_ALONE.format('a left')}",
    "right": f"{_ONSET}; {_ALONE.format('a right')}",
    "full": f"{_ONSET}; {_ALONE.format('an')}",
}


class _Moments(WindowKind):
    """Windows of a microsecond, or that begin with an event."""

    of_moments = True

    def bounds(self, declared: Bounds) -> Bounds:
        return Bounds.START


@dataclass(frozen=True)
class Onset(_Moments):
    """A window of a microsecond at each moment at which an event begins, with all that live then (SI-22, SI-23).

    It is due as soon as the watermark is past that moment, however long its events last.
    """

    of_temporal_join = True

    def in_words(self) -> str:
        return _ONSET


@dataclass(frozen=True)
class Lull(_Moments):
    """The window of ``length`` that begins with an event, where no other of its key follows in that time; holds it."""

    length: Duration
    """How long nothing comes."""

    def in_words(self) -> str:
        return f"the last event before each {self.length} without one"

    @property
    def reach(self) -> int:
        return self.length.micros


@dataclass(frozen=True)
class Meeting(_Moments):
    """The windows of a temporal join that is not inner; of a microsecond each, due when the watermark is past it.

    ``left``, ``right``, ``full``: those of ``Onset``, and one at each moment at which events of these sides end that no
    partner overlapped, with these events. ``anti``: the latter only, of left events. ``semi``: one at each moment at
    which left events meet their first partner, with these events.
    """

    of_temporal_join = True

    how: How
    left: int
    """Which of the bolt's two inputs is the left one, from 0."""

    def in_words(self) -> str:
        return _MEETINGS[self.how]
