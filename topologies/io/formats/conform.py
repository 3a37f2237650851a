"""Rows of a file as the declared columns: converted exactly, or refused with the reason."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from topologies.io.formats.declared_times import Times, form_of, is_unit
from topologies.io.formats.event_files import (
    LONGEST_VALUE,
    NO_BAD_ROWS,
    UTF_8,
    BadRow,
    BadRows,
    Chunk,
    OnTruncation,
    python_columns,
    row_as_json,
    short_repr,
    shown_bytes,
    type_name,
)
from topologies.io.formats.text_values import (
    CUT,
    Converted,
    Flags,
    Mask,
    attempt,
    bad_mask,
    blank_bad,
    concat_flags,
    convertible_text,
    cut_mask,
    decimals,
    flags_of_lists,
    flags_where,
    from_dates,
    from_milliseconds,
    from_timestamps,
    isolate,
    parse_text,
    union_flags,
    valid_mask,
    whole_numbers,
    within_calendar,
)
from windowing.conversion import rescale_decimals
from windowing.errors import DataError
from windowing.schema import narrowest

# Converts Arrow columns to other types exactly, or reports the values that cannot be converted.
#
# Text stays text and numbers stay numbers: a whole number does not become a string, nor a double a decimal, since each
# has many spellings. Every other exact conversion is made; a value without one (3.7 as int, 300 as tinyint, 0.1 as
# float) is bad. A whole number declared as timestamp is milliseconds since the epoch.
#
# Values that users return are converted in ``windowing/conversion.py``, by rules that differ on purpose: there a
# ``double`` is rounded to a ``float``, a whole number as a time counts microseconds, the unit of the type, and text is
# never a number. A value that cannot be kept is a bad row here, and fails the bolt there.


_kinds = pa.types
_ARROWS_POWERS = 38


def convertible(source: pa.DataType, target: pa.DataType, form: str | None = None) -> bool:
    """True if values of type ``source`` can become values of type ``target``. ``form``: the declared form of times."""
    if form is not None and _may_have_form(source):
        return True
    if source == target or _kinds.is_null(source):
        return True
    inner = _value_type(source, target)
    if inner is not None:
        return convertible(inner, target)
    if _kinds.is_nested(source) or _kinds.is_nested(target):
        return _convertible_nested(source, target)
    if _kinds.is_decimal(source) and not _castable(source, target):
        return False
    return any(is_source(source) and any(is_kind(target) for is_kind in targets) for is_source, targets in _ALLOWED)


def _value_type(source: pa.DataType, target: pa.DataType) -> pa.DataType | None:
    """Returns the type of the values in a dictionary, in runs, or of a logical type; None for any other type."""
    if _kinds.is_dictionary(source) or _kinds.is_run_end_encoded(source):
        return source.value_type
    if isinstance(source, pa.BaseExtensionType) and source.extension_name in _LOGICAL_TYPES:
        return _LOGICAL_TYPES[source.extension_name](source, target)
    return None


def convert_column(
    column: pa.ChunkedArray, target: pa.DataType, form: str | None = None
) -> tuple[pa.ChunkedArray, Flags | None]:
    """Returns a column converted to ``target``, and flags for values that could not be converted or were cut.

    ``form``: the declared form of times that are texts or numbers.
    """
    if form is not None and _may_have_form(column.type):
        converted = [_convert_by_form(chunk, target, form) for chunk in column.chunks]
    else:
        converted = [
            _check_values(chunk, target) if chunk.type == target else convert(chunk, target) for chunk in column.chunks
        ]
    if all(bad is None for _, bad in converted):
        unchanged = all(new is old for (new, _), old in zip(converted, column.chunks, strict=True))
        return column if unchanged and column.type == target else pa.chunked_array(
            [new for new, _ in converted], target
        ), None
    masks: list[Flags] = [np.zeros(len(new), dtype=np.bool_) if bad is None else bad for new, bad in converted]
    return pa.chunked_array([new for new, _ in converted], target), concat_flags(masks)


def convert(values: pa.Array, target: pa.DataType) -> Converted:
    """Returns an array converted to ``target``, with null for a value that cannot be converted. The types must be
    ``convertible``."""
    if values.type == target:
        return _check_calendar(values, target)
    return within_calendar(*_convert_by_kind(values, target))


def _convert_by_kind(values: pa.Array, target: pa.DataType) -> Converted:  # noqa: PLR0911 - one for each kind
    source = values.type
    if _kinds.is_null(source):
        return pa.nulls(len(values), target), None
    if _kinds.is_dictionary(source):
        return _check_or_convert(values.dictionary_decode(), target)
    if _kinds.is_run_end_encoded(source):
        return _repeated_by_run(values, _check_or_convert(values.values, target))
    if isinstance(source, pa.BaseExtensionType):
        return _check_or_convert(_logical_values(values, target), target)
    if _kinds.is_nested(target):
        return _nested(values, target)
    if _kinds.is_timestamp(target) and not is_text(source):
        return _to_moments(values, target)
    if is_text(source) and not is_text(target) and not is_bytes(target):
        texts, bad = _check_values(values.cast(pa.string()), pa.string())
        parsed, unreadable = parse_text(texts, target)
        return parsed, union_flags(bad, unreadable)
    return _convert_scalars(values, target)


def _may_have_form(kind: pa.DataType) -> bool:
    """True for texts and numbers, which a declared form may turn into times."""
    if _kinds.is_dictionary(kind) or _kinds.is_run_end_encoded(kind):
        return _may_have_form(kind.value_type)
    return is_text(kind) or is_number(kind)


def _convert_by_form(values: pa.Array, target: pa.DataType, form: str) -> Converted:
    """Converts texts and numbers to times, by their form."""
    if _kinds.is_dictionary(values.type):
        values = values.dictionary_decode()
    elif _kinds.is_run_end_encoded(values.type):
        return _repeated_by_run(values, _convert_by_form(values.values, target, form))
    texts, bad = (
        _check_values(values.cast(pa.string()), pa.string())
        if is_text(values.type)
        else (_numbers_as_text(values), None)
    )
    moments, flags = form_of(form).parse(texts, target)
    return moments, union_flags(bad, flags)


def _repeated_by_run(values: pa.Array, converted: Converted) -> Converted:
    """Repeats each converted value over its run; Arrow cannot do this for views, dictionaries and logical types."""
    runs = _run_of_each_row(values)
    each, bad = converted
    return each.take(pa.array(runs)), None if bad is None else bad[runs]


def _run_of_each_row(values: pa.RunEndEncodedArray) -> npt.NDArray[np.intp]:
    """Returns, for each row, the index of its run."""
    rows = np.arange(values.offset, values.offset + len(values))
    return np.searchsorted(values.run_ends.to_numpy(), rows, side="right")


def _numbers_as_text(numbers: pa.Array) -> pa.Array:
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
    (_kinds.is_time, (is_text,)),  # 12:34:56.789000
)


# Logical types, which wrap other types in Arrow, such as JSON and UUIDs in Parquet.


def _type_of_uuids(_: pa.BaseExtensionType, target: pa.DataType) -> pa.DataType:
    return pa.string() if is_text(target) else pa.binary(_UUID)


_UUID = 16
_LOGICAL_TYPES: dict[str, Callable[[pa.BaseExtensionType, pa.DataType], pa.DataType]] = {
    "arrow.json": lambda source, _: source.storage_type,
    "arrow.uuid": _type_of_uuids,
    "arrow.bool8": lambda *_: pa.bool_(),
}
"""By name of a logical type: the type as which its values are read. Other logical types are refused."""


def _logical_values(values: pa.ExtensionArray, target: pa.DataType) -> pa.Array:
    """Returns the values of an array of a logical type, ready for conversion to the declared type."""
    if values.type.extension_name != "arrow.uuid":
        return values.storage.cast(_LOGICAL_TYPES[values.type.extension_name](values.type, target))
    return _uuids_as_text(values.storage) if is_text(target) else values.storage


def _uuids_as_text(uuids: pa.Array) -> pa.Array:
    """Returns UUIDs as texts, such as ``6ba7b810-9dad-11d1-80b4-00c04fd430c8``."""
    filled = uuids.fill_null(bytes(_UUID))
    digits = np.frombuffer(b"".join(filled.to_pylist()).hex().encode(), np.uint8).reshape(-1, 2 * _UUID)
    texts = np.insert(digits, [8, 12, 16, 20], ord("-"), axis=1)
    spelled = pa.FixedSizeBinaryArray.from_buffers(pa.binary(texts.shape[1]), len(texts), [None, pa.py_buffer(texts)])
    return pc.if_else(uuids.is_valid(), spelled.cast(pa.binary()).cast(pa.string()), pa.scalar(None, pa.string()))


def _is_list_type(kind: pa.DataType) -> bool:
    return bool(_kinds.is_list(kind) or _kinds.is_large_list(kind) or _kinds.is_fixed_size_list(kind))


def _castable(source: pa.DataType, target: pa.DataType) -> bool:
    """True if the scale is within Arrow's table of powers of ten; Arrow does not check this."""
    return bool(_kinds.is_decimal(target) or abs(source.scale) <= _ARROWS_POWERS)


