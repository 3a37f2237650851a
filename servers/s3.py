"""A server that speaks S3, moto's, in a process of its own: it counts requests, and fails when it is told to.

It does one request at a time, so that its conditional writes are atomic, as those of stores are. It may wait before
each, for many of them at once, as the distance to a store does.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, quote
from xml.sax.saxutils import escape

from manager.storage.object_store import open_uri, read_object, write_object
from servers.processes import free_port, wait_for

_CONTROL = "/control/"
_BUCKET = "bucket"
ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "key",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "AWS_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}
"""Variables of the environment, besides the address, with which processes use the server."""


@dataclass(frozen=True)
class S3:
    """A running server."""

    address: str
    """``127.0.0.1:<port>``."""

    def uri(self, path: str) -> str:
        """Returns a place in its bucket, in the form that windbolt takes."""
        return f"s3://{_BUCKET}/{path}?scheme=http&endpoint_override={self.address}&region=us-east-1"

    def fail(self, every: int = 0, how: str = "") -> None:
        """Makes every n-th request fail from now on: ``503``, ``lost`` (the answer does not come), ``slow``, or several
        of them in turn, with commas between."""
        self._ask(f"fail?every={every}&how={how}")

    def wait(self, seconds: float = 0.0) -> None:
        """Let every request take so much longer from now on."""
        self._ask(f"wait?seconds={seconds}")

    def clear(self) -> None:
        """Delete all objects, and let nothing fail or wait any more."""
        filesystem, root = open_uri(self.uri(""))
        filesystem.delete_dir_contents(root.rstrip("/"), missing_dir_ok=True)
        self.fail()
        self.wait()
        self.count()

    def keep(self) -> None:
        """Remember all present objects."""
        self._ask("keep")

    def restore(self) -> None:
        """Have the objects again that were kept last, and no others."""
        self._ask("restore")

    def count(self) -> Counter[str]:
        """Returns the requests since the last call, by kind, such as ``GET``, ``LIST`` and ``DELETE many``."""
        return Counter(json.loads(self._ask("count")))

    def names(self) -> list[str]:
        """Returns the keys of all objects in the bucket, sorted."""
        names: list[str] = json.loads(self._ask("names"))
        return names

    def put(self, key: str, body: bytes) -> None:
        """Write an object."""
        write_object(self.uri(""), f"{_BUCKET}/{key}", body)

    def body(self, key: str) -> bytes:
        """Returns the content of an object."""
        found = read_object(self.uri(""), f"{_BUCKET}/{key}")
        assert found is not None, f"{key} is gone"
        return found

    def _ask(self, what: str) -> Any:
        with urllib.request.urlopen(f"http://{self.address}{_CONTROL}{what}", timeout=60) as answer:
            return answer.read()


@contextmanager
def s3_server() -> Iterator[S3]:
    """A server with one empty bucket; the environment of this process has what its clients need."""
    port = free_port()
    before = {name: os.environ.get(name) for name in ENVIRONMENT}
    os.environ.update(ENVIRONMENT)
    process = subprocess.Popen([sys.executable, "-m", "servers.s3", str(port)], stderr=subprocess.DEVNULL)
    try:
        store = S3(f"127.0.0.1:{port}")
        wait_for("the object store", lambda: store.count() is not None, 60, process)
        yield store
    finally:
        process.kill()
        process.wait()
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


class Watched:
    """moto's application, with the counting and failing layer before it."""

    def __init__(self, application: Callable[..., Iterable[bytes]]) -> None:
        self.application = application
        self.counted: Counter[str] = Counter()
        self.every, self.asked, self.ways = 0, 0, [""]
        self.distance = 0.0
        self.kept: dict[str, bytes] = {}
        self._one = threading.Lock()

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        path, query = environ["PATH_INFO"], environ.get("QUERY_STRING", "")
        if path.startswith(_CONTROL):
            return self._control(path.removeprefix(_CONTROL), query, start)
        time.sleep(self.distance)
        with self._one:
            return list(self._answer(path, query, environ, start))

    def _answer(self, path: str, query: str, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        self.counted[_kind(environ["REQUEST_METHOD"], path, query, environ)] += 1
        self.asked += 1
        if self.every and self.asked % self.every == 0:
            how = self.ways[self.asked // self.every % len(self.ways)]
            if how == "503":
                environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
                start("503 Slow Down", [("Content-Type", "application/xml")])
                return [b"<Error><Code>SlowDown</Code><Message>reduce your request rate</Message></Error>"]
            if how == "slow":
                time.sleep(0.5)
            if how == "lost":  # it is done, and nobody hears of it
                list(self.application(environ, lambda *_: None))
                environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
                return []
        if environ["REQUEST_METHOD"] == "GET" and "list-type=2" in query:
            start("200 OK", [("Content-Type", "application/xml")])
            return [_listed(parse_qs(query, keep_blank_values=True))]
        return self.application(environ, start)

    def _control(self, what: str, query: str, start: Callable[..., Any]) -> Iterable[bytes]:
        start("200 OK", [("Content-Type", "application/json")])
        if what == "count":
            counted, self.counted = self.counted, Counter()
            return [json.dumps(counted).encode()]
        if what == "names":
            with self._one:
                return [
                    json.dumps(sorted(name for name in _backend().buckets[_BUCKET].keys if name[-1] != "/")).encode()
                ]
        if what in ("keep", "restore"):
            with self._one:
                self._restore() if what == "restore" else self._keep()
            return [b"null"]
        options = dict(pair.split("=") for pair in query.split("&"))
        if what == "wait":
            self.distance = float(options["seconds"])
            return [b"null"]
        self.every, self.ways = int(options["every"]), options["how"].split(",")
        return [b"null"]

    def _keep(self) -> None:
        backend = _backend()
        self.kept = {name: key.value for name, key in backend.buckets[_BUCKET].keys.items()}

    def _restore(self) -> None:
        backend = _backend()
        keys = backend.buckets[_BUCKET].keys
        for name in list(dict.keys(keys)):
            keys.pop(name)
        for name, body in self.kept.items():
            backend.put_object(_BUCKET, name, body)


def _backend() -> Any:
    """Moto's own objects, in its process."""
    from moto.core import DEFAULT_ACCOUNT_ID
    from moto.s3.models import s3_backends

    return s3_backends[DEFAULT_ACCOUNT_ID]["aws"]


_PAGE = 1_000
"""How many entries a store lists at most at a time."""


def _listed(query: dict[str, list[str]]) -> bytes:
    """Returns the answer of ListObjectsV2: what moto answers, which takes a third of a millisecond for each object."""
    asked = {name: values[0] for name, values in query.items()}
    prefix, delimiter = asked.get("prefix", ""), asked.get("delimiter", "")
    after = asked.get("continuation-token") or asked.get("start-after", "")
    limit = min(int(asked.get("max-keys", _PAGE)), _PAGE)
    shown = quote if asked.get("encoding-type") == "url" else escape
    keys = _backend().buckets[_BUCKET].keys
    entries: list[str] = []
    last = token = ""
    for name in sorted(name for name in keys if name.startswith(prefix)):
        folder, delimited, _ = name[len(prefix) :].partition(delimiter) if delimiter else (name, "", "")
        entry = prefix + folder + delimited if delimited else name
        if entry <= after or entry == last:
            continue
        if len(entries) == limit:
            token = last
            break
        last = entry
        if delimited:
            entries.append(f"<CommonPrefixes><Prefix>{shown(entry)}</Prefix></CommonPrefixes>")
            continue
        key = keys[name]
        entries.append(
            f"<Contents><Key>{shown(entry)}</Key><LastModified>{key.last_modified_ISO8601}</LastModified>"
            f"<ETag>{escape(key.etag)}</ETag><Size>{key.size}</Size><StorageClass>STANDARD</StorageClass></Contents>"
        )
    more = f"<NextContinuationToken>{escape(token)}</NextContinuationToken>" if token else ""
    return (
        f'<?xml version="1.0" encoding="UTF-8"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
        f"<Name>{_BUCKET}</Name><Prefix>{shown(prefix)}</Prefix><MaxKeys>{limit}</MaxKeys><KeyCount>{len(entries)}</KeyCount>"
        f"<IsTruncated>{'true' if token else 'false'}</IsTruncated>{more}{''.join(entries)}</ListBucketResult>"
    ).encode()


def _kind(method: str, path: str, query: str, environ: dict[str, Any]) -> str:
    """Returns the kind of a request."""
    if method == "GET" and "list-type" in query:
        return "LIST"
    if method == "POST":
        return "DELETE many" if "delete" in query else "multipart"
    if method == "PUT" and "HTTP_X_AMZ_COPY_SOURCE" in environ:
        return "COPY"
    return "bucket" if path.strip("/").count("/") == 0 else method


def _serve(port: int) -> None:
    import logging

    from moto.moto_server.werkzeug_app import create_backend_app
    from werkzeug.serving import make_server

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    watched = Watched(create_backend_app("s3"))
    server = make_server("127.0.0.1", port, watched, threaded=True)
    threading.Thread(target=_make_bucket, args=[port], daemon=True).start()
    server.serve_forever()


def _make_bucket(port: int) -> None:
    request = urllib.request.Request(f"http://127.0.0.1:{port}/{_BUCKET}", method="PUT")
    urllib.request.urlopen(request, timeout=60).close()


if __name__ == "__main__":
    _serve(int(sys.argv[1]))
