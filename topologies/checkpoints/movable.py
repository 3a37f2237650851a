"""Notes by each run on how a bolt's stored state can be moved to other tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from typing import Any

import pyarrow as pa

from manager.storage.files import UNREADABLE
from manager.storage.sealed_files import SealedFolder
from topologies.checkpoints.topology_fit import digest_of, fingerprint
from topologies.graph.graph import Stream, WindowedNode, has_windows_of_time
from topologies.graph.groupings import FieldsGrouping, GlobalGrouping, ShuffleGrouping
from topologies.graph.topology import Topology
from windowing.bolts.bolt import StatefulTaskBolt
from windowing.bolts.read_code import asks_for_expired
from windowing.conversion import REFUSED, converted
from windowing.schema import format_schema, parse_schema, value_type

MOVABLE = "movable"
"""The name of the note."""


@dataclass(frozen=True, kw_only=True)
class Movable:
    """Facts about a bolt that are needed to move the state of its tasks."""

    streams: list[str]
    """Names of its inputs."""
    fields: list[list[str]]
    """For each input, the fields that it is grouped by; none where the grouping is global."""
    keys: list[list[str]]
    """For each input, the columns of the key."""
    types: str
    """The fields of the first input with their types, as a declaration; empty where there are none."""
    fixed: list[str]
    """Reasons why nothing can be moved; empty where it can."""
    whole: list[str]
    """Reasons why tasks can be joined as a whole, but not divided; empty where they can be divided."""
    state_keys: dict[str, list[str]]
    """The states of a stateful bolt that are kept by key, and their columns, in the order of the fields of the first
    input; none for one that is the same in all tasks."""
    state_by_method: bool
    """True if the bolt has a method that moves its state."""

    @staticmethod
    def of(topology: Topology, node: WindowedNode) -> Movable:
        """Returns the record of a bolt."""
        by_field = [each.grouping for each in node.inputs]
        grouped = [list(each.fields) if isinstance(each, FieldsGrouping) else [] for each in by_field]
        named = grouped[0] if set(grouped[0]) <= set(node.schema.names) else []
        bolt = node.bolt
        stateful = bolt if isinstance(bolt, StatefulTaskBolt) else None
        return Movable(
            streams=list(node.streams),
            fields=grouped,
            keys=[list(key) for key in node.keys],
            types=format_schema(pa.schema([(name, _declared(node.schema.field(name).type)) for name in named])),
            fixed=list(_fixed(topology, node, grouped)),
            whole=list(_whole(node)) if any(grouped) else [],
            state_keys={} if stateful is None else _state_keys(stateful, grouped[0]),
            state_by_method=stateful is not None and has_method(stateful),
        )

    @property
    def in_one_task(self) -> bool:
        """True if all events go to the first task, whatever the number of tasks."""
        return not any(self.fields)


def movable(topology: Topology) -> dict[str, Movable]:
    """Returns the records of all windowed bolts of a topology."""
    return {name: Movable.of(topology, node) for name, node in topology.windowed.items()}


def note_movable(files: SealedFolder, topology: Topology) -> None:
    """Note how the state of this run can be moved. No run depends on the note: one that is damaged is rewritten."""
    bolts = {name: asdict(found) for name, found in movable(topology).items()}
    now = {"bolts": bolts, "of": digest_of(fingerprint(topology))}
    known: Any = None
    with suppress(*UNREADABLE):
        known = files.read(MOVABLE)
    if known != now:
        files.write(MOVABLE, now)


def read_movable(files: SealedFolder, topology: dict[str, Any]) -> dict[str, Movable] | None:
    """Returns the note of the last run, by bolt; None if there is none in this form, or none for this topology.

    ``topology``: the note of the topology that the state belongs to. In an object store the note may come from a run
    that has lost the checkpoint, and be about another topology.
    """
    found: dict[str, Any] | None = files.read(MOVABLE)
    names = {each.name for each in fields(Movable)}
    if found is None or any(set(values) != names for values in found["bolts"].values()):
        return None
    if found.get("of", digest_of(topology)) != digest_of(topology):  # earlier versions do not say
        return None
    return {name: Movable(**values) for name, values in found["bolts"].items()}


def has_method(bolt: StatefulTaskBolt) -> bool:
    """True if a bolt moves its state by a method of its own."""
    return type(bolt).move_state is not StatefulTaskBolt.move_state


def _declared(kind: pa.DataType) -> pa.DataType:
    """Returns a type that can be declared, whose values go to the same tasks; the type itself where there is no such
    type."""
    if pa.types.is_unsigned_integer(kind) and kind != pa.uint64():
        return pa.int64()
    return _SAME_HASHES.get(value_type(kind), value_type(kind))


_SAME_HASHES = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary(), pa.date64(): pa.date32()}


def _state_keys(bolt: StatefulTaskBolt, fields: Sequence[str]) -> dict[str, list[str]]:
    found = {name: _columns(key, fields) for name, key in bolt.state_keys.items()}
    return {name: columns for name, columns in found.items() if columns is not None}


def _columns(key: str | Sequence[str] | Mapping[str, str], fields: Sequence[str]) -> list[str] | None:
    """Returns the columns of a state that hold these fields; None where it does not have them."""
    if isinstance(key, Mapping):
        return [key[name] for name in fields] if set(fields) <= set(key) else None
    given = [key] if isinstance(key, str) else list(key)
    if not given or len(given) == len(fields):
        return list(fields) if set(given) == set(fields) else given
    return list(fields) if set(fields) <= set(given) else None


def _fixed(topology: Topology, node: WindowedNode, grouped: Sequence[Sequence[str]]) -> Iterator[str]:
    kinds = [each.grouping for each in node.inputs]
    if all(isinstance(each, GlobalGrouping) for each in kinds):
        return
    for label, grouping in zip(node.streams, kinds, strict=True):
        if not isinstance(grouping, FieldsGrouping):
            yield f"it reads {label!r} by {grouping} grouping, and only fields tell which task has an event"
            return
    yield from _shuffled_after(topology, node)
    if node.holds_events and (node.keys[0] or not node.without_windows):
        yield from _held(node, grouped)
    elif not node.holds_events:
        yield from _queued(node, grouped)
    yield from _state(node, grouped)


def _shuffled_after(topology: Topology, node: WindowedNode) -> Iterator[str]:
    """Yields a reason if rows are shuffled after this bolt: they go to tasks by the number that their task has emitted
    before."""
    waiting: list[Stream] = [(node.name, stream) for stream in node.outputs]
    seen = set(waiting)
    while waiting:
        for reader, index in topology.readers.get(waiting.pop(), ()):
            after = topology.windowed.get(reader)
            if after is None or after.without_windows:  # which pass rows on in the order in which they come
                passing = after or topology.plain[reader]
                new = {(reader, stream) for stream in passing.outputs} - seen
                seen |= new
                waiting.extend(new)
            if (
                after is not None
                and after.parallelism > 1
                and isinstance(after.inputs[index].grouping, ShuffleGrouping)
            ):
                yield f"its rows are sent to {reader!r} by shuffle grouping, in turn for each task that emits them"


def _queued(node: WindowedNode, grouped: Sequence[Sequence[str]]) -> Iterator[str]:
    if not has_windows_of_time(node):
        yield "its windows count, or choose among, all the events of a task, and not those of a key (with_key)"
    if node.summing is not None:
        by = node.summing.aggregates.by
        if any(not set(each) <= set(by) for each in grouped):
            yield f"it keeps sums by {', '.join(by) or 'nothing'}, which do not tell the fields it is grouped by"


def _held(node: WindowedNode, grouped: Sequence[Sequence[str]]) -> Iterator[str]:
    settings = node.bolt.settings
    by_time_alone = all(each.by_time_alone for each in node.assigners)
    if not node.keys[0]:
        if not (node.assigners and by_time_alone):
            yield "its windows depend on all the events of a task, and not on those of a key (with_key)"
        extras = {
            "panes": settings.panes,
            "windows without events": settings.empty_windows_until,
            "lifetimes of events": settings.lifetime,
            "events that have expired": (node.remembers and not node.by_policies) or None,
        }
        for words, given in extras.items():
            if given is not None:
                yield f"it has {words} for all the events of a task, and not for those of a key (with_key)"
        return
    places = set()
    for label, fields_of, key in zip(node.streams, grouped, node.keys, strict=True):
        if not set(fields_of) <= set(key):
            yield f"it reads {label!r} by {', '.join(fields_of)}, which is not in its key {', '.join(key)}"
            return
        places.add(tuple(key.index(name) for name in fields_of))
    if len(places) > 1:
        yield "its inputs are grouped by different parts of the key"
    if settings.idle_timeout is not None and not by_time_alone:
        yield "its windows end with their events, and an idle timeout may close them"


def _whole(node: WindowedNode) -> Iterator[str]:
    """Yields reasons that do not hold where whole tasks are joined."""
    settings = node.bolt.settings
    asks = asks_for_expired(node.bolt) if settings.expired is None else settings.expired
    if not node.holds_events and node.summing is None and asks:
        yield "it asks what has expired since the window before, and a task keeps that of its last window only"


def _state(node: WindowedNode, grouped: Sequence[Sequence[str]]) -> Iterator[str]:
    bolt = node.bolt
    if not isinstance(bolt, StatefulTaskBolt) or has_method(bolt) or (node.without_windows and node.keys[0]):
        return
    known = _state_keys(bolt, grouped[0])
    for name, kind in bolt.state_types.items():
        columns = known.get(name)
        if name not in bolt.state_keys:
            yield f"its state {name!r} is not said to be kept by key (state_keys), and it has no method move_state"
        elif columns is None:
            yield f"its state {name!r} is kept by another key than {', '.join(grouped[0])}, by which its events come"
        elif columns and isinstance(kind, type) and (kind is not dict or len(columns) != 1):
            yield f"its state {name!r} is {kind.__name__}: only a table can be kept by key, or a dict by one field"
        elif columns and not isinstance(kind, type):
            yield from _of_other_types(name, parse_schema(kind), columns, node.schema, grouped[0])


def _of_other_types(
    state: str, schema: pa.Schema, columns: Sequence[str], events: pa.Schema, fields: Sequence[str]
) -> Iterator[str]:
    """Yields columns of a state whose types cannot hold the values of the fields that events are grouped by."""
    for column, field in zip(columns, fields, strict=True):
        if column in schema.names and field in events.names:
            own, kind = (_declared(each.field(name).type) for each, name in ((schema, column), (events, field)))
            try:
                converted(pa.nulls(0, own), kind)
            except REFUSED:
                yield f"its state {state!r} has {column!r} as {own}, and its events are grouped by {field!r} as {kind}"
