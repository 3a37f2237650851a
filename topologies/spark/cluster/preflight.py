"""Asks every executor of a cluster, before the first batch, whether it can run the topology."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark import SparkContext, cloudpickle

from topologies.run import clock
from topologies.run.clock import system_clock
from topologies.spark.cluster import first_questions
from topologies.spark.cluster.faults import faults_of, refused
from topologies.spark.cluster.looking import Told
from topologies.spark.cluster.probes import places_of
from topologies.spark.spark_executor import SparkExecutor, spark_failures
from topologies.topology import Topology
from windowing.errors import EnvironmentMissing

_PACKAGES = {"numpy": np.__version__, "pandas": pd.__version__, "pyarrow": pa.__version__}
_LOOK = "topologies.spark.cluster.looking:look"
_ROUNDS = 3
"""How often all are asked until each has answered: Spark says nowhere which executor a task is for."""
_NO_PROGRAM = re.compile(r'Cannot run program "([^"]*)"[^\n]*?(?:error=\d+, )?(No such[^\n]*|Permission[^\n]*)')
_VERSIONS = re.compile(r"PYTHON_VERSION_MISMATCH\]\s*([^\n]*)")


def ask_executors(executor: SparkExecutor, topology: Topology, checkpoint: str) -> None:
    """Raise EnvironmentMissing, with what is wrong on which executors, unless all of them can run the topology.

    They are those that there are now; at least one. An executor that comes later is not asked.
    """
    probe, places = uuid.uuid4().hex, places_of(topology, checkpoint)
    told = Told(executor.unpacker(), tuple(sorted(executor.reached.installed)), tuple(places), probe)
    try:
        for place in places:
            place.prepare(probe)
        started = system_clock()
        answers = _answers(executor.spark, told)
        took = (started, system_clock())
        for answer in answers:
            for number, place in enumerate(places) if "unseen" in answer else ():
                if number not in answer["unseen"] and (said := place.heard(probe, answer["task"])) is not None:
                    answer["unseen"][number] = said
    finally:
        for place in places:
            place.clear()
    faults = faults_of(answers, places, _PACKAGES, took)
    if faults:
        raise refused(faults, len(answers))


def _answers(spark: SparkContext, told: Told) -> list[dict[str, Any]]:
    """The answer of each executor."""
    found: dict[str, dict[str, Any]] = {}
    for first in range(_ROUNDS):
        count = executors_of(spark)
        for answer in _asked(spark, told, [*range(first * count, (first + 1) * count)]):
            found[answer["executor"]] = answer
        if len(found) >= executors_of(spark):
            break
    return list(found.values())


def executors_of(spark: SparkContext) -> int:
    """How many executors there are now; at least one, for which Spark waits."""
    return max(len(spark._jsc.sc().statusTracker().getExecutorInfos()) - 1, 1)  # one is the driver


def _asked(spark: SparkContext, told: Told, numbers: list[int]) -> list[dict[str, Any]]:
    with _by_value(first_questions, clock):
        question = first_questions.ask(list(_PACKAGES), system_clock, _LOOK, cloudpickle.dumps(told))  # type: ignore[no-untyped-call]
        asked = spark.parallelize(numbers, len(numbers)).mapPartitions(question)
        try:
            with spark_failures():
                return asked.collect()
        except Exception as error:
            cause = error.__cause__
            raise (python_not_started(str(cause)) if isinstance(cause, Py4JJavaError) else None) or error from cause


@contextmanager
def _by_value(*modules: Any) -> Iterator[None]:
    """Send the functions of these modules whole, so that they need not be there."""
    for module in modules:
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        for module in modules:
            cloudpickle.unregister_pickle_by_value(module)  # type: ignore[no-untyped-call]


def python_not_started(text: str) -> EnvironmentMissing | None:
    """The error for a Python that the executors cannot start, or that is not of the driver's version."""
    missing, versions = _NO_PROGRAM.search(text), _VERSIONS.search(text)
    if missing is not None:
        return EnvironmentMissing(
            f"the executors cannot start Python: there is no {missing[1]!r} on some of them",
            why=f"{missing[2].strip()}; it is named by spark.pyspark.python or PYSPARK_PYTHON, or is the driver's",
            do="name a Python that all of them have: --conf spark.pyspark.python=python3, or send one with --archives",
        )
    if versions is not None:
        return EnvironmentMissing(
            "the executors have another version of Python than the driver",
            why=versions[1].strip(),
            do="name a Python of the driver's version, with --conf spark.pyspark.python=... or PYSPARK_PYTHON",
        )
    return None
