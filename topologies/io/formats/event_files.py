"""Files of events, whatever their format: access to their bytes, their splits, and rows that cannot be read."""

from __future__ import annotations

import codecs
import io
import json
import os
import re
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import date
from decimal import Decimal
from functools import partial
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, TypeVar
from unicodedata import normalize

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.fs as pafs

from manager.remote import is_transient
from manager.storage.files import system_reason
from windowing.errors import ConfigError, DataError, MissingError, UnreachableError, WindboltError
from windowing.schema import format_schema

# Errors of a file as a whole.


@contextmanager
def as_data_error(path: str, kind: str) -> Iterator[None]:
    """Turns the exceptions of readers about a file into a DataError that names it."""
    try:
        yield
    except (WindboltError, MemoryError):
        raise
    except (pa.ArrowException, OSError, EOFError, UnicodeError) as error:
        raise DataError(
            f"{path!r} cannot be read as {kind}",
            why=str(error).strip() or type(error).__name__,
            do="check that the file is whole and of this format",
        ) from error


def refuse_empty(source: pa.NativeFile, path: str, kind: str) -> None:
    if source.size() == 0:
        raise DataError(
            f"{path!r} is empty",
            why=f"files of {kind} have at least a header",
            do="write it again, or remove it",
        )


def refuse_absent(path: str, present: Sequence[str], schema: pa.Schema, optional: Collection[str] = ()) -> None:
    """Raises DataError for declared columns that a file lacks, or has more than once.

    Columns in ``optional`` may be absent, unless all are: such a file is probably of another kind.
    """
    absent = [name for name in schema.names if name not in present]
    if len(absent) < len(schema):
        absent = [name for name in absent if name not in optional]
    if absent:
        raise DataError(
            f"{path!r} has no column {', '.join(map(repr, absent))}",
            why=f"its columns are {', '.join(map(repr, present)) or '(none)'}" + _hint_of_look_alike(absent, present),
            do="declare the columns that are in the file, by their names",
        )
    twice = [name for name in schema.names if present.count(name) > 1]
    if twice:
        raise DataError(
            f"{path!r} has the column {', '.join(map(repr, twice))} more than once",
            why="a column is known by its name",
            do="give each column of the file a name of its own",
        )


def _hint_of_look_alike(absent: Sequence[str], present: Sequence[str]) -> str:
    """Returns a hint for names that look the same (``é`` may be one character, or an ``e`` and its accent); else ""."""
    for name in absent:
        alike = [each for each in present if normalize("NFKC", each) == normalize("NFKC", name)]
        if alike:
            return f"; {alike[0]!r} has other characters, {alike[0]!a} and not {name!a}"
    return ""


def type_name(kind: pa.DataType) -> str:
    """Returns a type in the notation of declarations."""
    return format_schema(pa.schema([pa.field("c", kind)]))[2:]


def refuse_repeated_names(schema: pa.Schema) -> None:
    if len(set(schema.names)) != len(schema.names):
        raise ConfigError(
            f"the schema names a column more than once: {', '.join(schema.names)}",
            why="a column is known by its name",
            do="give each column a name of its own",
        )


def refuse_invalid(path: str, table: pa.Table, rows: int) -> None:
    """Raises DataError for columns whose data do not match their types; text is checked later, row by row."""
    if table.num_rows != rows:
        raise DataError(
            f"{path!r} holds {table.num_rows} rows, but its header says {rows}",
            why="the file is damaged, or was changed while it was read",
            do="write it again",
        )
    for name, column in zip(table.column_names, table.columns, strict=True):
        kind = column.type
        if pa.types.is_nested(kind) or pa.types.is_dictionary(kind) or pa.types.is_decimal(kind):
            try:
                column.validate(full=True)
            except pa.ArrowInvalid as error:
                raise DataError(
                    f"{path!r} is damaged in column {name!r}", why=str(error), do="write it again"
                ) from error


# Access to the bytes of a file, whatever they mean.
#
# Causes outside the content (a missing path, a failing disk or store) raise UnreachableError here, for all readers. So
# other exceptions of a reader are about the content.


_T = TypeVar("_T")
_TEXT_END = " Detail: "


@contextmanager
def open_file(fs: pafs.FileSystem, path: str, kind: str, *, streamed: bool = False) -> Iterator[pa.NativeFile]:
    """Open a file for a reader of format ``kind``; with ``streamed``, sequentially and decompressed.

    Raises UnreachableError, also while reading; MissingError if the file does not exist.
    """
    open_bytes = _open_local if type(fs) is pafs.LocalFileSystem else _open_remote
    if streamed and without_compression(path) != path:
        _refuse_zero_bytes(fs, path)
    with open_bytes(fs, path, kind, streamed=streamed) as source:
        if not streamed:
            yield source
            return
        with as_data_error(path, kind):
            stream = _decompressed(source, path)
        yield stream


