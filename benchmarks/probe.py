"""The client of the latency benchmark, in a process of its own: ``python -m benchmarks.probe TASK``, the task as JSON.

Moves one file after the other into a folder, and looks every two milliseconds whether the rows that it brings about are
to be seen in the folder of the sink. Prints, as JSON, the milliseconds from the one to the other for each file.

A row is to be seen once its file has its published name, and, where the sink is Spark's, once the log of the sink names
the file: before that a reader of the folder is not to take it.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import pyarrow as pa
import pyarrow.parquet as pq

POLL = 0.002
PATIENCE = 120.0
"""Seconds to wait for a window."""
PAUSE = 0.2
"""After a window has been seen the next file comes within this many seconds, at random."""


class PublishedFiles:
    """The Parquet files in a folder, but hidden ones."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.known: set[str] = set()

    def new(self) -> Iterator[Path]:
        """Those that were not there before."""
        if not self.folder.exists():
            return
        for entry in os.scandir(self.folder):
            if entry.name not in self.known and entry.name.endswith(".parquet") and entry.name[0] not in "._":
                self.known.add(entry.name)
                yield Path(entry.path)


class LoggedFiles:
    """The Parquet files that the log of a sink of Spark's names."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "_spark_metadata"
        self.known: set[str] = set()

    def new(self) -> Iterator[Path]:
        """Those that were not named before."""
        if not self.log.exists():
            return
        for entry in os.scandir(self.log):
            number = entry.name.removesuffix(".compact")  # every tenth has those before it once more
            if number.isdigit() and number not in self.known:
                self.known.add(number)
                for line in Path(entry.path).read_text().splitlines()[1:]:
                    path = unquote(urlparse(json.loads(line)["path"]).path)
                    if path not in self.known:
                        self.known.add(path)
                        yield Path(path)


def main() -> None:
    """Feed and look."""
    task: dict[str, Any] = json.loads(sys.argv[1])
    chance = random.Random(task["seed"])
    sink = Path(task["sink"])
    files = LoggedFiles(sink) if task["logged"] else PublishedFiles(sink)
    whole: dict[int, int] = {}
    spent: list[float] = []
    for number, path in enumerate(sorted(Path(task["ready"]).glob("*.parquet"))):
        time.sleep(chance.uniform(0, PAUSE))
        os.utime(path)
        started = time.perf_counter()
        os.rename(path, Path(task["input"], path.name))
        if number == 0:
            continue  # it fires nothing: the watermark does not pass its window
        window = task["first"] + number  # the end, in seconds, of the window that the file before it filled
        while whole.get(window, 0) < task["rows"]:
            seen = time.perf_counter()
            for found in files.new():
                count(found, whole)
            if whole.get(window, 0) >= task["rows"]:
                spent.append((seen - started) * 1e3)
            elif seen - started > PATIENCE:
                raise SystemExit(f"window {window} has {whole.get(window, 0)} events of {task['rows']}")
            else:
                time.sleep(POLL)
    print(json.dumps(spent))


def count(path: Path, whole: dict[int, int]) -> None:
    """Add the events of the windows in a file of results."""
    table = pq.read_table(path, columns=["until", "events"])
    ends = table.column("until").cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_pylist()
    for end, events in zip(ends, table.column("events").to_pylist(), strict=True):
        whole[end // 1_000_000] = whole.get(end // 1_000_000, 0) + events


if __name__ == "__main__":
    main()
