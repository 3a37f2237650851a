"""Progress of a run: a live display, a line per batch, or JSON."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from topologies.cli.consoles import only_json, out, warn
from topologies.cli.spans import number, spoken
from topologies.cli.time_table import counter_words, counters_of, start_words, time_table, time_words
from topologies.engine.batch.report import BatchReport, BoltReport
from topologies.graph.model import Topology
from topologies.run.options import Summary
from windowing.data.rows import DEFAULT_STREAM
from windowing.time.timestamps import FOREVER, show


class ProgressDisplay(Protocol):
    """Receives the progress of a run. ``report`` is called from the run's own thread."""

    def report(self, report: BatchReport) -> None:
        """Called after each batch."""

    def note(self, text: str) -> None:
        """Called with a remark about the run, for example that it is being stopped."""

    def end(self, summary: Summary) -> None:
        """Called when the run has ended."""


@contextmanager
def shown_progress(topology: Topology, *, as_json: bool, stop: Callable[[], None]) -> Iterator[ProgressDisplay]:
    """The progress display that suits standard output; ``stop`` is called when nobody reads it any more."""
    if as_json:
        with only_json() as write:
            yield JsonProgress(write, stop)
    elif sys.stdout.isatty():
        with _live(topology) as display:
            yield display
    else:
        yield LineProgress(topology, out())


@dataclass
class JsonProgress:
    """Prints a JSON object per batch, each on its own line."""

    write: Callable[[Any], bool]
    stop: Callable[[], None]

    def report(self, report: BatchReport) -> None:
        """Called after each batch."""
        _complain(report)
        if not self.write(report.to_json()):
            self.stop()

    def note(self, text: str) -> None:
        """Called with a remark about the run."""
        warn(text)

    def end(self, summary: Summary) -> None:
        """Called when the run has ended."""
        self.write(summary.to_json())


class LineProgress:
    """Prints a line of text per batch."""

    def __init__(self, topology: Topology, console: Console) -> None:
        self.topology, self.console, self.speed = topology, console, _Speed()

    def report(self, report: BatchReport) -> None:
        """Called after each batch."""
        _complain(report)
        self.speed.add(report)
        parts = [f"{_batch(report)}: {self.speed.text(report)}"]
        parts += [self._bolt(name, bolt) for name, bolt in report.bolts.items()]
        self.console.print(Text(" | ".join(parts)), soft_wrap=True)

    def note(self, text: str) -> None:
        """Called with a remark about the run."""
        warn(text)

    def end(self, summary: Summary) -> None:
        """Called when the run has ended; the summary is printed later."""

    def _bolt(self, name: str, bolt: BoltReport) -> str:
        cells = _cells(self.topology, name, bolt)
        time = " ".join(part for part in (cells.pop("watermark"), f"({cells.pop('behind')})") if part != "()")
        cells |= time_words(bolt) | counters_of(bolt)
        return ", ".join([f"{name}: {time}", *(f"{what} {value}" for what, value in cells.items())])


class LiveProgress:
    """Shows a live display."""

    def __init__(self, topology: Topology, console: Console | None = None) -> None:
        """``console`` is that of warnings, if they share the terminal with the display."""
        self.topology, self.speed, self.started = topology, _Speed(), time.perf_counter()
        self.console = console
        self.last: BatchReport | None = None
        self.remark = ""

    def report(self, report: BatchReport) -> None:
        """Called after each batch."""
        _complain(report, self.console)
        self.speed.add(report)
        self.last = report

    def note(self, text: str) -> None:
        """Called with a remark about the run."""
        self.remark = text

    def end(self, summary: Summary) -> None:
        """Called when the run has ended."""
        self.remark = ""

    def __rich__(self) -> RenderableType:
        """Called by rich each time the display is refreshed."""
        return Group(self._headline(), *([] if self.last is None else self._tables(self.last)), *self._remark())

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
            self._bolts(report),
            *([] if times is None else [times]),
            *map(Text, [*counter_words(report.bolts), *start]),
        ]

    def _bolts(self, report: BatchReport) -> Table:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column("bolt", style="bold")
        for index, (name, bolt) in enumerate(report.bolts.items()):
            cells = _cells(self.topology, name, bolt)
            if index == 0:
                for what in cells:
                    table.add_column(what, justify="left" if what in ("watermark", "behind") else "right")
            table.add_row(name, *cells.values())
        return table

    def _remark(self) -> list[Text]:
        return [Text(self.remark, "bold yellow")] if self.remark else []


