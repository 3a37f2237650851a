"""Draws a picture as SVG, as an image, or on an HTML page: windows, the watermark, firings, events, and the legend."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from textwrap import wrap

from topologies.graph.html import DARK, FONT, LIGHT, element, escaped, page_colours, table
from topologies.scenarios.moments import EventOutcome, RunMoment, known_ids
from topologies.scenarios.picture import BREAK, Line, Picture, WindowBox, pictures, source_name
from topologies.scenarios.scenario_answer import ReplayResult, plain_json
from topologies.scenarios.scenario_model import Scenario
from topologies.scenarios.scenario_values import WHEREABOUTS
from windowing.durations import Duration
from windowing.errors import ConfigError
from windowing.reprs import shorten
from windowing.settings.triggers import FiredBy
from windowing.timestamps import FOREVER

# The shapes of a picture: one for each outcome of an event, recognisable without colours.


_PATHS = {
    EventOutcome.EARLY: "m-4 -6l10 6l-10 6Z",
    EventOutcome.ADJUSTED: "m0 -6.5l6.5 6.5l-6.5 6.5l-6.5 -6.5Z",
    EventOutcome.NOWHERE: "m-4 -4h8v8h-8Z",
    EventOutcome.WATERMARK: "m-6 -5h12l-6 11Z",
    EventOutcome.ELSEWHERE: "m-4 0h8",
    EventOutcome.LATE: "m-4.5 -4.5l9 9m0 -9l-9 9",
    EventOutcome.DROPPED: "m-4.5 -4.5l9 9m0 -9l-9 9",
    EventOutcome.INVALID: "m-6.5 -6.5h13v13h-13Z",
}
_RINGS: dict[EventOutcome, tuple[tuple[float, float], ...]] = {
    EventOutcome.WINDOWED: ((0, 5),),
    EventOutcome.PENDING: ((0, 5),),
    EventOutcome.DROPPED: ((0, 8),),
    EventOutcome.DUPLICATE: ((-2.5, 4.5), (2.5, 4.5)),
}
"""For each outcome, its circles: the distance to the right of the point, and the radius."""


def glyph(outcome: EventOutcome, x: float, y: float) -> str:
    """Returns the shape of an outcome around a point, as SVG; its class is the class of the outcome."""
    kind = f"m {outcome.value}"
    rings = [
        element("circle", class_=kind, cx=float(x + right), cy=float(y), r=r) for right, r in _RINGS.get(outcome, ())
    ]
    path = [element("path", class_=kind, d=f"M{x:.1f} {y:.1f}{_PATHS[outcome]}")] if outcome in _PATHS else []
    sign = [element("text", "?", class_="invalid-sign", x=float(x), y=y + 4, text_anchor="middle")]
    return "".join([*rings, *path, *(sign if outcome is EventOutcome.INVALID else [])])


# The style sheet of pictures: with variables for pages, with plain colours for SVG files.


@cache
def asset(name: str) -> str:
    """Returns a file for inclusion in pages."""
    return files("topologies.scenarios").joinpath("assets", name).read_text(encoding="utf-8")


def plain_style(palette: Mapping[str, str]) -> str:
    """Returns the style of pictures without variables, which only browsers support."""
    values = {**palette, "font": FONT}
    return re.sub(r"var\(--([a-z-]+)\)", lambda found: values[found[1]], asset("picture.css"))


# Descriptions of a picture: its legend, and how to read it.


_SOURCES = 4
"""Most inputs that are named."""


def legend(picture: Picture) -> Iterator[tuple[str, str, str]]:
    """Yields, for each kind of element in the picture, a sample (SVG, 34 pixels wide, 20 high), its name, and its
    meaning."""
    event_time = picture.trace.event_time and not picture.by_arrival
    shown = {moment.outcome for moment in picture.moments}
    for outcome in EventOutcome:
        if outcome in shown:
            yield glyph(outcome, 17, 10), outcome.word, outcome.meaning
    if event_time and picture.watermark.points:
        line = "<path class='passed' d='M1 1h18v18h-18Z'/><path class='line watermark' d='M1 19h9v-9h9v-9h14'/>"
        yield (
            line,
            "watermark",
            "the time up to which the bolt takes events to be complete; what lies in its shade is behind",
        )
    for number, source in enumerate(picture.sources[:_SOURCES]):
        more = len(picture.sources) - _SOURCES
        also = f", and {more} more" if more > 0 and number == _SOURCES - 1 else ""
        yield (
            f"<path class='line source s{number}' d='M1 10h32'/>",
            f"{source_name(source.name)}{also}",
            "how far this input alone would let the watermark go",
        )
    if any(box.numbers for box in picture.boxes):
        box = "<g class='box'><rect x='2' y='3' width='30' height='14' rx='3'/></g>"
        yield box, "window", "as wide as its times; it opens below, with its first event, and closes above"
        bar = "<rect class='bar' x='2' y='6' width='30' height='8' rx='4'/>"
        dots = "<circle class='new' cx='12' cy='10' r='3.4'/><circle class='again' cx='23' cy='10' r='3.4'/>"
        yield (
            f"<g class='firing'>{bar}{dots}</g>",
            "it fires",
            "filled dots: events new in it; rings: events that it, or the one before it, had before",
        )
        panes = [window["pane"] for window in picture.trace.windows.values() if "pane" in window]
        if not all(pane["last"] for pane in panes):
            yield f"<g class='firing early'>{bar}{dots}</g>", "not its last time", "it stays open, and may fire again"
    if any(not box.numbers for box in picture.boxes):
        box = "<g class='box waiting'><rect x='2' y='3' width='30' height='14' rx='3'/></g>"
        yield box, "open window", "it has events, and has not fired by the end of the run"
    if picture.ideal.points:
        meaning = "an event would lie here if it came the moment it happened"
        if not picture.ideal_is_clock:
            meaning = "the furthest time so far: events that come in order lie here, others to the left"
        yield "<path class='line ideal' d='M1 19L33 1'/>", "ideal", meaning


def how_to_read(picture: Picture) -> str:
    """Describes the directions of time in the picture, in one or two sentences."""
    up = "Processing time runs upwards: each row is a thing that happened, the first one at the bottom."
    if picture.by_arrival:
        return f"{up} Events stand side by side in the order in which they came."
    if not picture.trace.event_time:
        return f"{up} To the right is the time of the events, which here is the clock at their arrival."
    return f"{up} To the right is event time: when a thing happened, whenever it came."


# The plot of a picture as SVG: boxes of windows, the watermark, firings and events.


ROW = 24
"""Height of a row in pixels."""
LABEL_LETTER_WIDTH = 6.6
"""Average width of a letter in pixels."""
_MANY = 12
"""Number of inputs or partitions above which their lines are fainter."""
_MEMBERS = 80
"""Most events of a firing that are drawn on its bar: the first and the last."""


class Plot:
    """Draws the plot of one picture."""

    def __init__(self, picture: Picture, height: int, *, with_stories: bool) -> None:
        self.picture, self.height, self.with_stories = picture, height, with_stories
        self.x = picture.scale
        self.boxes = {number: box for box in picture.boxes for number in box.numbers}
        with_outcome = [moment for moment in picture.moments if moment.outcome not in (None, EventOutcome.DUPLICATE)]
        self.positions = {moment.event: moment.at for moment in with_outcome if moment.at is not None}

    def y(self, row: float) -> float:
        """Returns the middle of a row; later rows are higher."""
        return self.height - (row + 1) * ROW

    def draw(self) -> str:
        """Returns the whole picture, from back to front."""
        picture = self.picture
        many = " many" if len(picture.sources) > _MANY else ""
        parts = [
            *self._grid(),
            *self._behind_watermark(),
            *(self._box(box) for box in picture.boxes),
            self._line("ideal", picture.ideal),
            *(self._line(f"source s{number % 4}{many}", line) for number, line in enumerate(picture.sources)),
            self._line("watermark", picture.watermark),
            *(self._row(moment) for moment in picture.moments if moment.kind not in ("event", "window")),
            *(self._firing(moment, moment.window) for moment in picture.moments if moment.window is not None),
            *(self._event(moment, moment.outcome) for moment in picture.moments if moment.outcome is not None),
        ]
        return "".join(parts)

    def title(self, moment: RunMoment) -> str:
        """Returns the text of a row, for viewers that show it under a pointer."""
        return element("title", escaped(self.picture.stories[moment.number], 2000)) if self.with_stories else ""

    def _grid(self) -> Iterator[str]:
        for x, _ in self.x.ticks(self.picture.show):
            yield element("path", class_="grid", d=f"M{x:.1f} 0V{self.height}")
        for x in self.x.breaks:
            yield element("rect", class_="gap", x=x, y=0, width=BREAK, height=self.height)

    def _behind_watermark(self) -> Iterator[str]:
        """Yields the area behind the watermark."""
        points = self.picture.watermark.points
        if points and not self.picture.by_arrival:
            path_data = "".join(f"V{self.y(row):.1f}H{self.x(at):.1f}" for row, at in points)
            yield element("path", class_="passed", d=f"M0 {self.y(points[0][0]):.1f}{path_data}V0H0Z")

    def _box(self, box: WindowBox) -> str:
        rects = []
        for extent in box.extents:
            low, high = self.x(extent.low), self.x(extent.high)
            open_still = box.closed_row is None and extent.last_row == box.extents[-1].last_row
            top, bottom = 0.0 if open_still else self.y(extent.last_row), self.y(extent.first_row)
            size = {"width": max(high - low, 4.0) + 2, "height": max(bottom - top, 6.0)}
            rects.append(element("rect", x=low - 1, y=top, rx=3, **size))
        return element(
            "g",
            *rects,
            class_="box" if box.numbers else "box waiting",
            data_windows=" ".join(map(str, box.numbers)),
            data_opened=box.opened_row,
            data_closed=box.closed_row,
        )

    def _line(self, kind: str, line: Line) -> str:
        """Returns a staircase that continues to the last row; the ideal line goes straight from point to point."""
        if not line.points or self.picture.by_arrival:
            return ""
        (row, at), *others = line.points
        path_data = f"M{self.x(at):.1f} {self.y(row):.1f}"
        if kind == "ideal":
            path_data += "".join(f"L{self.x(at):.1f} {self.y(row):.1f}" for row, at in others)
        else:
            path_data = f"M0 {self.y(row):.1f}H{self.x(at):.1f}" if kind == "watermark" else path_data
            path_data += "".join(f"V{self.y(row):.1f}H{self.x(at):.1f}" for row, at in others) + "V0"
        points = json.dumps([[row, None if at == FOREVER else at] for row, at in line.points])
        return element("path", class_=f"line {kind}", data_line=source_name(line.name), data_points=points, d=path_data)

    def _event(self, moment: RunMoment, outcome: EventOutcome) -> str:
        y = self.y(moment.number)
        x = 12.0 if moment.at is None else self.x(moment.at)
        parts = [glyph(outcome, x, y)]
        if outcome is EventOutcome.ADJUSTED and moment.own_time is not None and moment.own_time != moment.at:
            parts.insert(0, self._shift_line("adjusted", self.x(moment.own_time), x, y))
        if moment.micros_late is not None and moment.mark is not None:
            end = self.x(moment.mark)
            parts.insert(0, self._shift_line("late", end, x, y))
            words = f"{Duration(moment.micros_late)} late" if moment.micros_late else "late"
            parts.append(self._beside("late-by", words, x - 4, end, y))
        return element(
            "g",
            self.title(moment),
            element("rect", class_="hit", x=x - 11, y=y - 11, width=22, height=22),
            *parts,
            class_="event",
            data_row=moment.number,
            data_event=moment.event,
            data_fate=outcome.value,
            data_at=moment.at,
        )

    def _shift_line(self, kind: str, end: float, x: float, y: float) -> str:
        return element("path", class_=f"way {kind}", d=f"M{x:.1f} {y:.1f}H{end:.1f}M{end:.1f} {y - 4:.1f}v8")

    def _beside(self, kind: str, words: str, low: float, high: float, y: float) -> str:
        """Returns words to the right or left of the range from ``low`` to ``high``; empty if there is no room."""
        length = 8 + len(words) * LABEL_LETTER_WIDTH
        if high + length < self.x.width:
            return element("text", words, class_=kind, x=high + 7, y=y + 4)
        if low < length:
            return ""
        return element("text", words, class_=kind, x=low - 7, y=y + 4, text_anchor="end")

    def _firing(self, moment: RunMoment, number: int) -> str:
        window, y, box = self.picture.trace.windows[number], self.y(moment.number), self.boxes.get(number)
        low, high = (0.0, 0.0) if box is None else (self.x(box.low), self.x(box.high))
        names = known_ids(window["events"])
        new = set(known_ids(window["new"]) or names)
        names = names if len(names) <= _MEMBERS else [*names[: _MEMBERS - 10], *names[-10:]]
        dots = [
            element("circle", class_="new" if name in new else "again", cx=self.x(self.positions[name]), cy=y, r=3.4)
            for name in names
            if name in self.positions
        ]
        pane = window.get("pane")
        words = f"#{number}{' ' + pane['timing'].replace('_', ' ') if pane else ''}"
        return element(
            "g",
            self.title(moment),
            element("rect", class_="hit", x=low - 4, y=y - 11, width=high - low + 8, height=22),
            element("rect", class_="bar", x=low - 1, y=y - 4, width=max(high - low, 6.0) + 2, height=8, rx=4),
            *dots,
            self._beside("number", words, low, high, y),
            class_="firing early" if pane and not pane["last"] else "firing",
            data_row=moment.number,
            data_window=number,
            data_events=json.dumps(window["events"]),
            data_start=window["start"],
            data_end=window["end"],
        )

    def _row(self, moment: RunMoment) -> str:
        y, width = self.y(moment.number), self.x.width
        return element(
            "g",
            self.title(moment),
            element("rect", class_="hit", x=0, y=y - 11, width=width, height=22),
            element("path", d=f"M0 {y:.1f}H{width}"),
            class_=f"tick-row {moment.kind}",
            data_row=moment.number,
        )


# A picture as SVG, in three parts that a page puts side by side: the row labels, the plot, and its axis.


AXIS = 46
"""Height of the axis with its labels, in pixels."""
_LABEL = 30
"""Most characters of a row's label."""
_FIRED_BY: dict[str, str] = {FiredBy.MOMENT: " at a moment", FiredBy.ARRIVAL: " at an arrival"}
"""Words for a window that a user's trigger fired other than at a tracked event."""
_REJECTED = (EventOutcome.LATE, EventOutcome.DROPPED, EventOutcome.EARLY, EventOutcome.INVALID)


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


