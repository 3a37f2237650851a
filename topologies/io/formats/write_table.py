"""The format of a file by its name, its columns, and writing tables so that reading returns equal ones."""

from __future__ import annotations

import base64
import codecs
import datetime
import inspect
import json
import math
import re
from collections.abc import Callable
from dataclasses import fields
from decimal import Decimal
from typing import Any, Literal, Protocol, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
import pyarrow.parquet as pq
from pyarrow import ipc

from topologies.io.formats.columnar import ArrowFormat, OrcFormat, ParquetFormat
from topologies.io.formats.conform import is_bytes, is_text
from topologies.io.formats.csv import DELIMITER_LINE, CsvFormat
from topologies.io.formats.event_files import FileFormat, without_compression
from topologies.io.formats.json import JsonFormat, JsonlFormat
from topologies.io.formats.lines import TextFormat
from windowing.errors import ConfigError, SchemaError, did_you_mean
from windowing.schema import TIMESTAMP

# Chooses the format of a file by its name, and infers its columns.


FormatName: TypeAlias = Literal["parquet", "csv", "jsonl", "json", "arrow", "orc", "text"]
"""The names of formats. ``json`` is an array of objects, or JSON lines; ``text`` has a row for each line."""

_FORMATS: dict[
    str,
    type[ParquetFormat] | type[CsvFormat] | type[JsonlFormat] | type[ArrowFormat] | type[OrcFormat] | type[TextFormat],
] = {
    "parquet": ParquetFormat,
    "csv": CsvFormat,
    "jsonl": JsonlFormat,
    "json": JsonFormat,
    "arrow": ArrowFormat,
    "orc": OrcFormat,
    "text": TextFormat,
}
_ONLY_READ = ("orc", "text")
_OPTIONS_OF_ONE_USE = {
    "null_values": "reading",
    "comment": "reading",
    "escape_unquoted": "reading",
    "skip_rows": "reading",
    "decimal_point": "reading",
    "block_size": "reading",
    "use_threads": "reading",
    "longest_row": "reading",
    "on_truncation": "reading",
    "times": "reading",
    "escape_formulas": "writing",
}
"""Options of formats that have an effect only in reading files, or only in writing them."""
_SUFFIXES = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".feather": "arrow",
    ".orc": "orc",
    ".txt": "text",
    ".log": "text",
}


class _HasSchema(Protocol):
    def schema(self, fs: pafs.FileSystem, path: str) -> pa.Schema: ...


def file_format(
    name: str,
    use: Literal["reading", "writing", "both"] = "both",
    beside: Callable[..., object] | None = None,
    **options: Any,
) -> FileFormat:
    """Returns the format ``name``: parquet, csv, jsonl, json, arrow, orc, text.

    ``beside``: the function that takes options of the format in addition to its own arguments; a misspelt argument of
    its own is then recognised. Raises ConfigError for an unknown format, and for an option that the format does not
    have for this use.
    """
    chosen = _FORMATS.get(name)
    if chosen is None:
        raise ConfigError(
            f"{name!r} is not a file format{did_you_mean(name, _FORMATS)}", do=f"use one of {', '.join(_FORMATS)}"
        )
    if use == "writing" and name in _ONLY_READ:
        written = [each for each in _FORMATS if each not in _ONLY_READ]
        raise ConfigError(
            f"files of the format {name!r} are not written",
            why="it is only read",
            do=f"use one of {', '.join(written)}",
        )
    known = options_of(name, use)
    unknown = [option for option in options if option not in known]
    if unknown:
        known = [option for option in known if option not in ("on_truncation", "times")]  # arguments of the spout
        arguments = [] if beside is None else _named_arguments(beside)
        raise ConfigError(
            f"{', '.join(map(repr, unknown))} is not an option of the format {name!r}"
            + ("" if use == "both" else f" for {use}")
            + did_you_mean(unknown[0], [*known, *arguments]),
            why=f"the arguments are {', '.join(arguments)}" if arguments else "",
            do=f"use {', '.join(known)}" if known else "leave it out, there are no options",
        )
    return chosen(**options)


