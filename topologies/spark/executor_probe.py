"""Checks of an executor: who it is, and what is missing there. The code is sent by value and imports only Python's own
modules, since windbolt, or a package that it needs, may be what is missing."""

from __future__ import annotations

import importlib
import importlib.util
import os
import pickle
import platform
import socket
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from typing import Any


def probe(
    packages: Iterable[str], clock: Callable[[], float], look: str, request: bytes
) -> Callable[[Iterable[int]], Iterator[dict[str, Any]]]:
    """A function for a Spark task, which answers as a dict: who it is, and what is wrong.

    ``packages`` have to be there. ``look`` names the function, ``module:name``, that looks at all else where they are;
    it is given ``request``, a pickle, and the number of the task, and returns a dict that is added to the answer.
    """

    def probed(numbers: Iterable[int]) -> Iterator[dict[str, Any]]:
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
                module, _, function = look.partition(":")
                answer |= getattr(importlib.import_module(module), function)(pickle.loads(request), number)
            except Exception as error:
                answer["failed"] = f"{type(error).__name__}: {error}"
                answer["traceback"] = traceback.format_exc()
        return answer | {"clock": clock()}

    return probed
