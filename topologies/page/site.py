"""The live page: the runs that it shows, in progress in this process or stored in a checkpoint; its read-only site; and
the observers that a run's options require."""

from __future__ import annotations

import json
import logging
import math
import threading
import time
import uuid
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import cache
from hashlib import sha256
from http import HTTPStatus
from importlib.resources import files
from typing import Any, cast

from manager.storage.checkpoint import FileCheckpoint
from manager.storage.files import UNREADABLE
from manager.storage.manifest import Manifest
from manager.storage.segment_files import FileSegments
from topologies.checkpoints.blocking_inputs import Question, WhyAnswer, marks_of
from topologies.checkpoints.paired_checkpoint import START
from topologies.checkpoints.topology_fit import (
    RunNote,
    SinkNote,
    checkpoint_at,
    read_runs,
    read_sinks,
    require_rules,
    rules_of,
)
from topologies.checkpoints.why import Explanation, answer_question, kept_manifests, not_started, why, window_end_of
from topologies.engine.micro_batch import MicroBatch
from topologies.engine.report import BatchReport
from topologies.engine.task_data import BoltWork, RejectedEvent, merge_work
from topologies.graph.bolt_rules import TopologyRules
from topologies.graph.describing import boxes_and_arrows, sink_in_words
from topologies.graph.graph import Graph
from topologies.graph.html import Box, element, page_colours
from topologies.io.sinks import FileSink
from topologies.page.run_view import (
    STALE_PARTS_SUFFIX,
    Points,
    RunPage,
    ShownSink,
    SinkFolders,
    bolt_view,
    layout_as_json,
    open_view,
    page_remark,
    point_of,
    remarks_of,
    run_view,
)
from topologies.run.attempts import LagNow, RunObserver
from topologies.run.clock import system_clock
from topologies.run.metrics_server import SERVERS, HttpAnswer, check_prometheus
from topologies.run.options import LOCAL_NAMES, Address, ComingRestart, RunOptions
from topologies.run.run_metrics import LoggedOnce, RunMetrics, RunState
from topologies.run.summary import Advice, advice_on
from windowing.errors import WindboltError

# A run of this process on its page: recorded while it is in progress, rendered on request.


BATCHES, EVENTS, COMPLAINTS = 80, 40, 40
"""Numbers of the latest batches, rejected events, and messages about unreadable input that are kept."""
KEPT_MANIFESTS = 3
"""Number of kept states, which tell how long an input has not advanced; by default as many as a checkpoint keeps."""
WINDOWS_SECONDS = 5.0
"""Seconds until open windows are counted again, for which their events are read."""
ADVICE_SECONDS = 5.0
"""Seconds until advice is computed again, for which the code of bolts is read."""
_LOG = logging.getLogger("windbolt.page")


