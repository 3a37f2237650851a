"""The session that windbolt opens by itself: runs at the same time share it, and the last of them stops it."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.sql import SparkSession

from topologies.spark.jvm.java import java_runs
from topologies.spark.jvm.session import open_session


@dataclass
class SharedSession:
    """A session of windbolt's own, and how many runs use it."""

    session: SparkSession
    users: int = 0


_LOCK = threading.Lock()
_SHARED: list[SharedSession] = []
"""The session of windbolt's own, if there is one."""


@contextmanager
def shared_session(
    spark: SparkSession | None, master: str | None, conf: Mapping[str, str], *, kafka: bool = False
) -> Iterator[SparkSession]:
    """A session for a run: ``spark``, the active one, or one of windbolt's own, which ends with the last run that uses
    it."""
    if spark is not None:
        yield spark
        return
    with _LOCK:
        session, shared = _enter(master, conf, kafka=kafka)
    try:
        yield session
    finally:
        with _LOCK:
            if shared is not None:
                _leave(shared)


def _enter(master: str | None, conf: Mapping[str, str], *, kafka: bool) -> tuple[SparkSession, SharedSession | None]:
    session, new = open_session(master, conf, kafka=kafka)
    if new:
        _SHARED[:] = [SharedSession(session)]
    for shared in _SHARED:
        if shared.session.sparkContext is session.sparkContext:
            shared.users += 1
            return session, shared
    return session, None


def _leave(shared: SharedSession) -> None:
    shared.users -= 1
    if shared.users == 0:
        if shared in _SHARED:
            _SHARED.remove(shared)
        if java_runs():
            shared.session.stop()
