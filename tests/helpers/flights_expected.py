"""What the flights demo must answer, in plain pandas: none of windbolt's code, and slow enough to be obvious.

A batch is file k of both streams. A tick ends it: the watermark is the smaller of the two streams' largest
scheduled times so far (late ones count), minus the lag, if that is more than before. An event scheduled
before the watermark of the batches before its own is late. The others are in the windows that hold them and
have not passed the watermark.

- *hourly*: for each origin, over the hour up to every quarter, ``(end - 1 h, end]``: the ``departures`` that
  left, the ``arrivals`` that reached their destination, the means of their known delays (NaN without one),
  and the ``cancelled`` departures. A row for each window with an event, be it a cancelled arrival.
- *worst*: for each origin and day, ``(05:00Z, 05:00Z]``, the hourly row with the highest mean departure delay
  among those with ten departures or more, the earliest of equals. No row where no hour has ten.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

LENGTH, SLIDE = pd.Timedelta("1h"), pd.Timedelta("15min")
DAY_STARTS = pd.Timedelta("5h")
ENOUGH_DEPARTURES = 10


@dataclass(frozen=True)
class Expected:
    """The demo's answer; ``late`` has the events of each stream that were turned away.

    hourly: origin, window_end, departures, mean_dep_delay, arrivals, mean_arr_delay, cancelled
    worst: origin, day_end, window_end, mean_dep_delay, departures, cancelled
    late_departures, late_arrivals: the stream's columns, and batch (from 0), watermark, late_by
    """

    hourly: pd.DataFrame
    worst: pd.DataFrame
    late_departures: pd.DataFrame
    late_arrivals: pd.DataFrame


def read_batches(stream: Path) -> list[pd.DataFrame]:
    """The Parquet files of one stream's folder, in the order of their names."""
    return [pd.read_parquet(path) for path in sorted(stream.glob("*.parquet"))]


def expected(departures: Sequence[pd.DataFrame], arrivals: Sequence[pd.DataFrame], lag: pd.Timedelta) -> Expected:
    judged_departures, judged_arrivals = judge(departures, arrivals, lag)
    hours = hourly(accepted(judged_departures), accepted(judged_arrivals))
    return Expected(hours, worst(hours), late(judged_departures), late(judged_arrivals))


def judge(
    departures: Sequence[pd.DataFrame], arrivals: Sequence[pd.DataFrame], lag: pd.Timedelta
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """All events of each stream, with their batch and the watermark they met (NaT in the first batches)."""
    judged: tuple[list[pd.DataFrame], list[pd.DataFrame]] = ([], [])
    newest = [pd.NaT, pd.NaT]
    watermark = pd.NaT
    for number, batch in enumerate(zip(departures, arrivals, strict=True)):
        for stream, events in enumerate(batch):
            met = pd.Series(watermark, index=events.index, dtype="datetime64[us, UTC]")
            judged[stream].append(events.assign(batch=number, watermark=met))
            newest[stream] = pd.Series([newest[stream], events["scheduled"].max()]).max()
        if not pd.isna(newest).any():
            watermark = pd.Series([watermark, min(newest) - lag]).max()
    return pd.concat(judged[0], ignore_index=True), pd.concat(judged[1], ignore_index=True)


def late(judged: pd.DataFrame) -> pd.DataFrame:
    events = judged[judged["scheduled"] < judged["watermark"]]
    return events.assign(late_by=events["watermark"] - events["scheduled"]).reset_index(drop=True)


def accepted(judged: pd.DataFrame) -> pd.DataFrame:
    return judged[~(judged["scheduled"] < judged["watermark"])]


def in_windows(events: pd.DataFrame) -> pd.DataFrame:
    """Each event once for each window that it is in: those that hold it and had not fired when it came."""
    first = events["scheduled"].dt.ceil(SLIDE)
    each = [events.assign(window_end=first + place * SLIDE) for place in range(LENGTH // SLIDE)]
    held = pd.concat(each, ignore_index=True)
    return held[~(held["window_end"] <= held["watermark"])]


def hourly(departures: pd.DataFrame, arrivals: pd.DataFrame) -> pd.DataFrame:
    window = ["origin", "window_end"]
    left = in_windows(departures)
    left = left.assign(departed=~left["cancelled"])
    reached = in_windows(arrivals)
    reached = reached.assign(arrived=~reached["cancelled"])
    of_departures = left.groupby(window).agg(
        departures=("departed", "sum"), mean_dep_delay=("delay", "mean"), cancelled=("cancelled", "sum")
    )
    of_arrivals = reached.groupby(window).agg(arrivals=("arrived", "sum"), mean_arr_delay=("delay", "mean"))
    both = of_departures.join(of_arrivals, how="outer").sort_index().reset_index()
    counts = ["departures", "arrivals", "cancelled"]
    both[counts] = both[counts].fillna(0).astype("int64")
    columns = ["departures", "mean_dep_delay", "arrivals", "mean_arr_delay", "cancelled"]
    return both[[*window, *columns]].sort_values(["window_end", "origin"], ignore_index=True)


def worst(hours: pd.DataFrame) -> pd.DataFrame:
    busy = hours[hours["departures"] >= ENOUGH_DEPARTURES]
    busy = busy.assign(day_end=(busy["window_end"] - DAY_STARTS).dt.ceil("24h") + DAY_STARTS)
    ranked = busy.sort_values(["mean_dep_delay", "window_end"], ascending=[False, True])
    first = ranked.drop_duplicates(["origin", "day_end"])
    columns = ["origin", "day_end", "window_end", "mean_dep_delay", "departures", "cancelled"]
    return first[columns].sort_values(["day_end", "origin"], ignore_index=True)
