"""A step as a topology: read, gather by key, aggregate, and send on; what fails has a way of its own."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from topologies import sinks, spouts
from topologies.builder import TopologyBuilder
from topologies.model import Stream, Topology
from topologies.sinks import Sink
from topologies.spouts import FileSpout, Spout
from topologies.step.aggregating import AggregateMessages
from topologies.step.calling import rules_of, trigger_of
from topologies.step.checking import step_problems
from topologies.step.columns import FAILING, KEY, REFUSED, UNREADABLE
from topologies.step.config import StepConfig, StepConfigError
from topologies.step.config.connecting import Destination, FilesConnection, FilesSource, KafkaConnection
from topologies.step.dead_letters import DeadLetters, StopAtFailure
from topologies.step.envelopes import CloseEnvelopes, OpenEnvelopes
from topologies.step.finding import read_variables
from topologies.step.formatting import messages_of
from topologies.step.lines import LinesFormat
from topologies.step.missing import check_complete
from topologies.step.reading import ReadMessages
from topologies.step.sending import Sender
from windowing.rows import DEFAULT_STREAM

_MAX_REQUEST, _USUAL = "kafka.max.request.size", 1_048_576
"""What Kafka's producers take, where nothing else is said."""

SOURCE, OPEN, READ, AGGREGATE, FAILURES = "source", "open", "read", "aggregate", "failures"


def step_topology(config: StepConfig, *, feed: Spout | None = None) -> Topology:
    """The topology of a step; ConfigError where it is not complete, or where what it names cannot be used.

    ``feed``: takes the place of the source, and sinks in memory, one for each destination, that of the connections:
    for trying a step out.
    """
    if feed is None:
        check_complete(config)
    problems = step_problems(config)
    if problems:
        raise StepConfigError(config.file, problems)
    builder = TopologyBuilder(config.name)
    rules = rules_of(config)
    failing: list[Stream] = [(READ, UNREADABLE), (AGGREGATE, REFUSED), (AGGREGATE, FAILING)]
    builder.set_spout(SOURCE, feed or source_of(config))
    first = SOURCE
    if feed is None and isinstance(config.source, FilesSource):
        builder.set_bolt(OPEN, OpenEnvelopes(config.source.topic)).shuffle_grouping(SOURCE)
        first = OPEN
        failing.insert(0, (OPEN, UNREADABLE))
    read = messages_of(config.format.input)
    key_rule = rules["key"].load() if "key" in rules else None
    builder.set_bolt(READ, ReadMessages(read, config.key, key_rule)).shuffle_grouping(first)
    branches = branch_streams(config)
    sender = Sender(
        messages_of(config.format.output),
        config.destination.topic,
        {branch.name: (branches[branch.name], branch.topic) for branch in config.branches},
        None if feed is not None else _largest(config),
    )
    aggregate = AggregateMessages(
        read,
        rules["dsl"].load(),
        sender,
        variables=read_variables(config.environment_variables) if config.environment_variables else {},
        keeps_cache=config.state_full,
    )
    builder.set_bolt(
        AGGREGATE,
        aggregate.with_key(KEY).with_trigger(trigger_of(config, read), refused_stream=REFUSED),
        config.parallelism,
    ).fields_grouping(READ, KEY)
    _fail(builder, config, failing)
    routes = [
        (config.destination, (AGGREGATE, DEFAULT_STREAM)),
        *((branch, (AGGREGATE, branches[branch.name])) for branch in config.branches),
        *([(config.error, (FAILURES, DEFAULT_STREAM))] if config.error else []),
    ]
    if feed is None:
        _Sinks(builder, config).send(routes)
    else:
        _Sinks(builder, config).keep(routes)
    return builder.build()


def _largest(config: StepConfig) -> int | None:
    """How large a message may be for all of the destinations."""
    found = [config.connections[each.config.name] for each in (config.destination, *config.branches)]
    limits = [each.options.get(_MAX_REQUEST) or _USUAL for each in found if isinstance(each, KafkaConnection)]
    return min((int(limit) for limit in limits if str(limit).isdigit()), default=None)


def source_of(config: StepConfig) -> Spout:
    """Where the messages come from."""
    source = config.source
    assert source is not None
    if isinstance(source, FilesSource):
        return FileSpout(source.path.location, "line binary", LinesFormat(), source.files_per_batch)
    connection = config.connections[source.config.name]
    assert isinstance(connection, KafkaConnection)
    return spouts.kafka(
        connection.servers,
        source.topics,
        starting=source.starting_offsets,
        records_per_batch=source.max_offsets_per_trigger,
        options=connection.options,
    )


def branch_streams(config: StepConfig) -> dict[str, str]:
    """The streams of the branches, by their names: ``branch-alerts``."""
    streams: dict[str, str] = {}
    for branch in config.branches:
        name = f"branch-{_slug(branch.name)}"
        streams[branch.name] = name if name not in streams.values() else f"{name}-{len(streams)}"
    return streams


def _fail(builder: TopologyBuilder, config: StepConfig, failing: Iterable[Stream]) -> None:
    bolt = DeadLetters(config.error.topic) if config.error else StopAtFailure(config.name)
    declarer = builder.set_bolt(FAILURES, bolt)
    for component, stream in failing:
        declarer.shuffle_grouping(component, stream)
    if not config.error:
        builder.set_sink("none", sinks.discard()).from_(FAILURES)


class _Sinks:
    """The sinks of a step; destinations that go to the same place share one."""

    def __init__(self, builder: TopologyBuilder, config: StepConfig) -> None:
        self.builder, self.config = builder, config
        self.names: set[str] = {SOURCE, OPEN, READ, AGGREGATE, FAILURES, "none"}

    def send(self, routes: Iterable[tuple[Destination, Stream]]) -> None:
        """Send each stream to its destination."""
        places: dict[tuple[str, str], list[tuple[Destination, Stream]]] = {}
        for destination, stream in routes:
            connection = self.config.connections[destination.config.name]
            topic = destination.topic if isinstance(connection, FilesConnection) else ""
            places.setdefault((destination.config.name, topic), []).append((destination, stream))
        for (connection_name, topic), given in places.items():
            connection = self.config.connections[connection_name]
            name = self._name(given[0][0].name)
            if isinstance(connection, FilesConnection):
                closing = self._name(f"{name}-envelopes")
                bolt = self.builder.set_bolt(closing, CloseEnvelopes())
                for _, taken in given:
                    bolt.shuffle_grouping(*taken)
                folder = os.path.join(connection.path.location, topic)
                self._sink(name, sinks.files(folder, format="jsonl"), [(closing, DEFAULT_STREAM)])
            else:
                topics = list(dict.fromkeys(destination.topic for destination, _ in given))
                sink = sinks.kafka(connection.servers, topics=topics, options=connection.options)
                self._sink(name, sink, [stream for _, stream in given])

    def keep(self, routes: Iterable[tuple[Destination, Stream]]) -> None:
        """Keep each stream in memory, under the name of its destination."""
        for destination, stream in routes:
            self._sink(self._name(destination.name), sinks.memory(), [stream])

    def _sink(self, name: str, sink: Sink, streams: Iterable[Stream]) -> None:
        declarer = self.builder.set_sink(name, sink)
        for component, stream in streams:
            declarer.from_(component, stream)

    def _name(self, wanted: str) -> str:
        name = _slug(wanted)
        while name in self.names:
            name += "-1"
        self.names.add(name)
        return name


def _slug(name: str) -> str:
    """The name as one of a component's, which becomes a part of file names."""
    return re.sub(r"[^A-Za-z0-9_-]", "-", name).lstrip("-_") or "x"
