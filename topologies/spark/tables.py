"""Tables of the session's catalog, to which sinks append each batch exactly once, and the output of sinks as
DataFrames.

Delta and Iceberg commit a batch with an id, by which a repeated batch is recognised. A Parquet table is a folder of
files, like a file sink, so its sink becomes a file sink (decision 118).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow.fs as pafs
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from manager.remote import hadoop_name
from manager.storage.segments import Ref
from topologies.engine.task_data import SinkBatch
from topologies.graph.builder import feedback_loop_errors
from topologies.graph.graph import Graph, SinkNode
from topologies.io.formats import file_format
from topologies.io.paths import canonical_place, locate, shown_path
from topologies.io.sinks import TABLE_FORMATS, FileSink, MemorySink, TableSink
from topologies.run.options import is_over_connect
from topologies.spark.frames import quoted
from topologies.spark.spark_errors import FROM_SPARK, passing_error_in, storage_error_in
from windowing.errors import CheckpointError, ConfigError, WindboltError, did_you_mean

_NO_PATTERN = ("__globPaths__", "false")
"""Spark's option that permits brackets and asterisks in a folder's name."""
_RECENT_COMMITS = 1000
"""Number of the latest commits of a Delta table that are searched first for a sink's last batch."""
_MOST_CLOCK_SKEW = 60_000_000
"""Microseconds by which the time of an Iceberg snapshot may be before that of its predecessor."""
_FACTS_ROW = "# Detailed Table Information"
"""The row of DESCRIBE EXTENDED that separates the columns of the table from facts about it."""
_ROWS_OF_A_FILE = 1_000_000
"""Number of rows from which on a batch is written as several files."""


def with_tables(topology: Graph, spark: Any) -> Graph:
    """Returns the topology for a run in this session: its tables exist and accept the rows; a sink for a Parquet table
    becomes a file sink with the folder of the table.

    Raises ConfigError for a table that is missing, has other columns, or cannot take batches exactly once; over Spark
    Connect, also for an Iceberg table.
    """
    sinks: dict[str, SinkNode] = dict(topology.sinks)
    folders = {canonical_place(node.sink.path): name for name, node in sinks.items() if isinstance(node.sink, FileSink)}
    spouts = [(name, node.spout) for name, node in topology.spouts.items()]
    for name, node in topology.sinks.items():
        if not isinstance(node.sink, TableSink):
            continue
        table = _checked_table(spark, node, node.sink)
        if table.format == "iceberg" and is_over_connect(spark, None):
            raise ConfigError(
                f"sink {name!r} appends to {node.sink.table}, a table of iceberg, over Spark Connect",
                why="appending each batch once to Iceberg has been tried in classic sessions only",
                do="use a table of delta or parquet, write files (sinks.files), or append in a function that knows "
                "what is there: sinks.foreach_batch(function)",
            )
        if table.format == "parquet":
            folder = shown_path(table.location)
            place = canonical_place(folder)
            if place in folders:
                raise ConfigError(
                    f"sinks {folders[place]!r} and {name!r} write to {folder!r}",
                    why="their files would bear the same names",
                    do="let one sink take both streams, or use two tables",
                )
            folders[place] = name
            file_sink = FileSink(folder, file_format("parquet", "writing"))
            sinks[name] = replace(node, sink=file_sink)
            for loop in feedback_loop_errors(spouts, [sinks[name]]):
                raise loop
    return topology if sinks == topology.sinks else replace(topology, sinks=sinks)


def tables_of_files(declared: Graph, topology: Graph) -> list[str]:
    """Returns the tables that are file sinks in a run (``with_tables``)."""
    return [
        node.sink.table
        for name, node in declared.sinks.items()
        if isinstance(node.sink, TableSink) and isinstance(topology.sinks[name].sink, FileSink)
    ]


@dataclass(frozen=True)
class _Table:
    """A table of the catalog."""

    name: str
    format: str
    location: str
    full_name: str
    """Name with its catalog, which users may omit for the session's current one; empty for a view."""
    columns: StructType


