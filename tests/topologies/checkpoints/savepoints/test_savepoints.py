"""A savepoint is a whole checkpoint at another place: a run continues from it as from the one it was taken of."""

from __future__ import annotations

import itertools
import json
import os
import random
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from servers.s3 import S3
from tests.helpers.deaths import deaths
from tests.helpers.drawn_bolts import BOLTS, Case, played
from tests.helpers.examples import sampled, share
from tests.simulation.disk import Disk
from tests.simulation.world.kinds import JOINS, KINDS, PASSING
from topologies.checkpoints.going_back import inspect
from topologies.checkpoints.paired_checkpoint import PairedCheckpoint
from topologies.checkpoints.savepoint import Savepoint, take_savepoint
from topologies.checkpoints.state_tables import read
from topologies.cli.app import app
from topologies.topology import Topology
from windbolt import RunOptions, TopologyBuilder, run_local, sinks, spouts
from windowing import StatefulWindowedBolt, TupleWindow
from windowing.errors import CheckpointError, ConfigError, TopologyError

CASES = int(os.environ.get("WINDBOLT_SAVEPOINTS", "1"))
"""How many topologies of each kind continue from savepoints."""


def taken(source: str, target: str, *moved: tuple[str, str]) -> Savepoint:
    halves = PairedCheckpoint(source)
    halves.lock.share()
    try:
        return take_savepoint(halves, target, moved)
    finally:
        halves.lock.release()


def to_and_fro(checkpoint: str, topology: Topology, tasks: int) -> None:
    """The checkpoint is deleted, and comes back from a savepoint of its savepoint."""
    if PairedCheckpoint(checkpoint).documents.names("manifests"):
        taken(checkpoint, f"{checkpoint}-saved")
        shutil.rmtree(checkpoint)
        taken(f"{checkpoint}-saved", checkpoint)
        shutil.rmtree(f"{checkpoint}-saved")


@pytest.mark.parametrize("kind", sampled(sorted({*KINDS, *JOINS, *PASSING}), 20, first=1))
def test_the_output_is_that_of_a_run_without_interruption(kind: str, tmp_path: Path) -> None:
    chance, tried = random.Random(f"saved {kind}"), 0
    for seed in itertools.count():
        case = Case(kind, chance.choice(sorted(BOLTS)), seed, tmp_path / str(seed))
        assert seed < 40 * CASES, "nothing was compared"
        try:
            case.topology(tmp_path / "look", 2, {})
        except (ConfigError, TopologyError):
            continue  # such a bolt cannot be built
        tasks = [case.tasks[0]] * 3
        got, parts = played(case, case.folder / "saved", tasks, to_and_fro)
        wanted, always = played(case, case.folder / "always", tasks, lambda *_: None)
        assert got == wanted, (kind, case.bolt, seed)
        last, right = parts[-1].last, always[-1].last
        assert (last and last.bolts["b"].accounts) == (right and right.bolts["b"].accounts)
        tried += 1
        if tried == CASES:
            return


class Numbered(StatefulWindowedBolt):
    """The ids of a window, and how many windows there were."""

    outputs = "ids string, number long"
    state_types = {"windows": int}  # noqa: RUF012 - declared so by users

    def execute(self, window: TupleWindow) -> Any:
        """A row."""
        self.state["windows"] += 1
        return " ".join(map(str, window.column("id").tolist())), self.state["windows"]


def topology(folder: str, out: str) -> Topology:
    builder = TopologyBuilder("numbers")
    source = spouts.files(f"{folder}/*.jsonl", "id long, user string, ts timestamp", files_per_batch=1)
    builder.set_spout("in", source)
    bolt = Numbered().with_window("20s", "10s").with_timestamp_field("ts").with_lag("5s")
    builder.set_bolt("numbered", bolt, 2).fields_grouping("in", "user")
    builder.set_sink("out", sinks.files(out, format="jsonl")).from_("numbered")
    return builder.build()


