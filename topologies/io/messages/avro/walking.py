"""Builds a function for the values of an Avro schema from those for its parts: what checks them, or what fits them.

The functions of named types are built once, as types may be recursive.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar, cast

from topologies.io.messages.avro.parsing import RECORDS, Parsed, avro_type

Built = TypeVar("Built", bound=Callable[..., Any])


class SchemaWalk(ABC, Generic[Built]):
    """Goes through a schema; what is built for each type a subclass says."""

    def __init__(self, parsed: Parsed) -> None:
        self._parsed = parsed
        self._named: dict[str, Built] = {}

    def of(self, schema: Any) -> Built:
        """The function of a schema."""
        return self.logical(schema) or self.primitives.get(avro_type(schema)) or self._composed(schema)

    @property
    @abstractmethod
    def primitives(self) -> Mapping[str, Built]:
        """The functions of the types without parts, by name."""

    @abstractmethod
    def logical(self, schema: Any) -> Built | None:
        """The function of a logical type; None where it is that of the type below, or there is none."""

    @abstractmethod
    def union(self, branches: Sequence[Any]) -> Built:
        """The function of a union of these schemas."""

    @abstractmethod
    def array(self, items: Built) -> Built:
        """The function of an array of such items."""

    @abstractmethod
    def mapping(self, values: Built) -> Built:
        """The function of a map to such values."""

    @abstractmethod
    def enum(self, name: str, symbols: Sequence[str]) -> Built:
        """The function of an enum."""

    @abstractmethod
    def fixed(self, size: int) -> Built:
        """The function for a value of this many bytes."""

    @abstractmethod
    def record(self, schema: Any, fields: Mapping[str, Built]) -> Built:
        """The function of a record with these fields, in order."""

    def _composed(self, schema: Any) -> Built:
        match avro_type(schema):
            case "union":
                return self.union(schema)
            case "array":
                return self.array(self.of(schema["items"]))
            case "map":
                return self.mapping(self.of(schema["values"]))
            case "enum":
                return self.enum(str(schema["name"]), tuple(schema["symbols"]))
            case "fixed":
                return self.fixed(int(schema["size"]))
            case name:
                return self._by_name(str(schema["name"]) if name in RECORDS else name)

    def _by_name(self, name: str) -> Built:
        if name not in self._named:
            self._named[name] = cast("Built", lambda *given: self._named[name](*given))  # noqa: PLW0108  until it has been built
            self._named[name] = self._definition(self._parsed.named[name])
        return self._named[name]

    def _definition(self, schema: Any) -> Built:
        if avro_type(schema) not in RECORDS:
            return self.of(schema)
        return self.record(schema, {str(field["name"]): self.of(field["type"]) for field in schema["fields"]})
