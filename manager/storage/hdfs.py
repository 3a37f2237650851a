"""HDFS as an Arrow file system, through the package hdfs-native, without Java and without libhdfs."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit
from xml.etree import ElementTree

import pyarrow as pa
import pyarrow.fs as pafs

from manager.remote import RetryingFileSystem, SeekableFile, root_and_path, with_retries
from windowing.errors import ConfigError, EnvironmentMissing

# The client of hdfs-native, and its errors.


_PORT = 8020
"""Default port of a NameNode, if neither the address nor Hadoop's configuration has a port."""
_CLIENT_SETTINGS = {
    "dfs.client.failover.max.attempts": "3",
    "dfs.client.failover.sleep.base.millis": "50",
    "dfs.client.failover.sleep.max.millis": "500",
}
"""Settings of hdfs-native for few and short retries. Its default is minutes, during which Ctrl-C has no effect;
``with_retries`` retries instead."""
_RUST_ERROR = re.compile(r'(\w+)\((?:"([\w.$]+)", )?"(.*)"\)', re.DOTALL)
"""Pattern of the texts of hdfs-native's RuntimeErrors: a kind, sometimes a Java class, and a message."""
_ERROR_CLASSES = {
    "AccessControlException": PermissionError,
    "AuthorizationException": PermissionError,
    "ParentNotDirectoryException": NotADirectoryError,
    "StandbyException": ConnectionError,
    "RetriableException": ConnectionError,
    "SafeModeException": ConnectionError,
}
"""Python's error class by the name of the Java class, without its package. Connection errors may pass."""


@lru_cache(maxsize=256)
def client(root: str, process: int) -> Any:
    """Returns the hdfs-native client of a URI. ``process``: the id of this process, because a client cannot be used
    after a fork."""
    try:
        import hdfs_native
    except ImportError as error:
        raise EnvironmentMissing(
            f"{root} is in HDFS, and the package hdfs-native is missing",
            why="windbolt reads and writes there through that package",
            do="pip install 'windbolt[hdfs]', on all machines",
        ) from error
    uri, _, options = root.partition("?")
    if options:
        raise ConfigError(
            f"{uri} is named with options behind a question mark",
            why="HDFS has no options in its names",
            do="set HADOOP_USER_NAME in the environment for the user, and the rest in the files of HADOOP_CONF_DIR",
        )
    try:
        return _connect(hdfs_native.Client, uri)
    except (OSError, RuntimeError, ValueError) as error:
        raise ConfigError(
            f"{uri} cannot be reached",
            why=_first_line(error),
            do="name the NameNode, as in hdfs://host:8020/folder; or set HADOOP_CONF_DIR to the folder with the "
            "core-site.xml and hdfs-site.xml of your cluster, which say where it is",
        ) from error


def _connect(client_class: Any, uri: str) -> Any:
    """Returns a client of the HDFS service, or of the NameNode host, in the URI ``uri``."""
    try:
        return client_class(uri, _CLIENT_SETTINGS)
    except RuntimeError as error:
        parts = urlsplit(uri)
        if parts.scheme != "hdfs" or not parts.netloc or "No NameNode hosts" not in str(error):
            raise
    return client_class(f"hdfs://{parts.netloc}:{_PORT}/", _CLIENT_SETTINGS)


@contextmanager
def as_os_error(place: str) -> Iterator[None]:
    """Raise hdfs-native's errors as the subclass of OSError that a local file would raise, with one line of text.

    Connection errors become ConnectionError, which counts as transient (``manager/remote.py``).
    """
    try:
        yield
    except (FileNotFoundError, FileExistsError, IsADirectoryError) as error:
        raise type(error)(_first_line(error)) from error
    except OSError as error:
        raise ConnectionError(f"{place} does not answer: {_first_line(error)}") from error
    except (RuntimeError, NotImplementedError) as error:
        raise _error_class(error)(f"{place}: {_first_line(error)}") from error


