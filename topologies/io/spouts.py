"""Spouts, the sources of events, as users declare them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import pyarrow as pa

from topologies.io.file_spout import FileSpout, checked_zone
from topologies.io.formats import FormatName, file_format
from topologies.io.formats.declared_times import Times, check_kind, checked_times
from topologies.io.formats.event_files import COMPRESSIONS, OnTruncation, check_truncation, unread_compression
from topologies.io.formats.lines import LINE
from topologies.io.formats.write_table import format_of
from topologies.io.kafka import (
    Form,
    Isolation,
    KafkaSpout,
    Starting,
    checked_form,
    checked_metadata,
    checked_servers,
    checked_start,
    checked_topics,
    spout_options,
)
from topologies.io.paths import PASSED_OVER, is_never_input, matching_entries
from topologies.io.pulled import PulledSpout, RangedSpout
from topologies.io.spout_columns import (
    Defaults,
    checked_file_metadata,
    checked_partition_columns,
    with_partition_columns,
)
from topologies.io.topics.declared import (
    CHANGES,
    METADATA,
    Envelope,
    KeyForm,
    Registry,
    Tombstones,
    TopicFormat,
    checked_choice,
    checked_rows,
)
from windowing.calls import checked_value
from windowing.errors import ConfigError, SchemaError, did_you_mean
from windowing.reprs import call_repr, fields_repr
from windowing.schema import DEFAULT_STREAM, EmittedRows, SchemaLike, format_schema, parse_schema, tables


@dataclass(frozen=True)
class FrameSpout:
    """Reads a streaming DataFrame of Spark; its rows come through Arrow."""

    make: Callable[[Any], Any]
    declared: SchemaLike
    defaults: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Default values for columns."""

    def __repr__(self) -> str:
        return fields_repr(self)

    def outputs(self) -> dict[str, pa.Schema]:
        """The declared columns."""
        return {DEFAULT_STREAM: parse_schema(self.declared)}


@dataclass(frozen=True)
class MemorySpout:
    """Delivers batches from Python, each as a micro-batch. For tests and examples."""

    declared: SchemaLike
    batches: Sequence[EmittedRows] = field(default_factory=list)
    defaults: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Default values for columns."""

    def __repr__(self) -> str:
        named = {"defaults": self.defaults} if self.defaults else {}
        return call_repr("MemorySpout", self.declared, f"{len(self.batches)} batches", **named)

    def outputs(self) -> dict[str, pa.Schema]:
        """The declared columns."""
        return {DEFAULT_STREAM: parse_schema(self.declared)}

    def tables(self) -> list[pa.Table]:
        """Returns the batches as tables of the declared columns, with null where a default will be filled in."""
        schema = parse_schema(self.declared)
        defaults = Defaults.of(self.defaults, schema)
        return [one_table(defaults.completed(batch), schema) for batch in self.batches]


AnySpout = FileSpout | FrameSpout | KafkaSpout | MemorySpout | PulledSpout | RangedSpout


def on_truncation_of(spout: object) -> OnTruncation:
    """Returns a spout's action for times finer than microseconds; rows in Python have no such times."""
    return spout.on_truncation if isinstance(spout, FileSpout | KafkaSpout) else "cut"