def _convertible_nested(source: pa.DataType, target: pa.DataType) -> bool:
    if _is_list_type(source) and _is_list_type(target):
        return convertible(source.value_type, target.value_type)
    if _kinds.is_map(source) and _kinds.is_map(target):
        return convertible(source.key_type, target.key_type) and convertible(source.item_type, target.item_type)
    if not (_kinds.is_struct(source) and _kinds.is_struct(target)):
        return False
    places = [(source.get_field_index(field.name), field.type) for field in target]
    return all(place >= 0 and convertible(source.field(place).type, kind) for place, kind in places)


def _convert_scalars(values: pa.Array, target: pa.DataType) -> Converted:  # noqa: PLR0911 - one for each kind
    source = values.type
    if _kinds.is_time(source):
        return _times_of_day_as_text(values, target)
    if is_text(target):
        return isolate(as_bytes(values), target, lambda some: some.cast(target))
    if _kinds.is_integer(target) and (_kinds.is_integer(source) or _kinds.is_floating(source)):
        return whole_numbers(values, target)
    if _kinds.is_floating(target) and (_kinds.is_integer(source) or _kinds.is_floating(source)):
        return _kept_if_equal(values, target)
    if _kinds.is_decimal(source) and _kinds.is_floating(target):
        return parse_text(values.cast(pa.string()), target)  # Arrow's own cast is not always the nearest
    if _kinds.is_decimal(target):
        whole = attempt(values, (partial(rescale_decimals, target=target),)) if _kinds.is_decimal(source) else None
        return decimals(values.cast(pa.string()), target) if whole is None else (whole, None)
    return isolate(values, target, lambda some: some.cast(target))


