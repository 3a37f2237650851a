"""Errors of users' code: the bolt, the input and the batch that failed, and how such an error travels between
processes."""

from __future__ import annotations

import base64
import json
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from manager.storage.trouble import UNREADABLE
from topologies.engine.batch.forks import in_this_process
from topologies.engine.batch.plan import Context
from windowing import errors
from windowing.errors import BoltError, WindboltError
from windowing.printable import cut, printable, told

_MARK = "windbolt-failure:"
_LONGEST = 10_000
"""Maximum length, in characters, of each part of an error that is sent to the driver."""
_HOME = __file__.rsplit("/", 4)[0]
_OWN_FOLDERS = tuple(f"{_HOME}/{folder}/" for folder in ("windowing", "policies", "manager", "topologies/engine"))


@contextmanager
def bolt_failure(bolt: str, batch: int, where: str | Callable[[], str]) -> Iterator[None]:
    """Turn an exception of a user's bolt into a BoltError that says where it happened. A CheckpointError passes
    unchanged.

    ``where`` is the place as text, or a function that is called for it after a failure.
    """
    try:
        yield
    except (BoltError, *UNREADABLE):
        raise
    except (Exception, SystemExit) as error:  # else sys.exit() would end a run as if it had succeeded
        raise failed(bolt, batch, where() if callable(where) else where, error) from error


def failed(bolt: str, batch: int, where: str, error: BaseException) -> BoltError:
    """The BoltError for an exception of a user's bolt."""
    return BoltError(
        f"bolt {bolt!r} failed {where}, in batch {batch}",
        why=_cause(error),
        do=f"fix it and run again: batch {batch} was not committed, and comes again",
    )


def run_encoding_errors(function: Callable[[Any, Context], Any], item: Any, context: Context) -> Any:
    """Run a task. A WindboltError is raised again as a RuntimeError whose text ``decode_error`` can read, also from
    Spark's."""
    try:
        return in_this_process(partial(function, item, context))
    except WindboltError as error:
        fields = {"what": cut(error.what, _LONGEST), "why": cut(error.why, _LONGEST), "do": cut(error.do, _LONGEST)}
        packed = base64.b64encode(json.dumps({"type": type(error).__name__, **fields}).encode()).decode()
        # The cause is dropped if its message is too long to be sent.
        cause = error if all(_is_tellable(link) for link in _chain(error)) else None
        raise RuntimeError(f"{_MARK}{packed}: {fields['what']}") from cause


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """An exception and the chain of its causes."""
    seen = set[int]()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _is_tellable(error: BaseException) -> bool:
    try:
        text = str(error)
    except BaseException:
        return True  # Python prints a placeholder for it
    return len(text) <= _LONGEST and printable(text, keep="\n\t\r") == text


def decode_error(text: str) -> WindboltError | None:
    """The error that ``run_encoding_errors`` encoded somewhere in a text; None where there is none."""
    start = text.find(_MARK)
    if start < 0:
        return None
    fields = json.loads(base64.b64decode(text[start + len(_MARK) :].split(":", 1)[0].split("\n", 1)[0]))
    error_type = getattr(errors, fields["type"], WindboltError)
    if error_type is errors.TopologyError or not issubclass(error_type, WindboltError):
        error_type = WindboltError
    return error_type(fields["what"], why=fields["why"], do=fields["do"])


def _cause(error: BaseException) -> str:
    """The exception with the line of the user's code that raised it: the innermost frame outside windbolt and its
    libraries."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not _is_library(frame.filename)]
    place = f" at {own[-1].filename}:{own[-1].lineno}, in {own[-1].name}" if own else ""
    return f"{told(error)}{place}"


def _is_library(filename: str) -> bool:
    return "site-packages" in filename or filename.startswith(_OWN_FOLDERS)
