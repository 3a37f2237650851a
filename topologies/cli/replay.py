"""``windbolt replay``: answers scenarios, draws them, and compares the answers with their expectations."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Protocol

import typer
from rich.console import Console
from rich.text import Text

from topologies.cli.answering import Outcome, answer_locally, answer_on_spark
from topologies.cli.picture_files import PictureFiles
from topologies.cli.running import loaded
from topologies.cli.terminal.consoles import err, only_json, out, say
from topologies.cli.terminal.failing import FAILED, UNUSABLE, Debug, readable_errors
from topologies.cli.watching import folders_of, replay_at_every_save
from topologies.run.engine import Engine
from topologies.scenarios.schema.scenario_files import Loaded, Problem, ScenarioPlace, load, located, scenario_files
from topologies.scenarios.terminal_drawing.table.arrival_table import arrival_table
from topologies.scenarios.terminal_drawing.timeline import timeline
from topologies.topology import Topology
from windowing.errors import ConfigError

FEW = 5
"""Maximum number of scenarios that are all drawn."""
DRAWN = 3
"""Number of failing scenarios that are drawn if there are more."""


def replay(
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE...",
            help="Scenarios: .yaml, .json or .jsonl files, or folders that hold some. With --record: the input, by "
            "default that of the spouts.",
            show_default=False,
        ),
    ] = None,
    engine: Annotated[Engine, typer.Option(help="Where to run them; spark runs a real query.")] = Engine.LOCAL,
    topology: Annotated[
        str | None, typer.Option(metavar="FILE:NAME", help="Take this topology instead of those that scenarios name.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="A JSON object per scenario.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Draw nothing; name only what fails.")] = False,
    draw: Annotated[bool, typer.Option("--draw", help=f"Draw all, also where there are more than {FEW}.")] = False,
    record: Annotated[
        str | None,
        typer.Option(
            metavar="FILE:NAME",
            help="Print a scenario of this topology: the rows of the input (at most 10,000), and what comes out. "
            "Without FILE each spout reads its own files.",
        ),
    ] = None,
    html: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Write pictures of time to step through: one page that needs no network."),
    ] = None,
    svg: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write a picture of time, of one scenario, as SVG.")
    ] = None,
    png: Annotated[str | None, typer.Option(metavar="FILE", help="The same as an image; needs the extra png.")] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Replay again at every save, until Ctrl-C.")] = False,
    debug: Debug = False,
) -> None:
    """Replay scenarios: draw what happened, and compare it with what they expect.

    Exit status 0 if all is as expected, 1 if something is not, 2 if a file or a scenario is malformed.
    """
    with readable_errors(debug=debug):
        _check_output_options(draw=draw, quiet=quiet, as_json=as_json)
        files_of = PictureFiles(html=html, svg=svg, png=png)
        if record is not None:
            others = {"--json": as_json, "--quiet": quiet, "--draw": draw, "--watch": watch, "--topology": topology}
            others |= dict.fromkeys(files_of.options, True)
            _alone("--record", [name for name, given in others.items() if given])
            raise typer.Exit(_record(record, files or []))
        if not files:
            raise ConfigError(
                "no scenario to replay",
                why="there is neither FILE nor --record",
                do="name scenario files, or folders that hold some: windbolt replay tests/scenarios/",
            )
        paths = [Path(file) for file in files]
        if watch:
            raise typer.Exit(_watch(paths, topology))
        chosen = None if topology is None else loaded(topology)
        items = list(_all(paths))
        files_of.check(items)
        with _output(items, as_json=as_json, quiet=quiet, draw=draw) as output:
            report = _Report(output, debug=debug)
            report.all(items, engine, chosen)
        files_of.write(report.shown)
    if report.status:
        raise typer.Exit(report.status)


def _record(reference: str, inputs: Sequence[str]) -> int:
    """Print the scenario of a topology's input; the exit status says whether it comes out the same again."""
    from topologies.scenarios.run.recorded import recorded

    topology = loaded(reference)
    with redirect_stdout(sys.stderr):  # what bolts print is not part of it
        made = recorded(reference, topology, inputs)
    sys.stdout.write(made.text)
    if made.unreadable:
        rows = "1 row that cannot be read is" if made.unreadable == 1 else f"{made.unreadable:,} unreadable rows are"
        say(err(), Text(f"warning: {rows} not in it", "bold yellow"))
    if not made.differences:
        return 0
    text = Text.assemble(("error: ", "bold red"), "replayed again, it does not come out the same")
    for difference in made.differences:
        text.append(f"\n  {difference}")
    text.append("\n  do:  leave out of expect what changes from run to run")
    say(err(), text)
    return FAILED


def _alone(option: str, others: Sequence[str]) -> None:
    if others:
        raise ConfigError(f"{option} and {others[0]}", why=f"{option} only prints a scenario", do="choose one of them")


