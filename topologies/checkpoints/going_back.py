"""Inspecting a checkpoint, going back to an earlier batch, and resetting some of its bolts."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import pyarrow.fs as pafs

from manager.accounts import Accounts
from manager.storage.checkpoint import FileCheckpoint, kept_batches, read_manifest, read_plan
from manager.storage.files import (
    UNREADABLE,
    delete_folder,
    make_folder,
    move,
    path_exists,
    refresh_listing,
    storage_errors_during,
    sync_folders_below,
    sync_names,
)
from manager.storage.manifest import BoltState, Manifest, batch_key, batch_name, batch_number
from manager.storage.segment_files import FileSegments
from manager.storage.task_state import TaskState
from topologies.checkpoints.paired_checkpoint import (
    GOING_BACK,
    RESETTING,
    START,
    START_OVER,
    TOPOLOGY,
    PairedCheckpoint,
    advice,
    back_to_command,
    check_before_claim,
    check_beginning_complete,
    check_halves,
    check_whole,
    claim_back_to,
    claim_checkpoint,
    keeping_runs_off,
    naming_a_way_back,
    telling_who_took_over,
    whole_batches,
)
from topologies.checkpoints.spark_checkpoint import write_spark_file
from topologies.checkpoints.topology_fit import (
    SINKS,
    SinkNote,
    differences,
    note_change,
    read_rules,
    read_sinks,
    without_bolts,
)
from topologies.engine.commit import batch_of_file, later_files, next_batches, refuse_later_files
from topologies.engine.fire.task_families import family_of
from topologies.graph.bolt_rules import TopologyRules
from topologies.graph.graph import Graph, WindowedNode
from topologies.io.paths import locate
from windowing.errors import CheckpointError, ConfigError, WindboltError, did_you_mean
from windowing.timestamps import show

# Inspects a checkpoint: its content, and the integrity of every file.


Result = TypeVar("Result")


@dataclass(frozen=True)
class BatchInspection:
    """The state after one batch."""

    name: str
    """Name of the batch: ``7``, or ``7-close`` for the closing batch after batch 7."""
    manifest: Manifest | None
    """Manifest of the batch; None if it is damaged."""
    sections: int = 0
    """Number of segment sections in this state."""
    size: int = 0
    """Total size of these sections in bytes."""
    trouble: str = ""
    """Reason why the run cannot go back to this batch; empty if it can."""

    def to_json(self) -> dict[str, Any]:
        """Returns plain JSON values."""
        found = self.manifest
        return {
            "batch": self.name,
            "whole": not self.trouble,
            "trouble": self.trouble or None,
            "clock": None if found is None or found.clock is None else show(found.clock),
            "sections": self.sections,
            "bytes": self.size,
            "bolts": {} if found is None else {name: _bolt_as_json(bolt) for name, bolt in found.bolts.items()},
            "spouts": {} if found is None else found.spouts,
        }


@dataclass
class CheckpointInspection:
    """Contents of a checkpoint."""

    path: str
    topology: str | None = None
    query: str | None = None
    """Id of the query, which both halves contain."""
    spark_batches: tuple[int, int] | None = None
    """The last batch planned in Spark's half, and the last one done there; -1 for none."""
    size: int = 0
    """The bytes of all its files."""
    batches: list[BatchInspection] = field(default_factory=list)
    """The kept batches, in order."""
    planned: list[str] = field(default_factory=list)
    """Batches that were begun, but not committed."""
    sinks: list[dict[str, Any]] = field(default_factory=list)
    damage: list[tuple[str, str]] = field(default_factory=list)
    """Damaged parts, each with the reason why it counts as damaged."""
    refused: str = ""
    """Reason why the next run will not continue; empty if it will."""
    advice: str = ""
    """Advice on the damage."""

    def to_json(self) -> dict[str, Any]:
        """Returns plain JSON values."""
        return {
            "checkpoint": self.path,
            "topology": self.topology,
            "query": self.query,
            "spark": self.spark_batches and dict(zip(("planned", "done"), self.spark_batches, strict=True)),
            "bytes": self.size,
            "batches": [batch.to_json() for batch in self.batches],
            "planned": self.planned,
            "sinks": self.sinks,
            "damage": [{"what": what, "why": why} for what, why in self.damage],
            "goes_on": not self.refused,
            "refused": self.refused or None,
            "do": self.advice or None,
        }


