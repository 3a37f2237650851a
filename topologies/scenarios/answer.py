"""The answer to a scenario, and its form on paper."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import Any, NotRequired, TypedDict

from topologies.scenarios.expected import Action
from topologies.scenarios.times import written
from windowing.timestamps import from_datetime


class Pane(TypedDict):
    """Which firing of its window it was."""

    index: int
    timing: str
    last: bool


class Window(TypedDict):
    """A fired window; ``start`` and ``end`` in microseconds, the rest where there are several or any."""

    start: int | None
    end: int | None
    events: list[str]
    new: list[str]
    expired: list[str]
    task: NotRequired[int]
    key: NotRequired[Any]
    """The values of its key in order; of one column the value itself."""
    kind: NotRequired[int]
    """The place of its kind among those of the bolt."""
    pane: NotRequired[Pane]
    by: NotRequired[str]
    """What made it fire, where the bolt has a trigger."""


class Event(TypedDict):
    """How an event was taken in, where watermarks come with events; times in microseconds."""

    id: str
    time: int | None
    """The time it was assigned, which an adjustment may have moved; None where it got none."""
    action: Action
    watermark: int | None
    """The watermark of the bolt after it."""
    mark: int | None
    """The mark of its own input, partition or key after it."""


@dataclass(frozen=True)
class Answer:
    """What came out of a scenario. Times are microseconds; ``ok`` is None where nothing was expected."""

    name: str
    ok: bool | None = None
    windows: list[Window] = field(default_factory=list)
    late: list[str] = field(default_factory=list)
    watermarks: list[int | None] = field(default_factory=list)
    pending: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    outputs: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    """In order of arrival; none where watermarks come with ticks."""
    clocks: list[int | None] = field(default_factory=list)
    """The watermark after each step of the clock."""
    metrics: dict[str, int | float] = field(default_factory=dict)
    """Counters beside the accounts, and ``watermark_delay`` in milliseconds."""
    differences: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """The answer as ``replay --json`` prints it: times in milliseconds, all of it plain JSON."""
        return {
            "name": self.name,
            "ok": self.ok,
            "windows": [window_json(window) for window in self.windows],
            "late": self.late,
            "watermarks": times_json(self.watermarks),
            "pending": self.pending,
            "counts": self.counts,
            "outputs": {sink: [plain(row) for row in rows] for sink, rows in self.outputs.items()},
            "events": [event_json(event) for event in self.events],
            "clocks": times_json(self.clocks),
            "metrics": self.metrics,
        }


def times_json(times: Iterable[int | None]) -> list[int | float | str | None]:
    """Times as answers give them; those that there are not are null."""
    return [None if at is None else written(at) for at in times]


def event_json(event: Event) -> dict[str, Any]:
    """An event of an answer with its times in milliseconds."""
    time, watermark, mark = times_json((event["time"], event["watermark"], event["mark"]))
    return {"id": event["id"], "time": time, "action": event["action"], "watermark": watermark, "mark": mark}


def window_json(window: Window) -> dict[str, Any]:
    """A window of an answer with its times in milliseconds."""
    start, end = window["start"], window["end"]
    shown: dict[str, Any] = {
        "start": None if start is None else written(start),
        "end": None if end is None else written(end),
        "events": window["events"],
        "new": window["new"],
        "expired": window["expired"],
    }
    if "task" in window:
        shown["task"] = window["task"]
    if "key" in window:
        shown["key"] = plain(window["key"])
    if "kind" in window:
        shown["kind"] = window["kind"]
    if "pane" in window:
        shown["pane"] = dict(window["pane"])
    if "by" in window:
        shown["by"] = window["by"]
    return shown


def plain(value: Any) -> Any:  # noqa: PLR0911
    """A value as JSON has it: times in milliseconds, other rich types as their text."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else {math.inf: "+inf", -math.inf: "-inf"}.get(value)
        case datetime():
            return written(from_datetime(value))
        case date():
            return value.isoformat()
        case Decimal():
            return str(value)
        case bytes():
            return value.hex()
        case dict():
            return {str(key): plain(item) for key, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
    return plain(value.item()) if hasattr(value, "item") else str(value)
