"""Damage to the checkpoint of a run on Spark, and the way back; the many cases are in tests/helpers/damage.py."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.helpers.damage import BATCHES, DAMAGES, Case, kind_of, rows_of, spoil, topology, write_input
from tests.helpers.examples import every, sampled
from tests.helpers.played_spark import PlayedRun
from tests.spark.tools import at_phase, run, run_until
from topologies.checkpoints.going_back import go_back, inspect
from topologies.checkpoints.paired_checkpoint import PairedCheckpoint
from topologies.io.sinks import MemorySink
from topologies.topology import Topology
from windbolt import TopologyBuilder, sinks, spouts
from windowing.errors import CheckpointError

pytestmark = pytest.mark.usefixtures("spark")


class Ran:
    """A run on Spark, in its folder, with a copy of how it was before its last two batches and its closing."""

    def __init__(self, folder: Path) -> None:
        self.files, self.live, self.kept = folder / "input", folder / "live", folder / "kept"
        write_input(self.files)
        late = [self.files / f"{batch:02d}.jsonl" for batch in range(BATCHES - 2, BATCHES)]
        for path in late:
            path.rename(folder / path.name)
        run(topology(self.files, self.live / "out"), self.live / "ck", keep_open=True)
        shutil.copytree(self.live, self.kept)
        for path in late:
            (folder / path.name).rename(path)
        self.right = self.go_on()

    def go_on(self) -> dict[str, list[str]]:
        run(topology(self.files, self.live / "out"), self.live / "ck")
        return rows_of(self.live / "out")

    def afresh(self) -> None:
        shutil.rmtree(self.live)
        shutil.copytree(self.kept, self.live)

    def back(self, key: str) -> None:
        halves = PairedCheckpoint(str(self.live / "ck"))
        halves.lock.take()
        try:
            go_back(halves, key)
        finally:
            halves.lock.release()


@pytest.fixture(scope="module")
def ran(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    return Ran(tmp_path_factory.mktemp("ran"))


def test_what_spark_is_played_to_do_is_what_it_does(ran: Ran, tmp_path: Path) -> None:
    PlayedRun(topology(ran.files, tmp_path / "out"), tmp_path / "ck").run(ran.files)
    assert rows_of(tmp_path / "out") == ran.right


def test_spark_goes_on_right_or_the_damage_is_named(ran: Ran) -> None:
    root, chance = ran.kept / "ck", random.Random(12)
    kinds: dict[str, list[str]] = {}
    for path in sorted(root.rglob("*")):
        if path.is_file() and path.name != ".lock":
            kinds.setdefault(kind_of(str(path.relative_to(root))), []).append(str(path.relative_to(root)))
    came = set()
    for kind, files in sorted(kinds.items())[:: every(3)]:
        case = Case("", files[-1], chance.choice(list(DAMAGES)), chance.randrange(1 << 30))
        ran.afresh()
        spoil(ran.live / "ck" / case.file, case)
        refused, found = _going_on(ran)
        if refused is None:
            assert found == ran.right, (kind, case)
        else:
            assert all((refused.what, refused.why, refused.do)), (kind, case)
        came.add("right" if refused is None else "refused")
    assert came == {"right", "refused"}


def _going_on(ran: Ran) -> tuple[CheckpointError | None, dict[str, list[str]]]:
    try:
        return None, ran.go_on()
    except CheckpointError as error:
        return error, {}


@pytest.mark.parametrize("key", sampled(["0000000005", "0000000006"], 2))
def test_spark_does_what_came_after_anew(ran: Ran, key: str) -> None:
    ran.afresh()
    assert ran.go_on() == ran.right
    ran.back(key)
    look = inspect(PairedCheckpoint(str(ran.live / "ck")))
    assert (look.damage, look.refused) == ([], "")
    assert look.spark_batches == (int(key), int(key))
    assert ran.go_on() == ran.right
    assert inspect(PairedCheckpoint(str(ran.live / "ck"))).damage == []


def test_spark_reads_the_entries_that_going_back_has_written(spark: SparkSession, tmp_path: Path) -> None:
    """Ten batches, so that the tenth file of the log holds all, and those before it as good as deleted."""
    files, live = tmp_path / "input", tmp_path / "live"
    write_input(files)
    for number in range(BATCHES, 10):
        shutil.copy2(files / f"{number - BATCHES:02d}.jsonl", files / f"{number:02d}.jsonl")
        lines = (files / f"{number:02d}.jsonl").read_text().splitlines()
        rows = [{**json.loads(line), "id": 1000 * number + at} for at, line in enumerate(lines)]
        (files / f"{number:02d}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    built = topology(files, live / "out")
    run(built, live / "ck")
    right, source = rows_of(live / "out"), live / "ck/spark/sources/0"
    assert (source / "9.compact").exists()
    for number in range(9):
        (source / f"{number}").unlink()
        (source / f".{number}.crc").unlink()
    halves = PairedCheckpoint(str(live / "ck"))
    halves.lock.take()
    go_back(halves, "0000000008")
    halves.lock.release()
    assert (source / "8").exists()
    run(built, live / "ck")
    assert rows_of(live / "out") == right


def test_a_file_of_a_spout_in_memory_is_written_again(spark: SparkSession, tmp_path: Path) -> None:
    def built() -> tuple[Topology, MemorySink]:
        builder, sink = TopologyBuilder("memory"), sinks.memory()
        builder.set_spout("numbers", spouts.memory("n long", [(1,), (2,)], [(3,), (4,)]))
        builder.set_sink("out", sink).from_("numbers")
        return builder.build(), sink

    run_until(built()[0], tmp_path / "ck", at_phase(1, "ingest"))
    path = tmp_path / "ck/memory/numbers/00000001.arrow"
    before = path.read_bytes(), path.stat().st_mtime_ns
    path.write_bytes(before[0][:100])
    again, sink = built()
    run(again, tmp_path / "ck")
    assert [row["n"] for row in sink.rows] == [3, 4]
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before
