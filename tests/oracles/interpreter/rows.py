"""What bolts make of their windows: the rows of the tests' own bolts, of ready bolts, joins and aggregates.

guide, "What a bolt gets, and returns", "Ready bolts", "Two streams".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tests.oracles.interpreter import ready
from tests.oracles.interpreter.bolt import Bolt, Fired
from tests.oracles.interpreter.plain import passed
from tests.oracles.interpreter.values import FOREVER, NO_END, Event, Json, ids, least, milliseconds, moment_in

if TYPE_CHECKING:
    from tests.oracles.interpreter.topology import Node

OTHERS = ("x", "p", "at", "until", "gap", "cti", "shape")
"""The columns beside ``PASSED``, which ready bolts pass on."""

GATHERED = {"gather": ("each",), "own": ("each",), "triggered": ("each",), "gone": ("each", "gone")}
"""The tests' own bolts, and their streams beside the default one."""
PASSING = {"deduplicate": ("rest",), "rate_limit": ("rest",), "changes": ("rest",), "union": (), "silence": ()}
"""Ready bolts that pass events on."""


def streams(make: list[Any]) -> tuple[str, ...]:
    """The streams of a windowed bolt that carry its time."""
    return ("default", *(GATHERED | PASSING).get(make[0], ()))


def rows(node: Node, bolt: Bolt, fired: Fired) -> Iterator[tuple[str, Json]]:
    """The rows of a window, with their streams."""
    make, content = node.make, fired.content
    if make[0] in GATHERED:
        yield from gathered(node, fired)
    elif make[0] in PASSING:
        for event in content:
            others = {name: event.fields[name] for name in OTHERS if name in event.fields}
            passes = ready.passes(make, node.memory, event)
            yield "default" if passes else "rest", {**passed(event.fields), **others}
    elif make[0] in ("top", "rank"):
        yield from (("default", row) for row in ready.ranked(make, content))
    elif make[0] == "window_join":
        yield from (("default", row) for row in ready.window_join(make, content))
    elif make[0] == "aggregate" and (content or bolt.rules.empty_windows_until is not None):
        key = dict(zip(bolt.rules.key, (fired.window.key or ())[-len(bolt.rules.key) :], strict=False))
        yield from (("default", row) for row in ready.aggregated(make, content, fired.window.end, key))


def gathered(node: Node, fired: Fired) -> Iterator[tuple[str, Json]]:
    """The tests' own bolt: a row for the window, one for each of its events, and one for each that has expired."""
    window, content = fired.window, fired.content
    nameless = window.start is None and node.make[0] != "own"
    name = f"{node.name}({'+'.join(ids(content))})@{'' if window.end >= FOREVER or nameless else window.end}"
    if fired.pane is not None:
        name += f"#{fired.pane['index']}"
    if node.make[0] == "triggered":
        name += f"!{window.fired}"
    if content:
        first = least(*(moment_in(event.fields, "ts") for event in content))
        yield "default", {**passed(content[0].fields), "id": name, "v": len(content), "ts": milliseconds(first)}
    for stream, events in (("each", content), ("gone", fired.expired)):
        for event in events if stream in streams(node.make) else ():
            yield stream, {**passed(event.fields), "id": f"{name}:{stream}:{event.id}"}


def told(bolt: Bolt, fired: Fired) -> Json:
    """The row of the bolt that tells its windows, which is alone."""
    window, several = fired.window, len(bolt.kinds) > 1
    key = None if window.key is None else window.key[0] if len(window.key) == 1 else window.key
    return {
        "start": window.start,
        "end": window.end if window.end < FOREVER else NO_END,
        "key": str(key),
        "kind": window.place if several else None,
        "events": ",".join(fired.shown["events"]),
        "number": fired.number if bolt.rules.key else None,
    }


# ---- limits of a bolt: the bytes of a window that it is called with, and the time of a call (operating)

HANGS_AT = 6
"""A bolt with a limit of time waits for ever for an event with this value."""
TEXTS = ("id", "k", "q", "m", "p", "shape")
NUMBERS = 7
"""The numbers and times among the columns of the events, eight bytes each."""
ROOM = 1000
"""More bytes than the columns of no event have."""


def breaks(limits: Json, content: list[Event]) -> bool | None:
    """True if a call with these events ends the run; None where that is not said: how many bytes columns have beside
    their values."""
    if limits.get("call_time") == "400ms" and any(event.fields.get("v") == HANGS_AT for event in content):
        return True
    allowed = limits.get("window_bytes")
    if allowed is None or not content:
        return False if allowed is None or allowed > ROOM else None

    def bytes_of(*names: str) -> int:
        return sum(len(str(event.fields.get(name) or "").encode()) for event in content for name in names)

    if bytes_of(*TEXTS[:4]) + 16 * len(content) > allowed:  # in each stream there are four texts, a number and a time
        return True
    upto = bytes_of(*TEXTS) + 8 * (NUMBERS + len(TEXTS)) * len(content) + ROOM
    return None if upto > allowed else False
