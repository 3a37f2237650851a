"""Displays of a run: its progress, its end, counts of the time rules, and the report of ``windbolt check``."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from manager.accounts import SHOWN_FINDINGS
from topologies.checkpoints.inspect_spouts import Findings, inspect_spouts
from topologies.checkpoints.preflight import (
    blocked_watermark_warnings,
    inspect_registries,
    inspect_sinks,
    missing_column_warnings,
    reordering_warnings,
    shifted_chains,
    unread_streams,
    with_short_registry_timeouts,
)
from topologies.cli.consoles import in_words, only_json, out, say, warn, warn_reader_gone
from topologies.engine.report import BatchReport, BoltReport
from topologies.graph.describing import DescribedPart, describe_parts, sink_in_words, window_in_words
from topologies.graph.graph import Graph, stream_label
from topologies.run.clock import Clock, system_clock
from topologies.run.summary import BoltTotals, Summary, number, short_duration
from windowing.reprs import printable
from windowing.schema import DEFAULT_STREAM
from windowing.timestamps import FOREVER, show

# Counts of the time rules for each bolt and input stream, as a table and as text (AZ-23, AZ-24).


COUNTER_TITLES = {
    "early_input": "early",
    "late_input": "late arrival",
    "out_of_order": "out of order",
    "adjusted": "adjusted",
    "truncated": "truncated",
    "dropped": "dropped",
}
"""The counters with their titles."""
MAX_SHOWN_DELAY = 86_400_000_000
"""Age of input, in microseconds (a day), above which the watermark delay is not shown."""


def time_table(bolts: Mapping[str, BoltReport]) -> Table | None:
    """Returns a row for each bolt with a watermark, and for each of its input streams if it has several.

    None if there is nothing to show. A counter that is zero in all rows has no column.
    """
    rows = [row for name, bolt in bolts.items() for row in _time_rows(name, bolt)]
    if not rows:
        return None
    heading = "what the rules of time found"
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=heading, title_justify="left", min_width=len(heading))
    table.add_column("", style="bold")
    has_delay = any(delay for _, delay, _ in rows)
    if has_delay:
        table.add_column("watermark delay", justify="right")
    shown = [name for name in COUNTER_TITLES if any(counts.get(name) for _, _, counts in rows)]
    for name in shown:
        table.add_column(COUNTER_TITLES[name], justify="right")
    for title, delay, counts in rows:
        table.add_row(title, *([delay] if has_delay else []), *(number(counts.get(name, 0)) for name in shown))
    return table


def time_words(bolt: BoltReport) -> dict[str, str]:
    """Returns the non-zero counts of one bolt, by title."""
    words = {"watermark delay": delay} if (delay := _delay_in_words(bolt)) else {}
    counted = _time_findings(bolt)
    counts = {**{title: counted.get(name, 0) for name, title in COUNTER_TITLES.items()}, "skipped": bolt.skipped}
    return words | {what: number(count) for what, count in counts.items() if count}


def counter_words(bolts: Mapping[str, BoltReport]) -> list[str]:
    """Returns the counters of bolts and of their triggers' rules: a line for each bolt with counters."""
    return [
        f"{name}: {', '.join(f'{what} {count}' for what, count in words.items())}"
        for name, bolt in bolts.items()
        if (words := counters_of(bolt))
    ]


def counters_of(bolt: BoltReport) -> dict[str, str]:
    """Returns the counters of one bolt, by title."""
    return {what.replace("_", " "): number(count) for what, count in bolt.counters.items()}


def start_words(report: BatchReport) -> list[str]:
    """Describes where a run started, and the input that it skipped; empty if it started with its input."""
    if report.first_output is None:
        return []
    start = "all input was read" if report.read_from is None else f"input was read from {show(report.read_from)} on"
    bolts = [
        f"{name}: {_counted(bolt.skipped, 'older event')} skipped,"
        f" {_counted(bolt.suppressed, 'window')} that ended too soon not emitted"
        for name, bolt in report.bolts.items()
    ]
    return [f"First output at {show(report.first_output)}; {start}.", *bolts]


def _time_rows(name: str, bolt: BoltReport) -> Iterator[tuple[str | Text, str, Mapping[str, int]]]:
    counted = _time_findings(bolt)
    if not _delay_in_words(bolt) and not any(counted.values()):
        return
    yield Text(name), _delay_in_words(bolt), counted
    if len(bolt.streams) > 1:
        for stream, counts in bolt.streams.items():
            yield Text(f"  from {stream}", "not bold"), "", counts


