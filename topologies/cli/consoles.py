"""The consoles of commands: results and progress go to standard output, errors with exit status to standard error."""

from __future__ import annotations

import io
import json
import os
import re
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer
from rich.console import Console
from rich.text import Text

from manager.remote import is_transient
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
from windowing.reprs import printable

# Lines of a description: where possible, none ends within a type such as ``array<struct<name: string>>``.


_NO_BREAK = "\ue000"
"""Private-use character that replaces a space where no line may end, while lines are made."""
_OPEN, _CLOSE = "<([", ">)]"
_TYPES = "string|long|int|short|byte|double|float|boolean|binary|timestamp|date|duration|decimal|array|struct|map"
_BEFORE_TYPE = re.compile(rf"(?<=\S) (?=(?:{_TYPES})(?:[,<(]|$))")
"""The space between a column and its type."""


def wrap_keeping_types(text: Text, console: Console, width: int) -> list[Text]:
    """Returns the lines of a text. No line ends within a column and its type, or within brackets, if these fit."""
    marked = Text(_with_fixed_spaces(text.plain, width), spans=list(text.spans))
    lines = list(marked.wrap(console, width))
    for line in lines:
        line.plain = line.plain.replace(_NO_BREAK, " ")
        line.rstrip()
    return lines


def _with_fixed_spaces(text: str, width: int) -> str:
    """Returns the text with marks for the spaces where no line may end; a part that is wider than a line gets no
    marks."""
    return " ".join(piece.replace(" ", _NO_BREAK) if len(piece) <= width else piece for piece in _pieces(text))


def _pieces(text: str) -> Iterator[str]:
    """Yields the pieces of a text between spaces at which a line may end. A line may not end within brackets or before
    a type."""
    depth = begin = 0
    before_types = {match.start() for match in _BEFORE_TYPE.finditer(text)}
    for place, letter in enumerate(text):
        depth = max(depth + (letter in _OPEN) - (letter in _CLOSE), 0)
        if letter == " " and not depth and place not in before_types:
            yield text[begin:place]
            begin = place + 1
    yield text[begin:]


# Outputs of commands: results and progress to standard output, everything else to standard error.


_BEGINNING = re.compile(r" *(?:(?:why|do): *|\d+\. |\S+(?: \S+)? {2,})?")
"""Matches the beginning of a line: its indent, and a word or number before the text proper."""
WIDTH = 120
"""Line width if there is no terminal and COLUMNS is not set."""


def out() -> Console:
    """Returns the console for results, on standard output."""
    return _console(sys.stdout)


def err() -> Console:
    """Returns the console for errors, warnings and remarks, on standard error."""
    return _console(sys.stderr)


def say(console: Console, text: Text, *, whole_types: bool = False, always: bool = False) -> None:
    """Prints text. A terminal wraps it between words, with continuation lines indented as the first; otherwise it is
    unchanged.

    ``whole_types``: if possible, lines do not end within a column and its type, nor within brackets. ``always``: wrap
    lines without a terminal too, to the width of the console.
    """
    if not console.is_terminal and not always:
        console.print(text, soft_wrap=True)
        return
    for line in text.split("\n", allow_blank=True):
        margin = len(_BEGINNING.match(line.plain)[0])  # type: ignore[index]  # matches everything
        margin = margin if margin < console.width // 2 else 0
        head, body = line.divide([margin])
        width = console.width - margin
        wrapped = wrap_keeping_types(body, console, width) if whole_types else body.wrap(console, width)
        for number, part in enumerate(wrapped or [Text()]):
            whole = Text.assemble(" " * margin if number else head, part)
            whole.rstrip()
            console.print(whole)


def warn(text: str, console: Console | None = None) -> None:
    """Prints a warning, by default to standard error."""
    say(console or err(), Text.assemble(("warning: ", "bold yellow"), printable(text)))


def remark(text: str) -> None:
    """Prints a remark that is not part of the results."""
    say(err(), Text(text))


@contextmanager
def survive_closed_output() -> Iterator[None]:
    """Lets a run continue when the reader of its output ends (``| head -1``, a log's pipe). The rest of the output is
    dropped; a warning says so if standard error is still read."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (_unbroken_stream(stream) for stream in before)
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(ValueError):  # already closed
                stream.flush()
        sys.stdout, sys.stderr = before


def _unbroken_stream(stream: TextIO) -> TextIO:
    """Returns a stream to the same place whose writes do not fail when its reader has ended."""
    try:
        stream.flush()
        number = stream.fileno()
    except (OSError, ValueError):
        number = -1
    if number not in (1, 2) or not isinstance(stream, io.TextIOWrapper):
        return stream  # replaced by a test or a program
    raw = _PipeOrNull(number, "wb", closefd=False)
    return io.TextIOWrapper(
        # Unbuffered if the stream is unbuffered, as with PYTHONUNBUFFERED.
        raw if stream.write_through else io.BufferedWriter(raw),
        stream.encoding,
        stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


class _PipeOrNull(io.FileIO):
    """Standard output or standard error; becomes the null device when its reader has ended."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self.fileno())
            os.close(null)
            if self.fileno() == 1:
                warn_reader_gone()
            return memoryview(data).nbytes


def warn_reader_gone() -> None:
    """Warns that standard output has no reader any more."""
    warn("nobody reads standard output any more; the run goes on, and what it would write there is dropped")


@contextmanager
def only_json() -> Iterator[Callable[[Any], bool]]:
    """Yields a function that prints a value as a line of JSON, and returns True if there still is a reader.

    All other output, by users' code or by processes that Spark starts, goes to standard error meanwhile.
    """
    with _reserved_standard_output() as file, redirect_stdout(sys.stderr):
        closed = False

        def write(value: Any) -> bool:
            nonlocal closed
            if not closed:
                try:
                    file.write(json.dumps(value, allow_nan=False) + "\n")
                    file.flush()
                except BrokenPipeError:
                    closed = True
            return not closed

        yield write


