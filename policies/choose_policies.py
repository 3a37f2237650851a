"""Chooses the policies of a bolt from its settings."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import replace

from policies.assigners import (
    AlignedWindows,
    CalendarWindows,
    CountByStartWindows,
    CountedWindows,
    LullWindows,
    MeetingWindows,
    OnsetWindows,
    SessionWindows,
    SlidingLogWindows,
    SnapshotWindows,
    WindowAssigner,
)
from policies.protocol import EvictionPolicy, Policy, TriggerPolicy, forget_after, is_custom, overrides
from policies.storm import (
    CountEvictionPolicy,
    CountTriggerPolicy,
    TimeEvictionPolicy,
    TimeTriggerPolicy,
    WatermarkCountEvictionPolicy,
    WatermarkCountTriggerPolicy,
    WatermarkTimeEvictionPolicy,
    WatermarkTimeTriggerPolicy,
)
from windowing.bolts.bolt import check_types
from windowing.bolts.read_code import check_hooks
from windowing.durations import Count, Duration
from windowing.errors import ConfigError
from windowing.reprs import repr_of
from windowing.settings import WindowSettings
from windowing.settings.kinds import (
    Calendar,
    CountByStart,
    Hopping,
    Lull,
    Meeting,
    Onset,
    Session,
    SlidingLog,
    Snapshot,
    WindowKind,
)
from windowing.settings.rules import Aligned, Bounds, LateBy


def choose_policies(settings: WindowSettings, *, event_time: bool) -> tuple[EvictionPolicy, TriggerPolicy]:
    """Returns the eviction and trigger policies of a bolt: the user's, or Storm's (ST-12). In event time, Storm's
    policies are the ``Watermark`` classes.

    Raises ConfigError if windows have no length, or a custom policy does not fit.
    """
    eviction = _storm_eviction(settings, event_time) if settings.eviction is None else settings.eviction
    trigger = _storm_trigger(settings, event_time) if settings.trigger is None else settings.trigger
    for policy, kind in ((eviction, EvictionPolicy), (trigger, TriggerPolicy)):
        _check_policy(policy, kind)
    _check_forgetting(eviction, trigger)
    if trigger.event_time is True and not event_time:
        raise ConfigError(
            f"{repr_of(trigger)} follows the watermark, and the bolt has no event time",
            do="give the bolt a timestamp field, or use a policy that follows the clock",
        )
    if event_time and trigger.event_time is False:
        raise ConfigError(
            f"{repr_of(trigger)} follows the clock, and the bolt has event times",
            why="its windows would depend on when events arrive, not on their times",
            do="use a Watermark... policy, leave out `event_time = False`, or ask for with_time(processing=True)",
        )
    if isinstance(trigger, WatermarkTimeTriggerPolicy) and (is_custom(eviction) or settings.key):
        # An event exactly at the watermark may belong to a window that ends there.
        trigger = replace(trigger, closes_after_end=trigger.bounds is Bounds.END)
    return eviction, trigger


def uses_policy_windows(settings: WindowSettings, eviction: EvictionPolicy, trigger: TriggerPolicy) -> bool:
    """True if policies are called event by event or key by key, not with the arrays of one queue: a policy is custom,
    or policies are given together with a key."""
    has_policy = settings.eviction is not None or settings.trigger is not None
    return has_policy and (bool(settings.key) or is_custom(eviction) or is_custom(trigger))


def _check_policy(policy: object, kind: type[Policy]) -> None:
    """Raise ConfigError for an object that is not a policy of this kind, or is an invalid custom policy."""
    name = "eviction" if kind is EvictionPolicy else "trigger"
    if not isinstance(policy, kind):
        is_class = isinstance(policy, type) and issubclass(policy, kind)
        raise ConfigError(
            f"{name}={repr_of(policy):.80} is not {'an eviction' if name == 'eviction' else 'a trigger'} policy",
            why=f"it is the class, and not an instance of it: {policy.__name__}(...)"
            if isinstance(policy, type) and is_class
            else "an eviction policy decides which events a window holds, a trigger policy when it fires",
            do=f"give an instance of a subclass of {kind.__name__} of windbolt.policies",
        )
    if not is_custom(policy):
        return
    declared = policy.state_types if isinstance(policy.state_types, Mapping) else {}
    not_types = [name for name, declared_type in declared.items() if not isinstance(declared_type, type)]
    if not_types:
        raise ConfigError(
            f"{repr_of(policy)}: state {not_types[0]!r} is declared {repr_of(policy.state_types[not_types[0]]):.60}",
            why="the state of a policy is small, one for each task or key, and kept as JSON",
            do="use the type itself, without quotation marks: int, float, str, bool, list or dict",
        )
    try:
        check_types(policy.state_types)
    except ConfigError as error:
        do = (
            'write state_types = {"seen": int}, of int, float, str, bool, list and dict'  # a bolt may have a schema too
        )
        raise ConfigError(f"{repr_of(policy)}: {error.what}", why=error.why, do=do) from error
    for name in ("reach",) if kind is EvictionPolicy else ("every", "offset"):
        _check_extent(policy, name)
    _check_extent(policy, "forget_after")
    _check_arguments(policy, kind)
    check_hooks(policy, _ARGUMENTS)
    firing_hooks = ("track", "track_all", "on_time", "on_arrival", "on_end")
    required_hooks = ("evict", "evict_all") if kind is EvictionPolicy else firing_hooks
    built_in = any(each.__module__ == "policies.storm" for each in type(policy).__mro__)
    if not overrides(policy, *required_hooks) and not built_in:
        raise ConfigError(
            f"{type(policy).__name__} overrides none of {', '.join(required_hooks)}",
            why="these decide which events a window holds" if kind is EvictionPolicy else "so it would never fire",
            do=f"write `{required_hooks[0]}`: its docstring says when it is called, and what it answers",
        )


_ARGUMENTS = {
    "start": ("state",),
    "track": ("event", "context"),
    "track_all": ("events", "context"),
    "evict": ("event", "context"),
    "evict_all": ("events", "context"),
    "on_time": ("time", "context"),
    "on_arrival": ("event",),
    "on_end": ("context",),
    "reset": ("context",),
    "window_start": ("reference",),
}
"""The arguments of each hook, by position."""


def _check_arguments(policy: Policy, kind: type[Policy]) -> None:
    """Raise ConfigError for a hook that cannot be called with its arguments."""
    for hook, arguments in _ARGUMENTS.items():
        if not hasattr(kind, hook) or not overrides(policy, hook):
            continue
        try:  # of the function of a decorator, which may call the hook with other arguments
            signature = inspect.signature(getattr(policy, hook), follow_wrapped=False)
        except (TypeError, ValueError):  # compiled code may have none
            continue
        try:
            signature.bind(*arguments)
        except TypeError as error:
            code = getattr(getattr(type(policy), hook), "__code__", None)
            line = "" if code is None else f" at {code.co_filename}:{code.co_firstlineno}"
            raise ConfigError(
                f"{type(policy).__name__}.{hook}{signature} cannot be called: {error}{line}",
                why=f"it is called with {' and '.join(arguments)}",
                do=f"write def {hook}(self, {', '.join(arguments)})",
            ) from error


def _check_extent(policy: Policy, name: str) -> None:
    """Raise ConfigError for an attribute of a policy that is not a valid length of time."""
    try:
        extent = getattr(policy, name)
    except Exception as error:
        raise ConfigError(
            f"{type(policy).__name__}.{name} cannot be read: {type(error).__name__}: {error}",
            why="it is read when the bolt is built, and for each task",
            do="let it depend on nothing but the parameters of the policy",
        ) from error
    positive = isinstance(extent, Duration) and (extent.micros > 0 or name == "offset")
    if positive or (extent is None and name != "offset"):
        return
    unit = "" if isinstance(extent, Duration) else f" ({type(extent).__name__})"
    raise ConfigError(
        f"{type(policy).__name__}.{name} = {repr_of(extent):.60}{unit}",
        why="it is a length of time" + ("" if name == "offset" else ", longer than none; or None"),
        do=f"write {name} = minutes(1)",
    )


def _check_forgetting(eviction: EvictionPolicy, trigger: TriggerPolicy) -> None:
    """Raise ConfigError if a key would be forgotten before its windows have fired."""
    shortest = forget_after(eviction, trigger)
    if shortest is None:
        return
    lengths = {
        f"{type(trigger).__name__}.every": trigger.every,
        f"{type(eviction).__name__}.reach": eviction.reach,
        "the slide": trigger.slide if isinstance(trigger, TimeTriggerPolicy) else None,
    }
    for name, length in lengths.items():
        if length is not None and length.micros > shortest.micros:
            raise ConfigError(
                f"forget_after, {shortest}, is shorter than {name}, {length}",
                why="a key would be forgotten, with its events, before a window fires that may hold them",
                do=f"let forget_after be {length} or more",
            )


def choose_assigners(settings: WindowSettings, *, event_time: bool) -> tuple[WindowAssigner, ...]:
    """Returns the window assigners of a bolt; empty if its windows are contiguous events of the queue.

    Windows need assigners if they are per key, of another kind than Storm's, or anchored; if they fire more than once,
    or hold events with lifetimes; and if an event may be admitted when only some of its windows are still open (AT-16).
    """
    if settings.key_trigger is not None or settings.eviction is not None or settings.trigger is not None:
        return ()
    after_end = closes_after_end(settings, event_time=event_time)
    if any(kind.of_moments for kind in settings.kinds) and not event_time:
        raise ConfigError(
            "there is no event time",
            why="joins by lifetime, unions, Deduplicate, RateLimit, Changes and Silence look at events in order of "
            "their times",
            do="call with_timestamp_field or with_timestamp_extractor",
        )
    if settings.kinds:
        return tuple(_assigner_of_kind(settings, kind) for kind in settings.kinds)
    counted = _counted_windows(settings, event_time)
    if counted is not None:
        return (counted,)
    length, slide = settings.length, settings.slide
    by_window = event_time and settings.late_by is LateBy.WINDOW
    overlaps = isinstance(length, Duration) and isinstance(slide, Duration) and slide < length
    at_each_event = event_time and settings.watermark_moves_within_batch and settings.bounds is Bounds.END
    reasons = {
        "each key has windows of its own": bool(settings.key),
        "windows fire more than once": settings.panes is not None,
        "events have lifetimes": settings.lifetime is not None,
        "windows are anchored": settings.anchor is not None,
        "windows without events fire": settings.empty_windows_until is not None,
        "an event at the watermark may miss the window that ends there": at_each_event and overlaps and not after_end,
        "an idle timeout must know the windows that hold events": event_time and settings.idle_timeout is not None,
        "some windows of an event behind the watermark may have closed": event_time
        and settings.admits_behind_watermark
        and overlaps,
        "some windows of an event may have closed": by_window and (overlaps or after_end),
    }
    if not any(reasons.values()):
        return ()
    if not isinstance(length, Duration) or not isinstance(slide, Duration):
        raise _count_error(settings)
    return (_assigner_of_kind(settings, Hopping(length, slide)),)


def with_placeholder_lengths(settings: WindowSettings) -> WindowSettings:
    """Returns settings for unused policies, for a bolt whose windows are formed by assigners or a trigger of keys."""
    return replace(settings, length=settings.length or Count(1), slide=settings.slide, eviction=None, trigger=None)


def closes_after_end(settings: WindowSettings, *, event_time: bool) -> bool:
    """True if a window closes when time is past its end, not at its end, so that it holds all events of that
    instant."""
    holds_end = settings.bounds is Bounds.END
    if settings.kinds and all(kind.counts for kind in settings.kinds):
        return False  # such a window ends just after its last event; another event of that moment is in the next window
    if _counted_windows(settings, event_time) is not None:
        return False  # a full window closes at once; another event of that moment is in the next window
    if any(kind.changes_at_its_end(settings.bounds) for kind in settings.kinds):
        return True
    counted = isinstance(settings.length, Count) and isinstance(settings.slide, Duration) and not settings.kinds
    if holds_end and counted and event_time and settings.watermark_moves_within_batch:
        return True  # otherwise it would depend on batches whether an event at the watermark is in the window
    with_edges = not settings.kinds or any(not isinstance(kind, Session) for kind in settings.kinds)
    return holds_end and (settings.closes_after_end if event_time else with_edges)


def _counted_windows(settings: WindowSettings, event_time: bool) -> CountedWindows | None:
    """Returns the assigner of windows of a count of events of each key; None if the bolt has other windows."""
    length, slide = settings.length, settings.slide
    if not settings.key or settings.kinds or not isinstance(length, Count) or not isinstance(slide, Count):
        return None
    needs_time = settings.panes is not None or settings.lifetime is not None or settings.anchor is not None
    if needs_time or settings.empty_windows_until is not None:
        return None
    return CountedWindows(length, slide, by_arrival=not event_time)


def _count_error(settings: WindowSettings) -> ConfigError:
    """Returns the error about a length or slide in events, with other settings that need windows of time."""
    needs = {
        "Panes": settings.panes is not None,
        "lifetimes": settings.lifetime is not None,
        "an anchor": settings.anchor is not None,
        "an idle timeout": settings.idle_timeout is not None,
    }
    present = [name for name, is_present in needs.items() if is_present]
    if settings.length is None:
        return _no_length()
    if settings.key and not present:
        return ConfigError(
            "windows of each key with a length in time and a slide in events, or the other way round",
            why="windows of keys are of a length in time or of a count of events, not of both",
            do="give both as durations or both as counts, or leave with_key out: windows are then those of a task",
        )
    return ConfigError(
        f"windows of a count with {' and '.join(present) or 'rules that need windows of time'}",
        why="these need windows of time",
        do="give the length and the slide as durations, or leave the count to a bolt without these settings",
    )


def _no_length() -> ConfigError:
    return ConfigError("the window has no length", do="call with_window(length, slide) or with_tumbling_window(length)")


def _assigner_of_kind(settings: WindowSettings, kind: WindowKind) -> WindowAssigner:  # noqa: PLR0911 - one for each kind
    match kind:
        case Hopping(length, slide):
            windows = AlignedWindows(length, slide, settings.bounds, _offset(settings, length, slide))
            anchor = settings.anchor
            return windows.anchored(anchor, settings.offset.micros) if isinstance(anchor, int) else windows
        case Session(gap, touching, max_duration):
            return SessionWindows(gap, touching, max_duration)
        case Snapshot():
            return SnapshotWindows(settings.bounds)
        case SlidingLog(length):
            return SlidingLogWindows(length)
        case CountByStart(count):
            return CountByStartWindows(count)
        case Calendar(unit, zone):
            return CalendarWindows(unit, zone, settings.bounds, kind.begins, kind.shift, kind.last)
        case Onset():
            return OnsetWindows()
        case Lull(length):
            return LullWindows(length)
        case Meeting(how, left):
            edges = settings.lifetime is not None and settings.lifetime.shape_field is not None
            return MeetingWindows(how, left, edges)
    raise ConfigError(
        f"{kind!r} is no kind of window that windbolt forms",
        why="each kind has an assigner, and this one has none",
        do="use Hopping, Session, Calendar, SlidingLog, Snapshot or CountByStart",
    )


def _storm_eviction(settings: WindowSettings, event_time: bool) -> EvictionPolicy:
    # A window that fires with an event holds this event at its end, so it does not hold its start (ST-4).
    bounds = Bounds.END if isinstance(settings.slide, Count) else settings.bounds
    match settings.length:
        case Count() as length:
            return WatermarkCountEvictionPolicy(length) if event_time else CountEvictionPolicy(length)
        case Duration() as length:
            if event_time:
                return WatermarkTimeEvictionPolicy(length, bounds, settings.lag or Duration(0))
            return TimeEvictionPolicy(length, bounds)
    if settings.trigger is not None:
        raise ConfigError(
            f"{repr_of(settings.trigger):.80} has no eviction beside it, and the window no length",
            why="a trigger says when a window fires, and not which events the window holds",
            do='give with_policies(eviction=...) too, or a length: with_window("1m")',
        )
    raise _no_length()


def _storm_trigger(settings: WindowSettings, event_time: bool) -> TriggerPolicy:
    match settings.slide:
        case Count() as count:
            return WatermarkCountTriggerPolicy(count) if event_time else CountTriggerPolicy(count)
        case Duration() as slide if event_time:
            offset = _offset(settings, settings.length, slide)
            return WatermarkTimeTriggerPolicy(
                slide, settings.bounds, offset, closes_after_end(settings, event_time=True)
            )
        case Duration() as slide:
            return TimeTriggerPolicy(slide, settings.bounds, _offset(settings, settings.length, slide))


def _offset(settings: WindowSettings, length: Duration | Count | None, slide: Duration) -> Duration:
    """Returns the offset of the ends of aligned windows from the multiples of the slide."""
    if settings.aligned is Aligned.ENDS or not isinstance(length, Duration):
        return Duration(settings.offset.micros % slide.micros)
    return Duration((settings.offset.micros + length.micros) % slide.micros)
