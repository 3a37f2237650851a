"""What is taken of an event that is picked: a value of one of its columns, or several of them as a struct."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from windowing.aggregates.accumulators import as_number
from windowing.aggregates.declared import NO_ORDER, Aggregate, type_in
from windowing.aggregates.ranked import can_be_ranked
from windowing.errors import ConfigError

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Picking(Aggregate):
    """Of events that are picked by the order of a column: one of their columns, some as a struct, or all of them."""

    columns: tuple[str, ...] | None = None
    """The fields of the struct; None: a value of ``field``, or without one the whole event."""
    by: str | None = None
    """The column whose order it is."""
    types: tuple[tuple[str, pa.DataType], ...] = ()
    """What is kept of an event, once the topology is built: columns and their types."""
    order: pa.DataType | None = None
    """The type of ``by``, once the topology is built."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (isinstance(self.by, str) or (self.by is None and self.may_go_by_time)):
            raise ConfigError(
                f"{self}: {self.word}={self.by!r:.60}",
                why="it orders events by one column, given by name",
                do=f'write {self.word}="amount"',
            )
        if self.columns is None:
            return
        if not self.columns or not all(isinstance(name, str) for name in self.columns):
            raise ConfigError(
                f"{self}", why="the fields of the struct are columns, given by name", do="name at least one"
            )
        if len({*self.columns}) < len(self.columns):
            raise ConfigError(f"{self}", why="a field of a struct is known by its name", do="name each column once")

    def bound(self, name: str, schema: pa.Schema) -> Self:
        """The aggregate over these columns; ConfigError where one is missing, or ``by`` has no order."""
        whose = f"{name}={self}"
        names = self.columns or (schema.names if self.field is None else [self.field])
        types = tuple((column, type_in(schema, column, whose)) for column in names)
        if self.by is None:
            return replace(self, types=types)
        order = type_in(schema, self.by, whose)
        if as_number(order) is None and not can_be_ranked(order):
            raise ConfigError(f"{whose}: {self.by!r} is {order}", why=NO_ORDER[0], do=NO_ORDER[1])
        return replace(self, types=types, order=order)

    @property
    def fields(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.kept)

    @property
    def kept(self) -> tuple[tuple[str, pa.DataType], ...]:
        """The columns that are kept, and that of the order."""
        order = () if self.by is None else ((self.by, self.order),)
        return tuple(dict([*self.types, *order]).items())

    @property
    def picked(self) -> pa.DataType:
        """The type of what is taken of an event."""
        if self.field is not None:
            return self.types[0][1]
        return pa.struct([pa.field(name, kind) for name, kind in self.types])

    def taken(self, values: Mapping[str, pa.Array], missing: NDArray[Any] | None = None) -> pa.Array:
        """It, from the columns of events that were picked; null where none was."""
        if self.field is not None:
            return values[self.field]
        arrays = [values[name] for name, _ in self.types]
        fields = list(self.picked)
        return pa.StructArray.from_arrays(arrays, fields=fields, mask=None if missing is None else pa.array(missing))

    @property
    def arguments(self) -> list[str]:
        """Those of the call that made it."""
        shown = self.field if self.columns is None else list(self.columns)
        given = [] if shown is None else [repr(shown)]
        return given if self.by is None else [*given, f"{self.word}={self.by!r}"]

    @property
    def word(self) -> str:
        """The name of the argument ``by``."""
        return "by"

    @property
    def may_go_by_time(self) -> bool:
        """Whether ``by`` may be left out."""
        return False

    def __str__(self) -> str:
        return f"{self.function}({', '.join(self.arguments)})"

    @property
    def function(self) -> str:
        """The name of the function that made it."""
        raise NotImplementedError


def one_or_several(field: str | Sequence[str] | None) -> dict[str, Any]:
    """The arguments ``field`` and ``columns``: one column, or several; what is neither is refused as one."""
    if isinstance(field, list | tuple):
        return {"field": None, "columns": tuple(field)}
    return {"field": field, "columns": None}
