"""A process of the bytewax arm: ``python -m benchmarks.arms.bytewax_flow TASK``, the task as JSON.

Prints when the first event was read and when the last window was out, and the CPU time in between.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import bytewax.operators as op
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from bytewax.dataflow import Dataflow
from bytewax.inputs import FixedPartitionedSource, StatefulSourcePartition
from bytewax.operators.windowing import EventClock, SlidingWindower, TumblingWindower, fold_window
from bytewax.outputs import DynamicSink, StatelessSinkPartition
from bytewax.testing import run_main

from benchmarks.workloads import middle

_ROWS = 10_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Item = tuple[str, tuple[datetime, float]]


class Files(FixedPartitionedSource[Item, None]):
    """The files, in order, as one partition: in two an event of the one would be late by the other's clock."""

    def __init__(self, task: dict[str, Any]) -> None:
        self.task = task

    def list_parts(self) -> list[str]:
        """Called for the names of the partitions."""
        return ["files"]

    def build_part(self, step_id: str, for_part: str, resume_state: None) -> Reader:
        """Called to open one."""
        return Reader(self.task)


class Reader(StatefulSourcePartition[Item, None]):
    """Reads 10,000 rows at a time."""

    def __init__(self, task: dict[str, Any]) -> None:
        self.rows = self._rows(task)

    def next_batch(self) -> list[Item]:
        """Called for more; StopIteration at the end."""
        return next(self.rows)

    def snapshot(self) -> None:
        """Called for the state to recover from; none is kept."""

    def _rows(self, task: dict[str, Any]) -> Iterator[list[Item]]:
        keyed = task["kind"] != "medians"
        columns = ["event_time", "value", *(["key"] if keyed else [])]
        for path in sorted(Path(task["folder"]).glob("*.parquet")):
            table = pq.read_table(path, columns=columns)
            times = table.column("event_time").to_numpy().astype("datetime64[us]")
            values = table.column("value").to_numpy()
            if keyed:
                keys = table.column("key").to_numpy()
                mine = keys % task["parts"] == task["part"]
                times, values, keys = times[mine], values[mine], keys[mine]
            for at in range(0, len(times), _ROWS):
                moments = [each.replace(tzinfo=UTC) for each in times[at : at + _ROWS].tolist()]
                pairs = zip(moments, values[at : at + _ROWS].tolist(), strict=True)
                if keyed:
                    yield list(zip(map(str, keys[at : at + _ROWS].tolist()), pairs, strict=True))
                else:
                    yield [("all", pair) for pair in pairs]


class Results(DynamicSink[Any]):
    """Counts the rows, or keeps them."""

    def __init__(self, rows: list[Any] | None) -> None:
        self.rows = rows

    def build(self, step_id: str, worker_index: int, worker_count: int) -> Part:
        """Called for each worker."""
        return Part(self.rows)


class Part(StatelessSinkPartition[Any]):
    """One worker's."""

    def __init__(self, rows: list[Any] | None) -> None:
        self.rows = rows

    def write_batch(self, items: list[Any]) -> None:
        """Called with finished windows."""
        if self.rows is not None:
            self.rows.extend(items)


def add(state: list[float], item: tuple[datetime, float]) -> list[float]:
    """Count and sum."""
    state[0] += 1
    state[1] += item[1]
    return state


def append(state: list[float], item: tuple[datetime, float]) -> list[float]:
    """All values."""
    state.append(item[1])
    return state


def join(left: list[float], right: list[float]) -> list[float]:
    """For windows that merge; these do not."""
    return left + right


def flow_of(task: dict[str, Any], rows: list[Any] | None) -> Dataflow:
    """The dataflow of a workload."""
    flow = Dataflow("benchmark")
    events = op.input("events", flow, Files(task))
    # The clock would add the time that passes to the watermark, and a replay would lose events: it stands still.
    clock = EventClock(
        ts_getter=lambda item: item[0],
        wait_for_system_duration=timedelta(seconds=2),
        now_getter=lambda: _EPOCH,
        to_system_utc=lambda _: None,
    )
    length, second = timedelta(seconds=task["length"]), timedelta(seconds=1)
    windower = TumblingWindower(length, _EPOCH) if length == second else SlidingWindower(length, second, _EPOCH)
    statistics = task["kind"] == "statistics"
    builder: Callable[[], list[float]] = (lambda: [0, 0.0]) if statistics else list
    windows = fold_window(
        "windows", events, clock, windower, builder, add if statistics else append, join, ordered=False
    )
    op.output("out", op.map("row", windows.down, ROWS[task["kind"]](task["length"])), Results(rows))
    return flow


def statistics_row(length: int) -> Callable[[Any], tuple[Any, ...]]:
    """End, key, count, sum and mean of a window; its number counts slides since the epoch."""
    return lambda found: (found[1][0] + length, int(found[0]), *found[1][1], found[1][1][1] / found[1][1][0])


def middles_row(length: int) -> Callable[[Any], tuple[Any, ...]]:
    """End, key, count and middle."""
    return lambda found: (found[1][0] + length, int(found[0]), len(found[1][1]), middle(found[1][1]))


def medians_row(length: int) -> Callable[[Any], tuple[Any, ...]]:
    """End, count and median."""
    return lambda found: (found[1][0] + length, len(found[1][1]), float(np.median(found[1][1])))


ROWS = {"statistics": statistics_row, "middles": middles_row, "medians": medians_row}
NAMES = {
    "statistics": ("until", "key", "events", "total", "mean"),
    "middles": ("until", "key", "events", "middle"),
    "medians": ("until", "events", "median"),
}


def write(task: dict[str, Any], rows: list[Any]) -> None:
    """The rows that are due, as a file: at the end of the input bytewax closes all windows."""
    due = [row for row in rows if row[0] <= task["last_end"]]
    columns = dict(zip(NAMES[task["kind"]], zip(*due, strict=True), strict=True))
    columns["until"] = pa.array(np.array(columns["until"]) * 1_000_000).cast(pa.timestamp("us", "UTC"))
    columns["events"] = pa.array(map(int, columns["events"]), pa.int64())
    pq.write_table(pa.table(columns), task["keep"])


def cpu() -> float:
    """CPU-seconds of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Run, and report."""
    task = json.loads(sys.argv[1])
    rows: list[Any] | None = [] if task["keep"] else None
    flow = flow_of(task, rows)
    before, start = cpu(), time.monotonic()
    run_main(flow)
    report = {"start": start, "stop": time.monotonic(), "cpu": cpu() - before}
    if rows is not None:
        write(task, rows)
    print(json.dumps(report))


if __name__ == "__main__":
    main()
