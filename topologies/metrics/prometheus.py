"""The metrics of runs in Prometheus's format, written by prometheus-client."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from topologies.metrics.distributions import Distribution
from topologies.metrics.instruments import INSTRUMENTS, Instrument, InstrumentKind
from topologies.metrics.run_metrics import RunMetrics
from windowing.errors import EnvironmentMissing

if TYPE_CHECKING:
    from prometheus_client import Metric


def check_prometheus() -> None:
    """Raise EnvironmentMissing where prometheus-client is not installed."""
    try:
        import prometheus_client  # noqa: F401
    except ImportError as error:
        raise EnvironmentMissing(
            "the package prometheus-client is missing",
            why="serving metrics needs it",
            do="install it: pip install 'windbolt[prometheus]'",
        ) from error


def encoded(runs: Sequence[RunMetrics], accept: str) -> tuple[bytes, str]:
    """The metrics of runs in the format that a request accepts, and its content type."""
    from prometheus_client import CollectorRegistry, ProcessCollector
    from prometheus_client.exposition import choose_encoder

    registry = CollectorRegistry(auto_describe=False)
    ProcessCollector(registry=registry)
    registry.register(_Runs(runs))
    encode, content_type = choose_encoder(accept)
    return encode(registry), content_type


class _Runs:
    """What a registry of prometheus-client collects."""

    def __init__(self, runs: Iterable[RunMetrics]) -> None:
        self._runs = list(runs)

    def collect(self) -> Iterator[Metric]:
        """Called at each scrape."""
        families = {instrument: _family(instrument) for instrument in INSTRUMENTS}
        for run in self._runs:
            for sample in run.samples():
                families[sample.instrument].add_metric(sample.labels, sample.value)
            for instrument, labels, distribution in run.distributions():
                buckets = _cumulated(instrument, distribution)
                families[instrument].add_metric(labels, buckets=buckets, sum_value=distribution.total)
        yield from families.values()


def _family(instrument: Instrument) -> Any:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

    name, about, labels = instrument.prometheus, instrument.help, instrument.labels
    match instrument.kind:
        case InstrumentKind.COUNTER:
            return CounterMetricFamily(name, about, labels=labels)
        case InstrumentKind.GAUGE:
            return GaugeMetricFamily(name, about, labels=labels)
        case InstrumentKind.HISTOGRAM:
            return HistogramMetricFamily(name, about, labels=labels)


def _cumulated(instrument: Instrument, distribution: Distribution) -> list[tuple[str, float]]:
    """The buckets as Prometheus has them: each counts all values up to its bound."""
    bounds = [*map(str, instrument.buckets), "+Inf"]
    return list(zip(bounds, map(float, accumulate(distribution.counts)), strict=True))
