"""Codes of keys: a number for each key of a task, which no other key of the task has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from manager.keyed.held import is_needed
from manager.keyed.held_segments import KEY_COLUMN
from topologies.graph.fields_hash import comparable, is_one_to_one, value_codes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from manager.keyed.held import Held
    from manager.storage.segments.ref import Ref
    from manager.storage.segments.segments import SegmentStore, SegmentWriter

HASH_COLUMN, CODE_COLUMN, _VALUE = "hash", "code", "value"

_Values: TypeAlias = tuple[Any, ...]
"""The values of a key as ``comparable`` gives them."""


class KeyCodes:
    """The codes of the keys of one task.

    The code of a key is its hash, unless another key of the task has that one already: then it is a number that follows
    from its hash and its values. Events are stored with their hashes, and get their codes whenever they are read; what
    a task keeps of keys from batch to batch (watermarks, firings, timers, rows that may be retracted) is kept by code.
    So the codes of keys that share a hash are stored, for as long as the task has something of them.
    """

    @classmethod
    def restored(cls, keys: Sequence[Sequence[str]], store: SegmentStore, ref: Ref | None) -> KeyCodes:
        """From what ``write`` has written; None where it wrote nothing."""
        return cls(keys, None if ref is None else store.read(ref))

    def __init__(self, keys: Sequence[Sequence[str]], stored: pa.Table | None = None) -> None:
        """``keys`` names the columns of the key of each input; none for no key. ``stored``: what ``table`` returned."""
        self._keys = [tuple(names) for names in keys]
        self._shared: dict[_Values, tuple[int, int]] = {}
        """The hash and the code of each key that shares its hash, or had to."""
        self._types: list[pa.DataType] = []
        """The types of the values."""
        if stored is not None:
            columns = [stored.column(name) for name in stored.column_names if name.startswith(_VALUE)]
            values = zip(*(column.to_pylist() for column in columns), strict=True)
            numbers = zip(stored.column(HASH_COLUMN).to_pylist(), stored.column(CODE_COLUMN).to_pylist(), strict=True)
            self._shared = dict(zip(values, numbers, strict=True))
            self._types = [column.type for column in columns]

    def __len__(self) -> int:
        """Number of keys whose codes are stored."""
        return len(self._shared)

    def apply(self, held: Held, known: Sequence[pa.Table] = ()) -> Held:
        """These events, in order of arrival, with the codes of their keys in place of the hashes.

        ``known`` are tables of what the task keeps of keys: their codes in ``KEY_COLUMN``, and the columns of the key.
        Such a key keeps its code if an event has another key of the same hash.
        """
        if held.keys is None or not any(self._keys):
            return held
        columns = key_rows(held.payload, held.streams, self._keys).columns
        codes = self._told_apart(held.keys, columns, known)
        return held if codes is held.keys else replace(held, keys=codes)

    def of_rows(self, rows: pa.Table, hashes: NDArray[np.int64], known: Sequence[pa.Table] = ()) -> NDArray[np.int64]:
        """The codes of keys that are given as rows with the columns of the key of the first input."""
        return self._told_apart(hashes, [rows.column(name) for name in self._keys[0]], known)

    def table(self) -> pa.Table | None:
        """The codes that must be stored; None where there are none."""
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
        """Write the codes that must be stored; None where there are none.

        ``events`` and ``flags``: the code and the flags of each event; keys of which the task has neither an event that
        is needed nor a row in ``known`` are forgotten first. None forgets none.
        """
        if self._shared and events is not None:
            assert flags is not None
            left = [table.column(KEY_COLUMN).to_numpy() for table in known]
            self.keep(np.concatenate([events[is_needed(flags)], *left]))
        table = self.table()
        return None if table is None else writer.add(table)

    def keep(self, codes: NDArray[np.int64]) -> None:
        """Forget the keys with other codes, of which the task has nothing any more."""
        left = set(codes.tolist())
        shared = {values: numbers for values, numbers in self._shared.items() if numbers[1] in left}
        times = Counter(hashed for hashed, _ in shared.values())
        self._shared = {
            values: (hashed, code) for values, (hashed, code) in shared.items() if code != hashed or times[hashed] > 1
        }

    def _told_apart(
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
        if not self._shared and count == pc.count_distinct(pa.array(hashes)).as_py():  # as many keys as hashes
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
    """The columns of the key of events, named as those of the first input; ``streams`` is the input of each event."""
    if len({tuple(names) for names in keys}) == 1 or streams is None:
        return _decoded(payload.select(list(keys[0])))
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
