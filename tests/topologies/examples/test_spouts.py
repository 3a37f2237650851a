"""The spouts to copy: each reads a real source, goes on where it was, and loses nothing."""

from __future__ import annotations

import json
import mailbox
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import duckdb
import pytest

from tests.helpers.valkey import valkey
from topologies.engine import pulling
from topologies.examples.spouts import Clicks, Mails, Orders, OrdersByShop, Quotes
from windbolt import RunOptions, TopologyBuilder, run_local, sinks
from windowing import PartitionedSpout, Spout, SpoutError, TupleWindow, WindowedBolt

BEGIN = datetime(2024, 1, 1, tzinfo=UTC)


class Rows(WindowedBolt):
    outputs = "text string"

    def execute(self, window: TupleWindow) -> Any:
        return [(str(row),) for row in window.table.column(window.table.column_names[-1]).to_pylist()]


def read(spout: Spout | PartitionedSpout, checkpoint: Path) -> list[str]:
    """What a run that ends with the present input has read of the last column."""
    builder, out = TopologyBuilder("t"), sinks.memory()
    builder.set_spout("source", spout)
    builder.set_bolt("rows", Rows().with_tumbling_window(1)).global_grouping("source")
    builder.set_sink("out", out).from_("rows")
    run_local(builder.build(), RunOptions(str(checkpoint), keep_open=True))
    return [row["text"] for row in out.rows]


def test_a_table(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"

    def insert(numbers: range) -> None:
        with closing(sqlite3.connect(path)) as database, database:
            database.execute(
                "CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, ts TEXT, user TEXT, amount REAL)"
            )
            rows = [(number, str(BEGIN + timedelta(seconds=number)), "ada", number / 2) for number in numbers]
            database.executemany("INSERT INTO orders VALUES (?, ?, ?, ?)", rows)

    insert(range(1, 251))
    assert read(Orders(str(path)), tmp_path / "ck") == [str(number / 2) for number in range(1, 251)]
    assert read(Orders(str(path)), tmp_path / "ck") == []
    insert(range(251, 254))
    assert read(Orders(str(path)), tmp_path / "ck") == ["125.5", "126.0", "126.5"]
    with pytest.raises(SpoutError, match=r"Orders.open\(\) failed. OperationalError: unable to open"):
        read(Orders(str(tmp_path / "none.db")), tmp_path / "ck")


def test_a_table_by_shop(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"

    def insert(numbers: range, *shops: str) -> None:
        with closing(sqlite3.connect(path)) as database, database:
            database.execute(
                "CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, shop TEXT, ts TEXT, amount REAL)"
            )
            rows = [
                (number, shops[number % len(shops)], str(BEGIN + timedelta(seconds=number)), number / 2)
                for number in numbers
            ]
            database.executemany("INSERT INTO orders VALUES (?, ?, ?, ?)", rows)

    insert(range(1, 251), "berlin", "o'hara")
    spout = OrdersByShop(str(path))
    assert sorted(map(float, read(spout, tmp_path / "ck"))) == [number / 2 for number in range(1, 251)]
    assert read(spout, tmp_path / "ck") == []
    insert(range(251, 254), "paris")
    assert read(OrdersByShop(str(path)), tmp_path / "ck") == ["125.5", "126.0", "126.5"]


def test_a_table_that_is_locked_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Hasty(Orders):
        when_locked: Callable[[], Any] = staticmethod(lambda: None)

        def open(self) -> None:
            super().open()
            self.database.execute("PRAGMA busy_timeout = 0")

        def read(self, offset: Any, limit: int) -> Any:
            try:
                return super().read(offset, limit)
            except sqlite3.OperationalError:
                self.when_locked()
                raise

    path = tmp_path / "shop.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, ts TEXT, user TEXT, amount REAL)")
        writer.execute("INSERT INTO orders VALUES (1, ?, 'ada', 0.5)", (str(BEGIN),))
        writer.execute("BEGIN EXCLUSIVE")
        monkeypatch.setattr(pulling, "PAUSES", (0,))
        with pytest.raises(SpoutError, match="database is locked") as failed:
            read(Hasty(str(path)), tmp_path / "ck")
        assert failed.value.transient
        patient = Hasty(str(path))
        patient.when_locked = lambda: writer.execute("COMMIT")
        assert read(patient, tmp_path / "ck") == ["0.5"]


class OrdersInDuckDB(Orders):
    """As the documents say what differs."""

    def open(self) -> None:
        pass

    def read(self, offset: Any, limit: int) -> Any:
        query = 'SELECT id, ts, "user", amount FROM orders WHERE id > ? ORDER BY id LIMIT ?'
        with duckdb.connect(self.path, read_only=True) as database:
            rows = database.execute(query, (offset or 0, limit)).fetchall()
        return (rows, rows[-1][0]) if rows else None

    def close(self) -> None:
        pass


WRITES = """
import sys, duckdb
with duckdb.connect(sys.argv[1]) as database:
    print("open", flush=True)
    sys.stdin.read()
"""


def test_a_table_of_duckdb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "shop.duckdb")

    def insert(first: int, last: int) -> None:
        with duckdb.connect(path) as database:
            database.execute('CREATE TABLE IF NOT EXISTS orders (id BIGINT, ts TIMESTAMP, "user" TEXT, amount DOUBLE)')
            rows = "SELECT i, TIMESTAMP '2024-01-01' + to_seconds(i), 'ada', i / 2"
            database.execute(f"INSERT INTO orders {rows} FROM range({first}, {last}) t(i)")

    insert(1, 251)
    assert read(OrdersInDuckDB(path), tmp_path / "ck") == [str(number / 2) for number in range(1, 251)]
    insert(251, 254)
    assert read(OrdersInDuckDB(path), tmp_path / "ck") == ["125.5", "126.0", "126.5"]
    monkeypatch.setattr(pulling, "PAUSES", (0,))
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", WRITES, path], **pipes) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"open\n"
        with pytest.raises(SpoutError, match="Could not set lock on file") as failed:
            read(OrdersInDuckDB(path), tmp_path / "ck")
        writer.communicate()
    assert failed.value.transient
    assert read(OrdersInDuckDB(path), tmp_path / "ck") == []


