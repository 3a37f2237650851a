"""What executors answer when they are asked before the first batch, and how it is told."""

from __future__ import annotations

import os
import pickle
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from manager.storage.hdfs import client
from topologies.run.options import is_cluster, local_cores, on_this_machine
from topologies.spark.cluster import (
    ProbedPlace,
    ProbeRequest,
    faults_error,
    find_faults,
    probed_places,
    python_not_started,
)
from topologies.spark.sent_by_value import probe
from topologies.spark.spark_tasks import Cluster, deal_out
from topologies.topology import Topology
from windbolt import TopologyBuilder, sinks, spouts
from windowing import AggregateBolt
from windowing.aggregates import count

NOW = 1_700_000_000_000_000
PACKAGES = {"numpy": "2.3.1", "pandas": "2.3.0", "pyarrow": "21.0.0"}
LOOK = "topologies.spark.cluster:answer_request"


def topology(folder: Path) -> Topology:
    builder = TopologyBuilder("counting")
    builder.set_spout("events", spouts.files(folder / "in/*.jsonl", schema="id string, ts timestamp"))
    bolt = AggregateBolt(n=count()).with_tumbling_window("10s").with_timestamp_field("ts")
    builder.set_bolt("count", bolt).global_grouping("events")
    builder.set_sink("out", sinks.files(folder / "out", "jsonl")).from_("count")
    return builder.build()


def answer(request: ProbeRequest, packages: list[str] | None = None) -> dict[str, Any]:
    task = probe(packages or list(PACKAGES), lambda: NOW, LOOK, pickle.dumps(request))
    (said,) = task([7])
    return said


def said_of(
    *answers: dict[str, Any], places: list[ProbedPlace] | None = None, took: tuple[int, int] = (NOW, NOW)
) -> str:
    faults = find_faults(answers, places or [], PACKAGES, took)
    return str(faults_error(faults, len(answers))) if faults else ""


def host(name: str = "node-1", **more: Any) -> dict[str, Any]:
    """The answer of an executor with which all is well, except for what is given."""
    well = {"executor": name, "host": name, "python": "Python 3.11.7, /usr/bin/python3", "missing": {}, "lacking": []}
    return {**well, "versions": dict(PACKAGES), "task": 0, "unseen": {}, "clock": NOW, **more}


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.jsonl").write_text("{}\n")
    return tmp_path


def test_an_executor_that_sees_all_that_the_driver_sees_can_run(files: Path) -> None:
    built = topology(files)
    places = probed_places(built, str(files / "ck"))
    for place in places:
        place.prepare("p")
    request = ProbeRequest(partial(id, built), ("pytest",), tuple(places), "p")  # type: ignore[arg-type]
    found = answer(request)
    assert (found["missing"], found["lacking"], found["unseen"]) == ({}, [], {})
    assert [place.check_answer("p", 7) for place in places] == [None] * 4
    for place in places:
        place.clear()
    assert sorted(path.name for path in files.rglob("*")) == ["1.jsonl", "ck", "in", "out"]


def test_places_are_the_checkpoint_the_input_and_the_folders_of_sinks(files: Path) -> None:
    found = probed_places(topology(files), str(files / "ck"))
    assert [(place.what, os.path.relpath(place.path, files), place.is_written_to) for place in found] == [
        ("the checkpoint", "ck", True),
        ("the input of spout 'events'", "in", False),
        ("the input of spout 'events'", "in/1.jsonl", False),
        ("the folder of sink 'out'", "out", True),
    ]


def test_a_folder_of_the_same_name_on_another_machine_is_another(tmp_path: Path) -> None:
    here, there = (
        ProbedPlace("the checkpoint", f"{tmp_path}/here", True),
        ProbedPlace("the checkpoint", f"{tmp_path}/there", True),
    )
    here.prepare("p")
    (tmp_path / "there").mkdir()
    error = "what the driver has written is not there: it is another folder of the same name"
    assert there.check_on_executor("p", 0) == error
    assert ProbedPlace("the checkpoint", f"{tmp_path}/nowhere", True).check_on_executor("p", 0) == "it is not there"
    assert str(here.check_answer("p", 0)).startswith("what it writes there the driver does not see: No such file")
    (tmp_path / "here" / ".windbolt-probe" / "0").write_text("of an earlier run")
    assert here.check_answer("p", 0) == "what it writes there the driver does not see"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_to_is_told(tmp_path: Path) -> None:
    place = ProbedPlace("the checkpoint", str(tmp_path), True)
    place.prepare("p")
    (tmp_path / ".windbolt-probe").chmod(0o500)
    assert "Permission denied" in str(place.check_on_executor("p", 0))


