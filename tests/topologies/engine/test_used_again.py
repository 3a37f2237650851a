"""What code of users uses again: arrays, frames and lists that it fills anew for each call, and topologies."""

from __future__ import annotations

import math
import os
from collections import namedtuple
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from topologies.engine.fire import bolt_calls
from windbolt import (
    AggregateBolt,
    BatchBolt,
    BatchWindowedBolt,
    Bolt,
    RunOptions,
    Spout,
    StatefulBatchBolt,
    StatefulBolt,
    StatefulWindowedBolt,
    TopologyBuilder,
    WindowedBolt,
    aggregates,
    run_local,
    sinks,
    spouts,
)
from windbolt.testing import TopologyDriver, prepared, run_bolt
from windowing.errors import BoltError, ConfigError

BASE = datetime(2024, 1, 1, tzinfo=UTC)
ROWS = [(number % 2, float(number), BASE + timedelta(seconds=number)) for number in range(6)]
SCHEMA = "k long, v double, ts timestamp"


def seconds_of(bolt: Any) -> Any:
    return bolt.with_tumbling_window("2s").with_timestamp_field("ts").with_alignment(bounds="[start, end)")


class Array:
    """A table over an array."""

    def __init__(self) -> None:
        self.memory = np.zeros(1)

    def __call__(self, value: float) -> Any:
        self.memory[0] = value
        return pa.table({"x": self.memory})


class Batch(Array):
    """A record batch over an array."""

    def __call__(self, value: float) -> Any:
        self.memory[0] = value
        return pa.record_batch({"x": pa.array(self.memory)})


class Pieces(Array):
    """A table of two pieces, one of them over an array."""

    def __call__(self, value: float) -> Any:
        self.memory[0] = value
        return pa.table({"x": pa.chunked_array([pa.array([], pa.float64()), pa.array(self.memory)])})


class Frame(Array):
    """A DataFrame over an array."""

    def __call__(self, value: float) -> Any:
        self.memory[0] = value
        return pd.DataFrame({"x": self.memory}, copy=False)


class Row(Array):
    """A dict."""

    row: Any

    def __call__(self, value: float) -> Any:
        self.row = getattr(self, "row", {})
        self.row["x"] = value
        return self.row


class Rows(Array):
    """A list with a tuple."""

    def __call__(self, value: float) -> Any:
        self.row = getattr(self, "row", [])
        self.row[:] = [(value,)]
        return self.row


WAYS = [Array, Batch, Pieces, Frame, Row, Rows]


@pytest.mark.parametrize("way", WAYS)
def test_bolts_return_what_they_fill_anew(way: Callable[[], Callable[[float], Any]]) -> None:
    class PerWindow(WindowedBolt):
        outputs = "x double"

        def prepare(self, context: Any) -> None:
            self.made = way()

        def execute(self, window: Any) -> Any:
            return self.made(window.column("v").sum())

    class Yielded(PerWindow):
        def execute(self, window: Any) -> Any:
            yield self.made(window.column("v").sum())
            yield self.made(float(len(window)))

    class PerEvent(Bolt):
        outputs = "x double"

        def prepare(self, context: Any) -> None:
            self.made = way()

        def execute(self, tuple: Any) -> Any:
            return self.made(tuple["v"])

    class PerTable(BatchBolt):
        outputs = "x double"

        def prepare(self, context: Any) -> None:
            self.made = way()

        def execute(self, batch: Any) -> Any:
            for value in batch["v"].to_pylist():
                yield self.made(value)

    class PerKey(StatefulBatchBolt):
        outputs = "x double"

        def prepare(self, context: Any) -> None:
            self.made = way()

        def execute(self, batch: Any) -> Any:
            return self.made(float(sum(batch["v"].to_pylist())))

    expected: list[tuple[Any, list[float]]] = [
        (seconds_of(PerWindow()), [1.0, 5.0, 9.0]),
        (seconds_of(Yielded()), [1.0, 2.0, 5.0, 2.0, 9.0, 2.0]),
        (PerEvent(), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]),
        (PerTable(), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]),
        (PerKey().with_key("k"), [6.0, 9.0]),
    ]
    for bolt, values in expected:
        assert [row["x"] for row in run_bolt(bolt, ROWS, SCHEMA).rows] == values, type(bolt)


