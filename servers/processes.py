"""Processes of this machine: those that a process has started, their time and memory (Linux); servers and ports."""

from __future__ import annotations

import shutil
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from subprocess import Popen
from typing import Any

import psutil
from psutil import Process

_SETPRIV = shutil.which("setpriv")
DIES_WITH_PARENT: tuple[str, ...] = () if _SETPRIV is None else (_SETPRIV, "--pdeathsig", "KILL")
"""Prefix of the command of a server: Linux kills it when the thread that started it ends. The server has a session of
its own, and would otherwise run on when a test is killed."""


def tree(root: int | None = None, program: str = "") -> list[Process]:
    """Returns a process, or this one, and all its descendants; only those of a program, if it is named."""
    top = Process(root)
    return [each for each in [top, *top.children(recursive=True)] if program in _or(each.name, "")]


def cpu_seconds(root: int | None = None) -> float:
    """User and system time of a process, or this one, and its descendants: the JVM, Spark's Python daemon, its workers.

    Those are included that have ended and been reaped.
    """
    return sum(map(own_seconds, tree(root)))


def own_seconds(process: Process) -> float:
    """User and system time of a process alone, with that of its children that have ended and been reaped."""
    return float(sum(_or(process.cpu_times, (0.0,))[:4]))


def _or(call: Callable[[], Any], otherwise: Any) -> Any:
    try:
        return call()
    except psutil.Error:  # it has just ended; its parent has its time now, or will
        return otherwise


def memory_of(pid: int) -> dict[str, int]:
    """Returns the memory of a process, in bytes, by the names that the kernel gives; empty for one that has ended."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return {}
    lines = (line.split() for line in text.splitlines())
    return {words[0].rstrip(":"): int(words[1]) * 1024 for words in lines if len(words) == 3 and words[2] == "kB"}


@contextmanager
def repeated(action: Any, seconds: float) -> Iterator[None]:
    """Call something every so many seconds, in a thread of its own, until the end of the block."""
    stop = threading.Event()

    def repeat() -> None:
        while not stop.wait(seconds):
            action()

    thread = threading.Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@contextmanager
def peak_memory() -> Iterator[dict[str, Any]]:
    """The most memory that any Python process below this one had within the block, in MiB; looked at four times a
    second.

    ``VmHWM`` counts the pages of mapped files too; ``RssAnon`` only what a process has of its own. The kernel is asked
    to start over with the peaks of workers that are there already.
    """
    found: dict[str, Any] = {}
    resident, own = Counter[int](), Counter[int]()
    for process in tree(program="python"):
        with suppress(OSError):  # it has ended
            Path(f"/proc/{process.pid}/clear_refs").write_text("5")

    def look() -> None:
        for process in tree(program="python")[1:]:
            now = memory_of(process.pid)
            resident[process.pid] = max(resident[process.pid], now.get("VmHWM", 0))
            own[process.pid] = max(own[process.pid], now.get("RssAnon", 0))

    with repeated(look, 0.25):
        yield found
    look()
    found["peak_worker_mib"] = mib(max(resident.values(), default=0))
    found["peak_worker_own_mib"] = mib(max(own.values(), default=0))


def mib(size: float) -> float:
    """Bytes in MiB."""
    return round(size / 2**20, 1)


def wait_for(
    server: str,
    answers: Callable[[], object],
    seconds: float,
    process: Popen[Any] | None = None,
    log: Path | None = None,
) -> None:
    """Wait until a server answers: until ``answers`` returns something true, in place of False or an OSError.

    Raises RuntimeError, with the end of its log, if its process has ended, or the seconds have passed.
    """
    end = time.monotonic() + seconds
    while True:
        with suppress(OSError):
            if answers():
                return
        ended = process is not None and process.poll() is not None
        if ended or time.monotonic() > end:
            why = "its process has ended" if ended else f"it has not answered for {seconds:g} seconds"
            said = "" if log is None else f":\n{log.read_text('utf-8', errors='replace')[-3000:]}"
            raise RuntimeError(f"{server} did not start: {why}{said}")
        time.sleep(0.02)


def listens(port: int) -> bool:
    """True if somebody listens at a port of this machine."""
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


def free_port() -> int:
    """Returns a port of the loopback interface that nobody uses."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
    return port
