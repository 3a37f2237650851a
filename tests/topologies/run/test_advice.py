"""What a run advises at its end: what it says is true, and doing it changes no output."""

from __future__ import annotations

import ast
import enum
import functools
import re
import types
from collections.abc import Callable, Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from manager.slices import SliceSums
from tests.helpers.examples import examples
from topologies.cli.displays import print_summary
from topologies.engine.task_data import INPUT, BoltWork
from topologies.run.summary import Advice, AdviceLimits, Summary, advice_on
from topologies.topology import Topology
from windbolt import RunOptions, TopologyBuilder, run_local, sinks, spouts
from windowing import (
    AggregateBolt,
    BatchBolt,
    BatchWindowedBolt,
    Count,
    Emit,
    Panes,
    Session,
    TupleWindow,
    WindowedBolt,
    aggregates,
    panes,
    seconds,
)
from windowing.settings.triggers import CountTrigger

COLUMNS = "ts timestamp, user string, amount double, fee long, note string, text string, more long"
NAMES = [column.split()[0] for column in COLUMNS.split(", ")]
ALWAYS = AdviceLimits(seconds=0.0, spared=0, share=0.0)
"""Whatever there is to say is said."""


def events(rows: int, seed: int = 0) -> pa.Table:
    random = np.random.default_rng(seed)
    times = 1_700_000_000_000_000 + np.arange(rows) * 300_000 + random.integers(0, 900_000, rows)
    return pa.table(
        {
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
            "user": [f"u{code}" for code in random.integers(0, 3, rows)],
            "amount": random.random(rows).round(3),
            "fee": random.integers(0, 9, rows),
            "note": [None if row % 5 == 0 else f"note {row}" for row in range(rows)],
            "text": ["x" * 50] * rows,
            "more": list(range(rows)),
        }
    )


def built(bolt: WindowedBolt, source: Any, *, streams: Sequence[str] = (), tasks: int = 2) -> tuple[Topology, Any]:
    builder, out = TopologyBuilder("t"), sinks.memory()
    builder.set_spout("events", source)
    bolt = bolt.with_timestamp_field("ts").with_lag(seconds(1))
    if "late" in streams:
        bolt = bolt.with_late_tuple_stream("late")
    builder.set_bolt("bolt", bolt, parallelism=tasks).fields_grouping("events", "user")
    builder.set_sink("out", out).from_("bolt")
    for stream in streams:
        builder.set_sink(f"more_{stream}", sinks.memory()).from_("bolt", stream)
    return builder.build(), out


def of_columns(topology: Topology, summary: Summary, limits: AdviceLimits = ALWAYS) -> Advice | None:
    found = [each for each in advice_on(topology, summary.work, limits) if each.about == "columns"]
    return found[0] if found else None


def declaring(bolt: WindowedBolt, advice: Advice) -> WindowedBolt:
    """The bolt with what the advice says to write, and as Python reads it."""
    assert advice.write is not None
    (line,) = ast.parse(advice.write).body
    assert isinstance(line, ast.Assign)
    (target,) = line.targets
    assert isinstance(target, ast.Name)
    wanted = {target.id: ast.literal_eval(line.value)}
    kind = type("Declaring", (type(bolt),), wanted)
    again: WindowedBolt = object.__new__(kind)
    again.__dict__.update(vars(bolt))
    return again


class Hidden:
    """What a bolt does, where neither its code nor what it holds shows it: names are put together while running."""

    def __init__(self, ways: Sequence[tuple[str, tuple[str, ...]]]) -> None:
        self._backwards = repr(tuple(ways))[::-1]

    @property
    def ways(self) -> Sequence[tuple[str, tuple[str, ...]]]:
        found: Sequence[tuple[str, tuple[str, ...]]] = ast.literal_eval(self._backwards[::-1])
        return found


