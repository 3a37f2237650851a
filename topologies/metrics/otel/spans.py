"""Spans of a run: each batch is a trace, with its phases and the windows that it fired."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from topologies.engine.batch.report import BatchReport
from topologies.run.clock import Clock
from topologies.run.observer import RunObserver
from topologies.run.restart import ComingRestart
from topologies.topology import Topology
from windowing.data.printable import error_text
from windowing.time.timestamps import show_end

if TYPE_CHECKING:
    from opentelemetry.trace import Link, Span, SpanContext, Tracer
    from opentelemetry.util.types import Attributes

MOST_WINDOWS = 100
"""Spans of windows in one batch; how many windows have none stands at the span of the batch."""


class BatchSpans(RunObserver):
    """Tells a tracer of the batches of a run. A batch of a run that never ends is a trace of its own."""

    def __init__(self, tracer: Tracer, topology: Topology, clock: Clock) -> None:
        self._tracer, self._clock = tracer, clock
        self._topology = {"windbolt.topology": topology.name}
        self._levels = {node.name: level for level, nodes in enumerate(topology.levels) for node in nodes}
        self._caller = _present_span()
        self._batch: Span | None = None
        self._phase: Span | None = None
        self._fired_from: list[int] = []
        """When the windows of each level began to fire, in nanoseconds."""
        self._left_out = 0
        self._contexts: Mapping[str, Mapping[int, Sequence[str]]] = {}

    wants_trace_contexts = True

    def trace_contexts(self, found: Mapping[str, Mapping[int, Sequence[str]]]) -> None:
        """The windows of this batch are linked to them."""
        self._contexts = found

    def phase(self, name: str) -> None:
        """A phase ends where the next one begins. The first one begins the batch."""
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
        """The windows that fired in the batch: a span for those of a bolt with one end, from when the bolt's windows
        began to fire until they were committed. Where there are too many, those with trace contexts and the latest."""
        now = self._now()
        for bolt, windows in ends.items():
            contexts = self._contexts.get(bolt, {})
            chosen = sorted(windows, key=lambda end: (end in contexts, end), reverse=True)
            chosen = chosen[: max(MOST_WINDOWS // len(ends), 1)]
            self._left_out += sum(windows.values()) - sum(windows[end] for end in chosen)
            for end in chosen:
                of_window: Attributes = {
                    "windbolt.bolt": bolt,
                    "windbolt.window.end": show_end(end),
                    "windbolt.window.emit_delay": max(now // 1000 - end, 0) / 1e6,
                    "windbolt.windows": windows[end],
                }
                start = self._fired_from[self._levels[bolt]] if self._fired_from else now
                links = _links(contexts.get(end, ()))
                self._begin("windbolt.window", start, of_window, parent=self._batch, links=links).end(now)
        self._contexts = {}

    def report(self, report: BatchReport) -> None:
        """What came of the batch."""
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
        """The batch in hand has failed; it is a new batch after the restart."""
        self.end(stopped=False, error=coming.error)

    def end(self, *, stopped: bool, error: BaseException | None) -> None:
        """A batch that is not done failed."""
        if self._batch is not None and error is not None:
            self._batch.record_exception(error, timestamp=self._now())
        self._fail(self._now(), "the run ended" if error is None else error_text(error))

    def _begin(
        self, name: str, at: int, attributes: Attributes, *, parent: Span | None, links: Sequence[Link] = ()
    ) -> Span:
        from opentelemetry.context import Context
        from opentelemetry.trace import Link, set_span_in_context

        context = Context() if parent is None else set_span_in_context(parent, Context())
        if parent is None and self._caller.is_valid:
            links = [Link(self._caller)]
        all_attributes = {**self._topology, **(attributes or {})}
        return self._tracer.start_span(name, context, attributes=all_attributes, links=links, start_time=at)

    def _fail(self, at: int, why: str) -> None:
        """End the spans of a batch that is not committed."""
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
    """Links to what texts as W3C's Trace Context writes them stand for; others are passed over."""
    from opentelemetry.trace import Link, get_current_span
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    read = TraceContextTextMapPropagator()
    spans = [get_current_span(read.extract({"traceparent": text})).get_span_context() for text in contexts]
    return [Link(span) for span in spans if span.is_valid]
