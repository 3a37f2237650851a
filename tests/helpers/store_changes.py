"""What changes a checkpoint that no lock keeps: other numbers of tasks, bolts that start over, new columns.

Each is a command, or a run that does it as it begins. Whatever meets it, the rows afterwards are those of the state as
it was, or as it is then.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from unittest.mock import patch

from manager.storage import object_store
from manager.storage.segment_files import FileSegments
from topologies.checkpoints.going_back import reset_bolts
from topologies.checkpoints.paired_checkpoint import PairedCheckpoint
from topologies.checkpoints.rescale import move_tasks
from topologies.local import run_local
from topologies.run.options import RunOptions
from topologies.run.summary import Summary
from topologies.topology import Topology
from windbolt import TopologyBuilder, TupleWindow, WindowedBolt, sinks, spouts
from windowing.errors import CheckpointError

BEFORE, AFTER = "id string, user string, ts timestamp", "id string, user string, ts timestamp, note string"
CHANGING = ("create_object", "write_object", "delete_objects", "rename_objects")
"""What changes something in an object store; segments are written by pyarrow, from ``FileSegments.writer`` on."""


class Seen(WindowedBolt):
    """The events of each user in a window, with what is new in them: the same rows for any number of tasks."""

    outputs = "user string, stop timestamp, events string"

    def execute(self, window: TupleWindow) -> Any:
        """A row for each user."""
        rows = window.table.to_pylist()
        for user in sorted({row["user"] for row in rows}):
            yield user, window.end, json.dumps(sorted([r["id"], r.get("note")] for r in rows if r["user"] == user))


class OfTask(WindowedBolt):
    """The events of a window of each task."""

    outputs = "stop timestamp, events string"

    def execute(self, window: TupleWindow) -> Any:
        """A row."""
        return window.end, json.dumps(sorted(row["id"] for row in window.table.to_pylist()))


class Place(Protocol):
    """A store, or HDFS."""

    def uri(self, key: str, /) -> str: ...
    def names(self) -> list[str]: ...
    def body(self, key: str, /) -> bytes: ...


@dataclass(frozen=True)
class Shop:
    """Runs in one folder of a store."""

    store: Place
    name: str
    folder: Path
    """Of this machine: that of the input."""

    @property
    def checkpoint(self) -> str:
        """Where the checkpoint is."""
        return self.store.uri(f"{self.name}/ck")

    @property
    def halves(self) -> PairedCheckpoint:
        """The checkpoint."""
        return PairedCheckpoint(self.checkpoint)

    def built(
        self, tasks: int = 2, columns: str = BEFORE, length: str = "10m", bolt: type[WindowedBolt] = Seen
    ) -> Topology:
        """Two bolts, of which only the first one changes."""
        builder = TopologyBuilder("shop")
        builder.set_spout("in", spouts.files(str(self.folder / "*.jsonl"), columns, files_per_batch=1))
        for name, parallelism, each in ("seen", tasks, length), ("rest", 2, "1h"):
            windowed = bolt().with_tumbling_window(each).with_timestamp_field("ts")
            builder.set_bolt(name, windowed, parallelism).fields_grouping("in", "user")
            folder = self.store.uri(f"{self.name}/{name}")
            builder.set_sink(f"{name}-out", sinks.files(folder, format="jsonl")).from_(name)
        return builder.build()

    def run(self, topology: Topology, **options: Any) -> Summary:
        """A run on the checkpoint, on the local engine."""
        return run_local(topology, RunOptions(self.checkpoint, clock=lambda: 0, **options))

    def rows(self, bolt: str = "seen") -> list[str]:
        """What the sink of a bolt has, a row each."""
        return sorted(row for rows in self.rows_by_file(bolt).values() for row in rows)

    def rows_by_file(self, bolt: str = "seen") -> dict[str, list[str]]:
        """The rows of the sink of a bolt, by the names of the files."""
        begin = f"{self.name}/{bolt}/batch-"
        found = {name.removeprefix(begin): self.store.body(name) for name in self.store.names()
                 if name.startswith(begin)}  # fmt: skip
        return {name: sorted(body.decode().splitlines()) for name, body in found.items()}


def write(folder: Path, number: int) -> None:
    """A file of the input: two windows and a half; the last files have the new column."""
    rows = []
    for at in range(25):
        minute = number * 25 + at
        row = {"id": f"{number}-{at}", "user": f"u{at * at % 7}", "ts": f"2024-01-01T{minute // 60:02d}:{minute % 60:02d}:01Z"}  # fmt: skip  # noqa: E501
        rows.append(row if number < 2 else {**row, "note": f"n{at}"})
    (folder / f"{number}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))


@dataclass(frozen=True)
class Change:
    """One of the changes."""

    name: str
    before: Callable[[Shop], Topology]
    after: Callable[[Shop], Topology]
    command: Callable[[Shop], object] | None = None
    """None where a run of the new topology does it."""

    def make(self, shop: Shop, on_begin: Callable[[Any], None] = lambda before: None) -> None:
        """Do it; a run goes on to the end of the input then, without closing."""
        if self.command is not None:
            self.command(shop)
            on_begin(None)
        else:
            shop.run(self.after(shop), keep_open=True, allow_rescale=True, on_begin=on_begin)


def rescaling(tasks: int) -> Callable[[Shop], object]:
    """The command that gives the first bolt so many tasks."""
    return lambda shop: move_tasks(shop.halves, {"seen": tasks})


CHANGES = [
    Change("rescale", lambda shop: shop.built(2), lambda shop: shop.built(5), rescaling(5)),
    Change("allow-rescale", lambda shop: shop.built(2), lambda shop: shop.built(5)),
    Change(
        "reset",
        lambda shop: shop.built(),
        lambda shop: shop.built(length="20m"),
        lambda shop: reset_bolts(shop.halves, ["seen"], shop.built(length="20m")),
    ),
    Change("column", lambda shop: shop.built(), lambda shop: shop.built(columns=AFTER)),
]


def begun(shop: Shop, change: Change) -> None:
    """Two of the files have been read before the change."""
    shop.folder.mkdir()
    for number in (0, 1):
        write(shop.folder, number)
    shop.run(change.before(shop), keep_open=True)
    write(shop.folder, 2)


def finished(shop: Shop, change: Change) -> bool:
    """Run to the end, by the topology that the checkpoint has now; returns whether that is the new one."""
    try:
        shop.run(change.before(shop))
    except CheckpointError as error:
        if "belongs to another topology" not in error.what:
            raise
        shop.run(change.after(shop))
        return True
    return False


class Interrupted:
    """Something that happens before the n-th operation of this process on the store; 0: never."""

    def __init__(self, at: int, happens: Callable[[], object], operations: tuple[str, ...] = CHANGING) -> None:
        self.at, self.happens, self.operations = at, happens, operations
        self.seen, self.busy = 0, False

    def __enter__(self) -> Interrupted:
        self.patches = ExitStack()
        for owner, name in [*((object_store, name) for name in self.operations), (FileSegments, "writer")]:
            self.patches.enter_context(patch.object(owner, name, self._with(getattr(owner, name))))
        return self

    def __exit__(self, *_: object) -> None:
        self.patches.close()

    def _with(self, operation: Any) -> Any:
        def instead(*given: Any, **named: Any) -> Any:
            if not self.busy:
                self.seen += 1
                if self.seen == self.at:
                    self.busy = True
                    try:
                        self.happens()
                    finally:
                        self.busy = False
            return operation(*given, **named)

        return instead
