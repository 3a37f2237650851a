"""The result of a scenario, and its written form."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import date, datetime
from decimal import Decimal
from typing import Any, NotRequired, TypedDict

from topologies.graph.graph import Graph
from topologies.graph.html import framed, heading, monospaced, table
from topologies.scenarios.scenario_values import DecisionLabel
from windowing.calls import checked
from windowing.durations import Count
from windowing.errors import ScenarioError
from windowing.reprs import one_line
from windowing.settings import WindowSettings
from windowing.timestamps import from_datetime, time_in_answer

# The result of a scenario, and its written form.


class AnswerPane(TypedDict):
    """The firing of a window."""

    index: int
    timing: str
    last: bool


class AnswerWindow(TypedDict):
    """A fired window; ``start``, ``end`` and ``due`` in microseconds. Optional keys are present only if they
    distinguish windows, or have a value."""

    batch: int
    """The number of the batch in which it fired."""
    due: int
    """The watermark or clock from which it was due; FOREVER if only the end of its batch made it fire."""
    by_clock: bool
    """True if ``due`` is a time of the clock, not of the watermark."""
    brackets: tuple[str, str]
    """The brackets around its bounds: ``[`` and ``)`` if it includes events at its start, but not at its end."""
    step: NotRequired[str]
    """The aggregation step of the window, if there are several steps."""
    bolt: NotRequired[str]
    """The bolt of the window, if several bolts have windows."""
    start: int | None
    end: int | None
    events: Sequence[str | None] | None
    """Ids of its events; None for an event with an unknown id. None instead of the list if even the number of events is
    unknown, as for sums of events without ids."""
    new: Sequence[str | None] | None
    """Ids of the new events; None for windows that are joined from sums, whose new events are unknown."""
    expired: Sequence[str | None] | None
    """Ids of the expired events; None if windows do not follow each other, or the bolt does not use expired events."""
    task: NotRequired[int]
    key: NotRequired[Any]
    """The values of its key in order; for a key of one column, the value."""
    kind: NotRequired[int]
    """The index of its kind among the bolt's kinds of windows."""
    pane: NotRequired[AnswerPane]
    by: NotRequired[str]
    """Reason why it fired, if the bolt has a trigger."""


class AnswerEvent(TypedDict):
    """Admission of an event, if watermarks come with events; times in microseconds."""

    id: str | None
    """Id of the event; None if the bolt's events have no column ``id``."""
    time: int | None
    """The assigned time, which an adjustment may have moved; None without one."""
    action: DecisionLabel
    watermark: int | None
    """The watermark of the bolt after the event."""
    mark: int | None
    """The mark of the event's own input, partition or key after the event."""


class AnswerDecision(TypedDict):
    """Decision of a bolt about an arrived event; times in microseconds."""

    batch: str
    """The key of the batch with the decision."""
    input: str
    """The input stream."""
    seq: int
    row: int | None
    """The number of the event in the scenario, from 0; None if only an id identifies the event, or another bolt made
    the event."""
    event: str | None
    """Id of the event; None if its stream has no ids."""
    time: int | None
    """The original time of the event."""
    assigned: int | None
    """The assigned time; None for a rejected event."""
    decision: DecisionLabel
    mark: int | None
    """The watermark that the event was compared with; None before the first."""
    reason: str | None
    """The reason of a rejection."""


@dataclass(frozen=True)
class BoltBatch:
    """A windowed bolt after a batch; times in microseconds."""

    batch: int
    clock: int
    watermark: int | None
    inputs: dict[str, int]
    """The watermark that each input or partition alone would allow."""


