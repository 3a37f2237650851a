"""The sections of a step's file (UH-1), and the notation of their values."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    field_validator,
    model_validator,
)
from pydantic.alias_generators import to_camel

from topologies.io.documents import brief, kind_shown
from topologies.io.paths import literal
from windowing.durations import Duration, parse_duration
from windowing.errors import ConfigError
from windowing.settings.triggers import MOST_BYTES

if TYPE_CHECKING:
    from topologies.io.messages import CsvMessages
    from windowing.daytimes import DayTime, DayTimePattern


# Values in a step's file, and their notation.
#
# A number, or true and false, may be given as a text (``"100"``), because substitutions of the environment are texts. A
# number is not accepted for a text, because its spelling in the file (``1.10``) is lost. A time is a whole number of
# milliseconds, or has a unit (``5 s``, ``"5s"``, ``500 ms``, ``2 minutes``).


Details = Literal["full", "type"]
"""Part of an exception that is reported: everything, or its type and origin without its text."""


class PathText(str):
    """A path from a file; remembers the folder of that file."""

    folder: Path

    @classmethod
    def of(cls, text: str, folder: Path) -> PathText:
        """Returns the text with its folder."""
        given = cls(text)
        given.folder = folder
        return given


@dataclass(frozen=True)
class FilePath:
    """A path as written, and the folder to which it is relative."""

    text: str
    folder: Path

    def __str__(self) -> str:
        return self.text

    @property
    def file(self) -> Path:
        """The path of the file."""
        return self.folder / self.text

    @property
    def place(self) -> str:
        """The path of a folder, which may be on another file system."""
        return self.text if _names_its_system(self.text) else str(self.file)

    @property
    def location(self) -> str:
        """The path for readers that support folders, patterns and other file systems: only the user's own pattern
        characters have a meaning."""
        if _names_its_system(self.text) or os.path.isabs(self.text):
            return self.text
        return f"{literal(str(self.folder))}/{self.text}"


def _names_its_system(path: str) -> bool:
    """True if a path names its file system."""
    return "://" in path or path.startswith(("file:/", "dbfs:/"))


def _text(value: object) -> str:
    if isinstance(value, str) and value.strip():
        return str(value)
    quoted = " (in quotes)" if isinstance(value, int | float) else ""
    raise ValueError(f"expected a text{quoted}, found {brief(value)}")


def _path(value: object) -> FilePath:
    if isinstance(value, FilePath):
        return value
    return FilePath(_text(value), value.folder if isinstance(value, PathText) else Path.cwd())


_NUMBER = re.compile(r"\s*[-+]?[0-9]+\s*")
_UNITS = {
    **dict.fromkeys(("micro", "micros", "microsecond", "microseconds"), "us"),
    **dict.fromkeys(("milli", "millis", "millisecond", "milliseconds"), "ms"),
    **dict.fromkeys(("second", "seconds"), "s"),
    **dict.fromkeys(("minute", "minutes"), "m"),
    **dict.fromkeys(("hour", "hours"), "h"),
    **dict.fromkeys(("day", "days"), "d"),
}
"""HOCON's longer names of time units, with windbolt's."""
_NAMED_UNIT = re.compile(rf"\s*([0-9]+)\s*({'|'.join(_UNITS)})\s*")


def _whole_number(value: object) -> int:
    """Returns a whole number of 1 or more."""
    number = value
    if (isinstance(value, float) and value.is_integer()) or (isinstance(value, str) and _NUMBER.fullmatch(value)):
        number = int(value)
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise ValueError(f"expected a whole number of 1 or more, found {brief(value)}")
    return number


def at_most(limit: int, why: str) -> AfterValidator:
    """Returns a validator for the upper bound of a whole number; a larger one is a typing error, or too expensive."""

    def check(number: int) -> int:
        if number > limit:
            raise ValueError(f"expected a whole number of 1 to {limit:_}, found {number}: {why}")
        return number

    return AfterValidator(check)


def _flag(value: object) -> bool:
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    if not isinstance(value, bool):
        raise ValueError(f"expected true or false, found {brief(value)}")
    return value


def _time(value: object) -> Duration:
    """Returns a time above zero."""
    expected = 'expected a time above zero, as milliseconds (100) or with a unit ("5s")'
    try:
        duration = _duration(value)
    except ConfigError:
        duration = None
    if duration is None or duration.micros <= 0:
        raise ValueError(f"{expected}, found {brief(value)}")
    return duration


def _duration(value: object) -> Duration | None:
    if isinstance(value, Duration):
        return value
    if isinstance(value, float) and value.is_integer():
        return Duration(int(value) * 1_000)
    if isinstance(value, int) and not isinstance(value, bool):
        return Duration(value * 1_000)
    if isinstance(value, str):
        if _NUMBER.fullmatch(value):
            return Duration(int(value) * 1_000)
        named = _NAMED_UNIT.fullmatch(value)
        return parse_duration(f"{named[1]}{_UNITS[named[2]]}" if named else value)
    return None


def as_list(value: object) -> object:
    """Accept a single value for a list of one."""
    return [value] if isinstance(value, str | Mapping) else value


Text = Annotated[str, PlainValidator(_text), PlainSerializer(str)]
File = Annotated[FilePath, PlainValidator(_path), PlainSerializer(str)]
Whole = Annotated[int, PlainValidator(_whole_number)]
Flag = Annotated[bool, PlainValidator(_flag)]
TimeSetting = Annotated[Duration, PlainValidator(_time), PlainSerializer(str)]
Texts = Annotated[list[Text], BeforeValidator(as_list), Field(min_length=1)]


class Section(BaseModel):
    """A mapping of a step's file. Unknown keys are errors. Names are those of the file, such as ``stateFull``, at all
    levels."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        frozen=True,
        alias_generator=to_camel,
        arbitrary_types_allowed=True,
        validate_default=False,
        defer_build=True,  # few commands read such a file
    )


