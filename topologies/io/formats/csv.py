"""CSV, plain or compressed: rows are found, read as bytes by Arrow, then typed column by column."""

from __future__ import annotations

import codecs
import csv as stdlib_csv
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.fs as pafs

from topologies.io.formats.conform import only_present, separate_bad_rows, with_absent
from topologies.io.formats.declared_times import Times, checked_times, form_of, is_unit
from topologies.io.formats.event_files import (
    UTF_8,
    BadRow,
    Chunk,
    FileSplit,
    OneSplit,
    OnTruncation,
    as_data_error,
    check_truncation,
    open_file,
    refuse_absent,
    refuse_repeated_names,
    shown_bytes,
)
from topologies.io.formats.json import parse_cells
from topologies.io.formats.lines import BOM, LONGEST_ROW, check_encoding
from topologies.io.formats.text_values import (
    Converted,
    Flags,
    concat_flags,
    empty_is_null,
    isolate,
    parse_base64,
    parse_text,
    union_flags,
    with_full_stop,
)
from windowing.errors import ConfigError, DataError

# Finds the rows of a CSV file, and those that break RFC 4180, before any value is read.
#
# A quote is special only at the beginning of a value; within an unquoted value it is an ordinary character. A quoted
# value ends at the next quote that is neither doubled nor escaped. After it, only a delimiter or a line end may follow.
# A row that breaks this rule is bad, and ends with its line.


_Integers = npt.NDArray[np.int64]
_LF, _CR = ord("\n"), ord("\r")
AFTER_QUOTE = "text follows the quote that ends a value: a quote within a value is doubled"
UNCLOSED = "the file ends inside a quoted value: a quote was opened and never closed"
ENDS_ESCAPED = "the file ends with an escape that has nothing to escape"


@dataclass(frozen=True)
class Rows:
    """Rows in a block of bytes: where each row begins and stops, where the next begins, and its number of values. Rows
    that are not CSV are listed by index, with the reason."""

    data: bytes
    starts: _Integers
    stops: _Integers
    nexts: _Integers
    widths: _Integers
    faults: dict[int, str]
    end: int
    """Start of the first incomplete row."""

    def __len__(self) -> int:
        return len(self.starts)

    def bytes_of(self, row: int) -> bytes:
        return self.data[self.starts[row] : self.stops[row]]

    def from_row(self, first: int) -> Rows:
        """Returns the rows from index ``first`` on."""
        faults = {row - first: reason for row, reason in self.faults.items() if row >= first}
        from_first = slice(first, None)
        return Rows(
            self.data,
            self.starts[from_first],
            self.stops[from_first],
            self.nexts[from_first],
            self.widths[from_first],
            faults,
            self.end,
        )

    def bytes_of_rows(self, rows: _Integers) -> bytes | memoryview:
        """Returns the bytes of some of the rows."""
        if not len(rows):
            return b""
        starts, nexts = self.starts[rows], self.nexts[rows]
        breaks = np.flatnonzero(nexts[:-1] != starts[1:])
        begins, ends = starts[np.concatenate([[0], breaks + 1])], nexts[np.concatenate([breaks, [len(rows) - 1]])]
        data = self._without_lone_returns(nexts)
        parts = [memoryview(data)[begin:end] for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)]
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _without_lone_returns(self, nexts: _Integers) -> bytes:
        """Returns the bytes, with LF for a CR at the end of a row: after rows are left out, that CR might be joined to
        an LF."""
        characters = np.frombuffer(self.data, np.uint8)
        lone = nexts[characters[nexts - 1] == _CR] - 1
        if not len(lone):
            return self.data
        changed = characters.copy()
        changed[lone] = _LF
        return changed.tobytes()


