"""Stores of objects as Spark's half reaches them, through Hadoop: what that needs, and what it has to be told."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import pyspark
from pyspark import SparkContext
from pyspark.sql import SparkSession

from manager.outside.place_names import hadoop_name, has_query, place_name, s3a_settings
from topologies.io.file_spout import FileSpout
from topologies.io.paths import shown_path
from topologies.run.options import RunOptions
from topologies.spark.jvm.connector import file_defaults
from topologies.topology import Topology
from windowing.errors import ConfigError, EnvironmentMissing

_AZURE = "hadoop-azure"
_NEEDED = {
    "s3a": ("hadoop-aws", "org.apache.hadoop.fs.s3a.S3AFileSystem", "org.apache.hadoop:hadoop-aws:{hadoop}"),
    "abfs": (_AZURE, "org.apache.hadoop.fs.azurebfs.AzureBlobFileSystem", f"org.apache.hadoop:{_AZURE}:{{hadoop}}"),
    "abfss": (
        _AZURE,
        "org.apache.hadoop.fs.azurebfs.SecureAzureBlobFileSystem",
        f"org.apache.hadoop:{_AZURE}:{{hadoop}}",
    ),
    "gs": (
        "gcs-connector",
        "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem",
        "com.google.cloud.bigdataoss:gcs-connector:hadoop3-2.2.26",
    ),
}
"""By Hadoop's scheme: the jar, its class, and its coordinates in Maven Central."""
_OF_JARS = ("spark.jars", "spark.jars.packages")
_OF_PATHS = ("spark.driver.extraClassPath", "spark.jars.ivySettings")
"""Settings that may bring the jar under any name."""


def places_of_spark(topology: Topology, options: RunOptions) -> list[str]:
    """The places outside this machine that Spark itself reads or writes: its half of the checkpoint.

    Raises ConfigError for input whose store is named by options in its path: files are noted by their paths only.
    """
    assert options.checkpoint is not None
    for node in topology.spouts.values():
        if isinstance(node.spout, FileSpout):
            path = next(filter(has_query, map(shown_path, node.spout.paths)), None)
            if path is not None:
                raise ConfigError(
                    f"spout {node.name!r} reads {path.partition('?')[0]}, with options behind a question mark",
                    why="a checkpoint notes files by their paths, without options",
                    do="leave them out, and name the store by AWS_ENDPOINT_URL_S3 and AWS_REGION in the environment",
                )
    place = shown_path(options.checkpoint)
    return [place] if "://" in place else []


def check_jars(places: Collection[str], conf: Mapping[str, str]) -> None:
    """Raise EnvironmentMissing where Spark will not have what its half needs, as far as that can be told before Java is
    started."""
    if SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ:
        return  # it runs already, and check_classes asks it
    settings = file_defaults() | dict(conf)
    said = " ".join([*(settings.get(name, "") for name in _OF_JARS), os.environ.get("PYSPARK_SUBMIT_ARGS", "")])
    if any(name in settings for name in _OF_PATHS) or os.environ.get("SPARK_DIST_CLASSPATH"):
        return
    jars = [path.name for path in _folder_of_jars().glob("*.jar")]
    for place in places:
        needed = _NEEDED.get(_scheme(place))
        if needed is not None and needed[0] not in said and not any(jar.startswith(needed[0]) for jar in jars):
            raise _missing(place)


def check_classes(spark: SparkSession, places: Collection[str]) -> None:
    """Raise EnvironmentMissing for a session that lacks what Spark's half needs."""
    jvm: Any = spark._jvm
    for place in places:
        needed = _NEEDED.get(_scheme(place))
        if needed is not None and not jvm.org.apache.spark.util.Utils.classIsLoadable(needed[1]):
            raise _missing(place)


def reach_stores(spark: SparkSession, places: Collection[str]) -> None:
    """Tell Hadoop where the buckets of these places are, and as whom to ask; what somebody else has set stays."""
    hadoop: Any = spark.sparkContext._jsc.hadoopConfiguration()
    for place in places:
        bucket = hadoop_name(place).removeprefix("s3a://").partition("/")[0]
        for name, value in s3a_settings(place).items():
            of_bucket = f"fs.s3a.bucket.{bucket}.{name}"
            if not (_is_set(spark, hadoop, of_bucket) or _is_set(spark, hadoop, f"fs.s3a.{name}")):
                hadoop.set(of_bucket, value)


def _is_set(spark: SparkSession, hadoop: Any, name: str) -> bool:
    """Whether somebody has set it: for Spark, or in a file of Hadoop's that is not that of its defaults."""
    if spark.sparkContext.getConf().contains(f"spark.hadoop.{name}"):
        return True
    return any(str(source).endswith("-site.xml") for source in hadoop.getPropertySources(name) or ())


def _scheme(place: str) -> str:
    return hadoop_name(place).partition("://")[0]


def _missing(place: str) -> EnvironmentMissing:
    jar, _, coordinates = _NEEDED[_scheme(place)]
    package = coordinates.format(hadoop=_hadoop_version())
    return EnvironmentMissing(
        f"Spark cannot reach {place_name(place).partition('?')[0]}: it has no {jar}",
        why="Spark's half of the checkpoint goes through Hadoop, which has its stores in jars of their own",
        do=f"add --conf spark.jars.packages={package} (--packages {package} of spark-submit), or put its jars into "
        f"{_folder_of_jars()}",
    )


def _folder_of_jars() -> Path:
    return Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent) / "jars"


def _hadoop_version() -> str:
    """The version of Hadoop's client that Spark has; its stores have to be of the same."""
    names = (re.fullmatch(r"hadoop-client-api-(.+)\.jar", path.name) for path in _folder_of_jars().glob("hadoop-*"))
    return next((name[1] for name in names if name is not None), "<the version of Spark's hadoop-client-api>")
