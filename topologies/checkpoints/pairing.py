"""The two halves of a checkpoint, Spark's and ours: that they belong together, and to this topology."""

from __future__ import annotations

import fcntl
import os
import shlex
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import IO, Any

import pyarrow as pa

from manager.outside.place_names import hadoop_name
from manager.outside.transient import is_transient
from manager.storage.batch_keys import batch_key, batch_name
from manager.storage.checkpoint import KEPT_BATCHES, FileCheckpoint
from manager.storage.file_systems.files import is_there
from manager.storage.file_systems.storage_errors import UNREADABLE, as_storage_error, system_reason
from manager.storage.manifest import Manifest
from manager.storage.sealed_folder import SealedFolder
from manager.storage.segments.file_segments import FileSegments
from manager.storage.turns import Owner
from manager.storage.verified_reads import check_batch, check_not_begun, read_manifest
from topologies.checkpoints.fingerprint import differences, fingerprint, parallelism_in, with_parallelism
from topologies.checkpoints.notes.sinks_note import note_sinks
from topologies.checkpoints.notes.timing_note import note_timing
from topologies.checkpoints.rescaling.movable import note_movable
from topologies.checkpoints.spark_half.source_log import SourceLog
from topologies.checkpoints.spark_half.spark_half import SparkHalf
from topologies.engine.commit.sink_folders import next_batches
from topologies.io.paths import locate
from topologies.run.attempts import Attempts
from topologies.run.checkpoint_name import check_named
from topologies.run.clock import system_clock
from topologies.topology import Topology
from windowing.errors import CheckpointError, DamagedCheckpoint, TakenOver
from windowing.time.timestamps import show

TOPOLOGY, START = "topology", "start"
"""Notes about the whole checkpoint: which topology it belongs to, and where its first run began."""
GOING_BACK = "going-back"
"""The note that somebody goes back to an earlier batch; while it is there, no run begins."""


RESETTING = "resetting"
"""The note that bolts are about to start anew; while it is there, no run begins."""
SAVEPOINT = "savepoint"
"""The note of a savepoint; while it says that this is not complete, no run begins."""


def _batches_of_spark(planned: list[int], committed: list[int]) -> str:
    return f"Spark's half has batches up to {max(planned + committed, default=-1)}"


def _this_process(run: str = "") -> Owner:
    return Owner(f"process {os.getpid()} on {socket.gethostname()}", system_clock(), run)


