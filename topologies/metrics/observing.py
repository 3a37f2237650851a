"""Who watches a run: what its options ask for."""

from __future__ import annotations

from collections.abc import Callable

from topologies.metrics.prometheus import check_prometheus
from topologies.metrics.run_metrics import RunMetrics
from topologies.metrics.server import SERVERS
from topologies.run.observer import Observers, RunObserver
from topologies.run.options import RunOptions
from topologies.run.summary import Summary
from topologies.topology import Topology


def observed(topology: Topology, options: RunOptions, run: Callable[[Observers], Summary]) -> Summary:
    """What ``run`` returns, which is given those who watch it; they are told of its end.

    Raises EnvironmentMissing where a package is missing, and ConfigError where the metrics cannot be served.
    """
    observers = Observers(_asked_for(topology, options))
    try:
        summary = run(observers)
    except BaseException as error:
        observers.end(stopped=False, error=error)
        raise
    observers.end(stopped=summary.stopped, error=None)
    return summary


def _asked_for(topology: Topology, options: RunOptions) -> list[RunObserver]:
    found: list[RunObserver] = []
    address = options.metrics_address
    if address is not None:
        check_prometheus()
        metrics = RunMetrics(topology, options.clock)
        SERVERS.at(address).show(metrics)
        found.append(metrics)
    return found
