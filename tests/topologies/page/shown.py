"""Runs whose page is looked at while they stand still between two batches."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlencode

from tests.helpers.scraping import get
from topologies.engine.report import BatchReport
from topologies.run.summary import Summary
from topologies.topology import Topology
from windbolt import RunOptions, run_local


def state(port: int, **query: Any) -> dict[str, Any]:
    """What the page at a port is told."""
    status, _, body = get(port, f"/state?{urlencode(query)}")
    assert status == 200, body
    found: dict[str, Any] = json.loads(body)
    return found


def why(port: int, **query: Any) -> tuple[int, dict[str, Any]]:
    """The answer to why a window has not fired, and its status."""
    status, _, body = get(port, f"/why?{urlencode(query)}")
    return status, json.loads(body)


class Held:
    """A run in another thread, which stops after each batch until it is told to go on."""

    def __init__(self, topology: Topology, port: int, checkpoint: str | None = None, **options: Any) -> None:
        self.summary: Summary | None = None
        self.error: BaseException | None = None
        self.reports: list[BatchReport] = []
        self._reached, self._go = threading.Semaphore(0), threading.Semaphore(0)
        given = RunOptions(checkpoint, on_report=self._report, serve_page=port, **options)
        self._thread = threading.Thread(target=self._run, args=(topology, given), daemon=True)
        self._thread.start()

    def _run(self, topology: Topology, options: RunOptions) -> None:
        try:
            self.summary = run_local(topology, options)
        except BaseException as error:
            self.error = error

    def _report(self, report: BatchReport) -> None:
        self.reports.append(report)
        self._reached.release()
        assert self._go.acquire(timeout=300)

    def at_batch(self) -> BatchReport:
        """Wait until a batch has been reported; the run waits too."""
        assert self._reached.acquire(timeout=300), self.error
        return self.reports[-1]

    def go_on(self) -> None:
        """Let it run the next batch."""
        self._go.release()

    def end(self) -> Summary | None:
        """Let it run to its end; what it came to, None where it failed."""
        for _ in range(1000):
            self._go.release()
        self._thread.join(60)
        assert not self._thread.is_alive()
        return self.summary


@contextmanager
def held(topology: Topology, port: int, checkpoint: str | None = None, **options: Any) -> Iterator[Held]:
    """A held run, which ends with the block."""
    run = Held(topology, port, checkpoint, **options)
    try:
        yield run
    finally:
        run.end()
