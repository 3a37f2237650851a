"""The demo: how late flights from New York are, hour by hour, and which hour of each day was the worst.

departures ─┐                                          ┌─> worst_hour ─> worst_hour/
            ├─> hourly, an hour every 15 minutes ──────┼───────────────> hourly/
arrivals ───┘                                          ├─ late ────────> late/
                                                       └─ errors ──────> errors/
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from topologies.examples.flights.data import SCHEMA
from windbolt import Duration, Topology, TopologyBuilder, TupleWindow, WindowedBolt, hours, minutes, sinks, spouts

LAG = hours(1)
ENOUGH_DEPARTURES = 10
"""Least number of departures for a mean: with fewer, an hour's mean describes single flights, not the airport."""


class FlightStats(NamedTuple):
    """Figures of some flights: the number that took place, their mean delay in minutes (None if unknown), and the
    number of cancelled ones."""

    flights: int
    mean_delay: float | None
    cancelled: int


class HourlyDelays(WindowedBolt):
    """Departures and arrivals of each airport of origin in an hour, with their delays. Times are scheduled times."""

    outputs = (
        "origin string, window_end timestamp, departures long, mean_dep_delay double, "
        "arrivals long, mean_arr_delay double, cancelled long"
    )

    def execute(self, window: TupleWindow) -> Iterator[tuple[Any, ...]]:
        left = stats_by_origin(window.stream("departures"))
        arrived = stats_by_origin(window.stream("arrivals"))
        # A task may have several airports. In this window some of them may have no flights at all (they get no row), or
        # only departures, or only arrivals.
        no_flights = FlightStats(0, None, 0)
        for origin in sorted(left.keys() | arrived.keys()):
            departures, arrivals = left.get(origin, no_flights), arrived.get(origin, no_flights)
            yield (
                *(origin, window.end),
                *(departures.flights, departures.mean_delay),
                *(arrivals.flights, arrivals.mean_delay),
                departures.cancelled,
            )


class WorstHour(WindowedBolt):
    """The hour of the day with the greatest departure delay, for each airport of origin; of equal hours, the
    earliest."""

    outputs = (
        "origin string, day_end timestamp, window_end timestamp, mean_dep_delay double, departures long, cancelled long"
    )

    def execute(self, window: TupleWindow) -> pa.Table:
        busy = window.table.filter(pc.field("departures") >= ENOUGH_DEPARTURES)
        ranked = busy.sort_by([("mean_dep_delay", "descending"), ("window_end", "ascending")])
        # With threads, rows would come to a group in random order, and so the first row would be random.
        columns = ("window_end", "mean_dep_delay", "departures", "cancelled")
        worst = ranked.group_by("origin", use_threads=False).aggregate([(name, "first") for name in columns])
        worst = worst.rename_columns(["origin", *columns])
        return worst.append_column("day_end", pa.array([window.end] * len(worst), pa.timestamp("us", tz="UTC")))


def flights_topology(
    input_dir: str | os.PathLike[str], output_dir: str | os.PathLike[str], *, lag: Duration = LAG
) -> Topology:
    """Returns the topology from the files of ``data.write_flights`` in ``input_dir`` to Parquet files in
    ``output_dir``.

    A delayed flight is in the file of the day on which it happened, hours after its schedule. ``lag``: how long to wait
    for such flights, in scheduled time; flights that come later are late.
    """
    source, target = Path(input_dir), Path(output_dir)
    builder = TopologyBuilder("flights")

    # One file of each at a time, so that a micro-batch has the same span of both, as in a live stream.
    builder.set_spout("departures", spouts.files(source / "departures" / "*.parquet", SCHEMA, files_per_batch=1))
    builder.set_spout("arrivals", spouts.files(source / "arrivals" / "*.parquet", SCHEMA, files_per_batch=1))

    hourly = (
        HourlyDelays()
        .with_window(hours(1), minutes(15))
        .with_timestamp_field("scheduled")
        .with_lag(lag)
        .with_late_tuple_stream("late")
    )
    # Both streams are grouped by the same field, so that an airport's departures and arrivals meet in one task.
    (
        builder.set_bolt("hourly", hourly, parallelism=3)
        .fields_grouping("departures", "origin")
        .fields_grouping("arrivals", "origin")
    )

    # The rows of hourly have the end of their window as time, and carry hourly's watermark, so no timestamp field is
    # needed. A window excludes its start and includes its end, so the hour up to midnight belongs to the day before.
    # Midnight is that of New York, at 5:00 UTC, even in summer, since a day here has 24 hours and no daylight time.
    worst_hour = WorstHour().with_tumbling_window(hours(24)).with_alignment(offset=hours(5))
    builder.set_bolt("worst_hour", worst_hour).global_grouping("hourly")

    builder.set_sink("hourly_files", sinks.files(target / "hourly")).from_("hourly")
    builder.set_sink("worst_hour_files", sinks.files(target / "worst_hour")).from_("worst_hour")
    builder.set_sink("late_files", sinks.files(target / "late")).from_("hourly", stream="late")
    # The input that hourly could not use: unreadable rows and files, and events without a time.
    builder.set_sink("errors_files", sinks.files(target / "errors")).from_("hourly", stream="errors")
    return builder.build()


def stats_by_origin(events: pa.Table) -> dict[str, FlightStats]:
    """Computes the figures of one stream's flights, for each airport of origin."""
    # A window has few events, and there are many windows. For such small tables NumPy is faster than group_by.
    origins, cancelled, delays = (events[name].to_numpy() for name in ("origin", "cancelled", "delay"))
    stats = {}
    for origin in set(origins):
        is_from_origin = origins == origin
        flights, dropped = int(is_from_origin.sum()), int(cancelled[is_from_origin].sum())
        known_delays = delays[is_from_origin & ~np.isnan(delays)]
        stats[origin] = FlightStats(
            flights - dropped, float(known_delays.mean()) if len(known_delays) else None, dropped
        )
    return stats
