"""Bolts without windows that keep state: what a plain loop emits, however the input is cut and wherever a run dies."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manager.storage.checkpoint import FileCheckpoint, MemoryCheckpoint
from tests.helpers.crowding import crowded
from tests.helpers.examples import examples
from tests.oracles.stateful_loop import COLUMNS, Kept, KeptOfTables, PlainLoop, Row
from topologies.engine.batch import BatchPlan, InProcessExecutor, TimeAdvance
from topologies.engine.micro_batch import PHASES, MicroBatch
from topologies.engine.source_splits import TableSource
from topologies.io import sinks, spouts
from topologies.topology import Topology
from windbolt import RunOptions, TopologyBuilder, run_local
from windbolt.testing import TopologyDriver, prepared, run_bolt
from windowing import (
    AggregateBolt,
    Bolt,
    Count,
    Emit,
    StatefulBatchBolt,
    StatefulBolt,
    StatefulWindowedBolt,
    Tuple,
    TupleWindow,
    WindowedBolt,
    aggregates,
    presets,
)
from windowing.errors import BoltError
from windowing.settings.triggers import CountTrigger

SECOND = 1_000_000
EVERY = 10 * SECOND
Batch = tuple[list[Row], int]
"""Events, and the clock."""


class Crash(Exception):
    pass


def plans_of(topology: Topology, batches: Sequence[Batch], spout: str = "events") -> list[BatchPlan]:
    schema = topology.spouts[spout].outputs["default"]
    plans = []
    for number, (rows, clock) in enumerate(batches):
        splits = [TableSource(spout, pa.Table.from_pylist(rows, schema))] if rows else []
        plans.append(BatchPlan(number, TimeAdvance(clock), splits))
    last = batches[-1][1] if batches else 0
    return [*plans, BatchPlan(len(batches) - 1, TimeAdvance(last, close=True), closing=True)]


def run(topology: Topology, plans: Sequence[BatchPlan], crash_at: str | None = None, folder: Any = None) -> MicroBatch:
    """Run batches, each by a MicroBatch of its own; with ``crash_at`` each dies there first."""
    checkpoint: Any = MemoryCheckpoint() if folder is None else FileCheckpoint(str(folder))

    def fail(phase: str) -> None:
        if phase == crash_at:
            raise Crash

    for plan in plans:
        if crash_at is not None:
            step = MicroBatch(topology, checkpoint, InProcessExecutor())
            step.hook = fail
            with pytest.raises(Crash):
                step.run(plan)
            checkpoint = checkpoint if folder is None else FileCheckpoint(str(folder))
        step = MicroBatch(topology, checkpoint, InProcessExecutor())
        if not step.done(plan.batch) or (plan.closing and not step.manifest.closing):
            step.run(plan)
        for name, bolt in step.manifest.bolts.items():
            bolt.accounts.check(bolt.pending, name)
    return step


def of_bolt(bolt: StatefulBolt, tasks: int) -> tuple[Topology, sinks.MemorySink, sinks.MemorySink]:
    builder, out, odd = TopologyBuilder("stateful"), sinks.memory(), sinks.memory()
    builder.set_spout("events", spouts.memory(COLUMNS))
    declared = builder.set_bolt("kept", bolt, tasks)
    if bolt.settings.key:
        declared.fields_grouping("events")
    else:
        declared.global_grouping("events")
    builder.set_sink("out", out).from_("kept")
    builder.set_sink("odd", odd).from_("kept", stream="odd")
    return builder.build(), out, odd


def by_key(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """The rows of each key, in order."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(str(row["user"]), []).append(row)
    return found


@st.composite
def histories(draw: st.DrawFn) -> list[Batch]:
    """Batches of events under a clock that moves."""
    ids, clock, found = itertools.count(), draw(st.integers(0, 30 * SECOND)), list[Batch]()
    for _ in range(draw(st.integers(1, 5))):
        clock += draw(st.sampled_from([0, 1, 3 * SECOND, 9 * SECOND, 10 * SECOND, 47 * SECOND]))
        events = draw(st.lists(st.tuples(st.sampled_from(["ann", "bob", "", None]), st.integers(0, 3)), max_size=6))
        found.append(([{"id": next(ids), "user": user, "amount": amount} for user, amount in events], clock))
    return found


