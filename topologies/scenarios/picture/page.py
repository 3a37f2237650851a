"""Runs as one page of HTML that needs no network and no other file: pictures to look at, and to step through."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from topologies.graph.html import element, escaped, page_colours, table
from topologies.scenarios.moments import Fate
from topologies.scenarios.picture.picture import Picture, pictures
from topologies.scenarios.picture.svg import AXIS, Drawing, asset, drawn, how_to_read, legend
from topologies.scenarios.scenario_answer import Replayed, plain
from topologies.scenarios.scenario_model import Scenario
from topologies.scenarios.scenario_values import WHEREABOUTS
from windowing.timestamps import FOREVER

# The part of a page that shows one bolt: its picture, what steps through it, the stories, and the legend.


_TOLD = 60
"""Maximum number of events described beside a picture; the rest are in the list of everything that happened."""
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
    """Returns the HTML of one bolt. ``name`` is unique on the page; ``alone``: it needs no tab."""
    story = element("p", class_="when"), element("p", class_="what")
    beside = element("div", *story, class_="story", aria_live="polite", aria_atomic="true")
    return element(
        "section",
        "" if alone else element("h2", f"bolt {escaped(picture.bolt)}", class_="bolt"),
        element("p", escaped(picture.trace.rules, 2000), class_="rules"),
        element("p", escaped(summary(picture)), " ", how_to_read(picture), class_="how"),
        _controls(len(picture.moments) - 1),
        element(
            "div",
            _chart(name, picture, drawn(picture)),
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
    counts = {fate: sum(moment.fate is fate for moment in picture.moments) for fate in Fate}
    events = ", ".join(f"{count} {fate.word}" for fate, count in counts.items() if count)
    total, windows = sum(counts.values()), len(picture.trace.windows)
    told = f"{total} event{'' if total == 1 else 's'} ({events})" if total else "No events"
    return f"{told}; {windows} window{'' if windows == 1 else 's'} fired."


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
    """Returns the three parts in a box that scrolls, so that labels and axis stay visible."""
    gutter, width, height = drawing.gutter, drawing.width, drawing.height
    labels = _clipped(f"l{name}", gutter, height, drawing.labels)
    plot = _clipped(f"c{name}", width, height, drawing.plot) + element("path", class_="now", d=f"M0 0H{width}")
    parts = (
        _part("labels", gutter, height, labels),
        _part("plot", width, height, plot),
        element("div", "processing time ↑", class_="corner"),
        _part("bottom", width, AXIS, drawing.axis),
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


def _part(kind: str, width: int, height: int, content: str) -> str:
    size = {"width": width, "height": height, "data_width": width, "data_height": height}
    return element("svg", content, class_=f"wb {kind}", aria_hidden="true", viewBox=f"0 0 {width} {height}", **size)


def _clipped(name: str, width: int, height: int, content: str) -> str:
    """Makes a drawing that is hidden above a row; the script moves the edge."""
    rect = element("rect", class_="upto", width=width, height=height)
    return element("clipPath", rect, id=name) + element("g", content, clip_path=f"url(#{name})")


def _unusual(picture: Picture) -> str:
    moments = [moment for moment in picture.moments if moment.fate is not None and moment.fate.is_unusual]
    if not moments:
        return ""
    told = [
        element(
            "li",
            element(
                "button",
                escaped(picture.stories[moment.number], 2000),
                type_="button",
                class_=f"to {moment.fate.value if moment.fate else ''}",
                data_row=moment.number,
            ),
        )
        for moment in moments[:_TOLD]
    ]
    more = element("p", f"and {len(moments) - _TOLD} more", class_="dim") if len(moments) > _TOLD else ""
    return element(
        "section", element("h3", "What went otherwise, and why"), element("ul", *told), more, class_="unusual"
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
    """Returns every moment in words: the picture as text; the script takes its stories from here."""
    told = [
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
    title = f"All that happened, in words ({len(told)} rows)"
    return element("details", element("summary", title), element("ol", *told), class_="all")


# Runs as one page of HTML that needs no network and no other file: pictures to look at, and to step through.


_ROWS = 200
"""Maximum number of rows shown of a sink."""
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
    """A scenario on the page; ``trace`` is the traceback of a scenario without an answer."""

    scenario: Scenario
    answer: Replayed
    place: str = ""
    trace: str = ""


def page(items: Sequence[PageItem]) -> str:
    """Returns the runs as HTML: one is shown at a time; where there are several, it is chosen from a list."""
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
        told = f"{len(items)} scenarios{f', {failed} not as expected' if failed else ''} "
        choice = element("label", told, element("select", *options, id="choice"), class_="choice")
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


def _differences(answer: Replayed) -> str:
    if not answer.differences:
        return ""
    told = [element("li", escaped(difference, 2000)) for difference in answer.differences]
    return element("section", element("h2", "What is not as expected"), element("ul", *told), class_="differences")


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


def _outcome(answer: Replayed) -> Iterator[str]:
    """Yields the accounts, and the rows of the sinks."""
    if answer.counts:
        parts = " + ".join(f"{answer.counts[name]:,} {name}" for name in WHEREABOUTS if answer.counts.get(name)) or "0"
        sum_ = element("p", f"received {answer.counts.get('received', 0):,} = {parts}")
        yield element("section", element("h3", "What happened to all events"), sum_, class_="accounts")
    for name, rows in answer.outputs.items():
        columns = list(dict.fromkeys(column for row in rows for column in row))
        cells = [[plain(row.get(column)) for column in columns] for row in rows[:_ROWS]]
        shown = element("div", table(columns, cells), class_="scroll") if rows else ""
        more = element("p", f"and {len(rows) - _ROWS:,} more", class_="dim") if len(rows) > _ROWS else ""
        title = f"sink {escaped(name)}: {len(rows):,} row{'' if len(rows) == 1 else 's'}"
        yield element("details", element("summary", title), shown, more, class_="sink")
