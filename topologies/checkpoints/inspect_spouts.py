"""Findings about a topology's spouts without a run: whether there is input, and its first rows."""

from __future__ import annotations

import json
import os
import re
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, redirect_stdout, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from types import MappingProxyType
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc

from manager.remote import is_caused_by_event
from manager.storage.hdfs import is_hdfs
from topologies.engine.event_times import misread_numbers, read_times
from topologies.engine.failures import failed
from topologies.engine.kafka_records import check_topics, ranges_between
from topologies.engine.librdkafka import Admins, RangeReader, Topics, check_spout_options, has_confluent
from topologies.engine.pulling import Puller, RangePlanner, copy_for_calls, ranges_in, read_range
from topologies.graph.graph import Graph, SpoutNode, Stream, WindowedNode
from topologies.io.file_spout import FileSpout, FoundFile, chunks_of
from topologies.io.formats import FileSplit
from topologies.io.formats.declared_times import AS_WRITTEN, form_of, is_unit, unit_in_words
from topologies.io.formats.event_files import as_unreachable_error, open_file, python_columns, python_value, short_repr
from topologies.io.formats.text_values import parse_text
from topologies.io.kafka import KafkaSpout
from topologies.io.paths import entry_at, is_never_input, locate_file, path_before_pattern
from topologies.io.pulled import PulledSpout, RangedSpout
from topologies.io.spout_columns import undeclared
from topologies.io.spouts import MemorySpout
from topologies.io.topics.decode import TOMBSTONE
from windowing.errors import (
    USER_EXCEPTIONS,
    ConfigError,
    DataError,
    SpoutError,
    UnreachableError,
    WindboltError,
    did_you_mean,
)
from windowing.events import Tuple
from windowing.schema import DEFAULT_STREAM
from windowing.timestamps import from_column, from_datetime, is_time, show

# Findings about a part of a topology.


@dataclass(frozen=True)
class Findings:
    """Facts about a spout or a sink, problems that would make a run fail, and warnings of probable mistakes."""

    facts: tuple[tuple[str, str], ...] = ()
    """Pairs of a label and a fact: ``("read", "8 rows")``."""
    problems: tuple[WindboltError, ...] = ()
    warnings: tuple[WindboltError, ...] = ()


# Missing input, for both engines.


def refuse_missing_input(topology: Graph) -> None:
    """Raises ConfigError if the local files of a spout, or the folder of its pattern, do not exist. Raises
    UnreachableError if that cannot be determined."""
    for name, node in topology.spouts.items():
        if isinstance(node.spout, FileSpout) and node.spout.is_here:
            refuse_missing(name, node.spout)


def refuse_missing(name: str, spout: FileSpout) -> None:
    """Raises the error of ``missing_input`` for a spout, if there is one."""
    problem = missing_input(name, spout)
    if problem is not None:
        raise problem


def missing_input(name: str, spout: FileSpout) -> ConfigError | None:
    """Returns an error if the file or folder of a spout, or the folder before its pattern, does not exist; else
    None."""
    for spout_path in spout.paths:
        path, is_pattern = path_before_pattern(spout_path)
        entry = entry_at(path)
        exists = entry is not None and (entry.is_folder or not is_pattern)
        if exists or (is_pattern and "://" in path and not is_hdfs(path)):  # stores have no empty folders
            continue
        return ConfigError(
            f"spout {name!r} reads {spout_path!r}, and {path!r} is not there",
            why="the run would end successfully without having read anything"
            + (" of it" if len(spout.paths) > 1 else ""),
            do="make the folder before the run, or correct the path",
        )
    return None


# Reads the first rows of a spout, without a run.


MOST_ROWS, MOST_FILES = 1_000, 20
"""Most rows that are examined, and most files that are opened for them."""


@dataclass(frozen=True)
class FirstRows:
    """Rows from the beginning of a spout's input."""

    rows: pa.Table
    """Good rows, with the columns that files have."""
    reasons: tuple[str, ...] = ()
    """Reasons why other rows cannot be read."""

    @property
    def number(self) -> int:
        """Number of rows that were examined, good and bad."""
        return int(self.rows.num_rows) + len(self.reasons)


