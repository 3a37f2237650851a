"""Sources of events that users write: Storm's spouts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from windowing.schema import EmittedRows, SchemaLike


class _OwnSpout(ABC):
    """Base class of all spouts that users write."""

    schema: ClassVar[SchemaLike]
    """The columns of its rows, as for ``spouts.files``."""
    timezone: ClassVar[str | None] = None
    """The zone of datetimes without one, such as ``"Europe/Berlin"``; None: UTC. Texts are no times."""
    defaults: ClassVar[Mapping[str, Any]] = {}
    """Values for columns in which its rows have none."""
    rows_per_batch: ClassVar[int] = 100_000
    """Number of rows that a micro-batch takes, about."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"  # without its attributes: a password may be among them


class Spout(_OwnSpout):
    """A source of events, which is asked for its next rows.

        class Prices(Spout):
            schema = "ts timestamp, symbol string, price double"

            def read(self, offset, limit):
                rows = fetch(after=offset or 0, limit=limit)
                return [(row.ts, row.symbol, row.price) for row in rows], rows[-1].id if rows else offset

        builder.set_spout("prices", Prices())

    It is called in the process that starts the run, never in its tasks, by one thread at a time. In a run on a
    checkpoint the rows that it returns are written there together with the offset, before a batch uses them: each is in
    exactly one batch, whatever crashes, also if the source cannot be read again. All methods but ``read`` may be left
    out.
    """

    rows_per_batch: ClassVar[int] = 100_000
    """Number of rows that a micro-batch takes, about; ``read`` is called until there are so many, no more are there, or
    a second has passed."""

    def open(self) -> None:
        """Called before the first ``read`` of a run: connect here."""

    @abstractmethod
    def read(self, offset: Any, limit: int) -> tuple[EmittedRows, Any] | None:
        """Returns the next rows, and the offset behind them; None, or no rows, if there are none now.

        ``offset``: what the call before returned, as plain JSON values; None at the very beginning. ``limit``: how many
        rows are wanted; more or fewer are no error. Rows are tuples or dicts, a pyarrow table or a DataFrame. A call
        should not wait for rows longer than a second: nothing else happens meanwhile.

        An exception that may pass (a connection that is lost, a time-out) is tried again three times, with the same
        offset; any other ends the run, and the next run calls with that offset again.
        """

    def acknowledge(self, offset: Any) -> None:
        """Called when a batch is committed, with the offset behind its rows: the source may forget what was before it.

        After a crash it may be called again for the last batch. In a run without a checkpoint it is not called.
        """

    def close(self) -> None:
        """Called at the end of a run, also of one that fails, if ``open`` has succeeded."""


class PartitionedSpout(_OwnSpout):
    """A source of events that lies in partitions and can be read again: tasks read ranges of these, many at a time.

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

    A run notes which ranges a batch reads before it reads them, and keeps no rows: what has crashed is read again, by
    the same calls of ``read``. Offsets are numbers, texts, lists or dicts, whatever JSON can hold; windbolt compares
    them, and does not count with them.

    ``read`` is called in tasks, which may be processes of other machines. Each task has a copy of the spout, which is
    opened and closed there; so has the process that starts the run, for ``partitions``, ``begin``, ``end`` and
    ``acknowledge``. What ``__init__`` keeps is sent to the tasks. Each partition has a watermark of its own with
    ``with_watermark(partition=SOURCE)``.
    """

    merge_by: ClassVar[str | None] = None
    """The column, a timestamp or a whole number, by which the rows of a batch's partitions are merged; None: they
    arrive partition by partition, in order of their names."""

    def open(self) -> None:
        """Called before the first other call of each copy: connect here."""

    @abstractmethod
    def partitions(self) -> Iterable[str]:
        """Returns the names of all partitions, in any order.

        Called before each batch, so that some may be added. One that has been named is named further, also if it gets
        no more rows: the watermark waits for it, unless ``with_watermark(partition_idle_timeout=...)`` leaves it out.
        """

    def begin(self, partition: str) -> Any:
        """Returns the offset from which a new partition is read; None, which this returns, stands for its beginning.

        Called once for each partition, and again if the run ended before it was noted.
        """

    @abstractmethod
    def end(self, partition: str, start: Any, limit: int) -> Any:
        """Returns the offset up to which the partition can be read now, about ``limit`` rows behind ``start`` at most;
        ``start`` or None if nothing is new.

        May be called again before ``read`` is, with the same ``start`` and another ``limit``.
        """

    @abstractmethod
    def read(self, partition: str, start: Any, end: Any) -> EmittedRows:
        """Returns the rows of a partition that are behind ``start``, up to ``end``: the same ones in the same order
        whenever it is called with these arguments.

        Called in tasks, of several partitions at a time, and again after a crash. Rows are tuples or dicts, a pyarrow
        table or a DataFrame. An exception that may pass (a connection that is lost, a time-out) is tried again three
        times; any other ends the run, and the next run reads the same ranges.
        """

    def acknowledge(self, offsets: Mapping[str, Any]) -> None:
        """Called when a batch is committed, with the offset by partition up to which rows were read.

        After a crash it may be called again for the last batch. In a run without a checkpoint it is not called.
        """

    def close(self) -> None:
        """Called after the last other call of each copy, also after one that fails, if ``open`` has succeeded."""
