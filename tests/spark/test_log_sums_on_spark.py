"""Spark's logs have the checksums that Hadoop would have written, whoever has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession

from tests.spark.shop import SCHEMA, Counted, shop_in_memory, write_orders
from tests.spark.tools import run
from topologies import TopologyBuilder, sinks, spouts
from topologies.checkpoints.spark_half.log_sums import LogSums
from windowing import seconds

pytestmark = pytest.mark.usefixtures("spark")
FILES = 12
"""As many batches: the tenth entry of the log of a source holds all before it too."""


def logs(checkpoint: Path) -> list[Path]:
    """The files of Spark's half that have names of their own."""
    return sorted(path for path in (checkpoint / "spark").rglob("*") if path.is_file() and path.name[0] != ".")


def read_by_hadoop(spark: SparkSession, path: Path) -> str:
    """The text, held against its checksum; a Py4JJavaError where they differ."""
    jvm: Any = spark._jvm
    conf = spark.sparkContext._jsc.hadoopConfiguration()
    place = jvm.org.apache.hadoop.fs.Path(str(path))
    stream = place.getFileSystem(conf).open(place)
    try:
        return str(jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
    finally:
        stream.close()


@pytest.mark.parametrize("files", [3, FILES])
def test_hadoop_finds_them_right_and_finds_damage_by_them(
    spark: SparkSession, tmp_path: Path, files: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, keep = list[int](), LogSums.keep

    def noted(sums: LogSums, batch: int) -> None:
        kept.append(batch)
        keep(sums, batch)

    monkeypatch.setattr(LogSums, "keep", noted)
    write_orders(tmp_path / "orders", range(files))
    topology, _ = shop_in_memory(tmp_path / "orders")
    assert run(topology, tmp_path / "ck").batches == files + 1
    assert set(kept) >= set(range(files))
    found = logs(tmp_path / "ck")
    assert len(found) == 1 + 3 * files
    for path in found:
        assert path.with_name(f".{path.name}.crc").exists(), path
        assert read_by_hadoop(spark, path) == path.read_text()
        data = path.read_bytes()
        path.write_bytes(data[:-2] + bytes([data[-2] ^ 1]) + data[-1:])
        with pytest.raises(Py4JJavaError, match="ChecksumException"):
            read_by_hadoop(spark, path)
        path.write_bytes(data)
    assert spark.conf.get("fs.file.impl", None) is None


def test_files_that_spark_reads_for_a_frame_are_held_against_theirs(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[LogSums] = []
    monkeypatch.setattr(LogSums, "begin", begun.append)
    write_orders(tmp_path / "orders", range(2))

    def orders(spark: SparkSession) -> DataFrame:
        reader = spark.readStream.schema("user string, amount double, ts timestamp")
        return reader.option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "orders"))

    builder, out = TopologyBuilder("frames"), sinks.memory()
    builder.set_spout("orders", spouts.stream(orders, SCHEMA))
    bolt = Counted().with_tumbling_window(seconds(30)).with_timestamp_field("ts")
    builder.set_bolt("counted", bolt).global_grouping("orders")
    builder.set_sink("out", out).from_("counted")
    run(builder.build(), tmp_path / "ck")
    assert out.rows
    assert not begun
    for path in logs(tmp_path / "ck"):
        assert path.with_name(f".{path.name}.crc").exists(), path
        read_by_hadoop(spark, path)
