"""The summary of a run that has ended, and its advice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from topologies.engine.ledger import TRACEPARENT
from topologies.engine.report import BatchReport, bolts_html
from topologies.engine.task_data import INPUT, BoltWork, merge_work
from topologies.graph.declarations import enough_columns
from topologies.graph.graph import Graph, WindowedNode
from topologies.graph.html import framed, heading, paragraph
from windowing.bolts.read_code import is_users_class, names_in_code
from windowing.calls import checked
from windowing.settings.panes import RETRACT

if TYPE_CHECKING:
    import pandas as pd


# Numbers and durations in readable form.


_UNITS = ((86_400_000_000, "d"), (3_600_000_000, "h"), (60_000_000, "m"), (1_000_000, "s"))


def short_duration(micros: int) -> str:
    """Returns a duration in its two largest units: ``1h 5m``, ``12.5s``, ``20ms``."""
    if micros < 1000:
        return f"{micros}us" if micros else "0s"
    if micros < 1_000_000:
        return f"{micros / 1000:.4g}ms"
    if micros < 60_000_000:
        return f"{micros / 1e6:.4g}s"
    index = next(index for index, (size, _) in enumerate(_UNITS) if micros >= size)
    (size, unit), (smaller, small) = _UNITS[index : index + 2]
    rest = micros % size // smaller
    return f"{micros // size}{unit}" + (f" {rest}{small}" if rest else "")


def number(value: float) -> str:
    """Returns a whole number with commas between thousands."""
    return f"{value:,.0f}"


def byte_size(value: int) -> str:
    """Returns a number of bytes in its largest unit: ``1.2 GiB``, ``300 KiB``."""
    for power, unit in ((40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")):
        if value >= 1 << power:
            return f"{value / (1 << power):.3g} {unit}"
    return f"{value} B"


# Totals of a windowed bolt over all runs on a checkpoint.


@dataclass(frozen=True)
class BoltTotals:
    """Totals of a windowed bolt, over all runs on a checkpoint."""

    accounts: dict[str, int]
    """The number of received events in each account, except ``pending``."""
    fired: int
    """Number of windows fired."""
    emitted: dict[str, int]
    """Number of rows emitted, by stream."""


# Advice from a finished run: where its tasks spent their time, and declarations that would save time.
#
# Advice uses numbers measured in the run. A short or small run gives none.


About = Literal["time", "columns", "memory"]


@dataclass(frozen=True)
class AdviceLimits:
    """Limits above which advice is given."""

    seconds: float = 10.0
    """Seconds of work of all tasks together."""
    spared: int = 64 * 2**20
    """Bytes in columns that a bolt has not used."""
    share: float = 0.5
    """Fraction of these columns in the bytes that were kept for the bolt."""


LIMITS = AdviceLimits()


@dataclass(frozen=True)
class Advice:
    """Advice about a bolt."""

    about: About
    """Subject. ``time``: the bolt took most of the time of tasks. ``columns``: the bolt received columns that it did
    not use. ``memory``: one of its windows took much of the machine's memory."""
    bolt: str
    text: str
    """The advice in a sentence or two, with the measured values."""
    write: str | None = None
    """Python text to write; None if no declaration would help."""

    def __str__(self) -> str:
        return self.text

    def to_json(self) -> dict[str, Any]:
        """Returns plain JSON values."""
        return {"about": self.about, "bolt": self.bolt, "text": self.text, "write": self.write}


def advice_on(
    topology: Graph, work: Mapping[str, BoltWork], limits: AdviceLimits | None = None, *, kept: bool = False
) -> list[Advice]:
    """Returns the advice after a run with these costs. ``kept``: True if the run had a checkpoint, which the next run
    continues."""
    limits, spent = limits or LIMITS, sum(each.seconds for each in work.values())
    if spent < limits.seconds:
        return []
    found = [*_time_advice(topology, work, spent)]
    for name, node in topology.windowed.items():
        if name in work:
            found += _column_advice(topology, node, work, limits, kept=kept)
            found += _memory_advice(node, work[name])
    return found


def _time_advice(topology: Graph, work: Mapping[str, BoltWork], spent: float) -> Iterator[Advice]:
    """Yields advice on the bolt that took most time, and on the time that the input took."""
    bolts = {name: each.seconds for name, each in work.items() if name != INPUT}
    if not bolts:
        return
    name = max(bolts, key=lambda bolt: bolts[bolt])
    node, reading = topology.windowed.get(name), work.get(INPUT, BoltWork()).seconds
    alone = ", in its one task" if node is not None and node.parallelism == 1 else ""
    yield Advice(
        "time",
        name,
        f"bolt {name!r} took the most time of the bolts: {_percent(bolts[name], spent)} of what tasks worked "
        f"({number(bolts[name])} of {number(spent)} s){alone}. Reading and routing the input took "
        f"{_percent(reading, spent)}.",
    )


