"""The bolt of a scenario that names no topology: made from its settings, fed by columns that they name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from topologies.scenarios.schema.settings import BoltSettings
from windowing.bolt import WindowedBolt
from windowing.panes import PaneMode
from windowing.presets import Preset
from windowing.rules import IdleRule, LateBy
from windowing.settings import WindowSettings
from windowing.timestamps import to_datetime
from windowing.window import TupleWindow

RULES = {
    "aligned": "aligned",
    "past_the_end": "past_the_end",
    "longest_window": "longest_window",
    "watermark_over": "watermark_over",
    "imports_beside": "watermark_imports_beside",
    "estimate_arrival": "estimate_arrival",
    "close_fires": "close_fires",
}
"""Settings for which bolts have no call of their own, and the rules of presets that they are."""


class BareBolt(WindowedBolt):
    """A windowed bolt that emits nothing: its windows are what is of interest."""

    outputs: ClassVar[dict[str, str]] = {}

    def execute(self, window: TupleWindow) -> None:
        return None


def bare_bolt(
    settings: BoltSettings,
    imports: Mapping[str, str] | None = None,
    partitions: Sequence[str] | Mapping[str, Sequence[str]] | None = None,
) -> WindowedBolt:
    """The bolt that a scenario describes: the preset first, then its windows, then the single rules.

    ``imports`` are the inputs that take the watermarks of another, ``partitions`` the partitions that exist, both by
    the names that inputs have in the topology.
    """
    bolt = _with_windows(_with_preset(BareBolt(), settings, imports), settings)
    if settings.panes is not None:
        panes = settings.panes
        bolt = bolt.with_panes(early=panes.early, late=panes.late, mode=panes.mode or PaneMode.ACCUMULATING)
    bolt = _with_alignment(_with_times(bolt, settings), settings)
    bolt = _with_lateness(_with_watermarks(bolt, settings, partitions), settings)
    if settings.message_id_field is not None:
        bolt = bolt.with_message_id_field(settings.message_id_field)
    return bolt.with_expired(bolt.settings.follow_each_other)


def clock_matters(rules: WindowSettings) -> bool:
    """Whether it makes a difference to a bolt when, between two events, its clock moved."""
    by_events = rules.reads_timestamps or rules.arrival_is_time
    early = rules.panes is not None and rules.panes.uses_clock
    idle = rules.idle_timeout is not None or rules.partition_idle_timeout is not None
    estimated = rules.estimate_arrival or rules.arrival_is_time
    return idle or estimated or early or (not by_events and bool(rules.kinds or rules.key))


def _with_preset(bolt: WindowedBolt, settings: BoltSettings, imports: Mapping[str, str] | None) -> WindowedBolt:
    """All rules of a preset, and of the single ones those that only presets decide."""
    preset = Preset("storm", {}) if settings.preset is None else settings.preset.preset
    single = {rule: value for name, rule in RULES.items() if (value := getattr(settings, name)) is not None}
    own = imports_of(settings)
    if own is not None:
        single["watermark_imports"] = dict(imports or own)
    if settings.preset is None and not single:
        return bolt
    return bolt.with_time(preset.but(**single))


def imports_of(settings: BoltSettings) -> Mapping[str, str] | None:
    """Which streams take the watermarks of another, by the names that they have in the scenario."""
    if settings.imports is not None:
        return settings.imports
    found: Mapping[str, str] | None = None
    if settings.preset is not None:
        found = settings.preset.preset.changes()["watermark_imports"]
    return found


def _with_windows(bolt: WindowedBolt, settings: BoltSettings) -> WindowedBolt:
    if settings.length is not None:
        bolt = bolt.with_window(settings.length, settings.length if settings.tumbling else settings.sliding)
    elif settings.session is not None:
        kind = settings.session.kind
        bolt = bolt.with_session_window(
            kind.gap, touching=kind.touching, max_duration=kind.max_duration, gap_field=kind.gap_field
        )
    elif settings.snapshot:
        bolt = bolt.with_snapshot_window()
    elif settings.sliding_log is not None:
        bolt = bolt.with_sliding_log_window(settings.sliding_log)
    elif settings.count_by_start is not None:
        bolt = bolt.with_count_by_start_window(settings.count_by_start)
    elif settings.calendar is not None:
        bolt = bolt.with_calendar_window(settings.calendar.unit, settings.calendar.zone)
    else:
        bolt = bolt.with_windows(*(each.kind for each in settings.windows or ()))
    return bolt if settings.key is None else bolt.with_key(*settings.key)


def _with_times(bolt: WindowedBolt, settings: BoltSettings) -> WindowedBolt:
    if settings.timestamp_field is not None:
        bolt = bolt.with_timestamp_field(settings.timestamp_field)
    if settings.processing_time:
        bolt = bolt.with_processing_time()
    if settings.end_field is not None:
        bolt = bolt.with_lifetime(
            settings.end_field, shape_field=settings.shape_field, edge_key=settings.edge_key or ()
        )
    if settings.arrival is not None:
        given: dict[str, Any] = {name: value for name, value in settings.arrival.given.items() if value is not None}
        bolt = bolt.with_arrival(**given)
    return bolt


def _with_alignment(bolt: WindowedBolt, settings: BoltSettings) -> WindowedBolt:
    if settings.bounds is not None:
        bolt = bolt.with_bounds(settings.bounds)
    if settings.offset is not None:
        bolt = bolt.with_offset(settings.offset)
    if settings.anchor is not None:
        at = settings.anchor
        bolt = bolt.with_anchor(at if isinstance(at, str) else to_datetime(at))
    if settings.output_time is not None or settings.output_watermark is not None:
        time = settings.output_time or bolt.settings.output_time
        bolt = bolt.with_output_time(time, watermark=settings.output_watermark)
    return bolt


def _with_watermarks(
    bolt: WindowedBolt, settings: BoltSettings, partitions: Sequence[str] | Mapping[str, Sequence[str]] | None
) -> WindowedBolt:
    if settings.lag is not None:
        bolt = bolt.with_lag(settings.lag)
    if settings.watermark_interval is not None:
        bolt = bolt.with_watermark_interval(settings.watermark_interval)
    if settings.watermark_every is not None:
        bolt = bolt.with_watermark_every(settings.watermark_every)
    if settings.watermark_field is not None:
        bolt = bolt.with_watermark_field(settings.watermark_field)
    if settings.watermark_partition is not None:
        bolt = bolt.with_watermark_partition(settings.watermark_partition, partitions=partitions)
    if settings.substreams is not None:
        bolt = bolt.with_substreams(*settings.substreams)
    if settings.idle_timeout is not None or settings.idle_rule is not None:
        timeout = settings.idle_timeout or bolt.settings.idle_timeout
        rule: IdleRule = settings.idle_rule or bolt.settings.idle_rule
        bolt = bolt if timeout is None else bolt.with_idle_timeout(timeout, rule)
    if settings.partition_idle_timeout is not None:
        bolt = bolt.with_partition_idle_timeout(settings.partition_idle_timeout)
    return bolt


def _with_lateness(bolt: WindowedBolt, settings: BoltSettings) -> WindowedBolt:
    if settings.late is not None:
        bolt = bolt.with_late(settings.late)
    if settings.late_by is not None or settings.allowed_lateness is not None:
        rule: LateBy = settings.late_by or bolt.settings.late_by
        allowed = settings.allowed_lateness
        bolt = bolt.with_late_by(rule, bolt.settings.allowed_lateness if allowed is None else allowed)
    if settings.late_stream is not None:
        bolt = bolt.with_late_tuple_stream(settings.late_stream)
    return bolt
