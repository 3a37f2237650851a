"""Sessions whose events are added up as they come: rows, late events and accounts are those of a bolt that is given the
events of each session.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from manager.keyed.retained_events import read_held
from manager.storage.checkpoint import MemoryCheckpoint
from manager.storage.task_state import TaskState
from tests.helpers.examples import examples
from tests.manager.slices.test_slices import FromWindows, assert_alike, batches, declared, rows_of
from topologies import TopologyBuilder, sinks, spouts
from topologies.engine import micro_batch
from topologies.engine.batch import BatchPlan, InProcess, TimeAdvance
from topologies.engine.micro_batch import MicroBatch
from topologies.topology import Topology
from windowing import AggregateBolt
from windowing.settings.kinds import Session
from windowing.settings.panes import Panes, after_clock, after_count, after_event_time

COLUMNS = "id long, user string, shop int, ts long, amount double, pieces int, gap long"

PANES: dict[str, dict[str, Any]] = {
    "early, accumulating": {"early": after_count(2)},
    "at once": {"early": after_count(1), "late": after_count(2)},
    "late only": {},
    "discarding": {"early": after_count(2), "mode": "discarding"},
    "retracting": {"early": after_count(1), "mode": "retracting"},
    "retracting by time": {"early": after_event_time("3ms"), "late": after_count(2), "mode": "retracting"},
    "by the clock": {"early": after_clock("1ms", even_unchanged=True)},
}
"""Arguments of ``Panes``. Where windows take late events, ``late`` is True unless it is said; elsewhere it is None."""
LATENESS: dict[str, Callable[[AggregateBolt], AggregateBolt]] = {
    "storm": lambda bolt: bolt,
    "by window": lambda bolt: bolt.with_lateness(by="window", allowed="3ms"),
    "by window, none allowed": lambda bolt: bolt.with_lateness(by="window"),
    "by session": lambda bolt: bolt.with_lateness(by="window", allowed="6ms", by_session=True),
    "each event": lambda bolt: bolt.with_lateness(by="window", allowed="2ms").with_watermark(every=1),
    "each event, by session": lambda bolt: bolt.with_lateness(by="window", by_session=True).with_watermark(every=1),
    "each third": lambda bolt: bolt.with_watermark(every=3),
    "each key": lambda bolt: bolt.with_watermark(per_key=True),
    "idle": lambda bolt: bolt.with_watermark(idle_timeout="1s"),
}  # fmt: skip


TAKES_LATE = ("by window", "by session", "each event")
UNFIT = {name: {"late only"} for name in ("clock", *LATENESS) if name not in TAKES_LATE}
UNFIT["each key"] = set(PANES)


@st.composite
def cases(draw: st.DrawFn) -> dict[str, Any]:
    rows = draw(
        st.lists(
            st.tuples(
                st.sampled_from(["a", "b", None]), st.integers(0, 2), st.integers(-3, 40),
                st.none() | st.integers(-8, 8).map(float), st.none() | st.integers(-5, 5),
                st.integers(0, 9), st.booleans(),
            ),
            min_size=1, max_size=50,
        )
    )  # fmt: skip
    kind = draw(st.sampled_from(["gap", "gap", "touching", "cut", "field"]))
    lateness = draw(st.sampled_from(["clock", *LATENESS]))
    return {
        "gap": draw(st.integers(1, 8)),
        "kind": kind,
        "longest": draw(st.integers(2, 15)),
        "key": draw(st.booleans()) or lateness == "each key",
        "lag": draw(st.integers(0, 12)),
        "by": draw(st.sampled_from([None, (), ("user",), ("user", "shop"), ("shop",)])),
        "tasks": draw(st.integers(1, 3)),
        "dense": draw(st.booleans()),
        "lateness": lateness,
        "panes": draw(st.sampled_from(["", *sorted(set(PANES) - UNFIT.get(lateness, set()))])),
        "rows": [(at, *row[:6]) for at, row in enumerate(rows)],
        "ends": [row[6] for row in rows],
    }


def session(case: dict[str, Any]) -> Session:
    gap = f"{case['gap']}ms"
    match case["kind"]:
        case "touching":
            return Session(gap, touching=True)
        case "cut":
            return Session(gap, max_duration=f"{case['longest']}ms")
        case "field":
            return Session(gap, gap_field="gap")
    return Session(gap)


def topology(case: dict[str, Any], kind: type[AggregateBolt]) -> Topology:
    builder = TopologyBuilder("sessions")
    for name in ("left", "right"):
        builder.set_spout(name, spouts.memory(COLUMNS))
    bolt = declared(kind, case["by"], dense=case["dense"]).with_window(session(case))
    if case["key"]:
        bolt = bolt.with_key("user")
    if case["panes"]:
        given = PANES[case["panes"]]
        late = {"late": given.get("late", True)} if case["lateness"] in TAKES_LATE else {"late": None}
        bolt = bolt.with_trigger(Panes(**{**given, **late}))
    if case["lateness"] == "clock":
        bolt = bolt.with_time(processing=True)
    else:
        bolt = bolt.with_timestamp_field("ts").with_lag(f"{case['lag']}ms").with_late_tuple_stream("late")
        bolt = LATENESS[case["lateness"]](bolt)
    declarer = builder.set_bolt("sums", bolt, parallelism=case["tasks"] if case["key"] else 1)
    for name in ("left", "right"):
        if case["key"]:
            declarer.fields_grouping(name, "user")
        else:
            declarer.global_grouping(name)
    builder.set_sink("out", sinks.memory()).from_("sums")
    if case["lateness"] != "clock":
        builder.set_sink("late", sinks.memory()).from_("sums", "late")
    return builder.build()


def run(case: dict[str, Any], kind: type[AggregateBolt]) -> tuple[list[dict[str, Any]], Any, Any]:
    built, checkpoint = topology(case, kind), MemoryCheckpoint()
    assert (built.windowed["sums"].summing is not None) == (kind is AggregateBolt)
    accounts, clock = [], 0
    for number, splits in batches(case, built.spouts["left"].outputs["default"]):
        last = number == len(case["ends"])
        clock += 3 if case["lateness"] == "clock" else 700_000
        report = MicroBatch(built, checkpoint, InProcess()).run(
            BatchPlan(number, TimeAdvance(clock * 1_000, close=last), splits, closing=last)
        )
        bolt = report.bolts["sums"]
        accounts.append((bolt.accounts, bolt.windows, bolt.fired))
        if kind is AggregateBolt:
            for task in MicroBatch(built, checkpoint, InProcess()).manifest.bolts["sums"].tasks:
                check_rows(built, checkpoint, task)
    return rows_of(built, "out"), rows_of(built, "late"), accounts


def check_rows(built: Topology, checkpoint: MemoryCheckpoint, task: TaskState) -> None:
    """What is known of stored rows without reading them is so: how many are needed, and of how many events."""
    for ref in task.refs:
        held, flags = read_held(checkpoint.segments, ref)
        needed = (flags & 2) == 0
        assert ref.needed == int(needed.sum()), "rows that are needed"
        assert held.weights is not None
        assert list(ref.by_stream) == held.weights[needed].sum(axis=0).tolist()


@examples(600, by_default=150)
@given(cases())
def test_rows_and_accounts_are_those_of_sessions_of_events(case: dict[str, Any]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(micro_batch, "_FANOUT", 2)  # rows are merged early and often
        rows, late, accounts = run(case, AggregateBolt)
        wanted, wanted_late, wanted_accounts = run(case, FromWindows)
    event(f"{case['lateness']}: {'late events' if late else 'none late'}")
    assert accounts == wanted_accounts
    assert late == wanted_late
    assert_alike(rows, wanted)


def case_of(rows: list[tuple[str, int]], ends: set[int], **others: Any) -> dict[str, Any]:
    """A case of rows of a key and a time; batches end with these rows."""
    settings: dict[str, Any] = {
        "gap": 5, "kind": "gap", "longest": 9, "key": True, "lag": 0, "by": None, "tasks": 1, "dense": False,
        "lateness": "storm", "panes": "",
    }  # fmt: skip
    made = [(at, key, 1, time, 1.0, 1, 3) for at, (key, time) in enumerate(rows)]
    return {**settings, **others, "rows": made, "ends": [at in ends for at in range(len(made))]}


def test_a_late_event_joins_two_sessions_that_have_fired(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both inputs have come to 30, so [0, 5) and [8, 14) have fired."""

    def long(bolt: AggregateBolt) -> AggregateBolt:
        return bolt.with_lateness(by="window", allowed="60ms", by_session=True)

    monkeypatch.setitem(LATENESS, "by session", long)
    rows = [("a", 0), ("a", 8), ("a", 9), ("b", 30), ("b", 30), ("b", 30), ("a", 4)]
    case = case_of(rows, {1, 3, 5, 6}, lateness="by session", panes="retracting")
    found, _, accounts = run(case, AggregateBolt)
    wanted, _, wanted_accounts = run(case, FromWindows)
    assert_alike(found, wanted)
    assert accounts == wanted_accounts
    of_a = [(row["_retract"], row["ids"]) for row in found if row["user"] == "a"]
    assert of_a[-3:] == [(True, [0]), (True, [1, 2]), (False, [0, 6, 1, 2])]


@pytest.mark.parametrize("panes", ["", "discarding"])
def test_a_session_of_many_events_in_many_batches_is_few_rows(panes: str) -> None:
    """However many events there are: a row for each segment, and these are merged."""
    many = 600
    case = case_of([("a", at) for at in range(many)], set(range(0, many, 6)), panes=panes)
    built, checkpoint, most = topology(case, AggregateBolt), MemoryCheckpoint(), 0
    for number, splits in batches(case, built.spouts["left"].outputs["default"]):
        if number < many:
            MicroBatch(built, checkpoint, InProcess()).run(BatchPlan(number, TimeAdvance(number), splits))
            (task,) = MicroBatch(built, checkpoint, InProcess()).manifest.bolts["sums"].tasks
            most = max(most, task.refs.needed)
            assert sum(task.refs.by_stream(2)) == number + 1
    assert most <= 3 * micro_batch._FANOUT * (2 if panes else 1)
