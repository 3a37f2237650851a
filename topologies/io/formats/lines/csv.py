"""CSV, plain or gzipped: read as text by Arrow in blocks, then typed column by column.

A header is required. An unquoted empty value is null in every column; a quoted one (``""``) is empty text in
a string or binary column and null in any other. Binary values are base64, lists, maps and structs are JSON.
Blank lines are skipped, except in a file of one column, where they are nulls. Quoted values may contain line
ends. A byte order mark is skipped. Row numbers count rows, not lines: neither the header nor blank lines count.

An unclosed quote swallows the lines after it. If it runs to the end of the file, that row is bad.
"""

from __future__ import annotations

import csv as stdlib_csv
import io
from collections.abc import Collection, Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.fs as pafs

from topologies.io.formats.access import opened
from topologies.io.formats.bad import BadRow, BadRows, python_columns, row_as_json
from topologies.io.formats.conform import only_present, parted, with_absent
from topologies.io.formats.file_errors import declared_once, reading, refuse_absent
from topologies.io.formats.isolate import Mask, either
from topologies.io.formats.lines.jsonvalue import parse_cells
from topologies.io.formats.lines.text import empty_is_null, parse_base64, parse_text, with_full_stop
from topologies.io.formats.lines.utf8 import ESCAPED, Utf8Stream, unescaped, unmarked
from topologies.io.formats.split import Chunk, FileSplit
from windowing.errors import ConfigError, DataError

_BLOCK = 4 << 20
_HEADER_LIMIT = 1 << 20
_END = "\x01end of file\x01"


@dataclass(frozen=True)
class CsvFormat:
    """Reads and writes CSV.

    ``null_values``: additional unquoted spellings of null. ``decimal_point``: ``","`` reads numbers like ``1,5``, and
    ``1.5`` is bad then. ``block_size``: bytes read at a time, which must exceed the longest row. ``escape_formulas``,
    for sinks: text that a spreadsheet would take for a formula is prefixed with an apostrophe, which remains when the
    file is read.
    """

    delimiter: str = ","
    null_values: tuple[str, ...] = ()
    block_size: int = _BLOCK
    escape_formulas: bool = False
    decimal_point: str = "."
    name: ClassVar[str] = "csv"

    def __post_init__(self) -> None:
        if len(self.delimiter) != 1 or not self.delimiter.isascii() or self.delimiter in '"\r\n':
            raise ConfigError(
                f"delimiter {self.delimiter!r} is not allowed",
                why="it is one ASCII character, and neither a quote nor a line end",
                do="use ',', ';' or '\\t'",
            )
        if isinstance(self.null_values, str):
            raise ConfigError(
                f"null_values {self.null_values!r} is one text",
                why="it is a list of them",
                do=f"use null_values=[{self.null_values!r}]",
            )
        object.__setattr__(self, "null_values", tuple(self.null_values))
        if self.decimal_point not in (".", ","):
            raise ConfigError(f"decimal_point {self.decimal_point!r} is not known", do="use '.' or ','")
        if self.block_size < 1024:
            raise ConfigError(
                f"block_size {self.block_size} is too small",
                why="a block must hold whole rows",
                do="use 1 MB or more",
            )

    def split(self, fs: pafs.FileSystem, path: str, wanted: int) -> list[FileSplit]:
        """A single split: since quoted values may hold line ends, reading cannot start in the middle of a file."""
        return [FileSplit(path)]

    def read(
        self,
        fs: pafs.FileSystem,
        split: FileSplit,
        schema: pa.Schema,
        needed: Collection[str] | None = None,
        optional: Collection[str] = (),
    ) -> Iterator[Chunk]:
        """A chunk per block of the file."""
        declared_once(schema)
        with opened(fs, split.path, "CSV", streamed=True) as source:
            stream = Utf8Stream(source)
            with reading(split.path, "CSV"):
                header = self.header(stream)
            if header is None:
                return
            refuse_absent(split.path, header, schema, optional)
            stream.ending = (_END + self.delimiter * len(header)).encode()
            try:
                with closing(_Rows(self, split.path, stream, header, only_present(schema, header)).chunks()) as chunks:
                    for chunk in chunks:
                        yield with_absent(chunk, schema, header)
            finally:
                stream.close()

    def header(self, stream: Utf8Stream) -> list[str] | None:
        """The names of the columns; None for an empty file."""
        text = stream.peek(_HEADER_LIMIT).decode("utf-8", "replace")
        rows = stdlib_csv.reader(io.StringIO(text, newline=""), delimiter=self.delimiter)
        return next(rows, None)


