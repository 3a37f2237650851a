"""The column "resumes" of docs/settings.md: a changed setting is refused on a checkpoint exactly where it says so."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import product
from typing import TypeAlias

from policies.choose_policies import closes_after_end
from policies.storm import TimeTriggerPolicy
from tests.helpers.examples import every, with_all
from tests.topologies.compose import test_every_setting as walk
from topologies.checkpoints.topology_fit import differences
from topologies.graph.bolt_rules import TopologyRules
from topologies.graph.graph import WindowedNode
from topologies.topology import Topology
from windbolt import TopologyBuilder, spouts
from windowing import AggregateBolt, Count, TopologyError, WindowedBolt, seconds
from windowing.aggregates import count
from windowing.durations import Duration
from windowing.errors import ConfigError
from windowing.settings import DECLARED
from windowing.settings.rules import Arrival, LateBy
from windowing.settings.triggers import CountTrigger, RuleTrigger

Put: TypeAlias = Callable[[WindowedBolt], WindowedBolt]
Pair: TypeAlias = tuple[WindowedNode, WindowedNode, bool]
"""A bolt before and after a change, and whether a checkpoint is refused for it."""


def _parted(bolt: WindowedBolt) -> WindowedBolt:
    return bolt.with_timestamp_field("ts").with_watermark(partition="part")


BY_HAND: dict[str, list[tuple[Put, Put]]] = {
    "timestamp_field": [(lambda b: b.with_timestamp_field("ts"), lambda b: b.with_timestamp_field("at"))],
    "processing_time": [
        (lambda b: b, lambda b: b.with_time(processing=True)),
        (lambda b: b.with_timestamp_field("ts"), lambda b: b.with_time(processing=True)),
    ],
    "default_time": [
        (lambda b: b, lambda b: b.with_time(default_time="the record's")),
        (lambda b: b.with_time(default_time="the record's").with_lateness(arrival=Arrival("at", late="4s")),
         lambda b: b.with_time(default_time="the arrival").with_lateness(arrival=Arrival("at", late="4s"))),
    ],
    "watermark_interval": [
        (lambda b: b.with_timestamp_field("ts").with_watermark_interval("9s"),
         lambda b: b.with_timestamp_field("ts").with_watermark_interval("5s")),
    ],
    "idle_timeout": [
        (lambda b: b.with_timestamp_field("ts").with_watermark(idle_timeout="9s"),
         lambda b: b.with_timestamp_field("ts").with_watermark(idle_timeout="5s")),
    ],
    "watermark_imports": [
        (lambda b: b.with_timestamp_field("ts"),
         lambda b: b.with_timestamp_field("ts").with_watermark(imports={"s0": "s1"})),
    ],
    "watermark_imports_beside": [
        (lambda b: b.with_timestamp_field("ts").with_watermark(imports={"s0": "s1"}),
         lambda b: b.with_timestamp_field("ts").with_watermark(imports={"s0": "s1"}, imports_beside=True)),
    ],
    "longest_window": [(lambda b: b, lambda b: b.with_alignment(longest_window="99s"))],
    "window_bytes": [(lambda b: b, lambda b: b.with_limits(window_bytes=99))],
    "call_time": [(lambda b: b, lambda b: b.with_limits(call_time="99s"))],
    "expired": [
        (put, lambda b, put=put: put(b).with_policies(expired=True))  # type: ignore[misc]
        for put in (lambda b: b, lambda b: b.with_key("user"))
    ],
    "trigger": [
        (lambda b: b.with_policies(trigger=TimeTriggerPolicy(seconds(3))),
         lambda b: b.with_policies(trigger=TimeTriggerPolicy(seconds(2)))),
    ],
    "key_trigger": [
        (lambda b: b.with_key("user").with_trigger(CountTrigger(Count(2))),
         lambda b, to=to: b.with_key("user").with_trigger(to))  # type: ignore[misc]
        for to in (CountTrigger(Count(3)), RuleTrigger(lambda *_: None, seconds(1)))
    ],
    "refused_stream": [
        (lambda b: b.with_key("user").with_trigger(RuleTrigger(lambda *_: None, seconds(1))),
         lambda b: b.with_key("user").with_trigger(RuleTrigger(lambda *_: None, seconds(1)), refused_stream="no")),
    ],
    "capacity": [
        (lambda b: b.with_key("user").with_trigger(CountTrigger(Count(9))),
         lambda b: b.with_key("user").with_trigger(CountTrigger(Count(9)), max_bytes=500)),
    ],
    "late_per_input": [
        (_parted, lambda b: _parted(b).with_lateness(per_input=True)),
    ],
    "watermark_combine": [
        (lambda b: _parted(b).with_lateness(per_input=True),
         lambda b: _parted(b).with_lateness(per_input=True).with_watermark(combine="max")),
    ],
    "partition_idle_timeout": [
        (lambda b: b.with_timestamp_field("ts").with_lateness(per_input=True),
         lambda b: b.with_timestamp_field("ts").with_lateness(per_input=True).with_watermark(
             partition_idle_timeout="2s")),
    ],
}  # fmt: skip
"""Changes besides those of the walk over every setting, by the setting that changes."""


def _overlaps(node: WindowedNode) -> bool:
    length, slide = node.bolt.settings.length, node.bolt.settings.slide
    return isinstance(length, Duration) and isinstance(slide, Duration) and slide < length


def _timed(node: WindowedNode) -> bool:
    length, slide = node.bolt.settings.length, node.bolt.settings.slide
    return isinstance(length, Duration) and isinstance(slide, Duration)


def _given(name: str, before: WindowedNode, after: WindowedNode) -> bool:
    """Whether only one of the two has a value other than the default."""
    default = DECLARED[name].default
    return (getattr(before.bolt.settings, name) == default) != (getattr(after.bolt.settings, name) == default)


def _stored(before: WindowedNode, after: WindowedNode) -> bool:
    """Whether windows are stored otherwise: as events of a queue, or as the live events of assigners."""
    return bool(before.assigners) != bool(after.assigners)


SUMS = "not between none and some, for an `AggregateBolt` that keeps partial results in place of events"
STORED = "not if windows are then stored otherwise: "
JOINS = "for a join with `outputs`, which keeps all columns with it"
"""No bolt of the walk is a join: tests/windowing/bolts/test_window_join.py shows it."""
WORDS: dict[str, Callable[[str, WindowedNode, WindowedNode], bool]] = {
    "not between event time and processing time": lambda _, old, new: old.event_time != new.event_time,
    "not between none and some": _given,
    f"not between none and some, {JOINS}": lambda _, __, ___: False,
    f"`max_bytes` not between none and some, {JOINS}": lambda _, __, ___: False,
    "the same class only": lambda name, old, new: type(_policy(old, name)) is not type(_policy(new, name)),
    SUMS: lambda name, old, new: _given(name, old, new) and old.partial_sums is not None,
    f"the same class only; {SUMS}":
        lambda name, old, new: type(_policy(old, name)) is not type(_policy(new, name))
        or (old.partial_sums is None) != (new.partial_sums is None),
    "not with a key, nor for sessions and other kinds of window": lambda _, old, __: bool(old.assigners),
    f"{STORED}overlapping ones, between none and some":
        lambda name, old, new: _stored(old, new) and _given(name, old, new) and _overlaps(new),
    f"{STORED}overlapping ones, with lateness per input":
        lambda _, old, new: _stored(old, new) and _overlaps(new)
        and any(each.bolt.settings.late_per_input for each in (old, new)),
    f"{STORED}those of a length in time, between none and some":
        lambda name, old, new: _stored(old, new) and _given(name, old, new) and _timed(new),
    f"{STORED}those of a length in time, and those of an `AggregateBolt` that keeps partial results, "
    "between none and some":
        lambda name, old, new: _given(name, old, new)
        and ((_stored(old, new) and _timed(new)) or (old.partial_sums is None) != (new.partial_sums is None)),
    f"{STORED}overlapping ones, and those that close after their end":
        lambda _, old, new: _stored(old, new)
        and (_overlaps(new) or any(closes_after_end(each.bolt.settings, event_time=True) for each in (old, new))),
    f"{STORED}overlapping ones, and those with lateness by window":
        lambda _, old, new: _stored(old, new) and (_overlaps(new) or new.bolt.settings.late_by is LateBy.WINDOW),
}  # fmt: skip
"""What each text in the column says, as a test of a bolt before and after a change."""


def _policy(node: WindowedNode, name: str) -> object:
    return getattr(node.bolt.settings, name) if name == "key_trigger" else getattr(node, name)


def is_refused(name: str, before: WindowedNode, after: WindowedNode) -> bool:
    """Whether, by the words of the page, a checkpoint is refused for a change of this setting."""
    resumes = DECLARED[name].resumes
    return not resumes if isinstance(resumes, bool) else WORDS[resumes](name, before, after)


def test_a_changed_setting_is_refused_exactly_where_the_page_says_so() -> None:
    otherwise = []
    for name, found in pairs().items():
        resumes = DECLARED[name].resumes
        otherwise += [
            f"{name}, {'refused' if refused else 'resumes'}: {before.bolt.settings}, then {after.bolt.settings}"
            for before, after, refused in found
            if refused != is_refused(name, before, after)
        ]
        of_joins = isinstance(resumes, str) and resumes.endswith(JOINS)
        said = {False} if of_joins else {True, False} if isinstance(resumes, str) else {not resumes}
        came = {refused for *_, refused in found}
        if came != said if with_all() else not came <= said:
            otherwise.append(f"{name}: of refused and resumed came {came}, the page says {said}")
    assert not otherwise, "\n".join(otherwise)


KINDS = list(walk.KINDS) if with_all() else ["session"]
"""The kinds of windows on which every setting is changed."""


def pairs() -> dict[str, list[Pair]]:
    """By setting, bolts that can be built without a change and with it, and have other settings then."""
    found: dict[str, list[Pair]] = {name: [] for name in DECLARED}
    for bolt in (walk.Told, lambda: AggregateBolt(n=count())):
        for names, before, after in walked(bolt, KINDS):
            was, now = before.windowed["bolt"], after.windowed["bolt"]
            if was.bolt.settings != now.bolt.settings:
                refused = any(
                    "bolt 'bolt'" in text for text in differences(TopologyRules.of(before), TopologyRules.of(after))
                )
                for name in names:
                    found.setdefault(name, []).append((was, now, refused))
    return found


def walked(
    bolt: Callable[[], WindowedBolt], kinds: Iterable[str] = walk.KINDS
) -> Iterator[tuple[tuple[str, ...], Topology, Topology]]:
    """Yields topologies that can be built without a change and with it, and the settings that it changes."""
    bases = (walk.Base(*each) for each in product(kinds, walk.PRESETS, (False, True)))
    for base, setting in list(product(bases, walk.SETTINGS))[:: every(5)]:
        before = walk.without(base, setting, bolt) if setting.of in ("", base.system) else None
        if before is not None:
            with suppress(TopologyError, ConfigError):
                yield setting.rules, before, walk.built(base, setting, with_it=True, bolt=bolt)
    for name, changes in BY_HAND.items():
        for (was, now), kind in product(changes, (*(walk.KINDS[kind] for kind in kinds), lambda bolt: bolt)):
            try:
                log = name == "default_time"
                yield (name,), _topology(was(kind(bolt())), log=log), _topology(now(kind(bolt())), log=log)
            except (TopologyError, ConfigError):
                continue


def _topology(bolt: WindowedBolt, *, log: bool) -> Topology:
    """A topology of one bolt that reads two inputs; ``log``: of Kafka, whose records have times."""
    builder = TopologyBuilder("walk")
    declared = builder.set_bolt("bolt", bolt)
    for name in ("s0", "s1"):
        builder.set_spout(name, spouts.kafka("broker:9092", name, walk.COLUMNS) if log else spouts.memory(walk.COLUMNS))
        declared.global_grouping(name)
    return builder.build()
