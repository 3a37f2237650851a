"""Makes the report of a batch from its progress."""

from __future__ import annotations

from collections.abc import Mapping

from manager.accounts import SKIPPED
from manager.storage.manifest import BoltState
from policies.marks import NONE
from topologies.engine.batch.plan import BatchPlan
from topologies.engine.batch.progress import BatchProgress
from topologies.engine.batch.report import BatchReport, BoltReport
from topologies.engine.open_windows import open_windows
from topologies.engine.time.watermark_delay import watermark_delay
from topologies.graph.nodes.windowed import WindowedNode
from topologies.graph.origins import shifted
from topologies.topology import Topology


def report(topology: Topology, progress: BatchProgress, plan: BatchPlan, seconds: Mapping[str, float]) -> BatchReport:
    """The report of a batch that has been committed; ``seconds`` is its wall time by phase."""
    first = progress.context.first
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
        first_output=None if first is None else first.time,
        read_from=None if first is None else first.read_from,
        work=progress.work,
    )


def bolt_report(
    node: WindowedNode, bolt_state: BoltState, clock: int, *, new_watermark: int | None = None, windows: int = 0
) -> BoltReport:
    """The report of a bolt, from its state after a batch, the clock of the batch in microseconds, and the watermark and
    the number of windows that are new in it."""
    watermark = bolt_state.watermark.current if node.event_time else None
    return BoltReport(
        watermark=watermark,
        new_watermark=new_watermark,
        behind=_behind_the_latest(bolt_state, watermark),
        windows=windows,
        fired=bolt_state.fired,
        open=open_windows(node, bolt_state),
        accounts=bolt_state.accounts.totals(sum(bolt_state.pending)),
        streams=bolt_state.accounts.of_streams(bolt_state.pending),
        metrics=bolt_state.accounts.metrics(),
        delay=watermark_delay(node, bolt_state, clock),
        skipped=bolt_state.accounts[SKIPPED],
        suppressed=bolt_state.suppressed,
        emitted=bolt_state.emitted,
        counters=bolt_state.counters,
        inputs=_by_input(node, bolt_state) if node.event_time else {},
        idle=tuple(bolt_state.watermark.sources.idle) if node.event_time else (),
    )


def _by_input(node: WindowedNode, bolt_state: BoltState) -> dict[str, int]:
    """The watermark that each input alone would allow, in microseconds; of each partition where events make marks."""
    if node.sequenced:
        return {name: mark.mark for name, mark in bolt_state.watermark.sources.marks.items() if mark.mark > NONE}
    lag = node.lag.micros
    return {name: shifted(latest, -lag) for name, latest in bolt_state.watermark.latest.items()}


def _behind_the_latest(bolt_state: BoltState, watermark: int | None) -> int | None:
    """How far the watermark lies behind the latest time seen, in microseconds; None where either is unknown."""
    seen = [mark.latest for mark in bolt_state.watermark.sources.marks.values() if mark.latest > NONE]
    latest = max([*bolt_state.watermark.latest.values(), *seen], default=None)
    return None if watermark is None or latest is None else max(latest - watermark, 0)
