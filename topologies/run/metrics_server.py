"""Serves the metrics, the health and the page of the runs of this process over HTTP: read-only."""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import accumulate
from socket import AF_INET, AF_INET6
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import parse_qsl, urlsplit

from topologies.run.options import Address
from topologies.run.run_metrics import INSTRUMENTS, Distribution, Instrument, InstrumentKind, LoggedOnce, RunMetrics
from windowing.errors import ConfigError, EnvironmentMissing
from windowing.reprs import error_text

if TYPE_CHECKING:
    from prometheus_client import Metric


# The metrics of runs in Prometheus's format, written by prometheus-client.


def check_prometheus() -> None:
    """Raises EnvironmentMissing if prometheus-client is not installed."""
    try:
        import prometheus_client  # noqa: F401
    except ImportError as error:
        raise EnvironmentMissing(
            "the package prometheus-client is missing",
            why="serving metrics needs it",
            do="install it: pip install 'windbolt[prometheus]'",
        ) from error


def encode_metrics(runs: Sequence[RunMetrics], accept: str) -> tuple[bytes, str]:
    """Returns the metrics of runs in a format that the request accepts, and its content type."""
    from prometheus_client import CollectorRegistry, ProcessCollector
    from prometheus_client.exposition import choose_encoder

    registry = CollectorRegistry(auto_describe=False)
    ProcessCollector(registry=registry)
    registry.register(_RunsCollector(runs))
    encode, content_type = choose_encoder(accept)
    return encode(registry), content_type


class _RunsCollector:
    """Collector for a registry of prometheus-client."""

    def __init__(self, runs: Iterable[RunMetrics]) -> None:
        self._runs = list(runs)

    def collect(self) -> Iterator[Metric]:
        """Called at each scrape."""
        families = {instrument: _family(instrument) for instrument in INSTRUMENTS}
        for run in self._runs:
            for sample in run.samples():
                families[sample.instrument].add_metric(sample.labels, sample.value)
            for instrument, labels, distribution in run.distributions():
                buckets = _cumulative_buckets(instrument, distribution)
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


def _cumulative_buckets(instrument: Instrument, distribution: Distribution) -> list[tuple[str, float]]:
    """Returns the buckets as Prometheus defines them: each counts all values up to its bound."""
    bounds = [*map(str, instrument.buckets), "+Inf"]
    return list(zip(bounds, map(float, accumulate(distribution.counts)), strict=True))


# Serves the metrics, the health and the page of the runs of this process over HTTP: read-only, one server per address.


_JSON, _TEXT = "application/json; charset=utf-8", "text/plain; charset=utf-8"
_LOG = logging.getLogger("windbolt.metrics")
_MOST_FIELDS = 20
"""Maximum number of values in the query of a request."""
_HELP = "This is windbolt: /metrics for Prometheus, /health and /ready for the supervisor of the run.\n"


@dataclass(frozen=True)
class HttpAnswer:
    """Answer to a request."""

    body: bytes
    kind: str
    """Content type of the answer."""
    status: HTTPStatus = HTTPStatus.OK
    headers: Mapping[str, str] = field(default_factory=dict)
    """Further headers."""


class Site(Protocol):
    """A page that a server offers in addition to metrics."""

    def answer(self, path: str, query: Mapping[str, str], host: str) -> HttpAnswer | None:
        """Called for each request; ``host``: the name of the server in the request. Returns None for an unknown
        path."""


class MetricsServer:
    """Serves at one address until the process ends, so that the last values of an ended run can still be read.

    Runs of several topologies share a server; of two with the same name, the later one is served.
    """

    def __init__(self, address: Address, what: str) -> None:
        """``what``: the first part that is served, for errors. Raises ConfigError for an unusable address."""
        self.address = address
        self._lock = threading.Lock()
        self._runs: dict[str, RunMetrics] = {}
        self._site: Site | None = None
        self._logged = LoggedOnce(_LOG)
        self._http = self._start_listening(address, what)
        thread = threading.Thread(target=self._http.serve_forever, name="windbolt-metrics", daemon=True)
        thread.start()

    def show(self, run: RunMetrics) -> None:
        """Serves a run from now on."""
        with self._lock:
            self._runs[run.topology.name] = run

    def site(self, make: Callable[[], Site]) -> Site:
        """Returns the page at this address, which is made on first use."""
        with self._lock:
            if self._site is None:
                self._site = make()
            return self._site

    def answer(self, path: str, query: Mapping[str, str], host: str, accept: str) -> HttpAnswer:
        """Returns the response to a request; the page, if there is one, is asked first."""
        site = self._site
        try:
            found = None if site is None else site.answer(path, query, host)
            return found or _metrics_answer(self.runs, path, accept)
        except Exception as error:
            self.failed(f"{path} could not be answered", error)
            return _error_answer(path, error)

    def failed(self, what: str, error: BaseException) -> None:
        """Logs an error with its traceback, once for each kind, since scrapes and pages repeat requests every
        second."""
        self._logged.log_once(f"{what} at {self.address}", error, logging.ERROR)

    @property
    def runs(self) -> list[RunMetrics]:
        """The runs that are served."""
        with self._lock:
            return list(self._runs.values())

    def close(self) -> None:
        """Stops serving, and frees the address."""
        self._http.shutdown()
        self._http.server_close()

    def _start_listening(self, address: Address, what: str) -> ThreadingHTTPServer:
        failed = self.failed

        class Handler(_Handler):
            server_of_runs = self

        class Server(ThreadingHTTPServer):
            address_family = AF_INET6 if ":" in address.host else AF_INET
            daemon_threads = True

            def handle_error(self, request: Any, client_address: Any) -> None:
                """Ignores a disconnected client; logs all other errors."""
                error = sys.exception()
                if error is not None and not isinstance(error, (ConnectionError, TimeoutError)):
                    failed("a request failed", error)

        try:
            return Server((address.host, address.port), Handler)
        except (OSError, UnicodeError) as error:
            raise ConfigError(
                f"{what} cannot be served at {address}",
                why=getattr(error, "strerror", None) or str(error),
                do="give another port, or end the process that has this one",
            ) from error


