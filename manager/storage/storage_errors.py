"""The errors of files of checkpoints and sinks that cannot be written or read: what, why, and what to do."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from windowing.errors import CheckpointError, StorageError

UNREADABLE = (CheckpointError, StorageError)
"""The errors of a file that is no use as it is: it is damaged, or cannot be read."""

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
    """Turns what a file system raises about a path into a StorageError: that it cannot be ``done`` (``written``).

    What Arrow says of the rows that are to be written (ArrowInvalid) is left as it is.
    """
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        if not isinstance(error, OSError) and type(error) is not pa.ArrowException:
            raise
        raise StorageError(f"{path} cannot be {done}", **why_and_do(error)) from error


@contextmanager
def naming_owner(whose: str) -> Iterator[None]:
    """Lets a StorageError say whose file it is about: ``sink 'out'``."""
    try:
        yield
    except StorageError as error:
        raise error.about(whose) from error


@contextmanager
def during(doing: str, after: str) -> Iterator[None]:
    """Lets a StorageError say what windbolt was doing (``committing batch 7``), and what comes of that ``after`` it.

    The innermost has the word.
    """
    try:
        yield
    except StorageError as error:
        if error.doing:
            raise
        raise error.during(doing, after) from error


def why_and_do(error: Exception) -> dict[str, str]:
    """What the system, or a store, says of an error (``why``), and what to do about it (``do``)."""
    return {"why": system_reason(error), "do": f"{remedy(_number(error))}, then rerun"}


def remedy(number: int) -> str:
    """What to do about an error of a file system, by its number (``errno``); 0 where it has none."""
    return _REMEDIES.get(number, _ELSEWHERE)


def system_reason(error: Exception) -> str:
    """What the system, or a store, says of an error: ``Permission denied (EACCES)``; its first line where it has no
    number of the system's."""
    number = _number(error)
    if number in errno.errorcode:
        return f"{os.strerror(number)} ({errno.errorcode[number]})"
    return str(error).strip().split("\n", 1)[0] or type(error).__name__


def _number(error: Exception) -> int:
    return getattr(error, "errno", None) or 0
