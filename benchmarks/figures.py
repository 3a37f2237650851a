"""The figures of a benchmark, as tables and as a picture."""

from __future__ import annotations

import statistics
from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from textwrap import wrap
from typing import Any, Literal

import numpy as np

from benchmarks.machine import in_words

# What was measured, as plain data, and what is computed from it.


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
    """Basis of ``speeds``: micro-batches that read events, all of them, or the run from end to end."""
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
    """True if the value is to stay under the bar, instead of reaching it."""

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


# The results as tables, which are Markdown too.


BUSY = 0.5
"""Load."""
BESIDE = "Spark's own"
"""The arm that ratios are to, where it took part."""
HEADINGS = ["", "arm", "batch", "events/s (min to max)", "end to end", "CPU-µs/event", "ratio", "note"]
BASES = {
    "data batches": "the micro-batches that read events",
    "all batches": "all micro-batches",
    "whole run": "the whole run",
}
LATENCY = ["", "arm", "median ms", "99 % ms", "median of each run", "note"]
GOALS = ["", "", "goal", "measured", ""]


def tables(results: Results) -> str:
    """Everything, section by section, and then the goals."""
    parts = [in_words(results.about["machine"])]
    if results.about["machine"]["load_before"][0] > BUSY:
        parts.append("The machine was busy with something else before: the figures are no good except for ratios.")
    if results.about["quick"]:
        parts.append("Quick: little data, one run. The goals are for the whole benchmark.")
    if results.about.get("left_out"):
        parts.append(f"Not measured: {', '.join(results.about['left_out'])}.")
    for section, figures in by_section(results.figures).items():
        parts.append(f"{section}\n\n" + (_latency(figures) if section in ("latency", "kafka") else _speeds(figures)))
    if results.verdicts:
        parts.append("goals\n\n" + aligned(GOALS, [_goal(verdict) for verdict in results.verdicts]))
    return "\n\n".join(parts) + "\n"


