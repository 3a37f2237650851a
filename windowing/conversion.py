"""Conversion of values to a declared type: each value is kept unchanged, or refused. And a check for values that would
change if they were stored as JSON."""

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


_MOST = {128: 38, 256: 76}
"""Greatest number of digits of a decimal, by the bits of its type."""
_LONGEST = 38
"""Greatest length of a text whose number fits into 256 bits, whatever the scale of the decimal type."""
_NUMBER = re.compile(r"[+-]?(?P<whole>\d*)\.?(?P<part>\d*)(?:[eE](?P<exponent>[+-]?\d+))?", re.ASCII)
_EXPONENT = 20
"""Number of digits of an exponent beyond which a number other than 0 fits into no decimal type."""


def to_decimal(values: pa.Array, target: pa.DataType) -> pa.Array:
    """Convert a string column to a decimal type. Raises ArrowInvalid if a text is not exactly a decimal of this
    type."""
    doubtful = _doubtful(values, target)
    if len(doubtful):
        texts = values.to_pylist()
        for at in doubtful.tolist():
            texts[at] = plain_decimal(texts[at], target.precision, target.scale)
        values = pa.array(texts, pa.string())
    return values.cast(_wide(target)).cast(target)


def rescale_decimals(values: pa.Array, target: pa.DataType) -> pa.Array:
    """Convert a column of decimals to another decimal type. Raises ArrowInvalid if a value would be rounded or does
    not fit."""
    source = values.type
    if source.precision + max(target.scale - source.scale, 0) <= _MOST[256]:
        return values.cast(_wide(target)).cast(target)
    return to_decimal(
        pa.array([None if one is None else f"{one:f}" for one in values.to_pylist()], pa.string()), target
    )


def _wide(target: pa.DataType) -> pa.DataType:
    return pa.decimal256(_MOST[256], target.scale)


def plain_decimal(text: str, precision: int, scale: int) -> str:
    """Returns the text of a decimal without its exponent, and with at most ``scale`` decimal places. Raises
    ArrowInvalid if it does not fit into decimal(precision, scale)."""
    match = _NUMBER.fullmatch(text)
    digits = "" if match is None else match["whole"] + match["part"]
    if match is None or not digits:
        raise pa.ArrowInvalid(f"{text[:50]!r} is not a decimal")
    digits, after = digits.lstrip("0"), len(match["part"])
    if not digits:
        return "0"
    exponent = match["exponent"] or "0"
    if len(exponent) > _EXPONENT:
        raise pa.ArrowInvalid(f"the exponent of {text[:50]!r} is too long")
    plain = digits.rstrip("0")
    places = after - int(exponent) - (len(digits) - len(plain))
    if places > scale or len(plain) - places > precision - scale:
        raise pa.ArrowInvalid(f"{text[:50]!r} is not a decimal({precision}, {scale})")
    sign = "-" if text[0] == "-" else ""
    if places <= 0:
        return f"{sign}{plain}{'0' * -places}"
    whole = plain.zfill(places + 1)
    return f"{sign}{whole[:-places]}.{whole[-places:]}"


def checked_decimal(value: Decimal) -> Decimal:
    """Returns a number that Arrow can convert to a decimal type; raises ArrowInvalid if it has more decimal places than
    any type."""
    places = value.as_tuple().exponent
    if not isinstance(places, int) or places >= -_MOST[256]:
        return value
    if value:
        raise pa.ArrowInvalid(f"{str(value)[:50]} has more places than a decimal can have")
    return Decimal()


def _doubtful(values: pa.Array, target: pa.DataType) -> npt.NDArray[np.int64]:
    """Returns the indices of the texts that are long or may have an exponent."""
    if not len(values):
        return np.empty(0, np.int64)
    if target.scale < 0:
        return np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
    _, offsets, data = values.buffers()
    ends = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1]
    odd = np.diff(ends) > _LONGEST
    if data is not None:
        text = np.frombuffer(data, np.uint8)[ends[0] : ends[-1]]
        found = np.flatnonzero((text | 0x20) == ord("e"))
        odd[np.searchsorted(ends, found + ends[0], side="right") - 1] = True
    if values.null_count:
        odd &= values.is_valid().to_numpy(zero_copy_only=False)
    return np.flatnonzero(odd)


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
_DIGITS = 20
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
        return _nested(column, kind)
    return column if column.type == kind else _leaf(column, kind)


