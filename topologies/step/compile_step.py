"""Compiles steps into a topology: each reads, collects by key, aggregates and sends; failed messages have a route of
their own."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from manager.remote import has_query
from topologies.graph.builder import GraphBuilder
from topologies.graph.graph import ERRORS, Graph, Stream
from topologies.io import sinks, spouts
from topologies.io.documents import brief, dotted, exact_float, no_constant, unique_pairs
from topologies.io.file_spout import FileSpout
from topologies.io.kafka import ISOLATION, Undeliverable
from topologies.io.sinks import Sink
from topologies.io.spouts import AnySpout
from topologies.step.aggregating import (
    AggregateMessages,
    DeadLetters,
    Route,
    Sender,
    StopAtFailure,
    rules_of,
    trigger_of,
)
from topologies.step.config import (
    AvroSchemaPlace,
    AvroSection,
    CsvSection,
    Destination,
    FilesConnection,
    FilesSource,
    JsonSection,
    KafkaConnection,
    KafkaSource,
    Place,
    XmlSection,
    same_servers,
)
from topologies.step.config_files import Step, StepConfig, StepConfigError, StepProblem
from topologies.step.read_bolt import (
    FAILING,
    KEY,
    REFUSED,
    UNREADABLE,
    WEIGHED_COLUMNS,
    CloseEnvelopes,
    LinesFormat,
    OpenEnvelopes,
    ReadMessages,
    UnreadLines,
)
from topologies.step.rules import file_below, load_rule, look_at_rule
from windowing.errors import ConfigError, WindboltError, did_you_mean
from windowing.schema import DEFAULT_STREAM

if TYPE_CHECKING:
    from topologies.io.messages import AvroSchema, MessageFormat


# Finds what a step names: a file, or a file on the class path, which is the folder of the step and Python's module
# folders.


def locate_file(place: Place) -> Path:
    """Returns the file of a place. On the class path a leading / means its top.

    ``source: file`` may be any file, even if rules must not be files (``--no-file-rules``), because it contains only
    schemas and variables, no code. Paths and links that lead out of the class path are refused, as for rules. Raises
    ConfigError if the file does not exist.
    """
    if place.source == "file":
        if not place.path.file.is_file():
            raise ConfigError(
                f"{str(place.path)!r} does not exist", why=f"it was looked up in {place.path.file.parent}"
            )
        return place.path.file
    file, _ = file_below([place.path.folder], place.path.text, repr(place.path.text))
    if file is not None:
        return Path(file)
    raise ConfigError(
        f"{str(place.path)!r} is not on the class path",
        why=f"it is neither in {place.path.folder} nor on Python's module path",
        do='put it there, add its folder to PYTHONPATH, or give source: "file"',
    )


def read_text(place: Place) -> str:
    """Returns the text of a place's file. Raises ConfigError if it cannot be read."""
    file = locate_file(place)
    try:
        return file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} cannot be read: {error}") from None


def read_variables(place: Place) -> dict[str, Any]:
    """Returns the variables in a JSON file. Raises ConfigError for other content."""
    text = read_text(place)
    try:
        variables = json.loads(
            text, object_pairs_hook=unique_pairs, parse_constant=no_constant, parse_float=exact_float
        )
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{place.path} is not JSON: {error}") from None
    if not isinstance(variables, dict):
        raise ConfigError(f"{place.path}: expected a JSON object of variables, found {brief(variables)}")
    return variables


# Makes the message formats that a step's file names.


FormatSection = JsonSection | XmlSection | CsvSection | AvroSection


def messages_of(section: FormatSection) -> MessageFormat:
    """Returns the message format for a format section. Raises ConfigError if a schema cannot be used."""
    from topologies.io.messages import AvroMessages, JsonMessages, XmlMessages

    match section:
        case JsonSection():
            return JsonMessages()
        case XmlSection():
            return XmlMessages()
        case CsvSection():
            return section.messages
        case AvroSection(schemas=schemas):
            return AvroMessages(tuple(schema_of(schema) for schema in schemas))


def schema_of(place: AvroSchemaPlace) -> AvroSchema:
    """Returns the schema in a file. Raises ConfigError if it is missing or invalid."""
    from topologies.io.messages import AvroSchema

    text = read_text(place)
    try:
        return AvroSchema.parse(text, place.default)
    except ConfigError as error:
        raise ConfigError(f"{place.path}: {error.what}", why=error.why, do=error.do) from error


