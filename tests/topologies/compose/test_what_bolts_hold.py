"""What a bolt may hold: each task has a copy of its bolt, and on Spark the bolt is sent to other processes."""

from __future__ import annotations

import sqlite3
import sys
import threading
from copy import copy
from datetime import UTC, datetime
from functools import lru_cache, partial
from typing import Any, ClassVar

import pytest

from topologies.spark.spark_tasks import pack_topology
from windbolt import TopologyBuilder, spouts
from windbolt.testing import prepared, run_bolt
from windowing import (
    Bolt,
    ConfigError,
    StatefulBolt,
    StatefulWindowedBolt,
    TaskContext,
    Tuple,
    TupleWindow,
    WindboltError,
    WindowedBolt,
)
from windowing.errors import TopologyError

LOCK = threading.Lock()


class Holds(WindowedBolt):
    outputs = "n long"

    def __init__(self, held: Any) -> None:
        self.name, self.held = "plain", held

    def execute(self, window: TupleWindow) -> Any:
        return (len(window),)


class HoldsByTuple(Bolt):
    outputs = "ts timestamp"

    def __init__(self, held: Any) -> None:
        self.held = held

    def execute(self, event: Tuple) -> Any:
        return (event["ts"],)


class Ends:
    """Ends the program where it is copied."""

    def __deepcopy__(self, memo: Any) -> Any:
        sys.exit("not here")


@pytest.mark.parametrize(
    "held",
    [
        pytest.param(LOCK, id="lock"),
        pytest.param(Ends(), id="what ends the program"),
        pytest.param((line for line in [1]), id="generator"),
        pytest.param(sqlite3.connect(":memory:"), id="connection"),
        pytest.param(threading, id="module"),
        pytest.param({"within": [LOCK]}, id="within"),
    ],
)
def test_a_bolt_that_holds_what_cannot_be_copied_is_refused_with_the_attribute(held: Any) -> None:
    """Each task has a copy: the first window would fail, or the first event."""
    builder = TopologyBuilder("held")
    builder.set_spout("events", spouts.memory("ts timestamp"))
    builder.set_bolt("tuples", HoldsByTuple(held)).shuffle_grouping("events")
    windowed = Holds(held).with_tumbling_window("1m").with_timestamp_field("ts")
    builder.set_bolt("windows", windowed).global_grouping("events")
    with pytest.raises(TopologyError) as caught:
        builder.build()
    text = str(caught.value)
    assert "bolt 'tuples': HoldsByTuple holds in self.held what cannot be copied" in text
    assert "bolt 'windows': Holds holds in self.held what cannot be copied" in text
    assert "prepare()" in text
    with pytest.raises(ConfigError, match=r"Holds holds in self\.held what cannot be copied"):
        prepared(Holds(held))


def test_so_is_what_its_settings_hold() -> None:
    class Extractor:
        def __init__(self) -> None:
            self.lock = threading.Lock()

        def __call__(self, event: Tuple) -> Any:
            return event["ts"]

    builder = TopologyBuilder("held")
    builder.set_spout("events", spouts.memory("ts timestamp"))
    bolt = Holds(1).with_tumbling_window("1m").with_timestamp_extractor(Extractor())
    builder.set_bolt("windows", bolt).global_grouping("events")
    with pytest.raises(TopologyError, match="Holds holds in its setting timestamp_extractor what cannot be copied"):
        builder.build()


class Rules(StatefulWindowedBolt):
    """Holds its own methods in several ways."""

    outputs = "n long"
    state_types: ClassVar[Any] = {"windows": int}

    def __init__(self) -> None:
        self.factor = 1
        self.rule = self.times
        self.by_name: dict[str, list[Any]] = {"rules": [self.times, partial(self.times)]}
        self.table = [0]
        self.beside = Beside(self, self.table)

    def prepare(self, context: TaskContext) -> None:
        self.factor = 100
        self.table[0] = 1000

    def times(self, count: int) -> int:
        self.state["windows"] += 1
        return count * self.factor + self.state["windows"]

    def execute(self, window: TupleWindow) -> Any:
        rules = [self.rule, *self.by_name["rules"], self.beside.rule]
        return [(rule(len(window)),) for rule in rules]


class Beside:
    def __init__(self, bolt: Rules, table: list[int]) -> None:
        self.bolt, self.table = bolt, table

    def rule(self, count: int) -> int:
        return self.bolt.times(count) + self.table[0]


ROWS = [(datetime(2024, 1, 1, 0, minute, tzinfo=UTC),) for minute in range(2)]


