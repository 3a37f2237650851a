"""Jars for the tests, from Maven Central, pinned: ``broker.txt`` is Apache Kafka, ``connector.txt`` Spark's connector.

Each line is a SHA-256 and a path in a Maven repository. ``python -m tests.jars connector`` prints where they lie, as
``spark.jars`` wants it.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

_CENTRAL = "https://repo1.maven.org/maven2/"
_TRIES = 3


def jars(name: str) -> list[str]:
    """The paths of the jars of a list; those that are not in the user's cache are fetched."""
    lines = Path(__file__).with_name(f"{name}.txt").read_text("utf-8").split("\n")
    wanted = [(digest, path) for digest, _, path in (line.partition("  ") for line in lines) if path]
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "windbolt", "jars")
    folder.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(lambda each: str(_jar(folder, *each)), wanted))


def _jar(folder: Path, digest: str, path: str) -> Path:
    """A jar in the cache: there it stands whole, or not at all."""
    target = folder / f"{digest[:12]}-{path.rsplit('/', 1)[1]}"
    if target.exists():
        return target
    content = _fetched(_CENTRAL + path)
    if hashlib.sha256(content).hexdigest() != digest:
        raise OSError(f"{_CENTRAL + path} is not what it was: its SHA-256 is not {digest}")
    number, draft = tempfile.mkstemp(dir=folder, prefix=".")
    with os.fdopen(number, "wb") as file:
        file.write(content)
    os.replace(draft, target)
    return target


def _fetched(address: str) -> bytes:
    for left in reversed(range(_TRIES)):
        try:
            with urllib.request.urlopen(address, timeout=60) as answer:
                return bytes(answer.read())
        except OSError as error:
            if not left:
                raise OSError(f"{address} cannot be fetched: {error}") from error
            time.sleep(1)
    raise AssertionError


if __name__ == "__main__":
    print(",".join(jars(sys.argv[1])))
