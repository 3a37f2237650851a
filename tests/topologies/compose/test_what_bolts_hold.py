"""What a bolt may hold: each task has a copy of its bolt, and on Spark the bolt is sent to other processes."""

from __future__ import annotations

import sqlite3
import sys
import threading
from typing import Any

import pytest

from topologies.spark.spark_tasks import packed
from windbolt import TopologyBuilder, spouts
from windbolt.testing import prepared
from windowing import Bolt, ConfigError, Tuple, TupleWindow, WindboltError, WindowedBolt
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
        packed(builder.build())
