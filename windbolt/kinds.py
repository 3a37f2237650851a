"""Kinds of windows, of which a bolt may have several at once: ``with_window(Hopping("5m", "5m"), Session("30m"))``."""

from windowing.settings.kinds import Calendar, CountByStart, Hopping, Session, SlidingLog, Snapshot

__all__ = ["Calendar", "CountByStart", "Hopping", "Session", "SlidingLog", "Snapshot"]
