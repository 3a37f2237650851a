"""Watermarks at events behind bolts whose tasks change the order of events are warned of: late there is what is not
late without them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from topologies.checkpoints.preflight import reordering_warnings
from topologies.io.sinks import MemorySink
from topologies.topology import Topology
from windbolt import TopologyBuilder, run_local, sinks, spouts
from windowing import Bolt, StatefulBatchBolt, StatefulBolt, WindowedBolt
from windowing.events import Tuple
from windowing.schema import parse_schema

COLUMNS = "user string, ts timestamp"
BEGIN = datetime(2024, 5, 1, 6, tzinfo=UTC)
USERS = ("ann", "bob", "eve", "joe")
EVENTS = [{"user": USERS[each % 4], "ts": BEGIN + timedelta(milliseconds=250 * each)} for each in range(120)]


class Passed(StatefulBolt):
    outputs = COLUMNS
    state_types: ClassVar = {"seen": int}

    def execute(self, tuple: Tuple) -> Any:
        self.state["seen"] += 1
        return tuple["user"], tuple["ts"]


class Tables(StatefulBatchBolt):
    outputs = COLUMNS

    def execute(self, batch: pa.Table) -> Any:
        return batch


class Plain(Bolt):
    outputs = COLUMNS

    def execute(self, tuple: Tuple) -> Any:
        yield tuple["user"], tuple["ts"]


class Count(WindowedBolt):
    outputs = "number long"

    def execute(self, window: Any) -> Any:
        return (len(window),)


def topology(first: Any, tasks: int, *, every: Any = 1, between: bool = False) -> tuple[Topology, MemorySink]:
    builder, late = TopologyBuilder("reordered"), sinks.memory()
    builder.set_spout("in", spouts.memory(COLUMNS, pa.Table.from_pylist(EVENTS, parse_schema(COLUMNS))))
    builder.set_bolt("first", first, parallelism=tasks).fields_grouping("in", "user")
    if between:
        builder.set_bolt("plain", Plain()).shuffle_grouping("first")
    bolt = Count().with_tumbling_window("1s").with_timestamp_field("ts").with_late_tuple_stream("late")
    bolt = bolt if every is None else bolt.with_watermark(every=every)
    builder.set_bolt("count", bolt).global_grouping("plain" if between else "first")
    builder.set_sink("late", late).from_("count", "late")
    return builder.build(), late


@pytest.mark.parametrize(
    ("first", "tasks", "told"),
    [
        (Passed().with_key("user"), 2, "of 2 tasks the rows of one come before those of the next"),
        (Tables().with_key("user"), 1, "called with the events of one key after those of another"),
    ],
)
@pytest.mark.parametrize("between", [False, True])
def test_events_that_become_late_are_warned_of(first: Any, tasks: int, told: str, between: bool) -> None:
    built, late = topology(first, tasks, between=between)
    (warning,) = reordering_warnings(built)["count"].warnings
    assert "gets them from 'first', which changes their order" in str(warning)
    assert told in str(warning)
    run_local(built)
    assert late.rows


@pytest.mark.parametrize(
    ("first", "tasks", "every"),
    [(Passed().with_key("user"), 1, 1), (Tables(), 1, 1), (Passed().with_key("user"), 2, None)],
)
def test_what_keeps_its_order_or_needs_none_is_not(first: Any, tasks: int, every: Any) -> None:
    built, late = topology(first, tasks, every=every)
    assert reordering_warnings(built) == {}
    run_local(built)
    assert late.rows == []
