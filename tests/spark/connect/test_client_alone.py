"""A client with ``pyspark-client`` and no other PySpark, and no Java: in an environment of its own."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from servers.spark import ConnectServer
from tests.helpers.damage import rows_of
from tests.helpers.places import ROOT
from tests.helpers.spark_of import client_alone
from tests.spark.connect.test_over_connect import program_in
from tests.spark.shop import write_orders

pytestmark = pytest.mark.extended
_SESSIONS = """
from counts import topology
from pyspark.sql import SparkSession
from windbolt import AggregateBolt, aggregates, windowed

spark = SparkSession.builder.remote({address!r}).getOrCreate()
run = topology.start("started")
run.wait()
print(run.frame("out").count())
frame = spark.readStream.schema("user string, amount double, ts timestamp").parquet({orders!r})
bolt = AggregateBolt(n=aggregates.count()).with_tumbling_window("20s").with_timestamp_field("ts")
of_frame = windowed(frame, bolt, checkpoint="windowed")
of_frame.wait()
print(of_frame.frame().count())
"""


@pytest.mark.timeout(900)
def test_it_runs_topologies_and_dataframes(server: ConnectServer, tmp_path: Path) -> None:
    python = str(client_alone())
    write_orders(tmp_path / "orders", range(2))
    reference = program_in(tmp_path)
    environment = {name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "SPARK_HOME")}
    how: dict[str, Any] = {
        "env": {**environment, "PYTHONPATH": str(ROOT), "PATH": str(tmp_path / "no programs")},
        "cwd": tmp_path, "capture_output": True, "text": True,
    }  # fmt: skip
    look = [python, "-c", "from importlib.util import find_spec; print(find_spec('py4j'))"]
    assert subprocess.run(look, check=False, **how).stdout == "None\n"

    command = [python, "-m", "windbolt", "run", reference, "--checkpoint", "ck", "--master", server.address]
    done = subprocess.run(command, check=False, **how)
    assert done.returncode == 0, done.stdout + done.stderr
    written = [json.loads(line) for line in rows_of(tmp_path / "out")["counts"]]
    assert written

    (tmp_path / "out").rename(tmp_path / "before")
    program = tmp_path / "sessions.py"  # with python -c PySpark 4.2 itself asks for a folder of Spark's
    program.write_text(_SESSIONS.format(address=server.address, orders=str(tmp_path / "orders")))
    done = subprocess.run([python, str(program)], check=False, **how)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.split() == [str(len(written))] * 2
