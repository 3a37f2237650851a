"""Two runs on one checkpoint in an object store: the one that opened it last has it, and nothing is lost or doubled."""

from __future__ import annotations

import random
import uuid
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from manager.storage import object_store
from manager.storage.checkpoint import FileCheckpoint
from manager.storage.manifest import Manifest, batch_key
from manager.storage.sealed_files import Committed, Owner, SealedFolder
from manager.storage.segment_files import epoch_of
from servers.s3 import S3
from tests.helpers.examples import share
from tests.helpers.races import Driver, alone, judge, published, race, topology, write_input
from tests.helpers.store_changes import Interrupted
from topologies.checkpoints.going_back import go_back
from topologies.checkpoints.paired_checkpoint import PairedCheckpoint
from windowing.errors import CheckpointError

OPERATIONS = ("create_object", "write_object", "read_object", "delete_objects", "rename_objects")
"""What a run does in an object store, besides what pyarrow does: between any two of them another run may come."""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("in")
    write_input(str(folder))
    return str(folder)


@pytest.fixture(scope="module")
def expected(store: S3, files: str) -> dict[str, bytes]:
    return alone(store, files)


class Dies(BaseException):
    """The end of a process."""


def operations_of_a_run(store: S3, files: str) -> int:
    with Interrupted(0, lambda: None, OPERATIONS) as counted:
        alone(store, files, "counted")
    return counted.seen


@pytest.mark.extended
def test_another_run_takes_over_at_any_operation(store: S3, files: str, expected: dict[str, bytes]) -> None:
    """The other run comes and goes to the end of the input, or for one batch; then the first one continues."""
    chance, last = random.Random(1), operations_of_a_run(store, files)
    assert last > 30
    for at in sorted(chance.sample(range(1, last + 1), share(8, 2))):
        name = f"taken{at}"
        made = topology(files, store.uri(f"{name}/out"))
        first, second = Driver(made, store.uri(f"{name}/ck")), Driver(made, store.uri(f"{name}/ck"))
        with Interrupted(at, second.run, OPERATIONS):
            first.run()
        assert second.error is None
        judge(store, name, [first, second], expected)


@pytest.mark.extended
def test_a_run_dies_at_any_operation_and_another_goes_on(store: S3, files: str, expected: dict[str, bytes]) -> None:
    def dies() -> None:
        raise Dies

    chance, last = random.Random(2), operations_of_a_run(store, files)
    for at in sorted(chance.sample(range(1, last + 1), share(8, 2))):
        name = f"dead{at}"
        made = topology(files, store.uri(f"{name}/out"))
        first, second = Driver(made, store.uri(f"{name}/ck")), Driver(made, store.uri(f"{name}/ck"))
        with Interrupted(at, dies, OPERATIONS), pytest.raises(Dies):
            first.run()
        second.run()
        judge(store, name, [first, second], expected)


def test_two_runs_at_once(store: S3, files: str, expected: dict[str, bytes]) -> None:
    """More of them: ``python -m tests.helpers.races --races 1000``."""
    for number in range(share(6, 1)):
        race(store, f"race{number}", files, expected, random.Random(number))


def checkpoint(store: S3, name: str, owner: str, at: int = 0) -> FileCheckpoint:
    found = FileCheckpoint(f"bucket/{name}", store.uri(name))
    found.claim(Owner(owner, at))
    found.latest()
    return found


def test_the_run_before_cannot_commit_and_is_told_who_has_the_checkpoint(store: S3) -> None:
    before = checkpoint(store, "told", "process 1 on here")
    before.commit(Manifest(batch=0))
    after = checkpoint(store, "told", "process 2 on there", at=1_700_000_000_000_000)
    with pytest.raises(CheckpointError) as told:
        before.commit(Manifest(batch=1))
    assert "taken over by process 2 on there at 2023-11-14T22:13:20Z" in told.value.what
    assert told.value.why
    assert "start this one again" in told.value.do
    after.commit(Manifest(batch=1))
    with pytest.raises(CheckpointError, match="taken over by process 2 on there"):
        before.begin(batch_key(1, False))


