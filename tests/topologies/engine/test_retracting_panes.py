"""What is left of the rows of windows that fire again, when those that were taken back are gone: the last word.

The oracle takes one event after the other and knows neither batches nor triggers: which windows hold an event is
decided as it comes, by the windows that the watermark has closed by then.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from manager.storage.checkpoint import MemoryCheckpoint
from policies.assigners import AlignedWindows, SessionWindows, WindowAssigner
from tests.helpers.examples import examples
from tests.oracles.assigner_oracle import NOT_CLOSED, Happening, windows
from topologies.engine.batch import BatchPlan, InProcessExecutor, TimeAdvance
from topologies.engine.micro_batch import MicroBatch
from topologies.engine.source_splits import TableSource
from windbolt import TopologyBuilder, sinks, spouts
from windowing import TupleWindow, WindowedBolt
from windowing.durations import Duration
from windowing.errors import TopologyError
from windowing.schema import EmittedRows
from windowing.settings.kinds import Hopping, Session
from windowing.settings.panes import Panes, PaneTrigger, after_count, after_event_time
from windowing.settings.rules import Bounds

COLUMNS = "name int, key int, ts long, gap long"
Row = tuple[int, int, int, str]
"""Key, start, end, and the names of the events."""


class Shows(WindowedBolt):
    outputs = "key int, start long, end long, names string"

    def execute(self, window: TupleWindow) -> EmittedRows:
        names, key = window.column("name").tolist(), window.column("key").tolist()[0]
        assert window.start_timestamp is not None
        yield key, window.start_timestamp // 1_000, window.end_timestamp // 1_000, " ".join(map(str, names))


class Run:
    """A bolt that is given batch after batch, each in a new process."""

    def __init__(self, bolt: WindowedBolt) -> None:
        builder = TopologyBuilder("panes")
        builder.set_spout("events", spouts.memory(COLUMNS))
        late = bolt.with_timestamp_field("ts").with_late_tuple_stream("late")
        builder.set_bolt("shows", late).global_grouping("events")
        builder.set_sink("rows", sinks.memory()).from_("shows")
        builder.set_sink("late", sinks.memory()).from_("shows", stream="late")
        self.topology, self.checkpoint, self.number = builder.build(), MemoryCheckpoint(), -1
        self.standing = Counter[Row]()
        """The rows that no other has taken back."""

    def batch(self, *events: Event, close: bool = False) -> set[Row]:
        """Run a micro-batch; returns the rows that it adds. What is taken back must stand."""
        self.number += 1
        rows = [(each.name, each.key, each.at, each.gap) for each in events]
        tables = list(spouts.memory(COLUMNS, rows).tables()) if rows else []
        splits = [TableSource("events", table, 0) for table in tables]
        step = MicroBatch(self.topology, self.checkpoint, InProcessExecutor())
        step.run(BatchPlan(self.number, TimeAdvance(0, close=close), splits))
        added = set[Row]()
        for row in self._new("rows"):
            shown = (row["key"], row["start"], row["end"], row["names"])
            if not row.get("_retract"):
                self.standing[shown] += 1
                added.add(shown)
                continue
            assert self.standing[shown], f"{shown} does not stand"
            self.standing -= Counter([shown])
        return added

    def late(self) -> list[int]:
        return [row["name"] for row in self._new("late")]

    def _new(self, sink: str) -> list[dict[str, Any]]:
        memory: Any = self.topology.sinks[sink].sink
        return [row for number in sorted(memory.batches) for row in memory.batches.pop(number).to_pylist()]


@dataclass(frozen=True)
class Event:
    name: int
    key: int
    at: int
    gap: int = 0
    """The gap of sessions that give each event its own."""


# ---- cases that have gone wrong


def after(bolt: WindowedBolt, *batches: list[Event], close: bool = True) -> list[Row]:
    """What stands after these batches, and the end of the streams."""
    run = Run(bolt)
    for batch in batches:
        run.batch(*batch)
    if close:
        run.batch(close=True)
    return sorted(run.standing.elements())


def test_a_session_that_has_grown_takes_back_its_row_after_the_end_that_it_had() -> None:
    """A watermark of 72 closes what ended at 10, but not the session, which ends at 15 since 2 came."""
    kept_open = Shows().with_key("key").with_window(Session("10ms")).with_lateness(
        by="window", allowed="60ms", by_session=True
    )  # fmt: skip
    bolt = kept_open.with_trigger(Panes(late=after_count(2), mode="retracting"))
    events = [Event(1, 0, 0), Event(8, 1, 20), Event(2, 0, 5), Event(9, 1, 72), Event(3, 0, 14)]
    assert after(bolt, *([event] for event in events)) == [
        (0, 0, 24, "1 2 3"), (1, 20, 30, "8"), (1, 72, 82, "9"),
    ]  # fmt: skip


def test_a_session_beside_one_that_has_closed_takes_back_nothing_of_it() -> None:
    """The first session of key 0 closes at a watermark of 12, before 2 comes, which ends at 15."""
    kept_open = Shows().with_key("key").with_window(Session("10ms")).with_watermark(every=1).with_lateness(
        by="window", allowed="1ms", by_session=True
    )  # fmt: skip
    bolt = kept_open.with_trigger(Panes(early=after_count(1), mode="retracting"))
    events = [Event(8, 1, 13), Event(2, 0, 5), Event(9, 1, 60)]
    expected = [(0, 0, 10, "1"), (0, 5, 15, "2"), (1, 13, 23, "8"), (1, 60, 70, "9")]
    assert after(bolt, [Event(1, 0, 0)], events) == expected
    assert after(bolt, *([event] for event in [Event(1, 0, 0), *events])) == expected


def test_sessions_that_a_late_event_may_cut_elsewhere_after_they_have_fired_are_refused() -> None:
    cut = Shows().with_window(Session("10ms", max_duration="20ms"))
    with pytest.raises(TopologyError, match="has panes, and sessions with a max_duration"):
        Run(cut.with_trigger(Panes(early=after_count(1))))


# ---- every kind of window


@dataclass
class Case:
    """A bolt, events in the order in which they arrive, and where batches end."""

    kind: str
    keyed: bool
    lag: int
    allowed: int | None
    """The allowed lateness; None: late is what is behind the watermark."""
    by_session: bool
    each: bool
    """Whether the watermark follows each event, and not the ends of batches."""
    bounds: Bounds
    panes: Panes
    batches: list[list[Event]] = field(default_factory=list)

    def bolt(self, *, fires_once: bool = False) -> WindowedBolt:
        bolt = (Shows().with_key("key") if self.keyed else Shows()).with_lag(f"{self.lag}ms")
        match self.kind:
            case "tumbling":
                bolt = bolt.with_tumbling_window("10ms").with_alignment(bounds=self.bounds)
            case "sliding":
                bolt = bolt.with_window("10ms", "4ms").with_alignment(bounds=self.bounds)
            case "two kinds":
                kinds = Hopping("10ms", "10ms"), Hopping("6ms", "3ms")
                bolt = bolt.with_window(*kinds).with_alignment(bounds=self.bounds)
            case "sessions":
                bolt = bolt.with_window(Session("5ms"))
            case "touching":
                bolt = bolt.with_window(Session("5ms", touching=True))
            case "own gaps":
                bolt = bolt.with_window(Session("5ms", gap_field="gap"))
        if self.each:
            bolt = bolt.with_watermark(every=1)
        if self.allowed is not None:
            bolt = bolt.with_lateness(by="window", allowed=f"{self.allowed}ms")
        if self.by_session:
            bolt = bolt.with_lateness(by_session=True)
        return bolt if fires_once else bolt.with_trigger(self.panes)

    def windows(self, events: list[Happening]) -> list[tuple[int, int, int, list[int]]]:
        """The windows of these events: end, start, key, and the names of its events."""
        return [window for assigner in self._assigners() for window in windows(assigner, events)]

    def _assigners(self) -> tuple[WindowAssigner, ...]:
        ten = AlignedWindows(Duration(10), Duration(10), bounds=self.bounds)
        match self.kind:
            case "tumbling":
                return (ten,)
            case "sliding":
                return (AlignedWindows(Duration(10), Duration(4), bounds=self.bounds),)
            case "two kinds":
                return (ten, AlignedWindows(Duration(6), Duration(3), bounds=self.bounds))
        return (SessionWindows(Duration(5), touching=self.kind == "touching"),)


SESSIONS = ("sessions", "touching", "own gaps")
KINDS = ("tumbling", "sliding", "two kinds", "sessions", "touching", "own gaps")


@st.composite
def triggers(draw: st.DrawFn) -> PaneTrigger:
    return draw(
        st.sampled_from(
            [
                after_count(1),
                after_count(2),
                after_count(3),
                after_event_time("3ms"),
                after_count(2) | after_event_time("6ms"),
                after_count(2) & after_event_time("2ms"),
                after_event_time("4ms", even_unchanged=True),
                after_count(1).once(),
            ]
        )
    )


@st.composite
def cases(draw: st.DrawFn) -> Case:
    kind, allowed = draw(st.sampled_from(KINDS)), draw(st.sampled_from((None, 0, 4, 12, 30)))
    early = draw(st.none() | triggers())
    late = draw(st.none() | triggers()) if allowed else None
    at_end = draw(st.integers(2, 3)) if early is None and draw(st.booleans()) else None
    if early is None and late is None and at_end is None:
        early = after_count(1)
    case = Case(
        kind=kind,
        keyed=draw(st.booleans()),
        lag=draw(st.sampled_from([0, 3, 25])),
        allowed=allowed,
        by_session=allowed is not None and kind in SESSIONS and draw(st.booleans()),
        each=draw(st.booleans()),
        bounds=draw(st.sampled_from(list(Bounds))),
        panes=Panes(early, late, "retracting", at_end=at_end),
    )
    now, batch = 0, list[Event]()
    for name in range(draw(st.integers(1, 25))):
        now += draw(st.sampled_from([0, 1, 2, 5, 9]))
        at = now - draw(st.sampled_from([0, 0, 0, 1, 4, 7, 15, 30]))
        batch.append(Event(name, draw(st.integers(0, 1)), at, draw(st.sampled_from([1, 5, 12]))))
        if draw(st.integers(0, 2)) == 0:
            case.batches.append(batch)
            batch = []
    case.batches.append(batch)
    return case


@dataclass
class Windows:
    """Which windows hold the events that have come so far, one event after the other."""

    case: Case
    open: list[Happening] = field(default_factory=list)
    closed: set[Row] = field(default_factory=set)
    """The windows that nothing can change any more."""
    late: list[int] = field(default_factory=list)

    def add(self, event: Event, watermark: int | None) -> None:
        """Take one event, as it comes at a watermark."""
        case, limit = self.case, NOT_CLOSED if watermark is None else watermark - (self.case.allowed or 0)
        key = event.key if case.keyed else 0
        limit -= case.kind == "touching"  # these may take an event of the moment at which they end
        gap = event.gap if case.kind == "own gaps" else None
        taken = Happening(event.name, key, event.at, closed=limit, gap=gap)
        if case.kind in SESSIONS:
            for start, end, names in self._of_key(key):
                if end <= limit:
                    self.closed.add((key, start, end, " ".join(map(str, names))))
                    self.open = [each for each in self.open if each.name not in names]
        if self._is_late(taken, watermark, limit):
            self.late.append(event.name)
        else:
            self.open.append(taken)

    def _of_key(self, key: int) -> list[tuple[int, int, list[int]]]:
        found = self.case.windows([each for each in self.open if each.key == key])
        return [(start, end, names) for end, start, _, names in found]

    def _is_late(self, event: Happening, watermark: int | None, limit: int) -> bool:
        if watermark is None:
            return False
        alone = self.case.windows([replace(event, closed=NOT_CLOSED)])
        last = max(end for end, *_ in alone)
        if self.case.allowed is None:
            tied = event.start == watermark and self.case.kind not in SESSIONS and last <= watermark
            return event.start < watermark or tied
        if self.case.kind not in SESSIONS:
            return last <= limit
        before = len(self._of_key(event.key))
        self.open.append(event)
        joins = len(self._of_key(event.key)) <= before
        self.open.pop()
        return not joins and (last <= limit if self.case.by_session else event.start < watermark - self.case.allowed)

    def last(self) -> set[Row]:
        """Every window, with the events that it holds in the end."""
        found = self.case.windows(self.open)
        shown = {(key, start, end, " ".join(map(str, names))) for end, start, key, names in found}
        least = 1 if self.case.panes.at_end is None else self.case.panes.at_end.value
        return {row for row in self.closed | shown if len(row[3].split()) >= least}


def shown_twice(case: Case, standing: Counter[Row]) -> bool:
    """Whether a window, or for sessions an event, is in two of the rows."""
    names = [name for row in standing.elements() for name in row[3].split()]
    idents = [row[:3] for row in standing.elements()]
    return len(set(idents)) < len(idents) or (case.kind in SESSIONS and len(set(names)) < len(names))


def normal(rows: set[Row] | Counter[Row], case: Case) -> list[tuple[int, int, int, list[int]]]:
    return sorted(
        (key if case.keyed else 0, start, end, sorted(map(int, names.split()))) for key, start, end, names in rows
    )


@examples(150)
@given(cases())
def test_what_remains_is_what_a_run_with_everything_on_time_would_have_emitted_last(case: Case) -> None:
    run, expected = Run(case.bolt()), Windows(case)
    latest: int | None = None
    for batch in case.batches:
        ticked = None if latest is None else latest - case.lag
        for event in batch:
            expected.add(event, None if latest is None else latest - case.lag if case.each else ticked)
            latest = event.at if latest is None else max(latest, event.at)
        before = {name for row in run.standing for name in row[3].split()}
        added = normal(run.batch(*batch), case)
        assert all(row in normal(expected.last(), case) for row in added), "fires before all events of its batch"
        assert not shown_twice(case, run.standing)
        assert before <= {name for row in run.standing for name in row[3].split()}
    run.batch(close=True)
    assert run.late() == expected.late
    assert normal(run.standing, case) == normal(expected.last(), case)


@examples(60, by_default=50)
@given(cases())
def test_what_remains_is_what_the_same_bolt_emits_that_fires_once(case: Case) -> None:
    assume(case.panes.at_end is None)
    run, once = Run(case.bolt()), Run(case.bolt(fires_once=True))
    for batch in case.batches:
        run.batch(*batch)
        once.batch(*batch)
        assert not shown_twice(case, run.standing)
    run.batch(close=True)
    once.batch(close=True)
    assert run.late() == once.late()
    assert run.standing == once.standing
