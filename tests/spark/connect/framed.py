"""Counts over a streaming DataFrame, also as a run that a test ends: ``... framed MASTER ORDERS FOLDER [how] ...``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

from topologies.run.options import Restart
from topologies.topology import Topology
from windbolt import RunOptions, TopologyBuilder, run_on_spark, sinks, spouts
from windowing import AggregateBolt
from windowing.aggregates import count

SCHEMA = "user string, amount double, ts timestamp"


def frame_of(spark: Any, orders: Any) -> Any:
    """The files of a folder as a stream, each a batch."""
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(orders))


def slowly(frame: Any, seconds: float) -> Any:
    """The rows of a stream, each part of them some time later."""

    def waiting(batches: Iterator[Any]) -> Iterator[Any]:
        import time

        for batch in batches:
            time.sleep(seconds)
            yield batch

    return frame.mapInArrow(waiting, SCHEMA)


def counts(spout: Any, out: Any, tasks: int = 2) -> Topology:
    """How many orders each user has in twenty seconds."""
    builder = TopologyBuilder("counts")
    builder.set_spout("orders", spout)
    bolt = AggregateBolt(by="user", n=count()).with_tumbling_window("20s").with_timestamp_field("ts")
    builder.set_bolt("counts", bolt, tasks).fields_grouping("orders", "user")
    builder.set_sink("out", out).from_("counts")
    return builder.build()


def main(master: str, orders: str, folder: str, *how: str) -> None:
    """Run to the end of the input; ``restart``: and start again after what passes by itself; ``open``: without closing
    the windows."""
    spout = spouts.stream(partial(frame_of, orders=orders), SCHEMA)
    restart = Restart(initial_backoff="1s") if "restart" in how else None
    options = RunOptions(f"{folder}/ck", restart=restart, keep_open="open" in how)
    run_on_spark(counts(spout, sinks.files(f"{folder}/out", "jsonl")), options, master=master)


if __name__ == "__main__":
    main(*sys.argv[1:])
