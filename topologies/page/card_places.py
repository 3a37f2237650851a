"""Where the cards of a topology's parts stand on its page, and the ways of the arrows between them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from topologies.html.graph_svg import Arrow, Box
from topologies.html.layers import layered

WIDTH = 204
"""Pixels: all cards are as wide, so that numbers in them may change."""
_TALL, _LOW = 104, 72
"""Pixels: the height of a windowed bolt's card, and that of others."""
_GAP, _BETWEEN = 28, 46
"""Pixels between two cards of a layer, and between two layers."""


def laid_out(boxes: Sequence[Box], arrows: Sequence[Arrow], windowed: Collection[str]) -> dict[str, Any]:
    """The graph as plain JSON: cards with their corners, arrows with their points, in pixels."""
    names = {box.name for box in boxes}
    labels: dict[tuple[str, str], list[str]] = {}
    for each in arrows:
        if each.source in names and each.target in names:
            labels.setdefault((each.source, each.target), []).append(each.label)
    layers = layered({box.name: float(WIDTH) for box in boxes}, list(labels), _GAP)
    heights = {box.name: _TALL if box.name in windowed else _LOW for box in boxes}
    tops = [0.0]
    for layer in range(1 + max(layers.layer.values(), default=-1)):
        tops.append(tops[-1] + max(heights[name] for name in names if layers.layer[name] == layer) + _BETWEEN)
    cards = [
        {
            "name": box.name,
            "kind": "windowed" if box.name in windowed else box.kind,
            "facts": list(box.facts),
            "x": round(layers.centres[box.name] - WIDTH / 2, 1),
            "y": tops[layers.layer[box.name]],
            "width": WIDTH,
            "height": heights[box.name],
        }
        for box in boxes
    ]
    ways = []
    for (source, target), texts in labels.items():
        first = layers.layer[source]
        points = [[layers.centres[source], tops[first] + heights[source]]]
        for number, x in enumerate(layers.ways[source, target], first + 1):
            points += [[x, tops[number]], [x, tops[number + 1] - _BETWEEN]]
        points.append([layers.centres[target], tops[layers.layer[target]]])
        label = ", ".join(filter(None, dict.fromkeys(texts)))
        ways.append({"source": source, "target": target, "label": label, "points": points})
    return {"cards": cards, "ways": ways, "width": layers.width, "height": max(tops[-1] - _BETWEEN, 0.0)}
