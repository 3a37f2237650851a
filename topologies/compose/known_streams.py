"""What is known of the streams of a topology while it is compiled, from the spouts on, component by component."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from topologies.graph.origins import Origin
from topologies.graph.side_streams import ERRORS
from topologies.graph.streams import Input, Stream, stream_label
from windowing.data.returned_rows import DEFAULT_STREAM
from windowing.errors import ConfigError

if TYPE_CHECKING:
    from windowing.settings.presets import Preset


class KnownStreams:
    """The streams of all components that have been compiled so far."""

    def __init__(self) -> None:
        self.schemas: dict[Stream, pa.Schema] = {}
        self.spouts: dict[str, object] = {}
        """As they are read, by name."""
        self.source_times: dict[str, tuple[Preset | None, ...]] = {}
        """Per spout or plain bolt: the time settings that the spouts before it declare."""
        self.broken: set[str] = set()
        """Components whose streams are not known, for a mistake that has been told; of what reads them none is."""
        self.clocked: set[str] = set()
        """Components whose outputs come with a moment of the clock: of windows that a trigger fired."""
        self.partitioned: set[str] = set()
        """Components whose rows come from partitions of a source's own, with no window between."""
        self._origins: dict[Stream, tuple[Origin, ...]] = {}
        self._levels: dict[str, int] = {}

    def add(self, component: str, outputs: Mapping[str, pa.Schema]) -> None:
        """A component, with the columns of its output streams."""
        self.schemas.update({(component, stream): schema for stream, schema in outputs.items()})

    def add_origins(self, component: str, streams: Iterable[str], origins: Iterable[Origin]) -> None:
        """The windowed bolts whose watermark the output streams of a component carry."""
        carried = tuple(sorted(set(origins)))
        self._origins.update({(component, stream): carried for stream in streams if stream != ERRORS})

    def origins(self, stream: Stream) -> tuple[Origin, ...]:
        """The windowed bolts whose watermark a stream carries, with event times; none for late and error streams."""
        return self._origins.get(stream, ())

    def source_times_of(self, inputs: Iterable[Input]) -> list[Preset | None]:
        """The rules of time that the spouts before these inputs declare, with no window between."""
        return [time for each in inputs for time in self.source_times.get(each.stream[0], (None,))]

    def set_level(self, component: str, level: int) -> None:
        """How many windowed bolts lie on the longest way to a component, less one; itself included."""
        self._levels[component] = level

    def level_of(self, inputs: Iterable[Input]) -> int:
        """The level of what these inputs read; -1 where no window comes before them."""
        return max(self._levels.get(each.stream[0], -1) for each in inputs)

    def is_broken(self, stream: Stream) -> bool:
        """Whether a stream is unknown for a mistake that has been told."""
        return stream[0] in self.broken and stream not in self.schemas

    def unknown(self, who: str, stream: Stream) -> ConfigError:
        """What to say to somebody who reads a stream that is not there; ``who``: ``bolt 'total' reads``."""
        component, name = stream
        streams = sorted(label for (owner, label) in self.schemas if owner == component)
        components = sorted({owner for owner, _ in self.schemas})
        if streams == [ERRORS] and name == DEFAULT_STREAM:
            return ConfigError(
                f"{who} what {component!r} emits, and it emits nothing",
                why="it declares no outputs",
                do='declare its columns: outputs = "user string, total double"',
            )
        if streams:
            return ConfigError(
                f"{who} stream {name!r} of {component!r}",
                why=f"it has the streams {', '.join(streams)}",
                do="name one of these, or declare it (a late stream by with_late_tuple_stream)",
            )
        return ConfigError(
            f"{who} {component!r}",
            why=f"there is no such spout or bolt; there are {', '.join(components) or 'none'}",
            do=_of_dotted(component, components),
        )


def _of_dotted(name: str, components: list[str]) -> str:
    """What to do about a component that is not there: ``rev.late`` may mean a stream of one that is."""
    component, _, stream = name.partition(".")
    if stream and component in components:
        return f"name a stream of {component!r} by an argument: ..._grouping({component!r}, ..., stream={stream!r})"
    return "set it, or correct the name"


def read_twice(who: str, streams: Sequence[Stream]) -> Iterator[ConfigError]:
    """Streams that one bolt or sink reads more than once; ``who``: ``bolt 'total' reads``."""
    for stream in sorted({stream for stream in streams if streams.count(stream) > 1}):
        yield ConfigError(
            f"{who} {stream_label(stream)!r} twice", why="each event would count twice", do="read it once"
        )
