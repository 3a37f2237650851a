"""Draws the topology and the input of a seed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any, get_args

from tests.simulation.contents import drawn, drawn_of_inputs
from tests.simulation.faults import in_a_store, schedule
from tests.simulation.world.kinds import BOLTS, JOINS, KINDS, MEETING, MOVED, NUMBERED, PASSING, REST
from tests.simulation.world.making import made, makes
from tests.simulation.world.plan import BoltPlan, Format, WorldPlan
from tests.simulation.world.portions import LARGE, SEVERAL, SMALL, TO_BE_MOVED, Size, portions
from tests.simulation.world.steps import SPOUT, drawn_step
from windowing import AggregateBolt
from windowing.errors import ConfigError

FORMATS: tuple[Format, ...] = get_args(Format)


def draw(seed: int) -> Iterator[WorldPlan]:
    """What a seed runs: the first of these that can be built."""
    chance = random.Random(f"world {seed}")
    returns = any(fault.kind == "it goes back" for fault in schedule(seed))  # over several batches, if there are some
    rescaled = any(fault.kind == "it is rescaled" for fault in schedule(seed))
    size = _size(chance, returns=returns, rescaled=rescaled)
    store = in_a_store(seed)
    if chance.random() < 0.1 and not rescaled and not store:
        yield _step(chance, size)
        return
    kafka = chance.random() < 0.15 and not store
    spouts = ["in"] if kafka else chance.choice([["in"], ["in"], ["in", "more"]])
    plan = WorldPlan(
        bolts=(),
        portions=tuple(portions(chance, spouts, "partitions" if kafka else "files", size)),
        spouts=tuple(spouts),
        kafka=kafka,
        store=store,
        keep=chance.choice([1, 2, 3, 3, 5]),
        per_batch=chance.choice([1, 1, 2, 3]),
        names=chance.choice(["kept", "kept", "free"]),
    )
    at_bounds = tuple(_at_bounds(random.Random(f"bounds {seed}"), plan))
    while True:
        with suppress(ConfigError, ValueError):
            found = _Drawing(chance, plan, rescaled=rescaled).plan()
            yield replace(found, bolts=(*found.bolts, *at_bounds))


def _at_bounds(chance: random.Random, plan: WorldPlan) -> Iterator[BoltPlan]:
    """Perhaps one more bolt, of which an oracle knows all: of both spouts if there are two, and with events at the
    very bounds of its windows, its watermark and its tolerances. It has draws of its own."""
    both = len(plan.spouts) == 2
    while chance.random() < (0.6 if both else 0.3):
        inputs = plan.spouts if both and chance.random() < 0.8 else plan.spouts[:1]
        rules, kind = drawn_of_inputs(chance, inputs), chance.choice(FORMATS)
        bolt = BoltPlan("edges", rules, chance.choice(["Ids", "Plain"]), 0, "", inputs, sinks={"edges": kind})
        with suppress(ConfigError, ValueError):
            makes(replace(plan, bolts=(bolt,)))
            yield bolt
            return


def _size(chance: random.Random, *, returns: bool, rescaled: bool) -> Size:
    if chance.random() < 0.02:
        return LARGE
    if rescaled:
        return TO_BE_MOVED
    return SEVERAL if returns and chance.random() < 0.7 else SMALL


def _step(chance: random.Random, size: Size) -> WorldPlan:
    """A world that is an aggregation step."""
    return WorldPlan(
        bolts=(),
        portions=tuple(portions(chance, [SPOUT], "messages", size)),
        spouts=(SPOUT,),
        keep=chance.choice([1, 2, 3]),
        per_batch=chance.choice([1, 1, 2, 3]),
        step=drawn_step(chance),
        names=chance.choice(["kept", "kept", "free"]),
    )


class _Drawing:
    def __init__(self, chance: random.Random, plan: WorldPlan, *, rescaled: bool) -> None:
        self.chance, self.base, self.rescaled = chance, plan, rescaled
        self.feed = list(plan.spouts)

    def plan(self) -> WorldPlan:
        chance = self.chance
        doubled = chance.choice([1, 2]) if chance.random() < 0.3 else 0
        if doubled:
            self.feed.append("doubled")
        bolts = [self._bolt(f"b{number}") for number in range(chance.choice([1, 1, 1, 1, 2, 3]))]
        errors = chance.choice(FORMATS) if chance.random() < 0.6 else None
        return replace(self.base, bolts=tuple(bolts), doubled=doubled, errors=errors)

    def _bolt(self, name: str) -> BoltPlan:
        return self._told(name) if self.chance.random() < (0.1 if self.rescaled else 0.3) else self._drawn(name)

    def _told(self, name: str) -> BoltPlan:
        """One that reads a spout with one task, under rules that an oracle knows."""
        chance = self.chance
        rules, spout, kind = drawn(chance), chance.choice(self.base.spouts), chance.choice(FORMATS)
        return BoltPlan(name, rules, chance.choice(["Ids", "Plain"]), 0, "", (spout,), sinks={name: kind})

    def _drawn(self, name: str) -> BoltPlan:
        chance = self.chance
        both = len(self.base.spouts) == 2 and chance.random() < 0.5
        inputs = self.base.spouts if both else (chance.choice(self.feed),)
        special = {**PASSING, **(JOINS if both else {})}
        rules, does = chance.choice(sorted(KINDS)), chance.choice([name for name, _ in BOLTS])
        if self.rescaled and chance.random() < 0.7:
            does = chance.choice(MOVED)
        if chance.random() < (0.6 if both else 0.2):
            rules, does = chance.choice(sorted(special)), ""
        meeting = chance.choice(sorted(MEETING)) if both else ""
        plan = BoltPlan(name, rules, does, chance.getrandbits(32), "", inputs, meeting)
        return self._surrounded(plan)

    def _surrounded(self, plan: BoltPlan) -> BoltPlan:
        """The bolt with tasks, a grouping and what reads it."""
        chance, bolt, name = self.chance, made(plan), plan.name
        by_key = bool(bolt.settings.key) or isinstance(bolt, AggregateBolt) or plan.rules in {*JOINS, *PASSING}
        sinks: dict[str, Format] = {name: chance.choice(FORMATS)}
        stream = REST.get(str(plan.rules))
        if stream is not None and chance.random() < 0.7:
            sinks[f"{name}-{stream}"] = chance.choice(FORMATS)
        if bolt.settings.late_stream:
            sinks[f"{name}-late"] = chance.choice(FORMATS)
        length: Any = chance.choice(["2s", "7s", 3])
        chained = chance.random() < 0.4 and plan.does in NUMBERED
        return replace(
            plan,
            made=repr(bolt),
            tasks=chance.choice([2, 2, 3] if self.rescaled else [1, 2, 3]) if by_key or self.rescaled else 1,
            keyed=(by_key or self.rescaled) and chance.random() < (0.95 if self.rescaled else 0.8),
            sinks=sinks,
            called=chance.random() < 0.3,
            then=length if chained else None,
            then_format=chance.choice(FORMATS),
        )
