"""Whatever rules give, the step goes on: it is sent, or the messages go to the error step with the reason."""

from __future__ import annotations

import datetime
import json
from collections import UserDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum, StrEnum
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.examples import examples
from tests.topologies.step.test_bolts import STEP, Calls, message
from topologies.io.messages import AvroMessages, AvroSchema, CsvMessages, JsonMessages, MessageFormat, XmlMessages
from topologies.local import run_local
from topologies.run.options import RunOptions
from topologies.step import PASSTHROUGH, Aggregation, Event, FireResult, Out, Rule, TriggerCall
from topologies.step.compile_step import step_topology
from topologies.step.config_files import load_step
from topologies.step.rule_values import HeaderText
from windowing.bolts.bolt import pack_state

HUGE = 10**5_000  # Python does not write it


class Failing:
    """Nothing that anybody asks of it works."""

    def __repr__(self) -> str:
        raise ValueError("no repr")

    __str__ = __repr__
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise ValueError("no comparison")


class Leaving:
    """Ends the process where it is shown."""

    def __repr__(self) -> str:
        raise SystemExit(3)

    __str__ = __repr__


class Text(str):
    """A text with ideas of its own."""

    def __str__(self) -> str:
        return "\ud800"

    def __hash__(self) -> int:
        raise SystemExit(3)

    def encode(self, *given: Any) -> bytes:
        return 5  # type: ignore[return-value]

    def isascii(self) -> bool:
        return True


class Items(dict[str, Any]):
    """A dict that fails where it is read."""

    def items(self) -> Any:
        raise SystemExit(3)

    keys = values = __iter__ = items


class Colour(Enum):
    RED = 1


class Word(StrEnum):
    RED = "red"


def circle() -> list[Any]:
    made: list[Any] = []
    made.append(made)
    return made


def deep(levels: int) -> list[Any]:
    made: list[Any] = []
    for _ in range(levels):
        made = [made]
    return made


def changed_header() -> HeaderText:
    header = HeaderText.of(b"\xff")
    header.raw = 5  # type: ignore[assignment]
    return header


def yielding(*values: Any) -> Iterator[Any]:
    yield from values


def purge() -> str:
    return "purge"


def constants(*values: Any) -> list[Callable[[], Any]]:
    return [lambda value=value: value for value in values]  # type: ignore[misc]


ODD: list[Callable[[], Any]] = [
    *constants(None, True, 0, -1, 5, 2**64, HUGE, -HUGE, 1.5, float("nan"), float("inf")),
    *constants("", "a", "é", "\ud800", "\0", "a\nb", "x" * 300, "../x", "a" * 249),
    *constants("fire", "continue", "passthrough", "decline", "09:30", b"", b"\xff"),
    *constants(Decimal("1.5"), Decimal("NaN"), Colour.RED, Word.RED, np.int64(3)),
    *constants(np.float32("nan"), np.datetime64("NaT"), datetime.date(2024, 1, 1)),
    *(purge, Failing, Leaving, object, set, Items, UserDict, circle, changed_header, lambda: Text("x")),
    lambda: deep(150),
    *(lambda: deep(950), lambda: {"a": deep(400)}, lambda: Items(a=1), lambda: {"a": Items(b=1)}, lambda: range(3)),
    *(lambda: iter([1]), lambda: yielding(1), lambda: lambda: 1, lambda: Out, lambda: Out(1), lambda: Event(1)),
    *(lambda: bytearray(b"x"), lambda: memoryview(b"x"), lambda: HeaderText("x"), lambda: HeaderText.of(None)),
    *(lambda: np.array([1, 2]), lambda: {1: 2}, lambda: {"a": HUGE}, lambda: {"\ud800": 1}, lambda: {HUGE: 1}),
    *(lambda: {"a": "\ud800"}, lambda: {"n": {"b": 1}}, lambda: {"a": float("nan")}, lambda: {Failing: 1}),
]  # fmt: skip


@dataclass(frozen=True)
class Odd:
    """One of the odd things, by its index: what is drawn can be shown."""

    index: int


@dataclass(frozen=True)
class Sent:
    """An ``Out`` of these."""

    fields: dict[str, Any]


@dataclass(frozen=True)
class Yielded:
    """A generator of these."""

    values: list[Any]


def made(plan: Any) -> Any:
    """What was drawn, made of its parts."""
    match plan:
        case Odd(index):
            return ODD[index]()
        case Sent(fields):
            return Out(**made(fields))
        case Yielded(values):
            return yielding(*made(values))
        case list():
            return [made(part) for part in plan]
        case dict():
            return {name: made(part) for name, part in plan.items()}
    return plan


odd = st.builds(Odd, st.integers(0, len(ODD) - 1))
several = odd | st.lists(odd, max_size=3) | st.dictionaries(st.sampled_from(["a", "n", "\ud800", ""]), odd, max_size=2)
headers = st.dictionaries(st.sampled_from(["h", "\ud800"]), odd, max_size=2) | several
out = st.builds(
    Sent,
    st.fixed_dictionaries({"value": several}, optional={"key": odd, "headers": headers, "topic": odd, "branch": odd}),
)
answer = several | out | st.lists(several | out, max_size=2) | st.builds(Yielded, st.lists(several | out, max_size=2))
names = st.sampled_from(["TargetTopic", "TargetKey", "kafka", "BranchName", "x"])
target = st.dictionaries(names, headers, max_size=2)
AVRO = AvroSchema.parse(
    '{"type": "record", "name": "A", "fields": [{"name": "a", "type": ["null", "string", "long"]}]}'
)
FORMATS: list[MessageFormat] = [JsonMessages(), XmlMessages(), CsvMessages(("a",)), AvroMessages((AVRO,))]

