"""Pictures of time hold what the trace holds: every event, every watermark, every firing. They fetch nothing."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.helpers.examples import sampled
from tests.helpers.places import ROOT
from tests.helpers.scenario_files import scenarios_of
from tests.topologies.scenarios.picture_parts import BoltPicture, Page
from topologies.graph.html import DARK, LIGHT
from topologies.scenarios.moments import EventOutcome
from topologies.scenarios.picture import Scale
from topologies.scenarios.replay import replay_locally
from topologies.scenarios.scenario_answer import ReplayResult
from topologies.scenarios.scenario_model import Scenario, read_scenario, scenario_files, with_topology_path
from topologies.scenarios.svg import PageItem, asset, glyph, page, png, svg
from windowing.timestamps import time_in_answer

FOLDER = ROOT / "tests" / "scenarios"
OF_A_FILE = 8
"""So many scenarios of a file are compared: those of Storm's recorded runs are many, and alike."""
TURNED_AWAY = {"late": "late", "dropped": "dropped", "early": "early", "duplicate": "duplicate", "invalid": "invalid"}
LATE = {
    "name": "late <b>& co</b>",
    "bolt": {"length": "10s", "tumbling": True, "timestamp_field": "ts", "lag": "0s", "late_stream": "late"},
    "steps": [
        {"event": {"id": "a", "ts": "2024-01-01T12:00:12Z"}, "clock": "2024-01-01T12:00:13Z"},
        {"event": {"id": "b", "ts": "2024-01-01T12:00:25Z"}, "clock": "2024-01-01T12:00:26Z"},
        {"tick": "watermark"},
        {"event": {"id": "c", "ts": "2024-01-01T12:00:15Z"}, "clock": "2024-01-01T12:00:31Z"},
        {"close": True},
    ],
    "expect": {"late": ["c"]},
}


def answered(path: Path) -> list[tuple[Scenario, ReplayResult]]:
    items = scenarios_of(path)[:OF_A_FILE]
    scenarios = [with_topology_path(item.scenario, item.place.path) for item in items]
    return [(scenario, replay_locally(scenario)) for scenario in scenarios]


def drawn(scenario: Scenario, answer: ReplayResult) -> list[BoltPicture]:
    return Page(page([PageItem(scenario, answer)])).pictures[0]


def late() -> tuple[Scenario, ReplayResult]:
    scenario = read_scenario(LATE)
    return scenario, replay_locally(scenario)


@pytest.mark.parametrize("path", sampled(scenario_files(FOLDER), 16, lambda path: path.relative_to(FOLDER).as_posix()))
def test_a_page_holds_what_replay_prints(path: Path) -> None:
    runs = answered(path)
    made = Page(page([PageItem(scenario, answer) for scenario, answer in runs]))
    assert made.addresses == []
    assert made.answers == [json.loads(json.dumps(answer.to_json())) for _, answer in runs]
    for (scenario, answer), shown in zip(runs, made.pictures, strict=True):
        every_window_fires_once(answer, shown)
        for picture in shown:
            every_event_stands_once(scenario, picture)
            every_row_is_told(picture)
        if len(shown) == 1:
            the_accounts_are_those_of_the_answer(answer, shown[0])
            the_watermark_goes_the_same_way(scenario, answer, shown[0])


def every_window_fires_once(answer: ReplayResult, shown: list[BoltPicture]) -> None:
    windows = answer.to_json()["windows"]
    firings = {int(mark.data["window"]): mark.data for picture in shown for mark in picture.firings}
    assert sorted(firings) == list(range(len(windows)))
    assert sum(len(picture.firings) for picture in shown) == len(windows)
    for number, window in enumerate(windows):
        data = firings[number]
        assert json.loads(data["events"]) == window["events"]
        for bound in ("start", "end"):
            assert (time_in_answer(int(data[bound])) if bound in data else None) == window[bound], (
                f"{bound} of #{number}"
            )


def every_event_stands_once(scenario: Scenario, picture: BoltPicture) -> None:
    names = Counter(mark.data["event"] for mark in picture.events)
    wanted = Counter(step.id for step in scenario.event_steps)
    assert wanted - names == Counter(), "an event of the scenario is not in the picture"
    assert scenario.topology or scenario.step or names == wanted, "the picture has an event that the scenario has not"
    if scenario.bolt is not None and scenario.is_event_time:
        times = {step.id: scenario.event_time(step) for step in scenario.event_steps}
        for mark in picture.events:
            if mark.data["fate"] in ("windowed", "late", "pending") and "at" in mark.data:
                at = int(mark.data["at"])
                assert at in (times[mark.data["event"]], *range(1, len(wanted) + 1)), mark.data


