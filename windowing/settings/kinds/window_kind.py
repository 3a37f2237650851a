"""What every kind of window answers: the rest of windbolt asks these questions, and never which kind it is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from windowing.errors import ConfigError
from windowing.settings.bounds import Bounds
from windowing.time.durations import Count, Duration, Time, as_duration


class WindowKind(ABC):
    """A kind of window, as a bolt declares it; ``policies.assigners`` form the windows.

    A new kind is a subclass that answers where these defaults are wrong; decision 83 lists the other files.
    """

    edges_known: ClassVar[bool] = False
    """Whether its windows begin and end at times that are known without any event."""
    takes_offset: ClassVar[bool] = False
    """Whether these times are counted from an offset or an anchor."""
    usually_holds_start: ClassVar[bool] = False
    """Whether its windows hold their start, and not their end, unless a bolt declares bounds."""
    merges: ClassVar[bool] = False
    """Whether one more event may extend a window, or make one of two."""
    between_edges: ClassVar[bool] = False
    """Whether its windows lie between the edges of events, so that one more event may divide one."""
    counts: ClassVar[bool] = False
    """Whether the number of events decides where its windows end."""
    of_points: ClassVar[bool] = False
    """Whether its events must be points in time, and may not last."""
    of_moments: ClassVar[bool] = False
    """Whether its windows are moments at which a ready bolt is called, and no windows of a user's."""
    of_temporal_join: ClassVar[bool] = False
    """Whether it is what a temporal join is called at."""

    @abstractmethod
    def in_words(self) -> str:
        """What its windows are: ``sessions with a gap of 5m``. Checkpoints compare these words."""

    @property
    def by_columns(self) -> tuple[str, ...]:
        """The columns of events that decide which windows there are, besides their times."""
        return ()

    @property
    def reach(self) -> int:
        """How far a window may reach beyond an event in it, in microseconds; gaps of events left aside."""
        return 1

    @property
    def declared_length(self) -> Duration | None:
        """How long a window is by what is declared, at most; None where nothing bounds it, or the user sets no time.

        Clock changes aside: of a day, 24 hours. How long windows may be in fact, assigners say (``looks_back``).
        """
        return None

    @property
    def period(self) -> Duration | None:
        """From the end of a window to the end of the next, at least, clock changes aside.

        None where that depends on the events.
        """
        return None

    @property
    def least_held(self) -> Duration | Count | None:
        """How much of the stream a task holds, at least, before it lets go of events; None where nothing says."""
        return self.declared_length

    def bounds(self, declared: Bounds) -> Bounds:
        """Which of its ends a window holds, where the bolt declares these bounds (``with_alignment(bounds=...)``)."""
        return declared

    def changes_at_its_end(self, declared: Bounds) -> bool:
        """Whether an event exactly at the end of a window changes it, whatever the other settings of the bolt are."""
        return False


def window_length(name: str, value: Time) -> Duration:
    """The length that an argument gives. ConfigError for a duration of zero."""
    duration = as_duration(value)
    if duration.micros == 0:
        raise ConfigError(f"{name}={value!r}", why="a window has a length", do="give a duration above zero")
    return duration
