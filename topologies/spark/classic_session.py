"""The Spark session: checks Java first, uses this Python for workers, fetches the Kafka connector, keeps logs quiet."""

from __future__ import annotations

import logging
import os
import re
import select
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyspark
from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from manager.remote import hadoop_name, has_query, place_name, s3a_settings
from topologies.graph.graph import Graph
from topologies.io.file_spout import FileSpout
from topologies.io.paths import shown_path
from topologies.run.options import LOCAL, REMOTE, RunOptions, is_cluster, on_this_machine
from topologies.spark.java import (
    CONNECTOR,
    JavaOptions,
    NoCacheError,
    SharedSetup,
    WithFallback,
    agree_on_python,
    are_cached,
    check_surroundings,
    define_beside,
    ends_with_driver,
    explain_javas_end,
    forget_ended_java,
    forward_output,
    importable_windbolt,
    is_published,
    jars,
    java_ended_early,
    java_not_started,
    java_runs,
    spark_not_started,
)
from windowing.errors import ConfigError, EnvironmentMissing

# Object stores, which Spark's half reaches through Hadoop: the required jars and settings.


_AZURE = "hadoop-azure"
_STORE_JARS = {
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
"""By Hadoop's scheme: the jar, its class, and its Maven coordinates."""
_JAR_SETTINGS = ("spark.jars", "spark.jars.packages")
_PATH_SETTINGS = ("spark.driver.extraClassPath", "spark.jars.ivySettings")
"""Settings that may add the jar under any name."""


def places_of_spark(topology: Graph, options: RunOptions) -> list[str]:
    """Returns the places outside this machine that Spark itself reads or writes: its half of the checkpoint.

    Raises ConfigError for input whose path has options for its store, because files are recorded by path only.
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
    """Raises EnvironmentMissing if Spark will lack jars for its half, as far as that is known before Java starts."""
    if SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ:
        return  # Java is running, and check_classes asks it
    settings = file_defaults() | dict(conf)
    arguments = os.environ.get("PYSPARK_SUBMIT_ARGS", "")
    mentioned = " ".join([*(settings.get(name, "") for name in _JAR_SETTINGS), arguments])
    if any(name in settings for name in _PATH_SETTINGS) or os.environ.get("SPARK_DIST_CLASSPATH"):
        return
    jars = [path.name for path in _folder_of_jars().glob("*.jar")]
    for place in places:
        needed = _STORE_JARS.get(_scheme(place))
        if needed is not None and needed[0] not in mentioned and not any(jar.startswith(needed[0]) for jar in jars):
            raise _missing_jar(place)


def check_classes(spark: SparkSession, places: Collection[str]) -> None:
    """Raises EnvironmentMissing for a session without the packages for Spark's half."""
    jvm: Any = spark._jvm
    for place in places:
        needed = _STORE_JARS.get(_scheme(place))
        if needed is not None and not jvm.org.apache.spark.util.Utils.classIsLoadable(needed[1]):
            raise _missing_jar(place)


def reach_stores(spark: SparkSession, places: Collection[str]) -> None:
    """Configures the addresses and credentials of these buckets in Hadoop; existing settings stay."""
    hadoop: Any = spark.sparkContext._jsc.hadoopConfiguration()
    for place in places:
        bucket = hadoop_name(place).removeprefix("s3a://").partition("/")[0]
        for name, value in s3a_settings(place).items():
            bucket_setting = f"fs.s3a.bucket.{bucket}.{name}"
            if not (_is_set(spark, hadoop, bucket_setting) or _is_set(spark, hadoop, f"fs.s3a.{name}")):
                hadoop.set(bucket_setting, value)


def _is_set(spark: SparkSession, hadoop: Any, name: str) -> bool:
    """True if the setting was made, for Spark or in a file of Hadoop's other than its defaults."""
    if spark.sparkContext.getConf().contains(f"spark.hadoop.{name}"):
        return True
    return any(str(source).endswith("-site.xml") for source in hadoop.getPropertySources(name) or ())


def _scheme(place: str) -> str:
    return hadoop_name(place).partition("://")[0]


def _missing_jar(place: str) -> EnvironmentMissing:
    jar, _, coordinates = _STORE_JARS[_scheme(place)]
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
    """Returns the version of Spark's Hadoop client, which the packages for stores must share."""
    names = (re.fullmatch(r"hadoop-client-api-(.+)\.jar", path.name) for path in _folder_of_jars().glob("hadoop-*"))
    return next((name[1] for name in names if name is not None), "<the version of Spark's hadoop-client-api>")


# Spark's Kafka connector, by its Maven coordinates. Spark fetches it when it starts; its log is not printed.


ARTIFACT = "spark-sql-kafka-0-10"
_CLASS = "org.apache.spark.sql.kafka010.KafkaSourceProvider"
TOKENS = "spark-token-provider-kafka-0-10"
_PACKAGES, _JARS = "spark.jars.packages", "spark.jars"
_VERSION = re.compile(rf"{ARTIFACT}_2\.13-(.+)\.jar")
_UNRESOLVED = re.compile(r"unresolved dependency: ([^\]\n]*)|(Server access error[^\n]*)")
_NO_FOLDER = re.compile(
    r"^Exception in thread \"main\" ([^\n]*)(?:\n\s+at [^\n]*)*?\n\s+at org\.apache\.ivy\.", re.MULTILINE
)
"""Java's error text if Ivy, which fetches jars for Spark, has no writable folder."""
_REMEDY = (
    "name a mirror of Maven Central with --conf spark.jars.repositories=URL or spark.jars.ivySettings=FILE; "
    "another version with --conf spark.jars.packages=...; or give files, --conf spark.jars=/a.jar,/b.jar: those of "
    "the connector, its token provider, kafka-clients, commons-pool2 and scala-parallel-collections"
)


_STARTED: dict[str, str] = {}
"""The settings with which windbolt started Java."""


def start_setting(name: str) -> str | None:
    """Returns the setting with which windbolt started Java. Java keeps it even after the session that made it has
    ended."""
    return _STARTED.get(name)


def coordinates() -> str:
    """Returns the Maven coordinates of the connector for the installed Spark."""
    return f"org.apache.spark:{ARTIFACT}_2.13:{pyspark.__version__}"


def with_connector(conf: Mapping[str, str]) -> dict[str, str]:
    """Returns the settings with the connector added to the user's packages, unless they already include it.

    If Maven Central has no connector for this Spark version, but an older one is known to work, that one is used.
    Raises EnvironmentMissing if it is not available either.
    """
    settings = file_defaults() | dict(conf)
    packages, files = settings.get(_PACKAGES, ""), settings.get(_JARS, "")
    if any(ARTIFACT in text for text in (packages, files, os.environ.get("PYSPARK_SUBMIT_ARGS", ""))):
        return {}
    elsewhere = any(name in settings for name in ("spark.jars.repositories", "spark.jars.ivySettings"))
    if not elsewhere and _is_known_to_work() and _must_be_older():
        return {_JARS: ",".join(filter(None, [files, *_older_connector_jars()]))}
    return {_PACKAGES: ",".join(filter(None, [packages, coordinates()]))}


def _is_known_to_work() -> bool:
    """True if the tests use the older connector with this Spark."""
    return pyspark.__version__.startswith("4.3.")


def _must_be_older() -> bool:
    """True if Maven Central has no connector for this version, or does not respond and had none at an earlier start."""
    published = is_published(_pom_paths())
    return published is False or (published is None and are_cached(CONNECTOR))


def _pom_paths() -> list[str]:
    version = pyspark.__version__
    names = (f"{ARTIFACT}_2.13", f"{TOKENS}_2.13")
    return [f"org/apache/spark/{name}/{version}/{name}-{version}.pom" for name in names]


def _older_connector_jars() -> list[str]:
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
    """Starts Java unless it is running. ``fetches``: True if Java fetches packages that the settings name; its output
    is then shown only after a failure. Raises EnvironmentMissing if Java does not start, or the connector cannot be
    fetched."""
    forget_ended_java()  # it may have died before a run could notice
    if SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ:
        return  # it is running, with settings of its own
    _STARTED.update(settings)
    conf = SparkConf()
    for name, value in settings.items():
        conf.set(name, value)
    if not fetches:
        with forward_output() as errors:
            try:
                gateway = _launch(conf, stderr=errors)
            except PySparkRuntimeError as error:
                raise java_not_started() from error
        _connect_pyspark(gateway)
        return
    with _buffered_output(1) as out, _buffered_output(2) as errors:
        try:
            gateway = _launch(conf, stdout=out.end, stderr=errors.end)
        except PySparkRuntimeError as error:
            text = out.text() + errors.text()
            no_folder = _NO_FOLDER.search(text)
            if no_folder is not None:
                raise EnvironmentMissing(
                    f"Spark cannot keep what it downloads: {settings.get(_PACKAGES, coordinates())}",
                    why=f"{no_folder[1]}; by default the folder is .ivy2... in the home directory that the system has "
                    "for this user, wherever HOME is",
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
        _connect_pyspark(gateway)


def _launch(conf: SparkConf, **options: Any) -> Any:
    with importable_windbolt():
        try:
            gateway = launch_gateway(conf, JavaOptions(**options))  # type: ignore[no-untyped-call]
        except (Py4JError, ConnectionError) as error:  # it ended after announcing its port
            raise java_ended_early() from error
    ends_with_driver(gateway.proc)
    return gateway


def _connect_pyspark(gateway: Any) -> None:
    SparkContext._ensure_initialized(gateway=gateway)


def check_connector(spark: SparkSession) -> None:
    """Raises EnvironmentMissing for a session without the connector, which can only be added at the start."""
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
    """Returns the settings of ``spark-defaults.conf``, which a setting at the start would replace."""
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


class _BufferedOutput:
    """Buffers output to ``end``, and after its release forwards it to a file descriptor."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._start, self.end = os.pipe()
        self._buffered: list[bytes] = []
        self._forwards = False
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def release(self) -> None:
        """Forwards output from now on."""
        while True:
            with self._lock:
                if not select.select([self._start], [], [], 0)[0]:
                    self._forwards = True
                    return
            time.sleep(0.01)

    def text(self) -> str:
        """Returns everything that was written. Call it after the writer has ended."""
        os.close(self.end)
        self.end = -1
        self._thread.join(5)
        return b"".join(self._buffered).decode("utf-8", "replace")

    def _read(self) -> None:
        while select.select([self._start], [], []):
            with self._lock:
                chunk = os.read(self._start, 65536)
                if not chunk:
                    return
                if not self._forwards:
                    self._buffered.append(chunk)
                    continue
            with suppress(OSError):
                os.write(self._target, chunk)


@contextmanager
def _buffered_output(target: int) -> Iterator[_BufferedOutput]:
    buffered = _BufferedOutput(target)
    try:
        yield buffered
        buffered.release()
    finally:
        if buffered.end >= 0:
            os.close(buffered.end)


# The Spark session: checks Java first, uses this Python for workers, keeps logs quiet.


OLDEST_JAVA = 17
_MASTER, _PYTHON, _JAVA_OPTIONS = "spark.master", "spark.pyspark.python", "spark.driver.extraJavaOptions"
_PROGRESS = "spark.ui.showConsoleProgress"
_UNNAMED = "pyspark-shell"
"""Name that spark-submit gives to an unnamed application."""
_LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")
_FILE_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
_CHECKPOINT_FILES = Path(__file__).with_name("CheckpointFiles.java")
_FILE_MANAGERS = SharedSetup()
_LOG = logging.getLogger("windbolt.spark")


def open_session(master: str | None, conf: Mapping[str, str], *, kafka: bool = False) -> tuple[SparkSession, bool]:
    """Returns the active session or a new one; the second value is True for a new one, which windbolt has to stop.
    ``kafka``: True if a new session must have the Kafka connector.

    A new session is on ``master``, or else on the master of Spark's settings: ``conf``, spark-submit or
    ``spark-defaults.conf``; by default on ``local[*]``. windbolt makes only settings that nobody else has made.
    """
    forget_ended_java()  # from an earlier attempt
    active = SparkSession.getActiveSession()
    if active is not None:
        return active, False
    if SparkContext._active_spark_context is not None:
        return SparkSession.builder.getOrCreate(), False  # the active session is per thread; this one is another's
    check_java()
    check_surroundings()
    user_settings = ({_MASTER: master} if master else {}) | dict(conf)
    with environment_of_java(user_settings):
        user_settings |= with_connector(user_settings) if kafka else {}
        start_java(_start_settings(user_settings), fetches=kafka)
        with explain_javas_end():
            session, known_settings = _make_session(user_settings)
            if on_this_machine(known_settings.get(_MASTER, LOCAL)):
                _write_simply_by_default(session)
    return session, True


def _make_session(user_settings: Mapping[str, str]) -> tuple[SparkSession, dict[str, str]]:
    """Returns a session in the running Java, and its known settings. ``user_settings``: the user's settings."""
    SparkContext._ensure_initialized()
    others_settings = {name: value for name, value in SparkConf().getAll() if start_setting(name) != value}
    known_settings = others_settings | dict(user_settings)
    defaults = _defaults(known_settings.get(_MASTER, LOCAL))
    defaults = {name: value for name, value in defaults.items() if known_settings.get(name, _UNNAMED) == _UNNAMED}
    settings = defaults | dict(user_settings)
    builder = SparkSession.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    try:
        return builder.getOrCreate(), known_settings
    except Py4JJavaError as error:
        raise spark_not_started(settings.get(_MASTER, known_settings.get(_MASTER, LOCAL)), error) from error


def _start_settings(user_settings: Mapping[str, str]) -> dict[str, str]:
    """Returns the settings for starting Java, which replace those of ``spark-defaults.conf``."""
    quiet, default = f"-Dlog4j2.configurationFile=file:{_LOG_SETTINGS}", file_defaults()
    options = " ".join(filter(None, [quiet, default.get(_JAVA_OPTIONS)]))
    return {_JAVA_OPTIONS: options, _PROGRESS: default.get(_PROGRESS, "false")} | dict(user_settings)


def _defaults(master: str) -> dict[str, str]:
    """Returns windbolt's default settings."""
    settings = {
        _MASTER: master,
        "spark.app.name": "windbolt",
        "spark.sql.session.timeZone": "UTC",
        _PROGRESS: "false",
        # Over TCP every Python task would wait 40 ms for a delayed acknowledgement.
        "spark.python.unix.domain.socket.enabled": "true",
    }
    if on_this_machine(master):
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
        settings |= {"spark.ui.enabled": "false", "spark.python.daemon.module": "topologies.spark.workers.daemon"}
    return settings


@contextmanager
def environment_of_java(user_settings: Mapping[str, str]) -> Iterator[None]:
    """Makes Java start in this process, even with SPARK_REMOTE, and Spark start workers with the user's Python
    (``spark.pyspark.python`` or PYSPARK_PYTHON).

    If neither is set, or on this machine unless a setting names one, workers get this Python. It has the packages that
    the topology needs; the ``python3`` of a shell's profile may not.
    """
    is_local = (
        on_this_machine(user_settings.get(_MASTER) or file_defaults().get(_MASTER, LOCAL)) and not _is_submitted()
    )
    environments_python = "" if is_local else os.environ.get("PYSPARK_PYTHON")
    chosen = user_settings.get(_PYTHON) or file_defaults().get(_PYTHON) or environments_python
    before = {name: os.environ.get(name) for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", REMOTE)}
    os.environ |= {"PYSPARK_PYTHON": chosen or sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    os.environ.pop(REMOTE, None)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _is_submitted() -> bool:
    """True if spark-submit, or another program that started Java, has chosen where to run."""
    return "PYSPARK_GATEWAY_PORT" in os.environ or "PYSPARK_SUBMIT_ARGS" in os.environ


@contextmanager
def simple_checkpoints(spark: SparkSession, path: str | None) -> Iterator[None]:
    """Within the block, a starting query writes its logs more simply if its checkpoint is in the folder ``path``; None
    for a checkpoint in a store. Existing settings of the session stay.

    The block must last until the query has its sources: Spark reads the setting for a source's log when it opens the
    log, in a thread of the query, some time after ``start`` has returned.
    """
    if path is None:
        yield
        return
    with _FILE_MANAGERS.during(spark, partial(_write_checkpoints_simply, spark)):
        yield


def _write_simply_by_default(spark: SparkSession) -> None:
    """Makes all queries write their logs through Hadoop's FileSystem, unless the user chose a way."""
    if spark.conf.get(_FILE_MANAGER, None) is None and (simple := _simple_manager(spark)) is not None:
        spark.conf.set(_FILE_MANAGER, simple.getName())


def _write_checkpoints_simply(spark: SparkSession) -> Callable[[], None]:
    """Makes Spark's logs use Hadoop's FileSystem instead of its FileContext, as Spark does without a FileContext,
    unless this is already set. Returns a function that restores the setting.

    Both write a temporary file and rename it. Without Hadoop's native library, FileContext starts some ten processes
    (chmod, readlink) for each of the three files of a batch, FileSystem two, and windbolt's own class none. The class
    exists only in the driver: on a cluster, a user's query that starts at the same moment would send its name to the
    executors.
    """
    before, simple = spark.conf.get(_FILE_MANAGER, None), _simple_manager(spark)
    if simple is None or before not in (None, simple.getName()):
        return lambda: None
    name = str(simple.getName())
    if not is_cluster(str(spark.sparkContext.master)):
        with WithFallback(_LOG, f"Spark's logs are written by {name}"):
            name = define_beside(spark, simple, _CHECKPOINT_FILES)
    spark.conf.set(_FILE_MANAGER, name)
    return partial(_restore_file_manager, spark, name, before)


def _simple_manager(spark: SparkSession) -> Any:
    """Returns Spark's class that writes logs through Hadoop's FileSystem; None if there is none."""
    jvm: Any = spark._jvm
    for package in ("checkpointing.", ""):  # it has moved between versions
        name = f"org.apache.spark.sql.execution.streaming.{package}FileSystemBasedCheckpointFileManager"
        with suppress(Exception):
            return jvm.org.apache.spark.util.Utils.classForName(name, True, False)
    return None


def _restore_file_manager(spark: SparkSession, manager: str, before: str | None) -> None:
    if spark.conf.get(_FILE_MANAGER, None) != manager:
        return
    if before is None:
        spark.conf.unset(_FILE_MANAGER)
    else:
        spark.conf.set(_FILE_MANAGER, before)


def check_session(spark: SparkSession, *, kafka: bool = False) -> None:
    """Raises EnvironmentMissing for a session without the connector, or with workers that use another Python."""
    agree_on_python(spark.sparkContext)
    if kafka:
        check_connector(spark)


def check_java() -> None:
    """Raises EnvironmentMissing, with a remedy, unless a Java is installed that Spark can use."""
    home = os.environ.get("JAVA_HOME")
    command = os.path.join(home, "bin", "java") if home else shutil.which("java")
    wanted = f"Spark needs Java {OLDEST_JAVA} or newer"
    remedy = f"install it (for example openjdk-{OLDEST_JAVA}-jre-headless), and set JAVA_HOME or PATH"
    if command is None or not os.path.exists(command):
        where = f"JAVA_HOME is {home}, and there is no bin/java in it" if home else "there is no `java` on the PATH"
        raise EnvironmentMissing(f"Java is missing: {where}", why=wanted, do=remedy)
    result = subprocess.run([command, "-version"], capture_output=True, text=True, check=False)
    match = re.search(r'version "(\d+)(?:\.(\d+))?', result.stderr + result.stdout)
    if match is None:
        raise EnvironmentMissing(f"{command} -version does not name a version", why=wanted, do=remedy)
    version = int(match[2] or 0) if match[1] == "1" else int(match[1])
    if version < OLDEST_JAVA:
        raise EnvironmentMissing(f"Java {version} is too old ({command})", why=wanted, do=remedy)


# Windbolt's own session: concurrent runs share it, and the last of them stops it.


@dataclass
class SharedSession:
    """Windbolt's own session, and the number of runs that use it."""

    session: SparkSession
    users: int = 0


_LOCK = threading.Lock()
_SHARED: list[SharedSession] = []
"""windbolt's own session, if there is one."""


@contextmanager
def shared_session(
    spark: SparkSession | None, master: str | None, conf: Mapping[str, str], *, kafka: bool = False
) -> Iterator[SparkSession]:
    """Yields a session for a run: ``spark``, the active session, or windbolt's own, which ends with the last run that
    uses it."""
    if spark is not None:
        yield spark
        return
    with _LOCK:
        session, shared = _enter(master, conf, kafka=kafka)
    try:
        yield session
    finally:
        with _LOCK:
            if shared is not None:
                _leave(shared)


def _enter(master: str | None, conf: Mapping[str, str], *, kafka: bool) -> tuple[SparkSession, SharedSession | None]:
    session, new = open_session(master, conf, kafka=kafka)
    if new:
        _SHARED[:] = [SharedSession(session)]
    for shared in _SHARED:
        if shared.session.sparkContext is session.sparkContext:
            shared.users += 1
            return session, shared
    return session, None


def _leave(shared: SharedSession) -> None:
    shared.users -= 1
    if shared.users == 0:
        if shared in _SHARED:
            _SHARED.remove(shared)
        if java_runs():
            shared.session.stop()
