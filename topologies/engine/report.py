"""Report of a micro-batch, for the progress display, the logs and ``--json``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from manager.accounts import SKIPPED
from manager.storage.manifest import BoltState
from policies.watermarks import NONE
from topologies.engine.batch import BatchPlan, BatchProgress
from topologies.engine.fire.task_families import family_of
from topologies.engine.task_data import BoltWork
from topologies.graph.graph import Graph, WindowedNode, shift_time
from topologies.graph.html import framed, heading, paragraph, table
from windowing.reprs import one_line
from windowing.timestamps import FOREVER, LATEST, show

if TYPE_CHECKING:
    import pandas as pd


# The delay of a bolt's watermark behind the clock (AZ-23).


def watermark_delay(node: WindowedNode, bolt_state: BoltState, clock: int) -> int | None:
    """Returns the clock minus the greatest watermark, in microseconds; None before the first watermark and in
    processing time.

    Negative if events are ahead of the clock.
    """
    marks = [bolt_state.watermark.current] if node.event_time else []
    settings = node.bolt.settings
    if node.event_time and settings.watermark_per_key:
        # The driver does not know the watermark of each key; the latest event gives the greatest.
        latest = max(bolt_state.watermark.latest.values(), default=NONE)
        marks += [
            None if latest == NONE else latest - settings.delay,
            *(task.key_floor for task in bolt_state.tasks),
        ]
    known = [mark for mark in marks if mark is not None and NONE < mark < FOREVER]
    return clock - max(known) if known else None


# Upper bounds on a bolt's open windows, from the manifest's state of its tasks, without their events.


def open_windows(node: WindowedNode, state: BoltState) -> int | None:
    """Returns an upper bound on the number of windows that hold events and would fire if the streams ended now.

    The bound is exact for the windows of key triggers. Otherwise each stored event may be in as many windows as the
    kind of window allows, and without a key there is at most one window for each end in time. None if the events would
    have to be read, as for lifetimes in windows on a grid, or if a user's policy decides.
    """
    found = [family_of(node).open_windows(node, state, task) for task in state.tasks]
    known = [count for count in found if count is not None]
    return sum(known) if len(known) == len(found) else None


# Report of a micro-batch, for the progress display, the logs and ``--json``.


@dataclass(frozen=True)
class BoltReport:
    """The state of a windowed bolt after a batch."""

    watermark: int | None
    """The watermark in microseconds; None before the first."""
    new_watermark: int | None
    """The watermark emitted in this batch, in microseconds; None if it emitted none."""
    behind: int | None
    """How far the watermark is behind the latest event, in microseconds; None if either is unknown."""
    windows: int
    """Number of windows fired in this batch."""
    fired: int
    """Number of windows fired so far."""
    open: int | None
    """Upper bound on the number of windows that hold events and would fire if the streams ended now; None if only the
    events could tell."""
    accounts: dict[str, int]
    """Totals so far, including ``pending``."""
    streams: dict[str, dict[str, int]]
    """The accounts for each input stream, with the metrics and the skipped events."""
    metrics: dict[str, int] = field(default_factory=dict)
    """Counts of events by time rules so far, whatever happened to them (AZ-24)."""
    delay: int | None = field(default=None, compare=False)
    """How far the greatest watermark is behind the clock, in microseconds (AZ-23); None without a watermark.

    Excluded from comparison: it depends on when the run took place.
    """
    skipped: int = 0
    """Number of events so far that the first output of the run does not need because they are too old (AZ-13); they are
    not counted as received."""
    suppressed: int = 0
    """Number of windows so far that ended before the first output and were not emitted."""
    emitted: dict[str, int] = field(default_factory=dict)
    """Rows that its windows have emitted so far, by output stream."""
    counters: dict[str, int] = field(default_factory=dict)
    """Counters of the bolt and of its trigger's rule so far, by name."""
    inputs: dict[str, int] = field(default_factory=dict)
    """The watermark, in microseconds, that each input alone would allow; for each partition instead, if partitions have
    marks. Inputs without events are missing. The least of them holds back the bolt."""
    idle: tuple[str, ...] = ()
    """The inputs or partitions that do not hold back the watermark, because they were silent for longer than
    allowed."""

    def __repr__(self) -> str:
        time = "no watermark" if self.watermark is None else f"watermark {show(self.watermark)}"
        counts = [f"{count} {account}" for account, count in self.accounts.items() if count]
        return f"<BoltReport: {', '.join([time, f'{self.windows} windows, {self.fired} so far', *counts])}>"


