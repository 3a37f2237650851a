"""Users' spouts, ready to copy: a database table, a Redis stream, a web service, a mail folder."""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from email import message_from_binary_file
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.request import urlopen

from windbolt import PartitionedSpout, Spout


class Orders(Spout):
    """Reads an SQLite table, to which others add rows, by its increasing id.

    For another database, ``open`` differs, and a driver that returns datetimes needs no ``fromisoformat``. DuckDB lets
    only one process have a file open: there, connect and close in ``read``.

    If many write to a database at once, a row may appear after a row with a greater id. Then read only rows that are
    some seconds old.
    """

    schema = "id long, ts timestamp, user string, amount double"

    def __init__(self, path: str) -> None:
        self.path = path

    def open(self) -> None:
        self.database = sqlite3.connect(f"file:{self.path}?mode=ro", uri=True, check_same_thread=False)

    def read(self, offset: Any, limit: int) -> Any:
        query = "SELECT id, ts, user, amount FROM orders WHERE id > ? ORDER BY id LIMIT ?"
        rows = self.database.execute(query, (offset or 0, limit)).fetchall()
        if rows:
            return [(number, datetime.fromisoformat(ts), *rest) for number, ts, *rest in rows], rows[-1][0]

    def close(self) -> None:
        self.database.close()


class OrdersByShop(PartitionedSpout):
    """Reads an SQLite table in ranges of ids, shop by shop: several tasks in parallel, and again after a crash.

    The table has an index on (shop, id), and rows are neither changed nor deleted. For other databases, see ``Orders``.
    """

    schema = "id long, shop string, ts timestamp, amount double"

    def __init__(self, path: str) -> None:
        self.path = path

    def open(self) -> None:
        self.database = sqlite3.connect(f"file:{self.path}?mode=ro", uri=True, check_same_thread=False)

    def partitions(self) -> Iterable[str]:
        return [shop for (shop,) in self.database.execute("SELECT DISTINCT shop FROM orders")]

    def end(self, partition: str, start: Any, limit: int) -> Any:
        query = "SELECT max(id) FROM (SELECT id FROM orders WHERE shop = ? AND id > ? ORDER BY id LIMIT ?)"
        return self.database.execute(query, (partition, start or 0, limit)).fetchone()[0]

    def read(self, partition: str, start: Any, end: Any) -> Any:
        query = "SELECT id, shop, ts, amount FROM orders WHERE shop = ? AND id > ? AND id <= ? ORDER BY id"
        rows = self.database.execute(query, (partition, start or 0, end))
        return [(number, shop, datetime.fromisoformat(ts), amount) for number, shop, ts, amount in rows]

    def close(self) -> None:
        self.database.close()


class Clicks(Spout):
    """Reads a Redis or Valkey stream by the ids of its entries, which begin with the time of adding.

    The checkpoint has the last id, so no consumer group is needed. Entries that Redis trims before they were read are
    lost.
    """

    schema = "ts timestamp, user string, page string"

    def __init__(self, address: str, stream: str) -> None:
        self.address, self.stream = address, stream

    def open(self) -> None:
        import redis  # pip install redis

        self.redis: Any = redis.Redis.from_url(self.address, decode_responses=True)

    def read(self, offset: Any, limit: int) -> Any:
        entries = self.redis.xrange(self.stream, f"({offset}" if offset else "-", count=limit)
        if entries:
            return [(self.time(added), click["user"], click["page"]) for added, click in entries], entries[-1][0]

    def time(self, id: str) -> datetime:
        return datetime.fromtimestamp(int(id.partition("-")[0]) / 1000, UTC)

    def close(self) -> None:
        self.redis.close()


class Quotes(Spout):
    """Reads a web service that returns the events after a number, as JSON. If there were none, it asks again some
    seconds later."""

    schema = "number long, ts timestamp, symbol string, price double"

    def __init__(self, address: str, every: float = 60.0) -> None:
        self.address, self.every, self.next = address, every, 0.0

    def read(self, offset: Any, limit: int) -> Any:
        if time.monotonic() < self.next:
            return None
        with urlopen(f"{self.address}?after={offset or 0}&limit={limit}", timeout=30) as answer:
            quotes = json.load(answer)
        if not quotes:
            self.next = time.monotonic() + self.every
            return None
        rows = [(each["number"], datetime.fromisoformat(each["ts"]), each["symbol"], each["price"]) for each in quotes]
        return rows, quotes[-1]["number"]


class Mails(Spout):
    """Reads the new mails of a Maildir. Once a batch with them is committed they are deleted, so they cannot be read
    again.

    The offset has the names of the mails that were read and not yet deleted.
    """

    schema = "ts timestamp, sender string, subject string"

    def __init__(self, maildir: str) -> None:
        self.folder = os.path.join(maildir, "new")

    def read(self, offset: Any, limit: int) -> Any:
        there = sorted(os.listdir(self.folder))
        read = [name for name in offset or [] if name in there]
        new = [name for name in there if name not in read][:limit]
        return [self.row(name) for name in new], read + new

    def row(self, name: str) -> Any:
        with open(os.path.join(self.folder, name), "rb") as file:
            mail = message_from_binary_file(file)
        return parsedate_to_datetime(mail["Date"]), mail["From"], mail["Subject"]

    def acknowledge(self, offset: Any) -> None:
        for name in offset:
            path = os.path.join(self.folder, name)
            if os.path.exists(path):
                os.remove(path)
