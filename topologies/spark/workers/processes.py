"""The driver's side of the pool's worker processes: starting them, giving them tasks, noticing their end."""

from __future__ import annotations

import atexit
import os
import pickle
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryFile
from threading import Lock, Thread, Timer, main_thread
from typing import Any, cast

from manager.storage.files import why_and_do
from topologies.engine.batch import Context
from topologies.engine.failures import FIX, SIZE, SMALLER, TaskFailure, WorkerPosition
from topologies.graph.graph import Graph
from topologies.spark.workers.reaping import end_session, followers
from windowing.errors import WindboltError

# Starts processes that end with the driver, however it ends.


_REAPING = str(Path(__file__).with_name("reaping.py"))


class Offspring:
    """Starts processes as leaders of process sessions, and makes a reaper (``reaping.py``) end them after the driver.

    One thread starts them, and lives as long as the driver. Workers die on a parent-death signal, which is sent when
    the thread that started them ends.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._process = os.getpid()
        self._calls: SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = SimpleQueue()
        self._thread: Thread | None = None
        self._reaper: subprocess.Popen[bytes] | None = None
        self._watched: dict[int, float] = {}

    def start(self, command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
        """Starts a process in a session of its own; ``options``: Popen's."""

        def begin() -> subprocess.Popen[bytes]:
            return subprocess.Popen(command, start_new_session=True, **options)

        process: subprocess.Popen[bytes] = self.call(begin)
        self.watch(process.pid)
        return process

    def call(self, function: Callable[[], Any]) -> Any:
        """Calls a function that starts a process, in the lasting thread; returns its result or raises its exception."""
        with self._lock:
            self._forget_parents_processes()
            if self._thread is None:
                self._thread = Thread(target=_make_calls, args=(self._calls,), name="windbolt-starter", daemon=True)
                self._thread.start()
        answer: Future[Any] = Future()
        self._calls.put((function, answer))
        return answer.result()

    def watch(self, leader: int, patience: float = 0.0) -> None:
        """Makes the reaper end the leader of a session, and all processes in it, at the latest ``patience`` seconds
        after the driver."""
        with self._lock:
            self._forget_parents_processes()
            self._watched[leader] = patience
            self._tell(f"+{leader} {patience}\n")

    def end(self, leader: int) -> None:
        """Kills a leader and all processes in its session; the process that started it waits for it."""
        end_session(leader)
        with self._lock:
            self._forget_parents_processes()
            if self._watched.pop(leader, None) is not None:
                self._tell(f"-{leader}\n")

    def _tell(self, line: str) -> None:
        """Sends a line to the reaper. If there is none or it was killed, starts a new one and sends it all leaders."""
        reaper = self._reaper
        if reaper is not None and reaper.stdin is not None:
            try:
                reaper.stdin.write(line.encode())
                return
            except OSError:
                reaper.stdin.close()
                reaper.wait()
        # Not in the lasting thread, because the reaper outlives the driver.
        self._reaper = reaper = subprocess.Popen(
            [sys.executable, "-I", "-S", _REAPING, str(os.getpid())],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, bufsize=0, cwd="/", start_new_session=True,
        )  # fmt: skip
        assert reaper.stdin is not None
        lines = [f"+{leader} {patience}\n" for leader, patience in self._watched.items()]
        reaper.stdin.write("".join(lines).encode())

    def _forget_parents_processes(self) -> None:
        """Resets this object in a fork of the driver: thread, reaper and processes belong to the driver."""
        if self._process != os.getpid():
            self._process, self._calls, self._thread = os.getpid(), SimpleQueue(), None
            self._reaper, self._watched = None, {}


def _make_calls(calls: SimpleQueue[tuple[Callable[[], Any], Future[Any]]]) -> None:
    while True:
        function, answer = calls.get()
        try:
            answer.set_result(function())
        except BaseException as error:
            answer.set_exception(error)


OFFSPRING = Offspring()


# The driver's side of the pool's worker processes: starting them, giving them tasks, noticing their end.


