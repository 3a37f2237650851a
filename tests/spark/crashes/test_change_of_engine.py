"""A checkpoint that is taken from one engine to the other: the output is that of a run that never changed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from manager.storage.manifest import batch_key
from tests.helpers.damage import SCHEMA, Ids, rows_of, topology
from tests.helpers.examples import sampled
from tests.spark.tools import Crash, run
from topologies.checkpoints.checkpointed_run import CheckpointedRun
from topologies.checkpoints.going_back import go_back, inspect
from topologies.checkpoints.paired_checkpoint import PairedCheckpoint
from topologies.local import LocalRun
from topologies.run.summary import Summary
from topologies.spark.classic_session import open_session
from topologies.spark.runner import SparkRun
from topologies.topology import Topology
from windbolt import RunOptions, TopologyBuilder, run_local, sinks, spouts

pytestmark = pytest.mark.usefixtures("spark")
FILES = 26
ODD = (
    "a b", "c%20d", "é", "日本", "a+b", "a&b=c", "a;b", "a,b", "[x]", "q?", "h#", "p%", "tilde~", "x@y", "it's",
    "{z}", "a|b", 'say "x"', "<t>", "back\\slash", "c^d", "`e`", "no\u00a0break", "wide\u3000space", "e\u0301", "😀",
    "c$d!", "(p)*", "tab\t", "next\u0085", "line\u2028",
)  # fmt: skip
"""Names of files that Java writes otherwise in a URI, or might."""


def on_spark(built: Topology, checkpoint: Path, **options: Any) -> Summary:
    return run(built, checkpoint, **options)


def here(built: Topology, checkpoint: Path, **options: Any) -> Summary:
    return run_local(built, RunOptions(str(checkpoint), **options))


ENGINES: dict[str, Callable[..., Summary]] = {"local": here, "spark": on_spark}


def write(folder: Path, numbers: range, name: Callable[[int], str] = "{:02d}".format) -> None:
    """A file per number, each changed a second after the one before; some events come late."""
    folder.mkdir(exist_ok=True)
    for number in numbers:
        seconds = [120 + 5 * number + at / 2 - (40 if at % 7 == 5 else 0) for at in range(10)]
        rows = [
            {"id": 100 * number + at, "user": "abc"[at % 3], "amount": float(at), "ts": int(second * 1_000_000)}
            for at, second in enumerate(seconds)
        ]
        path = folder / f"{name(number)}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        os.utime(path, (1_600_000_000 + number,) * 2)


def published(out: Path) -> dict[str, list[str]]:
    return {each.name: sorted(path for path in os.listdir(each) if path[0] != ".") for each in sorted(out.iterdir())}


@pytest.mark.parametrize("first", sampled(ENGINES, 2))
def test_engines_take_turns_on_a_checkpoint(first: str, tmp_path: Path) -> None:
    """Over the joins of Spark's log, with windows open at each change."""
    files, whole, turns = tmp_path / "in", tmp_path / "whole", tmp_path / "turns"
    second = next(each for each in ENGINES if each != first)
    files.mkdir()
    reached = 0
    for until in (3, 11, 12, 21, FILES):
        write(files, range(reached, until))
        built = topology(files, turns / "out")
        summary = ENGINES[first](built, turns / "ck", keep_open=until != FILES)
        assert summary.batches == until - reached + (until == FILES)
        reached, first, second = until, second, first
    run_local(topology(files, whole / "out"))
    assert rows_of(turns / "out") == rows_of(whole / "out")
    assert all(rows_of(turns / "out").values())
    look = inspect(PairedCheckpoint(str(turns / "ck")))
    assert not look.damage
    assert not look.refused
    assert all(engine(topology(files, turns / "out"), turns / "ck").batches == 0 for engine in ENGINES.values())


def dying(engine: type[CheckpointedRun], built: Topology, checkpoint: Path, batch: int, phase: str) -> None:
    """A run that ends as a phase of a batch begins."""
    options = RunOptions(str(checkpoint))
    attempt = engine(built, options) if engine is LocalRun else SparkRun(open_session(None, {})[0], built, options)

    def hook(reached: str) -> None:
        if reached == phase and attempt.micro_batch.manifest.batch == batch - (phase != "committed"):
            raise Crash(phase)

    with attempt:
        attempt.micro_batch.hook = hook
        with pytest.raises(Crash):
            attempt.run()


@pytest.mark.parametrize("phase", sampled(["commit", "ingest", "committed"], 3))
@pytest.mark.parametrize(("dies", "goes_on"), [(LocalRun, on_spark), (SparkRun, here)])
def test_what_one_engine_died_in_the_other_ends(
    dies: type[CheckpointedRun], goes_on: Callable[..., Summary], phase: str, tmp_path: Path
) -> None:
    files, whole, broken = tmp_path / "in", tmp_path / "whole", tmp_path / "broken"
    write(files, range(5))
    dying(dies, topology(files, broken / "out"), broken / "ck", 2, phase)
    goes_on(topology(files, broken / "out"), broken / "ck")
    here(topology(files, whole / "out"), whole / "ck")
    assert rows_of(broken / "out") == rows_of(whole / "out")
    assert published(broken / "out") == published(whole / "out")


