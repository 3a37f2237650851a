"""Where the boxes of a graph stand: in layers from top to bottom, with few crossings (Sugiyama's method).

Our own, since the libraries that do this are a program beside Python (Graphviz) or lack this layout (networkx); graphs
have some twenty boxes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

_SWEEPS = 8
"""Times that each layer is put in the order of its neighbours, down and up."""

Edge = tuple[str, str]
"""From one box to another, by their names."""


@dataclass(frozen=True)
class Layers:
    """The places of the boxes of a graph."""

    centres: Mapping[str, float]
    """By box: how far its middle is from the left."""
    layer: Mapping[str, int]
    """By box: which layer it is in, from 0 at the top."""
    ways: Mapping[Edge, tuple[float, ...]]
    """By edge: where it crosses the layers between its ends, from the left."""
    width: float


def layered(widths: Mapping[str, float], edges: Sequence[Edge], gap: float) -> Layers:
    """Place boxes of these widths; ``gap`` is the least distance between two of a layer."""
    back, edges = _circles_broken(edges)
    layer = _layers_of(list(widths), edges)
    ways = {
        edge: [f"{number}:{at}" for at in range(layer[edge[0]] + 1, layer[edge[1]])]
        for number, edge in enumerate(dict.fromkeys(edges))
    }
    all_widths = {**widths, **{name: 0.0 for way in ways.values() for name in way}}
    rows: list[list[str]] = [[] for _ in range(1 + max(layer.values(), default=-1))]
    for name in widths:
        rows[layer[name]].append(name)
    neighbours: dict[str, list[str]] = defaultdict(list)
    for (source, target), way in ways.items():
        chain = [source, *way, target]
        for at, name in enumerate(way, layer[source] + 1):
            rows[at].append(name)
        for before, after in pairwise(chain):
            neighbours[before].append(after)
            neighbours[after].append(before)
    place = {name: (at, number) for at, row in enumerate(rows) for number, name in enumerate(row)}
    up = {name: [each for each in neighbours[name] if place[each][0] < place[name][0]] for name in place}
    down = {name: [each for each in neighbours[name] if place[each][0] > place[name][0]] for name in place}
    rows = _ordered(rows, up, down)
    centres = _placed(rows, all_widths, up, down, gap)
    left = min((centres[name] - all_widths[name] / 2 for name in centres), default=0.0)
    centres = {name: centre - left for name, centre in centres.items()}
    return Layers(
        {name: centres[name] for name in widths},
        layer,
        {**dict.fromkeys(back, ()), **{edge: tuple(centres[name] for name in way) for edge, way in ways.items()}},
        max((centres[name] + all_widths[name] / 2 for name in centres), default=0.0),
    )


def _circles_broken(edges: Sequence[Edge]) -> tuple[list[Edge], list[Edge]]:
    """The edges that close a circle, and the others; only what has not been checked yet has circles."""
    below: dict[str, set[str]] = defaultdict(set)
    back, kept = [], []
    for source, target in dict.fromkeys(edges):
        if source == target or source in below[target]:
            back.append((source, target))
            continue
        kept.append((source, target))
        for name in [name for name in list(below) if name == source or source in below[name]] + [source]:
            below[name] |= {target, *below[target]}
    return back, kept


def _layers_of(names: Sequence[str], edges: Sequence[Edge]) -> dict[str, int]:
    """The longest way to each box; what nothing leads to stands right above what it leads to."""
    layer = dict.fromkeys(names, 0)
    for _ in names:
        for source, target in edges:
            layer[target] = max(layer[target], layer[source] + 1)
    targets = {target for _, target in edges}
    for name in names:
        below = [layer[target] for source, target in edges if source == name]
        if name not in targets and below:
            layer[name] = min(below) - 1
    return layer


Neighbours = Mapping[str, Sequence[str]]


def _ordered(rows: list[list[str]], up: Neighbours, down: Neighbours) -> list[list[str]]:
    """The layers in the order with the fewest crossings that some sweeps find."""
    best, fewest = rows, _crossings(rows, down)
    for sweep in range(_SWEEPS):
        rows = [list(row) for row in rows]
        beside, order = (up, rows) if sweep % 2 == 0 else (down, rows[::-1])
        for row, reference in zip(order[1:], order, strict=False):
            number = {name: at for at, name in enumerate(reference)}
            known = {name: [number[each] for each in beside[name]] for name in row}
            middle = {
                name: sum(places) / len(places) if places else float(at)
                for at, (name, places) in enumerate(known.items())
            }
            row.sort(key=middle.__getitem__)
        if (crossings := _crossings(rows, down)) < fewest:
            best, fewest = rows, crossings
    return best


def _crossings(rows: Sequence[Sequence[str]], down: Neighbours) -> int:
    total = 0
    for row, below in pairwise(rows):
        number = {name: at for at, name in enumerate(below)}
        ends = [number[each] for name in row for each in sorted(down[name], key=number.__getitem__)]
        total += sum(later < end for at, end in enumerate(ends) for later in ends[at + 1 :])
    return total


def _placed(
    rows: Sequence[Sequence[str]], widths: Mapping[str, float], up: Neighbours, down: Neighbours, gap: float
) -> dict[str, float]:
    """The middle of each box: as near to the middle of its neighbours as the order of its layer allows."""
    centres: dict[str, float] = {}
    for row in rows:
        _settle(row, dict.fromkeys(row, 0.0), widths, gap, centres)
    for sweep in range(_SWEEPS):
        beside, order = (up, rows) if sweep % 2 == 0 else (down, rows[::-1])
        for row in order:
            wanted = {
                name: sum(centres[each] for each in beside[name]) / len(beside[name]) if beside[name] else centres[name]
                for name in row
            }
            _settle(row, wanted, widths, gap, centres)
    return centres


def _settle(
    row: Sequence[str], wanted: Mapping[str, float], widths: Mapping[str, float], gap: float, centres: dict[str, float]
) -> None:
    """Place a layer: least squares from what is wanted, in order and without overlaps (pool adjacent violators)."""
    offsets, at = [], 0.0
    for number, name in enumerate(row):
        at += 0.0 if number == 0 else (widths[row[number - 1]] + widths[name]) / 2 + gap
        offsets.append(at)
    pools: list[tuple[float, int]] = []
    for name, offset in zip(row, offsets, strict=True):
        total, count = wanted[name] - offset, 1
        while pools and pools[-1][0] / pools[-1][1] > total / count:
            before, several = pools.pop()
            total, count = total + before, count + several
        pools.append((total, count))
    shifts = [total / count for total, count in pools for _ in range(count)]
    centres.update({name: shift + offset for name, shift, offset in zip(row, shifts, offsets, strict=True)})
