"""Types that Arrow's JSON reader is trusted with, and what it has read as the types that are declared."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from topologies.io.formats.isolate import Mask, either, valid
from topologies.io.formats.lines.arrow_times import from_milliseconds, within_calendar
from topologies.io.formats.lines.text import parse_base64, parse_text

_EXACT = 2**53 - 1  # the largest whole number to which no other is rounded
_kinds = pa.types


def readable(kind: pa.DataType) -> bool:
    """Whether Arrow's JSON reader is reliable for a type, reading some types as text."""
    if _kinds.is_list(kind):
        return _trusted(kind.value_type)
    if _kinds.is_struct(kind):
        return kind.num_fields > 0 and all(_trusted(field.type) for field in kind)
    return read_as_text(kind) or _trusted(kind)


def _trusted(kind: pa.DataType) -> bool:
    if _kinds.is_list(kind) or _kinds.is_struct(kind):
        return readable(kind) and not read_as_text(kind)
    return bool(
        kind == pa.string()
        or _kinds.is_boolean(kind)
        or _kinds.is_signed_integer(kind)
        or _kinds.is_decimal128(kind)
        or kind in (pa.float32(), pa.float64())
    )


def holds_decimals(kind: pa.DataType) -> bool:
    if _kinds.is_nested(kind):
        return any(holds_decimals(kind.field(index).type) for index in range(kind.num_fields))
    return bool(_kinds.is_decimal(kind))


def read_as_text(kind: pa.DataType) -> bool:
    return bool(_kinds.is_timestamp(kind) or _kinds.is_date(kind) or _kinds.is_binary(kind))


def typed(column: pa.ChunkedArray, target: pa.DataType) -> tuple[pa.ChunkedArray, Mask | None]:
    """A column that Arrow read, converted to its declared type, and a mask of the rows that it may have misread."""
    values = column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)
    if values.type == target:
        return column, _infinite(values)
    if _kinds.is_floating(values.type):
        return _narrowed(values, target)
    if _kinds.is_integer(values.type):
        typed, bad = within_calendar(*from_milliseconds(values, target))
    else:
        typed, bad = (parse_base64 if _kinds.is_binary(target) else parse_text)(values, target)
    return pa.chunked_array([typed], target), bad


def wider(kind: pa.DataType) -> pa.DataType:
    return pa.float64() if _kinds.is_integer(kind) else kind


def _narrowed(values: pa.Array, target: pa.DataType) -> tuple[pa.ChunkedArray, Mask | None]:
    """Whole numbers that were read as doubles; values that a double may have changed are doubtful, and null."""
    numbers = values.fill_null(0).to_numpy(zero_copy_only=False)
    limit = _EXACT if _kinds.is_timestamp(target) else min(_EXACT, 2 ** (target.bit_width - 1) - 1)
    with np.errstate(invalid="ignore"):
        doubtful: Mask = ~((np.abs(numbers) <= limit) & (np.floor(numbers) == numbers))
    doubtful |= (numbers == 0) & valid(values)  # 1E-400 is not whole, yet it is 0 as a double
    whole = np.where(doubtful, 0, numbers).astype(np.int64)
    exact = pa.array(whole, pa.int64(), mask=doubtful | ~valid(values))
    if _kinds.is_timestamp(target):
        typed, beyond = within_calendar(*from_milliseconds(exact, target))
    else:
        typed, beyond = exact.cast(target), None
    return pa.chunked_array([typed], target), either(doubtful if doubtful.any() else None, beyond)


def _infinite(values: pa.Array) -> Mask | None:
    """Mask of infinities, which Arrow also makes of numbers that are too large."""
    if _kinds.is_floating(values.type):
        infinite = pc.is_inf(values).fill_null(False)
        return infinite.to_numpy(zero_copy_only=False) if pc.any(infinite).as_py() else None
    if not _kinds.is_nested(values.type):
        return None
    children = [values.values] if _kinds.is_list(values.type) else values.flatten()
    if all(_infinite(child) is None for child in children):
        return None
    return np.ones(len(values), dtype=np.bool_)
