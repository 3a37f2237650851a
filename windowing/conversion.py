"""Conversion of values to a declared type, which keeps each value unchanged or refuses it; and a search for values that
would change if they were stored as JSON."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence, Sized
from contextlib import suppress
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from windowing.reprs import repr_of

if TYPE_CHECKING:
    from collections.abc import Callable

# Texts and decimals as decimals of another type, exactly or not at all.
#
# Arrow's casts multiply by a power of ten for the difference of the scales, in as many bits as the type has. They do
# not check that the product fits (``68127108`` as decimal(37, 32) is 70634.6158...), nor that their table of powers is
# long enough: ``1E-9999999`` ends the process, and ``1E-100`` reads memory behind the table. So values are cast by way
# of 256 bits, where every product of two numbers of 38 digits fits, and longer texts are rewritten first.


_MOST_DIGITS = {128: 38, 256: 76}
"""Greatest number of digits of a decimal, by the bits of its type."""
_LONGEST_SAFE_TEXT = 38
"""Greatest length of a text whose number fits into 256 bits, whatever the scale of the decimal type."""
_NUMBER = re.compile(r"[+-]?(?P<whole>\d*)\.?(?P<part>\d*)(?:[eE](?P<exponent>[+-]?\d+))?", re.ASCII)
_LONGEST_EXPONENT = 20
"""Number of digits of an exponent beyond which a number other than 0 fits into no decimal type."""


def to_decimal(values: pa.Array, target: pa.DataType) -> pa.Array:
    """Convert a string column to a decimal type. Raises ArrowInvalid if a text is not exactly a decimal of this
    type."""
    to_rewrite = _long_or_exponential(values, target)
    if len(to_rewrite):
        texts = values.to_pylist()
        for at in to_rewrite.tolist():
            texts[at] = plain_decimal(texts[at], target.precision, target.scale)
        values = pa.array(texts, pa.string())
    return values.cast(_widest_decimal(target)).cast(target)


def rescale_decimals(values: pa.Array, target: pa.DataType) -> pa.Array:
    """Convert a column of decimals to another decimal type. Raises ArrowInvalid if a value would be rounded or does
    not fit."""
    source = values.type
    if source.precision + max(target.scale - source.scale, 0) <= _MOST_DIGITS[256]:
        return values.cast(_widest_decimal(target)).cast(target)
    return to_decimal(
        pa.array([None if one is None else f"{one:f}" for one in values.to_pylist()], pa.string()), target
    )


def _widest_decimal(target: pa.DataType) -> pa.DataType:
    return pa.decimal256(_MOST_DIGITS[256], target.scale)


def plain_decimal(text: str, precision: int, scale: int) -> str:
    """Returns the text of a decimal without its exponent, and with at most ``scale`` decimal places. Raises
    ArrowInvalid if it does not fit into decimal(precision, scale)."""
    match = _NUMBER.fullmatch(text)
    digits = "" if match is None else match["whole"] + match["part"]
    if match is None or not digits:
        raise pa.ArrowInvalid(f"{text[:50]!r} is not a decimal")
    digits, decimals_written = digits.lstrip("0"), len(match["part"])
    if not digits:
        return "0"
    exponent = match["exponent"] or "0"
    if len(exponent) > _LONGEST_EXPONENT:
        raise pa.ArrowInvalid(f"the exponent of {text[:50]!r} is too long")
    significant = digits.rstrip("0")
    decimal_places = decimals_written - int(exponent) - (len(digits) - len(significant))
    if decimal_places > scale or len(significant) - decimal_places > precision - scale:
        raise pa.ArrowInvalid(f"{text[:50]!r} is not a decimal({precision}, {scale})")
    sign = "-" if text[0] == "-" else ""
    if decimal_places <= 0:
        return f"{sign}{significant}{'0' * -decimal_places}"
    padded = significant.zfill(decimal_places + 1)
    return f"{sign}{padded[:-decimal_places]}.{padded[-decimal_places:]}"


def convertible_decimal(value: Decimal) -> Decimal:
    """Returns a number that Arrow can convert to a decimal type; raises ArrowInvalid if it has more decimal places than
    any type."""
    exponent = value.as_tuple().exponent
    if not isinstance(exponent, int) or exponent >= -_MOST_DIGITS[256]:
        return value
    if value:
        raise pa.ArrowInvalid(f"{str(value)[:50]} has more places than a decimal can have")
    return Decimal()


def _long_or_exponential(values: pa.Array, target: pa.DataType) -> npt.NDArray[np.int64]:
    """Returns the indices of the texts that are long or may have an exponent."""
    if not len(values):
        return np.empty(0, np.int64)
    if target.scale < 0:
        return np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
    _, offsets, data = values.buffers()
    offsets_of_texts = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1]
    to_rewrite = np.diff(offsets_of_texts) > _LONGEST_SAFE_TEXT
    if data is not None:
        text = np.frombuffer(data, np.uint8)[offsets_of_texts[0] : offsets_of_texts[-1]]
        positions_of_e = np.flatnonzero((text | 0x20) == ord("e"))
        to_rewrite[np.searchsorted(offsets_of_texts, positions_of_e + offsets_of_texts[0], side="right") - 1] = True
    if values.null_count:
        to_rewrite &= values.is_valid().to_numpy(zero_copy_only=False)
    return np.flatnonzero(to_rewrite)


# Conversion of values from users' code, Python objects or Arrow columns, to a declared type.
#
# - A number is converted to another type of numbers if its value does not change. Only floating point is rounded: a
#   ``double`` to a ``float``, a decimal to either; never a whole number, and never to infinity.
# - A whole number is converted to a time, in the unit of the type: microseconds since 1970 for a ``timestamp``.
# - A time is converted to another unit, and to a date, if nothing is lost: a ``timestamp`` at midnight UTC is a
#   ``date``.
# - Texts and binaries are converted to each other, as UTF-8.
# - A struct must have exactly the declared fields.
# - All other conversions are refused: ``True`` and ``"12"`` are not numbers, and ``12`` is not a text.
#
# Values in files are converted in ``topologies/io/formats/conform.py``, by rules that differ on purpose: text may be
# read as a number, a whole number as a time counts milliseconds, and a ``double`` is not rounded to a ``float``. A
# refused value makes a bad row there; here it is an error of the bolt.


REFUSED = (pa.ArrowException, TypeError, ValueError, OverflowError)
"""The exceptions that a refused conversion raises."""

_NONE = type(None)
_INT64_DIGITS = 20
"""Greatest number of digits of a whole number of 64 bits."""


def convert_column(column: pa.Array | pa.ChunkedArray, kind: pa.DataType) -> pa.Array | pa.ChunkedArray:
    """Convert a column to another type. Raises ``REFUSED`` if a value would change, or the types do not fit."""
    if column.type == kind:
        return column
    if isinstance(column, pa.ChunkedArray):
        return pa.chunked_array([convert_column(chunk, kind) for chunk in column.chunks], kind)
    if types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if types.is_dictionary(kind):
        return convert_column(column, kind.value_type).cast(kind)
    if types.is_null(column.type):
        return pa.nulls(len(column), kind)
    if types.is_nested(kind) or types.is_nested(column.type):
        return _convert_nested_column(column, kind)
    return column if column.type == kind else _convert_simple_column(column, kind)


def convert_values(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Convert Python values to a column, None to null. Raises ``REFUSED`` if a value does not fit the type."""
    if not values or _arrow_checks(values, kind):
        with suppress(*REFUSED):  # values are then converted below: Arrow refuses some whole numbers as floating point
            return pa.array(values, kind)
    if types.is_dictionary(kind):
        return convert_values(values, kind.value_type).dictionary_encode().cast(kind)
    make = next((make for is_kind, make in _NESTED_CONVERTERS if is_kind(kind)), None)
    if make is not None:
        return make(values, kind)
    return _convert_simple_values(values, kind)


