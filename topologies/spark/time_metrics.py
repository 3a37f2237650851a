"""Counts of the time rules, for listeners of Spark's queries.

The rows of a batch do not tell what happened to events, so observations of a DataFrame cannot either
(docs/decisions/0011). The report of the batch tells; Spark's own report has the same query and batch number.
"""

from __future__ import annotations

import json
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
    StreamingQueryProgress,
)

from topologies.engine.report import BatchReport
from topologies.spark.spark_errors import FROM_JAVA
from windowing.calls import checked_value
from windowing.reprs import call_repr

Listen = Callable[[BatchReport, StreamingQueryProgress | None], None]

_REPORTS_KEPT = 1000
"""Number of reports kept for slow listeners."""
_MOST_SECONDS = 10.0
"""Most seconds that the end of a run waits for Spark's reports of its last batches."""
_LOG = logging.getLogger("windbolt.metrics")


class Reports:
    """The latest reports of all runs in this process, by query and batch."""

    def __init__(self, most: int = _REPORTS_KEPT) -> None:
        self._most = most
        self._reports: OrderedDict[tuple[str, int], BatchReport] = OrderedDict()
        self._lock = threading.Lock()

    def note(self, query: str | None, report: BatchReport) -> None:
        """Keeps the report of a batch; Spark does not report a closing batch."""
        if query is None or report.closing:
            return
        with self._lock:
            self._reports[query, report.batch] = report
            while len(self._reports) > self._most:
                self._reports.popitem(last=False)

    def get(self, query: str, batch: int) -> BatchReport | None:
        """Returns the report of a batch."""
        with self._lock:
            return self._reports.get((query, batch))


REPORTS = Reports()


@checked_value
def report_of(progress: StreamingQueryProgress) -> BatchReport | None:
    """Returns windbolt's report of the batch in Spark's report, for a user's ``StreamingQueryListener``.

    None for queries that are not windbolt's, and for a batch that an earlier process committed and Spark repeats.
    """
    return REPORTS.get(str(progress.id), progress.batchId)


class TimeMetrics(StreamingQueryListener):
    """Calls a function with the report of each batch and Spark's progress; without a function it logs a line of JSON.

    Pass it as ``run_on_spark(..., metrics=TimeMetrics(function))``. The function is called in a thread of Spark, soon
    after the batch; for the closing batch, which Spark does not know, the progress is None. ``last`` is the latest
    report. An exception in the function is logged, and the run continues.
    """

    def __repr__(self) -> str:
        return call_repr("TimeMetrics", self.function)

    @checked_value
    def __init__(self, function: Listen | None = None) -> None:
        self.function: Listen = function or log_line
        self.last: BatchReport | None = None
        self._ended: set[str] = set()
        self._changed = threading.Condition()

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        """Does nothing: no batch is known yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """Called when a batch is done."""
        report = report_of(event.progress)
        if report is not None:
            self.tell(report, event.progress)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Called when all batches of a run have been reported."""
        with self._changed:
            self._ended.add(str(event.runId))
            self._changed.notify_all()

    def tell(self, report: BatchReport, progress: StreamingQueryProgress | None) -> None:
        """Passes a report on."""
        self.last = report
        try:
            self.function(report, progress)
        except Exception:
            _LOG.exception("the function of TimeMetrics failed on batch %s", report.batch)

    def settle(self, run: str) -> None:
        """Waits until all batches of a run have been reported, which Spark does asynchronously."""
        with self._changed:
            self._changed.wait_for(lambda: run in self._ended, _MOST_SECONDS)
            self._ended.discard(run)


def log_line(report: BatchReport, progress: StreamingQueryProgress | None) -> None:
    """Logs a report as a line of JSON, with Spark's names for the query and the run, to the logger
    ``windbolt.metrics``."""
    query = None
    if progress is not None:
        names = {"id": str(progress.id), "runId": str(progress.runId), "name": progress.name}
        query = {**names, "timestamp": progress.timestamp}
    _LOG.info("%s", json.dumps({"query": query, **report.to_json()}))


_OWN_ROWS = ("PlannedFiles", "KafkaMicroBatchStream")
"""Classes of the sources whose rows windbolt reads itself."""


def count_rows(session: SparkSession, query: str | None, rows: Sequence[int]) -> None:
    """Makes Spark's progress of the current batch count rows that Spark has not read itself.

    ``rows``: of the sources with input in this batch, in the order of the plan: files, then Kafka. Spark takes the
    number from a metric of its plan, which has no public name. In a version of Spark without this metric, the progress
    shows no rows, as it would anyway.
    """
    with suppress(*FROM_JAVA, AttributeError, TypeError):
        running: Any = session.streams.get(str(query))
        plan = running._jsq.streamingQuery().lastExecution().executedPlan().collectLeaves()
        leaves = [plan.apply(number) for number in range(plan.size())]
        scans = [leaf for leaf in leaves if leaf.getClass().getSimpleName() == "MicroBatchScanExec"]
        own = [leaf for leaf in scans if any(name in leaf.stream().getClass().getName() for name in _OWN_ROWS)]
        for leaf, count in zip(own, rows, strict=False):
            metric = leaf.metrics().get("numOutputRows").get()
            if metric.value() == 0:  # else Spark has read the rows itself
                metric.add(count)


@contextmanager
def listening(spark: SparkSession, metrics: TimeMetrics | None) -> Iterator[None]:
    """Makes Spark report its batches to ``metrics`` within the context."""
    if metrics is None:
        yield
        return
    spark.streams.addListener(metrics)
    try:
        yield
    finally:
        spark.streams.removeListener(metrics)
