"""Groupings, which choose the task of an event by the event alone, and the hashes and codes of its key."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from manager.keyed.retained_events import is_needed
from manager.storage.segments import CODE_COLUMN, KEY_COLUMN
from windowing.columns import hash_bytes, mix
from windowing.errors import ConfigError
from windowing.schema import value_type
from windowing.settings.declaration import ListedKeys

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from manager.keyed.retained_events import RetainedEvents
    from manager.storage.segments import Ref, SegmentStore, SegmentWriter


# The hash of the fields grouping: of values, not of objects; the same on every machine and in every process.
#
# Each value becomes a 64-bit integer:
#
# - whole numbers of any width, booleans (0, 1), dates (days) and times (microseconds, UTC): the number itself;
# - floating point of any width: the bits of the double; all NaN are one value, and so are 0.0 and -0.0;
# - texts and binaries: the length, plus the sum over the bytes of (byte + 1) * 1099511628211 ** (bytes that follow);
# - null: 0x9E3779B97F4A7C15;
# - structs: 0, and then each field from the left as several fields are combined;
# - a dictionary-encoded column counts as the values it stands for; every other type as the text that Arrow casts it to.
#
# All arithmetic is modulo 2 ** 64. Each is then mixed by splitmix64's finalizer; several fields are combined, from the
# left, by ``mix(h * 31 + next)``. The task is the hash modulo the parallelism.


_NULL = np.uint64(0x9E3779B97F4A7C15)


def hash_rows(table: pa.Table, fields: Sequence[str]) -> NDArray[np.uint64]:
    """Returns the hash of the named fields, one uint64 per row."""
    with np.errstate(over="ignore"):
        hashes = _hash_column(table.column(fields[0]))
        for field in fields[1:]:
            hashes = mix(hashes * np.uint64(31) + _hash_column(table.column(field)))
    return hashes


def hash_class(kind: pa.DataType) -> Any:
    """Returns a value that is equal for two types if equal values of both have the same hash."""
    if pa.types.is_dictionary(kind):
        return hash_class(kind.value_type)
    if pa.types.is_struct(kind):
        return tuple(hash_class(field.type) for field in kind)
    for name, type_tests in _HASHED_ALIKE.items():
        if any(is_kind(kind) for is_kind in type_tests):
            return name
    return kind


def comparable(column: pa.ChunkedArray) -> pa.Array:
    """Returns numbers or bytes that are equal if and only if the hash treats values of the column as equal."""
    array = _as_one_array(column)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if has_distinct_hashes(array.type):
        return pa.array(_values_to_hash(array), mask=pc.is_null(array).to_numpy(zero_copy_only=False))
    return (array if _is_bytes(array.type) else _as_text(_with_one_zero(array))).cast(pa.large_binary())


def value_codes(columns: Sequence[pa.Array]) -> tuple[NDArray[np.int64], int]:
    """Returns a number for each row, equal for rows that are equal in all columns; and the count of different
    numbers."""
    codes, code_count = np.zeros(len(columns[0]), np.int64), 1
    for column in columns:
        encoded = column.dictionary_encode(null_encoding="encode")
        if code_count * len(encoded.dictionary) >= 1 << 62:
            _, codes = np.unique(codes, return_inverse=True)
            code_count = int(codes.max()) + 1
        codes = codes * len(encoded.dictionary) + encoded.indices.to_numpy(zero_copy_only=False)
        code_count *= len(encoded.dictionary)
    return codes, code_count if len(columns) == 1 else pc.count_distinct(pa.array(codes)).as_py()


def has_distinct_hashes(kind: pa.DataType) -> bool:
    """True if different values of a type have different hashes."""
    is_number = pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_floating(kind)
    return bool(is_number or pa.types.is_timestamp(kind) or pa.types.is_date(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    has_32_bit_offsets = pa.types.is_binary(kind) or pa.types.is_string(kind)
    return bool(has_32_bit_offsets or pa.types.is_large_binary(kind) or pa.types.is_large_string(kind))


_types = pa.types
_HASHED_ALIKE = {
    "whole numbers": (_types.is_integer, _types.is_boolean),
    "floating point": (_types.is_floating,),
    "times": (_types.is_timestamp,),
    "dates": (_types.is_date,),
    "texts": (_is_bytes, _types.is_string_view),
}


def _as_one_array(column: pa.ChunkedArray) -> pa.Array:
    array = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], column.type)
    return array


def _hash_column(column: pa.ChunkedArray) -> NDArray[np.uint64]:
    array = _as_one_array(column)
    if not pa.types.is_dictionary(array.type):
        return _hash_array(array)
    hashes = np.append(_hash_array(array.dictionary), mix(np.array([_NULL])))
    codes: NDArray[Any] = array.indices.cast(pa.int64()).fill_null(len(array.dictionary)).to_numpy(zero_copy_only=False)
    result: NDArray[np.uint64] = hashes[codes]
    return result


def _hash_array(array: pa.Array) -> NDArray[np.uint64]:
    hashes = _hash_struct(array) if pa.types.is_struct(array.type) else mix(_values_to_hash(array))
    if array.null_count:
        valid = pc.is_valid(array).to_numpy(zero_copy_only=False)
        hashes = np.where(valid, hashes, mix(np.array([_NULL])))
    return hashes


def _hash_struct(array: pa.Array) -> NDArray[np.uint64]:
    hashes = np.zeros(len(array), np.uint64)
    for field in array.flatten():
        hashes = mix(hashes * np.uint64(31) + _hash_column(pa.chunked_array([field])))
    return hashes


def _with_one_zero(array: pa.Array) -> pa.Array:
    """Returns a struct with 0.0 for -0.0 in its fields, since both have the same hash. Other types are hashed as text
    and returned unchanged."""
    if not pa.types.is_struct(array.type):
        return array
    parts = [pc.add(part, 0.0) if pa.types.is_floating(part.type) else _with_one_zero(part) for part in array.flatten()]
    return pa.StructArray.from_arrays(parts, [field.name for field in array.type], mask=pc.is_null(array))


def _fill_nulls(array: pa.Array, value: float) -> pa.Array:
    return array.fill_null(value) if array.null_count else array


def _values_to_hash(array: pa.Array) -> NDArray[np.uint64]:
    kind = array.type
    if pa.types.is_integer(kind):
        numbers: NDArray[Any] = _fill_nulls(array, 0).to_numpy(zero_copy_only=False)
        return numbers.astype(np.uint64) if kind == pa.uint64() else numbers.astype(np.int64).view(np.uint64)
    if pa.types.is_boolean(kind):
        flags: NDArray[np.bool_] = _fill_nulls(array, False).to_numpy(zero_copy_only=False)
        return flags.astype(np.uint64)
    if pa.types.is_floating(kind):
        doubles = _fill_nulls(array.cast(pa.float64()), 0.0).to_numpy(zero_copy_only=False) + 0.0
        return np.where(np.isnan(doubles), np.nan, doubles).view(np.uint64)
    if pa.types.is_timestamp(kind):
        return _values_to_hash(array.cast(pa.timestamp("us", tz=kind.tz), safe=False).cast(pa.int64()))
    if pa.types.is_date(kind):
        return _values_to_hash(array.cast(pa.date32()).cast(pa.int32()))
    if _is_bytes(kind):
        return hash_bytes(array.cast(pa.large_binary()))
    return hash_bytes(_as_text(array).cast(pa.large_binary()))


def _as_text(array: pa.Array) -> pa.Array:
    try:
        return array.cast(pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return pa.array([None if value is None else str(value) for value in array.to_pylist()], pa.string())


# Groupings choose the task of an event by the event alone, never by chance.


@dataclass(frozen=True)
class FieldsGrouping:
    """Grouping in which events with equal fields go to the same task, by the hash that ``topologies.graph.groupings``
    documents."""

    fields: tuple[str, ...]

    def tasks(self, table: pa.Table, positions: NDArray[np.int64] | None, parallelism: int) -> NDArray[np.int64]:
        """Returns the task of each row."""
        return (hash_rows(table, self.fields) % np.uint64(parallelism)).astype(np.int64)

    def __str__(self) -> str:
        return f"fields({', '.join(self.fields)})"


@dataclass(frozen=True)
class ShuffleGrouping:
    """Grouping in which events go to the tasks in turn, by their place in the source, or by their values if the place
    is unknown.

    Rows of a BatchBolt have no known place in the source, and counting them would depend on where batches are cut.
    """

    def tasks(self, table: pa.Table, positions: NDArray[np.int64] | None, parallelism: int) -> NDArray[np.int64]:
        """Returns the task of each row."""
        if positions is None:
            return (hash_rows(table, table.column_names) % np.uint64(parallelism)).astype(np.int64)
        return positions % parallelism

    def __str__(self) -> str:
        return "shuffle"


@dataclass(frozen=True)
class GlobalGrouping:
    """Grouping in which all events go to task 0."""

    def tasks(self, table: pa.Table, positions: NDArray[np.int64] | None, parallelism: int) -> NDArray[np.int64]:
        """Returns the task of each row."""
        return np.zeros(len(table), np.int64)

    def __str__(self) -> str:
        return "global"


@dataclass(frozen=True)
class AllGrouping:
    """Grouping in which every task gets a copy of every event; each copy is an event of its own in the accounts."""

    def __str__(self) -> str:
        return "all"


Grouping = FieldsGrouping | ShuffleGrouping | GlobalGrouping | AllGrouping


# Codes of keys: a number for each key, unique within a task.


HASH_COLUMN, _VALUE = "hash", "value"

_Values: TypeAlias = tuple[Any, ...]
"""The values of a key, converted by ``comparable``."""


class KeyCodes:
    """The codes of the keys of one task.

    The code of a key is its hash, unless another key of the task already has that code. Then the code is computed from
    the hash and the values of the key. Events are stored with their hashes, and get their codes whenever they are read.
    The state of keys (watermarks, firings, timers, retractable rows) is stored by code. So codes of keys that share a
    hash are stored, as long as the task has state or events of these keys.
    """

    @classmethod
    def restore(cls, keys: Sequence[Sequence[str]], store: SegmentStore, ref: Ref | None) -> KeyCodes:
        """Restores the codes that ``write`` has written; ``ref`` is None if it wrote nothing."""
        return cls(keys, None if ref is None else store.read(ref))

    def __init__(self, keys: Sequence[Sequence[str]], stored: pa.Table | None = None) -> None:
        """``keys`` names the columns of the key of each input; none for no key. ``stored``: the table that ``table``
        returned."""
        self._keys = [tuple(names) for names in keys]
        self._numbers_by_values: dict[_Values, tuple[int, int]] = {}
        """For each key that shares its hash, or did when it got its code: the hash and the code."""
        self._types: list[pa.DataType] = []
        """The types of the key's values."""
        if stored is not None:
            columns = [stored.column(name) for name in stored.column_names if name.startswith(_VALUE)]
            values = zip(*(column.to_pylist() for column in columns), strict=True)
            numbers = zip(stored.column(HASH_COLUMN).to_pylist(), stored.column(CODE_COLUMN).to_pylist(), strict=True)
            self._numbers_by_values = dict(zip(values, numbers, strict=True))
            self._types = [column.type for column in columns]

    def __len__(self) -> int:
        """Returns the number of keys whose codes are stored."""
        return len(self._numbers_by_values)

    def apply(self, events: RetainedEvents, state_tables: Sequence[pa.Table] = ()) -> RetainedEvents:
        """Returns these events, in order of arrival, with the codes of their keys in place of the hashes.

        ``state_tables``: tables with the state of keys, with their codes in ``KEY_COLUMN`` and the key columns. A key
        in these tables keeps its code even if an event has another key with the same hash.
        """
        if events.keys is None or not any(self._keys):
            return events
        columns = key_rows(events.payload, events.streams, self._keys).columns
        codes = self._without_collisions(events.keys, columns, state_tables)
        return events if codes is events.keys else replace(events, keys=codes)

    def codes_of_rows(
        self, rows: pa.Table, hashes: NDArray[np.int64], state_tables: Sequence[pa.Table] = ()
    ) -> NDArray[np.int64]:
        """Returns the codes of keys; ``rows`` has the key columns of the first input."""
        return self._without_collisions(hashes, [rows.column(name) for name in self._keys[0]], state_tables)

    def table(self) -> pa.Table | None:
        """Returns a table of the keys whose code is not their hash, with both; None if there are none."""
        if not self._numbers_by_values:
            return None
        columns = zip(*self._numbers_by_values, strict=True)
        values = {
            f"{_VALUE}{number}": pa.array(column, kind)
            for number, (column, kind) in enumerate(zip(columns, self._types, strict=True))
        }
        hashes, codes = zip(*self._numbers_by_values.values(), strict=True)
        return pa.table({HASH_COLUMN: pa.array(hashes, pa.int64()), CODE_COLUMN: pa.array(codes, pa.int64()), **values})

    def write(
        self,
        writer: SegmentWriter,
        events: NDArray[np.int64] | None,
        flags: NDArray[np.uint8] | None,
        state_tables: Sequence[pa.Table],
    ) -> Ref | None:
        """Writes the codes that must be stored, and returns a reference to them; None if there are none.

        Before that, keys are forgotten of which the task has neither a needed event nor a row in ``state_tables``.
        ``events`` and ``flags``: the code and the flags of each event of the task; if ``events`` is None, no key is
        forgotten.
        """
        if self._numbers_by_values and events is not None:
            assert flags is not None
            needed_codes = [table.column(KEY_COLUMN).to_numpy() for table in state_tables]
            self.keep(np.concatenate([events[is_needed(flags)], *needed_codes]))
        table = self.table()
        return None if table is None else writer.add(table)

    def keep(self, codes: NDArray[np.int64]) -> None:
        """Forgets all keys but those with these codes; the others have neither events nor state in the task."""
        kept_codes = set(codes.tolist())
        kept = {values: numbers for values, numbers in self._numbers_by_values.items() if numbers[1] in kept_codes}
        keys_per_hash = Counter(key_hash for key_hash, _ in kept.values())
        self._numbers_by_values = {
            values: (key_hash, code)
            for values, (key_hash, code) in kept.items()
            if code != key_hash or keys_per_hash[key_hash] > 1
        }

    def _without_collisions(
        self, hashes: NDArray[np.int64], columns: Sequence[pa.ChunkedArray], state_tables: Sequence[pa.Table]
    ) -> NDArray[np.int64]:
        state_tables = [table for table in state_tables if table.num_rows]
        columns_of_states = [[table.column(name) for table in state_tables] for name in self._keys[0]]
        parts_by_column = [
            [*earlier_parts, column] for earlier_parts, column in zip(columns_of_states, columns, strict=True)
        ]
        if (
            not self._numbers_by_values
            and len(parts_by_column) == 1
            and all(_hashes_identify(column) for column in parts_by_column[0])
        ):
            return hashes
        comparable_columns = [_concatenate([comparable(part) for part in parts]) for parts in parts_by_column]
        self._types = [column.type for column in comparable_columns]
        codes_and_hashes = np.concatenate([*(table.column(KEY_COLUMN).to_numpy() for table in state_tables), hashes])
        codes = self._codes(codes_and_hashes, comparable_columns)
        return hashes if codes is codes_and_hashes else codes[len(codes_and_hashes) - len(hashes) :]

    def _codes(self, hashes: NDArray[np.int64], columns: Sequence[pa.Array]) -> NDArray[np.int64]:
        if not len(hashes):
            return hashes
        keys, count = value_codes(columns)
        # If there are as many hashes as keys, each key has its own hash.
        if not self._numbers_by_values and count == pc.count_distinct(pa.array(hashes)).as_py():
            return hashes
        _, first_rows, keys = np.unique(keys, return_index=True, return_inverse=True)
        codes = hashes[first_rows]
        distinct, counts = np.unique(codes, return_counts=True)
        stored_numbers = [number for pair in self._numbers_by_values.values() for number in pair]
        may_collide = np.isin(codes, distinct[counts > 1]) | np.isin(codes, np.array(stored_numbers, np.int64))
        if not may_collide.any():
            return hashes
        codes_in_use = set(codes[~may_collide].tolist()) | {code for _, code in self._numbers_by_values.values()}
        for key in sorted(np.flatnonzero(may_collide).tolist(), key=first_rows.__getitem__):
            values = tuple(column[int(first_rows[key])].as_py() for column in columns)
            codes[key] = self._code_of(values, int(codes[key]), codes_in_use)
        return codes[keys]

    def _code_of(self, values: _Values, key_hash: int, codes_in_use: set[int]) -> int:
        if values not in self._numbers_by_values:
            code = key_hash
            while code in codes_in_use:
                text = repr([code, *values]).encode()
                code = int.from_bytes(blake2b(text, digest_size=8).digest(), "little", signed=True)
            codes_in_use.add(code)
            self._numbers_by_values[values] = key_hash, code
        return self._numbers_by_values[values][1]


