"""Failures of tasks: errors of users' code, calls with a time limit, and the way of an error to the driver."""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import re
import struct
import sysconfig
import threading
import time
import traceback
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from traceback import TracebackException
from typing import Any, TypeVar

from manager.remote import is_transient
from manager.storage.files import UNREADABLE
from windowing.errors import USER_EXCEPTIONS, BoltError, WindboltError, did_you_mean_column
from windowing.reprs import error_text, printable, shorten
from windowing.timestamps import show
from windowing.window import TupleWindow

# Ends child processes that users' code has forked.


T = TypeVar("T")


def in_this_process(function: Callable[[], T]) -> T:
    """Calls a function that runs users' code, and returns its result.

    The user's code may fork. The child is a copy of this process, and would go on with this process's work after the
    user's code. So it is ended here: with status 0, or with 1 after an exception, which it prints.
    """
    own_process = os.getpid()
    try:
        result = function()
    except BaseException:
        if os.getpid() != own_process:
            traceback.print_exc()
            os._exit(1)
        raise
    if os.getpid() != own_process:
        os._exit(0)
    return result


# The window that a worker is working on, in shared memory. The driver reads it after the worker has died.


_NOTE = struct.Struct("=?qqqq")
"""Format of the record: True if the window has a start, start, end, number of events plus one, number of windows from
this one on. The last is 0 while no bolt is called."""
SIZE = _NOTE.size


class WorkerPosition:
    """The window that a worker is working on, in a file of ``SIZE`` bytes shared between processes."""

    def __init__(self, descriptor: int) -> None:
        self._shared = mmap.mmap(descriptor, SIZE)

    def enter(self, window: TupleWindow, windows: int = 1, events: int | None = None) -> None:
        """Records that a bolt is called with ``window``, or with ``windows`` windows of which ``window`` is the
        first."""
        start, count = window.start_timestamp, len(window) if events is None else events
        _NOTE.pack_into(self._shared, 0, start is not None, start or 0, window.end_timestamp, count + 1, windows)

    def leave(self) -> None:
        """Records that no bolt is being called."""
        _NOTE.pack_into(self._shared, 0, False, 0, 0, 0, 0)

    def words(self) -> str:
        """Returns the window as text: `` on the window from ... to ... of 3 events``; empty while no bolt is called."""
        begins, start, end, count, windows = _NOTE.unpack_from(self._shared)
        if not count:
            return ""
        span = f"from {show(start)} to {show(end)}" if begins else f"at {show(end)}"
        events = f"of {count - 1} event{'s' if count != 2 else ''}"
        return f" on {windows} windows {events}, the first {span}" if windows > 1 else f" on the window {span} {events}"

    def close(self) -> None:
        """Releases the shared memory."""
        self._shared.close()


class _Shared:
    position: WorkerPosition | None = None


def share(descriptor: int) -> None:
    """Called in a worker: from now on, records windows in this file."""
    _Shared.position = WorkerPosition(descriptor)


def worker_position() -> WorkerPosition | None:
    """Returns the record of this process's window; None if no driver reads it."""
    return _Shared.position


# Calls with a time limit: a watchdog raises TooLong in a thread whose call takes too long.
#
# A calling thread records when its call is due and, after the call, that no call is due. The watchdog checks all
# threads a few times per limit. An exception raised in another thread (an interrupt) arrives some time later, perhaps
# in other code. So the watchdog announces an interrupt before it raises it, and then checks again that the call is
# still running. After its call each thread checks whether an interrupt was announced; if so, it waits for the interrupt
# and cancels it. Under CPython's GIL these four steps have one order for all threads: an interrupt hits its call, or
# the thread waits for it.
#
# Nothing can interrupt a call into C (``time.sleep``, sorting, a regular expression): TooLong is raised once it
# returns. A function that catches TooLong and continues is interrupted again, and then repeatedly: see ``TooLong``.
# (Python 3.12 treats the jump from a handler back to its loop as part of the try block: there, ``while True: try: ...
# except BaseException: pass`` can escape.)


_NEVER = float("inf")
_SHORTEST_LOOK, _LONGEST_LOOK = 0.001, 0.25
_FOLLOWING = 20
"""Number of further interrupts that each interrupt after the first may trigger."""
_CHECKS = 20
"""Iterations of a loop within which Python checks for a pending exception: in the first or the next one."""
_monotonic = time.monotonic
_raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc
_raise_in.argtypes = (ctypes.c_ulong, ctypes.py_object)


class _CancelInterrupt(BaseException):
    """Raised by a thread in itself. It replaces a pending interrupt, and is caught at once."""