@pytest.mark.extended
@pytest.mark.parametrize(("dies", "goes_on"), [(LocalRun, on_spark), (SparkRun, here)])
def test_a_closing_that_one_engine_died_in_the_other_ends(
    dies: type[CheckpointedRun], goes_on: Callable[..., Summary], tmp_path: Path
) -> None:
    files, whole, broken = tmp_path / "in", tmp_path / "whole", tmp_path / "broken"
    write(files, range(3))
    dying(dies, topology(files, broken / "out"), broken / "ck", 3, "commit")
    goes_on(topology(files, broken / "out"), broken / "ck")
    here(topology(files, whole / "out"), whole / "ck")
    assert rows_of(broken / "out") == rows_of(whole / "out")
    assert published(broken / "out") == published(whole / "out")


@pytest.mark.parametrize("first", sampled(ENGINES, 2))
def test_what_one_engine_did_is_gone_back_by_and_done_by_the_other(first: str, tmp_path: Path) -> None:
    files, whole, back = tmp_path / "in", tmp_path / "whole", tmp_path / "back"
    second = next(each for each in ENGINES if each != first)
    write(files, range(5))
    ENGINES[first](topology(files, back / "out"), back / "ck")
    halves = PairedCheckpoint(str(back / "ck"))
    halves.lock.take()
    go_back(halves, batch_key(3, False))
    halves.lock.release()
    assert ENGINES[second](topology(files, back / "out"), back / "ck").batches == 2
    here(topology(files, whole / "out"), whole / "ck")
    assert rows_of(back / "out") == rows_of(whole / "out")
    assert published(back / "out") == published(whole / "out")


@pytest.mark.parametrize("first", sampled(ENGINES, 2))
def test_a_file_is_read_once_whatever_its_name(first: str, tmp_path: Path) -> None:
    """Nor whether its folder is a link."""
    files, ck = tmp_path / "in put %41 é", tmp_path / "ck"
    (tmp_path / "elsewhere").mkdir()
    files.symlink_to(tmp_path / "elsewhere")
    write(files, range(len(ODD)), lambda number: ODD[number])
    second = next(each for each in ENGINES if each != first)

    def built() -> Topology:
        builder = TopologyBuilder("names")
        builder.set_spout("in", spouts.files(files, SCHEMA, format="jsonl"))
        builder.set_bolt("ids", Ids().with_tumbling_window("10s").with_timestamp_field("ts")).global_grouping("in")
        builder.set_sink("out", sinks.files(tmp_path / "out", "jsonl")).from_("ids")
        return builder.build()

    assert ENGINES[first](built(), ck, keep_open=True).rows == 10 * len(ODD)
    write(files, range(len(ODD), len(ODD) + 1), lambda number: "one more")
    assert ENGINES[second](built(), ck, keep_open=True).rows == 10
    write(files, range(len(ODD) + 1, len(ODD) + 2), lambda number: "and another")
    assert ENGINES[first](built(), ck, keep_open=True).rows == 10


@pytest.mark.parametrize("first", sampled(ENGINES, 2))
def test_the_heartbeat_of_windows_that_follow_the_clock_goes_on(first: str, tmp_path: Path) -> None:
    """And input in memory, which lies in the checkpoint."""
    ticks: Iterator[int] = iter(range(1_700_000_000_000_000, 1_800_000_000_000_000, 7_000_000))
    second = next(each for each in ENGINES if each != first)
    write(tmp_path / "in", range(2))

    def built() -> Topology:
        builder = TopologyBuilder("beats")
        builder.set_spout("z", spouts.files(tmp_path / "in", SCHEMA, format="jsonl", files_per_batch=1))
        builder.set_spout("a", spouts.memory("id long", [(-1,)], [(-2,)], [(-3,)]))
        bolt = Ids().with_tumbling_window("10s")
        builder.set_bolt("ids", bolt).global_grouping("a").global_grouping("z")
        builder.set_sink("out", sinks.files(tmp_path / "out" / "ids", "jsonl")).from_("ids")
        return builder.build()

    def go(engine: str, *, keep_open: bool = True) -> int:
        return ENGINES[engine](built(), tmp_path / "ck", clock=lambda: next(ticks), keep_open=keep_open).batches

    assert go(first) == 3
    assert go(second) == 1, "one without input"
    write(tmp_path / "in", range(2, 4))
    assert go(first) == 2
    assert go(second) == 1
    write(tmp_path / "in", range(4, 5))
    assert go(second) == 1
    lines = [(tmp_path / "ck" / "spark" / "offsets" / str(number)).read_text().split("\n")[2:] for number in range(8)]
    heartbeats = [json.loads(each[-1])["offset"] for each in lines]
    assert heartbeats == [1, 1, 1, 2, 3, 3, 4, 5]
    assert go(first, keep_open=False) == 2
    ids = [int(each) for row in rows_of(tmp_path / "out")["ids"] for each in json.loads(row)["ids"].split(",")]
    assert sorted(ids) == [-3, -2, -1, *(100 * number + at for number in range(5) for at in range(10))]
