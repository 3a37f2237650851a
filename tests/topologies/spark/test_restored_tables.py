"""Which batches a Delta table has, by its history, once somebody has restored it to a version or to a time; and which
an Iceberg table has, once snapshots were expired.

The history is as Delta 4.4 and Iceberg 1.12 write it; ``tests/spark/tables`` has the tables themselves.
"""

from __future__ import annotations

import re
from typing import Any
from unittest.mock import patch

import pytest
from pyspark.sql.types import StructType

from topologies.engine.task_data import SinkBatch
from topologies.spark import tables
from topologies.spark.tables import Appender
from windbolt import CheckpointError, sinks


class Delta:
    """A table, as far as appending to it goes: in place of the session, of its answers, of a DataFrame and its writer.

    Each version of it is a list of what was appended.
    """

    def __init__(self) -> None:
        self.versions: list[list[str]] = [[]]
        self.history: list[dict[str, Any]] = [self._row("CREATE TABLE")]
        self.taken: set[tuple[str, str]] = set()
        self.options: dict[str, str] = {}
        self.rows = ""
        self.limit: int | None = None

    def _row(self, operation: str, parameters: dict[str, Any] | None = None, note: str | None = None) -> dict[str, Any]:
        return {
            "version": len(self.versions) - 1, "operation": operation, "operationParameters": parameters or {},
            "userMetadata": note,
        }  # fmt: skip

    @property
    def now(self) -> list[str]:
        return self.versions[-1]

    def insert(self, rows: str, note: str | None = None) -> None:
        self.versions.append([*self.now, rows])
        self.history.append(self._row("WRITE", {"mode": "Append"}, note))

    def restore(self, version: int, *, by_time: bool = False) -> None:
        self.versions.append(self.versions[version])
        given = {"version": None, "timestamp": "2026-11-30 03:12:09.0"}
        self.history.append(self._row("RESTORE", given if by_time else {"version": str(version), "timestamp": None}))

    # What a session, its answers, a DataFrame and its writer are asked.

    def sql(self, text: str) -> Delta:
        asked = re.fullmatch(r"DESCRIBE HISTORY shop\.totals(?: LIMIT (\d+))?", text)
        assert asked is not None
        self.limit = None if asked[1] is None else int(asked[1])
        return self

    def select(self, *names: str) -> Delta:
        assert set(names) == set(self.history[0])
        return self

    def collect(self) -> list[dict[str, Any]]:
        return self.history[::-1][: self.limit]

    def coalesce(self, parts: int) -> Delta:
        return self

    def writeTo(self, name: str) -> Delta:  # noqa: N802 - Spark's name
        self.options = {}
        return self

    def option(self, name: str, value: str) -> Delta:
        self.options[name] = value
        return self

    def append(self) -> None:
        """Skips a transaction whose number the application has used, also where the table was restored since."""
        transaction = self.options["txnAppId"], self.options["txnVersion"]
        if transaction not in self.taken:
            self.taken.add(transaction)
            self.insert(self.rows, self.options["userMetadata"])


class Iceberg:
    """An Iceberg table likewise. Its clock goes on by a minute with each snapshot."""

    def __init__(self) -> None:
        self.now: list[str] = []
        self.snapshots: list[dict[str, Any]] = []
        self.minutes = 0
        self.options: dict[str, str] = {}
        self.rows = ""

    def insert(self, rows: str, said: dict[str, str] | None = None) -> None:
        self.now = [*self.now, rows]
        self.minutes += 1
        parent = self.snapshots[-1]["snapshot_id"] if self.snapshots else None
        self.snapshots.append(
            {"snapshot_id": self.minutes, "parent_id": parent, "summary": said or {}, "committed": self.micros}
        )

    @property
    def micros(self) -> int:
        return self.minutes * 60_000_000

    def expire(self, kept: int = 1) -> None:
        """The rows stay; of the snapshots only the last ones do."""
        self.snapshots = self.snapshots[-kept:]

    def sql(self, text: str) -> Iceberg:
        assert re.match(r"SELECT .* FROM shop\.totals\.snapshots s JOIN shop\.totals\.history h ", text)
        return self

    def collect(self) -> list[dict[str, Any]]:
        return self.snapshots[::-1]

    def coalesce(self, parts: int) -> Iceberg:
        return self

    def writeTo(self, name: str) -> Iceberg:  # noqa: N802 - Spark's name
        self.options = {}
        return self

    def option(self, name: str, value: str) -> Iceberg:
        self.options[name.removeprefix("snapshot-property.")] = value
        return self

    def append(self) -> None:
        self.insert(self.rows, self.options)


