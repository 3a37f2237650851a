"""Converts Arrow columns to other types, exactly, or says which values cannot be.

Text stays text and numbers stay numbers: a whole number does not become a string, nor a double a decimal, since each
has many spellings. Everything else that can be converted exactly is; a value that cannot (3.7 as int, 300 as tinyint,
0.1 as float) is bad. A whole number declared as timestamp is milliseconds since the epoch.

What users return is converted elsewhere, in ``windowing/data/conversion.py``, by rules that differ on purpose: there a
``double`` is rounded to a ``float``, a whole number as a time counts microseconds, the unit of the type, and text is
never a number. A value that cannot be kept is a bad row here, and fails the bolt there.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from topologies.io.formats.arrow_times import from_dates, from_milliseconds, from_timestamps, within_calendar
from topologies.io.formats.declared_times import form_of
from topologies.io.formats.isolate import (
    Converted,
    Flags,
    Mask,
    attempt,
    blank,
    concatenated,
    either,
    isolate,
    of_lists,
    valid,
    where,
    whole_numbers,
)
from topologies.io.formats.lines.text import convertible_text, decimals, parse_text
from windowing.data.decimals import rescaled

_kinds = pa.types
_POWERS = 38


def convertible(source: pa.DataType, target: pa.DataType, form: str | None = None) -> bool:
    """Whether a column of the one type can become one of the other, value by value. ``form``: how its times are
    declared to be written."""
    if form is not None and _is_written(source):
        return True
    if source == target or _kinds.is_null(source):
        return True
    if _kinds.is_dictionary(source) or _kinds.is_run_end_encoded(source):
        return convertible(source.value_type, target)
    if _kinds.is_nested(source) or _kinds.is_nested(target):
        return _convertible_nested(source, target)
    if _kinds.is_decimal(source) and not _castable(source, target):
        return False
    return any(is_source(source) and any(is_kind(target) for is_kind in targets) for is_source, targets in _ALLOWED)


def convert_column(
    column: pa.ChunkedArray, target: pa.DataType, form: str | None = None
) -> tuple[pa.ChunkedArray, Flags | None]:
    """A column converted to ``target``, and the flags of its values: which could not be converted, which were cut.

    ``form``: how its times are declared to be written, where they are texts or numbers.
    """
    if form is not None and _is_written(column.type):
        done = [_declared(chunk, target, form) for chunk in column.chunks]
    else:
        done = [_checked(chunk, target) if chunk.type == target else convert(chunk, target) for chunk in column.chunks]
    if all(bad is None for _, bad in done):
        same = all(new is old for (new, _), old in zip(done, column.chunks, strict=True))
        return column if same and column.type == target else pa.chunked_array([new for new, _ in done], target), None
    masks: list[Flags] = [np.zeros(len(new), dtype=np.bool_) if bad is None else bad for new, bad in done]
    return pa.chunked_array([new for new, _ in done], target), concatenated(masks)


def convert(values: pa.Array, target: pa.DataType) -> Converted:
    """An array converted to ``target``, null where a value cannot be; the types must be ``convertible``."""
    if values.type == target:
        return _within(values, target)
    return within_calendar(*_converted(values, target))


def _converted(values: pa.Array, target: pa.DataType) -> Converted:  # noqa: PLR0911 - one for each kind
    source = values.type
    if _kinds.is_null(source):
        return pa.nulls(len(values), target), None
    if _kinds.is_dictionary(source):
        return _checked_after(values.dictionary_decode(), target)
    if _kinds.is_run_end_encoded(source):
        return _checked_after(pc.run_end_decode(values), target)
    if _kinds.is_nested(target):
        return _nested(values, target)
    if _kinds.is_timestamp(target) and not is_text(source):
        return _moments(values, target)
    if is_text(source) and not is_text(target) and not is_bytes(target):
        texts, bad = _checked(values.cast(pa.string()), pa.string())
        parsed, unreadable = parse_text(texts, target)
        return parsed, either(bad, unreadable)
    return _plain(values, target)


def _is_written(kind: pa.DataType) -> bool:
    """True for texts and numbers, which may be times by a declared form."""
    if _kinds.is_dictionary(kind) or _kinds.is_run_end_encoded(kind):
        return _is_written(kind.value_type)
    return is_text(kind) or is_number(kind)


def _declared(values: pa.Array, target: pa.DataType, form: str) -> Converted:
    """Texts and numbers as times, by their form."""
    if _kinds.is_dictionary(values.type):
        values = values.dictionary_decode()
    elif _kinds.is_run_end_encoded(values.type):
        values = pc.run_end_decode(values)
    texts, bad = _checked(values.cast(pa.string()), pa.string()) if is_text(values.type) else (_digits(values), None)
    moments, flags = form_of(form).parse(texts, target)
    return moments, either(bad, flags)


def _digits(numbers: pa.Array) -> pa.Array:
    return numbers.cast(pa.float64() if _kinds.is_float16(numbers.type) else numbers.type).cast(pa.string())


def is_text(kind: pa.DataType) -> bool:
    return bool(_kinds.is_string(kind) or _kinds.is_large_string(kind) or _kinds.is_string_view(kind))


def is_bytes(kind: pa.DataType) -> bool:
    return bool(
        _kinds.is_binary(kind)
        or _kinds.is_large_binary(kind)
        or _kinds.is_binary_view(kind)
        or _kinds.is_fixed_size_binary(kind)
    )


def is_number(kind: pa.DataType) -> bool:
    return bool(_kinds.is_integer(kind) or _kinds.is_floating(kind) or _kinds.is_decimal(kind))


_ALLOWED: tuple[tuple[Callable[[pa.DataType], bool], tuple[Callable[[pa.DataType], bool], ...]], ...] = (
    (is_text, (is_text, is_bytes, convertible_text)),
    (is_bytes, (is_text, is_bytes)),
    (_kinds.is_integer, (is_number, _kinds.is_timestamp)),
    (_kinds.is_floating, (_kinds.is_integer, _kinds.is_floating)),
    (_kinds.is_decimal, (is_number,)),
    (_kinds.is_date, (_kinds.is_date, _kinds.is_timestamp)),
    (_kinds.is_timestamp, (_kinds.is_timestamp,)),
)


def _is_listing(kind: pa.DataType) -> bool:
    return bool(_kinds.is_list(kind) or _kinds.is_large_list(kind) or _kinds.is_fixed_size_list(kind))


def _castable(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether Arrow's table of powers of ten covers the scale, which Arrow itself does not check."""
    return bool(_kinds.is_decimal(target) or abs(source.scale) <= _POWERS)


