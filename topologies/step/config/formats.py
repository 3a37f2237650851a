"""The formats of a step's messages (UH-2, UH-3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from pydantic import BeforeValidator, Field, field_validator, model_validator

from topologies.io.documents.showing import brief
from topologies.step.config.step_values import Flag, Place, Section, Texts
from windowing.errors import ConfigError

if TYPE_CHECKING:
    from topologies.io.messages import CsvMessages


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
        """The format with which such messages are read and written."""
        from topologies.io.messages import CsvMessages

        return CsvMessages(tuple(self.field_names), self.column_separator, self.field_types)

    @model_validator(mode="after")
    def _possible(self) -> CsvSection:
        try:
            _ = self.messages
        except ConfigError as error:
            raise ValueError(str(error).rstrip(".")) from None
        return self


class AvroSchemaPlace(Place):
    """The place of an Avro schema."""

    default: Flag = False
    """Whether it is used for messages without the header schemaName."""


class AvroSection(Section):
    """A message is an Avro record, of the schema that its header schemaName names (UH-3)."""

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


def _named(value: object) -> object:
    """Accept ``json`` for ``{type: json}``; the formats that need more are mappings."""
    if isinstance(value, str):
        if value not in ("json", "xml"):
            raise ValueError(f'expected "json", "xml", or a mapping of type csv or avro, found {brief(value)}')
        return {"type": value}
    return value


MessageSection: TypeAlias = Annotated[
    Annotated[JsonSection | XmlSection | CsvSection | AvroSection, Field(discriminator="type")], BeforeValidator(_named)
]


class Formats(Section):
    """The formats of what comes in and of what goes out."""

    input: MessageSection = Field(description='what the messages that come in are: input: "json"')
    output: MessageSection = Field(description='what the messages that go out are: output: "json"')
