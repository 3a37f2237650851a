"""The simulated disk: a real folder whose every operation is counted, may fail, and may be lost.

Files really lie in a folder, so that what pyarrow, Python and tests see of them is what they see of any file. Each
operation under that folder is told to ``before`` first, which lets the process die there, or the operation fail.

A death of the process leaves all that was written. A power cut leaves what its file system leaves:

- of the changes of names (create, rename, delete), where it keeps their order (ext4, XFS), those up to some moment,
  which is not before the last sync of whatever file: a sync commits the journal; elsewhere any of them, and surely only
  those in folders that have been synced (name_changes.py);
- of the bytes of a file, those survive that were written before its last sync; of the others a part, none, or zeros.
"""

from __future__ import annotations

import builtins
import errno
import io
import os
import random
import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.fs as pafs

from manager.storage import files
from tests.simulation.name_changes import NameChanges, Order

LocalFileSystem = pafs.LocalFileSystem
_open, _fsync, _rename, _remove, _makedirs, _listdir = os.open, os.fsync, os.rename, os.remove, os.makedirs, os.listdir
_open_text, _memory_map, _stat, _utime = builtins.open, pa.memory_map, os.stat, os.utime


_CHANGES = ("touch", "create", "rename", "delete", "make folder", "delete folder")


class Crash(BaseException):
    """The process dies. No Exception, so that nobody takes it for one that can be dealt with."""


