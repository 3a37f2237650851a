"""Why a window has not fired: a table of situations on the local engine, each told from its checkpoint alone."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import chain, repeat
from pathlib import Path
from typing import Any, ClassVar

import pytest
from typer.testing import CliRunner

from policies import Action, EvictionContext, EvictionPolicy, QueuedEvent, TriggerContext, TriggerPolicy
from tests.helpers.places import ROOT
from topologies.checkpoints.blocking_inputs import WhyAnswer, WhyReason
from topologies.checkpoints.why import why
from topologies.cli.app import app
from windbolt import RunOptions, TopologyBuilder, presets, run_local, sinks, spouts, state
from windowing import AggregateBolt, TupleWindow, WindowedBolt, WindowJoin
from windowing.aggregates import count
from windowing.durations import Count, hours
from windowing.errors import CheckpointError, ConfigError
from windowing.settings.kinds import Session
from windowing.settings.panes import Panes
from windowing.settings.triggers import CountTrigger, FireResult, RuleTrigger

NOON = 1_714_564_800_000_000  # 2024-05-01T12:00:00Z
MINUTE = 60_000_000
Row = tuple[float, str, str]
"""Minute, user, shop."""
Lasting = tuple[float, str, str, float]
"""The same, and another minute: until when it lasts, or of a watermark."""


class Seen(WindowedBolt):
    outputs = "events long"

    def execute(self, window: TupleWindow) -> Any:
        return (len(window),)


def tumbling() -> WindowedBolt:
    return Seen().with_tumbling_window("10m").with_timestamp_field("ts").with_lag("1m")


def hopping(**alignment: Any) -> WindowedBolt:
    bolt = Seen().with_window("25m", "10m").with_timestamp_field("ts")
    return bolt.with_alignment(bounds="[start, end)").with_alignment(**alignment)


def sessions() -> WindowedBolt:
    bolt = AggregateBolt(n=count()).with_window(Session("5m")).with_key("user")
    return bolt.with_timestamp_field("ts").with_lag("10m")


def clears_ada(event: Any, call: Any) -> FireResult:
    return FireResult.PURGE if event["user"] == "ada" else FireResult.CONTINUE


class OnBob(TriggerPolicy):
    """Fires with each event of bob's."""

    every = hours(0.5)
    state_types: ClassVar[dict[str, type]] = {"seen": int}

    def track(self, event: QueuedEvent, context: TriggerContext) -> bool:
        context.state["seen"] += 1
        return bool(event["user"] == "bob")


class Since(EvictionPolicy):
    """What has come since the window before."""

    def evict(self, event: QueuedEvent, context: EvictionContext) -> Action:
        return Action.PROCESS if event.number >= context.fired_count else Action.EXPIRE


class Kept(Since):
    """The same, of users who have been there within an hour."""

    forget_after = hours(1)


def on_bob() -> WindowedBolt:
    bolt = Seen().with_timestamp_field("ts").with_lag("1m")
    return bolt.with_policies(trigger=OnBob(), eviction=Since())


def fires_again(**panes: Any) -> WindowedBolt:
    bolt = Seen().with_tumbling_window("10m").with_timestamp_field("ts").with_lateness(by="window", allowed="5m")
    return bolt.with_trigger(Panes(**panes))


