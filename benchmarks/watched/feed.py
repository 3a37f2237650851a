"""Fresh input: a file of orders each second, the same for all runs that are there."""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

_USERS = 200


class Feed:
    """Within the block a file is written each second into the folders that ``folders`` lists at the time."""

    def __init__(self, per_second: int, draft: Path) -> None:
        self.folders: Sequence[Path] = ()
        self.files = 0
        self._per_second, self._draft = per_second, draft
        self._random = random.Random(15)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write_each_second, daemon=True)

    def __enter__(self) -> Feed:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _write_each_second(self) -> None:
        while not self._stop.wait(1 - time.time() % 1):
            self._draft.write_text(self._orders(time.time()), "utf-8")
            for folder in self.folders:
                os.link(self._draft, folder / f"{self.files:06d}.jsonl")  # whole from the moment that it is there
            self._draft.unlink()
            self.files += 1

    def _orders(self, now: float) -> str:
        """Orders of the last second, in order of time."""
        lines = []
        for number in range(self._per_second):
            at = datetime.fromtimestamp(now - 1 + number / self._per_second, UTC)
            user, amount = self._random.randrange(_USERS), self._random.randrange(10_000) / 100
            lines.append(json.dumps({"user": f"user-{user}", "amount": amount, "ts": at.isoformat()}))
        return "\n".join(lines) + "\n"
