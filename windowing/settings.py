"""The settings of a windowed bolt, and the policies that they come to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from windowing.bounds import Bounds
from windowing.durations import Count, Duration
from windowing.kinds import WindowKind
from windowing.panes import Panes
from windowing.rules import Aligned, Arrival, IdleRule, LateAction, LateBy, Lifetime, OutputTime, Over
from windowing.triggers import KeyTrigger


@dataclass(frozen=True)
class WindowSettings:
    """Everything that ``WindowedBolt.with_...`` can set; policies are made from it, once, when a topology is built.

    The defaults are Storm's. A preset (``windowing.presets``) sets the rules of another system, all at once.
    """

    # -- windows
    length: Duration | Count | None = None
    slide: Duration | Count = Count(1)
    kinds: tuple[WindowKind, ...] = ()
    """In place of length and slide; several of them are several kinds of window in one bolt (AZ-26)."""
    key: tuple[str, ...] = ()
    """Windows are formed for each value of these columns, not for each task."""
    panes: Panes | None = None
    eviction: Any = None
    trigger: Any = None
    key_trigger: KeyTrigger | None = None
    """In place of a kind of window: the window of a key lasts until this fires and purges it (UH-10 to UH-23)."""
    refused_stream: str | None = None
    """Where events go on which a rule of the trigger fails."""

    # -- where the time of an event comes from
    timestamp_field: str | None = None
    timestamp_extractor: Callable[..., Any] | None = None
    extractor_on_columns: bool = False
    processing_time: bool = False
    """Asked for by name; without it, and without a field or extractor, the input streams decide."""
    lifetime: Lifetime | None = None
    arrival: Arrival | None = None

    needs_event_time: tuple[str, ...] = ()
    """The calls of the user that say something only where events have times of their own."""

    # -- bounds and alignment
    bounds: Bounds = Bounds.END
    past_the_end: bool = False
    """A window that holds its end closes when the watermark is past it, not at it: events of that instant may come."""
    offset: Duration = Duration(0)
    aligned: Aligned = Aligned.ENDS
    anchor: str | int | None = None
    """What aligned windows are counted from: None, the epoch; "start", the first clock of the run; or microseconds."""
    output_time: OutputTime = OutputTime.END

    # -- the watermark
    lag: Duration | None = None
    ahead: bool = False
    """The watermark is a microsecond past the latest event, not a lag behind it: SI-9's delay of minus one tick."""
    watermark_interval: Duration = Duration(0)
    watermark_every: Count | Duration | None = None
    """None: at ticks. A count: at every so many events of an input. A duration: every so much of its event time."""
    watermark_field: str | None = None
    """A column in which the source puts watermarks in (SI-4, SI-11); a row that has one there is no event."""
    watermark_over: Over = Over.MIN
    watermark_partition: str | None = None
    """A column; each of its values on an input has a mark of its own, and the watermark is over all of them (AT-21)."""
    watermark_per_key: bool = False
    """Each key has a watermark of its own (AZ-15)."""
    watermark_imports: Mapping[str, str] | None = None
    """Inputs that take the marks of another (SI-15): ``{"lookup": "data"}``."""
    watermark_imports_beside: bool = False
    """Whether those inputs make marks of their own as well; the greater counts (SI-16)."""
    estimate_arrival: bool = False
    """When nothing comes: the watermark follows the estimated arrival, less the late tolerance (AZ-5, AZ-6)."""
    idle_timeout: Duration | None = None
    idle_rule: IdleRule = IdleRule.AFTER_WINDOW_END
    partition_idle_timeout: Duration | None = None
    """An input or partition that has been silent for this long is left out of the minimum (AT-20)."""
    close_fires: bool = True
    """The end of the streams is a watermark of +infinity (SI-7); if not, open windows stay for the next run."""

    # -- lateness
    late_by: LateBy = LateBy.WATERMARK
    late_per_input: bool = False
    """Late is measured against the mark of the event's own input (SI-2), not against the watermark of the bolt."""
    late_action: LateAction = LateAction.DIVERT
    allowed_lateness: Duration = Duration(0)
    late_stream: str | None = None

    @property
    def reads_timestamps(self) -> bool:
        """Whether event times come from a field or an extractor of this bolt's own."""
        return self.timestamp_field is not None or self.timestamp_extractor is not None

    @property
    def delay(self) -> int:
        """How far the watermark stays behind the latest event, in microseconds; -1 where it runs ahead."""
        return -1 if self.ahead else (self.lag or Duration(0)).micros