def draw(picture: Picture, *, with_stories: bool = False) -> Drawing:
    """Returns the picture as SVG. ``with_stories``: True to add the text of each row as a title, which a pointer
    shows."""
    height = (len(picture.moments) + 1) * ROW
    plot = Plot(picture, height, with_stories=with_stories)
    names = [_row_name(picture, moment) for moment in picture.moments]
    gutter = max(round(min(max(map(len, names), default=8), _LABEL) * LABEL_LETTER_WIDTH) + 22, 124)
    labels = "".join(
        element(
            "g",
            plot.title(moment),
            element(
                "text",
                escaped(name),
                class_=_label_class(moment),
                x=gutter - 10,
                y=plot.y(moment.number) + 4,
                text_anchor="end",
            ),
            class_="row",
            data_row=moment.number,
        )
        for moment, name in zip(picture.moments, names, strict=True)
    )
    return Drawing(labels, plot.draw(), "".join(_axis(picture)), gutter, picture.scale.width, height)


def _row_name(picture: Picture, moment: RunMoment) -> str:
    """Returns the name of a row: its clock time if that has moved, and the kind of moment."""
    before = picture.moments[moment.number - 1].clock if moment.number else None
    clock = "" if moment.clock in (None, before) else f"{picture.show(moment.clock or 0)} "
    match moment.kind:
        case "event":
            return shorten(f"{clock}{moment.event}", _LABEL)
        case "window":
            window = picture.trace.windows[moment.window or 0]
            pane, by = window.get("pane"), window.get("by", "")
            timing = f" {pane['timing'].replace('_', ' ')}" if pane else _FIRED_BY.get(by, "")
            if by == FiredBy.CLOSE and moment.watermark not in (None, FOREVER):
                timing = ", key forgotten"
            return shorten(f"{clock}#{moment.window} fires{timing}", _LABEL)
        case "close":
            return f"{clock}the streams end"
        case "end":
            return "end of the run"
        case "clock":
            return clock.strip() or "clock"
    return f"{clock}{moment.kind}"