class _Handler(BaseHTTPRequestHandler):
    server_of_runs: MetricsServer
    timeout = 10
    server_version = "windbolt"
    sys_version = ""

    def do_GET(self) -> None:
        """Called for each request."""
        headers = self.headers
        try:
            url = urlsplit(self.path)
            query = dict(parse_qsl(url.query, max_num_fields=_MOST_FIELDS))
        except ValueError:
            return self._send(HttpAnswer(_HELP.encode(), _TEXT, HTTPStatus.BAD_REQUEST))
        return self._send(
            self.server_of_runs.answer(url.path, query, headers.get("Host", ""), headers.get("Accept", ""))
        )

    do_HEAD = do_GET  # noqa: N815

    def log_message(self, format: str, *args: Any) -> None:
        """Does nothing, so that requests are not logged."""

    def _send(self, answer: HttpAnswer) -> None:
        headers = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", **answer.headers}
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.kind)
        self.send_header("Content-Length", str(len(answer.body)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)


def _error_answer(path: str, error: Exception) -> HttpAnswer:
    """Returns the error response for a page that could not be made."""
    words = {
        "what": f"{path} could not be answered",
        "why": error_text(error),
        "do": "look into the log of the process that serves it: the first such error is there, with its traceback",
    }
    return HttpAnswer(_json_bytes({"error": words}), _JSON, HTTPStatus.INTERNAL_SERVER_ERROR)


def _metrics_answer(runs: Sequence[RunMetrics], path: str, accept: str) -> HttpAnswer:
    match path:
        case "/metrics" if runs:
            return HttpAnswer(*encode_metrics(runs, accept))
        case "/health" if runs:
            healths, well = health_of(runs)
            return HttpAnswer(_json_bytes(healths), _JSON, _status(well))
        case "/ready" if runs:
            healths, _ = health_of(runs)
            return HttpAnswer(_json_bytes(healths), _JSON, _status(healths["ready"]))
    return HttpAnswer(_HELP.encode(), _TEXT, HTTPStatus.OK if path == "/" else HTTPStatus.NOT_FOUND)


def health_of(runs: Sequence[RunMetrics]) -> tuple[dict[str, Any], bool]:
    """Returns the health of runs as JSON values, and True if all are healthy."""
    healths = {run.topology.name: run.health() for run in runs}
    well = all(health.well for health in healths.values())
    values = {
        "status": "ok" if well else "failing",
        "live": all(health.live for health in healths.values()),
        "ready": bool(healths) and all(health.ready for health in healths.values()),
        "topologies": {name: health.to_json() for name, health in healths.items()},
    }
    return values, well


def _status(well: bool) -> HTTPStatus:
    return HTTPStatus.OK if well else HTTPStatus.SERVICE_UNAVAILABLE


def _json_bytes(values: dict[str, Any]) -> bytes:
    return (json.dumps(values, indent=2) + "\n").encode()


class Servers:
    """The servers of this process, by address."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process = 0
        self._servers: dict[Address, MetricsServer] = {}

    def at(self, address: Address, what: str = "the metrics") -> MetricsServer:
        """Returns the server at an address, which is started if there is none. ``what``: the part that it serves, for
        errors. Raises ConfigError if it cannot be started."""
        with self._lock:
            if self._process != os.getpid():  # a forked child has no threads
                self._process, self._servers = os.getpid(), {}
            if address not in self._servers:
                self._servers[address] = MetricsServer(address, what)
            return self._servers[address]

    def has(self, address: Address) -> bool:
        """True if something is served at an address."""
        return address in self._servers and self._process == os.getpid()

    def close(self, address: Address) -> None:
        """Stops serving at an address."""
        with self._lock:
            server = self._servers.pop(address, None)
        if server is not None:
            server.close()


SERVERS = Servers()
