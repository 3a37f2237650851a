"""DataFrames as spouts: their declared columns, and runs that keep their rows in the checkpoint."""

from __future__ import annotations

import json
import re
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from functools import partial
from operator import methodcaller
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
from pyarrow import ipc
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
)

from manager.remote import hadoop_name
from manager.storage.files import as_storage_error, entries, path_exists
from topologies.checkpoints.checkpointed_run import CheckpointedRun
from topologies.checkpoints.paired_checkpoint import START_OVER, PairedCheckpoint
from topologies.checkpoints.pulled_files import FOLDER, QUERY, Reader, pulled_rows
from topologies.checkpoints.spark_checkpoint import COMPACT, delete_spark_file, read_spark_file, write_spark_file
from topologies.engine.failures import FIX, in_this_process, raising_as
from topologies.engine.pulling import Pulled
from topologies.graph.graph import Graph, SpoutNode
from topologies.io.file_spout import FileSpout, WatchedFiles
from topologies.io.pulled import PulledRows
from topologies.io.spouts import FrameSpout
from topologies.run.options import is_over_connect
from topologies.spark.spark_errors import FROM_JAVA, FROM_SPARK, kafka_error_in, passing_error_in, storage_error_in
from windowing.errors import CheckpointError, ConfigError, SpoutError, UnreachableError, WindboltError
from windowing.schema import DEFAULT_STREAM, conform

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


# Spouts' DataFrames with the declared columns, in a classic session or over Spark Connect.


def declared_frame(spark: Any, node: SpoutNode) -> DataFrame:
    """Returns the streaming DataFrame of a spout in this session, with all declared columns, and perhaps more. Missing
    columns with a default are null.

    Raises ConfigError if it belongs to another session, lacks columns without a default, or has types that cannot
    become the declared types with the same values.
    """
    assert isinstance(node.spout, FrameSpout)
    declared = node.outputs[DEFAULT_STREAM]
    frame: DataFrame = _call_make(node.name, node.spout, spark)
    _check_stream(node.name, frame, spark)
    absent = [column for column in declared.names if column not in frame.columns]
    missing = [column for column in absent if column not in node.defaults.columns]
    if missing:
        raise ConfigError(
            f"the DataFrame of spout {node.name!r} has no column {', '.join(map(repr, missing))}",
            why=f"it has {', '.join(frame.columns)}, and {', '.join(declared.names)} were declared",
            do="select and rename columns in its function, or declare those that it has",
        )
    wanted = from_arrow_schema(declared)
    _check_types(node.name, frame, [column for column in wanted if column.name not in absent])
    for column in wanted:
        if column.name in absent:
            null = frame.selectExpr("*", f"NULL AS {quoted(column.name)}")
            frame = null.withColumn(column.name, null[quoted(column.name)].cast(column.dataType))
    return frame


_PASSED_UNCHANGED: tuple[type[Exception], ...] = (WindboltError, *FROM_SPARK, *FROM_JAVA)


def _call_make(name: str, spout: FrameSpout, spark: Any) -> Any:
    """Calls the function of a spout. Turns its failures into SpoutError; errors of Spark pass unchanged."""
    with raising_as(
        SpoutError, f"the function of spout {name!r} failed", do=FIX, unchanged=_PASSED_UNCHANGED, spout=name
    ):
        return in_this_process(lambda: spout.make(spark))


def _check_types(name: str, frame: Any, wanted: Sequence[StructField]) -> None:
    # DataType casts belong to the session of the DataFrame, whichever session the run uses.
    present, zone = frame.schema, frame.sparkSession.conf.get("spark.sql.session.timeZone")
    others = [
        f"{column.name} {present[column.name].dataType.simpleString()}, declared as {column.dataType.simpleString()}"
        for column in wanted
        if not _keeps_values(present[column.name].dataType, column.dataType, in_utc=bool(_UTC.fullmatch(zone)))
    ]
    if others:
        raise ConfigError(
            f"the DataFrame of spout {name!r} has {'; '.join(others)}",
            why="a cast of Spark's would change values: it cuts fractions, takes whole numbers for seconds, the fields "
            f"of structs by their places, and dates and times without a zone for those of the session's zone, {zone}",
            do="declare the types that it has, or wider ones; or convert the columns in the DataFrame, as in "
            "frame.withColumn('ts', F.timestamp_millis('ts')); dates and times without a zone become timestamps in a "
            "session whose spark.sql.session.timeZone is UTC",
        )