def _label_class(moment: RunMoment) -> str:
    kind = (
        "turned"
        if moment.outcome in _REJECTED
        else "quiet"
        if moment.outcome is EventOutcome.ELSEWHERE
        else moment.kind
    )
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


# A run as one SVG file: its pictures below each other, each with its legend.


_PAD, _LINE = 16, 20
_NARROWEST = 700
_STORIES = 6
"""Most events that are described below a picture."""
_TEXT_LETTER_WIDTH, _BOLD_LETTER_WIDTH = 7.1, 7.6
"""Width of a letter at 12 pixels in the widest fonts that draw it, such as DejaVu Sans."""
_TEXT = 44
"""Position where the text beside a sign begins."""


def svg(scenario: Scenario, answer: ReplayResult, palette: Mapping[str, str] | None = None) -> str:
    """Returns the run as SVG. ``palette``: fixed colours; without it the file follows the viewer's colour scheme."""
    all_pictures = pictures(scenario, answer)
    drawings = [draw(picture, with_stories=True) for picture in all_pictures]
    width = max([_NARROWEST, *(drawing.gutter + drawing.width for drawing in drawings)]) + 2 * _PAD
    parts, height = [], float(_PAD)
    for part, room in _svg_parts(answer, all_pictures, drawings, width):
        parts.append(f"<g transform='translate({_PAD} {height:.0f})'>{part}</g>")
        height += room
    style = plain_style(palette or LIGHT)
    if palette is None:
        style += f"@media (prefers-color-scheme:dark){{{plain_style(DARK)}}}"
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' class='wb' role='img' width='{width}' height='{height + _PAD:.0f}' "
        f"viewBox='0 0 {width} {height + _PAD:.0f}'><title>{escaped(answer.name)}</title>"
        f"<style>{style}</style><rect class='surface' width='{width}' height='{height + _PAD:.0f}'/>"
        f"{''.join(parts)}</svg>\n"
    )


