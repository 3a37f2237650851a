"""The folders of file sinks: whether a run can make them and write there."""

from __future__ import annotations

import errno
import os
import tempfile

import pyarrow.fs as pafs

from manager.storage.file_systems.files import make_folder
from manager.storage.file_systems.storage_errors import as_storage_error, naming_owner
from topologies.graph.nodes.sink import SinkNode
from topologies.io.paths import shown_path
from topologies.io.sinks import FileSink
from topologies.preflight.findings import Findings
from topologies.topology import Topology
from windowing.errors import StorageError


def find_sinks(topology: Topology) -> dict[str, Findings]:
    """What was found of each sink, by its name. Nothing is made, and nothing is left behind."""
    return {name: _found(node) for name, node in topology.sinks.items()}


def make_sink_folders(topology: Topology) -> None:
    """Make the local folders of file sinks; StorageError for one that cannot be made or written to."""
    for node in topology.sinks.values():
        folder = _local_folder(node)
        if folder is not None:
            with naming_owner(f"sink {node.name!r}"):
                make_folder(pafs.LocalFileSystem(), folder)
                _try_writing(folder)


def _found(node: SinkNode) -> Findings:
    folder = _local_folder(node)
    if folder is None:
        return Findings()
    there = os.path.isdir(folder)
    try:
        with naming_owner(f"sink {node.name!r}"):
            _try_writing(folder if there else _nearest(folder))
    except StorageError as error:
        return Findings(problems=(error,))
    return Findings((("folder", "is there, and can be written to" if there else "is not there yet, and can be made"),))


def _local_folder(node: SinkNode) -> str | None:
    if not isinstance(node.sink, FileSink):
        return None
    folder = shown_path(node.sink.path)
    return None if "://" in folder else folder


def _nearest(folder: str) -> str:
    """The deepest folder above one that is not there; StorageError where what is above it is not a folder."""
    above = os.path.dirname(folder)
    while not os.path.lexists(above):
        above = os.path.dirname(above)
    if not os.path.isdir(above):
        with as_storage_error(folder, "made"):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), above)
    return above


def _try_writing(folder: str) -> None:
    """Open a file in a folder that has no name, or is deleted at once."""
    with as_storage_error(folder, "written to"), tempfile.TemporaryFile(dir=folder, prefix="."):
        pass