@st.composite
def cut_again(draw: st.DrawFn, batches: list[Batch]) -> list[Batch]:
    """The same events under the same clocks, cut elsewhere."""
    found = []
    for rows, clock in batches:
        cuts = sorted(draw(st.lists(st.integers(0, len(rows)), max_size=3)))
        for start, stop in itertools.pairwise([0, *cuts, len(rows)]):
            found.append((rows[start:stop], clock))
    return found


# ---- what a plain loop emits


@pytest.mark.parametrize("kind", [Kept, KeptOfTables])
@pytest.mark.parametrize(("keyed", "tasks"), [(False, 1), (True, 1), (True, 3)])
@given(st.data())
@examples(12)
def test_it_emits_what_a_plain_loop_emits(
    kind: type[Kept | KeptOfTables], keyed: bool, tasks: int, data: st.DataObject
) -> None:
    batches = data.draw(histories())
    loop = PlainLoop(keyed, EVERY)
    for rows, clock in batches:
        loop.batch(rows, clock)
    crash_at = data.draw(st.sampled_from([None, *PHASES]))
    bolt = kind().with_clock("10s")
    topology, out, odd = of_bolt(bolt.with_key("user") if keyed else bolt, tasks)
    step = run(topology, plans_of(topology, data.draw(cut_again(batches))), crash_at)
    assert by_key(out.rows) == by_key(loop.rows)
    assert sorted(odd.rows, key=lambda row: row["id"]) == loop.odd
    if not keyed:
        assert out.rows == loop.rows
    accounts = step.manifest.bolts["kept"].accounts
    events = sum(len(rows) for rows, _ in batches)
    assert (accounts["received"], accounts["windowed"]) == (events, events)


@pytest.mark.parametrize("crash_at", PHASES)
def test_a_death_at_every_step_changes_nothing(crash_at: str, tmp_path: Any) -> None:
    rows = [{"id": at, "user": "ab"[at % 2], "amount": at % 4} for at in range(12)]
    batches = [(rows[:5], 0), ([], 11 * SECOND), (rows[5:9], 12 * SECOND), (rows[9:], 35 * SECOND)]
    loop = PlainLoop(True, EVERY)
    for each in batches:
        loop.batch(*each)
    topology, out, _ = of_bolt(Kept().with_key("user").with_clock("10s"), 2)
    run(topology, plans_of(topology, batches), crash_at, tmp_path)
    assert by_key(out.rows) == by_key(loop.rows)
    heard = [row["seen"] for row in loop.rows if row["number"] < 0]
    assert heard == [f"1970-01-01 00:00:{second}+00:00" for second in (11, 35)]  # at 11 without events


def test_a_key_whose_state_is_the_first_one_takes_no_room() -> None:
    topology, _, _ = of_bolt(Kept().with_key("user").with_clock("10s"), 1)
    rows = [{"id": at, "user": f"u{at}", "amount": 1 if at == 7 else 0} for at in range(50)]
    step = run(topology, plans_of(topology, [(rows, 0)]))
    (task,) = step.manifest.bolts["kept"].tasks
    assert task.windows.get("keys") is not None
    assert task.windows.get("keys").rows == 1
    step = run(topology, plans_of(topology, [(rows[:7], 0)]))
    assert step.manifest.bolts["kept"].tasks[0].windows.get("keys") is None