@checked_value
def files(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    schema: SchemaLike | None = None,
    *,
    partition_columns: SchemaLike | None = None,
    defaults: Mapping[str, Any] | None = None,
    format: FormatName | None = None,
    files_per_batch: int | None = None,
    bytes_per_batch: int | None = None,
    metadata: bool | str | Iterable[str] = False,
    merge_by: str | None = None,
    timezone: str | None = None,
    times: Mapping[str, str] | None = None,
    on_missing: Literal["stop", "invalid"] = "stop",
    on_change: Literal["warn", "error", "ignore"] = "warn",
    on_truncation: OnTruncation = "cut",
    **options: Any,
) -> FileSpout:
    """Events from Parquet, CSV, JSON, Arrow, ORC or text files, in the order in which they were last changed.

    ``path`` is a file, a folder or a pattern (``orders/*.parquet``, ``orders/**/*.parquet``), or a list of these. A
    file that several of them match is read once. A folder that is named or matched gives its files, and those in its
    partition folders (``dt=2024-01-01/``), but not those in other subfolders. A part of the path without ``*`` and
    ``?`` means the file or folder with exactly that name, if there is one; ``[[]`` is a bracket. Names that begin with
    ``_`` or ``.``, or end in ``._COPYING_``, ``.tmp`` or ``.crc``, are skipped. ``format`` defaults to the suffix of
    the path. ``schema`` may be omitted for text, and for Parquet, Arrow and ORC if files already exist. A micro-batch
    reads new files up to ``bytes_per_batch`` (256 MiB as stored; at least one file) or ``files_per_batch``.
    ``metadata=True``, or a list, adds three columns: ``file_path``; ``file_modified``, the time of the file's last
    change, which is the arrival of events in Azure, ``presets.azure(arrival_field="file_modified")`` (AZ-1); and
    ``file_row``, the row's number in the file, from 0.

    ``partition_columns="dt date, hour int"``: columns with values from the names of a file's folders, as in
    ``events/dt=2024-01-01/hour=06/``; they come after those of the file. ``__HIVE_DEFAULT_PARTITION__`` is null,
    ``%3A`` is a colon, a date may be ``20240101``. A file is invalid if its folders lack a column without a default, or
    have a value of another type. A row is invalid if the file has a different value for the column.

    ``merge_by`` names a column, a timestamp or a whole number, by which the rows of a batch's files are merged, as if
    one log had been written into several files; without it rows arrive file by file. The rows of one file keep their
    order: a row with a smaller value than an earlier one, with null, or that is unreadable, stays with the row before
    it. At equal values the file that is read first comes first.

    ``defaults={"currency": "EUR"}``: the values for rows without a value in a column, because it is null or the file
    lacks the column. A Parquet, CSV, Arrow or ORC file that lacks a column without a default is invalid.

    ``timezone="America/New_York"``: the zone of times without a zone, in text and other columns; by default UTC. A
    local time that occurs twice is the first of the two. A skipped local time uses the offset before the clock change.

    ``times={"ts": "%d/%m/%Y %I:%M %p", "at": "s"}``: the form of a column's times, if it is neither ISO 8601 nor
    milliseconds since 1970: a format of Python's ``strptime``, with English names; or the unit of numbers, ``"s"``,
    ``"ms"``, ``"us"`` or ``"ns"``. A value in another form makes its row bad, and so does a day that does not exist.

    Times have microseconds. Finer times, in texts or in columns of nanoseconds, are cut towards the past, and their
    rows are counted as ``truncated``; with ``on_truncation="error"`` such rows are invalid.

    Further options depend on the format. For CSV: ``delimiter=";"``; ``decimal_point=","`` for numbers such as ``1,5``;
    ``null_values=["-", "n/a"]``, unquoted spellings of null besides the empty one; ``quote="'"``, or None;
    ``escape="\\\\"`` for files that escape a quote within a value with a backslash instead of doubling it, and
    ``escape_unquoted=False`` if a backslash outside quotes is an ordinary character, as in Spark's files;
    ``comment="#"``; ``skip_rows``, lines before the header; ``encoding``. For CSV and JSON: ``longest_row``, in bytes
    (16 MiB), and ``block_size``, the bytes that are read at a time. ``json`` is a file with one array of objects, or
    JSON lines. ``text`` has a row for each line, in the column ``line``; its options are ``encoding``,
    ``keep_line_ends``, ``longest_row`` and ``block_size``. CSV, JSON and text may be compressed, with the file endings
    ``.gz``, ``.bz2``, ``.lz4``, ``.zst``.

    A file that cannot be reached is retried several times, and then stops the run; a later run reads it. The same holds
    for a file that was deleted after it was listed; with ``on_missing="invalid"`` that counts as an invalid file.

    Each file is read once. A file that changes afterwards is reported in the warnings of the run and counted in
    ``changed_files``; ``on_change="error"`` ends the run, and ``on_change="ignore"`` reports nothing.
    """
    paths = _paths(path)
    text = ", ".join(paths)
    for each in paths:
        _check_name(each)
    name = format or _format_of_all(paths)
    _check_limits(text, files_per_batch, bytes_per_batch)
    _check_choices(text, on_missing, on_change, options)
    _check_merged(merge_by, defaults)
    # The format "text" has no times, so it refuses that option.
    reader_options: dict[str, Any] = (
        {} if name == "text" and on_truncation == "cut" else {"on_truncation": on_truncation}
    )
    folders = checked_partition_columns(partition_columns)
    time_forms = checked_times(times)
    file_times = tuple((column, form) for column, form in time_forms if column not in folders.names)
    if file_times:
        reader_options["times"] = _times_of_files(file_times, schema, name)
    return _check_spout(
        FileSpout(
            paths,
            declared=_checked_lines(schema, options) if name == "text" else schema,
            format=file_format(name, "reading", files, **reader_options, **options),
            files_per_batch=files_per_batch,
            bytes_per_batch=bytes_per_batch,
            metadata=checked_file_metadata(metadata),
            partition_columns=partition_columns,
            partition_times=_times_for(time_forms, folders),
            merge_by=merge_by,
            on_missing=on_missing,
            on_change=on_change,
            timezone=checked_zone(timezone),
            defaults=dict(defaults or {}),
        )
    )


