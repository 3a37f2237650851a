"""When windows with panes fire, as Beam's and Flink's documentation of triggers have it, one window after the other.

A batch ends at each tick, where a watermark is made, and at a crash, after which it is delivered again. At its end
every window is looked at: before its end its early trigger
is asked, at its end it fires once, and until the allowed lateness is over again for late events. In Beam a trigger that
has finished closes its window: nothing fires any more, and what comes to the window is dropped. A composite that waits
for all of its parts fires at the end only with enough elements. Flink's continuous triggers fire without new elements.

Windows are tumbling and hold their end. Times are whole milliseconds.
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
    over: bool = False
    """Whether it has fired at its end."""
    closed: bool = False
    fired: bool = False


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
    windows: dict[tuple[int, str], _Window] = {}
    latest = watermark = -math.inf
    arrived = False
    for arrival, step in enumerate(scenario["steps"]):
        if "event" in step:
            event = step["event"]
            end = math.ceil(event["ts"] / length) * length
            window = windows.setdefault((end, event["k"]), _Window(end, event["k"]))
            if end + allowed <= watermark or (event["ts"] < watermark and not allowed) or window.closed:
                found.late.append(event["id"])
            else:
                window.elements.append((event["ts"], arrival, event["id"]))
                window.new += 1
            latest = max(latest, event["ts"])
            arrived = True
        elif "tick" in step or "close" in step or ("crash" in step and arrived):
            arrived = False
            if "crash" not in step:
                watermark = math.inf if "close" in step else max(watermark, latest)
            ready = sorted((window for window in windows.values() if window.elements), key=lambda w: (w.end, w.key))
            found.fired.append([fired for window in ready for fired in _look(window, bolt, watermark, allowed)])
    found.windowed = sum(len(window.elements) - window.new for window in windows.values() if window.fired)
    return found


def _look(window: _Window, bolt: Json, watermark: float, allowed: int) -> list[Fired]:
    window.mark = max(window.mark, watermark) if window.mark == -math.inf else window.mark
    advanced = 0 if watermark == -math.inf else watermark - window.mark
    timing = None if window.closed else _due(window, bolt["panes"], watermark, allowed, advanced)
    if timing is None:
        return []
    window.new, window.mark, window.fired = 0, watermark, True
    window.over = window.over or timing == "on_time"
    window.closed = bolt["panes"].get("closes", False)
    return [(window.end, window.key, timing, tuple(name for _, _, name in sorted(window.elements)))]


def _due(window: _Window, panes: Json, watermark: float, allowed: int, advanced: float) -> str | None:
    waits = not panes.get("late") and not panes.get("closes")
    if watermark < window.end + (allowed if waits else 0):
        return "early" if _early(window, panes, advanced) else None
    if not window.over:
        return "on_time" if len(window.elements) >= panes.get("at_end", 0) else None
    return "late" if panes.get("late") and window.new else None


def _early(window: _Window, panes: Json, advanced: float) -> bool:
    if "early" in panes:
        return window.new >= int(panes["early"])
    if "early_event_time" not in panes:
        return False
    return advanced >= _millis(panes["early_event_time"]) and (window.new > 0 or panes.get("even_unchanged", False))


def _millis(duration: Any) -> int:
    return int(str(duration).removesuffix("ms"))
