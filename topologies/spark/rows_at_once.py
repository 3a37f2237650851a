"""How many rows Spark hands to Python at a time: some megabytes, whatever their columns."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
from pyspark.sql import SparkSession

_BYTES, _ROWS = "spark.sql.execution.arrow.maxBytesPerBatch", "spark.sql.execution.arrow.maxRecordsPerBatch"
_AT_ONCE = 2**24
"""Target size in bytes of the rows handed over at a time."""
_FEWEST, _MOST, _MOST_FIXED = 200, 10_000, 200_000
"""Minimum and maximum number of rows at a time, and the maximum where all columns have a fixed width. The second is
Spark's own default: rows that suddenly are far wider than all before them need no more memory than without windbolt."""
_TEXT, _BINARY = 2**16, 2**17
"""Assumed maximum size in bytes of a text value, and of other values without a fixed width, before any row was seen:
records of Kafka may have a megabyte each."""
_UNEVEN = 4
"""By how much the widest rows seen are assumed to fall short of the next ones."""


class RowsAtOnce:
    """The limit of one run. It starts with what the columns may hold, and follows what the rows of the run have had.

    Spark itself would measure all bytes after each row, which costs more than reading it. So rows are counted, unless
    the user has set Spark's option to count bytes, or fewer rows than these. What was learned ends with the run: a run
    that ran out of memory over sudden wide rows continues with few at a time.
    """

    def __init__(self, schemas: Iterable[pa.Schema]) -> None:
        schemas = list(schemas)
        self._widest = max((sum(_width(field.type) for field in schema) for schema in schemas), default=0)
        self._fixed = all(_is_fixed(field.type) for schema in schemas for field in schema)
        self._seen = 0.0
        self._users: int | None = None
        self._counts_bytes: bool | None = None

    def learn(self, row_bytes: float) -> None:
        """Take note of the mean size in bytes of the rows handed over together."""
        self._seen = max(self._seen, row_bytes)

    def rows(self) -> int:
        """The number of rows at a time."""
        if self._fixed:
            return _within(_AT_ONCE / max(self._widest, 1), _MOST_FIXED)
        return _within(_AT_ONCE / (self._seen * _UNEVEN if self._seen else self._widest), _MOST)

    def apply(self, session: SparkSession) -> None:
        """Set it for the query's session, which is a copy of the user's."""
        if self._counts_bytes is None:  # asked once: Spark hands over all its settings for it, which takes milliseconds
            self._counts_bytes = session.sparkContext.getConf().get(_BYTES) is not None
        if self._counts_bytes:
            return
        if self._users is None:
            self._users = int(session.conf.get(_ROWS) or 0)
        rows = self.rows()
        session.conf.set(_BYTES, 2**31 - 1)
        session.conf.set(_ROWS, self._users if 0 < self._users < rows else rows)


def _within(rows: float, most: int) -> int:
    return int(min(max(rows, _FEWEST), most))


def _is_fixed(kind: pa.DataType) -> bool:
    try:
        return bool(kind.bit_width)
    except ValueError:
        return False


def _width(kind: pa.DataType) -> int:
    if _is_fixed(kind):
        return -(-int(kind.bit_width) // 8)
    return _TEXT if pa.types.is_string(kind) else _BINARY
