"""Sinks: the places to which results go."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal, get_args

import pyarrow as pa

from manager.storage.manifest import batch_key
from topologies.io.formats import FileFormat, FormatName, file_format
from topologies.io.kafka import KafkaSink, checked_options, checked_servers
from topologies.io.paths import Place, canonical_place, shown_path
from topologies.io.topics.declared import KeyForm, Registry, Subject, TopicFormat
from topologies.io.topics.encode import Schemas, checked_records, refuse_without_format
from windowing.calls import checked, checked_value
from windowing.errors import ConfigError
from windowing.reprs import fields_repr

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class FileSink:
    """Writes files to a folder, named after the batch; a batch that runs again replaces its files."""

    path: str
    format: FileFormat

    def __repr__(self) -> str:
        return fields_repr(self)

    def check(self) -> None:
        """Raises ConfigError for a sink that cannot work."""
        if os.path.exists(self.path) and not os.path.isdir(self.path):
            raise ConfigError(f"{self.path!r} is a file", why="the sink writes files into a folder", do="name a folder")


def output_file(sink: FileSink) -> Place:
    """Returns the place of the sink's first file. A spout that reads this file reads all files of the sink."""
    return canonical_place(sink.path).below(f"batch-{batch_key(0, False)}-0000.{sink.format.name}")


@dataclass(frozen=True)
class ConsoleSink:
    """Prints the first rows of each batch on standard output."""

    rows: int = 20

    def check(self) -> None:
        """Does nothing: there is nothing to check."""


@dataclass
class _MemoryWriters:
    """The runs that have written, and write, into a sink in memory, by the places of their checkpoints."""

    checkpoint: str | None = None
    """The checkpoint whose runs wrote its batches; None before the first run."""
    running: list[str] = field(default_factory=list)
    """The checkpoints of the runs that write into it now."""


@dataclass(frozen=True, eq=False)
class MemorySink:
    """Keeps all rows in the driver's memory. For tests and examples."""

    batches: dict[str, pa.Table] = field(default_factory=dict)
    _writers: _MemoryWriters = field(default_factory=_MemoryWriters, init=False)

    def check(self) -> None:
        """Does nothing: there is nothing to check."""

    @property
    def table(self) -> pa.Table | None:
        """Returns all rows so far, in order of batches; None before the first batch."""
        batches = dict(self.batches)  # a run in the background may add a batch meanwhile
        return pa.concat_tables(batches[key] for key in sorted(batches)) if batches else None

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Returns all rows so far, as dicts."""
        table = self.table
        return [] if table is None else table.to_pylist()

    @checked
    def to_pandas(self) -> pd.DataFrame:
        """Returns all rows so far as a pandas DataFrame, which is empty and without columns before the first batch with
        rows."""
        import pandas as pd

        table = self.table
        return pd.DataFrame() if table is None else table.to_pandas()

    def __repr__(self) -> str:
        tables = list(self.batches.values())
        return f"<MemorySink: {sum(table.num_rows for table in tables)} rows of {len(tables)} batches>"

    def __reduce__(self) -> tuple[Any, ...]:
        return MemorySink, ()  # workers need the topology, not the rows


def begin_in_memory(sink: MemorySink, place: str, last: str | None) -> None:
    """Called when a run begins: forgets the rows of runs on other checkpoints, and of batches that the checkpoint
    lacks. ``last``: key of its last batch; None if it is new."""
    for key in [key for key in sink.batches if last is None or sink._writers.checkpoint != place or key > last]:
        del sink.batches[key]
    sink._writers.checkpoint = place


_CLAIMING = Lock()


def claim_memory(sink: MemorySink, place: str) -> bool:
    """Returns True if a run may write into a sink until ``release_memory``: no run on another checkpoint does.

    Two runs on one checkpoint may, while one takes it over from the other: only one of them commits.
    """
    with _CLAIMING:
        if any(other != place for other in sink._writers.running):
            return False
        sink._writers.running.append(place)
        return True


def release_memory(sink: MemorySink, place: str) -> None:
    """Lets runs on other checkpoints write into a sink."""
    with _CLAIMING:
        sink._writers.running.remove(place)


@dataclass(frozen=True)
class FunctionSink:
    """Calls a user's function once for each batch with rows."""

    function: Callable[[Any, int], None]
    frame: str

    def __repr__(self) -> str:
        return fields_repr(self)

    def check(self) -> None:
        """Raises ConfigError for a sink that cannot work."""
        if not callable(self.function):
            raise ConfigError(f"{self.function!r} cannot be called", do="give a function (frame, batch id)")


