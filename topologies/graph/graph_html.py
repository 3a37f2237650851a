"""A topology as a notebook shows it: its graph, and what there is to know of each part."""

from __future__ import annotations

from topologies.graph.describing import bolts_of, described, sink_in_words, spout_in_words, window_in_words
from topologies.graph.graph import Graph
from topologies.graph.nodes.windowed import WindowedNode
from topologies.html.graph_svg import Arrow, Box, as_svg
from topologies.html.pieces import framed, heading, table
from windowing.data.returned_rows import DEFAULT_STREAM


def topology_html(topology: Graph) -> str:
    """The graph of a topology, and its description, folded, as HTML."""
    parts = [(fact.title, word, what) for fact in described(topology) for word, what in fact.facts]
    details = "<details><summary>details</summary>"
    details += table(["part", "", ""], _without_repeats(parts)) + "</details>"
    return framed(heading(topology.name), topology_svg(topology), details)


def topology_svg(topology: Graph) -> str:
    """The graph alone, as SVG."""
    return as_svg(f"topology {topology.name}", *boxes_and_arrows(topology))


def boxes_and_arrows(topology: Graph) -> tuple[list[Box], list[Arrow]]:
    """What the graph is drawn of: a box for each spout, bolt and sink, an arrow for each stream that one reads."""
    boxes = [Box(node.name, "spout", (spout_in_words(node.spout),)) for node in topology.spouts.values()]
    arrows = []
    for bolt in bolts_of(topology):
        tasks = (f"{bolt.parallelism} tasks",) if bolt.parallelism > 1 else ()
        windows = (window_in_words(bolt),) if isinstance(bolt, WindowedNode) else ()
        boxes.append(Box(bolt.name, "bolt", (type(bolt.bolt).__name__, *windows, *tasks)))
        for each in bolt.inputs:
            component, stream = each.stream
            words = [str(each.grouping)] if stream == DEFAULT_STREAM else [stream, str(each.grouping)]
            arrows.append(Arrow(component, bolt.name, " ".join(words)))
    for sink in topology.sinks.values():
        boxes.append(Box(sink.name, "sink", (sink_in_words(sink.sink),)))
        arrows += [
            Arrow(component, sink.name, "" if stream == DEFAULT_STREAM else stream)
            for component, stream in sink.streams
        ]
    return boxes, arrows


def _without_repeats(rows: list[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """The rows with the part and the word only where they change."""
    shown, last = [], ("", "")
    for part, word, fact in rows:
        same = last[0] == part
        shown.append(("" if same else part, "" if same and last[1] == word else word, fact))
        last = part, word
    return shown
