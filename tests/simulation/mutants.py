"""Defects planted in windbolt, each of which the simulation has to find."""

from __future__ import annotations

import inspect
import json
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

from manager import watermarks
from manager.storage import checkpoint, files, object_store, sealed_files, segment_files
from manager.storage.checkpoint import FileCheckpoint
from manager.storage.files import delete, sync_file
from manager.storage.manifest import Manifest, batch_key
from manager.storage.sealed_files import SealedFolder, seal
from manager.storage.segment_files import FileSegments
from manager.watermarks import WaterMarkEventGenerator, WatermarkState
from policies import watermarks as source_watermarks
from tests.simulation.case import Case
from tests.simulation.executor import SimulatedExecutor
from tests.simulation.playing import play
from tests.simulation.shrinking import shrunk
from topologies.checkpoints import (
    checkpointed_run,
    going_back,
    paired_checkpoint,
    rescale,
    spark_checkpoint,
)
from topologies.checkpoints import checkpointed_run as opening
from topologies.checkpoints.checkpointed_run import CheckpointedRun
from topologies.checkpoints.file_journal import FileJournal
from topologies.checkpoints.paired_checkpoint import START, FolderLock
from topologies.checkpoints.rescale import Route, TaskMove
from topologies.checkpoints.spark_checkpoint import SparkCheckpoint
from topologies.engine import commit, duplicates, event_times, micro_batch
from topologies.local import LocalRun

Mutant = Callable[[], AbstractContextManager[Any]]

PLANTED = Path(__file__).parent / "planted"
"""A case for each defect, in which the simulation finds it; the tests play them."""


def _nothing(*_: Any, **__: Any) -> None:
    """What was to be done is not."""


def _rewritten(owner: Any, name: str, module: ModuleType, text: str, instead: str) -> AbstractContextManager[Any]:
    """Patch a function of a class or module with a copy of its source in which a piece of text is another one."""
    source = textwrap.dedent(inspect.getsource(getattr(owner, name)))
    assert source.count(text) == 1, f"{name} has {text!r} {source.count(text)} times"
    found: dict[str, Any] = {}
    exec(compile(source.replace(text, instead), f"<{name}, rewritten>", "exec"), vars(module), found)
    return patch.object(owner, name, found[name])


@contextmanager
def _events_at_an_end_are_between_windows() -> Iterator[None]:
    with (
        _rewritten(source_watermarks, "between_windows", source_watermarks, "last < times", "last <= times"),
        patch.object(duplicates, "between_windows", source_watermarks.between_windows),
    ):
        yield


@contextmanager
def _late_at_the_tolerance() -> Iterator[None]:
    with (
        _rewritten(source_watermarks, "decide_by_arrival", source_watermarks, "times < earliest", "times <= earliest"),
        patch.object(event_times, "decide_by_arrival", source_watermarks.decide_by_arrival),
    ):
        yield


@contextmanager
def _drafts_are_kept() -> Iterator[None]:
    with (
        patch.object(commit, "delete_unpublished_files", _nothing),
        patch.object(micro_batch, "delete_unpublished_files", _nothing),
    ):
        yield


def _file_read_twice() -> AbstractContextManager[Any]:
    resume = FileJournal.__init__

    def resumed(journal: FileJournal, *given: Any, **named: Any) -> None:
        resume(journal, *given, **named)
        for seen in journal.seen.values():
            for path in sorted(seen)[-1:]:
                del seen[path]

    return patch.object(FileJournal, "__init__", resumed)


def _watermark_one_too_far() -> AbstractContextManager[Any]:
    restore = WatermarkState.from_json

    def restored(values: Any) -> Any:
        watermark = restore(values)
        if watermark.current is not None:
            watermark.current += 1
        return watermark

    return patch.object(WatermarkState, "from_json", restored)


def _plan_drawn_anew() -> AbstractContextManager[Any]:
    plan = FileCheckpoint.plan

    def drawn(checkpoint: FileCheckpoint, key: str, drafted: dict[str, Any]) -> tuple[dict[str, Any], bool]:
        stored, is_new = plan(checkpoint, key, drafted)
        return {**stored, **drafted}, is_new

    return patch.object(FileCheckpoint, "plan", drawn)


def _cleaned_before_the_commit() -> AbstractContextManager[Any]:
    def commit(checkpoint: FileCheckpoint, manifest: Manifest) -> None:
        key = batch_key(manifest.batch, manifest.closing)
        before = set().union(*(kept.segments() for kept in checkpoint._kept_manifests))
        last = (
            batch_key(checkpoint._kept_manifests[-1].batch, checkpoint._kept_manifests[-1].closing)
            if checkpoint._kept_manifests
            else key
        )
        checkpoint._kept_manifests = [*checkpoint._kept_manifests, manifest][-checkpoint.keep :]
        checkpoint._clean(key, last, before)
        checkpoint.segments.sync(manifest.segments())
        checkpoint.files.write(f"manifests/{key}", manifest.to_values())

    return patch.object(FileCheckpoint, "commit", commit)


