"""Text and times as typed columns; the only module that defines how numbers and times may be spelled."""

from __future__ import annotations

import base64
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from windowing.conversion import plain_decimal, to_decimal
from windowing.timestamps import offsets_of_wall_times

# Finds the values that make a conversion of a whole column fail, without a loop over all values.


Mask: TypeAlias = npt.NDArray[np.bool_]
Flags: TypeAlias = "Mask | npt.NDArray[np.uint8]"
"""For each value: True if it is bad; or, for times finer than their type, the bits BAD and CUT."""
Converted: TypeAlias = tuple[pa.Array, "Flags | None"]
"""Values, with null for bad ones, and their flags; None if no value has a flag."""
BAD, CUT = np.uint8(1), np.uint8(2)
Kernel: TypeAlias = Callable[[pa.Array], pa.Array]

_FAILURES = (pa.ArrowInvalid, ValueError, OverflowError)
_PARTS = 8
_PROBE = 8


def isolate(values: pa.Array, target: pa.DataType, *kernels: Kernel) -> Converted:
    """Converts each value by the first kernel that accepts it; a value that no kernel accepts is bad, and null.

    The result for a value depends on the value alone. Whole columns are tried first, then distinct values in ever
    smaller parts.
    """
    whole = attempt(values, kernels)
    if whole is not None:
        return whole, None
    if len(values) < 2 * _PARTS or pa.types.is_nested(values.type):
        return _by_parts(values, target, kernels)
    encoded = values.dictionary_encode()
    distinct, bad = _by_parts(encoded.dictionary, target, kernels)
    converted = distinct.take(encoded.indices)
    if bad is None:
        return converted, None
    chosen = encoded.indices.fill_null(0).to_numpy(zero_copy_only=False)
    return converted, flags_where(bad[chosen], valid_mask(values))


def bad_mask(flags: Flags) -> Mask:
    """Returns a mask of the bad values."""
    return flags if flags.dtype == np.bool_ else (flags & BAD).astype(np.bool_)  # type: ignore[return-value]


def cut_mask(flags: Flags) -> Mask | None:
    """Returns a mask of the times that were cut to the unit of their type; None if none was."""
    if flags.dtype == np.bool_:
        return None
    cut: Mask = (flags & CUT).astype(np.bool_)
    return cut if cut.any() else None


def flags_of_cut(cut: Mask) -> Flags | None:
    """Returns the flags of values without bad ones; ``cut``: a mask of those that were cut."""
    return cut * CUT if cut.any() else None


def flags_where(flags: Flags, chosen: Mask) -> Flags:
    """Returns flags for the chosen values only."""
    return flags & chosen if flags.dtype == np.bool_ else np.where(chosen, flags, np.uint8(0))


def flags_of_lists(flags: Flags, offsets: npt.NDArray[np.int64]) -> Flags:
    """Returns the flags of lists: a list has each flag of its elements."""
    found = None
    for bit, chosen in ((BAD, bad_mask(flags)), (CUT, cut_mask(flags))):
        if chosen is not None:
            before = np.concatenate([[0], np.cumsum(chosen)])
            any_of: Flags = before[offsets[1:]] > before[offsets[:-1]]
            found = union_flags(found, any_of if bit == BAD else any_of * CUT)
    assert found is not None
    return found


def concat_flags(parts: list[Flags]) -> Flags:
    """Returns the flags of several parts as one array."""
    return np.concatenate(parts)  # type: ignore[return-value]


def blank_bad(values: pa.Array, bad: Flags) -> pa.Array:
    """Returns the values, with null in place of bad ones."""
    return pc.if_else(pa.array(bad_mask(bad)), pa.scalar(None, values.type), values)


def valid_mask(values: pa.Array) -> Mask:
    mask: Mask = values.is_valid().to_numpy(zero_copy_only=False)
    return mask


def union_flags(left: Flags | None, right: Flags | None) -> Flags | None:
    if left is None or right is None:
        return right if left is None else left
    return left | right


