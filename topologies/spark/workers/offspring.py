"""Starts processes that end with the driver, however it ends."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any

from topologies.spark.workers.reaping import end_session

_REAPING = str(Path(__file__).with_name("reaping.py"))


class Offspring:
    """Starts processes as leaders of sessions, and has a reaper (``reaping.py``) end them after the driver.

    They are started by one thread, which lives as long as the driver: a parent-death signal, on which workers die, is
    sent at the end of the thread that started them.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._process = os.getpid()
        self._asked: SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = SimpleQueue()
        self._thread: Thread | None = None
        self._reaper: subprocess.Popen[bytes] | None = None
        self._watched: dict[int, float] = {}

    def start(self, command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
        """Start a process in a session of its own; ``options`` are Popen's."""

        def begin() -> subprocess.Popen[bytes]:
            return subprocess.Popen(command, start_new_session=True, **options)

        process: subprocess.Popen[bytes] = self.call(begin)
        self.watch(process.pid)
        return process

    def call(self, function: Callable[[], Any]) -> Any:
        """Call a function that starts a process, in the thread that stays; returns or raises what it does."""
        with self._lock:
            self._here()
            if self._thread is None:
                self._thread = Thread(target=_work, args=(self._asked,), name="windbolt-starter", daemon=True)
                self._thread.start()
        answer: Future[Any] = Future()
        self._asked.put((function, answer))
        return answer.result()

    def watch(self, leader: int, patience: float = 0.0) -> None:
        """Have the leader of a session, and all processes in it, ended at the latest ``patience`` seconds after the
        driver."""
        with self._lock:
            self._here()
            self._watched[leader] = patience
            self._tell(f"+{leader} {patience}\n")

    def end(self, leader: int) -> None:
        """Kill a leader and all processes in its session; whoever started it waits for it."""
        end_session(leader)
        with self._lock:
            self._here()
            if self._watched.pop(leader, None) is not None:
                self._tell(f"-{leader}\n")

    def _tell(self, line: str) -> None:
        """Send a line to the reaper; if there is none or it was killed, start a new one and send it all leaders."""
        reaper = self._reaper
        if reaper is not None and reaper.stdin is not None:
            try:
                reaper.stdin.write(line.encode())
                return
            except OSError:
                reaper.stdin.close()
                reaper.wait()
        # Not in the thread that stays: the reaper outlives the driver.
        self._reaper = reaper = subprocess.Popen(
            [sys.executable, "-I", "-S", _REAPING, str(os.getpid())],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, bufsize=0, cwd="/", start_new_session=True,
        )  # fmt: skip
        assert reaper.stdin is not None
        lines = [f"+{leader} {patience}\n" for leader, patience in self._watched.items()]
        reaper.stdin.write("".join(lines).encode())

    def _here(self) -> None:
        """Reset in a fork of the driver: thread, reaper and processes belong to the driver."""
        if self._process != os.getpid():
            self._process, self._asked, self._thread = os.getpid(), SimpleQueue(), None
            self._reaper, self._watched = None, {}


def _work(asked: SimpleQueue[tuple[Callable[[], Any], Future[Any]]]) -> None:
    while True:
        function, answer = asked.get()
        try:
            answer.set_result(function())
        except BaseException as error:
            answer.set_exception(error)


OFFSPRING = Offspring()
