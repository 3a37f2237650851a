"""Which of the policies a bolt's settings come to."""

from __future__ import annotations

from policies.eviction import (
    CountEvictionPolicy,
    EvictionPolicy,
    TimeEvictionPolicy,
    WatermarkCountEvictionPolicy,
    WatermarkTimeEvictionPolicy,
)
from policies.trigger import (
    CountTriggerPolicy,
    TimeTriggerPolicy,
    TriggerPolicy,
    WatermarkCountTriggerPolicy,
    WatermarkTimeTriggerPolicy,
)
from windowing.durations import Count, Duration
from windowing.errors import ConfigError
from windowing.settings import WindowSettings


def choose_policies(settings: WindowSettings, *, event_time: bool) -> tuple[EvictionPolicy, TriggerPolicy]:
    """The eviction and the trigger policy of a bolt (ST-12): the watermark variants where it has event times.

    Raises ConfigError where there is no length, or a policy of the user's own does not fit.
    """
    eviction = settings.eviction or _eviction(settings, event_time)
    trigger = settings.trigger or _trigger(settings, event_time)
    if not isinstance(eviction, EvictionPolicy) or not isinstance(trigger, TriggerPolicy):
        wrong = trigger if isinstance(eviction, EvictionPolicy) else eviction
        raise ConfigError(
            f"{wrong!r} is not a policy",
            why="an eviction policy decides which events a window holds, a trigger policy when it fires",
            do="subclass policies.EvictionPolicy or policies.TriggerPolicy",
        )
    if trigger.event_time and not event_time:
        raise ConfigError(
            f"{trigger!r} follows the watermark, and the bolt has no event time",
            do="give the bolt a timestamp field, or use a policy that follows the clock",
        )
    if event_time and not trigger.event_time:
        raise ConfigError(
            f"{trigger!r} follows the clock, and the bolt has event times",
            why="its windows would depend on when events happen to arrive",
            do="use a Watermark... policy or set `event_time = True` on yours, or ask for with_processing_time()",
        )
    return eviction, trigger


def _eviction(settings: WindowSettings, event_time: bool) -> EvictionPolicy:
    match settings.length:
        case Count() as length:
            return WatermarkCountEvictionPolicy(length) if event_time else CountEvictionPolicy(length)
        case Duration() as length:
            if event_time:
                return WatermarkTimeEvictionPolicy(length, settings.bounds, settings.lag or Duration(0))
            return TimeEvictionPolicy(length, settings.bounds)
    raise ConfigError(
        "the window has no length (ST-24)", do="call with_window(length, slide) or with_tumbling_window(length)"
    )


def _trigger(settings: WindowSettings, event_time: bool) -> TriggerPolicy:
    match settings.slide:
        case Count() as count:
            return WatermarkCountTriggerPolicy(count) if event_time else CountTriggerPolicy(count)
        case Duration() as slide if event_time:
            return WatermarkTimeTriggerPolicy(slide, settings.bounds, settings.offset)
        case Duration() as slide:
            return TimeTriggerPolicy(slide, settings.bounds, settings.offset)
