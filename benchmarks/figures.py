"""What was measured, as plain data, and what is computed from it."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

Status = Literal["ok", "missing", "wrong", "failed"]
Basis = Literal["data batches", "all batches", "whole run"]


@dataclass
class Figure:
    """One arm at one workload of a section."""

    section: str
    workload: str
    title: str
    arm: str
    ours: bool
    events: int
    """In each run."""
    batch_events: int | None
    """Of a micro-batch, at most; None where there are none."""
    basis: Basis
    """What ``speeds`` are of: micro-batches that read events, all of them, or the run from end to end."""
    status: Status = "ok"
    reason: str = ""
    """Why there are no figures, or a note."""
    runs: list[dict[str, Any]] = field(default_factory=list)
    """As ``Taken.to_json`` has them."""
    note: dict[str, Any] = field(default_factory=dict)
    """Whatever else was found."""

    @property
    def speeds(self) -> list[float]:
        """Events per second of each run."""
        name = {"data batches": "data_batch_seconds", "all batches": "all_batch_seconds", "whole run": "seconds"}
        return [self.events / run[name[self.basis]] for run in self.runs]

    @property
    def speed(self) -> float | None:
        """Their median."""
        return statistics.median(self.speeds) if self.runs else None

    @property
    def end_to_end(self) -> float | None:
        """Events per second with the start and the stop of the query, the median."""
        return statistics.median(self.events / run["seconds"] for run in self.runs) if self.runs else None

    @property
    def cpu(self) -> float | None:
        """CPU-microseconds per event, the median."""
        return statistics.median(run["cpu_seconds"] / self.events * 1e6 for run in self.runs) if self.runs else None

    def to_json(self) -> dict[str, Any]:
        """As plain JSON, with what is computed from the runs."""
        found = {name: value for name, value in vars(self).items() if name != "runs"}
        if self.runs:
            found |= {
                "events_per_second": _rounded(self.speed), "least": _rounded(min(self.speeds)),
                "most": _rounded(max(self.speeds)), "end_to_end_events_per_second": _rounded(self.end_to_end),
                "cpu_microseconds_per_event": None if self.cpu is None else round(self.cpu, 4),
            }  # fmt: skip
        return {**found, "runs": self.runs}

    @staticmethod
    def of_json(found: dict[str, Any]) -> Figure:
        """The figure that was written."""
        return Figure(**{name: found[name] for name in Figure.__dataclass_fields__})


@dataclass
class Verdict:
    """A goal, and whether it is met."""

    section: str
    workload: str
    goal: str
    """In words."""
    bar: float
    value: float | None
    """None where it could not be measured."""
    at_most: bool = False
    """Whether the value is to stay under the bar, instead of reaching it."""

    @property
    def met(self) -> bool | None:
        """None where it cannot be told."""
        if self.value is None:
            return None
        return self.value <= self.bar if self.at_most else self.value >= self.bar

    def to_json(self) -> dict[str, Any]:
        """As plain JSON."""
        value = None if self.value is None else round(self.value, 4)
        return {**vars(self), "value": value, "met": self.met}

    @staticmethod
    def of_json(found: dict[str, Any]) -> Verdict:
        """The verdict that was written."""
        return Verdict(**{name: found[name] for name in Verdict.__dataclass_fields__})


@dataclass
class Results:
    """All of a run of the benchmark."""

    about: dict[str, Any]
    """The options, the machine, the versions."""
    figures: list[Figure] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON."""
        return {
            "about": self.about,
            "verdicts": [verdict.to_json() for verdict in self.verdicts],
            "figures": [figure.to_json() for figure in self.figures],
        }

    @staticmethod
    def of_json(found: dict[str, Any]) -> Results:
        """The results that were written."""
        return Results(
            found["about"],
            [Figure.of_json(each) for each in found["figures"]],
            [Verdict.of_json(each) for each in found["verdicts"]],
        )


def ratio(figure: Figure, peers: Sequence[Figure]) -> float | None:
    """Its speed against the fastest of the peers; None if one of the two is not there."""
    speeds = [peer.speed for peer in peers if peer.speed is not None]
    return figure.speed / max(speeds) if figure.speed is not None and speeds else None


def by_section(figures: Sequence[Figure]) -> dict[str, list[Figure]]:
    """The figures of each section, as they came."""
    found: dict[str, list[Figure]] = {}
    for figure in figures:
        found.setdefault(figure.section, []).append(figure)
    return found


def _rounded(value: float | None) -> int | None:
    return None if value is None else round(value)


def milliseconds(runs: Sequence[Sequence[float]]) -> dict[str, Any]:
    """Of the milliseconds of several runs: over all of them, and the median of each run."""
    every = [value for run in runs for value in run]
    return {
        "median_ms": round(statistics.median(every), 1),
        "p99_ms": round(float(np.percentile(every, 99)), 1),
        "median_ms_by_run": [round(statistics.median(run), 1) for run in runs],
    }
