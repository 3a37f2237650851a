"""Turns failures of file systems into errors that say what failed, why, and what to do."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from manager.outside.transient import is_transient
from windowing.errors import CheckpointError, StorageError

UNREADABLE = (CheckpointError, StorageError)
"""The errors of a file that is damaged or cannot be read."""

_SPACE = "free space there, or move it to a larger disk"
_NETWORK = "see that the file system is mounted, and that its server answers"
_REMEDIES = {
    errno.ENOSPC: _SPACE,
    errno.EDQUOT: "free space there, or have this user's quota raised",
    errno.EFBIG: "allow larger files (ulimit -f)",
    errno.EACCES: "give this user the right to read and write there",
    errno.EPERM: "give this user the right to read and write there",
    errno.EROFS: "mount the file system so that it can be written to",
    errno.EIO: "check the disk: the system log says more (dmesg)",
    errno.EMFILE: "allow this process more open files (ulimit -n)",
    errno.ENFILE: "allow the system more open files",
    errno.ENOENT: "check that its folder exists and is mounted",
    errno.ENOTDIR: "check that its folder exists and is a folder",
    **dict.fromkeys(
        (
            errno.ESTALE, errno.ETIMEDOUT, errno.ENOTCONN, errno.ECONNREFUSED, errno.ECONNRESET, errno.ECONNABORTED,
            errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENETDOWN, errno.ENETUNREACH,
        ),
        _NETWORK,
    ),
}  # fmt: skip
_ELSEWHERE = "check that it can be read and written there, and that the disk, the network or the store works"


@contextmanager
def as_storage_error(path: str, done: str) -> Iterator[None]:
    """Turn the exception of a file system about a path into a StorageError: it cannot be ``done``, such as ``written``.

    ArrowInvalid passes unchanged: it is about the rows to be written.
    """
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        if not isinstance(error, OSError) and type(error) is not pa.ArrowException:
            raise
        raise StorageError(f"{path} cannot be {done}", **why_and_do(error)) from error


@contextmanager
def naming_owner(whose: str) -> Iterator[None]:
    """Add to a StorageError whose file it is about, such as ``sink 'out'``."""
    try:
        yield
    except StorageError as error:
        raise error.about(whose) from error


@contextmanager
def during(doing: str, after: str) -> Iterator[None]:
    """Add to a StorageError what windbolt was doing, such as ``committing batch 7``, and what happens ``after`` it.

    Of nested blocks the innermost decides.
    """
    try:
        yield
    except StorageError as error:
        if error.doing:
            raise
        raise error.during(doing, after) from error


def why_and_do(error: Exception) -> dict[str, Any]:
    """The arguments ``why``, ``do`` and ``transient`` of an error: the reason that the file system gives, what to do
    about it, and whether it may pass by itself."""
    do = f"{remedy(_number(error))}, then rerun"
    return {"why": system_reason(error), "do": do, "transient": is_transient(error)}


def remedy(number: int) -> str:
    """What to do about an error of a file system, by its number (``errno``); 0 where it has none."""
    return _REMEDIES.get(number, _ELSEWHERE)


def system_reason(error: Exception) -> str:
    """The reason that the file system gives, such as ``Permission denied (EACCES)``; the first line of the error's text
    where it has no ``errno``."""
    number = _number(error)
    if number in errno.errorcode:
        return f"{os.strerror(number)} ({errno.errorcode[number]})"
    return str(error).strip().split("\n", 1)[0] or type(error).__name__


def _number(error: Exception) -> int:
    return getattr(error, "errno", None) or 0
