"""Whoever listens to Spark's queries learns what the rules of time found in each batch."""

from __future__ import annotations

import json
import logging
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
    StreamingQueryProgress,
)

from tests.spark.shop import shop_in_memory
from tests.spark.tools import at_phase, run, run_until
from topologies.engine.report import BatchReport
from topologies.spark.time_metrics import Reports, report_of
from windbolt import RunOptions, TimeMetrics, run_on_spark
from windowing.errors import DataError

Told = list[tuple[BatchReport, StreamingQueryProgress | None]]


@pytest.mark.feature("AZ-23", "AZ-24")
def test_each_batch_comes_with_what_spark_says_of_it(spark: SparkSession, orders: Path, tmp_path: Path) -> None:
    told: Told = []
    metrics = TimeMetrics(lambda report, progress: told.append((report, progress)))
    topology, _ = shop_in_memory(orders)
    reports: list[BatchReport] = []
    run_on_spark(topology, RunOptions(str(tmp_path / "ck"), on_report=reports.append), metrics=metrics)

    assert [report for report, _ in told] == reports, "the closing comes last, although Spark tells when it likes"
    assert [None if progress is None else progress.batchId for _, progress in told] == [0, 1, 2, None]
    assert metrics.last is reports[-1]
    revenue = told[2][0].bolts["revenue"]
    assert revenue.delay == told[2][0].clock - (revenue.watermark or 0)
    assert revenue.metrics["out_of_order"] == revenue.accounts["late"] > 0
    assert len({str(progress.runId) for _, progress in told if progress is not None}) == 1

    told.clear()
    run(topology, tmp_path / "ck")
    assert told == [], "after its run it hears no more"


@pytest.mark.feature("AZ-23", "AZ-24")
def test_a_listener_of_ones_own_can_ask(spark: SparkSession, orders: Path, tmp_path: Path) -> None:
    class Mine(StreamingQueryListener):
        def __init__(self) -> None:
            self.delays: list[int | None] = []
            self.strange = 0
            self.ended = threading.Semaphore(0)

        def onQueryStarted(self, event: QueryStartedEvent) -> None: ...  # noqa: N802

        def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
            report = report_of(event.progress)
            if report is None:
                self.strange += 1
            else:
                self.delays.append(report.bolts["revenue"].delay)

        def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
            self.ended.release()

    mine, reports = Mine(), list[BatchReport]()
    spark.streams.addListener(mine)
    try:
        topology, _ = shop_in_memory(orders)
        run(topology, tmp_path / "ck", on_report=reports.append, keep_open=True)
        other = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load().writeStream
        other.format("noop").option("checkpointLocation", str(tmp_path / "other")).trigger(availableNow=True).start()
        assert mine.ended.acquire(timeout=300)
        assert mine.ended.acquire(timeout=300)
    finally:
        spark.streams.removeListener(mine)
    assert mine.delays == [report.bolts["revenue"].delay for report in reports]
    assert None not in mine.delays
    assert mine.strange >= 1, "a query that is not windbolt's has no report"


def test_it_logs_a_line_of_json_without_a_function(
    spark: SparkSession, orders: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    topology, _ = shop_in_memory(orders, files_per_batch=None)
    with caplog.at_level(logging.INFO, "windbolt.metrics"):
        run_on_spark(topology, RunOptions(str(tmp_path / "ck")), metrics=TimeMetrics())
    batch, closing = [json.loads(record.getMessage()) for record in caplog.records]
    assert set(batch["query"]) == {"id", "runId", "name", "timestamp"}
    assert closing["query"] is None
    assert batch["bolts"]["revenue"]["watermark_delay_seconds"] > 0
    assert (batch["closing"], closing["closing"]) == (False, True)


def test_a_function_that_fails_does_not_stop_the_run(
    spark: SparkSession, orders: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(report: BatchReport, progress: StreamingQueryProgress | None) -> None:
        raise ZeroDivisionError("oh")

    topology, out = shop_in_memory(orders)
    run_on_spark(topology, RunOptions(str(tmp_path / "ck")), metrics=TimeMetrics(fail))
    assert out["best"].rows
    assert [record.getMessage() for record in caplog.records].count(
        "the function of TimeMetrics failed on batch 2"
    ) == 2


def test_a_batch_that_a_run_committed_as_it_died_is_not_told_of_but_counted_in_the_next(
    spark: SparkSession, orders: Path, tmp_path: Path
) -> None:
    topology, _ = shop_in_memory(orders)
    run_until(topology, tmp_path / "ck", at_phase(2, "committed"))
    told: Told = []
    metrics = TimeMetrics(lambda report, progress: told.append((report, progress)))
    run_on_spark(topology, RunOptions(str(tmp_path / "ck")), metrics=metrics)
    assert [(report.batch, report.closing) for report, _ in told][-1] == (2, True)
    assert [progress.batchId for _, progress in told if progress is not None] == [2]
    assert told[0][0].bolts["revenue"].accounts["received"] == 180


def test_a_run_that_fails_leaves_no_listener_behind(spark: SparkSession, orders: Path, tmp_path: Path) -> None:
    told: Told = []
    metrics = TimeMetrics(lambda report, progress: told.append((report, progress)))
    topology, _ = shop_in_memory(orders)
    with pytest.raises(DataError):
        run_on_spark(replace(topology, stop_on_invalid=True), RunOptions(str(tmp_path / "ck")), metrics=metrics)
    assert told == []
    run(topology, tmp_path / "another")
    assert told == []


def test_of_many_reports_the_latest_are_kept() -> None:
    reports = Reports(2)
    made = [BatchReport(number, False, 0, 0, {}, {}, {}) for number in range(4)]
    for report in made:
        reports.note("query", report)
    reports.note(None, made[0])
    reports.note("query", BatchReport(3, True, 0, 0, {}, {}, {}))
    assert [reports.get("query", number) for number in range(4)] == [None, None, *made[2:]]
    assert reports.get("query", 3) is made[3]
