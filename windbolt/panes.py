"""Firings of a window before and after its end:
``with_trigger(Panes(early=after_count(1000) | after_clock("1m")))``."""

from windowing.settings.panes import Pane, PaneTrigger, Timing, after_clock, after_count, after_event_time

__all__ = ["Pane", "PaneTrigger", "Timing", "after_clock", "after_count", "after_event_time"]
