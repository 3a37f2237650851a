"""A state kept by key goes where the events of its keys go, in whatever type the bolt keeps the key."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from topologies.checkpoints.paired_checkpoint import PairedCheckpoint
from topologies.checkpoints.rescale import move_tasks
from topologies.topology import Topology
from windbolt import RunOptions, TopologyBuilder, run_local, sinks, spouts
from windowing import StatefulWindowedBolt, TupleWindow
from windowing.errors import CheckpointError

KEYS = [-2, 0, 1, 2, 3, 4, 5, 6, 7]


class Totals(StatefulWindowedBolt):
    """How many events of a key there have been."""

    outputs = "key string, total long"
    state_keys = {"t": {"key": "dev"}}  # noqa: RUF012

    def __init__(self, kept: str) -> None:
        self.__dict__["state_types"] = {"t": f"dev {kept}, total long"}

    def execute(self, window: TupleWindow) -> Iterator[Any]:
        """A row for each event."""
        table = self.state["t"]
        totals = dict(zip(table.column("dev").to_pylist(), table.column("total").to_pylist(), strict=True))
        for event in window.get():
            totals[event["key"]] = totals.get(event["key"], 0) + 1
            yield str(event["key"]), totals[event["key"]]
        columns = [pa.array(list(totals), table.schema.field("dev").type), pa.array(totals.values(), pa.int64())]
        self.state["t"] = pa.Table.from_arrays(columns, schema=table.schema)


def build(folder: Path, declared: str, kept: str, tasks: int) -> Topology:
    builder = TopologyBuilder("totals")
    builder.set_spout("s", spouts.files(str(folder / "in" / "*.jsonl"), f"key {declared}, ts timestamp",
                                        files_per_batch=1))  # fmt: skip
    bolt = Totals(kept).with_tumbling_window("10m").with_timestamp_field("ts")
    builder.set_bolt("b", bolt, tasks).fields_grouping("s", "key")
    builder.set_sink("out", sinks.files(str(folder / "out"))).from_("b")
    return builder.build()


def hours(folder: Path, numbers: range) -> None:
    (folder / "in").mkdir(exist_ok=True)
    for hour in numbers:
        rows = [{"key": key, "ts": f"1970-01-01T0{hour}:00:00Z"} for key in [*KEYS, None]]
        (folder / "in" / f"{hour}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))


@pytest.mark.parametrize(
    ("declared", "kept"),
    [("long", "double"), ("int", "double"), ("double", "long"), ("long", "int"), ("long", "decimal(5, 1)")],
)
def test_a_key_that_is_kept_in_another_type_keeps_its_state(declared: str, kept: str, tmp_path: Path) -> None:
    hours(tmp_path, range(2))
    run_local(build(tmp_path, declared, kept, 2), RunOptions(str(tmp_path / "ck"), keep_open=True))
    hours(tmp_path, range(2, 4))
    run_local(build(tmp_path, declared, kept, 3), RunOptions(str(tmp_path / "ck"), allow_rescale=True))
    rows = pa.concat_tables(map(pq.read_table, (tmp_path / "out").rglob("*.parquet"))).to_pylist()
    found = {(int(float(row["key"])) if row["key"] != "None" else None, row["total"]) for row in rows}
    assert len(rows) == len(found) == 4 * (len(KEYS) + 1)
    assert found == {(key, total) for key in [*KEYS, None] for total in range(1, 5)}


def move(folder: Path) -> None:
    halves = PairedCheckpoint(str(folder / "ck"))
    halves.lock.take()
    try:
        move_tasks(halves, {"b": 3}, None)
    finally:
        halves.lock.release()


def test_a_key_that_no_event_can_have_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    half = pa.table({"dev": [0.5], "total": [1]})
    monkeypatch.setattr(Totals, "initial_state", lambda _: {"t": half})
    hours(tmp_path, range(2))
    run_local(build(tmp_path, "long", "double", 2), RunOptions(str(tmp_path / "ck"), keep_open=True))
    with pytest.raises(CheckpointError, match=r"state has 'dev' as double. .*grouped by 'key', which is int64: .*0.5"):
        move(tmp_path)


def test_a_key_of_a_type_that_is_not_taken_for_that_of_the_grouping_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hours(tmp_path, range(2))
    monkeypatch.setattr(Totals, "execute", lambda _, window: None)
    run_local(build(tmp_path, "long", "string", 2), RunOptions(str(tmp_path / "ck"), keep_open=True))
    with pytest.raises(CheckpointError, match="its state 't' has 'dev' as string, and its events are grouped by 'key'"):
        move(tmp_path)


class ByText(StatefulWindowedBolt):
    """How many events of a key there have been, by its text."""

    outputs = "key string, total long"
    state_types = {"t": dict}  # noqa: RUF012
    state_keys = {"t": "key"}  # noqa: RUF012

    def execute(self, window: TupleWindow) -> Iterator[Any]:
        """A row for each event."""
        for event in window.get():
            key = str(event["key"])
            self.state["t"][key] = self.state["t"].get(key, 0) + 1
            yield key, self.state["t"][key]


class ByMethod(ByText):
    """The same, moved by its own method."""

    state_keys: ClassVar[Any] = {}

    def move_state(self, states: Any, task_of: Any, tasks: int) -> Any:
        """By the texts."""
        moved: list[Any] = [{"t": {}} for _ in range(tasks)]
        for state in states:
            for key, total in state["t"].items():
                moved[task_of(VALUES[key])]["t"][key] = total
        return moved


VALUES: dict[str, Any] = {}
"""The keys by their texts."""
ODD: list[tuple[pa.DataType, list[Any], type[ByText]]] = [
    (pa.uint64(), [*range(6), 2**63 + 7, 2**64 - 1], ByText),
    (pa.uint8(), [*range(8)], ByText),
    (pa.time64("us"), [time(hour, 30) for hour in range(8)], ByMethod),
    (pa.uint64(), [*range(6), 2**63 + 7, 2**64 - 1], ByMethod),
    (pa.decimal256(50, 2), [Decimal(f"{number}.25") for number in range(8)], ByMethod),
    (pa.duration("ms"), [timedelta(seconds=number) for number in range(8)], ByMethod),
    (pa.binary(4), [bytes([number] * 4) for number in range(8)], ByMethod),
]


@pytest.mark.parametrize(("kind", "keys", "bolt"), ODD, ids=[f"{kind}-{bolt.__name__}" for kind, _, bolt in ODD])
def test_a_key_of_a_type_that_only_arrow_names_keeps_its_state(
    kind: pa.DataType, keys: list[Any], bolt: type[ByText], tmp_path: Path
) -> None:
    schema = pa.schema([("key", kind), ("ts", pa.timestamp("us", "UTC"))])
    VALUES.update({str(key): key for key in keys})

    def ran(hours: range, tasks: int) -> None:
        for hour in hours:
            times = [datetime(2024, 1, 1, hour, tzinfo=UTC)] * len(keys)
            rows = pa.Table.from_arrays([pa.array(keys, kind), pa.array(times, schema.field("ts").type)], schema=schema)
            pq.write_table(rows, tmp_path / "in" / f"{hour}.parquet")
        builder = TopologyBuilder("totals")
        builder.set_spout("s", spouts.files(tmp_path / "in" / "*.parquet", schema, files_per_batch=1))
        declared = builder.set_bolt("b", bolt().with_tumbling_window("10m").with_timestamp_field("ts"), tasks)
        declared.fields_grouping("s", "key")
        builder.set_sink("out", sinks.files(tmp_path / "out")).from_("b")
        run_local(builder.build(), RunOptions(str(tmp_path / "ck"), allow_rescale=True, keep_open=hours.start == 0))

    (tmp_path / "in").mkdir()
    ran(range(2), 2)
    ran(range(2, 4), 3)
    rows = pa.concat_tables(map(pq.read_table, (tmp_path / "out").rglob("*.parquet"))).to_pylist()
    assert sorted((row["key"], row["total"]) for row in rows) == sorted(
        (str(key), total) for key in keys for total in range(1, 5)
    )
