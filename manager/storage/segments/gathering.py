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
from manager.storage.segments.read_ahead import AT_ONCE
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
    """Copy sections into a new segment in the folder; each is verified. A request for each segment, several at a time.

    Raises DamagedCheckpoint where bytes are not what they were, StorageError where they cannot be read or written.
    """
    first, spans = _spans(store, wanted)
    offsets = np.empty(len(wanted.segments), np.int64)
    with store.writer(folder) as writer:
        for at, (segment, extent) in enumerate(zip(wanted.segments.tolist(), wanted.extents.tolist(), strict=True)):
            offset, length, rows, checksum = extent
            start = offset - first[segment]
            section = spans[segment][start : start + length]
            store.verify(Ref(wanted.names[segment], offset, length, rows, checksum=checksum), section)
            offsets[at] = writer.begin_section()
            writer.append(section)
    return GatherOutcome(writer.name, offsets)


def _spans(store: FileSegments, wanted: GatherItem) -> tuple[list[int], list[pa.Buffer]]:
    """Per segment, the bytes from its first section that is wanted to the end of its last one; and where they begin."""
    starts, ends = wanted.extents[:, 0], wanted.extents[:, 0] + wanted.extents[:, 1]
    first = np.full(len(wanted.names), np.iinfo(np.int64).max)
    last = np.zeros(len(wanted.names), np.int64)
    np.minimum.at(first, wanted.segments, starts)
    np.maximum.at(last, wanted.segments, ends)

    def read(segment: int) -> pa.Buffer:
        start = int(first[segment])
        return pa.py_buffer(store.span(wanted.names[segment], start, int(last[segment]) - start))

    with ThreadPoolExecutor(min(AT_ONCE, len(wanted.names))) as threads:
        return first.tolist(), list(threads.map(read, range(len(wanted.names))))