class TooLong(BaseException):
    """Raised in a call that exceeded its limit. It is not an Exception, so that ``except Exception`` does not catch it.

    The first interrupt leaves the function time for cleanup. If the function catches the second one, the next is
    already pending, and so on: it is raised as soon as Python checks for it, in the handler or at the next iteration of
    its loop. After ``_FOLLOWING`` of these the watchdog must interrupt again, so that a function that wants to end can
    end.
    """

    def __init__(self) -> None:
        caller = _caller()
        if caller.spare and caller.due <= _monotonic():
            caller.spare -= 1
            # Looked up rather than called: after a call Python would check for pending exceptions and raise this one
            # here.
            caller.another[0]
            del caller.another[0]


class _CallingThread:
    """State shared by a calling thread and the watchdog."""

    __slots__ = (
        "__weakref__",
        "another",
        "due",
        "interrupting",
        "interrupts",
        "limit",
        "may_be_interrupted",
        "spare",
        "thread",
    )

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self.due = _NEVER
        """Time at which the call is due; ``_NEVER`` without a call."""
        self.may_be_interrupted = False
        """True if an interrupt may have been raised during this call."""
        self.interrupting = False
        """True if an interrupt is about to be raised."""
        self.interrupts = 0
        self.spare = 0
        """Number of further interrupts that the last interrupt may trigger."""
        self.limit = _NEVER
        """The shortest limit in seconds that the watchdog knows of."""
        self.another: dict[int, object] = defaultdict(partial(_raise_in, self.thread, TooLong))
        """Looking up a key raises another TooLong in this thread, soon."""


class _Watchdog:
    """The thread that watches the calls of a process; the first call starts it."""

    def __init__(self) -> None:
        self.callers: list[weakref.ref[_CallingThread]] = []
        self.pause = _LONGEST_LOOK
        self.lock = threading.Lock()
        self.woken = threading.Event()
        self.started = False

    def watch(self, caller: _CallingThread) -> None:
        with self.lock:
            self.callers = [known for known in self.callers if known() is not None] + [weakref.ref(caller)]
            if not self.started:
                threading.Thread(target=self._run, name="windbolt-limit", daemon=True).start()
                self.started = True

    def check_within(self, caller: _CallingThread, limit: float) -> None:
        """Makes the watchdog check often enough for a limit in seconds."""
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
                    _interrupt(caller)
                del caller


def _interrupt(caller: _CallingThread) -> None:
    caller.interrupting = caller.may_be_interrupted = True
    if caller.due <= _monotonic():
        caller.interrupts += 1
        caller.spare = _FOLLOWING if caller.interrupts > 1 else 0
        _raise_in(caller.thread, TooLong)  # replaces an interrupt pending since the last check, if there is one
    caller.interrupting = False


_WATCHDOG, _MINE = _Watchdog(), threading.local()


def _reset_after_fork() -> None:
    """Resets this module in a forked process, which has no watchdog and only the thread that forked."""
    global _WATCHDOG, _MINE
    _WATCHDOG, _MINE = _Watchdog(), threading.local()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)


def _caller() -> _CallingThread:
    try:
        caller: _CallingThread = _MINE.caller
    except AttributeError:
        caller = _MINE.caller = _CallingThread()
        _WATCHDOG.watch(caller)
    return caller


def in_call() -> bool:
    """True if this thread is in a call, so that an exception may be meant for the outermost call."""
    return _caller().due is not _NEVER


def call(function: Callable[..., Any], arguments: tuple[Any, ...], limit: float) -> Any:
    """Calls a function and returns its result. Raises TooLong if it takes more than ``limit`` seconds; passes its
    exceptions on.

    A nested call is under the limit of the outer call.
    """
    try:
        caller: _CallingThread = _MINE.caller
    except AttributeError:
        caller = _caller()
    if caller.due is not _NEVER:
        return function(*arguments)
    if limit < caller.limit:
        _WATCHDOG.check_within(caller, limit)
    try:
        caller.due = _monotonic() + limit
        try:
            return function(*arguments)
        finally:
            caller.due = _NEVER
            if caller.may_be_interrupted:
                _cancel_interrupt(caller)
    except TooLong:
        # No further interrupt is raised now, but two may be pending: the watchdog's and the function's own.
        caller.due = _NEVER
        with suppress(TooLong):
            try:
                _cancel_interrupt(caller)
            except TooLong:
                _cancel_interrupt(caller)
        raise


def _cancel_interrupt(caller: _CallingThread) -> None:
    """Cancels a pending interrupt, and waits for one that was announced.

    Raising NULL would cancel it too, but has a side effect: CPython 3.11 and 3.12 then keep checking for a pending
    exception until one has arrived in any thread, and until then do not even start a function that a debugger or
    coverage traces.
    """
    while caller.interrupting:
        time.sleep(0)
    try:
        _raise_in(caller.thread, _CancelInterrupt)
        for _ in range(_CHECKS):  # Python raises it at its next check: after the call, or at the start of an iteration
            pass
    except _CancelInterrupt:
        pass
    caller.may_be_interrupted, caller.interrupts, caller.spare = False, 0, 0


