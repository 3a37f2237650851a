"""Bolts with rules of time of other systems, on real files, with a crash in every phase of every few batches."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from manager.storage.checkpoint import FileCheckpoint
from manager.storage.manifest import batch_key
from tests.helpers.examples import sampled
from topologies.engine.batch import BatchPlan, InProcessExecutor, TimeAdvance
from topologies.engine.micro_batch import MicroBatch
from topologies.engine.source_splits import TableSource
from topologies.topology import Topology
from windbolt import TopologyBuilder, sinks, spouts
from windowing import StatefulWindowedBolt, TupleWindow, WindowedBolt, presets
from windowing.schema import EmittedRows
from windowing.settings.kinds import Session, SlidingLog, Snapshot
from windowing.settings.panes import Panes, after_clock, after_count

COLUMNS = "id long, user string, ts long, at long, until long"
BATCHES, SIZE, USERS = 45, 12, 5
PHASES = ("ingest", "tick", "fire", "compact", "sinks", "commit")
Row = dict[str, Any]


class Ids(StatefulWindowedBolt):
    outputs = "key string, start long, stop long, ids string, number long"
    state_types = {"windows": int}  # noqa: RUF012 - declared so by users

    def execute(self, window: TupleWindow) -> EmittedRows:
        self.state["windows"] += 1
        assert window.start_timestamp is not None
        ids = " ".join(map(str, sorted(window.column("id").tolist())))
        yield str(window.key), window.start_timestamp, window.end_timestamp, ids, self.state["windows"]


AZURE = presets.azure(out_of_order="2s", late="4s", early="3s", arrival_field="at")
BOLTS: dict[str, Callable[[WindowedBolt], WindowedBolt]] = {
    "atlas hopping": lambda bolt: bolt.with_time(presets.atlas("2s")).with_window("6s", "2s"),
    "atlas tumbling": lambda bolt: bolt.with_time(presets.atlas("2s")).with_tumbling_window("5s"),
    "atlas sessions": lambda b: b.with_time(presets.atlas("2s")).with_window(Session("3s")).with_key("user"),
    "azure substreams": lambda bolt: bolt.with_time(AZURE).with_tumbling_window("5s").with_key("user")
    .with_watermark(per_key=True),
    "azure sessions": lambda b: b.with_time(AZURE).with_window(Session("2s", max_duration="9s")).with_key("user"),
    "azure sliding": lambda bolt: bolt.with_time(AZURE).with_window(SlidingLog("3s")),
    "kafka sliding": lambda b: b.with_time(presets.atlas("1s")).with_window(SlidingLog("3s")).with_key("user"),
    "streaminsight": lambda bolt: bolt.with_time(presets.streaminsight(7, "2s")).with_window(Snapshot()),
    "lifetimes": lambda b: b.with_time(presets.streaminsight(5, "2s")).with_window(Snapshot()).with_lifetime("until"),
    "partitions": lambda b: b.with_time(presets.atlas("1s")).with_tumbling_window("5s")
    .with_watermark(partition="user"),
    "storm keyed": lambda bolt: bolt.with_tumbling_window("5s").with_lag("3s").with_key("user"),
    "panes": lambda b: b.with_time(presets.atlas("3s")).with_tumbling_window("5s").with_key("user")
    .with_trigger(Panes(early=after_count(2) | after_clock("1s"), late=True, mode="retracting")),
}  # fmt: skip


def topology(name: str, tasks: int) -> Topology:
    builder = TopologyBuilder("crashes")
    builder.set_spout("events", spouts.memory(COLUMNS))
    bolt = BOLTS[name](Ids()).with_timestamp_field("ts")
    declarer = builder.set_bolt("bolt", bolt, tasks)
    if bolt.settings.key:
        declarer.fields_grouping("events", "user")
    else:
        declarer.global_grouping("events")
    builder.set_sink("out", sinks.memory()).from_("bolt")
    return builder.build()


def batches(seed: int) -> list[pa.Table]:
    """Events out of order by up to 5 s, some from the future, users that come and go."""
    chance = random.Random(seed)
    found = []
    for number in range(BATCHES):
        rows = []
        for at in range(SIZE):
            arrival = 1_000 * number + 80 * at
            moment = arrival - chance.choice([0, 0, 300, 1_000, 2_500, 5_000]) + chance.choice([0, 0, 0, 0, 6_000])
            user = f"user{chance.randrange(USERS) + number // 9}"
            until = moment + chance.choice([1, 500, 4_000])
            rows.append({"id": number * SIZE + at, "user": user, "ts": moment, "at": arrival, "until": until})
        found.append(spouts.memory(COLUMNS, rows).tables()[0])
    return found


class Crash(Exception):
    pass


def run(name: str, folder: Path, tables: list[pa.Table], crashes: random.Random | None, tasks: int) -> Any:
    """The rows that came out, batch by batch, and the accounts in the end."""
    built = topology(name, tasks)
    rows: list[list[Row]] = []
    step = MicroBatch(built, FileCheckpoint(str(folder)), InProcessExecutor())
    sink: Any = built.sinks["out"].sink
    for number, table in enumerate(tables):
        middle = len(table) // 2
        splits = [TableSource("events", table.slice(0, middle), 0), TableSource("events", table.slice(middle), middle)]
        plan = BatchPlan(number, TimeAdvance(1_000_000 * number, close=number == BATCHES - 1), splits)
        while crashes is not None and crashes.random() < 0.4:
            failing = crashes.choice(PHASES)

            def fail(phase: str, failing: str = failing) -> None:
                if phase == failing:
                    raise Crash

            step.hook = fail
            with pytest.raises(Crash):
                step.run(plan)
            step = MicroBatch(built, FileCheckpoint(str(folder)), InProcessExecutor())
        step.run(plan)
        rows.extend(sink.batches.pop(key).to_pylist() for key in sorted(sink.batches))
    bolt = step.manifest.bolts["bolt"]
    return rows, bolt.accounts.to_json(), bolt.pending, step.manifest


@pytest.mark.parametrize("name", sampled(BOLTS, 12, first=1))
def test_a_run_that_crashes_everywhere_gives_what_one_that_does_not_gives(name: str, tmp_path: Path) -> None:
    tasks = 3 if BOLTS[name](Ids()).settings.key else 1
    tables = batches(len(name))
    calm = run(name, tmp_path / "calm", tables, None, tasks)
    wild = run(name, tmp_path / "wild", tables, random.Random(7), tasks)
    assert calm[0] == wild[0]
    assert (calm[1], calm[2]) == (wild[1], wild[2])
    assert sum(len(rows) for rows in calm[0]) > 10
    named = calm[3].segments()
    files = {f"{path.parent.name}/{path.name}" for path in (tmp_path / "calm").rglob("*.arrow")}
    assert {"/".join(name.split("/")[-2:]) for name in named} <= files
    assert len(files) < 40, "segments that nobody needs are deleted"


@pytest.mark.parametrize("name", sampled(BOLTS, 8))
def test_segments_of_a_task_stay_few(name: str, tmp_path: Path) -> None:
    *_, manifest = run(name, tmp_path, batches(3)[: BATCHES - 1], None, 1)
    assert all(len(task.refs) < 20 for task in manifest.bolts["bolt"].tasks)


@pytest.mark.parametrize("keep", [1, 3])
@pytest.mark.parametrize("name", sampled(BOLTS, 8))
def test_what_only_the_tasks_of_a_step_needed_does_not_stay(name: str, keep: int, tmp_path: Path) -> None:
    """Also where one step is kept, and no earlier one is looked at to go back to."""
    step = MicroBatch(topology(name, 1), FileCheckpoint(str(tmp_path), keep=keep), InProcessExecutor())
    for number, table in enumerate(batches(3)[:12]):
        step.run(BatchPlan(number, TimeAdvance(1_000_000 * number), [TableSource("events", table, 0)]))
        kept = {segment for manifest in step.checkpoint._kept_manifests for segment in manifest.segments()}  # type: ignore[attr-defined]
        lying = {f"{path.parent.name}/{path.name}" for path in (tmp_path / "segments").rglob("*.arrow")}
        assert not {segment for segment in lying - kept if segment < batch_key(number, False)}
