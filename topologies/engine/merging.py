"""Merges several parts of input (partitions of a topic, or files) into one order, by a key of their rows.

A task for each part writes its rows with their keys. The driver computes the order of the batch from the keys alone,
and cuts it into ranges. A range is a split like any other: a task takes its rows from the parts, in order, and routes
them. So only this file knows about parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from manager.storage.segments import Ref, SegmentStore, SegmentWriter
from policies.watermarks import NONE
from topologies.engine.batch import Context, Executor
from topologies.engine.task_data import MergedSplits, RowPartitions, SourceBatch, SourceSplit
from topologies.graph.graph import MERGE_COLUMNS, MERGE_KEY_COLUMN, MERGE_PLACE_COLUMN, TRUNCATED_COLUMN
from topologies.io.formats.event_files import BAD_SCHEMA
from windowing.columns import merged_order, take_rows
from windowing.timestamps import to_integers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from topologies.graph.graph import Graph


_SECTION_ROWS = 1 << 16
"""Rows per section of a part; a range opens only sections that contain its rows."""
_LEAST_ROWS = 1 << 13
"""Minimum number of rows per run."""
SOURCE_COLUMN = "source"
"""Column of bad rows with the name of their part."""


@dataclass(frozen=True, kw_only=True)
class MergeInput:
    """A partition or file, or a portion of one, written by a task."""

    component: str
    stream: str
    source: str
    shuffle_offset: int
    partition: str
    rows: tuple[Ref, ...]
    """The readable rows, in sections, with their positions and keys."""
    bad: Ref | None
    """The unreadable rows; None without such rows."""
    tombstones: int
    """Number of omitted records without a value."""
    keys: Ref
    """The keys of all rows, in the order of the part, and a mask of bad rows."""


@dataclass(frozen=True)
class InputRange:
    """A range of the good rows of a part, and the range of bad rows among them."""

    part: MergeInput
    rows: range
    bad: range
    key_before: int
    """The greatest key before this part in its source."""


@dataclass(frozen=True)
class MergedRange:
    """A range of the merged order of a batch, as a split of a source."""

    store: SegmentStore
    ranges: tuple[InputRange, ...]
    tombstones: int = 0
    """Number of records without a value that the batch omits; 0 except in the first range."""

    def read(self, topology: Graph) -> Iterator[SourceBatch]:
        """Yields the rows of the range in merged order."""
        first_part = self.ranges[0].part
        table = pa.concat_tables([table for each in self.ranges for table in _good_rows(self.store, each)])
        keys = np.maximum(
            table.column(MERGE_KEY_COLUMN).to_numpy(),
            _per_row(self.ranges, "rows", [each.key_before for each in self.ranges]),
        )
        offsets = _per_row(self.ranges, "rows", [each.part.shuffle_offset for each in self.ranges])
        names = tuple(dict.fromkeys(each.part.partition for each in self.ranges))
        codes = _per_row(self.ranges, "rows", [names.index(each.part.partition) for each in self.ranges])
        origins = RowPartitions(names, codes.astype(np.int32))
        order = merged_order([keys])
        if order is not None:
            table, offsets, origins = take_rows(table, order), offsets[order], origins.take(order)
        yield SourceBatch(
            first_part.component,
            first_part.stream,
            table.drop_columns([*MERGE_COLUMNS]),
            table.column(MERGE_PLACE_COLUMN).to_numpy(),
            self._bad_rows(),
            truncated=_mask_or_none(table.column(TRUNCATED_COLUMN)),
            tombstones=self.tombstones,
            shuffle_offset=offsets,
            partition=origins if any(names) else "",
        )

    def _bad_rows(self) -> pa.Table | None:
        """Returns the unreadable rows in merged order, each with its source; None without such rows."""
        ranges = [each for each in self.ranges if each.bad]
        if not ranges:
            return None
        tables = [_section_rows(self.store, each.part.bad, each.bad) for each in ranges if each.part.bad is not None]
        table = pa.concat_tables(tables)
        keys = np.maximum(
            table.column(MERGE_KEY_COLUMN).to_numpy(),
            _per_row(ranges, "bad", [each.key_before for each in ranges]),
        )
        sources = [each.part.source for each in ranges for _ in each.bad]
        table = table.drop_columns([MERGE_KEY_COLUMN]).append_column(SOURCE_COLUMN, pa.array(sources, pa.string()))
        order = merged_order([keys])
        return table if order is None else take_rows(table, order)


def write_parts(split: SourceSplit, context: Context) -> list[MergeInput]:
    """Reads a split and writes its rows with their keys; returns a part for each of its sources."""
    with context.store.writer(context.key) as writer:
        by_source = groupby(
            split.read(context.topology), key=lambda batch: (batch.component, batch.stream, batch.source)
        )
        return [_write_part(list(batches), writer) for _, batches in by_source]


def replace_merged(
    splits: Sequence[SourceSplit | MergedSplits], executor: Executor, context: Context, range_count: int
) -> Sequence[SourceSplit]:
    """Returns the splits, with ranges of the merged order in place of each ``MergedSplits``.

    ``range_count`` is the number of ranges to aim for.
    """
    merged = [split for split in splits if isinstance(split, MergedSplits)]
    items = [part for split in merged for part in split.splits]
    written = iter(executor.map(write_parts, items, context) if items else ())
    replaced: list[SourceSplit] = []
    for split in splits:
        if isinstance(split, MergedSplits):
            parts = [part for _ in split.splits for part in next(written)]
            replaced.extend(cut_into_ranges(parts, context.store, range_count))
        else:
            replaced.append(split)
    return replaced


def cut_into_ranges(parts: Sequence[MergeInput], store: SegmentStore, range_count: int) -> list[MergedRange]:
    """Cuts the merged order of all rows of some parts into about ``range_count`` ranges.

    Rows are ordered by (key, part, position); the parts of one source are adjacent. Within a source, the key of a row
    is the greatest so far, so rows keep their order.
    """
    keys, bad, keys_before = _all_keys(parts, store)
    sizes = [len(part_keys) for part_keys in keys]
    total = sum(sizes)
    tombstones = sum(part.tombstones for part in parts)
    if not total:
        empty_ranges = tuple(InputRange(part, range(0), range(0), keys_before[at]) for at, part in enumerate(parts))
        return [MergedRange(store, empty_ranges, tombstones)] if tombstones else []
    edges = np.linspace(0, total, max(min(range_count, total // _LEAST_ROWS), 1) + 1).astype(np.int64)
    order = merged_order(keys)
    owners = np.repeat(np.arange(len(parts)), sizes)
    if order is not None:
        owners = owners[order]
    # Number of rows of each part before each edge, and how many of these are bad.
    counts = [np.bincount(owners[low:high], minlength=len(parts)) for low, high in pairwise(edges.tolist())]
    rows_before = np.concatenate([np.zeros((1, len(parts)), np.int64), np.cumsum(counts, axis=0)])
    bad_before = np.column_stack(
        [_flagged_before(flags, rows_before[:, range_index]) for range_index, flags in enumerate(bad)]
    )
    good_before = rows_before - bad_before
    return [
        MergedRange(
            store,
            tuple(
                InputRange(
                    part,
                    range(int(good_before[range_index, part_index]), int(good_before[range_index + 1, part_index])),
                    range(int(bad_before[range_index, part_index]), int(bad_before[range_index + 1, part_index])),
                    keys_before[part_index],
                )
                for part_index, part in enumerate(parts)
                if rows_before[range_index + 1, part_index] > rows_before[range_index, part_index]
            ),
            0 if range_index else tombstones,
        )
        for range_index in range(len(edges) - 1)
    ]


def keys_of(column: pa.ChunkedArray) -> NDArray[np.int64]:
    """Returns the merge keys from a column of times or whole numbers; NONE for null, whose row keeps its position."""
    values, valid = to_integers(column)
    return values if valid is None else np.where(valid, values, NONE)


def _all_keys(
    parts: Sequence[MergeInput], store: SegmentStore
) -> tuple[list[NDArray[np.int64]], list[NDArray[np.bool_] | None], list[int]]:
    """Returns, for each part, its keys, a mask of its bad rows (None without bad rows), and the greatest key before the
    part in its source."""
    keys: list[NDArray[np.int64]] = []
    bad: list[NDArray[np.bool_] | None] = []
    keys_before: list[int] = []
    source, key_before = "", NONE
    for part in parts:
        if part.source != source:
            source, key_before = part.source, NONE
        table = store.read(part.keys)
        part_keys = np.maximum(table.column(MERGE_KEY_COLUMN).to_numpy(), key_before)
        keys.append(part_keys)
        bad.append(table.column("bad").to_numpy() if "bad" in table.column_names else None)
        keys_before.append(key_before)
        key_before = int(part_keys[-1]) if len(part_keys) else key_before
    return keys, bad, keys_before


def _flagged_before(flags: NDArray[np.bool_] | None, positions: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns the number of flagged rows before each position."""
    if flags is None:
        return np.zeros(len(positions), np.int64)
    return np.concatenate([[0], np.cumsum(flags)])[positions].astype(np.int64)


