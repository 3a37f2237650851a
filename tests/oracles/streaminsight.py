"""StreamInsight, event by event (features SI-1 to SI-32).

Each input has a current application time of its own, its last CTI (SI-2). An event that begins before it (an end edge:
that ends before it) violates it, and is dropped or cut (SI-4, SI-12, SI-13). The windows are then nothing but a
question to the list of lifetimes; those that end at or before the least CTI of all inputs are out (SI-22, SI-26).

A tick is a microsecond here, as windbolt's times are.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tests.oracles.expected import ANY, Expected, Json, Judged, Unsaid
from tests.oracles.streaminsight_windows import FOREVER, Lifetime, touches_none, windows_of
from tests.oracles.units import duration, moment

TICK = 1


@dataclass(frozen=True)
class Readings:
    """Where the documents leave two readings open. `expected` answers by one of them."""

    dropped_events_count: bool = True  # for every N events: "received" ones
    an_unsent_cti_resets_the_count: bool = True  # one that is not later than the last


@dataclass
class _Input:
    cti: int | None = None
    since: int = 0  # events since the last generated CTI
    reference: int | None = None  # the start from which application time is counted


@dataclass(frozen=True)
class _EarlyEnd:
    """An end edge that came before its start edge (SI-3, SI-19)."""

    name: str
    edge: Any
    stream: str
    end: int


@dataclass
class _Query:
    scenario: Json
    settings: Json
    readings: Readings
    inputs: dict[str, _Input]
    lifetimes: list[Lifetime] = field(default_factory=list)
    early_ends: list[_EarlyEnd] = field(default_factory=list)
    violated: list[Any] = field(default_factory=list)  # the keys of start edges that were dropped
    judged: dict[str, Judged] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    metrics: Counter[str] = field(default_factory=Counter)
    closed: bool = False

    def watermark(self) -> int | None:
        """The least of all inputs; none before each has one."""
        known = [one.cti for one in self.inputs.values() if one.cti is not None]
        return min(known) if len(known) == len(self.inputs) else None


def expected(scenario: Json, readings: Readings | None = None) -> Expected:
    """What StreamInsight answers to a scenario."""
    streams = scenario.get("streams", ["s1"])
    settings = scenario["bolt"]["preset"]["streaminsight"]
    query = _Query(scenario, settings, readings or Readings(), {stream: _Input() for stream in streams})
    for step in scenario["steps"]:
        if "close" in step:
            query.closed = True
        if "event" in step:
            _row(query, step["event"], step.get("stream", streams[0]))
    return _answer(query)


def _row(query: _Query, event: Json, stream: str) -> None:
    punctuation = query.settings.get("field")
    if punctuation and event.get(punctuation) is not None:
        _advance(query, stream, moment(event[punctuation]))
        query.judged[event["id"]] = Judged(ANY, ("watermark",), query.watermark(), query.inputs[stream].cti)
        return
    query.counts["received"] += 1
    if event.get("start") is None:
        query.counts["invalid"] += 1
        query.judged[event["id"]] = Judged(None, ("invalid",))
        return
    if _shape(query, event) == "end_edge":
        _end_edge(query, event, stream)
    else:
        _begins(query, event, stream)


def _shape(query: _Query, event: Json) -> str:
    bolt = query.scenario["bolt"]
    if "shape_field" in bolt:
        return str(event[bolt["shape_field"]])
    return "interval" if "end_field" in bolt and event.get("end") is not None else "point"


def _begins(query: _Query, event: Json, stream: str) -> None:
    """A point, an interval or a start edge: is it let in, and as what; then, is a CTI due (SI-5, SI-6)?"""
    shape, source = _shape(query, event), query.inputs[stream]
    start = moment(event["start"])
    end = {"point": start + TICK, "start_edge": FOREVER}.get(shape) or moment(event["end"])
    if shape == "interval" and end <= start:
        raise Unsaid("an interval that ends before it begins")
    time: int | None = start
    action = "accepted"
    if source.cti is not None and start < source.cti:
        query.metrics["out_of_order"] += 1
        cut = query.settings.get("policy") == "adjust" and shape != "point" and end > source.cti
        time, action = (source.cti, "adjusted_out_of_order") if cut else (None, "dropped_out_of_order")
    if time is None:
        query.counts["dropped"] += 1
        query.violated.append(_edge(query, event, shape))
    else:
        if action != "accepted":
            query.counts["adjusted"] += 1
            query.metrics["adjusted"] += 1
        edge = _edge(query, event, shape)
        query.lifetimes.append(Lifetime(event["id"], time, _known_end(query, edge, stream, time, end), stream, edge))
    _generate(query, stream, start, time is None)
    query.judged[event["id"]] = Judged(time, (action,), query.watermark(), source.cti)
    if time is not None and touches_none(query.scenario["bolt"], query.lifetimes[-1]):
        query.judged[event["id"]].actions = (action, "unwindowed")


def _known_end(query: _Query, edge: Any, stream: str, start: int, end: float) -> float:
    """The end of a start edge whose end edge has come before it."""
    passed = query.watermark()
    for early in query.early_ends:
        if passed is not None and early.end < passed:
            continue  # the time of all inputs has passed it: it waits no more
        if edge is not None and early.edge == edge and early.stream == stream:
            query.early_ends.remove(early)
            query.counts["end_edges"] += 1
            return max(early.end, start)  # cut to begin at its end, or beyond: nothing is left of it
    return end


def _edge(query: _Query, event: Json, shape: str) -> Any:
    return event[query.scenario["bolt"]["edge_key"][0]] if shape == "start_edge" else None


def _end_edge(query: _Query, event: Json, stream: str) -> None:
    """Judged by its end (SI-4), dropped whatever the policy (SI-13), and counted for no CTI (SI-10)."""
    source, end = query.inputs[stream], moment(event["end"])
    key = event[query.scenario["bolt"]["edge_key"][0]]
    if source.cti is not None and end < source.cti:
        query.metrics["out_of_order"] += 1
        query.counts["dropped"] += 1
        query.judged[event["id"]] = Judged(None, ("dropped_out_of_order",), query.watermark(), source.cti)
        return
    query.judged[event["id"]] = Judged(ANY, (), query.watermark(), source.cti)
    for place, one in enumerate(query.lifetimes):
        if one.edge == key and one.stream == stream and one.end == FOREVER:
            query.lifetimes[place] = Lifetime(one.name, one.start, max(end, one.start), stream, key)
            query.counts["end_edges"] += 1
            query.judged[event["id"]].actions = ("accepted",)
            return
    if any(name == key for name in query.violated):
        raise Unsaid("an end edge whose start edge was dropped")
    query.early_ends.append(_EarlyEnd(event["id"], key, stream, end))


def _generate(query: _Query, stream: str, start: int, dropped: bool) -> None:
    """Every N events, or every T of application time, the start of the last event less the delay."""
    every, source = query.settings.get("every", 1), query.inputs[stream]
    imports = query.settings.get("imports") or {}
    if every is None or (stream in imports and not query.scenario["bolt"].get("imports_beside")):
        return
    delay = duration(query.settings.get("delay", "0s"))
    if isinstance(every, int):
        if dropped and not query.readings.dropped_events_count:
            return
        source.since += 1
        if source.since < every:
            return
        if _advance(query, stream, start - delay) or query.readings.an_unsent_cti_resets_the_count:
            source.since = 0
    elif source.reference is None:
        source.reference = start  # the first event starts the count
    elif start - source.reference >= duration(every):
        source.reference = start
        _advance(query, stream, start - delay)


def _advance(query: _Query, stream: str, cti: int) -> bool:
    """A CTI never goes back (SI-6); who imports from this input has it too (SI-15)."""
    source = query.inputs[stream]
    if source.cti is not None and cti <= source.cti:
        return False
    source.cti = cti
    for importer, exporter in (query.settings.get("imports") or {}).items():
        if exporter == stream:
            _advance(query, importer, cti)
    return True


def _answer(query: _Query) -> Expected:
    bolt = query.scenario["bolt"]
    passed: float | None = query.watermark()
    if query.closed and query.settings.get("to_infinity"):
        passed = FOREVER
        if any(one.end == FOREVER for one in query.lifetimes):
            raise Unsaid("a start edge that is never ended, at a CTI of infinity")
    formed = windows_of(bolt, query.lifetimes, passed)
    out = [window for window in formed if passed is not None and window.end <= passed]
    fired = {name for window in out for name in window.events}
    lost = [one.name for one in query.lifetimes if touches_none(bolt, one)]
    left = [one.name for one in query.lifetimes if one.name not in fired and one.name not in lost]
    pending = [] if passed == FOREVER else left  # nothing comes after that: too few starts for a window
    waiting = [early.name for early in query.early_ends if not _over(query, early, passed)]
    query.counts["invalid"] += len(query.early_ends) - len(waiting)
    pending += waiting
    counts = {name: query.counts[name] for name in ("received", "adjusted", "invalid", "dropped")}
    counts |= {"late": 0, "early": 0, "duplicate": 0, "purged": 0, "windowed": len(fired), "pending": len(pending)}
    counts["unwindowed"] = (
        len(lost) + (len(left) if passed == FOREVER else 0) + query.counts["end_edges"]
    )  # which are in no window themselves
    metrics = {name: query.metrics[name] for name in ("out_of_order", "adjusted")}
    either = frozenset(lost if "end_field" in bolt and passed != FOREVER else ())
    return Expected(out, query.judged, pending, counts, metrics, either=either)


def _over(query: _Query, early: _EarlyEnd, passed: float | None) -> bool:
    """Whether no start edge can come for it any more: not even one that begins at its end, or is cut to begin there."""
    own = query.inputs[early.stream].cti
    if passed == FOREVER:
        return True
    if own is None or own <= early.end:
        return False
    if passed is None or passed <= early.end:
        raise Unsaid("an end edge that its own input has passed, and another has not")
    return True