class Place(Section):
    """The place of rules, a schema or variables: a file, or a path below Python's module folders (``classpath``)."""

    source: Literal["classpath", "file"] = "classpath"
    path: File = Field(description='where it is: path: "rules/aggregate.py"')

    def __str__(self) -> str:
        return f"{self.path} ({'a file' if self.source == 'file' else 'on the class path'})"


# The formats of a step's messages (UH-2, UH-3).


Separator = Annotated[str, Field(min_length=1)]
"""A single character; a space and a tab are allowed."""


class JsonSection(Section):
    """A message is a JSON text."""

    type: Literal["json"]


class XmlSection(Section):
    """A message is an XML document."""

    type: Literal["xml"]


class CsvSection(Section):
    """A message is a line of fields."""

    type: Literal["csv"]
    column_separator: Separator = Field(description='what stands between two fields: columnSeparator: ";"')
    field_names: Texts = Field(description="the names of the fields, in their order: fieldNames: [id, amount]")
    field_types: dict[str, Literal["text", "int", "float", "bool"]] = Field(default_factory=dict)
    """The types of fields that are not plain text."""

    @property
    def messages(self) -> CsvMessages:
        """The format of such messages."""
        from topologies.io.messages import CsvMessages

        return CsvMessages(tuple(self.field_names), self.column_separator, self.field_types)

    @model_validator(mode="after")
    def _check_fields(self) -> CsvSection:
        try:
            _ = self.messages
        except ConfigError as error:
            raise ValueError(str(error).rstrip(".")) from None
        return self


class AvroSchemaPlace(Place):
    """The place of an Avro schema."""

    default: Flag = False
    """True if it applies to messages without the header schemaName."""


class AvroSection(Section):
    """A message is an Avro record, with the schema in its header schemaName (UH-3)."""

    type: Literal["avro"]
    schemas: Annotated[
        list[AvroSchemaPlace], BeforeValidator(lambda value: [value] if isinstance(value, dict) else value)
    ] = Field(
        alias="schema",
        min_length=1,
        description='the schemas of the records: schema: [{source: "file", path: "order.avsc", default: true}]',
    )

    @field_validator("schemas")
    @classmethod
    def _one_default(cls, value: list[AvroSchemaPlace]) -> list[AvroSchemaPlace]:
        defaults = [str(index) for index, schema in enumerate(value) if schema.default]
        if len(defaults) > 1:
            raise ValueError(f"expected one schema with default: true, found {len(defaults)} ({', '.join(defaults)})")
        return value


