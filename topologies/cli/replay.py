"""``windbolt replay``: replays scenarios, draws them, compares results with expectations, and records scenarios."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any, Protocol

import pyarrow as pa
import typer
import yaml
from rich.console import Console
from rich.rule import Rule
from rich.text import Text

from topologies.cli.consoles import FAILED, UNUSABLE, Debug, err, only_json, out, readable_errors, say
from topologies.cli.run import load_reference
from topologies.graph.graph import Graph, SpoutNode
from topologies.io.file_spout import FileSpout, FoundFile, chunks_of
from topologies.io.formats import FileSplit
from topologies.io.formats.event_files import as_unreachable_error
from topologies.io.paths import locate_file
from topologies.io.spout_columns import FileMetadata
from topologies.io.spouts import MemorySpout, files
from topologies.run.clock import system_clock
from topologies.run.options import Engine
from topologies.scenarios.replay import replay_locally
from topologies.scenarios.scenario_answer import AnswerWindow, ReplayResult, plain_json
from topologies.scenarios.scenario_model import (
    LoadedScenario,
    Problem,
    ScenarioPlace,
    is_foreign_folder,
    load,
    read_scenario,
    scenario_files,
    with_topology_path,
)
from topologies.scenarios.timeline import arrival_table, timeline
from topologies.testing.replaying import Outcome, answer_locally, answer_on_spark
from windowing.errors import ConfigError, ScenarioError, did_you_mean
from windowing.schema import DEFAULT_STREAM
from windowing.timestamps import from_datetime, readable_time, show

# The files of pictures that ``windbolt replay`` writes: ``--html``, ``--svg`` and ``--png``.


@dataclass(frozen=True)
class PictureFiles:
    """Files for pictures; None for pictures that are not requested."""

    html: str | None = None
    svg: str | None = None
    png: str | None = None

    @property
    def options(self) -> list[str]:
        """The options for pictures on the command line."""
        given = {"--html": self.html, "--svg": self.svg, "--png": self.png}
        return [name for name, path in given.items() if path is not None]

    def check(self, items: Sequence[LoadedScenario | Problem]) -> None:
        """Raises ConfigError, before anything runs, if a file cannot be written, or cannot hold this many scenarios."""
        for name, path in (("--html", self.html), ("--svg", self.svg), ("--png", self.png)):
            if path is None:
                continue
            if not path or Path(path).is_dir() or not Path(path).parent.is_dir():
                why = "it is a folder" if path and Path(path).is_dir() else "its folder does not exist"
                raise ConfigError(
                    f"{name} cannot write {path!r}",
                    why=why if path else "it is empty",
                    do="give the path of a file in a folder that exists",
                )
        count = sum(isinstance(item, LoadedScenario) for item in items)
        if count > 1 and (self.svg is not None or self.png is not None):
            name = "--svg" if self.svg is not None else "--png"
            raise ConfigError(
                f"{name} with {count} scenarios",
                why="it is a picture of one",
                do="use --html, which holds many, or give a file with one scenario",
            )
        if self.png is not None:
            from topologies.scenarios.svg import check_png

            check_png()

    def write(self, shown: Sequence[tuple[LoadedScenario, Outcome]]) -> None:
        """Writes the requested files; nothing without a result."""
        if not shown or not self.options:
            return
        from topologies.scenarios.svg import PageItem, page, png, svg

        item, outcome = shown[0]
        if self.html is not None:
            items = [PageItem(each.scenario, got.answer, str(each.place), got.trace) for each, got in shown]
            _write(self.html, page(items).encode())
        if self.svg is not None:
            _write(self.svg, svg(item.scenario, outcome.answer).encode())
        if self.png is not None:
            _write(self.png, png(item.scenario, outcome.answer))


def _write(path: str, content: bytes) -> None:
    try:
        Path(path).write_bytes(content)
    except OSError as error:
        raise ConfigError(
            f"{path!r} cannot be written", why=str(error.strerror or error), do="give another path, or make room"
        ) from None


# Replaying at every save: the relevant files, and a new process for each replay.


_WATCHED_ENDINGS = (".py", ".yaml", ".yml", ".json", ".jsonl", ".conf", ".hocon")
_WATCH_SECONDS = 0.5
"""Seconds between two checks of the times of files."""

FileTimes = dict[Path, tuple[int, int]]
"""Files, each with the time of its last change and its size."""


def replay_at_every_save(command: Sequence[str], folders: Iterable[Path]) -> int:
    """Runs a ``windbolt`` command now, and again at every change in these folders, until Ctrl-C.

    Each run is a new process, so that it imports the saved files. Returns the last exit status.
    """
    status, watched, pause = 0, sorted(set(folders)), threading.Event()
    try:
        while True:
            before = file_times(watched)
            status = subprocess.call([sys.executable, "-m", "windbolt", *command])
            _say_waiting(watched)
            while file_times(watched) == before:
                pause.wait(_WATCH_SECONDS)
            out().print(Rule(show(system_clock() // 1_000_000 * 1_000_000), style="dim"))
    except KeyboardInterrupt:
        return status


def watched_folders(
    files: Iterable[Path], items: Iterable[LoadedScenario | Problem], topology: str | None
) -> set[Path]:
    """Returns the folders of scenarios, and of the files of the topologies that they name."""
    found = {file if file.is_dir() else file.parent for file in files}
    named = [
        with_topology_path(item.scenario, item.place.path).topology
        for item in items
        if isinstance(item, LoadedScenario)
    ]
    for reference in {*named, topology} - {None}:
        place = str(reference).rpartition(":")[0]
        found.add(Path(place).parent if place.endswith(".py") else Path())
    return {folder.resolve() for folder in found if folder.is_dir()}


def file_times(folders: Iterable[Path]) -> FileTimes:
    """Returns the files in folders and below them on which a replay may depend."""
    state: FileTimes = {}
    for folder in folders:
        for top, inner, names in os.walk(folder):
            inner[:] = [name for name in inner if not is_foreign_folder(Path(top, name))]
            for name in names:
                if name.endswith(_WATCHED_ENDINGS):
                    _add_times(state, Path(top, name))
    return state


def _add_times(state: FileTimes, path: Path) -> None:
    try:
        status = path.stat()
    except OSError:  # deleted since it was listed, or being rewritten
        return
    state[path] = (status.st_mtime_ns, status.st_size)


def _say_waiting(folders: Sequence[Path]) -> None:
    names = ", ".join(os.path.relpath(folder) for folder in folders)
    say(out(), Text(f"Waiting for a change in {names}; Ctrl-C ends.", "dim"))


# ``windbolt replay``: replays scenarios, draws them, and compares results with expectations.


DRAW_ALL_UP_TO = 5
"""Most scenarios that are all drawn."""
DRAWN_FAILURES = 3
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
    draw: Annotated[
        bool, typer.Option("--draw", help=f"Draw all, also where there are more than {DRAW_ALL_UP_TO}.")
    ] = False,
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
        picture_files = PictureFiles(html=html, svg=svg, png=png)
        if record is not None:
            others = {"--json": as_json, "--quiet": quiet, "--draw": draw, "--watch": watch, "--topology": topology}
            others["--engine spark"] = engine is Engine.SPARK
            others |= dict.fromkeys(picture_files.options, True)
            _refuse_other_options("--record", [name for name, given in others.items() if given])
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
        topology_option = None if topology is None else load_reference(topology)
        items = list(_load_all(paths))
        picture_files.check(items)
        with _output(items, as_json=as_json, quiet=quiet, draw=draw) as output:
            report = _Report(output, debug=debug)
            report.all(items, engine, topology_option)
        picture_files.write(report.shown)
    if report.status:
        raise typer.Exit(report.status)


def _record(reference: str, inputs: Sequence[str]) -> int:
    """Prints the scenario of a topology's input; the exit status tells whether a replay gives the same results."""
    topology = load_reference(reference)
    with redirect_stdout(sys.stderr):  # prints of bolts are not part of the scenario
        recording = record_scenario(reference, topology, inputs)
    sys.stdout.write(recording.text)
    if recording.unreadable:
        rows = (
            "1 row that cannot be read is"
            if recording.unreadable == 1
            else f"{recording.unreadable:,} unreadable rows are"
        )
        say(err(), Text(f"warning: {rows} not in it", "bold yellow"))
    if not recording.differences:
        return 0
    text = Text.assemble(("error: ", "bold red"), "replayed again, it does not come out the same")
    for difference in recording.differences:
        text.append(f"\n  {difference}")
    text.append("\n  do:  leave out of expect what changes from run to run")
    say(err(), text)
    return FAILED