def _named_arguments(function: Callable[..., object]) -> list[str]:
    parameters = inspect.signature(function).parameters.values()
    return [each.name for each in parameters if each.kind is not inspect.Parameter.VAR_KEYWORD]


def options_of(name: str, use: Literal["reading", "writing", "both"] = "both") -> list[str]:
    """Returns the options of the format ``name`` that have an effect in this use; empty for writing a format that is
    never written."""
    if use == "writing" and name in _ONLY_READ:
        return []
    options = [field.name for field in fields(_FORMATS[name])]
    return [option for option in options if use == "both" or _OPTIONS_OF_ONE_USE.get(option, use) == use]


def has_writer(name: str) -> bool:
    """True for a format that sinks write."""
    return name not in _ONLY_READ


def format_of(path: str) -> str | None:
    """Returns the format for the suffix of a path; None for other suffixes."""
    plain = without_compression(path).lower()
    return next((name for suffix, name in _SUFFIXES.items() if plain.endswith(suffix)), None)


def infer_schema(fs: pafs.FileSystem, path: str, format: str | None = None) -> pa.Schema:
    """Returns the columns of a Parquet, Arrow or ORC file, in types that can be declared.

    Raises ConfigError for text files, whose columns have no types, and DataError for a damaged file.
    """
    name = format or format_of(path)
    formats: dict[str, Callable[[], _HasSchema]] = {"parquet": ParquetFormat, "arrow": ArrowFormat, "orc": OrcFormat}
    if name not in formats:
        raise ConfigError(
            f"the columns of {path!r} must be declared",
            why=f"{'a ' + name if name else 'such a'} file does not say what types its columns have",
            do="give a schema like 'user string, amount double, ts timestamp'",
        )
    columns = formats[name]().schema(fs, path)
    return pa.schema([pa.field(field.name, _declarable(field.type)) for field in columns])


def _declarable(kind: pa.DataType) -> pa.DataType:  # noqa: PLR0911 - one for each kind of type
    kinds = pa.types
    if kinds.is_dictionary(kind) or kinds.is_run_end_encoded(kind):
        return _declarable(kind.value_type)
    if kinds.is_timestamp(kind):
        return TIMESTAMP
    if kinds.is_large_string(kind) or kinds.is_string_view(kind):
        return pa.string()
    if kinds.is_large_binary(kind) or kinds.is_binary_view(kind) or kinds.is_fixed_size_binary(kind):
        return pa.binary()
    if kinds.is_date64(kind):
        return pa.date32()
    if kinds.is_list(kind) or kinds.is_large_list(kind) or kinds.is_fixed_size_list(kind):
        return pa.list_(_declarable(kind.value_type))
    if kinds.is_map(kind):
        return pa.map_(_declarable(kind.key_type), _declarable(kind.item_type))
    if kinds.is_struct(kind):
        return pa.struct([pa.field(field.name, _declarable(field.type)) for field in kind])
    return _WIDER.get(kind, kind)


_WIDER: dict[pa.DataType, pa.DataType] = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.int64(),
    pa.float16(): pa.float32(),
    pa.null(): pa.string(),
}


# Writes tables so that reading them returns equal tables.
#
# JSON lines: times are ISO 8601 with a Z, decimals and the doubles NaN, Infinity and -Infinity are strings, binary is
# base64. CSV: every string is quoted, so that empty text ("") and null (nothing) stay distinct. Parquet: zstd, with
# page checksums.


_kinds = pa.types
_ROWS = 1 << 16
_FORMULA = "^[=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20]"
"""First characters of formulas, also in full width. Spreadsheets skip white space before them."""
_NEEDS_ESCAPE = '[\\x00-\\x1f"\\\\]'


def write_table(fs: pafs.FileSystem, path: str, table: pa.Table, format: str | FileFormat) -> None:
    """Writes a table as one file; text is compressed if the name ends in ``.gz``.

    Raises SchemaError for columns whose values could not be read back from this format.
    """
    chosen = file_format(format) if isinstance(format, str) else format
    if len(set(table.column_names)) < table.num_columns:
        raise SchemaError(
            f"the columns {table.column_names} cannot be written", why="two columns have the same name", do="rename one"
        )
    if isinstance(chosen, CsvFormat):
        _write_csv(fs, path, table, chosen)
        return
    writers = {"parquet": _write_parquet, "jsonl": _write_jsonl, "json": _write_jsonl, "arrow": _write_arrow}
    writers[chosen.name](fs, path, table)


