"""Calls under a time limit: a watchdog raises TooLong in a thread whose call takes too long.

A calling thread records when its call is due and, after the call, that none is. The watchdog checks all threads a few
times per limit. An exception raised in another thread (a shot) arrives some time later, perhaps in other code by then.
So before it shoots, the watchdog announces it, and checks once more whether the call is still running; and after its
call each thread checks whether it was aimed at, and if so waits for the shot and cancels it. Under CPython's GIL these
four steps have one order for all threads, so that a shot either hits its call or is waited for.

Nothing can interrupt a call into C (``time.sleep``, sorting, a regular expression): TooLong is raised once it returns.
A function that catches TooLong and continues is shot at again, and then repeatedly: see ``TooLong``. (Python 3.12
treats the jump from a handler back to its loop as part of the try block: there, ``while True: try: ... except
BaseException: pass`` can escape.)
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
"""Number of further shots that a shot after the first may trigger by itself."""
_CHECKS = 20
"""Number of turns of a loop within which Python checks for a pending exception: the first, or one after it."""
_monotonic = time.monotonic
_raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc
_raise_in.argtypes = (ctypes.c_ulong, ctypes.py_object)


class _Landing(BaseException):
    """Raised by a thread in itself: it replaces a pending shot, and is caught where it is raised."""


class TooLong(BaseException):
    """Raised in a call that exceeded its limit. It is not an Exception, so that ``except Exception`` does not catch it.

    The first shot leaves the function time for cleanup. From the second on, each shot has the next one pending when it
    is caught, which is raised as soon as Python checks for it: in the handler that would continue, or at the next
    iteration of its loop. After some of these the watchdog has to shoot again, so that a function that wants to end
    can.
    """

    def __init__(self) -> None:
        caller = _caller()
        if caller.spare and caller.due <= _monotonic():
            caller.spare -= 1
            # Looked up rather than called: after a call Python would check for pending exceptions and raise it here.
            caller.another[0]
            del caller.another[0]


class _Caller:
    """What a calling thread and the watchdog tell each other."""

    __slots__ = ("__weakref__", "aimed", "another", "due", "limit", "shooting", "shots", "spare", "thread")

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self.due = _NEVER
        """Time at which the call is due; ``_NEVER`` where there is no call."""
        self.aimed = False
        """Whether a shot may have been fired during this call."""
        self.shooting = False
        """Whether a shot is about to be fired."""
        self.shots = 0
        self.spare = 0
        """Number of further shots that the last one may trigger by itself."""
        self.limit = _NEVER
        """The shortest limit in seconds that the watchdog has been told."""
        self.another: dict[int, object] = defaultdict(partial(_raise_in, self.thread, TooLong))
        """Looking up a key raises another TooLong in this thread, soon."""


class _Watchdog:
    """The thread that watches the calls of a process; it starts with the first call."""

    def __init__(self) -> None:
        self.callers: list[weakref.ref[_Caller]] = []
        self.pause = _LONGEST_LOOK
        self.lock = threading.Lock()
        self.woken = threading.Event()
        self.started = False

    def watch(self, caller: _Caller) -> None:
        with self.lock:
            self.callers = [known for known in self.callers if known() is not None] + [weakref.ref(caller)]
            if not self.started:
                threading.Thread(target=self._run, name="windbolt-limit", daemon=True).start()
                self.started = True

    def hasten(self, caller: _Caller, limit: float) -> None:
        """Make the watchdog check often enough for a limit in seconds."""
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
        _raise_in(caller.thread, TooLong)  # replaces a shot pending since the last check, if there is one
    caller.shooting = False


_WATCHDOG, _MINE = _Watchdog(), threading.local()


def _reset_after_fork() -> None:
    """A forked process has no watchdog, and only the thread that forked."""
    global _WATCHDOG, _MINE
    _WATCHDOG, _MINE = _Watchdog(), threading.local()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)


def _caller() -> _Caller:
    try:
        caller: _Caller = _MINE.caller
    except AttributeError:
        caller = _MINE.caller = _Caller()
        _WATCHDOG.watch(caller)
    return caller


def in_call() -> bool:
    """Whether this thread is in a call; an exception there may be meant for the outermost call."""
    return _caller().due is not _NEVER


def call(function: Callable[..., Any], arguments: tuple[Any, ...], limit: float) -> Any:
    """Call a function and return its result. Raises TooLong if it takes more than ``limit`` seconds, and otherwise what
    it raises.

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
        # No more shots are fired once nothing is due, but two may be pending: the watchdog's and the function's own.
        caller.due = _NEVER
        with suppress(TooLong):
            try:
                _settle(caller)
            except TooLong:
                _settle(caller)
        raise


def _settle(caller: _Caller) -> None:
    """Cancel a pending shot, and wait for one about to be fired.

    Raising NULL is not used for it, since it has one effect: CPython 3.11 and 3.12 keep checking for a pending
    exception until one has arrived in any thread, and a function traced by a debugger or by coverage is not even
    started until then.
    """
    while caller.shooting:
        time.sleep(0)
    try:
        _raise_in(caller.thread, _Landing)
        for _ in range(_CHECKS):  # it is raised where Python checks next: after the call, or at the start of a turn
            pass
    except _Landing:
        pass
    caller.aimed, caller.shots, caller.spare = False, 0, 0
