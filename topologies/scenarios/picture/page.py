"""Runs as one page of HTML that needs no network and no other file: pictures to look at, and to step through."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from topologies.html.colours import DARK, FONT, LIGHT, variables
from topologies.html.element import element, escaped
from topologies.html.pieces import table
from topologies.scenarios.picture.panel import panel
from topologies.scenarios.picture.picture import Picture, pictures
from topologies.scenarios.picture.style import asset
from topologies.scenarios.run.scenario_answer import Replayed, plain
from topologies.scenarios.schema.expected import WHEREABOUTS
from topologies.scenarios.schema.scenario_model import Scenario

_ROWS = 200
"""Maximum number of rows shown of a sink."""
_VERDICTS = {
    True: ("good", "✓", "as expected"),
    False: ("bad", "✗", "not as expected"),
    None: ("none", "–", "nothing expected"),
}
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
"""Browsers are told to fetch nothing."""
_THEMES = {"": "as the system", "light": "light", "dark": "dark"}


@dataclass(frozen=True)
class PageItem:
    """A scenario on the page; ``trace`` is the traceback of one that has no answer."""

    scenario: Scenario
    answer: Replayed
    place: str = ""
    trace: str = ""


def page(items: Sequence[PageItem]) -> str:
    """The runs as HTML: one is shown at a time, and chosen from a list where there are several."""
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
    return (
        f":root{{color-scheme:light dark;--font:{FONT};{variables(LIGHT)}}}"
        f"@media (prefers-color-scheme:dark){{:root:not([data-theme=light]){{{variables(DARK)}}}}}"
        f":root[data-theme=dark]{{color-scheme:dark;{variables(DARK)}}}"
        f":root[data-theme=light]{{color-scheme:light}}"
        f"{asset('picture.css')}{asset('page.css')}"
    )


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
    """The accounts, and the rows of the sinks."""
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
