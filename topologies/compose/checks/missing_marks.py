"""Inputs from which no watermark can ever come: their source is to put watermarks in a column that they lack."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa

from topologies.graph.nodes.windowed import WindowedNode
from topologies.graph.streams import Stream, stream_label
from windowing.errors import ConfigError
from windowing.settings import SOURCE_ONLY
from windowing.settings.rules import WatermarkCombiner


def missing_marks(bolts: Mapping[str, WindowedNode], schemas: Mapping[Stream, pa.Schema]) -> Iterator[ConfigError]:
    """The bolts whose windows would stay open until the end of the streams, since all inputs have to bring watermarks
    and one of them has none. ``schemas``: those of all streams."""
    for node in bolts.values():
        settings = node.bolt.settings
        field, imports = settings.watermark_field, settings.watermark_imports or {}
        released = settings.partition_idle_timeout or settings.estimate_arrival
        by_all = settings.watermark_combine is WatermarkCombiner.MIN and not settings.watermark_per_key
        if field is None or not node.event_time or released or not by_all:
            continue
        for label, each, origins in zip(node.streams, node.inputs, node.origins, strict=True):
            rules = (settings.input_rules or {}).get(label)
            every = settings.watermark_every if rules is None else rules.watermark_every
            waits = every == SOURCE_ONLY and not origins and label not in imports
            if waits and field not in schemas[each.stream].names:
                yield _mistake(node, field, label, schemas)


def _mistake(node: WindowedNode, field: str, label: str, schemas: Mapping[Stream, pa.Schema]) -> ConfigError:
    giver = next(stream_label(each.stream) for each in node.inputs if field in schemas[each.stream].names)
    return ConfigError(
        f"bolt {node.name!r}: no watermark can come from {label!r}, which has no column {field!r}",
        why=f"with_watermark(field={field!r}) takes the watermarks that the source puts there, and waits for those of "
        "all inputs: no window would fire before the end of the streams",
        do=f"let it take those of another input, with_watermark(field={field!r}, imports={{{label!r}: {giver!r}}}), "
        f"or have watermarks made of the events too, with_watermark(field={field!r}, every=1)",
    )
