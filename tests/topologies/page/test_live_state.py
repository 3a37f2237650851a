"""What the page of a run is told: it is what the reports of the run say, and why that is so."""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.orders_and_refunds import MINUTE, NOON, order, shop, write, write_two_files_each
from tests.helpers.scraping import get, health, scrape
from tests.topologies.page.shown import held, state, why
from topologies.engine.batch import Context
from topologies.page import run_view, site
from topologies.page.run_view import MOST_POINTS, Points
from topologies.page.site import BATCHES
from topologies.run.options import Address
from topologies.run.summary import AdviceLimits
from topologies.topology import Topology
from windbolt import RunOptions, TopologyBuilder, run_local, sinks, spouts
from windowing import AggregateBolt
from windowing.aggregates import count
from windowing.errors import BoltError, ConfigError

SCHEMA = "user string, amount double, ts timestamp"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_two_files_each(tmp_path)


def timed(name: str, rows: list[dict[str, Any]], bolt: Any, schema: str = SCHEMA) -> Topology:
    builder = TopologyBuilder(name)
    builder.set_spout("orders", spouts.memory(schema, rows))
    builder.set_bolt("counts", bolt).global_grouping("orders")
    builder.set_sink("out", sinks.memory()).from_("counts")
    return builder.build()


@pytest.mark.parametrize("checkpoint", [None, "ck"])
def test_it_says_what_the_report_says(checkpoint: str | None, folder: Path, port: int) -> None:
    path = None if checkpoint is None else str(folder / checkpoint)
    with held(shop(folder), port, path, keep_open=True) as run:
        for number in range(2):
            report = run.at_batch()
            seen = state(port)
            assert seen["now"]["state"] == "running"
            assert [batch["batch"] for batch in seen["batches"]] == list(range(number + 1))
            assert seen["batches"][-1]["seconds"].keys() == report.seconds.keys()
            for name, bolt in report.bolts.items():
                told = seen["bolts"][name]
                assert told["accounts"] == bolt.accounts
                assert told["streams"] == bolt.streams
                assert (told["watermark"], told["fired"]) == (bolt.watermark, bolt.fired)
                assert {mark["input"]: mark["at"] for mark in told["marks"]} == bolt.inputs
                assert seen["points"][-1]["bolts"][name]["fired"] == bolt.fired
            run.go_on()
        run.end()
    seen = state(port)
    assert seen["now"]["state"] == "finished"
    assert seen["runs"][0]["how"] == "finished"
    assert run.summary is not None
    assert run.summary.last is not None
    assert seen["bolts"]["revenue"]["accounts"] == run.summary.last.bolts["revenue"].accounts


def test_only_what_is_new_is_told_again(folder: Path, port: int) -> None:
    with held(shop(folder), port) as run:
        run.at_batch()
        first = state(port)
        again = state(port, version=first["version"], after=first["points"][-1]["n"])
        assert set(again) == {"topology", "topologies", "run", "version", "now"}
        run.go_on()
        run.at_batch()
        later = state(port, version=first["version"], after=first["points"][-1]["n"])
        assert "graph" not in later
        assert [point["batch"] for point in later["points"]] == [1]
    other = state(port, version="ofanother.3", after=1)
    assert "graph" in other
    assert [point["n"] for point in other["points"]] == [0, 1, 2], "what the page had was of another run"


def test_open_windows_hold_what_they_fire_with(folder: Path, port: int) -> None:
    """The events that each open window is said to hold are those that the bolt is called with at the end."""
    cut: list[list[float]] = [[0, 1, 3], [4, 6.5, 6.5], [9.25]]
    for number, minutes in enumerate(cut, 1):
        write(folder / "orders", number, [order(minute) for minute in minutes])
        write(folder / "refunds", number, [order(minute) for minute in minutes])
    topology = shop(folder)
    run_local(topology, RunOptions(str(folder / "ck"), keep_open=True, serve_page=port))
    open_ = dict(state(port)["bolts"]["revenue"]["open"]["windows"])
    assert open_ == {NOON + 10 * MINUTE: 2, NOON + 11 * MINUTE: 2}, "the watermark is at 8:45"


