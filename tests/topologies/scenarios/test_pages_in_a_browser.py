"""Pages of pictures in a real browser: they load, step, tell stories, and are used by keyboard and on a phone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from tests.helpers.examples import sampled
from tests.helpers.places import ROOT
from topologies.scenarios.replay import replay_locally
from topologies.scenarios.scenario_model import LoadedScenario, load, read_scenario, with_topology_path
from topologies.scenarios.svg import PageItem, page, svg

START = 1_704_110_400_000
"""2024-01-01T12:00:00Z in milliseconds."""
LATE: dict[str, Any] = {
    "name": "one order came late",
    "bolt": {"length": "10s", "tumbling": True, "timestamp_field": "ts", "lag": "0s", "late_stream": "late"},
    "steps": [
        {"event": {"id": "a", "ts": START + 12_000}, "clock": START + 13_000},
        {"event": {"id": "b", "ts": START + 25_000}, "clock": START + 26_000},
        {"tick": "watermark"},
        {"event": {"id": "c", "ts": START + 15_000}, "clock": START + 31_000},
        {"close": True},
    ],
    "expect": {"late": ["c"]},
}
"""Rows: a, b, the tick, the window of a, c (late), the end of the streams, the window of b."""
LAST, LATE_ROW = 6, 4
IN_SIGHT = """selector => {
    const view = document.querySelector(".chart").getBoundingClientRect();
    const inside = (box) => box.top >= view.top && box.bottom <= view.bottom
        && box.left >= view.left - 1 && box.right <= view.right + 1;
    return [...document.querySelectorAll(selector)].some((each) => inside(each.getBoundingClientRect()));
}"""
Open = Callable[..., Page]


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Iterator[Open]:
    """Opens scenarios as a page; at the end it must have fetched nothing but itself, and have had no error."""
    contexts, errors, fetched = [], [], []

    def open_(*scenarios: dict[str, Any], address: str = "", **options: Any) -> Page:
        path = tmp_path / "page.html"
        read = [read_scenario(scenario) for scenario in scenarios]
        path.write_text(page([PageItem(scenario, replay_locally(scenario)) for scenario in read]), encoding="utf-8")
        return show(path, address, **options)

    def show(path: Path, address: str, **options: Any) -> Page:
        context = browser.new_context(**({"viewport": {"width": 1280, "height": 900}} | options))
        contexts.append(context)
        shown = context.new_page()
        shown.on("pageerror", lambda error: errors.append(str(error)))
        shown.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        shown.on("request", lambda request: fetched.append(request.url))
        shown.goto(path.as_uri() + address)
        return shown

    yield open_
    for context in contexts:
        context.close()
    assert errors == []
    assert {url.split("#")[0] for url in fetched} == {(tmp_path / "page.html").as_uri()}


def row(shown: Page) -> int:
    """The row up to which the picture is drawn."""
    return int(shown.input_value(".picture:not([hidden]) .moment"))


def story(shown: Page) -> str:
    return shown.inner_text(".picture:not([hidden]) .what")


def visible(shown: Page, name: str) -> bool:
    """Whether a pointer would meet the mark of an event: what has not happened is clipped away."""
    return bool(
        shown.evaluate(
            """name => {
                const mark = document.querySelector(`.plot .event[data-event="${name}"] .hit`);
                const box = mark.getBoundingClientRect();
                const met = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
                return met !== null && met.closest(".event")?.dataset.event === name;
            }""",
            name,
        )
    )


def test_it_loads_with_the_whole_run_in_sight(opened: Open) -> None:
    shown = opened(LATE)
    assert shown.inner_text("h1").startswith("one order came late")
    assert row(shown) == LAST
    assert all(visible(shown, name) for name in "abc")
    assert shown.inner_text(".unusual button").startswith("c has the time 12:00:15. It came at 12:00:31")
    assert "10s late" in str(shown.text_content(".plot"))


def test_it_steps_event_by_event(opened: Open) -> None:
    shown = opened(LATE)
    shown.click("[data-do=first]")
    assert (row(shown), visible(shown, "a"), visible(shown, "b")) == (0, True, False)
    shown.click("[data-do=next]")
    assert (row(shown), visible(shown, "b"), visible(shown, "c")) == (1, True, False)
    assert story(shown).startswith("b has the time 12:00:25.")
    shown.click("[data-do=back]")
    assert (row(shown), visible(shown, "b")) == (0, False)
    shown.click("[data-do=last]")
    assert (row(shown), visible(shown, "c")) == (LAST, True)
    shown.fill(".moment", "2")
    assert story(shown).startswith("Tick:")


def test_it_steps_batch_by_batch(opened: Open) -> None:
    shown = opened(LATE)
    batches = shown.eval_on_selector_all(".all li", "all => all.map(each => each.dataset.batch)")
    ends = [at for at, batch in enumerate(batches) if at == LAST or batches[at + 1] != batch]
    shown.click("[data-do=first]")
    shown.select_option(".by", "batch")
    seen = []
    while row(shown) < LAST:
        shown.click("[data-do=next]")
        seen.append(row(shown))
    assert seen == [end for end in ends if end > 0]
    assert len(seen) < LAST


def test_it_plays_and_pauses(opened: Open) -> None:
    shown = opened(LATE)
    shown.clock.install(time=0)
    shown.clock.pause_at(1)  # an installed clock goes on by itself, as fast as the real one
    shown.click("[data-do=play]")
    assert row(shown) == 0
    shown.clock.run_for(1500)
    assert row(shown) == 2
    shown.click("[data-do=play]")
    shown.clock.run_for(5000)
    assert row(shown) == 2
    shown.click("[data-do=play]")
    shown.clock.run_for(20_000)
    assert row(shown) == LAST
    assert shown.inner_text("[data-do=play]") == "▶ play"


def test_a_pointer_tells_the_story_of_an_event_and_lights_its_window(opened: Open) -> None:
    shown = opened(LATE)
    before = story(shown)
    shown.hover(".plot .event[data-event=c] .hit", force=True)
    assert "It was late by 10s" in story(shown)
    assert "when the watermark was 12:00:25" in story(shown)
    shown.hover(".plot .event[data-event=a] .hit", force=True)
    assert story(shown).endswith("It is in window #0 (12:00:10..12:00:20].")
    assert shown.locator(".plot .firing.hot").get_attribute("data-window") == "0"
    assert shown.locator(".plot .box.hot").get_attribute("data-windows") == "0"
    shown.hover("h1")
    assert story(shown) == before
    assert shown.locator(".hot").count() == 0


def test_a_reload_keeps_the_row_and_the_colours(opened: Open) -> None:
    shown = opened(LATE, color_scheme="light")
    ground = "getComputedStyle(document.body).backgroundColor"
    light = shown.evaluate(ground)
    shown.select_option("#theme", "dark")
    shown.click("[data-do=first]")
    shown.click("[data-do=next]")
    dark = shown.evaluate(ground)
    assert dark != light
    for _ in range(20):  # Chromium writes what a page stores a little later, and another process may show it again
        shown.reload()
        if shown.evaluate(ground) == dark:
            break
    assert (row(shown), shown.evaluate(ground)) == (1, dark)
    assert story(shown).startswith("b has the time")
    shown.select_option("#theme", "")
    assert shown.evaluate(ground) == light


@pytest.mark.parametrize("scheme", sampled(["dark", "light"], 2))
def test_it_follows_the_colours_of_the_system(opened: Open, scheme: Any) -> None:
    shown = opened(LATE, color_scheme=scheme)
    ground = shown.evaluate("getComputedStyle(document.body).backgroundColor")
    brightness = sum(int(part) for part in ground.removeprefix("rgb(").removesuffix(")").split(","))
    assert (brightness > 600) == (scheme == "light")


def test_the_keyboard_is_enough(opened: Open) -> None:
    shown = opened(LATE)
    reached = []
    for _ in range(20):
        shown.keyboard.press("Tab")
        reached.append(shown.evaluate("document.activeElement.className || document.activeElement.dataset.do || ''"))
        if reached[-1] == "chart":
            break
    assert reached[-1] == "chart", reached
    assert "moment" in reached
    assert shown.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    keys = {"Home": 0, "ArrowRight": 1, "PageDown": 2, "End": LAST, "ArrowLeft": LAST - 1}
    batches = shown.eval_on_selector_all(".all li", "all => all.map(each => Number(each.dataset.batch))")
    keys["PageDown"] = next(at for at in range(2, LAST + 1) if at == LAST or batches[at + 1] != batches[at])
    for key, wanted in keys.items():
        shown.keyboard.press(key)
        assert row(shown) == wanted, key
    shown.keyboard.press("ArrowDown")
    assert "It was late by 10s" in story(shown)
    assert shown.locator(".plot .event.chosen").get_attribute("data-event") == "c"
    assert row(shown) == LAST - 1
    shown.keyboard.press("Escape")
    assert shown.locator(".plot .event.chosen").count() == 0
    size = "Number(document.querySelector('.plot').getAttribute('width'))"
    width = shown.evaluate(size)
    shown.keyboard.press("+")
    assert shown.evaluate(size) > width
    shown.keyboard.press("0")
    assert shown.evaluate("c => c.scrollHeight <= c.clientHeight + 1", shown.query_selector(".chart"))


def test_what_is_not_as_expected_is_told(opened: Open) -> None:
    shown = opened({**LATE, "expect": {"late": []}}, LATE)
    assert "not as expected" in shown.inner_text("h1")
    assert "late: expected" in shown.inner_text(".differences")
    shown.select_option("#choice", "1")
    assert "✓ as expected" in shown.inner_text(".scenario:not([hidden]) h1")
    shown.reload()
    assert shown.input_value("#choice") == "1"


def test_bolts_are_chosen_by_tabs(browser: Browser, tmp_path: Path) -> None:
    path = ROOT / "tests" / "scenarios" / "streaminsight" / "operators_ctis.yaml"
    item = next(item for item in load(path) if isinstance(item, LoadedScenario))
    scenario = with_topology_path(item.scenario, path)
    target = tmp_path / "bolts.html"
    target.write_text(page([PageItem(scenario, replay_locally(scenario))]), encoding="utf-8")
    shown = browser.new_page()
    shown.goto(target.as_uri())
    names = shown.locator("[role=tab]").all_inner_texts()
    assert len(names) > 1
    shown.focus("[role=tab][aria-selected=true]")
    for name in [*names[1:], names[0]]:
        shown.keyboard.press("ArrowRight")
        assert shown.inner_text("[role=tab][aria-selected=true]") == name
        assert shown.locator(".picture:visible").get_attribute("data-bolt") == name
    shown.close()


def test_no_text_of_a_picture_alone_runs_over_its_edge(browser: Browser) -> None:
    """Long stories of late events, in bold letters."""
    steps = [
        {"event": {"id": f"e{at}", "ts": START + at * 3000 - 25_000 * (at % 3 == 0)}, "clock": START + at * 3000}
        for at in range(20)
    ]
    scenario = read_scenario({**LATE, "steps": [*steps, {"close": True}], "expect": {}})
    shown = browser.new_page()
    shown.set_content(svg(scenario, replay_locally(scenario)))
    width = shown.evaluate("document.querySelector('svg').viewBox.baseVal.width")
    ends = shown.evaluate(
        """() => [...document.querySelectorAll("svg text")].map((text) => {
            const left = document.querySelector("svg").getBoundingClientRect().left;
            return text.getBoundingClientRect().right - left;
        })"""
    )
    assert len(ends) > 30
    assert max(ends) < width - 4
    shown.close()


def test_a_phone_shows_all_of_it(opened: Open) -> None:
    shown = opened(LATE, viewport={"width": 390, "height": 844}, is_mobile=True, has_touch=True)
    assert shown.evaluate("document.scrollingElement.scrollWidth") <= 390
    for button in shown.locator(".controls button").all():
        box = button.bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 390
        assert box["height"] >= 40
    shown.click("[data-do=first]")
    for _ in range(LATE_ROW):
        shown.tap("[data-do=next]")
    assert "It was late by 10s" in story(shown)
    assert shown.evaluate(IN_SIGHT, ".plot .event[data-event=c] .hit"), "the step is not in sight"


CHANGES_OF_A_STEP = """(() => {
    const seen = new MutationObserver(() => {});
    seen.observe(document, {subtree: true, childList: true, attributes: true, characterData: true});
    document.querySelector('[data-do=back]').click();
    return seen.takeRecords().length;
})()"""
"""How many things a step back changes on the page."""


@pytest.mark.extended
def test_a_thousand_windows_are_usable(opened: Open) -> None:
    events = [{"event": {"id": f"e{at}", "ts": START + at * 10_000 + 3000}} for at in range(1000)]
    bolt = {"length": "10s", "tumbling": True, "timestamp_field": "ts", "watermark_every": 1}
    shown = opened({"name": "a thousand windows", "bolt": bolt, "steps": [*events, {"close": True}]})
    assert shown.locator(".plot .firing").count() == 1000
    assert row(shown) == 2000
    assert max(shown.evaluate(CHANGES_OF_A_STEP) for _ in range(10)) < 100, "a step touches what it does not change"
    shown.fill(".moment", "1000")
    here = shown.evaluate(IN_SIGHT, '.plot [data-row="1000"] .hit')
    assert here, "the row of the step is not in sight"
    width = shown.evaluate(
        "Math.min(...[...document.querySelectorAll('.plot .firing .bar')].map(e => e.getBBox().width))"
    )
    assert width >= 20, "windows are too narrow to be seen"
    shown.click("[data-do=fit]")
    assert shown.evaluate("c => c.scrollHeight <= c.clientHeight + 1", shown.query_selector(".chart"))


def test_a_hundred_partitions_have_a_line_each(opened: Open) -> None:
    names = [f"p{at:02}" for at in range(100)]
    events = [
        {"event": {"id": f"{turn}-{name}", "p": name, "ts": START + turn * 5000 + at * 37}}
        for turn in range(2)
        for at, name in enumerate(names)
    ]
    bolt = {
        "length": "10s",
        "tumbling": True,
        "timestamp_field": "ts",
        "watermark_every": 1,
        "watermark_partition": "p",
    }
    scenario = {"name": "a hundred partitions", "bolt": bolt, "partitions": names, "steps": [*events, {"close": True}]}
    shown = opened(scenario)
    lines = shown.eval_on_selector_all(".plot .line.source", "all => all.map(each => each.dataset.line)")
    assert sorted(line.removeprefix("s1 partition ") for line in lines) == names
    assert "and 96 more" in shown.inner_text(".legend")
    assert shown.locator(".plot .event").count() == 200