def test_keys_of_several_columns_and_types_have_their_own_state() -> None:
    class Counts(StatefulBolt):
        outputs: ClassVar[Any] = "key string, n long"
        state_types: ClassVar[Any] = {"n": int}

        def execute(self, tuple: Tuple) -> Any:
            self.state["n"] += 1
            return str(self.key), self.state["n"]

    builder, out = TopologyBuilder("keys"), sinks.memory()
    builder.set_spout("events", spouts.memory("day date, place long, price double"))
    builder.set_bolt("n", Counts().with_key("day", "price"), 3).fields_grouping("events", "day")
    builder.set_sink("out", out).from_("n")
    topology, nan = builder.build(), float("nan")
    rows = [{"day": None, "place": 1, "price": price} for price in (nan, 0.0, None, nan, -0.0)]
    run(topology, plans_of(topology, [(rows, 0), (rows, 1)]))
    found = sorted((row["key"].replace("-0.0", "0.0"), row["n"]) for row in out.rows)
    four = range(1, 5)
    expected = [("(None, 0.0)", n) for n in four] + [("(None, None)", 1), ("(None, None)", 2)]
    assert found == sorted([*expected, *(("(None, nan)", n) for n in four)])


# ---- time passes through


class PassOn(StatefulBolt):
    """Passes on what it is given, and counts."""

    outputs: ClassVar[Any] = "id long, user string, amount long, ts long"
    state_types: ClassVar[Any] = {"n": int}

    def execute(self, tuple: Tuple) -> Any:
        """The same row."""
        self.state["n"] += 1
        return dict(tuple.values)


class PassTablesOn(StatefulBatchBolt):
    """The same with tables."""

    outputs: ClassVar[Any] = PassOn.outputs
    state_types: ClassVar[Any] = {"n": int}

    def execute(self, batch: pa.Table) -> Any:
        """The same rows."""
        self.state["n"] += batch.num_rows
        return batch


class Rows(WindowedBolt):
    """Windows as rows, which pass on their last event."""

    outputs: ClassVar[Any] = "id long, user string, amount long, ts long"

    def execute(self, window: TupleWindow) -> Any:
        """Two rows."""
        total, last = int(window.column("amount").sum()), window.get()[-1]
        yield last["id"], f"{window.column('id').tolist()}", total, window.end_timestamp
        yield last["id"], "again", total, last["ts"]


class Late(Bolt):
    """Not every row."""

    outputs: ClassVar[Any] = PassOn.outputs

    def execute(self, tuple: Tuple) -> Any:
        """Rows of even ids."""
        return None if tuple["id"] % 3 == 2 else dict(tuple.values)


def chain(pass_on: StatefulBolt | None, *, behind: bool, tasks: int = 1) -> tuple[Topology, dict[str, Any]]:
    """Windows over windows; with a bolt that passes on before the first, or between the two (``behind``)."""
    builder = TopologyBuilder("chain")
    kept = {name: sinks.memory() for name in ("first", "second", "late")}
    builder.set_spout("events", spouts.memory("id long, user string, amount long, ts long"))
    source = "events"
    if pass_on is not None and not behind:
        builder.set_bolt("pass", pass_on, tasks).fields_grouping("events", "user")
        source = "pass"
    windows = Rows().with_window("20ms", "10ms").with_timestamp_field("ts").with_lag("3ms")
    builder.set_bolt("first", windows.with_late_tuple_stream("late")).global_grouping(source)
    source = "first"
    builder.set_bolt("some", Late()).global_grouping(source)
    source = "some"
    if pass_on is not None and behind:
        builder.set_bolt("pass", pass_on, tasks).fields_grouping(source, "user")
        source = "pass"
    builder.set_bolt("second", Rows().with_tumbling_window("30ms")).global_grouping(source)
    builder.set_sink("out", kept["second"]).from_("second")
    builder.set_sink("one", kept["first"]).from_("first")
    builder.set_sink("late", kept["late"]).from_("first", stream="late")
    return builder.build(), kept


def without_stream(row: Row) -> Row:
    """A late row without the name of the stream that it came by."""
    return {name: value for name, value in row.items() if name != "_stream"}


