"""Progress of a run: a live display, a line per batch, or JSON."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from topologies.cli.terminal.complaints import Complaints
from topologies.cli.terminal.consoles import only_json, out, warn, warn_unread
from topologies.cli.terminal.summary_display import rate, rows_in_words
from topologies.cli.terminal.time_table import counter_words, counters_of, start_words, time_table, time_words
from topologies.engine.batch.report import BatchReport, BoltReport
from topologies.run.clock import Clock, system_clock
from topologies.run.readable import number, spoken
from topologies.run.summary import Summary
from topologies.topology import Topology
from windowing.time.timestamps import FOREVER, show

HEARTBEAT = 30.0
"""Seconds without a line after which one says that the run is in progress."""
LINE = 80
"""Maximum length of a line where there is no terminal, except for names that are longer."""
_MAY_BE_ABSENT = ("behind", "late", "pending", "invalid")


class ProgressDisplay(Protocol):
    """Receives the progress of a run. ``report`` is called from the run's own thread."""

    def report(self, report: BatchReport) -> None:
        """Called after each batch."""

    def note(self, text: str, *, until_batch: bool = False) -> None:
        """Called with a remark about the run, for example that it is being stopped. ``until_batch``: it is true until
        the next batch is done."""

    def beat(self) -> None:
        """Called several times a second, from the thread that waits for the run."""

    def end(self, summary: Summary) -> None:
        """Called when the run has ended."""


@contextmanager
def shown_progress(topology: Topology, *, as_json: bool) -> Iterator[ProgressDisplay]:
    """The progress display that suits standard output."""
    if as_json:
        with only_json() as write:
            yield JsonProgress(write)
    elif sys.stdout.isatty():
        with _live(topology) as display:
            yield display
    else:
        yield LineProgress(topology, out())


@dataclass
class JsonProgress:
    """Prints a JSON object per batch, each on its own line, as long as somebody reads them."""

    write: Callable[[Any], bool]
    complaints: Complaints = field(default_factory=Complaints, repr=False, compare=False)
    unread: bool = False

    def report(self, report: BatchReport) -> None:
        """Called after each batch."""
        self.complaints.tell(report)
        if not self.write(report.to_json()) and not self.unread:
            self.unread = True
            warn_unread()

    def note(self, text: str, *, until_batch: bool = False) -> None:
        """Called with a remark about the run."""
        warn(text)

    def beat(self) -> None:
        """Nothing is written between two batches."""

    def end(self, summary: Summary) -> None:
        """Called when the run has ended."""
        self.complaints.end()
        self.write(summary.to_json())