def _times_of_day_as_text(values: pa.Array, target: pa.DataType) -> Converted:
    """Converts times of day to texts. A time outside a day is bad, since Arrow would write a wrong text."""
    ticks = values.cast(pa.int32() if _kinds.is_time32(values.type) else pa.int64()).fill_null(0)
    numbers = ticks.to_numpy(zero_copy_only=False).astype(np.int64)
    beyond = (numbers < 0) | (numbers >= 86_400 * _TICKS[values.type.unit])
    texts = values.cast(target)
    return (blank_bad(texts, beyond), beyond) if beyond.any() else (texts, None)


_TICKS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
"""Ticks per second, by the unit of a type."""


def _to_moments(values: pa.Array, target: pa.DataType) -> Converted:
    if _kinds.is_timestamp(values.type):
        return from_timestamps(values, target)
    if _kinds.is_date(values.type):
        return from_dates(values, target)
    if not _kinds.is_uint64(values.type):
        return from_milliseconds(values, target)
    numbers, beyond = isolate(values, pa.int64(), lambda some: some.cast(pa.int64()))
    moments, late = from_milliseconds(numbers, target)
    return moments, union_flags(beyond, late)


def _kept_if_equal(values: pa.Array, target: pa.DataType) -> Converted:
    """Converts numbers to a floating type if it represents them exactly."""
    numbers = values.fill_null(0).to_numpy(zero_copy_only=False)
    with np.errstate(over="ignore"):
        converted = numbers.astype(target.to_pandas_dtype())
    changed: Mask = _differ(numbers, converted) & valid_mask(values)
    absent = changed | ~valid_mask(values)
    return pa.array(converted, target, mask=absent if absent.any() else None), changed if changed.any() else None