def _checked_table(spark: SparkSession, node: SinkNode, sink: TableSink) -> _Table:
    rows = from_arrow_schema(node.schema)
    try:
        if not spark.catalog.tableExists(sink.table):
            _make(spark, node.name, sink, rows)
        described = [
            (row["col_name"], row["data_type"]) for row in spark.sql(f"DESCRIBE EXTENDED {sink.table}").collect()
        ]
        table = _Table(sink.table, *_facts(described), spark.table(sink.table).schema)
    except PySparkException as error:
        raise ConfigError(
            f"sink {node.name!r}: Spark's catalog has no use for the table {sink.table}",
            why=_first_line(error),
            do="correct the name; a database is made with CREATE DATABASE, and a catalog is one of the session's",
        ) from error
    if table.format not in TABLE_FORMATS:
        raise ConfigError(
            f"sink {node.name!r}: {sink.table} is {'no table' if not table.format else f'a table of {table.format}'}",
            why="a batch that runs again after a crash could be there twice: exactly once are "
            + ", ".join(TABLE_FORMATS),
            do="use a table of one of these, or a function that knows what is there: sinks.foreach_batch(function)",
        )
    names = [name for name, _ in described]
    if table.format == "parquet" and "Num Buckets" in names[names.index(_FACTS_ROW) :]:
        raise ConfigError(
            f"sink {node.name!r}: {sink.table} is a Parquet table with buckets",
            why="Spark reads the bucket of a row off the name of its file, and a batch has names of its own",
            do="use one without CLUSTERED BY, or a table of delta or iceberg",
        )
    if table.format == "parquet" and "# Partition Information" in names:
        raise ConfigError(
            f"sink {node.name!r}: {sink.table} is a Parquet table with partition columns",
            why="a batch would be files in several folders, which no reader sees at once",
            do="use one without them, or a table of delta or iceberg",
        )
    _check_columns(node.name, table, rows)
    return table


def _facts(described: list[tuple[str, str]]) -> tuple[str, str, str]:
    """Returns format, location and full name of a table, from DESCRIBE; empty for a view."""
    facts = dict(described)
    return facts.get("Provider", "").lower(), facts.get("Location", ""), facts.get("Name", "")


def _make(spark: SparkSession, name: str, sink: TableSink, rows: StructType) -> None:
    columns = rows.toDDL()
    if sink.format is None:
        raise ConfigError(
            f"sink {name!r}: there is no table {sink.table}",
            why="with format='delta', 'iceberg' or 'parquet' the run would make it",
            do=f"make it: CREATE TABLE {sink.table} ({columns}) USING ...; or give the sink a format",
        )
    spark.sql(f"CREATE TABLE {sink.table} ({columns}) USING {sink.format}")


def _check_columns(name: str, table: _Table, rows: StructType) -> None:
    types = {field.name: field.dataType.simpleString() for field in table.columns}
    for field in rows:
        kind = field.dataType.simpleString()
        if field.name not in types:
            raise ConfigError(
                f"sink {name!r}: the table {table.name} has no column {field.name!r}{did_you_mean(field.name, types)}",
                why=f"it has {', '.join(types)}",
                do=f"add it: ALTER TABLE {table.name} ADD COLUMN {field.name} {kind}; or leave it out in a bolt before "
                "the sink",
            )
        if types[field.name] != kind:
            raise ConfigError(
                f"sink {name!r}: column {field.name!r} of the table {table.name} is {types[field.name]}",
                why=f"the rows have {kind}",
                do="declare the type of the table in the bolt's outputs, or make the table with that of the rows",
            )
    sent = set(rows.names)
    for field in table.columns:
        if field.name not in sent and not field.nullable:
            raise ConfigError(
                f"sink {name!r}: the table {table.name} demands values in {field.name!r}",
                why="the rows have no such column, and it may not be null",
                do="let the bolt emit it, or allow null: "
                f"ALTER TABLE {table.name} ALTER COLUMN {field.name} DROP NOT NULL",
            )


# Appends batches to the Delta and Iceberg tables of a run, each once.


@dataclass(frozen=True)
class _Batch:
    """A batch of this sink and checkpoint that a table has."""

    serial: int
    run: str
    before: str
    """SQL that restores the table to its state before this batch."""
    is_certain: bool = True
    """False if the table was restored to a time since then, so that nobody knows whether the table still has the
    batch."""
    undone_by: int | None = None
    """The commit that restored a Delta table to a version before this batch; None if the table has the batch."""


