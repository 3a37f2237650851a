"""On a standalone cluster of Spark, whatever dies there: the rows of a run in one process."""

from __future__ import annotations

import json
import sys

import pytest

from servers.spark import SPARK, Standalone
from tests.spark.cluster.playing import FILES, WINDBOLT, app, crashed, ended, hosts, rows, same_both_ways

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a machine has one address of its own only")


@pytest.mark.extended
def test_the_workers_have_neither_windbolt_nor_the_users_modules(cluster: Standalone) -> None:
    for worker in cluster.workers:
        ended(cluster.there(worker, "import pyarrow, numpy, pandas"))
        assert "No module named 'windbolt'" in ended(cluster.there(worker, "import windbolt"), 1).stderr
        seen = cluster.there(worker, f"import os; print(os.listdir({str(cluster.driver)!r}))").stdout
        assert seen == "[]\n" or not cluster.apart


def test_a_program_that_spark_submit_runs_there_goes_on_where_a_worker_dies(
    cluster: Standalone, expected: dict[str, list[str]]
) -> None:
    hosts(cluster)
    (cluster.shared / "happened").unlink(missing_ok=True)
    submit = [str(SPARK / "bin" / "spark-submit"), "--master", cluster.url, "app.py"]
    said = ended(cluster.run(*submit, str(cluster.shared), "submitted", "worker")).stdout
    assert json.loads(said.splitlines()[-1])["batches"] == FILES + 1  # and the closing
    assert (cluster.shared / "happened").exists()
    assert _living(cluster) == 1
    assert hosts(cluster) == {"127.0.0.2", "127.0.0.3"}
    cluster.start()
    assert rows(cluster, "submitted") == expected


@pytest.mark.extended
def test_another_executor_does_what_one_that_died_had_to_do(
    cluster: Standalone, expected: dict[str, list[str]]
) -> None:
    (cluster.shared / "happened").unlink(missing_ok=True)
    place = {"SHARED": str(cluster.shared), "NAME": "executor", "WHAT": "executor"}
    checkpoint = f"{cluster.shared}/executor/checkpoint"
    command = [WINDBOLT, "run", "app.py:topology", "--master", cluster.url, "--checkpoint", checkpoint]
    ended(cluster.run(*command, **place))
    assert (cluster.shared / "happened").exists()
    assert _living(cluster) == 2
    cluster.start()
    assert rows(cluster, "executor") == expected


@pytest.mark.extended
def test_sums_of_a_dataframe_are_those_of_its_rows_though_an_executor_dies(cluster: Standalone) -> None:
    """As it adds up, so that another one does the same."""
    (cluster.shared / "happened").unlink(missing_ok=True)
    both_there = "spark.scheduler.minRegisteredResourcesRatio=1.0"
    same_both_ways(ended(cluster.run(sys.executable, "frames.py", str(cluster.shared), cluster.url, both_there)))
    assert (cluster.shared / "happened").exists()


def _living(cluster: Standalone) -> int:
    return sum(worker.process is not None and worker.process.poll() is None for worker in cluster.workers)


@pytest.mark.extended
def test_the_next_driver_goes_on_where_one_was_killed(cluster: Standalone, expected: dict[str, list[str]]) -> None:
    (cluster.shared / "happened").unlink(missing_ok=True)
    app(cluster, "driver", "driver", cluster.url, status=-9)
    assert (cluster.shared / "happened").exists()
    app(cluster, "driver", "", cluster.url)
    assert rows(cluster, "driver") == expected


@pytest.mark.extended
def test_what_an_executor_lacks_is_told_before_the_first_batch(cluster: Standalone) -> None:
    place = [str(cluster.shared), str(cluster.driver), cluster.url]
    answer = json.loads(ended(cluster.run(sys.executable, "refused.py", *place)).stdout.splitlines()[-1])
    said = answer["said"]
    both = "the executors on 127.0.0.2, 127.0.0.3 each: "
    two = "2 executors were asked"
    if cluster.apart:
        for name, what in {
            "checkpoint": f"does not see the checkpoint, {cluster.driver}/checkpoint",
            "input": f"does not see the input of spout 'orders', {cluster.driver}/orders",
            "sink": f"does not see the folder of sink 'out', {cluster.driver}/out",
            "module": "cannot load the topology",
        }.items():
            assert both + what in in_any_order(said[name]), said[name]
            assert two in said[name]
        assert "No module named 'hidden_taxes'" in said["module"]
    assert both + "has no xmltodict" in in_any_order(said["package"])
    assert answer["left"] == []


def in_any_order(text: str) -> str:
    """Of two executors either may have answered first."""
    return text.replace("127.0.0.3, 127.0.0.2", "127.0.0.2, 127.0.0.3")


def submitted(cluster: Standalone, what: str, settings: dict[str, str]) -> dict[str, list[str]]:
    """The rows of a run with settings of Spark's."""
    (cluster.shared / "happened").unlink(missing_ok=True)
    name = what.replace(" ", "-")
    chosen = [word for each, value in settings.items() for word in ("--conf", f"spark.{each}={value}")]
    command = [WINDBOLT, "run", "app.py:topology", "--master", cluster.url, *chosen]
    command += ["--checkpoint", f"{cluster.shared}/{name}/checkpoint"]
    ended(cluster.run(*command, SHARED=str(cluster.shared), NAME=name, WHAT=what))
    return rows(cluster, name)


@pytest.mark.extended
def test_a_slow_machine_does_not_hold_back_the_others(cluster: Standalone, expected: dict[str, list[str]]) -> None:
    settings = {"speculation": "true", "speculation.interval": "50ms", "speculation.quantile": "0.5",
                "speculation.multiplier": "1.1", "speculation.minTaskRuntime": "1s"}  # fmt: skip
    assert submitted(cluster, "a slow machine", settings) == expected
    assert (cluster.shared / "happened").exists()


@pytest.mark.extended
def test_the_master_dies_between_jobs_and_the_rows_are_the_same(
    cluster: Standalone, expected: dict[str, list[str]]
) -> None:
    """All that may die, in all phases: ``python -m tests.spark.cluster``."""
    assert crashed(cluster, "master@fire") == expected


@pytest.mark.extended
def test_a_bolt_gets_more_tasks_and_fewer(cluster: Standalone, expected: dict[str, list[str]]) -> None:
    app(cluster, "rescaled", "rescaled", cluster.url)
    assert rows(cluster, "rescaled") == expected


@pytest.mark.extended
def test_a_machine_on_which_tasks_fail_is_left_out(cluster: Standalone, expected: dict[str, list[str]]) -> None:
    settings = {"excludeOnFailure.enabled": "true", "excludeOnFailure.task.maxTaskAttemptsPerExecutor": "1"}
    assert submitted(cluster, "a broken machine", settings) == expected
    assert (cluster.shared / "happened").exists()


@pytest.mark.extended
def test_executors_are_asked_for_while_work_waits(cluster: Standalone, expected: dict[str, list[str]]) -> None:
    """The bolt continues as soon as it has been called on two machines; the run begins with one executor."""
    hosts(cluster)
    settings = {"dynamicAllocation.enabled": "true", "dynamicAllocation.shuffleTracking.enabled": "true",
                "dynamicAllocation.initialExecutors": "1", "dynamicAllocation.maxExecutors": "2"}  # fmt: skip
    assert submitted(cluster, "a late machine", settings) == expected
    assert hosts(cluster) == {"127.0.0.2", "127.0.0.3"}
