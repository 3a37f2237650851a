"""Folders are synced where the file system does not keep the order of changes of names, and nowhere else."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pyarrow.fs as pafs
import pytest

from manager.storage import files
from manager.storage.files import make_folder, sync_folders_below, sync_names
from windowing.errors import StorageError

MOUNTS = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
31 22 0:27 / /with\\040space rw,nosuid - tmpfs tmpfs rw
40 22 8:17 / /data rw,noatime shared:7 master:1 - xfs /dev/sdb1 rw
41 22 0:44 / /vol rw - btrfs /dev/sdc rw
"""


@pytest.fixture
def mounts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "mountinfo"
    path.write_text(MOUNTS, encoding="utf-8")
    monkeypatch.setattr(files, "_MOUNTS", str(path))
    files._file_system_type.cache_clear()
    return path


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths that are synced."""
    found: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: found.append(os.readlink(f"/proc/self/fd/{descriptor}")))
    return found


def _of_type(monkeypatch: pytest.MonkeyPatch, *, keeps: bool) -> None:
    monkeypatch.setattr(files, "keeps_order", lambda path: keeps)


@pytest.mark.parametrize(
    ("device", "kind"),
    [((8, 1), "ext4"), ((8, 17), "xfs"), ((0, 27), "tmpfs"), ((0, 44), "btrfs"), ((0, 99), "")],
)
def test_the_type_of_a_file_system_is_that_of_its_mount(mounts: Path, device: tuple[int, int], kind: str) -> None:
    assert files._file_system_type(os.makedev(*device)) == kind


def test_where_the_system_does_not_say_the_type_is_unknown(mounts: Path) -> None:
    mounts.unlink()
    assert files._file_system_type(os.makedev(8, 1)) == ""


def test_folders_are_not_synced_where_the_order_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, synced: list[str]
) -> None:
    _of_type(monkeypatch, keeps=True)
    sync_names(str(tmp_path))
    sync_folders_below(str(tmp_path))
    make_folder(pafs.LocalFileSystem(), f"{tmp_path}/a/b")
    assert not synced


def test_folders_are_synced_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, synced: list[str]) -> None:
    _of_type(monkeypatch, keeps=False)
    sync_names(str(tmp_path))
    assert synced == [str(tmp_path)]


def test_the_name_of_each_new_folder_is_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, synced: list[str]
) -> None:
    _of_type(monkeypatch, keeps=False)
    make_folder(pafs.LocalFileSystem(), f"{tmp_path}/a/b")
    assert sorted(synced) == [str(tmp_path), f"{tmp_path}/a"]
    make_folder(pafs.LocalFileSystem(), f"{tmp_path}/a/b")
    assert len(synced) == 2


def test_what_a_dead_process_may_have_left_is_synced_at_all_depths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, synced: list[str]
) -> None:
    _of_type(monkeypatch, keeps=False)
    (tmp_path / "ck" / "windbolt" / "plans").mkdir(parents=True)
    sync_folders_below(f"{tmp_path}/ck")
    assert synced == [str(tmp_path), *(f"{tmp_path}/ck{below}" for below in ("", "/windbolt", "/windbolt/plans"))]


def _failing(number: int) -> Callable[[int], None]:
    def fail(descriptor: int) -> None:
        raise OSError(number, os.strerror(number))

    return fail


def test_a_file_system_that_cannot_sync_folders_is_used_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _of_type(monkeypatch, keeps=False)
    monkeypatch.setattr(os, "fsync", _failing(errno.EINVAL))
    sync_names(str(tmp_path))


def test_one_that_fails_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _of_type(monkeypatch, keeps=False)
    monkeypatch.setattr(os, "fsync", _failing(errno.EIO))
    with pytest.raises(StorageError, match="cannot be written to the disk"):
        sync_names(str(tmp_path))
