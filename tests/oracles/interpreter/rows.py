"""What bolts make of their windows: the rows of the tests' own bolt, of ready bolts, joins and aggregates.

guide, "What a bolt gets, and returns", "Ready bolts", "Two streams".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tests.oracles.interpreter import ready
from tests.oracles.interpreter.bolt import Fired
from tests.oracles.interpreter.values import FOREVER, Event, Json, ids, milliseconds, moment

if TYPE_CHECKING:
    from tests.oracles.interpreter.graphs import Node

COLUMNS = ("id", "k", "q", "v", "ts", "m")
"""The columns that every bolt of the tests passes on."""

OTHERS = ("x", "p", "at", "until", "gap", "cti", "shape")
"""The others, which ready bolts pass on."""

Made = tuple[str, Json, int | None]
"""The stream, the row, and its time where it has one of its own."""


def streams(make: list[Any]) -> tuple[str, ...]:
    """The streams of a windowed bolt that carry its time."""
    match make[0]:
        case "gather" | "own" | "triggered":
            return "default", "each"
        case "gone":
            return "default", "each", "gone"
        case "deduplicate" | "rate_limit" | "changes":
            return "default", "rest"
    return ("default",)


def rows(node: Node, fired: Fired) -> Iterator[Made]:
    match node.make[0]:
        case "gather" | "gone" | "own" | "triggered":
            yield from gathered(node, fired)
        case "deduplicate" | "rate_limit" | "changes" | "union" | "silence":
            for event in fired.content:
                passes = ready.passes(node.make, node.memory, event)
                others = {name: event.fields[name] for name in OTHERS if name in event.fields}
                yield "default" if passes else "rest", {**passed(event), **others}, None
        case "top" | "rank":
            yield from (("default", row, None) for row in ready.ranked(node.make, fired.content))
        case "window_join":
            yield from (("default", row, None) for row in ready.window_join(node.make, fired.content))
        case "aggregate":
            if not fired.content and node.rules.empty_windows_until is None:
                return  # a pane that has shown all of them already
            key = dict(zip(node.rules.key, (fired.window.key or ())[-len(node.rules.key) :], strict=False))
            found = ready.aggregated(node.make, fired.content, fired.window.end, key)
            yield from (("default", row, None) for row in found)
        case "temporal_join":
            return
        case other:
            raise AssertionError(other)


def gathered(node: Node, fired: Fired) -> Iterator[Made]:
    """The tests' own bolt: a row for the window, one for each of its events, and one for each that has expired."""
    window, content = fired.window, fired.content
    nameless = window.start is None and node.make[0] != "own"
    end = "" if window.end >= FOREVER or nameless else window.end
    name = f"{node.name}({'+'.join(ids(content))})@{end}"
    if fired.pane is not None:
        name += f"#{fired.pane['index']}"
    if node.make[0] == "triggered":
        name += f"!{window.fired}"
    if content:
        times = [moment(event.fields["ts"]) for event in content if event.fields.get("ts") is not None]
        first = content[0].fields
        head = {"id": name, "k": first.get("k"), "q": first.get("q"), "v": len(content), "m": first.get("m")}
        yield "default", {**head, "ts": milliseconds(min(times, default=None))}, None
    for stream, events in (("each", content), ("gone", fired.expired)):
        if stream in streams(node.make):
            for event in events:
                yield stream, {**passed(event), "id": f"{name}:{stream}:{event.id}"}, None


def passed(event: Event) -> Json:
    return {column: event.fields.get(column) for column in COLUMNS}