class Disk:
    """A folder with the operations on it. ``before`` is called with the kind and the path of each."""

    def __init__(self, root: str, chance: random.Random, order: Order = "kept") -> None:
        self.root = os.path.realpath(root)
        self.data, self._stash = f"{self.root}/data", f"{self.root}/stash"
        os.makedirs(self.data, exist_ok=True)
        os.makedirs(self._stash)
        self.before: Callable[[str, str], None] = lambda kind, path: None
        self.dead = False
        """Whether the process has died: what it does while Python unwinds it reaches the disk no more."""
        self.lost_answer: OSError | None = None
        """What the next operation ends with, although it is done."""
        self._chance = chance
        self._names = NameChanges(order)
        self._unsynced: dict[int, int] = {}
        """By inode, how many bytes of a file have been synced, where it may have more."""
        self._stashed = 0
        self._before: dict[str, set[str]] = {}
        """What folders held when the process before the last one began."""
        self._now: dict[str, set[str]] = {}
        """The same of the last one."""
        self._hidden: dict[str, set[str]] = {}
        """By folder, what its listings do not have yet: another machine has made it lately."""
        self._old_for = 0
        """So many listings are still older."""

    @property
    def keeps_order(self) -> bool:
        """Whether its file system keeps the order of changes of names."""
        return self._names.order == "kept"

    # --- what happens to a whole machine ---

    def start(self) -> None:
        """A new process."""
        self.dead, self.lost_answer = False, None
        self._before, self._now, self._hidden = self._now, self._held(), {}

    def list_as_before(self) -> None:
        """This process is on another machine than the one before it, and lists folders as they were when that one
        began, as NFS may do: each until it has changed that folder itself, and all of them for some time only."""
        self._hidden = {folder: names - self._before.get(folder, names) for folder, names in self._now.items()}
        self._old_for = int(2 ** self._chance.uniform(0, 7))

    def _held(self) -> dict[str, set[str]]:
        kept = (f"{self.data}/ck", f"{self.data}/out")
        return {at: {*folders, *names} for top in kept for at, folders, names in os.walk(top)}

    def seen(self, folder: str, names: list[str]) -> list[str]:
        """Of the names in a folder, those that this process sees when it lists it."""
        hidden = self._hidden.get(folder.rstrip("/"))
        if not hidden or self._old_for <= 0:
            return names
        self._old_for -= 1
        return [name for name in names if name not in hidden]

    def cut_power(self) -> list[str]:
        """Leave of the disk what a power cut leaves; what was lost, in words."""
        lost = self._names.lose(self._chance)
        for path in sorted(self._files()):
            inode, size = _stat(path).st_ino, _stat(path).st_size
            synced = self._unsynced.get(inode, size)
            if synced < size:
                lost += self._tear(path, synced, size)
        self.settle()
        return lost

    def settle(self) -> None:
        """All that was written has reached the disk."""
        self._names.clear()
        self._unsynced.clear()
        shutil.rmtree(self._stash)
        os.makedirs(self._stash)

    def _tear(self, path: str, synced: int, size: int) -> list[str]:
        match self._chance.choice(["whole", "cut", "cut", "none", "zeros"]):
            case "whole":
                return []
            case "zeros":
                with _open_text(path, "r+b") as file:
                    file.seek(synced)
                    file.write(bytes(size - synced))
                return [f"{size - synced} bytes of {self.short(path)} are zeros"]
            case what:
                left = synced if what == "none" else self._chance.randrange(synced, size)
                os.truncate(path, left)
                return [f"of {self.short(path)} the first {left} of {size} bytes are left"]

    def _files(self) -> Iterator[str]:
        for folder, _, names in os.walk(self.data):
            yield from (f"{folder}/{name}" for name in names)

    def short(self, path: str) -> str:
        """A path for people."""
        return "." if path == self.data else path.removeprefix(f"{self.data}/")

    # --- operations ---

    def mine(self, path: Any) -> bool:
        """Whether a path lies on this disk."""
        return isinstance(path, str) and path.startswith(self.data)

    def told(self, kind: str, path: str) -> None:
        """Before an operation."""
        if self.dead:
            raise Crash
        self.before(kind, path)
        if kind in _CHANGES:  # whoever changes a folder learns what it holds
            self._hidden.pop(path if kind == "touch" else os.path.dirname(path), None)

    def answered(self) -> None:
        """After an operation whose answer may be lost."""
        if self.lost_answer is not None:
            error, self.lost_answer = self.lost_answer, None
            raise error

    def created(self, path: str) -> None:
        """After a file has been created."""
        self._unsynced[_stat(path).st_ino] = 0
        self._names.add(f"the new file {self.short(path)}", lambda: _remove(path), path)

    def synced(self, descriptor: int, path: str) -> None:
        """After a file or folder has been synced."""
        self._unsynced.pop(os.fstat(descriptor).st_ino, None)
        self._names.synced(path)
        self.answered()

    def make_folder(self, path: str) -> None:
        """Make a folder, and those it lies in."""
        missing = []
        while not os.path.isdir(path):
            missing.append(path)
            path = os.path.dirname(path)
        for each in reversed(missing):
            self.told("make folder", each)
            os.mkdir(each)
            self._names.add(f"the new folder {self.short(each)}", partial(shutil.rmtree, each), each)
            self.answered()

    def rename(self, source: str, target: str) -> None:
        """Give a file another name, that of another file perhaps."""
        self.told("rename", target)
        before = self._stash_away(target, keep=True) if os.path.lexists(target) else None
        _rename(source, target)

        def undo() -> None:
            _rename(target, source)
            if before is not None:
                _rename(before, target)

        self._names.add(f"the renaming of {self.short(source)} to {self.short(target)}", undo, source, target)
        self.answered()

    def delete(self, path: str) -> None:
        """Delete a file, or a folder with all that is in it, entry by entry."""
        if os.path.isdir(path):
            for name in sorted(_listdir(path)):
                self.delete(f"{path}/{name}")
            self.told("delete folder", path)
            os.rmdir(path)
            self._names.add(f"the deletion of {self.short(path)}", lambda: os.mkdir(path), path)
            self.answered()
            return
        self.told("delete", path)
        kept = self._stash_away(path, keep=False)
        self._names.add(f"the deletion of {self.short(path)}", lambda: _rename(kept, path), path)
        self.answered()

    def _stash_away(self, path: str, *, keep: bool) -> str:
        self._stashed += 1
        stash = f"{self._stash}/{self._stashed}"
        if keep:
            os.link(path, stash)
        else:
            _rename(path, stash)
        return stash

    def names(self, folder: str) -> list[str]:
        """What a folder holds, in whatever order."""
        found = self.seen(folder, sorted(_listdir(folder)))
        self._chance.shuffle(found)
        return found

    # --- the process that uses it ---

    @contextmanager
    def drawing_names(self) -> Iterator[None]:
        """Names that this process draws by chance are drawn from the seed; for what happens without faults, that is
        all: to the real folder."""
        random_bits = self._chance.getrandbits
        with patch.object(uuid, "uuid4", lambda: uuid.UUID(int=random_bits(128), version=4)):
            yield

    @contextmanager
    def mounted(self) -> Iterator[None]:
        """Whatever this process does to files under the folder it does to the simulated disk."""
        disk = self

        class SimulatedFileSystem(_SimulatedFileSystem):
            def __init__(self, **options: Any) -> None:
                super().__init__(**options)
                self.disk = disk

        def opened(path: Any, flags: int, *rest: Any, **named: Any) -> int:
            if not disk.mine(path) or not flags & os.O_CREAT:
                return _open(path, flags, *rest, **named)
            disk.told("create", path)
            new = not os.path.exists(path)
            descriptor = _open(path, flags, *rest, **named)
            if new:
                disk.created(path)
            return descriptor

        def synced(descriptor: int) -> None:
            path = os.readlink(f"/proc/self/fd/{descriptor}")
            if disk.mine(path):
                disk.told("sync", path)
                disk.synced(descriptor, path)

        def renamed(source: Any, target: Any, **rest: Any) -> None:
            disk.rename(source, target) if disk.mine(target) else _rename(source, target, **rest)

        def removed(path: Any, **rest: Any) -> None:
            disk.delete(path) if disk.mine(path) else _remove(path, **rest)

        def made(path: Any, *rest: Any, **named: Any) -> None:
            disk.make_folder(path) if disk.mine(path) else _makedirs(path, *rest, **named)

        def listed(path: Any = ".") -> list[str]:
            if not disk.mine(path):
                return _listdir(path)
            disk.told("list", path)
            return disk.names(path)

        def touched(path: Any, *rest: Any, **named: Any) -> None:
            if disk.mine(path):
                disk.told("touch", path)
            _utime(path, *rest, **named)

        def mapped(path: Any, *rest: Any) -> pa.MemoryMappedFile:
            if disk.mine(path):
                disk.told("read", path)
            return _memory_map(path, *rest)

        with ExitStack() as stack:
            for owner, name, instead in [
                (pafs, "LocalFileSystem", SimulatedFileSystem),
                (os, "open", opened), (os, "fsync", synced), (os, "rename", renamed), (os, "remove", removed),
                (os, "makedirs", made), (os, "listdir", listed), (pa, "memory_map", mapped),
                (os, "utime", touched),
                (files, "keeps_order", lambda path: disk.keeps_order),
            ]:  # fmt: skip
                stack.enter_context(patch.object(owner, name, instead))
            stack.enter_context(self.drawing_names())
            yield


