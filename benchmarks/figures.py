"""The figures of a benchmark, as tables and as a picture, and a description of the machine."""

from __future__ import annotations

import os
import platform
import re
import statistics
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from itertools import groupby, pairwise
from pathlib import Path
from textwrap import wrap
from typing import Any, Literal

import psutil

ROOT = Path(__file__).parents[1]
"""The folder of the project."""

# Measurements as plain data, and values computed from them.


Status = Literal["ok", "missing", "wrong", "failed"]
Basis = Literal["data batches", "all batches", "whole run", "CPU time"]
BASES = {  # how the time is counted, and its description in tables
    "data batches": ("data_batch_seconds", "of the micro-batches that read events"),
    "all batches": ("all_batch_seconds", "of all micro-batches"),
    "whole run": ("seconds", "of the whole run"),
    "CPU time": ("cpu_seconds", "in CPU time"),
}


@dataclass
class Figure:
    """One arm's figures for one workload of a section."""

    section: str
    workload: str
    title: str
    arm: str
    ours: bool
    events: int
    """The number of events in each run."""
    batch_events: int | None
    """Most events per micro-batch; None without micro-batches."""
    basis: Basis
    """The time by which ``speeds`` are computed."""
    status: Status = "ok"
    reason: str = ""
    """The reason for missing figures, or a note."""
    runs: list[dict[str, Any]] = field(default_factory=list)
    """The runs, in the form of ``Taken.to_json``."""
    note: dict[str, Any] = field(default_factory=dict)
    """Further results, by name."""

    @property
    def speeds(self) -> list[float]:
        """Returns the events per second of each run."""
        return [self.events / (run[BASES[self.basis][0]] or 1e-3) for run in self.runs]

    @property
    def speed(self) -> float | None:
        """Returns the median speed."""
        return statistics.median(self.speeds) if self.runs else None

    @property
    def end_to_end(self) -> float | None:
        """Returns the median of events per second, including the start and stop of the query."""
        return statistics.median(self.events / run["seconds"] for run in self.runs) if self.runs else None

    @property
    def cpu(self) -> float | None:
        """Returns the median of CPU-microseconds per event."""
        return statistics.median(run["cpu_seconds"] / self.events * 1e6 for run in self.runs) if self.runs else None

    def to_json(self) -> dict[str, Any]:
        """Returns plain JSON, including values computed from the runs."""
        found = {name: value for name, value in vars(self).items() if name != "runs"}
        if self.speed is not None and self.end_to_end is not None and self.cpu is not None:
            found |= {
                "events_per_second": round(self.speed), "least": round(min(self.speeds)),
                "most": round(max(self.speeds)), "end_to_end_events_per_second": round(self.end_to_end),
                "cpu_microseconds_per_event": round(self.cpu, 4),
            }  # fmt: skip
        return {**found, "runs": self.runs}


@dataclass
class Verdict:
    """A goal, and its result."""

    section: str
    workload: str
    goal: str
    """The text of the goal."""
    bar: float
    value: float | None
    """None if it could not be measured."""
    at_most: bool = False
    """True if the value must stay below the bar, False if the value must reach the bar."""

    @property
    def met(self) -> bool | None:
        """True if the goal is met; None without a value."""
        if self.value is None:
            return None
        return self.value <= self.bar if self.at_most else self.value >= self.bar

    def to_json(self) -> dict[str, Any]:
        """Returns plain JSON."""
        value = None if self.value is None else round(self.value, 4)
        return {**vars(self), "value": value, "met": self.met}


