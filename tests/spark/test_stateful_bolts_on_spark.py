"""Bolts without windows that keep state, on Spark: the rows of a local run, in order, also where a run dies."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.oracles.stateful_loop import COLUMNS, Kept, KeptOfTables, Row
from tests.spark.tools import at_phase, run, run_until
from topologies.checkpoints.state_tables import read
from topologies.topology import Topology
from windbolt import RunOptions, TopologyBuilder, replay, run_local, sinks, spouts
from windowing import AggregateBolt, StatefulBolt, aggregates

pytestmark = pytest.mark.usefixtures("spark")

EXAMPLE = Path(__file__).parents[2] / "topologies/examples/stateful/balances.yaml"


class Behind(KeptOfTables):
    """Of windows, whose time the clock is not."""

    on_clock = StatefulBolt.on_clock


def shop(folder: Path, out: Path, bolt: StatefulBolt, tasks: int) -> Topology:
    """Events, a bolt that keeps state, and one of the other form behind windows."""
    builder = TopologyBuilder("shop")
    builder.set_spout("events", spouts.files(f"{folder}/*.jsonl", f"{COLUMNS}, ts timestamp", files_per_batch=1))
    kept = bolt.with_key("user") if tasks > 1 else bolt
    declared = builder.set_bolt("kept", kept, tasks)
    (declared.fields_grouping if tasks > 1 else declared.global_grouping)("events")
    sums = AggregateBolt(by=["user"], id=aggregates.min("id"), amount=aggregates.sum("amount"))
    builder.set_bolt("sums", sums.with_tumbling_window("10s").with_timestamp_field("ts")).global_grouping("events")
    builder.set_bolt("behind", Behind().with_key("user"), 2).fields_grouping("sums")
    last = AggregateBolt(n=aggregates.count(), total=aggregates.sum("total")).with_tumbling_window("20s")
    builder.set_bolt("last", last).global_grouping("behind")
    for name in ("kept", "behind", "last"):
        builder.set_sink(f"{name}_out", sinks.files(f"{out}/{name}")).from_(name)
    return builder.build()


def write(folder: Path) -> None:
    folder.mkdir()
    for number in range(4):
        ids = range(10 * number, 10 * number + 10)
        rows = [
            {"id": at, "user": "abc"[at % 3], "amount": at % 4, "ts": f"2024-01-01T00:00:{at + at % 2:02}Z"}
            for at in ids
        ]
        (folder / f"{number}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def rows_of(out: Path) -> dict[str, list[Row]]:
    return {
        each.name: [row for path in sorted(each.glob("*.parquet")) for row in pq.read_table(path).to_pylist()]
        for each in sorted(out.iterdir())
    }


def clock() -> Any:
    ticks: Iterator[int] = iter(range(1_700_000_000_000_000, 1_800_000_000_000_000, 7_000_000))
    return ticks.__next__


@pytest.mark.parametrize(("kind", "tasks"), [(Kept, 3), (KeptOfTables, 1)])
def test_rows_and_states_are_those_of_a_local_run(kind: type[StatefulBolt], tasks: int, tmp_path: Path) -> None:
    write(tmp_path / "in")
    states = []
    for engine in ("here", "there"):
        built = shop(tmp_path / "in", tmp_path / engine, kind().with_clock("10000d"), tasks)
        checkpoint = tmp_path / f"{engine} ck"
        if engine == "here":
            run_local(built, RunOptions(str(checkpoint), clock=clock()))
        else:
            run_until(built, checkpoint, at_phase(2, "commit"), clock=clock())
            run(built, checkpoint, clock=clock())
        states.append([read(str(checkpoint), bolt)["state"].to_pylist() for bolt in ("kept", "behind")])
    here, there = rows_of(tmp_path / "here"), rows_of(tmp_path / "there")
    assert there == here
    assert states[1] == states[0]
    assert (len(here["kept"]), len(here["last"])) == (40, 3)


def test_the_clock_is_heard_without_new_rows(tmp_path: Path) -> None:
    write(tmp_path / "in")
    ticks = clock()
    for _ in range(2):
        built = shop(tmp_path / "in", tmp_path / "out", Kept().with_clock("10s"), 3)
        run(built, tmp_path / "ck", clock=ticks)
    rows = rows_of(tmp_path / "out")["kept"]
    last = [row for row in rows if row["number"] < 0][-1]
    assert len([row for row in rows if row["number"] > 0]) == 40
    assert rows[-1] == last


def test_the_example_answers_its_scenario() -> None:
    answer = replay(EXAMPLE, engine="spark")
    assert answer.ok, answer.differences