class Checkpoint:
    """The batches of one sink, each attempt in a process of its own."""

    def __init__(self, table: Delta | Iceberg) -> None:
        self.table, self.format = table, "delta" if isinstance(table, Delta) else "iceberg"

    def attempt(self, batch: int, run: str = "run 1", *, planned_at: int = 0, again: bool = True) -> None:
        """An attempt to append a batch, after the one before was committed."""
        self.table.rows = f"batch {batch} of {run}"
        found = tables._Table("shop.totals", self.format, "", "", StructType())
        node: Any = type("Node", (), {"name": "out", "sink": sinks.table("shop.totals")})
        spark: Any = self.table
        planned = SinkBatch("t", "ck", str(batch), 2 * batch, 2 * (batch - 1), run, planned_at=planned_at, again=again)
        with (
            patch.object(tables, "_checked_table", lambda *given: found),
            patch.object(Appender, "_in_full", lambda self, frame: frame),
        ):
            Appender(spark, node).append(spark, 1, planned)


@pytest.fixture
def delta() -> Delta:
    return Delta()


@pytest.fixture
def checkpoint(delta: Delta) -> Checkpoint:
    """With two batches in the table, of which the second is not committed."""
    checkpoint = Checkpoint(delta)
    checkpoint.attempt(0)
    checkpoint.attempt(1)
    assert delta.now == ["batch 0 of run 1", "batch 1 of run 1"]
    return checkpoint


def test_a_batch_that_is_there_is_not_appended_again(delta: Delta, checkpoint: Checkpoint) -> None:
    """Whatever else was undone, and however long ago."""
    there = delta.now
    delta.insert("of others")
    delta.restore(2)
    checkpoint.attempt(1)
    assert delta.now == there
    for number in range(1000):  # beyond what is looked at first
        delta.insert(str(number))
    delta.restore(4)
    checkpoint.attempt(1)
    assert delta.now == there


def test_a_batch_that_was_undone_long_ago_is_appended(delta: Delta, checkpoint: Checkpoint) -> None:
    """Delta still knows it, and would skip it."""
    delta.restore(1)
    for number in range(1000):
        delta.insert(str(number))
    for _ in range(2):
        checkpoint.attempt(1)
        assert delta.now[-2:] == ["999", "batch 1 of run 1"]


def test_a_batch_that_was_undone_is_appended_each_time(delta: Delta, checkpoint: Checkpoint) -> None:
    delta.restore(1)
    delta.insert("of others")
    for _ in range(3):
        checkpoint.attempt(1)
        assert delta.now == ["batch 0 of run 1", "of others", "batch 1 of run 1"]
        checkpoint.attempt(1)
        assert delta.now == ["batch 0 of run 1", "of others", "batch 1 of run 1"]
        delta.restore(4)
    checkpoint.attempt(1)
    checkpoint.attempt(2)
    assert delta.now == ["batch 0 of run 1", "of others", "batch 1 of run 1", "batch 2 of run 1"]


@pytest.mark.parametrize("version", [1, 2], ids=["before the batch", "after it"])
@pytest.mark.parametrize("run", ["run 1", "run 2"])
def test_a_table_that_was_restored_to_a_time_has_to_be_restored_to_a_version(
    delta: Delta, checkpoint: Checkpoint, version: int, run: str
) -> None:
    """Delta does not note which version that was: the batch was there twice, or went missing."""
    delta.restore(version, by_time=True)
    delta.insert("of others")
    with pytest.raises(CheckpointError, match="has 1 batches that come after the checkpoint is not known") as refused:
        checkpoint.attempt(1, run)
    assert refused.value.do is not None
    assert "RESTORE TABLE shop.totals TO VERSION AS OF 1 " in refused.value.do
    delta.restore(1)
    checkpoint.attempt(1, run)
    assert delta.now == ["batch 0 of run 1", f"batch 1 of {run}"]
    delta.restore(len(delta.versions) - 1, by_time=True)
    checkpoint.attempt(2, run)  # what was restored is committed
    assert delta.now[-1] == f"batch 2 of {run}"