@dataclass(frozen=True)
class BatchReport:
    """The report of a committed micro-batch."""

    batch: int
    closing: bool
    clock: int
    rows: int
    """Rows read by all spouts in this batch."""
    seconds: dict[str, float]
    """Wall time in seconds of each phase, and ``total``, their sum."""
    bolts: dict[str, BoltReport]
    spouts: dict[str, dict[str, int]]
    """Totals of each spout so far."""
    complaints: list[str] = field(default_factory=list)
    first_output: int | None = None
    """Time of the first output in microseconds, if the run started at one."""
    read_from: int | None = None
    """Time in microseconds from which the first output needs input; None if all input was read."""
    work: Mapping[str, BoltWork] = field(default_factory=dict, compare=False)
    """The cost of this batch for each bolt, and for reading input (``""``)."""

    def __repr__(self) -> str:
        bolts = "".join(f", {name} {bolt.windows} windows" for name, bolt in self.bolts.items())
        return one_line(f"<BatchReport of {self.title}: {self.rows} rows{bolts}>")

    def _repr_html_(self) -> str:
        seconds = self.seconds.get("total", 0.0)
        facts = f"{self.rows:,} rows · {seconds:.2f} s · clock {show(self.clock)}"
        complaints = [paragraph(complaint, "bad") for complaint in self.complaints]
        return framed(heading(self.title), paragraph(facts, "dim"), bolts_html(self.bolts), *complaints)

    @property
    def title(self) -> str:
        """Name of the batch, for display."""
        return ("the closing after " if self.closing else "") + f"batch {self.batch}"

    def to_pandas(self) -> pd.DataFrame:
        """Returns a row for each windowed bolt (one row without such bolts), with the columns of ``frame_of``."""
        return frame_of([self])

    def to_json(self) -> dict[str, Any]:
        """Returns the report as plain JSON; times in ISO 8601."""
        return {
            "batch": self.batch,
            "closing": self.closing,
            "clock": show(self.clock),
            "rows": self.rows,
            "seconds": {phase: round(spent, 4) for phase, spent in self.seconds.items()},
            "spouts": self.spouts,
            "bolts": {
                name: {
                    "watermark": None if bolt.watermark is None else show(bolt.watermark),
                    "behind_seconds": None if bolt.behind is None else bolt.behind / 1e6,
                    "windows": bolt.windows,
                    "fired": bolt.fired,
                    "open": bolt.open,
                    "accounts": bolt.accounts,
                    "streams": bolt.streams,
                    "watermark_delay_seconds": None if bolt.delay is None else bolt.delay / 1e6,
                    "metrics": bolt.metrics,
                    "skipped": bolt.skipped,
                    "suppressed": bolt.suppressed,
                    "emitted": bolt.emitted,
                    "counters": bolt.counters,
                }
                for name, bolt in self.bolts.items()
            },
            "complaints": self.complaints,
            "first_output": None if self.first_output is None else show(self.first_output),
            "read_from": None if self.read_from is None else show(self.read_from),
        }


def frame_of(reports: Sequence[BatchReport]) -> pd.DataFrame:
    """Returns a row for each batch and windowed bolt; a batch of a topology without windowed bolts has one row.

    ``batch``, ``closing``, ``clock``, ``rows`` and ``seconds`` describe the batch. ``bolt``, ``watermark``,
    ``behind_seconds``, ``windows``, ``fired``, ``open`` and the accounts so far (``received``, ``late`` and others)
    describe the bolt. Times are in UTC; a watermark is NaT before the first one, and at the end of time.
    """
    import pandas as pd
    import pyarrow as pa

    rows = [
        {
            "batch": report.batch,
            "closing": report.closing,
            "clock": report.clock,
            "rows": report.rows,
            "seconds": report.seconds.get("total", 0.0),
            **_columns_of(name, bolt),
        }
        for report in reports
        for name, bolt in (report.bolts.items() or [(None, None)])
    ]
    frame = pd.DataFrame(rows, columns=list(rows[0]) if rows else ["batch", "closing", "clock", "rows", "seconds"])
    for name in ("clock", "watermark"):
        if name in frame:
            moments = [None if row.get(name) is None else row[name] for row in rows]
            frame[name] = pa.array(moments, pa.timestamp("us", tz="UTC")).to_pandas()
    return frame


