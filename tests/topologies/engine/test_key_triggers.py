"""Triggers of keys as a user of bolts meets them: building, describing, calls, refused events, state."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest

from manager.storage.checkpoint import MemoryCheckpoint
from manager.storage.task_state import TriggeredState
from topologies.engine.batch import BatchPlan, InProcessExecutor, TimeAdvance
from topologies.engine.micro_batch import MicroBatch
from topologies.engine.task_data import SourceBatch
from topologies.graph.describing import to_json, topology_text
from topologies.graph.graph import Graph
from topologies.io.sinks import MemorySink
from topologies.local import run_local
from windbolt import TopologyBuilder, sinks, spouts
from windowing import (
    Count,
    DayTime,
    StatefulWindowedBolt,
    TaskContext,
    Tuple,
    TupleWindow,
    WindowedBolt,
    millis,
    seconds,
    triggers,
)
from windowing.errors import BoltError, ConfigError, TopologyError
from windowing.schema import EmittedRows
from windowing.settings.kinds import Session
from windowing.settings.panes import Panes
from windowing.settings.triggers import (
    CountTrigger,
    DailyByRule,
    DailyTrigger,
    FiredBy,
    FireResult,
    RuleTrigger,
    TriggerCall,
)

COLUMNS = "key string, id string, ts timestamp"
DAY = 86_400_000_000
EACH = [CountTrigger(Count(2)), DailyTrigger(DayTime(0)), RuleTrigger(lambda event, call: "continue")]


class Shown(WindowedBolt):
    """Every window as a row."""

    outputs = "key string, ids string, by string"

    def execute(self, window: TupleWindow) -> EmittedRows:
        assert window.fired_by is not None
        return window.key, " ".join(window.table["id"].to_pylist()), window.fired_by.value


class Calls(StatefulWindowedBolt):
    """How often each key has been fired, until it is forgotten."""

    outputs = "key string, calls long"
    state_types: ClassVar[dict[str, Any]] = {"calls": dict}

    def execute(self, window: TupleWindow) -> EmittedRows:
        calls = self.state["calls"]
        calls[window.key] = calls.get(window.key, 0) + 1
        return window.key, calls[window.key]

    def forget(self, key: Any) -> None:
        del self.state["calls"][key]


def a_topology(bolt: WindowedBolt, *, refused: str | None = None) -> tuple[Graph, MemorySink, MemorySink]:
    builder, out, wrong = TopologyBuilder("keys"), sinks.memory(), sinks.memory()
    builder.set_spout("events", spouts.memory(COLUMNS))
    builder.set_bolt("windows", bolt).fields_grouping("events", "key")
    builder.set_sink("out", out).from_("windows")
    builder.set_sink("wrong", wrong).from_("windows", stream=refused or "errors")
    return builder.build(), out, wrong


@dataclass(frozen=True)
class Events:
    """(key, id) of events that come at one clock."""

    clock: int
    events: tuple[tuple[str, str], ...]

    def read(self, topology: Graph) -> Iterator[SourceBatch]:
        keys, ids = zip(*self.events, strict=True)
        schema = topology.spouts["events"].outputs["default"]
        table = pa.table([list(keys), list(ids), pa.nulls(len(ids), schema.field("ts").type)], schema=schema)
        yield SourceBatch("events", "default", table, np.arange(len(ids)), clock=self.clock)


def run(topology: Graph, *batches: Events | int) -> MicroBatch:
    """Events, and clocks without events."""
    step = MicroBatch(topology, MemoryCheckpoint(), InProcessExecutor())
    for number, batch in enumerate(batches):
        plan = (
            BatchPlan(number, TimeAdvance(batch))
            if isinstance(batch, int)
            else BatchPlan(number, TimeAdvance(batch.clock), [batch])
        )
        step.run(plan)
    return step


@pytest.mark.feature("UH-4")
@pytest.mark.parametrize("trigger", EACH)
def test_a_trigger_needs_a_key_and_the_clock(trigger: Any) -> None:
    with pytest.raises(TopologyError, match="has a trigger but no key"):
        a_topology(Shown().with_trigger(trigger))
    with pytest.raises(TopologyError, match="has a trigger, and event times"):
        a_topology(Shown().with_key("key").with_trigger(trigger).with_timestamp_field("ts"))
    with pytest.raises(TopologyError, match=r"with_trigger\(Panes"):
        a_topology(Shown().with_key("key").with_trigger(trigger).with_trigger(Panes(early=1)))
    with pytest.raises(ConfigError, match="with_trigger on a bolt that has windows already"):
        Shown().with_tumbling_window("1s").with_trigger(trigger)
    with pytest.raises(ConfigError, match="with_window on a bolt that has a trigger already"):
        Shown().with_trigger(trigger).with_window(Session("1s"))


def test_what_is_no_trigger_is_told() -> None:
    with pytest.raises(ConfigError, match=r"windbolt\.triggers"):
        Shown().with_trigger(2)  # type: ignore[call-overload]
    with pytest.raises(ConfigError, match="longer than zero"):
        CountTrigger(Count(2), millis(0))
    with pytest.raises(ConfigError, match="cannot be called"):
        RuleTrigger("rule")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="empty firings"):
        DailyTrigger(DayTime(0), 0)
    with pytest.raises(ConfigError, match="its time is a DayTime") as raised:
        DailyTrigger("18:00")  # type: ignore[arg-type]
    assert raised.value.do.startswith("write DailyTrigger(DayTime(hours(18).micros")
    with pytest.raises(TopologyError, match="two streams 'default'"):
        a_topology(Shown().with_key("key").with_trigger(CountTrigger(Count(2)), refused_stream="default"))


def test_triggers_in_words() -> None:
    def closing(event: Tuple) -> DayTime:
        return DayTime(0)

    said: dict[Any, str] = {
        CountTrigger(Count(2), millis(100)): "until there are 2 events, or 100ms after the first",
        CountTrigger(Count(2), millis(100), from_first=False): "until there are 2 events, or 100ms after the last",
        DailyTrigger(DayTime(0), 3): "until 00:00:00 UTC, daily; forgotten after 3 empty days in a row",
        DailyByRule(closing): "until the time that closing takes from it",
    }
    for trigger, words in said.items():
        topology, _, _ = a_topology(Shown().with_key("key").with_trigger(trigger))
        assert words in topology_text(topology)
        assert words in to_json(topology)["bolts"][0]["window"]["in_words"]


def test_a_local_run_fires_what_is_open_at_its_end() -> None:
    rows = [("a", "1", None), ("b", "2", None), ("a", "3", None), ("a", "4", None)]
    builder, out = TopologyBuilder("keys"), sinks.memory()
    builder.set_spout("events", spouts.memory(COLUMNS, rows))
    builder.set_bolt("windows", Shown().with_key("key").with_trigger(CountTrigger(Count(2)))).global_grouping("events")
    builder.set_sink("out", out).from_("windows")
    run_local(builder.build())
    assert sorted(map(str, out.rows)) == sorted(
        map(
            str,
            [
                {"key": "a", "ids": "1 3", "by": "count"},
                {"key": "a", "ids": "4", "by": "close"},
                {"key": "b", "ids": "2", "by": "close"},
            ],
        )
    )


@pytest.mark.feature("UH-31")
@pytest.mark.parametrize("refused", [None, "refused"])
def test_an_event_on_which_a_rule_fails_is_refused(refused: str | None) -> None:
    def rule(event: Tuple, call: TriggerCall) -> str:
        if event["id"] == "bad":
            raise ValueError("no good")
        return FireResult.FIRE_AND_PURGE if event["id"] == "last" else FireResult.CONTINUE

    bolt = Shown().with_key("key").with_trigger(RuleTrigger(rule, seconds(1)), refused_stream=refused)
    topology, out, wrong = a_topology(bolt, refused=refused)
    step = run(topology, Events(0, (("a", "1"), ("a", "bad"))), Events(5, (("a", "last"),)))
    assert out.rows == [{"key": "a", "ids": "1 last", "by": "rule"}]
    (row,) = wrong.rows
    assert "line" in row["_reason"]
    assert "ValueError: no good" in row["_reason"]
    if refused is None:
        assert (row["_component"], row["_source"], row["_row"]) == ("windows", "events", None)
        assert '"id": "bad"' in row["_data"]
    else:
        assert (row["key"], row["id"]) == ("a", "bad")
    accounts = step.manifest.bolts["windows"].accounts
    assert (accounts["received"], accounts["windowed"], accounts["invalid"]) == (3, 2, 1)


def test_a_rule_that_finds_its_service_away_ends_the_run_with_its_line() -> None:
    def rule(event: Tuple, call: Any = None) -> Any:
        raise ConnectionError("no route to the service")

    for trigger in (RuleTrigger(rule), DailyByRule(rule)):
        topology, _, wrong = a_topology(Shown().with_key("key").with_trigger(trigger))
        with pytest.raises(BoltError, match=r"bolt 'windows' failed.*no route to the service at .*test_key") as raised:
            run(topology, Events(0, (("a", "1"),)))
        assert raised.value.transient
        assert not wrong.rows


@pytest.mark.feature("UH-22")
def test_a_key_that_is_forgotten_takes_its_state_along() -> None:
    bolt = Calls().with_key("key").with_trigger(DailyTrigger(DayTime(0), max_empty=2))
    topology, out, _ = a_topology(bolt)
    one, two = Events(DAY // 2, (("a", "1"), ("b", "1"))), Events(DAY + 5, (("a", "2"),))
    step = run(
        topology, one, DAY, two, 2 * DAY, 3 * DAY, 4 * DAY, Events(4 * DAY + 5, (("a", "3"), ("b", "2"))), 5 * DAY
    )
    found = sorted((row["key"], row["calls"]) for row in out.rows)
    assert found == [("a", 1), ("a", 1), ("a", 2), ("b", 1), ("b", 1)]
    assert step.manifest.bolts["windows"].tasks[0].windows.get("keys"), "both keys are known again"


def test_nothing_is_left_of_keys_that_are_done_with() -> None:
    for trigger in (CountTrigger(Count(1)), RuleTrigger(lambda event, call: "purge"), DailyTrigger(DayTime(0))):
        topology, _, _ = a_topology(Shown().with_key("key").with_trigger(trigger))
        task = run(topology, Events(0, (("a", "1"), ("b", "2"))), DAY).manifest.bolts["windows"].tasks[0]
        assert (list(task.refs), task.windows) == ([], TriggeredState())


def test_what_a_rule_keeps_is_what_json_can_hold() -> None:
    seen: list[Any] = []

    def rule(event: Tuple, call: TriggerCall) -> str:
        seen.append(dict(call.cache))
        call.cache[1] = (event["id"],)  # type: ignore[index]
        if event["id"] == "set":
            call.cache["set"] = {1, 2}
        return "continue"

    topology, _, wrong = a_topology(
        Shown().with_key("key").with_trigger(RuleTrigger(rule), refused_stream="r"), refused="r"
    )
    run(topology, Events(0, (("a", "1"), ("a", "set"), ("a", "3"))))
    assert seen == [{}, {"1": ["1"]}, {"1": ["1"]}], "as it is found after a restart, whether there is one or not"
    assert "TypeError" in wrong.rows[0]["_reason"]


def test_fired_by_and_the_names_of_triggers() -> None:
    of_keys = ["count", "rule", "timeout", "time", "close", "full"]
    assert [each.value for each in FiredBy] == [*of_keys, "event", "moment", "arrival"]
    assert triggers.CountTrigger is CountTrigger
    assert TriggerCall(fired_at=1_999).fire_ms == 1


def changed(before: Any, after: Any, *batches: Events | int, held: Events) -> list[tuple[Any, ...]]:
    """What fires after the trigger of an existing checkpoint has become another."""
    checkpoint = MemoryCheckpoint()
    topology, _, _ = a_topology(Shown().with_key("key").with_trigger(before))
    MicroBatch(topology, checkpoint, InProcessExecutor()).run(BatchPlan(0, TimeAdvance(held.clock), [held]))
    topology, out, _ = a_topology(Shown().with_key("key").with_trigger(after))
    step = MicroBatch(topology, checkpoint, InProcessExecutor())
    for number, batch in enumerate(batches, 1):
        step.run(
            BatchPlan(number, TimeAdvance(batch))
            if isinstance(batch, int)
            else BatchPlan(number, TimeAdvance(batch.clock), [batch])
        )
    assert sum(step.manifest.bolts["windows"].pending) == 0
    return [(row["key"], row["ids"]) for row in out.rows]


def test_a_daily_trigger_may_be_changed_under_a_checkpoint() -> None:
    held, midnight, noon = Events(5, (("a", "1"), ("b", "2"))), DayTime(0), DayTime(DAY // 2)
    both = [("a", "1"), ("b", "2")]
    assert sorted(changed(DailyTrigger(midnight), DailyTrigger(midnight, 3), DAY, held=held)) == both
    assert sorted(changed(DailyTrigger(midnight, 3), DailyTrigger(midnight), DAY, held=held)) == both
    # A key is looked at when it has an event, or at the time that it waits for: then the new time holds.
    assert sorted(changed(DailyTrigger(midnight, 3), DailyTrigger(noon, 3), DAY, held=held)) == both
    more = Events(DAY // 4, (("a", "3"),))
    assert sorted(changed(DailyTrigger(midnight, 3), DailyTrigger(noon, 3), more, DAY // 2, DAY, held=held)) == [
        ("a", "1 3"),
        ("b", "2"),
    ]


def test_a_rule_has_a_call_of_its_own_for_each_event() -> None:
    def rule(event: Tuple, call: TriggerCall) -> Any:
        if event["id"] == "odd":
            call.note = "not kept"  # type: ignore[attr-defined]
        if event["id"] == "none":
            call.cache = None  # type: ignore[assignment]
        if event["id"] == "array":
            return np.array([1, 2])
        call.cache["n"] = call.cache.get("n", 0) + 1
        return "continue"

    bolt = Shown().with_key("key").with_trigger(RuleTrigger(rule), refused_stream="r")
    topology, out, wrong = a_topology(bolt, refused="r")
    run(topology, Events(0, (("a", "1"), ("a", "odd"), ("a", "none"), ("a", "2"), ("a", "array"))))
    assert [row["id"] for row in wrong.rows] == ["odd", "none"]
    assert out.rows == [{"key": "a", "ids": "1 2 array", "by": "rule"}], "what is no status fires and purges"


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("cannot say")


def test_an_error_that_cannot_say_what_it_is_refuses_its_event_too() -> None:
    def rule(event: Tuple, call: TriggerCall) -> Any:
        raise Unspeakable

    topology, _, wrong = a_topology(
        Shown().with_key("key").with_trigger(RuleTrigger(rule), refused_stream="r"), refused="r"
    )
    run(topology, Events(0, (("a", "1"),)))
    assert "Unspeakable" in wrong.rows[0]["_reason"]


class Remembers(Calls):
    """Forgets everything when another run begins."""

    state_types: ClassVar[dict[str, Any]] = {"calls": dict, "run": str}

    def prepare(self, context: TaskContext) -> None:
        if self.state["run"] != context.run:
            self.state = {**self.initial_state(), "run": context.run}


@pytest.mark.feature("UH-30")
def test_a_batch_that_runs_again_belongs_to_the_run_that_planned_it() -> None:
    topology, out, _ = a_topology(Remembers().with_key("key").with_trigger(CountTrigger(Count(1))))
    checkpoint = MemoryCheckpoint()
    first = MicroBatch(topology, checkpoint, InProcessExecutor())
    first.run(BatchPlan(0, TimeAdvance(0), [Events(0, (("a", "1"), ("a", "2")))], run=first.run_id))
    second = MicroBatch(topology, checkpoint, InProcessExecutor())  # the first has died in the middle of batch 1
    second.run(BatchPlan(1, TimeAdvance(1), [Events(1, (("a", "3"),))], run=first.run_id))
    second.run(BatchPlan(2, TimeAdvance(2), [Events(2, (("a", "4"),))], run=second.run_id))
    assert [row["calls"] for row in out.rows] == [1, 2, 3, 1]
