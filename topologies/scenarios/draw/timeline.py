"""A scenario's run drawn for a terminal: arrivals downwards, event time to the right, windows as brackets."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from topologies.io.times import told
from topologies.scenarios.draw.axis import EXPIRED, Axis, Clock, Row
from topologies.scenarios.run.answer import AnswerWindow, Replayed, plain
from topologies.scenarios.schema.expected import ACCOUNTS
from topologies.scenarios.schema.model import Scenario
from topologies.scenarios.schema.steps import ClockStep, CloseStep, CrashStep, EventStep, ExpectStep, Step, TickStep
from topologies.scenarios.schema.values import Strict
from windowing.suggestions import nearest
from windowing.time.durations import Count
from windowing.time.timestamps import FOREVER, from_datetime

HEAD, TAIL = 80, 40
"""So many rows are drawn of a run that is too long: of its beginning, and of its end."""
MOST_ROWS = 20
"""So many rows are shown of each sink."""

WINDOWED, LATE, PENDING, NOWHERE, INVALID = "●", "✗", "○", "·", "?"
NEW, AGAIN = "◆", "●"
_ASCII = str.maketrans("●✗○·◆◇─┬┊┄▌╱…✓–#", "*xo.+%-+:.|/~v-#")


def timeline(scenario: Scenario, answer: Replayed) -> Timeline:
    """What to print (with rich) to show a run: its events, watermarks, windows, outputs, and what differs."""
    return Timeline(scenario, answer)


@dataclass(frozen=True)
class Timeline:
    """A run as rich renders it, at the width it is given; symbols say what colours say."""

    scenario: Scenario
    answer: Replayed

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Called by rich when the timeline is printed."""
        chart = _Chart(self.scenario, self.answer)
        yield from (_fit(line, options) for line in [*_headline(self.scenario, self.answer), Text()])
        if chart.rows:
            yield from (_fit(line, options) for line in chart.lines(options.max_width))
            yield from (_ascii(_legend(), options), Text())
        yield from (_fit(line, options) for line in _accounts(self.answer))
        for name, rows in self.answer.outputs.items():
            yield _fit(_sink_title(name, rows), options)
            if rows:
                yield _sink(rows, options)
        if self.answer.differences:
            text = Text("\n").join(Text(f"{LATE} {difference}") for difference in self.answer.differences)
            yield Panel(_ascii(text, options), title="differences", title_align="left", border_style="red")


