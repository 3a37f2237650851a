"""The hash of the fields grouping: what its documentation says, with the same values forever."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manager.keyed.retained_events import RetainedEvents
from manager.storage.segments import KEY_COLUMN
from tests.helpers.examples import examples
from topologies.graph.groupings import FieldsGrouping, KeyCodes, hash_rows

MASK = (1 << 64) - 1


def hashes(*columns: Any) -> list[int]:
    names = [f"c{at}" for at in range(len(columns))]
    return [int(value) for value in hash_rows(pa.table(list(columns), names), names)]


# What the documentation says, word for word.


def mix(value: int) -> int:
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK
    return value ^ (value >> 31)


def of_bytes(value: bytes) -> int:
    total = len(value)
    for at, byte in enumerate(value):
        total += (byte + 1) * pow(1099511628211, len(value) - 1 - at, 1 << 64)
    return total & MASK


NULL = 0x9E3779B97F4A7C15


@given(st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1))))
def test_whole_numbers_are_themselves(values: list[int | None]) -> None:
    expected = [mix(NULL if value is None else value & MASK) for value in values]
    assert hashes(pa.array(values, pa.int64())) == expected


@pytest.mark.parametrize(
    "lengths", [[7] * 9, [7, 0, 7], [3, 5, 3, 1], range(40), [300, 2, 300], [1000]], ids=lambda each: f"{len(each)}"
)
def test_binaries_of_any_lengths_are_the_polynomial_of_their_bytes(lengths: Sequence[int]) -> None:
    values = [bytes((at * 37 + place * 11) % 256 for place in range(length)) for at, length in enumerate(lengths)]
    array = pa.array([b"before", *values, None], pa.binary())[1:]
    assert hashes(array) == [*(mix(of_bytes(value)) for value in values), mix(NULL)]


@given(st.lists(st.one_of(st.none(), st.text(max_size=20))))
def test_texts_are_the_polynomial_of_their_bytes(values: list[str | None]) -> None:
    expected = [mix(NULL if value is None else of_bytes(value.encode())) for value in values]
    assert hashes(pa.array(values, pa.string())) == expected
    assert hashes(pa.array(values, pa.large_string())) == expected
    if any(value is not None for value in values):
        assert hashes(pa.array(values, pa.string()).dictionary_encode()) == expected


@given(st.lists(st.floats()))
def test_floats_are_the_bits_of_the_double(values: list[float]) -> None:
    bits = [int(np.array(value + 0.0).view(np.uint64)) if value == value else None for value in values]
    nan = int(np.array(np.nan).view(np.uint64))
    assert hashes(pa.array(values, pa.float64())) == [mix(nan if each is None else each) for each in bits]


def test_several_fields_are_combined_from_the_left() -> None:
    first, second = mix(of_bytes(b"a")), mix(7)
    assert hashes(pa.array(["a"]), pa.array([7])) == [mix((first * 31 + second) & MASK)]
    assert hashes(pa.array([7]), pa.array(["a"])) != hashes(pa.array(["a"]), pa.array([7]))


def test_golden_values() -> None:
    assert hashes(pa.array([0, 1, -1])) == [0, 6238072747940578789, 13029008266876403067]
    assert hashes(pa.array(["", "a", "windbolt"])) == [0, mix(99), mix(of_bytes(b"windbolt"))]
    assert hashes(pa.array([None], pa.int8())) == [16294208416658607535]
    assert FieldsGrouping(("user",)).tasks(
        pa.table({"user": [f"user-{at}" for at in range(12)]}), np.arange(12), 4
    ).tolist() == [mix(of_bytes(f"user-{at}".encode())) % 4 for at in range(12)]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (pa.array([1, -5], pa.int8()), pa.array([1, -5], pa.int64())),
        (pa.array([200], pa.uint8()), pa.array([200], pa.int64())),
        (pa.array([2**63], pa.uint64()), pa.array([-(2**63)], pa.int64())),
        (pa.array([True, False, None]), pa.array([1, 0, None])),
        (pa.array([0.0]), pa.array([-0.0])),
        (pa.array([np.nan]), pa.array([-np.nan])),
        (pa.array([0.5], pa.float32()), pa.array([0.5], pa.float64())),
        (pa.array([date(1970, 1, 8)]), pa.array([7])),
        (pa.array([1_000], pa.timestamp("ms")), pa.array([1_000_000])),
        (pa.array([datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)], pa.timestamp("us", "Asia/Tokyo")), pa.array([10**6])),
        (pa.array(["a", None, "b", ""]).dictionary_encode(), pa.array(["a", None, "b", ""])),
        (pa.array(["x", "a", None, "a"]).dictionary_encode().slice(1), pa.array(["a", None, "a"])),
        (pa.array([7, 8, None]).dictionary_encode(), pa.array([7, 8, None])),
        (pa.array([None, None], pa.string()).dictionary_encode(), pa.array([None, None], pa.string())),
        (pa.array(["x", "ab", None, "c"]).slice(1, 2), pa.array(["ab", None])),
        (pa.array([9, 1, None]).slice(1), pa.array([1, None])),
        (pa.array([True, False, True]).slice(1), pa.array([False, True])),
        (pa.chunked_array([["a"], [], ["b", None]]), pa.array(["a", "b", None])),
        (
            pa.chunked_array([pa.array(["a", "b"]).dictionary_encode(), pa.array(["c", "a"]).dictionary_encode()]),
            pa.array(["a", "b", "c", "a"]),
        ),
        (pa.chunked_array([], pa.string()), pa.array([], pa.string())),
        (pa.array([b"ab"], pa.binary(2)), pa.array([b"ab"])),
        (pa.array(["ab"]), pa.array([b"ab"])),
        (pa.nulls(1), pa.array([None], pa.string())),
    ],
)
def test_equal_values_have_equal_hashes_however_they_are_kept(one: Any, other: Any) -> None:
    assert hashes(one) == hashes(other)


def test_near_values_have_different_hashes() -> None:
    near = ["", "a", "aa", "b", "ab", "ba", "\0", "\0\0", "a\0", None]
    assert len(set(hashes(pa.array(near)))) == len(near)


@pytest.mark.parametrize("tasks", [2, 3, 7, 8, 64])
@pytest.mark.parametrize(
    "values",
    [
        pa.array(range(20_000)),
        pa.array(range(0, 20_000_000, 1_000)),
        pa.array([f"user-{at}" for at in range(20_000)]),
        pa.array([float(at) for at in range(20_000)]),
    ],
    ids=["numbers", "thousands", "texts", "floats"],
)
def test_values_are_spread_over_the_tasks(values: pa.Array, tasks: int) -> None:
    found = FieldsGrouping(("c",)).tasks(pa.table({"c": values}), np.arange(len(values)), tasks)
    counts = np.bincount(found, minlength=tasks)
    assert counts.min() > 0.7 * len(values) / tasks
    assert counts.max() < 1.3 * len(values) / tasks


def test_another_process_gives_the_same() -> None:
    code = (
        "import pyarrow as pa; from topologies.graph.groupings import hash_rows; "
        "print([int(h) for h in hash_rows(pa.table({'a': ['x', 'y', None], 'b': [1.5, None, 2.0]}), ['a', 'b'])])"
    )
    here = hashes(pa.array(["x", "y", None]), pa.array([1.5, None, 2.0]))
    path = os.pathsep.join(each or os.getcwd() for each in sys.path)
    for seed in ("0", "1"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path}
        command = [sys.executable, "-c", code]
        found = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert found.stdout.strip() == str(here)


# ---- keys whose hashes are equal


LIKE_NULL = -7046029254386353131
COLUMNS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "numbers": (pa.int64(), st.sampled_from([None, LIKE_NULL, 0, 1])),
    "small ones": (pa.int8(), st.sampled_from([None, 1, 2])),
    "doubles": (pa.float64(), st.sampled_from([None, 0.0, -0.0, 1.5, float("nan")])),
    "texts": (pa.string(), st.sampled_from([None, "a", "b", ""])),
    "dictionaries": (pa.dictionary(pa.int8(), pa.string()), st.sampled_from([None, "a", "b"])),
    "decimals": (pa.decimal128(5, 2), st.sampled_from([None, 1, 2])),
    "flags": (pa.bool_(), st.sampled_from([None, True, False])),
    "lists": (pa.list_(pa.int64()), st.sampled_from([None, [1], [2, 3]])),
}


Rows = list[tuple[Any, ...]]


def held_of(kinds: list[str], rows: Rows, hashes: list[int]) -> RetainedEvents:
    columns = {f"k{at}": pa.array([row[at] for row in rows], COLUMNS[kind][0]) for at, kind in enumerate(kinds)}
    none = np.zeros(len(rows), np.int64)
    return RetainedEvents(times=none, payload=pa.table(columns), keys=np.array(hashes, np.int64))


@examples(40)
@given(st.lists(st.sampled_from(sorted(COLUMNS)), min_size=1, max_size=2), st.data())
def test_codes_tell_keys_apart_whatever_their_hashes_are_and_stay(kinds: list[str], data: st.DataObject) -> None:
    """Batch by batch, every key has one of few hashes. A key that is still there has the code that it had, no other key
    has that, and what has gone is forgotten."""
    names = [[f"k{at}" for at in range(len(kinds))]]
    stored: pa.Table | None = None
    alive: dict[str, tuple[tuple[Any, ...], int]] = {}
    hashes: dict[str, int] = {}
    for _ in range(data.draw(st.integers(1, 4))):
        rows: Rows = [row for row, _ in alive.values()]
        rows += data.draw(st.lists(st.tuples(*(COLUMNS[kind][1] for kind in kinds)), max_size=5))
        keys = [str([each + 0.0 if isinstance(each, float) else each for each in row]) for row in rows]
        for key in keys:
            hashes.setdefault(key, data.draw(st.sampled_from([7, LIKE_NULL])))
        held = held_of(kinds, rows, [hashes[key] for key in keys])
        if len(kinds) == 1 and kinds[0] not in ("texts", "dictionaries", "decimals", "lists"):
            held = replace(held, keys=hash_rows(held.payload, names[0]).view(np.int64))
        codes = KeyCodes(names, stored)
        found = codes.apply(held).keys
        assert found is not None
        of_key = dict(zip(keys, found.tolist(), strict=True))
        assert len(set(zip(keys, found.tolist(), strict=True))) == len(set(keys)) == len(set(of_key.values()))
        assert {key: of_key[key] for key in alive} == {key: code for key, (_, code) in alive.items()}
        left = data.draw(st.sets(st.sampled_from(sorted(set(keys))))) if keys else set()
        alive = {key: (row, of_key[key]) for key, row in zip(keys, rows, strict=True) if key in left}
        codes.keep(np.array([code for _, code in alive.values()], np.int64))
        stored = codes.table()
        assert stored is None or stored.num_rows <= len(alive)


def test_a_key_of_which_something_is_kept_keeps_its_code() -> None:
    kept = pa.table({KEY_COLUMN: pa.array([7], pa.int64()), "k0": ["mine"]})
    assert KeyCodes([["k0"]]).apply(held_of(["texts"], [("other",), ("mine",)], [7, 7]), [kept]).keys[1] == 7  # type: ignore[index]


def test_a_code_is_never_the_hash_of_another_key() -> None:
    """Not even of one that was made to be."""
    first = KeyCodes([["k0"]]).apply(held_of(["texts"], [("a",), ("b",)], [7, 7])).keys
    assert first is not None
    made = KeyCodes([["k0"]]).apply(held_of(["texts"], [("a",), ("b",), ("c",)], [7, 7, int(first[1])])).keys
    assert made is not None
    assert len(set(made.tolist())) == 3


def test_structs_whose_fields_are_equal_for_the_hash_are_one_key() -> None:
    """0.0 and -0.0 are one value, at any depth; a null struct is another one than a struct of nulls."""
    kind = pa.struct([("a", pa.struct([("b", pa.float64())])), ("c", pa.int64())])
    values: list[Any] = [{"a": {"b": b}, "c": 1} for b in (0.0, -0.0, float("nan"), None)]
    table = pa.table({"k0": pa.array([*values, {"a": None, "c": 1}, None], kind)})
    held = RetainedEvents(times=np.arange(6), payload=table, keys=np.full(6, 7, np.int64))
    found = KeyCodes([["k0"]]).apply(held).keys
    assert found is not None
    assert found[0] == found[1]
    assert len(set(found.tolist())) == 5
    hashes = hash_rows(table, ["k0"])
    assert hashes[0] == hashes[1]
