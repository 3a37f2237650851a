"""Whatever dies, wherever: after a restart the output is that of a run in which nothing happened."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.helpers.examples import sampled
from tests.helpers.places import ROOT
from tests.spark.shop import SCHEMA, Counted, Revenue, Taxed, shop_in_files, write_orders
from tests.spark.tools import (
    Trap,
    at_phase,
    drafts,
    file_rows,
    orphans,
    published,
    run,
    run_until,
)
from topologies.engine.batch import Context
from topologies.engine.tasks import fire, ingest
from topologies.spark.spark_tasks import SparkExecutor
from topologies.topology import Topology
from windbolt import TopologyBuilder, run_local, sinks, spouts

pytestmark = pytest.mark.usefixtures("spark")
SINKS = ("revenue", "late", "best")
PHASES = ("ingest", "tick", "fire", "compact", "sinks", "commit", "publish", "committed")
PLACES = {
    # name: (where, in or before the step after which batch, whom, who runs the tasks)
    "in the ingest": ("taxed", 1, "driver", "pool"),
    "in a bolt": ("revenue", 0, "driver", "pool"),
    "in a bolt, on Spark": ("revenue", 0, "driver", "spark"),
    "in a bolt, everything at once": ("revenue", 0, "group", "pool"),
    "in a bolt, everything at once, on Spark": ("revenue", 0, "group", "spark"),
    "in a bolt, its worker alone": ("revenue", 0, "worker", "pool"),
    "while sinks are served, Java alone": ("sinks", 1, "java", "pool"),
    "before Spark's commit": ("committed", 1, "driver", "spark"),
    "in the closing tick": ("commit", 3, "driver", "pool"),
}


Output = dict[str, tuple[list[str], list[str]]]


def output(folder: Path) -> Output:
    """Per sink: the rows, and the names of the files."""
    return {name: (file_rows(folder / name), published(folder / name)) for name in SINKS}


@pytest.fixture(scope="module")
def shared_orders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("input") / "orders"
    write_orders(folder, range(3))
    return folder


@pytest.fixture(scope="module")
def undisturbed(spark: SparkSession, shared_orders: Path, tmp_path_factory: pytest.TempPathFactory) -> Output:
    """What comes out where nothing happens; the rows are those of a local run."""
    here, there = tmp_path_factory.mktemp("undisturbed"), tmp_path_factory.mktemp("local")
    run(shop_in_files(shared_orders, here), here / "checkpoint")
    run_local(shop_in_files(shared_orders, there))
    assert {name: rows for name, (rows, _) in output(here).items()} == {name: file_rows(there / name) for name in SINKS}
    assert all(rows for rows, _ in output(here).values())
    return output(here)


def assert_undisturbed(folder: Path, expected: Output) -> None:
    found = output(folder)
    for name in SINKS:
        assert found[name][0] == expected[name][0]
        assert found[name][1] == expected[name][1]
        assert drafts(folder / name) == []
    assert orphans(folder / "checkpoint") == []


@pytest.fixture(scope="module")
def kills(
    request: pytest.FixtureRequest, shared_orders: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], tuple[int, Path, str]]]:
    """Runs that die, two at a time: the status of the process, its folder, and what it said."""
    wanted = [
        str(item.callspec.params["place"])
        for item in request.session.items
        if isinstance(item, pytest.Function) and hasattr(item, "callspec") and "place" in item.callspec.params
    ]
    with ThreadPoolExecutor(2) as pool:
        runs: dict[str, Future[tuple[int, Path, str]]] = {
            place: pool.submit(_killed, place, shared_orders, tmp_path_factory.mktemp("killed")) for place in wanted
        }
        yield lambda place: runs[place].result()


def _killed(place: str, orders: Path, folder: Path) -> tuple[int, Path, str]:
    where, batch, whom, tasks = PLACES[place]
    script = [
        sys.executable,
        "-m",
        "tests.spark.crashes.dying",
        str(orders),
        str(folder),
        where,
        str(batch),
        whom,
        tasks,
    ]
    with open(folder / "said", "w+", encoding="utf-8") as said:
        process = subprocess.Popen(script, cwd=ROOT, stdout=said, stderr=said, start_new_session=True, env=_paths())
        status = process.wait(600)
    return status, folder, (folder / "said").read_text("utf-8")


def _paths() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])}


@pytest.mark.parametrize("place", sampled(PLACES, 12, first=1))
def test_a_run_that_is_killed_goes_on(
    place: str, kills: Callable[[str], tuple[int, Path, str]], shared_orders: Path, undisturbed: Output
) -> None:
    status, folder, said = kills(place)
    whom = PLACES[place][2]
    if whom in ("java", "worker"):
        assert status == 1, said
        assert whom == "java" or "a worker process was killed (SIGKILL) in fire of revenue." in said
    else:
        assert status == -signal.SIGKILL, said
    run(shop_in_files(shared_orders, folder), folder / "checkpoint")
    assert_undisturbed(folder, undisturbed)


@pytest.mark.parametrize("phase", sampled(PHASES, 4, first=1))
def test_a_batch_that_ends_at_any_phase_comes_again(
    phase: str, shared_orders: Path, undisturbed: Output, tmp_path: Path
) -> None:
    crash = at_phase(2 + (phase == "committed"), phase)
    run_until(shop_in_files(shared_orders, tmp_path), tmp_path / "checkpoint", crash)
    run(shop_in_files(shared_orders, tmp_path), tmp_path / "checkpoint")
    assert_undisturbed(tmp_path, undisturbed)


def test_a_run_that_dies_again_and_again_comes_to_its_end(
    shared_orders: Path, undisturbed: Output, tmp_path: Path
) -> None:
    for batch, phase in [(0, "commit"), (0, "sinks"), (1, "fire"), (2, "commit"), (3, "ingest"), (3, "commit")]:
        run_until(shop_in_files(shared_orders, tmp_path), tmp_path / "checkpoint", at_phase(batch, phase))
    run(shop_in_files(shared_orders, tmp_path), tmp_path / "checkpoint")
    assert_undisturbed(tmp_path, undisturbed)


def test_a_commit_that_dies_while_it_cleans_leaves_nothing_for_good(
    shared_orders: Path, undisturbed: Output, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from manager.storage.checkpoint import FileCheckpoint

    def clean(checkpoint: FileCheckpoint, *folders: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(FileCheckpoint, "_clean", clean)
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                run(shop_in_files(shared_orders, tmp_path), tmp_path / "checkpoint")
    run(shop_in_files(shared_orders, tmp_path), tmp_path / "checkpoint")
    assert_undisturbed(tmp_path, undisturbed)


@pytest.mark.parametrize("action", sampled(["kill", "raise"], 2))
def test_a_task_that_fails_once_is_run_again(
    action: str, shared_orders: Path, undisturbed: Output, tmp_path: Path
) -> None:
    """Kill: the Python worker dies, in the ingest and in the fire."""
    traps = [Trap(str(tmp_path / f"trap-{number}"), action) for number in range(2)]
    topology = shop_in_files(shared_orders, tmp_path, taxed=Taxed(traps[0]), revenue=Revenue(traps[1]))
    run(topology, tmp_path / "checkpoint")
    assert all(trap.went_off for trap in traps)
    assert_undisturbed(tmp_path, undisturbed)


def test_a_task_that_runs_twice_is_counted_once(
    shared_orders: Path, undisturbed: Output, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where Spark runs a slow task a second time, and both come to their end."""
    once = SparkExecutor.task

    def twice(executor: SparkExecutor, function: Callable[[Any, Context], Any], context: Context) -> Any:
        task = once(executor, function, context)

        def run_twice(items: Sequence[Any]) -> Iterator[Any]:
            found = list(items)
            list(task(found))
            return task(found)

        return run_twice

    monkeypatch.setattr(SparkExecutor, "task", twice)
    run(shop_in_files(shared_orders, tmp_path), tmp_path / "checkpoint")
    assert_undisturbed(tmp_path, undisturbed)


