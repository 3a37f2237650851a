"""Calls users' spouts: pulls their next rows, and plans and reads ranges of their partitions."""

from __future__ import annotations

import copy
import json
import time
import unicodedata
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Generic, Self, TypeVar

import numpy as np
import pyarrow as pa

from topologies.engine.failures import raising_as
from topologies.engine.merging import keys_of
from topologies.engine.source_splits import PAUSES
from topologies.engine.task_data import MergedSplits, RowPartitions, SourceBatch, SourceSplit
from topologies.graph.graph import Graph
from topologies.io.pulled import PulledRanges, PulledSpout, RangedSpout, UsersSpout, in_their_zone
from topologies.io.spout_columns import Defaults
from windowing.bolts.read_code import rebind_to_copy
from windowing.errors import SchemaError, SpoutError
from windowing.reprs import printable, shorten
from windowing.schema import DEFAULT_STREAM, EmittedRows, format_schema, tables
from windowing.spout import PartitionedSpout, Spout

Answer = TypeVar("Answer")
OwnSpout = TypeVar("OwnSpout", Spout, PartitionedSpout)

# Calls of a user's spout: errors name the user's line, and errors that may pass are retried.


_NOTHING_LOST = "no row is lost: the next run asks with this offset again"


class Caller(Generic[OwnSpout]):
    """A user's spout in one process; it is opened before its first call."""

    def __init__(self, name: str, spout: OwnSpout) -> None:
        """``name``: of the spout in the topology."""
        self.name = name
        self.spout: OwnSpout = spout
        self._is_open = False

    def open(self) -> None:
        """Opens the user's spout, if it is not open."""
        if not self._is_open:
            with self.raising_spout_errors("open()", "nothing was read"):
                self.spout.open()
            self._is_open = True

    def close(self) -> None:
        """Closes the user's spout, if it was opened."""
        if self._is_open:
            self._is_open = False
            with self.raising_spout_errors("close()", "what was committed is not lost"):
                self.spout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Closes the user's spout; an error of closing does not hide an earlier one."""
        with nullcontext() if kind is None else suppress(SpoutError):
            self.close()

    def with_retries(self, call: Callable[[], Answer]) -> Answer:
        """Opens the user's spout and returns the result of a call; retries after an error that may pass."""
        for pause in PAUSES:
            try:
                self.open()
                return call()
            except SpoutError as error:
                if not error.transient:
                    raise
                time.sleep(pause)
        self.open()
        return call()

    def as_stored(self, call: str, offset: Any) -> Any:
        """Returns an offset as the checkpoint would restore it. Raises SpoutError if JSON cannot represent it."""
        try:
            return json.loads(json.dumps(offset, allow_nan=False))
        except (TypeError, ValueError, RecursionError) as error:
            raise self.error(
                f"{call} returned the offset {_repr(offset)}",
                why=f"offsets are kept as JSON, and {error}",
                do="return numbers, texts, lists or dicts with texts as keys",
            ) from error

    def table(self, call: str, rows: EmittedRows, schema: pa.Schema, defaults: Defaults) -> pa.Table:
        """Returns the rows of the user's spout as a table with the columns of ``schema``. Raises SpoutError for other
        columns."""
        with self.raising_spout_errors(call, _NOTHING_LOST):  # errors in a generator
            try:
                completed = in_their_zone(defaults.completed(rows), schema, self.spout.timezone)
                found = [table for _, table in tables(completed, {DEFAULT_STREAM: schema})]
            except SchemaError as error:
                raise self.error(
                    f"{call} returned rows that are not of the columns {format_schema(schema)!r}",
                    why=f"{error.what}: {error.why}" if error.what.startswith("column") else error.why,
                    do="return rows of these columns and types",
                ) from error
        return pa.concat_tables(found) if found else schema.empty_table()

    @contextmanager
    def raising_spout_errors(self, call: str, after: str) -> Iterator[None]:
        """Turns an exception of the user's code into a SpoutError with its line."""
        with raising_as(self.error, f"{call} failed", do=f"fix it and rerun; {after}", unchanged=SpoutError):
            yield

    def error(self, what: str, *, why: str, do: str, transient: bool = False) -> SpoutError:
        """Returns an error of the user's spout; ``what``: begins with the method."""
        return SpoutError(
            f"spout {self.name!r}: {type(self.spout).__name__}.{what}",
            why=why,
            do=do,
            spout=self.name,
            transient=transient,
        )