def _error_class(error: Exception) -> type[OSError]:
    match = _RUST_ERROR.fullmatch(str(error))
    if match is None:
        return OSError
    if match[1] == "DataTransferError":  # of a DataNode, after all the others of the block
        return ConnectionError
    return _ERROR_CLASSES.get((match[2] or "").rsplit(".", 1)[-1], OSError)


def _first_line(error: Exception) -> str:
    """Returns the first line of an error, without Java's stack trace."""
    match = _RUST_ERROR.fullmatch(str(error))
    text = str(error) if match is None else match[3].split("\\n", 1)[0].replace('\\"', '"')
    return text.strip().split("\n", 1)[0]


# HDFS as an Arrow file system (decision 84).
#
# A rename in HDFS is atomic, and either replaces an existing file or fails. A file is written under a hidden name and
# then renamed, so it is complete or missing, whenever the writer dies; ``create_file`` is a conditional write.


_SCHEMES = ("hdfs", "viewfs")
_DOTS_OF_SERVICE = 4
"""Number of dots in the name of the setting for the address of a NameNode of a service."""
_PIECE = 1 << 23
"""Maximum number of bytes that are copied at once."""


def is_hdfs(uri: str | None) -> bool:
    """True if the URI of a file system is a URI of HDFS."""
    return uri is not None and urlsplit(uri).scheme in _SCHEMES


def cluster_name(authority: str) -> str:
    """Returns the name of an HDFS cluster, the same for a URI with its service and for a URI with its NameNode.

    This is the name of the service if Hadoop's configuration has one, else the host. ``authority``: the host part of
    the URI; "" for the default HDFS of the configuration. Without a default, "" is returned.
    """
    settings = _hadoop_settings()
    default = urlsplit(settings.get("fs.defaultFS", ""))
    host = authority or (default.netloc if default.scheme == "hdfs" else "")
    services = {
        _host(address): name.split(".")[3].lower()
        for name, address in settings.items()
        if name.startswith("dfs.namenode.rpc-address.") and name.count(".") == _DOTS_OF_SERVICE
    }
    return services.get(_host(host), _host(host))


def _host(authority: str) -> str:
    return authority.rpartition("@")[2].lower().removesuffix(f":{_PORT}")


def _hadoop_settings() -> Mapping[str, str]:
    """Returns Hadoop's settings, from the files that hdfs-native reads."""
    home = os.environ.get("HADOOP_HOME", "")
    folder = os.environ.get("HADOOP_CONF_DIR") or (os.path.join(home, "etc", "hadoop") if home else "")
    changes: list[tuple[str, int]] = []
    for file in ("core-site.xml", "hdfs-site.xml") if folder else ():
        with suppress(OSError):
            path = os.path.join(folder, file)
            changes.append((path, os.stat(path).st_mtime_ns))
    return _settings_of(tuple(changes))


@lru_cache(maxsize=8)
def _settings_of(files: tuple[tuple[str, int], ...]) -> Mapping[str, str]:
    """Returns the settings in these files. ``files``: the path and the time of the last change of each; the time is
    only part of the cache key."""
    settings: dict[str, str] = {}
    for path, _ in files:
        with suppress(OSError, ElementTree.ParseError):
            for each in ElementTree.parse(path).iter("property"):
                settings[each.findtext("name", "").strip()] = each.findtext("value", "").strip()
    return settings


def is_hdfs_filesystem(filesystem: pafs.FileSystem) -> bool:
    """True for a file system of ``open_hdfs``, with or without retries."""
    return isinstance(filesystem, pafs.PyFileSystem) and bool(filesystem.type_name.endswith("hdfs"))


def open_hdfs(root: str) -> pafs.FileSystem:
    """Returns the file system of a URI without a path, without a request.

    Raises EnvironmentMissing without hdfs-native, ConfigError if the URI has no NameNode.
    """
    return pafs.PyFileSystem(_Handler(root))


