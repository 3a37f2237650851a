"""The demo, over the flights of the whole year: what it writes is what plain pandas makes of the same files."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from io import StringIO
from pathlib import Path

import pandas as pd
import pytest
from rich.console import Console

from tests.helpers import flights_expected
from tests.helpers.flights_expected import Expected
from topologies.engine.admission import BEHIND
from topologies.examples.flights.data import STREAMS, FlightFiles, show_results, write_flights
from topologies.examples.flights.topology import flights_topology
from windbolt import Summary, Topology, run_local
from windowing import Duration, days, hours
from windowing.errors import ConfigError

FLIGHTS = 336_776

Runner = Callable[[Topology, Path], Summary]
"""Runs a topology to the end of its input, and has a folder of its own for what it must keep."""


def locally(topology: Topology, folder: Path) -> Summary:
    return run_local(topology)


RUNNERS = [pytest.param(locally, id="local", marks=pytest.mark.extended)]


@dataclass(frozen=True)
class Case:
    files: FlightFiles
    batches: int
    lag: Duration
    expected: Expected


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    lag = hours(1)
    files = write_flights(tmp_path_factory.mktemp("demo") / "flights", timedelta(days=28))
    return Case(files, 14, lag, expectation(files.directory, lag))


def expectation(flights: Path, lag: Duration) -> Expected:
    departures, arrivals = (flights_expected.read_batches(flights / name) for name in STREAMS)
    return flights_expected.expected(departures, arrivals, pd.Timedelta(lag.micros, "us"))


@pytest.mark.parametrize("run", RUNNERS)
def test_the_demo_writes_what_plain_pandas_computes(case: Case, run: Runner, tmp_path: Path) -> None:
    topology = flights_topology(case.files.directory, tmp_path / "out", lag=case.lag)
    summary = run(topology, tmp_path / "kept")
    check(tmp_path / "out", case.expected)
    check_accounts(summary, case.expected)
    assert summary.rows == 2 * FLIGHTS
    assert summary.batches == case.batches + 1  # the windows that are still open at the end fire in one more


def check(output: Path, expected: Expected) -> None:
    """Compare all that the demo wrote, row for row and value for value."""
    hourly = read(output / "hourly").sort_values(["window_end", "origin"], ignore_index=True)
    check_rows(hourly, expected.hourly)
    worst = read(output / "worst_hour").sort_values(["day_end", "origin"], ignore_index=True)
    check_rows(worst, expected.worst)
    late = read(output / "late")
    assert set(late["_stream"]) == set(STREAMS)
    for stream, events in (("departures", expected.late_departures), ("arrivals", expected.late_arrivals)):
        check_late(late[late["_stream"] == stream].reset_index(drop=True), events)
    assert list((output / "errors").iterdir()) == []


def check_late(found: pd.DataFrame, expected: pd.DataFrame) -> None:
    """Compare the late events of one stream, in the order in which they came."""
    said = expected.drop(columns=["batch", "watermark", "late_by"]).assign(
        _event_time=expected["scheduled"],
        _reason=BEHIND,
        _late_by_us=expected["late_by"].dt.total_seconds() * 1e6,  # whole minutes
        _watermark=expected["watermark"],
    )
    # The hour that each of them missed: (start, end].
    assert (found["_window_end"] - found["_window_start"] == pd.Timedelta(hours=1)).all()
    assert (found["_window_start"] < found["_event_time"]).all()
    assert (found["_event_time"] <= found["_window_end"]).all()
    check_rows(found.drop(columns=["_stream", "_window_start", "_window_end"]), said)


def check_rows(found: pd.DataFrame, expected: pd.DataFrame) -> None:
    # pandas makes nanoseconds of microseconds as soon as it calculates.
    expected = expected.astype(found.dtypes.to_dict())
    pd.testing.assert_frame_equal(found, expected, check_exact=False, rtol=1e-12, atol=0)


def check_accounts(summary: Summary, expected: Expected) -> None:
    """Every event is in the accounts once; ``check`` has compared the late ones of each stream."""
    assert summary.last is not None
    late = len(expected.late_departures) + len(expected.late_arrivals)
    hourly = {"received": 2 * FLIGHTS, "windowed": 2 * FLIGHTS - late, "late": late}
    emitted = len(expected.hourly)
    worst = {"received": emitted, "windowed": emitted}
    for bolt, accounts in (("hourly", hourly), ("worst_hour", worst)):
        found = summary.last.bolts[bolt].accounts
        assert {name: count for name, count in found.items() if count} == accounts
    counted = {"rows": FLIGHTS, "invalid": 0, "unreadable_files": 0, "truncated": 0}
    assert summary.last.spouts == dict.fromkeys(STREAMS, counted)


def read(folder: Path) -> pd.DataFrame:
    """All files of a folder, in the order of the batches that wrote them."""
    return pd.concat(map(pd.read_parquet, sorted(folder.glob("*.parquet"))), ignore_index=True)


# The harness finds what is wrong


@pytest.fixture(scope="module")
def july(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The flights of two weeks in July, a week a file."""
    folder = tmp_path_factory.mktemp("july")
    files = write_flights(folder / "year")
    for paths in (files.departures, files.arrivals):
        copy(paths[27:29], folder / "flights" / paths[0].parent.name)
    return folder / "flights"


