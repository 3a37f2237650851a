"""Driver-side accumulator for one micro-batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from manager.storage.manifest import Manifest
from manager.storage.segments import Ref
from topologies.engine.batch.plan import Arrived, Context, Output, SinkRows

_INPUT = "input"
"""Origin of rows that came with the input. The origin of a bolt's rows ends in a period and a task number."""


@dataclass
class BatchProgress:
    """Accumulates what the tasks of one batch wrote and counted."""

    state: Manifest
    context: Context
    rows: int = 0
    files: dict[str, list[str]] = field(default_factory=dict)
    for_sinks: dict[str, list[SinkRows]] = field(default_factory=dict)
    numbers: dict[tuple[str, str], int] = field(default_factory=dict)
    """Per sink and origin, the number of rows so far."""
    traced: dict[str, list[Ref]] = field(default_factory=dict)
    emitted: dict[str, int] = field(default_factory=dict)
    windows: dict[str, int] = field(default_factory=dict)
    complaints: list[str] = field(default_factory=list)
    arrived: dict[str, dict[int, list[Arrived]]] = field(default_factory=dict)
    """Per bolt and task, events not admitted yet."""
    arrival_order: dict[str, list[Ref]] = field(default_factory=dict)
    """Per bolt, segments with the order of arrival of the batch's events."""
    counts: dict[str, int] = field(default_factory=dict)
    """Per bolt, the number of events that arrived."""
    arrivals: dict[str, int] = field(default_factory=dict)
    """Per bolt, the latest arrival time in microseconds."""
    last_clock: dict[str, int] = field(default_factory=dict)
    """Per bolt, the clock in microseconds when the last of its events came."""
    first_clock: dict[str, int] = field(default_factory=dict)
    """Per bolt, the clock in microseconds when the first of its events came."""

    def take(self, output: Output, origin: str = _INPUT) -> None:
        """Add the output of a task. ``origin`` is the bolt and task that emitted its rows; the default is the input."""
        for name, task, ref in output.queued:
            self.state.bolts[name].tasks[task].refs.append(ref)
        self._take_arrivals(output)
        for name, ref in output.for_sinks:
            first = self.numbers.get((name, origin), 0)
            self.for_sinks.setdefault(name, []).append(SinkRows(ref, origin, first))
            self.numbers[name, origin] = first + ref.rows
        for kind, ref in output.traced:
            self.traced.setdefault(kind, []).append(ref)
        for name, path in output.files:
            self.files.setdefault(name, []).append(path)
        for name, counts in output.counts.items():
            self.state.bolts[name].accounts.merge(counts)
        for name, seen in output.latest.items():
            _raise_all(self.state.bolts[name].watermark.latest, seen)
        for name, behind in output.skew.items():
            _raise_all(self.state.bolts[name].watermark.skew, behind)
        for name, counted in output.spouts.items():
            spout = self.state.spouts.setdefault(name, {})
            self.rows += counted["rows"]
            for what, number in counted.items():
                spout[what] = spout.get(what, 0) + number
        self.complaints.extend(output.complaints)

    def _take_arrivals(self, output: Output) -> None:
        for name, task, ref in output.arrived:
            tasks = self.arrived.setdefault(name, {})
            tasks.setdefault(task, []).append(Arrived(ref, self.counts.get(name, 0)))
        for name, (count, order) in output.arrival_order.items():
            self.counts[name] = self.counts.get(name, 0) + count
            self.arrival_order.setdefault(name, []).extend([order] if order is not None else [])
        _raise_all(self.arrivals, output.arrivals)
        _raise_all(self.last_clock, output.last_clock)
        for name, clock in output.first_clock.items():
            self.first_clock[name] = min(clock, self.first_clock.get(name, clock))


def _raise_all(greatest: dict[str, int], values: Mapping[str, int]) -> None:
    """Update each name to the greater of its value and the given one."""
    for name, value in values.items():
        greatest[name] = max(value, greatest.get(name, value))