def _refuse_zero_bytes(fs: pafs.FileSystem, path: str) -> None:
    """Raises DataError for a compressed file of zero bytes, which would decompress to nothing."""
    with as_unreachable_error(path):
        size = fs.get_file_info(path).size
    if size == 0:
        raise DataError(
            f"{path!r} is empty",
            why="a compressed file has at least a header: it was cut off, or is still being written",
            do="write it again, or remove it",
        )


@contextmanager
def _open_local(fs: pafs.FileSystem, path: str, kind: str, *, streamed: bool) -> Iterator[pa.NativeFile]:
    """Yields a local file, read without Python, so that errors outside its content have an errno."""
    with as_unreachable_error(path):
        _refuse_special(path, kind)
        source = _source(fs, path, streamed=streamed)
    try:
        yield source
    except Exception as error:
        failure = _system_error(error)
        if failure is not None:
            raise unreachable_error(path, failure) from error
        raise
    finally:
        source.close()


@contextmanager
def _open_remote(fs: pafs.FileSystem, path: str, kind: str, *, streamed: bool) -> Iterator[pa.NativeFile]:
    """Yields a file of a store, or of a file system in Python. Their errors have no errno, so each read is watched."""
    source = _WatchedBytes(fs, path, streamed=streamed)
    try:
        yield pa.PythonFile(source, mode="r")
    except Exception:
        if source.failure is not None:  # a reader may have wrapped it in its own exception
            raise source.failure from None
        raise
    finally:
        source.close()


def _source(fs: pafs.FileSystem, path: str, *, streamed: bool) -> pa.NativeFile:
    return fs.open_input_stream(path, compression=None) if streamed else fs.open_input_file(path)


def _system_error(error: BaseException | None) -> OSError | None:
    """Returns the OSError that an error is, or was caused by. Arrow's errors about content have no errno."""
    while error is not None:
        if isinstance(error, OSError) and error.errno is not None:
            return error
        error = error.__cause__
    return None


