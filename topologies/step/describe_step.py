"""Describes a step as text, as a flowchart, and as data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from topologies.graph.describing import capacity_in_words, label
from topologies.step.compile_step import FormatSection, missing_sections, missing_sections_example
from topologies.step.config import (
    LARGEST,
    AvroSection,
    CountTriggerSection,
    CsvSection,
    Destination,
    DslKey,
    DslTriggerSection,
    FilesConnection,
    FilesSource,
    HashKey,
    HeadersKey,
    KafkaConnection,
    MessageKey,
    TimeFromEventTriggerSection,
    TimeTriggerSection,
)
from topologies.step.config_files import Step, StepConfig
from windowing.durations import Duration


def step_text(config: StepConfig) -> str:
    """Returns the step as text: its source, key, window and rules, and the destinations of results and failures; then
    the same for each following step."""
    blocks = [[f"step {config.name} ({config.file})"]]
    for name, described in _all_blocks(config).items():
        if name != config.name:
            blocks.append([f"step {name}"])
        blocks += [[title, *(f"  {fact}" for fact in facts)] for title, facts in described.items()]
    return "\n\n".join("\n".join(block) for block in blocks)


def summary(config: StepConfig) -> str:
    """Returns a few lines: a confirmation that the step is valid, and its description. Parts that a run still needs are
    a remark, not a problem."""
    lines = [f"{config.file}: ok"]
    for location, step in config.steps:
        lines += [f"  step {step.name}"] if location else []
        lines += [f"  {'  ' if location else ''}{line}" for line in _brief(config, step)]
    gaps = missing_sections(config)
    if gaps:
        lines += [
            f"  To run it, {' and '.join(gaps)} must be given too, here or with --with FILE:",
            missing_sections_example(config),
        ]
    return "\n".join(lines)


def _brief(config: StepConfig, step: Step) -> Iterator[str]:
    yield f"formats   {format_in_words(step.format.input)} to {format_in_words(step.format.output)}"
    yield f"key       {key_in_words(step)}"
    yield f"trigger   {trigger_in_brief(step)}"
    yield f"rules     {step.dsl}"
    yield f"results   {destination_in_words(config, step.destination)}"
    for branch in step.branches:
        yield f"branch    {branch.name}: {destination_in_words(config, branch)}"
    failed = destination_in_words(config, step.error) if step.error else "stop the run (there is no error section)"
    yield f"failures  {failed}"


def as_mermaid(config: StepConfig) -> str:
    """Returns the step, and the steps that follow it, as a flowchart in Mermaid's language."""
    lines = ["flowchart LR", f"    source([{label('source', source_in_words(config))}])"]
    suffixes = {step.name: f"{index}" if index else "" for index, (_, step) in enumerate(config.steps)}
    for _, step in config.steps:
        lines += _step_mermaid(config, step, suffixes)
    return "\n".join(lines)


def _step_mermaid(config: StepConfig, step: Step, suffixes: Mapping[str, str]) -> Iterator[str]:
    """Yields the nodes of a step and their outgoing edges; nodes of later steps have the step's number."""
    suffix = suffixes[step.name]
    key, window, rules = (f"{component}{suffix}" for component in ("key", "window", "rules"))
    yield f"    {key}[{label(f'{step.name}: key' if suffix else 'key', key_in_words(step))}]"
    yield f"    {window}[{label('window', trigger_in_brief(step))}]"
    yield f"    {rules}[{label('rules', str(step.dsl))}]"
    if not suffix:
        yield f"    source --> {key}"
    yield f"    {key} -->|{label('by key')}| {window}"
    yield f"    {window} --> {rules}"
    for index, to in enumerate([step.destination, *step.branches]):
        out = f"key{suffixes[to.name]}" if isinstance(to, Step) else f"out{suffix}{'_' if suffix else ''}{index}"
        if isinstance(to, Destination):
            yield f"    {out}[({label(to.name, destination_in_words(config, to))})]"
        text = f"|{label('branch ' + to.name)}|" if index else ""
        yield f"    {rules} -->{text} {out}"
    if step.error:
        error = f"key{suffixes[step.error.name]}" if isinstance(step.error, Step) else f"error{suffix}"
        if isinstance(step.error, Destination):
            yield f"    {error}[({label(step.error.name, destination_in_words(config, step.error))})]"
        yield from (f"    {part} -->|{label('fails')}| {error}" for part in (key, window, rules))


def to_json(config: StepConfig) -> dict[str, Any]:
    """Returns the step as plain JSON, with a list of the parts that are still missing before it can run. Properties of
    connections may be secret, so only their names are included."""
    data = config.model_dump(mode="json", by_alias=True, exclude_none=True)
    for connection in data["connections"].values():
        if "properties" in connection:
            connection["properties"] = sorted(connection["properties"])
    first, *others = _all_blocks(config).items()
    return {
        "step": data,
        "in_words": first[1],
        **({"next_in_words": dict(others)} if others else {}),
        "missing": missing_sections(config),
    }


