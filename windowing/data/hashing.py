"""Hashes of columns: of values, not of objects; the same on every machine and in every process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from numpy.typing import NDArray

_PRIME = np.uint64(1099511628211)


def hash_bytes(array: pa.Array) -> NDArray[np.uint64]:
    """The polynomial of each value of a column of large binaries, for all values at once; null counts as empty.

    The length, plus the sum over the bytes of (byte + 1) * 1099511628211 ** (bytes that follow), modulo 2 ** 64.
    """
    if not len(array):
        return np.zeros(0, np.uint64)
    filled = array.fill_null(b"")
    _, offset_buffer, data_buffer = filled.buffers()
    offsets = np.frombuffer(offset_buffer, np.int64)[filled.offset : filled.offset + len(filled) + 1]
    lengths = np.diff(offsets)
    result = lengths.astype(np.uint64)
    if not lengths.any():
        return result
    data = np.frombuffer(data_buffer, np.uint8)[offsets[0] : offsets[-1]].astype(np.uint64) + np.uint64(1)
    filled_in = np.flatnonzero(lengths)
    sizes = lengths[filled_in]
    following = np.repeat(offsets[1:][filled_in] - offsets[0], sizes) - 1 - np.arange(len(data))
    powers = np.ones(int(sizes.max()), np.uint64)
    powers[1:] = _PRIME
    np.multiply.accumulate(powers, out=powers)
    result[filled_in] += np.add.reduceat(data * powers[following], offsets[:-1][filled_in] - offsets[0])
    return result


def mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Splitmix64's finalizer: numbers whose bits all depend on all bits of the given ones, each another one."""
    with np.errstate(over="ignore"):
        mixed = values >> np.uint64(30)
        mixed ^= values
        mixed *= np.uint64(0xBF58476D1CE4E5B9)
        mixed ^= mixed >> np.uint64(27)
        mixed *= np.uint64(0x94D049BB133111EB)
        mixed ^= mixed >> np.uint64(31)
    return mixed
