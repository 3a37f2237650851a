"""Hadoop's local files without a program for each (decision 90)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from topologies.spark.jvm.compiled import FAILURES, compiled, made
from topologies.spark.jvm.together import Together

_SOURCE = Path(__file__).with_name("LocalFiles.java")
_TOGETHER = Together()


@contextmanager
def without_programs(spark: SparkSession) -> Iterator[None]:
    """Who asks Hadoop within the block for the file system of this machine gets one that sets permissions itself.

    Without its native library Hadoop's own starts a program, ``chmod``, for each file that it creates, and more for one
    with a checksum: 3 to 4 ms each. In all else they are the same, so it is no harm if others get it too. Where it
    cannot be had, or somebody has set ``fs.file.impl``, nothing changes.
    """
    with _TOGETHER.during(spark.sparkContext._gateway, partial(_enter, spark)):
        yield


def _enter(spark: SparkSession) -> Callable[[], None]:
    """Have Hadoop give them out; what is returned ends that."""
    java: Any = spark.sparkContext._jsc
    if java is None:  # the session has been stopped, which the query will say
        return lambda: None
    try:
        files, conf = made(spark, compiled(spark, _SOURCE)), java.hadoopConfiguration()
    except (*FAILURES, OSError):
        return lambda: None
    leave = partial(_leave, files, conf)
    try:
        with suppress(*FAILURES):
            files.enter(conf)
    except BaseException:  # an interrupt: Java may have heard the call
        leave()
        raise
    return leave


def _leave(files: Any, conf: Any) -> None:
    with suppress(*FAILURES, OSError):  # Java may have ended
        files.leave(conf)
