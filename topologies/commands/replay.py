"""``windbolt replay``: scenarios answered, drawn, and held against what they expect."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from topologies.commands.answering import Outcome, answer_locally, answer_on_spark, located
from topologies.commands.consoles import err, only_json, out
from topologies.commands.failing import FAILED, UNUSABLE, Debug, readable_errors
from topologies.commands.running import Engine, loaded
from topologies.model import Topology
from topologies.scenarios.arrival_table import arrival_table
from topologies.scenarios.loading import Loaded, Problem, load
from topologies.scenarios.timeline import timeline

FEW = 5
"""Up to so many scenarios are all drawn."""
DRAWN = 3
"""Of more, so many of those that fail are."""


def replay(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Scenarios: .yaml, .json or .jsonl files.")],
    engine: Annotated[Engine, typer.Option(help="Where to run them; spark runs a real query.")] = Engine.LOCAL,
    topology: Annotated[
        str | None, typer.Option(metavar="FILE:NAME", help="Take this topology instead of those that scenarios name.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="A JSON object per scenario.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Draw nothing; name only what fails.")] = False,
    debug: Debug = False,
) -> None:
    """Replay scenarios: draw what happened, and compare it with what they expect.

    Exit status 0 if all is as expected, 1 if something is not, 2 if a file or a scenario is malformed.
    """
    with readable_errors(debug=debug):
        chosen = None if topology is None else loaded(topology)
        items = [item for file in files for item in load(file)]
        with _output(items, as_json=as_json, quiet=quiet) as show:
            report = _Report(show, debug=debug)
            report.all(items, engine, chosen)
    if report.status:
        raise typer.Exit(report.status)


Show = Callable[[Loaded, Outcome], None]


@contextmanager
def _output(items: Sequence[Loaded | Problem], *, as_json: bool, quiet: bool) -> Iterator[Show]:
    if as_json:
        with only_json() as write:
            yield lambda item, outcome: _show_json(write, item, outcome)
        return
    number = sum(isinstance(item, Loaded) for item in items)
    pictures = _Pictures(out(), few=number <= FEW, quiet=quiet)
    yield pictures.show
    pictures.end(len(items) - number)


@dataclass
class _Report:
    """Has the scenarios answered and shown in the order of the files, and keeps the worst exit status."""

    show: Show
    debug: bool
    status: int = 0

    def all(self, items: Sequence[Loaded | Problem], engine: Engine, topology: Topology | None) -> None:
        scenarios = [located(item.scenario, item.place.path) for item in items if isinstance(item, Loaded)]
        outcomes: Iterator[Outcome]
        if engine is Engine.SPARK:
            outcomes = iter(answer_on_spark(scenarios, topology) if scenarios else [])
        else:
            outcomes = (answer_locally(scenario, topology) for scenario in scenarios)
        for item in items:
            if isinstance(item, Problem):
                self._problem(str(item))
            else:
                self._answered(item, next(outcomes))

    def _answered(self, item: Loaded, outcome: Outcome) -> None:
        err().file.write(outcome.printed)
        if self.debug:
            err().file.write(outcome.trace)
        if outcome.malformed is not None:
            self._problem(f"{item.place} ({item.scenario.name}): {outcome.malformed}")
            return
        if outcome.answer.ok is False:
            self.status = max(self.status, FAILED)
        self.show(item, outcome)

    def _problem(self, text: str) -> None:
        self.status = UNUSABLE
        err().print(Text.assemble(("malformed: ", "bold red"), text), soft_wrap=True)


def _show_json(write: Callable[[Any], bool], item: Loaded, outcome: Outcome) -> None:
    write(outcome.answer.to_json())
    if outcome.answer.ok is False:
        _differences(err(), item, outcome)


def _differences(console: Console, item: Loaded, outcome: Outcome) -> None:
    text = Text.assemble(("not as expected: ", "bold red"), f"{item.place} ({item.scenario.name})")
    for difference in outcome.answer.differences:
        text.append(f"\n  {difference}")
    console.print(text, soft_wrap=True)


@dataclass
class _Pictures:
    """Timelines of few scenarios; of many a line each, and timelines of some that fail."""

    console: Console
    few: bool
    quiet: bool
    counts: dict[bool | None, int] = field(default_factory=lambda: {True: 0, False: 0, None: 0})

    def show(self, item: Loaded, outcome: Outcome) -> None:
        answer = outcome.answer
        self.counts[answer.ok] += 1
        failed = answer.ok is False
        if self.quiet:
            if failed:
                _differences(self.console, item, outcome)
            return
        if not self.few:
            sign = {True: ("ok    ", "green"), False: ("FAILED", "bold red"), None: ("-     ", "dim")}[answer.ok]
            line = Text.assemble(sign, f"  {answer.name}  ", (str(item.place), "dim"))
            self.console.print(line, soft_wrap=True)
        if not outcome.trace and (self.few or (failed and self.counts[False] <= DRAWN)):
            self.console.print(timeline(item.scenario, answer))
            table = arrival_table(item.scenario, answer)
            if table is not None:
                self.console.print(table)
            self.console.print(_verdict(item, outcome), soft_wrap=True)
            self.console.print()
        elif failed:
            _differences(self.console, item, outcome)

    def end(self, malformed: int) -> None:
        if self.few and not self.quiet and sum(self.counts.values()) <= 1:
            return
        named = {
            "as expected": self.counts[True],
            "not as expected": self.counts[False],
            "without expectations": self.counts[None],
            "malformed": malformed,
        }
        total = sum(named.values())
        parts = ", ".join(f"{number} {name}" for name, number in named.items() if number)
        style = "bold red" if self.counts[False] or malformed else "bold green"
        self.console.print(Text(f"{total} scenario{'' if total == 1 else 's'}: {parts}", style), soft_wrap=True)


def _verdict(item: Loaded, outcome: Outcome) -> Text:
    words = {
        True: ("as expected", "bold green"),
        False: ("not as expected", "bold red"),
        None: ("nothing is expected of it", "dim"),
    }
    return Text.assemble(f"{item.place}: ", words[outcome.answer.ok])