# -------------------------------------------------------------------------------------------------- columns of Arrow


def _convert_simple_column(column: pa.Array, kind: pa.DataType) -> pa.Array:
    source = column.type
    if not any(from_type(source) and to_type(kind) for from_type, to_type in _CONVERTIBLE):
        raise pa.ArrowInvalid(f"{_first_in_words(column)} is {source}, which is not taken for {kind}")
    result = _cast(column, kind)
    if types.is_floating(kind) and not types.is_integer(source):
        changed = pc.and_(pc.is_inf(result), pc.invert(_is_infinite(column)))
    elif _is_safe(source, kind):
        return result
    else:
        changed = pc.not_equal(_cast(result, source), column)
    at = pc.index(changed, True).as_py()
    if at >= 0:
        raise pa.ArrowInvalid(f"{_first_in_words(column.slice(at))} would become {_first_in_words(result.slice(at))}")
    return result


def _cast(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if types.is_integer(column.type) and types.is_decimal(kind):
        column = column.cast(pa.decimal128(_INT64_DIGITS, 0))
    elif types.is_integer(column.type) and types.is_temporal(kind):
        column = column.cast(pa.int32() if kind.bit_width == 32 else pa.int64())
    elif types.is_timestamp(column.type) and types.is_date(kind):
        column = column.cast(pa.timestamp(column.type.unit))  # the day in UTC
    elif types.is_date(column.type) and types.is_timestamp(kind):
        return column.cast(pa.timestamp(kind.unit)).cast(kind)
    elif types.is_decimal(column.type) and types.is_integer(kind):
        column = column.cast(pa.decimal256(76, column.type.scale))
    return column.cast(kind, safe=not (types.is_integer(column.type) and types.is_floating(kind)))


def _is_infinite(column: pa.Array) -> pa.Array:
    return pc.is_inf(column) if types.is_floating(column.type) else pa.repeat(False, len(column))


def _is_number(kind: pa.DataType) -> bool:
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))


