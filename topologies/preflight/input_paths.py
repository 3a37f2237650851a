"""Input that is not there: the same for both engines."""

from __future__ import annotations

from manager.storage.file_systems.hdfs import is_hdfs
from topologies.io.file_spout import FileSpout
from topologies.io.patterns import leading, look
from topologies.topology import Topology
from windowing.errors import ConfigError


def refuse_missing_input(topology: Topology) -> None:
    """Raise ConfigError for a spout of files on this machine that reads what is not there, or matches names in a
    folder that is not. UnreachableError where that cannot be seen."""
    for name, node in topology.spouts.items():
        if isinstance(node.spout, FileSpout) and node.spout.is_here:
            refuse_missing(name, node.spout)


def refuse_missing(name: str, spout: FileSpout) -> None:
    """Raise ConfigError for what ``missing_input`` tells of a spout."""
    problem = missing_input(name, spout)
    if problem is not None:
        raise problem


def missing_input(name: str, spout: FileSpout) -> ConfigError | None:
    """What is to be said of a spout whose file or folder, or the folder before its pattern, is not there."""
    for given in spout.paths:
        path, is_pattern = leading(given)
        entry = look(path)
        there = entry is not None and (entry.is_folder or not is_pattern)
        if there or (is_pattern and "://" in path and not is_hdfs(path)):  # a store has no folders without files
            continue
        return ConfigError(
            f"spout {name!r} reads {given!r}, and {path!r} is not there",
            why="the run would end successfully without having read anything"
            + (" of it" if len(spout.paths) > 1 else ""),
            do="make the folder before the run, or correct the path",
        )
    return None
