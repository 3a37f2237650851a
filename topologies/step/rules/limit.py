"""Calls under a time limit: a watchdog raises TooLong in a thread whose call takes too long.

The thread that calls writes when its call is due and, after it, that none is. The watchdog looks at all of them a few
times per limit. What is raised in another thread arrives some time later, by then perhaps in other code; so before it
shoots, the watchdog says so, and looks once more whether the call is still on; and after its call each thread looks
whether it was aimed at, and if so waits for the shot and takes it out of the air. With the one lock of CPython these
four steps are in one order for all threads, so that a shot either finds its call or is waited for.

Nothing can interrupt a call into C (``time.sleep``, sorting, a regular expression): TooLong is raised once it returns.
A function that catches TooLong and goes on is shot at again, and then for good: see ``TooLong``. (Python 3.12 takes the
jump from a handler back to its loop for a part of what is tried: there, ``while True: try: ... except BaseException:
pass`` can escape.)
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
import weakref
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

_NEVER = float("inf")
_SHORTEST_LOOK, _LONGEST_LOOK = 0.001, 0.25
_FOLLOWING = 20
_monotonic = time.monotonic
_raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc
_raise_in.argtypes = (ctypes.c_ulong, ctypes.py_object)


class _Landing(BaseException):
    """Raised by a thread in itself: it takes the place of what is in the air, and is caught where it is raised."""


class TooLong(BaseException):
    """Raised in a call that has passed its limit; no Exception, so that ``except Exception`` does not catch it.

    The first leaves a function the time to put things in order. From the second shot on, each has the next in the air
    when it is caught, which is raised as soon as Python looks for it: in the handler that would go on, or where its
    loop begins again. After some the watchdog has to shoot again, so that a function which would end can.
    """

    def __init__(self) -> None:
        caller = _caller()
        if caller.spare and caller.due <= _monotonic():
            caller.spare -= 1
            # Not called, but looked up: after a call Python would look, and raise it here.
            caller.another[0]
            del caller.another[0]


class _Caller:
    """What a thread that makes calls tells the watchdog, and is told."""

    __slots__ = ("__weakref__", "aimed", "another", "due", "limit", "shooting", "shots", "spare", "thread")

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self.due = _NEVER
        """When the call is to be over; never: there is none."""
        self.aimed = False
        """Whether a shot may have been fired in this call."""
        self.shooting = False
        """Whether one is about to be."""
        self.shots = 0
        self.spare = 0
        """How many more may follow the last shot by themselves."""
        self.limit = _NEVER
        """The shortest that the watchdog has been told of."""
        self.another: dict[int, object] = defaultdict(partial(_raise_in, self.thread, TooLong))
        """Looked up, it raises another one in this thread, soon."""


class _Watchdog:
    """The thread that watches the calls of a process; it starts with the first of them."""

    def __init__(self) -> None:
        self.callers: list[weakref.ref[_Caller]] = []
        self.pause = _LONGEST_LOOK
        self.lock = threading.Lock()
        self.woken = threading.Event()
        self.started = False

    def watch(self, caller: _Caller) -> None:
        with self.lock:
            self.callers = [each for each in self.callers if each() is not None] + [weakref.ref(caller)]
            if not self.started:
                threading.Thread(target=self._run, name="windbolt-rule-limit", daemon=True).start()
                self.started = True

    def hasten(self, caller: _Caller, limit: float) -> None:
        """Look often enough for a limit."""
        caller.limit = limit
        with self.lock:
            self.pause = min(self.pause, max(limit / 5, _SHORTEST_LOOK))
        self.woken.set()

    def _run(self) -> None:
        while True:
            self.woken.wait(self.pause)
            self.woken.clear()
            now = _monotonic()
            for reference in self.callers:
                caller = reference()
                if caller is not None and caller.due <= now:
                    _shoot(caller)
                del caller


def _shoot(caller: _Caller) -> None:
    caller.shooting = caller.aimed = True
    if caller.due <= _monotonic():
        caller.shots += 1
        caller.spare = _FOLLOWING if caller.shots > 1 else 0
        _raise_in(caller.thread, TooLong)  # in place of what is in the air since the last look, if anything is
    caller.shooting = False


_WATCHDOG, _MINE = _Watchdog(), threading.local()


def _begin() -> None:
    """A forked process has no watchdog, and only the thread that forked."""
    global _WATCHDOG, _MINE
    _WATCHDOG, _MINE = _Watchdog(), threading.local()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin)


def _caller() -> _Caller:
    try:
        caller: _Caller = _MINE.caller
    except AttributeError:
        caller = _MINE.caller = _Caller()
        _WATCHDOG.watch(caller)
    return caller


def in_call() -> bool:
    """Whether this thread is in a call; what is raised there may be meant for the outermost."""
    return _caller().due is not _NEVER


def call(function: Callable[..., Any], arguments: tuple[Any, ...], limit: float) -> Any:
    """What a function returns; raises TooLong if it takes more than so many seconds, and otherwise what it raises.

    A call within a call is under the limit of the outer one.
    """
    try:
        caller: _Caller = _MINE.caller
    except AttributeError:
        caller = _caller()
    if caller.due is not _NEVER:
        return function(*arguments)
    if limit < caller.limit:
        _WATCHDOG.hasten(caller, limit)
    try:
        caller.due = _monotonic() + limit
        try:
            return function(*arguments)
        finally:
            caller.due = _NEVER
            if caller.aimed:
                _settle(caller)
    except TooLong:
        # No more are fired once nothing is due, but two may be in the air: the watchdog's and the function's own.
        caller.due = _NEVER
        with suppress(TooLong):
            try:
                _settle(caller)
            except TooLong:
                _settle(caller)
        raise


def _settle(caller: _Caller) -> None:
    """Take out of the air what was fired, and wait for what is about to be.

    Not by raising NULL, which has no effect but one: CPython 3.11 and 3.12 go on looking for something in the air
    until something has arrived in any thread, and a function that a debugger or a measure of coverage traces is not
    even begun until they have found it.
    """
    while caller.shooting:
        time.sleep(0)
    try:
        _raise_in(caller.thread, _Landing)
        for _ in range(_FOLLOWING):  # it is raised where Python looks next: after the call, or where a loop begins
            pass
    except _Landing:
        pass
    caller.aimed, caller.shots, caller.spare = False, 0, 0
