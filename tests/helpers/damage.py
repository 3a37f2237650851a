"""A campaign of damage: a file of a checkpoint is spoiled, and the run continues right, or is refused in clear words.

    python -m tests.helpers.damage 1000 [SEED [local]]

Runs are of a Spark that is played, or of the local engine.

Each case takes a checkpoint as a run has left it (at the end, or where it died), spoils one file of it, and continues.
Right are the rows of a run that nothing happened to. Refused is a CheckpointError that says what is damaged, why that
is known and what to do; if that is to go back to a batch, going there must lead to the right rows.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from unittest.mock import patch

import pyarrow as pa

from manager.storage.manifest import key_of_batch_name
from tests.helpers.played_spark import COMPACT_EVERY, Died, PlayedRun, die_at
from topologies.checkpoints import file_journal
from topologies.checkpoints.file_journal import FileLog
from topologies.checkpoints.going_back import go_back, inspect
from topologies.checkpoints.paired_checkpoint import PairedCheckpoint
from topologies.engine.micro_batch import MicroBatch
from topologies.local import LocalRun
from topologies.run.summary import Summary
from topologies.topology import Topology
from windbolt import RunOptions, TopologyBuilder, sinks, spouts
from windowing import AggregateBolt, StatefulWindowedBolt, TupleWindow, WindowedBolt, aggregates
from windowing.errors import CheckpointError
from windowing.schema import EmittedRows
from windowing.settings.kinds import Session
from windowing.settings.panes import Panes, after_count

SCHEMA = "id long, user string, amount double, ts timestamp"
BATCHES = 7
_ROWS = 24
_SECOND = 1_000_000


class Total(StatefulWindowedBolt):
    """What a window comes to, and how many windows there were."""

    outputs = "task long, total double, ids string, number long"
    state_types = {"windows": int, "seen": "id long"}  # noqa: RUF012

    def execute(self, window: TupleWindow) -> EmittedRows:
        self.state["windows"] += 1
        seen = pa.concat_tables([self.state["seen"], window.new.select(["id"])])
        self.state["seen"] = seen.slice(max(len(seen) - 5, 0))
        ids = ",".join(map(str, window.column("id").tolist()))
        return window.task, float(window.column("amount").sum()), ids, self.state["windows"]


class Ids(WindowedBolt):
    """The events of a window."""

    outputs = "ids string"

    def execute(self, window: TupleWindow) -> EmittedRows:
        return (",".join(map(str, sorted(window.column("id").tolist()))),)


def topology(files: Path, out: Path) -> Topology:
    """Windows of all kinds, whose state is kept in all ways."""
    builder = TopologyBuilder("damage")
    builder.set_spout("orders", spouts.files(files, SCHEMA, format="jsonl", files_per_batch=1))
    total = Total().with_window("20s", "10s").with_timestamp_field("ts").with_lag("5s").with_late_tuple_stream("late")
    builder.set_bolt("total", total, 2).fields_grouping("orders", "user")
    sessions = Ids().with_window(Session("8s")).with_key("user").with_timestamp_field("ts").with_lag("5s")
    builder.set_bolt("sessions", sessions).global_grouping("orders")
    panes = Ids().with_tumbling_window("15s").with_key("user").with_timestamp_field("ts").with_lag("5s")
    builder.set_bolt("panes", panes.with_trigger(Panes(early=after_count(2), mode="retracting"))).global_grouping(
        "orders"
    )
    sums = AggregateBolt(by=["user"], n=aggregates.count(), amount=aggregates.sum("amount"))
    sums = sums.with_window("30s", "10s").with_timestamp_field("ts").with_lag("5s")
    builder.set_bolt("sums", sums, 2).fields_grouping("orders", "user")
    for name in ("total", "sessions", "panes", "sums"):
        builder.set_sink(f"{name}-out", sinks.files(out / name, "jsonl")).from_(name)
    builder.set_sink("late-out", sinks.files(out / "late", "jsonl")).from_("total", "late")
    return builder.build()


def write_input(folder: Path) -> None:
    """A file a batch; some events are late, some have no time."""
    folder.mkdir()
    chance = random.Random(7)
    for batch in range(BATCHES):
        rows = []
        for at in range(_ROWS):
            second = 120 + 12 * batch + at / 2 + chance.uniform(-2, 2) - (40 if at % 11 == 5 else 0)
            ts = None if at % 17 == 3 else f"2024-05-01T12:{int(second // 60) % 60:02d}:{second % 60:09.6f}Z"
            rows.append({"id": 100 * batch + at, "user": chance.choice("abc"), "amount": float(at), "ts": ts})
        path = folder / f"{batch:02d}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        os.utime(path, (1_600_000_000 + batch, 1_600_000_000 + batch))


def rows_of(out: Path) -> dict[str, list[str]]:
    """What each sink's folder holds, as a reader sees it."""
    return {
        folder.name: sorted(
            line
            for path in folder.iterdir()
            if not path.name.startswith(".")
            for line in path.read_text("utf-8").splitlines()
        )
        for folder in sorted(out.iterdir())
    }


