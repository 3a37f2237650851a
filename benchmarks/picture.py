"""The results as a picture: bars of events per second, windbolt beside the peers."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from textwrap import wrap
from typing import Any

from benchmarks.figures import Figure, Results, by_section
from benchmarks.machine import in_words
from benchmarks.table import beside

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
    """What is to be drawn."""
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
