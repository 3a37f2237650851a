"""The user's program: ``app.py SHARED NAME [WHAT [MASTER]]``; WHAT happens meanwhile, ``local`` is in this process."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time

from shopping.bolts import Revenue, Taxed  # type: ignore[import-not-found]

from windbolt import RunOptions, Topology, TopologyBuilder, run_local, run_on_spark, sinks, spouts


def make(shared: str, name: str, what: str = "") -> Topology:
    builder = TopologyBuilder("shop")
    schema = "user string, amount double, ts timestamp"
    builder.set_spout("orders", spouts.files(f"{shared}/orders/*.parquet", schema, files_per_batch=1))
    builder.set_bolt("taxed", Taxed()).shuffle_grouping("orders")
    revenue = Revenue(shared, what).with_window("20s", "10s").with_timestamp_field("ts").with_lag("5s")
    builder.set_bolt("revenue", revenue.with_late_tuple_stream("late"), parallelism=4).fields_grouping("taxed", "user")
    builder.set_sink("to-revenue", sinks.files(f"{shared}/{name}/revenue", "jsonl")).from_("revenue")
    builder.set_sink("to-late", sinks.files(f"{shared}/{name}/late", "jsonl")).from_("revenue", stream="late")
    return builder.build()


def die_when_it_happens(shared: str) -> None:
    while not os.path.exists(f"{shared}/happened"):
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGKILL)


def main(shared: str, name: str, what: str = "", master: str | None = None) -> None:
    if what == "driver":
        threading.Thread(target=die_when_it_happens, args=(shared,), daemon=True).start()
    options = RunOptions(f"{shared}/{name}/checkpoint")
    topology = make(shared, name, "" if what == "local" else what)
    summary = run_local(topology, options) if what == "local" else run_on_spark(topology, options, master=master)
    print(json.dumps({"rows": summary.rows, "batches": summary.batches}))


topology = make(os.environ.get("SHARED", ""), os.environ.get("NAME", ""), os.environ.get("WHAT", ""))
if __name__ == "__main__":
    main(*sys.argv[1:])