@contextmanager
def as_unreachable_error(path: str) -> Iterator[None]:
    """Turns the exceptions of a file system about a path into an UnreachableError."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        raise unreachable_error(path, error) from error


def unreachable_error(path: str, error: Exception) -> UnreachableError:
    """Returns the UnreachableError for an exception of a file system about a path."""
    if isinstance(error, FileNotFoundError):
        return MissingError(
            f"{path!r} does not exist",
            why="it was listed as input and has been moved or deleted since, or the machine that reads it has no such "
            "path",
            do="put it back and rerun: its batch was not committed; or give its spout "
            "on_missing='invalid', which counts such files as invalid and continues",
        )
    return UnreachableError(
        f"{path!r} cannot be reached",
        why=system_reason(error).split(_TEXT_END, 1)[0],
        do="make it readable for the machines that read it, then rerun: its batch was not committed",
        transient=is_transient(error),
    )


class _WatchedBytes(io.RawIOBase):
    """A file of any file system; remembers the first error of reading it."""

    def __init__(self, fs: pafs.FileSystem, path: str, *, streamed: bool) -> None:
        super().__init__()
        self.failure: UnreachableError | None = None
        self._path = path
        self._source: pa.NativeFile = self._try(lambda: _source(fs, path, streamed=streamed))

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return bool(self._source.seekable())

    def read_buffer(self, size: int = -1) -> pa.Buffer:
        """Reads like ``read``, without a copy; pyarrow prefers it."""
        return self._try(lambda: self._source.read_buffer(size))

    def read(self, size: int | None = -1) -> Any:
        return self._try(lambda: self._source.read(size))

    def seek(self, offset: int, whence: int = 0) -> int:
        return int(self._try(lambda: self._source.seek(offset, whence)))

    def tell(self) -> int:
        return int(self._source.tell())

    def close(self) -> None:
        if not self.closed:
            super().close()
            if hasattr(self, "_source"):
                self._source.close()

    def _try(self, act: Callable[[], _T]) -> _T:
        try:
            with as_unreachable_error(self._path):
                return act()
        except UnreachableError as error:
            self.failure = self.failure or error
            raise


def _refuse_special(path: str, kind: str) -> None:
    """Refuse pipes and other special files: reading them might wait forever."""
    mode = os.stat(path).st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise DataError(
            f"{path!r} cannot be read as {kind}",
            why="it is a pipe, a socket or a device, not a file",
            do="remove it from the input folder",
        )


COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".lz4": "lz4", ".zst": "zstd", ".zstd": "zstd"}
"""The compressions of text files, by the endings of their names."""
_UNREAD_ENDINGS = (".xz", ".zip", ".br", ".z", ".7z", ".rar", ".snappy", ".sz", ".lzo", ".lzma", ".tgz", ".tar")


def without_compression(path: str) -> str:
    """Returns a path without the ending that names its compression."""
    end = next((end for end in COMPRESSIONS if path.lower().endswith(end)), "")
    return path[: len(path) - len(end)]


def unread_compression(path: str) -> str | None:
    """Returns an ending that names an unsupported compression or archive; None for other names."""
    return next((end for end in _UNREAD_ENDINGS if path.lower().endswith(end)), None)


def _decompressed(source: pa.NativeFile, path: str) -> pa.NativeFile:
    """Returns the decompressed content of a file whose name tells its compression."""
    codec = next((codec for end, codec in COMPRESSIONS.items() if path.lower().endswith(end)), None)
    if codec is not None:
        return pa.CompressedInputStream(source, codec)
    end = unread_compression(path)
    if end is not None:
        raise DataError(
            f"{path!r} cannot be decompressed",
            why=f"files in {end} are not read",
            do=f"compress it in another way: {', '.join(COMPRESSIONS)}",
        )
    return source


# Unreadable rows.


BAD_SCHEMA = pa.schema([("row", pa.int64()), ("reason", pa.string()), ("data", pa.string())])
UTF_8 = "utf-8"
_NO_CHARACTER = re.compile("[\udc80-\udcff]")
LONGEST_DATA = 10_000
LONGEST_VALUE = 200
_NONE: npt.NDArray[np.int64] = np.zeros(0, np.int64)


class BadRow(NamedTuple):
    row: int | None
    reason: str
    data: str


@dataclass(frozen=True)
class BadRows:
    """Unreadable rows, as columns; and the numbers of good rows that were changed in reading.

    ``rows`` has the columns row (int64, counted from 0 in the file, null if unknown), reason (string) and data (string:
    the raw line, or the declared columns of the row as JSON; truncated to 10,000 characters).
    """

    rows: pa.Table
    truncated: npt.NDArray[np.int64] = field(default_factory=lambda: _NONE)
    """Numbers of the good rows in which a time was cut, without repeats, in no order."""

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    @staticmethod
    def of(rows: Iterable[BadRow]) -> BadRows:
        sorted_rows = sorted(rows, key=lambda bad: -1 if bad.row is None else bad.row)
        if not sorted_rows:
            return NO_BAD_ROWS
        columns = [
            pa.array([bad.row for bad in sorted_rows], pa.int64()),
            pa.array([_encodable(bad.reason) for bad in sorted_rows], pa.string()),
            pa.array([_encodable(bad.data[:LONGEST_DATA]) for bad in sorted_rows], pa.string()),
        ]
        return BadRows(pa.Table.from_arrays(columns, schema=BAD_SCHEMA))

    def with_others(self, others: list[BadRow]) -> BadRows:
        if not others:
            return self
        return BadRows.of([*others, *(BadRow(**row) for row in self.rows.to_pylist())]).with_truncated(self.truncated)

    def truncated_among(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_] | None:
        """Returns a mask of the good rows ``numbers`` that were truncated; None if none was."""
        found = np.isin(numbers, self.truncated) if len(self.truncated) else None
        return found if found is not None and found.any() else None

    def with_truncated(self, numbers: npt.NDArray[np.int64]) -> BadRows:
        """Returns these bad rows with the numbers of the good rows that were truncated."""
        return replace(self, truncated=numbers) if len(numbers) else self


_NO_COLUMNS = [pa.nulls(0, kind) for kind in BAD_SCHEMA.types]  # even for empty lists, Arrow would import pandas
NO_BAD_ROWS = BadRows(pa.Table.from_arrays(_NO_COLUMNS, schema=BAD_SCHEMA))


def short_repr(value: Any) -> str:
    """Returns a value for a reason, truncated: texts and bytes in quotes, dates, times and decimals as in files."""
    if isinstance(value, date | Decimal):
        text = str(value)
    elif isinstance(value, list | tuple | dict):
        text = json.dumps(value, default=partial(_as_text, encoding=UTF_8), ensure_ascii=False)
    else:
        text = repr(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}..."


def python_value(scalar: pa.Scalar) -> Any:
    """Returns the Python value of a scalar, or its text if Python cannot represent it (a year beyond 9999)."""
    try:
        return scalar.as_py()
    except (ValueError, OverflowError, ArithmeticError, ImportError):
        return _value_with_texts(scalar)


def _value_with_texts(scalar: pa.Scalar) -> Any:
    kinds, kind = pa.types, scalar.type
    if kinds.is_temporal(kind):
        return str(scalar.cast(pa.int32()).cast(pa.int64()) if kinds.is_date32(kind) else scalar.cast(pa.int64()))
    if kinds.is_struct(kind):
        return {name: python_value(value) for name, value in scalar.items()}
    if kinds.is_nested(kind) and hasattr(scalar, "values"):
        return [python_value(value) for value in scalar.values]
    return str(scalar)


def python_columns(table: pa.Table) -> dict[str, list[Any]]:
    return {name: _python_values(column) for name, column in zip(table.column_names, table.columns, strict=True)}


def row_as_json(columns: dict[str, list[Any]], index: int, encoding: str = UTF_8) -> str:
    values = {name: column[index] for name, column in columns.items()}
    return json.dumps(values, default=partial(_as_text, encoding=encoding), ensure_ascii=False)


def shown_bytes(value: bytes, encoding: str = UTF_8) -> str:
    """Returns bytes of a text file as text; invalid bytes are written as ``\\x81``.

    ``encoding``: the codec of the file. For other encodings than UTF-8, the bytes come from the decoded file, in which
    a byte without a character became a surrogate (``surrogateescape``).
    """
    if encoding == UTF_8:
        return value.decode(UTF_8, "backslashreplace")
    text = codecs.getincrementaldecoder(UTF_8)("surrogatepass").decode(value)  # its end may be cut
    return _NO_CHARACTER.sub(lambda found: f"\\x{ord(found[0]) - 0xDC00:02x}", text)


def _python_values(column: pa.ChunkedArray) -> list[Any]:
    try:
        return list(column.to_pylist())
    except (ValueError, OverflowError, ArithmeticError, ImportError):
        return [python_value(scalar) for scalar in column]


def _as_text(value: Any, encoding: str) -> str:
    return shown_bytes(value, encoding) if isinstance(value, bytes) else str(value)


def _encodable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


# A split of a file, and the interface of readers.


Chunk: TypeAlias = tuple[pa.Table, npt.NDArray[np.int64], BadRows]
OnTruncation: TypeAlias = Literal["cut", "error"]
"""Action for times finer than microseconds: ``cut`` drops the finer digits and counts the row as truncated, ``error``
makes it a bad row."""


@dataclass(frozen=True)
class FileSplit:
    """One file, or part ``part`` of ``parts`` of it; small and picklable."""

    path: str
    part: int = 0
    parts: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.part < self.parts:
            raise ConfigError(
                f"part {self.part} of {self.parts} of {self.path!r} does not exist",
                why="parts are counted from 0",
                do="take the pieces that split() returns",
            )

    def share(self, count: int) -> range:
        """Returns the share of this part in ``count`` items: a contiguous range, about as long as that of each other
        part."""
        return range(self.part * count // self.parts, (self.part + 1) * count // self.parts)


def rows_in_order(
    parts: Sequence[tuple[npt.NDArray[np.int64], pa.Table]], schema: pa.Schema
) -> tuple[npt.NDArray[np.int64], pa.Table]:
    """Returns the rows of several parts as one table, in order of the places that each part has for its rows."""
    if not parts:
        return _NONE, schema.empty_table()
    positions = np.concatenate([part_positions for part_positions, _ in parts])
    table = pa.concat_tables([table for _, table in parts])
    if (np.diff(positions) < 0).any():
        order = np.argsort(positions, kind="stable")
        positions, table = positions[order], table.take(pa.array(order))
    return positions, table


def check_truncation(given: str) -> None:
    """Raises ConfigError for a value that is no ``OnTruncation``."""
    if given not in ("cut", "error"):
        raise ConfigError(
            f"on_truncation={given!r:.60}",
            why="times have microseconds: what is finer is cut off and counted, or such a row is invalid",
            do="use 'cut' or 'error'",
        )


class OneSplit:
    """Base of formats whose files are read as a whole, because only reading from the start finds a row or its
    number."""

    def split(self, fs: pafs.FileSystem, path: str, wanted: int) -> list[FileSplit]:
        """Returns one split: the file as a whole."""
        return [FileSplit(path)]


class FileFormat(Protocol):
    """A kind of file: a frozen, picklable dataclass of its options."""

    @property
    def name(self) -> str: ...

    def split(self, fs: pafs.FileSystem, path: str, wanted: int) -> list[FileSplit]:
        """Returns at most ``wanted`` splits that together make up the file; one if the format cannot be divided."""
        ...

    def read(
        self,
        fs: pafs.FileSystem,
        split: FileSplit,
        schema: pa.Schema,
        needed: Collection[str] | None = None,
        optional: Collection[str] = (),
    ) -> Iterator[Chunk]:
        """Yields the split in chunks: good rows, their row numbers, and bad rows with the numbers of truncated rows.

        Good rows have exactly ``schema``; a format that stores columns separately may omit columns outside ``needed``
        (None: all are needed). Columns in ``optional`` are null if the file lacks them, unless the file lacks all
        columns. Row numbers count from 0 in the whole file. Memory is bounded by a chunk.

        Raises DataError, which names the path, if the file is not of this format. The error may come after some chunks,
        which are then not the whole file.
        """
        ...