GIVEN: list[Any] = []
"""What the rules below give next."""


def aggregate(events: list[Event], call: Aggregation) -> Any:
    returned, header, changes = GIVEN
    for event in events:
        event.headers["h"] = header  # type: ignore[index]
    for name, value in changes.items():
        setattr(call, name, value)
    return returned


@examples(300)
@given(
    st.just(PASSTHROUGH) | answer,
    odd,
    st.fixed_dictionaries({}, optional={"out": answer, "headers": target | several, "cache": several}),
    st.sampled_from(FORMATS),
)
def test_what_an_aggregation_gives_is_sent_or_its_messages_fail(
    returned: Any, header: Any, changes: dict[str, Any], write: MessageFormat
) -> None:
    calls = Calls(Rule("dsl", __name__, "aggregate"), write=write, keeps_cache=True)
    GIVEN[:] = made([returned, header, changes])
    found = calls(message(b'{"a": 1}'), message(b'{"a": "2"}', headers=[{"key": "h", "value": b"1"}]))
    if "failed" in found:
        assert list(found) == ["failed"]
        assert [row["value"] for row in found["failed"]] == [b'{"a": 1}', b'{"a": "2"}']
        assert all("dsl rule" in row["_reason"] for row in found["failed"])
    pack_state(calls.bolt.state, calls.bolt.state_types)


@pytest.mark.parametrize(
    ("make", "sent"),
    [
        (lambda: 5, b"5"),
        (lambda: Text("x"), b"x"),
        (lambda: "\ud800", None),
        (lambda: HUGE, None),
        (changed_header, b"\\xff"),
    ],
)
def test_a_header_that_is_set_and_passed_through_is_checked(make: Callable[[], Any], sent: bytes | None) -> None:
    calls = Calls(Rule("dsl", __name__, "aggregate"))
    GIVEN[:] = [PASSTHROUGH, make(), {}]
    found = calls(message(b"1"))
    if sent is None:
        assert "headers of event 0['h'] is" in found["failed"][0]["_reason"]
    else:
        assert found["default"][0]["headers"] == [{"key": "h", "value": sent}]


def _asked(event: Event) -> Any:
    return ODD[event.value["n"]]()


def key(event: Event) -> Any:
    return _asked(event) if GIVEN[0] == "key" else event.value["n"]


def trigger(event: Event, call: TriggerCall) -> Any:
    if GIVEN[0] == "cache":
        call.cache = _asked(event)
    if GIVEN[0] == "within":
        call.cache["a"] = _asked(event)
    return _asked(event) if GIVEN[0] == "trigger" else FireResult.CONTINUE


def time(event: Event) -> Any:
    return _asked(event)


def all_of_them(events: list[Event], call: Aggregation) -> Any:
    return [Out(event.value, call.key) for event in events]


CLASSPATH = {
    "key": '{{type: dsl, path: "{0}:key"}}',
    "trigger": '{{type: dsl, path: "{0}:trigger", timeout: 5 minutes}}',
    "dsl": '{{path: "{0}:all_of_them"}}',
}


@pytest.mark.parametrize("by", ["key", "trigger", "cache", "within", "time"])
def test_what_keys_and_triggers_give_keeps_each_message_once(tmp_path: Path, by: str) -> None:
    """Each message of a run gives another odd thing; two runs on a checkpoint, so that what is kept is read again."""
    GIVEN[:] = [by]
    (tmp_path / "step.conf").write_text(STEP)
    assignments = {name: text.format(__name__) for name, text in CLASSPATH.items()}
    if by == "time":
        assignments["trigger"] = f'{{type: timeFromEvent, path: "{__name__}:time", timePattern: "HH:mm"}}'
    step = load_step(tmp_path / "step.conf", assignments={**assignments, "parallelism": "1"})
    numbers = range(len(ODD))
    for run, kept_open in enumerate((True, False)):
        (tmp_path / "in").mkdir(exist_ok=True)
        lines = [json.dumps({"value": {"n": number, "run": run}}) for number in numbers]
        (tmp_path / "in" / f"{run}.jsonl").write_text("\n".join(lines))
        run_local(step_topology(step), RunOptions(checkpoint=str(tmp_path / "ck"), keep_open=kept_open))
    purged = {number for number in numbers if by == "trigger" and ODD[number] is purge}
    expected = {(number, run) for number in numbers for run in (0, 1) if number not in purged}
    assert {*_values(tmp_path, "totals"), *_values(tmp_path, "dead")} == expected


def _values(folder: Path, topic: str) -> list[tuple[int, int]]:
    lines = [line for file in sorted((folder / "out" / topic).glob("*.jsonl")) for line in file.open(encoding="utf-8")]
    values: list[Mapping[str, Any]] = [json.loads(json.loads(line)["value"]) for line in lines]
    return [(value["n"], value["run"]) for value in values]