def _times_of_files(times: Times, schema: SchemaLike | None, name: str) -> Times:
    """Returns the forms of time columns in files. Raises ConfigError for a column that is not declared as a time."""
    if name == "text":
        raise ConfigError(
            f"files(..., format='text', times={dict(times)!r:.60})",
            why="a row of text is a line, which has no times",
            do="let the bolt that takes lines apart read the times, or give another format",
        )
    if schema is None:
        raise ConfigError(
            f"files(..., times={dict(times)!r:.60}) without a schema",
            why="without one a column has the type of the files, which is no time where it needs a form",
            do="declare the columns: files(..., 'user string, ts timestamp', times=...)",
        )
    return _checked_times(times, parse_schema(schema))


def _checked_times(times: Times, declared: pa.Schema) -> Times:
    for name, _ in times:
        if name not in declared.names:
            raise ConfigError(
                f"times= names {name!r}, which is not a column{did_you_mean(name, declared.names)}",
                why=f"the columns are {', '.join(declared.names)}",
                do="name a declared column; a time within a struct, a list or a map is declared as string, and read "
                "in a bolt",
            )
    return _times_for(times, declared)


def _times_for(times: Times, columns: pa.Schema) -> Times:
    """Returns the forms for these columns only. Raises ConfigError for a column whose type has no such form."""
    found = tuple((name, form) for name, form in times if name in columns.names)
    for name, form in found:
        check_kind(name, form, columns.field(name).type)
    return found


def _paths(path: object) -> tuple[str, ...]:
    """Returns a user's paths as texts."""
    given = [path] if isinstance(path, str | os.PathLike) else list(path)  # type: ignore[call-overload]
    wrong = [each for each in given if not isinstance(each, str | os.PathLike) or not os.fspath(each).strip()]
    if wrong or not given:
        raise ConfigError(
            f"files({path!r:.60})",
            why="it reads a path, or several of them, of which none is blank" if given else "it reads nothing",
            do="give a path, or a list of paths",
        )
    return tuple(os.fspath(each) for each in given)


def _checked_lines(schema: SchemaLike | None, options: Mapping[str, Any]) -> SchemaLike:
    """Returns the column of text files. Raises ConfigError for any other column."""
    schema = f"{LINE} string" if schema is None else schema
    declared = parse_schema(schema)
    kinds = (pa.string(), pa.binary())
    if declared.names != [LINE] or declared.field(LINE).type not in kinds:
        raise ConfigError(
            f"files(..., {format_schema(declared)!r}, format='text')",
            why="a row of text is a line, in the column 'line'; files whose names end in .txt or .log are text",
            do="leave the schema out, or declare 'line string' or 'line binary'; for columns give another format",
        )
    if declared.field(LINE).type == pa.binary() and "encoding" in options:
        raise ConfigError(
            f"files(..., 'line binary', encoding={options['encoding']!r})",
            why="bytes are what stands in the file",
            do="declare 'line string', or leave the encoding out",
        )
    return schema


def _format_of_all(paths: Sequence[str]) -> str:
    """Returns the format for the suffixes of the paths. Raises ConfigError if there is none, or more than one."""
    found = {path: format_of(path) or _format_inside(path) for path in paths}
    names = {name: path for path, name in found.items() if name is not None}
    if len(names) > 1:
        several = " and ".join(f"{path!r} ({name})" for name, path in names.items())
        raise ConfigError(
            f"files([...]) reads {several}",
            why="the files of a spout have one format",
            do="give each format a spout of its own; a bolt may read several",
        )
    for path, name in found.items():
        if name is None and (not names or _holds_several(path)):
            raise ConfigError(
                f"files({path!r}): the format cannot be told from the path",
                do="end the path in *.parquet, *.csv, *.jsonl, *.json, *.arrow, *.orc or *.txt, or give format=...",
            )
    return next(iter(names))