def test_the_run_before_cannot_replace_a_note(store: S3) -> None:
    before = checkpoint(store, "noted", "process 1 on here")
    before.commit(Manifest(batch=0))
    before.replace_note("topology", {"name": "first"})
    after = checkpoint(store, "noted", "process 2 on there")
    with pytest.raises(CheckpointError, match="taken over by process 2 on there"):
        before.replace_note("topology", {"name": "lost"})
    assert after.read_note("topology") == {"name": "first"}
    after.replace_note("topology", {"name": "second"})
    after.commit(Manifest(batch=1))
    last = checkpoint(store, "noted", "process 3 on there")
    assert last.read_note("topology") == last.files.read("topology") == {"name": "second"}
    assert last.batches()[-1] == batch_key(1, False)


def test_a_commit_is_lost_even_if_the_turn_has_been_deleted_since(store: S3) -> None:
    before = checkpoint(store, "deleted", "process 1 on here")
    after = checkpoint(store, "deleted", "process 2 on there")
    for batch in range(5):
        after.commit(Manifest(batch=batch))
        after.clean()
    assert len(after.files.names("claims")) == 1
    with pytest.raises(CheckpointError, match="taken over by process 2"):
        before.commit(Manifest(batch=0, closing=True))
    assert FileCheckpoint("bucket/deleted", store.uri("deleted")).batches()[-1] == batch_key(4, False)
    assert checkpoint(store, "deleted", "process 3 on there").batches()[-1] == batch_key(4, False)


def test_a_commit_whose_process_died_before_its_copy_is_found_by_the_next_run(store: S3) -> None:
    before = checkpoint(store, "copied", "process 1 on here")
    create = SealedFolder.create

    def dying(files: SealedFolder, name: str, values: Any) -> bool:
        if name.startswith("manifests/"):
            raise Dies
        return create(files, name, values)

    with patch.object(SealedFolder, "create", dying), pytest.raises(Dies):
        before.commit(Manifest(batch=0))
    assert before.batches() == []
    assert checkpoint(store, "copied", "process 2 on here").batches() == [batch_key(0, False)]


def test_a_batch_that_is_committed_while_another_run_looks_is_found(store: S3) -> None:
    before = checkpoint(store, "looks", "process 1 on here")
    before.commit(Manifest(batch=0))
    copied, done = FileCheckpoint._copy, list[bool]()

    def commits_first(ours: FileCheckpoint, committed: Committed) -> None:
        if not done:
            done.append(True)
            before.commit(Manifest(batch=1))
        copied(ours, committed)

    with patch.object(FileCheckpoint, "_copy", commits_first):
        after = checkpoint(store, "looks", "process 2 on there")
    assert after.batches()[-1] == batch_key(1, False)
    after.commit(Manifest(batch=2))


def test_a_manifest_that_nobody_has_committed_is_refused(store: S3) -> None:
    checkpoint(store, "copy", "process 1 on here").commit(Manifest(batch=0))
    files = FileCheckpoint("bucket/copy", store.uri("copy")).files
    files.write(f"manifests/{batch_key(1, False)}", Manifest(batch=1).to_values())
    with pytest.raises(CheckpointError, match="holds batch 1, which was never committed") as told:
        checkpoint(store, "copy", "process 2 on here")
    assert "delete the folder claims" in told.value.do


def test_a_plan_is_the_first_one_whoever_made_it(store: S3) -> None:
    before = checkpoint(store, "planned", "process 1 on here")
    key = batch_key(0, False)
    assert before.plan(key, {"clock": 1}) == ({"clock": 1}, True)
    after = checkpoint(store, "planned", "process 2 on here")
    assert after.plan(key, {"clock": 2}) == ({"clock": 1}, False)
    assert after.replan(key, {"clock": 2})
    assert not before.replan(key, {"clock": 3})
    assert after.plan(key, {}) == ({"clock": 2}, False)


