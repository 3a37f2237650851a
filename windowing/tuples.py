"""A single event as a Python object, made only when a bolt asks for one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Tuple:
    """One event of a window: its fields by name, its event time and the stream it came from."""

    values: dict[str, Any]
    timestamp: int
    """Event time in microseconds since the epoch; in processing time, the clock at arrival."""
    stream: str

    def __getitem__(self, field: str) -> Any:
        return self.values[field]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values.values())

    def get(self, field: str, default: Any = None) -> Any:
        """The value of a field, or the default where the event has no such field."""
        return self.values.get(field, default)
