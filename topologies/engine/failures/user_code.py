"""Errors of users' code: the bolt, the input and the batch that failed."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from manager.outside.transient import is_transient
from manager.storage.file_systems.storage_errors import UNREADABLE
from windowing.data.printable import error_text
from windowing.errors import BoltError
from windowing.suggestions import did_you_mean_column

_NO_FIELD = re.compile(r'Field "(.*)" does not exist in schema')
"""What Arrow says of a column that a table lacks."""
FIX = "fix it and rerun"
SMALLER = (
    "if memory was short, shorten the window, give it a key, or name the columns that it needs (reads); "
    "with_limits(window_bytes=) ends a run before that"
)
"""What to do where a bolt may have had too little memory for a window."""
_HOME = __file__.rsplit("/", 4)[0]
_OWN_FOLDERS = tuple(f"{_HOME}/{folder}/" for folder in ("windowing", "policies", "manager", "topologies/engine"))


@contextmanager
def bolt_failure(
    bolt: str, batch: int, where: str | Callable[[], str], *, task: int | None = None, columns: Sequence[str] = ()
) -> Iterator[None]:
    """Turn an exception of a user's bolt into a BoltError that says where it happened. A CheckpointError passes
    unchanged.

    ``where`` is the place as text, or a function that is called for it after a failure. ``columns`` are those that the
    bolt reads: one of them may be meant by a key that there is not.
    """
    try:
        yield
    except (BoltError, *UNREADABLE):
        raise
    except (Exception, SystemExit) as error:  # else sys.exit() would end a run as if it had succeeded
        raise failed(bolt, batch, where() if callable(where) else where, error, task=task, columns=columns) from error


def failed(
    bolt: str,
    batch: int,
    where: str,
    error: BaseException,
    *,
    task: int | None = None,
    columns: Sequence[str] = (),
    of_window: bool = False,
) -> BoltError:
    """The BoltError for an exception of a user's bolt, which reads these columns. ``of_window``: it was called with a
    window."""
    do = SMALLER if of_window and isinstance(error, MemoryError) else FIX
    return BoltError(
        f"bolt {bolt!r} failed {where}, in batch {batch}",
        why=cause(error, columns),
        do=f"{do}: batch {batch} was not committed, and runs again",
        bolt=bolt,
        task=task,
        transient=is_transient(error),
    )


def cause(error: BaseException, columns: Sequence[str]) -> str:
    """The exception with the line of the user's code that raised it."""
    return f"{error_text(error)}{_meant(error, columns)}{line_of(error)}"


def line_of(error: BaseException) -> str:
    """Where in the user's code an exception was raised, as `` at FILE:LINE, in FUNCTION``: the innermost frame outside
    windbolt and its libraries. Empty where there is none."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not _is_library(frame.filename)]
    return f" at {own[-1].filename}:{own[-1].lineno}, in {own[-1].name}" if own else ""


def _meant(error: BaseException, columns: Sequence[str]) -> str:
    """The column that may be meant by a key that there is not: of an Arrow table, a DataFrame or an event."""
    key = error.args[0] if isinstance(error, KeyError) and error.args else None
    if not isinstance(key, str):
        return ""
    of_arrow = _NO_FIELD.fullmatch(key)
    meant = did_you_mean_column(of_arrow[1] if of_arrow else key, columns)
    return f"{meant} (there are {', '.join(columns)})" if columns and (meant or of_arrow) else ""


def _is_library(filename: str) -> bool:
    compiled = filename.endswith((".pxi", ".pyx"))
    imported = filename.startswith("<frozen ")
    return compiled or imported or "site-packages" in filename or filename.startswith(_OWN_FOLDERS)
