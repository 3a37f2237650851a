"""Replays scenarios through the micro-batches of the real engine: records, results and comparison."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from manager.storage.manifest import BoltState, Manifest
from manager.storage.segments import SegmentStore
from topologies.engine.batch import BatchPlan
from topologies.engine.ledger import event_ids
from topologies.engine.micro_batch import MicroBatch, Rehearsal
from topologies.engine.report import BatchReport
from topologies.engine.tasks import pending_events
from topologies.graph.describing import time_in_words, window_in_words
from topologies.graph.graph import ID, Graph, WindowedNode
from topologies.io.sinks import MemorySink
from topologies.scenarios.scenario_answer import (
    AnswerDecision,
    AnswerEvent,
    AnswerWindow,
    BoltBatch,
    BoltTrace,
    ReplayResult,
    answer_window,
    event_json,
    plain_json,
    window_json,
)
from topologies.scenarios.scenario_model import Scenario
from topologies.scenarios.scenario_values import Expect, ExpectedEvent, ExpectedPane, ExpectedWindow, Includes
from topologies.scenarios.script import (
    ScriptBatch,
    ScriptSplit,
    messages_by_sink,
    scenario_topology,
    script,
    step_names,
    with_only_spout,
)
from windowing.errors import ScenarioError
from windowing.settings import WindowSettings
from windowing.timestamps import from_datetime, parse_end, readable_time

# The record of a scenario's run, on either engine, and the result made from it.


@dataclass
class Recording:
    """Record of a run on any engine; a batch that runs again replaces its earlier record."""

    windows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    late: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    events: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    invalid: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    refused: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    decisions: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    batches: dict[str, list[BoltBatch]] = field(default_factory=dict)
    watermarks: dict[str, list[int | None]] = field(default_factory=dict)
    clocks: dict[str, list[int | None]] = field(default_factory=dict)
    before_end: dict[str, tuple[int, int | None]] = field(default_factory=dict)
    """The clock and the watermark of each bolt before the streams ended."""

    def watch(self, micro_batch: MicroBatch) -> MicroBatch:
        """Makes a run report its events to this record."""
        micro_batch.tracer = self._trace
        return micro_batch

    def note_batch(self, batch: ScriptBatch, report: BatchReport, prefix: str = "") -> None:
        """Records the watermarks of a committed batch."""
        for name, bolt in report.bolts.items():
            if not name.startswith(prefix):
                continue
            bolt_batch = BoltBatch(report.batch, batch.advance.clock, bolt.watermark, bolt.inputs)
            self.batches.setdefault(name, []).append(bolt_batch)
            if batch.advance.tick and not batch.advance.close:
                self.watermarks.setdefault(name, []).append(bolt.new_watermark)
            if batch.moves_clock:
                self.clocks.setdefault(name, []).append(bolt.watermark)
            if not batch.advance.close:
                self.before_end[name] = batch.advance.clock, bolt.watermark

    def answer(
        self, scenario: Scenario, topology: Graph, manifest: Manifest, store: SegmentStore, prefix: str = ""
    ) -> ReplayResult:
        """Returns the result, from this record and the final state. ``prefix``: the prefix of the scenario's
        components, if several scenarios share a run."""
        own_nodes = {name: node for name, node in topology.windowed.items() if name.startswith(prefix)}
        windows = _rows_of_bolts(self.windows, own_nodes)
        listing_admission = {name for name, node in own_nodes.items() if _lists_admission(node.bolt.settings)}
        by_arrival = {key: sorted(rows, key=lambda row: row["seq"]) for key, rows in self.events.items()}
        bolts = {name: manifest.bolts[name] for name in own_nodes}
        pending = {name: list(_pending_ids(node, bolts[name], store)) for name, node in own_nodes.items()}
        counts = {name: bolt.accounts.totals(sum(bolt.pending)) for name, bolt in bolts.items()}
        outputs, steps = _outputs(scenario, topology, prefix)
        answer_windows = [answer_window(topology, row, steps, list(own_nodes), prefix) for row in windows]
        first_bolt = next(iter(own_nodes), "")
        return ReplayResult(
            scenario.name,
            windows=answer_windows,
            late=[row["event"] for row in _rows_of_bolts(self.late, own_nodes)],
            watermarks=list(self.watermarks.get(first_bolt, [])),
            pending=[event for events in pending.values() for event in events],
            counts=_sum_counts(counts.values()),
            outputs=outputs,
            events=[_answer_event(row) for row in _rows_of_bolts(by_arrival, listing_admission)],
            clocks=list(self.clocks.get(first_bolt, [])),
            metrics=self._metrics(scenario, bolts.values(), first_bolt),
            steps=tuple(steps.values()),
            invalid={
                scenario.event_steps[row["row"]].id: row["reason"] for row in _rows_of_bolts(self.invalid, own_nodes)
            },
            without_ids={
                name.removeprefix(prefix): not all(node.origins)
                for name, node in own_nodes.items()
                if ID not in node.schema.names
            },
            traces=[
                self._bolt_trace(
                    node,
                    steps.get(name, name.removeprefix(prefix)),
                    {at: window for at, window in enumerate(answer_windows) if windows[at]["bolt"] == name},
                    counts[name],
                    pending[name],
                    prefix,
                )
                for name, node in own_nodes.items()
            ],
        )

    def _metrics(self, scenario: Scenario, bolts: Iterable[BoltState], first_bolt: str) -> dict[str, int | float]:
        """Returns the counts of the time rules, and how far the first bolt's watermark is behind the clock."""
        metrics: dict[str, int | float] = {**_sum_counts(bolt.accounts.metrics() for bolt in bolts)}
        clock, watermark = self.before_end.get(first_bolt, (0, None))
        if watermark is not None and scenario.has_clock:
            metrics["watermark_delay"] = _milliseconds(clock - watermark)
        return metrics

    def _bolt_trace(
        self,
        node: WindowedNode,
        name: str,
        windows: dict[int, AnswerWindow],
        counts: dict[str, int],
        pending: list[str | None],
        prefix: str,
    ) -> BoltTrace:
        """Returns the trace of one bolt. ``prefix``: that of its inputs' names, if scenarios share a run."""

        def rows_of_bolt(recorded: Mapping[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
            rows = (
                {**row, "batch": key} for key in sorted(recorded) for row in recorded[key] if row["bolt"] == node.name
            )
            return sorted(rows, key=lambda row: (row["batch"], row.get("seq", 0)))

        return BoltTrace(
            bolt=name,
            event_time=node.event_time,
            settings=node.bolt.settings,
            description=f"Windows: {window_in_words(node)}. Time: {time_in_words(node)}.",
            from_bolts=tuple(
                label.removeprefix(prefix) for label, origins in zip(node.streams, node.origins, strict=True) if origins
            ),
            windows=windows,
            counts=counts,
            pending=pending,
            invalid={row["row"]: row["reason"] for row in rows_of_bolt(self.invalid)},
            refused={row["event"]: row["reason"] for row in rows_of_bolt(self.refused)},
            watermarks=list(self.watermarks.get(node.name, [])),
            clocks=list(self.clocks.get(node.name, [])),
            events=[_answer_event(row) for row in rows_of_bolt(self.events)]
            if _lists_admission(node.bolt.settings)
            else [],
            decisions=[_answer_decision(row, prefix) for row in rows_of_bolt(self.decisions)],
            batches=[
                replace(batch, inputs={label.removeprefix(prefix): mark for label, mark in batch.inputs.items()})
                for batch in self.batches.get(node.name, [])
            ],
        )

    def _trace(self, key: str, kind: str, rows: list[dict[str, Any]]) -> None:
        recorded = {
            "windows": self.windows,
            "late": self.late,
            "events": self.events,
            "invalid": self.invalid,
            "decisions": self.decisions,
            "refused": self.refused,
        }
        recorded[kind][key] = rows


def _rows_of_bolts(recorded: Mapping[str, list[dict[str, Any]]], bolts: Container[str]) -> list[dict[str, Any]]:
    """Returns the rows of these bolts, batch by batch."""
    return [row for key in sorted(recorded) for row in recorded[key] if row["bolt"] in bolts]


def _outputs(
    scenario: Scenario, topology: Graph, prefix: str
) -> tuple[dict[str, list[dict[str, Any]]], dict[str, str]]:
    """Returns the rows of each sink (for an aggregation step, its messages), and the names of steps by their bolts."""
    outputs = {
        name.removeprefix(prefix): node.sink.rows
        for name, node in topology.sinks.items()
        if isinstance(node.sink, MemorySink) and name.startswith(prefix)
    }
    if scenario.step is None:
        return outputs, {}
    return messages_by_sink(topology, outputs, prefix), step_names(topology, prefix)


def _sum_counts(numbers: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Returns the sums of the counts of several bolts, by name."""
    sums: dict[str, int] = {}
    for bolt_counts in numbers:
        for name, number in bolt_counts.items():
            sums[name] = sums.get(name, 0) + number
    return sums


def _pending_ids(node: WindowedNode, bolt: BoltState, store: SegmentStore) -> Iterator[str | None]:
    """Yields the ids of the events that a window of the bolt may still need; None for an event without an id."""
    if ID not in node.schema.names:
        yield from [None] * sum(bolt.pending)
        return
    for task, state in enumerate(bolt.tasks):
        for events in pending_events(store, node, task, state):
            yield from event_ids(events)


def _lists_admission(rules: WindowSettings) -> bool:
    """True if a result lists the admission of a bolt's events, because it does not depend on ticks alone."""
    marks = rules.watermark_every or rules.watermark_field or rules.watermark_partition or rules.watermark_imports
    return bool(marks) or rules.watermark_per_key or rules.arrival is not None or rules.message_id_field is not None


def _answer_event(row: dict[str, Any]) -> AnswerEvent:
    return AnswerEvent(
        id=row["event"], time=row["time"], action=row["decision"], watermark=row["watermark"], mark=row["mark"]
    )


def _answer_decision(row: dict[str, Any], prefix: str) -> AnswerDecision:
    return AnswerDecision(
        batch=row["batch"],
        input=row["input"].removeprefix(prefix),
        seq=row["seq"],
        row=row["row"],
        event=row["event"],
        time=row["time"],
        assigned=row["assigned"],
        decision=row["decision"],
        mark=row["mark"],
        reason=row["reason"],
    )


def _milliseconds(micros: int) -> int | float:
    return micros / 1000 if micros % 1000 else micros // 1000


# A result compared with the expectations of its scenario.


ExpectedRows = Sequence[dict[str, Any]]
_PART_HINT = "to expect a part of what comes out: expect.includes"
_UNNAMED_SINK = " (of a sink that expect.outputs does not name, nothing is expected: name it, or use expect.includes)"


def judge(scenario: Scenario, answer: ReplayResult) -> ReplayResult:
    """Returns the result with its verdict: ``ok`` is None if the scenario expects nothing."""
    if scenario.expect is None or scenario.expect.is_empty:
        return replace(answer, ok=None, differences=[])
    differences = compare(scenario, answer)
    return replace(answer, ok=not differences, differences=differences)


def judge_midway(answer: ReplayResult, midway: Mapping[str, ReplayResult]) -> ReplayResult:
    """Returns the result with the verdicts on expectations between steps, by their index in the file."""
    verdicts = [answer, *midway.values()]
    if all(each.ok is None for each in verdicts):
        return answer
    differences = [f"{place}.expect: {text}" for place, each in midway.items() for text in each.differences]
    return replace(
        answer, ok=all(each.ok is not False for each in verdicts), differences=[*differences, *answer.differences]
    )


def compare(scenario: Scenario, answer: ReplayResult) -> list[str]:
    """Returns the differences between the result and the expectations, one text each. Times are ISO 8601, or
    milliseconds near 1970.

    Each key of ``expect`` is compared completely: windows and events in order and on the fields of the expectation,
    late events, watermarks and clocks in order, pending events in any order. A sink that is missing on one side counts
    as empty. Only the counts and metrics in the expectation are compared. Fractions may differ in the last digits. The
    messages of a step are compared on the fields of the expectation.
    """
    expect = scenario.expect
    return [] if expect is None else list(_differences(expect, answer, all_fields=scenario.step is None))


def _differences(expect: Expect, answer: ReplayResult, *, all_fields: bool) -> Iterator[str]:
    why_null = _why_ids_are_null(answer)
    if expect.windows is not None:
        for name, wanted_windows, fired in _by_step(expect.windows, answer):
            yield from _with_reason(
                _window_differences(name, wanted_windows, fired), why_null if _ask_ids(wanted_windows) else ""
            )
    if expect.includes is not None:
        asks_ids = expect.includes.late or _ask_ids(expect.includes.windows or [])
        yield from _with_reason(_missing_parts(expect.includes, answer), why_null if asks_ids else "")
    if expect.late is not None:
        yield from _with_reason(_list_difference("late", expect.late, answer.late), why_null)
    if expect.watermarks is not None:
        yield from _list_difference("watermarks", _times(expect.watermarks), _times(answer.watermarks))
    if expect.pending is not None:
        pending = sorted(answer.pending, key=lambda name: (name is None, name or ""))
        yield from _with_reason(_list_difference("pending", sorted(expect.pending), pending), why_null)
    if expect.events is not None:
        yield from _with_reason(_event_differences(expect.events, answer.events), why_null)
    if expect.clocks is not None:
        yield from _list_difference("clocks", _times(expect.clocks), _times(answer.clocks))
    yield from _metric_differences(expect.metrics or {}, answer.metrics)
    for account, wanted_count in (expect.counts or {}).items():
        found_count = answer.counts.get(account, 0)
        if wanted_count != found_count:
            yield f"counts.{account}: expected {wanted_count}, found {found_count}"
    for sink in _sink_names(expect.outputs, answer.outputs):
        wanted, found = (expect.outputs or {}).get(sink, []), answer.outputs.get(sink, [])
        shown, named = (
            found if all_fields else list(_limited_to_expected(wanted, found)),
            sink in (expect.outputs or {}),
        )
        yield from _with_reason(_row_differences(sink, wanted, shown, named=named), "" if named else _UNNAMED_SINK)


def _why_ids_are_null(answer: ReplayResult) -> str:
    """Returns the reason why ids are null; empty if the ids of all events are known."""
    if not answer.without_ids:
        return ""
    return (
        f" (null: an event whose id is not known, as no column 'id' reaches {', '.join(map(repr, answer.without_ids))})"
    )


def _ask_ids(expected: Sequence[ExpectedWindow]) -> bool:
    return any(name in each.given for each in expected for name in ("events", "new", "expired"))


def _with_reason(differences: Iterator[str], reason: str) -> Iterator[str]:
    """Yields the differences; the first has a reason."""
    for number, text in enumerate(differences):
        yield text if number else text + reason


def _metric_differences(expected: Mapping[str, int | float], found: Mapping[str, int | float]) -> Iterator[str]:
    for name, wanted in expected.items():
        value = found.get(name)
        if value is None or not _same_number(wanted, value):
            yield f"metrics.{name}: expected {_one_line(wanted)}, found {_one_line(value)}"


def _missing_parts(includes: Includes, answer: ReplayResult) -> Iterator[str]:
    """Yields a text for each expectation that is missing in the result: windows of each bolt or step, late events, and
    rows of each sink, in order."""
    windows, late = includes.windows or [], includes.late or []
    first = _first_step(answer)
    for step, bolt in dict.fromkeys((each.step or first, each.bolt) for each in windows):
        wanted = [each for each in windows if (each.step or first, each.bolt) == (step, bolt)]
        fired = [
            each
            for each in answer.windows
            if each.get("step", first) == step and (bolt is None or each.get("bolt", bolt) == bolt)
        ]
        for at in _first_missing(wanted, fired, _fits):
            yield f"includes.windows: expected {_show_expected(wanted[at])}, not fired{_where_in_order(at)}"
    for at in _first_missing(late, answer.late, lambda wanted, found: wanted == found):
        yield f"includes.late: expected {_one_line(late[at])}, found {_one_line(answer.late)}"
    for sink, rows in (includes.outputs or {}).items():
        found = answer.outputs.get(sink, [])
        for at in _first_missing(rows, found, _fits_row):
            among = f"not among {_row_count(len(found))}{_where_in_order(at)}"
            yield f"includes.outputs.{sink}: expected {_row_text(rows[at])}, {among}"


def _where_in_order(at: int) -> str:
    """Returns words for a position in an ordered list; "" for the first."""
    return f" after the {at} before it" if at else ""


def _first_missing(wanted: Sequence[Any], found: Sequence[Any], fits: Callable[[Any, Any], bool]) -> list[int]:
    """Returns the index of the first wanted item that does not follow those before it in ``found``; empty if all do."""
    rest = iter(found)
    for at, each in enumerate(wanted):
        if not any(fits(each, one) for one in rest):
            return [at]
    return []


def _fits_row(wanted: Mapping[str, Any], found: Mapping[str, Any]) -> bool:
    return all(name in found and _same(value, found[name]) for name, value in wanted.items())


def _limited_to_expected(expected: ExpectedRows, found: ExpectedRows) -> Iterator[dict[str, Any]]:
    """Yields the actual rows with the fields of the expectation at their index; complete rows without an
    expectation."""
    for at, row in enumerate(found):
        names = expected[at] if at < len(expected) else row
        yield {name: value for name, value in row.items() if name in names}


def _sink_names(expected: dict[str, Any] | None, found: dict[str, Any]) -> list[str]:
    return [] if expected is None else list(dict.fromkeys([*expected, *found]))


def _by_step(
    expected: Sequence[ExpectedWindow], answer: ReplayResult
) -> Iterator[tuple[str, Sequence[ExpectedWindow], Sequence[AnswerWindow]]]:
    """Yields the windows of each step, with a name; those of the first step include windows that name no step.

    Windows are compared within their step, in order: the order of two steps' windows in a batch has no meaning.
    """
    first = _first_step(answer)
    for step in dict.fromkeys([*(answer.steps or (None,)), *(each.step or first for each in expected)]):
        wanted = [each for each in expected if (each.step or first) == step]
        found = [each for each in answer.windows if each.get("step", first) == step]
        yield "windows" if len(answer.steps) < 2 and step == first else f"windows of {step}", wanted, found


def _first_step(answer: ReplayResult) -> str | None:
    """Returns the step of windows that name none; None without steps."""
    return answer.steps[0] if answer.steps else None


def _window_differences(name: str, expected: Sequence[ExpectedWindow], found: Sequence[AnswerWindow]) -> Iterator[str]:
    """Yields the first window that differs, completely, and the numbers of windows if they differ."""
    at = next((i for i, pair in enumerate(zip(expected, found, strict=False)) if not _fits(*pair)), None)
    if at is None and len(expected) == len(found):
        return
    if at is None:
        at = min(len(expected), len(found))
    part = "" if _first_missing(expected, found, _fits) else f" (all that is expected has fired; {_PART_HINT})"
    if _fit_at(expected, at + 1, found, at) or at >= len(found):
        yield f"{name}[{at}]: expected {_show_expected(expected[at])}, not fired{_next_fired(found, at)}"
    elif _fit_at(expected, at, found, at + 1) or at >= len(expected):
        unexpected = _one_line(_readable_window(found[at]))
        yield f"{name}[{at}]: fired, but not expected: {unexpected}{_next_expected(expected, at)}{part}"
    else:
        fields = ", ".join(name for name in expected[at].given if not _fits_in(name, expected[at], found[at]))
        here = {name: value for name, value in _readable_window(found[at]).items() if name in expected[at].given}
        yield f"{name}[{at}]: {fields}: expected {_show_expected(expected[at])}, found {_one_line(here)}{part}"
    if len(expected) != len(found):
        yield f"{name}: expected {len(expected)}, found {len(found)}"


def _next_fired(found: Sequence[AnswerWindow], at: int) -> str:
    return f"; the next that did is {_one_line(_readable_window(found[at]))}" if at < len(found) else ""


def _next_expected(expected: Sequence[ExpectedWindow], at: int) -> str:
    return f"; the next expected is {_show_expected(expected[at])}" if at < len(expected) else ""


def _fit_at(expected: Sequence[ExpectedWindow], i: int, found: Sequence[AnswerWindow], j: int) -> bool:
    return i < len(expected) and j < len(found) and _fits(expected[i], found[j])


def _fits(expected: ExpectedWindow, found: AnswerWindow) -> bool:
    return all(_fits_in(name, expected, found) for name in expected.given)


def _fits_in(name: str, expected: ExpectedWindow, found: AnswerWindow) -> bool:
    if name == "step" or (name == "bolt" and "bolt" not in found):
        return True  # steps are compared one by one; a single bolt has all windows, and its name was checked
    wanted, value = expected.given[name], found.get(name)
    if isinstance(wanted, ExpectedPane):
        return isinstance(value, dict) and all(value[field] == wish for field, wish in wanted.given.items())
    return _same(wanted, value)


def _event_differences(expected: Sequence[ExpectedEvent], found: Sequence[AnswerEvent]) -> Iterator[str]:
    """Yields the first event that differs, on the fields of the expectation, and the numbers of events if they
    differ."""
    for at, (wanted, event) in enumerate(zip(expected, found, strict=False)):
        if any(getattr(wanted, name) != event.get(name) for name in wanted.given):
            here = {name: value for name, value in _shown_event(event).items() if name in wanted.given}
            yield f"events[{at}]: expected {_show_expected(wanted)}, found {_one_line(here)}"
            break
    if len(expected) != len(found):
        yield f"events: expected {len(expected)}, found {len(found)}"


def _list_difference(name: str, expected: Sequence[object], found: Sequence[object]) -> Iterator[str]:
    if list(expected) != list(found):
        yield f"{name}: expected {_one_line(list(expected))}, found {_one_line(list(found))}"


def _row_differences(sink: str, expected: ExpectedRows, found: ExpectedRows, *, named: bool) -> Iterator[str]:
    """Yields the first row that differs, and the numbers of rows if they differ."""
    part = _part_hint(expected, found, named=named)
    at = next((i for i, pair in enumerate(zip(expected, found, strict=False)) if not _same(*pair)), None)
    if at is not None:
        yield f"outputs.{sink}[{at}]: expected {_row_text(expected[at])}, found {_row_text(found[at])}{part}"
    elif len(expected) > len(found):
        yield f"outputs.{sink}[{len(found)}]: expected {_row_text(expected[len(found)])}, found nothing"
    elif len(found) > len(expected):
        yield f"outputs.{sink}[{len(expected)}]: expected nothing, found {_row_text(found[len(expected)])}{part}"
    if len(expected) != len(found):
        yield f"outputs.{sink}: expected {_row_count(len(expected))}, found {len(found)}"


def _part_hint(expected: ExpectedRows, found: ExpectedRows, *, named: bool) -> str:
    """Returns a hint if all expected rows came out, but with other rows or columns, or in another order; else ""."""
    if not expected:
        return f" ({_PART_HINT})" if named else ""
    if not _first_missing(expected, found, _fits_row):
        beside = "rows" if len(found) > len(expected) else "columns"
        return f" (all that is expected came out, beside other {beside}; {_PART_HINT})"
    rest = list(found)
    for row in expected:
        at = next((i for i, one in enumerate(rest) if _fits_row(row, one)), None)
        if at is None:
            return ""
        del rest[at]
    return " (all that is expected came out, in another order)"


def _readable_window(window: AnswerWindow) -> dict[str, Any]:
    return {**window_json(window), **_with_times({"start": window["start"], "end": window["end"]})}


def _shown_event(event: AnswerEvent) -> dict[str, Any]:
    times = {"time": event["time"], "watermark": event["watermark"], "mark": event["mark"]}
    return {**event_json(event), **_with_times(times)}


def _with_times(values: dict[str, Any]) -> dict[str, Any]:
    """Returns the values, with times in the form of results."""
    times = [name for name in ("start", "end", "time", "watermark", "mark") if values.get(name) is not None]
    return {**values, **{name: readable_time(values[name]) for name in times}}


def _times(times: Sequence[int | None]) -> list[int | float | str | None]:
    return [None if time is None else readable_time(time) for time in times]


def _row_text(row: dict[str, Any]) -> str:
    return _one_line(plain_json({name: _cell(value) for name, value in row.items()}))


def _cell(value: Any) -> Any:
    return readable_time(from_datetime(value)) if isinstance(value, datetime) else value


def _row_count(number: int) -> str:
    return f"{number} row{'' if number == 1 else 's'}"


def _same(expected: Any, found: Any) -> bool:
    """True if a value from a file equals the actual value, whose type may be richer."""
    match expected, found:
        case (bool(), _) | (_, bool()):
            return expected is found
        case (int() | float() | str(), datetime()):
            return _is_time(expected, found)
        case (int() | float() | Decimal(), int() | float() | Decimal()):
            return _same_number(expected, found)
        case (dict(), dict()):
            return expected.keys() == found.keys() and all(_same(expected[key], found[key]) for key in found)
        case (list() | tuple(), list() | tuple()):
            return len(expected) == len(found) and all(map(_same, expected, found))
    return bool(expected == found or expected == plain_json(found))


def _same_number(expected: float | Decimal, found: float | Decimal) -> bool:
    if isinstance(expected, int) and isinstance(found, int):
        return expected == found
    both_nan = math.isnan(expected) and math.isnan(found)
    return both_nan or math.isclose(expected, found, rel_tol=1e-12)


def _is_time(expected: object, found: datetime) -> bool:
    try:
        return parse_end(expected) == from_datetime(found)
    except ScenarioError:
        return False


def _show_expected(wanted: ExpectedWindow | ExpectedEvent) -> str:
    shown: dict[str, Any] = {
        name: value.given if isinstance(value, ExpectedPane) else value for name, value in wanted.given.items()
    }
    return _one_line(_with_times(shown))


def _one_line(value: Any) -> str:
    """Returns a value on one line, in YAML's flow style."""
    match value:
        case dict():
            return "{" + ", ".join(f"{key}: {_one_line(item)}" for key, item in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(_one_line, value)) + "]"
        case str() if value.isidentifier():
            return value
    return json.dumps(value, ensure_ascii=False, default=str)


# Replays scenarios through the micro-batches of the real engine, in this process or on Spark.


def replay_locally(scenario: Scenario, topology: Graph | None = None) -> ReplayResult:
    """Returns the result of a scenario, in this process. Expectations between steps are checked with scenarios that end
    there."""
    answer = _replay_once(scenario, topology)
    return judge_midway(answer, {place: _replay_once(prefix, topology) for place, prefix in scenario.midway.items()})


def _replay_once(scenario: Scenario, topology: Graph | None) -> ReplayResult:
    built = scenario_topology(scenario, topology)
    scenario = with_only_spout(scenario, built)
    recording = Recording()
    run = Rehearsal(built, recording.watch)
    for number, batch in enumerate(script(scenario)):
        split = ScriptSplit(tuple(arrival.to_json() for arrival in batch.arrivals))
        plan = BatchPlan(number, batch.advance, [split] if batch.arrivals else [], run=run.micro_batch.run_id)
        report = run.run(plan, crash_at="commit" if batch.crash else None)
        assert report is not None
        recording.note_batch(batch, report)
    return judge(scenario, recording.answer(scenario, built, run.micro_batch.manifest, run.checkpoint.segments))