def _keeps_values(kind: DataType, wanted: DataType, *, in_utc: bool) -> bool:  # noqa: PLR0911 - one for each kind
    """True if Spark's cast between these types changes no value. ``in_utc``: True in a session with time zone UTC."""
    match kind, wanted:
        case ArrayType(), ArrayType():
            return _keeps_values(kind.elementType, wanted.elementType, in_utc=in_utc)
        case MapType(), MapType():
            pairs = (kind.keyType, wanted.keyType), (kind.valueType, wanted.valueType)
            return all(_keeps_values(*pair, in_utc=in_utc) for pair in pairs)
        case StructType(), StructType():
            return kind.names == wanted.names and all(
                _keeps_values(one.dataType, other.dataType, in_utc=in_utc)
                for one, other in zip(kind, wanted, strict=True)
            )
        case DecimalType(), DecimalType():
            return kind.scale <= wanted.scale and kind.precision - kind.scale <= wanted.precision - wanted.scale
        case ((ByteType() | ShortType() | IntegerType() | LongType()), DecimalType()):
            return _DIGITS[type(kind)] <= wanted.precision - wanted.scale
        case DecimalType(), (ByteType() | ShortType() | IntegerType() | LongType()):
            return kind.scale == 0 and kind.precision < _DIGITS[type(wanted)]
        case ((DateType() | TimestampNTZType()), TimestampType()):
            return in_utc
        case NullType(), _:
            return True
    return type(wanted) is type(kind) or type(wanted) in _WIDER.get(type(kind), ())


_UTC = re.compile(r"(?:Etc/)?(?:UTC|UCT|GMT|GMT0|Universal|Zulu|Greenwich)|Z|[+-]00:00")
"""The names of UTC; Java on a machine may use any of them."""
_DIGITS = {ByteType: 3, ShortType: 5, IntegerType: 10, LongType: 19}
_WIDER: dict[type[DataType], tuple[type[DataType], ...]] = {
    ByteType: (ShortType, IntegerType, LongType, FloatType, DoubleType, StringType),
    ShortType: (IntegerType, LongType, FloatType, DoubleType, StringType),
    IntegerType: (LongType, DoubleType, StringType),
    LongType: (StringType,),
    FloatType: (DoubleType,),
    BooleanType: (StringType,),
    DateType: (StringType,),
    StringType: (BinaryType,),
    CharType: (StringType,),
    VarcharType: (StringType,),
}
"""Types, each with the types that contain all its values."""


def refuse_endless(name: str, frame: DataFrame, *, once: bool, kept: bool) -> None:
    """Raises ConfigError for a DataFrame of an endless source, in a run to the end of the input. If its rows are
    ``kept``, also for one that successive queries cannot read."""
    for source in _sources(frame):
        if source in _ENDLESS and once:
            raise ConfigError(
                f"spout {name!r} reads {source!r}, which has no end, and the run is to end with its input",
                why="it has no rows yet when the run begins, so that there is nothing to read to the end",
                do="say how often to read: run(..., every='10 s') goes on until it is stopped",
            )
        if source == "socket" and kept:
            raise ConfigError(
                f"spout {name!r} reads 'socket', and its rows are kept, as over Spark Connect",
                why="what arrives between two queries of Spark's is lost",
                do="read it in a classic session, and begin a checkpoint there",
            )


_ENDLESS = ("rate", "socket")
"""Spark's sources that have no rows when a run begins, and more the longer it waits."""
_SOURCE = re.compile(r"StreamingRelationV2 \S+, (\w+), ")
"""Matches the name of a source in the text of Spark's plan."""


def _sources(frame: Any) -> Iterator[str]:
    """Yields the names of the sources that a streaming DataFrame reads."""
    if is_over_connect(frame.sparkSession, None):
        yield from _SOURCE.findall(frame._explain_string(extended=True))
        return
    leaves = frame._jdf.queryExecution().analyzed().collectLeaves()
    for number in range(leaves.size()):
        leaf = leaves.apply(number)
        if leaf.getClass().getSimpleName() == "StreamingRelationV2":
            yield str(leaf.sourceName())