def first_rows_of_files(node: SpoutNode, spout: FileSpout, files: list[FoundFile]) -> FirstRows:
    """Reads some rows of the first files, in the order of a run.

    Raises DataError for a file that does not fit the spout, UnreachableError for a file that cannot be reached.
    """
    schema, defaults = spout.row_schema(node.outputs[DEFAULT_STREAM]), node.defaults
    rows, reasons = schema.empty_table(), list[str]()
    for file in files[:MOST_FILES]:
        with as_unreachable_error(file.path):
            filesystem, path = locate_file(file.path)
        for table, _, bad in chunks_of(spout, filesystem, FileSplit(path), schema, optional=defaults.columns.keys()):
            rows = pa.concat_tables([rows, defaults.filled(table.slice(0, MOST_ROWS))])
            reasons += bad.rows.column("reason").to_pylist()
            if len(rows) + len(reasons) >= MOST_ROWS:
                return FirstRows(rows.slice(0, max(MOST_ROWS - len(reasons), 1)), tuple(reasons[:MOST_ROWS]))
    return FirstRows(rows, tuple(reasons))


def first_rows_of_memory(node: SpoutNode, spout: MemorySpout) -> FirstRows:
    """Returns some rows of batches from Python. Raises SchemaError if they do not match the declaration."""
    tables = [spout.outputs()[DEFAULT_STREAM].empty_table(), *spout.tables()]
    return FirstRows(node.defaults.filled(pa.concat_tables(tables).slice(0, MOST_ROWS)))


def first_rows_of_users_spout(node: SpoutNode, spout: PulledSpout) -> FirstRows:
    """Returns the first rows of a user's spout, which is opened and closed again without acknowledging rows. Raises
    SpoutError for its exceptions."""
    with Puller(node.name, spout) as puller:
        pulled = puller.pull(MOST_ROWS)
    rows = node.outputs[DEFAULT_STREAM].empty_table() if pulled is None else pulled.rows
    return FirstRows(node.defaults.filled(rows.slice(0, MOST_ROWS)))


def first_rows_of_ranges(node: SpoutNode, spout: RangedSpout) -> tuple[FirstRows, int]:
    """Returns the first rows of a user's spout of partitions, and the number of its partitions, without acknowledging
    rows.

    Raises SpoutError for its exceptions, and if a second call returns other rows.
    """
    schema = node.outputs[DEFAULT_STREAM]
    with RangePlanner(node.name, spout) as planner:
        pulled = planner.pull(MOST_ROWS)
    ranges = [] if pulled is None else ranges_in(pulled.rows)
    tables = [schema.empty_table()]
    with copy_for_calls(node.name, spout.spout) as caller:
        for each in ranges:
            tables.append(read_range(caller, each, schema, node.defaults))
            if sum(map(len, tables)) >= MOST_ROWS:
                break
    for each, read_before in zip(ranges[:1], tables[1:], strict=False):
        with copy_for_calls(node.name, spout.spout) as caller:
            read_again = read_range(caller, each, schema, node.defaults)
            if repr(read_again.to_pylist()) != repr(read_before.to_pylist()):  # equals() treats NaN as unequal
                raise caller.error(
                    f"{each.call} returned other rows when it was called again",
                    why="what has crashed is read again: a batch would have other rows than before",
                    do="return the same rows in the same order, of these arguments alone; a source that cannot be "
                    "read again is a Spout",
                )
    rows = pa.concat_tables(tables)
    return FirstRows(node.defaults.filled(rows.slice(0, MOST_ROWS))), 0 if pulled is None else len(pulled.offset)


def first_rows_of_topics(topology: Graph, node: SpoutNode, spout: KafkaSpout) -> FirstRows:
    """Returns the rows of the first records that a new run would read. Raises ConfigError if a topic is missing,
    UnreachableError if Kafka does not respond soon."""
    soon = {"kafka.default.api.timeout.ms": str(int(_MOST_SECONDS / 3 * 1000)), "kafkaConsumer.pollTimeoutMs": "10000"}
    quick = replace(spout, records_per_batch=MOST_ROWS, options={**spout.options, **soon})
    admins = Admins()
    check_topics(admins.open, node.name, quick)
    topics = Topics(node.name, quick, admins)
    before = topics.start_offsets()
    ends, _ = topics.next_batch(before)
    with closing(RangeReader(node.name, quick, admins)) as reader:
        records, _ = reader.read(ranges_between(before, ends))
    batches = [batch for each in records for batch in each.read(topology)]
    tables = [batch.table for batch in batches] or [node.outputs[DEFAULT_STREAM].empty_table()]
    bad = [batch.bad for batch in batches if batch.bad is not None]
    reasons = [reason for rows in bad for reason in rows.column("reason").to_pylist()]
    return FirstRows(node.defaults.filled(pa.concat_tables(tables)), tuple(reasons))


