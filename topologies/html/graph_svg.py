"""A graph of boxes and arrows as SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

from topologies.html.layers import Layers, layered
from topologies.html.pieces import text

_LETTER, _LINE, _PAD = 6.7, 16, 10
"""Pixels: the width of a letter of 12 pixels on average, the height of a line, and the room around text."""
_LONGEST = 40
"""Characters of a line in a box, and of a label; the whole is in the title, which a pointer shows."""
_GAP, _BETWEEN = 36, 52
"""Pixels between two boxes of a layer, and between two layers."""
_STEEP = 24
"""Pixels to the side, from which on an arrow is not steep."""
_MARGIN = 3
"""Pixels around the whole."""


@dataclass(frozen=True)
class Box:
    """A part of the graph: its lines, the first one its name."""

    name: str
    kind: str
    """A class of the style: ``spout``, ``bolt`` or ``sink``."""
    facts: tuple[str, ...] = ()

    @property
    def lines(self) -> list[str]:
        """What is written into it."""
        return [_short(line) for line in (self.name, *self.facts)]

    @property
    def width(self) -> float:
        """Pixels."""
        return max(len(line) for line in self.lines) * _LETTER + 2 * _PAD

    @property
    def height(self) -> float:
        """Pixels."""
        return len(self.lines) * _LINE + _PAD


@dataclass(frozen=True)
class Arrow:
    """An arrow from a box to another, with a label."""

    source: str
    target: str
    label: str = ""


def as_svg(title: str, boxes: Sequence[Box], arrows: Sequence[Arrow]) -> str:
    """The graph as SVG, from top to bottom; arrows from or to a box that is not there are left out.

    It has a title and a description for who does not see it.
    """
    by_name = {box.name: box for box in boxes}
    arrows = [each for each in arrows if each.source in by_name and each.target in by_name]
    widths = {name: box.width for name, box in by_name.items()}
    layers = layered(widths, [(each.source, each.target) for each in arrows], _GAP)
    tops, height = _tops(by_name, layers)
    labels = {(each.source, each.target): [] for each in arrows}  # type: dict[tuple[str, str], list[str]]
    for each in arrows:
        labels[each.source, each.target].append(each.label)
    drawn = []
    left, right = 0.0, layers.width
    for ends, texts in labels.items():
        points = _points(by_name, layers, tops, ends)
        meets_others = sum(target == ends[1] for _, target in labels) > 1
        label = _Label.beside(points[-2:], ", ".join(filter(None, texts)), below=meets_others)
        drawn.append(_arrow(ends, points, label))
        left, right = min(left, label.left), max(right, label.right)
    drawn += [_box(box, layers.centres[name], tops[layers.layer[name]]) for name, box in by_name.items()]
    width = right - left + 2 * _MARGIN
    words = f"{', '.join(f'{box.kind} {box.name}' for box in boxes)}. " + ", ".join(
        f"{each.source} to {each.target}" for each in arrows
    )
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' role='img' width='{width:.0f}' height='{height:.0f}' "
        f"viewBox='{left - _MARGIN:.0f} {-_MARGIN} {width:.0f} {height:.0f}' "
        f"font-family='system-ui,sans-serif' font-size='12'>"
        f"<title>{text(title)}</title><desc>{text(words)}</desc>{''.join(drawn)}</svg>"
    )


def _tops(boxes: Mapping[str, Box], layers: Layers) -> tuple[list[float], float]:
    """Where each layer begins, and the height of all."""
    tops, at = [], 0.0
    for number in range(1 + max(layers.layer.values(), default=-1)):
        tops.append(at)
        at += max(box.height for name, box in boxes.items() if layers.layer[name] == number) + _BETWEEN
    return tops, max(at - _BETWEEN, 0.0) + 2 * _MARGIN


def _box(box: Box, centre: float, top: float) -> str:
    left, colour = centre - box.width / 2, f"var(--wb-{box.kind},currentColor)"
    round_ = 4 if box.kind == "bolt" else box.height / 2
    look = (" font-weight='600'", " opacity='.8'")
    lines = "".join(
        f"<text x='{centre:.1f}' y='{top + _LINE * (number + 1) + 1:.1f}' text-anchor='middle' fill='currentColor'"
        f"{look[number > 0]}>{text(line)}</text>"
        for number, line in enumerate(box.lines)
    )
    whole = "\n".join([f"{box.kind} {box.name}", *box.facts])
    return (
        f"<g><title>{text(whole)}</title><rect x='{left:.1f}' y='{top:.1f}' width='{box.width:.1f}' "
        f"height='{box.height}' rx='{min(round_, 14)}' style='fill:{colour};stroke:{colour}' fill-opacity='.13' "
        f"stroke-width='1.5'/>{lines}</g>"
    )


_Point: TypeAlias = tuple[float, float]


def _points(boxes: Mapping[str, Box], layers: Layers, tops: Sequence[float], ends: tuple[str, str]) -> list[_Point]:
    """Where an arrow leaves its box, passes those between, and ends above the other one."""
    source, target = ends
    first = layers.layer[source]
    points = [(layers.centres[source], tops[first] + boxes[source].height)]
    for number, x in enumerate(layers.ways[ends], first + 1):
        bottom = tops[number + 1] - _BETWEEN
        points += [(x, tops[number]), (x, bottom)]
    return [*points, (layers.centres[target], tops[layers.layer[target]] - 5)]


@dataclass(frozen=True)
class _Label:
    """The words beside the last bend of an arrow."""

    whole: str
    x: float
    y: float
    side: int
    """1 if it begins at ``x``, -1 if it ends there."""

    @staticmethod
    def beside(bend: Sequence[_Point], whole: str, *, below: bool) -> _Label:
        """Above the line, on the side where it falls away; or below it, on the other side, where other arrows come
        from the side above."""
        (a, b), (c, d) = bend
        side, drop = (1, -3) if c > a + _STEEP else (-1, -3) if c < a - _STEEP else (1, 4)
        if below and drop < 0:
            side, drop = -side, 11
        return _Label(whole, (a + c) / 2 + 5 * side, (b + d) / 2 + drop, side)

    @property
    def left(self) -> float:
        """Where it begins."""
        return self.x if self.side > 0 else self.x - self._width

    @property
    def right(self) -> float:
        """Where it ends."""
        return self.x + self._width if self.side > 0 else self.x

    @property
    def _width(self) -> float:
        return len(_short(self.whole)) * _LETTER

    def svg(self) -> str:
        """The words; empty where there are none."""
        anchor = "start" if self.side > 0 else "end"
        return self.whole and (
            f"<text x='{self.x:.1f}' y='{self.y:.1f}' fill='currentColor' opacity='.8' font-size='11' "
            f"text-anchor='{anchor}'>{text(_short(self.whole))}</text>"
        )


def _arrow(ends: tuple[str, str], points: Sequence[_Point], label: _Label) -> str:
    """A line with its point, bent to leave and reach boxes from above."""
    way = f"M{points[0][0]:.1f} {points[0][1]:.1f}"
    for (x, y), (to_x, to_y) in pairwise(points):
        middle = (y + to_y) / 2
        way += f"C{x:.1f} {middle:.1f} {to_x:.1f} {middle:.1f} {to_x:.1f} {to_y:.1f}"
    x, y = points[-1]
    point = f"M{x - 4:.1f} {y - 2:.1f}L{x + 4:.1f} {y - 2:.1f}L{x:.1f} {y + 4.5:.1f}Z"
    words = " to ".join(ends) + (f": {label.whole}" if label.whole else "")
    return (
        f"<g fill='none' stroke='currentColor' stroke-opacity='.6' stroke-width='1.3'><title>{text(words)}</title>"
        f"<path d='{way}'/></g><path d='{point}' fill='currentColor' opacity='.7'/>{label.svg()}"
    )


def _short(line: str) -> str:
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"
