"""What ready bolts, joins and aggregates make of their windows, event by event and in exact numbers.

guide, "Ready bolts", "Two streams" and "Aggregates"; the docstrings of the bolts.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from math import sqrt
from typing import TYPE_CHECKING, Any

from tests.oracles.interpreter.values import FOREVER, Event, Json, in_order, milliseconds

if TYPE_CHECKING:
    from tests.oracles.interpreter.bolt import Bolt

Memory = dict[Any, Any]


def value(event: Event, column: str) -> Any:
    return event.fields.get(column)


def columns(event: Event, names: Iterable[str]) -> tuple[Any, ...]:
    return tuple(value(event, name) for name in names)


# ---- passing on, and holding back


def passes(make: list[Any], memory: Memory, event: Event) -> bool:
    """True if an event passes, by what has passed before it at its task."""
    match make:
        case ["deduplicate", by, within]:
            key = (event.task, *columns(event, by))
            if None in key:
                return True
            before = [time for time in memory.get(key, []) if event.time < time + within * 1000]
        case ["rate_limit", limit, by, per]:
            key = (event.task, *columns(event, by))
            near = [time for time in memory.get(key, []) if event.time - time < per * 1000]
            before = near if len(near) >= limit else []
        case ["changes", by, of, within]:
            key, now = (event.task, *columns(event, by)), columns(event, of)
            last = memory.get(key)
            same = last is not None and last[0] == now and (within is None or event.time - last[1] < within * 1000)
            if not same:
                memory[key] = now, event.time
            return not same
        case _:
            return True
    if not before:
        memory.setdefault(key, []).append(event.time)
    return not before


# ---- ranks


def ranked(make: list[Any], content: list[Event]) -> Iterator[Json]:
    """``TopN`` and ``Rank``: null last, then the first by time and arrival."""
    what, number, order_by, by, descending = make
    for group in groups(content, by):
        best = sorted(group, key=lambda e: (value(e, order_by) is None, _signed(value(e, order_by), descending)))
        for rank, event in enumerate(best, 1):
            better = [e for e in best if _before(value(e, order_by), value(event, order_by), descending)]
            shown = {"row_number": rank, "rank": len(better) + 1}
            shown["dense_rank"] = len({value(e, order_by) for e in better}) + 1
            if what == "rank" or rank <= number:
                yield {"id": event.id, "rank": shown[number] if what == "rank" else rank}


def _signed(of: Any, descending: bool) -> Any:
    return 0 if of is None else -of if descending else of


def _before(one: Any, other: Any, descending: bool) -> bool:
    if one is None or other is None:
        return one is not None and other is None
    return bool(one > other if descending else one < other)


def groups(content: list[Event], by: list[str]) -> list[list[Event]]:
    found: dict[Any, list[Event]] = {}
    for event in content:
        found.setdefault(columns(event, by), []).append(event)
    return list(found.values())


# ---- joins


def window_join(make: list[Any], content: list[Event]) -> Iterator[Json]:
    _, left, right, on, how = make
    lefts = [event for event in content if event.stream == left]
    rights = [event for event in content if event.stream == right]

    def partners(event: Event, others: list[Event]) -> list[Event]:
        key = columns(event, on)
        return [] if None in key else [other for other in others if columns(other, on) == key]

    for event in lefts:
        met = partners(event, rights)
        if (how == "semi" and met) or (how == "anti" and not met):
            yield {"id": event.id}
        if how not in ("semi", "anti"):
            yield from (pair(left, right, event, other) for other in met)
            if not met and how in ("left", "full"):
                yield pair(left, right, event, None)
    for event in rights:
        if how in ("right", "full") and not partners(event, lefts):
            yield pair(left, right, None, event)


def pair(left: str, right: str, one: Event | None, other: Event | None) -> Json:
    return {f"{left}_id": None if one is None else one.id, f"{right}_id": None if other is None else other.id}


def temporal_join(make: list[Any], memory: Memory, bolt: Bolt) -> Iterator[tuple[Json, int]]:
    """The rows that time has passed, each once, with their times."""
    _, left, right, on, how, versions = make
    for row, time, name in sorted(all_pairs(left, right, on, how, versions, bolt), key=lambda each: each[1]):
        if name not in memory and (bolt.over(None)(time + 1) or (bolt.closed and bolt.rules.close_fires)):
            memory[name] = True
            yield row, time


def moments_ahead(make: list[Any], memory: Memory, bolt: Bolt) -> list[int]:
    """The ends of the moments of rows that time has yet to pass."""
    _, left, right, on, how, versions = make
    return [time + 1 for _, time, name in all_pairs(left, right, on, how, versions, bolt) if name not in memory]


def all_pairs(
    left: str, right: str, on: list[str], how: str, versions: bool, bolt: Bolt
) -> Iterator[tuple[Json, int, Any]]:
    events = in_order(event for event in bolt.accepted if event.shape != "end_edge")
    ends = {event: event.until if event.until is not None else event.time + 1 for event in events}
    if versions:
        for event in events:
            if event.stream == right:
                later = [e for e in events if e.stream == right and columns(e, on) == columns(event, on)]
                after = later[later.index(event) + 1 :]
                own = event.until if event.until is not None else FOREVER
                ends[event] = min([own, *(e.time for e in after[:1])])
    lefts = [event for event in events if event.stream == left]
    rights = [event for event in events if event.stream == right]

    def partners(event: Event, others: list[Event]) -> list[Event]:
        key = columns(event, on)
        if None in key:
            return []
        return [
            e
            for e in others
            if columns(e, on) == key and e.task == event.task and max(e.time, event.time) < min(ends[e], ends[event])
        ]

    for event in lefts:
        met = partners(event, rights)
        if how == "semi" and met:
            yield {"id": event.id}, min(max(event.time, e.time) for e in met), event
        if how in ("left", "full", "anti") and not met:
            row = {"id": event.id} if how == "anti" else pair(left, right, event, None)
            yield row, ends[event], event
        if how not in ("semi", "anti"):
            for other in met:
                yield pair(left, right, event, other), max(event.time, other.time), (event, other)
    for event in rights:
        if how in ("right", "full") and not partners(event, lefts):
            yield pair(left, right, None, event), ends[event], event


# ---- aggregates


def aggregated(make: list[Any], content: list[Event], end: int, key: Json) -> Iterator[Json]:
    """A row for each group in the window; of one without events a row for its key."""
    _, by, named = make
    end = max(event.time for event in content) if end == -FOREVER else end  # by the clock an event ends a count
    for group in groups(content, by) or [[]]:
        row: Json = dict(zip(by, columns(group[0], by), strict=True)) if group else {name: key[name] for name in by}
        row |= {name: AGGREGATES[what](group, *given) for name, (what, *given) in named.items()}
        yield {**row, "till": milliseconds(end) if end < FOREVER else None}


def known(group: list[Event], *names: str) -> list[list[Fraction]]:
    """The values of some columns, of the events that have all of them."""
    rows = [columns(event, names) for event in group]
    kept = [[Fraction(each) for each in row] for row in rows if None not in row]
    return [list(column) for column in zip(*kept, strict=True)] if kept else [[] for _ in names]


def _total(group: list[Event], name: str) -> Any:
    (values,) = known(group, name)
    return float(sum(values)) if values else None


def _mean(group: list[Event], name: str) -> Any:
    (values,) = known(group, name)
    return float(sum(values) / len(values)) if values else None


def _moment(ones: list[Fraction], others: list[Fraction], ddof: int) -> Fraction | None:
    if len(ones) <= ddof:
        return None
    one, other = sum(ones, Fraction(0)) / len(ones), sum(others, Fraction(0)) / len(others)
    products = [(a - one) * (b - other) for a, b in zip(ones, others, strict=True)]
    return sum(products, Fraction(0)) / (len(ones) - ddof)


def _covariance(group: list[Event], one: str, other: str, ddof: int = 1) -> Any:
    ones, others = known(group, one, other)
    found = _moment(ones, others, ddof)
    return None if found is None else float(found)


def _deviation(group: list[Event], name: str) -> Any:
    found = _covariance(group, name, name)
    return None if found is None else sqrt(found)


def _correlation(group: list[Event], one: str, other: str) -> Any:
    ones, others = known(group, one, other)
    if not ones:
        return None
    first, second, both = (_moment(a, b, 0) for a, b in ((ones, ones), (others, others), (ones, others)))
    return float(both or 0) / sqrt(first * second) if first and second else None


def _weighted(group: list[Event], name: str, weight: str) -> Any:
    values, weights = known(group, name, weight)
    return float(sum(v * w for v, w in zip(values, weights, strict=True)) / sum(weights)) if sum(weights) else None


def _best(group: list[Event], number: int, name: str, by: str, sign: int) -> list[Any]:
    kept = sorted((e for e in group if value(e, by) is not None), key=lambda e: sign * value(e, by))
    return [value(event, name) for event in kept[:number]]


def _mode(group: list[Event], name: str) -> Any:
    values = [value(event, name) for event in group if value(event, name) is not None]
    return min(values, key=lambda each: (-values.count(each), each), default=None)


def _histogram(group: list[Event], name: str, edges: list[float]) -> list[int]:
    (values,) = known(group, name)
    bounds = [None, *edges, None]
    return [
        sum((low is None or v >= low) and (high is None or v < high) for v in values)
        for low, high in itertools.pairwise(bounds)
    ]


def _pick(group: list[Event], name: str, which: Callable[[Any], Any]) -> Any:
    (values,) = known(group, name)
    return float(which(values)) if values else None


AGGREGATES: dict[str, Callable[..., Any]] = {
    "count": lambda group, *names: sum(not names or value(e, names[0]) is not None for e in group),
    "sum": _total,
    "mean": _mean,
    "variance": lambda group, name: _covariance(group, name, name),
    "std": _deviation,
    "covariance": _covariance,
    "corr": _correlation,
    "weighted_mean": _weighted,
    "min": lambda group, name: _pick(group, name, min),
    "max": lambda group, name: _pick(group, name, max),
    "first": lambda group, name: value(group[0], name) if group else None,
    "last": lambda group, name: value(group[-1], name) if group else None,
    "collect": lambda group, name: [value(event, name) for event in group] or None,
    "distinct_count": lambda group, name: len({value(e, name) for e in group} - {None}),
    "mode": _mode,
    "histogram": _histogram,
    "max_by": lambda group, name, by: next(iter(_best(group, 1, name, by, -1)), None),
    "min_by": lambda group, name, by: next(iter(_best(group, 1, name, by, 1)), None),
    "top": lambda group, number, name, by: _best(group, number, name, by, -1) or None,
    "bottom": lambda group, number, name, by: _best(group, number, name, by, 1) or None,
}
