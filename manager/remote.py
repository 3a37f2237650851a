"""Remote storage: the names of places, the errors that may pass, and a file system with retries."""

from __future__ import annotations

import errno
import io
import os
import random
import re
import socket
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar
from urllib.parse import parse_qs, unquote, urlsplit

import pyarrow as pa
import pyarrow.fs as pafs

from windowing.errors import BoltError, CheckpointError, StorageError, WindboltError

# Transient errors, which may pass without help: of Python, Arrow, obstore and Java.
#
# An error is judged by its class and, within the class, by its number or name. Unknown errors are not transient,
# because after a defect a retry would fail again.


_TRANSIENT_ERRNOS = frozenset(
    {
        errno.ESTALE, errno.ETIMEDOUT, errno.ENOTCONN, errno.ECONNREFUSED, errno.ECONNRESET, errno.ECONNABORTED,
        errno.EPIPE, errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENETDOWN, errno.ENETUNREACH, errno.ENETRESET,
        errno.EINTR, errno.EAGAIN, errno.EBUSY,
    }
)  # fmt: skip
"""Error numbers (errno) of transient errors: of networks, and of busy resources. A disk that is full, read-only or
broken needs help."""
_STATUS = r"(?:408|429|5\d\d)"
"""Pattern of the HTTP statuses of a server that is overloaded or failing."""
_ARROW = re.compile(
    r"AWS Error (?:INTERNAL_FAILURE|SERVICE_UNAVAILABLE|THROTTLING|SLOW_DOWN|REQUEST_TIME(?:D_)?OUT|NETWORK_CONNECTION"
    rf"|REQUEST_EXPIRED|UNKNOWN \(HTTP status {_STATUS}\))"
    r"|google::cloud::Status\((?:UNAVAILABLE|DEADLINE_EXCEEDED|RESOURCE_EXHAUSTED|ABORTED|INTERNAL)\b"
    rf"|\b{_STATUS} (?:Server Busy|Service Unavailable|Operation could not be completed)"
)
"""Pattern of the texts of transient errors of Arrow's file systems for object stores."""
_OBSTORE = re.compile(rf"non-2xx status code: {_STATUS}\b|HTTP error: ")
"""Pattern of the texts of transient errors of obstore: an HTTP status, or no answer."""
_CLIENTS = frozenset({"urllib", "urllib3", "requests", "httpx", "httpcore", "aiohttp", "redis", "valkey"})
_NO_ANSWER_TEXT = re.compile(
    r"Timeout|Connect(?:ion|or)?Error|RemoteProtocol|Disconnected|NameResol|NewConn|ClusterDown|MasterDown|TryAgain"
)
"""Pattern of the names of error classes for a missing answer."""
_REFUSED = frozenset({"SSLError", "AuthenticationError", "AuthorizationError", "ExternalAuthProviderError"})
"""Error classes of servers that have refused and will refuse again. Those of Redis are ConnectionErrors."""
_LOCKED = ("SQLITE_BUSY", "SQLITE_LOCKED")
"""Prefixes of the names of SQLite's errors for a database that another connection is writing to."""
_JAVA = re.compile(
    r"\bjava\.net\.(?:ConnectException|SocketTimeoutException|SocketException|NoRouteToHostException"
    r"|UnknownHostException|PortUnreachableException)\b"
    r"|\bjava\.util\.concurrent\.TimeoutException\b"
    r"|\borg\.apache\.http\.(?:NoHttpResponseException|conn\.\w*Timeout\w*)\b"
    r"|\borg\.apache\.hadoop\.net\.ConnectTimeoutException\b"
    r"|\borg\.apache\.hadoop\.ipc\.(?:RetriableException|StandbyException)\b"
    r"|\borg\.apache\.hadoop\.fs\.s3a\.(?:AWSServiceThrottledException|AWSStatus500Exception)\b"
    rf"|\bStatus Code: {_STATUS}\b"
    r"|\borg\.apache\.kafka\.common\.errors\.(?:\w*TimeoutException|DisconnectException|NetworkException"
    r"|BrokerNotAvailableException|LeaderNotAvailableException|NotLeaderOrFollowerException"
    r"|CoordinatorNotAvailableException|NotEnoughReplicas\w*)\b"
    r"|\bExecutorLostFailure\b|\bExecutorDeadException\b|\bFetchFailed\w*\b"
    r"|\bSparkContext was shut down\b|\bPython worker exited unexpectedly\b"
    r"|\bAll masters are unresponsive\b"
    # A server of Spark Connect does not answer, or has been started again and knows nothing.
    r"|\bStatusCode\.(?:UNAVAILABLE|DEADLINE_EXCEEDED)\b|\bRETRIES_EXCEEDED\b|\bNO_ACTIVE_SESSION\b"
    r"|\bINVALID_HANDLE\.(?:SESSION|OPERATION)_\w+|\bincorrect server side session identifier\b"
)
"""Pattern of the names, in error texts, of transient errors of Java, Hadoop, Kafka and Spark."""


