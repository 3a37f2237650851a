"""The metrics of real runs, scraped over HTTP: they are what the reports of the run say."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from http.client import HTTPException
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from manager.accounts import ACCOUNTS
from tests.helpers.orders_and_refunds import MINUTE, NOON, Revenue, order, shop, write, write_two_files_each
from tests.helpers.places import ROOT
from tests.helpers.scraping import Scrape, assert_as_reported, get, health, scrape, value, values
from topologies import local
from topologies.engine.micro_batch import PHASES
from topologies.engine.report import BatchReport
from topologies.run import run_metrics
from topologies.run.attempts import SourceLag
from topologies.run.run_metrics import RunMetrics
from topologies.run.summary import Summary
from windbolt import RunOptions, TopologyBuilder, run_local, sinks, spouts
from windowing.errors import BoltError, ConfigError, EnvironmentMissing, TakenOver


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_two_files_each(tmp_path)


@pytest.mark.parametrize("checkpoint", [None, "ck"])
def test_a_run_serves_what_its_report_says(checkpoint: str | None, folder: Path, port: int) -> None:
    during: list[tuple[BatchReport, Scrape]] = []
    options = RunOptions(
        None if checkpoint is None else str(folder / checkpoint),
        keep_open=True,
        serve_metrics=port,
        on_report=lambda report: during.append((report, scrape(port))),
    )
    summary = run_local(shop(folder), options)
    assert len(during) == 2
    for number, (report, found) in enumerate(during, 1):
        assert_as_reported(found, Summary(last=report))
        assert value(found, "windbolt_batches_total", topology="shop") == number
        left = value(found, "windbolt_source_lag", topology="shop", spout="orders", unit="files", partition="")
        assert left == 2 - number or number == 2, "the lag is looked up every few seconds only"
    found = scrape(port)
    assert_as_reported(found, summary)
    counted = values(found, "windbolt_events_total", "bolt", "stream", "account")
    assert counted["revenue", "orders", "late"] == 1
    assert counted["revenue", "refunds", "windowed"] > 0
    phases = values(found, "windbolt_batch_phase_seconds_count", "phase")
    assert set(phases) == {(phase,) for phase in PHASES[:-1]}
    assert set(phases.values()) == {2}
    spent = sum(values(found, "windbolt_batch_phase_seconds_sum", "phase").values())
    assert spent == pytest.approx(sum(report.seconds["total"] for report, _ in during))


def test_no_key_is_a_label(folder: Path, port: int) -> None:
    run_local(shop(folder), RunOptions(serve_metrics=port))
    given = {text for _, labels in scrape(port) for _, text in labels}
    assert not given & {"ada", "bob", "eve"}


def test_each_window_has_its_delay(folder: Path, port: int) -> None:
    """The clock at the commit, less the end of the window; of windows of all families, one for each that fired."""
    clock = NOON + 10 * MINUTE
    summary = run_local(shop(folder), RunOptions(clock=lambda: clock, keep_open=True, serve_metrics=port))
    found = scrape(port)
    of = {"topology": "shop", "bolt": "revenue"}
    assert summary.last is not None
    fired = summary.last.bolts["revenue"].fired
    assert value(found, "windbolt_window_emit_delay_seconds_count", **of) == fired == 5
    ends = [0, 1, 2, 3, 4]
    assert value(found, "windbolt_window_emit_delay_seconds_sum", **of) == sum(60 * (10 - end) for end in ends)
    assert value(found, "windbolt_window_emit_delay_seconds_bucket", **of, le="300.0") == 0
    assert value(found, "windbolt_window_emit_delay_seconds_bucket", **of, le="600.0") == 5
    sessions = value(found, "windbolt_window_emit_delay_seconds_count", topology="shop", bolt="visits")
    assert sessions == summary.last.bolts["visits"].fired > 0


def test_windows_that_the_end_of_the_input_fires_early_have_no_delay(folder: Path, port: int) -> None:
    run_local(shop(folder), RunOptions(clock=lambda: NOON, serve_metrics=port))
    assert value(scrape(port), "windbolt_window_emit_delay_seconds_sum", topology="shop", bolt="revenue") == 0


def test_totals_go_on_after_a_restart_before_the_first_batch(folder: Path, port: int) -> None:
    first = run_local(shop(folder), RunOptions(str(folder / "ck"), keep_open=True, serve_metrics=port))
    before = scrape(port)
    begun: list[Scrape] = []
    stop = threading.Event()

    def look() -> int:  # called for the time of the first batch, after the state has been restored
        if not begun:
            begun.append({})
            begun[0] = scrape(port)
        return NOON + MINUTE

    write(folder / "orders", 3, [order(7), order(7.1)])
    second = run_local(
        shop(folder), RunOptions(str(folder / "ck"), keep_open=True, serve_metrics=port, clock=look, stop=stop)
    )
    totals = {
        key: number
        for key, number in before.items()
        if key[0] in ("windbolt_events_total", "windbolt_windows_fired_total", "windbolt_spout_total")
    }
    assert {key: begun[0][key] for key in totals} == totals
    assert value(begun[0], "windbolt_batches_total", topology="shop") == 0, "that counts the batches of a process"
    found = scrape(port)
    assert_as_reported(found, second)
    assert first.last is not None
    assert all(found[key] >= number for key, number in totals.items())


def test_counts_begin_at_zero(folder: Path, port: int) -> None:
    begun: list[Scrape] = []

    def look() -> int:
        begun.append(scrape(port))
        return NOON

    run_local(shop(folder), RunOptions(serve_metrics=port, clock=look))
    counted = values(begun[1], "windbolt_events_total", "bolt", "stream", "account")
    assert len(counted) == 3 * len(ACCOUNTS), "a new checkpoint has no earlier batch, and the first has not begun"
    assert set(counted.values()) == {0}
    delays = values(begun[1], "windbolt_window_emit_delay_seconds_bucket", "bolt", "le")
    assert {bolt for bolt, _ in delays} == {"revenue", "visits"}
    assert set(delays.values()) == {0}
    assert set(values(begun[1], "windbolt_batch_phase_seconds_count", "phase").values()) == {0}


def test_partitions_have_watermarks_of_their_own_where_they_are_listed(tmp_path: Path, port: int) -> None:
    def run(settings: dict[str, Any], name: str, *wheres: str | None) -> dict[Any, float]:
        builder = TopologyBuilder(name)
        rows = [order(minute, partition=where) for minute, where in zip([0, 5, 1, 6], wheres, strict=True)]
        builder.set_spout("orders", spouts.memory("user string, amount double, ts timestamp, partition string", rows))
        bolt = Revenue().with_window("1m", "1m").with_timestamp_field("ts").with_watermark(every=1, **settings)
        builder.set_bolt("revenue", bolt).global_grouping("orders")
        builder.set_sink("out", sinks.memory()).from_("revenue")
        run_local(builder.build(), RunOptions(serve_metrics=port, keep_open=True))
        found = {key: at for key, at in scrape(port).items() if dict(key[1]).get("topology") == name}
        return values(found, "windbolt_watermark_timestamp_seconds", "input", "partition")

    noon = NOON / 1e6
    listed = run({"partition": "partition", "partitions": ["north", "south"]}, "listed", *["north", "south"] * 2)
    assert listed == {("orders", "north"): noon + 60, ("orders", "south"): noon + 360}
    listed = run({"partition": "partition", "partitions": ["null"]}, "null", *["null", None] * 2)
    assert listed == {("orders", "'null'"): noon + 60, ("orders", "null"): noon + 360}
    found = run({"partition": "partition"}, "found", *["north", "south"] * 2)
    assert found == {("orders", ""): noon + 60}, "as many as there are keys: the one that is furthest behind"


def test_a_failed_run_is_not_well(folder: Path, port: int) -> None:
    write(folder / "orders", 3, [order(7, "crash"), order(20), order(21)])
    write(folder / "refunds", 3, [order(20), order(21)])
    with pytest.raises(BoltError):
        run_local(shop(folder), RunOptions(serve_metrics=port))
    status, told = health(port)
    assert status == 503
    assert told["status"] == "failing"
    run = told["topologies"]["shop"]
    assert (run["state"], run["live"], run["ready"]) == ("failed", False, False)
    assert "the till is broken" in run["error"]
    assert run["last_commit"]["batch"] == 1
    assert value(scrape(port), "windbolt_run_healthy", topology="shop") == 0

    (folder / "orders/03.jsonl").unlink()
    run_local(shop(folder), RunOptions(serve_metrics=port))
    status, told = health(port)
    assert (status, told["topologies"]["shop"]["state"]) == (200, "finished"), (
        "the next run of the topology replaces it"
    )


def test_a_run_whose_checkpoint_another_one_has_is_live_and_not_ready(folder: Path, port: int) -> None:
    """Started again by its supervisor it would take the checkpoint back."""

    def loses(report: BatchReport) -> None:
        raise TakenOver("checkpoint b/ck has been taken over by process 7 on b at 2024-01-01T00:00:00Z")

    with pytest.raises(TakenOver):
        run_local(shop(folder), RunOptions(serve_metrics=port, on_report=loses))
    status, told = health(port)
    run = told["topologies"]["shop"]
    assert (status, run["state"], run["live"], run["ready"]) == (200, "taken over", True, False)
    assert "by process 7 on b at 2024-01-01T00:00:00Z" in run["error"]
    assert value(scrape(port), "windbolt_run_healthy", topology="shop") == 1


def test_a_run_is_ready_while_it_takes_input(folder: Path, port: int) -> None:
    seen: list[tuple[int, dict[str, Any], int]] = []

    def look(report: BatchReport) -> None:
        status, told = health(port)
        seen.append((status, told["topologies"]["shop"], get(port, "/ready")[0]))

    run_local(shop(folder), RunOptions(str(folder / "ck"), serve_metrics=port, on_report=look))
    assert [(status, run["state"], ready) for status, run, ready in seen] == [(200, "running", 200)] * 3
    assert [run["last_commit"]["batch"] for _, run, _ in seen] == [0, 1, 1]
    assert get(port, "/ready")[0] == 503
    assert health(port)[0] == 200


def test_topologies_share_a_port(folder: Path, port: int) -> None:
    for name in ("shop", "stall"):
        run_local(shop(folder, name), RunOptions(serve_metrics=port))
    found = scrape(port)
    assert {name for (name,) in values(found, "windbolt_batches_total", "topology")} == {"shop", "stall"}
    assert set(health(port)[1]["topologies"]) == {"shop", "stall"}


def test_other_paths_and_methods(folder: Path, port: int) -> None:
    run_local(shop(folder), RunOptions(serve_metrics=port))
    assert get(port, "/")[0] == 200
    assert get(port, "/etc/passwd")[0] == 404
    assert get(port, "/metrics?name=up")[0] == 200


def test_what_cannot_be_answered_is_logged_once(
    folder: Path, port: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    run_local(shop(folder), RunOptions(serve_metrics=port))

    def breaks(*_: object) -> None:
        raise ZeroDivisionError("a defect")

    monkeypatch.setattr(RunMetrics, "samples", breaks)
    for _ in range(3):
        status, kind, body = get(port, "/metrics")
        assert (status, kind) == (500, "application/json; charset=utf-8")
        error = json.loads(body)["error"]
        assert (error["what"], error["why"]) == ("/metrics could not be answered", "ZeroDivisionError: a defect")
    (logged,) = [record for record in caplog.records if record.name == "windbolt.metrics"]
    assert f"/metrics could not be answered at 127.0.0.1:{port}" in logged.getMessage()
    assert logged.exc_info is not None
    assert health(port)[0] == 200, "the rest is served on"


def test_what_goes_wrong_while_an_answer_is_sent_is_logged_once_and_that_nobody_listens_is_not(
    folder: Path, port: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    run_local(shop(folder), RunOptions(serve_metrics=port))
    for error, times in ((BrokenPipeError("gone"), 0), (ZeroDivisionError("a defect"), 1)):

        def breaks(*_: object, error: Exception = error) -> None:
            raise error

        monkeypatch.setattr(BaseHTTPRequestHandler, "end_headers", breaks)
        for _ in range(2):
            with pytest.raises((OSError, HTTPException)):
                get(port, "/health")
        logged = [record for record in caplog.records if "a request failed" in record.getMessage()]
        assert len(logged) == times, "a connection is closed after that"


def test_a_port_that_is_taken(folder: Path, port: int) -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        with pytest.raises(ConfigError, match=f"the metrics cannot be served at 127.0.0.1:{port}"):
            run_local(shop(folder), RunOptions(serve_metrics=port))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("metrics", "not a port"),
        (0, "not a port"),
        (70000, "not a port"),
        (":9464", "not an address"),
        ("host:", "not a port"),
        ("", "not a port"),
        (True, "not an address"),
    ],
)
def test_what_is_no_address(given: Any, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        RunOptions(serve_metrics=given)


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (9464, "127.0.0.1:9464"),
        ("9464", "127.0.0.1:9464"),
        ("0.0.0.0:9464", "0.0.0.0:9464"),
        ("[::1]:9464", "[::1]:9464"),
    ],
)
def test_an_address_is_a_port_of_this_machine_or_has_a_host(given: Any, shown: str) -> None:
    assert str(RunOptions(serve_metrics=given).metrics_address) == shown


def test_without_the_package_the_extra_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(EnvironmentMissing, match="prometheus-client is missing") as missing:
        run_local(shop(folder), RunOptions(serve_metrics=9464))
    assert "windbolt[prometheus]" in missing.value.do


def test_without_metrics_neither_the_package_nor_spark_is_imported(folder: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from tests.helpers.orders_and_refunds import shop; "
        "from windbolt import RunOptions, run_local; before = set(sys.modules); "
        "[sys.modules.pop(name) for name in before if name.split('.')[0] == 'prometheus_client']; "
        "run_local(shop(Path(sys.argv[1]))); "
        "unwanted = ('prometheus_client', 'pyspark', 'opentelemetry'); "
        "assert not [name for name in sys.modules if name.split('.')[0] in unwanted]"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(folder)], cwd=ROOT, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_lag_that_takes_long_is_looked_up_seldom(folder: Path, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a processor the look-up takes half a percent at most, however many files there are."""
    now, looked = [0.0], [0]

    def take_a_second(*_: Any) -> list[SourceLag]:
        now[0] += 1.0
        looked[0] += 1
        return [SourceLag("orders", "files", looked[0])]

    monkeypatch.setattr(local, "files_behind", take_a_second)
    monkeypatch.setattr(run_metrics, "time", SimpleNamespace(monotonic=lambda: now[0]))
    run_local(shop(folder), RunOptions(serve_metrics=port))

    def behind(at: float) -> float:
        now[0] = at
        return value(scrape(port), "windbolt_source_lag", topology="shop", spout="orders", unit="files", partition="")

    assert [behind(at) for at in (10.0, 20.0, 211.0 - 0.1, 212.0, 300.0)] == [1, 1, 1, 2, 2]
