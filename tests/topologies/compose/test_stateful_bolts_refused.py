"""A bolt without windows refuses what would change nothing or go wrong slowly, when it is written or built."""

from __future__ import annotations

import re
from typing import Any, ClassVar

import pytest

from windbolt import TopologyBuilder, spouts
from windowing import AggregateBolt, StatefulBatchBolt, StatefulBolt, Tuple, aggregates
from windowing.errors import ConfigError, TopologyError


class Counts(StatefulBolt):
    outputs: ClassVar[Any] = "n long"
    state_types: ClassVar[Any] = {"n": int}

    def execute(self, tuple: Tuple) -> Any:
        """How many."""
        self.state["n"] += 1
        return (self.state["n"],)


class Hears(Counts):
    def on_clock(self, clock: Any) -> Any:
        """How many."""
        return (self.state["n"],)


@pytest.mark.parametrize("every", ["0s", "soon", -3])
def test_an_interval_of_the_clock_is_above_zero(every: Any) -> None:
    with pytest.raises(ConfigError):
        Hears().with_clock(every)


def test_it_says_how_it_was_made() -> None:
    assert (
        repr(Hears().with_key("user", "day").with_clock("90s")) == "Hears().with_key('user', 'day').with_clock('90s')"
    )
    assert repr(Counts()) == "Counts()"


def mistakes(bolt: Any, tasks: int = 1, *, behind: bool = False, shuffled: bool = False) -> str:
    builder = TopologyBuilder("refused")
    builder.set_spout("events", spouts.memory("user string, _state long, ts timestamp"))
    source = "events"
    if behind:
        sums = AggregateBolt(by=["user"], n=aggregates.count()).with_tumbling_window("10s").with_timestamp_field("ts")
        builder.set_bolt("sums", sums).global_grouping("events")
        source = "sums"
    declared = builder.set_bolt("b", bolt, tasks)
    if shuffled:
        declared.shuffle_grouping(source)
    else:
        declared.fields_grouping(source, "user")
    with pytest.raises(TopologyError) as raised:
        builder.build()
    return str(raised.value)


class Misspelled(StatefulBatchBolt):
    outputs: ClassVar[Any] = "n long"
    state_types: ClassVar[Any] = {"n": int}

    def excute(self, batch: Any) -> Any:
        """Never called."""


class OfErrors(Counts):
    on_error: ClassVar[Any] = "errors"


class OfKeys(Counts):
    state_keys: ClassVar[Any] = {"n": "user"}


class Moves(Counts):
    def move_state(self, states: Any, task_of: Any, tasks: Any) -> Any:
        """Never called."""


class AtTheSameTime(Counts):
    parallel_windows: ClassVar[bool] = True


class Strange(Counts):
    state_types: ClassVar[Any] = {"n": set}


class NoMapping(Counts):
    state_types: ClassVar[Any] = "n long"


class Numbered(Counts):
    state_types: ClassVar[Any] = {1: int}


class HearsNothing(Counts):
    def on_clock(self) -> Any:  # type: ignore[override]
        """Never called."""


class HearsMore(Counts):
    def on_clock(self, clock: Any, key: Any) -> Any:  # type: ignore[override]
        """Never called."""


@pytest.mark.parametrize(
    ("bolt", "place", "words"),
    [
        (Hears(), {}, "has on_clock, and is not told how often to call it"),
        (Counts().with_clock("1s"), {}, "with_clock('1s') on a bolt without on_clock"),
        (Hears().with_clock("1s"), {"behind": True}, "with_clock('1s') behind a windowed bolt with event times"),
        (Misspelled(), {}, "has a method 'excute'; did you mean 'execute'?"),
        (OfErrors(), {}, "has on_error='errors'. an event on which it fails may have changed its state already"),
        (OfKeys().with_key("user"), {}, "has a key and state_keys. with a key there is a state for each key"),
        (Moves().with_key("user"), {}, "has a key and move_state"),
        (Counts().with_key("user", "_state"), {}, "has a key with the columns ['_state']"),
        (Counts().with_key("name"), {}, "names 'name'"),
        (Counts().with_key("user"), {"tasks": 2, "shuffled": True}, "'user'"),
        (AtTheSameTime(), {}, "parallel_windows"),
        (Strange(), {}, "state 'n' is declared set"),
        (NoMapping(), {}, "state_types is 'n long'. it is the type of each state by its name"),
        (Numbered(), {}, "state_types is {1: <class 'int'>}"),
        (HearsNothing().with_clock("1h"), {}, "on_clock cannot be called with one argument, the clock"),
        (HearsMore().with_clock("1h"), {}, "define on_clock(self, clock)"),
    ],
)
def test_build_says_what_is_wrong(bolt: Any, place: dict[str, Any], words: str) -> None:
    found = mistakes(bolt, **place)
    assert re.search(re.escape(words), found), found
    assert "1 problem:" in found, found
