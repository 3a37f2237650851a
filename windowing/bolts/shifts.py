"""Plain bolts that move events in time, and the watermark with them; and such as change how long events last."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc

from windowing.bolts.bolt import BatchBolt
from windowing.bolts.columns_by_name import check_columns
from windowing.calls import checked_value
from windowing.durations import Time, as_duration, as_shift
from windowing.errors import ConfigError, did_you_mean_column
from windowing.schema import DEFAULT_STREAM, TIMESTAMP, EmittedRows
from windowing.timestamps import OPEN_END, from_column


class ShiftTime(BatchBolt):
    """Moves all events by a fixed time, and the watermark by as much: by 5 s, a watermark of 12 is one of 17 (SI-25).

        builder.set_bolt("later", ShiftTime("5s")).shuffle_grouping("totals")

    It moves the time that events have from a windowed bolt before it. Columns stay as they are, except for ``fields``:
    these hold times (timestamps, or whole numbers of milliseconds) and are moved too. Behind a spout, where events
    have no time yet, it moves these columns only.
    """

    @checked_value
    def __init__(self, by: Time, *, fields: str | Sequence[str] = ()) -> None:
        self.time_shift = as_shift(by).micros
        self._fields = (fields,) if isinstance(fields, str) else tuple(fields)
        self._schema: pa.Schema | None = None

    def for_inputs(self, inputs: Mapping[str, pa.Schema]) -> Self:
        """Returns a copy with the columns of its input; ConfigError where ``fields`` are not times, or inputs
        differ."""
        bound = copy(self)
        bound._schema = _one_schema(inputs)
        check_columns("ShiftTime", *(_wrong_times(bound._schema, name, self.time_shift) for name in self._fields))
        return bound

    def output_schemas(self) -> dict[str, pa.Schema]:
        return {} if self._schema is None else {DEFAULT_STREAM: self._schema}

    def execute(self, batch: pa.Table) -> EmittedRows:
        for name in self._fields:
            batch = _set(batch, name, _moved(batch.column(name), self.time_shift))
        return batch


class AlterLifetime(BatchBolt):
    """Changes how long events last: the column of their ends, and their starts with it if asked (SI-25).

    ``end`` is the column that ``with_lifetime`` names. Give one of two: ``duration``, and events end this long after
    the time in the column ``start``, whatever their end was (the column ``end`` is added where it is missing); or
    ``extend``, and the time in ``end`` is moved by this much. Events that never end (null, 9999-12-31) still do not.

    The end of a lifetime is exclusive: an event exactly a ``duration`` after another's start does not meet it. With
    ``inclusive`` it does: lifetimes of a ``duration`` end a microsecond later.

    ``shift`` moves their starts: the time that they have from a windowed bolt before it, the column ``start`` if one
    is named, and the watermark. A ``duration`` then counts from the new start.

        AlterLifetime("until", start="ts", duration="10s")
    """

    @checked_value
    def __init__(
        self,
        end: str,
        *,
        start: str | None = None,
        duration: Time | None = None,
        extend: Time | None = None,
        shift: Time = "0s",
        inclusive: bool = False,
    ) -> None:
        if (duration is None) == (extend is None):
            raise ConfigError(
                "AlterLifetime with "
                + ("neither a duration nor" if duration is None else "both a duration and")
                + " extend",
                why="exactly one of them sets the end",
                do="give duration= (from the start), or extend= (from the present end)",
            )
        if duration is not None and start is None:
            raise ConfigError("AlterLifetime(duration=...) without start=", do="name the column in which events begin")
        self.time_shift = as_shift(shift).micros
        self._end, self._start = end, start
        self._duration = None if duration is None else as_duration(duration).micros
        if self._duration == 0:
            raise ConfigError("a lifetime of zero", why="an event must last longer than that", do="make it longer")
        if inclusive and self._duration is None:
            raise ConfigError(
                "AlterLifetime(inclusive=True) without duration=",
                why="it says whether the end of a lifetime of that duration is inclusive",
                do="give duration=, or leave inclusive out",
            )
        self._last = int(inclusive)
        """Microseconds by which a lifetime is longer than the duration."""
        self._extend = None if extend is None else as_shift(extend).micros
        self._schema: pa.Schema | None = None

    def for_inputs(self, inputs: Mapping[str, pa.Schema]) -> Self:
        """Returns a copy with the columns of its input, and the end; ConfigError where they are not times, or inputs
        differ."""
        schema = _one_schema(inputs)
        starts = () if self._start is None else _wrong_times(schema, self._start, self.time_shift)
        check_columns("AlterLifetime", starts, self._wrong_ends(schema))
        if self._end not in schema.names:
            schema = schema.append(pa.field(self._end, TIMESTAMP))
        bound = copy(self)
        bound._schema = schema
        return bound

    def _wrong_ends(self, schema: pa.Schema) -> Iterator[ConfigError]:
        """Yields errors about the column of ends; with a duration it need not exist."""
        if self._extend is not None:
            yield from _wrong_times(schema, self._end, self._extend)
            return
        if self._end not in schema.names:
            return
        wrong = [*_wrong_times(schema, self._end, 0)]
        yield from wrong
        kind = schema.field(self._end).type
        if not wrong and self._last and _unit(kind) > 1:
            yield ConfigError(
                f"AlterLifetime(inclusive=True) with ends in {self._end!r}, which is {kind}",
                why="lives that hold their ends last a microsecond longer, and the column has a coarser unit",
                do="name another column, which is added, or use a timestamp in us",
            )

    def output_schemas(self) -> dict[str, pa.Schema]:
        return {} if self._schema is None else {DEFAULT_STREAM: self._schema}

    def execute(self, batch: pa.Table) -> EmittedRows:
        assert self._schema is not None
        if self._start is not None and self.time_shift:
            batch = _set(batch, self._start, _moved(batch.column(self._start), self.time_shift))
        if self._extend is not None:
            ends = batch.column(self._end)
            return _set(batch, self._end, _moved(ends, self._extend, where=_known(ends)))
        assert self._start is not None
        assert self._duration is not None
        times, wrong = from_column(batch.column(self._start))
        ends = pa.array(times + self._duration + self._last, mask=None if wrong is None else wrong != "")
        return _set(batch, self._end, _of_kind(ends, self._schema.field(self._end).type))


def _one_schema(inputs: Mapping[str, pa.Schema]) -> pa.Schema:
    """Returns the columns of all inputs; ConfigError where they are not the same."""
    schemas = list(inputs.values())
    if any(not schema.equals(schemas[0]) for schema in schemas):
        raise ConfigError(
            f"its inputs {', '.join(map(repr, inputs))} have different columns",
            why="it passes rows on unchanged, so all must have the same columns",
            do="give each stream a bolt of its own",
        )
    return schemas[0]


def _wrong_times(schema: pa.Schema, name: str, by: int) -> Iterator[ConfigError]:
    """Yields errors about a column of times that is to be shifted by a number of microseconds."""
    if name not in schema.names:
        yield ConfigError(
            f"there is no column {name!r} to shift{did_you_mean_column(name, schema.names)}",
            why=f"the columns are {', '.join(schema.names)}",
            do="name one of these",
        )
        return
    kind = schema.field(name).type
    if not pa.types.is_timestamp(kind) and not pa.types.is_integer(kind):
        yield ConfigError(
            f"column {name!r} is {kind}",
            why="times are timestamps, or whole numbers of milliseconds",
            do="name another column",
        )
    elif by % _unit(kind):
        yield ConfigError(
            f"column {name!r} is shifted by {by} microseconds",
            why=f"{kind} has a coarser unit",
            do="use a timestamp in us",
        )


def _unit(kind: pa.DataType) -> int:
    """Returns the unit of a column in microseconds; 1 where it is finer."""
    if pa.types.is_timestamp(kind):
        return {"s": 1_000_000, "ms": 1_000}.get(kind.unit, 1)
    return 1_000


def _known(ends: pa.ChunkedArray) -> pa.ChunkedArray:
    """Returns which ends are known; an end on 9999-12-31 stands for none."""
    open_end = pa.scalar(OPEN_END, pa.timestamp("us")) if pa.types.is_timestamp(ends.type) else OPEN_END // 1_000
    kind = pa.timestamp("us") if pa.types.is_timestamp(ends.type) else pa.int64()
    return pc.less(ends.cast(kind, safe=False), open_end)


def _moved(column: pa.ChunkedArray, by: int, where: pa.ChunkedArray | None = None) -> pa.ChunkedArray:
    """Returns a column of times, moved later by a number of microseconds; ``where`` says which of them, None for
    all."""
    kind = column.type
    units = by * 1_000 if pa.types.is_timestamp(kind) and kind.unit == "ns" else by // _unit(kind)
    numbers = column.cast(pa.int64())
    moved = pc.add_checked(numbers, units if where is None else pc.if_else(where, units, 0))
    return moved.cast(kind)


def _of_kind(micros: pa.Array, kind: pa.DataType) -> pa.Array:
    """Returns times in microseconds as a column of another type; an error where that is not as fine."""
    times = micros.cast(pa.timestamp("us"))
    if pa.types.is_timestamp(kind):
        return times.cast(pa.timestamp(kind.unit)).cast(kind)
    return times.cast(pa.timestamp("ms")).cast(pa.int64()).cast(kind)


def _set(table: pa.Table, name: str, column: pa.Array | pa.ChunkedArray) -> pa.Table:
    if name not in table.column_names:
        return table.append_column(name, column)
    return table.set_column(table.column_names.index(name), pa.field(name, column.type), column)
