"""Errors of users' code: which bolt, on what, in which batch; and how they come back from another process."""

from __future__ import annotations

import base64
import json
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from topologies.engine.batch.forks import in_this_process
from topologies.engine.batch.plan import Context
from windowing import errors
from windowing.errors import BoltError, CheckpointError, WindboltError
from windowing.printable import cut, printable, told

_MARK = "windbolt-failure:"
_LONGEST = 10_000
"""Characters that each part of an error may have on its way to the driver."""
_HOME = __file__.rsplit("/", 4)[0]
_OWN_FOLDERS = tuple(f"{_HOME}/{folder}/" for folder in ("windowing", "policies", "manager", "topologies/engine"))


@contextmanager
def bolt_failure(bolt: str, batch: int, where: str | Callable[[], str]) -> Iterator[None]:
    """Turn an exception of a user's bolt into a BoltError that says where it happened; a checkpoint is none of its."""
    try:
        yield
    except (BoltError, CheckpointError):
        raise
    except (Exception, SystemExit) as error:  # or sys.exit() would end a run as if all were done
        raise failed(bolt, batch, where() if callable(where) else where, error) from error


def failed(bolt: str, batch: int, where: str, error: BaseException) -> BoltError:
    """The BoltError that says what happened, and where."""
    return BoltError(
        f"bolt {bolt!r} failed {where}, in batch {batch}",
        why=_cause(error),
        do=f"fix it and run again: batch {batch} was not committed, and comes again",
    )


def run_encoding_errors(function: Callable[[Any, Context], Any], item: Any, context: Context) -> Any:
    """Run a task; its error, should there be one, is written so that ``decode_error`` can read it from Spark's text."""
    try:
        return in_this_process(partial(function, item, context))
    except WindboltError as error:
        fields = {"what": cut(error.what, _LONGEST), "why": cut(error.why, _LONGEST), "do": cut(error.do, _LONGEST)}
        packed = base64.b64encode(json.dumps({"type": type(error).__name__, **fields}).encode()).decode()
        # Without its cause where that has a message too long to be run_encoding_errors about.
        cause = error if all(_is_tellable(link) for link in _chain(error)) else None
        raise RuntimeError(f"{_MARK}{packed}: {fields['what']}") from cause


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """An error, and what led to it."""
    seen = set[int]()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _is_tellable(error: BaseException) -> bool:
    try:
        text = str(error)
    except BaseException:
        return True  # Python itself says that it cannot
    return len(text) <= _LONGEST and printable(text, keep="\n\t\r") == text


def decode_error(text: str) -> WindboltError | None:
    """The error of a task that Spark reports somewhere in a long text."""
    start = text.find(_MARK)
    if start < 0:
        return None
    fields = json.loads(base64.b64decode(text[start + len(_MARK) :].split(":", 1)[0].split("\n", 1)[0]))
    error_type = getattr(errors, fields["type"], WindboltError)
    if error_type is errors.TopologyError or not issubclass(error_type, WindboltError):
        error_type = WindboltError
    return error_type(fields["what"], why=fields["why"], do=fields["do"])


def _cause(error: BaseException) -> str:
    """The exception, and the line of the user's code it came from: the innermost outside windbolt and its libraries."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not _is_library(frame.filename)]
    place = f" at {own[-1].filename}:{own[-1].lineno}, in {own[-1].name}" if own else ""
    return f"{told(error)}{place}"


def _is_library(filename: str) -> bool:
    return "site-packages" in filename or filename.startswith(_OWN_FOLDERS)
