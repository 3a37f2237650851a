"""To which task of a bolt a stored row goes from now on: by the hash that also sends new events there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from topologies.checkpoints.rescaling.movable import Movable
from topologies.graph.groupings import FieldsGrouping
from windowing.data.conversion import REFUSED, converted, of_values
from windowing.data.schema import parse_schema
from windowing.errors import CheckpointError, ConfigError

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass
class Route:
    """The way to the new tasks of one bolt."""

    bolt: str
    movable: Movable
    parallelism: int
    _known: dict[int, int] = field(default_factory=dict)
    """The task of each key whose events have been seen, by the code of the key."""
    shared: dict[int, int] = field(default_factory=dict)
    """The hash of each key that shares it with another, by the code of the key."""

    def of_rows(self, table: pa.Table, streams: NDArray[np.int8] | None) -> NDArray[np.int64]:
        """The task of each row; ``streams`` is the input that each came by, None for the first."""
        tasks = np.zeros(table.num_rows, np.int64)
        if self.movable.in_one_task:
            return tasks
        for code, fields in enumerate(self.movable.fields):
            rows = slice(None) if streams is None else np.flatnonzero(streams == code)
            part = table if streams is None else table.take(pa.array(rows))
            tasks[rows] = self._tasks(part, fields)
            if streams is None:
                break
        return tasks

    def of_keys(self, table: pa.Table) -> NDArray[np.int64]:
        """The task of each row of a table that has the columns of the key."""
        fields = self.movable.fields[0]
        return self._tasks(table, fields) if fields else np.zeros(table.num_rows, np.int64)

    def as_keys(self, table: pa.Table) -> pa.Table:
        """Columns that a bolt keeps as the fields of the first input, of whose types they may not be.

        The hash of a number depends on its type: 1.0 and 1 are different keys for it, and one key for the bolt.
        """
        try:
            schema = parse_schema(self.movable.types)
        except ConfigError:  # a type that cannot be declared: the bolt keeps the fields in that type (``Movable``)
            return table.rename_columns(self.movable.fields[0])
        columns = []
        for name, column, wanted in zip(table.column_names, table.columns, schema, strict=True):
            try:
                columns.append(converted(column, wanted.type))
            except REFUSED as error:
                raise CheckpointError(
                    f"bolt {self.bolt!r} cannot be moved: its state has {name!r} as {column.type}",
                    why=f"its events are grouped by {wanted.name!r}, which is {wanted.type}: {error}",
                    do="give the bolt a method move_state, or keep that column in the type of the field",
                ) from error
        return pa.Table.from_arrays(columns, schema.names)

    def of_values(self, values: Sequence[Any]) -> int:
        """The task of one key, by the values of the fields that the first input is grouped by."""
        if self.movable.in_one_task:
            return 0
        schema = parse_schema(self.movable.types)
        if len(values) != len(schema):
            raise CheckpointError(
                f"bolt {self.bolt!r} asks for the task of {values!r}",
                why=f"its events are grouped by {', '.join(schema.names)}",
                do="give task_of a value for each of these, in this order",
            )
        arrays = [of_values([value], column.type) for value, column in zip(values, schema, strict=True)]
        return int(self._tasks(pa.table(arrays, names=schema.names), schema.names)[0])

    def learn(self, codes: NDArray[np.int64], tasks: NDArray[np.int64]) -> None:
        """Note the tasks of keys whose events are known."""
        distinct, firsts = np.unique(codes, return_index=True)
        self._known.update(zip(distinct.tolist(), tasks[firsts].tolist(), strict=True))

    def of_codes(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        """The task of each key, by its code. CheckpointError where only an event could tell, and there is none."""
        if self.movable.in_one_task:
            return np.zeros(len(codes), np.int64)
        if self.movable.fields[0] == self.movable.keys[0]:
            hashes = np.array([self.shared.get(code, code) for code in codes.tolist()], np.int64)
            return (hashes.view(np.uint64) % np.uint64(self.parallelism)).astype(np.int64)
        unknown = sum(each not in self._known for each in codes.tolist())
        if unknown:
            raise CheckpointError(
                f"bolt {self.bolt!r} cannot have {self.parallelism} tasks",
                why=f"for {unknown} keys without events only a hash of {', '.join(self.movable.keys[0])} is stored, so "
                f"their {', '.join(self.movable.fields[0])}, and with it their new task, is unknown",
                do="try again when these keys have been forgotten, or group its inputs by the whole key from the start",
            )
        return np.array([self._known[each] for each in codes.tolist()], np.int64)

    def _tasks(self, table: pa.Table, fields: Iterable[str]) -> NDArray[np.int64]:
        return FieldsGrouping(tuple(fields)).tasks(table, None, self.parallelism)
