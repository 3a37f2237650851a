"""JSON values to typed columns, where msgspec (``jsonrows.py``) has refused a row, or does not know the type.

Numbers keep their text until the declared type is known, so that nothing is rounded on the way. A name that
is given twice in an object is bad where it is declared. Text is not a number and a number no text, but numbers
may be spelled as strings ("NaN", "Infinity" and exact decimals need it). A map is an object, or a list of
[key, value].
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa

from topologies.io.formats.declared_times import form_of
from topologies.io.formats.isolate import Converted, Flags, Mask, bad_of, blank, either, of_lists
from topologies.io.formats.lines.text import parse_base64, parse_text

_kinds = pa.types


class Number(str):
    """A number as it was written."""


class Object(dict[str, Any]):
    """An object, and its repeated names."""

    twice: frozenset[str] = frozenset()


class _Wrong:
    """Placeholder for a value that cannot have the declared type."""


_WRONG = _Wrong()


def parse_json(text: str) -> Any:
    """The value of a JSON text, with numbers as ``Number``. Raises ValueError, with the position."""
    try:
        return _decoder.decode(text)
    except json.JSONDecodeError as error:
        what = error.msg.removesuffix(" starting at")  # of a text without an end Python says where it starts
        hint = _over_lines(text, error.pos)
        raise ValueError(f"not valid JSON: {what} at character {error.pos + 1}{hint}") from error
    except RecursionError as error:
        raise ValueError("not valid JSON: nested too deeply") from error


def _over_lines(text: str, position: int) -> str:
    """What to do about a text that is a part of a value."""
    begins = text.lstrip()[:1] in ("{", "[") and position >= len(text.rstrip())
    if not begins and text.strip().rstrip(",") not in ("}", "]"):
        return ""
    return ". Each object stands on one line, or the file is one array of objects (format='json')"


def _object(pairs: list[tuple[str, Any]]) -> Object:
    made = Object(pairs)
    if len(made) < len(pairs):
        made.twice = frozenset(name for name, times in Counter(name for name, _ in pairs).items() if times > 1)
    return made


_decoder = json.JSONDecoder(object_pairs_hook=_object, parse_float=Number, parse_int=Number, parse_constant=Number)


def column_of(values: list[Any], target: pa.DataType) -> Converted:
    """Parsed values as a typed array, null where a value is absent or bad."""
    if _kinds.is_struct(target):
        return _structs(values, target)
    if _kinds.is_map(target):
        return _maps(values, target)
    if _kinds.is_list(target) or _kinds.is_large_list(target):
        return _lists(values, target)
    if _kinds.is_boolean(target):
        return _simple([value if value is None or isinstance(value, bool) else _WRONG for value in values], target)
    texts, wrong = _simple([_text_for(value, target) for value in values], pa.string())
    if _kinds.is_string(target) or _kinds.is_large_string(target) or _kinds.is_string_view(target):
        return texts.cast(target), wrong
    parse = parse_base64 if _kinds.is_binary(target) or _kinds.is_large_binary(target) else parse_text
    parsed, unreadable = parse(texts, target)
    return parsed, wrong if unreadable is None else unreadable if wrong is None else wrong | unreadable


def timed_column(values: list[Any], target: pa.DataType, form: str) -> Converted:
    """Parsed values as times that are written in a declared form."""
    texts, wrong = _simple([_text_for(value, _AS_TIME) for value in values], pa.string())
    moments, flags = form_of(form).parse(texts, target)
    return moments, either(wrong, flags)


_AS_TIME = pa.timestamp("us")
"""A type for which numbers are texts too."""


def parse_cells(texts: pa.Array, target: pa.DataType) -> Converted:
    """Texts that each hold a JSON value, as a typed array."""
    return column_of([None if text is None else cell(text) for text in texts.to_pylist()], target)


def declared_value(made: Object, name: str) -> Any:
    return _WRONG if name in made.twice else made.get(name)


def jsonable(value: Any) -> Any:
    """A parsed value for display: what was written, as far as JSON preserves it."""
    return "(given twice)" if isinstance(value, _Wrong) else value


def cell(text: str) -> Any:
    """The value of a JSON text, for ``column_of``, which finds it bad where it is no JSON."""
    try:
        return parse_json(text)
    except ValueError:
        return _WRONG


def _text_for(value: Any, target: pa.DataType) -> Any:
    """The text to parse as ``target``: from a string or a number, whichever the type is written as."""
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


def _simple(values: list[Any], target: pa.DataType) -> Converted:
    bad = _wrong(values)
    kept = values if bad is None else [None if isinstance(value, _Wrong) else value for value in values]
    return pa.array(kept, target), bad


def _wrong(values: list[Any]) -> Mask | None:
    bad = _is_wrong(values)
    return bad if bad.any() else None


def _is_wrong(values: list[Any]) -> Mask:
    return np.fromiter((isinstance(value, _Wrong) for value in values), np.bool_, len(values))


def _shaped(values: list[Any], shape: type) -> list[Any]:
    return [value if value is None or isinstance(value, shape) else _WRONG for value in values]


def _structs(values: list[Any], target: pa.DataType) -> Converted:
    shaped = _shaped(values, Object)
    if not target.num_fields:
        return _simple([{} if isinstance(value, Object) else value for value in shaped], target)
    children = [
        column_of(
            [declared_value(value, field.name) if isinstance(value, Object) else None for value in shaped],
            field.type,
        )
        for field in target
    ]
    return struct_array(shaped, children, target)


def struct_array(values: list[Any], children: list[Converted], target: pa.DataType) -> Converted:
    """Structs of these children; null where ``values`` is, bad where it is wrong or a child is bad."""
    flags: Flags = _is_wrong(values)
    for _, spoiled in children:
        flags = flags if spoiled is None else flags | spoiled
    absent = bad_of(flags) | np.fromiter((value is None for value in values), np.bool_, len(values))
    arrays = [child for child, _ in children]
    built = pa.StructArray.from_arrays(arrays, fields=list(target), mask=pa.array(absent))
    return built, flags if flags.any() else None


def _lists(values: list[Any], target: pa.DataType) -> Converted:
    shaped = _shaped(values, list)
    inside, inner = column_of([one for value in shaped if isinstance(value, list) for one in value], target.value_type)
    return list_array(shaped, inside, inner, target)


def list_array(values: list[Any], inside: pa.Array, inner: Flags | None, target: pa.DataType) -> Converted:
    """Lists of what is ``inside``, cut as the ``values`` are; null where these are, bad where they are wrong or an
    element is bad."""
    offsets = _offsets(values)
    bad = _bad_lists(values, inner, offsets)
    absent = pa.array([value is None for value in values], pa.bool_())
    small = pa.list_(target.value_field)
    built = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), inside, type=small, mask=absent).cast(target)
    return _blanked(built, bad)


def _maps(values: list[Any], target: pa.DataType) -> Converted:
    shaped = [_pairs(value) for value in values]
    flat = [pair for value in shaped if isinstance(value, list) for pair in value]
    keys, bad_keys = column_of([key for key, _ in flat], target.key_type)
    items, bad_items = column_of([item for _, item in flat], target.item_type)
    inner: Flags = np.zeros(len(flat), dtype=np.bool_)
    for some in (bad_keys, bad_items, keys.is_null().to_numpy(zero_copy_only=False)):
        inner = inner if some is None else inner | some
    keys = keys.fill_null(_filler(keys)) if keys.null_count else keys
    offsets = _offsets(shaped)
    bad = _bad_lists(shaped, inner, offsets)
    absent = pa.array([value is None for value in shaped], pa.bool_())
    built = pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), keys, items, type=target, mask=absent)
    return _blanked(built, bad)


def _filler(keys: pa.Array) -> pa.Scalar:
    """Placeholder for the keys of bad maps, since a map's key cannot be null."""
    present = keys.drop_null()
    return present[0] if len(present) else pa.array([b"\0" * 16]).view(pa.binary()).cast(pa.binary(16))[0]


def _pairs(value: Any) -> Any:
    if value is None:
        return None
    if isinstance(value, Object):
        return _WRONG if value.twice else list(value.items())
    if isinstance(value, list) and all(isinstance(pair, list) and len(pair) == 2 for pair in value):
        return [(key, item) for key, item in value]
    return _WRONG


def _offsets(shaped: list[Any]) -> np.ndarray[Any, np.dtype[np.int64]]:
    lengths = [len(value) if isinstance(value, list) else 0 for value in shaped]
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64)


def _bad_lists(shaped: list[Any], inner: Flags | None, offsets: np.ndarray[Any, np.dtype[np.int64]]) -> Flags:
    """Flags of the values, bad where they are not a list, or a list with a bad element."""
    bad = _is_wrong(shaped)
    return bad if inner is None else bad | of_lists(inner, offsets)


def _blanked(built: pa.Array, bad: Flags) -> Converted:
    return (blank(built, bad), bad) if bad.any() else (built, None)
