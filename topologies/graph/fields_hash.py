"""The hash of the fields grouping: of values, not of objects; the same on every machine and in every process.

Per value a 64-bit integer:

- whole numbers of any width, booleans (0, 1), dates (days) and times (microseconds, UTC): the number itself;
- floating point of any width: the bits of the double; all NaN are one value, and so are 0.0 and -0.0;
- texts and binaries: the length, plus the sum over the bytes of (byte + 1) * 1099511628211 ** (bytes that follow);
- null: 0x9E3779B97F4A7C15;
- structs: 0, and then each field from the left as several fields are combined;
- a dictionary-encoded column counts as the values it stands for; every other type as the text that Arrow casts it to.

All arithmetic is modulo 2 ** 64. Each is then mixed by splitmix64's finalizer; several fields are combined, from the
left, by ``mix(h * 31 + next)``. The task is the hash modulo the parallelism.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windowing.data.hashing import hash_bytes, mix

if TYPE_CHECKING:
    from numpy.typing import NDArray

_NULL = np.uint64(0x9E3779B97F4A7C15)


def hash_rows(table: pa.Table, fields: Sequence[str]) -> NDArray[np.uint64]:
    """The hash of the named fields, one uint64 per row."""
    with np.errstate(over="ignore"):
        hashes = _hash_column(table.column(fields[0]))
        for field in fields[1:]:
            hashes = mix(hashes * np.uint64(31) + _hash_column(table.column(field)))
    return hashes


def hashed_as(kind: pa.DataType) -> Any:
    """A value for a type, equal for two types where equal values of the two have the same hash."""
    if pa.types.is_dictionary(kind):
        return hashed_as(kind.value_type)
    if pa.types.is_struct(kind):
        return tuple(hashed_as(field.type) for field in kind)
    for name, belongs in _HASHED_ALIKE.items():
        if any(of_kind(kind) for of_kind in belongs):
            return name
    return kind


def comparable(column: pa.ChunkedArray) -> pa.Array:
    """Numbers or bytes that are equal just where the values of a column are equal for the hash."""
    array = _combined(column)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if is_one_to_one(array.type):
        return pa.array(_values(array), mask=pc.is_null(array).to_numpy(zero_copy_only=False))
    return (array if _is_bytes(array.type) else _as_text(_with_one_zero(array))).cast(pa.large_binary())


def value_codes(columns: Sequence[pa.Array]) -> tuple[NDArray[np.int64], int]:
    """A number for each row, equal where all columns are; and how many different ones there are."""
    codes, below = np.zeros(len(columns[0]), np.int64), 1
    for column in columns:
        encoded = column.dictionary_encode(null_encoding="encode")
        if below * len(encoded.dictionary) >= 1 << 62:
            _, codes = np.unique(codes, return_inverse=True)
            below = int(codes.max()) + 1
        codes = codes * len(encoded.dictionary) + encoded.indices.to_numpy(zero_copy_only=False)
        below *= len(encoded.dictionary)
    return codes, below if len(columns) == 1 else pc.count_distinct(pa.array(codes)).as_py()


def is_one_to_one(kind: pa.DataType) -> bool:
    """Whether different values of a type have different hashes."""
    numbers = pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_floating(kind)
    return bool(numbers or pa.types.is_timestamp(kind) or pa.types.is_date(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    small = pa.types.is_binary(kind) or pa.types.is_string(kind)
    return bool(small or pa.types.is_large_binary(kind) or pa.types.is_large_string(kind))


_types = pa.types
_HASHED_ALIKE = {
    "whole numbers": (_types.is_integer, _types.is_boolean),
    "floating point": (_types.is_floating,),
    "times": (_types.is_timestamp,),
    "dates": (_types.is_date,),
    "texts": (_is_bytes, _types.is_string_view),
}


def _combined(column: pa.ChunkedArray) -> pa.Array:
    array = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], column.type)
    return array


def _hash_column(column: pa.ChunkedArray) -> NDArray[np.uint64]:
    array = _combined(column)
    if not pa.types.is_dictionary(array.type):
        return _hash_array(array)
    hashes = np.append(_hash_array(array.dictionary), mix(np.array([_NULL])))
    codes: NDArray[Any] = array.indices.cast(pa.int64()).fill_null(len(array.dictionary)).to_numpy(zero_copy_only=False)
    result: NDArray[np.uint64] = hashes[codes]
    return result


def _hash_array(array: pa.Array) -> NDArray[np.uint64]:
    mixed = _hash_struct(array) if pa.types.is_struct(array.type) else mix(_values(array))
    if array.null_count:
        valid = pc.is_valid(array).to_numpy(zero_copy_only=False)
        mixed = np.where(valid, mixed, mix(np.array([_NULL])))
    return mixed


def _hash_struct(array: pa.Array) -> NDArray[np.uint64]:
    hashes = np.zeros(len(array), np.uint64)
    for field in array.flatten():
        hashes = mix(hashes * np.uint64(31) + _hash_column(pa.chunked_array([field])))
    return hashes


def _with_one_zero(array: pa.Array) -> pa.Array:
    """A struct with 0.0 for -0.0 in its fields, which have one hash; other types, of whose text the hash is, as they
    are."""
    if not pa.types.is_struct(array.type):
        return array
    parts = [pc.add(part, 0.0) if pa.types.is_floating(part.type) else _with_one_zero(part) for part in array.flatten()]
    return pa.StructArray.from_arrays(parts, [field.name for field in array.type], mask=pc.is_null(array))


def _values(array: pa.Array) -> NDArray[np.uint64]:
    kind = array.type
    if pa.types.is_integer(kind):
        numbers: NDArray[Any] = array.fill_null(0).to_numpy(zero_copy_only=False)
        return numbers.astype(np.uint64) if kind == pa.uint64() else numbers.astype(np.int64).view(np.uint64)
    if pa.types.is_boolean(kind):
        flags: NDArray[np.bool_] = array.fill_null(False).to_numpy(zero_copy_only=False)
        return flags.astype(np.uint64)
    if pa.types.is_floating(kind):
        doubles = array.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False) + 0.0
        return np.where(np.isnan(doubles), np.nan, doubles).view(np.uint64)
    if pa.types.is_timestamp(kind):
        return _values(array.cast(pa.timestamp("us", tz=kind.tz), safe=False).cast(pa.int64()))
    if pa.types.is_date(kind):
        return _values(array.cast(pa.date32()).cast(pa.int32()))
    if _is_bytes(kind):
        return hash_bytes(array.cast(pa.large_binary()))
    return hash_bytes(_as_text(array).cast(pa.large_binary()))


def _as_text(array: pa.Array) -> pa.Array:
    try:
        return array.cast(pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return pa.array([None if value is None else str(value) for value in array.to_pylist()], pa.string())
