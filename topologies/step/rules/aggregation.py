"""What the aggregation rule is given besides the events, and what it may fill in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from windowing.calls.checked import checked_on_failure
from windowing.data.reprs import of_fields


@checked_on_failure
@dataclass(slots=True)
class Aggregation:
    """A call of the aggregation rule (UH-29); ``Aggregation()`` is enough for a test."""

    key: str = ""
    """The key that the events have in common (AggregationKey)."""
    window_ms: int = 0
    """How long the window has been open, in milliseconds (AggregationWindowTimeMs)."""
    count: int = 0
    """The number of events of this call (AggregationEventCount)."""
    cache: dict[str, Any] = field(default_factory=dict)
    """The cache, kept between calls; only JSON values."""
    variables: Mapping[str, Any] = field(default_factory=dict)
    """The content of the file ``environmentVariables`` (loadedVariables)."""
    full: bool = False
    """Whether the window fires only because it reached its capacity (maxEvents, maxBytes) and is cut off here."""
    out: Any = None
    """One event or a list of events (OUT, UH-24), for rules that fill it instead of returning; None: not filled."""
    headers: Mapping[str, Any] | Sequence[Mapping[str, Any] | None] | None = None
    """Where the events go (HEADERS, UH-25): TargetTopic, TargetKey, kafka, BranchName; for several events a list of
    such."""

    def __repr__(self) -> str:
        return of_fields(self)
