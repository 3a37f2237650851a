"""A receiver of OTLP over HTTP: what a collector of OpenTelemetry would be sent, decoded by OpenTelemetry's own
definitions of the protocol."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

_FORMS: dict[str, Any] = {"/v1/traces": ExportTraceServiceRequest, "/v1/metrics": ExportMetricsServiceRequest}


class Receiver:
    """What has arrived."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, Any]] = []
        """Path and message of each request."""
        self.url = ""

    def spans(self) -> list[Any]:
        """All spans."""
        return [
            span
            for _, message in self.requests
            if isinstance(message, ExportTraceServiceRequest)
            for of_resource in message.resource_spans
            for of_scope in of_resource.scope_spans
            for span in of_scope.spans
        ]

    def last_metrics(self) -> dict[str, Any]:
        """The metrics of the last export, by name."""
        last = [message for path, message in self.requests if path == "/v1/metrics"][-1]
        return {
            metric.name: metric
            for of_resource in last.resource_metrics
            for of_scope in of_resource.scope_metrics
            for metric in of_scope.metrics
        }

    def services(self) -> set[str]:
        """The names under which they came."""
        resources = [
            of.resource
            for _, message in self.requests
            for of in getattr(message, "resource_spans", None) or message.resource_metrics
        ]
        return {
            each.value.string_value
            for resource in resources
            for each in resource.attributes
            if each.key == "service.name"
        }


@contextmanager
def receiver() -> Iterator[Receiver]:
    """A receiver at a free port of the loopback interface, until the end of the block."""
    received = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            received.requests.append((self.path, _FORMS[self.path].FromString(body)))
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            """Requests are no news."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    received.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield received
    finally:
        server.shutdown()
        server.server_close()
