"""What else may decide when windows fire: panes, policies of the user's own, triggers of keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from policies.protocol import EvictionPolicy, Policy, is_own, overrides
from topologies.compose.checks.checked_bolt import CheckedBolt
from topologies.graph.inner_columns import RECORDED, RETRACTED
from windowing.errors import ConfigError
from windowing.settings.kinds import Session
from windowing.settings.panes import RETRACT, PaneMode
from windowing.settings.rules import LateAction, LateBy, OutputTime


def panes(bolt: CheckedBolt) -> Iterator[ConfigError]:
    """Windows that fire more than once."""
    settings, panes = bolt.settings, bolt.settings.panes
    if panes is None:
        return
    if any(not (kind.edges_known or kind.merges) for kind in settings.kinds):
        yield bolt.fault(
            "has panes on windows that change with every event",
            "snapshots, sliding logs and counts fire when they are complete",
            "use hopping, calendar or session windows with with_trigger(Panes(...))",
        )
    if len(settings.kinds) > 1 and any(kind.merges for kind in settings.kinds):
        yield bolt.fault(
            "has panes, and sessions besides other windows",
            "which events are new to a session would depend on the firings of the others",
            "give the sessions a bolt of their own",
        )
    if settings.lifetime is not None:
        yield bolt.fault(
            "has panes, and events that last",
            "a long event is in many future windows, and all of them would fire early",
            "leave one of the two out",
        )
    if panes.late is not None and bolt.event_time and not settings.allowed_lateness.micros:
        yield bolt.fault(
            "has panes for late events, but allows no lateness",
            "without it a window takes no events after its end",
            "give with_lateness(by='window', allowed=...)",
        )
    if panes.mode is PaneMode.RETRACTING:
        yield from _retracted(bolt)
    if panes.closes:
        yield from _closing(bolt)


def _closing(bolt: CheckedBolt) -> Iterator[ConfigError]:
    """Windows that their first firing closes: what comes afterwards is late."""
    settings = bolt.settings
    if not bolt.event_time:
        yield bolt.fault(
            "has panes that close their windows, and no event times",
            "what comes to a closed window is late, and in processing time no event is",
            "call with_timestamp_field, or use with_key and with_trigger(CountTrigger(...)) for windows by the clock",
        )
    if any(kind.merges for kind in settings.kinds):
        yield bolt.fault(
            "has panes that close their windows, and sessions",
            "a later event would extend a session that has been closed, or merge it with another",
            "use hopping or calendar windows, or leave closes= out",
        )
    if settings.late_action in (LateAction.ADJUST, LateAction.CUT, LateAction.ERROR) and bolt.event_time:
        yield bolt.fault(
            f"has panes that close their windows, and is to {settings.late_action.value} late events",
            "they are late for a window that a trigger has closed, and no time of theirs would be in time",
            "divert or drop them: with_lateness(action='divert')",
        )


def _retracted(bolt: CheckedBolt) -> Iterator[ConfigError]:
    """Rows that may be taken back are kept with their window, and marked."""
    own = (RETRACT, *RETRACTED)
    taken = dict.fromkeys(column for schema in bolt.outputs for column in schema.names if column in own)
    if taken:
        yield bolt.fault(
            f"emits columns {list(taken)}",
            "it may retract its rows, and windbolt adds columns of these names to them",
            "rename them",
        )
    panes = bolt.settings.panes
    cut = any(isinstance(kind, Session) and kind.max_duration is not None for kind in bolt.settings.kinds)
    if panes is not None and panes.at_end is not None and panes.on_time and cut:
        yield bolt.fault(
            "has panes with at_end= that take rows back, and sessions with a max_duration",
            "a late event may cut a session that has fired into parts too small to fire, so that nothing would take "
            "its rows back",
            "leave at_end= out, or use mode='accumulating', or sessions without max_duration",
        )


def expired(bolt: CheckedBolt) -> Iterator[ConfigError]:
    """What has expired is what was in the window before, so there must be one (ST-21)."""
    settings = bolt.settings
    if not bolt.asks_for_expired or settings.follow_each_other:
        return
    which = (
        "Panes, whose windows fire more than once and in turns" if settings.panes is not None
        else "with_trigger, whose windows are cleared when they have fired" if settings.key_trigger is not None
        else "several kinds of window, which fire in turns"
    )  # fmt: skip
    yield bolt.fault(
        f"uses window.expired, and has {which}",
        "expired events were in the previous window, and such windows have none",
        "do not use window.expired; or call with_policies(expired=False), if `expired` means something else",
    )


def parallel_windows(bolt: CheckedBolt) -> Iterator[ConfigError]:
    """Windows that are fired at the same time leave nothing behind for each other."""
    if not isinstance(bolt.parallel_windows, bool):
        yield bolt.fault(
            f"has parallel_windows = {bolt.parallel_windows!r:.60}", "it is a yes or a no", "write True or False"
        )
    elif bolt.parallel_windows and bolt.stateful:
        yield bolt.fault(
            "has parallel_windows, and a state",
            "a window would be fired before the one before it has left its state",
            "leave parallel_windows out, or keep no state",
        )


NOT_WITH_A_POLICY: Final[Mapping[str, tuple[Callable[[CheckedBolt], bool], str]]] = {
    "with_trigger": (
        lambda bolt: bolt.settings.panes is not None,
        "Panes fire a window before and after its end, and where a window of a policy ends is known when it fires",
    ),
    "with_lifetime": (
        lambda bolt: bolt.settings.lifetime is not None,
        "a policy is told of events at moments, and one that lasts would come and go",
    ),
    "with_empty_windows": (
        lambda bolt: bolt.settings.empty_windows_until is not None,
        "a window without events has an end that is known before, and a policy decides about the events that come",
    ),
    "with_alignment(anchor=...)": (
        lambda bolt: bolt.settings.anchor is not None,
        "a policy's windows do not begin at regular times; `every` and `offset` of a trigger say where its moments are",
    ),
    "another kind of window": (
        lambda bolt: bool(bolt.settings.kinds),
        "a kind of window says itself which events it holds and when it fires",
    ),
    "with_lateness(by='window')": (
        lambda bolt: bolt.settings.late_by is LateBy.WINDOW and bolt.event_time,
        "which window of a policy can still hold an event is not known before the policy has decided",
    ),
    "with_watermark(per_key=True)": (
        lambda bolt: bolt.settings.watermark_per_key,
        "the moments of a policy's keys pass together, by the watermark of the bolt",
    ),
    "with_watermark(idle_timeout=...)": (
        lambda bolt: bolt.settings.idle_timeout is not None and bolt.event_time,
        "it closes windows whose ends are known; let an input that is silent no longer hold the watermark "
        "(partition_idle_timeout=), or ask for a moment (wake_at)",
    ),
}
"""What a policy of a user's own cannot be combined with: whether a bolt has it, and why not. Message ids have their own
check; all other settings, joins, aggregates and states of bolts are allowed."""


def policies(bolt: CheckedBolt) -> Iterator[ConfigError]:
    """What decides about windows besides a policy of the user's own."""
    if bolt.settings.eviction is None and bolt.settings.trigger is None:
        return
    for other, (has, why) in NOT_WITH_A_POLICY.items():
        if has(bolt):
            yield from bolt.exclusions("a policy of its own", {other: True}, why)
    yield from _of_own_policies(bolt)
    for policy in (bolt.settings.eviction, bolt.settings.trigger):
        if isinstance(policy, Policy):
            try:
                names = sorted(policy.columns_read or ())
            except ConfigError as error:
                yield error
                continue
            for name in names:
                yield from bolt.column(f"{type(policy).__name__}.reads", name, everywhere=True)