# Sections that a run needs and the step's file lacks; another file may add them.


def missing_sections(config: StepConfig) -> list[str]:
    """Returns the sections that a run still needs: ``source``, ``connections.output``."""
    return [
        *(["source"] if config.source is None else []),
        *(f"connections.{name}" for name in _missing_connections(config)),
    ]


def check_complete(config: StepConfig) -> None:
    """Raises ConfigError, with the missing parts, if a step cannot be run."""
    gaps = missing_sections(config)
    if gaps:
        raise ConfigError(
            f"the step {config.file} cannot be run: it does not say {' and '.join(gaps)}",
            why="a run reads messages from the source, and writes to the connections named by the destinations",
            do=f"add this to the step, or to a file given with --with:\n{missing_sections_example(config)}\n",
        )


def missing_sections_example(config: StepConfig) -> str:
    """Returns an example, in HOCON, of the missing parts without which a step cannot be run."""
    lines: list[str] = []
    missing_connections = list(_missing_connections(config))
    for connection in missing_connections:
        meant = did_you_mean(connection, config.connections)
        lines += [f'  # "{connection}" is not among the connections{meant}'] if meant else []
    name = missing_connections[0] if missing_connections else next(iter(config.connections), "kafka")
    if config.source is None:
        is_files = isinstance(config.connections.get(name), FilesConnection)
        kafka = f'{{ type: kafka, topics: [input], config {{ type: kafka, name: "{name}" }} }}'
        files = '{ type: files, path: "input/*.jsonl" }'
        lines.append(f"  source {files if is_files else kafka}")
    if missing_connections:
        lines.append("  connections {")
        lines += [
            f'    "{connection}" {{ type: kafka, bootstrap.servers: "localhost:9092" }}'
            for connection in missing_connections
        ]
        lines += ["  }", '  # or, for files in place of Kafka: { type: files, path: "output" }']
    return "\n".join(lines)


def _missing_connections(config: StepConfig) -> Iterator[str]:
    """Yields the missing connections that the step names, each once."""
    used = [to.config.name for _, to in config.destinations]
    if isinstance(config.source, KafkaSource):
        used.append(config.source.config.name)
    yield from (name for name in dict.fromkeys(used) if name not in config.connections)


# Checks of a step that need the files it names: rules, schemas, variables.


def step_problems(config: StepConfig, *, load: bool, complete: bool = False) -> list[StepProblem]:
    """Returns all problems with the files that a step names.

    ``load``: True if rules are loaded, which runs their files but calls no rule; otherwise only their text is checked.
    ``complete``: True if missing settings that a run needs are problems too.
    """
    file = str(config.file)
    problems = [*_problems(config, load), *(_gaps(config) if complete else ())]
    return [StepProblem(file, path, text) for path, text in problems]


def _gaps(config: StepConfig) -> Iterator[tuple[str, str]]:
    gaps = [name for name in missing_sections(config) if name == "source" or not config.connections]
    if gaps:
        what = f"it does not say {' and '.join(gaps)}, which a run needs"
        yield (
            gaps[0].split(".")[0],
            f"{what}. Add this, here or in a file given with --with:\n{missing_sections_example(config)}",
        )


def _unknown_connections(config: StepConfig) -> Iterator[tuple[str, str]]:
    """Yields a problem for each destination, and for the source, if its connection does not exist. Yields none if the
    step has no connections at all, because another file then adds them."""
    uses = [(dotted(location), to.config.name) for location, to in config.destinations]
    if isinstance(config.source, KafkaSource):
        uses.append(("source", config.source.config.name))
    for section, name in uses:
        if config.connections and name not in config.connections:
            known, meant = ", ".join(config.connections), did_you_mean(name, config.connections)
            yield f"{section}.config.name", f"expected one of the connections ({known}), found {brief(name)}{meant}"


def _problems(config: StepConfig, load: bool) -> Iterator[tuple[str, str]]:
    yield from _unknown_connections(config)
    for location, step in config.steps:
        for path, text in _problems_of_step(step, load, files=config.allow_file_rules):
            yield f"{dotted(location)}.{path}" if location else path, text


