"""Operators on streams: joins, unions, shifts, and what they and windows promise to the bolts behind them."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.assigners import LiveEvents, OnsetWindows
from tests.helpers.examples import examples
from tests.helpers.lives import (
    EVENTS,
    GIVEN,
    Json,
    Life,
    cti,
    cut,
    event,
    joining,
    late,
    play,
    promised,
    rename_right_key,
)
from topologies.io import sinks, spouts
from topologies.testing.driver import TopologyDriver
from topologies.topology import Topology
from windbolt import TopologyBuilder, run_local
from windowing import (
    AlterLifetime,
    BatchBolt,
    ConfigError,
    Count,
    Duration,
    ShiftTime,
    TemporalJoin,
    TopologyError,
    TupleWindow,
    Union,
    WindowedBolt,
    millis,
)
from windowing.settings.kinds import Calendar, CountByStart, Hopping, Session, SlidingLog, Snapshot
from windowing.settings.panes import Panes
from windowing.settings.presets import atlas, azure, streaminsight
from windowing.settings.rules import Bounds, OutputTimeName
from windowing.timestamps import FOREVER, from_datetime


def join(**options: Any) -> TemporalJoin:
    bolt = TemporalJoin("left", "right", on="k", **options).with_time(GIVEN).with_timestamp_field("ts")
    return bolt.with_lifetime("until", shape_field="shape", edge_key=["k"])


def pairs(out: Any) -> list[tuple[int, int, int]]:
    return [(row["left_v"], row["right_v"], from_datetime(row["overlap_start"]) // 1000) for row in out.rows]


# ---- joins


@pytest.mark.feature("SI-22")
def test_a_join_releases_what_begins_before_the_lesser_of_the_marks() -> None:
    topology, out = joining(join())
    lefts = [event("a", 1, 5, 50), event("a", 2, 19, 40), event("a", 3, 20, 40), event("b", 4, 0, 50), cti(30)]
    rights = [event("a", 10, 0, 12), event("a", 11, 18, 90), event("c", 12, 0, 90), cti(20)]
    step = play(topology, {"left": lefts, "right": rights})
    assert pairs(out) == [(1, 10, 5), (1, 11, 18), (2, 11, 19)]
    assert step.manifest.bolts["join"].watermark.current == 20_000
    assert promised(topology, step, "join") == 20
    overlaps = [from_datetime(row["overlap_end"]) // 1000 for row in out.rows]
    assert overlaps == [12, 50, 40]


@pytest.mark.feature("SI-22")
def test_a_pair_is_released_when_it_begins_however_long_it_lasts() -> None:
    """Two start edges that never end meet when the watermark has passed the later start."""
    topology, out = joining(join())
    first = {"left": [event("a", 1, 5, shape="start_edge")], "right": [event("a", 2, 8, shape="start_edge")]}
    play(topology, first, {"left": [cti(8)], "right": [cti(9)]}, crash=True)
    assert out.rows == []
    play(topology, first, {"left": [cti(9)], "right": [cti(9)]}, {"left": [cti(90)], "right": [cti(90)]}, crash=True)
    assert pairs(out) == [(1, 2, 8)]
    assert out.rows[0]["overlap_end"] is None


@pytest.mark.feature("SI-32", "SI-15")
def test_a_join_is_as_lively_as_the_fast_stream_when_the_slow_one_imports_its_watermarks() -> None:
    rules = streaminsight(1, imports={"right": "left"}, policy="adjust")
    topology, out = joining(join().with_time(rules))
    lookup = {"right": [event("a", 9, 0, shape="start_edge")]}
    play(topology, lookup, {"left": [event("a", 1, 10)]}, {"left": [event("a", 2, 20)]}, crash=True)
    assert pairs(out) == [(1, 9, 10)]
    alone, none = joining(join().with_time(streaminsight(1, policy="adjust")))
    play(alone, lookup, {"left": [event("a", 1, 10)]}, {"left": [event("a", 2, 20)]})
    assert none.rows == []


@pytest.mark.feature("SI-3")
def test_a_lookup_row_holds_until_its_end_edge() -> None:
    topology, out = joining(join())
    step = play(
        topology,
        {"right": [event("a", 9, 0, shape="start_edge"), cti(10)], "left": [event("a", 1, 5), cti(10)]},
        {"left": [event("a", 2, 14), event("a", 3, 15)]},
        {"right": [event("a", 9, 0, 15, "end_edge"), event("a", 8, 15, shape="start_edge"), cti(20)]},
        {"left": [cti(20)]},
        crash=True,
    )
    assert pairs(out) == [(1, 9, 5), (2, 9, 14), (3, 8, 15)]
    assert sum(ref.needed for task in step.manifest.bolts["join"].tasks for ref in task.refs) == 1


def test_keys_that_are_null_join_nothing() -> None:
    topology, out = joining(join())
    play(topology, {"left": [event(None, 1, 5), cti(9)], "right": [event(None, 2, 5), cti(9)]})
    assert out.rows == []


def test_a_stream_without_ends_consists_of_points() -> None:
    bolt = TemporalJoin("left", "right", on=["k"], outputs="label string, v int, k string, overlap_end timestamp")
    bolt = bolt.with_timestamp_field("ts").with_lifetime("until")
    right = "k string, label string, ts long, until long"
    topology, out = joining(bolt, "k string, v long, ts long", right)
    rows = {"left": [{"k": "a", "v": 1, "ts": 5}], "right": [{"k": "a", "label": "x", "ts": 0, "until": 6}]}
    play(topology, rows, close=True)
    assert [(row["label"], row["v"], row["k"]) for row in out.rows] == [("x", 1, "a")]
    assert from_datetime(out.rows[0]["overlap_end"]) == 5_001
    assert topology.windowed["join"].outputs["default"].field("v").type == pa.int32()


def test_columns_that_both_streams_have_are_renamed_as_asked() -> None:
    bolt = join(rename="{column}_of_{stream}", start="since", end="till")
    topology, _ = joining(bolt, "k string, v long, ts long, until long, shape string, cti long, only long")
    assert topology.windowed["join"].outputs["default"].names == [
        "k", "v_of_left", "ts_of_left", "until_of_left", "shape_of_left", "only",
        "v_of_right", "ts_of_right", "until_of_right", "shape_of_right", "since", "till",
    ]  # fmt: skip
    same = pickle.loads(pickle.dumps(topology)).windowed["join"].bolt
    assert same.output_schemas() == topology.windowed["join"].bolt.output_schemas()


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda: TemporalJoin("left", "right", on=[]), "key columns"),
        (lambda: TemporalJoin("left", "left", on="k"), "with itself"),
        (lambda: TemporalJoin("left", "right", on="k", rename="{column}"), "rename"),
        (lambda: TemporalJoin("left", "right", on="k", rename="{x}"), "rename"),
        (lambda: join().with_tumbling_window("5s"), "forms its windows itself"),
        (lambda: join().with_key("v"), "its own key changed"),
        (lambda: join().with_time(atlas().but(bounds=Bounds.END)), "its own bounds changed"),
        (lambda: join().with_alignment(bounds="(start, end]"), "its own bounds changed"),
        (lambda: join().with_key("k").with_watermark(per_key=True), "watermark_per_key"),
        (lambda: Union().with_lifetime("until"), "with_lifetime on the bolt that reads"),
        (lambda: Union().with_trigger(Panes(early=1)), "its own panes changed"),
        (lambda: AlterLifetime("until"), "neither"),
        (lambda: AlterLifetime("until", start="ts", duration="5s", extend="5s"), "both"),
        (lambda: AlterLifetime("until", duration="5s"), "without start="),
        (lambda: AlterLifetime("until", start="ts", duration="0s"), "lifetime of zero"),
        (lambda: ShiftTime("--5s"), "not a duration"),
    ],
)
def test_operators_that_cannot_be_are_refused_where_they_are_made(make: Any, what: str) -> None:
    with pytest.raises(ConfigError, match=what):
        make()


@pytest.mark.parametrize(
    ("bolt", "what"),
    [
        (
            TemporalJoin("left", "other", on="k").with_timestamp_field("ts").with_lifetime("until"),
            "the join is of 'left' and",
        ),
        (TemporalJoin("left", "right", on="k").with_timestamp_field("ts"), "without lifetimes"),
        (
            TemporalJoin("left", "right", on=["k", "z"]).with_timestamp_field("ts").with_lifetime("until"),
            "'z' of 'left'",
        ),
        (join(outputs="k string, z long"), "no column 'z'"),
        (join(outputs="k array<long>"), "was declared"),
        (join(start="k"), "two columns 'k'"),
        (join().with_time(streaminsight(1, imports={"right": "lfet"})), "but has no input 'lfet'"),
        (TemporalJoin("left", "right", on="k").with_lifetime("until"), "there is no event time"),
    ],
)
def test_joins_that_do_not_fit_their_streams_are_refused_when_they_are_built(bolt: Any, what: str) -> None:
    with pytest.raises(TopologyError, match=what):
        joining(bolt)


@pytest.mark.feature("SI-15")
def test_the_tasks_of_a_join_share_out_keys() -> None:
    builder = TopologyBuilder("shuffled")
    builder.set_spout("left", spouts.memory(EVENTS))
    builder.set_spout("right", spouts.memory(EVENTS))
    builder.set_bolt("join", join(), 2).fields_grouping("left", "k").shuffle_grouping("right")
    with pytest.raises(TopologyError, match="several tasks"):
        builder.build()


# ---- against every pair, one by one


def expected(events: list[Life], watermark: int) -> list[tuple[int, int, int]]:
    """Every pair of equal key that overlaps and begins before the watermark: left, right, start."""
    found = []
    for left, one in enumerate(events):
        for right, other in enumerate(events):
            if one.side != "left" or other.side != "right" or one.key != other.key:
                continue
            begin = max(one.start, other.start)
            ends = [each.end or each.ended or 1000 for each in (one, other)]
            if begin < min(ends) and begin < watermark:
                found.append((left, right, begin))
    return sorted(found)


@examples(80, by_default=30)
@given(cut(), st.integers(1, 2), st.booleans())
def test_a_join_finds_every_pair_however_its_events_are_cut_into_batches(
    script: tuple[list[Life], list[Json], int], tasks: int, crash: bool
) -> None:
    events, batches, watermark = script
    topology, out = joining(join(), tasks=tasks)
    step = play(topology, *batches, crash=crash)
    assert sum(late(step).values()) == 0
    assert sorted(pairs(out)) == expected(events, watermark)
    assert tasks > 1 or [start for _, _, start in pairs(out)] == sorted(start for _, _, start in pairs(out))
    flushed, everything = joining(join().with_time(GIVEN.but(close_fires=True)), tasks=tasks)
    play(flushed, *batches, close=True)
    assert sorted(pairs(everything)) == expected(events, 1000)


@examples(40, by_default=15)
@given(cut(), st.integers(1, 2), st.booleans())
def test_the_key_may_have_another_name_on_either_side(
    script: tuple[list[Life], list[Json], int], tasks: int, crash: bool
) -> None:
    """The right key is ``kk``; the right column that is called as the left key says something else."""
    events, batches, watermark = script
    rename_right_key(batches)
    bolt = TemporalJoin("left", "right", on={"left": "k", "right": "kk"}).with_time(GIVEN).with_timestamp_field("ts")
    bolt = bolt.with_lifetime("until", shape_field="shape", edge_key=["v"])
    topology, out = joining(bolt, right=f"{EVENTS}, kk string", tasks=tasks, right_key="kk")
    step = play(topology, *batches, crash=crash)
    assert sum(late(step).values()) == 0
    assert sorted(pairs(out)) == expected(events, watermark)
    assert all(row["left_k"] == row["kk"] and row["right_k"] == "another" for row in out.rows)


def test_groupings_by_which_pairs_would_not_meet_are_refused_with_the_right_ones() -> None:
    bolt = TemporalJoin("left", "right", on={"left": "k", "right": "v"}).with_time(GIVEN).with_timestamp_field("ts")
    with pytest.raises(TopologyError, match="values of these types are not compared"):
        joining(bolt.with_lifetime("until"), tasks=2)
    bolt = TemporalJoin("left", "right", on={"left": "k", "right": "kk"}).with_time(GIVEN).with_timestamp_field("ts")
    with pytest.raises(TopologyError, match=r"use fields_grouping\('left', 'k'\) and fields_grouping\('right', 'kk'\)"):
        joining(bolt.with_lifetime("until"), right=f"{EVENTS}, kk string", tasks=2)


MOMENTS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 20), st.integers(0, 8)), max_size=20)


@examples(200, by_default=80)
@given(MOMENTS, st.integers(-1, 25), st.integers(-1, 25), st.booleans())
def test_an_onset_holds_what_lives_at_the_moment(events: Any, one: int, other: int, endless: bool) -> None:
    events = sorted((key, start, start + length) for key, start, length in events)
    ends = [FOREVER if endless and end % 5 == 0 else end for _, _, end in events]
    columns = [np.array([each[at] for each in events], np.int64) for at in (0, 1)]
    held = LiveEvents(columns[1], columns[0], np.array(ends, np.int64))
    after, upto = sorted((one, other))
    wanted = []
    for key, start in {(key, start) for (key, start, _), end in zip(events, ends, strict=True) if end > start}:
        members = [
            at
            for at, (of, begin, _) in enumerate(events)
            if of == key and begin <= start < ends[at] and ends[at] > begin
        ]
        wanted.append((start + 1, start, key, members))
    found = [
        (int(split.ends[at]), int(split.starts[at]), split.members[split.offsets[at] : split.offsets[at + 1]].tolist())
        for split in OnsetWindows().assign(held, after, upto)
        for at in range(len(split))
    ]
    assert found == [(end, start, names) for end, start, _, names in sorted(wanted) if after < end <= upto]
    following = OnsetWindows().next_end(held, after)
    assert following == min((end for end, _, _, _ in wanted if end > after), default=None)
    needed = {at for end, _, _, names in wanted if end > upto for at in names}
    finished = OnsetWindows().finished(held, upto)
    assert not any(finished[at] for at in needed)


# ---- unions


def uniting(bolt: Union) -> tuple[Topology, Any]:
    builder, out = TopologyBuilder("union"), sinks.memory()
    builder.set_spout("left", spouts.memory("ts long, v long, cti long"))
    builder.set_spout("right", spouts.memory("ts long, w string, cti long"))
    builder.set_bolt("union", bolt).global_grouping("left").global_grouping("right")
    builder.set_bolt(
        "ten", Counted().with_tumbling_window(millis(10)).with_time(streaminsight(1, to_infinity=True))
    ).global_grouping("union")
    builder.set_sink("out", out).from_("union")
    builder.set_sink("tens", sinks.memory()).from_("ten")
    return builder.build(), out


class Counted(WindowedBolt):
    """A row a window: its start in milliseconds, and how many events it has."""

    outputs: ClassVar[Any] = "start long, n long"

    def execute(self, window: TupleWindow) -> Any:
        assert window.start_timestamp is not None
        return window.start_timestamp // 1000, len(window)


def tens(topology: Topology) -> list[tuple[int, int]]:
    sink = topology.sinks["tens"].sink
    assert isinstance(sink, sinks.MemorySink)
    return [(row["start"], row["n"]) for row in sink.rows]


@pytest.mark.feature("SI-23")
def test_a_union_releases_in_order_what_is_before_the_lesser_of_the_marks() -> None:
    topology, out = uniting(Union().with_time(GIVEN).with_timestamp_field("ts"))
    lefts = [{"ts": 25, "v": 1}, {"ts": 3, "v": 2}, {"ts": 19, "v": 3}, cti(30)]
    rights = [{"ts": 20, "w": "a"}, {"ts": 11, "w": "b"}, {"ts": 3, "w": "c"}]
    step = play(topology, {"left": lefts}, {"right": [*rights, cti(20)]}, crash=True)
    assert [(row["ts"], row["v"], row["w"]) for row in out.rows] == [
        (3, 2, None),
        (3, None, "c"),
        (11, None, "b"),
        (19, 3, None),
    ]
    assert promised(topology, step, "union") == 20
    assert step.manifest.bolts["ten"].watermark.current == 20_000
    assert tens(topology) == [(0, 2), (10, 2)]


@examples(30, by_default=10)
@given(
    st.lists(st.tuples(st.sampled_from(["left", "right"]), st.integers(0, 60), st.booleans()), max_size=20),
    st.sampled_from([None, "storm", "azure", "atlas"]),
)
def test_a_union_loses_nothing_and_keeps_the_order(events: Any, rules: str | None) -> None:
    bolt = Union().with_timestamp_field("ts")
    if rules is None or rules == "storm":
        bolt = bolt.with_lag("1s")
    elif rules == "azure":
        bolt = bolt.with_time(azure(out_of_order="1s", late=None, early=None))
    elif rules == "atlas":
        bolt = bolt.with_time(atlas("1s"))
    batches: list[Json] = [{}]
    for side, ts, new in events:
        batches[-1].setdefault(side, []).append({"ts": ts, "v": ts})
        batches += [{}] if new else []
    topology, out = uniting(bolt)
    step = play(topology, *batches, close=True)
    assert [row["ts"] for row in out.rows] == sorted(ts for _, ts, _ in events)
    assert sum(late(step).values()) == 0
    assert sum(n for _, n in tens(topology)) == len(events)


# ---- shifts


def moved(*bolts: BatchBolt) -> tuple[Topology, Any]:
    """A union, plain bolts one after the other, and another union, which also reads the first directly."""
    builder, out = TopologyBuilder("shift"), sinks.memory()
    builder.set_spout("events", spouts.memory("ts long, until long, cti long"))
    builder.set_bolt("first", Union().with_time(GIVEN).with_timestamp_field("ts")).global_grouping("events")
    last = "first"
    for number, bolt in enumerate(bolts):
        builder.set_bolt(f"plain{number}", bolt).shuffle_grouping(last)
        last = f"plain{number}"
    second = Noted().with_time(streaminsight(1)).with_tumbling_window(millis(1))
    builder.set_bolt("second", second).global_grouping(last)
    builder.set_bolt("both", Union().with_time(streaminsight(1))).global_grouping("first").global_grouping(last)
    builder.set_sink("out", out).from_("second")
    return builder.build(), out


class Noted(WindowedBolt):
    """Each event, and its time in milliseconds."""

    outputs: ClassVar[Any] = "ts long, until long, at long"

    def execute(self, window: TupleWindow) -> Any:
        rows = window.table.select(["ts", "until"])
        return rows.append_column("at", pa.array(window.timestamps // 1000))


@pytest.mark.feature("SI-25")
@pytest.mark.parametrize(
    ("bolts", "by"),
    [
        ([ShiftTime("5ms")], 5),
        ([ShiftTime("-5ms")], -5),
        ([ShiftTime("5ms"), ShiftTime(millis(2)), ShiftTime("-10ms")], -3),
        ([ShiftTime("0s")], 0),
    ],
)
def test_a_shift_moves_events_and_their_watermark(bolts: list[BatchBolt], by: int) -> None:
    topology, out = moved(*bolts)
    step = play(topology, {"events": [{"ts": 3}, {"ts": 11}, {"ts": 12}, cti(12)]}, crash=True)
    assert step.manifest.bolts["second"].watermark.current == (12 + by) * 1000
    assert [(row["ts"], row["at"]) for row in out.rows] == [(3, 3 + by), (11, 11 + by)]
    assert step.manifest.bolts["both"].watermark.current == (12 + min(by, 0)) * 1000
    assert sum(late(step).values()) == 0


class Odd(BatchBolt):
    outputs: ClassVar[Any] = "ts long, until long"

    def execute(self, batch: pa.Table) -> Any:
        odd = pa.array([ts % 2 == 1 for ts in batch.column("ts").to_pylist()])
        return batch.filter(odd).select(["ts", "until"])


@pytest.mark.feature("SI-26")
def test_a_filter_passes_the_watermark_on_as_it_is() -> None:
    topology, out = moved(Odd())
    step = play(topology, {"events": [{"ts": 3}, {"ts": 4}, {"ts": 11}, {"ts": 12}, {"ts": 13}, cti(12)]})
    assert step.manifest.bolts["second"].watermark.current == 12_000
    assert [row["ts"] for row in out.rows] == [3, 11]


def test_a_shift_moves_the_columns_it_is_told_to() -> None:
    topology, out = moved(ShiftTime("5ms", fields=["ts", "until"]))
    play(topology, {"events": [{"ts": 3, "until": 9}, {"ts": 11}, cti(12)]})
    assert [(row["ts"], row["until"], row["at"]) for row in out.rows] == [(8, 14, 8), (16, None, 16)]


@pytest.mark.feature("SI-25")
@pytest.mark.parametrize(
    ("bolt", "rows", "mark"),
    [
        (AlterLifetime("until", start="ts", duration="7ms"), [(3, 10, 3), (11, 18, 11)], 12),
        (AlterLifetime("until", start="ts", duration="7ms", shift="-2ms"), [(1, 8, 1), (9, 16, 9)], 10),
        (AlterLifetime("until", extend="-2ms"), [(3, 7, 3), (11, None, 11)], 12),
        (AlterLifetime("until", extend="2ms", shift="1ms"), [(3, 11, 4), (11, None, 12)], 13),
    ],
)
def test_lifetimes_are_changed_by_a_rule(bolt: BatchBolt, rows: Any, mark: int) -> None:
    topology, out = moved(bolt)
    step = play(topology, {"events": [{"ts": 3, "until": 9}, {"ts": 11}, {"ts": 12}, cti(12)]})
    assert [(row["ts"], row["until"], row["at"]) for row in out.rows] == rows
    assert step.manifest.bolts["second"].watermark.current == mark * 1000


@pytest.mark.parametrize(
    "kind", [pa.timestamp("s"), pa.timestamp("ms", "UTC"), pa.timestamp("ns"), pa.int64()], ids=str
)
def test_times_of_any_type_are_moved(kind: pa.DataType) -> None:
    unit = 1 if kind == pa.timestamp("s") else 1_000_000_000 if kind == pa.timestamp("ns") else 1000
    given = pa.table({"t": pa.array([5 * unit, None], pa.int64()).cast(kind)})
    schemas = {"in": given.schema}
    later = ShiftTime("2s", fields=["t"]).for_inputs(schemas).execute(given)
    assert later.column("t").cast(pa.int64()).to_pylist() == [7 * unit, None]
    ended = AlterLifetime("end", start="t", duration="3s").for_inputs(schemas).execute(given)
    assert [end and from_datetime(end) for end in ended.column("end").to_pylist()] == [8_000_000, None]
    inclusive = AlterLifetime("end", start="t", duration="3s", inclusive=True).for_inputs(schemas).execute(given)
    assert [end and from_datetime(end) for end in inclusive.column("end").to_pylist()] == [8_000_001, None]
    again = AlterLifetime("t", start="t", duration="3s").for_inputs(schemas).execute(given)
    assert again.column("t").cast(pa.int64()).to_pylist() == [8 * unit, None]


@pytest.mark.parametrize(
    ("bolt", "what"),
    [
        (ShiftTime("5s", fields=["z"]), "no column 'z'"),
        (ShiftTime("5us", fields=["ts"]), "coarser unit"),
        (AlterLifetime("until", start="z", duration="1s"), "no column 'z'"),
        (AlterLifetime("z", extend="1s"), "no column 'z'"),
        (AlterLifetime("until", start="ts", duration="1s", inclusive=True), "which is int64.*coarser unit"),
    ],
)
def test_shifts_that_do_not_fit_their_stream_are_refused_when_they_are_built(bolt: Any, what: str) -> None:
    with pytest.raises(TopologyError, match=what):
        moved(bolt)


@pytest.mark.parametrize(("inclusive", "met"), [(False, []), (True, ["a"])])
def test_an_event_at_the_very_end_of_a_life_meets_it_if_the_end_belongs_to_it(inclusive: bool, met: list[str]) -> None:
    builder, schema = TopologyBuilder("paid"), "order string, ts timestamp"
    builder.set_spout("orders", spouts.memory(schema))
    builder.set_spout("payments", spouts.memory(schema))
    lives = AlterLifetime("until", start="ts", duration="30m", inclusive=inclusive)
    builder.set_bolt("waiting", lives).shuffle_grouping("orders")
    join = TemporalJoin("waiting", "payments", on="order").with_timestamp_field("ts").with_lifetime("until")
    builder.set_bolt("paid", join).fields_grouping("waiting").fields_grouping("payments")
    driver = TopologyDriver(builder.build())
    driver.push("orders", [("a", "2024-01-01T06:00:00Z"), ("b", "2024-01-01T06:00:00Z")])
    driver.push("payments", [("a", "2024-01-01T06:30:00Z"), ("b", "2024-01-01T06:30:00.000001Z")])
    driver.close()
    assert [row["order"] for row in driver.read("paid")] == met


def test_the_end_of_a_life_that_is_no_duration_is_where_it_is() -> None:
    with pytest.raises(ConfigError, match="without duration="):
        AlterLifetime("until", extend="1s", inclusive=True)


# ---- what windows promise


def promising(bolt: WindowedBolt, time: OutputTimeName = "window start") -> Topology:
    """A windowed bolt that gives out its windows by their starts, and one behind it that would miss any late one."""
    builder = TopologyBuilder("promise")
    builder.set_spout("events", spouts.memory("ts long, cti long"))
    first = bolt.with_time(output_time=time)
    builder.set_bolt("first", first).global_grouping("events")
    builder.set_bolt(
        "ten", Counted().with_time(streaminsight(1, to_infinity=True)).with_tumbling_window(millis(3))
    ).global_grouping("first")
    builder.set_sink("tens", sinks.memory()).from_("ten")
    return builder.build()


def hopping(length: int, slide: int) -> WindowedBolt:
    return Counted().with_time(GIVEN).with_timestamp_field("ts").with_window(millis(length), millis(slide))


@pytest.mark.feature("SI-24")
@pytest.mark.parametrize(
    ("length", "slide", "given", "promise"),
    [(10, 10, 12, 10), (10, 5, 12, 5), (10, 10, 20, 20), (10, 5, 20, 15), (4, 10, 12, 10), (4, 10, 14, 20)],
)
@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("time", ["window start", "window end"])
def test_a_window_promises_the_start_of_the_earliest_that_is_open(
    length: int, slide: int, given: int, promise: int, keyed: bool, time: str
) -> None:
    bolt = hopping(length, slide)
    topology = promising(bolt.with_key("ts") if keyed else bolt, time)  # type: ignore[arg-type]
    step = play(topology, {"events": [{"ts": 11}, {"ts": 19}, cti(given)]})
    assert promised(topology, step, "first") == promise
    assert step.manifest.bolts["ten"].watermark.current == promise * 1000


SHAPES = {
    "tumbling": lambda bolt: bolt.with_tumbling_window(millis(10)),
    "hopping": lambda bolt: bolt.with_window(millis(10), millis(4)),
    "gaps": lambda bolt: bolt.with_window(millis(4), millis(10)),
    "per event": lambda bolt: bolt.with_window(millis(10), 2),
    "keyed": lambda bolt: bolt.with_window(millis(10), millis(4)).with_key("ts"),
    "sessions": lambda bolt: bolt.with_window(Session(millis(4))),
    "long sessions": lambda bolt: bolt.with_window(Session(millis(4), max_duration=millis(8))),
    "snapshots": lambda bolt: bolt.with_window(Snapshot()),
    "sliding": lambda bolt: bolt.with_window(SlidingLog(millis(10))),
    "counts": lambda bolt: bolt.with_window(CountByStart(Count(3))),
    "calendar": lambda bolt: bolt.with_window(Calendar("hour", "UTC")),
    "rolling": lambda bolt: bolt.with_window(Calendar("hour", "UTC", last=3)),
    "several": lambda bolt: bolt.with_window(SlidingLog(millis(7)), Hopping(millis(5), millis(5))),
}


@pytest.mark.feature("SI-24")
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("bounds", Bounds)
@examples(10, by_default=5)
@given(events=st.lists(st.tuples(st.integers(0, 60), st.booleans()), max_size=20), scale=st.sampled_from([1, 100_000]))
def test_no_window_that_is_given_out_by_its_start_is_late_for_the_next_bolt(
    shape: str, bounds: Bounds, events: Any, scale: int
) -> None:
    bolt = SHAPES[shape](Counted().with_timestamp_field("ts")).with_lag(millis(20 * scale))
    bolt = bolt.configured(replace(bolt.settings, bounds=bounds))  # not asked for: some shapes have no edges
    topology = promising(bolt)
    batches: list[Json] = [{}]
    for ts, new in events:
        batches[-1].setdefault("events", []).append({"ts": ts * scale})
        batches += [{}] if new else []
    step = play(topology, *batches, close=True)
    assert late(step)["ten"] == 0
    fired = sum(task.bolt.fired for task in step.manifest.bolts["first"].tasks)
    assert sum(n for _, n in tens(topology)) == fired


def test_endless_lifetimes_do_not_wrap_when_they_are_shifted() -> None:
    builder = TopologyBuilder("endless")
    builder.set_spout("events", spouts.memory(EVENTS))
    first = Counted().with_time(streaminsight(1, to_infinity=True)).with_timestamp_field("ts").with_window(Snapshot())
    first = first.with_lifetime("until", shape_field="shape")
    builder.set_bolt("first", first).global_grouping("events")
    builder.set_bolt("later", ShiftTime(Duration(5))).shuffle_grouping("first")
    second = Counted().with_tumbling_window(millis(10)).with_time(streaminsight(1, to_infinity=True))
    builder.set_bolt("second", second.with_time(output_time="window start")).global_grouping("later")
    builder.set_sink("tens", sinks.memory()).from_("second")
    topology = builder.build()
    step = play(topology, {"events": [event("a", 1, 3, shape="start_edge")]})
    assert step.manifest.bolts["second"].accounts.totals(0)["received"] == 0


def test_an_event_that_ends_as_it_begins_is_invalid_and_one_that_lasts_a_microsecond_is_not() -> None:
    builder, errors, out = TopologyBuilder("short"), sinks.memory(), sinks.memory()
    builder.set_spout("events", spouts.memory("ts timestamp, until timestamp", [(5, 5), (5, 6), (5, 4)]))
    bolt = Counted().with_time(streaminsight(1, to_infinity=True)).with_timestamp_field("ts").with_window(Snapshot())
    builder.set_bolt("counted", bolt.with_lifetime("until")).global_grouping("events")
    builder.set_sink("out", out).from_("counted")
    builder.set_sink("errors", errors).from_("counted", stream="errors")
    summary = run_local(builder.build())
    assert [row["_reason"] for row in errors.rows] == ["its lifetime ends before it begins, or as it begins"] * 2
    assert summary.last is not None
    assert summary.last.bolts["counted"].accounts["windowed"] == 1


VERSIONED = st.lists(
    st.tuples(st.sampled_from("oopp"), st.sampled_from("ab"), st.integers(0, 30), st.booleans()), max_size=30
)


@examples(60, by_default=30)
@given(VERSIONED, st.sampled_from(["inner", "left"]))
def test_a_version_lasts_until_the_next_one_of_its_key(drawn: list[tuple[str, str, int, bool]], how: Any) -> None:
    join = TemporalJoin("orders", "prices", on="item", how=how, outputs="id long, price long", versions=True)
    builder = TopologyBuilder("versions")
    builder.set_spout("prices", spouts.memory("item string, price long, ts long"))
    builder.set_spout("orders", spouts.memory("id long, item string, ts long"))
    bolt = builder.set_bolt("join", join.with_timestamp_field("ts").with_lag("100ms"))
    bolt.global_grouping("prices").global_grouping("orders")
    driver = TopologyDriver(builder.build())
    prices: list[tuple[str, int, int]] = []
    orders: list[tuple[int, str, int]] = []
    batch: dict[str, list[Any]] = {"prices": [], "orders": []}
    for number, (kind, item, ts, ends) in enumerate(drawn):
        if kind == "p":
            prices.append((item, number, ts))
            batch["prices"].append((item, number, ts))
        else:
            orders.append((number, item, ts))
            batch["orders"].append((number, item, ts))
        if ends:
            driver.push_together(batch)
            batch = {"prices": [], "orders": []}
    driver.push_together(batch)
    driver.close()
    expected = []
    for number, item, ts in orders:
        held = [(since, price) for each, price, since in prices if each == item and since <= ts]
        if held or how == "left":
            expected.append((number, max(held)[1] if held else None))
    assert sorted((row["id"], row["price"]) for row in driver.read("join")) == sorted(expected), driver.story()


def test_versions_wait_for_no_end_edge() -> None:
    join = TemporalJoin("orders", "prices", on="item", versions=True).with_timestamp_field("ts")
    builder = TopologyBuilder("versions")
    for name in ("prices", "orders"):
        builder.set_spout(name, spouts.memory("item string, ts long, until long, shape string"))
    bolt = builder.set_bolt("join", join.with_lifetime("until", shape_field="shape", edge_key=["item"]))
    bolt.global_grouping("prices").global_grouping("orders")
    with pytest.raises(TopologyError, match="versions=True of events with a shape_field"):
        builder.build()