def test_tasks_that_come_back_from_the_dead_change_nothing(
    shared_orders: Path, undisturbed: Output, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tasks of earlier steps run again behind the back of the driver, in the middle of later ones."""
    jobs: list[tuple[Any, list[Any], Context]] = []
    mapped = SparkExecutor.map

    def haunted(executor: SparkExecutor, function: Any, items: Sequence[Any], context: Context) -> list[Any]:
        if items and function in (ingest, fire):
            for old in jobs[-3:]:
                with suppress(Exception):  # the segments it reads, or its folder, may be gone: it dies a second death
                    mapped(executor, *old)
            jobs.append((function, list(items), context))
        return mapped(executor, function, items, context)

    monkeypatch.setattr(SparkExecutor, "map", haunted)
    run(shop_in_files(shared_orders, tmp_path), tmp_path / "checkpoint")
    assert len(jobs) > 6
    assert output(tmp_path) == undisturbed
    assert all(drafts(tmp_path / name) == [] for name in SINKS)


def test_rows_of_a_dataframe_survive_workers_and_runs_that_die(
    spark: SparkSession, shared_orders: Path, tmp_path: Path
) -> None:
    def topology(folder: Path, trap: Trap | None) -> Topology:
        frame = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(shared_orders))
        builder = TopologyBuilder("frames")
        builder.set_spout("orders", spouts.stream(frame))
        builder.set_spout("files", spouts.files(shared_orders, SCHEMA, files_per_batch=1))
        builder.set_bolt("taxed", Taxed(trap)).shuffle_grouping("orders")
        counted = Counted().with_window("20s", "10s").with_timestamp_field("ts").with_lag("5s")
        builder.set_bolt("counted", counted, 2).fields_grouping("taxed", "user").fields_grouping("files", "user")
        builder.set_sink("out", sinks.files(folder / "out", "jsonl")).from_("counted")
        return builder.build()

    whole, broken = tmp_path / "whole", tmp_path / "broken"
    run(topology(whole, None), whole / "checkpoint")
    trap = Trap(str(tmp_path / "trap"), "kill")
    for batch, phase in [(0, "tick"), (1, "fire"), (2, "commit"), (3, "commit")]:
        run_until(topology(broken, trap), broken / "checkpoint", at_phase(batch, phase))
    run(topology(broken, trap), broken / "checkpoint")
    assert trap.went_off
    assert file_rows(broken / "out") == file_rows(whole / "out") != []
    assert published(broken / "out") == published(whole / "out")
    assert drafts(broken / "out") == []
    assert orphans(broken / "checkpoint") == []


def test_a_worker_that_always_dies_is_an_error(shared_orders: Path, tmp_path: Path) -> None:
    class Deadly(Taxed):
        def execute(self, batch: Any) -> Any:
            os._exit(1)

    with pytest.raises(Exception, match=r"Python worker exited unexpectedly"):
        run(shop_in_files(shared_orders, tmp_path, taxed=Deadly()), tmp_path / "checkpoint")
    assert published(tmp_path / "revenue") == []
