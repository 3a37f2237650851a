"""What is done with checkpoints of bolts without windows: continued, gone back, saved, rescaled, looked into."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from manager.storage.manifest import batch_key
from tests.oracles.stateful_loop import COLUMNS, Kept, KeptOfTables, PlainLoop, Row
from topologies.checkpoints.going_back import go_back
from topologies.checkpoints.paired_checkpoint import PairedCheckpoint
from topologies.checkpoints.savepoint import take_savepoint
from topologies.checkpoints.state_tables import read
from topologies.checkpoints.why import why
from topologies.cli.app import app
from topologies.topology import Topology
from windbolt import RunOptions, TopologyBuilder, run_local, sinks, spouts
from windowing import StatefulBolt, Tuple
from windowing.errors import CheckpointError

HOUR = 3_600_000_000


@dataclass
class Shop:
    """Files of events, and a run over them in parts; each batch comes half an hour after the one before."""

    folder: Path
    clock: int = 0
    events: list[Row] = field(default_factory=list)

    def build(self, bolt: StatefulBolt, tasks: int = 1, grouped: bool = True) -> Topology:
        builder = TopologyBuilder("shop")
        builder.set_spout("events", spouts.files(f"{self.folder}/in/*.jsonl", COLUMNS, files_per_batch=1))
        declared = builder.set_bolt("kept", bolt, tasks)
        if grouped:
            declared.fields_grouping("events", "user")
        else:
            declared.global_grouping("events")
        builder.set_sink("out", sinks.files(f"{self.folder}/out")).from_("kept")
        return builder.build()

    def bring(self, count: int) -> None:
        """A file of some events."""
        (self.folder / "in").mkdir(exist_ok=True)
        first = len(self.events)
        new = [
            {"id": at, "user": f"u{at % 5}" if at % 11 else None, "amount": 1 + at % 3}
            for at in range(first, first + count)
        ]
        self.events += new
        (self.folder / "in" / f"{first:05}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in new))

    def tick(self) -> int:
        self.clock += HOUR // 2
        return self.clock

    def run(self, topology: Topology, **options: Any) -> None:
        run_local(topology, RunOptions(str(self.folder / "ck"), clock=self.tick, **options))

    def rows(self) -> dict[str, list[Row]]:
        """What was emitted for events, by user, in order."""
        found: dict[str, list[Row]] = {}
        for path in sorted((self.folder / "out").glob("*.parquet")):
            for row in pq.read_table(path).to_pylist():
                if row["number"] > 0:
                    found.setdefault(str(row["user"]), []).append(row)
        return found

    def expected(self) -> dict[str, list[Row]]:
        loop = PlainLoop(True, 10**18)
        loop.batch(self.events, 0)
        found: dict[str, list[Row]] = {}
        for row in loop.rows:
            found.setdefault(str(row["user"]), []).append(row)
        return found


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def keyed(kind: type[StatefulBolt] = Kept) -> StatefulBolt:
    return kind().with_key("user").with_clock("10000d")


@pytest.mark.parametrize("kind", [Kept, KeptOfTables])
def test_keys_move_with_their_state_to_more_and_fewer_tasks(kind: type[StatefulBolt], shop: Shop) -> None:
    for tasks in (2, 5, 1, 3):
        shop.bring(20)
        shop.run(shop.build(keyed(kind), tasks), allow_rescale=True)
    assert shop.rows() == shop.expected()
    assert len(shop.rows()) == 6


def test_a_savepoint_continues_and_going_back_repeats(shop: Shop) -> None:
    bolt = keyed()
    for _ in range(3):
        shop.bring(7)
    shop.run(shop.build(bolt, 2), keep_open=True)
    halves = PairedCheckpoint(str(shop.folder / "ck"))
    halves.lock.share()
    try:
        take_savepoint(halves, str(shop.folder / "saved"), ())
    finally:
        halves.lock.release()
    shutil.rmtree(shop.folder / "ck")
    shutil.copytree(shop.folder / "saved", shop.folder / "ck")
    shop.bring(9)
    shop.run(shop.build(bolt, 2), keep_open=True, keep_batches=5)
    assert shop.rows() == shop.expected()


def test_going_back_takes_the_states_back(shop: Shop) -> None:
    for _ in range(4):
        shop.bring(6)
    shop.run(shop.build(keyed(), 2), keep_open=True, keep_batches=9)
    before = read(str(shop.folder / "ck"), "kept", batch=1)["state"].to_pylist()
    halves = PairedCheckpoint(str(shop.folder / "ck"))
    halves.lock.take()
    try:
        go_back(halves, batch_key(1, False))
    finally:
        halves.lock.release()
    assert read(str(shop.folder / "ck"), "kept")["state"].to_pylist() == before
    shop.run(shop.build(keyed(), 2))
    assert shop.rows() == shop.expected()


def test_another_declaration_is_another_topology(shop: Shop) -> None:
    class Other(Kept):
        state_types: ClassVar[Any] = {**Kept.state_types, "number": float}

    shop.bring(5)
    shop.run(shop.build(keyed()))
    with pytest.raises(CheckpointError, match=r"bolt 'kept': state was .*'number': 'int'.* and is .*'number': 'float'"):
        shop.run(shop.build(keyed(Other)))
    with pytest.raises(CheckpointError, match="bolt 'kept': key was user, and is None"):
        shop.run(shop.build(Kept().with_clock("10000d")))
    assert shop.rows() == shop.expected()


def test_the_state_of_a_task_moves_as_it_is_declared(shop: Shop) -> None:
    class Users(StatefulBolt):
        outputs: ClassVar[Any] = Kept.outputs
        state_types: ClassVar[Any] = {"n": dict}
        state_keys: ClassVar[Any] = {"n": "user"}

        def execute(self, tuple: Tuple) -> Any:
            user = tuple["user"] or "none"
            self.state["n"][user] = self.state["n"].get(user, 0) + 1
            return user, self.state["n"][user], 0.0, "", ""

    class Whole(Users):
        state_keys: ClassVar[Any] = {}

    for number in range(40):
        shop.events.append({"id": number, "user": f"u{number % 7}", "amount": 1})
    (shop.folder / "in").mkdir()
    for at, tasks in ((0, 2), (20, 3)):
        text = "".join(f"{json.dumps(row)}\n" for row in shop.events[at : at + 20])
        (shop.folder / "in" / f"{at}.jsonl").write_text(text)
        shop.run(shop.build(Users(), tasks), allow_rescale=True)
    assert {user: [row["number"] for row in rows] for user, rows in shop.rows().items()} == {
        f"u{user}": list(range(1, 7 if user < 5 else 6)) for user in range(7)
    }
    shutil.rmtree(shop.folder / "ck")
    shutil.rmtree(shop.folder / "out")
    shop.run(shop.build(Whole(), 2))
    with pytest.raises(CheckpointError, match="its state 'n' is not said to be kept by key"):
        shop.run(shop.build(Whole(), 3), allow_rescale=True)


def test_the_command_shows_the_state_of_each_key(shop: Shop) -> None:
    shop.bring(30)
    shop.run(shop.build(keyed(), 3), keep_open=True)
    checkpoint = str(shop.folder / "ck")
    found = read(checkpoint, "kept")
    expected = {user: rows[-1] for user, rows in shop.expected().items()}
    numbers = {str(row["user"]): row["value"] for row in found["state"].to_pylist() if row["name"] == "number"}
    assert numbers == {user: str(row["number"]) for user, row in expected.items()}
    last: dict[str, list[Any]] = {}
    for row in found["state.last"].to_pylist():
        last.setdefault(str(row["user"]), []).append({"id": row["id"], "amount": row["amount"]})
    assert {user: str(rows) for user, rows in last.items()} == {user: row["last"] for user, row in expected.items()}
    one = read(checkpoint, "kept", key="u3")
    assert {row["user"] for name in ("state", "state.last") for row in one[name].to_pylist()} == {"u3"}
    done = CliRunner().invoke(app, ["state", checkpoint, "kept", "--key", "u3", "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.output)["tables"]["state"][0]["user"] == "u3"
    answer = why(checkpoint, "kept")
    assert "has no windows" in str(answer)


def test_no_state_is_lost_where_a_task_of_a_key_has_an_empty_table(shop: Shop) -> None:
    class Tables(StatefulBolt):
        outputs: ClassVar[Any] = Kept.outputs
        state_types: ClassVar[Any] = {"rows": "names array<string>, at timestamp, price decimal(5, 2)", "n": int}

        def execute(self, tuple: Tuple) -> Any:
            self.state["n"] += 1
            kept = self.state["rows"]
            if tuple["amount"] == 2:
                new = pa.table({"names": [[str(tuple["id"]), None]], "at": [None], "price": [None]}).cast(kept.schema)
                self.state["rows"] = pa.concat_tables([kept, new])
            return tuple["user"], self.state["n"], 0.0, str(self.state["rows"]["names"].to_pylist()), ""

    for _ in range(3):
        shop.bring(15)
    shop.run(shop.build(Tables().with_key("user"), 2))
    for user, rows in shop.rows().items():
        own = [row for row in shop.events if str(row["user"]) == user]
        for at, row in enumerate(rows):
            seen = [[str(event["id"]), None] for event in own[: at + 1] if event["amount"] == 2]
            assert (row["number"], row["seen"]) == (at + 1, str(seen))


def test_the_clock_is_heard_in_a_run_without_new_rows(shop: Shop) -> None:
    """Once for each hour, whatever the number of runs."""
    shop.bring(4)
    bolt = Kept().with_key("user").with_clock("1h")
    for _ in range(4):
        shop.run(shop.build(bolt, 2), keep_open=True)
    heard = [
        (row["user"], row["seen"][:19])
        for path in sorted((shop.folder / "out").glob("*.parquet"))
        for row in pq.read_table(path).to_pylist()
        if row["number"] < 0
    ]
    assert heard, "the clock was never heard"
    assert len(heard) == len(set(heard))
    moments = {moment for _, moment in heard}
    assert len(moments) > 1
    assert len(heard) == 4 * len(moments)
