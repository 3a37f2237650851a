"""Windows that overlap, joined from slices by two stacks: at most three joins a slice, however many windows hold it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from windowing.aggregates.accumulators import Accumulator, DenseAccumulator, State

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Full = list[list[NDArray[Any]]]
    """Per accumulator its state, an entry for every key; the last is how many events there are."""

_MEMORY = 1 << 28
"""Bytes that the stacks may take."""
_TOGETHER = 1 << 19
"""Rows of the result that are given out together, about."""


def dense_is_cheaper(
    accumulators: Sequence[Accumulator], keys: int, rows: NDArray[np.int64], slices: NDArray[np.int64]
) -> bool:
    """Whether to join whole slices costs less than to join each window from its rows: it has an entry for every key.

    ``rows``, ``slices``: of each window.
    """
    if not all(isinstance(each, DenseAccumulator) for each in accumulators):
        return False
    columns = 1 + sum(len(each.columns) for each in accumulators)
    if keys * columns * 8 * int(slices.max()) > _MEMORY:
        return False
    joined = len(rows) * (3.0 * keys * columns + 30_000)
    alone = float(rows.sum()) * (20 + 6 * columns)
    return joined < alone


def overlapping(
    slices: DenseSlices, first: NDArray[np.int64], last: NDArray[np.int64]
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], list[State], NDArray[np.int64]]]:
    """Join windows, each the slices from ``first`` up to ``last``; neither ever decreases.

    Yields arrays with an entry per row of the result, in order of window and key: window, key, states and events.
    """
    stacks = _Stacks(slices)
    found: list[tuple[NDArray[np.int64], Full]] = []
    windows: list[int] = []
    waiting = 0
    for window, (begin, end) in enumerate(zip(first.tolist(), last.tolist(), strict=True)):
        full = stacks.window(begin, end)
        at = np.flatnonzero(full[-1][0])
        found.append((at, [[column[at] for column in state] for state in full]))
        windows.append(window)
        waiting += len(at)
        if waiting >= _TOGETHER:
            yield _together(windows, found)
            found, windows, waiting = [], [], 0
    if found:
        yield _together(windows, found)


class DenseSlices:
    """Slices one by one, each with an entry for every key.

    They are made of rows: row i is of key ``codes[i]``, one of so many ``keys``, and those of slice s are from
    ``edges[s]`` to ``edges[s + 1]``.
    """

    def __init__(
        self,
        accumulators: Sequence[Accumulator],
        keys: int,
        codes: NDArray[np.int64],
        edges: NDArray[np.int64],
        states: Sequence[State],
        events: NDArray[np.int64],
    ) -> None:
        self.accumulators = [each for each in accumulators if isinstance(each, DenseAccumulator)]
        self.keys, self.codes, self.edges = keys, codes, edges.tolist()
        self.columns: Full = [*states, [events]]

    def empty(self) -> Full:
        """A slice without events."""
        return [*(each.empty(self.keys) for each in self.accumulators), [np.zeros(self.keys, np.int64)]]

    def of(self, number: int) -> Full:
        """One of the slices."""
        low, high = self.edges[number], self.edges[number + 1]
        if high - low == self.keys:  # every key, and in their order
            return [[column[low:high] for column in state] for state in self.columns]
        full, at = self.empty(), self.codes[low:high]
        for state, columns in zip(full, self.columns, strict=True):
            for place, column in zip(state, columns, strict=True):
                place[at] = column[low:high]
        return full

    def joined(self, earlier: Full, later: Full) -> Full:
        """Two runs of slices as one."""
        found = [
            each.combined(before, after)
            for each, before, after in zip(self.accumulators, earlier[:-1], later[:-1], strict=True)
        ]
        return [*found, [earlier[-1][0] + later[-1][0]]]


class _Stacks:
    """A queue of slices of which all are joined at any time: what is added last lies on the back, the rest in front.

    ``front[i]`` is the slices from its i-th up to the end of the front, joined.
    """

    def __init__(self, slices: DenseSlices) -> None:
        self.slices = slices
        self.front: list[Full] = []
        self.front_start = self.front_end = self.back_end = 0
        self.back: Full | None = None

    def window(self, begin: int, end: int) -> Full:
        """The slices from begin up to end, joined."""
        if begin >= self.front_end:
            self._flip(begin, end)
        for number in range(self.back_end, end):
            one = self.slices.of(number)
            self.back = one if self.back is None else self.slices.joined(self.back, one)
        self.back_end = end
        front = self.front[begin - self.front_start]
        return front if self.back is None else self.slices.joined(front, self.back)

    def _flip(self, begin: int, end: int) -> None:
        joined = self.slices.of(end - 1)
        front = [joined]
        for number in range(end - 2, begin - 1, -1):
            joined = self.slices.joined(self.slices.of(number), joined)
            front.append(joined)
        self.front = front[::-1]
        self.front_start, self.front_end, self.back_end, self.back = begin, end, end, None


def _together(
    windows: list[int], found: list[tuple[NDArray[np.int64], Full]]
) -> tuple[NDArray[np.int64], NDArray[np.int64], list[State], NDArray[np.int64]]:
    codes = np.concatenate([at for at, _ in found])
    of_window = np.repeat(np.array(windows, np.int64), [len(at) for at, _ in found])
    states = [
        [np.concatenate(columns) for columns in zip(*of_one, strict=True)]
        for of_one in zip(*(full for _, full in found), strict=True)
    ]
    return of_window, codes, states[:-1], states[-1][0]