@dataclass
class Situation:
    """What a run has been given, and what is asked then."""

    reason: WhyReason
    says: Sequence[str]
    """What stands in the answer, each."""
    bolt: Callable[[], WindowedBolt] = tumbling
    orders: Sequence[Sequence[Row | Lasting]] = field(default_factory=lambda: [[(1, "ada", "n"), (8, "bob", "s")]])
    """Per batch."""
    refunds: Sequence[Sequence[Row | Lasting]] | None = None
    window: str | None = None
    key: str | None = None
    keep_open: bool = True
    first_output: str | None = None
    waiting: int | None = None
    minutes: int = 0
    """How far the clock is after the first batch."""


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
        ["has fired: the watermark is past it, at 2024-05-01T12:12:00Z; 1 of its events is still kept"],
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
    "the streams have ended": Situation(WhyReason.ENDED, ["The streams have ended"], keep_open=False),
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
    "the clock is past it": Situation(
        WhyReason.OVER,
        ["is over: the clock is past it, at 2024-05-01T12:00:00Z. If it held", "What comes now is in later windows."],
        bolt=lambda: Seen().with_tumbling_window("10m"),
        window="11:50",
        waiting=0,
    ),
    "the clock is past it, and its events are needed again": Situation(
        WhyReason.FIRED,
        ["has fired: the clock is past it, at 2024-05-01T12:10:00Z; 1 of its events is still kept"],
        bolt=lambda: Seen().with_window("20m", "7m"),
        orders=[[(1, "ada", "n")], [(1, "ada", "n")]],
        window="2024-05-01T12:06:00Z",
        minutes=10,
    ),
    "a policy of one's own fires it": Situation(
        WhyReason.POLICY,
        [
            "2 events wait: what Since keeps, fired by OnBob.",
            "OnBob fires when its hooks say so: it has been told of 2 events, the last at 2024-05-01T12:02:00Z; its "
            'state is {"seen": 2}.',
            "The last window ended at 2024-05-01T12:01:00Z; since then 1 event; the next moment is 2024-05-01T12:30:00",
            "Since is told when a window fires, so far of 1 event; its state is {}.",
            "OnBob has not been told of 1 event: the watermark is at 2024-05-01T12:02:00Z.",
            "Input 'orders' holds it",
        ],
        bolt=on_bob,
        orders=[[(1, "bob", "n"), (2, "ada", "n")], [(3, "ada", "n")]],
        waiting=2,
    ),
    "a policy of keys": Situation(
        WhyReason.POLICY,
        ["it has been told of 1 event of 'ada'", 'its state is {"seen": 1}', "No window has fired yet"],
        bolt=lambda: on_bob().with_key("user"),
        orders=[[(1, "bob", "n"), (2, "ada", "n")], [(3, "ada", "n")]],
        key="ada",
        waiting=2,
    ),
    "an eviction of one's own, beside a length and a slide": Situation(
        WhyReason.POLICY,
        [
            "2 events of 'ada' wait: what Kept keeps, fired every 30m.",
            "Kept says what a window holds. There has been 1 event of 'ada', the last at 2024-05-01T12:02:00Z.",
            "No window has fired yet; since then 1 event; the next moment is 2024-05-01T12:30:00Z.",
            "At 2024-05-01T13:02:00Z the key is forgotten, if no event comes by then.",
            "No window can hold yet 1 event: the watermark is at 2024-05-01T12:02:00Z.",
        ],
        bolt=lambda: (
            Seen()
            .with_key("user")
            .with_window("1h", "30m")
            .with_timestamp_field("ts")
            .with_lag("1m")
            .with_policies(eviction=Kept())
        ),
        orders=[[(1, "bob", "n"), (2, "ada", "n")], [(3, "ada", "n")]],
        key="ada",
        waiting=2,
    ),
    "policies of several keys": Situation(
        WhyReason.POLICY,
        [
            "OnBob fires when its hooks say so. There have been 2 events of 2 keys, the last at 2024-05-01T12:02:00Z.",
            "At 2024-05-01T13:01:00Z the first of them is forgotten, if no event of it comes by then.",
            "windbolt state shows what OnBob and Kept keep of each.",
        ],
        bolt=lambda: on_bob().with_key("user").with_policies(eviction=Kept()),
        orders=[[(1, "bob", "n"), (2, "ada", "n")], [(3, "ada", "n")]],
        waiting=2,
    ),
    "nothing fired at the end for what a policy keeps": Situation(
        WhyReason.ENDED,
        ["at the end of the last run nothing fired for 1 event that is in no window yet: what Since keeps, fired by"],
        bolt=on_bob,
        orders=[[(1, "bob", "n"), (2, "ada", "n")]],
        keep_open=False,
    ),
    "a trigger fires it": Situation(
        WhyReason.TRIGGER,
        ["A trigger fires the window of each key", "keys with an open window: 2"],
        bolt=lambda: Seen().with_key("user").with_trigger(CountTrigger(Count(5), timeout=hours(1))),
        waiting=2,
    ),
    "a window of a trigger is asked for by its end": Situation(
        WhyReason.TRIGGER,
        ["Such windows have no end before they fire", "1 event of 'ada' waits, the first at 2024-05-01T12:00:00Z"],
        bolt=lambda: Seen().with_key("user").with_trigger(CountTrigger(Count(5), timeout=hours(1))),
        window="12:10",
        key="ada",
        waiting=1,
    ),
    "a rule has cleared a window": Situation(
        WhyReason.TRIGGER,
        ["1 event waits", "No window is due by the clock", "Purged: 1. Their windows were cleared without a call"],
        bolt=lambda: Seen().with_key("user").with_trigger(RuleTrigger(clears_ada)),
        waiting=1,
    ),
    "a session is open": Situation(
        WhyReason.WATERMARK,
        [
            "The window that ends at 2024-05-01T12:06:00Z holds 1 event of 'ada', and waits.",
            "sessions with a gap of 5m. Their ends depend on their events.",
            "Input 'orders' holds it",
        ],
        bolt=sessions,
        waiting=1,
    ),
    "the session of a key is open": Situation(
        WhyReason.WATERMARK,
        ["The window that ends at 2024-05-01T12:13:00Z holds 1 event of 'bob', and waits."],
        bolt=sessions,
        key="bob",
        waiting=1,
    ),
    "sessions of several keys end at once": Situation(
        WhyReason.WATERMARK,
        ["2 windows end at 2024-05-01T12:06:00Z, which hold 2 events, and wait."],
        bolt=sessions,
        orders=[[(1, "ada", "n"), (1, "bob", "s")]],
        waiting=2,
    ),
    "no session ends there": Situation(
        WhyReason.NO_SUCH_WINDOW,
        [
            "No open window of 'revenue' ends at 2024-05-01T12:10:00Z",
            "end at 2024-05-01T12:06:00Z, 2024-05-01T12:13:00Z",
        ],
        bolt=sessions,
        window="12:10",
    ),
    "no event of a key is in a session": Situation(
        WhyReason.NOTHING,
        ["No event of 'eve' waits for a window: sessions with a gap of 5m."],
        bolt=sessions,
        key="eve",
    ),
    "enough events have come, and the watermark is behind them": Situation(
        WhyReason.COUNT,
        [
            "2 events wait for a window: 2 events, one after the other.",
            "an event counts once the watermark has reached its time",
            "1 of them do not count yet: the watermark is at 2024-05-01T12:07:00Z",
            "An event there at 2024-05-01T12:09:00Z or later would do.",
        ],
        bolt=lambda: Seen().with_tumbling_window(2).with_timestamp_field("ts").with_lag("1m"),
        waiting=2,
    ),
    "it fires by number, and needs more": Situation(
        WhyReason.COUNT,
        ["2 events wait", "The watermark has reached all that wait: the next window needs further events."],
        bolt=lambda: Seen().with_tumbling_window(5).with_timestamp_field("ts"),
        waiting=2,
    ),
    "it fires by number as events come": Situation(
        WhyReason.COUNT,
        ["2 events wait", "They fire by the number of events: when enough have come."],
        bolt=lambda: Seen().with_tumbling_window(5),
    ),
    "a number of events of each key": Situation(
        WhyReason.COUNT,
        ["1 event of 'bob' waits"],
        bolt=lambda: Seen().with_tumbling_window(5).with_key("user").with_timestamp_field("ts"),
        key="bob",
        waiting=1,
    ),
    "a number of events of each key, and an end is asked for": Situation(
        WhyReason.NO_SUCH_WINDOW,
        ["ends at 2024-05-01T12:10:00Z: 2 events wait for windows that an event ends."],
        bolt=lambda: Seen().with_tumbling_window(5).with_key("user").with_timestamp_field("ts"),
        window="12:10",
    ),
    "the latest events, at regular times": Situation(
        WhyReason.WATERMARK,
        ["The window that ends at 2024-05-01T12:10:00Z brings 2 events that no window has had, and waits."],
        bolt=lambda: Seen().with_window(3, "10m").with_timestamp_field("ts").with_lag("1m"),
        waiting=2,
    ),
    "each key has its own watermark": Situation(
        WhyReason.KEYS,
        [
            "The window that ends at 2024-05-01T12:10:00Z holds 1 event of 'bob', and waits.",
            "Each key has a watermark of its own: it fires when an event of its key at 2024-05-01T12:10:00Z or later",
        ],
        bolt=lambda: (
            Seen().with_tumbling_window("10m").with_key("user").with_timestamp_field("ts").with_watermark(per_key=True)
        ),
        orders=[[(1, "ada", "n"), (25, "ada", "n"), (3, "bob", "s")]],
        waiting=1,
    ),
    "the watermark of its key is past it": Situation(
        WhyReason.NO_SUCH_WINDOW,
        ["No open window of 'revenue' of 'ada' ends at 2024-05-01T12:10:00Z", "open end at 2024-05-01T12:30:00Z"],
        bolt=lambda: (
            Seen().with_tumbling_window("10m").with_key("user").with_timestamp_field("ts").with_watermark(per_key=True)
        ),
        orders=[[(1, "ada", "n"), (25, "ada", "n"), (3, "bob", "s")]],
        window="12:10",
        key="ada",
    ),
    "it waits for late events before it fires": Situation(
        WhyReason.WATERMARK,
        ["It fires when the watermark reaches 2024-05-01T12:15:00Z; the watermark is at 2024-05-01T12:12:00Z"],
        bolt=lambda: (
            Seen().with_tumbling_window("10m").with_timestamp_field("ts").with_lateness(by="window", allowed="5m")
        ),
        orders=[[(1, "ada", "n"), (12, "bob", "s")]],
        waiting=1,
    ),
    "it has fired, and stays open for late events": Situation(
        WhyReason.FIRED,
        ["It stays open for late events until the watermark reaches 2024-05-01T12:15:00Z, and fires again for those"],
        bolt=lambda: fires_again(late=True),
        orders=[[(1, "ada", "n"), (12, "bob", "s")]],
        window="12:10",
    ),
    "the next window is one that has not fired": Situation(
        WhyReason.WATERMARK,
        ["The window that ends at 2024-05-01T12:20:00Z", "It fires when the watermark reaches 2024-05-01T12:20:00Z"],
        bolt=lambda: fires_again(late=True),
        orders=[[(1, "ada", "n"), (12, "bob", "s")]],
    ),
    "its first firing was its only one": Situation(
        WhyReason.FIRED,
        ["It does not fire again"],
        bolt=lambda: fires_again(early=9, closes=True),
        orders=[[(1, "ada", "n"), (12, "bob", "s")]],
        window="12:10",
    ),
    "a firing has closed it before its end": Situation(
        WhyReason.FIRED,
        ["The window that ends at 2024-05-01T12:10:00Z has fired, and that has closed it", "1 event is still kept"],
        bolt=lambda: fires_again(early=1, closes=True),
        orders=[[(1, "ada", "n")]],
        window="12:10",
        waiting=1,
    ),
    "what a firing has closed does not wait": Situation(
        WhyReason.NOTHING,
        ["No event waits for a window"],
        bolt=lambda: fires_again(early=1, closes=True),
        orders=[[(1, "ada", "n")]],
    ),
    "the only firing is that at the end of the lateness": Situation(
        WhyReason.WATERMARK,
        ["It fires when the watermark reaches 2024-05-01T12:15:00Z"],
        bolt=lambda: fires_again(at_end=2),
        orders=[[(1, "ada", "n"), (12, "bob", "s")]],
    ),
    "it held too few events at its end": Situation(
        WhyReason.FIRED,
        ["so it has fired if it held 2 events then", "and fires once it holds as many"],
        bolt=lambda: fires_again(early=9, at_end=2, closes=True),
        orders=[[(1, "ada", "n"), (12, "bob", "s")]],
        window="12:10",
        waiting=1,
    ),
    "of several events one moves the watermark": Situation(
        WhyReason.NO_WATERMARK,
        [
            "Input 'orders' holds it: what has come from there has not moved the watermark yet",
            "One of 3 events there moves the watermark: 2 more are needed",
        ],
        bolt=lambda: Seen().with_tumbling_window("10m").with_timestamp_field("ts").with_watermark(every=3),
        orders=[[(1, "ada", "n")]],
    ),
    "the furthest input decides": Situation(
        WhyReason.WATERMARK,
        [
            "here the input that is furthest ahead decides it",
            "Input 'refunds' is furthest ahead, at 2024-05-01T12:05:00Z",
            "An event there or at another input at 2024-05-01T12:10:00Z or later would do.",
        ],
        bolt=lambda: (
            Seen().with_tumbling_window("10m").with_timestamp_field("ts").with_watermark(every=1, combine="max")
        ),
        orders=[[(1, "ada", "n")]],
        refunds=[[(5, "ada", "n")]],
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
    "the next tick, where inputs may be idle": Situation(
        WhyReason.TICK,
        ["The inputs are far enough: the next tick moves the watermark there (every 1h)."],
        bolt=lambda: tumbling().with_watermark_interval("1h").with_watermark(idle_timeout="2h"),
        orders=[[(1, "ada", "n"), (8, "bob", "s")], [(25, "ada", "n")]],
    ),
    "the starts of windows are multiples of the slide": Situation(
        WhyReason.WATERMARK,
        ["The window that ends at 2024-05-01T12:25:00Z holds 2 events, and waits."],
        bolt=lambda: hopping(aligned="starts"),
        orders=[[(-11, "ada", "n"), (8, "bob", "s"), (24, "cy", "n")]],
        waiting=2,
    ),
    "no window ends at a multiple of the slide where they start there": Situation(
        WhyReason.NO_SUCH_WINDOW,
        ["the nearest end at 2024-05-01T12:25:00Z and 2024-05-01T12:35:00Z"],
        bolt=lambda: hopping(aligned="starts"),
        window="12:30",
    ),
    "windows are counted from a moment": Situation(
        WhyReason.WATERMARK,
        ["The window that ends at 2024-05-01T12:29:00Z holds 2 events, and waits."],
        bolt=lambda: hopping(anchor=(NOON + 4 * MINUTE) // 1000),
        orders=[[(5, "ada", "n"), (8, "bob", "s"), (3, "cy", "n")]],
        waiting=2,
    ),
    "no window begins before the anchor": Situation(
        WhyReason.NO_SUCH_WINDOW,
        ["the first one ends at 2024-05-01T12:29:00Z, since none begins before the anchor"],
        bolt=lambda: hopping(anchor=(NOON + 4 * MINUTE) // 1000),
        window="12:19",
    ),
    "an event before the first clock is in no window": Situation(
        WhyReason.NOTHING,
        ["No event waits for a window"],
        bolt=lambda: hopping(anchor="start"),
        orders=[[(-1, "ada", "n")]],
    ),
    "an event that lasts is in windows after its start": Situation(
        WhyReason.EMPTY,
        ["The window that ends at 2024-05-01T12:20:00Z holds no event so far"],
        bolt=lambda: tumbling().with_alignment(bounds="[start, end)").with_lifetime("until"),
        orders=[[(1, "ada", "n", 9)]],
        window="12:20",
    ),
    "one of several events moves the watermark": Situation(
        WhyReason.WATERMARK,
        ["One of 3 events there moves the watermark: 2 more are needed, the last of them at 2024-05-01T12:11:00Z"],
        bolt=lambda: tumbling().with_watermark(every=3),
        orders=[[(1, "ada", "n"), (2, "bob", "s"), (3, "bob", "s"), (4, "bob", "s")]],
    ),
    "an event moves the watermark if it is some time later": Situation(
        WhyReason.WATERMARK,
        ["An event there at 2024-05-01T12:15:00Z or later would do."],
        bolt=lambda: tumbling().with_watermark(every="7m"),
        orders=[[(1, "ada", "n"), (8, "bob", "s"), (9, "bob", "s")]],
    ),
    "only the source moves the watermark": Situation(
        WhyReason.WATERMARK,
        ["Only watermarks that the source sends move it: one at 2024-05-01T12:10:00Z or later is needed."],
        bolt=lambda: Seen().with_tumbling_window("10m").with_timestamp_field("ts").with_watermark(field="until"),
        orders=[[(1, "ada", "n"), (0, "", "", 5)]],
    ),
    "partial sums count as their events": Situation(
        WhyReason.WATERMARK,
        ["holds 2 events, and waits"],
        bolt=lambda: AggregateBolt(by="user", n=count()).with_tumbling_window("10m").with_timestamp_field("ts"),
        waiting=2,
    ),
    "partial sums of a key count as their events": Situation(
        WhyReason.WATERMARK,
        ["holds 3 events, and waits"],
        bolt=lambda: AggregateBolt(n=count()).with_tumbling_window("10m").with_timestamp_field("ts").with_key("user"),
        orders=[[(1, "ada", "n"), (2, "ada", "s"), (3, "bob", "s")]],
        waiting=3,
    ),
}


def at(minute: float) -> int:
    return NOON + round(minute * MINUTE)


def later(minutes: float) -> Callable[[], int]:
    """A clock that is at noon in the first batch, and so many minutes later from then on."""
    return chain([NOON, NOON], repeat(at(minutes))).__next__


def ran(situation: Situation, folder: Path) -> str:
    """The checkpoint after its run."""
    schema = "ts timestamp, user string, shop string, until timestamp"
    builder = TopologyBuilder("shop")
    given = {"orders": situation.orders} | ({} if situation.refunds is None else {"refunds": situation.refunds})
    for name, batches in given.items():
        rows = [[(at(row[0]), *row[1:3], at(row[3]) if len(row) > 3 else None) for row in batch] for batch in batches]
        builder.set_spout(name, spouts.memory(schema, *rows))
    bolt = builder.set_bolt("revenue", situation.bolt())
    for name in given:
        bolt = bolt.global_grouping(name)
    builder.set_sink("out", sinks.memory()).from_("revenue")
    checkpoint = str(folder / "ck")
    clock = later(situation.minutes)
    run_local(
        builder.build(),
        RunOptions(checkpoint, keep_open=situation.keep_open, first_output=situation.first_output, clock=clock),
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
    assert ("Nothing is kept of 'eve': no event of it has come" in text) == (situation.key == "eve")
    if situation.waiting is not None:
        assert answer.waiting == situation.waiting, text
    assert all(len(line) <= 80 for line in str(answer).splitlines())
    json.dumps(answer.to_json())


WOULD_DO = re.compile(r"An event there(?: or at another input)? at (\S+) or later would do\.")


@pytest.mark.parametrize(
    "name",
    [
        "the watermark is behind",
        "another input holds it",
        "a session is open",
        "the latest events, at regular times",
        "enough events have come, and the watermark is behind them",
        "it waits for late events before it fires",
        "the next window is one that has not fired",
        "the furthest input decides",
        "the starts of windows are multiples of the slide",
        "windows are counted from a moment",
        "an event moves the watermark if it is some time later",
        "partial sums count as their events",
        "partial sums of a key count as their events",
    ],
)
def test_the_event_that_would_do_fires_it_and_an_earlier_one_does_not(name: str, tmp_path: Path) -> None:
    situation = SITUATIONS[name]
    answer = asked(situation, tmp_path / "asked")
    (told,) = WOULD_DO.findall(" ".join(answer.sentences))
    moment = (datetime.fromisoformat(told) - datetime.fromisoformat("2024-05-01T12:00:00Z")) / timedelta(minutes=1)
    holder = answer.holders[0].input
    before = fired(situation, tmp_path / "before", None, holder)
    assert fired(situation, tmp_path / "earlier", moment - 1e-6, holder) == before
    assert fired(situation, tmp_path / "then", moment, holder) > before


def fired(situation: Situation, folder: Path, minute: float | None, place: str) -> int:
    """How many windows have fired, with a further event of somebody else at an input."""
    also: list[list[Row]] = [] if minute is None else [[(minute, "zoe", "n")]]
    orders, refunds = situation.orders, situation.refunds
    if place == "orders":
        orders = [*orders, *also]
    else:
        refunds = [*(refunds or []), *also]
    longer = replace(situation, orders=orders, refunds=refunds)
    return sum(row["windows"] for row in state.bolts(ran(longer, folder)).to_pylist())


def test_where_several_events_move_the_watermark_it_takes_all_of_them(tmp_path: Path) -> None:
    situation = SITUATIONS["one of several events moves the watermark"]
    for late, fires in ((10.9, 0), (11, 1)):
        further: list[Row] = [(5, "eve", "n"), (late, "eve", "n")]
        checkpoint = ran(replace(situation, orders=[*situation.orders, further]), tmp_path / str(late))
        assert [row["windows"] for row in state.bolts(checkpoint).to_pylist()] == [fires]


@pytest.mark.parametrize("window", ["12:10", "12:20", "12:30"])
def test_an_event_that_lasts_is_in_each_window_of_its_time(window: str, tmp_path: Path) -> None:
    situation = SITUATIONS["an event that lasts is in windows after its start"]
    answer = asked(replace(situation, orders=[[(1, "ada", "n", 25)]], window=window), tmp_path)
    assert answer.waiting == 1
    assert "holds 1 event, and waits" in str(answer).replace("\n  ", " ")


def test_every_reason_has_a_situation() -> None:
    assert {situation.reason for situation in SITUATIONS.values()} == set(WhyReason)


class Emits(WindowedBolt):
    outputs = "events long, until timestamp"

    def execute(self, window: TupleWindow) -> Any:
        return (len(window), window.end)


def chained(folder: Path, first: WindowedBolt, *orders: Row) -> str:
    """The checkpoint of a run of two bolts behind a first one."""
    builder = TopologyBuilder("chain")
    rows = [(NOON + round(minute * MINUTE), user, shop) for minute, user, shop in orders]
    builder.set_spout("orders", spouts.memory("ts timestamp, user string, shop string", rows))
    builder.set_bolt("first", first).global_grouping("orders")
    builder.set_bolt("second", Emits().with_tumbling_window("10m").with_timestamp_field("until")).global_grouping(
        "first"
    )
    third = Emits().with_tumbling_window("1h").with_timestamp_field("until").with_lag("5m")
    builder.set_bolt("third", third).global_grouping("second")
    builder.set_sink("out", sinks.memory()).from_("third")
    checkpoint = str(folder / "ck")
    run_local(builder.build(), RunOptions(checkpoint, keep_open=True, clock=lambda: NOON))
    return checkpoint


def test_behind_other_bolts_what_holds_those_is_told_down_to_the_input(tmp_path: Path) -> None:
    first = Emits().with_tumbling_window("1m").with_timestamp_field("ts").with_lag("1m")
    checkpoint = chained(tmp_path, first, (1, "ada", "n"), (14, "bob", "s"))
    answer = why(checkpoint, "third")
    text = " ".join(answer.sentences)
    assert (answer.reason, answer.holders[0].input) == (WhyReason.WATERMARK, "second")
    for bolt, at in (("second", "2024-05-01T12:12:59.999999Z"), ("first", "2024-05-01T12:13:00Z")):
        assert f"time there follows the watermark of '{bolt}', which is at {at}." in text
    assert "For 'first': Input 'orders' holds it, at 2024-05-01T12:13:00Z" in text
    assert "would do" not in text, "no event of a user can come to an input from a bolt"
    assert text.count("No rule of idleness is set") == 1


def test_behind_another_bolt_its_rules_of_idleness_are_told(tmp_path: Path) -> None:
    first = Emits().with_tumbling_window("1m").with_timestamp_field("ts")
    first = first.with_watermark(every=1, partition="shop", partitions=["n", "s"], partition_idle_timeout="5m")
    checkpoint = chained(tmp_path, first, (1, "ada", "n"), (25, "bob", "s"), (26, "cy", "s"))
    text = " ".join(why(checkpoint, "second").sentences)
    assert "For 'first': Input 'orders', partition 'n' holds it, at 2024-05-01T12:01:00Z, since its last event" in text
    assert "For 'first': If input 'orders', partition 'n' stays silent" in text
    assert "No rule of idleness is set" not in text


def test_a_bolt_behind_one_that_has_no_watermark_yet(tmp_path: Path) -> None:
    first = Emits().with_tumbling_window("1m").with_timestamp_field("ts")
    first = first.with_watermark(every=1, partition="shop", partitions=["n", "s"])
    checkpoint = chained(tmp_path, first, (1, "ada", "n"))
    assert why(checkpoint, "second").reason is WhyReason.NOTHING
    text = " ".join(why(checkpoint, "second", window="12:10").sentences)
    assert "time there follows the watermark of 'first', which does not exist yet" in text
    assert "For 'first': Input 'orders', partition 's' holds it: nothing has come from there" in text


def joined(folder: Path, bolt: WindowedBolt, orders: list[float], refunds: list[float]) -> str:
    """The checkpoint of a run of one bolt that reads orders and refunds, which came in these minutes."""
    builder = TopologyBuilder("two")
    for name, minutes in (("orders", orders), ("refunds", refunds)):
        builder.set_spout(name, spouts.memory("ts timestamp", [(NOON + round(at * MINUTE),) for at in minutes]))
    builder.set_bolt("both", bolt).global_grouping("orders").global_grouping("refunds")
    builder.set_sink("out", sinks.memory()).from_("both")
    run_local(builder.build(), RunOptions(str(folder / "ck"), keep_open=True, clock=lambda: NOON))
    return str(folder / "ck")


def test_an_input_that_takes_the_watermarks_of_another_does_not_hold_it(tmp_path: Path) -> None:
    answer = why(joined(tmp_path, tumbling().with_watermark(imports={"refunds": "orders"}), [1, 8], [2, 30]))
    text = " ".join(answer.sentences)
    assert [holder.input for holder in answer.holders] == ["orders"]
    assert "Input 'refunds' takes the watermarks of 'orders'; its own events move nothing." in text
    assert text.count("would do") == 1


def test_where_several_inputs_are_behind_an_event_is_needed_at_each(tmp_path: Path) -> None:
    text = " ".join(why(joined(tmp_path, tumbling(), [1, 7], [2, 8])).sentences)
    assert "Input 'orders' holds it" in text
    assert "would do" not in text
    assert "An event there at 2024-05-01T12:11:00Z or later is needed, as at each input that is not as far." in text


def test_the_key_of_a_join_has_a_name_at_each_input(tmp_path: Path) -> None:
    builder = TopologyBuilder("join")
    persons = [(NOON + MINUTE, "x"), (NOON + 25 * MINUTE, "y")]
    auctions = [(NOON + 2 * MINUTE, "x9", "x"), (NOON + 2 * MINUTE, "x", "z")]
    builder.set_spout("persons", spouts.memory("ts timestamp, id string", persons))
    builder.set_spout("auctions", spouts.memory("ts timestamp, id string, seller string", auctions))
    join = WindowJoin("persons", "auctions", on={"persons": "id", "auctions": "seller"}, how="left")
    bolt = builder.set_bolt("sold", join.with_tumbling_window("10m").with_timestamp_field("ts"))
    bolt.fields_grouping("persons").fields_grouping("auctions")
    builder.set_sink("out", sinks.memory()).from_("sold")
    run_local(builder.build(), RunOptions(str(tmp_path / "ck"), keep_open=True, clock=lambda: NOON))
    answers = {key: why(tmp_path / "ck", "sold", key=key) for key in ("x", "z", "q")}
    assert {key: answer.waiting for key, answer in answers.items()} == {"x": 2, "z": 1, "q": None}
    assert "Input 'auctions' holds it" in str(answers["x"])
    assert [key for key, answer in answers.items() if "Nothing is kept of" in str(answer)] == ["q"]


def test_of_a_key_that_is_quiet_something_is_kept(tmp_path: Path) -> None:
    """By policies, which remember it."""
    orders = [[(1, "ada", "n"), (2, "bob", "n")], [(25, "ada", "n")], [(28, "ada", "n")]]
    situation = Situation(WhyReason.NOTHING, [], bolt=lambda: on_bob().with_key("user"), orders=orders, key="bob")
    answer = asked(situation, tmp_path)
    assert (answer.waiting, "Nothing is kept of" in str(answer)) == (0, False)


@pytest.mark.parametrize("name", ["task", "start", "end", "time", "events"])
def test_a_key_may_be_called_as_a_column_of_windbolts(name: str, tmp_path: Path) -> None:
    builder = TopologyBuilder("named")
    builder.set_spout("s", spouts.memory(f"{name} string, ts timestamp", [("ann", NOON), ("bob", NOON + MINUTE)]))
    bolt = Seen().with_window(Session("5m")).with_key(name).with_timestamp_field("ts")
    builder.set_bolt("b", bolt).fields_grouping("s", name)
    builder.set_sink("out", sinks.memory()).from_("b")
    run_local(builder.build(), RunOptions(str(tmp_path / "ck"), keep_open=True, clock=lambda: NOON))
    assert why(tmp_path / "ck", key="ann").waiting == 1
    tables = state.read(str(tmp_path / "ck"), key="ann").tables
    assert (tables["events"].num_rows, tables["windows"].num_rows) == (1, 1)


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
    unnamed = CliRunner().invoke(app, ["why", checkpoint])
    assert unnamed.output == told.output, "only one bolt has windows"
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


def test_a_bolt_is_named_where_several_have_windows(tmp_path: Path) -> None:
    checkpoint = chained(tmp_path, Emits().with_tumbling_window("1m").with_timestamp_field("ts"), (1, "ada", "n"))
    with pytest.raises(
        ConfigError, match=r"(?s)which bolt of checkpoint .* is meant.*--bolt (\w+), or bolt='\1' in Python"
    ):
        why(checkpoint)


def test_where_there_is_no_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="is not a checkpoint"):
        why(tmp_path / "nothing", "revenue")
    checkpoint = ran(SITUATIONS["the watermark is behind"], tmp_path)
    (Path(checkpoint) / "windbolt/topology.json").unlink()
    with pytest.raises(CheckpointError, match="does not say by which rules") as older:
        why(checkpoint, "revenue")
    assert older.value.do == "run the topology on it once"


def test_spark_is_not_needed(tmp_path: Path) -> None:
    checkpoint = ran(SITUATIONS["the watermark is behind"], tmp_path)
    program = "import sys; from topologies.checkpoints.why import why; why(sys.argv[1], 'revenue'); "
    program += "assert 'pyspark' not in sys.modules"
    command = [sys.executable, "-c", program, checkpoint]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_window_that_the_idle_timeout_has_closed_is_not_said_to_be_behind_the_watermark(tmp_path: Path) -> None:
    """Its input is silent, while another bolt's goes on."""
    builder = TopologyBuilder("shop")
    builder.set_spout("orders", spouts.memory("ts timestamp, user string", [(at(2), "ada")]))
    builder.set_spout("others", spouts.memory("ts timestamp, user string", [(at(2), "ada")], [(at(3), "ada")]))
    bolt = Seen().with_tumbling_window("10m").with_time(presets.atlas()).with_timestamp_field("ts")
    bolt = bolt.with_watermark(idle_timeout="5m")
    for name in ("orders", "others"):
        builder.set_bolt(f"of_{name}", bolt).global_grouping(name)
        builder.set_sink(f"{name}_out", sinks.memory()).from_(f"of_{name}")
    run_local(builder.build(), RunOptions(str(tmp_path / "ck"), keep_open=True, clock=later(30)))
    answer = why(tmp_path / "ck", "of_orders", window="12:10")
    assert (answer.reason, answer.watermark) == (WhyReason.OVER, at(10)), "which closes no window of these by itself"
    assert "is over: the idle timeout or the end of the streams has closed it, up to 2024-05-01T12:10:00Z." in " ".join(
        answer.sentences
    )


def test_a_window_that_the_end_of_the_streams_has_closed_is_not_said_to_be_closed_by_a_timeout(tmp_path: Path) -> None:
    """In a later run, whose watermark alone would keep it open."""
    bolt = Seen().with_tumbling_window("10m").with_timestamp_field("ts").with_lateness(by="window", allowed="5m")
    for minutes, keep_open in (((2,), False), ((2, 11), True)):
        builder = TopologyBuilder("shop")
        builder.set_spout(
            "orders", spouts.memory("ts timestamp, user string", *([(at(each), "ada")] for each in minutes))
        )
        builder.set_bolt("seen", bolt).global_grouping("orders")
        builder.set_sink("out", sinks.memory()).from_("seen")
        run_local(builder.build(), RunOptions(str(tmp_path / "ck"), keep_open=keep_open, clock=lambda: NOON))
    said = " ".join(why(tmp_path / "ck", "seen", window="12:10").sentences)
    assert "the end of the streams has closed it, up to 2024-05-01T12:10:00Z" in said
    assert "timeout" not in said