@pytest.mark.parametrize("nested", [False, True])
def test_dictionaries_are_filled_anew_too(nested: bool) -> None:
    encoded = pa.dictionary(pa.int8(), pa.float64())

    class PerWindow(WindowedBolt):
        outputs = pa.schema([("x", pa.struct([("y", encoded)]) if nested else encoded)])

        def prepare(self, context: Any) -> None:
            self.memory = np.zeros(1)

        def execute(self, window: Any) -> Any:
            self.memory[0] = window.column("v").sum()
            column = pa.DictionaryArray.from_arrays(pa.array([0], pa.int8()), pa.array(self.memory))
            return pa.table({"x": pa.StructArray.from_arrays([column], ["y"]) if nested else column})

    found = [row["x"] for row in run_bolt(seconds_of(PerWindow()), ROWS, SCHEMA).rows]
    assert [value["y"] if nested else value for value in found] == [1.0, 5.0, 9.0]


def test_many_windows_at_once_return_what_they_fill_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bolt_calls, "_WINDOWS_AT_ONCE", 2)

    class Sums(BatchWindowedBolt):
        outputs = "x double"

        def prepare(self, context: Any) -> None:
            self.memory = np.zeros(100)

        def execute_all(self, windows: Any) -> Any:
            count = len(windows)
            self.memory[:count] = [window.column("v").sum() for window in windows]
            return pa.table({"x": self.memory[:count]}), np.arange(count)

    found = run_bolt(seconds_of(Sums().with_key("k")), ROWS, SCHEMA).rows
    assert [row["x"] for row in found] == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


@pytest.mark.parametrize("way", WAYS)
def test_spouts_read_into_what_they_fill_anew(way: Callable[[], Callable[[float], Any]]) -> None:
    class Numbers(Spout):
        schema = "x double"

        def open(self) -> None:
            self.made = way()

        def read(self, offset: Any, limit: int) -> Any:
            number = offset or 0
            return (self.made(float(number)), number + 1) if number < 4 else None

    class Same(Bolt):
        outputs = "x double"

        def execute(self, tuple: Any) -> Any:
            return (tuple["x"],)

    builder, out = TopologyBuilder("numbers"), sinks.memory()
    builder.set_spout("numbers", Numbers())
    builder.set_bolt("same", Same()).global_grouping("numbers")
    builder.set_sink("out", out).from_("same")
    run_local(builder.build())
    assert [row["x"] for row in out.rows] == [0.0, 1.0, 2.0, 3.0]


@pytest.mark.parametrize(("zone", "filled"), [(None, {}), ("UTC", {}), (None, {"x": 5}), ("Europe/Berlin", {"x": 5})])
def test_a_spout_yields_dicts_that_it_fills_anew(zone: str | None, filled: dict[str, int]) -> None:
    """Also where their times are of a zone, and columns have defaults; and named tuples in an order of their own."""
    named = namedtuple("named", ["many", "x"])

    class Numbers(Spout):
        schema = "x long, many array<long>"
        timezone = zone
        defaults = filled

        def read(self, offset: Any, limit: int) -> Any:
            def rows() -> Iterator[Any]:
                row: dict[str, Any] = {"many": []}
                for number in range(2):
                    row["x"] = number
                    row["many"].append(number)
                    yield row
                    yield named(row["many"], number)

            return None if offset else (rows(), 1)

    class Same(Bolt):
        outputs = "x long, many array<long>"

        def execute(self, tuple: Any) -> Any:
            return tuple["x"], tuple["many"]

    builder, out = TopologyBuilder("numbers"), sinks.memory()
    builder.set_spout("numbers", Numbers())
    builder.set_bolt("same", Same()).global_grouping("numbers")
    builder.set_sink("out", out).from_("same")
    run_local(builder.build())
    assert [tuple(row.values()) for row in out.rows] == [(0, [0]), (0, [0]), (1, [0, 1]), (1, [0, 1])]


def test_a_generator_of_a_spout_counts_in_its_offset(tmp_path: Path) -> None:
    """The offset was stored before the rows were read, so the same rows came again without end."""

    asked = list[int]()

    class Lines(Spout):
        schema = "n long"

        def read(self, offset: Any, limit: int) -> Any:
            after = offset or {"n": 0}
            asked.append(after["n"])
            assert len(asked) < 10, "the same rows come again and again"

            def rows() -> Iterator[Any]:
                for _ in range(min(2, 5 - after["n"])):
                    after["n"] += 1
                    yield (after["n"],)

            return (rows(), after) if after["n"] < 5 else None

    for checkpoint in (None, str(tmp_path / "checkpoint")):
        asked.clear()
        builder, out = TopologyBuilder("lines"), sinks.memory()
        builder.set_spout("lines", Lines())
        builder.set_sink("out", out).from_("lines")
        run_local(builder.build(), RunOptions(checkpoint))
        assert [row["n"] for row in out.rows] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(("most", "rows_per_batch"), [(6, 2), (1, None)])
