"""Access to object stores: file systems, conditional writes, and requests for many objects.

pyarrow reads and writes objects, with retries (``with_retries``). It has no conditional write, and needs several
requests for some operations; these are done with obstore.
"""

from __future__ import annotations

import configparser
import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import lru_cache
from typing import Any, TypeAlias
from urllib.parse import parse_qs, unquote, urlsplit

import pyarrow.fs as pafs

from manager.remote import KNOWN_SCHEMES, RETRIES, RetryingFileSystem, root_and_path
from manager.storage.hdfs import is_hdfs, open_hdfs
from windowing.errors import ConfigError, EnvironmentMissing

_AT_ONCE = 16
"""Maximum number of simultaneous requests."""
_VARIABLES = ("AWS_", "GOOGLE_", "AZURE_")
"""Prefixes of the environment variables with the address of a store and its credentials."""
_Process: TypeAlias = tuple[int, tuple[tuple[str, str], ...]]
"""The id of a process and its environment variables. If one of these has changed, a store is opened again."""
_RETRIES = {"max_retries": RETRIES, "retry_timeout": timedelta(seconds=60)}


def open_uri(uri: str, *, options: bool = True) -> tuple[pafs.FileSystem, str]:
    """Returns the file system of a URI, and the path in it. A file system is opened once per process.

    ``uri``: as returned by ``place_name``. ``options``: True if the URI may have options (``root_and_path``).

    Raises ConfigError for an unknown scheme, EnvironmentMissing if the package for HDFS is missing.
    """
    scheme = urlsplit(uri).scheme
    if scheme not in KNOWN_SCHEMES:
        raise ConfigError(
            f"{uri.partition('?')[0]} cannot be reached",
            why=f"windbolt does not know {scheme}://",
            do="name a folder on this machine, or a place in s3://, gs://, abfss:// or hdfs://; or mount it here",
        )
    root, inside = root_and_path(uri, options=options)
    plain, path = (open_hdfs(root), "/") if is_hdfs(uri) else _open_filesystem(root, _process())
    if inside:
        path = f"{path.removesuffix('/')}/{inside}"
    return (_with_retries(plain) if is_object_store(uri) or is_hdfs(uri) else plain), path


def create_object(uri: str, path: str, data: bytes) -> bool:
    """Create an object with a conditional write; return False if it exists with other bytes.

    ``path``: the bucket and the key, as for pyarrow. An existing object with the same bytes counts as created, because
    the answer to a write may be lost and the write repeated; so the bytes must be unique.
    """
    store, key = _store_and_key(uri, path)
    from obstore.exceptions import AlreadyExistsError, PreconditionError

    with _as_os_error():
        try:
            store.put(key, data, mode="create", use_multipart=False)
        except (AlreadyExistsError, PreconditionError):
            return read_object(uri, path) == data
    return True


def read_object(uri: str, path: str) -> bytes | None:
    """Returns the content of an object; None if the object does not exist."""
    store, key = _store_and_key(uri, path)
    with _as_os_error():
        try:
            return bytes(store.get(key).bytes())
        except FileNotFoundError:
            return None


def read_range(uri: str, path: str, start: int, length: int) -> bytes:
    """Returns bytes of an object, fewer at its end. Raises FileNotFoundError."""
    store, key = _store_and_key(uri, path)
    with _as_os_error():
        return bytes(store.get_range(key, start=start, length=length))


def is_object(uri: str, path: str) -> bool:
    """True if the object exists."""
    store, key = _store_and_key(uri, path)
    with _as_os_error():
        try:
            store.head(key)
        except FileNotFoundError:
            return False
    return True


def write_object(uri: str, path: str, data: bytes) -> None:
    """Write an object with one request; it appears when it is complete."""
    store, key = _store_and_key(uri, path)
    with _as_os_error():
        store.put(key, data, use_multipart=False)


def delete_objects(uri: str, paths: Iterable[str]) -> None:
    """Delete objects of one bucket, up to a thousand with one request. Objects may already be deleted."""
    doomed = sorted(paths)
    if doomed:
        store, _ = _store_and_key(uri, doomed[0])
        with _as_os_error(), suppress(FileNotFoundError):
            store.delete([_key(path) for path in doomed])


def rename_objects(uri: str, names: Sequence[tuple[str, str]]) -> None:
    """Copy objects of one bucket, several at a time, and then delete the originals. ``names``: (original, copy).

    Another process may do the same at the same time. If an original is missing, its copy must exist.
    """
    if names:
        store, _ = _store_and_key(uri, names[0][0])

        def copy(pair: tuple[str, str]) -> None:
            with _as_os_error():
                try:
                    store.copy(_key(pair[0]), _key(pair[1]))
                except FileNotFoundError:
                    if not is_object(uri, pair[1]):
                        raise

        with ThreadPoolExecutor(min(_AT_ONCE, len(names))) as threads:
            list(threads.map(copy, names))
        delete_objects(uri, [source for source, _ in names])


