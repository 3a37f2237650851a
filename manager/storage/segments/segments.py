"""Segments: immutable files of Arrow streams, one stream per bolt task; they are state, log and exchange in one.

A segment is a sequence of Arrow IPC streams, each beginning at a multiple of 64 bytes. The position, length
and checksum of each are not in the file but in the references to it, which the manifest holds.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import Protocol

import pyarrow as pa

from manager.storage.segments.ref import Ref


class SegmentWriter(Protocol):
    """Writes one segment; the sections in the order in which they are added."""

    def add(self, table: pa.Table) -> Ref: ...


class SegmentDraft(SegmentWriter, Protocol):
    """A segment being written: ``with store.writer(folder) as writer:``. It is deleted if
    the block raises an error."""

    def __enter__(self) -> SegmentWriter: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class SegmentStore(Protocol):
    """Where segments are kept."""

    def writer(self, folder: str) -> SegmentDraft: ...
    def expect(self, refs: Iterable[Ref]) -> None: ...
    def read(self, ref: Ref) -> pa.Table: ...
