"""The time limit of rules: loops are ended wherever they are, and nothing else ever is."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.places import ROOT
from topologies.engine.failures import TooLong, call
from topologies.step import Aggregation, Event, NamedRule, Rule, RuleError, load_rule

Write = Callable[..., Rule]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a rule with a short limit into a file, and loads it."""

    def written(kind: Any, text: str, limit: float = 0.05) -> Rule:
        (tmp_path / "rules.py").write_text(text, encoding="utf-8")
        return load_rule(NamedRule(kind, "file", "rules.py", roots=[tmp_path], limit_seconds=limit))

    return written


def lasted(function: Callable[[], Any]) -> float:
    start = time.monotonic()
    with pytest.raises(RuleError, match=r"it took more than 0\.05 s"):
        function()
    return time.monotonic() - start


LOOPS = {
    "nothing": "while True: pass",
    "exceptions": "while True:\n        try: len('')\n        except Exception: pass",
    "at last": "while True:\n        try: time.sleep(0.001)\n        finally: continue",
}
SWALLOWING = {
    "everything": "while True:\n        try: len('')\n        except BaseException: pass",
    "calls into C": "while True:\n        try: time.sleep(0.001)\n        except BaseException: pass",
    "a bare except": "while True:\n        try:\n            for _ in range(100): len('')\n        except: pass",
    "twice": "while True:\n        try:\n            while True:\n                try: time.sleep(0.001)\n"
    "                except BaseException: len('')\n        except BaseException: len('')",
    "suppress": "while True:\n        with contextlib.suppress(BaseException): time.sleep(0.001)",
    "elsewhere": "while True:\n        swallow()",
}
HELP = "import contextlib, time\ndef swallow():\n    try: sum(range(1000))\n    except BaseException: pass\n"


@pytest.mark.parametrize("body", LOOPS.values(), ids=LOOPS)
def test_a_loop_is_ended(write: Write, body: str) -> None:
    rule = write("key", f"{HELP}def key(event):\n    {body}\n")
    assert lasted(lambda: rule(Event(1))) < 5


@pytest.mark.skipif(sys.version_info[:2] == (3, 12), reason="takes the jump after a handler for a part of the try")
@pytest.mark.parametrize("body", SWALLOWING.values(), ids=SWALLOWING)
def test_a_loop_is_ended_whatever_it_swallows(write: Write, body: str) -> None:
    rule = write("key", f"{HELP}def key(event):\n    {body}\n")
    assert lasted(lambda: rule(Event(1))) < 5


def test_the_line_of_the_loop_is_told(write: Write) -> None:
    rule = write("key", "def key(event):\n    x = 1\n    while True:\n        x += 1\n")
    with pytest.raises(RuleError, match=r"rules\.py:key, line [34]: it took more than 0\.05 s\. fix its loop"):
        rule(Event(1))


def test_a_generator_is_under_the_limit_as_well(write: Write) -> None:
    rule = write("dsl", "def aggregate(events, call):\n    yield 1\n    while True:\n        pass\n")
    with pytest.raises(RuleError, match=r"line [34]: it took"):
        rule([], Aggregation())
    rule = write(
        "dsl", "import itertools\ndef aggregate(events, call):\n    call.out = (1 for _ in itertools.count() if 0)\n"
    )
    with pytest.raises(RuleError, match="line 3: it took"):
        rule([], Aggregation())


def test_a_text_of_an_error_is_under_it_too(write: Write) -> None:
    text = "class Odd(Exception):\n    def __str__(self):\n        while True: pass\ndef key(event): raise Odd\n"
    with pytest.raises(RuleError, match="line 4: Odd"):
        write("key", text)(Event(1))


def test_a_function_may_put_things_in_order(write: Write) -> None:
    loop = "x = 1\n        while True: x += 1\n"
    text = f"def key(event):\n    try:\n        {loop}    finally:\n        event.value.append(1)\n"
    seen: list[int] = []
    assert lasted(lambda: write("key", text)(Event(seen))) < 5
    assert seen == [1]