def _holds_several(path: str) -> bool:
    """True for a folder with files of several formats."""
    return len(_formats_inside(path)) > 1


def _check_name(text: str) -> None:
    """Raises ConfigError for files that are never read because of their names."""
    end = unread_compression(text)
    if end is not None and not os.path.isdir(text):
        raise ConfigError(
            f"files({text!r}) cannot be decompressed",
            why=f"files in {end} are not read",
            do=f"compress them in another way: {', '.join(COMPRESSIONS)}",
        )
    files = format_of(text) is not None or text.endswith(PASSED_OVER)
    if files and is_never_input(text) and not os.path.isdir(text):
        raise ConfigError(
            f"files({text!r}) would read nothing",
            why="names that begin with _ or . or end in " + ", ".join(PASSED_OVER) + " are passed over: programs give "
            "them to files that are not complete, or not input",
            do="rename the files",
        )


def _check_limits(text: str, files_per_batch: int | None, bytes_per_batch: int | None) -> None:
    """Raises ConfigError if both limits of a batch are set, or one is not a number above 0."""
    for limit, most in (("files_per_batch", files_per_batch), ("bytes_per_batch", bytes_per_batch)):
        if most is not None and (type(most) is not int or most < 1):
            raise ConfigError(f"{limit}={most!r}", why="a batch reads at least that", do="give a whole number above 0")
    if files_per_batch is not None and bytes_per_batch is not None:
        raise ConfigError(
            f"files({text!r}) with files_per_batch and bytes_per_batch",
            why="Spark limits a micro-batch by only one of them",
            do="leave one of them out",
        )


def _check_choices(text: str, on_missing: str, on_change: str, options: Mapping[str, Any]) -> None:
    """Raises ConfigError for invalid arguments of the file reader."""
    if on_missing not in ("stop", "invalid"):
        raise ConfigError(
            f"files({text!r}) with on_missing={on_missing!r}",
            why="a deleted file either stops the run or is counted as invalid",
            do="use 'stop' or 'invalid'",
        )
    if on_change not in ("warn", "error", "ignore"):
        raise ConfigError(
            f"files({text!r}) with on_change={on_change!r}",
            why="of a file that was changed after it was read a run warns, or it ends there, or it says nothing",
            do="use 'warn', 'error' or 'ignore'",
        )
    if "escape_formulas" in options:
        raise ConfigError(
            f"files({text!r}) with escape_formulas",
            why="it applies to files that are written",
            do="leave it out here, and give it to the sink: sinks.files(..., escape_formulas=True)",
        )


def _check_merged(merge_by: str | None, defaults: Mapping[str, Any] | None) -> None:
    """Raises ConfigError for a default in the column by which rows are merged."""
    if merge_by is not None and merge_by in (defaults or {}):
        raise ConfigError(
            f"merge_by={merge_by!r}, and a default for {merge_by!r}",
            why="a row without a value there stays with the row before it; a default would move it elsewhere",
            do="leave the column out of the defaults, or merge by another one",
        )


DeclaredSpout = TypeVar("DeclaredSpout", FileSpout, FrameSpout, KafkaSpout, MemorySpout)


def _check_spout(spout: DeclaredSpout) -> DeclaredSpout:
    """Returns the spout. Raises ConfigError for defaults that its columns cannot have, and for a partition column that
    is also a column of the files. ``build()`` checks columns that only the files know."""
    if isinstance(spout, FileSpout):
        partitions = spout.partitions
        if spout.declared is not None:
            with_partition_columns(parse_schema(spout.declared), partitions)
    if spout.defaults and (spout.declared is not None or isinstance(spout, KafkaSpout)):
        Defaults.of(spout.defaults, spout.outputs()[DEFAULT_STREAM])
    return spout


@checked_value
def stream(
    make: Callable[[Any], Any] | Any,
    schema: SchemaLike | None = None,
    *,
    defaults: Mapping[str, Any] | None = None,
) -> FrameSpout:
    """Events from a streaming DataFrame, for example of Delta, Iceberg, Kafka or a Python data source, filtered or
    joined.

    ``make`` is the DataFrame, or a function that takes the SparkSession and returns the DataFrame, for a topology in a
    file of its own. ``schema`` names the columns to read, with their types or wider ones; by default all columns are
    read. Then a function is called at once, so a session has to be active. ``defaults={"currency": "EUR"}``: the values
    for rows without a value in a column, because it is null or the DataFrame lacks the column.
    """
    if callable(make):
        declared = _schema_of_frame(_make_frame(make)) if schema is None else schema
        return _check_spout(FrameSpout(make, declared, dict(defaults or {})))
    frame = make
    check_streaming(frame)
    declared = _schema_of_frame(frame) if schema is None else schema
    return _check_spout(FrameSpout(lambda _: frame, declared, dict(defaults or {})))