def _column_advice(
    topology: Graph, node: WindowedNode, work: Mapping[str, BoltWork], limits: AdviceLimits, *, kept: bool
) -> Iterator[Advice]:
    """Yields advice on columns to declare, for a user's bolt that has many columns and uses few by name."""
    names, sizes = node.schema.names, work[node.name].column_bytes
    columns_in_use = _columns_in_use(topology, node, work)
    needed = None if columns_in_use is None else enough_columns(topology, node, columns_in_use)
    if columns_in_use is None or needed is None or len(sizes) != len(names):
        return
    unused = [(name, size) for name, size in zip(names, sizes, strict=True) if name not in needed]
    spared, total = sum(size for _, size in unused), sum(sizes)
    if spared < limits.spared or spared < limits.share * total:
        return
    columns = [name for name in names if name in columns_in_use]
    write = f"reads = {_as_reads(columns)}"
    used = (
        f"{len(columns)} of their {len(names)} columns ({', '.join(columns)})" if columns else "none of their columns"
    )
    others = "1 other column was" if len(unused) == 1 else f"{len(unused)} other columns were"
    start_over = (
        " A checkpoint knows its events with all columns: let the bolt start over there (windbolt reset), or begin a "
        "new one."
        if kept
        else ""
    )
    yield Advice(
        "columns",
        node.name,
        f"bolt {node.name!r} asked its windows for {used}. If it never needs others, write in the class "
        f"{type(node.bolt).__name__}: {write}. The {others} {byte_size(spared)} of the {byte_size(total)} of its "
        f"events in this run, and {'is' if len(unused) == 1 else 'are'} then not kept for it.{start_over}",
        write,
    )


def _columns_in_use(topology: Graph, node: WindowedNode, work: Mapping[str, BoltWork]) -> set[str] | None:
    """Returns the columns that a user's bolt has read or that its code names, together with those of other bolts of its
    class, which would get the same declaration. Returns None if one of these has read all columns, or no window, or
    needs all columns."""
    kind, found = type(node.bolt), set[str]()
    if not is_users_class(kind):
        return None
    nodes_of_class = [each for each in topology.windowed.values() if isinstance(each.bolt, kind)]
    for each in nodes_of_class:
        node_work = work.get(each.name, BoltWork())
        named = names_in_code(each.bolt)
        if node_work.columns is None or not node_work.called or named is None:
            return None
        # Code that the run has not reached may use more; retractions and traces have columns too.
        found |= (node_work.columns | named | {RETRACT, TRACEPARENT}) & {*each.schema.names}
    can_be_declared = all(name == name.strip() and name for name in found)  # other names cannot be declared
    return found if can_be_declared and all(found <= {*each.schema.names} for each in nodes_of_class) else None


