"""Rules of the aggregation step: what they may return, how they are found, sent, and told where they fail."""

from __future__ import annotations

import itertools
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers.places import ROOT
from topologies.step import (
    DECLINE,
    PASSTHROUGH,
    Aggregation,
    Event,
    FireResult,
    NamedRule,
    Out,
    Rule,
    RuleError,
    TriggerCall,
    load_rule,
)
from topologies.step.rule_values import as_key, as_outputs, as_time
from windowing import ConfigError
from windowing.daytimes import DayTime, DayTimePattern

Write = Callable[..., Rule]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a rule into a file, and loads it."""

    def written(kind: Any, text: str, name: str = "rules.py", **settings: Any) -> Rule:
        file = tmp_path / name.partition(":")[0]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return load_rule(NamedRule(kind, "file", name, roots=[tmp_path], **settings))

    return written


# ---- a rule, and a test of it, as users write them


def key(event: Event) -> str:
    return f"{event.topic}|{event.value['id']}"


def trigger(event: Event, call: TriggerCall) -> str:
    call.cache["n"] = call.cache.get("n", 0) + 1
    return FireResult.FIRE_AND_PURGE if event.value.get("last") else FireResult.CONTINUE


def aggregate(events: list[Event], call: Aggregation) -> Out:
    return Out({"id": call.key, "n": len(events)}, key=call.key, headers={"kind": "sum"})


@pytest.mark.feature("UH-9", "UH-16", "UH-19", "UH-29")
def test_rules_are_tested_as_the_functions_they_are() -> None:
    assert key(Event({"id": "42"}, topic="orders")) == "orders|42"
    call = TriggerCall()
    assert trigger(Event({}), call) == "continue"
    assert trigger(Event({"last": True}), call) == "fireAndPurge"
    assert call.cache == {"n": 2}
    assert aggregate([Event(1), Event(2)], Aggregation(key="k")).value == {"id": "k", "n": 2}


def test_an_event_is_short_to_make_and_cannot_be_changed() -> None:
    event: Any = Event("text")
    assert (event.value, event.topic, event.key, dict(event.headers)) == ("text", "", None, {})
    with pytest.raises(AttributeError):
        event.value = 2
    assert pickle.loads(pickle.dumps(event)) == event


# ---- what they return


@pytest.mark.feature("UH-8")
@pytest.mark.parametrize(("returned", "expected"), [("42", "42"), (42, "42"), (-1, "-1"), ("", ""), ("é", "é")])
def test_a_key_is_a_text_or_a_whole_number(returned: Any, expected: str) -> None:
    assert as_key(returned) == expected
    assert type(as_key(np.int64(7))) is str


@pytest.mark.feature("UH-8")
@pytest.mark.parametrize("returned", [None, 1.0, True, b"k", ["k"], {"k": 1}, "\ud800", float("nan")])
def test_anything_else_is_no_key(returned: Any) -> None:
    with pytest.raises(RuleError, match="key"):
        as_key(returned)


@pytest.mark.feature("UH-23")
def test_a_time_is_a_text_of_the_pattern() -> None:
    assert as_time("18:00:00", DayTimePattern("HH:mm:ss")) == DayTime(18 * 3_600_000_000)
    for returned in (None, 18, "18:00", "25:00:00"):
        with pytest.raises(RuleError, match="the time rule returned"):
            as_time(returned, DayTimePattern("HH:mm:ss"))


EVENTS = [Event(1, "a", "k1", {"h": "1"}), Event(2, "a", None, {})]


def outs(returned: Any, *, out: Any = None, headers: Any = None) -> list[Out]:
    return as_outputs(returned, Aggregation(out=out, headers=headers), EVENTS).outs


def generated(*values: Any, end: Any = None) -> Iterator[Any]:
    yield from values
    return end


@pytest.mark.feature("UH-24")
@pytest.mark.parametrize(
    ("returned", "expected"),
    [
        ({"n": 1}, [Out({"n": 1})]),
        (5, [Out(5)]),
        (0, [Out(0)]),
        (False, [Out(False)]),
        (Out("text"), [Out("text")]),
        (Out(None, key="k"), [Out(None, key="k")]),
        ([1, Out(2, topic="t")], [Out(1), Out(2, topic="t")]),
        (["text"], [Out("text")]),
        ((1, 2), [Out(1), Out(2)]),
        ([], []),
        (Out([1, 2]), [Out([1, 2])]),
        ([[1, 2]], [Out([1, 2])]),
        (np.arange(2), None),
        (map(abs, [-1]), [Out(1)]),
        (Out(1, key=7), [Out(1, key="7")]),  # type: ignore[arg-type]
        (Out(1, headers=None), [Out(1, headers={})]),
        (Out(1, headers={"n": 3}), [Out(1, headers={"n": "3"})]),  # type: ignore[dict-item]
    ],
)
def test_what_is_returned_goes_out(returned: Any, expected: list[Out]) -> None:
    assert outs(returned) == expected if expected is not None else len(outs(returned)) == 1


def test_a_generator_is_collected_and_its_status_goes_first() -> None:
    assert outs(generated(1, 2)) == [Out(1), Out(2)]
    assert outs(generated(1, end="done")) == [Out(1)]
    assert outs(generated(1, end=DECLINE)) == []
    assert outs(generated(1, end=PASSTHROUGH)) == outs(PASSTHROUGH)
    assert outs(generated(), out=5) == [Out(5)]
    assert outs(generated(end={"n": 1})) == [Out({"n": 1})]
    with pytest.raises(RuleError, match="yields events and also returns"):
        outs(generated(1, end=2))


@pytest.mark.parametrize("way", [lambda given: given, itertools.chain], ids=["generator", "iterator"])
def test_a_dict_that_is_filled_anew_goes_out_as_it_was_yielded(way: Any) -> None:
    """As from a bolt."""
    row, headers = dict[str, Any](of=[]), dict[str, Any]()

    def numbered() -> Iterator[Any]:
        for number in range(2):
            row["n"] = number
            row["of"].append(number)
            headers["n"] = str(number)
            yield row
            yield Out(row, headers=headers)

    first, second = {"n": 0, "of": [0]}, {"n": 1, "of": [0, 1]}
    assert outs(way(numbered())) == [
        Out(first),
        Out(first, headers={"n": "0"}),
        Out(second),
        Out(second, headers={"n": "1"}),
    ]


@pytest.mark.feature("UH-28")
@pytest.mark.parametrize("status", [None, "x", "stop", ""])
def test_another_status_emits_what_has_been_filled_so_far(status: Any) -> None:
    assert outs(status, out=5, headers={"TargetKey": "k"}) == [Out(5, key="k")]
    assert outs(status, out=[1, 2]) == [Out(1), Out(2)]
    assert outs(status, out="text") == [Out("text")]
    assert outs(status) == []
    assert outs(status, headers={"TargetKey": "k"}) == []


@pytest.mark.feature("UH-26")
def test_decline_emits_nothing() -> None:
    assert outs(DECLINE, out=5, headers="nonsense") == []


@pytest.mark.feature("UH-27")
def test_passthrough_lets_the_events_go_on() -> None:
    found = as_outputs(PASSTHROUGH, Aggregation(out=5), EVENTS)
    assert found.unchanged
    assert found.outs == [Out(1, "k1", {"h": "1"}), Out(2, None, {})]
    assert outs(PASSTHROUGH, headers={"TargetTopic": "t", "kafka": {"x": "y"}}) == [
        Out(1, "k1", {"h": "1", "x": "y"}, topic="t"),
        Out(2, None, {"x": "y"}, topic="t"),
    ]
    assert outs(PASSTHROUGH, headers=[{"TargetKey": "k"}, {"BranchName": "b", "kafka": {"h": 2}}]) == [
        Out(1, "k", {"h": "1"}),
        Out(2, None, {"h": "2"}, branch="b"),
    ]
    with pytest.raises(RuleError, match="each event has its own"):
        outs(PASSTHROUGH, headers=[{}])


@pytest.mark.feature("UH-25")
def test_headers_say_where_events_go() -> None:
    every = {"TargetTopic": "t", "TargetKey": 7, "kafka": {"a": "b"}, "BranchName": "alerts"}
    assert outs(1, headers=every) == [Out(1, "7", {"a": "b"}, "t", "alerts")]
    assert outs([1], headers=every) == outs(1, headers=every) == outs(1, headers=[every])
    assert outs([1, 2], headers=[{"TargetTopic": "a"}, {"TargetTopic": "b"}]) == [
        Out(1, topic="a"),
        Out(2, topic="b"),
    ]
    assert outs([1, 2], headers=[None, {"TargetTopic": None}]) == [Out(1), Out(2)]
    # What an Out says itself goes first.
    assert outs(Out(1, key="own", headers={"a": "own"}), headers=every) == [Out(1, "own", {"a": "own"}, "t", "alerts")]


@pytest.mark.feature("UH-25")
@pytest.mark.parametrize(
    ("returned", "headers", "what"),
    [
        ([1, 2], [{}], "HEADERS has 1 elements, and there are 2 events"),
        ([1, 2], {}, "HEADERS is one dict, and there are 2 events"),
        (1, [{}, {}], "HEADERS has 2 elements"),
        ([], [{}], "HEADERS has 1 elements"),
        (1, {"kafka": {"headers": {"a": "b"}}}, "not nested"),
        (1, {"kafka": {"a": ["b"]}}, "not nested"),
        (1, {"kafka": "a"}, "dict of texts"),
        (1, {"kafka": {1: "a"}}, "has the name 1"),
        (1, {"kafka": {"a": 1.5}}, "must be a text or a whole number"),
        (1, {"Topic": "a"}, "HEADERS has 'Topic'. use TargetTopic, TargetKey, kafka and BranchName"),
        (1, {"TargetTopic": ""}, "TargetTopic is ''"),
        (1, {"TargetTopic": 3}, "TargetTopic is 3"),
        (1, {"BranchName": ["a"]}, "BranchName is"),
        (1, {"TargetKey": 1.5}, "TargetKey is 1.5"),
        (1, "TargetTopic", "HEADERS is 'TargetTopic'"),
        (1, [3], "HEADERS holds 3"),
        (1, 3, "HEADERS is 3"),
    ],
)
def test_headers_that_do_not_fit(returned: Any, headers: Any, what: str) -> None:
    with pytest.raises(RuleError) as caught:
        outs(returned, headers=headers)
    assert what in str(caught.value)


@pytest.mark.parametrize(
    ("returned", "what"),
    [
        ([1, None], "None is among the events"),
        ([generated(1)], "cannot be the value"),
        ({1, 2}, "cannot be the value"),
        (Out(Out(1)), "cannot be the value"),
        (Out(1, topic=3), "topic is 3"),  # type: ignore[arg-type]
        (Out(1, branch=""), "branch is ''"),
        (Out(1, key=b"k"), "key is b'k'"),  # type: ignore[arg-type]
        (Out(1, headers={"a": {"b": "c"}}), "not nested"),  # type: ignore[dict-item]
    ],
)
def test_what_cannot_be_an_event(returned: Any, what: str) -> None:
    with pytest.raises(RuleError) as caught:
        outs(returned)
    assert what in str(caught.value)


def test_to_fill_and_to_return_is_one_too_many() -> None:
    with pytest.raises(RuleError, match="do only one of the two"):
        outs({"n": 1}, out=5)


# ---- finding them


@pytest.mark.feature("UH-8")
@pytest.mark.parametrize(
    ("kind", "text", "arguments", "expected"),
    [
        ("key", "def key(event):\n    return event.value", (Event("k"),), "k"),
        ("trigger", "def trigger(event, call): return 'fire'", (Event(1), TriggerCall()), "fire"),
        ("time", "def time(event): return '18:00:00'", (Event(1),), "18:00:00"),
        ("dsl", "def aggregate(events, call): return len(events)", ([Event(1)], Aggregation()), 1),
        ("dsl", "def aggregate(events, call): yield len(events)", ([Event(1)], Aggregation()), [1]),
        ("key", "import json\ndef my_own(event): return 'k'\ndef _help(): ...", (Event(1),), "k"),
        ("key", "def other(event): ...\ndef key(event): return 'k'", (Event(1),), "k"),
        ("key", "key = lambda event: 'k'", (Event(1),), "k"),
        ("key", "key = 'id'\ndef mine(event): return key", (Event(1),), "id"),
        ("key", "import functools\nkey = functools.partial(max, 'k')", (Event(1),), None),
        ("key", "def key(event, more=1): return more", (Event(1),), 1),
        ("key", "def key(*events): return 'k'", (Event(1),), "k"),
    ],
)
def test_the_function_is_found(write: Write, kind: str, text: str, arguments: Any, expected: Any) -> None:
    rule = write(kind, text)
    if expected is not None:
        assert rule(*arguments) == expected


def test_another_function_is_named_after_a_colon(write: Write) -> None:
    text = "def a(event): return 'a'\ndef b(event): return 'b'"
    assert write("key", text, "rules.py:b")(Event(1)) == "b"
    assert str(write("key", text, "rules.py:b")).endswith("rules.py:b")


@pytest.mark.parametrize(
    ("kind", "text", "name", "what"),
    [
        ("key", "def a(event): ...\ndef b(event): ...", "rules.py", "no function 'key'. its functions are a, b"),
        ("key", "def a(event): ...", "rules.py:b", "no function 'b'. its functions are a."),
        ("key", "x = 1", "rules.py", "no public functions"),
        ("key", "def key(): ...", "rules.py", "line 1: 'key' cannot be the key rule. it has the parameters ()"),
        ("dsl", "\ndef aggregate(events): ...", "rules.py", "line 2: 'aggregate' cannot be the dsl rule"),
        ("trigger", "def trigger(a, b, c): ...", "rules.py", "write def trigger(event, call)"),
        ("dsl", "def total(a, b, c): ...", "rules.py", "write def total(events, call)"),
        ("key", "async def key(event): ...", "rules.py", "it is async"),
        ("key", "def key(event): yield 1", "rules.py", "it yields"),
        ("key", "class key: ...", "rules.py", "not a function of Python"),
        ("key", "key = 3\nx = 1", "rules.py:x", "not a function of Python"),
        ("key", "from os import system as key", "rules.py", "not a function of Python"),
        ("key", "def key(event):\n    return (", "rules.py", "rules.py, line 2: this is not valid Python. SyntaxError"),
        (
            "key",
            "def key(event):\n  return 1\n return 2",
            "rules.py",
            "line 3: this is not valid Python. IndentationError",
        ),
        ("key", "x = 1\ny = 1 / 0", "rules.py", "line 2: the rules cannot be loaded. ZeroDivisionError"),
        ("key", "\nimport no_such_thing", "rules.py", "line 2: the rules cannot be loaded. ModuleNotFoundError"),
        ("key", "raise SystemExit(3)", "rules.py", "line 1: the rules cannot be loaded. SystemExit: 3"),
        ("key", "# coding: nonsense\n", "rules.py", "cannot be read"),
    ],
)
def test_a_file_that_is_no_rule_says_why(write: Write, kind: Any, text: str, name: str, what: str) -> None:
    with pytest.raises(ConfigError) as caught:
        write(kind, text, name)
    assert what in str(caught.value)


def test_a_file_that_is_not_there_or_in_another_language(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"there is no key rule 'a.py'. looked for .*a\.py"):
        load_rule(NamedRule("key", "file", "a.py", roots=[tmp_path]))
    (tmp_path / "a.tr").write_text("return(IN.id)")
    with pytest.raises(ConfigError, match=r"original's language .* into a\.py beside it"):
        load_rule(NamedRule("key", "file", "a.tr", roots=[tmp_path]))
    (tmp_path / "a.py").write_text("def key(event): return 'k'")
    assert load_rule(NamedRule("key", "file", "a.tr", roots=[tmp_path]))(Event(1)) == "k"
    assert load_rule(NamedRule("key", "file", str(tmp_path / "a.py")))(Event(1)) == "k"


def test_a_path_of_the_classpath_is_below_its_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        (folder / "testDsl").mkdir(parents=True)
        (folder / "testDsl" / "key.py").write_text(f"def key(event): return {folder.name!r}")
    (second / "testDsl" / "two.py").write_text("def key(event): return 'two'")
    (tmp_path / "above.py").write_text("def key(event): return 'above'")
    (first / "link.py").symlink_to(tmp_path / "above.py")
    monkeypatch.setattr(sys, "path", [*sys.path, str(second)])

    def found(path: str) -> Any:
        return load_rule(NamedRule("key", "classpath", path, roots=[first], allow_files=False))(Event(1))

    assert found("testDsl/key.tr") == found("/testDsl/key.tr") == found("testDsl/key.py:key") == "first"
    assert found("testDsl/two.tr") == "two"
    for path in ("../above.py", "/testDsl/../../above.py", "testDsl/..\\..\\above.py"):
        with pytest.raises(ConfigError, match="leads out of the classpath"):
            found(path)
    with pytest.raises(ConfigError, match="a link that leads out"):
        found("link.py")
    with pytest.raises(ConfigError, match="there is no key rule"):
        found(str(tmp_path / "above.py"))
    with pytest.raises(ConfigError, match="not allowed here"):
        load_rule(NamedRule("key", "file", "testDsl/key.py", roots=[first], allow_files=False))


def test_a_function_of_a_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "rules_in_a_package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "orders.py").write_text("def by_id(event):\n    return event.value['id']\n")
    monkeypatch.syspath_prepend(tmp_path)
    rule = load_rule(NamedRule("key", "classpath", "rules_in_a_package.orders:by_id"))
    assert rule(Event({"id": "42"})) == "42"
    assert load_rule(NamedRule("key", "classpath", "rules_in_a_package.orders")) == rule
    with pytest.raises(RuleError, match=r"^key rule rules_in_a_package.orders:by_id, line 2: KeyError: 'id'\.?$"):
        pickle.loads(pickle.dumps(rule))(Event({}))
    with pytest.raises(ConfigError, match="cannot be imported"):
        load_rule(NamedRule("key", "classpath", "rules_in_a_package.nothing:by_id"))
    with pytest.raises(ConfigError, match="not a function of Python"):
        load_rule(NamedRule("key", "classpath", "os:system"))


@pytest.mark.parametrize(
    ("kind", "source", "path"),
    [("nothing", "file", "a.py"), ("key", "http", "a.py"), ("key", "file", ""), ("key", "file", "a\0.py")],
)
def test_what_names_no_rule(kind: Any, source: str, path: str) -> None:
    with pytest.raises(ConfigError):
        load_rule(NamedRule(kind, source, path))


@pytest.mark.parametrize("limit", [0, -1, True, float("inf"), float("nan"), "5"])
def test_a_limit_is_above_zero_and_ends(write: Write, limit: Any) -> None:
    with pytest.raises(ConfigError, match="limit_seconds"):
        write("key", "def key(event): ...", limit_seconds=limit)


def test_a_file_may_import_its_neighbours_and_hides_no_module(write: Write, tmp_path: Path) -> None:
    (tmp_path / "neighbour_of_rules.py").write_text("NAME = 'n'")
    (tmp_path / "json.py").write_text("raise SystemError('hides json')")
    rule = write("key", "import json, neighbour_of_rules\ndef key(event): return neighbour_of_rules.NAME")
    assert rule(Event(1)) == "n"


def test_a_changed_file_is_another_rule(write: Write) -> None:
    first = write("key", "def key(event): return 1")
    second = write("key", "def key(event): return 2")
    assert (first(Event(0)), second(Event(0))) == (1, 2)


def test_a_file_may_define_dataclasses(write: Write) -> None:
    text = (
        "from __future__ import annotations\nfrom dataclasses import dataclass\n@dataclass\nclass A:\n    b: int = 1\n"
    )
    assert write("key", f"{text}def key(event): return A().b")(Event(0)) == 1


def test_rules_of_one_file_share_its_variables(write: Write) -> None:
    text = "seen = []\ndef key(event): seen.append(1); return 'k'\ndef time(event): return len(seen)"
    write("key", text)(Event(0))
    assert write("time", text)(Event(0)) == 1


# ---- sending them


def test_a_rule_runs_where_its_file_is_not(write: Write, tmp_path: Path) -> None:
    rule = write("dsl", "def aggregate(events, call):\n    total = 0\n    yield sum(events) / call.count\n")
    os.remove(tmp_path / "rules.py")
    (tmp_path / "rule").write_bytes(pickle.dumps(rule))
    code = f"""
