"""The classes that users subclass: bolts that work on tuples, on batches, and on windows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Self

import pyarrow as pa

from windowing.bounds import Bounds
from windowing.durations import Count, Duration, as_duration, as_extent
from windowing.errors import ConfigError
from windowing.rows import DEFAULT_STREAM, Rows
from windowing.schema import parse_schema
from windowing.settings import WindowSettings
from windowing.state import StateType, new_state
from windowing.window import TupleWindow

if TYPE_CHECKING:
    from windowing.tuples import Tuple

Extent = Duration | Count | timedelta | str | int
Time = Duration | timedelta | str


@dataclass(frozen=True)
class TaskContext:
    """Which of a bolt's tasks this is."""

    component: str
    task: int
    parallelism: int


class Component:
    """What every bolt has: declared outputs, and a call before the first event."""

    outputs: ClassVar[str | pa.Schema | Mapping[str, str | pa.Schema]] = {}
    """The columns that the bolt emits, ``"user string, revenue double"``; a mapping for several streams."""

    def prepare(self, context: TaskContext) -> None:
        """Called before the bolt is given anything, on each task and in each micro-batch anew.

        Open here what cannot be sent to another process. What is kept on ``self`` is gone after the micro-batch;
        a StatefulWindowedBolt's ``state`` stays.
        """

    def output_schemas(self) -> dict[str, pa.Schema]:
        """The declared columns of each output stream."""
        if isinstance(self.outputs, Mapping):
            return {stream: parse_schema(schema) for stream, schema in self.outputs.items()}
        return {DEFAULT_STREAM: parse_schema(self.outputs)}


class Bolt(Component):
    """A bolt that works tuple by tuple: map, filter and flat-map."""

    def execute(self, tuple: Tuple) -> Rows:
        """Called for each event; what it returns, a row, several or None, is emitted with the time of that event."""
        raise NotImplementedError


class BatchBolt(Component):
    """A bolt that works on whole Arrow tables: map, filter and flat-map, fast.

    Where a table is cut is not the bolt's business: each row must be treated as if it were alone.
    """

    def execute(self, batch: pa.Table) -> Rows:
        """Called with events as they come, at least one; what it returns is emitted."""
        raise NotImplementedError


class WindowedBolt(Component):
    """A bolt whose ``execute`` is called once per window.

    Configure it with the ``with_...`` methods; each returns a configured copy. Names are Storm's.
    """

    settings: WindowSettings = WindowSettings()

    def execute(self, window: TupleWindow) -> Rows:
        """Called once for each window that fires, in order; what it returns is emitted with the window's end as time.

        The window may be read during the call only. See ``windowing.rows`` for what may be returned.
        """
        raise NotImplementedError

    def with_window(self, length: Extent, slide: Extent | None = None) -> Self:
        """Windows of this length, sliding by this much; without a slide, by every event (ST-8).

        A whole number counts events; durations are ``seconds(20)``, a timedelta, or ``"20s"``. A slide longer than
        the length leaves gaps, whose events are counted as ``unwindowed``.
        """
        return self._with(length=as_extent(length), slide=Count(1) if slide is None else as_extent(slide))

    def with_tumbling_window(self, length: Extent) -> Self:
        """Windows of this length, one after the other (ST-1, ST-2, ST-25)."""
        return self._with(length=as_extent(length), slide=as_extent(length))

    def with_timestamp_field(self, field: str) -> Self:
        """Event time from a column: timestamps, or whole numbers of milliseconds since the epoch (ST-9)."""
        self._one_time_source(f"with_timestamp_field({field!r})")
        return self._with(timestamp_field=field)

    def with_timestamp_extractor(self, extractor: Callable[..., Any], *, columns: bool = False) -> Self:
        """Event time from a function of the tuple: milliseconds since the epoch, or a datetime (ST-9).

        With ``columns=True`` the function is given a table and returns a column for all of its rows.
        """
        if not callable(extractor):
            raise ConfigError(
                f"with_timestamp_extractor({extractor!r})", why="it cannot be called", do="give a function"
            )
        self._one_time_source("with_timestamp_extractor")
        return self._with(timestamp_extractor=extractor, extractor_on_columns=columns)

    def with_processing_time(self) -> Self:
        """Time is the clock at arrival, even where the input streams carry event times."""
        self._one_time_source("with_processing_time()")
        return self._with(processing_time=True)

    def with_lag(self, lag: Time) -> Self:
        """How far behind the latest event the watermark stays (ST-13); 0 by default."""
        return self._with(lag=as_duration(lag))

    def with_watermark_interval(self, interval: Time) -> Self:
        """Emit a watermark at most this often, by the clock (ST-15); by default at every micro-batch."""
        return self._with(watermark_interval=as_duration(interval))

    def with_late_tuple_stream(self, stream: str) -> Self:
        """Late events go to this output stream (ST-18), with ``_reason``, ``_late_by``, ``_watermark`` and so on."""
        if not stream or not isinstance(stream, str):
            raise ConfigError(
                f"with_late_tuple_stream({stream!r})", why="a stream has a name", do="give one, such as 'late'"
            )
        return self._with(late_stream=stream)

    def with_bounds(self, bounds: Bounds | str) -> Self:
        """Which end belongs to a window: ``"(start, end]"``, Storm's (ST-10), or ``"[start, end)"``."""
        try:
            return self._with(bounds=Bounds(bounds))
        except ValueError:
            raise ConfigError(
                f"with_bounds({bounds!r})", why="there are two kinds", do="use '(start, end]' or '[start, end)'"
            ) from None

    def with_offset(self, offset: Time) -> Self:
        """Shift the aligned ends of a time slide from the multiples of the slide by this much."""
        return self._with(offset=as_duration(offset))

    def with_eviction_policy(self, policy: Any) -> Self:
        """Decide which events a window holds by a policy of one's own (``policies.EvictionPolicy``)."""
        return self._with(eviction=policy)

    def with_trigger_policy(self, policy: Any) -> Self:
        """Decide when windows fire by a policy of one's own (``policies.TriggerPolicy``)."""
        return self._with(trigger=policy)

    def _one_time_source(self, call: str) -> None:
        settings = self.settings
        if settings.reads_timestamps or settings.processing_time:
            raise ConfigError(
                f"{call} on a bolt whose time is already configured",
                why="a bolt has one source of time (ST-9)",
                do="keep one of them",
            )

    def _with(self, **changes: Any) -> Self:
        configured = copy(self)
        configured.settings = replace(self.settings, **changes)
        return configured


class StatefulWindowedBolt(WindowedBolt):
    """A windowed bolt with a ``state`` that outlives the micro-batch and the process (ST-27).

    ``state_types`` declares what it holds: ``{"seen": int, "by_user": dict, "last": "user string, amount double"}``.
    int, float, str, bool, list and dict are kept as JSON; a schema declares an Arrow table. Saved with the batch,
    restored with it: exactly once.
    """

    state_types: ClassVar[Mapping[str, StateType]] = {}
    state: dict[str, Any]

    def initial_state(self) -> dict[str, Any]:
        """Called once per task, before its first window: values for the declared names; zeros and empties if not."""
        return new_state(self.state_types)
