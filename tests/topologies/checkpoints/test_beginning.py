"""A checkpoint that begins with events: its runs go on as after a batch that had these events."""

from __future__ import annotations

import itertools
import json
import os
import random
import shutil
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import NoneType
from typing import Any

import pyarrow as pa
import pyarrow.compute
import pytest
from typer.testing import CliRunner

from servers.s3 import S3
from tests.helpers.deaths import deaths
from tests.helpers.drawn_bolts import BOLTS, Case
from tests.helpers.examples import sampled, share
from tests.simulation.disk import Disk
from tests.simulation.world.bolts import COLUMNS
from tests.simulation.world.kinds import JOINS, KINDS, PASSING
from topologies.checkpoints.going_back import inspect
from topologies.checkpoints.paired_checkpoint import PairedCheckpoint
from topologies.checkpoints.savepoint import begin_with
from topologies.cli.app import app
from windbolt import (
    BatchBolt,
    BoltError,
    CheckpointError,
    ConfigError,
    DataError,
    RunOptions,
    Topology,
    TopologyBuilder,
    TopologyError,
    WindowedBolt,
    presets,
    run_local,
    sinks,
    spouts,
    state,
    why,
)
from windowing.schema import parse_schema

CASES = int(os.environ.get("WINDBOLT_BEGINNINGS", "1"))
"""How many topologies of each kind begin with events."""
_MINUTE = 60_000_000


TYPES: dict[str, tuple[type, ...]] = {
    "string": (str, NoneType), "int64": (int, NoneType), "double": (int, float, NoneType), "bool": (bool, NoneType)
}  # fmt: skip
FIELDS = parse_schema(COLUMNS)


def usable(lines: list[str]) -> list[str]:
    """Those that are events with a time, and of the columns' types."""
    return [line for line in lines if _usable(line)]


def _usable(line: str) -> bool:
    try:
        event = json.loads(line)
    except ValueError:
        return False
    if not isinstance(event, dict) or type(event.get("ts")) is not int or not set(event) <= set(FIELDS.names):
        return False
    return all(type(event.get(field.name)) in TYPES[str(field.type)] for field in FIELDS)


def table_of(lines: list[str]) -> pa.Table:
    """The events as the user would have them: a table of their own making."""
    events, columns = [json.loads(line) for line in lines], dict[str, pa.Array]()
    for field in FIELDS:
        values = pa.array([event.get(field.name) for event in events])
        columns[field.name] = values.cast(field.type) if events else pa.array([], field.type)
    return pa.table(columns)


def standing() -> int:
    """The clock while the first batch runs, however often it is asked for."""
    return 1_700_000_000_000_000


def later() -> Callable[[], int]:
    return itertools.count(standing() + 1_000 * _MINUTE, 900_000).__next__


def played(case: Case, folder: Path, *, given: bool) -> tuple[Counter[str], Any, Any]:
    """The first half of the events in one batch, or given to begin with; then the others, to the end."""
    rows: dict[int, Counter[str]] = {}
    topology, checkpoint = case.topology(folder, case.tasks[0], rows), str(folder / "ck")
    half = len(case.files) // 2
    first = {spout: usable([line for name, text in case.files[:half] if name == spout for line in text])
             for spout in case.spouts}  # fmt: skip
    if given:
        begin_with(checkpoint, topology, {spout: table_of(lines) for spout, lines in first.items()}, standing)
        assert not rows, "nothing has gone to a sink"
    else:
        for spout, lines in first.items():
            (folder / spout / "000.jsonl").write_text("".join(f"{line}\n" for line in lines) or "\n")
        run_local(topology, RunOptions(checkpoint, keep_open=True, clock=standing))
        rows.clear()
    stored = {name: state.read(checkpoint, "b")[name].to_pylist() for name in ("events", "windows", "keys", "tasks")}
    for place, (spout, text) in enumerate(case.files[half:], start=half + 1):
        (folder / spout / f"{place:03d}.jsonl").write_text("".join(f"{line}\n" for line in text))
    last = run_local(topology, RunOptions(checkpoint, clock=later())).last
    return sum(rows.values(), Counter()), stored, last and last.bolts["b"].accounts


