"""The results as tables, which are Markdown too."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from itertools import groupby

from benchmarks.figures import Figure, Results, Verdict, by_section, ratio
from benchmarks.machine import in_words

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