def aligned(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Lines of a Markdown table, in columns."""
    widths = [max(len(row[at]) for row in [headings, *rows]) for at in range(len(headings))]
    lines = [headings, ["-" * width for width in widths], *rows]
    return "\n".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |" for line in lines
    )


def beside(figure: Figure, figures: Sequence[Figure]) -> float | None:
    """Its speed against Spark's own at the same work; where that is not there, against the fastest peer."""
    same = [each for each in figures if (each.section, each.workload) == (figure.section, figure.workload)]
    spark = [each for each in same if each.arm == BESIDE]
    return ratio(figure, spark or [each for each in same if not each.ours])


def _speeds(figures: Sequence[Figure]) -> str:
    rows: list[list[str]] = []
    for (workload, title), found in groupby(figures, key=lambda figure: (figure.workload, figure.title)):
        for at, figure in enumerate(found):
            rows.append([f"{workload} {title}" if at == 0 else "", *_cells(figure, figures)])
    note = f"thousands of events per second of {BASES[figures[0].basis]}; ratio: to {BESIDE}, or the fastest peer"
    return f"{note}\n\n{aligned(HEADINGS, rows)}"


def _cells(figure: Figure, figures: Sequence[Figure]) -> list[str]:
    batch = "" if figure.batch_events is None else f"{figure.batch_events:,}"
    if figure.batch_events is not None and figure.batch_events == figure.events:
        batch = "all"
    if figure.speed is None or figure.end_to_end is None or figure.cpu is None:
        return [figure.arm, batch, figure.status, "", "", "", figure.reason]
    times = beside(figure, figures)
    speeds = figure.speeds
    spread = f" ({min(speeds) / 1e3:,.0f} to {max(speeds) / 1e3:,.0f})" if len(speeds) > 1 else ""
    notes = [] if figure.events == _usual(figure, figures) else [f"{figure.events:,} events"]
    if "peak_worker_mib" in figure.note:
        notes.append(
            f"a worker at most {figure.note['peak_worker_mib']:,.0f} MiB,"
            f" {figure.note['peak_worker_own_mib']:,.0f} without mapped files"
        )
    by_process = figure.note.get("cpu_microseconds_by_process", {})
    notes.extend(f"{name} {statistics.median(runs):.1f}" for name, runs in by_process.items())
    return [
        figure.arm,
        batch,
        f"{figure.speed / 1e3:,.0f}" + spread,
        f"{figure.end_to_end / 1e3:,.0f}",
        f"{figure.cpu:.2f}",
        "" if times is None else f"{times:.2f}",
        "; ".join(notes),
    ]


def _usual(figure: Figure, figures: Sequence[Figure]) -> int:
    return max(each.events for each in figures if each.workload == figure.workload)


def _latency(figures: Sequence[Figure]) -> str:
    rows: list[list[str]] = []
    for figure in figures:
        if figure.status == "ok":
            by_run = ", ".join(f"{value:,.0f}" for value in figure.note["median_ms_by_run"])
            cells = [f"{figure.note['median_ms']:,.0f}", f"{figure.note['p99_ms']:,.0f}", by_run, _not_counted(figure)]
        else:
            cells = [figure.status, "", "", figure.reason]
        rows.append([figure.title, figure.arm, *cells])
    return aligned(LATENCY, rows)


def _not_counted(figure: Figure) -> str:
    missed = figure.note.get("not_counted", 0)
    return f"{missed:,} of {figure.note['sent']:,} records not counted" if missed else ""


def _goal(verdict: Verdict) -> list[str]:
    words = {True: "met", False: "not met", None: "not measured"}
    value = "" if verdict.value is None else f"{verdict.value:.3g}"
    return [verdict.section, verdict.workload, verdict.goal, value, words[verdict.met]]


# The results as a picture: bars of events per second, windbolt beside the peers.


TITLES = {
    "batches": "Micro-batches of {batch:,} events",
    "drain": "Draining a backlog of {events:,} events, each at its best batch size",
    "keys": "100,000 keys, micro-batches of {batch:,} events",
    "keys, draining": "100,000 keys, draining {events:,} events",
    "frames": "Input from a Spark DataFrame, micro-batches of {batch:,} events",
    "frames, draining": "Input from a Spark DataFrame, draining {events:,} events",
    "growth": "By live events and by overlap",
    "latency": "From file to result: median, and 99 % (thin line)",
    "queries": "Ordinary queries, micro-batches of {batch:,} events",
    "local": "In one process, without Spark, beside plain programs",
}
OURS, OURS_TOO = "#0b7285", "#74c0cc"
COLOURS = {"Spark's own": "#868e96", "Spark, transformWithState": "#adb5bd", "bytewax": "#e8b04b"}
OTHERS = ("#c5b3d9", "#a991c7")
INK, FAINT = "#212529", "#6c757d"


@dataclass(frozen=True)
class Bar:
    """One arm."""

    arm: str
    value: float
    text: str
    colour: str
    bold: bool = False
    spread: tuple[float, float] | None = None


@dataclass(frozen=True)
class Group:
    """The arms of one workload."""

    label: str
    bars: list[Bar]
    absent: str = ""
    """Arms without a figure, and why."""


@dataclass(frozen=True)
class Panel:
    """One section."""

    title: str
    unit: str
    groups: list[Group]

    @property
    def height(self) -> float:
        """In bars."""
        return sum(len(group.bars) + 0.9 for group in self.groups) + 1.6


def draw(results: Results, path: Path, sections: Container[str] | None = None) -> bool:
    """Write a PNG of some or all sections; False where matplotlib is not installed, or nothing is to be drawn."""
    panels = panels_of([each for each in results.figures if sections is None or each.section in sections])
    if find_spec("matplotlib") is None or not panels:
        return False
    mpl: Any = import_module("matplotlib")
    mpl.use("Agg")
    plt: Any = import_module("matplotlib.pyplot")

    heights = [panel.height for panel in panels]
    size = (11, sum(heights) * 0.27 + 1.0)
    with plt.rc_context({"font.family": "sans-serif", "font.size": 9.5, "axes.spines.top": False}):
        figure, axes = plt.subplots(
            len(panels), 1, figsize=size, gridspec_kw={"height_ratios": heights}, squeeze=False, layout="constrained"
        )
        for panel, axis in zip(panels, axes[:, 0], strict=True):
            _panel(panel, axis)
        figure.supxlabel(_caption(results), fontsize=7, color=FAINT, x=0.01, ha="left")
        figure.savefig(path, dpi=150, facecolor="white")
        plt.close(figure)
    return True


def panels_of(every: Sequence[Figure]) -> list[Panel]:
    """Returns the panels to be drawn."""
    panels: list[Panel] = []
    for section, figures in by_section(every).items():
        groups = [
            _group(title, list(same), every, latency=section == "latency")
            for title, same in groupby(figures, key=lambda figure: f"{figure.workload}  {figure.title}")
        ]
        drawn = [group for group in groups if group.bars]
        if drawn:
            first = figures[0]
            title = TITLES.get(section, section).format(batch=first.batch_events or 0, events=first.events)
            unit = "milliseconds" if section == "latency" else "million events per second"
            panels.append(Panel(title, unit, drawn))
    return panels


def _group(label: str, figures: Sequence[Figure], every: Sequence[Figure], *, latency: bool) -> Group:
    bars = [_delay(figure) if latency else _speed(figure, every) for figure in figures if figure.status == "ok"]
    absent = ", ".join(f"{figure.arm}: {figure.status}" for figure in figures if figure.status != "ok")
    return Group(label, bars, absent)


def _speed(figure: Figure, every: Sequence[Figure]) -> Bar:
    speed = figure.speed or 0.0
    times = beside(figure, every) if figure.ours else None
    text = f"{speed / 1e6:.2f} M" if speed >= 1e5 else f"{speed / 1e3:.0f} k"
    spread = (min(figure.speeds) / 1e6, max(figure.speeds) / 1e6) if len(figure.runs) > 1 else None
    label = text if times is None else f"{text}   {times:.1f} x"
    return Bar(figure.arm, speed / 1e6, label, _colour(figure), bold=times is not None, spread=spread)


def _delay(figure: Figure) -> Bar:
    median, worst = figure.note["median_ms"], figure.note["p99_ms"]
    return Bar(figure.arm, median, f"{median:,.0f} ms", _colour(figure), figure.ours, (median, worst))


def _colour(figure: Figure) -> str:
    if figure.ours:
        return OURS_TOO if "general" in figure.arm else OURS
    return COLOURS.get(figure.arm, OTHERS[figure.arm.endswith("threads")])


def _panel(panel: Panel, axis: Any) -> None:
    """Bars from the top down, under the name of their workload."""
    most = max(max(bar.value, bar.spread[1] if bar.spread else 0) for group in panel.groups for bar in group.bars)
    at = 0.0
    for group in panel.groups:
        axis.text(0, at, group.label, va="center", ha="left", color=INK, fontweight="bold", fontsize=9.5)
        if group.absent:
            axis.text(most * 1.22, at, group.absent, va="center", ha="right", color=FAINT, fontsize=7.5, style="italic")
        for bar in group.bars:
            at += 1
            axis.barh(at, bar.value, height=0.82, color=bar.colour)
            axis.text(-most * 0.008, at, bar.arm, va="center", ha="right", color=INK, fontsize=8.5)
            end = bar.value
            if bar.spread:
                axis.plot(bar.spread, (at, at), color=INK, linewidth=1, solid_capstyle="butt")
                end = max(end, bar.spread[1])
            weight = "bold" if bar.bold else "normal"
            axis.text(
                end + most * 0.01, at, bar.text, va="center", ha="left", color=INK, fontsize=8.5, fontweight=weight
            )
        at += 1.4
    axis.set_ylim(at - 0.7, -0.8)
    axis.set_xlim(0, most * 1.22)
    axis.set_yticks([])
    axis.spines[["left", "right"]].set_visible(False)
    axis.spines["bottom"].set_color("#ced4da")
    axis.tick_params(axis="x", colors=FAINT, labelsize=8, length=3)
    axis.grid(axis="x", color="#e9ecef", linewidth=0.8)
    axis.set_axisbelow(True)
    axis.set_xlabel(panel.unit, color=FAINT, fontsize=8.5)
    axis.set_title(panel.title, loc="left", fontsize=12, fontweight="bold", color=INK, pad=8)


def _caption(results: Results) -> str:
    runs = results.about["sizes"]["runs"]
    often = "one run" if runs == 1 else f"median of {runs} runs, thin line: least to most"
    text = f"x: to Spark's own, or the fastest peer; {often}. {in_words(results.about['machine'])}"
    return "\n".join(wrap(text, 170))
