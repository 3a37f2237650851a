"""The plot of a picture as SVG: boxes of windows, the watermark, firings and events."""

from __future__ import annotations

import json
from collections.abc import Iterator

from topologies.html.element import element, escaped
from topologies.scenarios.picture.boxes import WindowBox
from topologies.scenarios.picture.lines import Line
from topologies.scenarios.picture.picture import Picture
from topologies.scenarios.picture.scale import BREAK
from topologies.scenarios.picture.shapes import mark
from topologies.scenarios.picture.story import source_name
from topologies.scenarios.run.fates import Fate
from topologies.scenarios.run.moments import RunMoment, known_ids
from windowing.time.durations import Duration
from windowing.time.timestamps import FOREVER

ROW = 24
"""Pixels: the height of a row."""
LETTER = 6.6
"""Pixels: the width of a letter on average."""
_MANY = 12
"""From more inputs or partitions on, their lines are fainter."""
_MEMBERS = 80
"""Maximum number of events of a firing drawn on its bar; of more, the first and the last are drawn."""


class Plot:
    """Draws the plot of one picture."""

    def __init__(self, picture: Picture, height: int, *, told: bool) -> None:
        self.picture, self.height, self.told = picture, height, told
        self.x = picture.scale
        self.boxes = {number: box for box in picture.boxes for number in box.windows}
        known = [moment for moment in picture.moments if moment.fate not in (None, Fate.DUPLICATE)]
        self.places = {moment.event: moment.at for moment in known if moment.at is not None}

    def y(self, row: float) -> float:
        """The middle of a row: later ones are higher."""
        return self.height - (row + 1) * ROW

    def drawn(self) -> str:
        """All of it, from the ground up."""
        picture = self.picture
        many = " many" if len(picture.sources) > _MANY else ""
        parts = [
            *self._grid(),
            *self._passed(),
            *(self._box(box) for box in picture.boxes),
            self._line("ideal", picture.ideal),
            *(self._line(f"source s{number % 4}{many}", line) for number, line in enumerate(picture.sources)),
            self._line("watermark", picture.watermark),
            *(self._row(moment) for moment in picture.moments if moment.kind not in ("event", "window")),
            *(self._firing(moment, moment.window) for moment in picture.moments if moment.window is not None),
            *(self._event(moment, moment.fate) for moment in picture.moments if moment.fate is not None),
        ]
        return "".join(parts)

    def title(self, moment: RunMoment) -> str:
        """The story of a row, for viewers that show it under a pointer."""
        return element("title", escaped(self.picture.stories[moment.number], 2000)) if self.told else ""

    def _grid(self) -> Iterator[str]:
        for x, _ in self.x.ticks(self.picture.show):
            yield element("path", class_="grid", d=f"M{x:.1f} 0V{self.height}")
        for x in self.x.breaks:
            yield element("rect", class_="gap", x=x, y=0, width=BREAK, height=self.height)

    def _passed(self) -> Iterator[str]:
        """What lies behind the watermark."""
        points = self.picture.watermark.points
        if points and not self.picture.by_arrival:
            way = "".join(f"V{self.y(row):.1f}H{self.x(at):.1f}" for row, at in points)
            yield element("path", class_="passed", d=f"M0 {self.y(points[0][0]):.1f}{way}V0H0Z")

    def _box(self, box: WindowBox) -> str:
        rects = []
        for extent in box.extents:
            low, high = self.x(extent.low), self.x(extent.high)
            open_still = box.closed is None and extent.last == box.extents[-1].last
            top, bottom = 0.0 if open_still else self.y(extent.last), self.y(extent.first)
            size = {"width": max(high - low, 4.0) + 2, "height": max(bottom - top, 6.0)}
            rects.append(element("rect", x=low - 1, y=top, rx=3, **size))
        return element(
            "g",
            *rects,
            class_="box" if box.windows else "box waiting",
            data_windows=" ".join(map(str, box.windows)),
            data_opened=box.opened,
            data_closed=box.closed,
        )

    def _line(self, kind: str, line: Line) -> str:
        """A staircase that continues to the last row; the ideal goes straight from point to point."""
        if not line.points or self.picture.by_arrival:
            return ""
        (row, at), *others = line.points
        way = f"M{self.x(at):.1f} {self.y(row):.1f}"
        if kind == "ideal":
            way += "".join(f"L{self.x(at):.1f} {self.y(row):.1f}" for row, at in others)
        else:
            way = f"M0 {self.y(row):.1f}H{self.x(at):.1f}" if kind == "watermark" else way
            way += "".join(f"V{self.y(row):.1f}H{self.x(at):.1f}" for row, at in others) + "V0"
        points = json.dumps([[row, None if at == FOREVER else at] for row, at in line.points])
        return element("path", class_=f"line {kind}", data_line=source_name(line.name), data_points=points, d=way)

    def _event(self, moment: RunMoment, fate: Fate) -> str:
        y = self.y(moment.number)
        x = 12.0 if moment.at is None else self.x(moment.at)
        parts = [mark(fate, x, y)]
        if fate is Fate.ADJUSTED and moment.own is not None and moment.own != moment.at:
            parts.insert(0, self._way("adjusted", self.x(moment.own), x, y))
        if moment.late_by is not None and moment.mark is not None:
            end = self.x(moment.mark)
            parts.insert(0, self._way("late", end, x, y))
            words = f"{Duration(moment.late_by)} late" if moment.late_by else "late"
            parts.append(self._beside("late-by", words, x - 4, end, y))
        return element(
            "g",
            self.title(moment),
            element("rect", class_="hit", x=x - 11, y=y - 11, width=22, height=22),
            *parts,
            class_="event",
            data_row=moment.number,
            data_event=moment.event,
            data_fate=fate.value,
            data_at=moment.at,
        )

    def _way(self, kind: str, end: float, x: float, y: float) -> str:
        return element("path", class_=f"way {kind}", d=f"M{x:.1f} {y:.1f}H{end:.1f}M{end:.1f} {y - 4:.1f}v8")

    def _beside(self, kind: str, words: str, low: float, high: float, y: float) -> str:
        """Words to the right of what reaches from ``low`` to ``high``, or to its left; none where there is no room."""
        length = 8 + len(words) * LETTER
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
            element("circle", class_="new" if name in new else "again", cx=self.x(self.places[name]), cy=y, r=3.4)
            for name in names
            if name in self.places
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