def _svg_parts(
    answer: ReplayResult, all_pictures: Sequence[Picture], drawings: Sequence[Drawing], width: int
) -> Iterator[tuple[str, float]]:
    """Yields each part with its height."""
    letters, beside = _letters(width), _letters(width - _TEXT)
    verdict = {True: ("as expected", "good"), False: ("not as expected", "bad"), None: ("", "")}[answer.ok]
    yield (
        f"<text class='title' y='14'>{escaped(answer.name)}<tspan class='{verdict[1]}' dx='12' font-size='13'>"
        f"{verdict[0]}</tspan></text>",
        26,
    )
    for difference in answer.differences[:8]:
        yield f"<text class='bad' y='12'>{escaped(difference, letters)}</text>", _LINE
    for picture, drawing in zip(all_pictures, drawings, strict=True):
        if len(all_pictures) > 1:
            yield f"<text class='bolt' y='18'>{escaped(picture.bolt)}</text>", 28
        for line in wrap(how_to_read(picture), letters):
            yield f"<text class='quietly' y='13'>{escaped(line)}</text>", 18
        up = {"x": drawing.gutter - 10, "y": drawing.height + 38, "text_anchor": "end"}
        axis = element("g", drawing.axis, transform=f"translate(0 {drawing.height})")
        plot = element("g", drawing.plot, axis, transform=f"translate({drawing.gutter} 0)")
        name = element("text", "processing time ↑", class_="name", **up)
        yield element("g", drawing.labels, plot, name, transform="translate(0 6)"), drawing.height + AXIS + 14
        yield from _unusual_stories(picture, _letters(width - _TEXT, _BOLD_LETTER_WIDTH))
        for sample, name, meaning in legend(picture):
            lines = wrap(f"{name}: {meaning}", beside)
            text = "".join(
                f"<tspan x='{_TEXT}' dy='{0 if number == 0 else 15}'>{escaped(line)}</tspan>"
                for number, line in enumerate(lines)
            )
            yield f"{sample}<text y='14'>{text}</text>", 7.0 + 15 * len(lines)
        yield "", 10


