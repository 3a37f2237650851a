"""The one Spark session that windbolt and Spark's own arms share."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from topologies.spark.jvm.session import open_session

CORES = 2
_ROOT = Path(__file__).parents[1]


class Session:
    """Opened when it is first needed, and again should it have died."""

    def __init__(
        self, *, kafka: bool = False, master: str = f"local[{CORES}]", more: Mapping[str, str] | None = None
    ) -> None:
        self.kafka = kafka
        """True if it has Kafka's connector."""
        self.master = master
        self.more = dict(more or {})
        """Settings that another master needs."""
        self._spark: SparkSession | None = None
        self.opened = 0

    @property
    def conf(self) -> dict[str, str]:
        """Returns the settings that differ from Spark's defaults."""
        return {
            "spark.sql.shuffle.partitions": str(CORES),
            "spark.driver.memory": f"{driver_gigabytes()}g",
            "spark.sql.streaming.numRecentProgressUpdates": "100000",
        } | self.more

    @property
    def spark(self) -> SparkSession:
        """A session that lives."""
        if self._spark is None or not _alive(self._spark):
            self.stop()
            # The workers import the functions of the arms.
            paths = [str(_ROOT), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
            os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(paths))
            self._spark, _ = open_session(self.master, self.conf, kafka=self.kafka)
            self.opened += 1
        return self._spark

    def settle(self) -> SparkSession:
        """The session after a collection of garbage: what an earlier run has left is no cost of the next one."""
        spark = self.spark
        jvm: Any = spark._jvm
        jvm.System.gc()
        return spark

    def stop(self) -> None:
        """End it, if there is one."""
        if self._spark is not None:
            try:
                self._spark.stop()
            except Exception:  # it has died, and cannot say goodbye
                SparkSession._instantiatedSession = None
            self._spark = None


def driver_gigabytes() -> int:
    """The JVM's heap: under half of what the machine has, the rest is for Python; 12 GiB at most."""
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return max(1, min(12, int(whole * 0.45)))


def _alive(spark: SparkSession) -> bool:
    try:
        return not spark.sparkContext._jsc.sc().isStopped()
    except Exception:  # the JVM is gone
        return False
