"""Converts text to typed columns; the only module that defines how numbers and times may be spelled.

- Whole numbers: ``3``, and other spellings of whole numbers: ``3.0``, ``1e2`` (and ``0x1F``). ``3.7`` is
  bad.
- Doubles: the nearest double; ``nan``, ``inf``, ``Infinity``. A number too large for the type is bad, not infinite.
- Decimals: exact, or bad. Booleans: true, false, 1, 0. Dates: ``2024-05-01``, of the years 1 to 9999.
- Timestamps: ISO 8601 and RFC 3339, a date and a time with a ``T`` or a space between them (``2024-05-01T06:00:00.5``,
  ``20240501T060000``), with or without a zone (``Z``, ``+02``, ``+0200``, ``+02:00``; none = that of the type, UTC).
  Digits beyond the microsecond are truncated, towards minus infinity. A whole number is milliseconds since the epoch.
- White space around any of these is ignored.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from topologies.io.formats.arrow_times import from_milliseconds, from_wall_times, within_calendar
from topologies.io.formats.isolate import (
    Converted,
    Kernel,
    Mask,
    attempt,
    blank,
    either,
    flagged,
    isolate,
    valid,
    where,
    whole_numbers,
)
from windowing.data.decimals import in_scale, to_decimal

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
)  # whatever can be converted matches one of these, but not vice versa
_OTHER_SPELLINGS = (
    (r"^(\d{4})(\d\d)(\d\d)([Tt ])", r"\1-\2-\3\4"),
    (r"^(\d{4}-\d\d-\d\d)t", r"\1T"),
    (r"^(\d{4}-\d\d-\d\d[T ]\d\d)(\d\d)", r"\1:\2"),
    (r"^(\d{4}-\d\d-\d\d[T ]\d\d:\d\d)(\d\d)", r"\1:\2"),
    (r"^(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d),(\d)", r"\1.\2"),
    (r"^(\d{4}-\d\d-\d\d[T ].*)z$", r"\1Z"),
)
_HEX = r"^\s*-?0x[0-9a-f]+\s*$"
_INFINITE = r"^\s*[+-]?inf(inity)?\s*$"


def parse_text(values: pa.Array, target: pa.DataType) -> Converted:
    """A string column as ``target``; ``convertible_text`` says which targets there are."""
    if pa.types.is_timestamp(target):
        return within_calendar(*_timestamps(values, target))
    if pa.types.is_floating(target):
        return _floats(values, target)
    if pa.types.is_decimal(target):
        return decimals(values, target)
    if pa.types.is_integer(target):
        return _integers(values, target)
    return within_calendar(*_shaped(values, target, *_casts(target)))


def _casts(target: pa.DataType) -> tuple[Kernel, Kernel]:
    return lambda some: some.cast(target), lambda some: _trimmed(some).cast(target)


def decimals(values: pa.Array, target: pa.DataType) -> Converted:
    """A string column as decimals: exactly, or bad."""
    whole = attempt(values, (partial(to_decimal, target=target),))
    if whole is not None:
        return whole, None
    before = target.precision - target.scale
    plain = rf"^[+-]?{rf'[0-9]{{1,{before}}}' if before > 0 else '0'}"
    plain += rf"(\.[0-9]{{0,{target.scale}}})?$" if target.scale > 0 else r"\.?$"
    spell = partial(in_scale, precision=target.precision, scale=target.scale)
    texts, bad = _numbers(values, target, plain if target.scale >= 0 else "^$", spell)
    return to_decimal(texts, target), bad


def _integers(values: pa.Array, target: pa.DataType) -> Converted:
    wide = target if pa.types.is_uint64(target) else pa.int64()
    whole = attempt(values, _casts(wide))
    if whole is not None:
        return whole_numbers(whole, target)
    spell = partial(_whole, bounds=np.iinfo(wide.to_pandas_dtype()))
    texts, bad = _numbers(_without_hex(values), wide, r"^[0-9]{1,18}$", spell)
    narrow, beyond = whole_numbers(texts.cast(wide), target)
    return narrow, either(bad, beyond)


def _whole(text: str, bounds: np.iinfo[Any]) -> str:
    number = int(in_scale(text, _DIGITS_OF_WHOLE, 0))
    if not bounds.min <= number <= bounds.max:
        raise pa.ArrowInvalid(f"{text[:50]!r} is out of range")
    return str(number)


def _numbers(values: pa.Array, target: pa.DataType, plain: str, spell: Callable[[str], str]) -> Converted:
    """Numbers in a spelling that a cast accepts: as they are where they are ``plain``, else as ``spell`` has them; bad
    are those for which it raises ArrowInvalid.

    Nothing is then left to fail in the cast: to find each of many bad numbers by casts costs a hundred times as much.
    """
    texts = _trimmed(values)
    settled = pc.match_substring_regex(texts, plain).fill_null(True)
    hopeless = pc.invert(_has_shape(texts, target)).to_numpy(zero_copy_only=False)
    odd = np.flatnonzero(~settled.to_numpy(zero_copy_only=False) & ~hopeless)
    bad: Mask = hopeless.copy()
    spelled: list[str | None] = []
    for at, text in zip(odd.tolist(), texts.take(pa.array(odd)).to_pylist(), strict=True):
        try:
            spelled.append(spell(text))
        except pa.ArrowInvalid:
            spelled.append(None)
            bad[at] = True
    if hopeless.any():
        texts = blank(texts, hopeless)
    if len(odd):
        replaced = np.zeros(len(texts), np.bool_)
        replaced[odd] = True
        texts = pc.replace_with_mask(texts, pa.array(replaced), pa.array(spelled, pa.string()))
    return texts, bad if bad.any() else None


def _has_shape(texts: pa.Array, target: pa.DataType) -> pa.Array:
    shape = next(shape for is_kind, shape in _SHAPES if is_kind(target))
    return pc.match_substring_regex(texts, shape, ignore_case=True).fill_null(True)


def _without_hex(values: pa.Array) -> pa.Array:
    """Hexadecimal numbers as decimal ones: Arrow takes ``0xFF`` for -1 of 8 bits."""
    found = pc.match_substring_regex(values, _HEX, ignore_case=True).fill_null(False)
    if not pc.any(found).as_py():
        return values
    texts = values.to_pylist()
    for at in np.flatnonzero(found.to_numpy(zero_copy_only=False)).tolist():
        texts[at] = str(int(texts[at], 16))
    return pa.array(texts, values.type)


def parse_base64(values: pa.Array, target: pa.DataType) -> Converted:
    """A string column of base64 as binary; it must be strict base64, with its padding."""
    return isolate(values, target, partial(_decoded, target=target))


def convertible_text(target: pa.DataType) -> bool:
    """Whether text may be a value of the type."""
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


def _decoded(values: pa.Array, target: pa.DataType) -> pa.Array:
    texts = values.to_pylist()
    return pa.array([None if text is None else base64.b64decode(text, validate=True) for text in texts], target)


def _trimmed(values: pa.Array) -> pa.Array:
    return pc.ascii_trim_whitespace(values)


def _shaped(values: pa.Array, target: pa.DataType, *kernels: Kernel) -> Converted:
    """Convert by the kernels, after removing at once the values that do not even have the shape of the type."""
    whole = attempt(values, kernels)
    if whole is not None:
        return whole, None
    hopeless = pc.invert(_has_shape(_trimmed(values), target)).to_numpy(zero_copy_only=False)
    if not hopeless.any():
        return isolate(values, target, *kernels)
    converted, bad = isolate(blank(values, hopeless), target, *kernels)
    return converted, either(hopeless, bad)


def _floats(values: pa.Array, target: pa.DataType) -> Converted:
    numbers, bad = _shaped(values, target, lambda some: some.cast(target), lambda some: _trimmed(some).cast(target))
    infinite = pc.is_inf(numbers).fill_null(False)
    if not pc.any(infinite).as_py():
        return numbers, bad
    named = pc.match_substring_regex(values, _INFINITE, ignore_case=True).fill_null(False)
    beyond = pc.and_not(infinite, named).to_numpy(zero_copy_only=False)
    return (blank(numbers, beyond), either(bad, beyond)) if beyond.any() else (numbers, bad)


def _timestamps(values: pa.Array, target: pa.DataType) -> Converted:
    naive, zoned = pa.timestamp(target.unit), pa.timestamp(target.unit, "UTC")
    whole = attempt(
        values, (partial(_cast_by, kind=naive, target=target), partial(_cast_by, kind=zoned, target=target))
    )
    if whole is not None:
        return whole, None
    values = _extended(_trimmed(values))
    numeric = pc.match_substring_regex(values, _NUMBER).fill_null(False)
    with_zone = pc.match_substring_regex(values, _ZONED).fill_null(False)
    neither = pc.invert(pc.or_(numeric, with_zone))
    digits = _DIGITS[target.unit]
    finer = pc.match_substring_regex(values, rf"\.[0-9]{{{digits}}}[0-9]*[1-9]").fill_null(False)
    cut = _cut_fractions(values, digits)
    spelled = [
        _milliseconds(_only(values, numeric), target),
        _spelled(_only(cut, with_zone), zoned, target),
        _spelled(_only(cut, neither), naive, target),
    ]
    moments = pc.coalesce(*[some for some, _ in spelled])
    bad = either(either(spelled[0][1], spelled[1][1]), spelled[2][1])
    flags = either(bad, flagged(pc.and_not(finer, numeric).to_numpy(zero_copy_only=False)))
    return moments, None if flags is None else where(flags, valid(values))


def _extended(values: pa.Array) -> pa.Array:
    """Times in other spellings of ISO 8601 and RFC 3339 as Arrow reads them: ``20240501T060000Z``, ``t`` and ``z``, and
    a comma before the fraction."""
    for pattern, extended in _OTHER_SPELLINGS:
        values = pc.replace_substring_regex(values, pattern, extended)
    return values


def _only(values: pa.Array, chosen: pa.Array) -> pa.Array:
    return pc.if_else(chosen, values, pa.scalar(None, values.type))


def _spelled(values: pa.Array, kind: pa.DataType, target: pa.DataType) -> Converted:
    return _shaped(values, target, partial(_cast_by, kind=kind, target=target))


def _cast_by(values: pa.Array, kind: pa.DataType, target: pa.DataType) -> pa.Array:
    moments = values.cast(kind)
    return from_wall_times(moments, target) if kind.tz is None else moments.view(pa.int64()).view(target)


def _milliseconds(values: pa.Array, target: pa.DataType) -> Converted:
    numbers, unreadable = parse_text(values, pa.int64())
    moments, beyond = from_milliseconds(numbers, target)
    return moments, either(unreadable, beyond)


def _cut_fractions(values: pa.Array, digits: int) -> pa.Array:
    if not digits:
        return pc.replace_substring_regex(values, r"\.\d+", "")
    return pc.replace_substring_regex(values, rf"(\.\d{{{digits}}})\d+(Z|[+-]|$)", r"\1\2")


def with_full_stop(values: pa.Array, target: pa.DataType) -> pa.Array:
    """Numbers that are written with a decimal comma, as ``parse_text`` reads them; others as they are.

    Full stops become what no number has: ``1.234`` may be one thousand or one and a bit.
    """
    kinds = pa.types
    if not (kinds.is_floating(target) or kinds.is_decimal(target) or kinds.is_integer(target)):
        return values
    return pc.replace_substring(pc.replace_substring(values, ".", "?"), ",", ".")


def empty_is_null(values: pa.Array) -> pa.Array:
    """Empty text as null, for columns in which it can mean nothing else."""
    empty = pc.equal(values, "").fill_null(False)
    return blank(values, np.asarray(empty.to_numpy(zero_copy_only=False))) if pc.any(empty).as_py() else values
