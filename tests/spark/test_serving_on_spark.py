"""A run on Spark serves the metrics that its reports tell, and how far its sources are behind."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from servers.kafka import Kafka
from tests.helpers.scraping import Scrape, assert_as_reported, free_port, health, scrape, value, values
from tests.spark.kafka.kafka_shop import ORDERS, PARTITIONS, PER_BATCH, shop, some_orders
from tests.spark.shop import shop_in_memory
from tests.spark.tools import run
from tests.topologies.page.shown import state
from tests.topologies.page.shown import why as ask_why
from topologies.checkpoints.blocking_inputs import WhyReason
from topologies.checkpoints.why import why
from topologies.engine.report import BatchReport
from topologies.run import run_metrics
from topologies.run.attempts import SourceLag
from topologies.run.run_metrics import records_behind
from topologies.run.summary import Summary


def test_a_run_serves_what_its_report_says(spark: SparkSession, orders: Path, tmp_path: Path) -> None:
    topology, _ = shop_in_memory(orders)
    during: list[tuple[BatchReport, Scrape]] = []
    with free_port() as port:
        summary = run(
            topology,
            tmp_path / "ck",
            serve_metrics=port,
            keep_open=True,
            on_report=lambda report: during.append((report, scrape(port))),
        )
        found = scrape(port)
        assert health(port)[1]["topologies"]["shop"]["state"] == "finished"
    assert len(during) == 3
    for report, at_the_time in during:
        assert_as_reported(at_the_time, Summary(last=report))
    assert_as_reported(found, summary)
    counted = values(found, "windbolt_events_total", "bolt", "account")
    assert counted["revenue", "late"] > 0
    assert summary.last is not None
    for name, bolt in summary.last.bolts.items():
        fired = value(found, "windbolt_window_emit_delay_seconds_count", topology="shop", bolt=name)
        assert fired == bolt.fired > 0
    behind = value(during[0][1], "windbolt_source_lag", topology="shop", spout="orders", unit="files", partition="")
    assert behind == 2, "three files, of which the first is in the batch"

    again, _ = shop_in_memory(orders)
    begun: list[Scrape] = []
    with free_port() as port:
        run(
            again,
            tmp_path / "ck",
            serve_metrics=port,
            keep_open=True,
            on_begin=lambda before: begun.append(scrape(port)),
        )
        found = scrape(port)
    assert_as_reported(found, summary)
    assert value(found, "windbolt_batches_total", topology="shop") == 0, "all had been read"
    assert value(found, "windbolt_source_lag", topology="shop", spout="orders", unit="files", partition="") == 0


def test_a_checkpoint_of_spark_says_what_a_window_waits_for(spark: SparkSession, orders: Path, tmp_path: Path) -> None:
    topology, _ = shop_in_memory(orders)
    run(topology, tmp_path / "ck", keep_open=True)
    answer = why(tmp_path / "ck", "revenue")
    assert answer.reason is WhyReason.WATERMARK
    assert answer.waiting
    assert answer.needed is not None
    assert answer.watermark is not None
    assert answer.needed > answer.watermark
    assert [holder.input for holder in answer.holders] == ["taxed"]
    following = why(tmp_path / "ck", "best")
    told = " ".join(following.sentences)
    assert "is what bolt 'revenue' emits, and time there follows the watermark of 'revenue'" in told
    assert "For 'revenue': Input 'taxed' holds it, at 2024-05-01T12:02:53.058Z" in told


def test_records_of_a_real_broker_are_behind(
    spark: SparkSession, kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By partition: what the last batch that Spark has reported left in the topic. It reports a batch after its commit,
    so while a batch is told of, the lag is that after the one before it."""
    monkeypatch.setattr(run_metrics, "LAG_SECONDS", 0.0)
    monkeypatch.setattr(run_metrics, "_LAG_PAUSE_FACTOR", 0)
    topic = kafka.topic("orders", PARTITIONS)
    some_orders(kafka, topic)
    topology = shop(kafka, topic, kafka.topic("revenue"), kafka.topic("copies"))
    during: list[dict[tuple[str, ...], float]] = []

    def behind(port: int) -> dict[tuple[str, ...], float]:
        return values(scrape(port), "windbolt_source_lag", "spout", "unit", "partition")

    with free_port() as port:
        run(topology, tmp_path / "ck", serve_metrics=port, on_report=lambda report: during.append(behind(port)))
        during.append(behind(port))
    of_all = [("orders", "records", f"{topic}/{number}") for number in range(PARTITIONS)]
    left = [(ORDERS - PER_BATCH * batch) / PARTITIONS for batch in range(ORDERS // PER_BATCH + 1)]
    assert during[0] == {}, "Spark has not reported a batch yet"
    assert during[1 : len(left) - 1] == [dict.fromkeys(of_all, each) for each in left[1:-1]]
    assert during[-1] == dict.fromkeys(of_all, 0)


def test_records_are_behind_as_spark_reports() -> None:
    """Per partition, in the order of the query's sources; as a progress of Spark 4.1 has them."""
    files = SimpleNamespace(description="FileStreamSource[file:/in]", endOffset='{"logOffset":3}', latestOffset="null")
    orders = SimpleNamespace(
        description="KafkaV2[Subscribe[orders]]",
        endOffset='{"orders":{"0":5,"1":7}}',
        latestOffset='{"orders":{"0":9,"1":7,"2":4}}',
    )
    unknown = SimpleNamespace(description="KafkaV2[Subscribe[prices]]", endOffset="null", latestOffset="")
    assert records_behind([files, orders, unknown], ["orders", "prices"]) == [
        SourceLag("orders", "records", 4, "orders/0"),
        SourceLag("orders", "records", 0, "orders/1"),
        SourceLag("orders", "records", 4, "orders/2"),
    ]
    assert records_behind([files], ["orders", "prices"]) == [], "Spark has not reported them yet"


def test_the_page_of_a_run_says_what_its_report_says(spark: SparkSession, orders: Path, tmp_path: Path) -> None:
    topology, _ = shop_in_memory(orders)
    during: list[tuple[BatchReport, dict[str, Any]]] = []
    with free_port() as port:
        run(
            topology,
            tmp_path / "ck",
            serve_page=port,
            keep_open=True,
            on_report=lambda report: during.append((report, state(port))),
        )
        end = state(port)
        assert ask_why(port, bolt="revenue")[1]["reason"] == "watermark"
    assert len(during) == 3
    for report, seen in [*during, (during[-1][0], end)]:
        assert seen["batches"][-1]["rows"] == report.rows
        for name, bolt in report.bolts.items():
            assert seen["bolts"][name]["accounts"] == bolt.accounts
            assert seen["bolts"][name]["watermark"] == bolt.watermark
            assert {mark["input"]: mark["at"] for mark in seen["bolts"][name]["marks"]} == bolt.inputs
    assert end["now"]["state"] == "finished"
    late = [event for event in end["rejected_events"] if event["bolt"] == "revenue"]
    assert late, "they were recorded by workers"
    assert all(event["reason"] and event["watermark"] for event in late)
    assert sum(events for _, events in end["bolts"]["revenue"]["open"]["windows"]) > 0
