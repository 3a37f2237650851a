"""Two streams of events that last, in batches, and a join of them run micro-batch by micro-batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import strategies as st

from manager.storage.checkpoint import MemoryCheckpoint
from topologies.engine.batch import BatchPlan, InProcessExecutor, TimeAdvance
from topologies.engine.micro_batch import MicroBatch
from topologies.engine.source_splits import TableSource
from topologies.engine.ticking import promise_of
from topologies.topology import Topology
from windbolt import TopologyBuilder, sinks, spouts
from windowing import TemporalJoin
from windowing.settings.presets import streaminsight

Json = dict[str, Any]
GIVEN = streaminsight(None, field="cti")
"""The sources put their watermarks in, in milliseconds."""


class Crash(Exception):
    pass


def play(topology: Topology, *batches: Json, close: bool = False, crash: bool = False) -> MicroBatch:
    """Run batches, each with rows for some spouts; every batch by a MicroBatch of its own.

    ``crash``: each batch runs up to its commit first, and what it did is lost.
    """
    checkpoint = MemoryCheckpoint()
    plans = []
    for number, batch in enumerate(batches):
        splits: list[Any] = []
        for spout, rows in batch.items():
            schema = topology.spouts[spout].outputs["default"]
            whole = [{name: row.get(name) for name in schema.names} for row in rows]
            splits.append(TableSource(spout, pa.Table.from_pylist(whole, schema), 0))
        plans.append(BatchPlan(number, TimeAdvance(number), splits))
    if close:
        plans.append(BatchPlan(len(batches) - 1, TimeAdvance(len(batches), close=True), closing=True))
    for plan in plans:
        if crash:
            fail = MicroBatch(topology, checkpoint, InProcessExecutor())
            fail.hook = _fail
            with pytest.raises(Crash):
                fail.run(plan)
        step = MicroBatch(topology, checkpoint, InProcessExecutor())
        step.run(plan)
    return step


def _fail(phase: str) -> None:
    if phase == "sinks":
        raise Crash


def promised(topology: Topology, step: MicroBatch, bolt: str) -> int | None:
    """What a bolt promises those behind it, in milliseconds."""
    found = promise_of(topology.windowed[bolt], step.manifest.bolts[bolt])
    return None if found is None else found // 1000


def late(step: MicroBatch) -> dict[str, int]:
    totals = {name: bolt.accounts.totals(sum(bolt.pending)) for name, bolt in step.manifest.bolts.items()}
    return {name: accounts["late"] + accounts["dropped"] for name, accounts in totals.items()}


EVENTS = "k string, v long, ts long, until long, shape string, cti long"


def joining(
    bolt: TemporalJoin, left: str = EVENTS, right: str = EVENTS, tasks: int = 1, right_key: str = "k"
) -> tuple[Topology, Any]:
    builder, out = TopologyBuilder("join"), sinks.memory()
    builder.set_spout("left", spouts.memory(left))
    builder.set_spout("right", spouts.memory(right))
    builder.set_bolt("join", bolt, tasks).fields_grouping("left", "k").fields_grouping("right", right_key)
    builder.set_sink("out", out).from_("join")
    return builder.build(), out


def event(k: str | None, v: int, ts: int, until: int | None = None, shape: str = "") -> Json:
    return {"k": k, "v": v, "ts": ts, "until": until, "shape": shape or ("point" if until is None else "interval")}


def cti(at: int) -> Json:
    return {"cti": at}


@dataclass(frozen=True)
class Life:
    side: str
    key: str | None
    start: int
    end: int | None
    """None: a start edge, whose end edge may come later."""
    ended: int | None = None


@st.composite
def lives(draw: st.DrawFn, keys: tuple[str | None, ...] = ("a", "b")) -> list[Life]:
    found = []
    edges = set()
    for _ in range(draw(st.integers(0, 14))):
        side, key = draw(st.sampled_from(["left", "right"])), draw(st.sampled_from(keys))
        start = draw(st.integers(0, 30))
        length = draw(st.sampled_from([None, 1, 1, 2, 5, 20]))
        ended = None
        if length is None and draw(st.booleans()) and (side, key, start) not in edges:
            edges.add((side, key, start))
            ended = start + draw(st.integers(1, 20))
        elif length is None and (side, key, start) in edges:
            length = 3
        elif length is None:
            edges.add((side, key, start))
        found.append(Life(side, key, start, None if length is None else start + length, ended))
    return found


@st.composite
def cut(draw: st.DrawFn, keys: tuple[str | None, ...] = ("a", "b")) -> tuple[list[Life], list[Json], int]:
    """Events of both sides in an order that their watermarks allow, in batches; and the last watermark."""
    events = draw(lives(keys))
    rows: list[tuple[int, str, Json]] = []
    for number, life in enumerate(events):
        shape = "interval" if life.end is not None else "start_edge"
        rows.append((life.start, life.side, event(life.key, number, life.start, life.end, shape)))
        if life.ended is not None:
            assert life.end is None
            rows.append((life.ended, life.side, event(life.key, number, life.start, life.ended, "end_edge")))
    # Each row comes at most 10 after its time and after its start edge; then a mark 10 behind what has come is true.
    late_by = [draw(st.integers(0, 9)) for _ in rows]
    steps = sorted(
        ((at + (0 if row["shape"] == "end_edge" else by) + (10 if row["shape"] == "end_edge" else 0), at, side, row)
         for (at, side, row), by in zip(rows, late_by, strict=True)),
        key=lambda step: step[0],
    )  # fmt: skip
    batches: list[Json] = [{}]
    reached = {"left": -(10**6), "right": -(10**6)}
    for when, _, side, row in steps:
        if draw(st.integers(0, 3)) == 0:
            batches.append({})
        batches[-1].setdefault(side, []).append(row)
        if draw(st.booleans()):
            told = draw(st.sampled_from(["left", "right"]))
            mark = when - 10
            if mark > reached[told]:
                reached[told] = mark
                batches[-1].setdefault(told, []).append(cti(mark))
    return events, batches, min(reached.values())


def rename_right_key(batches: list[dict[str, Any]]) -> None:
    """Call the right key ``kk``; the right column that is called as the left key says something else."""
    for batch in batches:
        if "right" in batch:
            batch["right"] = [{**row, "kk": row.get("k"), "k": "another" * ("k" in row)} for row in batch["right"]]