class _SimulatedFileSystem(LocalFileSystem):  # type: ignore[misc,valid-type]
    """pyarrow's file system of this machine, on a simulated disk."""

    disk: Disk

    def open_output_stream(self, path: str, *rest: Any, **named: Any) -> pa.NativeFile:
        if not self.disk.mine(path):
            return super().open_output_stream(path, *rest, **named)
        self.disk.told("create", path)
        new = not os.path.exists(path)
        file = _Written(self.disk, path)
        if new:
            self.disk.created(path)
        return pa.PythonFile(file, mode="w")

    def open_input_stream(self, path: str, *rest: Any, **named: Any) -> pa.NativeFile:
        self._read(path)
        return super().open_input_stream(path, *rest, **named)

    def open_input_file(self, path: str, *rest: Any, **named: Any) -> pa.NativeFile:
        self._read(path)
        return super().open_input_file(path, *rest, **named)

    def _read(self, path: str) -> None:
        if self.disk.mine(path):
            self.disk.told("read", path)

    def move(self, src: str, dest: str) -> None:
        if not self.disk.mine(dest):
            return super().move(src, dest)
        return self.disk.rename(src, dest)

    def delete_file(self, path: str) -> None:
        if not self.disk.mine(path) or not os.path.isfile(path):
            return super().delete_file(path)
        return self.disk.delete(path)

    def delete_dir(self, path: str) -> None:
        if not self.disk.mine(path) or not os.path.isdir(path):
            return super().delete_dir(path)
        return self.disk.delete(path)

    def delete_dir_contents(self, path: str, *rest: Any, **named: Any) -> None:
        for name in sorted(_listdir(path)):
            self.disk.delete(f"{path}/{name}")

    def create_dir(self, path: str, *, recursive: bool = True) -> None:
        self.disk.make_folder(path)

    def get_file_info(self, paths: Any) -> Any:
        found = super().get_file_info(paths)
        if isinstance(paths, pafs.FileSelector) and self.disk.mine(paths.base_dir):
            self.disk.told("list", paths.base_dir)
            seen = {*self.disk.seen(paths.base_dir, [each.base_name for each in found])}
            found = [each for each in found if each.base_name in seen]
            self.disk._chance.shuffle(found)
        return found


class _Written(io.RawIOBase):
    """A file that is being written."""

    def __init__(self, disk: Disk, path: str) -> None:
        super().__init__()
        self._disk, self._path = disk, path
        self._file: Any = _open_text(path, "wb", buffering=0)
        self._inode = os.fstat(self._file.fileno()).st_ino

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        if len(data):
            half = len(data) // 2
            self._write(memoryview(data)[:half])  # a process may die between any two pages
            self._write(memoryview(data)[half:])
        return len(data)

    def _write(self, data: memoryview) -> None:
        self._disk.told("write", self._path)
        self._disk._unsynced.setdefault(self._inode, 0)
        self._file.write(data)

    def tell(self) -> int:
        return int(self._file.tell())

    def close(self) -> None:
        super().close()
        self._file.close()


def full(path: str) -> OSError:
    """What a full disk says."""
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)


def broken(path: str) -> OSError:
    """What a disk says that cannot read."""
    return OSError(errno.EIO, os.strerror(errno.EIO), path)
