"""Window assigners: windows by the clock, by the calendar, or by the surrounding events; separate for each key."""

from policies.assigners.aligned import (
    AlignedWindows,
    CalendarWindows,
    EventRuns,
    GridsTogether,
    GridWindows,
    LiveEvents,
    WindowAssigner,
    WindowMembers,
)
from policies.assigners.sessions import CountByStartWindows, CountedWindows, LullWindows, SessionWindows
from policies.assigners.snapshots import MeetingWindows, OnsetWindows, SlidingLogWindows, SnapshotWindows

__all__ = [
    "AlignedWindows",
    "CalendarWindows",
    "CountByStartWindows",
    "CountedWindows",
    "EventRuns",
    "GridWindows",
    "GridsTogether",
    "LiveEvents",
    "LullWindows",
    "MeetingWindows",
    "OnsetWindows",
    "SessionWindows",
    "SlidingLogWindows",
    "SnapshotWindows",
    "WindowAssigner",
    "WindowMembers",
]
