"""Segments: immutable files of Arrow streams, one stream per bolt task; they are state, log and exchange in one.

A segment is a sequence of Arrow IPC streams, each beginning at a multiple of 64 bytes. Where each lies is not in the
file but in the references that point to it, which the manifest keeps, and so is the checksum of each.
"""

from __future__ import annotations

from types import TracebackType
from typing import Protocol

import pyarrow as pa

from manager.storage.ref import Ref


class SegmentWriter(Protocol):
    """Writes one segment; the sections in the order in which they are added."""

    def add(self, table: pa.Table) -> Ref: ...


class SegmentDraft(SegmentWriter, Protocol):
    """A segment while it is written: ``with store.writer(folder) as writer:``. Where an error leaves the block, nothing
    of it stays."""

    def __enter__(self) -> SegmentWriter: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class SegmentStore(Protocol):
    """Where segments are kept."""

    def writer(self, folder: str) -> SegmentDraft: ...
    def read(self, ref: Ref) -> pa.Table: ...