@pytest.mark.parametrize("kind", sampled(sorted({*KINDS, *JOINS, *PASSING}), 10, first=2))
def test_it_goes_on_as_after_a_batch_with_these_events(kind: str, tmp_path: Path) -> None:
    chance, tried = random.Random(f"begun {kind}"), 0
    for seed in itertools.count():
        case = Case(kind, chance.choice(sorted(BOLTS)), seed, tmp_path / str(seed))
        assert seed < 40 * CASES, "nothing was compared"
        try:
            case.topology(tmp_path / "look", 2, {})
        except (ConfigError, TopologyError):
            continue  # such a bolt cannot be built
        wanted = played(case, case.folder / "read", given=False)
        if not wanted[0] or not wanted[1]["events"]:
            continue
        try:
            got = played(case, case.folder / "given", given=True)
        except DataError:
            continue  # an event without a lifetime
        assert got == wanted, (kind, case.bolt, seed)
        tried += 1
        if tried == CASES:
            return


class Total(WindowedBolt):
    outputs = "user string, events long, total double"

    def execute(self, window: Any) -> Any:
        return window.key, len(window), float(sum(window.column("amount")))


def shop(folder: Path, parallelism: int = 2, bolt: WindowedBolt | None = None) -> tuple[Topology, Any]:
    builder, sink = TopologyBuilder("shop"), sinks.memory()
    source = spouts.files(folder / "in", "user string, amount double, ts timestamp", format="jsonl")
    builder.set_spout("orders", source)
    bolt = (bolt or Total()).with_tumbling_window("10s").with_key("user").with_timestamp_field("ts").with_lag("2s")
    builder.set_bolt("total", bolt, parallelism).fields_grouping("orders", "user")
    builder.set_sink("out", sink).from_("total")
    return builder.build(), sink


def at(second: float) -> datetime:
    return datetime.fromtimestamp(1_700_000_000 + second, UTC)


YESTERDAY = [
    {"user": "ann", "amount": 1.0, "ts": at(1)},
    {"user": "bob", "amount": 2.0, "ts": at(3)},
    {"user": "ann", "amount": 4.0, "ts": at(13)},
]
TODAY = [("ann", 8.0, 14), ("bob", 16.0, 5), ("bob", 32.0, 25)]
AFTER = [
    {"user": "ann", "events": 2, "total": 12.0},
    {"user": "bob", "events": 1, "total": 32.0},
]
"""The event of bob at 5 s is late: the window until 10 s has fired already."""


def write_today(folder: Path) -> None:
    (folder / "in").mkdir(exist_ok=True)
    lines = [json.dumps({"user": user, "amount": amount, "ts": at(ts).isoformat()}) for user, amount, ts in TODAY]
    (folder / "in/today.jsonl").write_text("\n".join(lines))


def given_in(kind: str) -> Any:
    table = pa.Table.from_pylist(YESTERDAY)
    return {"dicts": YESTERDAY, "tuples": [tuple(each.values()) for each in YESTERDAY], "table": table,
            "frame": table.to_pandas()}[kind]  # fmt: skip


@pytest.mark.parametrize("kind", ["dicts", "tuples", "table", "frame"])
def test_windows_of_yesterday(kind: str, tmp_path: Path) -> None:
    write_today(tmp_path)
    topology, sink = shop(tmp_path)
    (row,) = state.begin(tmp_path / "ck", topology, {"orders": given_in(kind)}).to_pylist()
    assert (row["received"], row["windowed"], row["pending"], row["windows"]) == (3, 2, 1, 2)
    assert row["watermark"] == at(11)
    summary = topology.run(tmp_path / "ck", engine="local")
    assert sorted(sink.rows, key=lambda each: each["user"]) == AFTER
    assert summary.this_run()["total"].accounts["received"] == 3, "those of the run, without what it began with"


def test_events_of_another_checkpoint_repaired(tmp_path: Path) -> None:
    """What state.read gives can be given back."""
    topology, _ = shop(tmp_path)
    state.begin(tmp_path / "ck", topology, {"orders": YESTERDAY})
    found = state.read(tmp_path / "ck", "total")["events"].to_pandas()
    found.loc[found["user"] == "ann", "amount"] = 40.0
    state.begin(tmp_path / "repaired", topology, {"orders": found})
    stored = state.read(tmp_path / "repaired", "total")["events"]
    assert stored.column("amount").to_pylist() == [40.0]


