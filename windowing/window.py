"""The windows that bolts are called with: a single one with its events, or several as one set of columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, overload

import numpy as np
import pyarrow as pa

from windowing.calls import checked_on_failure
from windowing.columns import canonical_floats, is_sorted, read_only, stable_order
from windowing.errors import ConfigError, did_you_mean_column
from windowing.events import Tuple
from windowing.settings.panes import Pane
from windowing.settings.triggers import FiredBy
from windowing.timestamps import FOREVER, to_datetime

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray


Ident = tuple[int, int, int, int]
"""Identity of a window: its kind, the code of its key, its start and its end in microseconds."""

Members = range | np.ndarray
"""Positions of the events of a window in its source: a range if they are contiguous there, else an array; a custom
policy may leave out events in between."""


class ColumnReads:
    """Record of the columns of its windows that a bolt has read (decision 98)."""

    __slots__ = ("names", "reads_all")

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.reads_all = False
        """True if the bolt has read whole rows, and so may have used any column."""


class EventSource(Protocol):
    """A store of events that windows read: the event queue, the retained events of a task, or the rows of a test."""

    @property
    def stream_names(self) -> Sequence[str]: ...
    def table(self, members: Members) -> pa.Table: ...
    def timestamps(self, members: Members) -> NDArray[np.int64]: ...
    def streams(self, members: Members) -> NDArray[np.int8]: ...


class TupleWindow:
    """The events of one window, in order of (time, arrival); tables are made when they are read (ST-21).

    ``table``, ``new`` and ``expired`` are Arrow tables of the bolt's input columns; for Storm's windows they are slices
    of the queue, without a copy. ``select("user", "amount")`` returns a table of these columns only.

    The previous window is the one that fired before this one on the same task, or for the same key. ``new``: the events
    that are in this window and not in the previous one. ``expired``: the events that are in the previous window and not
    in this one. With ``Panes``, several kinds of window or triggers of keys there is no previous window: ``new`` are
    then the events that have been in no window yet, and there is no ``expired``.
    """

    __slots__ = (
        "_codes",
        "_expired",
        "_expired_from",
        "_members",
        "_new",
        "_source",
        "_table",
        "end_timestamp",
        "fired_by",
        "ident",
        "key",
        "kind",
        "pane",
        "reads",
        "start_timestamp",
        "task",
    )

    def __init__(
        self,
        source: EventSource,
        members: Members,
        new: Members,
        expired: Members | None,
        start_timestamp: int | None,
        end_timestamp: int,
        task: int = 0,
        expired_from: EventSource | None = None,
        key: Any = None,
        kind: int | None = None,
        ident: Ident | None = None,
        fired_by: FiredBy | None = None,
        pane: Pane | None = None,
    ) -> None:
        """``members``, ``new``, ``expired``: positions of events in ``source``. ``expired`` None: there is no previous
        window. ``expired_from``: the source of ``expired``, if it is not ``source``."""
        self._source = source
        self._members, self._new, self._expired = members, new, expired
        self._expired_from = source if expired_from is None else expired_from
        self.start_timestamp = start_timestamp
        """The start in **microseconds** since the epoch, like ``timestamps`` (in Storm, scenarios and answers times are
        milliseconds); None if the length is a count. ``start`` is the same as a datetime."""
        self.end_timestamp = end_timestamp
        """The end in **microseconds** since the epoch: the aligned end, or the time of the event that completes a
        count. The greatest int64 if the window has no end. ``end`` is the same as a datetime, or None."""
        self.task = task
        self.key = key
        """The value of the key, or a tuple of values if the key has several columns; None without ``with_key``."""
        self.kind = kind
        """The position of the window's kind, from 0; None unless ``with_window`` was given several."""
        self.ident = ident
        self.fired_by = fired_by
        """The reason why the window fired, if the bolt has a trigger (``with_trigger``); else None."""
        self.pane = pane
        """Which firing of the window this is; None without ``with_trigger(Panes(...))``."""
        self.reads: ColumnReads | None = None
        """Record of the columns that the bolt reads, during its call in a run; else None."""
        self._table: pa.Table | None = None
        self._codes: NDArray[np.int8] | None = None

    def __len__(self) -> int:
        return len(self._members)

    def __repr__(self) -> str:
        end = "no end" if self.end is None else self.end
        return f"<TupleWindow {self.start} .. {end}: {len(self)} events, {len(self._new)} new, task {self.task}>"

    @property
    def source(self) -> EventSource:
        """The source of the events."""
        self._record_all_read()
        return self._source

    @property
    def members(self) -> Members:
        """The positions of the events in the source."""
        return self._members

    @property
    def positions(self) -> range:
        """The positions of the events in the source, as a range. Raises ConfigError if they are not contiguous
        there."""
        if not isinstance(self._members, range):
            raise ConfigError(
                "this window has no window.positions",
                why="its events do not follow each other in their source: its policy or kind leaves out some between",
                do="use window.members, the position of each",
            )
        return self._members

    @property
    def start(self) -> datetime | None:
        """The start as a datetime in UTC; None if the length is a count."""
        return None if self.start_timestamp is None else to_datetime(self.start_timestamp)

    @property
    def end(self) -> datetime | None:
        """The end as a datetime in UTC; None if the window has no end, because an event in it has none."""
        return None if self.end_timestamp == FOREVER else to_datetime(self.end_timestamp)

    @property
    def table(self) -> pa.Table:
        """All events of the window as an Arrow table."""
        if self.reads is not None:
            self.reads.reads_all = True
        return self._events()

    @property
    def new(self) -> pa.Table:
        """The events that were not in the previous window. If there is no previous window: the events that have been
        in no window yet."""
        self._record_all_read()
        return self._source.table(self._new)

    @property
    def expired(self) -> pa.Table:
        """The events of the previous window that are not in this window (ST-21), in the order of the previous window.

        The previous window is the window before on the same task or of the same key. Raises ConfigError if there is no
        previous window. For windows per key and of other kinds than Storm's, raises ConfigError also if the code of the
        bolt does not name ``expired``: see ``with_policies(expired=...)``.
        """
        self._record_all_read()
        return self._expired_from.table(self._previous_events())

    @property
    def knows_expired(self) -> bool:
        """True if ``expired`` can be read."""
        return self._expired is not None

    @property
    def lifetime_ends(self) -> NDArray[np.int64]:
        """End of the lifetime of each event, in microseconds (``with_lifetime``): one microsecond after a point, and
        the greatest int64 for an event without an end."""
        ends = getattr(self._source, "lifetime_ends", lambda members: None)(self._members)
        return read_only(self.timestamps + 1 if ends is None else ends)

    @property
    def timestamps(self) -> NDArray[np.int64]:
        """The time of each event in microseconds, as a read-only array."""
        return read_only(self._source.timestamps(self._members))

    @checked_on_failure
    def column(self, name: str) -> NDArray[Any]:
        """Returns one column of the window as a NumPy array, with NaN or None for nulls. Raises KeyError for an unknown
        column."""
        column = _column(self._events(), name)
        if self.reads is not None:
            self.reads.names.add(name)
        return _numpy(column)

    @checked_on_failure
    def select(self, *columns: str, stream: str | None = None) -> pa.Table:
        """Returns these columns of the window's events, in this order, as an Arrow table.

        ``stream``: only the events of this input stream. Raises KeyError for an unknown column or stream, and
        ConfigError if no column is named, or one twice.
        """
        chosen = self._selected(self._events(), columns)
        return chosen if stream is None else self._of_stream(chosen, stream)

    @checked_on_failure
    def select_new(self, *columns: str) -> pa.Table:
        """Returns these columns of the events in ``new``, like ``select``."""
        return self._selected(self._source.table(self._new), columns)

    @checked_on_failure
    def select_expired(self, *columns: str) -> pa.Table:
        """Returns these columns of the events in ``expired``, like ``select``."""
        return self._selected(self._expired_from.table(self._previous_events()), columns)

    @checked_on_failure
    def to_pandas(self) -> pd.DataFrame:
        """Returns all events of the window as a pandas DataFrame."""
        frame: pd.DataFrame = self.table.to_pandas()
        return frame

    @checked_on_failure
    def stream(self, name: str) -> pa.Table:
        """Returns the events of one of the bolt's input streams."""
        return self._of_stream(self.table, name)

    @checked_on_failure
    def places(self, stream: str) -> NDArray[np.int64]:
        """Returns the row numbers in ``table`` of the events of one of the bolt's input streams."""
        return np.flatnonzero(self._streams() == self._code(stream))

    @checked_on_failure
    def groups(self, by: str, *columns: str, stream: str | None = None) -> Iterator[tuple[Any, ...]]:
        """Yields a tuple for each value of the column ``by``: the value, then for each of ``columns`` a NumPy array of
        its values in the events of the group.

        Groups come in the order in which their values first appear, null last; arrays have the order of the window.
        They are slices of one sorted array for the whole window. ``stream``: only the events of this input stream.
        """
        names = list(dict.fromkeys((by, *columns)))
        table = self._selected(self._events(), names)
        if stream is not None:
            table = self._of_stream(table, stream)
        column = table.column(by).combine_chunks()
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)  # its dictionary may be in another order
        if pa.types.is_floating(column.type):
            column = canonical_floats(column)
        values = column.dictionary_encode()
        codes = values.indices.fill_null(len(values.dictionary)).to_numpy(zero_copy_only=False).astype(np.int64)
        arrays = [_numpy(table.column(name)) for name in columns]
        if not is_sorted(codes):
            order = stable_order(codes)
            codes, arrays = codes[order], [array[order] for array in arrays]
        if not len(codes):
            return iter(())
        starts = np.concatenate([[0], np.flatnonzero(np.diff(codes)) + 1])
        groups = [*values.dictionary.to_pylist(), None]
        # No Python code runs per group here, because groups often have only a few events.
        runs = list(map(slice, starts.tolist(), [*starts[1:].tolist(), len(codes)]))
        return zip(
            map(groups.__getitem__, codes[starts].tolist()),
            *(map(array.__getitem__, runs) for array in arrays),
            strict=True,
        )

    @checked_on_failure
    def get(self) -> list[Tuple]:
        """Returns all events of the window as Tuple objects; slower than the table."""
        return self._tuples(self._members)

    @checked_on_failure
    def get_new(self) -> list[Tuple]:
        """Returns the events in ``new`` as Tuple objects."""
        return self._tuples(self._new)

    @checked_on_failure
    def get_expired(self) -> list[Tuple]:
        """Returns the events in ``expired`` as Tuple objects."""
        return self._tuples(self._previous_events(), self._expired_from)

    def _events(self) -> pa.Table:
        """Returns all events, without recording a read."""
        if self._table is None:
            self._table = self._source.table(self._members)
        return self._table

    def _selected(self, table: pa.Table, columns: Sequence[str]) -> pa.Table:
        chosen = select_columns(table, columns)
        if self.reads is not None:
            self.reads.names.update(columns)
        return chosen

    def _of_stream(self, table: pa.Table, stream: str) -> pa.Table:
        """Returns the rows of one input stream, from a table of all events."""
        code = self._code(stream)
        return table if len(self._source.stream_names) == 1 else table.filter(pa.array(self._streams() == code))

    def _record_all_read(self) -> None:
        if self.reads is not None:
            self.reads.reads_all = True

    def _code(self, stream: str) -> int:
        names = list(self._source.stream_names)
        if stream not in names:
            raise KeyError(f"no input stream {stream!r}; this bolt reads {', '.join(names)}")
        return names.index(stream)

    def _streams(self) -> NDArray[np.int8]:
        if self._codes is None:
            self._codes = self._source.streams(self._members)
        return self._codes

    def _previous_events(self) -> Members:
        if self._expired is None:
            raise ConfigError(
                "this window has no window.expired",
                why="windows per key, and of other kinds than Storm's, keep the previous window only if the bolt's "
                "code mentions .expired; with panes, triggers or several kinds there is no previous window",
                do="call with_policies(expired=True) on the bolt; build() then says whether its windows can have it",
            )
        return self._expired

    def _tuples(self, members: Members, source: EventSource | None = None) -> list[Tuple]:
        self._record_all_read()
        source = source or self._source
        rows = source.table(members).to_pylist()
        times = source.timestamps(members).tolist()
        names = source.stream_names
        streams = [names[code] for code in source.streams(members).tolist()]
        return [Tuple(row, time, stream) for row, time, stream in zip(rows, times, streams, strict=True)]


