"""Whether driver and executors see the same files: each writes where the other reads."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice

import pyarrow.fs as pafs

from manager.storage.file_systems.files import delete_folder, is_there, make_folder, read_bytes, write_private
from topologies.io.file_spout import FileSpout
from topologies.io.paths import locate, shown_path
from topologies.io.patterns import find, leading, passed_over
from topologies.io.sinks import FileSink
from topologies.topology import Topology
from windowing.errors import EnvironmentMissing, StorageError, WindboltError

_FOLDER = ".windbolt-probe"
"""In each folder that is written to; it is gone before the first batch."""
_DRIVER = "driver"


@dataclass(frozen=True)
class ProbedPlace:
    """A folder or file that every process of a run has to see."""

    what: str
    """What it is to the user: ``the checkpoint``."""
    path: str
    written: bool
    """Whether tasks write there; otherwise they only read."""

    @property
    def _found(self) -> tuple[pafs.FileSystem, str]:
        filesystem, inside, _ = locate(self.path)
        return filesystem, inside.rstrip("/") or "/"

    def prepare(self, probe: str) -> None:
        """On the driver: write what executors are to read."""
        if self.written:
            filesystem, folder = self._found
            make_folder(filesystem, f"{folder}/{_FOLDER}")
            write_private(filesystem, f"{folder}/{_FOLDER}/{_DRIVER}", probe.encode())

    def look(self, probe: str, task: int) -> str | None:
        """On an executor: read what the driver wrote, and write something; returns what is wrong, None for nothing."""
        try:
            filesystem, path = self._found
            if not self.written:
                return None if is_there(filesystem, path) else "it is not there"
            if not is_there(filesystem, path):
                return "it is not there"
            note = f"{path}/{_FOLDER}/{_DRIVER}"
            if not is_there(filesystem, note) or read_bytes(filesystem, note) != probe.encode():
                return "what the driver has written is not there: it is another folder of the same name"
            write_private(filesystem, f"{path}/{_FOLDER}/{task}", f"{probe}{task}".encode())
        except (StorageError, EnvironmentMissing, OSError, ValueError) as error:
            return _reason(error)
        return None

    def heard(self, probe: str, task: int) -> str | None:
        """On the driver: whether what an executor wrote is there; returns what is wrong, None for nothing."""
        if not self.written:
            return None
        try:
            filesystem, folder = self._found
            same = read_bytes(filesystem, f"{folder}/{_FOLDER}/{task}") == f"{probe}{task}".encode()
        except (StorageError, OSError) as error:
            return f"what it writes there the driver does not see: {_reason(error)}"
        return None if same else "what it writes there the driver does not see"

    def clear(self) -> None:
        """On the driver: take the probes away."""
        if self.written:
            filesystem, folder = self._found
            with suppress(StorageError):
                delete_folder(filesystem, f"{folder}/{_FOLDER}")


def places_of(topology: Topology, checkpoint: str) -> list[ProbedPlace]:
    """What every process of a run has to see, as far as it is there on the driver."""
    places = [ProbedPlace("the checkpoint", shown_path(checkpoint), True)]
    for name, node in topology.spouts.items():
        if isinstance(node.spout, FileSpout):
            places += [ProbedPlace(f"the input of spout {name!r}", path, False) for path in _inputs(node.spout)]
    for name, sink in topology.sinks.items():
        if isinstance(sink.sink, FileSink):
            places.append(ProbedPlace(f"the folder of sink {name!r}", shown_path(sink.sink.path), True))
    return places


def _inputs(spout: FileSpout) -> Iterator[str]:
    """The folders of a spout, and of each on this machine one of its files."""
    for path in spout.paths:
        yield from _input(path)


def _input(path: str) -> Iterator[str]:
    folder, _ = leading(path)
    yield folder
    if "://" not in folder:
        names = (entry.path for entry in find([path]))
        yield from islice((name for name in names if not passed_over(name) and os.path.isfile(name)), 1)


def _reason(error: Exception) -> str:
    if isinstance(error, EnvironmentMissing):  # its reason is not what is missing
        return error.what
    return str(error.why or error.what if isinstance(error, WindboltError) else error)
