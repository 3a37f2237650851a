"""Exclusive locks on the folders of a run's file sinks."""

from __future__ import annotations

import fcntl
import os

from manager.storage.file_systems.files import make_folder
from manager.storage.file_systems.storage_errors import as_storage_error, naming_owner
from topologies.io.paths import locate
from topologies.io.sinks import FileSink
from topologies.topology import Topology
from windowing.errors import ConfigError


class Claims:
    """Locks the folders of a topology's file sinks against other runs, from ``take`` until ``release`` or the end of
    this process.

    Local folders only. The folder itself is locked, not a file in it, so nothing is left behind that a reader could
    find or that could outlive the process.
    """

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self._held: list[int] = []

    def take(self) -> None:
        """Raises ConfigError if another run has locked one of the folders; none is locked then."""
        try:
            for node in self.topology.sinks.values():
                if isinstance(node.sink, FileSink):
                    with naming_owner(f"sink {node.name!r}"):
                        self._claim(node.name, node.sink.path)
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Release all locks."""
        while self._held:
            os.close(self._held.pop())

    def _claim(self, sink: str, path: str) -> None:
        filesystem, folder, uri = locate(path)
        if uri is not None:
            return
        make_folder(filesystem, folder)
        with as_storage_error(folder, "opened"):
            self._held.append(os.open(folder, os.O_RDONLY | os.O_DIRECTORY))
        try:
            fcntl.flock(self._held[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ConfigError(
                f"sink {sink!r}: another run is writing into {folder}",
                why="the files of both would have the same names, and one run would overwrite the other",
                do="stop that run, wait for its end, or name another folder",
            ) from error
        except OSError:  # the file system does not support locks on folders
            os.close(self._held.pop())
