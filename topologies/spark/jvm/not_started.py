"""What is said where Java, or Spark in it, does not start: the settings are to be looked at."""

from __future__ import annotations

from typing import Any

from manager.outside.transient import is_transient
from windowing.errors import ConfigError, EnvironmentMissing, WindboltError


def java_not_started() -> EnvironmentMissing:
    """Java has ended before it could be talked to."""
    return EnvironmentMissing(
        "Java did not start, or ended before Spark ran in it",
        why="what it says itself is printed on standard error",
        do="look at the settings that it is started with: --conf, spark-defaults.conf, and the environment's "
        "PYSPARK_SUBMIT_ARGS and JAVA_TOOL_OPTIONS",
    )


def java_ended_early() -> WindboltError:
    """Java has started, and ended while it was first talked to."""
    return WindboltError(
        "Java ended just after its start",
        why="it was killed, such as by the system for want of memory, or what it says itself is on standard error",
        do="rerun, with more memory where it wants it; its heap is 1g unless --conf spark.driver.memory says otherwise",
        transient=True,
    )


def spark_not_started(master: str, error: Exception) -> Exception:
    """Java runs, and Spark refuses to start in it (``Py4JJavaError``); the error itself where that may pass."""
    if is_transient(error):
        return error
    thrown: Any = error.java_exception  # type: ignore[attr-defined]
    said = str(thrown.getMessage() or thrown.getClass().getName())
    return ConfigError(
        f"Spark does not start, with master {master!r}",
        why=said.strip().split("\n", 1)[0],
        do="correct --master (such as local[2], spark://host:7077, yarn, k8s://...) or the settings of --conf",
    )
