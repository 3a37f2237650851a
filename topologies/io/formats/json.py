"""Files of JSON, with one object on each line or as one array of objects, read as the declared columns."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter
from typing import Any, ClassVar

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.fs as pafs

from topologies.io.formats.conform import as_bytes, convert, reason_of_misfit, reason_too_fine, refused_mask
from topologies.io.formats.declared_times import Times, checked_times, form_of
from topologies.io.formats.event_files import (
    LONGEST_DATA,
    BadRow,
    BadRows,
    Chunk,
    FileSplit,
    OneSplit,
    OnTruncation,
    as_data_error,
    check_truncation,
    open_file,
    refuse_repeated_names,
    rows_in_order,
)
from topologies.io.formats.lines import BOM, LONGEST_ROW, LongLine, blocks_of_lines
from topologies.io.formats.text_values import (
    CUT,
    Converted,
    Flags,
    Mask,
    bad_mask,
    blank_bad,
    cut_mask,
    flags_of_lists,
    from_milliseconds,
    parse_base64,
    parse_text,
    union_flags,
    within_calendar,
)
from windowing.errors import ConfigError

# Converts JSON values to typed columns, for rows that msgspec refused and types that it does not know.
#
# Numbers keep their text until the declared type is known, so that nothing is rounded. A declared name that occurs
# twice in an object makes the row bad. Text is not a number and a number is not text, but numbers may be written as
# strings ("NaN", "Infinity" and exact decimals need this). A map is an object, or a list of [key, value].


_kinds = pa.types


class Number(str):
    """A number with its original text."""


class Object(dict[str, Any]):
    """An object that also records its repeated names."""

    repeated_names: frozenset[str] = frozenset()


class _Wrong:
    """Placeholder for a value that cannot have the declared type."""


_WRONG = _Wrong()


def parse_json(text: str) -> Any:
    """Returns the value of a JSON text, with numbers as ``Number``. Raises ValueError, with the position."""
    try:
        return _exact_decoder.decode(text)
    except json.JSONDecodeError as error:
        what = error.msg.removesuffix(" starting at")  # for an unfinished text Python says where it starts
        hint = _over_lines(text, error.pos)
        raise ValueError(f"not valid JSON: {what} at character {error.pos + 1}{hint}") from error
    except RecursionError as error:
        raise ValueError("not valid JSON: nested too deeply") from error


def _over_lines(text: str, position: int) -> str:
    """Returns advice for a text that is only a part of a value; "" for others."""
    begins = text.lstrip()[:1] in ("{", "[") and position >= len(text.rstrip())
    if not begins and text.strip().rstrip(",") not in ("}", "]"):
        return ""
    return ". Each object stands on one line, or the file is one array of objects (format='json')"


def _object_of_pairs(pairs: list[tuple[str, Any]]) -> Object:
    record = Object(pairs)
    if len(record) < len(pairs):
        record.repeated_names = frozenset(
            name for name, times in Counter(name for name, _ in pairs).items() if times > 1
        )
    return record


_exact_decoder = json.JSONDecoder(
    object_pairs_hook=_object_of_pairs, parse_float=Number, parse_int=Number, parse_constant=Number
)


def typed_array(values: list[Any], target: pa.DataType) -> Converted:
    """Returns parsed values as a typed array, with null for absent and bad values."""
    if _kinds.is_struct(target):
        return _structs(values, target)
    if _kinds.is_map(target):
        return _map_column(values, target)
    if _kinds.is_list(target) or _kinds.is_large_list(target):
        return _list_column(values, target)
    if _kinds.is_boolean(target):
        return _array_or_wrong(
            [value if value is None or isinstance(value, bool) else _WRONG for value in values], target
        )
    texts, wrong = _array_or_wrong([_text_for(value, target) for value in values], pa.string())
    if _kinds.is_string(target) or _kinds.is_large_string(target) or _kinds.is_string_view(target):
        return texts.cast(target), wrong
    parse = parse_base64 if _kinds.is_binary(target) or _kinds.is_large_binary(target) else parse_text
    parsed, unreadable = parse(texts, target)
    return parsed, wrong if unreadable is None else unreadable if wrong is None else wrong | unreadable


def array_of_times(values: list[Any], target: pa.DataType, form: str) -> Converted:
    """Returns parsed values as times of a declared form."""
    texts, wrong = _array_or_wrong([_text_for(value, _AS_TIME) for value in values], pa.string())
    moments, flags = form_of(form).parse(texts, target)
    return moments, union_flags(wrong, flags)


_AS_TIME = pa.timestamp("us")
"""A type for which both numbers and texts are read as texts."""


def parse_cells(texts: pa.Array, target: pa.DataType) -> Converted:
    """Returns texts with a JSON value each as a typed array."""
    return typed_array([None if text is None else parse_cell(text) for text in texts.to_pylist()], target)


def declared_value(record: Object, name: str) -> Any:
    return _WRONG if name in record.repeated_names else record.get(name)


def for_display(value: Any) -> Any:
    """Returns a parsed value for display, with its original text where JSON allows it."""
    return "(given twice)" if isinstance(value, _Wrong) else value


def parse_cell(text: str) -> Any:
    """Returns the value of a JSON text for ``typed_array``; marks text that is not JSON as bad."""
    try:
        return parse_json(text)
    except ValueError:
        return _WRONG


def _text_for(value: Any, target: pa.DataType) -> Any:
    """Returns the text to parse as ``target``, from a string or a number."""
    if value is None:
        return None
    if isinstance(value, Number):
        numeric = _kinds.is_integer(target) or _kinds.is_floating(target) or _kinds.is_decimal(target)
        return str(value) if numeric or _kinds.is_timestamp(target) else _WRONG
    if not isinstance(value, str):
        return _WRONG
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return _WRONG
    return value


def _array_or_wrong(values: list[Any], target: pa.DataType) -> Converted:
    bad = _mask_of_wrong(values)
    kept = values if bad is None else [None if isinstance(value, _Wrong) else value for value in values]
    return pa.array(kept, target), bad


def _mask_of_wrong(values: list[Any]) -> Mask | None:
    bad = _wrong_mask(values)
    return bad if bad.any() else None


def _wrong_mask(values: list[Any]) -> Mask:
    return np.fromiter((isinstance(value, _Wrong) for value in values), np.bool_, len(values))


def _with_shape(values: list[Any], shape: type) -> list[Any]:
    return [value if value is None or isinstance(value, shape) else _WRONG for value in values]


def _structs(values: list[Any], target: pa.DataType) -> Converted:
    shaped = _with_shape(values, Object)
    if not target.num_fields:
        return _array_or_wrong([{} if isinstance(value, Object) else value for value in shaped], target)
    children = [
        typed_array(
            [declared_value(value, field.name) if isinstance(value, Object) else None for value in shaped],
            field.type,
        )
        for field in target
    ]
    return struct_array(shaped, children, target)


def struct_array(values: list[Any], children: list[Converted], target: pa.DataType) -> Converted:
    """Returns structs with these children: null for a null in ``values``, bad for a wrong value or a bad child."""
    flags: Flags = _wrong_mask(values)
    for _, spoiled in children:
        flags = flags if spoiled is None else flags | spoiled
    absent = bad_mask(flags) | np.fromiter((value is None for value in values), np.bool_, len(values))
    arrays = [child for child, _ in children]
    built = pa.StructArray.from_arrays(arrays, fields=list(target), mask=pa.array(absent))
    return built, flags if flags.any() else None


def _list_column(values: list[Any], target: pa.DataType) -> Converted:
    shaped = _with_shape(values, list)
    elements, element_flags = typed_array(
        [one for value in shaped if isinstance(value, list) for one in value], target.value_type
    )
    return list_array(shaped, elements, element_flags, target)


def list_array(values: list[Any], elements: pa.Array, element_flags: Flags | None, target: pa.DataType) -> Converted:
    """Returns lists of these elements, divided as in ``values``: null for a null, bad for a wrong value or a bad
    element."""
    offsets = _offsets(values)
    bad = _bad_lists(values, element_flags, offsets)
    absent = pa.array([value is None for value in values], pa.bool_())
    small = pa.list_(target.value_field)
    built = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), elements, type=small, mask=absent).cast(target)
    return _with_bad_as_null(built, bad)


def _map_column(values: list[Any], target: pa.DataType) -> Converted:
    shaped = [_pairs(value) for value in values]
    flat = [pair for value in shaped if isinstance(value, list) for pair in value]
    keys, bad_keys = typed_array([key for key, _ in flat], target.key_type)
    items, bad_items = typed_array([item for _, item in flat], target.item_type)
    element_flags: Flags = np.zeros(len(flat), dtype=np.bool_)
    for some in (bad_keys, bad_items, keys.is_null().to_numpy(zero_copy_only=False)):
        element_flags = element_flags if some is None else element_flags | some
    keys = keys.fill_null(_filler(keys)) if keys.null_count else keys
    offsets = _offsets(shaped)
    bad = _bad_lists(shaped, element_flags, offsets)
    absent = pa.array([value is None for value in shaped], pa.bool_())
    built = pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), keys, items, type=target, mask=absent)
    return _with_bad_as_null(built, bad)


def _filler(keys: pa.Array) -> pa.Scalar:
    """Returns a placeholder for the keys of bad maps, since a map's key cannot be null."""
    present = keys.drop_null()
    return present[0] if len(present) else pa.array([b"\0" * 16]).view(pa.binary()).cast(pa.binary(16))[0]