def _time_findings(bolt: BoltReport) -> dict[str, int]:
    return {**bolt.metrics, "dropped": bolt.accounts.get("dropped", 0)}


def _counted(count: int, what: str) -> str:
    return f"{number(count)} {what}" + ("" if count == 1 else "s")


def _delay_in_words(bolt: BoltReport) -> str:
    """Returns the watermark delay; empty without one, and for old input, where the delay only tells its age."""
    micros = bolt.delay
    if micros is None or micros > MAX_SHOWN_DELAY:
        return ""
    return short_duration(micros) if micros >= 0 else f"{short_duration(-micros)} ahead"


# Complaints about input in a terminal: each once, with its first file; at the end, the number of further ones.


class Complaints:
    """Complaints during a run; two are the same if they differ only in their files."""

    def __init__(self) -> None:
        self._times: Counter[tuple[str, str]] = Counter()

    def tell(self, report: BatchReport, console: Console | None = None) -> None:
        """Warns of each complaint of a batch that is new in this run."""
        for complaint in report.complaints:
            complaint_key = _without_file(complaint)
            self._times[complaint_key] += 1
            if self._times[complaint_key] == 1:
                warn(complaint, console)

    def end(self, console: Console | None = None) -> None:
        """Prints how often each complaint was repeated."""
        for (component, reason), times in self._times.items():
            if times > 1:
                warn(f"{component}: {times - 1:,} more of these: {reason}", console)
        self._times.clear()


def _without_file(complaint: str) -> tuple[str, str]:
    """Returns the component, and the reason without the file."""
    component, _, rest = complaint.partition(": ")
    source, _, reason = rest.partition(": ")
    return component, reason.replace(repr(source), "").strip() if reason else rest


# The end of a run: its work, the accounts of events, and the place of the state.


_T = TypeVar("_T")
_CLOSED = " The open windows have been closed"
_FIRST_COLUMN, _GAP, _NARROWEST = 16, 3, 9
"""Widths in characters in a table of accounts: of its first column, between two columns, and of a number."""


def print_summary(console: Console, topology: Graph, summary: Summary, checkpoint: str | None) -> None:
    """Prints the end of a run: its work, the accounts of each bolt and spout, and the place of its state.

    After earlier runs on the checkpoint, the figures of this run and of all runs are printed separately.
    """
    closing = summary.last is not None and summary.last.closing and summary.batches > 0
    count = summary.batches - int(closing)
    batches = ("1 batch" if count == 1 else f"{number(count)} batches") + (" and the closing" if closing else "")
    speed = f"{summary.seconds:.2f} s, {rate(summary.rows, summary.seconds)} rows/s"
    rows = rows_in_words(summary.rows)
    text = f": {rows} in {batches}, {speed}"
    console.print(Text.assemble((topology.name, "bold"), text))
    if summary.restarts:
        often = "once" if summary.restarts == 1 else f"{number(summary.restarts)} times"
        console.print(Text(f"It was started again {often}, after failures that passed.", "yellow"))
    if summary.stopped:
        console.print(Text("Stopped cleanly, before the end of the input.", "yellow"))
    elif summary.last is None:
        earlier = "" if checkpoint is None else ", or earlier runs on this checkpoint have read it"
        say(console, Text(f"There was nothing to read: nothing has come{earlier}."))
    title_end = ", of all runs on this checkpoint" if summary.before else ""
    if summary.last is not None:
        if summary.before:
            for runs in _groups_by_width(summary.this_run(), console.width):
                console.print(_this_run_table(runs))
        for bolts in _groups_by_width(summary.last.bolts, console.width):
            console.print(accounts_table(bolts, title_end))
        times = time_table(summary.last.bolts)
        if times is not None:
            console.print(times)
        if summary.last.spouts:
            console.print(_spouts_table(summary.last.spouts, title_end))
        for text in (*counter_words(summary.last.bolts), *start_words(summary.last)):
            say(console, Text(text))
    if checkpoint is not None:
        say(console, Text(_state_words(topology, summary, checkpoint)))
    for advice in summary.advice:
        say(console, Text(advice.text, "cyan"))


