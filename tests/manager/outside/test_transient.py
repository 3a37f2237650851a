"""Which failures pass by themselves, by the types of Python's, Arrow's, obstore's and Java's errors."""

from __future__ import annotations

import bz2
import errno
import gzip
import json
import os
import socket
import sqlite3
import ssl
import urllib.error
from collections.abc import Callable
from datetime import UTC, datetime
from email.message import Message
from typing import Any

import pyarrow.fs as pafs
import pytest
import redis
import requests
import urllib3

from manager.remote import is_caused_by_event, is_transient, is_transient_in_java
from manager.storage import object_store
from manager.storage.files import as_storage_error
from windowing.errors import BoltError, CheckpointError, DataError, StorageError, TakenOver, UnreachableError

S3_LOST = "When reading information for key 'x' in bucket 'b': AWS Error NETWORK_CONNECTION during HeadObject operation"
S3_BUSY = "When initiating multiple part upload for key 'x': AWS Error SLOW_DOWN during CreateMultipartUpload operation"
S3_503 = "When getting information for key 'x': AWS Error UNKNOWN (HTTP status 503) during HeadObject operation: No"
S3_DENIED = "When reading information for key '503' in bucket 'b': AWS Error ACCESS_DENIED during HeadObject operation"


def answer(status: int) -> Exception:
    return urllib.error.HTTPError("http://shop/prices", status, "no", Message(), None)


def response(status: int) -> requests.Response:
    found = requests.Response()
    found.status_code = status
    return found


def of_sqlite(name: str) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("it failed")
    error.sqlite_errorname = name
    return error


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    "error",
    [
        ConnectionRefusedError(errno.ECONNREFUSED, "refused"),
        ConnectionResetError("by peer"),
        TimeoutError("timed out"),
        TimeoutError(),
        BrokenPipeError(),
        *(OSError(number, os.strerror(number)) for number in (errno.ESTALE, errno.EHOSTUNREACH, errno.ENETDOWN)),
        OSError(S3_LOST),
        OSError(S3_BUSY),
        OSError(S3_503),
        OSError("google::cloud::Status(UNAVAILABLE: try again)"),
        StorageError("it cannot be written", transient=True),
        UnreachableError("Kafka does not answer", transient=True),
        caused(ValueError("odd"), TimeoutError()),
        *(answer(status) for status in (408, 429, 500, 502, 503)),
        urllib.error.URLError(ConnectionRefusedError(errno.ECONNREFUSED, "refused")),
        urllib.error.URLError(socket.gaierror(-3, "Temporary failure in name resolution")),
        requests.ConnectionError("no route"),
        requests.ReadTimeout("read timed out"),
        requests.HTTPError("503 Server Error", response=response(503)),
        urllib3.exceptions.MaxRetryError(None, "/", urllib3.exceptions.ReadTimeoutError(None, "/", "timed out")),  # type: ignore[arg-type]
        redis.exceptions.ConnectionError("Error 111 connecting to 127.0.0.1:6379. Connection refused."),
        redis.exceptions.TimeoutError("Timeout reading from socket"),
        redis.exceptions.BusyLoadingError("Redis is loading the dataset in memory"),
        redis.exceptions.ClusterDownError("CLUSTERDOWN The cluster is down"),
        redis.exceptions.TryAgainError("TRYAGAIN Multiple keys request during rehashing of slot"),
        of_sqlite("SQLITE_BUSY"),
        of_sqlite("SQLITE_LOCKED_SHAREDCACHE"),
    ],
    ids=repr,
)
def test_these_pass(error: Exception) -> None:
    assert is_transient(error)


@pytest.mark.parametrize(
    "error",
    [
        ValueError("503 Service Unavailable"),
        *(answer(status) for status in (400, 401, 404)),
        urllib.error.URLError("unknown url type: htp"),
        urllib.error.URLError(ssl.SSLCertVerificationError("certificate verify failed")),
        requests.exceptions.SSLError("certificate verify failed"),
        requests.exceptions.MissingSchema("No scheme supplied"),
        requests.HTTPError("404 Client Error", response=response(404)),
        redis.exceptions.AuthenticationError("Authentication required."),
        redis.exceptions.ExternalAuthProviderError("the provider of credentials refuses"),
        redis.exceptions.ResponseError("unknown command"),
        of_sqlite("SQLITE_CORRUPT"),
        sqlite3.OperationalError("no such table: orders"),
        KeyError("x"),
        MemoryError(),
        *(OSError(number, os.strerror(number)) for number in (errno.ENOSPC, errno.EIO, errno.EROFS, errno.EACCES)),
        FileNotFoundError(errno.ENOENT, "no such file"),
        OSError(S3_DENIED),
        OSError("AWS Error NO_SUCH_BUCKET during HeadObject operation"),
        OSError("google::cloud::Status(PERMISSION_DENIED: no)"),
        StorageError("it cannot be written"),
        CheckpointError("it belongs to another topology"),
        TakenOver("by process 1"),
        DataError("the line is no JSON"),
        caused(DataError("the line is no JSON"), TimeoutError()),
        caused(BoltError("bolt 'a' failed"), ConnectionError()),
    ],
    ids=repr,
)
def test_these_do_not(error: Exception) -> None:
    """Of windbolt's own errors the error itself says it, whatever it was raised from."""
    assert not is_transient(error)