def _memory_advice(node: WindowedNode, work: BoltWork) -> Iterator[Advice]:
    """Yields a limit for a bolt whose windows take much of the available memory."""
    if not work.large_window or node.bolt.settings.window_bytes is not None:
        return
    size, memory = work.large_window
    limit = 1 << max(memory // 2, 1).bit_length() - 1
    if size > limit:
        return
    write = f".with_limits(window_bytes={limit})"
    yield Advice(
        "memory",
        node.name,
        f"bolt {node.name!r} had a window of {byte_size(size)}, of the {byte_size(memory)} of memory there were. A run "
        f"that needs more is killed without a word; with {write} ({byte_size(limit)}) it ends before that, and names "
        "the window. A key or a shorter window makes windows smaller.",
        write,
    )


def _as_reads(columns: list[str]) -> str:
    """Returns the names of columns in the form of ``reads``."""
    if any("," in name or name == "*" for name in columns) or not columns:
        return repr(tuple(columns))
    return '"' + ", ".join(columns).replace("\\", "\\\\").replace('"', '\\"') + '"'


def _percent(seconds: float, spent: float) -> str:
    return f"{100 * seconds / spent:.0f} %"


# The summary of a finished run.


_MOST_COMPLAINTS = 10
"""Most messages about unreadable input that a summary keeps."""


@dataclass
class Summary:
    """The summary of a finished run, returned by ``run_local`` and ``run_on_spark``."""

    batches: int = 0
    """Number of micro-batches of this run."""
    rows: int = 0
    """Number of rows that this run read from spouts, without unreadable rows."""
    seconds: float = 0.0
    """Wall time in seconds."""
    last: BatchReport | None = None
    """Report of the last batch; its accounts are the totals."""
    complaints: list[str] = field(default_factory=list)
    """The first few messages about unreadable input."""
    stopped: bool = False
    """True if the run was asked to stop: it ended after the current batch, and its windows stayed open."""
    before: dict[str, BoltTotals] = field(default_factory=dict)
    """Totals of the bolts in earlier runs on the checkpoint; empty for the first run."""
    rescaled: dict[str, tuple[int, int]] = field(default_factory=dict)
    """For each bolt whose state was moved to other tasks (``allow_rescale``), its old and new number of tasks."""

    new_columns: dict[str, list[str]] = field(default_factory=dict)
    """For each bolt, the columns that its spouts have now, but did not have in the previous run; earlier events have
    nulls or a default in them."""
    new_column_defaults: dict[str, dict[str, str]] = field(default_factory=dict)
    """For each bolt and new column with a default, a description of the value that earlier events have."""

    changed_files: int = 0
    """Number of files that were changed after they were read, and were not read again."""
    restarts: int = 0
    """Number of restarts after a failure (``RunOptions.restart``)."""
    work: dict[str, BoltWork] = field(default_factory=dict)
    """The cost of this run, for each bolt and for reading input (``""``)."""
    advice: list[Advice] = field(default_factory=list)
    """Advice from the finished run: the bolt that took the most time, and useful declarations. Empty for a short or
    small run."""

    def __repr__(self) -> str:
        end = ", stopped" if self.stopped else ""
        complaints = f", {len(self.complaints)} complaints" if self.complaints else ""
        return f"<Summary: {self.rows} rows in {self.batches} batches, {self.seconds:.3g} s{end}{complaints}>"

    def _repr_html_(self) -> str:
        facts = f"{self.rows:,} rows · {self.batches:,} batches · {self.seconds:.2f} s"
        parts = [heading("summary"), paragraph(facts + (" · stopped" if self.stopped else ""), "dim")]
        if self.last is not None:
            parts.append(bolts_html(self.last.bolts))
        parts += [paragraph(complaint, "bad") for complaint in self.complaints]
        return framed(*parts, *(paragraph(advice.text, "dim") for advice in self.advice))

    @checked
    def to_pandas(self) -> pd.DataFrame:
        """Returns a row for each windowed bolt, by name, about this run: the ``windows`` it fired, the rows it
        ``emitted``, and its accounts except ``pending``."""
        import pandas as pd

        rows = {
            name: {"windows": bolt.fired, "emitted": sum(bolt.emitted.values()), **bolt.accounts}
            for name, bolt in self.this_run().items()
        }
        return pd.DataFrame.from_dict(rows, orient="index").rename_axis("bolt")

    @checked
    def this_run(self) -> dict[str, BoltTotals]:
        """Returns the totals of the windowed bolts in this run only."""
        bolts = {} if self.last is None else self.last.bolts
        return {
            name: BoltTotals(
                _minus(
                    {account: count for account, count in bolt.accounts.items() if account != "pending"},
                    before.accounts,
                ),
                bolt.fired - before.fired,
                _minus(bolt.emitted, before.emitted),
            )
            for name, bolt in bolts.items()
            for before in [self.before.get(name, _NO_TOTALS)]
        }

    def note(self, report: BatchReport) -> None:
        """Adds the report of a batch."""
        self.batches += 1
        self.rows += report.rows
        self.last = report
        merge_work(self.work, report.work)
        self.complaints.extend(report.complaints[: _MOST_COMPLAINTS - len(self.complaints)])

    @checked
    def to_json(self) -> dict[str, Any]:
        """Returns the summary as plain JSON."""
        return {
            "summary": True,
            "batches": self.batches,
            "rows": self.rows,
            "seconds": round(self.seconds, 3),
            "complaints": self.complaints,
            "stopped": self.stopped,
            "last": None if self.last is None else self.last.to_json(),
            "this_run": {
                name: {"accounts": bolt.accounts, "fired": bolt.fired, "emitted": bolt.emitted}
                for name, bolt in self.this_run().items()
            },
            **({"advice": [advice.to_json() for advice in self.advice]} if self.advice else {}),
            **({"changed_files": self.changed_files} if self.changed_files else {}),
            **({"restarts": self.restarts} if self.restarts else {}),
            **({"new_columns": self.new_columns} if self.new_columns else {}),
            **({"new_column_defaults": self.new_column_defaults} if any(self.new_column_defaults.values()) else {}),
            **({"rescaled": {name: list(tasks) for name, tasks in self.rescaled.items()}} if self.rescaled else {}),
        }


def _minus(totals: dict[str, int], before: dict[str, int]) -> dict[str, int]:
    return {name: count - before.get(name, 0) for name, count in totals.items()}


_NO_TOTALS = BoltTotals({}, 0, {})