def _differ(numbers: npt.NDArray[Any], converted: npt.NDArray[np.floating]) -> Mask:
    if numbers.dtype.kind == "f":
        return np.asarray((converted.astype(np.float64) != numbers) & ~np.isnan(numbers))
    wide = converted.astype(np.float64)
    most = float(np.iinfo(numbers.dtype).max)
    inside = (wide < most) if numbers.dtype.itemsize == 8 else (wide <= most)
    return np.asarray(~inside | (np.where(inside, wide, 0).astype(numbers.dtype) != numbers))


def as_bytes(values: pa.Array) -> pa.Array:
    """Returns text or bytes as bytes, without validating them."""
    if _kinds.is_large_string(values.type):
        return values.view(pa.large_binary())
    if _kinds.is_string(values.type):
        return values.view(pa.binary())
    return values if _kinds.is_binary(values.type) or _kinds.is_large_binary(values.type) else values.cast(pa.binary())


def _check_values(values: pa.Array, target: pa.DataType) -> Converted:
    """Checks values that already have the declared type: text must be UTF-8, which binary readers do not check."""
    if not is_text(target):
        return _check_calendar(values, target)
    if target == pa.string() or target == pa.large_string():
        checked_texts, bad = isolate(as_bytes(values), target, lambda some: some.cast(target))
        return (values, None) if bad is None else (checked_texts, bad)
    return values, None


def _check_calendar(values: pa.Array, target: pa.DataType) -> Converted:
    """Checks values that already have the declared type: times must be within the calendar, also inside lists and
    structs."""
    if _kinds.is_nested(target):
        return _nested(values, target) if holds_times(target) else (values, None)
    return within_calendar(values)


def holds_times(kind: pa.DataType) -> bool:
    """True for dates and times, and for lists, maps and structs that contain them."""
    if not _kinds.is_nested(kind):
        return bool(_kinds.is_date(kind) or _kinds.is_timestamp(kind))
    return any(holds_times(kind.field(index).type) for index in range(kind.num_fields))


def _check_or_convert(values: pa.Array, target: pa.DataType) -> Converted:
    return _check_values(values, target) if values.type == target else convert(values, target)


def _nested(values: pa.Array, target: pa.DataType) -> Converted:
    values = pa.concat_arrays([values, values.slice(0, 0)]) if values.offset else values
    if _kinds.is_struct(target):
        return _structs(values, target)
    if _kinds.is_fixed_size_list(values.type):
        values = values.cast(pa.list_(values.type.value_type))
    if not (_kinds.is_list(target) or _kinds.is_map(target)):
        return isolate(values, target, lambda some: some.cast(target))
    offsets = _offsets(values)
    absent = pa.array(~valid_mask(values)) if values.null_count else None
    if _kinds.is_map(target):
        keys, bad_keys = convert(values.keys, target.key_type)
        items, bad_items = convert(values.items, target.item_type)
        built = pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), keys, items, type=target, mask=absent)
        element_flags = union_flags(union_flags(bad_keys, bad_items), None)
    else:
        elements, element_flags = convert(values.values, target.value_type)
        built = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), elements, type=target, mask=absent)
    return _bad_lists(built, element_flags, offsets)


