"""Readable errors of Spark, its tasks, Kafka and its connector."""

from __future__ import annotations

import base64
import errno
import os
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from pyspark.errors import PySparkException

from manager.remote import is_transient_in_java
from manager.storage.files import remedy
from topologies.engine.batch import Context
from topologies.engine.failures import TaskFailure, in_this_process
from topologies.engine.kafka_records import deleted_unread, ends_earlier, no_answer, no_topic, not_delivered, too_large
from windowing.errors import USER_EXCEPTIONS, DataError, StorageError, UnreachableError, WindboltError

# Spark's own errors.


FROM_SPARK: tuple[type[Exception], ...] = (PySparkException,)
"""Python exceptions for errors of Spark."""
FROM_JAVA: tuple[type[Exception], ...] = ()
"""Exceptions of a failed call to Java; a client of Spark Connect alone has no Java."""
with suppress(ImportError):
    from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]

    FROM_SPARK, FROM_JAVA = (Py4JJavaError, PySparkException), (Py4JError,)


# Errors of tasks on Spark's scheduler reach the driver in the text of a Java error. Functions here write them into it,
# and read them from it.


_MARK = "windbolt-failure:"
_MARKED = re.compile(rf"{_MARK}([A-Za-z0-9+/=]+):")


class TaskFailed(Exception):
    """Raised in an executor. Its text contains the failure, for the driver, and its words, for the executor's log."""


def run_for_java(function: Callable[[Any, Context], Any], item: Any, context: Context | None) -> Any:
    """Runs a task. Turns every exception into a TaskFailed, which ``failure_in`` finds in Java's text."""
    try:
        return in_this_process(partial(function, item, context))  # type: ignore[arg-type]
    except USER_EXCEPTIONS as error:
        raise _as_task_failed(TaskFailure.of(error, None if context is None else context.batch)) from None


def failure_in(text: str, localize: Callable[[str], str] = str) -> WindboltError | None:
    """Returns the error of the task in Java's text; None if the text is about another error. ``localize``: replaces
    places in the error by places on this machine."""
    match = _MARKED.search(text)
    if match is None:
        return None
    try:
        failure = TaskFailure.from_json(base64.b64decode(match[1], validate=True).decode())
        what, why, do = localize(failure.what), localize(failure.why), localize(failure.do)
        return replace(failure, what=what, why=why, do=do, traceback=localize(failure.traceback)).error()
    except (ValueError, TypeError, KeyError):  # the mark is part of somebody's data
        return None


def _as_task_failed(failure: TaskFailure) -> TaskFailed:
    packed = base64.b64encode(failure.to_json().encode()).decode()
    words = f"{failure.what}\n{failure.traceback}".encode(errors="backslashreplace").decode()
    # Spark writes the text as UTF-8. Half a character would make it fail within its answer, so that Java waits for
    # ever.
    return TaskFailed(f"{_MARK}{packed}: {words}")


# Readable errors of Kafka, its connector, and Spark's own files.


_TIMEOUT = re.compile(r"(?:kafka\.common\.errors\.\w*Timeout\w*|TimeoutException|KAFKA_\w*TIMEOUT\w*): ?([^\n]*)")
_LOST = re.compile(r"\[KAFKA_DATA_LOSS[^\]]*\] ?([^\n]*)|([^\n]*may have been lost[^\n]*)")
_MOVED = re.compile(r"Partition \S+ offset was changed from \d+ to \d+")
_TOO_LARGE = re.compile(r"Record(?:Batch)?TooLarge\w*: ?([^\n]*)")
_DISK_ERRORS = {
    os.strerror(number): number
    for number in (
        errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EACCES, errno.EROFS, errno.EIO, errno.EMFILE, errno.ENFILE,
        errno.ESTALE,
    )
}  # fmt: skip
"""Texts of system errors about files, which Java passes on unchanged, and their numbers."""
_DISK_ERROR = re.compile(rf"^(?!.*\[Errno)[^\n]*\b({'|'.join(map(re.escape, _DISK_ERRORS))})\b[^\n]*", re.MULTILINE)
"""Matches Java's errors only: Python's contain a number, and may be about a user's file."""
_LONGEST = 500
"""Most characters of a line from Java that are passed on."""
_TIMESTAMP = re.compile(
    r"[^\n]*timestamp value -?\d+ that overflows[^\n]*"
    r"|[^\n]*ArithmeticException: long overflow(?=(?:\n\s+at [^\n]*)*?\n\s+at [^\n]*KafkaRecordToRowConverter)"
)
"""Spark's error text for a record with a timestamp out of range in microseconds, in 4.2 and earlier versions."""
_NO_TOPIC = re.compile(r"(UnknownTopicOrPartition\w*): ?([^\n]*)")


class TimestampError(DataError):
    """A record with a timestamp that Spark cannot read, so that Spark reads nothing of its batch."""


def unreachable(whose: str, servers: str, message: str) -> WindboltError:
    """Returns the error for servers that do not respond, or not as expected, from Java's text."""
    why = message.strip().split("\n", 1)[0].rsplit("Exception: ", 1)[-1]
    return no_answer(whose, servers, why, transient=is_transient_in_java(message))


def storage_error_in(text: str) -> StorageError | None:
    """Returns the error about one of Spark's own files from its long text; None if there is none."""
    match = _DISK_ERROR.search(text)
    if match is None:
        return None
    why = match[0].strip().rsplit("Exception: ", 1)[-1]
    do = f"{remedy(_DISK_ERRORS[match[1]])}, then rerun"
    return StorageError("Spark cannot write or read a file of its own", why=why, do=do)


def passing_error_in(text: str) -> UnreachableError | None:
    """Returns the error about a lost server or executor from Spark's long text; None if no error in it may pass by
    itself."""
    line = next((line for line in text.splitlines() if is_transient_in_java(line)), None)
    if line is None:
        return None
    return UnreachableError(
        "Spark lost an executor, or the connection to a server or a store",
        why=line.strip()[:_LONGEST],
        do="see that executors, servers and stores are there, then rerun: the batch was not committed, and runs again",
        transient=True,
    )


def kafka_error_in(text: str) -> WindboltError | None:
    """Returns the Kafka error in Spark's long text; None if there is none."""
    if "kafka" not in text.lower():
        return None
    return _record_error_in(text) or _broker_error_in(text)


def _record_error_in(text: str) -> DataError | None:
    """Returns the error about records that cannot be read or written."""
    moved = _MOVED.search(text)
    if moved is not None:
        return ends_earlier(moved[0])
    lost = _LOST.search(text)
    if lost is not None:
        return deleted_unread((lost[1] or lost[2]).strip())
    timestamp = _TIMESTAMP.search(text)
    if timestamp is not None:
        return TimestampError(
            "Spark cannot read a record of Kafka because of its timestamp",
            why=timestamp[0].strip().rsplit("Exception: ", 1)[-1],
            do="let its producer give milliseconds since 1970. To go on behind it, start with a new checkpoint and "
            "starting={topic: {partition: offset}}",
        )
    large = _TOO_LARGE.search(text)
    return None if large is None else too_large(large[1].strip())


def _broker_error_in(text: str) -> WindboltError | None:
    """Returns the error about brokers and topics."""
    late = _TIMEOUT.search(text)
    if late is not None:
        return not_delivered(late[1].strip() or "it took too long")
    topic = _NO_TOPIC.search(text)
    return None if topic is None else no_topic(f"{topic[1]}: {topic[2]}")