def _letters(width: float, letter: float = _TEXT_LETTER_WIDTH) -> int:
    """Returns how many letters fit into this width."""
    return int((width - 2 * _PAD) / letter)


def _unusual_stories(picture: Picture, letters: int) -> Iterator[tuple[str, float]]:
    """Yields texts about the first events with an unusual outcome."""
    unusual = [moment for moment in picture.moments if moment.outcome is not None and moment.outcome.is_unusual]
    for moment in unusual[:_STORIES]:
        lines = wrap(picture.stories[moment.number], letters)
        spans = [element("tspan", escaped(line), x=_TEXT, dy=0 if at == 0 else 15) for at, line in enumerate(lines)]
        label = element("text", *spans, class_="told", y=14)
        yield element("g", glyph(moment.outcome or EventOutcome.LATE, 17, 10), label), 9.0 + 15 * len(lines)
    if len(unusual) > _STORIES:
        yield element("text", f"and {len(unusual) - _STORIES} more", class_="quietly", x=_TEXT, y=14), 22
    if unusual:
        yield "", 10


# A run as an image: its SVG, drawn by resvg.


_ZOOM = 2
"""Pixels of the image for each pixel of the SVG, for high-resolution screens."""


def check_png() -> None:
    """Raises ConfigError if the package that draws images is missing."""
    if find_spec("resvg_py") is None:
        raise ConfigError(
            "--png needs the package resvg_py",
            why="it turns SVG into an image, and is not part of a plain installation",
            do="pip install 'windbolt[png]', or write --svg or --html",
        )