def is_transient(error: BaseException | None) -> bool:
    """True if an error, or an error that caused it, may pass without help."""
    while error is not None:
        if isinstance(error, WindboltError):
            return error.transient
        if _is_itself_transient(error):
            return True
        error = error.__cause__
    return False


_VALUE_ERRNOS = frozenset({errno.EINVAL, errno.EDOM, errno.ERANGE, errno.EOVERFLOW, errno.EILSEQ})
"""Error numbers (errno) of invalid values: ``datetime.fromtimestamp(2**56)`` raises the fourth."""


def is_caused_by_event(error: BaseException | None) -> bool:
    """True if an error of users' code may depend on the events, so that leaving out an event may help.

    False for transient errors, for a lack of memory, for system errors of files, networks and processes, and for
    faults that do not depend on events, such as a missing module or name. The causes of an error are judged the
    same way. An OSError without a number counts as caused by events, because decompressors raise it for bad bytes,
    unless its class is a library's own.
    """
    if is_transient(error):
        return False
    while error is not None:
        if isinstance(error, WindboltError):  # it has already judged its cause
            return not isinstance(error, BoltError | CheckpointError | StorageError)
        if not _caused_by_event(error):
            return False
        error = error.__cause__
    return True


def _caused_by_event(error: BaseException) -> bool:
    if isinstance(error, OSError):
        library_own = type(error).__module__ not in ("builtins", "gzip")
        return error.errno in _VALUE_ERRNOS or (error.errno is None and not library_own)
    if isinstance(error, NameError):
        return isinstance(error, UnboundLocalError)  # after a loop over a list that is empty in this event
    return isinstance(error, Exception) and not isinstance(error, MemoryError | ImportError)


def is_transient_in_java(text: str) -> bool:
    """True if the text of a Java error names a transient error."""
    return _JAVA.search(text) is not None


def _is_transient_for_client(error: BaseException) -> bool:
    """True if an error of a client library is transient: by the HTTP status of the answer, or because of a missing
    answer."""
    answer = getattr(error, "response", None)
    status = getattr(error, "code", None) or getattr(answer, "status_code", None) or getattr(error, "status", None)
    if isinstance(status, int):
        return re.fullmatch(_STATUS, str(status)) is not None
    reason = getattr(error, "reason", None)  # the system's error within that of urllib
    if isinstance(reason, Exception):
        return isinstance(reason, socket.gaierror) or _is_itself_transient(reason)
    names = [kind.__name__ for kind in type(error).__mro__]
    return _REFUSED.isdisjoint(names) and any(map(_NO_ANSWER_TEXT.search, names))


def _is_itself_transient(error: BaseException) -> bool:
    if isinstance(error, ConnectionError | TimeoutError):  # also those that users' code raises
        return True
    library = type(error).__module__.partition(".")[0].removeprefix("_")  # DuckDB's errors are of _duckdb
    if library in _CLIENTS:
        return _is_transient_for_client(error)
    if isinstance(error, OSError):
        return error.errno in _TRANSIENT_ERRNOS if error.errno is not None else _ARROW.search(str(error)) is not None
    return _is_transient_for_library(library, error)


