"""Files whose names cannot be written, and which therefore whoever lists files passes over without a word."""

from __future__ import annotations

import os
from collections.abc import Iterator

from topologies.graph.model import Topology
from topologies.io.patterns import candidates
from topologies.io.places import shown_path
from topologies.io.spouts import FileSpout, Spout, hidden
from windowing.errors import DataError

UTF8 = "utf-8"


def refuse_unnameable(topology: Topology, encoding: str = UTF8) -> None:
    """Raise DataError where input that is there now has a name which is no text in an encoding: that of Java, say."""
    for name, node in topology.spouts.items():
        found = list(unnameable(node.spout, encoding))
        if found:
            more = f" and {len(found) - 1} more" if len(found) > 1 else ""
            locale = "" if encoding.lower() == UTF8 else ", or set the locale to one of UTF-8 (LC_ALL=C.UTF-8)"
            raise DataError(
                f"spout {name!r}: '{found[0]}'{more} cannot be read",
                why=f"its name is no {encoding.upper()}, and a file that cannot be named is not listed: its rows would "
                "be missing without a word",
                do=f"rename it{locale}",
            )


def unnameable(spout: Spout, encoding: str) -> Iterator[str]:
    """The files of a spout on this machine whose names are no text in an encoding, as far as they can be shown."""
    if not isinstance(spout, FileSpout):
        return
    path = shown_path(spout.path)
    if "://" in path:
        return
    for found in sorted(candidates(path)):
        if hidden(found) or not os.path.isfile(found):
            continue
        try:
            found.encode(encoding)
        except UnicodeEncodeError:
            yield os.fsencode(found).decode(UTF8, "backslashreplace")