def inspect(halves: PairedCheckpoint) -> CheckpointInspection:
    """Reads and checks every file of a checkpoint; changes nothing."""
    return _Inspection(halves).inspection


class _Inspection:
    def __init__(self, halves: PairedCheckpoint) -> None:
        self.halves, self.inspection = halves, CheckpointInspection(halves.path)
        self.segments = FileSegments(f"{halves.documents.root}/segments", halves.uri)
        self.inspection.size = sum(entry.size or 0 for entry in self._all_files())
        self._notes()
        self._batches()
        self._plans()
        self._spark()
        try:
            self._check_next_run()
        except UNREADABLE as error:
            self.inspection.refused, self.inspection.advice = _error_in_words(error), error.do or advice(halves)

    def _notes(self) -> None:
        inspection, documents = self.inspection, self.halves.documents
        note = self._read_or_note_damage(lambda: documents.read(TOPOLOGY))
        inspection.topology = None if note is None else note["name"]
        for name in (START, GOING_BACK):
            self._read_or_note_damage(lambda name=name: documents.read(name))  # type: ignore[misc]
        inspection.sinks = self._read_or_note_damage(lambda: read_sinks(documents)) or []
        inspection.query = self._read_or_note_damage(self.halves.spark_checkpoint.query)

    def _batches(self) -> None:
        for key in kept_batches(self.halves.documents):
            manifest = self._read_or_note_damage(lambda key=key: read_manifest(self.halves.documents, key))  # type: ignore[misc]
            refs = {} if manifest is None else {(ref.segment, ref.offset): ref for ref in manifest.refs()}
            for ref in refs.values():
                self._read_or_note_damage(lambda ref=ref: self.segments.check(ref))  # type: ignore[misc]
            trouble = ""
            try:
                check_whole(self.halves, key)
            except UNREADABLE as error:
                trouble = _error_in_words(error)
            size = sum(ref.length for ref in refs.values())
            self.inspection.batches.append(BatchInspection(batch_name(key), manifest, len(refs), size, trouble))

    def _plans(self) -> None:
        documents, done = self.halves.documents, set(self.halves.documents.names("manifests"))
        for key in documents.names("plans"):
            self._read_or_note_damage(lambda key=key: read_plan(documents, key))  # type: ignore[misc]
            if key not in done:
                self.inspection.planned.append(batch_name(key))

    def _spark(self) -> None:
        spark = self.halves.spark_checkpoint
        planned, committed = spark.offsets(), spark.commits()
        if planned or committed:
            self.inspection.spark_batches = (max(planned, default=-1), max(committed, default=-1))
        for folder in ("", "offsets", "commits", *(f"sources/{name}" for name in spark.names("sources"))):
            for name in spark.names_with_checksum(folder):
                self._read_or_note_damage(lambda name=name: spark.read(name))  # type: ignore[misc]
        last = self.halves.documents.names("manifests")[-1:]
        self._read_or_note_damage(lambda: spark.check(int(last[0].removesuffix("-close")) if last else -1))

    def _check_next_run(self) -> None:
        """Raises the error with which a run would be refused, if it does not depend on the run's topology."""
        halves, keys = self.halves, self.halves.documents.names("manifests")
        manifest = check_halves(halves)
        if manifest is not None:
            for ref in manifest.refs():
                self.segments.check(ref)
        last_key = keys[-1] if keys else batch_key(-1, True)
        for key in next_batches(last_key):
            read_plan(halves.documents, key)
        for sink in self.inspection.sinks if keys else ():
            if sink["kind"] == "files" and "last_batch" not in sink:
                filesystem, folder, _ = locate(sink["folder"])
                refuse_later_files(
                    sink["name"], filesystem, folder, last_key, lambda key: halves.documents.has(f"plans/{key}")
                )

    def _read_or_note_damage(self, read: Callable[[], Result]) -> Result | None:
        """Returns the result of ``read``; on failure, records the damage and returns None."""
        try:
            return read()
        except UNREADABLE as error:
            if (error.what, error.why) not in self.inspection.damage:
                self.inspection.damage.append((error.what, error.why))
            return None

    def _all_files(self) -> list[pafs.FileInfo]:
        found: list[pafs.FileInfo] = []
        for half in ("spark", "windbolt"):
            selector = pafs.FileSelector(f"{self.halves.root}/{half}", recursive=True, allow_not_found=True)
            with suppress(OSError):
                found.extend(self.halves.filesystem.get_file_info(selector))
        return [entry for entry in found if entry.type == pafs.FileType.File]


