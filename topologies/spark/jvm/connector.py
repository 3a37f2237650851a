"""Spark's Kafka connector, by its Maven coordinates; Spark fetches it at its start, without printing the log."""

from __future__ import annotations

import os
import re
import select
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyspark
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from topologies.spark.jvm.error_output import passed_on
from topologies.spark.jvm.jars import CONNECTOR, NoCacheError, are_cached, is_published, jars
from topologies.spark.jvm.java import JavaOptions, ends_with_driver, forget_ended_java, importable_windbolt
from topologies.spark.jvm.not_started import java_ended_early, java_not_started
from windowing.errors import EnvironmentMissing

ARTIFACT = "spark-sql-kafka-0-10"
_CLASS = "org.apache.spark.sql.kafka010.KafkaSourceProvider"
TOKENS = "spark-token-provider-kafka-0-10"
_PACKAGES, _JARS = "spark.jars.packages", "spark.jars"
_VERSION = re.compile(rf"{ARTIFACT}_2\.13-(.+)\.jar")
_UNRESOLVED = re.compile(r"unresolved dependency: ([^\]\n]*)|(Server access error[^\n]*)")
_UNKEPT = re.compile(
    r"^Exception in thread \"main\" ([^\n]*)(?:\n\s+at [^\n]*)*?\n\s+at org\.apache\.ivy\.", re.MULTILINE
)
"""What Java says where Ivy, which fetches for Spark, has no folder to write to."""
_REMEDY = (
    "name a mirror of Maven Central with --conf spark.jars.repositories=URL or spark.jars.ivySettings=FILE; "
    "another version with --conf spark.jars.packages=...; or give files, --conf spark.jars=/a.jar,/b.jar: those of "
    "the connector, its token provider, kafka-clients, commons-pool2 and scala-parallel-collections"
)


_STARTED: dict[str, str] = {}
"""The settings that windbolt has started Java with."""


def started_with(name: str) -> str | None:
    """The setting that windbolt started Java with: Java knows it, and it was that of one session, which may have
    ended."""
    return _STARTED.get(name)


def coordinates() -> str:
    """The Maven coordinates of the connector for the installed Spark."""
    return f"org.apache.spark:{ARTIFACT}_2.13:{pyspark.__version__}"


def with_connector(conf: Mapping[str, str]) -> dict[str, str]:
    """The settings with the connector added to the user's own packages, unless they have it already.

    Where Maven Central has none for this Spark version, and an older one is known to work, that one is used. Raises
    EnvironmentMissing where that is not available either.
    """
    settings = file_defaults() | dict(conf)
    packages, files = settings.get(_PACKAGES, ""), settings.get(_JARS, "")
    if any(ARTIFACT in text for text in (packages, files, os.environ.get("PYSPARK_SUBMIT_ARGS", ""))):
        return {}
    elsewhere = any(name in settings for name in ("spark.jars.repositories", "spark.jars.ivySettings"))
    if not elsewhere and _is_known_to_work() and _must_be_older():
        return {_JARS: ",".join(filter(None, [files, *_older()]))}
    return {_PACKAGES: ",".join(filter(None, [packages, coordinates()]))}


def _is_known_to_work() -> bool:
    """Whether the tests use the older connector with this Spark."""
    return pyspark.__version__.startswith("4.3.")


def _must_be_older() -> bool:
    """Whether Maven Central has no connector of this version, or does not answer and had none at an earlier start."""
    published = is_published(_poms())
    return published is False or (published is None and are_cached(CONNECTOR))


def _poms() -> list[str]:
    version = pyspark.__version__
    names = (f"{ARTIFACT}_2.13", f"{TOKENS}_2.13")
    return [f"org/apache/spark/{name}/{version}/{name}-{version}.pom" for name in names]


def _older() -> list[str]:
    match, spark = _VERSION.search(CONNECTOR.read_text("utf-8")), pyspark.__version__
    assert match is not None
    try:
        files = jars(CONNECTOR)
    except NoCacheError as error:
        raise EnvironmentMissing(
            "Spark's Kafka connector cannot be kept: there is no home directory that can be written to",
            why=str(error),
            do="set HOME, or XDG_CACHE_HOME, to a folder of this user's; or give the jars themselves, "
            "--conf spark.jars=/a.jar,/b.jar. For what Spark itself fetches (spark.jars.packages) the folder is "
            "--conf spark.jars.ivy=FOLDER",
        ) from error
    except OSError as error:
        raise EnvironmentMissing(
            f"Spark's Kafka connector cannot be downloaded: Maven Central has none for {spark}, and did not give that "
            f"for {match[1]}",
            why=str(error),
            do=_REMEDY,
        ) from error
    sys.stderr.write(f"windbolt: Maven Central has no Kafka connector for Spark {spark}; that of {match[1]} is used\n")
    return files


