"""The instruments of a run at a meter of OpenTelemetry: the same as Prometheus has, with the same values."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from topologies.metrics.instruments import INSTRUMENTS, Instrument, InstrumentKind
from topologies.metrics.otel.providers import Providers
from topologies.metrics.run_metrics import RunMetrics
from topologies.metrics.sample import Sample

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Observation

MOST_RECORDED = 1000
"""Values of a histogram that are recorded of one bolt and batch. The API takes them one by one, each for some
microseconds; of more values an even selection is recorded."""
_ONE_COLLECTION = 1.0
"""Seconds for which values are taken to be those of one collection, which asks for each instrument alone."""


class Meters:
    """The instruments at one provider, for the runs of this process; of two of one topology the later one is shown."""

    def __init__(self, providers: Providers) -> None:
        meter = providers.meter
        self._lock = threading.Lock()
        self._runs: dict[str, RunMetrics] = {}
        self._collected: dict[Instrument, list[Sample]] = {}
        self._collected_at = 0.0
        self._collected_of: tuple[tuple[RunMetrics, int], ...] = ()
        self._histograms = {
            each: meter.create_histogram(
                each.name, each.unit, each.help, explicit_bucket_boundaries_advisory=each.buckets
            )
            for each in INSTRUMENTS
            if each.kind is InstrumentKind.HISTOGRAM
        }
        for each in INSTRUMENTS:
            if each.kind is InstrumentKind.COUNTER:
                meter.create_observable_counter(each.name, [self._observing(each)], each.unit, each.help)
            if each.kind is InstrumentKind.GAUGE:
                meter.create_observable_gauge(each.name, [self._observing(each)], each.unit, each.help)

    def show(self, run: RunMetrics) -> None:
        """Report a run from now on."""
        with self._lock:
            self._runs[run.topology.name] = run
        run.recorders.append(self.record)

    def record(self, instrument: Instrument, labels: tuple[str, ...], values: Sequence[tuple[float, int]]) -> None:
        """Record values of a histogram, each so many times."""
        attributes, histogram = _attributes(instrument, labels), self._histograms[instrument]
        for value in evenly(values, MOST_RECORDED):
            histogram.record(value, attributes)

    def _observing(self, instrument: Instrument) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def observe(options: CallbackOptions) -> list[Observation]:
            from opentelemetry.metrics import Observation

            return [
                Observation(sample.value, _attributes(instrument, sample.labels))
                for sample in self._samples(instrument)
            ]

        return observe

    def _samples(self, instrument: Instrument) -> list[Sample]:
        """The values of an instrument; those of all are read together."""
        with self._lock:
            runs = tuple((run, run.version) for run in self._runs.values())
            if runs != self._collected_of or time.monotonic() - self._collected_at > _ONE_COLLECTION:
                self._collected = {}
                for run, _ in runs:
                    for sample in run.samples():
                        self._collected.setdefault(sample.instrument, []).append(sample)
                self._collected_at, self._collected_of = time.monotonic(), runs
            return self._collected.get(instrument, [])


def evenly(values: Sequence[tuple[float, int]], most: int) -> Iterator[float]:
    """Each value so many times; of more than ``most`` an even selection."""
    ends = list(accumulate(times for _, times in values))
    total = ends[-1] if ends else 0
    taken = 0
    for (value, _), end in zip(values, ends, strict=True):
        upto = end if total <= most else end * most // total
        for _ in range(upto - taken):
            yield value
        taken = upto


def _attributes(instrument: Instrument, labels: tuple[str, ...]) -> Mapping[str, Any]:
    return dict(zip(instrument.labels, labels, strict=True))


class AllMeters:
    """The instruments of each provider: they are made once, since a second one of a name is not reported."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._meters: WeakKeyDictionary[Any, Meters] = WeakKeyDictionary()

    def at(self, providers: Providers) -> Meters:
        """Those at a provider."""
        with self._lock:
            if providers.of_meters not in self._meters:
                self._meters[providers.of_meters] = Meters(providers)
            return self._meters[providers.of_meters]


METERS = AllMeters()
