"""Sessions of Spark Connect: how one is opened."""

from __future__ import annotations

import atexit
import os
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from weakref import WeakSet

from topologies.spark.sessions import REMOTE, is_remote_master
from topologies.spark.spark_errors import FROM_SPARK
from windowing.errors import ConfigError, EnvironmentMissing, UnreachableError

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

SLOTS = "spark.windbolt.slots"
"""Setting of the number of tasks to cut work into."""
_MODE = "SPARK_CONNECT_MODE_ENABLED"
"""PySpark's variable that says that sessions of this process go over Connect."""
_PATIENCE = 10
"""Seconds in which a server has to take a connection."""


def slots_of(conf: Mapping[str, str]) -> int | None:
    """The number of slots that a setting names; None where there is none. Raises ConfigError for what is no number."""
    given = conf.get(SLOTS)
    if given is None:
        return None
    if not (given.isascii() and given.isdigit() and int(given)):
        raise ConfigError(
            f"{SLOTS} is {given!r}",
            why="it is the number of tasks that run at the same time",
            do="give a number from 1 on, or leave it out: Spark is asked then",
        )
    return int(given)


@contextmanager
def connected(spark: Any, master: str | None, conf: Mapping[str, str]) -> Iterator[SparkSession]:
    """The session given, or one that is opened for the run and closed at its end.

    Raises EnvironmentMissing where a package is missing here, UnreachableError where the server does not answer; one
    that does not pass by itself where the session that is given has ended.
    """
    if spark is not None:
        try:
            yield spark
        except (UnreachableError, ValueError) as error:  # the latter from a channel that was closed
            if not spark.is_stopped:
                _leave_at_exit(spark)
                raise
            raise UnreachableError(
                "the Spark session of the run has ended",
                why="it was stopped, or its server was started again and knows it no more",
                do="make a new session and start again: the run continues from its checkpoint",
            ) from error
        return
    session = _opened(master or os.environ[REMOTE], conf)
    try:
        with _functions_over_connect():
            yield session
    finally:
        _leave(session)
        with suppress(*FROM_SPARK):
            session.stop()


_OPENED: list[object] = []
"""One for each present run with a session of its own: while there are any, PySpark's variable is set."""
_OPENING = threading.Lock()


@contextmanager
def _functions_over_connect() -> Iterator[None]:
    """By this pyspark.sql.functions, in functions of sinks and of DataFrames, know what they are to make."""
    mine = object()
    with _OPENING:
        is_users = not _OPENED and _MODE in os.environ
        if not is_users:
            _OPENED.append(mine)
            os.environ[_MODE] = "1"
    try:
        yield
    finally:
        with _OPENING:
            if not is_users:
                _OPENED.remove(mine)
                if not _OPENED:
                    os.environ.pop(_MODE, None)


def _opened(address: str, conf: Mapping[str, str]) -> SparkSession:
    try:
        from pyspark.sql.connect.session import SparkSession
    except ImportError as error:
        raise EnvironmentMissing(
            "a package for Spark Connect is missing",
            why=str(error).strip().split("\n", 1)[0],
            do="pip install 'windbolt[connect]'",
        ) from error
    _reach(address)
    builder = SparkSession.builder.remote(address)
    for name, value in conf.items():
        if name not in (SLOTS, "spark.master"):
            builder = builder.config(name, value)
    try:
        session: SparkSession = builder.create()
        _ = session.version
    except FROM_SPARK as error:
        raise _no_answer(address, str(error)) from error
    return session


def _reach(address: str) -> None:
    """Raise UnreachableError where nobody listens at the address: Spark's client would try for ten minutes."""
    if not is_remote_master(address):
        return  # local[2]: PySpark starts a server of its own
    try:
        place = urlsplit(address.partition(";")[0])
        host, port = place.hostname or "localhost", place.port or 15002
    except ValueError as error:
        raise ConfigError(
            f"{_shown(address)!r} is no address", why=str(error), do="give one such as sc://HOST:15002"
        ) from error
    try:
        socket.create_connection((host, port), _PATIENCE).close()
    except OSError as error:
        raise _no_answer(address, str(error)) from error


_WITHOUT_SERVER: WeakSet[Any] = WeakSet()
"""The users' sessions whose server did not answer."""


def _leave_at_exit(session: SparkSession) -> None:
    """As ``_leave``, at the end of the process, however many attempts of a run have failed.

    PySpark asks from threads, too, for which Python waits before it calls what ``atexit`` has; so as those of
    ``concurrent.futures`` this is called before, for which there is no public name.
    """
    if not _WITHOUT_SERVER:
        getattr(threading, "_register_atexit", atexit.register)(_leave_all)
    _WITHOUT_SERVER.add(session)


def _leave_all() -> None:
    for session in list(_WITHOUT_SERVER):
        _leave(session)


def _leave(session: SparkSession) -> None:
    """Close the client of a session whose server has ended, which it would ask for 20 minutes to forget it."""
    endpoint = getattr(session.client._builder, "endpoint", None)
    if endpoint is None:
        return  # a channel of another kind
    try:
        _reach(f"sc://{endpoint}")
    except UnreachableError:
        session.client.close()


def _no_answer(address: str, why: str) -> UnreachableError:
    return UnreachableError(
        f"the Spark Connect server {_shown(address)} does not answer",
        why=why.strip().split("\n", 1)[0][:300],
        do="see that it runs, and that its address is right: sc://HOST:15002",
        transient=True,
    )


def _shown(address: str) -> str:
    """The address without its parameters, of which one may be a token."""
    return address.partition(";")[0].rstrip("/")