# Errors of users' code, with the bolt, the input and the batch that failed.


_NO_FIELD = re.compile(r'Field "(.*)" does not exist in schema')
"""Arrow's error text for a missing column."""
FIX = "fix it and rerun"
SMALLER = (
    "if memory was short, shorten the window, give it a key, or name the columns that it needs (reads); "
    "with_limits(window_bytes=) ends a run before that"
)
"""Advice for a bolt that may have had too little memory for a window."""
_HOME = __file__.rsplit("/", 3)[0]
_PYTHON = ("<frozen ", *(f"{sysconfig.get_path(name)}/" for name in ("stdlib", "platstdlib")))
_GENERATED = ("<string>", "<attrs generated ")
"""Beginnings of file names of generated code: of dataclasses, of attrs, and of ``exec``."""
_INSTALLED = re.compile(r"/(?:site|dist)-packages/([^/]+)")
_CALLED_BY_WINDBOLT = frozenset({"numpy", "pandas", "pyarrow", "pyspark", "polars"})
"""Packages that windbolt itself calls: their frames directly inside windbolt's are not the user's code."""
_OWN_FOLDERS = tuple(f"{_HOME}/{folder}/" for folder in ("windowing", "policies", "manager", "topologies"))
_EXAMPLES = f"{_HOME}/topologies/examples/"


@contextmanager
def raising_as(
    error_class: Callable[..., WindboltError],
    what: str,
    *,
    do: str,
    unchanged: type[BaseException] | tuple[type[BaseException], ...] = WindboltError,
    **more: str,
) -> Iterator[None]:
    """Turns an exception of users' code into an error of this class, with the line of the code. ``more``: further
    arguments of the class, such as ``sink=``. Errors of the classes ``unchanged`` pass unchanged."""
    try:
        yield
    except unchanged:
        raise
    except USER_EXCEPTIONS as error:
        why, transient = cause(error, ()), is_transient(error)
        raise error_class(what, why=why, do=do, transient=transient, **more) from error


@contextmanager
def bolt_failure(
    bolt: str, batch: int, where: str | Callable[[], str], *, task: int | None = None, columns: Sequence[str] = ()
) -> Iterator[None]:
    """Turns an exception of a user's bolt into a BoltError with the place of the failure. A CheckpointError passes
    unchanged.

    ``where``: the place as text, or a function that is called for the place after a failure. ``columns``: the columns
    that the bolt reads, since an unknown key may be a misspelt column.
    """
    try:
        yield
    except (BoltError, *UNREADABLE):
        raise
    except USER_EXCEPTIONS as error:
        raise failed(bolt, batch, where() if callable(where) else where, error, task=task, columns=columns) from error


def failed(
    bolt: str,
    batch: int,
    where: str,
    error: BaseException,
    *,
    task: int | None = None,
    columns: Sequence[str] = (),
    of_window: bool = False,
) -> BoltError:
    """Returns the BoltError for an exception of a user's bolt. ``columns``: the columns that it reads. ``of_window``:
    True if it was called with a window."""
    do = SMALLER if of_window and isinstance(error, MemoryError) else FIX
    return BoltError(
        f"bolt {bolt!r} failed {where}, in batch {batch}",
        why=cause(error, columns),
        do=f"{do}: batch {batch} was not committed, and runs again",
        bolt=bolt,
        task=task,
        transient=is_transient(error),
    )


def cause(error: BaseException, columns: Sequence[str]) -> str:
    """Returns the exception as text, with the line of the user's code that raised it."""
    return f"{error_text(error)}{_meant(error, columns)}{line_of(error)}"


def line_of(error: BaseException) -> str:
    """Returns the place in the user's code that raised an exception, as `` at FILE:LINE, in FUNCTION``. This is the
    innermost frame outside windbolt, Python and installed packages. If the user's code is an installed package, it is
    the innermost frame of the first package that windbolt calls. Empty if there is no such frame."""
    raised_in = traceback.extract_tb(error.__traceback__)
    frames = [frame for frame in raised_in if not _is_windbolt_or_python(frame.filename)]
    frames = [frame for frame in frames if not frame.filename.startswith(_GENERATED)] or frames
    own = [frame for frame in frames if _package(frame.filename) is None]
    if not own and frames and _package(frames[0].filename) not in _CALLED_BY_WINDBOLT:
        own = [frame for frame in frames if _package(frame.filename) == _package(frames[0].filename)]
    return f" at {own[-1].filename}:{own[-1].lineno}, in {own[-1].name}" if own else ""


