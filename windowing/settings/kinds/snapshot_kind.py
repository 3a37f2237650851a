"""Windows between the moments at which events begin or end."""

from __future__ import annotations

from dataclasses import dataclass

from windowing.calls.checked import checked_value
from windowing.settings.bounds import Bounds
from windowing.settings.kinds.window_kind import WindowKind


@checked_value
@dataclass(frozen=True)
class Snapshot(WindowKind):
    """A window between each two moments at which a lifetime begins or ends (SI-29); for points, one an instant."""

    between_edges = True

    def in_words(self) -> str:
        return "snapshots: one window between each two moments at which an event begins or ends"

    def changes_at_its_end(self, declared: Bounds) -> bool:
        return declared is Bounds.END
