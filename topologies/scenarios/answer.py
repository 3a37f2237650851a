"""The answer to a scenario, its form on paper, and its comparison with what was expected."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from decimal import Decimal
from typing import Any, NotRequired, TypedDict

from topologies.scenarios.model import Expect, ExpectedWindow, Scenario
from topologies.scenarios.times import parse_end, written
from windowing.errors import ScenarioError
from windowing.timestamps import from_datetime

Rows = Sequence[dict[str, Any]]


class Window(TypedDict):
    """A fired window; ``start`` and ``end`` in microseconds, ``task`` and ``key`` where there are several."""

    start: int | None
    end: int | None
    events: list[str]
    new: list[str]
    expired: list[str]
    task: NotRequired[int]
    key: NotRequired[Any]


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
    differences: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """The answer as ``replay --json`` prints it: times in milliseconds, all of it plain JSON."""
        return {
            "name": self.name,
            "ok": self.ok,
            "windows": [_window_json(window) for window in self.windows],
            "late": self.late,
            "watermarks": [None if mark is None else written(mark) for mark in self.watermarks],
            "pending": self.pending,
            "counts": self.counts,
            "outputs": {sink: [plain(row) for row in rows] for sink, rows in self.outputs.items()},
        }


def judge(scenario: Scenario, answer: Answer) -> Answer:
    """The answer with its verdict: ``ok`` is None where the scenario expects nothing."""
    if scenario.expect is None or scenario.expect.is_empty:
        return replace(answer, ok=None, differences=[])
    differences = compare(scenario, answer)
    return replace(answer, ok=not differences, differences=differences)


def compare(scenario: Scenario, answer: Answer) -> list[str]:
    """Where the answer is not what was expected, a text for each; times in milliseconds, as in the file.

    Each key that ``expect`` names is compared whole: windows in order and each on the fields that it gives,
    late events and watermarks in order, pending events in any. A count or a sink that is missing on one side
    is zero, or empty. Fractions may differ in the last digits.
    """
    expect = scenario.expect
    return [] if expect is None else list(_differences(expect, answer))


def _differences(expect: Expect, answer: Answer) -> Iterator[str]:
    if expect.windows is not None:
        yield from _window_differences(expect.windows, answer.windows)
    if expect.late is not None:
        yield from _list_difference("late", expect.late, answer.late)
    if expect.watermarks is not None:
        wanted, found = (
            [None if mark is None else written(mark) for mark in marks]
            for marks in (expect.watermarks, answer.watermarks)
        )
        yield from _list_difference("watermarks", wanted, found)
    if expect.pending is not None:
        yield from _list_difference("pending", sorted(expect.pending), sorted(answer.pending))
    for account in _names(expect.counts, answer.counts):
        wanted_count, found_count = (expect.counts or {}).get(account, 0), answer.counts.get(account, 0)
        if wanted_count != found_count:
            yield f"counts.{account}: expected {wanted_count}, found {found_count}"
    for sink in _names(expect.outputs, answer.outputs):
        yield from _row_differences(sink, (expect.outputs or {}).get(sink, []), answer.outputs.get(sink, []))


def _names(expected: dict[str, Any] | None, found: dict[str, Any]) -> list[str]:
    return [] if expected is None else list(dict.fromkeys([*expected, *found]))


def _window_differences(expected: Sequence[ExpectedWindow], found: Sequence[Window]) -> Iterator[str]:
    """The first window that differs, shown whole, and how many windows there are where the numbers differ."""
    at = next((i for i, pair in enumerate(zip(expected, found, strict=False)) if not _fits(*pair)), None)
    if at is None and len(expected) == len(found):
        return
    if at is None:
        at = min(len(expected), len(found))
    if _fit_at(expected, at + 1, found, at) or at >= len(found):
        yield f"windows[{at}]: expected {_show_expected(expected[at])}, not fired{_instead(found, at)}"
    elif _fit_at(expected, at, found, at + 1) or at >= len(expected):
        yield f"windows[{at}]: fired, but not expected: {_flow(_window_json(found[at]))}{_due(expected, at)}"
    else:
        fields = ", ".join(name for name in expected[at].given if not _fits_in(name, expected[at], found[at]))
        here = {name: value for name, value in _window_json(found[at]).items() if name in expected[at].given}
        yield f"windows[{at}]: {fields}: expected {_show_expected(expected[at])}, found {_flow(here)}"
    if len(expected) != len(found):
        yield f"windows: expected {len(expected)}, found {len(found)}"


def _instead(found: Sequence[Window], at: int) -> str:
    return f"; the next that did is {_flow(_window_json(found[at]))}" if at < len(found) else ""


def _due(expected: Sequence[ExpectedWindow], at: int) -> str:
    return f"; the next expected is {_show_expected(expected[at])}" if at < len(expected) else ""


def _fit_at(expected: Sequence[ExpectedWindow], i: int, found: Sequence[Window], j: int) -> bool:
    return i < len(expected) and j < len(found) and _fits(expected[i], found[j])


def _fits(expected: ExpectedWindow, found: Window) -> bool:
    return all(_fits_in(name, expected, found) for name in expected.given)


def _fits_in(name: str, expected: ExpectedWindow, found: Window) -> bool:
    return _same(expected.given[name], found.get(name))


def _list_difference(name: str, expected: Sequence[object], found: Sequence[object]) -> Iterator[str]:
    if list(expected) != list(found):
        yield f"{name}: expected {_flow(list(expected))}, found {_flow(list(found))}"


def _row_differences(sink: str, expected: Rows, found: Rows) -> Iterator[str]:
    at = next((i for i, pair in enumerate(zip(expected, found, strict=False)) if not _same(*pair)), None)
    if at is not None:
        yield f"outputs.{sink}[{at}]: expected {_row(expected[at])}, found {_row(found[at])}"
    elif len(expected) > len(found):
        yield f"outputs.{sink}[{len(found)}]: expected {_row(expected[len(found)])}, found nothing"
    elif len(found) > len(expected):
        yield f"outputs.{sink}[{len(expected)}]: expected nothing, found {_row(found[len(expected)])}"
    if len(expected) != len(found):
        yield f"outputs.{sink}: expected {_rows(len(expected))}, found {len(found)}"


def _row(row: dict[str, Any]) -> str:
    return _flow(plain(row))


def _rows(number: int) -> str:
    return f"{number} row{'' if number == 1 else 's'}"


def _same(expected: Any, found: Any) -> bool:
    """Whether a value read from a file is the value that came out, whose types may be richer."""
    match expected, found:
        case (bool(), _) | (_, bool()):
            return expected is found
        case (int() | float() | str(), datetime()):
            return _is_time(expected, found)
        case (int() | float() | Decimal(), int() | float() | Decimal()):
            return _same_number(expected, found)
        case (dict(), dict()):
            return expected.keys() == found.keys() and all(_same(expected[key], found[key]) for key in found)
        case (list() | tuple(), list() | tuple()):
            return len(expected) == len(found) and all(map(_same, expected, found))
    return bool(expected == found or expected == plain(found))


def _same_number(expected: float | Decimal, found: float | Decimal) -> bool:
    if isinstance(expected, int) and isinstance(found, int):
        return expected == found
    both_nan = math.isnan(expected) and math.isnan(found)
    return both_nan or math.isclose(expected, found, rel_tol=1e-12)


def _is_time(expected: object, found: datetime) -> bool:
    try:
        return parse_end(expected) == from_datetime(found)
    except ScenarioError:
        return False


def _window_json(window: Window) -> dict[str, Any]:
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


def _show_expected(window: ExpectedWindow) -> str:
    shown = dict(window.given)
    for name in ("start", "end"):
        if shown.get(name) is not None:
            shown[name] = written(shown[name])
    return _flow(shown)


def _flow(value: Any) -> str:
    """A value on one line, as YAML would take it."""
    match value:
        case dict():
            return "{" + ", ".join(f"{key}: {_flow(item)}" for key, item in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(_flow, value)) + "]"
        case str() if value.isidentifier():
            return value
    return json.dumps(value, ensure_ascii=False, default=str)