def _offsets(values: pa.Array) -> npt.NDArray[np.int64]:
    if _kinds.is_map(values.type):
        return np.frombuffer(values.buffers()[1], np.int32)[: len(values) + 1].astype(np.int64)
    offsets: npt.NDArray[np.int64] = values.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
    return offsets


def _bad_lists(built: pa.Array, element_flags: Flags | None, offsets: npt.NDArray[np.int64]) -> Converted:
    """Returns the lists; a list with a bad element is bad."""
    if element_flags is None:
        return built, None
    flags = flags_where(flags_of_lists(element_flags, offsets), valid_mask(built))
    return (blank_bad(built, flags), flags) if flags.any() else (built, None)


def _structs(values: pa.Array, target: pa.DataType) -> Converted:
    bad: Flags | None = None
    children: list[pa.Array] = []
    for field in target:
        child, spoiled = convert(values.field(values.type.get_field_index(field.name)), field.type)
        children.append(child)
        bad = union_flags(bad, spoiled)
    absent = pa.array(~valid_mask(values)) if values.null_count else None
    built = pa.StructArray.from_arrays(children, fields=list(target), mask=absent)
    if bad is None:
        return built, None
    bad = flags_where(bad, valid_mask(values))
    return blank_bad(built, bad), bad


# Rows of a file as the declared columns: good rows, and bad rows with their reasons. Values are converted by the
# functions above.


def refuse_impossible(path: str, present: pa.Schema, schema: pa.Schema, times: Times = ()) -> None:
    """Raises DataError for columns of the file that can never have the declared type. ``times``: as for
    ``conform_rows``."""
    forms = dict(times)
    pairs = [(field, present.field(field.name).type) for field in schema]
    wrong = [(field, kind) for field, kind in pairs if not convertible(kind, field.type, forms.get(field.name))]
    if wrong:
        mismatches = "; ".join(
            f"{field.name!r} is {kind}, declared as {type_name(field.type)}" for field, kind in wrong
        )
        raise DataError(
            f"{path!r} does not fit the declared columns: {mismatches}",
            why="these types cannot be converted without loss",
            do="declare the columns as they are in the file",
        )


def without_unneeded(schema: pa.Schema, present: pa.Schema, needed: Collection[str] | None) -> pa.Schema:
    """Returns the columns to read from a file with the columns ``present``, if only the columns ``needed`` are used
    (None: all).

    Columns whose values may be bad are read anyway, so that the same rows are bad, except for columns of text, where
    only invalid UTF-8 is bad. At least one column is read, because a table without columns has no number of rows.
    """
    if needed is None:
        return schema
    kept = [
        field
        for field in schema
        if field.name in needed or field.type != present.field(field.name).type or not _any_value_fits(field.type)
    ]
    return pa.schema(kept or [narrowest(schema)])


def only_present(schema: pa.Schema, present: Collection[str]) -> pa.Schema:
    """Returns the declared columns that a file has."""
    return schema if set(schema.names) <= set(present) else pa.schema([each for each in schema if each.name in present])


def with_absent(chunk: Chunk, schema: pa.Schema, present: Collection[str]) -> Chunk:
    """Returns rows with null for the declared columns that their file lacks."""
    absent = [field for field in schema if field.name not in present]
    if not absent:
        return chunk
    table, numbers, bad = chunk
    for field in absent:
        table = table.append_column(field, pa.nulls(len(numbers), field.type))
    return table.select([name for name in schema.names if name in table.column_names]), numbers, bad


def _any_value_fits(kind: pa.DataType) -> bool:
    return bool(is_text(kind) or is_bytes(kind) or is_number(kind) or _kinds.is_boolean(kind))


