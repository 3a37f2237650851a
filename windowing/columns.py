"""Functions on Arrow and NumPy columns: sorting, hashing, copying, taking rows, sizes in bytes."""

from __future__ import annotations

from collections.abc import ItemsView, KeysView, ValuesView
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

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


# Stable orders.


_LEAST_FOR_TWO_SORTS = 512
"""Number of keys from which on two radix sorts of 16 bits are faster than one sort of 64 bits."""


def is_sorted(keys: NDArray[np.int64]) -> bool:
    """True if the keys never decrease."""
    return bool((keys[1:] >= keys[:-1]).all())


def stable_order(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns the permutation that sorts the keys and keeps equal keys in their present order.

    Keys that lie close together are sorted by their lower and then by their upper 16 bits, in linear time; this is two
    to six times as fast as the other ways. Otherwise, if a key and its position fit into 63 bits together, both are
    sorted as one integer; this is faster than a stable argsort, because plain sorting of int64 is vectorised.
    """
    count = len(keys)
    if count < 2:
        return np.arange(count)
    low = int(keys.min())
    span = int(keys.max()) - low
    if span < 1 << 16:
        return _radix_order(keys - low)
    if span < 1 << 32 and count >= _LEAST_FOR_TWO_SORTS:
        shifted = (keys - low).astype(np.uint32)
        order = _radix_order(shifted)
        upper = shifted >> np.uint32(16)
        return order[_radix_order(upper[order])]
    bits = (count - 1).bit_length()
    if span >= 1 << (63 - bits):
        return np.argsort(keys, kind="stable")
    packed = ((keys - low) << bits) | np.arange(count)
    packed.sort()
    return packed & ((1 << bits) - 1)


def _radix_order(keys: NDArray[Any]) -> NDArray[np.int64]:
    """Returns the stable order by the lower 16 bits of the keys; NumPy has a radix sort for them."""
    return np.argsort(keys.astype(np.uint16), kind="stable")


def merged_order(parts: Sequence[NDArray[np.int64]]) -> NDArray[np.int64] | None:
    """Returns the permutation of the concatenated parts that sorts them by (key, part, position); None if they are
    sorted."""
    keys = parts[0] if len(parts) == 1 else np.concatenate(parts)
    return None if is_sorted(keys) else stable_order(keys)


def hash_order(hashes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns the permutation that sorts hashes and keeps equal hashes in their present order.

    The upper bits of a hash and its position are sorted as one integer. Only if two hashes differ in their lower bits
    alone, a slower sort is used.
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
    """Returns the permutation that sorts by (group, key, position); groups are whole numbers from 0."""
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
    """Returns the number of each key's group of equal keys, from 0; keys are sorted."""
    numbers = np.zeros(len(keys), np.int64)
    np.cumsum(keys[1:] != keys[:-1], out=numbers[1:])
    return numbers


# Hashes of values, equal on every machine and in every process.


_PRIME = np.uint64(1099511628211)
_LONGEST_SHORT_VALUE, _MOST_DIFFERENT_LENGTHS = 256, 32
"""The values of a column are hashed together by length, which is faster, if none is longer than this number of bytes
and they have at most this number of different lengths."""


def hash_bytes(array: pa.Array) -> NDArray[np.uint64]:
    """Returns a polynomial hash of each value of a column of large binaries; null counts as empty.

    It is the length, plus the sum over the bytes of (byte + 1) * 1099511628211 ** (number of bytes after it), modulo
    2 ** 64.
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
    sizes = _distinct_sizes_if_few(lengths)
    if sizes is None:
        not_empty = np.flatnonzero(lengths)
        result[not_empty] += _sums_of_adjacent_values(data, offsets[:-1][not_empty], lengths[not_empty])
    elif len(sizes) == 1 and lengths.all():
        rows = data[offsets[0] : offsets[-1]].reshape(len(lengths), -1)
        result += _sums_of_equal_lengths(rows)
    else:
        for size in sizes:
            of_size = np.flatnonzero(lengths == size)
            result[of_size] += _sums_of_equal_lengths(data[offsets[of_size][:, None] + np.arange(size)])
    return result


def _distinct_sizes_if_few(lengths: NDArray[np.int64]) -> list[int] | None:
    """Returns the different lengths of values, except 0; None if a value is long or there are too many lengths."""
    if int(lengths.max()) > _LONGEST_SHORT_VALUE:
        return None
    sizes: list[int] = np.flatnonzero(np.bincount(lengths)).tolist()
    return [size for size in sizes if size] if len(sizes) <= _MOST_DIFFERENT_LENGTHS else None


def _sums_of_equal_lengths(data: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Returns the sums of ``hash_bytes`` for values of one length, each a row of ``data``, by Horner's rule."""
    sums = np.zeros(len(data), np.uint64)
    for column in data.T:
        sums *= _PRIME
        sums += column
        sums += np.uint64(1)
    return sums


def _sums_of_adjacent_values(
    data: NDArray[np.uint8], starts: NDArray[np.int64], sizes: NDArray[np.int64]
) -> NDArray[np.uint64]:
    """Returns the sums of ``hash_bytes`` for values that lie one after another in ``data``; none is empty."""
    low, high = int(starts[0]), int(starts[-1] + sizes[-1])
    numbers = data[low:high].astype(np.uint64) + np.uint64(1)
    bytes_after = np.repeat(starts + sizes - low, sizes) - 1 - np.arange(len(numbers))
    powers = np.ones(int(sizes.max()), np.uint64)
    powers[1:] = _PRIME
    np.multiply.accumulate(powers, out=powers)
    sums: NDArray[np.uint64] = np.add.reduceat(numbers * powers[bytes_after], starts - low)
    return sums


def mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Mix the bits of each value by the finalizer of Splitmix64: each bit of the result depends on all bits of the
    value, and different values stay different."""
    with np.errstate(over="ignore"):
        mixed = values >> np.uint64(30)
        mixed ^= values
        mixed *= np.uint64(0xBF58476D1CE4E5B9)
        mixed ^= mixed >> np.uint64(27)
        mixed *= np.uint64(0x94D049BB133111EB)
        mixed ^= mixed >> np.uint64(31)
    return mixed


# Arrays for users' code.


def read_only(values: NDArray[Any]) -> NDArray[Any]:
    """Returns a read-only view of an array, so that users' code cannot change data of the engine."""
    view = values.view()
    view.flags.writeable = False
    return view


def make_read_only(instance: Any, *names: str) -> None:
    """Replace the arrays in attributes of a frozen dataclass by read-only views, except None; for
    ``__post_init__``."""
    for name in names:
        values = getattr(instance, name)
        if values is not None:
            object.__setattr__(instance, name, read_only(values))


# Floating-point values as keys.


def canonical_floats(column: pa.Array) -> pa.Array:
    """Returns floating-point values with 0.0 for -0.0, and one NaN for all NaNs, since Arrow's dictionaries compare
    bits."""
    values = column.fill_null(0).to_numpy(zero_copy_only=False)
    not_canonical = (values == 0) & np.signbit(values) | np.isnan(values)
    if not not_canonical.any():
        return column
    values = np.where(np.isnan(values), values.dtype.type(np.nan), values + values.dtype.type(0))
    return pc.if_else(column.is_valid(), pa.array(values, column.type), pa.scalar(None, column.type))


# Copies of values that users' code returns: it may keep a list and change it later, or write into the NumPy array under
# a column.


_IMMUTABLE = frozenset((str, int, float, bool, bytes, type(None), date, datetime, timedelta, Decimal))


def own_value(value: Any) -> Any:  # noqa: PLR0911 - one for each kind
    """Returns a copy of a value that only the caller can change; a value that cannot be changed is returned itself. In
    a tuple, such as a row, each value is copied."""
    kind = type(value)
    if kind is tuple:  # rows are many, and most of them are of plain values
        return value if _IMMUTABLE.issuperset(map(type, value)) else tuple(map(own_value, value))
    if kind in _IMMUTABLE or not hasattr(kind, "__len__"):
        return value
    if kind is list and _IMMUTABLE.issuperset(map(type, value)):
        return value[:]  # at a small part of the time
    if isinstance(value, pa.Table):
        return copy_table(value)
    if isinstance(value, memoryview):  # of bytes, or of the numbers of a list
        return np.array(value).data
    if isinstance(value, KeysView | ValuesView | ItemsView):  # of a dict: it shows what the dict has later
        return own_value(list(value))
    try:
        return deepcopy(value)
    except Exception:  # for one of these views in it
        if kind is list:
            return list(map(own_value, value))
        if kind in (dict, MappingProxyType):
            return {name: own_value(each) for name, each in value.items()}
        return value


_MOST_PIECES = 16
"""Greatest number of pieces of a table that are copied one by one; more are combined into one piece."""


def copy_column(column: pa.Array) -> pa.Array:
    """Returns a copy of a column; it shares no memory with the column, except a dictionary."""
    return pa.concat_arrays([column, column.slice(0, 0)])


def copy_table(table: pa.Table) -> pa.Table:
    """Returns a copy of a table; it shares no memory with the table."""
    if any(map(_has_dictionary, table.schema.types)):  # pieces put together would share it
        stream = pa.BufferOutputStream()
        with pa.ipc.new_stream(stream, table.schema) as writer:
            writer.write_table(table)
        return pa.ipc.open_stream(stream.getvalue()).read_all()
    pieces = table.to_batches()
    if len(pieces) > _MOST_PIECES:
        return copy_table(table.combine_chunks())
    batches = [pa.concat_batches([batch, batch.slice(0, 0)]) for batch in pieces]
    return pa.Table.from_batches(batches, table.schema) if batches else table


def _has_dictionary(kind: pa.DataType) -> bool:
    children = (kind.field(number).type for number in range(kind.num_fields)) if pa.types.is_nested(kind) else ()
    return pa.types.is_dictionary(kind) or any(map(_has_dictionary, children))


# Takes rows from tables of any size.


_MOST = 1 << 31
"""Greatest size in bytes of one piece of a text column with 32-bit offsets; Arrow's ``take`` combines all pieces of a
column."""
_TYPES_OF_VIEWS = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}
_LARGE_TYPES = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}