@dataclass(frozen=True)
class TableSink:
    """Appends to a table in the catalog of the Spark session."""

    table: str
    format: TableFormat | None = None
    """The format of a new table, which is made if there is none of this name."""

    def __repr__(self) -> str:
        return fields_repr(self)

    def check(self) -> None:
        """Does nothing: only the catalog knows the table."""


@dataclass(frozen=True)
class DiscardSink:
    """Discards rows. For benchmarks."""

    def check(self) -> None:
        """Does nothing: there is nothing to check."""


Sink = FileSink | ConsoleSink | MemorySink | FunctionSink | KafkaSink | TableSink | DiscardSink

TableFormat = Literal["delta", "iceberg", "parquet"]
"""The formats of tables that take each batch exactly once."""
TABLE_FORMATS: tuple[TableFormat, ...] = get_args(TableFormat)


@checked_value
def files(path: str | os.PathLike[str], format: FormatName = "parquet", **options: Any) -> FileSink:
    """Parquet, CSV, JSON lines or Arrow files in a folder.

    A file is named ``batch-<number>-<part>``. It is written under a hidden name and then renamed, so that readers see
    only complete files. A batch that runs again leaves the same rows and no other files.

    Options of CSV: ``delimiter=";"``, ``quote``, ``escape`` and ``encoding``, as for ``spouts.files``.
    ``escape_formulas=True``, for spreadsheets, puts an apostrophe before text that looks like a formula.
    """
    return FileSink(_folder(os.fspath(path)), file_format(format, "writing", files, **options))


def _folder(path: str) -> str:
    """Returns a user's folder as an absolute path or a URI. ``file:/out`` and ``dbfs:/out``, as Spark writes them,
    become local folders. Raises ConfigError for a blank name, which would mean the current folder."""
    if not path.strip():
        raise ConfigError(
            f"files({path!r}) names no folder",
            why="the sink writes files into a folder; perhaps a variable in its name is not set",
            do="name a folder, such as out/",
        )
    return path if "://" in path else shown_path(path)


@checked_value
def table(name: str, format: TableFormat | None = None) -> TableSink:
    """Append to a table of Spark's catalog, such as ``"shop.revenue"``; each batch exactly once, whatever crashes.

    The table is a Delta table, an Iceberg table, or a Parquet table without partition columns. It has the columns of
    the rows, with the same types; further columns get null. With ``format``, a missing table is made before the first
    batch. Only on Spark: the catalog belongs to the run's session.

    A Delta table gets each batch as a transaction (``txnAppId``, ``txnVersion``), an Iceberg table as a snapshot that
    names the batch. A Parquet table gets files ``batch-<number>-<part>``, which are renamed to these names when the
    batch is committed. Readers of Delta and Iceberg tables see only complete batches. Only one checkpoint may write to
    a Parquet table.
    """
    if not name.strip():
        raise ConfigError(f"table({name!r})", why="a table has a name", do="name it: table('shop.revenue')")
    if format is not None and format not in TABLE_FORMATS:
        raise ConfigError(
            f"table(..., format={format!r})",
            why="each batch can be appended exactly once to " + ", ".join(TABLE_FORMATS),
            do="use one of these; for others write a function: foreach_batch(function)",
        )
    return TableSink(name.strip(), format)


@checked_value
def console(rows: int = 20) -> ConsoleSink:
    """Print up to ``rows`` rows of each batch."""
    if rows < 1:
        raise ConfigError(f"console(rows={rows})", why="it prints the first rows of a batch", do="give 1 or more")
    return ConsoleSink(rows)