import pickle, sys, traceback
from topologies.step import Aggregation, RuleError
rule = pickle.loads(open({str(tmp_path / "rule")!r}, "rb").read())
print(rule([1, 2], Aggregation(count=2)))
try:
    rule([1, 2], Aggregation())
except RuleError as error:
    print(error)
    traceback.print_exc(file=sys.stdout)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT, timeout=300
    ).stdout.splitlines()
    assert done[0] == "[1.5]"
    assert done[1].rstrip(".") == f"dsl rule {tmp_path}/rules.py:aggregate, line 3: ZeroDivisionError: division by zero"
    assert "    yield sum(events) / call.count" in done


# ---- failing

BODIES = [
    ("raise ValueError('two\\n  lines')", "ValueError: two lines"),
    ("return event.value['id']", "KeyError: 'id'"),
    ("raise SystemExit", "SystemExit"),
    ("raise GeneratorExit('no')", "GeneratorExit: no"),
    ("raise MemoryError", "MemoryError"),
    ("return key(event)", "RecursionError: maximum recursion depth exceeded"),
    ("return [0] * (1 << 62)", "MemoryError"),
    ("raise type('Odd', (Exception,), {'__str__': lambda self: 1})", "Odd: its text fails as well"),
    ("raise ValueError('x' * 10_000)", "ValueError: xxx"),
]