class LiveRun(RunObserver):
    """Records a run. The page's content is made on request, so an unvisited page costs the run next to nothing."""

    wants_rejected_events = True

    def __init__(self, topology: Graph, options: RunOptions, metrics: RunMetrics) -> None:
        """``metrics``: of the same run; they are told about everything before this object."""
        self.topology, self.metrics, self._clock = topology, metrics, options.clock
        self._id, self._interval = uuid.uuid4().hex, options.interval
        self._rules = TopologyRules.of(topology).bolts
        self._graph = layout_as_json(*boxes_and_arrows(topology), topology.windowed)
        self._sinks = SinkFolders(
            [
                ShownSink(name, sink_in_words(node.sink), node.sink.path if isinstance(node.sink, FileSink) else None)
                for name, node in topology.sinks.items()
            ]
        )
        self._lock = threading.Lock()
        self._logged = LoggedOnce(_LOG)
        self._request_lock = threading.Lock()
        self._micro_batch: MicroBatch | None = None
        self._manifests: deque[Manifest] = deque(maxlen=KEPT_MANIFESTS)
        self._points = Points()
        self._batches: deque[dict[str, Any]] = deque(maxlen=BATCHES)
        self._rejected_events: deque[dict[str, Any]] = deque(maxlen=EVENTS)
        self._complaints: deque[dict[str, Any]] = deque(maxlen=COMPLAINTS)
        self._since: dict[str, dict[str, int]] = {name: {} for name in topology.windowed}
        self._marks: dict[str, dict[str, int | None]] = {}
        self._began: int | None = None
        self._continues: int | None = None
        self._ended: int | None = None
        self._earlier: list[dict[str, Any]] = []
        self._repeats, self._batch_in_progress = 0, False
        self._version = 0
        self._windows: dict[str, Any] = {}
        self._windows_version, self._windows_counted_at = -1, 0.0
        self._work: dict[str, BoltWork] = {}
        self._advice: list[Advice] = []
        self._advised_at = -math.inf

    @property
    def name(self) -> str:
        """The name of the topology."""
        return self.topology.name

    # -- called by the run

    def begin(self, micro_batch: MicroBatch, lag: LagNow) -> None:
        """Called at the start. The state of the previous run is shown until the first batch."""
        manifest = micro_batch.manifest
        with self._lock:
            self._micro_batch, self._batch_in_progress = micro_batch, False
            if self._began is None:  # else it is a restart, and the page continues
                self._began = self._clock()
                self._continues = manifest.batch if manifest.batch >= 0 else None
                self._earlier = _earlier_runs(micro_batch)
            if manifest.clock is not None and not self._manifests:
                self._keep(manifest, None)
            self._version += 1

    def phase(self, name: str) -> None:
        """Records a phase; a batch that begins during another one is its repetition."""
        if name == "ingest":
            self._repeats += self._batch_in_progress
            self._batch_in_progress = True
        elif name == "committed":
            self._batch_in_progress = False

    def rejected_events(self, events: Sequence[RejectedEvent]) -> None:
        """Keeps the latest of these events."""
        now = self._clock()
        with self._lock:
            self._rejected_events.extend({**asdict(event), "at": now} for event in events)

    def report(self, report: BatchReport) -> None:
        """Records the state after the batch, and its duration."""
        now = self._clock()
        assert self._micro_batch is not None
        manifest = self._micro_batch.manifest
        with self._lock:
            merge_work(self._work, report.work)
            self._keep(manifest, now)
            self._batches.append(
                {
                    "batch": report.batch,
                    "closing": report.closing,
                    "at": now,
                    "rows": report.rows,
                    "seconds": {phase: round(spent, 5) for phase, spent in report.seconds.items()},
                }
            )
            self._complaints.extend({"at": now, "batch": report.batch, "text": text} for text in report.complaints)
            self._version += 1

    def restarting(self, coming: ComingRestart) -> None:
        """Keeps the state after the last batch until the run continues."""
        with self._lock:
            self._version += 1

    def end(self, *, stopped: bool, error: BaseException | None) -> None:
        """Marks the end of the run; its results stay."""
        with self._lock:
            self._ended = self._clock()
            self._version += 1

    def _keep(self, manifest: Manifest, at: int | None) -> None:
        self._manifests.append(manifest)
        self._points.add(point_of(manifest, self._rules, at))
        for name, rules in self._rules.items():
            if rules.event_time and not rules.per_key and manifest.clock is not None:
                marks, before = marks_of(rules, manifest.bolts[name]), self._marks.get(name, {})
                moved = [source for source, mark in marks.items() if source not in before or before[source] != mark]
                self._since[name].update(dict.fromkeys(moved, manifest.clock))
                self._marks[name] = marks

    # -- called for the page

    def state(self, page_version: str, after: int) -> dict[str, Any]:
        """Returns everything to show."""
        with self._request_lock:
            return self._state(page_version, after)

    def _state(self, page_version: str, after: int) -> dict[str, Any]:
        with self._lock:
            manifests, number = list(self._manifests), self._version
            points, batches = list(self._points), list(self._batches)
            since = {name: dict(times) for name, times in self._since.items()}
        run, _, version = page_version.partition(".")
        full_version = f"{self._id}.{number}"
        view: dict[str, Any] = {"run": self._id, "version": full_version, "now": self._changing_values()}
        if run != self._id:
            after = -1
            view["graph"] = self._graph
        elif version == str(number):
            return view
        bolts = {
            name: bolt_view(name, rules, manifests, since[name]) for name, rules in self._rules.items() if manifests
        }
        windows, counted = self._open_windows(manifests, number)
        sinks, listed = self._sinks.listings(number)
        with self._lock:
            rejected_events, complaints = list(self._rejected_events), list(self._complaints)
        return view | {
            "version": full_version if counted and listed else f"{full_version}{STALE_PARTS_SUFFIX}",
            "bolts": {name: {**bolt, "open": windows.get(name)} for name, bolt in bolts.items()},
            "points": [point for point in points if point["n"] > after],
            "batches": batches,
            "rejected_events": rejected_events[::-1],
            "complaints": complaints[::-1],
            "remarks": self._remarks(bolts, manifests, points, batches),
            "sinks": sinks,
            "spouts": {} if not manifests else manifests[-1].spouts,
            "runs": [self._this_run(), *self._earlier],
        }

    def why(self, bolt: str, key: str | None, window: str | None) -> WhyAnswer:
        """Explains why a window has not fired."""
        rules_of(self._rules, bolt, key)
        with self._lock:
            manifests, micro_batch = list(self._manifests), self._micro_batch
        if not manifests or micro_batch is None:
            return not_started(bolt, key)
        question = Question(bolt, key, None if window is None else window_end_of(window, manifests[-1], bolt))
        with self._request_lock:
            return answer_question(
                Explanation(
                    question, self._rules, manifests, micro_batch.checkpoint.segments, _first_output(micro_batch)
                )
            )

    def _changing_values(self) -> dict[str, Any]:
        """Returns the values that change between two batches."""
        health = self.metrics.health()
        return {
            "clock": self._clock(),
            "state": str(health.state),
            "live": True,
            "phase": health.phase,
            "phase_seconds": health.phase_seconds,
            "error": health.error,
            "lag": [asdict(lag) for lag in self.metrics.lags()] if health.state is RunState.RUNNING else [],
        }

    def _open_windows(self, manifests: Sequence[Manifest], number: int) -> tuple[dict[str, Any], bool]:
        """Returns the open windows by bolt, counted from time to time and once more after the end; and True if they
        belong to this version."""
        micro_batch, ended = self._micro_batch, self._ended is not None
        fresh = time.monotonic() - self._windows_counted_at < WINDOWS_SECONDS and not ended
        if micro_batch is None or not manifests or self._windows_version == number:
            return self._windows, True
        if fresh and self._windows:
            return self._windows, False
        complete = True
        for name, rules in self._rules.items():
            try:
                bolt_windows = open_view(
                    name, rules, manifests, micro_batch.checkpoint.segments, _first_output(micro_batch)
                )
            except UNREADABLE as error:  # the run may have deleted what is being read
                _LOG.debug("the open windows of %r are not known now: %s", name, error)
                complete = False
                continue
            except Exception as error:  # the page shows everything else
                self._logged.log_once(f"the open windows of {name!r} cannot be shown", error)
                continue
            self._windows[name] = bolt_windows
        self._windows_version, self._windows_counted_at = number if complete else -1, time.monotonic()
        return self._windows, complete

    def _remarks(
        self,
        bolts: dict[str, Any],
        manifests: Sequence[Manifest],
        points: Sequence[dict[str, Any]],
        batches: Sequence[dict[str, Any]],
    ) -> list[dict[str, Any]]:
        remarks = remarks_of(bolts, points, manifests[-1].clock if manifests else None)
        recent = [batch["seconds"].get("total", 0.0) for batch in batches[-5:]]
        if self._interval is not None and len(recent) == 5 and min(recent) > self._interval.micros / 1e6:
            remarks.insert(
                0,
                page_remark(
                    "warn",
                    f"Each of the last batches took longer than the {self._interval} between them: the run falls "
                    "behind its triggers.",
                ),
            )
        remarks += [page_remark("note", advice.text, advice.bolt) for advice in self._recent_advice()]
        if self._repeats:
            times = "once" if self._repeats == 1 else f"{self._repeats:,} times"
            remarks.append(
                page_remark("note", f"A batch was begun again {times} in this run, since a worker had died.")
            )
        return remarks

    def _recent_advice(self) -> list[Advice]:
        """Returns the advice that the run would give if it ended now, computed from time to time."""
        if time.monotonic() - self._advised_at >= ADVICE_SECONDS:
            with self._lock:
                work = dict(self._work)
            micro_batch = self._micro_batch
            kept = micro_batch is not None and isinstance(micro_batch.checkpoint, FileCheckpoint)
            self._advice, self._advised_at = advice_on(self.topology, work, kept=kept), time.monotonic()
        return self._advice

    def _this_run(self) -> dict[str, Any]:
        health = self.metrics.health()
        return {
            "run": self._id[:8],
            "began": self._began,
            "continues": self._continues,
            "ended": self._ended,
            "how": str(health.state),
            "error": health.error,
            "repeats": self._repeats,
            "restarts": health.restarts,
        }