def json_rows(table: pa.Table) -> list[dict[str, Any]]:
    """Returns the rows in the form of JSON lines. Raises SchemaError for columns that JSON cannot hold."""
    texts = [_json_lines(batch).decode() for batch in table.to_batches(max_chunksize=_ROWS)]
    return [json.loads(line) for text in texts for line in text.split("\n")[:-1]]


def _write_parquet(fs: pafs.FileSystem, path: str, table: pa.Table) -> None:
    with fs.open_output_stream(path, compression=None) as sink:
        pq.write_table(table, sink, compression="zstd", write_page_checksum=True)


def _write_arrow(fs: pafs.FileSystem, path: str, table: pa.Table) -> None:
    with fs.open_output_stream(path, compression=None) as sink, ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


def _write_csv(fs: pafs.FileSystem, path: str, table: pa.Table, chosen: CsvFormat) -> None:
    names, columns = table.column_names, [_map_chunks(column, _csv_cells) for column in table.columns]
    if chosen.escape_formulas:
        names = _without_formulas(pa.array(names, pa.string())).to_pylist()
        columns = [_map_chunks(cells, _without_formulas) if is_text(cells.type) else cells for cells in columns]
    header = pa.table({str(index): pa.array([name], pa.string()) for index, name in enumerate(names)})
    if DELIMITER_LINE.fullmatch(_csv_lines(header.to_batches()[0], chosen).encode()):
        raise SchemaError(
            f"the column {names[0]!r} cannot be written to CSV",
            why="as the only one it makes the first line one that tells Excel, and windbolt, the delimiter of the file",
            do="rename the column, or use another format",
        )
    cells = pa.Table.from_arrays(columns, names=header.column_names)
    encoder = codecs.getincrementalencoder(chosen.encoding)()  # one encoder, so the file has one byte order mark
    with fs.open_output_stream(path, compression="detect") as sink:
        for batch in [*header.to_batches(), *cells.to_batches(max_chunksize=_ROWS)]:
            text = _csv_lines(batch, chosen)
            try:
                sink.write(encoder.encode(text))
            except UnicodeEncodeError as error:
                raise SchemaError(
                    f"{error.object[error.start : error.start + 20]!r} cannot be written as {chosen.encoding}",
                    why="this encoding has no such character",
                    do="use encoding='utf-8'",
                ) from error


def _csv_lines(batch: pa.RecordBatch, chosen: CsvFormat) -> str:
    texts = [
        _csv_quoted(column, chosen)
        if is_text(column.type)
        else _float_texts(column, "")
        if _kinds.is_floating(column.type)
        else column.cast(pa.string())
        for column in batch.columns
    ]
    cells = [pc.fill_null(text, "") for text in texts]
    lines = pc.binary_join_element_wise(*cells, chosen.delimiter) if len(cells) > 1 else cells[0]
    return "".join([f"{line}\n" for line in lines.to_pylist()])


def _csv_quoted(texts: pa.Array, chosen: CsvFormat) -> pa.Array:
    """Returns text in quotes, so that null, without quotes, stays different from empty text."""
    if chosen.quote is None:
        return _csv_bare(texts, chosen)
    if chosen.escape is not None:
        texts = pc.replace_substring(texts, chosen.escape, chosen.escape * 2)
    texts = pc.replace_substring(texts, chosen.quote, (chosen.escape or chosen.quote) + chosen.quote)
    return pc.binary_join_element_wise(chosen.quote, texts, chosen.quote, "")


def _csv_bare(texts: pa.Array, chosen: CsvFormat) -> pa.Array:
    special = [chosen.delimiter, "\n", "\r", *([chosen.escape] if chosen.escape else [])]
    needs_quotes = pc.match_substring_regex(texts, f"^$|[{re.escape(''.join(special))}]")
    if pc.any(needs_quotes).as_py():
        raise SchemaError(
            f"{texts.filter(needs_quotes)[0].as_py()[:50]!r} cannot be written without quotes",
            why="it is empty, or holds a delimiter or a line end",
            do="leave quote=None out, or use another delimiter",
        )
    return texts


