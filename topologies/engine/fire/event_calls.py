"""Bolts with state but without windows: a task's events, its keys, and the calls of the bolt (decision 114)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa

from manager.keyed.retained_events import RetainedEvents
from manager.storage.segments import KEY_COLUMN, SegmentWriter
from manager.storage.task_state import BoltTaskState, StatefulState
from topologies.engine.admission import AdmissionContext
from topologies.engine.failures import failed
from topologies.engine.fire.bolt_calls import BoltCalls
from topologies.engine.fire.task_windows import Admitted, Arrived, ClockPassed, EventFiring, Firing, TaskSnapshot
from topologies.engine.ingest import Router
from topologies.engine.task_data import BoltWork, FireItem
from topologies.graph.graph import STATE_COLUMN, WindowedNode, state_column
from topologies.graph.groupings import KeyCodes, key_rows
from windowing.bolts.bolt import StatefulBatchBolt, StatefulBolt, StatefulTaskBolt, own_initial_state, pack_state
from windowing.columns import own_value, take_rows
from windowing.errors import USER_EXCEPTIONS, BoltError, SchemaError
from windowing.events import Tuple, count_by_stream, to_objects, to_tuples
from windowing.reprs import shorten
from windowing.schema import DEFAULT_STREAM, EmittedRows, LooseRows, emissions, from_rows, parse_schema
from windowing.timestamps import show, to_datetime

if TYPE_CHECKING:
    from numpy.typing import NDArray


# The states of a task's keys: a row for each key whose state differs from the initial one.


StoredUserState = tuple[str, dict[str, pa.Table]]
"""A stored state: its JSON part, and its tables by name."""


_States = list[dict[str, Any]]
"""The states of several keys, during calls of the bolt."""


class StoredKeys:
    """The stored states of the keys of a task, in order of their codes.

    A row has the code and the columns of a key, the JSON part of its state in ``STATE_COLUMN``, and each table of the
    state as a list of structs.
    """

    def __init__(self, table: pa.Table | None, tables: Sequence[tuple[str, pa.Schema]]) -> None:
        """``tables``: the states that are tables, with their columns."""
        self.table = table
        self._tables = tables
        self.codes: NDArray[np.int64] = _NO_KEYS if table is None else table.column(KEY_COLUMN).to_numpy()

    def states_of(self, codes: NDArray[np.int64]) -> list[dict[str, Any] | None]:
        """Returns the states of keys; None for keys without one."""
        if self.table is None or not len(self.codes):
            return [None] * len(codes)
        indices = np.minimum(np.searchsorted(self.codes, codes), len(self.codes) - 1)
        has_state = self.codes[indices] == codes
        rows = take_rows(self.table, indices[has_state])
        texts = rows.column(STATE_COLUMN).to_pylist()
        columns = {name: rows.column(state_column(name)).combine_chunks() for name, _ in self._tables}
        found: list[dict[str, Any] | None] = [None] * len(codes)
        for row, (index, text) in enumerate(zip(np.flatnonzero(has_state).tolist(), texts, strict=True)):
            state: dict[str, Any] = json.loads(text)
            for name, column in columns.items():
                state[name] = pa.Table.from_struct_array(column[row].values)
            found[index] = state
        return found

    def with_changes(
        self, codes: NDArray[np.int64], keys: pa.Table, states: Sequence[StoredUserState | None]
    ) -> StoredKeys:
        """Returns the states after a change. ``keys``: the columns of the changed keys; ``states``: their new states,
        None to forget a state."""
        kept = [] if self.table is None else [self.table.filter(pa.array(np.isin(self.codes, codes, invert=True)))]
        kept_indices = np.array([index for index, state in enumerate(states) if state is not None], np.int64)
        packed = [state for state in states if state is not None]
        code_column = {KEY_COLUMN: pa.chunked_array([pa.array(codes[kept_indices])])}
        key_columns = take_rows(keys, kept_indices)
        columns = {**code_column, **dict(zip(key_columns.column_names, key_columns.columns, strict=True))}
        columns[STATE_COLUMN] = pa.chunked_array([pa.array([text for text, _ in packed], pa.string())])
        for name, schema in self._tables:
            columns[state_column(name)] = pa.chunked_array([_as_lists([tables[name] for _, tables in packed], schema)])
        all_states = pa.concat_tables([*kept, pa.table(columns)], promote_options="permissive").combine_chunks()
        order = np.argsort(all_states.column(KEY_COLUMN).to_numpy(), kind="stable")
        return StoredKeys(take_rows(all_states, order) if len(order) else None, self._tables)


_NO_KEYS = np.zeros(0, np.int64)


def _as_lists(tables: Sequence[pa.Table], schema: pa.Schema) -> pa.Array:
    """Returns tables as one column: a list of structs for each table."""
    structs = pa.concat_tables([schema.empty_table(), *tables]).to_struct_array()
    offsets = np.concatenate([[0], np.cumsum([table.num_rows for table in tables])]).astype(np.int64)
    rows = structs.combine_chunks() if isinstance(structs, pa.ChunkedArray) else structs
    return pa.LargeListArray.from_arrays(pa.array(offsets), rows)


# A task of a bolt without windows: its events in a batch, and the states of its keys.


class EventTask:
    """The events that have come to a task, and the states of its keys."""

    def __init__(self, item: FireItem, node: WindowedNode, router: Router) -> None:
        assert isinstance(node.bolt, StatefulBolt)
        self._item, self._node, self._before = item, node, item.state.windows_as(StatefulState)
        store, types = router.context.store, node.bolt.state_types
        table_states = [(name, parse_schema(kind)) for name, kind in types.items() if not isinstance(kind, type)]
        self.keys = StoredKeys(None if self._before.keys is None else store.read(self._before.keys), table_states)
        """The states of its keys; ``EventCalls`` replaces them."""
        self._keys_before = self.keys
        self._codes = KeyCodes.restore(node.keys, store, self._before.codes)
        self._events: RetainedEvents | None = None

    @property
    def admission_context(self) -> AdmissionContext:
        """Returns an empty context: all events are admitted."""
        return AdmissionContext()

    def accept(self, admitted: Admitted) -> None:
        """Takes the events of the batch, in order of arrival, with the codes of their keys."""
        table, events = self.keys.table, admitted.events
        if table is not None and events.keys is not None and not len(self._codes):  # only equal hashes need codes
            table = table.filter(pa.array(np.isin(self.keys.codes, events.keys)))
        self._events = self._codes.apply(events, [] if table is None else [table])

    def advance(self) -> Iterator[EventFiring]:
        """Yields the clock, if the bolt uses it, and then the events. The clock advances before a batch comes, so it
        does not matter where batches with the same clock are cut."""
        if self._node.clock_is_due(self._item.frontiers.previous, self._item.frontiers.current):
            yield ClockPassed(self._item.end.clock)
        if self._events is not None:
            yield Arrived(self._events)

    def snapshot(self, writer: SegmentWriter) -> TaskSnapshot:
        """Returns the states of the keys; no events remain."""
        counts = {}
        if self._events is not None:
            counts["windowed"] = count_by_stream(self._events.streams, len(self._events), len(self._node.inputs))
        return TaskSnapshot(self._state(writer), [], [], counts)

    def _state(self, writer: SegmentWriter) -> StatefulState:
        if self.keys is self._keys_before:
            return self._before
        table = self.keys.table
        codes = self._codes.write(writer, _NO_KEYS, np.zeros(0, np.uint8), [] if table is None else [table])
        return replace(self._before, keys=None if table is None else writer.add(table), codes=codes)


# Calls of a bolt without windows, in one task and batch.


@dataclass(frozen=True, slots=True)
class _EventsByKey:
    """The different keys of a batch's events; without a key, all events share one."""

    codes: NDArray[np.int64]
    """The codes of the keys, each once."""
    key_of_event: NDArray[np.int64]
    """For each event, the index of its key."""
    columns: pa.Table
    """The columns of these keys."""

    @staticmethod
    def of(events: RetainedEvents, node: WindowedNode) -> _EventsByKey:
        if events.keys is None:
            return _EventsByKey(_NO_KEYS, np.zeros(len(events), np.int64), pa.table({}))
        codes, firsts, key_of_event = np.unique(events.keys, return_index=True, return_inverse=True)
        return _EventsByKey(codes, key_of_event, take_rows(key_rows(events.payload, events.streams, node.keys), firsts))

    def order(self) -> NDArray[np.int64] | None:
        """Returns the order in which events of one key follow each other, keys by first occurrence; None if the events
        already have this order."""
        count = len(self.key_of_event)
        if len(self.codes) < 2:
            return None
        firsts = np.full(len(self.codes), count)
        np.minimum.at(firsts, self.key_of_event, np.arange(count))
        return np.argsort(firsts[self.key_of_event], kind="stable")