def source_in_words(config: StepConfig) -> str:
    """Describes the source of a step's events."""
    match config.source:
        case None:
            return "not given"
        case FilesSource() as files:
            return f"files {files.path}"
        case kafka:
            connection = config.connections.get(kafka.config.name)
            servers = f" at {connection.servers}" if isinstance(connection, KafkaConnection) else ""
            return f"Kafka {kafka.config.name}{servers}, topic{_plural_s(kafka.topics)} {', '.join(kafka.topics)}"


def key_in_words(step: Step) -> str:
    """Returns the key by which events are collected, as text."""
    match step.key:
        case MessageKey():
            return "the key of the message"
        case HeadersKey(keys=keys):
            return f"the header{_plural_s(keys)} {' | '.join(keys)}"
        case HashKey(algorithm=algorithm):
            return f"the {algorithm} of the message's bytes"
        case DslKey() as rules:
            return f"what the rules {rules} return"


def trigger_in_brief(step: Step) -> str:
    """Describes when windows fire, in one line, and their capacity, if the step has one."""
    largest = None if step.trigger.max_bytes == LARGEST else step.trigger.max_bytes
    capacity = capacity_in_words(step.trigger.max_events, largest)
    return _trigger_in_brief(step) + (f", at most {capacity}" if capacity else "")


def _trigger_in_brief(step: Step) -> str:
    match step.trigger:
        case CountTriggerSection() as trigger:
            return f"{trigger.count} event{'' if trigger.count == 1 else 's'}, timeout {trigger.timeout}"
        case DslTriggerSection() as trigger:
            return f"the rules {trigger}, timeout {trigger.timeout}"
        case TimeTriggerSection() as trigger:
            return f"daily at {trigger.time} ({trigger.time_pattern}{_zone_suffix(trigger.time_pattern, trigger.zone)})"
        case TimeFromEventTriggerSection() as trigger:
            pattern = f"{trigger.time_pattern}{_zone_suffix(trigger.time_pattern, trigger.zone)}"
            return f"daily at the time that the rules {trigger} return ({pattern})"


def destination_in_words(config: StepConfig, destination: Destination | Step) -> str:
    """Describes the destination of messages."""
    if isinstance(destination, Step):
        return f"the step {destination.name}"
    name = destination.config.name
    match config.connections.get(name):
        case FilesConnection() as files:
            return f"files {files.path}/{destination.topic}/ (connection {name})"
        case KafkaConnection() as kafka:
            return f"Kafka {name} at {kafka.servers}, topic {destination.topic}"
    return f"{destination.config.type} {name} (a connection that is not given), topic {destination.topic}"


def _named_destination(config: StepConfig, to: Destination | Step) -> str:
    words = destination_in_words(config, to)
    return words if isinstance(to, Step) else f"{to.name}: {words}"


def format_in_words(section: FormatSection) -> str:
    """Returns a format of messages."""
    match section:
        case CsvSection():
            return f"csv ({section.column_separator.join(section.field_names)})"
        case AvroSection():
            return f"avro ({len(section.schemas)} schema{_plural_s(section.schemas)})"
    return section.type


def _all_blocks(config: StepConfig) -> dict[str, dict[str, list[str]]]:
    """Returns the description of each step, by its name."""
    predecessor: dict[str, str] = {}
    described = {}
    for location, step in config.steps:
        has_place = all(way == "error" for way in location)
        blocks = _blocks(config, step, predecessor.get(step.name), has_place=has_place)
        described[step.name] = {title: list(facts) for title, facts in blocks}
        predecessor[step.destination.name] = f"the results of step {step.name}"
        predecessor |= {branch.name: f"branch {branch.name} of step {step.name}" for branch in step.branches}
        predecessor |= {step.error.name: f"what fails in step {step.name}"} if step.error else {}
    return described


def _blocks(
    config: StepConfig, step: Step, predecessor: str | None, *, has_place: bool
) -> Iterator[tuple[str, Iterator[str]]]:
    """Yields the description of a step. ``predecessor``: the step before it; None for the source. ``has_place``: True
    if its messages were on a topic, or failed after that."""
    yield "source", _source(config, step, predecessor)
    yield "key", iter([key_in_words(step)])
    yield "window", _window(step)
    yield "rules", _rules(config, step)
    yield "results", _results(config, step)
    yield "failures", _failures(config, step, ", -topic, -partition and -offset" if has_place else " and -topic")


