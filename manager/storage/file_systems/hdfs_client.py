"""hdfs-native's client of an HDFS: which NameNode it asks, and what its errors are in Python."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from windowing.errors import ConfigError, EnvironmentMissing

_PORT = 8020
"""Where a NameNode listens whose address names no port, and that no configuration names: Hadoop's default."""
_CALLS = {
    "dfs.client.failover.max.attempts": "3",
    "dfs.client.failover.sleep.base.millis": "50",
    "dfs.client.failover.sleep.max.millis": "500",
}
"""How often hdfs-native itself asks a NameNode that does not answer. It waits without heeding Ctrl-C, by default for
minutes; ``asking_again`` does most of the waiting in its place."""
_IN_RUST = re.compile(r'(\w+)\((?:"([\w.$]+)", )?"(.*)"\)', re.DOTALL)
"""How hdfs-native shows an error of a kind that Python has no class for: its kind, perhaps Java's class, a text."""
_OWN_CLASSES = {
    "AccessControlException": PermissionError,
    "AuthorizationException": PermissionError,
    "ParentNotDirectoryException": NotADirectoryError,
    "StandbyException": ConnectionError,
    "RetriableException": ConnectionError,
    "SafeModeException": ConnectionError,
}
"""Python's classes of errors by the last part of Java's. Those of connections are the ones that pass by themselves."""


@lru_cache(maxsize=256)
def client(root: str, process: int) -> Any:
    """A client of hdfs-native's; its connections and threads belong to one process."""
    try:
        import hdfs_native
    except ImportError as error:
        raise EnvironmentMissing(
            f"{root} is in HDFS, and the package hdfs-native is missing",
            why="windbolt reads and writes there through that package",
            do="pip install 'windbolt[hdfs]', on all machines",
        ) from error
    place, _, options = root.partition("?")
    if options:
        raise ConfigError(
            f"{place} is named with options behind a question mark",
            why="HDFS has no options in its names",
            do="set HADOOP_USER_NAME in the environment for the user, and the rest in the files of HADOOP_CONF_DIR",
        )
    try:
        return _connected(hdfs_native.Client, place)
    except (OSError, RuntimeError, ValueError) as error:
        raise ConfigError(
            f"{place} cannot be reached",
            why=_text(error),
            do="name the NameNode, as in hdfs://host:8020/folder; or set HADOOP_CONF_DIR to the folder with the "
            "core-site.xml and hdfs-site.xml of your cluster, which say where it is",
        ) from error


def _connected(connect: Any, place: str) -> Any:
    """A client of what the configuration of Hadoop names so, or else of the NameNode of that host."""
    try:
        return connect(place, _CALLS)
    except RuntimeError as error:
        at = urlsplit(place)
        if at.scheme != "hdfs" or not at.netloc or "No NameNode hosts" not in str(error):
            raise
    return connect(f"hdfs://{at.netloc}:{_PORT}/", _CALLS)


@contextmanager
def as_os_error(place: str) -> Iterator[None]:
    """Raise hdfs-native's errors as those classes of OSError that they are for a local file, each with a text of one
    line. What comes of a connection is a ConnectionError, which may pass (``manager/outside/transient.py``)."""
    try:
        yield
    except (FileNotFoundError, FileExistsError, IsADirectoryError) as error:
        raise type(error)(_text(error)) from error
    except OSError as error:
        raise ConnectionError(f"{place} does not answer: {_text(error)}") from error
    except (RuntimeError, NotImplementedError) as error:
        raise _class_of(error)(f"{place}: {_text(error)}") from error


def _class_of(error: Exception) -> type[OSError]:
    match = _IN_RUST.fullmatch(str(error))
    if match is None:
        return OSError
    if match[1] == "DataTransferError":  # of a DataNode, after all the others of the block
        return ConnectionError
    return _OWN_CLASSES.get((match[2] or "").rsplit(".", 1)[-1], OSError)


def _text(error: Exception) -> str:
    """The first line of an error; Java's stack trace follows."""
    match = _IN_RUST.fullmatch(str(error))
    text = str(error) if match is None else match[3].split("\\n", 1)[0].replace('\\"', '"')
    return text.strip().split("\n", 1)[0]
