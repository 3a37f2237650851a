"""What a topology is made of, before it is checked: what has been set, and the streams that each part is given."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from topologies.graph.groupings import AllGrouping, FieldsGrouping, GlobalGrouping, ShuffleGrouping
from topologies.graph.streams import Input, Stream
from windowing.calls.checked import checked
from windowing.data.reprs import of_fields
from windowing.data.returned_rows import DEFAULT_STREAM

if TYPE_CHECKING:
    from topologies.io.sinks import Sink
    from topologies.io.spouts import AnySpout
    from windowing.bolts.plain_bolts import BatchBolt, Bolt
    from windowing.bolts.windowed_bolt import WindowedBolt
    from windowing.settings.presets import Preset
    from windowing.spout import Spout
    from windowing.time.durations import Duration


@dataclass
class BoltDeclarer:
    """A bolt that has been set, and the streams that it is being given."""

    name: str
    bolt: Bolt | BatchBolt | WindowedBolt
    parallelism: int
    inputs: list[Input] = field(default_factory=list)

    def __repr__(self) -> str:
        return of_fields(self)

    @checked
    def fields_grouping(self, component: str, *fields: str, stream: str = DEFAULT_STREAM) -> BoltDeclarer:
        """Read a stream; events with equal fields go to the same task.

        Without fields: by the key that the bolt has anyway, that of ``with_key``, of ``by=...``, or of a join.
        """
        return self._read(Input((component, stream), FieldsGrouping(fields)))

    @checked
    def shuffle_grouping(self, component: str, stream: str = DEFAULT_STREAM) -> BoltDeclarer:
        """Read a stream; the tasks take turns, by the place of an event in its source."""
        return self._read(Input((component, stream), ShuffleGrouping()))

    @checked
    def global_grouping(self, component: str, stream: str = DEFAULT_STREAM) -> BoltDeclarer:
        """Read a stream; all events go to the first task."""
        return self._read(Input((component, stream), GlobalGrouping()))

    @checked
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

    def __repr__(self) -> str:
        return of_fields(self)

    @checked
    def from_(self, component: str, stream: str = DEFAULT_STREAM) -> SinkDeclarer:
        """Take a stream. Of several streams, all must have the same columns."""
        self.streams.append((component, stream))
        return self


@dataclass
class DeclaredTopology:
    """All parts of a topology, in the order in which they were set."""

    name: str
    on_invalid: str = "divert"
    message_timeout: Duration | None = None
    max_spout_pending: int | None = None
    spouts: list[tuple[str, AnySpout | Spout]] = field(default_factory=list)
    times: dict[str, Preset | None] = field(default_factory=dict)
    """By spout: the time settings that it declares."""
    bolts: list[BoltDeclarer] = field(default_factory=list)
    sinks: list[SinkDeclarer] = field(default_factory=list)
