"""Temporal joins that have rows for events without a partner: once each, at the end of their lives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.examples import examples
from tests.helpers.lives import EVENTS, GIVEN, Json, Life, cut, late, play
from tests.oracles import temporal_join_oracle as oracle
from topologies import TopologyBuilder, sinks, spouts
from topologies.graph.model import Topology
from windowing import TemporalJoin, TupleWindow, WindowedBolt, millis
from windowing.settings.joins import How
from windowing.settings.presets import streaminsight
from windowing.time.timestamps import from_datetime

HOWS = get_args(How)


def join(how: How = "left", **options: Any) -> TemporalJoin:
    bolt = TemporalJoin("left", "right", on="k", how=how, **options).with_time(GIVEN).with_timestamp_field("ts")
    return bolt.with_lifetime("until", shape_field="shape", edge_key=["k"])


class Timed(WindowedBolt):
    """Each event of a join, and its time in milliseconds."""

    def __init__(self, names: list[str]) -> None:
        self._names = names

    def output_schemas(self) -> dict[str, pa.Schema]:
        columns = [(name, pa.timestamp("us") if "overlap" in name else pa.int64()) for name in self._names]
        return {"default": pa.schema([*columns, ("at", pa.int64())])}

    def execute(self, window: TupleWindow) -> Any:
        return window.table.select(self._names).append_column("at", pa.array(window.timestamps // 1000))


def timing(bolt: TemporalJoin, tasks: int = 1, right_key: str = "k", right: str = EVENTS) -> tuple[Topology, Any, Any]:
    """A join, and a bolt behind it that would miss a row that is late by what the join promises."""
    builder, out, timed = TopologyBuilder("outer"), sinks.memory(), sinks.memory()
    builder.set_spout("left", spouts.memory(EVENTS))
    builder.set_spout("right", spouts.memory(right))
    builder.set_bolt("join", bolt, tasks).fields_grouping("left", "k").fields_grouping("right", right_key)
    names = ["v"] if bolt.left_only else ["left_v", "right_v"]
    behind = Timed([*names, "overlap_start", "overlap_end"]).with_time(streaminsight(1).but(close_fires=True))
    builder.set_bolt("timed", behind.with_tumbling_window(millis(1))).global_grouping("join")
    builder.set_sink("out", out).from_("join")
    builder.set_sink("times", timed).from_("timed")
    return builder.build(), out, timed


def millisecond(moment: Any) -> int:
    return oracle.NEVER if moment is None else from_datetime(moment) // 1000


def found(rows: list[Json]) -> list[tuple[int | None, int | None, int, int]]:
    return [
        (row["v"] if "v" in row else row["left_v"], row.get("right_v"), millisecond(row["overlap_start"]),
         millisecond(row["overlap_end"]))
        for row in rows
    ]  # fmt: skip


def as_told(events: list[Life]) -> list[oracle.Lasting]:
    return [oracle.Lasting(each.side, each.key, each.start, each.end or each.ended or oracle.NEVER) for each in events]


def without_ends_of_pairs(rows: Sequence[tuple[int | None, ...]], how: str) -> list[tuple[int | None, ...]]:
    """The end of an overlap may be known or not when it begins, and so may that of an event that meets a partner."""
    pairs = [how == "semi" or (row[0] is not None and row[1] is not None) for row in rows]
    return sorted((row[:3] if pair else row[:4] for row, pair in zip(rows, pairs, strict=True)), key=str)


# ---- against every event, one by one


@pytest.mark.parametrize("how", HOWS)
@examples(20)
@given(cut(("a", "b", None)), st.integers(1, 2), st.booleans())
def test_who_met_no_partner_has_one_row_however_events_are_cut_into_batches(
    how: How, script: tuple[list[Life], list[Json], int], tasks: int, crash: bool
) -> None:
    events, batches, watermark = script
    topology, out, timed = timing(join(how), tasks)
    step = play(topology, *batches, crash=crash)
    assert sum(late(step).values()) == 0
    wanted = oracle.joined(as_told(events), how, watermark)
    assert without_ends_of_pairs(found(out.rows), how) == without_ends_of_pairs(wanted, how)
    told = {row[:3]: row[4] for row in wanted}
    assert all(
        told[row[:3]] == at for row, at in zip(found(timed.rows), (row["at"] for row in timed.rows), strict=True)
    )
    flushed, everything, at_last = timing(join(how).with_time(GIVEN.but(close_fires=True)), tasks)
    step = play(flushed, *batches, close=True)
    assert sum(late(step).values()) == 0
    wanted = oracle.joined(as_told(events), how, None)
    assert without_ends_of_pairs(found(everything.rows), how) == without_ends_of_pairs(wanted, how)
    assert len(at_last.rows) == len(wanted)
    told = {row[:3]: row[4] for row in wanted}
    latest = max((time for time in told.values() if time < oracle.NEVER), default=0)
    for row, at in zip(found(at_last.rows), (row["at"] for row in at_last.rows), strict=True):
        endless = told[row[:3]] == oracle.NEVER  # after everything else of its task
        assert at >= (row[2] if tasks > 1 else latest) if endless else at == told[row[:3]]
