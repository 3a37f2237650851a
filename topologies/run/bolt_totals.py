"""What a windowed bolt has done in all runs on a checkpoint."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class BoltTotals:
    """What a windowed bolt has done, in all runs on a checkpoint."""

    accounts: dict[str, int]
    """The events that it received, by what happened to them; without those that are pending."""
    fired: int
    """Number of windows."""
    emitted: dict[str, int]
    """Number of rows emitted, by stream."""
