"""An object store that fails at every tenth request: nothing is lost or doubled, and nothing unreachable is bad."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import pytest

from benchmarks.sections.checkpoints import second_batch
from manager.storage import object_store
from manager.storage.checkpoint import FileCheckpoint
from manager.storage.manifest import Manifest
from manager.storage.segment_files import read_section
from servers.s3 import S3
from tests.helpers.examples import sampled
from tests.helpers.races import Driver, alone, judge, topology, write_input
from windowing.errors import StorageError


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("in")
    write_input(str(folder))
    return str(folder)


@pytest.mark.parametrize("how", sampled(["lost", "503", "slow"], 3))
def test_every_tenth_request_fails(store: S3, files: str, how: str) -> None:
    """``lost``: the request is done, and its answer does not come."""
    expected = alone(store, files, f"calm-{how}")
    driver = Driver(topology(files, store.uri(f"{how}/out")), store.uri(f"{how}/ck"))
    store.fail(10, how)
    try:
        driver.run()
    finally:
        store.fail()
    assert driver.error is None
    judge(store, how, [driver], expected)


@pytest.mark.extended
@pytest.mark.parametrize("how", ["503", "lost"])
def test_a_run_on_a_store_that_stays_down_ends_and_the_next_one_goes_on(store: S3, files: str, how: str) -> None:
    expected = alone(store, files, f"up-{how}")
    made = topology(files, store.uri(f"down-{how}/out"))
    stopped, again = (Driver(made, store.uri(f"down-{how}/ck")) for _ in range(2))
    commit = FileCheckpoint.commit

    def goes_down(ours: FileCheckpoint, manifest: Manifest) -> None:
        if manifest.batch == 1:
            store.fail(1, how)
        commit(ours, manifest)

    try:
        with patch.object(FileCheckpoint, "commit", goes_down), pytest.raises(StorageError) as told:
            stopped.run()
    finally:
        store.fail()
    assert "batch 1" in told.value.doing
    assert told.value.do
    again.run()
    again.steps = [step for step in again.steps if step not in stopped.steps]
    judge(store, f"down-{how}", [again], expected)


@pytest.mark.extended
def test_requests_grow_with_tasks_and_pieces_not_with_their_product(store: S3, tmp_path: Path) -> None:
    few, many = (second_batch(store, tmp_path / size, size)[0].total() for size in ("4x8", "12x24"))
    assert many < few + 3 * (8 + 16), "4 × 8 would be 32 reads, and 12 × 24 288"


def test_sections_are_read_once_however_many_there_are_in_a_piece(store: S3) -> None:
    uri, path = store.uri("ahead"), "bucket/ahead/segment"
    data = bytes(range(256)) * 2_000
    object_store.write_object(uri, path, data)
    store.count()
    for offset in range(0, len(data), 12_800):
        assert read_section(uri, path, offset, 12_800) == data[offset : offset + 12_800]
    assert store.count().total() == 2
    assert read_section(uri, path, 64, 400_000) == data[64:400_064]
    with pytest.raises(FileNotFoundError):
        read_section(uri, "bucket/ahead/gone", 0, 10)
