"""Silence against an oracle that looks at every later row; how much it keeps; and what of it is refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.examples import examples
from tests.oracles import ready_bolts_oracle as oracle
from tests.windowing.bolts.test_passing import ROWS, SCHEMA, Json
from windbolt import ConfigError, Silence, TopologyBuilder, TopologyError, presets, sinks, spouts
from windbolt.testing import TopologyDriver, run_bolt

LAG = 5
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def driver_of(bolt: Any, tasks: int = 1) -> TopologyDriver:
    builder = TopologyBuilder("t")
    builder.set_spout("in", spouts.memory(SCHEMA))
    declarer = builder.set_bolt("bolt", bolt.with_timestamp_field("ts"), tasks)
    if tasks > 1:
        declarer.fields_grouping("in", "id")
    else:
        declarer.global_grouping("in")
    builder.set_sink("out", sinks.memory()).from_("bolt")
    return TopologyDriver(builder.build())


def played(driver: TopologyDriver, drawn: Any) -> list[Json]:
    """The rows, in batches that end anywhere; some crash and run again. Then the streams end."""
    rows, batch, now = list[Json](), list[Json](), 0
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
    return rows


def held(driver: TopologyDriver) -> int:
    tasks = driver._run.micro_batch.manifest.bolts["bolt"].tasks
    return sum(ref.needed for task in tasks for ref in task.refs)


def milliseconds(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(milliseconds=1)


@examples(200)
@given(drawn=ROWS, after=st.integers(1, 25), tasks=st.integers(1, 2), every=st.booleans())
def test_the_last_event_before_each_silence_and_no_other_comes_out(
    drawn: Any, after: int, tasks: int, every: bool
) -> None:
    bolt = Silence(f"{after}ms", by="id", end="moment").with_lag(f"{LAG}ms")
    driver = driver_of(bolt.with_watermark(every=1) if every else bolt, tasks)
    rows = played(driver, drawn)
    watermark = max((row["ts"] for row in rows), default=0) - LAG
    found = [(row["n"], milliseconds(row["moment"])) for row in driver.read("out")]
    assert sorted(found) == sorted((row["n"], at) for row, at in oracle.silences(rows, "id", after, watermark))
    accounts = driver.accounts("bolt")
    assert accounts["windowed"] == len(found)
    ahead = len([row for row in rows if row["ts"] > watermark])
    assert held(driver) <= len({row["id"] for row in rows}) + ahead


def silent(bolt: Any, *times: int) -> list[int]:
    rows = [{"n": number, "id": "a", "v": 1.0, "ts": ts} for number, ts in enumerate(times)]
    return [row["ts"] for row in run_bolt(bolt.with_timestamp_field("ts"), rows, SCHEMA).rows]


def test_an_event_exactly_so_much_later_comes_after_a_silence() -> None:
    assert silent(Silence("10ms", by="id"), 0, 9, 19, 28) == [9]


def test_the_end_of_the_streams_is_a_silence_only_if_it_is_said_to_be() -> None:
    assert silent(Silence("10ms", by="id"), 0, 15) == [0]
    assert silent(Silence("10ms", by="id").with_time(close_fires=True), 0, 15) == [0, 15]
    assert silent(Silence("10ms", by="id").with_time(presets.atlas("0s")), 0, 15) == [0]


def test_of_a_key_that_is_never_silent_one_event_is_kept() -> None:
    driver = driver_of(Silence("3m", by="id").with_watermark(every=1))
    for batch in range(5):
        first = 1000 * batch
        driver.push("in", [{"n": n, "id": "a", "v": 0.0, "ts": 1000 * n} for n in range(first, first + 1000)])
        assert held(driver) <= 1
    assert driver.read("out") == []


def test_where_the_whole_source_falls_silent_the_clock_ends_the_silence() -> None:
    builder = TopologyBuilder("t")
    builder.set_spout("in", spouts.memory("id string, ts timestamp"))
    bolt = Silence("3m", by="id", end="silent_at").with_timestamp_field("ts").with_watermark(idle_timeout="1m")
    builder.set_bolt("bolt", bolt).fields_grouping("in")
    driver = TopologyDriver(builder.build(), clock="2026-03-02T08:00:00Z")
    driver.push("in", [{"id": "a", "ts": "2026-03-02T08:00:00Z"}])
    driver.advance_clock("3m")
    assert driver.read("bolt") == []
    driver.advance_clock("1m")
    (row,) = driver.read("bolt")
    assert str(row["silent_at"]) == "2026-03-02 08:03:00+00:00"


def test_what_makes_no_silence_is_refused() -> None:
    with pytest.raises(ConfigError, match="Silence"):
        Silence("0s", by="id")
    with pytest.raises(ConfigError, match="lifetimes"):
        Silence("1s").with_lifetime("until")
    with pytest.raises(TopologyError, match="nobody"):
        driver_of(Silence("1s", by="nobody"))
    with pytest.raises(TopologyError, match="'v'"):
        driver_of(Silence("1s", by="id", end="v"))
    with pytest.raises(ConfigError, match="one at each event that no other follows in time"):
        Silence("1s").with_tumbling_window("1s")
