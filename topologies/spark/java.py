"""The JVM of a run: Java survives the signals that stop the driver; a failed start raises a readable error."""

from __future__ import annotations

import hashlib
import logging
import os
import platform
import pwd
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from http import HTTPStatus
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Any
from urllib.error import HTTPError
from weakref import WeakKeyDictionary

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from manager.remote import is_transient
from topologies.run.options import on_this_machine
from topologies.spark.workers.processes import OFFSPRING
from windowing.errors import ConfigError, EnvironmentMissing, WindboltError

# State that several threads need for a while: the first thread sets it up, the last one restores it.


class SharedSetup:
    """Blocks that may overlap and share a set-up, each for an owner."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._users: dict[Hashable, tuple[int, Callable[[], None]]] = {}
        """By owner: the number of blocks in progress, and the function that restores the state."""

    @contextmanager
    def during(self, owner: Hashable, begin: Callable[[], Callable[[], None]]) -> Iterator[None]:
        """Yields with the set-up in place; ``begin`` makes it and returns the function that undoes it."""
        with self._lock:
            count, end = self._users.get(owner) or (0, begin())
            self._users[owner] = count + 1, end
        try:
            yield
        finally:
            with self._lock:
                count, end = self._users.pop(owner)
                if count > 1:
                    self._users[owner] = count - 1, end
                else:
                    end()


# Requirements of Java and Spark, checked before Java starts: a user with a name, and a folder for temporary files.
# Containers may lack both.


def check_surroundings() -> None:
    """Raises EnvironmentMissing if Java or Spark could not start; not checked if Java was started by another
    program."""
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return
    try:
        pwd.getpwuid(os.geteuid())
    except KeyError as error:
        raise EnvironmentMissing(
            f"the user {os.geteuid()} has no name on this machine",
            why="Spark asks for the name, and the system does not know one (/etc/passwd)",
            do="run as a user that has one; in an image libnss_wrapper can give it one, as in docs/service/Dockerfile",
        ) from error
    try:
        tempfile.gettempdir()
    except FileNotFoundError as error:
        raise EnvironmentMissing(
            "there is no folder for temporary files",
            why=error.strerror or str(error),
            do="let /tmp be written to; in a container whose root is read-only mount something there, such as a tmpfs",
        ) from error


# Errors for a Java that does not start, or in which Spark does not: they point to the settings.


def java_not_started() -> EnvironmentMissing:
    """Returns the error for a Java that ended before any contact."""
    return EnvironmentMissing(
        "Java did not start, or ended before Spark ran in it",
        why="what it says itself is printed on standard error",
        do="look at the settings that it is started with: --conf, spark-defaults.conf, and the environment's "
        "PYSPARK_SUBMIT_ARGS and JAVA_TOOL_OPTIONS",
    )


def java_ended_early() -> WindboltError:
    """Returns the error for a Java that ended during the first contact."""
    return WindboltError(
        "Java ended just after its start",
        why="it was killed, such as by the system for want of memory, or what it says itself is on standard error",
        do="rerun, with more memory where it wants it; its heap is 1g unless --conf spark.driver.memory says otherwise",
        transient=True,
    )


def spark_not_started(master: str, error: Exception) -> Exception:
    """Returns the error for Spark refusing to start in a running Java (``Py4JJavaError``); ``error`` itself if it may
    pass."""
    if is_transient(error):
        return error
    thrown: Any = error.java_exception  # type: ignore[attr-defined]
    message = str(thrown.getMessage() or thrown.getClass().getName())
    return ConfigError(
        f"Spark does not start, with master {master!r}",
        why=message.strip().split("\n", 1)[0],
        do="correct --master (such as local[2], spark://host:7077, yarn, k8s://...) or the settings of --conf",
    )


# Java's standard error, forwarded except for a warning that each start of Spark prints.


WARNING = b"WARNING: Using incubator modules: jdk.incubator.vector\n"
"""Spark asks Java for this module. Users can do nothing about the warning, and it would disturb a display."""

_STANDARD = 2


@contextmanager
def forward_output(target: int = _STANDARD) -> Iterator[int]:
    """Yields the file descriptor for Java to write to. Output goes on to ``target`` until Java ends."""
    start, end = os.pipe()
    threading.Thread(target=_pass_on, args=(start, target), name="windbolt-java-errors", daemon=True).start()
    try:
        yield end
    finally:
        os.close(end)


def _pass_on(start: int, target: int) -> None:
    unfinished = b""
    while chunk := os.read(start, 65536):
        text = (unfinished + chunk).replace(WARNING, b"")
        line = text[text.rfind(b"\n") + 1 :]
        unfinished = line if WARNING.startswith(line) else b""
        _write(target, text.removesuffix(unfinished))
    _write(target, unfinished)
    os.close(start)


def _write(target: int, text: bytes) -> None:
    """Writes text where Python's own errors go, while a display or a notebook has replaced them, so that a display
    stays intact.

    Otherwise writes to the file itself, without the lock of Python's stream, which must not be held when the process
    ends.
    """
    replacement = sys.stderr if target == _STANDARD and sys.stderr is not sys.__stderr__ else None
    with suppress(OSError, ValueError):  # without a reader
        if replacement is not None:
            replacement.write(text.decode("utf-8", "replace"))
            replacement.flush()
            return
        while text:
            text = text[os.write(target, text) :]


# Pinned jars from Maven Central: each is fetched once, verified, and cached for the user.


CENTRAL = "https://repo1.maven.org/maven2/"
CONNECTOR = Path(__file__).with_name("connector.txt")
"""A Kafka connector that works with Spark 4.3, until there is one of that version."""

_ATTEMPTS = 3
_OPTIONAL_SECONDS = 5
"""Seconds to wait for a response that is not required."""


class NoCacheError(OSError):
    """Raised if there is no folder in which jars can be cached."""


def jars(pinned: Path) -> list[str]:
    """Returns the local paths of the jars in a list, whose lines are a SHA-256 and a path in a Maven repository.

    Raises NoCacheError if they cannot be cached, OSError if a jar is neither cached nor available, or has a wrong
    checksum.
    """
    folder = _cache()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise NoCacheError(str(error)) from error
    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(lambda each: str(_jar(folder, *each)), _pinned_jars(pinned)))


def are_cached(pinned: Path) -> bool:
    """True if all jars of a list are cached."""
    try:
        folder = _cache()
        return all(_cache_path(folder, digest, path).exists() for digest, path in _pinned_jars(pinned))
    except OSError:
        return False


def is_published(paths: list[str]) -> bool | None:
    """True if Maven Central has all these files; None if it does not respond."""
    with ThreadPoolExecutor(len(paths)) as pool:
        answers = set(pool.map(_is_there, paths))
    return False if False in answers else None if None in answers else True


def _pinned_jars(pinned: Path) -> Iterator[tuple[str, str]]:
    for line in pinned.read_text("utf-8").splitlines():
        digest, _, path = line.partition("  ")
        if path:
            yield digest, path


def _cache() -> Path:
    """Returns the folder of the cache. Raises NoCacheError for a user without a home directory."""
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "windbolt", "jars")
    except RuntimeError as error:  # no HOME and an unknown user, as in many containers
        raise NoCacheError(str(error)) from error


def _cache_path(folder: Path, digest: str, path: str) -> Path:
    return folder / f"{digest[:12]}-{path.rsplit('/', 1)[1]}"


def _jar(folder: Path, digest: str, path: str) -> Path:
    """Returns the path of a jar in the cache, fetching it if necessary; a cached file is always complete."""
    target = _cache_path(folder, digest, path)
    if target.exists():
        return target
    content = _fetch(CENTRAL + path)
    if hashlib.sha256(content).hexdigest() != digest:
        raise OSError(f"{CENTRAL + path} is not what it was: its SHA-256 is not {digest}")
    try:
        number, draft = tempfile.mkstemp(dir=folder, prefix=".")
    except OSError as error:
        raise NoCacheError(str(error)) from error
    with os.fdopen(number, "wb") as file:
        file.write(content)
    os.replace(draft, target)
    return target


def _fetch(address: str) -> bytes:
    for left in reversed(range(_ATTEMPTS)):
        try:
            with urllib.request.urlopen(address, timeout=60) as answer:
                return bytes(answer.read())
        except OSError as error:
            if not left:
                raise OSError(f"{address} cannot be fetched: {error}") from error
            time.sleep(1)
    raise AssertionError


def _is_there(path: str) -> bool | None:
    try:
        with urllib.request.urlopen(urllib.request.Request(CENTRAL + path, method="HEAD"), timeout=_OPTIONAL_SECONDS):
            return True
    except HTTPError as error:
        return False if error.code == HTTPStatus.NOT_FOUND else None
    except OSError:
        return None


# Windbolt's Java code, compiled on demand in the driver's JVM, by the compiler that comes with Spark.


_ONE_AT_A_TIME = Lock()

FAILURES = (Py4JError, TypeError)
"""Exceptions for failures of Java or a missing compiler; py4j treats an unknown class as a package."""


class WithFallback(AbstractContextManager["WithFallback"]):
    """A block in which failures of Java and Spark are logged and suppressed, because the caller then uses a fallback,
    which reports the problem. If the query was stopped meanwhile, the error is raised: no fallback is needed.
    """

    def __init__(self, log: logging.Logger, way: str) -> None:
        """``way``: description of the fallback, for the log."""
        self._log, self._way = log, way

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if not isinstance(error, (*FAILURES, PySparkException)) or _was_interrupted(error):
            return False
        self._log.debug("%s: %s", self._way, error)
        return True


def _was_interrupted(error: BaseException) -> bool:
    """True if the Java thread was interrupted, as happens when its query is stopped."""
    cause = error.java_exception if isinstance(error, Py4JJavaError) else None
    while cause is not None:
        if cause.getClass().getName() == "java.lang.InterruptedException":
            return True
        cause = cause.getCause()
    return False


SHARED_WORK = Path(__file__).with_name("SharedWork.java")
"""Source of the class that lets threads of the driver share work."""

_COMPILED: WeakKeyDictionary[Any, dict[str, Any]] = WeakKeyDictionary()
"""For each JVM, the constructors by class name. A class is kept for the next run, when Java has already optimised
it."""


def compile_class(spark: SparkSession, file: Path, *used: Path) -> Any:
    """Returns the constructor of the class in a source file, for ``new_object``; the class has the name of the file.
    ``used``: source files of classes that it uses. Raises one of FAILURES.

    The class's name includes the digest of its source, because py4j looks up methods by class name, and would call
    methods of another class with the same name.
    """
    class_name, source = _with_digest(file.stem, one_source(file, *used))
    with _ONE_AT_A_TIME:  # two classes of one name would be one for py4j
        constructors = _COMPILED.setdefault(spark.sparkContext._gateway, {})
        if class_name not in constructors:
            jvm: Any = spark._jvm
            compiler = _compiler(jvm, jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader(), source)
            java_class = compiler.getClassLoader().loadClass(f"windbolt.{class_name}")
            constructors[class_name] = java_class.getConstructors()[0]
        return constructors[class_name]


def define_beside(spark: SparkSession, neighbour: Any, file: Path) -> str:
    """Returns the name of a source file's class, after defining it in the class loader and package of ``neighbour``,
    for classes that Spark looks up by name. Raises one of FAILURES."""
    jvm: Any = spark._jvm
    package = str(neighbour.getPackageName())
    source_in_package = file.read_text("utf-8").replace("package windbolt;", f"package {package};")
    class_name, source = _with_digest(file.stem, source_in_package)
    loader, full_name = neighbour.getClassLoader(), f"{package}.{class_name}"
    with _ONE_AT_A_TIME:
        with suppress(Py4JJavaError):
            return str(loader.loadClass(full_name).getName())  # since an earlier run
        handles, classes = jvm.java.lang.invoke.MethodHandles, _compiler(jvm, loader, source).getBytecodes()
        lookup = handles.privateLookupIn(neighbour, handles.lookup())
        for each in sorted(classes, key=len, reverse=True):  # a nested class before the class around it, which needs it
            lookup.defineClass(classes[each])
    return full_name


def _with_digest(name: str, source: str) -> tuple[str, str]:
    """The name of a class with the digest of its source, and the source with that name."""
    class_name = f"{name}{hashlib.sha256(source.encode()).hexdigest()[:16]}"
    return class_name, source.replace(name, class_name)


def _compiler(jvm: Any, parent: Any, source: str) -> Any:
    """A compiler of Janino's that has compiled a source, whose classes find others by a class loader."""
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(parent)
    compiler.cook(source)
    return compiler