def print_summary(console: Console, topology: Topology, summary: Summary, checkpoint: str | None) -> None:
    """Print the end of a run: what it did, the accounts of each bolt and spout, and where its state is."""
    batches = "1 batch" if summary.batches == 1 else f"{number(summary.batches)} batches"
    speed = f"{summary.seconds:.2f} s, {_rate(summary.rows, summary.seconds)} rows/s"
    text = f": {number(summary.rows)} rows in {batches}, {speed}"
    console.print(Text.assemble((topology.name, "bold"), text))
    if summary.stopped:
        console.print(Text("Stopped cleanly, before the end of the input.", "yellow"))
    if summary.last is not None:
        for bolts in _groups(list(summary.last.bolts.items())):
            console.print(accounts_table(dict(bolts)))
        times = time_table(summary.last.bolts)
        if times is not None:
            console.print(times)
        if summary.last.spouts:
            console.print(_spouts_table(summary.last.spouts))
        for text in (*counter_words(summary.last.bolts), *start_words(summary.last)):
            console.print(Text(text), soft_wrap=True)
    if checkpoint is not None:
        text = f"The state is in {checkpoint}: a run with this checkpoint continues from here."
        if summary.last is not None and summary.last.closing:
            by_event_time = any(node.event_time for node in topology.windowed.values())
            text += " The open windows have been closed" + (
                ": what is earlier than their ends will be late (--keep-open leaves them open)."
                if by_event_time
                else " (--keep-open leaves them open)."
            )
        console.print(Text(text), soft_wrap=True)


def accounts_table(bolts: dict[str, BoltReport]) -> Table:
    """The accounts as a table that can be checked: received = windowed + late + ... + pending."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title="where the events are", title_justify="left")
    table.add_column("")
    for name in bolts:
        table.add_column(name, justify="right", header_style="bold")
    accounts = [bolt.accounts for bolt in bolts.values()]
    names = [name for name in accounts[0] if name not in ("received", "adjusted")] if accounts else []
    for index, name in enumerate(names):
        last = index == len(names) - 1
        style = "" if any(account.get(name) for account in accounts) else "dim"
        row = [f"{'+' if index else ' '} {name}", *(number(account.get(name, 0)) for account in accounts)]
        table.add_row(*row, style=style, end_section=last)
    table.add_row("= received", *(_sum(account, names) for account in accounts), style="bold")
    if any(account.get("adjusted") for account in accounts):
        table.add_row("(adjusted)", *(number(account.get("adjusted", 0)) for account in accounts))
    table.add_row("windows fired", *(number(bolt.fired) for bolt in bolts.values()), style="green")
    for stream in dict.fromkeys(stream for bolt in bolts.values() for stream in bolt.rows):
        what = "rows emitted" if stream == DEFAULT_STREAM else f"rows to {stream}"
        table.add_row(what, *(number(bolt.rows.get(stream, 0)) for bolt in bolts.values()), style="green")
    return table


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
        here = _rate(report.rows, report.seconds.get("total", 0.0))
        overall = _rate(self.rows, time.perf_counter() - self.began)
        return f"{number(report.rows)} rows, {here} rows/s (overall {overall})"


def _rate(rows: int, seconds: float) -> str:
    return number(rows / seconds) if seconds > 0 else "0"


def _complain(report: BatchReport, console: Console | None = None) -> None:
    for complaint in report.complaints:
        warn(complaint, console)


def _batch(report: BatchReport) -> str:
    return f"after batch {report.batch}, closing" if report.closing else f"batch {report.batch}"


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
        "windows": f"{number(bolt.windows)}/{number(bolt.fired)}",
        "open": number(bolt.open),
        "late": number(bolt.accounts.get("late", 0)),
        "pending": number(bolt.accounts.get("pending", 0)),
        "invalid": number(bolt.accounts.get("invalid", 0)),
    }


def _sum(account: dict[str, int], names: list[str]) -> Text:
    received, total = account.get("received", 0), sum(account.get(name, 0) for name in names)
    if received == total:
        return Text(number(received))
    return Text(f"{number(received)}, not {number(total)}", "bold red")


def _spouts_table(spouts: dict[str, dict[str, int]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title="what the spouts read", title_justify="left")
    table.add_column("", style="bold")
    titles = list(dict.fromkeys(what for counts in spouts.values() for what in counts))
    for what in titles:
        table.add_column(what.replace("_", " "), justify="right")
    for name, counts in spouts.items():
        table.add_row(name, *(number(counts.get(what, 0)) for what in titles))
    return table


def _groups(bolts: list[tuple[str, BoltReport]], size: int = 6) -> list[list[tuple[str, BoltReport]]]:
    return [bolts[start : start + size] for start in range(0, len(bolts), size)]