def _all(files: Sequence[Path]) -> Iterator[Loaded | Problem]:
    """The scenarios of files, and of those in folders."""
    for file in files:
        if not file.is_dir():
            yield from load(file)
            continue
        found = scenario_files(file)
        if not found:
            yield Problem(ScenarioPlace(file), ("expected scenario files in this folder, found none",))
        for each in found:
            yield from load(each)


def _watch(files: Sequence[Path], topology: str | None) -> int:
    """Replay until Ctrl-C, with the options that were given."""
    command = [argument for argument in sys.argv[1:] if argument != "--watch"]
    return replay_at_every_save(command, folders_of(files, _all(files), topology))


class _Output(Protocol):
    """Shows answers."""

    def show(self, item: Loaded, outcome: Outcome) -> None: ...

    def malformed(self) -> None:
        """Count one more scenario that cannot be answered; the problem has been reported."""


@contextmanager
def _output(items: Sequence[Loaded | Problem], *, as_json: bool, quiet: bool, draw: bool) -> Iterator[_Output]:
    if as_json:
        with only_json() as write:
            yield _Objects(write)
        return
    number = sum(isinstance(item, Loaded) for item in items)
    pictures = _Pictures(out(), few=number <= FEW, draw=draw or number <= FEW, quiet=quiet)
    yield pictures
    pictures.end()


def _check_output_options(*, draw: bool, quiet: bool, as_json: bool) -> None:
    if draw and (quiet or as_json):
        other = "--quiet" if quiet else "--json"
        raise ConfigError(f"--draw and {other}", why=f"{other} draws nothing", do="choose one of them")


@dataclass
class _Report:
    """Has the scenarios answered and shown in the order of the files, and keeps the worst exit status."""

    output: _Output
    debug: bool
    status: int = 0
    shown: list[tuple[Loaded, Outcome]] = field(default_factory=list)
    """What was answered, for the files of pictures."""

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
        self.output.show(item, outcome)
        self.shown.append((item, outcome))

    def _problem(self, text: str) -> None:
        self.status = UNUSABLE
        self.output.malformed()
        say(err(), Text.assemble(("malformed: ", "bold red"), text))


@dataclass
class _Objects:
    """Shows a JSON object for each answer."""

    write: Callable[[Any], bool]

    def show(self, item: Loaded, outcome: Outcome) -> None:
        self.write(outcome.answer.to_json())
        if outcome.answer.ok is False:
            _differences(err(), item, outcome)

    def malformed(self) -> None:
        return


def _differences(console: Console, item: Loaded, outcome: Outcome) -> None:
    text = Text.assemble(("not as expected: ", "bold red"), f"{item.place} ({item.scenario.name})")
    for difference in outcome.answer.differences:
        text.append(f"\n  {difference}")
    say(console, text)


@dataclass
class _Pictures:
    """Shows timelines of few scenarios; for many, a line each, and timelines of some that fail."""

    console: Console
    few: bool
    draw: bool
    """Whether all are drawn."""
    quiet: bool
    counts: dict[bool | None, int] = field(default_factory=lambda: {True: 0, False: 0, None: 0})
    unusable: int = 0
    left_out: int = 0
    """Number of failing scenarios that were not drawn."""

    def malformed(self) -> None:
        self.unusable += 1

    def show(self, item: Loaded, outcome: Outcome) -> None:
        answer = outcome.answer
        self.counts[answer.ok] += 1
        failed = answer.ok is False
        if self.quiet:
            if failed:
                _differences(self.console, item, outcome)
            return
        if not self.draw:
            sign = {True: ("ok    ", "green"), False: ("FAILED", "bold red"), None: ("-     ", "dim")}[answer.ok]
            line = Text.assemble(sign, f"  {answer.name}  ", (str(item.place), "dim"))
            say(self.console, line)
        if not outcome.trace and (self.draw or (failed and self.counts[False] <= DRAWN)):
            self.console.print(timeline(item.scenario, answer))
            table = arrival_table(item.scenario, answer)
            if table is not None:
                self.console.print(table)
            say(self.console, _verdict(item, outcome))
            self.console.print()
        else:
            self.left_out += not outcome.trace
            if failed:
                _differences(self.console, item, outcome)

    def end(self) -> None:
        if self.left_out:
            rest = "" if self.left_out == sum(self.counts.values()) else f"the other {self.left_out} "
            words = f"{rest}not drawn, there are more than {FEW} scenarios; --draw draws all"
            say(self.console, Text(words, "dim"))
        malformed = self.unusable
        if self.few and not self.quiet and sum(self.counts.values()) <= 1 and not malformed:
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
        say(self.console, Text(f"{total} scenario{'' if total == 1 else 's'}: {parts}", style))


def _verdict(item: Loaded, outcome: Outcome) -> Text:
    words = {
        True: ("as expected", "bold green"),
        False: ("not as expected", "bold red"),
        None: ("nothing is expected of it", "dim"),
    }
    return Text.assemble(f"{item.place}: ", words[outcome.answer.ok])