def one_source(*files: Path) -> str:
    """Returns several sources as one; their package and imports come first."""
    lines = [line for file in files for line in file.read_text("utf-8").splitlines()]
    heads = dict.fromkeys(line for line in lines if line.startswith(("package ", "import ")))
    header = sorted(heads, key=lambda line: not line.startswith("package "))
    return "\n".join([*header, *(line for line in lines if line not in heads)])


def new_object(spark: SparkSession, constructor: Any, *arguments: Any) -> Any:
    """Returns a new object of a Java class."""
    jvm: Any = spark._jvm
    java_arguments = jvm.java.util.ArrayList()
    for argument in arguments:
        java_arguments.add(argument)
    return constructor.newInstance(java_arguments.toArray())


# The Python of Spark's workers on this machine, for sessions that are not windbolt's own.


_PYTHON_SETTINGS = ("PYSPARK_PYTHON", "spark.pyspark.python")
_NEEDED_MODULES = ("topologies", "numpy", "pandas", "pyarrow")
_MISSING_MODULES_PROGRAM = (
    "import importlib.util, platform, sys; "
    "print(platform.python_version(), *(name for name in sys.argv[1:] if importlib.util.find_spec(name) is None))"
)


def agree_on_python(context: SparkContext) -> None:
    """Makes workers use the driver's Python if the user names none: Spark would take ``python3``, which is another
    Python if a virtual environment is not activated. Raises EnvironmentMissing for a named Python that cannot run a
    topology.

    On a cluster, ``spark/cluster.py`` asks the executors instead.
    """
    if not on_this_machine(context.master or "") or context.pythonExec == sys.executable:
        return
    conf = context.getConf()
    setting = next((name for name in _PYTHON_SETTINGS if os.environ.get(name) or conf.get(name)), None)
    if setting is None:
        context.pythonExec = sys.executable
        return
    fault = _fault_of_python(context.pythonExec)
    if fault:
        raise EnvironmentMissing(
            f"the Python of Spark's workers cannot run a topology: {context.pythonExec} {fault}",
            why=f"{setting} names it; the driver is Python {platform.python_version()}, {sys.executable}",
            do="before the session is made, set os.environ['PYSPARK_PYTHON'] = sys.executable, or leave it out; "
            "or install there what is missing",
        )


