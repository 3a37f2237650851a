"""Errors on the command line: what, why and what to do, and the exit status."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.text import Text

from topologies.cli.consoles import err, say
from windowing.data.printable import printable
from windowing.errors import (
    CheckpointError,
    ConfigError,
    EnvironmentMissing,
    ScenarioError,
    TopologyError,
    WindboltError,
)

FAILED = 1
"""Exit status: something failed while running, or differs from what was expected."""
UNUSABLE = 2
"""Exit status: unusable input (an option, a topology, a checkpoint, a scenario), or something is not installed."""

_UNUSABLE = (ConfigError, TopologyError, ScenarioError, CheckpointError, EnvironmentMissing)

Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]


@contextmanager
def readable_errors(*, debug: bool) -> Iterator[None]:
    """Print windbolt's errors and exit with their status; other exceptions are defects, and keep their traceback."""
    try:
        yield
    except WindboltError as error:
        console = err()
        if debug:
            console.print_exception(width=None)
        say(console, in_words(error))
        raise typer.Exit(UNUSABLE if isinstance(error, _UNUSABLE) else FAILED) from error


def in_words(error: WindboltError, title: str = "error", style: str = "bold red") -> Text:
    """An error as text of several lines: what, why, do."""
    text = Text(f"{title}: ", style)
    if isinstance(error, TopologyError):
        problems = "1 problem" if len(error.problems) == 1 else f"{len(error.problems)} problems"
        text.append(f"topology {error.topology!r} cannot be built, {problems}", "bold")
        for number, problem in enumerate(error.problems, 1):
            text.append(f"\n{number:>3}. ", "bold red").append(_parts(problem, " " * 5))
        return text
    return text.append(_parts(error, "  "))


def _parts(error: WindboltError, indent: str) -> Text:
    text = Text(printable(error.what, keep="\n\t"), "not bold default")
    for word, part in (("why", error.why), ("do", error.do)):
        if part:
            text.append(f"\n{indent}{word + ':':<5}", "cyan").append(printable(part, keep="\n\t"), "not bold default")
    return text
