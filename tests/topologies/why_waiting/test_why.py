"""Why a window has not fired: a table of situations on the local engine, each told from its checkpoint alone."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.helpers.places import ROOT
from topologies import RunOptions, TopologyBuilder, run_local, sinks, spouts
from topologies.cli.app import app
from topologies.why_waiting.why import why
from topologies.why_waiting.why_answer import WhyAnswer, WhyReason
from windowing import AggregateBolt, TupleWindow, WindowedBolt
from windowing.aggregates import count
from windowing.errors import CheckpointError, ConfigError
from windowing.settings.kinds import Session
from windowing.settings.triggers import CountTrigger
from windowing.time.durations import Count, hours

NOON = 1_714_564_800_000_000  # 2024-05-01T12:00:00Z
MINUTE = 60_000_000
Row = tuple[float, str, str]
"""Minute, user, shop."""


class Seen(WindowedBolt):
    outputs = "events long"

    def execute(self, window: TupleWindow) -> Any:
        return (len(window),)


def tumbling() -> WindowedBolt:
    return Seen().with_tumbling_window("10m").with_timestamp_field("ts").with_lag("1m")


@dataclass
class Situation:
    """What a run has been given, and what is asked then."""

    reason: WhyReason
    says: Sequence[str]
    """What stands in the answer, each."""
    bolt: Callable[[], WindowedBolt] = tumbling
    orders: list[list[Row]] = field(default_factory=lambda: [[(1, "ada", "n"), (8, "bob", "s")]])
    """Per batch."""
    refunds: list[list[Row]] | None = None
    window: str | None = None
    key: str | None = None
    flush: bool = False
    first_output: str | None = None
    waiting: int | None = None


SITUATIONS = {
    "nothing was read": Situation(WhyReason.NOT_STARTED, ["No batch has been committed"], orders=[]),
    "the watermark is behind": Situation(
        WhyReason.WATERMARK,
        [
            "The window that ends at 2024-05-01T12:10:00Z holds 2 events, and waits.",
            "It fires when the watermark reaches 2024-05-01T12:10:00Z",
            "the watermark is at 2024-05-01T12:07:00Z",
            "Input 'orders' holds it",
            "An event there at 2024-05-01T12:11:00Z or later would do.",
            "No rule of idleness is set",
        ],
        waiting=2,
    ),
    "another input holds it": Situation(
        WhyReason.WATERMARK,
        ["Input 'refunds' holds it, at 2024-05-01T12:01:00Z"],
        orders=[[(1, "ada", "n")], [(25, "ada", "n")]],
        refunds=[[(2, "ada", "n")]],
        waiting=2,
    ),
    "an input has delivered nothing": Situation(
        WhyReason.NO_WATERMARK,
        ["there is no watermark yet", "Input 'refunds' holds it: nothing has come from there"],
        refunds=[],
        waiting=2,
    ),
    "a partition holds it": Situation(
        WhyReason.WATERMARK,
        ["Input 'orders', partition 's' holds it, at 2024-05-01T12:01:00Z", "since its last event"],
        bolt=lambda: tumbling().with_watermark(every=1, partition="shop", partitions=["n", "s"]),
        orders=[[(2, "ada", "s"), (25, "ada", "n")]],
        waiting=1,
    ),
    "a partition will be left out": Situation(
        WhyReason.WATERMARK,
        ["partition 's' stays silent, it no longer holds the watermark from 2024-05-01T12:05:00Z on"],
        bolt=lambda: tumbling().with_watermark(
            every=1, partition="shop", partitions=["n", "s"], partition_idle_timeout="5m"
        ),
        orders=[[(2, "ada", "s"), (25, "ada", "n")]],
        waiting=1,
    ),
    "an idle timeout will close it": Situation(
        WhyReason.WATERMARK,
        ["the idle timeout of 5m closes the window at 2024-05-01T12:15:00Z by the clock"],
        bolt=lambda: (
            Seen()
            .with_tumbling_window("10m")
            .with_key("user")
            .with_timestamp_field("ts")
            .with_watermark(every=1, idle_timeout="5m")
        ),
        waiting=2,
    ),
    "it has no event": Situation(
        WhyReason.EMPTY, ["holds no event so far, and a window without events does not fire"], window="12:30", waiting=0
    ),
    "none of this key": Situation(
        WhyReason.EMPTY,
        ["holds no event so far of 'eve'"],
        bolt=lambda: tumbling().with_key("user"),
        window="12:10",
        key="eve",
        waiting=0,
    ),
    "one of this key": Situation(
        WhyReason.WATERMARK,
        ["holds 1 event of 'bob', and waits"],
        bolt=lambda: tumbling().with_key("user"),
        key="bob",
        waiting=1,
    ),
    "no window ends there": Situation(
        WhyReason.NO_SUCH_WINDOW,
        ["the nearest end at 2024-05-01T12:00:00Z and 2024-05-01T12:10:00Z"],
        window="2024-05-01T12:03:00Z",
    ),
    "it has fired, and its events are needed again": Situation(
        WhyReason.FIRED,
        ["has fired: the watermark is past it, and 1 of its events are still kept"],
        bolt=lambda: Seen().with_window("20m", "10m").with_timestamp_field("ts"),
        orders=[[(2, "ada", "n"), (12, "ada", "n")]],
        window="12:10",
    ),
    "it is over": Situation(
        WhyReason.OVER,
        ["is over: the watermark is past it", "of the bolt's events 1 are late"],
        orders=[[(1, "ada", "n"), (25, "bob", "s")], [(2, "ada", "n")]],
        window="12:20",
        waiting=0,
    ),
    "it is suppressed": Situation(
        WhyReason.SUPPRESSED,
        ["is suppressed: the run has its first output at 2024-05-01T12:30:00Z"],
        window="12:10",
        first_output="2024-05-01T12:30:00Z",
    ),
    "the streams have ended": Situation(WhyReason.ENDED, ["The streams have ended"], flush=True),
    "nothing waits": Situation(
        WhyReason.NOTHING,
        ["No event waits for a window"],
        bolt=lambda: Seen().with_window("1m", "10m").with_timestamp_field("ts"),
        orders=[[(9.5, "ada", "n"), (25, "bob", "s")]],
    ),
    "it follows the clock": Situation(
        WhyReason.CLOCK,
        ["It follows the clock, and fires in the first batch after its end; the last batch was at 2024-05-01"],
        bolt=lambda: Seen().with_tumbling_window("7m"),
    ),
    "a trigger fires it": Situation(
        WhyReason.TRIGGER,
        ["A trigger fires the window of each key", "keys with an open window: 2"],
        bolt=lambda: Seen().with_key("user").with_trigger(CountTrigger(Count(5), timeout=hours(1))),
        waiting=2,
    ),
    "a session is open": Situation(
        WhyReason.BY_EVENTS,
        ["sessions with a gap of 5m", "None that is open ends before 2024-05-01T12:01:00Z", "Input 'orders' holds it"],
        bolt=lambda: (
            AggregateBolt(n=count())
            .with_window(Session("5m"))
            .with_key("user")
            .with_timestamp_field("ts")
            .with_lag("10m")
        ),
    ),
    "it fires by number": Situation(
        WhyReason.COUNT,
        ["They fire as events come, by their number"],
        bolt=lambda: Seen().with_tumbling_window(5).with_timestamp_field("ts"),
    ),
    "each key has its own watermark": Situation(
        WhyReason.KEYS,
        ["Each key has a watermark of its own", "It holds 2 events"],
        bolt=lambda: (
            Seen().with_tumbling_window("10m").with_key("user").with_timestamp_field("ts").with_watermark(per_key=True)
        ),
        waiting=2,
    ),
    "the next tick moves the watermark": Situation(
        WhyReason.TICK,
        [
            "holds 2 events, and is almost due.",
            "It fires when the watermark reaches 2024-05-01T12:10:00Z; the watermark is at 2024-05-01T12:07:00Z",
            "The inputs are far enough: the next tick moves the watermark there (every 1h).",
        ],
        bolt=lambda: tumbling().with_watermark_interval("1h"),
        orders=[[(1, "ada", "n"), (8, "bob", "s")], [(25, "ada", "n")]],
        waiting=2,
    ),
    "partial sums count as their events": Situation(
        WhyReason.WATERMARK,
        ["holds 2 events, and waits"],
        bolt=lambda: AggregateBolt(by="user", n=count()).with_tumbling_window("10m").with_timestamp_field("ts"),
        waiting=2,
    ),
}


def ran(situation: Situation, folder: Path) -> str:
    """The checkpoint after its run."""
    schema = "ts timestamp, user string, shop string"
    builder = TopologyBuilder("shop")
    given = {"orders": situation.orders} | ({} if situation.refunds is None else {"refunds": situation.refunds})
    for name, batches in given.items():
        rows = [[(NOON + round(minute * MINUTE), user, shop) for minute, user, shop in batch] for batch in batches]
        builder.set_spout(name, spouts.memory(schema, *rows))
    bolt = builder.set_bolt("revenue", situation.bolt())
    for name in given:
        bolt = bolt.global_grouping(name)
    builder.set_sink("out", sinks.memory()).from_("revenue")
    checkpoint = str(folder / "ck")
    run_local(
        builder.build(),
        RunOptions(checkpoint, flush=situation.flush, first_output=situation.first_output, clock=lambda: NOON),
    )
    return checkpoint


def asked(situation: Situation, folder: Path) -> WhyAnswer:
    return why(ran(situation, folder), "revenue", key=situation.key, window=situation.window)


@pytest.mark.parametrize("name", SITUATIONS)
def test_a_situation_is_told(name: str, tmp_path: Path) -> None:
    situation = SITUATIONS[name]
    answer = asked(situation, tmp_path)
    text = " ".join(answer.sentences)
    assert (answer.reason, text) == (situation.reason, text), text
    for words in situation.says:
        assert words in text
    if situation.waiting is not None:
        assert answer.waiting == situation.waiting, text
    assert all(len(line) <= 80 for line in str(answer).splitlines())
    json.dumps(answer.to_json())


def test_every_reason_has_a_situation() -> None:
    assert {situation.reason for situation in SITUATIONS.values()} == set(WhyReason)


def test_how_long_it_has_stood_is_told_by_the_kept_batches(tmp_path: Path) -> None:
    situation = SITUATIONS["another input holds it"]
    (holder,) = asked(situation, tmp_path).holders
    assert (holder.input, holder.since, holder.since_exactly) == ("refunds", NOON, False)


def test_the_command_says_the_same(tmp_path: Path) -> None:
    checkpoint = ran(SITUATIONS["the watermark is behind"], tmp_path)
    answer = why(checkpoint, "revenue")
    told = CliRunner().invoke(app, ["why", checkpoint, "--bolt", "revenue"])
    assert told.exit_code == 0
    assert told.output == f"{answer}\n"
    told = CliRunner().invoke(app, ["why", checkpoint, "--bolt", "revenue", "--window", "12:10", "--json"])
    assert json.loads(told.output)["short_seconds"] == 180
    assert json.loads(told.output)["holders"][0]["input"] == "orders"


@pytest.mark.parametrize(
    ("bolt", "options", "error", "told"),
    [
        ("revenues", {}, ConfigError, "did you mean 'revenue'"),
        ("revenue", {"key": "ada"}, ConfigError, "has no key"),
        ("revenue", {"window": "noon"}, ConfigError, "the window 'noon' is not a time"),
    ],
)
def test_what_cannot_be_asked(
    bolt: str, options: dict[str, Any], error: type[Exception], told: str, tmp_path: Path
) -> None:
    checkpoint = ran(SITUATIONS["the watermark is behind"], tmp_path)
    with pytest.raises(error, match=told):
        why(checkpoint, bolt, **options)


def test_where_there_is_no_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="is not a checkpoint"):
        why(tmp_path / "nothing", "revenue")
    checkpoint = ran(SITUATIONS["the watermark is behind"], tmp_path)
    (Path(checkpoint) / "windbolt/timing.json").unlink()
    with pytest.raises(CheckpointError, match="does not say by which rules") as older:
        why(checkpoint, "revenue")
    assert older.value.do == "run the topology on it once"


def test_spark_is_not_needed(tmp_path: Path) -> None:
    checkpoint = ran(SITUATIONS["the watermark is behind"], tmp_path)
    program = "import sys; from topologies.why_waiting.why import why; why(sys.argv[1], 'revenue'); "
    program += "assert 'pyspark' not in sys.modules"
    command = [sys.executable, "-c", program, checkpoint]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
