"""Segments in the memory of a process, lost when it ends."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

import pyarrow as pa

from manager.storage.segments.ref import Ref


@dataclass
class MemorySegments:
    """Segments in the memory of this process, for the local runner and tests."""

    tables: dict[str, list[pa.Table]] = field(default_factory=dict)

    def writer(self, folder: str) -> _MemoryWriter:
        """A writer of a new segment."""
        return _MemoryWriter(self, f"{folder}/{uuid.uuid4().hex}")

    def expect(self, refs: Iterable[Ref]) -> None:
        """Nothing is far away."""

    def read(self, ref: Ref) -> pa.Table:
        """The rows of a reference that are still needed."""
        return self.tables[ref.segment][ref.offset].slice(ref.start)


class _MemoryWriter:
    def __init__(self, store: MemorySegments, name: str) -> None:
        self.store, self.name = store, name

    def add(self, table: pa.Table) -> Ref:
        sections = self.store.tables.setdefault(self.name, [])
        sections.append(table)
        return Ref(self.name, len(sections) - 1, 0, table.num_rows)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self.store.tables.pop(self.name, None)
