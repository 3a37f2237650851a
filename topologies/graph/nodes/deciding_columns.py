"""The columns that decide where the events of a windowed bolt belong, and when."""

from __future__ import annotations

from collections.abc import Iterator

from topologies.graph.groupings import FieldsGrouping
from topologies.graph.nodes.windowed import WindowedNode
from windowing.settings import WindowSettings


def decisive_columns(node: WindowedNode) -> list[list[str]]:
    """Per input: the columns of its key and of its grouping, and those that rules of time name.

    What a function computes of other columns is not known: times, and the answers of a trigger's rule.
    """
    named = set(_of_rules(node.bolt.settings))
    found = []
    for each, key in zip(node.inputs, node.keys, strict=True):
        grouped = each.grouping.fields if isinstance(each.grouping, FieldsGrouping) else ()
        found.append(sorted({*named, *key, *grouped} & set(node.schema.names)))
    return found


def _of_rules(settings: WindowSettings) -> Iterator[str]:
    lifetime, arrival = settings.lifetime, settings.arrival
    names = [settings.timestamp_field, settings.message_id_field, settings.watermark_field]
    names += [None if arrival is None else arrival.field]
    names += [name for kind in settings.kinds for name in kind.by_columns]
    if lifetime is not None:
        names += [lifetime.end_field, lifetime.shape_field, *lifetime.edge_key]
    if isinstance(settings.watermark_partition, str):
        names.append(settings.watermark_partition)
    yield from (name for name in names if name is not None)
