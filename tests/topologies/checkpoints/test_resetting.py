"""Bolts of a checkpoint that start over: from then on as in a run that begins there, and the rest continues."""

from __future__ import annotations

import itertools
import json
import os
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from manager.accounts import ACCOUNTS
from manager.storage.sealed_files import SealedFolder
from tests.helpers.drawn_bolts import BOLTS, Case
from tests.helpers.examples import sampled
from tests.simulation.world.kinds import JOINS, KINDS, PASSING
from topologies.checkpoints.going_back import Reset, reset_bolts
from topologies.checkpoints.paired_checkpoint import PairedCheckpoint
from topologies.checkpoints.state_tables import read
from topologies.cli.app import app
from topologies.run.summary import Summary
from topologies.topology import Topology
from windbolt import RunOptions, TopologyBuilder, run_local, sinks, spouts
from windowing import TupleWindow, WindowedBolt
from windowing.errors import CheckpointError, ConfigError, TopologyError

CASES = int(os.environ.get("WINDBOLT_RESETS", "1"))
"""How many topologies of each kind start over as another."""
OTHERS = sorted({*KINDS, *PASSING})


def anew(checkpoint: Path, topology: Topology, *names: str) -> Reset:
    halves = PairedCheckpoint(str(checkpoint))
    halves.lock.take()
    try:
        return reset_bolts(halves, names, topology)
    finally:
        halves.lock.release()


class Drawn:
    """Two bolts of the same input, and runs of them."""

    def __init__(self, kind: str, other: str, bolts: list[str], seed: int, folder: Path) -> None:
        self.first, self.second = Case(kind, bolts[0], seed, folder), Case(other, bolts[1], seed + 1000, folder)
        self.second.spouts, self.second.tasks = self.first.spouts, [self.first.tasks[1]]
        self.cut = self.first.cuts[1]

    def write(self, folder: Path, places: range) -> None:
        for place in places:
            spout, lines = self.first.files[place]
            (folder / spout).mkdir(parents=True, exist_ok=True)
            (folder / spout / f"{place:03d}.jsonl").write_text("".join(f"{line}\n" for line in lines))

    def run(self, case: Case, folder: Path, begin: int, rows: dict[int, Counter[str]], *, keep_open: bool) -> Summary:
        clock = itertools.count(1_700_000_000_000_000 + begin, 900_000).__next__
        topology = case.topology(folder, case.tasks[0], rows)
        return run_local(topology, RunOptions(str(folder / "ck"), keep_open=keep_open, clock=clock))


@pytest.mark.parametrize("kind", sampled(sorted({*KINDS, *JOINS, *PASSING})[1::2], 10, first=1))
def test_a_bolt_is_then_as_in_a_run_that_begins_there(kind: str, tmp_path: Path) -> None:
    chance, tried = random.Random(f"anew {kind}"), 0
    for seed in itertools.count():
        assert seed < 100, "nothing was compared"
        folder = tmp_path / str(seed)
        bolts = [chance.choice(sorted(BOLTS)) for _ in range(2)]
        drawn = Drawn(kind, chance.choice(OTHERS), bolts, seed, folder)
        try:
            for case in (drawn.first, drawn.second):
                case.topology(tmp_path / "look", 2, {})
        except (ConfigError, TopologyError):
            continue  # such a bolt cannot be built
        drawn.write(folder / "a", range(drawn.cut))
        before = drawn.run(drawn.first, folder / "a", 0, {}, keep_open=True)
        got: dict[int, Counter[str]] = {}
        topology = drawn.second.topology(folder / "a", drawn.second.tasks[0], got)
        try:
            done = anew(folder / "a" / "ck", topology, "b")
        except CheckpointError as error:
            assert "follow" in str(error) or "nothing yet" in str(error)  # noqa: PT017 - one of the two, or none
            continue
        check_accounts(folder / "a" / "ck", before, done)
        drawn.write(folder / "a", range(drawn.cut, len(drawn.first.files)))
        drawn.run(drawn.second, folder / "a", 10**12, got, keep_open=False)
        drawn.write(folder / "b", range(drawn.cut, len(drawn.first.files)))
        wanted: dict[int, Counter[str]] = {}
        drawn.run(drawn.second, folder / "b", 10**12, wanted, keep_open=False)
        assert sum(got.values(), Counter()) == sum(wanted.values(), Counter()), (kind, drawn.second.kind, bolts, seed)
        if not wanted:
            continue  # nothing was compared
        tried += 1
        if tried == CASES:
            return


def check_accounts(checkpoint: Path, before: Summary, done: Reset) -> None:
    """What was pending is purged, and nothing else has changed."""
    if before.last is None:
        return
    old, now = before.last.bolts["b"].accounts, read(checkpoint, "b")["accounts"]
    total = {name: sum(now[name].to_pylist()) for name in ("received", *ACCOUNTS, "pending")}
    assert total["pending"] == 0
    assert total["purged"] == old["purged"] + old["pending"] == old["purged"] + done.discarded["b"]
    assert {name: old[name] for name in total if name not in ("purged", "pending")} == {
        name: count for name, count in total.items() if name not in ("purged", "pending")
    }


class Count(WindowedBolt):
    """How many events a window has."""

    outputs = "n long, stop timestamp"

    def execute(self, window: TupleWindow) -> Any:
        """A row."""
        return len(window), window.end_timestamp