def conform_rows(
    raw: pa.Table,
    schema: pa.Schema,
    numbers: npt.NDArray[np.int64],
    on_truncation: OnTruncation,
    earlier_flags: Mapping[str, Flags] = MappingProxyType({}),
    times: Times = (),
) -> Chunk:
    """Converts rows to a chunk: good rows with exactly ``schema``, their row numbers, and bad rows.

    ``earlier_flags``: flags that earlier steps found, by column. ``times``: the form of times that are texts or
    numbers, by column.
    """
    forms = dict(times)
    columns: list[pa.ChunkedArray] = []
    flags: dict[str, Flags] = {}
    for field in schema:
        column, column_flags = convert_column(raw.column(field.name), field.type, forms.get(field.name))
        columns.append(column)
        column_flags = union_flags(column_flags, earlier_flags.get(field.name))
        if column_flags is not None and column_flags.any():
            flags[field.name] = column_flags
    table = pa.Table.from_arrays(columns, schema=schema)
    return separate_bad_rows(table, raw, flags, numbers, on_truncation, times=times)


def separate_beyond_years(rows: pa.Table, numbers: npt.NDArray[np.int64]) -> Chunk:
    """Separates rows with a date or time outside the years 1 to 9999, also inside lists and structs, from the
    others."""
    flags: dict[str, Flags] = {}
    table = rows
    for place, field in enumerate(rows.schema):
        if holds_times(field.type):
            column, beyond = convert_column(rows.column(place), field.type)
            if beyond is not None and beyond.any():
                flags[field.name] = beyond
                table = table.set_column(place, field, column)
    return separate_bad_rows(table, rows, flags, numbers, "cut")


def separate_bad_rows(
    table: pa.Table,
    raw: pa.Table,
    flags: dict[str, Flags],
    numbers: npt.NDArray[np.int64],
    on_truncation: OnTruncation,
    encoding: str = UTF_8,
    times: Times = (),
) -> Chunk:
    """Separates good rows from rows that are bad in some column, and lists the good rows that were truncated.

    ``encoding``: as for ``shown_bytes``.
    """
    if not flags:
        return table, numbers, NO_BAD_ROWS
    masks = {name: refused_mask(column_flags, on_truncation) for name, column_flags in flags.items()}
    any_bad = np.logical_or.reduce(list(masks.values()))
    cut = [each for each in map(cut_mask, flags.values()) if each is not None]
    truncated = numbers[np.logical_or.reduce(cut) & ~any_bad] if cut else numbers[:0]
    if not any_bad.any():
        return table, numbers, NO_BAD_ROWS.with_truncated(truncated)
    bad_indices, forms = np.flatnonzero(any_bad), dict(times)
    wrong = python_columns(_with_bytes(_ready_for_take(raw).take(pa.array(bad_indices))))
    bad = [
        BadRow(
            int(numbers[at]),
            "; ".join(
                _reason(
                    table.schema.field(name),
                    raw.schema.field(name).type,
                    wrong,
                    index,
                    flags[name][at],
                    encoding,
                    forms.get(name),
                )
                for name, mask in masks.items()
                if mask[at]
            ),
            row_as_json(wrong, index, encoding),
        )
        for index, at in enumerate(bad_indices)
    ]
    return table.filter(pa.array(~any_bad)), numbers[~any_bad], BadRows.of(bad).with_truncated(truncated)


def refused_mask(flags: Flags, on_truncation: OnTruncation) -> Mask:
    """Returns a mask of the values that make their rows bad."""
    return flags != 0 if on_truncation == "error" else bad_mask(flags)


def reason_too_fine(name: str, value: object) -> str:
    """Returns the reason why a time that would be cut makes its row bad."""
    return (
        f"column {name!r}: {short_repr(value)} is finer than a microsecond, and on_truncation='error' cuts nothing; "
        "round it before, or leave on_truncation out"
    )


