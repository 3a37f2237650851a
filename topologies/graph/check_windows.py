"""Checks of a windowed bolt's windows: their kinds, when they fire, and whether they fire without events."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from policies.protocol import EvictionPolicy, Policy, is_custom, overrides
from topologies.graph.declarations import how_to_have
from topologies.graph.effects import Situation, shortest_slide
from topologies.graph.graph import KEY_RECORD_COLUMNS, RETRACTION_COLUMNS, Input, stream_label
from topologies.graph.groupings import ListedRows
from windowing.durations import Count, Duration
from windowing.errors import ConfigError, did_you_mean_column
from windowing.settings.kinds import Session
from windowing.settings.panes import RETRACT, PaneMode
from windowing.settings.rules import Bounds, LateAction, LateBy, OutputTime

if TYPE_CHECKING:
    from windowing.settings import WindowSettings


# A windowed bolt in the form that the checks need.


@dataclass(frozen=True, kw_only=True)
class CheckedBolt:
    """A windowed bolt with all that the checks of its settings need."""

    name: str
    settings: WindowSettings
    inputs: Sequence[tuple[Input, pa.Schema]] = ()
    """The streams that it reads, with their columns."""
    brings_time: Sequence[bool] = ()
    """For each input, True if it brings the watermark of a windowed bolt; other inputs bring events from outside."""
    outputs: Sequence[pa.Schema] = ()
    """Columns of the rows that it emits."""
    parallelism: int = 1
    event_time: bool
    groups_by: tuple[str, ...] | None = None
    """The columns by which it groups its events; empty if it does not group them."""
    rows_are_of_events: bool = False
    """True if it emits nothing for a window without events."""
    takes_retractions: bool = True
    """True if the bolt handles retractions from the bolts before."""
    asks_for_expired: bool = False
    """True if its settings or its code use the expired events of windows."""
    source_has_partitions: bool = False
    """True if a source behind its inputs has partitions of its own."""
    parallel_windows: bool = False
    """True if several windows of a task may fire at the same time."""
    stateful: bool = False
    """True if a window gets the state of the windows before it."""
    join_keys: Mapping[str, tuple[str, ...]] | None = None
    """For a join, the key columns of each input, by its name."""

    @property
    def is_temporal_join(self) -> bool:
        """True for a temporal join, whose key is also the key of the bolt."""
        return self.join_keys is not None and any(kind.of_temporal_join for kind in self.settings.kinds)

    @property
    def situation(self) -> Situation:
        """Returns the facts that decide which settings have an effect."""
        reads_outside_events = not self.brings_time or not all(self.brings_time)
        return Situation(
            self.settings, self.event_time, len(self.inputs), self.source_has_partitions, reads_outside_events
        )

    @property
    def outside_inputs(self) -> list[tuple[Input, pa.Schema]]:
        """The streams of ``inputs`` that bring events from outside."""
        brings_time = self.brings_time or [False] * len(self.inputs)
        return [each for each, has_time in zip(self.inputs, brings_time, strict=True) if not has_time]

    @property
    def labels(self) -> list[str]:
        """The names of the streams that it reads."""
        return [stream_label(each.stream) for each, _ in self.inputs]

    def error(self, what: str, why: str, do: str) -> ConfigError:
        """Returns an error about this bolt."""
        return ConfigError(f"bolt {self.name!r}: {what}", why=why, do=do)

    def exclusion_errors(self, setting: str, others: Mapping[str, bool], why: str) -> Iterator[ConfigError]:
        """Yields an error for each setting in ``others`` that is set, because this setting excludes it."""
        for call, is_set in others.items():
            if is_set:
                yield self.error(f"has {setting}, and {call}", why, "leave one of the two out")

    def errors_of_column(
        self,
        call: str,
        field: str,
        fits: Callable[[pa.DataType], bool] = lambda kind: True,
        expected: str = "",
        *,
        everywhere: bool = False,
        inputs: Sequence[tuple[Input, pa.Schema]] | None = None,
    ) -> Iterator[ConfigError]:
        """Checks that a column named in a call is in one input, or ``everywhere`` in all inputs, and has a type that
        fits. ``inputs``: the inputs to check, if not all."""
        is_in_an_input = False
        for each, schema in self.inputs if inputs is None else inputs:
            label = stream_label(each.stream)
            if field in schema.names:
                is_in_an_input = True
                kind = schema.field(field).type
                if not fits(kind):
                    yield self.error(
                        f"{call} names {field!r}, which is {kind} in {label!r}",
                        f"it must be {expected}",
                        "name another column",
                    )
            elif everywhere:
                yield self.error(
                    f"{call} names {field!r}{did_you_mean_column(field, schema.names)}",
                    f"{label!r} has {', '.join(schema.names)}",
                    how_to_have(field, "name columns of every input"),
                )
        if not is_in_an_input and not everywhere:
            columns = "; ".join(f"{stream_label(each.stream)!r} has {', '.join(s.names)}" for each, s in self.inputs)
            suggestion = did_you_mean_column(field, [name for _, schema in self.inputs for name in schema.names])
            yield self.error(
                f"{call} names {field!r}{suggestion}", columns, how_to_have(field, "name a column of an input")
            )


# Kinds of windows, and settings that conflict with them.


def _leaves_out_its_end(settings: WindowSettings) -> bool:
    """True if a window never holds an event exactly at its end."""
    if settings.key_trigger is not None:
        return False
    if settings.kinds:
        # Ready bolts choose the times of rows that they emit at moments.
        return all(kind.bounds(settings.bounds) is Bounds.START and not kind.of_moments for kind in settings.kinds)
    return settings.bounds is Bounds.START and isinstance(settings.slide, Duration)


def window_errors(bolt: CheckedBolt) -> Iterator[ConfigError]:
    """Checks that the kinds of windows fit the other settings."""
    for check in _CHECKS:
        yield from check(bolt)


def _promised_end_errors(bolt: CheckedBolt) -> Iterator[ConfigError]:
    """Yields an error if rows have the start of their window as time while the watermark of the next bolt follows the
    ends of windows: the rows would be late there."""
    settings = bolt.settings
    ends_promised = settings.output_watermark is OutputTime.END
    if settings.output_time is OutputTime.START and ends_promised and bolt.event_time:
        yield bolt.error(
            "emits rows at the start of windows, and promises the next bolt a watermark that follows their ends",
            "the rows would be late at the next bolt",
            "leave out output_watermark, or use with_time(output_time='window end')",
        )


def _last_microsecond_errors(bolt: CheckedBolt) -> Iterator[ConfigError]:
    """Yields an error for rows at the last microsecond of windows that hold their end."""
    settings = bolt.settings
    if settings.output_time is OutputTime.LAST and bolt.event_time and not _leaves_out_its_end(settings):
        yield bolt.error(
            "emits rows at the last microsecond before the end of windows that hold their end",
            "such a window ends with its end, which is the time that its rows have anyway",
            "use with_alignment(bounds='[start, end)'), or leave output_time='window last' out",
        )


def _moving_start_errors(bolt: CheckedBolt) -> Iterator[ConfigError]:
    """Yields an error for rows at the start of windows, if late events move that start."""
    settings = bolt.settings
    emits_at_start = settings.output_time is OutputTime.START and settings.late_by is LateBy.WINDOW and bolt.event_time
    if emits_at_start and any(kind.merges or kind.between_edges for kind in settings.kinds):
        yield bolt.error(
            "emits rows at the start of windows that late events can still extend backwards",
            "the next bolt could get no watermark, or the rows would be late there",
            "use with_time(output_time='window end'), or with_lateness(by='watermark')",
        )


def _gap_errors(bolt: CheckedBolt) -> Iterator[ConfigError]:
    """Yields an error if a bolt combines several kinds of sessions, and each event has a gap of its own."""
    sessions = [kind for kind in bolt.settings.kinds if isinstance(kind, Session)]
    if len(sessions) > 1 and any(kind.gap_field is not None for kind in sessions):
        yield bolt.error(
            "has several kinds of sessions with a gap_field",
            "each event has one gap, which all kinds would use",
            "give each kind a bolt of its own",
        )


def _edge_errors(bolt: CheckedBolt) -> Iterator[ConfigError]:
    """Yields an error for each rule of a system without edges, if events of the bolt are edges."""
    settings = bolt.settings
    if settings.lifetime is None or settings.lifetime.shape_field is None:
        return
    others = {
        "no event times": not bolt.event_time,
        "with_watermark(per_key=True)": settings.watermark_per_key,
        "with_watermark(idle_timeout=...)": settings.idle_timeout is not None,
        "with_lateness(by='window')": settings.late_by is LateBy.WINDOW,
    }
    why = "until its end edge has come, only the watermark of all edges says which windows an event is in"
    yield from bolt.exclusion_errors("edges", others, why)


def _adjusted_lifetime_errors(bolt: CheckedBolt) -> Iterator[ConfigError]:
    """Yields an error for events with a lifetime, if late ones would be moved past their end."""
    settings, arrival = bolt.settings, bolt.settings.arrival
    by_arrival = arrival is not None and arrival.late is not None and arrival.action is LateAction.ADJUST
    adjusts = settings.late_action is LateAction.ADJUST or by_arrival
    if settings.lifetime is not None and adjusts and bolt.event_time:
        yield bolt.error(
            "has events that last, and adjusts late ones",
            "a lifetime would end before it begins",
            "use with_lateness(action='cut'), which lets late events begin later, or drop or divert them",
        )


def _too_long_errors(bolt: CheckedBolt) -> Iterator[ConfigError]:
    """Yields an error for windows longer than the system of the preset allows (AZ-19)."""
    settings, most = bolt.settings, bolt.settings.longest_window
    lengths = [settings.length, *(kind.declared_length for kind in settings.kinds)]
    for length in dict.fromkeys(each for each in lengths if isinstance(each, Duration)):
        if most is not None and length > most:
            yield bolt.error(
                f"has windows of {length}",
                f"the longest window allowed here is {most}",
                "make them shorter, or lift the limit: with_alignment(longest_window=None)",
            )


def _kind_errors(bolt: CheckedBolt) -> Iterator[ConfigError]:
    """Yields errors for kinds of windows that do not fit the events or the other settings."""
    settings = bolt.settings
    for kind in settings.kinds:
        if settings.lifetime is not None and kind.of_points:
            yield bolt.error(
                f"has events that last, and {type(kind).__name__} windows",
                "these windows need points in time",
                "leave with_lifetime out, or use snapshot, hopping or calendar windows",
            )
        if settings.lifetime is not None and kind.between_edges and settings.bounds is Bounds.END:
            yield bolt.error(
                "has snapshots of events that last, with bounds (start, end]",
                "a lifetime holds its start and not its end",
                "use with_alignment(bounds='[start, end)')",
            )
        if isinstance(kind, Session) and kind.gap_field is not None and kind.max_duration is not None:
            yield bolt.error(
                "has sessions with a gap for each event and a maximum duration",
                "there is no rule for where such a session would be cut",
                "leave one of the two out",
            )


def _anchor_errors(bolt: CheckedBolt) -> Iterator[ConfigError]:
    """Yields an error for an anchor of windows that are not counted from an anchor."""
    kinds = bolt.settings.kinds
    if bolt.settings.anchor is not None and kinds and not any(kind.takes_offset for kind in kinds):
        yield bolt.error(
            "has an anchor, and no aligned windows", "only aligned windows are counted from an anchor", "remove it"
        )


_CHECKS = (
    _promised_end_errors, _last_microsecond_errors, _moving_start_errors, _gap_errors, _edge_errors,
    _adjusted_lifetime_errors, _too_long_errors, _kind_errors, _anchor_errors,
)  # fmt: skip
"""The checks, in the order in which their mistakes are reported."""


# Other rules that decide when windows fire: panes, users' policies, triggers of keys.


def pane_errors(bolt: CheckedBolt) -> Iterator[ConfigError]:
    """Yields errors for settings that conflict with windows that fire more than once."""
    settings, panes = bolt.settings, bolt.settings.panes
    if panes is None:
        return
    if any(not (kind.edges_known or kind.merges) for kind in settings.kinds):
        yield bolt.error(
            "has panes on windows that change with every event",
            "snapshots, sliding logs and counts fire when they are complete",
            "use hopping, calendar or session windows with with_trigger(Panes(...))",
        )
    if len(settings.kinds) > 1 and any(kind.merges for kind in settings.kinds):
        yield bolt.error(
            "has panes, and sessions besides other windows",
            "which events are new to a session would depend on the firings of the others",
            "give the sessions a bolt of their own",
        )
    if any(isinstance(kind, Session) and kind.max_duration is not None for kind in settings.kinds):
        yield bolt.error(
            "has panes, and sessions with a max_duration",
            "a late event may cut a session elsewhere after it has fired, and its rows would be of none that there is",
            "leave one of the two out",
        )
    if settings.lifetime is not None:
        yield bolt.error(
            "has panes, and events that last",
            "a long event is in many future windows, and all of them would fire early",
            "leave one of the two out",
        )
    if panes.late is not None and bolt.event_time and not settings.allowed_lateness.micros:
        yield bolt.error(
            "has panes for late events, but allows no lateness",
            "without it a window takes no events after its end",
            "give with_lateness(by='window', allowed=...)",
        )
    if panes.mode is PaneMode.RETRACTING:
        yield from _retracting_pane_errors(bolt)
    if panes.closes:
        yield from _closing_pane_errors(bolt)


def _closing_pane_errors(bolt: CheckedBolt) -> Iterator[ConfigError]:
    """Yields errors for windows that close with their first firing, so that later events are late."""
    settings = bolt.settings
    if not bolt.event_time:
        yield bolt.error(
            "has panes that close their windows, and no event times",
            "what comes to a closed window is late, and in processing time no event is",
            "call with_timestamp_field, or use with_key and with_trigger(CountTrigger(...)) for windows by the clock",
        )
    if any(kind.merges for kind in settings.kinds):
        yield bolt.error(
            "has panes that close their windows, and sessions",
            "a later event would extend a session that has been closed, or merge it with another",
            "use hopping or calendar windows, or leave closes= out",
        )
    if settings.late_action in (LateAction.ADJUST, LateAction.CUT, LateAction.ERROR) and bolt.event_time:
        yield bolt.error(
            f"has panes that close their windows, and is to {settings.late_action.value} late events",
            "they are late for a window that a trigger has closed, and no time of theirs would be in time",
            "divert or drop them: with_lateness(action='divert')",
        )


def _retracting_pane_errors(bolt: CheckedBolt) -> Iterator[ConfigError]:
    """Yields errors for panes that take rows back, if the bolt's columns or sessions do not allow it."""
    added_columns = (RETRACT, *RETRACTION_COLUMNS)
    reserved = dict.fromkeys(column for schema in bolt.outputs for column in schema.names if column in added_columns)
    if reserved:
        yield bolt.error(
            f"emits columns {list(reserved)}",
            "it may retract its rows, and windbolt adds columns of these names to them",
            "rename them",
        )