def _bolt_as_json(bolt: BoltState) -> dict[str, Any]:
    watermark = bolt.watermark.current
    return {
        "watermark": None if watermark is None else show(watermark),
        "accounts": bolt.accounts.totals(sum(bolt.pending)),
        "windows": bolt.totals.fired,
        "counters": dict(bolt.totals.counters),
    }


def _error_in_words(error: WindboltError) -> str:
    return f"{error.what}: {error.why}" if error.why else error.what


# Going back to an earlier batch: everything after it is set aside, in both halves of the checkpoint and at sinks.
#
# Nothing is deleted. A note records that going back has begun, and is deleted last. While it exists no run begins, and
# going back again completes the rest. So it may be interrupted at any time.


@dataclass
class Rollback:
    """Result of going back to an earlier batch."""

    batch: str
    """The batch whose state the checkpoint now has: ``7`` or ``7-close``."""
    folder: str
    """Folder with the files of the checkpoint from after this batch."""
    moved: int = 0
    """Number of these files."""
    sinks: dict[str, tuple[str, int]] = field(default_factory=dict)
    """For each folder of a sink, the new place of its later files, and their number."""
    warnings: list[str] = field(default_factory=list)
    """Things that cannot be undone, such as messages that were sent."""


def go_back(halves: PairedCheckpoint, key: str) -> Rollback:
    """Goes back to the state after a batch, so that the next run repeats the batches after it.

    The caller has locked the checkpoint. Raises CheckpointError, and changes nothing, if that is not possible.
    """
    with storage_errors_during("looking at what can be gone back to", "nothing was changed"):
        _check_can_go_back(halves, key)
    with storage_errors_during(f"going back to batch {batch_name(key)}", "what is left to do is done then"):
        return _go_back(halves, key)


def _go_back(halves: PairedCheckpoint, key: str) -> Rollback:
    documents = halves.documents
    earlier_folder = _folder_of_attempt(halves, key)
    folder = f"after-{batch_name(key)}-{uuid.uuid4().hex[:8]}" if earlier_folder is None else earlier_folder
    documents.write(GOING_BACK, {"to": key, "aside": folder})
    claim_back_to(halves, key)
    done = Rollback(batch_name(key), f"{halves.root}/set-aside/{folder}")
    names = [*documents.names("manifests"), *documents.names("plans")]
    undone_batches = sorted({name for name in names if name > key})
    _set_aside_spark_half(halves, key, done)
    _set_aside_own_half(halves, key, done)
    _set_aside_sink_files(halves, key, folder, undone_batches, done)
    if halves.uri is None:  # the moves must survive a power cut before the note is deleted
        sync_folders_below(halves.root)
    documents.delete(GOING_BACK)
    documents.sync()
    note_change(documents, f"gone back to batch {done.batch}")
    done.folder = f"{halves.place}/set-aside/{folder}"
    return done


