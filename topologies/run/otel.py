"""Metrics and spans of a run for OpenTelemetry."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points, version
from itertools import accumulate
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from topologies.engine.report import BatchReport
from topologies.graph.graph import Graph
from topologies.run.attempts import RunObserver
from topologies.run.clock import Clock
from topologies.run.options import ComingRestart
from topologies.run.run_metrics import INSTRUMENTS, Instrument, InstrumentKind, RunMetrics, Sample
from windowing.errors import ConfigError, EnvironmentMissing
from windowing.reprs import error_text
from windowing.timestamps import show_end

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Meter, MeterProvider, Observation
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.trace import Link, Span, SpanContext, Tracer, TracerProvider
    from opentelemetry.util.types import Attributes


# The OpenTelemetry providers of a run: those that the program has set up, or else those that the variables ``OTEL_*``
# describe.


_SCOPE = "windbolt"
_PLACEHOLDERS = ("_ProxyMeterProvider", "ProxyTracerProvider")
"""Names of the classes that the API returns without a provider; one of them has no public name."""


@dataclass(frozen=True)
class Providers:
    """Providers of meters and tracers, which receive metrics and spans."""

    meter_provider: MeterProvider
    tracer_provider: TracerProvider

    @property
    def meter(self) -> Meter:
        """Windbolt's meter from the provider."""
        return self.meter_provider.get_meter(_SCOPE, version(_SCOPE))

    @property
    def tracer(self) -> Tracer:
        """Windbolt's tracer from the provider."""
        return self.tracer_provider.get_tracer(_SCOPE, version(_SCOPE))


def providers() -> Providers:
    """Returns the providers for a run.

    If the program has set up one of the two, the global providers are used, unchanged. Otherwise the SDK is set up for
    windbolt alone, once per process, by the variables ``OTEL_*``; by default with OTLP over HTTP.

    Raises EnvironmentMissing if a package is missing, and ConfigError for an unknown exporter.
    """
    try:
        from opentelemetry import metrics, trace
    except ImportError as error:
        raise _missing("opentelemetry-api") from error
    program_providers = Providers(metrics.get_meter_provider(), trace.get_tracer_provider())
    if any(
        type(each).__name__ not in _PLACEHOLDERS
        for each in (program_providers.meter_provider, program_providers.tracer_provider)
    ):
        return program_providers
    return _FROM_ENVIRONMENT.get()


class _EnvironmentProviders:
    """The providers that the environment variables describe, made once per process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process = 0
        self._providers: Providers | None = None

    def get(self) -> Providers:
        """Returns the providers of this process."""
        with self._lock:
            if self._providers is None or self._process != os.getpid():  # a forked child has no threads
                self._providers, self._process = _make_providers(), os.getpid()
            return self._providers


_FROM_ENVIRONMENT = _EnvironmentProviders()


def _make_providers() -> Providers:
    try:
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise _missing("opentelemetry-sdk") from error
    span_exporters, metric_exporters = _exporters("traces"), _exporters("metrics")
    readers = [each() for each in metric_exporters]
    resource = _resource()
    tracers = TracerProvider(resource=resource)
    for exporter in span_exporters:
        tracers.add_span_processor(BatchSpanProcessor(exporter()))
    metric_readers = [
        each if isinstance(each, MetricReader) else PeriodicExportingMetricReader(each) for each in readers
    ]
    return Providers(MeterProvider(metric_readers, resource), tracers)


def _resource() -> Resource:
    """Returns this service's resource from the variables; the default name is windbolt."""
    from opentelemetry.sdk.resources import SERVICE_NAME, Resource

    found = Resource.create()
    has_name = not str(found.attributes.get(SERVICE_NAME, "unknown_service")).startswith("unknown_service")
    return found if has_name else found.merge(Resource({SERVICE_NAME: _SCOPE}))


def _exporters(signal: str) -> list[Any]:
    """Returns the classes of the exporters that ``OTEL_TRACES_EXPORTER`` or ``OTEL_METRICS_EXPORTER`` names."""
    variable = f"OTEL_{signal.upper()}_EXPORTER"
    setting = os.environ.get(variable) or "otlp"
    names = [name.strip() for name in setting.split(",") if name.strip() not in ("", "none")]
    installed = {each.name: each for each in entry_points(group=f"opentelemetry_{signal}_exporter")}
    return [_exporter(variable, name, _full_name(name, signal), installed) for name in names]


def _full_name(name: str, signal: str) -> str:
    """Returns the full name of an exporter; OTLP has one of two protocols."""
    if name != "otlp":
        return name
    specific = os.environ.get(f"OTEL_EXPORTER_OTLP_{signal.upper()}_PROTOCOL")
    protocol = specific or os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL") or "http/protobuf"
    return "otlp_proto_http" if protocol == "http/protobuf" else f"otlp_proto_{protocol}"