WHOLE: dict[str, Callable[[TupleWindow], Any]] = {
    "table": lambda window: window.table.column(3).to_pylist(),
    "filtered": lambda window: window.table.filter(pa.array(window.table[3].to_numpy() > 3)).to_pylist(),
    "grouped": lambda window: window.table.group_by(window.table.column_names[1]).aggregate([]).to_pylist(),
    "names": lambda window: window.table.column_names,
    "new": lambda window: window.new.to_pylist(),
    "expired": lambda window: window.expired.to_pylist() if window.knows_expired else None,
    "pandas": lambda window: window.to_pandas().astype(str).to_dict("records"),
    "get": lambda window: window.get(),
    "get_new": lambda window: window.get_new(),
    "get_expired": lambda window: window.get_expired() if window.knows_expired else None,
    "stream": lambda window: window.stream("events").to_pylist(),
    "source": lambda window: window.source.table(window.members).to_pylist(),
}
"""Ways to get all columns at once."""
NAMED: dict[str, Callable[..., Any]] = {
    "column": lambda window, *names: [window.column(name).tolist() for name in names],
    "select": lambda window, *names: window.select(*names).to_pylist(),
    "select_stream": lambda window, *names: window.select(*names, stream="events").to_pylist(),
    "select_new": lambda window, *names: window.select_new(*names).to_pylist(),
    "select_expired": lambda window, *names: (
        window.select_expired(*names).to_pylist() if window.knows_expired else None
    ),
    "groups": lambda window, *names: [(by, [each.tolist() for each in more]) for by, *more in window.groups(*names)],
    "groups_stream": lambda window, *names: [by for by, *_ in window.groups(*names, stream="events")],
}
"""Ways to get some."""
NEITHER: dict[str, Callable[[TupleWindow], Any]] = {
    "len": len,
    "times": lambda window: window.timestamps.tolist(),
    "bounds": lambda window: (window.start, window.end_timestamp, window.key, window.task),
    "places": lambda window: window.places("events").tolist(),
    "ends": lambda window: window.lifetime_ends.tolist(),
    "repr": repr,
}


def done(window: TupleWindow, ways: Sequence[tuple[str, tuple[str, ...]]]) -> str:
    found = []
    for way, names in ways:
        call = NAMED.get(way) or WHOLE.get(way) or NEITHER[way]
        found.append(call(window, *names))
    return repr(found)


class Asks(WindowedBolt):
    outputs = "answer string"

    def __init__(self, hidden: Hidden) -> None:
        self.hidden = hidden

    def execute(self, window: TupleWindow) -> Any:
        return (done(window, self.hidden.ways),)


class AsksAtOnce(BatchWindowedBolt):
    outputs = "answer string"

    def __init__(self, hidden: Hidden) -> None:
        self.hidden = hidden

    def execute_all(self, windows: Any) -> Any:
        found: list[str] = []
        for number, window in enumerate(windows):
            ways = self.hidden.ways
            if ways and number % 2:
                window = windows[number]  # noqa: PLW2901
            found.append(done(window, ways))
        for way, names in self.hidden.ways:
            if way == "select":
                found[0] += repr(windows.select(*names)[: windows.offsets[1]].to_pylist())
            elif way == "table":
                found[0] += repr(windows.table[: windows.offsets[1]].to_pylist())
        return pa.table({"answer": found}), np.arange(len(found))


KINDS: dict[str, Callable[[WindowedBolt], WindowedBolt]] = {
    "tumbling": lambda bolt: bolt.with_tumbling_window(seconds(2)),
    "sliding": lambda bolt: bolt.with_window(seconds(4), seconds(2)),
    "counts": lambda bolt: bolt.with_window(5, 2),
    "sessions": lambda bolt: bolt.with_window(Session("700ms")).with_key("user"),
    "expired": lambda bolt: bolt.with_window("4s", "2s").with_key("user").with_policies(expired=True),
    "panes": lambda bolt: bolt.with_tumbling_window(seconds(2)).with_trigger(Panes(early=panes.after_count(2))),
}
chosen_columns = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True).map(tuple)
ways_to_ask = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(list(NAMED)), chosen_columns),
        st.tuples(st.sampled_from(list(NEITHER)), st.just(())),
        st.tuples(st.sampled_from(list(WHOLE)), st.just(())),
    ),
    max_size=3,
)


