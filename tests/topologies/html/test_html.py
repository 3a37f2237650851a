"""What notebooks show is whole, harmless and readable by machines."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.house.test_reprs import builder
from topologies.graph.describing import topology_html, topology_svg
from topologies.graph.html import Arrow, Box, as_svg, framed, heading, monospaced, paragraph, table, text
from windbolt import AggregateBolt, Topology, TopologyBuilder, WindboltError, aggregates, replay, sinks, spouts

HOSTILE = '<script>alert("1")</script>&\'\x1b[31m'
VOID = {"br", "hr", "img", "input", "meta", "link"}

SVG = "{http://www.w3.org/2000/svg}"


class Whole(HTMLParser):
    """Finds tags that are not closed in order, and all that a page would fetch or run."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.wrong: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        if tag in ("script", "link", "img", "iframe", "object"):
            self.wrong.append(tag)
        self.wrong += [f"{tag} {name}" for name, _ in attrs if name.startswith("on") or name in ("href", "src")]

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.wrong.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def check(page: str) -> str:
    """The text of a page that is whole and harmless."""
    parser = Whole()
    parser.feed(page)
    parser.close()
    assert (parser.wrong, parser.open) == ([], [])
    assert "\x1b" not in page
    assert "0x" not in page
    assert re.findall(r"https?://(?!www\.w3\.org/2000/svg)", page) == []
    assert "url(" not in page
    assert "@import" not in page
    return "".join(parser.texts)


def hostile() -> Topology:
    """A topology whose columns, files and streams have the names of markup."""
    made = TopologyBuilder(f"shop {HOSTILE}")
    made.set_spout("orders", spouts.files(f"/{HOSTILE}/*.csv", "`<b>` string, amount double, ts timestamp"))
    bolt = AggregateBolt(by="<b>", n=aggregates.count()).with_window("20s", "10s").with_timestamp_field("ts")
    made.set_bolt("n", bolt, parallelism=2).fields_grouping("orders", "<b>")
    made.set_sink("out", sinks.memory()).from_("n")
    return made.build()


@pytest.fixture(scope="module")
def shown() -> dict[str, Any]:
    small = builder(3)
    run = small.build().start(engine="local")
    summary = run.wait()
    steps = [{"event": {"id": HOSTILE.replace("\x1b", ""), "ts": 1000}}]
    answer = replay({"name": "<b>", "bolt": {"length": "20s", "timestamp_field": "ts"}, "steps": steps})
    parts = {"builder": small, "topology": small.build(), "run": run, "summary": summary, "answer": answer}
    return {**parts, "report": summary.last, "hostile": hostile()}


@pytest.mark.parametrize("name", ["builder", "topology", "run", "summary", "report", "answer", "hostile"])
def test_a_page_is_whole_and_fetches_nothing(name: str, shown: dict[str, Any]) -> None:
    assert check(shown[name]._repr_html_())


def test_names_of_markup_are_text(shown: dict[str, Any]) -> None:
    words = check(topology_html(shown["hostile"]))
    assert 'shop <script>alert("1")</script>&\'\\x1b[31m' in words
    assert "fields(<b>)" in words


def test_a_run_shows_its_phase_its_bolts_and_their_accounts(shown: dict[str, Any]) -> None:
    words = check(shown["run"]._repr_html_())
    for word in (
        "finished",
        "2 batches",
        "500 rows read",
        "bolt_with_a_long_name_0",
        "windowed",
        "2024-01-01T06:00:20Z",
    ):
        assert word in words


def test_a_failed_run_shows_what_why_and_what_to_do() -> None:
    made = TopologyBuilder("fails")
    made.set_spout("orders", spouts.memory("n long", [(1,)]))
    made.set_sink("out", sinks.foreach_batch(_fail, frame="arrow")).from_("orders")
    run = made.build().start(engine="local")
    run.end_within(60)
    words = check(run._repr_html_())
    assert "failed" in words
    with pytest.raises(WindboltError, match="<no> & never") as error:
        run.wait()
    what, why, do = error.value.what, error.value.why, error.value.do
    assert f"{what}\n  why: {why}\n  do:  {do}" in words


