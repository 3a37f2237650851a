"""The end of a run: what it did, where the events are, and where the state is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

from rich import box
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from manager.accounts import SHOWN
from topologies.cli.terminal.consoles import say
from topologies.cli.terminal.time_table import counter_words, start_words, time_table
from topologies.engine.batch.report import BoltReport
from topologies.graph.describing import window_in_words
from topologies.run.bolt_totals import BoltTotals
from topologies.run.readable import number
from topologies.run.summary import Summary
from topologies.topology import Topology
from windowing.data.returned_rows import DEFAULT_STREAM

_T = TypeVar("_T")
_CLOSED = " The open windows have been closed"
_FIRST_COLUMN, _GAP, _NARROWEST = 16, 3, 9
"""Widths of a table of accounts, in characters: of its first column, between two, and of a number."""


def print_summary(console: Console, topology: Topology, summary: Summary, checkpoint: str | None) -> None:
    """Print the end of a run: what it did, the accounts of each bolt and spout, and where its state is.

    Where there were runs before on the checkpoint, this one and all of them are told apart.
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
    of_all = ", of all runs on this checkpoint" if summary.before else ""
    if summary.last is not None:
        if summary.before:
            for runs in _groups(summary.this_run(), console.width):
                console.print(_this_run_table(runs))
        for bolts in _groups(summary.last.bolts, console.width):
            console.print(accounts_table(bolts, of_all))
        times = time_table(summary.last.bolts)
        if times is not None:
            console.print(times)
        if summary.last.spouts:
            console.print(_spouts_table(summary.last.spouts, of_all))
        for text in (*counter_words(summary.last.bolts), *start_words(summary.last)):
            say(console, Text(text))
    if checkpoint is not None:
        say(console, Text(_state_words(topology, summary, checkpoint)))
    for advice in summary.advice:
        say(console, Text(advice.text, "cyan"))


def _state_words(topology: Topology, summary: Summary, checkpoint: str) -> str:
    """Where the state is, and what the next run finds there."""
    text = f"The state is in {checkpoint}: a run with this checkpoint continues from here."
    last = summary.last
    if last is not None and last.closing and any(bolt.accounts.get("received") for bolt in last.bolts.values()):
        by_event_time = any(node.event_time for node in topology.windowed.values())
        left = "".join(_still_pending(topology, last.bolts))
        text += (" The streams have ended, and what was due has fired" if left else _CLOSED) + (
            ": what is earlier than their ends will be late (--keep-open leaves them open)."
            if by_event_time
            else " (--keep-open leaves them open)."
        )
        text += left
    return text


def _still_pending(topology: Topology, bolts: dict[str, BoltReport]) -> Iterator[str]:
    """What the end of the streams has left in no window, and why."""
    for name, bolt in bolts.items():
        pending = bolt.accounts.get("pending", 0)
        if pending and name in topology.windowed:
            events = "1 event is" if pending == 1 else f"{number(pending)} events are"
            yield f" Of {name!r} {events} in no window, and pending: {window_in_words(topology.windowed[name])}."


def accounts_table(bolts: dict[str, BoltReport], of_all: str = "") -> Group:
    """The accounts as a table that can be checked: received = windowed + late + ... + pending.

    ``of_all``: the end of its title, where it is not about one run alone.
    """
    table = _table(bolts)
    accounts = [bolt.accounts for bolt in bolts.values()]
    names = [name for name in accounts[0] if name not in ("received", *SHOWN)] if accounts else []
    for index, name in enumerate(names):
        last = index == len(names) - 1
        style = "" if any(account.get(name) for account in accounts) else "dim"
        row = [f"{'+' if index else ' '} {name}", *(number(account.get(name, 0)) for account in accounts)]
        table.add_row(*row, style=style, end_section=last)
    table.add_row("= received", *(_sum(account, names) for account in accounts), style="bold")
    for name in SHOWN:
        if any(account.get(name) for account in accounts):
            table.add_row(f"({name})", *(number(account.get(name, 0)) for account in accounts))
    _add_output(table, [(bolt.fired, bolt.emitted) for bolt in bolts.values()])
    return _titled(f"where the events are{of_all}", table)


def rows_in_words(rows: int) -> str:
    """A number of rows, in words."""
    return "1 row" if rows == 1 else f"{number(rows)} rows"


def rate(rows: int, seconds: float) -> str:
    """Rows per second."""
    return number(rows / seconds) if seconds > 0 else "0"


def _this_run_table(bolts: dict[str, BoltTotals]) -> Group:
    """What this run alone did; an account that is zero everywhere has no row."""
    table = _table(bolts)
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


def _table(bolts: Iterable[str]) -> Table:
    """A table with a column for each bolt."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("", min_width=_FIRST_COLUMN)
    for name in bolts:
        table.add_column(name, justify="right", header_style="bold", overflow="fold")
    return table


def _titled(title: str, table: Table) -> Group:
    """A table under a title that may be longer than it is wide."""
    return Group(Text(title, "italic"), table)


def _sum(account: dict[str, int], names: list[str]) -> Text:
    received, total = account.get("received", 0), sum(account.get(name, 0) for name in names)
    if received == total:
        return Text(number(received))
    return Text(f"{number(received)}, not {number(total)}", "bold red")


def _spouts_table(spouts: dict[str, dict[str, int]], of_all: str) -> Group:
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
    return _titled(f"what the spouts read{of_all}", table)


def _groups(bolts: dict[str, _T], width: int) -> Iterator[dict[str, _T]]:
    """The bolts in groups whose columns fit into the width, at least one in each."""
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