_ROOT = str(Path(__file__).parents[3])
_WORKER = "topologies.spark.workers.worker"
_POLL_SECONDS = 1.0
"""Seconds between checks of silent processes: one may have died and left its socket to a child."""
_GRACE_SECONDS = 5.0
"""Seconds that a process has to end after closing its socket."""
_OUTSIDE_SIGNALS = (signal.SIGKILL, signal.SIGTERM)
"""The signals that come from outside; a crashed process ends with another one."""


class WorkerDied(WindboltError):
    """A worker process ended during a task; ``item`` and ``context``: those of the task, if known."""

    def __init__(self, what: str, why: str = "", do: str = "", *, how: str = "", transient: bool = False) -> None:
        super().__init__(what, why=why, do=do, transient=transient)
        self.how = how
        """How it ended, such as ``crashed (SIGSEGV)``."""
        self.item: Any = None
        self.context: Context | None = None


class WorkerPool:
    """Runs tasks in a limited number of processes on this machine, which are started on demand and kept.

    They are not forks of the driver, which has threads, nor do they import its ``__main__``.
    """

    def __init__(self, most: int, environment: Mapping[str, str] | None = None) -> None:
        self.most = most
        self._environment = _environment(environment or {})
        self._folder = os.getcwd()
        self._workers: list[_WorkerProcess] = []
        self._topology = b""
        self._lock = Lock()
        self._closed = False

    def is_configured_like(self, other: WorkerPool) -> bool:
        """True if the workers of both pools are configured alike."""
        own, others = ((pool.most, pool._environment, pool._folder) for pool in (self, other))
        return own == others

    def load(self, topology: bytes, paths: Sequence[str], wanted: int = 1) -> None:
        """Sets the packed topology of the following tasks; ``wanted`` workers prepare themselves meanwhile.

        ``paths``: the module paths that the topology may need.
        """
        self._topology = pickle.dumps((list(paths), topology), pickle.HIGHEST_PROTOCOL)
        Thread(target=self._prepare, args=(min(wanted, self.most),), daemon=True).start()

    def map(self, function: Callable[[Any, Context], Any], items: Sequence[Any], context: Context) -> list[Any]:
        """Returns the results of the tasks, in the order of the items.

        Raises the first error of a task. By then workers with other running tasks have been ended.
        """
        if not items:
            return []
        without_topology = replace(context, topology=cast("Graph", None))
        job = pickle.dumps((function, without_topology), pickle.HIGHEST_PROTOCOL)
        results: dict[int, Any] = {}
        with self._lock:
            try:
                self._ensure_workers(min(len(items), self.most))
                waiting = iter(range(len(items)))
                while len(results) < len(items):
                    for worker in self._idle():
                        index = next(waiting, None)
                        if index is None:
                            break
                        worker.give(index, job, items[index])
                    for worker in self._wait_for_workers():
                        answered = self._answer(worker, function, items, context)
                        if answered is not None:
                            results[answered[0]] = answered[1]
            except BaseException:
                self._dismiss(worker for worker in self._workers if worker.task is not None)
                raise
        return [results[index] for index in range(len(items))]

    def close(self) -> None:
        """Ends the workers, even during a task that another thread waits for."""
        self._closed = True
        for worker in list(self._workers):
            OFFSPRING.end(worker.process.pid)
        with self._lock:
            self._dismiss(self._workers)

    def has_no_children(self) -> bool:
        """True if no process started by a bolt remains, as far as can be determined."""
        return not any(followers(worker.process.pid) for worker in self._workers)

    def _prepare(self, wanted: int) -> None:
        with self._lock, suppress(OSError, WindboltError):  # the first tasks will report it
            self._ensure_workers(wanted)

    def _ensure_workers(self, wanted: int) -> None:
        """Ensures at least ``wanted`` live workers with the topology."""
        if self._closed:
            raise WindboltError("the workers have ended", why="the run was closed or aborted")
        self._dismiss(worker for worker in self._workers if worker.process.poll() is not None)
        while len(self._workers) < wanted and not self._closed:
            try:
                self._workers.append(_WorkerProcess(self._environment))
            except OSError as error:
                raise WindboltError("a worker process cannot be started", **why_and_do(error)) from error
        for worker in self._workers:
            self._teach(worker)

    def _teach(self, worker: _WorkerProcess) -> None:
        if not worker.busy and worker.topology is not self._topology:
            worker.send_topology(self._topology)

    def _idle(self) -> list[_WorkerProcess]:
        return [worker for worker in self._workers if not worker.busy]

    def _wait_for_workers(self) -> list[_WorkerProcess]:
        """Waits up to ``_POLL_SECONDS`` for busy workers that have answered or died."""
        by_connection = {worker.connection: worker for worker in self._workers if worker.busy}
        readable = wait(by_connection, _POLL_SECONDS)
        workers = [by_connection[cast("Connection", connection)] for connection in readable]
        return workers or [worker for worker in by_connection.values() if worker.process.poll() is not None]

    def _answer(
        self, worker: _WorkerProcess, function: Callable[[Any, Context], Any], items: Sequence[Any], context: Context
    ) -> tuple[int, Any] | None:
        """Returns the index of the task that a worker has completed, and its result; None if its answer is not about a
        task."""
        index = worker.task
        try:
            answer = worker.answer()
        except (EOFError, OSError):
            status = worker.end(_GRACE_SECONDS)
            doing = None if index is None else f"in {_task_in_words(function, items[index])}{worker.last_window}"
            self._workers.remove(worker)
            death = self._died(status, doing, context.batch, on_window=bool(worker.last_window))
            if isinstance(death, WorkerDied) and index is not None:
                death.item, death.context = items[index], context
            raise death from None
        if answer is None:
            return None
        result, failure = answer
        if failure is not None:
            raise failure.error()
        self._teach(worker)
        return None if index is None else (index, result)

    def _died(self, status: int, doing: str | None, batch: int, *, on_window: bool) -> WindboltError:
        if self._closed:
            return WindboltError("the run was aborted", do=f"rerun: batch {batch} was not committed")
        how, why = _death_in_words(status)
        do = SMALLER if on_window and -status in _OUTSIDE_SIGNALS else FIX
        if doing is None and status >= 0:
            why = "it could not start; what Python said is on stderr"
        return WorkerDied(
            f"a worker process {how} {doing or 'at its start'}",
            why=why,
            do=f"{do}: batch {batch} was not committed, and runs again",
            how=how,
            transient=-status in _OUTSIDE_SIGNALS,
        )

    def _dismiss(self, workers: Iterable[_WorkerProcess]) -> None:
        for worker in list(workers):
            self._workers.remove(worker)
            worker.end()


