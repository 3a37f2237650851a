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
        table = pa.concat_tables([table for piece in self.slices for table in _good_rows(self.store, piece)])
        keys = np.maximum(
            table.column(_KEY).to_numpy(), _per_row(self.slices, "rows", [piece.floor for piece in self.slices])
        )
        turns = _per_row(self.slices, "rows", [piece.part.turn for piece in self.slices])
        names = tuple(dict.fromkeys(piece.part.partition for piece in self.slices))
        codes = _per_row(self.slices, "rows", [names.index(piece.part.partition) for piece in self.slices])
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
        slices = [piece for piece in self.slices if piece.bad]
        if not slices:
            return None
        tables = [
            _section_rows(self.store, piece.part.bad, piece.bad) for piece in slices if piece.part.bad is not None
        ]
        table = pa.concat_tables(tables)
        keys = np.maximum(table.column(_KEY).to_numpy(), _per_row(slices, "bad", [piece.floor for piece in slices]))
        sources = [piece.part.source for piece in slices for _ in piece.bad]
        table = table.drop_columns([_KEY]).append_column(SOURCE, pa.array(sources, pa.string()))
        order = merged_order([keys])
        return table if order is None else taken(table, order)


def write_parts(split: SourceSplit, context: Context) -> list[Part]:
    """Read a split, and write its rows with their keys; a part for each of its sources."""
    writer = context.store.writer(context.folder)
    try:
        by_source = groupby(
            split.read(context.topology), key=lambda batch: (batch.component, batch.stream, batch.source)
        )
        return [_part(list(batches), writer) for _, batches in by_source]
    finally:
        writer.close()


def replace_merged(
    splits: Sequence[SourceSplit | MergedSplits], executor: Executor, context: Context, slots: int
) -> Sequence[SourceSplit]:
    """The splits, and in place of what is to be merged the runs of its order."""
    merged = [split for split in splits if isinstance(split, MergedSplits)]
    items = [part for split in merged for part in split.splits]
    written = iter(executor.map(write_parts, items, context) if items else ())
    pieces: list[SourceSplit] = []
    for split in splits:
        if isinstance(split, MergedSplits):
            parts = [part for _ in split.splits for part in next(written)]
            pieces.extend(runs(parts, context.store, slots))
        else:
            pieces.append(split)
    return pieces


def runs(parts: Sequence[Part], store: SegmentStore, slots: int) -> list[Run]:
    """The order of all rows of some parts, cut into about as many runs as there are slots.

    Rows are in order of (key, part, place); the parts of one source follow each other. Within a source the key of a row
    is the greatest so far, so that its rows stay in the order in which they lie there.
    """
    keys, bad, floors = _all_keys(parts, store)
    sizes = [len(part_keys) for part_keys in keys]
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
    rows_before = np.concatenate([np.zeros((1, len(parts)), np.int64), np.cumsum(counts, axis=0)])
    bad_before = np.column_stack([_before(flags, rows_before[:, run]) for run, flags in enumerate(bad)])
    good_before = rows_before - bad_before
    return [
        Run(
            store,
            tuple(
                Slice(
                    part,
                    range(int(good_before[run, part_index]), int(good_before[run + 1, part_index])),
                    range(int(bad_before[run, part_index]), int(bad_before[run + 1, part_index])),
                    floors[part_index],
                )
                for part_index, part in enumerate(parts)
                if rows_before[run + 1, part_index] > rows_before[run, part_index]
            ),
        )
        for run in range(len(edges) - 1)
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
        part_keys = np.maximum(table.column(_KEY).to_numpy(), floor)
        keys.append(part_keys)
        bad.append(table.column("bad").to_numpy() if "bad" in table.column_names else None)
        floors.append(floor)
        floor = int(part_keys[-1]) if len(part_keys) else floor
    return keys, bad, floors


def _before(flags: NDArray[np.bool_] | None, positions: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many are flagged before each place."""
    if flags is None:
        return np.zeros(len(positions), np.int64)
    return np.concatenate([[0], np.cumsum(flags)])[positions].astype(np.int64)


def _part(deliveries: list[SourceBatch], writer: SegmentWriter) -> Part:
    """Write what a source has delivered."""
    first = deliveries[0]
    assert isinstance(first.turn, int)
    assert isinstance(first.partition, str)
    rows: list[Ref] = []
    bad: list[pa.Table] = []
    keys: list[NDArray[np.int64]] = []
    bad_flags: list[NDArray[np.bool_]] = []
    reached = NONE
    for batch in deliveries:
        batch_keys, wrong = _in_order(batch, reached)
        count = len(batch.positions)
        keys.append(batch_keys)
        bad_flags.append(wrong)
        reached = int(batch_keys[-1]) if len(batch_keys) else reached
        columns = {_KEY: batch_keys[~wrong], _PLACE: batch.positions}
        table = batch.table
        for name, values in columns.items():
            table = table.append_column(name, pa.array(values, pa.int64()))
        rows.extend(writer.add(table.slice(at, _SECTION)) for at in range(0, count, _SECTION))
        if wrong.any():
            assert batch.bad is not None
            bad.append(batch.bad.select(BAD_SCHEMA.names).append_column(_KEY, pa.array(batch_keys[wrong], pa.int64())))
    if not rows:  # so that the columns are known
        empty = first.table.slice(0, 0)
        rows.append(writer.add(empty.append_column(_KEY, _NO_KEYS).append_column(_PLACE, _NO_KEYS)))
    columns = {_KEY: np.concatenate(keys)}
    if bad:
        columns["bad"] = np.concatenate(bad_flags)
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
        bad_positions = delivery.bad.column("row").fill_null(-1).to_numpy()
        bad_keys = np.full(len(bad_positions), NONE, np.int64) if delivery.bad_keys is None else delivery.bad_keys
        order = np.argsort(np.concatenate([delivery.positions, bad_positions]), kind="stable")
        keys = np.concatenate([keys, bad_keys])[order]
        wrong = order >= len(delivery.keys)
    return np.maximum.accumulate(np.maximum(keys, reached)), wrong


def _good_rows(store: SegmentStore, piece: Slice) -> Iterator[pa.Table]:
    """The good rows of a slice, out of the sections that they lie in."""
    first, any_rows = 0, False
    for ref in piece.part.rows:
        low, high = max(piece.rows.start, first), min(piece.rows.stop, first + ref.rows)
        if low < high:
            any_rows = True
            yield store.read(ref).slice(low - first, high - low)
        first += ref.rows
    if not any_rows:
        yield store.read(piece.part.rows[0]).slice(0, 0)


def _section_rows(store: SegmentStore, ref: Ref, wanted: range) -> pa.Table:
    return store.read(ref).slice(wanted.start, len(wanted))


def _per_row(slices: Iterable[Slice], kind: str, values: list[int]) -> NDArray[Any]:
    """A value of each slice, once for each of its rows."""
    return np.repeat(np.array(values, np.int64), [len(getattr(piece, kind)) for piece in slices])
