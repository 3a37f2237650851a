"""The folders of a run's file sinks, kept off other runs."""

from __future__ import annotations

import fcntl
import os

from topologies.graph.model import Topology
from topologies.io.places import locate
from topologies.io.sinks import FileSink
from windowing.errors import ConfigError


class Claims:
    """Keeps other runs out of the folders of a topology's file sinks, until ``release`` or the end of this process.

    Local folders only. The folder itself is locked, and no file in it, so that nothing is left behind that a reader
    could meet, or that could outlive the process.
    """

    def __init__(self, topology: Topology) -> None:
        """Raises ConfigError where another run has one of the folders."""
        self._held: list[int] = []
        try:
            for node in topology.sinks.values():
                if isinstance(node.sink, FileSink):
                    self._claim(node.name, node.sink.path)
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Let other runs have the folders."""
        while self._held:
            os.close(self._held.pop())

    def _claim(self, sink: str, path: str) -> None:
        filesystem, folder, uri = locate(path)
        if uri is not None:
            return
        filesystem.create_dir(folder, recursive=True)
        self._held.append(os.open(folder, os.O_RDONLY | os.O_DIRECTORY))
        try:
            fcntl.flock(self._held[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ConfigError(
                f"sink {sink!r}: another run is writing into {folder}",
                why="the files of both would have the same names, and the rows of one run would be gone",
                do="stop that run, wait for its end, or name another folder",
            ) from error
        except OSError:  # a file system that knows no locks on folders
            os.close(self._held.pop())
