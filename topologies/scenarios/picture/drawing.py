"""A picture as SVG, in three parts that a page lays side by side: the labels of the rows, the plot, and its axis."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from topologies.html.element import element, escaped
from topologies.scenarios.picture.picture import Picture
from topologies.scenarios.picture.plot import LETTER, ROW, Plot
from topologies.scenarios.run.fates import Fate
from topologies.scenarios.run.moments import RunMoment
from windowing.data.printable import cut
from windowing.settings.triggers import FiredBy
from windowing.time.timestamps import FOREVER

AXIS = 46
"""Pixels: the height of the axis with its labels."""
_LABEL = 30
"""Characters of a label of a row."""
_FIRED: dict[str, str] = {FiredBy.MOMENT: " at a moment", FiredBy.ARRIVAL: " at an arrival"}
"""What fired a window of a trigger of the user's own, where it was no event in its turn."""
_TURNED = (Fate.LATE, Fate.DROPPED, Fate.EARLY, Fate.INVALID)


@dataclass(frozen=True)
class Drawing:
    """The parts of a picture, each the content of an ``svg`` element with its own origin."""

    labels: str
    plot: str
    axis: str
    gutter: int
    """The width of the labels, in pixels."""
    width: int
    """The width of the plot."""
    height: int
    """The height of the plot, and of the labels."""


def drawn(picture: Picture, *, told: bool = False) -> Drawing:
    """The picture as SVG. ``told``: with the story of each row as the title that a pointer shows."""
    height = (len(picture.moments) + 1) * ROW
    plot = Plot(picture, height, told=told)
    names = [_name(picture, moment) for moment in picture.moments]
    gutter = max(round(min(max(map(len, names), default=8), _LABEL) * LETTER) + 22, 124)
    labels = "".join(
        element(
            "g",
            plot.title(moment),
            element(
                "text",
                escaped(name),
                class_=_kind(moment),
                x=gutter - 10,
                y=plot.y(moment.number) + 4,
                text_anchor="end",
            ),
            class_="row",
            data_row=moment.number,
        )
        for moment, name in zip(picture.moments, names, strict=True)
    )
    return Drawing(labels, plot.drawn(), "".join(_axis(picture)), gutter, picture.scale.width, height)


def _name(picture: Picture, moment: RunMoment) -> str:
    """What a row is called: its time on the clock where that moved, and what happened."""
    before = picture.moments[moment.number - 1].clock if moment.number else None
    clock = "" if moment.clock in (None, before) else f"{picture.show(moment.clock or 0)} "
    match moment.kind:
        case "event":
            return cut(f"{clock}{moment.event}", _LABEL)
        case "window":
            window = picture.trace.windows[moment.window or 0]
            pane, by = window.get("pane"), window.get("by", "")
            timing = f" {pane['timing'].replace('_', ' ')}" if pane else _FIRED.get(by, "")
            if by == FiredBy.CLOSE and moment.watermark not in (None, FOREVER):
                timing = ", key forgotten"
            return cut(f"{clock}#{moment.window} fires{timing}", _LABEL)
        case "close":
            return f"{clock}the streams end"
        case "end":
            return "end of the run"
        case "clock":
            return clock.strip() or "clock"
    return f"{clock}{moment.kind}"


def _kind(moment: RunMoment) -> str:
    kind = "turned" if moment.fate in _TURNED else "quiet" if moment.fate is Fate.ELSEWHERE else moment.kind
    return f"label {kind}"


def _axis(picture: Picture) -> Iterator[str]:
    width = picture.scale.width
    yield element("path", class_="axis", d=f"M0 .5H{width}")
    for x, label in picture.scale.ticks(picture.show):
        anchor = "start" if x < 40 else "end" if x > width - 40 else "middle"
        yield element("path", class_="axis", d=f"M{x:.1f} 0v6")
        yield element("text", escaped(label), class_="tick", x=x, y=19, text_anchor=anchor)
    for x in picture.scale.breaks:
        yield element("path", class_="cut", d=f"M{x + 9:.1f} -5l-4 11M{x + 16:.1f} -5l-4 11")
    name = "event time: when it happened"
    if picture.by_arrival:
        name = "events in order of arrival"
    elif not picture.trace.event_time:
        name = "the time of an event is the clock at its arrival"
    yield element("text", f"{name} →", class_="name", x=4, y=38)
