"""Hadoop's client of S3, as far as Spark needs it: 12 MB, where the bundle that it asks for has 690."""

from __future__ import annotations

from pathlib import Path

from topologies.spark.java import jars

_JARS = Path(__file__).with_name("hadoop_aws.txt")


def spark_jars() -> str:
    """The value of ``spark.jars``; what is not in the user's cache is fetched."""
    return ",".join(jars(_JARS))