def _check_can_go_back(halves: PairedCheckpoint, key: str) -> None:
    check_beginning_complete(halves)
    keys = kept_batches(halves.documents)
    try:
        check_whole(halves, key)
    except UNREADABLE as error:
        batches = list(whole_batches(halves))
        other_batches = f"it can be gone back to {' or '.join(map(batch_name, batches))}" if batches else ""
        kept = key in keys
        raise CheckpointError(
            f"checkpoint {halves.path!r} cannot go back to batch {batch_name(key)}",
            why=f"{error.what}: {error.why}" if kept else f"its manifest is missing: {_kept_batches_in_words(keys)}",
            do=f"{other_batches}; or {START_OVER}"
            if other_batches
            else f"restore the whole checkpoint from one copy, or {START_OVER}",
        ) from error


def _kept_batches_in_words(keys: list[str]) -> str:
    if not keys:
        return "no batch has been committed"
    return f"kept are {', '.join(map(batch_name, keys))} (--keep-batches of a run says how many)"


def _folder_of_attempt(halves: PairedCheckpoint, key: str) -> str | None:
    """Returns the folder where an earlier attempt has set files aside. Raises CheckpointError if that attempt was to go
    back further."""
    try:
        note = halves.documents.read(GOING_BACK)
    except UNREADABLE:
        return None  # the name of a batch is enough
    if note is None:
        return None
    if note["to"] < key:
        raise CheckpointError(
            f"checkpoint {halves.path!r} is still going back to batch {batch_name(note['to'])}",
            why=f"some of what batch {batch_name(key)} needs may have been set aside already",
            do=f"complete that first: {back_to_command(halves, note['to'])}",
        )
    return str(note["aside"])


def _set_aside_spark_half(halves: PairedCheckpoint, key: str, done: Rollback) -> None:
    spark, batch = halves.spark_checkpoint, batch_number(key)
    if batch >= 0:
        for source, last in spark.last_entries(batch).items():
            for number in spark.missing(source, last):
                path, text = f"{spark.root}/sources/{source}/{number}", spark.restored_entry(source, number)
                # The checksum of its former content may still exist.
                write_spark_file(halves.filesystem, path, text, with_checksum=halves.uri is None)
    for name in list(spark.after(batch)):
        folder, _, base = name.rpartition("/")
        for each in (name, f"{folder}/.{base}.crc"):
            _move(halves.filesystem, f"{spark.root}/{each}", f"{done.folder}/spark/{each}", done)


def _set_aside_own_half(halves: PairedCheckpoint, key: str, done: Rollback) -> None:
    documents, filesystem = halves.documents, halves.filesystem
    for folder in ("plans", "manifests"):
        for batch in documents.names(folder):
            if batch > key:
                path = documents.path(f"{folder}/{batch}")
                _move(filesystem, path, f"{done.folder}/windbolt/{folder}/{batch}.json", done)
    for batch in documents.entries("segments"):
        if batch > key:
            for base in documents.entries(f"segments/{batch}"):
                path = f"segments/{batch}/{base}"
                _move(filesystem, f"{documents.root}/{path}", f"{done.folder}/windbolt/{path}", done)
            delete_folder(filesystem, f"{documents.root}/segments/{batch}")


