"""A topology as a flowchart in Mermaid's language."""

from __future__ import annotations

from topologies.graph.describing import bolts_of, sink_in_words, spout_in_words, time_in_words, window_in_words
from topologies.graph.graph import Graph
from topologies.graph.nodes.windowed import WindowedNode
from windowing.data.returned_rows import DEFAULT_STREAM

_ENTITIES = {sign: f"#{ord(sign)};" for sign in '#"&<>|`\\'}


def as_mermaid(topology: Graph) -> str:
    """The topology as a flowchart in Mermaid's language."""
    lines = ["flowchart LR"]
    nodes: dict[str, str] = {}
    for spout in topology.spouts.values():
        nodes[spout.name] = f"n{len(nodes)}"
        lines.append(f"    {nodes[spout.name]}([{label(spout.name, spout_in_words(spout.spout))}])")
    for bolt in bolts_of(topology):
        nodes[bolt.name] = f"n{len(nodes)}"
        facts = [f"{bolt.parallelism} tasks"] if bolt.parallelism > 1 else []
        if isinstance(bolt, WindowedNode):
            facts = [window_in_words(bolt), time_in_words(bolt), *facts]
        lines.append(f"    {nodes[bolt.name]}[{label(bolt.name, *facts)}]")
    for sink in topology.sinks.values():
        nodes[sink.name] = f"n{len(nodes)}"
        lines.append(f"    {nodes[sink.name]}[({label(sink.name, sink_in_words(sink.sink))})]")
    for bolt in bolts_of(topology):
        for each in bolt.inputs:
            component, stream = each.stream
            texts = [str(each.grouping)] if stream == DEFAULT_STREAM else [stream, str(each.grouping)]
            lines.append(f"    {nodes[component]} -->|{label(*texts)}| {nodes[bolt.name]}")
    for sink in topology.sinks.values():
        for component, stream in sink.streams:
            text = "" if stream == DEFAULT_STREAM else f"|{label(stream)}|"
            lines.append(f"    {nodes[component]} -->{text} {nodes[sink.name]}")
    return "\n".join(lines)


def label(*lines: str) -> str:
    """Text in quotes, with what Mermaid or HTML would read as its own written as entities."""
    safe = ("".join(_ENTITIES.get(sign, sign) for sign in line.replace("\n", " ")) for line in lines)
    return f'"{"<br/>".join(safe)}"'