def test_a_package_that_is_missing_is_told_before_windbolt_is_imported(tmp_path: Path) -> None:
    request = ProbeRequest(partial(id, 0), (), (), "p")  # type: ignore[arg-type]
    found = answer(request, ["numpy", "no_such_package"])
    assert found["missing"] == {"no_such_package": "ModuleNotFoundError: No module named 'no_such_package'"}
    assert "task" not in found
    assert said_of(host(missing={"pyarrow": "ModuleNotFoundError: No module named 'pyarrow'"})) == (
        "the executor on node-1 has no pyarrow. Python 3.11.7, /usr/bin/python3: ModuleNotFoundError: No module named "
        "'pyarrow'; 1 executor was asked. install it there, or give all of them the driver's environment: "
        "spark.pyspark.python, or --archives with PYSPARK_PYTHON."
    )


def test_hdfs_without_its_package_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hdfs_native", None)
    client.cache_clear()
    place = ProbedPlace("the checkpoint", "hdfs://nn/ck", True)
    assert place.check_on_executor("p", 0) == "hdfs://nn/ is in HDFS, and the package hdfs-native is missing"


def test_what_cannot_be_loaded_is_told_with_its_error() -> None:
    found = answer(ProbeRequest(_broken, ("no_such_package",), (), "p"))  # type: ignore[arg-type]
    assert found["lacking"] == ["no_such_package"]
    found = answer(ProbeRequest(_broken, (), (), "p"))  # type: ignore[arg-type]
    assert found["failed"] == "ImportError: no module of this name"
    assert "cannot load the topology. " in said_of(found)
    assert sys.executable in said_of(found)


def _broken() -> None:
    raise ImportError("no module of this name")


def test_arrays_of_another_numpy_cannot_be_read() -> None:
    assert "the executor on node-1 has numpy 1.26.4, and the driver 2.3.1. " in said_of(
        host(versions=PACKAGES | {"numpy": "1.26.4"})
    )
    assert said_of(host(versions=PACKAGES | {"numpy": "2.1.0"})) == ""


@pytest.mark.parametrize(
    ("clock", "said"),
    [
        (NOW - 61_000_000, "has a clock that is 61 s behind the driver's"),
        (NOW + 9_000_000 + 3_600_000_000, "has a clock that is 3,600 s ahead of the driver's"),
        (NOW - 59_000_000, ""),
        (NOW + 60_000_000, ""),
    ],
)
def test_a_clock_may_differ_by_as_much_as_it_took_to_ask_and_a_minute(clock: int, said: str) -> None:
    assert said in said_of(host(clock=clock), took=(NOW, NOW + 9_000_000))
    assert bool(said) == bool(said_of(host(clock=clock), took=(NOW, NOW + 9_000_000)))


def test_one_error_names_all_who_have_it_and_what_else_there_is() -> None:
    place = ProbedPlace("the checkpoint", "/ck", True)
    unseen = [host(f"node-{number}", unseen={0: "it is not there"}) for number in range(5)]
    text = said_of(*unseen, host("node-5", clock=0), places=[place])
    assert text.startswith("the executors on node-0, node-1, node-2 and 2 more each: does not see the checkpoint, /ck")
    assert "; 6 executors were asked. Besides, an executor has a clock that is" in text


STARTING = """
	at org.apache.spark.scheduler.Task.run(Task.scala:147)
Caused by: java.io.IOException: Cannot run program "/no/python": error=2, No such file or directory
	at java.base/java.lang.ProcessBuilder.start(ProcessBuilder.java:1143)
"""
VERSIONS = """
pyspark.errors.exceptions.base.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has different version: \
3.10 than that in driver: 3.11, PySpark cannot run with different minor versions.
"""


def test_a_python_that_cannot_be_started_is_named() -> None:
    assert "there is no '/no/python' on some of them. No such file or directory; " in str(python_not_started(STARTING))
    assert "Python in worker has different version: 3.10 than that in driver: 3.11" in str(python_not_started(VERSIONS))
    assert python_not_started("something else") is None


def test_items_are_dealt_out_one_by_one() -> None:
    assert deal_out(list(range(7)), 1) == [[0, 2, 4, 6], [1, 3, 5]]
    assert deal_out(list(range(3)), 8) == [[0], [1], [2]]
    assert deal_out(["a"], 1) == [["a"]]


def test_slots_follow_the_cores_and_leave_room_for_more() -> None:
    assert Cluster(1, False).slots(8) == 8
    assert Cluster(2, False).slots(9) == 4
    assert Cluster(4, False).slots(2) == 1
    assert Cluster(1, True).slots(8) == 16


@pytest.mark.parametrize(
    ("master", "cores", "cluster", "here"),
    [
        ("local", ("1", None), False, True),
        ("local[*]", ("*", None), False, True),
        ("local[2,4]", ("2", "4"), False, True),
        ("local-cluster[2,1,512]", None, True, True),
        ("spark://host:7077", None, True, False),
        ("yarn", None, True, False),
        ("k8s://https://host:6443", None, True, False),
    ],
)
def test_which_masters_are_clusters(
    master: str, cores: tuple[str, str | None] | None, cluster: bool, here: bool
) -> None:
    assert (local_cores(master), is_cluster(master), on_this_machine(master)) == (cores, cluster, here)
