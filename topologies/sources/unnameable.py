"""Detects files whose names cannot be encoded, and which listings therefore silently omit."""

from __future__ import annotations

import os
from collections.abc import Iterator

from topologies.io.file_spout import FileSpout, hidden
from topologies.io.paths import shown_path
from topologies.io.patterns import candidates
from topologies.io.spouts import Spout
from topologies.topology import Topology
from windowing.errors import DataError

UTF8 = "utf-8"


def refuse_unnameable(topology: Topology, encoding: str = UTF8) -> None:
    """Raise DataError if a present input file has a name that cannot be encoded, for example in Java's encoding."""
    for name, node in topology.spouts.items():
        names = list(unnameable(node.spout, encoding))
        if names:
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            locale = "" if encoding.lower() == UTF8 else ", or set the locale to one of UTF-8 (LC_ALL=C.UTF-8)"
            raise DataError(
                f"spout {name!r}: '{names[0]}'{more} cannot be read",
                why=f"its name is not valid {encoding.upper()}, so Java does not list it, and its rows would be "
                "missing from the output",
                do=f"rename it{locale}",
            )


def unnameable(spout: Spout, encoding: str) -> Iterator[str]:
    """The local files of a spout whose names cannot be encoded, in displayable form."""
    if not isinstance(spout, FileSpout):
        return
    path = shown_path(spout.path)
    if "://" in path:
        return
    for candidate in sorted(candidates(path)):
        if hidden(candidate) or not os.path.isfile(candidate):
            continue
        try:
            candidate.encode(encoding)
        except UnicodeEncodeError:
            yield os.fsencode(candidate).decode(UTF8, "backslashreplace")
