"""Errors on the command line: what, why and what to do, and the exit status."""

from __future__ import annotations

import os
import sysconfig
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from manager.outside.transient import is_transient
from topologies.cli.terminal.consoles import err, say
from windowing.data.printable import printable
from windowing.errors import (
    CheckpointError,
    ConfigError,
    EnvironmentMissing,
    ScenarioError,
    SchemaError,
    TakenOver,
    TopologyError,
    WindboltError,
)

FAILED = 1
"""Exit status: something failed while running, or differs from what was expected."""
UNUSABLE = 2
"""Exit status: unusable input (an option, a topology, a checkpoint, a scenario), or something is not installed."""
TAKEN_OVER = 3
"""Exit status: the checkpoint belongs to another run by now."""
TRANSIENT = os.EX_TEMPFAIL
"""Exit status (75, EX_TEMPFAIL of sysexits.h): a failure that may pass by itself, so the same may succeed later."""

_UNUSABLE = (ConfigError, TopologyError, ScenarioError, CheckpointError, EnvironmentMissing)

Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]


@contextmanager
def readable_errors(*, debug: bool, restart: bool | None = None) -> Iterator[None]:
    """Print windbolt's errors and exit with their status; other exceptions keep their traceback. They are defects; in a
    run they may be of a kind that passes, and then have its status.

    ``restart``: whether a run may be started again by itself, None for what is not a run. The exit status is told where
    somebody may have to start it again, or must not.
    """
    try:
        yield
    except WindboltError as error:
        console = err()
        if debug:
            console.print_exception(width=None)
        status = exit_status(error)
        text = in_words(error).append(users_line(error))
        if restart or (restart is not None and status in (TAKEN_OVER, TRANSIENT)):
            text.append("\n  exit:", "cyan").append(f" {status}, {_STATUSES[status]}", "not bold default")
        say(console, text)
        raise typer.Exit(status) from error
    except Exception as error:
        if restart is None or isinstance(error, BrokenPipeError) or not is_transient(error):
            raise
        traceback.print_exception(error)
        say(err(), Text("  exit:", "cyan").append(f" {TRANSIENT}, {_STATUSES[TRANSIENT]}", "not bold default"))
        raise typer.Exit(TRANSIENT) from error


def exit_status(error: WindboltError) -> int:
    """The exit status of a command that ends with this error."""
    if isinstance(error, TakenOver):
        return TAKEN_OVER
    if error.transient:
        return TRANSIENT
    return UNUSABLE if isinstance(error, _UNUSABLE) else FAILED


_STATUSES = {
    FAILED: "failed: a restart alone does not help",
    UNUSABLE: "refused: a restart alone does not help",
    TAKEN_OVER: "taken over by another run: to be left to that",
    TRANSIENT: "may pass by itself: start it again, or use --restart",
}


_HOME = Path(__file__).parents[3]
_NOT_THE_USERS = (
    *(f"{_HOME / each}/" for each in ("windbolt", "windowing", "policies", "manager", "topologies")),
    f"{sysconfig.get_path('stdlib')}/",
    "<",
)
_EXAMPLES = f"{_HOME / 'topologies/examples'}/"
"""Written as users write."""


def users_line(error: BaseException) -> Text:
    """Where in the user's own code a wrong value was given, as a line to follow the error; empty where it was not."""
    if isinstance(error, TopologyError) or not isinstance(error, ConfigError | SchemaError):
        return Text()
    for raised in (error, error.__cause__):
        frames = traceback.extract_tb(None if raised is None else raised.__traceback__)
        own = [frame for frame in frames if _is_users(frame.filename)]
        if own:
            last = own[-1]
            text = Text("\n  at:  ", "cyan").append(f"{_shown(last.filename)}, line {last.lineno}", "not bold default")
            return text.append(printable(f": {last.line}") if last.line else "", "not bold default")
    return Text()


def _is_users(filename: str) -> bool:
    if filename.startswith(_EXAMPLES):
        return True
    return "site-packages" not in filename and not filename.startswith(_NOT_THE_USERS)


def _shown(filename: str) -> str:
    path = Path(filename)
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


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
