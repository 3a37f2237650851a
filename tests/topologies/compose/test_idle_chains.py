"""Idle timeouts in a chain behind a bolt that passes events on: each of its bolts has one, or none has."""

from __future__ import annotations

from typing import Any

import pytest

from topologies.testing.driver import TopologyDriver
from windbolt import Topology, TopologyBuilder, spouts
from windowing import (
    AggregateBolt,
    Deduplicate,
    RateLimit,
    Session,
    TopologyError,
    Union,
    WindowedBolt,
    aggregates,
    presets,
)

FIRST = "2026-03-02T08:00:00Z"


def idle(bolt: WindowedBolt, timeout: str | None) -> Any:
    return bolt if timeout is None else bolt.with_watermark(idle_timeout=timeout)


def once() -> WindowedBolt:
    return Deduplicate("id", within="10m").with_timestamp_field("ts").with_watermark(every=1)


def sessions() -> WindowedBolt:
    counted = AggregateBolt("symbol", n=aggregates.count(), until=aggregates.window_end())
    return counted.with_key("symbol").with_window(Session("3m")).with_time(close_fires=False)


def chain(*bolts: WindowedBolt) -> Topology:
    """Bolts one behind the other: ``b0``, ``b1`` and so on."""
    builder = TopologyBuilder("chain")
    builder.set_spout("ticks", spouts.memory("id string, symbol string, ts timestamp"))
    for number, bolt in enumerate(bolts):
        builder.set_bolt(f"b{number}", bolt).fields_grouping(f"b{number - 1}" if number else "ticks", "symbol")
    return builder.build()


def mistakes(*bolts: WindowedBolt) -> list[str]:
    with pytest.raises(TopologyError) as error:
        chain(*bolts)
    return [f"{each.what} {each.do}" for each in error.value.problems]


def test_with_a_timeout_each_the_silence_of_the_source_reaches_the_end_of_a_chain() -> None:
    limited = RateLimit(5, per="1m", by="symbol")
    driver = TopologyDriver(chain(*(idle(bolt, "1m") for bolt in (once(), limited, sessions()))), clock=FIRST)
    driver.push("ticks", [{"id": "1", "symbol": "A", "ts": FIRST}])
    for minute in range(1, 5):
        assert driver.read("b2") == [], minute
        driver.advance_clock("1m")
    (row,) = driver.read("b2")
    assert str(row["until"]) == "2026-03-02 08:03:00+00:00"


@pytest.mark.parametrize("passing", [once, lambda: Union().with_timestamp_field("ts")], ids=["once", "union"])
def test_a_timeout_of_the_bolt_that_passes_events_on_alone_is_refused(passing: Any) -> None:
    (told,) = mistakes(idle(passing(), "90s"), sessions())
    assert told.startswith("bolt 'b0' has an idle timeout, and 'b1' behind it has none")
    assert "give 'b1' one as well: with_watermark(idle_timeout=\"90s\")" in told


def test_a_timeout_behind_a_bolt_that_holds_events_back_is_refused() -> None:
    (told,) = mistakes(once(), idle(sessions(), "1m"))
    assert told.startswith("bolt 'b1' has an idle timeout, and 'b0' before it has none")


def test_each_link_of_a_chain_is_looked_at() -> None:
    limited = RateLimit(5, per="1m", by="symbol")
    first, second = mistakes(idle(once(), "1m"), limited, idle(sessions(), "1m"))
    assert first.startswith("bolt 'b0' has an idle timeout, and 'b1'")
    assert second.startswith("bolt 'b2' has an idle timeout, and 'b1'")


def test_windows_may_stay_open_behind_windows_that_a_timeout_closes() -> None:
    """Minutes end while the source is silent, days do not: that may be meant."""
    minutes = sessions().with_timestamp_field("ts")
    days = AggregateBolt("symbol", n=aggregates.count()).with_tumbling_window("1d")
    assert list(chain(idle(minutes, "1m"), days).windowed) == ["b0", "b1"]


def test_where_the_clock_moves_the_watermark_no_timeout_is_missed() -> None:
    clocked = Deduplicate("id", within="10m").with_timestamp_field("ts").with_time(presets.azure(late="5s"))
    assert list(chain(clocked, days()).windowed) == ["b0", "b1"]


def days() -> WindowedBolt:
    return idle(AggregateBolt("symbol", n=aggregates.count()).with_tumbling_window("1d"), "1m")
