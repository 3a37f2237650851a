"""From a windowed bolt as it is declared to one of the topology: its time, its windows, its streams."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import pyarrow as pa

from policies.choose_policies import choose_assigners, choose_policies, decided_by_policies, placeholder_lengths
from topologies.compose.checks import mistakes_of
from topologies.compose.checks.checked_bolt import CheckedBolt
from topologies.compose.checks.topology_limits import limits
from topologies.compose.default_time import settled_time, without_arrival
from topologies.compose.effects import all_idle
from topologies.compose.event_times import EventTimes, event_times
from topologies.compose.needed_columns import declared_columns
from topologies.compose.source_time import SourceRules, with_source_time
from topologies.graph.inner_columns import reserved_of_inputs
from topologies.graph.nodes.windowed import WindowedNode
from topologies.graph.origins import Origin
from topologies.graph.side_streams import ERRORS, LATE_COLUMNS, REASON
from topologies.graph.streams import Input
from windowing.bolts.joins.join import Join
from windowing.bolts.read_code import asks_for_expired
from windowing.bolts.windowed_bolt import StatefulWindowedBolt, WindowedBolt
from windowing.errors import ConfigError
from windowing.settings.panes import RETRACT, PaneMode

if TYPE_CHECKING:
    from topologies.compose.declarers import BoltDeclarer, DeclaredTopology
    from topologies.compose.known_streams import KnownStreams
    from topologies.compose.mistakes import Mistakes
    from windowing.settings import WindowSettings

MAX_INPUTS = 127
"""The number of an event's input is kept in one byte."""


@dataclass(frozen=True)
class _Reading:
    """What a windowed bolt reads."""

    bolt: str
    inputs: tuple[Input, ...]
    schemas: tuple[pa.Schema, ...]
    """Per input: its columns."""
    origins: tuple[tuple[Origin, ...], ...]
    """Per input: the windowed bolts whose watermark it carries."""

    @classmethod
    def of(cls, declarer: BoltDeclarer, known: KnownStreams) -> Self:
        inputs = tuple(declarer.inputs)
        schemas = tuple(known.schemas[each.stream] for each in inputs)
        return cls(declarer.name, inputs, schemas, tuple(known.origins(each.stream) for each in inputs))

    @property
    def streams(self) -> list[tuple[Input, pa.Schema]]:
        return list(zip(self.inputs, self.schemas, strict=True))

    @property
    def brings(self) -> list[bool]:
        """Per input: whether its events bring their times along."""
        return [bool(origins) for origins in self.origins]


def windowed_node(
    declarer: BoltDeclarer,
    outputs: Mapping[str, pa.Schema],
    declared: DeclaredTopology,
    known: KnownStreams,
    source_rules: SourceRules,
    mistakes: Mistakes,
) -> WindowedNode | None:
    """The bolt as a node; None after a mistake.

    Three arguments are added to: ``known`` by its streams, ``source_rules`` by what it does with the rules of its
    sources, and ``mistakes``.
    """
    before, name, written, reading = len(mistakes), declarer.name, declarer.bolt, _Reading.of(declarer, known)
    assert isinstance(written, WindowedBolt)
    try:
        bolt = _with_its_time(written, reading, known)
    except ConfigError as error:
        mistakes.append(error)
        return None
    settings = bolt.settings
    schema = _schema(bolt, reading, mistakes)
    times = event_times(name, settings, reading.streams, reading.brings, mistakes)
    mistakes.extend(limits(name, settings, declared.message_timeout, declared.max_spout_pending))
    if len(reading.inputs) > MAX_INPUTS:
        mistakes.tell(
            f"bolt {name!r} reads {len(reading.inputs)} streams",
            f"a bolt can read at most {MAX_INPUTS}",
            "merge some in a plain bolt before it",
        )
    checked = _checked(bolt, declarer.parallelism, reading, times, outputs, known)
    source_rules.note(name, checked.situation, written.settings, reading.inputs, reading.brings, known.source_times)
    mistakes.extend(mistakes_of(checked))
    if schema is None or len(mistakes) > before:
        return None
    outputs = _all_outputs(name, settings, outputs, schema, mistakes)
    try:
        node = _node(bolt, schema, times, outputs, checked, reading, known)
    except ConfigError as error:
        mistakes.tell_of(f"bolt {name!r}", error)
        return None
    if node.slicing is not None and {"window_bytes", "call_time"} & {rule for rule, _ in settings.asked}:
        mistakes.tell(
            f"bolt {name!r}: with_limits on an AggregateBolt whose windows are sums",
            "it holds no events, and no code of yours is called with its windows",
            "leave with_limits out",
        )
    if len(mistakes) > before:
        return None
    _make_known(node, known)
    return node


def _with_its_time(bolt: WindowedBolt, reading: _Reading, known: KnownStreams) -> WindowedBolt:
    """The bolt with the rules of its sources, and with the time that its system goes by where it names none."""
    name, streams, brings = reading.bolt, reading.streams, reading.brings
    settings = with_source_time(name, bolt.settings, streams, brings, known.source_times)
    if all(brings):
        settings = without_arrival(settings)
    return bolt.configured(settled_time(name, settings, streams, brings, known.spouts))