def _refuse_other_options(option: str, others: Sequence[str]) -> None:
    if others:
        raise ConfigError(f"{option} and {others[0]}", why=f"{option} only prints a scenario", do="choose one of them")


def _load_all(files: Sequence[Path]) -> Iterator[LoadedScenario | Problem]:
    """Yields the scenarios of files, and of those in folders."""
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
    """Replays until Ctrl-C, with the options of the command line."""
    command = [argument for argument in sys.argv[1:] if argument != "--watch"]
    return replay_at_every_save(command, watched_folders(files, _load_all(files), topology))


class _Output(Protocol):
    """Shows results of scenarios."""

    def show(self, item: LoadedScenario, outcome: Outcome) -> None: ...

    def malformed(self) -> None:
        """Counts another scenario without a result, whose problem has been reported."""


@contextmanager
def _output(items: Sequence[LoadedScenario | Problem], *, as_json: bool, quiet: bool, draw: bool) -> Iterator[_Output]:
    if as_json:
        with only_json() as write:
            yield _JsonOutput(write)
        return
    number = sum(isinstance(item, LoadedScenario) for item in items)
    pictures = _TimelineOutput(out(), few=number <= DRAW_ALL_UP_TO, draw=draw or number <= DRAW_ALL_UP_TO, quiet=quiet)
    yield pictures
    pictures.end()