def _pairs(value: Any) -> Any:
    if value is None:
        return None
    if isinstance(value, Object):
        return _WRONG if value.repeated_names else list(value.items())
    if isinstance(value, list) and all(isinstance(pair, list) and len(pair) == 2 for pair in value):
        return [(key, item) for key, item in value]
    return _WRONG


def _offsets(shaped: list[Any]) -> np.ndarray[Any, np.dtype[np.int64]]:
    lengths = [len(value) if isinstance(value, list) else 0 for value in shaped]
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64)


def _bad_lists(shaped: list[Any], element_flags: Flags | None, offsets: np.ndarray[Any, np.dtype[np.int64]]) -> Flags:
    """Returns flags of the values: bad for a value that is not a list, and for a list with a bad element."""
    bad = _wrong_mask(shaped)
    return bad if element_flags is None else bad | flags_of_lists(element_flags, offsets)


def _with_bad_as_null(built: pa.Array, bad: Flags) -> Converted:
    return (blank_bad(built, bad), bad) if bad.any() else (built, None)


# Reads rows of JSON, an object each, as the declared columns.
#
# msgspec decodes rows that plainly have the declared types: it is strict, and raises for the first wrong row. A row
# that it refuses, or with a value that cannot be converted afterwards, is read again by Python's ``json``, which
# decides and gives the reason. msgspec misses three things, which are checked here: invalid UTF-8 in undeclared values,
# repeated names, and the sign of -0 as a double.


