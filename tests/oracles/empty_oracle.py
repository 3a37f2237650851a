"""Which windows fire, those without events among them, one key and one window after the other.

``fired(scenario, until)`` takes the windows of each key that hold events from the oracle of windows, and walks over
all ends behind each of them; of the keys that the bolt lists also over those behind the moment from which on they are
there.
"""

from __future__ import annotations

import math
from typing import Any

from tests.oracles.window_oracle import Json, Time, _Bolt, _Run, microseconds, milliseconds

Fired = tuple[int | float, int | float, str | None, tuple[str, ...]]
"""The end and the start of a window in milliseconds, its key, and its events."""


class _OfKey(_Run):
    """The windows of one key: other keys only move time."""

    key: str | None = None

    def receive(self, fields: Json, stream: str | None) -> None:
        name = stream or self.streams[0]
        if fields.get("k") == self.key:
            super().receive(fields, stream)
        elif self.bolt.in_event_time:
            time = self.time_of(fields)
            self.latest[name] = max(time, self.latest.get(name, time))

    def close(self, clock: Time) -> None:
        before = self.now
        super().close(clock)
        self.reached = before
        self.last_time = max([before, *self.latest.values()])
        self.closed_at = max(self.last_time, clock)

    reached: Time = -math.inf
    """How far time had come before the streams ended."""


def fired(scenario: Json, until: int) -> list[Fired]:
    """All windows that fire, in order; ``until`` in microseconds."""
    known = {"key", "empty_windows_until", "listed_keys"}
    bolt = _Bolt.read({name: value for name, value in scenario["bolt"].items() if name not in known})
    listed = scenario["bolt"].get("listed_keys", {"keys": [], "since": 0})
    keys = {step["event"].get("k") for step in scenario["steps"] if "event" in step} | {*listed["keys"]}
    begins = {key: microseconds(listed["since"]) for key in listed["keys"]}
    return sorted(each for key in keys for each in _of_key(scenario, bolt, key, until, begins.get(key)))


def _of_key(scenario: Json, bolt: _Bolt, key: str | None, until: int, begins: int | None) -> list[Fired]:
    run = _OfKey(bolt, tuple(scenario.get("streams", ["s1"])))
    run.key = key
    for step in scenario["steps"]:
        run.take(step)
    held = {microseconds(window["end"]): tuple(window["events"]) for window in run.fired}
    assert bolt.length_time is not None
    assert bolt.slide_time is not None
    found = dict[int, tuple[str, ...]](held)
    lasts = {*held} if begins is None else {begins, *(max(begins, last) for last in held)}
    for last in lasts:
        end = last - (last - bolt.offset) % bolt.slide_time + bolt.slide_time  # the first one behind it
        while end not in held and end - last <= until and _is_over(run, end):
            found[end] = ()
            end += bolt.slide_time
    return [(milliseconds(end), milliseconds(end - bolt.length_time), key, ids) for end, ids in found.items()]


def _is_over(run: _OfKey, end: int) -> bool:
    """Whether time has passed the end of a window; or the streams have ended, and it begins before the last event."""
    if run.closed:
        assert run.bolt.length_time is not None
        if run.bolt.in_event_time and end <= run.reached:
            return True
        start = end - run.bolt.length_time
        return start < run.last_time if run.bolt.end_is_in else start <= run.last_time
    if run.bolt.in_event_time or not run.bolt.end_is_in:
        return end <= run.now
    return end < run.now


def of_answer(windows: list[dict[str, Any]]) -> list[Fired]:
    """The windows of an answer, as they came."""
    return [(each["end"], each["start"], each.get("key"), tuple(each["events"])) for each in windows]
