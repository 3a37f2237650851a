"""Rules of watermarks and of late events that go together, or not."""

from __future__ import annotations

from collections.abc import Iterator

from topologies.compose.checks.checked_bolt import CheckedBolt
from windowing.errors import ConfigError
from windowing.settings.kinds import SlidingLog
from windowing.settings.rules import LateAction, LateBy
from windowing.time.durations import Count, Duration


def keys_watermark(bolt: CheckedBolt) -> Iterator[ConfigError]:
    """A watermark for each key leaves no room for other rules that make one (AZ-15)."""
    settings = bolt.settings
    if not settings.watermark_per_key or not bolt.event_time:
        return
    partition = ("watermark_partition", "with_watermark(partition=...)") in settings.asked
    others = {
        "with_watermark(partition=...)": partition,
        "with_watermark(field=...)": settings.watermark_field is not None,
        "imports of watermarks": settings.watermark_imports is not None,
        "with_watermark(idle_timeout=...)": settings.idle_timeout is not None,
        "with_watermark(partition_idle_timeout=...)": settings.partition_idle_timeout is not None,
        "with_trigger(Panes(...))": settings.panes is not None,
    }
    yield from bolt.exclusions(
        "a watermark for each key", others, "there is no watermark of the whole bolt to which it could apply"
    )
    if settings.watermark_every != Count(1):
        yield bolt.fault(
            "has a watermark for each key, and not at every event",
            "a key's watermark follows each of its events",
            "use with_watermark(every=1)",
        )


def lateness(bolt: CheckedBolt) -> Iterator[ConfigError]:
    """Lateness by window needs windows whose end follows from an event (C-23)."""
    settings = bolt.settings
    if not bolt.event_time:
        return
    moves = settings.late_action in (LateAction.ADJUST, LateAction.CUT)
    if moves and settings.idle_timeout is not None and any(isinstance(kind, SlidingLog) for kind in settings.kinds):
        yield bolt.fault(
            f"is to {settings.late_action.value} late events, and has with_watermark(idle_timeout=...) and SlidingLog",
            "such windows end at the very times of events, so the clock may have closed all those of the time to which "
            "an event would be moved",
            "leave the timeout out, or divert or drop late events",
        )
    if settings.late_by is LateBy.WATERMARK:
        if settings.allowed_lateness.micros:
            yield bolt.fault(
                "allows lateness, but judges lateness by the watermark",
                "an event behind the watermark is then late even if its window is open",
                "use with_lateness(by='window', allowed=...), or with_lag for a watermark that stays behind",
            )
        return
    if moves:
        yield bolt.fault(
            f"is to {settings.late_action.value} events whose windows have closed",
            "by window there is no earliest time that is in time, to which an event could be moved",
            "use with_lateness(by='watermark'), or divert or drop them",
        )
    others = [kind for kind in settings.kinds if not kind.edges_known]
    if others and len(settings.kinds) > 1:
        yield bolt.fault(
            f"has {type(others[0]).__name__} besides other windows, and judges lateness by window",
            "an event can be late for one kind and not for the other",
            "use with_lateness(by='watermark'), or a bolt for each kind",
        )
    lasting = settings.lifetime is not None
    if lasting and any(kind.between_edges for kind in settings.kinds):
        yield bolt.fault(
            "judges lateness by window, but its windows are snapshots of events that last",
            "a late event would divide windows that have fired",
            "use with_lateness(by='watermark')",
        )
    by_policy = settings.eviction is not None or settings.trigger is not None  # refused for that reason
    by_count = not (by_policy or settings.kinds) and not (
        isinstance(settings.length, Duration) and isinstance(settings.slide, Duration)
    )
    if by_count or any(kind.counts for kind in settings.kinds):
        yield bolt.fault(
            "judges lateness by window, but its windows are counts of events",
            "the window of a late event would depend on the other events",
            "use with_lateness(by='watermark')",
        )


def late_stream(bolt: CheckedBolt) -> Iterator[ConfigError]:
    """A late stream that nothing can come to."""
    settings, arrival = bolt.settings, bolt.settings.arrival
    if settings.late_stream is None or not bolt.event_time or settings.late_action is LateAction.DIVERT:
        return
    early = arrival is not None and arrival.early is not None
    by_arrival = arrival is not None and arrival.late is not None and arrival.action is LateAction.DIVERT
    if not early and not by_arrival:
        yield bolt.fault(
            f"has a late stream {settings.late_stream!r}, but the action for late events is "
            f"{settings.late_action.value!r}",
            "no event would ever go to that stream",
            "remove it, or use with_lateness(action='divert')",
        )
