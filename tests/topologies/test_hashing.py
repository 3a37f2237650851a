"""The hash of the fields grouping: what its documentation says, with the same values forever."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from topologies.graph.fields_hash import hash_rows, tell_apart
from topologies.graph.groupings import FieldsGrouping

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
        "import pyarrow as pa; from topologies.graph.fields_hash import hash_rows; "
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


@given(st.lists(st.sampled_from(sorted(COLUMNS)), min_size=1, max_size=2), st.data())
def test_different_keys_have_different_hashes_and_equal_ones_the_same(kinds: list[str], data: st.DataObject) -> None:
    """Every key is given one of two hashes: the first of each keeps it."""
    count = data.draw(st.integers(0, 8))
    columns = [
        pa.chunked_array([pa.array([data.draw(COLUMNS[kind][1]) for _ in range(count)], COLUMNS[kind][0])])
        for kind in kinds
    ]
    keys = [str([None if each is None else each + 0.0 if isinstance(each, float) else each for each in row])
            for row in zip(*(column.to_pylist() for column in columns), strict=True)]  # fmt: skip
    given_hashes = {key: data.draw(st.sampled_from([7, LIKE_NULL])) for key in dict.fromkeys(keys)}
    if len(kinds) == 1 and kinds[0] not in ("texts", "dictionaries", "decimals", "lists"):
        given_hashes = dict(zip(keys, hash_rows(pa.table(columns, ["k"]), ["k"]).view(np.int64).tolist(), strict=True))
    before = np.array([given_hashes[key] for key in keys], np.int64)
    after = tell_apart(before, columns).tolist()
    assert len(set(zip(keys, after, strict=True))) == len(set(keys)) == len(set(after))
    first = dict[int, int]()
    for hashed, told in zip(before.tolist(), after, strict=True):
        assert first.setdefault(hashed, told) == hashed


def test_the_hash_of_a_key_with_that_of_another_follows_from_its_values() -> None:
    def apart(values: list[str]) -> dict[str, int]:
        found = tell_apart(np.full(len(values), 7), [pa.chunked_array([pa.array(values)])])
        return dict(zip(values, found.tolist(), strict=True))

    assert apart(["x", "a", "b"])["b"] == apart(["x", "b"])["b"] == apart(["a", "b"])["b"]