@pytest.mark.feature("UH-31")
@pytest.mark.parametrize(("body", "what"), BODIES)
def test_whatever_it_raises_is_told_with_its_line(write: Write, tmp_path: Path, body: str, what: str) -> None:
    rule = write("key", f"# a rule\ndef key(event):\n    pass\n    {body}\n")
    with pytest.raises(RuleError) as caught:
        rule(Event({}))
    text = str(caught.value)
    assert text.startswith(f"key rule {tmp_path}/rules.py:key, line 4: {what}")
    assert "\n" not in text
    assert len(text) < 500 + len(str(tmp_path))


def test_the_line_is_that_of_the_rules_file_also_for_errors_of_libraries(write: Write) -> None:
    rule = write(
        "key", "import json\ndef key(event):\n    return inner(\n        event)\ndef inner(e):\n    json.loads(e)\n"
    )
    with pytest.raises(RuleError, match="line 6: TypeError"):
        rule(Event(1))


def test_wrong_arguments_are_the_rules_error_too(write: Write) -> None:
    with pytest.raises(RuleError, match="TypeError"):
        write("key", "def key(event): ...")()


def test_an_interrupt_from_the_keyboard_goes_through(write: Write) -> None:
    with pytest.raises(KeyboardInterrupt):
        write("key", "def key(event): raise KeyboardInterrupt")(Event(1))


def test_a_generator_fails_with_the_line_it_is_on(write: Write) -> None:
    rule = write("dsl", "def aggregate(events, call):\n    yield 1\n    raise ValueError('x')\n")
    with pytest.raises(RuleError, match="line 3: ValueError: x"):
        rule([], Aggregation())


def test_out_may_be_a_generator(write: Write) -> None:
    call = Aggregation()
    write("dsl", "def aggregate(events, call):\n    call.out = (e * 2 for e in events)\n")([1, 2], call)
    assert call.out == [2, 4]


def test_a_function_that_is_gone_elsewhere_is_a_mistake_of_the_set_up() -> None:
    with pytest.raises(ConfigError, match="install its module wherever"):
        Rule("key", "no_such_module_at_all", "key")(Event(1))
    with pytest.raises(ConfigError, match="no 'nothing'"):
        Rule("key", "json", "nothing")(Event(1))
