"""Temporal joins that have rows for events without a partner: once each, at the end of their lives."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any, get_args

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.examples import examples
from tests.helpers.lives import EVENTS, GIVEN, Json, Life, cti, cut, event, joining, late, play, rename_right_key
from tests.oracles import temporal_join_oracle as oracle
from topologies.checkpoints.topology_fit import differences
from topologies.graph.bolt_rules import TopologyRules
from topologies.testing.driver import TopologyDriver
from topologies.topology import Topology
from windbolt import TopologyBuilder, sinks, spouts
from windowing import ConfigError, TemporalJoin, TopologyError, TupleWindow, WindowedBolt, millis
from windowing.settings.presets import atlas, streaminsight
from windowing.settings.rules import How
from windowing.timestamps import from_datetime

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


# ---- case by case


def rows(out: Any) -> list[tuple[int | None, int | None]]:
    return [(row["left_v"], row["right_v"]) for row in out.rows]


@pytest.mark.feature("SI-22")
def test_an_event_without_a_partner_is_out_when_the_watermark_is_past_its_end() -> None:
    topology, out = joining(join())
    first = {"left": [event("a", 1, 5, 10), event("b", 2, 5, 10), cti(10)], "right": [event("b", 3, 9), cti(10)]}
    play(topology, first, crash=True)
    assert rows(out) == [(2, 3)]
    play(topology, first, {"left": [cti(11)], "right": [cti(11)]}, crash=True)
    assert rows(out) == [(2, 3), (1, None)]
    assert found(out.rows)[1] == (1, None, 5, 10)
    assert out.rows[1]["k"] == "a"


def test_an_end_edge_at_the_very_watermark_is_in_time() -> None:
    """The moment at which an event ends is not over while its end edge may still come."""
    topology, out = joining(join("anti"))
    play(
        topology,
        {"left": [event("a", 1, 0, 10), event("a", 2, 0, shape="start_edge"), cti(10)], "right": [cti(10)]},
        {"left": [event("a", 2, 0, 10, "end_edge"), cti(20)], "right": [cti(20)]},
        {"left": [cti(90)], "right": [cti(90)]},
        crash=True,
    )
    assert found(out.rows) == [(1, None, 0, 10), (2, None, 0, 10)]


@pytest.mark.parametrize(("how", "wanted"), [("anti", [2, 4]), ("semi", [1, 3])])
def test_an_end_edge_finds_its_start_after_that_has_met_a_partner(how: How, wanted: list[int]) -> None:
    topology, out = joining(join(how))
    starts = [event("a", 1, 0, shape="start_edge"), event("b", 2, 0, shape="start_edge"), event("a", 3, 2, 9)]
    step = play(
        topology,
        {"left": [*starts, event(None, 4, 2, 9), cti(8)], "right": [event("a", 5, 3), cti(8)]},
        {"left": [cti(20)], "right": [cti(20)]},
        {"left": [event("a", 1, 0, 30, "end_edge"), event("b", 2, 0, 30, "end_edge"), cti(50)], "right": [cti(50)]},
        crash=True,
    )
    assert sorted(row["v"] for row in out.rows) == wanted
    totals = step.manifest.bolts["join"].accounts.totals(sum(step.manifest.bolts["join"].pending))
    assert totals["invalid"] == 0
    assert not any(ref.needed for task in step.manifest.bolts["join"].tasks for ref in task.refs)


def test_orders_that_have_been_paid_are_not_kept() -> None:
    """Without edges the state of an anti join is who still waits, and the lives of the other side."""
    bolt = TemporalJoin("left", "right", on="k", how="anti").with_time(GIVEN).with_timestamp_field("ts")
    topology, _ = joining(bolt.with_lifetime("until"), right="k string, v long, ts long, cti long")
    orders = [event("a", 1, 0, 1000), event("b", 2, 0, 1000), event("c", 3, 0)]
    payments = [event("a", 4, 5), event("c", 5, 6)]
    step = play(topology, {"left": [*orders, cti(20)], "right": [*payments, cti(20)]}, {"left": [cti(21)]})
    assert sum(ref.needed for task in step.manifest.bolts["join"].tasks for ref in task.refs) <= 3
    step = play(
        topology,
        {"left": [*orders, cti(20)], "right": [*payments, cti(20)]},
        {"left": [event("z", 6, 30, 31), cti(40)], "right": [cti(40)]},
    )
    assert sum(ref.needed for task in step.manifest.bolts["join"].tasks for ref in task.refs) == 1


def test_late_events_have_partners_by_the_time_that_they_are_given() -> None:
    """A lifetime that is cut begins at the watermark."""
    rules = streaminsight(None, field="cti", policy="adjust")
    topology, out = joining(join().with_time(rules))
    play(
        topology,
        {"left": [cti(20)], "right": [event("a", 9, 0, 15), event("b", 8, 0, 30), cti(20)]},
        {"left": [event("a", 1, 5, 25), event("b", 2, 5, 25), event("a", 3, 5, 20), cti(50)], "right": [cti(50)]},
    )
    assert rows(out) == [(2, 8), (1, None)]
    assert found(out.rows)[1] == (1, None, 20, 25)


def test_lateness_by_window_is_that_of_the_inner_join() -> None:
    counts = []
    for how in HOWS:
        topology, _ = joining(join(how).with_time(atlas("0s")).with_lifetime("until"))
        step = play(
            topology,
            {"left": [event("a", 1, 50, 60)], "right": [event("b", 2, 50, 60)]},
            {"left": [event("a", 3, 20, 90), event("a", 4, 55, 90)], "right": [event("b", 2, 49, 60)]},
        )
        counts.append(late(step)["join"])
    assert counts == [2] * len(HOWS)


def test_an_idle_timeout_ends_what_waits() -> None:
    """Nothing comes any more; the clock tells that the half hour is over. What never ends is not closed by it."""
    bolt = TemporalJoin("left", "right", on="k", how="left").with_timestamp_field("ts").with_lifetime("until")
    builder = TopologyBuilder("idle")
    builder.set_spout("left", spouts.memory(EVENTS))
    builder.set_spout("right", spouts.memory("k string, v long, ts long"))
    bolt = bolt.with_watermark(every=1, idle_timeout="5s")
    builder.set_bolt("join", bolt).fields_grouping("left", "k").fields_grouping("right", "k")
    builder.set_sink("out", sinks.memory()).from_("join")
    driver = TopologyDriver(builder.build())
    driver.push("right", [{"k": "c", "v": 3, "ts": 10}])
    driver.push("left", [event("a", 1, 0, 1000), event("b", 2, 0)])
    assert driver.read("out") == []
    marks = []
    for _ in range(3):
        driver.advance_clock("10s")
        marks.append(driver.watermark("join"))
    assert found(driver.read("out")) == [(1, None, 0, 1000)]
    assert len(set(marks)) == 1


@examples(40)
@given(cut(), st.integers(1, 2), st.booleans())
def test_the_key_may_have_another_name_on_either_side(
    script: tuple[list[Life], list[Json], int], tasks: int, crash: bool
) -> None:
    """The right key is ``kk``; the right column that is called as the left key says something else."""
    events, batches, watermark = script
    rename_right_key(batches)
    bolt = TemporalJoin("left", "right", on={"left": "k", "right": "kk"}, how="full").with_time(GIVEN)
    bolt = bolt.with_timestamp_field("ts").with_lifetime("until", shape_field="shape", edge_key=["v"])
    topology, out, _ = timing(bolt, tasks, "kk", f"{EVENTS}, kk string")
    play(topology, *batches, crash=crash)
    wanted = oracle.joined(as_told(events), "full", watermark)
    assert without_ends_of_pairs(found(out.rows), "full") == without_ends_of_pairs(wanted, "full")
    for row in out.rows:
        assert (row["left_k"] is None) == (row["left_v"] is None)
        assert row["right_k"] == (None if row["right_v"] is None else "another")
        assert row["left_v"] is None or row["right_v"] is None or row["left_k"] == row["kk"]


def test_the_streams_may_be_connected_in_either_order() -> None:
    found_rows = []
    for order in (("left", "right"), ("right", "left")):
        builder, out = TopologyBuilder("either"), sinks.memory()
        for name in ("left", "right"):
            builder.set_spout(name, spouts.memory(EVENTS))
        declarer = builder.set_bolt("join", join("anti"))
        for name in order:
            declarer.fields_grouping(name, "k")
        builder.set_sink("out", out).from_("join")
        play(builder.build(), {"left": [event("a", 1, 5, 10), cti(20)], "right": [event("b", 2, 5, 10), cti(20)]})
        found_rows.append([row["v"] for row in out.rows])
    assert found_rows == [[1], [1]]


def test_semi_and_anti_joins_have_the_columns_of_the_left_stream() -> None:
    for how in ("semi", "anti"):
        topology, _ = joining(join(how))
        assert topology.windowed["join"].outputs["default"].names == [
            "k", "v", "ts", "until", "shape", "overlap_start", "overlap_end"
        ]  # fmt: skip


def test_another_how_is_another_topology() -> None:
    told = {how: TopologyRules.of(joining(join(how))[0]) for how in HOWS}
    pairs = list(combinations(HOWS, 2))
    assert pairs
    assert [pair for pair in pairs if not differences(told[pair[0]], told[pair[1]])] == []


def test_a_how_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"how='outer'.*none of inner, left"):
        join("outer")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="forms its windows itself"):
        join("anti").with_tumbling_window("5s")
    with pytest.raises(TopologyError, match="no column 'right_v'"):
        joining(join("anti", outputs="k string, right_v long"))
