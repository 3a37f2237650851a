"""Spark's daemon of Python workers, which shows no traceback when Spark disconnects from a worker.

    python -m topologies.spark.workers.daemon WORKER

Spark ends a query, and a failed or unnecessary task, by closing the connections to its workers. A worker then finds its
pipe broken, which is harmless, but pyspark prints it over the screen. The daemon also imports in advance what every
worker needs: workers are its forks, and Spark starts a new one after each failed task.
"""

from __future__ import annotations

import sys
import traceback
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
from pyspark import daemon

import topologies.engine.tasks  # noqa: F401

pa.array([])  # makes Arrow import pandas here once, not in each fork


def quiet_print(*words: object, **options: Any) -> None:
    """Replaces the daemon's ``print``; omits messages about broken pipes."""
    text = " ".join(map(str, words))
    if "BrokenPipeError" not in text and "ConnectionResetError" not in text:
        sys.stderr.write(f"{text}\n")


def quiet_print_exc() -> None:
    """Replaces the daemon's ``traceback.print_exc``; omits the errors that pyspark 4.3 prints when Spark
    disconnects."""
    if not isinstance(sys.exception(), (BrokenPipeError, ConnectionResetError)):
        traceback.print_exc()


vars(daemon).update(
    print=quiet_print,
    traceback=SimpleNamespace(print_exc=quiet_print_exc, format_exc=traceback.format_exc),
)

if __name__ == "__main__":
    daemon.manager()