def _earlier_runs(micro_batch: MicroBatch) -> list[dict[str, Any]]:
    """Returns the earlier runs on the checkpoint, the last one first; empty without a checkpoint in files."""
    checkpoint = micro_batch.checkpoint
    runs = read_runs(checkpoint.files) if isinstance(checkpoint, FileCheckpoint) else []
    return [run_view(run) for run in runs[::-1] if run.run != micro_batch.run_id]


def _first_output(micro_batch: MicroBatch) -> int | None:
    return None if micro_batch.first_output is None else micro_batch.first_output.time


# A run on its page, from its checkpoint and its journal; it may be in progress elsewhere.


JOURNAL = 30
"""Number of the journal's latest batches that are shown."""


class StoredRun:
    """Reads a checkpoint whenever it has changed. Writes nothing and disturbs no run."""

    def __init__(self, folder: str) -> None:
        """Raises CheckpointError if there is no checkpoint, or no run of this version has used it."""
        self.folder = folder
        self._checkpoint = checkpoint_at(folder)
        rules = require_rules(self._checkpoint)
        self._name, self._rules = rules.name, rules.bolts
        self._graph = layout_as_json(rules.boxes, rules.arrows, rules.bolts)
        self._id = sha256(self._checkpoint.path.encode()).hexdigest()[:16]
        self._store = FileSegments(f"{self._checkpoint.documents.root}/segments", self._checkpoint.uri)
        self._sinks = SinkFolders(_shown_sinks(rules.boxes, read_sinks(self._checkpoint.documents)))
        self._points, self._seen = Points(), set[tuple[int, bool]]()
        self._request_lock = threading.Lock()

    @property
    def name(self) -> str:
        """The name of the topology."""
        return self._name

    def state(self, page_version: str, after: int) -> dict[str, Any]:
        """Returns everything to show."""
        with self._request_lock:
            return self._state(page_version, after)

    def why(self, bolt: str, key: str | None, window: str | None) -> WhyAnswer:
        """Explains why a window has not fired."""
        return why(self.folder, bolt, key=key, window=window)

    def _state(self, page_version: str, after: int) -> dict[str, Any]:
        files = self._checkpoint.documents
        runs = read_runs(files)
        version = f"{self._id}.{_digest([files.names('manifests'), [asdict(run) for run in runs]])}"
        view = {"run": self._id, "version": version, "now": _values_of_runs(runs)}
        if page_version == version:
            return view
        if page_version.partition(".")[0] != self._id:
            after = -1
            view["graph"] = self._graph
        manifests = [manifest for manifest in kept_manifests(self._checkpoint) if manifest.batch >= 0]
        for manifest in manifests:
            key = (manifest.batch, manifest.closing)
            if key not in self._seen:
                self._seen.add(key)
                self._points.add(point_of(manifest, self._rules, None))
        bolts = self._bolts(manifests)
        sinks, listed = self._sinks.listings(version)
        return view | {
            "version": version if listed else f"{version}{STALE_PARTS_SUFFIX}",
            "bolts": bolts,
            "points": [point for point in self._points if point["n"] > after],
            "batches": [],
            "journal": self._journal(),
            "rejected_events": [],
            "complaints": [],
            "remarks": remarks_of(bolts, list(self._points), manifests[-1].clock if manifests else None),
            "sinks": sinks,
            "spouts": manifests[-1].spouts if manifests else {},
            "runs": [run_view(run) for run in runs[::-1]],
        }

    def _bolts(self, manifests: Sequence[Manifest]) -> dict[str, Any]:
        if not manifests:
            return {}
        first_output = (self._checkpoint.documents.read(START) or {}).get("first_output")
        bolts = {}
        for name, rules in self._rules.items():
            bolts[name] = bolt_view(name, rules, manifests, {})
            bolts[name]["open"] = None
            with suppress(*UNREADABLE):  # a run may have deleted what is being read
                bolts[name]["open"] = open_view(name, rules, manifests, self._store, first_output)
        return bolts

    def _journal(self) -> list[dict[str, Any]]:
        """Returns the latest batches of the journal, the last one first."""
        half = self._checkpoint.spark_checkpoint
        batches, done = [], set(half.commits())
        for number in sorted(half.offsets())[: -JOURNAL - 1 : -1]:
            with suppress(*UNREADABLE, ValueError, KeyError, IndexError, AttributeError):
                about = json.loads(half.read(f"offsets/{number}").split("\n")[1])
                batches.append({"batch": number, "at": about["batchTimestampMs"] * 1000, "done": number in done})
        return batches


