"""Joins overlapping windows from slices with two stacks: at most three joins per slice, however many windows hold
it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from windowing.aggregates.accumulators import Accumulator, DenseAccumulator, State

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Full = list[list[NDArray[Any]]]
    """The state of each accumulator, with an entry for every key; the last item is the number of events."""

_MEMORY = 1 << 28
"""Maximum size of the stacks in bytes."""
_TOGETHER = 1 << 19
"""Approximate number of result rows per piece."""


def dense_is_cheaper(
    accumulators: Sequence[Accumulator], keys: int, rows: NDArray[np.int64], slices: NDArray[np.int64]
) -> bool:
    """Whether joining whole slices, with an entry for every key, is cheaper than joining each window from its rows.

    ``rows`` and ``slices`` are the numbers of rows and slices of each window.
    """
    if not all(isinstance(accumulator, DenseAccumulator) for accumulator in accumulators):
        return False
    columns = 1 + sum(len(accumulator.columns) for accumulator in accumulators)
    if keys * columns * 8 * int(slices.max()) > _MEMORY:
        return False
    joined = len(rows) * (3.0 * keys * columns + 30_000)
    alone = float(rows.sum()) * (20 + 6 * columns)
    return joined < alone


def overlapping(
    slices: DenseSlices, first: NDArray[np.int64], last: NDArray[np.int64]
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], list[State], NDArray[np.int64]]]:
    """Join windows, each of the slices from ``first`` up to ``last``; neither array ever decreases.

    Yields arrays with an entry per result row, in order of window and key: window, key, states, number of events.
    """
    stacks = _Stacks(slices)
    joined: list[tuple[NDArray[np.int64], Full]] = []
    windows: list[int] = []
    waiting = 0
    for window, (begin, end) in enumerate(zip(first.tolist(), last.tolist(), strict=True)):
        full = stacks.window(begin, end)
        codes = np.flatnonzero(full[-1][0])
        joined.append((codes, [[column[codes] for column in state] for state in full]))
        windows.append(window)
        waiting += len(codes)
        if waiting >= _TOGETHER:
            yield _together(windows, joined)
            joined, windows, waiting = [], [], 0
    if joined:
        yield _together(windows, joined)


class DenseSlices:
    """Slices, each with an entry for every key.

    They are made from rows: row i has the key ``codes[i]``, one of ``keys`` keys, and the rows of slice s are those
    from ``edges[s]`` to ``edges[s + 1]``.
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
        self.accumulators = [accumulator for accumulator in accumulators if isinstance(accumulator, DenseAccumulator)]
        self.keys, self.codes, self.edges = keys, codes, edges.tolist()
        self.columns: Full = [*states, [events]]

    def empty(self) -> Full:
        """A slice without events."""
        return [*(accumulator.empty(self.keys) for accumulator in self.accumulators), [np.zeros(self.keys, np.int64)]]

    def of(self, number: int) -> Full:
        """The slice of this number."""
        low, high = self.edges[number], self.edges[number + 1]
        if high - low == self.keys:  # every key, and in their order
            return [[column[low:high] for column in state] for state in self.columns]
        full, codes = self.empty(), self.codes[low:high]
        for state, columns in zip(full, self.columns, strict=True):
            for target, column in zip(state, columns, strict=True):
                target[codes] = column[low:high]
        return full

    def joined(self, earlier: Full, later: Full) -> Full:
        """Join two runs of slices."""
        states = [
            accumulator.combined(before, after)
            for accumulator, before, after in zip(self.accumulators, earlier[:-1], later[:-1], strict=True)
        ]
        return [*states, [earlier[-1][0] + later[-1][0]]]


class _Stacks:
    """A queue of slices whose join is always available: new slices are added to the back, windows leave from the front.

    ``front[i]`` is the join of the slices from its i-th up to the end of the front.
    """

    def __init__(self, slices: DenseSlices) -> None:
        self.slices = slices
        self.front: list[Full] = []
        self.front_start = self.front_end = self.back_end = 0
        self.back: Full | None = None

    def window(self, begin: int, end: int) -> Full:
        """The join of the slices from ``begin`` up to ``end``."""
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
    windows: list[int], joined: list[tuple[NDArray[np.int64], Full]]
) -> tuple[NDArray[np.int64], NDArray[np.int64], list[State], NDArray[np.int64]]:
    codes = np.concatenate([window_codes for window_codes, _ in joined])
    of_window = np.repeat(np.array(windows, np.int64), [len(window_codes) for window_codes, _ in joined])
    states = [
        [np.concatenate(columns) for columns in zip(*of_one, strict=True)]
        for of_one in zip(*(full for _, full in joined), strict=True)
    ]
    return of_window, codes, states[:-1], states[-1][0]