def _meant(error: BaseException, columns: Sequence[str]) -> str:
    """Returns a hint: the column that an unknown key of an Arrow table, a DataFrame or an event may be meant for."""
    key = error.args[0] if isinstance(error, KeyError) and error.args else None
    if not isinstance(key, str):
        return ""
    of_arrow = _NO_FIELD.fullmatch(key)
    meant = did_you_mean_column(of_arrow[1] if of_arrow else key, columns)
    return f"{meant} (there are {', '.join(columns)})" if columns and (meant or of_arrow) else ""


def _is_windbolt_or_python(filename: str) -> bool:
    """True for files of windbolt and of Python's standard library, and for compiled code."""
    compiled = filename.endswith((".pxi", ".pyx"))
    of_python = filename.startswith(_PYTHON) and _package(filename) is None
    of_windbolt = filename.startswith(_OWN_FOLDERS) and not filename.startswith(_EXAMPLES)
    return compiled or of_python or of_windbolt


def _package(filename: str) -> str | None:
    """Returns the top folder or module of the installed package of a file; None for other files."""
    found = _INSTALLED.search(filename)
    return None if found is None else found[1]


# The error of a task as a value, sent from the process of the task to the driver.


_LONGEST = 10_000
"""Most characters of each part of an error."""
_LONGEST_TRACEBACK = 50_000
"""Most characters of a traceback; the end of a longer one is kept."""

Plain = str | int | float | bool | None


class TaskTraceback(Exception):
    """The traceback of an error in the process of its task: the cause of the error that the driver raises."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


@dataclass(frozen=True)
class TaskFailure:
    """Why a task failed. It can be pickled and written as JSON."""

    classes: tuple[str, ...]
    """Names of its class and of the base classes up to WindboltError, as ``module.name``."""
    what: str
    why: str
    do: str
    more: dict[str, Plain]
    """Further attributes of the error, such as the ``bolt`` and the ``task`` of a BoltError."""
    traceback: str

    @classmethod
    def of(cls, error: BaseException, batch: int | None = None) -> TaskFailure:
        """Returns the failure for an exception of a task of a batch; an error that is not windbolt's becomes a
        WindboltError."""
        if not isinstance(error, WindboltError):
            committed = "the batch" if batch is None else f"batch {batch}"
            error, original = (
                WindboltError(
                    "a task failed with an unexpected error",
                    why=error_text(error),
                    do=f"see the chained error (--debug); {committed} was not committed, and runs again",
                ),
                error,
            )
            return cls._of(error, original)
        return cls._of(error, error)

    @classmethod
    def _of(cls, error: WindboltError, original: BaseException) -> TaskFailure:
        classes = [_name(each) for each in type(error).__mro__ if issubclass(each, WindboltError)]
        more = {name: value for name, value in vars(error).items() if name not in ("what", "why", "do")}
        if not all(isinstance(value, Plain) for value in more.values()):  # such as all the problems of a topology
            classes, more = [_name(WindboltError)], {}
        what, why, do = (shorten(part, _LONGEST) for part in (error.what, error.why, error.do))
        return cls(tuple(classes), what, why, do, more, _traceback(original))

    def to_json(self) -> str:
        """Returns the failure as JSON text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> TaskFailure:
        """Reads a failure from the text that ``to_json`` returned."""
        values = json.loads(text)
        return cls(**{**values, "classes": tuple(values["classes"])})

    def error(self) -> WindboltError:
        """Returns the error that the driver raises: of the same class if the driver knows it, else of the nearest base
        class that it knows."""
        known = {_name(each): each for each in _all_classes()}
        error_class = next((known[name] for name in self.classes if name in known), WindboltError)
        error = error_class.__new__(error_class)
        WindboltError.__init__(error, self.what, why=self.why, do=self.do)
        vars(error).update(self.more)
        error.__cause__ = TaskTraceback(self.traceback)
        return error


def _name(error_class: type) -> str:
    return f"{error_class.__module__}.{error_class.__qualname__}"


def _all_classes() -> Iterator[type[WindboltError]]:
    """Yields the error classes of windbolt that this process has imported."""
    waiting = [WindboltError]
    while waiting:
        error_class = waiting.pop()
        yield error_class
        waiting += error_class.__subclasses__()


def _traceback(error: BaseException) -> str:
    """Returns the traceback, shortened and without control characters."""
    pieces = TracebackException.from_exception(error).format()
    return "\n".join(printable(shorten(piece.rstrip("\n")), keep="\n\t") for piece in pieces)[-_LONGEST_TRACEBACK:]
