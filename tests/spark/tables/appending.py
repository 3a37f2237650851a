"""A table of Delta Lake or Iceberg gets each batch once: in one session of the Spark that the format is built for.

``python -m tests.spark.tables.appending delta FOLDER [connect]``; test_tables.py starts it. It fails where a row is
missing or twice, and prints what it has tried.
"""

from __future__ import annotations

import builtins
import json
import os
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from pyspark.sql import SparkSession

from servers.spark import connect_server
from tests.helpers.spark_of import VERSIONS, settings
from tests.spark.tools import CONF, at_phase, crashed, in_order, run
from topologies.checkpoints.going_back import go_back
from topologies.checkpoints.paired_checkpoint import PairedCheckpoint
from topologies.run.options import RunOptions
from topologies.spark import tables
from topologies.spark.classic_session import open_session
from topologies.spark.connect_run import ConnectRun
from topologies.spark.runner import SparkRun
from topologies.topology import Topology
from windbolt import (
    AggregateBolt,
    CheckpointError,
    ConfigError,
    TopologyBuilder,
    WindowedBolt,
    sinks,
    spouts,
    state,
    windowed,
)
from windbolt.aggregates import count, sum, window_end

FILES = 5


def write_orders(folder: Path) -> None:
    """Two orders a second, a file a minute."""
    folder.mkdir()
    for minute in range(FILES):
        write_minute(folder, minute)


def write_minute(folder: Path, minute: int) -> Path:
    path = folder / f"{minute}.json"
    rows = [{"user": user, "amount": 1.5, "ts": f"2024-01-01T06:{minute:02}:{second:02}Z"}
            for second in range(0, 60, 10) for user in ("ann", "bob")]  # fmt: skip
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    os.utime(path, (1_600_000_000 + minute, 1_600_000_000 + minute))
    return path


class Total(WindowedBolt):
    """The revenue of a window; the checkpoint has its events, which can be repaired."""

    outputs = "user string, revenue double, until timestamp"

    def execute(self, window: Any) -> Any:
        """A row."""
        return window.column("user")[0], float(builtins.sum(window.column("amount"))), window.end


BOLT = AggregateBolt(by="user", orders=count(), revenue=sum("amount"), until=window_end())


def topology(spark: SparkSession, orders: Path, bolt: WindowedBolt = BOLT, **out: Any) -> Topology:
    stream = spark.readStream.schema("user string, amount double, ts timestamp").option("maxFilesPerTrigger", 1)
    builder = TopologyBuilder("revenue")
    builder.set_spout("orders", spouts.stream(stream.json(str(orders))))
    bolt = bolt.with_tumbling_window("20s").with_timestamp_field("ts")
    builder.set_bolt("revenue", bolt, parallelism=2).fields_grouping("orders", "user")
    for name, sink in out.items():
        builder.set_sink(name, sink).from_("revenue")
    return builder.build()


def main(format: str, folder: Path, over: str = "") -> None:
    """``over``: connect, for a session of a Connect server; a classic one without it."""
    warehouse = {"spark.sql.warehouse.dir": str(folder / "warehouse")}
    lake = {"spark.sql.catalog.lake.warehouse": str(folder / "lake")} if format == "iceberg" else {}
    conf = CONF | settings(format) | warehouse | lake
    if over:
        with connect_server(folder / "server", conf=conf) as server:
            remote = SparkSession.builder.remote(server.address).getOrCreate()
            tried(format, folder, remote, ConnectRun)
            remote.stop()  # it would ask the server for ten minutes
        return
    spark, _ = open_session("local[2]", conf)
    tried(format, folder, spark, SparkRun)
    spark.stop()