def key_rows(payload: pa.Table, streams: NDArray[np.int8] | None, keys: Sequence[Sequence[str]]) -> pa.Table:
    """Returns the key columns of events, with the names of the first input; ``streams``: the input of each event."""
    if len({tuple(names) for names in keys}) == 1:
        return _decode_dictionaries(payload.select(list(keys[0])))
    assert streams is not None  # there are several inputs
    rows_by_input = [np.flatnonzero(streams == number) for number in range(len(keys))]
    parts = [
        payload.select(list(names)).take(pa.array(rows)).rename_columns(list(keys[0]))
        for names, rows in zip(keys, rows_by_input, strict=True)
    ]
    # Permissive, because an input may have int where another has long.
    by_input = pa.concat_tables([_decode_dictionaries(part) for part in parts], promote_options="permissive")
    return by_input.take(pa.array(np.argsort(np.concatenate(rows_by_input))))


def _decode_dictionaries(table: pa.Table) -> pa.Table:
    for number, column in enumerate(table.columns):
        if pa.types.is_dictionary(column.type):
            name = table.column_names[number]
            table = table.set_column(number, name, column.cast(column.type.value_type))
    return table


def _hashes_identify(column: pa.ChunkedArray) -> bool:
    return has_distinct_hashes(column.type) and not column.null_count