def test_an_extractor_returns_times_that_it_fills_anew(most: int, rows_per_batch: int | None) -> None:
    """Of one batch after the other; and of events one by one, since it fails on more."""
    memory = np.zeros(len(ROWS), "datetime64[us]")

    def times(table: Any) -> Any:
        if len(table) > most:
            raise ValueError("too many")
        memory[: len(table)] = table["ts"].to_numpy().astype("datetime64[us]")
        return memory[: len(table)]

    class Sum(WindowedBolt):
        outputs = "v double"

        def execute(self, window: Any) -> Any:
            return (window.column("v").sum(),)

    bolt = Sum().with_tumbling_window("2s").with_alignment(bounds="[start, end)")
    bolt = bolt.with_timestamp_extractor(times, columns=True, on_error="errors")
    assert [row["v"] for row in run_bolt(bolt, ROWS, SCHEMA, rows_per_batch=rows_per_batch).rows] == [1.0, 5.0, 9.0]


def test_functions_of_an_aggregate_return_lists_that_they_fill_anew() -> None:
    folded, merged, finished = [0.0], [0.0], [0.0]

    def put(memory: list[float], value: float) -> list[float]:
        memory[0] = value
        return memory

    bolt = AggregateBolt(
        "k",
        x=aggregates.combine(
            "v",
            fold=lambda values: put(folded, float(values.sum())),
            merge=lambda states: put(merged, sum(value for (value,) in states)),
            finish=lambda state: put(finished, state[0]),
            state="array<double>",
            result="array<double>",
        ),
    )
    bolt = bolt.with_window("4s", "2s").with_timestamp_field("ts").with_alignment(bounds="[start, end)")
    rows = run_bolt(bolt, ROWS, SCHEMA, rows_per_batch=3).rows
    assert [(row["k"], row["x"]) for row in rows] == [
        (0, [0.0]), (1, [1.0]), (0, [2.0]), (1, [4.0]), (0, [6.0]), (1, [8.0]), (0, [4.0]), (1, [5.0]),
    ]  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_a_test_pushes_what_it_fills_anew(way: Callable[[], Callable[[float], Any]]) -> None:
    class Sum(WindowedBolt):
        outputs = "sum double"

        def execute(self, window: Any) -> Any:
            return (window.column("x").sum(),)

    builder, made = TopologyBuilder("sums"), way()
    builder.set_spout("numbers", spouts.memory("x double"))
    builder.set_bolt("sums", Sum().with_tumbling_window(3)).global_grouping("numbers")
    driver = TopologyDriver(builder.build(), clock=BASE)
    for number in range(3):
        driver.push("numbers", made(2.0**number))
    assert driver.read("sums") == [{"sum": 7.0}]


def test_tables_of_states_are_those_of_each_key() -> None:
    class Last(StatefulBatchBolt):
        outputs = "k long, x double"
        state_types: ClassVar[Any] = {"last": "x double"}

        def prepare(self, context: Any) -> None:
            self.memory = np.zeros(1)

        def execute(self, batch: Any) -> Any:
            told = [
                (self.key["k"] if isinstance(self.key, dict) else batch["k"][0].as_py(), x)
                for x in self.state["last"]["x"].to_pylist()
            ]
            self.memory[0] = batch["v"][-1].as_py()
            self.state["last"] = pa.table({"x": self.memory})
            return told

    bolt = Last().with_key("k")
    assert run_bolt(bolt, ROWS[:4], SCHEMA, rows_per_batch=2).rows == [{"k": 0, "x": 0.0}, {"k": 1, "x": 1.0}]


FIRST: dict[str, Any] = {"seen": []}