def create_file(uri: str, draft: str, path: str, data: bytes) -> bool:
    """Create a file atomically if it does not exist; return False if it exists with other bytes.

    ``draft``: a unique hidden name in the same folder. A writer that dies leaves only the draft. An existing file with
    the same bytes counts as created, because the answer to a rename may be lost; so the bytes must be unique.
    """
    handler, retrying = _handler_and_filesystem(uri)
    with_retries(lambda: handler.write(draft, data))
    try:
        with_retries(lambda: handler.rename(draft, path, overwrite=False))
    except (FileExistsError, FileNotFoundError) as error:
        if retrying.get_file_info(path).type == pafs.FileType.NotFound:
            raise
        with retrying.open_input_file(path) as source:
            is_same = bool(source.read() == data)
        if isinstance(error, FileExistsError):
            with suppress(FileNotFoundError):
                retrying.delete_file(draft)
        return is_same
    return True


def rename_files(uri: str, names: list[tuple[str, str]]) -> None:
    """Rename files. Another process may rename the same files at the same time."""
    _, retrying = _handler_and_filesystem(uri)
    for source, target in names:
        try:
            retrying.move(source, target)
        except FileNotFoundError:
            if retrying.get_file_info(target).type == pafs.FileType.NotFound:
                raise


def read_part(uri: str, path: str, start: int, length: int) -> bytes:
    """Returns bytes of a file, fewer at its end. Raises FileNotFoundError."""
    handler, _ = _handler_and_filesystem(uri)
    return with_retries(lambda: handler.source(path).range(start, length))


def _handler_and_filesystem(uri: str) -> tuple[_Handler, pafs.FileSystem]:
    handler = _Handler(root_and_path(uri)[0])
    return handler, pafs.PyFileSystem(RetryingFileSystem(pafs.PyFileSystem(handler)))


class _Handler(pafs.FileSystemHandler):  # type: ignore[misc]
    """Arrow's file system interface for HDFS. Paths begin with a slash."""

    def __init__(self, root: str) -> None:
        self.root = root
        self._place = root.partition("?")[0].rstrip("/")
        self._client = client(root, os.getpid())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Handler) and self.root == other.root

    __hash__ = None  # type: ignore[assignment]

    def get_type_name(self) -> str:
        return "hdfs"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: list[str]) -> list[pafs.FileInfo]:
        return [self._info(path) for path in paths]

    def get_file_info_selector(self, selector: pafs.FileSelector) -> list[pafs.FileInfo]:
        try:
            with self.as_os_error():
                statuses = list(self._client.list_status(selector.base_dir, selector.recursive))
        except FileNotFoundError:
            if selector.allow_not_found:
                return []
            raise
        if (
            len(statuses) == 1
            and not statuses[0].isdir
            and statuses[0].path.rstrip("/") == selector.base_dir.rstrip("/")
        ):
            raise NotADirectoryError(f"{selector.base_dir} is a file")
        return [_file_info(status) for status in statuses]

    def create_dir(self, path: str, recursive: bool) -> None:
        with self.as_os_error():
            self._client.mkdirs(path, 0o755, recursive)

    def delete_dir(self, path: str) -> None:
        self._delete(path, folder=True)

    def delete_dir_contents(self, path: str, missing_dir_ok: bool) -> None:
        for entry in self.get_file_info_selector(pafs.FileSelector(path, allow_not_found=missing_dir_ok)):
            self._delete(entry.path, folder=True)

    def delete_root_dir_contents(self) -> None:
        self.delete_dir_contents("/", missing_dir_ok=True)

    def delete_file(self, path: str) -> None:
        self._delete(path, folder=False)

    def move(self, src: str, dest: str) -> None:
        self.rename(src, dest, overwrite=True)

    def rename(self, source: str, target: str, *, overwrite: bool) -> None:
        """Rename a file or folder atomically. Raises FileExistsError unless ``overwrite`` is set."""
        with self.as_os_error():
            self._client.rename(source, target, overwrite)

    def write(self, path: str, data: bytes) -> None:
        """Write a file, replacing an existing file."""
        target = _Target(self, path)
        target.write(data)
        target.close()

    def copy_file(self, src: str, dest: str) -> None:
        source, target = self.source(src), _Target(self, dest)
        while piece := source.read(_PIECE):
            target.write(piece)
        target.close()

    def open_input_stream(self, path: str) -> pa.NativeFile:
        return self.open_input_file(path)

    def open_input_file(self, path: str) -> pa.NativeFile:
        return pa.PythonFile(self.source(path), mode="r")

    def open_output_stream(self, path: str, metadata: dict[str, str]) -> pa.NativeFile:
        return pa.PythonFile(_Target(self, path), mode="w")

    def open_append_stream(self, path: str, metadata: dict[str, str]) -> pa.NativeFile:
        raise NotImplementedError("windbolt appends to no file")

    def source(self, path: str) -> _Source:
        """Returns a reader of the bytes of a file."""
        return _Source(self, path)

    def open_reader(self, path: str) -> Any:
        """Returns hdfs-native's reader of a file.

        Raises ConnectionError, which is retried, if the file seems too short. A file may be closed before the NameNode
        has heard of its last block from a DataNode, and hdfs-native then leaves that block out.
        """
        with self.as_os_error():
            reader, status = self._client.read(path), self._client.get_file_info(path)
        if reader.size < status.length:
            raise ConnectionError(f"{self._place} does not know yet where the last of {path} is")
        return reader

    def open_writer(self, path: str) -> Any:
        """Returns hdfs-native's writer of a new file, which replaces an existing file. Missing folders are created."""
        with self.as_os_error():
            import hdfs_native

            return self._client.create(path, hdfs_native.WriteOptions(overwrite=True))

    def _info(self, path: str) -> pafs.FileInfo:
        try:
            with self.as_os_error():
                return _file_info(self._client.get_file_info(path))
        except FileNotFoundError:
            return pafs.FileInfo(path, pafs.FileType.NotFound)

    def _delete(self, path: str, *, folder: bool) -> None:
        with self.as_os_error():
            if not self._client.delete(path, folder):
                raise FileNotFoundError(path)

    def as_os_error(self) -> AbstractContextManager[None]:
        """Returns a context manager for requests to HDFS."""
        return as_os_error(self._place)


