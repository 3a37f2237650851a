"""The delay of the watermark, and what the rules of time found: in the report, in JSON, and as it is shown."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from topologies.cli.app import app
from topologies.cli.displays import MAX_SHOWN_DELAY, LineProgress, LiveProgress, print_summary, time_table, time_words
from topologies.engine.report import BatchReport, BoltReport
from topologies.topology import Topology
from windbolt import RunOptions, Summary, TopologyBuilder, run_local, spouts
from windowing import TupleWindow, WindowedBolt, presets

EVENTS = "id string, ts long, at long"
SECOND = 1_000_000
NOW = 1_704_111_602 * SECOND
"""2024-01-01T12:20:02Z."""


class Quiet(WindowedBolt):
    outputs = "n long"

    def execute(self, window: TupleWindow) -> None:
        return None


def event(second: float, arrived: float | None = None) -> tuple[str, int, int]:
    """An event of a time, in seconds before 12:20:02."""
    then = NOW // 1000 - round(second * 1000)
    return "e", then, then if arrived is None else NOW // 1000 - round(arrived * 1000)


def azure(**rules: Any) -> Quiet:
    preset = presets.azure(**{"late": "5m", "out_of_order": "2m", "arrival_field": "at", **rules})
    return Quiet().with_tumbling_window("1m").with_timestamp_field("ts").with_time(preset)


def over(bolt: WindowedBolt, *streams: list[Any]) -> Topology:
    """A topology of one bolt that reads these events, a spout each, and a batch for each event."""
    builder = TopologyBuilder("metrics")
    declarer = builder.set_bolt("bolt", bolt)
    for number, rows in enumerate(streams):
        builder.set_spout(f"s{number}", spouts.memory(EVENTS, *([row] for row in rows)))
        declarer.global_grouping(f"s{number}")
    return builder.build()


def run(topology: Topology, now: int = NOW) -> tuple[BoltReport, list[BatchReport], Summary]:
    reports: list[BatchReport] = []
    summary = run_local(topology, RunOptions(clock=lambda: now, keep_open=True, on_report=reports.append))
    return reports[-1].bolts["bolt"], reports, summary


MIXED = [event(10), event(10 + 300 + 1, 10), event(10 + 150), event(-400, 9)]
"""In time; late by 5 minutes and a second, and out of order; 2 and a half minutes out of order; 6 minutes early."""
FOUND = {"adjusted": 2, "early_input": 1, "late_input": 1, "out_of_order": 2, "truncated": 0}


@pytest.mark.feature("AZ-23")
def test_the_delay_is_the_clock_less_the_watermark() -> None:
    bolt, reports, _ = run(over(azure(), [event(2)]))
    assert bolt.watermark == NOW - 122 * SECOND
    assert bolt.delay == 122 * SECOND
    assert reports[-1].to_json()["bolts"]["bolt"]["watermark_delay_seconds"] == 122


@pytest.mark.feature("AZ-23")
def test_the_greatest_watermark_counts_where_each_key_has_its_own() -> None:
    per_key = azure().with_key("id").with_watermark(per_key=True)
    bolt, _, _ = run(over(per_key, [("slow", *event(200)[1:]), ("fast", *event(3)[1:]), ("slow", *event(190)[1:])]))
    assert bolt.delay == 123 * SECOND


@pytest.mark.feature("AZ-23")
@pytest.mark.parametrize("settings", [{}, {"out_of_order": "0s"}])
def test_events_ahead_of_the_clock_make_the_delay_negative(settings: dict[str, str]) -> None:
    bolt, _, _ = run(over(azure(arrival_field=None, **settings), [event(-200)]))
    assert bolt.delay == (-200 + (0 if settings else 120)) * SECOND


def test_there_is_no_delay_without_a_watermark() -> None:
    assert run(over(azure(), [("no time", None, NOW // 1000)]))[0].delay is None
    assert run(over(Quiet().with_tumbling_window("1m"), [event(2)]))[0].delay is None


@pytest.mark.feature("AZ-24")
def test_what_the_rules_found_is_counted_by_stream() -> None:
    bolt, _, summary = run(over(azure(), MIXED, [event(5), event(4)]))
    assert bolt.metrics == FOUND
    assert (bolt.accounts["early"], bolt.accounts["dropped"]) == (1, 0)
    by_stream = {stream: {name: counts[name] for name in FOUND} for stream, counts in bolt.streams.items()}
    assert by_stream == {"s0": FOUND, "s1": dict.fromkeys(FOUND, 0)}
    said = summary.to_json()["last"]["bolts"]["bolt"]
    assert said["metrics"] == FOUND
    assert said["streams"]["s0"]["out_of_order"] == 2


@pytest.mark.feature("AZ-24")
def test_what_is_dropped_is_counted_too() -> None:
    bolt, _, _ = run(over(azure(action="drop"), MIXED))
    assert (bolt.accounts["dropped"], bolt.accounts["adjusted"]) == (2, 0)
    assert (bolt.metrics["late_input"], bolt.metrics["out_of_order"]) == (1, 1)


@pytest.mark.feature("AZ-24")
@pytest.mark.parametrize("rules", [presets.storm(), presets.atlas("0s"), presets.streaminsight()])
def test_every_system_counts_what_is_out_of_order(rules: presets.Preset) -> None:
    """Late is late, whoever decides about it: the task that reads, or the task that has the windows."""
    topology = TopologyBuilder("metrics")
    topology.set_spout("s0", spouts.memory(EVENTS, [event(5)], [event(300), event(4)]))
    bolt = Quiet().with_tumbling_window("1m").with_timestamp_field("ts").with_time(rules)
    topology.set_bolt("bolt", bolt).global_grouping("s0")
    found, _, _ = run(topology.build())
    assert found.metrics["out_of_order"] == found.accounts["late"] + found.accounts["dropped"] == 1


# ---- what is seen of it


def shown(what: Any) -> str:
    console = Console(width=120)
    with console.capture() as capture:
        console.print(what)
    return " ".join(capture.get().split())


@pytest.mark.feature("AZ-23", "AZ-24")
def test_the_display_has_a_table_of_time() -> None:
    topology = over(azure(), MIXED, [event(5)])
    _, reports, _ = run(topology)
    display = LiveProgress(topology)
    display.report(reports[-1])
    text = shown(display)
    assert "what the rules of time found" in text
    assert "watermark delay early late arrival out of order adjusted" in text
    assert "bolt 2m 10s 1 1 2 2 from s0 1 1 2 2 from s1 0 0 0 0" in text
    assert "dropped" not in text, "what is zero everywhere has no column"


def test_a_bolt_that_goes_by_the_clock_has_no_row() -> None:
    topology = over(Quiet().with_tumbling_window("1m"), [event(2)])
    _, reports, summary = run(topology)
    display = LiveProgress(topology)
    display.report(reports[-1])
    console = Console(width=120)
    with console.capture() as capture:
        print_summary(console, topology, summary, None)
    assert "rules of time" not in shown(display) + capture.get()


@pytest.mark.feature("AZ-23", "AZ-24")
def test_a_line_names_what_is_not_zero() -> None:
    topology = over(azure(action="drop"), MIXED)
    _, reports, _ = run(topology)
    console = Console(width=200)
    with console.capture() as capture:
        LineProgress(topology, console).report(reports[-1])
    assert "watermark delay 2m 10s, early 1, late arrival 1, out of order 1, dropped 2" in capture.get()


def test_the_delay_of_old_input_is_not_shown() -> None:
    topology = over(azure(), [event(5)])
    _, reports, _ = run(topology)
    (name, bolt), *_ = reports[-1].bolts.items()
    assert bolt.delay is not None
    assert "watermark delay" in time_words(replace(bolt, delay=MAX_SHOWN_DELAY))
    old = replace(bolt, delay=MAX_SHOWN_DELAY + 1)
    assert "watermark delay" not in time_words(old)
    assert time_table({name: replace(old, metrics={}, accounts={})}) is None
    late = replace(old, metrics={"late_input": 3}, accounts={})
    assert "watermark delay" not in shown(time_table({name: late}))
    assert "late arrival" in shown(time_table({name: late}))


@pytest.mark.feature("AZ-23", "AZ-24")
def test_the_summary_has_it_too() -> None:
    topology = over(azure(), [event(-100, -100), *MIXED], [])
    _, _, summary = run(topology)
    console = Console(width=120)
    with console.capture() as capture:
        print_summary(console, topology, summary, None)
    text = " ".join(capture.get().split())
    assert "what the rules of time found" in text
    assert "from s1" in text


def test_a_delay_below_zero_is_shown_as_ahead() -> None:
    topology = over(azure(arrival_field=None, out_of_order="0s"), [event(-65)])
    _, reports, _ = run(topology)
    display = LiveProgress(topology)
    display.report(reports[-1])
    assert "bolt 1m 5s ahead" in shown(display)


FILE = """
from tests.topologies.engine.test_metrics import MIXED, azure, over
topology = over(azure(), MIXED)
"""


@pytest.mark.feature("AZ-23", "AZ-24")
def test_json_has_it_for_every_batch(tmp_path: Any) -> None:
    (tmp_path / "mine.py").write_text(FILE)
    result = CliRunner().invoke(app, ["run", f"{tmp_path}/mine.py:topology", "--engine", "local", "--json"])
    assert result.exit_code == 0, result.stderr
    batches = [json.loads(line) for line in result.stdout.splitlines()]
    last, batch = batches[-1], batches[3]
    bolt = batch["bolts"]["bolt"]
    assert bolt["metrics"] == FOUND
    clock = datetime.fromisoformat(batch["clock"])
    watermark = datetime.fromisoformat(bolt["watermark"])
    assert bolt["watermark_delay_seconds"] == (clock - watermark).total_seconds()
    assert last["last"]["bolts"]["bolt"]["metrics"] == bolt["metrics"]
    assert clock.tzinfo == UTC
