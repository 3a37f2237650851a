"""Kafka over Spark Connect: this process reads and writes it, and what windows come to is Spark's work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from servers.kafka import Kafka
from tests.spark.kafka.kafka_shop import ORDERS, PARTITIONS, expected_revenue, once, said, shop, some_orders
from topologies.engine.report import BatchReport
from windbolt import RunOptions, run_on_spark


@pytest.mark.extended
def test_from_topic_to_topic_each_record_once(kafka: Kafka, session: Any, tmp_path: Path) -> None:
    """In two runs on a checkpoint, of which the first is stopped after some batches."""
    topic = kafka.topic("orders", PARTITIONS)
    orders = some_orders(kafka, topic)
    out, copies = kafka.topic("revenue"), kafka.topic("copies", PARTITIONS)
    built = shop(kafka, topic, out, copies)

    def stop(report: BatchReport) -> None:
        if report.batch == 1:
            first.stop.set()

    first = RunOptions(str(tmp_path / "ck"), on_report=stop)
    begun = run_on_spark(built, first, spark=session)
    assert begun.stopped
    ended = run_on_spark(built, RunOptions(str(tmp_path / "ck")), spark=session)
    assert begun.rows + ended.rows == ORDERS
    assert said(once(kafka.records(out))) == expected_revenue(orders)
    assert len(once(kafka.records(out, copies))) == len(kafka.records(out, copies))
