"""HTML and SVG: elements, tables, colours, and graphs of boxes and arrows laid out in layers (Sugiyama's method)."""

from __future__ import annotations

import html
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

from windowing.reprs import printable, shorten

# The colours of pages and pictures, on light and dark backgrounds, and their font.


# The colours of Okabe and Ito, which people with any colour vision can tell apart, darkened or lightened until text in
# them is readable. No two outcomes differ in colour alone.
LIGHT: Mapping[str, str] = {
    "surface": "#ffffff",
    "panel": "#f6f7f9",
    "text": "#1c2330",
    "dim": "#5d6675",
    "grid": "#e6e9ee",
    "rule": "#d4d9e1",
    "window": "#5b4bb3",
    "watermark": "#009e73",
    "watermark-text": "#00694d",
    "windowed": "#0072b2",
    "pending": "#5d6675",
    "late": "#b84500",
    "early": "#b07800",
    "adjusted": "#a8407f",
}
DARK: Mapping[str, str] = {
    "surface": "#14181f",
    "panel": "#1c222c",
    "text": "#e8ebf0",
    "dim": "#9aa4b2",
    "grid": "#262d38",
    "rule": "#38414e",
    "window": "#b3a6ff",
    "watermark": "#2fc796",
    "watermark-text": "#4fd9ac",
    "windowed": "#6bbdf0",
    "pending": "#a5afbd",
    "late": "#ff8f52",
    "early": "#f0b429",
    "adjusted": "#eb8fc4",
}
FONT = "system-ui,-apple-system,'Segoe UI',Roboto,'Liberation Sans','DejaVu Sans',sans-serif"


def page_colours() -> str:
    """Returns the CSS of a whole page: its font, and a palette that follows the system, or ``data-theme``."""
    light, dark = _variables(LIGHT), _variables(DARK)
    return (
        f":root{{color-scheme:light dark;--font:{FONT};{light}}}"
        f"@media (prefers-color-scheme:dark){{:root:not([data-theme=light]){{{dark}}}}}"
        f":root[data-theme=dark]{{color-scheme:dark;{dark}}}"
        f":root[data-theme=light]{{color-scheme:light}}"
    )


def _variables(palette: Mapping[str, str]) -> str:
    """Returns a palette as the declarations of CSS variables."""
    return "".join(f"--{name}:{colour};" for name, colour in palette.items())


# An element of HTML or SVG as text.


def element(name: str, *content: str, **attributes: object) -> str:
    """Returns an element with its attributes and its content, which must already be markup.

    In attribute names ``_`` stands for ``-``, and a trailing one is dropped (``class_``). Numbers get one decimal.
    Attributes with None or False are left out; True gives an attribute without a value.
    """
    attribute_text = "".join(
        _attribute(key, value) for key, value in attributes.items() if value is not None and value is not False
    )
    if name in ("rect", "circle", "path", "input", "meta", "link") and not content:
        return f"<{name}{attribute_text}/>" if name not in ("input", "meta", "link") else f"<{name}{attribute_text}>"
    return f"<{name}{attribute_text}>{''.join(content)}</{name}>"


def escaped(value: object, most: int = 400) -> str:
    """Returns a value as text for HTML or SVG: markup is escaped, control characters of terminals are removed, and text
    beyond ``most`` characters is cut."""
    return html.escape(printable(shorten(str(value), most)), quote=True)


def _attribute(key: str, value: object) -> str:
    name = key.removesuffix("_").replace("_", "-")
    if value is True:
        return f" {name}"
    value_text = f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)
    return f" {name}='{html.escape(printable(value_text), quote=True)}'"


# Pieces of HTML: text, tables, and the frame around the output of a notebook's cell.


_LONGEST_TEXT = 400
"""Most visible characters of a text."""

