"""What a page asks of the run that it shows, whether it is in progress in this process or lies in a checkpoint."""

from __future__ import annotations

from typing import Any, Protocol

from topologies.why_waiting.why_answer import WhyAnswer


class RunPage(Protocol):
    """A run as its page shows it. Its methods are called from any thread."""

    @property
    def name(self) -> str:
        """The name of the topology."""

    def state(self, known: str, after: int) -> dict[str, Any]:
        """All there is to show, as plain JSON, times in microseconds. ``known``: the version that the page has; where
        it is still the present one, only what moves between two batches is told. ``after``: the number of the last
        point that it has."""

    def why(self, bolt: str, key: str | None, window: str | None) -> WhyAnswer:
        """Why a window has not fired. Raises ConfigError for what there is not."""
