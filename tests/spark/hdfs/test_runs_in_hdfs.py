"""Runs whose checkpoint and sinks are in HDFS: nothing is lost or doubled, whoever dies, and two never have one."""

from __future__ import annotations

import json
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from pyspark.sql import SparkSession

from manager.storage.checkpoint import FileCheckpoint
from manager.storage.manifest import batch_key
from manager.storage.sealed_files import Committed
from tests.helpers.examples import sampled, share
from tests.helpers.hdfs import Hdfs
from tests.helpers.places import ROOT
from tests.helpers.races import Driver, judge, published, race, topology
from tests.helpers.store_changes import CHANGES, Change, Shop, begun, finished
from tests.helpers.store_changes import write as write_more
from tests.spark.tools import in_order
from topologies.checkpoints.going_back import go_back
from topologies.checkpoints.paired_checkpoint import PairedCheckpoint
from topologies.checkpoints.savepoint import take_savepoint
from topologies.checkpoints.state_tables import read
from topologies.local import run_local
from topologies.run.options import RunOptions
from topologies.spark.running import run_on_spark
from windowing.errors import StorageError, WindboltError


def died(store: Hdfs, inside: str, name: str, at: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.spark.hdfs.dying", inside, store.uri(name).rstrip("/"), str(at)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_it_is_killed_before_any_change(store: Hdfs, inside: str, expected: dict[str, bytes]) -> None:
    whole = died(store, inside, "whole", 0)
    assert whole.returncode == 0, whole.stderr
    changes = int(whole.stdout)
    assert published(store, "whole/out") == expected
    for at in random.Random("killed").sample(range(1, changes + 1), share(8, 1)):
        name = f"killed{at}"
        assert died(store, inside, name, at).returncode == -signal.SIGKILL
        assert died(store, inside, name, at).returncode in (-signal.SIGKILL, 0)  # and perhaps the next one, too
        driver = Driver(topology(inside, store.uri(f"{name}/out")), store.uri(f"{name}/ck"))
        driver.run()
        assert driver.error is None
        assert published(store, f"{name}/out") == expected, f"killed before change {at}"
        assert not [each for each in store.names(f"{name}/out") if "/." in each], "drafts of files"


@pytest.mark.parametrize("number", sampled(range(4), 4))
def test_of_two_runs_on_one_checkpoint_one_stops(
    store: Hdfs, inside: str, expected: dict[str, bytes], number: int
) -> None:
    race(store, f"race{number}", inside, expected, random.Random(number))


def test_the_second_run_stops_the_first_and_says_so(store: Hdfs, inside: str, expected: dict[str, bytes]) -> None:
    made = topology(inside, store.uri("second/out"))
    first, second = (Driver(made, store.uri("second/ck")) for _ in range(2))
    step: list[int] = []

    def meanwhile(report: Any) -> None:
        first.steps.append(batch_key(report.batch, report.closing))
        if not step:
            step.append(1)
            second.run()

    with pytest.raises(WindboltError, match=r"checkpoint hdfs://.*/second/ck has been taken over by process") as lost:
        run_local(made, RunOptions(checkpoint=store.uri("second/ck"), on_report=meanwhile))
    assert lost.value.why
    judge(store, "second", [first, second], expected)


def test_going_back(store: Hdfs, inside: str, expected: dict[str, bytes]) -> None:
    made = topology(inside, store.uri("back/out"))
    Driver(made, store.uri("back/ck")).run()
    done = go_back(PairedCheckpoint(store.uri("back/ck")), batch_key(1, False))
    assert done.sinks
    again = Driver(made, store.uri("back/ck"))
    again.run()
    assert again.error is None
    assert again.steps[0] == batch_key(2, False)
    assert published(store, "back/out") == expected


def test_a_savepoint_goes_to_a_local_folder_and_back(
    store: Hdfs, files: str, expected: dict[str, bytes], tmp_path: Path
) -> None:
    some, here = tmp_path / "in", str(tmp_path / "here")
    some.mkdir()
    made = topology(str(some), store.uri("saved/out"))
    for number, checkpoint, target in ((0, store.uri("saved/ck"), here), (1, here, store.uri("saved/again"))):
        shutil.copy2(f"{files}/{number}.jsonl", some)
        run_local(made, RunOptions(checkpoint=checkpoint, keep_open=True))
        taken(checkpoint, target)
    shutil.copy2(f"{files}/2.jsonl", some)
    run_local(made, RunOptions(checkpoint=store.uri("saved/again")))
    assert published(store, "saved/out") == expected


def taken(source: str, target: str) -> None:
    halves = PairedCheckpoint(source)
    halves.lock.share()
    try:
        take_savepoint(halves, target)
    finally:
        halves.lock.release()


@pytest.mark.parametrize("change", sampled(CHANGES, 4, lambda each: each.name))
def test_tasks_columns_and_bolts_change(store: Hdfs, change: Change, tmp_path: Path) -> None:
    """A run that was there stops, and whoever died behind the turn has done it."""
    shop = Shop(store, f"changed-{change.name}", tmp_path / "in")
    begun(shop, change)

    def meanwhile(report: Any) -> None:
        with pytest.raises(KeyboardInterrupt), patch.object(FileCheckpoint, "_copy", dying):
            change.make(shop)

    def dying(ours: FileCheckpoint, committed: Committed) -> None:
        if committed.notes:
            raise KeyboardInterrupt

    write_more(shop.folder, 3)
    with pytest.raises(WindboltError, match="has been taken over by process"):
        shop.run(change.before(shop), keep_open=True, on_report=meanwhile)
    change.make(shop)
    assert finished(shop, change)
    for bolt in ("seen", "rest"):
        accounts = read(shop.checkpoint, bolt)["accounts"]
        assert (sum(accounts["received"].to_pylist()), sum(accounts["pending"].to_pylist())) == (100, 0)
    if change.name != "reset":  # which has discarded some
        assert len(shop.rows("rest")) < len(shop.rows("seen"))


@pytest.mark.extended
def test_a_run_on_spark_has_other_numbers_of_tasks(store: Hdfs, spark: SparkSession, tmp_path: Path) -> None:
    found = []
    for name, tasks in {"moved": (2, 5, 3), "alike": (3, 3, 3)}.items():
        shop = Shop(store, f"spark-{name}", tmp_path / name)
        shop.folder.mkdir()
        for part, number in enumerate(tasks):
            write_more(shop.folder, part)
            options = RunOptions(shop.checkpoint, keep_open=part != 2, allow_rescale=True)
            summary = run_on_spark(shop.built(number), options)
            moved = part > 0 and name == "moved"
            assert summary.rescaled == ({"seen": (tasks[part - 1], number)} if moved else {})
        found.append((shop.rows("seen"), shop.rows("rest")))
    assert found[0] == found[1] != ([], [])


@pytest.mark.extended
def test_hdfs_that_goes_away_ends_the_run_which_continues_later(
    store: Hdfs, inside: str, expected: dict[str, bytes]
) -> None:
    made = topology(inside, store.uri("away/out"))
    with pytest.raises(StorageError) as failed:
        run_local(made, RunOptions(checkpoint=store.uri("away/ck"), on_report=lambda _: store.stop()))
    store.start()
    assert failed.value.transient
    assert f"hdfs://{store.address} does not answer" in failed.value.why
    driver = Driver(made, store.uri("away/ck"))
    driver.run()
    assert driver.error is None
    assert published(store, "away/out") == expected


def test_all_is_in_hdfs_on_spark(store: Hdfs, inside: str, expected: dict[str, bytes], spark: SparkSession) -> None:
    made = topology(inside, store.uri("spark/out"))
    for _ in range(2):  # the second run finds nothing to do
        run_on_spark(made, RunOptions(checkpoint=store.uri("spark/ck")))
        assert rows_of(published(store, "spark/out")) == rows_of(expected)
    assert "spark/ck/spark/metadata" in store.names("spark/ck")


@pytest.mark.parametrize("first", sampled([run_local, run_on_spark], 2, lambda each: each.__name__))
def test_either_engine_continues_what_the_other_has_begun(
    store: Hdfs, files: str, expected: dict[str, bytes], spark: SparkSession, first: Callable[..., Any]
) -> None:
    """They note the files by the same names, whatever is in these."""
    name = first.__name__
    made = topology(store.uri(f"{name}/a b%20ü"), store.uri(f"{name}/out"))
    engines: list[Callable[..., Any]] = (
        [run_on_spark, run_local] if first is run_on_spark else [run_local, run_on_spark]
    )
    for number, engine in enumerate([*engines, engines[0]]):
        store.put(f"{name}/a b%20ü/{number} +&=.jsonl", Path(files, f"{number}.jsonl").read_bytes())
        engine(made, RunOptions(checkpoint=store.uri(f"{name}/ck"), keep_open=number != 2))
    assert rows_of(published(store, f"{name}/out")) == rows_of(expected)


def rows_of(files: dict[str, bytes]) -> list[str]:
    return in_order(json.loads(line) for body in files.values() for line in body.splitlines())
