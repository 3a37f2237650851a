"""What a page shows of a run that its checkpoint has noted."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from topologies.checkpoints.notes.runs_note import RunNote


def run_view(note: RunNote) -> dict[str, Any]:
    """A run as plain JSON; of one whose end was not noted it is not known whether it is in progress or died."""
    return {**asdict(note), "run": note.run[:8], "how": note.how or "no end", "repeats": 0}
