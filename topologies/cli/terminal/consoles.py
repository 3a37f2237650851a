"""Where commands write: results and progress to standard output, everything else to standard error."""

from __future__ import annotations

import io
import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from typing import Any, TextIO

from rich.console import Console
from rich.text import Text

from topologies.cli.terminal.wrapping import wrap_whole
from windowing.data.printable import printable

_BEGINNING = re.compile(r" *(?:(?:why|do): *|\d+\. |\S+(?: \S+)? {2,})?")
"""What stands before the text of a line: its indent, and the word or number of what follows."""
WIDTH = 120
"""Line width where there is no terminal and COLUMNS is not set."""


def out() -> Console:
    """The console for results, on standard output."""
    return _console(sys.stdout)


def err() -> Console:
    """The console for errors, warnings and remarks, on standard error."""
    return _console(sys.stderr)


def say(console: Console, text: Text, *, whole_types: bool = False, always: bool = False) -> None:
    """Print text: in a terminal wrapped between words, each line as far in as it begins; else as it is.

    ``whole_types``: lines are not wrapped within a column and its type, nor within brackets, where these fit.
    ``always``: wrap lines elsewhere too, to the width of the console.
    """
    if not console.is_terminal and not always:
        console.print(text, soft_wrap=True)
        return
    for line in text.split("\n", allow_blank=True):
        margin = len(_BEGINNING.match(line.plain)[0])  # type: ignore[index]  # matches everything
        margin = margin if margin < console.width // 2 else 0
        head, body = line.divide([margin])
        width = console.width - margin
        wrapped = wrap_whole(body, console, width) if whole_types else body.wrap(console, width)
        for number, part in enumerate(wrapped or [Text()]):
            whole = Text.assemble(" " * margin if number else head, part)
            whole.rstrip()
            console.print(whole)


def warn(text: str, console: Console | None = None) -> None:
    """Print a warning, to standard error where no console is given."""
    say(console or err(), Text.assemble(("warning: ", "bold yellow"), printable(text)))


def remark(text: str) -> None:
    """Print a remark that is not part of the results."""
    say(err(), Text(text))


@contextmanager
def outliving_readers() -> Iterator[None]:
    """Let a run go on when the reader of its output ends (``| head -1``, a log's pipe): the rest is dropped, and a
    warning says so if standard error is still read."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (_outliving(stream) for stream in before)
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(ValueError):  # closed by somebody
                stream.flush()
        sys.stdout, sys.stderr = before


def _outliving(stream: TextIO) -> TextIO:
    """A stream to the same place whose writes do not fail when its reader has ended."""
    try:
        stream.flush()
        number = stream.fileno()
    except (OSError, ValueError):
        number = -1
    if number not in (1, 2) or not isinstance(stream, io.TextIOWrapper):
        return stream  # a test, or a program, has replaced it
    raw = _UnreadPipe(number, "wb", closefd=False)
    return io.TextIOWrapper(
        # Nothing is buffered where the stream itself buffers nothing, as PYTHONUNBUFFERED asks.
        raw if stream.write_through else io.BufferedWriter(raw),
        stream.encoding,
        stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


class _UnreadPipe(io.FileIO):
    """Standard output or standard error, which becomes the null device when nobody reads it any more."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self.fileno())
            os.close(null)
            if self.fileno() == 1:
                warn_unread()
            return memoryview(data).nbytes


def warn_unread() -> None:
    """Say that nobody reads standard output any more."""
    warn("nobody reads standard output any more; the run goes on, and what it would write there is dropped")


@contextmanager
def only_json() -> Iterator[Callable[[Any], bool]]:
    """Yield a function that prints a value as a line of JSON, and returns whether anybody still reads.

    All other output meanwhile, by users' code or by processes that Spark starts, goes to standard error.
    """
    with _standard_output_kept() as file, redirect_stdout(sys.stderr):
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
def _standard_output_kept() -> Iterator[TextIO]:
    """Reserve standard output: other writes to its descriptor go to standard error meanwhile."""
    real = sys.stdout
    real.flush()
    try:
        same = real.fileno() == 1 and sys.stderr.fileno() == 2
    except (OSError, ValueError):
        same = False
    if not same:  # a test, or a program, has replaced them
        yield real
        return
    ours = os.dup(1)
    os.dup2(2, 1)
    file = os.fdopen(ours, "w", encoding="utf-8")
    try:
        yield file
    finally:
        os.dup2(ours, 1)
        try:
            file.close()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _console(file: TextIO) -> Console:
    wide = None if file.isatty() or "COLUMNS" in os.environ else WIDTH
    return Console(file=file, width=wide, highlight=False)
