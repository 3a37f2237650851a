"""Reads a table of SQLite to which others add rows, by its growing id. For another database only ``open`` differs.

A database in which many write at once may show a row after one with a greater id: there, read only rows that are some
seconds old.
"""

from __future__ import annotations

import sqlite3
from datetime import datetime
from typing import Any

from windbolt import Spout


class Orders(Spout):
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
