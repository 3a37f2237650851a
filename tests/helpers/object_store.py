"""A small object store that speaks as much of S3 as reading needs, and that can be told to fail."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread


class ObjectStore:
    """Objects by their paths (``/bucket/key``), and what is answered instead of them."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.answer: int | None = None
        """A status that is answered to everything, such as 503; None: what is there."""
        self.failing: range | None = None
        """Offsets: a request for bytes that begin there is answered 503."""
        self.address = ""
        self.asked = 0

    def uri(self, path: str) -> str:
        """How pyarrow is told to ask this store."""
        return f"s3:/{path}?scheme=http&endpoint_override={self.address}&region=here&allow_bucket_creation=false"


@contextmanager
def object_store() -> Iterator[ObjectStore]:
    """A store on this machine."""
    store = ObjectStore()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self._give(body=False)

        def do_GET(self) -> None:
            self._give(body=True)

        def _give(self, *, body: bool) -> None:
            store.asked += 1
            data = store.objects.get(self.path.split("?", 1)[0])
            wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
            first = int(wanted[1]) if wanted else 0
            if store.answer is not None:
                self._say(store.answer, b"")
            elif store.failing is not None and body and first in store.failing:
                self._say(503, b"")
            elif data is None:
                self._say(404, b"")
            elif wanted:
                part = data[first : int(wanted[2]) + 1]
                self._say(206, part, body=body, said=f"bytes {first}-{first + len(part) - 1}/{len(data)}")
            else:
                self._say(200, data, body=body)

        def _say(self, status: int, data: bytes, *, body: bool = True, said: str | None = None) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.send_header("Last-Modified", "Mon, 01 Jan 2024 00:00:00 GMT")
            self.send_header("ETag", '"1"')
            if said is not None:
                self.send_header("Content-Range", said)
            self.end_headers()
            if body:
                self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    store.address = f"127.0.0.1:{server.server_address[1]}"
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield store
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
