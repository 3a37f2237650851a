"""The names of the notes about a whole checkpoint."""

from __future__ import annotations

TOPOLOGY, START = "topology", "start"
"""Which topology it belongs to, and where its first run began."""
GOING_BACK = "going-back"
"""Somebody goes back to an earlier batch; while it is there, no run begins."""
RESETTING = "resetting"
"""Bolts are about to start over; while it is there, no run begins."""
ADDING_COLUMNS = "adding-columns"
"""The events that are kept are about to get new columns; while it is there, only a run of that topology begins."""
BEGINNING = "beginning"
"""The events that it is to begin with are being given to it; while it is there, no run begins."""
SAVEPOINT = "savepoint"
"""That it is a savepoint; while it says that this is not complete, no run begins."""