def _format_by_name(value: object) -> object:
    """Accepts ``json`` for ``{type: json}``; formats with more keys are mappings."""
    if isinstance(value, str):
        if value not in ("json", "xml"):
            raise ValueError(f'expected "json", "xml", or a mapping of type csv or avro, found {brief(value)}')
        return {"type": value}
    return value


MessageSection: TypeAlias = Annotated[
    Annotated[JsonSection | XmlSection | CsvSection | AvroSection, Field(discriminator="type")],
    BeforeValidator(_format_by_name),
]


class Formats(Section):
    """The formats of incoming and outgoing messages."""

    input: MessageSection = Field(description='what the messages that come in are: input: "json"')
    output: MessageSection = Field(description='what the messages that go out are: output: "json"')


# Source and destinations of events, and the connections that both name.


_TOPIC = re.compile(r"[A-Za-z0-9._\-]{1,249}")
_DEFAULT_REQUEST_BYTES = 1_048_576
"""Default maximum size in bytes of a request by Kafka's producers."""
_CONNECTION = 'the connection by its name: config: {type: "kafka", name: "output"}'


def is_topic(name: object) -> bool:
    """True if Kafka accepts a topic name; such a name is also valid for a folder."""
    return isinstance(name, str) and _TOPIC.fullmatch(name) is not None and name not in (".", "..")


def _topic(value: str) -> str:
    if not is_topic(value):
        raise ValueError(f"expected a topic (up to 249 letters, digits, '.', '_' and '-'), found {brief(value)}")
    return value


Topic = Annotated[Text, AfterValidator(_topic)]
MessageLimit = Annotated[Whole, at_most(1_000_000_000, "leave it out to take all that there are")]
FileLimit = Annotated[Whole, at_most(1_000_000, "leave it out to take all that there are")]
Topics = Annotated[list[Topic], BeforeValidator(as_list), Field(min_length=1)]


class ConnectionName(Section):
    """The name of a connection among ``connections``."""

    type: Literal["kafka", "files"] = "kafka"
    name: Text = Field(description="which of the connections it is: name: output")


class Destination(Section):
    """A topic of a connection to which events are sent."""

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
    """Offsets where a run without a checkpoint begins."""
    max_offsets_per_trigger: MessageLimit | None = None
    """Most messages in a batch."""

    @model_validator(mode="before")
    @classmethod
    def _one_topic(cls, value: Any) -> Any:
        """Accepts ``topic: orders`` for ``topics: [orders]``."""
        if isinstance(value, Mapping) and "topic" in value and "topics" not in value:
            return {**{key: item for key, item in value.items() if key != "topic"}, "topics": value["topic"]}
        return value

    @field_validator("config")
    @classmethod
    def _check_type(cls, value: ConnectionName) -> ConnectionName:
        if value.type != "kafka":
            raise ValueError("expected a connection of type kafka, found one of type files; give source: {type: files}")
        return value


class FilesSource(Section):
    """Files of messages, one per line, each in an envelope."""

    type: Literal["files"]
    path: File = Field(description='a folder or a pattern of files: path: "input/*.jsonl"')
    topic: Topic | None = None
    """The topic of messages whose envelope names none."""
    files_per_batch: FileLimit | None = None
    """Most files in a batch."""
    on_missing: Literal["stop", "invalid"] = "stop"
    """Action for a listed file that no longer exists when it is read."""
    on_change: Literal["warn", "error", "ignore"] = "warn"
    """Action for a file that was changed after it was read."""


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
    """Kafka properties. They may contain passwords, so no error and no description shows their values."""

    @property
    def options(self) -> dict[str, str]:
        """The properties in the form of Spark's connector: Kafka's own, which are in lower case, get the prefix
        ``kafka.``."""
        return {
            name if name.startswith("kafka.") or not name.islower() else f"kafka.{name}": value
            for name, value in self.properties.items()
        }

    @property
    def largest(self) -> int:
        """Most bytes in a message, by ``max.request.size``."""
        limit = self.options.get("kafka.max.request.size", "")
        return int(limit) if limit.isdigit() else _DEFAULT_REQUEST_BYTES

    @model_validator(mode="before")
    @classmethod
    def _flat(cls, value: Any) -> Any:
        """Flattens ``security { protocol: SSL }``, HOCON's form of ``security.protocol: SSL``; all properties are next
        to ``type``."""
        if not isinstance(value, Mapping):
            return value
        flat = dict(_flattened(value))
        wrapped = next((name for name in flat if name.split(".")[0] == "properties"), None)
        if wrapped:
            property_name = wrapped.removeprefix("properties").lstrip(".") or "security.protocol"
            raise ValueError(
                f"expected properties beside the type ({property_name}: ...), found them within properties"
            )
        kind = flat.pop("type", None)
        connection: dict[str, Any] = {"type": kind}
        names = [name for name in ("bootstrap.servers", "bootstrapServers", "servers") if name in flat]
        if len(names) > 1:
            raise ValueError(f"expected one of {' and '.join(names)}, found both")
        if names:
            connection["bootstrap.servers"] = flat.pop(names[0])
        return {**connection, "properties": {name: _property(name, item) for name, item in flat.items()}}


