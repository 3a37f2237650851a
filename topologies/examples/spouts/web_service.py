"""Reads a web service that answers with the events after a number, as JSON; if it had none, it is asked again after
some seconds."""

from __future__ import annotations

import json
import time
from datetime import datetime
from typing import Any
from urllib.request import urlopen

from windbolt import Spout


class Quotes(Spout):
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
