"""A scenario through the interpreter: its steps as events and as ends of micro-batches (scenarios, "steps")."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

from tests.oracles.interpreter.bolt import Bolt, Repairs, Source, resolved, settled
from tests.oracles.interpreter.values import COLUMNS, Json, moment
from topologies.scenarios.scenario_model import read_scenario
from windowing.settings import WindowSettings
from windowing.settings.rules import SOURCE


def rules_of(scenario: Json) -> WindowSettings:
    """The settings, as the product declares and reads them."""
    return _rules_of(json.dumps({**scenario, "steps": []}))


@lru_cache(maxsize=256)
def _rules_of(scenario: str) -> WindowSettings:
    made = json.loads(scenario)
    rules = read_scenario(made).rules
    return resolved(rules if source_of(made) is None else replace(rules, watermark_partition=SOURCE))


def source_of(scenario: Json) -> Source | None:
    """The partitions that its source has, where that is one with partitions."""
    return scenario.get("meta", {}).get("source")


def run(scenario: Json, repairs: Repairs, look: Callable[[Bolt], Any] | None = None) -> Bolt:
    """Play it."""
    return settled(partial(_begun, scenario, repairs, look), partial(_play, scenario))


class _Over(Exception):
    """The batch after this one stops the run."""


def _begun(scenario: Json, repairs: Repairs, look: Callable[[Bolt], Any] | None) -> Bolt:
    rules, steps = rules_of(scenario), scenario["steps"]
    streams = tuple(scenario.get("streams", ["s1"]))
    moved = [step.get("clock", step.get("arrival")) for step in steps if {"clock", "arrival"} & set(step)]
    began = moment(moved[0]) if moved else 0
    bolt = Bolt(rules, streams, scenario.get("partitions"), began, source_of(scenario), repairs=repairs, look=look)
    if not bolt.event_time and moved:
        bolt.now = began
    return bolt


def _play(scenario: Json, bolt: Bolt) -> None:
    player = _Player(bolt)
    with suppress(_Over):
        player.begin()
        for step in scenario["steps"]:
            player.take(step)
            bolt.counts()
        if bolt.rows_in_batch:
            player.end_batch()


class _Player:
    def __init__(self, bolt: Bolt) -> None:
        self.bolt, self.rules = bolt, bolt.rules

    @property
    def clock_ends_batches(self) -> bool:
        """Whether it makes a difference when, between two events, the clock moved."""
        rules, bolt = self.rules, self.bolt
        idle = rules.idle_timeout is not None or rules.partition_idle_timeout is not None
        by_clock = rules.panes is not None and rules.panes.uses_clock
        by_arrival = not bolt.event_time and bool(rules.kinds or rules.key)
        return idle or rules.estimate_arrival or by_clock or by_arrival

    def begin(self) -> None:
        """Another batch, if there is one."""
        if self.bolt.stopped is not None and self.bolt.batch == self.bolt.stopped.batch:
            raise _Over

    def end_batch(self, *, tick: bool = False, clock: bool = False, close: bool = False) -> None:
        bolt = self.bolt
        moved = bolt.end_batch(tick=tick, close=close)
        if tick:
            bolt.ticks.append(moved)
        if clock:
            bolt.clocks.append(bolt.times.watermark(None))
        self.begin()

    def take(self, step: Json) -> None:
        bolt = self.bolt
        match step:
            case {"event": event, **rest}:
                if "arrival" in rest:
                    self.end_if_moved(moment(rest["arrival"]), only_events=True)
                    bolt.move_clock(moment(rest["arrival"]))
                elif "clock" in rest:
                    self.end_if_moved(moment(rest["clock"]), only_events=False)
                    bolt.move_clock(moment(rest["clock"]))
                self.receive(event, rest.get("stream", bolt.streams[0]))
            case {"tick": "watermark"}:
                self.end_batch(tick=True)
            case {"clock": clock}:
                if bolt.rows_in_batch and moment(clock) > bolt.times.clock and self.clock_ends_batches:
                    self.end_batch()
                bolt.move_clock(moment(clock))
                self.end_batch(clock=True)
            case {"crash": True}:
                self.end_batch()
            case {"close": True}:
                self.end_batch(close=True)
            case _:
                raise ValueError(step)

    def receive(self, event: Json, stream: str) -> None:
        rules = self.rules
        field = rules.timestamp_field
        own = None if field is None or event.get(field) is None else moment(event[field])
        arrival = rules.arrival.field if rules.arrival is not None else None
        arrived = None if arrival is None or event.get(arrival) is None else moment(event[arrival])
        self.bolt.receive({**dict.fromkeys(COLUMNS), **event}, stream, own, arrived)

    def end_if_moved(self, clock: int, *, only_events: bool) -> None:
        bolt = self.bolt
        if clock <= bolt.times.clock:
            return
        if only_events:
            if bolt.rows_in_batch:
                self.end_batch()
            return
        if not self.clock_ends_batches:
            return
        if bolt.rows_in_batch:
            self.end_batch()
        timeouts = self.rules.idle_timeout, self.rules.partition_idle_timeout
        upto = clock - 1 if any(each is not None for each in timeouts) else clock
        if upto > bolt.times.clock:
            bolt.move_clock(upto)
            self.end_batch()