def windows(bolt: Any) -> Any:
    return bolt.with_tumbling_window("1m").with_timestamp_field("ts").with_alignment(bounds="[start, end)")


def test_a_bolt_that_holds_its_own_methods_has_those_of_its_task() -> None:
    """Each setting makes a copy, and so does each task: the methods were those of the bolt that was made first."""
    rows = run_bolt(windows(Rules()), ROWS, "ts timestamp").rows
    assert [row["n"] for row in rows] == [101, 102, 103, 1104, 105, 106, 107, 1108]


def test_so_has_one_that_is_copied_for_its_inputs() -> None:
    class Bound(Rules):
        def for_inputs(self, inputs: Any) -> Any:
            return copy(self)

    rows = run_bolt(windows(Bound()), ROWS, "ts timestamp").rows
    assert [row["n"] for row in rows] == [101, 102, 103, 1104, 105, 106, 107, 1108]


class Clocked(StatefulBolt):
    outputs = "n long"
    state_types: ClassVar[Any] = {"events": int}

    def __init__(self) -> None:
        self.rule = self.count

    def count(self) -> int:
        self.state["events"] += 1
        return self.state["events"]

    def execute(self, tuple: Tuple) -> Any:
        return (self.rule(),)

    def on_clock(self, clock: datetime) -> Any:
        return (self.rule(),)


def test_so_has_one_with_a_clock() -> None:
    assert [row["n"] for row in run_bolt(Clocked().with_clock("1m"), ROWS, "ts timestamp").rows] == [1, 2]


@pytest.mark.parametrize(
    "hold",
    [
        pytest.param(lambda bolt: lambda: bolt.name, id="lambda"),
        pytest.param(lambda bolt: lru_cache(bolt.execute), id="cache"),
        pytest.param(lambda bolt: {"within": [partial(lambda: bolt.name)]}, id="within"),
    ],
)
def test_a_function_that_names_its_bolt_is_refused_with_the_attribute(hold: Any) -> None:
    """Copies of functions are the functions themselves: it would go on using the first bolt."""
    held, by_tuple = Holds(None), HoldsByTuple(None)
    held.held, by_tuple.held = hold(held), hold(by_tuple)
    with pytest.raises(ConfigError, match=r"Holds holds in self\.held a function that refers to the Holds itself"):
        held.with_tumbling_window("1m")
    builder = TopologyBuilder("held")
    builder.set_spout("events", spouts.memory("ts timestamp"))
    builder.set_bolt("tuples", by_tuple).shuffle_grouping("events")
    with pytest.raises(TopologyError, match=r"HoldsByTuple holds in self\.held a function that refers to"):
        builder.build()


class Model:
    """Counts its copies."""

    copies = 0

    def __deepcopy__(self, memo: Any) -> Model:
        Model.copies += 1
        return Model()


def test_a_large_model_is_copied_once() -> None:
    """And not again by ``build()``: a bolt stays as it was when it was set."""
    builder, held, Model.copies = TopologyBuilder("held"), Holds(Model()), 0
    builder.set_spout("events", spouts.memory("ts timestamp"))
    bolt = held.with_tumbling_window("1m").with_timestamp_field("ts")
    assert Model.copies == 0
    builder.set_bolt("windows", bolt).global_grouping("events")
    held.name = bolt.name = "changed"
    topology = builder.build()
    assert Model.copies == 1
    kept: Any = topology.windowed["windows"].bolt
    assert (kept.name, kept.held is held.held) == ("plain", False)


def test_what_a_bolt_holds_of_its_inputs_is_looked_at_too() -> None:
    class HoldsInputs(HoldsByTuple):
        def for_inputs(self, inputs: Any) -> Any:
            return HoldsInputs(threading.Lock())

    builder = TopologyBuilder("held")
    builder.set_spout("events", spouts.memory("ts timestamp"))
    builder.set_bolt("tuples", HoldsInputs(None)).shuffle_grouping("events")
    with pytest.raises(TopologyError, match=r"HoldsInputs holds in self\.held what cannot be copied"):
        builder.build()


def test_a_function_that_names_a_lock_cannot_be_sent_and_its_attribute_is_told() -> None:
    """Copies of functions are the functions themselves, so only Spark minds."""
    lock = threading.Lock()
    builder = TopologyBuilder("held")
    builder.set_spout("events", spouts.memory("ts timestamp"))
    bolt = Holds(lambda: lock).with_tumbling_window("1m").with_timestamp_field("ts")
    builder.set_bolt("windows", bolt).global_grouping("events")
    with pytest.raises(WindboltError, match=r"Holds holds in self\.held what cannot be sent"):
        pack_topology(builder.build())
