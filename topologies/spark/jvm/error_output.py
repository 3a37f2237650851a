"""Java's standard error, passed on as it comes but for one warning that each start of Spark prints."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

WARNING = b"WARNING: Using incubator modules: jdk.incubator.vector\n"
"""Spark asks Java for this module; nobody can do anything about it, and it would stand in the middle of a display."""


@contextmanager
def passed_on(target: int = 2) -> Iterator[int]:
    """The file descriptor for Java to write to; what comes there goes to ``target`` until Java ends."""
    start, end = os.pipe()
    threading.Thread(target=_pass_on, args=(start, target), name="windbolt-java-errors", daemon=True).start()
    try:
        yield end
    finally:
        os.close(end)


def _pass_on(start: int, target: int) -> None:
    kept = b""
    while chunk := os.read(start, 65536):
        text = (kept + chunk).replace(WARNING, b"")
        line = text[text.rfind(b"\n") + 1 :]
        kept = line if WARNING.startswith(line) else b""
        _write(target, text.removesuffix(kept))
    _write(target, kept)
    os.close(start)


def _write(target: int, text: bytes) -> None:
    with suppress(OSError):  # nobody reads it any more
        while text:
            text = text[os.write(target, text) :]
