"""Messages in columns as events: read many at once, each as if it were alone."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from manager.keyed.assigned_windows import GatheredEvents
from manager.keyed.retained_events import RetainedEvents, SortedEvents
from topologies.io.messages import JsonMessages, Unreadable
from topologies.step.read_bolt import MESSAGE, RULE_COLUMNS, WindowEvents, read_messages
from topologies.step.rule_values import Event
from topologies.testing.bolt_run import make_window
from windowing.schema import parse_schema
from windowing.window import TupleWindow

MESSAGE_READ = "topic string, key binary, value binary, headers array<struct<key: string, value: binary>>"


def message(value: bytes | None, key: bytes | None = b"k", **headers: bytes) -> dict[str, Any]:
    pairs = [{"key": name, "value": each} for name, each in headers.items()]
    return {"topic": "in", "partition": 1, "offset": 5, "timestamp": None, "key": key, "value": value, "headers": pairs}


def table(rows: Sequence[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=parse_schema(MESSAGE))


def numbered(count: int) -> list[dict[str, Any]]:
    return [message(json.dumps({"n": number}).encode()) for number in range(count)]


def windows(rows: Sequence[dict[str, Any]], *runs: range) -> list[TupleWindow]:
    """Windows of these events, which were gathered together."""
    payload = table(rows)
    events = SortedEvents(RetainedEvents(times=np.arange(len(rows)), payload=payload), ("read",))
    source = GatheredEvents(events, np.arange(len(rows)))
    return [TupleWindow(source, run, run, None, 0, 1, 0) for run in runs]


def numbers(events: Sequence[Any]) -> list[Any]:
    return [event.value["n"] for event in events]


def test_events_have_their_fields_and_are_frozen() -> None:
    rows = [message(b"1"), message(b"2", None), message(b"3", b"\xff", h=b"v")]
    read = list(read_messages(table(rows), JsonMessages()))
    assert read == [
        Event(1, "in", "k", {}), Event(2, "in", None, {}), Event(3, "in", "\\xff", {"h": "v"})
    ]  # fmt: skip
    assert isinstance(read[0], Event)
    with pytest.raises(AttributeError):
        read[0].value = 2  # type: ignore[misc]


def test_events_do_not_share_headers() -> None:
    one, other = read_messages(table([message(b"1"), message(b"2")]), JsonMessages())
    assert isinstance(one, Event)
    assert isinstance(other, Event)
    one.headers["a"] = "b"  # type: ignore[index]
    assert other.headers == {}


def test_a_message_that_cannot_be_read_is_its_reason() -> None:
    read = list(read_messages(table([message(b"1"), message(None), message(b"{")]), JsonMessages()))
    assert [type(event) for event in read] == [Event, Unreadable, Unreadable]
    assert str(read[1]) == "the message has no value (a tombstone)"


@pytest.mark.parametrize("size", [10, 5_000])
def test_more_messages_than_are_read_at_once_come_in_order(size: int) -> None:
    rows = [message(json.dumps({"n": number, "text": "x" * size}).encode()) for number in range(1_500)]
    assert numbers(list(read_messages(table(rows), JsonMessages()))) == list(range(1_500))


def test_windows_that_follow_each_other_have_their_own_events() -> None:
    runs = [range(low, min(low + 7, 1_300)) for low in range(0, 1_300, 7)]
    reader = WindowEvents(JsonMessages())
    assert [numbers(reader.of(window)) for window in windows(numbered(1_300), *runs)] == [list(run) for run in runs]


def test_windows_in_any_order_have_their_own_events() -> None:
    runs = [range(5, 9), range(2, 4), range(9, 700), range(690, 700), range(1)]
    reader = WindowEvents(JsonMessages())
    assert [numbers(reader.of(window)) for window in windows(numbered(700), *runs)] == [list(run) for run in runs]


def test_a_window_asked_for_again_has_events_that_no_rule_has_touched() -> None:
    (window,) = windows(numbered(3), range(3))
    reader = WindowEvents(JsonMessages())
    reader.of(window)[0].value["n"] = "modified"
    assert numbers(reader.of(window)) == [0, 1, 2]


def test_windows_of_several_sources_have_their_own_events() -> None:
    (one,), (other,) = windows(numbered(3), range(3)), windows(numbered(9), range(3, 9))
    reader = WindowEvents(JsonMessages())
    assert [numbers(reader.of(window)) for window in (one, other, one)] == [[0, 1, 2], [3, 4, 5, 6, 7, 8], [0, 1, 2]]


def test_an_unreadable_message_fails_its_own_window_only() -> None:
    rows = [*numbered(2), message(b"{"), *numbered(2)]
    good, bad, also_good = windows(rows, range(2), range(2, 3), range(3, 5))
    reader = WindowEvents(JsonMessages())
    assert numbers(reader.of(good)) == [0, 1]
    with pytest.raises(Unreadable, match="not valid JSON"):
        reader.of(bad)
    assert numbers(reader.of(also_good)) == [0, 1]


def test_a_window_made_by_hand_has_its_events() -> None:
    window = make_window([{name: row[name] for name in RULE_COLUMNS} for row in numbered(3)], MESSAGE_READ)
    assert numbers(WindowEvents(JsonMessages()).of(window)) == [0, 1, 2]