_REFUSALS = (msgspec.MsgspecError, ValueError, RecursionError)
_ESCAPE_IN_NAME = re.compile(rb'\\[^"\\]*"\s*:')
_MINUS_ZERO = re.compile(rb"-0[\s,}\]]")


class JsonRows:
    """Rows of JSON, and the columns decoded so far."""

    def __init__(
        self,
        rows: list[bytes],
        schema: pa.Schema,
        numbers: npt.NDArray[np.int64],
        on_truncation: OnTruncation = "cut",
        times: Times = (),
    ) -> None:
        """``numbers``: the row numbers in the file. ``times``: the declared forms of times, by column."""
        self.forms = dict(times)
        self.rows, self.schema, self.numbers, self.on_truncation = rows, schema, numbers, on_truncation
        self.joined_rows = b"\n".join(rows)
        self.parts: list[tuple[npt.NDArray[np.int64], pa.Table]] = []
        self.bad: list[BadRow] = []
        self.truncated: list[npt.NDArray[np.int64]] = []
        """The indices of good rows in which a time was cut."""

    def chunk(self) -> Chunk:
        """Returns all rows, good and bad; may be called once."""
        self._read_with_python(self._decode())
        bad = BadRows.of(self.bad)
        if self.truncated:
            bad = bad.with_truncated(self.numbers[np.concatenate(self.truncated)])
        indices, table = rows_in_order(self.parts, self.schema)
        return table, self.numbers[indices], bad

    def _decode(self) -> list[int]:
        """Decodes the rows that msgspec can decode; returns the indices of the other rows."""
        decoded, indices, left_to_python = self._decode_with_msgspec()
        if not decoded:
            return left_to_python
        columns = _Columns(self.forms)
        table, flags = columns.table(decoded, self.schema)
        recheck = None if flags is None else refused_mask(flags, self.on_truncation)
        rows, joined_rows = self.rows, self.joined_rows
        if left_to_python:
            rows = [rows[index] for index in indices]
            joined_rows = b"\n".join(rows)
        for to_recheck in (
            _may_repeat_names(rows, joined_rows, columns.value_counts),
            np.array([_MINUS_ZERO.search(row) is not None for row in rows])
            if _MINUS_ZERO.search(joined_rows) and _has_type(self.schema, _kinds.is_float64)
            else None,
        ):
            recheck = to_recheck if recheck is None else recheck if to_recheck is None else recheck | to_recheck
        indices_decoded = np.array(indices, np.int64)
        cut = None if flags is None else cut_mask(flags)
        if cut is not None:
            self.truncated.append(indices_decoded[cut if recheck is None else cut & ~recheck])
        if recheck is None or not recheck.any():
            self.parts.append((indices_decoded, table))
            return left_to_python
        self.parts.append((indices_decoded[~recheck], table.filter(pa.array(~recheck))))
        return sorted([*left_to_python, *indices_decoded[recheck].tolist()])

    def _decode_with_msgspec(self) -> tuple[list[Any], Sequence[int], list[int]]:
        """Returns the rows that msgspec decodes, their indices, and the indices of the other rows."""
        decode = _decoder(self.schema, frozenset(self.forms))
        if decode is None:
            return [], [], list(range(len(self.rows)))
        if _is_utf8(self.joined_rows):
            try:
                return list(map(decode, self.rows)), range(len(self.rows)), []
            except _REFUSALS:
                pass
        decoded: list[Any] = []
        indices: list[int] = []
        left_to_python: list[int] = []
        for index, row in enumerate(self.rows):
            try:
                row.decode()
                decoded.append(decode(row))
                indices.append(index)
            except _REFUSALS:
                left_to_python.append(index)
        return decoded, indices, left_to_python

    def _read_with_python(self, indices: list[int]) -> None:
        """Reads rows one by one with Python, then converts them column by column."""
        kept: list[int] = []
        objects: list[Object] = []
        for index in indices:
            try:
                objects.append(_object(self.rows[index]))
                kept.append(index)
            except ValueError as error:
                self._add_bad_row(index, str(error))
        if objects:
            self._add_objects(np.array(kept, dtype=np.int64), objects)

    def _add_objects(self, indices: npt.NDArray[np.int64], objects: list[Object]) -> None:
        columns: list[pa.Array] = []
        reasons: dict[int, list[str]] = {}
        cut = np.zeros(len(objects), np.bool_)
        for field in self.schema:
            values = [declared_value(record, field.name) for record in objects]
            form = self.forms.get(field.name)
            array, flags = typed_array(values, field.type) if form is None else array_of_times(values, field.type, form)
            columns.append(array)
            if flags is None:
                continue
            for index in np.flatnonzero(refused_mask(flags, self.on_truncation)).tolist():
                reasons.setdefault(index, []).append(_reason(objects[index], field, flags[index], form))
            cut = cut | (flags & CUT).astype(np.bool_)
        for index, row_reasons in reasons.items():
            self._add_bad_row(int(indices[index]), "; ".join(row_reasons))
        good = np.array([index not in reasons for index in range(len(objects))], dtype=np.bool_)
        table = pa.Table.from_arrays(columns, schema=self.schema)
        self.parts.append((indices[good], table.filter(pa.array(good)) if reasons else table))
        if cut.any():
            self.truncated.append(indices[cut & good])

    def _add_bad_row(self, index: int, reason: str) -> None:
        self.bad.append(BadRow(int(self.numbers[index]), reason, self.rows[index].decode("utf-8", "backslashreplace")))


