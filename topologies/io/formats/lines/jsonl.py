"""Reads JSON lines, plain or gzipped: one object per line, parsed by Arrow in blocks of whole lines.

A name missing from a line is null, as is a declared name missing from all lines. A line must be UTF-8 and one object;
blank lines are skipped. A string must be a string and a number a number, but numbers may be given as strings ("NaN",
"Infinity", exact decimals); 3.0 and 1e2 are whole numbers, 3.7 is not. A whole number for a timestamp is milliseconds
since the epoch, text is ISO 8601. Binary is base64, a date "2024-05-01", a map an object or a list of [key, value].

Arrow's reader ends the process on a first line ``null``, reads two objects on one line as two rows, accepts numbers as
dates, and reads numbers beyond a double's range as infinity. So lines that are not plainly ``{...}``, and those that
Arrow would misread, are parsed one by one instead.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
import pyarrow.json as pajson

from topologies.io.formats.access import opened
from topologies.io.formats.bad import BAD_SCHEMA, LONGEST_DATA, BadRow, BadRows
from topologies.io.formats.conform import misfit
from topologies.io.formats.file_errors import declared_once, reading
from topologies.io.formats.isolate import Mask, either, valid
from topologies.io.formats.lines.jsonvalue import Number, Object, column_of, declared_value, jsonable, parse_json
from topologies.io.formats.lines.long_lines import LONGEST_ROW, LongLine, blocks_of_lines
from topologies.io.formats.lines.moments import from_milliseconds, within_calendar
from topologies.io.formats.lines.text import parse_base64, parse_text
from topologies.io.formats.split import Chunk, FileSplit
from windowing.errors import ConfigError

_BLOCK = 4 << 20
_PARTS = 16
_FEW = 32
_LONG_NUMBER = 38
_SHORT_NUMBER = 16  # with more digits a number may be whole as a double and not as written
_EXACT = 2**53 - 1  # the largest whole number to which no other is rounded
_kinds = pa.types
_Lines = npt.NDArray[np.int64]  # n x 2: where each line begins and ends in its block


@dataclass(frozen=True)
class JsonlFormat:
    """Reads JSON lines.

    ``block_size``: bytes read at a time. A longer line is read whole, up to ``longest_row`` bytes (16 MiB); a line
    beyond that is a bad row, of which the start is kept.
    """

    block_size: int = _BLOCK
    longest_row: int = LONGEST_ROW
    name: ClassVar[str] = "jsonl"

    def __post_init__(self) -> None:
        if self.block_size < 1:
            raise ConfigError(
                f"block_size {self.block_size} is too small", why="a block must hold whole lines", do="use 1 MB or more"
            )
        if self.longest_row < 1:
            raise ConfigError(
                f"longest_row {self.longest_row} is too small", why="rows are usually longer", do="use 1 MB or more"
            )

    def split(self, fs: pafs.FileSystem, path: str, wanted: int) -> list[FileSplit]:
        """One split."""
        return [FileSplit(path)]

    def read(
        self, fs: pafs.FileSystem, split: FileSplit, schema: pa.Schema, needed: Collection[str] | None = None
    ) -> Iterator[Chunk]:
        """A chunk per block of lines."""
        declared_once(schema)
        row = 0
        with opened(fs, split.path, "JSON lines", streamed=True) as source:
            for block in blocks_of_lines(source, split.path, "JSON lines", self.block_size, self.longest_row):
                if isinstance(block, LongLine):
                    yield schema.empty_table(), np.empty(0, np.int64), BadRows.of([block.bad_row(row)])
                    row += 1
                    continue
                with reading(split.path, "JSON lines"):
                    reader = _Block(block, schema, row, self.longest_row)
                    chunk = reader.chunk()
                if len(reader.lines):
                    yield chunk
                row += len(reader.lines)


def parse_values(values: pa.Array, schema: pa.Schema) -> Chunk:
    """Parse values that are each a JSON object, by the rules of a line; rows are numbered by their index.

    A value may have several lines. A null or blank value is bad.
    """
    declared_once(schema)
    lengths = pc.binary_length(values).fill_null(0).to_numpy(zero_copy_only=False)
    given = np.flatnonzero(lengths > 0)
    kept = values if len(given) == len(values) else values.take(pa.array(given))
    block = _joined(kept)
    starts = np.concatenate([[0], np.cumsum(lengths[given] + 1)[:-1]]).astype(np.int64) if len(given) else given
    odd = np.flatnonzero(_BLANK_OR_END[np.frombuffer(block, np.uint8)[starts]])
    blank = [index for index in odd.tolist() if not kept[index].as_py().strip()]
    if blank:
        given = np.delete(given, blank)
        kept = values.take(pa.array(given))
        block = _joined(kept)
    if block.count(b"\n") > len(given):
        # A newline ends a value here. Inside a value a carriage return is equivalent: JSON treats it as white space
        # as well.
        block = _joined(pc.replace_substring(kept, b"\n", b"\r"))
    table, places, bad = _Block(block, schema, 0).chunk()
    wrong = [BadRow(int(given[row]), reason, data) for row, reason, data in _listed(bad)]
    absent = np.setdiff1d(np.arange(len(values)), given)
    wrong += [
        BadRow(index, "the value is blank" if values[index].is_valid else "the value is null (a tombstone)", "")
        for index in absent.tolist()
    ]
    return table, given[places], BadRows.of(wrong)


def _listed(bad: BadRows) -> list[tuple[int, str, str]]:
    return list(zip(*(bad.rows.column(name).to_pylist() for name in BAD_SCHEMA.names), strict=True)) if len(bad) else []


def _joined(values: pa.Array) -> bytes:
    """The values joined as lines."""
    if not len(values):
        return b""
    whole = pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)
    return bytes(pc.binary_join(whole, b"\n")[0].as_buffer()) + b"\n"


class _Block:
    """One block of whole lines, and its rows."""

    def __init__(self, block: bytes, schema: pa.Schema, row: int, longest: int | None = None) -> None:
        self.block = block.replace(b"\r\n", b"\n") if b"\r" in block else block
        self.bytes = np.frombuffer(self.block, np.uint8)
        self.schema, self.row, self.longest = schema, row, longest
        self.lines = _lines(self.bytes, self.block)
        self.rows: list[tuple[npt.NDArray[np.int64], pa.Table]] = []
        self.bad: list[BadRow] = []

    def chunk(self) -> Chunk:
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
        if self.longest is None or len(self.bytes) <= self.longest:
            return np.arange(len(self.lines))
        long = self.lines[:, 1] - self.lines[:, 0] > self.longest
        for line in np.flatnonzero(long).tolist():
            start = self._line(line)[:LONGEST_DATA]
            self.bad.append(LongLine(start, self.longest).bad_row(self.row + line))
        return np.flatnonzero(~long)

    def _aside(self) -> Mask:
        """Mask of the lines that Arrow must not read: those that are not plainly one object, or all lines for some
        types."""
        if not all(_readable(field.type) for field in self.schema):
            return np.ones(len(self.lines), dtype=np.bool_)
        starts, ends = self.lines[:, 0], self.lines[:, 1]
        aside: Mask = (self.bytes[starts] != ord("{")) | (self.bytes[ends - 1] != ord("}"))
        braces = np.flatnonzero(self.bytes == ord("}"))
        inner = braces[braces + 1 < len(self.bytes)]
        stray = inner[~_AFTER_BRACE[self.bytes[inner + 1]]]
        self._mark(aside, stray)
        self._mark(aside, np.flatnonzero(self.bytes == ord("\r")))
        if any(_holds_decimals(field.type) for field in self.schema):
            self._mark(aside, self._odd_numbers())
        return aside | self._not_utf8() if not _is_utf8(self.block) else aside

    def _odd_numbers(self) -> npt.NDArray[np.int64]:
        """Positions of possible numbers that Arrow must not read as decimals: with an exponent, or very long."""
        letters = np.flatnonzero((self.bytes | 0x20) == ord("e"))
        exponents = letters[_IN_NUMBER[self.bytes[np.maximum(letters - 1, 0)]]]
        return np.concatenate([exponents, self._numbers_longer_than(_LONG_NUMBER)])

    def _numbers_longer_than(self, length: int) -> npt.NDArray[np.int64]:
        """Positions where a number has at least ``length`` consecutive characters, without an exponent's e."""
        others = np.flatnonzero(~_IN_NUMBER[self.bytes])
        positions: npt.NDArray[np.int64] = others[:-1][np.diff(others) > length] + 1
        return positions

    def _mark(self, aside: Mask, positions: npt.NDArray[np.int64]) -> None:
        if len(positions):
            aside[np.clip(np.searchsorted(self.lines[:, 0], positions, side="right") - 1, 0, None)] = True

    def _not_utf8(self) -> Mask:
        high = np.flatnonzero(self.bytes >= 0x80)
        owners = np.unique(np.searchsorted(self.lines[:, 0], high, side="right") - 1)
        broken = np.zeros(len(self.lines), dtype=np.bool_)
        for line in owners[owners >= 0]:
            broken[line] = not _is_utf8(self._line(int(line)))
        return broken

    def _line(self, index: int) -> bytes:
        start, end = self.lines[index]
        return self.block[start:end]

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
        schema = pa.schema([(name, _wider(kind) if wide else kind) for name, kind in fields])
        if wide and schema.types == [kind for _, kind in fields]:
            return None
        data = self._bytes_of(places)
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

    def _bytes_of(self, places: npt.NDArray[np.int64]) -> bytes:
        if places[-1] - places[0] + 1 == len(places):
            return self.block[self.lines[places[0], 0] : self.lines[places[-1], 1]]
        return b"\n".join([self.block[start:end] for start, end in self.lines[places].tolist()])

    def _reading_type(self, field: pa.Field, line: int) -> pa.DataType:
        """The type in which Arrow reads a column; for times, according to the first line."""
        if _kinds.is_timestamp(field.type):
            return pa.int64() if isinstance(self._peek(line, field.name), Number) else pa.string()
        return pa.string() if _as_text(field.type) else field.type

    def _peek(self, line: int, name: str) -> Any:
        try:
            value = parse_json(self._line(line).decode("utf-8"))
        except ValueError:
            return None
        return value.get(name) if isinstance(value, Object) else None

    def _rounded(self, places: npt.NDArray[np.int64], raw: pa.Table) -> Mask | None:
        """The lines with a number so long that it may be whole as a double although it is not as written.

        Only where a whole number is declared and a double was read: doubles of other columns are usually long.
        """
        read = zip(self.schema, raw.schema.types, strict=True)
        names = [field.name for field, kind in read if _kinds.is_floating(kind) and kind != field.type]
        first, last = np.searchsorted(self._long_numbers, [self.lines[places[0], 0], self.lines[places[-1], 1]])
        numbers = self._long_numbers[first:last]
        whole = [
            position
            for position in numbers[self._named(numbers, names)].tolist()
            if _whole_as_double(self.block, position)
        ]
        if not whole:
            return None
        marked = np.zeros(len(self.lines), dtype=np.bool_)
        self._mark(marked, np.array(whole, np.int64))
        return marked[places]

    @cached_property
    def _long_numbers(self) -> npt.NDArray[np.int64]:
        return self._numbers_longer_than(_SHORT_NUMBER)

    def _named(self, values: npt.NDArray[np.int64], names: list[str]) -> Mask:
        """Mask of the values, by their start positions, that have or may have one of these names."""
        colons = self._before(values)
        quotes = self._before(colons)
        # Only one blank on each side is skipped: beyond that the value may have any name.
        named: Mask = _BLANK[self.bytes[colons]] | _BLANK[self.bytes[quotes]] | self._escaped(quotes)
        for name in names:
            candidates = np.arange(len(values))
            for back, byte in enumerate(reversed(b'"' + name.encode()), start=1):
                candidates = candidates[self.bytes[np.maximum(quotes[candidates] - back, 0)] == byte]
            named[candidates] = True
        return named

    def _before(self, positions: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The positions one byte before, or two where that byte is a blank."""
        before = np.maximum(positions - 1, 0)
        over: npt.NDArray[np.int64] = np.maximum(before - _BLANK[self.bytes[before]], 0)
        return over

    def _escaped(self, ends: npt.NDArray[np.int64]) -> Mask:
        r"""Mask of the names, by their closing quotes, that have or may have an escape such as \u0061."""
        if not len(self._escapes):
            return np.zeros(len(ends), dtype=np.bool_)
        start = self._quotes[np.maximum(np.searchsorted(self._quotes, ends) - 1, 0)]
        last = self._escapes[np.maximum(np.searchsorted(self._escapes, ends) - 1, 0)]
        # A quote directly after a backslash may be inside the name.
        escaped: Mask = (last < ends) & (last >= start - 1)
        return escaped

    @cached_property
    def _escapes(self) -> npt.NDArray[np.int64]:
        return np.flatnonzero(self.bytes == ord("\\"))

    @cached_property
    def _quotes(self) -> npt.NDArray[np.int64]:
        return np.flatnonzero(self.bytes == ord('"'))

    def _accept(self, places: npt.NDArray[np.int64], raw: pa.Table, again: Mask | None) -> None:
        """Accept what Arrow read, except rows that need a closer look; ``again`` marks some of them."""
        columns: list[pa.ChunkedArray] = []
        for field, column in zip(self.schema, raw.columns, strict=True):
            values, doubtful = _typed(column, field.type)
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
                objects.append(_object(self._line(line)))
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
        self.bad.append(BadRow(self.row + line, reason, self._line(line).decode("utf-8", "backslashreplace")))


_IN_NUMBER = np.zeros(256, dtype=np.bool_)
_IN_NUMBER[list(b"0123456789.+-")] = True
_AFTER_BRACE = np.zeros(256, dtype=np.bool_)
_AFTER_BRACE[list(b",]}\n")] = True


def _lines(data: npt.NDArray[np.uint8], block: bytes) -> _Lines:
    ends = np.flatnonzero(data == ord("\n"))
    if not block.endswith(b"\n"):
        ends = np.append(ends, len(data))
    starts = np.concatenate([[0], ends[:-1] + 1]) if len(ends) else ends
    lines = np.stack([starts, ends], axis=1)
    lines = lines[lines[:, 1] > lines[:, 0]]
    odd = np.flatnonzero(_BLANK[data[lines[:, 0]]])
    blank = [index for index in odd.tolist() if not block[lines[index, 0] : lines[index, 1]].strip()]
    return np.delete(lines, blank, axis=0) if blank else lines


_BLANK = np.zeros(256, dtype=np.bool_)
_BLANK[list(b" \t\r\v\f")] = True
_BLANK_OR_END = _BLANK.copy()
_BLANK_OR_END[ord("\n")] = True


_NUMBER = re.compile(rb"-?[0-9]+(\.[0-9]*)?([eE][-+]?[0-9]+)?")


def _whole_as_double(block: bytes, position: int) -> bool:
    number = _NUMBER.match(block, position)
    return number is not None and float(number[0]).is_integer()


def _is_utf8(data: bytes) -> bool:
    if data.isascii():
        return True
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


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


def _readable(kind: pa.DataType) -> bool:
    """Whether Arrow's JSON reader is reliable for a type, reading some types as text."""
    if _kinds.is_list(kind):
        return _trusted(kind.value_type)
    if _kinds.is_struct(kind):
        return kind.num_fields > 0 and all(_trusted(field.type) for field in kind)
    return _as_text(kind) or _trusted(kind)


def _trusted(kind: pa.DataType) -> bool:
    if _kinds.is_list(kind) or _kinds.is_struct(kind):
        return _readable(kind) and not _as_text(kind)
    return bool(
        kind == pa.string()
        or _kinds.is_boolean(kind)
        or _kinds.is_signed_integer(kind)
        or _kinds.is_decimal128(kind)
        or kind in (pa.float32(), pa.float64())
    )


def _holds_decimals(kind: pa.DataType) -> bool:
    if _kinds.is_nested(kind):
        return any(_holds_decimals(kind.field(index).type) for index in range(kind.num_fields))
    return bool(_kinds.is_decimal(kind))


def _as_text(kind: pa.DataType) -> bool:
    return bool(_kinds.is_timestamp(kind) or _kinds.is_date(kind) or _kinds.is_binary(kind))


def _typed(column: pa.ChunkedArray, target: pa.DataType) -> tuple[pa.ChunkedArray, Mask | None]:
    """A column that Arrow read, converted to its declared type, and a mask of the rows that it may have misread."""
    values = column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)
    if values.type == target:
        return column, _infinite(values)
    if _kinds.is_floating(values.type):
        return _narrowed(values, target)
    if _kinds.is_integer(values.type):
        typed, bad = within_calendar(*from_milliseconds(values, target))
    else:
        typed, bad = (parse_base64 if _kinds.is_binary(target) else parse_text)(values, target)
    return pa.chunked_array([typed], target), bad