@contextmanager
def _reserved_standard_output() -> Iterator[TextIO]:
    """Reserves standard output: other writes to its descriptor go to standard error meanwhile."""
    real = sys.stdout
    real.flush()
    try:
        same = real.fileno() == 1 and sys.stderr.fileno() == 2
    except (OSError, ValueError):
        same = False
    if not same:  # replaced by a test or a program
        yield real
        return
    copy_of_stdout = os.dup(1)
    os.dup2(2, 1)
    file = os.fdopen(copy_of_stdout, "w", encoding="utf-8")
    try:
        yield file
    finally:
        os.dup2(copy_of_stdout, 1)
        try:
            file.close()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _console(file: TextIO) -> Console:
    wide = None if file.isatty() or "COLUMNS" in os.environ else WIDTH
    return Console(file=file, width=wide, highlight=False)


# Errors on the command line: what, why and what to do, and the exit status.


FAILED = 1
"""Exit status: something failed while running, or differs from the expectations."""
UNUSABLE = 2
"""Exit status: unusable input (an option, a topology, a checkpoint, a scenario), or a missing installation."""
TAKEN_OVER = 3
"""Exit status: the checkpoint now belongs to another run."""
TRANSIENT = os.EX_TEMPFAIL
"""Exit status (75, EX_TEMPFAIL of sysexits.h): a failure that may pass by itself, so that a retry may succeed."""

_UNUSABLE = (ConfigError, TopologyError, ScenarioError, CheckpointError, EnvironmentMissing)

Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]


@contextmanager
def readable_errors(*, debug: bool, restart: bool | None = None) -> Iterator[None]:
    """Prints windbolt's errors and exits with their status. Other exceptions are defects and keep their traceback; in a
    run they may be transient, and then the process exits with the status of transient failures.

    ``restart``: True if the run may be restarted automatically, None for commands without a run. The exit status is
    printed if a user may have to restart the run, or must not.
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
            text.append("\n  exit:", "cyan").append(f" {status}, {_STATUSES_IN_WORDS[status]}", "not bold default")
        say(console, text)
        raise typer.Exit(status) from error
    except Exception as error:
        if restart is None or isinstance(error, BrokenPipeError) or not is_transient(error):
            raise
        traceback.print_exception(error)
        say(err(), Text("  exit:", "cyan").append(f" {TRANSIENT}, {_STATUSES_IN_WORDS[TRANSIENT]}", "not bold default"))
        raise typer.Exit(TRANSIENT) from error


def exit_status(error: WindboltError) -> int:
    """Returns the exit status of a command that ends with this error."""
    if isinstance(error, TakenOver):
        return TAKEN_OVER
    if error.transient:
        return TRANSIENT
    return UNUSABLE if isinstance(error, _UNUSABLE) else FAILED


_STATUSES_IN_WORDS = {
    FAILED: "failed: a restart alone does not help",
    UNUSABLE: "refused: a restart alone does not help",
    TAKEN_OVER: "taken over by another run: to be left to that",
    TRANSIENT: "may pass by itself: start it again, or use --restart",
}


_HOME = Path(__file__).parents[2]
_WINDBOLTS_OWN = (
    *(f"{_HOME / each}/" for each in ("windbolt", "windowing", "policies", "manager", "topologies")),
    f"{sysconfig.get_path('stdlib')}/",
    "<",
)
_EXAMPLES = f"{_HOME / 'topologies/examples'}/"
"""Folder of the examples, whose code counts as users' code."""


def users_line(error: BaseException) -> Text:
    """Returns the line of the user's code that gave a wrong value, as an addition to the error; empty if there is no
    such line."""
    if isinstance(error, TopologyError) or not isinstance(error, ConfigError | SchemaError):
        return Text()
    for raised in (error, error.__cause__):
        frames = traceback.extract_tb(None if raised is None else raised.__traceback__)
        users_frames = [frame for frame in frames if _is_users(frame.filename)]
        if users_frames:
            last = users_frames[-1]
            text = Text("\n  at:  ", "cyan").append(
                f"{_relative_path(last.filename)}, line {last.lineno}", "not bold default"
            )
            return text.append(printable(f": {last.line}") if last.line else "", "not bold default")
    return Text()


def _is_users(filename: str) -> bool:
    if filename.startswith(_EXAMPLES):
        return True
    return "site-packages" not in filename and not filename.startswith(_WINDBOLTS_OWN)


def _relative_path(filename: str) -> str:
    path = Path(filename)
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def in_words(error: WindboltError, title: str = "error", style: str = "bold red") -> Text:
    """Returns an error as text of several lines: what, why, do."""
    text = Text(f"{title}: ", style)
    if isinstance(error, TopologyError):
        problems = "1 problem" if len(error.problems) == 1 else f"{len(error.problems)} problems"
        text.append(f"topology {error.topology!r} cannot be built, {problems}", "bold")
        for number, problem in enumerate(error.problems, 1):
            text.append(f"\n{number:>3}. ", "bold red").append(_error_parts(problem, " " * 5))
        return text
    return text.append(_error_parts(error, "  "))


def _error_parts(error: WindboltError, indent: str) -> Text:
    text = Text(printable(error.what, keep="\n\t"), "not bold default")
    for word, part in (("why", error.why), ("do", error.do)):
        if part:
            text.append(f"\n{indent}{word + ':':<5}", "cyan").append(printable(part, keep="\n\t"), "not bold default")
    return text