def _problems_of_step(step: Step, load: bool, *, files: bool) -> Iterator[tuple[str, str]]:
    """Yields the problems with the files that one step names, with their places in its section."""
    if step.environment_variables:
        yield from _problem_of_call("environmentVariables", read_variables, step.environment_variables)
    for name, section in (("input", step.format.input), ("output", step.format.output)):
        path = f"format.{name}"
        if isinstance(section, AvroSection):
            results = [
                _problem_of_call(f"{path}.schema[{index}]", schema_of, schema)
                for index, schema in enumerate(section.schemas)
            ]
            schema_problems = [problem for problems in results for problem in problems]
            yield from schema_problems or _problem_of_call(path, messages_of, section)
        else:
            yield from _problem_of_call(path, messages_of, section)
    for path, rules in rules_of(step, files=files).items():
        yield from _problem_of_call(path, load_rule if load else look_at_rule, rules)


def _problem_of_call(path: str, call: Callable[[Any], object], argument: Any) -> Iterator[tuple[str, str]]:
    try:
        call(argument)
    except WindboltError as error:
        yield path, str(error).rstrip(".")


# Compiles steps into a topology: each reads, collects by key, aggregates and sends; failed messages have a route of
# their own.


SOURCE, OPEN, EVENT_COLUMNS, AGGREGATE, FAILURES, NONE = "source", "open", "read", "aggregate", "failures", "none"
UNREAD = "unread"


@dataclass(frozen=True)
class Parts:
    """Names of a step's components: fixed for the first step, with the step's name as prefix for others."""

    read: str = EVENT_COLUMNS
    aggregate: str = AGGREGATE
    failures: str = FAILURES
    none: str = NONE

    @classmethod
    def of(cls, step: Step) -> Parts:
        """Returns the names for a further step: ``totals-read``, ``totals-aggregate``."""
        name = as_component_name(step.name)
        return cls(*(f"{name}-{part}" for part in (EVENT_COLUMNS, AGGREGATE, FAILURES, NONE)))


def as_component_name(name: str) -> str:
    """Returns the name of a step or branch in a form that is valid within names of components and streams; a changed
    name gets a digest.

    Different names stay different, because a checkpoint identifies a step by this name.
    """
    slug = _slug(name)
    return slug if slug == name else f"{slug}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def aggregating_component(component: str) -> str:
    """Returns the aggregating component of a step for the component of its failures; other components unchanged."""
    return component.removesuffix(FAILURES) + AGGREGATE if component.endswith(FAILURES) else component


def step_topology(config: StepConfig, *, feed: AnySpout | None = None, load: bool = True) -> Graph:
    """Returns the topology of a step, and of the steps that follow it.

    ``feed``: replaces the source, to try out a step; sinks in memory then replace the connections, one for each
    destination. ``load``: True if rules are loaded now, so that their problems are found before the run; otherwise none
    of their files is run. Raises ConfigError if the step is incomplete, or a part that it names cannot be used.
    """
    if feed is None:
        check_complete(config)
    problems = step_problems(config, load=load)
    if problems:
        raise StepConfigError(config.file, problems)
    return _StepBuilder(config, feed, load).topology()


@dataclass(frozen=True)
class _TopicStream:
    """Messages on their way to a topic."""

    step: Step
    to: Destination
    stream: Stream


