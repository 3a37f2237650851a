"""What a batch has made superfluous is deleted beside what the engine does between two batches."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from manager.storage.checkpoint import FileCheckpoint
from manager.storage.manifest import Manifest
from topologies.checkpoints.checkpointed_run import Cleaning
from windowing.errors import StorageError


def test_the_engine_goes_on_meanwhile_and_the_next_batch_waits() -> None:
    allowed, done = threading.Event(), []

    def clean() -> None:
        assert allowed.wait(30)
        done.append(threading.current_thread())

    with Cleaning(clean) as cleaning:
        cleaning.begin()
        assert done == []
        allowed.set()
        cleaning.wait()
        assert len(done) == 1
        assert done[0] is not threading.current_thread()
        cleaning.wait()
        cleaning.begin()
    assert len(done) == 2


def test_what_fails_is_told_before_the_next_batch_and_at_the_end() -> None:
    def clean() -> None:
        raise StorageError("the disk is gone", why="it was pulled out")

    with Cleaning(clean) as cleaning:
        cleaning.begin()
        with pytest.raises(StorageError, match="the disk is gone"):
            cleaning.wait()
    with pytest.raises(StorageError, match="the disk is gone"), Cleaning(clean) as cleaning:
        cleaning.begin()


def test_an_end_by_an_error_waits_and_afterwards_nothing_is_deleted() -> None:
    begun, done = threading.Event(), []

    def clean() -> None:
        begun.set()
        done.append(1)

    cleaning = Cleaning(clean)

    def dies() -> None:
        with cleaning:
            cleaning.begin()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        dies()
    assert begun.is_set()
    cleaning.begin()
    cleaning.wait()
    assert done == [1]


def test_a_commit_deletes_first_what_the_one_before_has_left(tmp_path: Path) -> None:
    checkpoint = FileCheckpoint(str(tmp_path), keep=1)
    for number in range(3):
        checkpoint.commit(Manifest(batch=number))
    assert checkpoint.batches() == ["0000000001", "0000000002"]
    checkpoint.clean()
    assert checkpoint.batches() == ["0000000002"]
    checkpoint.clean()
    assert checkpoint.batches() == ["0000000002"]