def _copy_for_user(offset: Any) -> Any:
    """Returns a copy of an offset for the user's code, which may change it. A repeated call needs the original."""
    return copy.deepcopy(offset)


def _repr(value: Any) -> str:
    try:
        return printable(f"{value!r:.60}")
    except Exception:  # thousands of digits, or an error in the user's code
        return type(value).__name__


def _as_json(value: Any) -> str:
    return printable(shorten(json.dumps(value, ensure_ascii=False)))


# Pulls rows, one call after another, in the process that plans batches.


_MOST_SECONDS = 1.0
"""Most seconds for which a batch is gathered, not counting the last call."""


@dataclass(frozen=True)
class Pulled:
    """The next batch of a spout: its rows, and the offset after them."""

    rows: pa.Table
    """The rows; for a spout of partitions, their ranges."""
    offset: Any
    """Offset after the rows; for a spout of partitions, the offset of each partition by name."""


class Puller:
    """Pulls rows from a user's spout during a run."""

    def __init__(self, name: str, pulled: PulledSpout, offset: Any = None) -> None:
        """``name``: of the spout in the topology. ``offset``: after the rows pulled before, None at the beginning."""
        self._caller = Caller(name, pulled.spout)
        self._schema = pulled.outputs()[DEFAULT_STREAM]
        self._defaults = Defaults.of(pulled.defaults, self._schema)
        self._offset = offset

    def pull(self, limit: int | None = None) -> Pulled | None:
        """Returns the next rows; None if there are none now. Raises SpoutError for exceptions of the user's code, and
        for wrong return values."""
        limit = limit or self._caller.spout.rows_per_batch
        parts: list[pa.Table] = []
        row_count, started = 0, time.monotonic()
        while row_count < limit:
            wanted = limit - row_count
            answer = self._caller.with_retries(lambda wanted=wanted: self._read_once(wanted))  # type: ignore[misc]
            if answer is None:
                break
            rows, self._offset = answer
            if not rows.num_rows:
                break
            parts.append(rows)
            row_count += rows.num_rows
            if time.monotonic() - started >= _MOST_SECONDS:
                break
        return Pulled(pa.concat_tables(parts).combine_chunks(), self._offset) if parts else None

    @property
    def wants_acknowledgements(self) -> bool:
        """True if the user's spout has a method to hear about committed batches."""
        return type(self._caller.spout).acknowledge is not Spout.acknowledge

    def acknowledge(self, offset: Any) -> None:
        """Called when a batch is committed with the rows before this offset."""
        self._caller.open()
        with self._caller.raising_spout_errors(
            f"acknowledge({_repr(offset)})", "the batch is committed, and nothing is lost"
        ):
            self._caller.spout.acknowledge(_copy_for_user(offset))

    def close(self) -> None:
        """Closes the user's spout, if it was opened."""
        self._caller.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Closes the user's spout as ``Caller`` does."""
        self._caller.__exit__(kind)

    def _read_once(self, limit: int) -> tuple[pa.Table, Any] | None:
        call = f"read({_as_json(self._offset)}, {limit})"
        with self._caller.raising_spout_errors(call, _NOTHING_LOST):
            answer = self._caller.spout.read(_copy_for_user(self._offset), limit)
        if answer is None:
            return None
        if not isinstance(answer, tuple) or len(answer) != 2:
            raise self._caller.error(
                f"{call} returned {type(answer).__name__} {_repr(answer)}",
                why="it returns the next rows and the offset behind them, or None",
                do="return rows, offset",
            )
        rows, offset = answer
        table = self._caller.table(call, rows, self._schema, self._defaults)  # a generator may count in its offset
        stored = self._caller.as_stored(call, offset)
        if stored is None:
            raise self._caller.error(
                f"{call} returned the offset None",
                why="that is the offset of the beginning, from which all rows would be read again",
                do="return the offset behind the rows; or None alone, where there are none",
            )
        return table, stored