# The keys of objects in JSON lines; other formats have column names of their own.


MOST_OBJECTS, MOST_FILES_OF_KEYS = 1_000, 20
"""Most objects that are examined completely, and most files that are opened for keys."""
_BLOCK_SIZE, _LONGEST_LINE = 1 << 18, 1 << 24
"""Bytes read at a time, and the longest line that is examined."""


def unknown_column_errors(node: SpoutNode, spout: FileSpout, files: list[FoundFile]) -> list[WindboltError]:
    """Returns an error for each declared column that no object in the files has. None for other formats, and for
    columns with a default.

    The first objects decide, except for columns that none of them has: for these all files are searched. Only Python
    reads the files, so that no file can kill this process. Raises UnreachableError for a file that cannot be reached.
    """
    if spout.format.name not in ("jsonl", "json"):
        return []
    number, keys = 0, dict[str, None]()
    for each in islice((each for file in files[:MOST_FILES_OF_KEYS] for each in _objects(file.path)), MOST_OBJECTS):
        number += 1
        keys.update(dict.fromkeys(each))
    declared = spout.row_schema(node.outputs[DEFAULT_STREAM]).names
    declared = [column for column in declared if column not in spout.partitions.names]
    others = [key for key in keys if key not in declared]
    missing = [column for column in declared if number and column not in keys and column not in node.defaults.columns]
    if number == MOST_OBJECTS or len(files) > MOST_FILES_OF_KEYS:
        missing = _in_no_file(missing, files)
    return [_unknown_column(node.name, number, column, others) for column in missing]


def _unknown_column(spout: str, number: int, column: str, other_keys: list[str]) -> WindboltError:
    beside = (
        f"the rows have {', '.join(other_keys[:5])}{', ...' if other_keys[5:] else ''} besides" if other_keys else ""
    )
    which = "no row has" if number > 1 else "the only row has no"
    return ConfigError(
        f"spout {spout!r}: {which} {column!r}{did_you_mean(column, other_keys)}",
        why="; ".join(part for part in ("its values are null", beside) if part),
        do="spell the column as in the input, or leave it out of the schema",
    )


def _in_no_file(columns: list[str], files: list[FoundFile]) -> list[str]:
    """Returns the columns that no object in any file has; the search ends when each has been found."""
    missing = list(columns)
    for file in files:
        if not missing:
            break
        missing = _not_in(file.path, missing)
    return missing


def _not_in(path: str, columns: list[str]) -> list[str]:
    """Returns the columns that no object of a file has. Only lines that may contain one are parsed."""
    missing = {column: json.dumps(column, ensure_ascii=False).encode() for column in columns}
    with as_unreachable_error(path):
        filesystem, inside = locate_file(path)
    with open_file(filesystem, inside, "JSON lines", streamed=True) as source:
        for block in _blocks(source):
            suspects = (*missing.values(), _ESCAPE)
            if not any(each in block for each in suspects):
                continue
            for line in block.split(b"\n"):
                if any(each in line for each in suspects):
                    keys = _object_of_line(line) or {}
                    missing = {column: name for column, name in missing.items() if column not in keys}
    return list(missing)


_ESCAPE = b"\\u"
"""Beginning of an escape, which may be part of a key."""


def _objects(path: str) -> Iterator[dict[str, object]]:
    """Yields the objects of a file's lines. A line without an object is a bad row, which is reported elsewhere."""
    with as_unreachable_error(path):
        filesystem, inside = locate_file(path)
    with open_file(filesystem, inside, "JSON lines", streamed=True) as source:
        for block in _blocks(source):
            for line in block.split(b"\n"):
                value = _object_of_line(line)
                if value is not None:
                    yield value