@pytest.mark.parametrize("behind", [False, True])
@pytest.mark.parametrize("kind", [PassOn, PassTablesOn])
@given(st.lists(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 200)), max_size=8), min_size=1, max_size=6))
@examples(20)
def test_windows_behind_it_are_those_without_it(
    kind: type[StatefulBolt], behind: bool, drawn: list[list[tuple[str, int]]]
) -> None:
    ids = itertools.count()
    batches: list[Batch] = [
        ([{"id": next(ids), "user": user, "amount": at, "ts": at} for user, at in rows], number)
        for number, rows in enumerate(drawn)
    ]
    found = []
    for pass_on in (None, kind(), kind().with_key("user")):
        topology, kept = chain(pass_on, behind=behind)
        step = run(topology, plans_of(topology, batches))
        bolts = step.manifest.bolts
        counts = {name: bolts[name].accounts.totals(sum(bolts[name].pending)) for name in ("first", "second")}
        marks = {name: bolts[name].watermark.current for name in ("first", "second")}
        # The tables of one key come together, so only the rows of a key keep their order.
        in_order = pass_on is None or not (pass_on.settings.key and isinstance(pass_on, StatefulBatchBolt))
        by_sink = {name: [without_stream(row) for row in sink.rows] for name, sink in kept.items()}
        found.append((by_sink if in_order else None, counts, marks))
    for rows, counts, marks in found[1:]:
        assert rows is None or rows == found[0][0]
        assert (counts, marks) == found[0][1:]


def test_several_tasks_keep_the_windows() -> None:
    rows = [{"id": at, "user": "abc"[at % 3], "amount": at, "ts": 7 * (at % 29)} for at in range(60)]
    batches: list[Batch] = [(rows[:20], 0), (rows[20:45], 1), (rows[45:], 2)]
    found = []
    for tasks, pass_on in ((1, None), (3, PassOn())):
        builder, out = TopologyBuilder("tasks"), sinks.memory()
        builder.set_spout("events", spouts.memory("id long, user string, amount long, ts long"))
        if pass_on is not None:
            builder.set_bolt("pass", pass_on, tasks).fields_grouping("events", "user")
        bolt = AggregateBolt(n=aggregates.count(), total=aggregates.sum("amount")).with_tumbling_window("20ms")
        builder.set_bolt("sums", bolt.with_timestamp_field("ts").with_lag("50ms")).global_grouping(
            "events" if pass_on is None else "pass"
        )
        builder.set_sink("out", out).from_("sums")
        topology = builder.build()
        run(topology, plans_of(topology, batches))
        found.append(out.rows)
    assert found[0] == found[1]
    assert len(found[0]) > 5


# ---- what goes wrong


class Fails(StatefulBolt):
    """Fails on some events."""

    outputs: ClassVar[Any] = "n long"
    state_types: ClassVar[Any] = {"n": int}

    def execute(self, tuple: Tuple) -> Any:
        """What the amount says."""
        match tuple["amount"]:
            case 1:
                return 1 // 0
            case 2:
                return 17
            case 3:
                self.state["n"] = "three"
                return None
            case 4:
                return ("four",)
            case 5:
                self.state["other"] = 1
                return None
            case 6:
                return tuple["amuont"]
            case 7:
                self.state[7] = 1  # type: ignore[index]
                return None
            case 8:
                self.state = 8  # type: ignore[assignment]
                return None
        return (1,)

    def on_clock(self, clock: Any) -> Any:
        """Fails where the state says so."""
        raise ValueError(f"at {self.state['n']}")