def start_java(settings: Mapping[str, str], *, fetches: bool) -> None:
    """Start Java unless it is running. Where it ``fetches`` what the settings name, its output until it is ready is
    shown only if it fails. Raises EnvironmentMissing where it does not start, or the connector cannot be fetched."""
    forget_ended_java()  # it has died at its start, before a run could notice
    if SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ:
        return  # it is running already, with its own settings
    _STARTED.update(settings)
    conf = SparkConf()
    for name, value in settings.items():
        conf.set(name, value)
    if not fetches:
        with passed_on() as errors:
            try:
                gateway = _launched(conf, stderr=errors)
            except PySparkRuntimeError as error:
                raise java_not_started() from error
        _ready(gateway)
        return
    with _held_back(1) as out, _held_back(2) as said:
        try:
            gateway = _launched(conf, stdout=out.end, stderr=said.end)
        except PySparkRuntimeError as error:
            text = out.text() + said.text()
            unkept = _UNKEPT.search(text)
            if unkept is not None:
                raise EnvironmentMissing(
                    f"Spark cannot keep what it downloads: {settings.get(_PACKAGES, coordinates())}",
                    why=f"{unkept[1]}; by default the folder is .ivy2... in the home directory that the system has for "
                    "this user, wherever HOME is",
                    do="name a folder that can be written to: --conf spark.jars.ivy=/var/tmp/ivy",
                ) from error
            match = _UNRESOLVED.search(text)
            if match is None:
                sys.stderr.write(text)
                raise java_not_started() from error
            reason = next(group for group in match.groups() if group)
            raise EnvironmentMissing(
                f"Spark's Kafka connector cannot be downloaded: {settings.get(_PACKAGES, coordinates())}",
                why=f"neither Maven Central nor a mirror gives it ({reason})",
                do=_REMEDY,
            ) from error
        _ready(gateway)


def _launched(conf: SparkConf, **options: Any) -> Any:
    with importable_windbolt():
        try:
            gateway = launch_gateway(conf, JavaOptions(**options))  # type: ignore[no-untyped-call]
        except (Py4JError, ConnectionError) as error:  # it has told its port, and then it ended
            raise java_ended_early() from error
    ends_with_driver(gateway.proc)
    return gateway


def _ready(gateway: Any) -> None:
    SparkContext._ensure_initialized(gateway=gateway)


def check_connector(spark: SparkSession) -> None:
    """Raise EnvironmentMissing for a session without the connector, which can only be added at the start."""
    with suppress(Py4JError):
        if spark._jvm.org.apache.spark.util.Utils.classIsLoadable(_CLASS):  # type: ignore[union-attr]
            return
    raise EnvironmentMissing(
        "the Spark session has no Kafka connector",
        why="the topology reads or writes Kafka, and a Java that runs cannot be given jars any more",
        do=f"start it with --packages {coordinates()} (spark-submit), or spark.jars.packages in its configuration; "
        "without a session of your own windbolt does it",
    )


def file_defaults() -> dict[str, str]:
    """The settings of ``spark-defaults.conf``; a setting given at the start would replace them."""
    home = os.environ.get("SPARK_HOME")
    folder = os.environ.get("SPARK_CONF_DIR") or (home and os.path.join(home, "conf"))
    defaults: dict[str, str] = {}
    if folder:
        with suppress(OSError, UnicodeDecodeError):
            for line in Path(folder, "spark-defaults.conf").read_text("utf-8").splitlines():
                name, *value = re.split(r"[\s=:]+", line.strip(), maxsplit=1)
                if value and not name.startswith("#"):
                    defaults[name] = value[0].strip()
    return defaults


class _HeldBack:
    """Buffers what is written to ``end``, and forwards it to a file descriptor once released."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._start, self.end = os.pipe()
        self._kept: list[bytes] = []
        self._open = False
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def let_go(self) -> None:
        """Forward what is written from now on."""
        while True:
            with self._lock:
                if not select.select([self._start], [], [], 0)[0]:
                    self._open = True
                    return
            time.sleep(0.01)

    def text(self) -> str:
        """Everything that was written. Call it after the writer has ended."""
        os.close(self.end)
        self.end = -1
        self._thread.join(5)
        return b"".join(self._kept).decode("utf-8", "replace")

    def _read(self) -> None:
        while select.select([self._start], [], []):
            with self._lock:
                chunk = os.read(self._start, 65536)
                if not chunk:
                    return
                if not self._open:
                    self._kept.append(chunk)
                    continue
            with suppress(OSError):
                os.write(self._target, chunk)


@contextmanager
def _held_back(target: int) -> Iterator[_HeldBack]:
    held = _HeldBack(target)
    try:
        yield held
        held.let_go()
    finally:
        if held.end >= 0:
            os.close(held.end)