class Appender:
    """Appends the batches of one sink to its table."""

    def __init__(self, spark: SparkSession, node: SinkNode) -> None:
        assert isinstance(node.sink, TableSink)
        self.spark, self.name = spark, node.name
        self._table = _checked_table(spark, node, node.sink)
        self._tried = -1
        """The last batch that this object has begun to append."""

    def append(self, frame: DataFrame, parts: int, batch: SinkBatch) -> None:
        """Appends a batch as at most ``parts`` files, unless an earlier attempt has done so.

        Raises CheckpointError if the table has a batch that the checkpoint lacks, other than this planned batch: the
        checkpoint went back, or its state was changed, after that batch was appended.
        """
        if 0 <= self._tried < batch.serial:
            self._tried = batch.serial
            self._write(frame, parts, batch, None)
            return
        found = list(self._batches(batch, _RECENT_COMMITS))
        delta = self._table.format == "delta"
        if delta and not any(each.serial <= batch.after and each.undone_by is None for each in found):
            found = list(self._batches(batch, None))  # the committed batch is further back, or there is none
        has_batch = self._has(batch, found)
        self._tried = batch.serial
        if has_batch:
            return
        if not delta and self._may_be_expired(batch, found):
            raise CheckpointError(
                f"sink {self.name!r}: whether {self._table.name} has the batch that comes next is not known",
                why="an earlier run may have appended it, and the snapshots of that time were expired since",
                do="look for the rows of its windows, and delete those that are there; then go back a batch (windbolt "
                "checkpoint CK --back-to BATCH), which plans it anew",
            )
        self._write(frame, parts, batch, next((each.undone_by for each in found if each.undone_by), None))
        if delta and not self._has(batch, list(self._batches(batch, _RECENT_COMMITS))):
            raise CheckpointError(
                f"sink {self.name!r}: whether {self._table.name} has the batch that was appended is not known",
                why="it has no commit of it, as where Delta skips one that it knows, of which the history is gone",
                do="look for the rows of its windows; then go back a batch (windbolt checkpoint CK --back-to BATCH), "
                "which plans it anew",
            )

    def _has(self, batch: SinkBatch, found: list[_Batch]) -> bool:
        """True if the table has this batch as planned; ``found``: the batches of this sink."""
        standing = [each for each in found if each.undone_by is None]
        if standing and standing[0].is_certain:
            if (standing[0].serial, standing[0].run) == (batch.serial, batch.run):
                return True
            del standing[1:]  # each batch was appended after the commit of the one before
        if any(each.serial > batch.after for each in standing):
            raise self._later_batches_error(batch, found)
        return False

    def _write(self, frame: DataFrame, parts: int, batch: SinkBatch, undone_by: int | None) -> None:
        writer = self._in_full(frame).coalesce(parts).writeTo(self._table.name)
        for option, value in self._options(batch, undone_by).items():
            writer = writer.option(option, value)
        try:
            writer.append()
        except FROM_SPARK as error:
            raise (
                storage_error_in(str(error))
                or passing_error_in(str(error))
                or WindboltError(
                    f"sink {self.name!r}: Spark could not append a batch to the table {self._table.name}",
                    why=_first_line(error),
                    do="correct that, then rerun: the batch was not committed, and is appended then",
                )
            ) from error

    def _in_full(self, frame: DataFrame) -> DataFrame:
        """Returns the rows with the table's columns, in its order."""
        present = set(frame.columns)
        absent = [field for field in self._table.columns if field.name not in present]
        full = frame.selectExpr("*", *(f"NULL AS {quoted(field.name)}" for field in absent))
        return full.select(
            *(full[quoted(field.name)].cast(field.dataType).alias(field.name) for field in self._table.columns)
        )

    def _id(self, batch: SinkBatch) -> str:
        """Returns the id of the sink, and of the checkpoint whose batches it gets."""
        return f"windbolt/{batch.origin}/{self.name}"

    def _options(self, batch: SinkBatch, undone_by: int | None) -> dict[str, str]:
        who, serial = self._id(batch), str(batch.serial)
        if self._table.format == "iceberg":
            properties = {"sink": who, "batch": serial, "run": batch.run}
            return {f"snapshot-property.windbolt-{name}": value for name, value in properties.items()}
        note = json.dumps({"windbolt": who, "batch": batch.serial, "run": batch.run})
        # Delta accepts each number of an application once, even if the table was restored to a time before it. So the
        # application's name includes the run: after going back, the next run plans other batches under the same
        # numbers. It also includes the commit that has undone the batch, if any, since the batch must then be appended
        # again instead of skipped.
        application = f"{who}/{batch.run}" + ("" if undone_by is None else f"/{undone_by}")
        return {"txnAppId": application, "txnVersion": serial, "userMetadata": note}

    def _batches(self, batch: SinkBatch, limit: int | None) -> Iterator[_Batch]:
        """Yields the batches of this sink that the table now has, the last one first; and this batch if it was undone.

        ``limit``: number of commits of a Delta table to examine, the latest first; None for all.
        """
        return self._iceberg_batches(batch) if self._table.format == "iceberg" else self._delta_batches(batch, limit)

    def _delta_batches(self, batch: SinkBatch, limit: int | None) -> Iterator[_Batch]:
        name, who = self._table.name, self._id(batch)
        history = self.spark.sql(f"DESCRIBE HISTORY {name}" + ("" if limit is None else f" LIMIT {limit}"))
        valid, restored, is_certain = sys.maxsize, 0, True
        for row in history.select("version", "operation", "operationParameters", "userMetadata").collect():
            version, note = row["version"], _note(row["userMetadata"])
            ours = note.get("windbolt") == who
            if version > valid:  # restored to a version before it
                if ours and (note["batch"], note["run"]) == (batch.serial, batch.run):
                    yield _Batch(note["batch"], note["run"], "", undone_by=restored)
            elif ours:
                before = f"RESTORE TABLE {name} TO VERSION AS OF {version - 1}"
                yield _Batch(note["batch"], note["run"], before, is_certain)
            elif row["operation"] == "RESTORE" and is_certain:
                to = str((row["operationParameters"] or {}).get("version", ""))
                is_certain = to.isdigit()  # a restore to a time does not tell which commits remain
                valid, restored = int(to) if is_certain else valid, version

    def _snapshots(self) -> list[Any]:
        """Returns the current snapshot of an Iceberg table, and the earlier ones that still exist, the last one
        first."""
        name = self._table.name
        return self.spark.sql(
            f"SELECT s.snapshot_id, s.parent_id, s.summary, unix_micros(s.committed_at) AS committed "
            f"FROM {name}.snapshots s JOIN {name}.history h ON s.snapshot_id = h.snapshot_id "
            "WHERE h.is_current_ancestor ORDER BY h.made_current_at DESC"
        ).collect()

    def _may_be_expired(self, batch: SinkBatch, found: list[_Batch]) -> bool:
        """True if an Iceberg table may have had a batch in an expired snapshot. ``found``: the batches in its
        snapshots; the oldest snapshot expires first."""
        if not batch.again or any(each.serial <= batch.after for each in found):
            return False
        oldest = next(reversed(self._snapshots()), None)
        return (
            oldest is not None
            and oldest["parent_id"] is not None
            and oldest["committed"] > batch.planned_at - _MOST_CLOCK_SKEW
        )

    def _iceberg_batches(self, batch: SinkBatch) -> Iterator[_Batch]:
        name, who = self._table.name, self._id(batch)
        for row in self._snapshots():
            properties: Mapping[str, str] = row["summary"]
            if properties.get("windbolt-sink") == who:
                parent = row["parent_id"]
                catalog, _, table = self._table.full_name.partition(".")
                before = f"CALL {catalog}.system.rollback_to_snapshot('{table}', {parent})"
                yield _Batch(
                    int(properties["windbolt-batch"]),
                    properties["windbolt-run"],
                    f"TRUNCATE TABLE {name}" if parent is None else before,
                )

    def _later_batches_error(self, batch: SinkBatch, found: list[_Batch]) -> CheckpointError:
        later = [each for each in found if each.serial > batch.after and each.undone_by is None]
        do = f"restore the table, then rerun: {later[-1].before} (what others have written since is undone with it)"
        if not later[0].is_certain:
            return CheckpointError(
                f"sink {self.name!r}: whether the table {self._table.name} has {len(later)} batches that come after "
                "the checkpoint is not known",
                why="it was restored to a time since, and Delta notes no version of that: their rows could be lost, or "
                "be there twice",
                do=do,
            )
        return CheckpointError(
            f"sink {self.name!r}: the table {self._table.name} has {len(later)} batches that come after the checkpoint",
            why="the checkpoint was gone back, repaired or reset since, or an older copy of it restored: the run would "
            "append their rows again",
            do=do,
        )