def _set_aside_sink_files(
    halves: PairedCheckpoint, key: str, aside: str, undone_batches: list[str], done: Rollback
) -> None:
    notes: list[SinkNote] = []
    try:
        notes = read_sinks(halves.documents)
    except UNREADABLE as error:
        done.warnings.append(
            f"{error.what}: where sinks write is not known, and their files stay. The next run refuses to write beside "
            "those of later batches, and names them; to go back once more, after that, sets them aside"
        )
        halves.documents.delete(SINKS)
    for note in notes:
        if note["kind"] != "files":
            continue
        folder, last_batch = note["folder"], note.get("last_batch")
        filesystem, inside, _ = locate(folder)
        if isinstance(filesystem, pafs.LocalFileSystem):
            refresh_listing(inside)
        later = later_files(filesystem, inside, key)
        if last_batch is not None:
            later = [base for base in later if batch_number(batch_of_file(base) or key) <= last_batch]
        target = f"{inside}/.{aside}"
        for base in later:
            make_folder(filesystem, target)
            move(filesystem, f"{inside}/{base}", f"{target}/{base}")
        if later and isinstance(filesystem, pafs.LocalFileSystem):
            sync_names(target, inside)
        if later:
            done.sinks[folder] = (target, len(later))
    words = {
        "kafka": "has sent the records of {}; they stay in their topics, and are sent again as batches come again",
        "function": "has been called with {}; what it did stays, and it is called again",
        "table": "has appended {} to the table {}; these rows stay. The next run refuses to append such a batch again "
        "until the table is restored, and says how",
    }
    if undone_batches:
        span = " to ".join(batch_name(name) for name in dict.fromkeys((undone_batches[0], undone_batches[-1])))
        for note in notes:
            if note["kind"] in words:
                words_of_sink = words[note["kind"]].format(f"batch {span}", note.get("table"))
                done.warnings.append(f"sink {note['name']!r} {words_of_sink}")


def _move(filesystem: pafs.FileSystem, source: str, target: str, done: Rollback) -> None:
    if not path_exists(filesystem, source):
        return
    make_folder(filesystem, target.rsplit("/", 1)[0])
    move(filesystem, source, target)
    done.moved += 1


# Resets bolts of a checkpoint, to another topology; the other bolts continue.
#
# On this machine the state of several bolts and the note about the topology cannot be replaced in one step. A note
# records that a reset has begun, and is deleted last. While it exists no run begins, and resetting again completes the
# rest. Elsewhere one entry of the log replaces both.


@dataclass
class Reset:
    """Result of a reset."""

    batch: str | None
    """The last committed batch, whose state was reset; None if no batch has been committed yet."""
    discarded: dict[str, int] = field(default_factory=dict)
    """For each bolt that was reset or removed, the number of its events that were in no window yet. They are now
    purged."""
    warnings: list[str] = field(default_factory=list)
    """Sinks whose function may have been called with a batch that will come with other rows."""


def reset_bolts(halves: PairedCheckpoint, names: Collection[str], topology: Graph) -> Reset:
    """Resets bolts after the last batch of a checkpoint, which the caller has locked.

    ``topology``: the one to continue with. It may differ from the checkpoint's only in the named bolts, which may be
    new or removed, and in columns of spouts that only these bolts read. Otherwise raises ConfigError or CheckpointError
    before anything is written.
    """
    with naming_a_way_back(halves):
        manifest = _check_reset(halves, names, topology, check_before_claim)
        checkpoint = claim_checkpoint(halves, "windbolt reset")
        with telling_who_took_over(checkpoint):
            if halves.uri is not None:
                manifest = _check_reset(halves, names, topology, check_halves)
            with storage_errors_during("letting bolts start over", "reset them once more; until then no run begins"):
                return _reset(halves, checkpoint, names, manifest, topology)


def _check_reset(
    halves: PairedCheckpoint,
    names: Collection[str],
    topology: Graph,
    check: Callable[..., Manifest | None],
) -> Manifest | None:
    """Returns the last manifest. Raises ConfigError or CheckpointError if the bolts cannot be reset."""
    with storage_errors_during("looking at what is to start over", "nothing was changed"):
        manifest = check(halves, resetting=True)
        stored_rules = read_rules(halves)
    present_rules = TopologyRules.of(topology)
    if stored_rules is None:
        raise CheckpointError(
            f"checkpoint {halves.path!r} holds nothing yet", why="no run has begun on it", do="run the topology on it"
        )
    _check_names(names, stored_rules, present_rules)
    _check_rest(halves, names, stored_rules, present_rules, topology)
    return manifest