def _is_text(kind: pa.DataType) -> bool:
    return bool(
        types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind) or types.is_binary(kind)
        or types.is_large_binary(kind) or types.is_binary_view(kind) or types.is_fixed_size_binary(kind)
    )  # fmt: skip


def _is_day_or_moment(kind: pa.DataType) -> bool:
    return bool(types.is_date(kind) or types.is_timestamp(kind))


def _counts_units(kind: pa.DataType) -> bool:
    return bool(types.is_temporal(kind)) and not types.is_interval(kind)


_CONVERTIBLE: list[tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType], bool]]] = [
    (_is_number, _is_number),
    (types.is_integer, _counts_units),
    (_is_day_or_moment, _is_day_or_moment),
    (types.is_time, types.is_time),
    (types.is_duration, types.is_duration),
    (types.is_boolean, types.is_boolean),
    (_is_text, _is_text),
]
"""Which types can be converted: pairs of tests, of the source type and of the target type."""


def _is_safe(source: pa.DataType, kind: pa.DataType) -> bool:
    """True if Arrow refuses exactly those conversions between two types that would change a value."""
    if types.is_decimal(source) or types.is_decimal(kind) or types.is_floating(kind):
        return False  # Arrow refuses whole numbers with more digits than a floating-point number has
    return source.id == kind.id or _is_text(kind) or bool(types.is_integer(source) or types.is_integer(kind))


def _first_in_words(column: pa.Array) -> str:
    value = next((value for value in column if value.is_valid), None)
    if value is None:
        return "a value"
    try:
        return f"{value.as_py()!r:.60}"
    except (ValueError, OverflowError):  # a time outside of Python's, or one in nanoseconds
        return f"{value!s:.60}"


def _convert_nested_column(column: pa.Array, kind: pa.DataType) -> pa.Array:
    source = column.type
    if types.is_struct(source) and types.is_struct(kind):
        _check_fields([field.name for field in source], kind)
        fields = dict(zip((field.name for field in source), column.flatten(), strict=True))
        children = [convert_column(fields[field.name], field.type) for field in kind]
        return _struct_column(children, kind, column.is_null(), len(column))
    if types.is_map(source) and types.is_map(kind):
        pairs = column.cast(pa.list_(pa.struct([("key", source.key_type), ("value", source.item_type)])))
        keys, items = pairs.flatten().flatten()
        children = [convert_column(keys, kind.key_type), convert_column(items, kind.item_type)]
        return _map_column(children, kind, _lengths(pairs))
    if _is_list(source) and _is_list(kind):
        return _list_column(convert_column(column.flatten(), kind.value_type), kind, _lengths(column))
    raise pa.ArrowInvalid(f"{_first_in_words(column)} is {source}, which is not taken for {kind}")


def _lengths(lists: pa.Array) -> list[int | None]:
    lengths: list[int | None] = pc.list_value_length(lists).to_pylist()
    return lengths


def _check_fields(names: Iterable[Any], kind: pa.StructType) -> None:
    names_found, declared = list(names), [field.name for field in kind]
    if len(names_found) != len(declared) or set(names_found) != set(declared):
        raise pa.ArrowInvalid(
            f"a struct has {', '.join(map(str, names_found)) or 'no fields'}, not {', '.join(declared)}"
        )


# -------------------------------------------------------------------------------------------------- values of Python


