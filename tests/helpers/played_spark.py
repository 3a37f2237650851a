"""Spark, played: its logs of a query over files, and how it continues from them; runs take milliseconds, and no Java.

It reads its logs as Spark does, but that a batch is one file whatever died, and checks nothing, so that what damage
comes through the checks of the checkpoint shows in the rows. What it plays is held against Spark in
tests/spark/crashes/test_damage_on_spark.py.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from manager.storage.manifest import batch_key
from topologies.checkpoints.checkpointed_run import open_checkpoint
from topologies.checkpoints.paired_checkpoint import PairedCheckpoint, naming_a_way_back
from topologies.checkpoints.spark_checkpoint import SourceLog
from topologies.engine.batch import BatchPlan, InProcessExecutor, TimeAdvance
from topologies.engine.micro_batch import MicroBatch
from topologies.engine.source_splits import file_splits
from topologies.topology import Topology

COMPACT_EVERY = 4
"""Spark: 10."""
_CLOCK = 1_700_000_000_000_000


class PlayedRun:
    """A run of a topology with one spout of files, a file a batch, on a checkpoint."""

    def __init__(self, topology: Topology, checkpoint: Path) -> None:
        self.topology, self.halves, self.root = topology, PairedCheckpoint(str(checkpoint)), checkpoint / "spark"
        self.halves.lock.take()
        try:
            with naming_a_way_back(self.halves):
                self.checkpoint = open_checkpoint(self.halves, topology).checkpoint
                self.micro_batch = MicroBatch(topology, self.checkpoint, InProcessExecutor())
        except BaseException:
            self.halves.lock.release()
            raise
        (self.spout,) = topology.spouts
        self.log = SourceLog(self.halves.filesystem, self.halves.spark_checkpoint.root, (self.spout,), ())

    def run(self, files: Path, *, keep_open: bool = False) -> None:
        """Read the files that are new, one a batch, and close."""
        try:
            with naming_a_way_back(self.halves):
                before = self.micro_batch.manifest
                if not before.closing and self.checkpoint.planned(batch_key(before.batch, True)):
                    self._close()
                self._batches(files)
                if not keep_open:
                    self._close()
                self.micro_batch.tidy()
        finally:
            self.halves.lock.release()

    def _batches(self, files: Path) -> None:
        if not (self.root / "metadata").exists():
            self._write("metadata", json.dumps({"id": "a-query"}))
        planned, committed = self._last("offsets"), self._last("commits")
        if planned > committed:
            self._batch(planned)
            committed = planned
        entries, latest = self._entries()
        seen = {entry["path"] for entry in entries}
        number = max(planned, committed) + 1
        for logged in range(self._logged(planned) + 1, latest + 1):  # noted by a run that died before it planned
            self._plan(number, logged)
            number += 1
        for path in sorted(files.iterdir()):
            entry = {"path": f"file://{path}", "timestamp": int(path.stat().st_mtime * 1000), "batchId": latest + 1}
            if entry["path"] in seen:
                continue
            latest += 1
            entries.append(entry)
            compact = (latest + 1) % COMPACT_EVERY == 0
            lines = [json.dumps(each) for each in (entries if compact else [entry])]
            self._write(f"sources/0/{latest}{'.compact' if compact else ''}", "\n".join(["v1", *lines]))
            self.micro_batch.hook("logged")
            self._plan(number, latest)
            number += 1

    def _plan(self, number: int, logged: int) -> None:
        self._write(f"offsets/{number}", "\n".join(["v1", '{"batchWatermarkMs":0}', f'{{"logOffset":{logged}}}']))
        self.micro_batch.hook("planned")
        self._batch(number)

    def _logged(self, planned: int) -> int:
        if planned < 0:
            return -1
        return int(json.loads((self.root / f"offsets/{planned}").read_text().split("\n")[2])["logOffset"])

    def _batch(self, number: int) -> None:
        if not self.micro_batch.done(number):
            key = batch_key(number, False)
            drafted: dict[str, Any] = {"clock": _CLOCK + number, "files": self.log.files(number)}
            plan, _ = self.checkpoint.plan(key, drafted)
            splits = file_splits(self.topology, [(spout, path) for spout, path in plan["files"]], 2)
            ready = BatchPlan(number, TimeAdvance(plan["clock"]), splits)
            self.micro_batch.run(ready, query=self.halves.spark_checkpoint.query())
        self._write(f"commits/{number}", 'v1\n{"nextBatchWatermarkMs":0}')

    def _close(self) -> None:
        before = self.micro_batch.manifest
        if not before.closing:
            plan, _ = self.checkpoint.plan(batch_key(before.batch, True), {"clock": _CLOCK + before.batch})
            ready = BatchPlan(before.batch, TimeAdvance(plan["clock"], close=True), closing=True)
            self.micro_batch.run(ready, query=self.halves.spark_checkpoint.query())

    def _entries(self) -> tuple[list[dict[str, Any]], int]:
        """All files that have been read, from the last file of the log that holds all before it."""
        folder = self.root / "sources/0"
        names = {} if not folder.exists() else {int(name.split(".")[0]): name for name in _seen(folder)}
        latest = max(names, default=-1)
        compact = [number for number, name in names.items() if name.endswith(".compact")]
        lines = [
            line
            for number in range(max(compact, default=0), latest + 1)
            for line in (folder / names[number]).read_text().split("\n")[1:]
        ]
        return [json.loads(line) for line in lines], latest

    def _last(self, folder: str) -> int:
        path = self.root / folder
        return max(map(int, _seen(path)), default=-1) if path.exists() else -1

    def _write(self, name: str, text: str) -> None:
        path, data = self.root / name, text.encode()
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.tmp")
        draft.write_bytes(data)
        sums = [struct.pack(">I", zlib.crc32(data[at : at + 512])) for at in range(0, len(data), 512)]
        path.with_name(f".{path.name}.crc").write_bytes(b"crc\0" + struct.pack(">i", 512) + b"".join(sums))
        os.rename(draft, path)


class Stepping(Protocol):
    """A run, by its micro-batches."""

    micro_batch: MicroBatch


class Died(Exception):
    """Stands for the end of the process."""


def die_at(phase: str, batch: int) -> Callable[[Stepping], None]:
    """Make a run die as a phase of a batch begins."""

    def prepare(run: Stepping) -> None:
        def hook(reached: str) -> None:
            if reached == phase and run.micro_batch.manifest.batch >= batch - (reached != "committed"):
                raise Died(phase)

        run.micro_batch.hook = hook

    return prepare


def _seen(folder: Path) -> list[str]:
    return [name for name in os.listdir(folder) if not name.startswith(".")]
