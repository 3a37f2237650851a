"""The logs of a query are written without programs, and are those that Spark's own class writes."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.spark.shop import SCHEMA, write_orders
from tests.spark.tools import run
from topologies.spark import classic_session
from topologies.spark.classic_session import simple_checkpoints
from windbolt import TopologyBuilder, sinks, spouts

MANAGER = classic_session._FILE_MANAGER


def manager(spark: SparkSession, name: str, folder: Path) -> Any:
    """An object of a class that writes logs."""
    jvm: Any = spark._jvm
    gateway: Any = spark.sparkContext._gateway
    given = gateway.new_array(jvm.java.lang.Object, 2)
    given[0], given[1] = jvm.org.apache.hadoop.fs.Path(f"file:{folder}"), spark.sparkContext._jsc.hadoopConfiguration()
    return jvm.org.apache.spark.util.Utils.classForName(name, True, False).getConstructors()[0].newInstance(given)


def written(spark: SparkSession, by: Any, path: Path, text: str) -> None:
    jvm: Any = spark._jvm
    file = by.createAtomic(jvm.org.apache.hadoop.fs.Path(f"file:{path}"), False)
    file.write(text.encode())
    file.close()


def shown(folder: Path) -> dict[str, tuple[int, bytes]]:
    """The rights and the bytes of each file."""
    return {file.name: (stat.S_IMODE(file.stat().st_mode), file.read_bytes()) for file in folder.iterdir()}


@pytest.fixture
def names(spark: SparkSession) -> tuple[str, str]:
    """Spark's class, and windbolt's."""
    with simple_checkpoints(spark, "/folder"):
        mine = str(spark.conf.get(MANAGER))
    plain = str(classic_session._simple_manager(spark).getName())
    assert mine != plain
    return plain, mine


def test_files_checksums_and_rights_are_the_same(spark: SparkSession, names: tuple[str, str], tmp_path: Path) -> None:
    found = []
    for name in names:
        folder = tmp_path / name
        folder.mkdir()
        by = manager(spark, name, folder)
        for size in (0, 1, 511, 512, 513, 20_000):
            written(spark, by, folder / str(size), "ä" * size)
        found.append(shown(folder))
        with pytest.raises((Py4JError, PySparkException), match="exists"):
            written(spark, by, folder / "512", "another")
    assert found[0] == found[1]
    assert len(found[0]) == 12


@contextmanager
def noted_programs(spark: SparkSession, file: Path) -> Iterator[list[str]]:
    """The commands of the programs that Java starts, by its own recorder; there at the end of the block."""
    jvm: Any = spark._jvm
    recording, found = jvm.jdk.jfr.Recording(), list[str]()
    recording.enable("jdk.ProcessStart")
    recording.start()
    try:
        yield found
        recording.stop()
        recording.dump(jvm.java.io.File(str(file)).toPath())
    finally:
        recording.close()
    events = jvm.jdk.jfr.consumer.RecordingFile.readAllEvents(jvm.java.io.File(str(file)).toPath())
    found += [str(event.getString("command")) for event in events]


def test_no_program_is_started(spark: SparkSession, names: tuple[str, str], tmp_path: Path) -> None:
    started = []
    for name in names:
        folder = tmp_path / name
        folder.mkdir()
        by = manager(spark, name, folder)
        with noted_programs(spark, tmp_path / f"{name}.jfr") as commands:
            for number in range(3):
                written(spark, by, folder / str(number), "x")
        started.append([command.split()[0] for command in commands if str(folder) in command])
    assert started == [["chmod"] * 6, []]


@pytest.mark.parametrize("compiles", [True, False])
def test_a_run_has_it_and_the_session_has_it_no_more(spark: SparkSession, tmp_path: Path, *, compiles: bool) -> None:
    """Also where a Java does not compile it: then Spark's own class writes."""
    write_orders(tmp_path / "in", range(2))
    builder, out, used = TopologyBuilder("logs"), sinks.memory(), list[str]()
    builder.set_spout("orders", spouts.files(str(tmp_path / "in"), SCHEMA))
    builder.set_sink("out", out).from_("orders")
    before = spark.conf.get(MANAGER, None)
    source = tmp_path / "CheckpointFiles.java"
    source.write_text(classic_session._CHECKPOINT_FILES.read_text("utf-8") if compiles else "public class")

    def note(report: Any) -> None:
        used.extend(query._jsq.streamingQuery().sparkSessionForStream().conf().get(MANAGER) for query in active())

    def active() -> list[Any]:
        return list(spark.streams.active)

    with patch.object(classic_session, "_CHECKPOINT_FILES", source):
        run(builder.build(), tmp_path / "checkpoint", on_report=note)
    assert {name.rsplit(".", 1)[1][:15] for name in used} == {"CheckpointFiles" if compiles else "FileSystemBased"}
    assert len(out.rows) == 120
    assert spark.conf.get(MANAGER, None) == before