def png(scenario: Scenario, answer: ReplayResult) -> bytes:
    """Returns the run as PNG, in light colours. Raises ConfigError if the package that draws images is missing."""
    check_png()
    import resvg_py

    return bytes(resvg_py.svg_to_bytes(svg_string=svg(scenario, answer, LIGHT), zoom=_ZOOM))


# The part of a page about one bolt: its picture, controls for stepping, texts, and the legend.


_MOST_TOLD = 60
"""Most events that are described beside a picture; the rest are in the list of all moments."""
_STEPS = (
    ("first", "|◀", "to the start (Home)"),
    ("back", "◀", "one step back (←)"),
    ("play", "▶ play", "play and pause (space)"),
    ("next", "▶", "one step on (→)"),
    ("last", "▶|", "to the end (End)"),
)
_ZOOMS = (("smaller", "−", "smaller (-)"), ("fit", "fit", "the whole picture (0)"), ("larger", "+", "larger (+)"))
_KEYS = "Arrows left and right step through time, up and down go from row to row."


def panel(name: str, picture: Picture, *, alone: bool, first: bool) -> str:
    """Returns the HTML of one bolt. ``name``: unique on the page. ``alone``: True if it needs no tab."""
    story = element("p", class_="when"), element("p", class_="what")
    beside = element("div", *story, class_="story", aria_live="polite", aria_atomic="true")
    return element(
        "section",
        "" if alone else element("h2", f"bolt {escaped(picture.bolt)}", class_="bolt"),
        element("p", escaped(picture.trace.description, 2000), class_="rules"),
        element("p", escaped(summary(picture)), " ", how_to_read(picture), class_="how"),
        _controls(len(picture.moments) - 1),
        element(
            "div",
            _chart(name, picture, draw(picture)),
            element("div", beside, _unusual(picture), class_="beside"),
            _legend(picture),
            class_="stage",
        ),
        _all_that_happened(picture),
        class_="picture",
        id=f"p{name}",
        data_bolt=picture.bolt,
        role=None if alone else "tabpanel",
        aria_labelledby=None if alone else f"t{name}",
        hidden=not first,
    )


def summary(picture: Picture) -> str:
    """Describes the picture by numbers of events and windows."""
    counts = {outcome: sum(moment.outcome is outcome for moment in picture.moments) for outcome in EventOutcome}
    events = ", ".join(f"{count} {outcome.word}" for outcome, count in counts.items() if count)
    total, windows = sum(counts.values()), len(picture.trace.windows)
    happened = f"{total} event{'' if total == 1 else 's'} ({events})" if total else "No events"
    return f"{happened}; {windows} window{'' if windows == 1 else 's'} fired."


def _controls(last: int) -> str:
    def button(do: str, sign: str, meaning: str) -> str:
        return element("button", sign, type_="button", data_do=do, title=meaning, aria_label=meaning)

    slider = {"class_": "moment", "type_": "range", "min_": 0, "max_": max(last, 0), "value": max(last, 0)}
    options = element("option", "event", value="row"), element("option", "batch", value="batch")
    return element(
        "div",
        *(button(*step) for step in _STEPS),
        element("input", **slider, aria_label="moment"),
        element("label", "step by ", element("select", *options, class_="by")),
        element("span", *(button(*zoom) for zoom in _ZOOMS), class_="zoom"),
        class_="controls",
        role="group",
        aria_label="step through the run",
    )


