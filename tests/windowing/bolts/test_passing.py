"""Deduplicate, RateLimit and Changes against an oracle that looks at every earlier row; and what of them is refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.examples import examples
from tests.oracles import ready_bolts_oracle as oracle
from topologies.engine.fire.bolt_calls import load_state
from windbolt import (
    AggregateBolt,
    Changes,
    ConfigError,
    Deduplicate,
    RateLimit,
    Session,
    TopologyBuilder,
    TopologyError,
    seconds,
    sinks,
    spouts,
)
from windbolt.aggregates import count
from windbolt.testing import TopologyDriver, run_bolt

Json = dict[str, Any]
SCHEMA = "n long, id string, v double, ts long"
NAN = math.nan


def timed(bolt: Any) -> Any:
    return bolt.with_timestamp_field("ts").with_lag("5ms")


def driver_of(bolt: Any, tasks: int = 1) -> TopologyDriver:
    builder = TopologyBuilder("t")
    builder.set_spout("in", spouts.memory(SCHEMA))
    declarer = builder.set_bolt("bolt", timed(bolt), tasks)
    if tasks > 1:
        declarer.fields_grouping("in", "id")
    else:
        declarer.global_grouping("in")
    builder.set_sink("out", sinks.memory()).from_("bolt")
    builder.set_sink("rest", sinks.memory()).from_("bolt", stream="rest")
    return TopologyDriver(builder.build())


PHASES = st.none() | st.sampled_from(["ingest", "fire", "sinks", "commit", "committed"])
ROWS = st.lists(
    st.tuples(
        st.integers(0, 6),  # how far the time moves on
        st.integers(0, 5),  # how far this row is behind
        st.sampled_from(["a", "a", "b", "c", None]),
        st.sampled_from([0.0, -0.0, 1.0, NAN, None]),
        st.booleans(),  # whether a batch ends here
        PHASES,
    ),
    max_size=40,
)
"""Out of order, but never by more than the lag: nothing is late."""


def played(bolt: Any, drawn: Any, tasks: int) -> tuple[list[Json], list[Json], list[Json], dict[str, int]]:
    """The rows, what passes, what does not, and the counters; batches end anywhere, and some crash and run again."""
    driver, rows, batch, now = driver_of(bolt, tasks), [], [], 0
    for number, (step, behind, name, value, ends, phase) in enumerate(drawn):
        now += step
        batch.append({"n": number, "id": name, "v": value, "ts": now - behind})
        rows.append(batch[-1])
        if ends:
            if phase is not None:
                driver.crash(phase)
            driver.push("in", batch)
            batch = []
    driver.push("in", batch)
    driver.close()
    return rows, driver.read("out"), driver.read("rest"), driver.counters("bolt")


def agrees(bolt: Any, drawn: Any, tasks: int, expected: Callable[[list[Json]], tuple[list[Json], list[Json]]]) -> None:
    rows, *found, counters = played(bolt, drawn, tasks)
    wanted = expected(rows)
    for which, each in zip(found, wanted, strict=True):
        numbers, expected_numbers = [row["n"] for row in which], [row["n"] for row in each]
        assert numbers == expected_numbers if tasks == 1 else sorted(numbers) == sorted(expected_numbers)
    assert counters.get(bolt.counter_name, 0) == len(wanted[1])
    by_number = {row["n"]: row for row in rows}
    assert all(str(row) == str(by_number[row["n"]]) for which in found for row in which)  # as text: NaN is NaN


@examples(150)
@given(drawn=ROWS, within=st.integers(1, 25), tasks=st.integers(1, 2))
def test_deduplicate_passes_the_first_of_each_id_in_its_time(drawn: Any, within: int, tasks: int) -> None:
    bolt = Deduplicate("id", within=f"{within}ms", rest="rest")
    agrees(bolt, drawn, tasks, lambda rows: oracle.deduplicated(rows, "id", within))


@examples(150)
@given(drawn=ROWS, n=st.integers(1, 4), per=st.integers(1, 25), by=st.sampled_from(["id", None]))
def test_rate_limit_never_lets_more_pass_in_any_stretch_of_time(drawn: Any, n: int, per: int, by: Any) -> None:
    bolt = RateLimit(n, per=f"{per}ms", by=by, rest="rest")
    agrees(bolt, drawn, 1, lambda rows: oracle.limited(rows, n, by, per))


@examples(150)
@given(drawn=ROWS, within=st.none() | st.integers(1, 25), tasks=st.integers(1, 2))
def test_changes_passes_what_differs_from_the_last_that_passed(drawn: Any, within: Any, tasks: int) -> None:
    bolt = Changes("id", of="v", within=None if within is None else f"{within}ms", rest="rest")
    agrees(bolt, drawn, tasks, lambda rows: oracle.changes(rows, "id", "v", within))


def rows_at(*times: int, name: str = "a") -> list[Json]:
    return [{"n": number, "id": name, "v": 1.0, "ts": ts} for number, ts in enumerate(times)]


def passed(bolt: Any, rows: list[Json]) -> list[int]:
    return [row["ts"] for row in run_bolt(bolt.with_timestamp_field("ts"), rows, SCHEMA).rows]


def test_an_event_exactly_at_the_end_of_the_time_passes_and_begins_another() -> None:
    assert passed(Deduplicate("id", within="10ms"), rows_at(0, 9, 10, 19, 20)) == [0, 10, 20]
    assert passed(RateLimit(2, per="10ms", by="id"), rows_at(0, 9, 9, 10, 11, 19)) == [0, 9, 10, 19]
    assert passed(Changes("id", of="v", within="10ms"), rows_at(0, 9, 10, 19, 20)) == [0, 10, 20]


def test_a_repeat_does_not_prolong_the_time() -> None:
    assert passed(Deduplicate("id", within="10ms"), rows_at(*range(0, 30, 3))) == [0, 12, 24]


def test_several_inputs_are_one_stream() -> None:
    bolt = Deduplicate("id", within="10ms").with_timestamp_field("ts")
    schema = "id string, ts long"
    run = run_bolt(bolt, {"a": [{"id": "x", "ts": 5}], "b": [{"id": "x", "ts": 3}]}, {"a": schema, "b": schema})
    assert run.rows == [{"id": "x", "ts": 3}]
    assert run.counters == {"repeats": 1}
    assert run.accounts["received"] == run.accounts["windowed"] == 2


def remembered(driver: TopologyDriver) -> pa.Table:
    run = driver._run.micro_batch
    return load_state(run.checkpoint.segments, run.manifest.bolts["bolt"].tasks[0].bolt.user)["passed"]


@pytest.mark.parametrize(
    "bolt",
    [
        Deduplicate("id", within="10ms", rest="rest"),
        RateLimit(3, per="10ms", by="id", rest="rest"),
        Changes("id", within="10ms", rest="rest"),
    ],
)
def test_what_is_remembered_is_bounded(bolt: Any) -> None:
    driver = driver_of(bolt)
    for at in range(40):
        batch = [{"n": 1, "id": f"{at} {place % 7}", "v": 0.0, "ts": at * 20 + place % 9} for place in range(30)]
        driver.push("in", batch)
    assert 0 < len(remembered(driver)) <= 7 * 3 * 2


def test_the_last_values_of_all_keys_are_kept_without_a_time() -> None:
    driver = driver_of(Changes("id", rest="rest"))
    for at in range(10):
        driver.push("in", [{"n": 1, "id": f"{at}", "v": 0.0, "ts": at * 20}])
    driver.close()
    assert len(remembered(driver)) == 10


def test_behind_a_windowed_bolt_they_go_by_the_time_of_its_rows() -> None:
    builder, out = TopologyBuilder("t"), sinks.memory()
    builder.set_spout("in", spouts.memory(SCHEMA))
    counted = AggregateBolt("id", n=count()).with_tumbling_window("10ms").with_timestamp_field("ts")
    builder.set_bolt("counted", counted).global_grouping("in")
    builder.set_bolt("changed", Changes("id")).global_grouping("counted")
    builder.set_sink("out", out).from_("changed")
    driver = TopologyDriver(builder.build())
    driver.push("in", [row for at in (1, 11, 21, 22, 31) for row in rows_at(at)])
    driver.close()
    assert [row["n"] for row in driver.read("out")] == [1, 2, 1]


# ---- what is refused


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda: Deduplicate((), within="1m"), "name the columns of the id"),
        (lambda: Deduplicate(None, within="1m"), "name the columns of the id"),  # type: ignore[arg-type]
        (lambda: Deduplicate(5, within="1m"), "columns, each named once"),  # type: ignore[arg-type]
        (lambda: Deduplicate(["id", "id"], within="1m"), "each named once"),
        (lambda: Deduplicate("id", within="0s"), "the duration is zero"),
        (lambda: Deduplicate("id", within=10), r"Deduplicate\(within=10\).*bare number has no unit"),  # type: ignore[arg-type]
        (lambda: Deduplicate("id", within=None), "repeats of any age"),  # type: ignore[arg-type]
        (lambda: Deduplicate("id", within="1m", rest="default"), "stream of the events that pass"),
        (lambda: Deduplicate("id", within="1m", rest=""), "rest=''"),
        (lambda: RateLimit(0, per="1m"), "whole number above 0"),
        (lambda: RateLimit(True, per="1m"), "whole number above 0"),
        (lambda: RateLimit(1.5, per="1m"), "whole number above 0"),  # type: ignore[arg-type]
        (lambda: RateLimit(1, per="0s"), r"RateLimit\(per='0s'\)"),
        (lambda: RateLimit(1, per=None), "a rate is a number in a time"),  # type: ignore[arg-type]
        (lambda: Changes("id", of=["id"]), "its columns never change"),
        (lambda: Changes("id", of=[]), "nothing ever changes"),
        (lambda: Changes("id", within=seconds(0)), "the duration is zero"),
        (lambda: Deduplicate("id", within="1m").with_tumbling_window("1m"), "forms its windows itself"),
        (lambda: Deduplicate("id", within="1m").with_window(Session("1m")), "forms its windows itself"),
        (lambda: Deduplicate("id", within="1m").with_key("id"), "forms its windows itself"),
        (lambda: RateLimit(1, per="1m").with_lifetime("until"), "RateLimit of events with lifetimes"),
    ],
)
def test_what_cannot_be_is_refused_where_it_is_made(make: Any, what: str) -> None:
    with pytest.raises(ConfigError, match=what):
        make()


@pytest.mark.parametrize(
    ("bolt", "what"),
    [
        (Deduplicate("ids", within="1m"), "no such column; did you mean 'id'.*reads n, id, v, ts"),
        (Changes("id", of="w"), r"Changes\(of='w'\), and there is no such column"),
        (Changes(["n", "id", "v", "ts"]), "nothing but the key could change"),
    ],
)
def test_what_does_not_fit_the_stream_is_refused_when_it_is_built(bolt: Any, what: str) -> None:
    with pytest.raises(TopologyError, match=what):
        run_bolt(timed(bolt), [], SCHEMA)


def test_ids_that_cannot_be_compared_are_refused() -> None:
    with pytest.raises(TopologyError, match=r"Deduplicate\(by='id'\), which is list.*cannot be compared"):
        run_bolt(timed(Deduplicate("id", within="1m")), [], "id array<int>, ts long")


def test_processing_time_is_refused() -> None:
    with pytest.raises(TopologyError, match=r"there is no event time.*RateLimit"):
        run_bolt(Deduplicate("id", within="1m"), [], SCHEMA)


@pytest.mark.parametrize(
    ("bolt", "what"),
    [
        (Deduplicate("id", within="1m"), r"groups events by id, has 2 tasks.*fields_grouping\('in', 'id'\)"),
        (RateLimit(1, per="1m"), "looks at all events together, has 2 tasks.*use one task"),
    ],
)
def test_tasks_that_would_not_see_all_events_of_a_key_are_refused(bolt: Any, what: str) -> None:
    builder = TopologyBuilder("t")
    builder.set_spout("in", spouts.memory(SCHEMA))
    builder.set_bolt("bolt", timed(bolt), 2).fields_grouping("in", "v")
    builder.set_sink("out", sinks.memory()).from_("bolt")
    with pytest.raises(TopologyError, match=what):
        builder.build()


@pytest.mark.parametrize(
    "bolt",
    [
        Deduplicate("id", within="10ms", rest="rest"),
        RateLimit(2, per="10ms", by="id", rest="rest"),
        Changes("id", of="v", within="10ms", rest="rest"),
    ],
    ids=str,
)
def test_time_passes_too_where_no_event_comes(bolt: Any) -> None:
    """Of two tasks one gets no further events: what it remembers is forgotten all the same."""
    driver = driver_of(bolt, tasks=2)
    driver.push("in", [(n, f"id {n}", 0.0, n % 5) for n in range(60)])
    driver.push("in", [(100, "id 0", 0.0, 12)])  # the watermark is at 7: all are remembered
    assert min(kept(driver)) > 0
    driver.push("in", [(101, "id 0", 0.0, 500)])
    assert sorted(kept(driver)) == [0, 0]
    driver.push("in", [(102, "id 0", 1.0, 600)])
    assert sorted(kept(driver)) == [0, 0]
    driver.close()
    assert sorted(kept(driver)) == [0, 1]  # a run may go on
    assert [row["n"] for row in driver.read("out")][60:] == [100, 101, 102]


def kept(driver: TopologyDriver) -> list[int]:
    """How many events each task remembers."""
    run = driver._run.micro_batch
    saved = [task.bolt.user for task in run.manifest.bolts["bolt"].tasks]
    return [load_state(run.checkpoint.segments, user)["passed"].num_rows if user else 0 for user in saved]
