"""Composing a topology: spouts, bolts, groupings and sinks, by name, as with Storm's TopologyBuilder."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from topologies.building import build_topology
from topologies.groupings import AllGrouping, FieldsGrouping, GlobalGrouping, ShuffleGrouping
from topologies.model import Input, Stream, Topology
from windowing.bolt import BatchBolt, Bolt, WindowedBolt
from windowing.durations import Duration, as_duration
from windowing.errors import ConfigError
from windowing.rows import DEFAULT_STREAM

if TYPE_CHECKING:
    from topologies.sinks import Sink
    from topologies.spouts import Spout


@dataclass
class BoltDeclarer:
    """A bolt that has been set, and the streams that it is being given."""

    name: str
    bolt: Bolt | BatchBolt | WindowedBolt
    parallelism: int
    inputs: list[Input] = field(default_factory=list)

    def fields_grouping(self, component: str, *fields: str, stream: str = DEFAULT_STREAM) -> BoltDeclarer:
        """Read a stream; events with equal fields go to the same task."""
        return self._read(Input((component, stream), FieldsGrouping(fields)))

    def shuffle_grouping(self, component: str, stream: str = DEFAULT_STREAM) -> BoltDeclarer:
        """Read a stream; the tasks take turns, by the place of an event in its source."""
        return self._read(Input((component, stream), ShuffleGrouping()))

    def global_grouping(self, component: str, stream: str = DEFAULT_STREAM) -> BoltDeclarer:
        """Read a stream; all events go to the first task."""
        return self._read(Input((component, stream), GlobalGrouping()))

    def all_grouping(self, component: str, stream: str = DEFAULT_STREAM) -> BoltDeclarer:
        """Read a stream; every task gets a copy of every event."""
        return self._read(Input((component, stream), AllGrouping()))

    def _read(self, new: Input) -> BoltDeclarer:
        self.inputs.append(new)
        return self


@dataclass
class SinkDeclarer:
    """A sink that has been set, and the streams that it is being given."""

    name: str
    sink: Sink
    streams: list[Stream] = field(default_factory=list)

    def from_(self, component: str, stream: str = DEFAULT_STREAM) -> SinkDeclarer:
        """Take a stream. Of several streams, all must have the same columns."""
        self.streams.append((component, stream))
        return self


class TopologyBuilder:
    """Gathers the parts of a topology; ``build`` checks them all and reports every mistake at once."""

    def __init__(
        self,
        name: str,
        *,
        message_timeout: Duration | timedelta | str | None = None,
        max_spout_pending: int | None = None,
        on_invalid: str = "divert",
    ) -> None:
        """``message_timeout`` and ``max_spout_pending`` bound length plus slide, as Storm's do (ST-22, ST-23).

        ``on_invalid``: what happens to input that cannot be read, or has no usable event time. ``"divert"``: it goes,
        with its reason, to the ``errors`` stream of the component and is counted; ``"stop"``: the query stops with
        an error, and the batch is not committed.
        """
        self.name = name
        self.message_timeout = None if message_timeout is None else as_duration(message_timeout)
        self.max_spout_pending = max_spout_pending
        if on_invalid not in ("divert", "stop"):
            raise ConfigError(f"on_invalid={on_invalid!r}", why="there are two ways", do="use 'divert' or 'stop'")
        self.on_invalid = on_invalid
        self.spouts: list[tuple[str, Spout]] = []
        self.bolts: list[BoltDeclarer] = []
        self.sinks: list[SinkDeclarer] = []

    def set_spout(self, name: str, spout: Spout) -> None:
        """Add a source of events."""
        self.spouts.append((name, spout))

    def set_bolt(self, name: str, bolt: Bolt | BatchBolt | WindowedBolt, parallelism: int = 1) -> BoltDeclarer:
        """Add a bolt with so many tasks; call a ``..._grouping`` method on the result for each stream it reads."""
        declarer = BoltDeclarer(name, bolt, parallelism)
        self.bolts.append(declarer)
        return declarer

    def set_sink(self, name: str, sink: Sink) -> SinkDeclarer:
        """Add a sink; call ``from_`` on the result for each stream it takes."""
        declarer = SinkDeclarer(name, sink)
        self.sinks.append(declarer)
        return declarer

    def build(self) -> Topology:
        """The topology; TopologyError with all its mistakes where there are any."""
        return build_topology(self)