@dataclass
class Results:
    """The results of one benchmark."""

    about: dict[str, Any]
    """The options, the machine, the versions."""
    figures: list[Figure] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Returns plain JSON."""
        verdicts, figures = ([each.to_json() for each in both] for both in (self.verdicts, self.figures))
        return {"about": self.about, "verdicts": verdicts, "figures": figures}

    @staticmethod
    def of_json(found: dict[str, Any]) -> Results:
        """Returns results from their JSON."""
        figures = [Figure(**{name: each[name] for name in Figure.__dataclass_fields__}) for each in found["figures"]]
        verdicts = [Verdict(**{n: each[n] for n in Verdict.__dataclass_fields__}) for each in found["verdicts"]]
        return Results(found["about"], figures, verdicts)


def ratio(figure: Figure, peers: Sequence[Figure]) -> float | None:
    """Returns the speed of a figure divided by that of the fastest peer; None if one is missing."""
    speeds = [peer.speed for peer in peers if peer.speed is not None]
    return figure.speed / max(speeds) if figure.speed is not None and speeds else None


def beside(figure: Figure, figures: Sequence[Figure]) -> float | None:
    """Returns the speed of a figure divided by that of Spark's own query or, if that is missing, of the fastest
    peer."""
    same = [each for each in figures if (each.section, each.workload) == (figure.section, figure.workload)]
    spark = [each for each in same if each.arm == BESIDE]
    return ratio(figure, spark or [each for each in same if not each.ours])


# The results as tables, which are also valid Markdown.


BUSY = 0.5
"""Load of the machine above which a table warns."""
BESIDE = "Spark's own"
"""The arm that ratios refer to, if it took part."""


def _batch(figure: Figure, _: Sequence[Figure]) -> str:
    if figure.batch_events is None:
        return ""
    return "all" if figure.batch_events == figure.events else f"{figure.batch_events:,}"


def _spread(figure: Figure, _: Sequence[Figure]) -> str:
    speeds = figure.speeds
    more = f" ({min(speeds) / 1e3:,.0f} to {max(speeds) / 1e3:,.0f})" if len(speeds) > 1 else ""
    return f"{(figure.speed or 0) / 1e3:,.0f}" + more


def _ratio(figure: Figure, figures: Sequence[Figure]) -> str:
    times = beside(figure, figures)
    return "" if times is None else f"{times:.2f}"


def _remarks(figure: Figure, figures: Sequence[Figure]) -> str:
    found, usual = [], max(each.events for each in figures if each.workload == figure.workload)
    if figure.events != usual:
        found.append(f"{figure.events:,} events")
    if "peak_worker_mib" in figure.note:
        own = figure.note["peak_worker_own_mib"]
        found.append(f"a worker at most {figure.note['peak_worker_mib']:,.0f} MiB, {own:,.0f} without mapped files")
    by_process = figure.note.get("cpu_microseconds_by_process", {})
    found.extend(f"{name} {statistics.median(runs):.1f}" for name, runs in by_process.items())
    if figure.note.get("not_counted"):
        found.append(f"{figure.note['not_counted']:,} of {figure.note['sent']:,} records not counted")
    return "; ".join(found)


Cell = Callable[[Figure, Sequence[Figure]], str]
CELLS: dict[str, Cell] = {
    "batch": _batch,
    "events/s (min to max)": _spread,
    "end to end": lambda figure, _: f"{(figure.end_to_end or 0) / 1e3:,.0f}",
    "CPU-µs/event": lambda figure, _: f"{figure.cpu or 0:.2f}",
    "ratio": _ratio,
    "note": _remarks,
    "median ms": lambda figure, _: f"{figure.note['median_ms']:,.0f}",
    "99 % ms": lambda figure, _: f"{figure.note['p99_ms']:,.0f}",
    "median of each run": lambda figure, _: ", ".join(f"{each:,.0f}" for each in figure.note["median_ms_by_run"]),
}
"""Functions for the cells of a column, by heading; other headings are names in the figure's notes."""
SPEEDS = ("batch", "events/s (min to max)", "end to end", "CPU-µs/event", "ratio", "note")
IN_PROCESS = ("events/s (min to max)", "CPU-µs/event", "ratio")
LATENCY = ("median ms", "99 % ms", "median of each run", "note")
REQUESTS = ("requests", "seconds", "PUT", "GET", "COPY", "LIST", "DELETE", "DELETE many")
MEMORY = ("seconds", "driver", "workers", "JVM", "heap", "driver grown", "workers grown", "heap grown")
WATCHED = ("CPU, % of a core", "memory of the driver, MiB", "batch, median, ms", "batch, 95 %, ms", "rows a second",
           "scrapes")  # fmt: skip
COLUMNS: dict[str, tuple[str, ...]] = {
    "latency": LATENCY, "kafka": LATENCY, "core": IN_PROCESS, "policies": IN_PROCESS, "stateful": IN_PROCESS,
    "limits": ("ms a batch", "CPU-µs/event"), "rules": ("windows", *IN_PROCESS[:2], "CPU beside Storm"),
    "requests": REQUESTS, "driver": ("driver ms", "deleting ms"), "steady": MEMORY, "watched": WATCHED,
}  # fmt: skip
"""Columns by section, if they differ from ``SPEEDS``."""
GOALS = ["", "", "goal", "measured", ""]