def expired_errors(bolt: CheckedBolt) -> Iterator[ConfigError]:
    """Yields an error for a bolt that uses expired events, if its windows have no previous window (ST-21)."""
    settings = bolt.settings
    if not bolt.asks_for_expired or settings.follow_each_other:
        return
    windows_in_words = (
        "Panes, whose windows fire more than once and in turns" if settings.panes is not None
        else "with_trigger, whose windows are cleared when they have fired" if settings.key_trigger is not None
        else "several kinds of window, which fire in turns"
    )  # fmt: skip
    yield bolt.error(
        f"uses window.expired, and has {windows_in_words}",
        "expired events were in the previous window, and such windows have none",
        "do not use window.expired; or call with_policies(expired=False), if `expired` means something else",
    )


def parallel_window_errors(bolt: CheckedBolt) -> Iterator[ConfigError]:
    """Yields errors for ``parallel_windows`` if it is neither True nor False, or the bolt has a state."""
    if not isinstance(bolt.parallel_windows, bool):
        yield bolt.error(
            f"has parallel_windows = {bolt.parallel_windows!r:.60}", "it is a yes or a no", "write True or False"
        )
    elif bolt.parallel_windows and bolt.stateful:
        yield bolt.error(
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
"""Features that cannot be combined with a user's policy: a test for the feature, and the reason. Message ids have their
own check; all other settings, joins, aggregates and states of bolts are allowed."""


def policy_errors(bolt: CheckedBolt) -> Iterator[ConfigError]:
    """Yields errors for features that conflict with a user's policy, and for columns that the policy reads and inputs
    lack."""
    if bolt.settings.eviction is None and bolt.settings.trigger is None:
        return
    for feature, (has_feature, why) in NOT_WITH_A_POLICY.items():
        if has_feature(bolt):
            yield from bolt.exclusion_errors("a policy of its own", {feature: True}, why)
    yield from _own_policy_errors(bolt)
    for policy in (bolt.settings.eviction, bolt.settings.trigger):
        if isinstance(policy, Policy):
            try:
                names = sorted(policy.columns_read or ())
            except ConfigError as error:
                yield error
                continue
            for name in names:
                yield from bolt.errors_of_column(f"{type(policy).__name__}.reads", name)


def _own_policy_errors(bolt: CheckedBolt) -> Iterator[ConfigError]:
    """Yields errors for key columns that cannot be stored, and for rows timed at the start of windows whose start is
    not known in advance."""
    settings, eviction = bolt.settings, bolt.settings.eviction
    yield from _reserved_key_errors(bolt, "policies")
    if eviction is not None and settings.trigger is not None and settings.length is not None:
        yield bolt.error(
            "has an eviction and a trigger of its own, and with_window",
            "the two policies say which events a window holds and when it fires, so a length and a slide would do "
            "nothing",
            "leave with_window out, or give one policy only",
        )
    elif settings.trigger is not None and settings.slide != Count(1):
        yield bolt.error(
            f"has with_policies(trigger=...), and windows every {settings.slide}",
            "the trigger says when a window fires, so a slide, which `with_tumbling_window` has too, would do nothing",
            "give the length alone: with_window(length)",
        )
    emits_at_start = settings.output_time is OutputTime.START and bolt.event_time
    if (
        emits_at_start
        and isinstance(eviction, EvictionPolicy)
        and is_custom(eviction)
        and overrides(eviction, "window_start")
    ):
        yield bolt.error(
            f"emits rows at the start of windows, and {type(eviction).__name__} says itself where these begin",
            "how far back that is is not known before, so the rows could be late for the next bolt",
            "give the policy a `reach` instead of `window_start`, or use with_time(output_time='window end')",
        )


def _reserved_key_errors(bolt: CheckedBolt, what: str) -> Iterator[ConfigError]:
    reserved = [column for column in bolt.settings.key if column in KEY_RECORD_COLUMNS]
    if reserved:
        yield bolt.error(
            f"has {what}, and a key with the columns {reserved}",
            "windbolt keeps columns of these names beside those of the key",
            "rename them in a bolt before it",
        )


def key_trigger_errors(bolt: CheckedBolt) -> Iterator[ConfigError]:
    """Yields errors for rules that conflict with a trigger of keys, which decides alone when windows fire (UH-4)."""
    settings = bolt.settings
    if settings.key_trigger is None:
        return
    if not settings.key:
        yield bolt.error("has a trigger but no key", "a trigger has windows for each key", "call with_key")
    yield from _reserved_key_errors(bolt, "a trigger")
    for field in () if settings.capacity is None else settings.capacity.columns:
        yield from bolt.errors_of_column("with_trigger(bytes_of=...)", field, everywhere=True)
    if bolt.event_time:
        yield bolt.error(
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
    yield from bolt.exclusion_errors("a trigger", others, "the trigger alone decides when its windows fire")


# Windows without events fire for known keys, as time advances.


MOST_EMPTY_WINDOWS = 1_000_000
"""Most windows without events that may follow each other for one key."""


def empty_window_errors(bolt: CheckedBolt) -> Iterator[ConfigError]:
    """Yields errors for settings that conflict with ``with_empty_windows``; none if the bolt's windows are not at
    regular times, so that it has no effect."""
    settings, until = bolt.settings, bolt.settings.empty_windows_until
    slide = shortest_slide(settings)
    if until is None or slide is None:
        return
    call = "with_empty_windows"
    yield from bolt.exclusion_errors(
        call,
        {"with_watermark(per_key=True)": settings.watermark_per_key},
        "a silent key has a watermark that stands still, so none of its windows would ever be over without events",
    )
    yield from bolt.exclusion_errors(
        call, {"with_lifetime": settings.lifetime is not None}, "windows then hold events that came long before them"
    )
    yield from bolt.exclusion_errors(
        call, {"with_trigger(Panes(...))": settings.panes is not None}, "panes fire when something has changed"
    )
    yield from _listed_key_errors(bolt)
    if until.micros // slide.micros > MOST_EMPTY_WINDOWS:
        yield bolt.error(
            f"has {call}(until='{until}'), and a slide of {slide}",
            f"a key that falls silent would fire {until.micros // slide.micros:,} empty windows; "
            f"at most {MOST_EMPTY_WINDOWS:,} are allowed",
            "shorten until=, or slide by more",
        )
    if bolt.rows_are_of_events:
        yield bolt.error(
            f"has {call}, and rows that are made of events",
            "for a window without events it would emit nothing",
            "remove it, or use a bolt that says something about empty windows, such as an AggregateBolt",
        )
    elif bolt.groups_by and not set(bolt.groups_by) <= set(settings.key):
        yield bolt.error(
            f"groups events by {', '.join(bolt.groups_by)}, and has {call}",
            "a window without events has no groups; only a key is known without events",
            f"call with_key({', '.join(map(repr, bolt.groups_by))}), so that each has windows of its own",
        )


def _listed_key_errors(bolt: CheckedBolt) -> Iterator[ConfigError]:
    """Checks that listed keys have the columns of the bolt's key."""
    listed, key = bolt.settings.listed_keys, bolt.settings.key
    if listed is None:
        return
    if not key:
        yield bolt.error(
            "lists keys in with_empty_windows, and has no key", "keys are values of its columns", "call with_key"
        )
        return
    for each, schema in bolt.inputs:
        if set(key) <= set(schema.names):
            try:
                ListedRows.of(listed, key, schema)
            except ConfigError as error:
                yield bolt.error(f"reads {stream_label(each.stream)!r}: {error.what}", error.why, error.do)