def test_a_batch_of_another_run_is_refused(delta: Delta, checkpoint: Checkpoint) -> None:
    with pytest.raises(CheckpointError, match=r"the table shop\.totals has 1 batches that come after"):
        checkpoint.attempt(1, "run 2")


def test_a_checkpoint_goes_back_by_more_batches_than_are_looked_at_first(delta: Delta, checkpoint: Checkpoint) -> None:
    with patch.object(tables, "_RECENT_COMMITS", 10):
        for number in range(2, 40):
            checkpoint.attempt(number)
        with pytest.raises(CheckpointError, match="has 35 batches that come after the checkpoint") as refused:
            checkpoint.attempt(5, "run 2")
        version = re.search(r"TO VERSION AS OF (\d+) ", refused.value.do or "")
        assert version is not None
        delta.restore(int(version[1]))
        for _ in range(2):
            checkpoint.attempt(5, "run 2")
            assert delta.now == [*(f"batch {number} of run 1" for number in range(5)), "batch 5 of run 2"]


def test_where_nobody_can_say_whether_a_batch_is_there_it_is_not_taken_for_appended(
    delta: Delta, checkpoint: Checkpoint
) -> None:
    """Delta still skips it; its commit, and the one that has undone it, are cleaned from the history."""
    delta.restore(1)
    delta.insert("of others")
    delta.history = delta.history[-1:]
    with pytest.raises(CheckpointError, match="has the batch that was appended is not known"):
        checkpoint.attempt(1)


@pytest.fixture
def iceberg() -> Iceberg:
    table = Iceberg()
    Checkpoint(table).attempt(0, again=False)
    return table


NOT_KNOWN = r"whether shop\.totals has the batch that comes next is not known"


def test_a_batch_of_expired_snapshots_is_not_appended_again(iceberg: Iceberg) -> None:
    """It was there twice: a run had died after it had appended it, and others wrote and expired snapshots since."""
    checkpoint, planned_at = Checkpoint(iceberg), iceberg.micros
    checkpoint.attempt(1, planned_at=planned_at, again=False)
    iceberg.insert("of others")
    checkpoint.attempt(1, planned_at=planned_at)
    there = iceberg.now
    assert there == ["batch 0 of run 1", "batch 1 of run 1", "of others"]
    iceberg.expire()
    with pytest.raises(CheckpointError, match=NOT_KNOWN) as refused:
        checkpoint.attempt(1, planned_at=planned_at)
    assert "--back-to" in refused.value.do
    assert iceberg.now == there


def test_a_run_goes_on_where_snapshots_are_expired(iceberg: Iceberg) -> None:
    """Also where a table has none of the run's any more, and where a run has died."""
    checkpoint = Checkpoint(iceberg)
    for number in range(1, 4):
        for name in ("of others", "of more"):
            iceberg.insert(name)
        iceberg.expire()
        iceberg.insert("of more")
        iceberg.minutes += 5
        checkpoint.attempt(number, planned_at=iceberg.micros, again=number == 2)
        assert iceberg.now[-1] == f"batch {number} of run 1"
    iceberg.expire()
    checkpoint.attempt(4, planned_at=iceberg.micros)  # the batch before it is there
    iceberg.insert("of others")
    iceberg.expire()
    checkpoint.attempt(5, planned_at=iceberg.micros - 600_000_000, again=False)  # of this run
    assert iceberg.now[-3:] == ["batch 4 of run 1", "of others", "batch 5 of run 1"]


def test_a_table_that_has_all_its_snapshots_knows_its_batches() -> None:
    iceberg = Iceberg()
    iceberg.insert("of others")
    Checkpoint(iceberg).attempt(0, planned_at=0)
    assert iceberg.now == ["of others", "batch 0 of run 1"]
