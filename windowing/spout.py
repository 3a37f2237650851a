"""A source of events that users write: Storm's spout."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from windowing.schema import EmittedRows, SchemaLike


class Spout(ABC):
    """A source of events, which is asked for its next rows.

        class Prices(Spout):
            schema = "ts timestamp, symbol string, price double"

            def read(self, offset, limit):
                rows = fetch(after=offset or 0, limit=limit)
                return [(row.ts, row.symbol, row.price) for row in rows], rows[-1].id if rows else offset

        builder.set_spout("prices", Prices())

    It is called in the process that starts the run, never in its tasks, by one thread at a time. In a run on a
    checkpoint the rows that it returns are written there together with the offset, before a batch uses them: each is in
    exactly one batch, whatever crashes, also where the source cannot be read again. All methods but ``read`` may be
    left out.
    """

    schema: ClassVar[SchemaLike]
    """The columns of its rows, as for ``spouts.files``."""
    defaults: ClassVar[Mapping[str, Any]] = {}
    """Values for columns in which its rows have none."""
    rows_per_batch: ClassVar[int] = 100_000
    """Number of rows that a micro-batch takes, about; ``read`` is called until there are so many, no more are there, or
    a second has passed."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"  # without its attributes: a password may be among them

    def open(self) -> None:  # noqa: B027 - most have nothing to open
        """Called before the first ``read`` of a run: connect here."""

    @abstractmethod
    def read(self, offset: Any, limit: int) -> tuple[EmittedRows, Any] | None:
        """Returns the next rows, and the offset behind them; None, or no rows, where there are none now.

        ``offset``: what the call before returned, as plain JSON values; None at the very beginning. ``limit``: how many
        rows are wanted; more or fewer are no error. Rows are tuples or dicts, a pyarrow table or a DataFrame. A call
        should not wait for rows longer than a second: nothing else happens meanwhile.

        An exception that may pass (a connection that is lost, a time-out) is tried again three times, with the same
        offset; any other ends the run, and the next run calls with that offset again.
        """

    def acknowledge(self, offset: Any) -> None:  # noqa: B027 - few sources want to know
        """Called when a batch is committed, with the offset behind its rows: the source may forget what was before it.

        After a crash it may be called again for the last batch. In a run without a checkpoint it is not called.
        """

    def close(self) -> None:  # noqa: B027 - most have nothing to close
        """Called at the end of a run, also of one that fails, if ``open`` was called."""
