"""The wall clock: read in one place, in microseconds, and never by a run that is given another."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import freezegun

from topologies.run.clock import system_clock
from windbolt import RunOptions, TopologyBuilder, run_local, spouts
from windowing.timestamps import to_datetime

MOMENT = datetime(2024, 2, 29, 12, 0, 1, tzinfo=UTC)  # whole seconds: freezegun keeps fractions as floats


def test_the_system_clock_is_in_microseconds_since_the_epoch() -> None:
    with freezegun.freeze_time(MOMENT) as frozen:
        assert to_datetime(system_clock()) == MOMENT
        frozen.tick(timedelta(seconds=2))
        assert to_datetime(system_clock()) == MOMENT + timedelta(seconds=2)


def test_a_local_run_takes_the_clock_it_is_given_and_otherwise_the_system_clock() -> None:
    builder = TopologyBuilder("clock")
    builder.set_spout("events", spouts.memory("n long", [(1,)]))
    topology = builder.build()
    clocks: list[int] = []
    with freezegun.freeze_time(MOMENT):
        run_local(topology, RunOptions(on_report=lambda report: clocks.append(report.clock)))
        run_local(topology, RunOptions(clock=lambda: 5, on_report=lambda report: clocks.append(report.clock)))
    assert [to_datetime(clock) for clock in clocks[:2]] == [MOMENT, MOMENT]
    assert clocks[2:] == [5, 5]


def test_a_clock_that_goes_back_is_held() -> None:
    builder = TopologyBuilder("clock")
    builder.set_spout("events", spouts.memory("n long", [(1,)], [(2,)], [(3,)]))
    readings = iter([10, 20, 7, 30])
    clocks: list[int] = []
    run_local(
        builder.build(), RunOptions(clock=lambda: next(readings), on_report=lambda report: clocks.append(report.clock))
    )
    assert clocks == [20, 20, 30, 30]