def _of_own_policies(bolt: CheckedBolt) -> Iterator[ConfigError]:
    """What windbolt could not keep of the keys, or promise the next bolt."""
    settings, eviction = bolt.settings, bolt.settings.eviction
    yield from _recorded(bolt, "policies")
    by_start = settings.output_time is OutputTime.START and bolt.event_time
    if by_start and isinstance(eviction, EvictionPolicy) and is_own(eviction) and overrides(eviction, "window_start"):
        yield bolt.fault(
            f"emits rows at the start of windows, and {type(eviction).__name__} says itself where these begin",
            "how far back that is is not known before, so the rows could be late for the next bolt",
            "give the policy a `reach` instead of `window_start`, or use with_time(output_time='window end')",
        )


def _recorded(bolt: CheckedBolt, what: str) -> Iterator[ConfigError]:
    taken = [column for column in bolt.settings.key if column in RECORDED]
    if taken:
        yield bolt.fault(
            f"has {what}, and a key with the columns {taken}",
            "windbolt keeps columns of these names beside those of the key",
            "rename them in a bolt before it",
        )


def key_trigger(bolt: CheckedBolt) -> Iterator[ConfigError]:
    """A trigger of keys leaves nothing for other rules to decide (UH-4)."""
    settings = bolt.settings
    if settings.key_trigger is None:
        return
    if not settings.key:
        yield bolt.fault("has a trigger but no key", "a trigger has windows for each key", "call with_key")
    yield from _recorded(bolt, "a trigger")
    for field in () if settings.capacity is None else settings.capacity.columns:
        yield from bolt.column("with_trigger(bytes_of=...)", field, everywhere=True)
    if bolt.event_time:
        yield bolt.fault(
            "has a trigger, and event times",
            "triggers of keys work in processing time",
            "call with_time(processing=True)",
        )
    others = {
        "with_trigger(Panes(...))": settings.panes is not None,
        "with_lifetime": settings.lifetime is not None,
        "with_alignment(anchor=...)": settings.anchor is not None,
        "a policy of its own": settings.eviction is not None or settings.trigger is not None,
        "with_watermark(per_key=True)": settings.watermark_per_key,
    }
    yield from bolt.exclusions("a trigger", others, "the trigger alone decides when its windows fire")