def _exporter(variable: str, name: str, full_name: str, installed: dict[str, Any]) -> Any:
    if full_name in installed:
        return installed[full_name].load()
    if full_name == "otlp_proto_http":
        raise _missing("opentelemetry-exporter-otlp-proto-http")
    package = "opentelemetry-exporter-otlp-proto-grpc" if full_name == "otlp_proto_grpc" else "the package that has it"
    raise ConfigError(
        f"there is no exporter {full_name!r} for {variable}={name}",
        why=f"those that are installed are {', '.join(sorted({*installed, 'none'}))}",
        do=f"install {package}, or name another",
    )


def _missing(package: str) -> EnvironmentMissing:
    return EnvironmentMissing(
        f"the package {package} is missing",
        why="reporting to OpenTelemetry needs it",
        do="install it: pip install 'windbolt[otel]'",
    )


# The instruments of a run at an OpenTelemetry meter, with the same values as in Prometheus.


MOST_RECORDED = 1000
"""Most values of a histogram that are recorded for one bolt and batch, because the API takes them one by one, at some
microseconds each. If there are more values, an even selection is recorded."""
_ONE_COLLECTION = 1.0
"""Seconds within which reads count as one collection, because a collection reads each instrument separately."""


class Meters:
    """The instruments of one provider, for the runs of this process. If two runs have the same topology, the later run
    is reported."""

    def __init__(self, providers: Providers) -> None:
        meter = providers.meter
        self._lock = threading.Lock()
        self._runs: dict[str, RunMetrics] = {}
        self._collected: dict[Instrument, list[Sample]] = {}
        self._collected_at = 0.0
        self._collected_runs: tuple[tuple[RunMetrics, int], ...] = ()
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
        """Reports a run from now on."""
        with self._lock:
            self._runs[run.topology.name] = run
        run.recorders.append(self.record)

    def record(self, instrument: Instrument, labels: tuple[str, ...], values: Sequence[tuple[float, int]]) -> None:
        """Records values of a histogram, each with its number of occurrences."""
        attributes, histogram = _attributes(instrument, labels), self._histograms[instrument]
        for value in values_to_record(values, MOST_RECORDED):
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
        """Returns the values of an instrument; those of all instruments are read together."""
        with self._lock:
            runs = tuple((run, run.version) for run in self._runs.values())
            if runs != self._collected_runs or time.monotonic() - self._collected_at > _ONE_COLLECTION:
                self._collected = {}
                for run, _ in runs:
                    for sample in run.samples():
                        self._collected.setdefault(sample.instrument, []).append(sample)
                self._collected_at, self._collected_runs = time.monotonic(), runs
            return self._collected.get(instrument, [])


def values_to_record(values: Sequence[tuple[float, int]], most: int) -> Iterator[float]:
    """Yields each value as often as it occurs; of more than ``most``, an even selection."""
    ends = list(accumulate(times for _, times in values))
    total = ends[-1] if ends else 0
    yielded = 0
    for (value, _), end in zip(values, ends, strict=True):
        upto = end if total <= most else end * most // total
        for _ in range(upto - yielded):
            yield value
        yielded = upto


def _attributes(instrument: Instrument, labels: tuple[str, ...]) -> Mapping[str, Any]:
    return dict(zip(instrument.labels, labels, strict=True))