def reason_of_misfit(name: str, value: object, kind: pa.DataType, form: str | None = None) -> str:
    """Returns the reason why a value does not fit its declared type. ``form``: the declared form of its times."""
    if form is not None:
        return f"column {name!r}: {short_repr(value)} is no {type_name(kind)}: {form_of(form).reason(str(value))}"
    hint = _time_hint(name, value, kind) if _kinds.is_temporal(kind) else None
    if hint is not None:
        return f"column {name!r}: {short_repr(value)} is no {type_name(kind)}: {hint}"
    return f"column {name!r}: {short_repr(value)} cannot be read as {type_name(kind)} without changing it"


_TIMES: tuple[tuple[str, str, str], ...] = (
    (r"-?\d{14,}", "whole numbers are milliseconds since 1970, and this one looks like micro- or nanoseconds", "us"),
    (r"-?\d+\.\d+", "whole numbers are milliseconds since 1970, and this one looks like seconds with a fraction", "s"),
    (r".*\d\s?[AaPp]\.?[Mm]\.?", "it looks like a clock of twelve hours", "%d/%m/%Y %I:%M %p"),
    (r".*:60(\D.*)?", "it looks like a leap second, which timestamps do not have", ""),
    (r".*[Tt ]24(:?00){0,2}([.,]0+)?([Zz]|[+-]\d\d.*)?", "24:00 is written as 00:00 of the next day", ""),
    (r".*\d\s?\[?[A-Za-z_]{2,}(/[A-Za-z_]+)*\]?", "its zone is a name, not Z or an offset like +01:00", ""),
    (r".*\d [+-]\d\d:?\d\d", "there is a space before its offset", "%Y-%m-%d %H:%M:%S %z"),
    (r"\d{1,4}[/.]\d{1,2}[/.]\d{1,4}.*", "which number is the day and which the month cannot be told", "%d/%m/%Y"),
    (r"\d{1,2}-\d{1,2}-\d{2,4}.*", "which number is the day and which the month cannot be told", "%d-%m-%Y"),
    (r"\d{4}-?W\d\d.*", "it looks like a week of the year", ""),
    (r"\d{4}-\d{3}", "it looks like a day of the year", "%Y-%j"),
    (r"\d{4}-\d{1,2}-\d{1,2}", "its month or its day has one digit", "%Y-%m-%d"),
    (r"", "it is empty, and only null is no value", ""),
)
"""For texts that are not times: a pattern, a description of such texts, and the form that can read them."""
_BEFORE_MOMENT = 5
"""How many of these patterns come before ``_MOMENT``, which finds dates and times that do not exist."""
_MOMENT = re.compile(
    r"([+-]?\d{4,})-?(\d\d)-?(\d\d)"
    r"([Tt ](\d\d)(?::?(\d\d)(?::?(\d\d)(?:[.,]\d+)?)?)?(?:[Zz]|([+-]\d\d)(?::?(\d\d))?)?)?"
)
_BEYOND = "write null for an end that is not known, or declare a string"


def _time_hint(name: str, value: object, kind: pa.DataType) -> str | None:
    """Describes a wrong time and how to fix it; None for an unknown form."""
    text = str(value).strip()
    is_date = _kinds.is_date(kind)
    like = "write it like 2024-05-01" if is_date else "write it like 2024-05-01T06:00:00Z"
    advice = f"{like}, or declare a string" + ("" if is_date else " and read it in an extractor")
    if is_date and re.fullmatch(r"\d{8}", text):
        return f"it has no hyphens; {like}, or say how it is written, as in times={{{name!r}: '%Y%m%d'}}"
    for number, (pattern, hint, form) in enumerate(_TIMES):
        if number == _BEFORE_MOMENT and (found := _MOMENT.fullmatch(text)) is not None:
            wrong, beyond = _describe_wrong_moment(found, kind)
            return f"{wrong}; {_BEYOND if beyond else advice}"
        if re.fullmatch(pattern, text):
            if not form or (is_date and is_unit(form)):
                return f"{hint}; {advice}"
            day = form.split(" ")[0]
            return f"{hint}; {like}, or say how it is written, as in times={{{name!r}: {(day if is_date else form)!r}}}"
    return advice if isinstance(value, str) else None


