"""A scenario's run drawn for a terminal: arrivals downwards, event time to the right, windows as brackets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from rich.console import Console, ConsoleOptions, RenderResult
from rich.panel import Panel
from rich.text import Text

from topologies.scenarios.run.scenario_answer import Replayed
from topologies.scenarios.schema.expected import WHEREABOUTS
from topologies.scenarios.schema.scenario_model import Scenario
from topologies.scenarios.schema.scenario_values import Strict
from topologies.scenarios.terminal_drawing.bolt_windows import moments
from topologies.scenarios.terminal_drawing.chart import AGAIN, LATE, NEW, PENDING, WINDOWED, Chart
from topologies.scenarios.terminal_drawing.chart_row import EXPIRED
from topologies.scenarios.terminal_drawing.sink_table import sink_rows, sink_title
from topologies.scenarios.terminal_drawing.terminal_characters import fit, in_its_characters


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
        chart = Chart(self.scenario, self.answer)
        yield from (in_its_characters(line, options) for line in [*_headline(self.scenario, self.answer), Text()])
        if chart.rows:
            yield from (fit(line, options) for line in chart.lines(console, options.max_width))
            yield from (in_its_characters(line, options) for line in [*_legend(options.max_width), Text()])
        if chart.left_out:
            yield in_its_characters(_not_drawn(self.answer), options)
        yield from (in_its_characters(line, options) for line in _accounts(self.answer))
        for name, rows in self.answer.outputs.items():
            yield in_its_characters(sink_title(name, rows), options)
            if rows:
                yield sink_rows(rows, options)
        if self.answer.differences:
            text = Text("\n").join(Text(f"{LATE} {difference}") for difference in self.answer.differences)
            yield Panel(in_its_characters(text, options), title="differences", title_align="left", border_style="red")


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


def _legend(width: int) -> Iterator[Text]:
    """The symbols, on one line where they fit."""
    events = f"{WINDOWED} event  {LATE} late  {PENDING} pending  ▌ watermark"
    windows = f"in a window: {NEW} new  {AGAIN} again  {EXPIRED} expired  2-9 several"
    line = f"{events}  |  {windows}"
    yield from (Text(each, "dim") for each in ([line] if len(line) <= width else [events, windows]))


def _not_drawn(answer: Replayed) -> Text:
    names = ", ".join(f"{number} of {bolt}" for bolt, number in moments(answer).items())
    return Text(f"not drawn: the moments at which ready bolts without windows are called ({names})", "dim")


def _accounts(answer: Replayed) -> Iterator[Text]:
    """Where the received events are, as the sum that it must be; of several bolts a line for each."""
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