def _reset(
    halves: PairedCheckpoint,
    checkpoint: FileCheckpoint,
    names: Collection[str],
    manifest: Manifest | None,
    topology: Graph,
) -> Reset:
    done = Reset(None if manifest is None else batch_name(batch_key(manifest.batch, manifest.closing)))
    after = None if manifest is None else Manifest.from_values(manifest.to_values())
    if after is not None:
        for name in names:
            before = after.bolts.pop(name, None)
            done.discarded[name] = 0 if before is None else sum(before.pending)
            if name in topology.windowed:
                after.bolts[name] = _bolt_before_first_event(topology.windowed[name], before)
        after.bolts = {name: after.bolts[name] for name in topology.windowed}
    with keeping_runs_off(halves, RESETTING, {"bolts": sorted(names)}):
        last = batch_key(-1, True) if manifest is None else batch_key(manifest.batch, manifest.closing)
        for key in filter(checkpoint.planned, next_batches(last)):
            checkpoint.change_run_in_plan(key)
            done.warnings += _warnings_about_functions(halves, key)
        # Earlier batches have bolt states of the previous topology.
        checkpoint.replace(after, {TOPOLOGY: TopologyRules.of(topology).to_json()}, forget_earlier=True)
    note_change(halves.documents, f"started over: {', '.join(sorted(names))}")
    return done


def _warnings_about_functions(halves: PairedCheckpoint, key: str) -> Iterator[str]:
    """Yields a warning for each sink whose function may already have been called with a batch that was begun. A record
    or table row gets another id then, but a function sees only the number of the batch."""
    with suppress(*UNREADABLE):
        for note in read_sinks(halves.documents):
            if note["kind"] == "function":
                yield (
                    f"sink {note['name']!r} may have been called with batch {batch_name(key)}; it is called with it "
                    "again, and other rows, which it must not take for those that it has"
                )


def _bolt_before_first_event(node: WindowedNode, before: BoltState | None) -> BoltState:
    """Returns a bolt before its first event, except for its counts, which never go back."""
    tasks = [TaskState(family_of(node).fresh()) for _ in range(node.parallelism)]
    if before is None:
        return BoltState(Accounts(node.streams), tasks)
    counts_by_stream = before.accounts.all_by_stream(before.pending)
    for counts in counts_by_stream.values():
        counts["purged"] += counts.pop("pending")
    columns = next(iter(counts_by_stream.values()), {})
    now = {name: [counts_by_stream.get(stream, {}).get(name, 0) for stream in node.streams] for name in columns}
    tasks[0] = replace(tasks[0], bolt=before.totals)
    return BoltState(Accounts(node.streams, now), tasks)


def _check_names(names: Collection[str], stored_rules: TopologyRules, present_rules: TopologyRules) -> None:
    bolts = {**stored_rules.bolts, **present_rules.bolts}
    for name in names:
        if name not in bolts:
            raise ConfigError(
                f"there is no windowed bolt {name!r}{did_you_mean(name, bolts)}",
                why=f"the checkpoint and the topology have {', '.join(bolts) or 'none'}; others keep nothing",
                do="name one of these",
            )


def _check_rest(
    halves: PairedCheckpoint,
    names: Collection[str],
    stored_rules: TopologyRules,
    present_rules: TopologyRules,
    topology: Graph,
) -> None:
    """Raises CheckpointError if anything but the named bolts differs."""
    before, after = (without_bolts(note, names) for note in (stored_rules, present_rules))
    changed = differences(before, after)
    heartbeat = topology.needs_heartbeat
    beats = halves.spark_checkpoint.has_heartbeat(len(present_rules.spouts))
    if not changed and beats is not None and beats != heartbeat:
        changed = [
            "windows follow the clock now, and none did before" if heartbeat else "no window follows the clock any more"
        ]
    if changed:
        raise CheckpointError(
            f"checkpoint {halves.path!r} cannot continue with this topology:\n"
            + "\n".join(f"  - {each}" for each in changed),
            why=f"only {', '.join(map(repr, names))} may differ; all else continues with what it has",
            do=f"name the other bolts too, leave the rest as it was, or {START_OVER}",
        )