def _check_stream(name: str, frame: Any, spark: Any) -> None:
    if not isinstance(frame, DataFrame) or not frame.isStreaming:
        raise ConfigError(
            f"spout {name!r} made {type(frame).__name__}, which is not a streaming DataFrame",
            do="return spark.readStream...load() from its function",
        )
    if is_over_connect(frame.sparkSession, None) != is_over_connect(spark, None):
        raise ConfigError(
            f"the DataFrame of spout {name!r} is of another session",
            why="one of the two is a session of Spark Connect, and the other a classic one",
            do="run in the session of the DataFrame: spark=frame.sparkSession",
        )


def quoted(name: str) -> str:
    """Returns a column with exactly this name: an unquoted dot would denote a field of a column."""
    inside = name.replace("`", "``")
    return f"`{inside}`"


# Runs that keep the rows of DataFrames in the checkpoint: over Spark Connect, and in a classic session on a checkpoint
# that was begun over Connect.


class KeepsFrames(CheckpointedRun):
    """A run on Spark that reads kept rows from the checkpoint in place of DataFrames."""

    spark: Any

    @abstractmethod
    def _must_keep(self, name: str) -> bool:
        """True if the rows of this spout's DataFrame must be kept. Raises CheckpointError if the run cannot continue
        the checkpoint."""

    def _was_kept(self, name: str) -> bool:
        """True if an earlier run kept its rows."""
        return bool(entries(self.halves.filesystem, f"{self.halves.root}/{FOLDER}/{name}"))

    def _in_this_run(self, topology: Graph) -> Graph:
        spouts = dict(topology.spouts)
        for name, node in self.given.spouts.items():
            if isinstance(node.spout, FrameSpout) and self._must_keep(name):
                kept = pulled_rows(name, node.spout.declared, node.spout.defaults, self.halves.path)
                spouts[name] = replace(spouts[name], spout=kept)
        return replace(topology, spouts=spouts)

    def watch(self, name: str, spout: FileSpout) -> WatchedFiles:
        """Returns the object that lists a spout's files; for a DataFrame, it first keeps the rows in files."""
        node = self.given.spouts[name]
        if not (isinstance(spout, PulledRows) and isinstance(node.spout, FrameSpout)):
            return super().watch(name, spout)
        frame = declared_frame(self.spark, node)
        refuse_endless(name, frame, once=self.options.interval is None, kept=True)
        self.input_files[name] = self._kept_files(name, spout, partial(self._reader, node, frame))
        return self.input_files[name]

    def _reader(self, node: SpoutNode, frame: DataFrame, offset: Any) -> Reader:
        return FrameReader(node, frame, self.halves, self._is_ending, self.checkpoint.check_owner, offset)

    def _is_ending(self) -> bool:
        """True if no more rows are needed."""
        return self.options.stop.is_set()


class InOwnThread:
    """A reader of a DataFrame that makes all calls in a thread of its own.

    Spark stops the query of a run by interrupting the Java thread that plans its batches. If the reader used that
    thread too, the interrupt could hit a request of the reader, or the start of its query.
    """

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="windbolt-frame")

    @property
    def wants_acknowledgements(self) -> bool:
        """See ``Reader``, also for the other methods."""
        return self._reader.wants_acknowledgements

    def pull(self) -> Pulled | None:
        return self._thread.submit(self._reader.pull).result()

    def acknowledge(self, offset: Any) -> None:
        self._thread.submit(self._reader.acknowledge, offset).result()

    def close(self) -> None:
        """Closes the reader after the present call."""
        closed = self._thread.submit(self._reader.close)
        self._thread.shutdown()
        closed.result()


