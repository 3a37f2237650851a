"""Finds the values on which a whole-column conversion fails, without a loop over all values."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Mask: TypeAlias = npt.NDArray[np.bool_]
Flags: TypeAlias = "Mask | npt.NDArray[np.uint8]"
"""Per value: whether it is bad; or, where times are finer than their type, BAD and CUT as bits."""
Converted: TypeAlias = tuple[pa.Array, "Flags | None"]
"""Values with null where they are bad, and their flags, or None where none has any."""
BAD, CUT = np.uint8(1), np.uint8(2)
Kernel: TypeAlias = Callable[[pa.Array], pa.Array]

_FAILURES = (pa.ArrowInvalid, ValueError, OverflowError)
_PARTS = 8
_PROBE = 8


def isolate(values: pa.Array, target: pa.DataType, *kernels: Kernel) -> Converted:
    """Convert each value by the first kernel that accepts it; a value that no kernel accepts is bad, and null.

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
    return converted, where(bad[chosen], valid(values))


def bad_of(flags: Flags) -> Mask:
    """Which values are bad."""
    return flags if flags.dtype == np.bool_ else (flags & BAD).astype(np.bool_)  # type: ignore[return-value]


def cut_of(flags: Flags) -> Mask | None:
    """Which values are times that were cut to the unit of their type; None where none is."""
    if flags.dtype == np.bool_:
        return None
    cut: Mask = (flags & CUT).astype(np.bool_)
    return cut if cut.any() else None


def flagged(cut: Mask) -> Flags | None:
    """The flags of values of which some were cut, and none is bad."""
    return cut * CUT if cut.any() else None


def where(flags: Flags, chosen: Mask) -> Flags:
    """The flags of chosen values; others have none."""
    return flags & chosen if flags.dtype == np.bool_ else np.where(chosen, flags, np.uint8(0))


def of_lists(flags: Flags, offsets: npt.NDArray[np.int64]) -> Flags:
    """The flags of lists: what any element of them has."""
    found = None
    for bit, chosen in ((BAD, bad_of(flags)), (CUT, cut_of(flags))):
        if chosen is not None:
            before = np.concatenate([[0], np.cumsum(chosen)])
            any_of: Flags = before[offsets[1:]] > before[offsets[:-1]]
            found = either(found, any_of if bit == BAD else any_of * CUT)
    assert found is not None
    return found


def concatenated(parts: list[Flags]) -> Flags:
    """The flags of one part after another."""
    return np.concatenate(parts)  # type: ignore[return-value]


def blank(values: pa.Array, bad: Flags) -> pa.Array:
    """The values, with null where they are bad."""
    return pc.if_else(pa.array(bad_of(bad)), pa.scalar(None, values.type), values)


def valid(values: pa.Array) -> Mask:
    mask: Mask = values.is_valid().to_numpy(zero_copy_only=False)
    return mask


def either(left: Flags | None, right: Flags | None) -> Flags | None:
    if left is None or right is None:
        return right if left is None else left
    return left | right


def whole_numbers(values: pa.Array, target: pa.DataType) -> Converted:
    """Numbers as an integer type: those that are whole and within its range."""
    kept = attempt(values, (lambda some: some.cast(target),))
    if kept is not None:
        return kept, None
    given = values.fill_null(0).to_numpy(zero_copy_only=False)
    bounds = np.iinfo(target.to_pandas_dtype())
    if given.dtype.kind == "f":
        fits = (np.floor(given) == given) & (given >= float(bounds.min)) & (given < float(int(bounds.max) + 1))
    else:
        own = np.iinfo(given.dtype)
        fits = (given >= max(bounds.min, own.min)) & (given <= min(bounds.max, own.max))
    bad: Mask = ~fits & valid(values)
    return blank(values, bad).cast(target), bad


def joined(arrays: list[pa.Array], target: pa.DataType) -> pa.Array:
    return pa.concat_arrays(arrays) if arrays else pa.array([], target)


def attempt(values: pa.Array, kernels: tuple[Kernel, ...]) -> pa.Array | None:
    """All values converted by the first kernel that accepts them all; None where none does."""
    for kernel in kernels:
        try:
            kernel(values.slice(0, _PROBE))  # a cast that fails on every value costs far more than one that succeeds
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
    return joined(good, target), concatenated(masks) if masks else None