def _fault_of_python(python: str) -> str:
    """Returns the reason why a Python cannot run tasks; "" if it can."""
    command = [python, "-c", _MISSING_MODULES_PROGRAM, *_NEEDED_MODULES]
    try:
        # Spark starts workers in the driver's environment.
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        version, *missing = done.stdout.split()
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return f"does not start ({error})"
    if version.rsplit(".", 1)[0] != platform.python_version().rsplit(".", 1)[0]:
        return f"is Python {version}"
    return f"has no {', '.join(missing)}" if missing else ""


# The JVM of a run: it is started so that it survives the signals that stop the driver, with a readable error when it
# dies.


_ROOT = str(Path(__file__).resolve().parents[2])
_CLEANUP_SECONDS = 20.0
"""Seconds that Java has for cleanup after the driver's end, which closes Java's standard input."""
_LOGGERS = ("py4j.clientserver", "py4j.java_gateway", "")
"""Loggers of py4j; some of its errors go to the root logger."""


class JavaOptions(dict[str, Any]):
    """Options with which pyspark starts Java: in a process session of its own, with SIGTERM ignored like SIGINT.

    A terminal, ``timeout`` or systemd sends a signal that stops a run to all its processes. Only the driver may react:
    it completes the current batch, for which it needs Java. Signals that are ignored when Java starts stay ignored.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(options, start_new_session=True)

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, _with_sigterm_ignored(value) if name == "preexec_fn" else value)


def _with_sigterm_ignored(prepare: Callable[[], None]) -> Callable[[], None]:
    def prepared() -> None:
        prepare()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)

    return prepared


def ends_with_driver(java: subprocess.Popen[bytes] | None) -> None:
    """Has Java killed if it does not end by itself soon after the driver."""
    if java is not None:
        OFFSPRING.watch(java.pid, _CLEANUP_SECONDS)


@contextmanager
def importable_windbolt() -> Iterator[None]:
    """Lets processes started in this context, and their children, import windbolt, even if it is not installed."""
    before = os.environ.get("PYTHONPATH")
    if "-packages" not in _ROOT:
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [_ROOT, before]))
    try:
        yield
    finally:
        if before is None:
            os.environ.pop("PYTHONPATH", None)
        else:
            os.environ["PYTHONPATH"] = before


@contextmanager
def explain_javas_end() -> Iterator[None]:
    """Replaces errors caused by Java's death with an error about this death."""
    java = _process()
    if java is None:
        yield
        return
    quiet = _Quiet(java)
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        for leftover in [log_filter for log_filter in logger.filters if isinstance(log_filter, _Quiet)]:
            logger.removeFilter(leftover)  # left by an earlier Java that died
        logger.addFilter(quiet)
    try:
        yield
    except Exception as error:
        if not _has_ended(java, error):
            raise
        forget_java()
        raise _java_died(java.returncode) from error
    finally:
        for name in _LOGGERS:
            if java.poll() is None:  # otherwise py4j logs errors until the process ends
                logging.getLogger(name).removeFilter(quiet)


