"""Events that a bolt looks at together come to one task."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from topologies.compose.checks.checked_bolt import CheckedBolt
from topologies.graph.fields_hash import hashed_as
from topologies.graph.groupings import FieldsGrouping, GlobalGrouping, Grouping
from topologies.graph.streams import Input, stream_label
from windowing.errors import ConfigError


def key(bolt: CheckedBolt) -> Iterator[ConfigError]:
    """All events of a key come to one task."""
    columns = bolt.settings.key
    if bolt.settings.watermark_per_key and not columns:
        yield bolt.fault(
            "has a watermark for each key, but no key",
            "the key says which events share a watermark",
            "call with_key",
        )
    for label, grouping in _apart(bolt, columns) if columns and not bolt.temporal else ():
        yield bolt.fault(
            f"has the key {', '.join(columns)}, {bolt.parallelism} tasks, and reads {label!r} by {grouping}",
            "events of one key would go to several tasks",
            f"use {grouping_call(label, columns)}",
        )


def fields(bolt: CheckedBolt) -> Iterator[ConfigError]:
    """Equal values of the fields by which inputs are grouped come to one task, by whichever input."""
    grouped = [(each, schema) for each, schema in bolt.inputs if isinstance(each.grouping, FieldsGrouping)]
    if bolt.parallelism == 1 or bolt.joined is not None or len(grouped) < 2:  # a join compares the types of its keys
        return
    (first, wanted), *others = ((each, _types_of(each, schema)) for each, schema in grouped)
    for each, types in others:
        if len(types) != len(wanted):
            continue
        for (name, kind), (other, other_kind) in zip(wanted, types, strict=True):
            if hashed_as(kind) != hashed_as(other_kind):
                yield bolt.fault(
                    f"has {bolt.parallelism} tasks, and reads {stream_label(first.stream)!r} by {name!r}, "
                    f"which is {kind}, and {stream_label(each.stream)!r} by {other!r}, which is {other_kind}",
                    "events with equal values would go to several tasks",
                    "declare both columns with one type, or cast one in a bolt before it",
                )


def _types_of(each: Input, schema: pa.Schema) -> list[tuple[str, pa.DataType]]:
    """The fields by which an input is grouped, with their types; none where it lacks one, which is told elsewhere."""
    assert isinstance(each.grouping, FieldsGrouping)
    names = each.grouping.fields
    return [(name, schema.field(name).type) for name in names] if set(names) <= set(schema.names) else []


def sums(bolt: CheckedBolt) -> Iterator[ConfigError]:
    """All events that a bolt groups come to one task; those of windows per key do already."""
    by = bolt.groups_by
    for label, grouping in () if by is None or bolt.settings.key else _apart(bolt, by):
        fields = f"groups events by {', '.join(by)}" if by else "looks at all events together"
        yield bolt.fault(
            f"{fields}, has {bolt.parallelism} tasks, and reads {label!r} by {grouping}",
            "each task would have a part of the result",
            f"use {grouping_call(label, by)}" if by else "use one task",
        )


def joins(bolt: CheckedBolt) -> Iterator[ConfigError]:
    """Events that a window join compares come to one task; those of windows per key do already."""
    keys = bolt.joined
    if keys is None or (bolt.settings.key and not bolt.temporal) or bolt.parallelism == 1:
        return
    groupings = [each.grouping for each, _ in bolt.inputs]
    if all(isinstance(grouping, GlobalGrouping) for grouping in groupings):
        return
    grouped = [_grouped_keys(each.grouping, keys.get(stream_label(each.stream), ())) for each, _ in bolt.inputs]
    if None not in grouped and len(set(grouped)) == 1:
        return
    sides = " = ".join(f"{name}.{'+'.join(columns)}" for name, columns in keys.items())
    ways = ", ".join(f"{stream_label(each.stream)!r} by {each.grouping}" for each, _ in bolt.inputs)
    calls = (grouping_call(name, columns) for name, columns in keys.items())
    yield bolt.fault(
        f"joins {sides}, has {bolt.parallelism} tasks, and reads {ways}",
        "events with equal keys would go to several tasks, and not meet",
        f"use {' and '.join(calls)}",
    )


def _apart(bolt: CheckedBolt, key: tuple[str, ...]) -> Iterator[tuple[str, Grouping]]:
    """The inputs, and their groupings, by which events with equal keys may go to several tasks."""
    if bolt.parallelism == 1:
        return
    first = bolt.inputs[0][0].grouping
    for each, _ in bolt.inputs:
        grouping = each.grouping
        apart = not isinstance(grouping, FieldsGrouping) or not set(grouping.fields) <= set(key)
        if grouping != first or (apart and not isinstance(grouping, GlobalGrouping)):
            yield stream_label(each.stream), grouping


def _grouped_keys(grouping: Grouping, keys: tuple[str, ...]) -> tuple[int, ...] | None:
    """Which of the keys a stream is grouped by; None where it is grouped by something else."""
    if not isinstance(grouping, FieldsGrouping) or not set(grouping.fields) <= set(keys):
        return None
    return tuple(map(keys.index, grouping.fields))


def grouping_call(label: str, fields: Sequence[str]) -> str:
    """The call that groups a stream by fields: a stream of another name is an argument of its own."""
    component, _, stream = label.partition(".")
    named = [repr(component), *map(repr, fields), *([f"stream={stream!r}"] if stream else [])]
    return f"fields_grouping({', '.join(named)})"
