"""Kinds of windows beyond Storm's: declared here, formed by ``policies.assigners``."""

from windowing.settings.kinds.calendar_kind import Calendar, CalendarUnit
from windowing.settings.kinds.count_by_start_kind import CountByStart
from windowing.settings.kinds.hopping_kind import Hopping
from windowing.settings.kinds.moment_kinds import Lull, Meeting, Onset
from windowing.settings.kinds.session_kind import Session
from windowing.settings.kinds.sliding_log_kind import SlidingLog
from windowing.settings.kinds.snapshot_kind import Snapshot
from windowing.settings.kinds.window_kind import WindowKind

__all__ = [
    "Calendar",
    "CalendarUnit",
    "CountByStart",
    "Hopping",
    "Lull",
    "Meeting",
    "Onset",
    "Session",
    "SlidingLog",
    "Snapshot",
    "WindowKind",
]
