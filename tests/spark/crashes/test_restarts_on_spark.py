"""Runs on Spark that start again by themselves: a broker that goes away and comes back, an executor or Java killed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from servers.kafka import Kafka, RunningBroker, running_broker
from tests.helpers.places import ROOT
from tests.spark.crashes.restarting import shop
from tests.spark.kafka.kafka_shop import (
    ORDERS,
    PARTITIONS,
    PER_BATCH,
    SCHEMA,
    Copied,
    Revenue,
    expected_revenue,
    once,
    said,
    some_orders,
)
from tests.spark.tools import file_rows, run
from topologies.engine.report import BatchReport
from topologies.run.options import ComingRestart, Restart
from topologies.topology import Topology
from windbolt import TopologyBuilder, sinks, spouts

AT_ONCE = Restart(10, "100ms", "1s")
READING = {"kafka.default.api.timeout.ms": 3000, "kafka.request.timeout.ms": 2000, "kafkaConsumer.pollTimeoutMs": 6000}
WRITING = {"kafka.max.block.ms": 3000, "kafka.request.timeout.ms": 2000, "kafka.delivery.timeout.ms": 5000}


@pytest.fixture(scope="module")
def broker() -> Iterator[RunningBroker]:
    with running_broker() as running:
        yield running


def impatient_shop(servers: str, orders: str, revenue: str, copies: str) -> Topology:
    builder = TopologyBuilder("shop")
    spout = spouts.kafka(servers, orders, SCHEMA, records_per_batch=PER_BATCH, options=READING)
    builder.set_spout("orders", spout)
    bolt = Revenue().with_tumbling_window("20s").with_timestamp_field("ts").with_lag("10s")
    builder.set_bolt("revenue", bolt, 2).fields_grouping("orders", "user")
    builder.set_bolt("copied", Copied()).shuffle_grouping("orders")
    builder.set_sink("out", sinks.kafka(servers, revenue, options=WRITING)).from_("revenue")
    builder.set_sink("copies", sinks.kafka(servers, copies, options=WRITING)).from_("copied")
    return builder.build()


@pytest.mark.extended
@pytest.mark.usefixtures("spark")
def test_a_broker_goes_away_and_comes_back(broker: RunningBroker, tmp_path: Path) -> None:
    """It is killed after the first batch, and is there again before the third restart."""
    kafka = Kafka(broker.address)
    orders, out, copies = kafka.topic("orders", PARTITIONS), kafka.topic("revenue"), kafka.topic("copies", PARTITIONS)
    there = some_orders(kafka, orders)
    made = impatient_shop(broker.address, orders, out, copies)
    steps: list[int] = []
    coming: list[ComingRestart] = []

    def note(report: BatchReport) -> None:
        steps.append(report.batch)
        if len(steps) == 1:
            broker.stop()

    def heal(restart: ComingRestart) -> None:
        coming.append(restart)
        if restart.restarts == 3:
            broker.start()

    summary = run(made, tmp_path / "ck", restart=AT_ONCE, on_report=note, on_restart=heal)
    assert steps == [0, 1, 2, 2]
    assert summary.restarts == len(coming) == 3
    assert all("Kafka" in str(each.error) or "Spark" in str(each.error) for each in coming)
    assert said(once(kafka.records(out))) == expected_revenue(there)
    assert len(once(kafka.records(copies))) == ORDERS


@pytest.mark.extended
@pytest.mark.parametrize("whom", ["executor", "java"])
@pytest.mark.usefixtures("spark")
def test_what_is_killed_is_started_again(whom: str, orders: Path, tmp_path: Path) -> None:
    run(shop(str(orders), str(tmp_path / "calm/out")), tmp_path / "calm/ck")
    folder = tmp_path / "killed"
    folder.mkdir()
    script = [sys.executable, "-m", "tests.spark.crashes.restarting", str(orders), str(folder), whom]
    paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        script,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    *restarts, last = done.stdout.splitlines()
    assert (folder / "trap").exists()
    assert len(restarts) == 1, done.stdout
    assert ("Java was killed" if whom == "java" else "lost an executor") in restarts[0]
    assert last == "rows 180, restarts 1"
    assert file_rows(folder / "out") == file_rows(tmp_path / "calm/out")