def every_row_is_told(picture: BoltPicture) -> None:
    rows = [int(mark.data["row"]) for mark in picture.told]
    assert rows == list(range(len(rows)))
    assert all(mark.text.strip() for mark in picture.told)
    assert {int(mark.data["row"]) for mark in picture.marks if "row" in mark.data} == set(rows)


def the_accounts_are_those_of_the_answer(answer: ReplayResult, picture: BoltPicture) -> None:
    outcomes = Counter(mark.data["fate"] for mark in picture.events)
    for account in TURNED_AWAY:
        if not answer.steps:
            assert outcomes[account] == answer.counts.get(account, 0), account


def the_watermark_goes_the_same_way(scenario: Scenario, answer: ReplayResult, picture: BoltPicture) -> None:
    """After each tick, each step of the clock and each event of the answer the picture has its watermark."""
    if not answer.traces[0].event_time:
        return
    for kind, wanted in (("tick", answer.watermarks), ("clock", answer.clocks)):
        told = [mark.data.get("watermark") for mark in picture.told if mark.data["kind"] == kind]
        assert len(told) == len(wanted)
        for found, at in zip(told, wanted, strict=True):
            assert at is None or found in (str(at), "end"), kind
    by_event = [mark.data.get("watermark") for mark in picture.told if mark.data["kind"] == "event"]
    if len(by_event) == len(answer.events):
        for found, event in zip(by_event, answer.events, strict=True):
            assert event["watermark"] is None or found == str(event["watermark"])
    lines = [mark for mark in picture.of("line") if "watermark" in mark.classes and "points" in mark.data]
    if lines:
        (line,) = lines
        rows = {int(mark.data["row"]): mark.data.get("watermark") for mark in picture.told}
        for row, at in json.loads(line.data["points"]):
            assert rows[row] == ("end" if at is None else str(at))


def test_a_late_event_is_told_so_that_one_understands() -> None:
    scenario, answer = late()
    (picture,) = drawn(scenario, answer)
    (story,) = [mark.text for mark in picture.told if mark.text.startswith("c has")]
    assert story == (
        "c has the time 12:00:15. It came at 12:00:31, as event 3, when the watermark was 12:00:25. "
        "It was late by 10s: the watermark has passed it. "
        "Its window (12:00:10..12:00:20] had fired (#0), when the watermark reached 12:00:25. "
        "It went to the stream 'late'."
    )
    (beside,) = [mark.text for mark in picture.of("late-by")]
    assert beside == "10s late"


def test_a_page_says_by_which_rules_windows_fire_and_events_are_late() -> None:
    scenario, answer = late()
    text = page([PageItem(scenario, answer)])
    assert "Windows: 10s, one after the other, (start, end]. Time: event time from ts, lag 0s." in text


def test_new_events_are_filled_dots_on_every_bar_and_a_bar_that_is_not_the_last_is_told() -> None:
    style = asset("picture.css")
    for bar, on_it in ((".wb .firing", "surface"), (".wb .firing.early", "window")):
        assert f"{bar} .new{{fill:var(--{on_it})" in style
    path = ROOT / "tests" / "scenarios" / "beyond" / "panes_for_late_events.yaml"
    shown = [page([PageItem(*each)]) for each in (late(), answered(path)[0])]
    assert ["it stays open, and may fire again" in text for text in shown] == [False, True]


def test_a_session_grows_with_its_events() -> None:
    scenario = read_scenario(
        {
            "name": "sessions",
            "bolt": {"session": {"gap": "5s"}, "timestamp_field": "ts"},
            "steps": [
                {"event": {"id": "a", "ts": 1000}},
                {"event": {"id": "b", "ts": 9000}},
                {"event": {"id": "c", "ts": 5000}},
                {"close": True},
            ],
        }
    )
    answer = replay_locally(scenario)
    assert [window["events"] for window in answer.windows] == [["a", "c", "b"]]
    (trace,) = answer.traces
    assert trace.settings.kinds
    text = page([PageItem(scenario, answer)])
    (box,) = re.findall(r"<g class='box' data.*?</g>", text)
    assert box.count("<rect") == 4, "one session, then two apart, then one that joins them"