def _without_formulas(texts: pa.Array) -> pa.Array:
    """Returns text with an apostrophe before characters that a spreadsheet would evaluate, by OWASP's rule against CSV
    injection.

    Quotes and separators cannot leave a cell, since all text is quoted. Numbers are not formulas.
    """
    formulas = pc.match_substring_regex(texts, _FORMULA)
    return pc.if_else(formulas, pc.binary_join_element_wise(pa.scalar("'"), texts, ""), texts)


def _write_jsonl(fs: pafs.FileSystem, path: str, table: pa.Table) -> None:
    with fs.open_output_stream(path, compression="detect") as sink:
        for batch in table.to_batches(max_chunksize=_ROWS):
            sink.write(_json_lines(batch))


def json_lines(table: pa.Table) -> list[bytes]:
    """Returns rows as JSON objects, without line ends."""
    return [
        line.encode()
        for batch in table.to_batches(max_chunksize=_ROWS)
        for line in _json_objects(batch, "}").to_pylist()
    ]


def _json_lines(batch: pa.RecordBatch) -> bytes:
    return "".join(_json_objects(batch, "}\n").to_pylist()).encode()


def _json_objects(batch: pa.RecordBatch, end: str) -> pa.Array:
    parts: list[pa.Array | pa.Scalar] = []
    for index, (name, column) in enumerate(zip(batch.schema.names, batch.columns, strict=True)):
        opening = f"{',' if index else '{'}{json.dumps(name, ensure_ascii=False)}:"
        parts += [pa.scalar(opening), pc.fill_null(_json_texts(column), "null")]
    return pc.binary_join_element_wise(*parts, pa.scalar(end), "") if parts else pa.array([f"{{{end}"] * batch.num_rows)


def _map_chunks(column: pa.ChunkedArray, convert: Callable[[pa.Array], pa.Array]) -> pa.ChunkedArray:
    chunks = column.chunks or [pa.array([], column.type)]
    return pa.chunked_array([convert(chunk) for chunk in chunks])


def _csv_cells(values: pa.Array) -> pa.Array:
    kind = values.type
    if _kinds.is_dictionary(kind):
        return _csv_cells(values.dictionary_decode())
    if is_text(kind):
        return values.cast(pa.string())
    if is_bytes(kind):
        return _each(values, lambda value: base64.b64encode(value).decode())
    if _kinds.is_nested(kind):
        return _each(values, lambda value: json.dumps(_json_value(value, kind), ensure_ascii=False))
    if _kinds.is_temporal(kind):
        return _time_texts(values)
    return _checked_scalars(values)


def _json_texts(values: pa.Array) -> pa.Array:  # noqa: PLR0911 - one for each kind of type
    kind = values.type
    if _kinds.is_dictionary(kind):
        return _json_texts(values.dictionary_decode())
    if is_text(kind):
        return _quoted(_json_escaped(values.cast(pa.string())))
    if is_bytes(kind):
        return _quoted(_each(values, lambda value: base64.b64encode(value).decode()))
    if _kinds.is_nested(kind):
        return _each(values, lambda value: json.dumps(_json_value(value, kind), ensure_ascii=False))
    if _kinds.is_temporal(kind):
        return _quoted(_time_texts(values))
    if _kinds.is_decimal(kind):
        return _quoted(values.cast(pa.string()))
    return _float_texts(values, '"') if _kinds.is_floating(kind) else _checked_scalars(values).cast(pa.string())


def _checked_scalars(values: pa.Array) -> pa.Array:
    kind = values.type
    numeric = _kinds.is_integer(kind) or _kinds.is_floating(kind) or _kinds.is_decimal(kind)
    if not (numeric or _kinds.is_boolean(kind) or _kinds.is_null(kind)):
        raise SchemaError(
            f"a column of type {kind} cannot be written as text", do="cast it to a type that a schema can declare"
        )
    return values.cast(pa.float32()) if _kinds.is_float16(kind) else values


