"""The settings of Kafka's own clients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession


def properties(spark: SparkSession, settings: Mapping[str, str]) -> Any:
    """Settings as Java's Properties."""
    jvm: Any = spark._jvm
    found = jvm.java.util.Properties()
    for name, value in settings.items():
        found.setProperty(name, value)
    return found


def kafka_settings(*options: Mapping[str, str]) -> dict[str, str]:
    """The options of Spark's connector that are for Kafka's own clients; the last one counts."""
    return {
        name.removeprefix("kafka."): value
        for some in options
        for name, value in some.items()
        if name.startswith("kafka.")
    }