class RowFinder:
    """Finds rows in bytes of one dialect of CSV."""

    def __init__(
        self, delimiter: str, quote: str | None, escape: str | None, comment: str | None, *, unquoted: bool = True
    ) -> None:
        """``unquoted``: False if escapes count only within quotes."""
        self.delimiter, self.quote = delimiter.encode(), quote.encode() if quote else None
        self.escape, self.comment = escape.encode() if escape else None, comment.encode() if comment else None
        self._compile_patterns(unquoted=unquoted)
        self._beside_quotes = np.zeros(256, np.bool_)
        """Table of the bytes that may stand before an opening or after a closing quote. Two quotes together are a
        doubled quote."""
        self._beside_quotes[list(self.delimiter + b"\r\n" + (self.quote or b""))] = True

    def find(self, data: bytes, is_last: bool) -> Rows:
        """Returns the complete rows of ``data``, which begins with a row; ``is_last``: no data follow."""
        if self.escape is not None and self.escape in data:
            return self._by_patterns(data, is_last)
        if self.comment is not None and any(begin + self.comment in b"\n" + data for begin in (b"\n", b"\r")):
            return self._by_patterns(data, is_last)
        rows = self._by_counting(data, is_last)
        return self._by_patterns(data, is_last) if rows is None else rows

    def _by_counting(self, data: bytes, is_last: bool) -> Rows | None:
        """Finds row ends as line ends with an even number of quotes between them. Returns None if a quote breaks this
        rule."""
        characters = np.frombuffer(data, np.uint8)
        ending = characters == _LF
        if b"\r" in data:
            returns = characters == _CR
            returns[:-1] &= ~ending[1:]  # in CR LF, the LF is the end
            returns[-1:] &= is_last
            ending |= returns
        separating = characters == self.delimiter[0]
        quotes = np.flatnonzero(characters == self.quote[0]) if self.quote is not None else np.empty(0, np.int64)
        if len(quotes):
            outside = (np.cumsum(characters == self.quote[0], dtype=np.uint8) & 1) == 0  # type: ignore[index]
            ending &= outside
            separating &= outside
        ends = np.flatnonzero(ending)
        if is_last and len(quotes) % 2:
            return None
        nexts = ends + 1
        starts = np.concatenate([[0], nexts[:-1]]) if len(nexts) else nexts
        if len(quotes) and not self._has_regular_quotes(characters, quotes):
            return None
        stops = ends - ((ends > starts) & (characters[ends] == _LF) & (characters[ends - 1] == _CR))
        before = np.searchsorted(np.flatnonzero(separating), nexts)
        return Rows(data, starts, stops, nexts, np.diff(before, prepend=0) + 1, {}, int(nexts[-1]) if len(nexts) else 0)

    def _has_regular_quotes(self, characters: npt.NDArray[np.uint8], quotes: _Integers) -> bool:
        """True if every odd quote (the first, the third ...) begins a value or is the second of a doubled quote, and
        every even quote ends a value or is the first of a doubled quote."""
        opening, closing = quotes[::2], quotes[1::2]
        begins = (opening == 0) | self._beside_quotes[characters[opening - 1]]
        followed = closing[closing + 1 < len(characters)]
        return bool(begins.all() and self._beside_quotes[characters[followed + 1]].all())

    def _by_patterns(self, data: bytes, is_last: bool) -> Rows:
        spans: list[tuple[int, int, int, int]] = []
        faults: dict[int, str] = {}
        position = 0
        while position < len(data):
            row = self._comment.match(data, position) if self._comment is not None else None
            if row is not None:
                position = row.end()
                continue
            row = self._row.match(data, position)
            if row is None and (row := self._loose.match(data, position)) is not None:
                faults[len(spans)] = AFTER_QUOTE
            if row is None and not is_last:
                break
            end = len(data) if row is None else row.end()
            if not is_last and end == len(data) and data.endswith(b"\r"):
                break
            if row is None:
                faults[len(spans)] = ENDS_ESCAPED if self._open.fullmatch(data, position) is None else UNCLOSED
                stop = end - (2 if data[position:end].endswith(b"\r\n") else 1)
            else:
                stop = row.start("end")  # the carriage return may be escaped, and then belongs to the value
            width = 0 if len(spans) in faults else sum(1 for _ in self._value.finditer(data, position, end))
            spans.append((position, stop, end, width))
            position = end
        starts, stops, nexts, widths = np.array(spans, np.int64).reshape(-1, 4).T
        return Rows(data, starts, stops, nexts, widths, faults, position)

    def with_escapes(self, data: bytes | memoryview) -> bytes | memoryview:
        """Returns complete rows in which each escape outside quotes is itself escaped."""
        if self._bare_escape is None or self.escape is None or self.escape not in bytes(data):
            return data
        return self._bare_escape.sub(lambda found: found[0] if len(found[0]) > 1 else found[0] * 2, data)

    def _compile_patterns(self, *, unquoted: bool) -> None:
        delimiter, end = re.escape(self.delimiter), rb"(?:\r\n|\r|\n)"
        quote = re.escape(self.quote) if self.quote else b""
        escape = re.escape(self.escape) if self.escape else b""
        escaped = rb"|" + escape + rb"." if escape else b""
        quoted = quote + rb"(?:[^" + quote + escape + rb"]|" + quote + quote + escaped + rb")*+"
        self._bare_escape = None
        if not unquoted and escape:
            begin = rb"(?<![^" + delimiter + rb"\r\n])"
            self._bare_escape = re.compile(begin + quoted + quote + rb"|" + escape, re.DOTALL)
            escape = escaped = b""
        rest = rb"(?:[^" + delimiter + escape + rb"\r\n]" + escaped + rb")*+"
        bare = rb"(?:[^" + delimiter + quote + escape + rb"\r\n]" + escaped + rb")" + rest
        value = rb"(?:" + (quoted + quote + rb"|" if quote else b"") + bare + rb"|)"
        loose = rb"(?:" + (quoted + quote + rest + rb"|" if quote else b"") + bare + rb"|)"
        named = rb"(?P<end>" + end + rb")"
        self._row = re.compile(value + rb"(?:" + delimiter + value + rb")*+" + named, re.DOTALL)
        self._loose = re.compile(loose + rb"(?:" + delimiter + loose + rb")*+" + named, re.DOTALL)
        self._value = re.compile(value + rb"(?:" + delimiter + rb"|" + end + rb")", re.DOTALL)
        self._open = re.compile(rb"(?:" + loose + delimiter + rb")*+" + (quoted if quote else rb"(?!)"), re.DOTALL)
        self._comment = re.compile(re.escape(self.comment) + rb"[^\r\n]*+" + end) if self.comment else None


