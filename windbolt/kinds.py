"""Kinds of windows, several of which a bolt may have at once: ``with_window(Hopping("5m", "5m"), Session("30m"))``."""

from windowing.settings.kinds import Calendar, CountByStart, Hopping, Session, SlidingLog, Snapshot

__all__ = ["Calendar", "CountByStart", "Hopping", "Session", "SlidingLog", "Snapshot"]