class _Chart:
    """The rows of a run and the axis they share."""

    def __init__(self, scenario: Scenario, answer: Replayed) -> None:
        self.scenario, self.answer = scenario, answer
        self.first = answer.steps[0] if answer.steps else None
        self.where = _positions(scenario, answer)
        self.by_arrival = self.where is None
        if self.where is None:
            self.where = {step.id: number for number, step in enumerate(scenario.event_steps, 1)}
        self.show = Clock([*self.where.values(), *_bounds_of(answer)], scenario, by_arrival=self.by_arrival)
        self.windowed = {name for window in answer.windows for name in window["events"]}
        self.late, self.pending = set(answer.late), set(answer.pending)
        self.taken = {event["id"]: event for event in answer.events}
        self.mark: int | None = None
        self.rows = _elided(list(self._rows()))

    def lines(self, width: int) -> Iterator[Text]:
        left = min(max(len(row.label) for row in self.rows), max(12, width // 3)) + 1
        right = min(max((row.note.cell_len for row in self.rows), default=0), max(10, width * 3 // 10)) + 1
        axis = Axis([at for row in self.rows for at in row.times()], max(20, width - left - right - 1))
        yield from (Text(" " * left).append(line) for line in axis.header(self.show))
        mark: int | None = None
        for row in self.rows:
            label = row.label if len(row.label) < left else row.label[: left - 2] + "…"
            yield (Text(f"{label:<{left}}", style=row.style).append(axis.draw(row, mark)).append(" ").append(row.note))
            mark = row.upto if row.upto is not None else mark

    def _rows(self) -> Iterator[Row]:
        marks, clocks = iter(self.answer.watermarks), iter(self.answer.clocks)
        for step, before, after in _placed(self.scenario, self.answer):
            yield from (self._window(number) for number in before)
            if isinstance(step, ExpectStep):
                yield self._expectation(step)
            else:
                yield self._step(step, marks, clocks) if step is not None else Row("end of run", style="dim")
            yield from (self._window(number) for number in after)

    def _step(self, step: Step, marks: Iterator[int | None], clocks: Iterator[int | None]) -> Row:
        match step:
            case EventStep():
                return self._event(step)
            case TickStep():
                mark = next(marks, None)
                if mark is None:
                    return Row("tick", Text("no new watermark", "dim"), style="bold")
                drawn = self._moved(mark)
                return Row("tick", Text(f"watermark {self.show(mark)}", "cyan"), style="bold", upto=drawn)
            case ClockStep():
                mark = self._moved(next(clocks, None))
                note = Text() if mark is None else Text(f"watermark {self.show(mark)}", "cyan")
                return Row(f"clock {self.show(step.clock)}", note, style="bold", upto=mark)
            case CrashStep():
                return Row("crash", Text("recovers from the last commit", "dim"), style="bold red")
        return Row("close", Text("end of the streams", "dim"), style="bold")

    def _expectation(self, step: ExpectStep) -> Row:
        if step.expect.is_empty:
            return Row("expect", Text("nothing", "dim"), style="dim")
        place = next(f"steps[{at}]" for at, each in enumerate(self.scenario.steps) if each is step)
        differs = any(text.startswith(f"{place}.") for text in self.answer.differences)
        verdict = Text("not as expected", "bold red") if differs else Text("as expected", "green")
        return Row("expect", verdict, style="dim")

    def _event(self, step: EventStep) -> Row:
        symbol, style, word = self._account(step)
        at = self._at(step.id)
        own = None if self.by_arrival else at
        parts = [step.id, step.stream if len(self.scenario.streams) != 1 else None]
        parts.append(self.show(own) if own is not None else None)
        if own is None and step.moved is not None:
            parts.append(self.show(step.moved))
        marks = [] if at is None else [(at, symbol, style)]
        note = Text(f"{symbol} {word}".strip(), style) if word else Text()
        label = " ".join(part for part in parts if part)
        taken = self.taken.get(step.id)
        upto = None if taken is None else self._moved(taken["watermark"])
        return Row(label, note, style if word else "", marks, upto=upto, kind="event")

    def _moved(self, mark: int | None) -> int | None:
        """The watermark, where it has moved; None where it has not, or no axis can show it."""
        if mark is None or self.by_arrival or (self.mark is not None and mark <= self.mark):
            return None
        self.mark = mark
        return mark

    def _account(self, step: EventStep) -> tuple[str, str, str]:
        if step.id in self.late:
            return LATE, "bold red", "late"
        told = self._told(step)
        if told is not None:
            return told
        if step.id in self.answer.invalid or (self.scenario.is_event_time and self._at(step.id) is None):
            return INVALID, "red", self._why_invalid(step)
        if step.id in self.windowed or (self.scenario.bolt is None and not self.answer.windows):
            return WINDOWED, "", ""
        if step.id in self.pending:
            return PENDING, "yellow", "pending"
        return NOWHERE, "dim", "in no window"

    def _told(self, step: EventStep) -> tuple[str, str, str] | None:
        """What is known of an event that was moved or turned away, or is none."""
        if self.scenario.is_watermark(step):
            return "", "cyan", "a watermark"
        taken = self.taken.get(step.id)
        if taken is None or taken["action"] == "accepted":
            return None
        if taken["action"].startswith("adjusted") and taken["time"] is not None:
            symbol = WINDOWED if step.id in self.windowed else PENDING
            return symbol, "yellow", f"adjusted to {self.show(taken['time'])}"
        if taken["action"] == "invalid":
            return INVALID, "bold red", self._why_invalid(step)
        words = {"early": "early", "late": "late"}
        word = words.get(taken["action"], "dropped" if taken["action"].startswith("dropped") else "")
        return (LATE, "bold red", word) if word else None

    def _why_invalid(self, step: EventStep) -> str:
        """Why an event could not be used; the field that it lacks, where that is what its time is read from."""
        field = self.scenario.time_field
        if field is not None and field not in step.event:
            close = nearest(field, step.event, likeness=0.5)
            return f"invalid: no {field!r}{f', but {close[0]!r}' if close else ''}"
        return f"invalid: {self.answer.invalid.get(step.id, 'no time')}"

    def _at(self, name: str) -> int | None:
        return self.where.get(name) if self.where is not None else None

    def _window(self, number: int) -> Row:
        window = self.answer.windows[number]
        new = set(window["new"] or ())
        marks = [
            *((name, EXPIRED, "dim") for name in window["expired"] or ()),
            *((name, NEW if name in new else AGAIN, "bold green" if name in new else "") for name in window["events"]),
        ]
        further = window.get("step", self.first) != self.first  # what it holds was made later than what it was made of
        placed = (
            []
            if further
            else [(at, symbol, style) for name, symbol, style in marks if (at := self._at(name)) is not None]
        )
        inside = [at for at, symbol, _ in placed if symbol != EXPIRED]
        label = f"  #{number} {self._extent(window)}"
        return Row(
            label,
            _whose(window).append(_members(window)),
            "green",
            placed,
            self._bar(window, inside),
            kind="window",
        )

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
        if "by" in window:
            return "[", "]"  # from its first event to what fired it
        bounds = self.scenario.rules.bounds
        return bounds.value[0], bounds.value[-1]

    def _extent(self, window: AnswerWindow) -> str:
        opening, closing = self._brackets(window)
        start, end = window["start"], window["end"]
        if end is None:
            number = len(window["events"])
            return f"{number} event{'' if number == 1 else 's'}"
        if start is None:
            return f"..{self.show(end)}{closing}"
        return f"{opening}{self.show(start)}..{self.show(end)}{closing}"


def _positions(scenario: Scenario, answer: Replayed) -> dict[str, int] | None:
    """Where each event stands on the axis; None where only the order of arrival can say."""
    if scenario.is_event_time:
        return {step.id: at for step in scenario.event_steps if (at := scenario.event_time(step)) is not None}
    if scenario.topology is not None or any(window["end"] is None for window in answer.windows):
        return None
    if scenario.bolt is not None and isinstance(scenario.bolt.length, Count) and not answer.windows:
        return None
    found: dict[str, int] = {}
    clock: int | None = None
    for step in scenario.steps:
        if isinstance(step, EventStep | ClockStep) and step.moved is not None:
            clock = step.moved
        if isinstance(step, EventStep) and clock is not None:
            found[step.id] = clock
    return found


def _bounds_of(answer: Replayed) -> Iterator[int]:
    for window in answer.windows:
        yield from (at for at in (window["start"], window["end"]) if at is not None)


@dataclass
class _Progress:
    """How far a run has come while its windows are put where they fired."""

    arrived: set[str] = field(default_factory=set)
    watermark: int | None = None
    clock: int | None = None
    closed: bool = False

    def reach(self, mark: int | None) -> None:
        """Note a watermark, where there is one."""
        if mark is not None:
            self.watermark = mark if self.watermark is None else max(mark, self.watermark)


def _placed(scenario: Scenario, answer: Replayed) -> Iterator[tuple[Step | None, list[int], list[int]]]:
    """Each step with the windows that fired just before it (its clock moved first), and after it."""
    waiting = deque(range(len(answer.windows)))
    marks, clocks, so_far = iter(answer.watermarks), iter(answer.clocks), _Progress()
    taken = {event["id"]: event["watermark"] for event in answer.events}
    for step in scenario.steps:
        before: list[int] = []
        if isinstance(step, EventStep | ClockStep) and step.moved is not None:
            so_far.clock = step.moved
        match step:
            case EventStep():
                before = _due(scenario, answer, waiting, so_far) if step.arrival is None else []
                so_far.arrived.add(step.id)
                so_far.reach(taken.get(step.id))
            case TickStep():
                so_far.reach(next(marks, None))
            case ClockStep():
                so_far.reach(next(clocks, None) if taken else None)
            case CloseStep():
                so_far.closed = True
        yield step, before, _due(scenario, answer, waiting, so_far)
    if waiting:
        yield None, [], list(waiting)


def _due(scenario: Scenario, answer: Replayed, waiting: deque[int], so_far: _Progress) -> list[int]:
    due: list[int] = []
    while waiting and _has_fired(scenario, answer.windows[waiting[0]], so_far):
        due.append(waiting.popleft())
    return due


def _has_fired(scenario: Scenario, window: AnswerWindow, so_far: _Progress) -> bool:
    if so_far.closed:
        return True
    if not so_far.arrived.issuperset(window["events"]):
        return False
    end = window["end"]
    if end is None:
        return True
    if scenario.bolt is None or scenario.is_event_time:
        rules = scenario.rules
        behind = rules.allowed_lateness.micros + rules.closes_after_end
        return so_far.watermark is not None and end <= so_far.watermark - behind
    if so_far.clock is None:
        return False
    slide = scenario.bolt.sliding or (scenario.bolt.length if scenario.bolt.tumbling else None)
    return end <= so_far.clock if slide is None or isinstance(slide, Count) else end < so_far.clock


def _elided(rows: list[Row]) -> list[Row]:
    if len(rows) <= HEAD + TAIL:
        return rows
    hidden = Counter(row.kind for row in rows[HEAD:-TAIL])
    parts = [f"{number} {kind}s" if number > 1 else f"1 {kind}" for kind, number in hidden.items()]
    return [*rows[:HEAD], Row("…", Text(f"{', '.join(parts)} not drawn", "italic"), "bold"), *rows[-TAIL:]]


def _members(window: AnswerWindow) -> Text:
    """The ids of a window: new ones with a plus, then those that it lost with a minus."""
    new, expired = set(window["new"] or ()), window["expired"] or []
    text = Text(" ").join(
        [
            *(Text(f"+{name}", "bold green") if name in new else Text(name) for name in _few(window["events"], 6)),
            *(Text(f"-{name}", "dim") for name in _few(expired, 3)),
        ]
    )
    hidden = (len(window["events"]) > 6) + (len(expired) > 3)
    if hidden:
        text.append(f" ({len(window['events'])}, -{len(expired)})", "italic")
    return text


def _few(names: Sequence[str], most: int) -> list[str]:
    return list(names) if len(names) <= most else [*names[: most - 2], "…", names[-1]]


def _whose(window: AnswerWindow) -> Text:
    names = [f"{name} {window[name]}" for name in ("step", "task", "key", "kind") if name in window]
    if "pane" in window:
        names.append(f"{window['pane']['timing'].replace('_', ' ')}{', the last' if window['pane']['last'] else ''}")
    return Text(f"{', '.join(names)}: " if names else "", "italic")


def _headline(scenario: Scenario, answer: Replayed) -> Iterator[Text]:
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
    """A setting on one line: what the file gives, without the names of types."""
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


def _legend() -> Text:
    events = f"{WINDOWED} event  {LATE} late  {PENDING} pending"
    windows = f"{NEW} new  {AGAIN} again  {EXPIRED} expired  2-9 several"
    return Text(f"{events}  |  in a window: {windows}  |  ▌ watermark", "dim")


def _accounts(answer: Replayed) -> Iterator[Text]:
    """Where the received events are, as the sum that it must be."""
    if not answer.counts:
        return
    parts = [f"{answer.counts[name]} {name}" for name in ACCOUNTS if answer.counts.get(name)]
    others = [
        f"{number} {name}" for name, number in answer.counts.items() if name not in (*ACCOUNTS, "received") and number
    ]
    total = sum(answer.counts.get(name, 0) for name in ACCOUNTS)
    received = answer.counts.get("received", total)
    sign, style = ("=", "") if total == received else ("≠", "bold red")
    text = f"received {received} {sign} {' + '.join(parts) or '0'}"
    yield Text(f"{text}; {', '.join(others)}" if any(others) else text, style)


def _sink_title(name: str, rows: Sequence[dict[str, Any]]) -> Text:
    number = f"{len(rows)} row{'' if len(rows) == 1 else 's'}"
    hidden = f", the first {MOST_ROWS}" if len(rows) > MOST_ROWS else ""
    return Text(f"{name}: {number}{hidden}", "bold")


def _sink(rows: Sequence[dict[str, Any]], options: ConsoleOptions) -> RenderableType:
    """Rows as a table; as names and values, where it would not fit."""
    columns = list(dict.fromkeys(column for row in rows for column in row))
    table = Table()
    for column in columns:
        numeric = all(isinstance(row.get(column), int | float) for row in rows)
        table.add_column(_ascii(Text(column), options), justify="right" if numeric else "left")
    cells = [[_cell(row.get(column)) for column in columns] for row in rows[:MOST_ROWS]]
    for row in cells:
        table.add_row(*(_ascii(Text(cell), options) for cell in row))
    longest = [max(map(cell_len, column)) for column in zip(columns, *cells, strict=True)]
    if sum(longest) + 3 * len(columns) + 1 <= options.max_width:
        return table
    pairs = ["  ".join(f"{name}={cell}" for name, cell in zip(columns, row, strict=True) if cell) for row in cells]
    return Padding(Group(*(_ascii(Text(pair), options) for pair in pairs)), (0, 0, 0, 2))


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return str(told(from_datetime(value)) if isinstance(value, datetime) else plain(value))


def _fit(line: Text, options: ConsoleOptions) -> Text:
    line = _ascii(line, options)
    line.no_wrap, line.overflow = True, "ellipsis" if not options.ascii_only else "crop"
    return line


def _ascii(text: Text, options: ConsoleOptions) -> Text:
    if not options.ascii_only:
        return text
    copy = text.copy()
    copy.plain = text.plain.translate(_ASCII).replace("≠", "!")
    return copy