def _state_words(topology: Graph, summary: Summary, checkpoint: str) -> str:
    """Describes the place of the state, and the state that the next run finds."""
    text = f"The state is in {checkpoint}: a run with this checkpoint continues from here."
    last = summary.last
    if last is not None and last.closing and any(bolt.accounts.get("received") for bolt in last.bolts.values()):
        by_event_time = any(node.event_time for node in topology.windowed.values())
        still_pending = "".join(_still_pending(topology, last.bolts))
        text += (" The streams have ended, and what was due has fired" if still_pending else _CLOSED) + (
            ": what is earlier than their ends will be late (--keep-open leaves them open)."
            if by_event_time
            else " (--keep-open leaves them open)."
        )
        text += still_pending
    return text


def _still_pending(topology: Graph, bolts: dict[str, BoltReport]) -> Iterator[str]:
    """Yields a sentence for each bolt with events in no window at the end of the streams, with the reason."""
    for name, bolt in bolts.items():
        pending = bolt.accounts.get("pending", 0)
        if pending and name in topology.windowed:
            events = "1 event is" if pending == 1 else f"{number(pending)} events are"
            yield f" Of {name!r} {events} in no window, and pending: {window_in_words(topology.windowed[name])}."


def accounts_table(bolts: dict[str, BoltReport], title_end: str = "") -> Group:
    """Returns the accounts as a table whose sum can be checked: received = windowed + late + ... + pending.

    ``title_end``: the end of its title, if the table covers several runs.
    """
    table = _bolts_table(bolts)
    accounts = [bolt.accounts for bolt in bolts.values()]
    names = [name for name in accounts[0] if name not in ("received", *SHOWN_FINDINGS)] if accounts else []
    for index, name in enumerate(names):
        last = index == len(names) - 1
        style = "" if any(account.get(name) for account in accounts) else "dim"
        row = [f"{'+' if index else ' '} {name}", *(number(account.get(name, 0)) for account in accounts)]
        table.add_row(*row, style=style, end_section=last)
    table.add_row("= received", *(_checked_sum(account, names) for account in accounts), style="bold")
    for name in SHOWN_FINDINGS:
        if any(account.get(name) for account in accounts):
            table.add_row(f"({name})", *(number(account.get(name, 0)) for account in accounts))
    _add_output(table, [(bolt.fired, bolt.emitted) for bolt in bolts.values()])
    return _titled(f"where the events are{title_end}", table)


def rows_in_words(rows: int) -> str:
    """Returns a number of rows, in words."""
    return "1 row" if rows == 1 else f"{number(rows)} rows"


def rate(rows: int, seconds: float) -> str:
    """Returns rows per second."""
    return number(rows / seconds) if seconds > 0 else "0"


def _this_run_table(bolts: dict[str, BoltTotals]) -> Group:
    """Returns a table for this run only; an account that is zero for all bolts has no row."""
    table = _bolts_table(bolts)
    accounts = [bolt.accounts for bolt in bolts.values()]
    for name in dict.fromkeys(name for account in accounts for name in account):
        if name == "received" or any(account.get(name) for account in accounts):
            table.add_row(f"  {name}", *(number(account.get(name, 0)) for account in accounts))
    _add_output(table, [(bolt.fired, bolt.emitted) for bolt in bolts.values()])
    return _titled("this run", table)


def _add_output(table: Table, output: list[tuple[int, dict[str, int]]]) -> None:
    table.add_row("windows fired", *(number(fired) for fired, _ in output), style="green")
    for stream in dict.fromkeys(stream for _, rows in output for stream in rows):
        what = "rows emitted" if stream == DEFAULT_STREAM else f"rows to {stream}"
        table.add_row(what, *(number(rows.get(stream, 0)) for _, rows in output), style="green")


