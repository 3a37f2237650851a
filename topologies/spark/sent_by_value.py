"""Functions that are sent to workers by value: checks of an executor, and the first code of a worker of Spark Connect.

They use nothing of windbolt, and no package whose presence they have not checked: windbolt's code may not have arrived
there, and a package may be missing.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import pickle
import platform
import socket
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

# Checks of an executor: its identity, and what it lacks. They use only Python's standard modules.


def probe(
    packages: Iterable[str], clock: Callable[[], float], further_checks: str, request: bytes
) -> Callable[[Iterable[int]], Iterator[dict[str, Any]]]:
    """Returns a function for a Spark task, which answers with a dict: its executor, and the problems there.

    ``packages``: must be present. ``further_checks``: the name of a function, ``module:name``, that is called if they
    are. It gets ``request``, a pickle, and the number of the task, and returns a dict that is added to the answer.
    """

    def answer_all(numbers: Iterable[int]) -> Iterator[dict[str, Any]]:
        for number in numbers:
            yield _answer(number)

    def _answer(number: int) -> dict[str, Any]:
        answer: dict[str, Any] = {
            "executor": os.environ.get("SPARK_EXECUTOR_DIRS", "") or str(os.getppid()),
            "host": os.environ.get("SPARK_LOCAL_HOSTNAME") or socket.gethostname(),
            "python": f"Python {platform.python_version()}, {sys.executable}",
            "versions": {},
            "missing": {},
        }
        for name in packages:
            try:
                found = importlib.import_module(name)
                answer["versions"][name] = str(getattr(found, "__version__", ""))
            except Exception as error:
                answer["missing"][name] = f"{type(error).__name__}: {error}"
        if not answer["missing"]:
            try:
                module, _, function = further_checks.partition(":")
                answer |= getattr(importlib.import_module(module), function)(pickle.loads(request), number)
            except Exception as error:
                answer["failed"] = f"{type(error).__name__}: {error}"
                answer["traceback"] = traceback.format_exc()
        return answer | {"clock": clock()}

    return answer_all


# The first function in a worker of a Connect server: it finds the code of the run, and calls it.


Arrived = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""For ``mapInArrow`` over ``range(n)``: the column ``id`` of each row is the number of a share."""


def rows(folders: Sequence[str], work: bytes, shares: Sequence[bytes]) -> Arrived:
    """Returns a function that yields the record batches of each share. ``work``: the pickle of the function that makes
    them; ``folders``: the folders of the archives that were sent."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import os
        import pickle
        import sys

        from pyspark import SparkFiles

        places = [os.path.join(SparkFiles.getRootDirectory(), folder) for folder in folders]
        sys.path[:0] = [place for place in places if place not in sys.path]
        function = pickle.loads(work)
        for batch in batches:
            for number in batch.column("id").to_pylist():
                yield from function(shares[number])

    return run
