"""Text and decimals as decimals of another type, exactly or not at all.

Arrow's own casts multiply by a power of ten for the difference of the scales, in as many bits as the type has, and
check neither that the product fits (``68127108`` as decimal(37, 32) is 70634.6158...) nor that their table of powers
goes so far: ``1E-9999999`` ends the process, ``1E-100`` reads what lies behind the table. So a cast goes by way of 256
bits, where every product of two numbers of 38 digits fits, and what is longer is brought into the scale of the type
first.
"""

from __future__ import annotations

import re
from decimal import Decimal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_MOST = {128: 38, 256: 76}
"""Digits of the types, by their bits."""
_LONGEST = 38
"""Characters of a text of which 256 bits hold every multiple that a scale asks for."""
_NUMBER = re.compile(r"[+-]?(?P<whole>\d*)\.?(?P<part>\d*)(?:[eE](?P<exponent>[+-]?\d+))?", re.ASCII)
_EXPONENT = 20
"""Digits of an exponent beyond which a number other than 0 is not a decimal of any type."""


def to_decimal(values: pa.Array, target: pa.DataType) -> pa.Array:
    """A string column as a type of decimals; ArrowInvalid where one is not exactly such a decimal."""
    doubtful = _doubtful(values, target)
    if len(doubtful):
        texts = values.to_pylist()
        for at in doubtful.tolist():
            texts[at] = in_scale(texts[at], target.precision, target.scale)
        values = pa.array(texts, pa.string())
    return values.cast(_wide(target)).cast(target)


def rescaled(values: pa.Array, target: pa.DataType) -> pa.Array:
    """A column of decimals as another type of decimals; ArrowInvalid where one is not exactly such a decimal."""
    source = values.type
    if source.precision + max(target.scale - source.scale, 0) <= _MOST[256]:
        return values.cast(_wide(target)).cast(target)
    return to_decimal(
        pa.array([None if one is None else f"{one:f}" for one in values.to_pylist()], pa.string()), target
    )


def _wide(target: pa.DataType) -> pa.DataType:
    return pa.decimal256(_MOST[256], target.scale)


def in_scale(text: str, precision: int, scale: int) -> str:
    """The decimal without an exponent, and with no more places than the type has. Raises ArrowInvalid where
    that is not possible."""
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
    """A number that Arrow may make a decimal of; ArrowInvalid where it has more places than any has."""
    places = value.as_tuple().exponent
    if not isinstance(places, int) or places >= -_MOST[256]:
        return value
    if value:
        raise pa.ArrowInvalid(f"{str(value)[:50]} has more places than a decimal can have")
    return Decimal()


def _doubtful(values: pa.Array, target: pa.DataType) -> npt.NDArray[np.int64]:
    """The places of the texts that are long, or may have an exponent."""
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