@dataclass
class _Rows:
    """Reads one file. Rows that Arrow rejects come through ``_turned_away``."""

    options: CsvFormat
    path: str
    stream: Utf8Stream
    header: list[str]
    schema: pa.Schema
    away: dict[int, BadRow] = field(default_factory=dict)
    ended: bool = False
    row: int = 0

    def chunks(self) -> Generator[Chunk, None, None]:
        with self._reading():
            reader = self._reader()
        batches = iter(reader)
        held: pa.RecordBatch | None = None
        try:
            while True:
                with self._reading():
                    batch = next(batches, None)
                    if self.stream.failure is not None:
                        raise self.stream.failure
                if batch is None:
                    break
                if held is not None and held.num_rows:
                    yield self._chunk(held, last=False)
                held = batch if batch.num_rows or held is None else held
            yield self._chunk(held if held is not None else self._nothing(), last=True)
        finally:
            reader.close()  # its end would wait for the thread that reads ahead, and that one for Python's lock
            del reader, batches  # an error's traceback would keep it alive

    @contextmanager
    def _reading(self) -> Iterator[None]:
        with reading(self.path, "CSV"):
            try:
                yield
            except pa.ArrowInvalid as error:
                if self.stream.failure is not None:
                    raise self.stream.failure from None
                if "straddl" not in str(error):
                    raise
                raise DataError(
                    f"{self.path!r} cannot be read as CSV",
                    why=f"a row takes more than a block of {self.options.block_size:,} bytes, or a quote is not closed",
                    do="correct the file, or give its spout a larger block_size",
                ) from error

    def _reader(self) -> pacsv.CSVStreamingReader:
        names = self.schema.names
        handler = self._turned_away  # a new method each time it is named: this one is Arrow's alone
        lent = self.stream.lend(handler)
        try:
            return pacsv.open_csv(
                lent,
                read_options=pacsv.ReadOptions(use_threads=False, block_size=self.options.block_size),
                parse_options=pacsv.ParseOptions(
                    delimiter=self.options.delimiter,
                    newlines_in_values=True,
                    ignore_empty_lines=len(self.header) > 1,
                    invalid_row_handler=handler,
                ),
                convert_options=pacsv.ConvertOptions(
                    include_columns=names,
                    column_types={name: pa.string() for name in names},
                    null_values=["", *self.options.null_values],
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                ),
            )
        finally:
            del lent, handler  # here as well

    def _nothing(self) -> pa.RecordBatch:
        return pa.RecordBatch.from_pylist([], pa.schema([(name, pa.string()) for name in self.schema.names]))

    def _turned_away(self, row: Any) -> str:
        """Called for a row whose number of values differs from the header's."""
        index = row.number - 2
        if row.text.startswith(_END):
            self.ended = True
        elif _END in row.text:
            self.away[index] = BadRow(index, _UNCLOSED, unescaped(row.text[: row.text.index(_END)]))
            self.ended = True
        else:
            reason = f"{row.actual_columns} values where the header has {row.expected_columns}"
            self.away[index] = BadRow(index, reason, unescaped(row.text))
        return "skip"

    def _chunk(self, batch: pa.RecordBatch, last: bool) -> Chunk:
        raw = pa.Table.from_batches([batch])
        numbers = self._numbers(raw.num_rows)
        before = [self.away.pop(index) for index in sorted(self.away) if last or index < self.row]
        if last and not self.ended and raw.num_rows:
            before.append(self._unclosed(raw, numbers))
            raw, numbers = raw.slice(0, raw.num_rows - 1), numbers[:-1]
        table, numbers, bad = self._typed(raw, numbers)
        return table, numbers, _merged(before, bad)

    def _numbers(self, count: int) -> npt.NDArray[np.int64]:
        """The row numbers of the next ``count`` rows, without the rejected ones."""
        taken = np.array(sorted(index for index in self.away if index >= self.row), dtype=np.int64)
        # before the k-th gap there are taken[k] - k - row rows, so each row moves on by the gaps before it
        gaps = taken - np.arange(len(taken)) - self.row
        steps = np.arange(count, dtype=np.int64)
        numbers: npt.NDArray[np.int64] = self.row + steps + np.searchsorted(gaps, steps, side="right")
        if count:
            self.row = int(numbers[-1]) + 1
        return numbers

    def _unclosed(self, raw: pa.Table, numbers: npt.NDArray[np.int64]) -> BadRow:
        last = raw.num_rows - 1
        return BadRow(int(numbers[last]), _UNCLOSED, unescaped(row_as_json(python_columns(raw.slice(last)), 0)))

    def _typed(self, raw: pa.Table, numbers: npt.NDArray[np.int64]) -> Chunk:
        columns: list[pa.ChunkedArray] = []
        masks: dict[str, Mask] = {}
        for declared in self.schema:
            parts = [self._column(chunk, declared.type) for chunk in raw.column(declared.name).chunks]
            columns.append(pa.chunked_array([part for part, _ in parts], declared.type))
            bad = [np.zeros(len(part), dtype=np.bool_) if mask is None else mask for part, mask in parts]
            if any(mask.any() for mask in bad):
                masks[declared.name] = np.concatenate(bad)
        table = pa.Table.from_arrays(columns, schema=self.schema)
        return parted(table, raw, masks, numbers, to_bytes=unmarked if self.stream.escaped else None)

    def _column(self, texts: pa.Array, target: pa.DataType) -> tuple[pa.Array, Mask | None]:
        broken = self._not_utf8(texts)
        comma = self.options.decimal_point == ","
        values, bad = typed_cells(with_full_stop(texts, target) if comma else texts, target)
        return values, either(broken, bad)

    def _not_utf8(self, texts: pa.Array) -> Mask | None:
        if not self.stream.escaped:
            return None
        escaped: Mask = pc.match_substring_regex(texts, ESCAPED).fill_null(False).to_numpy(zero_copy_only=False)
        return escaped if escaped.any() else None


_UNCLOSED = "the file ends inside a quoted value: a quote was opened and never closed"


def typed_cells(texts: pa.Array, target: pa.DataType) -> tuple[pa.Array, Mask | None]:
    """Text cells converted to the declared type."""
    if target == pa.string():
        return texts, None
    if pa.types.is_large_string(target) or pa.types.is_string_view(target):
        return texts.cast(target), None
    if pa.types.is_binary(target) or pa.types.is_large_binary(target):
        return parse_base64(texts, target)
    if pa.types.is_nested(target):
        return parse_cells(empty_is_null(texts), target)
    return parse_text(empty_is_null(texts), target)


def _merged(before: list[BadRow], bad: BadRows) -> BadRows:
    if not before:
        return bad
    return BadRows.of([*before, *(BadRow(**row) for row in bad.rows.to_pylist())])