class FilesConnection(Section):
    """A folder that contains a folder of files for each topic."""

    type: Literal["files"]
    path: File = Field(description='the folder in which each topic has a folder: path: "out"')


Connection: TypeAlias = Annotated[KafkaConnection | FilesConnection, Field(discriminator="type")]


def same_servers(connections: Mapping[str, Connection], one: str, other: str) -> bool:
    """True if two connections are to the same Kafka: equal names, or a server in common."""
    from topologies.io.kafka import same_kafka

    if one == other:
        return True
    found = [connections.get(name) for name in (one, other)]
    servers = [connection.servers for connection in found if isinstance(connection, KafkaConnection)]
    return len(servers) == 2 and same_kafka(*servers)


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


# The section about the key of an event (UH-5 to UH-8).


ALGORITHMS = {
    "MD5": "md5",
    "SHA-1": "sha1",
    "SHA-224": "sha224",
    "SHA-256": "sha256",
    "SHA-384": "sha384",
    "SHA-512": "sha512",
    "SHA3-224": "sha3_224",
    "SHA3-256": "sha3_256",
    "SHA3-384": "sha3_384",
    "SHA3-512": "sha3_512",
}
"""Java's names of hash algorithms, with Python's."""

_ALGORITHM_SPELLINGS = {"".join(filter(str.isalnum, name)).lower(): name for name in ALGORITHMS} | {"sha": "SHA-1"}


def _algorithm(value: object) -> str:
    """Returns Java's name of an algorithm. Accepts any case, and SHA256 for SHA-256."""
    name = _ALGORITHM_SPELLINGS.get(value.replace("-", "").replace("_", "").lower()) if isinstance(value, str) else None
    if name is None:
        raise ValueError(f"expected one of {', '.join(ALGORITHMS)}, found {brief(value)}")
    return name


class MessageKey(Section):
    """Groups messages by their own key."""

    type: Literal["key"]


class HeadersKey(Section):
    """The values of these headers, separated by |, are the key (UH-6)."""

    type: Literal["headers"]
    keys: Texts = Field(description="the headers whose values make the key: keys: [region, shop]")


class HashKey(Section):
    """The key is the hash of the message's bytes in hexadecimal digits (UH-7)."""

    type: Literal["hash"]
    algorithm: Annotated[str, PlainValidator(_algorithm)] = "SHA-256"

    @property
    def hashlib_name(self) -> str:
        """Python's name of the algorithm."""
        return ALGORITHMS[self.algorithm]


class DslKey(Place):
    """A rule returns the key (UH-8)."""

    type: Literal["dsl"]


KeySection: TypeAlias = Annotated[MessageKey | HeadersKey | HashKey | DslKey, Field(discriminator="type")]


# The section about when the collected events of a key go to the rules (UH-14 to UH-23).


_TIMEOUT = 'how long after the last event of a key its window fires: timeout: 100 (milliseconds), or "5s"'
_PATTERN = "how times of day are written: timePattern: HH:mm:ss, or HH:mm:ssXXX with an offset"


def _pattern(pattern: str, zone: str) -> DayTimePattern:
    from windowing.daytimes import DayTimePattern

    return DayTimePattern(pattern, zone)