def _source(config: StepConfig, step: Step, predecessor: str | None) -> Iterator[str]:
    """Yields the description of the input. ``predecessor``: the step before; None for the source."""
    yield source_in_words(config) if predecessor is None else predecessor
    yield f"messages are {format_in_words(step.format.input)}"
    yield from _schemas(step.format.input)
    gaps = missing_sections(config)
    if gaps and predecessor is None:
        yield f"to run it, {' and '.join(gaps)} must be given too, here or with --with FILE"


def _schemas(section: FormatSection) -> Iterator[str]:
    if isinstance(section, AvroSection):
        default = next((index for index, schema in enumerate(section.schemas) if schema.default), 0)
        for index, schema in enumerate(section.schemas):
            yield f"schema {schema}" + (", taken where the header schemaName is not given" if index == default else "")


def _window(step: Step) -> Iterator[str]:
    yield f"one for each key; it opens with the key's first event; {_tasks(step.parallelism)} the keys"
    yield from _firing_facts(step)
    capacity = capacity_in_words(step.trigger.max_events, step.trigger.max_bytes)
    yield f"at most {capacity} of keys, values and headers; when it is full it fires and clears, whatever else holds"


def _firing_facts(step: Step) -> Iterator[str]:
    match step.trigger:
        case CountTriggerSection() as trigger:
            events = "1 event" if trigger.count == 1 else f"{trigger.count} events"
            yield f"fires at {events}, or at a timeout; then it is cleared"
            yield from _timeout_facts(trigger.timeout, trigger.should_fire_at_processing_time)
        case DslTriggerSection() as trigger:
            yield f"after each event, which is in the window already, the rules {trigger} say:"
            yield "  continue: gather on; fire: aggregate and keep the events; purge: clear without aggregating;"
            yield "  fireAndPurge: aggregate and clear, and so does anything else that they say"
            yield from _timeout_facts(trigger.timeout, trigger.should_fire_at_processing_time)
        case TimeTriggerSection() as trigger:
            zone = _zone_suffix(trigger.time_pattern, trigger.zone)
            yield f"fires once a day at {trigger.time} ({trigger.time_pattern}{zone}); then it is cleared"
            yield from _daily_facts(trigger.max_empty_intervals)
        case TimeFromEventTriggerSection() as trigger:
            yield f"fires once a day at the time that the rules {trigger} return; then it is cleared"
            yield f"they write it {trigger.time_pattern}{_zone_suffix(trigger.time_pattern, trigger.zone)}"
            yield "the latest event decides; a time that has passed today is meant for tomorrow"
            yield from _daily_facts(trigger.max_empty_intervals)


def _timeout_facts(timeout: Duration, from_first: bool) -> Iterator[str]:
    after = "the last event or the first, which comes sooner" if from_first else "the last event"
    yield f"timeout: {timeout} after {after}; it fires and clears"
    yield f"an event exactly {timeout} after the last joins the window"
    if from_first:
        yield f"an event exactly {timeout} after the first opens the next window"


def _daily_facts(most_empty_days: int | None) -> Iterator[str]:
    yield "an event of that very moment is in the next window"
    if most_empty_days is None:
        yield "keys without events are kept"
    else:
        days = "1 empty day" if most_empty_days == 1 else f"{most_empty_days} empty days"
        yield f"after {days} in a row a key is forgotten, with its cache"


def _rules(config: StepConfig, step: Step) -> Iterator[str]:
    yield f"{step.dsl} aggregate the events of a window that fires"
    if step.environment_variables:
        yield f"loadedVariables: {step.environment_variables}"
    yield (
        "the cache is kept across restarts" if step.state_full else "the cache is lost at a restart (stateFull: false)"
    )
    yield f"a call may take {step.rule_time_limit}"
    if not config.allow_file_rules:
        yield "rules in files are not allowed"


def _results(config: StepConfig, step: Step) -> Iterator[str]:
    yield _named_destination(config, step.destination)
    for branch in step.branches:
        yield f"branch {branch.name}: {destination_in_words(config, branch)}"
    yield f"messages are {format_in_words(step.format.output)}"
    yield from _schemas(step.format.output)


def _failures(config: StepConfig, step: Step, suffix: str) -> Iterator[str]:
    if step.error is None:
        yield "the first event that fails stops the run; an error section would take it"
    else:
        yield _named_destination(config, step.error)
        yield f"the events as they came, with the headers windbolt-reason{suffix}"
        if step.error_details == "type":
            yield "the reason is the type of what went wrong, and where; no texts of exceptions (errorDetails: type)"


def _zone_suffix(pattern: str, zone: str) -> str:
    return "" if "X" in pattern or "x" in pattern or "Z" in pattern else f", {zone}"


def _plural_s(things: list[Any]) -> str:
    return "" if len(things) == 1 else "s"


def _tasks(parallelism: int) -> str:
    return "one task has" if parallelism == 1 else f"{parallelism} tasks share"