class _Columns:
    """Decoded values as columns, and how many values each name has, at any depth."""

    def __init__(self, forms: dict[str, str]) -> None:
        self.value_counts: dict[str, int] = {}
        self.forms = forms

    def table(self, decoded: list[Any], schema: pa.Schema) -> tuple[pa.Table, Flags | None]:
        """Returns the rows as a table, and their flags."""
        flags: Flags | None = None
        columns: list[pa.Array] = []
        for index, field in enumerate(schema):
            values, column_flags = self._column(
                list(map(_attribute(index), decoded)), field, self.forms.get(field.name)
            )
            columns.append(values)
            flags = union_flags(flags, column_flags)
        return pa.Table.from_arrays(columns, schema=schema), flags

    def _column(self, values: list[Any], field: pa.Field, form: str | None = None) -> Converted:
        absent = values.count(msgspec.UNSET)
        self.value_counts[field.name] = self.value_counts.get(field.name, 0) + len(values) - absent
        if absent:
            values = [None if value is msgspec.UNSET else value for value in values]
        return self._array(values, field.type) if form is None else _times_of_form(values, field.type, form)

    def _array(self, values: list[Any], kind: pa.DataType) -> Converted:
        if _kinds.is_list(kind):
            if _reader_of_type(kind.value_type)[1] is _unchanged:
                return _unchanged(values, kind)
            elements, element_flags = self._array(
                [one for value in values if value is not None for one in value], kind.value_type
            )
            return list_array(values, elements, element_flags, kind)
        if _is_struct(kind):
            return struct_array(values, [self._child(values, index, field) for index, field in enumerate(kind)], kind)
        return _reader_of_type(kind)[1](values, kind)

    def _child(self, values: list[Any], index: int, field: pa.Field) -> Converted:
        child = _attribute(index)
        return self._column([msgspec.UNSET if value is None else child(value) for value in values], field)