_ROWS = "rows"
"""Folder in a spout's folder of the checkpoint, for the files that Spark's query writes."""
_SINK_LOG_FOLDER = "_spark_metadata"
"""Spark's folder among a sink's files, with the log of the files of each batch."""
_PART_FILE = re.compile(r"part-\d+-.*")
_FIRST_PART = re.compile(r"part-0+-.*-c0+\..*")
"""Matches the first file of a batch, which Spark writes for the first partition, even without rows."""
_MOST_AHEAD = 20
"""Most batches by which the query may be ahead of the run."""
_RACE = re.compile(r"[^\n]*(?:Multiple streaming jobs detected|Race while writing batch)[^\n]*")
"""Spark's error text for a second query on the same checkpoint."""
_POLL_SECONDS, _POLL_SECONDS_IN_STORES = 0.05, 0.5
"""Seconds between two checks for a new batch of the query."""


class FrameReader:
    """Reads the rows of a streaming DataFrame during a run. The offset is the number of one of Spark's
    micro-batches."""

    def __init__(
        self,
        node: SpoutNode,
        frame: DataFrame,
        halves: PairedCheckpoint,
        is_ending: Callable[[], bool],
        check_owner: Callable[[], None],
        offset: Any,
    ) -> None:
        """``frame``: has the columns of the spout. ``is_ending``: True once the run no longer waits for rows.
        ``check_owner``: raises CheckpointError if another run has taken the checkpoint over."""
        self._node, self._is_ending, self._check_owner = node, is_ending, check_owner
        self._filesystem, self._uri = halves.filesystem, halves.uri
        self._folder = f"{halves.root}/{FOLDER}/{node.name}"
        self._spark_folder = _as_spark_names(f"{halves.place}/{FOLDER}/{node.name}")
        self._schema = node.outputs[DEFAULT_STREAM]
        self._packed_frame = _pack_rows(frame, self._schema)
        self._batch = -1 if offset is None else int(offset)
        self._sink_log = _SinkLog(halves, f"{self._folder}/{_ROWS}")
        self._query: StreamingQuery | None = None
        self._last_files: list[str] = []
        """The files of the last returned batch."""

    @property
    def wants_acknowledgements(self) -> bool:
        """False: commits are of no interest. The files of the query are deleted once their rows are kept."""
        return False

    def acknowledge(self, offset: Any) -> None:
        """Never called."""

    def pull(self) -> Pulled | None:
        """Returns the rows of the query's next non-empty batch. Returns None if the query has ended and all its rows
        were returned; the next call restarts it."""
        self._delete(self._last_files)
        self._last_files = []
        while True:
            ended = self._query is not None and not self._call_query(lambda query: query.isActive)
            # Checked after the end of the query, so that its last batch is included.
            for number, names in self._sink_log.after(self._batch):
                rows = self._rows(names)
                self._batch = number
                if not rows.num_rows:
                    self._delete(names)
                    continue
                if self._query is not None and self._sink_log.last() - number >= _MOST_AHEAD:
                    self._end()
                self._last_files = names
                return Pulled(rows, number)
            if ended:
                self._close_query()
                return None
            if self._query is None:
                self._start()  # even when the run ends, since the folder marks the DataFrame's rows as kept
            elif self._is_ending():
                return None
            seconds = _POLL_SECONDS if self._uri is None else _POLL_SECONDS_IN_STORES
            self._call_query(methodcaller("awaitTermination", seconds))

    def close(self) -> None:
        """Stops the query; on failure, Spark or its session has already ended."""
        with suppress(WindboltError, *FROM_JAVA, OSError):
            self._end()

    def _start(self) -> None:
        self._check_query()
        writer = self._packed_frame.writeStream.format("parquet").option("path", f"{self._spark_folder}/{_ROWS}")
        writer = writer.option("checkpointLocation", f"{self._spark_folder}/{QUERY}").trigger(availableNow=True)
        with self._raising_windbolt_errors():
            self._query = writer.start()
        if not path_exists(self._filesystem, f"{self._folder}/{QUERY}/metadata"):
            self._end()
            raise ConfigError(
                f"spout {self._node.name!r}: Spark's server does not see the folder of the checkpoint",
                why=f"its query has a checkpoint in {self._spark_folder}/{QUERY}, and it is not there for this process",
                do="put the checkpoint where this process, the server and its workers see the same folder",
            )

    def _check_query(self) -> None:
        """Raises CheckpointError if the notes of the query contradict each other, since it would silently repeat or
        skip rows.

        A batch is planned first, then written, then done. So every written batch must have been planned, and every
        batch that is done or read must have been written. This holds even while another query works on the same notes.
        """
        done, written, planned = self._last_number("commits"), self._sink_log.last(), self._last_number("offsets")
        if not max(done, self._batch) <= written <= planned:
            raise CheckpointError(
                f"spout {self._node.name!r} cannot go on: what Spark's query noted of its batches is not there",
                why=f"it has planned batch {planned}, written {written} and done {done}, and batch {self._batch} "
                "has been read (-1: none)",
                do=f"restore the folder {FOLDER}/{self._node.name}/ of the checkpoint; or {START_OVER}",
            )

    def _last_number(self, folder: str) -> int:
        """Returns the last batch in a log of the query; -1 without batches."""
        found = entries(self._filesystem, f"{self._folder}/{QUERY}/{folder}")
        return max((int(entry.base_name) for entry in found if entry.base_name.isdigit()), default=-1)

    def _call_query(self, call: Callable[[StreamingQuery], Any]) -> Any:
        assert self._query is not None
        try:
            with self._raising_windbolt_errors():
                return call(self._query)
        except WindboltError:
            self._query = None
            raise

    def _close_query(self) -> None:
        """Called when the query has ended: raises its error, and deletes files of failed attempts."""
        error = self._call_query(lambda query: query.exception())
        self._query = None
        if error is not None:
            with self._raising_windbolt_errors():
                raise error
        self._check_owner()  # a run that takes the checkpoint over stops this query
        self._sink_log.forget(self._batch)

    def _end(self) -> None:
        query, self._query = self._query, None
        if query is not None:
            with self._raising_windbolt_errors():
                query.stop()

    def _rows(self, names: list[str]) -> pa.Table:
        schema = self._schema
        parts = [part for name in names for part in _unpack_rows(self._filesystem, f"{self._folder}/{_ROWS}/{name}")]
        tables = [conform(_with_all_columns(part, schema), schema) for part in parts]
        return pa.concat_tables(tables).combine_chunks() if tables else schema.empty_table()

    def _delete(self, names: list[str]) -> None:
        for name in names:
            self._sink_log.delete(name)

    def _raising_windbolt_errors(self) -> AbstractContextManager[None]:
        return _raising_windbolt_errors(self._node.name)


