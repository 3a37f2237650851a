"""Detects files whose names are no text, which logs and checkpoints cannot hold, and listings therefore omit."""

from __future__ import annotations

import os
from collections.abc import Iterator

from topologies.io.file_spout import FileSpout
from topologies.io.patterns import find, passed_over
from topologies.io.spouts import AnySpout
from topologies.topology import Topology
from windowing.errors import DataError


def refuse_unnameable(topology: Topology) -> None:
    """Raise DataError if a present input file has a name that is not UTF-8."""
    for name, node in topology.spouts.items():
        names = list(unnameable(node.spout))
        if names:
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            raise DataError(
                f"spout {name!r}: '{names[0]}'{more} cannot be read",
                why="its name is not valid UTF-8, so no checkpoint can note it, and its rows would be missing from the "
                "output",
                do="rename it",
            )


def unnameable(spout: AnySpout) -> Iterator[str]:
    """The local files of a spout whose names are not UTF-8, in displayable form."""
    if not isinstance(spout, FileSpout) or not spout.is_here:
        return
    for path in sorted(entry.path for entry in find(spout.paths)):
        if passed_over(path) or not os.path.isfile(path):
            continue
        try:
            path.encode()
        except UnicodeEncodeError:
            yield os.fsencode(path).decode("utf-8", "backslashreplace")
