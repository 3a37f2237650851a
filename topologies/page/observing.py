"""Who watches a run: what its options ask for."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from topologies.metrics.prometheus import check_prometheus
from topologies.metrics.run_metrics import RunMetrics
from topologies.metrics.server import SERVERS
from topologies.page.live_run import LiveRun
from topologies.page.run_page import RunPage
from topologies.page.site import PageSite
from topologies.run.address import Address
from topologies.run.attempts import Attempts, run_in_attempts
from topologies.run.observer import Observers, RunObserver
from topologies.run.options import RunOptions
from topologies.run.summary import Summary
from topologies.topology import Topology


def observed(
    topology: Topology, options: RunOptions, run: Callable[[RunOptions, Observers, Attempts], Summary]
) -> Summary:
    """What ``run`` returns, in as many attempts as the options allow; it is given those who watch it, and they are told
    of its restarts and its end.

    Raises EnvironmentMissing where a package is missing, and ConfigError where the metrics or the page cannot be
    served.
    """
    observers = Observers(_asked_for(topology, options))
    try:
        summary = run_in_attempts(options, lambda own, attempts: run(own, observers, attempts), observers.restarting)
    except BaseException as error:
        observers.end(stopped=False, error=error)
        raise
    observers.end(stopped=summary.stopped, error=None)
    return summary


def show_page(address: Address, run: RunPage) -> None:
    """Show a run on the page at an address. Raises ConfigError where it cannot be served there."""
    server = SERVERS.at(address, "the page")
    cast("PageSite", server.site(lambda: PageSite(address))).show(run)


def _asked_for(topology: Topology, options: RunOptions) -> list[RunObserver]:
    """The metrics, which the others read from; OpenTelemetry; the page."""
    served, page = options.metrics_address, options.page_address
    if served is None and page is None and not options.otel:
        return []
    metrics = RunMetrics(topology, options.clock)
    found: list[RunObserver] = [metrics]
    if served is not None:
        check_prometheus()
        SERVERS.at(served).show(metrics)
    if options.otel:
        from topologies.metrics.otel.meters import METERS
        from topologies.metrics.otel.providers import providers
        from topologies.metrics.otel.spans import BatchSpans

        given = providers()
        METERS.at(given).show(metrics)
        found.append(BatchSpans(given.tracer, topology, options.clock))
    if page is not None:
        live = LiveRun(topology, options, metrics)
        show_page(page, live)
        found.append(live)
    return found
