"""Keeps the checksums of Spark's logs, which Spark then need not write (decision 90)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from types import TracebackType
from typing import Self

from manager.storage.file_systems.files import is_there
from topologies.checkpoints.spark_half.spark_files import delete_spark_file, sum_spark_file, sums_of
from topologies.checkpoints.spark_half.spark_half import SparkHalf
from windowing.errors import WindboltError

_ALL_EVERY = 100
"""So many batches after the last time all logs are looked through."""


class LogSums:
    """The checksums of the logs of a query that runs, in a folder; the block is left when it has ended.

    A log is whole when it has its name, and is not changed any more. What a run that dies has left is summed by the
    next one.
    """

    def __init__(self, half: SparkHalf) -> None:
        self._half = half
        self._needed = False
        self._looked: int | None = None
        self._logged: dict[int, int] = {}
        """Per source of files: the last entry of its log that is summed."""

    def begin(self) -> None:
        """Called when Spark writes none."""
        self._needed = True

    def keep(self, batch: int) -> None:
        """Called when a batch is done: sum what has been written for it."""
        if not self._needed:
            return
        if self._looked is None or batch >= self._looked + _ALL_EVERY:
            self.keep_all()
            self._looked = batch
        else:
            for name in self._of_batch(batch):
                self._sum(name)
        self._logged = self._half.logged(batch)

    def keep_all(self) -> None:
        """Sum whatever is not summed, and delete the checksums of logs that Spark has deleted."""
        self._sum("metadata")
        for folder in ("offsets", "commits", *(f"sources/{source}" for source in self._half.names("sources"))):
            logs, summed = set(self._half.paths(folder)), set(self._half.summed(folder))
            for name in logs - summed:
                self._sum(name)
            for name in summed - logs:
                delete_spark_file(self._half.filesystem, f"{self._half.root}/{name}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._needed and error is None:
            self.keep_all()
        elif self._needed:
            with suppress(WindboltError):
                self.keep_all()

    def _sum(self, name: str) -> None:
        path = f"{self._half.root}/{name}"
        if not is_there(self._half.filesystem, sums_of(path)):
            sum_spark_file(path)

    def _of_batch(self, batch: int) -> Iterator[str]:
        yield f"offsets/{batch}"
        yield f"commits/{batch - 1}"  # Spark notes that a batch is done after it
        for source, last in self._half.logged(batch).items():
            for number in range(self._logged.get(source, -1) + 1, last + 1):
                yield from (f"sources/{source}/{number}", f"sources/{source}/{number}.compact")
