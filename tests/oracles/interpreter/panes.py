"""Firings of a window besides the one at its end (semantics, "Closing"; decisions 17, 56 and 63)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.oracles.interpreter.values import FOREVER, Event, Json, Window, in_order
from windowing.settings.panes import AfterClock, AfterCount, AfterEventTime, AllOf, AnyOf, Once, PaneMode

if TYPE_CHECKING:
    from tests.oracles.interpreter.bolt import Bolt


def fire(bolt: Bolt) -> list[tuple[Window, list[Event], Json]]:
    """All firings at the end of a batch: what closed in it, and what is open, kind by kind in order of ends."""
    found, open_ = [], []
    for windows in bolt.formed.values():
        now = [window for window in windows.now_open() if window.events]
        windows.remember(now)
        open_ += now
    for window in sorted([*bolt.due, *open_], key=lambda each: (each.place, each.end, each.start or 0)):
        fired = look(bolt, window, is_closed=window in bolt.due)
        if fired is not None:
            found.append((window, *fired))
    return found


def look(bolt: Bolt, window: Window, *, is_closed: bool) -> tuple[list[Event], Json] | None:
    """What a window shows at the end of a batch, if it fires."""
    panes, watermark = bolt.rules.panes, reached(bolt, window)
    window.mark = watermark if window.mark is None else window.mark
    window.clock = bolt.times.clock if window.clock is None else window.clock
    timing = None if window.shut else due(bolt, window, is_closed)
    if timing is None:
        return None
    fresh = [event for event in in_order(window.events) if event not in window.shown]
    content = fresh if panes.mode is PaneMode.DISCARDING else in_order(window.events)
    pane = {"index": window.fired, "timing": timing, "last": is_closed or panes.closes}
    window.fired += 1
    window.shown = set(window.events)
    window.mark, window.clock = watermark, bolt.times.clock
    if timing != "early":
        window.ended_at = window.end
    window.shut, window.repaired = panes.closes, False
    return content, pane


def reached(bolt: Bolt, window: Window) -> int | None:
    """The watermark; the end of the streams closes windows, but triggers count no time for it."""
    watermark = bolt.times.watermark(window.key)
    return bolt.reached if watermark is not None and watermark >= FOREVER else watermark


def has_ended(bolt: Bolt, window: Window) -> bool:
    """ "when the watermark reaches it, without the allowed lateness"."""
    return bolt.over(window.key, lateness=0)(window.end)


def due(bolt: Bolt, window: Window, is_closed: bool) -> str | None:
    """Whether, and with which timing, a window fires now."""
    panes, new = bolt.rules.panes, [event for event in window.events if event not in window.shown]
    revised = window.repaired and panes.mode is not PaneMode.DISCARDING
    at_end = is_closed if panes.early is None and panes.late is None else has_ended(bolt, window)
    if not (at_end or is_closed):
        window.ended_at = None  # a session that has grown since it fired at its end
        return "early" if revised or fires(bolt, panes.early, window, len(new)) else None
    moved = window.ended_at is not None and window.ended_at < window.end and new
    if moved and tells_moments(bolt) and not passed_before(bolt, window, new):
        window.ended_at = None  # the same, in a batch in which the watermark reaches the new end as well
    if window.ended_at is None:  # "a window that fires more than once fires at its end"
        if panes.at_end is not None and len(window.events) < panes.at_end.value:
            return None
        # "late if the watermark had passed it before the first event came" (Beam's PaneInfo)
        return "late" if tells_moments(bolt) and passed_before(bolt, window, window.events) else "on_time"
    if revised or (is_closed and new):  # "when the lateness is over, a window fires once more"
        return "late"
    return "late" if fires(bolt, panes.late, window, len(new)) else None


def tells_moments(bolt: Bolt) -> bool:
    """Whether it is known which watermark an event met; the idle timeout closes windows by the clock as well."""
    return bolt.event_time and bolt.rules.idle_timeout is None


def passed_before(bolt: Bolt, window: Window, events: list[Event]) -> bool:
    """Whether the watermark had passed the end of the window before the first of these events came."""
    met = [event.met for event in events if event.met is not None]
    return len(met) == len(events) and bolt.is_past(window.end, min(met))


def fires(bolt: Bolt, trigger: Any, window: Window, fresh: int) -> bool:
    """guide, "Firing more than once": a trigger fires a window that has new events, unless it needs none."""
    if trigger is None or not (fresh or trigger.even_unchanged):
        return False
    match trigger:
        case AfterCount():
            return bool(fresh >= trigger.count.value)
        case AfterClock():
            return bool(bolt.times.clock - (window.clock or 0) >= trigger.wait.micros)
        case AfterEventTime():
            now = reached(bolt, window)
            moved = 0 if now is None or window.mark is None else now - window.mark
            return bool(moved >= trigger.wait.micros)
        case AnyOf():
            return any(fires(bolt, each, window, fresh) for each in trigger.triggers)
        case AllOf():
            return all(fires(bolt, each, window, fresh) for each in trigger.triggers)
        case Once():
            return window.fired == 0 and fires(bolt, trigger.trigger, window, fresh)
    raise AssertionError(trigger)