@checked_value
def memory() -> MemorySink:
    """Keep the rows in memory: ``sink.rows`` and ``sink.table``.

    They are those of the runs on one checkpoint, in this process: a run on a new checkpoint, on another one than the
    run before, or without one, begins with an empty sink.
    """
    return MemorySink()


@checked_value
def foreach_batch(
    function: Callable[[Any, int], None], frame: Literal["spark", "arrow", "pandas"] = "spark"
) -> FunctionSink:
    """Call ``function(frame, batch id)`` for each batch that has rows. Ids increase and are unique to a batch.

    ``frame``: ``"spark"`` for a Spark DataFrame whose rows stay with the workers, ``"arrow"`` for a pyarrow table, or
    ``"pandas"``. A batch is committed after its function has returned, so after a crash it may come again, with the
    same id and the same rows. A function that stores its output under the id, and replaces or skips an existing id,
    stores it once. After going back, a reset or a repair, a batch comes with the same id and other rows; a function
    that skips it then loses these rows.
    """
    if frame not in ("spark", "arrow", "pandas"):
        raise ConfigError(
            f"frame={frame!r}",
            why="it is the kind of table that the function gets",
            do="use 'spark', 'arrow' or 'pandas'",
        )
    return FunctionSink(function, frame)


@checked_value
def kafka(
    servers: str | Sequence[str],
    topic: str | None = None,
    *,
    format: TopicFormat | None = None,
    registry: str | Mapping[str, Any] | Registry | None = None,
    schemas: Schemas = "register",
    subject: Subject = "topic",
    schema_file: str | os.PathLike[str] | None = None,
    message: str | None = None,
    key: str | Sequence[str] = (),
    key_format: KeyForm | None = None,
    tombstones: str | None = None,
    headers: str | None = None,
    topics: Sequence[str] = (),
    options: Mapping[str, Any] | None = None,
) -> KafkaSink:
    """Records for Kafka; ``servers`` is ``"host:9092,host:9092"``.

    With ``format="json"``, ``"avro"``, ``"protobuf"`` or ``"json_schema"``, the columns of a row are the fields of the
    value. ``key="user_id"``, or a list of columns, also makes them the key. ``key_format`` is the form of the key: by
    default text, a whole number of 4 or 8 bytes, or bytes, by the type of a single column, and JSON for several
    columns. ``tombstones="deleted"`` names a boolean column: where it is true, the record has no value.
    ``headers="tags"`` names a column with the record's headers, a map or a list of ``key`` and ``value``. Neither
    column is a field of the value.

    ``registry=`` is the address of a schema registry, or the settings of confluent-kafka's client. The schema is made
    from the columns, all fields of which may be null, and registered before the first batch. With ``schemas="latest"``,
    values are written by the latest registered schema instead. The subject is named after the ``"topic"``
    (``totals-value``), the ``"record"`` or the ``"topic_record"``; ``message="shop.Total"`` names the record.
    ``schema_file`` is for values without the frame of a registry: Avro's ``.avsc``, or a compiled descriptor with
    ``message=``.

    Without a format a row is a record, with the column ``value`` (string or binary). Optional columns are ``key``,
    ``headers`` (a list of ``key`` and ``value``, or a map), ``partition``, and ``topic``, which takes precedence over
    the topic of the sink.

    Each record has the header ``windbolt-id``; a record that is repeated after a crash has the same id. ``options`` are
    for Spark's connector, and also apply to local runs: ``{"kafka.compression.type": "zstd"}``. Before a run windbolt
    checks that ``topic`` exists, and the ``topics`` that rows may name.
    """
    keys = (key,) if isinstance(key, str) else tuple(key)
    format_arguments: dict[str, Any] = {
        "registry": registry,
        "schema_file": schema_file,
        "message": message,
        "key": keys or None,
        "key_format": key_format,
        "tombstones": tombstones,
        "headers": headers,
    }
    if format is None:
        refuse_without_format(format_arguments)
        records = None
    else:
        records = checked_records(topic, format, schemas=schemas, subject=subject, **format_arguments)
    return KafkaSink(checked_servers(servers), topic, checked_options(options), tuple(topics), records=records)


@checked_value
def discard() -> DiscardSink:
    """Discard the rows."""
    return DiscardSink()