def tried(format: str, folder: Path, spark: SparkSession, kind: type[Any]) -> None:
    """``kind`` of a run in the session."""
    assert spark.version == VERSIONS[format], spark.version
    catalog = "lake." if format == "iceberg" else ""
    spark.sql(f"CREATE DATABASE IF NOT EXISTS {catalog}shop")
    if catalog:
        spark.sql("USE lake")  # a user need not name the catalog then, and what a refusal says to do has to
    orders, checkpoint, name = folder / "orders", folder / "checkpoint", "shop.revenue"
    write_orders(orders)
    expected = sinks.memory()
    run(topology(spark, orders, out=expected), folder / "expected")
    right = Counter(str(row) for row in spark.createDataFrame(expected.table).collect())

    def run_until(built: Topology, checkpoint: Path, crash: Any, **options: Any) -> None:
        crashed(kind(spark, built, RunOptions(str(checkpoint), **options)), crash)

    assert len(right) == right.total() == 2 * (3 * FILES + 1)

    def there() -> Counter[str]:
        rows = spark.table(name).where("note IS NULL").select("user", "orders", "revenue", "until").collect()
        return Counter(map(str, rows))

    built = topology(spark, orders, out=sinks.table(name, format=format))  # type: ignore[arg-type]
    kept: dict[str, Any] = {"keep_batches": 20}
    run_until(built, checkpoint, at_phase(0, "commit"), **kept)  # appended, and not committed
    spark.sql(f"ALTER TABLE {name} ADD COLUMN note string")
    spark.sql(f"INSERT INTO {name} VALUES ('eve', 1, 1.0, current_timestamp(), 'of somebody else')")
    run_until(built, checkpoint, at_phase(1, "sinks"), **kept)
    run_until(built, checkpoint, at_phase(2, "commit"), **kept)
    run_until(built, checkpoint, at_phase(3, "publish"), **kept)
    started = built.start(checkpoint, spark=spark, **kept)
    assert started.wait().batches > 0
    assert there() == right, there()
    assert started.frame().count() == right.total() + 1
    print("each row once, after three deaths")

    run(built, checkpoint, **kept)
    assert there() == right
    print("once more: nothing")

    done = go_back(PairedCheckpoint(str(checkpoint)), "0000000003")
    assert "has appended" in done.warnings[0], done.warnings
    with pytest.raises(CheckpointError, match="batches that come after the checkpoint") as refused:
        run(built, checkpoint, **kept)
    command = re.fullmatch(r"restore the table, then rerun: (.*) \(what .*", refused.value.do or "")
    assert command is not None
    print("going back is noticed:", command[1])
    spark.sql(command[1])
    assert 0 < there().total() < right.total()
    run_until(built, checkpoint, at_phase(4, "commit"), **kept)
    run(built, checkpoint, **kept)
    assert there() == right, there()
    print("each row once, after going back")
    if kind is ConnectRun:  # what follows is decided alike
        return

    go_back(PairedCheckpoint(str(checkpoint)), f"{FILES - 1:010}")  # its closing has appended the last windows
    later = write_minute(orders, FILES)
    with pytest.raises(CheckpointError, match="has 1 batches that come after the checkpoint"):
        run(built, checkpoint, **kept)
    later.unlink()
    assert there() == right, there()
    print("a closing that is gone back from is noticed")

    again = windowed(
        spark.readStream.table(name).where("note IS NULL").select("user", "revenue", "until"),
        AggregateBolt(by="user", revenue=sum("revenue")).with_tumbling_window("1d").with_timestamp_field("until"),
        checkpoint=folder / "from the table",
        sink=sinks.memory(),
    )
    assert again.wait().rows == right.total()
    assert sorted(tuple(row) for row in again.frame().collect()) == [(user, FILES * 6 * 1.5) for user in ("ann", "bob")]
    print("the table is read as a stream")

    one_by_one = {"maxFilesPerTrigger": 1, "streaming-max-files-per-micro-batch": 1}  # Delta's, Iceberg's
    frame = spark.readStream.options(**one_by_one).table(name).where("note IS NULL").select("user", "revenue", "until")
    builder, read = TopologyBuilder("reading"), sinks.memory()
    builder.set_spout("rows", spouts.stream(frame))
    builder.set_sink("out", read).from_("rows")
    reading = builder.build()
    for batch, phase in ((1, "commit"), (2, "ingest"), (2, "sinks")):
        run_until(reading, folder / "reading", at_phase(batch, phase))
    run(reading, folder / "reading")
    wanted = spark.table(name).where("note IS NULL").select("user", "revenue", "until").toArrow().to_pylist()
    assert in_order(read.rows) == in_order(wanted)
    assert len(read.batches) > 3
    print("each row of the table is read once, after three deaths")

    run(built, folder / "another checkpoint")
    assert there() == right + right
    print("another checkpoint appends its own")

    totals = topology(spark, orders, Total().with_key("user"), out=sinks.table("shop.totals", format=format))  # type: ignore[arg-type]
    run_until(totals, folder / "begun", at_phase(2, "commit"))
    events = state.read(folder / "begun", "revenue").to_pandas("events")
    state.repair(folder / "begun", folder / "repaired", {"revenue": events.assign(amount=100.0)})
    with pytest.raises(CheckpointError, match="has 1 batches that come after the checkpoint") as refused:
        run(totals, folder / "repaired")
    spark.sql((refused.value.do or "").removeprefix("restore the table, then rerun: ").partition(" (what ")[0])
    run(totals, folder / "repaired")
    revenue = spark.table("shop.totals").groupBy("user").sum("revenue").collect()
    before, now = 1.5 * len(events) / 2, 100.0 * len(events) / 2
    assert {row[1] for row in revenue} == {FILES * 6 * 1.5 - before + now}, revenue
    print("rows of a repaired batch are not taken for those that are there")

    undone = topology(spark, orders, Total().with_key("user"), out=sinks.table("shop.undone", format=format))  # type: ignore[arg-type]
    run_until(undone, folder / "undone", at_phase(2, "commit"))
    if format == "delta":
        last = spark.sql("DESCRIBE HISTORY shop.undone LIMIT 1").collect()[0]["version"]
        spark.sql(f"RESTORE TABLE shop.undone TO VERSION AS OF {last - 1}")
    else:
        parent = spark.sql("SELECT parent_id FROM shop.undone.snapshots ORDER BY committed_at DESC LIMIT 1").collect()
        spark.sql(f"CALL lake.system.rollback_to_snapshot('shop.undone', {parent[0][0]})")
    with patch.object(tables, "_RECENT_COMMITS", 1):
        run_until(undone, folder / "undone", at_phase(2, "commit"))
    run(undone, folder / "undone")
    assert spark.table("shop.undone").count() == spark.table("shop.totals").count()
    print("a batch that somebody has undone is appended again")

    if format == "iceberg":
        expired = topology(spark, orders, Total().with_key("user"), out=sinks.table("shop.expired", format="iceberg"))
        run_until(expired, folder / "expired", at_phase(2, "commit"))
        spark.sql("INSERT INTO shop.expired VALUES ('eve', 1.0, current_timestamp())")
        there_before = spark.table("shop.expired").count()
        spark.sql(
            "CALL lake.system.expire_snapshots(table => 'shop.expired', "
            "older_than => TIMESTAMP '2100-01-01 00:00:00', retain_last => 1)"
        )
        with pytest.raises(CheckpointError, match="has the batch that comes next is not known"):
            run(expired, folder / "expired")
        assert spark.table("shop.expired").count() == there_before
        print("a batch whose snapshot may be expired is not appended again")

    spark.sql(f"CREATE TABLE {catalog}shop.other (user string, orders int) USING {format}")
    for wrong, why in (("other", "column 'orders' of the table"), ("nothing", "there is no table")):
        with pytest.raises(ConfigError, match=why):
            run(topology(spark, orders, out=sinks.table(f"{catalog}shop.{wrong}")), folder / "wrong")
    print("what does not fit is refused")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])
