"""Unreadable rows."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import date
from decimal import Decimal
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

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
    """Unreadable rows, as columns; and which of the others were changed in reading.

    ``rows`` has the columns row (int64, counted from 0 in the file, null if unknown), reason (string) and data (string:
    the raw line, or the declared columns of the row as JSON; truncated to 10,000 characters).
    """

    rows: pa.Table
    truncated: npt.NDArray[np.int64] = field(default_factory=lambda: _NONE)
    """The numbers of the good rows in which a time was cut, once each, in no order."""

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    @staticmethod
    def of(rows: Iterable[BadRow]) -> BadRows:
        listed = sorted(rows, key=lambda bad: -1 if bad.row is None else bad.row)
        if not listed:
            return NO_BAD_ROWS
        columns = [
            pa.array([bad.row for bad in listed], pa.int64()),
            pa.array([_encodable(bad.reason) for bad in listed], pa.string()),
            pa.array([_encodable(bad.data[:LONGEST_DATA]) for bad in listed], pa.string()),
        ]
        return BadRows(pa.Table.from_arrays(columns, schema=BAD_SCHEMA))

    def with_others(self, others: list[BadRow]) -> BadRows:
        if not others:
            return self
        return BadRows.of([*others, *(BadRow(**row) for row in self.rows.to_pylist())]).with_truncated(self.truncated)

    def truncated_among(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_] | None:
        """Which of the good rows, given by their numbers, were truncated; None where none was."""
        found = np.isin(numbers, self.truncated) if len(self.truncated) else None
        return found if found is not None and found.any() else None

    def with_truncated(self, numbers: npt.NDArray[np.int64]) -> BadRows:
        """These bad rows beside good ones of which some were truncated."""
        return replace(self, truncated=numbers) if len(numbers) else self


NO_BAD_ROWS = BadRows(BAD_SCHEMA.empty_table())


def short_repr(value: Any) -> str:
    """A value as shown in reasons, truncated: texts and bytes in quotes, dates, times and decimals as files have
    them."""
    if isinstance(value, date | Decimal):
        text = str(value)
    elif isinstance(value, list | tuple | dict):
        text = json.dumps(value, default=partial(_text, encoding=UTF_8), ensure_ascii=False)
    else:
        text = repr(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}..."


def plain(scalar: pa.Scalar) -> Any:
    """The Python value of a scalar, or its text where Python cannot represent it (a year beyond 9999)."""
    try:
        return scalar.as_py()
    except (ValueError, OverflowError, ArithmeticError, ImportError):
        return _without_python(scalar)


def _without_python(scalar: pa.Scalar) -> Any:
    kinds, kind = pa.types, scalar.type
    if kinds.is_temporal(kind):
        return str(scalar.cast(pa.int32()).cast(pa.int64()) if kinds.is_date32(kind) else scalar.cast(pa.int64()))
    if kinds.is_struct(kind):
        return {name: plain(value) for name, value in scalar.items()}
    if kinds.is_nested(kind) and hasattr(scalar, "values"):
        return [plain(value) for value in scalar.values]
    return str(scalar)


def python_columns(table: pa.Table) -> dict[str, list[Any]]:
    return {name: _python(column) for name, column in zip(table.column_names, table.columns, strict=True)}


def row_as_json(columns: dict[str, list[Any]], index: int, encoding: str = UTF_8) -> str:
    values = {name: column[index] for name, column in columns.items()}
    return json.dumps(values, default=partial(_text, encoding=encoding), ensure_ascii=False)


def shown_bytes(value: bytes, encoding: str = UTF_8) -> str:
    """Bytes of a text file as text, with what is not valid in its encoding as ``\\x81``.

    ``encoding``: that of the file, by the name of its codec. In another one than UTF-8 the bytes are those of the
    decoded file, where a byte that it has no character for became a surrogate (``surrogateescape``).
    """
    if encoding == UTF_8:
        return value.decode(UTF_8, "backslashreplace")
    text = codecs.getincrementaldecoder(UTF_8)("surrogatepass").decode(value)  # whose end may be cut
    return _NO_CHARACTER.sub(lambda found: f"\\x{ord(found[0]) - 0xDC00:02x}", text)


def _python(column: pa.ChunkedArray) -> list[Any]:
    try:
        return list(column.to_pylist())
    except (ValueError, OverflowError, ArithmeticError, ImportError):
        return [plain(scalar) for scalar in column]


def _text(value: Any, encoding: str) -> str:
    return shown_bytes(value, encoding) if isinstance(value, bytes) else str(value)


def _encodable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