@contextmanager
def _raising_windbolt_errors(name: str) -> Iterator[None]:
    """Turns an error of Spark into a windbolt error of one sentence."""
    try:
        yield
    except FROM_SPARK as error:
        text = str(error)
        raise (
            _race_error_in(name, text)
            or kafka_error_in(text)
            or storage_error_in(text)
            or passing_error_in(text)
            or WindboltError(
                f"spout {name!r}: Spark's query over its DataFrame failed",
                why=next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__),
                do="correct it and rerun, nothing is lost; see the chained error (--debug) for Spark's whole message",
            )
        ) from error


def _race_error_in(name: str, text: str) -> UnreachableError | None:
    """Returns the error for a dead run whose query goes on in another server or session: Spark writes each batch of the
    two queries once, and ends the later one. Returns None if Spark's long text is about another error."""
    match = _RACE.search(text)
    if match is None:
        return None
    return UnreachableError(
        f"spout {name!r}: another query of Spark's writes the rows of its DataFrame into this checkpoint",
        why=match[0].strip(),
        do="nothing is lost, start again: the query of a run that has died ends with the input that it found",
        transient=True,
    )


def _as_spark_names(place: str) -> str:
    """Returns a folder of the checkpoint under a name that Spark's server resolves to the same file system."""
    name = hadoop_name(place)
    return f"file://{name}" if name.startswith("/") and not name.startswith("/Volumes/") else name


def _pack_rows(frame: DataFrame, schema: pa.Schema) -> DataFrame:
    """Returns the rows as Arrow's bytes, so that Spark writes exactly what it passes to Python, whatever the types."""
    columns = [
        frame[quoted(field.name)].cast(field.dataType).alias(f"c{at}")
        for at, field in enumerate(from_arrow_schema(schema))
    ]
    return frame.select(*columns).mapInArrow(_packer(schema.names), "rows binary")