@checked_value
def kafka(
    servers: str | Sequence[str],
    topics: str | Iterable[str] | None = None,
    schema: SchemaLike | None = None,
    *,
    defaults: Mapping[str, Any] | None = None,
    pattern: str | None = None,
    starting: Starting = "earliest",
    records_per_batch: int | None = None,
    isolation: Isolation = "read_committed",
    format: TopicFormat = "json",
    registry: str | Mapping[str, Any] | Registry | None = None,
    schema_file: str | os.PathLike[str] | None = None,
    message: str | None = None,
    envelope: Envelope | None = None,
    tombstones: Tombstones | None = None,
    key: KeyForm | None = None,
    key_columns: SchemaLike | None = None,
    value: Form = "binary",
    metadata: bool | str | Iterable[str] = False,
    timezone: str | None = None,
    times: Mapping[str, str] | None = None,
    on_truncation: OnTruncation = "cut",
    options: Mapping[str, Any] | None = None,
) -> KafkaSpout:
    """Events from Kafka; ``servers`` is ``"host:9092,host:9092"``.

    ``topics`` is one name or several; ``pattern`` is a regular expression for topic names instead. Without ``schema`` a
    row is a record: ``topic``, ``partition``, ``offset``, ``timestamp``, ``key``, ``value``, ``headers``;
    ``key="text"`` and ``value="text"`` turn bytes into strings. With ``schema`` the value is a JSON object, read by the
    rules of JSON lines. ``metadata=True``, or a list, adds ``kafka_topic``, ``kafka_partition``, ``kafka_offset``,
    ``kafka_timestamp`` and ``kafka_key`` (text); only a list can add ``kafka_headers``, a ``map<string, binary>``. A
    record that cannot be read is a bad row with its topic, partition and offset.

    ``format="avro"``, ``"protobuf"`` or ``"json_schema"``: the format of the values. ``registry=`` is the address of
    the schema registry, or the settings of confluent-kafka's client for it: ``{"url": ..., "basic.auth.user.info":
    ...}``. Each value is read by the schema of its writer. Columns are fields by name, null if that schema lacks the
    field, and converted if nothing is lost. ``schema_file="order.avsc"``, or a compiled descriptor and
    ``message="shop.Order"``, is for values without the frame of a registry.

    ``envelope="connect"``: JSON of Kafka Connect, ``{"schema": ..., "payload": ...}``. ``envelope="debezium"``: the row
    of a Debezium change, as it is after the change, or before its deletion. ``metadata=["debezium_op"]`` adds ``c``,
    ``u``, ``d`` or ``r``, and ``"debezium_ts"`` the time when Debezium saw the change. ``tombstones``, which are
    records without a value, are ``"invalid"``; ``"rows"`` with nulls in the value's columns; or skipped and counted,
    ``"skip"``, which is the default with Debezium's envelope.

    ``key_columns="user_id long"``: columns from the keys, whose form is ``key=``: ``"text"``, ``"binary"``, ``"int"``
    and ``"long"`` (4 and 8 bytes, as Kafka's serializers write them), ``"json"``, ``"avro"``, ``"protobuf"`` or
    ``"json_schema"``. A record without a key has nulls in these columns.

    ``defaults={"currency": "EUR"}``: the values for rows without a value in a column, because it is null or the
    record's value lacks the field.

    ``timezone``: the zone of times without a zone; ``times``: the forms of columns' times; ``on_truncation``: the
    action for times finer than microseconds. All are as for ``files``, and need a ``schema``.

    ``starting`` is where a run with a new checkpoint begins: ``"earliest"``, ``"latest"``, a datetime (at the first
    record from that time on), or ``{topic: {partition: offset}}``. ``records_per_batch`` limits a micro-batch
    (500,000). Of transactions, only committed records are read, and none behind an open transaction; with
    ``isolation="read_uncommitted"`` all records are read, even those that are aborted later. ``options`` are for
    Spark's connector: ``{"kafka.security.protocol": "SASL_SSL"}``. Local runs, which need the package confluent-kafka
    (``windbolt[kafka]``), follow options that have an equivalent, and refuse others.
    """
    names = checked_topics(topics, pattern)
    checked_form("value", value)
    checked_choice("isolation", isolation, Isolation)
    columns = checked_metadata(metadata, CHANGES.names if envelope == "debezium" else ())
    _check_records(schema, key, value, columns, records_per_batch)
    _check_times(schema, timezone, times, on_truncation)
    rows = {
        "format": format,
        "registry": registry,
        "schema_file": schema_file,
        "message": message,
        "envelope": envelope,
        "tombstones": tombstones,
        "key_columns": key_columns,
    }
    if schema is None:
        _refuse_rows({**rows, "format": None if format == "json" else format})
    row_options = checked_rows(key=key, metadata=columns, defaults=bool(defaults), **rows)  # type: ignore[arg-type]
    return _check_spout(
        KafkaSpout(
            checked_servers(servers),
            topics=names,
            pattern=pattern,
            declared=schema,
            metadata=tuple(name for name in columns if name in METADATA),
            changes=tuple(name for name in columns if name not in METADATA),
            key=key,
            key_columns=key_columns,
            value=value,
            format=format,
            registry=row_options.registry,
            schema_file=row_options.schema_file,
            message=message,
            envelope=envelope,
            tombstones=row_options.tombstones,
            starting=checked_start(starting, names),
            records_per_batch=records_per_batch,
            options=spout_options(options, isolation),
            timezone=checked_zone(timezone),
            times=() if schema is None else _checked_times(checked_times(times), parse_schema(schema)),
            on_truncation=on_truncation,
            defaults=dict(defaults or {}),
        )
    )


