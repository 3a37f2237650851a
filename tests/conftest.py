"""Fixtures of all tests, and how much of the suite runs.

``--all`` runs everything; without it tests that are marked ``extended`` are left out, and properties of Hypothesis try
fewer examples. tests/README.md has the rule. ``--all --part 2/5`` runs a fifth of what ``--all`` adds.
"""

from __future__ import annotations

import gc
import os
import re
import tempfile
import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import is_hypothesis_test, settings

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from servers.s3 import S3

_MEMORY, _ROOM = "/dev/shm", 2 << 30


def _keep_in_memory() -> None:
    """Have temporary folders, of processes that tests start too, in memory where there is room (``TMPDIR`` decides
    otherwise): a run waits for the disk at each step, longer than it computes. What a disk loses is for the
    simulation, which has its own."""
    if "TMPDIR" in os.environ or not os.path.isdir(_MEMORY):
        return
    memory = os.statvfs(_MEMORY)
    if memory.f_bavail * memory.f_frsize >= _ROOM and not memory.f_flag & os.ST_NOEXEC:
        os.environ["TMPDIR"] = tempfile.tempdir = _MEMORY


_keep_in_memory()

pytest.register_assert_rewrite("tests.helpers")  # a failed assert there shows its values too

# No deadline: a busy machine is not a mistake of the code. The examples are the same in each run.
settings.register_profile("fast", deadline=None, derandomize=True, max_examples=20)
settings.register_profile("all", settings.get_profile("fast"), max_examples=30)
settings.register_profile("thorough", deadline=None, max_examples=2_000)  # drawn anew in each run
settings.load_profile("fast")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("how much runs")
    group.addoption("--all", action="store_true", help="everything, as before an issue is resolved")
    group.addoption("--part", metavar="I/N", help="of what --all adds, only the I-th of N parts")


def pytest_configure(config: pytest.Config) -> None:
    part = config.getoption("--part")
    if part and not re.fullmatch(r"[1-9]\d*/[1-9]\d*", part):
        raise pytest.UsageError(f"--part {part}: expected the number of a part and how many there are, such as 2/6")
    if (part or config.getoption("--all")) and not config.getoption("--hypothesis-profile", None):
        settings.load_profile("all")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Keep what was collected out of Python's garbage collection, which would look at 12,000 tests again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if part := config.getoption("--part"):
        at, _, count = part.partition("/")
        chosen = [item for item in items if _is_larger(item) and _part(item, int(count)) == int(at) - 1]
    elif config.getoption("--all"):
        return
    else:
        chosen = [item for item in items if not _is_extended(item)]
    kept = set(chosen)
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = chosen


def _is_larger(item: pytest.Item) -> bool:
    """True for a test that runs only with ``--all``, or tries more examples there."""
    return _is_extended(item) or is_hypothesis_test(getattr(item, "obj", None))


def _is_extended(item: pytest.Item) -> bool:
    """True for a test that runs only with ``--all``: it is marked, or a random scenario of Storm's, of which a third
    always runs."""
    random = item.path.suffix == ".jsonl" and item.name.startswith("rand-")
    return item.get_closest_marker("extended") is not None or (random and _part(item, 3) != 0)


def _part(item: pytest.Item, count: int) -> int:
    return zlib.crc32(item.nodeid.encode()) % count


@pytest.fixture(scope="session")
def object_store() -> Iterator[S3]:
    """An object store on this machine."""
    from servers.s3 import s3_server

    with s3_server() as running:
        yield running


@pytest.fixture(scope="module")
def store(object_store: S3) -> S3:
    """The object store, empty at the beginning of a file of tests."""
    object_store.clear()
    return object_store


@pytest.fixture
def empty_store(object_store: S3) -> S3:
    """The object store, empty at the beginning of a test."""
    object_store.clear()
    return object_store


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser without a window; its driver has the thread's event loop, so it ends with the file of tests."""
    from playwright.sync_api import sync_playwright

    from servers.browser import executable

    path = executable()
    assert path is not None, "no Chromium or Chrome: ./run tests installs one, or says how"
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path)
        yield started
        started.close()


@pytest.fixture
def port() -> Iterator[int]:
    """A port of this machine on which nothing listens."""
    from tests.helpers.scraping import free_port

    with free_port() as found:
        yield found