def _write_part(source_batches: list[SourceBatch], writer: SegmentWriter) -> MergeInput:
    """Writes the rows of one source as a part."""
    first_batch = source_batches[0]
    assert isinstance(first_batch.shuffle_offset, int)
    assert isinstance(first_batch.partition, str)
    rows: list[Ref] = []
    bad: list[pa.Table] = []
    keys: list[NDArray[np.int64]] = []
    bad_flags: list[NDArray[np.bool_]] = []
    greatest_key = NONE
    for batch in source_batches:
        batch_keys, is_bad = _keys_in_order(batch, greatest_key)
        count = len(batch.positions)
        keys.append(batch_keys)
        bad_flags.append(is_bad)
        greatest_key = int(batch_keys[-1]) if len(batch_keys) else greatest_key
        columns = {MERGE_KEY_COLUMN: batch_keys[~is_bad], MERGE_PLACE_COLUMN: batch.positions}
        table = batch.table
        for name, values in columns.items():
            table = table.append_column(name, pa.array(values, pa.int64()))
        truncated = np.zeros(count, np.bool_) if batch.truncated is None else batch.truncated
        table = table.append_column(TRUNCATED_COLUMN, pa.array(truncated))
        rows.extend(writer.add(table.slice(at, _SECTION_ROWS)) for at in range(0, count, _SECTION_ROWS))
        if is_bad.any():
            assert batch.bad is not None
            bad.append(
                batch.bad.select(BAD_SCHEMA.names).append_column(
                    MERGE_KEY_COLUMN, pa.array(batch_keys[is_bad], pa.int64())
                )
            )
    if not rows:  # an empty section, which has the columns
        empty = first_batch.table.slice(0, 0)
        for name in MERGE_COLUMNS:
            empty = empty.append_column(name, pa.array([], pa.bool_() if name == TRUNCATED_COLUMN else pa.int64()))
        rows.append(writer.add(empty))
    columns = {MERGE_KEY_COLUMN: np.concatenate(keys)}
    if bad:
        columns["bad"] = np.concatenate(bad_flags)
    return MergeInput(
        component=first_batch.component,
        stream=first_batch.stream,
        source=first_batch.source,
        shuffle_offset=first_batch.shuffle_offset,
        partition=first_batch.partition,
        tombstones=sum(batch.tombstones for batch in source_batches),
        rows=tuple(rows),
        bad=writer.add(pa.concat_tables(bad)) if bad else None,
        keys=writer.add(pa.table(columns)),
    )