def test_segments_of_the_run_before_stay_until_it_cannot_commit_them(store: S3, files: str) -> None:
    made = topology(files, store.uri("kept/out"))
    first, second = Driver(made, store.uri("kept/ck")), Driver(made, store.uri("kept/ck"))
    left: list[str] = []

    def segments() -> list[str]:
        return [name for name in store.names() if name.startswith("kept/ck/windbolt/segments/")]

    def taken_over() -> None:
        left.extend(segments())
        second.run()

    with patch.object(FileCheckpoint, "commit", autospec=True, side_effect=_before(FileCheckpoint.commit, taken_over)):
        first.run()
    assert left
    assert first.taken_over
    named = PairedCheckpoint(store.uri("kept/ck"))
    kept = {
        segment
        for key in named.documents.names("manifests")
        for segment in FileCheckpoint(named.documents.root, named.uri).manifest(key).segments()
    }
    assert {name.removeprefix("kept/ck/windbolt/segments/") for name in segments()} == kept


def _before(operation: Any, happens: Any) -> Any:
    done: list[bool] = []

    def instead(*given: Any) -> Any:
        if not done:
            done.append(True)
            happens()
        return operation(*given)

    return instead


def test_going_back_stops_the_run(store: S3, files: str, expected: dict[str, bytes]) -> None:
    made = topology(files, store.uri("back/out"))
    first = Driver(made, store.uri("back/ck"))

    def back() -> None:
        if len(first.steps) == 2:
            done = go_back(PairedCheckpoint(store.uri("back/ck")), batch_key(0, False))
            assert done.folder.startswith("s3://")

    commit = FileCheckpoint.commit

    def instead(ours: FileCheckpoint, manifest: Manifest) -> None:
        back()
        commit(ours, manifest)

    with patch.object(FileCheckpoint, "commit", instead):
        first.run()
    assert first.taken_over
    assert "checkpoint s3://" in str(first.error)
    again = Driver(made, store.uri("back/ck"))
    again.run()
    assert again.error is None
    assert again.steps[0] == batch_key(1, False)
    assert published(store, "back/out") == expected


def test_a_run_of_another_topology_does_not_take_it_over(store: S3, files: str) -> None:
    made = topology(files, store.uri("other/out"))
    Driver(made, store.uri("other/ck")).run()
    before = [name for name in store.names() if name.startswith("other/ck/windbolt/claims/")]
    renamed = topology(files, store.uri("other/out"))
    object.__setattr__(renamed, "name", "another")
    other = Driver(renamed, store.uri("other/ck"))
    other.run()
    assert other.error is not None
    assert "belongs to another topology" in other.error.what
    assert [name for name in store.names() if name.startswith("other/ck/windbolt/claims/")] == before


def test_the_epoch_of_a_segment_is_found_behind_its_folder() -> None:
    name = f"0000000006-{'93ef' * 8}"
    assert epoch_of(f"{name}.arrow") == 6
    assert epoch_of(f"0000000003-close/{name}.arrow") == 6
    assert epoch_of(f".0000000003-close-{name}.jsonl") == 6
    assert epoch_of(f"0000000003/{'93ef' * 8}.arrow") == 0


def test_files_that_another_run_has_named_meanwhile_are_named(store: S3) -> None:
    uri = store.uri("named")
    object_store.write_object(uri, "bucket/named/draft", b"rows")
    object_store.rename_objects(uri, [("bucket/named/draft", "bucket/named/file")])
    object_store.rename_objects(uri, [("bucket/named/draft", "bucket/named/file")])
    assert store.body("named/file") == b"rows"
    with pytest.raises(FileNotFoundError):
        object_store.rename_objects(uri, [("bucket/named/draft", "bucket/named/other")])


def test_a_draft_that_is_finished_while_another_takes_over_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In HDFS nothing keeps the first run from going on for a moment."""
    half = PairedCheckpoint(str(tmp_path)).spark_checkpoint
    Path(half.root).mkdir()
    draft = Path(half.root) / f".metadata.{uuid.uuid4()}.tmp"
    draft.write_text("{}", encoding="utf-8")
    listed = half._entries

    def finished_after_the_listing(_half: Any, folder: str) -> Any:
        found = listed(folder)
        if folder == "":
            draft.unlink()
        return found

    monkeypatch.setattr(type(half), "_entries", finished_after_the_listing)
    half.sweep()
    assert not draft.exists()
