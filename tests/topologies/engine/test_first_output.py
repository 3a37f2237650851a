"""A run that starts at the time of an output reads what that needs, and emits nothing from before (AZ-13)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from policies import (
    Action,
    EvictionContext,
    EvictionPolicy,
    QueuedEvent,
    TriggerContext,
    TriggerPolicy,
)
from topologies.cli.app import app
from topologies.engine.event_times import read_from
from topologies.engine.report import BoltReport
from topologies.io import sinks, spouts
from topologies.topology import Topology
from windbolt import RunOptions, Summary, TopologyBuilder, run_local
from windowing import StatefulWindowedBolt, TupleWindow, WindowedBolt, hours, kinds, minutes, presets
from windowing.errors import ConfigError
from windowing.schema import EmittedRows
from windowing.settings.kinds import Session

EVENTS = "id string, ts timestamp, at timestamp"
NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)
FIRST = "2024-01-01T12:10:00Z"
MICROS = 1_704_111_000_000_000
MINUTE = 60_000_000


class Ids(WindowedBolt):
    outputs = "ids string, until timestamp"

    def execute(self, window: TupleWindow) -> EmittedRows:
        return " ".join(str(row["id"]) for row in window.get()), window.end


class Numbered(StatefulWindowedBolt):
    outputs = "number long"
    state_types = {"windows": int}  # noqa: RUF012

    def execute(self, window: TupleWindow) -> EmittedRows:
        self.state["windows"] += 1
        return (self.state["windows"],)


class EachThird(TriggerPolicy):
    """Fires with each third event."""

    state_types = {"events": int}  # noqa: RUF012

    def track(self, event: QueuedEvent, context: TriggerContext) -> bool:
        context.state["events"] += 1
        return bool(context.state["events"] % 3 == 0)


class EachOther(EvictionPolicy):
    """Holds every other event of five minutes."""

    reach = minutes(5)

    def evict(self, event: QueuedEvent, context: EvictionContext) -> Action:
        if event.timestamp <= context.reference - self.reach.micros:
            return Action.EXPIRE
        return Action.KEEP if event.number % 2 else Action.PROCESS


class Ends(WindowedBolt):
    outputs = "windows long"

    def execute(self, window: TupleWindow) -> EmittedRows:
        return (len(window),)


def at(minute: float, second: float = 0) -> datetime:
    """A time, in minutes after noon."""
    return NOON + timedelta(minutes=minute, seconds=second)


def event(minute: float, arrived: float | None = None) -> tuple[str, datetime, datetime]:
    """An event named after its minute."""
    return f"{minute:g}", at(minute), at(minute if arrived is None else arrived)


def azure(**rules: Any) -> Ids:
    return Ids().with_tumbling_window("10m").with_timestamp_field("ts").with_time(presets.azure(**rules))


def topology(bolt: WindowedBolt, *batches: list[Any], tasks: int = 1) -> tuple[Topology, sinks.MemorySink]:
    builder, out = TopologyBuilder("first"), sinks.memory()
    builder.set_spout("events", spouts.memory(EVENTS, *batches))
    builder.set_bolt("bolt", bolt, tasks).shuffle_grouping("events")
    builder.set_sink("out", out).from_("bolt")
    return builder.build(), out


def started(bolt: WindowedBolt, *batches: list[Any], first: Any = FIRST, tasks: int = 1) -> tuple[list[Any], Summary]:
    """What a run emits that starts there, and the run."""
    built, out = topology(bolt, *batches, tasks=tasks)
    summary = run_local(built, RunOptions(first_output=first))
    return out.rows, summary


def report(summary: Summary, bolt: str = "bolt") -> BoltReport:
    assert summary.last is not None
    return summary.last.bolts[bolt]


@pytest.mark.feature("AZ-13")
def test_from_the_first_output_less_the_window_less_the_early_tolerance() -> None:
    """Started at 12:10 with windows of 10 minutes and 5 minutes of early tolerance: events from 11:55 are read."""
    events = [event(minute) for minute in (-11, -6, -5, -1, 0, 1, 9, 10, 11, 20)]
    rows, summary = started(azure(late=None), events)
    assert [(row["ids"], row["until"]) for row in rows] == [("1 9 10", at(10)), ("11 20", at(20))]
    found = report(summary)
    assert (found.skipped, found.suppressed, found.fired) == (2, 1, 2)
    assert found.accounts["received"] == found.accounts["windowed"] == 8, "the events of 11:55 to 12:00 are windowed"
    assert found.streams["events"]["skipped"] == 2
    assert summary.last is not None
    assert (summary.last.first_output, summary.last.read_from) == (MICROS, MICROS - 15 * MINUTE)
    assert summary.rows == 10, "the spout read them all"


@pytest.mark.feature("AZ-13")
def test_by_arrival_where_the_bolt_knows_it() -> None:
    """An event of 12:01 that came at 11:54 is not read; one of 11:50 that came at 11:56 is adjusted as ever."""
    events = [event(1, -6), event(2, -3), event(-10, -4), event(3, 3), event(11, 11)]
    rows, summary = started(azure(late="5s", arrival_field="at"), events)
    assert [row["ids"] for row in rows] == ["2 -10 3", "11"]
    found = report(summary)
    assert (found.skipped, found.accounts["received"], found.metrics["late_input"]) == (1, 4, 1)


@pytest.mark.parametrize(
    ("bolt", "before"),
    [
        (azure(), 15),
        (azure(early="2m"), 12),
        (azure(early=None), 10),
        (Ids().with_window("30m", "10m").with_timestamp_field("ts"), 30),
        (Ids().with_window("30m", 7).with_timestamp_field("ts"), 30),
        (Ids().with_window(kinds.Hopping(minutes(5), minutes(5)), kinds.Hopping(hours(1), hours(1))), 60),
        (Ids().with_window(Session("5m", max_duration="10m")).with_timestamp_field("ts"), 20),
        (Ids().with_window(kinds.SlidingLog(minutes(7))).with_timestamp_field("ts"), 7),
        (Ids().with_window(kinds.Calendar("day", "Europe/Berlin")).with_timestamp_field("ts"), 25 * 60),
        (Ids().with_window(kinds.Calendar("day", "UTC", last=7)).with_timestamp_field("ts"), 7 * 25 * 60),
        (Ids().with_window(5).with_timestamp_field("ts"), None),
        (Ids().with_window(Session("5m")).with_timestamp_field("ts"), None),
        (Ids().with_tumbling_window("5m").with_timestamp_field("ts").with_lifetime("at"), None),
        (Ids().with_window("5m").with_timestamp_field("ts").with_policies(trigger=EachThird()), None),
        (Ids().with_window("5m", "1m").with_timestamp_field("ts").with_policies(eviction=EachOther()), None),
    ],
)
def test_what_is_read_follows_from_the_longest_window(bolt: WindowedBolt, before: int | None) -> None:
    built, _ = topology(bolt)
    assert read_from(built, MICROS) == (None if before is None else MICROS - before * MINUTE)


@pytest.mark.parametrize(
    "bolt",
    [
        Ids().with_window("5m").with_policies(trigger=EachThird()),
        Ids().with_window("5m", "1m").with_policies(eviction=EachOther()),
    ],
)
def test_policies_of_ones_own_have_the_windows_of_a_run_from_the_beginning(bolt: WindowedBolt) -> None:
    bolt, events = bolt.with_timestamp_field("ts"), [event(minute) for minute in range(30)]
    rows, summary = started(bolt, events, first=at(22))
    whole, _ = started(bolt, events, first=None)
    assert rows == [row for row in whole if row["until"] >= at(22)] != []
    assert report(summary).skipped == 0


def test_one_time_for_all_bolts_that_read_spouts_and_none_for_those_behind() -> None:
    builder, out = TopologyBuilder("first"), sinks.memory()
    builder.set_spout("events", spouts.memory(EVENTS, [event(minute) for minute in range(-40, 21, 5)]))
    short = Ids().with_tumbling_window("5m").with_timestamp_field("ts")
    builder.set_bolt("short", short).global_grouping("events")
    builder.set_bolt("long", Ids().with_tumbling_window("20m").with_timestamp_field("ts")).global_grouping("events")
    builder.set_bolt("behind", Ends().with_tumbling_window("6h")).global_grouping("short")
    builder.set_sink("out", out).from_("behind")
    built = builder.build()
    assert read_from(built, MICROS) == MICROS - 20 * MINUTE, "the six hours of the bolt behind do not matter"
    summary = run_local(built, RunOptions(first_output=at(10)))
    assert {name: (report(summary, name).skipped, report(summary, name).suppressed) for name in built.windowed} == {
        "short": (6, 4),
        "long": (6, 1),
        "behind": (0, 0),
    }
    assert report(summary, "behind").accounts["received"] == 3, "the windows that end at 12:10, 12:15 and 12:20"


def test_a_stateful_bolt_does_not_see_the_windows_before() -> None:
    bolt = Numbered().with_window("20m", "10m").with_timestamp_field("ts")
    rows, summary = started(bolt, [event(1), event(11)], [event(21), event(31)], first="2024-01-01T12:30")
    assert [row["number"] for row in rows] == [1, 2, 3]
    assert (report(summary).fired, report(summary).suppressed, report(summary).skipped) == (3, 1, 1)


@pytest.mark.parametrize("tasks", [1, 3])
def test_every_batch_is_looked_at_and_each_task_counts(tasks: int) -> None:
    batches = [[event(minute + part / 4) for part in range(4)] for minute in range(-20, 21)]
    bolt = Ids().with_tumbling_window("10m").with_timestamp_field("ts").with_lag("1h")
    rows, summary = started(bolt, *batches, [event(-30)], tasks=tasks)
    assert report(summary).skipped == 20 * 4 + 1
    assert report(summary).suppressed == 1
    assert sum(len(row["ids"].split()) for row in rows) == report(summary).accounts["windowed"] - 1
    assert {row["until"] for row in rows} == {at(10), at(20), at(30)}


def test_by_the_clock() -> None:
    """In processing time an event is as old as its batch."""
    built, out = topology(Ids().with_window("20m", "10m"), *([event(0)] for _ in range(6)))
    clock = iter([MICROS + minute * MINUTE for minute in (-30, -21, -15, -9, -1, 5, 11)])
    summary = run_local(built, RunOptions(first_output=FIRST, clock=lambda: next(clock)))
    assert (report(summary).skipped, report(summary).suppressed) == (1, 1)
    assert [row["until"] for row in out.rows] == [at(10), at(20), at(30), at(40)]


def test_what_cannot_be_read_is_invalid_as_ever_and_not_skipped() -> None:
    events = [("a", None, at(0)), ("b", at(-20), at(0)), ("c", at(5), at(5)), ("d", at(5), None)]
    _, summary = started(azure(late="5s", arrival_field="at"), events)
    assert (report(summary).accounts["invalid"], report(summary).skipped) == (2, 0)


def test_without_a_first_output_nothing_is_left_out() -> None:
    _, summary = started(azure(), [event(-300), event(1)], first=None)
    assert (report(summary).skipped, report(summary).suppressed) == (0, 0)
    assert summary.to_json()["last"]["first_output"] is None


def test_the_report_says_what_was_left_out() -> None:
    _, summary = started(azure(late=None), [event(-11), event(-1), event(1)])
    last = summary.to_json()["last"]
    assert (last["first_output"], last["read_from"]) == (FIRST, "2024-01-01T11:55:00Z")
    assert (last["bolts"]["bolt"]["skipped"], last["bolts"]["bolt"]["suppressed"]) == (1, 1)


@pytest.mark.parametrize(
    "given", [FIRST, "2024-01-01T13:10:00+01:00", "2024-01-01 12:10", at(10), at(10).replace(tzinfo=None)]
)
def test_a_time_may_be_written_in_many_ways(given: Any) -> None:
    assert RunOptions(first_output=given).first_output_at == MICROS


@pytest.mark.parametrize("given", ["noon", "12:10", "", "2024-13-01T00:00", "2024-01-01T12:10:00.1234567Z", 1.5, True])
def test_a_time_that_cannot_be_read_says_how_to_write_it(given: Any) -> None:
    built, _ = topology(azure())
    with pytest.raises(ConfigError, match="2024-01-01T12:10:00Z"):
        run_local(built, RunOptions(first_output=given))


# ---- on the command line

FILE = """
from tests.topologies.engine.test_first_output import azure, event, topology
topology, _ = topology(azure(late=None), [event(minute) for minute in (-11, -6, -5, -1, 1, 11)])
"""


def invoke(folder: Path, *options: str) -> Result:
    (folder / "mine.py").write_text(FILE)
    return CliRunner().invoke(app, ["run", f"{folder}/mine.py:topology", "--engine", "local", *options])


@pytest.mark.feature("AZ-13")
def test_the_command_says_what_was_skipped_and_suppressed(tmp_path: Path) -> None:
    result = invoke(tmp_path, "--first-output", FIRST)
    assert result.exit_code == 0, result.stderr
    assert "First output at 2024-01-01T12:10:00Z; input was read from 2024-01-01T11:55:00Z on." in result.stdout
    assert "bolt: 2 older events skipped, 1 window that ended too soon not emitted" in result.stdout
    assert "First output" not in invoke(tmp_path).stdout


def test_the_command_says_how_to_write_a_time(tmp_path: Path) -> None:
    result = invoke(tmp_path, "--first-output", "noon")
    assert result.exit_code == 2
    assert "error: the first output 'noon' is not a time" in result.stderr
    assert "do:  write it in ISO 8601, such as 2024-01-01T12:10:00Z" in result.stderr