class _LooseRows:
    """Rows for a stream that were given one by one, each with its time and its call: the index of its event, or the
    place of another call."""

    __slots__ = ("origins", "rows", "times")

    def __init__(self) -> None:
        self.rows: LooseRows = []
        self.times: list[int] = []
        self.origins: list[Any] = []


class _EmittedRows:
    """The rows that a task emits. Rows of one stream are in order; there is no order between streams."""

    def __init__(self, outputs: Mapping[str, pa.Schema]) -> None:
        self.outputs = outputs
        self._parts: dict[str, list[_LooseRows | tuple[pa.Table, int]]] = {}

    def loose(self, stream: str) -> _LooseRows:
        """Returns the list for the next single rows of a stream."""
        parts = self._parts.setdefault(stream, [])
        if not parts or not isinstance(parts[-1], _LooseRows):
            parts.append(_LooseRows())
        last = parts[-1]
        assert isinstance(last, _LooseRows)
        return last

    def add(self, returned: EmittedRows, time: int, origin: Any) -> None:
        """Adds the rows that a call has returned."""
        for stream, rows in emissions(returned, self.outputs):
            if isinstance(rows, list):
                loose = self.loose(stream)
                loose.rows += rows
                loose.times += [time] * len(rows)
                loose.origins += [origin] * len(rows)
            else:
                self._parts.setdefault(stream, []).append((rows, time))

    def tables(self, failed: Callable[[Any, BaseException], BoltError]) -> Iterator[tuple[str, pa.Table, list[int]]]:
        """Yields (stream, rows, times in microseconds). ``failed`` makes the error for a call whose rows do not match
        the declaration."""
        for stream, parts in self._parts.items():
            tables, times = list[pa.Table](), list[int]()
            for part in parts:
                if isinstance(part, _LooseRows):
                    tables.append(_convert_rows(part, self.outputs[stream], failed))
                    times += part.times
                else:
                    tables.append(part[0])
                    times += [part[1]] * part[0].num_rows
            yield stream, pa.concat_tables(tables), times


