"""Reads a table of SQLite in ranges of ids, shop by shop: several tasks at a time, and again after a crash.

The table has an index on (shop, id), and rows are neither changed nor deleted. For another database only ``open``
differs.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from windbolt import PartitionedSpout


class OrdersByShop(PartitionedSpout):
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