# Plans ranges of partitions, in the process that plans batches.


_RANGES = pa.schema([("partition", pa.string()), ("start", pa.string()), ("end", pa.string())])
"""The ranges of a batch, in order of arrival; offsets as JSON."""
_NOT_IN_NAMES = {"Cc", "Cs", "Zl", "Zp"}
"""Unicode categories that names of partitions must not contain: control characters, surrogates, and line breaks."""


class RangePlanner:
    """Plans the ranges that each batch of a run reads from the partitions of a user's spout."""

    def __init__(self, name: str, ranged: RangedSpout, ends: Mapping[str, Any] | None = None) -> None:
        """``name``: of the spout in the topology. ``ends``: for each known partition, the offset up to which batches
        have read."""
        self._ends: dict[str, Any] = dict(ends or {})
        self._users_spout = ranged.spout
        self._name = name
        self._own_copy: Caller[PartitionedSpout] | None = None

    def pull(self, limit: int | None = None) -> Pulled | None:
        """Returns the ranges of the next batch, and the offset of each partition after them. None if there are no new
        partitions and no new rows. Raises SpoutError as ``Puller.pull`` does."""
        names = self._caller.with_retries(self._partition_names)
        starts = {name: self._ends[name] if name in self._ends else self._ask_begin(name) for name in names}
        ends = self._ends_within_limit(starts, limit or self._users_spout.rows_per_batch)
        if starts.keys() == self._ends.keys() and ends == starts:
            return None
        rows = [
            {"partition": name, "start": json.dumps(starts[name]), "end": json.dumps(ends[name])}
            for name in names
            if ends[name] != starts[name]
        ]
        self._ends = ends
        return Pulled(pa.Table.from_pylist(rows, _RANGES), ends)

    @property
    def wants_acknowledgements(self) -> bool:
        """True if the user's spout has a method to hear about committed batches."""
        return type(self._users_spout).acknowledge is not PartitionedSpout.acknowledge

    def acknowledge(self, ends: Mapping[str, Any]) -> None:
        """Called when a batch is committed with the rows before these offsets."""
        read_ends = {name: end for name, end in ends.items() if end is not None}
        self._caller.open()
        with self._caller.raising_spout_errors(
            f"acknowledge({_repr(read_ends)})", "the batch is committed, and nothing is lost"
        ):
            self._caller.spout.acknowledge(_copy_for_user(read_ends))

    def close(self) -> None:
        """Closes the user's spout, if it was opened."""
        if self._own_copy is not None:
            self._own_copy.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Closes the user's spout as ``Caller`` does."""
        if self._own_copy is not None:
            self._own_copy.__exit__(kind)

    @property
    def _caller(self) -> Caller[PartitionedSpout]:
        """A copy of the user's spout, such as each task has: an opened spout cannot be sent to tasks."""
        if self._own_copy is None:
            self._own_copy = copy_for_calls(self._name, self._users_spout)
        return self._own_copy

    def _partition_names(self) -> list[str]:
        """Returns the partitions, sorted, because a set has another order in each process."""
        call = "partitions()"
        with self._caller.raising_spout_errors(call, "no row is lost"):
            answer = self._caller.spout.partitions()
            names = None if isinstance(answer, str) or not isinstance(answer, Iterable) else list(answer)
        if names is None:
            raise self._caller.error(
                f"{call} returned {type(answer).__name__} {_repr(answer)}",
                why="it returns the names of all partitions",
                do='return a list of texts, such as ["a", "b"]',
            )
        for name in names:
            if not isinstance(name, str) or not name or {unicodedata.category(each) for each in name} & _NOT_IN_NAMES:
                raise self._caller.error(
                    f"{call} returned the name {_repr(name)}",
                    why="it is a text without line breaks and control characters, of at least one letter",
                    do="return texts, such as str(number)",
                )
        names.sort()
        twice = next((name for name, following in pairwise(names) if name == following), None)
        if twice is not None:
            raise self._caller.error(
                f"{call} returned {twice!r} twice",
                why="its rows would be read twice",
                do="return each name once",
            )
        gone = sorted(self._ends.keys() - set(names))
        if gone:
            more = f", nor {len(gone) - 1} more" if len(gone) > 1 else ""
            raise self._caller.error(
                f"{call} does not return {gone[0]!r} any more{more}",
                why=f"it was read up to {_as_json(self._ends[gone[0]])}, and what comes behind would be lost in "
                "silence",
                do="return it further, also where it gets no more rows: end() returns None then; "
                "with_watermark(partition_idle_timeout=...) leaves it out of the watermark",
            )
        return names

    def _ask_begin(self, name: str) -> Any:
        call = f"begin({name!r})"

        def once() -> Any:
            with self._caller.raising_spout_errors(call, "nothing of it was read"):
                return self._caller.spout.begin(name)

        return self._caller.as_stored(call, self._caller.with_retries(once))

    def _ends_within_limit(self, starts: Mapping[str, Any], limit: int) -> dict[str, Any]:
        """Returns where the next batch ends in each partition.

        Each partition gets an equal share of ``limit``. If some have no new rows, the others are asked again with a
        larger share, since it is unknown how many rows they have.
        """
        share = max(limit // len(starts), 1) if starts else 0
        ends = {name: self._ask_end(name, start, share) for name, start in starts.items()}
        busy = [name for name in starts if ends[name] != starts[name]]
        if busy and limit // len(busy) > share:
            ends |= {name: self._ask_end(name, starts[name], limit // len(busy)) for name in busy}
        return ends

    def _ask_end(self, name: str, start: Any, limit: int) -> Any:
        call = f"end({name!r}, {_as_json(start)}, {limit})"

        def once() -> Any:
            with self._caller.raising_spout_errors(call, _NOTHING_LOST):
                return self._caller.spout.end(name, _copy_for_user(start), limit)

        end = self._caller.as_stored(call, self._caller.with_retries(once))
        if end is None:
            return start
        if _is_number(start) and _is_number(end) and end < start:
            raise self._caller.error(
                f"{call} returned {_as_json(end)}",
                why="that is before the offset up to which the partition was read: its rows would be read again",
                do="return the offset behind the last row; or None, where nothing is new",
            )
        return end


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def reader_of(name: str, spout: UsersSpout, offset: Any) -> Puller | RangePlanner:
    """Returns a reader of a spout from an offset on; ``offset``: None for the beginning."""
    if isinstance(spout, RangedSpout):
        return RangePlanner(name, spout, offset)
    assert isinstance(spout, PulledSpout)
    return Puller(name, spout, offset)


def copy_for_calls(name: str, spout: PartitionedSpout) -> Caller[PartitionedSpout]:
    """Returns a copy of a user's spout for calls: each process and each task has its own copy."""
    caller = Caller(name, spout)
    with caller.raising_spout_errors("__copy__()", "nothing was read"):
        return Caller(name, rebind_to_copy(copy.copy(spout), spout))


# Reads ranges of partitions in tasks.


@dataclass(frozen=True)
class PartitionRange:
    """Rows of one partition: after ``start``, up to ``end``."""

    partition: str
    start: Any
    end: Any

    @property
    def call(self) -> str:
        """Returns the call that reads the range, for messages."""
        return f"read({self.partition!r}, {_as_json(self.start)}, {_as_json(self.end)})"


@dataclass(frozen=True)
class RangeSource:
    """Ranges of a spout's partitions, which a task reads one after another."""

    component: str
    ranges: tuple[PartitionRange, ...]

    def read(self, topology: Graph) -> Iterator[SourceBatch]:
        """Yields the rows of the ranges: together, or each range by itself if they will be merged. Raises SpoutError
        for exceptions of the user's code, and for return values that are not rows with its columns."""
        node = topology.spouts[self.component]
        spout = node.spout
        assert isinstance(spout, RangedSpout | PulledRanges)
        merge_by, tables = spout.merge_by, list[pa.Table]()
        with copy_for_calls(self.component, spout.spout) as caller:
            for each in self.ranges:
                table = read_range(caller, each, node.outputs[DEFAULT_STREAM], node.defaults)
                tables.append(table if node.needed is None else table.select(node.schema.names))
        if merge_by is None:
            yield self._as_one_batch(tables)
            return
        for each, table in zip(self.ranges, tables, strict=True):
            yield SourceBatch(
                self.component,
                DEFAULT_STREAM,
                table,
                np.arange(table.num_rows),
                source=f"partition {each.partition}",
                shuffle_offset=_shuffle_offset(each.partition),
                merge_keys=keys_of(table.column(merge_by)),
                partition=each.partition,
            )

    def _as_one_batch(self, tables: list[pa.Table]) -> SourceBatch:
        sizes = [table.num_rows for table in tables]
        names = tuple(each.partition for each in self.ranges)
        return SourceBatch(
            self.component,
            DEFAULT_STREAM,
            pa.concat_tables(tables).combine_chunks(),
            np.concatenate([np.arange(size) for size in sizes]),
            shuffle_offset=np.repeat(np.array([_shuffle_offset(name) for name in names], np.int64), sizes),
            partition=RowPartitions(names, np.repeat(np.arange(len(names), dtype=np.int32), sizes)),
        )


def _shuffle_offset(partition: str) -> int:
    return zlib.crc32(partition.encode())


def read_range(
    caller: Caller[PartitionedSpout], partition_range: PartitionRange, schema: pa.Schema, defaults: Defaults
) -> pa.Table:
    """Returns the rows of a range with these columns. Raises SpoutError as ``RangeSource.read`` does."""

    def once() -> pa.Table:
        with caller.raising_spout_errors(partition_range.call, "no row is lost: the next run reads the same range"):
            rows = caller.spout.read(
                partition_range.partition, _copy_for_user(partition_range.start), _copy_for_user(partition_range.end)
            )
        if rows is None:
            raise caller.error(
                f"{partition_range.call} returned None",
                why="it returns the rows of the range, and without a return they would be lost in silence",
                do="return them; [] where there are none",
            )
        return caller.table(partition_range.call, rows, schema, defaults)

    return caller.with_retries(once)


def ranges_in(table: pa.Table) -> list[PartitionRange]:
    """Returns the ranges in a planner's table."""
    return [
        PartitionRange(row["partition"], json.loads(row["start"]), json.loads(row["end"])) for row in table.to_pylist()
    ]


def range_splits(
    component: str, ranges: list[PartitionRange], split_count: int, *, merged: bool
) -> list[SourceSplit | MergedSplits]:
    """Returns about ``split_count`` splits of ranges, in their order. ``merged``: True if their rows are merged by
    key."""
    ranges_per_split = max(-(-len(ranges) // max(split_count, 1)), 1)
    splits: list[SourceSplit | MergedSplits] = [
        RangeSource(component, tuple(ranges[at : at + ranges_per_split]))
        for at in range(0, len(ranges), ranges_per_split)
    ]
    return [MergedSplits(splits)] if merged and splits else splits  # type: ignore[arg-type]