def _arrow_checks(values: Iterable[Any], kind: pa.DataType) -> bool:
    """True if Arrow's own conversion keeps or refuses each of these values, judged by their Python types alone.

    Arrow is ten times as fast as ``_convert_simple_values``.
    """
    if types.is_list(kind):
        lists = list(values)
        items = chain.from_iterable(each for each in lists if each is not None)
        return _LISTS.issuperset(map(type, lists)) and _arrow_checks(items, kind.value_type)
    if types.is_struct(kind):
        rows, names = list(values), {field.name for field in kind}
        if not _DICTS.issuperset(map(type, rows)) or len(names) != kind.num_fields:
            return False
        present = [row for row in rows if row is not None]
        return all(row.keys() == names for row in present) and all(
            _arrow_checks([row[field.name] for row in present], field.type) for field in kind
        )
    checked = _types_that_arrow_checks(kind)
    return checked is not None and checked.issuperset(map(type, values))


def _types_that_arrow_checks(kind: pa.DataType) -> frozenset[type] | None:
    """Returns the Python types whose values Arrow converts to ``kind`` unchanged or refuses; None if there are none."""
    if types.is_timestamp(kind) or types.is_duration(kind) or types.is_time64(kind):
        return _CHECKED_BY_ARROW.get(kind.id) if kind.unit == "us" else None
    return _CHECKED_BY_ARROW.get(kind.id)


_LISTS, _DICTS = frozenset({list, tuple, _NONE}), frozenset({dict, _NONE})
_CHECKED_BY_ARROW: dict[int, frozenset[type]] = {
    **{kind().id: frozenset({int, _NONE}) for kind in (pa.int8, pa.int16, pa.int32, pa.int64)},
    **{kind().id: frozenset({int, _NONE}) for kind in (pa.uint8, pa.uint16, pa.uint32, pa.uint64)},
    pa.float64().id: frozenset({float, int, _NONE}),
    pa.bool_().id: frozenset({bool, _NONE}),
    **{kind().id: frozenset({str, _NONE}) for kind in (pa.string, pa.large_string, pa.string_view)},
    **{kind().id: frozenset({bytes, _NONE}) for kind in (pa.binary, pa.large_binary, pa.binary_view)},
    pa.date32().id: frozenset({date, _NONE}),
    pa.timestamp("us").id: frozenset({datetime, int, _NONE}),
    pa.duration("us").id: frozenset({timedelta, int, _NONE}),
    pa.time64("us").id: frozenset({time, int, _NONE}),
}


