"""Tasks that have nothing to do are not fired: on Spark a batch in which none has is a job less."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pytest

from manager.storage.checkpoint import MemoryCheckpoint
from topologies.engine.batch import BatchPlan, Context, InProcessExecutor, TimeAdvance
from topologies.engine.micro_batch import MicroBatch
from topologies.engine.source_splits import TableSource
from windbolt import TopologyBuilder, sinks, spouts
from windowing import TupleWindow, WindowedBolt, micros
from windowing.schema import EmittedRows


class Size(WindowedBolt):
    outputs = "n long"

    def execute(self, window: TupleWindow) -> EmittedRows:
        return (len(window),)


class Noting(InProcessExecutor):
    """Notes the batches in which tasks fired."""

    def __init__(self) -> None:
        self.fired: list[int | None] = []

    def map(self, function: Callable[[Any, Context], Any], items: Sequence[Any], context: Context) -> list[Any]:
        if function.__name__ == "fire" and items:
            self.fired.append(context.batch)
        return super().map(function, items, context)


@pytest.mark.parametrize(
    ("bolt", "times", "fired"),
    [
        (Size().with_tumbling_window(4), range(1, 13), [3, 7, 11]),
        (Size().with_window(4, 3), range(1, 11), [2, 5, 8]),
        (Size().with_tumbling_window(micros(4)), range(1, 13), [3, 7, 11]),
        (Size().with_window(micros(6), micros(3)), range(1, 11), [2, 5, 8]),
        (Size().with_window(20, micros(4)), range(1, 13), [3, 7, 11]),
    ],
)
def test_a_task_fires_in_the_batches_that_bring_the_end_of_a_window(
    bolt: WindowedBolt, times: Sequence[int], fired: list[int]
) -> None:
    builder = TopologyBuilder("due")
    builder.set_spout("events", spouts.memory("ts timestamp"))
    builder.set_bolt("size", bolt.with_timestamp_field("ts")).global_grouping("events")
    builder.set_sink("out", sinks.discard()).from_("size")
    executor = Noting()
    step = MicroBatch(builder.build(), MemoryCheckpoint(), executor)
    for number, time in enumerate(times):
        table = pa.table({"ts": pa.array([time], pa.timestamp("us", "UTC"))})
        step.run(BatchPlan(number, TimeAdvance(0), [TableSource("events", table, number)]))
    assert [batch for batch in executor.fired if batch] == fired  # in the first it is not known what is due
