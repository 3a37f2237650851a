"""Segments while they are written: an error leaves nothing of one, and hides behind no other error."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from manager.storage.file_segments import FileSegments
from manager.storage.files import private_stream
from manager.storage.memory_segments import MemorySegments
from windowing.errors import StorageError

TABLE = pa.table({"x": range(1_000)})


def fail_after_writing(store: FileSegments | MemorySegments, error: BaseException) -> None:
    """Write a section, and raise an error before the segment is complete."""
    with store.writer("5") as writer:
        writer.add(TABLE)
        raise error


@pytest.fixture
def store(tmp_path: Path) -> FileSegments:
    (tmp_path / "5").mkdir()
    return FileSegments(str(tmp_path))


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Files of this process can have so many bytes: as on a disk that is full."""
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))


def test_what_is_written_is_there_after_the_block(store: FileSegments) -> None:
    with store.writer("5") as writer:
        first, second = writer.add(TABLE), writer.add(TABLE.slice(0, 3))
    assert (store.read(first), store.read(second)) == (TABLE, TABLE.slice(0, 3))
    assert first.segment == second.segment


def test_a_block_that_writes_nothing_makes_no_file(store: FileSegments) -> None:
    with store.writer("5"):
        pass
    assert os.listdir(f"{store.root}/5") == []


def test_an_error_in_the_block_leaves_no_file(store: FileSegments) -> None:
    with pytest.raises(KeyError, match="of a bolt"):
        fail_after_writing(store, KeyError("of a bolt"))
    assert os.listdir(f"{store.root}/5") == []


def test_a_full_disk_leaves_no_file(store: FileSegments) -> None:
    with pytest.raises(StorageError) as raised, files_of_at_most(100), store.writer("5") as writer:
        writer.add(TABLE)
    assert raised.value.why == f"{os.strerror(errno.EFBIG)} (EFBIG)"
    assert os.listdir(f"{store.root}/5") == []


def test_an_error_as_the_file_is_closed_leaves_no_file(store: FileSegments, monkeypatch: pytest.MonkeyPatch) -> None:
    class Closing:
        """A file whose server takes what it is given, and says no at the end."""

        def __init__(self, file: pa.NativeFile) -> None:
            self.tell, self.write, self._file = file.tell, file.write, file

        def close(self) -> None:
            self._file.close()
            raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    monkeypatch.setattr("manager.storage.file_segments.private_stream", lambda *given: Closing(private_stream(*given)))
    with pytest.raises(StorageError, match="cannot be written"), store.writer("5") as writer:
        writer.add(TABLE)
    assert os.listdir(f"{store.root}/5") == []


def test_a_file_that_cannot_be_deleted_hides_no_error(store: FileSegments, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise StorageError("it cannot be deleted")

    monkeypatch.setattr("manager.storage.file_segments.delete", refuse)
    with pytest.raises(KeyError, match="of a bolt"):
        fail_after_writing(store, KeyError("of a bolt"))


def test_a_process_that_ends_leaves_its_file_to_the_next_run(store: FileSegments) -> None:
    with pytest.raises(KeyboardInterrupt):
        fail_after_writing(store, KeyboardInterrupt())
    assert len(os.listdir(f"{store.root}/5")) == 1


def test_segments_in_memory_are_dropped_too() -> None:
    store = MemorySegments()
    with pytest.raises(KeyError, match="of a bolt"):
        fail_after_writing(store, KeyError("of a bolt"))
    assert store.tables == {}
    with store.writer("5") as writer:
        ref = writer.add(TABLE)
    assert store.read(ref) == TABLE
