"""Windows of a count of events of each key: as Flink counts, whatever batches, crashes, tasks and restarts do."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.examples import examples
from tests.helpers.recut import run_cut
from tests.helpers.strategies import Json, scenarios
from tests.oracles import count_oracle
from topologies.scenarios.replay import replay_locally
from topologies.scenarios.scenario_model import read_scenario
from windbolt import TopologyBuilder, sinks, spouts
from windowing import AggregateBolt, TupleWindow, WindowedBolt
from windowing import aggregates as agg
from windowing.errors import ConfigError, TopologyError
from windowing.schema import EmittedRows
from windowing.settings.panes import Panes


@st.composite
def counted(draw: st.DrawFn) -> Json:
    """Windows of a count of events, of a few keys: overlapping, touching or with gaps, by either time."""
    scenario = draw(scenarios(kinds=("count/count",)))
    keys = draw(st.sampled_from(["a", "ab", "abcd"]))
    for step in scenario["steps"]:
        if "event" in step:
            step["event"]["k"] = draw(st.sampled_from(keys))
    clocks = [step["clock"] for step in scenario["steps"] if "clock" in step]
    bolt = {**scenario["bolt"], "key": "k"}
    if "timestamp_field" in bolt and draw(st.booleans()):
        bolt["watermark_every"] = 1
    return {**scenario, "bolt": bolt, "steps": [*({"clock": clock} for clock in clocks[:1]), *scenario["steps"]]}


def found(scenario: Json) -> Json:
    return replay_locally(read_scenario(scenario)).to_json()


def windows_of(answer: Json) -> list[tuple[str, tuple[str, ...]]]:
    return [(window["key"], tuple(window["events"])) for window in answer["windows"]]


def assert_as_counted(scenario: Json, answer: Json) -> None:
    expected = count_oracle.answer(scenario)
    if "timestamp_field" in scenario["bolt"]:  # windows of several keys that end at one time are in no order of theirs
        assert sorted(windows_of(answer)) == sorted(expected.windows)
        ends = [window["end"] for window in answer["windows"]]
        assert ends == sorted(ends)
    else:
        assert windows_of(answer) == expected.windows
    assert answer["late"] == expected.late
    counts = {"windowed": expected.windowed, "unwindowed": expected.unwindowed, "pending": expected.pending}
    assert {name: answer["counts"][name] for name in counts} == {name: len(ids) for name, ids in counts.items()}
    assert set(answer["pending"]) == expected.pending


@examples(120, by_default=100)
@given(counted())
def test_every_key_has_the_windows_that_flink_documents(scenario: Json) -> None:
    assert_as_counted(scenario, found(scenario))


@examples(60, by_default=20)
@given(counted())
def test_a_crash_in_every_batch_changes_nothing(scenario: Json) -> None:
    steps = []
    for step in scenario["steps"]:
        steps += [step, {"crash": True}] if "close" not in step else [{"crash": True}, step]
    assert_as_counted(scenario, found({**scenario, "steps": steps}))


@examples(60, by_default=40)
@given(counted(), st.integers(0, 1 << 30))
def test_batches_may_end_anywhere(scenario: Json, seed: int) -> None:
    calm = {**scenario, "steps": [step for step in scenario["steps"] if "crash" not in step]}
    assert_as_counted(calm, run_cut(read_scenario(calm), random.Random(seed)).to_json())


@examples(60, by_default=20)
@given(counted())
def test_new_and_expired_are_told_of_each_key(scenario: Json) -> None:
    before = defaultdict[str, list[str]](list)
    for window in found(scenario)["windows"]:
        last, now = before[window["key"]], window["events"]
        assert window["new"] == [event for event in now if event not in last]
        assert window["expired"] == [event for event in last if event not in now]
        before[window["key"]] = now


def test_an_event_between_two_windows_is_unwindowed_once_time_has_reached_it_though_no_window_is_due() -> None:
    events = [{"event": {"id": f"e{number}", "ts": ts, "k": "a"}} for number, ts in enumerate([0, 1, 18], 1)]
    steps = [*events[:2], {"tick": "watermark"}, events[2], {"tick": "watermark"}]
    bolt = {"length": 1, "sliding": 3, "timestamp_field": "ts", "lag": "1ms", "key": "k"}
    answer = found({"name": "gaps", "bolt": bolt, "steps": steps})
    assert (answer["counts"]["unwindowed"], answer["pending"]) == (2, ["e3"])


# ---- whole topologies

COLUMNS = "user string, amount long, ts long"
Row = tuple[Any, ...]


class Sums(WindowedBolt):
    outputs = "user string, n long, total long, until timestamp"

    def execute(self, window: TupleWindow) -> EmittedRows:
        assert window.start is None
        return window.key, len(window), sum(window.table["amount"].to_pylist()), window.end


def declared() -> AggregateBolt:
    return AggregateBolt("user", n=agg.count(), total=agg.sum("amount"), until=agg.window_end())


def orders(count: int, keys: int) -> list[Json]:
    chance = np.random.default_rng(7)
    users, amounts = chance.integers(0, keys, count).tolist(), chance.integers(0, 100, count).tolist()
    return [
        {"user": f"u{user}", "amount": amount, "ts": number}
        for number, (user, amount) in enumerate(zip(users, amounts, strict=True))
    ]


def expected(rows: list[Json], length: int, slide: int) -> list[Row]:
    """The rows of all windows, by the definition."""
    by_user = defaultdict[str, list[Json]](list)
    for row in rows:
        by_user[row["user"]].append(row)
    return sorted(
        (user, len(held), sum(row["amount"] for row in held), held[-1]["ts"])
        for user, own in by_user.items()
        for fired in range(slide, len(own) + 1, slide)
        for held in [own[max(fired - length, 0) : fired]]
    )


def results(
    folder: Path, bolt: WindowedBolt, files: list[list[Json]], tasks: int = 1, *, restarts: bool = False
) -> list[Row]:
    """What a bolt emits over some files, in one run or in a run for each."""
    builder, out = TopologyBuilder("counts"), sinks.memory()
    builder.set_spout("s", spouts.files(f"{folder}/in/*.jsonl", schema=COLUMNS))
    builder.set_bolt("sums", bolt, tasks).fields_grouping("s")
    builder.set_sink("out", out).from_("sums")
    (folder / "in").mkdir()
    for number, rows in enumerate(files):
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / "in" / f"{number}.jsonl").write_text(text)
        if restarts or number == len(files) - 1:
            builder.build().run(folder / "ck", engine="local")
    return sorted((row["user"], row["n"], row["total"], round(row["until"].timestamp() * 1000)) for row in out.rows)


def thirds(rows: list[Json]) -> list[list[Json]]:
    return [rows[:100], rows[100:170], rows[170:]]


@pytest.mark.parametrize(("length", "slide"), [(4, 4), (4, 2), (2, 5)])
@pytest.mark.parametrize("bolt", [Sums(), declared()], ids=["own", "declared"])
@pytest.mark.parametrize("tasks", [1, 3])
def test_a_bolt_of_ones_own_and_a_declared_one_have_the_same_windows_on_any_number_of_tasks(
    tmp_path: Path, bolt: WindowedBolt, length: int, slide: int, tasks: int
) -> None:
    rows, bolt = orders(300, 20), bolt.with_key("user").with_window(length, slide).with_timestamp_field("ts")
    assert results(tmp_path, bolt, thirds(rows), tasks) == expected(rows, length, slide)


@pytest.mark.parametrize(("length", "slide"), [(4, 4), (5, 2), (2, 5)])
def test_counts_go_on_after_a_restart(tmp_path: Path, length: int, slide: int) -> None:
    rows, bolt = orders(300, 20), declared().with_key("user").with_window(length, slide).with_timestamp_field("ts")
    assert results(tmp_path, bolt, thirds(rows), 2, restarts=True) == expected(rows, length, slide)


def test_the_windows_of_a_task_may_each_hold_any_of_its_keys_without_with_key(tmp_path: Path) -> None:
    rows = orders(20, 3)
    assert [row[1] for row in results(tmp_path, by_task(), [rows])] != [4] * 5


def by_task() -> WindowedBolt:
    return declared().with_tumbling_window(4).with_timestamp_field("ts")


# ---- what makes no sense

REFUSED: dict[str, tuple[Callable[[WindowedBolt], WindowedBolt], str]] = {
    "a length in time": (lambda bolt: bolt.with_window("5s", 2), "of a length in time or of a count"),
    "a slide in time": (lambda bolt: bolt.with_window(5, "2s"), "of a length in time or of a count"),
    "panes": (lambda bolt: bolt.with_tumbling_window(4).with_trigger(Panes(early=2)), "with Panes"),
    "lifetimes": (lambda bolt: bolt.with_tumbling_window(4).with_lifetime("ts"), "with lifetimes"),
    "an anchor": (lambda bolt: bolt.with_tumbling_window(4).with_alignment(anchor="start"), "an anchor"),
    "late by window": (lambda bolt: bolt.with_tumbling_window(4).with_lateness(by="window"), "counts of events"),
    "empty windows": (lambda bolt: bolt.with_tumbling_window(4).with_empty_windows(until="1h"), "depend on events"),
    "a start": (lambda bolt: bolt.with_tumbling_window(4).with_time(output_time="window start"), "no start in time"),
    "an end at most": (lambda bolt: bolt.with_tumbling_window(4).with_alignment(bounds="[start, end)"), "edges"),
    "no length": (lambda bolt: bolt, "no length"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_needs_windows_of_time_is_refused(name: str) -> None:
    change, said = REFUSED[name]
    builder = TopologyBuilder("counts")
    builder.set_spout("s", spouts.memory(COLUMNS))
    builder.set_bolt("sums", change(Sums().with_key("user").with_timestamp_field("ts"))).fields_grouping("s")
    with pytest.raises((ConfigError, TopologyError), match=said):
        builder.build()


def test_a_count_of_keys_that_keeps_open_windows_at_the_end_is_refused_where_none_is_left() -> None:
    """LEFT_OPEN: with a watermark at every event a full window has fired."""
    builder = TopologyBuilder("counts")
    builder.set_spout("s", spouts.memory(COLUMNS))
    bolt = Sums().with_key("user").with_tumbling_window(4).with_time(close_fires=False)
    builder.set_bolt("sums", bolt).fields_grouping("s")
    with pytest.raises(TopologyError, match="fire with their last event"):
        builder.build()
