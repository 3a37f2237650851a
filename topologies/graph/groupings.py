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


def hashed_as(kind: pa.DataType) -> Any:
    """Returns a value that is equal for two types if equal values of both have the same hash."""
    if pa.types.is_dictionary(kind):
        return hashed_as(kind.value_type)
    if pa.types.is_struct(kind):
        return tuple(hashed_as(field.type) for field in kind)
    for name, belongs in _HASHED_ALIKE.items():
        if any(of_kind(kind) for of_kind in belongs):
            return name
    return kind


def comparable(column: pa.ChunkedArray) -> pa.Array:
    """Returns numbers or bytes that are equal if and only if the hash treats values of the column as equal."""
    array = _combined(column)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if is_one_to_one(array.type):
        return pa.array(_values(array), mask=pc.is_null(array).to_numpy(zero_copy_only=False))
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


def is_one_to_one(kind: pa.DataType) -> bool:
    """True if different values of a type have different hashes."""
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
    """Returns a struct with 0.0 for -0.0 in its fields, since both have the same hash. Other types are hashed as text
    and returned unchanged."""
    if not pa.types.is_struct(array.type):
        return array
    parts = [pc.add(part, 0.0) if pa.types.is_floating(part.type) else _with_one_zero(part) for part in array.flatten()]
    return pa.StructArray.from_arrays(parts, [field.name for field in array.type], mask=pc.is_null(array))


def _filled(array: pa.Array, value: float) -> pa.Array:
    return array.fill_null(value) if array.null_count else array