def _object_of_line(line: bytes) -> dict[str, object] | None:
    """Returns the object of a line; None if it has none."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _blocks(source: pa.NativeFile) -> Iterator[bytes]:
    """Yields whole lines, many at a time."""
    rest = b""
    while (block := source.read(_BLOCK_SIZE)) and len(rest) <= _LONGEST_LINE:
        lines, newline, rest = (rest + block).rpartition(b"\n")
        if newline:
            yield lines
    yield rest


# The columns of a spout that are event times for bolts: bolts that read the spout, and bolts behind plain bolts.


def direct_time_columns(topology: Graph, node: SpoutNode, schema: pa.Schema) -> list[str]:
    """Returns the columns on which bolts that read the spout directly depend."""
    return [name for name, plain_bolt in _time_columns(topology, node, schema).items() if not plain_bolt]


def time_columns_after_plain_bolts(topology: Graph, node: SpoutNode, schema: pa.Schema) -> dict[str, str]:
    """Returns the columns on which only bolts behind plain bolts depend, each with the first plain bolt, which may
    change it."""
    return {name: plain_bolt for name, plain_bolt in _time_columns(topology, node, schema).items() if plain_bolt}


def _time_columns(topology: Graph, node: SpoutNode, schema: pa.Schema) -> dict[str, str]:
    changed_by: dict[str, str] = {}
    for part in topology.windowed.values():
        field = part.bolt.settings.timestamp_field
        if field is None or field not in schema.names or not is_time(schema.field(field).type):
            continue
        for each in part.inputs:
            for plain_bolt in _first_plain_bolts(topology, (node.name, DEFAULT_STREAM), each.stream):
                changed_by[field] = min(plain_bolt, changed_by.get(field, plain_bolt))
    return changed_by


def _first_plain_bolts(topology: Graph, spout: Stream, stream: Stream) -> Iterator[str]:
    """Yields, for each path from the spout to a stream with its events, the first plain bolt of the path; "" for a path
    without plain bolts."""
    if stream == spout:
        yield ""
    node = topology.plain.get(stream[0])
    for each in () if node is None else node.inputs:
        yield from (plain_bolt or stream[0] for plain_bolt in _first_plain_bolts(topology, spout, each.stream))


# Calls timestamp extractors of bolts with the first rows of their spouts.


def findings_of_extractor(node: WindowedNode, spout: str, rows: pa.Table) -> Findings:
    """Returns the times from a bolt's extractor for the first rows of a spout, and the first rows on which it fails.

    A row without a time is a warning, because a run counts it as invalid. It is a problem if no row has a time, or if
    the extractor fails on a whole table. The extractor's output goes to standard error.
    """
    if not rows.num_rows:
        return Findings()
    with redirect_stdout(sys.stderr):
        try:
            times, reasons, _ = read_times(node, rows)
        except WindboltError as error:
            return Findings(problems=(error,))
        except USER_EXCEPTIONS as error:
            return Findings(problems=(_extractor_failure(node, spout, error, rows, "the first rows"),))
        rows_without_time = [] if reasons is None else [row for row, reason in enumerate(reasons) if reason]
        if not rows_without_time:
            warning = misread_numbers(f"bolt {node.name!r}", node, int(times.max()))
            span = f"{show(int(times.min()))} to {show(int(times.max()))}, for {node.name}"
            return Findings((("times", span),), warnings=() if warning is None else (warning,))
        errors = (_wrong_rows(node, spout, rows, rows_without_time, str(reasons[rows_without_time[0]])),)  # type: ignore[index]  # not None here
    return Findings(problems=errors) if len(rows_without_time) == rows.num_rows else Findings(warnings=errors)


def _wrong_rows(
    node: WindowedNode, spout: str, rows: pa.Table, rows_without_time: list[int], reason: str
) -> ConfigError:
    which = f"{len(rows_without_time):,} of the first {rows.num_rows:,} rows"
    error = (
        None
        if node.bolt.settings.extractor_on_columns
        else _exception_of_extractor(node, rows.slice(rows_without_time[0], 1))
    )
    if error is not None:
        return _extractor_failure(node, spout, error, rows, which)
    return ConfigError(
        f"the timestamp extractor of bolt {node.name!r} gives no usable time to {which} of {spout!r}",
        why=f"{reason}, first for row {rows_without_time[0]}",
        do="return a datetime or whole milliseconds for each event; a run counts such rows as invalid",
    )


def _exception_of_extractor(node: WindowedNode, row: pa.Table) -> BaseException | None:
    """Calls the extractor for a row and returns its exception, or None. The earlier call has kept only the text of the
    exception, not the line."""
    extractor = node.bolt.settings.timestamp_extractor
    assert extractor is not None
    try:
        extractor(Tuple(row.to_pylist()[0], 0, ""))
    except USER_EXCEPTIONS as error:
        return error
    return None


def _extractor_failure(node: WindowedNode, spout: str, error: BaseException, rows: pa.Table, which: str) -> ConfigError:
    settings = node.bolt.settings
    on_error = settings.extractor_on_error or ("stop" if settings.extractor_on_columns else "errors")
    stops = on_error == "stop" or not is_caused_by_event(error)
    return ConfigError(
        f"the timestamp extractor of bolt {node.name!r} fails on {which} of {spout!r}",
        why=failed(node.name, 0, which, error, columns=rows.column_names).why,
        do=f"correct it; a run {'stops at such rows' if stops else 'counts such rows as invalid'}",
    )


# How the times of text files are written, according to their first rows, and how they are read.


_MOST_TIMES, _MOST_CHUNKS = 1_000, 5
_NUMBER = re.compile(r"\s*[+-]?\d+(\.\d*)?([eE][+-]?\d+)?\s*")
_OFFSET = re.compile(r".*\d\s*([Zz]|[+-]\d\d(:?\d\d)?)\s*", re.DOTALL)
_DAY = re.compile(r"\s*\d{4}-\d\d-\d\d\s*")


def time_formats_in_words(node: SpoutNode, spout: FileSpout, files: list[FoundFile]) -> dict[str, str]:
    """Describes, for each column with times, the form of its first values and their reading; ``reasons`` cover
    unreadable values. Empty for formats with times of their own.

    Raises DataError and UnreachableError as reading does.
    """
    if not hasattr(spout.format, "times") or spout.format.name not in ("csv", "jsonl", "json"):
        return {}
    schema = spout.row_schema(node.outputs[DEFAULT_STREAM])
    columns = [
        field for field in schema if pa.types.is_temporal(field.type) and field.name not in spout.partitions.names
    ]
    if not columns:
        return {}
    names = [field.name for field in columns]
    texts = pa.schema([(name, pa.string()) for name in names])
    reader: Any = replace(spout.format, times=tuple((name, AS_WRITTEN) for name in names))  # type: ignore[type-var]
    rows = texts.empty_table()
    for file in files[:MOST_FILES]:
        with as_unreachable_error(file.path):
            filesystem, path = locate_file(file.path)
        read = reader.read(filesystem, FileSplit(path), texts, optional=node.defaults.columns)
        for table, _, _ in islice(read, _MOST_CHUNKS):
            rows = pa.concat_tables([rows, table])
        if len(rows) >= _MOST_TIMES:
            break
    rows = rows.slice(0, _MOST_TIMES)
    forms: Mapping[str, str] = dict(spout.format.times)
    return {
        field.name: _times_in_words(rows.column(field.name), field.type, forms.get(field.name), spout.timezone)
        for field in columns
    }


def _times_in_words(texts: pa.ChunkedArray, time_type: pa.DataType, form: str | None, zone: str | None) -> str:
    texts = pc.drop_null(texts).combine_chunks()
    if not len(texts):
        return "no values"
    moments, _ = parse_text(texts, time_type) if form is None else form_of(form).parse(texts, time_type)
    readable = texts.filter(pc.is_valid(moments)).to_pylist()
    if not readable:
        return ""
    zone_words = "" if pa.types.is_date(time_type) else f", in {zone or 'UTC'}"
    if form is not None:
        read = f"numbers of {unit_in_words(form)}" if is_unit(form) else f"{form!r}"
        zone_words = "" if is_unit(form) or "%z" in form else zone_words
        changed = _at_clock_changes(pc.drop_null(moments), zone) if zone_words else ""
        return f"written like {short_repr(readable[0])}, read as {read}{zone_words}{changed}"
    texts_by_reading: dict[str, list[str]] = {}
    for text in readable:
        texts_by_reading.setdefault(
            _reading_in_words(text, zone_words, is_date=pa.types.is_date(time_type)), []
        ).append(text)
    by_frequency = sorted(texts_by_reading.items(), key=lambda each: -len(each[1]))
    descriptions = [f"like {short_repr(each[0])}, {reading}" for reading, each in by_frequency]
    if len(by_frequency) > 1:
        descriptions = [f"{len(each):,} {text}" for text, (_, each) in zip(descriptions, by_frequency, strict=True)]
    without_offset = pa.array(
        [_reading_in_words(text, zone_words, is_date=not zone_words).startswith("without") for text in readable],
        pa.bool_(),
    )
    return "written " + "; ".join(descriptions) + _at_clock_changes(pc.drop_null(moments).filter(without_offset), zone)


def _at_clock_changes(local: pa.Array, zone: str | None) -> str:
    """Describes how many local times, given as if in UTC, occur twice or never in their zone."""
    if zone is None or not pa.types.is_timestamp(local.type):
        return ""
    twice = never = 0
    for moment in local.to_pylist():
        earlier_offset, later_offset = (moment.replace(tzinfo=ZoneInfo(zone), fold=fold).utcoffset() for fold in (0, 1))
        twice, never = twice + (earlier_offset > later_offset), never + (earlier_offset < later_offset)
    parts = [
        f"{twice:,} of an hour that is there twice, taken for the first" if twice else "",
        f"{never:,} of an hour that is skipped, counted from before it" if never else "",
    ]
    return "".join(f"; {each}" for each in parts if each)


def _reading_in_words(text: str, zone_words: str, *, is_date: bool) -> str:
    if is_date:
        return "as a day"
    if _NUMBER.fullmatch(text):
        return "read as milliseconds since 1970"
    return (
        "with its offset" if _OFFSET.fullmatch(text) and not _DAY.fullmatch(text) else f"without an offset{zone_words}"
    )


# Findings about a topology's spouts without a run.


_MOST_SECONDS = 3.0
"""Seconds that a Kafka broker has to respond."""


def inspect_spouts(topology: Graph) -> dict[str, Findings]:
    """Returns the findings about each spout, by name. Reads a few rows, except of spouts that need Spark."""
    return {name: _findings_of_spout(topology, node) for name, node in topology.spouts.items()}


def suspicious_input(topology: Graph) -> list[WindboltError]:
    """Returns probable mistakes: patterns that match no file, and columns that no row has. Raises no error."""
    found: list[WindboltError] = []
    for node in topology.spouts.values():
        if isinstance(node.spout, FileSpout) and node.spout.is_here:
            with suppress(WindboltError):  # the run itself reports unreadable input
                files = node.spout.list_files()
                if not files:
                    found += [] if missing_input(node.name, node.spout) else [_no_file(node.name, node.spout)]
                found += unknown_column_errors(node, node.spout, files)
    return found


def _findings_of_spout(topology: Graph, node: SpoutNode) -> Findings:  # noqa: PLR0911 - one for each kind
    try:
        match node.spout:
            case FileSpout() as spout if not spout.is_here:
                return Findings((("read", "nothing: these files are not on this machine"),))
            case FileSpout() as spout:
                return _findings_of_files(topology, node, spout)
            case MemorySpout() as spout:
                return _findings_of_rows(topology, node, first_rows_of_memory(node, spout))
            case PulledSpout() as spout:
                return _findings_of_rows(topology, node, first_rows_of_users_spout(node, spout))
            case RangedSpout() as spout:
                first_rows, partitions = first_rows_of_ranges(node, spout)
                found = _findings_of_rows(topology, node, first_rows)
                return replace(found, facts=(("partitions", f"{partitions:,}"), *found.facts))
            case KafkaSpout() as spout:
                return _findings_of_kafka(topology, node, spout)
    except SpoutError as error:
        return Findings(problems=(error,))
    except WindboltError as error:
        return Findings(problems=(type(error)(f"spout {node.name!r}: {error.what}", why=error.why, do=error.do),))
    return Findings((("read", "nothing: Spark makes this DataFrame"),))


def _findings_of_files(topology: Graph, node: SpoutNode, spout: FileSpout) -> Findings:
    missing = missing_input(node.name, spout)
    if missing is not None:
        return Findings(problems=(missing,))
    files = spout.list_files()
    if not files:
        return Findings((("files", "none yet"),), warnings=(_no_file(node.name, spout),))
    first_rows = first_rows_of_files(node, spout, files)
    found = _findings_of_rows(topology, node, first_rows, time_formats_in_words(node, spout, files))
    number = f"{len(files):,}, the first is {os.path.basename(files[0].path)}"
    warnings = (*found.warnings, *unknown_column_errors(node, spout, files))
    return Findings((("files", number), *_folders(spout, files[0].path), *found.facts), found.problems, warnings)


def _folders(spout: FileSpout, path: str) -> Iterator[tuple[str, str]]:
    """Yields facts about the folders of the first file: columns read from folders, and folders that are not read."""
    with suppress(DataError):  # reading the file raises it too
        texts = spout.partition_of(path).texts
        if spout.partitions.names:
            yield "folders", ", ".join(f"{name}={texts[name]}" for name in spout.partitions.names if name in texts)
        others = undeclared(path, spout.partitions)
        if others is not None:
            yield "folders", f"not all are read as columns; partition_columns={others!r} does that"


_VALUE = re.compile(r"(column '[^']*': ).*?( is no | cannot be read as | is not valid )", re.DOTALL)
_MOST_REASONS = 5


def _reasons_in_words(reasons: Sequence[str]) -> str:
    """Returns each kind of reason once, with its number and an example. Reasons of one kind differ only in the
    value."""
    kinds: dict[str, list[str]] = {}
    for reason in reasons:
        kinds.setdefault(_VALUE.sub(r"\1\2", reason), []).append(reason)
    if len(kinds) == 1:
        return reasons[0]
    by_frequency = sorted(kinds.values(), key=len, reverse=True)
    shown = [f"{len(each):,} times {each[0]}" if len(each) > 1 else each[0] for each in by_frequency[:_MOST_REASONS]]
    return "; ".join(shown) + (
        f"; and {len(by_frequency) - len(shown)} other reasons" if len(by_frequency) > len(shown) else ""
    )


def _findings_of_rows(
    topology: Graph, node: SpoutNode, first_rows: FirstRows, formats: Mapping[str, str] = MappingProxyType({})
) -> Findings:
    facts = [("read", _count_in_words(first_rows))]
    if first_rows.rows.num_rows:
        facts.append(("such as", _example(first_rows)))
    times = direct_time_columns(topology, node, first_rows.rows.schema)
    times_after_plain_bolts = time_columns_after_plain_bolts(topology, node, first_rows.rows.schema)
    spans = {column: _time_span(first_rows, column) for column in times}
    spans |= {
        column: f"{_time_span(first_rows, column)}, as {bolt} gets them"
        for column, bolt in times_after_plain_bolts.items()
    }
    spans = {column: spans.get(column) or _value_span(first_rows.rows.column(column)) for column in [*spans, *formats]}
    facts += [(column, "; ".join(filter(None, (span, formats.get(column))))) for column, span in spans.items()]
    problems, warnings = list[WindboltError](), list[WindboltError]()
    if first_rows.reasons:
        error = ConfigError(
            f"spout {node.name!r}: {len(first_rows.reasons):,} of the first {first_rows.number:,} rows cannot be read",
            why=_reasons_in_words(first_rows.reasons),
            do=f"{_what_to_correct(node, first_rows.reasons)}; a run "
            + ("stops at such a row" if topology.stop_on_invalid else "counts such rows as invalid"),
        )
        (warnings if first_rows.rows.num_rows and not topology.stop_on_invalid else problems).append(error)
    for column in times:
        _judge_times(node.name, first_rows, column, problems, warnings)
    for each in _findings_of_extractors(topology, node, first_rows):
        facts += each.facts
        problems += each.problems
        warnings += each.warnings
    return Findings(tuple(facts), tuple(problems), tuple(warnings))


def _what_to_correct(node: SpoutNode, reasons: Sequence[str]) -> str:
    others = any(reason != TOMBSTONE for reason in reasons)
    origin = "what is produced" if isinstance(node.spout, KafkaSpout) else "the files"
    remedies = [f"correct the schema, or {origin}"] * others
    if TOMBSTONE in reasons:
        remedies.append(
            'tombstones="skip" leaves out records without a value, and tombstones="rows" makes rows of them'
        )
    return "; ".join(remedies)


def _findings_of_extractors(topology: Graph, node: SpoutNode, first_rows: FirstRows) -> list[Findings]:
    """Runs the extractors of the bolts that read the spout on its first rows. Returns nothing if the rows lack columns
    that only a run adds, such as the path of their file."""
    if first_rows.rows.column_names != node.outputs[DEFAULT_STREAM].names:
        return []
    return [
        findings_of_extractor(part, node.name, first_rows.rows)
        for part in topology.windowed.values()
        if part.bolt.settings.timestamp_extractor is not None
        and any(each.stream == (node.name, DEFAULT_STREAM) for each in part.inputs)
    ]


def _example(first_rows: FirstRows) -> str:
    columns = python_columns(first_rows.rows.slice(0, 1))
    row = {name: values[0] for name, values in columns.items()}
    return json.dumps(row, default=_as_text, ensure_ascii=False)


def _as_text(value: object) -> str:
    return show(from_datetime(value)) if isinstance(value, datetime) else str(value)


def _count_in_words(first_rows: FirstRows) -> str:
    if first_rows.number < MOST_ROWS:
        return (
            "no rows" if not first_rows.number else f"{first_rows.number:,} row{'' if first_rows.number == 1 else 's'}"
        )
    return f"the first {first_rows.number:,} rows"


def _time_span(first_rows: FirstRows, column: str) -> str:
    times = _valid_times(first_rows, column)
    return f"{show(min(times))} to {show(max(times))}" if times else "no times"


def _value_span(values: pa.ChunkedArray) -> str:
    bounds = [python_value(each) for each in pc.min_max(values).values()]
    low, high = (_as_text(each) for each in bounds)
    return "" if bounds[0] is None else f"{low} to {high}"


def _valid_times(first_rows: FirstRows, column: str) -> list[int]:
    times, reasons = from_column(first_rows.rows.column(column))
    valid: list[int] = (times if reasons is None else times[reasons == ""]).tolist()
    return valid


def _judge_times(
    name: str, first_rows: FirstRows, column: str, problems: list[WindboltError], warnings: list[WindboltError]
) -> None:
    times, rows = _valid_times(first_rows, column), first_rows.rows.num_rows
    if len(times) < rows:
        error = ConfigError(
            f"spout {name!r}: {rows - len(times):,} of the first {rows:,} rows have no usable time in {column!r}",
            why="an event without a time is in no window; it is counted as invalid",
            do="see how that column is spelled and written in the input, or name another timestamp field",
        )
        (warnings if times else problems).append(error)
    elif times and (warning := misread_numbers(f"spout {name!r}", None, max(times), column=column)):
        warnings.append(warning)


def _no_file(name: str, spout: FileSpout) -> WindboltError:
    if len(spout.paths) > 1:
        return ConfigError(
            f"spout {name!r}: no file is in, or matches, {', '.join(map(repr, spout.paths))}",
            why="a run to the end of the input would read nothing",
            do="correct the paths, or put files there",
        )
    folder, is_pattern = path_before_pattern(spout.path)
    others = sorted(entry for entry in os.listdir(folder) if not is_never_input(entry)) if os.path.isdir(folder) else []
    beside = (
        f"{folder} holds {', '.join(others[:3])}{', ...' if others[3:] else ''}" if others else "the folder is empty"
    )
    return ConfigError(
        f"spout {name!r}: no file matches {spout.path!r}" if is_pattern else f"spout {name!r}: no files in {folder!r}",
        why=beside,
        do="correct the path, or put files there; a run to the end of the input would read nothing",
    )


def _findings_of_kafka(topology: Graph, node: SpoutNode, spout: KafkaSpout) -> Findings:
    """Reads the first records if the Kafka package is installed; otherwise tests the connection to a broker."""
    refusals = []
    for server in spout.servers.split(","):
        host, _, port = server.strip().rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), _MOST_SECONDS).close()
        except (OSError, ValueError) as error:
            refusals.append(f"{server.strip()}: {error}")
            continue
        if has_confluent():
            return _findings_of_records(topology, node, spout)
        reason = "the package confluent-kafka is missing (pip install 'windbolt[kafka]')"
        return Findings((("read", f"nothing: {reason}; {server.strip()} can be connected to"),))
    problem = ConfigError(
        f"spout {node.name!r}: no server of Kafka can be connected to",
        why="; ".join(refusals),
        do="correct the addresses, or see that the servers run and can be reached from here",
    )
    return Findings((("read", "nothing"),), warnings=(problem,))


def _findings_of_records(topology: Graph, node: SpoutNode, spout: KafkaSpout) -> Findings:
    try:
        check_spout_options(node.name, spout)
    except ConfigError as error:  # Spark may support them
        return Findings((("read", f"nothing: {error.what} ({error.why})"),))
    try:
        return _findings_of_rows(topology, node, first_rows_of_topics(topology, node, spout))
    except UnreachableError as error:
        return Findings((("read", "nothing"),), warnings=(error,))
    except ConfigError as error:
        return Findings(problems=(error,))