class PairedCheckpoint:
    """A checkpoint folder: ``spark/`` is Spark's, ``windbolt/`` is ours."""

    def __init__(self, path: str) -> None:
        check_named(path)
        self.path = path.rstrip("/") or "/"
        with self._reached():
            self.filesystem, self.root, uri = locate(self.path)
            if uri is not None:
                self.filesystem.get_file_info(self.root)
        self.spark = f"{hadoop_name(uri).rstrip('/')}/spark" if uri else f"{self.root}/spark"
        self.uri = uri
        self._held: IO[str] | None = None
        self._ours: FileCheckpoint | None = None
        """Our half, once this process has opened it."""
        self.files = SealedFolder(f"{self.root}/windbolt", self.filesystem, uri)
        self.spark_half = SparkHalf(self.filesystem, f"{self.root}/spark")
        self.first_output: int | None = None
        """Where the run that made the checkpoint started, in microseconds, if that was at the time of an output."""

    @contextmanager
    def _reached(self) -> Iterator[None]:
        """What keeps a file system from being reached is no defect, and nothing has been written yet."""
        try:
            yield
        except (OSError, pa.ArrowException) as error:
            raise CheckpointError(
                f"checkpoint {self.path!r} cannot be reached",
                why=system_reason(error),
                do="check its address, the network and the credentials of this user, or name a folder on this machine",
                transient=is_transient(error),
            ) from error

    def lock(self) -> None:
        """Keep other runs off this checkpoint until ``release``, or the end of this process; local folders only."""
        if self.uri is not None:
            return
        with as_storage_error(f"checkpoint {self.path}", "written to"):
            self._held = self._open_lock()
            self._take(self._held, fcntl.LOCK_EX)
            self._held.truncate(0)
            self._held.write(f"process {os.getpid()}")
            self._held.flush()

    def _open_lock(self) -> IO[str]:
        try:
            self.filesystem.create_dir(self.root, recursive=True)
            return open(f"{self.root}/.lock", "a+", encoding="utf-8", errors="replace")
        except (PermissionError, FileExistsError, FileNotFoundError, NotADirectoryError) as error:
            raise CheckpointError(
                f"checkpoint {self.path!r} cannot be made or written to",
                why=system_reason(error),
                do="name a folder that this user may write to",
            ) from error

    def lock_to_look(self) -> None:
        """Keep runs off this checkpoint, and write nothing."""
        if self.uri is None:
            with suppress(OSError):  # nobody has locked it yet, or it is a copy on which nobody runs
                self._held = open(f"{self.root}/.lock", encoding="utf-8", errors="replace")  # noqa: SIM115
            if self._held is not None:
                self._take(self._held, fcntl.LOCK_SH)

    def _take(self, held: IO[str], kind: int) -> None:
        try:
            fcntl.flock(held, kind | fcntl.LOCK_NB)
        except OSError as error:
            held.seek(0)
            owner = held.read().strip() or "another process"
            held.close()
            own = owner == f"process {os.getpid()}"
            raise CheckpointError(
                f"checkpoint {self.path!r} is in use by {owner}",
                why="two runs on one checkpoint would delete each other's state",
                do=f"stop the other run{' (windbolt.runs() has those in the background)' if own else ''}, "
                "or give this one a checkpoint of its own",
            ) from error

    def release(self) -> None:
        """Let other runs have this checkpoint."""
        if self._held is not None:
            self._held.close()

    def open(
        self,
        topology: Topology,
        first_output: int | None = None,
        keep: int = KEPT_BATCHES,
        attempts: Attempts | None = None,
    ) -> FileCheckpoint:
        """Our half; CheckpointError, with what to do, where it does not fit the other, the topology or the start.

        Where no lock keeps others off, a run that has it loses it to this one; but a further attempt of a run that had
        it takes it from no other run. ``first_output``: where the run is to start; None: at its input, or where the run
        before it did. ``keep``: so many of the last batches are kept.
        """
        fresh = self.uri is None and self._missing("windbolt")
        with self.way_back(), self.telling_who_took_over():
            ours = self._opened(topology, first_output, keep, attempts or Attempts())
        if fresh:
            for half in ("windbolt", "spark"):  # nobody else comes past these, whatever the files in them allow
                with as_storage_error(f"{self.root}/{half}", "made"):
                    os.makedirs(f"{self.root}/{half}", exist_ok=True)
                    os.chmod(f"{self.root}/{half}", 0o700)
        return ours

    def _opened(self, topology: Topology, first_output: int | None, keep: int, attempts: Attempts) -> FileCheckpoint:
        manifest = self._check_unclaimed(topology, first_output)
        ours = FileCheckpoint(self.files.root, self.uri, keep)
        self._ours = ours
        if self.uri is not None:
            ours.claim(_this_process(attempts.token), again=attempts.has_claimed)
            attempts.has_claimed = True
            manifest = self.check_halves()
        ours.latest()
        note = ours.read_note(TOPOLOGY)
        if note is None:
            self.first_output = first_output
            ours.write_note(START, {"first_output": first_output})  # first: where the other is, this is
            ours.write_note(TOPOLOGY, fingerprint(topology))
        else:
            self._check_topology(topology, note)
            self.first_output = (ours.read_note(START) or {})["first_output"]
            self._check_start(first_output)
        note_timing(self.files, topology)
        if self.uri is None:
            note_movable(self.files, topology)
        note_sinks(self.files, topology, -1 if manifest is None else manifest.batch)
        return ours

    def _check_unclaimed(self, topology: Topology, first_output: int | None) -> Manifest | None:
        """Nothing has been written when this refuses. In a store another run may go on meanwhile: what it may change is
        checked when it cannot any more, and it loses the checkpoint only to a run that fits."""
        if self.uri is None:
            return self.check_halves()
        self._check_ours_is_there()
        self.check_fit(topology, first_output)
        return None

    def claim(self, back_to: str) -> None:
        """Take the checkpoint from a run that may have it, where no lock keeps it off; the state is that of a batch."""
        if self.uri is not None:
            FileCheckpoint(self.files.root, self.uri).claim(_this_process(), back_to)

    def check_fit(self, topology: Topology, first_output: int | None = None, *, allow_rescale: bool = False) -> None:
        """CheckpointError where there is a checkpoint, and it is another topology's, or began at another output.

        Nothing is locked or written: ``open`` checks this again, when an engine has started. ``allow_rescale``: other
        numbers of tasks are let pass; whoever runs moves the state.
        """
        with self.way_back():
            note = self.files.read(TOPOLOGY)
            if note is not None:
                self._check_topology(topology, note, allow_rescale=allow_rescale)
                self.first_output = (self.files.read(START) or {"first_output": first_output})["first_output"]
                self._check_start(first_output)

    def check_halves(self, *, resetting: bool = False) -> Manifest | None:
        """The last manifest; CheckpointError where the halves do not belong together, or a part of them is missing."""
        query, planned, committed = self._check_ours_is_there()
        reset = self.files.read(RESETTING)
        if reset is not None and not resetting:
            bolts = " ".join(map(shlex.quote, reset["bolts"]))
            raise CheckpointError(
                f"bolts of checkpoint {self.path!r} are still to start anew: {', '.join(reset['bolts'])}",
                why="their reset was begun and did not complete",
                do=f"complete it: windbolt reset {shlex.quote(self.path)} {bolts} --topology FILE:NAME",
            )
        going = self.files.read(GOING_BACK)
        if going is not None:
            raise CheckpointError(
                f"checkpoint {self.path!r} is still going back to batch {batch_name(going['to'])}",
                why="going back was begun and did not complete",
                do=f"complete it: {self.command(going['to'])}",
            )
        committed_keys = self.files.names("manifests")
        manifest = read_manifest(self.files, committed_keys[-1]) if committed_keys else None
        if self.files.read(TOPOLOGY) is None:
            if committed_keys or planned or self.files.names("plans"):
                raise self._gone(TOPOLOGY, "which topology the checkpoint belongs to was written there")
        elif self.files.read(START) is None:
            raise self._gone(START, "where the run began was written there")
        if manifest is not None and (manifest.batch >= 0 or committed):
            self._check_query(manifest, query, max(committed, default=None))
        elif manifest is None and committed:
            raise self._refused("the windbolt half holds no batch", _batches_of_spark(planned, committed))
        self.spark_half.check(-1 if manifest is None else manifest.batch)
        for key in next_batches(committed_keys[-1] if committed_keys else batch_key(-1, True)):
            if not self.files.has(f"plans/{key}"):
                check_not_begun(self.files, key)
        return manifest

    def _check_ours_is_there(self) -> tuple[str | None, list[int], list[int]]:
        """What Spark's half has: its query, the batches that it planned, and those that it committed."""
        note = self.files.read(SAVEPOINT)
        if note is not None and not note["complete"]:
            raise CheckpointError(
                f"{self.path!r} is a savepoint that is not complete",
                why="taking it was interrupted, and some of the state may be missing",
                do=f"take it once more, which starts over: windbolt savepoint CHECKPOINT {shlex.quote(self.path)}",
            )
        query, planned, committed = self.spark_half.query(), self.spark_half.offsets(), self.spark_half.commits()
        if self._missing("windbolt") and planned + committed:
            raise self._refused("the windbolt half is missing", _batches_of_spark(planned, committed))
        return query, planned, committed

    @property
    def found(self) -> bool:
        """Whether there is a checkpoint."""
        return not (self._missing("windbolt") and self._missing("spark/offsets"))

    def check_found(self) -> None:
        """CheckpointError where there is none."""
        if not self.found:
            raise CheckpointError(
                f"{self.path!r} is not a checkpoint",
                why="it has neither of the folders spark/ and windbolt/",
                do="give the folder that was passed to --checkpoint",
            )

    @contextmanager
    def way_back(self) -> Iterator[None]:
        """Errors of the checkpoint that do not say what to do then name a batch that can be gone back to."""
        try:
            yield
        except CheckpointError as error:
            if error.do:
                raise
            raise type(error)(error.what, why=error.why, do=self.advice(), transient=error.transient) from error

    @contextmanager
    def telling_who_took_over(self) -> Iterator[None]:
        """Where another run has taken the checkpoint over, that is what is wrong: what it has changed since is no
        damage, and a query that Spark ended for its sake is not to be started again."""
        try:
            yield
        except TakenOver:
            raise
        except Exception as error:
            if self._ours is not None:
                try:
                    self._ours.check_owner()
                except TakenOver as lost:
                    raise lost from error
                except UNREADABLE:
                    pass
            raise

    def advice(self) -> str:
        """What to do about a checkpoint that is damaged."""
        anew = "start with a new checkpoint folder (which reads all input again)"
        whole = next(self.whole_batches(), None)
        if whole is None:
            return f"no batch can be gone back to; restore the whole checkpoint from one copy, or {anew}"
        return f"go back to batch {batch_name(whole)}, which is whole: {self.command(whole)}; or {anew}"

    def command(self, key: str) -> str:
        """The command that goes back to a batch."""
        return f"windbolt checkpoint {shlex.quote(self.path)} --back-to {batch_name(key)}"

    def whole_batches(self) -> Iterator[str]:
        """The batches that can be gone back to, the last one first."""
        for key in reversed(self.files.names("manifests")):
            with suppress(*UNREADABLE):
                self.check_batch(key)
                yield key

    def check_batch(self, key: str) -> None:
        """That a batch can be gone back to; CheckpointError where what that needs is damaged or gone."""
        for note in (TOPOLOGY, START):
            if self.files.read(note) is None:
                raise self._gone(note, "what it says was known once, when the checkpoint was made")
        manifest = check_batch(self.files, FileSegments(f"{self.files.root}/segments", self.uri), key)
        query = self.spark_half.query()
        if manifest.batch >= 0 and (query is None or manifest.query not in (None, query)):
            raise self._refused("its halves belong to different queries", f"{manifest.query} and {query}")
        self.spark_half.check_batch(manifest.batch)

    def source_log(self, files: tuple[str, ...], kafka: tuple[str, ...]) -> SourceLog:
        """Spark's record of what belongs to which batch; of the spouts whose sources are the first ones."""
        return SourceLog(self.filesystem, self.spark_half.root, files, kafka)

    def has_heartbeat(self, spouts: int) -> bool | None:
        """Whether a heartbeat comes after so many sources in the log; None where no batch has been planned yet."""
        planned = self.spark_half.offsets()
        if not planned:
            return None
        return len(self.spark_half.read(f"offsets/{planned[-1]}").rstrip("\n").split("\n")) - 2 > spouts

    def query(self) -> str | None:
        """The id of the query that Spark's half belongs to; None before its first start."""
        return self.spark_half.query()

    def _gone(self, note: str, why: str) -> DamagedCheckpoint:
        return DamagedCheckpoint(f"{self.files.path(note)} is gone", why=why)

    def note_parallelism(self, tasks: Mapping[str, int]) -> None:
        """Note other numbers of tasks, once a manifest has them: that is what counts where the two differ."""
        note = self.files.read(TOPOLOGY)
        if note is not None:
            self.files.write(TOPOLOGY, with_parallelism(note, tasks))

    def tasks(self) -> dict[str, int]:
        """Per windowed bolt, how many tasks it has: after the last batch or, before the first, as they were noted."""
        manifest = self._last_manifest()
        if manifest is None:
            note = self.files.read(TOPOLOGY)
            return {} if note is None else parallelism_in(note)
        return {name: len(bolt.tasks) for name, bolt in manifest.bolts.items()}

    def _last_manifest(self) -> Manifest | None:
        """That of the last batch. Where a run goes on meanwhile, the one that was listed last may be gone when it is
        read: then there is a later one."""
        keys = self.files.names("manifests")
        while keys:
            try:
                return read_manifest(self.files, keys[-1])
            except DamagedCheckpoint:
                listed, keys = keys, self.files.names("manifests")
                if keys[-1:] == listed[-1:]:
                    raise
        return None

    def wanted_tasks(self, topology: Topology) -> dict[str, int]:
        """Per bolt of which the topology wants another number of tasks than the checkpoint has: that number."""
        wanted = parallelism_in(fingerprint(topology))
        return {name: wanted[name] for name, tasks in self.tasks().items() if wanted.get(name, tasks) != tasks}

    def _check_topology(self, topology: Topology, note: dict[str, Any], *, allow_rescale: bool = False) -> None:
        now = fingerprint(topology)
        known = with_parallelism(note, parallelism_in(now) if allow_rescale else self.tasks())
        changed = differences(known, now)
        if changed:
            again = "start with a new checkpoint folder (which reads all input again)"
            only = not differences(with_parallelism(note, parallelism_in(now)), now)
            move = "move its state to the tasks that there are now (--allow-rescale, or windbolt rescale), "
            raise CheckpointError(
                f"checkpoint {self.path!r} belongs to another topology:\n"
                + "\n".join(f"  - {each}" for each in changed),
                why="its events were distributed and stored for the topology as it was then",
                do=f"run the topology as it was, {move if only else ''}or {again}",
            )

    def _check_start(self, wanted: int | None) -> None:
        started = self.first_output
        if wanted is None or wanted == started:
            return
        was = "without one" if started is None else f"with the one at {show(started)}"
        go_on = "leave it out to go on as before"
        raise CheckpointError(
            f"checkpoint {self.path!r} cannot have its first output at {show(wanted)}: it was begun {was}",
            why="what was read and emitted so far depends on the first output",
            do=f"{go_on}; or start with a new checkpoint folder (which reads all input again)",
        )

    def _check_query(self, manifest: Manifest, query: str | None, committed: int | None) -> None:
        if query is None:
            raise self._refused("Spark's half is missing", f"the windbolt half has batches up to {manifest.batch}")
        if manifest.query is not None and manifest.query != query:
            raise self._refused(
                "its halves belong to different queries", f"Spark's to {query}, windbolt's to {manifest.query}"
            )
        last = -1 if committed is None else committed
        if manifest.batch not in (last, last + 1):
            raise self._refused(
                "its halves are not of the same time", f"Spark's is at batch {last}, windbolt's at {manifest.batch}"
            )

    def _refused(self, what: str, why: str) -> CheckpointError:
        return CheckpointError(f"checkpoint {self.path!r} cannot be used: {what}", why=why)

    def _missing(self, name: str) -> bool:
        return not is_there(self.filesystem, f"{self.root}/{name}")