def _shown_sinks(boxes: Sequence[Box], notes: Sequence[SinkNote]) -> list[ShownSink]:
    """Returns the sinks of the last run: all sinks of the graph, with further facts from the notes."""
    noted = {
        note["name"]: ShownSink(note["name"], note["kind"], note.get("folder"))
        for note in notes
        if "last_batch" not in note
    }
    drawn = {box.name: ShownSink(box.name, " ".join(box.facts[:1]), None) for box in boxes if box.kind == "sink"}
    return list({**drawn, **noted}.values())


def _values_of_runs(runs: Sequence[RunNote]) -> dict[str, Any]:
    last = next((run for run in reversed(runs) if run.changed is None), None)
    return {
        "clock": system_clock(),
        "state": "checkpoint" if last is None or last.how is None else last.how,
        "live": False,
        "phase": None,
        "phase_seconds": None,
        "error": None if last is None or last.how is None else last.error,
        "lag": [],
    }


def _digest(values: object) -> str:
    return sha256(json.dumps(values).encode()).hexdigest()[:16]


# The site of a live page: its files, the state of runs, and why a window has not fired; read-only.


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
    """Answers requests at the address of a page. Several runs share it; of two with the same name, the later one is
    shown."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._lock = threading.Lock()
        self._runs: dict[str, RunPage] = {}

    def show(self, run: RunPage) -> None:
        """Shows a run from now on."""
        with self._lock:
            self._runs[run.name] = run

    def answer(self, path: str, query: Mapping[str, str], host: str) -> HttpAnswer | None:
        """Returns the response to a request; None for a path that is not the page's."""
        if path not in ("/", "/state", "/why", "/page.css") and path[1:] not in _SCRIPTS:
            return None
        if self.address.is_loopback and _host_name(host) not in LOCAL_NAMES:
            return _error_answer(
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
            return _no_run_answer(query)
        with self._lock:
            names = list(self._runs)
        try:
            state = run.state(query.get("version", ""), int(after))
        except WindboltError as error:
            return _answer_of_error(error)
        return _json({"topology": run.name, "topologies": names, **state})

    def _why(self, query: Mapping[str, str]) -> HttpAnswer:
        run = self._run(query)
        if run is None:
            return _no_run_answer(query)
        try:
            answer = run.why(query.get("bolt", ""), query.get("key") or None, query.get("window") or None)
        except WindboltError as error:
            return _answer_of_error(error)
        return _json(answer.to_json())


def show_page(address: Address, run: RunPage) -> None:
    """Shows a run on the page at an address. Raises ConfigError if it cannot be served there."""
    server = SERVERS.at(address, "the page")
    cast("PageSite", server.site(lambda: PageSite(address))).show(run)


def _host_name(host: str) -> str:
    """Returns the name in a Host header, without its port."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0] or host


def _json(values: object, status: HTTPStatus = HTTPStatus.OK) -> HttpAnswer:
    return HttpAnswer(json.dumps(values, separators=(",", ":")).encode(), _JSON, status, _HEADERS)


def _error_answer(status: HTTPStatus, what: str, why: str, do: str) -> HttpAnswer:
    return _json({"error": {"what": what, "why": why, "do": do}}, status)


def _answer_of_error(error: WindboltError) -> HttpAnswer:
    return _error_answer(HTTPStatus.BAD_REQUEST, error.what, error.why, error.do)


def _no_run_answer(query: Mapping[str, str]) -> HttpAnswer:
    return _error_answer(
        HTTPStatus.NOT_FOUND,
        f"there is no run of {query.get('topology', '')[:100]!r} here",
        "the process shows other runs, or none yet",
        "open the page without a name",
    )


@cache
def _asset(name: str) -> HttpAnswer:
    body = files("topologies.page").joinpath("assets", name).read_bytes()
    if name == "page.css":
        body = f"{page_colours()}\n".encode() + body
    return HttpAnswer(body, _KINDS[name.rpartition(".")[2]], headers=_HEADERS)


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


# The observers that a run's options require: metrics, OpenTelemetry, the page.


def asked_observers(topology: Graph, options: RunOptions) -> list[RunObserver]:
    """Returns the observers: the metrics, from which the others read; OpenTelemetry; the page.

    Raises EnvironmentMissing if a package is missing, and ConfigError if the metrics or the page cannot be served.
    """
    served, page = options.metrics_address, options.page_address
    if served is None and page is None and not options.otel:
        return []
    metrics = RunMetrics(topology, options.clock)
    observers: list[RunObserver] = [metrics]
    if served is not None:
        check_prometheus()
        SERVERS.at(served).show(metrics)
    if options.otel:
        from topologies.run.otel import METERS, BatchSpans, providers

        open_telemetry = providers()
        METERS.at(open_telemetry).show(metrics)
        observers.append(BatchSpans(open_telemetry.tracer, topology, options.clock))
    if page is not None:
        live = LiveRun(topology, options, metrics)
        show_page(page, live)
        observers.append(live)
    return observers
