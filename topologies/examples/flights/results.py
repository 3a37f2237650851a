"""Results of the demo for people: tables for the terminal, with the times that New York's clocks showed."""

from __future__ import annotations

import os
from pathlib import Path

import pandas as pd
import pyarrow.dataset
from rich.console import Group
from rich.table import Table

from windowing.errors import ConfigError

_NEW_YORK = "America/New_York"
_SHOWN = 10


def show_results(output_dir: str | os.PathLike[str]) -> Group:
    """Tables of what ``flights_topology`` wrote into ``output_dir``, to be printed with rich.

    They may be asked for while the topology runs, for those windows that have fired so far. ConfigError where there
    are none.
    """
    target = Path(output_dir)
    hourly, worst, late = (_read(target / name) for name in ("hourly", "worst_hour", "late"))
    if hourly.empty:
        raise ConfigError(
            f"there are no results in {str(target)!r}",
            why="no window has fired that would have written there",
            do="run the demo first, or name the directory that it wrote to",
        )
    return Group(_worst_hours(worst), "", _airports(hourly), "", _late_events(late))


def _read(folder: Path) -> pd.DataFrame:
    """Returns the rows of all files; an empty table without columns where there are none."""
    if not folder.is_dir():
        return pd.DataFrame()
    frame: pd.DataFrame = pyarrow.dataset.dataset(folder, format="parquet").to_table().to_pandas()
    return frame


def _worst_hours(worst: pd.DataFrame) -> Table:
    # One per airport and day: windows overlap, and a single bad evening would otherwise take all the places.
    table = _table(
        "The worst hours of the year: one per airport and day",
        *("from", "hour (New York)", "departures >", "mean delay >", "cancelled >"),
    )
    if worst.empty:
        return table
    ranked = worst.sort_values(["mean_dep_delay", "window_end", "origin"], ascending=[False, True, True])
    ends = ranked["window_end"].dt.tz_convert(_NEW_YORK)
    rows = zip(
        ranked["origin"],
        (ends - pd.Timedelta("1h")).dt.strftime("%a %d %b %Y, %H:%M") + ends.dt.strftime("–%H:%M"),
        ranked["departures"].map("{:,}".format),
        ranked["mean_dep_delay"].map(_minutes),
        ranked["cancelled"].map("{:,}".format),
        strict=True,
    )
    for row in list(rows)[:_SHOWN]:
        table.add_row(*row)
    return table


def _airports(hourly: pd.DataFrame) -> Table:
    table = _table(
        "The airports",
        *("from", "departures >", "mean delay >", "cancelled >", "arrivals >", "mean delay >"),
    )
    # Of the four windows that an event is in, one ends on the hour. (Had that one just fired when the event came, it
    # is in the other three only, and is not counted: some forty flights of the year.)
    once = hourly[hourly["window_end"].dt.minute == 0]
    for origin, hours in once.groupby("origin"):
        departures, arrivals, cancelled = (int(hours[name].sum()) for name in ("departures", "arrivals", "cancelled"))
        table.add_row(
            str(origin),
            f"{departures:,}",
            _minutes((hours["mean_dep_delay"] * hours["departures"]).sum() / max(departures, 1)),
            f"{cancelled:,} ({cancelled / max(departures + cancelled, 1):.1%})",
            f"{arrivals:,}",
            # Nearly: the few diverted arrivals count here, and their delays are not known.
            _minutes((hours["mean_arr_delay"] * hours["arrivals"]).sum() / max(arrivals, 1)),
        )
    return table


def _late_events(late: pd.DataFrame) -> Table:
    table = _table(
        "Late events: in no window, but in late/",
        *("stream", "events >", "behind the watermark: median >", "at most >"),
    )
    if late.empty:
        table.add_row("none", "0", "", "")
        return table
    for stream, events in late.groupby("_stream"):
        behind = pd.to_timedelta(events["_late_by_us"], unit="us")
        table.add_row(str(stream), f"{len(events):,}", _hours(behind.median()), _hours(behind.max()))
    return table


def _table(title: str, *columns: str) -> Table:
    """A table; columns that end in > are numbers, to the right."""
    table = Table(title=title, title_justify="left", title_style="bold")
    for column in columns:
        table.add_column(column.removesuffix(" >"), justify="right" if column.endswith(">") else "left")
    return table


def _minutes(delay: float) -> str:
    return f"{delay:.1f} min"


def _hours(behind: pd.Timedelta) -> str:
    hours, minutes = divmod(int(behind.total_seconds()) // 60, 60)
    return f"{hours} h {minutes:02} min"
