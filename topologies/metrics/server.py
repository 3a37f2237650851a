"""Serves the metrics and the health of the runs of this process over HTTP: read-only, one server for an address."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import AF_INET, AF_INET6
from typing import Any
from urllib.parse import urlsplit

from topologies.metrics.prometheus import encoded
from topologies.metrics.run_metrics import RunMetrics
from topologies.run.address import Address
from windowing.errors import ConfigError

_JSON = "application/json; charset=utf-8"
_PATHS = "This is windbolt: /metrics for Prometheus, /health and /ready for who supervises the run.\n"


class MetricsServer:
    """Serves at one address until the process ends: what has ended can be scraped once more.

    Runs of several topologies share it; of two of one name the later one is shown.
    """

    def __init__(self, address: Address) -> None:
        """Raises ConfigError for an address that cannot be served at."""
        self.address = address
        self._lock = threading.Lock()
        self._runs: dict[str, RunMetrics] = {}
        self._http = self._listening(address)
        thread = threading.Thread(target=self._http.serve_forever, name="windbolt-metrics", daemon=True)
        thread.start()

    def show(self, run: RunMetrics) -> None:
        """Serve a run from now on."""
        with self._lock:
            self._runs[run.topology.name] = run

    @property
    def runs(self) -> list[RunMetrics]:
        """The runs that it shows."""
        with self._lock:
            return list(self._runs.values())

    def close(self) -> None:
        """Stop serving, and free the address."""
        self._http.shutdown()
        self._http.server_close()

    def _listening(self, address: Address) -> ThreadingHTTPServer:
        class Handler(_Handler):
            server_of_runs = self

        class Server(ThreadingHTTPServer):
            address_family = AF_INET6 if ":" in address.host else AF_INET
            daemon_threads = True

            def handle_error(self, request: Any, client_address: Any) -> None:
                """Whoever asked has gone: that concerns nobody."""

        try:
            return Server((address.host, address.port), Handler)
        except (OSError, UnicodeError) as error:
            raise ConfigError(
                f"the metrics cannot be served at {address}",
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
        runs = self.server_of_runs.runs
        match urlsplit(self.path).path:
            case "/metrics":
                body, kind = encoded(runs, self.headers.get("Accept", ""))
                self._answer(HTTPStatus.OK, body, kind)
            case "/health":
                healths, well = health_of(runs)
                self._answer(_status(well), _text(healths), _JSON)
            case "/ready":
                healths, _ = health_of(runs)
                self._answer(_status(healths["ready"]), _text(healths), _JSON)
            case "/":
                self._answer(HTTPStatus.OK, _PATHS.encode(), "text/plain; charset=utf-8")
            case _:
                self._answer(HTTPStatus.NOT_FOUND, _PATHS.encode(), "text/plain; charset=utf-8")

    do_HEAD = do_GET  # noqa: N815

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are no news."""

    def _answer(self, status: HTTPStatus, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def health_of(runs: Sequence[RunMetrics]) -> tuple[dict[str, Any], bool]:
    """The health of runs as JSON values, and whether all are well."""
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


def _text(values: dict[str, Any]) -> bytes:
    return (json.dumps(values, indent=2) + "\n").encode()


class Servers:
    """The servers of this process, by address."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process = 0
        self._servers: dict[Address, MetricsServer] = {}

    def at(self, address: Address) -> MetricsServer:
        """The server at an address; a new one where there is none yet. ConfigError where it cannot be."""
        with self._lock:
            if self._process != os.getpid():  # a child that was forked has none of the threads
                self._process, self._servers = os.getpid(), {}
            if address not in self._servers:
                self._servers[address] = MetricsServer(address)
            return self._servers[address]

    def close(self, address: Address) -> None:
        """Stop serving at an address."""
        with self._lock:
            server = self._servers.pop(address, None)
        if server is not None:
            server.close()


SERVERS = Servers()
