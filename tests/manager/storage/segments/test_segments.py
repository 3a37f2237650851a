"""Segments while they are written: an error leaves nothing of one, and hides behind no other error."""

from __future__ import annotations

import errno
import os
import resource
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from manager.storage import segment_files
from manager.storage.files import private_stream
from manager.storage.segment_files import FileSegments, MemorySegments
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


LARGE = pa.table({"x": np.arange(200_000), "text": pa.array([f"row {at}" for at in range(200_000)])})


@pytest.mark.parametrize("table", [LARGE, LARGE.slice(7, 150_000), pa.concat_tables([LARGE, LARGE])])
def test_a_large_table_is_written_piece_by_piece_to_the_same_bytes(
    store: FileSegments, monkeypatch: pytest.MonkeyPatch, table: pa.Table
) -> None:
    with store.writer("5") as writer:
        small, large = writer.add(TABLE), writer.add(table)
        monkeypatch.setattr(segment_files, "_LARGE", 1 << 40)
        at_once = writer.add(table)
    assert (large.length, large.checksum) == (at_once.length, at_once.checksum)
    assert (store.read(small), store.read(large), store.read(at_once)) == (TABLE, table, table)
    assert large.offset % 64 == 0


@pytest.mark.parametrize("size", [100, 1 << 20])
def test_a_disk_that_is_full_in_the_middle_of_a_large_table_leaves_no_file(store: FileSegments, size: int) -> None:
    with pytest.raises(StorageError, match="cannot be written"), files_of_at_most(size), store.writer("5") as writer:
        writer.add(LARGE)
    assert os.listdir(f"{store.root}/5") == []


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

    monkeypatch.setattr("manager.storage.segment_files.private_stream", lambda *given: Closing(private_stream(*given)))
    with pytest.raises(StorageError, match="cannot be written"), store.writer("5") as writer:
        writer.add(TABLE)
    assert os.listdir(f"{store.root}/5") == []


def test_a_file_that_cannot_be_deleted_hides_no_error(store: FileSegments, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise StorageError("it cannot be deleted")

    monkeypatch.setattr("manager.storage.segment_files.delete", refuse)
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


def test_a_checksum_is_that_of_zlib_whichever_library_finds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = np.random.default_rng(1)
    data = chance.bytes(100_003)
    found = [segment_files.crc32]
    monkeypatch.setattr(segment_files, "import_module", lambda name: exec("raise ImportError"))
    found.append(segment_files._fastest_crc32())
    assert found[1] is zlib.crc32
    for size in (0, 1, 7, 64, 1_000, len(data)):
        for crc32 in found:
            assert crc32(data[:size], 0) == crc32(pa.py_buffer(data[:size]), 0) == zlib.crc32(data[:size])
            assert crc32(data[size:], crc32(data[:size], 0)) == zlib.crc32(data)
