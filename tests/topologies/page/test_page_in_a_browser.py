"""The page of a run in a real browser: it loads, reloads, follows the run to its end, and is used by keyboard and on a
phone."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from playwright.sync_api import Browser, Page, expect

from policies import QueuedEvent, TriggerContext, TriggerPolicy
from servers.s3 import S3
from tests.helpers.examples import sampled
from tests.helpers.orders_and_refunds import order, shop, write
from tests.topologies.page.shown import held, state
from tests.topologies.scenarios.test_pictures import contrast
from topologies.checkpoints.paired_checkpoint import PairedCheckpoint
from topologies.checkpoints.rescale import move_tasks
from topologies.page.site import StoredRun, show_page
from topologies.run.metrics_server import SERVERS
from topologies.run.options import ComingRestart, Restart, address_of
from windbolt import RunOptions, TopologyBuilder, run_local, sinks, spouts
from windowing import AggregateBolt, WindowedBolt, hours
from windowing.aggregates import count
from windowing.errors import BoltError, TakenOver

SCHEMA = "user string, amount double, ts timestamp, region string"
Open = Callable[..., Page]
expect.set_options(timeout=20_000)


@pytest.fixture
def opened(browser: Browser, port: int) -> Iterator[Open]:
    """Opens the page; at the end it must have fetched nothing from elsewhere, and have had no error of its own."""
    contexts, errors, fetched = [], [], []

    def open_(address: str = "", **options: Any) -> Page:
        context = browser.new_context(**({"viewport": {"width": 1280, "height": 900}} | options))
        contexts.append(context)
        shown = context.new_page()
        shown.on("pageerror", lambda error: errors.append(str(error)))
        shown.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        shown.on("request", lambda request: fetched.append(request.url))
        shown.goto(f"http://127.0.0.1:{port}/{address}")
        return shown

    yield open_
    for context in contexts:
        context.close()
    assert [error for error in errors if "ERR_CONNECTION" not in error and "400 (Bad Request)" not in error] == []
    assert {url.split("/")[2] for url in fetched} == {f"127.0.0.1:{port}"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path / "orders", 1, [order(0), order(1, "bob"), order(3)])
    write(tmp_path / "orders", 2, [order(0.1, "<img src=x onerror=alert(1)>"), order(4), order(6.5, "bob")])
    write(tmp_path / "refunds", 1, [order(0), order(2)])
    write(tmp_path / "refunds", 2, [order(5)])
    return tmp_path


def counts(port: int, rows: list[dict[str, Any]], bolt: AggregateBolt) -> None:
    """A run over rows in memory whose windows stay open."""
    builder = TopologyBuilder("counts")
    builder.set_spout("orders", spouts.memory(SCHEMA, rows))
    builder.set_bolt("counts", bolt).global_grouping("orders")
    builder.set_sink("out", sinks.memory()).from_("counts")
    run_local(builder.build(), RunOptions(keep_open=True, serve_page=port))


def said(shown: Page) -> str:
    return shown.inner_text("#banner .state")


def fits(shown: Page) -> bool:
    """Whether the page is no wider than its window."""
    return bool(shown.evaluate("document.documentElement.scrollWidth <= innerWidth"))


def test_it_follows_a_run_to_its_end(opened: Open, folder: Path, port: int) -> None:
    with held(shop(folder), port) as run:
        run.at_batch()
        shown = opened()
        expect(shown.locator("#banner .state")).to_contain_text("Running")
        expect(shown.locator(".hand")).to_contain_text("Batch 0 was committed")
        assert shown.title() == "● shop · windbolt"
        run.go_on()
        run.at_batch()
        expect(shown.locator(".hand")).to_contain_text("Batch 1 was committed")
        assert "late" in shown.inner_text("#turned")
        run.end()
        expect(shown.locator("#banner .state")).to_have_text("Finished.")
        expect(shown.locator("#windows")).to_contain_text("None: no event waits")
        expect(shown.locator("#time")).to_contain_text("The streams have ended")
        received = state(port)["bolts"]["revenue"]["accounts"]["received"]
        assert f"{received} received" in shown.inner_text("#accounts")
        assert "finished" in shown.inner_text("#runs")


def test_it_survives_a_reload(opened: Open, folder: Path, port: int) -> None:
    with held(shop(folder), port) as run:
        run.at_batch()
        shown = opened()
        shown.select_option("#theme", "dark")
        shown.click("[data-tab=visits]")
        expect(shown.locator("#h-time")).to_have_text("What holds the time of visits")
        before = shown.inner_text("#accounts")
        shown.reload()
        expect(shown.locator("#h-time")).to_have_text("What holds the time of visits")
        expect(shown.locator("[data-tab=visits]")).to_have_attribute("aria-selected", "true")
        assert shown.inner_text("#accounts") == before
        assert shown.evaluate("document.documentElement.dataset.theme") == "dark"


def test_a_run_that_fails_stays_to_be_seen(opened: Open, folder: Path, port: int) -> None:
    write(folder / "orders", 3, [order(7, "crash"), order(20), order(21)])
    write(folder / "refunds", 3, [order(20), order(21)])
    with held(shop(folder), port) as run:
        run.at_batch()
        shown = opened()
        expect(shown.locator("#banner .state")).to_contain_text("Running")
        run.end()
        assert isinstance(run.error, BoltError)
        expect(shown.locator("#banner .state")).to_have_text("Failed.")
        assert "the till is broken" in shown.inner_text(".remarks li.bad")
        assert "the till is broken" in shown.inner_text("#runs")
        assert "failed" in shown.inner_text("#runs")
        assert shown.title().startswith("✖")


def test_a_run_whose_checkpoint_another_one_has_says_which_and_since_when(
    opened: Open, folder: Path, port: int, store: S3
) -> None:
    """In an object store the run that was started last has the checkpoint."""
    with held(shop(folder), port, store.uri("ck")) as run:
        run.at_batch()
        shown = opened()
        expect(shown.locator("#banner .state")).to_contain_text("Running")
        run_local(shop(folder), RunOptions(store.uri("ck"), keep_open=True))
        run.end()
        assert isinstance(run.error, TakenOver)
        expect(shown.locator("#banner .state")).to_contain_text("Taken over: another run has the checkpoint now")
        assert shown.get_attribute("#banner", "data-kind") == "held"
        told = shown.inner_text(".remarks li.warn")
        assert re.search(r"has been taken over by process \d+ on .* at 20\d\d-\d\d-\d\dT", told)
        assert "taken over by another run" in shown.inner_text("#runs")
        assert "failed" not in shown.inner_text("main").lower()


def test_a_run_that_waits_to_start_again_says_so(opened: Open, folder: Path, port: int) -> None:
    calls: list[int] = []

    def away_at_first(rows: Any, batch: int) -> None:
        calls.append(batch)
        if len(calls) == 1:
            raise ConnectionError("the shop's database does not answer")

    builder = TopologyBuilder("shop")
    schema = "user string, amount double, ts timestamp"
    builder.set_spout("orders", spouts.files(str(folder / "orders"), schema=schema, format="jsonl"))
    bolt = AggregateBolt(n=count()).with_window("2m", "1m").with_timestamp_field("ts")
    builder.set_bolt("counts", bolt).global_grouping("orders")
    builder.set_sink("out", sinks.foreach_batch(away_at_first, frame="arrow")).from_("counts")
    paused, go_on = threading.Event(), threading.Event()

    def hold(coming: ComingRestart) -> None:
        paused.set()
        assert go_on.wait(300)

    options = RunOptions(
        str(folder / "ck"), restart=Restart(initial_backoff="1ms"), on_restart=hold, serve_page=port, keep_open=True
    )
    thread = threading.Thread(target=run_local, args=(builder.build(), options), daemon=True)
    thread.start()
    try:
        assert paused.wait(300)
        shown = opened()
        expect(shown.locator("#banner .state")).to_contain_text("Failed, and starts again by itself")
        assert shown.get_attribute("#banner", "data-kind") == "held"
        assert "the shop's database does not answer" in shown.inner_text(".remarks li.bad")
        assert "to be started again" in shown.inner_text("#runs")
    finally:
        go_on.set()
        thread.join(60)
    expect(shown.locator("#banner .state")).to_contain_text("Finished")
    assert "restarted 1 time" in shown.inner_text("#runs")
    assert shown.locator(".remarks li.bad").count() == 0


def test_when_the_process_is_gone_the_last_state_stays(opened: Open, folder: Path, port: int) -> None:
    run_local(shop(folder), RunOptions(serve_page=port))
    shown = opened()
    expect(shown.locator("#banner .state")).to_have_text("Finished.")
    SERVERS.close(address_of(port))
    shown.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    expect(shown.locator(".link")).to_contain_text("No answer: the process of the run has ended")
    assert shown.inner_text("h1") == "shop"
    assert "received" in shown.inner_text("#accounts")


def test_it_comes_back_with_the_next_run(opened: Open, folder: Path, port: int) -> None:
    run_local(shop(folder), RunOptions(str(folder / "ck"), keep_open=True, serve_page=port))
    shown = opened()
    expect(shown.locator("#runs")).to_contain_text("on a new checkpoint")
    run_local(shop(folder), RunOptions(str(folder / "ck"), keep_open=True, serve_page=port))
    shown.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    expect(shown.locator("#runs")).to_contain_text("continued after batch 1")


def test_a_thousand_windows(opened: Open, port: int) -> None:
    rows = [order(minute, region="") for minute in range(1000)]
    bolt = AggregateBolt(n=count()).with_window("1m", "1m").with_timestamp_field("ts").with_lag("2000m")
    counts(port, rows, bolt)
    shown = opened()
    expect(shown.locator("#windows")).to_contain_text("1,000 windows hold events")
    assert shown.locator("#windows rect.part").count() == 200
    assert "and 994 more; the picture has the first 200" in shown.inner_text("#windows")
    shown.click("#windows button >> nth=1")
    expect(shown.locator(".answer .lead")).to_contain_text("2024-05-01T12:01:00Z holds 1 event")
    assert "Input 'orders' holds it" in shown.inner_text(".answer")
    shown.fill("#why [name=window]", "12:05:30")
    shown.click("#why button")
    expect(shown.locator(".answer")).to_contain_text("No window of 'counts' ends at")
    assert fits(shown)


def test_a_hundred_partitions(opened: Open, port: int) -> None:
    rows = [order(minute, region=f"r{minute:03d}") for minute in range(100, 0, -1)]
    bolt = AggregateBolt(n=count()).with_window("1m", "1m").with_timestamp_field("ts")
    counts(port, rows, bolt.with_watermark(every=1, partition="region"))
    shown = opened()
    expect(shown.locator("#time tbody tr")).to_have_count(12)
    first = shown.locator("#time tbody tr").first
    assert "r001" in first.inner_text()
    assert "holds time" in first.inner_text()
    assert "1 h 39 m" in first.inner_text()
    assert "partition 'r001' holds the time of 'counts': 1h 39m behind the furthest" in shown.inner_text(".remarks")
    shown.click("#time button")
    expect(shown.locator("#time tbody tr")).to_have_count(100)
    assert "furthest" in shown.locator("#time tbody tr").last.inner_text()
    assert fits(shown)


@pytest.mark.parametrize("bolts", [4, 6])
def test_a_topology_for_which_the_page_is_wide_enough_is_not_scrolled(opened: Open, port: int, bolts: int) -> None:
    builder = TopologyBuilder("wide")
    rows = [{"user": "ada", "amount": 1.0, "ts": 1_714_564_800_000_000, "region": "n"}]
    builder.set_spout("orders", spouts.memory(SCHEMA, rows))
    for number in range(bolts):
        counting = AggregateBolt(n=count()).with_tumbling_window("2m").with_timestamp_field("ts")
        builder.set_bolt(f"counts{number}", counting).global_grouping("orders")
        builder.set_sink(f"out{number}", sinks.memory()).from_(f"counts{number}")
    run_local(builder.build(), RunOptions(keep_open=True, serve_page=port))
    shown = opened(viewport={"width": 1300, "height": 900})
    expect(shown.locator(".card")).to_have_count(1 + 2 * bolts)
    widths = "(() => {const of = document.querySelector('.graph .scroll'); return [of.scrollWidth, of.clientWidth]})()"
    inside, there = shown.evaluate(widths)
    assert inside <= there
    assert fits(shown)


@pytest.mark.parametrize("width", sampled([360, 800, 1600], 3))
def test_it_fits_the_width_of_a_phone_and_of_a_wall(opened: Open, folder: Path, port: int, width: int) -> None:
    run_local(shop(folder, "a-shop-with-a-name-that-is-longer-than-a-phone-is-wide"), RunOptions(serve_page=port))
    shown = opened(viewport={"width": width, "height": 740})
    expect(shown.locator("#banner .state")).to_have_text("Finished.")
    assert fits(shown)
    assert shown.locator("h1").bounding_box()["x"] >= 0  # type: ignore[index]
    for panel in shown.locator(".panel:visible").all():
        box = panel.bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width + 1


def test_with_the_keyboard_alone(opened: Open, folder: Path, port: int) -> None:
    run_local(shop(folder), RunOptions(keep_open=True, serve_page=port))
    shown = opened()
    expect(shown.locator("#banner .state")).to_contain_text("Finished")
    focused = "document.activeElement.closest('[data-bolt]')?.dataset.bolt ?? document.activeElement.id"
    seen = []
    for _ in range(60):
        shown.keyboard.press("Tab")
        seen.append(shown.evaluate(focused))
        if seen[-1] == "visits":
            break
    assert "revenue" in seen
    shown.keyboard.press("Enter")
    expect(shown.locator("#h-time")).to_have_text("What holds the time of visits")
    shown.focus("[role=tab][aria-selected=true]")
    shown.keyboard.press("ArrowLeft")
    expect(shown.locator("#h-time")).to_have_text("What holds the time of revenue")
    assert shown.evaluate("document.activeElement.dataset.tab") == "revenue"

    shown.focus("#phases svg")
    shown.keyboard.press("Home")
    assert shown.inner_text("#phases .said").startswith("batch 0")
    shown.keyboard.press("ArrowRight")
    assert shown.inner_text("#phases .said").startswith("batch 1")
    assert "fire" in str(shown.get_attribute("#phases svg", "aria-label"))

    shown.focus("#why [name=window]")
    shown.keyboard.type("12:05")
    shown.keyboard.press("Enter")
    expect(shown.locator(".answer")).to_contain_text("2024-05-01T12:05:00Z")
    ring = "getComputedStyle(document.activeElement).outlineStyle"
    assert shown.evaluate(ring) == "solid"


def test_what_comes_from_events_is_text(opened: Open, folder: Path, port: int) -> None:
    run_local(shop(folder), RunOptions(keep_open=True, serve_page=port))
    shown = opened()
    expect(shown.locator("#turned")).to_contain_text("user=<img src=x onerror=alert(1)>")
    assert shown.locator("main img").count() == 0


def test_errors_of_users_are_text(opened: Open, port: int) -> None:
    class Exploding(WindowedBolt):
        outputs = "n long"

        def execute(self, window: Any) -> Any:
            raise ValueError("<script>alert('gone')</script>")

    builder = TopologyBuilder("counts")
    builder.set_spout("orders", spouts.memory(SCHEMA, [order(0, region="a")]))
    builder.set_bolt("counts", Exploding().with_window("1m").with_timestamp_field("ts")).global_grouping("orders")
    builder.set_sink("out", sinks.memory()).from_("counts")
    with pytest.raises(BoltError):
        run_local(builder.build(), RunOptions(serve_page=port))
    shown = opened()
    expect(shown.locator(".remarks li.bad")).to_contain_text("<script>alert('gone')</script>")


def test_one_of_several_topologies_is_chosen(opened: Open, folder: Path, port: int) -> None:
    for name in ("shop", "stall"):
        run_local(shop(folder, name), RunOptions(serve_page=port))
    shown = opened()
    expect(shown.locator("h1")).to_have_text("stall")
    shown.select_option("#topology", "shop")
    expect(shown.locator("h1")).to_have_text("shop")
    shown.reload()
    expect(shown.locator("h1")).to_have_text("shop")


@pytest.mark.parametrize("theme", sampled(["light", "dark"], 2))
def test_texts_are_readable_on_their_ground(opened: Open, folder: Path, port: int, theme: str) -> None:
    run_local(shop(folder), RunOptions(keep_open=True, serve_page=port))
    shown = opened(f"#colours={theme}")
    expect(shown.locator("#turned")).to_contain_text("late")
    pairs = shown.evaluate(
        """() => {
            const two = (number) => Number(number).toString(16).padStart(2, "0");
            const hex = (rgb) => "#" + rgb.match(/\\d+/g).slice(0, 3).map(two).join("");
            const ground = (element) => {
                for (let at = element; at; at = at.parentElement) {
                    const colour = getComputedStyle(at).backgroundColor;
                    if (!colour.endsWith(", 0)")) return hex(colour);
                }
                return "#ffffff";
            };
            return [...document.querySelectorAll("body *")]
                .filter((each) => each.namespaceURI.endsWith("xhtml") && each.checkVisibility()
                    && [...each.childNodes].some((node) => node.nodeType === 3 && node.data.trim()))
                .map((each) => [`${each.tagName}.${each.className}`, hex(getComputedStyle(each).color), ground(each)]);
        }"""
    )
    assert len(pairs) > 50
    assert {name for name, colour, ground in pairs if contrast(colour, ground) < 4.5} == set()


@pytest.mark.extended
def test_nothing_is_asked_while_nobody_looks(opened: Open, folder: Path, port: int) -> None:
    run_local(shop(folder), RunOptions(serve_page=port))
    shown = opened()
    expect(shown.locator("#banner .state")).to_have_text("Finished.")
    shown.evaluate(
        """() => {
            Object.defineProperty(document, "hidden", {value: true, configurable: true});
            window.asked = 0;
            const before = window.fetch;
            window.fetch = (...given) => { window.asked += 1; return before(...given); };
            document.dispatchEvent(new Event("visibilitychange"));
        }"""
    )
    shown.wait_for_timeout(6_500)
    assert shown.evaluate("window.asked") <= 1, "the question that was due when it was hidden"


class Every(TriggerPolicy):
    """Fires with each third event of a key."""

    reads = ()
    state_types: ClassVar[dict[str, type]] = {"told": int}
    forget_after = hours(1)

    def track(self, event: QueuedEvent, context: TriggerContext) -> bool:
        context.state["told"] += 1
        return context.state["told"] % 3 == 0


def test_policies_of_ones_own_show_what_they_keep_of_each_key(opened: Open, folder: Path, port: int) -> None:
    builder = TopologyBuilder("own")
    rows = [(f"u{at % 9}", 1_000 * at) for at in range(30)]
    builder.set_spout("orders", spouts.memory("user string, ts long", rows))
    bolt = (
        AggregateBolt("user", number=count())
        .with_key("user")
        .with_timestamp_field("ts")
        .with_window("1m")
        .with_policies(trigger=Every())
    )
    builder.set_bolt("counts", bolt).fields_grouping("orders", "user")
    builder.set_sink("out", sinks.memory()).from_("counts")
    run_local(builder.build(), RunOptions(serve_page=port, keep_open=True))
    shown = opened(viewport={"width": 400, "height": 740})
    expect(shown.locator("#policies")).to_contain_text(
        "Every fires when its hooks say so. There have been 30 events of 9"
    )
    cells = [row.inner_text().split("\t") for row in shown.locator("#policies tr").all()]
    assert cells[0][-2:] == ["forgotten at", "Every"]
    assert cells[1] == ["u2", "4", "00:00:29", "1", "00:00:20", "–", "01:00:29", '{"told": 4}']
    assert len(cells) == 7
    expect(shown.locator("#policies")).to_contain_text("and 3 more, for which an event came earlier")
    expect(shown.locator("#windows")).to_contain_text("what their windows hold is known when they fire")
    assert fits(shown)


def test_a_run_from_its_checkpoint(opened: Open, folder: Path, port: int) -> None:
    run_local(shop(folder), RunOptions(str(folder / "ck"), keep_open=True))
    move_tasks(PairedCheckpoint(str(folder / "ck")), {"visits": 4})
    show_page(address_of(port), StoredRun(str(folder / "ck")))
    shown = opened()
    expect(shown.locator("#banner .state")).to_contain_text("Finished")
    assert "The batches of the journal" in shown.inner_text("#phases")
    assert "on a new checkpoint" in shown.inner_text("#runs")
    assert "visits has 4 in place of 2" in shown.inner_text("#runs")
    assert "A checkpoint keeps their number only" in shown.inner_text("#turned")
    assert shown.locator("#graph .card").count() == 6
    assert shown.inner_text("#sinks").split() == ["out", "memory", "counts", "memory"]
    shown.click("#why button")
    expect(shown.locator(".answer .lead")).to_contain_text("holds")
    assert fits(shown)
