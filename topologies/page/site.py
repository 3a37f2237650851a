"""The site of a live page, read-only: its files and the state of the runs; and the observers that a run's options ask
for."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from functools import cache
from http import HTTPStatus
from importlib.resources import files
from typing import cast

from topologies.graph.graph import Graph
from topologies.graph.html import DARK, FONT, LIGHT, element, variables
from topologies.page.live_run import LiveRun
from topologies.page.run_view import RunPage
from topologies.run.attempts import RunObserver
from topologies.run.metrics_server import SERVERS, HttpAnswer, check_prometheus
from topologies.run.options import LOCAL_NAMES, Address, RunOptions
from topologies.run.run_metrics import RunMetrics
from windowing.errors import WindboltError

# The site of a live page: its files, what the runs tell, and why a window has not fired; read-only.


_SCRIPTS = ("page.js", "values.js", "graph.js", "charts.js", "panels.js")
_KINDS = {"js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8"}
_JSON, _HTML = "application/json; charset=utf-8", "text/html; charset=utf-8"
_POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; " + (
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Crect width='16' height='16' "
    "rx='4' fill='%235b4bb3'/%3E%3Cpath d='M9 2 4 9h3l-1 5 6-7H8z' fill='white'/%3E%3C/svg%3E"
)
_HEADERS = {"Content-Security-Policy": _POLICY, "Referrer-Policy": "no-referrer"}


class PageSite:
    """Answers requests under the address of a page. Several runs share it; if two have one name, the later is shown."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._lock = threading.Lock()
        self._runs: dict[str, RunPage] = {}

    def show(self, run: RunPage) -> None:
        """Show a run from now on."""
        with self._lock:
            self._runs[run.name] = run

    def answer(self, path: str, query: Mapping[str, str], host: str) -> HttpAnswer | None:
        """Called for each request; None for a path that is not the page's."""
        if path not in ("/", "/state", "/why", "/page.css") and path[1:] not in _SCRIPTS:
            return None
        if self.address.is_loopback and _name_of(host) not in LOCAL_NAMES:
            return _told(
                HTTPStatus.FORBIDDEN,
                f"the page was asked for as {host[:100]!r}",
                "it is served to this machine only, and that is not one of its names: a page elsewhere may have asked",
                "open it as 127.0.0.1 or localhost; to serve it to others give its address: --ui 0.0.0.0:8765",
            )
        match path:
            case "/":
                return HttpAnswer(_shell(), _HTML, headers=_HEADERS)
            case "/state":
                return self._state(query)
            case "/why":
                return self._why(query)
        return _asset(path[1:])

    def _run(self, query: Mapping[str, str]) -> RunPage | None:
        with self._lock:
            name = query.get("topology") or next(reversed(self._runs), "")
            return self._runs.get(name)

    def _state(self, query: Mapping[str, str]) -> HttpAnswer:
        run, after = self._run(query), query.get("after", "-1")
        if run is None or not after.lstrip("-").isdigit():
            return _no_run(query)
        with self._lock:
            names = list(self._runs)
        try:
            state = run.state(query.get("version", ""), int(after))
        except WindboltError as error:
            return _of_error(error)
        return _json({"topology": run.name, "topologies": names, **state})

    def _why(self, query: Mapping[str, str]) -> HttpAnswer:
        run = self._run(query)
        if run is None:
            return _no_run(query)
        try:
            answer = run.why(query.get("bolt", ""), query.get("key") or None, query.get("window") or None)
        except WindboltError as error:
            return _of_error(error)
        return _json(answer.to_json())


def show_page(address: Address, run: RunPage) -> None:
    """Show a run on the page at an address. Raises ConfigError where it cannot be served there."""
    server = SERVERS.at(address, "the page")
    cast("PageSite", server.site(lambda: PageSite(address))).show(run)


def _name_of(host: str) -> str:
    """Returns the name in a Host header, without its port."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0] or host


def _json(values: object, status: HTTPStatus = HTTPStatus.OK) -> HttpAnswer:
    return HttpAnswer(json.dumps(values, separators=(",", ":")).encode(), _JSON, status, _HEADERS)


def _told(status: HTTPStatus, what: str, why: str, do: str) -> HttpAnswer:
    return _json({"error": {"what": what, "why": why, "do": do}}, status)


def _of_error(error: WindboltError) -> HttpAnswer:
    return _told(HTTPStatus.BAD_REQUEST, error.what, error.why, error.do)


def _no_run(query: Mapping[str, str]) -> HttpAnswer:
    return _told(
        HTTPStatus.NOT_FOUND,
        f"there is no run of {query.get('topology', '')[:100]!r} here",
        "the process shows other runs, or none yet",
        "open the page without a name",
    )


@cache
def _asset(name: str) -> HttpAnswer:
    body = files("topologies.page").joinpath("assets", name).read_bytes()
    if name == "page.css":
        body = _colours().encode() + body
    return HttpAnswer(body, _KINDS[name.rpartition(".")[2]], headers=_HEADERS)


def _colours() -> str:
    return (
        f":root{{color-scheme:light dark;--font:{FONT};{variables(LIGHT)}}}"
        f"@media (prefers-color-scheme:dark){{:root:not([data-theme=light]){{{variables(DARK)}}}}}"
        f":root[data-theme=dark]{{color-scheme:dark;{variables(DARK)}}}"
        f":root[data-theme=light]{{color-scheme:light}}\n"
    )


@cache
def _shell() -> bytes:
    """Returns the page without its content, which its script fetches."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name_="viewport", content="width=device-width,initial-scale=1"),
        element("title", "windbolt"),
        element("link", rel="icon", href=_ICON),
        element("link", rel="stylesheet", href="page.css"),
        element("script", type_="module", src="page.js"),
    )
    body = files("topologies.page").joinpath("assets", "body.html").read_text(encoding="utf-8")
    return f"<!doctype html>\n{element('html', head, element('body', body), lang='en')}\n".encode()


# The observers of a run that its options ask for: metrics, OpenTelemetry, the page.


def asked_observers(topology: Graph, options: RunOptions) -> list[RunObserver]:
    """Returns the observers: the metrics, from which the others read; OpenTelemetry; the page.

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
        from topologies.run.otel import METERS, BatchSpans, providers

        given = providers()
        METERS.at(given).show(metrics)
        found.append(BatchSpans(given.tracer, topology, options.clock))
    if page is not None:
        live = LiveRun(topology, options, metrics)
        show_page(page, live)
        found.append(live)
    return found
