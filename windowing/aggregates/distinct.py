"""Aggregates of different values: how many there are, exactly or about, and which occurs most often."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, log, log2
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windowing.aggregates.accumulators import (
    Accumulator,
    EventColumns,
    State,
    can_be_ranked,
    groups_of_values,
    number_type,
    order_numbers,
    to_lists,
)
from windowing.aggregates.declared import NO_ORDER, Aggregate, RowWindows, ValueAggregate
from windowing.aggregates.groups import Groups, Keys
from windowing.columns import hash_bytes, mix
from windowing.errors import ConfigError

if TYPE_CHECKING:
    from numpy.typing import NDArray


# How often each value occurs, and the one that occurs most often.


@dataclass(frozen=True)
class Tally(Accumulator):
    """The different values that are not null, in order, and how often each occurs."""

    field: str
    kind: pa.DataType

    @property
    def columns(self) -> Mapping[str, pa.DataType]:
        return {"values": pa.list_(self.kind), "counts": pa.list_(pa.int64())}

    def fold(self, events: EventColumns, groups: Groups) -> State:
        values, group_numbers = self._values(events), groups.numbers
        if values.null_count:
            group_numbers = group_numbers[values.is_valid().to_numpy(zero_copy_only=False)]
            values = values.drop_null()
        return _tally(group_numbers, len(groups), values, None)

    def merge(self, state: State, groups: Groups) -> State:
        values, counts = state
        return _tally(groups_of_values(values, groups), len(groups), values.flatten(), counts.flatten().to_numpy())

    def _values(self, events: EventColumns) -> pa.Array:
        return events.decoded(self.field)


def _tally(group_numbers: NDArray[np.int64], count: int, values: pa.Array, counts: NDArray[np.int64] | None) -> State:
    keys = Keys.of([values], len(values), ordered=True)
    groups = Groups(group_numbers * keys.size + keys.codes, count * keys.size)
    (different,) = keys.columns(groups.present_codes % keys.size)
    sizes = np.bincount(groups.present_codes // keys.size, minlength=count)
    occurrences = groups.counts if counts is None else groups.sums(counts)
    return [to_lists(different, sizes), to_lists(pa.array(occurrences), sizes)]


@dataclass(frozen=True)
class Mode(ValueAggregate):
    """The most frequent value, or the least of several such values; null if all values are null."""

    def refusal(self) -> tuple[str, str] | None:
        return None if can_be_ranked(self.kind) else NO_ORDER

    @property
    def accumulators(self) -> tuple[Accumulator, ...]:
        assert self.field is not None
        return (Tally(self.field, self.result),)

    def finish(self, states: Sequence[State], windows: RowWindows) -> pa.Array:
        ((values, counts),) = states
        sizes = pc.list_value_length(values).to_numpy()
        list_numbers = np.repeat(np.arange(len(sizes)), sizes)
        occurrences = counts.flatten().to_numpy()
        most = Groups(list_numbers, len(sizes)).reduce(np.maximum, occurrences, 0)
        rows = np.flatnonzero(occurrences == np.repeat(most, sizes[sizes > 0]))[::-1]
        modes = np.zeros(len(sizes), np.int64)
        modes[list_numbers[rows]] = rows  # the first row of each list is written last, and stays
        return values.flatten().take(pa.array(modes, mask=sizes == 0))


# The number of different values, exactly.


@dataclass(frozen=True)
class Different(Accumulator):
    """The different values that are not null, in no particular order."""

    field: str
    kind: pa.DataType

    @property
    def columns(self) -> Mapping[str, pa.DataType]:
        return {"values": pa.list_(self.kind)}

    def fold(self, events: EventColumns, groups: Groups) -> State:
        column, group_numbers = events.decoded(self.field), groups.numbers
        if column.null_count:
            group_numbers = group_numbers[pc.is_valid(column).to_numpy(zero_copy_only=False)]
            column = column.drop_null()
        return _different(group_numbers, len(groups), column)

    def merge(self, state: State, groups: Groups) -> State:
        (values,) = state
        return _different(groups_of_values(values, groups), len(groups), values.flatten())


def _different(group_numbers: NDArray[np.int64], count: int, values: pa.Array) -> State:
    keys = Keys.of([values], len(values))
    codes = Groups(group_numbers * keys.size + keys.codes, count * keys.size).present_codes
    (different,) = keys.columns(codes % keys.size)
    return [to_lists(different, np.bincount(codes // keys.size, minlength=count))]


@dataclass(frozen=True)
class DistinctCount(Aggregate):
    """Number of different values that are not null."""

    @property
    def result(self) -> pa.DataType:
        return pa.int64()

    def refusal(self) -> tuple[str, str] | None:
        try:
            pc.dictionary_encode(pa.array([], self.kind))
        except pa.ArrowNotImplementedError:
            return "it takes plain values, which can be told apart", "take a part of it as a column, in a bolt before"
        return None

    @property
    def accumulators(self) -> tuple[Accumulator, ...]:
        assert self.field is not None
        return (Different(self.field, self.kind),)

    @property
    def value_when_empty(self) -> int:
        return 0

    def finish(self, states: Sequence[State], windows: RowWindows) -> pa.Array:
        ((values,),) = states
        return pc.list_value_length(values).cast(pa.int64())


# The estimated number of different values, by HyperLogLog (Flajolet et al. 2007) with the estimator of Ertl (2017).
#
# The first bits of a value's hash select a register. A register keeps the greatest number of leading zeros in the other
# bits of the hashes that select it. So the state depends on the different values alone: not on their order, nor on how
# the input was cut. Registers that no hash selects are not kept.


_COUNTED_BITS = 46
"""Number of bits of a hash in which leading zeros are counted; at most 18 further bits select the register."""
_LEAST_ERROR, _MOST_ERROR = 0.0025, 0.25
_SEED = np.uint64(0x5851F42D4C957F2D)
"""Seed of the hashes; other than the seed of fields groupings, whose hashes determine the task of a value."""


@dataclass(frozen=True)
class Registers(Accumulator):
    """The registers that hashes of values select, ascending; an entry is the number of the register * 64 + zeros."""

    field: str
    bits: int
    """Number of bits of a hash that select the register."""

    @property
    def columns(self) -> Mapping[str, pa.DataType]:
        return {"registers": pa.list_(pa.int32())}

    def fold(self, events: EventColumns, groups: Groups) -> State:
        hashes, valid = hashes_of(events.decoded(self.field))
        group_numbers = groups.numbers
        if valid is not None:
            hashes, group_numbers = hashes[valid], group_numbers[valid]
        registers = (hashes >> np.uint64(64 - self.bits)).astype(np.int64)
        other_bits = (hashes << np.uint64(self.bits)) >> np.uint64(64 - _COUNTED_BITS)
        _, lengths = np.frexp(other_bits.astype(np.float64))  # exact: these are whole numbers of 46 bits
        zeros = np.minimum(_COUNTED_BITS - lengths.astype(np.int64) + 1, _COUNTED_BITS)
        return self._greatest(group_numbers, len(groups), registers * 64 + zeros)

    def merge(self, state: State, groups: Groups) -> State:
        (registers,) = state
        return self._greatest(groups_of_values(registers, groups), len(groups), registers.flatten().to_numpy())

    def _greatest(self, group_numbers: NDArray[np.int64], count: int, entries: NDArray[np.int64]) -> State:
        """Returns the entry with the most zeros for each register of each group."""
        shift = self.bits + 6
        packed = np.sort((group_numbers << shift) | entries)
        if len(packed):
            packed = packed[np.append(packed[1:] >> 6 != packed[:-1] >> 6, True)]
        greatest = (packed & ((1 << shift) - 1)).astype(np.int32)
        return [to_lists(pa.array(greatest), np.bincount(packed >> shift, minlength=count))]


def hashes_of(column: pa.Array) -> tuple[NDArray[np.uint64], NDArray[np.bool_] | None]:
    """Returns a hash of 64 bits for each value, equal for equal values, and a mask of the values that are not null
    (None: all of them)."""
    kind = column.type
    if number_type(kind) is not None:
        numbers, valid = order_numbers(column)
        return mix(numbers.view(np.uint64) ^ _SEED), valid
    valid = column.is_valid().to_numpy(zero_copy_only=False) if column.null_count else None
    if not pa.types.is_decimal128(kind):
        return mix(hash_bytes(column.cast(pa.large_binary())) ^ _SEED), valid
    if not len(column):
        return np.zeros(0, np.uint64), None
    words = np.frombuffer(column.buffers()[1], np.uint64).reshape(-1, 2)[column.offset : column.offset + len(column)]
    return mix(mix(words[:, 1] ^ _SEED) ^ words[:, 0]), valid


def estimates(registers: pa.Array, bits: int) -> NDArray[np.int64]:
    """Returns the estimated number of different values for each list of a column of lists of registers."""
    sizes = pc.list_value_length(registers).to_numpy().astype(np.int64)
    zeros = registers.flatten().to_numpy().astype(np.int64) & 63
    width = _COUNTED_BITS + 1
    list_numbers = np.repeat(np.arange(len(sizes)), sizes)
    counts = np.bincount(list_numbers * width + zeros, minlength=len(sizes) * width).reshape(-1, width)
    register_count = 1 << bits
    sums = np.zeros(len(sizes))
    for zero_count in range(_COUNTED_BITS, 0, -1):
        sums = (sums + counts[:, zero_count]) / 2
    sums += register_count * _sigma(1 - sizes / register_count)
    with np.errstate(divide="ignore"):
        numbers = np.where(sizes > 0, register_count * (register_count / sums) / (2 * log(2)), 0)
    result: NDArray[np.int64] = np.rint(numbers).astype(np.int64)
    return result


def _sigma(share: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns Ertl's correction for empty registers, from the share of registers that are empty, 0 to 1."""
    power, factor = np.where(share < 1, share, 0.0), 1.0
    total = power.copy()
    while power.any():
        power = power * power
        total, factor = total + power * factor, 2 * factor
        power[power < 1e-300] = 0
    return total