# Colours follow the page: currentColor is its text colour, and the --jp- variables are those of JupyterLab's themes.
# Fills are translucent, so they are readable on light and dark backgrounds.
_STYLE = """
.windbolt{--wb-text:var(--jp-content-font-color1,var(--vscode-editor-foreground,currentColor));
--wb-line:var(--jp-border-color1,rgba(128,128,128,.45));--wb-spout:#2f77c2;--wb-bolt:#b06a10;--wb-sink:#23855c;
--wb-good:#23855c;--wb-bad:#c9372c;color:var(--wb-text);font:13px/1.45 system-ui,sans-serif;overflow-x:auto}
@media (prefers-color-scheme:dark){.windbolt{--wb-spout:#5b9bdb;--wb-bolt:#d08b2e;--wb-sink:#3ba878;--wb-good:#3ba878;
--wb-bad:#e5625a}}
.windbolt h4{margin:2px 0 6px;font-size:14px;font-weight:600}
.windbolt p{margin:4px 0;white-space:pre-line}
.windbolt pre{margin:4px 0;color:inherit;background:none;font:12px/1.25 ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',
monospace;white-space:pre;overflow-x:auto}
.windbolt table{border-collapse:collapse;font:inherit;margin:4px 0;color:inherit;font-variant-numeric:tabular-nums}
.windbolt th,.windbolt td{padding:2px 10px 2px 0;text-align:left;background:none;border:0;
border-bottom:1px solid var(--wb-line);white-space:nowrap}
.windbolt details td:last-child{white-space:normal}
.windbolt .n{text-align:right}
.windbolt .dim{opacity:.75}
.windbolt .phase{border:1px solid currentColor;border-radius:9px;padding:0 8px;margin-left:6px;font-weight:400;
font-size:12px}
.windbolt .good{color:var(--wb-good)}
.windbolt .bad{color:var(--wb-bad)}
.windbolt svg{display:block;max-width:none}
""".replace("\n", "")


def text(value: object) -> str:
    """Returns a value as text of HTML, as ``escaped`` does; long values are cut."""
    return html.escape(printable(shorten(str(value), _LONGEST_TEXT), keep="\n"), quote=True)


def framed(*parts: str) -> str:
    """Returns parts of HTML in an element with their style, as output of a notebook's cell."""
    return f"<style>{_STYLE}</style><div class='windbolt'>{''.join(parts)}</div>"


def heading(title: object, note: str = "") -> str:
    """Returns a title, and HTML behind it."""
    return f"<h4>{text(title)}{note}</h4>"


def paragraph(words: object, kind: str = "") -> str:
    """Returns a paragraph; ``kind`` is a class of the style: ``dim``, ``good``, ``bad``."""
    return f"<p class='{kind}'>{text(words)}</p>"


def monospaced(picture: str) -> str:
    """Returns text in a monospaced font, uncut, so that characters align."""
    return f"<pre>{html.escape(printable(picture, keep=chr(10)))}</pre>"


def table(titles: Sequence[str], rows: Iterable[Sequence[object]], caption: str = "") -> str:
    """Returns a table; numbers stand to the right, with commas between thousands."""
    rows = list(rows)
    numeric = [
        bool(rows) and all(isinstance(row[column], int | float) for row in rows) for column in range(len(titles))
    ]
    cell_attributes = [" class='n'" if is_numeric else "" for is_numeric in numeric]
    head = "".join(
        f"<th scope='col'{attributes}>{text(title)}</th>"
        for title, attributes in zip(titles, cell_attributes, strict=True)
    )
    body = "".join(
        "<tr>"
        + "".join(
            f"<td{attributes}>{_cell(value)}</td>" for value, attributes in zip(row, cell_attributes, strict=True)
        )
        + "</tr>"
        for row in rows
    )
    caption_element = f"<caption class='dim' style='text-align:left'>{text(caption)}</caption>" if caption else ""
    return f"<table>{caption_element}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: object) -> str:
    return f"{value:,}" if isinstance(value, int | float) and not isinstance(value, bool) else text(value)


# Positions of the boxes of a graph: in layers from top to bottom, with few crossings (Sugiyama's method). This is our
# own code: libraries for it need a program beside Python (Graphviz) or lack this layout (networkx). Graphs have some
# twenty boxes.


_SWEEPS = 8
"""How often each layer is put in the order of its neighbours, down and up."""

Edge = tuple[str, str]
"""Arrow from one box to another, by their names."""


@dataclass(frozen=True)
class Layers:
    """The positions of the boxes of a graph."""

    centres: Mapping[str, float]
    """For each box, its centre's distance from the left."""
    layer: Mapping[str, int]
    """For each box, the number of its layer, from 0 at the top."""
    bends: Mapping[Edge, tuple[float, ...]]
    """For each edge, its distances from the left where it crosses the layers between its ends."""
    width: float