def take_rows(table: pa.Table, indices: NDArray[np.int64]) -> pa.Table:
    """Returns the rows of a table at these indices, also from columns of more than 2 GiB or views of texts, for which
    Arrow's ``take`` fails."""
    if table.nbytes < _MOST:
        with suppress(pa.ArrowNotImplementedError):
            return table.take(pa.array(indices))
    columns = [_take_column(column, indices) for column in table.columns]
    return pa.Table.from_arrays(columns, schema=table.schema)


def _take_column(column: pa.ChunkedArray, indices: NDArray[np.int64]) -> pa.ChunkedArray:
    if column.type in _TYPES_OF_VIEWS:
        return _take_column(column.cast(_TYPES_OF_VIEWS[column.type]), indices).cast(column.type)
    large_type = _LARGE_TYPES.get(column.type)
    if large_type is None or column.nbytes < _MOST:
        return column.take(pa.array(indices))
    large_column = column.cast(large_type)
    lengths = pa.compute.binary_length(large_column).fill_null(0).to_numpy()[indices]
    piece_numbers = np.cumsum(lengths.astype(np.int64)) // (_MOST // 4)
    edges = [0, *(np.flatnonzero(np.diff(piece_numbers)) + 1).tolist(), len(indices)]
    pieces = [
        large_column.take(pa.array(indices[low:high])).combine_chunks().cast(column.type)
        for low, high in pairwise(edges)
    ]
    return pa.chunked_array(pieces, column.type)


