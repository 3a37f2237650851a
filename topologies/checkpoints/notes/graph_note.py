"""The graph of a topology as plain JSON, in the note of its rules: to look at a checkpoint without the topology."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from topologies.graph.graph_html import boxes_and_arrows
from topologies.html.graph_svg import Arrow, Box
from topologies.topology import Topology


def graph_values(topology: Topology) -> dict[str, Any]:
    """What the graph is drawn of."""
    boxes, arrows = boxes_and_arrows(topology)
    return {
        "boxes": [{**asdict(box), "facts": list(box.facts)} for box in boxes],
        "arrows": [asdict(arrow) for arrow in arrows],
    }


def graph_from(values: dict[str, Any]) -> tuple[list[Box], list[Arrow]]:
    """The boxes and arrows that ``graph_values`` gave."""
    boxes = [Box(each["name"], each["kind"], tuple(each["facts"])) for each in values["boxes"]]
    return boxes, [Arrow(**each) for each in values["arrows"]]