def _noted_before_it_is_done() -> AbstractContextManager[Any]:
    def batch(local: LocalRun, number: int) -> None:
        local.journal.commit(number)
        local.batch(number)

    return patch.object(LocalRun, "_run_and_note", batch)


def _answers_as_they_come() -> AbstractContextManager[Any]:
    def mapped(executor: SimulatedExecutor, function: Any, items: Any, context: Any) -> list[Any]:
        order = list(range(len(items)))
        executor.chance.shuffle(order)
        return [executor._run(function, items[at], context) for at in order]

    return patch.object(SimulatedExecutor, "map", mapped)


def _full_disk_passed_over() -> AbstractContextManager[Any]:
    write = SealedFolder.write

    def written(folder: SealedFolder, name: str, values: Any) -> None:
        with suppress(Exception):
            write(folder, name, values)

    return patch.object(SealedFolder, "write", written)


def _start_noted_last() -> AbstractContextManager[Any]:
    write, held = FileCheckpoint.write_note, []

    def written(checkpoint: FileCheckpoint, name: str, note: dict[str, Any]) -> None:
        if name == START:
            held.append(note)
            return
        write(checkpoint, name, note)
        if held:
            write(checkpoint, START, held.pop())

    return patch.object(FileCheckpoint, "write_note", written)


def _written_in_place() -> AbstractContextManager[Any]:
    def written(folder: SealedFolder, name: str, values: Any) -> None:
        with folder.filesystem.open_output_stream(folder.path(name), compression=None) as sink:
            sink.write(seal(json.dumps(values)))
        sync_file(folder.path(name))

    return patch.object(SealedFolder, "write", written)


def _clock_goes_back() -> AbstractContextManager[Any]:
    return patch.object(CheckpointedRun, "_now", lambda run: run.options.clock())


def _segments_are_believed() -> AbstractContextManager[Any]:
    return patch.object(FileSegments, "verify", _nothing)


def _watermark_too_far() -> AbstractContextManager[Any]:
    compute = WaterMarkEventGenerator.compute

    def one_more(generator: WaterMarkEventGenerator) -> int | None:
        watermark = compute(generator)
        return None if watermark is None else watermark + 1

    return patch.object(WaterMarkEventGenerator, "compute", one_more)


def _forgotten_while_moving() -> AbstractContextManager[Any]:
    divided = TaskMove._divide_queues

    def forgetting(move: TaskMove) -> Any:
        move.old_tasks = move.old_tasks[: max(len(move.old_tasks) - 1, 1)]
        return divided(move)

    return patch.object(TaskMove, "_divide_queues", forgetting)


def _moved_to_the_next_task() -> AbstractContextManager[Any]:
    found = Route.tasks_of_rows

    def of_rows(route: Route, *given: Any) -> Any:
        return (found(route, *given) + 1) % route.parallelism

    return patch.object(Route, "tasks_of_rows", of_rows)


def _moved_without_sync() -> AbstractContextManager[Any]:
    def replaced(checkpoint: FileCheckpoint, manifest: Manifest, notes: Mapping[str, Any]) -> None:
        checkpoint.files.write(f"manifests/{batch_key(manifest.batch, manifest.closing)}", manifest.to_values())
        for name, note in notes.items():
            checkpoint.files.write(name, note)

    return patch.object(FileCheckpoint, "replace", replaced)


def _deleted_while_moving() -> AbstractContextManager[Any]:
    replace = FileCheckpoint.replace

    def replaced(checkpoint: FileCheckpoint, manifest: Manifest, notes: Mapping[str, Any]) -> None:
        before = checkpoint.manifest(batch_key(manifest.batch, manifest.closing))
        for segment in before.segments() - manifest.segments():
            delete(checkpoint._fs, f"{checkpoint.root}/segments/{segment}", missing_ok=True)
        replace(checkpoint, manifest, notes)

    return patch.object(FileCheckpoint, "replace", replaced)


def _claimed_without_condition() -> AbstractContextManager[Any]:
    def created(uri: str, path: str, data: bytes) -> bool:
        object_store.write_object(uri, path, data)
        return True

    return patch.object(object_store, "create_object", created)


@contextmanager
def _loss_not_told() -> Iterator[None]:
    name = "telling_who_took_over"
    with patch.object(opening, name, nullcontext), patch.object(checkpointed_run, name, nullcontext):
        yield


@contextmanager
def _own_answer_not_known() -> Iterator[None]:
    create, read = object_store.create_object, object_store.read_object

    def created(uri: str, path: str, data: bytes) -> bool:
        with patch.object(object_store, "read_object", _nothing):
            return create(uri, path, data)

    # Several drivers may be within a call at a time, which then do not undo the patch in there in order.
    with patch.object(object_store, "read_object", read), patch.object(object_store, "create_object", created):
        yield