def _chart(name: str, picture: Picture, drawing: Drawing) -> str:
    """Returns the three parts in a scrolling box that keeps labels and axis visible."""
    gutter, width, height = drawing.gutter, drawing.width, drawing.height
    labels = _clipped(f"l{name}", gutter, height, drawing.labels)
    plot = _clipped(f"c{name}", width, height, drawing.plot) + element("path", class_="now", d=f"M0 0H{width}")
    parts = (
        _svg_element("labels", gutter, height, labels),
        _svg_element("plot", width, height, plot),
        element("div", "processing time ↑", class_="corner"),
        _svg_element("bottom", width, AXIS, drawing.axis),
    )
    return element(
        "div",
        element("div", *parts, class_="sheet"),
        class_="chart",
        tabindex=0,
        role="group",
        aria_roledescription="picture of time",
        aria_label=f"{summary(picture)} {_KEYS}",
    )


def _svg_element(kind: str, width: int, height: int, content: str) -> str:
    size = {"width": width, "height": height, "data_width": width, "data_height": height}
    return element("svg", content, class_=f"wb {kind}", aria_hidden="true", viewBox=f"0 0 {width} {height}", **size)


def _clipped(name: str, width: int, height: int, content: str) -> str:
    """Returns a drawing whose part above a row is hidden; the page's script moves this edge."""
    rect = element("rect", class_="upto", width=width, height=height)
    return element("clipPath", rect, id=name) + element("g", content, clip_path=f"url(#{name})")


def _unusual(picture: Picture) -> str:
    moments = [moment for moment in picture.moments if moment.outcome is not None and moment.outcome.is_unusual]
    if not moments:
        return ""
    unusual = [
        element(
            "li",
            element(
                "button",
                escaped(picture.stories[moment.number], 2000),
                type_="button",
                class_=f"to {moment.outcome.value if moment.outcome else ''}",
                data_row=moment.number,
            ),
        )
        for moment in moments[:_MOST_TOLD]
    ]
    more = element("p", f"and {len(moments) - _MOST_TOLD} more", class_="dim") if len(moments) > _MOST_TOLD else ""
    return element(
        "section", element("h3", "What went otherwise, and why"), element("ul", *unusual), more, class_="unusual"
    )


def _legend(picture: Picture) -> str:
    rows = [
        element(
            "div",
            element(
                "dt",
                element("svg", sample, class_="wb", aria_hidden="true", width=34, height=20, viewBox="0 0 34 20"),
                escaped(name),
            ),
            element("dd", escaped(meaning)),
        )
        for sample, name, meaning in legend(picture)
    ]
    return element("section", element("h3", "What the signs mean"), element("dl", *rows), class_="legend")


def _all_that_happened(picture: Picture) -> str:
    """Returns a description of every moment: the picture as text, from which the script takes its texts."""
    stories = [
        element(
            "li",
            escaped(story, 4000),
            data_row=moment.number,
            data_kind=moment.kind,
            data_batch=moment.batch,
            data_watermark="end" if moment.watermark == FOREVER else moment.watermark,
            data_clock=moment.clock,
        )
        for moment, story in zip(picture.moments, picture.stories, strict=True)
    ]
    title = f"All that happened, in words ({len(stories)} rows)"
    return element("details", element("summary", title), element("ol", *stories), class_="all")


# Runs on one HTML page that needs no network and no other file: pictures to look at, and to step through.


_ROWS = 200
"""Most displayed rows of a sink."""
_VERDICTS = {
    True: ("good", "✓", "as expected"),
    False: ("bad", "✗", "not as expected"),
    None: ("none", "–", "nothing expected"),
}
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
"""Content policy that tells browsers to fetch nothing."""
_THEMES = {"": "as the system", "light": "light", "dark": "dark"}


@dataclass(frozen=True)
class PageItem:
    """A scenario on the page; ``trace``: the traceback of a scenario without a result."""

    scenario: Scenario
    answer: ReplayResult
    place: str = ""
    trace: str = ""


