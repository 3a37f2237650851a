"""A worker process of the pool, started by ``processes.py``: it runs tasks until its driver disconnects or dies.

    python -m topologies.spark.workers.worker SOCKET DRIVER NOTE

The socket carries pickled messages (number, topology, job, item), each with only what is new to the worker: either a
topology, which it unpacks at once; or an item, with its job (function, context) if that has changed. The answer to each
is (process id, number, result, None), or (process id, number, None, ``TaskFailure``). A child that a bolt forks has
another process id, and does not answer. ``NOTE`` is a file in which the worker records the window it is working on
(``topologies/engine/failures.py``).
"""

from __future__ import annotations

import ctypes
import os
import pickle
import signal
import sys
from contextlib import suppress
from dataclasses import replace
from functools import partial
from multiprocessing.connection import Connection
from queue import SimpleQueue
from threading import Thread, local
from typing import TYPE_CHECKING, Any

from topologies.engine.failures import TaskFailure, in_this_process
from topologies.spark.process_memory import reuse_memory

if TYPE_CHECKING:
    from collections.abc import Callable

    from topologies.engine.batch import Context
    from topologies.graph.graph import Graph

_PR_SET_PDEATHSIG = 1
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
"""Signals that ask a run to stop."""


class Worker:
    """The state of a worker process: its topology, and the function and context of the current tasks."""

    def __init__(self) -> None:
        self._packed_topology = b""
        self._topology: Graph | None = None
        self._job: tuple[Callable[[Any, Context], Any], Context] | None = None

    def answer(self, number: int, topology: bytes | None, job: bytes | None, item: bytes | None) -> bytes:
        """Handles a message. The worker survives whatever a bolt raises, including ``sys.exit()``."""
        try:
            if topology is not None:
                self._packed_topology, self._topology, self._job = topology, None, None
                with suppress(BaseException):  # the tasks will report it
                    self._unpack_topology()
            if item is None:
                return _pickled_answer(number, None, None)
            if job is not None:
                function, context = pickle.loads(job)
                self._job = function, replace(context, topology=self._unpack_topology())
            assert self._job is not None
            return _pickled_answer(
                number, in_this_process(partial(self._job[0], pickle.loads(item), self._job[1])), None
            )
        except BaseException as error:
            return _pickled_answer(
                number, None, TaskFailure.of(error, None if self._job is None else self._job[1].batch)
            )

    def _unpack_topology(self) -> Graph:
        """Returns the topology, unpacked once; bolts are copied before use."""
        if self._topology is None:
            paths, topology = pickle.loads(self._packed_topology)
            # In the driver's order, so that a name means the same module there and here.
            present_paths = [path for path in paths if os.path.exists(path)]
            sys.path[:] = [*present_paths, *(path for path in sys.path if path not in present_paths)]
            self._topology = pickle.loads(topology)
        return self._topology


def main() -> None:
    """Runs tasks; does not return."""
    socket, driver, note = map(int, sys.argv[1:4])
    _die_with(driver)
    _hear_no_signals()
    os.set_inheritable(socket, False)
    os.set_inheritable(note, False)
    connection = Connection(socket)
    # A child must not answer in place of this worker, nor hide this worker's end from the driver.
    os.register_at_fork(after_in_child=connection.close)
    messages: SimpleQueue[bytes] = SimpleQueue()
    Thread(target=_listen, args=(connection, messages), daemon=True).start()
    # Imported now, so that the first task need not wait.
    import pyarrow as pa

    import topologies.engine.tasks  # noqa: F401
    from topologies.engine.failures import share

    pa.array([])  # to make an array of a list, Arrow imports pandas
    share(note)
    reuse_memory()

    worker = Worker()
    while True:
        answer = worker.answer(*pickle.loads(messages.get()))
        try:
            connection.send_bytes(answer)
        except OSError:
            os._exit(0)


def _listen(connection: Connection, messages: SimpleQueue[bytes]) -> None:
    """Receives messages; when the driver ends, the current task ends too, before it writes any more."""
    try:
        while True:
            messages.put(connection.recv_bytes())
    except (EOFError, OSError):
        os._exit(0)


def _die_with(driver: int) -> None:
    """Makes this process die immediately when the driver dies, even inside C code, by Linux's parent-death signal.

    Elsewhere the reaper ends the process.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != driver:  # it died before this call
        os._exit(0)


def _hear_no_signals() -> None:
    """Makes the worker ignore signals: the driver decides when a run ends, even if a signal goes to all processes
    (Ctrl-C, systemd, ``timeout``).

    Programs that a bolt starts, and children that it forks, receive signals as usual. The handlers here do nothing:
    unlike ignored signals, they are not passed on to programs, and they are removed from children.
    """
    for number in _SIGNALS:
        signal.signal(number, lambda *_: None)
        signal.siginterrupt(number, False)
    masks = local()

    def hold_back() -> None:  # else a signal to an unready child would be lost
        masks.before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)

    def let_through() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, masks.before)

    def hear() -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        let_through()

    os.register_at_fork(before=hold_back, after_in_parent=let_through, after_in_child=hear)


def _pickled_answer(number: int, result: Any, failure: TaskFailure | None) -> bytes:
    return pickle.dumps((os.getpid(), number, result, failure), pickle.HIGHEST_PROTOCOL)


if __name__ == "__main__":
    main()
