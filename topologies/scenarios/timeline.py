"""A scenario's run drawn for a terminal, in two ways.

The timeline has arrivals downwards, event time to the right, and windows as brackets. The table of arrivals has the
form in which other systems explain their watermarks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from io import StringIO
from itertools import chain, zip_longest
from typing import Any

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from topologies.scenarios.moments import known_ids, place_windows
from topologies.scenarios.scenario_answer import AnswerEvent, AnswerWindow, BoltTrace, ReplayResult, plain_json
from topologies.scenarios.scenario_bolt import columns_named_by, moment_of
from topologies.scenarios.scenario_model import Scenario
from topologies.scenarios.scenario_values import (
    WHEREABOUTS,
    ClockStep,
    CrashStep,
    EventStep,
    ExpectStep,
    ScenarioStep,
    Strict,
    TickStep,
)
from topologies.scenarios.timeline_axis import (
    DAY,
    EXPIRED,
    SECOND,
    Axis,
    AxisTimes,
    ChartRow,
    WindowGrid,
    are_clock_times,
    event_positions,
    fit_line,
    in_terminal_characters,
    label_lines,
    split_for_drawing,
    time_text,
)
from windowing.errors import ScenarioError, nearest
from windowing.settings.panes import PaneMode
from windowing.settings.triggers import FiredBy
from windowing.timestamps import EARLIEST, FOREVER, LATEST, from_datetime, readable_time

# Special windows of a run: moments of ready-made bolts, and windows that retract an earlier firing.


def count_moment_windows(answer: ReplayResult) -> Counter[str]:
    """Returns, for each ready-made bolt, its number of windows that are mere moments: joins by lifetime, unions,
    ``Deduplicate``, ``Silence`` and similar bolts are called at each."""
    return Counter(
        {trace.bolt: len(trace.windows) for trace in answer.traces if trace.windows and _is_called_at_moments(trace)}
    )


def moment_windows(answer: ReplayResult) -> set[int]:
    """Returns the indices of mere moments among all windows."""
    return {index for trace in answer.traces if _is_called_at_moments(trace) for index in trace.windows}


def retracted_windows(answer: ReplayResult) -> dict[int, list[int]]:
    """Returns the windows whose rows a window retracts, by its index; for bolts with ``mode="retracting"``."""
    found: dict[int, list[int]] = {}
    for trace in answer.traces:
        panes = trace.settings.panes
        if panes is not None and panes.mode is PaneMode.RETRACTING:
            found |= dict(_retractions(trace))
    return found


def _retractions(trace: BoltTrace) -> Iterator[tuple[int, list[int]]]:
    latest_firings: dict[int, AnswerWindow] = {}
    sessions = any(kind.merges for kind in trace.settings.kinds)
    for index, window in sorted(trace.windows.items()):
        before = [each for each, other in latest_firings.items() if _is_same(other, window, sessions=sessions)]
        for each in before:
            del latest_firings[each]
        latest_firings[index] = window
        if before:
            yield index, before


def _is_same(earlier: AnswerWindow, later: AnswerWindow, *, sessions: bool) -> bool:
    """True if a window is an earlier firing of another. Sessions may have grown or merged meanwhile."""
    if any(earlier.get(name) != later.get(name) for name in ("task", "key", "kind")):
        return False
    if not sessions:
        return (earlier["start"], earlier["end"]) == (later["start"], later["end"])
    starts, ends = [each["start"] for each in (earlier, later)], [each["end"] for each in (earlier, later)]
    if None in starts or None in ends:
        return False
    return max(at for at in starts if at is not None) <= min(at for at in ends if at is not None)


def _is_called_at_moments(trace: BoltTrace) -> bool:
    return any(kind.of_moments for kind in trace.settings.kinds)


# The rows of a run, and their common axis: arrivals downwards, event time to the right.


WINDOWED, LATE, PENDING, NOWHERE, INVALID = "●", "✗", "○", "·", "?"
NEW, AGAIN = "◆", "●"
_FIRED: dict[str, str] = {FiredBy.MOMENT: "at a moment", FiredBy.ARRIVAL: "at an arrival"}
"""Words for a window that a user's trigger fired other than at a tracked event."""


