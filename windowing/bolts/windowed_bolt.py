"""The classes for windows that users subclass, and how they are configured."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias, get_args, overload

import numpy as np
import pyarrow as pa

from windowing.bolts.bolt import (
    UNSET,
    StatefulTaskBolt,
    TaskBolt,
    Unset,
    named_arguments,
)
from windowing.calls import checked_value
from windowing.durations import Count, Duration, Extent, Shift, Time, as_extent
from windowing.errors import ConfigError, SchemaError
from windowing.reprs import repr_of
from windowing.schema import DEFAULT_STREAM, Emit, EmittedRows, tables
from windowing.settings import DECLARED, WindowSettings
from windowing.settings.declaration import ListedKeys
from windowing.settings.kinds import Onset, WindowKind
from windowing.settings.panes import Panes
from windowing.settings.presets import Preset
from windowing.settings.rules import (
    Aligned,
    Arrival,
    Bounds,
    DefaultTime,
    DefaultTimeName,
    IdleRule,
    IdleRuleName,
    LateAction,
    LateActionName,
    LateBy,
    Lifetime,
    OutputTime,
    OutputTimeName,
    Partition,
    WatermarkCombiner,
    read_flag,
)
from windowing.settings.triggers import Capacity, CountTrigger, KeyTrigger
from windowing.window import TupleWindow, WindowBatch

if TYPE_CHECKING:
    from numpy.typing import NDArray


class WindowedBolt(TaskBolt):
    """A bolt whose ``execute`` is called once per window.

    Configure it with the ``with_...`` methods. Each returns a configured copy, and raises ConfigError for a wrong
    value; ``build()`` reports settings that do not fit together.

    Windows: ``with_window``, ``with_tumbling_window``, ``with_key`` (windows for each key), ``with_empty_windows``,
    ``with_alignment`` (where they begin, end and close).

    When windows fire, and which events they hold: ``with_trigger``, ``with_policies`` (custom policies).

    The time of events: ``with_timestamp_field``, ``with_timestamp_extractor``, ``with_lifetime`` (events that last),
    ``with_time`` (presets of other systems; processing time; the time of emitted rows).

    The watermark: ``with_lag``, ``with_watermark_interval``, ``with_watermark``.

    Limits of memory and time: ``with_limits``.

    Late and repeated events: ``with_lateness``, ``with_late_tuple_stream``, ``with_message_id_field``.

    Often ``with_window("20s", "10s")`` is enough. Methods that Storm has too have the same meaning here.
    """

    def execute(self, window: TupleWindow) -> EmittedRows:
        """Called once for each window that fires, in order; returns the rows to emit, whose time is the end of the
        window.

        The window can be read only during the call. See ``windowing.schema`` for the possible return values.
        """
        raise NotImplementedError

    # -- Storm's own names

    @overload
    def with_window(self, length: Extent, slide: Extent | None = None) -> Self: ...
    @overload
    def with_window(self, *kinds: WindowKind) -> Self: ...
    @checked_value
    def with_window(self, *windows: Any, length: Extent | None = None, slide: Extent | None = None) -> Self:
        """Set windows of a length and a slide; or windows of other kinds, ``with_window(Session("30m"))``.

        A whole number counts events; durations are ``seconds(20)``, a timedelta, or ``"20s"``. Without a slide, windows
        slide by one event (ST-8). A slide longer than the length leaves gaps, whose events are counted as
        ``unwindowed``.

        Kinds are those of ``windowing.settings.kinds``. With several kinds (AZ-26) each event is in windows of every
        kind, and ``window.kind`` is the index of the window's kind among the arguments. Raises ConfigError for a second
        call.
        """
        if windows and all(isinstance(kind, WindowKind) for kind in windows):
            if length is not None or slide is not None:
                raise ConfigError(
                    "with_window with both a kind of window and a length or a slide",
                    why="a kind has its own length",
                    do="give one of the two; windows of a length and a slide are Hopping(length, slide)",
                )
            return self._set_kinds(*windows)
        named = {"length": length, "slide": slide}
        given_twice = [name for name, _ in zip(named, windows, strict=False) if named[name] is not None]
        extents = {**named, **dict(zip(named, windows, strict=False))}
        no_extent = (WindowKind, type, list, tuple, Panes)
        no_lengths = any(isinstance(each, no_extent) for each in extents.values())
        if len(windows) > 2 or given_twice or no_lengths or extents["length"] is None:
            arguments = ", ".join(f"{repr_of(each):.60}" for each in windows) or ", ".join(
                f"{n}={repr_of(v)}" for n, v in named.items()
            )
            raise ConfigError(
                f"with_window({arguments})",
                why="it takes a length and a slide, or values such as Session(...), each as an argument",
                do='write with_window("10s", "5s") or with_window(Session("30m"))',
            )
        slide_extent = Count(1) if extents["slide"] is None else as_extent(extents["slide"])
        return self._set_windows("with_window", kinds=(), length=as_extent(extents["length"]), slide=slide_extent)

    @checked_value
    def with_tumbling_window(self, length: Extent) -> Self:
        """Set windows of this length, one after the other (ST-1, ST-2, ST-25)."""
        return self._set_windows("with_tumbling_window", kinds=(), length=as_extent(length), slide=as_extent(length))

    @checked_value
    def with_timestamp_field(self, field: str) -> Self:
        """Take event time from a column: timestamps, dates, or whole numbers of milliseconds since the epoch (ST-9).

        Times are rounded down to microseconds. Inputs in which the column has another name need
        ``with_timestamp_extractor``, or an earlier bolt that renames it.
        """
        if isinstance(field, Mapping):
            raise ConfigError(
                f"with_timestamp_field({field!r})",
                why="it takes one name, for all inputs",
                do="rename the column of the others in a bolt before this one, or give with_timestamp_extractor a "
                "function that looks for each: lambda event: event.get('at') or event.get('measured')",
            )
        self._check_no_time_source(f"with_timestamp_field({field!r})")
        return self._with_settings(timestamp_field=self._read("with_timestamp_field", "", field))

    @checked_value
    def with_timestamp_extractor(
        self,
        extractor: Callable[..., Any],
        *,
        columns: bool = False,
        on_error: Literal["stop", "errors"] | None = None,
        on_truncation: Literal["cut", "error"] = "cut",
    ) -> Self:
        """Take event time from a function of the tuple: whole milliseconds since the epoch, or a datetime (ST-9).

        With ``columns=True`` the function gets a table and returns the times of all its rows, in their order: a list,
        or an array of Arrow or NumPy, of timestamps or whole milliseconds.

        ``on_error``: ``"errors"`` sends an event on which the function fails to the stream ``errors``, with the
        exception as its reason; ``"stop"`` ends the run. The default is ``"errors"``, or with ``columns=True``
        ``"stop"``. With ``columns=True`` and ``"errors"`` the function is called again with fewer rows, to find those
        on which it fails. An error that is not about the event ends the run in either case: an error that may pass (a
        lost connection), a system error of files, networks or processes, a lack of memory, and a missing module or
        name.

        ``on_truncation``: ``"cut"`` rounds a time that is finer than microseconds, such as a Timestamp of pandas, down
        to microseconds, and counts its event as ``truncated``; with ``"error"`` the event is invalid.
        """
        if on_truncation not in ("cut", "error"):
            raise ConfigError(
                f"with_timestamp_extractor(on_truncation={on_truncation!r:.60})",
                why="times have microseconds: what is finer is cut off and counted, or such an event is invalid",
                do="use 'cut' or 'error'",
            )
        if on_error not in (None, "stop", "errors"):
            raise ConfigError(
                f"with_timestamp_extractor(on_error={on_error!r:.60})",
                why="it says what happens to an event on which the extractor fails",
                do="use 'stop', or 'errors' to send it to the stream of that name",
            )
        if not callable(extractor):
            raise ConfigError(
                f"with_timestamp_extractor({repr_of(extractor)})", why="it cannot be called", do="give a function"
            )
        self._check_no_time_source("with_timestamp_extractor")
        return self._with_settings(timestamp_extractor=extractor, extractor_on_columns=read_flag("columns", columns),
                          extractor_on_error=on_error, extractor_on_truncation=on_truncation)  # fmt: skip

    @checked_value
    def with_lag(self, lag: Time) -> Self:
        """Set how far the watermark stays behind the latest event (ST-13); 0 by default."""
        return self._set_arguments("with_lag", {"": lag})._set_and_forget_calls(ahead=Duration(0))

    @checked_value
    def with_watermark_interval(self, interval: Time) -> Self:
        """Set the shortest interval between two watermarks, by the clock (ST-15); by default each micro-batch emits
        one."""
        return self._set_arguments("with_watermark_interval", {"": interval})

    @checked_value
    def with_late_tuple_stream(self, stream: str) -> Self:
        """Send late events to this output stream (ST-18), with additional columns such as ``_reason``, ``_late_by_us``
        and ``_watermark``."""
        return self._set_arguments("with_late_tuple_stream", {"": stream})

    @checked_value
    def with_message_id_field(self, field: str) -> Self:
        """Drop repeated messages (ST-27): an event with the id of a live event is counted as ``duplicate``.

        An event is live while a window may still need it. Among live events with the same id, the first to arrive is
        kept, across all streams and keys. With a watermark per key, only events of the same key are compared. An event
        without an id is never a duplicate. With several tasks the grouping of the inputs must depend on the content of
        events, so that equal messages are on one task.
        """
        return self._set_arguments("with_message_id_field", {"": field})

    # -- keys, triggers and policies

    @overload
    def with_trigger(self, trigger: Panes) -> Self: ...
    @overload
    def with_trigger(
        self,
        trigger: KeyTrigger,
        *,
        refused_stream: str | None = None,
        max_events: int | None = None,
        max_bytes: int | None = None,
        bytes_of: Sequence[str] = (),
    ) -> Self: ...
    @checked_value
    def with_trigger(
        self,
        trigger: KeyTrigger | Panes,
        *,
        refused_stream: str | None = None,
        max_events: int | None = None,
        max_bytes: int | None = None,
        bytes_of: Sequence[str] = (),
    ) -> Self:
        """Set when windows fire: early or again (``Panes``), or one window per key (``windbolt.triggers``).

        ``Panes(early=..., late=..., mode=...)`` adds firings to the one at the end of a window.

        With a trigger of ``windbolt.triggers`` the window of a key lasts from its first event until the trigger fires
        and purges it (UH-10 to UH-23), in processing time. Events on which the rule of the trigger fails go to the
        stream ``errors``; or, with all their columns and ``_reason``, to ``refused_stream``.

        ``max_events``, ``max_bytes``: a window that holds so much fires and is cleared, whatever the trigger decides
        (``window.fired_by`` is ``full``, and the reports count such firings); see ``windbolt.triggers.Capacity``.
        ``bytes_of``: the columns whose bytes count; by default all. Raises ConfigError for ``max_events`` with a
        CountTrigger, and for any of these arguments with ``Panes``.
        """
        if refused_stream is not None:
            refused_stream = self._read("with_trigger", "refused_stream", refused_stream)
        capacity = Capacity(max_events, max_bytes, tuple(bytes_of))
        if isinstance(trigger, Panes):
            if refused_stream is not None or capacity != Capacity():
                raise ConfigError(
                    "with_trigger(Panes(...)) with arguments for triggers of keys",
                    why="refused_stream=, max_events=, max_bytes= and bytes_of= are about the window of a key",
                    do="leave them out",
                )
            return self._set_by_call({"panes": trigger}, "with_trigger(Panes(...))")
        if not isinstance(trigger, get_args(KeyTrigger)):
            raise ConfigError(
                f"with_trigger({repr_of(trigger):.60})",
                do="give Panes(...) or one of windbolt.triggers; a policy is for with_policies(trigger=...)",
            )
        if isinstance(trigger, CountTrigger) and max_events is not None:
            raise ConfigError(
                f"with_trigger(CountTrigger({trigger.count}), max_events={max_events})",
                why="its windows never hold more events than the count",
                do="leave max_events out, or lower the count",
            )
        limits = None if capacity == Capacity() else capacity
        return self._set_windows("with_trigger", key_trigger=trigger, refused_stream=refused_stream, capacity=limits)

    @checked_value
    def with_empty_windows(
        self, *, until: Time, keys: Iterable[Any] | None = None, since: datetime | str | None = None
    ) -> Self:
        """Fire windows without events too, for each key that has had events, or without a key for each task.

        An empty window fires if it ends at most ``until`` after the end of the last window of its key that held an
        event; then the key is forgotten until its next event. An empty window has its key, its start and its end. It
        fires when time has passed its end, as all windows do. The end of the streams fires no empty window that begins
        after the latest event. The bolt must have windows of ``with_window(length, slide)`` in time, or of the
        calendar.

        ``keys``: keys whose empty windows fire before their first event; a value for each, or a tuple of values if
        ``with_key`` names several columns. ``since``: the moment from which these keys are known (a datetime, or ISO
        8601); their empty windows end after it, and ``until`` counts from it. Later runs on a checkpoint may list other
        keys. Raises ConfigError if only one of ``keys`` and ``since`` is given.
        """
        return self._set_arguments("with_empty_windows", {"until": until, "keys": ListedKeys.of(keys, since)})

    @checked_value
    def with_policies(
        self, *, eviction: Any | Unset = UNSET, trigger: Any | Unset = UNSET, expired: bool | Unset = UNSET
    ) -> Self:
        """Set custom policies, and whether ``window.expired`` is needed.

        ``eviction``: decides which events a window holds (``windbolt.policies.EvictionPolicy``). ``trigger``: decides
        when windows fire (``windbolt.policies.TriggerPolicy``).

        ``expired``: True if the bolt reads ``window.expired`` (ST-21); not needed if the code of the bolt names it.
        Storm's windows of a task always have it. For all other windows the events of the last window of each key are
        then kept until the next window of that key has fired.
        """
        bolt = self if expired is UNSET else self._with_settings(expired=DECLARED["expired"].read(expired))
        arguments = named_arguments(eviction=eviction, trigger=trigger)
        return bolt._set_arguments("with_policies", arguments) if arguments or expired is UNSET else bolt

    @checked_value
    def with_limits(self, *, window_bytes: int | Unset | None = UNSET, call_time: Time | Unset | None = UNSET) -> Self:
        """Limit the size of a window and the time of a call; beyond a limit the run ends with a BoltError that names
        the window.

        ``window_bytes``: the bytes of the events of a window in memory, as Arrow counts them. ``call_time``: the time
        of a call of ``execute``, or of ``execute_all`` with many windows; a call into C, such as ``time.sleep``, is not
        interrupted before it ends. None: there is no limit.
        """
        return self._set_arguments("with_limits", named_arguments(window_bytes=window_bytes, call_time=call_time))

    # -- time settings

    @checked_value
    def with_time(
        self,
        preset: Preset | None = None,
        *,
        processing: bool = False,
        default_time: DefaultTime | DefaultTimeName | Unset = UNSET,
        output_time: OutputTime | OutputTimeName | Unset = UNSET,
        output_watermark: OutputTime | OutputTimeName | Unset | None = UNSET,
        close_fires: bool | Unset = UNSET,
    ) -> Self:
        """Set all time settings of another system by a preset, ``presets.azure(late="5m")``, or single time settings.

        A preset replaces all earlier time settings, so call it first. ``processing``: time is the clock at arrival,
        even if the input streams carry event times. ``default_time``: the time of events if the bolt names no source of
        time and its inputs carry no times.

        ``output_time``: emitted rows have the time of the ``"window end"`` or of the ``"window start"`` (SI-31), or of
        ``"window last"``, one microsecond before the end. Use ``"window last"`` with the bounds ``[start, end)``: a
        time at the end would be in the following window of the next bolt. ``output_watermark``: the next bolt's
        watermark follows the ends of the open windows (``"window end"``), or the start of the earliest one (``"window
        start"``, SI-24); None: it is as late as the times of the rows allow. ``close_fires``: True if the end of the
        streams fires the open windows (SI-7).
        """
        arguments = named_arguments(
            default_time=default_time, output_time=output_time, output_watermark=output_watermark,
            close_fires=close_fires,
        )  # fmt: skip
        bolt = self
        if preset is not None:
            bolt = bolt._apply_preset(preset)
        if self._read("with_time", "processing", processing):
            bolt._check_no_time_source("with_time(processing=True)")
            bolt = bolt._with_settings(processing_time=True)
        return bolt._set_arguments("with_time", arguments) if arguments or bolt is self else bolt

    @checked_value
    def with_watermark(
        self,
        *,
        every: Extent | Unset | None = UNSET,
        field: str | Unset | None = UNSET,
        partition: str | Literal[Partition.SOURCE] | Unset | None = UNSET,
        partitions: Iterable[object] | Mapping[str, Iterable[object]] | Unset | None = UNSET,
        per_key: bool | Unset = UNSET,
        combine: WatermarkCombiner | Literal["min", "max"] | Unset = UNSET,
        ahead: Time | Unset = UNSET,
        imports: Mapping[str, str] | Unset | None = UNSET,
        imports_beside: bool | Unset = UNSET,
        estimate_arrival: bool | Unset = UNSET,
        idle_timeout: Time | Unset | None = UNSET,
        idle_rule: IdleRule | IdleRuleName | Unset = UNSET,
        partition_idle_timeout: Time | Unset | None = UNSET,
    ) -> Self:
        """Set how watermarks are made; settings that are not given do not change.

        ``every``: the number of events, or length of event time, after which each input has a new watermark (SI-5); 1:
        at each event. Watermarks then depend on the order of arrival of events, and not on how these are cut into
        batches.
        ``field``: a column in which the source sends watermarks; a row with a time in it is a watermark and not an
        event (SI-4, SI-11).
        ``per_key``: each key of ``with_key`` has its own watermark (AZ-15), so a fast key makes no event of another key
        late.
        ``ahead``: the watermark is this far past the latest event (SI-9).

        ``partition``: each partition of an input has its own mark, and the bolt's watermark is the least of all marks
        (AT-21, AZ-18). It is a column, whose values are the partitions; or ``SOURCE`` (``windbolt.SOURCE``) for the
        partitions of the source itself. Partitions of a Kafka topic exist as soon as Kafka lists them. A source without
        partitions is one partition.
        ``partitions``: the values of the column that exist, on every input, or per input (``{"orders": [0, 1],
        "returns": [0]}``). Such a partition holds the watermark back before its first event, until
        ``partition_idle_timeout`` or, with an arrival rule, the late tolerance releases it (AT-20, AZ-18). A partition
        that is not listed takes part from its first event on, which may be late.

        ``combine``: ``"min"``, or ``"max"``: the fastest input decides the watermark. ``imports``: inputs that take the
        watermarks of another input, ``{"lookup": "data"}`` (SI-15); with ``imports_beside`` these inputs also make
        watermarks themselves. ``estimate_arrival``: while no event comes, the watermark follows the estimated arrival
        (AZ-5).

        ``idle_timeout``: the clock closes windows when no event comes (AT-17 to AT-19); the watermark moves to their
        end. ``idle_rule``: ``"after_window_end"`` or ``"max_remaining"``. ``partition_idle_timeout``: an input or
        partition that has been silent for this long is left out of the watermark (AT-20).

        Raises ConfigError for ``partitions`` without a column.
        """
        arguments = named_arguments(
            every=every, field=field, partition=partition, partitions=partitions, per_key=per_key, combine=combine,
            ahead=ahead, imports=imports, imports_beside=imports_beside, estimate_arrival=estimate_arrival,
            idle_timeout=idle_timeout, idle_rule=idle_rule, partition_idle_timeout=partition_idle_timeout,
        )  # fmt: skip
        without_partitions = {name: value for name, value in arguments.items() if name != "partitions"}
        bolt = (
            self._set_arguments("with_watermark", without_partitions) if without_partitions or not arguments else self
        )
        if partition is not UNSET or partitions is not UNSET:
            bolt = bolt._set_partitions(None if partitions is UNSET else partitions)
        if ahead is not UNSET:
            bolt = bolt._set_and_forget_calls(lag=None)
        return bolt._derive_watermark_every(self.settings, chosen=every is not UNSET)

    @checked_value
    def with_lateness(
        self,
        *,
        by: LateBy | Literal["watermark", "window"] | Unset = UNSET,
        allowed: Time | Unset = UNSET,
        action: LateAction | LateActionName | Unset = UNSET,
        by_session: bool | Unset = UNSET,
        per_input: bool | Unset = UNSET,
        arrival: Arrival | Unset | None = UNSET,
    ) -> Self:
        """Set when an event is late or early, and what happens to it; settings that are not given do not change.

        ``by``: an event is late if it is behind the ``"watermark"``, or if its ``"window"`` has closed (AT-16). With
        ``"window"`` there are special rules for sessions and sliding logs. For sessions, an event is late if it is more
        than ``allowed`` behind the watermark and fits no open session (AT-7); with ``by_session``, if the session that
        it would open or join has closed, as in Flink and Kafka Streams. An event never joins a session that the clock
        has closed (``max_duration``). For sliding logs, an event is late if the window that ends at its time has closed
        and no open window holds it (Kafka Streams).

        ``allowed``: windows close this long after the watermark has reached their end (AT-14). ``action``: ``"divert"``
        sends late events to the late stream, ``"drop"`` drops them, ``"adjust"`` changes their time, ``"cut"`` cuts
        their lifetime, and ``"error"`` ends the run. ``per_input``: lateness is measured against the mark of the
        event's input or partition, not against the watermark of the bolt (SI-2, AZ-4).

        ``arrival``: ``Arrival(field, early=..., late=..., action=...)`` limits the time between an event and its
        arrival: the time in the column ``field``, or the clock of the batch (AZ-8, AZ-12). Events from more than
        ``early`` in the future are turned away, and do not move the watermark. The action is taken for events that
        arrive more than ``late`` after their time. Raises ConfigError for an Arrival without effect.
        """
        if isinstance(arrival, Arrival):
            _check_arrival(arrival)
        bolt = self
        if by in (LateBy.WATERMARK, LateBy.WATERMARK.value) and "allowed_lateness" not in dict(self.settings.asked):
            bolt = self._with_settings(allowed_lateness=Duration(0))  # of a preset; it has a meaning for windows only
        return bolt._set_arguments(
            "with_lateness",
            named_arguments(
                by=by, allowed=allowed, by_session=by_session, action=action, per_input=per_input, arrival=arrival
            ),
        )

    @checked_value
    def with_alignment(
        self,
        *,
        bounds: Bounds | Literal["(start, end]", "[start, end)"] | Unset = UNSET,
        aligned: Aligned | Literal["ends", "starts"] | Unset = UNSET,
        offset: Time | Shift | Unset = UNSET,
        anchor: datetime | str | int | Unset | None = UNSET,
        closes_after_end: bool | Unset = UNSET,
        longest_window: Time | Unset | None = UNSET,
    ) -> Self:
        """Set where windows begin, end and close; settings that are not given do not change.

        ``bounds``: which edge belongs to a window: the end, ``"(start, end]"``, as in Storm (ST-10), or the start,
        ``"[start, end)"``. ``aligned``: which edge is a multiple of the slide (AT-3). ``offset``: the time by which
        aligned ends are shifted from the multiples of the slide, modulo the slide; ``"-8h"`` shifts them back.
        ``anchor``: the moment from which aligned windows are counted (a datetime, ISO 8601, or milliseconds since the
        epoch), or ``"start"``, the first clock of the run; no window begins before it (AT-3). ``closes_after_end``: a
        window with an inclusive end closes when the watermark is past its end, not at its end. ``longest_window``: the
        greatest length of a window (AZ-19); None: there is no limit.
        """
        return self._set_arguments(
            "with_alignment",
            named_arguments(
                bounds=bounds, aligned=aligned, offset=offset, anchor=anchor, closes_after_end=closes_after_end,
                longest_window=longest_window,
            ),
        )  # fmt: skip

    @checked_value
    def with_lifetime(self, end_field: str, *, shape_field: str | None = None, edge_key: Sequence[str] = ()) -> Self:
        """Make events last from their timestamp to the time in ``end_field`` (SI-3); an event with null or 9999-12-31
        there has no end. See ``Lifetime`` for the other arguments."""
        if isinstance(edge_key, str):
            raise ConfigError(
                f"with_lifetime(edge_key={edge_key!r})", why="these are columns", do="give a list of them"
            )
        if edge_key and shape_field is None:
            raise ConfigError(
                f"with_lifetime(edge_key={list(edge_key)!r}) without shape_field=",
                why="it matches start and end edges, and shape_field says which events are edges",
                do="give shape_field=, or leave edge_key out",
            )
        return self._set_by_call({"lifetime": Lifetime(end_field, shape_field, tuple(edge_key))}, "with_lifetime")


class StatefulWindowedBolt(WindowedBolt, StatefulTaskBolt):
    """A windowed bolt with a ``state`` that is kept across micro-batches and runs (ST-27).

    ``state_types`` declares its values: ``{"seen": int, "by_user": dict, "last": "user string, amount double"}``. int,
    float, str, bool, list and dict are stored as JSON; a schema declares an Arrow table. The state is saved and
    restored with the batch, so each window changes it exactly once.
    """


def _check_arrival(arrival: Arrival) -> None:
    if arrival.action is not LateAction.ADJUST and arrival.late is None:
        raise ConfigError(
            f"Arrival(action={arrival.action.value!r}) without late=",
            why="without late= no event is late by its arrival, so the action would never apply",
            do="give late=, or leave the action out; for events behind the watermark use with_lateness(action=...)",
        )
    if arrival == Arrival():
        raise ConfigError(
            "Arrival() without early= and late=",
            why="nothing would be early or late by its arrival",
            do="give early=, late=, or both",
        )


class BatchWindowedBolt(WindowedBolt):
    """A windowed bolt whose ``execute_all`` is called with many due windows of a task at a time, as columns.

    Use it for many small windows, such as sessions per key, for which a call per window would cost more than its work.

        class Sums(BatchWindowedBolt):
            outputs = "total double"

            def execute_all(self, windows):
                totals = np.bincount(windows.index, windows.table["amount"].to_numpy(), len(windows))
                return pa.table({"total": totals}), np.arange(len(windows))

    The batch decides which windows are in one call, so the rows of a window must not depend on the other windows. A
    call has at most 65,536 windows, and no further windows once it has about a million events (1,048,576). If a trigger
    forgets a key, the call ends with the windows before, and ``forget`` is called. With ``Panes`` in retracting mode
    each call has one window; with other ``Panes`` a window may be in a call more than once. If a call fails, it is
    repeated for each window alone, and the run stops with the window that fails.
    """

    def execute_all(self, windows: WindowBatch) -> AllRows:
        """Called with windows in the order in which they fire; returns a table of rows and the window of each row.

        A window is given by its index in ``windows``, from 0, in ascending order; each row gets the time of its window.
        None: no rows. A bolt with several output streams returns a dict, ``{"default": (table, index), "late": (table,
        index)}``.
        """
        raise NotImplementedError

    def execute(self, window: TupleWindow) -> EmittedRows:
        """Called with a single window; returns the rows of ``execute_all`` for it."""
        emitted = numbered_rows(self.execute_all(WindowBatch([window], window.reads)), 1, self.output_schemas())
        if [stream for stream, _, _ in emitted] == [DEFAULT_STREAM]:
            return emitted[0][1]
        return [Emit(rows, stream) for stream, rows, _ in emitted] or None


NumberedRows: TypeAlias = "tuple[pa.Table, NDArray[np.int64]]"
AllRows: TypeAlias = "NumberedRows | Mapping[str, NumberedRows] | None"


def numbered_rows(
    returned: object, windows: int, outputs: Mapping[str, pa.Schema]
) -> list[tuple[str, pa.Table, NDArray[np.int64]]]:
    """Returns the streams with rows in a return value of ``execute_all``, each with its rows and the window of each.

    ``windows``: the number of windows of the call. Raises SchemaError for an invalid return value.
    """
    if returned is None:
        return []
    streams = (
        returned if isinstance(returned, Mapping) and set(returned) <= set(outputs) else {DEFAULT_STREAM: returned}
    )
    emitted = [(stream, *_rows_of_stream(each, stream, windows, outputs)) for stream, each in streams.items()]
    return [(stream, table, index) for stream, table, index in emitted if table.num_rows]


def _rows_of_stream(
    returned: object, stream: str, windows: int, outputs: Mapping[str, pa.Schema]
) -> tuple[pa.Table, NDArray[np.int64]]:
    """Returns the rows of one stream, and the index of the window of each row."""
    if not isinstance(returned, tuple) or len(returned) != 2:
        raise SchemaError(
            f"execute_all returned {type(returned).__name__}",
            why="it returns rows, and for each the number of its window; or a dict of these by output stream",
            do="return (table, windows.index[...]), or None for no rows",
        )
    rows, numbers = returned
    if stream not in outputs:
        raise SchemaError("rows of a bolt without outputs", do='declare them: outputs = "total double"')
    parts = [table for _, table in tables(rows, {DEFAULT_STREAM: outputs[stream]})]
    table = pa.concat_tables(parts) if parts else outputs[stream].empty_table()
    index = np.asarray(numbers)
    window_numbers = index.astype(np.int64) if index.dtype.kind in "iu" or not index.size else None
    if window_numbers is None or window_numbers.shape != (table.num_rows,) or not _ascending(window_numbers, windows):
        raise SchemaError(
            f"execute_all returned {table.num_rows} rows, and {repr_of(numbers):.60} as the numbers of their windows",
            why=f"each row is of one of {windows} windows, and rows come in the order of these",
            do="return a whole number from 0 for each row, in ascending order",
        )
    return table, window_numbers


def _ascending(index: NDArray[np.int64], windows: int) -> bool:
    """True if these are ascending indices of windows."""
    inside = not len(index) or (int(index.min()) >= 0 and int(index.max()) < windows)
    return inside and not (np.diff(index) < 0).any()


# Ready bolts that form their windows themselves.


_FIXED_SETTINGS = (
    "length", "slide", "kinds", "key", "panes", "eviction", "trigger", "processing_time", "bounds", "offset", "anchor",
    "output_time", "watermark_per_key",
)  # fmt: skip
"""Settings that an operator decides, and users cannot change."""


class Operator(WindowedBolt):
    """A bolt that is called for each moment at which an event of its inputs begins, with the events that live then.

    It is called when the watermark, the least of its inputs' marks, is past that moment, which is the time of its
    output. Its source of time, watermark and lateness are configured as for any windowed bolt. A preset does not change
    its windows; other settings that would change them raise ConfigError.
    """

    windows_in_words = "one at each moment at which an event begins"
    """A description of the windows for errors."""
    fixed_rules: tuple[str, ...] = ("bounds", "output_time")
    """The time rules that a preset does not change, unless the user sets them in the preset by name."""
    settings: WindowSettings = WindowSettings(kinds=(Onset(),), bounds=Bounds.START, output_time=OutputTime.START)

    def _apply_preset(self, preset: Preset) -> Self:
        if isinstance(preset, Preset):
            set_by_user = {rule for rule, _ in preset.asked}  # these are refused, not replaced
            fixed_values = {rule: getattr(self.settings, rule) for rule in self.fixed_rules if rule not in set_by_user}
            preset = preset.with_rules(**fixed_values)
        return super()._apply_preset(preset)

    def _with_settings(self, **changes: Any) -> Self:
        wrong = [name for name in _FIXED_SETTINGS if name in changes and changes[name] != getattr(self.settings, name)]
        if wrong:
            raise ConfigError(
                f"{type(self).__name__} with its own {', '.join(wrong)} changed",
                why=f"it forms its windows itself: {self.windows_in_words}",
                do="leave the setting out, or put a windowed bolt behind it",
            )
        return super()._with_settings(**changes)