def test_a_rule_that_is_quick_enough_is_left_alone(write: Write) -> None:
    rule = write("key", "import time\ndef key(event): time.sleep(0.01); return 'k'", limit=30)
    assert rule(Event(1)) == "k"


def test_a_call_into_c_is_interrupted_when_it_returns(write: Write) -> None:
    rule = write("key", "import time\ndef key(event):\n    time.sleep(0.3)\n    return 'k'\n")
    with pytest.raises(RuleError, match="line 3: it took"):
        rule(Event(1))


def test_calls_within_calls_are_under_the_outer_limit(write: Write) -> None:
    inner = write("key", "def key(event):\n    while True: pass", limit=60)
    start = time.monotonic()
    with pytest.raises(TooLong):
        call(lambda: inner(Event(1)), (), 0.05)
    assert time.monotonic() - start < 5


def test_every_thread_has_its_own_limit(write: Write) -> None:
    slow = write("key", "def key(event):\n    while True: pass")
    quick = write("key", "def key(event): return sum(range(100))")
    failed: list[RuleError] = []
    done: list[Any] = []

    def loops() -> None:
        try:
            slow(Event(1))
        except RuleError as error:
            failed.append(error)

    def works() -> None:
        done.extend(quick(Event(1)) for _ in range(2_000))

    threads = [threading.Thread(target=target) for target in (loops, works, loops, works)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert (len(failed), len(done)) == (2, 4_000)


def test_nothing_is_ever_raised_outside_of_a_call() -> None:
    """Calls that end about when they are due, in threads that would notice a shot that comes late."""
    limit, rounds = 0.004, 150
    stray: list[BaseException] = []
    ends = {"in time": 0, "too late": 0}

    def work(until: float) -> int:
        count = 0
        while time.monotonic() < until:
            count += 1
        return count

    def swallowing(until: float) -> int:
        while time.monotonic() < until:
            try:
                work(until)
            except BaseException:
                len("")
        return 1

    def caller(number: int) -> None:
        try:
            for at in range(rounds):
                target = swallowing if at % 4 == 0 else work
                until = time.monotonic() + limit * (0.7 + 0.8 * ((at * 7 + number) % 20) / 20)
                try:
                    call(target, (until,), limit)
                    ends["in time"] += 1
                except TooLong:
                    ends["too late"] += 1
                for _ in range(200):
                    len("")
        except BaseException as error:
            stray.append(error)

    threads = [threading.Thread(target=caller, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert stray == []
    assert all(ends.values())


def test_a_forked_process_has_a_watchdog_of_its_own() -> None:
    code = """
import os, sys
from topologies.engine.failures import TooLong, call
def loop():
    while True: pass
def ended():
    try: call(loop, (), 0.05)
    except TooLong: return True
assert ended()
children = []
for _ in range(3):
    child = os.fork()
    if child == 0:
        os._exit(7 if ended() and ended() else 1)
    children.append(child)
print([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children], ended())
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=300, check=True
    )
    assert done.stdout.strip() == "[7, 7, 7] True"


def test_no_thread_is_started_before_the_first_call() -> None:
    code = "import threading, topologies.step; print(threading.active_count())"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=300, check=True
    )
    assert done.stdout.strip() == "1"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_process_ends_though_its_watchdog_watches() -> None:
    code = "from topologies.engine.failures import call; print(call(len, ('abc',), 5))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=300, check=True
    )
    assert done.stdout.strip() == "3"


def test_functions_can_be_traced_once_a_rule_was_ended() -> None:
    """CPython 3.11 begins no traced function while it believes that an exception is on its way to a thread."""
    code = """
import sys
from topologies.engine.failures import TooLong, call
def loop():
    while True: pass
def quick(): return len(lines)
def trace(frame, event, argument):
    lines.append(event)
    return trace
lines = []
try: call(loop, (), 0.05)
except TooLong: pass
sys.settrace(trace)
found = call(quick, (), 5)
sys.settrace(None)
print(found > 0, lines[0])
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=300, check=True
    )
    assert done.stdout.strip() == "True call"