class AllMeters:
    """The instruments of each provider, made once, because a second instrument with the same name is not reported."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._meters: WeakKeyDictionary[Any, Meters] = WeakKeyDictionary()

    def at(self, providers: Providers) -> Meters:
        """Returns the meters of a provider."""
        with self._lock:
            if providers.meter_provider not in self._meters:
                self._meters[providers.meter_provider] = Meters(providers)
            return self._meters[providers.meter_provider]


METERS = AllMeters()


# Spans of a run: each batch is a trace, with its phases and its fired windows.


MOST_WINDOWS = 100
"""Most spans of windows in a batch; the span of the batch has the number of windows without a span."""


class BatchSpans(RunObserver):
    """Reports the batches of a run to a tracer. Each batch is a trace, because a run may be endless."""

    def __init__(self, tracer: Tracer, topology: Graph, clock: Clock) -> None:
        self._tracer, self._clock = tracer, clock
        self._topology = {"windbolt.topology": topology.name}
        self._levels = {node.name: level for level, nodes in enumerate(topology.levels) for node in nodes}
        self._callers_span = _present_span()
        self._batch: Span | None = None
        self._phase: Span | None = None
        self._fired_from: list[int] = []
        """For each level of bolts, when its windows began to fire, in nanoseconds."""
        self._left_out = 0
        self._contexts: Mapping[str, Mapping[int, Sequence[str]]] = {}

    wants_trace_contexts = True

    def trace_contexts(self, found: Mapping[str, Mapping[int, Sequence[str]]]) -> None:
        """Links the windows of this batch to these contexts."""
        self._contexts = found

    def phase(self, name: str) -> None:
        """Ends the previous phase and begins this one. The first phase begins the batch."""
        now = self._now()
        if name == "ingest":
            self._fail(now, "it did not get to its end, and was begun again")
            self._batch = self._begin("windbolt.batch", now, {}, parent=None)
            self._fired_from, self._left_out = [], 0
        if name == "fire":
            self._fired_from.append(now)
        if self._phase is not None:
            self._phase.end(now)
        self._phase = None if name == "committed" else self._begin(f"windbolt.{name}", now, {}, parent=self._batch)

    def window_ends(self, ends: Mapping[str, Mapping[int, int]]) -> None:
        """Adds spans for the fired windows of the batch: one for all windows of a bolt with the same end, from when the
        bolt's windows began to fire until their commit. If there are too many, spans are added for those with trace
        contexts and for the latest."""
        now = self._now()
        for bolt, windows in ends.items():
            contexts = self._contexts.get(bolt, {})
            chosen = sorted(windows, key=lambda end: (end in contexts, end), reverse=True)
            chosen = chosen[: max(MOST_WINDOWS // len(ends), 1)]
            self._left_out += sum(windows.values()) - sum(windows[end] for end in chosen)
            for end in chosen:
                attributes: Attributes = {
                    "windbolt.bolt": bolt,
                    "windbolt.window.end": show_end(end),
                    "windbolt.window.emit_delay": max(now // 1000 - end, 0) / 1e6,
                    "windbolt.windows": windows[end],
                }
                start = self._fired_from[self._levels[bolt]] if self._fired_from else now
                links = _links(contexts.get(end, ()))
                self._begin("windbolt.window", start, attributes, parent=self._batch, links=links).end(now)
        self._contexts = {}

    def report(self, report: BatchReport) -> None:
        """Adds the results of the batch to its span, and ends the span."""
        if self._batch is None:
            return
        self._batch.set_attributes(
            {
                "windbolt.batch": report.batch,
                "windbolt.closing": report.closing,
                "windbolt.rows": report.rows,
                "windbolt.windows": sum(bolt.windows for bolt in report.bolts.values()),
                "windbolt.windows.left_out": self._left_out,
            }
        )
        self._batch.end(self._now())
        self._batch = None

    def restarting(self, coming: ComingRestart) -> None:
        """Marks the present batch as failed; it will be a new batch after the restart."""
        self.end(stopped=False, error=coming.error)

    def end(self, *, stopped: bool, error: BaseException | None) -> None:
        """Ends the spans; an unfinished batch has failed."""
        if self._batch is not None and error is not None:
            self._batch.record_exception(error, timestamp=self._now())
        self._fail(self._now(), "the run ended" if error is None else error_text(error))

    def _begin(
        self, name: str, at: int, attributes: Attributes, *, parent: Span | None, links: Sequence[Link] = ()
    ) -> Span:
        from opentelemetry.context import Context
        from opentelemetry.trace import Link, set_span_in_context

        context = Context() if parent is None else set_span_in_context(parent, Context())
        if parent is None and self._callers_span.is_valid:
            links = [Link(self._callers_span)]
        all_attributes = {**self._topology, **(attributes or {})}
        return self._tracer.start_span(name, context, attributes=all_attributes, links=links, start_time=at)

    def _fail(self, at: int, why: str) -> None:
        """Ends the spans of a batch that is not committed."""
        from opentelemetry.trace import Status, StatusCode

        for span in (self._phase, self._batch):
            if span is not None:
                span.set_status(Status(StatusCode.ERROR, why))
                span.end(at)
        self._batch = self._phase = None

    def _now(self) -> int:
        return self._clock() * 1000


def _present_span() -> SpanContext:
    from opentelemetry.trace import get_current_span

    return get_current_span().get_span_context()


def _links(contexts: Iterable[str]) -> list[Link]:
    """Returns links to the contexts in texts of W3C's Trace Context; other texts are skipped."""
    from opentelemetry.trace import Link, get_current_span
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    read = TraceContextTextMapPropagator()
    spans = [get_current_span(read.extract({"traceparent": text})).get_span_context() for text in contexts]
    return [Link(span) for span in spans if span.is_valid]
