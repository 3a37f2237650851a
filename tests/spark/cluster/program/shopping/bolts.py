"""The bolts of the user's topology."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from windbolt import BatchBolt, TupleWindow, WindowedBolt

from .rounding import rounded


class Taxed(BatchBolt):
    """Adds a tax."""

    outputs = "user string, amount double, ts timestamp"

    def execute(self, batch: pa.Table) -> pa.Table:
        from taxes import RATE  # type: ignore[import-not-found]

        return batch.set_column(1, "amount", pa.array(np.array(batch["amount"]) * RATE))


@dataclass
class Revenue(WindowedBolt):
    """Revenue per user and window. It notes the machines that it was on, and something happens to one of them."""

    outputs = "user string, revenue double, until timestamp"
    shared: str
    what: str = ""

    def execute(self, window: TupleWindow) -> Iterator[Any]:
        host = os.environ.get("SPARK_LOCAL_HOSTNAME", "here")
        Path(self.shared, "hosts", host).touch()
        match self.what:
            case "a broken machine":
                self._breaks(host)
            case "a late machine":
                self._waits()
            case _:
                self._happens(host)
        for user, amounts in window.groups("user", "amount"):
            yield user, rounded(float(amounts.sum())), window.end

    def _breaks(self, host: str) -> None:
        """Always fail on one of the machines."""
        if host.endswith(".2"):
            Path(self.shared, "happened").touch()
            raise RuntimeError("this machine is broken")

    def _waits(self) -> None:
        """Go on as soon as there are two machines."""
        end = time.monotonic() + 60
        while len(os.listdir(f"{self.shared}/hosts")) < 2:
            if time.monotonic() > end:
                raise RuntimeError("no other machine came")
            time.sleep(0.02)

    def _happens(self, host: str) -> None:
        if not self.what or (self.what == "a slow machine" and not host.endswith(".2")):
            return
        with suppress(FileExistsError):
            os.close(os.open(f"{self.shared}/happened", os.O_CREAT | os.O_EXCL))
            executor = _parent(os.getppid())  # the parent of this process is pyspark's daemon
            match self.what:
                case "executor":
                    os.kill(executor, signal.SIGKILL)
                case "worker":
                    os.kill(_parent(executor), signal.SIGKILL)
            time.sleep(600)  # until Spark ends this process


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
