"""Files as a source of Spark's: windbolt lists them and cuts the batches, and Spark numbers these (decision 92)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlsplit

from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, SparkSession

from manager.outside.place_names import root_and_path
from manager.storage.file_systems.hdfs import is_hdfs
from manager.storage.file_systems.storage_errors import during
from topologies.checkpoints.spark_half.file_journal import FileLog, JournalMoved, log_offset
from topologies.io.file_spout import FoundFile
from topologies.io.paths import shown_path
from topologies.io.watched_files import WatchedFiles
from topologies.spark.jvm.compiled import compiled, made

_SOURCE = Path(__file__).with_name("PlannedFiles.java")
_ONCE = "once"
"""What Java asks first in a run to the end of the present input."""


class PlannedFiles:
    """The batches of a spout of files, as Spark asks for them (PlannedFiles.java).

    Its log is written before Spark notes a batch in ``offsets/``, as by Spark's own source of files.
    """

    def __init__(
        self, watched: WatchedFiles, open_log: Callable[[], FileLog], check_owner: Callable[[], None] = lambda: None
    ) -> None:
        """``open_log`` is called when Spark asks first. ``check_owner`` raises CheckpointError where another run has
        taken the checkpoint over."""
        self.watched, self._open_log, self._check_owner = watched, open_log, check_owner
        self.failure: BaseException | None = None
        """What the query failed with, where that was in here."""
        self._log: FileLog | None = None
        self._ahead: Iterator[list[FoundFile]] | None = None
        """The batches that are left of the present input, in a run to its end."""

    def apply(self, asked: str) -> str | None:
        """Called by Java: for the last entry of the log that is to belong to the next batch, as ``{"logOffset":7}``,
        given that of the batch before; None where there are no new files."""
        try:
            with during("planning the next batch", "it was not begun, and nothing is lost"):
                return self._answer(asked)
        except BaseException as error:
            self.failure = error
            if isinstance(error, Exception):
                raise
            raise RuntimeError(f"{type(error).__name__}: {error}") from error  # Java waits for an Exception

    def _answer(self, asked: str) -> str | None:
        log = self._log = self._log or self._open_log()
        if asked == _ONCE:
            self._ahead = self._cut(log)
            return None
        begun = log.last_after(json.loads(asked)["logOffset"])
        if begun is not None:
            return log_offset(begun)
        files = next(self._cut(log) if self._ahead is None else self._ahead, None)
        if files is None:
            return None
        try:
            return log_offset(log.note(files))
        except JournalMoved:  # by a run that has lost the checkpoint to this one, or to which this one has lost it
            self._check_owner()
            log = self._log = self._open_log()
            self._ahead = None if self._ahead is None else self._cut(log)
            return self._answer(asked)

    def _cut(self, log: FileLog) -> Iterator[list[FoundFile]]:
        return self.watched.spout.cut(self.watched.new(log.seen))

    class Java:
        implements: ClassVar[list[str]] = ["java.util.function.Function"]


def planned_files(spark: SparkSession, planned: PlannedFiles) -> DataFrame:
    """A stream with a batch for each that is planned, and a column ``path``, but no rows: the names of a batch's files
    are in its log."""
    ensure_callback_server_started(spark.sparkContext._gateway)  # type: ignore[no-untyped-call]
    source = made(spark, compiled(spark, _SOURCE))
    return DataFrame(source.open(spark._jsparkSession, planned, planned.watched.spout.path), spark)


def with_host(spark: SparkSession, path: str) -> str:
    """A path in HDFS with the host that Spark's configuration has as the default, by which its files are noted."""
    shown = shown_path(path)
    if not is_hdfs(shown) or urlsplit(root_and_path(shown)[0]).netloc:
        return path
    default = str(spark.sparkContext._jsc.hadoopConfiguration().get("fs.defaultFS"))
    return f"{default.rstrip('/')}/{root_and_path(shown)[1]}" if is_hdfs(default) else path
