"""Hashes of columns: of values, not of objects; the same on every machine and in every process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from numpy.typing import NDArray

_PRIME = np.uint64(1099511628211)
_SHORT, _FEW = 256, 32
"""Up to how many bytes values are short, and how many lengths are few: then those of one length are summed together."""


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
    data = np.frombuffer(data_buffer, np.uint8)
    sizes = _few_sizes(lengths)
    if sizes is None:
        filled_in = np.flatnonzero(lengths)
        result[filled_in] += _of_any_size(data, offsets[:-1][filled_in], lengths[filled_in])
    elif len(sizes) == 1 and lengths.all():
        whole = data[offsets[0] : offsets[-1]].reshape(len(lengths), -1)
        result += _of_one_size(whole)
    else:
        for size in sizes:
            same = np.flatnonzero(lengths == size)
            result[same] += _of_one_size(data[offsets[same][:, None] + np.arange(size)])
    return result


def _few_sizes(lengths: NDArray[np.int64]) -> list[int] | None:
    """The different lengths of short values, without zero; None where values are long, or of many lengths."""
    if int(lengths.max()) > _SHORT:
        return None
    sizes: list[int] = np.flatnonzero(np.bincount(lengths)).tolist()
    return [size for size in sizes if size] if len(sizes) <= _FEW else None


def _of_one_size(data: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """The sums of values that are rows of bytes, by Horner's rule: a pass over all values for each of their bytes."""
    sums = np.zeros(len(data), np.uint64)
    for column in data.T:
        sums *= _PRIME
        sums += column
        sums += np.uint64(1)
    return sums


def _of_any_size(data: NDArray[np.uint8], starts: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.uint64]:
    """The sums of values that lie one after another in ``data``, none of them empty."""
    low, high = int(starts[0]), int(starts[-1] + sizes[-1])
    numbers = data[low:high].astype(np.uint64) + np.uint64(1)
    following = np.repeat(starts + sizes - low, sizes) - 1 - np.arange(len(numbers))
    powers = np.ones(int(sizes.max()), np.uint64)
    powers[1:] = _PRIME
    np.multiply.accumulate(powers, out=powers)
    sums: NDArray[np.uint64] = np.add.reduceat(numbers * powers[following], starts - low)
    return sums


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
