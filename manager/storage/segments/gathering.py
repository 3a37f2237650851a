"""Copies sections of many segments into one segment, in the order in which they are asked for.

Whoever needs some sections of each of many objects makes a request to each of them. If those that are needed together
lie together, in few objects, it makes few.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from manager.storage.segments.file_segments import FileSegments
from manager.storage.segments.read_ahead import AT_ONCE, PIECE
from manager.storage.segments.ref import Ref

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class GatherItem:
    """The sections of some segments, in the order in which they are to lie."""

    names: Sequence[str]
    """The segments, each once; of each at least one section."""
    segments: NDArray[np.int64]
    """Per section, the place of its segment among the names."""
    extents: NDArray[np.int64]
    """Shape (sections, 4): the offset, length, number of rows and checksum of each."""


@dataclass(frozen=True)
class GatherOutcome:
    """The segment that they have been copied to."""

    name: str
    offsets: NDArray[np.int64]
    """Where each of them begins, in bytes."""


def gather_sections(store: FileSegments, folder: str, wanted: GatherItem) -> GatherOutcome:
    """Copy sections into a new segment in the folder; each is verified. Sections that lie beside each other are read
    with one request, several requests at a time.

    Raises DamagedCheckpoint where bytes are not what they were, StorageError where they cannot be read or written.
    """
    runs, of_section = _runs(wanted)
    read = _read(store, wanted.names, runs)
    offsets = np.empty(len(wanted.segments), np.int64)
    with store.writer(folder) as writer:
        for at, (segment, extent) in enumerate(zip(wanted.segments.tolist(), wanted.extents.tolist(), strict=True)):
            offset, length, rows, checksum = extent
            start = offset - runs[of_section[at]][1]
            section = read[of_section[at]][start : start + length]
            store.verify(Ref(wanted.names[segment], offset, length, rows, checksum=checksum), section)
            offsets[at] = writer.begin_section()
            writer.append(section)
    return GatherOutcome(writer.name, offsets)


def _runs(wanted: GatherItem) -> tuple[list[tuple[int, int, int]], list[int]]:
    """What is read at once, sections that lie beside each other, with at most a request's worth of other bytes between
    two: the segment, the first byte and the number of bytes of each such run; and the run of each section."""
    starts, ends = wanted.extents[:, 0], wanted.extents[:, 0] + wanted.extents[:, 1]
    order = np.lexsort((starts, wanted.segments))
    segments, starts, ends = wanted.segments[order], starts[order], ends[order]
    begins = np.ones(len(order), np.bool_)
    begins[1:] = (segments[1:] != segments[:-1]) | (starts[1:] - ends[:-1] > PIECE)
    of_section = np.empty(len(order), np.int64)
    of_section[order] = np.cumsum(begins) - 1
    first = np.flatnonzero(begins)
    last = np.append(first[1:], len(order)) - 1
    runs = zip(segments[first].tolist(), starts[first].tolist(), (ends[last] - starts[first]).tolist(), strict=True)
    return list(runs), of_section.tolist()


def _read(store: FileSegments, names: Sequence[str], runs: Sequence[tuple[int, int, int]]) -> list[pa.Buffer]:
    """The bytes of each run."""

    def read(run: tuple[int, int, int]) -> pa.Buffer:
        segment, start, length = run
        return pa.py_buffer(store.span(names[segment], start, length))

    with ThreadPoolExecutor(min(AT_ONCE, len(runs))) as threads:
        return list(threads.map(read, runs))
