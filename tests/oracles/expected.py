"""What an oracle expects of one scenario, and how it is held against an answer of `replay`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]


class Unsaid(Exception):
    """The documents do not say what is right for this scenario; it is left out, and counted."""


class Anything:
    """A value that the documents leave open: it is equal to everything."""

    def __repr__(self) -> str:
        return "anything"


ANY = Anything()


@dataclass(frozen=True)
class Window:
    """One window: bounds in microseconds, its events by id in their order."""

    end: int
    events: tuple[str, ...]
    start: int | None = None
    key: Any = None
    kind: int | None = None

    def shown(self) -> str:
        """For a reader of differences."""
        key = "" if self.key is None else f" key {self.key}"
        kind = "" if self.kind is None else f" kind {self.kind}"
        return f"{_ms(self.start)}..{_ms(self.end)}{key}{kind} {list(self.events)}"


@dataclass
class Judged:
    """What happened to one event: its time (None: it got none), action, and the two marks after it."""

    time: Any = ANY
    actions: tuple[str, ...] = ()
    watermark: Any = ANY
    mark: Any = ANY


@dataclass
class Expected:
    """All that an oracle says of a scenario. A `None` is not compared."""

    windows: list[Window]
    judged: dict[str, Judged]
    pending: list[str]
    counts: dict[str, int]
    metrics: dict[str, int]
    clocks: list[Any] | None = None
    in_order_of_ends: bool = True
    either: frozenset[str] = frozenset()
    """Events in a gap of windows by key or of lifetimes: windbolt may say so at once, or when time has passed them."""


def us(milliseconds: Any) -> int | None:
    """A time of an answer, in microseconds."""
    return None if milliseconds is None else round(milliseconds * 1000)


def _ms(time: Any) -> Any:
    return time / 1000 if isinstance(time, int) else time


def differences(expected: Expected, answer: Json) -> list[str]:
    """Every way in which what `replay --json` prints is not what was expected; empty if it holds."""
    return [
        *_events(expected.judged, answer["events"]),
        *_windows(expected, answer["windows"]),
        *_mappings("counts", *_without(expected, answer)),
        *_mappings("metrics", expected.metrics, answer["metrics"]),
        *_pending(expected, answer["pending"]),
        *_clocks(expected.clocks, answer["clocks"]),
    ]


def _windows(expected: Expected, found: list[Json]) -> list[str]:
    with_starts = all(window.start is not None for window in expected.windows)
    mine = sorted(_row(w.start if with_starts else None, w.end, w.key, w.kind, w.events) for w in expected.windows)
    theirs = sorted(
        _row(us(w["start"]) if with_starts else None, us(w["end"]), w.get("key"), w.get("kind"), tuple(w["events"]))
        for w in found
    )
    wrong = [f"window missing: {_shown(row)}" for row in mine if row not in theirs]
    wrong += [f"window too many: {_shown(row)}" for row in theirs if row not in mine]
    if not wrong and mine != theirs:
        wrong.append(f"windows more or less than once: {len(mine)} expected, {len(theirs)} found")
    ends = [w["end"] for w in found]
    if expected.in_order_of_ends and ends != sorted(ends):
        wrong.append(f"windows out of order: ends {ends}")
    return wrong


def _row(start: int | None, end: int | None, key: Any, kind: int | None, events: tuple[str, ...]) -> tuple[Any, ...]:
    return (end, start or 0, str(key), -1 if kind is None else kind, events)


def _shown(row: tuple[Any, ...]) -> str:
    end, start, key, kind, events = row
    return Window(end, events, start, None if key == "None" else key, None if kind == -1 else kind).shown()


def _events(judged: dict[str, Judged], found: list[Json]) -> list[str]:
    by_id = {event["id"]: event for event in found}
    wrong = [f"{name}: not judged at all" for name in judged if name not in by_id]
    for name, one in judged.items():
        if name not in by_id:
            continue
        event = by_id[name]
        if one.actions and event["action"] not in one.actions:
            wrong.append(f"{name}: action {event['action']}, expected {' or '.join(one.actions)}")
        for what in ("time", "watermark", "mark"):
            value = getattr(one, what)
            if value is not ANY and us(event.get(what)) != value:
                wrong.append(f"{name}: {what} {event.get(what)}, expected {_ms(value)}")
    return wrong


def _mappings(what: str, expected: Mapping[str, int], found: Mapping[str, Any]) -> list[str]:
    return [
        f"{what}.{name}: {found.get(name, 0)}, expected {number}"
        for name, number in expected.items()
        if found.get(name, 0) != number
    ]


def _without(expected: Expected, answer: Json) -> tuple[Json, Json]:
    """The accounts, less what is told earlier or later."""
    mine, theirs = dict(expected.counts), dict(answer["counts"])
    for name in expected.either:
        mine["unwindowed"] -= 1
        theirs["pending" if name in answer["pending"] else "unwindowed"] -= 1
    return mine, theirs


def _pending(expected: Expected, found: list[Any]) -> list[str]:
    left = sorted(name for name in found if name not in expected.either)
    return [] if sorted(expected.pending) == left else [f"pending: {left}, expected {sorted(expected.pending)}"]


def _clocks(expected: list[Any] | None, found: list[Any]) -> list[str]:
    if expected is None:
        return []
    same = len(expected) == len(found) and all(
        mine is ANY or mine == us(theirs) for mine, theirs in zip(expected, found, strict=True)
    )
    return [] if same else [f"clocks: {found}, expected {[_ms(time) for time in expected]}"]
