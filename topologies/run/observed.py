"""A run that is watched: its observers hear of its restarts and of its end."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from topologies.run.attempts import Attempts, run_in_attempts
from topologies.run.observer import Observers, RunObserver
from topologies.run.options import RunOptions
from topologies.run.summary import Summary


def observed(
    options: RunOptions,
    watching: Sequence[RunObserver],
    run: Callable[[RunOptions, Observers, Attempts], Summary],
) -> Summary:
    """What ``run`` returns, in as many attempts as the options allow; it is given those who watch it, and they are told
    of its restarts and its end."""
    observers = Observers(watching)
    try:
        summary = run_in_attempts(options, lambda own, attempts: run(own, observers, attempts), observers.restarting)
    except BaseException as error:
        observers.end(stopped=False, error=error)
        raise
    observers.end(stopped=summary.stopped, error=None)
    return summary
