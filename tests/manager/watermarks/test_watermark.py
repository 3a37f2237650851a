"""The watermark generator on its own: streams, lag, interval, state."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manager import WaterMarkEventGenerator
from manager.watermarks import WatermarkState, shown_partition, source_in_words
from windowing import micros


def test_it_is_the_latest_time_minus_the_lag() -> None:
    generator = WaterMarkEventGenerator(lag=micros(5))
    generator.observe({"default": 20})
    assert generator.compute() == 15
    assert generator.watermark is None
    assert generator.tick() == 15
    assert generator.watermark == 15


def test_there_is_none_before_every_stream_has_delivered() -> None:
    generator = WaterMarkEventGenerator(["a", "b"])
    generator.observe({"a": 10})
    assert generator.tick() is None
    generator.observe({"b": 4})
    assert generator.tick() == 4


def test_without_streams_there_is_never_one() -> None:
    assert WaterMarkEventGenerator([]).tick() is None


def test_it_is_the_minimum_over_the_streams() -> None:
    generator = WaterMarkEventGenerator(["a", "b"])
    generator.observe({"a": 10, "b": 3})
    assert generator.tick() == 3
    generator.observe({"b": 30})
    assert generator.tick() == 10


def test_a_tick_that_brings_nothing_larger_emits_nothing() -> None:
    generator = WaterMarkEventGenerator()
    generator.observe({"default": 10})
    assert [generator.tick(), generator.tick()] == [10, None]
    generator.observe({"default": 9})
    assert generator.tick() is None
    generator.observe({"default": 11})
    assert generator.tick() == 11


def test_times_before_1970_are_as_good_as_any() -> None:
    generator = WaterMarkEventGenerator()
    generator.observe({"default": -40})
    assert generator.tick() == -40
    generator.observe({"default": -39})
    assert generator.tick() == -39


@pytest.mark.feature("ST-15")
def test_the_interval_is_measured_on_the_clock_from_tick_to_tick() -> None:
    generator = WaterMarkEventGenerator(interval=micros(10))
    emitted = []
    for moment in range(0, 40, 4):
        generator.observe({"default": moment})
        emitted.append(generator.tick(clock=moment))
    assert emitted == [0, None, None, 12, None, None, 24, None, None, 36]


def test_a_tick_without_a_clock_always_counts() -> None:
    generator = WaterMarkEventGenerator(interval=micros(10))
    generator.observe({"default": 1})
    assert generator.tick() == 1
    generator.observe({"default": 2})
    assert generator.tick() == 2


def test_an_unknown_stream_is_refused() -> None:
    with pytest.raises(KeyError, match="'c'"):
        WaterMarkEventGenerator(["a", "b"]).observe({"c": 1})


def test_the_state_goes_through_json() -> None:
    generator = WaterMarkEventGenerator(["a", "b"], interval=micros(10))
    generator.observe({"a": 10, "b": 3})
    generator.tick(clock=7)
    state = WatermarkState.from_json(json.loads(json.dumps(generator.state.to_json())))
    again = WaterMarkEventGenerator(["a", "b"], interval=micros(10), state=state)
    assert again.watermark == 3
    again.observe({"b": 30})
    assert again.tick(clock=16) is None
    assert again.tick(clock=17) == 10


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(-100, 100), st.booleans())), st.integers(0, 30))
def test_it_never_goes_back(moves: list[tuple[str, int, bool]], lag: int) -> None:
    generator = WaterMarkEventGenerator(["a", "b"], micros(lag))
    seen: dict[str, int] = {}
    marks: list[int] = []
    for stream, moment, tick in moves:
        generator.observe({stream: moment})
        seen[stream] = max(moment, seen.get(stream, moment))
        if tick and (mark := generator.tick()) is not None:
            marks.append(mark)
            assert mark == min(seen.values()) - lag
            assert len(seen) == 2
    assert marks == sorted(set(marks))


@pytest.mark.parametrize(
    ("source", "partition", "words"),
    [
        ("orders", "", "orders"),
        ("orders\tn", "n", "orders/n"),
        ("orders\torders\torders/3", "orders/3", "orders/orders/3"),
        ("plain\torders\torders/3", "orders/orders/3", "plain/orders/orders/3"),
        ("orders\t\0", "null", "orders/null"),
        ("orders\tnull", "'null'", "orders/'null'"),
        ("orders\t'null'", "''null''", "orders/''null''"),
        ("orders\t", "''", "orders/''"),
    ],
)
def test_a_partition_has_the_name_that_users_know(source: str, partition: str, words: str) -> None:
    """Of a source's partition without the spout, where that is the input itself; null where an event has none. No two
    have one name."""
    assert (shown_partition(source), source_in_words(source)) == (partition, words)
