"""Decides which planted defect is active, and notes which tests reach which.

This file is copied beside the planted source as ``mutation_switch.py``, so it imports nothing of the project.
"""

from __future__ import annotations

import os
from contextlib import suppress

ACTIVE = "WINDBOLT_MUTANT"
"""Names the environment variable with the number of the active defect; processes that a test starts inherit it."""
REACHED = "WINDBOLT_MUTANTS_REACHED"
"""Names the environment variable with the file to which each reached defect is written, with its test."""

active = int(os.environ.get(ACTIVE, "-1"))
_reached = os.environ.get(REACHED)
_noted: set[tuple[int, str]] = set()


def on(number: int) -> bool:
    """True if this defect is active; while reached defects are noted, none is."""
    if _reached:
        _note(number, _reached)
    return number == active


def _note(number: int, path: str) -> None:
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0]
    if test and (number, test) not in _noted:
        _noted.add((number, test))
        with suppress(OSError), open(path, "ab", buffering=0) as file:  # the test may be that of a full disk
            file.write(f"{number}\t{test}\n".encode())
