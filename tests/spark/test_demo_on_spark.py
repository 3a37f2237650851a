"""The demo on Spark writes what plain pandas makes of the same files."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.tools import run
from tests.topologies.examples.test_demo import check, check_accounts, expectation
from topologies.examples.flights.data import write_flights
from topologies.examples.flights.topology import flights_topology
from windowing import hours


@pytest.mark.extended
def test_the_demo_on_spark_writes_what_plain_pandas_computes(spark: SparkSession, tmp_path: Path) -> None:
    files = write_flights(tmp_path / "flights", timedelta(days=28))
    expected = expectation(files.directory, hours(1))
    summary = run(flights_topology(files.directory, tmp_path / "out", lag=hours(1)), tmp_path / "checkpoint")
    check(tmp_path / "out", expected)
    check_accounts(summary, expected)
