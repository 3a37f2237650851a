"""The providers of OpenTelemetry that a run reports to: those that the program has set up, or else such as the
variables ``OTEL_*`` describe."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from importlib.metadata import entry_points, version
from typing import TYPE_CHECKING, Any

from windowing.errors import ConfigError, EnvironmentMissing

if TYPE_CHECKING:
    from opentelemetry.metrics import Meter, MeterProvider
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.trace import Tracer, TracerProvider

_SCOPE = "windbolt"
_PLACEHOLDERS = ("_ProxyMeterProvider", "ProxyTracerProvider")
"""The classes of what the API gives while nobody has set up a provider; one of them has no public name."""


@dataclass(frozen=True)
class Providers:
    """Where metrics and spans go."""

    of_meters: MeterProvider
    of_tracers: TracerProvider

    @property
    def meter(self) -> Meter:
        """Windbolt's meter."""
        return self.of_meters.get_meter(_SCOPE, version(_SCOPE))

    @property
    def tracer(self) -> Tracer:
        """Windbolt's tracer."""
        return self.of_tracers.get_tracer(_SCOPE, version(_SCOPE))


def providers() -> Providers:
    """The providers for a run.

    Where the program has set up one of the two, the global ones are used, as they are. Otherwise the SDK is set up for
    windbolt alone, once in a process, as the variables ``OTEL_*`` say: by default with OTLP over HTTP.

    Raises EnvironmentMissing where a package is missing, and ConfigError for an exporter that is not there.
    """
    try:
        from opentelemetry import metrics, trace
    except ImportError as error:
        raise _missing("opentelemetry-api") from error
    of_program = Providers(metrics.get_meter_provider(), trace.get_tracer_provider())
    if any(type(each).__name__ not in _PLACEHOLDERS for each in (of_program.of_meters, of_program.of_tracers)):
        return of_program
    return _OF_VARIABLES.get()


class _OfVariables:
    """The providers that the environment describes, made once in a process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process = 0
        self._made: Providers | None = None

    def get(self) -> Providers:
        """The providers of this process."""
        with self._lock:
            if self._made is None or self._process != os.getpid():  # a child that was forked has none of the threads
                self._made, self._process = _made(), os.getpid()
            return self._made


_OF_VARIABLES = _OfVariables()


def _made() -> Providers:
    try:
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise _missing("opentelemetry-sdk") from error
    of_spans, of_metrics = _exporters("traces"), _exporters("metrics")
    readers = [each() for each in of_metrics]
    resource = _resource()
    tracers = TracerProvider(resource=resource)
    for exporter in of_spans:
        tracers.add_span_processor(BatchSpanProcessor(exporter()))
    pulled = [each if isinstance(each, MetricReader) else PeriodicExportingMetricReader(each) for each in readers]
    return Providers(MeterProvider(pulled, resource), tracers)


def _resource() -> Resource:
    """What the variables say of this service; it is called windbolt where they give it no name."""
    from opentelemetry.sdk.resources import SERVICE_NAME, Resource

    found = Resource.create()
    named = not str(found.attributes.get(SERVICE_NAME, "unknown_service")).startswith("unknown_service")
    return found if named else found.merge(Resource({SERVICE_NAME: _SCOPE}))


def _exporters(signal: str) -> list[Any]:
    """The classes of the exporters that ``OTEL_TRACES_EXPORTER`` or ``OTEL_METRICS_EXPORTER`` names."""
    variable = f"OTEL_{signal.upper()}_EXPORTER"
    given = os.environ.get(variable) or "otlp"
    names = [name.strip() for name in given.split(",") if name.strip() not in ("", "none")]
    installed = {each.name: each for each in entry_points(group=f"opentelemetry_{signal}_exporter")}
    return [_exporter(variable, name, _full_name(name, signal), installed) for name in names]


def _full_name(name: str, signal: str) -> str:
    """OTLP goes by one of two protocols."""
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