def test_a_few_short_windows_need_no_wide_axis() -> None:
    day = 86_400_000_000
    assert Scale([0, day], unit=1, windows=4).width < 1000
    assert Scale([0, day], unit=day // 1000, windows=1000).width >= 20_000


def test_the_axis_keeps_the_order_of_times() -> None:
    times = [0, 5, 7, 1000, 1003, 900_000, 900_001, 900_009, 10**9]
    scale = Scale(times, unit=None, windows=0)
    assert scale.breaks
    places = [scale(at) for at in sorted([*times, 3, 6, 1001, 500_000])]
    assert places == sorted(places)
    assert 0 <= places[0] <= places[-1] <= scale.width


def test_what_is_not_as_expected_stands_in_the_page() -> None:
    scenario = read_scenario({**LATE, "expect": {"late": []}})
    answer = replay_locally(scenario)
    text = page([PageItem(scenario, answer)])
    assert "What is not as expected" in text
    assert "late: expected" in text
    assert "✗ not as expected" in text


def test_names_are_no_markup() -> None:
    text = page([PageItem(*late())])
    assert "<b>" not in text
    assert "late &lt;b&gt;&amp; co&lt;/b&gt;" in text


def test_many_scenarios_share_a_page() -> None:
    made = page([PageItem(*late(), place="one.yaml"), PageItem(*late(), place="two.yaml")])
    assert len(Page(made).pictures) == 2
    assert made.count("<option value='0'>✓ late") == 1
    assert "2 scenarios" in made


def test_a_page_fetches_nothing() -> None:
    text = page([PageItem(*late())])
    assert re.findall(r"\b(?:https?:)?//\w[\w.]*\.\w+", text) == []
    assert "default-src &#x27;none&#x27;" in text
    assert not re.search(r"url\((?!#)|@import|fetch\(|XMLHttpRequest|<link|<img|<iframe", text)


def test_the_picture_of_the_documents_is_what_the_command_makes() -> None:
    """To write it again: windbolt replay docs/pictures/late.yaml --svg docs/pictures/late.svg."""
    folder = ROOT / "docs" / "pictures"
    ((scenario, answer),) = answered(folder / "late.yaml")
    assert answer.ok
    assert (folder / "late.svg").read_text(encoding="utf-8") == svg(scenario, answer)


TEXTS = ("text", "dim", "window", "watermark-text", "late")
SIGNS = ("windowed", "pending", "late", "early", "adjusted", "watermark", "window")


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
def test_text_and_signs_stand_out_from_their_ground(palette: Mapping[str, str]) -> None:
    """WCAG 2.2: text 4.5 to 1, signs 3 to 1."""
    for ground in ("surface", "panel"):
        assert {name for name in TEXTS if contrast(palette[name], palette[ground]) < 4.5} == set()
    assert {name for name in SIGNS if contrast(palette[name], palette["surface"]) < 3} == set()


def contrast(one: str, other: str) -> float:
    def luminance(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_no_two_fates_share_a_shape() -> None:
    shapes = {re.sub(r"class='[^']*'", "", glyph(fate, 0, 0)) for fate in EventOutcome}
    pair = {EventOutcome.WINDOWED, EventOutcome.PENDING}  # a full circle and an empty one
    assert len(shapes) == len(EventOutcome) - len(pair) + 1
    assert ".m.pending{stroke:" in asset("picture.css")


def test_svg_stands_alone_and_knows_both_grounds() -> None:
    text = svg(*late())
    root = ElementTree.fromstring(text)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert "prefers-color-scheme:dark" in text
    assert "var(" not in text
    titles = [element.text or "" for element in root.iter("{http://www.w3.org/2000/svg}title")]
    assert any("It was late by 10s" in title for title in titles)


def test_png_is_an_image() -> None:
    image = png(*late())
    assert image.startswith(b"\x89PNG\r\n")
    width, height = (int.from_bytes(image[at : at + 4], "big") for at in (16, 20))
    assert (width, height) == tuple(2 * int(size) for size in re.findall(r"(?:width|height)='(\d+)'", svg(*late()))[:2])