def whole_numbers(values: pa.Array, target: pa.DataType) -> Converted:
    """Returns numbers as an integer type; a number that is not whole, or outside the type, is bad."""
    kept = attempt(values, (lambda some: some.cast(target),))
    if kept is not None:
        return kept, None
    numbers = values.fill_null(0).to_numpy(zero_copy_only=False)
    bounds = np.iinfo(target.to_pandas_dtype())
    if numbers.dtype.kind == "f":
        fits = (np.floor(numbers) == numbers) & (numbers >= float(bounds.min)) & (numbers < float(int(bounds.max) + 1))
    else:
        own = np.iinfo(numbers.dtype)
        fits = (numbers >= max(bounds.min, own.min)) & (numbers <= min(bounds.max, own.max))
    bad: Mask = ~fits & valid_mask(values)
    return blank_bad(values, bad).cast(target), bad


def concat_or_empty(arrays: list[pa.Array], target: pa.DataType) -> pa.Array:
    return pa.concat_arrays(arrays) if arrays else pa.array([], target)


def attempt(values: pa.Array, kernels: tuple[Kernel, ...]) -> pa.Array | None:
    """Converts all values by the first kernel that accepts all of them; None if there is none."""
    for kernel in kernels:
        try:
            if len(values) > _PROBE:  # a failing cast costs far more than one that succeeds
                kernel(values.slice(0, _PROBE))
            return kernel(values)
        except _FAILURES:
            continue
    return None