def _concatenate(parts: Sequence[pa.Array]) -> pa.Array:
    return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)


# Keys that a user lists, as columns of the types of the bolt's events, and their tasks.


@dataclass(frozen=True)
class ListedRows:
    """The listed keys of all tasks or of one; a row for each."""

    table: pa.Table
    """The key columns."""
    since: int
    """Time from which the keys exist, in microseconds."""

    @staticmethod
    def of(listed: ListedKeys, key: Sequence[str], schema: pa.Schema) -> ListedRows:
        """``schema``: the columns of the bolt's events. Raises ConfigError if a value does not fit its column."""
        rows = [each if len(key) > 1 else (each,) for each in listed.values]
        mismatched = [each for each in rows if not isinstance(each, tuple) or len(each) != len(key)]
        if mismatched:
            raise ConfigError(
                f"with_empty_windows lists the key {mismatched[0]!r:.60}",
                why=f"with_key names {len(key)} columns: {', '.join(key)}",
                do="list a tuple of as many values for each key",
            )
        columns = {name: _key_column(name, [row[at] for row in rows], schema) for at, name in enumerate(key)}
        return ListedRows(pa.table(columns), listed.since)

    @cached_property
    def hashes(self) -> NDArray[np.int64]:
        """The hash of each key, equal to that of its events."""
        return hash_rows(self.table, self.table.column_names).view(np.int64)

    def by_task(self, grouping: Grouping, parallelism: int) -> tuple[ListedRows, ...]:
        """Returns, for each task, the listed keys whose events go there."""
        if isinstance(grouping, AllGrouping):
            return (self,) * parallelism
        tasks = grouping.tasks(self.table, None, parallelism)
        parts = [self.table.filter(pa.array(tasks == task)) for task in range(parallelism)]
        return tuple(ListedRows(part, self.since) for part in parts)


def _key_column(name: str, values: Sequence[object], schema: pa.Schema) -> pa.Array:
    kind = value_type(schema.field(name).type)
    try:
        return pa.array(values, kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise ConfigError(
            f"with_empty_windows lists {_first_misfit(values, kind)!r:.60}, which is no value of {name!r}",
            why=f"that column is {kind}",
            do="list keys as the events have them",
        ) from error


def _first_misfit(values: Sequence[object], kind: pa.DataType) -> object:
    for value in values:
        try:
            pa.array([value], kind)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            return value
    return values