def _bolts_table(bolts: Iterable[str]) -> Table:
    """Returns a table with a column for each bolt."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("", min_width=_FIRST_COLUMN)
    for name in bolts:
        table.add_column(name, justify="right", header_style="bold", overflow="fold")
    return table


def _titled(title: str, table: Table) -> Group:
    """Returns a table under a title that may be wider than the table."""
    return Group(Text(title, "italic"), table)


def _checked_sum(account: dict[str, int], names: list[str]) -> Text:
    received, total = account.get("received", 0), sum(account.get(name, 0) for name in names)
    if received == total:
        return Text(number(received))
    return Text(f"{number(received)}, not {number(total)}", "bold red")


def _spouts_table(spouts: dict[str, dict[str, int]], title_end: str) -> Group:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("", style="bold", overflow="fold")
    titles = list(
        dict.fromkeys(
            what for counts in spouts.values() for what, count in counts.items() if count or what != "truncated"
        )
    )
    for what in titles:
        table.add_column(what.replace("_", " "), justify="right")
    for name, counts in spouts.items():
        table.add_row(name, *(number(counts.get(what, 0)) for what in titles))
    return _titled(f"what the spouts read{title_end}", table)


def _groups_by_width(bolts: dict[str, _T], width: int) -> Iterator[dict[str, _T]]:
    """Yields the bolts in groups whose columns fit into the width, at least one bolt in each."""
    group: dict[str, _T] = {}
    room = width - _FIRST_COLUMN
    for name, bolt in bolts.items():
        wide = max(len(name), _NARROWEST) + _GAP
        if group and wide > room:
            yield group
            group, room = {}, width - _FIRST_COLUMN
        group[name] = bolt
        room -= wide
    if group:
        yield group


# Progress of a run: a live display, a line per batch, or JSON.


HEARTBEAT = 30.0
"""Seconds without output after which a line says that the run is in progress."""
LINE = 80
"""Longest line without a terminal, except for longer names."""
_MAY_BE_ABSENT = ("behind", "late", "pending", "invalid")


class ProgressDisplay(Protocol):
    """Receives the progress of a run. ``report`` is called from the run's own thread."""

    def report(self, report: BatchReport) -> None:
        """Called after each batch."""

    def note(self, text: str, *, until_batch: bool = False) -> None:
        """Called with a remark about the run, for example that it is being stopped. ``until_batch``: True if the remark
        holds until the next batch is done."""

    def beat(self) -> None:
        """Called several times a second, from the thread that waits for the run."""

    def end(self, summary: Summary) -> None:
        """Called when the run has ended."""


@contextmanager
def progress_display(topology: Graph, *, as_json: bool) -> Iterator[ProgressDisplay]:
    """Yields the progress display that suits standard output."""
    if as_json:
        with only_json() as write:
            yield JsonProgress(write)
    elif sys.stdout.isatty():
        with _live_display(topology) as display:
            yield display
    else:
        yield LineProgress(topology, out())


@dataclass
class JsonProgress:
    """Prints a JSON object per batch, each on its own line, while there is a reader."""

    write: Callable[[Any], bool]
    complaints: Complaints = field(default_factory=Complaints, repr=False, compare=False)
    reader_gone: bool = False

    def report(self, report: BatchReport) -> None:
        """Called after each batch."""
        self.complaints.tell(report)
        if not self.write(report.to_json()) and not self.reader_gone:
            self.reader_gone = True
            warn_reader_gone()

    def note(self, text: str, *, until_batch: bool = False) -> None:
        """Called with a remark about the run."""
        warn(text)

    def beat(self) -> None:
        """Does nothing: there is no output between two batches."""

    def end(self, summary: Summary) -> None:
        """Called when the run has ended."""
        self.complaints.end()
        self.write(summary.to_json())


