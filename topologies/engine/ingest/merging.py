"""Input that lies in parts, partitions of a topic or files, and arrives in one order: that of a key of its rows.

Each part is read by a task of its own, which sets it down with the keys of its rows. The driver settles the order of
the batch by the keys alone, and cuts it into runs. A run is a split like any other: a task takes its rows out of the
parts, in order, and brings them to whoever reads them. So nothing behind this file knows of parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from manager.storage.segments import Ref, SegmentStore, SegmentWriter
from manager.storage.taking import taken
from policies.marks import NONE
from topologies.engine.batch.plan import Context, Executor, MergedSplits, Origins, SourceBatch, SourceSplit
from topologies.io.formats.bad import BAD_SCHEMA
from windowing.order import merged_order
from windowing.timestamps import integers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from topologies.graph.model import Topology

_KEY, _PLACE = "_merge_key", "_place"
_SECTION = 1 << 16
"""So many rows of a part lie together: a run opens the sections that it has rows of."""
_LEAST = 1 << 13
"""Rows that are worth a task of their own."""
SOURCE = "source"
"""The column of bad rows that says which part each is from."""


@dataclass(frozen=True)
class Part:
    """A partition or file, or a part of it, as a task has set it down."""

    component: str
    stream: str
    source: str
    turn: int
    partition: str
    rows: tuple[Ref, ...]
    """What could be read, in sections of so many rows, with places and keys."""
    bad: Ref | None
    """What could not."""
    keys: Ref
    """Key by key, in the order of the part, and whether the row is a bad one."""


@dataclass(frozen=True)
class Slice:
    """Rows of a part, one after the other: so many good ones, and bad ones, from so many on."""

    part: Part
    rows: range
    bad: range
    floor: int
    """The greatest key of what lay before this part in its source."""


@dataclass(frozen=True)
class Run:
    """A run of the order of a batch: a split of its source."""

    store: SegmentStore
    slices: tuple[Slice, ...]

    def read(self, topology: Topology) -> Iterator[SourceBatch]:
        """The rows, in order."""
        first = self.slices[0].part
        table = pa.concat_tables([table for each in self.slices for table in _good(self.store, each)])
        keys = np.maximum(table.column(_KEY).to_numpy(), _each(self.slices, "rows", [at.floor for at in self.slices]))
        turns = _each(self.slices, "rows", [at.part.turn for at in self.slices])
        names = tuple(dict.fromkeys(each.part.partition for each in self.slices))
        codes = _each(self.slices, "rows", [names.index(each.part.partition) for each in self.slices])
        origins = Origins(names, codes.astype(np.int32))
        order = merged_order([keys])
        if order is not None:
            table, turns, origins = taken(table, order), turns[order], origins.take(order)
        yield SourceBatch(
            first.component,
            first.stream,
            table.drop_columns([_KEY, _PLACE]),
            table.column(_PLACE).to_numpy(),
            self._bad(),
            turn=turns,
            partition=origins if any(names) else "",
        )

    def _bad(self) -> pa.Table | None:
        """The rows that could not be read, in order, each with its source."""
        slices = [each for each in self.slices if each.bad]
        if not slices:
            return None
        tables = [_rows(self.store, each.part.bad, each.bad) for each in slices if each.part.bad is not None]
        table = pa.concat_tables(tables)
        keys = np.maximum(table.column(_KEY).to_numpy(), _each(slices, "bad", [each.floor for each in slices]))
        sources = [each.part.source for each in slices for _ in each.bad]
        table = table.drop_columns([_KEY]).append_column(SOURCE, pa.array(sources, pa.string()))
        order = merged_order([keys])
        return table if order is None else taken(table, order)


def set_down(split: SourceSplit, context: Context) -> list[Part]:
    """Read a split, and write its rows with their keys; a part for each of its sources."""
    writer = context.store.writer(context.folder)
    try:
        deliveries = groupby(split.read(context.topology), key=lambda each: (each.component, each.stream, each.source))
        return [_part(list(found), writer) for _, found in deliveries]
    finally:
        writer.close()


def in_pieces(
    splits: Sequence[SourceSplit | MergedSplits], executor: Executor, context: Context, slots: int
) -> Sequence[SourceSplit]:
    """The splits, and in place of what is to be merged the runs of its order."""
    parted = [each for each in splits if isinstance(each, MergedSplits)]
    if not parted:
        return [each for each in splits if not isinstance(each, MergedSplits)]
    items = [split for each in parted for split in each.splits]
    written = iter(executor.map(set_down, items, context))
    found: list[SourceSplit] = []
    for each in splits:
        if isinstance(each, MergedSplits):
            parts = [part for _ in each.splits for part in next(written)]
            found.extend(runs(parts, context.store, slots))
        else:
            found.append(each)
    return found


def runs(parts: Sequence[Part], store: SegmentStore, slots: int) -> list[Run]:
    """The order of all rows of some parts, cut into about as many runs as there are slots.

    Rows are in order of (key, part, place); the parts of one source follow each other. Within a source the key of a row
    is the greatest so far, so that its rows stay in the order in which they lie there.
    """
    keys, bad, floors = _all_keys(parts, store)
    sizes = [len(each) for each in keys]
    total = sum(sizes)
    if not total:
        return []
    edges = np.linspace(0, total, max(min(slots, total // _LEAST), 1) + 1).astype(np.int64)
    order = merged_order(keys)
    owners = np.repeat(np.arange(len(parts)), sizes)
    if order is not None:
        owners = owners[order]
    # How many rows of each part lie before each edge, and how many of these are bad.
    counts = [np.bincount(owners[low:high], minlength=len(parts)) for low, high in pairwise(edges.tolist())]
    until = np.concatenate([np.zeros((1, len(parts)), np.int64), np.cumsum(counts, axis=0)])
    spoiled = np.column_stack([_before(flags, until[:, at]) for at, flags in enumerate(bad)])
    good = until - spoiled
    return [
        Run(
            store,
            tuple(
                Slice(
                    part,
                    range(int(good[at, number]), int(good[at + 1, number])),
                    range(int(spoiled[at, number]), int(spoiled[at + 1, number])),
                    floors[number],
                )
                for number, part in enumerate(parts)
                if until[at + 1, number] > until[at, number]
            ),
        )
        for at in range(len(edges) - 1)
    ]


def keys_of(column: pa.ChunkedArray) -> NDArray[np.int64]:
    """The keys that a column of times or whole numbers gives; NONE where it is null: such a row stays where it lies."""
    values, valid = integers(column)
    return values if valid is None else np.where(valid, values, NONE)


def _all_keys(
    parts: Sequence[Part], store: SegmentStore
) -> tuple[list[NDArray[np.int64]], list[NDArray[np.bool_] | None], list[int]]:
    """Of each part: its keys, which rows are bad (None: none is), and the greatest key before it in its source."""
    keys: list[NDArray[np.int64]] = []
    bad: list[NDArray[np.bool_] | None] = []
    floors: list[int] = []
    source, floor = "", NONE
    for part in parts:
        if part.source != source:
            source, floor = part.source, NONE
        table = store.read(part.keys)
        mine = np.maximum(table.column(_KEY).to_numpy(), floor)
        keys.append(mine)
        bad.append(table.column("bad").to_numpy() if "bad" in table.column_names else None)
        floors.append(floor)
        floor = int(mine[-1]) if len(mine) else floor
    return keys, bad, floors


def _before(flags: NDArray[np.bool_] | None, places: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many are flagged before each place."""
    if flags is None:
        return np.zeros(len(places), np.int64)
    return np.concatenate([[0], np.cumsum(flags)])[places].astype(np.int64)


