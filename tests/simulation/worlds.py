"""What a seed runs: a topology drawn at random, and the input that comes to it in portions."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa

from topologies import TopologyBuilder, sinks, spouts
from topologies.run.options import RunOptions
from topologies.topology import Topology
from windowing import AggregateBolt, Bolt, StatefulWindowedBolt, Tuple, TupleWindow, WindowedBolt, aggregates, presets
from windowing.data.rows import EmittedRows
from windowing.errors import ConfigError
from windowing.settings.kinds import Session, SlidingLog, Snapshot
from windowing.settings.panes import Panes, after_clock, after_count

COLUMNS = "id long, user string, ts long, at long, until long, amount double"
NAMES = [column.split()[0] for column in COLUMNS.split(", ")]
AZURE = presets.azure(out_of_order="2s", late="4s", early="3s", arrival_field="at")
Chooser = Callable[[WindowedBolt, random.Random], WindowedBolt]
Calls = dict[int, list[list[dict[str, Any]]]]


class Ids(StatefulWindowedBolt):
    """The events of a window, how many windows there were, and the last few events of all."""

    outputs = "key string, stop long, ids string, number long"
    state_types = {"windows": int, "seen": "id long"}  # noqa: RUF012 - declared so by users

    def execute(self, window: TupleWindow) -> EmittedRows:
        self.state["windows"] += 1
        seen = pa.concat_tables([self.state["seen"], window.new.select(["id"])])
        self.state["seen"] = seen.slice(max(len(seen) - 5, 0))
        ids = " ".join(map(str, window.column("id").tolist()))
        yield str(window.key), window.end_timestamp, ids, self.state["windows"]


class Plain(WindowedBolt):
    """The events of a window, and nothing kept."""

    outputs = "key string, stop long, ids string, number long"

    def execute(self, window: TupleWindow) -> EmittedRows:
        ids = sorted(window.column("id").tolist())
        return str(window.key), window.end_timestamp, " ".join(map(str, ids)), len(ids)


class Lengths(StatefulWindowedBolt):
    """A second window, over what windows have emitted."""

    outputs = "rows long, total long, number long"
    state_types = {"windows": int}  # noqa: RUF012

    def execute(self, window: TupleWindow) -> EmittedRows:
        self.state["windows"] += 1
        return len(window), int(window.column("number").sum()), self.state["windows"]


class Doubled(Bolt):
    """Some events not at all, some twice."""

    outputs = COLUMNS

    def execute(self, event: Tuple) -> EmittedRows:
        row = tuple(event[name] for name in NAMES)
        for _ in range((event["id"] or 0) % 3):
            yield row


def _lag(bolt: WindowedBolt, chance: random.Random) -> WindowedBolt:
    bolt = bolt.with_timestamp_field("ts").with_lag(f"{chance.choice([0, 500, 2_000, 6_000])}ms")
    if chance.random() < 0.5:
        bolt = bolt.with_late_tuple_stream("late")
    return bolt


def _time(chance: random.Random) -> str:
    return f"{chance.choice([500, 1_000, 2_500, 4_000, 9_000])}ms"


KINDS: dict[str, Chooser] = {
    "count": lambda b, c: b.with_window(c.randint(1, 9), c.randint(1, 9)),
    "count in event time": lambda b, c: _lag(b.with_window(c.randint(1, 9), c.randint(1, 5)), c),
    "sliding": lambda b, c: _lag(b.with_window(_time(c), _time(c)), c),
    "tumbling": lambda b, c: _lag(b.with_tumbling_window(_time(c)).with_alignment(offset="100ms"), c),
    "count by time": lambda b, c: _lag(b.with_window(c.randint(1, 9), _time(c)), c),
    "time by count": lambda b, c: _lag(b.with_window(_time(c), c.randint(1, 9)), c),
    "tumbling by key": lambda b, c: _lag(b.with_tumbling_window(_time(c)), c).with_key("user"),
    "sessions": lambda b, c: _lag(b.with_window(Session(_time(c))), c).with_key("user"),
    "by the clock": lambda b, c: b.with_tumbling_window(_time(c)),
    "sliding by the clock": lambda b, c: b.with_window(_time(c), "1s"),
    "atlas hopping": lambda b, c: b.with_time(presets.atlas("2s")).with_window("6s", "2s").with_timestamp_field("ts"),
    "atlas sessions": lambda b, c: b.with_time(presets.atlas("2s")).with_window(Session(_time(c))).with_key("user")
    .with_timestamp_field("ts"),
    "azure substreams": lambda b, c: b.with_time(AZURE).with_tumbling_window("5s").with_key("user")
    .with_watermark(per_key=True)
    .with_timestamp_field("ts"),
    "azure sessions": lambda b, c: b.with_time(AZURE).with_window(Session("2s", max_duration="9s")).with_key("user")
    .with_timestamp_field("ts"),
    "azure sliding": lambda b, c: b.with_time(AZURE).with_window(SlidingLog("3s")).with_timestamp_field("ts"),
    "snapshots": lambda b, c: b.with_time(presets.streaminsight(c.randint(2, 9), "2s")).with_window(Snapshot())
    .with_timestamp_field("ts"),
    "lifetimes": lambda b, c: b.with_time(presets.streaminsight(c.randint(2, 9), "2s")).with_window(Snapshot())
    .with_timestamp_field("ts").with_lifetime("until"),
    "partitions": lambda b, c: b.with_time(presets.atlas("1s")).with_tumbling_window("5s")
    .with_timestamp_field("ts").with_watermark(partition="user"),
    "panes": lambda b, c: b.with_time(presets.atlas("3s")).with_tumbling_window("5s").with_key("user")
    .with_timestamp_field("ts")
    .with_trigger(Panes(early=after_count(2) | after_clock("1s"), late=True,
                        mode=c.choice(["retracting", "accumulating"]))),
}  # fmt: skip


def _sums() -> WindowedBolt:
    return AggregateBolt(by=["user"], n=aggregates.count(), amount=aggregates.sum("amount"), top=aggregates.max("id"))


@dataclass(frozen=True)
class Portion:
    """What has come when a run begins, beside what had come before; and whether the run closes the stream."""

    files: dict[str, str]
    flush: bool


@dataclass
class World:
    """A topology, its input, and what its sinks were called with."""

    seed: int
    calls: Calls = field(default_factory=dict)
    """What the function of a sink was given, each time, by the number of the step."""
    words: list[str] = field(default_factory=list)
    """The topology, for people."""
    before_call: Callable[[], None] = lambda: None
    """Called before the function of a sink."""

    def __post_init__(self) -> None:
        self._chance = random.Random(f"world {self.seed}")
        self.portions = self._portions()
        self.keep = self._chance.choice([1, 2, 3, 3, 5])
        self.per_batch = self._chance.choice([1, 1, 2, 3])
        self._shape = self._chance.getrandbits(64)
        self.words = []

    @cached_property
    def rows(self) -> int:
        """How many lines the input has."""
        return sum(text.count("\n") for portion in self.portions for text in portion.files.values())

    def options(self, folder: str, **rest: Any) -> RunOptions:
        """Those of a run in a folder."""
        return RunOptions(f"{folder}/ck", keep_batches=self.keep, **rest)

    def deliver(self, portion: int, folder: str) -> None:
        """Put what comes into the folder of the input."""
        os.makedirs(f"{folder}/in", exist_ok=True)
        before = sum(len(each.files) for each in self.portions[:portion])
        for number, (name, text) in enumerate(self.portions[portion].files.items(), before):
            path = f"{folder}/in/{name}"
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            moment = 1_600_000_000 + number // 2  # some of them at one time
            os.utime(path, (moment, moment))

    def topology(self, folder: str) -> Topology:
        """The same each time; drawn again where a choice cannot be built."""
        chance = random.Random(self._shape)
        while True:
            self.words = []
            try:
                return self._build(random.Random(chance.getrandbits(64)), folder)
            except ConfigError as error:
                self.words.append(str(error))
            except ValueError as error:  # TopologyError, which names all
                self.words.append(str(error))

    def _build(self, chance: random.Random, folder: str) -> Topology:
        builder = TopologyBuilder("world")
        builder.set_spout("in", spouts.files(f"{folder}/in", COLUMNS, format="jsonl", files_per_batch=self.per_batch))
        feed = ["in"]
        if chance.random() < 0.3:
            builder.set_bolt("doubled", Doubled(), chance.choice([1, 2])).shuffle_grouping("in")
            feed.append("doubled")
        for number in range(chance.choice([1, 1, 2, 3])):
            self._bolt(builder, chance, f"b{number}", chance.choice(feed), folder)
        if chance.random() < 0.6:
            builder.set_sink("bad", self._files(chance, folder, "bad")).from_("in", "errors")
        return builder.build()

    def _bolt(self, builder: TopologyBuilder, chance: random.Random, name: str, feed: str, folder: str) -> None:
        kind = chance.choice(sorted(KINDS))
        made = chance.choice([Ids, Ids, Plain, _sums])()
        bolt = KINDS[kind](made, chance)
        by_key = bolt.settings.key or isinstance(bolt, AggregateBolt)
        tasks = chance.choice([1, 2, 3]) if by_key else 1
        self.words.append(f"{name}: {kind}, {type(bolt).__name__}, {tasks} tasks, of {feed}")
        declared = builder.set_bolt(name, bolt, tasks)
        if by_key and chance.random() < 0.8:
            declared.fields_grouping(feed, "user")
        else:
            declared.global_grouping(feed)
        builder.set_sink(f"{name}-out", self._files(chance, folder, name)).from_(name)
        if bolt.settings.late_stream:
            builder.set_sink(f"{name}-late", self._files(chance, folder, f"{name}-late")).from_(name, "late")
        if chance.random() < 0.3:
            called = sinks.foreach_batch(self._called, frame="arrow")
            builder.set_sink(f"{name}-called", called).from_(name)
        if chance.random() < 0.4 and not isinstance(bolt, AggregateBolt):
            length: Any = chance.choice(["2s", "7s", 3])
            chained = Lengths().with_tumbling_window(length)
            builder.set_bolt(f"{name}-then", chained).global_grouping(name)
            builder.set_sink(f"{name}-then-out", self._files(chance, folder, f"{name}-then")).from_(f"{name}-then")
            self.words.append(f"{name}-then: tumbling, of {name}")

    def _files(self, chance: random.Random, folder: str, name: str) -> Any:
        return sinks.files(f"{folder}/out/{name}", chance.choice(["jsonl", "csv", "parquet", "arrow"]))

    def _called(self, table: pa.Table, step: int) -> None:
        self.before_call()
        self.calls.setdefault(step, []).append(table.to_pylist())

    # --- input ---

    def _portions(self) -> list[Portion]:
        chance, number = self._chance, 0
        found: list[Portion] = []
        count = chance.choice([1, 1, 2, 3])
        now, users = chance.choice([0, 5_000, 1_700_000_000_000]), chance.randint(1, 5)
        for at in range(count):
            files: dict[str, str] = {}
            for _ in range(chance.choice([0, 1, 2, 3, 5, 8])):
                lines = []
                for _ in range(chance.choice([0, 1, 4, 12, 12])):
                    now += self._move()
                    lines.append(self._line(number, now, users))
                    number += 1
                files[f"{len(found)}-{len(files):02d}.jsonl"] = "".join(f"{line}\n" for line in lines)
            found.append(Portion(files, flush=at == count - 1 and chance.random() < 0.8))
        return found

    def _move(self) -> int:
        return self._chance.choice([0, 0, 50, 100, 300, 300, 700, 2_000, self._chance.choice([0, 5_000, 60_000])])

    def _line(self, number: int, now: int, users: int) -> str:
        """An event; ties, disorder, the late, the early, and what cannot be read."""
        chance = self._chance
        moment = now - chance.choice([0, 0, 0, 0, 300, 1_000, 2_500, 5_000, 20_000])
        moment += chance.choice([0] * 12 + [6_000])
        row = {
            "id": number, "user": f"user{chance.randrange(users)}", "ts": moment, "at": now,
            "until": moment + chance.choice([1, 500, 4_000]), "amount": float(chance.randrange(100)),
        }  # fmt: skip
        match chance.randrange(40):
            case 0:
                return "{not json"
            case 1:
                row["ts"] = None
            case 2:
                row["amount"] = "much"
            case 3:
                row["user"] = None
        return json.dumps(row)
