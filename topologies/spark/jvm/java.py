"""The JVM of a run: started so that it survives the signals that stop the driver, with a readable error when it
dies."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

from topologies.spark.workers.offspring import OFFSPRING
from windowing.errors import WindboltError

_ROOT = str(Path(__file__).resolve().parents[3])
_GRACE_SECONDS = 20.0
"""Seconds that Java has for cleanup after the driver's end, which it sees on its standard input."""
_LOGGERS = ("py4j.clientserver", "py4j.java_gateway", "")
"""Those of py4j; some of its errors go to the root logger."""


class JavaOptions(dict[str, Any]):
    """How pyspark starts Java: in a session of its own, with SIGTERM ignored like SIGINT.

    A signal that stops a run goes to all its processes when a terminal, ``timeout`` or systemd sends it. Only the
    driver may react: it completes the current batch, for which it needs Java. Signals ignored when Java starts stay
    ignored.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(options, start_new_session=True)

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, _ignoring_sigterm(value) if name == "preexec_fn" else value)


def _ignoring_sigterm(prepare: Callable[[], None]) -> Callable[[], None]:
    def prepared() -> None:
        prepare()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)

    return prepared


def ends_with_driver(java: subprocess.Popen[bytes] | None) -> None:
    """Have Java killed if it does not end by itself soon after the driver."""
    if java is not None:
        OFFSPRING.watch(java.pid, _GRACE_SECONDS)


@contextmanager
def importable_windbolt() -> Iterator[None]:
    """Let processes started in this context, and their children, import windbolt, even where it is not installed."""
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
def explaining_javas_end() -> Iterator[None]:
    """Replace errors caused by Java's death by one that says that Java has ended."""
    java = _process()
    if java is None:
        yield
        return
    quiet = _Quiet(java)
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        for leftover in [log_filter for log_filter in logger.filters if isinstance(log_filter, _Quiet)]:
            logger.removeFilter(leftover)  # from an earlier Java that died
        logger.addFilter(quiet)
    try:
        yield
    except Exception as error:
        if not _has_ended(java, error):
            raise
        forget_java()
        raise _ended(java.returncode) from error
    finally:
        for name in _LOGGERS:
            if java.poll() is None:  # else py4j logs errors until the process ends
                logging.getLogger(name).removeFilter(quiet)


def forget_java() -> None:
    """Forget the session of a Java that has ended, so that the next run starts another."""
    SparkContext._gateway = SparkContext._jvm = None
    SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = SparkSession._activeSession = None


def forget_ended_java() -> None:
    """Forget a Java that has ended without anybody noticing: asking it for its session would fail for ever."""
    if SparkContext._gateway is not None and not java_runs():
        forget_java()


def java_runs() -> bool:
    """Whether a Java is running, even if another process started it."""
    java = _process()
    return SparkContext._gateway is not None and (java is None or java.poll() is None)


def _process() -> subprocess.Popen[bytes] | None:
    return getattr(SparkContext._gateway, "proc", None)


def _has_ended(java: subprocess.Popen[bytes], error: BaseException | None) -> bool:
    """Whether Java has ended; after an error of the connection to it, waits a moment for that."""
    while error is not None and java.poll() is None:
        if type(error).__module__.startswith("py4j") or isinstance(error, ConnectionError):
            with suppress(subprocess.TimeoutExpired):
                java.wait(2)
            break
        error = error.__cause__ or error.__context__
    return java.poll() is not None


def _ended(status: int) -> WindboltError:
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
    """Keeps py4j from logging, with a traceback for each call, that the connection is gone."""

    def __init__(self, java: subprocess.Popen[bytes]) -> None:
        super().__init__()
        self._java = java

    def filter(self, record: logging.LogRecord) -> bool:
        if "py4j" not in record.pathname:
            return True
        with suppress(subprocess.TimeoutExpired):
            self._java.wait(0.5)
        return self._java.poll() is None