@examples(100, by_default=60)
@given(kind=st.sampled_from(list(KINDS)), ways=ways_to_ask, at_once=st.booleans(), rows=st.integers(1, 40))
def test_what_is_advised_is_what_was_asked_for_and_changes_no_output(
    kind: str, ways: list[tuple[str, tuple[str, ...]]], at_once: bool, rows: int
) -> None:
    bolt: WindowedBolt = KINDS[kind]((AsksAtOnce if at_once else Asks)(Hidden(ways)))
    source = spouts.memory(COLUMNS, [events(rows).slice(0, rows // 2), events(rows).slice(rows // 2)])
    topology, out = built(bolt, source)
    summary = run_local(topology)
    advice = of_columns(topology, summary)

    knows_expired = kind not in ("sessions", "panes")
    done_ways = [(way, names) for way, names in ways if knows_expired or "expired" not in way]
    asked = {name for _, names in done_ways for name in names}
    enough = asked | {"ts", "user"}
    if any(way in WHOLE for way, _ in done_ways) or enough == set(NAMES) or not summary.work["bolt"].called:
        assert advice is None
        return
    assert advice is not None
    again = declaring(bolt, advice)
    assert again.declared_columns == frozenset(asked)
    narrow, out_of_these = built(again, source)
    assert set(narrow.windowed["bolt"].schema.names) == enough
    summary = run_local(narrow)
    assert out_of_these.rows == out.rows
    assert of_columns(narrow, summary) is None


def small(bolt: WindowedBolt, **how: Any) -> Advice | None:
    topology, _ = built(KINDS["tumbling"](bolt), spouts.memory(COLUMNS, [events(20)]), **how)
    return of_columns(topology, run_local(topology))


class Sums(WindowedBolt):
    outputs = {"default": "user string, total double", "odd": "n long"}  # noqa: RUF012

    def execute(self, window: TupleWindow) -> Any:
        for user, amounts in window.groups("user", "amount"):
            yield user, float(amounts.sum())
        if len(window) > 1000:
            yield Emit((int(window.column("more").sum()),), stream="odd")


def test_it_is_said_in_the_words_that_one_has_to_write() -> None:
    advice = small(Sums())
    assert advice is not None
    assert advice.write == 'reads = "user, amount, more"'
    assert "asked its windows for 3 of their 7 columns (user, amount, more)" in advice.text
    assert 'write in the class Sums: reads = "user, amount, more"' in advice.text
    assert "The 3 other columns were " in advice.text
    assert advice.to_json() == {"about": "columns", "bolt": "bolt", "text": advice.text, "write": advice.write}


class AllButOne(WindowedBolt):
    outputs = "n long"

    def execute(self, window: TupleWindow) -> Any:
        return (sum(len(window.column(name)) for name in ("user", "amount", "fee", "note", "text")),)


def test_one_column_is_one() -> None:
    advice = small(AllButOne())
    assert advice is not None
    assert re.search("The 1 other column was .* of its events in this run, and is then not kept", advice.text)


def test_bytes_are_those_of_the_columns_that_nobody_asked_for() -> None:
    table = events(500)
    topology, _ = built(KINDS["tumbling"](Asks(Hidden([("column", ("fee",))]))), spouts.memory(COLUMNS, [table]))
    summary = run_local(topology)
    sizes = dict(zip(NAMES, summary.work["bolt"].column_bytes, strict=True))
    assert (sizes["more"], sizes["amount"]) == (4000, 4000)
    assert sizes["text"] == pytest.approx(500 * 54, rel=0.01)
    left = sum(sizes[name] for name in ("amount", "note", "text", "more"))
    for limits, told in ((replace(ALWAYS, spared=left), True), (replace(ALWAYS, spared=left + 1), False)):
        assert (of_columns(topology, summary, limits) is not None) is told
    share = left / sum(sizes.values())
    for limits, told in ((replace(ALWAYS, share=share - 0.01), True), (replace(ALWAYS, share=share + 0.01), False)):
        assert (of_columns(topology, summary, limits) is not None) is told


@pytest.mark.parametrize(
    ("other", "write"),
    [
        (("select", ("more",)), 'reads = "fee, more"'),
        (("table", ()), None),
        (("select", ("else",)), None),
    ],
)
def test_bolts_of_one_class_are_advised_what_is_enough_for_all_of_them(other: Any, write: str | None) -> None:
    builder = TopologyBuilder("t")
    table = events(20)
    builder.set_spout("events", spouts.memory(COLUMNS, [table]))
    builder.set_spout("others", spouts.memory(f"{COLUMNS}, else long", [table.append_column("else", table["more"])]))
    for name, ways, source in (("first", ("column", ("fee",)), "events"), ("second", other, "others")):
        bolt = KINDS["tumbling"](Asks(Hidden([ways]))).with_timestamp_field("ts")
        builder.set_bolt(name, bolt).fields_grouping(source, "user")
    builder.set_sink("out", sinks.memory()).from_("first")
    topology = builder.build()
    told = [each for each in advice_on(topology, run_local(topology).work, ALWAYS) if each.about == "columns"]
    assert [each.write for each in told] == ([write] * 2 if write else [])


class Growing(WindowedBolt):
    outputs = "n long, left string, over string"

    def execute(self, window: TupleWindow) -> Any:
        return len(window), "x" * 50, "y"


class Counted(WindowedBolt):
    outputs = "total long"

    def execute(self, window: TupleWindow) -> Any:
        return (int(window.column("n").sum()),)


def test_rows_that_take_others_back_keep_the_column_that_says_so() -> None:
    def run(second: WindowedBolt) -> tuple[list[Any], list[str | None], list[str]]:
        builder, out = TopologyBuilder("t"), sinks.memory()
        builder.set_spout("events", spouts.memory(COLUMNS, [events(20).slice(at, 5) for at in range(0, 20, 5)]))
        first = Growing().with_tumbling_window(seconds(2)).with_timestamp_field("ts")
        first = first.with_trigger(Panes(early=panes.after_count(2), mode="retracting"))
        builder.set_bolt("first", first).global_grouping("events")
        builder.set_bolt("second", second.with_tumbling_window(seconds(2))).global_grouping("first")
        builder.set_sink("out", out).from_("second")
        topology = builder.build()
        advice = advice_on(topology, run_local(topology).work, ALWAYS)
        told = [each.write for each in advice if (each.about, each.bolt) == ("columns", "second")]
        return out.rows, told, topology.windowed["second"].schema.names

    rows, told, names = run(Counted())
    assert (names, told) == (["n", "left", "over", "_retract"], ['reads = "n, _retract"'])
    narrow, nothing, names = run(type("Declaring", (Counted,), {"reads": "n, _retract"})())
    assert (names, nothing, narrow) == (["n", "_retract"], [], rows)
    assert rows


class Columns(enum.Enum):
    NOTE = "note"


class Names:
    TEXT = "text"


class Slotted:
    __slots__ = ("column",)

    def __init__(self, column: str) -> None:
        self.column = column

    def of(self, window: TupleWindow) -> Any:
        return window.column("more")


def helper(window: TupleWindow) -> Any:
    return window.column("note")


def by_keyword(window: TupleWindow, *, column: str = "note") -> Any:
    return window.column(column)


@functools.cache
def cached() -> str:
    return "note"


def wrapping(function: Any) -> Any:
    def call(*given: Any) -> Any:
        return function(*given)

    return call


@wrapping
def wrapped(window: TupleWindow) -> Any:
    return window.column("note")


@functools.singledispatch
def by_type(of: Any) -> str:
    return "fee"


@by_type.register
def _(of: int) -> str:
    return "note"


TABLE = {"of": [helper]}
NOTES = types.SimpleNamespace(column="note")
a_module = types.ModuleType("a_module_of_columns")
a_module.inner = types.ModuleType("a_module_of_columns.inner")  # type: ignore[attr-defined]
a_module.inner.NOTE = "note"
a_module.inner.outer = a_module


class Rare(WindowedBolt):
    """Names columns in code that a short run does not come to."""

    outputs = "n long"
    most: tuple[str, ...] = ("text",)

    def __init__(self, **held: Any) -> None:
        self.__dict__.update(held)

    def execute(self, window: TupleWindow) -> Any:
        if len(window) > 1000:
            self.rare(window)
        return (len(window.column("amount")),)

    def rare(self, window: TupleWindow) -> Any:
        return window.select(*self.most)


def bolt_that(function: Any, **members: Any) -> WindowedBolt:
    return type("Rarer", (Rare,), {"rare": function, "most": (), **members})()


@pytest.mark.parametrize(
    ("bolt", "names"),
    [
        pytest.param(Rare(), "text", id="a constant of the class"),
        pytest.param(Rare(by={"of": ["fee"]}), "fee, text", id="what the bolt holds"),
        pytest.param(Rare(helper=Slotted("note")), "note, text, more", id="an object, and its method"),
        pytest.param(Rare(helper=functools.partial(by_keyword, column="fee")), "fee, note, text", id="a partial"),
        pytest.param(Rare(helper=Slotted("x").of), "text, more", id="a bound method"),
        pytest.param(bolt_that(lambda self, window: helper(window)), "note", id="a function"),
        pytest.param(bolt_that(lambda self, window: by_keyword(window)), "note", id="a default of a keyword"),
        pytest.param(bolt_that(lambda self, window: window.column(cached())), "note", id="a cached function"),
        pytest.param(bolt_that(lambda self, window: wrapped(window)), "note", id="a decorator without functools.wraps"),
        pytest.param(bolt_that(lambda self, window: by_type(1)), "fee, note", id="single dispatch"),
        pytest.param(bolt_that(lambda self, window: TABLE["of"][0](window)), "note", id="a table of functions"),
        pytest.param(bolt_that(lambda self, window: Columns.NOTE.value), "note", id="an enum"),
        pytest.param(bolt_that(lambda self, window: Names.TEXT), "text", id="a constant of another class"),
        pytest.param(bolt_that(lambda self, window: NOTES.column), "note", id="a namespace"),
        pytest.param(bolt_that(lambda self, window: a_module.inner.NOTE), "note", id="a name in a module of a module"),
        pytest.param(
            bolt_that(lambda self, window: self.found, found=functools.cached_property(lambda self: "note")),
            "note",
            id="a cached property",
        ),
        pytest.param(
            bolt_that(wrapping(lambda self, window: super(type(self), self).rare(window)), most=["fee"]),
            "fee",
            id="a method that is wrapped",
        ),
    ],
)
def test_columns_that_the_code_names_are_kept_although_the_run_did_not_come_to_them(
    bolt: WindowedBolt, names: str
) -> None:
    advice = small(bolt)
    assert advice is not None
    columns = [name for name in NAMES if name in {"amount", *names.split(", ")}]
    assert advice.write == f'reads = "{", ".join(columns)}"'


def test_nothing_is_advised_to_a_bolt_that_holds_more_than_can_be_looked_through() -> None:
    assert small(Rare(known=[f"id {number}" for number in range(15_000)])) is not None
    assert small(Rare(known=[f"id {number}" for number in range(25_000)])) is None


@pytest.mark.parametrize("stream", ["late", "errors"])
def test_nothing_is_advised_where_others_take_whole_rows(stream: str) -> None:
    assert small(Asks(Hidden([("column", ("fee",))]))) is not None
    assert small(Asks(Hidden([("column", ("fee",))])), streams=[stream]) is None


def test_nothing_is_advised_where_the_bytes_of_a_window_or_a_function_of_the_users_need_all_columns() -> None:
    def advice(bolt: WindowedBolt) -> Advice | None:
        builder = TopologyBuilder("t")
        builder.set_spout("events", spouts.memory(COLUMNS, [events(20)]))
        builder.set_bolt("bolt", bolt).global_grouping("events")
        builder.set_sink("out", sinks.memory()).from_("bolt")
        topology = builder.build()
        return of_columns(topology, run_local(topology))

    asks = Asks(Hidden([("column", ("fee",))]))
    keyed = asks.with_key("user")
    assert advice(keyed.with_trigger(CountTrigger(Count(3)), max_bytes=500)) is None
    assert advice(keyed.with_trigger(CountTrigger(Count(3)), max_bytes=500, bytes_of=["text"])) is not None
    assert advice(keyed.with_trigger(CountTrigger(Count(3)))) is not None
    extracting = asks.with_tumbling_window(seconds(2)).with_timestamp_extractor(lambda event: event["ts"])
    assert advice(extracting) is None


def test_names_that_need_quoting_are_written_as_python() -> None:
    odd = ["a,b", 'q"uote', "*"]
    table = pa.table({"ts": events(9)["ts"], "user": ["u"] * 9, **{name: [1] * 9 for name in [*odd, "left"]}})
    schema = table.schema
    for columns in (odd, odd[1:2], []):
        bolt = KINDS["tumbling"](Asks(Hidden([("column", tuple(columns))])))
        topology, out = built(bolt, spouts.memory(schema, [table]))
        advice = of_columns(topology, run_local(topology))
        assert advice is not None
        again = declaring(bolt, advice)
        narrow, same = built(again, spouts.memory(schema, [table]))
        assert set(narrow.windowed["bolt"].schema.names) == {"ts", "user", *columns}
        run_local(narrow)
        assert same.rows == out.rows != []


def test_a_bolt_that_asks_for_very_many_columns_by_name_is_told_nothing() -> None:
    wide = [f"c{number}" for number in range(100)]
    table = pa.table({"ts": events(9)["ts"], "user": ["u"] * 9, **{name: [1] * 9 for name in wide}})
    for many, told in ((64, True), (65, False)):
        bolt = KINDS["tumbling"](Asks(Hidden([("column", tuple(wide[:many]))])))
        topology, _ = built(bolt, spouts.memory(table.schema, [table]))
        assert (of_columns(topology, run_local(topology)) is not None) is told


# -- the time of tasks


class Busy(BatchBolt):
    outputs = COLUMNS

    def execute(self, table: pa.Table) -> Any:
        spin(0.05)
        return table


class Windows(WindowedBolt):
    outputs = "n long"

    def __init__(self, spins: float) -> None:
        self.spins = spins

    def execute(self, window: TupleWindow) -> Any:
        spin(self.spins)
        return (len(window),)


class _Clock:
    """The time that bolts spend: it passes when they say so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


CLOCK = _Clock()


def spin(wall: float) -> None:
    CLOCK.now += wall


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("topologies.engine.task_data.perf_counter", CLOCK)
    monkeypatch.setattr("topologies.engine.ingest.perf_counter", CLOCK)


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize(("spins", "busiest"), [(0.001, "busy"), (0.05, "windows")])
def test_the_bolt_that_took_the_most_time_is_named(spins: float, busiest: str) -> None:
    """Plain bolts too, whose time is not that of the windowed bolt, or of the input, in whose task they run."""
    builder = TopologyBuilder("t")
    builder.set_spout("events", spouts.memory(COLUMNS, [events(20)]))
    builder.set_bolt("busy", Busy()).shuffle_grouping("events")
    windows = Windows(spins).with_tumbling_window(seconds(2)).with_timestamp_field("ts")
    builder.set_bolt("windows", windows, parallelism=1).global_grouping("busy")
    builder.set_sink("out", sinks.memory()).from_("windows")
    topology = builder.build()
    summary = run_local(topology)
    fired = summary.this_run()["windows"].fired
    assert summary.work["busy"].seconds == pytest.approx(0.05)
    assert summary.work["windows"].seconds == pytest.approx(spins * fired)
    assert summary.work[INPUT].seconds == pytest.approx(0)
    (advice,) = (each for each in advice_on(topology, summary.work, ALWAYS) if each.about == "time")
    assert (advice.bolt, advice.write) == (busiest, None)


@pytest.mark.usefixtures("clock")
def test_adding_up_events_as_they_come_is_the_time_of_its_bolt(monkeypatch: pytest.MonkeyPatch) -> None:
    fold = SliceSums.fold

    def slow(slicing: SliceSums, rows: Any) -> Any:
        spin(0.05)
        return fold(slicing, rows)

    monkeypatch.setattr(SliceSums, "fold", slow)
    total = AggregateBolt(by=["user"], total=aggregates.sum("fee")).with_tumbling_window(seconds(2))
    topology, _ = built(total, spouts.memory(COLUMNS, [events(20)]))
    summary = run_local(topology)
    assert summary.work["bolt"].seconds == pytest.approx(0.05)
    assert summary.work[INPUT].seconds == pytest.approx(0)
    assert (summary.work["bolt"].called, summary.work["bolt"].column_bytes) == (0, ())


def test_shares_are_those_of_all_tasks() -> None:
    topology, _ = built(KINDS["tumbling"](Sums()), spouts.memory(COLUMNS, []))
    work = {INPUT: BoltWork(4.0), "bolt": BoltWork(36.0)}
    (advice,) = advice_on(topology, work)
    assert advice.text == (
        "bolt 'bolt' took the most time of the bolts: 90 % of what tasks worked (36 of 40 s). Reading and routing the "
        "input took 10 %."
    )
    alone, _ = built(KINDS["tumbling"](Sums()), spouts.memory(COLUMNS, []), tasks=1)
    (advice,) = advice_on(alone, work)
    assert "(36 of 40 s), in its one task. Reading" in advice.text


def test_a_short_run_says_nothing() -> None:
    topology, _ = built(KINDS["tumbling"](Sums()), spouts.memory(COLUMNS, [events(40)]))
    summary = run_local(topology)
    assert summary.advice == []
    assert "advice" not in summary.to_json()
    assert advice_on(topology, {INPUT: BoltWork(4.0), "bolt": BoltWork(5.9)}) == []


@pytest.mark.parametrize("kept", [False, True])
def test_a_run_tells_its_advice_in_its_summary_and_at_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: bool
) -> None:
    monkeypatch.setattr("topologies.run.summary.LIMITS", ALWAYS)
    folder = tmp_path / "in"
    folder.mkdir()
    pq.write_table(events(40), folder / "0.parquet")
    topology, _ = built(KINDS["tumbling"](Sums()), spouts.files(f"{folder}/*.parquet", COLUMNS))
    checkpoint = str(tmp_path / "ck") if kept else None
    summary = topology_run(topology, checkpoint)
    assert [each.about for each in summary.advice] == ["time", "columns"]
    assert ("let the bolt start over there (windbolt reset)" in summary.advice[1].text) is kept
    assert summary.to_json()["advice"] == [each.to_json() for each in summary.advice]
    console = Console(file=StringIO(), width=100)
    print_summary(console, topology, summary, checkpoint)
    shown = " ".join(console.file.getvalue().split())  # type: ignore[attr-defined]
    assert all(" ".join(str(each).split()) in shown for each in summary.advice)
    assert "reads = &quot;user, amount, more&quot;" in summary._repr_html_()


def topology_run(topology: Topology, checkpoint: str | None) -> Summary:
    out = {name: replace(node, sink=sinks.discard()) for name, node in topology.sinks.items()}
    return run_local(replace(topology, sinks=out), RunOptions(checkpoint))


# -- windows that take much memory


def test_a_bolt_whose_window_took_much_of_the_memory_is_told_of_the_limit() -> None:
    topology, _ = built(KINDS["tumbling"](Sums()), spouts.memory(COLUMNS, []))
    work = {"bolt": BoltWork(20.0, None, large_window=(3 * 2**30, 10 * 2**30))}
    (advice,) = (each for each in advice_on(topology, work) if each.about == "memory")
    assert "had a window of 3 GiB, of the 10 GiB of memory" in advice.text
    assert advice.write == f".with_limits(window_bytes={4 * 2**30})"
    limited, _ = built(KINDS["tumbling"](Sums()).with_limits(window_bytes=4 * 2**30), spouts.memory(COLUMNS, []))
    assert [each.about for each in advice_on(limited, work)] == ["time"]
    larger = {"bolt": replace(work["bolt"], large_window=(6 * 2**30, 10 * 2**30))}  # no limit below would let it pass
    assert [each.about for each in advice_on(topology, larger)] == ["time"]


def test_the_largest_window_is_seen_where_it_is_much_of_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = 40_000
    table = pa.table({"ts": pa.array(np.zeros(rows, np.int64), pa.timestamp("us", "UTC")), "fee": np.arange(rows)})
    for memory, seen in ((rows * 16 * 7, True), (rows * 16 * 8, False)):
        monkeypatch.setattr("topologies.engine.fire.bolt_calls.memory_of_process", lambda memory=memory: memory)
        builder = TopologyBuilder("t")
        builder.set_spout("events", spouts.memory("ts timestamp, fee long", [table]))
        bolt = Asks(Hidden([("column", ("fee",))])).with_tumbling_window(seconds(2)).with_timestamp_field("ts")
        builder.set_bolt("bolt", bolt).global_grouping("events")
        builder.set_sink("out", sinks.discard()).from_("bolt")
        summary = run_local(builder.build(), RunOptions())
        assert summary.work["bolt"].large_window == ((rows * 16, memory) if seen else None)