def test_a_stream_of_redis(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulling, "PAUSES", (0,))
    first = int(BEGIN.timestamp()) * 1000
    with valkey(tmp_path / "valkey") as server:

        def send(numbers: range) -> None:
            for number in numbers:
                server.client.xadd("clicks", {"user": "ada", "page": f"/{number}"}, id=f"{first + number}-0")

        send(range(250))
        assert read(Clicks(server.url, "clicks"), tmp_path / "ck") == [f"/{number}" for number in range(250)]
        assert read(Clicks(server.url, "clicks"), tmp_path / "ck") == []
        send(range(250, 253))
        server.stop()
        with pytest.raises(SpoutError, match=rf'Clicks.read\("{first + 249}-0", 100000\) failed') as failed:
            read(Clicks(server.url, "clicks"), tmp_path / "ck")
        assert failed.value.transient
        server.start()
        assert read(Clicks(server.url, "clicks"), tmp_path / "ck") == ["/250", "/251", "/252"]
        server.client.config_set("requirepass", "secret")
        with pytest.raises(SpoutError, match="AuthenticationError") as failed:
            read(Clicks(server.url, "clicks"), tmp_path / "ck")
        assert not failed.value.transient
    moment = datetime(2024, 5, 1, 0, 0, 0, 123_000, UTC)
    assert Clicks("", "").time(f"{int(moment.timestamp() * 1000)}-7") == moment


@contextmanager
def service(quotes: list[dict[str, Any]], failures: list[int]) -> Iterator[str]:
    """A service of quotes, which answers with these statuses first."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = parse_qs(urlsplit(self.path).query)
            status = failures.pop(0) if failures else 200
            after, limit = int(asked["after"][0]), int(asked["limit"][0])
            found = [each for each in quotes if each["number"] > after][: min(limit, 100)]
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(found).encode() if status == 200 else b"")

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/quotes"
    finally:
        server.shutdown()
        server.server_close()


def test_a_web_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulling, "PAUSES", (0, 0, 0))
    quotes = [
        {"number": number, "ts": (BEGIN + timedelta(seconds=number)).isoformat(), "symbol": "A", "price": number / 4}
        for number in range(1, 301)
    ]
    failures: list[int] = []
    with service(quotes[:250], failures) as address:
        assert read(Quotes(address), tmp_path / "ck") == [str(number / 4) for number in range(1, 251)]
    with service(quotes, failures) as address:
        failures += [500] * 4  # once, and three times more
        with pytest.raises(SpoutError, match=r"Quotes.read\(250, 100000\) failed. HTTPError: HTTP Error 500"):
            read(Quotes(address), tmp_path / "ck")
        assert read(Quotes(address), tmp_path / "ck") == [str(number / 4) for number in range(251, 301)]
    with pytest.raises(SpoutError, match="refused"):  # nobody listens there any more
        read(Quotes(address), tmp_path / "ck")


def test_mails(tmp_path: Path) -> None:
    box = mailbox.Maildir(tmp_path / "mails")

    def send(number: int) -> None:
        mail = EmailMessage()
        mail["Date"], mail["From"] = format_datetime(BEGIN + timedelta(minutes=number)), "ada@example.org"
        mail["Subject"] = f"mail {number}"
        mail.set_content("Hello")
        box.add(mail)

    for number in range(5):
        send(number)
    assert sorted(read(Mails(str(tmp_path / "mails")), tmp_path / "ck")) == [f"mail {number}" for number in range(5)]
    assert len(box) == 0
    send(5)
    assert read(Mails(str(tmp_path / "mails")), tmp_path / "ck") == ["mail 5"]
    assert len(box) == 0
