"""An ``AggregateBolt`` that keeps rows of sums, beside the same bolt that is given the events of its windows.

Cases are drawn in every lateness rule and in every form of panes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from manager.keyed.retained_events import read_retained
from manager.storage.checkpoint import MemoryCheckpoint
from manager.storage.task_state import TaskState
from tests.manager.slices.test_slices import FromWindows, assert_alike, batches, declared, rows_of, wired
from topologies.engine import micro_batch
from topologies.engine.batch import BatchPlan, InProcessExecutor, TimeAdvance
from topologies.engine.micro_batch import MicroBatch
from topologies.topology import Topology
from windowing import AggregateBolt
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


Windowed = Callable[[AggregateBolt, dict[str, Any]], AggregateBolt]
"""Gives a bolt the windows of a case."""
Answer = tuple[list[dict[str, Any]], list[dict[str, Any]], list[Any]]
"""Rows, late events, and the accounts of each batch."""


def topology(case: dict[str, Any], kind: type[AggregateBolt], windowed: Windowed) -> Topology:
    """The bolt of a case, of this class, behind two spouts."""
    bolt = declared(kind, case["by"], dense=case["dense"])
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
    return wired(COLUMNS, windowed(bolt, case), "user" if case["key"] else None, case["tasks"])


def run(case: dict[str, Any], kind: type[AggregateBolt], windowed: Windowed, clock: int = 0) -> Answer:
    """All batches of a case; the clock of the first is after ``clock`` milliseconds."""
    built, checkpoint = topology(case, kind, windowed), MemoryCheckpoint()
    node = built.windowed["sums"]
    assert (node.partial_sums is not None) == (kind is AggregateBolt)
    accounts = []
    for number, splits in batches(case, built.spouts["left"].outputs["default"]):
        last = number == len(case["ends"])
        clock += 3 if case["lateness"] == "clock" else 700_000
        report = MicroBatch(built, checkpoint, InProcessExecutor()).run(
            BatchPlan(number, TimeAdvance(clock * 1_000, close=last), splits, closing=last)
        )
        bolt = report.bolts["sums"]
        accounts.append((bolt.accounts, bolt.windows, bolt.fired))
        if kind is AggregateBolt and node.assigners:
            for task in MicroBatch(built, checkpoint, InProcessExecutor()).manifest.bolts["sums"].tasks:
                check_rows(built, checkpoint, task)
    return rows_of(built, "out"), rows_of(built, "late"), accounts


def check_rows(built: Topology, checkpoint: MemoryCheckpoint, task: TaskState) -> None:
    """What is known of stored rows without reading them is so: how many are needed, and of how many events."""
    for ref in task.refs:
        held, flags = read_retained(checkpoint.segments, ref)
        needed = (flags & 2) == 0
        assert ref.needed == int(needed.sum()), "rows that are needed"
        assert held.weights is not None
        assert list(ref.by_stream) == held.weights[needed].sum(axis=0).tolist()


def assert_as_from_events(case: dict[str, Any], windowed: Windowed, clock: int = 0) -> Answer:
    """Sums that are merged as early and often as can be give the rows, late events and accounts of the events; returns
    them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(micro_batch, "_FANOUT", 2)
        rows, late, accounts = run(case, AggregateBolt, windowed, clock)
        wanted, wanted_late, wanted_accounts = run(case, FromWindows, windowed, clock)
    assert accounts == wanted_accounts
    assert late == wanted_late
    assert_alike(rows, wanted)
    return rows, late, accounts


def most_rows(case: dict[str, Any], windowed: Windowed) -> int:
    """The most rows that the only task of a bolt keeps, until its streams end; they stand for all events so far."""
    built, checkpoint, most = topology(case, AggregateBolt, windowed), MemoryCheckpoint(), 0
    for number, splits in batches(case, built.spouts["left"].outputs["default"]):
        if number < len(case["ends"]):
            MicroBatch(built, checkpoint, InProcessExecutor()).run(BatchPlan(number, TimeAdvance(number), splits))
            (task,) = MicroBatch(built, checkpoint, InProcessExecutor()).manifest.bolts["sums"].tasks
            most = max(most, task.refs.needed)
            assert sum(task.refs.by_stream(2)) == number + 1
    return most