class _StepBuilder:
    """Builds a step and the steps that follow it, each from its own components."""

    def __init__(self, config: StepConfig, feed: AnySpout | None, load: bool) -> None:
        self.config, self.feed, self.load = config, feed, load
        self.builder = GraphBuilder(config.name)
        self.routes: list[_TopicStream] = []

    def topology(self) -> Graph:
        config, builder, first = self.config, self.builder, SOURCE
        builder.set_spout(SOURCE, self.feed or source_of(config))
        failing: list[Stream] = []
        if self.feed is None and isinstance(config.source, FilesSource):
            builder.set_bolt(OPEN, OpenEnvelopes(config.source.topic, config.error_details)).shuffle_grouping(SOURCE)
            first = OPEN
            failing = [(OPEN, UNREADABLE)]
            if config.error is not None or config.source.on_missing == "stop":
                builder.set_bolt(UNREAD, UnreadLines(config.source.topic)).shuffle_grouping(SOURCE, ERRORS)
                failing.append((UNREAD, DEFAULT_STREAM))
        parts = self._add_step(config, Parts(), (first, DEFAULT_STREAM), failing)
        step_sinks = _Sinks(builder, config, {SOURCE, OPEN, UNREAD, *parts})
        if self.feed is None:
            step_sinks.send(self.routes)
        else:
            step_sinks.keep(self.routes)
        return builder.build()

    def _add_step(
        self, step: Step, parts: Parts, before: Stream, failing: Sequence[Stream] = (), *, again: bool = False
    ) -> list[str]:
        """Adds a step that reads a stream, and the steps that follow it; returns the names of their components.

        ``failing``: streams of messages that failed before the step. ``again``: True if its input has failed in another
        step.
        """
        load_or_check = load_rule if self.load else look_at_rule
        rules = rules_of(step, files=self.config.allow_file_rules)
        rule = {name: load_or_check(named) for name, named in rules.items()}
        read = messages_of(step.format.input)
        reader = ReadMessages(read, step.key, rule.get("key"), step.error_details)
        self.builder.set_bolt(parts.read, reader).shuffle_grouping(*before)
        streams = branch_streams(step)
        sender = Sender(
            messages_of(step.format.output),
            self._route(step.destination, DEFAULT_STREAM),
            {branch.name: self._route(branch, streams[branch.name]) for branch in step.branches},
        )
        aggregate = AggregateMessages(
            read,
            rule["dsl"],
            sender,
            variables=read_variables(step.environment_variables) if step.environment_variables else {},
            keeps_cache=step.state_full,
            details=step.error_details,
            step=step.name,
        )
        aggregate = aggregate.with_key(KEY).with_trigger(
            trigger_of(step, read, rule.get("trigger")),
            refused_stream=REFUSED,
            max_events=step.trigger.max_events,
            max_bytes=step.trigger.max_bytes,
            bytes_of=WEIGHED_COLUMNS,
        )
        self.builder.set_bolt(parts.aggregate, aggregate, step.parallelism).fields_grouping(parts.read, KEY)
        self._add_failures(step, parts, failing, again=again)
        targets: list[tuple[Destination | Step, Stream]] = [
            (step.destination, (parts.aggregate, DEFAULT_STREAM)),
            *((branch, (parts.aggregate, streams[branch.name])) for branch in step.branches),
            *([(step.error, (parts.failures, DEFAULT_STREAM))] if step.error else []),
        ]
        self.routes += [_TopicStream(step, to, stream) for to, stream in targets if isinstance(to, Destination)]
        names = [parts.read, parts.aggregate, parts.failures, parts.none]
        for to, stream in targets:
            if isinstance(to, Step):
                names += self._add_step(to, Parts.of(to), stream, again=to is step.error)
        return names

    def _route(self, to: Destination | Step, stream: str) -> Route:
        """Returns the route of messages; Kafka's size limits do not apply between steps."""
        if isinstance(to, Step):
            return Route(to.name, stream)
        if self.feed is not None:
            return Route(to.topic, stream)
        sources = frozenset[str]() if self.config.allow_loops else looping_topics(self.config, to)
        return Route(to.topic, stream, largest(self.config, to), sources)

    def _add_failures(self, step: Step, parts: Parts, failing: Sequence[Stream], *, again: bool) -> None:
        """Adds the handling of messages that fail in a step, or before it."""
        match step.error:
            case None:
                bolt: DeadLetters | StopAtFailure = StopAtFailure(step.name)
            case Step() as error:
                bolt = DeadLetters(error.name, again=again)
            case error:
                limit = None if self.feed is not None else largest(self.config, error)
                bolt = DeadLetters(error.topic, limit, again=again)
        declarer = self.builder.set_bolt(parts.failures, bolt)
        failures_of_step = ((parts.read, UNREADABLE), (parts.aggregate, REFUSED), (parts.aggregate, FAILING))
        for component, stream in (*failing, *failures_of_step):
            declarer.shuffle_grouping(component, stream)
        if step.error is None:
            self.builder.set_sink(parts.none, sinks.discard()).from_(parts.failures)


def largest(config: StepConfig, destination: Destination) -> int | None:
    """Returns the most bytes in a message for a destination; None for a folder."""
    connection = config.connections[destination.config.name]
    return connection.largest if isinstance(connection, KafkaConnection) else None


def looping_topics(config: StepConfig, destination: Destination) -> frozenset[str]:
    """Returns the topics that the first step reads, if the destination is on the same Kafka."""
    source = config.source
    if not isinstance(source, KafkaSource):
        return frozenset()
    same_kafka = same_servers(config.connections, source.config.name, destination.config.name)
    return frozenset(source.topics) if same_kafka else frozenset()


