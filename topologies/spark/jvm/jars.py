"""Pinned jars from Maven Central: each is fetched once, verified, and cached for the user."""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from pathlib import Path
from urllib.error import HTTPError

CENTRAL = "https://repo1.maven.org/maven2/"
CONNECTOR = Path(__file__).with_name("connector.txt")
"""A Kafka connector that works with Spark 4.3, for as long as there is none of its own version."""

_TRIES = 3
_SOON = 5
"""Seconds to wait for an answer that is not required."""


class NoCacheError(OSError):
    """There is no folder that jars can be kept in."""


def jars(pinned: Path) -> list[str]:
    """The local paths of the jars in a list, whose lines are a SHA-256 and a path in a Maven repository.

    Raises NoCacheError where they cannot be kept, OSError where a jar is neither cached nor available, or differs from
    its checksum.
    """
    folder = _cache()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise NoCacheError(str(error)) from error
    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(lambda each: str(_jar(folder, *each)), _lines(pinned)))


def are_cached(pinned: Path) -> bool:
    """Whether all jars of a list are cached."""
    try:
        folder = _cache()
        return all(_target(folder, digest, path).exists() for digest, path in _lines(pinned))
    except OSError:
        return False


def is_published(paths: list[str]) -> bool | None:
    """Whether Maven Central has all of these files; None where it does not answer."""
    with ThreadPoolExecutor(len(paths)) as pool:
        answers = set(pool.map(_is_there, paths))
    return False if False in answers else None if None in answers else True


def _lines(pinned: Path) -> Iterator[tuple[str, str]]:
    for line in pinned.read_text("utf-8").splitlines():
        digest, _, path = line.partition("  ")
        if path:
            yield digest, path


def _cache() -> Path:
    """The folder of the cache. Raises NoCacheError for a user without a home directory."""
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "windbolt", "jars")
    except RuntimeError as error:  # no HOME, and a user that nobody knows, as in many containers
        raise NoCacheError(str(error)) from error


def _target(folder: Path, digest: str, path: str) -> Path:
    return folder / f"{digest[:12]}-{path.rsplit('/', 1)[1]}"


def _jar(folder: Path, digest: str, path: str) -> Path:
    """The path of a jar in the cache, fetched if necessary; a cached file is always complete."""
    target = _target(folder, digest, path)
    if target.exists():
        return target
    content = _fetched(CENTRAL + path)
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


def _is_there(path: str) -> bool | None:
    try:
        with urllib.request.urlopen(urllib.request.Request(CENTRAL + path, method="HEAD"), timeout=_SOON):
            return True
    except HTTPError as error:
        return False if error.code == HTTPStatus.NOT_FOUND else None
    except OSError:
        return None