def _is_transient_for_library(library: str, error: BaseException) -> bool:
    match library:
        case "obstore":
            return _OBSTORE.search(str(error).split("\n", 1)[0]) is not None
        case "py4j" | "pyspark" | "grpc":
            return is_transient_in_java(f"{error}\n{_java_trace(error)}")
        case "sqlite3":
            return str(getattr(error, "sqlite_errorname", "")).startswith(_LOCKED)
        case "duckdb":
            return "Could not set lock on file" in str(error)  # another process has it open
    return False


def _java_trace(error: BaseException) -> str:
    """Returns the Java stack trace of a Spark error, which names the causes of the error; "" if there is none."""
    traces = (value for name, value in getattr(error, "__dict__", {}).items() if name.lower().endswith("stacktrace"))
    return next((trace for trace in traces if isinstance(trace, str)), "")


# Seekable files for Python and pyarrow.


class SeekableFile(io.RawIOBase):
    """A file of known size with a position ``_at``, which the ``read`` methods of subclasses advance."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self._size = size
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(start + offset, 0)
        return self._at


# The names of places.
#
# A place has several names: Hadoop's name for ``s3://`` is ``s3a://``, and ``wasbs://`` is an older name for
# ``abfss://``. Users may write any name. windbolt writes the name for Arrow, and gives Spark the name for Hadoop.


_ARROW_SCHEMES = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "wasbs": "abfss", "wasb": "abfs"}
"""Arrow's scheme, by other schemes for the same store."""
KNOWN_SCHEMES = ("s3", "gs", "abfs", "abfss", "hdfs", "viewfs", "file")
_DBFS_MOUNT = "/dbfs/"
"""The folder at which Databricks mounts its file system; its URI for Spark is ``dbfs:/``."""
_QUERY = re.compile(r"\?[A-Za-z_]+=")
"""Pattern of the start of a query. Other question marks are part of a glob pattern."""


def place_name(path: str) -> str:
    """Returns windbolt's name of a place: a URI with ``s3``, ``gs``, ``abfs``, ``abfss`` or ``hdfs``, or a local
    path."""
    if path.startswith("dbfs:/"):
        return _DBFS_MOUNT + path.removeprefix("dbfs:").lstrip("/")
    scheme, sign, rest = path.partition("://")
    if not sign or scheme.lower() not in _ARROW_SCHEMES:
        return path
    if scheme.lower().startswith("wasb"):
        rest = rest.replace(".blob.core.", ".dfs.core.", 1)
    return f"{_ARROW_SCHEMES[scheme.lower()]}://{rest}"


def has_query(path: str) -> bool:
    """True if a URI has options at its end, such as ``?endpoint_override=...``."""
    return "://" in path and _QUERY.search(path) is not None


def root_and_path(place: str, *, options: bool = True) -> tuple[str, str]:
    """Returns the URI of the file system of a place with a scheme, with options; and the path in the file system.

    The path is not decoded, because names may have spaces and percent signs. ``options``: True if the place may have
    options; False for names from a listing, which may contain ``?``.
    """
    scheme, _, rest = place.partition("://")
    match = _QUERY.search(rest) if options else None
    query = "" if match is None else rest[match.start() :]
    authority, _, path = rest.removesuffix(query).partition("/")
    return f"{scheme}://{authority}/{query}", path


def hadoop_name(path: str) -> str:
    """Returns Hadoop's name of a place, without options and keys, which are in ``s3a_settings``."""
    named = place_name(path)
    if named.startswith(_DBFS_MOUNT):
        return "dbfs:/" + named.removeprefix(_DBFS_MOUNT)
    scheme, sign, rest = named.partition("://")
    if not sign:
        return named
    match = _QUERY.search(rest)
    rest = rest if match is None else rest[: match.start()]
    if scheme != "s3":
        return f"{scheme}://{rest}"
    bucket, slash, inside = rest.partition("/")
    return f"s3a://{bucket.rpartition('@')[2]}{slash}{inside}"


