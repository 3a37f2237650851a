"""Composing a topology: spouts, bolts, groupings and sinks, by name, as with Storm's TopologyBuilder."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Literal

from topologies.compose.compile_topology import build_topology
from topologies.compose.declared_html import declared_html
from topologies.compose.declarers import BoltDeclarer, DeclaredTopology, SinkDeclarer
from topologies.topology import Topology
from windowing.calls.checked import checked, checked_value
from windowing.data.reprs import one_line
from windowing.errors import ConfigError
from windowing.time.durations import Count, Duration, as_duration

if TYPE_CHECKING:
    from topologies.io.sinks import Sink
    from topologies.io.spouts import AnySpout
    from windowing.bolts.plain_bolts import BatchBolt, Bolt
    from windowing.bolts.windowed_bolt import WindowedBolt
    from windowing.settings.presets import Preset
    from windowing.spout import Spout


class TopologyBuilder:
    """Gathers the parts of a topology; ``build`` checks them all and reports every mistake at once."""

    @checked_value
    def __init__(
        self,
        name: str,
        *,
        message_timeout: Duration | timedelta | str | None = None,
        max_spout_pending: int | None = None,
        on_invalid: Literal["divert", "stop"] = "divert",
    ) -> None:
        """``message_timeout``, ``max_spout_pending``: the longest that a window may hold events, and the most of them,
        for all bolts; length plus slide must fit (ST-22, ST-23). By default there is no limit: nothing is replayed
        because a window is long, as Storm does after 30 s.

        ``on_invalid``: what happens to input that cannot be read, or has no usable event time. ``"divert"``: it goes,
        with its reason, to the ``errors`` stream of the component and is counted; ``"stop"``: the query stops with
        an error, and the batch is not committed.
        """
        if on_invalid not in ("divert", "stop"):
            raise ConfigError(
                f"on_invalid={on_invalid!r}",
                why="unreadable input can be diverted or stop the run",
                do="use 'divert' or 'stop'",
            )
        self._declared = DeclaredTopology(
            name,
            on_invalid,
            None if message_timeout is None else as_duration(message_timeout),
            None if max_spout_pending is None else Count(max_spout_pending).value,
        )

    def __repr__(self) -> str:
        made = self._declared
        bolts, outs = ([each.name for each in parts] for parts in (made.bolts, made.sinks))
        kinds = {"spouts": [name for name, _ in made.spouts], "bolts": bolts, "sinks": outs}
        parts = "; ".join(f"{kind} {', '.join(map(str, names))}" for kind, names in kinds.items() if names)
        return one_line(f"<TopologyBuilder {made.name!r}: {parts or 'empty'}>")

    def _repr_html_(self) -> str:
        return declared_html(self._declared)

    @checked
    def set_spout(self, name: str, spout: AnySpout | Spout, *, time: Preset | None = None) -> None:
        """Add a source of events: one of ``windbolt.spouts``, or a ``Spout`` of your own.

        ``time``: its time settings, ``presets.streaminsight(10, "5s")``: a default for every bolt that reads it and
        does not call ``with_time`` itself (SI-17, SI-18). StreamInsight's sources may differ in how they make
        watermarks and in what happens to late events, also where one bolt reads several; otherwise all sources of a
        bolt must have the same rules.
        """
        self._declared.spouts.append((name, spout))
        self._declared.times[name] = time

    @checked
    def set_bolt(self, name: str, bolt: Bolt | BatchBolt | WindowedBolt, parallelism: int = 1) -> BoltDeclarer:
        """Add a bolt with ``parallelism`` tasks; call a ``..._grouping`` method of the result for each stream it
        reads."""
        declarer = BoltDeclarer(name, bolt, parallelism)
        self._declared.bolts.append(declarer)
        return declarer

    @checked
    def set_sink(self, name: str, sink: Sink) -> SinkDeclarer:
        """Add a sink; call ``from_`` on the result for each stream it takes."""
        declarer = SinkDeclarer(name, sink)
        self._declared.sinks.append(declarer)
        return declarer

    @checked
    def build(self) -> Topology:
        """The topology; TopologyError with all its mistakes where there are any."""
        return build_topology(self._declared)
