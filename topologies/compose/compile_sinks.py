"""The sinks of a topology: what they take, and where they write."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from topologies.compose.known_streams import KnownStreams, read_twice
from topologies.compose.mistakes import Mistakes
from topologies.graph.nodes.sink import SinkNode
from topologies.graph.streams import stream_label
from topologies.io.kafka import KafkaSink
from topologies.io.sinks import FileSink
from windowing.errors import ConfigError, WindboltError

if TYPE_CHECKING:
    from topologies.compose.declarers import SinkDeclarer


def sink_node(declarer: SinkDeclarer, known: KnownStreams, mistakes: Mistakes) -> SinkNode | None:
    """A sink with the columns of its rows; None where they are not known."""
    name = declarer.name
    if not declarer.streams:
        mistakes.tell(f"sink {name!r} reads no stream", do="call from_(component) on what set_sink returns")
    schemas = []
    for stream in declarer.streams:
        if stream in known.schemas:
            schemas.append(known.schemas[stream])
        elif not known.is_broken(stream):
            mistakes.append(known.unknown(f"sink {name!r} takes", stream))
    if any(not schema.equals(schemas[0]) for schema in schemas[1:]):
        labels = ", ".join(map(stream_label, declarer.streams))
        mistakes.tell(f"sink {name!r} takes {labels}", "their columns differ", "give each a sink of its own")
    try:
        declarer.sink.check()
        if schemas and isinstance(declarer.sink, KafkaSink):
            declarer.sink.check_columns(schemas[0])
    except WindboltError as error:
        mistakes.tell_of(f"sink {name!r}", error)
    except (AttributeError, TypeError):
        mistakes.tell(f"sink {name!r} is {declarer.sink!r:.60}", "that is not a sink", "use one of windbolt.sinks")
    mistakes.extend(read_twice(f"sink {name!r} takes", declarer.streams))
    return SinkNode(name, declarer.sink, tuple(declarer.streams), schemas[0]) if schemas else None


def shared_folders(sinks: Sequence[SinkDeclarer]) -> Iterator[ConfigError]:
    """Sinks that write to one folder: their files would bear the same names."""
    folders: dict[str, list[str]] = {}
    for declarer in sinks:
        if isinstance(declarer.sink, FileSink):
            folders.setdefault(os.path.realpath(declarer.sink.path), []).append(declarer.name)
    for folder, names in folders.items():
        if len(names) > 1:
            listed = ", ".join(map(repr, names))
            yield ConfigError(
                f"sinks {listed} write to {folder!r}", why="their files would bear the same names", do="use two"
            )