def write(folder: Path, numbers: range) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number in numbers:
        rows = [{"id": 10 * number + at, "user": "abc"[at % 3], "ts": 1000 * (9 * number + at)} for at in range(10)]
        path = folder / f"{number:02d} é%.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        os.utime(path, (1_600_000_000 + number,) * 2)


def rows_of(*folders: Path) -> list[str]:
    return sorted(
        line for folder in folders for path in folder.glob("batch-*") for line in path.read_text().splitlines()
    )


def go(source: Path, out: Path, checkpoint: str, *, keep_open: bool = True) -> None:
    run_local(topology(str(source), str(out)), RunOptions(checkpoint, keep_open=keep_open, clock=lambda: 0))


@pytest.fixture
def begun(tmp_path: Path) -> Path:
    """A folder with a run of three batches, and the rows of one that has all five in ``whole``."""
    write(tmp_path / "whole/in", range(5))
    go(tmp_path / "whole/in", tmp_path / "whole/out", str(tmp_path / "whole/ck"), keep_open=False)
    write(tmp_path / "in", range(3))
    go(tmp_path / "in", tmp_path / "out", str(tmp_path / "ck"))
    return tmp_path


def test_input_sinks_and_checkpoint_are_elsewhere(begun: Path) -> None:
    """As on another machine: nothing of the old place is left."""
    taken(str(begun / "ck"), str(begun / "new/ck"), (str(begun / "in"), str(begun / "new/data in")))
    (begun / "in").rename(begun / "new/data in")
    (begun / "out").rename(begun / "kept")
    shutil.rmtree(begun / "ck")
    for path in (begun / "new/ck").rglob("*"):
        assert not path.is_file() or f'{begun}/in"'.encode() not in path.read_bytes()
        assert not path.is_file() or f"{begun}/in/".encode() not in path.read_bytes()
        assert not path.is_file() or f"{begun}/out".encode() not in path.read_bytes()
    write(begun / "new/data in", range(3, 5))
    go(begun / "new/data in", begun / "new/out", str(begun / "new/ck"), keep_open=False)
    assert rows_of(begun / "kept", begun / "new/out") == rows_of(begun / "whole/out")


@pytest.mark.extended
def test_between_this_machine_and_an_object_store(begun: Path, store: S3) -> None:
    moved = store.uri("saved")
    taken(str(begun / "ck"), moved)
    write(begun / "in", range(3, 4))
    go(begun / "in", begun / "out", moved)
    assert any("claims" in name for name in store.names())
    taken(moved, str(begun / "back"))
    again = store.uri("again")
    taken(moved, again)
    write(begun / "in", range(4, 5))
    shutil.copytree(begun / "out", begun / "other")
    go(begun / "in", begun / "out", str(begun / "back"), keep_open=False)
    assert rows_of(begun / "out") == rows_of(begun / "whole/out")
    go(begun / "in", begun / "other", again, keep_open=False)
    assert rows_of(begun / "other") == rows_of(begun / "whole/out")
    names = [path.name for path in (begun / "back/windbolt/segments").rglob("*.arrow")]
    assert names
    assert not any("-" in name for name in names), "no name has the claim of a run in it"


