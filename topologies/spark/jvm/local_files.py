"""Hadoop's local files without a program for each (decision 90)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from topologies.spark.jvm.compiled import FAILURES, compiled, made

_SOURCE = Path(__file__).with_name("LocalFiles.java")


@contextmanager
def without_programs(spark: SparkSession) -> Iterator[None]:
    """Who asks Hadoop within the block for the file system of this machine gets one that sets permissions itself.

    Without its native library Hadoop's own starts a program, ``chmod``, for each file that it creates, and two for one
    with a checksum: 3 to 4 ms each. In all else they are the same, so it is no harm if others get it too. Where it
    cannot be had, or somebody has set ``fs.file.impl``, nothing changes.
    """
    conf: Any = spark.sparkContext._jsc.hadoopConfiguration()
    try:
        files = made(spark, compiled(spark, _SOURCE))
        files.enter(conf)
    except FAILURES:
        yield
        return
    try:
        yield
    finally:
        with suppress(*FAILURES, OSError):  # Java may have ended
            files.leave(conf)