@pytest.mark.parametrize(
    ("amount", "words"),
    [
        (1, r"in task 0 on the event \{'id': 9, 'user': 'ann', 'amount': 1\} of 'events'.*ZeroDivision.*line 6"),
        (2, r"on the event .*'id': 9.*a bolt returned int 17"),
        (3, "in task 0 in keeping its state.*state 'n' is str 'three', and was declared int"),
        (4, r"on the event .*'id': 9.*column 'n' was declared int64"),
        (5, "undeclared: .'other'."),
        (6, "on the event .*'id': 9.*did you mean 'amount'"),
        (7, r"has \['n', 7\], but \['n'\] are declared. undeclared: \[7\]"),
        (8, "in keeping its state.*self.state is int 8. it is a dict"),
    ],
)
@pytest.mark.parametrize("keyed", [False, True])
def test_an_error_says_where_and_nothing_is_committed(amount: int, words: str, keyed: bool) -> None:
    bolt = Fails().with_clock("10s")
    builder, out = TopologyBuilder("fails"), sinks.memory()
    builder.set_spout("events", spouts.memory(COLUMNS))
    builder.set_bolt("fails", bolt.with_key("user") if keyed else bolt).global_grouping("events")
    builder.set_sink("out", out).from_("fails")
    topology = builder.build()
    good, bad = {"id": 8, "user": "ann", "amount": 0}, {"id": 9, "user": "ann", "amount": amount}
    words = words.replace(".*line 6", rf".*{__name__.rpartition('.')[2]}.py:\d+, in execute")
    with pytest.raises(BoltError, match=f"(?s)bolt 'fails' failed.*{words}") as raised:
        run(topology, plans_of(topology, [([good, bad], 0)]))
    assert raised.value.task == 0
    assert raised.value.bolt == "fails"
    assert not out.rows


def test_an_error_by_the_clock_says_the_clock_and_the_key() -> None:
    class Ticks(Fails):
        state_types: ClassVar[Any] = {"n": int}

        def execute(self, tuple: Tuple) -> Any:
            self.state["n"] += 1

    builder = TopologyBuilder("fails")
    builder.set_spout("events", spouts.memory(COLUMNS))
    builder.set_bolt("fails", Ticks().with_key("user").with_clock("10s")).global_grouping("events")
    topology = builder.build()
    with pytest.raises(
        BoltError, match=r"in task 0 in on_clock at 1970-01-01T00:00:11Z, key 'ann', .*ValueError: at 1"
    ):
        run(topology, plans_of(topology, [([{"id": 8, "user": "ann", "amount": 0}], 0), ([], 11 * SECOND)]))


def test_an_error_with_a_table_says_how_many_events_and_which_key() -> None:
    class Fail(StatefulBatchBolt):
        outputs: ClassVar[Any] = "n long"
        state_types: ClassVar[Any] = {"n": int}

        def execute(self, batch: pa.Table) -> Any:
            return pa.table({"m": batch["id"]})

    builder = TopologyBuilder("fails")
    builder.set_spout("events", spouts.memory(COLUMNS))
    builder.set_bolt("fails", Fail().with_key("user")).global_grouping("events")
    topology = builder.build()
    words = r"in task 0 on 2 events of 'events', key 'ann', .*returned m, but declares 'n long'"
    rows = [{"id": at, "user": "ann", "amount": 0} for at in range(2)]
    with pytest.raises(BoltError, match=words):
        run(topology, plans_of(topology, [(rows, 0)]))


# ---- beside what else there is


class Labels(StatefulBatchBolt):
    """The inputs that tables come by, and how many rows they have."""

    outputs: ClassVar[Any] = "stream string, key string, ids array<long>, only long"
    state_types: ClassVar[Any] = {"calls": int}

    def execute(self, batch: pa.Table) -> Any:
        """A row."""
        self.state["calls"] += 1
        only = batch["only"].to_pylist()[-1]
        return self.stream, str(self.key), batch["id"].to_pylist(), only