def _wider(kind: pa.DataType) -> pa.DataType:
    return pa.float64() if _kinds.is_integer(kind) else kind


def _narrowed(values: pa.Array, target: pa.DataType) -> tuple[pa.ChunkedArray, Mask | None]:
    """Whole numbers that were read as doubles; values that a double may have changed are doubtful, and null."""
    numbers = values.fill_null(0).to_numpy(zero_copy_only=False)
    limit = _EXACT if _kinds.is_timestamp(target) else min(_EXACT, 2 ** (target.bit_width - 1) - 1)
    with np.errstate(invalid="ignore"):
        doubtful: Mask = ~((np.abs(numbers) <= limit) & (np.floor(numbers) == numbers))
    doubtful |= (numbers == 0) & valid(values)  # 1E-400 is not whole, yet it is 0 as a double
    whole = np.where(doubtful, 0, numbers).astype(np.int64)
    exact = pa.array(whole, pa.int64(), mask=doubtful | ~valid(values))
    if _kinds.is_timestamp(target):
        typed, beyond = within_calendar(*from_milliseconds(exact, target))
    else:
        typed, beyond = exact.cast(target), None
    return pa.chunked_array([typed], target), either(doubtful if doubtful.any() else None, beyond)


def _infinite(values: pa.Array) -> Mask | None:
    """Mask of infinities, which Arrow also makes of numbers that are too large."""
    if _kinds.is_floating(values.type):
        infinite = pc.is_inf(values).fill_null(False)
        return infinite.to_numpy(zero_copy_only=False) if pc.any(infinite).as_py() else None
    if not _kinds.is_nested(values.type):
        return None
    children = [values.values] if _kinds.is_list(values.type) else values.flatten()
    if all(_infinite(child) is None for child in children):
        return None
    return np.ones(len(values), dtype=np.bool_)