def copy(paths: Iterable[Path], to: Path) -> None:
    to.mkdir(parents=True)
    for path in paths:
        shutil.copy2(path, to)  # with the time of its modification: files are read in that order


@pytest.fixture(scope="module")
def july_results(july: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("july_results")
    run_local(flights_topology(july, output))
    return output


def test_a_part_of_the_year_is_answered_too(july: Path, july_results: Path) -> None:
    check(july_results, expectation(july, hours(1)))


def test_another_lag_is_another_answer(july: Path, july_results: Path) -> None:
    with pytest.raises(AssertionError):
        check(july_results, expectation(july, hours(2)))


def test_a_missing_row_is_noticed(july: Path, july_results: Path, tmp_path: Path) -> None:
    expected, output = expectation(july, hours(1)), tmp_path / "out"
    shutil.copytree(july_results, output)
    check(output, expected)
    for name in ("hourly", "worst_hour", "late"):
        last = max((output / name).iterdir())
        whole = pd.read_parquet(last)
        whole.iloc[:-1].to_parquet(last)
        with pytest.raises(AssertionError):
            check(output, expected)
        whole.to_parquet(last)
    check(output, expected)


# The results for people


def shown(output: Path) -> list[str]:
    """The lines of the tables, with single spaces."""
    console = Console(file=StringIO(), width=120, color_system=None)
    console.print(show_results(output))
    assert isinstance(console.file, StringIO)
    return [" ".join(line.replace("│", " ").split()) for line in console.file.getvalue().splitlines()]


def test_results_name_the_worst_hours_in_new_york_time(july: Path, july_results: Path) -> None:
    rows = [line for line in shown(july_results) if "Jul 2013" in line]
    worst = expectation(july, hours(1)).worst.nlargest(10, "mean_dep_delay")
    assert [row[:3] for row in rows] == list(worst["origin"])
    first = worst.iloc[0]
    assert first["window_end"] == pd.Timestamp("2013-07-08T23:15Z")
    # In July New York is four hours behind.
    figures = f"{first['departures']} {first['mean_dep_delay']:.1f} min {first['cancelled']}"
    assert rows[0] == f"{first['origin']} Mon 08 Jul 2013, 18:15–19:15 {figures}"


def test_results_count_each_flight_once(july: Path, july_results: Path) -> None:
    airports = {line[:3]: line.split() for line in shown(july_results) if "%" in line}
    streams = [flights_expected.read_batches(july / name) for name in STREAMS]
    judged = flights_expected.judge(streams[0], streams[1], pd.Timedelta("1h"))
    departures, arrivals = map(flights_expected.accepted, judged)
    assert set(airports) == {"EWR", "JFK", "LGA"}
    for origin, row in airports.items():
        left, arrived = (events[events["origin"] == origin] for events in (departures, arrivals))
        cancelled = left["cancelled"].sum()
        assert row[:5] == [
            origin, f"{len(left) - cancelled:,}", f"{left['delay'].mean():.1f}", "min", f"{cancelled:,}"
        ]  # fmt: skip
        assert row[6] == f"{(~arrived['cancelled']).sum():,}"
        assert float(row[7]) == pytest.approx(arrived["delay"].mean(), abs=0.3)  # diverted ones have no delay


def test_results_say_how_late_the_late_events_were(july: Path, july_results: Path) -> None:
    expected = expectation(july, hours(1))
    lines = shown(july_results)
    for stream, events in (("departures", expected.late_departures), ("arrivals", expected.late_arrivals)):
        minutes = events["late_by"].dt.total_seconds() / 60
        behind = [f"{length // 60:.0f} h {length % 60:02.0f} min" for length in (minutes.median(), minutes.max())]
        assert f"{stream} {len(events)} {' '.join(behind)}" in lines


def test_results_without_late_events(july: Path, tmp_path: Path) -> None:
    run_local(flights_topology(july, tmp_path, lag=days(3)))
    assert "none 0" in shown(tmp_path)


def test_results_that_are_not_there(july: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="run the demo first"):
        show_results(tmp_path / "nowhere")
    flights_topology(july, tmp_path)
    with pytest.raises(ConfigError, match="no window has fired"):
        show_results(tmp_path)
