"""A plugin for pytest that runs, for each planted defect, the tests that reach it, until one of them fails.

The tests are collected once. For each defect the process is forked, so that nothing of a defect stays for the next.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import time
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.mutation import switch
from tests.mutation.sites import SWITCH

PLAN = "WINDBOLT_MUTANTS_PLAN"
"""Names the environment variable with the file that says what to do: see ``Plan``."""
SECONDS = "WINDBOLT_MUTANTS_SECONDS"
"""Names the environment variable with the file for how long each test took."""
ENDS = ("survived", "given up")
"""What becomes of a defect that no test finds: all of them ran, or they would have taken too long."""
FIRST_OF_A_FILE = 3
"""Tests of each file that run before the others: most defects are found by many tests."""


class Plan:
    """Which defects to look for, by which tests, and where to write what became of them."""

    def __init__(self, path: Path) -> None:
        told = json.loads(path.read_text("utf-8"))
        self.reaching: dict[int, list[str]] = {int(number): tests for number, tests in told["reaching"].items()}
        self.seconds: dict[str, float] = told["seconds"]
        self.results = Path(told["results"])
        self.share, self.shares = int(told["share"]), int(told["shares"])
        self.longest = float(told["longest"])


class Durations:
    """Writes how long each test took that passed, for the plan."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.taken: dict[str, float] = defaultdict(float)
        self.failed: set[str] = set()

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.taken[report.nodeid] += report.duration
        if report.failed:
            self.failed.add(report.nodeid)

    @pytest.hookimpl
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if not hasattr(session.config, "workerinput"):
            passed = {test: seconds for test, seconds in self.taken.items() if test not in self.failed}
            self.path.write_text(json.dumps({"seconds": passed, "failed": sorted(self.failed)}), "utf-8")


@pytest.hookimpl
def pytest_configure(config: pytest.Config) -> None:
    if SECONDS in os.environ:
        config.pluginmanager.register(Durations(Path(os.environ[SECONDS])))


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    if PLAN not in os.environ:
        return None
    plan = Plan(Path(os.environ[PLAN]))
    items = {item.nodeid: item for item in session.items}
    for at, (number, tests) in enumerate(plan.reaching.items()):
        if at % plan.shares == plan.share:
            chosen = [items[test] for test in in_good_order(tests, plan.seconds) if test in items]
            result = _hunted(number, chosen, plan)
            with plan.results.open("a", encoding="utf-8") as file:
                file.write(json.dumps(result) + "\n")
    return True


def in_good_order(tests: list[str], seconds: dict[str, float]) -> list[str]:
    """Sorts tests: the shortest of each file first, then whole files, those that take least first."""
    files: dict[str, list[str]] = defaultdict(list)
    for test in sorted(tests, key=lambda test: seconds.get(test, 0.0)):
        files[test.partition("::")[0]].append(test)
    quick = [test for found in files.values() for test in found[:FIRST_OF_A_FILE] if seconds.get(test, 0.0) < 1]
    whole = sorted(files.values(), key=lambda found: sum(seconds.get(test, 0.0) for test in found))
    return list(dict.fromkeys([*quick, *(test for found in whole for test in found)]))


def _hunted(number: int, items: list[pytest.Item], plan: Plan) -> dict[str, Any]:
    """Runs tests with a defect in a process of their own; returns which test found it."""
    begun = time.monotonic()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()
        os.close(read)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)  # a test that does not end ends the process
        vars(importlib.import_module(SWITCH))["active"] = number
        os.environ[switch.ACTIVE] = str(number)
        try:
            _run(items, plan, write)
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, encoding="utf-8") as told:
        lines = told.read().splitlines()
    _, status = os.waitpid(child, 0)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # whatever the tests have started
    last = lines[-1] if lines else "survived"  # no test reaches it
    found = None if last in ENDS else last
    how = last if last in ENDS else "hung" if os.WIFSIGNALED(status) else "killed"
    return {"mutant": number, "how": how, "by": found, "tests": len(items), "seconds": time.monotonic() - begun}


def _run(items: list[pytest.Item], plan: Plan, write: int) -> None:
    begun, null = time.monotonic(), os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(null, stream)
    for at, item in enumerate(items):
        if time.monotonic() - begun > plan.longest:
            os.write(write, b"given up\n")
            return
        os.write(write, f"{item.nodeid}\n".encode())
        signal.setitimer(signal.ITIMER_REAL, 30 + 20 * plan.seconds.get(item.nodeid, 0.0))
        following = items[at + 1] if at + 1 < len(items) else None
        reports = _reports(item, following)
        if any(report.failed for report in reports):
            return
    os.write(write, b"survived\n")


def _reports(item: pytest.Item, following: pytest.Item | None) -> list[pytest.TestReport]:
    from _pytest.runner import runtestprotocol

    return runtestprotocol(item, log=False, nextitem=following)
