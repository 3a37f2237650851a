"""Reads rows of JSON, an object each, as the declared columns.

msgspec decodes the rows that are plainly of the declared types: it is strict, and raises for the row at fault. Each row
that it refuses, or of which a value then does not convert, is read by Python's ``json`` (``jsonvalue.py``), which
decides and gives the reason. What msgspec does not see is looked for here: bytes that are not UTF-8 in what is
not declared, a name that is given twice, and the sign of -0 as a double.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from topologies.io.formats.arrow_times import from_milliseconds, within_calendar
from topologies.io.formats.bad import BadRow, BadRows
from topologies.io.formats.conform import misfit, refused, too_fine
from topologies.io.formats.convert import convert
from topologies.io.formats.declared_times import Times, form_of
from topologies.io.formats.isolate import CUT, Converted, Flags, Mask, cut_of, either
from topologies.io.formats.lines.jsonvalue import (
    Number,
    Object,
    cell,
    column_of,
    declared_value,
    jsonable,
    list_array,
    parse_json,
    struct_array,
    timed_column,
)
from topologies.io.formats.lines.text import parse_base64, parse_text
from topologies.io.formats.split import Chunk, OnTruncation

_kinds = pa.types
_REFUSED = (msgspec.MsgspecError, ValueError, RecursionError)
_ESCAPE_IN_NAME = re.compile(rb'\\[^"\\]*"\s*:')
_MINUS_ZERO = re.compile(rb"-0[\s,}\]]")


class JsonRows:
    """Some rows, and what has been read of them."""

    def __init__(
        self,
        rows: list[bytes],
        schema: pa.Schema,
        numbers: npt.NDArray[np.int64],
        on_truncation: OnTruncation = "cut",
        times: Times = (),
    ) -> None:
        """``numbers``: those of the rows in their file. ``times``: how times are declared to be written, by column."""
        self.forms = dict(times)
        self.rows, self.schema, self.numbers, self.on_truncation = rows, schema, numbers, on_truncation
        self.whole = b"\n".join(rows)
        self.parts: list[tuple[npt.NDArray[np.int64], pa.Table]] = []
        self.bad: list[BadRow] = []
        self.truncated: list[npt.NDArray[np.int64]] = []
        """The places of good rows in which a time was cut."""

    def chunk(self) -> Chunk:
        """All rows, good and bad; called once."""
        self._one_by_one(self._decode())
        if not self.parts:
            return self.schema.empty_table(), np.empty(0, np.int64), BadRows.of(self.bad)
        bad = BadRows.of(self.bad)
        if self.truncated:
            bad = bad.with_truncated(self.numbers[np.concatenate(self.truncated)])
        places = np.concatenate([some for some, _ in self.parts])
        table = pa.concat_tables([table for _, table in self.parts])
        if (np.diff(places) < 0).any():
            order = np.argsort(places, kind="stable")
            places, table = places[order], table.take(pa.array(order))
        return table, self.numbers[places], bad

    def _decode(self) -> list[int]:
        """Read what msgspec can; the places of the other rows."""
        made, places, aside = self._decoded()
        if not made:
            return aside
        columns = _Columns(self.forms)
        table, flags = columns.table(made, self.schema)
        doubtful = None if flags is None else refused(flags, self.on_truncation)
        rows, whole = self.rows, self.whole
        if aside:
            rows = [rows[place] for place in places]
            whole = b"\n".join(rows)
        for more in (
            _named_twice(rows, whole, columns.given),
            np.array([_MINUS_ZERO.search(row) is not None for row in rows])
            if _MINUS_ZERO.search(whole) and _holds(self.schema, _kinds.is_float64)
            else None,
        ):
            doubtful = more if doubtful is None else doubtful if more is None else doubtful | more
        found = np.array(places, np.int64)
        cut = None if flags is None else cut_of(flags)
        if cut is not None:
            self.truncated.append(found[cut if doubtful is None else cut & ~doubtful])
        if doubtful is None or not doubtful.any():
            self.parts.append((found, table))
            return aside
        self.parts.append((found[~doubtful], table.filter(pa.array(~doubtful))))
        return sorted([*aside, *found[doubtful].tolist()])

    def _decoded(self) -> tuple[list[Any], Sequence[int], list[int]]:
        """The rows that msgspec decodes, their places, and the places of the others."""
        decode = _decoder(self.schema, frozenset(self.forms))
        if decode is None:
            return [], [], list(range(len(self.rows)))
        if _is_utf8(self.whole):
            try:
                return list(map(decode, self.rows)), range(len(self.rows)), []
            except _REFUSED:
                pass
        made: list[Any] = []
        places: list[int] = []
        aside: list[int] = []
        for place, row in enumerate(self.rows):
            try:
                row.decode()
                made.append(decode(row))
                places.append(place)
            except _REFUSED:
                aside.append(place)
        return made, places, aside

    def _one_by_one(self, places: list[int]) -> None:
        """Read rows with Python, row by row, then convert them column by column."""
        kept: list[int] = []
        objects: list[Object] = []
        for place in places:
            try:
                objects.append(_object(self.rows[place]))
                kept.append(place)
            except ValueError as error:
                self._turn_away(place, str(error))
        if objects:
            self._objects(np.array(kept, dtype=np.int64), objects)

    def _objects(self, places: npt.NDArray[np.int64], objects: list[Object]) -> None:
        columns: list[pa.Array] = []
        reasons: dict[int, list[str]] = {}
        cut = np.zeros(len(objects), np.bool_)
        for field in self.schema:
            given = [declared_value(made, field.name) for made in objects]
            form = self.forms.get(field.name)
            values, flags = column_of(given, field.type) if form is None else timed_column(given, field.type, form)
            columns.append(values)
            if flags is None:
                continue
            for index in np.flatnonzero(refused(flags, self.on_truncation)).tolist():
                reasons.setdefault(index, []).append(_reason(objects[index], field, flags[index], form))
            cut = cut | (flags & CUT).astype(np.bool_)
        for index, row_reasons in reasons.items():
            self._turn_away(int(places[index]), "; ".join(row_reasons))
        good = np.array([index not in reasons for index in range(len(objects))], dtype=np.bool_)
        table = pa.Table.from_arrays(columns, schema=self.schema)
        self.parts.append((places[good], table.filter(pa.array(good)) if reasons else table))
        if cut.any():
            self.truncated.append(places[cut & good])

    def _turn_away(self, place: int, reason: str) -> None:
        self.bad.append(BadRow(int(self.numbers[place]), reason, self.rows[place].decode("utf-8", "backslashreplace")))


class _Columns:
    """Decoded values as columns, and how many values were given under each name, at any depth."""

    def __init__(self, forms: dict[str, str]) -> None:
        self.given: dict[str, int] = {}
        self.forms = forms

    def table(self, made: list[Any], schema: pa.Schema) -> tuple[pa.Table, Flags | None]:
        """The rows, and their flags."""
        flags: Flags | None = None
        columns: list[pa.Array] = []
        for index, field in enumerate(schema):
            values, of_column = self._named(list(map(_attribute(index), made)), field, self.forms.get(field.name))
            columns.append(values)
            flags = either(flags, of_column)
        return pa.Table.from_arrays(columns, schema=schema), flags

    def _named(self, values: list[Any], field: pa.Field, form: str | None = None) -> Converted:
        absent = values.count(msgspec.UNSET)
        self.given[field.name] = self.given.get(field.name, 0) + len(values) - absent
        if absent:
            values = [None if value is msgspec.UNSET else value for value in values]
        return self._array(values, field.type) if form is None else _timed(values, field.type, form)

    def _array(self, values: list[Any], kind: pa.DataType) -> Converted:
        if _kinds.is_list(kind):
            if _form(kind.value_type)[1] is _plainly:
                return _plainly(values, kind)
            inside, inner = self._array(
                [one for value in values if value is not None for one in value], kind.value_type
            )
            return list_array(values, inside, inner, kind)
        if _is_struct(kind):
            return struct_array(values, [self._child(values, index, field) for index, field in enumerate(kind)], kind)
        return _form(kind)[1](values, kind)

    def _child(self, values: list[Any], index: int, field: pa.Field) -> Converted:
        child = _attribute(index)
        return self._named([msgspec.UNSET if value is None else child(value) for value in values], field)


def _named_twice(rows: list[bytes], whole: bytes, given: dict[str, int]) -> Mask | None:
    """Mask of the rows that may give a declared name more than once, of whose values msgspec takes the last.

    A name stands in the rows as often as it was read, unless it is given twice or stands elsewhere too; if it is
    written with escapes, that shows.
    """
    keys = {f'"{name}"'.encode(): count for name, count in given.items()}
    escaped = b"\\" in whole and bool(_ESCAPE_IN_NAME.search(whole))
    odd = [key for key, count in keys.items() if escaped or whole.count(key) != count]
    if not odd:
        return None
    return np.fromiter(
        ((escaped and b"\\" in row) or any(row.count(key) > 1 for key in odd) for row in rows), np.bool_, len(rows)
    )


def _holds(kind: pa.Schema | pa.DataType, is_kind: Callable[[pa.DataType], bool]) -> bool:
    """Whether a field at any depth is of some kind."""
    return any(
        _holds(field.type, is_kind) if _kinds.is_nested(field.type) else is_kind(field.type)
        for field in (kind if isinstance(kind, pa.Schema) else [kind.field(at) for at in range(kind.num_fields)])
    )


def _is_utf8(data: bytes) -> bool:
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


@lru_cache(maxsize=128)
def _decoder(schema: pa.Schema, raw: frozenset[str]) -> Callable[[bytes], Any] | None:
    """None where msgspec does not know the names, for their quotes or control characters. ``raw``: the columns that
    stay JSON."""
    try:
        return msgspec.json.Decoder(_struct(schema, raw)).decode
    except ValueError:
        return None


def _struct(fields: pa.Schema | pa.StructType, raw: frozenset[str] = frozenset()) -> type[msgspec.Struct]:
    """A class with an attribute f0, f1 ... for each field, UNSET where it is absent."""
    names = {f"f{index}": field.name for index, field in enumerate(fields)}
    shapes = [
        (f"f{index}", msgspec.Raw if field.name in raw else _shape(field.type), msgspec.UNSET)
        for index, field in enumerate(fields)
    ]
    return msgspec.defstruct("Row", shapes, rename=names, gc=False)


def _shape(kind: pa.DataType) -> Any:
    """What msgspec shall accept for a type."""
    if _kinds.is_list(kind):
        return list[_shape(kind.value_type)] | None  # type: ignore[misc]
    return _struct(kind) | None if _is_struct(kind) else _form(kind)[0]


def _is_struct(kind: pa.DataType) -> bool:
    return bool(_kinds.is_struct(kind)) and kind.num_fields > 0


def _plainly(values: list[Any], kind: pa.DataType) -> Converted:
    return pa.array(values, kind), None


def _whole(values: list[Any], kind: pa.DataType) -> Converted:
    try:
        numbers, beyond = pa.array(values, pa.int64()), None
    except OverflowError:
        fits = [value is None or -(2**63) <= value < 2**63 for value in values]
        numbers = pa.array([value if fit else None for value, fit in zip(values, fits, strict=True)], pa.int64())
        beyond = ~np.array(fits)
    converted, bad = convert(numbers, kind)
    return converted, either(beyond, bad)


def _moments(values: list[Any], kind: pa.DataType) -> Converted:
    if all(type(value) is int for value in values):
        numbers, beyond = _whole(values, pa.int64())
        moments, bad = within_calendar(*from_milliseconds(numbers, kind))
        return moments, either(beyond, bad)
    return parse_text(pa.array([str(value) if type(value) is int else value for value in values], pa.string()), kind)


def _from_text(values: list[Any], kind: pa.DataType) -> Converted:
    return (parse_base64 if _kinds.is_binary(kind) else parse_text)(pa.array(values, pa.string()), kind)


def _timed(values: list[Any], kind: pa.DataType, form: str) -> Converted:
    texts = [None if value is None else _plain_text(bytes(value)) for value in values]
    if _ODD in texts:
        given = [None if value is None else cell(bytes(value).decode()) for value in values]
        return timed_column(given, kind, form)
    return form_of(form).parse(pa.array(texts, pa.binary()).cast(pa.string()), kind)


_ODD = b"\0"


def _plain_text(value: bytes) -> bytes | None:
    """A text without its quotes, or a number; None for null, and ``_ODD`` for another value or one with escapes."""
    if value[:1] == b'"' and b"\\" not in value:
        return value[1:-1]
    if value[:1].isdigit() or value[:1] == b"-":
        return value
    return None if value == b"null" else _ODD


def _numbers(values: list[Any], kind: pa.DataType) -> Converted:
    texts = [_bare(bytes(value)) for value in values if value is not None]
    if len(texts) < len(values) or None in texts:
        return _from_json(values, kind)
    return parse_text(pa.array(texts, pa.binary()).cast(pa.string()), kind)


def _bare(text: bytes) -> bytes | None:
    """A number without the quotes that it may have; None for another value, and where escapes may hide one."""
    bare = text[1:-1] if text[0] == ord('"') and b"\\" not in text else text
    return bare if bare[:1].isdigit() or bare[:1] in (b"-", b"+", b".") else None


def _from_json(values: list[Any], kind: pa.DataType) -> Converted:
    return column_of([None if value is None else cell(bytes(value).decode()) for value in values], kind)


_SIMPLE: tuple[tuple[Callable[[pa.DataType], bool], Any, Callable[[list[Any], pa.DataType], Converted]], ...] = (
    (_kinds.is_string, str | None, _plainly),
    (_kinds.is_boolean, bool | None, _plainly),
    (_kinds.is_float64, float | None, _plainly),
    (_kinds.is_signed_integer, int | None, _whole),
    (_kinds.is_timestamp, str | int | None, _moments),
    (_kinds.is_date, str | None, _from_text),
    (_kinds.is_binary, str | None, _from_text),
    (_kinds.is_decimal, msgspec.Raw, _numbers),
    (_kinds.is_float32, msgspec.Raw, _numbers),
)


def _form(kind: pa.DataType) -> tuple[Any, Callable[[list[Any], pa.DataType], Converted]]:
    """What msgspec shall accept for a simple type, and how that becomes a column; what it does not know stays JSON."""
    return next(((shape, read) for is_kind, shape, read in _SIMPLE if is_kind(kind)), (msgspec.Raw, _from_json))


def _attribute(index: int) -> Callable[[Any], Any]:
    return attrgetter(f"f{index}")


def _object(row: bytes) -> Object:
    try:
        text = row.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"not valid UTF-8 at byte {error.start + 1}") from error
    value = parse_json(text)
    if not isinstance(value, Object):
        raise ValueError(f"not a JSON object: {text.strip()[:50]}")
    return value


def _reason(made: Object, field: pa.Field, flag: np.bool_ | np.uint8, form: str | None) -> str:
    if flag == CUT:
        return too_fine(field.name, jsonable(made.get(field.name)))
    if field.name in made.twice:
        return f"column {field.name!r}: the name is given more than once"
    return misfit(field.name, _python(jsonable(made.get(field.name))), field.type, form)


def _python(value: Any) -> Any:
    return _Verbatim(value) if isinstance(value, Number) else value


class _Verbatim(str):
    """A number whose ``repr`` is its original text."""

    def __repr__(self) -> str:
        return str(self)