def page(items: Sequence[PageItem]) -> str:
    """Returns the runs as HTML. One is shown at a time; if there are several, it is chosen from a list."""
    title = items[0].answer.name if len(items) == 1 else f"{len(items)} scenarios"
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name_="viewport", content="width=device-width,initial-scale=1"),
        element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        element("title", f"{escaped(title)} · windbolt replay"),
        element("style", _style()),
    )
    body = element(
        "body",
        _header(items),
        element("main", *(_article(number, item) for number, item in enumerate(items))),
        element("script", asset("page.js")),
    )
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"


def _style() -> str:
    return f"{page_colours()}{asset('picture.css')}{asset('page.css')}"


def _header(items: Sequence[PageItem]) -> str:
    choice = ""
    if len(items) > 1:
        names = [f"{_VERDICTS[item.answer.ok][1]} {item.answer.name}" for item in items]
        options = [element("option", escaped(name), value=number) for number, name in enumerate(names)]
        failed = sum(item.answer.ok is False for item in items)
        heading = f"{len(items)} scenarios{f', {failed} not as expected' if failed else ''} "
        choice = element("label", heading, element("select", *options, id="choice"), class_="choice")
    themes = [element("option", name, value=value) for value, name in _THEMES.items()]
    theme = element("label", "colours ", element("select", *themes, id="theme"), class_="theme")
    return element("header", element("span", "windbolt replay", class_="brand"), choice, theme, class_="top")


def _article(number: int, item: PageItem) -> str:
    answer = item.answer
    shown = [] if item.trace else pictures(item.scenario, answer)
    kind, sign, words = _VERDICTS[answer.ok]
    verdict = element("span", f"{sign} {words}", class_=f"verdict {kind}")
    return element(
        "article",
        element("h1", f"{escaped(answer.name)} ", verdict),
        element("p", escaped(item.place), class_="place") if item.place else "",
        _differences(answer),
        element("pre", escaped(item.trace, 20_000), class_="traceback") if item.trace else "",
        _tabs(number, shown) if len(shown) > 1 else "",
        *(panel(f"{number}-{at}", each, alone=len(shown) == 1, first=at == 0) for at, each in enumerate(shown)),
        *_outcome(answer),
        element(
            "script", json.dumps(answer.to_json()).replace("<", "\\u003c"), type_="application/json", class_="answer"
        ),
        class_="scenario",
        data_scenario=number,
        hidden=number > 0,
    )


def _differences(answer: ReplayResult) -> str:
    if not answer.differences:
        return ""
    differences = [element("li", escaped(difference, 2000)) for difference in answer.differences]
    return element(
        "section", element("h2", "What is not as expected"), element("ul", *differences), class_="differences"
    )


def _tabs(number: int, shown: Sequence[Picture]) -> str:
    tabs = [
        element(
            "button",
            escaped(each.bolt),
            role="tab",
            id=f"t{number}-{at}",
            aria_controls=f"p{number}-{at}",
            aria_selected="true" if at == 0 else "false",
            tabindex=0 if at == 0 else -1,
        )
        for at, each in enumerate(shown)
    ]
    return element("div", *tabs, role="tablist", aria_label="bolts")


def _outcome(answer: ReplayResult) -> Iterator[str]:
    """Yields the accounts, and the rows of the sinks."""
    if answer.counts:
        parts = " + ".join(f"{answer.counts[name]:,} {name}" for name in WHEREABOUTS if answer.counts.get(name)) or "0"
        sum_ = element("p", f"received {answer.counts.get('received', 0):,} = {parts}")
        yield element("section", element("h3", "What happened to all events"), sum_, class_="accounts")
    for name, rows in answer.outputs.items():
        columns = list(dict.fromkeys(column for row in rows for column in row))
        cells = [[plain_json(row.get(column)) for column in columns] for row in rows[:_ROWS]]
        shown = element("div", table(columns, cells), class_="scroll") if rows else ""
        more = element("p", f"and {len(rows) - _ROWS:,} more", class_="dim") if len(rows) > _ROWS else ""
        title = f"sink {escaped(name)}: {len(rows):,} row{'' if len(rows) == 1 else 's'}"
        yield element("details", element("summary", title), shown, more, class_="sink")