def _fail(frame: object, batch: int) -> None:
    raise WindboltError("<no> & never", why="it is <so>", do="leave it")


def test_an_answer_shows_its_picture(shown: dict[str, Any]) -> None:
    words = check(shown["answer"]._repr_html_())
    assert "received 1 = 1 pending" in words
    assert "length 20s" in words


def test_a_graph_is_xml_with_a_title_and_a_description_and_all_parts(shown: dict[str, Any]) -> None:
    svg = ElementTree.fromstring(topology_svg(shown["topology"]))
    assert svg.get("role") == "img"
    title, description = svg.find(f"{SVG}title"), svg.find(f"{SVG}desc")
    assert title is not None
    assert title.text == "topology shop"
    assert description is not None
    assert "spout orders" in str(description.text)
    assert "orders to bolt_with_a_long_name_0" in str(description.text)
    assert len(svg.findall(f".//{SVG}rect")) == 1 + 3 + 3
    written = [element.text for element in svg.iter(f"{SVG}text")]
    for name in ("orders", "bolt_with_a_long_name_2", "sink_2", "AggregateBolt", "fields(user)"):
        assert name in written


def test_what_is_drawn_lies_within_the_picture(shown: dict[str, Any]) -> None:
    svg = ElementTree.fromstring(topology_svg(shown["topology"]))
    left, top, width, height = map(float, str(svg.get("viewBox")).split())
    for box in svg.iter(f"{SVG}rect"):
        x, y, wide, high = (float(str(box.get(name))) for name in ("x", "y", "width", "height"))
        assert left <= x <= x + wide <= left + width
        assert top <= y <= y + high <= top + height


@pytest.mark.parametrize("converging", [True, False])
def test_labels_of_arrows_to_one_box_or_from_one_do_not_overlap(converging: bool) -> None:
    boxes = [Box(name, "bolt") for name in ("left one", "one", "right one")]
    ends = [(name, "one") if converging else ("one", name) for name in ("left one", "right one")]
    root = ElementTree.fromstring(as_svg("t", boxes, [Arrow(*each, "fields(user)") for each in ends]))
    spans = []
    for label in root.iter(f"{SVG}text"):
        if label.text == "fields(user)":
            x, width = float(label.attrib["x"]), len(label.text) * 6.7
            spans.append((x, x + width) if label.attrib["text-anchor"] == "start" else (x - width, x))
    left, right = sorted(spans)
    assert left[1] < right[0]
    begin, _, wide, _ = map(float, root.attrib["viewBox"].split())
    assert begin <= left[0]
    assert right[1] <= begin + wide


def test_a_long_line_is_cut_where_it_is_drawn_and_whole_where_a_pointer_shows_it() -> None:
    svg = ElementTree.fromstring(as_svg("t", [Box("a", "bolt", ("very " * 40,)), Box("b", "sink")], [Arrow("a", "b")]))
    written = [str(element.text) for element in svg.iter(f"{SVG}text")]
    assert max(map(len, written)) <= 40
    titles = [str(element.text) for element in svg.iter(f"{SVG}title")]
    assert any("very " * 39 in title for title in titles)


def test_a_builder_with_parts_that_are_not_there_or_go_in_a_circle_is_drawn_too() -> None:
    made = TopologyBuilder("odd")
    assert "odd" in check(made._repr_html_())
    bolt = AggregateBolt(n=aggregates.count())
    made.set_bolt("a", bolt).global_grouping("b").global_grouping("nobody")
    made.set_bolt("b", bolt).global_grouping("a").global_grouping("b")
    made.set_sink("out", sinks.memory()).from_("a", stream="late").from_("b")
    words = check(made._repr_html_())
    assert "not built yet" in words
    assert "late" in words


def test_numbers_stand_to_the_right_and_have_commas() -> None:
    page = table(["bolt", "rows"], [("a", 1234567), ("b", 5)])
    assert "<td class='n'>1,234,567</td>" in page
    assert "<td>a</td>" in page
    assert check(framed(heading("<a>"), paragraph("<b>"), monospaced("<c>\n<d>"), page, text("<e>")))
