"""Permutations that sort: stable, whatever the keys are."""

from __future__ import annotations

import numpy as np
import pytest

from windowing.columns import hash_order, order_within, pair_order, stable_order

SPANS = [1, 2, 1 << 15, (1 << 16) - 1, 1 << 16, (1 << 16) + 1, (1 << 32) - 1, 1 << 32, 1 << 40, (1 << 63) - 1]


@pytest.mark.parametrize("span", SPANS)
@pytest.mark.parametrize("count", [0, 1, 2, 511, 512, 5_000])
@pytest.mark.parametrize("low", [0, -(1 << 62), 1_700_000_000_000_000])
def test_equal_keys_keep_their_order(span: int, count: int, low: int) -> None:
    chance = np.random.default_rng([span % 1000, count])
    highest = min(low + span, (1 << 63) - 1)
    keys = chance.integers(low, highest, count, endpoint=True)
    keys[: count // 4] = keys[count // 2 : count // 2 + count // 4]  # some are there twice
    keys[:1], keys[1:2] = highest, low
    assert stable_order(keys).tolist() == np.argsort(keys, kind="stable").tolist()
    assert hash_order(keys).tolist() == np.argsort(keys, kind="stable").tolist()
    others = chance.integers(0, 5, count)
    assert pair_order(others, keys).tolist() == np.lexsort((keys, others)).tolist()
    groups = np.sort(others)
    assert order_within(groups, keys).tolist() == np.lexsort((keys, groups)).tolist()


def test_equal_and_sorted_keys() -> None:
    assert stable_order(np.zeros(1_000, np.int64)).tolist() == list(range(1_000))
    assert stable_order(np.arange(100_000)).tolist() == list(range(100_000))