def test_in_an_object_store(tmp_path: Path, store: S3) -> None:
    write_today(tmp_path)
    place = store.uri("begun")
    state.begin(place, shop(tmp_path)[0], {"orders": YESTERDAY})
    topology, sink = shop(tmp_path)
    run_local(topology, RunOptions(place))
    assert sorted(row["total"] for row in sink.rows) == [12.0, 32.0]


def test_what_is_refused(tmp_path: Path) -> None:
    topology, _ = shop(tmp_path)
    place = tmp_path / "ck"
    with pytest.raises(ConfigError, match="there is no spout 'order'; did you mean 'orders'"):
        state.begin(place, topology, {"order": YESTERDAY})
    with pytest.raises(DataError, match="the events for spout 'orders' are not of its columns, user, amount, ts"):
        state.begin(place, topology, {"orders": pa.table({"user": ["ann"]})})
    with pytest.raises(DataError, match="not of its columns"):
        state.begin(place, topology, {"orders": [{"user": "ann", "amount": "much", "ts": at(1)}]})
    assert not place.exists(), "nothing was written"
    state.begin(place, topology, {"orders": YESTERDAY})
    with pytest.raises(CheckpointError, match="a checkpoint that begins with events cannot be made in") as held:
        state.begin(place, topology, {"orders": YESTERDAY})
    assert "holds a checkpoint already" in held.value.why
    assert state.read(place, "total")["events"].num_rows == 1, "it is as it was"


def test_events_without_a_time_are_refused_and_no_run_begins(tmp_path: Path) -> None:
    topology, _ = shop(tmp_path)
    (tmp_path / "in").mkdir()
    with pytest.raises(DataError, match="1 of the events for bolt 'total' cannot be used"):
        state.begin(tmp_path / "ck", topology, {"orders": [*YESTERDAY, {"user": "ann", "amount": 1.0, "ts": None}]})
    with pytest.raises(CheckpointError, match="does not have the events yet that it is to begin with"):
        run_local(topology, RunOptions(str(tmp_path / "ck")))
    state.begin(tmp_path / "ck", topology, {"orders": YESTERDAY})
    run_local(topology, RunOptions(str(tmp_path / "ck")))


def test_partitions_of_kafka_are_refused(tmp_path: Path) -> None:
    builder = TopologyBuilder("shop")
    builder.set_spout("orders", spouts.kafka("localhost:1", "orders", "user string, ts timestamp"))
    bolt = Users().with_time(presets.azure()).with_tumbling_window("10s").with_timestamp_field("ts")
    builder.set_bolt("users", bolt).fields_grouping("orders", "user")
    builder.set_sink("out", sinks.memory()).from_("users")
    with pytest.raises(ConfigError, match="bolt 'users' cannot begin with events"):
        state.begin(tmp_path / "ck", builder.build(), {"orders": [("ann", at(1))]})


class Users(WindowedBolt):
    outputs = "n long"
    reads = ("user",)

    def execute(self, window: Any) -> Any:
        return (len(window),)


def test_a_death_at_any_moment_leaves_what_is_refused_and_the_next_attempt_starts_over(tmp_path: Path) -> None:
    write_today(tmp_path)
    disk = Disk(str(tmp_path / "disk"), random.Random(1))
    refused = 0
    with disk.mounted():
        topology, sink = shop(tmp_path)
        place = f"{disk.data}/ck"
        for _ in deaths(disk, lambda: begin_with(place, topology, {"orders": YESTERDAY}, lambda: 0)):
            disk.before = lambda operation, path: None
            disk.start()
            halves = PairedCheckpoint(f"{disk.data}/ck")
            if halves.documents.read("beginning") is not None:
                refused += 1
                with pytest.raises(CheckpointError, match="does not have the events yet"):
                    run_local(topology, RunOptions(f"{disk.data}/ck"))
            elif halves.documents.names("manifests"):
                break  # it dies before it has synced that the note is gone
            else:
                assert not halves.documents.names("segments")
    assert refused > share(20)
    run_local(topology, RunOptions(f"{disk.data}/ck"))
    assert sorted(row["total"] for row in sink.rows) == [12.0, 32.0]