@dataclass(frozen=True, kw_only=True)
class BoltTrace:
    """Record of everything that happened at one windowed bolt."""

    bolt: str
    """The user's name of the bolt; for an aggregation step, the name of the step."""
    event_time: bool
    settings: WindowSettings
    description: str
    """Description of the bolt's windows and time, in two sentences."""
    from_bolts: tuple[str, ...]
    """The inputs that come from another windowed bolt."""
    windows: dict[int, AnswerWindow]
    """Windows of the bolt, by their index among the windows of the result."""
    counts: dict[str, int]
    """Accounts of the bolt."""
    pending: list[str | None]
    """Ids of the pending events; None for an event with an unknown id."""
    invalid: dict[int, str]
    """By number of an event in the scenario, the reason why the bolt could not use it."""
    refused: dict[str | None, str]
    """By id of an admitted event, the reason why it was later found to be invalid."""
    watermarks: list[int | None]
    """One watermark for each tick."""
    clocks: list[int | None]
    """The watermark after each step of the clock."""
    events: list[AnswerEvent]
    """The events in order of arrival; none if watermarks come with ticks."""
    decisions: list[AnswerDecision]
    """The decisions in order of arrival."""
    batches: list[BoltBatch]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Result of a scenario, with the values that ``replay --json`` prints.

    Times are milliseconds since the epoch, with fractions if they are not whole, "+inf" at the end of the streams.
    ``ok`` is None if nothing was expected. The rows of ``outputs`` have the values that the sinks got. Events are
    listed by their column ``id``, or as None if their id does not reach the bolt.
    """

    name: str
    ok: bool | None
    windows: list[dict[str, Any]]
    """``start``, ``end``, ``events``, ``new``, ``expired``, ``step``, ``bolt``, ``task``, ``key``, ``kind``, ``pane``,
    ``by``."""
    late: list[str | None]
    watermarks: list[int | float | str | None]
    """One watermark for each tick; None if the tick emitted none."""
    pending: list[str | None]
    counts: dict[str, int]
    outputs: dict[str, list[dict[str, Any]]]
    events: list[dict[str, Any]]
    clocks: list[int | float | str | None]
    """The watermark after each step of the clock."""
    metrics: dict[str, int | float]
    differences: list[str]
    """Differences from the expectations, as text."""
    draw: Callable[[], str] = field(default=lambda: "", repr=False, compare=False)
    """The picture of the run in plain text, with the differences."""

    def __repr__(self) -> str:
        ok = {True: "as expected", False: "not as expected", None: "nothing expected"}[self.ok]
        rows = sum(map(len, self.outputs.values()))
        counts = f"{len(self.windows)} windows, {rows} rows, {len(self.late)} late"
        return one_line(f"<Answer to {self.name!r}: {ok}; {counts}>")

    def _repr_html_(self) -> str:
        """Called by notebooks; returns the picture of the run, which ends with the differences."""
        accounts = [(account, count) for account, count in self.counts.items() if count]
        drawn = self.draw()
        return framed(monospaced(drawn) if drawn else heading(self.name) + table(["account", "events"], accounts))

    @checked
    def check(self) -> None:
        """Raises AssertionError, with the picture and the differences, unless everything is as expected.

        Raises ScenarioError if the scenario expects nothing, because there is nothing to check.
        """
        if self.ok is None:
            raise ScenarioError(
                f"scenario {self.name!r} expects nothing",
                why="such a check could not fail",
                do="give it expect: {...}, or compare the answer's windows and outputs yourself",
            )
        if not self.ok:
            text = self.draw() or "\n".join(self.differences)
            raise AssertionError(f"{self.name} is not as expected\n\n{text}")

    @checked
    def to_json(self) -> dict[str, Any]:
        """Returns the answer in the form of ``replay --json``: plain JSON."""
        hidden = ("differences", "draw")
        shown = {each.name: getattr(self, each.name) for each in fields(self) if each.name not in hidden}
        return shown | {"outputs": {sink: [plain_json(row) for row in rows] for sink, rows in self.outputs.items()}}


@dataclass(frozen=True)
class ReplayResult:
    """Result of a scenario, for comparing and drawing. Times are in microseconds; ``ok`` as in ``Answer``."""

    name: str
    ok: bool | None = None
    windows: list[AnswerWindow] = field(default_factory=list)
    late: list[str | None] = field(default_factory=list)
    watermarks: list[int | None] = field(default_factory=list)
    pending: list[str | None] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    outputs: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    events: list[AnswerEvent] = field(default_factory=list)
    """The events in order of arrival; none if watermarks come with ticks."""
    clocks: list[int | None] = field(default_factory=list)
    """The watermark after each step of the clock."""
    metrics: dict[str, int | float] = field(default_factory=dict)
    """Counters that are not accounts, and ``watermark_delay`` in milliseconds."""
    differences: list[str] = field(default_factory=list)
    steps: tuple[str, ...] = ()
    """The names of the aggregation steps, in order."""
    invalid: dict[str, str] = field(default_factory=dict)
    """By id of an event that a bolt could not use, the reason."""
    without_ids: dict[str, bool] = field(default_factory=dict)
    """The windowed bolts whose events have no column ``id``; True for those that get events of spouts, not only rows of
    other windowed bolts."""
    traces: list[BoltTrace] = field(default_factory=list)
    """Record of each windowed bolt, for pictures."""

    def answer(self) -> Answer:
        """Returns the result in its form for users."""
        return Answer(
            name=self.name,
            ok=self.ok,
            windows=[window_json(window) for window in self.windows],
            late=self.late,
            watermarks=times_json(self.watermarks),
            pending=self.pending,
            counts=self.counts,
            outputs=self.outputs,
            events=[event_json(event) for event in self.events],
            clocks=times_json(self.clocks),
            metrics=self.metrics,
            differences=self.differences,
        )

    def to_json(self) -> dict[str, Any]:
        """Returns plain JSON as ``replay --json`` prints it: times in milliseconds."""
        return self.answer().to_json()


def times_json(times: Iterable[int | None]) -> list[int | float | str | None]:
    """Returns times in the form of results; missing ones are null."""
    return [None if at is None else time_in_answer(at) for at in times]


def event_json(event: AnswerEvent) -> dict[str, Any]:
    """Returns an event of a result with times in milliseconds."""
    time, watermark, mark = times_json((event["time"], event["watermark"], event["mark"]))
    return {"id": event["id"], "time": time, "action": event["action"], "watermark": watermark, "mark": mark}


def window_json(window: AnswerWindow) -> dict[str, Any]:
    """Returns a window of a result with times in milliseconds."""
    start, end = window["start"], window["end"]
    shown: dict[str, Any] = {
        "start": None if start is None else time_in_answer(start),
        "end": None if end is None else time_in_answer(end),
        "events": window["events"],
        "new": window["new"],
        "expired": window["expired"],
    }
    if "step" in window:
        shown = {"step": window["step"], **shown}
    if "bolt" in window:
        shown = {"bolt": window["bolt"], **shown}
    if "task" in window:
        shown["task"] = window["task"]
    if "key" in window:
        shown["key"] = plain_json(window["key"])
    if "kind" in window:
        shown["kind"] = window["kind"]
    if "pane" in window:
        shown["pane"] = dict(window["pane"])
    if "by" in window:
        shown["by"] = window["by"]
    return shown


def plain_json(value: Any) -> Any:  # noqa: PLR0911
    """Returns a value for JSON: times in milliseconds, other rich types as text."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else {math.inf: "+inf", -math.inf: "-inf"}.get(value)
        case datetime():
            return time_in_answer(from_datetime(value))
        case date():
            return value.isoformat()
        case Decimal():
            return str(value)
        case bytes():
            return value.hex()
        case dict():
            return {str(key): plain_json(item) for key, item in value.items()}
        case list() | tuple():
            return [plain_json(item) for item in value]
    return plain_json(value.item()) if hasattr(value, "item") else str(value)


