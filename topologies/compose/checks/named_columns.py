"""The columns and streams that settings name: they are there, and of a type that fits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa

from topologies.compose.checks.checked_bolt import CheckedBolt
from topologies.graph.groupings import ShuffleGrouping
from topologies.graph.streams import stream_label
from windowing.errors import ConfigError
from windowing.settings.kinds import Session
from windowing.settings.panes import RETRACT
from windowing.settings.rules import NO_COLUMN
from windowing.time.durations import Count
from windowing.time.timestamps import is_time


def columns(bolt: CheckedBolt) -> Iterator[ConfigError]:
    """The columns that settings name are there, and of a type that fits."""
    settings = bolt.settings
    for field in () if bolt.temporal else settings.key:
        yield from bolt.column("with_key", field, everywhere=True)
    if settings.lifetime is not None:
        if settings.lifetime.end_field != NO_COLUMN:
            yield from bolt.column("with_lifetime", settings.lifetime.end_field, is_time, "a time")
        if settings.lifetime.shape_field is not None:
            yield from bolt.column("with_lifetime", settings.lifetime.shape_field, _is_text, "a text")
        for field in settings.lifetime.edge_key:
            yield from bolt.column("with_lifetime", field)
    if settings.arrival is not None and settings.arrival.field is not None:
        yield from bolt.column(
            "with_lateness(arrival=...)", settings.arrival.field, is_time, "a time",
            everywhere=True, inputs=bolt.outside,
        )  # fmt: skip
    if settings.watermark_field is not None:
        yield from bolt.column("with_watermark(field=...)", settings.watermark_field, is_time, "a time")
    if isinstance(settings.watermark_partition, str):
        yield from bolt.column("with_watermark(partition=...)", settings.watermark_partition)
    for kind in settings.kinds:
        if isinstance(kind, Session) and kind.gap_field is not None:
            yield from bolt.column("with_window(Session(...))", kind.gap_field, _is_span, "a number or a duration")


def retractions(bolt: CheckedBolt) -> Iterator[ConfigError]:
    """Rows that take others back are not counted as events."""
    retracting = [stream_label(each.stream) for each, schema in bolt.inputs if RETRACT in schema.names]
    if retracting and not bolt.takes_retractions:
        yield bolt.fault(
            f"reads {', '.join(map(repr, retracting))}, whose rows may take earlier ones back ({RETRACT})",
            "a ready bolt would count each of them as another event",
            "have the bolt before it fire each window once, or put a bolt of your own between them that heeds "
            f"{RETRACT}; an AggregateBolt may have {RETRACT} in its key",
        )


def imports(bolt: CheckedBolt) -> Iterator[ConfigError]:
    """Watermarks are imported from another input of the bolt (SI-15)."""
    imports = bolt.settings.watermark_imports or {}
    for taker, giver in imports.items():
        for label in (taker, giver):
            if label not in bolt.labels:
                yield bolt.fault(
                    f"imports the watermarks of {giver!r} for {taker!r}, but has no input {label!r}",
                    f"it reads {', '.join(bolt.labels)}",
                    "name one of these",
                )
        if giver in imports:
            yield bolt.fault(
                f"imports the watermarks of {giver!r}, which imports its own",
                "watermarks must be made by the input from which they are imported",
                "import from an input that makes watermarks",
            )
    if imports and bolt.event_time and bolt.situation.has_partitions:
        yield bolt.fault(
            "imports watermarks, and has one mark for each partition",
            "an input that takes the watermark of another has that one, and no marks of its own partitions",
            "call with_watermark(partition=None), so that each input has one mark, or leave imports= out",
        )
    if imports and bolt.event_time and bolt.settings.partition_idle_timeout is not None:
        yield bolt.fault(
            "imports watermarks, and has with_watermark(partition_idle_timeout=...)",
            "an input that is left out as silent has no watermark that another could take, and one that takes it holds "
            "nothing up by its own silence",
            "leave one of the two out",
        )


def partitions(bolt: CheckedBolt) -> Iterator[ConfigError]:
    """Partitions that are said to exist are those of an input that has the column (AT-20)."""
    settings = bolt.settings
    for label in settings.partitions if isinstance(settings.partitions, Mapping) else ():
        if label not in bolt.labels:
            yield bolt.fault(
                f"names partitions of {label!r}, but has no such input",
                f"it reads {', '.join(bolt.labels)}",
                "name one of these in with_watermark(partitions=...)",
            )


def message_ids(bolt: CheckedBolt) -> Iterator[ConfigError]:
    """Equal messages meet, and it is known when a window has no use for one any more (ST-27)."""
    settings = bolt.settings
    field = settings.message_id_field
    if field is None:
        return
    call = "with_message_id_field"
    yield from bolt.column(call, field, _is_id, "a text, bytes, a whole number, a time or a decimal", everywhere=True)
    if settings.key_trigger is not None or settings.eviction is not None or settings.trigger is not None:
        what = "a trigger of keys" if settings.key_trigger is not None else "a policy of its own"
        yield bolt.fault(
            f"has {call}({field!r}), and {what}",
            f"windbolt cannot know how long {what} keeps an event, and so how long its id must not repeat",
            "leave one of the two out, or drop repeated messages in a bolt before it",
        )
    length, slide = settings.length, settings.slide
    of_keys = bool(settings.key) and not settings.kinds
    if of_keys and isinstance(length, Count) and isinstance(slide, Count) and length.value < slide.value:
        yield bolt.fault(
            f"has {call}({field!r}), and windows of {length.value} events at every {slide.value} of a key",
            "events between two such windows are in none, and are kept for counting alone, so it cannot be said how "
            "long their ids must not repeat",
            "give the length at least as many events as the slide, or drop repeated messages in a bolt before it",
        )
    if settings.lifetime is not None and settings.lifetime.shape_field is not None:
        yield bolt.fault(
            f"has {call}({field!r}), and events whose start and end are messages of their own",
            "such an event has two ids, and how long each must not repeat depends on the other message",
            "leave one of the two out, or drop repeated messages in a bolt before it",
        )
    groupings = [(stream_label(each.stream), each.grouping) for each, _ in bolt.inputs]
    for label, grouping in groupings if bolt.parallelism > 1 else ():
        if isinstance(grouping, ShuffleGrouping) or grouping != groupings[0][1]:
            yield bolt.fault(
                f"has {call}({field!r}), {bolt.parallelism} tasks, and reads {label!r} by {grouping}",
                "a repeated message could go to another task, which does not know the first",
                f"use fields_grouping({label!r}, ...) by the same fields for every input, or one task",
            )


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_dictionary(kind))


def _is_id(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return _is_id(kind.value_type)
    others = pa.types.is_floating(kind) or pa.types.is_nested(kind) or pa.types.is_null(kind)
    return not others


def _is_span(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_duration(kind))