def lay_out(widths: Mapping[str, float], edges: Sequence[Edge], gap: float) -> Layers:
    """Places boxes of these widths; ``gap``: the least distance between two boxes of a layer."""
    back_edges, edges = _split_back_edges(edges)
    layer = _layers_of(list(widths), edges)
    bends = {
        edge: [f"{number}:{at}" for at in range(layer[edge[0]] + 1, layer[edge[1]])]
        for number, edge in enumerate(dict.fromkeys(edges))
    }
    all_widths = {**widths, **{name: 0.0 for bend_names in bends.values() for name in bend_names}}
    rows: list[list[str]] = [[] for _ in range(1 + max(layer.values(), default=-1))]
    for name in widths:
        rows[layer[name]].append(name)
    neighbours: dict[str, list[str]] = defaultdict(list)
    for (source, target), bend_names in bends.items():
        chain = [source, *bend_names, target]
        for at, name in enumerate(bend_names, layer[source] + 1):
            rows[at].append(name)
        for before, after in pairwise(chain):
            neighbours[before].append(after)
            neighbours[after].append(before)
    position = {name: (at, number) for at, row in enumerate(rows) for number, name in enumerate(row)}
    neighbours_above = {
        name: [each for each in neighbours[name] if position[each][0] < position[name][0]] for name in position
    }
    neighbours_below = {
        name: [each for each in neighbours[name] if position[each][0] > position[name][0]] for name in position
    }
    rows = _order_layers(rows, neighbours_above, neighbours_below)
    centres = _place_boxes(rows, all_widths, neighbours_above, neighbours_below, gap)
    leftmost = min((centres[name] - all_widths[name] / 2 for name in centres), default=0.0)
    centres = {name: centre - leftmost for name, centre in centres.items()}
    return Layers(
        {name: centres[name] for name in widths},
        layer,
        {
            **dict.fromkeys(back_edges, ()),
            **{edge: tuple(centres[name] for name in bend_names) for edge, bend_names in bends.items()},
        },
        max((centres[name] + all_widths[name] / 2 for name in centres), default=0.0),
    )


def _split_back_edges(edges: Sequence[Edge]) -> tuple[list[Edge], list[Edge]]:
    """Returns the edges that close a circle, and the other edges. Only unchecked graphs have circles."""
    reachable: dict[str, set[str]] = defaultdict(set)
    back_edges, other_edges = [], []
    for source, target in dict.fromkeys(edges):
        if source == target or source in reachable[target]:
            back_edges.append((source, target))
            continue
        other_edges.append((source, target))
        for name in [name for name in list(reachable) if name == source or source in reachable[name]] + [source]:
            reachable[name] |= {target, *reachable[target]}
    return back_edges, other_edges


def _layers_of(names: Sequence[str], edges: Sequence[Edge]) -> dict[str, int]:
    """Returns the layer of each box: the length of the longest way to it. A box without incoming edges stands right
    above the box that it leads to."""
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


def _order_layers(rows: list[list[str]], above: Neighbours, below: Neighbours) -> list[list[str]]:
    """Returns the layers with their boxes in another order: of the orders that some sweeps try, the one with the fewest
    crossings."""
    best, fewest = rows, _crossings(rows, below)
    for sweep in range(_SWEEPS):
        rows = [list(row) for row in rows]
        neighbours, order = (above, rows) if sweep % 2 == 0 else (below, rows[::-1])
        for row, reference in zip(order[1:], order, strict=False):
            number = {name: at for at, name in enumerate(reference)}
            neighbour_numbers = {name: [number[each] for each in neighbours[name]] for name in row}
            middle = {
                name: sum(numbers) / len(numbers) if numbers else float(at)
                for at, (name, numbers) in enumerate(neighbour_numbers.items())
            }
            row.sort(key=middle.__getitem__)
        if (crossings := _crossings(rows, below)) < fewest:
            best, fewest = rows, crossings
    return best


def _crossings(rows: Sequence[Sequence[str]], down: Neighbours) -> int:
    total = 0
    for row, below in pairwise(rows):
        number = {name: at for at, name in enumerate(below)}
        ends = [number[each] for name in row for each in sorted(down[name], key=number.__getitem__)]
        total += sum(later < end for at, end in enumerate(ends) for later in ends[at + 1 :])
    return total


def _place_boxes(
    rows: Sequence[Sequence[str]], widths: Mapping[str, float], above: Neighbours, below: Neighbours, gap: float
) -> dict[str, float]:
    """Returns the centre of each box: as near to the centre of its neighbours as the order of its layer allows."""
    centres: dict[str, float] = {}
    for row in rows:
        _place_layer(row, dict.fromkeys(row, 0.0), widths, gap, centres)
    for sweep in range(_SWEEPS):
        neighbours, order = (above, rows) if sweep % 2 == 0 else (below, rows[::-1])
        for row in order:
            wanted_centres = {
                name: sum(centres[each] for each in neighbours[name]) / len(neighbours[name])
                if neighbours[name]
                else centres[name]
                for name in row
            }
            _place_layer(row, wanted_centres, widths, gap, centres)
    return centres