def _convertible_nested(source: pa.DataType, target: pa.DataType) -> bool:
    if _is_listing(source) and _is_listing(target):
        return convertible(source.value_type, target.value_type)
    if _kinds.is_map(source) and _kinds.is_map(target):
        return convertible(source.key_type, target.key_type) and convertible(source.item_type, target.item_type)
    if not (_kinds.is_struct(source) and _kinds.is_struct(target)):
        return False
    places = [(source.get_field_index(field.name), field.type) for field in target]
    return all(place >= 0 and convertible(source.field(place).type, kind) for place, kind in places)


def _plain(values: pa.Array, target: pa.DataType) -> Converted:
    source = values.type
    if is_text(target):
        return isolate(as_bytes(values), target, lambda some: some.cast(target))
    if _kinds.is_integer(target) and (_kinds.is_integer(source) or _kinds.is_floating(source)):
        return whole_numbers(values, target)
    if _kinds.is_floating(target) and (_kinds.is_integer(source) or _kinds.is_floating(source)):
        return _kept_if_equal(values, target)
    if _kinds.is_decimal(source) and _kinds.is_floating(target):
        return parse_text(values.cast(pa.string()), target)  # Arrow's own cast is not always the nearest
    if _kinds.is_decimal(target):
        whole = attempt(values, (partial(rescaled, target=target),)) if _kinds.is_decimal(source) else None
        return decimals(values.cast(pa.string()), target) if whole is None else (whole, None)
    return isolate(values, target, lambda some: some.cast(target))


def _moments(values: pa.Array, target: pa.DataType) -> Converted:
    if _kinds.is_timestamp(values.type):
        return from_timestamps(values, target)
    if _kinds.is_date(values.type):
        return from_dates(values, target)
    if not _kinds.is_uint64(values.type):
        return from_milliseconds(values, target)
    numbers, beyond = isolate(values, pa.int64(), lambda some: some.cast(pa.int64()))
    moments, late = from_milliseconds(numbers, target)
    return moments, either(beyond, late)


