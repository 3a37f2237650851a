"""Counts over a streaming DataFrame, also as a run that a test ends: ``... framed ADDRESS ORDERS FOLDER [restart]``."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

from topologies import RunOptions, TopologyBuilder, run_on_spark, sinks, spouts
from topologies.run.options import Restart
from topologies.topology import Topology
from windowing import AggregateBolt
from windowing.aggregates import count

SCHEMA = "user string, amount double, ts timestamp"


def frame_of(spark: Any, orders: Any) -> Any:
    """The files of a folder as a stream, each a batch."""
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(orders))


def counts(spout: Any, out: Any, tasks: int = 2) -> Topology:
    """How many orders each user has in twenty seconds."""
    builder = TopologyBuilder("counts")
    builder.set_spout("orders", spout)
    bolt = AggregateBolt(by="user", n=count()).with_tumbling_window("20s").with_timestamp_field("ts")
    builder.set_bolt("counts", bolt, tasks).fields_grouping("orders", "user")
    builder.set_sink("out", out).from_("counts")
    return builder.build()


def main(address: str, orders: str, folder: str, how: str = "") -> None:
    """Run to the end of the input; ``restart``: and start again after what passes by itself."""
    spout = spouts.stream(partial(frame_of, orders=orders), SCHEMA)
    options = RunOptions(f"{folder}/ck", restart=Restart(initial_backoff="1s") if how else None)
    run_on_spark(counts(spout, sinks.files(f"{folder}/out", "jsonl")), options, master=address)


if __name__ == "__main__":
    main(*sys.argv[1:])
