"""OpenTelemetry's SDK as a program sets it up, whose exporters keep everything in memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


@dataclass
class Told:
    """What the program's own SDK was told."""

    reader: InMemoryMetricReader
    exporter: InMemorySpanExporter

    @property
    def spans(self) -> list[ReadableSpan]:
        """All that have ended."""
        return list(self.exporter.get_finished_spans())

    def named(self, name: str) -> list[ReadableSpan]:
        """The spans of this name of windbolt's."""
        return [span for span in self.spans if span.name == f"windbolt.{name}"]

    def values(self) -> dict[tuple[str, frozenset[tuple[str, str]]], Any]:
        """The points of all instruments, by name and attributes."""
        data = self.reader.get_metrics_data()
        assert data is not None
        return {
            (metric.name, frozenset((name, str(text)) for name, text in (point.attributes or {}).items())): point
            for of_resource in data.resource_metrics
            for of_scope in of_resource.scope_metrics
            for metric in of_scope.metrics
            for point in metric.data.data_points
        }


@contextmanager
def telemetry() -> Iterator[Told]:
    """The SDK, set up until the end of the block."""
    found = Told(InMemoryMetricReader(), InMemorySpanExporter())
    meters, tracers = MeterProvider([found.reader]), TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(found.exporter))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(metrics, "get_meter_provider", lambda: meters)
        patch.setattr(trace, "get_tracer_provider", lambda: tracers)
        yield found
    meters.shutdown()
    tracers.shutdown()