def test_a_batch_that_was_begun_runs_as_it_was_planned(begun: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(begun / "in", range(3, 4))

    def dying(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("manager.storage.checkpoint.FileCheckpoint.commit", dying)
        with pytest.raises(KeyboardInterrupt):
            go(begun / "in", begun / "out", str(begun / "ck"))
    done = taken(str(begun / "ck"), str(begun / "saved"))
    assert done.batch == "2"
    assert (begun / "saved/windbolt/plans/0000000003.json").is_file()
    write(begun / "in", range(4, 5))
    go(begun / "in", begun / "out", str(begun / "saved"), keep_open=False)
    assert rows_of(begun / "out") == rows_of(begun / "whole/out")


def test_files_of_the_last_batch_get_their_names_first(begun: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(begun / "in", range(3, 4))

    def dying(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("topologies.engine.micro_batch.publish", dying)
        with pytest.raises(KeyboardInterrupt):
            go(begun / "in", begun / "out", str(begun / "ck"))
    before = len(rows_of(begun / "out"))
    taken(str(begun / "ck"), str(begun / "saved"))
    assert len(rows_of(begun / "out")) > before
    write(begun / "in", range(4, 5))
    go(begun / "in", begun / "out", str(begun / "saved"), keep_open=False)
    assert rows_of(begun / "out") == rows_of(begun / "whole/out")


def test_what_is_refused(begun: Path) -> None:
    checkpoint, saved = str(begun / "ck"), str(begun / "saved")
    running = PairedCheckpoint(checkpoint)
    running.lock.take()
    with pytest.raises(CheckpointError, match="is in use by process"):
        taken(checkpoint, saved)
    running.lock.release()
    assert not Path(saved).exists()
    with pytest.raises(CheckpointError, match="cannot be in"):
        taken(checkpoint, f"{checkpoint}/saved")
    taken(checkpoint, saved)
    with pytest.raises(CheckpointError, match="cannot be taken in") as held:
        taken(checkpoint, saved)
    assert "holds a checkpoint already" in held.value.why
    with pytest.raises(CheckpointError, match="cannot be taken in"):
        taken(checkpoint, str(begun / "in"))
    (begun / "none").mkdir()
    run_local(topology(str(begun / "none"), str(begun / "out2")), RunOptions(str(begun / "empty"), keep_open=True))
    with pytest.raises(CheckpointError, match="nothing that could be saved"):
        taken(str(begun / "empty"), str(begun / "other"))


def test_the_command(begun: Path) -> None:
    before = {path: path.read_bytes() for path in (begun / "ck").rglob("*") if path.is_file()}
    given = ["savepoint", str(begun / "ck"), str(begun / "saved"), "--json"]
    done = CliRunner().invoke(app, given)
    assert done.exit_code == 0, done.output
    told = json.loads(done.output)
    assert (told["savepoint"], told["batch"]) == (str(begun / "saved"), "2")
    assert {path: path.read_bytes() for path in (begun / "ck").rglob("*") if path.is_file()} == before
    look = inspect(PairedCheckpoint(str(begun / "saved")))
    assert (look.damage, look.refused) == ([], "")
    assert Counter(read(begun / "saved")["events"]["pending"].to_pylist()) == Counter(
        read(begun / "ck")["events"]["pending"].to_pylist()
    )
    assert CliRunner().invoke(app, given).exit_code == 2
    wrong = CliRunner().invoke(app, [*given[:2], str(begun / "third"), "--moved", "/data"])
    assert wrong.exit_code == 2
    assert CliRunner().invoke(app, [*given[:2], str(begun / "third")]).exit_code == 0


def test_a_death_at_any_moment_leaves_what_is_refused_and_the_next_attempt_starts_over(begun: Path) -> None:
    disk = Disk(str(begun / "disk"), random.Random(1))
    write(begun / "in", range(3, 5))
    refused = 0
    with disk.mounted():
        for _ in deaths(disk, lambda: taken(str(begun / "ck"), f"{disk.data}/saved")):
            disk.before = lambda operation, path: None
            disk.start()
            halves = PairedCheckpoint(f"{disk.data}/saved")
            note = halves.documents.read("savepoint")
            if note is not None and note["complete"]:
                break  # it dies before it has synced the name of this note
            if note is not None:
                refused += 1
                with pytest.raises(CheckpointError, match="is a savepoint that is not complete"):
                    go(begun / "in", begun / "out", f"{disk.data}/saved")
            else:
                assert not halves.documents.names("manifests")
    assert refused > share(50)
    go(begun / "in", begun / "out", f"{disk.data}/saved", keep_open=False)
    assert rows_of(begun / "out") == rows_of(begun / "whole/out")