def _by_parts(values: pa.Array, target: pa.DataType, kernels: tuple[Kernel, ...]) -> Converted:
    if len(values) == 1:
        return pa.nulls(1, target), np.ones(1, dtype=np.bool_)
    size = max(1, -(-len(values) // _PARTS))
    good: list[pa.Array] = []
    masks: list[Flags] = []
    for start in range(0, len(values), size):
        part = values.slice(start, size)
        whole = attempt(part, kernels)
        converted, bad = (whole, None) if whole is not None else _by_parts(part, target, kernels)
        good.append(converted)
        masks.append(np.zeros(len(part), dtype=np.bool_) if bad is None else bad)
    return concat_or_empty(good, target), concat_flags(masks) if masks else None


# Converts Arrow times to the declared timestamp: any unit, any zone, dates, and whole milliseconds.


_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_SECONDS_PER_DAY = 86_400
_FIRST_DAY, _AFTER_DAY = -719_162, 2_932_897
"""The days since 1970-01-01 of 0001-01-01 and of 10000-01-01."""


def from_timestamps(values: pa.Array, target: pa.DataType) -> Converted:
    """Returns a timestamp column in another unit or zone; a timestamp without a zone is taken to be in the zone of
    ``target``.

    A coarser unit truncates towards minus infinity (1.5 us -> 1 us, -0.5 us -> -1 us), and the time is flagged as cut.
    A time that the finer unit cannot represent is bad.
    """
    if values.type.tz is None and target.tz not in (None, "UTC"):
        moments, bad = from_timestamps(values, pa.timestamp(target.unit))
        return from_wall_times(moments, target), bad
    ticks_per_second, target_per_second = _PER_SECOND[values.type.unit], _PER_SECOND[target.unit]
    ticks = values.view(pa.int64())
    if ticks_per_second == target_per_second:
        return ticks.view(target), None
    if ticks_per_second > target_per_second:
        raw, factor = _ticks_as_numpy(ticks), ticks_per_second // target_per_second
        coarse = raw // factor
        return _with_type(coarse, ticks, target), flags_of_cut(coarse * factor != raw)
    return _multiply(ticks, target_per_second // ticks_per_second, target)


def from_wall_times(values: pa.Array, target: pa.DataType) -> pa.Array:
    """Returns timestamps without a zone as times in the zone of ``target``, or in UTC if it has none.

    A time that occurs twice is the first; a skipped time is read with the offset before the clock change.
    """
    if target.tz in (None, "UTC"):
        return values.view(pa.int64()).view(target)
    wall = _ticks_as_numpy(values.view(pa.int64()))
    scale = _PER_SECOND[target.unit]
    offsets = offsets_of_wall_times(wall // scale, target.tz)
    return _with_type(wall - offsets * scale, values.view(pa.int64()), target)


def from_milliseconds(values: pa.Array, target: pa.DataType) -> Converted:
    """Returns whole numbers, milliseconds since the epoch, as timestamps."""
    return from_timestamps(values.cast(pa.int64()).view(pa.timestamp("ms", "UTC")), target)


def from_dates(values: pa.Array, target: pa.DataType) -> Converted:
    """Returns dates as their midnight, in the zone of ``target``."""
    if pa.types.is_date64(values.type):
        return from_timestamps(values.view(pa.int64()).view(pa.timestamp("ms")), target)
    days = values.view(pa.int32()).cast(pa.int64())
    midnights, bad = _multiply(days, _SECONDS_PER_DAY * _PER_SECOND[target.unit], pa.timestamp(target.unit))
    return from_wall_times(midnights, target), bad


def within_calendar(values: pa.Array, bad: Flags | None = None) -> Converted:
    """Returns the values and a mask in which dates and timestamps outside the years 1 to 9999 are bad, because Python,
    SQL and ISO 8601 cannot represent them."""
    kind = values.type
    if pa.types.is_date32(kind):
        low, high, ticks = _FIRST_DAY, _AFTER_DAY, values.view(pa.int32())
    elif pa.types.is_timestamp(kind) or pa.types.is_date64(kind):
        scale = _SECONDS_PER_DAY * _PER_SECOND["ms" if pa.types.is_date64(kind) else kind.unit]
        low, high, ticks = _FIRST_DAY * scale, _AFTER_DAY * scale, values.view(pa.int64())
    else:
        return values, bad
    bounds = pc.min_max(ticks)
    if not bounds["min"].is_valid or (low <= bounds["min"].as_py() and bounds["max"].as_py() < high):
        return values, bad
    raw = _ticks_as_numpy(ticks)
    beyond: Mask = ((raw < low) | (raw > high - 1)) & valid_mask(values)
    return blank_bad(values, beyond), union_flags(bad, beyond)


def _multiply(ticks: pa.Array, factor: int, target: pa.DataType) -> Converted:
    with suppress(pa.ArrowInvalid):
        return pc.multiply_checked(ticks, pa.scalar(factor, pa.int64())).view(target), None
    raw = _ticks_as_numpy(ticks)
    most = np.iinfo(np.int64).max // factor
    beyond: Mask = (raw > most) | (raw < -most)
    beyond &= valid_mask(ticks)
    return _with_type(np.where(beyond, 0, raw) * factor, ticks, target, beyond), beyond


def _ticks_as_numpy(ticks: pa.Array) -> npt.NDArray[np.int64]:
    filled = ticks.fill_null(0) if ticks.null_count else ticks
    raw: npt.NDArray[np.int64] = filled.to_numpy(zero_copy_only=False)
    return raw


def _with_type(
    raw: npt.NDArray[np.int64], ticks: pa.Array, target: pa.DataType, beyond: Mask | None = None
) -> pa.Array:
    absent = ~valid_mask(ticks) if ticks.null_count else None
    if beyond is not None:
        absent = beyond if absent is None else absent | beyond
    return pa.array(raw, pa.int64(), mask=absent).view(target)


# Converts text to typed columns; the only module that defines how numbers and times may be spelled.
#
# - Whole numbers: ``3``, and other spellings of whole numbers: ``3.0``, ``1e2`` (and ``0x1F``). ``3.7`` is
#   bad.
# - Doubles: the nearest double; ``nan``, ``inf``, ``Infinity``. A number too large for the type is bad, not infinite.
# - Decimals: exact, or bad. Booleans: true, false, 1, 0. Dates: ``2024-05-01``, of the years 1 to 9999.
# - Timestamps: ISO 8601 and RFC 3339, a date and a time with a ``T`` or a space between them
#   (``2024-05-01T06:00:00.5``,
#   ``20240501T060000``), with or without a zone (``Z``, ``+02``, ``+0200``, ``+02:00``; none = that of the type, UTC).
#   Digits beyond the microsecond are truncated, towards minus infinity. A whole number is milliseconds since the epoch.
# - White space around any of these is ignored.


_DIGITS_OF_WHOLE = 38
_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_NUMBER = r"^\s*[+-]?\d+(\.\d*)?([eE][+-]?\d+)?\s*$"
_ZONED = r"[T ]\d\d.*(Z|[+-]\d\d(:?\d\d)?)\s*$"
_SHAPES: tuple[tuple[Callable[[pa.DataType], bool], str], ...] = (
    (pa.types.is_integer, r"^(-?0x[0-9a-f]+|[+-]?(\d+\.?0*|\.0+|[\d.]+e[+-]?\d+))$"),
    (pa.types.is_floating, r"^[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|inf(inity)?|nan.*)$"),
    (pa.types.is_decimal, r"^[+-]?[\d.]+(e[+-]?\d+)?$"),
    (pa.types.is_boolean, r"^(true|false|0|1)$"),
    (
        pa.types.is_temporal,
        r"^-?\d{4}-((0[13578]|1[02])-(0[1-9]|[12]\d|3[01])|(0[469]|11)-(0[1-9]|[12]\d|30)|02-(0[1-9]|[12]\d))",
    ),
)  # all convertible texts match, but not only these
_OTHER_SPELLINGS = (
    (r"^(\d{4})(\d\d)(\d\d)([Tt ])", r"\1-\2-\3\4"),
    (r"^(\d{4}-\d\d-\d\d)t", r"\1T"),
    (r"^(\d{4}-\d\d-\d\d[T ]\d\d)(\d\d)", r"\1:\2"),
    (r"^(\d{4}-\d\d-\d\d[T ]\d\d:\d\d)(\d\d)", r"\1:\2"),
    (r"^(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d),(\d)", r"\1.\2"),
    (r"^(\d{4}-\d\d-\d\d[T ].*)z$", r"\1Z"),
)
_SHORTEST_THAT_OVERFLOWS = 18
"""Characters of the shortest number that Arrow wraps: it reads ``0xFFFFFFFFFFFFFFFF`` as -1 of 64 bits."""
_HEX = r"^\s*-?0x[0-9a-f]+\s*$"
_BEYOND = 1 << 64
"""A number above every integer type. It stands for all greater ones, because Python writes no more than 4,300
digits."""
_INFINITE = r"^\s*[+-]?inf(inity)?\s*$"


def parse_text(values: pa.Array, target: pa.DataType) -> Converted:
    """Returns a string column as ``target``, a type for which ``convertible_text`` is true."""
    if pa.types.is_timestamp(target):
        return within_calendar(*_timestamps(values, target))
    if pa.types.is_floating(target):
        return _floats(values, target)
    if pa.types.is_decimal(target):
        return decimals(values, target)
    if pa.types.is_integer(target):
        return _integers(values, target)
    return within_calendar(*_convert_shaped(values, target, *_casts(target)))


def _casts(target: pa.DataType) -> tuple[Kernel, Kernel]:
    return lambda some: some.cast(target), lambda some: _trimmed(some).cast(target)


def decimals(values: pa.Array, target: pa.DataType) -> Converted:
    """Returns a string column as decimals; values that are not exact are bad."""
    whole = attempt(values, (partial(to_decimal, target=target),))
    if whole is not None:
        return whole, None
    before = target.precision - target.scale
    plain = rf"^[+-]?{rf'[0-9]{{1,{before}}}' if before > 0 else '0'}"
    plain += rf"(\.[0-9]{{0,{target.scale}}})?$" if target.scale > 0 else r"\.?$"
    spell = partial(plain_decimal, precision=target.precision, scale=target.scale)
    texts, bad = _numbers(values, target, plain if target.scale >= 0 else "^$", spell)
    return to_decimal(texts, target), bad


def _integers(values: pa.Array, target: pa.DataType) -> Converted:
    wide = target if pa.types.is_uint64(target) else pa.int64()
    if (pc.max(pc.binary_length(values)).as_py() or 0) >= _SHORTEST_THAT_OVERFLOWS:
        values = _without_hex(values)
    whole = attempt(values, _casts(wide))
    if whole is not None:
        return whole_numbers(whole, target)
    spell = partial(_spell_whole, bounds=np.iinfo(wide.to_pandas_dtype()))
    texts, bad = _numbers(_without_hex(values), wide, r"^[0-9]{1,18}$", spell)
    narrow, beyond = whole_numbers(texts.cast(wide), target)
    return narrow, union_flags(bad, beyond)


def _spell_whole(text: str, bounds: np.iinfo[Any]) -> str:
    number = int(plain_decimal(text, _DIGITS_OF_WHOLE, 0))
    if not bounds.min <= number <= bounds.max:
        raise pa.ArrowInvalid(f"{text[:50]!r} is out of range")
    return str(number)


def _numbers(values: pa.Array, target: pa.DataType, plain: str, spell: Callable[[str], str]) -> Converted:
    """Converts numbers in a spelling that a cast accepts: unchanged where ``plain`` is true, else in the spelling of
    ``spell``. Numbers for which ``spell`` raises ArrowInvalid are bad.

    So the cast never fails: finding many bad numbers one by one with casts would cost a hundred times as much.
    """
    texts = _trimmed(values)
    is_plain = pc.match_substring_regex(texts, plain).fill_null(True)
    hopeless = pc.invert(_has_shape(texts, target)).to_numpy(zero_copy_only=False)
    others = np.flatnonzero(~is_plain.to_numpy(zero_copy_only=False) & ~hopeless)
    bad: Mask = hopeless.copy()
    spelled: list[str | None] = []
    for at, text in zip(others.tolist(), texts.take(pa.array(others)).to_pylist(), strict=True):
        try:
            spelled.append(spell(text))
        except pa.ArrowInvalid:
            spelled.append(None)
            bad[at] = True
    if hopeless.any():
        texts = blank_bad(texts, hopeless)
    if len(others):
        replaced = np.zeros(len(texts), np.bool_)
        replaced[others] = True
        texts = pc.replace_with_mask(texts, pa.array(replaced), pa.array(spelled, pa.string()))
    return texts, bad if bad.any() else None


def _has_shape(texts: pa.Array, target: pa.DataType) -> pa.Array:
    shape = next(shape for is_kind, shape in _SHAPES if is_kind(target))
    return pc.match_substring_regex(texts, shape, ignore_case=True).fill_null(True)


def _without_hex(values: pa.Array) -> pa.Array:
    """Returns hexadecimal numbers as decimals, because Arrow reads ``0xFF`` as -1 of 8 bits."""
    found = pc.match_substring_regex(values, _HEX, ignore_case=True).fill_null(False)
    if not pc.any(found).as_py():
        return values
    texts = values.to_pylist()
    for at in np.flatnonzero(found.to_numpy(zero_copy_only=False)).tolist():
        texts[at] = str(min(max(int(texts[at], 16), -_BEYOND), _BEYOND))
    return pa.array(texts, values.type)


def parse_base64(values: pa.Array, target: pa.DataType) -> Converted:
    """Returns a string column of base64 as binary; padding is required."""
    return isolate(values, target, partial(_decode_base64, target=target))


def convertible_text(target: pa.DataType) -> bool:
    """True if text can be converted to this type."""
    kinds = pa.types
    written = (
        kinds.is_timestamp,
        kinds.is_date,
        kinds.is_boolean,
        kinds.is_integer,
        kinds.is_floating,
        kinds.is_decimal,
    )
    return any(is_kind(target) for is_kind in written)


def _decode_base64(values: pa.Array, target: pa.DataType) -> pa.Array:
    texts = values.to_pylist()
    return pa.array([None if text is None else base64.b64decode(text, validate=True) for text in texts], target)


def _trimmed(values: pa.Array) -> pa.Array:
    return pc.ascii_trim_whitespace(values)


def _convert_shaped(values: pa.Array, target: pa.DataType, *kernels: Kernel) -> Converted:
    """Converts by the kernels, after removing the values that do not have the shape of the type."""
    whole = attempt(values, kernels)
    if whole is not None:
        return whole, None
    hopeless = pc.invert(_has_shape(_trimmed(values), target)).to_numpy(zero_copy_only=False)
    if not hopeless.any():
        return isolate(values, target, *kernels)
    converted, bad = isolate(blank_bad(values, hopeless), target, *kernels)
    return converted, union_flags(hopeless, bad)


def _floats(values: pa.Array, target: pa.DataType) -> Converted:
    numbers, bad = _convert_shaped(
        values, target, lambda some: some.cast(target), lambda some: _trimmed(some).cast(target)
    )
    infinite = pc.is_inf(numbers).fill_null(False)
    if not pc.any(infinite).as_py():
        return numbers, bad
    named = pc.match_substring_regex(values, _INFINITE, ignore_case=True).fill_null(False)
    beyond = pc.and_not(infinite, named).to_numpy(zero_copy_only=False)
    return (blank_bad(numbers, beyond), union_flags(bad, beyond)) if beyond.any() else (numbers, bad)


def _timestamps(values: pa.Array, target: pa.DataType) -> Converted:
    naive, zoned = pa.timestamp(target.unit), pa.timestamp(target.unit, "UTC")
    whole = attempt(
        values, (partial(_cast_by, kind=naive, target=target), partial(_cast_by, kind=zoned, target=target))
    )
    if whole is not None:
        return whole, None
    values = _in_arrow_spelling(_trimmed(values))
    numeric = pc.match_substring_regex(values, _NUMBER).fill_null(False)
    with_zone = pc.match_substring_regex(values, _ZONED).fill_null(False)
    neither = pc.invert(pc.or_(numeric, with_zone))
    digits = _DIGITS[target.unit]
    finer = pc.match_substring_regex(values, rf"\.[0-9]{{{digits}}}[0-9]*[1-9]").fill_null(False)
    cut = _cut_fractions(values, digits)
    spelled = [
        _milliseconds(_only_chosen(values, numeric), target),
        _convert_spelled(_only_chosen(cut, with_zone), zoned, target),
        _convert_spelled(_only_chosen(cut, neither), naive, target),
    ]
    moments = pc.coalesce(*[some for some, _ in spelled])
    bad = union_flags(union_flags(spelled[0][1], spelled[1][1]), spelled[2][1])
    flags = union_flags(bad, flags_of_cut(pc.and_not(finer, numeric).to_numpy(zero_copy_only=False)))
    return moments, None if flags is None else flags_where(flags, valid_mask(values))


def _in_arrow_spelling(values: pa.Array) -> pa.Array:
    """Returns times in other spellings of ISO 8601 and RFC 3339 in Arrow's spelling: ``20240501T060000Z``, ``t`` and
    ``z``, and a comma before the fraction."""
    for pattern, extended in _OTHER_SPELLINGS:
        values = pc.replace_substring_regex(values, pattern, extended)
    return values


def _only_chosen(values: pa.Array, chosen: pa.Array) -> pa.Array:
    return pc.if_else(chosen, values, pa.scalar(None, values.type))


def _convert_spelled(values: pa.Array, kind: pa.DataType, target: pa.DataType) -> Converted:
    return _convert_shaped(values, target, partial(_cast_by, kind=kind, target=target))


def _cast_by(values: pa.Array, kind: pa.DataType, target: pa.DataType) -> pa.Array:
    moments = values.cast(kind)
    return from_wall_times(moments, target) if kind.tz is None else moments.view(pa.int64()).view(target)


def _milliseconds(values: pa.Array, target: pa.DataType) -> Converted:
    numbers, unreadable = parse_text(values, pa.int64())
    moments, beyond = from_milliseconds(numbers, target)
    return moments, union_flags(unreadable, beyond)


def _cut_fractions(values: pa.Array, digits: int) -> pa.Array:
    if not digits:
        return pc.replace_substring_regex(values, r"\.\d+", "")
    return pc.replace_substring_regex(values, rf"(\.\d{{{digits}}})\d+(Z|[+-]|$)", r"\1\2")


def with_full_stop(values: pa.Array, target: pa.DataType) -> pa.Array:
    """Returns numbers with a decimal comma in the spelling that ``parse_text`` reads; other texts unchanged.

    Full stops become a character that no number has, because ``1.234`` may mean one thousand or a little over one.
    """
    kinds = pa.types
    if not (kinds.is_floating(target) or kinds.is_decimal(target) or kinds.is_integer(target)):
        return values
    return pc.replace_substring(pc.replace_substring(values, ".", "?"), ",", ".")


def empty_is_null(values: pa.Array) -> pa.Array:
    """Returns null for empty text, for columns in which empty text can only mean null."""
    empty = pc.equal(values, "").fill_null(False)
    return blank_bad(values, np.asarray(empty.to_numpy(zero_copy_only=False))) if pc.any(empty).as_py() else values
