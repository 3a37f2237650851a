"""Errors of tasks on Spark's own scheduler, which reach the driver in the text of Java's error: they are written into
it here, and read from it here."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from functools import partial
from typing import Any

from topologies.engine.batch.context import Context
from topologies.engine.failures.forks import in_this_process
from topologies.engine.failures.task_failure import TaskFailure
from windowing.errors import WindboltError

_MARK = "windbolt-failure:"
_MARKED = re.compile(rf"{_MARK}([A-Za-z0-9+/=]+):")


class TaskFailed(Exception):
    """Raised in an executor: its text holds the failure, for the driver, and then in words, for the executor's log."""


def run_for_java(function: Callable[[Any, Context], Any], item: Any, context: Context | None) -> Any:
    """Run a task. Whatever it raises is raised as a TaskFailed, which ``failure_in`` finds in Java's text."""
    try:
        return in_this_process(partial(function, item, context))  # type: ignore[arg-type]
    except (Exception, SystemExit) as error:
        raise _raisable(TaskFailure.of(error, None if context is None else context.batch)) from None


def failure_in(text: str) -> WindboltError | None:
    """The error of the task that Java's text is about; None where it is about something else."""
    match = _MARKED.search(text)
    if match is None:
        return None
    try:
        return TaskFailure.from_json(base64.b64decode(match[1], validate=True).decode()).error()
    except (ValueError, TypeError, KeyError):  # the mark stands in somebody's data
        return None


def _raisable(failure: TaskFailure) -> TaskFailed:
    packed = base64.b64encode(failure.to_json().encode()).decode()
    return TaskFailed(f"{_MARK}{packed}: {failure.what}\n{failure.traceback}")