def _file_info(status: Any) -> pafs.FileInfo:
    changed = status.modification_time * 1_000_000  # milliseconds
    if status.isdir:
        return pafs.FileInfo(status.path, pafs.FileType.Directory, mtime_ns=changed)
    return pafs.FileInfo(status.path, pafs.FileType.File, size=status.length, mtime_ns=changed)


class _Source(SeekableFile):
    """A seekable reader of a file. Raises FileNotFoundError."""

    def __init__(self, handler: _Handler, path: str) -> None:
        self._handler, self._reader = handler, handler.open_reader(path)
        super().__init__(int(self._reader.size))

    def read(self, size: int | None = -1) -> bytes:
        remaining = max(self._size - self._at, 0)
        data = self.range(self._at, remaining if size is None or size < 0 else size)
        self._at += len(data)
        return data

    def range(self, start: int, length: int) -> bytes:
        """Returns bytes of the file, fewer at its end."""
        size = min(length, self._size - start)
        if size <= 0:
            return b""
        with self._handler.as_os_error():
            return bytes(self._reader.read_range(start, size))


class _Target(io.RawIOBase):
    """A writer of a new file, which is complete when the writer is closed. After a failed write the file stays open;
    HDFS deletes or closes it when its lease ends."""

    def __init__(self, handler: _Handler, path: str) -> None:
        super().__init__()
        self._failed = True  # until there is a file
        self._handler, self._writer = handler, handler.open_writer(path)
        self._failed = False

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        try:
            with self._handler.as_os_error():
                return int(self._writer.write(bytes(data)))
        except OSError:
            self._failed = True
            raise

    def close(self) -> None:
        if self.closed:
            return
        super().close()
        if not self._failed:
            with self._handler.as_os_error():
                self._writer.close()
