"""Window assigners: windows by the clock, by the calendar, or by the surrounding events; separate for each key."""

from policies.assigners.aligned import AlignedWindows
from policies.assigners.assigner import Assigned, GridWindows, Live, WindowAssigner
from policies.assigners.calendar import CalendarWindows
from policies.assigners.count_by_start import CountByStartWindows
from policies.assigners.counted import CountedWindows
from policies.assigners.lulls import LullWindows
from policies.assigners.meetings import MeetingWindows
from policies.assigners.onsets import OnsetWindows
from policies.assigners.sessions import SessionWindows
from policies.assigners.sliding_log import SlidingLogWindows
from policies.assigners.snapshots import SnapshotWindows

__all__ = [
    "AlignedWindows",
    "Assigned",
    "CalendarWindows",
    "CountByStartWindows",
    "CountedWindows",
    "GridWindows",
    "Live",
    "LullWindows",
    "MeetingWindows",
    "OnsetWindows",
    "SessionWindows",
    "SlidingLogWindows",
    "SnapshotWindows",
    "WindowAssigner",
]