def _may_repeat_names(rows: list[bytes], whole: bytes, value_counts: dict[str, int]) -> Mask | None:
    """Returns a mask of the rows that may repeat a declared name; msgspec silently takes the last value.

    A name occurs in the text as often as msgspec found it, unless it is repeated or also occurs elsewhere. Names
    written with escapes are recognised.
    """
    keys = {f'"{name}"'.encode(): count for name, count in value_counts.items()}
    escaped = b"\\" in whole and bool(_ESCAPE_IN_NAME.search(whole))
    odd = [key for key, count in keys.items() if escaped or whole.count(key) != count]
    if not odd:
        return None
    return np.fromiter(
        ((escaped and b"\\" in row) or any(row.count(key) > 1 for key in odd) for row in rows), np.bool_, len(rows)
    )


def _has_type(kind: pa.Schema | pa.DataType, is_kind: Callable[[pa.DataType], bool]) -> bool:
    """True if a field, at any depth, is of some kind."""
    return any(
        _has_type(field.type, is_kind) if _kinds.is_nested(field.type) else is_kind(field.type)
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
    """Returns the decoder; None if msgspec does not support a name, because of quotes or control characters. ``raw``:
    the columns that stay JSON."""
    try:
        return msgspec.json.Decoder(_struct(schema, raw)).decode
    except ValueError:
        return None


def _struct(fields: pa.Schema | pa.StructType, raw: frozenset[str] = frozenset()) -> type[msgspec.Struct]:
    """Returns a class with an attribute f0, f1 ... for each field, UNSET if the field is absent."""
    names = {f"f{index}": field.name for index, field in enumerate(fields)}
    shapes = [
        (f"f{index}", msgspec.Raw if field.name in raw else _shape(field.type), msgspec.UNSET)
        for index, field in enumerate(fields)
    ]
    return msgspec.defstruct("Row", shapes, rename=names, gc=False)


def _shape(kind: pa.DataType) -> Any:
    """Returns the type by which msgspec reads an Arrow type."""
    if _kinds.is_list(kind):
        return list[_shape(kind.value_type)] | None  # type: ignore[misc]
    return _struct(kind) | None if _is_struct(kind) else _reader_of_type(kind)[0]


def _is_struct(kind: pa.DataType) -> bool:
    return bool(_kinds.is_struct(kind)) and kind.num_fields > 0


def _unchanged(values: list[Any], kind: pa.DataType) -> Converted:
    return pa.array(values, kind), None


def _integers(values: list[Any], kind: pa.DataType) -> Converted:
    try:
        numbers, beyond = pa.array(values, pa.int64()), None
    except OverflowError:
        fits = [value is None or -(2**63) <= value < 2**63 for value in values]
        numbers = pa.array([value if fit else None for value, fit in zip(values, fits, strict=True)], pa.int64())
        beyond = ~np.array(fits)
    converted, bad = convert(numbers, kind)
    return converted, union_flags(beyond, bad)


def _moments(values: list[Any], kind: pa.DataType) -> Converted:
    if all(type(value) is int or value is None for value in values):
        numbers, beyond = _integers(values, pa.int64())
        moments, bad = within_calendar(*from_milliseconds(numbers, kind))
        return moments, union_flags(beyond, bad)
    return parse_text(pa.array([str(value) if type(value) is int else value for value in values], pa.string()), kind)


def _from_text(values: list[Any], kind: pa.DataType) -> Converted:
    return (parse_base64 if _kinds.is_binary(kind) else parse_text)(pa.array(values, pa.string()), kind)


def _times_of_form(values: list[Any], kind: pa.DataType, form: str) -> Converted:
    texts = [None if value is None else _unquoted_text(bytes(value)) for value in values]
    if _ODD in texts:
        values_of_json = [None if value is None else parse_cell(bytes(value).decode()) for value in values]
        return array_of_times(values_of_json, kind, form)
    return form_of(form).parse(pa.array(texts, pa.binary()).cast(pa.string()), kind)


_ODD = b"\0"


def _unquoted_text(value: bytes) -> bytes | None:
    """Returns a text without its quotes, or a number; None for null; ``_ODD`` for another value and for text with
    escapes."""
    if value[:1] == b'"' and b"\\" not in value:
        return value[1:-1]
    if value[:1].isdigit() or value[:1] == b"-":
        return value
    return None if value == b"null" else _ODD


def _exact_numbers(values: list[Any], kind: pa.DataType) -> Converted:
    texts = [_unquoted_number(bytes(value)) for value in values if value is not None]
    if len(texts) < len(values) or None in texts:
        return _from_json(values, kind)
    return parse_text(pa.array(texts, pa.binary()).cast(pa.string()), kind)


def _unquoted_number(text: bytes) -> bytes | None:
    """Returns a number without its optional quotes; None for another value, and for escapes, which may hide one."""
    bare = text[1:-1] if text[0] == ord('"') and b"\\" not in text else text
    return bare if bare[:1].isdigit() or bare[:1] in (b"-", b"+", b".") else None


def _from_json(values: list[Any], kind: pa.DataType) -> Converted:
    return typed_array([None if value is None else parse_cell(bytes(value).decode()) for value in values], kind)


_SIMPLE_TYPES: tuple[tuple[Callable[[pa.DataType], bool], Any, Callable[[list[Any], pa.DataType], Converted]], ...] = (
    (_kinds.is_string, str | None, _unchanged),
    (_kinds.is_boolean, bool | None, _unchanged),
    (_kinds.is_float64, float | None, _unchanged),
    (_kinds.is_signed_integer, int | None, _integers),
    (_kinds.is_timestamp, str | int | None, _moments),
    (_kinds.is_date, str | None, _from_text),
    (_kinds.is_binary, str | None, _from_text),
    (_kinds.is_decimal, msgspec.Raw, _exact_numbers),
    (_kinds.is_float32, msgspec.Raw, _exact_numbers),
)


def _reader_of_type(kind: pa.DataType) -> tuple[Any, Callable[[list[Any], pa.DataType], Converted]]:
    """Returns the type by which msgspec reads a simple type, and its conversion to a column. Other types stay JSON."""
    return next(((shape, read) for is_kind, shape, read in _SIMPLE_TYPES if is_kind(kind)), (msgspec.Raw, _from_json))


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


def _reason(record: Object, field: pa.Field, flag: np.bool_ | np.uint8, form: str | None) -> str:
    if flag == CUT:
        return reason_too_fine(field.name, for_display(record.get(field.name)))
    if field.name in record.repeated_names:
        return f"column {field.name!r}: the name is given more than once"
    return reason_of_misfit(field.name, _for_repr(for_display(record.get(field.name))), field.type, form)


def _for_repr(value: Any) -> Any:
    return _Verbatim(value) if isinstance(value, Number) else value


class _Verbatim(str):
    """A number whose ``repr`` is its original text."""

    def __repr__(self) -> str:
        return str(self)


# Reads JSON lines, plain or gzipped: one object per line.
#
# A name missing from a line is null, and so is a declared name missing from all lines. A line must be UTF-8 and one
# object; blank lines are skipped. A string must be a string and a number a number, but numbers may be written as
# strings ("NaN", "Infinity", exact decimals); 3.0 and 1e2 are whole numbers, 3.7 is not. A whole number for a timestamp
# is milliseconds since the epoch; text is ISO 8601. Binary is base64, a date "2024-05-01", a map an object or a list of
# [key, value].


_BLOCK = 4 << 20


@dataclass(frozen=True)
class JsonlFormat(OneSplit):
    """Reads JSON lines.

    ``block_size``: bytes read at a time. Longer lines are read whole, up to ``longest_row`` bytes (16 MiB). A line
    beyond that is a bad row, which keeps the start of the line.
    """

    block_size: int = _BLOCK
    longest_row: int = LONGEST_ROW
    on_truncation: OnTruncation = "cut"
    times: Times = ()
    name: ClassVar[str] = "jsonl"

    def __post_init__(self) -> None:
        check_truncation(self.on_truncation)
        object.__setattr__(self, "times", checked_times(self.times))
        if self.block_size < 1:
            raise ConfigError(
                f"block_size {self.block_size} is too small", why="a block must hold whole lines", do="use 1 MB or more"
            )
        if self.longest_row < 1:
            raise ConfigError(
                f"longest_row {self.longest_row} is too small", why="rows are usually longer", do="use 1 MB or more"
            )

    def read(
        self,
        fs: pafs.FileSystem,
        split: FileSplit,
        schema: pa.Schema,
        needed: Collection[str] | None = None,
        optional: Collection[str] = (),
    ) -> Iterator[Chunk]:
        """Yields a chunk per block of lines."""
        refuse_repeated_names(schema)
        row = 0
        with open_file(fs, split.path, "JSON lines", streamed=True) as source:
            for block in blocks_of_lines(source, split.path, "JSON lines", self.block_size, self.longest_row):
                if isinstance(block, LongLine):
                    yield schema.empty_table(), np.empty(0, np.int64), BadRows.of([block.bad_row(row)])
                    row += 1
                    continue
                lines = [line for line in block.split(b"\n") if line.strip()]
                if lines:
                    yield self.read_lines(lines, schema, row)
                row += len(lines)

    def read_lines(self, lines: list[bytes], schema: pa.Schema, row: int = 0) -> Chunk:
        """Reads lines, none of them blank; ``row``: the number of the first line."""
        numbers = np.arange(row, row + len(lines))
        if max(map(len, lines)) <= self.longest_row:
            return JsonRows(lines, schema, numbers, self.on_truncation, self.times).chunk()
        long = [index for index, line in enumerate(lines) if len(line.removesuffix(b"\r")) > self.longest_row]
        too_long = [LongLine(lines[index][:LONGEST_DATA], self.longest_row).bad_row(row + index) for index in long]
        kept = np.delete(np.arange(len(lines)), long)
        good = [lines[index] for index in kept.tolist()]
        table, indices, bad = JsonRows(good, schema, numbers[kept], self.on_truncation, self.times).chunk()
        return table, indices, bad.with_others(too_long)


def parse_values(values: pa.Array, schema: pa.Schema, on_truncation: OnTruncation = "cut", times: Times = ()) -> Chunk:
    """Parses values with a JSON object each, by the rules for a line; rows are numbered by their index.

    A value may have several lines. A null or blank value is bad.
    """
    refuse_repeated_names(schema)
    texts = as_bytes(values).to_pylist()
    present = np.array([index for index, text in enumerate(texts) if text is not None and text.strip()], np.int64)
    rows = [texts[index] for index in present.tolist()]
    table, indices, bad = JsonRows(rows, schema, present, on_truncation, times).chunk()
    absent = [
        BadRow(int(index), "the value is null (a tombstone)" if texts[index] is None else "the value is blank", "")
        for index in np.setdiff1d(np.arange(len(texts)), present)
    ]
    return table, indices, bad.with_others(absent)


# Reads a JSON file with one array of objects; any other file is read as JSON lines.


_CLOSING = ord("]")
_REST = "the rest of the file cannot be read"


@dataclass(frozen=True)
class JsonFormat(JsonlFormat):
    """Reads a file with one array of objects, block by block; objects may span lines.

    A file that does not begin with ``[`` is read as JSON lines. In an array each object is a row, by the rules of JSON
    lines, and invalid JSON is a bad row. If the array does not end, or an element is longer than ``longest_row``, the
    rest of the file is one bad row.
    """

    name: ClassVar[str] = "json"

    def read(
        self,
        fs: pafs.FileSystem,
        split: FileSplit,
        schema: pa.Schema,
        needed: Collection[str] | None = None,
        optional: Collection[str] = (),
    ) -> Iterator[Chunk]:
        """Yields a chunk per block."""
        refuse_repeated_names(schema)
        with open_file(fs, split.path, "JSON", streamed=True) as source:
            array = _ArrayElements(source, split.path, self.block_size, self.longest_row)
            if array.begins():
                yield from array.chunks(schema, self.on_truncation, self.times)
                return
        yield from super().read(fs, split, schema, needed, optional)


class _ArrayElements:
    """The elements of an array, found by brackets and commas; the reader of rows checks the text between them."""

    def __init__(self, source: pa.NativeFile, path: str, size: int, longest: int) -> None:
        self.source, self.path, self.size, self.longest = source, path, size, longest
        self.data, self.place, self.ended = b"", 0, False
        self.scanned, self.depth = 0, 0  # how far the element at ``place`` was scanned, and the depth there

    def begins(self) -> bool:
        while not self.ended and (len(self.data) < len(BOM) or not self.data.removeprefix(BOM).strip()):
            self._read_more()
        self.data = self.data.removeprefix(BOM).lstrip()
        begins = self.data.startswith(b"[")
        self.place = self.scanned = int(begins)
        return begins

    def chunks(self, schema: pa.Schema, on_truncation: OnTruncation, times: Times) -> Iterator[Chunk]:
        row, why_ended = 0, None
        while why_ended is None:
            values, why_ended = self._values(first=row == 0)
            numbers = np.arange(row, row + len(values))
            if values:
                yield JsonRows(values, schema, numbers, on_truncation, times).chunk()
            row += len(values)
        if why_ended:
            rest = self.data[self.place :][:LONGEST_DATA].decode("utf-8", "backslashreplace")
            yield schema.empty_table(), np.empty(0, np.int64), BadRows.of([BadRow(row, why_ended, rest)])

    def _values(self, *, first: bool) -> tuple[list[bytes], str | None]:
        """Returns about a block of elements, and why no more follow: None if more may follow, "" at the end of the
        array, else the reason."""
        values: list[bytes] = []
        taken = 0
        while taken < self.size:
            end = self._next_end()
            if end is None:
                if len(self.data) - self.place > self.longest:
                    return values, f"an element has more than {self.longest:,} bytes, or does not end; {_REST}"
                return values, f"the file ends within the array; {_REST}"
            value, last = self.data[self.place : end].strip(), self.data[end] == _CLOSING
            if len(value) > self.longest:
                return values, f"an element has more than {self.longest:,} bytes, or does not end; {_REST}"
            if value or not (last and first and not values):
                values.append(value)
            taken += end - self.place + 1
            self.place = self.scanned = end + 1
            if last:
                return values, self._text_after_array()
        return values, None

    def _text_after_array(self) -> str:
        while not self.data[self.place :].strip() and not self.ended:
            self._read_more()
        return f"something follows the array; {_REST}" if self.data[self.place :].strip() else ""

    def _next_end(self) -> int | None:
        """Returns where the next element ends, at a comma or the array's bracket; None if it does not end."""
        while True:
            scanned_to = len(self.data)
            for token in _TOKEN.finditer(self.data, self.scanned):
                what = token[0]
                if what == b'"':  # a text that is incomplete so far
                    scanned_to = token.start()
                    break
                if what in b"[{":
                    self.depth += 1
                elif self.depth and what in b"]}":
                    self.depth -= 1
                elif not self.depth and what in b",]":
                    return token.start()
            self.scanned = scanned_to
            if self.ended or len(self.data) - self.place > self.longest:
                return None
            self._read_more()

    def _read_more(self) -> None:
        with as_data_error(self.path, "JSON"):
            data: bytes = self.source.read(self.size)
        self.ended = not data
        self.data = self.data[self.place :] + data
        self.scanned -= self.place
        self.place = 0


_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*+"|["\[\]{},]', re.DOTALL)