class LineProgress:
    """Prints a line of text per batch, with the time of day, and below it a line per bolt. If no batch comes for a
    while, prints a line that says so."""

    def __init__(
        self,
        topology: Graph,
        console: Console,
        clock: Clock = system_clock,
        monotonic: Callable[[], float] = time.perf_counter,
    ) -> None:
        """``clock``: returns the time of day in microseconds; ``monotonic``: returns seconds that never go back."""
        self.topology, self.console, self.speed = topology, console, _Speed()
        self.clock, self.monotonic = clock, monotonic
        self.started = self.last_report = self.last_output = monotonic()
        self.batch = ""
        self.complaints = Complaints()

    def report(self, report: BatchReport) -> None:
        """Called after each batch."""
        self.complaints.tell(report)
        self.speed.add(report)
        self.batch = _batch_title(report)
        self.last_report = self.monotonic()
        lines = [f"{_batch_title(report)}: {self.speed.text(report)}"]
        for name, bolt in report.bolts.items():
            lines += self._bolt(name, bolt)
        self._print("\n".join(lines))

    def note(self, text: str, *, until_batch: bool = False) -> None:
        """Called with a remark about the run."""
        warn(text)

    def beat(self) -> None:
        """Prints that the run is in progress, after a time without other output."""
        now = self.monotonic()
        if now - self.last_output >= HEARTBEAT:
            last = f"{self.batch} was {_seconds_in_words(now - self.last_report)} ago" if self.batch else "no batch yet"
            self._print(f"running for {_seconds_in_words(now - self.started)}; {last}")

    def end(self, summary: Summary) -> None:
        """Called when the run has ended; the summary is printed later."""
        self.complaints.end()

    def _print(self, line: str) -> None:
        self.last_output = self.monotonic()
        at = show(self.clock() // 1_000_000 * 1_000_000)
        self.console.print(Text(f"{at} {line}"), soft_wrap=True)

    def _bolt(self, name: str, bolt: BoltReport) -> list[str]:
        """Returns lines about a bolt: one, or several if one would be too long; zeros are left out."""
        cells = _cells(self.topology, name, bolt)
        time = " ".join(part for part in (cells.pop("watermark"), f"({cells.pop('behind')})") if part != "()")
        cells = {what: value for what, value in cells.items() if value != "0"} | time_words(bolt) | counters_of(bolt)
        return _join_to_lines([f"{name}: {time}", *(f"{what} {value}" for what, value in cells.items())])


class LiveProgress:
    """Shows a live display."""

    def __init__(self, topology: Graph, console: Console | None = None) -> None:
        """``console``: the console for warnings, if they share the terminal with the display."""
        self.topology, self.speed, self.started = topology, _Speed(), time.perf_counter()
        self.console = console
        self.last_report: BatchReport | None = None
        self.remark, self.remark_until_batch = "", False
        self.ended = False
        self.complaints = Complaints()
        self.in_words = False
        """True if a table was once too wide: from then on sentences are shown, so that the display does not switch
        back."""

    def report(self, report: BatchReport) -> None:
        """Called after each batch."""
        self.complaints.tell(report, self.console)
        self.speed.add(report)
        self.last_report = report
        if self.remark_until_batch:
            self.remark = ""

    def note(self, text: str, *, until_batch: bool = False) -> None:
        """Called with a remark about the run."""
        self.remark, self.remark_until_batch = text, until_batch

    def beat(self) -> None:
        """Does nothing: the display shows how long the run takes."""

    def end(self, summary: Summary) -> None:
        """Called when the run has ended; the summary that follows has all results."""
        self.complaints.end(self.console)
        self.remark, self.ended = "", True

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Called by rich each time the display is refreshed."""
        if self.ended and self.last_report is None:
            return  # otherwise the run would seem to be starting for ever
        yield self._headline()
        if self.last_report is not None:
            table = self._table_of_bolts(self.last_report)
            wide = Measurement.get(console, options.update(width=1000), table).maximum > options.max_width
            self.in_words = wide or (self.in_words and not self.ended)
            yield self._bolts_in_words(self.last_report) if self.in_words else table
            yield from [] if self.ended else self._tables(self.last_report)
        yield from self._remark()

    def _headline(self) -> Text:
        name = Text(self.topology.name, "bold")
        running = f"  {short_duration(int(time.perf_counter() - self.started) * 1_000_000)}"
        if self.last_report is None:
            return name.append(f"  starting{running}", "not bold dim")
        text = f"  {_batch_title(self.last_report)}: {self.speed.text(self.last_report)}"
        return name.append(text, "not bold").append(running, "not bold dim")

    def _tables(self, report: BatchReport) -> list[RenderableType]:
        times, start = time_table(report.bolts), start_words(report)
        return [
            *([] if times is None else [times]),
            *map(Text, [*counter_words(report.bolts), *start]),
        ]

    def _table_of_bolts(self, report: BatchReport) -> Table:
        """Returns a table with a row for each bolt. A column that is zero for all bolts is left out, so that the others
        fit into 80 characters."""
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
        """Returns two lines for each bolt, if a table would be too wide."""
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
def _live_display(topology: Graph) -> Iterator[LiveProgress]:
    # Output on standard error appears above the display only if both are the same terminal.
    console, shared = out(), sys.stderr.isatty()
    display = LiveProgress(topology, console if shared else None)
    with Live(display, console=console, refresh_per_second=4, redirect_stderr=shared):
        yield display


class _Speed:
    """Rows per second, of a batch and since the first batch began."""

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


def _join_to_lines(parts: Sequence[str]) -> list[str]:
    """Joins the parts to lines of up to 80 characters, which end only between parts."""
    lines = [f"  {parts[0]}"]
    for part in parts[1:]:
        if len(lines[-1]) + len(part) + 3 <= LINE:
            lines[-1] += f", {part}"
        else:
            lines[-1] += ","
            lines.append(f"    {part}")
    return lines


def _seconds_in_words(seconds: float) -> str:
    return short_duration(int(seconds) * 1_000_000)


def _batch_title(report: BatchReport) -> str:
    if not report.closing:
        return f"batch {report.batch}"
    return "closing" if report.batch < 0 else f"after batch {report.batch}, closing"


def _cells(topology: Graph, name: str, bolt: BoltReport) -> dict[str, str]:
    """Returns the displayed values of a bolt, by title."""
    node = topology.windowed.get(name)
    watermark, behind = "by the clock", ""
    if node is None or node.event_time:
        watermark = "none yet" if bolt.watermark is None else show(bolt.watermark)
        behind = "" if bolt.behind is None or bolt.watermark == FOREVER else f"{short_duration(bolt.behind)} behind"
    return {
        "watermark": watermark,
        "behind": behind,
        "windows": f"{number(bolt.fired)} (+{number(bolt.windows)})",  # all so far, and those of this batch
        "open": "–" if bolt.open is None else number(bolt.open),
        "late": number(bolt.accounts.get("late", 0)),
        "pending": number(bolt.accounts.get("pending", 0)),
        "invalid": number(bolt.accounts.get("invalid", 0)),
    }


# The report of ``windbolt check`` about a topology.


_EXAMPLE = "such as"
"""Word that introduces data, of which only the first line is shown."""


def print_report(console: Console, topology: Graph, *, strict: bool) -> bool:
    """Checks the surroundings of a topology, and prints the findings; returns True if there are no problems.

    ``strict``: warnings count as problems.
    """
    topology = with_short_registry_timeouts(topology)
    found = {**inspect_spouts(topology), **inspect_sinks(topology)}
    registries, of_bolts = (
        inspect_registries(topology),
        (blocked_watermark_warnings(topology), reordering_warnings(topology), missing_column_warnings(topology)),
    )
    console.print(Text(f"topology {topology.name}", "bold"))
    for part in describe_parts(topology):
        if part.name not in topology.sinks:
            console.print()
            _print_part(console, part, found.get(part.name, Findings()), registries.get(part.name, Findings()))
    _print_sinks(console, topology, (found, registries))
    console.print()
    for note in (*shifted_chains(topology), *unread_streams(topology)):
        say(console, Text.assemble(("note: ", "bold"), note), always=True)
    everything = [each for part in (found, registries, *of_bolts) for each in part.values()]
    problems = [error for each in everything for error in each.problems]
    warnings = [error for each in everything for error in each.warnings]
    for error in problems:
        say(console, in_words(error, "problem"))
    for error in warnings:
        say(console, in_words(error, "warning", "bold yellow"))
    console.print(_verdict(len(problems), len(warnings)))
    return not problems and not (strict and warnings)


def _print_part(console: Console, part: DescribedPart, *found: Findings) -> None:
    console.print(Text(part.title, "bold"))
    last = ""
    for word, fact in (*part.facts, *(fact for each in found for fact in each.facts)):
        line = Text(f"  {'' if word == last else word:<8} {printable(fact)}")
        if word == _EXAMPLE:
            line.truncate(console.width, overflow="ellipsis")
        say(console, line, whole_types=True, always=True)
        last = word


def _print_sinks(console: Console, topology: Graph, found: Sequence[Mapping[str, Findings]]) -> None:
    """Prints a line or two for each sink; ``windbolt describe`` has their columns."""
    if not topology.sinks:
        return
    console.print()
    console.print(Text("sinks", "bold"))
    for name, node in topology.sinks.items():
        streams = ", ".join(map(stream_label, node.streams))
        facts = [
            f"; the {word} {fact}"
            for part in found
            for word, fact in part.get(name, Findings()).facts
            if "not there" in fact
        ]
        text = "".join([f"{name}: {streams}, to {sink_in_words(node.sink)}", *facts])
        line = Text(f"  {printable(text)}")
        say(console, line, always=True)


def _verdict(problems: int, warnings: int) -> Text:
    if not problems and not warnings:
        return Text("Nothing is wrong.", "bold green")
    counts = {"problem": problems, "warning": warnings}
    words = ", ".join(f"{count} {what}{'' if count == 1 else 's'}" for what, count in counts.items() if count)
    return Text(words, "bold red" if problems else "bold yellow")
