"""The dashboard and the alerts of docs/monitoring at a real Prometheus, which scrapes real runs each second.

Every query of every panel answers with what the reports of the runs say, and every alert hears of what it is for.
"""

from __future__ import annotations

import json
import math
import re
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from manager.accounts import ACCOUNTS, FINDINGS, SKIPPED
from servers.prometheus import Server, program, server
from tests.helpers.orders_and_refunds import SCHEMA, write
from tests.helpers.places import ROOT
from tests.helpers.scraping import free_port, health
from tests.topologies.metrics.test_dashboard import ALERTS, RULES, TARGETS
from tests.topologies.step.test_counters import RULES as STEP_RULES
from tests.topologies.step.test_counters import STEP
from topologies.engine.report import BatchReport
from topologies.graph.graph import Graph
from topologies.run import run_metrics
from topologies.step.compile_step import step_topology
from topologies.step.config_files import load_step
from windbolt import Restart, RunOptions, TopologyBuilder, run_local, sinks, spouts
from windowing import TaskContext, TupleWindow, WindowedBolt
from windowing.errors import BoltError

UNIT_TESTS = Path(__file__).with_name("alerts_test.yaml")
SECOND = 1_000_000
BATCHES = 8
Values = dict[tuple[str, ...], float]


# --- promtool ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("check", [["check", "rules", str(ALERTS)], ["test", "rules", str(UNIT_TESTS)]])
def test_promtool_finds_no_fault(check: list[str]) -> None:
    done = subprocess.run([program("promtool"), *check], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_promtool_finds_a_fault(tmp_path: Path) -> None:
    (tmp_path / "alerts.yaml").write_text(ALERTS.read_text("utf-8").replace("> 900", "> 90"), "utf-8")
    (tmp_path / "test.yaml").write_text(
        UNIT_TESTS.read_text("utf-8").replace("../../../docs/monitoring/", ""), encoding="utf-8"
    )
    command = [program("promtool"), "test", "rules", "test.yaml"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "WindboltWatermarkBehind" in done.stdout + done.stderr


def test_each_alert_is_tested_to_fire_and_not_to_fire() -> None:
    told: dict[str, set[bool]] = {}
    for group in yaml.safe_load(UNIT_TESTS.read_text("utf-8"))["tests"]:
        for each in group["alert_rule_test"]:
            told.setdefault(each["alertname"], set()).add(bool(each["exp_alerts"]))
    assert told == {rule["alert"]: {True, False} for rule in RULES}


# --- real runs --------------------------------------------------------------------------------------------------


class Counting(WindowedBolt):
    outputs = "user string, revenue double"

    def prepare(self, context: TaskContext) -> None:
        self.counters = context.counters

    def execute(self, window: TupleWindow) -> Any:
        self.counters["windows with ada"] += "ada" in window.table.column("user").to_pylist()
        for user, amounts in window.groups("user", "amount"):
            if user == "crash":
                raise ValueError("the till is broken")
            if user == "away":
                raise ConnectionError("the till does not answer")
            yield user, amounts.sum()


def shop(folder: Path, name: str = "shop") -> Graph:
    builder = TopologyBuilder(name)
    for source in ("orders", "refunds"):
        (folder / source).mkdir(parents=True, exist_ok=True)
        builder.set_spout(source, spouts.files(str(folder / source), schema=SCHEMA, format="jsonl"))
    bolt = Counting().with_window("2s", "1s").with_timestamp_field("ts").with_lag("1s").with_late_tuple_stream("late")
    builder.set_bolt("revenue", bolt).global_grouping("orders").global_grouping("refunds")
    builder.set_sink("out", sinks.memory()).from_("revenue")
    return builder.build()


def order(at: float, user: str = "ada") -> dict[str, Any]:
    return {"user": user, "amount": 1.0, "ts": round(at * SECOND)}


def feed_shop(folder: Path, number: int) -> None:
    """Four orders and a refund of now; every other time one is late, and one has no time."""
    now = time.time()
    orders = [order(now - 0.5), order(now - 0.3, "bob"), order(now - 0.4), order(now)]
    write(folder / "orders", number, orders + [order(now - 60, "eve")] * (number % 2))
    with open(folder / "orders" / f"{number:02d}.jsonl", "a", encoding="utf-8") as file:
        file.write('{"user": "eve", "amount": 1.0}\n' * (number % 2) + "no JSON\n")
    write(folder / "refunds", number, [order(now, "bob")])


def feed_step(folder: Path, number: int) -> None:
    said = [("fireAndPurge", "decline"), ("fireAndPurge", "return"), ("contine", "return")]
    lines = [
        json.dumps({"key": f"{number}-{at}", "value": {"trigger": trigger, "dsl": answer, "out": {"n": 1}}})
        for at, (trigger, answer) in enumerate(said)
    ]
    (folder / "in" / f"{number}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


@contextmanager
def going_on(topology: Graph, checkpoint: Path, port: int) -> Iterator[list[BatchReport]]:
    """A run with a batch each half second, until the end of the block; its reports."""
    reports: list[BatchReport] = []
    stop = threading.Event()
    options = RunOptions(
        str(checkpoint), every="500ms", keep_open=True, serve_metrics=port, stop=stop, on_report=reports.append
    )
    failed: list[BaseException] = []

    def go_on() -> None:
        try:
            run_local(topology, options)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        yield reports
    finally:
        stop.set()
        thread.join()
    assert not failed, failed


def wait_until(holds: Callable[[], bool], seconds: float = 60) -> None:
    before = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < before, "it does not come about"
        time.sleep(0.02)


class Watched:
    """Two runs that Prometheus has scraped to their end."""

    def __init__(self, found: Server, reports: dict[str, list[BatchReport]], commits: dict[str, float]) -> None:
        self.server, self.reports, self.commits = found, reports, commits
        self.at = math.floor(time.time() * 1000) / 1000
        """The moment for which everything is asked, in whole milliseconds as Prometheus has it."""

    def bolts(self) -> Iterator[tuple[str, str, Any]]:
        for topology, reports in self.reports.items():
            for name, bolt in reports[-1].bolts.items():
                yield topology, name, bolt

    def ask(self, expression: str) -> dict[frozenset[tuple[str, str]], float]:
        text = expression.replace("$__rate_interval", "30s").replace("$topology", ".*")
        return self.server.query(text, self.at)


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    folder = tmp_path_factory.mktemp("watched")
    (folder / "in").mkdir()
    (folder / "rules.py").write_text(STEP_RULES, encoding="utf-8")
    (folder / "step.conf").write_text(STEP, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch, free_port() as port:
        patch.setattr(run_metrics, "LAG_SECONDS", 0.0)
        patch.setattr(run_metrics, "_LAG_PAUSE_FACTOR", 0)  # a busy machine would look it up less often
        patch.chdir(folder)
        step = step_topology(load_step("step.conf"))
        with server([f"127.0.0.1:{port}"]) as found:
            with (
                going_on(shop(folder), folder / "ck", port) as of_shop,
                going_on(step, folder / "step-ck", port) as of_step,
            ):
                wait_until(lambda: last_scrape(found) > 0)
                for number in range(BATCHES):
                    feed_shop(folder, number)
                    feed_step(folder, number)
                    reached = (len(of_shop), len(of_step))
                    wait_until(lambda: len(of_shop) > reached[0] and len(of_step) > reached[1])  # noqa: B023
                    time.sleep(max(0, 1 - time.time() % 1))  # what is scraped each second changes each second
                wait_until(lambda: sum(of_shop[-1].spouts["refunds"].values()) >= BATCHES)
            feed_shop(folder, BATCHES)  # which nobody reads any more
            commits = {
                name: datetime.fromisoformat(told["last_commit"]["at"]).timestamp()
                for name, told in health(port)[1]["topologies"].items()
            }
            ended = time.time()
            wait_until(lambda: last_scrape(found) > ended + 1)
            yield Watched(found, {"shop": of_shop, "orders": of_step}, commits)


def last_scrape(found: Server) -> float:
    return max(found.query("timestamp(windbolt_batches_total)").values(), default=0)


def by(found: dict[frozenset[tuple[str, str]], float], *labels: str) -> Values:
    return {tuple(dict(given).get(label, "") for label in labels): value for given, value in found.items()}


def totals(watched: Watched, names: Any, *, stream: bool = False) -> Values:
    """Counts of events, summed over streams or not."""
    found: Counter[tuple[str, ...]] = Counter()
    for _, bolt, of in watched.bolts():
        for source, counts in of.streams.items():
            for name in names:
                found[(bolt, source, name) if stream else (bolt, name)] += counts[name]
    return dict(found)


def of_bolts(value: Callable[[Any], float | None]) -> Callable[[Watched], Values]:
    def found(watched: Watched) -> Values:
        known = {(topology, name): value(of) for topology, name, of in watched.bolts()}
        return {key: number for key, number in known.items() if number is not None}

    return found


def phases(watched: Watched) -> Values:
    spent: Counter[tuple[str, ...]] = Counter()
    batches = [report for reports in watched.reports.values() for report in reports]
    for report in batches:
        for phase, seconds in report.seconds.items():
            if phase != "total":
                spent[phase,] += seconds  # type: ignore[assignment]
    return {key: seconds / len(batches) for key, seconds in spent.items()}


def spout_rows(watched: Watched) -> Values:
    last = [reports[-1] for reports in watched.reports.values()]
    return {
        (spout, what): n for report in last for spout, counts in report.spouts.items() for what, n in counts.items()
    }


def since(watched: Watched, times: Values) -> Values:
    return {key: watched.at - at for key, at in times.items()}


def counters(watched: Watched, topology: str, bolt: str) -> Values:
    return {(bolt, name): count for name, count in watched.reports[topology][-1].bolts[bolt].counters.items()}


def positive(found: Values) -> Values:
    return {key: value for key, value in found.items() if value > 0}


LATE = ("late", "dropped", "early", "invalid", "duplicate")
EXPECTED: dict[str, tuple[tuple[str, ...], Callable[[Watched], Values]]] = {
    "Healthy A": (("topology",), lambda watched: {("shop",): 1, ("orders",): 1}),
    "Since the last commit A": (
        ("topology",),
        lambda watched: since(watched, {(name,): at for name, at in watched.commits.items()}),
    ),
    "Restarts in the last hour A": (("topology",), lambda watched: {("shop",): 0, ("orders",): 0}),
    "Pending events A": (("topology", "bolt"), of_bolts(lambda of: of.accounts["pending"])),
    "Behind the input A": (
        ("topology", "spout", "unit"),
        lambda watched: {
            ("shop", "orders", "files"): 1,
            ("shop", "refunds", "files"): 1,
            ("orders", next(iter(watched.reports["orders"][-1].spouts)), "files"): 0,
        },
    ),
    "Watermark of each input, behind the clock A": (
        ("bolt", "input"),
        lambda watched: since(
            watched,
            {(name, stream): at / SECOND for _, name, of in watched.bolts() for stream, at in of.inputs.items()},
        ),
    ),
    "Watermark of each bolt, behind the clock A": (
        ("topology", "bolt"),
        lambda watched: since(watched, of_bolts(lambda of: of.watermark and of.watermark / SECOND)(watched)),
    ),
    "Watermark of each bolt, behind the clock B": (
        ("topology", "bolt"),
        of_bolts(lambda of: None if of.delay is None else of.delay / SECOND),
    ),
    "Events by account A": (("bolt", "account"), lambda watched: positive(totals(watched, ACCOUNTS))),
    "Late, dropped, invalid; files changed after they were read A": (
        ("bolt", "stream", "account"),
        lambda watched: totals(watched, LATE, stream=True),
    ),
    "Late, dropped, invalid; files changed after they were read B": (
        ("spout",),
        lambda watched: {(spout,): 0 for reports in watched.reports.values() for spout in reports[-1].spouts},
    ),
    "Windows fired A": (("bolt",), lambda watched: {(name,): of.fired for _, name, of in watched.bolts()}),
    "Windows fired B": (("topology", "bolt"), of_bolts(lambda of: of.open)),
    "Phases of a batch A": (("phase",), phases),
    "Rows A": (("spout", "what"), spout_rows),
    "Rows B": (
        ("bolt", "stream"),
        lambda watched: {(name, stream): n for _, name, of in watched.bolts() for stream, n in of.emitted.items()},
    ),
    "Answers of rules (steps), own counters A": (
        ("bolt", "answer"),
        lambda watched: counters(watched, "orders", "aggregate"),
    ),
    "Answers of rules (steps), own counters B": (
        ("bolt", "counter"),
        lambda watched: counters(watched, "shop", "revenue"),
    ),
    "Idle inputs and partitions; what the time rules found A": (
        ("topology", "bolt"),
        of_bolts(lambda of: len(of.idle)),
    ),
    "Idle inputs and partitions; what the time rules found B": (
        ("bolt", "finding"),
        lambda watched: totals(watched, (*FINDINGS, SKIPPED)),
    ),
}
"""By panel and query: the labels that tell the values apart, and the values that the reports have. Of rates: the totals
from which they are computed."""
QUANTILES = {"Delay of windows: median and 95 % A", "Delay of windows: median and 95 % B"}


def totalled(expression: str) -> str:
    """An expression with the counters themselves in the place of their rates."""
    return re.sub(r"(?:rate|increase)\(([^()]*?)\[\$__rate_interval\]\)", r"\1", expression)


def test_all_queries_have_an_expectation() -> None:
    assert set(EXPECTED) | QUANTILES == {f"{title} {target['refId']}" for title, target in TARGETS}


@pytest.mark.parametrize(
    ("query", "expression"),
    [pytest.param(name, target["expr"], id=name) for title, target in TARGETS
     if (name := f"{title} {target['refId']}") in EXPECTED],
)  # fmt: skip
def test_a_query_answers_with_what_the_reports_say(query: str, expression: str, watched: Watched) -> None:
    labels, expected = EXPECTED[query]
    wanted = expected(watched)
    assert wanted, "the runs have something to show"
    assert by(watched.ask(totalled(expression)), *labels) == pytest.approx(wanted, abs=1e-5)


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_a_rate_is_that_of_the_same_series(name: str, watched: Watched) -> None:
    """Where the totals have grown there is a rate, and it is not far from what was fed in a second."""
    expression = {f"{title} {target['refId']}": target["expr"] for title, target in TARGETS}[name]
    labels, expected = EXPECTED[name]
    rates = by(watched.ask(expression), *labels)
    if totalled(expression) == expression:
        assert rates
        return
    assert set(rates) == set(expected(watched))
    grown = {key for key, total in expected(watched).items() if total > 0}
    assert {key for key, rate in rates.items() if rate > 0} >= grown
    assert all(math.isfinite(rate) for rate in rates.values())


def test_rates_are_those_of_the_input(watched: Watched) -> None:
    """Prometheus sees the counter rise by what the last report says, from its first scrape to its last."""
    orders = 'windbolt_spout_total{spout="refunds", what="rows"}'
    grown = watched.ask(f"increase({orders}[60s])")
    assert list(grown.values()) == [pytest.approx(spout_rows(watched)["refunds", "rows"], rel=0.35)]


@pytest.mark.parametrize("ref", ["A", "B"])
def test_the_delays_of_windows_are_those_of_the_clock(ref: str, watched: Watched) -> None:
    (expression,) = [
        target["expr"] for title, target in TARGETS if title.startswith("Delay of windows") and target["refId"] == ref
    ]
    quantiles = by(watched.ask(expression), "bolt")
    assert 1 <= quantiles["revenue",] <= 60, "the lag is a second, and a batch comes each half second"
    assert by(watched.ask(totalled(expression)), "bolt")["revenue",] == pytest.approx(quantiles["revenue",], rel=0.5)
    counted = by(watched.ask("windbolt_window_emit_delay_seconds_count"), "bolt")
    assert counted == {(name,): of.fired for _, name, of in watched.bolts() if of.fired}


# --- alerts -----------------------------------------------------------------------------------------------------


@pytest.mark.extended
def test_every_alert_hears_of_what_it_is_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that fails, one that has to start again and again, one far behind with an input that stands, and a process
    that is gone. Alerts that wait for some minutes first are pending."""
    monkeypatch.setattr(run_metrics, "LAG_SECONDS", 0.0)
    now = time.time()
    with (
        free_port() as port,
        free_port() as closed,
        server([f"127.0.0.1:{port}", f"127.0.0.1:{closed}"], [ALERTS]) as found,
    ):
        broken = tmp_path / "broken"
        topology = shop(broken, "broken")
        for source in ("orders", "refunds"):
            write(broken / source, 1, [order(now - 60, "crash"), order(now)])
        with pytest.raises(BoltError):
            run_local(topology, RunOptions(serve_metrics=port))
        wait_until(lambda: bool(found.query('windbolt_run_healthy{topology="broken"}')))
        often = tmp_path / "often"
        topology = shop(often, "often")
        for source in ("orders", "refunds"):
            write(often / source, 1, [order(now - 60, "away"), order(now)])
        restart = Restart(attempts=10, initial_backoff="500ms", max_backoff="500ms")
        with pytest.raises(BoltError):
            run_local(topology, RunOptions(str(often / "ck"), serve_metrics=port, restart=restart))
        behind = tmp_path / "behind"
        old = [order(now - 9000 + each) for each in range(10)]
        topology = shop(behind, "behind")

        def run_again(number: int, orders: list[dict[str, Any]]) -> None:
            write(behind / "orders", number, orders)
            write(behind / "refunds", number, old[: 3 * number])
            options = RunOptions(
                str(behind / "ck"), keep_open=True, serve_metrics=port, clock=lambda: round((now - 1000) * SECOND)
            )
            run_local(topology, options)

        def scraped() -> None:
            begun = time.time()
            wait_until(lambda: last_scrape(found) > begun)

        run_again(1, [old[0], order(now)])
        scraped()
        run_again(2, [*old, order(now), {**order(now), "ts": None}])
        scraped()
        for number in range(3, 20):
            write(behind / "orders", number, old)
            if number % 4 == 0:
                scraped()
        wanted = {rule["alert"] for rule in RULES}
        wait_until(lambda: {each["labels"]["alertname"] for each in found.alerts()} == wanted)
        assert {rule["health"] for rule in found.rules()} == {"ok"}
        told = {
            (each["labels"]["alertname"], each["labels"].get("topology", each["labels"].get("instance")))
            for each in found.alerts()
        }
        assert ("WindboltUnhealthy", "broken") in told
        assert ("WindboltGone", f"127.0.0.1:{closed}") in told
        assert ("WindboltNothingCommitted", "behind") in told
        assert ("WindboltRestartsOften", "often") in told
        firing = {each["labels"]["alertname"] for each in found.alerts() if each["state"] == "firing"}
        assert firing >= {"WindboltUnhealthy", "WindboltInvalidEvents"}


def test_of_a_run_that_is_well_no_alert_hears(watched: Watched) -> None:
    """Of those that nobody provoked: the runs above have late and invalid events, and files that nobody reads."""
    for rule in RULES:
        answer = watched.server.query(rule["expr"], watched.at)
        if rule["alert"] not in ("WindboltLateEvents", "WindboltInvalidEvents"):
            assert answer == {}, rule["alert"]
        else:
            assert {dict(labels)["bolt"] for labels in answer} == {"revenue"}


def test_the_scrape_configuration_of_the_page_is_one(tmp_path: Path) -> None:
    page = (ROOT / "docs/monitoring.md").read_text("utf-8")
    (block,) = re.findall(r"(?m)^    scrape_configs:\n(?:    .*\n)+", page)
    (tmp_path / "prometheus.yml").write_text(re.sub(r"(?m)^    ", "", block), "utf-8")
    command = [program("promtool"), "check", "config", str(tmp_path / "prometheus.yml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