def _schema(bolt: WindowedBolt, reading: _Reading, mistakes: Mistakes) -> pa.Schema | None:
    """The columns of the bolt's windows; None after a mistake, which is reported."""
    name = reading.bolt
    try:
        schema = pa.unify_schemas(reading.schemas)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        mistakes.tell(
            f"bolt {name!r} reads streams whose columns of one name differ in type",
            str(error).splitlines()[0],
            "rename or cast one of them in a bolt before it",
        )
        return None
    reserved = reserved_of_inputs(schema.names)
    if reserved:
        mistakes.tell(
            f"bolt {name!r} reads columns {reserved}",
            "windbolt keeps columns of these names beside those of the events",
            "rename them in a bolt before it",
        )
    try:
        return declared_columns(name, bolt, schema, reading.inputs)
    except ConfigError as error:
        mistakes.append(error)
        return None


def _checked(
    bolt: WindowedBolt,
    parallelism: int,
    reading: _Reading,
    times: EventTimes,
    outputs: Mapping[str, pa.Schema],
    known: KnownStreams,
) -> CheckedBolt:
    settings = bolt.settings
    return CheckedBolt(
        name=reading.bolt,
        settings=settings,
        inputs=reading.streams,
        brings=reading.brings,
        outputs=[schema for stream, schema in outputs.items() if stream != ERRORS],
        parallelism=parallelism,
        event_time=times.event_time,
        groups_by=bolt.groups_by,
        rows_are_of_events=bolt.rows_are_of_events,
        takes_retractions=bolt.takes_retractions,
        asks_for_expired=asks_for_expired(bolt) if settings.expired is None else settings.expired,
        partitioned=any(each.stream[0] in known.partitioned for each in reading.inputs),
        parallel_windows=bolt.parallel_windows,
        stateful=isinstance(bolt, StatefulWindowedBolt),
        joined=bolt.keys_by_stream if isinstance(bolt, Join) else None,
    )


def _all_outputs(
    name: str, settings: WindowSettings, outputs: Mapping[str, pa.Schema], schema: pa.Schema, mistakes: Mistakes
) -> dict[str, pa.Schema]:
    """What the bolt emits, and the streams that its settings add."""
    found = dict(outputs)
    if settings.panes is not None and settings.panes.mode is PaneMode.RETRACTING:
        retract = pa.field(RETRACT, pa.bool_())
        found = {stream: each if stream == ERRORS else each.append(retract) for stream, each in found.items()}
    for stream, columns, which in (
        (settings.late_stream, LATE_COLUMNS, "late stream"),
        (settings.refused_stream, [pa.field(REASON, pa.string())], "refused stream"),
    ):
        if stream is None:
            continue
        if stream in found:
            mistakes.tell(f"bolt {name!r} has two streams {stream!r}", do=f"rename the {which}")
        added = [field.name for field in columns]
        doubled = [column for column in schema.names if column in added]
        if doubled:
            mistakes.tell(
                f"bolt {name!r} reads columns {doubled}, and has a stream {stream!r}",
                f"the {which} has the event's columns and adds columns of these names",
                "rename them in a bolt before it, or leave them out of those that the bolt declares (reads)",
            )
            continue
        found[stream] = pa.schema([*schema, *columns])
    return found


def _node(
    bolt: WindowedBolt,
    schema: pa.Schema,
    times: EventTimes,
    outputs: Mapping[str, pa.Schema],
    checked: CheckedBolt,
    reading: _Reading,
    known: KnownStreams,
) -> WindowedNode:
    """ConfigError where there are no policies for its settings."""
    settings, event_time = bolt.settings, times.event_time
    assigners = choose_assigners(settings, event_time=event_time)
    by_trigger = settings.key_trigger is not None
    queue_settings = placeholder_lengths(settings) if assigners or by_trigger else settings
    eviction, trigger = choose_policies(queue_settings, event_time=event_time)
    decided = not assigners and not by_trigger and decided_by_policies(settings, eviction, trigger)
    return WindowedNode(
        name=reading.bolt,
        bolt=bolt,
        parallelism=checked.parallelism,
        inputs=reading.inputs,
        outputs=outputs,
        schema=schema,
        event_time=event_time,
        carries_time=times.carried,
        origins=reading.origins if event_time else ((),) * len(reading.inputs),
        eviction=eviction,
        trigger=trigger,
        level=known.level_of(reading.inputs) + 1,
        assigners=assigners,
        clocked=tuple(by_trigger and each.stream[0] in known.clocked for each in reading.inputs),
        remembers=decided or (bool(assigners) and checked.asks_for_expired),
        idle=all_idle(checked.situation),
    )


def _make_known(node: WindowedNode, known: KnownStreams) -> None:
    settings = node.bolt.settings
    if node.event_time:
        known.add_origins(node.name, set(node.outputs) - {settings.late_stream}, [Origin(node.name)])
    if settings.key_trigger is not None:
        known.clocked.add(node.name)
    known.set_level(node.name, node.level)
