"""Races of two runs for one checkpoint in an object store: ``python -m tests.helpers.races --races 1000``.

Two threads run the same topology on the same checkpoint, the second a moment after the first. However their requests
meet, no step is reported by both, the sink holds what one run alone writes, and every segment that a manifest names is
there. A third run, after them, finds nothing to do, unless both were stopped.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Protocol

from manager.storage.manifest import batch_key
from servers.s3 import S3, s3_server
from topologies.checkpoints.paired_checkpoint import PairedCheckpoint, whole_batches
from topologies.engine.report import BatchReport
from topologies.local import run_local
from topologies.run.options import RunOptions
from topologies.topology import Topology
from windbolt import AggregateBolt, TopologyBuilder, seconds, sinks, spouts
from windbolt.aggregates import count, sum, window_end
from windowing.errors import CheckpointError

FILES, ROWS = 3, 12


class Store(Protocol):
    """Where the runs keep their checkpoints and write their files."""

    def uri(self, key: str, /) -> str: ...
    def names(self) -> list[str]: ...
    def body(self, key: str, /) -> bytes: ...


def topology(files: str, out: str) -> Topology:
    """Sums by key, from files into files: a batch of each file, and the closing."""
    builder = TopologyBuilder("race")
    schema = "user string, amount double, ts timestamp"
    builder.set_spout("in", spouts.files(f"{files}/*.jsonl", schema=schema, files_per_batch=1))
    sums = AggregateBolt(by="user", n=count(), total=sum("amount"), until=window_end())
    bolt = sums.with_window(seconds(10)).with_timestamp_field("ts")
    builder.set_bolt("sums", bolt, parallelism=2).fields_grouping("in", "user")
    builder.set_sink("out", sinks.files(out, format="jsonl")).from_("sums")
    return builder.build()


def write_input(folder: str) -> None:
    """The files of the input."""
    for number in range(FILES):
        with open(f"{folder}/{number}.jsonl", "w", encoding="utf-8") as file:
            for row in range(ROWS):
                ts = f"2024-01-01T00:{number:02d}:{row:02d}Z"
                file.write(json.dumps({"user": f"u{row % 3}", "amount": float(number + row), "ts": ts}) + "\n")


@dataclass
class Driver:
    """One of the runs, and what came of it."""

    topology: Topology
    checkpoint: str
    steps: list[str] = field(default_factory=list)
    """The keys of the batches that it has reported as committed."""
    error: CheckpointError | None = None

    def run(self) -> None:
        """Run to the end of the input, or until another run has taken the checkpoint."""
        try:
            run_local(self.topology, RunOptions(checkpoint=self.checkpoint, on_report=self._note))
        except CheckpointError as error:
            self.error = error

    def _note(self, report: BatchReport) -> None:
        self.steps.append(batch_key(report.batch, report.closing))

    @property
    def taken_over(self) -> bool:
        """Whether it was stopped by the other, and said so."""
        return self.error is not None and "has been taken over by process" in self.error.what


def published(store: Store, folder: str) -> dict[str, bytes]:
    """The files of a sink; drafts, which a run that was stopped leaves for the next one to delete, are hidden."""
    found = (name for name in store.names() if name.startswith(f"{folder}/batch-"))
    return {name.removeprefix(f"{folder}/"): store.body(name) for name in found}


def judge(store: Store, name: str, drivers: list[Driver], expected: dict[str, bytes]) -> None:
    """That the runs together have done what one alone does."""
    for driver in drivers:
        assert driver.error is None or driver.taken_over, driver.error
    twice = [step for step, times in Counter(step for driver in drivers for step in driver.steps).items() if times > 1]
    assert not twice, f"committed twice: {twice}"
    found = published(store, f"{name}/out")
    # A batch that the loser had half noted may be left empty, and the numbers after it are then one higher.
    same = [found[file] for file in sorted(found)] == [expected[file] for file in sorted(expected)]
    assert same, f"{name}: {sorted(found)}, of other rows or other batches than {sorted(expected)}"
    halves = PairedCheckpoint(store.uri(f"{name}/ck"))
    kept = halves.documents.names("manifests")
    assert kept[-1].endswith("-close")
    assert list(whole_batches(halves)) == kept[::-1]


def race(store: Store, name: str, files: str, expected: dict[str, bytes], chance: random.Random) -> list[Driver]:
    """One race; returns the drivers."""
    made = topology(files, store.uri(f"{name}/out"))
    drivers = [Driver(made, store.uri(f"{name}/ck")) for _ in range(2)]
    threads = [threading.Thread(target=driver.run) for driver in drivers]
    threads[0].start()
    time.sleep(chance.random() * chance.choice([0.01, 0.3, 1.0]))
    threads[1].start()
    for thread in threads:
        thread.join()
    if all(driver.error for driver in drivers):
        drivers.append(Driver(made, store.uri(f"{name}/ck")))
        drivers[-1].run()
    judge(store, name, drivers, expected)
    return drivers


def alone(store: Store, files: str, name: str = "alone") -> dict[str, bytes]:
    """What a run without another one publishes."""
    driver = Driver(topology(files, store.uri(f"{name}/out")), store.uri(f"{name}/ck"))
    driver.run()
    assert driver.error is None
    return published(store, f"{name}/out")


def main(serving: Callable[[], AbstractContextManager[S3]] = s3_server) -> None:
    """Run races and say what came of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--races", type=int, default=100)
    parser.add_argument("--from", type=int, default=0, dest="first")
    parser.add_argument("--server", default="", help="the address of a server that is there already")
    asked = parser.parse_args()
    ends: Counter[str] = Counter()
    with nullcontext(S3(asked.server)) if asked.server else serving() as store, tempfile.TemporaryDirectory() as files:
        write_input(files)
        expected = alone(store, files, f"alone{asked.first}")
        for number in range(asked.first, asked.first + asked.races):
            drivers = race(store, f"race{number}", files, expected, random.Random(number))
            stopped = [at for at, driver in enumerate(drivers[:2]) if driver.error]
            ends[{(): "nobody", (0,): "the first", (1,): "the second", (0, 1): "both"}[tuple(stopped)]] += 1
            ends["steps of both"] += all(driver.steps for driver in drivers[:2])
    print(f"{asked.races} races; stopped: {dict(ends)}")


if __name__ == "__main__":
    main()