@dataclass(frozen=True)
class Stage:
    """A checkpoint, with its sinks, as a run has left it."""

    name: str
    folder: Path


@dataclass(frozen=True)
class Case:
    """One file, spoiled in one way."""

    stage: str
    file: str
    damage: str
    seed: int


def flip(data: bytearray, chance: random.Random) -> None:
    """Another bit, anywhere."""
    at = chance.randrange(8 * len(data))
    data[at // 8] ^= 1 << at % 8


def garble(data: bytearray, chance: random.Random) -> None:
    """Another byte, in the middle."""
    data[len(data) // 2] ^= chance.randrange(1, 256)


def cut(data: bytearray, chance: random.Random) -> None:
    """The end is not there."""
    del data[chance.randrange(len(data)) :]


def cut_a_byte(data: bytearray, chance: random.Random) -> None:
    """The last byte is not there."""
    del data[-1:]


def empty(data: bytearray, chance: random.Random) -> None:
    """Nothing is there."""
    data.clear()


def zeros(data: bytearray, chance: random.Random) -> None:
    """From some place on there are zeros, as some disks leave them."""
    at = chance.randrange(len(data))
    data[at:] = bytes(len(data) - at)


DAMAGES: dict[str, Callable[[bytearray, random.Random], None] | None] = {
    "flip": flip, "garble": garble, "cut": cut, "cut a byte": cut_a_byte, "empty": empty, "zeros": zeros,
    "remove": None,
}  # fmt: skip


class Runs(Protocol):
    """A run of an engine, on a checkpoint."""

    micro_batch: MicroBatch

    def run(self, files: Path) -> object: ...


class PlayedLocally(LocalRun):
    """A run of the local engine, which joins its log as often as the played one, and may die in it. Like that one it is
    open from the moment it is made, until ``run`` returns."""

    def __init__(self, built: Topology, checkpoint: Path) -> None:
        super().__init__(built, RunOptions(str(checkpoint)))
        self.opened = ExitStack()
        self.opened.enter_context(self)

    def run(self, files: Path | None = None) -> Summary:
        """Read the files that are new, and close; ``files`` are those of the topology."""
        note = FileLog.note

        def noted(log: FileLog, *rest: Any) -> int:
            number = note(log, *rest)
            self.micro_batch.hook("logged")
            return number

        often = patch.object(file_journal, "_COMPACT_EVERY", COMPACT_EVERY)
        with self.opened, patch.object(FileLog, "note", noted), often:
            return super().run()

    def batch(self, number: int, *rest: Any) -> None:
        """A batch that has been noted."""
        self.micro_batch.hook("planned")
        super().batch(number, *rest)


class Campaign:
    """The stages, the right rows, and cases over them; all below one folder."""

    def __init__(self, folder: Path, engine: Callable[[Topology, Path], Runs] = PlayedRun) -> None:
        self.folder, self.files, self.engine = folder, folder / "input", engine
        write_input(self.files)
        self.live = folder / "live"
        """Where all runs are, for a checkpoint knows the folders of its sinks."""
        self.built = topology(self.files, self.live / "out")
        self.engine(self.built, self.live / "ck").run(self.files)
        self.right = rows_of(self.live / "out")
        assert all(self.right.values())
        self.stages = {name: Stage(name, folder / "stages" / name) for name in STAGES}
        for name, stage in self.stages.items():
            shutil.rmtree(self.live)
            self._run_up_to(STAGES[name])
            shutil.copytree(self.live, stage.folder)

    def _run_up_to(self, end: tuple[str, int]) -> None:
        run = self.engine(self.built, self.live / "ck")
        if end[0] == "end":
            run.run(self.files)
            return
        die_at(*end)(run)
        try:
            run.run(self.files)
        except Died:
            return
        raise AssertionError(f"the run came to its end, and was to die at {end}")

    def cases(self, count: int, seed: int) -> Iterator[Case]:
        """So many cases: every file of every stage in turn, and every damage."""
        chance = random.Random(seed)
        places = []
        for stage in self.stages.values():
            root = stage.folder / "ck"
            files = sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())
            places += [(stage.name, file, damage) for file in files for damage in DAMAGES]
        chance.shuffle(places)
        # Every kind of file has its share, whatever many files of one kind there are.
        by_kind: dict[str, list[tuple[str, str, str]]] = {}
        for place in places:
            by_kind.setdefault(kind_of(place[1]), []).append(place)
        kinds = [list(found) for found in by_kind.values()]
        for number in range(count):
            kind = kinds[number % len(kinds)]
            stage_name, file, damage = kind[(number // len(kinds)) % len(kind)]
            yield Case(stage_name, file, damage, seed=chance.randrange(1 << 30))

    def outcome(self, case: Case) -> str:
        """``right``, ``refused`` or ``back``: refused, and right after going back. AssertionError where it is wrong."""
        shutil.rmtree(self.live)
        shutil.copytree(self.stages[case.stage].folder, self.live)
        spoil(self.live / "ck" / case.file, case)
        try:
            self.engine(self.built, self.live / "ck").run(self.files)
        except CheckpointError as error:
            return self._after_refusal(case, error)
        assert rows_of(self.live / "out") == self.right, f"{case}: wrong rows, and no word of it"
        return "right"

    def _after_refusal(self, case: Case, error: CheckpointError) -> str:
        assert error.what, case
        assert error.why, case
        assert error.do, case
        halves = PairedCheckpoint(str(self.live / "ck"))
        look = inspect(halves)
        assert look.damage or look.refused, f"{case}: refused ({error}), and 'windbolt checkpoint' sees nothing"
        found = re.search(r"--back-to (\S+?)[;.]?(\s|$)", error.do)
        if found is None:
            assert "new checkpoint folder" in error.do, f"{case}: {error}"
            return "refused"
        key = key_of_batch_name(found[1])
        assert key is not None
        halves.lock.take()
        try:
            go_back(halves, key)
        finally:
            halves.lock.release()
        self.engine(self.built, self.live / "ck").run(self.files)
        assert rows_of(self.live / "out") == self.right, f"{case}: wrong rows after going back to {found[1]}"
        return "back"


STAGES = {
    "at its end": ("end", 0),
    "died before a commit": ("commit", 4),
    "died before Spark's commit": ("committed", 4),
    "died before its plan": ("planned", 5),
    "died before Spark's plan": ("logged", 5),
    "died while closing": ("commit", BATCHES),
}


def kind_of(file: str) -> str:
    """What a file of a checkpoint is: ``windbolt/manifests``, ``spark/sources/0``, ``.crc`` of these."""
    folder, _, base = file.rpartition("/")
    if folder.startswith("windbolt/segments"):
        return "segments"
    if folder in ("windbolt", "spark", ""):
        return file
    return f"{folder}{' crc' if base.endswith('.crc') else ''}"


def spoil(path: Path, case: Case) -> None:
    """Damage a file."""
    damage = DAMAGES[case.damage]
    if damage is None:
        path.unlink()
        return
    data = bytearray(path.read_bytes())
    if data:
        damage(data, random.Random(case.seed))
    path.write_bytes(data)


def main() -> None:
    """Run a campaign; status 1 where one case came out wrong."""
    count, seed = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1
    started, outcomes, wrong = time.perf_counter(), Counter[str](), 0
    by_kind: dict[str, Counter[str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        campaign = Campaign(Path(folder), PlayedLocally if sys.argv[3:] == ["local"] else PlayedRun)
        for case in campaign.cases(count, seed):
            try:
                came = campaign.outcome(case)
            except Exception:
                came, wrong = "WRONG", wrong + 1
                print(case)
                traceback.print_exc(limit=-6)
            outcomes[came] += 1
            by_kind.setdefault(kind_of(case.file), Counter())[came] += 1
    for kind, found in sorted(by_kind.items()):
        print(f"{kind:40} {dict(found)}")
    print(f"{count} cases, {dict(outcomes)}, {time.perf_counter() - started:.0f} s")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
