"""A worker process of the pool, started by ``workers.py``: it runs tasks until its driver hangs up, or dies.

    python -m topologies.spark.worker SOCKET

What comes through the socket are pickled triples (topology, job, item), of which each names what is new to the worker:
a topology alone, to be unpacked at once; or an item, after a job (function, context) if that is another than before.
Each is answered by a pair: the result and None, or None and a ``Failure``.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import traceback
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from topologies.engine.plan import Context
    from topologies.model import Topology

Failure = tuple[str, str]
"""The whole traceback, and its last words."""


class Worker:
    """What a worker process remembers: its topology, and the function and context of the tasks in hand."""

    def __init__(self) -> None:
        self._packed = b""
        self._topology: Topology | None = None
        self._job: tuple[Callable[[Any, Context], Any], Context] | None = None

    def answer(self, topology: bytes | None, job: bytes | None, item: bytes | None) -> bytes:
        """Do what a triple asks for. A bolt may end in anything, ``sys.exit()`` for one; this goes on."""
        try:
            if topology is not None:
                self._packed, self._topology, self._job = topology, None, None
                with suppress(BaseException):  # the tasks will meet it again, and say so
                    self._unpacked()
            if item is None:
                return _packed(None, None)
            from topologies.engine.failures import carried

            if job is not None:
                function, context = pickle.loads(job)
                self._job = function, replace(context, topology=self._unpacked())
            assert self._job is not None
            return _packed(carried(self._job[0], pickle.loads(item), self._job[1]), None)
        except BaseException as error:
            words = "".join(traceback.format_exception_only(error)).strip()
            return _packed(None, (traceback.format_exc(), words))

    def _unpacked(self) -> Topology:
        """The topology, unpacked once; bolts are copied before they are used."""
        if self._topology is None:
            paths, topology = pickle.loads(self._packed)
            # In the order that the driver has them, so that a name means the same module there and here.
            mine = [path for path in paths if os.path.exists(path)]
            sys.path[:] = [*mine, *(path for path in sys.path if path not in mine)]
            self._topology = pickle.loads(topology)
        return self._topology


def main() -> None:
    """Run tasks; does not return."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the driver decides when a run ends
    socket = int(sys.argv[1])
    os.set_inheritable(socket, False)
    connection = Connection(socket)
    asked: SimpleQueue[bytes] = SimpleQueue()
    Thread(target=_listen, args=(connection, asked), daemon=True).start()
    # The first task shall not wait for these.
    import topologies.engine.tasks  # noqa: F401

    worker = Worker()
    while True:
        answer = worker.answer(*pickle.loads(asked.get()))
        try:
            connection.send_bytes(answer)
        except OSError:
            os._exit(0)


def _listen(connection: Connection, asked: SimpleQueue[bytes]) -> None:
    """Take what comes; at the end of the driver the task in hand ends too, before it writes any more."""
    try:
        while True:
            asked.put(connection.recv_bytes())
    except (EOFError, OSError):
        os._exit(0)


def _packed(result: Any, failure: Failure | None) -> bytes:
    return pickle.dumps((result, failure), pickle.HIGHEST_PROTOCOL)


if __name__ == "__main__":
    main()
