"""Columns that a spout has now and had not when its checkpoint was made: which of them may be added.

Only columns of spouts, that bolts read from these directly: of what other bolts emit nothing is noted, so a column that
is new to a bolt may be one that was there and was not kept. Nor for bolts that retract: the rows that they might take
back are kept with the columns that they had.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from topologies.graph.nodes.windowed import WindowedNode
from topologies.topology import Topology
from windowing.data.schema import parse_schema
from windowing.errors import ConfigError

_OF_STREAM = "columns of "


@dataclass(frozen=True)
class NewColumns:
    """What a topology has that the note of its checkpoint has not."""

    note: dict[str, Any]
    """The note, as it is with them."""
    of_bolts: dict[str, list[pa.Field]]
    """Per windowed bolt, its new columns."""

    @staticmethod
    def of(note: dict[str, Any], now: dict[str, Any], topology: Topology) -> NewColumns:
        """Those that may be added; ``now`` is the fingerprint of the topology, and whether it differs otherwise is not
        looked at."""
        spouts, new = dict(note["spouts"]), dict[str, set[str]]()
        for name in spouts.keys() & now["spouts"].keys():
            for stream in [key for key in spouts[name] if key.startswith(_OF_STREAM) and key in now["spouts"][name]]:
                added = _added(spouts[name][stream], now["spouts"][name][stream])
                if added:
                    new.setdefault(name, set()).update(added)
                    spouts[name] = {**spouts[name], stream: now["spouts"][name][stream]}
        bolts, of_bolts = dict(note["bolts"]), dict[str, list[pa.Field]]()
        for name in bolts.keys() & now["bolts"].keys():
            added = _added(bolts[name]["columns"], now["bolts"][name]["columns"])
            node = topology.windowed[name]
            if added is None or node.retracts or not any(each.stream[0] in new for each in node.inputs):
                continue
            if all(_comes_from_spouts(column, node, topology, new) for column in added):
                of_bolts[name] = [node.schema.field(column) for column in added]
                bolts[name] = {**bolts[name], "columns": now["bolts"][name]["columns"]}
        return NewColumns({**note, "spouts": spouts, "bolts": bolts}, of_bolts)


def _added(was: str, now: str) -> list[str] | None:
    """The columns that are new; None where others are gone, or have another type, or one that has no name here."""
    if was == now:
        return []
    try:
        before, after = parse_schema(was), parse_schema(now)
    except ConfigError:
        return None
    kept = [field.name for field in after if field.name in before.names]
    if len(kept) < len(before) or any(before.field(name).type != after.field(name).type for name in kept):
        return None
    return [name for name in after.names if name not in before.names]


def _comes_from_spouts(column: str, node: WindowedNode, topology: Topology, new: dict[str, set[str]]) -> bool:
    """Whether no input of a bolt can have had the column before."""
    for each in node.inputs:
        component, stream = each.stream
        if component in topology.spouts:
            had = column in topology.spouts[component].outputs[stream].names
            if had and column not in new.get(component, ()):
                return False
        else:
            emits = topology.windowed.get(component) or topology.plain[component]
            if column in emits.outputs[stream].names:
                return False
    return True
