"""Errors of users' code: the bolt, the input and the batch that failed."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from manager.storage.storage_errors import UNREADABLE
from windowing.data.printable import told
from windowing.errors import BoltError

_HOME = __file__.rsplit("/", 4)[0]
_OWN_FOLDERS = tuple(f"{_HOME}/{folder}/" for folder in ("windowing", "policies", "manager", "topologies/engine"))


@contextmanager
def bolt_failure(bolt: str, batch: int, where: str | Callable[[], str], *, task: int | None = None) -> Iterator[None]:
    """Turn an exception of a user's bolt into a BoltError that says where it happened. A CheckpointError passes
    unchanged.

    ``where`` is the place as text, or a function that is called for it after a failure.
    """
    try:
        yield
    except (BoltError, *UNREADABLE):
        raise
    except (Exception, SystemExit) as error:  # else sys.exit() would end a run as if it had succeeded
        raise failed(bolt, batch, where() if callable(where) else where, error, task=task) from error


def failed(bolt: str, batch: int, where: str, error: BaseException, *, task: int | None = None) -> BoltError:
    """The BoltError for an exception of a user's bolt."""
    return BoltError(
        f"bolt {bolt!r} failed {where}, in batch {batch}",
        why=_cause(error),
        do=f"fix it and rerun: batch {batch} was not committed, and runs again",
        bolt=bolt,
        task=task,
    )


def _cause(error: BaseException) -> str:
    """The exception with the line of the user's code that raised it: the innermost frame outside windbolt and its
    libraries."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not _is_library(frame.filename)]
    place = f" at {own[-1].filename}:{own[-1].lineno}, in {own[-1].name}" if own else ""
    return f"{told(error)}{place}"


def _is_library(filename: str) -> bool:
    compiled = filename.endswith((".pxi", ".pyx"))
    return compiled or "site-packages" in filename or filename.startswith(_OWN_FOLDERS)
