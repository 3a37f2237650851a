"""Counts of the time rules per bolt and input stream, as a table and as text (AZ-23, AZ-24)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rich import box
from rich.table import Table
from rich.text import Text

from topologies.engine.batch.report import BatchReport, BoltReport
from topologies.run.readable import number, spoken
from windowing.time.timestamps import show

FOUND = {
    "early_input": "early",
    "late_input": "late arrival",
    "out_of_order": "out of order",
    "adjusted": "adjusted",
    "truncated": "truncated",
    "dropped": "dropped",
}
"""The counters and their titles."""
FRESH = 86_400_000_000
"""Microseconds, a day: of input that is older the watermark delay is not shown."""


def time_table(bolts: Mapping[str, BoltReport]) -> Table | None:
    """A row for each bolt with a watermark, and one for each of its input streams if it has several.

    None where there is nothing to show. A counter that is zero everywhere has no column.
    """
    rows = [row for name, bolt in bolts.items() for row in _rows(name, bolt)]
    if not rows:
        return None
    heading = "what the rules of time found"
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=heading, title_justify="left", min_width=len(heading))
    table.add_column("", style="bold")
    is_fresh = any(delay for _, delay, _ in rows)
    if is_fresh:
        table.add_column("watermark delay", justify="right")
    shown = [name for name in FOUND if any(counts.get(name) for _, _, counts in rows)]
    for name in shown:
        table.add_column(FOUND[name], justify="right")
    for title, delay, counts in rows:
        table.add_row(title, *([delay] if is_fresh else []), *(number(counts.get(name, 0)) for name in shown))
    return table


def time_words(bolt: BoltReport) -> dict[str, str]:
    """The counts of one bolt, without zeros: title and value."""
    words = {"watermark delay": delay} if (delay := _delay(bolt)) else {}
    counted = _found(bolt)
    counts = {**{title: counted.get(name, 0) for name, title in FOUND.items()}, "skipped": bolt.skipped}
    return words | {what: number(count) for what, count in counts.items() if count}


def counter_words(bolts: Mapping[str, BoltReport]) -> list[str]:
    """Counters of bolts and of their triggers' rules: a line for each bolt that has some."""
    return [
        f"{name}: {', '.join(f'{what} {count}' for what, count in words.items())}"
        for name, bolt in bolts.items()
        if (words := counters_of(bolt))
    ]


def counters_of(bolt: BoltReport) -> dict[str, str]:
    """The counters of one bolt: title and value."""
    return {what.replace("_", " "): number(count) for what, count in bolt.counters.items()}


def start_words(report: BatchReport) -> list[str]:
    """Where a run started, and what it skipped for that, as text; empty where it started with its input."""
    if report.first_output is None:
        return []
    start = "all input was read" if report.read_from is None else f"input was read from {show(report.read_from)} on"
    bolts = [
        f"{name}: {_counted(bolt.skipped, 'older event')} skipped,"
        f" {_counted(bolt.suppressed, 'window')} that ended too soon not emitted"
        for name, bolt in report.bolts.items()
    ]
    return [f"First output at {show(report.first_output)}; {start}.", *bolts]


def _rows(name: str, bolt: BoltReport) -> Iterator[tuple[str | Text, str, Mapping[str, int]]]:
    counted = _found(bolt)
    if not _delay(bolt) and not any(counted.values()):
        return
    yield Text(name), _delay(bolt), counted
    if len(bolt.streams) > 1:
        for stream, counts in bolt.streams.items():
            yield Text(f"  from {stream}", "not bold"), "", counts


def _found(bolt: BoltReport) -> dict[str, int]:
    return {**bolt.metrics, "dropped": bolt.accounts.get("dropped", 0)}


def _counted(count: int, what: str) -> str:
    return f"{number(count)} {what}" + ("" if count == 1 else "s")


def _delay(bolt: BoltReport) -> str:
    """The watermark delay; empty where there is none, or the input is old: then it says nothing but how old."""
    micros = bolt.delay
    if micros is None or micros > FRESH:
        return ""
    return spoken(micros) if micros >= 0 else f"{spoken(-micros)} ahead"
