"""When windows with panes fire, as Beam's and Flink's documentation of triggers have it, one window after the other.

A batch ends at each tick, where a watermark is made, and at a crash, after which it is delivered again. At its end
every window is looked at: before its end its early trigger is asked, at its end it fires once, and until the allowed
lateness is over its late trigger is asked. Beam's AfterFirst fires when one of its triggers does and AfterAll when all
of them do. A window that closes with elements that it has not shown fires once more (Beam's closing behaviour). In Beam
a trigger that has finished closes its window: nothing fires any more, and what comes to the window is dropped. A firing
is late, and not on time, where the watermark had passed the end before its elements came (``PaneInfo.Timing``). A
composite that waits for all of its parts fires at the end only with enough elements. Flink's continuous triggers fire
without new elements.

Windows hold their end, and may overlap. Times are whole milliseconds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from tests.oracles.window_oracle import Json

Fired = tuple[int, str, str, tuple[str, ...]]
"""The end of a window, its key, the timing, and its events in order of time."""


@dataclass
class _Window:
    end: int
    key: str
    elements: list[tuple[int, int, str]] = field(default_factory=list)
    new: int = 0
    mark: float = -math.inf
    """The watermark when it last fired or, before that, the first one after it was opened."""
    opened: float = -math.inf
    """The watermark when its first element came."""
    over: bool = False
    """Whether it has fired at its end."""
    closed: bool = False
    fired: int = 0
    gone: bool = False
    """Whether the allowed lateness is over."""


@dataclass
class Answer:
    fired: list[list[Fired]] = field(default_factory=list)
    """What fires at the end of each batch, in order of (end, key)."""
    late: list[str] = field(default_factory=list)
    windowed: int = 0


def answer(scenario: Json) -> Answer:
    """What a bolt with panes does: its length is given in milliseconds, its key is ``k``."""
    bolt, found = scenario["bolt"], Answer()
    length, allowed = _millis(bolt["length"]), _millis(bolt.get("allowed_lateness", "0ms"))
    slide = _millis(bolt.get("sliding", bolt["length"]))
    windows: dict[tuple[int, str], _Window] = {}
    latest = watermark = reached = -math.inf
    arrived = False
    for arrival, step in enumerate(scenario["steps"]):
        if "event" in step:
            event = step["event"]
            first = math.ceil(event["ts"] / slide) * slide
            ends = range(first, event["ts"] + length, slide)
            of_event = [windows.setdefault((end, event["k"]), _Window(end, event["k"])) for end in ends]
            taking = [each for each in of_event if each.end + allowed > watermark and not each.closed]
            if not taking or (event["ts"] < watermark and not allowed):
                found.late.append(event["id"])
                taking = []
            for window in taking:
                window.opened = min(window.opened, watermark) if window.elements else watermark
                window.elements.append((event["ts"], arrival, event["id"]))
                window.new += 1
            latest = max(latest, event["ts"])
            arrived = True
        elif "tick" in step or "close" in step or ("crash" in step and arrived):
            arrived = False
            if "crash" not in step:
                watermark = math.inf if "close" in step else max(watermark, latest)
                reached = reached if "close" in step else watermark
            ready = sorted((window for window in windows.values() if window.elements), key=lambda w: (w.end, w.key))
            found.fired.append(
                [fired for window in ready for fired in _look(window, bolt, watermark, reached, allowed)]
            )
    found.windowed = len({name for tick in found.fired for *_, names in tick for name in names})
    return found


def _look(window: _Window, bolt: Json, watermark: float, reached: float, allowed: int) -> list[Fired]:
    """``reached``: the watermark; the end of the streams closes windows, but triggers count no time for it."""
    window.mark = reached if window.mark == -math.inf else window.mark
    advanced = 0 if reached == -math.inf else reached - window.mark
    timing = None if window.closed or window.gone else _due(window, bolt["panes"], watermark, allowed, advanced)
    window.gone = watermark >= window.end + allowed
    if timing is None:
        return []
    window.new, window.mark, window.fired = 0, reached, window.fired + 1
    window.over = window.over or timing != "early"
    window.closed = bolt["panes"].get("closes", False)
    return [(window.end, window.key, timing, tuple(name for _, _, name in sorted(window.elements)))]


def _due(window: _Window, panes: Json, watermark: float, allowed: int, advanced: float) -> str | None:
    waits = not panes.get("late") and not panes.get("early")
    if watermark < window.end + (allowed if waits else 0):
        return "early" if "early" in panes and _fires(panes["early"], window, advanced) else None
    if not window.over:
        first = "late" if window.opened >= window.end else "on_time"
        return first if len(window.elements) >= panes.get("at_end", 0) else None
    if watermark >= window.end + allowed and window.new > 0:
        return "late"
    return "late" if panes.get("late") and _fires(panes["late"], window, advanced) else None


def _fires(trigger: Any, window: _Window, advanced: float) -> bool:
    """Whether a trigger fires now: a number of new elements, or a mapping as scenario files have it."""
    if not isinstance(trigger, dict):
        return window.new >= int(trigger)
    if trigger.get("once") and window.fired:
        return False
    if "any" in trigger:
        return any(_fires(each, window, advanced) for each in trigger["any"])
    if "all" in trigger:
        return all(_fires(each, window, advanced) for each in trigger["all"])
    if "count" in trigger:
        return _fires(trigger["count"], window, advanced)
    enough = advanced >= _millis(trigger["event_time"])
    return enough and (window.new > 0 or trigger.get("even_unchanged", False))


def _millis(duration: Any) -> int:
    return int(str(duration).removesuffix("ms"))
