"""A topology drawn at random, its input, and what its sinks were called with."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple

import pyarrow as pa

from tests.simulation.contents import drawn, with_rules
from tests.simulation.world.bolts import COLUMNS, Doubled, Ids, Lengths, Plain
from tests.simulation.world.kinds import BOLTS, JOINS, KINDS, MEETING, NUMBERED, PASSING, REST, lagging
from tests.simulation.world.portions import portions
from topologies import TopologyBuilder, sinks, spouts
from topologies.run.options import RunOptions
from topologies.topology import Topology
from windowing import AggregateBolt, WindowedBolt
from windowing.errors import ConfigError

FORMATS: tuple[Literal["jsonl", "csv", "parquet", "arrow"], ...] = ("jsonl", "csv", "parquet", "arrow")
Calls = dict[int, list[list[dict[str, Any]]]]


class Told(NamedTuple):
    """A bolt with rules that an oracle knows."""

    rules: dict[str, Any]
    spout: str
    format: Literal["jsonl", "csv", "parquet", "arrow"]


@dataclass
class World:
    """What a seed runs."""

    seed: int
    calls: Calls = field(default_factory=dict)
    """What the function of a sink was given, each time, by the number of the step."""
    words: list[str] = field(default_factory=list)
    """The topology, for people."""
    parts: list[str] = field(default_factory=list)
    """What of the settings, windows and bolts that can be drawn is in it."""
    told: dict[str, Told] = field(default_factory=dict)
    """The bolts of which an oracle knows what their windows hold."""
    before_call: Callable[[], None] = lambda: None
    """Called before the function of a sink."""

    def __post_init__(self) -> None:
        chance = random.Random(f"world {self.seed}")
        self.spouts = chance.choice([["in"], ["in"], ["in", "more"]])
        self.portions = portions(chance, self.spouts)
        self.keep = chance.choice([1, 2, 3, 3, 5])
        self.per_batch = chance.choice([1, 1, 2, 3])
        self._shape = chance.getrandbits(64)

    @cached_property
    def rows(self) -> int:
        """How many lines the input has."""
        return sum(text.count("\n") for portion in self.portions for text in portion.files.values())

    def options(self, folder: str, **rest: Any) -> RunOptions:
        """Those of a run in a folder."""
        return RunOptions(f"{folder}/ck", keep_batches=self.keep, **rest)

    def deliver(self, portion: int, folder: str) -> None:
        """Put what comes into the folders of the input."""
        for spout in self.spouts:
            os.makedirs(f"{folder}/{spout}", exist_ok=True)
        self.portions[portion].deliver(folder, sum(len(each.files) for each in self.portions[:portion]))

    def topology(self, folder: str) -> Topology:
        """The same each time; drawn again where a choice cannot be built."""
        chance = random.Random(self._shape)
        while True:
            self.words, self.parts, self.told = [], [], {}
            try:
                return self._build(random.Random(chance.getrandbits(64)), folder)
            except (ConfigError, ValueError):  # TopologyError, which names all
                continue

    def _build(self, chance: random.Random, folder: str) -> Topology:
        builder = TopologyBuilder("world")
        feed = list(self.spouts)
        for spout in self.spouts:
            files = spouts.files(f"{folder}/{spout}", COLUMNS, format="jsonl", files_per_batch=self.per_batch)
            builder.set_spout(spout, files)
        if chance.random() < 0.3:
            builder.set_bolt("doubled", Doubled(), chance.choice([1, 2])).shuffle_grouping("in")
            feed.append("doubled")
        for number in range(chance.choice([1, 1, 2, 3])):
            if chance.random() < 0.3:
                self._told_bolt(builder, chance, f"b{number}", folder)
                continue
            self._bolt(builder, chance, f"b{number}", feed, folder)
        if chance.random() < 0.6:
            builder.set_sink("bad", self._files(chance, folder, "bad")).from_("in", "errors")
        return builder.build()

    def _bolt(self, builder: TopologyBuilder, chance: random.Random, name: str, feed: list[str], folder: str) -> None:
        inputs, bolt, parts = self._drawn(chance, feed)
        self.parts += parts
        kind = parts[0]
        by_key = bool(bolt.settings.key) or isinstance(bolt, AggregateBolt) or kind in {*JOINS, *PASSING}
        tasks = chance.choice([1, 2, 3]) if by_key else 1
        field = "at" if kind == "Deduplicate" else "user"
        self.words.append(f"{name}: {', '.join(parts)}, {tasks} tasks, of {' and '.join(inputs)}")
        declared = builder.set_bolt(name, bolt, tasks)
        keyed = by_key and chance.random() < 0.8
        for each in inputs:
            declared = declared.fields_grouping(each, field) if keyed else declared.global_grouping(each)
        builder.set_sink(f"{name}-out", self._files(chance, folder, name)).from_(name)
        stream = REST.get(kind)
        if stream is not None and chance.random() < 0.7:
            builder.set_sink(f"{name}-{stream}", self._files(chance, folder, f"{name}-{stream}")).from_(name, stream)
        if bolt.settings.late_stream:
            builder.set_sink(f"{name}-late", self._files(chance, folder, f"{name}-late")).from_(name, "late")
        if chance.random() < 0.3:
            called = sinks.foreach_batch(self._called, frame="arrow")
            builder.set_sink(f"{name}-called", called).from_(name)
        if chance.random() < 0.4 and NUMBERED.intersection(parts):
            length: Any = chance.choice(["2s", "7s", 3])
            chained = Lengths().with_tumbling_window(length)
            builder.set_bolt(f"{name}-then", chained).global_grouping(name)
            builder.set_sink(f"{name}-then-out", self._files(chance, folder, f"{name}-then")).from_(f"{name}-then")
            self.words.append(f"{name}-then: tumbling, of {name}")

    def _told_bolt(self, builder: TopologyBuilder, chance: random.Random, name: str, folder: str) -> None:
        """A bolt that reads a spout with one task, under rules that an oracle knows."""
        rules, spout, kind = drawn(chance), chance.choice(self.spouts), chance.choice(FORMATS)
        bolt = with_rules(chance.choice([Ids, Plain])(), rules)
        builder.set_bolt(name, bolt).global_grouping(spout)
        builder.set_sink(f"{name}-out", sinks.files(f"{folder}/out/{name}", kind)).from_(name)
        self.told[name] = Told(rules, spout, kind)
        self.parts.append("told")
        self.words.append(f"{name}: {rules}, {type(bolt).__name__}, of {spout}")

    def _drawn(self, chance: random.Random, feed: list[str]) -> tuple[list[str], WindowedBolt, list[str]]:
        """The inputs of a bolt, the bolt, and what was drawn: first its kind."""
        both = len(self.spouts) == 2 and chance.random() < 0.5
        inputs = list(self.spouts) if both else [chance.choice(feed)]
        special = {**PASSING, **(JOINS if both else {})}
        if chance.random() < (0.6 if both else 0.2):
            kind = chance.choice(sorted(special))
            bolt, parts = lagging(special[kind](chance), chance), [kind]
        else:
            kind = chance.choice(sorted(KINDS))
            what, make = chance.choice(BOLTS)
            bolt, parts = KINDS[kind](make(chance), chance), [kind, what]
        if both:
            meeting = chance.choice(sorted(MEETING))
            bolt = MEETING[meeting](bolt, chance)
            parts.append(meeting)
        return inputs, bolt, parts

    def _files(self, chance: random.Random, folder: str, name: str) -> Any:
        return sinks.files(f"{folder}/out/{name}", chance.choice(FORMATS))

    def _called(self, table: pa.Table, step: int) -> None:
        self.before_call()
        self.calls.setdefault(step, []).append(table.to_pylist())