def _describe_wrong_moment(found: re.Match[str], kind: pa.DataType) -> tuple[str, bool]:
    """Describes the error in a day and a time of day; the second value is True if the year is wrong."""
    year, month, day, hour, minute, second = (int(part or 0) for part in found.group(1, 2, 3, 5, 6, 7))
    try:
        datetime(2000 + year % 400, month, day, hour, minute, second, tzinfo=UTC)  # it repeats after 400 years
    except ValueError:
        return "there is no such day or time", False
    if not 1 <= year <= 9999:
        return "its year is none of 1 to 9999", True
    if _kinds.is_date(kind):
        return ("it has a time of day, which a date has not" if found[4] else "there is no such day"), False
    hours, minutes = (abs(int(part or 0)) for part in found.group(8, 9))
    if hours > 23 or minutes > 59:
        return "there is no such offset", False
    if year in (1, 9999):
        return f"in UTC it is {'before the year 1' if year == 1 else 'after the year 9999'}", True
    return "its year has a sign" if found[1][0] in "+-" else "there is no such day or time", False


def _ready_for_take(raw: pa.Table) -> pa.Table:
    """Returns the table without views and runs, because Arrow's ``take`` does not support all of them."""
    for index, field in enumerate(raw.schema):
        chunks = raw.column(index).chunks
        if _kinds.is_run_end_encoded(field.type):
            chunks = [_without_views(chunk.values).take(pa.array(_run_of_each_row(chunk))) for chunk in chunks]
        else:
            chunks = [_without_views(chunk) for chunk in chunks]
        if any(chunk.type != field.type for chunk in chunks):
            raw = raw.set_column(index, field.name, pa.chunked_array(chunks))
    return raw


def _without_views(values: pa.Array) -> pa.Array:
    return as_bytes(values) if _kinds.is_string_view(values.type) or _kinds.is_binary_view(values.type) else values


def _with_bytes(raw: pa.Table) -> pa.Table:
    """Returns the table with text as bytes, which can be displayed even if the text is invalid."""
    columns = [
        pa.chunked_array([as_bytes(chunk) for chunk in column.chunks]) if is_text(column.type) else column
        for column in raw.columns
    ]
    return pa.Table.from_arrays(columns, names=raw.column_names)


def _reason(  # noqa: PLR0911 - one for each kind
    field: pa.Field,
    file_type: pa.DataType,
    wrong: dict[str, list[Any]],
    index: int,
    flag: np.bool_ | np.uint8,
    encoding: str,
    form: str | None,
) -> str:
    """Returns the reason why a value is bad. ``file_type``: its type in the file."""
    value = wrong[field.name][index]
    if flag == CUT:
        return reason_too_fine(field.name, value.decode() if isinstance(value, bytes) else str(value))
    if _kinds.is_timestamp(file_type) or _kinds.is_date(file_type):
        return f"column {field.name!r}: {value!s} as {file_type} is outside the years 1 to 9999 in UTC; {_BEYOND}"
    if _kinds.is_time(file_type):
        return f"column {field.name!r}: this {file_type} is no time of a day, which ends before 24:00"
    if not isinstance(value, bytes):
        return reason_of_misfit(field.name, value, field.type, form)
    try:
        return reason_of_misfit(field.name, value.decode("utf-8"), field.type, form)
    except UnicodeDecodeError:
        if encoding == UTF_8:
            return f"column {field.name!r}: {short_repr(value)} is not valid UTF-8"
        return f"column {field.name!r}: '{shown_bytes(value, encoding)[:LONGEST_VALUE]}' is not valid {encoding}"
