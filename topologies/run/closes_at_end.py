"""Whether a run closes at its end: whether the windows that are open then fire."""

from __future__ import annotations

from topologies.run.options import RunOptions
from topologies.run.summary import Summary


def closes(summary: Summary, options: RunOptions) -> bool:
    """Whether a run that has no batch left to run is to close; notes in ``summary`` whether it was stopped.

    A run that was asked to stop ends after the batch in hand, also if that is the last one: its windows stay open, as
    they do where ``every`` lets it continue until it is stopped.
    """
    summary.stopped = options.stop.is_set()
    return not options.keep_open and options.every is None and not summary.stopped