class Appenders:
    """The tables to which the sinks of a run append."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._by_sink: dict[str, Appender] = {}

    def append(self, node: SinkNode, batch: SinkBatch, frame: DataFrame, refs: list[Ref]) -> None:
        """Appends rows to the table of a sink, unless an earlier attempt of the batch has done so; ``refs``: the
        rows."""
        if node.name not in self._by_sink:
            self._by_sink[node.name] = Appender(self._spark, node)
        parts = min(len(refs), sum(ref.rows for ref in refs) // _ROWS_OF_A_FILE + 1)
        self._by_sink[node.name].append(frame, parts, batch)


def _note(text: str | None) -> dict[str, Any]:
    """Returns windbolt's note in a commit of a Delta table; empty for other commits."""
    try:
        found = json.loads(text or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


# The output of a sink so far, as a DataFrame.


def frame_of(topology: Graph, name: str | None, spark: SparkSession) -> DataFrame:
    """Returns the rows that a sink has written so far; Spark lists files when a DataFrame is made. Raises ConfigError
    for a sink whose rows cannot be read again. ``name``: None for the only sink whose rows can be read."""
    node = _readable(topology, name)
    schema, sink = from_arrow_schema(node.schema), node.sink
    if isinstance(sink, TableSink):
        return spark.table(sink.table)
    if isinstance(sink, MemorySink):
        rows = sink.table
        return spark.createDataFrame([], schema) if rows is None else spark.createDataFrame(rows, schema)
    assert isinstance(sink, FileSink)
    filesystem, folder, _ = locate(sink.path)
    if not any(entry.is_file for entry in filesystem.get_file_info(_files_in(folder))):
        return spark.createDataFrame([], schema)
    place = f"file://{folder}"
    if filesystem.type_name != "local":
        place = hadoop_name(sink.path)
        if not is_over_connect(spark, None):
            from topologies.spark.classic_session import check_classes, reach_stores

            check_classes(spark, [place])
            reach_stores(spark, [sink.path])
    reader = spark.read.schema(schema).option(*_NO_PATTERN)
    return reader.parquet(place) if sink.format.name == "parquet" else reader.json(place)


def _files_in(folder: str) -> pafs.FileSelector:
    return pafs.FileSelector(folder, allow_not_found=True)


def _readable(topology: Graph, name: str | None) -> SinkNode:
    readable = [each for each, node in topology.sinks.items() if _can_be_read(node)]
    if name is None:
        if len(readable) == 1:
            return topology.sinks[readable[0]]
        raise ConfigError(
            f"{topology.name!r} has {len(readable)} sinks whose rows can be read",
            why=f"it has the sinks {', '.join(topology.sinks)}",
            do="name one: run.frame('revenue')",
        )
    if name not in topology.sinks:
        raise ConfigError(
            f"there is no sink {name!r}{did_you_mean(name, topology.sinks)}",
            why=f"{topology.name!r} has the sinks {', '.join(topology.sinks)}",
            do="name one of these",
        )
    if name not in readable:
        raise ConfigError(
            f"the rows of sink {name!r} cannot be read again",
            why="those can of tables, of Parquet files and JSON lines, and of sinks in memory",
            do="let the sink be one of these, or add one for the same stream",
        )
    return topology.sinks[name]


def _can_be_read(node: SinkNode) -> bool:
    if isinstance(node.sink, FileSink):
        return node.sink.format.name in ("parquet", "jsonl")
    return isinstance(node.sink, TableSink | MemorySink)
