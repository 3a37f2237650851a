"""The Spark session: checks Java first, uses this Python for workers, keeps logs quiet."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from topologies.run.masters import LOCAL, on_this_machine
from topologies.spark.jvm.connector import check_connector, file_defaults, start_java, started_with, with_connector
from topologies.spark.jvm.java import explaining_javas_end, forget_ended_java
from topologies.spark.jvm.local_files import without_programs
from topologies.spark.jvm.not_started import spark_not_started
from topologies.spark.jvm.python_of_tasks import agree_on_python
from topologies.spark.jvm.surroundings import check_surroundings
from topologies.spark.jvm.together import Together
from windowing.errors import ConfigError, EnvironmentMissing

OLDEST_JAVA = 17
_MASTER, _PYTHON, _JAVA_OPTIONS = "spark.master", "spark.pyspark.python", "spark.driver.extraJavaOptions"
_PROGRESS = "spark.ui.showConsoleProgress"
_UNNAMED = "pyspark-shell"
"""What spark-submit calls an application that nobody has named."""
_LOGGING = Path(__file__).with_name("log4j2.properties")
_FILE_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
_TOGETHER = Together()


def active_session() -> SparkSession | None:
    """The session that is active in this thread; None where there is none."""
    return SparkSession.getActiveSession()


def open_session(master: str | None, conf: Mapping[str, str], *, kafka: bool = False) -> tuple[SparkSession, bool]:
    """The active session or a new one, and whether it is new, and so ours to stop. ``kafka``: a new one has the Kafka
    connector.

    A new one is on ``master``, or else where Spark itself has been told to go: by ``conf``, spark-submit or
    ``spark-defaults.conf``; only where nobody has said anything it is on ``local[*]``. What windbolt sets besides is
    for settings that nobody has given.
    """
    forget_ended_java()  # of an attempt before this one
    active = SparkSession.getActiveSession()
    if active is not None:
        return active, False
    if SparkContext._active_spark_context is not None:
        return SparkSession.builder.getOrCreate(), False  # "active" depends on the thread; this one belongs to another
    check_java()
    check_surroundings()
    given = ({_MASTER: master} if master else {}) | dict(conf)
    with python_of_workers(given):
        given |= with_connector(given) if kafka else {}
        start_java(_at_start(given), fetches=kafka)
        with explaining_javas_end():
            session, known = _opened(given)
            if on_this_machine(known.get(_MASTER, LOCAL)):
                _write_checkpoints_simply(session)
    return session, True


def _opened(given: Mapping[str, str]) -> tuple[SparkSession, dict[str, str]]:
    """A session in the Java that runs, and the settings that are known of it. ``given``: those of the user."""
    SparkContext._ensure_initialized()
    known = {name: value for name, value in SparkConf().getAll() if started_with(name) != value} | dict(given)
    settings = _defaults(known.get(_MASTER, LOCAL))
    settings = {name: value for name, value in settings.items() if known.get(name, _UNNAMED) == _UNNAMED} | dict(given)
    builder = SparkSession.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    try:
        return builder.getOrCreate(), known
    except Py4JJavaError as error:
        raise spark_not_started(settings.get(_MASTER, known.get(_MASTER, LOCAL)), error) from error


def _at_start(given: Mapping[str, str]) -> dict[str, str]:
    """The settings that Java is started with; what is set there replaces ``spark-defaults.conf``."""
    quiet, default = f"-Dlog4j2.configurationFile=file:{_LOGGING}", file_defaults()
    options = " ".join(filter(None, [quiet, default.get(_JAVA_OPTIONS)]))
    return {_JAVA_OPTIONS: options, _PROGRESS: default.get(_PROGRESS, "false")} | dict(given)


def _defaults(master: str) -> dict[str, str]:
    """What windbolt sets where nobody else has."""
    settings = {
        _MASTER: master,
        "spark.app.name": "windbolt",
        "spark.sql.session.timeZone": "UTC",
        _PROGRESS: "false",
        # Over TCP every Python task waits 40 ms for a delayed acknowledgement.
        "spark.python.unix.domain.socket.enabled": "true",
    }
    if on_this_machine(master):
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
        settings |= {"spark.ui.enabled": "false", "spark.python.daemon.module": "topologies.spark.workers.daemon"}
    return settings


@contextmanager
def python_of_workers(given: Mapping[str, str]) -> Iterator[None]:
    """Have Spark start the workers with the Python that the user names, by ``spark.pyspark.python`` or PYSPARK_PYTHON.

    Otherwise, and on this machine unless a setting names one, with this Python: it has what the topology needs, and a
    ``python3`` that a shell's profile names may not.
    """
    here = on_this_machine(given.get(_MASTER) or file_defaults().get(_MASTER, LOCAL)) and not _submitted()
    chosen = given.get(_PYTHON) or file_defaults().get(_PYTHON) or ("" if here else os.environ.get("PYSPARK_PYTHON"))
    before = {name: os.environ.get(name) for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")}
    os.environ |= {"PYSPARK_PYTHON": chosen or sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _submitted() -> bool:
    """Whether spark-submit, or who else started Java, has said where to run."""
    return "PYSPARK_GATEWAY_PORT" in os.environ or "PYSPARK_SUBMIT_ARGS" in os.environ


@contextmanager
def simple_checkpoints(spark: SparkSession, path: str | None) -> Iterator[None]:
    """Within the block a query that starts writes its logs more simply if its checkpoint is in a folder, ``path``; None
    for one in a store. What somebody has set for the session stays.

    The block lasts until the query has its sources: Spark reads the setting for the log of a source when it opens that,
    in a thread of the query, some time after ``start`` has returned.
    """
    if path is None:
        yield
        return
    with without_programs(spark), _TOGETHER.during(spark, partial(_write_checkpoints_simply, spark)):
        yield


def _write_checkpoints_simply(spark: SparkSession) -> Callable[[], None]:
    """Have Spark's logs written through Hadoop's FileSystem instead of its FileContext, as Spark does where there is no
    FileContext, unless somebody has said how. What is returned takes that back.

    Both write to a temporary file and rename it. Without Hadoop's native library, FileContext starts some ten processes
    (chmod, readlink) for each of the three files of a batch, FileSystem two, or none (``without_programs``).
    """
    if spark.conf.get(_FILE_MANAGER, None) is not None:
        return lambda: None
    jvm: Any = spark._jvm
    for package in ("checkpointing.", ""):  # Spark has moved it
        name = f"org.apache.spark.sql.execution.streaming.{package}FileSystemBasedCheckpointFileManager"
        try:
            jvm.org.apache.spark.util.Utils.classForName(name, True, False)
        except Exception:
            continue
        spark.conf.set(_FILE_MANAGER, name)
        return partial(_unset, spark, name)
    return lambda: None


def _unset(spark: SparkSession, manager: str) -> None:
    if spark.conf.get(_FILE_MANAGER, None) == manager:
        spark.conf.unset(_FILE_MANAGER)


def check_session(spark: SparkSession, *, kafka: bool = False) -> None:
    """Raise ConfigError for a session that cannot run topologies, EnvironmentMissing for one without the connector, or
    with workers of another Python."""
    if not hasattr(spark, "_jsparkSession"):
        raise ConfigError(
            "this is a Spark Connect session",
            why="a topology runs its tasks as RDDs, which Spark Connect does not offer",
            do="run with a classic session: master='local[*]' or the cluster's master, through spark-submit",
        )
    agree_on_python(spark.sparkContext)
    if kafka:
        check_connector(spark)


def check_java() -> None:
    """Raise EnvironmentMissing, with what to do, unless a Java is installed that Spark can use."""
    home = os.environ.get("JAVA_HOME")
    command = os.path.join(home, "bin", "java") if home else shutil.which("java")
    wanted = f"Spark needs Java {OLDEST_JAVA} or newer"
    remedy = f"install it (for example openjdk-{OLDEST_JAVA}-jre-headless), and set JAVA_HOME or PATH"
    if command is None or not os.path.exists(command):
        where = f"JAVA_HOME is {home}, and there is no bin/java in it" if home else "there is no `java` on the PATH"
        raise EnvironmentMissing(f"Java is missing: {where}", why=wanted, do=remedy)
    said = subprocess.run([command, "-version"], capture_output=True, text=True, check=False)
    match = re.search(r'version "(\d+)(?:\.(\d+))?', said.stderr + said.stdout)
    if match is None:
        raise EnvironmentMissing(f"{command} -version does not name a version", why=wanted, do=remedy)
    version = int(match[2] or 0) if match[1] == "1" else int(match[1])
    if version < OLDEST_JAVA:
        raise EnvironmentMissing(f"Java {version} is too old ({command})", why=wanted, do=remedy)
