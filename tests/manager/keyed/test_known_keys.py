"""The keys that are known, apart from the windows that make them known."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from manager.keyed.key_states import KnownKeys
from policies.watermarks import NONE

COLUMNS = pa.schema([("k", pa.string()), ("n", pa.int64())])


def known(*keys: tuple[int, str | None, int]) -> KnownKeys:
    """Keys by hash and columns."""
    found = KnownKeys.empty(COLUMNS)
    hashes = np.array([each for each, *_ in keys], np.int64)
    found.add(hashes, pa.table({"k": [k for _, k, _ in keys], "n": [n for *_, n in keys]}, COLUMNS))
    return found


def test_keys_are_in_order_of_their_hashes_wherever_they_come_in() -> None:
    found = known((5, "five", 1), (-3, None, 2))
    found.add(np.array([0]), pa.table({"k": ["zero"], "n": [3]}, COLUMNS))
    assert found.hashes.tolist() == [-3, 0, 5]
    assert found.ends.tolist() == [NONE] * 3
    assert found.values(found.indices(np.array([5, -3, 0, 5]))) == [("five", 1), (None, 2), ("zero", 3), ("five", 1)]


def test_what_is_known_is_told_from_what_is_new() -> None:
    assert known((5, "five", 1), (7, "seven", 1)).indices_of_new(np.array([5, 9, 9, 7, 4])).tolist() == [4, 1]


def test_the_last_end_of_a_key_counts() -> None:
    found = known((5, "five", 1), (7, "seven", 1))
    found.record_fired(np.array([1, 0, 1]), np.array([20, 10, 10]))
    assert found.ends.tolist() == [10, 20]
    found.keep(np.array([False, True]))
    assert found.table().to_pylist() == [{"_key_hash": 7, "_end": 20, "k": "seven", "n": 1}]


def test_the_table_that_keys_were_read_from_is_not_written_to() -> None:
    """It may be a segment, mapped from a file: writing to it would end the process."""
    found = known((5, "five", 1))
    found.record_fired(np.array([0]), np.array([10]))
    stored = found.table()
    restored = KnownKeys(stored)
    restored.record_fired(np.array([0]), np.array([99]))
    assert stored.to_pylist() == [{"_key_hash": 5, "_end": 10, "k": "five", "n": 1}]


def test_a_task_without_keys_has_one() -> None:
    found = KnownKeys.empty(pa.schema([]))
    found.add(np.zeros(1, np.int64), pa.table({}))
    found.record_fired(np.zeros(1, np.int64), np.array([10]))
    restored = KnownKeys(found.table())
    assert (restored.values(np.zeros(2, np.int64)), restored.ends.tolist()) == ([None, None], [10])