MUTANTS: dict[str, Mutant] = {
    "segments are not synced": lambda: patch.object(FileSegments, "sync", _nothing),
    "files of sinks are not synced": lambda: patch.object(commit, "sync_file", _nothing),
    "documents are not synced": lambda: patch.object(sealed_files, "sync_file", _nothing),
    "Spark's logs are not synced": lambda: patch.object(spark_checkpoint, "sync_file", _nothing),
    "files that a dead run has not named stay so": lambda: patch.object(commit, "publish", _nothing),
    "drafts of documents are not swept": lambda: patch.object(SealedFolder, "sweep", _nothing),
    "drafts of Spark's logs are not swept": lambda: patch.object(SparkCheckpoint, "sweep", _nothing),
    "drafts of sinks are not deleted": _drafts_are_kept,
    "a file is read twice": _file_read_twice,
    "a watermark is restored one too far": _watermark_one_too_far,
    "a plan is drawn anew": _plan_drawn_anew,
    "what a dead run has noted is not its batch": lambda: patch.object(FileJournal, "_is_already_noted", _nothing),
    "old state is not deleted": lambda: patch.object(FileCheckpoint, "_clean", _nothing),
    "old state is deleted before the commit": _cleaned_before_the_commit,
    "a batch is noted before it is done": _noted_before_it_is_done,
    "answers are given to the wrong tasks": _answers_as_they_come,
    "a full disk is passed over": _full_disk_passed_over,
    "a failing disk is not put into words": lambda: patch.object(files, "as_storage_error", lambda *_: nullcontext()),
    "a note is written before the one that it needs": _start_noted_last,
    "documents are written in place": _written_in_place,
    "the clock goes back": _clock_goes_back,
    "folders of a checkpoint are listed as before": lambda: patch.object(
        paired_checkpoint, "refresh_listings", _nothing
    ),
    "folders of sinks are listed as before": lambda: patch.object(commit, "refresh_listing", _nothing),
    "checkpoints are not locked": lambda: patch.object(FolderLock, "_take", _nothing),
    "checksums of segments are not compared": _segments_are_believed,
    "files of sinks stay when it goes back": lambda: patch.object(going_back, "_set_aside_sink_files", _nothing),
    "watermarks are one too far": _watermark_too_far,
    "the fastest input moves the watermark": lambda: _rewritten(
        WaterMarkEventGenerator, "compute", watermarks, "min(", "max("
    ),
    "an event at its tolerance is late": _late_at_the_tolerance,
    "an event at the end of its last window is between windows": _events_at_an_end_are_between_windows,
    "a run that has lost deletes drafts of the winner": lambda: _rewritten(
        commit, "_is_unpublished", commit, "epoch_of(base) <= epoch", "epoch_of(base) >= 0"
    ),
    "names of documents are not synced": lambda: patch.object(sealed_files, "sync_names", _nothing),
    "names of segments are not synced": lambda: patch.object(segment_files, "sync_names", _nothing),
    "names of Spark's logs are not synced": lambda: patch.object(spark_checkpoint, "sync_names", _nothing),
    "names of sinks' files are not synced": lambda: patch.object(commit, "sync_names", _nothing),
    "names that a dead run left are not synced": lambda: patch.object(checkpointed_run, "sync_folders_below", _nothing),
    "the queue of a task is not moved": _forgotten_while_moving,
    "events are moved to the wrong task": _moved_to_the_next_task,
    "segments are not synced before a move": _moved_without_sync,
    "old segments are deleted before a move": _deleted_while_moving,
    "what cannot be moved is moved": lambda: patch.object(rescale, "check_movable", _nothing),
    "a claim is not conditional": _claimed_without_condition,
    "a run that has lost deletes segments of the winner": lambda: patch.object(checkpoint, "epoch_of", lambda name: 0),
    "a run that has lost finds damage": _loss_not_told,
    "an answer that was lost is not known again": _own_answer_not_known,
    "a closing is not finished first": lambda: patch.object(CheckpointedRun, "_finish_closing", _nothing),
}

MOST = 2_000
"""Within so many seeds each planted defect is found."""


def file_of(name: str) -> Path:
    """The file of a case in which the simulation finds a planted defect."""
    return PLANTED / f"{re.sub('[^a-z0-9]+', '-', name.lower())}.yaml"


def plant(name: str, first: int = 0) -> Case:
    """A small case in which the defect is found, from the first seed that finds it; AssertionError where none does."""
    with MUTANTS[name]():
        found = next((played for seed in range(first, MOST) if (played := play(seed)).problems), None)
        assert found is not None, f"{name}: no seed up to {MOST} finds it"
        return shrunk(found).case.titled(name)