def tables(results: Results) -> str:
    """Returns all tables, section by section, then the goals."""
    parts = [in_words(results.about["machine"])]
    if results.about["machine"]["load_before"][0] > BUSY:
        parts.append("The machine was busy with something else before: the figures are no good except for ratios.")
    if results.about["quick"]:
        parts.append("Quick: little data, one run. The goals are for the whole benchmark.")
    if results.about.get("left_out"):
        parts.append(f"Not measured: {', '.join(results.about['left_out'])}.")
    for section, figures in by_section(results.figures).items():
        parts.append(f"{section}\n\n{table(figures, COLUMNS.get(section, SPEEDS))}")
    if results.verdicts:
        parts.append("goals\n\n" + aligned(GOALS, [_goal(verdict) for verdict in results.verdicts]))
    return "\n\n".join(parts) + "\n"


def by_section(figures: Sequence[Figure]) -> dict[str, list[Figure]]:
    """Returns the figures of each section, in order of measurement."""
    found: dict[str, list[Figure]] = {}
    for figure in figures:
        found.setdefault(figure.section, []).append(figure)
    return found


def table(figures: Sequence[Figure], headings: Sequence[str]) -> str:
    """Returns a table of a section's figures, a line each; speeds also show their values."""
    rows: list[list[str]] = []
    for (workload, title), found in groupby(figures, key=lambda figure: (figure.workload, figure.title)):
        for at, figure in enumerate(found):
            if figure.status == "ok":
                cells = [_cell(heading, figure, figures) for heading in headings]
            else:
                cells = [figure.status, *[""] * (len(headings) - 2), figure.reason]
            rows.append([f"{workload} {title}".strip() if at == 0 else "", figure.arm, *cells])
    lines = aligned(["", "arm", *headings], rows)
    if "events/s (min to max)" not in headings:
        return lines
    per_second = f"thousands of events per second {BASES[figures[0].basis][1]}"
    return (
        per_second + ("" if "ratio" not in headings else f"; ratio: to {BESIDE}, or the fastest peer") + f"\n\n{lines}"
    )


