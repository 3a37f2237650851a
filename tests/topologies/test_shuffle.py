"""The shuffle grouping: how it shares events out to tasks."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from windbolt import TopologyBuilder, run_local, sinks, spouts
from windowing import TupleWindow, WindowedBolt
from windowing.schema import EmittedRows


class Ends(WindowedBolt):
    outputs = "task long, n long, until timestamp"

    def execute(self, window: TupleWindow) -> EmittedRows:
        return window.task, len(window), window.end


def test_a_shuffle_shares_out_many_small_files(tmp_path: Path) -> None:
    for number in range(40):
        pq.write_table(pa.table({"ts": [number * 1000 + 1]}), tmp_path / f"{number:02d}.parquet")
    builder, out = TopologyBuilder("small"), sinks.memory()
    builder.set_spout("events", spouts.files(tmp_path, "ts long", format="parquet"))
    bolt = Ends().with_tumbling_window("1h").with_timestamp_field("ts")
    builder.set_bolt("ends", bolt, parallelism=4).shuffle_grouping("events")
    builder.set_sink("out", out).from_("ends")
    run_local(builder.build())
    shares = {row["task"]: row["n"] for row in out.rows}
    assert sum(shares.values()) == 40
    assert len(shares) == 4
    assert max(shares.values()) < 25