class Chart:
    """The rows of a run, and their common axis."""

    def __init__(self, scenario: Scenario, answer: ReplayResult) -> None:
        self.scenario, self.answer = scenario, answer
        self.first_step = answer.steps[0] if answer.steps else None
        self.positions = event_positions(scenario, answer)
        self.by_arrival = self.positions is None
        if self.positions is None:
            self.positions = {step.id: number for number, step in enumerate(scenario.event_steps, 1)}
        self.show = AxisTimes([*self.positions.values(), *_window_bounds(answer)], scenario, by_arrival=self.by_arrival)
        self.windowed = {name for window in answer.windows for name in window["events"] or ()}
        self.ids_lost = any(answer.without_ids.values()) or any(
            window["events"] is None or None in window["events"] for window in answer.windows
        )
        self.repeated = {
            name for name, number in Counter(step.id for step in scenario.event_steps).items() if number > 1
        }
        self.late, self.pending = set(answer.late), set(answer.pending)
        self.admissions = {event["id"]: event for event in answer.events}
        self.watermark: int | None = None
        self.left_out_windows = moment_windows(answer) if scenario.topology is not None else set()
        self.retracted = retracted_windows(answer)
        self.owner = f" ({answer.traces[0].bolt})" if len(answer.traces) > 1 else ""
        """Words for the owner of the watermarks in ticks, if there are several bolts."""
        self.rows = _elide_rows(list(self._rows()))

    def lines(self, console: Console, width: int) -> Iterator[Text]:
        """Yields the axis, and each row with its label and its note; long ones continue below."""
        left = min(max(len(row.label) for row in self.rows), max(12, width // 3)) + 1
        right = min(max((row.note.cell_len for row in self.rows), default=0), max(10, width * 3 // 10)) + 1
        axis = Axis([at for row in self.rows for at in row.times()], max(min(20, width // 3), width - left - right - 1))
        right = width - left - axis.width - 1
        yield from (Text(" " * left).append(line) for line in axis.header(self.show))
        watermark: int | None = None
        for row in self.rows:
            current_row = row
            parts = zip_longest(label_lines(row.label, left - 1), row.note.wrap(console, right))
            for label, note in parts:
                line = Text(f"{label or '':<{left}}", style=row.style).append(axis.draw(current_row, watermark))
                yield line.append(" ").append(note or Text())
                watermark = current_row.new_watermark if current_row.new_watermark is not None else watermark
                current_row = ChartRow("")

    def _rows(self) -> Iterator[ChartRow]:
        watermarks, clocks = iter(self.answer.watermarks), iter(self.answer.clocks)
        for step, before, after in place_windows(self.scenario, self.answer):
            yield from (self._window(number) for number in before if number not in self.left_out_windows)
            if isinstance(step, ExpectStep):
                yield self._expectation(step)
            else:
                yield self._step(step, watermarks, clocks) if step is not None else ChartRow("end of run", style="dim")
            yield from (self._window(number) for number in after if number not in self.left_out_windows)

    def _step(self, step: ScenarioStep, watermarks: Iterator[int | None], clocks: Iterator[int | None]) -> ChartRow:
        match step:
            case EventStep():
                return self._event(step)
            case TickStep():
                watermark = next(watermarks, None)
                if watermark is None:
                    return ChartRow(f"tick{self.owner}", Text("no new watermark", "dim"), style="bold")
                drawn_watermark = self._advanced_to(watermark)
                note = Text(f"watermark {self.show(watermark)}", "cyan")
                return ChartRow(f"tick{self.owner}", note, style="bold", new_watermark=drawn_watermark)
            case ClockStep():
                watermark = self._advanced_to(next(clocks, None))
                note = Text() if watermark is None else Text(f"watermark {self.show(watermark)}", "cyan")
                return ChartRow(
                    f"clock {self.show(step.clock)}{self.owner}", note, style="bold", new_watermark=watermark
                )
            case CrashStep():
                return ChartRow("crash", Text("recovers from the last commit", "dim"), style="bold red")
        return ChartRow("close", Text("end of the streams", "dim"), style="bold")

    def _expectation(self, step: ExpectStep) -> ChartRow:
        if step.expect.is_empty:
            return ChartRow("expect", Text("nothing", "dim"), style="dim")
        place = next(f"steps[{at}]" for at, each in enumerate(self.scenario.steps) if each is step)
        differs = any(text.startswith(f"{place}.") for text in self.answer.differences)
        verdict = Text("not as expected", "bold red") if differs else Text("as expected", "green")
        return ChartRow("expect", verdict, style="dim")

    def _event(self, step: EventStep) -> ChartRow:
        symbol, style, word = self._symbol(step)
        if step.id in self.repeated and self.scenario.topology is not None:
            word = f"{word} (id not unique)".strip()
        at = self._position(step.id)
        own = None if self.by_arrival else at
        parts = [step.id, step.stream if len(self.scenario.streams) != 1 else None]
        parts.append(self.show(own) if own is not None else None)
        if own is None and step.moved is not None:
            parts.append(self.show(step.moved))
        symbols = [] if at is None else [(at, symbol, style)]
        note = Text(f"{symbol} {word}".strip(), style) if word else Text()
        label = " ".join(part for part in parts if part)
        admission = self.admissions.get(step.id)
        new_watermark = None if admission is None else self._advanced_to(admission["watermark"])
        return ChartRow(label, note, style if word else "", symbols, new_watermark=new_watermark, kind="event")

    def _advanced_to(self, watermark: int | None) -> int | None:
        """Advances the drawn watermark. Returns the watermark if it has advanced; None otherwise, or if no axis can
        show it."""
        if watermark is None or self.by_arrival or (self.watermark is not None and watermark <= self.watermark):
            return None
        self.watermark = watermark
        return watermark

    def _symbol(self, step: EventStep) -> tuple[str, str, str]:
        if step.id in self.late:
            return LATE, "bold red", "late"
        admission_symbol = self._admission_symbol(step)
        if admission_symbol is not None:
            return admission_symbol
        if step.id in self.answer.invalid or (self.scenario.is_event_time and self._position(step.id) is None):
            return INVALID, "red", self._why_invalid(step)
        if step.id in self.windowed or (self.scenario.bolt is None and not self.answer.windows):
            return WINDOWED, "", ""
        if step.id in self.pending:
            return PENDING, "yellow", "pending"
        return NOWHERE, "dim", "not known: its id does not reach the bolt" if self.ids_lost else "in no window"

    def _admission_symbol(self, step: EventStep) -> tuple[str, str, str] | None:
        """Returns symbol, style and word for a moved or rejected event, or for a watermark; else None."""
        if self.scenario.is_watermark(step):
            return "", "cyan", "a watermark"
        admission = self.admissions.get(step.id)
        if admission is None or admission["action"] == "accepted":
            return None
        if admission["action"].startswith("adjusted") and admission["time"] is not None:
            symbol = WINDOWED if step.id in self.windowed else PENDING
            return symbol, "yellow", f"adjusted to {self.show(admission['time'])}"
        if admission["action"] == "invalid":
            return INVALID, "bold red", self._why_invalid(step)
        words = {"early": "early", "late": "late"}
        word = words.get(admission["action"], "dropped" if admission["action"].startswith("dropped") else "")
        return (LATE, "bold red", word) if word else None

    def _why_invalid(self, step: EventStep) -> str:
        """Describes why an event could not be used. If it lacks its time field, names the field and a similar one."""
        field = self.scenario.time_field
        if field is not None and field not in step.event:
            close = nearest(field, step.event, likeness=0.5)
            return f"invalid: no {field!r}{f', but {close[0]!r}' if close else ''}"
        return f"invalid: {self.answer.invalid.get(step.id, 'no time')}"

    def _position(self, name: str) -> int | None:
        return self.positions.get(name) if self.positions is not None else None

    def _window(self, number: int) -> ChartRow:
        window = self.answer.windows[number]
        new = set(window["new"] or ())
        symbols = [
            *((name, EXPIRED, "dim") for name in known_ids(window["expired"])),
            *(
                (name, NEW if name in new else AGAIN, "bold green" if name in new else "")
                for name in known_ids(window["events"])
            ),
        ]
        further = window.get("step", self.first_step) != self.first_step  # its events were made after their inputs
        on_axis = (
            []
            if further
            else [(at, symbol, style) for name, symbol, style in symbols if (at := self._position(name)) is not None]
        )
        inside = [at for at, symbol, _ in on_axis if symbol != EXPIRED]
        label = f"  #{number} {self._extent(window)}"
        return ChartRow(
            label,
            self._correction(number).append(_owner_text(window)).append(_members(window)),
            "green",
            on_axis,
            self._bar(window, inside),
            kind="window",
        )

    def _correction(self, number: int) -> Text:
        """Names the windows whose rows the window retracts."""
        before = ", ".join(f"#{each}" for each in self.retracted.get(number, ()))
        return Text(f"takes back {before}; " if before else "", "bold yellow")

    def _bar(self, window: AnswerWindow, inside: list[int]) -> tuple[int, int, str, str] | None:
        opening, closing = self._brackets(window)
        start, end = (None, None) if self.by_arrival else (window["start"], window["end"])
        low = start if start is not None else min(inside, default=None)
        high = end if end is not None else max(inside, default=None)
        if low is None or high is None:
            return None
        if high == FOREVER:
            high, end = max([low, *inside]), None
        return low, high, opening if start is not None else "", closing if end is not None else ""

    def _brackets(self, window: AnswerWindow) -> tuple[str, str]:
        opening, closing = window["brackets"]
        at_end = any(self._position(name) == window["end"] for name in known_ids(window["events"]))
        return opening, "]" if at_end else closing  # a session that was cut holds an event at the cut

    def _extent(self, window: AnswerWindow) -> str:
        opening, closing = self._brackets(window)
        start, end = window["start"], window["end"]
        if end is None:
            return _event_count(window["events"])
        if start is None:
            return f"..{self.show(end)}{closing}"
        if end == start + 1:
            return f"at {self.show(end if opening == '(' else start)}"  # a single microsecond
        return f"{opening}{self.show(start)}..{self.show(end)}{closing}"


def _window_bounds(answer: ReplayResult) -> Iterator[int]:
    for window in answer.windows:
        yield from (at for at in (window["start"], window["end"]) if at is not None)


def _elide_rows(rows: list[ChartRow]) -> list[ChartRow]:
    head, hidden, tail = split_for_drawing(rows)
    if not hidden:
        return rows
    kinds = Counter(row.kind for row in hidden)
    parts = [f"{number} {kind}s" if number > 1 else f"1 {kind}" for kind, number in kinds.items()]
    return [*head, ChartRow("…", Text(f"{', '.join(parts)} not drawn", "italic"), "bold"), *tail]


def _members(window: AnswerWindow) -> Text:
    """Returns the ids in a window: new ones with a plus, then removed ones with a minus."""
    events = window["events"]
    if events is None or None in events:
        return Text("ids not known" if events is None else f"{_event_count(events)}, ids not known", "italic")
    new, expired = set(window["new"] or ()), known_ids(window["expired"])
    text = Text(" ").join(
        [
            *(Text(f"+{name}", "bold green") if name in new else Text(name) for name in _few(known_ids(events), 6)),
            *(Text(f"-{name}", "dim") for name in _few(expired, 3)),
        ]
    )
    hidden = (len(events) > 6) + (len(expired) > 3)
    if hidden:
        text.append(f" ({_event_count(events)}{f', {len(expired)} expired' if expired else ''})", "italic")
    return text


def _event_count(ids: Sequence[str | None] | None) -> str:
    """Describes the number of events of a window."""
    if ids is None:
        return "events"
    return f"{len(ids)} event{'' if len(ids) == 1 else 's'}"


def _few(names: Sequence[str], most: int) -> list[str]:
    return list(names) if len(names) <= most else [*names[: most - 2], "…", names[-1]]


def _owner_text(window: AnswerWindow) -> Text:
    names = [f"{name} {window[name]}" for name in ("step", "bolt", "task", "key", "kind") if name in window]
    if (fired := _FIRED.get(window.get("by", ""))) is not None:
        names.append(fired)
    if "pane" in window:
        names.append(f"{window['pane']['timing'].replace('_', ' ')}{', the last' if window['pane']['last'] else ''}")
    return Text(f"{', '.join(names)}: " if names else "", "italic")


# The rows of a sink, as a table.


MOST_ROWS = 20
"""Most displayed rows of each sink."""


def sink_title(name: str, rows: Sequence[dict[str, Any]]) -> Text:
    number = f"{len(rows)} row{'' if len(rows) == 1 else 's'}"
    hidden = f", the first {MOST_ROWS}" if len(rows) > MOST_ROWS else ""
    return Text(f"{name}: {number}{hidden}", "bold")


def sink_rows(rows: Sequence[dict[str, Any]], options: ConsoleOptions) -> RenderableType:
    """Returns rows as a table; as names and values, if the table would be too wide."""
    columns = list(dict.fromkeys(column for row in rows for column in row))
    table = Table()
    for column in columns:
        numeric = all(isinstance(row.get(column), int | float) for row in rows)
        table.add_column(in_terminal_characters(Text(column), options), justify="right" if numeric else "left")
    cells = [[_cell(row.get(column)) for column in columns] for row in rows[:MOST_ROWS]]
    for row in cells:
        table.add_row(*(in_terminal_characters(Text(cell), options) for cell in row))
    longest = [max(map(cell_len, column)) for column in zip(columns, *cells, strict=True)]
    if sum(longest) + 3 * len(columns) + 1 <= options.max_width:
        return table
    pairs = ["  ".join(f"{name}={cell}" for name, cell in zip(columns, row, strict=True) if cell) for row in cells]
    return Padding(Group(*(in_terminal_characters(Text(pair), options) for pair in pairs)), (0, 0, 0, 2))


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return str(readable_time(from_datetime(value)) if isinstance(value, datetime) else plain_json(value))


# A scenario's run drawn for a terminal: arrivals downwards, event time to the right, windows as brackets.


def timeline(scenario: Scenario, answer: ReplayResult) -> Timeline:
    """Returns an object for rich that shows a run: its events, watermarks, windows, outputs, and differences."""
    return Timeline(scenario, answer)


@dataclass(frozen=True)
class Timeline:
    """A run as rich renders it, at the available width; symbols repeat the meaning of colours."""

    scenario: Scenario
    answer: ReplayResult

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Called by rich when the timeline is printed."""
        chart = Chart(self.scenario, self.answer)
        yield from (in_terminal_characters(line, options) for line in [*_headline(self.scenario, self.answer), Text()])
        if chart.rows:
            yield from (fit_line(line, options) for line in chart.lines(console, options.max_width))
            yield from (in_terminal_characters(line, options) for line in [*_legend(options.max_width), Text()])
        if chart.left_out_windows:
            yield in_terminal_characters(_not_drawn(self.answer), options)
        yield from (in_terminal_characters(line, options) for line in _accounts(self.answer))
        for name, rows in self.answer.outputs.items():
            yield in_terminal_characters(sink_title(name, rows), options)
            if rows:
                yield sink_rows(rows, options)
        if self.answer.differences:
            text = Text("\n").join(Text(f"{LATE} {difference}") for difference in self.answer.differences)
            yield Panel(
                in_terminal_characters(text, options), title="differences", title_align="left", border_style="red"
            )


def _headline(scenario: Scenario, answer: ReplayResult) -> Iterator[Text]:
    verdict = {
        True: ("✓ as expected", "bold green"),
        False: ("✗ not as expected", "bold red"),
        None: ("", ""),
    }
    yield Text.assemble((scenario.name, "bold"), "  ", verdict[answer.ok])
    if scenario.bolt is None:
        step = scenario.step if isinstance(scenario.step, str) else (scenario.step or {}).get("name")
        yield Text(f"topology {scenario.topology}" if scenario.step is None else f"step {step}", "dim")
        return
    given = [name for name in type(scenario.bolt).model_fields if name in scenario.bolt.model_fields_set]
    settings = ((name, getattr(scenario.bolt, name)) for name in given)
    shown = [f"{name} {_setting(value)}" for name, value in settings]
    match scenario.partitions:
        case tuple(names):
            shown.append(f"partitions {_setting(names)}")
        case dict(by_stream):
            shown += [f"partitions of {stream} {_setting(names)}" for stream, names in by_stream.items()]
    yield Text(", ".join(shown), "dim")


def _setting(value: object) -> object:
    """Returns a setting on one line: the file's values, without type names."""
    match value:
        case Enum():
            return value.value
        case Strict():
            return ", ".join(f"{name} {_setting(each)}".rstrip() for name, each in value.given.items())
        case list() | tuple():
            return " + ".join(str(_setting(each)) for each in value)
        case dict():
            return ", ".join(f"{name} from {each}" for name, each in value.items())
    return value


def _legend(width: int) -> Iterator[Text]:
    """Yields the symbols, on one line if they fit."""
    events = f"{WINDOWED} event  {LATE} late  {PENDING} pending  ▌ watermark"
    windows = f"in a window: {NEW} new  {AGAIN} again  {EXPIRED} expired  2-9 several"
    line = f"{events}  |  {windows}"
    yield from (Text(each, "dim") for each in ([line] if len(line) <= width else [events, windows]))


def _not_drawn(answer: ReplayResult) -> Text:
    names = ", ".join(f"{number} of {bolt}" for bolt, number in count_moment_windows(answer).items())
    return Text(f"not drawn: the moments at which ready bolts without windows are called ({names})", "dim")


def _accounts(answer: ReplayResult) -> Iterator[Text]:
    """Yields the accounts of the received events, as the sum that they must equal; for several bolts, a line each."""
    if not answer.counts:
        return
    if len(answer.traces) < 2:
        yield _account_line(answer.counts)
        return
    width = max(len(trace.bolt) for trace in answer.traces)
    for trace in answer.traces:
        yield Text(f"{trace.bolt:<{width}}  ").append_text(_account_line(trace.counts))


def _account_line(counts: Mapping[str, int]) -> Text:
    parts = [f"{counts[name]} {name}" for name in WHEREABOUTS if counts.get(name)]
    others = [
        f"{number} {name}" for name, number in counts.items() if name not in (*WHEREABOUTS, "received") and number
    ]
    total = sum(counts.get(name, 0) for name in WHEREABOUTS)
    received = counts.get("received", total)
    sign, style = ("=", "") if total == received else ("≠", "bold red")
    text = f"received {received} {sign} {' + '.join(parts) or '0'}"
    return Text(f"{text}; {', '.join(others)}" if any(others) else text, style)


# A scenario and its result as plain text, printed by a failed test.


_WIDTH = 110


def timeline_text(scenario: Scenario, answer: ReplayResult) -> str:
    """Returns the timeline without colours; it ends with the differences from the expectations."""
    file = StringIO()
    console = Console(
        file=file,
        width=_WIDTH,
        color_system=None,
        force_terminal=False,
        force_jupyter=False,  # rich would show it in the notebook instead
        legacy_windows=False,
    )
    console.print(timeline(scenario, answer))
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines())


# The table of arrivals: the form of its times.


FEW = 3
"""Most windows in a cell; of more, the first and the last are shown."""


class TableTimes:
    """Form of the times of a table: times of day, with dates and seconds if some times need them.

    If everything happens on one ``day``, the times have no date.
    """

    def __init__(self, times: Iterable[int], happening: Iterable[int]) -> None:
        known = {at for at in times if EARLIEST <= at <= LATEST}
        self.as_clock = are_clock_times(known)
        days = {at // DAY for at in happening}
        self.day = days.pop() if len(days) == 1 else None
        self.seconds = any(at % (60 * SECOND) for at in known)

    def __call__(self, at: int | None) -> str:
        if at is None:
            return ""
        return time_text(at, as_clock=self.as_clock, dated=at // DAY != self.day, seconds=self.seconds)

    def windows(self, windows: Sequence[tuple[int, int]]) -> str:
        """Returns the windows of a cell, by start and end."""
        shown = [self._window(start, end) for start, end in windows]
        return ", ".join(shown if len(shown) <= FEW else [shown[0], "...", shown[-1]])

    def _window(self, start: int, end: int) -> str:
        is_plain = self.as_clock and start // DAY == end // DAY == self.day
        return f"{self(start)}{'-' if is_plain else '..'}{self(end)}"


# A line of the table of arrivals.


@dataclass
class TableLine:
    """Values of a row; times in microseconds, None for missing values."""

    event: str = ""
    stream: str = ""
    time: int | None = None
    clock: int | None = None
    arrival: int | None = None
    payload: dict[str, str] = field(default_factory=dict)
    """Other values of the event: its key, its device."""
    assigned: int | None = None
    watermark: int | None = None
    mark: int | None = None
    own: list[tuple[int, int]] = field(default_factory=list)
    """Windows that hold the event."""
    open: list[tuple[int, int]] = field(default_factory=list)
    """The windows that are open after the event."""
    lateness: int | None = None
    """The watermark minus the allowed lateness."""
    decision: str = ""
    """Decision about the event; the table's name for it is ``action``, as in results."""

    @property
    def style(self) -> str:
        """Style of the row: dim without an event, bold for a moved or rejected event."""
        if not self.event:
            return "dim"
        return "" if self.decision in ("", "accepted") else "bold"

    def times(self) -> Iterator[int]:
        """Yields all times of the row."""
        known = (self.time, self.clock, self.arrival, self.assigned, self.watermark, self.mark, self.lateness)
        yield from (at for at in known if at is not None)
        yield from chain.from_iterable([*self.own, *self.open])


# The columns of the table of arrivals: Azure's with rules about arrival, else Atlas's.


@dataclass(frozen=True)
class TableColumn:
    """A column: its name, and its value in a row."""

    name: str
    attribute: str
    key: str = ""

    def cell(self, line: TableLine, show: TableTimes) -> str:
        """Returns the text of its cell in a row."""
        if self.key:
            return line.payload.get(self.key, "")
        value = getattr(line, self.attribute)
        if self.attribute in ("own", "open"):
            return show.windows(value)
        return value if isinstance(value, str) else show(value)


def table_columns(scenario: Scenario, lines: Sequence[TableLine]) -> Iterator[TableColumn]:
    """Yields the columns of a run's table, in order."""
    rules = scenario.rules
    by_arrival = rules.arrival is not None
    stepped = any(isinstance(step, ClockStep) for step in scenario.steps)
    if scenario.has_clock and (stepped or not by_arrival):
        yield TableColumn("processing time", "clock")
    yield TableColumn("event", "event")
    if len(scenario.streams) > 1:
        yield TableColumn("stream", "stream")
    yield TableColumn("event time", "time")
    if by_arrival:
        yield TableColumn("arrival time", "arrival")
    for name in dict.fromkeys(name for line in lines for name in line.payload):
        yield TableColumn(name, "payload", name)
    if by_arrival or any(line.assigned != line.time for line in lines if line.assigned is not None):
        yield TableColumn("System.Timestamp" if by_arrival else "assigned", "assigned")
    yield TableColumn("watermark", "watermark")
    if any(line.mark != line.watermark for line in lines if line.event):
        title = f"watermark ({', '.join(rules.key)})" if rules.watermark_per_key else "own mark"
        yield TableColumn(title, "mark")
    if rules.allowed_lateness.micros:
        yield TableColumn("lateness time", "lateness")
    if not by_arrival:
        yield TableColumn("its window", "own")
        yield TableColumn("open windows", "open")
    if by_arrival or any(line.decision != "accepted" for line in lines if line.event):
        yield TableColumn("action", "decision")


# A table of arrivals, to compare with the tables by which systems explain their watermarks.


def arrival_table(scenario: Scenario, answer: ReplayResult) -> Table | None:
    """Returns the table of a run whose watermark comes with events; else None.

    With rules about arrival it has the columns of Azure's illustrated example; otherwise those of Atlas's tables, which
    also have rows for clock steps.
    """
    if scenario.bolt is None or all(event["mark"] is None for event in answer.events):
        return None
    lines = list(_lines(scenario, answer))
    shown = chain.from_iterable(line.times() for line in lines)
    show = TableTimes(shown, (at for line in lines for at in (line.time, line.clock, line.arrival) if at is not None))
    columns = [column for column in table_columns(scenario, lines) if any(column.cell(line, show) for line in lines)]
    table = Table(title="event by event", title_justify="left", title_style="bold")
    for column in columns:
        table.add_column(column.name, no_wrap=column.attribute not in ("own", "open"))
    head, hidden, tail = split_for_drawing(lines)
    for line in head:
        table.add_row(*(Text(column.cell(line, show), line.style) for column in columns))
    if hidden:
        table.add_row(Text(f"{len(hidden)} more", "italic"))
    for line in tail:
        table.add_row(*(Text(column.cell(line, show), line.style) for column in columns))
    return table


def _lines(scenario: Scenario, answer: ReplayResult) -> Iterator[TableLine]:
    grid, clocks = WindowGrid.of(scenario.rules, scenario.first_clock), iter(answer.clocks)
    admissions = {event["id"]: event for event in answer.events}
    clock: int | None = None
    earliest: int | None = None
    fired_with_ids = {
        (window["start"], window["end"], name) for window in answer.windows for name in window["events"] or ()
    }
    fired_windows = {(window["start"], window["end"]) for window in answer.windows}
    for step in scenario.steps:
        if isinstance(step, EventStep | ClockStep) and step.moved is not None:
            clock = step.moved
        if isinstance(step, ClockStep):
            line = TableLine(clock=clock, watermark=next(clocks, None))
        elif isinstance(step, EventStep) and step.id in admissions:
            line = _line(scenario, step, admissions[step.id], clock)
            at = line.assigned
            own_windows = [] if grid is None or at is None else grid.holding(at)
            line.own = [each for each in own_windows if (*each, step.id) in fired_with_ids or each not in fired_windows]
        else:
            continue
        if line.watermark is not None:
            line.lateness = line.watermark - scenario.rules.allowed_lateness.micros
            earliest = min(each for each in (earliest, line.watermark, line.assigned) if each is not None)
            line.open = [] if grid is None else grid.open(max(line.lateness, earliest), line.watermark)
        yield line


def _line(scenario: Scenario, step: EventStep, event: AnswerEvent, clock: int | None) -> TableLine:
    arrival = scenario.rules.arrival
    columns = columns_named_by(scenario.rules)
    times = {name for name, kind in columns.items() if kind == "time"}
    given = {name: value for name, value in step.event.items() if name not in ("id", *times)}
    return TableLine(
        event=step.id,
        stream=step.stream or "",
        time=scenario.event_time(step),
        clock=clock,
        arrival=clock if arrival is None or arrival.field is None else _moment(step.event.get(arrival.field)),
        payload={name: str(value) for name, value in given.items() if isinstance(value, str | int | float)},
        assigned=event["time"],
        watermark=event["watermark"],
        mark=event["mark"],
        decision=event["action"].replace("_", " "),
    )


def _moment(value: object) -> int | None:
    try:
        return None if value is None else moment_of(value)
    except ScenarioError:
        return None
