"""Values as a column of a declared type: each is kept unchanged, or refused. And a check for values in the state of a
bolt or policy that JSON would change, in which the state is kept between two batches."""

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

# Text and decimals as decimals of another type, exactly or not at all.
#
# Arrow's own casts multiply by a power of ten for the difference of the scales, in as many bits as the type has, and
# check neither that the product fits (``68127108`` as decimal(37, 32) is 70634.6158...) nor that their table of powers
# goes so far: ``1E-9999999`` ends the process, ``1E-100`` reads what lies behind the table. So a cast goes by way of
# 256 bits, where every product of two numbers of 38 digits fits, and what is longer is brought into the scale of the
# type first.


_MOST = {128: 38, 256: 76}
"""Greatest number of digits of each decimal type, by its bits."""
_LONGEST = 38
"""Greatest length of a text whose number fits into 256 bits, whatever the scale of the decimal type."""
_NUMBER = re.compile(r"[+-]?(?P<whole>\d*)\.?(?P<part>\d*)(?:[eE](?P<exponent>[+-]?\d+))?", re.ASCII)
_EXPONENT = 20
"""Digits of an exponent beyond which a number other than 0 is not a decimal of any type."""


def to_decimal(values: pa.Array, target: pa.DataType) -> pa.Array:
    """Returns a string column as a type of decimals; raises ArrowInvalid if a text is not exactly such a decimal."""
    doubtful = _doubtful(values, target)
    if len(doubtful):
        texts = values.to_pylist()
        for at in doubtful.tolist():
            texts[at] = in_scale(texts[at], target.precision, target.scale)
        values = pa.array(texts, pa.string())
    return values.cast(_wide(target)).cast(target)


def rescaled(values: pa.Array, target: pa.DataType) -> pa.Array:
    """Returns a column of decimals as another type of decimals; raises ArrowInvalid if one is not exactly such a
    decimal."""
    source = values.type
    if source.precision + max(target.scale - source.scale, 0) <= _MOST[256]:
        return values.cast(_wide(target)).cast(target)
    return to_decimal(
        pa.array([None if one is None else f"{one:f}" for one in values.to_pylist()], pa.string()), target
    )


def _wide(target: pa.DataType) -> pa.DataType:
    return pa.decimal256(_MOST[256], target.scale)


def in_scale(text: str, precision: int, scale: int) -> str:
    """Returns the text of a decimal without an exponent, and with no more places than the type has. Raises ArrowInvalid
    if that is not possible."""
    found = _NUMBER.fullmatch(text)
    digits = "" if found is None else found["whole"] + found["part"]
    if found is None or not digits:
        raise pa.ArrowInvalid(f"{text[:50]!r} is not a decimal")
    digits, after = digits.lstrip("0"), len(found["part"])
    if not digits:
        return "0"
    exponent = found["exponent"] or "0"
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


def bounded(value: Decimal) -> Decimal:
    """Returns a number that Arrow may convert to a decimal; raises ArrowInvalid if it has more places than any
    decimal."""
    places = value.as_tuple().exponent
    if not isinstance(places, int) or places >= -_MOST[256]:
        return value
    if value:
        raise pa.ArrowInvalid(f"{str(value)[:50]} has more places than a decimal can have")
    return Decimal()


def _doubtful(values: pa.Array, target: pa.DataType) -> npt.NDArray[np.int64]:
    """Returns the places of the texts that are long, or may have an exponent."""
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


# Values as a column of a declared type: each is kept as it is, or refused.
#
# The one conversion of what users return, declare and give, whether as values of Python or as columns of Arrow:
#
# - Numbers become numbers of another type where they have the same value there. Floating point alone is rounded: a
#   ``double`` to a ``float``, a decimal to either; never a whole number, and never to infinity.
# - Whole numbers become times as well, and count their unit: microseconds since 1970 for a ``timestamp``.
# - Times become times of another unit, and dates, where nothing is lost: a ``timestamp`` is a ``date`` at midnight UTC.
# - Texts and binaries become each other as UTF-8.
# - A struct has the fields that are declared: all of them, and no others.
# - All else is refused: ``True`` is no number, ``"12"`` neither, and ``12`` no text.
#
# What files hold is converted elsewhere, in ``topologies/io/formats/conform.py``, by rules that differ on purpose:
# there text may be read as a number, a whole number as a time counts milliseconds, as people write it, and a
# ``double`` that would be rounded to a ``float`` is bad. A value that cannot be kept fails the bolt here, and is a bad
# row there.


