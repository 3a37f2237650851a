"""Reads a block of JSON lines: with Arrow where that can be trusted, and line by line where not."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.json as pajson

from topologies.io.formats.bad import LONGEST_DATA, BadRow, BadRows
from topologies.io.formats.conform import misfit
from topologies.io.formats.isolate import Mask, either
from topologies.io.formats.lines.jsonbytes import JsonBytes
from topologies.io.formats.lines.jsontypes import holds_decimals, read_as_text, readable, typed, wider
from topologies.io.formats.lines.jsonvalue import Number, Object, column_of, declared_value, jsonable, parse_json
from topologies.io.formats.lines.long_lines import LongLine
from topologies.io.formats.split import Chunk

_PARTS = 16
_FEW = 32
_kinds = pa.types


class JsonBlock:
    """One block of whole lines, and its rows."""

    def __init__(self, block: bytes, schema: pa.Schema, row: int, longest: int | None = None) -> None:
        """``row``: the number of its first line. ``longest``: the longest line that is read, in bytes; None for any."""
        self.bytes, self.schema, self.row, self.longest = JsonBytes(block), schema, row, longest
        self.rows: list[tuple[npt.NDArray[np.int64], pa.Table]] = []
        self.bad: list[BadRow] = []

    def __len__(self) -> int:
        """Number of lines."""
        return len(self.bytes.lines)

    def chunk(self) -> Chunk:
        """The rows of all lines, good and bad; called once."""
        every = self._short_enough()
        aside = self._aside()[every]
        self._read(every[~aside])
        self._one_by_one(every[aside])
        rows = [places for places, _ in self.rows]
        places = np.concatenate(rows) if rows else np.empty(0, np.int64)
        tables = [table for _, table in self.rows]
        table = pa.concat_tables(tables) if tables else self.schema.empty_table()
        if len(places) > 1 and (np.diff(places) < 0).any():
            order = np.argsort(places, kind="stable")
            places, table = places[order], table.take(pa.array(order))
        return table, places + self.row, BadRows.of(self.bad)

    def _short_enough(self) -> npt.NDArray[np.int64]:
        """Indices of the lines that are not too long."""
        if self.longest is None or len(self.bytes.block) <= self.longest:
            return np.arange(len(self.bytes.lines))
        starts, ends = self.bytes.lines[:, 0], self.bytes.lines[:, 1]
        long = ends - starts > self.longest
        for line in np.flatnonzero(long).tolist():
            start = self.bytes.line(line)[:LONGEST_DATA]
            self.bad.append(LongLine(start, self.longest).bad_row(self.row + line))
        return np.flatnonzero(~long)

    def _aside(self) -> Mask:
        """Mask of the lines that Arrow must not read: those that are not plainly one object, or all lines for some
        types."""
        if not all(readable(field.type) for field in self.schema):
            return np.ones(len(self), dtype=np.bool_)
        return self.bytes.unlike_objects(decimals=any(holds_decimals(field.type) for field in self.schema))

    def _read(self, places: npt.NDArray[np.int64]) -> None:
        """Read lines with Arrow, in ever smaller parts around the lines on which it fails."""
        if not len(places):
            return
        if len(places) <= _FEW:
            self._one_by_one(places)
            return
        for wide in (False, True):
            raw = self._arrow(places, wide)
            if raw is not None:
                self._accept(places, raw, self._rounded(places, raw) if wide else None)
                return
        for part in np.array_split(places, min(_PARTS, -(-len(places) // _FEW))):
            self._read(part)

    def _arrow(self, places: npt.NDArray[np.int64], wide: bool) -> pa.Table | None:
        """Lines as Arrow reads them; None where it fails. ``wide`` reads whole numbers as doubles, so that 3.7 does not
        fail."""
        fields = [(field.name, self._reading_type(field, int(places[0]))) for field in self.schema]
        schema = pa.schema([(name, wider(kind) if wide else kind) for name, kind in fields])
        if wide and schema.types == [kind for _, kind in fields]:
            return None
        data = self.bytes.joined(places)
        try:
            raw = pajson.read_json(
                pa.BufferReader(data),
                read_options=pajson.ReadOptions(use_threads=False, block_size=len(data) + 1),
                parse_options=pajson.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
            )
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
            return None
        fits = raw.num_rows == len(places) and raw.schema.types == schema.types
        return raw if fits else None

    def _reading_type(self, field: pa.Field, line: int) -> pa.DataType:
        """The type in which Arrow reads a column; for times, according to the first line."""
        if _kinds.is_timestamp(field.type):
            return pa.int64() if isinstance(self._peek(line, field.name), Number) else pa.string()
        return pa.string() if read_as_text(field.type) else field.type

    def _peek(self, line: int, name: str) -> Any:
        try:
            value = parse_json(self.bytes.line(line).decode("utf-8"))
        except ValueError:
            return None
        return value.get(name) if isinstance(value, Object) else None

    def _rounded(self, places: npt.NDArray[np.int64], raw: pa.Table) -> Mask | None:
        """The lines with a number that Arrow may have rounded.

        Only where a whole number is declared and a double was read: doubles of other columns are usually long.
        """
        read = zip(self.schema, raw.schema.types, strict=True)
        names = [field.name for field, kind in read if _kinds.is_floating(kind) and kind != field.type]
        return self.bytes.rounded(places, names)

    def _accept(self, places: npt.NDArray[np.int64], raw: pa.Table, again: Mask | None) -> None:
        """Accept what Arrow read, except rows that need a closer look; ``again`` marks some of them."""
        columns: list[pa.ChunkedArray] = []
        for field, column in zip(self.schema, raw.columns, strict=True):
            values, doubtful = typed(column, field.type)
            columns.append(values)
            again = either(again, doubtful)
        table = pa.Table.from_arrays(columns, schema=self.schema)
        if again is None or not again.any():
            self.rows.append((places, table))
            return
        self.rows.append((places[~again], table.filter(pa.array(~again))))
        self._one_by_one(places[again])

    def _one_by_one(self, places: npt.NDArray[np.int64]) -> None:
        """Read lines with Python, line by line, then convert them column by column."""
        kept: list[int] = []
        objects: list[Object] = []
        for line in places.tolist():
            try:
                objects.append(_object(self.bytes.line(line)))
                kept.append(line)
            except ValueError as error:
                self._turn_away(line, str(error))
        if objects:
            self._columns(np.array(kept, dtype=np.int64), objects)

    def _columns(self, places: npt.NDArray[np.int64], objects: list[Object]) -> None:
        columns: list[pa.Array] = []
        reasons: dict[int, list[str]] = {}
        for field in self.schema:
            values, bad = column_of([declared_value(made, field.name) for made in objects], field.type)
            columns.append(values)
            for index in np.flatnonzero(bad).tolist() if bad is not None else ():
                reasons.setdefault(index, []).append(_reason(objects[index], field))
        for index, row_reasons in reasons.items():
            self._turn_away(int(places[index]), "; ".join(row_reasons))
        good = np.array([index not in reasons for index in range(len(objects))], dtype=np.bool_)
        table = pa.Table.from_arrays(columns, schema=self.schema)
        self.rows.append((places[good], table.filter(pa.array(good)) if reasons else table))

    def _turn_away(self, line: int, reason: str) -> None:
        self.bad.append(BadRow(self.row + line, reason, self.bytes.line(line).decode("utf-8", "backslashreplace")))


def _object(line: bytes) -> Object:
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"not valid UTF-8 at byte {error.start + 1}") from error
    value = parse_json(text)
    if not isinstance(value, Object):
        raise ValueError(f"not a JSON object: {text.strip()[:50]}")
    return value


def _reason(made: Object, field: pa.Field) -> str:
    if field.name in made.twice:
        return f"column {field.name!r}: the name is given more than once"
    return misfit(field.name, _python(jsonable(made.get(field.name))), field.type)


def _python(value: Any) -> Any:
    return _Verbatim(value) if isinstance(value, Number) else value


class _Verbatim(str):
    """A number whose ``repr`` is its original text."""

    def __repr__(self) -> str:
        return str(self)