def test_tables_of_two_inputs_come_one_by_one_with_the_columns_of_both() -> None:
    builder, out = TopologyBuilder("two"), sinks.memory()
    builder.set_spout("a", spouts.memory("id long, user string"))
    builder.set_spout("b", spouts.memory("id long, user string, only long"))
    declared = builder.set_bolt("labels", Labels().with_key("user"), 2)
    declared.fields_grouping("a").fields_grouping("b")
    builder.set_sink("out", out).from_("labels")
    topology = builder.build()
    a, b = (topology.spouts[name].outputs["default"] for name in "ab")
    first = pa.Table.from_pylist([{"id": at, "user": "xyx"[at]} for at in range(3)], a)
    second = pa.Table.from_pylist([{"id": 10 + at, "user": "xxy"[at], "only": at} for at in range(3)], b)
    step = run(topology, [BatchPlan(0, TimeAdvance(0), [TableSource("a", first), TableSource("b", second)])])
    assert sorted(out.rows, key=lambda row: (row["key"], row["stream"])) == [
        {"stream": "a", "key": "x", "ids": [0, 2], "only": None},
        {"stream": "b", "key": "x", "ids": [10, 11], "only": 1},
        {"stream": "a", "key": "y", "ids": [1], "only": None},
        {"stream": "b", "key": "y", "ids": [12], "only": 2},
    ]
    assert step.manifest.bolts["labels"].accounts.all_by_stream([0, 0])["b"]["windowed"] == 3


def test_behind_windows_that_a_trigger_fires_it_passes_on_the_clock() -> None:
    """The next trigger has the moment at which the windows fired, and not that of the batch, also at the end."""

    class Sums(WindowedBolt):
        outputs: ClassVar[Any] = "id long, user string, amount long"

        def execute(self, window: TupleWindow) -> Any:
            return len(window), window.key, int(window.column("amount").sum())

    def topology_of(between: StatefulBolt | None) -> tuple[Topology, sinks.MemorySink]:
        builder, out = TopologyBuilder("triggers"), sinks.memory()
        builder.set_spout("events", spouts.memory(COLUMNS))
        first = Sums().with_key("user").with_trigger(CountTrigger(Count(2)))
        builder.set_bolt("first", first).global_grouping("events")
        if between is not None:
            builder.set_bolt("between", between).global_grouping("first")
        second = Sums().with_key("user").with_trigger(CountTrigger(Count(2)))
        builder.set_bolt("second", second).global_grouping("first" if between is None else "between")
        builder.set_sink("out", out).from_("second")
        return builder.build(), out

    class Passes(PassOn):
        outputs: ClassVar[Any] = COLUMNS

    found = []
    for between in (None, Passes().with_key("user")):
        topology, out = topology_of(between)
        rows = [{"id": at, "user": "ab"[at % 2], "amount": at} for at in range(11)]
        run(topology, plans_of(topology, [(rows[:3], 0), (rows[3:9], SECOND), (rows[9:], 2 * SECOND)]))
        found.append(out.rows)
        assert topology.windowed["second"].brings_clock == (True,)
    assert found[0] == found[1]
    assert found[0]


def test_a_late_input_is_counted_once_and_what_cannot_be_read_is_invalid_here(tmp_path: Any) -> None:
    (tmp_path / "in.jsonl").write_text(
        '{"id": 1, "user": "a", "amount": 1}\nnothing\n{"id": 2, "user": "a", "amount": 2}\n'
    )
    builder, out = TopologyBuilder("bad"), sinks.memory()
    builder.set_spout("events", spouts.files(f"{tmp_path}/*.jsonl", COLUMNS))
    builder.set_bolt("kept", Kept().with_key("user").with_clock("1h")).global_grouping("events")
    builder.set_sink("out", out).from_("kept")
    summary = run_local(builder.build())
    assert summary.last is not None
    accounts = summary.last.bolts["kept"].accounts
    assert (accounts["received"], accounts["windowed"], accounts["invalid"]) == (3, 2, 1)
    assert [row["number"] for row in out.rows] == [1, 2]