def _packer(names: list[str]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Returns a function for ``mapInArrow`` that turns each record batch into Arrow's bytes, with these column names.
    It is sent by value, and refers to nothing of windbolt, which workers of a Connect server do not have."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for batch in batches:
            named = pa.RecordBatch.from_arrays(batch.columns, names=names)
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, named.schema) as writer:
                writer.write_batch(named)
            yield pa.RecordBatch.from_arrays([pa.array([sink.getvalue().to_pybytes()], pa.binary())], ["rows"])

    return run


def _unpack_rows(filesystem: pafs.FileSystem, path: str) -> Iterator[pa.Table]:
    with as_storage_error(path, "read"), filesystem.open_input_file(path) as source:
        rows = pq.read_table(source, columns=["rows"]).column("rows")
    for chunk in rows.chunks:
        for packed in chunk:
            with ipc.open_stream(packed.as_buffer()) as reader:
                yield reader.read_all()


def _with_all_columns(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Returns rows that an earlier topology has kept, with this topology's columns: missing ones added, others
    removed."""
    for field in schema:
        if field.name not in rows.column_names:
            rows = rows.append_column(field, pa.nulls(len(rows), field.type))
    return rows.select(schema.names)


class _SinkLog:
    """Spark's log of the files of each batch of a sink."""

    def __init__(self, halves: PairedCheckpoint, folder: str) -> None:
        self._filesystem, self._uri, self._folder = halves.filesystem, halves.uri, folder

    def after(self, batch: int) -> Iterator[tuple[int, list[str]]]:
        """Yields the batches after ``batch`` with the names of their files, in the order of their partitions."""
        entry_of = self._entries_by_batch()
        for number in sorted(entry_of):
            if number <= batch:
                continue
            files = self._names(entry_of[number])
            if not entry_of[number].endswith(COMPACT):
                yield number, files
                continue
            before = {name for each in entry_of if each < number for name in self._names(entry_of[each])}
            files = [name for name in files if name not in before]  # an entry also lists the files of earlier batches
            parts = [files] if number - 1 in entry_of else _batches_in(files)
            for at, part in enumerate(parts, number - len(parts) + 1):
                if at > batch:
                    yield at, part

    def last(self) -> int:
        """Returns the last batch whose files are in the log; -1 without batches."""
        return max(self._entries_by_batch(), default=-1)

    def delete(self, name: str) -> None:
        """Deletes a file that has been read."""
        delete_spark_file(self._filesystem, f"{self._folder}/{name}")

    def forget(self, batch: int) -> None:
        """Called when no query is writing, and batches up to ``batch`` have been read: deletes their files, and files
        of failed attempts. Otherwise the log would grow with every batch."""
        entry_of = self._entries_by_batch()
        later_files = {name for number in entry_of if number > batch for name in self._names(entry_of[number])}
        for entry in entries(self._filesystem, self._folder):
            if _PART_FILE.fullmatch(entry.base_name) and entry.base_name not in later_files:
                self.delete(entry.base_name)
        last = max((number for number, name in entry_of.items() if name.endswith(COMPACT)), default=-1)
        if 0 <= last <= batch and self._names(entry_of[last]):
            path = f"{self._folder}/{_SINK_LOG_FOLDER}/{entry_of[last]}"
            write_spark_file(self._filesystem, path, "v1", with_checksum=self._uri is None)

    def _entries_by_batch(self) -> dict[int, str]:
        names = [entry.base_name for entry in entries(self._filesystem, f"{self._folder}/{_SINK_LOG_FOLDER}")]
        return {int(name.removesuffix(COMPACT)): name for name in names if name.removesuffix(COMPACT).isdigit()}

    def _names(self, name: str) -> list[str]:
        _, *lines = read_spark_file(self._filesystem, f"{self._folder}/{_SINK_LOG_FOLDER}/{name}").split("\n")
        return [unquote(json.loads(line)["path"]).rsplit("/", 1)[1] for line in lines if line]


def _batches_in(names: list[str]) -> list[list[str]]:
    """Returns the files of each of several batches whose notes Spark has deleted: it keeps those of the last hundred,
    and a query may be further ahead if a client is dead or slow."""
    batches: list[list[str]] = []
    for name in names:
        if _FIRST_PART.fullmatch(name) or not batches:
            batches.append([])
        batches[-1].append(name)
    return batches
