"""Spark writes its logs without a program for each, and otherwise as ever: with checksums, for whom Spark lets read."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from tests.helpers.examples import sampled
from tests.helpers.places import ROOT
from tests.spark.shop import shop_in_memory, write_orders
from tests.spark.tools import run
from topologies.spark.jvm import java
from topologies.spark.jvm.java import permissions_without_chmod

pytestmark = pytest.mark.usefixtures("spark")
FEW, MANY = 2, 7
USUAL = ("LocalFileSystem", "ProxyLocalFileSystem")
"""The classes of local files that Hadoop itself gives out."""

RUN = """
import sys
from pathlib import Path
from tests.spark.shop import shop_in_memory
from tests.spark.tools import CONF
from topologies.run.options import RunOptions
from topologies.spark.running import run_on_spark
from topologies.spark.jvm.session import open_session

more = {"spark.hadoop.fs.file.impl": sys.argv[2]} if sys.argv[2] else {}
session, _ = open_session("local[2]", CONF | more)
for name in sys.argv[3:]:
    place = Path(sys.argv[1], name)
    run_on_spark(shop_in_memory(place)[0], RunOptions(str(place / "ck")))
    print(name, len(Path(sys.argv[1], "programs").read_text().splitlines()), flush=True)
session.stop()
"""


def logs(checkpoint: Path) -> list[Path]:
    """The files of Spark's half that have names of their own."""
    return sorted(path for path in (checkpoint / "spark").rglob("*") if path.is_file() and path.name[0] != ".")


def given_out(spark: SparkSession) -> str:
    """The class of the local files that Hadoop gives out."""
    jvm: Any = spark._jvm
    conf = spark.sparkContext._jsc.hadoopConfiguration()
    return str(jvm.org.apache.hadoop.fs.FileSystem.get(jvm.java.net.URI("file:///"), conf).getClass().getSimpleName())


def read_by_hadoop(spark: SparkSession, path: Path) -> str:
    """The text, held against its checksum; a Py4JJavaError where they differ."""
    jvm: Any = spark._jvm
    place = jvm.org.apache.hadoop.fs.Path(str(path))
    stream = place.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration()).open(place)
    try:
        return str(jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
    finally:
        stream.close()


@pytest.mark.extended
@pytest.mark.parametrize("others", sampled(["", "org.apache.hadoop.fs.LocalFileSystem"], 2))
def test_more_batches_start_no_more_programs(tmp_path: Path, others: str) -> None:
    """As the system sees it: each ``chmod`` adds a line. With a file system that the user has set, they do."""
    (tmp_path / "programs").touch()
    real, fake = shutil.which("chmod"), tmp_path / "bin/chmod"
    fake.parent.mkdir()
    fake.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/programs\nexec {real} "$@"\n')
    fake.chmod(0o755)
    for name, count in (("warm", FEW), ("few", FEW), ("many", MANY)):
        write_orders(tmp_path / name, range(count))
    environment = {**os.environ, "PATH": f"{fake.parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", RUN, str(tmp_path), others, "warm", "few", "many"]
    ran = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=True)
    found = {name: int(count) for name, count in (line.split() for line in ran.stdout.splitlines() if line)}
    few, many = found["few"] - found["warm"], found["many"] - found["few"]
    if others:
        assert many - few >= 2 * 2 * (MANY - FEW), "two logs of each batch, with their checksums: the third is ours"
    else:
        assert many == few, ran.stderr


def test_the_logs_are_as_hadoop_writes_them(spark: SparkSession, tmp_path: Path) -> None:
    write_orders(tmp_path / "orders", range(12))  # the tenth entry of the log of a source holds all before it too
    usual = given_out(spark)
    assert usual in USUAL
    run(shop_in_memory(tmp_path / "orders")[0], tmp_path / "ck")
    assert given_out(spark) == usual
    found = logs(tmp_path / "ck")
    assert len(found) == 1 + 3 * 12
    for path in found:
        by_windbolt = "sources" in path.relative_to(tmp_path).parts  # for its owner only, as the guide says
        assert path.stat().st_mode & 0o777 == (0o600 if by_windbolt else 0o644)
        assert path.with_name(f".{path.name}.crc").exists(), path
        assert read_by_hadoop(spark, path) == path.read_text()
        data = path.read_bytes()
        path.write_bytes(data[:-2] + bytes([data[-2] ^ 1]) + data[-1:])
        with pytest.raises(Py4JJavaError, match="ChecksumException"):
            read_by_hadoop(spark, path)


def test_who_asks_meanwhile_gets_local_files_too(spark: SparkSession, tmp_path: Path) -> None:
    usual = given_out(spark)
    with permissions_without_chmod(spark):
        assert given_out(spark).startswith("LocalFiles")
        spark.range(5).write.parquet(str(tmp_path / "numbers"))
        assert spark.read.parquet(str(tmp_path / "numbers")).count() == 5
        path = next((tmp_path / "numbers").glob("*.parquet"))
        path.write_bytes(path.read_bytes()[:-1] + b"\0")
        with pytest.raises(Py4JJavaError, match="ChecksumException"):
            read_by_hadoop(spark, path)
    assert given_out(spark) == usual


def test_files_and_folders_are_what_they_are_otherwise(spark: SparkSession, tmp_path: Path) -> None:
    """A file that is there is replaced or not, and folders pass on their group, with these as without."""
    jvm: Any = spark._jvm
    conf, place = spark.sparkContext._jsc.hadoopConfiguration(), jvm.org.apache.hadoop.fs.Path

    def tried(name: str) -> list[Any]:
        files = place("file:///").getFileSystem(conf)
        folder = tmp_path / name
        folder.mkdir()
        folder.chmod(0o2755)
        shutil.chown(folder, group=os.getgroups()[-1] if os.getgroups() else -1)
        for each in ("one", "two"):
            stream = files.create(place(str(folder / each)))
            stream.write(len(each))
            stream.close()
        made = files.mkdirs(place(str(folder / "inner")))
        renamed = files.rename(place(str(folder / "one")), place(str(folder / "two")))
        moved = files.rename(place(str(folder / "two")), place(str(folder / "three")))
        modes = [(path.name, oct(path.stat().st_mode)) for path in sorted(folder.iterdir())]
        return [made, renamed, moved, modes, files.getConf().get("fs.permissions.umask-mode")]

    before = tried("before")
    with permissions_without_chmod(spark):
        assert given_out(spark).startswith("LocalFiles")
        assert tried("within") == before


@pytest.mark.parametrize("others", [True, False])
def test_where_they_cannot_be_had_nothing_changes(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, others: bool
) -> None:
    usual, conf = given_out(spark), spark.sparkContext._jsc.hadoopConfiguration()
    if others:
        conf.set("fs.file.impl", "org.apache.hadoop.fs.RawLocalFileSystem")
    else:
        (tmp_path / "LocalFiles.java").write_text("public class LocalFiles {")
        monkeypatch.setattr(java, "_SOURCE", tmp_path / "LocalFiles.java")
    try:
        with permissions_without_chmod(spark):
            assert given_out(spark) == usual
        with pytest.raises(ZeroDivisionError), permissions_without_chmod(spark):
            raise ZeroDivisionError
    finally:
        conf.unset("fs.file.impl")
    assert given_out(spark) == usual
