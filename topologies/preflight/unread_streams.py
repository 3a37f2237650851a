"""The streams beside a component's output that nothing reads: rows that are counted there, and kept nowhere."""

from __future__ import annotations

from collections.abc import Iterator

from topologies.graph.side_streams import ERRORS
from topologies.topology import Topology
from windowing.settings.rules import LateAction


def untaken(topology: Topology) -> Iterator[str]:
    """What is kept nowhere, a sentence each: rows that cannot be read, and late events."""
    errors = [name for name in topology.spouts if not _errors_are_taken(topology, name)]
    if errors:
        yield f"the stream 'errors' of {', '.join(errors)} is not read: rows that cannot be read are counted, not kept"
    failed = [name for name, node in topology.plain.items() if node.bolt.on_error == "errors"]
    failed = [name for name in failed if not _errors_are_taken(topology, name)]
    if failed:
        yield f"the stream 'errors' of {', '.join(failed)} is not read: events on which it fails are counted, not kept"
    late = [name for name in topology.windowed if _late_is_lost(topology, name)]
    if late:
        yield f"the late events of {', '.join(late)} are not read: they are counted, not kept"


def _errors_are_taken(topology: Topology, component: str) -> bool:
    """Whether somebody takes the errors of a spout or a plain bolt: its own, or among those of a bolt that reads it."""
    readers = [name for stream, found in topology.readers.items() if stream[0] == component for name, _ in found]
    return any(_is_taken(topology, name, ERRORS) for name in (component, *readers))


def _late_is_lost(topology: Topology, bolt: str) -> bool:
    """Whether late events of a bolt are diverted, to a stream that nothing reads or to none."""
    node = topology.windowed[bolt]
    settings = node.bolt.settings
    from_spouts = not all(node.origins)
    if not node.event_time or not from_spouts or settings.late_action is not LateAction.DIVERT:
        return False
    return settings.late_stream is None or not _is_taken(topology, bolt, settings.late_stream)


def _is_taken(topology: Topology, name: str, stream: str) -> bool:
    return bool(topology.readers.get((name, stream)) or topology.takers.get((name, stream)))
