"""A temporal join: the pairs of events of two streams that have equal keys and live at the same time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa

from windowing.bolts.operators import Operator
from windowing.data.rows import DEFAULT_STREAM, Rows
from windowing.data.schema import TIMESTAMP, parse_schema
from windowing.errors import ConfigError
from windowing.time.timestamps import FOREVER
from windowing.window import TupleWindow

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LEFT, _RIGHT, _START, _END = "left", "right", "start", "end"


@dataclass(frozen=True)
class _Column:
    """A column that a join emits: of which side, and what it is called there."""

    side: str
    source: str
    kind: pa.DataType


class TemporalJoin(Operator):
    """The pairs of a left and a right event with equal keys whose lifetimes overlap (SI-22, SI-32).

        TemporalJoin("orders", "prices", on="item").with_timestamp_field("ts").with_lifetime("until")

    ``left`` and ``right`` are two input streams by name, ``on`` columns that both have; a key with a null joins
    nothing. With several tasks, group both streams by fields among these.

    A row has the key, the other columns of the left stream, those of the right, and the overlap: ``overlap_start``,
    and ``overlap_end``, which does not belong to it; null where no end was known at the time.
    ``start`` and ``end`` give these two other names. A column that both streams have is named by ``rename``:
    ``"{stream}_{column}"``, or ``"{column}_{stream}"``. ``outputs`` keeps some of the columns only, by their names:
    ``"item string, price double"``.

    A pair is emitted when the watermark, the least of the marks of both inputs, is past the start of its overlap,
    which is also its time; it does not wait for the end. Pairs of one key and moment come in order of (left, right).
    A stream without the column of ``with_lifetime`` consists of points. The state is what may still overlap:
    start edges stay until their end edges come.

    ConfigError for a join without keys, of a stream with itself, or with a ``rename`` that names no column; other
    mistakes are reported when the topology is built.
    """

    def __init__(
        self,
        left: str,
        right: str,
        *,
        on: str | Sequence[str],
        outputs: str | pa.Schema | None = None,
        rename: str = "{stream}_{column}",
        start: str = "overlap_start",
        end: str = "overlap_end",
    ) -> None:
        keys = (on,) if isinstance(on, str) else tuple(on)
        if not keys or not all(isinstance(key, str) and key for key in keys):
            raise ConfigError(f"a join on {on!r}", why="pairs have equal keys", do="name the columns of the key")
        if left == right:
            raise ConfigError(
                f"a join of {left!r} with itself",
                why="a bolt reads a stream once",
                do="put a plain bolt before one side",
            )
        try:
            renamed = {rename.format(stream=stream, column="c") for stream in ("a", "b")}
        except (KeyError, IndexError, ValueError, AttributeError):
            renamed = set()
        if len(renamed) < 2 or "{column}" not in rename:
            raise ConfigError(
                f"rename={rename!r}",
                why="it must give equal columns of two streams different names",
                do="use '{stream}_{column}' or '{column}_{stream}'",
            )
        self.left, self.right, self.on = left, right, keys
        self._rename, self._start, self._end = rename, start, end
        self._wanted = None if outputs is None else parse_schema(outputs)
        self._columns: dict[str, _Column] = {}
        self.settings = replace(self.settings, key=keys)

    def for_inputs(self, inputs: Mapping[str, pa.Schema]) -> Self:
        """The join with its columns; ConfigError where they cannot be."""
        if set(inputs) != {self.left, self.right}:
            raise ConfigError(
                f"it joins {self.left!r} and {self.right!r}, and reads {', '.join(map(repr, inputs))}",
                do="give it these two streams by ..._grouping, a stream of another name as 'component.stream'",
            )
        if self.settings.lifetime is None:
            raise ConfigError(
                "a join of events without lifetimes",
                why="pairs are events that live at the same time (SI-22)",
                do="call with_lifetime(end_field) with the column that says when events end",
            )
        missing = [f"{key!r} of {name!r}" for name in inputs for key in self.on if key not in inputs[name].names]
        if missing:
            raise ConfigError(
                f"a join on {', '.join(missing)}, which there is not", do="name key columns that both streams have"
            )
        columns = self._named(inputs[self.left], inputs[self.right])
        bound = copy(self)
        bound._columns = columns if self._wanted is None else _chosen(columns, self._wanted)
        return bound

    def output_schemas(self) -> dict[str, pa.Schema]:
        if self._wanted is not None:
            return {DEFAULT_STREAM: self._wanted}
        fields = [pa.field(name, column.kind) for name, column in self._columns.items()]
        return {DEFAULT_STREAM: pa.schema(fields)} if fields else {}

    def execute(self, window: TupleWindow) -> Rows:
        if len(window) < 2 or _has_null(window.key):
            return None
        left, right = window.places(self.left), window.places(self.right)
        if not len(left) or not len(right):
            return None
        starts, begins = window.timestamps, window.start_timestamp
        lefts, rights = _pairs(left, starts[left] == begins, right, starts[right] == begins)
        table, ends = window.table, np.minimum(window.ends[lefts], window.ends[rights])
        taken = {_LEFT: pa.array(lefts), _RIGHT: pa.array(rights)}
        overlap = {
            _START: pa.array(np.full(len(lefts), begins, np.int64), TIMESTAMP),
            _END: pa.array(ends, TIMESTAMP, mask=ends == FOREVER),
        }
        arrays = [
            overlap[column.side] if column.side in overlap else table.column(column.source).take(taken[column.side])
            for column in self._columns.values()
        ]
        return pa.table(arrays, names=list(self._columns))

    def _named(self, left: pa.Schema, right: pa.Schema) -> dict[str, _Column]:
        """All columns of the join by name; ConfigError where two have one name."""
        own = {*self.on, self.settings.watermark_field}
        named = [(key, _Column(_LEFT, key, left.field(key).type)) for key in self.on]
        for side, name, mine, other in ((_LEFT, self.left, left, right), (_RIGHT, self.right, right, left)):
            prefix = "".join(letter if letter.isalnum() else "_" for letter in name)
            for field in mine:
                if field.name in own:
                    continue
                clash = field.name in other.names
                shown = self._rename.format(stream=prefix, column=field.name) if clash else field.name
                named.append((shown, _Column(side, field.name, field.type)))
        named += [(self._start, _Column(_START, "", TIMESTAMP)), (self._end, _Column(_END, "", TIMESTAMP))]
        names = [name for name, _ in named]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ConfigError(
                f"the join has two columns {', '.join(map(repr, twice))}",
                why=f"it has {', '.join(names)}",
                do="choose another rename=, or other names for the overlap by start= and end=",
            )
        return dict(named)


def _chosen(columns: dict[str, _Column], wanted: pa.Schema) -> dict[str, _Column]:
    unknown = [name for name in wanted.names if name not in columns]
    if unknown:
        raise ConfigError(
            f"the join has no column {', '.join(map(repr, unknown))}",
            why=f"it has {', '.join(columns)}",
            do="declare columns among these in outputs=, or none to have them all",
        )
    for field in wanted:
        try:
            pa.nulls(0, columns[field.name].kind).cast(field.type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise ConfigError(
                f"column {field.name!r} is {columns[field.name].kind}, and was declared {field.type}",
                why=str(error),
                do="declare the type that it has",
            ) from error
    return {name: columns[name] for name in wanted.names}


def _pairs(
    left: NDArray[np.int64], fresh_left: NDArray[np.bool_], right: NDArray[np.int64], fresh_right: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The pairs of which at least one begins now, in order: its left event with all, the others with the right ones."""
    new, old, newly = left[fresh_left], left[~fresh_left], right[fresh_right]
    lefts = np.concatenate([np.repeat(new, len(right)), np.repeat(old, len(newly))])
    rights = np.concatenate([np.tile(right, len(new)), np.tile(newly, len(old))])
    order = np.lexsort((rights, lefts))
    return lefts[order], rights[order]


def _has_null(key: Any) -> bool:
    return key is None or (isinstance(key, tuple) and any(part is None for part in key))