@pytest.mark.parametrize(
    "text",
    [
        "org.apache.kafka.common.errors.TimeoutException: Timeout of 60000ms expired before the position",
        "Caused by: org.apache.kafka.common.errors.DisconnectException",
        "java.net.ConnectException: Connection refused",
        "Caused by: java.net.SocketTimeoutException: Read timed out",
        "org.apache.hadoop.fs.s3a.AWSServiceThrottledException: PUT 0-byte object: Slow Down",
        "software.amazon.awssdk.services.s3.model.S3Exception: Slow Down (Service: S3, Status Code: 503)",
        "ExecutorLostFailure (executor 1 exited caused by one of the running tasks) Reason: Remote RPC client",
        "FetchFailed(null, shuffleId=0, mapIndex=-1, reduceId=1, message=",
        "org.apache.spark.SparkException: Job 3 cancelled because SparkContext was shut down",
        "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)",
    ],
)
def test_these_classes_of_java_pass(text: str) -> None:
    assert is_transient_in_java(f"An error occurred while calling o1.start.\n: {text}\n\tat java.base/Thread.run")


@pytest.mark.parametrize(
    "text",
    [
        "org.apache.kafka.common.errors.SaslAuthenticationException: Authentication failed",
        "org.apache.kafka.common.errors.TopicAuthorizationException: Not authorized to access topics: [a]",
        "java.io.FileNotFoundException: File does not exist",
        "software.amazon.awssdk.services.s3.model.S3Exception: Forbidden (Service: S3, Status Code: 403)",
        "org.apache.spark.SparkException: [CANNOT_LOAD_STATE_STORE]",
        "java.lang.ClassNotFoundException: Class org.apache.hadoop.fs.s3a.S3AFileSystem not found",
        "java.lang.OutOfMemoryError: Java heap space",
    ],
)
def test_these_classes_of_java_do_not(text: str) -> None:
    assert not is_transient_in_java(text)


@pytest.fixture
def nobody() -> str:
    """An address at which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


def test_what_arrow_really_says_of_a_store_that_is_away_passes(nobody: str) -> None:
    once = pafs.AwsStandardS3RetryStrategy(max_attempts=1)
    keys = {"access_key": "key", "secret_key": "secret", "region": "us-east-1"}
    away = pafs.S3FileSystem(scheme="http", endpoint_override=nobody, retry_strategy=once, **keys)
    with pytest.raises(StorageError) as raised, as_storage_error("bucket/x", "read"):
        away.open_input_file("bucket/x")
    assert is_transient(raised.value)


def test_what_obstore_really_says_of_a_store_that_is_away_passes(nobody: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_store, "_RETRIES", {"max_retries": 0})
    uri = f"s3://key:secret@bucket/x?scheme=http&endpoint_override={nobody}&region=us-east-1"
    with pytest.raises(StorageError) as raised, as_storage_error("bucket/x", "read"):
        object_store.read_object(uri, "bucket/x")
    assert is_transient(raised.value)


def test_an_error_keeps_that_it_passes_where_it_is_said_whose_it_is() -> None:
    error = StorageError("x cannot be read", transient=True)
    assert error.about("sink 'out'").during("committing batch 7", "nothing is lost").transient


def _empty(items: tuple[int, ...] = ()) -> int:
    for item in items:
        last = item
    return last


@pytest.mark.parametrize(
    "raising",
    [
        lambda: int("two"),
        lambda: {"present": 1}["absent"],
        lambda: dict(None),  # type: ignore[call-overload]
        lambda: datetime.fromtimestamp(2**56, UTC),
        lambda: datetime.fromtimestamp(2**80, UTC),
        lambda: gzip.decompress(b"no gzip"),
        lambda: bz2.decompress(b"this is no bz2"),
        lambda: json.loads("{"),
        b"\xff".decode,
        _empty,
    ],
)
def test_what_the_value_of_an_event_does_is_of_the_event(raising: Callable[[], Any]) -> None:
    with pytest.raises(Exception) as raised:  # noqa: PT011 - any
        raising()
    assert isinstance(raised.value, Exception)
    assert is_caused_by_event(raised.value)
    assert is_caused_by_event(caused(ValueError("a bad event"), raised.value))
    assert is_caused_by_event(caused(DataError("a rule failed"), ConnectionError()))


class OfALibrary(OSError):
    """As ``requests`` has them, without a number."""


@pytest.mark.parametrize(
    "error",
    [
        ConnectionError("no route"),
        TimeoutError(),
        socket.gaierror(-2, "Name or service not known"),
        urllib.error.URLError("no answer"),
        OfALibrary("no answer"),
        PermissionError(errno.EACCES, "Permission denied"),
        FileNotFoundError(errno.ENOENT, "No such file"),
        OSError(errno.ENOSPC, "No space left on device"),
        OSError(errno.EMFILE, "Too many open files"),
        OSError(S3_503),
        MemoryError(),
        ModuleNotFoundError("No module named 'absent'"),
        NameError("name 'absent' is not defined"),
        KeyboardInterrupt(),
        SystemExit(3),
        StorageError("it cannot be written"),
        BoltError("bolt 'a' failed"),
    ],
    ids=repr,
)
def test_what_is_of_the_machine_or_of_the_code_is_not(error: BaseException) -> None:
    assert not is_caused_by_event(error)
    wrapped = ValueError("a bad event")
    wrapped.__cause__ = error
    assert not is_caused_by_event(wrapped)
