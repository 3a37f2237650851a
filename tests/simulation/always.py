"""That after a move to other tasks the output is that of a run that always had so many."""

from __future__ import annotations

import csv
import json
import os
from collections import Counter

import pyarrow.parquet as pq
from pyarrow import feather

from tests.simulation.world.world import World
from topologies.engine.commit import batch_of_file
from topologies.graph.bolt_rules import TopologyRules

Rows = dict[str, Counter[str]]
"""By the folder of a sink and the key of a batch, its rows as text, in no order."""

BY_ARRIVAL = {"azure substreams"}
"""Here what is late by arrival depends on the number of tasks, in every run (decision 69)."""


def rows_after(world: World, key: str) -> Rows:
    """What the bolts whose tasks can be moved and divided have written in the batches after one."""
    rules, found = TopologyRules.of(world.topology).bolts, Rows()
    for bolt in world.plan.bolts:
        if (
            rules[bolt.name].reasons_not_to_move
            or rules[bolt.name].reasons_not_to_divide
            or str(bolt.rules) in BY_ARRIVAL
        ):
            continue
        for name, kind in (bolt.sinks or {}).items():
            folder = f"{world.folder}/out/{name}"
            for base in os.listdir(folder) if os.path.isdir(folder) else ():
                batch = batch_of_file(base)
                if batch is not None and batch > key:
                    found.setdefault(f"{name}/{batch}", Counter()).update(_rows(f"{folder}/{base}", kind))
    return found


def differing(moved: Rows, always: Rows) -> list[str]:
    """In what they differ, in words."""
    wrong = [name for name in sorted({*moved, *always}) if moved.get(name) != always.get(name)]
    return [
        f"{name} after a move: {dict(moved.get(name, {}))}, and {dict(always.get(name, {}))} with so many tasks always"
        for name in wrong[:3]
    ]


def _rows(path: str, kind: str) -> list[str]:
    match kind:
        case "csv":
            with open(path, newline="", encoding="utf-8") as file:
                return [str(row) for row in csv.DictReader(file)]
        case "jsonl":
            with open(path, encoding="utf-8") as file:
                return [str(json.loads(line)) for line in file]
        case "parquet":
            return [str(row) for row in pq.read_table(path).to_pylist()]
        case _:
            return [str(row) for row in feather.read_table(path).to_pylist()]
