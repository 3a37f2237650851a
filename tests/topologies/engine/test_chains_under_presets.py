"""Chains of windowed bolts under the rules of each system: what one bolt emits is on time for the next."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.helpers.examples import examples
from topologies.testing.driver import TopologyDriver
from topologies.topology import Topology
from windbolt import TopologyBuilder, sinks, spouts
from windowing import TupleWindow, WindowedBolt, presets
from windowing.durations import millis
from windowing.errors import TopologyError
from windowing.schema import EmittedRows
from windowing.settings.kinds import Session, SlidingLog, Snapshot
from windowing.settings.presets import Preset
from windowing.settings.rules import Arrival

MINUTE = 60_000_000


class Held(WindowedBolt):
    """Tells which windows of the bolt before it are in each of its own."""

    outputs = "id string, k string, ends array<string>"

    def execute(self, window: TupleWindow) -> EmittedRows:
        held = sorted(window.table.column("id").to_pylist())
        return f"{window.start_timestamp}/{window.end_timestamp}/{window.key or ''}", window.key, held


PRESETS: dict[str, Callable[[st.DataObject], Preset]] = {
    "storm": lambda data: presets.storm(lag=data.draw(_durations(0, 6))),
    "atlas": lambda data: presets.atlas(data.draw(_durations(0, 6))),
    "streaminsight": lambda data: presets.streaminsight(
        data.draw(st.integers(1, 3)),
        data.draw(st.sampled_from(["0s", "3ms", "-1us"])),
        policy=data.draw(st.sampled_from(["drop", "adjust"])),
        to_infinity=True,
    ),
    "azure": lambda data: presets.azure(
        late=data.draw(st.none() | _durations(0, 8)),
        out_of_order=data.draw(_durations(0, 6)),
        early=data.draw(st.none() | _durations(0, 8)),
        action=data.draw(st.sampled_from(["drop", "adjust"])),
        arrival_field=data.draw(st.sampled_from([None, "at"])),
    ),
}


def _durations(least: int, most: int) -> st.SearchStrategy[Any]:
    return st.integers(least, most).map(millis)


Grid = tuple[int, int]
"""Length and slide of windows, in milliseconds."""

GRIDS = st.tuples(st.integers(1, 12), st.integers(1, 12))
OTHERS = st.sampled_from([Session("3ms"), Session("3ms", max_duration="8ms"), SlidingLog("4ms"), Snapshot()])


def _bolt(windows: Any) -> WindowedBolt:
    if isinstance(windows, tuple):
        return Held().with_window(millis(windows[0]), millis(windows[1]))
    return Held().with_window(windows)


def _holding(grid: Grid, preset: str, time: int) -> set[tuple[int, int]]:
    """The windows of this grid, in microseconds, that hold a time."""
    length, slide = grid[0] * 1000, grid[1] * 1000
    held_end = preset in ("storm", "azure")
    shift = length % slide if preset != "storm" else 0  # the others' starts are multiples of the slide
    first = (time - shift) // slide * slide + shift
    ends = range(first - slide, first + length + 2 * slide, slide)
    return {
        (end - length, end)
        for end in ends
        if (end - length < time <= end if held_end else end - length <= time < end)
    }  # fmt: skip


def _chain(bolts: list[WindowedBolt]) -> Topology:
    builder, before = TopologyBuilder("chain"), "s"
    builder.set_spout("s", spouts.memory("id string, k string, ts long, at long"))
    for number, bolt in enumerate(bolts):
        builder.set_bolt(f"b{number}", bolt).global_grouping(before)
        builder.set_sink(f"rows{number}", sinks.memory()).from_(f"b{number}")
        before = f"b{number}"
    return builder.build()


def _end(row: dict[str, Any]) -> int:
    return int(row["id"].split("/")[1])


@pytest.mark.parametrize("name", PRESETS)
@examples(100, by_default=30)
@given(data=st.data())
def test_every_row_is_in_the_windows_that_hold_its_time(name: str, data: st.DataObject) -> None:
    windows = [data.draw(GRIDS | OTHERS), *data.draw(st.lists(GRIDS | OTHERS, min_size=1, max_size=2))]
    bolts = [_bolt(each).with_time(PRESETS[name](data)) for each in windows]
    bolts[0] = bolts[0].with_timestamp_field("ts")
    keyed = data.draw(st.sampled_from(["", "", "windows", "watermarks" if name in ("atlas", "azure") else "windows"]))
    if keyed:
        bolts[0] = bolts[0].with_key("k")
    if keyed == "watermarks":
        assume(name != "atlas" or not any(isinstance(each, Session) for each in windows))  # refused
        bolts = [bolt.with_key("k").with_watermark(per_key=True) for bolt in bolts]
    topology = _chain(bolts)
    driver, clock = TopologyDriver(topology, clock=0), 0
    for number, batch in enumerate(data.draw(st.lists(st.lists(st.integers(0, 60), max_size=5), max_size=12))):
        clock += data.draw(st.integers(0, 12))
        rows = [(f"e{number}.{place}", "ab"[ts % 2], ts, clock) for place, ts in enumerate(batch)]
        driver.push("s", rows, clock=clock)
    driver.close()

    for number, grid in enumerate(windows[1:], 1):
        accounts = driver.accounts(f"b{number}")
        assert accounts["windowed"] + accounts["unwindowed"] == accounts["received"], driver.story()
        assert accounts["adjusted"] == 0, driver.story()
        if not isinstance(grid, tuple):
            continue
        expected: dict[str, list[str]] = {}
        for row in driver.table(f"rows{number - 1}").to_pylist():
            for start, end in _holding(grid, name, _end(row)):
                key = row["k"] if keyed == "watermarks" else ""
                expected.setdefault(f"{start}/{end}/{key}", []).append(row["id"])
        found = {row["id"]: row["ends"] for row in driver.table(f"rows{number}").to_pylist()}
        assert found == {window: sorted(ids) for window, ids in expected.items()}, driver.story()
        assert driver.table(f"rows{number}").num_rows == len(found)


class Ends(WindowedBolt):
    outputs = "minute long"

    def execute(self, window: TupleWindow) -> EmittedRows:
        return (window.end_timestamp // MINUTE,)


class Minutes(WindowedBolt):
    outputs = "end long, minutes array<long>"

    def execute(self, window: TupleWindow) -> EmittedRows:
        return window.end_timestamp // MINUTE, sorted(window.table.column("minute").to_pylist())


@pytest.mark.parametrize(
    "preset",
    [
        presets.azure(),
        presets.azure(out_of_order="2m"),
        presets.azure(action="drop"),
        presets.azure(late="1m", arrival_field="ts"),
    ],
    ids=["adjust", "out of order", "drop", "an arrival field that the first bolt does not pass on"],
)
def test_arrival_is_a_matter_of_what_comes_from_outside(preset: Preset) -> None:
    builder = TopologyBuilder("chain")
    builder.set_spout("s", spouts.memory("ts timestamp"))
    first = Ends().with_tumbling_window("1m").with_timestamp_field("ts").with_time(preset)
    builder.set_bolt("m", first).global_grouping("s")
    builder.set_bolt("f", Minutes().with_tumbling_window("5m").with_time(preset)).global_grouping("m")
    driver = TopologyDriver(builder.build(), clock=0)
    for second in range(10, 910, 10):
        driver.push("s", [{"ts": second * 1000}], clock=second * 1000)
    found = [(row["end"], row["minutes"]) for row in driver.read("f")]
    assert found[0] == (5, [1, 2, 3, 4, 5])
    driver.close()
    found += [(row["end"], row["minutes"]) for row in driver.read("f")]
    assert found == [(5, [1, 2, 3, 4, 5]), (10, [6, 7, 8, 9, 10]), (15, [11, 12, 13, 14, 15])]
    accounts = driver.accounts("f")
    assert (accounts["adjusted"], accounts["windowed"]) == (0, 15)


@pytest.mark.parametrize("action", ["adjust", "drop"])
def test_beside_a_windowed_bolt_only_events_from_outside_have_an_arrival(action: Any) -> None:
    builder = TopologyBuilder("beside")
    builder.set_spout("s", spouts.memory("ts timestamp, at timestamp"))
    builder.set_spout("t", spouts.memory("minute long, ts timestamp, at timestamp"))
    preset = presets.azure(late="1s", action=action, arrival_field="at")
    first = Ends().with_tumbling_window("1m").with_timestamp_field("ts").with_time(preset)
    builder.set_bolt("m", first).global_grouping("s")
    both = Minutes().with_tumbling_window("5m").with_timestamp_field("ts").with_time(preset)
    builder.set_bolt("f", both).global_grouping("m").global_grouping("t")
    driver = TopologyDriver(builder.build(), clock=0)
    late = driver.topology.windowed["f"].streams.index("t")
    assert late == 1
    for second in range(10, 910, 10):
        at = second * 1000
        driver.push_together({"s": [(at, at)], "t": [(0, at - 60_000, at)] if second == 200 else []}, clock=at)
    driver.close()
    found = [(row["end"], row["minutes"]) for row in driver.read("f")]
    first_five = [0, 1, 2, 3, 4, 5] if action == "adjust" else [1, 2, 3, 4, 5]
    assert found == [(5, first_five), (10, [6, 7, 8, 9, 10]), (15, [11, 12, 13, 14, 15])]
    accounts = driver.accounts("f")
    assert (accounts["adjusted"], accounts["dropped"]) == ((1, 0) if action == "adjust" else (0, 1))


def test_a_silent_key_goes_on_with_the_bolt_before() -> None:
    """Of a watermark for each key: no row of any key can be from before what the bolt before has fired."""
    builder = TopologyBuilder("keys")
    builder.set_spout("s", spouts.memory("id string, k string, ts long, at long"))
    preset = presets.azure(late="5ms")
    first = Held().with_tumbling_window("10ms").with_key("k").with_timestamp_field("ts").with_time(preset)
    builder.set_bolt("m", first).global_grouping("s")
    behind = Held().with_tumbling_window("20ms").with_key("k").with_time(preset).with_watermark(per_key=True)
    builder.set_bolt("f", behind).global_grouping("m")
    driver = TopologyDriver(builder.build(), clock=0)
    driver.push("s", [("e1", "a", 5, 5), ("e2", "b", 5, 5)], clock=5)
    driver.push("s", [("e3", "b", 25, 25)], clock=25)
    driver.push("s", [("e4", "b", 45, 45)], clock=45)
    assert sorted((row["k"], row["ends"]) for row in driver.read("f")) == [
        ("a", ["0/10000/a"]),
        ("b", ["0/10000/b"]),
        ("b", ["20000/30000/b"]),
    ]


@pytest.mark.parametrize(
    "bolt",
    [
        Minutes().with_lateness(arrival=Arrival(early="5m")),
        Minutes().with_time(presets.azure().but(arrival=Arrival(late="5m"))),
        Minutes().with_time(presets.azure()).with_watermark(estimate_arrival=True),
    ],
)
def test_rules_by_arrival_that_are_asked_for_are_refused_there(bolt: WindowedBolt) -> None:
    builder = TopologyBuilder("chain")
    builder.set_spout("s", spouts.memory("ts timestamp"))
    builder.set_bolt("m", Ends().with_tumbling_window("1m").with_timestamp_field("ts")).global_grouping("s")
    builder.set_bolt("f", bolt.with_tumbling_window("5m")).global_grouping("m")
    with pytest.raises(TopologyError, match="on a bolt that reads only other windowed bolts"):
        builder.build()


@pytest.mark.parametrize("timeout", [None, "1h"])
def test_a_bolt_behind_another_stays_its_lag_behind_the_watermark_from_there(timeout: str | None) -> None:
    builder = TopologyBuilder("chain")
    builder.set_spout("s", spouts.memory("ts timestamp"))
    builder.set_bolt("m", Ends().with_tumbling_window("1m").with_timestamp_field("ts")).global_grouping("s")
    second = Minutes().with_tumbling_window("5m").with_lag("2m")
    second = second.with_watermark(idle_timeout=timeout) if timeout else second
    builder.set_bolt("f", second).global_grouping("m")
    driver = TopologyDriver(builder.build(), clock=0)
    fired_in = []
    for minute in range(12):
        driver.push("s", [{"ts": minute * 60_000}], clock=minute * 1_000)
        fired_in += [minute for _ in driver.read("f")]
    assert fired_in == [3, 8]  # the windows until 00:00 and 00:05, two minutes later and the next batch
