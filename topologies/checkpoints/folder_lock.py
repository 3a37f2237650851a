"""The lock of a checkpoint folder: two runs never have it at one time."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from typing import IO

import pyarrow.fs as pafs

from manager.storage.file_systems.files import list_all_anew
from manager.storage.file_systems.storage_errors import as_storage_error, system_reason
from windowing.errors import CheckpointError


class FolderLock:
    """A lock on the file ``.lock`` of a checkpoint, held until ``release`` or the end of this process.

    On this machine only: of a checkpoint elsewhere (``folder`` None) nothing is locked; a run claims it instead
    (``manager/storage/turns.py``).
    """

    def __init__(self, path: str, filesystem: pafs.FileSystem, folder: str | None) -> None:
        """``path``: the checkpoint, as users name it. Nothing is locked yet."""
        self.path, self.filesystem, self.folder = path, filesystem, folder
        self._held: IO[str] | None = None

    def take(self) -> None:
        """Keep all others off the checkpoint. CheckpointError where somebody has it, or it cannot be written to."""
        if self.folder is None:
            return
        with as_storage_error(f"checkpoint {self.path}", "written to"):
            self._held = self._made(self.folder)
            self._take(self._held, fcntl.LOCK_EX)
        try:
            self._sign(self._held)
            list_all_anew(self.folder)
        except BaseException:
            self.release()
            raise

    def share(self) -> None:
        """Keep runs off the checkpoint, but nobody who reads it; nothing is written. CheckpointError where a run has
        it."""
        if self.folder is None:
            return
        with suppress(OSError):  # nobody has locked it yet, or it is a copy on which nobody runs
            self._held = open(f"{self.folder}/.lock", encoding="utf-8", errors="replace")  # noqa: SIM115
        if self._held is not None:
            self._take(self._held, fcntl.LOCK_SH)

    def release(self) -> None:
        """Let others have the checkpoint."""
        if self._held is not None:
            self._held.close()

    def _sign(self, held: IO[str]) -> None:
        with as_storage_error(f"checkpoint {self.path}", "written to"):
            held.truncate(0)
            held.write(f"process {os.getpid()}")
            held.flush()

    def _made(self, folder: str) -> IO[str]:
        try:
            self.filesystem.create_dir(folder, recursive=True)
            return open(f"{folder}/.lock", "a+", encoding="utf-8", errors="replace")
        except (PermissionError, FileExistsError, FileNotFoundError, NotADirectoryError) as error:
            raise CheckpointError(
                f"checkpoint {self.path!r} cannot be made or written to",
                why=system_reason(error),
                do="name a folder that this user may write to",
            ) from error

    def _take(self, held: IO[str], kind: int) -> None:
        try:
            fcntl.flock(held, kind | fcntl.LOCK_NB)
        except OSError as error:
            held.seek(0)
            owner = held.read().strip() or "another process"
            held.close()
            own = owner == f"process {os.getpid()}"
            raise CheckpointError(
                f"checkpoint {self.path!r} is in use by {owner}",
                why="two runs on one checkpoint would delete each other's state",
                do=f"stop the other run{' (windbolt.runs() has those in the background)' if own else ''}, "
                "or give this one a checkpoint of its own",
            ) from error
