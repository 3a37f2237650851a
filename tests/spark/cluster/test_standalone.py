"""On a standalone cluster of Spark, whatever dies there: the rows of a run in one process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterator

import pytest

from tests.spark.cluster.standalone import SPARK, Standalone, standalone
from tests.spark.shop import write_orders
from tests.spark.tools import drafts, file_rows

SINKS = ("revenue", "late")
WINDBOLT = os.path.join(sysconfig.get_path("scripts"), "windbolt")
FILES = 3

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a machine has one address of its own only"),
    pytest.mark.xdist_group("standalone"),
]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with standalone(tmp_path_factory.mktemp("cluster")) as started:
        (started.shared / "hosts").mkdir()
        write_orders(started.shared / "orders", range(FILES))
        yield started


@pytest.fixture(scope="module")
def expected(cluster: Standalone) -> dict[str, list[str]]:
    """The rows of a local run."""
    app(cluster, "expected", "local")
    return rows(cluster, "expected")


def app(cluster: Standalone, name: str, *what: str, status: int = 0) -> subprocess.CompletedProcess[str]:
    """Run the user's program, which chooses no master unless it is told one."""
    return ended(cluster.run(sys.executable, "app.py", str(cluster.shared), name, *what), status)


def ended(process: subprocess.CompletedProcess[str], status: int = 0) -> subprocess.CompletedProcess[str]:
    assert process.returncode == status, process.stdout + process.stderr[-6000:]
    return process


def rows(cluster: Standalone, name: str) -> dict[str, list[str]]:
    folder = cluster.shared / name
    assert not any(drafts(folder / sink) for sink in SINKS)
    return {sink: file_rows(folder / sink) for sink in SINKS}


def hosts(cluster: Standalone) -> set[str]:
    """Where bolts have been since this was asked last."""
    found = {path.name for path in (cluster.shared / "hosts").iterdir()}
    for name in found:
        (cluster.shared / "hosts" / name).unlink()
    return found


def test_the_workers_have_neither_windbolt_nor_the_users_modules(cluster: Standalone) -> None:
    for worker in cluster.workers:
        ended(cluster.there(worker, "import pyarrow, numpy, pandas"))
        assert "No module named 'windbolt'" in ended(cluster.there(worker, "import windbolt"), 1).stderr
        seen = cluster.there(worker, f"import os; print(os.listdir({str(cluster.driver)!r}))").stdout
        assert seen == "[]\n" or not cluster.apart


def test_a_program_runs_where_spark_submit_sends_it(cluster: Standalone, expected: dict[str, list[str]]) -> None:
    hosts(cluster)
    submit = [str(SPARK / "bin" / "spark-submit"), "--master", cluster.url, "app.py"]
    said = ended(cluster.run(*submit, str(cluster.shared), "submitted")).stdout
    assert json.loads(said.splitlines()[-1])["batches"] == FILES + 1  # and the closing
    assert hosts(cluster) == {"127.0.0.2", "127.0.0.3"}
    assert rows(cluster, "submitted") == expected


@pytest.mark.parametrize("who", ["executor", "worker"])
def test_another_does_what_one_that_died_had_to_do(
    cluster: Standalone, expected: dict[str, list[str]], who: str
) -> None:
    (cluster.shared / "happened").unlink(missing_ok=True)
    place = {"SHARED": str(cluster.shared), "NAME": who, "WHAT": who}
    checkpoint = f"{cluster.shared}/{who}/checkpoint"
    command = [WINDBOLT, "run", "app.py:topology", "--master", cluster.url, "--checkpoint", checkpoint]
    ended(cluster.run(*command, **place))
    assert (cluster.shared / "happened").exists()
    assert sum(worker.process is not None and worker.process.poll() is None for worker in cluster.workers) == (
        1 if who == "worker" else 2
    )
    cluster.start()
    assert rows(cluster, who) == expected


def test_the_next_driver_goes_on_where_one_was_killed(cluster: Standalone, expected: dict[str, list[str]]) -> None:
    (cluster.shared / "happened").unlink(missing_ok=True)
    app(cluster, "driver", "driver", cluster.url, status=-9)
    assert (cluster.shared / "happened").exists()
    app(cluster, "driver", "", cluster.url)
    assert rows(cluster, "driver") == expected


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


def test_a_slow_machine_does_not_hold_back_the_others(cluster: Standalone, expected: dict[str, list[str]]) -> None:
    (cluster.shared / "happened").unlink(missing_ok=True)
    speculation = {"speculation": "true", "speculation.interval": "50ms", "speculation.quantile": "0.5",
                   "speculation.multiplier": "1.1", "speculation.minTaskRuntime": "1s"}  # fmt: skip
    settings = [word for name, value in speculation.items() for word in ("--conf", f"spark.{name}={value}")]
    command = [WINDBOLT, "run", "app.py:topology", "--master", cluster.url, *settings]
    command += ["--checkpoint", f"{cluster.shared}/slow/checkpoint"]
    place = {"SHARED": str(cluster.shared), "NAME": "slow", "WHAT": "a slow machine"}
    ended(cluster.run(*command, **place))
    assert (cluster.shared / "happened").exists()
    assert rows(cluster, "slow") == expected