def _check_output_options(*, draw: bool, quiet: bool, as_json: bool) -> None:
    if draw and (quiet or as_json):
        other = "--quiet" if quiet else "--json"
        raise ConfigError(f"--draw and {other}", why=f"{other} draws nothing", do="choose one of them")


@dataclass
class _Report:
    """Report on scenarios, which are replayed and shown in the order of the files; keeps the worst exit status."""

    output: _Output
    debug: bool
    status: int = 0
    shown: list[tuple[LoadedScenario, Outcome]] = field(default_factory=list)
    """Replayed scenarios, for the files of pictures."""

    def all(self, items: Sequence[LoadedScenario | Problem], engine: Engine, topology: Graph | None) -> None:
        scenarios = [
            with_topology_path(item.scenario, item.place.path) for item in items if isinstance(item, LoadedScenario)
        ]
        outcomes: Iterator[Outcome]
        if engine is Engine.SPARK:
            outcomes = iter(answer_on_spark(scenarios, topology) if scenarios else [])
        else:
            outcomes = (answer_locally(scenario, topology) for scenario in scenarios)
        for item in items:
            if isinstance(item, Problem):
                self._problem(str(item))
            else:
                self._show_answer(item, next(outcomes))

    def _show_answer(self, item: LoadedScenario, outcome: Outcome) -> None:
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
class _JsonOutput:
    """Shows a JSON object for each result."""

    write: Callable[[Any], bool]

    def show(self, item: LoadedScenario, outcome: Outcome) -> None:
        self.write(outcome.answer.to_json())
        if outcome.answer.ok is False:
            _differences(err(), item, outcome)

    def malformed(self) -> None:
        return


def _differences(console: Console, item: LoadedScenario, outcome: Outcome) -> None:
    text = Text.assemble(("not as expected: ", "bold red"), f"{item.place} ({item.scenario.name})")
    for difference in outcome.answer.differences:
        text.append(f"\n  {difference}")
    say(console, text)


@dataclass
class _TimelineOutput:
    """Shows timelines of few scenarios; for many, a line each, and timelines of some failing ones."""

    console: Console
    few: bool
    draw: bool
    """True if all are drawn."""
    quiet: bool
    counts: dict[bool | None, int] = field(default_factory=lambda: {True: 0, False: 0, None: 0})
    unusable: int = 0
    left_out: int = 0
    """Number of failing scenarios that were not drawn."""

    def malformed(self) -> None:
        self.unusable += 1

    def show(self, item: LoadedScenario, outcome: Outcome) -> None:
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
        if not outcome.trace and (self.draw or (failed and self.counts[False] <= DRAWN_FAILURES)):
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
            words = f"{rest}not drawn, there are more than {DRAW_ALL_UP_TO} scenarios; --draw draws all"
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


def _verdict(item: LoadedScenario, outcome: Outcome) -> Text:
    words = {
        True: ("as expected", "bold green"),
        False: ("not as expected", "bold red"),
        None: ("nothing is expected of it", "dim"),
    }
    return Text.assemble(f"{item.place}: ", words[outcome.answer.ok])