def _refuse_rows(given: Mapping[str, Any]) -> None:
    """Raises ConfigError for arguments about values if no values are read."""
    for name, value in given.items():
        if value is not None:
            raise ConfigError(
                f"kafka() with {name}= and without a schema",
                why="without a schema the rows are the records, of whose values nothing is read",
                do=f"declare the columns: kafka(servers, topic, 'id long, amount double', {name}=...)",
            )


def _check_records(
    schema: SchemaLike | None, key: KeyForm | None, value: Form, columns: tuple[str, ...], records_per_batch: int | None
) -> None:
    """Raises ConfigError for conflicting arguments of ``kafka``."""
    if schema is not None and value != "binary":
        raise ConfigError(
            "kafka() with a schema, and with value=",
            why="with a schema the columns are in the value",
            do="leave it out; format='avro' and the like say how the value is written",
        )
    if schema is None and key not in (None, "binary", "text"):
        raise ConfigError(
            f"kafka() with key={key!r:.60} and without a schema",
            why="without a schema the rows are the records, whose key is bytes, or text",
            do="use 'binary' or 'text', or declare the columns of the values",
        )
    if schema is None and columns:
        raise ConfigError(
            "kafka() with metadata and without a schema",
            why="without a schema the rows are the records, with all metadata",
            do="leave metadata out, or give a schema",
        )
    if records_per_batch is not None and records_per_batch < 1:
        raise ConfigError(
            f"records_per_batch={records_per_batch}", why="a batch reads at least one record", do="use 1 or more"
        )


def _check_times(
    schema: SchemaLike | None, timezone: str | None, times: Mapping[str, str] | None, on_truncation: OnTruncation
) -> None:
    """Raises ConfigError for a zone, or a rule for nanoseconds, if no text is read."""
    check_truncation(on_truncation)
    if schema is None and on_truncation != "cut":
        raise ConfigError(
            f"kafka() with on_truncation={on_truncation!r} and without a schema",
            why="without a schema the rows are the records, whose timestamps have milliseconds",
            do="leave on_truncation out, or give a schema",
        )
    if schema is None and times:
        raise ConfigError(
            f"kafka() with times={dict(times)!r:.60} and without a schema",
            why="without a schema the rows are the records, of whose values nothing is read",
            do="leave times out, or give a schema",
        )
    if schema is None and timezone is not None:
        raise ConfigError(
            f"kafka() with timezone={timezone!r} and without a schema",
            why="without a schema the rows are the records, whose timestamps are UTC",
            do="leave timezone out, or give a schema",
        )


