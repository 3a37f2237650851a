"""Windows of a count of events of each key, as Flink's documentation of count windows on keyed streams has them.

There a keyed stream has one endless window for each key. A trigger fires it at every ``slide``-th element of the key,
and an evictor leaves it the last ``length`` of them; where the two are equal, it is cleared instead. In event time the
elements count in order of their times, up to the watermark, as Storm's windows of a count do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from tests.oracles.window_oracle import Json, Time, duration, microseconds


@dataclass
class Counted:
    """What happens to the events of a scenario, by their ids."""

    windows: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    """The key and the events of each window, in order of the windows' last events."""
    late: list[str] = field(default_factory=list)
    windowed: set[str] = field(default_factory=set)
    unwindowed: set[str] = field(default_factory=set)
    pending: set[str] = field(default_factory=set)


def answer(scenario: Json) -> Counted:
    """The windows and accounts of a bolt with a key ``k``, and a length and a slide in events."""
    bolt = scenario["bolt"]
    slide = bolt["length"] if bolt.get("tumbling") else bolt.get("sliding", 1)
    found = Counted()
    elements, reached = _elements(scenario, found)
    for key in sorted({element[2] for element in elements}):
        of_key = [element for element in elements if element[2] == key]
        _count([element for element in of_key if element[0] <= reached], key, bolt["length"], slide, found)
    of_order = {element[3]: number for number, element in enumerate(elements)}
    found.windows.sort(key=lambda window: of_order[window[1][-1]])
    found.pending = set(of_order) - found.windowed - found.unwindowed
    return found


def _count(elements: list[Any], key: str, length: int, slide: int, found: Counted) -> None:
    ids = [element[3] for element in elements]
    for fired in range(slide, len(ids) + 1, slide):
        found.windows.append((key, tuple(ids[max(fired - length, 0) : fired])))
        found.windowed.update(ids[max(fired - length, 0) : fired])
    for number, name in enumerate(ids):
        if number % slide < slide - length:  # further from the next firing than the evictor leaves
            found.unwindowed.add(name)


def _elements(scenario: Json, found: Counted) -> tuple[list[tuple[Time, int, str, str]], Time]:
    """The elements that are not late, as (time, arrival, key, id) in this order; and up to when they count."""
    bolt, steps = scenario["bolt"], scenario["steps"]
    by_event = bolt.get("watermark_every") is not None
    lag = duration(bolt.get("lag", "0ms"))
    streams = scenario.get("streams", ["s1"])
    latest: dict[str, Time] = dict.fromkeys(streams, -math.inf)
    watermark: Time = -math.inf
    elements: list[tuple[Time, int, str, str]] = []
    for arrival, step in enumerate(steps):
        if "event" in step:
            event, stream = step["event"], step.get("stream", streams[0])
            if bolt.get("timestamp_field") is None:
                elements.append((arrival, arrival, event["k"], event["id"]))
                continue
            time = microseconds(event["ts"])
            if time < watermark:
                found.late.append(event["id"])
            else:
                elements.append((time, arrival, event["k"], event["id"]))
            latest[stream] = max(latest[stream], time)
        if ("event" in step and by_event) or ("tick" in step and not by_event):
            watermark = max(watermark, min(latest.values()) - lag)
    closed = any("close" in step for step in steps) or bolt.get("timestamp_field") is None
    return sorted(elements), math.inf if closed else watermark