class _WorkerProcess:
    """One worker process and its current task."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        ours, theirs = socket.socketpair()
        with theirs, TemporaryFile() as note:
            note.truncate(SIZE)
            self.position = WorkerPosition(note.fileno())
            numbers = (theirs.fileno(), os.getpid(), note.fileno())
            self.connection = Connection(ours.detach())
            try:
                self.process = OFFSPRING.start(
                    [sys.executable, "-P", "-X", "faulthandler", "-m", _WORKER, *map(str, numbers)],
                    stdin=subprocess.DEVNULL,
                    # The output of bolts appears where it does with Spark's workers; stdout belongs to the driver.
                    stdout=subprocess.DEVNULL if sys.__stderr__ is None else 2,
                    pass_fds=[theirs.fileno(), note.fileno()],
                    env=environment,
                )
            except BaseException:
                self.connection.close()
                self.position.close()
                raise
        self.topology = b""
        self.task: int | None = None
        """Index of the current item; None without one."""
        self.busy = False
        """True if an answer is expected."""
        self.last_window = ""
        """For an ended process: the window that it was working on, as text."""
        self._job = b""
        self._number = 0
        """Number of the last message, and of its answer."""

    def send_topology(self, topology: bytes) -> None:
        """Sends a topology."""
        self.topology, self._job = topology, b""
        self._send(topology, None, None)

    def give(self, index: int, job: bytes, item: Any) -> None:
        """Sends a task."""
        item_bytes = pickle.dumps(item, pickle.HIGHEST_PROTOCOL)
        new_job = None if job is self._job else job
        self.task, self._job = index, job
        self._send(None, new_job, item_bytes)

    def answer(self) -> tuple[Any, TaskFailure | None] | None:
        """Returns the answer to the last message; None for a message that is not its answer. Raises EOFError or OSError
        if the process has died."""
        if self.process.poll() is not None and not self.connection.poll():
            raise EOFError
        process, number, result, failure = pickle.loads(self.connection.recv_bytes())
        if (process, number) != (self.process.pid, self._number):
            return None  # it is from a child of the worker
        self.busy, self.task = False, None
        return result, failure

    def end(self, patience: float = 0.0) -> int:
        """Ends the process and all its child processes, unless the process ends by itself within ``patience`` seconds;
        returns its exit status."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(patience)
        OFFSPRING.end(self.process.pid)
        self.last_window = self.position.words()
        self.position.close()
        self.connection.close()
        return self.process.wait()

    def _send(self, topology: bytes | None, job: bytes | None, item: bytes | None) -> None:
        self.busy = True
        self._number += 1
        message = pickle.dumps((self._number, topology, job, item), pickle.HIGHEST_PROTOCOL)
        with suppress(OSError):  # it has died, as reading its answer will show
            self.connection.send_bytes(message)


