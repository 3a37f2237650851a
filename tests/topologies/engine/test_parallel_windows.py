"""Windows that are independent of each other are shared among workers: what comes out is as if one had fired them."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.examples import examples
from topologies.engine import ticking
from topologies.engine.batch import InProcessRunExecutor
from topologies.engine.report import BatchReport
from topologies.engine.task_data import Share
from topologies.io import sinks, spouts
from topologies.local import run_local
from topologies.topology import Topology
from windbolt import RunOptions, TopologyBuilder
from windowing import (
    AggregateBolt,
    BatchWindowedBolt,
    StatefulWindowedBolt,
    TopologyError,
    TupleWindow,
    WindowBatch,
    WindowedBolt,
)
from windowing.aggregates import count
from windowing.settings.kinds import Session


class Ids(WindowedBolt):
    """What is in each window, in several rows, and what is new and has left."""

    outputs: ClassVar[Any] = "until timestamp, id long"
    parallel_windows: ClassVar[bool] = True

    def execute(self, window: TupleWindow) -> Any:
        return [(window.end, int(number)) for number in (*window.column("id"), -len(window.new), -len(window.expired))]


class IdsAtOnce(BatchWindowedBolt):
    """The same number of rows for all windows at once."""

    outputs: ClassVar[Any] = "until timestamp, id long"
    parallel_windows: ClassVar[bool] = True

    def execute_all(self, windows: WindowBatch) -> Any:
        ends = pa.array(windows.window_ends[windows.index], pa.timestamp("us", "UTC"))
        return pa.table({"until": ends, "id": windows.table.column("id")}), windows.index


class Last(WindowedBolt):
    """The ids that came to one task, in their order."""

    outputs: ClassVar[Any] = "ids array<long>"

    def execute(self, window: TupleWindow) -> Any:
        return [(window.column("id").tolist(),)]


def topology(folder: Path, bolts: Sequence[WindowedBolt], taken: list[sinks.MemorySink]) -> Topology:
    """Each bolt, and behind each two tasks that get its rows in turns."""
    builder = TopologyBuilder("parallel")
    builder.set_spout("events", spouts.files(f"{folder}/*.parquet", "id long, ts timestamp", files_per_batch=1))
    for number, bolt in enumerate(bolts):
        name, last = f"bolt{number}", f"last{number}"
        builder.set_bolt(name, bolt.with_timestamp_field("ts")).global_grouping("events")
        builder.set_bolt(last, Last().with_tumbling_window("4s"), 2).shuffle_grouping(name)
        for component in (name, last):
            taken.append(sinks.memory())
            builder.set_sink(f"of-{component}", taken[-1]).from_(component)
    return builder.build()


def answer(folder: Path, bolts: Sequence[WindowedBolt], slots: int) -> tuple[Any, ...]:
    """All rows in order, and the reports without what differs from run to run."""
    taken = list[sinks.MemorySink]()
    reports: list[BatchReport] = []
    slotted, eager = patch.object(InProcessRunExecutor, "slots", slots), patch.object(ticking, "_LEAST_SHARED", 0)
    with tempfile.TemporaryDirectory() as checkpoint, slotted, eager:
        run_local(topology(folder, bolts, taken), RunOptions(checkpoint=checkpoint, on_report=reports.append))
    return [sink.rows for sink in taken], [report.bolts for report in reports]


def write(folder: Path, batches: list[list[int]]) -> None:
    """Events at these seconds, a file each batch."""
    number = 0
    for index, times in enumerate(batches):
        ids = np.arange(number, number + len(times))
        number += len(times)
        ts = pa.array(np.array(times, np.int64) * 500_000, pa.timestamp("us", "UTC"))
        pq.write_table(pa.table({"id": ids, "ts": ts}), folder / f"{index:03d}.parquet")


BOLTS = [
    Ids().with_window("2s", "1s"),
    Ids().with_window("3s", "1s").with_alignment(bounds="[start, end)").with_lag("1s"),
    Ids().with_window("1s", "2s"),
    Ids().with_tumbling_window(3),
    Ids().with_window(4, "1s"),
    IdsAtOnce().with_window("2s", "1s"),
]


@examples(40, by_default=20)
@given(
    st.lists(st.lists(st.integers(0, 40), min_size=1, max_size=12), min_size=1, max_size=4),
    st.integers(2, 30),
)
def test_what_comes_out_is_the_same_by_however_many_workers(batches: list[list[int]], slots: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), batches)
        assert answer(Path(folder), BOLTS, slots) == answer(Path(folder), BOLTS, 1)


def test_windows_are_shared(tmp_path: Path) -> None:
    write(tmp_path, [list(range(40)), [60]])
    seen: list[int] = []
    share = Share.of

    def watched(self: Share, firings: Any) -> Any:
        mine = list(share(self, firings))
        seen.append(len(mine))
        return mine

    with patch.object(Share, "of", watched):
        answer(tmp_path, [Ids().with_window("2s", "1s")], 3)
    assert max(seen) >= 6
    assert sum(1 for windows in seen if windows >= 6) >= 3


@given(st.integers(0, 30), st.integers(1, 9))
def test_the_shares_of_what_is_due_are_the_whole_in_order(due: int, number: int) -> None:
    parts = [list(Share(index, number).of(iter(range(due)))) for index in range(number)]
    assert [each for part in parts for each in part] == list(range(due))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@pytest.mark.parametrize(
    "bolt",
    [
        Ids().with_window(Session("2s")),
        Ids().with_window("2s", "1s").with_lateness(by="window", allowed="1s"),
        type("Sums", (AggregateBolt,), {"parallel_windows": True})(n=count()).with_window("2s", "1s"),
    ],
)
def test_windows_of_other_kinds_stay_with_one_worker(bolt: WindowedBolt) -> None:
    builder = TopologyBuilder("parallel")
    builder.set_spout("events", spouts.memory("id long, ts timestamp"))
    builder.set_bolt("bolt", bolt.with_timestamp_field("ts")).global_grouping("events")
    assert not builder.build().windowed["bolt"].can_share_windows


def test_a_bolt_with_state_cannot_have_parallel_windows() -> None:
    class Stateful(StatefulWindowedBolt):
        parallel_windows = True

        def execute(self, window: TupleWindow) -> None:
            return None

    with pytest.raises(TopologyError, match="has parallel_windows, and a state") as caught:
        built(Stateful())
    assert "leave parallel_windows out" in str(caught.value)


def test_parallel_windows_is_a_yes_or_a_no() -> None:
    class Wrong(Ids):
        parallel_windows: ClassVar[Any] = 4

    with pytest.raises(TopologyError, match=r"parallel_windows = 4.*write True or False"):
        built(Wrong())


def built(bolt: WindowedBolt) -> Topology:
    builder = TopologyBuilder("parallel")
    builder.set_spout("events", spouts.memory("id long, ts timestamp"))
    builder.set_bolt("bolt", bolt.with_tumbling_window("1s").with_timestamp_field("ts")).global_grouping("events")
    return builder.build()
