"""Arrow and NumPy columns in general: their order, hashes, rows and sizes."""

from __future__ import annotations

from collections.abc import MappingView
from contextlib import suppress
from copy import deepcopy
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windowing.errors import USER_EXCEPTIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


# The order of a queue: by time, and by arrival among equal times.


_MANY = 512
"""From this many keys on, two passes are faster."""


def is_sorted(keys: NDArray[np.int64]) -> bool:
    """True if the keys never decrease."""
    return bool((keys[1:] >= keys[:-1]).all())


def stable_order(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns the permutation that sorts the keys and keeps equal ones in their present order.

    Keys that lie close together are sorted by their lower and then by their upper 16 bits, which NumPy does in linear
    time: two to six times as fast as the other ways. Otherwise, if key and position fit into 63 bits together, they are
    sorted as one integer: faster than a stable argsort, because plain sorting of int64 is vectorised.
    """
    count = len(keys)
    if count < 2:
        return np.arange(count)
    low = int(keys.min())
    span = int(keys.max()) - low
    if span < 1 << 16:
        return _radix_order(keys - low)
    if span < 1 << 32 and count >= _MANY:
        close = (keys - low).astype(np.uint32)
        order = _radix_order(close)
        upper = close >> np.uint32(16)
        return order[_radix_order(upper[order])]
    bits = (count - 1).bit_length()
    if span >= 1 << (63 - bits):
        return np.argsort(keys, kind="stable")
    packed = ((keys - low) << bits) | np.arange(count)
    packed.sort()
    return packed & ((1 << bits) - 1)


def _radix_order(keys: NDArray[Any]) -> NDArray[np.int64]:
    """Returns the stable order by the lower 16 bits, for which NumPy has a radix sort."""
    return np.argsort(keys.astype(np.uint16), kind="stable")


def merged_order(parts: Sequence[NDArray[np.int64]]) -> NDArray[np.int64] | None:
    """Returns the permutation that merges parts by their keys, in order of (key, part, place); None if they are in
    order.

    Its numbers are indices into the concatenated parts.
    """
    keys = parts[0] if len(parts) == 1 else np.concatenate(parts)
    return None if is_sorted(keys) else stable_order(keys)


def hash_order(hashes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns the permutation that sorts hashes and keeps equal ones in their present order.

    Their upper bits are sorted with the position in place of the lower ones, as one integer; only where two hashes
    differ in nothing else is it done the slow way.
    """
    count = len(hashes)
    if count < 2:
        return np.arange(count)
    mask = (1 << (count - 1).bit_length()) - 1
    packed = (hashes & ~mask) | np.arange(count)
    packed.sort()
    order = packed & mask
    return order if is_sorted(hashes[order]) else np.argsort(hashes, kind="stable")


def order_within(groups: NDArray[np.int64], keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns the permutation that sorts by (group, key, position); groups are numbers from 0."""
    if not len(groups):
        return np.arange(0)
    low = int(keys.min())
    span = int(keys.max()) - low + 1
    if (int(groups.max()) + 1) * span < 1 << 62:
        return stable_order(groups * span + (keys - low))
    return np.lexsort((keys, groups))


def pair_order(first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns the permutation that sorts by (first, second, position)."""
    order = stable_order(second)
    return order[stable_order(first[order])]


def group_numbers(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns, for keys in order, the number of the group of equal keys that each is in, from 0."""
    numbers = np.zeros(len(keys), np.int64)
    np.cumsum(keys[1:] != keys[:-1], out=numbers[1:])
    return numbers


# Hashes of columns: of values, not of objects; the same on every machine and in every process.


_PRIME = np.uint64(1099511628211)
_SHORT, _FEW = 256, 32
"""Limits up to which values are short (in bytes) and lengths are few: then the values of one length are summed
together."""


def hash_bytes(array: pa.Array) -> NDArray[np.uint64]:
    """Returns the polynomial of each value of a column of large binaries, for all values at once; null counts as empty.

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
        result += _sums_of_equal_lengths(whole)
    else:
        for size in sizes:
            same = np.flatnonzero(lengths == size)
            result[same] += _sums_of_equal_lengths(data[offsets[same][:, None] + np.arange(size)])
    return result


def _few_sizes(lengths: NDArray[np.int64]) -> list[int] | None:
    """Returns the different lengths of short values, without zero; None if values are long, or of many lengths."""
    if int(lengths.max()) > _SHORT:
        return None
    sizes: list[int] = np.flatnonzero(np.bincount(lengths)).tolist()
    return [size for size in sizes if size] if len(sizes) <= _FEW else None


def _sums_of_equal_lengths(data: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Returns the sums of values that are rows of bytes, by Horner's rule: a pass over all values for each of their
    bytes."""
    sums = np.zeros(len(data), np.uint64)
    for column in data.T:
        sums *= _PRIME
        sums += column
        sums += np.uint64(1)
    return sums


def _of_any_size(data: NDArray[np.uint8], starts: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Returns the sums of values that lie one after another in ``data``, none of them empty."""
    low, high = int(starts[0]), int(starts[-1] + sizes[-1])
    numbers = data[low:high].astype(np.uint64) + np.uint64(1)
    following = np.repeat(starts + sizes - low, sizes) - 1 - np.arange(len(numbers))
    powers = np.ones(int(sizes.max()), np.uint64)
    powers[1:] = _PRIME
    np.multiply.accumulate(powers, out=powers)
    sums: NDArray[np.uint64] = np.add.reduceat(numbers * powers[following], starts - low)
    return sums


def mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Returns Splitmix64's finalizer of each value: all its bits depend on all bits of the value, and different values
    stay different."""
    with np.errstate(over="ignore"):
        mixed = values >> np.uint64(30)
        mixed ^= values
        mixed *= np.uint64(0xBF58476D1CE4E5B9)
        mixed ^= mixed >> np.uint64(27)
        mixed *= np.uint64(0x94D049BB133111EB)
        mixed ^= mixed >> np.uint64(31)
    return mixed


# Arrays as they are shown to code of users.


def read_only(values: NDArray[Any]) -> NDArray[Any]:
    """Returns a view that cannot be written to, because the array may be the engine's own."""
    view = values.view()
    view.flags.writeable = False
    return view


def make_read_only(shown: Any, *names: str) -> None:
    """Makes the arrays of these names in a frozen value read-only, unless they are None; called from its
    ``__post_init__``."""
    for name in names:
        values = getattr(shown, name)
        if values is not None:
            object.__setattr__(shown, name, read_only(values))


# Values as they are compared.


def as_compared(column: pa.Array) -> pa.Array:
    """Returns floating-point values as they are compared: 0.0 for -0.0, and one NaN for all, because a dictionary
    compares bits."""
    values = column.fill_null(0).to_numpy(zero_copy_only=False)
    odd = (values == 0) & np.signbit(values) | np.isnan(values)
    if not odd.any():
        return column
    values = np.where(np.isnan(values), values.dtype.type(np.nan), values + values.dtype.type(0))
    return pc.if_else(column.is_valid(), pa.array(values, column.type), pa.scalar(None, column.type))


# What code of users has made: columns over arrays of NumPy, say, into which it may write again, and lists that it keeps.


_FIXED = frozenset((str, int, float, bool, bytes, type(None), date, datetime, timedelta, Decimal))


def own_value(value: Any) -> Any:
    """Returns a copy of a value, which nobody else can change; the value itself if it cannot be changed. Of a tuple,
    such as a row, each value is copied."""
    kind = type(value)
    if kind is tuple:  # rows are many, and most of them are of plain values
        return value if _FIXED.issuperset(map(type, value)) else tuple(map(own_value, value))
    if kind in _FIXED or not hasattr(kind, "__len__"):
        return value
    if kind is list and _FIXED.issuperset(map(type, value)):
        return value[:]  # at a small part of the time
    if isinstance(value, pa.Table):
        return own_table(value)
    if isinstance(value, memoryview):
        return bytes(value)
    if isinstance(value, MappingView):  # of a dict: it shows what the dict has later
        return own_value(list(value))
    try:
        return deepcopy(value)
    except USER_EXCEPTIONS:
        return own_value(dict(value)) if isinstance(value, MappingProxyType) else value


_MOST_PIECES = 16
"""More pieces of a table are made one, which copies them as well."""


def own_column(column: pa.Array) -> pa.Array:
    """Returns a copy of a column, which nobody else can change."""
    return pa.concat_arrays([column, column.slice(0, 0)])


def own_table(table: pa.Table) -> pa.Table:
    """Returns a copy of a table, whose values nobody else can change."""
    if any(map(_has_dictionary, table.schema.types)):  # pieces put together would share it
        stream = pa.BufferOutputStream()
        with pa.ipc.new_stream(stream, table.schema) as writer:
            writer.write_table(table)
        return pa.ipc.open_stream(stream.getvalue()).read_all()
    pieces = table.to_batches()
    if len(pieces) > _MOST_PIECES:
        return own_table(table.combine_chunks())
    batches = [pa.concat_batches([batch, batch.slice(0, 0)]) for batch in pieces]
    return pa.Table.from_batches(batches, table.schema) if batches else table


def _has_dictionary(kind: pa.DataType) -> bool:
    inside = (kind.field(number).type for number in range(kind.num_fields)) if pa.types.is_nested(kind) else ()
    return pa.types.is_dictionary(kind) or any(map(_has_dictionary, inside))


# Takes rows from tables of any size.


_MOST = 1 << 31
"""Maximum size in bytes of a text column with 32-bit offsets in one piece; Arrow's ``take`` makes one piece of its
source."""
_VIEWS = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}
_WIDE = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}


def take_rows(table: pa.Table, indices: NDArray[np.int64]) -> pa.Table:
    """Returns the rows of a table at these indices. Columns of more than 2 GiB are returned in several pieces, since
    Arrow's own ``take`` would fail, as it does for views of texts."""
    if table.nbytes < _MOST:
        with suppress(pa.ArrowNotImplementedError):
            return table.take(pa.array(indices))
    columns = [_take_column(column, indices) for column in table.columns]
    return pa.Table.from_arrays(columns, schema=table.schema)


def _take_column(column: pa.ChunkedArray, indices: NDArray[np.int64]) -> pa.ChunkedArray:
    if column.type in _VIEWS:
        return _take_column(column.cast(_VIEWS[column.type]), indices).cast(column.type)
    wide = _WIDE.get(column.type)
    if wide is None or column.nbytes < _MOST:
        return column.take(pa.array(indices))
    source = column.cast(wide)
    lengths = pa.compute.binary_length(source).fill_null(0).to_numpy()[indices]
    parts = np.cumsum(lengths.astype(np.int64)) // (_MOST // 4)
    edges = [0, *(np.flatnonzero(np.diff(parts)) + 1).tolist(), len(indices)]
    pieces = [
        source.take(pa.array(indices[low:high])).combine_chunks().cast(column.type) for low, high in pairwise(edges)
    ]
    return pa.chunked_array(pieces, column.type)


# The size of each row of a table in bytes: strings and binaries by their length, other types by their Arrow width.


_kinds = pa.types


def byte_sizes(table: pa.Table) -> NDArray[np.int64]:
    """Returns the bytes of each row; their sum is at most ``table.nbytes`` plus one byte per row."""
    bits = np.zeros(table.num_rows, np.int64)
    for column in table.columns:
        bits += _bits(column)
    return -(-bits // 8)


def _bits(column: Any) -> NDArray[np.int64]:
    if isinstance(column, pa.ChunkedArray):
        return np.concatenate([np.zeros(0, np.int64), *(_bits(chunk) for chunk in column.chunks)])
    kind = column.type
    if isinstance(column, pa.ExtensionArray):
        return _bits(column.storage)
    if _kinds.is_string_view(kind) or _kinds.is_binary_view(kind):
        column = column.cast(pa.large_binary() if _kinds.is_binary_view(kind) else pa.large_string())
        kind = column.type
    if _kinds.is_string(kind) or _kinds.is_binary(kind) or _kinds.is_large_string(kind) or _kinds.is_large_binary(kind):
        return 8 * _whole(pc.binary_length(column))
    if _kinds.is_map(kind):
        column = column.cast(pa.list_(pa.struct([("key", kind.key_type), ("value", kind.item_type)])))
        kind = column.type
    if _kinds.is_list(kind) or _kinds.is_large_list(kind) or _kinds.is_fixed_size_list(kind):
        if _kinds.is_fixed_size_list(kind):
            lengths = column.is_valid().to_numpy(zero_copy_only=False) * np.int64(kind.list_size)
        else:
            lengths = _whole(pc.list_value_length(column))
        inner = np.concatenate([[0], np.cumsum(_bits(pc.list_flatten(column)))])
        bits: NDArray[np.int64] = np.diff(inner[np.concatenate([[0], np.cumsum(lengths)])])
        return bits
    if _kinds.is_struct(kind):
        return sum((_bits(child) for child in column.flatten()), np.zeros(len(column), np.int64))
    return np.full(len(column), 0 if _kinds.is_null(kind) else kind.bit_width, np.int64)


def _whole(lengths: pa.Array) -> NDArray[np.int64]:
    whole: NDArray[np.int64] = lengths.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    return whole
