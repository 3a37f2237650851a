"""Where the watermark that a stream carries comes from, and by how much it is shifted on the way (SI-25)."""

from __future__ import annotations

from dataclasses import dataclass

from windowing.time.timestamps import FOREVER


@dataclass(frozen=True, order=True)
class Origin:
    """A windowed bolt whose watermark a stream carries, and by how much it is shifted on the way (SI-25)."""

    bolt: str
    shift: int = 0
    """Microseconds."""


def shifted(time: int, shift: int) -> int:
    """A time moved later by a number of microseconds; the end of time stays where it is."""
    return time if time == FOREVER else time + shift
