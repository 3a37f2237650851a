"""What Spark needs for its half of a checkpoint in a store is told before Java starts."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark import SparkContext

from topologies.spark import classic_session as session
from topologies.spark import runner
from topologies.topology import Topology
from windbolt import RunOptions, TopologyBuilder, run_on_spark, sinks, spouts
from windowing.errors import ConfigError, EnvironmentMissing


@pytest.fixture
def jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The jars of a Spark that nobody has started."""
    folder = tmp_path / "jars"
    folder.mkdir()
    (folder / "hadoop-client-api-3.9.1.jar").touch()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    for name in ("SPARK_CONF_DIR", "SPARK_DIST_CLASSPATH", "PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(SparkContext, "_gateway", None)
    return folder


def reading(path: str) -> Topology:
    builder = TopologyBuilder("stored")
    builder.set_spout("in", spouts.files(path, schema="x long", format="jsonl"))
    builder.set_sink("out", sinks.memory()).from_("in")
    return builder.build()


@pytest.mark.parametrize(
    ("place", "package"),
    [
        ("s3://bucket/ck", "org.apache.hadoop:hadoop-aws:3.9.1"),
        ("s3a://bucket/ck", "org.apache.hadoop:hadoop-aws:3.9.1"),
        ("abfss://c@a.dfs.core.windows.net/ck", "org.apache.hadoop:hadoop-azure:3.9.1"),
        ("gs://bucket/ck", "com.google.cloud.bigdataoss:gcs-connector:"),
    ],
)
def test_a_jar_that_is_missing_is_named_with_its_package(jars: Path, place: str, package: str) -> None:
    with pytest.raises(EnvironmentMissing, match=r"Spark cannot reach .*/ck: it has no ") as raised:
        session.check_jars([place], {})
    assert f"--packages {package}" in raised.value.do


def test_a_jar_that_is_there_or_is_to_come_is_enough(jars: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places = ["s3://bucket/ck"]
    session.check_jars(places, {"spark.jars.packages": "org.apache.hadoop:hadoop-aws:3.9.1"})
    session.check_jars(places, {"spark.driver.extraClassPath": "/opt/hadoop/*"})
    session.check_jars(["hdfs://nn/ck", "/srv/ck"], {})
    with monkeypatch.context() as submitted:
        submitted.setenv("PYSPARK_SUBMIT_ARGS", "--packages org.apache.hadoop:hadoop-aws:3.9.1 pyspark-shell")
        session.check_jars(places, {})
    (jars / "hadoop-aws-3.9.1.jar").touch()
    session.check_jars(places, {})


def test_a_spout_whose_store_is_named_in_its_path_is_refused() -> None:
    topology = reading("s3://bucket/in?endpoint_override=127.0.0.1:9000")
    with pytest.raises(ConfigError, match="with options behind a question mark") as raised:
        session.places_of_spark(topology, RunOptions("ck"))
    assert "AWS_ENDPOINT_URL_S3" in raised.value.do


def test_a_run_says_so_before_it_starts_java(jars: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "refuse_before_start", lambda *_: None)  # it would ask the store
    with pytest.raises(EnvironmentMissing, match="it has no hadoop-aws"):
        run_on_spark(reading("/in"), RunOptions("s3a://bucket/ck"))
    assert SparkContext._gateway is None


def test_places_are_those_that_spark_reaches(tmp_path: Path) -> None:
    """Only its half of the checkpoint: windbolt lists and reads the input."""
    reads = reading("s3a://bucket/in/?.jsonl")
    assert session.places_of_spark(reads, RunOptions(str(tmp_path))) == []
    assert session.places_of_spark(reads, RunOptions("s3a://bucket/ck")) == ["s3://bucket/ck"]