@checked_value
def memory(schema: SchemaLike, *batches: EmittedRows, defaults: Mapping[str, Any] | None = None) -> MemorySpout:
    """Events given in Python: each batch is a list of dicts or tuples, a pyarrow table or a DataFrame.

    ``defaults={"currency": "EUR"}``: the values for rows without a value in a column, because it is None or the dict or
    table lacks the column. The rows of a generator are read at once, so that each run has them.
    """
    batches_read = tuple(list(map(deepcopy, batch)) if isinstance(batch, Iterator) else batch for batch in batches)
    return _check_spout(MemorySpout(schema, batches_read, dict(defaults or {})))


def _format_inside(path: str) -> str | None:
    formats = _formats_inside(path)
    return formats.pop() if len(formats) == 1 else None


def _formats_inside(path: str) -> set[str]:
    """Returns the formats of the files in a folder, as far as their names tell."""
    if not os.path.isdir(path):
        return set()
    formats = {format_of(entry.path) for entry in matching_entries([path]) if not is_never_input(entry.path)}
    return {each for each in formats if each is not None}


def _make_frame(make: Callable[[Any], Any]) -> Any:
    """Returns the DataFrame of a function, called with the active session."""
    # If pyspark is not imported there is no session; importing it takes a second.
    pyspark = sys.modules.get("pyspark.sql")
    session = None if pyspark is None else pyspark.SparkSession.getActiveSession()
    if session is None:
        raise ConfigError(
            "stream(function) without a schema, and no Spark session is active",
            why="the columns are those of the DataFrame that the function makes, and nobody has started Spark yet",
            do="start a session before, or declare the columns: stream(function, 'user string, ts timestamp')",
        )
    frame = make(session)
    check_streaming(frame)
    return frame


def check_streaming(frame: Any, call: str = "stream") -> None:
    """Raises ConfigError for a value that is not a streaming DataFrame; ``call``: the user's function that took it."""
    if not hasattr(frame, "isStreaming") or not frame.isStreaming:
        given = "a DataFrame that is no stream" if hasattr(frame, "isStreaming") else f"a {type(frame).__name__}"
        raise ConfigError(
            f"{call}(...) was given {given}",
            why="its rows would come once, and never again",
            do="read it with spark.readStream, or files with spouts.files(); what is no stream can be joined to one",
        )


def _schema_of_frame(frame: Any) -> pa.Schema:
    """Returns the columns of a DataFrame. Raises SchemaError for a type that windbolt does not support."""
    declared: list[str] = []
    for column in frame.schema:
        kind = column.dataType.simpleString()
        try:
            declared.append(f"{_quoted(column.name)} {_type_of(column.dataType)}")
            parse_schema(declared[-1])
        except ConfigError as error:
            raise SchemaError(
                f"column {column.name!r} of the DataFrame is {kind}, which windbolt does not have",
                why=error.why or error.what,
                do=f"select what is needed of it: frame.withColumn({column.name!r}, ...cast('string')), or leave it "
                f"out: frame.drop({column.name!r}), or name the columns to read: stream(frame, 'user string')",
            ) from error
    return parse_schema(", ".join(declared))


def _type_of(kind: Any) -> str:
    """Returns a Spark type as a declaration; Spark's own text leaves names of fields unquoted."""
    match kind.typeName():
        case "array":
            return f"array<{_type_of(kind.elementType)}>"
        case "map":
            return f"map<{_type_of(kind.keyType)}, {_type_of(kind.valueType)}>"
        case "struct":
            return f"struct<{', '.join(f'{_quoted(field.name)}: {_type_of(field.dataType)}' for field in kind)}>"
    return str(kind.simpleString())


def _quoted(name: str) -> str:
    inside = name.replace("`", "``")
    return f"`{inside}`"


def one_table(batch: EmittedRows, schema: pa.Schema) -> pa.Table:
    """Returns rows as a table with these columns. Raises SchemaError for other columns."""
    outputs: Mapping[str, pa.Schema] = {DEFAULT_STREAM: schema}
    try:
        parts = [table for _, table in tables(batch, outputs)]
    except SchemaError as error:
        about_column = error.what.startswith("column")  # else the text is about a bolt's return value
        raise SchemaError(
            f"the rows given are not of the columns {format_schema(schema)!r}",
            why=f"{error.what}: {error.why}" if about_column else error.why,
            do="give rows of these columns and types",
        ) from error
    return pa.concat_tables(parts) if parts else schema.empty_table()
