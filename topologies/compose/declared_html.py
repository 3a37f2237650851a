"""A topology that is being composed, as a notebook shows it: what has been set so far, unchecked."""

from __future__ import annotations

from topologies.compose.declarers import DeclaredTopology
from topologies.html.graph_svg import Arrow, Box, as_svg
from topologies.html.pieces import framed, heading
from windowing.data.returned_rows import DEFAULT_STREAM


def declared_html(declared: DeclaredTopology) -> str:
    """The graph of what has been set, as HTML; arrows from parts that have not been set are not drawn."""
    boxes = [Box(str(name), "spout", (type(spout).__name__,)) for name, spout in declared.spouts]
    boxes += [Box(str(bolt.name), "bolt", (type(bolt.bolt).__name__,)) for bolt in declared.bolts]
    boxes += [Box(str(sink.name), "sink", (type(sink.sink).__name__,)) for sink in declared.sinks]
    arrows = [
        Arrow(str(each.stream[0]), str(bolt.name), _label(each.stream[1], str(each.grouping)))
        for bolt in declared.bolts
        for each in bolt.inputs
    ]
    for sink in declared.sinks:
        arrows += [Arrow(str(component), str(sink.name), _label(stream)) for component, stream in sink.streams]
    title = heading(declared.name, " <span class='phase'>not built yet</span>")
    return framed(title, as_svg(f"topology {declared.name}, not built yet", boxes, arrows))


def _label(stream: str, grouping: str = "") -> str:
    return " ".join(([] if stream == DEFAULT_STREAM else [str(stream)]) + [grouping] * bool(grouping))