@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_first_state_is_as_it_was_when_it_is_asked_for_again(parallelism: int) -> None:
    """A dict of the module was that of all tasks of a process, and of its next run."""

    class Seen(StatefulWindowedBolt):
        outputs = "k long, seen long"
        state_types: ClassVar[Any] = {"seen": list}

        def initial_state(self) -> dict[str, Any]:
            return FIRST

        def execute(self, window: Any) -> Any:
            self.state["seen"].append(len(window))
            return int(window.column("k")[0]), len(self.state["seen"])

    builder, out = TopologyBuilder("seen"), sinks.memory()
    builder.set_spout("events", spouts.memory(SCHEMA, ROWS[::2], [(1, 0.0, BASE)]))
    builder.set_bolt("seen", seconds_of(Seen()), parallelism).fields_grouping("events", "k")
    builder.set_sink("out", out).from_("seen")
    topology = builder.build()
    for _ in range(2):
        run_local(topology)
        assert [row["seen"] for row in out.rows if row["k"] == 0] == [1, 2, 3]
    assert FIRST == {"seen": []}
    assert prepared(Seen()).state == FIRST
    assert prepared(Seen()).state["seen"] is not FIRST["seen"]


def test_a_list_within_the_states_of_two_keys_is_refused() -> None:
    class Seen(StatefulBolt):
        outputs = "k long"
        state_types: ClassVar[Any] = {"seen": dict}

        def prepare(self, context: Any) -> None:
            self.shared: list[float] = []

        def execute(self, tuple: Any) -> Any:
            self.state["seen"]["all"] = self.shared
            self.shared.append(tuple["v"])

    text = r"\(of key 1\)\['seen'\]\['all'\] is the same list as self.state \(of key 0\)\['seen'\]\['all'\]"
    with pytest.raises(BoltError, match=text):
        run_bolt(Seen().with_key("k"), ROWS, SCHEMA)


@pytest.mark.parametrize("rows_per_batch", [1, None])
@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("base", [StatefulBolt, StatefulBatchBolt])
def test_lists_of_states_are_those_of_each_key(base: Any, whole: bool, rows_per_batch: int | None) -> None:
    """Keys shared a list until the end of the batch, and then no more."""

    class Last(base):  # type: ignore[misc]
        outputs = "k long, last array<double>"
        state_types: ClassVar[Any] = {"last": list, "count": int}
        state: dict[str, Any]

        def prepare(self, context: Any) -> None:
            self.shared: list[float] = []
            self.all: dict[str, Any] = {"last": self.shared, "count": 0}

        def execute(self, given: Any) -> Any:
            values = given["v"].to_pylist() if base is StatefulBatchBolt else [given["v"]]
            before = list(self.state["last"])
            self.shared[:] = values[-1:]
            self.all["count"] += 1
            if whole:
                self.state = self.all
            else:
                self.state["last"] = self.shared
            return self.key, before

    rows = [(key, float(number), BASE) for number, key in enumerate([0, 1, 0, 1])]
    found = run_bolt(Last().with_key("k"), rows, SCHEMA, rows_per_batch=rows_per_batch).rows
    told = [(row["k"], row["last"]) for row in found]
    once = base is StatefulBatchBolt and rows_per_batch is None  # a call has all events of a key
    assert told == [(0, []), (1, [])] + ([] if once else [(0, [0.0]), (1, [1.0])])


def test_a_sink_in_memory_has_the_rows_of_the_last_run(tmp_path: Path) -> None:
    """A run without a checkpoint numbers its batches anew: batches of a longer run before would stand among them."""

    class Same(Bolt):
        outputs = "n long"

        def execute(self, tuple: Any) -> Any:
            return (tuple["n"],)

    for number in range(3):
        tmp_path.joinpath(f"{number}.jsonl").write_text(f'{{"n": {number}}}\n')
        os.utime(tmp_path / f"{number}.jsonl", (1_600_000_000 + number,) * 2)
    builder, out = TopologyBuilder("again"), sinks.memory()
    builder.set_spout("numbers", spouts.files(f"{tmp_path}/*.jsonl", "n long", files_per_batch=1))
    builder.set_bolt("same", Same()).global_grouping("numbers")
    builder.set_sink("out", out).from_("same")
    topology = builder.build()
    run_local(topology)
    assert [row["n"] for row in out.rows] == [0, 1, 2]
    tmp_path.joinpath("0.jsonl").unlink()
    run_local(topology)
    assert [row["n"] for row in out.rows] == [1, 2]