# A scenario made from real input (``--record``): its rows as events, and their results as expectations.


MOST_ROWS = 10_000
"""Most events of a scenario, because people have to read it."""


@dataclass(frozen=True)
class RecordedScenario:
    """A scenario that was made from input."""

    text: str
    """The file as YAML text."""
    events: int
    unreadable: int
    """Number of unreadable rows, which are left out."""
    differences: tuple[str, ...]
    """Differences when the file is replayed; none if it holds as a test."""


def record_scenario(reference: str, topology: Graph, inputs: Sequence[str]) -> RecordedScenario:
    """Returns the scenario of a topology that reads these inputs, with their results as expectations.

    ``inputs``: folders, files or patterns; with several spouts each as ``spout=path``. A spout without an input reads
    its own files or rows. A watermark follows each batch, cut as in a run; then the streams end.

    Raises ConfigError for unusable inputs, and for more than 10,000 rows.
    """
    inputs_by_spout = _inputs_by_spout(topology, inputs)
    steps: list[dict[str, Any]] = []
    unreadable = number = 0
    batches_by_spout = [_batches(node, inputs_by_spout.get(name)) for name, node in topology.spouts.items()]
    for batch in zip_longest(*batches_by_spout, fillvalue=iter(())):
        for name, pieces in zip(topology.spouts, batch, strict=True):
            for table, bad in pieces:
                unreadable += bad
                number += table.num_rows
                _check_number(number)
                steps += [{"event": _event(row), "stream": name} for row in table.to_pylist()]
        steps.append({"tick": "watermark"})
    steps.append({"close": True})
    scenario: dict[str, Any] = {
        "name": f"what {topology.name} makes of its input",
        "topology": reference,
        "steps": steps,
    }
    answer = replay_locally(read_scenario(scenario), topology)
    text = _scenario_text(scenario, _expectations(answer), list(answer.without_ids))
    again = replay_locally(read_scenario(yaml.safe_load(text)), topology)
    return RecordedScenario(text, number, unreadable, tuple(again.differences))


def _inputs_by_spout(topology: Graph, inputs: Sequence[str]) -> dict[str, str]:
    """Returns the inputs by spout."""
    found: dict[str, str] = {}
    for given in inputs:
        name, sign, path = given.partition("=")
        if not sign and len(topology.spouts) == 1:
            name, path = next(iter(topology.spouts)), given
        if name not in topology.spouts:
            raise ConfigError(
                f"input {given!r}" + ("" if sign else " without a spout"),
                why=f"the spouts are {', '.join(topology.spouts)}{did_you_mean(name, topology.spouts) if sign else ''}",
                do=f"write {next(iter(topology.spouts))}={path or given}",
            )
        if name in found:
            raise ConfigError(f"two inputs for spout {name!r}", why="it reads one", do="give a folder or a pattern")
        found[name] = path
    return found


Pieces = Iterator[tuple[pa.Table, int]]
"""Rows, and the number of unreadable rows before them."""


def _batches(node: SpoutNode, path: str | None) -> Iterator[Pieces]:
    """Yields the rows of a spout, batch by batch."""
    if path is None and isinstance(node.spout, MemorySpout):
        yield from (iter([(table, 0)]) for table in node.spout.tables())
        return
    spout = _reader(node, path)
    found = spout.list_files()
    if not found:
        raise ConfigError(
            f"spout {node.name!r}: no file in {spout.path!r}", why="there is nothing to record", do="correct the path"
        )
    for batch in spout.cut(found):
        yield _pieces_of_files(node, spout, batch)


def _reader(node: SpoutNode, path: str | None) -> FileSpout:
    """Returns a file spout for a spout's input: with files at ``path``, if one is given, and the columns of the
    spout."""
    spout = node.spout
    if isinstance(spout, FileSpout):
        if spout.merge_by is not None:
            raise ConfigError(
                f"spout {node.name!r} with merge_by={spout.merge_by!r} cannot be recorded",
                why="its rows come in an order that a run makes",
                do="give a scenario's events by hand",
            )
        return spout if path is None else replace(spout, paths=(path,))
    if path is None:
        raise ConfigError(
            f"spout {node.name!r} reads no files",
            why="its rows come from elsewhere",
            do=f"give files: {node.name}=PATH",
        )
    return files(path, node.outputs[DEFAULT_STREAM])


