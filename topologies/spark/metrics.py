"""What the rules of time found, for those who listen to Spark's queries.

The rows of a batch do not know what became of them, so nothing that is observed on a DataFrame can tell: see
docs/decisions/0011. What can is the report of the batch; Spark's own account of it bears the same query and number.
"""

from __future__ import annotations

import json
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
    StreamingQueryProgress,
)

from topologies.engine.batch.report import BatchReport

Listen = Callable[[BatchReport, StreamingQueryProgress | None], None]

_KEPT = 1000
"""So many reports are kept for listeners that are behind."""
_AT_MOST = 10.0
"""Seconds that the end of a run waits for Spark to tell of its last batches."""
_LOG = logging.getLogger("windbolt.metrics")


class Reports:
    """The latest reports of all runs in this process, by query and batch."""

    def __init__(self, most: int = _KEPT) -> None:
        self._most = most
        self._reports: OrderedDict[tuple[str, int], BatchReport] = OrderedDict()
        self._lock = threading.Lock()

    def note(self, query: str | None, report: BatchReport) -> None:
        """Keep the report of a batch; that of a closing is none that Spark tells of."""
        if query is None or report.closing:
            return
        with self._lock:
            self._reports[query, report.batch] = report
            while len(self._reports) > self._most:
                self._reports.popitem(last=False)

    def of(self, query: str, batch: int) -> BatchReport | None:
        """The report of a batch."""
        with self._lock:
            return self._reports.get((query, batch))


REPORTS = Reports()


def report_of(progress: StreamingQueryProgress) -> BatchReport | None:
    """What windbolt did in the batch that Spark tells of, for a ``StreamingQueryListener`` of one's own.

    None for queries that are not windbolt's, and for a batch that an earlier process committed and Spark repeats.
    """
    return REPORTS.of(str(progress.id), progress.batchId)


class TimeMetrics(StreamingQueryListener):
    """Calls a function with the report of each batch and Spark's progress; without a function it logs a line of JSON.

    Give it to ``run_on_spark(..., metrics=TimeMetrics(function))``. It is called in a thread of Spark's, soon after the
    batch; of the closing, which is no batch of Spark's, the progress is None. ``last`` is the latest report. An
    exception in the function is logged, and the run goes on.
    """

    def __init__(self, function: Listen | None = None) -> None:
        self.function: Listen = function or log_line
        self.last: BatchReport | None = None
        self._ended: set[str] = set()
        self._changed = threading.Condition()

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        """Nothing is known yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """A batch is done."""
        report = report_of(event.progress)
        if report is not None:
            self.tell(report, event.progress)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """All batches of a run have been told of."""
        with self._changed:
            self._ended.add(str(event.runId))
            self._changed.notify_all()

    def tell(self, report: BatchReport, progress: StreamingQueryProgress | None) -> None:
        """Pass a report on."""
        self.last = report
        try:
            self.function(report, progress)
        except Exception:
            _LOG.exception("the function of TimeMetrics failed on batch %s", report.batch)

    def settle(self, run: str) -> None:
        """Wait until all batches of a run have been told of: Spark does that in its own time."""
        with self._changed:
            self._changed.wait_for(lambda: run in self._ended, _AT_MOST)
            self._ended.discard(run)


def log_line(report: BatchReport, progress: StreamingQueryProgress | None) -> None:
    """Log a report as a line of JSON, with Spark's names for the query and the run, at ``windbolt.metrics``."""
    query = None
    if progress is not None:
        names = {"id": str(progress.id), "runId": str(progress.runId), "name": progress.name}
        query = {**names, "timestamp": progress.timestamp}
    _LOG.info("%s", json.dumps({"query": query, **report.to_json()}))


@contextmanager
def listening(spark: SparkSession, metrics: TimeMetrics | None) -> Iterator[None]:
    """Have Spark tell of its batches meanwhile."""
    if metrics is None:
        yield
        return
    spark.streams.addListener(metrics)
    try:
        yield
    finally:
        spark.streams.removeListener(metrics)
