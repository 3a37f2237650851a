"""The settings of a windowed bolt, and the policies that they come to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from windowing.bounds import Bounds
from windowing.durations import Count, Duration
from windowing.kinds import WindowKind
from windowing.panes import Panes
from windowing.rules import (
    Aligned,
    Arrival,
    DefaultTime,
    IdleRule,
    InputRules,
    LateAction,
    LateBy,
    Lifetime,
    OutputTime,
    Partition,
    WatermarkCombiner,
)
from windowing.triggers import Capacity, KeyTrigger


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
    expired: bool | None = None
    """Whether what has left since the window before is kept, where it costs something (ST-21); None: as the code of
    the bolt asks for it."""
    eviction: Any = None
    trigger: Any = None
    key_trigger: KeyTrigger | None = None
    """In place of a kind of window: the window of a key lasts until this fires and purges it (UH-10 to UH-23)."""
    refused_stream: str | None = None
    """Where events go on which a rule of the trigger fails."""
    capacity: Capacity | None = None
    """How much the window of a key may hold before it fires, whatever the trigger says."""

    message_id_field: str | None = None
    """A column; an event with the id of a live one is a duplicate, and in no window (ST-27)."""

    # -- where the time of an event comes from
    timestamp_field: str | None = None
    timestamp_extractor: Callable[..., Any] | None = None
    extractor_on_columns: bool = False
    processing_time: bool = False
    """Asked for by name; without it, and without a field or extractor, the input streams decide."""
    default_time: DefaultTime = DefaultTime.CLOCK
    """What the time is where none of these says it, and the inputs bring none along."""
    lifetime: Lifetime | None = None
    arrival: Arrival | None = None

    given: frozenset[str] = field(default=frozenset(), compare=False)
    """The settings that were given by name, which those of a source do not replace (SI-18)."""
    asked: tuple[tuple[str, str], ...] = field(default=(), compare=False)
    """What the user asked for by name, (setting, call) in order: if it would change nothing, it is refused. What a
    preset brings along without being asked may be idle."""
    forgotten: tuple[str, ...] = field(default=(), compare=False)
    """The calls whose settings a preset that came after them has replaced."""

    # -- bounds and alignment
    bounds: Bounds = Bounds.END
    past_the_end: bool = False
    """A window that holds its end closes when the watermark is past it, not at it: events of that instant may come."""
    longest_window: Duration | None = None
    """No window of the bolt may be longer: 7 days in Azure (AZ-19)."""
    offset: Duration = Duration(0)
    aligned: Aligned = Aligned.ENDS
    anchor: str | int | None = None
    """What aligned windows are counted from: None, the epoch; "start", the first clock of the run; or microseconds."""
    output_time: OutputTime = OutputTime.END
    output_watermark: OutputTime | None = None
    """What the next bolt is promised: nothing from before the ends of the windows that are still open, or from before
    the start of the earliest of them (SI-24). None: as far as ``output_time`` allows."""

    # -- the watermark
    lag: Duration | None = None
    ahead: Duration = Duration(0)
    """The watermark is so far past the latest event, not a lag behind it: SI-9's delay of minus one tick."""
    watermark_interval: Duration = Duration(0)
    watermark_every: Count | Duration | None = None
    """None: at ticks. A count: at every so many events of an input. A duration: every so much of its event time."""
    watermark_field: str | None = None
    """A column in which the source puts watermarks in (SI-4, SI-11); a row that has one there is no event."""
    watermark_over: WatermarkCombiner = WatermarkCombiner.MIN
    watermark_partition: str | Partition | None = None
    """A column, or SOURCE: each of its values on an input, or each partition that the source itself has, has a mark of
    its own, and the watermark is over all of them (AT-21, AZ-18)."""
    partitions: tuple[str, ...] | Mapping[str, tuple[str, ...]] | None = None
    """The values of that column that exist, on every input or per input: they hold the watermark before they have
    delivered (AT-20). None: each holds it from its first event on."""
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
    """Late is measured against the mark of the event's own input or partition (SI-2, AZ-4), not against the watermark
    of the bolt."""
    late_action: LateAction = LateAction.DIVERT
    allowed_lateness: Duration = Duration(0)
    late_stream: str | None = None
    input_rules: Mapping[str, InputRules] | None = None
    """By the label of an input: what its source says of its watermarks and late events, where they differ (SI-17)."""

    @property
    def follow_each_other(self) -> bool:
        """Whether each window of a task or key comes after another, so that something can have expired in between."""
        return self.panes is None and self.key_trigger is None and len(self.kinds) <= 1

    @property
    def reads_timestamps(self) -> bool:
        """Whether event times come from a field or an extractor of this bolt's own."""
        return self.timestamp_field is not None or self.timestamp_extractor is not None

    @property
    def arrival_is_time(self) -> bool:
        """Whether events have the time of their arrival, in a column, and no other (AZ-1)."""
        by_default = self.default_time is DefaultTime.ARRIVAL and not self.reads_timestamps and not self.processing_time
        return by_default and self.arrival is not None and self.arrival.field is not None

    @property
    def overtakes(self) -> bool:
        """Whether an event may be in order on its own input or partition, and behind the watermark of the bolt.

        That happens where inputs and partitions are judged by themselves, and one was not known or had been left out.
        """
        unknown = isinstance(self.watermark_partition, str) or self.partition_idle_timeout is not None
        one_by_one = self.late_per_input and not self.watermark_per_key and self.late_by is LateBy.WATERMARK
        return one_by_one and unknown and self.watermark_over is WatermarkCombiner.MIN

    @property
    def delay(self) -> int:
        """How far the watermark stays behind the latest event, in microseconds; below zero where it runs ahead."""
        return (self.lag or Duration(0)).micros - self.ahead.micros

    def of_input(self, label: str) -> InputRules:
        """How the marks of an input are made, and what becomes of its late events."""
        own = (self.input_rules or {}).get(label)
        return own or InputRules(self.watermark_every, self.delay, self.late_action)