def _pieces_of_files(node: SpoutNode, spout: FileSpout, batch: Sequence[FoundFile]) -> Pieces:
    schema = spout.row_schema(node.outputs[DEFAULT_STREAM])
    for file in batch:
        with as_unreachable_error(file.path):
            filesystem, path = locate_file(file.path)
            about = FileMetadata(filesystem, path, file.path, spout.metadata)
        optional = node.defaults.columns.keys()
        for table, numbers, bad in chunks_of(spout, filesystem, FileSplit(path), schema, optional=optional):
            yield about.with_metadata(table, numbers), len(bad)


def _check_number(rows: int) -> None:
    if rows > MOST_ROWS:
        raise ConfigError(
            f"more than {MOST_ROWS:,} rows to record",
            why="a scenario is a test that somebody reads",
            do="give fewer files, or a part of them",
        )


def _event(row: dict[str, Any]) -> dict[str, Any]:
    """Returns a row of the input as an event; missing values are null."""
    return {name: _value(value) for name, value in row.items() if value is not None}


def _row(row: dict[str, Any]) -> dict[str, Any]:
    return {name: _value(value) for name, value in row.items()}


def _value(value: Any) -> Any:
    """Returns a value in the form of scenario files, with times in ISO 8601."""
    match value:
        case datetime():
            return readable_time(from_datetime(value))
        case dict():
            return {str(key): _value(item) for key, item in value.items()}
        case list():
            return [_value(item) for item in value]
    return plain_json(value)


def _expectations(answer: ReplayResult) -> dict[str, Any]:
    """Turns a result into expectations: windows, late events, rows of sinks, and the accounts."""
    if answer.ok is False:
        raise ScenarioError(f"the input cannot be replayed: {'; '.join(answer.differences)}")
    found: dict[str, Any] = {"counts": {name: number for name, number in answer.counts.items() if number}}
    if None not in answer.late:
        found["late"] = answer.late
    windows = [_window(window) for window in answer.windows]
    if all(window.keys() - {"bolt", "step"} for window in windows):
        found["windows"] = windows
    return found | {"outputs": {sink: [_row(row) for row in rows] for sink, rows in answer.outputs.items()}}


def _window(window: AnswerWindow) -> dict[str, Any]:
    """Returns the values that identify a window, and its events if their ids are known."""
    shown: dict[str, Any] = {**window}
    known_by: tuple[str, ...] = ("bolt", "step", "key", "kind")
    named = {name: plain_json(shown[name]) for name in known_by if name in shown}
    times = {name: readable_time(shown[name]) for name in ("start", "end") if shown[name] is not None}
    ids = window["events"]
    return {**named, **times} if ids is None or None in ids else {**named, **times, "events": ids}


def _scenario_text(scenario: dict[str, Any], expect: dict[str, Any], without_ids: Sequence[str]) -> str:
    """Returns the text of the file: a line for each step, each window and each row; and a note on bolts whose events
    are unknown."""
    lines = [f"name: {_flow_yaml(scenario['name'])}", f"topology: {_flow_yaml(scenario['topology'])}", "steps:"]
    lines += [f"  - {_flow_yaml(step)}" for step in scenario["steps"]]
    lines.append("expect:")
    if without_ids:
        bolts = ", ".join(map(_flow_yaml, without_ids))
        lines.append(f"  # No column id reaches {bolts}: which events its windows held is not known.")
    lines.append(f"  counts: {_flow_yaml(expect['counts'])}")
    lines += [f"  late: {_flow_yaml(expect['late'])}"] if "late" in expect else []
    lines += _yaml_list("  windows", expect["windows"]) if "windows" in expect else []
    lines += ["  outputs:" + ("" if expect["outputs"] else " {}")]
    for sink, rows in expect["outputs"].items():
        lines += _yaml_list(f"    {_flow_yaml(sink)}", rows)
    return "\n".join(lines) + "\n"


def _yaml_list(name: str, items: Sequence[Any]) -> list[str]:
    indent = " " * (len(name) - len(name.lstrip()) + 2)
    return [f"{name}:", *(f"{indent}- {_flow_yaml(item)}" for item in items)] if items else [f"{name}: []"]


def _flow_yaml(value: Any) -> str:
    text = yaml.safe_dump(value, default_flow_style=True, width=float("inf"), allow_unicode=True, sort_keys=False)
    return str(text).removesuffix("\n").removesuffix("\n...")
