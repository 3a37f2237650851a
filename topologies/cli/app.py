"""The command ``windbolt``, and ``windbolt new``: a small project that runs, tests and type-checks as it is."""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text
from typer.core import TyperCommand

from topologies.cli.checkpoint_commands import checkpoint, rescale, reset, savepoint, state, ui, why
from topologies.cli.consoles import Debug, out, readable_errors, say
from topologies.cli.demo import demo
from topologies.cli.replay import replay
from topologies.cli.run import check, describe, run
from topologies.run.options import PAGE_PORT
from windowing.errors import ConfigError

TEMPLATES = Path(__file__).with_name("project")


class Example(StrEnum):
    """Example that a new project contains."""

    WINDOWS = "windows"
    JOIN = "join"


_OF_ALL = {
    "pyproject.toml": "pyproject.toml",
    "requirements.txt": "requirements.txt",
    ".gitignore": "gitignore",
    ".github/workflows/tests.yml": "tests.yml",
}
_OF_EACH = {
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
FILES = {example: {**{path: f"{example.value}/{path}" for path in _OF_EACH[example]}, **_OF_ALL} for example in Example}
"""The files of a new project, and the template of each, by example."""

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
    """Make a project in a folder that does not exist, or is empty; its name becomes that of the topology.

    Raises ConfigError for a name that no topology can have, a folder that holds something, or one that cannot be made.
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
        for path, template in FILES[example].items():
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
    """Returns the words of a command with a port behind each ``--ui`` that has none: it may stand alone."""
    following = [*args, ""][1:]
    return [
        word
        for given, after in zip(args, following, strict=True)
        for word in ([given, str(PAGE_PORT)] if given == "--ui" and not _ADDRESS.fullmatch(after) else [given])
    ]


class Command(TyperCommand):
    """A command that takes each option once: of two values the last would silently win."""

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
    """Run the command; called by the ``windbolt`` script."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a character that the terminal lacks is no reason to fail
    app(prog_name="windbolt")


if __name__ == "__main__":
    main()
