"""Makes the bolts and the topology of a plan."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from tests.simulation.broker import TOPIC
from tests.simulation.contents import with_rules
from tests.simulation.world.bolts import COLUMNS, Doubled, Lengths
from tests.simulation.world.kinds import BOLTS, JOINS, KINDS, MEETING, PASSING, lagging
from tests.simulation.world.plan import BoltPlan, Format, WorldPlan
from tests.simulation.world.steps import step_made
from topologies.graph.graph import Graph
from windbolt import TopologyBuilder, sinks, spouts
from windowing import WindowedBolt

Called = Callable[[pa.Table, int], None]
_DOES = dict(BOLTS)


def made(plan: BoltPlan) -> WindowedBolt:
    """The bolt."""
    chance = random.Random(plan.draws)
    if isinstance(plan.rules, dict):
        return with_rules(_DOES[plan.does](chance), plan.rules)
    special = {**PASSING, **JOINS}
    if plan.rules in special:
        bolt = lagging(special[plan.rules](chance), chance)
    else:
        bolt = KINDS[plan.rules](_DOES[plan.does](chance), chance)
    return MEETING[plan.meeting](bolt, chance) if plan.meeting else bolt


def _not_called(table: pa.Table, step: int) -> None:
    """For a topology that is only looked at."""


def makes(plan: WorldPlan, folder: str = "/nowhere", called: Called = _not_called, out: str = "") -> Graph:
    """The topology, with its files below a folder; those of its sinks below ``out``, if that is given."""
    out = out or folder
    if plan.step is not None:
        return step_made(plan.step, plan.per_batch, folder)
    builder = TopologyBuilder("world")
    for spout in plan.spouts:
        if plan.kafka:
            builder.set_spout(spout, spouts.kafka("broker:9092", TOPIC, COLUMNS))
            continue
        files = spouts.files(f"{folder}/{spout}", COLUMNS, format="jsonl", files_per_batch=plan.per_batch)
        builder.set_spout(spout, files)
    if plan.doubled:
        builder.set_bolt("doubled", Doubled(), plan.doubled).shuffle_grouping(plan.spouts[0])
    for bolt in plan.bolts:
        _add(builder, bolt, out, called)
    if plan.errors is not None:
        builder.set_sink("bad", _files(out, "bad", plan.errors)).from_(plan.spouts[0], "errors")
    return builder.build()


def _add(builder: TopologyBuilder, plan: BoltPlan, folder: str, called: Called) -> None:
    name = plan.name
    declared = builder.set_bolt(name, made(plan), plan.tasks)
    for each in plan.inputs:
        field = "at" if plan.rules == "Deduplicate" else "user"
        declared = declared.fields_grouping(each, field) if plan.keyed else declared.global_grouping(each)
    for to, kind in (plan.sinks or {}).items():
        stream = to.removeprefix(f"{name}").removeprefix("-")
        sink = builder.set_sink(f"{name}-{stream or 'out'}", _files(folder, to, kind))
        sink.from_(name, stream) if stream else sink.from_(name)
    if plan.called:
        builder.set_sink(f"{name}-called", sinks.foreach_batch(called, frame="arrow")).from_(name)
    if plan.then is not None:
        builder.set_bolt(f"{name}-then", Lengths().with_tumbling_window(plan.then)).global_grouping(name)
        builder.set_sink(f"{name}-then-out", _files(folder, f"{name}-then", plan.then_format)).from_(f"{name}-then")


def _files(folder: str, name: str, kind: Format) -> Any:
    return sinks.files(f"{folder}/out/{name}", kind)
