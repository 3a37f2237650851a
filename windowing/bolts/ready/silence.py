"""Tells that no event of a key has come for some time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from windowing.bolts.batch_windowed_bolt import BatchWindowedBolt
from windowing.bolts.operators import Operator
from windowing.bolts.ready.columns_by_name import (
    check_columns,
    read_columns,
    read_name,
    taken_names,
    unified,
    wrong_groups,
)
from windowing.bolts.ready.given_limits import read_length_of_time
from windowing.calls.checked import checked_value
from windowing.data.returned_rows import DEFAULT_STREAM
from windowing.data.schema import TIMESTAMP
from windowing.errors import ConfigError
from windowing.settings import WindowSettings
from windowing.settings.bounds import Bounds
from windowing.settings.kinds import Lull
from windowing.settings.rules import OutputTime
from windowing.time.durations import Time, seconds
from windowing.time.timestamps import to_column
from windowing.window_batch import WindowBatch

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Silence(BatchWindowedBolt, Operator):
    """Emits the last event of a key when no other has followed within ``after``, by event time.

        Silence("3m", by="symbol", end="silent_at").with_timestamp_field("ts")

    ``after``: how long nothing has come, counted from an event of the key. An event exactly ``after`` later is too
    late: the silence has happened. ``by``: the columns of the key; without them all events have the same. A null is a
    key like any other. A key that has never sent anything is not known.

    A row has the columns of that event, and its time is ``after`` later; ``end`` names a column for that moment. It is
    emitted when the watermark reaches this moment, once for each silence, on all inputs. Among events of equal time,
    the one that arrived last is the last. The end of the streams is no silence: ``with_time(close_fires=True)`` makes
    it one of every key. Where the whole source may fall silent, ``with_watermark(idle_timeout=)`` has the clock end the
    silences.

    One event of each key is kept behind the watermark, until it has been emitted. In the accounts it is then windowed;
    events that others follow are unwindowed. With several tasks, group the inputs by fields among ``by``.

    ConfigError for an ``after`` of zero, for lifetimes, for an unknown column, and for a new name that is taken.
    """

    settings: WindowSettings = WindowSettings(
        kinds=(Lull(seconds(1)),), bounds=Bounds.START, output_time=OutputTime.END, close_fires=False
    )
    formed = "one at each event that no other follows in time"
    kept = (*Operator.kept, "close_fires")
    _schema: pa.Schema | None = None

    @checked_value
    def __init__(self, after: Time, *, by: str | Iterable[str] | None = (), end: str | None = None) -> None:
        self.after = read_length_of_time("Silence", "after", after)
        self.by = read_columns("Silence", "by", by)
        self.end = None if end is None else read_name("Silence", "end", end)
        self.settings = replace(self.settings, key=self.by, kinds=(Lull(self.after),))

    @property
    def rows_are_of_events(self) -> bool:
        return True

    @property
    def takes_retractions(self) -> bool:
        return False

    @property
    def groups_by(self) -> tuple[str, ...]:
        return self.by

    def for_inputs(self, inputs: Mapping[str, pa.Schema]) -> Self:
        """The bolt with its columns; ConfigError where they cannot be."""
        schema = unified(inputs)
        if schema is None:
            return self
        added = [] if self.end is None else [self.end]
        check_columns("Silence", wrong_groups("Silence", "by", self.by, schema), taken_names("Silence", added, schema))
        if self.end is not None:
            schema = schema.append(pa.field(self.end, TIMESTAMP))
        bound = copy(self)
        bound._schema = schema
        return bound

    def output_schemas(self) -> dict[str, pa.Schema]:
        return {} if self._schema is None else {DEFAULT_STREAM: self._schema}

    def execute_all(self, windows: WindowBatch) -> tuple[pa.Table, NDArray[np.int64]] | None:
        """Called with silences, each with the event before it."""
        table, index = windows.table, windows.index
        if not len(index):
            return None
        if self.end is not None:
            table = table.append_column(self.end, to_column(windows.window_ends[index]))
        return table, index

    def _with(self, **changes: Any) -> Self:
        if changes.get("lifetime") is not None:
            raise ConfigError(
                "Silence of events with lifetimes",
                why="it counts from the time of an event, however long the event lasts",
                do="leave with_lifetime out",
            )
        return super()._with(**changes)