REFUSED = (pa.ArrowException, TypeError, ValueError, OverflowError)
"""Exceptions of a conversion that is refused."""

_NONE = type(None)
_DIGITS = 20
"""Digits of a whole number of 64 bits."""


def converted(column: pa.Array | pa.ChunkedArray, kind: pa.DataType) -> pa.Array | pa.ChunkedArray:
    """Returns a column as one of another type; raises ``REFUSED`` if a value would change, or the types do not fit."""
    if column.type == kind:
        return column
    if isinstance(column, pa.ChunkedArray):
        return pa.chunked_array([converted(chunk, kind) for chunk in column.chunks], kind)
    if types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if types.is_dictionary(kind):
        return converted(column, kind.value_type).cast(kind)
    if types.is_null(column.type):
        return pa.nulls(len(column), kind)
    if types.is_nested(kind) or types.is_nested(column.type):
        return _nested(column, kind)
    return column if column.type == kind else _leaf(column, kind)


def of_values(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Returns values of Python as a column, None as null; raises ``REFUSED`` if a value is not of that type."""
    if not values or _is_plain(values, kind):
        with suppress(*REFUSED):  # then each value is looked at: Arrow refuses whole numbers beyond 2 ** 53 as floating
            return pa.array(values, kind)
    if types.is_dictionary(kind):
        return of_values(values, kind.value_type).dictionary_encode().cast(kind)
    make = next((make for is_kind, make in _NESTED if is_kind(kind)), None)
    if make is not None:
        return make(values, kind)
    return _leaves(values, kind)


# -------------------------------------------------------------------------------------------------- columns of Arrow


def _leaf(column: pa.Array, kind: pa.DataType) -> pa.Array:
    own = column.type
    if not any(is_own(own) and becomes(kind) for is_own, becomes in _FITTING):
        raise pa.ArrowInvalid(f"{_first(column)} is {own}, which is not taken for {kind}")
    found = _cast(column, kind)
    if types.is_floating(kind) and not types.is_integer(own):
        wrong = pc.and_(pc.is_inf(found), pc.invert(_infinite(column)))
    elif _is_safe(own, kind):
        return found
    else:
        wrong = pc.not_equal(_cast(found, own), column)
    at = pc.index(wrong, True).as_py()
    if at >= 0:
        raise pa.ArrowInvalid(f"{_first(column.slice(at))} would become {_first(found.slice(at))}")
    return found


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


_FITTING: list[tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType], bool]]] = [
    (_is_number, _is_number),
    (types.is_integer, _is_count),
    (_is_day_or_moment, _is_day_or_moment),
    (types.is_time, types.is_time),
    (types.is_duration, types.is_duration),
    (types.is_boolean, types.is_boolean),
    (_is_text, _is_text),
]
"""The pairs of types that can be converted: (from, to)."""


def _is_safe(own: pa.DataType, kind: pa.DataType) -> bool:
    """True if Arrow refuses every conversion between these types that would change a value."""
    if types.is_decimal(own) or types.is_decimal(kind) or types.is_floating(kind):
        return False  # Arrow refuses a whole number with more digits than a floating-point number may have
    return own.id == kind.id or _is_text(kind) or bool(types.is_integer(own) or types.is_integer(kind))


def _first(column: pa.Array) -> str:
    value = next((value for value in column if value.is_valid), None)
    if value is None:
        return "a value"
    try:
        return f"{value.as_py()!r:.60}"
    except (ValueError, OverflowError):  # a time outside of Python's, or one in nanoseconds
        return f"{value!s:.60}"


def _nested(column: pa.Array, kind: pa.DataType) -> pa.Array:
    own = column.type
    if types.is_struct(own) and types.is_struct(kind):
        _check_fields([field.name for field in own], kind)
        fields = dict(zip((field.name for field in own), column.flatten(), strict=True))
        children = [converted(fields[field.name], field.type) for field in kind]
        return _struct(children, kind, column.is_null(), len(column))
    if types.is_map(own) and types.is_map(kind):
        pairs = column.cast(pa.list_(pa.struct([("key", own.key_type), ("value", own.item_type)])))
        keys, items = pairs.flatten().flatten()
        children = [converted(keys, kind.key_type), converted(items, kind.item_type)]
        return _map(children, kind, _lengths(pairs))
    if _is_list(own) and _is_list(kind):
        return _list(converted(column.flatten(), kind.value_type), kind, _lengths(column))
    raise pa.ArrowInvalid(f"{_first(column)} is {own}, which is not taken for {kind}")


def _lengths(lists: pa.Array) -> list[int | None]:
    found: list[int | None] = pc.list_value_length(lists).to_pylist()
    return found


def _check_fields(names: Iterable[Any], kind: pa.StructType) -> None:
    found, declared = list(names), [field.name for field in kind]
    if len(found) != len(declared) or set(found) != set(declared):
        raise pa.ArrowInvalid(f"a struct has {', '.join(map(str, found)) or 'no fields'}, not {', '.join(declared)}")


# -------------------------------------------------------------------------------------------------- values of Python


def _is_plain(values: Iterable[Any], kind: pa.DataType) -> bool:
    """True if Arrow itself keeps or refuses each of these values: lists and dicts, and values of types that Arrow
    checks strictly.

    It looks at types alone, since Arrow is ten times as fast as the conversion of other values.
    """
    if types.is_list(kind):
        lists = list(values)
        items = chain.from_iterable(each for each in lists if each is not None)
        return _LISTS.issuperset(map(type, lists)) and _is_plain(items, kind.value_type)
    if types.is_struct(kind):
        rows, names = list(values), {field.name for field in kind}
        if not _DICTS.issuperset(map(type, rows)) or len(names) != kind.num_fields:
            return False
        present = [row for row in rows if row is not None]
        return all(row.keys() == names for row in present) and all(
            _is_plain([row[field.name] for row in present], field.type) for field in kind
        )
    trusted = _trusted(kind)
    return trusted is not None and trusted.issuperset(map(type, values))


def _trusted(kind: pa.DataType) -> frozenset[type] | None:
    """Returns the types whose values Arrow itself keeps or refuses; None if it does neither."""
    if types.is_timestamp(kind) or types.is_duration(kind) or types.is_time64(kind):
        return _TRUSTED.get(kind.id) if kind.unit == "us" else None
    return _TRUSTED.get(kind.id)


_LISTS, _DICTS = frozenset({list, tuple, _NONE}), frozenset({dict, _NONE})
_TRUSTED: dict[int, frozenset[type]] = {
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
    """Converts values of any types, one type at a time."""
    return _in_groups(values, type, lambda some, owner: _of_one_type(some, owner, kind))


def _in_groups(
    values: Sequence[Any], by: Callable[[Any], Any], convert: Callable[[Sequence[Any], Any], pa.Array]
) -> pa.Array:
    """Converts the values of each group together; the result has the order of the values."""
    places: dict[Any, list[int]] = {}
    for place, value in enumerate(values):
        places.setdefault(by(value), []).append(place)
    parts = [convert([values[at] for at in some], group) for group, some in places.items()]
    if len(parts) == 1:
        return parts[0]
    return pa.concat_arrays(parts).take(pa.array(np.argsort(np.concatenate([*places.values()]))))


def _of_one_type(values: Sequence[Any], owner: type, kind: pa.DataType) -> pa.Array:
    if types.is_floating(kind) and owner is int:
        return _as_floating(values, kind)
    if types.is_decimal(kind) and owner in (Decimal, int):
        return pa.array([bounded(value) if owner is Decimal else value for value in values], kind)
    if types.is_integer(kind) and issubclass(owner, Decimal | float | np.floating):
        return pa.array([_as_whole(value) for value in values], kind)
    if owner is Decimal and types.is_floating(kind):
        values = [float(value) for value in values]
    elif hasattr(owner, "to_datetime64"):  # a Timestamp or NaT of pandas, whose nanoseconds Arrow leaves out
        values = [value.to_datetime64() for value in values]
    elif hasattr(owner, "to_timedelta64"):
        values = [value.to_timedelta64() for value in values]
    elif issubclass(owner, pa.Scalar):
        return pa.concat_arrays([converted(pa.repeat(value, 1), kind) for value in values])
    if isinstance(values[0], np.datetime64 | np.timedelta64):  # Arrow takes those of one unit only
        return _in_groups(values, attrgetter("dtype"), lambda some, _: _by_inferred_type(some, kind))
    return _by_inferred_type(values, kind)


def _by_inferred_type(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Converts values from the type that Arrow finds for them."""
    own = pa.array(values)
    return converted(own, kind) if own.type != pa.null() else pa.array(values, kind)


def _as_whole(value: Any) -> int:
    if not math.isfinite(value) or value != int(value):
        raise pa.ArrowInvalid(f"{value!r} is not a whole number")
    return int(value)


def _as_floating(values: Sequence[int], kind: pa.DataType) -> pa.Array:
    """Returns whole numbers as floating-point numbers of the same value."""
    if not types.is_float16(kind):  # to which Arrow rounds them, and to infinity
        with suppress(*REFUSED):  # it takes none of more digits than a floating one has, which powers of two may have
            return pa.array(values, kind)
    with np.errstate(over="ignore"):
        found = [kind.to_pandas_dtype()(value) for value in values]
    for value, kept in zip(values, found, strict=True):
        if not np.isfinite(kept) or int(kept) != value:
            raise pa.ArrowInvalid(f"{value} is no {kind}, and would be rounded")
    return pa.array(found, kind)


def _of_lists(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    for value in values:
        if isinstance(value, str | bytes | Mapping) or (value is not None and not _is_sized(value)):
            raise pa.ArrowInvalid(f"{repr_of(value):.60} is not a list")
    items = list(chain.from_iterable(value for value in values if value is not None))
    return _list(of_values(items, kind.value_type), kind, [None if each is None else len(each) for each in values])


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
            rows.append(by_their_names(value, names))
        else:
            raise pa.ArrowInvalid(f"{repr_of(value):.60} is not a dict with {', '.join(names)}")
    columns = zip(*rows, strict=True) if rows else ((),) * len(names)
    children = [of_values(column, field.type) for column, field in zip(columns, kind, strict=True)]
    return _struct(children, kind, pa.array([value is None for value in values], pa.bool_()), len(values))


def by_their_names(row: tuple[Any, ...], names: Sequence[str]) -> tuple[Any, ...]:
    """Returns the values of a tuple in the order of the declared names: those of a named tuple that has these very
    names go by them, and all others by place."""
    own = getattr(row, "_fields", None)
    if own is None or own == tuple(names) or set(own) != set(names):
        return row
    return tuple(row[own.index(name)] for name in names)


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
    return _map([of_values(keys, kind.key_type), of_values(items, kind.item_type)], kind, lengths)


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
    """Returns the start of each list, null if there is none, and last the end of all."""
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
    found = pa.StructArray.from_arrays(children, fields=list(kind), mask=mask)
    assert len(found) == rows
    return found


_NESTED: list[tuple[Callable[[pa.DataType], bool], Callable[[Sequence[Any], Any], pa.Array]]] = [
    (_is_list, _of_lists),
    (types.is_struct, _of_structs),
    (types.is_map, _of_maps),
]


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
    """Describe the first such part of one value; ``places``: by their ids, where the lists and dicts so far stand."""
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
    """Describes the first part that JSON would change among the keys of a dict, and then in the content of a dict or
    list."""
    for key in value if isinstance(value, dict) else ():
        if type(key) is not str:
            said = f"{repr_of(key):.60} (a {type(key).__name__})"
            return f"{path} has the key {said}, and keys are kept as texts: use str(...)"
        if _has_halves(key):
            return f"{path} has the key {key!r:.60}, {_HALVES}"
    for name, each in value.items() if isinstance(value, dict) else enumerate(value):
        if type(each) not in _PLAIN and (wrong := _of_value(each, f"{path}[{name!r}]", places)):
            return wrong
    return ""


_HALVES = "two halves of a character that JSON would make one"


def _has_halves(text: str) -> bool:
    return not text.isascii() and json.loads(json.dumps(text)) != text
