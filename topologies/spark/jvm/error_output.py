"""Java's standard error, passed on as it comes but for one warning that each start of Spark prints."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

WARNING = b"WARNING: Using incubator modules: jdk.incubator.vector\n"
"""Spark asks Java for this module; nobody can do anything about it, and it would stand in the middle of a display."""

_STANDARD = 2


@contextmanager
def passed_on(target: int = _STANDARD) -> Iterator[int]:
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
    """Write it where Python's own errors go while a display or a notebook has taken their place: a display stays whole.

    Else to the file itself, without the lock of Python's stream, which must not be held when the process ends.
    """
    shown = sys.stderr if target == _STANDARD and sys.stderr is not sys.__stderr__ else None
    with suppress(OSError, ValueError):  # nobody reads it any more
        if shown is not None:
            shown.write(text.decode("utf-8", "replace"))
            shown.flush()
            return
        while text:
            text = text[os.write(target, text) :]
