"""A key that goes quiet leaves no state behind."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from manager.storage.checkpoint import MemoryCheckpoint
from topologies.engine.batch import BatchPlan, InProcessExecutor, TimeAdvance
from topologies.engine.micro_batch import MicroBatch
from topologies.engine.source_splits import TableSource
from windbolt import TopologyBuilder, sinks, spouts
from windowing import TupleWindow, WindowedBolt, presets
from windowing.schema import EmittedRows
from windowing.settings.kinds import Session
from windowing.settings.panes import Panes

KEYS = 5_000
AZURE = presets.azure(out_of_order="1s", late="10s", early=None, arrival_field="at")
BOLTS: dict[str, Callable[[WindowedBolt], WindowedBolt]] = {
    "windows": lambda bolt: bolt.with_tumbling_window("10s").with_key("user"),
    "sessions": lambda bolt: bolt.with_time(presets.atlas("1s")).with_window(Session("5s")).with_key("user"),
    "substreams": lambda bolt: bolt.with_time(AZURE).with_tumbling_window("10s").with_key("user")
    .with_watermark(per_key=True),
    "panes": lambda bolt: bolt.with_time(presets.atlas("1s")).with_tumbling_window("10s").with_key("user")
    .with_trigger(Panes(early=1, mode="retracting")),
}  # fmt: skip


class Count(WindowedBolt):
    outputs = "n long"

    def execute(self, window: TupleWindow) -> EmittedRows:
        return (len(window),)


@pytest.mark.feature("AZ-15")
@pytest.mark.parametrize("name", BOLTS)
def test_what_is_kept_is_of_the_keys_that_live(name: str) -> None:
    builder = TopologyBuilder("quiet")
    builder.set_spout("events", spouts.memory("user long, ts long, at long"))
    bolt = BOLTS[name](Count()).with_timestamp_field("ts")
    builder.set_bolt("bolt", bolt, 2).fields_grouping("events", "user")
    builder.set_sink("out", sinks.discard()).from_("bolt")
    step = MicroBatch(builder.build(), MemoryCheckpoint(), InProcessExecutor())

    def run(number: int, users: np.ndarray, moment: int) -> None:
        times = np.full(len(users), moment)
        table = pa.table({"user": users, "ts": times, "at": times})
        step.run(BatchPlan(number, TimeAdvance(moment * 1_000), [TableSource("events", table, 0)]))

    run(0, np.arange(KEYS), 1_000)
    tasks = step.manifest.bolts["bolt"].tasks
    assert sum(ref.needed for task in tasks for ref in task.refs) == KEYS
    run(1, np.array([KEYS]), 100_000)  # one key moves time on for all
    run(2, np.array([KEYS]), 201_000)
    tasks = step.manifest.bolts["bolt"].tasks
    assert sum(ref.needed for task in tasks for ref in task.refs) == 1
    kept = [step.checkpoint.segments.read(ref).num_rows for task in tasks for _, _, ref in task.windows.rows()]
    assert sum(kept) <= 2, "what is kept beside events is of that key alone"