def _environment(more: Mapping[str, str]) -> dict[str, str]:
    """Returns the environment of a worker, like that of Spark's Python workers."""
    environment = {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0", **os.environ, **more, "PYTHONUNBUFFERED": "1"}
    if "-packages" not in _ROOT:
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [_ROOT, environment.get("PYTHONPATH")]))
    return environment


def _task_in_words(function: Callable[..., Any], item: Any) -> str:
    """Returns a task as text: ``fire of revenue.2``."""
    name = getattr(function, "__name__", repr(function))
    if hasattr(item, "bolt") and hasattr(item, "task"):
        return f"{name} of {item.bolt}.{item.task}"
    return f"{name} of {item}"[:200]


def _death_in_words(status: int) -> tuple[str, str]:
    """Returns the kind of end of a process, and its meaning."""
    if status >= 0:
        return f"ended with status {status}", "something that a bolt called ended the whole process (os._exit)"
    name = signal.Signals(-status).name if -status in set(signal.Signals) else f"signal {-status}"
    if -status in _OUTSIDE_SIGNALS:
        return f"was killed ({name})", "somebody did that, or the system, for want of memory: local[N] has N workers"
    return f"crashed ({name})", "a library that is not Python's broke; what it was doing is on stderr"


# Workers that a run leaves to the next one; like Spark's own, they end after a minute without work.


_SPARE_SECONDS = 60.0
"""Most seconds that workers wait for the next run."""


class SparePool:
    """Holds one pool, if any, between runs."""

    def __init__(self, seconds_kept: float = _SPARE_SECONDS) -> None:
        self.seconds_kept = seconds_kept
        self._lock = Lock()
        self._pool: WorkerPool | None = None
        self._timer: Timer | None = None

    def take(self, most: int, environment: Mapping[str, str]) -> WorkerPool:
        """Returns the pool that an earlier run left, if it matches, else a new one."""
        pool = self._swap(None)
        wanted = WorkerPool(most, environment)
        if pool is None or pool.is_configured_like(wanted):
            return pool or wanted
        pool.close()
        return wanted

    def leave(self, pool: WorkerPool) -> None:
        """Keeps a pool without running tasks."""
        if not main_thread().is_alive():
            pool.close()  # the process is ending: no run follows, and no timer can be started
            return
        before = self._swap(pool)
        if before is not None and before is not pool:
            before.close()

    def end(self) -> None:
        """Ends the waiting workers."""
        pool = self._swap(None)
        if pool is not None:
            pool.close()

    def _swap(self, pool: WorkerPool | None) -> WorkerPool | None:
        with self._lock:
            before, self._pool = self._pool, pool
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            if pool is not None:
                self._timer = Timer(self.seconds_kept, self._expired, [pool])
                self._timer.daemon = True
                self._timer.start()
        return before

    def _expired(self, pool: WorkerPool) -> None:
        with self._lock:
            if self._pool is not pool:
                return
            self._pool = None
        pool.close()


SPARE = SparePool()
atexit.register(SPARE.end)