def test_a_first_output_does_not_take_events_from_it() -> None:
    """What it has kept depends on all of them."""
    found = []
    for first in (None, "1970-01-01T00:00:00.100Z"):
        builder, out = TopologyBuilder("first"), sinks.memory()
        rows = [(at, "a", 1, 10 * at) for at in range(30)]
        builder.set_spout("events", spouts.memory("id long, user string, amount long, ts long", rows))
        builder.set_bolt("pass", PassOn()).global_grouping("events")
        sums = AggregateBolt(n=aggregates.count()).with_tumbling_window("50ms").with_timestamp_field("ts")
        builder.set_bolt("sums", sums).global_grouping("pass")
        builder.set_sink("out", out).from_("sums")
        summary = run_local(builder.build(), RunOptions(first_output=first))
        assert summary.last is not None
        found.append((summary.last.bolts["pass"].accounts["windowed"], out.rows))
    assert found[0][0] == found[1][0] == 30
    assert found[0][1][2:] == found[1][1]  # those that end before are not emitted
    assert len(found[1][1]) > 2


def test_a_test_drives_it_and_gives_it_rows() -> None:
    bolt = Kept().with_key("user").with_clock("10s")
    ran = run_bolt(bolt, [(1, "ann", 2), (2, "ann", 4)], COLUMNS)
    assert [row["total"] for row in ran.rows] == [1.0, 3.0]
    assert ran.streams["odd"] == [{"id": 1, "user": "ann"}]
    assert (ran.windows, ran.accounts["windowed"]) == ([], 2)
    ready = prepared(Fails())
    assert ready.execute(Tuple({"amount": 0}, 0, "input")) == (1,)
    assert ready.state == {"n": 0}
    driver = TopologyDriver(of_bolt(bolt, 2)[0], clock="2024-01-01T00:00:09Z")
    driver.push("events", [(1, "ann", 2), (3, "bob", 2)])
    driver.crash("fire")
    driver.advance_clock("1s")
    driver.crash("committed")
    driver.push("events", [(5, "ann", 2)])
    told = [(row["user"], row["number"]) for row in driver.read("kept")]
    assert sorted(told) == [("ann", -1), ("ann", 1), ("ann", 2), ("bob", -1), ("bob", 1)]
    assert "kept: 3 received, 3 windowed" in driver.story()


@pytest.mark.parametrize("hashes", [1, 2])
def test_keys_that_share_a_hash_have_their_own_state(hashes: int) -> None:
    users = ["ann", "bob", None, "cid", ""]
    rows = [{"id": at, "user": users[at % 5 if at < 20 else at % 3], "amount": at % 4} for at in range(40)]
    batches: list[Batch] = [(rows[:7], 0), (rows[7:26], 11 * SECOND), (rows[26:], 22 * SECOND), ([], 35 * SECOND)]
    loop = PlainLoop(True, EVERY)
    for each in batches:
        loop.batch(*each)
    for kind in (Kept, KeptOfTables):
        topology, out, _ = of_bolt(kind().with_key("user").with_clock("10s"), 2)
        with crowded(hashes):
            run(topology, plans_of(topology, batches), "commit")
        assert by_key(out.rows) == by_key(loop.rows)


def test_the_time_rules_of_a_source_reach_the_windows_behind_it() -> None:
    found = []
    for between in (None, PassOn()):
        builder = TopologyBuilder("rules")
        builder.set_spout(
            "events", spouts.memory("id long, user string, amount long, ts long"), time=presets.atlas("3s")
        )
        if between is not None:
            builder.set_bolt("pass", between).global_grouping("events")
        sums = AggregateBolt(n=aggregates.count()).with_tumbling_window("10s").with_timestamp_field("ts")
        builder.set_bolt("sums", sums).global_grouping("events" if between is None else "pass")
        found.append(builder.build().windowed["sums"].bolt.settings)
    assert found[0] == found[1]
    assert found[0].allowed_lateness.micros


# ---- what it emits and begins with is its own


