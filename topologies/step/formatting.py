"""Creates the message formats that a step's file names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from topologies.step.config.formats import AvroSchemaPlace, AvroSection, CsvSection, JsonSection, XmlSection
from topologies.step.finding import read_text
from windowing.errors import ConfigError

if TYPE_CHECKING:
    from topologies.io.messages import AvroSchema, MessageFormat

FormatSection = JsonSection | XmlSection | CsvSection | AvroSection


def messages_of(given: FormatSection) -> MessageFormat:
    """The message format for a format section. Raises ConfigError where a schema cannot be used."""
    from topologies.io.messages import AvroMessages, JsonMessages, XmlMessages

    match given:
        case JsonSection():
            return JsonMessages()
        case XmlSection():
            return XmlMessages()
        case CsvSection():
            return given.messages
        case AvroSection(schemas=schemas):
            return AvroMessages(tuple(schema_of(schema) for schema in schemas))


def schema_of(place: AvroSchemaPlace) -> AvroSchema:
    """The schema in a file. Raises ConfigError where it is missing or invalid."""
    from topologies.io.messages import AvroSchema

    text = read_text(place)
    try:
        return AvroSchema.parse(text, place.default)
    except ConfigError as error:
        raise ConfigError(f"{place.path}: {error.what}", why=error.why, do=error.do) from error