def _keys_in_order(source_batch: SourceBatch, greatest_key: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Returns the keys of all rows, good and bad, in the order of the source, and a mask of bad rows.

    A key is the greatest so far: a row with a smaller key, or without one, stays with the row before it.
    """
    assert source_batch.merge_keys is not None
    keys, is_bad = source_batch.merge_keys, np.zeros(len(source_batch.merge_keys), np.bool_)
    if source_batch.bad is not None and len(source_batch.bad):
        bad_positions = source_batch.bad.column("row").fill_null(-1).to_numpy()
        bad_keys = (
            np.full(len(bad_positions), NONE, np.int64)
            if source_batch.bad_merge_keys is None
            else source_batch.bad_merge_keys
        )
        order = np.argsort(np.concatenate([source_batch.positions, bad_positions]), kind="stable")
        keys = np.concatenate([keys, bad_keys])[order]
        is_bad = order >= len(source_batch.merge_keys)
    return np.maximum.accumulate(np.maximum(keys, greatest_key)), is_bad


def _good_rows(store: SegmentStore, input_range: InputRange) -> Iterator[pa.Table]:
    """Yields the good rows of a range, from the sections that contain them."""
    first_row, any_rows = 0, False
    for ref in input_range.part.rows:
        low, high = max(input_range.rows.start, first_row), min(input_range.rows.stop, first_row + ref.rows)
        if low < high:
            any_rows = True
            yield store.read(ref).slice(low - first_row, high - low)
        first_row += ref.rows
    if not any_rows:
        yield store.read(input_range.part.rows[0]).slice(0, 0)


def _section_rows(store: SegmentStore, ref: Ref, wanted: range) -> pa.Table:
    return store.read(ref).slice(wanted.start, len(wanted))


def _mask_or_none(column: pa.ChunkedArray) -> NDArray[np.bool_] | None:
    """Returns a mask, or None if it marks nothing."""
    found: NDArray[np.bool_] = column.to_numpy()
    return found if found.any() else None


def _per_row(ranges: Iterable[InputRange], kind: str, values: list[int]) -> NDArray[Any]:
    """Returns one value per range, repeated for each of its rows."""
    return np.repeat(np.array(values, np.int64), [len(getattr(each, kind)) for each in ranges])