def is_object_store(uri: str | None) -> bool:
    """True if the URI of a file system is a URI of an object store: neither local (None) nor HDFS."""
    return uri is not None and not is_hdfs(uri) and urlsplit(uri).scheme != "file"


def _with_retries(plain: pafs.FileSystem) -> pafs.FileSystem:
    return pafs.PyFileSystem(RetryingFileSystem(plain))


def _process() -> _Process:
    return os.getpid(), tuple((name, os.environ[name]) for name in sorted(os.environ) if name.startswith(_VARIABLES))


@lru_cache(maxsize=256)
def _open_filesystem(uri: str, process: _Process) -> tuple[pafs.FileSystem, str]:
    filesystem, path = pafs.FileSystem.from_uri(_name_for_pyarrow(uri))
    return filesystem, path


def _name_for_pyarrow(uri: str) -> str:
    scheme, rest = uri.split("://", 1)
    if scheme != "s3":
        return uri
    delayed_open = "" if "allow_delayed_open=" in rest else ("&" if "?" in rest else "?") + "allow_delayed_open=true"
    # A small object is written in one request, not three.
    return f"s3://{rest}{delayed_open}"


def _store_and_key(uri: str, path: str) -> tuple[Any, str]:
    return _store(root_and_path(uri)[0], path.split("/", 1)[0], _process()), _key(path)


def _key(path: str) -> str:
    return path.split("/", 1)[1]


@lru_cache(maxsize=256)
def _store(uri: str, bucket: str, process: _Process) -> Any:
    try:
        import obstore.store as stores
    except ImportError as error:
        raise EnvironmentMissing(
            f"{uri} is in an object store, and the package obstore is missing",
            why="two runs on one checkpoint are kept apart by the store's conditional writes, which obstore makes",
            do="pip install 'windbolt[stores]'",
        ) from error
    scheme = urlsplit(uri).scheme
    with _as_os_error():
        if scheme == "s3":
            return stores.S3Store(bucket, retry_config=_RETRIES, **_s3_options(uri, process))
        if scheme == "gs":
            return stores.GCSStore(bucket, retry_config=_RETRIES)
        if scheme in ("abfs", "abfss"):
            parts = urlsplit(uri)
            return stores.AzureStore.from_url(f"{parts.scheme}://{parts.netloc}", retry_config=_RETRIES)
    raise ConfigError(
        f"{uri} cannot hold a checkpoint",
        why=f"windbolt does not know how {scheme}:// writes an object only where there is none",
        do="name a folder on this machine, or in s3://, gs:// or abfss://",
    )


def _s3_options(uri: str, process: _Process) -> dict[str, Any]:
    """Returns the options with which obstore uses the same store, as the same user, as pyarrow."""
    parts = urlsplit(uri)
    uri_options = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    options: dict[str, Any] = {"region": uri_options.get("region") or _open_filesystem(uri, process)[0].region}
    endpoint = uri_options.get("endpoint_override")
    if endpoint:
        options["endpoint"] = endpoint if "://" in endpoint else f"{uri_options.get('scheme', 'https')}://{endpoint}"
    if parts.username:
        options |= {"access_key_id": unquote(parts.username), "secret_access_key": unquote(parts.password or "")}
    elif not os.environ.get("AWS_ACCESS_KEY_ID"):
        options |= _shared_credentials()
    endpoints = [options.get("endpoint"), os.environ.get("AWS_ENDPOINT_URL_S3"), os.environ.get("AWS_ENDPOINT_URL")]
    if any((each or "").startswith("http://") for each in endpoints):
        options["client_options"] = {"allow_http": True}
    return options


def _shared_credentials() -> dict[str, str]:
    """Returns the keys in ``~/.aws/credentials``, which pyarrow reads but obstore does not."""
    files = configparser.ConfigParser(interpolation=None)
    files.read(os.path.expanduser(os.environ.get("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials")))
    profile = os.environ.get("AWS_PROFILE") or os.environ.get("AWS_DEFAULT_PROFILE") or "default"
    profile_values = dict(files[profile]) if files.has_section(profile) else {}
    names = {
        "access_key_id": "aws_access_key_id",
        "secret_access_key": "aws_secret_access_key",
        "session_token": "aws_session_token",
    }
    return {option: profile_values[name] for option, name in names.items() if name in profile_values}


@contextmanager
def _as_os_error() -> Iterator[None]:
    """Raise errors of obstore as OSError."""
    from obstore.exceptions import BaseError

    try:
        yield
    except BaseError as error:
        raise OSError(str(error).strip().split("\n", 1)[0]) from error