# Sizes of rows in bytes: of texts and binaries their length, of other types their width in Arrow.


_kinds = pa.types


def byte_sizes(table: pa.Table) -> NDArray[np.int64]:
    """Returns the size of each row in bytes; the sizes add up to at most ``table.nbytes`` plus one byte per row."""
    bits = np.zeros(table.num_rows, np.int64)
    for column in table.columns:
        bits += _row_bits(column)
    return -(-bits // 8)


def _row_bits(column: Any) -> NDArray[np.int64]:
    if isinstance(column, pa.ChunkedArray):
        return np.concatenate([np.zeros(0, np.int64), *(_row_bits(chunk) for chunk in column.chunks)])
    kind = column.type
    if isinstance(column, pa.ExtensionArray):
        return _row_bits(column.storage)
    if _kinds.is_string_view(kind) or _kinds.is_binary_view(kind):
        column = column.cast(pa.large_binary() if _kinds.is_binary_view(kind) else pa.large_string())
        kind = column.type
    if _kinds.is_string(kind) or _kinds.is_binary(kind) or _kinds.is_large_string(kind) or _kinds.is_large_binary(kind):
        return 8 * _filled_lengths(pc.binary_length(column))
    if _kinds.is_map(kind):
        column = column.cast(pa.list_(pa.struct([("key", kind.key_type), ("value", kind.item_type)])))
        kind = column.type
    if _kinds.is_list(kind) or _kinds.is_large_list(kind) or _kinds.is_fixed_size_list(kind):
        if _kinds.is_fixed_size_list(kind):
            lengths = column.is_valid().to_numpy(zero_copy_only=False) * np.int64(kind.list_size)
        else:
            lengths = _filled_lengths(pc.list_value_length(column))
        ends_of_children = np.concatenate([[0], np.cumsum(_row_bits(pc.list_flatten(column)))])
        bits: NDArray[np.int64] = np.diff(ends_of_children[np.concatenate([[0], np.cumsum(lengths)])])
        return bits
    if _kinds.is_struct(kind):
        return sum((_row_bits(child) for child in column.flatten()), np.zeros(len(column), np.int64))
    return np.full(len(column), 0 if _kinds.is_null(kind) else kind.bit_width, np.int64)


def _filled_lengths(lengths: pa.Array) -> NDArray[np.int64]:
    filled: NDArray[np.int64] = lengths.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    return filled
