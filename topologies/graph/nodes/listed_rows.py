"""The keys that a user lists, as columns of the types that the bolt's events have, and which task has which."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from topologies.graph.fields_hash import hash_rows
from topologies.graph.groupings import AllGrouping, Grouping
from windowing.data.schema import value_type
from windowing.errors import ConfigError
from windowing.settings.listed_keys import ListedKeys

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class ListedRows:
    """A row for each listed key, of all tasks or of one."""

    table: pa.Table
    """The columns of the key."""
    since: int
    """From when on the keys are there, in microseconds."""

    @staticmethod
    def of(listed: ListedKeys, key: Sequence[str], schema: pa.Schema) -> ListedRows:
        """``schema``: the columns of the bolt's events. ConfigError where a value does not fit its column."""
        rows = [each if len(key) > 1 else (each,) for each in listed.values]
        strange = [each for each in rows if not isinstance(each, tuple) or len(each) != len(key)]
        if strange:
            raise ConfigError(
                f"with_empty_windows lists the key {strange[0]!r:.60}",
                why=f"with_key names {len(key)} columns: {', '.join(key)}",
                do="list a tuple of as many values for each key",
            )
        columns = {name: _column(name, [row[at] for row in rows], schema) for at, name in enumerate(key)}
        return ListedRows(pa.table(columns), listed.since)

    @cached_property
    def hashes(self) -> NDArray[np.int64]:
        """The hash of each key, as events of it have."""
        return hash_rows(self.table, self.table.column_names).view(np.int64)

    def by_task(self, grouping: Grouping, parallelism: int) -> tuple[ListedRows, ...]:
        """Those whose events go to each task."""
        if isinstance(grouping, AllGrouping):
            return (self,) * parallelism
        tasks = grouping.tasks(self.table, None, parallelism)
        parts = [self.table.filter(pa.array(tasks == task)) for task in range(parallelism)]
        return tuple(ListedRows(part, self.since) for part in parts)


def _column(name: str, values: Sequence[object], schema: pa.Schema) -> pa.Array:
    kind = value_type(schema.field(name).type)
    try:
        return pa.array(values, kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise ConfigError(
            f"with_empty_windows lists {_first_strange(values, kind)!r:.60}, which is no value of {name!r}",
            why=f"that column is {kind}",
            do="list keys as the events have them",
        ) from error


def _first_strange(values: Sequence[object], kind: pa.DataType) -> object:
    for value in values:
        try:
            pa.array([value], kind)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            return value
    return values
