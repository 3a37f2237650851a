"""What a cluster cannot run, and what is said of it: ``refused.py SHARED PRIVATE MASTER``, as a list in JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pyarrow as pa
from app import make  # type: ignore[import-not-found]
from pyspark.sql import SparkSession

from windbolt import BatchBolt, RunOptions, Topology, TopologyBuilder, WindboltError, run_on_spark, sinks, spouts


def plain(orders: str, out: str, bolt: BatchBolt) -> Topology:
    builder = TopologyBuilder("plain")
    builder.set_spout("orders", spouts.files(orders, "user string", format="parquet"))
    builder.set_bolt("same", bolt).shuffle_grouping("orders")
    builder.set_sink("out", sinks.files(out)).from_("same")
    return builder.build()


class Same(BatchBolt):
    """Passes everything on."""

    outputs = "user string"

    def execute(self, batch: pa.Table) -> pa.Table:
        return batch


def main(shared: str, private: str, master: str) -> None:
    from computed import Computed  # type: ignore[import-not-found]
    from unlike import Unlike  # type: ignore[import-not-found]

    Path(private, "orders").mkdir()
    orders = f"{shared}/orders"
    tried = {
        "checkpoint": (make(shared, "refused"), f"{private}/checkpoint"),
        "input": (plain(f"{private}/orders", f"{shared}/refused/a", Same()), f"{shared}/refused/ck-a"),
        "sink": (plain(orders, f"{private}/out", Same()), f"{shared}/refused/ck-b"),
        "package": (plain(orders, f"{shared}/refused/c", Unlike()), f"{shared}/refused/ck-c"),
        "module": (plain(orders, f"{shared}/refused/d", Computed()), f"{shared}/refused/ck-d"),
    }
    said = {}
    spark = SparkSession.builder.master(master).getOrCreate()
    for name, (topology, checkpoint) in tried.items():
        try:
            run_on_spark(topology, RunOptions(checkpoint))
        except WindboltError as error:
            said[name] = str(error)
    left = [str(path) for folder in (shared, private) for path in Path(folder).rglob(".windbolt-probe*")]
    print(json.dumps({"said": said, "left": left}))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