class LineProgress:
    """Prints a line of text per batch, with the time of day, and below it a line per bolt; where no batch comes, a line
    now and then."""

    def __init__(
        self,
        topology: Topology,
        console: Console,
        clock: Clock = system_clock,
        passed: Callable[[], float] = time.perf_counter,
    ) -> None:
        """``clock`` is the time of day in microseconds, ``passed`` a count of seconds that never goes back."""
        self.topology, self.console, self.speed = topology, console, _Speed()
        self.clock, self.passed = clock, passed
        self.started = self.reported = self.spoke = passed()
        self.batch = ""
        self.complaints = Complaints()

    def report(self, report: BatchReport) -> None:
        """Called after each batch."""
        self.complaints.tell(report)
        self.speed.add(report)
        self.batch = _batch(report)
        self.reported = self.passed()
        lines = [f"{_batch(report)}: {self.speed.text(report)}"]
        for name, bolt in report.bolts.items():
            lines += self._bolt(name, bolt)
        self._print("\n".join(lines))

    def note(self, text: str, *, until_batch: bool = False) -> None:
        """Called with a remark about the run."""
        warn(text)

    def beat(self) -> None:
        """Say that the run is in progress, where nothing else has said so for a while."""
        now = self.passed()
        if now - self.spoke >= HEARTBEAT:
            last = f"{self.batch} was {_seconds(now - self.reported)} ago" if self.batch else "no batch yet"
            self._print(f"running for {_seconds(now - self.started)}; {last}")

    def end(self, summary: Summary) -> None:
        """Called when the run has ended; the summary is printed later."""
        self.complaints.end()

    def _print(self, line: str) -> None:
        self.spoke = self.passed()
        at = show(self.clock() // 1_000_000 * 1_000_000)
        self.console.print(Text(f"{at} {line}"), soft_wrap=True)

    def _bolt(self, name: str, bolt: BoltReport) -> list[str]:
        """A bolt in a line, or in several where one would be too long; what is zero is not said."""
        cells = _cells(self.topology, name, bolt)
        time = " ".join(part for part in (cells.pop("watermark"), f"({cells.pop('behind')})") if part != "()")
        cells = {what: value for what, value in cells.items() if value != "0"} | time_words(bolt) | counters_of(bolt)
        return _filled([f"{name}: {time}", *(f"{what} {value}" for what, value in cells.items())])


class LiveProgress:
    """Shows a live display."""

    def __init__(self, topology: Topology, console: Console | None = None) -> None:
        """``console`` is that of warnings, if they share the terminal with the display."""
        self.topology, self.speed, self.started = topology, _Speed(), time.perf_counter()
        self.console = console
        self.last: BatchReport | None = None
        self.remark, self.remark_until_batch = "", False
        self.ended = False
        self.complaints = Complaints()
        self.in_words = False
        """Whether a table was too wide: what is shown does not go back and forth."""

    def report(self, report: BatchReport) -> None:
        """Called after each batch."""
        self.complaints.tell(report, self.console)
        self.speed.add(report)
        self.last = report
        if self.remark_until_batch:
            self.remark = ""

    def note(self, text: str, *, until_batch: bool = False) -> None:
        """Called with a remark about the run."""
        self.remark, self.remark_until_batch = text, until_batch

    def beat(self) -> None:
        """Nothing is to be done: the display shows how long the run takes."""

    def end(self, summary: Summary) -> None:
        """Called when the run has ended: the summary that follows says the rest."""
        self.complaints.end(self.console)
        self.remark, self.ended = "", True

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Called by rich each time the display is refreshed."""
        if self.ended and self.last is None:
            return  # it would say for ever that the run is starting
        yield self._headline()
        if self.last is not None:
            table = self._bolts(self.last)
            wide = Measurement.get(console, options.update(width=1000), table).maximum > options.max_width
            self.in_words = wide or (self.in_words and not self.ended)
            yield self._bolts_in_words(self.last) if self.in_words else table
            yield from [] if self.ended else self._tables(self.last)
        yield from self._remark()

    def _headline(self) -> Text:
        name = Text(self.topology.name, "bold")
        running = f"  {spoken(int(time.perf_counter() - self.started) * 1_000_000)}"
        if self.last is None:
            return name.append(f"  starting{running}", "not bold dim")
        text = f"  {_batch(self.last)}: {self.speed.text(self.last)}"
        return name.append(text, "not bold").append(running, "not bold dim")

    def _tables(self, report: BatchReport) -> list[RenderableType]:
        times, start = time_table(report.bolts), start_words(report)
        return [
            *([] if times is None else [times]),
            *map(Text, [*counter_words(report.bolts), *start]),
        ]

    def _bolts(self, report: BatchReport) -> Table:
        """A row for each bolt. What is zero everywhere has no column: the others are to fit into 80."""
        rows = {name: _cells(self.topology, name, bolt) for name, bolt in report.bolts.items()}
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
        table.add_column("bolt", style="bold", overflow="fold")
        titles = [
            title
            for title in next(iter(rows.values()), {})
            if title not in _MAY_BE_ABSENT or any(cells[title] not in ("", "0") for cells in rows.values())
        ]
        for title in titles:
            words = title in ("watermark", "behind")
            table.add_column(title, justify="left" if words else "right", no_wrap=True)
        for name, cells in rows.items():
            table.add_row(Text(name), *(cells[title].removesuffix(" behind") for title in titles))
        return table

    def _bolts_in_words(self, report: BatchReport) -> Group:
        """Two lines for each bolt, where a table would be too wide."""
        lines = []
        for name, bolt in report.bolts.items():
            cells = _cells(self.topology, name, bolt)
            at = [cells[title] for title in ("watermark", "behind") if cells[title]]
            counts = [f"{cells[title]} {title}" for title in ("open", *_MAY_BE_ABSENT[1:]) if cells[title] != "0"]
            windows = f"{number(bolt.windows)} windows, {number(bolt.fired)} so far"
            lines += [Text.assemble((name, "bold"), f"  {', '.join(at)}"), Text(f"  {', '.join([windows, *counts])}")]
        return Group(*lines)

    def _remark(self) -> list[Text]:
        return [Text(self.remark, "bold yellow")] if self.remark else []


@contextmanager
def _live(topology: Topology) -> Iterator[LiveProgress]:
    # Output on standard error appears above the display only where both are the same terminal.
    console, shared = out(), sys.stderr.isatty()
    display = LiveProgress(topology, console if shared else None)
    with Live(display, console=console, refresh_per_second=4, redirect_stderr=shared):
        yield display


class _Speed:
    """Rows per second: of a batch, and since the first one began."""

    def __init__(self) -> None:
        self.rows, self.began = 0, 0.0

    def add(self, report: BatchReport) -> None:
        if not self.began:
            self.began = time.perf_counter() - report.seconds.get("total", 0.0)
        self.rows += report.rows

    def text(self, report: BatchReport) -> str:
        here = rate(report.rows, report.seconds.get("total", 0.0))
        overall = rate(self.rows, time.perf_counter() - self.began)
        return f"{rows_in_words(report.rows)}, {here} rows/s (overall {overall})"


def _filled(parts: Sequence[str]) -> list[str]:
    """The parts in lines of up to 80 characters, which end only between two of them."""
    lines = [f"  {parts[0]}"]
    for part in parts[1:]:
        if len(lines[-1]) + len(part) + 3 <= LINE:
            lines[-1] += f", {part}"
        else:
            lines[-1] += ","
            lines.append(f"    {part}")
    return lines


def _seconds(passed: float) -> str:
    return spoken(int(passed) * 1_000_000)


def _batch(report: BatchReport) -> str:
    if not report.closing:
        return f"batch {report.batch}"
    return "closing" if report.batch < 0 else f"after batch {report.batch}, closing"


def _cells(topology: Topology, name: str, bolt: BoltReport) -> dict[str, str]:
    """The displayed values of a bolt, by title."""
    node = topology.windowed.get(name)
    watermark, behind = "by the clock", ""
    if node is None or node.event_time:
        watermark = "none yet" if bolt.watermark is None else show(bolt.watermark)
        behind = "" if bolt.behind is None or bolt.watermark == FOREVER else f"{spoken(bolt.behind)} behind"
    return {
        "watermark": watermark,
        "behind": behind,
        "windows": f"{number(bolt.fired)} (+{number(bolt.windows)})",  # all so far, and those of this batch
        "open": "–" if bolt.open is None else number(bolt.open),
        "late": number(bolt.accounts.get("late", 0)),
        "pending": number(bolt.accounts.get("pending", 0)),
        "invalid": number(bolt.accounts.get("invalid", 0)),
    }