def source_of(config: StepConfig) -> AnySpout:
    """Returns the spout of a step's source."""
    source = config.source
    assert source is not None
    if isinstance(source, FilesSource):
        return FileSpout(
            (source.path.location,),
            declared="line binary",
            format=LinesFormat(),
            files_per_batch=source.files_per_batch,
            on_missing=source.on_missing,
            on_change=source.on_change,
        )
    connection = config.connections[source.config.name]
    assert isinstance(connection, KafkaConnection)
    return spouts.kafka(
        connection.servers,
        source.topics,
        starting=source.starting_offsets,
        records_per_batch=source.max_offsets_per_trigger,
        options={name: value for name, value in connection.options.items() if name != ISOLATION},
        isolation=connection.options.get(ISOLATION, "read_committed"),  # type: ignore[arg-type]
    )


def branch_streams(step: Step) -> dict[str, str]:
    """Returns the stream of each branch, by branch name: ``branch-alerts``. Different names have different streams."""
    return {branch.name: f"branch-{as_component_name(branch.name)}" for branch in step.branches}


class _Sinks:
    """The sinks of all steps; equal destinations share a sink."""

    def __init__(self, builder: GraphBuilder, config: StepConfig, used_names: Collection[str]) -> None:
        """``used_names``: names that are already in use."""
        self.builder, self.config = builder, config
        self.names: set[str] = set(used_names)

    def send(self, routes: Iterable[_TopicStream]) -> None:
        """Sends each stream to its destination."""
        routes_by_sink: dict[tuple[str, str | Undeliverable | None], list[_TopicStream]] = {}
        for route in routes:
            connection_of_route = route.to.config.name
            is_files = isinstance(self.config.connections[connection_of_route], FilesConnection)
            group_of_route = route.to.topic if is_files else self._undeliverable(route.step, connection_of_route)
            routes_by_sink.setdefault((connection_of_route, group_of_route), []).append(route)
        for (connection_name, group_of_route), sink_routes in routes_by_sink.items():
            connection = self.config.connections[connection_name]
            name = self._name(sink_routes[0].to.name)
            if isinstance(connection, FilesConnection):
                closing = self._name(f"{name}-envelopes")
                bolt = self.builder.set_bolt(closing, CloseEnvelopes())
                for route in sink_routes:
                    bolt.shuffle_grouping(*route.stream)
                folder = _folder_in(connection.path.place, sink_routes[0].to.topic)
                self._sink(name, sinks.files(folder, format="jsonl"), [(closing, DEFAULT_STREAM)])
            else:
                assert not isinstance(group_of_route, str)
                topics = list(dict.fromkeys(route.to.topic for route in sink_routes))
                sink = sinks.kafka(connection.servers, topics=topics, options=connection.options)
                self._sink(
                    name,
                    replace(sink, undeliverable=group_of_route, largest=connection.largest),
                    [route.stream for route in sink_routes],
                )

    def _undeliverable(self, step: Step, connection: str) -> Undeliverable | None:
        """Returns the topic for messages of a missing topic: that of the step's errors, if it is on the same Kafka."""
        error = step.error
        if not isinstance(error, Destination):
            return None
        if not same_servers(self.config.connections, connection, error.config.name):
            return None
        return Undeliverable(error.topic, largest(self.config, error))

    def keep(self, routes: Iterable[_TopicStream]) -> None:
        """Keeps each stream in memory, under the name of its destination; streams with equal destination and format
        share a sink."""
        routes_by_sink: dict[tuple[Destination, str], list[_TopicStream]] = {}
        for route in routes:
            routes_by_sink.setdefault((route.to, repr(route.step.format.output)), []).append(route)
        for (to, _), sink_routes in routes_by_sink.items():
            self._sink(self._name(to.name), sinks.memory(), [route.stream for route in sink_routes])

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


def _folder_in(place: str, name: str) -> str:
    """Returns the path of a folder within a place; the options of a store stay at the end."""
    folder, sign, options = place.partition("?") if has_query(place) else (place, "", "")
    return f"{os.path.join(folder, name)}{sign}{options}"


def _slug(name: str) -> str:
    """Returns the name in a form that is valid for components and file names."""
    return re.sub(r"[^A-Za-z0-9_-]", "-", name).lstrip("-_") or "x"