def test_what_was_looked_up_too_early_is_told_once_more(
    folder: Path, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files of sinks and the open windows are looked up seldom; after the last batch they must not stay too old."""
    write(folder / "orders", 3, [order(9.5)])
    builder = TopologyBuilder("counts")
    source = spouts.files(str(folder / "orders"), SCHEMA, format="jsonl", files_per_batch=1)
    builder.set_spout("orders", source)
    counting = AggregateBolt(n=count()).with_tumbling_window("1m").with_timestamp_field("ts")
    builder.set_bolt("counts", counting).global_grouping("orders")
    builder.set_sink("out", sinks.files(str(folder / "out"), format="jsonl")).from_("counts")
    with held(builder.build(), port, keep_open=True) as run:
        for _ in range(2):
            run.at_batch()
            first = state(port)
            run.go_on()
        run.at_batch()
        for _ in range(2):
            early = state(port, version=first["version"], after=first["points"][-1]["n"])
            assert early["sinks"] == first["sinks"], "the folder was listed a moment ago"
            assert early["bolts"]["counts"]["open"] == first["bolts"]["counts"]["open"]
            first = {**early, "points": [first["points"][-1], *early["points"]]}
        monkeypatch.setattr(run_view, "_LEAST_PAUSE_SECONDS", 0.0)
        monkeypatch.setattr(run_view, "_PAUSE_FACTOR", 0)
        monkeypatch.setattr(site, "WINDOWS_SECONDS", 0.0)
        whole = state(port, version=early["version"])
        assert whole["sinks"][0]["files"]["count"] == len(list((folder / "out").glob("*.jsonl")))
        assert whole["sinks"] != early["sinks"]
        assert whole["bolts"]["counts"]["open"] != early["bolts"]["counts"]["open"]
        assert "sinks" not in state(port, version=whole["version"])


def test_late_events_are_shown_with_the_reason_of_the_late_stream(folder: Path, port: int) -> None:
    topology = shop(folder)
    builder_rows: list[Any] = []
    run_local(topology, RunOptions(keep_open=True, serve_page=port, on_report=builder_rows.append))
    (late,) = [event for event in state(port)["rejected_events"] if event["bolt"] == "revenue"]
    assert (late["stream"], late["account"], late["time"]) == ("orders", "late", NOON + MINUTE // 10)
    assert late["watermark"] == NOON + 90 * MINUTE // 60
    assert "user=eve" in late["content"]
    assert late["reason"]


def test_unreadable_rows_are_shown(folder: Path, port: int) -> None:
    (folder / "orders/01.jsonl").write_text('{"user": "ada", broken\n')
    run_local(shop(folder), RunOptions(serve_page=port))
    (told,) = state(port)["complaints"]
    assert "not valid JSON" in told["text"]


def test_without_a_page_nothing_is_sampled(folder: Path, monkeypatch: pytest.MonkeyPatch, port: int) -> None:
    asked: list[bool] = []
    made = Context.__init__

    def noting(self: Context, *args: Any, **given: Any) -> None:
        asked.append(given["samples_rejected_events"])
        made(self, *args, **given)

    monkeypatch.setattr(Context, "__init__", noting)
    run_local(shop(folder), RunOptions(serve_metrics=port))
    assert set(asked) == {False}


def test_why_is_answered_while_it_runs(folder: Path, port: int) -> None:
    with held(shop(folder), port, keep_open=True) as run:
        run.at_batch()
        status, told = why(port, bolt="revenue")
        assert status == 200
        assert told["reason"] == "watermark"
        assert told["holders"][0]["input"] == "refunds"
        status, told = why(port, bolt="visits", key="bob")
        assert (status, told["key"]) == (200, "bob")
        for query, words in (
            ({"bolt": "revnue"}, "did you mean"),
            ({"bolt": "revenue", "key": "ada"}, "has no key"),
            ({"bolt": "revenue", "window": "noon"}, "is not a time"),
            ({"topology": "stall"}, "there is no run of 'stall' here"),
        ):
            status, told = why(port, **query)
            assert status in (400, 404)
            assert words in told["error"]["what"]
            assert told["error"]["do"]


def test_what_holds_time_is_remarked(folder: Path, port: int) -> None:
    write(folder / "orders", 3, [order(30)])
    run_local(shop(folder), RunOptions(keep_open=True, serve_page=port))
    (told,) = [each for each in state(port)["remarks"] if "holds" in each["text"]]
    assert (told["severity"], told["bolt"]) == ("warn", "revenue")
    assert told["text"] == "Input 'refunds' holds the time of 'revenue': 25m behind the furthest."


def test_what_a_run_would_advise_is_remarked(folder: Path, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("topologies.run.summary.LIMITS", AdviceLimits(seconds=0.0))
    summary = run_local(shop(folder), RunOptions(keep_open=True, serve_page=port))
    (told,) = [each for each in state(port)["remarks"] if "took the most time" in each["text"]]
    assert told == {"severity": "note", "text": summary.advice[0].text, "bolt": summary.advice[0].bolt}


def test_an_input_that_has_delivered_nothing_is_remarked(folder: Path, port: int) -> None:
    for path in (folder / "refunds").iterdir():
        path.unlink()
    run_local(shop(folder), RunOptions(keep_open=True, serve_page=port))
    assert {
        "severity": "warn",
        "text": "Input 'refunds' has delivered nothing, so no window of 'revenue' can fire yet.",
        "bolt": "revenue",
    } in state(port)["remarks"]


def test_partitions_are_in_the_order_in_which_they_are_behind(port: int) -> None:
    rows = [order(minute, region=f"r{minute:03d}") for minute in range(250, 0, -1)]
    bolt = AggregateBolt(n=count()).with_window("1m", "1m").with_timestamp_field("ts")
    topology = timed("many", rows, bolt.with_watermark(every=1, partition="region"), f"{SCHEMA}, region string")
    run_local(topology, RunOptions(keep_open=True, serve_page=port))
    told = state(port)["bolts"]["counts"]
    assert [mark["partition"] for mark in told["marks"]] == [f"r{minute:03d}" for minute in range(1, 201)]
    assert told["more_marks"] == 50
    assert [mark["holds"] for mark in told["marks"]] == [True, *[False] * 199]


def test_a_failed_run_says_so_and_the_next_one_replaces_it(folder: Path, port: int) -> None:
    write(folder / "orders", 3, [order(7, "crash"), order(20), order(21)])
    write(folder / "refunds", 3, [order(20), order(21)])
    with pytest.raises(BoltError):
        run_local(shop(folder), RunOptions(str(folder / "ck"), serve_page=port))
    seen = state(port)
    assert seen["now"]["state"] == "failed"
    assert "the till is broken" in seen["now"]["error"]
    assert seen["bolts"]["revenue"]["accounts"]["received"] > 0, "as the last batch that was committed left it"

    (folder / "orders/03.jsonl").write_text("")
    run_local(shop(folder), RunOptions(str(folder / "ck"), serve_page=port))
    after = state(port)
    assert after["run"] != seen["run"]
    assert after["now"]["state"] == "finished"
    assert after["runs"][0]["continues"] == 1


def test_it_shares_a_port_with_metrics(folder: Path, port: int) -> None:
    run_local(shop(folder), RunOptions(serve_page=port, serve_metrics=port))
    assert health(port)[1]["topologies"]["shop"]["state"] == "finished"
    assert scrape(port)
    assert get(port, "/")[1] == "text/html; charset=utf-8"
    assert state(port)["topology"] == "shop"


def test_without_metrics_there_are_none_and_no_package_is_needed(
    folder: Path, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    run_local(shop(folder), RunOptions(serve_page=port))
    assert state(port)["topology"] == "shop"
    assert get(port, "/metrics")[0] == 404
    assert get(port, "/health")[0] == 404


def test_several_topologies_share_a_page(folder: Path, port: int) -> None:
    for name in ("shop", "stall"):
        run_local(shop(folder, name), RunOptions(serve_page=port))
    assert state(port)["topology"] == "stall", "the latest"
    seen = state(port, topology="shop")
    assert (seen["topology"], seen["topologies"]) == ("shop", ["shop", "stall"])


def test_it_is_read_only_and_refuses_other_names_of_this_machine(folder: Path, port: int) -> None:
    import http.client

    run_local(shop(folder), RunOptions(serve_page=port))

    def ask(host: str, method: str = "GET", path: str = "/state") -> int:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        connection.request(method, path, headers={"Host": host})
        return connection.getresponse().status

    assert ask(f"localhost:{port}") == ask(f"127.0.0.1:{port}") == ask("[::1]:80") == 200
    assert ask("evil.example") == ask(f"evil.example:{port}", path="/why?bolt=revenue") == 403
    assert ask("127.0.0.1", "POST") == 501
    assert ask("127.0.0.1", path="/state?after=x") == 404
    assert ask("127.0.0.1", path="/page.js/../../../secret") == 404
    assert ask("127.0.0.1", path="/state?" + "&".join("a=1" for _ in range(30))) == 400


def test_nothing_from_elsewhere_may_be_fetched_or_frame_it(folder: Path, port: int) -> None:
    from urllib.request import urlopen

    run_local(shop(folder), RunOptions(serve_page=port))
    for path in ("", "page.js", "page.css", "state"):
        with urlopen(f"http://127.0.0.1:{port}/{path}", timeout=10) as answer:
            policy = answer.headers["Content-Security-Policy"]
            assert "default-src 'none'" in policy
            assert "frame-ancestors 'none'" in policy
            assert answer.headers["Access-Control-Allow-Origin"] is None
            assert b"http://" not in answer.read().replace(b"http://www.w3.org/2000/svg", b"")


def test_a_port_that_is_taken(folder: Path, port: int) -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        with pytest.raises(ConfigError, match=f"the page cannot be served at 127.0.0.1:{port}") as told:
            run_local(shop(folder), RunOptions(serve_page=port))
    assert "another port" in told.value.do


def test_what_is_no_address() -> None:
    with pytest.raises(ConfigError, match="the page at 'browser'"):
        RunOptions(serve_page="browser")
    assert RunOptions(serve_page=8765).page_address == Address("127.0.0.1", 8765)


def test_a_run_that_has_not_begun(folder: Path, port: int) -> None:
    seen: list[dict[str, Any]] = []

    def look() -> int:
        if not seen:
            seen.append({})
            seen[0] = state(port)
            assert why(port, bolt="revenue")[1]["reason"] == "not_started"
        return NOON

    run_local(shop(folder), RunOptions(serve_page=port, clock=look))
    assert (seen[0]["bolts"], seen[0]["points"], seen[0]["now"]["state"]) == ({}, [], "starting")


def test_points_are_thinned_out() -> None:
    points = Points()
    for number in range(10 * MOST_POINTS):
        points.add({"batch": number})
    kept = [point["n"] for point in points]
    assert len(kept) <= MOST_POINTS
    assert kept[0] == 0
    assert kept[-100:] == list(range(10 * MOST_POINTS - 100, 10 * MOST_POINTS))
    assert kept == sorted(set(kept))
    gaps = [after - before for before, after in pairwise(kept)]
    assert set(gaps[:-120]) <= {16}, "at equal distances"
    assert BATCHES < MOST_POINTS