def built(
    folder: Path, length: str = "10m", columns: str = "user string, ts timestamp", second: str = "1h", third: str = ""
) -> Topology:
    builder = TopologyBuilder("shop")
    builder.set_spout("in", spouts.files(str(folder / "in/*.jsonl"), columns, files_per_batch=1))
    bolt = Count().with_tumbling_window(length).with_timestamp_field("ts")
    builder.set_bolt("first", bolt, 2).fields_grouping("in", "user")
    if second:
        builder.set_bolt("second", Count().with_tumbling_window(second), 1).global_grouping("first")
        builder.set_sink("out", sinks.files(str(folder / "out"), format="jsonl")).from_("second")
    else:
        builder.set_sink("out", sinks.files(str(folder / "out"), format="jsonl")).from_("first")
    if third:
        again = Count().with_tumbling_window(third).with_timestamp_field("ts")
        builder.set_bolt("third", again, 1).global_grouping("in")
        builder.set_sink("again", sinks.files(str(folder / "again"), format="jsonl")).from_("third")
    return builder.build()


def feed(folder: Path, numbers: range) -> None:
    (folder / "in").mkdir(parents=True, exist_ok=True)
    for number in numbers:
        rows = [{"user": "ab"[at % 2], "ts": 60_000 * (10 * number + at), "shop": "x"} for at in range(1, 11)]
        (folder / "in" / f"{number}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def go(folder: Path, topology: Topology, *, keep_open: bool = True) -> Summary:
    return run_local(topology, RunOptions(str(folder / "ck"), keep_open=keep_open, clock=lambda: 0))


def sent(folder: Path, out: str = "out") -> list[int]:
    lines = [line for path in sorted((folder / out).glob("batch-*")) for line in path.read_text().splitlines()]
    return [json.loads(line)["n"] for line in lines]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    feed(tmp_path, range(3))
    go(tmp_path, built(tmp_path))
    return tmp_path


def test_the_rest_goes_on(folder: Path) -> None:
    done = anew(folder / "ck", built(folder, "5m"), "first")
    assert list(done.discarded) == ["first"]
    feed(folder, range(3, 9))
    last = go(folder, built(folder, "5m"), keep_open=False).last
    assert last is not None
    accounts = last.bolts["second"].accounts
    assert accounts["late"] == accounts["pending"] == 0
    assert sum(sent(folder)) == accounts["received"] > 6 * 4
    assert last.bolts["first"].accounts["received"] == 90


def test_bolts_that_are_new_and_gone(folder: Path) -> None:
    new = built(folder, second="", third="20m")
    with pytest.raises(CheckpointError, match="bolt 'third' is new") as refused:
        anew(folder / "ck", new, "second")
    assert "name the other bolts too" in refused.value.do
    done = anew(folder / "ck", new, "second", "third")
    assert done.discarded["third"] == 0
    feed(folder, range(3, 6))
    last = go(folder, new, keep_open=False).last
    assert last is not None
    assert list(last.bolts) == ["first", "third"]
    assert sum(sent(folder, "again")) == last.bolts["third"].accounts["received"] == 30
    assert last.bolts["first"].accounts["received"] == 60


def test_a_column_more(folder: Path) -> None:
    wider = built(folder, columns="user string, ts timestamp, shop string")
    with pytest.raises(CheckpointError, match="bolt 'first': columns was"):
        anew(folder / "ck", wider, "second")
    anew(folder / "ck", wider, "first")
    feed(folder, range(3, 4))
    assert go(folder, wider).last is not None
    assert set(read(folder / "ck", "first")["events"]["shop"].to_pylist()) == {"x"}


def test_there_is_no_way_back_behind_it(folder: Path) -> None:
    anew(folder / "ck", built(folder, "5m"), "first")
    assert PairedCheckpoint(str(folder / "ck")).documents.names("manifests") == ["0000000002"]


@pytest.mark.parametrize("where", ["manifests/", "topology"])
def test_a_death_keeps_runs_off_until_it_is_done_again(
    where: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new, whole = built(folder, "5m"), SealedFolder.write

    def dying(self: Any, name: str, values: Any) -> None:
        if name.startswith(where):
            raise KeyboardInterrupt
        whole(self, name, values)

    with monkeypatch.context() as patched:
        patched.setattr(SealedFolder, "write", dying)
        with pytest.raises(KeyboardInterrupt):
            anew(folder / "ck", new, "first")
    for topology in (built(folder), new):
        with pytest.raises(CheckpointError, match=r"still to start over|belongs to another topology"):
            go(folder, topology)
    anew(folder / "ck", new, "first")
    feed(folder, range(3, 9))
    last = go(folder, new, keep_open=False).last
    assert last is not None
    assert last.bolts["first"].accounts["received"] == 90


def test_what_is_refused(folder: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean 'first'"):
        anew(folder / "ck", built(folder), "frist")
    with pytest.raises(CheckpointError, match="window length was '10m', and is '5m'"):
        anew(folder / "ck", built(folder, "5m", second="2h"), "second")
    with pytest.raises(CheckpointError, match="holds nothing yet"):
        anew(folder / "none", built(folder), "first")


def test_the_command(folder: Path) -> None:
    code = (
        "from pathlib import Path\nfrom tests.topologies.checkpoints.test_resetting import built\n"
        f"topology = built(Path({str(folder)!r}), '5m')\n"
    )
    (folder / "shop.py").write_text(code)
    given = ["reset", str(folder / "ck"), "first", "--topology", f"{folder}/shop.py:topology", "--json"]
    done = CliRunner().invoke(app, given)
    assert done.exit_code == 0, done.output
    assert json.loads(done.output)["batch"] == "2"
    assert isinstance(read(folder / "ck", "first")["events"], pa.Table)
    assert go(folder, built(folder, "5m")).last is None
