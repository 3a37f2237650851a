"""Windows without events: of keys that are known, by a time that moves on without them."""

from __future__ import annotations

from collections.abc import Iterator

from topologies.compose.checks.checked_bolt import CheckedBolt
from topologies.compose.effects import shortest_slide
from topologies.graph.nodes.listed_rows import ListedRows
from topologies.graph.streams import stream_label
from windowing.errors import ConfigError

MOST = 1_000_000
"""How many windows without events of one key may follow each other."""


def empty_windows(bolt: CheckedBolt) -> Iterator[ConfigError]:
    """What does not go with windows that fire without events; for some kinds of windows they have no effect."""
    settings, until = bolt.settings, bolt.settings.empty_windows_until
    slide = shortest_slide(settings)
    if until is None or slide is None:
        return
    has = "with_empty_windows"
    yield from bolt.exclusions(
        has,
        {"with_watermark(per_key=True)": settings.watermark_per_key},
        "a silent key has a watermark that stands still, so none of its windows would ever be over without events",
    )
    yield from bolt.exclusions(
        has, {"with_lifetime": settings.lifetime is not None}, "windows then hold events that came long before them"
    )
    yield from bolt.exclusions(
        has, {"with_trigger(Panes(...))": settings.panes is not None}, "panes fire when something has changed"
    )
    yield from _listed(bolt)
    if until.micros // slide.micros > MOST:
        yield bolt.fault(
            f"has {has}(until='{until}'), and a slide of {slide}",
            f"a key that falls silent would fire {until.micros // slide.micros:,} empty windows; "
            f"at most {MOST:,} are allowed",
            "shorten until=, or slide by more",
        )
    if bolt.rows_are_of_events:
        yield bolt.fault(
            f"has {has}, and rows that are made of events",
            "for a window without events it would emit nothing",
            "remove it, or use a bolt that says something about empty windows, such as an AggregateBolt",
        )
    elif bolt.groups_by and not set(bolt.groups_by) <= set(settings.key):
        yield bolt.fault(
            f"groups events by {', '.join(bolt.groups_by)}, and has {has}",
            "a window without events has no groups; only a key is known without events",
            f"call with_key({', '.join(map(repr, bolt.groups_by))}), so that each has windows of its own",
        )


def _listed(bolt: CheckedBolt) -> Iterator[ConfigError]:
    """The keys that a user lists have the columns of the key."""
    listed, key = bolt.settings.listed_keys, bolt.settings.key
    if listed is None:
        return
    if not key:
        yield bolt.fault(
            "lists keys in with_empty_windows, and has no key", "keys are values of its columns", "call with_key"
        )
        return
    for each, schema in bolt.inputs:
        if set(key) <= set(schema.names):
            try:
                ListedRows.of(listed, key, schema)
            except ConfigError as error:
                yield bolt.fault(f"reads {stream_label(each.stream)!r}: {error.what}", error.why, error.do)
