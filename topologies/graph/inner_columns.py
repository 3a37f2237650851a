"""Names of the columns that windbolt puts beside the users' own while it works, so that theirs must not have them.

Each name stands once: here, or in ``manager`` for what is kept from batch to batch. Whoever adds a column takes its
name from there, and the builder refuses users' columns of these names.
"""

from __future__ import annotations

from collections.abc import Iterable

from manager.keyed.held_segments import INNER
from manager.keyed.key_states import RECORD_COLUMNS
from manager.storage.segments.event_segments import WEIGHT_COLUMN

SEQ_COLUMN, DECISION_COLUMN, END_EDGE_COLUMN = "_seq", "_decision", "_end_edge"
"""What an event is given on its way to the task of its bolt."""

MERGE_KEY_COLUMN, MERGE_PLACE_COLUMN, TRUNCATED_COLUMN = "_merge_key", "_merge_place", "_truncated"
"""Where a row of a part that is merged with others belongs, and whether a time of it was cut."""

MERGED = (MERGE_KEY_COLUMN, MERGE_PLACE_COLUMN, TRUNCATED_COLUMN)
"""Beside what a spout reads."""

READ = (*INNER, SEQ_COLUMN, DECISION_COLUMN, END_EDGE_COLUMN)
"""Beside what a windowed bolt reads; and all names that begin with ``WEIGHT_COLUMN``."""

RECORDED = RECORD_COLUMNS
"""Beside the key of a bolt whose windows a trigger fires, or policies of the user's own."""

RETRACTED = ("_window_kind", "_window_key", "_window_start", "_window_end")
"""Beside what a bolt emits that may take it back: the window that emitted it."""


def reserved_of_inputs(columns: Iterable[str]) -> list[str]:
    """Which of the columns that a windowed bolt reads have names of windbolt's own."""
    return [column for column in columns if column in READ or column.startswith(WEIGHT_COLUMN)]
