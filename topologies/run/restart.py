"""How a run is started again after a failure that may pass by itself: how often, and after which pauses."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from windowing.calls.checked import checked_value
from windowing.errors import ConfigError
from windowing.time.durations import Duration, as_duration

RESTARTS = 20
"""Number of restarts in a row without a batch committed in between, by default."""


@checked_value
@dataclass(frozen=True)
class Restart:
    """How a run is started again, from its checkpoint, after a failure that may pass by itself.

    The pause before the first restart is ``initial_backoff``; before each further one it is twice as long, up to
    ``max_backoff``. A batch that is committed is progress: counting, and the pauses, then start over.

    Raises ConfigError for fewer than one restart, and for a ``max_backoff`` below ``initial_backoff``.
    """

    attempts: int = RESTARTS
    """Number of restarts in a row, without a batch committed in between, after which the run ends with its error."""
    initial_backoff: Duration | timedelta | str = "1s"
    """The first pause."""
    max_backoff: Duration | timedelta | str = "1m"
    """The longest pause."""

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise ConfigError(
                f"attempts={self.attempts}",
                why="that would be no restart at all",
                do="give a number from 1 on; to end with the first failure, leave out the restart",
            )
        if self._longest < self._first:
            raise ConfigError(
                f"max_backoff={str(self.max_backoff)!r} with initial_backoff={str(self.initial_backoff)!r}",
                why="the longest pause is at least the first one",
                do="give a longer max_backoff, or a shorter initial_backoff",
            )

    def seconds_before(self, restart: int) -> float:
        """The pause before a restart, in seconds; the first restart since the last progress is 1."""
        # Past the 60th doubling any pause is the longest one.
        return min(self._first * 2.0 ** min(restart - 1, 60), self._longest)

    @property
    def _first(self) -> float:
        return as_duration(self.initial_backoff).micros / 1e6

    @property
    def _longest(self) -> float:
        return as_duration(self.max_backoff).micros / 1e6


@dataclass(frozen=True)
class ComingRestart:
    """A restart that is about to happen, for observers of the run."""

    error: BaseException
    """Why the run failed."""
    restarts: int
    """Number of restarts of the run, with this one."""
    in_a_row: int
    """Number of restarts since the last batch that was committed, with this one."""
    most: int
    """Number of restarts in a row after which the run ends with its error."""
    seconds: float
    """The pause before it."""