def _convert_rows(loose: _LooseRows, schema: pa.Schema, failed: Callable[[Any, BaseException], BoltError]) -> pa.Table:
    if not loose.rows:
        return schema.empty_table()
    try:
        return from_rows(loose.rows, schema)
    except SchemaError:
        for row, origin in zip(loose.rows, loose.origins, strict=True):  # again, one by one, to find the call
            try:
                from_rows([row], schema)
            except SchemaError as error:
                raise failed(origin, error) from error
        raise


class EventCalls(BoltCalls):
    """The calls of a bolt without windows in one task and batch."""

    def __init__(self, item: FireItem, node: WindowedNode, router: Router, task: EventTask) -> None:
        super().__init__(item, node, router)
        self._task, self._called = task, 0
        self._outputs = _EmittedRows(node.outputs)
        self._events: RetainedEvents | None = None
        """The events for which the bolt is called one by one; errors refer to them by index."""
        self._columns = node.schema.names
        types = cast("StatefulBolt", node.bolt).state_types
        self._changeable = [name for name, kind in types.items() if kind not in (int, float, str, bool)]
        """The states that can be changed where they are: lists, dicts and tables."""

    def make(self, firings: Iterable[Firing | EventFiring]) -> None:
        """Calls the bolt for the events of the task, and with the clock if the bolt has ``on_clock``."""
        for firing in firings:
            match firing:
                case Arrived(events):
                    self._call_for_events(events)
                case ClockPassed(clock):
                    self._call_at_clock(clock)
        self.router.work.add(self.node.name, BoltWork(columns=None, called=self._called))
        for stream, table, times in self._outputs.tables(self._call_error):
            self._emit(stream, table, np.array(times, np.int64) if self.node.passes_time else None)

    def snapshot(self, fired: TaskSnapshot, writer: SegmentWriter) -> BoltTaskState:
        """Writes the state of the task, if states are not kept by key; returns it with the counts so far."""
        user, bolt = self.before.user, self._bolt
        if bolt is not None and not self._by_key:
            user = self._save_state(cast("StatefulBolt", bolt), writer)
        return replace(self.before.add_counts(self.done), user=user).add_counters(fired.counters)

    @property
    def _by_key(self) -> bool:
        return bool(self.node.bolt.settings.key)

    def _stateful(self) -> StatefulBolt:
        return cast("StatefulBolt", self._prepared_bolt())

    # -- for events

    def _call_for_events(self, events: RetainedEvents) -> None:
        """Calls the bolt for the events of a batch, with the states of their keys."""
        bolt, keyed = self._stateful(), _EventsByKey.of(events, self.node)
        names = _keys_as_objects(keyed.columns)
        states = self._states_of_all(bolt, names, self._task.keys.states_of(keyed.codes)) if self._by_key else None
        if isinstance(bolt, StatefulBatchBolt):
            self._with_tables(bolt, events, keyed, states, names)
        else:
            self._with_tuples(bolt, events, keyed, states, names)
        if states is not None:
            self._keep(bolt, keyed.codes, keyed.columns, states)

    def _states_of_all(
        self, bolt: StatefulBolt, names: Sequence[Any], stored: Sequence[dict[str, Any] | None]
    ) -> _States:
        """Returns the states of keys, including keys that had none before."""
        return [
            self._first_state(bolt, name) if state is None else state for name, state in zip(names, stored, strict=True)
        ]

    def _first_state(self, bolt: StatefulBolt, name: Any) -> dict[str, Any]:
        """Returns the first state of a key."""
        bolt.key = name
        try:
            return own_initial_state(bolt)
        except USER_EXCEPTIONS as error:
            where = self._in_task(f"in initial_state of key {name!r:.80}")
            raise failed(self.node.name, self.context.batch, where, error, task=self.task) from error

    def _with_tuples(
        self, bolt: StatefulBolt, events: RetainedEvents, keyed: _EventsByKey, states: _States | None, names: list[Any]
    ) -> None:
        self._events, self._called = events, self._called + len(events)
        execute, add, keys = bolt.execute, self._outputs.add, keyed.key_of_event.tolist()
        default_schema = self.node.outputs.get(DEFAULT_STREAM)
        width = -1 if default_schema is None else len(default_schema)
        index, before = 0, list[Any]()
        try:  # a context manager per event would cost as much as the rest
            for event in self._tuples(events):
                if states is not None:
                    key = keys[index]
                    bolt.state, bolt.key = states[key], names[key]
                    before = self._values_of(states[key])
                emitted = execute(event)
                if type(emitted) is tuple and len(emitted) == width:  # the fast path for one row
                    loose = self._outputs.loose(DEFAULT_STREAM)
                    loose.rows.append(own_value(emitted))
                    loose.times.append(event.timestamp)
                    loose.origins.append(index)
                elif emitted is not None:
                    add(emitted, event.timestamp, index)
                if states is not None:
                    states[key] = self._own_state(bolt.state, states[key], before)
                index += 1
        except BoltError:
            raise
        except USER_EXCEPTIONS as error:
            raise self._call_error(index, error) from error

    def _tuples(self, events: RetainedEvents) -> Iterator[Tuple]:
        """Yields the events as objects, few of which exist at a time."""
        labels = self.node.streams
        for start in range(0, len(events), _OBJECTS_AT_ONCE):
            times = events.times[start : start + _OBJECTS_AT_ONCE].tolist()
            codes = None if events.streams is None else events.streams[start : start + _OBJECTS_AT_ONCE].tolist()
            streams = [labels[0]] * len(times) if codes is None else [labels[code] for code in codes]
            yield from to_tuples(events.payload.slice(start, _OBJECTS_AT_ONCE), times, streams)

    def _with_tables(
        self,
        bolt: StatefulBatchBolt,
        events: RetainedEvents,
        keyed: _EventsByKey,
        states: _States | None,
        names: list[Any],
    ) -> None:
        """Calls the bolt with the events of one key and one input and, if times matter, of one time."""
        order, key_of_event = keyed.order(), keyed.key_of_event
        if order is not None:
            events, key_of_event = events.take(order), key_of_event[order]
        separators = [each for each in (key_of_event, events.streams) if each is not None]
        separators += [events.times] if self.node.passes_time else []
        cuts = np.flatnonzero(np.logical_or.reduce([each[1:] != each[:-1] for each in separators])) + 1
        for start, stop in pairwise([0, *cuts.tolist(), len(events)]):
            key = int(key_of_event[start])
            stream = self.node.streams[0 if events.streams is None else int(events.streams[start])]
            where = _TableCall(stop - start, stream, _NO_KEY if states is None else names[key])
            bolt.stream = stream
            table, time = events.payload.slice(start, stop - start), int(events.times[start])
            self._call_once(bolt, states, key, where, (bolt.execute, table), time)

    def _call_once(
        self,
        bolt: StatefulBolt,
        states: _States | None,
        index: int,
        where: _TableCall | _ClockCall,
        call: tuple[Callable[[Any], Any], Any],
        time: int,
    ) -> None:
        """Calls a method of the bolt once, with the state of the key at ``index`` if there are states; ``call``: the
        method and its argument."""
        self._called += 1
        before = list[Any]()
        if states is not None:
            bolt.state, bolt.key = states[index], where.key
            before = self._values_of(states[index])
        method, argument = call
        try:
            self._outputs.add(method(argument), time, where)
            if states is not None:
                states[index] = self._own_state(bolt.state, states[index], before)
        except BoltError:
            raise
        except USER_EXCEPTIONS as error:
            raise self._call_error(where, error) from error

    def _values_of(self, state: Any) -> list[Any]:
        """Returns the values of a state that can be changed where they are."""
        known = state if isinstance(state, dict) else {}  # another one is refused when it is kept
        return [known.get(name) for name in self._changeable]

    def _own_state(self, state: Any, previous: Any, before: Sequence[Any]) -> Any:
        """Returns the state that a call has left. What the call has put there is copied: the bolt may put the same list
        into the state of the next key, or fill the memory of a table anew.

        ``previous``: the state that the bolt had before the call, and ``before`` the values in it.
        """
        if state is not previous and isinstance(state, dict):
            state = dict(state)
        if self._changeable:
            for name, value, old in zip(self._changeable, self._values_of(state), before, strict=True):
                if value is not old and value is not None:
                    state[name] = own_value(value)
        return state

    # -- by the clock

    def _call_at_clock(self, clock: int) -> None:
        """Calls the bolt with the clock: once, or for each key with a state."""
        bolt, now = self._stateful(), to_datetime(clock)
        if not self._by_key:
            self._call_once(bolt, None, 0, _ClockCall(clock, _NO_KEY), (bolt.on_clock, now), clock)
            return
        keys = self._task.keys
        if keys.table is None:
            return
        key_columns = keys.table.select(list(self.node.keys[0]))
        names = _keys_as_objects(key_columns)
        states = self._states_of_all(bolt, names, keys.states_of(keys.codes))
        for index, name in enumerate(names):
            self._call_once(bolt, states, index, _ClockCall(clock, name), (bolt.on_clock, now), clock)
        self._keep(bolt, keys.codes, key_columns, states)

    # -- keeping states

    def _keep(
        self, bolt: StatefulBolt, codes: NDArray[np.int64], keys: pa.Table, states: Sequence[dict[str, Any]]
    ) -> None:
        """Keeps the states of keys that differ from the initial state."""
        name, batch, types, names = self.node.name, self.context.batch, bolt.state_types, _keys_as_objects(keys)
        same_for_all = (
            type(bolt).initial_state is StatefulTaskBolt.initial_state
        )  # the usual one is the same for all keys
        initial = pack_state(bolt.initial_state(), types) if same_for_all else None
        packed, paths_by_id = list[StoredUserState | None](), dict[int, str]()
        for key, state in zip(names, states, strict=True):
            try:
                now = pack_state(state, types, f"self.state (of key {key!r:.40})", paths_by_id)
                packed.append(None if _equal(now, initial or pack_state(self._first_state(bolt, key), types)) else now)
            except BoltError:
                raise
            except Exception as error:
                where = self._in_task(f"in keeping its state of key {key!r:.80}")
                raise failed(name, batch, where, error, task=self.task) from error
        self._task.keys = self._task.keys.with_changes(codes, keys, packed)

    # -- errors

    def _call_error(self, origin: Any, error: BaseException) -> BoltError:
        where, batch = self._origin_in_words(origin), self.context.batch
        return failed(self.node.name, batch, where, error, task=self.task, columns=self._columns)

    def _origin_in_words(self, origin: Any) -> str:
        """Returns the task and the call, for error messages."""
        if isinstance(origin, _ClockCall | _TableCall):
            return self._in_task(str(origin))
        assert self._events is not None
        (event,) = self._tuples(self._events.take(np.array([origin])))
        return self._in_task(f"on the event {shorten(str(event.values), _LONGEST)} of {event.stream!r}")

    def _in_task(self, words: str) -> str:
        return f"in task {self.task} {words}"


_OBJECTS_AT_ONCE = 1 << 14
"""Most events that exist as objects at the same time."""
_LONGEST = 300
"""Most characters of an event in an error message."""
_NO_KEY = object()


@dataclass(frozen=True, slots=True)
class _TableCall:
    """The place of a call with a table, for errors."""

    rows: int
    stream: str
    key: Any

    def __str__(self) -> str:
        return f"on {self.rows} event{'s' if self.rows != 1 else ''} of {self.stream!r}{_key_in_words(self.key)}"


@dataclass(frozen=True, slots=True)
class _ClockCall:
    """The place of a call with the clock, for errors."""

    clock: int
    key: Any

    def __str__(self) -> str:
        return f"in on_clock at {show(self.clock)}{_key_in_words(self.key)}"


def _key_in_words(key: Any) -> str:
    return "" if key is _NO_KEY else f", key {key!r:.80}"


def _equal(one: StoredUserState, other: StoredUserState) -> bool:
    return one[0] == other[0] and all(table.equals(other[1][name]) for name, table in one[1].items())


def _keys_as_objects(keys: pa.Table) -> list[Any]:
    """Returns keys as users see them: a value if the key is one column, else a tuple of values."""
    columns = [to_objects(column) for column in keys.columns]
    return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))