def _place_layer(
    row: Sequence[str],
    wanted_centres: Mapping[str, float],
    widths: Mapping[str, float],
    gap: float,
    centres: dict[str, float],
) -> None:
    """Writes the centres of the boxes of a layer to ``centres``: as near as possible to the wanted centres (least
    squares), in order and without overlaps (pool adjacent violators)."""
    offsets, at = [], 0.0
    for number, name in enumerate(row):
        at += 0.0 if number == 0 else (widths[row[number - 1]] + widths[name]) / 2 + gap
        offsets.append(at)
    pools: list[tuple[float, int]] = []
    for name, offset in zip(row, offsets, strict=True):
        total, count = wanted_centres[name] - offset, 1
        while pools and pools[-1][0] / pools[-1][1] > total / count:
            total_before, count_before = pools.pop()
            total, count = total + total_before, count + count_before
        pools.append((total, count))
    shifts = [total / count for total, count in pools for _ in range(count)]
    centres.update({name: shift + offset for name, shift, offset in zip(row, shifts, offsets, strict=True)})


# A graph of boxes and arrows as SVG.


_LETTER_WIDTH, _LINE_HEIGHT, _PADDING = 6.7, 16, 10
"""Pixels: the width of a letter of 12 pixels on average, the height of a line, and the room around text."""
_LONGEST_LABEL = 40
"""Characters of a line in a box, and of a label; the whole text is in the title, which a pointer shows."""
_BOX_GAP, _LAYER_GAP = 36, 52
"""Pixels between two boxes of a layer, and between two layers."""
_STEEP_UP_TO = 24
"""Distance to the side in pixels from which on an arrow is not steep."""
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
        """Returns the lines of text in the box."""
        return [_shorten_line(line) for line in (self.name, *self.facts)]

    @property
    def width(self) -> float:
        """Width in pixels."""
        return max(len(line) for line in self.lines) * _LETTER_WIDTH + 2 * _PADDING

    @property
    def height(self) -> float:
        """Height in pixels."""
        return len(self.lines) * _LINE_HEIGHT + _PADDING


@dataclass(frozen=True)
class Arrow:
    """An arrow from a box to another, with a label."""

    source: str
    target: str
    label: str = ""


def as_svg(title: str, boxes: Sequence[Box], arrows: Sequence[Arrow]) -> str:
    """Returns the graph as SVG, from top to bottom. Arrows from or to an unknown box are left out.

    The SVG has a title and a description for people who do not see it.
    """
    by_name = {box.name: box for box in boxes}
    arrows = [each for each in arrows if each.source in by_name and each.target in by_name]
    widths = {name: box.width for name, box in by_name.items()}
    layers = lay_out(widths, [(each.source, each.target) for each in arrows], _BOX_GAP)
    tops, height = _tops(by_name, layers)
    labels = {(each.source, each.target): [] for each in arrows}  # type: dict[tuple[str, str], list[str]]
    for each in arrows:
        labels[each.source, each.target].append(each.label)
    elements = []
    left, right = 0.0, layers.width
    for ends, texts in labels.items():
        points = _points(by_name, layers, tops, ends)
        meets_others = sum(target == ends[1] for _, target in labels) > 1
        label = _Label.beside(points[-2:], ", ".join(filter(None, texts)), below=meets_others)
        elements.append(_arrow(ends, points, label))
        left, right = min(left, label.left), max(right, label.right)
    elements += [_box(box, layers.centres[name], tops[layers.layer[name]]) for name, box in by_name.items()]
    width = right - left + 2 * _MARGIN
    words = f"{', '.join(f'{box.kind} {box.name}' for box in boxes)}. " + ", ".join(
        f"{each.source} to {each.target}" for each in arrows
    )
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' role='img' width='{width:.0f}' height='{height:.0f}' "
        f"viewBox='{left - _MARGIN:.0f} {-_MARGIN} {width:.0f} {height:.0f}' "
        f"font-family='system-ui,sans-serif' font-size='12'>"
        f"<title>{text(title)}</title><desc>{text(words)}</desc>{''.join(elements)}</svg>"
    )


def _tops(boxes: Mapping[str, Box], layers: Layers) -> tuple[list[float], float]:
    """Returns the top of each layer, and the total height."""
    tops, at = [], 0.0
    for number in range(1 + max(layers.layer.values(), default=-1)):
        tops.append(at)
        at += max(box.height for name, box in boxes.items() if layers.layer[name] == number) + _LAYER_GAP
    return tops, max(at - _LAYER_GAP, 0.0) + 2 * _MARGIN


