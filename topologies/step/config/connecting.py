"""Where events come from and where they go: the source, destinations, and the connections that both name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, PlainValidator, field_validator, model_validator

from topologies.io.documents.showing import brief, kind_shown
from topologies.step.config.step_values import File, Section, Text, Whole, at_most, listed
from windowing.errors import ConfigError

_TOPIC = re.compile(r"[A-Za-z0-9._\-]{1,249}")
_USUAL = 1_048_576
"""Default maximum request size of Kafka's producers in bytes."""
_CONNECTION = 'the connection by its name: config: {type: "kafka", name: "output"}'


def is_topic(name: object) -> bool:
    """Whether Kafka accepts a topic name; such a name is also valid for a folder."""
    return isinstance(name, str) and _TOPIC.fullmatch(name) is not None and name not in (".", "..")


def _topic(value: str) -> str:
    if not is_topic(value):
        raise ValueError(f"expected a topic (up to 249 letters, digits, '.', '_' and '-'), found {brief(value)}")
    return value


Topic = Annotated[Text, AfterValidator(_topic)]
Messages = Annotated[Whole, at_most(1_000_000_000, "leave it out to take all that there are")]
Files = Annotated[Whole, at_most(1_000_000, "leave it out to take all that there are")]
Topics = Annotated[list[Topic], BeforeValidator(listed), Field(min_length=1)]


class ConnectionName(Section):
    """The name of a connection among ``connections``."""

    type: Literal["kafka", "files"] = "kafka"
    name: Text = Field(description="which of the connections it is: name: output")


class Destination(Section):
    """A topic of a connection, to which events are sent."""

    name: Text = Field(description="the name of this next step: name: output")
    type: Literal["destination"] = "destination"
    topic: Topic = Field(description="the topic to which the events go: topic: output")
    config: ConnectionName = Field(description=_CONNECTION)


class KafkaSource(Section):
    """Topics of Kafka."""

    type: Literal["kafka"]
    topics: Topics = Field(description="the topics to read: topics: [orders]")
    config: ConnectionName = Field(description=_CONNECTION)
    starting_offsets: Literal["earliest", "latest"] = "earliest"
    """Where a run without a checkpoint begins."""
    max_offsets_per_trigger: Messages | None = None
    """Maximum number of messages per batch."""

    @model_validator(mode="before")
    @classmethod
    def _one_topic(cls, value: Any) -> Any:
        """Accept ``topic: orders`` for ``topics: [orders]``."""
        if isinstance(value, Mapping) and "topic" in value and "topics" not in value:
            return {**{key: item for key, item in value.items() if key != "topic"}, "topics": value["topic"]}
        return value

    @field_validator("config")
    @classmethod
    def _of_kafka(cls, value: ConnectionName) -> ConnectionName:
        if value.type != "kafka":
            raise ValueError("expected a connection of type kafka, found one of type files; give source: {type: files}")
        return value


class FilesSource(Section):
    """Files of messages, one per line, each in an envelope."""

    type: Literal["files"]
    path: File = Field(description='a folder or a pattern of files: path: "input/*.jsonl"')
    topic: Topic | None = None
    """The topic of messages whose envelope names none."""
    files_per_batch: Files | None = None
    """Maximum number of files per batch."""
    on_missing: Literal["stop", "invalid"] = "stop"
    """What to do about a listed file that no longer exists when it is to be read."""
    on_change: Literal["warn", "error", "ignore"] = "warn"
    """What to do about a file that was changed after it was read."""


SourceSection: TypeAlias = Annotated[KafkaSource | FilesSource, Field(discriminator="type")]


def _servers(value: object) -> str:
    from topologies.io.kafka import checked_servers

    if not isinstance(value, str | list) or not all(isinstance(server, str) for server in value):
        raise ValueError(f'expected servers such as "host:9092,host:9092", found {kind_shown(value)}')
    try:
        return checked_servers(value)
    except ConfigError as error:
        raise ValueError(str(error).rstrip(".")) from None


class KafkaConnection(Section):
    """Kafka's servers, and further properties, named as in Kafka's clients."""

    type: Literal["kafka"]
    servers: Annotated[str, PlainValidator(_servers)] = Field(
        alias="bootstrap.servers", description='Kafka\'s servers: bootstrap.servers: "host:9092"'
    )
    properties: dict[str, str] = Field(default_factory=dict, repr=False)
    """They may contain passwords: no error and no description shows their values."""

    @property
    def options(self) -> dict[str, str]:
        """The properties in the form of Spark's connector: Kafka's own, which have no capitals, are prefixed with
        ``kafka.``."""
        return {
            name if name.startswith("kafka.") or not name.islower() else f"kafka.{name}": value
            for name, value in self.properties.items()
        }

    @property
    def largest(self) -> int:
        """Maximum size of a message in bytes, by ``max.request.size``."""
        said = self.options.get("kafka.max.request.size", "")
        return int(said) if said.isdigit() else _USUAL

    @model_validator(mode="before")
    @classmethod
    def _flat(cls, value: Any) -> Any:
        """Flatten ``security { protocol: SSL }``, which is HOCON for ``security.protocol: SSL``; all properties are
        beside ``type``."""
        if not isinstance(value, Mapping):
            return value
        flat = dict(_flattened(value))
        wrapped = next((name for name in flat if name.split(".")[0] == "properties"), None)
        if wrapped:
            known_as = wrapped.removeprefix("properties").lstrip(".") or "security.protocol"
            raise ValueError(f"expected properties beside the type ({known_as}: ...), found them within properties")
        kind = flat.pop("type", None)
        known: dict[str, Any] = {"type": kind}
        names = [name for name in ("bootstrap.servers", "bootstrapServers", "servers") if name in flat]
        if len(names) > 1:
            raise ValueError(f"expected one of {' and '.join(names)}, found both")
        if names:
            known["bootstrap.servers"] = flat.pop(names[0])
        return {**known, "properties": {name: _property(name, item) for name, item in flat.items()}}


class FilesConnection(Section):
    """A folder that contains a folder of files for each topic."""

    type: Literal["files"]
    path: File = Field(description='the folder in which each topic has a folder: path: "out"')


Connection: TypeAlias = Annotated[KafkaConnection | FilesConnection, Field(discriminator="type")]


def same_servers(connections: Mapping[str, Connection], one: str, other: str) -> bool:
    """Whether two connections are to the same Kafka: equal names, or a server in common."""
    if one == other:
        return True
    found = [connections.get(name) for name in (one, other)]
    servers = [set(connection.servers.split(",")) for connection in found if isinstance(connection, KafkaConnection)]
    return len(servers) == 2 and bool(servers[0] & servers[1])


def _flattened(value: Mapping[str, Any], before: str = "") -> list[tuple[str, Any]]:
    flat: list[tuple[str, Any]] = []
    for key, item in value.items():
        name = f"{before}{key}"
        flat += _flattened(item, f"{name}.") if isinstance(item, Mapping) else [(name, item)]
    return flat


def _property(name: str, value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int):
        return str(value)
    found = "a number with a fraction, whose spelling is lost" if isinstance(value, float) else kind_shown(value)
    raise ValueError(f"{name}: expected a text, found {found}; put it in quotes")
