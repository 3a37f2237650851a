"""What the driver hands to sinks, and what it prints."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.kafka import local_tools
from tests.spark.shop import SCHEMA, at
from tests.spark.tools import drafts, file_rows, in_order, published, run
from topologies.io.sinks import Sink
from windbolt import TopologyBuilder, sinks, spouts
from windowing.errors import ConfigError, SinkError

pytestmark = pytest.mark.usefixtures("spark")
BATCHES: list[list[tuple[Any, ...]]] = [[("a", 1.0, at(1)), ("b", 2.0, None)], [], [("c", None, at(3))]]
ROWS = [dict(zip(("user", "amount", "ts"), row, strict=True)) for batch in BATCHES for row in batch]


def deliver(checkpoint: Path, **out: Sink) -> None:
    builder = TopologyBuilder("plain")
    builder.set_spout("orders", spouts.memory(SCHEMA, *BATCHES))
    for name, sink in out.items():
        builder.set_sink(name, sink).from_("orders")
    run(builder.build(), checkpoint)


def test_functions_get_each_batch_in_the_shape_they_ask_for(spark: SparkSession, tmp_path: Path) -> None:
    got: dict[str, list[Any]] = {"spark": [], "arrow": [], "pandas": []}
    lock = threading.Lock()  # what a function holds may stay with the driver

    def with_spark(frame: Any, batch: int) -> None:
        with lock:
            assert frame.count() == len(frame.collect())  # two actions
            assert frame.sparkSession.version == spark.version
            users = [row["user"] for row in frame.orderBy("user").collect()]
            got["spark"].append((batch, frame.schema.simpleString(), users))

    deliver(
        tmp_path / "checkpoint",
        spark=sinks.foreach_batch(with_spark),
        arrow=sinks.foreach_batch(lambda table, batch: got["arrow"].append((batch, table.to_pylist())), "arrow"),
        pandas=sinks.foreach_batch(lambda frame, batch: got["pandas"].append((batch, list(frame["user"]))), "pandas"),
        discard=sinks.discard(),
    )
    kind = "struct<user:string,amount:double,ts:timestamp>"
    assert got["spark"] == [(0, kind, ["a", "b"]), (4, kind, ["c"])]
    assert got["arrow"] == [(0, ROWS[:2]), (4, ROWS[2:])]
    assert got["pandas"] == [(0, ["a", "b"]), (4, ["c"])]


def test_the_console_shows_each_batch(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    deliver(tmp_path / "checkpoint", console=sinks.console(1))
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == "-- console, batch 0: 2 rows, the first 1"
    assert shown[1].startswith("   user=a  amount=1.0  ts=2024-05-01T12:00:01")
    assert shown[2] == "-- console, batch 2: 1 row"
    assert len(shown) == 4


def test_files_and_memory_hold_every_row_once(tmp_path: Path) -> None:
    memory = sinks.memory()
    deliver(tmp_path / "checkpoint", memory=memory, parquet=sinks.files(tmp_path / "out"))
    assert in_order(memory.rows) == in_order(ROWS) == file_rows(tmp_path / "out")
    assert published(tmp_path / "out") == ["batch-0000000000-0000.parquet", "batch-0000000002-0000.parquet"]
    assert drafts(tmp_path / "out") == []


def test_a_sink_in_memory_has_the_rows_of_one_checkpoint(tmp_path: Path) -> None:
    """On either engine: rows of another checkpoint stood for those of the first batches."""
    builder, memory = TopologyBuilder("plain"), sinks.memory()
    builder.set_spout("numbers", spouts.files(tmp_path / "in", "n long", format="csv"))
    builder.set_sink("memory", memory).from_("numbers")
    topology = builder.build()

    def told(number: int, checkpoint: str, engine: Any) -> list[int]:
        (tmp_path / "in").mkdir(exist_ok=True)
        (tmp_path / f"in/{number}.csv").write_text(f"n\n{number}\n")
        engine(topology, tmp_path / checkpoint)
        return sorted(row["n"] for row in memory.rows)

    assert told(0, "one", run) == [0]
    assert told(1, "one", local_tools.run) == [0, 1]
    assert told(2, "another", run) == [0, 1, 2]
    assert told(3, "one", run) == [2, 3]
    assert told(4, "one", local_tools.run) == [2, 3, 4]


def test_the_files_of_another_run_are_refused(tmp_path: Path) -> None:
    deliver(tmp_path / "one", out=sinks.files(tmp_path / "out"))
    with pytest.raises(ConfigError, match="files of another run"):
        deliver(tmp_path / "two", out=sinks.files(tmp_path / "out"))


def test_a_function_that_ends_the_process_ends_the_query(tmp_path: Path) -> None:
    def leave(table: Any, batch: int) -> None:
        raise SystemExit(3)

    with pytest.raises(SinkError, match="SystemExit: 3 at "):
        deliver(tmp_path / "checkpoint", out=sinks.foreach_batch(leave, "arrow"))
