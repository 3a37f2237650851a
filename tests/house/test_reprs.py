"""What public values show of themselves: one line that has an end, and nothing of where they lie in memory."""

from __future__ import annotations

import importlib
import inspect
import re
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa

from tests import names_page
from topologies.checkpoints.stored_tasks import StoredState
from topologies.testing.replaying import replay
from windbolt import (
    SOURCE,
    AggregateBolt,
    AlterLifetime,
    Arrival,
    BatchBolt,
    BatchWindowedBolt,
    Bolt,
    Bounds,
    Calendar,
    Changes,
    Count,
    CountByStart,
    DayTime,
    Deduplicate,
    Duration,
    Emit,
    Events,
    Hopping,
    Panes,
    PartitionedSpout,
    Rank,
    RateLimit,
    Restart,
    RunOptions,
    RunPhase,
    Session,
    ShiftTime,
    Silence,
    SlidingLog,
    Snapshot,
    Spout,
    StatefulBatchBolt,
    StatefulBolt,
    StatefulWindowedBolt,
    TaskContext,
    TemporalJoin,
    TimeMetrics,
    TopN,
    TopologyBuilder,
    Tuple,
    Union,
    WindowBatch,
    WindowedBolt,
    WindowJoin,
    aggregates,
    panes,
    policies,
    presets,
    sinks,
    spouts,
    step,
    testing,
    triggers,
)

LONGEST = 200
"""Characters; what stands in a traceback, a log or a cell of a notebook is read on one line."""
MANY = [("ada & <bob>", float(number), datetime(2024, 1, 1, 6, 0, 3, tzinfo=UTC)) for number in range(500)]
SCHEMA = "user string, amount double, ts timestamp"
WORDS = "a text that goes on " * 100


class Told(Spout):
    schema = "words string"

    def __init__(self) -> None:
        self.password = WORDS

    def read(self, offset: Any, limit: int) -> Any:
        return None


class ToldInParts(PartitionedSpout):
    schema = "words string"

    def __init__(self) -> None:
        self.password = WORDS

    def partitions(self) -> Any:
        return []

    def end(self, partition: str, start: Any, limit: int) -> Any:
        return None

    def read(self, partition: str, start: Any, end: Any) -> Any:
        return None


class Mine(WindowedBolt):
    outputs = "user string"

    def __init__(self, words: str = WORDS, rule: Any = len) -> None:
        self.words, self.rule, self.anything, self.things = words, rule, object(), [object()] * 100


class FromTheFirst(policies.EvictionPolicy):
    def evict(self, event: Any, context: Any) -> Any:
        return policies.Action.PROCESS


class OnMarker(policies.TriggerPolicy):
    def track(self, event: Any, context: Any) -> bool:
        return False


def builder(bolts: int = 30) -> TopologyBuilder:
    made = TopologyBuilder("shop")
    made.set_spout("orders", spouts.memory(SCHEMA, MANY))
    for number in range(bolts):
        bolt = AggregateBolt(by="user", n=aggregates.count()).with_window("20s", "10s").with_timestamp_field("ts")
        made.set_bolt(f"bolt_with_a_long_name_{number}", bolt).fields_grouping("orders", "user")
        made.set_sink(f"sink_{number}", sinks.memory()).from_(f"bolt_with_a_long_name_{number}")
    return made


def ended_run() -> Any:
    run = builder(3).build().start(engine="local")
    run.wait()
    return run


def ran() -> Any:
    return testing.run_bolt(AggregateBolt(n=aggregates.count()).with_tumbling_window("10s"), MANY[:50], SCHEMA)


class Pairs(policies.TriggerPolicy):
    reads = ()

    def track(self, event: policies.QueuedEvent, context: policies.TriggerContext) -> bool:
        return event.number % 2 == 1


def checked() -> Any:
    return testing.check_policy(MANY[:8], trigger=Pairs(), window="1m", schema=SCHEMA, cuts=1, other_process=False)


def window() -> Any:
    return testing.make_window(MANY, SCHEMA, end="2024-01-01T06:00:10Z", key=(WORDS, 1))


def scenario() -> dict[str, Any]:
    steps = [{"event": {"id": f"e{number}", "ts": number * 1000}} for number in range(100)]
    return {"name": "many", "bolt": {"length": "20s", "sliding": "10s", "timestamp_field": "ts"}, "steps": steps}


