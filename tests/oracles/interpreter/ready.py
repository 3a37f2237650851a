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

    def order(event: Event) -> Any:
        of = value(event, order_by)
        return of is None, 0 if of is None else -of if descending else of

    for group in groups(content, by):
        best = sorted(group, key=order)
        for rank, event in enumerate(best, 1):
            better = [order(each) for each in best if order(each) < order(event)]
            shown = {"row_number": rank, "rank": len(better) + 1, "dense_rank": len(set(better)) + 1}
            if what == "rank" or rank <= number:
                yield {"id": event.id, "rank": shown[number] if what == "rank" else rank}


def groups(content: list[Event], by: list[str]) -> list[list[Event]]:
    found: dict[Any, list[Event]] = {}
    for event in content:
        found.setdefault(columns(event, by), []).append(event)
    return list(found.values())


# ---- joins


def pair(left: str, right: str, one: Event | None, other: Event | None) -> Json:
    return {f"{left}_id": None if one is None else one.id, f"{right}_id": None if other is None else other.id}


def joined(
    make: list[Any], lefts: list[Event], rights: list[Event], meet: Callable[[Event, Event], bool]
) -> Iterator[tuple[Json, list[Event], bool]]:
    """The rows of a join, each with its events; and whether it is of one that has met none."""
    left, right, on, how = make[1:5]

    def partners(event: Event, others: list[Event]) -> list[Event]:
        key = columns(event, on)
        return [other for other in others if None not in key and columns(other, on) == key and meet(event, other)]

    for event in lefts:
        met = partners(event, rights)
        if how == "semi" and met:
            yield {"id": event.id}, [event, min(met, key=lambda each: each.time)], False
        elif how == "anti" and not met:
            yield {"id": event.id}, [event], True
        elif how in ("left", "full") and not met:
            yield pair(left, right, event, None), [event], True
        elif how not in ("semi", "anti"):
            yield from ((pair(left, right, event, other), [event, other], False) for other in met)
    for event in rights:
        if how in ("right", "full") and not partners(event, lefts):
            yield pair(left, right, None, event), [event], True


def window_join(make: list[Any], content: list[Event]) -> Iterator[Json]:
    lefts, rights = ([event for event in content if event.stream == stream] for stream in make[1:3])
    yield from (row for row, *_ in joined(make, lefts, rights, lambda one, other: True))


def temporal_join(make: list[Any], memory: Memory, bolt: Bolt) -> Iterator[tuple[Json, int]]:
    """The rows that time has passed, each once, with their times."""
    for row, time, name in sorted(all_pairs(make, bolt), key=lambda each: each[1]):
        if name not in memory and (bolt.over(None)(time + 1) or (bolt.closed and bolt.rules.close_fires)):
            memory[name] = True
            yield row, time


def moments_ahead(make: list[Any], memory: Memory, bolt: Bolt) -> list[int]:
    """The ends of the moments of rows that time has yet to pass."""
    return [time + 1 for _, time, name in all_pairs(make, bolt) if name not in memory]


def all_pairs(make: list[Any], bolt: Bolt) -> Iterator[tuple[Json, int, Any]]:
    """The rows of all events that have come, with the moment at which each is known, and what it is a row of."""
    events = in_order(event for event in bolt.accepted if event.shape != "end_edge")
    lefts, rights = ([event for event in events if event.stream == stream] for stream in make[1:3])
    ends = {event: event.until for event in events}
    if make[5]:  # versions: each lasts until the next one
        for group in groups(rights, make[3]):
            for event, other in itertools.pairwise(group):
                ends[event] = min(event.until, other.time)

    def meet(one: Event, other: Event) -> bool:
        return one.task == other.task and max(one.time, other.time) < min(ends[one], ends[other])

    for row, of, is_alone in joined(make, lefts, rights, meet):
        time = ends[of[0]] if is_alone else max(event.time for event in of)
        yield row, time, tuple(of) if make[4] not in ("semi", "anti") else of[0]


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


def of_values(which: Callable[[list[Fraction]], Any]) -> Callable[..., Any]:
    """Of the values of one column; null where there are none."""

    def found(group: list[Event], name: str) -> Any:
        (values,) = known(group, name)
        return float(which(values)) if values else None

    return found


def spread(ones: list[Fraction], others: list[Fraction], ddof: int) -> Fraction | None:
    """The covariance of two columns."""
    if len(ones) <= ddof:
        return None
    one, other = sum(ones, Fraction(0)) / len(ones), sum(others, Fraction(0)) / len(others)
    products = [(a - one) * (b - other) for a, b in zip(ones, others, strict=True)]
    return sum(products, Fraction(0)) / (len(ones) - ddof)


def covariance(group: list[Event], one: str, other: str | None = None) -> Any:
    ones, others = known(group, one, one if other is None else other)
    found = spread(ones, others, 1)
    return None if found is None else float(found)


def deviation(group: list[Event], name: str) -> Any:
    found = covariance(group, name)
    return None if found is None else sqrt(found)


def correlation(group: list[Event], one: str, other: str) -> Any:
    ones, others = known(group, one, other)
    first, second, both = (spread(a, b, 0) for a, b in ((ones, ones), (others, others), (ones, others)))
    return float(both or 0) / sqrt(first * second) if first and second else None


def weighted(group: list[Event], name: str, weight: str) -> Any:
    values, weights = known(group, name, weight)
    return float(sum(v * w for v, w in zip(values, weights, strict=True)) / sum(weights)) if sum(weights) else None


def best(group: list[Event], number: int, name: str, by: str, sign: int) -> list[Any]:
    kept = sorted((event for event in group if value(event, by) is not None), key=lambda e: sign * value(e, by))
    return [value(event, name) for event in kept[:number]]


def mode(group: list[Event], name: str) -> Any:
    values = [value(event, name) for event in group if value(event, name) is not None]
    return min(values, key=lambda each: (-values.count(each), each), default=None)


def histogram(group: list[Event], name: str, edges: list[float]) -> list[int]:
    (values,) = known(group, name)
    bounds = itertools.pairwise([float("-inf"), *edges, float("inf")])
    return [sum(low <= value < high for value in values) for low, high in bounds]


AGGREGATES: dict[str, Callable[..., Any]] = {
    "count": lambda group, *names: sum(not names or value(e, names[0]) is not None for e in group),
    "sum": of_values(sum),
    "mean": of_values(lambda values: sum(values) / len(values)),
    "min": of_values(min),
    "max": of_values(max),
    "variance": covariance,
    "std": deviation,
    "covariance": covariance,
    "corr": correlation,
    "weighted_mean": weighted,
    "first": lambda group, name: value(group[0], name) if group else None,
    "last": lambda group, name: value(group[-1], name) if group else None,
    "collect": lambda group, name: [value(event, name) for event in group] or None,
    "distinct_count": lambda group, name: len({value(e, name) for e in group} - {None}),
    "mode": mode,
    "histogram": histogram,
    "max_by": lambda group, name, by: next(iter(best(group, 1, name, by, -1)), None),
    "min_by": lambda group, name, by: next(iter(best(group, 1, name, by, 1)), None),
    "top": lambda group, number, name, by: best(group, number, name, by, -1) or None,
    "bottom": lambda group, number, name, by: best(group, number, name, by, 1) or None,
}