def convert_values(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Convert Python values to a column, None to null. Raises ``REFUSED`` if a value does not fit the type."""
    if not values or _arrow_checks(values, kind):
        with suppress(*REFUSED):  # values are then converted below: Arrow refuses some whole numbers as floating point
            return pa.array(values, kind)
    if types.is_dictionary(kind):
        return convert_values(values, kind.value_type).dictionary_encode().cast(kind)
    make = next((make for is_kind, make in _NESTED if is_kind(kind)), None)
    if make is not None:
        return make(values, kind)
    return _leaves(values, kind)


# -------------------------------------------------------------------------------------------------- columns of Arrow


def _leaf(column: pa.Array, kind: pa.DataType) -> pa.Array:
    source = column.type
    if not any(from_type(source) and to_type(kind) for from_type, to_type in _CONVERTIBLE):
        raise pa.ArrowInvalid(f"{_first(column)} is {source}, which is not taken for {kind}")
    result = _cast(column, kind)
    if types.is_floating(kind) and not types.is_integer(source):
        wrong = pc.and_(pc.is_inf(result), pc.invert(_infinite(column)))
    elif _is_safe(source, kind):
        return result
    else:
        wrong = pc.not_equal(_cast(result, source), column)
    at = pc.index(wrong, True).as_py()
    if at >= 0:
        raise pa.ArrowInvalid(f"{_first(column.slice(at))} would become {_first(result.slice(at))}")
    return result


def _cast(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if types.is_integer(column.type) and types.is_decimal(kind):
        column = column.cast(pa.decimal128(_DIGITS, 0))
    elif types.is_integer(column.type) and types.is_temporal(kind):
        column = column.cast(pa.int32() if kind.bit_width == 32 else pa.int64())
    elif types.is_timestamp(column.type) and types.is_date(kind):
        column = column.cast(pa.timestamp(column.type.unit))  # the day in UTC
    elif types.is_date(column.type) and types.is_timestamp(kind):
        return column.cast(pa.timestamp(kind.unit)).cast(kind)
    elif types.is_decimal(column.type) and types.is_integer(kind):
        column = column.cast(pa.decimal256(76, column.type.scale))
    return column.cast(kind, safe=not (types.is_integer(column.type) and types.is_floating(kind)))


def _infinite(column: pa.Array) -> pa.Array:
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


def _is_count(kind: pa.DataType) -> bool:
    return bool(types.is_temporal(kind)) and not types.is_interval(kind)


_CONVERTIBLE: list[tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType], bool]]] = [
    (_is_number, _is_number),
    (types.is_integer, _is_count),
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


def _first(column: pa.Array) -> str:
    value = next((value for value in column if value.is_valid), None)
    if value is None:
        return "a value"
    try:
        return f"{value.as_py()!r:.60}"
    except (ValueError, OverflowError):  # a time outside of Python's, or one in nanoseconds
        return f"{value!s:.60}"


def _nested(column: pa.Array, kind: pa.DataType) -> pa.Array:
    source = column.type
    if types.is_struct(source) and types.is_struct(kind):
        _check_fields([field.name for field in source], kind)
        fields = dict(zip((field.name for field in source), column.flatten(), strict=True))
        children = [convert_column(fields[field.name], field.type) for field in kind]
        return _struct(children, kind, column.is_null(), len(column))
    if types.is_map(source) and types.is_map(kind):
        pairs = column.cast(pa.list_(pa.struct([("key", source.key_type), ("value", source.item_type)])))
        keys, items = pairs.flatten().flatten()
        children = [convert_column(keys, kind.key_type), convert_column(items, kind.item_type)]
        return _map(children, kind, _lengths(pairs))
    if _is_list(source) and _is_list(kind):
        return _list(convert_column(column.flatten(), kind.value_type), kind, _lengths(column))
    raise pa.ArrowInvalid(f"{_first(column)} is {source}, which is not taken for {kind}")


def _lengths(lists: pa.Array) -> list[int | None]:
    lengths: list[int | None] = pc.list_value_length(lists).to_pylist()
    return lengths


def _check_fields(names: Iterable[Any], kind: pa.StructType) -> None:
    given, declared = list(names), [field.name for field in kind]
    if len(given) != len(declared) or set(given) != set(declared):
        raise pa.ArrowInvalid(f"a struct has {', '.join(map(str, given)) or 'no fields'}, not {', '.join(declared)}")


# -------------------------------------------------------------------------------------------------- values of Python


def _arrow_checks(values: Iterable[Any], kind: pa.DataType) -> bool:
    """True if Arrow's own conversion keeps or refuses each of these values, judged by their Python types alone.

    Arrow is ten times as fast as ``_leaves``.
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


def _leaves(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Convert values of any Python types to ``kind``, all values of one Python type together."""
    return _in_groups(values, type, lambda group, python_type: _of_one_type(group, python_type, kind))


def _in_groups(
    values: Sequence[Any], by: Callable[[Any], Any], convert: Callable[[Sequence[Any], Any], pa.Array]
) -> pa.Array:
    """Call ``convert`` once for the values of each group. Returns the results in the order of the values."""
    indices: dict[Any, list[int]] = {}
    for index, value in enumerate(values):
        indices.setdefault(by(value), []).append(index)
    parts = [convert([values[index] for index in members], group) for group, members in indices.items()]
    if len(parts) == 1:
        return parts[0]
    return pa.concat_arrays(parts).take(pa.array(np.argsort(np.concatenate([*indices.values()]))))


def _of_one_type(values: Sequence[Any], python_type: type, kind: pa.DataType) -> pa.Array:
    if types.is_floating(kind) and python_type is int:
        return _as_floating(values, kind)
    if types.is_decimal(kind) and python_type in (Decimal, int):
        return pa.array([checked_decimal(value) if python_type is Decimal else value for value in values], kind)
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
        return _in_groups(values, attrgetter("dtype"), lambda group, _: _by_inferred_type(group, kind))
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


def _of_lists(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    for value in values:
        if isinstance(value, str | bytes | Mapping) or (value is not None and not _is_sized(value)):
            raise pa.ArrowInvalid(f"{repr_of(value):.60} is not a list")
    items = list(chain.from_iterable(value for value in values if value is not None))
    return _list(convert_values(items, kind.value_type), kind, [None if each is None else len(each) for each in values])


def _of_structs(values: Sequence[Any], kind: pa.StructType) -> pa.Array:
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
    return _struct(children, kind, pa.array([value is None for value in values], pa.bool_()), len(values))


def in_declared_order(row: tuple[Any, ...], names: Sequence[str]) -> tuple[Any, ...]:
    """Returns a row in the order of the declared names; only a named tuple with exactly these names is reordered."""
    fields = getattr(row, "_fields", None)
    if fields is None or fields == tuple(names) or set(fields) != set(names):
        return row
    return tuple(row[fields.index(name)] for name in names)


def _of_maps(values: Sequence[Any], kind: pa.MapType) -> pa.Array:
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
    return _map([convert_values(keys, kind.key_type), convert_values(items, kind.item_type)], kind, lengths)


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


def _edges(lengths: Sequence[int | None]) -> list[int | None]:
    """Returns the offsets of lists: the start of each list (None for a null list), and the end of the last."""
    edges: list[int | None] = []
    end = 0
    for length in lengths:
        edges.append(None if length is None else end)
        end += length or 0
    return [*edges, end]


def _list(items: pa.Array, kind: pa.DataType, lengths: Sequence[int | None]) -> pa.Array:
    if types.is_large_list(kind):
        return pa.LargeListArray.from_arrays(pa.array(_edges(lengths), pa.int64()), items).cast(kind)
    lists = pa.ListArray.from_arrays(pa.array(_edges(lengths), pa.int32()), items)
    return lists if lists.type == kind else lists.cast(kind)


def _map(children: list[pa.Array], kind: pa.MapType, lengths: Sequence[int | None]) -> pa.Array:
    if children[0].null_count:
        raise pa.ArrowInvalid("a key of a map is null")
    maps = pa.MapArray.from_arrays(pa.array(_edges(lengths), pa.int32()), *children)
    return maps if maps.type == kind else maps.cast(kind)


def _struct(children: list[pa.Array], kind: pa.StructType, missing: pa.Array, rows: int) -> pa.Array:
    if not children:
        return pa.array([None if each else {} for each in missing.to_pylist()], kind)
    mask = missing if pc.any(missing).as_py() else None
    structs = pa.StructArray.from_arrays(children, fields=list(kind), mask=mask)
    assert len(structs) == rows
    return structs


_NESTED: list[tuple[Callable[[pa.DataType], bool], Callable[[Sequence[Any], Any], pa.Array]]] = [
    (_is_list, _of_lists),
    (types.is_struct, _of_structs),
    (types.is_map, _of_maps),
]


# Values that JSON would change.


_PLAIN = (int, float, bool, type(None))


def changed_by_json(values: dict[str, Any], where: str, places: dict[int, str] | None = None) -> str:
    """Describes the first part of some values, by name, that JSON would change; empty if there is none.

    ``where``: the name of the dict of values in the user's code. A list or dict at two places is such a part too: JSON
    would make two of it, so that a change at one place would no longer change the other. ``places``: where the lists
    and dicts of other values stand, by their ids; those of these values are added.
    """
    places = {} if places is None else places
    try:
        return next(filter(None, (_of_value(each, f"{where}[{name!r}]", places) for name, each in values.items())), "")
    except RecursionError:
        return f"{where} contains itself, or is nested hundreds of levels deep, and is kept as JSON"


def _of_value(value: Any, path: str, places: dict[int, str]) -> str:
    """Describe the first part of a value that JSON would change; ``places``: the paths of the lists and dicts before
    it, by their ids."""
    kind, wrong = type(value), ""
    if kind is list or kind is dict:
        other = places.setdefault(id(value), path)
        if path.startswith(f"{other}["):
            wrong = f"{other} contains itself, at {path}"
        elif other != path:
            wrong = f"{path} is the same {kind.__name__} as {other}, and each is kept by itself: copy it"
        else:
            wrong = _of_members(value, path, places)
    elif kind is str:
        wrong = f"{path} is {repr_of(value):.60}, {_HALVES}" if _has_halves(value) else ""
    elif kind not in _PLAIN:
        wrong = f"{path} is a {kind.__name__} {repr_of(value):.60}, which JSON does not have: "
        wrong += "keep int, float, str, bool, list or dict"
    return wrong


def _of_members(value: list[Any] | dict[Any, Any], path: str, places: dict[int, str]) -> str:
    """Describe the first part that JSON would change among the keys of a dict, or in the content of a dict or list."""
    for key in value if isinstance(value, dict) else ():
        if type(key) is not str:
            key_text = f"{repr_of(key):.60} (a {type(key).__name__})"
            return f"{path} has the key {key_text}, and keys are kept as texts: use str(...)"
        if _has_halves(key):
            return f"{path} has the key {key!r:.60}, {_HALVES}"
    for name, each in value.items() if isinstance(value, dict) else enumerate(value):
        if type(each) not in _PLAIN and (wrong := _of_value(each, f"{path}[{name!r}]", places)):
            return wrong
    return ""


_HALVES = "two halves of a character that JSON would make one"


def _has_halves(text: str) -> bool:
    return not text.isascii() and json.loads(json.dumps(text)) != text
