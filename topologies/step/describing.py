"""A step in words, as a flowchart, and as data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from topologies.describing import label
from topologies.step.config import StepConfig
from topologies.step.config.connecting import Destination, FilesConnection, FilesSource, KafkaConnection
from topologies.step.config.formats import AvroFormat, CsvFormat, JsonFormat, XmlFormat
from topologies.step.config.keys import DslKey, HashKey, HeadersKey, MessageKey
from topologies.step.config.triggers import (
    CountTriggerSection,
    DslTriggerSection,
    TimeFromEventTriggerSection,
    TimeTriggerSection,
)
from topologies.step.missing import missing, snippet
from windowing.durations import Duration

Format = JsonFormat | XmlFormat | CsvFormat | AvroFormat


def as_text(config: StepConfig) -> str:
    """The step for people: where events come from, key, window, rules, and where results and failures go."""
    blocks = [[f"step {config.name} ({config.file})"]]
    for title, facts in _blocks(config):
        blocks.append([title, *(f"  {fact}" for fact in facts)])
    return "\n\n".join("\n".join(block) for block in blocks)


def summary(config: StepConfig) -> str:
    """That a step is well, and in a few lines what it is; what a run still needs is a remark, and no problem."""
    lines = [
        f"{config.file}: ok",
        f"  formats   {format_in_words(config.format.input)} to {format_in_words(config.format.output)}",
        f"  key       {key_in_words(config)}",
        f"  trigger   {trigger_in_brief(config)}",
        f"  rules     {config.dsl}",
        f"  results   {destination_in_words(config, config.destination)}",
    ]
    lines += [f"  branch    {branch.name}: {destination_in_words(config, branch)}" for branch in config.branches]
    failed = destination_in_words(config, config.error) if config.error else "stop the run (there is no error section)"
    lines.append(f"  failures  {failed}")
    gaps = missing(config)
    if gaps:
        lines += [f"  To run it, {' and '.join(gaps)} must be given too, here or with --with FILE:", snippet(config)]
    return "\n".join(lines)


def as_mermaid(config: StepConfig) -> str:
    """The step as a flowchart in Mermaid's language."""
    lines = [
        "flowchart LR",
        f"    source([{label('source', source_in_words(config))}])",
        f"    key[{label('key', key_in_words(config))}]",
        f"    window[{label('window', trigger_in_brief(config))}]",
        f"    rules[{label('rules', str(config.dsl))}]",
        "    source --> key",
        f"    key -->|{label('by key')}| window",
        "    window --> rules",
    ]
    for at, each in enumerate([config.destination, *config.branches]):
        lines.append(f"    out{at}[({label(each.name, destination_in_words(config, each))})]")
        text = f"|{label('branch ' + each.name)}|" if at else ""
        lines.append(f"    rules -->{text} out{at}")
    if config.error:
        lines.append(f"    error[({label(config.error.name, destination_in_words(config, config.error))})]")
        lines += [f"    {part} -->|{label('fails')}| error" for part in ("key", "window", "rules")]
    return "\n".join(lines)


def to_json(config: StepConfig) -> dict[str, Any]:
    """The step as plain JSON, with what a run still needs; properties of connections, secrets among them, are named."""
    data = config.model_dump(mode="json", by_alias=True, exclude_none=True)
    for connection in data["connections"].values():
        if "properties" in connection:
            connection["properties"] = sorted(connection["properties"])
    return {
        "step": data,
        "in_words": {title: list(facts) for title, facts in _blocks(config)},
        "missing": missing(config),
    }


def source_in_words(config: StepConfig) -> str:
    """Where a step's events come from."""
    match config.source:
        case None:
            return "not given"
        case FilesSource() as files:
            return f"files {files.path}"
        case kafka:
            connection = config.connections.get(kafka.config.name)
            at = f" at {connection.servers}" if isinstance(connection, KafkaConnection) else ""
            return f"Kafka {kafka.config.name}{at}, topic{_s(kafka.topics)} {', '.join(kafka.topics)}"


def key_in_words(config: StepConfig) -> str:
    """By which key events are gathered."""
    match config.key:
        case MessageKey():
            return "the key of the message"
        case HeadersKey(keys=keys):
            return f"the header{_s(keys)} {' | '.join(keys)}"
        case HashKey(algorithm=algorithm):
            return f"the {algorithm} of the message's bytes"
        case DslKey() as rules:
            return f"what the rules {rules} return"


def trigger_in_brief(config: StepConfig) -> str:
    """When windows fire, in a line."""
    match config.trigger:
        case CountTriggerSection() as trigger:
            return f"{trigger.count} event{'' if trigger.count == 1 else 's'}, timeout {trigger.timeout}"
        case DslTriggerSection() as trigger:
            return f"the rules {trigger}, timeout {trigger.timeout}"
        case TimeTriggerSection() as trigger:
            return f"daily at {trigger.time} ({trigger.time_pattern}{_zone(trigger.time_pattern, trigger.zone)})"
        case TimeFromEventTriggerSection() as trigger:
            pattern = f"{trigger.time_pattern}{_zone(trigger.time_pattern, trigger.zone)}"
            return f"daily at the time that the rules {trigger} return ({pattern})"