def source_and_members(window: TupleWindow) -> tuple[EventSource, Members]:
    """Returns the source of a window's events and their positions there, without recording a read."""
    return window._source, window._members


def table_bytes(window: TupleWindow) -> int:
    """Returns the size in memory of the table of a window, in bytes; 0 if the table has not been made."""
    return 0 if window._table is None else int(window._table.nbytes)


def select_columns(table: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Returns these columns of a table of events; raises KeyError for an unknown column, and ConfigError if no column
    is named, or one twice."""
    names = list(columns)
    if not all(isinstance(name, str) for name in names):
        raise TypeError("columns are named by texts")  # Arrow takes numbers for positions
    if not names or len(set(names)) < len(names):
        repeated = next((name for name in names if names.count(name) > 1), None)
        raise ConfigError(
            "select() without a column" if repeated is None else f"select() with the column {repeated!r} twice",
            why="it gives a table of the columns that are named, each once",
            do='name them: window.select("user", "amount"); window.table has all',
        )
    try:
        return table.select(names)
    except KeyError:
        raise _unknown_column(table, next(name for name in names if name not in table.column_names)) from None


def _unknown_column(table: pa.Table, name: str) -> KeyError:
    names = table.column_names
    return KeyError(f"no column {name!r}{did_you_mean_column(name, names)} (the window has {', '.join(names)})")


def _column(table: pa.Table, name: str) -> pa.ChunkedArray:
    if name not in table.column_names:
        raise _unknown_column(table, name)
    return table.column(name)


def in_one_piece(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """Returns a column in one piece."""
    if isinstance(column, pa.Array):
        return column
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _numpy(column: pa.ChunkedArray) -> NDArray[Any]:
    array: NDArray[Any] = in_one_piece(column).to_numpy(zero_copy_only=False)
    return array


class WindowBatch:
    """Several windows of one task, in the order in which they fire, and their events, window by window.

    An event that is in several windows is in the batch several times.
    """

    def __init__(self, windows: Sequence[TupleWindow], reads: ColumnReads | None = None) -> None:
        """``reads``: in a run, the record of the columns that the bolt reads."""
        self._windows, self._reads = windows, reads

    def __repr__(self) -> str:
        return f"<WindowBatch of {len(self)} windows: {self.offsets[-1]} events>"

    def __len__(self) -> int:
        return len(self._windows)

    def __iter__(self) -> Iterator[TupleWindow]:
        return map(self._recording, self._windows)

    @overload
    def __getitem__(self, index: int) -> TupleWindow: ...
    @overload
    def __getitem__(self, index: slice) -> list[TupleWindow]: ...
    def __getitem__(self, index: int | slice) -> TupleWindow | list[TupleWindow]:
        if isinstance(index, slice):
            return [self._recording(window) for window in self._windows[index]]
        return self._recording(self._windows[index])

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        """The index in ``table`` of the first event of each window, then the number of all events, as int64."""
        sizes = np.fromiter(map(len, self._windows), np.int64, len(self._windows))
        return read_only(np.concatenate([[0], np.cumsum(sizes)]))

    @cached_property
    def index(self) -> NDArray[np.int64]:
        """For each event in ``table``, the index of its window, from 0."""
        return read_only(np.repeat(np.arange(len(self)), np.diff(self.offsets)))

    @cached_property
    def table(self) -> pa.Table:
        """The events of all windows, window by window."""
        if self._reads is not None:
            self._reads.reads_all = True
        return _concatenated([source.table(members) for source, members in self._runs])

    @checked_on_failure
    def select(self, *columns: str) -> pa.Table:
        """Returns these columns of ``table``, in this order. Raises KeyError for an unknown column, and ConfigError if
        no column is named, or one twice."""
        chosen = _concatenated([select_columns(source.table(members), columns) for source, members in self._runs])
        if self._reads is not None:
            self._reads.names.update(columns)
        return chosen

    @cached_property
    def timestamps(self) -> NDArray[np.int64]:
        """The time of each event in ``table``, in microseconds."""
        return read_only(np.concatenate([source.timestamps(members) for source, members in self._runs]))

    @cached_property
    def window_starts(self) -> NDArray[np.int64]:
        """The start of each window, in microseconds; 0 if its length is a count."""
        return read_only(np.array([window.start_timestamp or 0 for window in self._windows], np.int64))

    @cached_property
    def window_ends(self) -> NDArray[np.int64]:
        """The end of each window, in microseconds; the greatest int64 if it has none."""
        return read_only(np.array([window.end_timestamp for window in self._windows], np.int64))

    @cached_property
    def _runs(self) -> list[tuple[Any, Any]]:
        """The sources and positions of the events; windows whose events are contiguous in a source are combined."""
        runs: list[tuple[Any, Any]] = []
        for window in self._windows:
            source, members = source_and_members(window)
            if runs and isinstance(members, range) and isinstance(runs[-1][1], range):
                last_source, last_members = runs[-1]
                if last_source is source and last_members.stop == members.start:
                    runs[-1] = (source, range(last_members.start, members.stop))
                    continue
            runs.append((source, members))
        return runs

    def _recording(self, window: TupleWindow) -> TupleWindow:
        """Returns a window whose reads are recorded for the batch."""
        window.reads = self._reads
        return window


def _concatenated(tables: list[pa.Table]) -> pa.Table:
    return pa.concat_tables(tables).combine_chunks() if len(tables) > 1 else tables[0]
