"""Sources of events that users write: Storm's spouts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from windowing.schema import EmittedRows, SchemaLike


class _UserSpout(ABC):
    """Base class of all spouts that users write."""

    schema: ClassVar[SchemaLike]
    """The columns of its rows, as for ``spouts.files``."""
    timezone: ClassVar[str | None] = None
    """The time zone of datetimes without one, such as ``"Europe/Berlin"``; None: UTC. Texts are not read as times."""
    defaults: ClassVar[Mapping[str, Any]] = {}
    """Values for columns that are missing in its rows."""
    rows_per_batch: ClassVar[int] = 100_000
    """Approximate number of rows of a micro-batch."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"  # without attributes, since one may be a password


class Spout(_UserSpout):
    """A source of events whose ``read`` returns the next rows.

        class Prices(Spout):
            schema = "ts timestamp, symbol string, price double"

            def read(self, offset, limit):
                rows = fetch(after=offset or 0, limit=limit)
                return [(row.ts, row.symbol, row.price) for row in rows], rows[-1].id if rows else offset

        builder.set_spout("prices", Prices())

    Its methods are called in the process that starts the run, never in tasks, by one thread at a time. In a run with a
    checkpoint, the returned rows and the offset are written to the checkpoint before a batch uses them. So each row is
    in exactly one batch, even after a crash, and even if the source cannot be read again. All methods except ``read``
    are optional.
    """

    rows_per_batch: ClassVar[int] = 100_000
    """Approximate number of rows of a micro-batch; ``read`` is called until it has returned so many rows or no row, or
    a second has passed."""

    def open(self) -> None:
        """Called before the first ``read`` of a run; connect here."""

    @abstractmethod
    def read(self, offset: Any, limit: int) -> tuple[EmittedRows, Any] | None:
        """Returns the next rows and the offset after them; None, or no rows, if there are none now.

        ``offset``: the offset that the last call returned, made of JSON values; None in the very first call. ``limit``:
        the number of rows that are needed; more or fewer may be returned. Rows are tuples or dicts, a pyarrow table or
        a DataFrame. A call should not wait for rows longer than a second, since the run waits for it.

        After an exception that may pass (a lost connection, a time-out) the call is repeated up to three times with the
        same offset. Any other exception ends the run, and the next run calls with that offset again.
        """

    def acknowledge(self, offset: Any) -> None:
        """Called when a batch is committed, with the offset after its rows; the source may delete the rows before it.

        After a crash it may be called again for the last batch. In a run without a checkpoint it is not called.
        """

    def close(self) -> None:
        """Called at the end of a run, also after a failure, if ``open`` has succeeded."""


class PartitionedSpout(_UserSpout):
    """A source of events with partitions that can be read again; tasks read ranges of several partitions at a time.

        class Orders(PartitionedSpout):
            schema = "shop string, ts timestamp, amount double"

            def partitions(self):
                return [shop for shop, in connect().execute("SELECT DISTINCT shop FROM orders")]

            def end(self, partition, start, limit):
                query = "SELECT max(id) FROM (SELECT id FROM orders WHERE shop = ? AND id > ? ORDER BY id LIMIT ?)"
                return connect().execute(query, (partition, start or 0, limit)).fetchone()[0]

            def read(self, partition, start, end):
                query = "SELECT shop, ts, amount FROM orders WHERE shop = ? AND id > ? AND id <= ? ORDER BY id"
                return connect().execute(query, (partition, start or 0, end)).fetchall()

        builder.set_spout("orders", Orders())

    A run records the ranges of a batch before it reads them, and stores no rows: after a crash the ranges are read
    again, by the same calls of ``read``. Offsets are any values that JSON has: numbers, texts, lists or dicts. windbolt
    only tests offsets for equality.

    ``read`` is called in tasks, which may be processes on other machines. Each task opens and closes its own copy of
    the spout; attributes that ``__init__`` sets are sent to the tasks. The process that starts the run opens another
    copy, for ``partitions``, ``begin``, ``end`` and ``acknowledge``. With ``with_watermark(partition=SOURCE)`` each
    partition has its own watermark.
    """

    merge_by: ClassVar[str | None] = None
    """The column, a timestamp or a whole number, by which the rows of the partitions are merged in each batch; None:
    rows arrive partition by partition, in order of the names of partitions."""

    def open(self) -> None:
        """Called before all other methods of each copy; connect here."""

    @abstractmethod
    def partitions(self) -> Iterable[str]:
        """Returns the names of all partitions, in any order.

        Called before each batch, so partitions can be added. Keep naming a partition that gets no more rows. The
        watermark waits for it, unless ``with_watermark(partition_idle_timeout=...)`` leaves it out.
        """

    def begin(self, partition: str) -> Any:
        """Returns the offset from which a new partition is read; None, the default, stands for its beginning.

        Called once for each partition, and again if the run ended before the offset was recorded.
        """

    @abstractmethod
    def end(self, partition: str, start: Any, limit: int) -> Any:
        """Returns the offset up to which the partition can be read now, at most about ``limit`` rows after ``start``;
        ``start`` or None if there are no new rows.

        May be called several times before ``read``, with the same ``start`` and another ``limit``.
        """

    @abstractmethod
    def read(self, partition: str, start: Any, end: Any) -> EmittedRows:
        """Returns the rows of a partition after ``start``, up to ``end``: always the same rows in the same order for
        the same arguments.

        Called in tasks, for several partitions at a time, and again after a crash. Rows are tuples or dicts, a pyarrow
        table or a DataFrame. After an exception that may pass (a lost connection, a time-out) the call is repeated up
        to three times; any other exception ends the run, and the next run reads the same ranges.
        """

    def acknowledge(self, offsets: Mapping[str, Any]) -> None:
        """Called when a batch is committed, with the offset up to which each partition was read.

        After a crash it may be called again for the last batch. In a run without a checkpoint it is not called.
        """

    def close(self) -> None:
        """Called after all other methods of each copy, also after a failure, if ``open`` has succeeded."""