def _columns_of(name: str | None, bolt: BoltReport | None) -> dict[str, Any]:
    if bolt is None:
        return {}
    watermark = bolt.watermark if bolt.watermark is None or bolt.watermark <= LATEST else None
    return {
        "bolt": name,
        "watermark": watermark,
        "behind_seconds": None if bolt.behind is None else bolt.behind / 1e6,
        "windows": bolt.windows,
        "fired": bolt.fired,
        "open": bolt.open,
        **bolt.accounts,
    }


def _open(bolt: BoltReport) -> int | str:
    return "–" if bolt.open is None else bolt.open


def bolts_html(bolts: Mapping[str, BoltReport]) -> str:
    """Returns a table of windowed bolts as HTML: their watermarks and the accounts of their events. Accounts that are
    zero for all bolts are left out."""
    accounts = dict.fromkeys(account for bolt in bolts.values() for account, count in bolt.accounts.items() if count)
    rows = [
        (name, show(bolt.watermark), bolt.windows, bolt.fired, _open(bolt), *(bolt.accounts[each] for each in accounts))
        for name, bolt in bolts.items()
    ]
    return table(["bolt", "watermark", "windows", "so far", "open", *accounts], rows) if rows else ""


# Makes the report of a batch from its progress.


def report(topology: Graph, progress: BatchProgress, plan: BatchPlan, seconds: Mapping[str, float]) -> BatchReport:
    """Returns the report of a committed batch; ``seconds``: its wall time by phase."""
    first_output = progress.context.first_output
    return BatchReport(
        batch=plan.batch,
        closing=plan.closing,
        clock=plan.advance.clock,
        rows=progress.rows,
        seconds=dict(seconds),
        bolts={
            name: bolt_report(
                node,
                progress.state.bolts[name],
                plan.advance_of(name).clock,
                new_watermark=progress.new_watermarks.get(name),
                windows=progress.windows.get(name, 0),
            )
            for name, node in topology.windowed.items()
        },
        spouts={name: dict(counts) for name, counts in progress.state.spouts.items()},
        complaints=progress.complaints,
        first_output=None if first_output is None else first_output.time,
        read_from=None if first_output is None else first_output.read_from,
        work=progress.work,
    )


def bolt_report(
    node: WindowedNode, bolt_state: BoltState, clock: int, *, new_watermark: int | None = None, windows: int = 0
) -> BoltReport:
    """Returns the report of a bolt from its state after a batch. ``clock``: that of the batch, in microseconds.
    ``new_watermark`` and ``windows``: the watermark and the number of windows that are new in the batch."""
    watermark = bolt_state.watermark.current if node.event_time else None
    done = bolt_state.totals
    return BoltReport(
        watermark=watermark,
        new_watermark=new_watermark,
        behind=_behind_the_latest(bolt_state, watermark),
        windows=windows,
        fired=done.fired,
        open=open_windows(node, bolt_state),
        accounts=bolt_state.accounts.totals(sum(bolt_state.pending)),
        streams=bolt_state.accounts.all_by_stream(bolt_state.pending),
        metrics=bolt_state.accounts.metrics(),
        delay=watermark_delay(node, bolt_state, clock),
        skipped=bolt_state.accounts[SKIPPED],
        suppressed=done.suppressed,
        emitted=dict(done.emitted),
        counters=dict(done.counters),
        inputs=_by_input(node, bolt_state) if node.event_time else {},
        idle=tuple(bolt_state.watermark.sources.idle) if node.event_time else (),
    )


def _by_input(node: WindowedNode, bolt_state: BoltState) -> dict[str, int]:
    """Returns the watermark that each input alone would allow, in microseconds; for each partition instead, if events
    make marks."""
    if node.follows_events:
        return {name: mark.mark for name, mark in bolt_state.watermark.sources.marks.items() if mark.mark > NONE}
    lag = node.lag.micros
    return {name: shift_time(latest, -lag) for name, latest in bolt_state.watermark.latest.items()}


def _behind_the_latest(bolt_state: BoltState, watermark: int | None) -> int | None:
    """Returns how far the watermark is behind the latest time seen, in microseconds; None if either is unknown."""
    seen = [mark.latest for mark in bolt_state.watermark.sources.marks.values() if mark.latest > NONE]
    latest = max([*bolt_state.watermark.latest.values(), *seen], default=None)
    return None if watermark is None or latest is None else max(latest - watermark, 0)