def test_a_sink_in_memory_keeps_what_is_of_the_checkpoint(tmp_path: Path) -> None:
    """Of runs one after the other; of another checkpoint there is nothing."""
    place = tmp_path / "in"
    place.mkdir()
    builder, out = TopologyBuilder("again"), sinks.memory()
    builder.set_spout("numbers", spouts.files(f"{place}/*.jsonl", "n long", files_per_batch=1))
    bolt = AggregateBolt("n", total=aggregates.count()).with_tumbling_window(1)
    builder.set_bolt("each", bolt).global_grouping("numbers")
    builder.set_sink("out", out).from_("each")
    topology = builder.build()
    for number in range(3):
        (place / f"{number}.jsonl").write_text(f'{{"n": {number}}}\n')
        run_local(topology, RunOptions(str(tmp_path / "first")))
        assert [row["n"] for row in out.rows] == list(range(number + 1))
    for number in range(2):
        (place / f"{number}.jsonl").unlink()
    run_local(topology, RunOptions(str(tmp_path / "second")))
    assert [row["n"] for row in out.rows] == [2]
    (place / "3.jsonl").write_text('{"n": 3}\n')
    (tmp_path / "moved").symlink_to(tmp_path / "first")
    run_local(topology, RunOptions(str(tmp_path / "first")))
    assert [row["n"] for row in out.rows] == [3], "the first rows of the second checkpoint stood for those of the first"
    (place / "4.jsonl").write_text('{"n": 4}\n')
    run_local(topology, RunOptions(str(tmp_path / "moved")))
    assert [row["n"] for row in out.rows] == [3, 4], "one checkpoint under two names"


def test_other_rows_in_memory_are_not_passed_over(tmp_path: Path) -> None:
    """A batch that an earlier run on the checkpoint had read was not read again, whatever its rows were."""
    out, options = sinks.memory(), RunOptions(str(tmp_path / "checkpoint"))

    def topology(*batches: Any) -> Any:
        builder = TopologyBuilder("days")
        builder.set_spout("numbers", spouts.memory("n long", *batches))
        builder.set_sink("out", out).from_("numbers")
        return builder.build()

    run_local(topology([(1,)]), options)
    with pytest.raises(ConfigError, match="spout 'numbers': batch 0 in memory has other rows than in an earlier run"):
        run_local(topology([(2,)]), options)
    run_local(topology([(1,)], [(2,)]), options)
    run_local(topology([(1,)]), options)
    assert [row["n"] for row in out.rows] == [1, 2]


def test_equal_rows_in_memory_may_come_as_another_table_or_with_another_column(tmp_path: Path) -> None:
    """NaN equals NaN, and where a value is null the memory may have any. With a new column other rows are refused, too;
    they were not read."""
    options = RunOptions(str(tmp_path / "checkpoint"))

    def run(schema: str, rows: Any) -> None:
        builder = TopologyBuilder("days")
        builder.set_spout("numbers", spouts.memory(schema, rows))
        bolt = AggregateBolt("x", total=aggregates.count()).with_tumbling_window(10)
        builder.set_bolt("each", bolt).global_grouping("numbers")
        builder.set_sink("out", sinks.memory()).from_("each")
        run_local(builder.build(), options)

    run("x double", [(float("nan"),), (None,), (1.0,)])
    behind_null = pc.if_else(
        pa.array([True, False, True]), pa.array([math.nan, 7.0, 1.0]), pa.scalar(None, pa.float64())
    )
    run("x double", pa.table({"x": behind_null}))
    run("x double, y long", [(float("nan"), 1), (None, None), (1.0, 2)])
    with pytest.raises(ConfigError, match="batch 0 in memory has other rows"):
        run("x double, y long, z long", [(float("nan"), 1, 1), (None, None, 1), (2.0, 2, 1)])


def test_rows_of_a_generator_are_there_in_each_run() -> None:
    """A second run had none, without a word; and one dict for all of them is each of them."""

    def numbers() -> Iterator[dict[str, Any]]:
        row: dict[str, Any] = {}
        for number in range(3):
            row["n"] = number
            yield row

    batches = [
        numbers(),
        pa.RecordBatchReader.from_batches(pa.schema([("n", pa.int64())]), [pa.record_batch({"n": [3]})]),
    ]
    builder, out = TopologyBuilder("again"), sinks.memory()
    builder.set_spout("numbers", spouts.memory("n long", *batches))
    builder.set_sink("out", out).from_("numbers")
    topology = builder.build()
    for _ in range(2):
        run_local(topology)
        assert [row["n"] for row in out.rows] == [0, 1, 2, 3]