def aligned(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Returns the lines of a Markdown table with aligned columns."""
    widths = [max(len(row[at]) for row in [headings, *rows]) for at in range(len(headings))]
    lines = [headings, ["-" * width for width in widths], *rows]
    return "\n".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |" for line in lines
    )


def _cell(heading: str, figure: Figure, figures: Sequence[Figure]) -> str:
    if heading in CELLS:
        return CELLS[heading](figure, figures)
    value = figure.note.get(heading, "")
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}" if isinstance(value, float) else str(value)


def _goal(verdict: Verdict) -> list[str]:
    words = {True: "met", False: "not met", None: "not measured"}
    value = "" if verdict.value is None else f"{verdict.value:.3g}"
    return [verdict.section, verdict.workload, verdict.goal, value, words[verdict.met]]


# The results as a picture: bars of events per second, windbolt next to the peers.


TITLES = {
    "batches": "Micro-batches of {batch:,} events",
    "drain": "Draining a backlog of {events:,} events, each at its best batch size",
    "keys": "100,000 keys, micro-batches of {batch:,} events",
    "keys, draining": "100,000 keys, draining {events:,} events",
    "frames": "Input from a Spark DataFrame, micro-batches of {batch:,} events",
    "frames, draining": "Input from a Spark DataFrame, draining {events:,} events",
    "growth": "By live events and by overlap",
    "latency": "From file to result: median, and 99 % (thin line)",
    "kafka": "From topic to topic: median, and 99 % (thin line)",
    "step": "The aggregation step on Kafka",
    "queries": "Ordinary queries, micro-batches of {batch:,} events",
    "local": "In one process, without Spark, beside plain programs",
}
"""The sections that are drawn."""
COLOURS = {"Spark's own": "#868e96", "Spark, transformWithState": "#adb5bd", "bytewax": "#e8b04b"}
OURS, OURS_TOO, OTHERS, FAINT = "#0b7285", "#74c0cc", "#b8a1d1", "#6c757d"


def draw(results: Results, path: Path) -> bool:
    """Writes a PNG. Returns False if matplotlib is not installed, or there is nothing to draw."""
    panels = by_section([each for each in results.figures if each.status == "ok" and each.section in TITLES])
    if find_spec("matplotlib") is None or not panels:
        return False
    mpl: Any = import_module("matplotlib")
    mpl.use("Agg")
    plt: Any = import_module("matplotlib.pyplot")
    heights = [len(each) + 2.5 for each in panels.values()]
    ratios, size = {"height_ratios": heights}, (11, sum(heights) * 0.25 + 1)
    picture, axes = plt.subplots(len(panels), 1, figsize=size, gridspec_kw=ratios, squeeze=False, layout="constrained")
    for figures, axis in zip(panels.values(), axes[:, 0], strict=True):
        _panel(figures, axis)
    often = f"median of {results.about['sizes']['runs']} runs, thin line: least to most"
    text = f"x: to {BESIDE}, or the fastest peer; {often}. {in_words(results.about['machine'])}"
    picture.supxlabel("\n".join(wrap(text, 170)), fontsize=7, color=FAINT, x=0.01, ha="left")
    picture.savefig(path, dpi=150, facecolor="white")
    plt.close(picture)
    return True


def _panel(figures: Sequence[Figure], axis: Any) -> None:
    """Draws bars from the top down; for delays, the median and a line to the 99th percentile."""
    delays = "median_ms" in figures[0].note
    spreads = [
        (each.note["median_ms"],) * 2 + (each.note["p99_ms"],)
        if delays
        else [find(each.speeds) / 1e6 for find in (min, statistics.median, max)]
        for each in figures
    ]
    values = [middle for _, middle, _ in spreads]
    lines = [[value - least for least, value, _ in spreads], [most - value for _, value, most in spreads]]
    colours = [
        (OURS_TOO if "general" in each.arm else OURS) if each.ours else COLOURS.get(each.arm, OTHERS)
        for each in figures
    ]
    bars = axis.barh(range(len(figures)), values, xerr=lines, color=colours, error_kw={"linewidth": 1})
    axis.bar_label(bars, [_value(each, value, figures) for each, value in zip(figures, values, strict=True)], padding=3)
    labels = [f"{each.workload} {each.title}" for each in figures]
    new = [before != label for before, label in pairwise(["", *labels])]
    names = [f"{label}   {each.arm}" if first else each.arm
             for first, label, each in zip(new, labels, figures, strict=True)]  # fmt: skip
    axis.set_yticks(range(len(figures)), names, fontsize=8.5)
    axis.invert_yaxis()
    axis.margins(x=0.15)
    axis.spines[["top", "left", "right"]].set_visible(False)
    axis.set_xlabel("milliseconds" if delays else "million events per second", color=FAINT, fontsize=8.5)
    title = TITLES[figures[0].section].format(batch=figures[0].batch_events or 0, events=figures[0].events)
    axis.set_title(title, loc="left", fontsize=10, fontweight="bold")


def _value(figure: Figure, value: float, figures: Sequence[Figure]) -> str:
    if "median_ms" in figure.note:
        return f"{value:,.0f} ms"
    times = beside(figure, figures) if figure.ours else None
    return (f"{value:.2f} M" if value >= 0.1 else f"{value * 1e3:.0f} k") + (
        "" if times is None else f"   {times:.1f} x"
    )


# The machine and software of the figures.


PACKAGES = ("pyspark", "pyarrow", "numpy", "pandas", "duckdb", "matplotlib")


def machine() -> dict[str, Any]:
    """Returns processors, memory, load, and the versions of packages. Call it before anything runs."""
    names = re.findall(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.M)
    return {
        "processors": os.cpu_count(),
        "processor": next(iter(names), "unknown"),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "system": platform.platform(),
        "load_before": [round(each, 2) for each in os.getloadavg()],
        "python": platform.python_version(),
        "java": _output("java", "-version").partition("\n")[0],
        "packages": {name: version(name) if find_spec(name) else None for name in PACKAGES},
        "commit": _output("git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"),
        "changed_since": bool(_output("git", "-C", str(ROOT), "status", "--porcelain", "--untracked-files=no")),
    }


def in_words(found: dict[str, Any]) -> str:
    """Describes a machine in a sentence."""
    packages = ", ".join(f"{name} {number}" for name, number in found["packages"].items() if number)
    return (
        f"{found['processors']} processors ({found['processor']}), {found['memory_gib']} GiB, load before"
        f" {found['load_before'][0]}; Python {found['python']}, {found['java']}, {packages}"
    )


def _output(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return (done.stdout or done.stderr).strip() if done.returncode == 0 else ""
