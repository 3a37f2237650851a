"""How much the window of a key may hold: what is told of it, what is counted, and what happens to larger ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manager import triggered_windows
from manager.keyed.key_states import KeyStates
from manager.keyed.retained_events import RetainedEvents
from manager.storage.checkpoint import MemoryCheckpoint
from manager.triggered_windows import TriggeredWindows
from tests.topologies.engine.test_trigger_properties import (
    LOG,
    SPOUTS,
    Arrives,
    Case,
    Ends,
    Found,
    Piece,
    build,
    rule,
    run,
    time_rule,
)
from topologies.engine.batch import BatchPlan, InProcessExecutor, TimeAdvance
from topologies.engine.micro_batch import MicroBatch
from topologies.graph.describing import window_in_words
from windbolt import TopologyBuilder, spouts
from windowing import TupleWindow, WindowedBolt
from windowing.columns import byte_sizes
from windowing.daytimes import DayTime
from windowing.durations import Count, Duration
from windowing.errors import ConfigError, TopologyError
from windowing.events import Tuple
from windowing.settings.triggers import (
    MOST_BYTES,
    Capacity,
    CountTrigger,
    DailyByRule,
    DailyTrigger,
    FireResult,
    KeyTrigger,
    RuleTrigger,
    TriggerCall,
)

DAY = 86_400_000_000


def keyed(trigger: KeyTrigger, **bounds: Any) -> WindowedBolt:
    return WindowedBolt().with_key("key").with_trigger(trigger, **bounds)


@pytest.mark.parametrize(
    ("trigger", "bounds", "said"),
    [
        (RuleTrigger(rule), {"max_events": 0}, "max_events=0. a window holds at least one event"),
        (RuleTrigger(rule), {"max_events": 2.5}, "max_events=2.5"),
        (RuleTrigger(rule), {"max_bytes": True}, "max_bytes=True"),
        (RuleTrigger(rule), {"max_bytes": MOST_BYTES + 1}, "1 to 2_000_000_000"),
        (RuleTrigger(rule), {"bytes_of": ["op"]}, "without max_bytes"),
        (CountTrigger(Count(3)), {"max_events": 3}, "never hold more events than the count"),
    ],
)
def test_a_bound_that_cannot_be_is_told(trigger: KeyTrigger, bounds: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        keyed(trigger, **bounds)
    assert said in str(caught.value)


def test_a_column_that_is_not_there_is_told() -> None:
    builder = TopologyBuilder("t")
    builder.set_spout("events", spouts.memory("key string, op string"))
    bolt = keyed(RuleTrigger(rule), max_bytes=9, bytes_of=["op", "value"])
    builder.set_bolt("bolt", bolt).fields_grouping("events", "key")
    with pytest.raises(TopologyError, match=r"with_trigger\(bytes_of=...\) names 'value'"):
        builder.build()


def test_a_bound_in_words() -> None:
    said = {
        (1, None): "; at most 1 event",
        (100_000, 64 << 20): "; at most 100,000 events or 64 MiB",
        (None, 1_000): "; at most 1,000 bytes",
    }
    for (events, size), words in said.items():
        case = Case(DailyTrigger(DayTime(0)), (), capacity=Capacity(events, size))
        assert window_in_words(build(case).windowed["bolt"]).endswith(words)
    case = Case(DailyTrigger(DayTime(0)), (), capacity=Capacity(None, 2 << 10, ("op", "key")))
    assert window_in_words(build(case).windowed["bolt"]).endswith("; at most 2 KiB of op, key")


# ---- bytes


VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.string(): st.text(max_size=5),
    pa.large_binary(): st.binary(max_size=5),
    pa.int32(): st.integers(-9, 9),
    pa.bool_(): st.booleans(),
    pa.list_(pa.string()): st.lists(st.none() | st.text(max_size=3), max_size=3),
    pa.map_(pa.string(), pa.int64()): st.lists(st.tuples(st.text(max_size=3), st.integers(0, 9)), max_size=3),
    pa.list_(pa.int16(), 2): st.lists(st.integers(0, 9), min_size=2, max_size=2),
    pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])): st.lists(
        st.fixed_dictionaries({"key": st.text(max_size=3), "value": st.none() | st.binary(max_size=3)}), max_size=3
    ),
}


def bits_of(value: Any, kind: pa.DataType) -> int:
    """The obvious way."""
    if pa.types.is_struct(kind):
        return sum(bits_of(None if value is None else value[each.name], each.type) for each in kind)
    if pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return 8 * len(value.encode() if isinstance(value, str) else value or b"")
    if pa.types.is_map(kind):
        return sum(bits_of(key, kind.key_type) + bits_of(each, kind.item_type) for key, each in value or ())
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        return sum(bits_of(each, kind.value_type) for each in value or ())
    return kind.bit_width


@given(st.data(), st.integers(0, 12), st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=4))
def test_bytes_are_those_of_the_values(data: st.DataObject, count: int, kinds: list[pa.DataType]) -> None:
    columns = [data.draw(st.lists(st.none() | VALUES[kind], min_size=count, max_size=count)) for kind in kinds]
    wanted = [
        -(-sum(bits_of(value, kind) for value, kind in zip(row, kinds, strict=True)) // 8)
        for row in zip(*columns, strict=True)
    ]
    names = [f"c{at}" for at in range(len(kinds))]
    table = pa.Table.from_arrays([pa.array(c, k) for c, k in zip(columns, kinds, strict=True)], names)
    assert byte_sizes(table).tolist() == wanted
    at = data.draw(st.integers(0, count))
    assert byte_sizes(pa.concat_tables([table.slice(at), table.slice(0, at)])).tolist() == wanted[at:] + wanted[:at]
    assert sum(wanted) <= table.nbytes + count


# ---- a bound that is set, or lowered, between two runs


def held_by(trigger: KeyTrigger, op: str) -> tuple[Case, list[list[int]]]:
    """Seven events of a key that stay in its window, and how they fire where no more than three may be in one."""
    steps = [Arrives(place, ("a", 1), op) for place in range(7)]
    return Case(trigger, tuple(steps)), [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize(
    ("trigger", "op"),
    [
        (RuleTrigger(rule, Duration(DAY)), "note:continue"),
        (CountTrigger(Count(50), Duration(DAY)), ""),
        (DailyTrigger(DayTime(DAY // 2)), ""),
        (DailyTrigger(DayTime(DAY // 2), 3), ""),
        (DailyByRule(time_rule), "720@UTC"),
        (DailyByRule(time_rule, 3), "720@UTC"),
    ],
)
def test_a_window_above_a_new_bound_fires_in_parts(trigger: KeyTrigger, op: str, later: bool) -> None:
    """As if it had been there when the events came, at the next batch, whether an event comes for the key or not."""
    case, parts = held_by(trigger, op)
    checkpoint = MemoryCheckpoint()
    rows = tuple(enumerate(case.steps))
    LOG.clear()
    MicroBatch(build(case), checkpoint, InProcessExecutor()).run(BatchPlan(0, TimeAdvance(7), [Piece(rows)]))  # type: ignore[arg-type]
    by_count = isinstance(trigger, CountTrigger)
    size = 8 + 1 + 8 + len(op)
    bounded = replace(case, capacity=Capacity(None, 3 * size) if by_count else Capacity(3))
    key = ("a", 1) if later else ("b", 1)
    more = Piece(((7, Arrives(8, key, op)),))
    found = Found()
    LOG.clear()
    step = MicroBatch(build(bounded), checkpoint, InProcessExecutor())
    report = step.run(BatchPlan(1, TimeAdvance(8), [more]))
    found.take()
    fired = found.calls.get("a", [])
    assert [(list(call.ids), str(call.by), call.end) for call in fired] == [  # type: ignore[union-attr]
        (parts[0], "full", 2),
        (parts[1], "full", 5),
    ]
    assert report.bolts["bolt"].counters == {"full": 2}
    assert sum(ref.needed for task in step.manifest.bolts["bolt"].tasks for ref in task.refs) == 2


# ---- what it costs


def one_key(sizes: list[int]) -> tuple[RetainedEvents, pa.Table]:
    payload = pa.table({"key": ["k"] * len(sizes), "text": ["x" * size for size in sizes]})
    return RetainedEvents(times=np.arange(len(sizes)), payload=payload, keys=np.zeros(len(sizes), np.int64)), payload


def always(said: FireResult) -> Any:
    def answer(event: Tuple, call: TriggerCall) -> FireResult:
        return said

    return answer


def fired_of(windows: TriggeredWindows) -> Iterator[TupleWindow]:
    for window in windows.windows(1_000_000):
        assert isinstance(window, TupleWindow)
        yield window


def evaluated(trigger: KeyTrigger, sizes: list[int], capacity: Capacity) -> TriggeredWindows:
    held, _ = one_key(sizes)
    return TriggeredWindows(trigger, held, 0, KeyStates(None, ["key"]), key=["key"], capacity=capacity)


def test_far_from_the_bound_nothing_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    def measured(table: pa.Table) -> Any:
        raise AssertionError

    monkeypatch.setattr(triggered_windows, "byte_sizes", measured)
    windows = evaluated(CountTrigger(Count(2)), [100] * 50, Capacity(None, 10_000))
    assert len(list(fired_of(windows))) == 25
    with pytest.raises(AssertionError):
        evaluated(CountTrigger(Count(2)), [100] * 50, Capacity(None, 5_000))


def test_within_a_batch_no_call_has_more_than_the_bound() -> None:
    windows = evaluated(RuleTrigger(always(FireResult.CONTINUE)), [9] * 20_000, Capacity(7))
    found = [len(window) for window in fired_of(windows)]
    assert found == [7] * (20_000 // 7)
    windows = evaluated(RuleTrigger(always(FireResult.FIRE)), [9] * 2_000, Capacity(None, 45))
    assert max(sum(len(each) + 1 for each in w.table["text"].to_pylist()) for w in fired_of(windows)) <= 45


def test_windows_that_show_the_same_events_again_are_not_gathered_all_at_once() -> None:
    """20,000 bytes in each event, and 60,300 of them shown: more than a gigabyte, of which few are there at a time."""
    windows = evaluated(RuleTrigger(always(FireResult.FIRE)), [20_000] * 600, Capacity(200))
    before, most, shown = pa.total_allocated_bytes(), 0, 0
    for window in fired_of(windows):
        shown += len(window.table)
        most = max(most, pa.total_allocated_bytes() - before)
    assert shown == 3 * 200 * 201 // 2
    assert most < 400 << 20


def test_a_long_run_of_one_key_with_crashes() -> None:
    """The bound holds at the same events however batches are cut."""
    steps: list[Arrives | Ends] = []
    for place in range(60):
        steps.append(Arrives(place, ("a", 1), "fire" if place % 5 == 0 else "continue", place % len(SPOUTS)))
        if place % 7 == 0:
            steps.append(Ends(place, ("restart", "ingest", "fire", "commit")[place // 7 % 4]))
    case = Case(RuleTrigger(rule), (*steps, Ends(60, close=True)), capacity=Capacity(9, 300))
    assert {call.by for call in run(case).calls["a"]} == {"full", "rule", "close"}  # type: ignore[union-attr]
