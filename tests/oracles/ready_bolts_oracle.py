"""What the ready bolts answer, said a second time: row by row, from their docstrings alone, nothing clever.

Rows are dicts in order of arrival with a time ``ts``; what comes back is in the order of the docstring.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

Row = dict[str, Any]


def in_order(rows: Iterable[Row]) -> list[Row]:
    """In order of time, then of arrival."""
    return sorted(rows, key=lambda row: row["ts"])


def same(one: Any, other: Any) -> bool:
    """Null equals null, NaN equals NaN, and 0.0 equals -0.0."""
    nan = isinstance(one, float) and isinstance(other, float) and math.isnan(one) and math.isnan(other)
    return nan or one == other


def deduplicated(rows: Iterable[Row], by: str, within: int) -> tuple[list[Row], list[Row]]:
    """What ``Deduplicate`` passes on, and the repeats."""
    passed: list[Row] = []
    repeats: list[Row] = []
    for row in in_order(rows):
        earlier = [other for other in passed if other[by] == row[by] and row["ts"] < other["ts"] + within]
        (repeats if row[by] is not None and earlier else passed).append(row)
    return passed, repeats


def limited(rows: Iterable[Row], n: int, by: str | None, per: int) -> tuple[list[Row], list[Row]]:
    """What ``RateLimit`` passes on, and what is over the limit."""
    passed: list[Row] = []
    over: list[Row] = []
    for row in in_order(rows):
        mine = [other for other in passed if by is None or same(other[by], row[by])]
        near = [other for other in mine if row["ts"] - other["ts"] < per]
        (passed if len(near) < n else over).append(row)
    return passed, over


def changes(rows: Iterable[Row], by: str, of: str, within: int | None) -> tuple[list[Row], list[Row]]:
    """What ``Changes`` passes on, and what has not changed."""
    passed: list[Row] = []
    unchanged: list[Row] = []
    for row in in_order(rows):
        mine = [other for other in passed if same(other[by], row[by])]
        differs = not mine or not same(mine[-1][of], row[of])
        long_ago = bool(mine) and within is not None and row["ts"] - mine[-1]["ts"] >= within
        (passed if differs or long_ago else unchanged).append(row)
    return passed, unchanged


def silences(rows: Iterable[Row], by: str | None, after: int, watermark: int) -> list[tuple[Row, int]]:
    """The rows that ``Silence`` emits until the watermark has come so far, and the moment of each."""
    found: list[tuple[Row, int]] = []
    ordered = in_order(rows)
    for place, row in enumerate(ordered):
        later = [other for other in ordered[place + 1 :] if by is None or same(other[by], row[by])]
        moment = row["ts"] + after
        if not any(other["ts"] < moment for other in later) and moment <= watermark:
            found.append((row, moment))
    return found


def ranked(window: list[Row], by: str | None, order_by: str, method: str, descending: bool) -> list[int]:
    """The rank of each row of a window, whose rows are in its order."""
    return [_rank(window, place, by, order_by, method, descending) for place in range(len(window))]


def _rank(window: list[Row], place: int, by: str | None, order_by: str, method: str, descending: bool) -> int:
    row = window[place]
    rivals = [(at, other) for at, other in enumerate(window) if by is None or same(other[by], row[by])]
    better = [other[order_by] for _, other in rivals if _better(other[order_by], row[order_by], descending)]
    if method == "rank":
        return 1 + len(better)
    if method == "dense_rank":
        distinct: list[Any] = []
        for value in better:
            if not any(same(value, other) for other in distinct):
                distinct.append(value)
        return 1 + len(distinct)
    before = [at for at, other in rivals if at < place and same(other[order_by], row[order_by])]
    return 1 + len(better) + len(before)


def _better(one: Any, other: Any, descending: bool) -> bool:
    """Null comes last either way; NaN is greater than all numbers."""
    if one is None or other is None:
        return one is not None and other is None
    if math.isnan(one) or math.isnan(other):
        greater = math.isnan(one) and not math.isnan(other)
        less = math.isnan(other) and not math.isnan(one)
    else:
        greater, less = one > other, one < other
    return bool(greater if descending else less)


def windows_of(rows: Iterable[Row], length: int, slide: int) -> list[tuple[int, list[Row]]]:
    """The ends of Storm's windows (end - length, end], and the rows of each in order of time, then of arrival."""
    listed = in_order(rows)
    if not listed:
        return []
    first = min(row["ts"] for row in listed)
    found = []
    end = -(-first // slide) * slide
    while end - length < listed[-1]["ts"]:
        held = [row for row in listed if end - length < row["ts"] <= end]
        if held:
            found.append((end, held))
        end += slide
    return found


def collected(
    rows: Iterable[Row], length: int, slide: int, answer: Callable[[int, list[Row]], Iterable[Any]]
) -> list[Any]:
    """What all windows answer, one after the other."""
    return [each for end, held in windows_of(rows, length, slide) for each in answer(end, held)]