def _kept_if_equal(values: pa.Array, target: pa.DataType) -> Converted:
    """Convert to a floating type the numbers that it represents exactly."""
    given = values.fill_null(0).to_numpy(zero_copy_only=False)
    with np.errstate(over="ignore"):
        kept = given.astype(target.to_pandas_dtype())
    changed: Mask = _differ(given, kept) & valid(values)
    absent = changed | ~valid(values)
    return pa.array(kept, target, mask=absent if absent.any() else None), changed if changed.any() else None


def _differ(given: npt.NDArray[Any], kept: npt.NDArray[np.floating]) -> Mask:
    if given.dtype.kind == "f":
        return np.asarray((kept.astype(np.float64) != given) & ~np.isnan(given))
    wide = kept.astype(np.float64)
    most = float(np.iinfo(given.dtype).max)
    inside = (wide < most) if given.dtype.itemsize == 8 else (wide <= most)
    return np.asarray(~inside | (np.where(inside, wide, 0).astype(given.dtype) != given))


def as_bytes(values: pa.Array) -> pa.Array:
    """Text or bytes as bytes, without validating them."""
    if _kinds.is_large_string(values.type):
        return values.view(pa.large_binary())
    if _kinds.is_string(values.type):
        return values.view(pa.binary())
    return values if _kinds.is_binary(values.type) or _kinds.is_large_binary(values.type) else values.cast(pa.binary())


def _checked(values: pa.Array, target: pa.DataType) -> Converted:
    """Values that have the declared type already; text must be UTF-8, which the binary readers do not check."""
    if not is_text(target):
        return _within(values, target)
    if target == pa.string() or target == pa.large_string():
        seen, bad = isolate(as_bytes(values), target, lambda some: some.cast(target))
        return (values, None) if bad is None else (seen, bad)
    return values, None


def _within(values: pa.Array, target: pa.DataType) -> Converted:
    """Values that have the declared type already; times must be within the calendar, also inside lists and structs."""
    if _kinds.is_nested(target):
        return _nested(values, target) if _holds_times(target) else (values, None)
    return within_calendar(values)


def _holds_times(kind: pa.DataType) -> bool:
    if not _kinds.is_nested(kind):
        return bool(_kinds.is_date(kind) or _kinds.is_timestamp(kind))
    return any(_holds_times(kind.field(index).type) for index in range(kind.num_fields))


def _checked_after(values: pa.Array, target: pa.DataType) -> Converted:
    return _checked(values, target) if values.type == target else convert(values, target)


def _nested(values: pa.Array, target: pa.DataType) -> Converted:
    values = pa.concat_arrays([values, values.slice(0, 0)]) if values.offset else values
    if _kinds.is_struct(target):
        return _structs(values, target)
    if _kinds.is_fixed_size_list(values.type):
        values = values.cast(pa.list_(values.type.value_type))
    if not (_kinds.is_list(target) or _kinds.is_map(target)):
        return isolate(values, target, lambda some: some.cast(target))
    offsets = _offsets(values)
    absent = pa.array(~valid(values)) if values.null_count else None
    if _kinds.is_map(target):
        keys, bad_keys = convert(values.keys, target.key_type)
        items, bad_items = convert(values.items, target.item_type)
        built = pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), keys, items, type=target, mask=absent)
        inner = either(either(bad_keys, bad_items), None)
    else:
        inside, inner = convert(values.values, target.value_type)
        built = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), inside, type=target, mask=absent)
    return _bad_lists(built, inner, offsets)


def _offsets(values: pa.Array) -> npt.NDArray[np.int64]:
    if _kinds.is_map(values.type):
        return np.frombuffer(values.buffers()[1], np.int32)[: len(values) + 1].astype(np.int64)
    offsets: npt.NDArray[np.int64] = values.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
    return offsets


def _bad_lists(built: pa.Array, inner: Flags | None, offsets: npt.NDArray[np.int64]) -> Converted:
    """The lists, which are bad where an element is."""
    if inner is None:
        return built, None
    flags = where(of_lists(inner, offsets), valid(built))
    return (blank(built, flags), flags) if flags.any() else (built, None)


def _structs(values: pa.Array, target: pa.DataType) -> Converted:
    bad: Flags | None = None
    children: list[pa.Array] = []
    for field in target:
        child, spoiled = convert(values.field(values.type.get_field_index(field.name)), field.type)
        children.append(child)
        bad = either(bad, spoiled)
    absent = pa.array(~valid(values)) if values.null_count else None
    built = pa.StructArray.from_arrays(children, fields=list(target), mask=absent)
    if bad is None:
        return built, None
    bad = where(bad, valid(values))
    return blank(built, bad), bad
