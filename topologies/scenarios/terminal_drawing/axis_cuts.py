"""Where an axis is cut: at stretches in which nothing happens, and which would squeeze the rest."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise


def cuts_of(points: Sequence[int]) -> list[int]:
    """Before which points to cut the axis: at most five gaps, each far longer than the others on average."""
    gaps = sorted((high - low, at) for at, (low, high) in enumerate(pairwise(points), 1))
    total = points[-1] - points[0]
    cuts: list[int] = []
    while len(gaps) > 2 and len(cuts) < 5 and gaps[-1][0] * (len(gaps) - 1) > 8 * (total - gaps[-1][0]):
        gap, at = gaps.pop()
        total -= gap
        cuts.append(at)
    return sorted(cuts)