@dataclass(frozen=True)
class ApproximateCount(Aggregate):
    """Estimated number of different values that are not null."""

    standard_error: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        error = self.standard_error
        if isinstance(error, bool) or not (isinstance(error, int | float) and _LEAST_ERROR <= error <= _MOST_ERROR):
            raise ConfigError(
                f"{self}",
                why=f"a standard error is from {_LEAST_ERROR} to {_MOST_ERROR}",
                do="write 0.01 for one per cent",
            )

    def refusal(self) -> tuple[str, str] | None:
        kind = self.kind
        text_tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
        if number_type(kind) is not None or pa.types.is_decimal128(kind) or any(is_one(kind) for is_one in text_tests):
            return None
        return (
            "it takes numbers, decimals of 128 bits, booleans, dates, times, texts and binaries",
            "cast the column in a bolt before, or count exactly, without standard_error",
        )

    @property
    def result(self) -> pa.DataType:
        return pa.int64()

    @property
    def bits(self) -> int:
        """Number of bits that select a register: the fewest for an error of at most ``standard_error``."""
        return ceil(2 * log2(1.04 / self.standard_error))

    @property
    def accumulators(self) -> tuple[Accumulator, ...]:
        assert self.field is not None
        return (Registers(self.field, self.bits),)

    @property
    def value_when_empty(self) -> int:
        return 0

    def finish(self, states: Sequence[State], windows: RowWindows) -> pa.Array:
        ((registers,),) = states
        return pa.array(estimates(registers, self.bits))

    def __str__(self) -> str:
        return f"distinct_count({self.field!r}, standard_error={self.standard_error!r})"
