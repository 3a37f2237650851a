"""A topology that has been built: what its parts are, who reads from whom, and what follows from that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from policies.eviction import EvictionPolicy
from policies.lateness import Lateness
from policies.trigger import CountTriggerPolicy, TriggerPolicy
from topologies.groupings import Grouping
from windowing.bolt import BatchBolt, Bolt, WindowedBolt
from windowing.durations import Duration
from windowing.rows import DEFAULT_STREAM
from windowing.schema import TIMESTAMP

if TYPE_CHECKING:
    from topologies.sinks import Sink
    from topologies.spouts import Spout

ERRORS = "errors"
"""The output stream, of every spout and bolt, of what could not be read."""

ERROR_SCHEMA = pa.schema(
    [
        ("_component", pa.string()),
        ("_source", pa.string()),
        ("_row", pa.int64()),
        ("_reason", pa.string()),
        ("_data", pa.string()),
    ]
)

LATE_COLUMNS = (
    pa.field("_stream", pa.string()),
    pa.field("_event_time", TIMESTAMP),
    pa.field("_reason", pa.string()),
    pa.field("_late_by_us", pa.int64()),
    pa.field("_watermark", TIMESTAMP),
)
"""What a late stream carries behind the event's own columns."""

Stream = tuple[str, str]
"""A component and one of its output streams."""


def stream_label(stream: Stream) -> str:
    """How a stream is called by people, and by ``window.stream(...)``: the component alone for its default stream."""
    return stream[0] if stream[1] == DEFAULT_STREAM else f"{stream[0]}.{stream[1]}"


@dataclass(frozen=True)
class Input:
    """A stream that a bolt reads, and how its events are shared out to the tasks."""

    stream: Stream
    grouping: Grouping


@dataclass(frozen=True)
class SpoutPart:
    """A spout under its name."""

    name: str
    spout: Spout
    outputs: Mapping[str, pa.Schema]


@dataclass(frozen=True)
class PlainPart:
    """A bolt without windows; it runs where its input is, in the same task."""

    name: str
    bolt: Bolt | BatchBolt
    parallelism: int
    inputs: tuple[Input, ...]
    outputs: Mapping[str, pa.Schema]
    carries_time: bool
    """Whether its events have event times and a watermark, from a windowed bolt before it."""


@dataclass(frozen=True)
class WindowedPart:
    """A windowed bolt, with the policies that its settings come to."""

    name: str
    bolt: WindowedBolt
    parallelism: int
    inputs: tuple[Input, ...]
    outputs: Mapping[str, pa.Schema]
    schema: pa.Schema
    """The columns of its windows: those of all input streams; a stream that lacks one has nulls there."""
    event_time: bool
    carried: tuple[bool, ...]
    """Per input: whether its events bring their time along, and the watermark of the bolt they come from."""
    origins: tuple[tuple[str, ...], ...]
    """Per input: the windowed bolts whose watermark it carries; empty where the times seen decide."""
    eviction: EvictionPolicy
    trigger: TriggerPolicy
    level: int
    """0 where it depends on no windowed bolt, else one more than those it depends on."""

    @property
    def streams(self) -> list[str]:
        """The names of its input streams."""
        return [stream_label(each.stream) for each in self.inputs]

    @property
    def lateness(self) -> Lateness:
        """Who comes too late for it."""
        return Lateness(self.eviction, self.trigger)

    @property
    def lag(self) -> Duration:
        """How far its watermark stays behind."""
        return self.bolt.settings.lag or Duration(0)


@dataclass(frozen=True)
class SinkPart:
    """A sink under its name, and the streams it takes."""

    name: str
    sink: Sink
    streams: tuple[Stream, ...]
    schema: pa.Schema


@dataclass(frozen=True)
class Topology:
    """A topology that ``TopologyBuilder.build`` found no fault with. Immutable, and sent to the workers as it is."""

    name: str
    spouts: Mapping[str, SpoutPart]
    plain: Mapping[str, PlainPart]
    windowed: Mapping[str, WindowedPart]
    """In an order in which each comes after those it depends on."""
    sinks: Mapping[str, SinkPart]
    stop_on_invalid: bool = False
    readers: Mapping[Stream, tuple[tuple[str, int], ...]] = field(default_factory=dict)
    """Per stream: the bolts that read it, and which of their inputs it is."""
    takers: Mapping[Stream, tuple[str, ...]] = field(default_factory=dict)
    """Per stream: the sinks that take it."""

    @property
    def levels(self) -> list[list[WindowedPart]]:
        """The windowed bolts, those that depend on no other first."""
        depth = 1 + max((part.level for part in self.windowed.values()), default=-1)
        return [[part for part in self.windowed.values() if part.level == level] for level in range(depth)]

    @property
    def needs_clock(self) -> bool:
        """Whether time must move on a quiet stream: a window follows the clock."""
        return any(
            not part.event_time and not (isinstance(part.trigger, CountTriggerPolicy) and part.eviction.reach is None)
            for part in self.windowed.values()
        )