def _without_full_stop(error: ConfigError) -> str:
    return str(error).rstrip(".")


def _check_pattern(pattern: str, zone: str) -> None:
    try:
        _pattern(pattern, zone)
    except ConfigError as error:
        raise ValueError(_without_full_stop(error)) from None


def _known_pattern(pattern: str) -> str:
    _check_pattern(pattern, "UTC")
    return pattern


def _known_zone(zone: str) -> str:
    _check_pattern("HH", zone)
    return zone


EventLimit = Annotated[Whole, at_most(10_000_000, "all events of a window go to one call of the rules")]
ByteLimit = Annotated[
    Whole, at_most(MOST_BYTES, "the messages of a window go to one call, whose columns have less than 2^31 bytes")
]
LARGEST = 256 << 20
"""Default maximum size of a window in bytes. As Python objects, in one call of the rules, that is gigabytes."""
_MAX_EVENTS = "how many events a window holds at most, whatever its trigger says: maxEvents: 100000"
_MAX_BYTES = "how many bytes of values, keys and headers a window holds at most: maxBytes: 67108864"


def _refuse_max_events(number: int) -> int:
    raise ValueError("a window never holds more events than the count: leave maxEvents out, or lower the count")


Days = Annotated[Whole, at_most(36_500, "they are days, and that is a century; leave it out to keep keys for good")]

_PatternText = Annotated[Text, AfterValidator(_known_pattern)]
_ZoneText = Annotated[Text, AfterValidator(_known_zone)]


class CountTriggerSection(Section):
    """Fires at a number of events of a key, or after a timeout (UH-14, UH-15)."""

    type: Literal["count"]
    count: EventLimit = Field(description="how many events of a key make its window fire: count: 2")
    timeout: TimeSetting = Field(description=_TIMEOUT)
    should_fire_at_processing_time: Flag = True
    max_bytes: ByteLimit = Field(LARGEST, description=_MAX_BYTES)
    max_events: Annotated[Whole, AfterValidator(_refuse_max_events)] | None = None


class DslTriggerSection(Place):
    """Fires when a rule says so after an event, or after a timeout (UH-15 to UH-19)."""

    type: Literal["dsl"]
    timeout: TimeSetting = Field(description=_TIMEOUT)
    should_fire_at_processing_time: Flag = True
    max_events: EventLimit | None = Field(None, description=_MAX_EVENTS)
    max_bytes: ByteLimit = Field(LARGEST, description=_MAX_BYTES)


class TimeTriggerSection(Section):
    """Fires once a day at a fixed time (UH-20 to UH-22)."""

    type: Literal["time"]
    time: Text = Field(description='the time of day at which all windows fire: time: "11:05:00+03:00"')
    time_pattern: _PatternText = Field(description=_PATTERN)
    max_empty_intervals: Days | None = None
    zone: _ZoneText = "UTC"
    max_events: EventLimit | None = Field(None, description=_MAX_EVENTS)
    max_bytes: ByteLimit = Field(LARGEST, description=_MAX_BYTES)

    @property
    def at(self) -> DayTime:
        """The time of day."""
        return _pattern(self.time_pattern, self.zone).read(self.time)

    @model_validator(mode="after")
    def _known_time(self) -> TimeTriggerSection:
        try:
            _ = self.at
        except ConfigError as error:
            raise ValueError(f"time: {_without_full_stop(error)}") from None
        return self


class TimeFromEventTriggerSection(Place):
    """Fires once a day at a time that a rule takes from the events (UH-23)."""

    type: Literal["timeFromEvent"]
    time_pattern: _PatternText = Field(description=_PATTERN)
    max_empty_intervals: Days | None = None
    zone: _ZoneText = "UTC"
    max_events: EventLimit | None = Field(None, description=_MAX_EVENTS)
    max_bytes: ByteLimit = Field(LARGEST, description=_MAX_BYTES)

    @property
    def pattern(self) -> DayTimePattern:
        """The pattern of the rule's times."""
        return _pattern(self.time_pattern, self.zone)


TriggerSection: TypeAlias = Annotated[
    CountTriggerSection | DslTriggerSection | TimeTriggerSection | TimeFromEventTriggerSection,
    Field(discriminator="type"),
]
