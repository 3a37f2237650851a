"""Killed before any operation on a file, a run on Spark continues to the output of a run to which nothing happened."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.helpers.examples import share
from tests.spark.deaths.deadly import TASKS, Death, Operation, Outcome, drawn, library, run
from tests.spark.deaths.judging import Output, differences, output
from tests.spark.shop import write_orders

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux preloads libraries in this way")
SEEDS = range(share(2, 1))
PROCESSES = {"create", "write", "sync", "rename", "delete", "make folder"}


@pytest.fixture(scope="module")
def killer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return library(tmp_path_factory.mktemp("library"))


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("input") / "orders"
    write_orders(folder, range(3))
    return folder


@pytest.fixture(scope="module")
def undisturbed(
    killer: Path, orders: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Mapping[str, Sequence[Operation]], Output]:
    """The operations of whole runs, by who runs their tasks, and what comes out."""
    folders = {tasks: tmp_path_factory.mktemp(tasks) for tasks in TASKS}
    with ThreadPoolExecutor(2) as pool:
        runs = {tasks: pool.submit(run, killer, orders, folders[tasks], Death(0, "one", tasks)) for tasks in TASKS}
        found = {tasks: future.result() for tasks, future in runs.items()}
    for tasks, outcome in found.items():
        assert outcome.status == 0, outcome.said
        assert not differences(folders[tasks] / "data", output(folders[TASKS[0]] / "data"))
    return {tasks: outcome.operations for tasks, outcome in found.items()}, output(folders[TASKS[0]] / "data")


@pytest.mark.extended
def test_all_operations_of_all_processes_are_met(
    undisturbed: tuple[Mapping[str, Sequence[Operation]], Output],
) -> None:
    for operations in undisturbed[0].values():
        assert {operation.name for operation in operations} >= PROCESSES
        assert len({operation.process for operation in operations}) >= 3  # the driver, the JVM, workers
        assert [operation.number for operation in operations] == list(range(1, len(operations) + 1))


@pytest.fixture(scope="module")
def killed(
    killer: Path,
    orders: Path,
    undisturbed: tuple[Mapping[str, Sequence[Operation]], Output],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[dict[int, tuple[Death, Path, Future[list[Outcome]]]]]:
    """Runs that die and run again, two at a time."""

    def both(death: Death, folder: Path) -> list[Outcome]:
        return [run(killer, orders, folder, death), run(killer, orders, folder, Death(0, "one", death.tasks))]

    with ThreadPoolExecutor(2) as pool:
        runs = {}
        for seed in SEEDS:
            death, folder = drawn(seed, undisturbed[0]), tmp_path_factory.mktemp("killed")
            runs[seed] = death, folder, pool.submit(both, death, folder)
        yield runs


@pytest.mark.extended
@pytest.mark.parametrize("seed", SEEDS)
def test_a_run_that_dies_at_an_operation_goes_on(
    seed: int,
    killed: dict[int, tuple[Death, Path, Future[list[Outcome]]]],
    undisturbed: tuple[Mapping[str, Sequence[Operation]], Output],
) -> None:
    death, folder, runs = killed[seed]
    first, again = runs.result()
    assert first.operations[death.at - 1].number == death.at
    if death.whom == "all":
        assert first.status == -signal.SIGKILL, first.said
    assert again.status == 0, again.said
    assert not differences(folder / "data", undisturbed[1]), f"{death}, at {first.last}"