def configured() -> Any:
    bolt = Mine().with_window("20s", "10s").with_timestamp_extractor(lambda table: table["ts"])
    return bolt.with_time(presets.azure(late="5m")).with_late_tuple_stream(WORDS.replace(" ", "_"))


def filled() -> Any:
    sink = sinks.memory()
    sink.batches["0"] = pa.table({"words": [WORDS] * 500})
    return sink


FIELDS = {f"column_{number}": aggregates.count() for number in range(50)}
MAKERS: dict[str, Callable[[], Any]] = {
    "AggregateBolt": lambda: AggregateBolt(by="user", **FIELDS).with_tumbling_window("10s"),
    "Aggregation": lambda: step.Aggregation(key="a"),
    "AlterLifetime": lambda: AlterLifetime(start="ts", end="until", duration="10s"),
    "Arrival": lambda: Arrival(late="5s", early="1m"),
    "BatchBolt": BatchBolt,
    "BatchWindowedBolt": BatchWindowedBolt,
    "Bolt": Bolt,
    "BoltRun": ran,
    "Bounds": lambda: Bounds.START,
    "Calendar": lambda: Calendar("day", zone="Europe/Berlin", at=["06:00"]),
    "Changes": lambda: Changes(by="user", within="1h"),
    "CheckedWindow": lambda: checked().windows[0],
    "Count": lambda: Count(3),
    "CountByStart": lambda: CountByStart(3),
    "CountTrigger": lambda: triggers.CountTrigger(Count(3)),
    "DailyByRule": lambda: triggers.DailyByRule(lambda event: DayTime(0, "UTC")),
    "DailyTrigger": lambda: triggers.DailyTrigger(DayTime(0, "UTC")),
    "DayTime": lambda: DayTime(0, "Europe/Berlin"),
    "Deduplicate": lambda: Deduplicate(["user", "amount"], within="1h"),
    "Duration": lambda: Duration(5),
    "Emit": lambda: Emit(WORDS, "late"),
    "Event": lambda: step.Event({"words": WORDS}),
    "Action": lambda: policies.Action.KEEP,
    "EvictionContext": lambda: policies.EvictionContext(count=5, reference=3),
    "EvictionPolicy": FromTheFirst,
    "Events": lambda: Events(np.arange(500), pa.record_batch({"words": [WORDS] * 500})),
    "FireResult": lambda: triggers.FireResult.FIRE,
    "FiredBy": lambda: triggers.FiredBy.COUNT,
    "FiredWindow": lambda: ran().windows[0],
    "Hopping": lambda: Hopping("10s", "5s"),
    "Out": lambda: step.Out({"words": WORDS}),
    "Outputs": lambda: step.Outputs([step.Out({"words": WORDS})] * 50),
    "Pane": lambda: panes.Pane(0, panes.Timing.EARLY, False),
    "PaneTrigger": lambda: panes.after_count(5),
    "Panes": lambda: Panes(early="10s", late=True),
    "PolicyCheck": checked,
    "Preset": presets.atlas,
    "Fire": lambda: policies.Fire.BEFORE,
    "QueuedEvent": lambda: policies.QueuedEvent(5, 3, {"words": [WORDS]}),
    "QueuedEvents": lambda: policies.QueuedEvents(np.arange(500), np.arange(500), {"words": np.array([WORDS] * 500)}),
    "Rank": lambda: Rank("amount"),
    "Silence": lambda: Silence("1s", by="user"),
    "TriggerContext": lambda: policies.TriggerContext({"words": WORDS}),
    "RateLimit": lambda: RateLimit(3, per="1s"),
    "PartitionedSpout": ToldInParts,
    "RuleTrigger": lambda: triggers.RuleTrigger(lambda event, call: None),
    "Restart": lambda: Restart(3, max_backoff="2m"),
    "Run": ended_run,
    "RunOptions": lambda: RunOptions(WORDS, on_report=lambda report: None),
    "RunPhase": lambda: RunPhase.RUNNING,
    "RunStatus": lambda: ended_run().status,
    "Session": lambda: Session("10s"),
    "ShiftTime": lambda: ShiftTime("10s"),
    "SlidingLog": lambda: SlidingLog("10s"),
    "Snapshot": Snapshot,
    "Spout": Told,
    "StatefulBatchBolt": StatefulBatchBolt,
    "StatefulBolt": StatefulBolt,
    "StatefulWindowedBolt": StatefulWindowedBolt,
    "StoredState": lambda: StoredState(
        checkpoint="ck", bolt=WORDS, batch="7", clock=0, tables={f"table {each}": pa.table({}) for each in range(99)}
    ),
    "Summary": lambda: ended_run().wait(),
    "TaskContext": lambda: TaskContext("bolt", 0, 1, WORDS, Counter({f"counter {each}": 1 for each in range(99)})),
    "TemporalJoin": lambda: TemporalJoin("left", "right", on="user"),
    "TimeMetrics": TimeMetrics,
    "Timing": lambda: panes.Timing.EARLY,
    "TopN": lambda: TopN(3, "amount"),
    "Topology": lambda: builder().build(),
    "TopologyBuilder": builder,
    "TopologyDriver": lambda: testing.TopologyDriver(builder().build(), clock="2024-01-01T06:00:00Z"),
    "TriggerPolicy": OnMarker,
    "TriggerCall": lambda: triggers.TriggerCall(WORDS, {"words": WORDS}),
    "Tuple": lambda: Tuple({"words": WORDS, "more": WORDS}, 0, "orders"),
    "TupleWindow": window,
    "Union": Union,
    "WindowBatch": lambda: WindowBatch([window()] * 5),
    "WindowJoin": lambda: WindowJoin("left", "right", on="user"),
    "WindowedBolt": configured,
    "aggregates.Aggregate": lambda: aggregates.sum("amount"),
}
"""By the name of each public class: one of its instances, as long as it may well be."""
OTHERS: dict[str, Callable[[], Any]] = {
    "settings as they are": lambda: Mine().settings,
    "answer": lambda: replay(scenario()),
    "batch report": lambda: ended_run().summary.last,
    "bolt declarer": lambda: builder().set_bolt("more", configured(), parallelism=3),
    "bolt report": lambda: next(iter(ended_run().summary.last.bolts.values())),
    "driver": lambda: testing.TopologyDriver(builder().build()),
    "settings": lambda: configured().settings,
    "sink declarer": lambda: builder().set_sink("more", sinks.memory()).from_("one").from_("two"),
    "spouts.files": lambda: spouts.files(
        f"{WORDS}.csv", schema=pa.schema([(f"c{each}", pa.int64()) for each in range(99)])
    ),
    "spouts.kafka": lambda: spouts.kafka("host:9092", "orders", options={"kafka.sasl.jaas.config": "secret"}),
    "spouts.memory": lambda: spouts.memory(SCHEMA, MANY),
    "spouts.stream": lambda: spouts.stream(lambda spark: spark, SCHEMA),
    "sinks.console": sinks.console,
    "sinks.discard": sinks.discard,
    "sinks.files": lambda: sinks.files(WORDS, "csv"),
    "sinks.foreach_batch": lambda: sinks.foreach_batch(lambda frame, batch: None),
    "sinks.kafka": lambda: sinks.kafka("host:9092", "orders", options={"kafka.sasl.jaas.config": "secret"}),
    "sinks.memory": filled,
    "the partitions of a source": lambda: SOURCE,
    **{f"presets.{name}": getattr(presets, name) for name in names_page.public()["windbolt.presets"] if name.islower()},
}


def public_classes() -> list[str]:
    """All classes that users import, but for errors."""
    return sorted(
        {
            "aggregates.Aggregate" if name == "Aggregate" else name
            for module, names in names_page.public().items()
            for name in names
            if inspect.isclass(value := getattr(importlib.import_module(module), name))
            and not issubclass(value, BaseException)
        }
    )


def test_every_public_class_is_made_here() -> None:
    assert sorted(MAKERS) == public_classes()


def test_they_show_themselves_on_a_line_without_addresses() -> None:
    problems = []
    for name, make in {**MAKERS, **OTHERS}.items():
        made = make()
        for text in {repr(made), str(made)}:
            faults = {
                "an address": "0x" in text,
                "more than a line": not re.fullmatch(r"[^\n\r\x1b]*", text),
                f"{len(text)} characters": len(text) > LONGEST,
                "a secret": "secret" in text,
            }
            problems += [f"{name}: {fault} in {text!r}" for fault, there in faults.items() if there]
    assert not problems, "\n".join(problems)