def _box(box: Box, centre: float, top: float) -> str:
    left, colour = centre - box.width / 2, f"var(--wb-{box.kind},currentColor)"
    round_ = 4 if box.kind == "bolt" else box.height / 2
    style = (" font-weight='600'", " opacity='.8'")
    lines = "".join(
        f"<text x='{centre:.1f}' y='{top + _LINE_HEIGHT * (number + 1) + 1:.1f}' text-anchor='middle' "
        f"fill='currentColor'{style[number > 0]}>{text(line)}</text>"
        for number, line in enumerate(box.lines)
    )
    title = "\n".join([f"{box.kind} {box.name}", *box.facts])
    return (
        f"<g><title>{text(title)}</title><rect x='{left:.1f}' y='{top:.1f}' width='{box.width:.1f}' "
        f"height='{box.height}' rx='{min(round_, 14)}' style='fill:{colour};stroke:{colour}' fill-opacity='.13' "
        f"stroke-width='1.5'/>{lines}</g>"
    )


_Point: TypeAlias = tuple[float, float]


def _points(boxes: Mapping[str, Box], layers: Layers, tops: Sequence[float], ends: tuple[str, str]) -> list[_Point]:
    """Returns the points where an arrow leaves its box, passes the layers between, and ends above the other box."""
    source, target = ends
    first_layer = layers.layer[source]
    points = [(layers.centres[source], tops[first_layer] + boxes[source].height)]
    for number, x in enumerate(layers.bends[ends], first_layer + 1):
        bottom = tops[number + 1] - _LAYER_GAP
        points += [(x, tops[number]), (x, bottom)]
    return [*points, (layers.centres[target], tops[layers.layer[target]] - 5)]


@dataclass(frozen=True)
class _Label:
    """The words beside the last bend of an arrow."""

    whole: str
    x: float
    y: float
    side: int
    """1 for a line that begins at ``x``, -1 for one that ends there."""

    @staticmethod
    def beside(bend: Sequence[_Point], whole: str, *, below: bool) -> _Label:
        """Places the label above the line, on the side where the line falls away; or below it, on the other side, if
        other arrows come from the side above."""
        (a, b), (c, d) = bend
        side, drop = (1, -3) if c > a + _STEEP_UP_TO else (-1, -3) if c < a - _STEEP_UP_TO else (1, 4)
        if below and drop < 0:
            side, drop = -side, 11
        return _Label(whole, (a + c) / 2 + 5 * side, (b + d) / 2 + drop, side)

    @property
    def left(self) -> float:
        """Left end of the label."""
        return self.x if self.side > 0 else self.x - self._width

    @property
    def right(self) -> float:
        """Right end of the label."""
        return self.x + self._width if self.side > 0 else self.x

    @property
    def _width(self) -> float:
        return len(_shorten_line(self.whole)) * _LETTER_WIDTH

    def svg(self) -> str:
        """Returns the words as SVG; empty if there are none."""
        anchor = "start" if self.side > 0 else "end"
        return self.whole and (
            f"<text x='{self.x:.1f}' y='{self.y:.1f}' fill='currentColor' opacity='.8' font-size='11' "
            f"text-anchor='{anchor}'>{text(_shorten_line(self.whole))}</text>"
        )


def _arrow(ends: tuple[str, str], points: Sequence[_Point], label: _Label) -> str:
    """Returns a line with an arrowhead, bent so that it leaves and enters boxes vertically."""
    line = f"M{points[0][0]:.1f} {points[0][1]:.1f}"
    for (x, y), (to_x, to_y) in pairwise(points):
        middle = (y + to_y) / 2
        line += f"C{x:.1f} {middle:.1f} {to_x:.1f} {middle:.1f} {to_x:.1f} {to_y:.1f}"
    x, y = points[-1]
    arrowhead = f"M{x - 4:.1f} {y - 2:.1f}L{x + 4:.1f} {y - 2:.1f}L{x:.1f} {y + 4.5:.1f}Z"
    words = " to ".join(ends) + (f": {label.whole}" if label.whole else "")
    return (
        f"<g fill='none' stroke='currentColor' stroke-opacity='.6' stroke-width='1.3'><title>{text(words)}</title>"
        f"<path d='{line}'/></g><path d='{arrowhead}' fill='currentColor' opacity='.7'/>{label.svg()}"
    )


def _shorten_line(line: str) -> str:
    return line if len(line) <= _LONGEST_LABEL else f"{line[: _LONGEST_LABEL - 1]}…"