def forget_java() -> None:
    """Forgets the session of an ended Java, so that the next run starts another."""
    SparkContext._gateway = SparkContext._jvm = None
    SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = SparkSession._activeSession = None


def forget_ended_java() -> None:
    """Forgets a Java that has ended unnoticed: asking it for its session would fail for ever."""
    if SparkContext._gateway is not None and not java_runs():
        forget_java()


def java_runs() -> bool:
    """True if a Java is running, even if another process started it."""
    java = _process()
    return SparkContext._gateway is not None and (java is None or java.poll() is None)


def _process() -> subprocess.Popen[bytes] | None:
    return getattr(SparkContext._gateway, "proc", None)


def _has_ended(java: subprocess.Popen[bytes], error: BaseException | None) -> bool:
    """True if Java has ended; after a connection error, waits a moment for its end."""
    while error is not None and java.poll() is None:
        if type(error).__module__.startswith("py4j") or isinstance(error, ConnectionError):
            with suppress(subprocess.TimeoutExpired):
                java.wait(2)
            break
        error = error.__cause__ or error.__context__
    return java.poll() is not None


def _java_died(status: int) -> WindboltError:
    name = signal.Signals(-status).name if -status in set(signal.Signals) else f"status {status}"
    how = "was killed" if status == -signal.SIGKILL else "ended"
    why = "somebody did that, or the system, for want of memory" if status == -signal.SIGKILL else "it broke"
    return WindboltError(
        f"Java {how} ({name}) in the middle of the run",
        why=f"{why}; Spark runs in it",
        do="rerun: the current batch was not committed, and runs again. "
        "Java's heap is 1g unless --conf spark.driver.memory says otherwise",
        transient=True,
    )


class _Quiet(logging.Filter):
    """Keeps py4j from logging each call on the lost connection, with a traceback."""

    def __init__(self, java: subprocess.Popen[bytes]) -> None:
        super().__init__()
        self._java = java

    def filter(self, record: logging.LogRecord) -> bool:
        if "py4j" not in record.pathname:
            return True
        with suppress(subprocess.TimeoutExpired):
            self._java.wait(0.5)
        return self._java.poll() is None