def test_what_is_not_complete_is_refused_by_all_who_work_on_checkpoints(tmp_path: Path) -> None:
    topology, _ = shop(tmp_path)
    checkpoint = str(tmp_path / "ck")
    with pytest.raises(DataError):
        state.begin(checkpoint, topology, {"orders": [*YESTERDAY, {"user": "ann", "amount": 1.0, "ts": None}]})
    for command in (
        ["savepoint", f"{checkpoint}1", str(tmp_path / "saved")],
        ["rescale", f"{checkpoint}2", "--parallelism", "total=3"],
        ["checkpoint", f"{checkpoint}3", "--back-to=-1"],
    ):
        shutil.copytree(checkpoint, command[1])
        done = CliRunner().invoke(app, command)
        assert done.exit_code == 2, (command, done.output)
        assert "does not have the events yet" in " ".join(done.output.split()), command
    assert "does not have the events yet" in inspect(PairedCheckpoint(checkpoint)).refused
    assert not (tmp_path / "saved").exists()


def test_to_begin_once_more_may_be_with_another_topology(tmp_path: Path) -> None:
    with pytest.raises(BoltError, match=r"windbolt\.state\.begin once more"):
        state.begin(tmp_path / "ck", shop(tmp_path, bolt=Failing())[0], {"orders": YESTERDAY})
    write_today(tmp_path)
    topology, sink = shop(tmp_path, parallelism=5)
    state.begin(tmp_path / "ck", topology, {"orders": YESTERDAY})
    run_local(topology, RunOptions(str(tmp_path / "ck")))
    assert sorted(row["total"] for row in sink.rows) == [12.0, 32.0]


def test_why_a_window_of_yesterday_is_open(tmp_path: Path) -> None:
    state.begin(tmp_path / "ck", shop(tmp_path)[0], {"orders": YESTERDAY})
    assert why(tmp_path / "ck", "total", key="ann").reason != "no batch has been committed"


def test_rows_that_a_bolt_in_between_makes_invalid_are_counted_as_in_every_run(tmp_path: Path) -> None:
    builder = TopologyBuilder("shop")
    builder.set_spout(
        "orders", spouts.files(tmp_path / "in", "user string, amount double, ts timestamp", format="jsonl")
    )
    builder.set_bolt("without", WithoutTime()).shuffle_grouping("orders")
    bolt = Total().with_tumbling_window("10s").with_key("user").with_timestamp_field("ts").with_lag("2s")
    builder.set_bolt("total", bolt).fields_grouping("without", "user")
    builder.set_sink("out", sinks.memory()).from_("total")
    (row,) = state.begin(tmp_path / "ck", builder.build(), {"orders": YESTERDAY}).to_pylist()
    assert (row["received"], row["invalid"]) == (3, 1)


def test_a_table_without_columns_that_no_bolt_reads(tmp_path: Path) -> None:
    builder = TopologyBuilder("users")
    builder.set_spout(
        "orders", spouts.files(tmp_path / "in", "user string, amount double, ts timestamp", format="jsonl")
    )
    builder.set_bolt("users", Users().with_tumbling_window("10s").with_timestamp_field("ts")).global_grouping("orders")
    builder.set_sink("out", sinks.memory()).from_("users")
    batch = pa.RecordBatch.from_pylist([{"user": "ann", "ts": at(1)}])
    (row,) = state.begin(tmp_path / "ck", builder.build(), {"orders": batch}).to_pylist()
    assert row["pending"] == 1
    with pytest.raises(DataError, match="not of its columns"):
        state.begin(tmp_path / "ck2", builder.build(), {"orders": batch.select(["user"])})


class Failing(Total):
    def execute(self, window: Any) -> Any:
        raise ValueError("boom")


class WithoutTime(BatchBolt):
    outputs = "user string, amount double, ts timestamp"

    def execute(self, batch: pa.Table) -> pa.Table:
        late = pa.compute.less(batch.column("ts"), pa.scalar(at(2), batch.schema.field("ts").type))
        return batch.set_column(2, "ts", pa.compute.if_else(late, None, batch.column("ts")))
