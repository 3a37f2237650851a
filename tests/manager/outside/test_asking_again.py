"""The file system of a store asks again for what may pass, and for nothing else."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pytest

from manager import remote
from manager.remote import RETRIES, RetryingFileSystem
from manager.storage.object_store import open_uri, write_object
from servers.s3 import S3
from tests.helpers.examples import sampled

PASSES = "AWS Error SLOW_DOWN during an operation: come back later"
STAYS = "AWS Error ACCESS_DENIED during an operation: No response body."


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "_FIRST_WAIT", 0.0)


class Failing:
    """A local file system, each of whose operations fails a number of times before it is done, or after it."""

    def __init__(self, times: int, says: str = PASSES, *, done: bool = False) -> None:
        self._local, self._left, self._says, self._done = pafs.LocalFileSystem(), times, says, done
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> Any:
        act = getattr(self._local, name)
        return self.failing(act, name) if callable(act) else act

    def failing(self, act: Callable[..., Any], name: str) -> Callable[..., Any]:
        def asked(*args: Any, **named: Any) -> Any:
            self.asked.append(name)
            if self._left:
                self._left -= 1
                if self._done:
                    act(*args, **named)
                raise OSError(self._says)
            found = act(*args, **named)
            return _FailingFile(self, found) if name == "open_input_file" else found

        return asked


class _FailingFile:
    def __init__(self, of: Failing, file: pa.NativeFile) -> None:
        self._of, self._file = of, file

    def __getattr__(self, name: str) -> Any:
        act = getattr(self._file, name)
        return self._of.failing(act, name) if name == "read_buffer" else act


def on(failing: Any) -> pafs.FileSystem:
    return pafs.PyFileSystem(RetryingFileSystem(failing))


OPERATIONS: dict[str, Callable[[pafs.FileSystem, str], object]] = {
    "info": lambda fs, root: fs.get_file_info(f"{root}/file").size,
    "listing": lambda fs, root: sorted(each.base_name for each in fs.get_file_info(pafs.FileSelector(root))),
    "create_dir": lambda fs, root: fs.create_dir(f"{root}/new/below"),
    "delete_dir": lambda fs, root: fs.delete_dir(f"{root}/folder"),
    "delete_dir_contents": lambda fs, root: fs.delete_dir_contents(f"{root}/folder"),
    "delete_file": lambda fs, root: fs.delete_file(f"{root}/file"),
    "move": lambda fs, root: fs.move(f"{root}/file", f"{root}/other"),
    "copy_file": lambda fs, root: fs.copy_file(f"{root}/file", f"{root}/other"),
    "read": lambda fs, root: fs.open_input_file(f"{root}/file").read(),
    "stream": lambda fs, root: fs.open_input_stream(f"{root}/file").read(),
}


def tree(root: Path) -> Path:
    (root / "folder").mkdir(parents=True)
    (root / "file").write_bytes(b"0123456789")
    (root / "folder/inner").write_bytes(b"x")
    return root


def names(root: Path) -> list[str]:
    return sorted(str(each.relative_to(root)) for each in root.rglob("*"))


@pytest.mark.parametrize("done", [False, True], ids=["refused", "answer lost"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_what_passes_is_asked_again(name: str, done: bool, tmp_path: Path) -> None:
    calm, stormy = tree(tmp_path / "calm"), tree(tmp_path / "stormy")
    expected = OPERATIONS[name](pafs.LocalFileSystem(), str(calm))
    failing = Failing(2, done=done)
    if name in ("delete_dir", "delete_file", "move") and done:
        failing = Failing(1, done=True)  # the second time nothing is there, which is no failure that passes
    assert OPERATIONS[name](on(failing), str(stormy)) == expected
    assert names(stormy) == names(calm)
    assert len(failing.asked) > 1


def test_it_gives_up_in_the_end_with_what_the_store_says(tmp_path: Path) -> None:
    failing = Failing(100)
    with pytest.raises(OSError, match="SLOW_DOWN"):
        on(failing).get_file_info(str(tmp_path))
    assert len(failing.asked) == RETRIES + 1


def test_what_does_not_pass_is_asked_once(tmp_path: Path) -> None:
    failing = Failing(100, STAYS)
    with pytest.raises(OSError, match="ACCESS_DENIED"):
        on(failing).get_file_info(str(tmp_path))
    assert len(failing.asked) == 1
    for act in ("delete_file", "delete_dir", "open_input_file"):
        with pytest.raises(FileNotFoundError):
            getattr(on(pafs.LocalFileSystem()), act)(str(tmp_path / "gone"))
    with pytest.raises(FileNotFoundError):
        on(Failing(1)).move(str(tmp_path / "gone"), str(tmp_path / "target"))


def test_a_read_that_fails_goes_on_where_it_was(tmp_path: Path) -> None:
    data = bytes(range(256)) * 10
    (tmp_path / "file").write_bytes(data)
    failing = Failing(0)
    file = on(failing).open_input_file(str(tmp_path / "file"))
    found = b""
    while piece := next_piece(file, failing):
        found += piece
    assert found == data
    assert file.seek(-6, io.SEEK_END) == len(data) - 6
    assert (file.read(4), file.tell(), file.read(100), file.read()) == (data[-6:-2], len(data) - 2, data[-2:], b"")
    assert (file.read_at(5, 100), file.size()) == (data[100:105], len(data))


def next_piece(file: pa.NativeFile, failing: Failing) -> bytes:
    failing._left = 1
    return bytes(file.read(700))


@pytest.mark.parametrize("size", sampled([45, 5_000], 2))
def test_an_object_that_is_shorter_than_what_the_store_says_of_its_trouble(store: S3, size: int) -> None:
    """Arrow's client takes it for an error of its own where the answer is longer than what it has asked for."""
    uri = store.uri("small")
    write_object(uri, f"bucket/small/{size}", b"a" * size)
    filesystem, _ = open_uri(uri)
    for how in ("503", "lost"):
        store.fail(2, how)
        try:
            for _ in range(3):
                assert filesystem.open_input_stream(f"bucket/small/{size}").read() == b"a" * size
                assert filesystem.open_input_file(f"bucket/small/{size}").read() == b"a" * size
                assert [each.size for each in filesystem.get_file_info([f"bucket/small/{size}"])] == [size]
        finally:
            store.fail()
