"""A topology as plain JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from topologies.graph.describing import (
    BoltNode,
    bolts_of,
    sink_in_words,
    spout_in_words,
    time_in_words,
    window_in_words,
)
from topologies.graph.graph import Graph
from topologies.graph.nodes.windowed import WindowedNode
from topologies.graph.rules_in_words import (
    changed,
)
from topologies.graph.streams import Input
from windowing.data.schema import format_schema
from windowing.time.durations import Count, Duration


def to_json(topology: Graph) -> dict[str, Any]:
    """The topology as plain JSON."""
    return {
        "name": topology.name,
        "on_invalid": "stop" if topology.stop_on_invalid else "divert",
        "spouts": [
            {
                "name": node.name,
                "source": spout_in_words(node.spout),
                **({"defaults": node.defaults.in_words()} if node.defaults else {}),
                "streams": _streams(node.outputs),
            }
            for node in topology.spouts.values()
        ],
        "bolts": [_bolt_json(node) for node in bolts_of(topology)],
        "sinks": [
            {
                "name": node.name,
                "target": sink_in_words(node.sink),
                "takes": [{"component": component, "stream": stream} for component, stream in node.streams],
                "columns": format_schema(node.schema),
            }
            for node in topology.sinks.values()
        ],
    }


def _bolt_json(node: BoltNode) -> dict[str, Any]:
    described: dict[str, Any] = {
        "name": node.name,
        "class": type(node.bolt).__name__,
        "parallelism": node.parallelism,
        "inputs": [_input_json(each) for each in node.inputs],
        "streams": _streams(node.outputs),
    }
    if isinstance(node, WindowedNode):
        settings = node.bolt.settings
        described["window"] = {
            "in_words": window_in_words(node),
            "length": _extent_json(settings.length),
            "slide": _extent_json(settings.slide),
            "bounds": settings.bounds.value,
            "offset": str(settings.offset),
            "eviction": repr(node.eviction),
            "trigger": repr(node.trigger),
            "keeps_last_window": node.remembers,
        }
        described["time"] = {
            "in_words": time_in_words(node),
            "event_time": node.event_time,
            "timestamp_field": settings.timestamp_field,
            "lag": str(node.lag),
            "watermark_interval": str(settings.watermark_interval),
            "late_stream": settings.late_stream,
            "rules": changed(settings),
        }
    return described


def _input_json(each: Input) -> dict[str, str]:
    return {"component": each.stream[0], "stream": each.stream[1], "grouping": str(each.grouping)}


def _streams(outputs: Mapping[str, pa.Schema]) -> dict[str, str]:
    return {stream: format_schema(schema) for stream, schema in outputs.items()}


def _extent_json(extent: Duration | Count | None) -> str | int | None:
    return extent.value if isinstance(extent, Count) else None if extent is None else str(extent)
