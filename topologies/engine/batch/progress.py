"""What has come of a micro-batch so far, on the driver."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from manager.storage.manifest import Manifest
from manager.storage.segments import Ref
from topologies.engine.batch.plan import Arrived, Context, Handed, Output

_INPUT = "input"
"""The origin of rows that came with the input; those of bolts end in a point and a number."""


@dataclass
class BatchProgress:
    """What has come of a batch so far."""

    state: Manifest
    context: Context
    rows: int = 0
    files: dict[str, list[str]] = field(default_factory=dict)
    for_sinks: dict[str, list[Handed]] = field(default_factory=dict)
    numbers: dict[tuple[str, str], int] = field(default_factory=dict)
    """Per sink and origin, how many rows there are."""
    traced: dict[str, list[Ref]] = field(default_factory=dict)
    emitted: dict[str, int] = field(default_factory=dict)
    windows: dict[str, int] = field(default_factory=dict)
    complaints: list[str] = field(default_factory=list)
    arrived: dict[str, dict[int, list[Arrived]]] = field(default_factory=dict)
    """Per bolt and task, events that are yet to be let in."""
    doors: dict[str, list[Ref]] = field(default_factory=dict)
    """Per bolt, the order of arrival of the batch's events."""
    counts: dict[str, int] = field(default_factory=dict)
    """Per bolt, how many events have arrived."""
    arrivals: dict[str, int] = field(default_factory=dict)
    """Per bolt, the latest time of arrival."""
    heard: dict[str, int] = field(default_factory=dict)
    """Per bolt, the clock when the last of its events came."""
    began: dict[str, int] = field(default_factory=dict)
    """Per bolt, the clock when the first of them came."""

    def take(self, output: Output, origin: str = _INPUT) -> None:
        """Add what a task wrote and counted; ``origin``: the bolt and task that emitted, if it was not the input."""
        for name, task, ref in output.queued:
            self.state.bolts[name].tasks[task].refs.append(ref)
        self._take_arrivals(output)
        for name, ref in output.for_sinks:
            first = self.numbers.get((name, origin), 0)
            self.for_sinks.setdefault(name, []).append(Handed(ref, origin, first))
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
        for name, (count, door) in output.doors.items():
            self.counts[name] = self.counts.get(name, 0) + count
            self.doors.setdefault(name, []).extend([door] if door is not None else [])
        _raise_all(self.arrivals, output.arrivals)
        _raise_all(self.heard, output.heard)
        for name, clock in output.began.items():
            self.began[name] = min(clock, self.began.get(name, clock))


def _raise_all(greatest: dict[str, int], values: Mapping[str, int]) -> None:
    """Keep the greatest value under each name."""
    for name, value in values.items():
        greatest[name] = max(value, greatest.get(name, value))