# CSV, plain or compressed: rows are found, read as bytes by Arrow, then converted column by column.
#
# A header is required. Excel's line ``sep=;`` may stand before it, after comments, and then gives the delimiter. An
# unquoted empty value is null in every column. A quoted one (``""``) is empty text in a string or binary column, and
# null in other columns. Binary values are base64; lists, maps and structs are JSON. Blank lines are skipped, except in
# a file of one column, where they are nulls. Quoted values may contain line ends. A byte order mark is skipped. Row
# numbers count rows, without the header and blank lines.
#
# An unclosed quote swallows the lines after it. If it runs to the end of the file, that row is bad.


_BLOCK = 4 << 20
_SIGN = re.compile(r"[^\x00\r\n+.A-Za-z0-9\x80-\U0010ffff-]")
DELIMITER_LINE = re.compile(rb'(?P<quote>"?)(?i:sep)=(?P<sign>[^\r\n])(?P=quote)(\r\n|\n|\r|\Z)')
"""Excel's first line with the delimiter."""
_LONGEST_DELIMITER_LINE = 10
_PROBE = 'a,"1"\r\n'


@dataclass(frozen=True)
class CsvFormat(OneSplit):
    """Reads and writes CSV (RFC 4180).

    ``quote``: encloses a value; within the value it is doubled. None: no quotes. ``escape``: the character that escapes
    a quote within a value (``"\\\\"``, a backslash). ``escape_unquoted``: False if only quoted values have escapes, as
    in files of Spark. ``comment``: lines that begin with this character are not rows. ``skip_rows``: lines before the
    header. ``encoding``: any that Python knows. ``null_values``: additional unquoted spellings of null.

    ``decimal_point``: with ``","``, numbers are like ``1,5``, and ``1.5`` is bad. ``block_size``: bytes read at a time.
    ``longest_row``: the most bytes in a row (16 MiB). A longer row, usually an unclosed quote, is an error of the file.
    ``escape_formulas``, for sinks: text that a spreadsheet would take for a formula gets a leading apostrophe, which
    stays when the file is read.
    """

    delimiter: str = ","
    quote: str | None = '"'
    escape: str | None = None
    escape_unquoted: bool = True
    comment: str | None = None
    skip_rows: int = 0
    encoding: str = "utf-8"
    null_values: tuple[str, ...] = ()
    block_size: int = _BLOCK
    longest_row: int = LONGEST_ROW
    escape_formulas: bool = False
    decimal_point: str = "."
    on_truncation: OnTruncation = "cut"
    times: Times = ()
    name: ClassVar[str] = "csv"

    def __post_init__(self) -> None:
        self._check_characters()
        check_truncation(self.on_truncation)
        object.__setattr__(self, "times", checked_times(self.times))
        if isinstance(self.null_values, str):
            raise ConfigError(
                f"null_values {self.null_values!r} is one text",
                why="it is a list of them",
                do=f"use null_values=[{self.null_values!r}]",
            )
        object.__setattr__(self, "null_values", tuple(self.null_values))
        if self.escape_unquoted is not True and (self.escape is None or self.quote is None):
            raise ConfigError(
                f"escape_unquoted={self.escape_unquoted!r} without {'an escape' if self.escape is None else 'a quote'}",
                why="it says that the escape is one within quotes alone",
                do="leave it out, or give escape= too" if self.escape is None else "leave it out",
            )
        escapes = self.escape if self.escape_unquoted else None
        if escapes is not None and any(escapes in text for text in self.null_values):
            raise ConfigError(
                f"null_values {list(self.null_values)} hold the escape {self.escape!r}",
                why="values are compared without it",
                do="write them as they are without the escape",
            )
        if self.decimal_point not in (".", ","):
            raise ConfigError(f"decimal_point {self.decimal_point!r} is not known", do="use '.' or ','")
        if self.block_size < 1 or self.longest_row < 1:
            name = "block_size" if self.block_size < 1 else "longest_row"
            raise ConfigError(
                f"{name} {getattr(self, name)} is too small", why="rows are longer", do="use 1 MB or more"
            )
        if not isinstance(self.skip_rows, int) or self.skip_rows < 0:
            raise ConfigError(f"skip_rows {self.skip_rows!r} is not a number of lines", do="use 0 or more")
        check_encoding(self.encoding, _PROBE)

    def _check_characters(self) -> None:
        given = {"delimiter": self.delimiter, "quote": self.quote, "escape": self.escape, "comment": self.comment}
        for name, value in given.items():
            if value is None and name != "delimiter":
                continue
            if not isinstance(value, str) or not _SIGN.fullmatch(value):
                raise ConfigError(
                    f"{name} {value!r} is not allowed",
                    why="it is one ASCII character, not a line end, and none that numbers and names are made of",
                    do="use ',', ';' or '\\t'" if name == "delimiter" else "use one character, or leave it out",
                )
        used = [value for value in given.values() if value is not None]
        twice = next((value for value in used if used.count(value) > 1), None)
        if twice is not None:
            names = [name for name, value in given.items() if value == twice]
            raise ConfigError(
                f"{' and '.join(names)} are both {twice!r}",
                why="a character has one meaning; a doubled quote needs no escape",
                do=f"leave {names[-1]} out, or use another character",
            )

    def read(
        self,
        fs: pafs.FileSystem,
        split: FileSplit,
        schema: pa.Schema,
        needed: Collection[str] | None = None,
        optional: Collection[str] = (),
    ) -> Iterator[Chunk]:
        """Yields a chunk per block of the file."""
        refuse_repeated_names(schema)
        header: list[str] | None = None
        row = 0
        with open_file(fs, split.path, "CSV", streamed=True) as source:
            comment = self.comment.encode() if self.comment else None
            text, delimiter = _without_delimiter_line(self._read_text(source, split.path), comment)
            if delimiter is not None:
                self = self._with_delimiter(delimiter, split.path)  # noqa: PLW0642 - the ``sep=`` line names it
            for rows in self._rows(text, split.path):
                if header is None:
                    first = np.flatnonzero(rows.stops > rows.starts)
                    if not len(first):
                        continue
                    header = self._header(rows, int(first[0]), split.path)
                    refuse_absent(split.path, header, schema, optional)
                    rows = rows.from_row(int(first[0]) + 1)  # noqa: PLW2901
                with as_data_error(split.path, "CSV"):
                    chunk, count = self._chunk(rows, header, only_present(schema, header), row)
                row += count
                if count:
                    yield with_absent(chunk, schema, header)

    @property
    def _finder(self) -> RowFinder:
        return RowFinder(self.delimiter, self.quote, self.escape, self.comment, unquoted=self.escape_unquoted)

    def _with_delimiter(self, delimiter: str, path: str) -> CsvFormat:
        try:
            return replace(self, delimiter=delimiter)
        except ConfigError as error:
            raise DataError(
                f"{path!r} cannot be read as CSV",
                why=f"its first line says that values stand between {delimiter!r}: {error.what}",
                do="correct the file, or leave out that line with skip_rows=1",
            ) from error

    def _rows(self, text: Iterable[bytes], path: str) -> Iterator[Rows]:
        """Yields the rows of a file in UTF-8, in blocks."""
        finder = self._finder
        rest = b""
        for data in text:
            rows = finder.find(rest + data, is_last=False)
            yield self._check_lengths(rows, path)
            rest = rows.data[rows.end :]
            if len(rest) > self.longest_row + 1:  # a carriage return at its end does not count
                raise self._too_long(rest, path)
        if rest:
            ended = rest.endswith((b"\n", b"\r"))
            rows = finder.find(rest if ended else rest + b"\n", is_last=True)
            if ended and ENDS_ESCAPED in rows.faults.values():  # the escaped line end belongs to the value
                rows = finder.find(rest + b"\n", is_last=True)
            yield self._check_lengths(rows, path)

    def _check_lengths(self, rows: Rows, path: str) -> Rows:
        long = np.flatnonzero(rows.stops - rows.starts > self.longest_row)
        if len(long):
            raise self._too_long(rows.data[rows.starts[long[0]] :], path)
        return rows

    def _too_long(self, row: bytes, path: str) -> DataError:
        return DataError(
            f"{path!r} cannot be read as CSV",
            why=f"a row takes more than {self.longest_row:,} bytes, or a quote is not closed: it begins with "
            f"{shown_bytes(row[:100], self._codec)!r}",
            do="correct the file, or give its spout a larger longest_row",
        )

    def _read_text(self, source: pa.NativeFile, path: str) -> Iterator[bytes]:
        """Yields the file in UTF-8, without its byte order mark and the lines to skip."""
        is_utf8 = self._codec == UTF_8
        decoder = codecs.getincrementaldecoder(self.encoding)("surrogateescape")
        before = re.compile(rb"(?:%s)?+(?:[^\r\n]*+(?:\r\n|\n|\r(?!\n|\Z))){%d}" % (BOM, self.skip_rows))
        head, past_head, ended = b"", False, False
        while not ended:
            with as_data_error(path, "CSV"):
                data: bytes = source.read(self.block_size)
                ended = not data
                if not is_utf8:
                    data = decoder.decode(data, ended).encode("utf-8", "surrogatepass")
            if not past_head:
                head += data
                if len(head) < len(BOM) and not ended:
                    continue
                skipped = before.match(head + b"\n" if ended and self.skip_rows else head)
                past_head = skipped is not None
                data = head[skipped.end() :] if skipped is not None else b""
            if data:
                yield data

    def _header(self, rows: Rows, index: int, path: str) -> list[str]:
        if index in rows.faults:
            raise DataError(
                f"{path!r} cannot be read as CSV",
                why=f"its header is wrong: {rows.faults[index]}",
                do="correct the file, or give its spout the quote and escape that it has",
            )
        text = bytes(self._for_arrow_and_python(rows.bytes_of(index))).decode("utf-8", "replace")
        dialect: dict[str, Any] = (
            {"quoting": stdlib_csv.QUOTE_NONE} if self.quote is None else {"quotechar": self.quote}
        )
        try:
            return next(stdlib_csv.reader([text], delimiter=self.delimiter, escapechar=self.escape, **dialect))
        except stdlib_csv.Error as error:
            raise DataError(
                f"{path!r} cannot be read as CSV",
                why=f"its header is wrong: {error}; it begins with {text[:100]!r}",
                do="check that the file is CSV, with the names of its columns in the first row",
            ) from error

    def _for_arrow_and_python(self, data: bytes | memoryview) -> bytes | memoryview:
        """Returns complete rows for Arrow and Python, which treat an escape alike inside and outside quotes."""
        return data if self.escape_unquoted else self._finder.with_escapes(data)

    def _chunk(self, rows: Rows, header: list[str], schema: pa.Schema, row: int) -> tuple[Chunk, int]:
        """Returns the rows as a chunk, and their number; ``row``: the number of the first row."""
        row_indices = np.arange(len(rows)) if len(header) == 1 else np.flatnonzero(rows.stops > rows.starts)
        wrong = rows.widths[row_indices] != len(header)
        numbers = row + np.arange(len(row_indices), dtype=np.int64)
        misshaped = [
            BadRow(
                int(numbers[at]),
                rows.faults.get(
                    index := int(row_indices[at]), f"{rows.widths[index]} values where the header has {len(header)}"
                ),
                shown_bytes(rows.bytes_of(index), self._codec),
            )
            for at in np.flatnonzero(wrong).tolist()
        ]
        raw = self._cells(
            rows.bytes_of_rows(row_indices[~wrong]), len(header), [header.index(name) for name in schema.names]
        )
        if raw.num_rows != len(row_indices) - wrong.sum():
            raise pa.ArrowInvalid(f"{raw.num_rows} rows were read in place of {len(row_indices) - wrong.sum()}")
        table, good_numbers, bad = self._convert_cells(raw.rename_columns(schema.names), schema, numbers[~wrong])
        return (table, good_numbers, bad.with_others(misshaped)), len(row_indices)

    def _cells(self, data: bytes | memoryview, width: int, wanted: list[int]) -> pa.Table:
        """Reads some columns of complete rows, as bytes."""
        names = [str(index) for index in wanted]
        if not len(data):
            return pa.table({name: pa.array([], pa.binary()) for name in names})
        data = self._for_arrow_and_python(data)
        if data[: len(BOM)] == BOM:
            data = BOM + bytes(data)  # Arrow would skip the first mark
        copy = pa.allocate_buffer(len(data))  # Arrow's thread that reads ahead could not wait for Python's lock
        memoryview(copy).cast("B")[:] = data
        return pacsv.read_csv(
            pa.BufferReader(copy),
            read_options=pacsv.ReadOptions(
                use_threads=False, block_size=len(data) + 1, column_names=[str(index) for index in range(width)]
            ),
            parse_options=pacsv.ParseOptions(
                delimiter=self.delimiter,
                quote_char=self.quote or False,
                escape_char=self.escape or False,
                newlines_in_values=True,
                ignore_empty_lines=width > 1,
            ),
            convert_options=pacsv.ConvertOptions(
                include_columns=names,
                column_types={name: pa.binary() for name in names},
                null_values=["", *self.null_values],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )

    def _convert_cells(self, raw: pa.Table, schema: pa.Schema, numbers: npt.NDArray[np.int64]) -> Chunk:
        columns: list[pa.ChunkedArray] = []
        flags: dict[str, Flags] = {}
        forms = dict(self.times)
        for declared in schema:
            form = forms.get(declared.name)
            parts = [self._column(chunk, declared.type, form) for chunk in raw.column(declared.name).chunks]
            columns.append(pa.chunked_array([part for part, _ in parts], declared.type))
            part_flags: list[Flags] = [np.zeros(len(part), np.bool_) if bad is None else bad for part, bad in parts]
            if any(bad.any() for bad in part_flags):
                flags[declared.name] = concat_flags(part_flags)
        table = pa.Table.from_arrays(columns, schema=schema)
        return separate_bad_rows(table, raw, flags, numbers, self.on_truncation, self._codec, self.times)

    @property
    def _codec(self) -> str:
        """The encoding, by its name in Python."""
        return codecs.lookup(self.encoding).name

    def _column(self, cells: pa.Array, target: pa.DataType, form: str | None) -> Converted:
        texts, invalid_text = isolate(cells, pa.string(), lambda some: some.cast(pa.string()))
        comma = self.decimal_point == ","
        if form is None:
            values, bad = convert_cells(with_full_stop(texts, target) if comma else texts, target)
        else:
            texts = empty_is_null(texts)
            numbers = comma and is_unit(form)
            values, bad = form_of(form).parse(with_full_stop(texts, pa.float64()) if numbers else texts, target)
        return values, union_flags(invalid_text, bad)


def _without_delimiter_line(text: Iterator[bytes], comment: bytes | None) -> tuple[Iterator[bytes], str | None]:
    """Returns the file without the line ``sep=;`` that Excel may write before the header, and without the comments and
    blank lines before that line; and the delimiter of the line."""
    commented = rb"(?:%s[^\r\n]*+)?" % re.escape(comment) if comment else b""
    before = re.compile(rb"(?:%s(?:\r\n|\n|\r(?!\n|\Z)))*+" % commented)
    head, position = b"", 0
    for data in text:
        head += data
        header = before.match(head)
        position = 0 if header is None else header.end()
        if len(head) - position > _LONGEST_DELIMITER_LINE and not (comment and head.startswith(comment, position)):
            break
    line = DELIMITER_LINE.match(head, position)
    rest = head if line is None else head[line.end() :]
    return chain([rest] if rest else [], text), None if line is None else line["sign"].decode("utf-8", "replace")


def convert_cells(texts: pa.Array, target: pa.DataType) -> Converted:
    """Returns text cells converted to the declared type."""
    if target == pa.string():
        return texts, None
    if pa.types.is_large_string(target) or pa.types.is_string_view(target):
        return texts.cast(target), None
    if pa.types.is_binary(target) or pa.types.is_large_binary(target):
        return parse_base64(texts, target)
    if pa.types.is_nested(target):
        return parse_cells(empty_is_null(texts), target)
    return parse_text(empty_is_null(texts), target)
