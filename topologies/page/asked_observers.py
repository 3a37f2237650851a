"""Who watches a run, as its options ask: metrics, OpenTelemetry, the page."""

from __future__ import annotations

from topologies.metrics.prometheus import check_prometheus
from topologies.metrics.run_metrics import RunMetrics
from topologies.metrics.server import SERVERS
from topologies.page.live_run import LiveRun
from topologies.page.site import show_page
from topologies.run.observer import RunObserver
from topologies.run.options import RunOptions
from topologies.topology import Topology


def asked_observers(topology: Topology, options: RunOptions) -> list[RunObserver]:
    """The metrics, which the others read from; OpenTelemetry; the page.

    Raises EnvironmentMissing where a package is missing, and ConfigError where the metrics or the page cannot be
    served.
    """
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