def _values(array: pa.Array) -> NDArray[np.uint64]:
    kind = array.type
    if pa.types.is_integer(kind):
        numbers: NDArray[Any] = _filled(array, 0).to_numpy(zero_copy_only=False)
        return numbers.astype(np.uint64) if kind == pa.uint64() else numbers.astype(np.int64).view(np.uint64)
    if pa.types.is_boolean(kind):
        flags: NDArray[np.bool_] = _filled(array, False).to_numpy(zero_copy_only=False)
        return flags.astype(np.uint64)
    if pa.types.is_floating(kind):
        doubles = _filled(array.cast(pa.float64()), 0.0).to_numpy(zero_copy_only=False) + 0.0
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
    def restored(cls, keys: Sequence[Sequence[str]], store: SegmentStore, ref: Ref | None) -> KeyCodes:
        """Restores the codes that ``write`` has written; ``ref`` is None if it wrote nothing."""
        return cls(keys, None if ref is None else store.read(ref))

    def __init__(self, keys: Sequence[Sequence[str]], stored: pa.Table | None = None) -> None:
        """``keys`` names the columns of the key of each input; none for no key. ``stored``: the table that ``table``
        returned."""
        self._keys = [tuple(names) for names in keys]
        self._shared: dict[_Values, tuple[int, int]] = {}
        """For each key that shares its hash, or did when it got its code: the hash and the code."""
        self._types: list[pa.DataType] = []
        """The types of the key's values."""
        if stored is not None:
            columns = [stored.column(name) for name in stored.column_names if name.startswith(_VALUE)]
            values = zip(*(column.to_pylist() for column in columns), strict=True)
            numbers = zip(stored.column(HASH_COLUMN).to_pylist(), stored.column(CODE_COLUMN).to_pylist(), strict=True)
            self._shared = dict(zip(values, numbers, strict=True))
            self._types = [column.type for column in columns]

    def __len__(self) -> int:
        """Returns the number of keys whose codes are stored."""
        return len(self._shared)

    def apply(self, held: RetainedEvents, known: Sequence[pa.Table] = ()) -> RetainedEvents:
        """Returns these events, in order of arrival, with the codes of their keys in place of the hashes.

        ``known``: tables with the state of keys, with their codes in ``KEY_COLUMN`` and the key columns. A key in these
        tables keeps its code even if an event has another key with the same hash.
        """
        if held.keys is None or not any(self._keys):
            return held
        columns = key_rows(held.payload, held.streams, self._keys).columns
        codes = self._without_collisions(held.keys, columns, known)
        return held if codes is held.keys else replace(held, keys=codes)

    def of_rows(self, rows: pa.Table, hashes: NDArray[np.int64], known: Sequence[pa.Table] = ()) -> NDArray[np.int64]:
        """Returns the codes of keys; ``rows`` has the key columns of the first input."""
        return self._without_collisions(hashes, [rows.column(name) for name in self._keys[0]], known)

    def table(self) -> pa.Table | None:
        """Returns a table of the keys whose code is not their hash, with both; None if there are none."""
        if not self._shared:
            return None
        columns = zip(*self._shared, strict=True)
        values = {
            f"{_VALUE}{place}": pa.array(column, kind)
            for place, (column, kind) in enumerate(zip(columns, self._types, strict=True))
        }
        hashes, codes = zip(*self._shared.values(), strict=True)
        return pa.table({HASH_COLUMN: pa.array(hashes, pa.int64()), CODE_COLUMN: pa.array(codes, pa.int64()), **values})

    def write(
        self,
        writer: SegmentWriter,
        events: NDArray[np.int64] | None,
        flags: NDArray[np.uint8] | None,
        known: Sequence[pa.Table],
    ) -> Ref | None:
        """Writes the codes that must be stored; returns None if there are none.

        ``events`` and ``flags``: the code and the flags of each event. Keys are forgotten first if the task has neither
        a needed event of them nor a row in ``known``. None for ``events`` forgets none.
        """
        if self._shared and events is not None:
            assert flags is not None
            left = [table.column(KEY_COLUMN).to_numpy() for table in known]
            self.keep(np.concatenate([events[is_needed(flags)], *left]))
        table = self.table()
        return None if table is None else writer.add(table)

    def keep(self, codes: NDArray[np.int64]) -> None:
        """Forgets the keys with other codes, which have neither events nor state in the task."""
        left = set(codes.tolist())
        shared = {values: numbers for values, numbers in self._shared.items() if numbers[1] in left}
        times = Counter(hashed for hashed, _ in shared.values())
        self._shared = {
            values: (hashed, code) for values, (hashed, code) in shared.items() if code != hashed or times[hashed] > 1
        }

    def _without_collisions(
        self, hashes: NDArray[np.int64], columns: Sequence[pa.ChunkedArray], known: Sequence[pa.Table]
    ) -> NDArray[np.int64]:
        known = [table for table in known if table.num_rows]
        before = [[table.column(name) for table in known] for name in self._keys[0]]
        every = [[*older, column] for older, column in zip(before, columns, strict=True)]
        if not self._shared and len(every) == 1 and all(_is_exact(column) for column in every[0]):
            return hashes
        compared = [_joined([comparable(part) for part in parts]) for parts in every]
        self._types = [column.type for column in compared]
        given = np.concatenate([*(table.column(KEY_COLUMN).to_numpy() for table in known), hashes])
        codes = self._codes(given, compared)
        return hashes if codes is given else codes[len(given) - len(hashes) :]

    def _codes(self, hashes: NDArray[np.int64], columns: Sequence[pa.Array]) -> NDArray[np.int64]:
        if not len(hashes):
            return hashes
        keys, count = value_codes(columns)
        if not self._shared and count == pc.count_distinct(pa.array(hashes)).as_py():  # each key has its own hash
            return hashes
        _, firsts, keys = np.unique(keys, return_index=True, return_inverse=True)
        codes = hashes[firsts]
        distinct, times = np.unique(codes, return_counts=True)
        numbers = [number for pair in self._shared.values() for number in pair]
        doubtful = np.isin(codes, distinct[times > 1]) | np.isin(codes, np.array(numbers, np.int64))
        if not doubtful.any():
            return hashes
        taken = set(codes[~doubtful].tolist()) | {code for _, code in self._shared.values()}
        for key in sorted(np.flatnonzero(doubtful).tolist(), key=firsts.__getitem__):
            values = tuple(column[int(firsts[key])].as_py() for column in columns)
            codes[key] = self._code_of(values, int(codes[key]), taken)
        return codes[keys]

    def _code_of(self, values: _Values, hashed: int, taken: set[int]) -> int:
        if values not in self._shared:
            code = hashed
            while code in taken:
                given = repr([code, *values]).encode()
                code = int.from_bytes(blake2b(given, digest_size=8).digest(), "little", signed=True)
            taken.add(code)
            self._shared[values] = hashed, code
        return self._shared[values][1]


def key_rows(payload: pa.Table, streams: NDArray[np.int8] | None, keys: Sequence[Sequence[str]]) -> pa.Table:
    """Returns the key columns of events, with the names of the first input; ``streams``: the input of each event."""
    if len({tuple(names) for names in keys}) == 1:
        return _decoded(payload.select(list(keys[0])))
    assert streams is not None  # there are several inputs
    places = [np.flatnonzero(streams == code) for code in range(len(keys))]
    parts = [
        payload.select(list(names)).take(pa.array(rows)).rename_columns(list(keys[0]))
        for names, rows in zip(keys, places, strict=True)
    ]
    joined = pa.concat_tables([_decoded(part) for part in parts], promote_options="permissive")  # int and long
    return joined.take(pa.array(np.argsort(np.concatenate(places))))


def _decoded(table: pa.Table) -> pa.Table:
    for place, column in enumerate(table.columns):
        if pa.types.is_dictionary(column.type):
            name = table.column_names[place]
            table = table.set_column(place, name, column.cast(column.type.value_type))
    return table


def _is_exact(column: pa.ChunkedArray) -> bool:
    return is_one_to_one(column.type) and not column.null_count


def _joined(parts: Sequence[pa.Array]) -> pa.Array:
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
        columns = {name: _column(name, [row[at] for row in rows], schema) for at, name in enumerate(key)}
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


def _column(name: str, values: Sequence[object], schema: pa.Schema) -> pa.Array:
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