def _each(values: pa.Array, text: Callable[[Any], str]) -> pa.Array:
    return pa.array([None if value is None else text(value) for value in values.to_pylist()], pa.string())


def _quoted(texts: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(pa.scalar('"'), texts, pa.scalar('"'), "")


def _json_escaped(texts: pa.Array) -> pa.Array:
    if not pc.any(pc.match_substring_regex(texts, _NEEDS_ESCAPE)).as_py():
        return texts
    return _each(texts, lambda value: json.dumps(value, ensure_ascii=False)[1:-1])


def _float_texts(values: pa.Array, quote: str) -> pa.Array:
    """Returns numbers in the spelling that most readers accept; ``quote`` encloses values that are not JSON
    numbers."""
    values = _checked_scalars(values)
    texts = values.cast(pa.string())
    if quote and pc.any(pc.equal(values, 0)).as_py():  # -0 would be a whole number without a sign
        texts = pc.if_else(pc.equal(texts, "-0"), pa.scalar("-0.0"), texts)
    if pc.all(pc.is_finite(values)).as_py() is not False:
        return texts
    for written, name in {"nan": "NaN", "-nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.items():
        texts = pc.if_else(pc.equal(texts, written), pa.scalar(f"{quote}{name}{quote}"), texts)
    return texts


def _time_texts(values: pa.Array) -> pa.Array:
    """Returns dates and timestamps as ISO 8601; timestamps without a zone are taken as UTC."""
    kind = values.type
    if not (_kinds.is_timestamp(kind) or _kinds.is_date(kind)):
        raise SchemaError(
            f"a column of type {kind} cannot be written as text", do="cast it to a type that a schema can declare"
        )
    _refuse_far(values)
    if _kinds.is_date(kind):
        return values.cast(pa.date32()).cast(pa.string())
    texts = values.view(pa.int64()).view(pa.timestamp(kind.unit)).cast(pa.string())
    return pc.binary_join_element_wise(pc.replace_substring(texts, " ", "T"), pa.scalar("Z"), "")


def _refuse_far(values: pa.Array) -> None:
    zoned = _kinds.is_timestamp(values.type)
    bare = values.view(pa.int64()).view(pa.timestamp(values.type.unit)) if zoned else values
    years = pc.min_max(pc.year(bare)).as_py()
    if years["min"] is not None and not 1 <= years["min"] <= years["max"] <= 9999:
        raise SchemaError(
            f"the years {years['min']} to {years['max']} cannot be written as text",
            why="ISO 8601 has the years 1 to 9999",
            do="write Parquet or Arrow, or filter such times out before",
        )


def _json_value(value: Any, kind: pa.DataType) -> Any:
    """Returns a Python value of an Arrow type in its JSON form."""
    if value is None:
        return None
    if _kinds.is_map(kind):
        return _json_map(value, kind)
    if _kinds.is_struct(kind):
        return {field.name: _json_value(value[field.name], field.type) for field in kind}
    if isinstance(value, list):
        return [_json_value(one, kind.value_type) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return _json_scalar(value)


def _json_map(value: list[tuple[Any, Any]], kind: pa.DataType) -> Any:
    pairs = [(_json_value(key, kind.key_type), _json_value(item, kind.item_type)) for key, item in value]
    named = is_text(kind.key_type) and len({key for key, _ in pairs}) == len(pairs)
    return dict(pairs) if named else [list(pair) for pair in pairs]


def _json_scalar(value: Any) -> Any:
    match value:
        case bytes():
            return base64.b64encode(value).decode()
        case Decimal():
            return str(value)
        case datetime.datetime():
            zoned = value if value.tzinfo else value.replace(tzinfo=datetime.UTC)
            return zoned.astimezone(datetime.UTC).isoformat().replace("+00:00", "Z")
        case datetime.date():
            return value.isoformat()
        case bool() | int() | float() | str():
            return value
    raise SchemaError(
        f"a {type(value).__name__} within a column cannot be written as text",
        do="cast it to a type that a schema can declare",
    )