def destination_in_words(config: StepConfig, destination: Destination) -> str:
    """Where a destination's messages go."""
    name = destination.config.name
    match config.connections.get(name):
        case FilesConnection() as files:
            return f"files {files.path}/{destination.topic}/ (connection {name})"
        case KafkaConnection() as kafka:
            return f"Kafka {name} at {kafka.servers}, topic {destination.topic}"
    return f"{destination.config.type} {name} (a connection that is not given), topic {destination.topic}"


def format_in_words(given: Format) -> str:
    """A format of messages."""
    match given:
        case CsvFormat():
            return f"csv ({given.column_separator.join(given.field_names)})"
        case AvroFormat():
            return f"avro ({len(given.schemas)} schema{_s(given.schemas)})"
    return given.type


def _blocks(config: StepConfig) -> Iterator[tuple[str, Iterator[str]]]:
    yield "source", _source(config)
    yield "key", iter([key_in_words(config)])
    yield "window", _window(config)
    yield "rules", _rules(config)
    yield "results", _results(config)
    yield "failures", _failures(config)


def _source(config: StepConfig) -> Iterator[str]:
    yield source_in_words(config)
    yield f"messages are {format_in_words(config.format.input)}"
    yield from _schemas(config.format.input)
    gaps = missing(config)
    if gaps:
        yield f"to run it, {' and '.join(gaps)} must be given too, here or with --with FILE"


def _schemas(given: Format) -> Iterator[str]:
    if isinstance(given, AvroFormat):
        default = next((at for at, schema in enumerate(given.schemas) if schema.default), 0)
        for at, schema in enumerate(given.schemas):
            yield f"schema {schema}" + (", taken where the header schemaName is not given" if at == default else "")


def _window(config: StepConfig) -> Iterator[str]:
    yield f"one for each key; it opens with the key's first event; {_tasks(config.parallelism)} the keys"
    match config.trigger:
        case CountTriggerSection() as trigger:
            events = "1 event" if trigger.count == 1 else f"{trigger.count} events"
            yield f"fires at {events}, or at a timeout; then it is cleared"
            yield from _timeouts(trigger.timeout, trigger.should_fire_at_processing_time)
        case DslTriggerSection() as trigger:
            yield f"after each event, which is in the window already, the rules {trigger} say:"
            yield "  continue: gather on; fire: aggregate and keep the events; purge: clear without aggregating;"
            yield "  fireAndPurge: aggregate and clear, and so does anything else that they say"
            yield from _timeouts(trigger.timeout, trigger.should_fire_at_processing_time)
        case TimeTriggerSection() as trigger:
            zone = _zone(trigger.time_pattern, trigger.zone)
            yield f"fires once a day at {trigger.time} ({trigger.time_pattern}{zone}); then it is cleared"
            yield from _daily(trigger.max_empty_intervals)
        case TimeFromEventTriggerSection() as trigger:
            yield f"fires once a day at the time that the rules {trigger} return; then it is cleared"
            yield f"they write it {trigger.time_pattern}{_zone(trigger.time_pattern, trigger.zone)}"
            yield "the latest event decides; a time that has passed today is meant for tomorrow"
            yield from _daily(trigger.max_empty_intervals)


def _timeouts(timeout: Duration, from_first: bool) -> Iterator[str]:
    after = "the last event or the first, which comes sooner" if from_first else "the last event"
    yield f"timeout: {timeout} after {after}; it fires and clears"
    yield f"an event exactly {timeout} after the last joins the window"
    if from_first:
        yield f"an event exactly {timeout} after the first opens the next window"


def _daily(most: int | None) -> Iterator[str]:
    yield "an event of that very moment is in the next window"
    if most is None:
        yield "keys without events are kept"
    else:
        yield f"after {most} empty day{'' if most == 1 else 's'} in a row a key is forgotten, with its cache"


def _rules(config: StepConfig) -> Iterator[str]:
    yield f"{config.dsl} aggregate the events of a window that fires"
    if config.environment_variables:
        yield f"loadedVariables: {config.environment_variables}"
    yield (
        "the cache is kept across restarts"
        if config.state_full
        else "the cache is lost at a restart (stateFull: false)"
    )
    yield f"a call may take {config.rule_time_limit}"
    if not config.allow_file_rules:
        yield "rules in files are not allowed"


def _results(config: StepConfig) -> Iterator[str]:
    yield f"{config.destination.name}: {destination_in_words(config, config.destination)}"
    for branch in config.branches:
        yield f"branch {branch.name}: {destination_in_words(config, branch)}"
    yield f"messages are {format_in_words(config.format.output)}"
    yield from _schemas(config.format.output)


def _failures(config: StepConfig) -> Iterator[str]:
    if config.error is None:
        yield "the first event that fails stops the run; an error section would take it"
    else:
        yield f"{config.error.name}: {destination_in_words(config, config.error)}"
        yield "the events as they came, with the headers windbolt-reason, -topic, -partition and -offset"


def _zone(pattern: str, zone: str) -> str:
    return "" if "X" in pattern or "x" in pattern or "Z" in pattern else f", {zone}"


def _s(things: list[Any]) -> str:
    return "" if len(things) == 1 else "s"


def _tasks(parallelism: int) -> str:
    return "one task has" if parallelism == 1 else f"{parallelism} tasks share"