def s3a_settings(path: str, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Returns the settings with which Hadoop uses the same S3 store, as the same user, as Arrow and obstore.

    Names are without the prefix ``fs.s3a.bucket.<bucket>.``. Returns an empty dict for places outside S3.
    """
    named = place_name(path)
    if not named.startswith("s3://"):
        return {}
    parts = urlsplit(named) if has_query(named) else urlsplit(named.partition("?")[0])
    uri_options = _options(named)
    endpoint, region = (
        _endpoint(uri_options, environment),
        uri_options.get("region") or _first_set(environment, _REGIONS),
    )
    settings: dict[str, str] = {}
    if endpoint:
        # A store that is not Amazon's has no host for each bucket; Arrow asks it by path too.
        settings |= {"endpoint": endpoint, "path.style.access": "true"}
        settings["connection.ssl.enabled"] = "false" if endpoint.startswith("http://") else "true"
    if region or endpoint:
        settings["endpoint.region"] = region or "us-east-1"
    if parts.username:
        settings |= {"access.key": unquote(parts.username), "secret.key": unquote(parts.password or "")}
        settings["aws.credentials.provider"] = "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"
    else:  # the places where Arrow looks too: variables, ~/.aws, the machine's role
        settings["aws.credentials.provider"] = "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"
    return settings


def endpoint_of(place: str, environment: Mapping[str, str] = os.environ) -> str:
    """Returns the host and port of an S3 or Google Cloud store of another provider; "" for Amazon's and Google's."""
    scheme = place.partition("://")[0]
    endpoint = _endpoint(_options(place), environment if scheme == "s3" else {})
    protocol, _, host = endpoint.rpartition("://")
    host = host.rstrip("/").lower().removesuffix(":80" if protocol == "http" else ":443")
    return "" if host.endswith(_CLOUD_DOMAINS.get(scheme, ())) else host


def _options(place: str) -> dict[str, str]:
    """Returns the options at the end of a URI."""
    match = _QUERY.search(place)
    query = "" if match is None else place[match.start() + 1 :]
    return {name: values[-1] for name, values in parse_qs(query).items()}


_CLOUD_DOMAINS = {"s3": (".amazonaws.com", ".amazonaws.com.cn"), "gs": (".googleapis.com",)}
"""The domains of Amazon's and Google's stores, by scheme."""
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
_REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")


def _endpoint(uri_options: Mapping[str, str], environment: Mapping[str, str]) -> str:
    override = uri_options.get("endpoint_override")
    if override:
        return override if "://" in override else f"{uri_options.get('scheme', 'https')}://{override}"
    return _first_set(environment, _ENDPOINTS)


def _first_set(environment: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((environment[name] for name in names if environment.get(name)), "")


# A file system of an object store that retries.
#
# Arrow's clients do not retry all requests: Arrow's S3 client fails at once if the answer "slow down" is longer than
# the requested object. windbolt uses this class for all access to object stores (decision 79).


Reply = TypeVar("Reply")
RETRIES = 6
"""Number of retries of a request; obstore retries as often (``object_store``)."""
_FIRST_WAIT = 0.1
"""First wait in seconds; each further wait is about twice as long."""
_MOST_SECONDS = 10.0
"""Seconds after which a request is not retried. Arrow's clients may themselves retry for longer; the run then ends, or
restarts itself (``--restart``)."""


def with_retries(act: Callable[[], Reply], again: Callable[[], Reply] | None = None) -> Reply:
    """Call ``act`` and return its result; retry after transient errors, and raise the last error.

    ``again``: called in retries instead of ``act``, for a request that may have taken effect in spite of the error.
    """
    begun = time.monotonic()
    for retry in range(RETRIES):
        try:
            return act()
        except OSError as error:
            if not is_transient(error) or time.monotonic() - begun > _MOST_SECONDS:
                raise
        act = again or act
        time.sleep(_FIRST_WAIT * 2**retry * random.uniform(0.5, 1))
    return act()


class RetryingFileSystem(pafs.FileSystemHandler):  # type: ignore[misc]
    """Passes requests to an Arrow file system, and retries after transient errors."""

    def __init__(self, plain: pafs.FileSystem) -> None:
        self.plain = plain

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RetryingFileSystem) and bool(self.plain.equals(other.plain))

    __hash__ = None  # type: ignore[assignment]

    def get_type_name(self) -> str:
        return str(self.plain.type_name)

    def normalize_path(self, path: str) -> str:
        return str(self.plain.normalize_path(path))

    def get_file_info(self, paths: list[str]) -> Any:
        return with_retries(lambda: self.plain.get_file_info(paths))

    def get_file_info_selector(self, selector: pafs.FileSelector) -> Any:
        return with_retries(lambda: self.plain.get_file_info(selector))

    def create_dir(self, path: str, recursive: bool) -> None:
        with_retries(lambda: self.plain.create_dir(path, recursive=recursive))

    def delete_dir(self, path: str) -> None:
        self._delete_if_exists(lambda: self.plain.delete_dir(path))

    def delete_dir_contents(self, path: str, missing_dir_ok: bool) -> None:
        with_retries(lambda: self.plain.delete_dir_contents(path, missing_dir_ok=missing_dir_ok))

    def delete_root_dir_contents(self) -> None:
        with_retries(lambda: self.plain.delete_dir_contents("/", accept_root_dir=True))

    def delete_file(self, path: str) -> None:
        self._delete_if_exists(lambda: self.plain.delete_file(path))

    def move(self, src: str, dest: str) -> None:
        def again() -> None:
            try:
                self.plain.move(src, dest)
            except FileNotFoundError:  # the first attempt succeeded, but its answer was lost
                if self.plain.get_file_info(dest).type == pafs.FileType.NotFound:
                    raise

        with_retries(lambda: self.plain.move(src, dest), again)

    def copy_file(self, src: str, dest: str) -> None:
        with_retries(lambda: self.plain.copy_file(src, dest))

    def open_input_stream(self, path: str) -> pa.NativeFile:
        return self.open_input_file(path)

    def open_input_file(self, path: str) -> pa.NativeFile:
        return pa.PythonFile(_Source(with_retries(lambda: self.plain.open_input_file(path))), mode="r")

    def open_output_stream(self, path: str, metadata: dict[str, str]) -> pa.NativeFile:
        return with_retries(lambda: self.plain.open_output_stream(path, compression=None, metadata=metadata))

    def open_append_stream(self, path: str, metadata: dict[str, str]) -> pa.NativeFile:
        return with_retries(lambda: self.plain.open_append_stream(path, compression=None, metadata=metadata))

    def _delete_if_exists(self, delete: Callable[[], None]) -> None:
        """Call ``delete``; in retries, a missing file counts as deleted."""

        def again() -> None:
            try:
                delete()
            except FileNotFoundError:
                return

        with_retries(delete, again)


class _Source(SeekableFile):
    """Reads an object with its own position, from which a failed read is retried."""

    def __init__(self, file: pa.NativeFile) -> None:
        super().__init__(int(file.size()))
        self._file = file

    def read(self, size: int | None = -1) -> bytes:
        return bytes(self.read_buffer(size))

    def read_buffer(self, size: int | None = -1) -> pa.Buffer:
        """Read like ``read``, without a copy; pyarrow prefers this method."""
        remaining = max(self._size - self._at, 0)
        length = remaining if size is None or size < 0 else min(size, remaining)
        start = self._at

        def section() -> pa.Buffer:
            self._file.seek(start)
            return self._file.read_buffer(length)

        buffer = with_retries(section) if length else pa.py_buffer(b"")
        self._at = start + len(buffer)
        return buffer

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._file.close()