class Listed(StatefulBolt):
    """Emits a list of its state, which it goes on changing; one row as a tuple, one as a dict."""

    outputs: ClassVar[Any] = {"default": "user string, seen array<long>", "dicts": "seen array<long>"}
    state_types: ClassVar[Any] = {"seen": list}

    def execute(self, tuple: Tuple) -> Any:
        """Of an even number a single row, of others two."""
        seen = self.state["seen"]
        seen.append(tuple["n"])
        if tuple["n"] % 2 == 0:
            return tuple["user"], seen
        return self._twice(tuple["user"], seen)

    def _twice(self, user: str, seen: list[int]) -> Any:
        yield user, seen
        seen.append(-1)
        yield Emit({"seen": seen}, "dicts")


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("rows_per_batch", [1, 2, 4])
def test_a_list_of_the_state_is_emitted_as_it_was(keyed: bool, rows_per_batch: int) -> None:
    bolt = Listed().with_key("user") if keyed else Listed()
    given = [("a", n) for n in range(4)]
    ran = run_bolt(bolt, given, "user string, n long", rows_per_batch=rows_per_batch)
    assert [row["seen"] for row in ran.rows] == [[0], [0, 1], [0, 1, -1, 2], [0, 1, -1, 2, 3]]
    assert [row["seen"] for row in ran.streams["dicts"]] == [[0, 1, -1], [0, 1, -1, 2, 3, -1]]


def test_a_list_of_the_state_of_a_windowed_bolt_is_emitted_as_it_was() -> None:
    class All(StatefulWindowedBolt):
        outputs: ClassVar[Any] = "seen array<long>"
        state_types: ClassVar[Any] = {"seen": list}

        def execute(self, window: TupleWindow) -> Any:
            self.state["seen"] += window.column("n").tolist()
            return {"seen": self.state["seen"]}

    ran = run_bolt(All().with_tumbling_window(1), [(n,) for n in range(3)], "n long", rows_per_batch=3)
    assert [row["seen"] for row in ran.rows] == [[0], [0, 1], [0, 1, 2]]


class Limited(StatefulBolt):
    """What is left of the limit of each key."""

    outputs: ClassVar[Any] = "user string, left long"
    state_types: ClassVar[Any] = {"left": int}
    limits: ClassVar[dict[str, int]] = {"ann": 10, "bob": 20}

    def initial_state(self) -> dict[str, Any]:
        """By the key."""
        return {"left": self.limits[self.key]}

    def execute(self, tuple: Tuple) -> Any:
        """What is left afterwards."""
        self.state["left"] -= tuple["n"]
        return self.key, self.state["left"]


@pytest.mark.parametrize("rows_per_batch", [1, 2, 4])
def test_the_first_state_may_follow_from_the_key(rows_per_batch: int) -> None:
    given = [("bob", 10), ("ann", 0), ("bob", 1), ("ann", 3)]  # bob's is that with which ann began, after the first
    ran = run_bolt(Limited().with_key("user"), given, "user string, n long", rows_per_batch=rows_per_batch)
    found = by_key(ran.rows)
    assert [row["left"] for row in found["bob"]] == [10, 9]
    assert [row["left"] for row in found["ann"]] == [10, 7]


def test_a_first_state_that_fails_names_the_key() -> None:
    with pytest.raises(BoltError, match=r"in task 0 in initial_state of key 'cid'.*test_stateful_bolts\.py:\d+"):
        run_bolt(Limited().with_key("user"), [("ann", 1), ("cid", 1)], "user string, n long")


@pytest.mark.parametrize("rows_per_batch", [1, 4])
def test_keys_do_not_share_the_lists_that_they_begin_with(rows_per_batch: int) -> None:
    class Shares(StatefulBolt):
        outputs: ClassVar[Any] = "user string, n long"
        state_types: ClassVar[Any] = {"seen": list}

        def __init__(self) -> None:
            self.first = [0]

        def initial_state(self) -> dict[str, Any]:
            return {"seen": self.first}

        def execute(self, tuple: Tuple) -> Any:
            self.state["seen"].append(tuple["n"])
            return self.key, len(self.state["seen"])

    given = [("ann", 1), ("bob", 1), ("ann", 1), ("bob", 1)]
    ran = run_bolt(Shares().with_key("user"), given, "user string, n long", rows_per_batch=rows_per_batch)
    assert sorted((row["user"], row["n"]) for row in ran.rows) == [("ann", 2), ("ann", 3), ("bob", 2), ("bob", 3)]