def _part(deliveries: list[SourceBatch], writer: SegmentWriter) -> Part:
    """Write what a source has delivered."""
    first = deliveries[0]
    assert isinstance(first.turn, int)
    assert isinstance(first.partition, str)
    rows: list[Ref] = []
    bad: list[pa.Table] = []
    keys: list[NDArray[np.int64]] = []
    spoiled: list[NDArray[np.bool_]] = []
    reached = NONE
    for each in deliveries:
        found, wrong = _in_order(each, reached)
        count = len(each.positions)
        keys.append(found)
        spoiled.append(wrong)
        reached = int(found[-1]) if len(found) else reached
        columns = {_KEY: found[~wrong], _PLACE: each.positions}
        table = each.table
        for name, values in columns.items():
            table = table.append_column(name, pa.array(values, pa.int64()))
        rows.extend(writer.add(table.slice(at, _SECTION)) for at in range(0, count, _SECTION))
        if wrong.any():
            assert each.bad is not None
            bad.append(each.bad.select(BAD_SCHEMA.names).append_column(_KEY, pa.array(found[wrong], pa.int64())))
    if not rows:  # so that the columns are known
        empty = first.table.slice(0, 0)
        rows.append(writer.add(empty.append_column(_KEY, _NO_KEYS).append_column(_PLACE, _NO_KEYS)))
    columns = {_KEY: np.concatenate(keys)}
    if bad:
        columns["bad"] = np.concatenate(spoiled)
    return Part(
        first.component,
        first.stream,
        first.source,
        first.turn,
        first.partition,
        tuple(rows),
        writer.add(pa.concat_tables(bad)) if bad else None,
        writer.add(pa.table(columns)),
    )


_NO_KEYS = pa.array([], pa.int64())


def _in_order(delivery: SourceBatch, reached: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The keys of all rows, good and bad, in the order in which they lie there; and which are bad.

    A key is the greatest so far: a row whose own is less, or that has none, comes with the row before it.
    """
    assert delivery.keys is not None
    keys, wrong = delivery.keys, np.zeros(len(delivery.keys), np.bool_)
    if delivery.bad is not None and len(delivery.bad):
        places = delivery.bad.column("row").fill_null(-1).to_numpy()
        theirs = np.full(len(places), NONE, np.int64) if delivery.bad_keys is None else delivery.bad_keys
        order = np.argsort(np.concatenate([delivery.positions, places]), kind="stable")
        keys = np.concatenate([keys, theirs])[order]
        wrong = order >= len(delivery.keys)
    return np.maximum.accumulate(np.maximum(keys, reached)), wrong


def _good(store: SegmentStore, each: Slice) -> Iterator[pa.Table]:
    """The good rows of a slice, out of the sections that they lie in."""
    first, some = 0, False
    for ref in each.part.rows:
        low, high = max(each.rows.start, first), min(each.rows.stop, first + ref.rows)
        if low < high:
            some = True
            yield store.read(ref).slice(low - first, high - low)
        first += ref.rows
    if not some:
        yield store.read(each.part.rows[0]).slice(0, 0)


def _rows(store: SegmentStore, ref: Ref, wanted: range) -> pa.Table:
    return store.read(ref).slice(wanted.start, len(wanted))


def _each(slices: Iterable[Slice], kind: str, values: list[int]) -> NDArray[Any]:
    """A value of each slice, once for each of its rows."""
    return np.repeat(np.array(values, np.int64), [len(getattr(each, kind)) for each in slices])