# Makes the windows of a scenario's result from their traces.


def answer_window(
    topology: Graph, row: dict[str, Any], steps: Mapping[str, str], bolts: Sequence[str], prefix: str
) -> AnswerWindow:
    """Returns a window of a result.

    ``steps``: the names of aggregation steps, by the names of their bolts. ``bolts``: the bolts with windows, by name
    with prefix.
    """
    node = topology.windowed[row["bolt"]]
    settings = node.bolt.settings
    counts_only = isinstance(settings.length, Count) and isinstance(settings.slide, Count)
    window = AnswerWindow(
        batch=row["batch"],
        due=row["due"],
        by_clock=row["by_clock"],
        brackets=_brackets(settings, row),
        start=row["start"],
        end=None if counts_only and not node.event_time else row["end"],
        events=row["events"],
        new=row["new"],
        expired=row["expired"],
    )
    if len(steps) > 1:
        window["step"] = steps[row["bolt"]]
    if not steps and len(bolts) > 1:
        window["bolt"] = row["bolt"].removeprefix(prefix)
    if node.parallelism > 1:
        window["task"] = row["task"]
    key, pane = row.get("key"), row.get("pane")
    if key is not None:
        window["key"] = json.loads(key)
    if len(settings.kinds) > 1:
        window["kind"] = row["kind"]
    if settings.panes is not None and pane is not None:
        shown = json.loads(pane)
        window["pane"] = AnswerPane(index=shown["index"], timing=shown["timing"], last=shown["last"])
    if row.get("by") is not None:
        window["by"] = row["by"]
    return window


def _brackets(settings: WindowSettings, row: Mapping[str, Any]) -> tuple[str, str]:
    if row.get("by") is not None and settings.trigger is None:
        return "[", "]"  # from its first event to the event that fired it
    declared = settings.bounds
    bounds = settings.kinds[row["kind"] or 0].bounds(declared) if settings.kinds else declared
    return bounds.value[0], bounds.value[-1]