def _convert_simple_values(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Convert values of any Python types to ``kind``, all values of one Python type together."""
    return _convert_in_groups(
        values, type, lambda group, python_type: _convert_one_python_type(group, python_type, kind)
    )


def _convert_in_groups(
    values: Sequence[Any], group_of: Callable[[Any], Any], convert: Callable[[Sequence[Any], Any], pa.Array]
) -> pa.Array:
    """Call ``convert`` once for the values of each group. Returns the results in the order of the values."""
    indices: dict[Any, list[int]] = {}
    for index, value in enumerate(values):
        indices.setdefault(group_of(value), []).append(index)
    parts = [convert([values[index] for index in members], group) for group, members in indices.items()]
    if len(parts) == 1:
        return parts[0]
    return pa.concat_arrays(parts).take(pa.array(np.argsort(np.concatenate([*indices.values()]))))


def _convert_one_python_type(values: Sequence[Any], python_type: type, kind: pa.DataType) -> pa.Array:
    if types.is_floating(kind) and python_type is int:
        return _as_floating(values, kind)
    if types.is_decimal(kind) and python_type in (Decimal, int):
        return pa.array([convertible_decimal(value) if python_type is Decimal else value for value in values], kind)
    if types.is_integer(kind) and issubclass(python_type, Decimal | float | np.floating):
        return pa.array([_as_whole(value) for value in values], kind)
    if python_type is Decimal and types.is_floating(kind):
        values = [float(value) for value in values]
    elif hasattr(python_type, "to_datetime64"):  # a Timestamp or NaT of pandas; Arrow would drop nanoseconds
        values = [value.to_datetime64() for value in values]
    elif hasattr(python_type, "to_timedelta64"):
        values = [value.to_timedelta64() for value in values]
    elif issubclass(python_type, pa.Scalar):
        return pa.concat_arrays([convert_column(pa.repeat(value, 1), kind) for value in values])
    if isinstance(values[0], np.datetime64 | np.timedelta64):  # Arrow takes those of one unit only
        return _convert_in_groups(values, attrgetter("dtype"), lambda group, _: _by_inferred_type(group, kind))
    return _by_inferred_type(values, kind)


def _by_inferred_type(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Convert values from the Arrow type that Arrow infers for them."""
    column = pa.array(values)
    return convert_column(column, kind) if column.type != pa.null() else pa.array(values, kind)


def _as_whole(value: Any) -> int:
    if not math.isfinite(value) or value != int(value):
        raise pa.ArrowInvalid(f"{value!r} is not a whole number")
    return int(value)


def _as_floating(values: Sequence[int], kind: pa.DataType) -> pa.Array:
    """Convert whole numbers to floating-point numbers of the same value."""
    if not types.is_float16(kind):  # Arrow rounds to float16 without an error
        with suppress(*REFUSED):  # Arrow refuses all numbers with many digits; some, like powers of two, are exact
            return pa.array(values, kind)
    with np.errstate(over="ignore"):
        converted = [kind.to_pandas_dtype()(value) for value in values]
    for value, result in zip(values, converted, strict=True):
        if not np.isfinite(result) or int(result) != value:
            raise pa.ArrowInvalid(f"{value} is no {kind}, and would be rounded")
    return pa.array(converted, kind)


def _column_of_lists(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    for value in values:
        if isinstance(value, str | bytes | Mapping) or (value is not None and not _is_sized(value)):
            raise pa.ArrowInvalid(f"{repr_of(value):.60} is not a list")
    items = list(chain.from_iterable(value for value in values if value is not None))
    return _list_column(
        convert_values(items, kind.value_type), kind, [None if each is None else len(each) for each in values]
    )


def _column_of_structs(values: Sequence[Any], kind: pa.StructType) -> pa.Array:
    names = [field.name for field in kind]
    rows: list[Sequence[Any]] = []
    for value in values:
        if value is None:
            rows.append([None] * len(names))
        elif isinstance(value, Mapping):
            _check_fields(value, kind)
            rows.append([value[name] for name in names])
        elif isinstance(value, tuple) and len(value) == len(names):
            rows.append(in_declared_order(value, names))
        else:
            raise pa.ArrowInvalid(f"{repr_of(value):.60} is not a dict with {', '.join(names)}")
    columns = zip(*rows, strict=True) if rows else ((),) * len(names)
    children = [convert_values(column, field.type) for column, field in zip(columns, kind, strict=True)]
    return _struct_column(children, kind, pa.array([value is None for value in values], pa.bool_()), len(values))


def in_declared_order(row: tuple[Any, ...], names: Sequence[str]) -> tuple[Any, ...]:
    """Returns a row in the order of the declared names; only a named tuple with exactly these names is reordered."""
    fields = getattr(row, "_fields", None)
    if fields is None or fields == tuple(names) or set(fields) != set(names):
        return row
    return tuple(row[fields.index(name)] for name in names)


def _column_of_maps(values: Sequence[Any], kind: pa.MapType) -> pa.Array:
    pairs: list[tuple[Any, Any]] = []
    lengths: list[int | None] = []
    for value in values:
        entries = value.items() if isinstance(value, Mapping) else value
        if value is None:
            lengths.append(None)
        elif isinstance(entries, str | bytes) or not _is_sized(entries):
            raise pa.ArrowInvalid(f"{repr_of(value):.60} is not a map")
        else:
            lengths.append(len(entries))
            pairs += map(_pair, entries)
    keys, items = zip(*pairs, strict=True) if pairs else ((), ())
    return _map_column([convert_values(keys, kind.key_type), convert_values(items, kind.item_type)], kind, lengths)


def _pair(entry: Any) -> tuple[Any, Any]:
    if isinstance(entry, Mapping) and set(entry) == {"key", "value"}:
        return entry["key"], entry["value"]
    if isinstance(entry, tuple | list) and len(entry) == 2:
        return entry[0], entry[1]
    raise pa.ArrowInvalid(f"{repr_of(entry):.60} is not a key and a value")


def _is_sized(value: Any) -> bool:
    return isinstance(value, Sized) and isinstance(value, Iterable)


# --------------------------------------------------------------------------------------------------- nested columns


def _is_list(kind: pa.DataType) -> bool:
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _list_offsets(lengths: Sequence[int | None]) -> list[int | None]:
    """Returns the offsets of lists: the start of each list (None for a null list), and the end of the last."""
    offsets: list[int | None] = []
    end = 0
    for length in lengths:
        offsets.append(None if length is None else end)
        end += length or 0
    return [*offsets, end]


def _list_column(items: pa.Array, kind: pa.DataType, lengths: Sequence[int | None]) -> pa.Array:
    if types.is_large_list(kind):
        return pa.LargeListArray.from_arrays(pa.array(_list_offsets(lengths), pa.int64()), items).cast(kind)
    lists = pa.ListArray.from_arrays(pa.array(_list_offsets(lengths), pa.int32()), items)
    return lists if lists.type == kind else lists.cast(kind)


def _map_column(children: list[pa.Array], kind: pa.MapType, lengths: Sequence[int | None]) -> pa.Array:
    if children[0].null_count:
        raise pa.ArrowInvalid("a key of a map is null")
    maps = pa.MapArray.from_arrays(pa.array(_list_offsets(lengths), pa.int32()), *children)
    return maps if maps.type == kind else maps.cast(kind)


def _struct_column(children: list[pa.Array], kind: pa.StructType, is_null: pa.Array, rows: int) -> pa.Array:
    if not children:
        return pa.array([None if each else {} for each in is_null.to_pylist()], kind)
    mask = is_null if pc.any(is_null).as_py() else None
    structs = pa.StructArray.from_arrays(children, fields=list(kind), mask=mask)
    assert len(structs) == rows
    return structs


_NESTED_CONVERTERS: list[tuple[Callable[[pa.DataType], bool], Callable[[Sequence[Any], Any], pa.Array]]] = [
    (_is_list, _column_of_lists),
    (types.is_struct, _column_of_structs),
    (types.is_map, _column_of_maps),
]


# Values that JSON would change.


_UNCHANGED_TYPES = (int, float, bool, type(None))


def describe_json_change(values: dict[str, Any], where: str, paths_by_id: dict[int, str] | None = None) -> str:
    """Describe the first of some values, or the part of one, that would not be the same after it is stored as JSON; ""
    if there is none.

    A list or dict that stands at two places is also described: JSON would make two of it, so that a change at one place
    would no longer change the other. ``where``: the name of the dict ``values`` in the user's code. ``paths_by_id``:
    the paths of lists and dicts of values described before, by their ids; those of these values are added.
    """
    paths_by_id = {} if paths_by_id is None else paths_by_id
    try:
        return next(
            filter(None, (_describe_change(each, f"{where}[{name!r}]", paths_by_id) for name, each in values.items())),
            "",
        )
    except RecursionError:
        return f"{where} contains itself, or is nested hundreds of levels deep, and is kept as JSON"


def _describe_change(value: Any, path: str, paths_by_id: dict[int, str]) -> str:
    """Describe the first part of a value that JSON would change; see ``describe_json_change``."""
    kind, wrong = type(value), ""
    if kind is list or kind is dict:
        first_path = paths_by_id.setdefault(id(value), path)
        if path.startswith(f"{first_path}["):
            wrong = f"{first_path} contains itself, at {path}"
        elif first_path != path:
            wrong = f"{path} is the same {kind.__name__} as {first_path}, and each is kept by itself: copy it"
        else:
            wrong = _describe_change_of_members(value, path, paths_by_id)
    elif kind is str:
        wrong = f"{path} is {repr_of(value):.60}, {_HALVES_IN_WORDS}" if _has_halves(value) else ""
    elif kind not in _UNCHANGED_TYPES:
        wrong = f"{path} is a {kind.__name__} {repr_of(value):.60}, which JSON does not have: "
        wrong += "keep int, float, str, bool, list or dict"
    return wrong


def _describe_change_of_members(value: list[Any] | dict[Any, Any], path: str, paths_by_id: dict[int, str]) -> str:
    """Describe the first part that JSON would change among the keys of a dict, or in the content of a dict or list."""
    for key in value if isinstance(value, dict) else ():
        if type(key) is not str:
            key_text = f"{repr_of(key):.60} (a {type(key).__name__})"
            return f"{path} has the key {key_text}, and keys are kept as texts: use str(...)"
        if _has_halves(key):
            return f"{path} has the key {key!r:.60}, {_HALVES_IN_WORDS}"
    for name, each in value.items() if isinstance(value, dict) else enumerate(value):
        if type(each) not in _UNCHANGED_TYPES and (wrong := _describe_change(each, f"{path}[{name!r}]", paths_by_id)):
            return wrong
    return ""


_HALVES_IN_WORDS = "two halves of a character that JSON would make one"


def _has_halves(text: str) -> bool:
    return not text.isascii() and json.loads(json.dumps(text)) != text
