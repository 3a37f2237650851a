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


def _hash_column(column: pa.ChunkedArray) -> NDArray[np.uint64]:
    array = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], column.type)
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
    if pa.types.is_binary(kind) or pa.types.is_string(kind):
        return hash_bytes(array.cast(pa.large_binary()))
    if pa.types.is_large_binary(kind) or pa.types.is_large_string(kind):
        return hash_bytes(array.cast(pa.large_binary()))
    return hash_bytes(_as_text(array).cast(pa.large_binary()))


def _as_text(array: pa.Array) -> pa.Array:
    try:
        return array.cast(pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return pa.array([None if value is None else str(value) for value in array.to_pylist()], pa.string())
